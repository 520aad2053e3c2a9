/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/names/types.h"

#include <string.h>

#include "base/map.h"
#include "engine/ahead.h"
#include "engine/names/demangle.h"

/*
 * An object of a C++ class with virtual functions begins with a pointer into its
 * class's virtual table (Itanium C++ ABI, 2.5.2 and 2.9):
 *
 *	block          vtable                     type_info        vtable of its class
 *	┌──────────┐   ┌──────────────────┐     ┌──────────────┐   ┌──────────────────┐
 *	│ vptr   ──┼─┐ │ offset to top: 0 │  ┌─▶│ vptr       ──┼─┐ │ 0                │
 *	│ …        │ │ │ type_info      ──┼──┘  │ name "3Foo"  │ │ │ type_info      ──┼─▶ name
 *	└──────────┘ └▶│ functions …      │     └──────────────┘ └▶│ functions …      │
 *	               └──────────────────┘                        └──────────────────┘
 *
 * The name at the right end is one of three: a type_info is itself an object of
 * __class_type_info or a class derived from it. A block that leads there by chance does
 * not exist in practice, so the type is certain as far as the first word is: a block
 * that was given out again and not written to yet shows what was there before.
 *
 * In C, a table of functions in constant memory shows which module made the block, not
 * what it is. A pointer to a single function shows neither: often it is libc's free().
 */

enum { MAX_MANGLED = 1024 };

struct ms_types {
	struct ms_source *src;
	const struct ms_regions *regions;
	struct ms_arena *arena;
	struct MS_VEC(struct ms_type) types;
	struct MS_VEC(uint32_t) reported; /* of each type: its number in the report, or 0 */
	struct ms_map known;              /* of first words: the type's number + 1 */
	struct ms_ahead ahead;            /* of blocks */
	const struct ms_blocks *blocks;   /* NULL: nothing is kept of any */
	uint32_t *numbers;                /* of each of them: its type; or NULL */
	bool whole;                       /* they have what first words say, too */
	const uint32_t *debugged;         /* the same by debug information */
	const ms_types_span *spans;       /* of each: where its text is; or NULL */
};

struct ms_types *ms_types_new(struct ms_source *src, const struct ms_regions *regions,
                              struct ms_arena *arena)
{
	struct ms_types *types = ms_arena_alloc(arena, sizeof(*types));

	if (!types)
		return NULL;
	types->src = src;
	types->regions = regions;
	types->arena = arena;
	types->ahead.src = src;
	return types;
}

/* ---- reading a module ---- */

/* The module's region that has the word at @addr, or NULL. */
static const struct ms_region *module_of(const struct ms_types *t, ms_addr addr)
{
	const struct ms_region *region = ms_region_of(t->regions, addr);

	if (!region || region->kind != MS_REGION_GLOBALS || addr % t->src->abi.word_bytes)
		return NULL;
	return region;
}

static uint8_t prot_of(const struct ms_types *t, const struct ms_region *region)
{
	return ms_region_mapping(t->src, region)->prot;
}

/* Read the name at @addr; false when none ends within @cap bytes there. */
static bool read_name(const struct ms_types *t, ms_addr addr, char *ret, size_t cap)
{
	const struct ms_region *region = ms_region_of(t->regions, addr);
	size_t len;

	if (!region || region->kind != MS_REGION_GLOBALS)
		return false;
	len = ms_source_read(t->src, addr, ret, cap);
	return memchr(ret, '\0', len) != NULL;
}

/* The type_info that stands before the virtual table at @vptr, and whose subobject it is. */
static bool read_type_info(const struct ms_types *t, ms_addr vptr, ms_addr *ret)
{
	const uint8_t word = t->src->abi.word_bytes;
	uint64_t before[2];

	if (!module_of(t, vptr) || vptr < (ms_addr)2 * word ||
	    ms_source_words(t->src, vptr - (ms_addr)2 * word, before, 2) != 2)
		return false;
	/* A block's first word is of the whole object: it is its own top. */
	if (before[0] != 0 || !module_of(t, before[1]))
		return false;
	*ret = before[1];
	return true;
}

