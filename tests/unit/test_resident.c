/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/page.h"
#include "target/hold/pages.h"
#include "target/maps.h"
#include "target/proc.h"

#define PAGE ms_page_bytes()

enum { PAGES = 64 };

static struct ms_arena arena;
static struct ms_mappings maps;
static struct ms_notes warnings;
static struct ms_error err;

/*
 * Every third page is written to, every third read; the mapping of them is looked up then. Others
 * are left out: a sanitizer has some of terabytes.
 */
static unsigned char *prepare(void)
{
	unsigned char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
	                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)madvise(at, PAGES * PAGE, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < PAGES; i += 3) {
		at[i * PAGE] = 1;
		(void)*(volatile unsigned char *)&at[(i + 1) % PAGES * PAGE];
	}
	cr_assert_eq(ms_maps_read(getpid(), &arena, &maps, &err), MS_OK);
	maps.at[0] = *ms_maps_find(&maps, (uintptr_t)at);
	maps.n = 1;
	return at;
}

static bool has(const struct ms_resident *resident, const unsigned char *page)
{
	for (size_t i = 0; i < resident->runs.n; i++)
		if (ms_range_has(resident->runs.at[i].range, (uintptr_t)page))
			return true;
	return false;
}

typedef enum ms_status find_fn(int pagemap, struct ms_resident *resident, struct ms_error *err);

static uint64_t frame_of(int pagemap, const unsigned char *page)
{
	uint64_t entry = 0;

	cr_assert_eq(pread(pagemap, &entry, 8, (off_t)((uintptr_t)page / PAGE * 8)), 8);
	return entry & ((UINT64_C(1) << 55) - 1);
}

/* Kernels can be built, and started, without one: then a page that is read is one's own. */
static bool has_page_of_zeros(int pagemap, const unsigned char *at)
{
	return frame_of(pagemap, at + PAGE) == frame_of(pagemap, at + 4 * PAGE);
}

static void finds_written_pages(find_fn *find, bool tells_zeros)
{
	struct ms_resident resident = { .maps = &maps, .arena = &arena, .warnings = &warnings };
	const unsigned char *at = prepare();
	int pagemap = ms_proc_open(getpid(), "pagemap", O_RDONLY);
	enum ms_status st = find(pagemap, &resident, &err);

	if (st == MS_E_UNSUPPORTED)
		cr_skip_test("this kernel has no PAGEMAP_SCAN");
	cr_assert_eq(st, MS_OK, "%s", err.text);
	tells_zeros &= has_page_of_zeros(pagemap, at);
	for (size_t i = 0; i < PAGES; i++)
		cr_expect(has(&resident, at + i * PAGE) || i % 3 != 0, "page %zu is missing", i);
	for (size_t i = 2; i < PAGES; i += 3)
		cr_expect_not(has(&resident, at + i * PAGE), "page %zu was never touched", i);
	for (size_t i = 1; tells_zeros && i < PAGES; i += 3)
		cr_expect_not(has(&resident, at + i * PAGE), "page %zu was only read", i);
	for (size_t i = 1; i < resident.runs.n; i++)
		cr_expect_geq(resident.runs.at[i].range.begin, resident.runs.at[i - 1].range.end);
	(void)close(pagemap);
	ms_arena_deinit(&arena);
}

Test(resident, scanning_finds_what_was_written)
{
	finds_written_pages(ms_resident_scan, true);
}

Test(resident, listing_finds_what_was_written)
{
	/* The old interface does not tell the shared page of zeros from others. */
	finds_written_pages(ms_resident_list, false);
}

static const struct {
	const char *line;
	enum ms_absent absent;
} absents[] = {
	{ "1000-2000 rw-p 0 0:0 0", MS_ABSENT_ZERO },
	{ "1000-2000 rw-p 0 0:0 0 [heap]", MS_ABSENT_ZERO },
	{ "1000-2000 r--p 0 8:1 9 /lib/x.so", MS_ABSENT_FILE },
	{ "1000-2000 rw-s 0 0:1 9 /dev/zero (deleted)", MS_ABSENT_FILE },
	{ "1000-2000 rw-s 0 0:1 9 /dev/shm/x", MS_ABSENT_FILE },
	{ "1000-2000 rw-s 0 0:6 9 /dev/dri/card0", MS_ABSENT_NONE },
	{ "1000-2000 r--p 0 0:0 0 [vvar]", MS_ABSENT_NONE },
	{ "1000-2000 --xp 0 0:0 0 [uprobes]", MS_ABSENT_NONE },
	{ "1000-2000 r-xp 0 0:0 0 [vdso]", MS_ABSENT_FILE },
};

Test(resident, what_is_not_copied_reads_as_its_mapping_says)
{
	for (size_t i = 0; i < sizeof(absents) / sizeof(absents[0]); i++) {
		struct ms_mappings one = { 0 };

		cr_assert_eq(
			ms_maps_parse(absents[i].line, strlen(absents[i].line), &arena, &one, &err),
			MS_OK);
		cr_expect_eq(ms_absent_of(&one.at[0]), absents[i].absent, "%s", absents[i].line);
	}
	ms_arena_deinit(&arena);
}

