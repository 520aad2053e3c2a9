/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_PRINT_H
#define MS_REPORT_PRINT_H

/* Text for people, piece by piece, into a sink. */

#include "report/writers.h"

struct ms_text {
	struct ms_sink *sink;
	bool ok; /* it still takes bytes */
};

/* Bytes as they are: colours, and what is harmless already. */
void ms_text_put(struct ms_text *t, const char *bytes, size_t len);

/*
 * One piece of text, bounded to 511 bytes; names go the other way. Nothing in it commands a
 * terminal, but a name could end the line.
 */
void ms_text_print(struct ms_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The machine that uname() calls @arch as Android's reports have it. */
const char *ms_text_abi(const char *arch);

/* What the target chose, made harmless to terminals. */
void ms_text_name(struct ms_text *t, const char *name, size_t len);

/* Bytes in the unit that takes four digits at most. */
void ms_text_amount(struct ms_text *t, uint64_t bytes);

/* What blocks are, in a few words; NULL: it is not known. */
void ms_text_type(struct ms_text *t, const struct ms_type *type);

#endif
