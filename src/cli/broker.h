/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_BROKER_H
#define MS_CLI_BROKER_H

/*
 * A process that opens files for another that has no right to (worker.h), by what these
 * are (sym/finder.h). It reads none of them, and has a process of its own because to open
 * one may take for ever: it may be on a filesystem of the target's.
 */

#include "sym/opener.h"

/* Answer what is asked over @channel, until it ends or it is too much. To be _exit()ed with. */
int ms_broker_serve(struct ms_opener *opener, int channel);

/* The other side, a ms_finder.find; @ctx: the channel, an int. */
int ms_broker_find(void *ctx, const struct ms_file_question *question, struct ms_file_answer *ret);

#endif
