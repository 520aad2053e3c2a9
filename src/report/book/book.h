/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_BOOK_H
#define MS_REPORT_BOOK_H

/*
 * A type book as bytes, like a report (report/wire.h):
 *
 *	for each vector: count (u64), entries
 *
 * It crosses two borders: from the process that reads files to the original, and from there
 * to the sweeper. At both it is checked.
 */

#include "base/status.h"
#include "engine/names/fields/book.h"
#include "report/wire.h"

bool ms_book_send(ms_wire_put put, void *ctx, const struct ms_book *book);

/*
 * Receive what ms_book_send() sent, into @arena.
 *
 * @n_code: of the modules that were asked for
 *
 * MS_E_DIED when the bytes end early; MS_E_CORRUPT when they make no sense; MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_book_receive(const struct ms_wire_link *link, size_t n_code,
                                             struct ms_arena *arena, struct ms_book *ret,
                                             struct ms_error *err);

#endif
