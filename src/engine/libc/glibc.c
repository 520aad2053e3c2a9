/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/libc/libcs.h"

/*
 * struct pthread, glibc 2.31 to 2.43 (nptl/descr.h, tcbhead_t): word 0 and word 2 hold its own
 * address, word 1 the dynamic thread vector, word 6 the secret of PTR_MANGLE. Behind tcbhead_t
 * stand the links of the list of stacks in which glibc keeps the block, in use or for the next
 * thread, then the thread's id. A stack that the program gave (pthread_attr_setstack) is in none
 * when its thread has ended and was joined or detached.
 *
 * Further on stand the flags of cancelhandling. A thread that ends sets one there, and
 * whoever gives the block back, which is pthread_join(), pthread_detach() or a
 * detached thread itself, sets another: this alone shows whether a result can still
 * be asked for. The id does not: from 2.42 on a join leaves it as the kernel did.
 * Nor does it show which list the block is in: their heads have no name.
 *
 * On i386 they stand a word further in the versions that have a member without use in front
 * of the list of robust mutexes (to 2.33): 0, where others have that list, which is never 0.
 *
 * On aarch64 the thread pointer is the block's end: there stands the dynamic thread vector, and
 * thread-local storage behind it. Nor does it hold its own address or the secret. It is known by
 * the list of robust mutexes behind the thread's id, of which the second word is -32, the distance
 * of a mutex's links to its lock, and no other is 0.
 *
 * Its stack is three words, begin, length and guard, somewhere behind.
 */
enum {
	DTV = 1, /* numbers of words */
	SELF = 2,
	POINTER_GUARD = 6,
	BLOCK_BYTES_I386 = 1280,
	ABOVE_TCB = 64 * 1024,   /* at most so much of the stack lies behind the control block, */
	ABOVE_AARCH64 = 1 << 30, /* with storage */
	ALIGN_AARCH64 = 16,
	ROBUST = 24, /* where the list of robust mutexes is, from the links on: its third word is */
	LEN = 1,     /* in the record of its stack */
	GUARD = 2,
	LOWEST = 1 << 16, /* where memory may be mapped: a thread's id is no address */
};

/* What differs between machines; bytes. */
struct layout {
	uint8_t word;
	uint16_t links; /* next and previous; tcbhead_t ends there, and the thread's id follows */
	uint16_t flags;
	uint16_t unused; /* a word of 0 here: the flags are a word further; 0: never */
	bool tls_above;
};

static const struct layout x86_64 = { .word = 8, .links = 704, .flags = 776 };
static const struct layout aarch64 = { .word = 8, .links = 192, .flags = 264, .tls_above = true };
static const struct layout i386 = { .word = 4, .links = 96, .flags = 128, .unused = 108 };

#define ROBUST_DISTANCE ((uint64_t)-32)

/* Of cancelhandling. */
enum { FLAG_ENDING = 0x10, FLAG_GIVEN_BACK = 0x20, ALL_FLAGS = 0x7f };

static const struct layout *layout_of(const struct ms_abi *abi)
{
	if (abi->tls_above)
		return &aarch64;
	return abi->word_bytes == i386.word ? &i386 : &x86_64;
}

static bool has_word(const struct ms_libc_bytes *block, size_t offset)
{
	return offset + block->abi->word_bytes <= block->n;
}

/* 0 when it is not there. */
static uint64_t word(const struct ms_libc_bytes *block, size_t offset)
{
	return has_word(block, offset) ? ms_abi_word(block->abi, block->bytes + offset) : 0;
}

/* The begin of the first block of machines that @layout is for. */
static size_t next_block(const struct layout *layout, const struct ms_libc_bytes *memory,
                         size_t from)
{
	ms_addr at = ms_align_up(memory->at + from, MS_LIBC_BLOCK_ALIGN);
	const size_t word_bytes = layout->word;

	if (memory->abi->word_bytes != word_bytes || memory->abi->tls_above != layout->tls_above)
		return memory->n;
	for (size_t i = (size_t)(at - memory->at); has_word(memory, i + SELF * word_bytes);
	     i += MS_LIBC_BLOCK_ALIGN)
		if (word(memory, i) == memory->at + i &&
		    word(memory, i + SELF * word_bytes) == memory->at + i)
			return i;
	return memory->n;
}

static size_t next_block_x86_64(const struct ms_libc_bytes *memory, size_t from)
{
	return next_block(&x86_64, memory, from);
}

static bool is_block_aarch64(const struct ms_libc_bytes *memory, size_t i)
{
	const size_t list = i + aarch64.links + ROBUST;
	ms_addr next = word(memory, i + aarch64.links);
	ms_addr previous = word(memory, i + aarch64.links + aarch64.word);

	return word(memory, list + (size_t)2 * aarch64.word) == ROBUST_DISTANCE &&
	       word(memory, list) && word(memory, list + aarch64.word) && next && previous &&
	       !((next | previous) % aarch64.word);
}

static size_t next_block_aarch64(const struct ms_libc_bytes *memory, size_t from)
{
	ms_addr at = ms_align_up(memory->at + from, ALIGN_AARCH64);

	if (!memory->abi->tls_above)
		return memory->n;
	for (size_t i = (size_t)(at - memory->at); i + MS_LIBC_KNOWN_BYTES <= memory->n;
	     i += ALIGN_AARCH64)
		if (is_block_aarch64(memory, i))
			return i;
	return memory->n;
}

