/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/decode.h"
#include "fake.h"

/* Two toy decoders and a toy annotator, which write down what they are asked, and see. */
enum { FIRST = 0x100000, SECOND = 0x200000, BYTES = 0x1000, RW = MS_PROT_READ | MS_PROT_WRITE };

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_blocks blocks;
static struct ms_heaps heaps;
static struct ms_notes evidence;
static struct ms_notes warnings;
static struct ms_decoding decoding;
static struct ms_error err;
static char calls[64];
static char others[64]; /* the memory that each saw others have */
static uint32_t groups[2];
static bool here[2];
static int state;

static void call(const char *what)
{
	strcat(strcat(calls, what), " ");
}

static enum ms_status claim(struct ms_decoding *d, struct ms_claim *ret, int which)
{
	uint32_t *module = ms_vec_push(d->arena, &ret->modules);

	if (!here[which])
		return MS_OK;
	*module = 77;
	ret->state = &state;
	ret->unused = which == 1;
	groups[which] = ms_blocks_new_group(d->blocks);
	return ms_ranges_add(d->arena, &ret->memory, which ? SECOND : FIRST,
	                     (which ? SECOND : FIRST) + BYTES)
	               ? MS_OK
	               : MS_E_NOMEM;
}

/* The blocks of the second come first, so that only sorting puts them in order. */
static enum ms_status put(struct ms_decoding *d, const struct ms_claim *c, int which)
{
	ms_addr begin = which ? FIRST + BYTES : SECOND + BYTES;
	const struct ms_range *r;
	uint32_t extent;

	ms_vec_for_each (r, &c->others)
		sprintf(strchr(others, 0), "%d:%llx ", which, (unsigned long long)r->begin);
	if (ms_blocks_open(d->blocks, (struct ms_range){ begin, begin + 32 }, 4, &extent) ||
	    ms_blocks_put(d->blocks, extent, begin, 24))
		return MS_E_NOMEM;
	d->blocks->extents.at[extent].group = groups[which];
	return MS_OK;
}

static enum ms_status add_heap(struct ms_decoding *d)
{
	struct ms_heap *heap = ms_vec_push(d->arena, d->heaps);

	return heap ? MS_OK : MS_E_NOMEM;
}

static enum ms_status claim_a(struct ms_decoding *d, struct ms_claim *ret)
{
	call("claim-a");
	return claim(d, ret, 0);
}

static enum ms_status claim_b(struct ms_decoding *d, struct ms_claim *ret)
{
	call("claim-b");
	return claim(d, ret, 1);
}

static enum ms_status read_a(struct ms_decoding *d, const struct ms_claim *c)
{
	call("read-a");
	return put(d, c, 0);
}

static enum ms_status read_b(struct ms_decoding *d, const struct ms_claim *c)
{
	call("read-b");
	return put(d, c, 1);
}

static enum ms_status settle_a(struct ms_decoding *d, const struct ms_claim *c)
{
	call("settle-a");
	cr_expect_eq(c->state, &state);
	/* Only where they are sorted is one found. */
	cr_expect(ms_blocks_begins(d->blocks, SECOND + BYTES));
	ms_blocks_drop_group(d->blocks, groups[0]);
	return add_heap(d);
}

static enum ms_status settle_b(struct ms_decoding *d, const struct ms_claim *c)
{
	(void)c;
	call("settle-b");
	return add_heap(d);
}

static enum ms_status annotate(struct ms_decoding *d)
{
	(void)d;
	call("annotate");
	return MS_OK;
}

static const struct ms_decoder a = { "a", "a's malloc 1 to 3", claim_a, read_a, settle_a };
static const struct ms_decoder b = { "b", "b's, any", claim_b, read_b, settle_b };
static const struct ms_decoder *const decoders[] = { &a, &b, NULL };
static const struct ms_annotator toy = { "toy", annotate };
static const struct ms_annotator *const annotators[] = { &toy, NULL };

static enum ms_status decode(bool a_here, bool b_here)
{
	memset(&blocks, 0, sizeof(blocks));
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	memset(&heaps, 0, sizeof(heaps));
	calls[0] = others[0] = '\0';
	here[0] = a_here;
	here[1] = b_here;
	decoding = (struct ms_decoding){ .src = &fake.base,
		                         .regions = &regions,
		                         .arena = &fake.arena,
		                         .decoders = decoders,
		                         .blocks = &blocks,
		                         .heaps = &heaps,
		                         .evidence = &evidence,
		                         .warnings = &warnings };
	return ms_decode(&decoding, annotators, &err);
}

Test(decode, all_claim_before_any_reads_and_all_read_before_any_settles)
{
	ms_fake_init(&fake);
	cr_assert_eq(decode(true, true), MS_OK);
	cr_expect_str_eq(calls, "claim-a claim-b read-a read-b settle-a settle-b annotate ");
	cr_expect_str_eq(others, "0:200000 1:100000 ");
	cr_expect_not(decoding.unused, "one of both was called");
	ms_fake_deinit(&fake);
}

Test(decode, groups_of_two_decoders_are_not_mixed_up)
{
	ms_fake_init(&fake);
	cr_assert_eq(decode(true, true), MS_OK);
	cr_assert(!ms_blocks_seal(&blocks));
	cr_expect_eq(blocks.n, 1);
	cr_expect(ms_blocks_begins(&blocks, FIRST + BYTES), "the second's is still there");
	ms_fake_deinit(&fake);
}

Test(decode, a_decoder_that_claims_nothing_is_not_asked_again)
{
	ms_fake_init(&fake);
	cr_assert_eq(decode(false, true), MS_OK);
	cr_expect_str_eq(calls, "claim-a claim-b read-b settle-b annotate ");
	cr_expect(decoding.unused);
	cr_expect_str_empty(others);
	ms_fake_deinit(&fake);
}

Test(decode, where_nothing_is_claimed_all_that_is_read_is_listed)
{
	ms_fake_init(&fake);
	cr_assert_eq(decode(false, false), MS_E_UNSUPPORTED);
	cr_expect_str_eq(calls, "claim-a claim-b ");
	cr_expect_str_eq(err.advice, "memscan reads the heap of a's malloc 1 to 3; b's, any");
	ms_fake_deinit(&fake);
}

Test(decode, an_allocator_that_no_decoder_claims_is_named)
{
	ms_fake_init(&fake);
	(void)ms_fake_map(&fake, 0x300000, BYTES, MS_PROT_READ, "/usr/lib/libhoard.so");
	for (int used = 0; used < 2; used++) {
		cr_assert_eq(decode(used, !used), MS_OK);
		cr_expect_eq(decoding.unused, !used);
		cr_expect_str_eq(decoding.rival.name, used ? "" : "libhoard.so");
	}
	ms_fake_deinit(&fake);
}
