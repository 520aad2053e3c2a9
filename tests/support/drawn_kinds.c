/* SPDX-License-Identifier: Apache-2.0 */
#include "drawn_kinds.h"

#include <assert.h>
#include <string.h>

void drawn_kinds_init(struct drawn_kinds *d, const char *library)
{
	memset(d, 0, sizeof(*d));
	ms_fake_init(&d->fake);
	ms_fake_map(&d->fake, DK_HEAP, DK_HEAP_BYTES, MS_PROT_READ | MS_PROT_WRITE, "");
	classes_map(&d->fake, DK_LIBRARY, library);
	d->next = DK_HEAP + 16;
}

void drawn_kinds_deinit(struct drawn_kinds *d)
{
	ms_arena_deinit(&d->found);
	ms_fake_deinit(&d->fake);
}

ms_addr drawn_kinds_block(struct drawn_kinds *d, uint64_t len)
{
	uint64_t usable = len <= 24 ? 24 : ms_align_up(len - 8, 16) + 8;
	ms_addr at = d->next;

	assert(d->n < DK_BLOCKS && at + usable + 16 < DK_HEAP + DK_HEAP_BYTES);
	d->at[d->n] = at;
	d->len[d->n++] = usable;
	d->next = ms_align_up(at + usable + 8, 16);
	return at;
}

void drawn_kinds_put(struct drawn_kinds *d, ms_addr at, const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ms_fake_put(&d->fake, at + i * 8, words[i]);
}

void drawn_kinds_find(struct drawn_kinds *d)
{
	struct ms_kinds_search search;
	struct ms_error err;
	uint32_t extent;

	ms_arena_deinit(&d->found);
	memset(&d->regions, 0, sizeof(d->regions));
	assert(!ms_classify(&d->fake.base, &d->found, &d->regions, &err));
	d->roots.src = &d->fake.base;
	d->roots.regions = &d->regions;
	memset(&d->roots.ranges, 0, sizeof(d->roots.ranges));
	assert(ms_ranges_add(&d->found, &d->roots.ranges, DK_DATA, DK_DATA + CLASSES_PAGE));
	d->types = ms_types_new(&d->fake.base, &d->regions, &d->found);
	memset(&d->blocks, 0, sizeof(d->blocks));
	ms_blocks_init(&d->blocks, &d->fake.base, &d->found);
	assert(!ms_blocks_open(&d->blocks, (struct ms_range){ DK_HEAP, DK_HEAP + DK_HEAP_BYTES }, 4,
	                       &extent));
	for (size_t i = 0; i < d->n; i++)
		assert(!ms_blocks_put(&d->blocks, extent, d->at[i], d->len[i]));
	assert(!ms_blocks_sort(&d->blocks) && !ms_blocks_seal(&d->blocks));
	search = (struct ms_kinds_search){ .types = d->types,
		                           .blocks = &d->blocks,
		                           .roots = &d->roots,
		                           .workers = d->workers,
		                           .tails = d->strict ? &d->tails : NULL };
	d->tails = (struct ms_tails){ .arena = &d->found };
	assert(!ms_kinds_find(&search, !d->live_only));
}

const struct ms_type *drawn_kinds_type(struct drawn_kinds *d, ms_addr at)
{
	static const struct ms_type none = { .how = MS_HOWS };
	uint32_t number = ms_types_of_block(d->types, at, 16);

	return number ? ms_types_at(d->types, number) : &none;
}

const char *drawn_kinds_name(struct drawn_kinds *d, ms_addr at)
{
	return drawn_kinds_type(d, at)->name;
}

size_t drawn_kinds_idle_word(struct drawn_kinds *d, ms_addr at, size_t n, ms_addr block)
{
	char name[MS_TYPE_TEXT];

	drawn_kinds_find(d);
	strcpy(name, drawn_kinds_name(d, block));
	for (size_t i = 0; i < n; i++) {
		uint64_t *word = ms_fake_at(&d->fake, at + i * 8);
		uint64_t old = *word;
		bool same;

		*word = old + UINT64_C(0x0001000100000100);
		drawn_kinds_find(d);
		same = !strcmp(drawn_kinds_name(d, block), name);
		*word = old;
		drawn_kinds_find(d);
		if (same)
			return i;
	}
	return n;
}
