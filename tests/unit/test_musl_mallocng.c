/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "muslheap.h"

/* musl's mallocng: drawn heaps, and damaged ones. Pictures: muslheap.h. */

#define PARAMS(rows) cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]))

/* Arrays, not pointers: Criterion hands parameters to a worker process by value. */
struct row {
	char what[64];
	char picture[128];
	char damage[128];
	char says[64]; /* must be in the evidence */
};

static const char ALL[] =
	"c3 u50 u44+1 f a u1 ; F2 ; m200000+7 ; c15 u400 (1 u20 f u8 ) a ; d7 u100 ; d9 f";

static struct muslheap h;

static void check(const struct row *row, bool proved)
{
	muslheap_init(&h);
	muslheap_draw(&h, row->picture[0] ? row->picture : ALL);
	muslheap_break(&h, row->damage);
	cr_expect_str_empty(muslheap_try(&h, proved), "%s: %s", row->what, h.wrong);
	cr_expect(muslheap_says(&h, row->says), "%s: not told: %s", row->what, row->says);
	muslheap_deinit(&h);
}

ParameterizedTestParameters(musl_mallocng, every_slot_in_use_is_a_block)
{
	static struct row rows[] = {
		{ "one block", "c0 u5", "", "1 groups, 0 of them in slots of others" },
		{ "all sizes of one slot", "c2 u0 u1 u39 u40 u41 u42 u43 u44", "",
		  "8 slots in use" },
		{ "free ones", "c4 f a u70 f a u60 u50", "", "3 slots in use" },
		{ "none", "c4 f a", "", " 0 slots in use" },
		{ "of 32 slots",
		  "c0 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 u1 "
		  "u1 u1 u1 u1 u1 f",
		  "", "31 slots in use" },
		{ "later than their slots", "c9 u20+1 u30+7 u100+2 f u154+0", "",
		  "4 slots in use" },
		{ "with mappings of their own", "m131052 ; m131053+1 ; m200000+255 ; m500000", "",
		  "4 slots in use" },
		{ "moved far by aligned_alloc()",
		  "m1000+65535 ; m1000+65536 ; m1000+70000 ; "
		  "m1000+131072 ; m1000+140000",
		  "", "5 slots in use" },
		{ "a single slot with a mapping", "c31 u8000 ; c31 f ; c31 a", "",
		  "1 slots in use" },
		{ "groups in groups", "c31 u9 (15 (3 u60 f ) u490 f (1 u28 u5 ) ) f (9 u150 a ) u8",
		  "", "5 groups, 4 of them in slots of others" },
		{ "in a single slot", "c15 (1 u28 f u3 )", "", "2 groups, 1 of" },
		{ "memory that the loader gave", "d9 u100 ; d23 f ; c1 u5 ; d9 u8", "",
		  "3 slots in" },
		{ "free descriptors", "F3 ; c1 u5 ; F1", "", "1 descriptors in use, 4 free ones" },
		{ "several pages of metadata", "c1 u5 ; F200 ; c1 f u8 ; F103 ; m200000", "",
		  "4 pages of metadata" },
		{ "a page of metadata that is full", "c1 u5 ; F100", "", "1 pages of metadata" },
		{ "all together", "", "", "8 slots in use" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, musl_mallocng, every_slot_in_use_is_a_block, .timeout = 20)
{
	check(row, true);
}

/* Groups of ALL: 0 c3, 1 2 free, 3 m, 4 c15, 5 in it, 6 7 given. Slots: 0 u50 … 5 m, 6 u400, 7 (.
 */
ParameterizedTestParameters(musl_mallocng, what_contradicts_is_not_proved)
{
	static struct row rows[] = {
		{ "a counter of slots", "", "ctx.usage3 += 1", "class 3 has 5 slots" },
		{ "a counter of no slots", "", "ctx.usage20 = 1", "class 20 has 0 slots" },
		{ "the number of those never used", "", "ctx.n_unused -= 1", "" },
		{ "the first never used", "", "ctx.unused += 40", "never used are not counted" },
		{ "the head of the free ones", "", "ctx.free = 0",
		  "2 descriptors are free, and 0" },
		{ "a used one among the free", "", "ctx.free = desc3", "" },
		{ "a free one in no list", "", "desc1.next = desc1, desc1.prev = desc1", "" },
		{ "a class's list is gone", "", "ctx.active3 = 0", "1 groups are in no list" },
		{ "a class's list leads elsewhere", "", "ctx.active3 = desc4", "list of class 3" },
		{ "a link to nothing", "", "desc0.next = 4096", "a list of descriptors breaks" },
		{ "a link into a descriptor", "", "desc0.next += 8",
		  "a list of descriptors breaks" },
		{ "a link back elsewhere", "", "desc1.prev = desc3",
		  "a list of descriptors breaks" },
		{ "a ring without its head", "c1 f ; c1 f ; c1 f",
		  "desc1.next = desc1, desc1.prev = desc1", "breaks" },
		{ "the group's descriptor", "", "group0.meta = desc4",
		  "does not fit its descriptor" },
		{ "more in use than was given out", "", "group0.active = 2",
		  "does not fit its desc" },
		{ "masks that meet", "", "desc0.masks |= 0x1000000010", "contradicts itself" },
		{ "masks beyond the slots", "", "desc0.masks |= 0x20", "contradicts itself" },
		{ "a class that there is not", "", "desc0.flags |= 0xc00", "contradicts itself" },
		{ "more slots than memory", "", "desc4.flags |= 31", "contradicts itself" },
		{ "a mapping of nothing", "m200000", "desc0.flags = 0xfe0", "contradicts itself" },
		{ "a group where nothing is", "m200000 ; c1 u5", "desc1.mem = 0x100000000000",
		  "is not mapped" },
		{ "two groups in one place", "c1 u5 ; c1 u5", "desc1.mem = group0",
		  "overlaps another" },
		{ "a page of metadata is another's", "F101 ; c1 u5", "area1.check ^= 1",
		  "breaks at" },
		{ "it has another number", "F101 ; c1 u5", "area1.n = 100", "breaks at" },
		{ "it is missing", "F101 ; c1 u5", "area0.next = 0x900000000000", "breaks at" },
		{ "the list ends too early", "F202 ; c1 u5", "area1.next = 0",
		  "last page of meta" },
		{ "the list goes on too long", "F101 ; c1 u5", "area1.next = area1", "breaks at" },
		{ "pages that lead in a circle", "F202 ; c1 u5", "area1.next = area0",
		  "breaks at" },
		{ "a slot's index", "", "slot1.head ^= 0x20000000000", "the slot at" },
		{ "its offset", "", "slot1.head ^= 0x2000000000000", "the slot at" },
		{ "its wide mark", "", "slot1.head |= 0x100000000", "the slot at" },
		{ "how much is reserved, behind", "", "slot4.tail = 0xff000000000000",
		  "the slot at" },
		{ "too little is reserved, behind", "", "slot4.tail = 0x00000004000000ff",
		  "the slot" },
		{ "where a later block begins", "c9 u20+3 u5", "slot0.head = 0", "" },
		{ "an inner group is a block", "", "slot7.head ^= 0xc00000000000", "" },
		{ "a block is an inner group", "c9 u150 (0 u1 )", "slot0.head ^= 0x600000000000",
		  "does not hold a group" },
		{ "an inner group is elsewhere", "", "desc5.mem += 16", "" },
		{ "an inner group is longer than its slot", "",
		  "desc5.flags |= 31, desc4.masks |= 0", "" },
		{ "an inner group is no more", "", "desc5.mem = 0", "" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, musl_mallocng, what_contradicts_is_not_proved, .timeout = 20)
{
	muslheap_init(&h);
	muslheap_draw(&h, row->picture[0] ? row->picture : ALL);
	muslheap_break(&h, row->damage);
	for (int i = 0; i < 2; i++) {
		h.fake.no_view = i;
		cr_assert_eq(muslheap_decode(&h), MS_OK);
		cr_expect_eq(h.found.n, 1, "%s: not found", row->what);
		cr_expect(!h.found.n || h.found.at[0].doubt, "%s: verified", row->what);
		cr_expect_str_empty(muslheap_told(&h), "%s: told: %s", row->what,
		                    muslheap_told(&h));
		cr_expect(muslheap_says(&h, row->says), "%s: %s", row->what,
		          h.evidence.at[h.evidence.n - 1].text);
	}
	muslheap_deinit(&h);
}

Test(musl_mallocng, what_is_not_proved_is_handed_over)
{
	const struct row row = { "a counter", "", "ctx.usage3 += 1", "groups not proved" };

	check(&row, false);
	check(&(struct row){ "no damage", "", "", "" }, true);
}

Test(musl_mallocng, metadata_is_never_a_root)
{
	muslheap_init(&h);
	muslheap_draw(&h, "F101 ; c1 u5 ; d9 u100");
	cr_assert_eq(muslheap_decode(&h), MS_OK);
	cr_expect(muslheap_is_owned(&h, muslheap_place(&h, "ctx.first")));
	cr_expect(muslheap_is_owned(&h, muslheap_place(&h, "ctx.usage47")));
	cr_expect(muslheap_is_owned(&h, muslheap_place(&h, "area0.check")));
	cr_expect(muslheap_is_owned(&h, muslheap_place(&h, "desc102.mem")));
	cr_expect(muslheap_is_owned(&h, muslheap_place(&h, "group102.meta")));
	cr_expect(!muslheap_is_owned(&h, muslheap_place(&h, "ctx.secret") - 8));
	cr_expect(!muslheap_is_owned(&h, muslheap_place(&h, "slot1") + 160));
	muslheap_deinit(&h);
}

Test(musl_mallocng, a_thread_in_the_middle_of_malloc_explains_anything)
{
	struct ms_thread *thread;

	muslheap_init(&h);
	muslheap_draw(&h, ALL);
	thread = ms_fake_thread(&h.fake, 7, 0, 0);
	thread->in_malloc = MS_MALLOC_WORKS;
	cr_expect_str_empty(muslheap_try(&h, false), "%s", h.wrong);
	cr_expect_eq(h.found.at[0].doubt, MS_DOUBT_CHANGES);
	cr_expect(muslheap_says(&h, "thread 7 is inside malloc"));
	thread->in_malloc = MS_MALLOC_WAITS;
	cr_expect_str_empty(muslheap_try(&h, true), "%s", h.wrong);
	muslheap_deinit(&h);
}

/* Such a slot is no block; what it holds is known only where a thread is giving it back. */
Test(musl_mallocng, a_slot_between_free_and_used_is_no_block)
{
	struct ms_thread *thread;

	muslheap_init(&h);
	muslheap_draw(&h, "c3 u50 p u60 z u8");
	cr_expect_str_empty(muslheap_try(&h, true), "%s", h.wrong);
	cr_expect(muslheap_is_unproved(&h, muslheap_place(&h, "slot1.at")));
	cr_expect(muslheap_is_unproved(&h, muslheap_place(&h, "slot3.at")));
	thread = ms_fake_thread(&h.fake, 7, 0, 0);
	thread->in_malloc = MS_MALLOC_WAITS;
	cr_expect_str_empty(muslheap_try(&h, true), "%s", h.wrong);
	cr_expect(muslheap_is_unproved(&h, muslheap_place(&h, "slot1.at")));
	thread = ms_fake_thread(&h.fake, 8, 0, 0);
	thread->in_malloc = MS_MALLOC_WAITS;
	cr_expect_str_empty(muslheap_try(&h, true), "%s", h.wrong);
	cr_expect(!muslheap_is_unproved(&h, muslheap_place(&h, "slot1.at")));
	muslheap_deinit(&h);
}

Test(musl_mallocng, it_is_found_by_its_secret_alone)
{
	static const char *const others[] = { "ctx.secret ^= 1",    "area0.check ^= 1",
		                              "ctx.init = 2",       "ctx.first = 0",
		                              "ctx.n_unused = 102", "area0.n = 102" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		muslheap_init(&h);
		muslheap_draw(&h, ALL);
		muslheap_break(&h, others[i]);
		cr_assert_eq(muslheap_decode(&h), MS_OK);
		cr_expect_eq(h.found.n, 0, "%s", others[i]);
		muslheap_deinit(&h);
	}
}
