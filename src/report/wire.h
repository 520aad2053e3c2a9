/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_WIRE_H
#define MS_REPORT_WIRE_H

/*
 * A report as bytes on a pipe, from the sweeper to the original.
 *
 * The sweeper has read hostile memory, so its bytes are hostile as well: the
 * reader bounds every count, ends every string and refuses what does not fit.
 * Both ends are the same build: structs travel as they are.
 *
 *	magic, version │ outcome: struct ms_error │ fixed part of the report │ for each
 *	vector: count (u64), entries
 *
 * A failure ends after its outcome.
 */

#include "base/status.h"
#include "engine/report.h"

/* Move exactly @len bytes; false on end of file or error. */
typedef bool (*ms_wire_put)(void *ctx, const void *bytes, size_t len);
typedef bool (*ms_wire_get)(void *ctx, void *bytes, size_t len);

/* Send @report, or, when error->status is not MS_OK, the failure alone. */
bool ms_wire_send(ms_wire_put put, void *ctx, const struct ms_error *error,
                  const struct ms_report *report);

/*
 * Receive what ms_wire_send() sent.
 *
 * Returns MS_OK with @ret filled (vectors in @arena); the sender's failure with
 * its text in @err; MS_E_DIED when the bytes end early; MS_E_CORRUPT when they
 * make no sense; MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_wire_receive(ms_wire_get get, void *ctx, struct ms_arena *arena,
                                             struct ms_report *ret, struct ms_error *err);

#endif
