/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/scan.h"
#include "fake.h"

/*
 * A toy source of another ABI, scanned as a whole by a toy decoder: pages of 16 KiB, words of
 * four bytes in the other byte order, and a tag in the highest byte of some pointers. Blocks
 * of 24 bytes stand at every 32.
 */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	PAGE = 16384,
	BREAK = 0x100000,
	HEAP = 0x200000,
	STACK = 0x300000,
	SLOT = 32,
	USABLE = 24,
	BLOCKS = 12,
};

static const struct ms_abi toy = {
	.page_bytes = PAGE, .word_bytes = 4, .big_endian = true, .tag_bits = 0xff000000
};

static struct ms_fake fake;
static struct ms_report report;

static ms_addr block(unsigned i)
{
	return HEAP + (ms_addr)i * SLOT;
}

static enum ms_status toy_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	(void)d;
	ret->state = &fake;
	return MS_OK;
}

static enum ms_status toy_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	uint32_t extent;
	bool ok = !ms_blocks_open(d->blocks, (struct ms_range){ HEAP, HEAP + BLOCKS * SLOT }, 4,
	                          &extent);

	(void)claim;
	for (unsigned i = 0; i < BLOCKS && ok; i++)
		ok = !ms_blocks_put(d->blocks, extent, block(i), USABLE);
	return ok ? MS_OK : MS_E_NOMEM;
}

static enum ms_status toy_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_heap *heap = ms_vec_push(d->arena, d->heaps);

	(void)claim;
	if (!heap || !ms_ranges_add(d->arena, &d->owned, HEAP, HEAP + PAGE))
		return MS_E_NOMEM;
	strcpy(heap->allocator, "toy");
	return MS_OK;
}

static void draw(const struct ms_abi *abi)
{
	ms_fake_init(&fake);
	memset(&report, 0, sizeof(report));
	fake.base.abi = *abi;
	ms_fake_map(&fake, BREAK, PAGE, RW, "[heap]");
	ms_fake_map(&fake, HEAP, PAGE, RW, "");
	ms_fake_map(&fake, STACK, PAGE, RW, "[stack]");
	ms_fake_thread(&fake, 1, STACK + PAGE / 2, 0);
}

/* The leaked blocks by their numbers, "0 3 ", each way of reading the source the same. */
static const char *leaked(struct ms_scan_options options)
{
	static const struct ms_decoder decoder = { "toy", "toys", toy_claim, toy_read, toy_settle };
	static const struct ms_decoder *const decoders[] = { &decoder, NULL };
	static char text[2][BLOCKS * 4];
	struct ms_error err = { 0 };

	options.decoders = decoders;
	options.limit = UINT64_MAX;
	options.no_fold = true;
	for (int way = 0; way < 2; way++) {
		memset(&report, 0, sizeof(report));
		memset(text[way], 0, sizeof(text[way]));
		fake.no_view = way;
		cr_assert_eq(ms_scan(&fake.base, &options, &fake.arena, &report, &err), MS_OK, "%s",
		             err.text);
		for (unsigned i = 0; i < BLOCKS; i++)
			for (size_t k = 0; k < report.leaks.n; k++)
				if (report.leaks.at[k].address == block(i))
					sprintf(strchr(text[way], 0), "%u ", i);
	}
	cr_assert_str_eq(text[0], text[1], "viewed, and read");
	return text[0];
}

/* All blocks but the first are held by the one before. */
static void chain(unsigned from)
{
	for (unsigned i = from; i + 1 < BLOCKS; i++)
		ms_fake_put(&fake, block(i) + 4 * (i % 6), block(i + 1));
}

Test(abi, words_of_four_bytes_in_the_other_order_are_followed)
{
	draw(&toy);
	ms_fake_put(&fake, BREAK + 4, block(2));
	ms_fake_put(&fake, STACK + PAGE / 2 + 8, block(0));
	chain(2);
	cr_expect_str_eq(leaked((struct ms_scan_options){ 0 }), "1 ");
	ms_fake_deinit(&fake);
}

