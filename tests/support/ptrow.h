/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_PTROW_H
#define MS_TESTS_PTROW_H

/*
 * Tests of the glibc decoder that are tables: a heap is drawn, damaged and decoded.
 * Included by the tests of the decoder's files, once each.
 */

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "ptheap.h"

#define PARAMS(rows) cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]))

/* Arrays, not pointers: Criterion hands parameters to a worker process by value. */
struct row {
	char what[64];
	char picture[112];
	char damage[256]; /* for ptheap_break() */
	char lost[8];     /* owners whose chunks must not be told */
	char says[64];    /* must be in the evidence or the warnings */
};

static struct ptheap h;

static void check(const struct row *row, const char *version)
{
	ptheap_init(&h);
	ptheap_draw(&h, version, row->picture);
	ptheap_break(&h, row->damage);
	cr_expect_str_empty(ptheap_try(&h, row->lost), "%s, %s: %s", version, row->what, h.wrong);
	cr_expect(!row->says[0] || ptheap_says(&h, row->says), "%s, %s: not told: %s", version,
	          row->what, row->says);
	ptheap_deinit(&h);
}

#endif
