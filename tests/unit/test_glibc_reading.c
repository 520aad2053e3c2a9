/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "alloc/window.h"
#include "engine/loaded/peek.h"
#include "fake.h"

/* How decoders read target memory: window.h, peek.h. */

enum { BASE = 0x100000, LEN = 8 << 20, HOLE = 5 << 20, PAGE = 4096 };

static struct ms_fake fake;
static struct ms_source_ops ops;
static const struct ms_source_ops *fake_ops;
static uint64_t reads;
static uint64_t read_bytes;

static size_t count_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	reads++;
	read_bytes += len;
	return fake_ops->read(src, addr, buf, len);
}

/* What the word at @addr is. */
static uint64_t word_of(ms_addr addr)
{
	return addr * UINT64_C(0x9e3779b97f4a7c15);
}

static void map(ms_addr begin, uint64_t len)
{
	uint64_t *words = ms_fake_map(&fake, begin, len, MS_PROT_READ, "");

	for (uint64_t i = 0; i < len / 8; i++)
		words[i] = word_of(begin + 8 * i);
}

/* LEN bytes, of which one page is not mapped. */
static void init(void)
{
	ms_fake_init(&fake);
	fake.no_view = true;
	map(BASE, HOLE);
	map(BASE + HOLE + PAGE, LEN - HOLE - PAGE);
	fake_ops = fake.base.ops;
	ops = *fake_ops;
	ops.read = count_read;
	fake.base.ops = &ops;
	reads = read_bytes = 0;
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Whether the @len bytes at @addr, which is a multiple of 8, are @bytes; NULL: they are not there.
 */
static bool is_right(ms_addr addr, size_t len, const void *bytes)
{
	bool in_hole = addr < BASE + HOLE + PAGE && addr + len > BASE + HOLE;
	uint64_t first;

	if (!bytes || in_hole || addr + len > BASE + LEN)
		return !bytes == (in_hole || addr + len > BASE + LEN);
	memcpy(&first, bytes, sizeof(first));
	return first == word_of(addr);
}

static void open_window(struct ms_window *window)
{
	init();
	ms_window_init(window, &fake.base, (struct ms_range){ BASE, BASE + LEN },
	               ms_arena_alloc(&fake.arena, MS_WINDOW_BYTES));
}

Test(glibc_reading, a_window_shows_what_is_there)
{
	struct ms_window window;
	uint32_t state = 7;

	open_window(&window);
	for (int i = 0; i < 20000; i++) {
		ms_addr addr = BASE + next_random(&state) % (LEN / 8) * 8;
		size_t len = 8 + next_random(&state) % 64;

		for (int k = 0; k < 8; k++, addr += next_random(&state) % 200 * 8)
			if (addr < BASE + LEN)
				cr_assert(is_right(addr, len, ms_window_at(&window, addr, len)),
				          "%zu at %llx", len, (unsigned long long)addr);
	}
	ms_fake_deinit(&fake);
}

Test(glibc_reading, a_window_that_goes_on_grows)
{
	struct ms_window window;

	open_window(&window);
	for (ms_addr addr = BASE; addr < BASE + HOLE; addr += 64)
		cr_assert_not_null(ms_window_at(&window, addr, 32));
	cr_expect_leq(reads, 8 + 6);
	cr_expect_leq(read_bytes, HOLE + (1 << 20));
	ms_fake_deinit(&fake);
}

Test(glibc_reading, a_window_jumps_over_what_nobody_asks_for)
{
	struct ms_window window;

	open_window(&window);
	for (ms_addr addr = BASE; addr < BASE + HOLE; addr += 65552)
		cr_assert_not_null(ms_window_at(&window, addr, 32));
	cr_expect_leq(read_bytes, HOLE / 65552 * 8192 + 8192);
	ms_fake_deinit(&fake);
}

Test(glibc_reading, a_window_reads_ahead_to_its_stop_only)
{
	struct ms_window window;

	open_window(&window);
	window.stop = BASE + 300000;
	for (ms_addr addr = BASE; addr < window.stop; addr += 64)
		cr_assert_not_null(ms_window_at(&window, addr, 32));
	cr_expect_leq(read_bytes, 300000 + 64);
	cr_expect_not_null(ms_window_at(&window, window.stop, 32), "it is no limit");
	ms_fake_deinit(&fake);
}

Test(glibc_reading, peeking_is_reading)
{
	struct ms_peek peek;
	uint32_t state = 3;

	init();
	cr_assert(ms_peek_init(&peek, &fake.base, &fake.arena));
	for (int i = 0; i < 50000; i++) {
		ms_addr addr = BASE - PAGE + next_random(&state) % ((LEN + 2 * PAGE) / 8) * 8;
		size_t len = 8 * (1 + next_random(&state) % 1100);
		uint8_t got[8800];
		uint8_t want[8800];
		size_t n = fake_ops->read(&fake.base, addr, want, len);

		cr_assert_eq(ms_peek_read(&peek, addr, got, len), n, "%zu at %llx", len,
		             (unsigned long long)addr);
		cr_assert(!memcmp(got, want, n), "%zu at %llx", len, (unsigned long long)addr);
	}
	ms_fake_deinit(&fake);
}

Test(glibc_reading, peeking_at_one_place_reads_once)
{
	struct ms_peek peek;
	uint64_t word;

	init();
	cr_assert(ms_peek_init(&peek, &fake.base, &fake.arena));
	for (ms_addr addr = BASE; addr < BASE + 64 * PAGE; addr += 16)
		cr_assert_eq(ms_peek_read(&peek, addr, &word, 8), 8);
	cr_expect_eq(reads, 64);
	ms_fake_deinit(&fake);
}
