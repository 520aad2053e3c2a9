/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head, and the hooks: a fast path for each function, and the way to the slow one.
 *
 * In the fast path stand no more than flags, %rax and %rcx, which no function is given,
 * and the count of bytes: a thread that is taken out of it starts the function anew.
 */
#include "engine/agent_layout.h"

/* enum ms_agent_function */
	.set	n_functions, 9
	.set	at_malloc, 0
	.set	at_free, 1
	.set	at_calloc, 2
	.set	at_realloc, 3
	.set	at_memalign, 4
	.set	at_aligned_alloc, 5
	.set	at_posix_memalign, 6
	.set	at_valloc, 7
	.set	at_pvalloc, 8

#define LEFT %fs:MS_AGENT_LEFT

	.section .text.head, "ax", @progbits
head:
	.ascii	MS_AGENT_TEXT_MAGIC
	.long	n_functions
	.long	hook_malloc - head, end_malloc - head
	.long	hook_free - head, end_free - head
	.long	hook_calloc - head, end_calloc - head
	.long	hook_realloc - head, end_realloc - head
	.long	hook_memalign - head, end_memalign - head
	.long	hook_aligned_alloc - head, end_aligned_alloc - head
	.long	hook_posix_memalign - head, end_posix_memalign - head
	.long	hook_valloc - head, end_valloc - head
	.long	hook_pvalloc - head, end_pvalloc - head

/* The function itself. */
	.macro	moved instruction, name
	\instruction ms_agent_slots + at_\name * MS_AGENT_SLOT_BYTES + MS_AGENT_MOVED_AT
	.endm

/* After a call: do not leave behind where it came from. */
	.macro	wipe
	movq	$0, -8(%rsp)
	.endm

/*
 * After a count below nothing, which would pass as endless: nothing is left. Until here, a
 * handler of a signal sees it so, and its blocks are no samples.
 */
	.macro	due
	movq	$0, LEFT
	.endm

/* The size is in %rax. The stack is struct call of slow.c, and is aligned for calls. */
	.macro	slow name, before=ms_agent_before, after=ms_agent_after
	pushq	$-1
	pushq	%rax
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	%rbp
	pushq	%rbx
	movq	%rsp, %rdi
	call	\before
	wipe
	movq	48(%rsp), %rdi
	movq	56(%rsp), %rsi
	movq	64(%rsp), %rdx
	moved	call, \name
	wipe
	movq	%rsp, %rdi
	movq	%rax, %rsi
	call	\after
	wipe
	addq	$88, %rsp
	ret
	.endm

/* %rcx + %rax is the block's place in the filter. */
	.macro	find_place block
	movq	\block, %rax
	shrq	$MS_AGENT_HASH_SHIFT, %rax
	imull	$(MS_AGENT_HASH - (1 << 32)), %eax, %eax
	shrl	$MS_AGENT_PLACE_SHIFT, %eax
	leaq	(ms_agent_here + MS_AGENT_FILTER_AT)(%rip), %rcx
	.endm

	.balign	16
hook_malloc:
	subq	%rdi, LEFT
	jb	1f
	moved	jmp, malloc
end_malloc:
1:	due
	movq	%rdi, %rax
	slow	malloc

	.balign	16
hook_free:
	find_place %rdi
	cmpb	$0, (%rcx,%rax)
	jne	1f
	moved	jmp, free
end_free:
1:	pushq	%rdi
	call	ms_agent_before_free
	wipe
	popq	%rdi
	moved	jmp, free

/* What overflows fails: it has no bytes. */
	.balign	16
hook_calloc:
	movq	%rdi, %rax
	imulq	%rsi, %rax
	jo	2f
	subq	%rax, LEFT
	jb	1f
2:	moved	jmp, calloc
end_calloc:
1:	due
	slow	calloc

/* A block from nothing is malloc's, and counted once, though realloc may call malloc. */
	.balign	16
hook_realloc:
	testq	%rdi, %rdi
	jz	1f
	find_place %rdi
	cmpb	$0, (%rcx,%rax)
	jne	2f
	subq	%rsi, LEFT
	jb	3f
	moved	jmp, realloc
end_realloc:
1:	movq	%rsi, %rdi
	jmp	hook_malloc
3:	due
2:	movq	%rsi, %rax
	slow	realloc, before=ms_agent_before_realloc, after=ms_agent_after_realloc

/* As malloc's blocks are aligned: the C library calls malloc for it, which counts it. */
	.macro	aligned name, alignment, size, after=ms_agent_after
	.balign	16
hook_\name:
	cmpq	$16, \alignment
	jbe	2f
	subq	\size, LEFT
	jb	1f
2:	moved	jmp, \name
end_\name:
1:	due
	movq	\size, %rax
	slow	\name, after=\after
	.endm

	aligned	memalign, %rdi, %rsi
	aligned	aligned_alloc, %rdi, %rsi
	aligned	posix_memalign, %rsi, %rdx, ms_agent_after_posix_memalign

	.macro	of_pages name
	.balign	16
hook_\name:
	subq	%rdi, LEFT
	jb	1f
	moved	jmp, \name
end_\name:
1:	due
	movq	%rdi, %rax
	slow	\name
	.endm

	of_pages valloc
	of_pages pvalloc

	.section .note.GNU-stack, "", @progbits
