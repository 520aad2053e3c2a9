/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_ANSWERS_PARTS_H
#define MS_REPORT_ANSWERS_PARTS_H

/* What answers for people have in common: names of roots and blocks. */

#include "report/print.h"

/* What the target chose. */
void ms_answer_text(struct ms_text *t, const char *text);

/* Begin or end a line that stands out. */
void ms_answer_title(struct ms_text *t, bool on);

/* A place in a file or mapping, with its symbol. @what: it is there */
void ms_answer_module(struct ms_text *t, const struct ms_report *report, const struct ms_spot *spot,
                      const char *what);

/* A root. */
void ms_answer_spot(struct ms_text *t, const struct ms_report *report, const struct ms_spot *spot);

/* What is known of a type without a name. */
void ms_answer_functions(struct ms_text *t, const struct ms_type *type);

/* A block or mapping: "Session, 152 bytes". */
void ms_answer_block(struct ms_text *t, const struct ms_report *report,
                     const struct ms_answer_step *step);

#endif
