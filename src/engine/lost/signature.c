/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lost/signature.h"

#include <endian.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "engine/ahead.h"

enum { WORDS = 64, PLACED = 8 };

/* What a word points to, if not into a module's constants or code; those are names. */
enum { NOTHING = 0, MEMORY = 1 };

struct ms_signer {
	struct ms_ahead ahead;
	const struct ms_abi *abi;
	const struct ms_regions *regions;
	const struct ms_origins *origins; /* NULL: none were kept */
	struct ms_types *types;
	uint64_t *modules; /* of each module, by its number: its name */
	uint64_t *stacks;  /* of each stack: the names of its modules; 0: not looked at */
	const struct ms_region *recent;
};

/* ---- numbers for names ---- */

static uint64_t mix_number(uint64_t hash, uint64_t n)
{
	uint64_t little = htole64(n); /* the same on every host */

	return ms_hash(hash, &little, sizeof(little));
}

static uint64_t mix_text(uint64_t hash, const char *text, size_t len)
{
	return ms_hash(ms_hash(hash, text, len), "", 1);
}

/* The file's name without its folders; one that was replaced by another build is the same. */
static uint64_t mix_file(uint64_t hash, const char *path)
{
	static const char deleted[] = " (deleted)";
	const char *name = ms_file_name(path);
	size_t len = strlen(name);

	if (len > sizeof(deleted) - 1 && !strcmp(name + len - (sizeof(deleted) - 1), deleted))
		len -= sizeof(deleted) - 1;
	return mix_text(hash, name, len);
}

/* ---- modules ---- */

static bool name_modules(struct ms_signer *s, struct ms_arena *arena)
{
	const struct ms_region *r;
	uint32_t most = 0;

	ms_vec_for_each (r, s->regions)
		most = r->module > most ? r->module : most;
	s->modules = ms_arena_alloc(arena, ((size_t)most + 1) * sizeof(*s->modules));
	if (!s->modules)
		return false;
	ms_vec_for_each (r, s->regions) {
		const struct ms_mapping *mapping = ms_region_mapping(s->ahead.src, r);

		if (r->kind == MS_REGION_GLOBALS && mapping->file && !s->modules[r->module])
			s->modules[r->module] = mix_file(MS_HASH_BASIS, mapping->name);
	}
	return true;
}

/* The region that has @addr, or NULL. Neighbouring words often point into the same one. */
static const struct ms_region *region_of(struct ms_signer *s, ms_addr addr)
{
	const struct ms_regions *all = s->regions;

	if (!all->n || addr < all->at[0].range.begin || addr >= all->at[all->n - 1].range.end)
		return NULL;
	if (!s->recent || !ms_range_has(s->recent->range, addr))
		s->recent = ms_region_of(all, addr);
	return s->recent;
}

static uint64_t pointed_to(struct ms_signer *s, uint64_t word)
{
	const struct ms_region *region = region_of(s, ms_abi_address(s->abi, word));
	uint8_t prot;

	if (!region || region->kind == MS_REGION_SKIP)
		return NOTHING;
	prot = ms_region_mapping(s->ahead.src, region)->prot;
	if (region->kind != MS_REGION_GLOBALS || (prot & MS_PROT_WRITE))
		return MEMORY;
	return ms_hash(s->modules[region->module], &(uint8_t){ prot & MS_PROT_EXEC }, 1);
}

/* ---- what is known of a block ---- */

static bool mix_type(struct ms_signer *s, struct ms_entry *entry, uint64_t *hash)
{
	uint32_t number = ms_types_of_block(s->types, entry->address, entry->size);
	const struct ms_type *type;
	struct ms_range text;

	if (number == MS_TYPE_UNKNOWN)
		return false;
	type = ms_types_at(s->types, number);
	if (ms_types_text(s->types, number, entry->address, entry->size, &text)) {
		uint64_t len = ms_range_len(text);

		entry->text_at = (uint8_t)(text.begin - entry->address);
		entry->text_len = (uint8_t)(len < MS_TEXT_MOST ? len : MS_TEXT_MOST);
	}
	if (!type->name[0] || !ms_type_is_own(type))
		return false;
	*hash = mix_file(mix_text(*hash, type->name, strlen(type->name)), type->module);
	return true;
}

