/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head, and the hooks: a fast path for each function, and the way to the slow one.
 *
 * In the fast path stand no more than flags, %rax and %rcx, which no function is given,
 * and the count of bytes: a thread that is taken out of it starts the function anew.
 */
#include "engine/agent_layout.h"

/* enum ms_agent_function */
	.set	n_functions, 37
	.set	at_malloc, 0
	.set	at_free, 1
	.set	at_calloc, 2
	.set	at_realloc, 3
	.set	at_memalign, 4
	.set	at_aligned_alloc, 5
	.set	at_posix_memalign, 6
	.set	at_valloc, 7
	.set	at_pvalloc, 8
	.set	at_mallocx, 9
	.set	at_rallocx, 10
	.set	at_dallocx, 11
	.set	at_sdallocx, 12
	.set	at_cfree, 13
	.set	at_free_sized, 14
	.set	at_free_aligned_sized, 15
	.set	at_new, 16
	.set	at_new_array, 17
	.set	at_new_nothrow, 18
	.set	at_new_array_nothrow, 19
	.set	at_new_aligned, 20
	.set	at_new_array_aligned, 21
	.set	at_new_aligned_nothrow, 22
	.set	at_new_array_aligned_nothrow, 23
	.set	at_delete, 24
	.set	at_delete_array, 25
	.set	at_delete_nothrow, 26
	.set	at_delete_array_nothrow, 27
	.set	at_delete_sized, 28
	.set	at_delete_array_sized, 29
	.set	at_delete_aligned, 30
	.set	at_delete_array_aligned, 31
	.set	at_delete_aligned_nothrow, 32
	.set	at_delete_array_aligned_nothrow, 33
	.set	at_delete_sized_aligned, 34
	.set	at_delete_array_sized_aligned, 35
	.set	at_cxa_finalize, 36

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
	.long	hook_mallocx - head, end_mallocx - head
	.long	hook_rallocx - head, end_rallocx - head
	.long	hook_dallocx - head, end_dallocx - head
	.long	hook_sdallocx - head, end_sdallocx - head
	.long	hook_cfree - head, end_cfree - head
	.long	hook_free_sized - head, end_free_sized - head
	.long	hook_free_aligned_sized - head, end_free_aligned_sized - head
	.long	hook_new - head, end_new - head
	.long	hook_new_array - head, end_new_array - head
	.long	hook_new_nothrow - head, end_new_nothrow - head
	.long	hook_new_array_nothrow - head, end_new_array_nothrow - head
	.long	hook_new_aligned - head, end_new_aligned - head
	.long	hook_new_array_aligned - head, end_new_array_aligned - head
	.long	hook_new_aligned_nothrow - head, end_new_aligned_nothrow - head
	.long	hook_new_array_aligned_nothrow - head, end_new_array_aligned_nothrow - head
	.long	hook_delete - head, end_delete - head
	.long	hook_delete_array - head, end_delete_array - head
	.long	hook_delete_nothrow - head, end_delete_nothrow - head
	.long	hook_delete_array_nothrow - head, end_delete_array_nothrow - head
	.long	hook_delete_sized - head, end_delete_sized - head
	.long	hook_delete_array_sized - head, end_delete_array_sized - head
	.long	hook_delete_aligned - head, end_delete_aligned - head
	.long	hook_delete_array_aligned - head, end_delete_array_aligned - head
	.long	hook_delete_aligned_nothrow - head, end_delete_aligned_nothrow - head
	.long	hook_delete_array_aligned_nothrow - head, end_delete_array_aligned_nothrow - head
	.long	hook_delete_sized_aligned - head, end_delete_sized_aligned - head
	.long	hook_delete_array_sized_aligned - head, end_delete_array_sized_aligned - head
	.long	hook_cxa_finalize - head, end_cxa_finalize - head

/* The function itself. */
	.macro	moved instruction, name
	\instruction ms_agent_slots + at_\name * MS_AGENT_SLOT_BYTES + MS_AGENT_MOVED_AT
	.endm

/* After a call: do not leave behind where it came from. */
	.macro	wipe
	movq	$0, -8(%rsp)
	.endm

/* What the thread has left to its next sample; where that lies depends on the C library. */
	.macro	count_down size
	movq	(ms_agent_here + MS_AGENT_LEFT_AT)(%rip), %rcx
	subq	\size, %fs:(%rcx)
	.endm

/* Whether another hook will count its block, which this one only looks at. */
	.macro	jump_if_outer name, to
	testb	$(1 << at_\name), (ms_agent_here + MS_AGENT_OUTER_AT)(%rip)
	jnz	\to
	.endm

	.macro	is_it_due size
	movq	(ms_agent_here + MS_AGENT_LEFT_AT)(%rip), %rcx
	cmpq	\size, %fs:(%rcx)
	.endm

/*
 * After a count below nothing, which would pass as endless: nothing is left. Until here, a
 * handler of a signal sees it so, and its blocks are no samples.
 */
	.macro	due
	movq	(ms_agent_here + MS_AGENT_LEFT_AT)(%rip), %rcx
	movq	$0, %fs:(%rcx)
	.endm

/*
 * The size is in %rax. The stack is struct call of slow.c, and is aligned for calls.
 *
 * throws: the function may end by an exception, which no one could lead through here. So
 * another makes the block, as malloc; where that fails, the function itself does what it
 * does then, and nothing of ours is on the stack.
 */
	.macro	slow name, before=ms_agent_before, after=ms_agent_after, throws=0, swapped=0
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
	.if \swapped
	xchgq	%rdi, %rsi
	moved	call, memalign
	.elseif \throws
	moved	call, malloc
	.else
	moved	call, \name
	.endif
	wipe
	movq	%rsp, %rdi
	movq	%rax, %rsi
	call	\after
	wipe
	.if \throws
	testq	%rax, %rax
	jz	9f
	.endif
	addq	$88, %rsp
	ret
	.if \throws
