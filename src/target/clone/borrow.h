/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_BORROW_H
#define MS_TARGET_BORROW_H

/* One thread of a running process, stopped alone to make some calls of ours. */

#include "target/clone/detour.h"

struct ms_borrowing {
	struct ms_collection *shared;      /* what a freeze has found in it is forgotten */
	const struct ms_named_call *calls; /* that @body makes; n of them */
	size_t n;
	enum ms_status (*body)(void *ctx, struct ms_detour *detour, struct ms_error *err);
	void *ctx;
};

/*
 * Stop threads one after the other, those asleep first, until one is fit, and call @body
 * while it stands on its detour (detour.h).
 *
 * Returns what @body returns; MS_E_BUSY when no thread is fit at this moment, MS_E_UNSUPPORTED
 * or MS_E_DENIED when none ever is, MS_E_GONE when the process ended.
 */
ms_must_check enum ms_status ms_borrow_thread(const struct ms_borrowing *borrowing,
                                              struct ms_error *err);

#endif