static const struct {
	const char *line;
	size_t n;      /* runs chosen from one of a file's and one of changed pages */
	ms_addr first; /* where they begin */
} choices[] = {
	{ "10000-20000 rw-p 0 0:0 0", 2, 0x11000 },
	{ "10000-20000 rw-p 0 8:1 9 /lib/x.so", 2, 0x11000 },
	{ "10000-20000 r--p 0 8:1 9 /lib/x.so", 1, 0x15000 },
	{ "10000-20000 r--s 0 8:1 9 /lib/x.so", 0, 0 },
	{ "10000-20000 rw-s 0 8:1 9 /var/db", 2, 0x11000 },
	{ "10000-20000 r--s 0 0:1 9 /memfd:x (deleted)", 2, 0x11000 },
	{ "10000-20000 rw-s 0 0:6 9 /dev/dri/card0", 0, 0 },
};

Test(resident, pages_are_chosen_by_their_mapping)
{
	struct ms_page_run runs[] = { { { 0x11000, 0x12000 }, true },
		                      { { 0x15000, 0x16000 }, false } };

	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		struct ms_mappings one = { 0 };
		struct ms_resident resident = { .maps = &one, .arena = &arena };
		struct ms_wanted_list list = { 0 };

		resident.runs.at = runs;
		resident.runs.n = 2;
		cr_assert_eq(
			ms_maps_parse(choices[i].line, strlen(choices[i].line), &arena, &one, &err),
			MS_OK);
		cr_assert(ms_wanted_choose(&resident, &list));
		cr_expect_eq(list.n, choices[i].n, "%s", choices[i].line);
		cr_expect(!list.n || list.at[0].range.begin == choices[i].first, "%s",
		          choices[i].line);
	}
	ms_arena_deinit(&arena);
}

/* ---- each page of a file once ---- */

enum { N_FILE_MAPS = 12, FILE_PAGES = 16, N_CASES = 500 };

static struct ms_mappings random_maps(unsigned *seed)
{
	struct ms_mappings ret = { 0 };
	ms_addr at = 0x10000;

	for (size_t i = 0; i < N_FILE_MAPS; i++) {
		struct ms_mapping *map = ms_vec_push(&arena, &ret);
		uint64_t pages = 1 + (uint64_t)rand_r(seed) % FILE_PAGES;

		*map = (struct ms_mapping){ .range = { at, at + pages * PAGE },
			                    .offset = (uint64_t)rand_r(seed) % FILE_PAGES * PAGE,
			                    .inode = (uint64_t)rand_r(seed) % 3,
			                    .prot = MS_PROT_READ | MS_PROT_WRITE,
			                    .shared = rand_r(seed) % 2,
			                    .name = "/memfd:x" };
		at = map->range.end + (uint64_t)(rand_r(seed) % 2) * PAGE;
	}
	return ret;
}

static void make_resident(struct ms_resident *resident, unsigned *seed)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, resident->maps)
		for (ms_addr at = map->range.begin; at < map->range.end; at += PAGE) {
			struct ms_page_run *run;

			if (!(rand_r(seed) % 4))
				continue;
			run = ms_vec_push(&arena, &resident->runs);
			*run = (struct ms_page_run){ { at, at + PAGE }, rand_r(seed) % 2 };
		}
}

static const struct ms_wanted *wanted_at(const struct ms_wanted_list *list, ms_addr at)
{
	const struct ms_wanted *want;

	ms_vec_for_each (want, list)
		if (ms_range_has(want->range, at))
			return want;
	return NULL;
}

/* Which page of which file is mapped at @at; its address when it is nobody else's. */
static uint64_t identity(const struct ms_mapping *map, const struct ms_wanted *want, ms_addr at)
{
	return want->of_file && map->inode
	               ? map->inode << 32 | (map->offset + (at - map->range.begin))
	               : UINT64_C(1) << 63 | at;
}

static const struct ms_mapping *map_at(const struct ms_mappings *mapped, ms_addr at)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, mapped)
		if (ms_range_has(map->range, at))
			return map;
	return NULL;
}

static void check_page(const struct ms_mappings *mapped, const struct ms_wanted_list *list,
                       const struct ms_wanted_list *own, ms_addr at)
{
	const struct ms_wanted *want = wanted_at(list, at);
	ms_addr held = want->held_at + (at - want->range.begin);
	const struct ms_wanted *holder = wanted_at(own, held);
	uint64_t id = identity(map_at(mapped, at), want, at);
	const struct ms_wanted *other;

	cr_assert(holder && holder->held_at == holder->range.begin, "%llx", (long long)at);
	cr_assert_eq(identity(map_at(mapped, held), holder, held), id);
	ms_vec_for_each (other, own)
		for (ms_addr a = other->range.begin; a < other->range.end; a += PAGE)
			cr_assert(a == held || identity(map_at(mapped, a), other, a) != id);
}

Test(resident, a_page_of_a_file_is_held_once)
{
	unsigned seed = 1;

	for (size_t i = 0; i < N_CASES; i++) {
		struct ms_mappings mapped = random_maps(&seed);
		struct ms_resident resident = { .maps = &mapped, .arena = &arena };
		struct ms_wanted_list list = { 0 };
		struct ms_wanted_list own = { 0 };
		const struct ms_page_run *run;
		uint64_t before;

		make_resident(&resident, &seed);
		cr_assert(ms_wanted_choose(&resident, &list));
		before = ms_wanted_bytes(&list);
		cr_assert(ms_wanted_once(&resident, &list, &own));
		cr_expect_eq(ms_wanted_bytes(&list), before);
		ms_vec_for_each (run, &resident.runs)
			if (wanted_at(&list, run->range.begin))
				check_page(&mapped, &list, &own, run->range.begin);
		ms_arena_deinit(&arena);
	}
}
