/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/offsets.h"
#include "base/range.h"
#include "base/search.h"
#include "base/sort.h"
#include "base/status.h"

Test(arena, gives_zeroed_memory_aligned_to_16)
{
	static const size_t sizes[] = { 0, 1, 15, 17, 4000, 8192, 8193, 100000, 5 << 20 };
	struct ms_arena arena = { 0 };

	for (int round = 0; round < 50; round++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			unsigned char *p = ms_arena_alloc(&arena, sizes[i]);

			cr_assert_not_null(p);
			cr_assert_eq((uintptr_t)p % 16, 0);
			for (size_t k = 0; k < sizes[i] && k < 9000; k++)
				cr_assert_eq(p[k], 0);
			memset(p, 0xff, sizes[i]);
		}
	ms_arena_deinit(&arena);
	cr_assert_null(arena.chunks);
}

Test(arena, grows_a_piece_and_keeps_its_bytes)
{
	struct ms_arena arena = { 0 };
	unsigned char *piece = ms_arena_resize(&arena, NULL, 5000);
	unsigned char *other = ms_arena_resize(&arena, NULL, 5000);

	memset(piece, 7, 5000);
	memset(other, 9, 5000);
	piece = ms_arena_resize(&arena, piece, 50 << 20);
	cr_assert_not_null(piece);
	cr_assert_eq(piece[4999], 7);
	cr_assert_eq(piece[(50 << 20) - 1], 0);
	cr_assert_eq(other[4999], 9);
	ms_arena_deinit(&arena);
}

Test(arena, wipes_every_byte_of_every_piece)
{
	struct ms_arena arena = { 0 };
	size_t lens[] = { 10, 64, 100 * 1024 - 100, 5 << 20 };
	char *pieces[4];

	for (size_t i = 0; i < 4; i++) {
		pieces[i] = ms_arena_alloc(&arena, lens[i]);
		cr_assert(pieces[i]);
		memset(pieces[i], 0xa5, lens[i]);
	}
	ms_arena_wipe(&arena);
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < lens[i]; k++)
			cr_assert_eq(pieces[i][k], 0, "piece %zu, byte %zu", i, k);
	ms_arena_deinit(&arena);
}

Test(arena, refuses_what_nobody_has)
{
	struct ms_arena arena = { 0 };

	cr_assert_null(ms_arena_alloc(&arena, SIZE_MAX));
	cr_assert_null(ms_arena_alloc(&arena, (size_t)1 << 62));
	cr_assert_not_null(ms_arena_alloc(&arena, 10));
	ms_arena_deinit(&arena);
}

Test(arena, keeps_a_piece_that_cannot_grow)
{
	struct ms_arena arena = { 0 };
	unsigned char *piece = ms_arena_resize(&arena, NULL, 5000);

	piece[4999] = 7;
	cr_assert_null(ms_arena_resize(&arena, piece, SIZE_MAX));
	cr_assert_null(ms_arena_resize(&arena, piece, PTRDIFF_MAX - 10000));
	cr_assert_eq(piece[4999], 7);
	ms_arena_deinit(&arena);
}

static bool is_mapped(const void *piece)
{
	return msync((void *)((uintptr_t)piece & ~(uintptr_t)4095), 1, MS_ASYNC) == 0;
}

Test(arena, gives_back_every_piece_also_those_that_moved)
{
	struct ms_arena arena = { 0 };
	void *pieces[3];

	for (int i = 0; i < 3; i++)
		pieces[i] = ms_arena_resize(&arena, NULL, 5000);
	for (int i = 0; i < 3; i++) {
		pieces[i] = ms_arena_resize(&arena, pieces[i], 50 << 20);
		cr_assert(is_mapped(pieces[i]));
	}
	ms_arena_deinit(&arena);
	for (int i = 0; i < 3; i++)
		cr_assert(!is_mapped(pieces[i]), "piece %d", i);
}

Test(arena, copies_a_string_up_to_its_end_or_the_limit)
{
	static const char text[] = "0123456789abcdef, and more";
	struct ms_arena arena = { 0 };
	char *cut = ms_arena_strndup(&arena, text, 16);

	memset(ms_arena_alloc(&arena, 16), 0xff, 16);
	cr_assert_str_eq(cut, "0123456789abcdef");
	cr_assert_str_eq(ms_arena_strndup(&arena, text, 1000), text);
	ms_arena_deinit(&arena);
}

Test(vec, refuses_what_nobody_has)
{
	struct MS_VEC(uint64_t) vec = { 0 };
	struct ms_arena arena = { 0 };

	cr_assert(!ms_vec_reserve(&arena, &vec, SIZE_MAX / 8 + 2));
	cr_assert_null(vec.at);
	ms_arena_deinit(&arena);
}

