/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_STATUS_H
#define MS_BASE_STATUS_H

/*
 * Failure, in one idiom.
 *
 * A function that can fail returns enum ms_status and nothing else; results
 * leave through trailing `ret` parameters, written only on success. The first
 * function to notice a failure calls ms_fail(), which stores the detail in the
 * caller's ms_error; every frame above it forwards the status unchanged:
 *
 *	st = ms_maps_read(tid, arena, &maps, err);
 *	if (st)
 *		return st;
 *
 * What the user can do about it is known best where the failure arises, so it
 * is written there too, by ms_advise(). No heap and no TLS: the same code runs
 * in a process that was forked while its malloc was locked.
 */

#include <stdint.h>

#define ms_must_check __attribute__((warn_unused_result))

enum ms_status {
	MS_OK = 0,
	MS_E_FAULT,       /* target address not readable; callers usually skip it */
	MS_E_NOMEM,       /* no memory for our own data */
	MS_E_SYS,         /* a system call failed; see ms_error.sys_errno */
	MS_E_CORRUPT,     /* target data contradicts its own format */
	MS_E_UNSUPPORTED, /* recognised, but nothing that we decode */
	MS_E_DENIED,      /* the kernel does not let us, or another tracer is there */
	MS_E_GONE,        /* the target ended, or never was */
	MS_E_TIMEOUT,     /* the time limit ran out */
	MS_E_BUSY,        /* the target changed too fast; another try may succeed */
	MS_E_DIED,        /* one of our own processes ended before its work did */
};

enum { MS_ERROR_TEXT = 320 };

struct ms_error {
	enum ms_status status;
	int sys_errno;              /* 0 unless a system call was the cause */
	uint64_t addr;              /* target address; 0 unless FAULT or CORRUPT */
	char text[MS_ERROR_TEXT];   /* what was refused: one line, no newline */
	char advice[MS_ERROR_TEXT]; /* what to do about it: one line, or empty */
};

/* Record a failure in @err and return @status, so that raising reads as one line. */
enum ms_status ms_fail(struct ms_error *err, enum ms_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), nonnull(1, 3)));

/* As ms_fail() with MS_E_SYS; keeps @sys_errno and appends its text after ": ". */
enum ms_status ms_fail_sys(struct ms_error *err, int sys_errno, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), nonnull(1, 3)));

/* Add to the failure just recorded what the user can do. */
void ms_advise(struct ms_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), nonnull(1, 2)));

/*
 * Copy a failure that another process wrote, and may be writing yet: its texts end, and its
 * status is one that there is (MS_E_DIED otherwise).
 */
void ms_error_take(struct ms_error *ret, const struct ms_error *foreign);

#endif
