/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/layout.h"
#include "ptrow.h"

/* Thread caches: blocks that look used and are free. Pictures: ptheap.h. */

ParameterizedTestParameters(glibc_tcache, cached_blocks_and_caches_are_free)
{
	static struct row rows[] = {
		{ "an empty cache", "T u24 t", "", "", "1 decoded, 0 contradicting, 0 left by" },
		{ "one entry", "T u24 c24 u24 t", "", "", "1 blocks cached" },
		{ "a list", "T c24 u24 c24 c24 c24 c24 c24 c24 t", "", "", "7 blocks cached" },
		{ "many lists",
		  "T c24 c40 c56 c72 c1000 c1032 c40 u40 t || T c24 c40 c56 c72 c1000 c1020 c40 u40 t",
		  "", "", "7 blocks" },
		{ "of several threads", "T c24 u24 t ; T c24 c24 u24 t ; T c40 t", "", "",
		  "3 decoded" },
		{ "other arenas' blocks", "T u24 c24 t ; c24 c40 u24 t", "", "",
		  "3 blocks cached" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_tcache, cached_blocks_and_caches_are_free, .timeout = 20)
{
	static const char *const versions[] = { "2.26", "2.27", "2.31", "2.33",
		                                "2.36", "2.42", "2.43" };

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		check(row, versions[i]);
}

Test(glibc_tcache, large_blocks_are_cached_from_2_42_on)
{
	const struct row row = { "c2000", "T c2000 u24 c2000 t", "", "", "2 blocks cached" };

	check(&row, "2.42");
	check(&row, "2.43");
}

/* Threads that have no cache: not begun, or with 2.43's dummy, which is no block. */
Test(glibc_tcache, a_thread_without_a_cache_is_no_contradiction)
{
	ms_addr tp;

	ptheap_init(&h);
	ptheap_draw(&h, "2.43", "T c24 u24 t ; T c24 u24 t");
	tp = h.fake.base.threads.at[1].tp;
	(void)ms_fake_thread(&h.fake, 3, tp + 0x10000, tp + 0x10000);
	(void)ms_fake_thread(&h.fake, 4, 0, 0);
	(void)ms_fake_thread(&h.fake, 5, 0x1000, 0x2000);
	ms_fake_put(&h.fake, tp + 0x10000 - 0x48, ptheap_place(&h, "main"));
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_expect(ptheap_says(&h, "2 decoded, 0 contradicting"));
	ptheap_deinit(&h);
}

/* A zeroed block of a cache's size fits, as an empty one, and stands nearer. */
Test(glibc_tcache, of_two_that_fit_the_one_that_holds_something_is_the_cache)
{
	ms_addr tp;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T c24 u648 t");
	tp = h.fake.base.threads.at[0].tp;
	ms_fake_put(&h.fake, tp - 0x20, ptheap_place(&h, "chunk2.mem"));
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

/* Among equals it is the nearest: the C library's storage is the first below tp. */
Test(glibc_tcache, of_two_empty_ones_the_nearer_is_the_cache)
{
	ms_addr tp;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u648 t");
	tp = h.fake.base.threads.at[0].tp;
	ms_fake_put(&h.fake, tp - 0x1000, ptheap_place(&h, "chunk1.mem"));
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

Test(glibc_tcache, the_place_that_fits_most_threads_wins)
{
	ms_addr tp;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T c24 u24 t ; T c24 u24 t ; u648 t");
	tp = h.fake.base.threads.at[0].tp;
	ms_fake_put(&h.fake, tp - 0x20, ptheap_place(&h, "chunk8.mem"));
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

ParameterizedTestParameters(glibc_tcache, what_fork_leaves_without_a_thread_is_free)
{
	static struct row rows[] = {
		{ "its key is known", "T c24 u24 T c24 u24 t", "tls1 = 0", "", "1 left by fork" },
		{ "two of one key, none known", "T u24 T c24 c40 u24 t", "tls1 = 0", "",
		  "1 left by fork" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_tcache, what_fork_leaves_without_a_thread_is_free)
{
	check(row, "2.33");
	check(row, "2.36");
	check(row, "2.43");
}

Test(glibc_tcache, an_orphan_with_another_key_is_a_block)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T c24 T c24 u24 t");
	ptheap_break(&h, "tls1 = 0, chunk3.bk = 4711");
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_expect_str_eq(ptheap_told(&h), "1000000002c0:648 100000000550:24 100000000570:24 ");
	cr_expect(ptheap_is_verified(&h));
	ptheap_deinit(&h);
}

#define TWO "T u24 c24 c24 u100 f200 u24 t ; T u24 c40 u24 t"

ParameterizedTestParameters(glibc_tcache, a_cache_that_contradicts_itself_puts_all_in_doubt)
{
	static struct row rows[] = {
		{ "a counter too large", TWO, "cache0.count0 += 1", "M0", "contradicts itself" },
		{ "a counter too small", TWO, "cache0.count0 -= 1", "M0", "contradicts itself" },
		{ "a counter without a list", TWO, "cache0.count9 += 1", "M0", "contradicts" },
		{ "a list without a counter", TWO, "cache0.entry9 = chunk1.mem", "M0",
		  "contradicts itself" },
		{ "a list that leads to itself", TWO, "chunk2.fd -> chunk2.mem", "M0",
		  "contradicts itself" },
		{ "a list that leads to its begin", TWO, "chunk2.fd -> chunk3.mem", "M0",
		  "contradicts itself" },
		{ "an entry outside of the heap", TWO, "cache0.entry0 = 0x12345670", "M0",
		  "contradicts itself" },
		{ "a later entry outside", TWO, "chunk3.fd -> 0x12345670", "M0", "contradicts" },
		{ "an entry that is free", TWO, "chunk3.fd -> chunk5.mem", "M0", "contradicts" },
		{ "an entry inside a block", TWO, "chunk3.fd -> chunk4.bk", "M0", "contradicts" },
		{ "an entry of another size", TWO, "chunk3.fd -> chunk4.mem, chunk4.fd -> 0", "M0",
		  "contradicts itself" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_tcache, a_cache_that_contradicts_itself_puts_all_in_doubt,
                  .timeout = 20)
{
	check(row, "2.27");
	check(row, "2.31");
	check(row, "2.36");
	if (!strstr(row->damage, "count"))
		check(row, "2.43");
}

Test(glibc_tcache, a_counter_of_free_places_beyond_the_limit_is_a_contradiction)
{
	const struct row row = { "17 of 16 free", TWO, "cache0.count9 += 1", "M0", "contradicts" };

	check(&row, "2.42");
	check(&row, "2.43");
}

#define ONE "T u24 c24 c24 u100 f200 u24 t"

/* With one thread there is no other to learn from where caches are. */
ParameterizedTestParameters(glibc_tcache, an_only_cache_that_contradicts_itself_is_noticed)
{
	static struct row rows[] = {
		{ "a counter too large", ONE, "cache0.count0 += 1", "M", "cache" },
		{ "a list that leads to itself", ONE, "chunk2.fd -> chunk2.mem", "M", "cache" },
		{ "an entry outside", ONE, "cache0.entry0 = 0x12345670", "M", "cache" },
		{ "the thread's arena is broken", "T u24 c24 t ; c24 u24 t", "chunk0.size = 1",
		  "M0", "cache" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_tcache, an_only_cache_that_contradicts_itself_is_noticed,
                  .timeout = 20)
{
	check(row, "2.27");
	check(row, "2.36");
}

ParameterizedTestParameters(glibc_tcache, a_cache_in_a_broken_arena_puts_all_in_doubt)
{
	static struct row rows[] = {
		{ "before the cache", "T u24 c24 t ; T c24 u24 t", "chunk0.size = 1", "M0",
		  "cache" },
		{ "before what it holds", "T u24 c24 t ; T c24 u24 t", "chunk1.size = 1", "M0",
		  "cache" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_tcache, a_cache_in_a_broken_arena_puts_all_in_doubt)
{
	check(row, "2.36");
}

/* ---- where the caches are noted ---- */

static const enum ptheap_tls known[] = { PTHEAP_TLS_NEAREST, PTHEAP_TLS_RELOCATED };

/* Programs and libraries with much thread-local storage stand before the C library's. */
Test(glibc_tcache, caches_are_found_however_far_below_the_thread_pointer, .timeout = 20)
{
	static const uint64_t distances[] = { 0x48,    32 * 1024,    32 * 1024 + 8, 200 * 1024 + 24,
		                              1 << 20, (8 << 20) + 8 };
	static const char *const versions[] = { "2.27", "2.31", "2.36", "2.43" };

	for (size_t i = 0; i < 6 * 4 * 2; i++) {
		ptheap_init_tls(&h, distances[i % 6], known[i / 24]);
		ptheap_draw(&h, versions[i / 6 % 4], "T u24 c24 c40 t ; T c24 u24 t ; u24 t");
		cr_expect_str_empty(ptheap_try(&h, ""), "%lu, %s: %s", distances[i % 6],
		                    versions[i / 6 % 4], h.wrong);
		cr_expect(ptheap_says(&h, "2 decoded, 0 contradicting"));
		ptheap_deinit(&h);
	}
}

Test(glibc_tcache, of_two_libraries_each_has_its_own_place)
{
	for (size_t i = 0; i < 2; i++) {
		ptheap_init_tls(&h, 100 * 1024, known[i]);
		ptheap_draw(&h, "2.36", "T u24 c24 t ; T c24 u24 t");
		ptheap_draw(&h, "2.36", "T u24 c40 c40 t");
		cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
		cr_expect(ptheap_says(&h, "3 decoded, 0 contradicting, 0 left by fork"));
		ptheap_deinit(&h);
	}
}

/* Nearer, and as good, but not in the C library's storage. */
Test(glibc_tcache, what_is_not_in_the_librarys_storage_is_no_cache)
{
	ms_addr tp;

	ptheap_init_tls(&h, 0x1000, PTHEAP_TLS_RELOCATED);
	ptheap_draw(&h, "2.36", "T u648 u24 t");
	tp = h.fake.base.threads.at[0].tp;
	ms_fake_put(&h.fake, tp - 0x20, ptheap_place(&h, "chunk1.mem"));
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	ptheap_deinit(&h);
}

/* With many threads, or large storage, the distance is learnt from some of them. */
Test(glibc_tcache, a_thousand_threads_are_read_for_little)
{
	ms_addr tp;

	ptheap_init_tls(&h, 0x48, PTHEAP_TLS_RELOCATED);
	ptheap_draw(&h, "2.36", "T u24 c24 t");
	tp = h.fake.base.threads.at[0].tp;
	for (int i = 0; i < 1000; i++)
		(void)ms_fake_thread(&h.fake, 10 + i, tp + 0x1000, tp + 0x1000);
	h.reads = 0;
	h.read_bytes = 0;
	cr_assert_eq(ptheap_decode(&h), MS_OK);
	cr_expect(ptheap_is_verified(&h));
	cr_expect_leq(h.reads, 200, "%lu reads", h.reads);
	ptheap_deinit(&h);
}

static void check_doubt(const char *what, const char *lost, const char *says)
{
	cr_expect_str_empty(ptheap_try(&h, lost), "%s: %s", what, h.wrong);
	cr_expect(ptheap_says(&h, says), "%s: not said: %s", what, says);
	ptheap_deinit(&h);
}

Test(glibc_tcache, none_found_where_they_would_be_is_none)
{
	static const char *const versions[] = { "2.27", "2.36", "2.43" };

	for (size_t i = 0; i < 6; i++) {
		ptheap_init_tls(&h, 0x48, known[i % 2]);
		ptheap_draw(&h, versions[i / 2], "u24 f64 u24 t ; u24 t");
		(void)ms_fake_thread(&h.fake, 1, PTHEAP_STORAGE + 0x8000, PTHEAP_STORAGE + 0x9000);
		check_doubt("known", "", "");
	}
}

Test(glibc_tcache, none_found_where_they_may_not_be_puts_all_in_doubt)
{
	ptheap_init_tls(&h, 0x48, PTHEAP_TLS_UNKNOWN);
	ptheap_draw(&h, "2.36", "T u24 c24 t ; T c24 u24 t");
	check_doubt("near enough", "", "2 decoded");
	ptheap_init_tls(&h, 1 << 20, PTHEAP_TLS_UNKNOWN);
	ptheap_draw(&h, "2.36", "T u24 c24 t ; T c24 u24 t");
	check_doubt("too far", "M0", "not found where threads have their caches");
	ptheap_init_tls(&h, 0x48, PTHEAP_TLS_UNKNOWN);
	ptheap_draw(&h, "2.31", "u24 f64 u24 t");
	check_doubt("there is none", "M", "not found where threads have their caches");
	ptheap_init_tls(&h, 0x48, PTHEAP_TLS_UNKNOWN);
	ptheap_draw(&h, "2.36", "u24 f64 u24 t");
	ptheap_break(&h, "par.tcache_count = 0");
	check_doubt("there can be none", "", "");
}

Test(glibc_tcache, a_cache_that_no_thread_has_puts_all_in_doubt)
{
	static const char *const versions[] = { "2.33", "2.36", "2.43" };

	for (size_t i = 0; i < 6; i++) {
		ptheap_init_tls(&h, 0x48, known[i % 2]);
		ptheap_draw(&h, versions[i / 2], "T u24 c24 c40 t ; u24 t");
		ms_fake_put(&h.fake, ptheap_place(&h, "tls0") + 0x10, ptheap_place(&h, "main"));
		ptheap_break(&h, "tls0 = 0");
		check_doubt(versions[i / 2], "M0", "caches that no thread has");
	}
}

/* Of a main thread that has ended, where the others have not allocated yet. */
Test(glibc_tcache, a_cache_of_a_thread_that_is_gone_is_taken_off)
{
	static const char *const versions[] = { "2.33", "2.36", "2.43" };

	for (size_t i = 0; i < 6; i++) {
		ptheap_init_tls(&h, 0x48, known[i % 2]);
		ptheap_draw(&h, versions[i / 2], "T u24 c24 c40 t ; u24 t");
		ptheap_break(&h, "tls0 = 0");
		check_doubt(versions[i / 2], "",
		            "1 thread caches left by threads that are gone; 2 b");
	}
}

/* Of two libraries that count what is free in a cache each says how much room it has. */
Test(glibc_tcache, a_cache_is_counted_by_its_own_librarys_parameters)
{
	static const char *const pictures[] = { "", "u24 u40 t", "T u24 c24 u40 t" };

	for (size_t i = 0; i < 3; i++) {
		ptheap_init(&h);
		ptheap_draw(&h, "2.43", "T u24 c24 c40 t");
		ptheap_draw(&h, "2.43", pictures[i]);
		if (i < 2)
			ptheap_break(&h, "par1.tcache_count = 3");
		cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
		cr_expect(ptheap_is_verified(&h), "%zu", i);
		ptheap_deinit(&h);
	}
}

/*
 * A thread without a cache: it waits for a lock inside malloc, or does not, and has an
 * arena, or has none. With others that have caches, and without.
 */
static void draw_waiting(const char *picture, enum ms_in_malloc in_malloc, const char *arena)
{
	struct ms_thread *t;
	ms_addr tp;

	ptheap_init_tls(&h, 0x4048, PTHEAP_TLS_RELOCATED);
	ptheap_draw(&h, "2.36", picture);
	tp = h.fake.base.threads.n ? h.fake.base.threads.at[0].tp : PTHEAP_STORAGE + 0x8000;
	t = ms_fake_thread(&h.fake, 77, tp + 0x10000, tp + 0x10000);
	t->in_malloc = (uint8_t)in_malloc;
	if (arena)
		ms_fake_put(&h.fake, tp + 0x10000 - 0x4048 + 0x10, ptheap_place(&h, arena));
}

Test(glibc_tcache, one_that_ends_may_be_giving_its_cache_back)
{
	static const char says[] = "thread 77 waits inside malloc and may be giving its cache back";
	static const char *const pictures[] = { "T u24 c24 t ; u24 t", "u24 t ; u24 t" };

	for (size_t i = 0; i < 2; i++) {
		draw_waiting(pictures[i], MS_MALLOC_WAITS, "arena0");
		check_doubt("its arena", "M0", says);
		draw_waiting(pictures[i], MS_MALLOC_WAITS, "main");
		check_doubt("the main arena", "M0", says);
		draw_waiting(pictures[i], MS_MALLOC_WAITS, NULL);
		check_doubt("its first malloc()", "", "");
		draw_waiting(pictures[i], MS_MALLOC_OUT, "arena0");
		check_doubt("outside of malloc", "", "");
	}
}