/* A type_info's two words. */
struct type_info {
	uint64_t vptr;
	uint64_t name;
};

static bool read_info(const struct ms_types *t, ms_addr addr, struct type_info *ret)
{
	uint64_t words[2];

	if (ms_source_words(t->src, addr, words, 2) != 2)
		return false;
	*ret = (struct type_info){ words[0], words[1] };
	return true;
}

/* Whether the object whose virtual table is at @vptr is a type_info of a class. */
static bool is_class_info(const struct ms_types *t, ms_addr vptr)
{
	static const char *const classes[] = {
		"N10__cxxabiv117__class_type_infoE",
		"N10__cxxabiv120__si_class_type_infoE",
		"N10__cxxabiv121__vmi_class_type_infoE",
	};
	struct type_info info;
	char name[64];
	ms_addr addr;

	if (!read_type_info(t, vptr, &addr) || !read_info(t, addr, &info) ||
	    !read_name(t, info.name, name, sizeof(name)))
		return false;
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (!strcmp(name, classes[i]))
			return true;
	return false;
}

/* What compilers write into names; others' letters come as UTF-8. */
static bool is_mangled(const char *name)
{
	static const char letters[] = "0123456789_.$"
				      "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	if (!*name)
		return false;
	for (; *name; name++)
		if (!((unsigned char)*name & 0x80) && !strchr(letters, *name))
			return false;
	return true;
}

/* Zero-filled data has no name of its own. */
void ms_types_module(const struct ms_types *t, ms_addr addr, char ret[MS_TYPE_TEXT])
{
	const struct ms_region *of = ms_region_of(t->regions, addr);
	const struct ms_region *r;

	ret[0] = '\0';
	if (!of || of->kind != MS_REGION_GLOBALS)
		return;

	ms_vec_for_each (r, t->regions) {
		const struct ms_mapping *mapping = ms_region_mapping(t->src, r);

		if (r->kind != MS_REGION_GLOBALS || r->module != of->module || !mapping->file)
			continue;
		(void)strncpy(ret, mapping->name, MS_TYPE_TEXT - 1);
		ret[MS_TYPE_TEXT - 1] = '\0';
		return;
	}
}

/*
 * The module is the one that has the name. The table itself may be a copy: where a
 * program uses one of a library, its linker can put one into the program (R_X86_64_COPY).
 */
static bool read_class(const struct ms_types *t, ms_addr vptr, struct ms_type *ret)
{
	struct type_info info;
	char mangled[MAX_MANGLED];
	const char *name = mangled;
	size_t len;
	ms_addr addr;

	if (!read_type_info(t, vptr, &addr) || !read_info(t, addr, &info) ||
	    !is_class_info(t, info.vptr) || !read_name(t, info.name, mangled, sizeof(mangled)))
		return false;
	/* A star: compare this type by its name's address, as others have the same. */
	name += *name == '*';
	if (!is_mangled(name))
		return false;
	ms_types_module(t, info.name, ret->module);
	if (ms_demangle_type(name, ret->name, sizeof(ret->name)))
		return true;
	len = strnlen(name, sizeof(ret->name) - 1);
	memcpy(ret->name, name, len);
	return true;
}

/* Whether two functions of its own module are what the word at @addr begins with. */
static bool is_function_table(const struct ms_types *t, ms_addr addr)
{
	const struct ms_region *table = module_of(t, addr);
	uint64_t functions[2];

	if (!table || (prot_of(t, table) & (MS_PROT_WRITE | MS_PROT_EXEC)) ||
	    ms_source_words(t->src, addr, functions, 2) != 2)
		return false;
	for (size_t i = 0; i < 2; i++) {
		const struct ms_region *code = ms_region_of(t->regions, functions[i]);

		if (!code || code->kind != MS_REGION_GLOBALS || code->module != table->module ||
		    !(prot_of(t, code) & MS_PROT_EXEC))
			return false;
	}
	return true;
}

