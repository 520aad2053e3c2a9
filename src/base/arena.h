/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_ARENA_H
#define MS_BASE_ARENA_H

/*
 * The scan arena: memory that is released whole.
 *
 * Made of anonymous mappings, never of malloc's memory, because the sweeper may
 * be a fork of a program whose malloc lock is held. Two kinds of piece:
 *
 *	small: bump-allocated from 64 KiB chunks, never moved, never freed alone
 *	large: a mapping of its own, which ms_arena_resize() can grow by mremap()
 *	       without copying; this is what vectors (vec.h) are made of
 *
 * All memory comes zeroed. Not thread-safe.
 */

#include <stdbool.h>
#include <stddef.h>

struct ms_arena_chunk;

struct ms_arena {
	struct ms_arena_chunk *chunks; /* every mapping, newest first */
	char *bump;                    /* next free byte of the current small chunk */
	char *bump_end;
	bool refused;  /* something that was asked for was not to be had */
	bool unforked; /* children of fork() do not get what is mapped from now on */
};

/* Start empty: { 0 } is a valid arena as well. */
void ms_arena_init(struct ms_arena *arena);

/* Give every mapping back; the arena is empty and usable again. */
void ms_arena_deinit(struct ms_arena *arena);

/* Empty every piece; the mappings stay, to be given back. Nothing may be got from it before. */
void ms_arena_wipe(struct ms_arena *arena);

/* @len zeroed bytes aligned to 16, or NULL when the kernel refuses. */
void *ms_arena_alloc(struct ms_arena *arena, size_t len);

/*
 * Grow the large piece @old to @len bytes; it may move. NULL @old makes a new
 * one. Bytes beyond the old length are zero. NULL when the kernel refuses, with
 * @old then still valid.
 */
void *ms_arena_resize(struct ms_arena *arena, void *old, size_t len);

/* The mapping after @before, NULL for the first, or NULL behind the last; in no order. */
const void *ms_arena_next(const struct ms_arena *arena, const void *before, size_t *ret_len);

/* Copy the string @s of at most @max bytes, or NULL. */
char *ms_arena_strndup(struct ms_arena *arena, const char *s, size_t max);

#endif