/* Names that were seen, each once. */
struct names {
	size_t n;
	uint64_t at[WORDS];
};

static void add_name(struct names *names, uint64_t name)
{
	for (size_t i = 0; i < names->n; i++)
		if (names->at[i] == name)
			return;
	names->at[names->n++] = name;
}

static uint64_t mix_shape(struct ms_signer *s, struct ms_entry *entry, uint64_t hash)
{
	const uint8_t bytes = s->abi->word_bytes;
	uint64_t n = entry->size / bytes < WORDS ? entry->size / bytes : WORDS;
	const unsigned char *words = ms_ahead_at(&s->ahead, entry->address, (size_t)n * bytes);
	struct names names = { 0 };
	uint64_t all = 0;

	for (uint64_t i = 0; words && i < n; i++) {
		uint64_t to = pointed_to(s, ms_abi_word(s->abi, words + i * bytes));

		if (i < PLACED)
			hash = mix_number(hash, to);
		if (to > MEMORY)
			add_name(&names, to);
	}
	entry->plain = words && !names.n && entry->stack == MS_STACK_NONE;
	/* In no order. */
	for (size_t i = 0; i < names.n; i++)
		all += mix_number(MS_HASH_BASIS, names.at[i]);
	return mix_number(mix_number(hash, all), entry->size);
}

/* The modules of that stack's calls. */
static uint64_t modules_of(struct ms_signer *s, uint32_t index)
{
	const struct ms_stack *stack = &s->origins->stacks.at[index];
	uint64_t before = NOTHING;
	uint64_t hash = MS_HASH_BASIS;

	for (uint32_t i = 0; i < stack->n; i++) {
		ms_addr pc = s->origins->pcs.at[stack->first + i];
		const struct ms_region *region = region_of(s, pc);
		const struct ms_code *unloaded = ms_range_find(&s->origins->unloaded, pc);
		uint64_t name = MEMORY;

		if (unloaded)
			name = mix_file(MS_HASH_BASIS, unloaded->name);
		else if (region && region->kind == MS_REGION_GLOBALS)
			name = s->modules[region->module];
		if (name != before)
			hash = mix_number(hash, name);
		before = name;
	}
	return hash;
}

uint64_t ms_signature(struct ms_signer *s, struct ms_entry *entry)
{
	uint64_t hash = MS_HASH_BASIS;

	if (entry->stack != MS_STACK_NONE) {
		if (!s->stacks[entry->stack])
			s->stacks[entry->stack] = modules_of(s, entry->stack);
		hash = s->stacks[entry->stack];
	}
	if (!mix_type(s, entry, &hash))
		hash = mix_shape(s, entry, hash);
	return hash ? hash : 1;
}

const unsigned char *ms_signer_bytes(struct ms_signer *s, ms_addr addr, size_t len)
{
	return ms_ahead_at(&s->ahead, addr, len);
}

struct ms_signer *ms_signer_new(const struct ms_leak_list *list, const struct ms_regions *regions)
{
	const struct ms_origins *origins = list->finder.origins;
	size_t n_stacks = origins ? origins->stacks.n : 0;
	struct ms_signer *s = ms_arena_alloc(list->arena, sizeof(*s));

	if (!s)
		return NULL;
	s->ahead.src = list->blocks->src;
	s->abi = &list->blocks->src->abi;
	s->regions = regions;
	s->origins = origins;
	s->types = list->types;
	s->stacks = ms_arena_alloc(list->arena, (n_stacks + 1) * sizeof(*s->stacks));
	return s->stacks && name_modules(s, list->arena) ? s : NULL;
}