static bool tell(const struct ms_types *t, uint64_t word, struct ms_type *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (read_class(t, word, ret)) {
		ret->how = MS_HOW_VTABLE;
		return true;
	}
	if (!is_function_table(t, word))
		return false;
	ret->how = MS_HOW_FUNCTIONS;
	ms_types_module(t, word, ret->module);
	return true;
}

/* ---- what is known already ---- */

uint32_t ms_types_add(struct ms_types *t, const struct ms_type *type)
{
	struct ms_type *slot;

	if (t->types.n >= MS_TYPES_MOST || !ms_vec_reserve(t->arena, &t->reported, t->types.n + 1))
		return MS_TYPE_UNKNOWN;
	slot = ms_vec_push(t->arena, &t->types);
	if (!slot)
		return MS_TYPE_UNKNOWN;
	t->reported.n = t->types.n;
	*slot = *type;
	return (uint32_t)t->types.n;
}

uint32_t ms_types_of_word(struct ms_types *types, uint64_t value)
{
	ms_addr word = ms_abi_address(&types->src->abi, value);
	struct ms_type type;
	uint32_t number;

	if (!word)
		return MS_TYPE_UNKNOWN;
	number = (uint32_t)ms_map_find(&types->known, word);
	if (number)
		return number - 1;
	if (!module_of(types, word))
		return MS_TYPE_UNKNOWN;
	number = MS_TYPE_UNKNOWN;
	if (types->types.n < MS_TYPES_MOST && tell(types, word, &type))
		number = ms_types_add(types, &type);
	return ms_map_add(&types->known, types->arena, word, number + 1) ? number : MS_TYPE_UNKNOWN;
}

static uint32_t type_of_first_word(struct ms_types *t, ms_addr addr, uint64_t size)
{
	const struct ms_abi *abi = &t->src->abi;
	const unsigned char *first;

	if (size < abi->word_bytes)
		return MS_TYPE_UNKNOWN;
	first = ms_ahead_at(&t->ahead, addr, abi->word_bytes);
	return first ? ms_types_of_word(t, ms_abi_word(abi, first)) : MS_TYPE_UNKNOWN;
}

/* The number of the block that begins at @addr; false when none does. */
static bool find_block(const struct ms_types *t, ms_addr addr, uint32_t *ret)
{
	const struct ms_extent *extent = ms_range_find(&t->blocks->extents, addr);
	struct ms_block block;

	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return false;
	block = (struct ms_block){ (uint32_t)(extent - t->blocks->extents.at),
		                   ms_granule_of(extent, addr) };
	if (ms_block_begin(extent, block.granule) != addr ||
	    !(ms_blocks_cell(t->blocks, extent, block.granule)->starts &
	      ms_granule_bit(block.granule)))
		return false;
	*ret = ms_block_number(t->blocks, block);
	return true;
}

void ms_types_keep(struct ms_types *types, const struct ms_blocks *blocks, uint32_t *numbers,
                   bool whole)
{
	types->blocks = blocks;
	types->whole = whole;
	types->numbers = numbers;
}

bool ms_types_are_kept(const struct ms_types *types)
{
	return types->numbers && types->whole;
}

/* Whether it names what the block says of itself. */
static bool is_own(const struct ms_types *t, uint32_t number)
{
	const struct ms_type *type = number ? ms_types_at(t, number) : NULL;

	return type && type->name[0] && ms_type_is_own(type);
}

/* Of what is kept of a block and what debug information says, the better. */
static uint32_t better(const struct ms_types *t, uint32_t kept, uint32_t debugged)
{
	return debugged && !is_own(t, kept) ? debugged : kept;
}

