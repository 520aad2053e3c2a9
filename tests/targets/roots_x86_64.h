/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of roots.c what is said in instructions of x86_64: places that C cannot name.
 */

/* The last word of the 128 bytes that a leaf function may use below its SP. */
static void *hold_in_red_zone(void *unused)
{
	uintptr_t hidden = hidden_live(100);

	(void)unused;
	forget();
	__asm__ volatile("notq %0\n\t"
	                 "movq %0, -128(%%rsp)\n\t"
	                 "xorl %k0, %k0\n\t"
	                 "lock incl %1\n\t"
	                 "1: movl $34, %%eax\n\t" /* pause */
	                 "syscall\n\t"
	                 "jmp 1b"
	                 : "+b"(hidden), "+m"(n_ready)
	                 :
	                 : "rax", "rcx", "r11", "memory");
	return NULL;
}

/* What lies below the red zone is dead. */
static void *lose_below_red_zone(void *unused)
{
	uintptr_t hidden = ~(uintptr_t)fresh(100);

	(void)unused;
	tell("leak", (void *)~hidden);
	forget();
	__asm__ volatile("notq %0\n\t"
	                 "movq %0, -136(%%rsp)\n\t"
	                 "movq %0, -4096(%%rsp)\n\t"
	                 "xorl %k0, %k0\n\t"
	                 "lock incl %1\n\t"
	                 "1: movl $34, %%eax\n\t"
	                 "syscall\n\t"
	                 "jmp 1b"
	                 : "+b"(hidden), "+m"(n_ready)
	                 :
	                 : "rax", "rcx", "r11", "memory");
	return NULL;
}

/* Asleep in a system call, the callee-saved registers still hold. */
static void *hold_while_asleep(void *unused)
{
	uintptr_t hidden[6];

	(void)unused;
	for (int i = 0; i < 6; i++)
		hidden[i] = hidden_live(100 + 16 * (size_t)i);
	forget();
	__asm__ volatile("movq (%0), %%rbx\n\tmovq 8(%0), %%rbp\n\tmovq 16(%0), %%r12\n\t"
	                 "movq 24(%0), %%r13\n\tmovq 32(%0), %%r14\n\tmovq 40(%0), %%r15\n\t"
	                 "notq %%rbx\n\tnotq %%rbp\n\tnotq %%r12\n\t"
	                 "notq %%r13\n\tnotq %%r14\n\tnotq %%r15\n\t"
	                 "lock incl (%1)\n\t"
	                 "1: movl $34, %%eax\n\t"
	                 "syscall\n\t"
	                 "jmp 1b"
	                 :
	                 : "S"(hidden), "D"(&n_ready)
	                 : "rbx", "r12", "r13", "r14", "r15", "rax", "rcx", "r11", "memory");
	return NULL;
}

/* Running, every register may be the only one. */
static void *hold_while_running(void *unused)
{
	uintptr_t hidden[15];

	(void)unused;
	for (int i = 0; i < 15; i++)
		hidden[i] = hidden_live(100 + 16 * (size_t)i);
	forget();
	__asm__ volatile("lock incl (%1)\n\t"
	                 "movq (%0), %%rax\n\tmovq 8(%0), %%rbx\n\tmovq 16(%0), %%rcx\n\t"
	                 "movq 24(%0), %%rdx\n\tmovq 32(%0), %%rdi\n\tmovq 40(%0), %%rbp\n\t"
	                 "movq 48(%0), %%r8\n\tmovq 56(%0), %%r9\n\tmovq 64(%0), %%r10\n\t"
	                 "movq 72(%0), %%r11\n\tmovq 80(%0), %%r12\n\tmovq 88(%0), %%r13\n\t"
	                 "movq 96(%0), %%r14\n\tmovq 104(%0), %%r15\n\tmovq 112(%0), %%rsi\n\t"
	                 "notq %%rax\n\tnotq %%rbx\n\tnotq %%rcx\n\tnotq %%rdx\n\tnotq %%rdi\n\t"
	                 "notq %%rbp\n\tnotq %%r8\n\tnotq %%r9\n\tnotq %%r10\n\tnotq %%r11\n\t"
	                 "notq %%r12\n\tnotq %%r13\n\tnotq %%r14\n\tnotq %%r15\n\tnotq %%rsi\n\t"
	                 "1: pause\n\t"
	                 "jmp 1b"
	                 :
	                 : "S"(hidden), "D"(&n_ready)
	                 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13",
	                   "r14", "r15", "memory");
	return NULL;
}

