/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_COLLECTION_H
#define MS_TARGET_COLLECTION_H

/*
 * The collection process: the only one that traces the target.
 *
 * It waits for the sweeper's word, freezes the target, rolls threads out of
 * malloc, copies what each thread holds into memory shared with its two sisters,
 * and lets the target go when the sweeper says so, or is gone. It allocates
 * nothing and parses nothing of the target's memory.
 *
 *	sweeper                         collection
 *	ms_collection_freeze()  ──go──▶ seize, interrupt, relist, roll, capture
 *	        ◀──frozen (or failed)──
 *	ms_collection_clone()   ──go──▶ (not always) clone the target
 *	        ◀──cloned (or refused)─
 *	  holds the memory
 *	ms_collection_release() ──go──▶ rewind, detach; roll in the clone
 *	        ◀──released──
 *	  closes the channel            kill the clone, exit
 *
 * If the sweeper dies the channel closes and the collection process releases
 * the target; if the collection process dies the kernel detaches every thread and
 * kills the clone.
 */

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/range.h"
#include "base/status.h"
#include "engine/source.h"
#include "target/proc.h"

struct ms_arch;

enum {
	MS_THREAD_WORDS = 500,
	MS_CODE_RANGES = 32,
	MS_ALL_CODE_RANGES = 1024,
	MS_SIGNAL_WORDS = 512
};

/* Where in its own code a thread can be sent to; neither piece has more than MS_GADGET_BYTES. */
enum { MS_GADGET_BYTES = 16 };
struct ms_gadgets {
	ms_addr call;    /* makes a system call and returns; 0: not found */
	ms_addr restore; /* makes the call rt_sigreturn; 0: not found */
};

/* One captured thread, in shared memory; 4 KiB. */
struct ms_frozen_thread {
	int32_t tid;
	uint32_t stopped;
	uint64_t pc, sp, tp;
	int64_t call, result;         /* as in struct ms_cpu */
	struct ms_range signal_stack; /* as the kernel has it; empty: none, or not known */
	uint64_t vector_bytes;        /* of words, the last ones, captured whole; 0: they are not */
	uint64_t n_words;
	uint64_t words[MS_THREAD_WORDS];
};

/* What is kept of each thread. */
enum ms_captured {
	MS_CAPTURED_ROOTS,   /* all registers and the values of waiting signals */
	MS_CAPTURED_WHOLE,   /* the same, registers in the kernel's own form, for a core */
	MS_CAPTURED_GENERAL, /* general registers: nothing is searched */
};

/* Shared by original, sweeper and collection; made before the forks. */
struct ms_collection {
	/* set by the original */
	pid_t pid;
	const struct ms_arch *arch; /* of its program; not NULL */
	uint64_t start_ticks;       /* of it, after boot: another process with its id has another */
	uint64_t timeout_ns;
	uint64_t roll_ns;  /* at most, to lead threads out of malloc: a part of the pause */
	uint64_t lead_ns;  /* the same in the clone, while none stands still */
	uint32_t n_before; /* threads that it had before the freeze */
	uint32_t max_threads;
	size_t map_bytes;         /* of this whole mapping */
	struct ms_anchors wanted; /* allocators' state, whose code is to be looked for */

	/* set by the sweeper before it asks for the freeze */
	struct ms_proc_program program; /* of which all of this is; zeros: not asked for */
	uint32_t n_malloc_code;
	uint32_t n_libc_code;
	uint32_t n_linked_code;    /* of malloc_code, the last ones: found by state */
	struct ms_anchors anchors; /* that state */
	struct ms_range malloc_code[MS_CODE_RANGES]; /* instructions of malloc itself */
	struct ms_range libc_code[MS_CODE_RANGES];   /* C libraries' text, and what these call */
	uint32_t n_all_code;
	struct ms_range
		all_code[MS_ALL_CODE_RANGES]; /* executable mappings by address; the first */
	struct ms_gadgets gadgets;            /* for cloning */
	bool has_signal_stacks; /* or can have: its code registers some (signal_code.h) */
	bool code_cut;          /* too much was mapped to look for all of them */
	enum ms_captured captured;
	bool clone_wanted;   /* be ready to; then threads are not rolled */
	uint64_t least_room; /* as ms_fork_check() says */
	int sweeper_urgency; /* what it gives to ms_urgent_end() */
	pid_t sweeper;