void ms_types_keep_debug(struct ms_types *types, const struct ms_blocks *blocks,
                         const uint32_t *numbers)
{
	uint32_t n = ms_types_are_kept(types) ? ms_blocks_numbers(blocks) : 0;

	types->blocks = blocks;
	if (!ms_types_are_kept(types))
		types->debugged = numbers;
	for (uint32_t i = 0; i < n; i++)
		types->numbers[i] = better(types, types->numbers[i], numbers[i]);
}

uint32_t ms_types_of_block(struct ms_types *types, ms_addr addr, uint64_t size)
{
	uint32_t number;

	if (types->blocks && find_block(types, addr, &number))
		return ms_types_of_numbered(types, number, addr, size);
	return type_of_first_word(types, addr, size);
}

uint32_t ms_types_of_numbered(struct ms_types *types, uint32_t number, ms_addr addr, uint64_t size)
{
	uint32_t kept = types->numbers ? types->numbers[number] : MS_TYPE_UNKNOWN;
	uint32_t debugged = types->debugged ? types->debugged[number] : MS_TYPE_UNKNOWN;
	uint32_t first;

	if (ms_types_are_kept(types) || is_own(types, kept) || (kept && !debugged))
		return kept;
	first = type_of_first_word(types, addr, size);
	return better(types, kept && !is_own(types, first) ? kept : first, debugged);
}

const struct ms_type *ms_types_at(const struct ms_types *types, uint32_t number)
{
	return &types->types.at[number - 1];
}

void ms_types_keep_texts(struct ms_types *types, const ms_types_span *spans)
{
	types->spans = spans;
}

bool ms_types_text(const struct ms_types *types, uint32_t number, ms_addr addr, uint64_t size,
                   struct ms_range *ret)
{
	ms_types_span span = 0;
	uint32_t block;

	if (number == MS_TYPE_UNKNOWN)
		return false;
	if (types->spans && types->blocks && find_block(types, addr, &block))
		span = types->spans[block];
	*ret = (struct ms_range){ addr, addr + size };
	if (!span)
		return ms_types_at(types, number)->how == MS_HOW_TEXT;
	ret->begin = addr + (span >> 8);
	ret->end = ret->begin + (span & MS_TEXT_MOST);
	return true;
}

/* A string may have any bytes. */
static bool has_controls(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return true;
	return false;
}

size_t ms_types_read_text(struct ms_source *src, struct ms_range text, char ret[MS_PREVIEW_TEXT])
{
	size_t len = ms_range_len(text) < MS_PREVIEW_TEXT ? (size_t)ms_range_len(text)
	                                                  : (size_t)MS_PREVIEW_TEXT - 1;

	len = ms_source_read(src, text.begin, ret, len);
	memset(ret + len, 0, MS_PREVIEW_TEXT - len);
	return len;
}

void ms_types_preview(const struct ms_types *types, uint32_t number, ms_addr addr,
                      char ret[MS_PREVIEW_TEXT])
{
	struct ms_range text;
	size_t len;

	memset(ret, 0, MS_PREVIEW_TEXT);
	if (!ms_types_text(types, number, addr, MS_PREVIEW_TEXT - 1, &text))
		return;
	len = ms_types_read_text(types->src, text, ret);
	if (ms_types_at(types, number)->how != MS_HOW_TEXT && has_controls(ret, len))
		memset(ret, 0, len);
}

uint32_t ms_types_report(struct ms_types *types, uint32_t number, struct ms_report *report)
{
	struct ms_type *slot;

	if (number == MS_TYPE_UNKNOWN)
		return MS_TYPE_UNKNOWN;
	if (types->reported.at[number - 1])
		return types->reported.at[number - 1];
	slot = ms_vec_push(types->arena, &report->types);
	if (!slot)
		return MS_TYPE_UNKNOWN;
	*slot = *ms_types_at(types, number);
	types->reported.at[number - 1] = (uint32_t)report->types.n;
	return (uint32_t)report->types.n;
}
