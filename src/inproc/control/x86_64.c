/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/control/control.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 *	              tp
 *	glibc         self, dtv, self, …        tcbhead_t, then struct pthread
 *	musl          self, dtv, prev, next, …  struct pthread; prev and next: all threads
 *
 * glibc's has had 2304 bytes and more since 2.26; none of the rest matters. musl's ends 200 bytes
 * behind the thread pointer, and memory may end little later.
 *
 * Source: glibc 2.36 sysdeps/x86_64/nptl/tls.h, the same in 2.26 to 2.43; musl 1.2.3
 * src/internal/pthread_impl.h, the same in 1.2.2 to 1.2.6.
 */
enum { ROOM = 2048 };

#ifdef __GLIBC__
enum { COPIED = ROOM };
static const uint8_t own_words[] = { 0, 2 };
#else
enum { COPIED = 192 };
/* By itself in the list: what goes through all threads would use the program's. */
static const uint8_t own_words[] = { 0, 2, 3 };
#endif

#ifdef __GLIBC__

/* Where the calling thread has the TLS of a module; 0: nowhere. */
static uintptr_t begin_of_tls(const struct dl_phdr_info *module)
{
	return (uintptr_t)module->dlpi_tls_data;
}

#else

/* The ABI's; no header has it. */
void *__tls_get_addr(const size_t *module_and_offset);

/* Up to 1.2.2 musl's own word for it is where the initial values are. */
static uintptr_t begin_of_tls(const struct dl_phdr_info *module)
{
	const size_t begin[2] = { module->dlpi_tls_modid, 0 };

	return module->dlpi_tls_modid ? (uintptr_t)__tls_get_addr(begin) : 0;
}

#endif

size_t ms_control_reach(const struct dl_phdr_info *module)
{
	uintptr_t tp = (uintptr_t)__builtin_thread_pointer();
	uintptr_t at = begin_of_tls(module);

	return at && at < tp ? tp - at : 0;
}

struct ms_control_room ms_control_room(size_t reach)
{
	return (struct ms_control_room){ reach, ROOM };
}

size_t ms_control_gap(size_t reach)
{
	return reach;
}

void ms_control_copy(char *to, size_t reach)
{
	const char *from = __builtin_thread_pointer();
	uintptr_t self = (uintptr_t)to;

	memcpy(to - reach, from - reach, reach + COPIED);
	for (size_t i = 0; i < sizeof(own_words); i++)
		memcpy(to + own_words[i] * sizeof(self), &self, sizeof(self));
}

#ifdef __GLIBC__

int ms_control_clone(int (*live)(void *ctx), void *ctx, const struct ms_control_clone *how)
{
	return clone(live, how->stack, how->flags, ctx, how->tid, how->tp, how->tid);
}

#else

/*
 * musl's clone() refuses CLONE_SETTLS from 1.2.4 on. The new process begins behind the system
 * call, on an empty stack, with what it is to do in registers that the kernel leaves alone.
 */
int ms_control_clone(int (*live)(void *ctx), void *ctx, const struct ms_control_clone *how)
{
	long ret = SYS_clone;

	__asm__ volatile("mov %[tid], %%r10\n\t"
	                 "mov %[tp], %%r8\n\t"
	                 "mov %[live], %%r12\n\t"
	                 "mov %[ctx], %%r13\n\t"
	                 "syscall\n\t"
	                 "test %%rax, %%rax\n\t"
	                 "jnz 1f\n\t"
	                 "xor %%ebp, %%ebp\n\t"
	                 "mov %%r13, %%rdi\n\t"
	                 "call *%%r12\n\t"
	                 "mov %%eax, %%edi\n\t"
	                 "mov %[exit], %%eax\n\t"
	                 "syscall\n\t"
	                 "hlt\n"
	                 "1:"
	                 : "+a"(ret)
	                 : "D"((long)how->flags), "S"(how->stack),
	                   "d"(how->tid), [tid] "r"(how->tid), [tp] "r"(how->tp), [live] "r"(live),
	                   [ctx] "r"(ctx), [exit] "i"(SYS_exit)
	                 : "rcx", "r8", "r10", "r11", "r12", "r13", "memory", "cc");
	if (ret >= 0)
		return (int)ret;
	errno = (int)-ret;
	return -1;
}

#endif
