/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_TASKS_H
#define MS_TARGET_TASKS_H

/* Inside this room: what is traced, and where each of it is. */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/run/run.h"

enum ms_task_state {
	MS_TASK_RUNNING,
	MS_TASK_LISTENING, /* in a group stop, as SIGSTOP makes it */
	MS_TASK_STANDING,  /* held by us in the stop that `status` tells */
	MS_TASK_ENDING,    /* let go into its exit */
};

struct ms_task {
	pid_t tid;
	enum ms_task_state state;
	int status; /* as from wait() */
	struct ms_process *process;
	struct ms_task *next;  /* of its process */
	struct ms_task *chain; /* of its bucket */
};

enum ms_process_stage {
	MS_LIVING,
	MS_GATHERING, /* some threads stand, the others are waited for */
	MS_SWEEPING,  /* all stand and are being scanned */
	MS_LEAVING,   /* scanned, or not to be */
};

struct ms_process {
	pid_t pid;
	enum ms_process_stage stage;
	bool fresh;             /* forked by us, and still our program */
	bool borrowed;          /* lives in its parent's memory, as the child of a vfork does */
	bool replacing;         /* one of its threads is in execve(), the others end for that */
	bool whole;             /* nothing has moved since it was captured */
	struct ms_task *doomed; /* stands before a signal that ends the process; or NULL */
	uint64_t since_ns;      /* when gathering began */
	struct ms_collection *frozen;
	pid_t sweeper; /* 0: none */
	struct ms_task *tasks;
	struct ms_process *next;
};

enum { MS_TASK_BUCKETS = 1024 };

struct ms_run {
	const struct ms_run_call *call;
	struct ms_task *buckets[MS_TASK_BUCKETS];
	struct ms_process *processes;
	pid_t main;      /* the program itself */
	sigset_t mask;   /* of signals blocked, as inherited */
	bool ended;      /* and what it ended with is in `status` */
	bool stop_asked; /* the terminal asked us to stop, and the program may do so */
	int status;
};

/* NULL when there is none. */
struct ms_task *ms_task_find(const struct ms_run *run, pid_t tid);
struct ms_process *ms_process_find(const struct ms_run *run, pid_t pid);

/* Add one; NULL without memory. */
struct ms_task *ms_task_add(struct ms_run *run, struct ms_process *process, pid_t tid);
struct ms_process *ms_process_add(struct ms_run *run, pid_t pid);

void ms_task_drop(struct ms_run *run, struct ms_task *task);

/* Forget @process when neither threads nor a sweeper of it are left. */
void ms_process_drop(struct ms_run *run, struct ms_process *process);

/* ---- launch.c ---- */

/*
 * Fork a child that is traced and execs the program once it may.
 *
 * @ret_refusal: a pipe on which errno comes should that fail; the caller's to close
 */
ms_must_check enum ms_status ms_launch(struct ms_run *run, int *ret_refusal, struct ms_error *err);

/* ---- signals.c ---- */

/* Block all signals but those that a mistake of our own raises. */
void ms_signals_take(struct ms_run *run);

/* In the child: the mask that memscan has inherited. */
void ms_signals_give_back(const struct ms_run *run);

/* Wait for a signal, @ns at most (0: for good), and pass it on if it is the program's. */
void ms_signals_wait(struct ms_run *run, uint64_t ns);

/* Stop as well when the program was stopped by the terminal, for the shell to see it. */
void ms_signals_stop_along(struct ms_run *run);

/* ---- gather.c ---- */

/* A thread ends, or would by @status: hold it, and the process is scanned once all stand. */
void ms_gather_begin(struct ms_task *task, int status);
void ms_gather_add(struct ms_task *task, int status);

/* See whether all threads stand; if so begin to scan. */
void ms_gather_check(struct ms_run *run, struct ms_process *process);

/* Let everything that stands go on as it would have. */
void ms_gather_release(struct ms_process *process);

/* Let it go unscanned; say why, and what to do for a scan next time. */
void ms_gather_miss(struct ms_run *run, struct ms_process *process, const char *why,
                    const char *advice);

/* Something that stood was killed. */
void ms_gather_spoil(struct ms_run *run, struct ms_process *process);

/* Let @task go on from the stop in task->status. */
void ms_task_resume(struct ms_task *task);

/* Whether @task, which is at the beginning of its exit, takes its process with it. */
bool ms_task_ends_process(const struct ms_run *run, const struct ms_task *task);

#endif
