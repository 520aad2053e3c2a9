/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/page.h"

/* Stands before the bytes of every mapping; keeps them 16-aligned and the list doubly linked. */
struct ms_arena_chunk {
	struct ms_arena_chunk *next;
	struct ms_arena_chunk *prev;
	size_t len; /* of the whole mapping, this header included */
	size_t pad;
};

enum {
	SMALL_CHUNK = 64 * 1024,
	LARGEST_SMALL = 8 * 1024,
	ALIGN = 16,
	HUGE_PAGES_FROM = 4 << 20, /* such a piece is walked at random: spare the TLB */
};

static_assert(sizeof(struct ms_arena_chunk) % ALIGN == 0, "pieces must stay aligned");

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

static void link_chunk(struct ms_arena *arena, struct ms_arena_chunk *chunk)
{
	if (chunk->next)
		chunk->next->prev = chunk;
	if (chunk->prev)
		chunk->prev->next = chunk;
	else
		arena->chunks = chunk;
}

static void *refuse(struct ms_arena *arena)
{
	arena->refused = true;
	return NULL;
}

static struct ms_arena_chunk *map_chunk(struct ms_arena *arena, size_t len)
{
	struct ms_arena_chunk *chunk;

	if (len > PTRDIFF_MAX - sizeof(*chunk) - ms_page_bytes())
		return refuse(arena);
	len = round_up(len + sizeof(*chunk), ms_page_bytes());
	chunk = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (chunk == MAP_FAILED)
		return refuse(arena);
	if (len >= HUGE_PAGES_FROM)
		(void)madvise(chunk, len, MADV_HUGEPAGE);
	if (arena->unforked)
		(void)madvise(chunk, len, MADV_DONTFORK);
	chunk->len = len;
	chunk->next = arena->chunks;
	chunk->prev = NULL;
	link_chunk(arena, chunk);
	return chunk;
}

void ms_arena_init(struct ms_arena *arena)
{
	memset(arena, 0, sizeof(*arena));
}

void ms_arena_deinit(struct ms_arena *arena)
{
	struct ms_arena_chunk *chunk = arena->chunks;

	while (chunk) {
		struct ms_arena_chunk *next = chunk->next;

		(void)munmap(chunk, chunk->len);
		chunk = next;
	}
	ms_arena_init(arena);
}

/* The first page has the header; the rest is the kernel's to empty, which takes no writing. */
void ms_arena_wipe(struct ms_arena *arena)
{
	const size_t page = ms_page_bytes();

	for (struct ms_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next) {
		memset(chunk + 1, 0, page - sizeof(*chunk));
		(void)madvise((char *)chunk + page, chunk->len - page, MADV_DONTNEED);
	}
}

void *ms_arena_alloc(struct ms_arena *arena, size_t len)
{
	void *piece;

	if (len > LARGEST_SMALL)
		return ms_arena_resize(arena, NULL, len);
	len = round_up(len ? len : 1, ALIGN);
	if ((size_t)(arena->bump_end - arena->bump) < len) {
		struct ms_arena_chunk *chunk = map_chunk(arena, SMALL_CHUNK);

		if (!chunk)
			return NULL;
		arena->bump = (char *)(chunk + 1);
		arena->bump_end = (char *)chunk + chunk->len;
	}
	piece = arena->bump;
	arena->bump += len;
	return piece;
}

void *ms_arena_resize(struct ms_arena *arena, void *old, size_t len)
{
	struct ms_arena_chunk *chunk;

	if (!old) {
		chunk = map_chunk(arena, len);
		return chunk ? chunk + 1 : NULL;
	}
	chunk = (struct ms_arena_chunk *)old - 1;
	if (len > PTRDIFF_MAX - sizeof(*chunk) - ms_page_bytes())
		return refuse(arena);
	len = round_up(len + sizeof(*chunk), ms_page_bytes());
	if (len <= chunk->len)
		return old;
	chunk = mremap(chunk, chunk->len, len, MREMAP_MAYMOVE);
	if (chunk == MAP_FAILED)
		return refuse(arena);
	if (len >= HUGE_PAGES_FROM)
		(void)madvise(chunk, len, MADV_HUGEPAGE);
	chunk->len = len;
	link_chunk(arena, chunk);
	return chunk + 1;
}

const void *ms_arena_next(const struct ms_arena *arena, const void *before, size_t *ret_len)
{
	const struct ms_arena_chunk *chunk = before;

	chunk = chunk ? chunk->next : arena->chunks;
	if (chunk)
		*ret_len = chunk->len;
	return chunk;
}

char *ms_arena_strndup(struct ms_arena *arena, const char *s, size_t max)
{
	size_t len = strnlen(s, max);
	char *copy = ms_arena_alloc(arena, len + 1);

	if (copy)
		memcpy(copy, s, len);
	return copy;
}
