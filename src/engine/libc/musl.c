/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/libc/libcs.h"

/*
 * struct pthread of musl 1.2.1 to 1.2.6 on x86_64 (src/internal/pthread_impl.h): word 0 is its
 * own address, word 1 the dynamic thread vector, words 2 and 3 its neighbours in the ring of
 * living threads, of which a thread takes itself out when it ends.
 *
 * A stack that musl mapped ends with what only the C library has there:
 *
 *	map_base                                              map_base + map_size
 *	│ guard │ stack …     │ TLS │ struct pthread │ values of keys │
 *
 * In a stack that the program gave lie the same three, if they take little of it; else they
 * have a mapping of their own. Words of the ring lead there.
 *
 * musl keeps no stack: pthread_join() unmaps it, and so does a detached thread that ends. What
 * is still mapped can be joined.
 */
enum {
	WORD = 8,
	DTV = 8,
	PREVIOUS = 16,
	NEXT = 24,
	TID = 48,
	STATE = 56,
	MAP_BASE = 72,
	MAP_SIZE = 80,
	STACK = 88, /* its upper end */
	STACK_SIZE = 96,
	GUARD = 104,
	KEYS = 128,
	BLOCK_BYTES = 200,
	KEYS_BYTES = 1024, /* or 0: in programs that never use a key */
	NEAR_TOP = 4096,   /* storage of more has a mapping of its own */
	LAST_STATE = 3,    /* DT_DETACHED */
};

static bool has_word(const struct ms_libc_bytes *block, size_t offset)
{
	return block->abi->word_bytes == WORD && !block->abi->tls_above &&
	       offset + WORD <= block->n;
}

/* 0 when it is not there. */
static uint64_t word(const struct ms_libc_bytes *block, size_t offset)
{
	return has_word(block, offset) ? ms_abi_word(block->abi, block->bytes + offset) : 0;
}

static uint32_t half(const struct ms_libc_bytes *block, size_t offset)
{
	return has_word(block, offset)
	               ? (uint32_t)ms_abi_number(block->abi, block->bytes + offset, 4)
	               : 0;
}

/* glibc's block, too, begins and goes on with its own address, but no link follows. */
static bool is_block(const struct ms_libc_bytes *memory, size_t i)
{
	ms_addr at = memory->at + i;
	ms_addr previous = word(memory, i + PREVIOUS);
	ms_addr next = word(memory, i + NEXT);

	return word(memory, i) == at && word(memory, i + DTV) && previous && next &&
	       !(previous % WORD) && !(next % WORD) && (previous == at) == (next == at);
}

static size_t next_block(const struct ms_libc_bytes *memory, size_t from)
{
	ms_addr at = ms_align_up(memory->at + from, WORD);

	for (size_t i = (size_t)(at - memory->at); has_word(memory, i + NEXT); i += WORD)
		if (is_block(memory, i))
			return i;
	return memory->n;
}

/* What musl mapped for the thread; empty when it mapped nothing. */
static struct ms_range map_of(const struct ms_libc_bytes *block)
{
	ms_addr base = word(block, MAP_BASE);
	uint64_t size = word(block, MAP_SIZE);
	const uint64_t page = block->abi->page_bytes;

	if (!base || base % page || size % page || block->at - base >= size || base + size < base)
		return (struct ms_range){ block->at, block->at };
	return (struct ms_range){ base, base + size };
}

static bool next_stack(const struct ms_libc_bytes *block, size_t *at, struct ms_stack_record *ret)
{
	struct ms_range map = map_of(block);
	uint64_t guard = word(block, GUARD);
	ms_addr top = word(block, STACK);
	uint64_t size = word(block, STACK_SIZE);
	ms_addr keys = word(block, KEYS);
	size_t try = (*at)++;

	if (!top || size > top)
		return false;
	if (ms_range_has(map, top)) {
		*ret = (struct ms_stack_record){ { map.begin + guard, map.end }, true };
		return !try && guard < block->at - map.begin;
	}
	/* The program's own. Whether there is room for keys' values is known nowhere. */
	ret->guarded = false;
	ret->block = (struct ms_range){ top - size, top };
	if (map.begin != map.end)
		return !try;
	if (block->at < top || keys < block->at + BLOCK_BYTES || keys - top > NEAR_TOP)
		return false;
	ret->block.end = try ? keys : keys + KEYS_BYTES;
	return try < 2;
}

static void thread(const struct ms_libc_bytes *block, struct ms_libc_thread *ret)
{
	ret->tid = (int32_t)half(block, TID);
	ret->known = has_word(block, KEYS) && half(block, STATE) <= LAST_STATE;
	ret->tls = word(block, DTV);
}

static bool keeps(struct ms_source *src, const struct ms_libc_bytes *block)
{
	struct ms_range map = map_of(block);

	(void)src;
	return map.begin != map.end;
}

const struct ms_libc_ops ms_libc_musl = {
	.name = "musl",
	.block_bytes = BLOCK_BYTES,
	.next_block = next_block,
	.next_stack = next_stack,
	.thread = thread,
	.keeps = keeps,
};