/* Both halves of xmm registers, the upper half of a ymm, an mm; asleep. */
static void *hold_in_vectors(void *unused)
{
	uintptr_t hidden[4], zero[4] = { 0 };
	int avx = __builtin_cpu_supports("avx");

	(void)unused;
	for (int i = 0; i < (avx ? 4 : 3); i++)
		hidden[i] = hidden_live(100 + 16 * (size_t)i);
	forget();
	/* all-ones in the last register turn the complements back */
	__asm__ volatile("pcmpeqd %%xmm14, %%xmm14\n\t"
	                 "movq (%0), %%xmm15\n\tpxor %%xmm14, %%xmm15\n\t"
	                 "pxor %%xmm3, %%xmm3\n\tmovhps 8(%0), %%xmm3\n\tpxor %%xmm14, %%xmm3\n\t"
	                 "pcmpeqd %%mm4, %%mm4\n\tmovq 16(%0), %%mm5\n\tpxor %%mm4, %%mm5\n\t"
	                 "testl %k2, %k2\n\tje 2f\n\t"
	                 "movq 24(%0), %%xmm6\n\tpxor %%xmm14, %%xmm6\n\t"
	                 "vinsertf128 $1, %%xmm6, %%ymm7, %%ymm7\n\t"
	                 "pxor %%xmm6, %%xmm6\n\t"
	                 "2: lock incl (%1)\n\t"
	                 "1: movl $34, %%eax\n\t"
	                 "syscall\n\t"
	                 "jmp 1b"
	                 :
	                 : "S"(hidden), "D"(&n_ready), "d"(avx), "b"(zero)
	                 : "rax", "rcx", "r11", "memory");
	return NULL;
}

static void *hold_in_zmm(void *unused)
{
	uintptr_t hidden[8] = { 0 };

	(void)unused;
	if (__builtin_cpu_supports("avx512f")) {
		hidden[6] = hidden_live(100);
		forget();
		__asm__ volatile("vmovdqu64 (%0), %%zmm20\n\t"
		                 "vpternlogd $0x55, %%zmm20, %%zmm20, %%zmm20\n\t"
		                 "lock incl (%1)\n\t"
		                 "1: movl $34, %%eax\n\t"
		                 "syscall\n\t"
		                 "jmp 1b"
		                 :
		                 : "S"(hidden), "D"(&n_ready)
		                 : "rax", "rcx", "r11", "memory");
	}
	thread_is_ready();
	sleep_for_ever();
	return NULL;
}

/* rbx stands there as it is, rbp rotated and xored with the guard. */
static void in_jmp_buf(void)
{
	uintptr_t plain = hidden_live(100), mangled = hidden_live(101);

	__asm__ volatile("movq %%rsp, %%r12\n\t"
	                 "movq %%rbp, %%r13\n\t"
	                 "subq $256, %%rsp\n\t"
	                 "andq $-16, %%rsp\n\t"
	                 "movq %%rsi, %%rbp\n\t"
	                 "notq %%rbx\n\tnotq %%rbp\n\t"
	                 "xorl %%esi, %%esi\n\t"
	                 "call __sigsetjmp@PLT\n\t"
	                 "xorl %%ebx, %%ebx\n\t"
	                 "movq %%r13, %%rbp\n\t"
	                 "movq %%r12, %%rsp"
	                 : "+b"(plain), "+S"(mangled)
	                 : "D"(jump)
	                 : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "memory",
	                   "cc");
}
