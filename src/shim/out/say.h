/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_OUT_SAY_H
#define MS_SHIM_OUT_SAY_H

/*
 * The log: lines "malloc_debug: TEXT" on what was standard error when the process started,
 * each in one call of write(), without malloc or a lock.
 */

#define MS_SAY_DIVIDER "*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***"

/* Keep standard error for later: the program may close it. */
void ms_say_init(void);

/* A line each; longer ones are cut. */
void ms_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Lines that are written together, so that those of other threads do not come between. */
struct ms_say_batch {
	unsigned long used;
	char text[8192];
};

void ms_say_add(struct ms_say_batch *batch, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void ms_say_flush(struct ms_say_batch *batch);

/* The same under the C library's tag, which is what decides to use the shim on Android. */
void ms_say_libc(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
