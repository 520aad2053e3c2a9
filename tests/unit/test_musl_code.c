/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/code/musl_code.h"

/*
 * A program whose text refers to what musl's malloc keeps; in its data, which is of two
 * mappings: file and .bss.
 *
 *	BASE      TEXT              DATA      BSS       END
 *	│ header  │ instructions …  │ .data   │ .bss    │ a page of metadata
 */
enum {
	BASE = 0x400000,
	TEXT = 0x1000,
	DATA = 0x5000,
	BSS = 0x6000,
	END = 0x7000,
	BYTES = 0x8000,
	CONTEXT = BSS - 0x100, /* on both sides of the border */
	BINS = BSS - 0x200,
	CHUNK = 0x6e00,
	BEHIND = 0x500,
	RW = MS_PROT_READ | MS_PROT_WRITE,
	RX = MS_PROT_READ | MS_PROT_EXEC,
};

static uint8_t program[BYTES];
static struct ms_range found[MS_MUSL_CODE_RANGES];

static void put(size_t at, uint64_t value, size_t len)
{
	memcpy(program + at, &value, len);
}

static void draw_context(void)
{
	memset(program, 0, sizeof(program));
	put(CONTEXT, 0x5eccae7, 8);
	put(CONTEXT + 8, 1, 4);
	put(CONTEXT + 56, BASE + END, 8);
	put(END, 0x5eccae7, 8);
}

/* Bins of the older malloc: all empty, the first half never used, and a chunk in the last. */
static void draw_bins(void)
{
	memset(program, 0, sizeof(program));
	put(BINS, 1ull << 63, 8);
	for (unsigned i = 32; i < 64; i++) {
		size_t head = BINS + 16 + i * 24;

		put(head, BASE + (i == 63 ? CHUNK : head - 16), 8);
		put(head + 8, BASE + (i == 63 ? CHUNK : head - 16), 8);
	}
	put(CHUNK + 24, BASE + BINS + 16 + 63 * 24 - 16, 8);
}

/* At @at: mov what(%rip), %rax. */
static void refer(size_t at, size_t what)
{
	put(at, 0x058b48, 3);
	put(at + 3, what - (at + 7), 4);
}

static size_t find(void)
{
	struct ms_mapping maps[] = {
		{ .range = { BASE, BASE + TEXT }, .prot = MS_PROT_READ },
		{ .range = { BASE + TEXT, BASE + DATA }, .prot = RX },
		{ .range = { BASE + DATA, BASE + BSS }, .prot = RW },
		{ .range = { BASE + BSS, BASE + END }, .prot = RW },
	};
	const struct ms_mappings all = { maps, 4, 4 };
	struct ms_image image = { .object.span = { BASE, BASE + END } };
	struct ms_arena arena = { 0 };
	size_t n;

	image.mem_fd = memfd_create("memory", MFD_CLOEXEC);
	cr_assert_eq(pwrite(image.mem_fd, program, BYTES, BASE), BYTES);
	memset(found, 0, sizeof(found));
	n = ms_musl_code_find(&image, &all, &arena, found);
	ms_arena_deinit(&arena);
	(void)close(image.mem_fd);
	return n;
}

static bool is_found(size_t n, size_t at)
{
	for (size_t i = 0; i < n; i++)
		if (ms_range_has(found[i], BASE + at))
			return true;
	return false;
}

Test(musl_code, lies_between_references_to_the_context)
{
	size_t n;

	draw_context();
	refer(0x1800, CONTEXT);
	refer(0x1a00, CONTEXT + 80);
	refer(0x1e00, CONTEXT + 920);
	n = find();
	cr_assert_eq(n, 1);
	cr_expect(is_found(n, 0x1800) && is_found(n, 0x1c00));
	cr_expect(is_found(n, 0x1e03 + BEHIND - 1) && !is_found(n, 0x1e03 + BEHIND));
	cr_expect_not(is_found(n, 0x17f0 - 1));
}

Test(musl_code, may_lie_in_several_places)
{
	size_t n;

	draw_context();
	refer(0x1800, CONTEXT);
	refer(0x1800 + BEHIND + 8, CONTEXT);
	refer(0x3000, CONTEXT + 8);
	n = find();
	cr_assert_eq(n, 3);
	cr_expect(is_found(n, 0x3000));
	cr_expect_not(is_found(n, 0x2a00));
	for (size_t at = TEXT + 0x10; at + BEHIND < DATA; at += BEHIND + 0x80)
		refer(at, CONTEXT);
	cr_expect_leq(find(), MS_MUSL_CODE_RANGES);
}

Test(musl_code, is_known_in_programs_at_fixed_addresses)
{
	static const struct {
		const char *what;
		uint8_t bytes[4];
		bool known;
	} cases[] = {
		{ "an address beside a scaled index", { 0x48, 0x8b, 0x04, 0xc5 }, true },
		{ "a constant for a register", { 0x90, 0x90, 0x41, 0xb8 }, true },
		{ "a number", { 0x90, 0x90, 0x90, 0x90 }, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		draw_context();
		memcpy(program + 0x1800, cases[i].bytes, 4);
		put(0x1804, BASE + CONTEXT + 80, 4);
		cr_expect_eq(find(), cases[i].known, "%s", cases[i].what);
	}
}

Test(musl_code, needs_a_context_that_its_metadata_confirms)
{
	draw_context();
	refer(0x1800, CONTEXT);
	cr_assert_eq(find(), 1);
	put(END, 1, 8);
	cr_expect_eq(find(), 0, "another secret");
	put(END, 0x5eccae7, 8);
	put(CONTEXT + 8, 0, 4);
	cr_expect_eq(find(), 0, "not initialised");
	put(CONTEXT + 8, 1, 4);
	put(CONTEXT + 56, BASE + END + 8, 8);
	cr_expect_eq(find(), 0, "no page");
}

Test(musl_code, of_the_older_malloc_refers_to_its_bins)
{
	size_t n;

	draw_bins();
	refer(0x1800, BINS);
	refer(0x1900, BINS + 1551);
	refer(0x2800, BINS + 1552);
	n = find();
	cr_assert_eq(n, 1);
	cr_expect(is_found(n, 0x1900));
	cr_expect_not(is_found(n, 0x2800));
}

/* The process runs on while it is looked at. */
Test(musl_code, of_the_older_malloc_is_found_while_some_bins_change)
{
	draw_bins();
	refer(0x1800, BINS);
	put(BINS, 0x3f, 6);
	cr_expect_eq(find(), 1);
	put(BINS, 0x7fffff, 6);
	cr_expect_eq(find(), 0);
}