Test(abi, two_neighbouring_short_words_are_no_long_one)
{
	draw(&toy);
	/* Eight bytes here are one address, of none of the blocks, in each order. */
	ms_fake_put(&fake, BREAK, block(0));
	ms_fake_put(&fake, BREAK + 4, block(1));
	chain(2);
	cr_expect_str_eq(leaked((struct ms_scan_options){ 0 }), "2 3 4 5 6 7 8 9 10 11 ");
	ms_fake_deinit(&fake);
}

Test(abi, tags_are_no_part_of_an_address)
{
	for (int tags = 0; tags < 2; tags++) {
		struct ms_abi abi = toy;

		abi.tag_bits = tags ? toy.tag_bits : 0;
		draw(&abi);
		ms_fake_put(&fake, BREAK, block(0) | 0xb4000000);
		ms_fake_put(&fake, block(0), block(1) | 0x17000000);
		chain(1);
		cr_expect_str_eq(leaked((struct ms_scan_options){ 0 }),
		                 tags ? "" : "0 1 2 3 4 5 6 7 8 9 10 11 ");
		ms_fake_deinit(&fake);
	}
}

Test(abi, a_word_may_stand_at_any_byte_where_that_is_asked_for)
{
	draw(&toy);
	ms_fake_put(&fake, BREAK + 3, block(0));
	ms_fake_put(&fake, block(0) + 5, block(1));
	chain(1);
	cr_expect_str_eq(leaked((struct ms_scan_options){ .unaligned = true }), "");
	cr_expect_eq(report.totals.leaked_allocations, 0);
	ms_fake_deinit(&fake);
}

Test(abi, half_a_word_further_makes_a_possible_leak)
{
	draw(&toy);
	ms_fake_put(&fake, BREAK + 2, block(0));
	chain(0);
	cr_expect_str_eq(leaked((struct ms_scan_options){ 0 }), "");
	cr_expect_eq(report.totals.possible_allocations, 0);
	cr_expect_eq(report.totals.leaked_allocations, 0);
	cr_expect_eq(report.warnings.n, 1, "what is kept is said");
	ms_fake_deinit(&fake);
}

/* The last word of a mapping whose neighbour cannot be read, and pages that are passed over. */
Test(abi, pages_are_as_long_as_the_source_says)
{
	uint8_t bytes[3 * PAGE];
	size_t before;

	draw(&toy);
	ms_fake_map(&fake, STACK + 2 * PAGE, PAGE, RW, "");
	memset(ms_fake_at(&fake, STACK + 2 * PAGE), 7, PAGE);
	memset(ms_fake_at(&fake, STACK), 7, PAGE);
	before = fake.reads;
	ms_source_fill(&fake.base, STACK, bytes, sizeof(bytes));
	cr_expect_eq(fake.reads - before, 2, "one page is passed over in one go");
	for (size_t i = 0; i < sizeof(bytes); i++)
		cr_assert_eq(bytes[i], i / PAGE == 1 ? 0 : 7, "%zu", i);
	ms_fake_deinit(&fake);
}

Test(abi, words_are_read_as_numbers_of_ours)
{
	uint64_t words[4] = { 0 };
	uint64_t word = 0;

	draw(&toy);
	for (unsigned i = 0; i < 4; i++)
		ms_fake_put(&fake, BREAK + PAGE - 16 + 4 * i, 0x01020304 * (i + 1));
	cr_expect_eq(ms_source_words(&fake.base, BREAK + PAGE - 16, words, 4), 4);
	for (unsigned i = 0; i < 4; i++)
		cr_expect_eq(words[i], 0x01020304 * (i + 1));
	cr_expect_eq(ms_source_words(&fake.base, BREAK + PAGE - 6, words, 4), 1);
	cr_expect(ms_source_word(&fake.base, BREAK + PAGE - 4, &word));
	cr_expect_eq(word, 0x04080c10);
	cr_expect_not(ms_source_word(&fake.base, BREAK + PAGE - 3, &word));
	ms_fake_deinit(&fake);
}
