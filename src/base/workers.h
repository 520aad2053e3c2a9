/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_WORKERS_H
#define MS_BASE_WORKERS_H

/*
 * Threads that share one piece of work at a time.
 *
 * Work is cut into items by its nature, never by the number of workers, and every
 * item writes to a place of its own: so the result is the same to the byte however
 * many workers there are and in whatever order they come to the items.
 *
 * Starting threads allocates by malloc; running work does not.
 */

#include <stddef.h>

#include "base/status.h"

enum { MS_WORKERS_MAX = 64 };

struct ms_workers;

/*
 * Start @n workers, the caller among them: 1 to MS_WORKERS_MAX. They wait for work when
 * this returns, and make no system call but futex from then on. Caller and workers are
 * bound to a processor each where there are enough.
 *
 * Returns MS_E_NOMEM, MS_E_SYS.
 */
ms_must_check enum ms_status ms_workers_start(unsigned n, struct ms_workers **ret,
                                              struct ms_error *err);
void ms_workers_stop(struct ms_workers *workers);

/* As many as there are processors that this process may run on. */
unsigned ms_workers_wanted(void);

/* How many; 1 for NULL. */
unsigned ms_workers_count(const struct ms_workers *workers);

/*
 * Call @body for each item from 0 to @n_items - 1, once, and return when all are done.
 * Items are begun in order. Not to be called from within @body.
 *
 * @workers: NULL: the caller does all
 * @body:    worker is below ms_workers_count() and no two calls with the same worker
 *           run at once, so that each can have memory of its own
 */
void ms_workers_run(struct ms_workers *workers, size_t n_items,
                    void (*body)(void *ctx, unsigned worker, size_t item), void *ctx);

#endif
