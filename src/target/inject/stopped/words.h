/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_WORDS_H
#define MS_TARGET_WORDS_H

/*
 * Whether a stopped thread will come back to an address: its stack has it then, as the return
 * address of a call or in the frame of a signal's handler.
 *
 * The look while all threads stand is bounded in time. So stacks are looked through before the
 * stop as well, and that of a thread that has only slept since is not read again. Stacks that
 * overlap are read once, and only pages that are in memory.
 */

#include "base/arena.h"
#include "base/range.h"
#include "target/collection.h"

enum {
	MS_WORDS_LIMIT_MS = 10,   /* of looking in one stop; or as long as stopping took, */
	MS_WORDS_LIMITS = 5,      /* up to so many times that */
	MS_WORDS_BEFORE_MS = 300, /* before it */
	/* Stacks of coroutines may lie side by side in a larger mapping: so much of each is read.
	 */
	MS_WORDS_MAPPING = 16 << 20,
	MS_WORDS_COROUTINE = 512 << 10,
};

enum ms_words_verdict {
	MS_WORDS_NONE,
	MS_WORDS_FOUND,
	MS_WORDS_UNKNOWN, /* the limit was reached, or a page is in swap */
};

/* What is in use of a stack. */
struct ms_words_stack {
	ms_addr sp;
	ms_addr end;
	pid_t tid;
};

/* A thread that was asleep before the stop. */
struct ms_words_sleeper {
	struct ms_words_stack stack;
	int64_t call;
	int schedstat; /* open */
	uint64_t runs; /* how often it had been given a processor */
	bool clear;    /* all of its stack was looked through, and nothing found */
};

struct ms_words_stacks MS_VEC(struct ms_words_stack);
struct ms_words_sleepers MS_VEC(struct ms_words_sleeper);

struct ms_words_search {
	pid_t pid;
	struct ms_mappings maps;
	int pagemap_fd;       /* -1: none */
	uint32_t max_threads; /* that may stand */
	uint64_t stack_at;    /* in a control block, the record of its stack; 0: not known */
	struct ms_words_sleepers sleepers; /* by number */
	struct ms_arena *arena;
	uint64_t limit_ns;
	uint64_t until_ns; /* of all looks in this stop; 0: none yet */

	/* of one look */
	const struct ms_ranges *wanted;
	struct ms_range hull;          /* of these */
	struct ms_words_stacks stacks; /* the threads', and behind them interrupted ones */
	size_t n_threads;              /* of stacks */
	const struct ms_words_stack *owner, *owners_end; /* of what is looked at, and overlaps */
	struct ms_ranges done;                           /* looked through */
	struct ms_ranges hits; /* before the stop: what is found, and what cannot be looked at */
	uint64_t *words;       /* a piece */
	uint64_t n_bytes;      /* read */
	unsigned n_reads;
	pid_t found;
	bool before;
	bool unknown;
};

/*
 * Look through the stacks of the threads of @pid that are asleep, and prepare to look again while
 * all threads stand.
 *
 * @search: zeros, but for stack_at and max_threads; lives until ms_words_end()
 * @wanted: as given to ms_words_find(), or more
 *
 * Returns MS_E_NOMEM, MS_E_GONE or MS_E_DENIED.
 * Context: the threads run.
 * Cost:    MS_WORDS_BEFORE_MS at most.
 */
ms_must_check enum ms_status ms_words_prepare(struct ms_words_search *search, pid_t pid,
                                              const struct ms_ranges *wanted,
                                              struct ms_arena *arena, struct ms_error *err);

/*
 * Whether a thread's stack has a word in one of @wanted. A word that nobody will use may be taken
 * for one.
 *
 * @ret: the thread; 0 unless found
 *
 * Context: all threads stand.
 * Cost:    search->limit_ns at most, for all calls since ms_words_prepare().
 */
enum ms_words_verdict ms_words_find(struct ms_words_search *search,
                                    const struct ms_collection *frozen,
                                    const struct ms_ranges *wanted, pid_t *ret);

void ms_words_end(struct ms_words_search *search);

#endif
