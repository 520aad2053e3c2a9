/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "oldheap.h"

/* musl's oldmalloc: drawn heaps, and damaged ones. Pictures: oldheap.h. */

#define PARAMS(rows) cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]))

struct row {
	char what[48];
	char picture[96];
	char unsure[8]; /* numbers of chunks that are not told */
};

static struct oldheap h;

static bool says(const char *text)
{
	const struct ms_note *note;

	ms_vec_for_each (note, &h.evidence)
		if (strstr(note->text, text))
			return true;
	return false;
}

ParameterizedTestParameters(musl_oldmalloc, every_chunk_in_use_is_a_block)
{
	static struct row rows[] = {
		{ "one", "u24 f100", "" },
		{ "all sizes", "u0 u1 u15 u16 u17 u47 u48 u49 u5000 u100000 f5000", "" },
		{ "free ones", "f24 u8 f100 u8 f100 u200 f3000 u9 f3100 u5", "" },
		{ "two segments", "u24 f100 u8 | u5000 f200 | f5 u1", "" },
		{ "what the loader gave", "u24 f100 d100 d32", "" },
		{ "with mappings of their own", "u24 f100 ; m200000 - m300000", "" },
		{ "side by side", "f100 ; m200000 m300000 m250000", "" },
		{ "beside the program's own", "f100 ; m200000 g3 m300000", "" },
		{ "among the program's own", "f100 ; g2 m200000 g3 - m300000", "1" },
		{ "moved by aligned_alloc()", "f100 ; m200000+32 - m300000+4064 - m9+992", "" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, musl_oldmalloc, every_chunk_in_use_is_a_block, .timeout = 20)
{
	for (int way = 0; way < 2; way++) {
		size_t n = 0;

		oldheap_draw(&h, row->picture);
		h.fake.no_view = way;
		cr_assert_eq(oldheap_decode(&h), MS_OK);
		cr_assert_eq(h.found.n, 1, "%s: not found", row->what);
		cr_expect(h.found.at[0].verified, "%s: %s", row->what, h.evidence.at[1].text);
		for (size_t i = 0; i < h.n_chunks; i++) {
			bool told = h.chunks[i].kind != 'f' && !strchr(row->unsure, '0' + (int)i);

			cr_expect_eq(oldheap_is_told(&h, i), told, "%s: chunk %zu", row->what, i);
			n += told;
		}
		cr_expect_eq(h.blocks.n, n, "%s", row->what);
		cr_expect_eq(h.found.at[0].allocations, n);
		cr_expect_eq(h.found.at[0].allocation_bytes, h.blocks.bytes);
		oldheap_deinit(&h);
	}
}

static void check_damaged(const char *what, enum ms_doubt doubt)
{
	cr_assert_eq(oldheap_decode(&h), MS_OK);
	cr_assert_eq(h.found.n, 1, "%s", what);
	cr_expect_eq(h.found.at[0].doubt, doubt, "%s", what);
	cr_expect_eq(h.blocks.n, 0, "%s: told", what);
	cr_expect(h.decoding.unproved.n > 0, "%s", what);
}

/* Chunks: 0 u24, 1 f100, 2 u8, 3 f100, 4 u5; those that are free are in one bin. */
Test(musl_oldmalloc, what_contradicts_is_not_proved)
{
	static const struct {
		const char *what;
		size_t chunk;
		unsigned word;
		uint64_t value;
	} cases[] = {
		{ "a free chunk that is in no bin", 2, 1, 32 },
		{ "its link leads nowhere", 1, 2, 4096 },
		{ "its link leads to one in use", 1, 2, 0 },
		{ "the link back leads elsewhere", 3, 3, 4096 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ms_addr at;

		oldheap_draw(&h, "u24 f100 u8 f100 u5");
		at = h.chunks[cases[i].chunk].at;
		ms_fake_put(&h.fake, at + 8 * cases[i].word,
		            cases[i].value ? cases[i].value : h.chunks[2].at);
		if (cases[i].word == 1)
			ms_fake_put(&h.fake, h.chunks[3].at, cases[i].value);
		check_damaged(cases[i].what,
		              cases[i].word == 1 ? MS_DOUBT_DISAGREES : MS_DOUBT_DAMAGED);
		oldheap_deinit(&h);
	}
}

/* The free ones that its bins name are not found: no block is told. */
Test(musl_oldmalloc, a_segment_that_breaks_is_none)
{
	oldheap_draw(&h, "u24 f100 u8 | u5 u6 f7");
	ms_fake_put(&h.fake, h.chunks[4].at, 64 | 1);
	check_damaged("a length differs from the one behind", MS_DOUBT_DAMAGED);
	cr_expect(says("bin"));
	oldheap_deinit(&h);
}

Test(musl_oldmalloc, a_ring_that_does_not_come_back_ends)
{
	oldheap_draw(&h, "f100 u8 f100 u8 f100 u5");
	ms_fake_put(&h.fake, h.chunks[4].at + 16, h.chunks[2].at);
	check_damaged("a ring", MS_DOUBT_DAMAGED);
	oldheap_deinit(&h);
}

Test(musl_oldmalloc, a_lock_that_is_held_says_that_it_changes)
{
	oldheap_draw(&h, "u24 f100");
	ms_fake_put(&h.fake, h.mal + 8 + 24 * 64, 1);
	check_damaged("the heap's lock", MS_DOUBT_CHANGES);
	ms_fake_put(&h.fake, h.mal + 8 + 24 * 64, 0);
	ms_fake_put(&h.fake, h.mal + 8 + 24 * 63, 1);
	check_damaged("a bin's lock", MS_DOUBT_CHANGES);
	ms_fake_put(&h.fake, h.mal + 8 + 24 * 63, 0);
	ms_fake_thread(&h.fake, 7, 0, 0)->in_malloc = MS_MALLOC_WAITS;
	cr_assert_eq(oldheap_decode(&h), MS_OK);
	cr_expect(h.found.at[0].verified);
	h.fake.base.threads.at[0].in_malloc = MS_MALLOC_WORKS;
	check_damaged("a thread", MS_DOUBT_CHANGES);
	oldheap_deinit(&h);
}

Test(musl_oldmalloc, its_bins_are_no_others)
{
	oldheap_draw(&h, "u24 f100 u5");
	ms_fake_put(&h.fake, h.mal, 1);
	cr_assert_eq(oldheap_decode(&h), MS_OK);
	cr_expect_eq(h.found.n, 0, "the map says another bin");
	oldheap_deinit(&h);
	oldheap_draw(&h, "u24 f100 u5");
	ms_fake_put(&h.fake, h.chunks[1].at + 24, 1);
	cr_assert_eq(oldheap_decode(&h), MS_OK);
	cr_expect_eq(h.found.n, 0, "what is in a bin does not lead back");
	oldheap_deinit(&h);
}