Test(vec, keeps_entries_while_it_grows)
{
	struct MS_VEC(uint64_t) vec = { 0 };
	struct ms_arena arena = { 0 };

	for (uint64_t i = 0; i < 300000; i++) {
		uint64_t *slot = ms_vec_push(&arena, &vec);

		cr_assert_not_null(slot);
		cr_assert_eq(*slot, 0);
		cr_assert_leq(vec.n, vec.cap);
		*slot = i * i;
	}
	for (uint64_t i = 0; i < 300000; i++)
		cr_assert_eq(vec.at[i], i * i);
	ms_arena_deinit(&arena);
}

struct pair {
	int key;
	int order;
};

static bool pair_before(const void *a, const void *b)
{
	const struct pair *x = a;
	const struct pair *y = b;

	return x->key < y->key;
}

Test(sort, orders_and_keeps_equals_in_place)
{
	struct ms_arena arena = { 0 };
	struct pair pairs[1000];

	for (int n = 0; n < 1000; n += 1 + n / 7) {
		for (int i = 0; i < n; i++)
			pairs[i] = (struct pair){ (i * 7919) % 31, i };
		cr_assert(ms_sort(&arena, pairs, (size_t)n, sizeof(pairs[0]), pair_before));
		for (int i = 1; i < n; i++) {
			cr_assert_leq(pairs[i - 1].key, pairs[i].key, "n %d", n);
			if (pairs[i - 1].key == pairs[i].key)
				cr_assert_lt(pairs[i - 1].order, pairs[i].order, "n %d", n);
		}
	}
	ms_arena_deinit(&arena);
}

struct gap_case {
	char title[40];
	struct ms_range holes[4];
	int n_holes;
	struct ms_range gaps[4];
	int n_gaps;
};

/* Holes in [100, 200), and what they leave. */
static struct gap_case gap_cases[] = {
	{ "no holes", { { 0, 0 } }, 0, { { 100, 200 } }, 1 },
	{ "a hole inside", { { 120, 130 } }, 1, { { 100, 120 }, { 130, 200 } }, 2 },
	{ "at both ends", { { 90, 110 }, { 190, 210 } }, 2, { { 110, 190 } }, 1 },
	{ "over all of it", { { 50, 250 } }, 1, { { 0, 0 } }, 0 },
	{ "holes that touch",
	  { { 120, 130 }, { 130, 140 } },
	  2,
	  { { 100, 120 }, { 140, 200 } },
	  2 },
	{ "overlapping, unsorted",
	  { { 150, 170 }, { 120, 160 } },
	  2,
	  { { 100, 120 }, { 170, 200 } },
	  2 },
	{ "one inside another",
	  { { 110, 180 }, { 120, 130 } },
	  2,
	  { { 100, 110 }, { 180, 200 } },
	  2 },
	{ "far behind", { { 250, 300 } }, 1, { { 100, 200 } }, 1 },
	{ "empty or reversed", { { 150, 150 }, { 170, 160 } }, 2, { { 100, 200 } }, 1 },
	{ "outside", { { 10, 20 }, { 200, 300 } }, 2, { { 100, 200 } }, 1 },
};

ParameterizedTestParameters(range, leaves_the_gaps_between_holes)
{
	return cr_make_param_array(struct gap_case, gap_cases,
	                           sizeof(gap_cases) / sizeof(gap_cases[0]));
}

ParameterizedTest(struct gap_case *c, range, leaves_the_gaps_between_holes)
{
	struct ms_range rest = { 100, 200 };
	struct ms_ranges holes = { 0 };
	struct ms_arena arena = { 0 };
	struct ms_range gap;
	int n = 0;

	for (int i = 0; i < c->n_holes; i++)
		cr_assert(ms_ranges_add(&arena, &holes, c->holes[i].begin, c->holes[i].end));
	cr_assert(ms_ranges_tidy(&arena, &holes));
	for (; ms_range_next_gap(&rest, &holes, &gap); n++) {
		cr_assert_lt(n, c->n_gaps, "%s: a gap too many", c->title);
		cr_expect_eq(gap.begin, c->gaps[n].begin, "%s", c->title);
		cr_expect_eq(gap.end, c->gaps[n].end, "%s", c->title);
	}
	cr_expect_eq(n, c->n_gaps, "%s: %d gaps", c->title, n);
	ms_arena_deinit(&arena);
}

Test(range, knows_its_bounds)
{
	struct ms_range r = { 10, 20 };

	cr_assert(ms_range_has(r, 10) && ms_range_has(r, 19));
	cr_assert(!ms_range_has(r, 9) && !ms_range_has(r, 20));
	cr_assert_eq(ms_range_len(ms_range_common(r, (struct ms_range){ 15, 30 })), 5);
	cr_assert_eq(ms_range_len(ms_range_common(r, (struct ms_range){ 20, 30 })), 0);
	cr_assert_eq(ms_range_len(ms_range_common(r, (struct ms_range){ 0, 5 })), 0);
}

