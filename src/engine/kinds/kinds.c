/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

/* What kinds look at blocks with, and how they claim them. The search itself is in search.c. */

/* ---- looking ---- */

bool ms_kinds_begin(struct ms_lookup *lookup, ms_addr addr, struct ms_kind_block *ret)
{
	const struct ms_blocks *blocks = lookup->blocks;
	const struct ms_extent *extent;
	struct ms_block block;

	if (!ms_lookup_begin(lookup, addr, &block))
		return false;
	extent = &blocks->extents.at[block.extent];
	*ret = (struct ms_kind_block){ .begin = addr,
		                       .usable = ms_block_usable(blocks, extent, block.granule),
		                       .number = ms_block_number(blocks, block) };
	return true;
}

bool ms_kinds_at(struct ms_kinds *k, ms_addr addr, struct ms_kind_block *ret)
{
	return ms_kinds_begin(&k->lookup, addr, ret);
}

bool ms_kinds_within(struct ms_kinds *k, ms_addr addr, struct ms_kind_block *ret)
{
	const struct ms_extent *extent;
	uint64_t granule;

	if (addr - k->lookup.low >= k->lookup.span)
		return false;
	extent = ms_lookup_extent(&k->lookup, addr);
	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return false;
	granule = ms_block_start(k->blocks, extent, ms_granule_of(extent, addr));
	return granule != UINT64_MAX && ms_kinds_at(k, ms_block_begin(extent, granule), ret) &&
	       addr - ret->begin < ret->usable;
}

bool ms_kinds_words(struct ms_kinds *k, ms_addr addr, uint64_t *ret, size_t n)
{
	if (ms_peek_read(&k->peek, addr, ret, n * k->word) != n * k->word)
		return false;
	if (k->word != MS_KIND_WORD)
		ms_abi_spread(&k->src->abi, ret, n);
	return true;
}

bool ms_kinds_text(struct ms_kinds *k, ms_addr addr, char *ret, size_t cap)
{
	size_t got = ms_peek_read(&k->peek, addr, ret, cap);
	size_t len = strnlen(ret, got);

	return len && len < got && ms_kind_printable((const uint8_t *)ret, len) == len;
}

bool ms_kinds_module(const struct ms_kinds *k, ms_addr addr, uint8_t *ret_prot)
{
	const struct ms_region *region = ms_region_of(k->regions, addr);

	if (!region || region->kind != MS_REGION_GLOBALS)
		return false;
	*ret_prot = ms_region_mapping(k->src, region)->prot;
	return true;
}

bool ms_kinds_is_code(const struct ms_kinds *k, ms_addr addr)
{
	uint8_t prot;

	return ms_kinds_module(k, addr, &prot) && (prot & MS_PROT_EXEC);
}

bool ms_kinds_is_constant(const struct ms_kinds *k, ms_addr addr)
{
	uint8_t prot;

	return ms_kinds_module(k, addr, &prot) && !(prot & (MS_PROT_EXEC | MS_PROT_WRITE));
}

bool ms_kinds_is_data(const struct ms_kinds *k, ms_addr addr)
{
	uint8_t prot;

	return ms_kinds_module(k, addr, &prot) && (prot & MS_PROT_WRITE);
}

