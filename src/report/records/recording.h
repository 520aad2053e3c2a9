/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_RECORDS_RECORDING_H
#define MS_REPORT_RECORDS_RECORDING_H

/*
 * What a recording of every malloc and free contains (Malloc Debug's record_allocs).
 *
 *	operation.c   a line becomes an operation
 *	reader.c      bytes become lines
 *	replay.c      operation by operation: what is alive, since when, by which thread
 *	lists.c       what is listed of it, in order
 *	text.c json.c and is written
 *
 * Operations are replayed in the order of the file, which is the order in which they began.
 * Of operations that ran at the same time, one may so stand before another that it came
 * after: an address is given out in the file before it is freed. Where the file has times
 * they decide which block a free is of: a block is there from the end of the call that gave
 * it out, and gone from the beginning of the one that takes it back. Without times it is
 * taken to be the one that was there first. The counts of live bytes follow the file, and
 * so differ from the truth at most by the operations that run at that moment.
 */

#include "base/map.h"
#include "base/status.h"
#include "base/vec.h"
#include "report/records/operation.h"

enum {
	MS_RECORDING_LINE = 4096, /* bytes; no line is as long */
	MS_RECORDING_CHAINS = 10, /* of blocks that were resized most */
	MS_RECORDING_AGES = 64,   /* powers of two of nanoseconds, which fit into an int64_t */
	MS_RECORDING_MOST_WARNINGS = 4,
};

/* A block, from the call that gave it out, through its resizings, to its end. */
struct ms_recorded_block {
	ms_addr address; /* as after the last resizing, as are size, thread and since_ns */
	uint64_t size;   /* bytes */
	uint64_t since_ns;
	uint64_t born_ns; /* when the first call ended, as since_ns; 0: the file has no times */
	uint64_t line;    /* of the first call */
	uint64_t first_size;
	uint64_t copied_bytes; /* by resizings that moved it */
	uint32_t thread;       /* index of ms_recording.threads */
	uint32_t size_index;   /* of ms_recording.sizes */
	uint32_t resized;      /* how often */
	uint32_t late;         /* replay.c */
	bool live;
};

struct ms_recorded_blocks MS_VEC(struct ms_recorded_block);

struct ms_recorded_thread {
	uint32_t tid; /* the kernel may have given it to several threads, one after another */
	bool ended;
	uint64_t operations;
	uint64_t allocations;
	uint64_t allocated_bytes;
	uint64_t frees;
	uint64_t live_blocks; /* of those that it gave out, or resized last */
	uint64_t live_bytes;
};

struct ms_recorded_threads MS_VEC(struct ms_recorded_thread);

struct ms_recorded_size {
	uint64_t size;
	uint64_t allocations; /* a resizing to this size is one, too */
	uint64_t live_blocks;
};

struct ms_recorded_sizes MS_VEC(struct ms_recorded_size);

struct ms_recorded_calls {
	uint64_t calls;
	uint64_t failed;
	uint64_t bytes; /* of those that did not fail */
};

struct ms_recorded_moment {
	uint64_t line; /* 0: before the first */
	uint64_t ns;   /* 0: the file has no times */
	uint64_t blocks;
	uint64_t bytes;
};

struct ms_recorded_indices MS_VEC(uint32_t);
struct ms_recorded_warnings MS_VEC(const char *);

/* Up to where a recording is replayed. */
struct ms_recording_until {
	enum { MS_UNTIL_END, MS_UNTIL_LINE, MS_UNTIL_NS } what;
	uint64_t value;
};

struct ms_recording {
	const char *file;
	struct ms_recording_until until;
	struct ms_recorded_calls calls[MS_OP_KINDS];
	uint64_t operations;
	bool timed; /* at least one operation is; the earliest beginning, the last end: */
	uint64_t first_ns;
	uint64_t last_ns;
	struct ms_recorded_moment peak; /* the first of equal ones */
	struct ms_recorded_moment end;
	uint64_t asked_bytes; /* of all calls */
	uint64_t allocations; /* that gave something out; resizings are none */
	uint64_t allocated_bytes;
	uint64_t freed;         /* blocks of this recording, as the next two */
	uint64_t freed_foreign; /* by another thread than had given them out */
	uint64_t freed_unseen;  /* or resized; the recording never saw them given out */
	uint64_t lost;          /* the address was given out again, no free of it is there */
	uint64_t resized;       /* realloc of a block to another size, or the same */
	uint64_t moved;
	uint64_t copied_bytes;
	uint64_t ages[MS_RECORDING_AGES]; /* [i]: blocks that lived less than 2^i ns */
	uint64_t aged;                    /* sum of these */
	struct ms_recorded_block chains[MS_RECORDING_CHAINS]; /* most resized first */
	size_t n_chains;
	struct ms_recorded_blocks blocks; /* [0] is none; those that live are marked */
	struct ms_recorded_threads threads;
	struct ms_recorded_sizes sizes;
	struct ms_recorded_warnings warnings;

	/* By ms_recording_list(). Each is as long as the caller's limit at most. */
	struct ms_recorded_indices live_sizes; /* most live bytes first */
	struct ms_recorded_indices all_sizes;  /* most often allocated first */
	struct ms_recorded_indices by_thread;  /* most live bytes first, then most operations */
	struct ms_recorded_indices oldest;     /* live blocks, oldest first */
	size_t n_live_sizes;                   /* without the limit */
};

/* A replay that goes on. Begin with { 0 }, but for these four. */
struct ms_recording_reader {
	struct ms_recording *recording;
	struct ms_arena *arena;
	const char *file; /* for error texts; borrowed */
	struct ms_recording_until until;

	uint64_t line; /* the number of the last one */
	bool seen;     /* an operation */
	bool untimed;  /* an operation without times */
	bool stopped;  /* the rest is not looked at */
	struct ms_map by_address;
	struct ms_map by_size;
	struct ms_map by_tid;
	uint32_t last_thread;
	uint32_t free_blocks;
	size_t carried; /* the beginning of a line */
	char carry[MS_RECORDING_LINE];
};

/* Begin with an empty @reader->recording. Returns MS_E_NOMEM. */
ms_must_check enum ms_status ms_recording_begin(struct ms_recording_reader *reader,
                                                struct ms_error *err);

/*
 * Take the next @len bytes of the file.
 *
 * Returns MS_E_CORRUPT for a line that is none of a recording, with its number and what was
 * expected in err; MS_E_NOMEM. Sums of bytes fit into an int64_t.
 */
ms_must_check enum ms_status ms_recording_feed(struct ms_recording_reader *reader,
                                               const char *bytes, size_t len, struct ms_error *err);

/* The file is at its end. Returns MS_E_CORRUPT when there was no operation in it. */
ms_must_check enum ms_status ms_recording_end(struct ms_recording_reader *reader,
                                              struct ms_error *err);

/* replay.c: take one more operation, of line @reader->line. As ms_recording_feed(). */
ms_must_check enum ms_status ms_recording_replay(struct ms_recording_reader *reader,
                                                 const struct ms_operation *op,
                                                 struct ms_error *err);

/* replay.c: all operations were taken. */
void ms_recording_settle(struct ms_recording_reader *reader);

/* Make the lists, of at most @limit entries each. Returns MS_E_NOMEM. */
ms_must_check enum ms_status ms_recording_list(struct ms_recording *recording, uint64_t limit,
                                               struct ms_arena *arena, struct ms_error *err);

#endif
