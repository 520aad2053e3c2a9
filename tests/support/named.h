/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_NAMED_H
#define MS_TESTS_NAMED_H

/* Whether blocks that a test of kinds has drawn have the names that they are to have. */

#include <criterion/criterion.h>

#include "drawn_kinds.h"

/* What the tests of a file draw. */
static struct drawn_kinds d;

#define assert_name(block, wanted)                                      \
	cr_assert_str_eq(drawn_kinds_name(&d, (block)), (wanted), "%s", \
	                 drawn_kinds_name(&d, (block)))

/* The words at @at, of which there are @n, all matter to what @block is. */
static inline void assert_each_word_counts(ms_addr at, size_t n, ms_addr block)
{
	cr_assert_neq(drawn_kinds_name(&d, block)[0], '\0');
	cr_assert_eq(drawn_kinds_idle_word(&d, at, n, block), n, "word %zu",
	             drawn_kinds_idle_word(&d, at, n, block));
}

/* Any other byte at @at, and what @block is nobody knows. */
static inline void check_byte_counts(ms_addr at, ms_addr block)
{
	uint8_t *byte = ms_fake_at(&d.fake, at);

	*byte ^= 1;
	drawn_kinds_find(&d);
	assert_name(block, "");
	*byte ^= 1;
	drawn_kinds_find(&d);
	cr_assert_neq(drawn_kinds_name(&d, block)[0], '\0');
}

#endif
