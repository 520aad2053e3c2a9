/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_ANNOTATE_SAY_H
#define MS_INPROC_ANNOTATE_SAY_H

/* Write "libmemunreachable: @text" as a line to standard error; no malloc, errno kept. */
void ms_annotate_say(const char *text);

#endif