/* @block from its begin on; without a byte when there is none. */
static struct ms_libc_bytes block_in(const struct ms_libc_bytes *block)
{
	struct ms_libc_bytes ret = *block;
	size_t at = block->abi->tls_above ? next_block_aarch64(block, 0) : 0;

	ret.at += at;
	ret.bytes += at;
	ret.n -= at;
	return ret;
}

static size_t next_block_i386(const struct ms_libc_bytes *memory, size_t from)
{
	return next_block(&i386, memory, from);
}

static bool next_stack(const struct ms_libc_bytes *memory, size_t *at, struct ms_stack_record *ret)
{
	const struct ms_libc_bytes begins = block_in(memory);
	const struct ms_libc_bytes *block = &begins;
	const struct layout *layout = layout_of(block->abi);
	const uint64_t above = layout->tls_above ? ABOVE_AARCH64 : ABOVE_TCB;
	const uint32_t page = block->abi->page_bytes;
	const size_t word_bytes = layout->word;

	if (*at < layout->links)
		*at = layout->links;
	while (has_word(block, *at + GUARD * word_bytes)) {
		ms_addr begin = word(block, *at);
		uint64_t len = word(block, *at + LEN * word_bytes);
		uint64_t guard = word(block, *at + GUARD * word_bytes);
		uint64_t below = block->at - begin;

		*at += word_bytes;
		if (begin < LOWEST || begin > block->at || begin % 16 || len < page ||
		    below >= len || len - below > above || (guard & (page - 1)) || guard > below)
			continue;
		*ret = (struct ms_stack_record){ { begin, begin + len }, guard != 0 };
		return true;
	}
	return false;
}

static size_t flags_of(const struct layout *layout, const struct ms_libc_bytes *block)
{
	bool further = layout->unused && !word(block, layout->unused);

	return layout->flags + (further ? layout->word : 0U);
}

/* The dynamic thread vector; 0: there is none, or it is not known where it is. */
static ms_addr vector_of(const struct layout *layout, const struct ms_libc_bytes *block)
{
	if (!layout->tls_above)
		return word(block, DTV * (size_t)layout->word);
	return block->tp > block->at ? word(block, (size_t)(block->tp - block->at)) : 0;
}

static void thread(const struct ms_libc_bytes *memory, struct ms_libc_thread *ret)
{
	const struct ms_libc_bytes begins = block_in(memory);
	const struct ms_libc_bytes *block = &begins;
	const uint32_t gone = FLAG_ENDING | FLAG_GIVEN_BACK;
	const struct layout *layout = layout_of(block->abi);
	const size_t word_bytes = layout->word;
	size_t flags_at = flags_of(layout, block);
	uint32_t flags = (uint32_t)word(block, flags_at);
	ms_addr dtv = vector_of(layout, block);

	ret->tid = (int32_t)word(block, layout->links + 2 * word_bytes);
	ret->known = has_word(block, flags_at) && !(flags & ~(uint32_t)ALL_FLAGS);
	ret->over = ret->known && (flags & gone) == gone;
	/* The vector is a block whose second entry, of two words, it points to. */
	ret->tls = dtv ? dtv - 2 * word_bytes : 0;
	if (layout->tls_above)
		return;
	/* sysdeps/unix/sysv/linux/x86_64/pointer_guard.h, i386/pointer_guard.h */
	ret->mangling = (struct ms_mangling){ .guard = word(block, POINTER_GUARD * word_bytes),
		                              .rotate = 2U * layout->word + 1 };
}

/* Whether one of glibc's lists of stacks has it: its neighbours lead back to it. */
static bool keeps(struct ms_source *src, const struct ms_libc_bytes *memory)
{
	const struct ms_libc_bytes begins = block_in(memory);
	const struct ms_libc_bytes *block = &begins;
	const struct layout *layout = layout_of(block->abi);
	ms_addr links = block->at + layout->links;
	uint64_t back;
	uint64_t forth;

	return ms_source_word(src, word(block, layout->links) + layout->word, &back) &&
	       ms_source_word(src, word(block, layout->links + layout->word), &forth) &&
	       back == links && forth == links;
}

const struct ms_libc_ops ms_libc_glibc_i386 = {
	.name = "glibc",
	.block_bytes = BLOCK_BYTES_I386,
	.next_block = next_block_i386,
	.next_stack = next_stack,
	.thread = thread,
	.keeps = keeps,
};

const struct ms_libc_ops ms_libc_glibc_aarch64 = {
	.name = "glibc",
	.block_bytes = MS_LIBC_BLOCK_BYTES,
	.next_block = next_block_aarch64,
	.next_stack = next_stack,
	.thread = thread,
	.keeps = keeps,
};

const struct ms_libc_ops ms_libc_glibc = {
	.name = "glibc",
	.block_bytes = MS_LIBC_BLOCK_BYTES,
	.next_block = next_block_x86_64,
	.next_stack = next_stack,
	.thread = thread,
	.keeps = keeps,
};