	/* set by the collection process */
	uint32_t n_inside;           /* of the threads that clone_wanted left inside malloc */
	pid_t image;                 /* the clone, to be read; 0: none */
	pid_t child;                 /* of the target, made by us; 0: none, or reaped */
	int64_t child_number;        /* of it, as the target calls it */
	uint64_t clone_ns;           /* taken to make it */
	struct ms_error clone_error; /* why there is none; status MS_OK when not asked for */
	struct ms_error error;       /* why the freeze failed; read when freeze says so */
	pid_t live_tid; /* a thread whose /proc entry works, even under a zombie leader */
	uint32_t n_threads;
	uint32_t n_rolled;    /* threads that were inside malloc */
	uint32_t n_unrolled;  /* threads that could not be led out of it */
	uint32_t n_unstopped; /* threads asleep in the kernel, uninterruptible */
	uint64_t steps;       /* single steps made */
	uint64_t begun_ns;    /* when the first thread was about to be stopped; 0: not yet */
	uint64_t freeze_ns;   /* from the first interrupt to the last capture */
	uint64_t pause_ns;    /* from the first interrupt to the last detach */
	int64_t frozen_at;    /* wall clock, ns since the epoch */
	uint32_t n_unasked;   /* threads whose signal stacks are not known, and may matter */
	uint32_t n_signal_words;
	uint64_t signal_words[MS_SIGNAL_WORDS]; /* values that queued signals carry */
	struct ms_frozen_thread threads[];
};

/*
 * Make the shared memory for a scan of @pid with room for twice its present
 * threads and 1024 more. Returns MS_E_GONE when there is no such process.
 */
ms_must_check enum ms_status ms_collection_create(pid_t pid, uint64_t timeout_ns,
                                                  struct ms_collection **ret, struct ms_error *err);
void ms_collection_destroy(struct ms_collection *shared);

/*
 * Be the collection process: serve one freeze and one release over @channel (one
 * end of a SOCK_SEQPACKET pair), then return the exit status, 0 when the target
 * was released in order. Call in a process of its own and _exit() with the result.
 */
int ms_collection_serve(struct ms_collection *shared, int channel);

/*
 * Have the target reap its clone, which a collection process that was killed has left. In a
 * process of its own, which then exits with the result.
 */
int ms_collection_reap(struct ms_collection *shared);

/* Block all signals of this process and forget its handlers; SIGALRM ticks. */
void ms_collection_set_signals(void);

/* Tick, so that no wait for a thread is without end, or stop to. */
void ms_collection_set_tick(bool on);

/*
 * For who freezes without serving: the life of a collection process begins. It ends with its
 * parent, what a terminal sends does not reach it, and memory for the freeze is there.
 * Returns false when the parent has ended.
 */
bool ms_collection_begin(struct ms_collection *shared);

/* Forget what a freeze has found, before another one. */
void ms_collection_clear(struct ms_collection *shared);

/* A program that searches itself, as its collection process sees it. */
struct ms_self_collection {
	struct ms_collection *shared;
	struct ms_arena *arena;
	struct ms_ranges *own;                /* out: memory that freezing takes is added */
	int (*sweep)(void *ctx, int channel); /* the sweeper's life */
	void *ctx;
};

/*
 * Be the collection process of a program that searches itself, whose memory this process
 * shares (CLONE_VM): freeze it, fork the sweeper, which is a copy of that memory, and let
 * the program go when the sweeper says so. Threads that were inside malloc are led out of
 * it in the sweeper, which is asleep in ms_collection_release() then.
 *
 * @ret: the sweeper, a child that is to be waited for
 *
 * Context: after ms_collection_set_signals().
 */
ms_must_check enum ms_status ms_collection_serve_self(const struct ms_self_collection *self,
                                                      pid_t *ret, struct ms_error *err);

/* The sweeper's side. On failure @err is the collection's own, or MS_E_DIED when it is gone. */
ms_must_check enum ms_status ms_collection_freeze(struct ms_collection *shared, int channel,
                                                  struct ms_error *err);

/*
 * Clone the frozen target; shared->image is a process like any, stopped, and lives until
 * @channel is closed. Only after a freeze with shared->clone_wanted.
 *
 * Returns MS_E_UNSUPPORTED or MS_E_DENIED when it cannot be cloned, with the reason;
 * it is still frozen then.
 */
ms_must_check enum ms_status ms_collection_clone(struct ms_collection *shared, int channel,
                                                 struct ms_error *err);
ms_must_check enum ms_status ms_collection_release(struct ms_collection *shared, int channel,
                                                   struct ms_error *err);

/* The threads as they were captured; their words stay in @shared. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_collection_threads(const struct ms_collection *shared,
                                                   struct ms_arena *arena, struct ms_threads *ret,
                                                   struct ms_error *err);

#endif
