/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes in restartable sequences of its own, one after another, nearly all the time. A thread
 * that is led elsewhere in the middle of one and comes back goes on in it as if nobody had
 * interrupted it: the kernel has forgotten the sequence by then, which is seen at its end.
 *
 * Prints "READY"; with the end of its input "sequences N aborted N broken N".
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIGNATURE = 0x53053053, EACH = 256, BLOCKS = 64 };

/* struct rseq, as it is in include/uapi/linux/rseq.h. */
struct area {
	uint32_t cpu_id_start;
	uint32_t cpu_id;
	uint64_t cs;
	uint32_t flags;
	uint32_t unused[3];
} __attribute__((aligned(32)));

enum outcome { DONE, BROKEN, ABORTED, OUTCOMES };

/* glibc's, from 2.35 on. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

void *volatile kept[BLOCKS];

/* The one that the C library has registered, or one of our own; NULL: the kernel has none. */
static volatile struct area *find_area(void)
{
	static __thread struct area own = { .cpu_id = UINT32_MAX };

	if (&__rseq_offset && __rseq_size)
		return (struct area *)((char *)__builtin_thread_pointer() + __rseq_offset);
	return syscall(SYS_rseq, &own, 32, 0, SIGNATURE) ? NULL : &own;
}

static enum outcome run(volatile struct area *area)
{
	uint32_t outcome;

	__asm__ volatile(".pushsection __rseq_cs, \"aw\"\n"
	                 ".balign 32\n"
	                 "3: .long 0, 0\n"
	                 ".quad 1f, 2f - 1f, 4f\n"
	                 ".popsection\n"
	                 "leaq 3b(%%rip), %%rax\n"
	                 "movq %%rax, 8(%[area])\n"
	                 "1: movl $100000, %%ecx\n"
	                 "5: decl %%ecx\n"
	                 "jnz 5b\n"
	                 "cmpq %%rax, 8(%[area])\n"
	                 "setne %%cl\n"
	                 "movzbl %%cl, %%ecx\n"
	                 "2: jmp 6f\n"
	                 ".byte 0x0f, 0xb9, 0x3d\n"
	                 ".long 0x53053053\n"
	                 "4: movl $2, %%ecx\n"
	                 "6: movq $0, 8(%[area])\n"
	                 : "=&c"(outcome)
	                 : [area] "r"(area)
	                 : "rax", "memory", "cc");
	return (enum outcome)outcome;
}

int main(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	volatile struct area *area = find_area();
	unsigned long seen[OUTCOMES] = { 0 };

	for (int i = 0; i < BLOCKS; i++)
		kept[i] = malloc(100);
	(void)puts(area ? "READY" : "SKIP");
	(void)fflush(stdout);
	while (area && !poll(&input, 1, 0))
		for (int i = 0; i < EACH; i++)
			seen[run(area)]++;
	(void)printf("sequences %lu aborted %lu broken %lu\n", seen[DONE], seen[ABORTED],
	             seen[BROKEN]);
	return 0;
}
