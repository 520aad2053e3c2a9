/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How a test target tells what it knows of its own heap.
 *
 * A target prints one fact per line, then READY, and sleeps until its standard
 * input ends (ten minutes at most). The facts:
 *
 *   leak 0xADDR SIZE        nothing reaches this block; leak-direct and
 *                           leak-indirect also say of which kind it is
 *   possible 0xADDR SIZE    only an unreachable mapping holds it
 *   doubtful 0xADDR SIZE    only a part of a stack that may be dead holds it
 *   interior 0xADDR SIZE    alive, by interior pointers only
 *   unaligned 0xADDR SIZE   a leak, unless --unaligned is given
 *   live 0xADDR SIZE        something unusual keeps it alive
 *   mapping 0xADDR SIZE     mmap'd memory that nothing reaches
 *   pid N                   scan this process instead
 *
 * SIZE is the block's usable size. A printed address must leave no copy in the
 * process, or the scan would rightly find the block alive: the text is made in
 * a buffer on the stack and goes out by write(2), and forget() then clears
 * everything that is dead: the stack below the caller, and all registers that
 * a call may leave dirty. So: make leaks in a NOINLINE function, tell them
 * there, and call forget() from a frame that never held the pointer.
 */
#ifndef MEMSCAN_TESTS_TARGETS_TRUTH_H
#define MEMSCAN_TESTS_TARGETS_TRUTH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE     __attribute__((noinline, noclone))
#define UNUSED       __attribute__((unused))
#define FORGET_BYTES (256 * 1024)
#define LIFE_SECONDS 600

/* Let the compiler know nothing about @p, and so keep nothing about it. */
#define OPAQUE(p) __asm__ volatile("" : "+r"(p) : : "memory")

UNUSED static void say_text(const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(99);
		text += n;
		len -= (size_t)n;
	}
}

static char *put_text(char *to, const char *text)
{
	while (*text != '\0')
		*to++ = *text++;
	return to;
}

static char *put_number(char *to, uint64_t value, unsigned base)
{
	char digits[24];
	int n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value != 0);
	while (n > 0)
		*to++ = digits[--n];
	return to;
}

