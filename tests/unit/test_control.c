/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "target/inject/control.h"

enum { WORDS = MS_CONTROL_BYTES / 8 };

static const uint64_t at = 0x7f0000001000;

/* A thread of each C library, alone. */
static void draw(const struct ms_control *control, uint64_t words[WORDS])
{
	memset(words, 0, MS_CONTROL_BYTES);
	words[0] = at;
	words[1] = 0x5000;
	words[2] = at;
	words[3] = control == &ms_control_musl ? at : 0;
	words[4] = 0;
}

static const struct {
	const char *what;
	const struct ms_control *control;
	size_t word;
	uint64_t value;
	bool agent_was;
	enum ms_control_verdict verdict;
} changes[] = {
	{ "nothing", &ms_control_glibc, 1, 0x5000, false, MS_CONTROL_FREE },
	{ "another's address", &ms_control_glibc, 0, at + 64, false, MS_CONTROL_UNKNOWN },
	{ "another's address", &ms_control_glibc, 2, at + 64, false, MS_CONTROL_UNKNOWN },
	{ "a count of before", &ms_control_glibc, 16, 4096, false, MS_CONTROL_FREE },
	{ "no count", &ms_control_glibc, 16, UINT64_C(1) << 50, false, MS_CONTROL_USED },
	{ "no count, of an agent", &ms_control_glibc, 16, UINT64_C(1) << 50, true,
	  MS_CONTROL_FREE },
	{ "no mark", &ms_control_glibc, 17, 256, false, MS_CONTROL_USED },
	{ "a word behind", &ms_control_glibc, 18, 1, true, MS_CONTROL_USED },
	{ "the last word behind", &ms_control_glibc, 19, 1, false, MS_CONTROL_USED },
	{ "nothing", &ms_control_musl, 1, 0x5000, false, MS_CONTROL_FREE },
	{ "another's address", &ms_control_musl, 0, at + 64, false, MS_CONTROL_UNKNOWN },
	{ "no thread vector", &ms_control_musl, 1, 0, false, MS_CONTROL_UNKNOWN },
	{ "no ring yet", &ms_control_musl, 2, 0, false, MS_CONTROL_MOVING },
	{ "half of a ring", &ms_control_musl, 3, at + 64, false, MS_CONTROL_MOVING },
	{ "no address in the ring", &ms_control_musl, 3, at + 3, false, MS_CONTROL_UNKNOWN },
	{ "no state", &ms_control_musl, 7, 4, false, MS_CONTROL_UNKNOWN },
	{ "a count of its maker", &ms_control_musl, 4, 4096, false, MS_CONTROL_FREE },
	{ "no count", &ms_control_musl, 4, UINT64_C(1) << 50, false, MS_CONTROL_USED },
	{ "fields beside the mark", &ms_control_musl, 8, 0x00020100, false, MS_CONTROL_FREE },
	{ "no mark", &ms_control_musl, 8, UINT64_C(2) << 32, false, MS_CONTROL_USED },
	{ "values of keys, where glibc's count is", &ms_control_musl, 16, at + 200, false,
	  MS_CONTROL_FREE },
};

Test(control, is_judged_by_each_word)
{
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		uint64_t words[WORDS];

		draw(changes[i].control, words);
		words[changes[i].word] = changes[i].value;
		cr_expect_eq(ms_control_check(changes[i].control, at, words, changes[i].agent_was),
		             changes[i].verdict, "%s: %s", changes[i].control->name,
		             changes[i].what);
	}
}

/* sub %rdi,%fs:AT */
static bool is_named(const struct ms_control *control, uint32_t distance)
{
	uint8_t text[32] = { [8] = 0x64, 0x48, 0x29, 0x3c, 0x25 };

	memcpy(text + 13, &distance, sizeof(distance));
	return ms_control_is_named(control, text, 17);
}

Test(control, bytes_are_named_by_instructions_with_their_distance)
{
	cr_expect_not(is_named(&ms_control_glibc, 0x7f));
	cr_expect(is_named(&ms_control_glibc, 0x80));
	cr_expect(is_named(&ms_control_glibc, 0x88));
	cr_expect_not(is_named(&ms_control_glibc, 0x90));
	cr_expect(is_named(&ms_control_musl, 0x20));
	cr_expect_not(is_named(&ms_control_musl, 0x28), "the canary");
	cr_expect(is_named(&ms_control_musl, 0x44));
	cr_expect_not(is_named(&ms_control_musl, 0x40), "cancel and the like");
}
