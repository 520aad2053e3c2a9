/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/types/types.h"

#include <dwarf.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "sym/types/reader.h"

/* In the place of an index + 1. */
static const uint64_t UNUSABLE = UINT64_MAX;

struct ms_type_reader *ms_type_reader_new(struct ms_arena *arena, uint64_t deadline_ns)
{
	struct ms_type_reader *r = ms_arena_alloc(arena, sizeof(*r));

	if (!r)
		return NULL;
	r->arena = arena;
	r->deadline_ns = deadline_ns;
	return r;
}

struct ms_book *ms_type_reader_book(struct ms_type_reader *reader)
{
	return &reader->book;
}

bool ms_type_reader_goes_on(struct ms_type_reader *r)
{
	if (!r->full)
		r->full = ms_now_ns() >= r->deadline_ns || r->own.refused || r->arena->refused;
	return !r->full;
}

/* ---- a type of the book ---- */

/* Copy @name into the text; where it begins is in @ret. */
static bool add_name(struct ms_type_reader *r, const char *name, uint32_t *ret)
{
	struct ms_book_text *text = &r->book.text;
	size_t len = strlen(name) + 1;

	if (text->n + len > MS_BOOK_TEXT || !ms_vec_reserve(r->arena, text, text->n + len))
		return false;
	memcpy(text->at + text->n, name, len);
	*ret = (uint32_t)text->n;
	text->n += len;
	return true;
}

/* The complete type that @die, a declaration, is of; false when there is none, or several. */
static bool find_definition(const struct ms_type_reader *r, Dwarf_Die *die)
{
	const struct ms_type_definition *definition;
	char name[MS_TYPE_TEXT];
	Dwarf_Attribute attr;
	uint64_t index;

	if (dwarf_attr(die, DW_AT_signature, &attr))
		return dwarf_formref_die(&attr, die);
	(void)ms_type_name(r, die, NULL, name);
	index = ms_map_find(&r->definitions, ms_hash(MS_HASH_BASIS, name, strlen(name)));
	if (!*name || !index)
		return false;
	definition = &r->defined.at[index - 1];
	*die = definition->die;
	return !definition->ambiguous;
}

/* ---- types that others begin with ---- */

static void note_front(struct ms_type_reader *r, struct ms_type_front *front)
{
	char name[MS_TYPE_TEXT];
	Dwarf_Attribute attr;
	Dwarf_Word own = 0;
	uint64_t key;
	uint64_t known;

	if (!*ms_type_name(r, &front->die, front->by_name, name) ||
	    dwarf_formudata(dwarf_attr(&front->die, DW_AT_byte_size, &attr), &own) != 0 ||
	    own >= front->size)
		return;
	key = ms_hash(MS_HASH_BASIS, name, strlen(name));
	known = ms_map_find(&r->longer, key);
	if (known && known <= front->size)
		return;
	if (known)
		ms_map_remove(&r->longer, key);
	(void)ms_map_add(&r->longer, &r->own, key, front->size);
}

/* Bytes of the smallest type that begins with one of @name; 0: none does. */
static uint32_t longer_than(const struct ms_type_reader *r, const char *name)
{
	uint64_t found = ms_map_find(&r->longer, ms_hash(MS_HASH_BASIS, name, strlen(name)));

	return *name && found <= UINT32_MAX ? (uint32_t)found : 0;
}

/* ---- adding ---- */

/* Add the complete type @die to the book, to be filled later. */
static bool add(struct ms_type_reader *r, Dwarf_Die *die, const char *name, uint64_t size,
                uint32_t *ret)
{
	struct ms_type_pending *pending;
	struct ms_book_type *type;
	uint32_t text;

	if (r->book.types.n == MS_BOOK_TYPES || !add_name(r, name, &text)) {
		r->full = true;
		return false;
	}
	pending = ms_vec_push(&r->own, &r->pending);
	type = pending ? ms_vec_push(r->arena, &r->book.types) : NULL;
	if (!type)
		return false;
	*type = (struct ms_book_type){ .name = text,
		                       .longer = longer_than(r, name),
		                       .module = r->module,
		                       .size = (uint32_t)size,
		                       .flags = ms_type_is_virtual(die) ? MS_BOOK_VIRTUAL : 0 };
	*ret = (uint32_t)r->book.types.n - 1;
	*pending = (struct ms_type_pending){ *die, *ret };
	return true;
}