/* Clear dead stack and registers, as far as the caller's frame allows. */
NOINLINE UNUSED static void forget(void)
{
	char dead[FORGET_BYTES];

	memset(dead, 0, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
#if defined(__x86_64__)
	__asm__ volatile(
		"fninit\n\t"
		"xorl %%eax, %%eax\n\txorl %%ecx, %%ecx\n\txorl %%edx, %%edx\n\t"
		"xorl %%esi, %%esi\n\txorl %%edi, %%edi\n\txorl %%r8d, %%r8d\n\t"
		"xorl %%r9d, %%r9d\n\txorl %%r10d, %%r10d\n\txorl %%r11d, %%r11d\n\t"
		"pxor %%xmm0, %%xmm0\n\tpxor %%xmm1, %%xmm1\n\tpxor %%xmm2, %%xmm2\n\t"
		"pxor %%xmm3, %%xmm3\n\tpxor %%xmm4, %%xmm4\n\tpxor %%xmm5, %%xmm5\n\t"
		"pxor %%xmm6, %%xmm6\n\tpxor %%xmm7, %%xmm7\n\tpxor %%xmm8, %%xmm8\n\t"
		"pxor %%xmm9, %%xmm9\n\tpxor %%xmm10, %%xmm10\n\tpxor %%xmm11, %%xmm11\n\t"
		"pxor %%xmm12, %%xmm12\n\tpxor %%xmm13, %%xmm13\n\tpxor %%xmm14, %%xmm14\n\t"
		"pxor %%xmm15, %%xmm15"
		:
		:
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1",
		  "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
		  "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroall" : : : "memory");
	/* glibc's memcpy may use registers 16 to 31 so as not to need vzeroupper */
	if (__builtin_cpu_supports("avx512f"))
		__asm__ volatile(".irp n,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
		                 "vpxorq %zmm\\n, %zmm\\n, %zmm\\n\n\t.endr");
#elif defined(__i386__)
	__asm__ volatile("fninit\n\t"
	                 "xorl %%eax, %%eax\n\txorl %%ecx, %%ecx\n\txorl %%edx, %%edx\n\t"
	                 "pxor %%xmm0, %%xmm0\n\tpxor %%xmm1, %%xmm1\n\tpxor %%xmm2, %%xmm2\n\t"
	                 "pxor %%xmm3, %%xmm3\n\tpxor %%xmm4, %%xmm4\n\tpxor %%xmm5, %%xmm5\n\t"
	                 "pxor %%xmm6, %%xmm6\n\tpxor %%xmm7, %%xmm7"
	                 :
	                 :
	                 : "eax", "ecx", "edx", "memory", "cc");
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroall" : : : "memory");
#elif defined(__aarch64__)
	__asm__ volatile(
		".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n\t"
		"mov x\\n, xzr\n\t.endr\n\t"
		".irp n,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
		"movi v\\n\\().2d, #0\n\t.endr"
		:
		:
		: "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
		  "x13", "x14", "x15", "x16", "x17", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
		  "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
		  "v27", "v28", "v29", "v30", "v31", "memory");
#endif
}

/* Print one fact about a block; the usable size is asked of malloc. */
NOINLINE UNUSED static void tell_sized(const char *what, const void *p, size_t size)
{
	char line[96], *to = line;

	to = put_text(to, what);
	to = put_text(to, " 0x");
	to = put_number(to, (uint64_t)(uintptr_t)p, 16);
	*to++ = ' ';
	to = put_number(to, size, 10);
	*to++ = '\n';
	*to = '\0';
	say_text(line);
	memset(line, 0, sizeof(line));
	OPAQUE(to);
}

NOINLINE UNUSED static void tell(const char *what, void *p)
{
	size_t size = malloc_usable_size(p);

	/* musl has blocks without any; memscan counts one byte of these. */
	tell_sized(what, p, size == 0 ? 1 : size);
}

/*
 * A block without content. Not calloc: what a block held before it was freed
 * must not stay behind in the usable bytes past the size asked for.
 */
NOINLINE UNUSED static void *fresh(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		_exit(98);
	memset(p, 0, malloc_usable_size(p));
	return p;
}

/*
 * Leak one block. It begins with a small number: one word of zeros in a block of its own could be
 * an array without elements, which the next block's address would keep.
 */
NOINLINE UNUSED static void leak(size_t size)
{
	char *p = (char *)fresh(size);

	if (size)
		*p = 1;
	tell("leak", p);
}

UNUSED static void tell_pid(int pid)
{
	char line[32], *to = line;

	to = put_text(to, "pid ");
	to = put_number(to, (uint64_t)pid, 10);
	*to++ = '\n';
	*to = '\0';
	say_text(line);
}

/* Say READY and sleep until standard input ends. */
NOINLINE UNUSED static void wait_for_end(void)
{
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
	struct timespec start, now;
	char byte;

	say_text("READY\n");
	clock_gettime(CLOCK_MONOTONIC, &start);
	now = start;
	while (now.tv_sec - start.tv_sec < LIFE_SECONDS) {
		int n = poll(&in, 1, 1000);

		if (n > 0 && read(STDIN_FILENO, &byte, 1) <= 0)
			break;
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
}

/* Forget, say READY, sleep until the end, and leave without atexit's work. */
UNUSED static void ready(void)
{
	forget();
	wait_for_end();
	_exit(0);
}

/* A table of scenarios by name, for main(). */
struct scenario {
	const char *name;
	void (*make)(void);
	int needs_dlopen;
};

/* Make the scenario called @name; "list" prints those that can be made here. */
UNUSED static int run_scenario(const struct scenario *all, size_t n, const char *name)
{
	int is_static = getauxval(AT_BASE) == 0;

	for (size_t i = 0; i < n; i++) {
		if (name != NULL && strcmp(name, "list") == 0) {
			if (is_static && all[i].needs_dlopen)
				continue;
			say_text(all[i].name);
			say_text("\n");
		} else if (name == NULL || strcmp(name, all[i].name) == 0) {
			all[i].make();
			ready();
		}
	}
	return name != NULL && strcmp(name, "list") == 0 ? 0 : 2;
}

#endif
