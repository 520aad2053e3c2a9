/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/stopped/blocks.h"

#include <assert.h>
#include <sys/uio.h>

enum { PER_THREAD = 2, BATCH = 128 * PER_THREAD };

enum ms_status ms_control_blocks_init(struct ms_control_blocks *blocks,
                                      const struct ms_control *control, uint32_t max_threads,
                                      struct ms_arena *arena, struct ms_error *err)
{
	*blocks = (struct ms_control_blocks){ .control = control, .max = max_threads };
	blocks->at = ms_arena_alloc(arena, max_threads * sizeof(*blocks->at));
	return blocks->at ? MS_OK : ms_fail(err, MS_E_NOMEM, "no memory for control blocks");
}

/* Where the @i-th part is read to. */
static struct iovec part_here(const struct ms_control_blocks *blocks, size_t i)
{
	struct ms_control_block *block = &blocks->at[i / PER_THREAD];

	return i % PER_THREAD ? (struct iovec){ block->stack, sizeof(block->stack) }
	                      : (struct iovec){ block->words, sizeof(block->words) };
}

static ms_addr part_there(const struct ms_control_blocks *blocks,
                          const struct ms_collection *frozen, size_t i)
{
	return frozen->threads[i / PER_THREAD].tp + (i % PER_THREAD ? blocks->control->stack : 0);
}

static void note(const struct ms_control_blocks *blocks, size_t i, bool is_read)
{
	struct ms_control_block *block = &blocks->at[i / PER_THREAD];

	*(i % PER_THREAD ? &block->has_stack : &block->has_words) = is_read;
}

/* Some parts from @first on, of @n. Returns behind the last that is noted. */
static size_t read_batch(const struct ms_control_blocks *blocks, const struct ms_collection *frozen,
                         size_t first, size_t n)
{
	struct iovec here[BATCH] = { 0 }, there[BATCH] = { 0 };
	size_t end = n - first > BATCH ? first + BATCH : n;
	ssize_t len;

	for (size_t i = first; i < end; i++) {
		here[i - first] = part_here(blocks, i);
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel is given it */
		there[i - first].iov_base = (void *)(uintptr_t)part_there(blocks, frozen, i);
		there[i - first].iov_len = here[i - first].iov_len;
	}
	/* It ends at the first part that it cannot read. */
	len = process_vm_readv(frozen->live_tid, here, end - first, there, end - first, 0);
	for (size_t i = first; i < end; i++) {
		const ssize_t wanted = (ssize_t)here[i - first].iov_len;

		note(blocks, i, len >= wanted);
		if (len < wanted)
			return i + 1;
		len -= wanted;
	}
	return end;
}

void ms_control_blocks_read(struct ms_control_blocks *blocks, const struct ms_collection *frozen)
{
	const size_t n = (size_t)frozen->n_threads * PER_THREAD;

	assert(frozen->n_threads <= blocks->max);
	for (size_t i = 0; i < n;)
		i = read_batch(blocks, frozen, i, n);
}
