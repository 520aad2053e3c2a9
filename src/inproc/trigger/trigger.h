/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_TRIGGER_H
#define MS_INPROC_TRIGGER_H

/*
 * A process that is made to look at itself: by a signal, by its size, by the clock.
 *
 *	settings.c  what the environment says
 *	handler.c   the signal, and the process that serves requests one after the other
 *	watch.c     what begins before main(): the handler, and the thread that watches size
 *	            and clock, in children too
 *	answer.c    where the answer goes: to memscan trigger, which waits for it, or to a
 *	            file
 *
 * What the two sides agree on, memscan trigger being the other (cli/cmd_trigger.c), is
 * below.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/newfile.h"
#include "memunreachable/trigger.h"

enum ms_request_kind { MS_TELL_LEAKS = 1, MS_TELL_STACKS = 2 };

enum { MS_PROGRAM_BYTES = 512 };

struct ms_trigger_settings {
	bool off;
	char folder[MS_FOLDER_BYTES];        /* of the files */
	char memscan[MS_PROGRAM_BYTES];      /* the program, for stacks; "" when it was not found */
	char suppressions[MS_PROGRAM_BYTES]; /* a file; "" for none */
	uint64_t rss_bytes;                  /* 0: not watched */
	uint64_t interval_s;                 /* 0: not watched */
};

/* Read the environment; what makes no sense there is logged and left out. */
void ms_trigger_read_settings(struct ms_trigger_settings *ret);

/* The settings that hold; after the handler was installed. */
const struct ms_trigger_settings *ms_trigger_settings(void);

/*
 * Ask for answers, of enum ms_request_kind. They are given later, by a process beside.
 * Returns 0, or errno when none could be started; the request is kept for the next.
 *
 * Context: any, a signal handler too; no point of cancellation.
 */
int ms_trigger_request(uint32_t wanted);

/* Whether an answer is being made, by a process whose memory counts as the program's. */
bool ms_trigger_is_answering(void);

/*
 * Install the handler before main(): false when it is not to be, or cannot. A program that has
 * its own use for the signal keeps it.
 */
bool ms_trigger_begin(void);

/* Where one answer is written to. */
struct ms_answer {
	int fd;
	bool is_file;
	int error;              /* errno of what could not be written; 0: the answer is whole */
	struct ms_newfile file; /* where it is one */
};

/*
 * Open the way to the asker that waits for an answer of process @pid, or else a file. False, with
 * the reason logged, when there is neither.
 */
bool ms_answer_open(const char *folder, pid_t pid, struct ms_answer *ret);

/* End the answer. A file that is whole is given its name, the next in turn, which is logged. */
void ms_answer_close(const char *folder, struct ms_answer *answer);

#endif