9:	movq	48(%rsp), %rdi
	movq	56(%rsp), %rsi
	movq	64(%rsp), %rdx
	addq	$88, %rsp
	moved	jmp, \name
	.endif
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
	count_down %rdi
	jb	1f
	moved	jmp, malloc
end_malloc:
1:	due
	movq	%rdi, %rax
	slow	malloc

/* The block is the first argument; there are two more at most. */
	.macro	freeing name
	.balign	16
hook_\name:
	find_place %rdi
	cmpb	$0, (%rcx,%rax)
	jne	1f
	moved	jmp, \name
end_\name:
1:	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	call	ms_agent_before_free
	wipe
	popq	%rdx
	popq	%rsi
	popq	%rdi
	moved	jmp, \name
	.endm

	freeing	free

/* What overflows fails: it has no bytes. */
	.balign	16
hook_calloc:
	movq	%rdi, %rax
	imulq	%rsi, %rax
	jo	2f
	jump_if_outer calloc, 3f
	count_down %rax
	jb	1f
2:	moved	jmp, calloc
3:	is_it_due %rax
	jae	2b
end_calloc:
	slow	calloc, before=ms_agent_before_outer
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
	count_down %rsi
	jb	3f
	moved	jmp, realloc
end_realloc:
1:	movq	%rsi, %rdi
	jmp	hook_malloc
3:	due
2:	movq	%rsi, %rax
	slow	realloc, before=ms_agent_before_realloc, after=ms_agent_after_realloc

/* As malloc's blocks are aligned: the C library calls malloc for it, which counts it; no other. */
	.macro	aligned name, alignment, size
	.balign	16
hook_\name:
	cmpq	(ms_agent_here + MS_AGENT_PASSED_AT)(%rip), \alignment
	jbe	2f
	count_down \size
	jb	1f
2:	moved	jmp, \name
end_\name:
1:	due
	movq	\size, %rax
	slow	\name
	.endm

	aligned	memalign, %rdi, %rsi
	aligned	aligned_alloc, %rdi, %rsi

	.balign	16
hook_posix_memalign:
	jump_if_outer posix_memalign, 3f
	cmpq	(ms_agent_here + MS_AGENT_PASSED_AT)(%rip), %rsi
	jbe	2f
	count_down %rdx
	jb	1f
2:	moved	jmp, posix_memalign
3:	is_it_due %rdx
	jae	2b
end_posix_memalign:
	movq	%rdx, %rax
	slow	posix_memalign, before=ms_agent_before_outer, after=ms_agent_after_posix_memalign
1:	due
	movq	%rdx, %rax
	slow	posix_memalign, after=ms_agent_after_posix_memalign

	.macro	of_size name, throws=0, swapped=0
	.balign	16
hook_\name:
	count_down %rdi
	jb	1f
	moved	jmp, \name
end_\name:
1:	due
	movq	%rdi, %rax
	slow	\name, throws=\throws, swapped=\swapped
	.endm

	of_size	valloc
	of_size	pvalloc

/* ---- what other allocators export ---- */

	of_size	mallocx

/* Unlike realloc's, its block is one. */
	.balign	16
hook_rallocx:
	find_place %rdi
	cmpb	$0, (%rcx,%rax)
	jne	2f
	count_down %rsi
	jb	1f
	moved	jmp, rallocx
end_rallocx:
1:	due
2:	movq	%rsi, %rax
	slow	rallocx, before=ms_agent_before_realloc, after=ms_agent_after_realloc

	freeing	dallocx
	freeing	sdallocx
	freeing	cfree
	freeing	free_sized
	freeing	free_aligned_sized

/* Operators of C++. */
	of_size	new, throws=1
	of_size	new_array, throws=1
	of_size	new_nothrow, throws=1
	of_size	new_array_nothrow, throws=1
	of_size	new_aligned, throws=1, swapped=1
	of_size	new_array_aligned, throws=1, swapped=1
	of_size	new_aligned_nothrow, throws=1, swapped=1
	of_size	new_array_aligned_nothrow, throws=1, swapped=1
	freeing	delete
	freeing	delete_array
	freeing	delete_nothrow
	freeing	delete_array_nothrow
	freeing	delete_sized
	freeing	delete_array_sized
	freeing	delete_aligned
	freeing	delete_array_aligned
	freeing	delete_aligned_nothrow
	freeing	delete_array_aligned_nothrow
	freeing	delete_sized_aligned
	freeing	delete_array_sized_aligned

/* ---- libraries ---- */

/*
 * Who calls is about to be unloaded, or the program ends. The C library is asked which that
 * is: its answer needs less than 128 bytes, and it waits for nobody.
 */
	.balign	16
hook_cxa_finalize:
	cmpq	$0, (ms_agent_here + MS_AGENT_FIND_AT)(%rip)
	jne	1f
	moved	jmp, cxa_finalize
end_cxa_finalize:
1:	pushq	%rdi
	subq	$128, %rsp
	movq	136(%rsp), %rdi
	movq	%rsp, %rsi
	movq	(ms_agent_here + MS_AGENT_FIND_AT)(%rip), %rax
	call	*%rax
	wipe
	movq	%rsp, %rdi
	movl	%eax, %esi
	call	ms_agent_before_unload
	wipe
	addq	$128, %rsp
	popq	%rdi
	moved	jmp, cxa_finalize

	.section .note.GNU-stack, "", @progbits
