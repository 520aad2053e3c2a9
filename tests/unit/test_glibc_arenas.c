/* SPDX-License-Identifier: Apache-2.0 */
#include "module.h"
#include "ptrow.h"

/* Segments of the main arena, and the heaps of the others. Pictures: ptheap.h. */

static void check_all(const struct row *row)
{
	check(row, "2.26");
	check(row, "2.31");
	check(row, "2.36");
	check(row, "2.43");
}

ParameterizedTestParameters(glibc_arenas, break_memory_goes_on_behind_a_strangers_bytes)
{
	static struct row rows[] = {
		{ "a page", "u24 f64 u24 x4096 u40 f24 u24 t", "", "", "2 segments" },
		{ "an odd length", "u24 x77 u40 t", "", "", "2 segments" },
		{ "nothing", "u24 x0 u40 t", "", "", "2 segments" },
		{ "twice", "u24 x16 u40 u24 x1000 u24 t", "", "", "3 segments" },
		{ "behind a free chunk", "u24 f64 x100 u24 t", "", "", "1 free ones" },
		{ "before top", "u24 x100 t", "", "", "2 segments" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_arenas, break_memory_goes_on_behind_a_strangers_bytes,
                  .timeout = 20)
{
	check_all(row);
}

ParameterizedTestParameters(glibc_arenas, the_main_arena_goes_on_anywhere_when_brk_fails)
{
	static struct row rows[] = {
		{ "one more", "T u24 f64 u24 | u24 f64 u40 t", "", "", "2 segments of 32768" },
		{ "several", "T u24 | u24 | u24 | f24 u40 t", "", "", "4 segments of 65536" },
		{ "a full one", "u24 | u16344 | u24 t", "", "", "3 segments" },
		{ "16 bytes before the fence", "u24 | u16328 | u24 t", "", "", "3 segments" },
		{ "a static program's", "o1232 u24 f64 u24 | u24 t", "", "",
		  "2 segments of 31536" },
		{ "all of the newest is free", "u24 | u24 | t", "", "", "3 segments" },
		{ "all of a middle one is free", "u24 | | u24 t", "", "", "3 segments" },
		{ "mmapped chunks adjoin", "u24 | u24 | u24 t m9000 a9000", "", "", "2 mmapped" },
		{ "mmapped chunks behind 16 bytes", "u24 | u16328 | u24 t m9000 A70 a9000", "", "",
		  "3 mmapped" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_arenas, the_main_arena_goes_on_anywhere_when_brk_fails,
                  .timeout = 20)
{
	check_all(row);
}

ParameterizedTestParameters(glibc_arenas, every_arena_of_the_ring_is_read)
{
	static struct row rows[] = {
		{ "one more", "u24 t ; T u24 f64 u40 t", "", "", "1 free ones" },
		{ "several", "T u24 c24 t ; T u24 t ; T f24 u24 c24 t ; u40 t", "", "",
		  "3 decoded" },
		{ "only another", "; T u24 f64 u40 t", "", "", "0 segments of 0 bytes" },
		{ "of two heaps", "u9 t ; T u24 f64 u40 | u24 f24 u24 t", "", "", "2 segments" },
		{ "of three", "u9 t ; T u24 | u24 | u24 f24 u24 t", "", "", "of 49152 bytes" },
		{ "a full heap", "u9 t ; T u24 | u16280 | u24 t", "", "", "of 49152 bytes" },
		{ "nearly full", "u9 t ; T u24 | u16264 | u24 t", "", "", "of 49152 bytes" },
		{ "less full", "u9 t ; T u24 | u16248 | u24 t", "", "", "of 49152 bytes" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_arenas, every_arena_of_the_ring_is_read, .timeout = 20)
{
	check_all(row);
}

#define BRK "T u24 f64 u40 t"

/* Or a process with terabytes of them is searched for hours. */
Test(glibc_arenas, segments_are_not_looked_for_where_there_is_no_memory)
{
	const size_t len = (size_t)64 << 20;
	const struct ms_mapping *last;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 | u24 f64 t");
	last = &h.fake.base.mappings.at[h.fake.base.mappings.n - 1];
	h.fake.absent[h.fake.base.mappings.n] = true;
	(void)ms_fake_map(&h.fake, last->range.end + 0x1000, len, MS_PROT_READ, "");
	h.fake.no_view = true;
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_expect(h.read_bytes < len / 2, "%llu bytes read", (unsigned long long)h.read_bytes);
	ptheap_deinit(&h);
}

ParameterizedTestParameters(glibc_arenas, a_main_arena_that_does_not_add_up_is_not_proved)
{
	static struct row rows[] = {
		{ "top above the heap", BRK, "main.top = 0x200000000000", "M", "where top does" },
		{ "top below the heap", BRK, "main.top = 0x7000", "M", "where top does" },
		{ "top in the middle", BRK, "main.top = chunk3", "M", "where top does" },
		{ "no top", BRK, "main.top = 0", "M", "where top does" },
		{ "top is in the cache", BRK, "main.top = cache0.entry63", "M", "where top does" },
		{ "too much memory", BRK, "main.system_mem += 4096", "M", "where top does" },
		{ "too little memory", BRK, "main.system_mem -= 16", "M", "where top does" },
		{ "top and memory beyond the heap", BRK,
		  "main.system_mem += 0x300000000000, chunk4.size += 0x300000000000"
		  " || main.system_mem += 0x30000000, chunk4.size += 0x30000000",
		  "M", "where" },
		{ "top that ends before the heap", BRK,
		  "main.system_mem -= 0x50000000, chunk4.size -= 0x50000000", "M", "where" },
		{ "no begin", BRK, "par.sbrk_base = 0", "~M", "not proved" },
		{ "no way from the fence to top", "u24 x100 u24 t", "chunk2.size -= 1", "M",
		  "no way from the fence" },
		{ "its segments elsewhere", BRK, "main.flags |= 2, main.system_mem += 4096", "M",
		  "segments hold" },
		{ "a scattered one broken", "u24 | u40 u24 | u24 t", "chunk2.size = 1", "~M",
		  "segments hold 32768 bytes" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_arenas, a_main_arena_that_does_not_add_up_is_not_proved,
                  .timeout = 20)
{
	check(row, "2.36");
}

#define TWO "T u24 t ; u24 f64 u40 | u24 f64 u40 t"

ParameterizedTestParameters(glibc_arenas, an_arena_that_does_not_add_up_is_not_proved)
{
	static struct row rows[] = {
		{ "top in no heap", TWO, "arena0.top = 0x7000", "0", "top lies in no heap" },
		{ "top in the main heap", TWO, "arena0.top = chunk2", "0", "top lies in no heap" },
		{ "top in the older heap", TWO, "arena0.top = chunk5", "0",
		  "not end as it should" },
		{ "top that is another chunk", TWO, "arena0.top = chunk9", "0", "not end as" },
		{ "too much memory", TWO, "arena0.system_mem += 4096", "0", "its heaps hold" },
		{ "too little memory", TWO, "arena0.system_mem -= 4096", "0", "its heaps hold" },
		{ "a heap of another arena", TWO, "heap0.ar_ptr = main", "0", "no heap at" },
		{ "top's heap of another arena", TWO, "heap1.ar_ptr = main", "~0", "no heap" },
		{ "a heap without size", TWO, "heap0.heap_size = 0", "0", "no heap at" },
		{ "a heap too long", TWO, "heap0.heap_size += 4096", "0", "no heap at" },
		{ "a heap too short", TWO, "heap1.heap_size -= 4096", "0", "contradicts" },
		{ "a heap that is not all there", TWO,
		  "heap1.heap_size += 4096, heap1.mprotect_size += 4096, arena0.system_mem += 4096",
		  "0", "not end as it should" },
		{ "heaps in a ring", TWO, "heap0.prev_heap = heap1", "0", "its heaps hold" },
		{ "a heap in a ring with itself", TWO, "heap1.prev_heap = heap1", "0",
		  "its heaps hold" },
		{ "a heap nowhere", TWO, "heap0.prev_heap = 0x8000000", "0",
		  "no heap at 0x8000000" },
		{ "a heap that is not aligned", TWO, "heap0.prev_heap = chunk3", "0",
		  "no heap at" },
		{ "a heap is missing", TWO, "heap1.prev_heap = 0", "0", "its heaps hold" },
		{ "a fence too early", "T u24 t ; u9 u40 u14008 | u24 t", "chunk4.size = 1", "0",
		  "not end as it should" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_arenas, an_arena_that_does_not_add_up_is_not_proved,
                  .timeout = 20)
{
	check(row, "2.36");
}

/* The arena's structure may be said to stand where its heap has no room for it. */
Test(glibc_arenas, an_arena_at_the_end_of_its_heap_is_not_proved, .timeout = 20)
{
	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 t ; u8000 t");
	h.arenas[0] = h.heaps[0] + 0xf00;
	ptheap_break(&h, "main.next = arena0, arena0.next = main, arena0.top = heap0,"
	                 "arena0.system_mem = 4096, heap0.ar_ptr = arena0,"
	                 "heap0.heap_size = 4096");
	cr_expect_str_empty(ptheap_try(&h, "0"), "%s", h.wrong);
	ptheap_deinit(&h);
}

/*
 * With huge pages heaps are short, from 2.35 to 2.41 (the newest of nine of them lies where a
 * long one could), and long again afterwards.
 */
Test(glibc_arenas, heaps_are_as_long_as_all_of_them_can_be)
{
	static const uint64_t lengths[] = { UINT64_C(8) << 20, UINT64_C(64) << 20 };

	for (size_t i = 0; i < 2; i++) {
		ptheap_init(&h);
		h.heap_max = lengths[i];
		ptheap_draw(&h, "2.36",
		            "T u24 t ; u24 | u24 | u40 | u24 | u24 | u24 | u24 | u24 | u100 t");
		ptheap_break(&h, "par.hp_pagesize = 0x200000");
		cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
		cr_expect(ptheap_is_verified(&h), "%llu", (unsigned long long)lengths[i]);
		ptheap_deinit(&h);
	}
}

/* Whoever changes a heap has chunks in hand that look used: in which arena nobody can tell. */
Test(glibc_arenas, a_thread_inside_malloc_puts_all_in_doubt)
{
	struct ms_thread *t;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 u40 t ; u100 t");
	t = &h.fake.base.threads.at[0];
	t->in_malloc = MS_MALLOC_WAITS;
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_expect(ptheap_is_verified(&h));
	t->in_malloc = MS_MALLOC_WORKS;
	cr_expect_str_empty(ptheap_try(&h, "M0"), "%s", h.wrong);
	cr_expect(!ptheap_is_verified(&h));
	cr_expect(ptheap_says(&h, "thread 1 is inside malloc"));
	ptheap_deinit(&h);
}

/* Of glibc's it then has nothing in hand. */
Test(glibc_arenas, a_thread_inside_another_malloc_puts_nothing_in_doubt)
{
	enum { PAGE = 4096 };
	const ms_addr other = 0x7e0000000000;
	struct ms_thread *t;

	ptheap_init(&h);
	ptheap_draw(&h, "2.36", "T u24 u40 t ; u100 t");
	ms_fake_map(&h.fake, other, PAGE, MS_PROT_READ | MS_PROT_EXEC, "/lib/libjemalloc.so.2");
	*elf_write(ms_fake_at(&h.fake, other), 1) = elf_load(0, PAGE, PF_R | PF_X);
	t = &h.fake.base.threads.at[0];
	t->in_malloc = MS_MALLOC_WORKS;
	t->malloc_at = other + 0x123;
	cr_expect_str_empty(ptheap_try(&h, ""), "%s", h.wrong);
	cr_expect(ptheap_is_verified(&h));
	ptheap_deinit(&h);
}

/* They may be in the middle of a change, and to follow them takes long. */
Test(glibc_arenas, lists_are_not_looked_at_while_a_thread_is_inside_malloc)
{
	for (int inside = 0; inside <= 1; inside++) {
		ptheap_init(&h);
		ptheap_draw(&h, "2.36", "T u24 f64 u24 t");
		ptheap_break(&h, "main.fd0 = main.bin0");
		h.fake.base.threads.at[0].in_malloc = inside ? MS_MALLOC_WORKS : MS_MALLOC_OUT;
		cr_expect_str_empty(ptheap_try(&h, "M"), "%s", h.wrong);
		cr_expect_eq(ptheap_says(&h, "thread 1 is inside malloc"), inside);
		cr_expect_eq(ptheap_says(&h, "in bins"), !inside);
		ptheap_deinit(&h);
	}
}