Test(range, aligns_to_powers_of_two)
{
	cr_assert_eq(ms_align_down(4097, 4096), 4096);
	cr_assert_eq(ms_align_down(4096, 4096), 4096);
	cr_assert_eq(ms_align_up(4097, 4096), 8192);
	cr_assert_eq(ms_align_up(4096, 4096), 4096);
}

Test(search, finds_where_the_first_of_equals_is_or_would_be)
{
	static const int sorted[] = { 2, 2, 3, 5, 5, 5, 9 };
	static const struct {
		int wanted;
		size_t at;
	} rows[] = { { 1, 0 }, { 2, 0 }, { 3, 2 }, { 4, 3 }, { 5, 3 }, { 9, 6 }, { 10, 7 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		cr_expect_eq(ms_lower_bound(0, 7, k, sorted[k] < rows[i].wanted), rows[i].at, "%d",
		             rows[i].wanted);
	cr_expect_eq(ms_lower_bound(3, 3, k, sorted[k] < 9), 3, "of none");
	cr_expect_eq(ms_lower_bound(4, 7, k, sorted[k] < 5), 4, "from the middle");
}

/* Rows of 2^17 entries: what all have together is more than 32 bits. */
Test(offsets, tell_where_each_of_many_rows_begins)
{
	enum { ROWS = 200000, ENTRIES = 1 << 17 };
	struct ms_arena arena = { 0 };
	struct ms_offsets offsets;

	cr_assert(ms_offsets_init(&offsets, ROWS, &arena));
	cr_assert_eq(ms_offset_at(&offsets, ROWS), 0);
	for (uint64_t i = 0; i <= ROWS; i++)
		cr_assert_eq(ms_offset_set(&offsets, i, i / 3 * ENTRIES), true);
	for (uint64_t i = 0; i <= ROWS; i++)
		cr_assert_eq(ms_offset_at(&offsets, i), i / 3 * ENTRIES);
	ms_arena_deinit(&arena);
}

Test(offsets, refuse_what_has_no_room)
{
	struct ms_arena arena = { 0 };
	struct ms_offsets offsets;

	cr_assert(ms_offsets_init(&offsets, 4, &arena));
	cr_expect(ms_offset_set(&offsets, 0, 5));
	cr_expect(ms_offset_set(&offsets, 1, UINT64_C(5) + UINT32_MAX));
	cr_expect_not(ms_offset_set(&offsets, 2, UINT64_C(6) + UINT32_MAX));
	ms_arena_deinit(&arena);
}

Test(status, keeps_text_errno_and_advice)
{
	struct ms_error err = { .addr = 1 };

	cr_assert_eq(ms_fail_sys(&err, ENOENT, "opening %s", "x"), MS_E_SYS);
	cr_assert_str_eq(err.text, "opening x: No such file or directory");
	cr_assert_eq(err.status, MS_E_SYS);
	cr_assert_eq(err.addr, 0);
	cr_assert_eq(err.sys_errno, ENOENT);
	ms_advise(&err, "make it");
	cr_assert_str_eq(err.advice, "make it");
	cr_assert_eq(ms_fail(&err, MS_E_GONE, "%s", "gone"), MS_E_GONE);
	cr_assert_str_eq(err.advice, "");
	cr_assert_eq(err.sys_errno, 0);
}

Test(status, has_words_for_an_errno_that_nobody_knows)
{
	struct ms_error err;

	cr_assert_eq(ms_fail_sys(&err, 99999, "opening"), MS_E_SYS);
	cr_assert_str_eq(err.text, "opening: unknown error");
}

Test(status, cuts_a_text_that_is_too_long)
{
	struct ms_error err;
	char longer[2 * MS_ERROR_TEXT];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	cr_assert_eq(ms_fail_sys(&err, EPERM, "%s", longer), MS_E_SYS);
	cr_assert_eq(strlen(err.text), MS_ERROR_TEXT - 1);
}

Test(status, of_another_process_has_texts_that_end_and_a_known_number)
{
	struct ms_error foreign;
	struct ms_error err;
	const int unknown = 4711;

	memset(&foreign, 'x', sizeof(foreign));
	memcpy(&foreign.status, &unknown, sizeof(unknown));
	ms_error_take(&err, &foreign);
	cr_assert_eq(err.status, MS_E_DIED);
	cr_assert_eq(strlen(err.text), MS_ERROR_TEXT - 1);
	cr_assert_eq(strlen(err.advice), MS_ERROR_TEXT - 1);
	(void)ms_fail(&foreign, MS_E_BUSY, "busy");
	ms_error_take(&err, &foreign);
	cr_assert_eq(err.status, MS_E_BUSY);
	cr_assert_str_eq(err.text, "busy");
}
