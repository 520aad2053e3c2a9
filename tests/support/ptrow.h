/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_PTROW_H
#define MS_TESTS_PTROW_H

/*
 * Tests of the glibc decoder that are tables: a heap is drawn, damaged and decoded.
 * Included by the tests of the decoder's files, once each.
 */

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "ptheap.h"

#define PARAMS(rows) cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]))

/*
 * Arrays, not pointers: Criterion hands parameters to a worker process by value. Where a
 * process of 32 bits wants another text, that stands behind " || ".
 */
struct row {
	char what[64];
	char picture[112];
	char damage[256]; /* for ptheap_break() */
	char lost[8];     /* owners whose chunks must not be told */
	char says[64];    /* must be in the evidence or the warnings */
};

static struct ptheap h;

static void check_version(const struct row *row, const char *version)
{
	ptheap_init(&h);
	ptheap_draw(&h, version, row->picture);
	ptheap_break(&h, row->damage);
	cr_expect_str_empty(ptheap_try(&h, row->lost), "%s, %s: %s", version, row->what, h.wrong);
	cr_expect(!row->says[0] || ptheap_says(&h, row->says), "%s, %s: not told: %s", version,
	          row->what, row->says);
	ptheap_deinit(&h);
}

/* Leave of @text what is for one width. */
static void choose_text(char *text, bool narrow)
{
	static const char between[] = " || ";
	char *bar = strstr(text, between);

	if (!bar)
		return;
	if (narrow)
		memmove(text, bar + strlen(between), strlen(bar + strlen(between)) + 1);
	else
		*bar = 0;
}

static struct row for_width(const struct row *row, bool narrow)
{
	struct row ret = *row;

	choose_text(ret.picture, narrow);
	choose_text(ret.damage, narrow);
	choose_text(ret.says, narrow);
	return ret;
}

/* In a process of 64 bits, and in one of 32. */
static void check(const struct row *row, const char *version)
{
	struct row wide = for_width(row, false);
	struct row narrow = for_width(row, true);
	char name[16];

	(void)snprintf(name, sizeof(name), "%s/32", version);
	check_version(&wide, version);
	check_version(&narrow, name);
}

#endif
