/* SPDX-License-Identifier: Apache-2.0 */
#include "drawn_scan.h"

#include <criterion/criterion.h>
#include <string.h>

#include "module.h"

struct ms_fake fake;
struct ms_report report;
unsigned int n_blocks;
uint64_t usable;
bool unproved;
struct ms_rival rival;
const char *allocators;
uint64_t sampled;
bool sampled_whole;

static bool put_blocks(struct ms_decoding *d, unsigned int from, unsigned int to,
                       struct ms_range range)
{
	uint32_t extent;

	if (ms_blocks_open(d->blocks, range, 4, &extent))
		return false;
	for (unsigned int i = from; i < to; i++)
		if (ms_blocks_put(d->blocks, extent, block(i), usable))
			return false;
	return true;
}

static bool put_unproved(struct ms_decoding *d)
{
	ms_note_add(d->arena, d->warnings, "drawn");
	return ms_ranges_add(d->arena, &d->unproved, HEAP, HEAP + PAGE / 4) &&
	       ms_ranges_add(d->arena, &d->unproved, HEAP + PAGE / 4, HEAP + PAGE / 2);
}

/* A stack by its letter: two frames in the module, at that letter's place and behind it. */
static bool put_origins(struct ms_decoding *d)
{
	d->origins->sampling = (struct ms_sampling){ .on = sampled > 0,
		                                     .interval = sampled,
		                                     .whole = sampled_whole };
	for (unsigned int i = 0; allocators && i < n_blocks; i++) {
		struct ms_origin *origin =
			allocators[i] == '.' ? NULL : ms_vec_push(d->arena, &d->origins->blocks);

		if (origin)
			*origin = (struct ms_origin){ .begin = block(i),
				                      .stack = (uint32_t)(allocators[i] - 'a'),
				                      .asked = sampled ? (uint32_t)usable : 0 };
	}
	for (uint32_t i = 0; allocators && i < 26; i++) {
		struct ms_stack *stack = ms_vec_push(d->arena, &d->origins->stacks);

		if (!stack || !ms_vec_reserve(d->arena, &d->origins->pcs, 52))
			return false;
		*stack = (struct ms_stack){ 2 * i, 2, 0 };
		d->origins->pcs.at[d->origins->pcs.n++] = MODULE + 16 * i;
		d->origins->pcs.at[d->origins->pcs.n++] = DATA + 16 * i;
	}
	return true;
}

static enum ms_status drawn_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	(void)d;
	ret->state = &fake;
	return MS_OK;
}

static enum ms_status drawn_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	unsigned int lower = n_blocks < IN_LOWER ? n_blocks : IN_LOWER;
	bool ok = true;

	(void)claim;
	if (!unproved)
		ok = put_blocks(d, lower, n_blocks,
		                (struct ms_range){ block(IN_LOWER), HEAP + PAGE }) &&
		     put_blocks(d, 0, lower, (struct ms_range){ HEAP, block(IN_LOWER) });
	return ok ? MS_OK : MS_E_NOMEM;
}

static enum ms_status drawn_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_heap *heap = ms_vec_push(d->arena, d->heaps);
	bool ok = ms_ranges_add(d->arena, &d->owned, HEAP, HEAP + PAGE);

	(void)claim;
	ms_note_add(d->arena, d->evidence, "drawn");
	d->rival = rival;
	strcpy(heap->allocator, "drawn");
	heap->verified = !unproved;
	if (unproved)
		ok &= put_unproved(d);
	ok &= put_origins(d);
	return ok ? MS_OK : MS_E_NOMEM;
}

static const struct ms_decoder drawn = { "drawn", "drawings", drawn_claim, drawn_read,
	                                 drawn_settle };
const struct ms_decoder *const drawn_decoders[] = { &drawn, NULL };

void draw(unsigned int n)
{
	Elf64_Phdr *phdr;

	ms_fake_init(&fake);
	memset(&report, 0, sizeof(report));
	n_blocks = n;
	usable = USABLE;
	unproved = false;
	rival = (struct ms_rival){ 0 };
	allocators = NULL;
	sampled = 0;
	sampled_whole = false;
	ms_fake_map(&fake, STACK, PAGE, RW, "[stack]");
	phdr = elf_write(ms_fake_map(&fake, MODULE, PAGE, MS_PROT_READ, "/bin/p"), 2);
	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(PAGE, PAGE, PF_R | PF_W);
	ms_fake_map(&fake, DATA, PAGE, RW, "/bin/p");
	ms_fake_map(&fake, HEAP - PAGE, 3 * PAGE, RW, "[heap]");
	ms_fake_map(&fake, NODE, PAGE, RW, "");
	ms_fake_thread(&fake, 1, STACK + PAGE / 2, 0);
}

static void expect_the_same(const struct ms_report *other)
{
	cr_expect_arr_eq(&other->totals, &report.totals, sizeof(report.totals));
	cr_expect_eq(other->leaks.n, report.leaks.n);
	for (size_t i = 0; i < other->leaks.n && i < report.leaks.n; i++)
		cr_expect_arr_eq(&other->leaks.at[i], &report.leaks.at[i], sizeof(struct ms_leak));
	cr_expect_eq(other->types.n, report.types.n);
	for (size_t i = 0; i < other->types.n && i < report.types.n; i++)
		cr_expect_arr_eq(&other->types.at[i], &report.types.at[i], sizeof(struct ms_type));
	cr_expect_eq(other->stacks.n, report.stacks.n);
	cr_expect_eq(other->pcs.n, report.pcs.n);
	cr_expect_eq(other->code.n, report.code.n);
	cr_expect_eq(other->live.n, report.live.n);
	for (size_t i = 0; i < other->live.n && i < report.live.n; i++)
		cr_expect_arr_eq(&other->live.at[i], &report.live.at[i], sizeof(struct ms_live));
	cr_expect_eq(other->mappings.n, report.mappings.n);
	for (size_t i = 0; i < other->mappings.n && i < report.mappings.n; i++)
		cr_expect_arr_eq(&other->mappings.at[i], &report.mappings.at[i],
		                 sizeof(struct ms_lost_mapping));
}

void scan(struct ms_scan_options options)
{
	struct ms_error err;

	options.decoders = drawn_decoders;
	if (!options.limit)
		options.limit = UINT64_MAX;
	cr_assert_eq(ms_scan(&fake.base, &options, &fake.arena, &report, &err), MS_OK, "%s",
	             err.text);
	fake.no_view = true;
	for (unsigned n = 1; n <= 3; n += 2) {
		struct ms_report other = { 0 };

		cr_assert_eq(ms_workers_start(n, &options.workers, &err), MS_OK);
		cr_assert_eq(ms_scan(&fake.base, &options, &fake.arena, &other, &err), MS_OK);
		ms_workers_stop(options.workers);
		expect_the_same(&other);
	}
}