/* Each unit has an entry of its own for a type; those that are the same are one. */
static bool add_once(struct ms_type_reader *r, Dwarf_Die *die, const char *by_name, uint32_t *ret)
{
	char name[MS_TYPE_TEXT];
	Dwarf_Word size = 0;
	Dwarf_Attribute attr;
	uint64_t print;
	uint64_t index;

	if (dwarf_hasattr(die, DW_AT_declaration) && !find_definition(r, die))
		return false;
	if (dwarf_formudata(dwarf_attr(die, DW_AT_byte_size, &attr), &size) != 0 || !size ||
	    size > UINT32_MAX)
		return false;
	(void)ms_type_name(r, die, by_name, name);
	print = ms_hash(MS_HASH_BASIS, name, strlen(name));
	print = ms_type_print(die, ms_hash(print, &size, sizeof(size)));
	index = ms_map_find(&r->prints, print);
	if (index) {
		*ret = (uint32_t)index - 1;
		return true;
	}
	return add(r, die, name, size, ret) &&
	       ms_map_add(&r->prints, r->arena, print, (uint64_t)*ret + 1);
}

bool ms_type_of(struct ms_type_reader *r, Dwarf_Die *die, const char *by_name, uint32_t *ret)
{
	uint64_t key = ms_die_key(die);
	uint64_t index = ms_map_find(&r->known, key);
	Dwarf_Die copy = *die;

	if (index) {
		*ret = (uint32_t)index - 1;
		return index != UNUSABLE;
	}
	if (!ms_type_reader_goes_on(r))
		return false;
	index = add_once(r, &copy, by_name, ret) ? (uint64_t)*ret + 1 : UNUSABLE;
	return ms_map_add(&r->known, &r->own, key, index) && index != UNUSABLE;
}

/* ---- a file ---- */

static void add_variable(struct ms_type_reader *r, struct ms_type_variable *found, uint64_t bias)
{
	struct ms_type_what what;
	struct ms_book_variable *variable;
	uint32_t type;

	if (!ms_type_what(&found->die, &what) || what.n == MS_BOOK_REST ||
	    !ms_type_of(r, &what.type, what.by_name, &type))
		return;
	if (r->book.variables.n == MS_BOOK_VARIABLES) {
		r->full = true;
		return;
	}
	variable = ms_vec_push(r->arena, &r->book.variables);
	if (variable)
		*variable = (struct ms_book_variable){ .at = found->at + (found->local ? 0 : bias),
			                               .module = r->module,
			                               .local = found->local,
			                               .type = type,
			                               .n = what.n,
			                               .what = what.what };
}

/* Forget the file that was before. */
static void begin(struct ms_type_reader *r, uint32_t module)
{
	static const struct ms_map empty;

	ms_arena_deinit(&r->own);
	r->own.refused = false;
	r->module = module;
	r->known = r->scopes = r->definitions = r->longer = empty;
	memset(&r->fronts, 0, sizeof(r->fronts));
	memset(&r->defined, 0, sizeof(r->defined));
	memset(&r->classes, 0, sizeof(r->classes));
	memset(&r->variables, 0, sizeof(r->variables));
	memset(&r->pending, 0, sizeof(r->pending));
	r->done = 0;
}

enum ms_types_read ms_type_reader_add(struct ms_type_reader *reader, struct ms_symbol_file *file,
                                      uint32_t module)
{
	struct ms_type_reader *r = reader;
	struct ms_type_variable *variable;
	struct ms_type_front *front;
	Dwarf_Die *class;
	Dwarf *dwarf;
	uint64_t bias;
	uint32_t ignored;

	if (!ms_type_reader_goes_on(r))
		return MS_TYPES_TOO_MANY;
	dwarf = ms_symbol_file_dwarf(file, &bias);
	if (!dwarf)
		return MS_TYPES_NONE;
	begin(r, module);
	ms_type_scan(r, dwarf);
	/* What several files have in common. */
	if (dwarf_getalt(dwarf))
		ms_type_scan(r, dwarf_getalt(dwarf));
	ms_vec_for_each (front, &r->fronts)
		note_front(r, front);
	ms_vec_for_each (variable, &r->variables)
		add_variable(r, variable, bias);
	ms_vec_for_each (class, &r->classes)
		(void)ms_type_of(r, class, NULL, &ignored);
	while (r->done < r->pending.n) {
		struct ms_type_pending pending = r->pending.at[r->done++];

		ms_type_fill(r, &pending);
	}
	return ms_type_reader_goes_on(r) ? MS_TYPES_READ : MS_TYPES_TOO_MANY;
}
