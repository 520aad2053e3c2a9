/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/libc/libcs.h"

/*
 * struct pthread, 64-bit glibc 2.31 to 2.43 on x86_64 (nptl/descr.h, tcbhead_t): word 0 and
 * word 2 hold its own address, word 1 the dynamic thread vector, word 6 the secret of
 * PTR_MANGLE; the thread's id is at 720. At 704 stand the links of the list of stacks in which
 * glibc keeps the block, in use or for the next thread. A stack that the program gave
 * (pthread_attr_setstack) is in none when its thread has ended and was joined or detached.
 *
 * At 776 stand the flags of cancelhandling. A thread that ends sets one there, and
 * whoever gives the block back, which is pthread_join(), pthread_detach() or a
 * detached thread itself, sets another: this alone shows whether a result can still
 * be asked for. The id does not: from 2.42 on a join leaves it as the kernel did.
 * Nor does it show which list the block is in: their heads have no name.
 *
 * Its stack is three words, begin, length and guard, somewhere behind.
 */
enum {
	WORD = 8,
	DTV = 8,
	SELF = 16,
	POINTER_GUARD = 48,
	HEADER_BYTES = 704, /* tcbhead_t */
	LINKS = 704,        /* next and previous */
	TID = 720,
	FLAGS = 776,
	DTV_BIAS = 16,         /* the vector is a block whose second entry it points to */
	ROTATE = 2 * WORD + 1, /* sysdeps/unix/sysv/linux/x86_64/pointer_guard.h */
	ABOVE_TCB = 64 * 1024, /* at most so much of the stack lies behind the control block */
	LEN = 8,               /* in the record of its stack */
	GUARD = 16,
	LOWEST = 1 << 16, /* where memory may be mapped: a thread's id is no address */
};

/* Of cancelhandling. */
enum { FLAG_ENDING = 0x10, FLAG_GIVEN_BACK = 0x20, ALL_FLAGS = 0x7f };

static bool has_word(const struct ms_libc_bytes *block, size_t offset)
{
	return block->abi->word_bytes == WORD && offset + WORD <= block->n;
}

/* 0 when it is not there. */
static uint64_t word(const struct ms_libc_bytes *block, size_t offset)
{
	return has_word(block, offset) ? ms_abi_word(block->abi, block->bytes + offset) : 0;
}

static size_t next_block(const struct ms_libc_bytes *memory, size_t from)
{
	ms_addr at = ms_align_up(memory->at + from, MS_LIBC_BLOCK_ALIGN);

	for (size_t i = (size_t)(at - memory->at); has_word(memory, i + SELF);
	     i += MS_LIBC_BLOCK_ALIGN) {
		uint64_t words[SELF / WORD + 1];

		memcpy(words, memory->bytes + i, sizeof(words));
		if (words[0] == memory->at + i && words[SELF / WORD] == memory->at + i)
			return i;
	}
	return memory->n;
}

static bool next_stack(const struct ms_libc_bytes *block, size_t *at, struct ms_stack_record *ret)
{
	const uint32_t page = block->abi->page_bytes;

	if (*at < HEADER_BYTES)
		*at = HEADER_BYTES;
	while (has_word(block, *at + GUARD)) {
		ms_addr begin = word(block, *at);
		uint64_t len = word(block, *at + LEN);
		uint64_t guard = word(block, *at + GUARD);
		uint64_t below = block->at - begin;

		*at += WORD;
		if (begin < LOWEST || begin > block->at || begin % 16 || len < page ||
		    below >= len || len - below > ABOVE_TCB || (guard & (page - 1)) ||
		    guard > below)
			continue;
		*ret = (struct ms_stack_record){ { begin, begin + len }, guard != 0 };
		return true;
	}
	return false;
}

static void thread(const struct ms_libc_bytes *block, struct ms_libc_thread *ret)
{
	const uint32_t gone = FLAG_ENDING | FLAG_GIVEN_BACK;
	uint32_t flags = (uint32_t)word(block, FLAGS);
	ms_addr dtv = word(block, DTV);

	ret->tid = (int32_t)word(block, TID);
	ret->known = has_word(block, FLAGS) && !(flags & ~(uint32_t)ALL_FLAGS);
	ret->over = ret->known && (flags & gone) == gone;
	ret->tls = dtv ? dtv - DTV_BIAS : 0;
	ret->mangling = (struct ms_mangling){ word(block, POINTER_GUARD), ROTATE };
}

/* Whether one of glibc's lists of stacks has it: its neighbours lead back to it. */
static bool keeps(struct ms_source *src, const struct ms_libc_bytes *block)
{
	ms_addr links = block->at + LINKS;
	uint64_t back;
	uint64_t forth;

	return ms_source_word(src, word(block, LINKS) + WORD, &back) &&
	       ms_source_word(src, word(block, LINKS + WORD), &forth) && back == links &&
	       forth == links;
}

const struct ms_libc_ops ms_libc_glibc = {
	.name = "glibc",
	.block_bytes = MS_LIBC_BLOCK_BYTES,
	.next_block = next_block,
	.next_stack = next_stack,
	.thread = thread,
	.keeps = keeps,
};
