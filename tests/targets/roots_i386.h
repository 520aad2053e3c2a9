/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of roots.c what is said in instructions of i386: places that C cannot name.
 */

/* There is no red zone: what lies below the stack pointer is dead. */
static void *lose_below_red_zone(void *unused)
{
	uintptr_t hidden = ~(uintptr_t)fresh(100);

	(void)unused;
	tell("leak", (void *)~hidden);
	forget();
	__asm__ volatile("notl %0\n\t"
	                 "movl %0, -4(%%esp)\n\t"
	                 "movl %0, -4096(%%esp)\n\t"
	                 "xorl %0, %0\n\t"
	                 "lock incl %1\n\t"
	                 "1: movl $29, %%eax\n\t" /* pause */
	                 "int $0x80\n\t"
	                 "jmp 1b"
	                 : "+d"(hidden), "+m"(n_ready)
	                 :
	                 : "eax", "memory");
	return NULL;
}

/* Asleep in a system call all registers but that of its result still hold. */
static void *hold_while_asleep(void *unused)
{
	uintptr_t hidden[6];

	(void)unused;
	for (int i = 0; i < 6; i++)
		hidden[i] = hidden_live(100 + 16 * (size_t)i);
	forget();
	__asm__ volatile("lock incl (%1)\n\t"
	                 "movl (%0), %%ebx\n\tmovl 4(%0), %%ecx\n\tmovl 8(%0), %%edx\n\t"
	                 "movl 12(%0), %%esi\n\tmovl 16(%0), %%edi\n\tmovl 20(%0), %%ebp\n\t"
	                 "notl %%ebx\n\tnotl %%ecx\n\tnotl %%edx\n\t"
	                 "notl %%esi\n\tnotl %%edi\n\tnotl %%ebp\n\t"
	                 "1: movl $29, %%eax\n\t"
	                 "int $0x80\n\t"
	                 "jmp 1b"
	                 :
	                 : "a"(hidden), "c"(&n_ready)
	                 : "ebx", "edx", "esi", "edi", "memory");
	return NULL;
}

/* Running, every register may be the only one. */
static void *hold_while_running(void *unused)
{
	uintptr_t hidden[7];

	(void)unused;
	for (int i = 0; i < 7; i++)
		hidden[i] = hidden_live(100 + 16 * (size_t)i);
	forget();
	__asm__ volatile("lock incl (%1)\n\t"
	                 "movl (%0), %%ebx\n\tmovl 4(%0), %%ecx\n\tmovl 8(%0), %%edx\n\t"
	                 "movl 12(%0), %%esi\n\tmovl 16(%0), %%edi\n\tmovl 20(%0), %%ebp\n\t"
	                 "movl 24(%0), %%eax\n\t"
	                 "notl %%ebx\n\tnotl %%ecx\n\tnotl %%edx\n\tnotl %%esi\n\t"
	                 "notl %%edi\n\tnotl %%ebp\n\tnotl %%eax\n\t"
	                 "1: pause\n\t"
	                 "jmp 1b"
	                 :
	                 : "a"(hidden), "c"(&n_ready)
	                 : "ebx", "edx", "esi", "edi", "memory");
	return NULL;
}

/* The upper halves of both 64-bit words of xmm registers, of an mm, and of a ymm; asleep. */
static void *hold_in_vectors(void *unused)
{
	uintptr_t hidden[4] = { 0 };
	int avx = __builtin_cpu_supports("avx");

	(void)unused;
	for (int i = 0; i < (avx ? 4 : 3); i++)
		hidden[i] = hidden_live(100 + 16 * (size_t)i);
	forget();
	/* all-ones in the last register turn the complements back */
	__asm__ volatile("pcmpeqd %%xmm7, %%xmm7\n\t"
	                 "movd (%0), %%xmm5\n\tpslldq $4, %%xmm5\n\tpxor %%xmm7, %%xmm5\n\t"
	                 "movd 4(%0), %%xmm3\n\tpslldq $12, %%xmm3\n\tpxor %%xmm7, %%xmm3\n\t"
	                 "pcmpeqd %%mm4, %%mm4\n\tmovd 8(%0), %%mm5\n\tpsllq $32, %%mm5\n\t"
	                 "pxor %%mm4, %%mm5\n\t"
	                 "testl %2, %2\n\tje 2f\n\t"
	                 "movd 12(%0), %%xmm6\n\tpslldq $12, %%xmm6\n\tpxor %%xmm7, %%xmm6\n\t"
	                 "vinsertf128 $1, %%xmm6, %%ymm2, %%ymm2\n\t"
	                 "pxor %%xmm6, %%xmm6\n\t"
	                 "2: lock incl (%1)\n\t"
	                 "1: movl $29, %%eax\n\t"
	                 "int $0x80\n\t"
	                 "jmp 1b"
	                 :
	                 : "S"(hidden), "D"(&n_ready), "d"(avx)
	                 : "eax", "memory");
	return NULL;
}

static void *hold_in_zmm(void *unused)
{
	uintptr_t hidden[16] = { 0 };

	(void)unused;
	if (__builtin_cpu_supports("avx512f")) {
		hidden[13] = hidden_live(100);
		forget();
		__asm__ volatile("vmovdqu32 (%0), %%zmm5\n\t"
		                 "vpternlogd $0x55, %%zmm5, %%zmm5, %%zmm5\n\t"
		                 "lock incl (%1)\n\t"
		                 "1: movl $29, %%eax\n\t"
		                 "int $0x80\n\t"
		                 "jmp 1b"
		                 :
		                 : "S"(hidden), "D"(&n_ready)
		                 : "eax", "memory");
	}
	thread_is_ready();
	sleep_for_ever();
	return NULL;
}

/* ebx stands there as it is, esp rotated and xored with the guard. */
static void in_jmp_buf(void)
{
	uintptr_t plain = hidden_live(100), mangled = hidden_live(8192);
	int (*set)(struct __jmp_buf_tag *, int) = __sigsetjmp;
	void *buf = jump;

	__asm__ volatile("movl %%esp, %%edi\n\t"
	                 "notl %%ebx\n\tnotl %%esi\n\t"
	                 "leal 4096(%%esi), %%esp\n\t"
	                 "xorl %%esi, %%esi\n\t"
	                 "pushl $0\n\t"
	                 "pushl %%ecx\n\t"
	                 "call *%%eax\n\t"
	                 "xorl %%ebx, %%ebx\n\t"
	                 "movl %%edi, %%esp"
	                 : "+b"(plain), "+S"(mangled), "+a"(set), "+c"(buf)
	                 :
	                 : "edx", "edi", "memory", "cc");
}
