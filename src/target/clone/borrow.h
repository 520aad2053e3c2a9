/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_BORROW_H
#define MS_TARGET_BORROW_H

/* One thread of a running process, stopped alone to make some calls of ours. */

#include "target/clone/detour.h"

struct ms_borrowing {
	struct ms_collection *shared; /* what a freeze has found in it is forgotten */
	/* Begins the detour of the thread that stands, and ends it. */
	enum ms_status (*body)(void *ctx, struct ms_detour *detour, struct ms_error *err);
	void *ctx;
};

/*
 * Stop threads one after the other, those asleep first, and call @body while one stands, until
 * one was fit for its detour.
 *
 * Returns what @body returned last, MS_E_BUSY when no thread can be stopped now, MS_E_GONE when
 * the process ended.
 */
ms_must_check enum ms_status ms_borrow_thread(const struct ms_borrowing *borrowing,
                                              struct ms_error *err);

#endif
