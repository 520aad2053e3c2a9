/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds a block in a register, for each machine. The address is what is at @hidden with its
 * bits inverted, and is in no memory meanwhile.
 */
#ifndef API_REGISTERS_H
#define API_REGISTERS_H

#include <stdint.h>

#if defined(__x86_64__)

#define KEPT_REGISTER "rbx" /* that calls preserve */

/* A loop that calls nothing, from *@step = @held until that is @drop; the address is in r12. */
static inline void loop_with_register(volatile int *step, const volatile uintptr_t *hidden,
                                      int held, int drop)
{
	__asm__ volatile("movq %[hidden], %%r12\n\t"
	                 "notq %%r12\n\t"
	                 "movl %[held], %[step]\n\t"
	                 "1: pause\n\t"
	                 "cmpl %[drop], %[step]\n\t"
	                 "jl 1b\n\t"
	                 "xorl %%r12d, %%r12d"
	                 : [step] "+m"(*step)
	                 : [hidden] "m"(*hidden), [held] "r"(held), [drop] "r"(drop)
	                 : "r12", "cc", "memory");
}

/* The same; it is in xmm9. */
static inline void loop_with_vector(volatile int *step, const volatile uintptr_t *hidden, int held,
                                    int drop)
{
	__asm__ volatile("movq %[hidden], %%rax\n\t"
	                 "notq %%rax\n\t"
	                 "movq %%rax, %%xmm9\n\t"
	                 "xorl %%eax, %%eax\n\t"
	                 "movl %[held], %[step]\n\t"
	                 "1: pause\n\t"
	                 "cmpl %[drop], %[step]\n\t"
	                 "jl 1b\n\t"
	                 "pxor %%xmm9, %%xmm9"
	                 : [step] "+m"(*step)
	                 : [hidden] "m"(*hidden), [held] "r"(held), [drop] "r"(drop)
	                 : "rax", "xmm9", "cc", "memory");
}

/* In r12 while it sleeps in read() of one byte; the kernel has it, and no memory of ours. */
static inline long read_with_register(volatile int *step, const volatile uintptr_t *hidden,
                                      int held, int fd)
{
	char byte;
	long n = 0; /* SYS_read */

	__asm__ volatile("movq %[hidden], %%r12\n\t"
	                 "notq %%r12\n\t"
	                 "movl %[held], %[step]\n\t"
	                 "syscall\n\t"
	                 "xorl %%r12d, %%r12d"
	                 : [step] "+m"(*step), "+a"(n)
	                 : [hidden] "m"(*hidden), [held] "r"(held), "D"((long)fd), "S"(&byte),
	                   "d"(1L)
	                 : "r12", "rcx", "r11", "cc", "memory");
	return n;
}

#elif defined(__aarch64__)

#define KEPT_REGISTER "x21"

/* In x22. */
static inline void loop_with_register(volatile int *step, const volatile uintptr_t *hidden,
                                      int held, int drop)
{
	__asm__ volatile("ldr x22, %[hidden]\n\t"
	                 "mvn x22, x22\n\t"
	                 "str %w[held], %[step]\n\t"
	                 "1: ldr w9, %[step]\n\t"
	                 "cmp w9, %w[drop]\n\t"
	                 "b.lt 1b\n\t"
	                 "mov x22, #0"
	                 : [step] "+m"(*step)
	                 : [hidden] "m"(*hidden), [held] "r"(held), [drop] "r"(drop)
	                 : "x22", "x9", "cc", "memory");
}

/* In the upper half of v25, of which calls preserve nothing. */
static inline void loop_with_vector(volatile int *step, const volatile uintptr_t *hidden, int held,
                                    int drop)
{
	__asm__ volatile("ldr x9, %[hidden]\n\t"
	                 "mvn x9, x9\n\t"
	                 "movi v25.2d, #0\n\t"
	                 "mov v25.d[1], x9\n\t"
	                 "mov x9, #0\n\t"
	                 "str %w[held], %[step]\n\t"
	                 "1: ldr w9, %[step]\n\t"
	                 "cmp w9, %w[drop]\n\t"
	                 "b.lt 1b\n\t"
	                 "movi v25.2d, #0"
	                 : [step] "+m"(*step)
	                 : [hidden] "m"(*hidden), [held] "r"(held), [drop] "r"(drop)
	                 : "x9", "v25", "cc", "memory");
}

/* In x22. */
static inline long read_with_register(volatile int *step, const volatile uintptr_t *hidden,
                                      int held, int fd)
{
	char byte;
	register long first __asm__("x0") = fd;
	register char *second __asm__("x1") = &byte;
	register long third __asm__("x2") = 1;
	register long nr __asm__("x8") = 63; /* SYS_read */

	__asm__ volatile("ldr x22, %[hidden]\n\t"
	                 "mvn x22, x22\n\t"
	                 "str %w[held], %[step]\n\t"
	                 "svc #0\n\t"
	                 "mov x22, #0"
	                 : [step] "+m"(*step), "+r"(first)
	                 : [hidden] "m"(*hidden), [held] "r"(held), "r"(second), "r"(third), "r"(nr)
	                 : "x22", "cc", "memory");
	return first;
}

#endif
#endif
