/* SPDX-License-Identifier: Apache-2.0 */
#include "source_suite.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

unsigned char *source_suite_map(size_t filled_len)
{
	unsigned char *at = mmap(NULL, filled_len + 2 * SOURCE_SUITE_PAGE, PROT_READ | PROT_WRITE,
	                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(at, MAP_FAILED);
	/* A huge page would touch what is to stay untouched. */
	(void)madvise(at, filled_len + 2 * SOURCE_SUITE_PAGE, MADV_NOHUGEPAGE);
	(void)munmap(at + filled_len + SOURCE_SUITE_PAGE, SOURCE_SUITE_PAGE);
	for (size_t i = 0; i < filled_len; i++)
		at[i] = source_suite_byte(i);
	return at;
}

static void check_mappings(const struct ms_source *src)
{
	ms_addr floor = 0;

	for (size_t i = 0; i < src->mappings.n; i++) {
		const struct ms_mapping *map = &src->mappings.at[i];

		cr_assert_geq(map->range.begin, floor, "mapping %zu overlaps", i);
		cr_assert_lt(map->range.begin, map->range.end);
		cr_assert_not_null(map->name);
		floor = map->range.end;
	}
}

static void check_read(struct ms_source *src, const struct source_sample *s)
{
	unsigned char buf[3 * SOURCE_SUITE_PAGE];
	size_t some = s->filled_len < sizeof(buf) ? s->filled_len : sizeof(buf);

	cr_assert_eq(ms_source_read(src, s->filled, buf, 0), 0);
	cr_assert_eq(ms_source_read(src, s->filled, buf, some), some);
	cr_assert_arr_eq(buf, s->bytes, some);
	/* Unaligned, and of odd length. */
	cr_assert_eq(ms_source_read(src, s->filled + 13, buf, some - 18), some - 18);
	cr_assert_arr_eq(buf, s->bytes + 13, some - 18);
}

static void check_untouched(struct ms_source *src, const struct source_sample *s)
{
	static const unsigned char zeros[SOURCE_SUITE_PAGE];
	ms_addr untouched = s->filled + s->filled_len;
	unsigned char buf[SOURCE_SUITE_PAGE + 8];

	memset(buf, 0xff, sizeof(buf));
	cr_assert_eq(ms_source_read(src, untouched, buf, s->page), s->page);
	cr_assert_arr_eq(buf, zeros, s->page);
	/* Across the border of what was touched. */
	cr_assert_eq(ms_source_read(src, untouched - 8, buf, s->page + 8), s->page + 8);
	cr_assert_arr_eq(buf, s->bytes + s->filled_len - 8, 8);
	cr_assert_arr_eq(buf + 8, zeros, s->page);
}

static void check_unmapped(struct ms_source *src, const struct source_sample *s)
{
	ms_addr unmapped = s->filled + s->filled_len + s->page;
	unsigned char buf[2 * SOURCE_SUITE_PAGE];
	uint64_t word;

	cr_assert_eq(ms_source_read(src, unmapped, buf, 8), 0);
	cr_assert_eq(ms_source_read(src, unmapped - 3, buf, sizeof(buf)), 3);
	cr_assert(ms_source_word(src, unmapped - 8, &word));
	cr_assert_not(ms_source_word(src, unmapped - 4, &word));
	cr_assert_eq(ms_source_read(src, 0, buf, 8), 0);
	cr_assert_eq(ms_source_read(src, UINT64_MAX - 3, buf, 8), 0);
}

static void check_view(struct ms_source *src, const struct source_sample *s)
{
	ms_addr end = s->filled + s->filled_len + s->page;
	const void *view = ms_source_view(src, s->filled, s->filled_len);

	if (!src->ops->view)
		return;
	if (view)
		cr_assert_arr_eq(view, s->bytes, s->filled_len);
	view = ms_source_view(src, s->filled + 5, 1);
	if (view)
		cr_assert_arr_eq(view, s->bytes + 5, 1);
	cr_assert_null(ms_source_view(src, end - 8, 16), "shows what is not mapped");
	cr_assert_null(ms_source_view(src, UINT64_MAX - 3, 8));
	cr_assert_null(ms_source_view(src, s->filled, SIZE_MAX));
}

static void check_present(struct ms_source *src, const struct source_sample *s)
{
	struct ms_range filled = { s->filled, s->filled + s->filled_len };
	struct ms_range untouched = { filled.end, filled.end + s->page };
	struct ms_range got;

	cr_assert(ms_source_present(src, filled, &got));
	cr_assert_eq(got.begin, filled.begin);
	cr_assert_eq(got.end, filled.end, "one run, as all of it is there");
	cr_assert_not(ms_source_present(src, untouched, &got), "never touched");
	/* @within cuts a run, at both ends and within one page. */
	cr_assert(ms_source_present(src, (struct ms_range){ filled.begin + 24, filled.begin + 40 },
	                            &got));
	cr_assert_eq(got.begin, filled.begin + 24);
	cr_assert_eq(got.end, filled.begin + 40);
	cr_assert(ms_source_present(src, (struct ms_range){ filled.end - s->page, untouched.end },
	                            &got));
	cr_assert_eq(got.end, filled.end);
	cr_assert_not(
		ms_source_present(src, (struct ms_range){ filled.begin, filled.begin }, &got));
	cr_assert_not(ms_source_present(
		src, (struct ms_range){ untouched.end, untouched.end + s->page }, &got));
}

void source_suite_run(struct ms_source *src, const struct source_sample *sample)
{
	cr_assert_not_null(src->ops->name);
	check_mappings(src);
	check_read(src, sample);
	check_untouched(src, sample);
	check_unmapped(src, sample);
	check_view(src, sample);
	check_present(src, sample);
}
