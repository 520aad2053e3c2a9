/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_kinds.h"
#include "engine/kinds/python/plain.h"
#include "engine/strict/veil.h"

/* Objects in a ring of CPython's collector, with a member of its own at RING. */

#define TYPE_TYPE (DK_DATA + 0x200)
#define BOX_TYPE  (DK_DATA + 0x400) /* its objects are the collector's */
#define TEXT_TYPE (DK_DATA + 0x600) /* and these are not */
#define RING      (DK_DATA + 0x800)

enum { TYPE_BYTES = 408, COLLECTED_FLAG = 14, HEAD = 16, MOST = 8 };

static struct drawn_kinds d;
static struct ms_collector collector;
static struct ms_ranges hidden;
static struct ms_marks wide;
static struct ms_veil veil;
static ms_addr ring[MOST]; /* heads, in its order */
static size_t n_ring;

static void draw_type(ms_addr at, const char *name, uint64_t flags)
{
	ms_addr text = DK_CONSTANTS + (at & 0xf00) / 16;

	strcpy(ms_fake_at(&d.fake, text), name);
	dk_put(&d, at, 1, TYPE_TYPE, 0, text, TYPE_BYTES);
	ms_fake_put(&d.fake, at + 21 * 8, flags);
}

static void setup(void)
{
	drawn_kinds_init(&d, "/usr/lib/libpython3.11.so.1.0");
	n_ring = 0;
	draw_type(TYPE_TYPE, "type", UINT64_C(1) << COLLECTED_FLAG);
	draw_type(BOX_TYPE, "box", UINT64_C(1) << COLLECTED_FLAG);
	draw_type(TEXT_TYPE, "text", 0);
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(collector, .init = setup, .fini = teardown);

/* An object in a block of its own, @before bytes behind the begin, with three words. */
static ms_addr object(uint64_t before, ms_addr type, uint64_t references)
{
	ms_addr head = drawn_kinds_block(&d, before + HEAD + 40) + before;

	dk_put(&d, head + HEAD, references, type);
	ring[n_ring++] = head;
	return head + HEAD;
}

/* Link all; @flags: in the lower bits of the links. */
static void link_ring(uint64_t flags)
{
	for (size_t i = 0; i < n_ring; i++)
		dk_put(&d, ring[i], (i + 1 < n_ring ? ring[i + 1] : RING) | flags,
		       (i ? ring[i - 1] : RING) | flags);
	dk_put(&d, RING, n_ring ? ring[0] : RING, n_ring ? ring[n_ring - 1] : RING);
}

static void find(void)
{
	drawn_kinds_find(&d);
	memset(&collector, 0, sizeof(collector));
	memset(&hidden, 0, sizeof(hidden));
	memset(&wide, 0, sizeof(wide));
	cr_assert_eq(ms_plain_find(&d.blocks, &d.roots, &collector, &hidden, &wide), MS_OK);
	cr_assert(ms_ranges_tidy(&d.found, &hidden));
}

static bool is_hidden(ms_addr at)
{
	return ms_range_find(&hidden, at) && ms_range_find(&hidden, at + 15);
}

/* Mark what the collector would free; all that is drawn is unreachable. */
static struct ms_walk_count mark(void)
{
	struct ms_walk_options like = { .unaligned = false };
	struct ms_walk_count kept;
	struct ms_error err;

	find();
	ms_veil_open(&veil, &d.fake.base, &hidden);
	d.blocks.src = &veil.base;
	d.blocks.extents.at[0].host = NULL;
	cr_assert_eq(ms_collector_mark(&collector, &d.blocks, &like, &kept, &err), MS_OK);
	return kept;
}

static bool is_marked(ms_addr begin)
{
	const struct ms_extent *extent = ms_blocks_extent_of(&d.blocks, begin);

	return ms_block_is_marked(&d.blocks,
	                          (struct ms_block){ (uint32_t)(extent - d.blocks.extents.at),
	                                             ms_granule_of(extent, begin) });
}

Test(collector, has_objects_by_links_that_are_no_references)
{
	static const uint64_t before[] = { 0, 16 };

	for (size_t i = 0; i < 2; i++)
		for (uint64_t flags = 0; flags < 4; flags++) {
			n_ring = 0;
			(void)object(before[i], BOX_TYPE, 1);
			(void)object(before[i], BOX_TYPE, 1);
			link_ring(flags);
			find();
			cr_expect_eq(collector.objects.n, 2);
			cr_expect(is_hidden(ring[0]) && is_hidden(ring[1]) && is_hidden(RING));
			cr_expect(!ms_range_find(&hidden, ring[0] + HEAD));
			cr_expect(!ms_range_find(&hidden, RING + HEAD));
		}
}

/* A word of the second of three is another: the ring is being changed. */
Test(collector, has_none_of_a_ring_that_does_not_close)
{
	for (size_t word = 0; word < 2; word++) {
		n_ring = 0;
		for (int i = 0; i < 3; i++)
			(void)object(0, BOX_TYPE, 1);
		link_ring(0);
		ms_fake_put(&d.fake, ring[1] + word * 8, DK_HEAP + DK_HEAP_BYTES - 64);
		find();
		cr_expect_eq(collector.objects.n, 0, "word %zu", word);
		cr_expect_eq(hidden.n, 0, "word %zu", word);
	}
}

/* It begins on the stack of a thread that collects. */
Test(collector, has_none_of_a_ring_that_is_not_the_interpreters)
{
	const ms_addr stack = 0x70000000;

	(void)object(0, BOX_TYPE, 1);
	(void)object(0, BOX_TYPE, 1);
	link_ring(0);
	ms_fake_map(&d.fake, stack, 4096, MS_PROT_READ | MS_PROT_WRITE, "[stack]");
	dk_put(&d, stack, ring[0], ring[1]);
	ms_fake_put(&d.fake, ring[0] + 8, stack);
	ms_fake_put(&d.fake, ring[1], stack);
	find();
	cr_expect_eq(hidden.n, 0);
}

Test(collector, has_no_other_objects)
{
	ms_addr text = object(0, TEXT_TYPE, 1);
	ms_addr none = object(0, DK_DATA + 0xa00, 1);
	ms_addr dead = object(0, BOX_TYPE, 0);

	link_ring(0);
	find();
	cr_expect_eq(collector.objects.n, 0);
	cr_expect(!is_hidden(text - HEAD) && !is_hidden(none - HEAD) && !is_hidden(dead - HEAD));
}

Test(collector, is_not_where_no_file_is_cpythons)
{
	drawn_kinds_deinit(&d);
	drawn_kinds_init(&d, "/usr/lib/libother.so");
	draw_type(TYPE_TYPE, "type", UINT64_C(1) << COLLECTED_FLAG);
	draw_type(BOX_TYPE, "box", UINT64_C(1) << COLLECTED_FLAG);
	n_ring = 0;
	(void)object(0, BOX_TYPE, 1);
	link_ring(0);
	find();
	cr_expect_eq(hidden.n, 0);
}

/* Two that have each other, one with a reference too many, and what that has. */
Test(collector, frees_what_no_reference_is_missing_of)
{
	ms_addr one = object(0, BOX_TYPE, 1);
	ms_addr other = object(16, BOX_TYPE, 2);
	ms_addr lost = object(0, BOX_TYPE, 2);
	ms_addr items = drawn_kinds_block(&d, 64);
	ms_addr child = object(0, BOX_TYPE, 1);
	ms_addr ever = object(0, BOX_TYPE, UINT32_MAX);
	const struct ms_uncollected *found;
	struct ms_walk_count kept;

	dk_put(&d, one + 16, other, other | 1, lost);
	dk_put(&d, other + 16, one);
	dk_put(&d, lost + 16, items);
	dk_put(&d, items, child);
	link_ring(0);
	kept = mark();
	cr_expect(is_marked(one - HEAD) && is_marked(other - 2 * HEAD) && is_marked(ever - HEAD));
	cr_expect(!is_marked(lost - HEAD) && !is_marked(items) && !is_marked(child - HEAD));
	cr_expect_eq(kept.blocks, 3);
	found = ms_collector_of(&collector, &d.blocks, lost - HEAD);
	cr_assert(found);
	cr_expect_eq(found->references, 2);
	cr_expect_eq(found->found, 1);
	cr_expect_eq(ms_collector_of(&collector, &d.blocks, other - 2 * HEAD)->found, 2);
	cr_expect(!ms_collector_of(&collector, &d.blocks, items));
}

Test(collector, says_nothing_of_what_is_reachable)
{
	ms_addr lost = object(0, BOX_TYPE, 2);
	struct ms_walk_options like = { .unaligned = false };
	struct ms_walk_count kept;
	struct ms_error err;

	link_ring(0);
	find();
	ms_blocks_cell(&d.blocks, d.blocks.extents.at, ms_granule_of(d.blocks.extents.at, lost))
		->marks = UINT64_MAX;
	cr_assert_eq(ms_collector_mark(&collector, &d.blocks, &like, &kept, &err), MS_OK);
	cr_expect_eq(kept.blocks, 0);
	cr_expect_eq(collector.lost.n, 0);
}
