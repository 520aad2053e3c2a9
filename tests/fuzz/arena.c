/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan arena for fuzzing, in place of base/arena.c: each piece is malloc's, so that
 * AddressSanitizer sees what is read behind its last byte, and what is read of a vector
 * where it was before it grew. The real one's pieces lie side by side and never move.
 *
 * Pieces that are large are the kernel's, because malloc would write to all of them, and
 * most of their pages are never used. No input may make a reader take more than the
 * limit, whatever it promises.
 */
#include "base/arena.h"

#include <assert.h>
#include <sanitizer/asan_interface.h>
#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"

/* Stands before the bytes of every piece. */
struct ms_arena_chunk {
	struct ms_arena_chunk *next;
	struct ms_arena_chunk *prev;
	size_t len; /* of the bytes */
	bool mapped;
};

enum {
	LARGEST_OF_MALLOC = 32 * 1024,
	HEAD = 64,
	MOST_BYTES = 1 << 30,
	PAGE = 4096,
	SPARES = 128,
	HIDDEN = 16 * 1024,
	KEPT_USES = 16,
};

static_assert(sizeof(struct ms_arena_chunk) <= HEAD, "bytes stay aligned");

static size_t all_bytes;

void fuzz_keep(void)
{
	all_bytes = 0;
}

static char *bytes_of(struct ms_arena_chunk *chunk)
{
	return (char *)chunk + HEAD;
}

/* ---- pieces that are large ---- */

/* What was given back, for the next run: a page that is touched first takes long. */
static struct ms_arena_chunk *spare[SPARES];

/*
 * Empty the pages that were touched lately; all others are. Now and then all are given back:
 * of those that any run touched, another one needs few.
 */
static void empty(void *mapping, size_t len)
{
	static unsigned char present[MOST_BYTES / PAGE];
	static unsigned int uses;
	size_t pages = (len + PAGE - 1) / PAGE;

	if (uses++ % KEPT_USES == 0 && madvise(mapping, len, MADV_DONTNEED) == 0)
		return;
	require(mincore(mapping, len, present) == 0, "pages are told");
	for (size_t i = 0, end; i < pages; i = end + 1) {
		for (end = i; end < pages && present[end] & 1;)
			end++;
		if (end > i)
			memset((char *)mapping + i * PAGE, 0,
			       (end < pages ? end * PAGE : len) - i * PAGE);
	}
}

/* All of a mapping, with what nobody may touch behind its bytes: of few lengths. */
static size_t mapped_bytes(size_t len)
{
	size_t all = (size_t)2 * LARGEST_OF_MALLOC;

	while (all < HEAD + len + PAGE)
		all *= 2;
	return all;
}

static char *tail_of(void *mapping, size_t len)
{
	return (char *)mapping + HEAD + len;
}

static size_t tail_bytes(size_t len)
{
	size_t tail = mapped_bytes(len) - HEAD - len;

	return tail < HIDDEN ? tail : (size_t)HIDDEN;
}

static void *take_spare(size_t len)
{
	for (size_t i = 0; i < SPARES; i++) {
		struct ms_arena_chunk *chunk = spare[i];

		if (!chunk || mapped_bytes(chunk->len) != mapped_bytes(len))
			continue;
		spare[i] = NULL;
		ASAN_UNPOISON_MEMORY_REGION(bytes_of(chunk), HIDDEN);
		ASAN_UNPOISON_MEMORY_REGION(tail_of(chunk, chunk->len), tail_bytes(chunk->len));
		empty(chunk, HEAD + chunk->len);
		return chunk;
	}
	return NULL;
}

static void *map(size_t len)
{
	void *mapping = take_spare(len);

	if (!mapping)
		mapping = mmap(NULL, mapped_bytes(len), PROT_READ | PROT_WRITE,
		               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapping != MAP_FAILED)
		ASAN_POISON_MEMORY_REGION(tail_of(mapping, len), tail_bytes(len));
	return mapping;
}

static void unmap(struct ms_arena_chunk *chunk)
{
	size_t len = mapped_bytes(chunk->len);

	ASAN_UNPOISON_MEMORY_REGION(chunk, len);
	(void)munmap(chunk, len);
}

/* In the place of the one that was kept longest. Its begin is hidden from who still knows it. */
static void keep_spare(struct ms_arena_chunk *chunk)
{
	static size_t next;
	struct ms_arena_chunk **slot = &spare[next++ % SPARES];

	if (*slot)
		unmap(*slot);
	*slot = chunk;
	ASAN_POISON_MEMORY_REGION(bytes_of(chunk), HIDDEN);
}

/* ---- pieces ---- */

static struct ms_arena_chunk *new_chunk(size_t len)
{
	bool mapped = len > LARGEST_OF_MALLOC;
	struct ms_arena_chunk *chunk;

	require(len <= MOST_BYTES - all_bytes, "memory has a bound");
	all_bytes += len;
	chunk = mapped ? map(len) : calloc(1, HEAD + len);
	require(chunk && chunk != MAP_FAILED, "there is memory");
	chunk->len = len;
	chunk->mapped = mapped;
	return chunk;
}

static void free_chunk(struct ms_arena_chunk *chunk)
{
	all_bytes -= chunk->len;
	if (!chunk->mapped)
		free(chunk);
	else
		keep_spare(chunk);
}

static void *add(struct ms_arena *arena, size_t len)
{
	struct ms_arena_chunk *chunk = new_chunk(len);

	chunk->next = arena->chunks;
	if (chunk->next)
		chunk->next->prev = chunk;
	arena->chunks = chunk;
	return bytes_of(chunk);
}

static void take_out(struct ms_arena *arena, struct ms_arena_chunk *chunk)
{
	if (chunk->next)
		chunk->next->prev = chunk->prev;
	if (chunk->prev)
		chunk->prev->next = chunk->next;
	else
		arena->chunks = chunk->next;
}

void ms_arena_init(struct ms_arena *arena)
{
	memset(arena, 0, sizeof(*arena));
}

void ms_arena_deinit(struct ms_arena *arena)
{
	struct ms_arena_chunk *next;

	for (struct ms_arena_chunk *chunk = arena->chunks; chunk; chunk = next) {
		next = chunk->next;
		free_chunk(chunk);
	}
	ms_arena_init(arena);
}

void ms_arena_wipe(struct ms_arena *arena)
{
	for (struct ms_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next)
		memset(bytes_of(chunk), 0, chunk->len);
}

void *ms_arena_alloc(struct ms_arena *arena, size_t len)
{
	return add(arena, len);
}

void *ms_arena_resize(struct ms_arena *arena, void *old, size_t len)
{
	struct ms_arena_chunk *chunk;
	void *moved;

	if (!old)
		return add(arena, len);
	chunk = (void *)((char *)old - HEAD);
	if (len <= chunk->len)
		return old;
	moved = add(arena, len);
	memcpy(moved, old, chunk->len);
	take_out(arena, chunk);
	free_chunk(chunk);
	return moved;
}

const void *ms_arena_next(const struct ms_arena *arena, const void *before, size_t *ret_len)
{
	const struct ms_arena_chunk *chunk = before;

	chunk = chunk ? chunk->next : arena->chunks;
	if (chunk)
		*ret_len = HEAD + chunk->len;
	return chunk;
}

char *ms_arena_strndup(struct ms_arena *arena, const char *s, size_t max)
{
	size_t len = strnlen(s, max);
	char *copy = ms_arena_alloc(arena, len + 1);

	memcpy(copy, s, len);
	return copy;
}