/* Bytes of the character at @bytes, of which @n are there; 0: it is none, or not printable. */
static size_t character(const uint8_t *bytes, size_t n)
{
	uint8_t first = bytes[0];
	size_t len = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;

	if (first < 0x80)
		return (first >= 0x20 && first < 0x7f) || (first >= '\t' && first <= '\r');
	if (first < 0xc2 || first > 0xf4 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
	/* U+0080 to U+009f are controls. */
	return first == 0xc2 && bytes[1] < 0xa0 ? 0 : len;
}

size_t ms_kind_printable(const uint8_t *bytes, size_t n)
{
	size_t i = 0;

	while (i < n) {
		size_t len = character(bytes + i, n - i);

		if (!len)
			break;
		i += len;
	}
	return i;
}

/* ---- claiming ---- */

/* Of two claims the stronger one counts, of equal ones the first. */
static int strength(const struct ms_type *type)
{
	switch ((enum ms_how)type->how) {
	case MS_HOW_VTABLE:
	case MS_HOW_OBJECT:
		return 5;
	case MS_HOW_CONTAINER:
	case MS_HOW_DEBUG:
		return type->sure == MS_SURE_CERTAIN ? 4 : 2;
	case MS_HOW_FUNCTIONS:
		return 3;
	case MS_HOW_TEXT:
		return 1;
	case MS_HOWS:
		break;
	}
	return 0;
}

static int strength_of(const struct ms_kinds *k, uint32_t number)
{
	return number == MS_TYPE_UNKNOWN ? 0 : strength(ms_types_at(k->types, number));
}

bool ms_kinds_is_claimed(const struct ms_kinds *k, const struct ms_kind_block *block)
{
	return strength_of(k, k->numbers[block->number]) > 4;
}

bool ms_kinds_claim_as(struct ms_kinds *k, const struct ms_kind_block *block, uint32_t number)
{
	uint32_t *slot = &k->numbers[block->number];

	if (strength_of(k, number) <= strength_of(k, *slot))
		return false;
	*slot = number;
	if (k->texts)
		k->texts[block->number] = 0;
	return true;
}

static uint32_t add_type(struct ms_kinds *k, const struct ms_kind_type *type,
                         const struct ms_kind_spot *spot)
{
	struct ms_type added = { .how = type->how, .sure = type->sure };
	const struct ms_type *owner;

	if (!spot) {
		(void)snprintf(added.name, sizeof(added.name), "%s", type->name);
		return ms_types_add(k->types, &added);
	}
	owner = ms_types_at(k->types, spot->owner);
	(void)snprintf(added.name, sizeof(added.name), "%s in %.200s+0x%" PRIx64, type->name,
	               owner->name, spot->owner_offset);
	memcpy(added.module, owner->module, sizeof(added.module));
	return ms_types_add(k->types, &added);
}

static struct ms_kind_name *name_of(struct ms_kinds *k, const struct ms_kind_type *type)
{
	for (size_t i = 0; i < k->n_names; i++)
		if (k->names[i].type == type)
			return &k->names[i];
	if (k->n_names == MS_KIND_NAMES)
		return NULL;
	k->names[k->n_names] = (struct ms_kind_name){ .type = type };
	k->names[k->n_names].number = add_type(k, type, NULL);
	return &k->names[k->n_names++];
}

enum { OFFSET_BITS = 32, OWNER_BITS = 24 };

/* The type's number with its owner in the name. */
static uint32_t owned_type(struct ms_kinds *k, const struct ms_kind_name *name,
                           const struct ms_kind_spot *spot)
{
	uint64_t key = (uint64_t)(name - k->names + 1) << (OFFSET_BITS + OWNER_BITS) |
	               (uint64_t)spot->owner << OFFSET_BITS | spot->owner_offset;
	uint32_t number = (uint32_t)ms_map_find(&k->owned, key);

	if (number)
		return number;
	number = add_type(k, name->type, spot);
	if (number == MS_TYPE_UNKNOWN || !ms_map_add(&k->owned, k->arena, key, number))
		return name->number;
	return number;
}

static bool has_owner(const struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	return spot && spot->owner != MS_TYPE_UNKNOWN && spot->owner_offset >> OFFSET_BITS == 0 &&
	       ms_types_at(k->types, spot->owner)->name[0];
}

bool ms_kinds_claim(struct ms_kinds *k, const struct ms_kind_block *block,
                    const struct ms_kind_type *type, const struct ms_kind_spot *spot)
{
	struct ms_kind_name *name = name_of(k, type);
	uint32_t *slot = &k->numbers[block->number];
	bool said;

	if (!name || name->number == MS_TYPE_UNKNOWN)
		return false;
	said = ms_kinds_claim_as(k, block, name->number);
	/* An owner makes the name better, not the evidence. */
	if (*slot == name->number && has_owner(k, spot))
		*slot = owned_type(k, name, spot);
	return said;
}

void ms_kinds_claim_text(struct ms_kinds *k, const struct ms_kind_block *block,
                         const struct ms_kind_type *type, const struct ms_kind_spot *spot,
                         struct ms_kind_text text)
{
	if (!ms_kinds_claim(k, block, type, spot) || !text.len)
		return;
	if (!k->texts)
		k->texts = ms_arena_alloc(k->arena, ((size_t)ms_blocks_numbers(k->blocks) + 1) *
		                                            sizeof(*k->texts));
	if (k->texts)
		k->texts[block->number] = ms_types_span_of(text.offset, text.len);
}

void ms_kinds_claim_at(struct ms_kinds *k, ms_addr addr, const struct ms_kind_type *type,
                       const struct ms_kind_spot *spot)
{
	struct ms_kind_block block;

	if (ms_kinds_at(k, addr, &block))
		ms_kinds_claim(k, &block, type, spot);
}

void ms_kinds_tail(struct ms_kinds *k, const struct ms_kind_block *block,
                   const struct ms_tail_claim *claim)
{
	struct ms_tail_claim whole = *claim;

	if (!k->tails)
		return;
	whole.begin = block->begin;
	whole.usable = block->usable;
	whole.number = block->number;
	ms_tails_claim(k->tails, &whole);
}
