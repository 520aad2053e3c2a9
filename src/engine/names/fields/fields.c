/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/names/fields/fields.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "engine/graph/lookup.h"

/*
 * Each block that is reached has a claim: a type of the book and a form. A better form
 * takes the place of a worse one, and of two single objects the larger type, for a pointer
 * to the beginning of an object may be declared as one to its first member or its base.
 *
 * What could be several objects in a row, or pointers, waits until nothing else is to be
 * followed: often another pointer says what it is.
 */

enum {
	DEEPEST = 16, /* objects in objects */
	LOOKED_AT = 64,
	WINDOW_BYTES = 4096,
	FORM_BITS = 3,
	CLAIMS_FOR_EACH = 2,      /* of a block, on the average */
	VARIABLE_STEPS = 1 << 28, /* for all of them */
};

static_assert(MS_FORM_ONE < 1 << FORM_BITS, "a form fits in a claim");

struct waiting {
	uint32_t number;
	uint32_t claim;
};

/* A place in an object, or in a row of them. */
struct place {
	ms_addr at;
	uint64_t left; /* objects, this one included */
	uint32_t type;
	uint32_t field; /* the next */
};

struct pass {
	const struct ms_typing *typing;
	const struct ms_book *book;
	struct ms_arena *passing; /* for all but claims that are kept */
	struct ms_lookup *lookup;
	uint32_t word; /* bytes */
	uint32_t *claims;
	struct MS_VEC(uint32_t) queue; /* numbers of blocks */
	size_t followed;
	struct MS_VEC(struct waiting) waiting;
	size_t heard; /* of these */
	uint64_t most;
	struct ms_map by_name; /* of types with virtual functions: the index + 1 */
	bool out_of_memory;
	ms_addr window; /* what is read is kept in bytes */
	size_t window_len;
	unsigned char bytes[WINDOW_BYTES];
};

static uint32_t claim_of(uint32_t type, enum ms_form form)
{
	return type << FORM_BITS | (uint32_t)form;
}

static enum ms_form form_of(uint32_t claim)
{
	return (enum ms_form)(claim & ((1u << FORM_BITS) - 1));
}

static uint32_t type_of(uint32_t claim)
{
	return claim >> FORM_BITS;
}

/* ---- memory ---- */

/* The word at @at, of memory that ends at @end; 0 where it cannot be read. */
static uint64_t word_at(struct pass *p, ms_addr at, ms_addr end)
{
	struct ms_source *src = p->typing->src;
	const struct ms_abi *abi = &src->abi;
	const void *view = ms_source_view(src, at, p->word);

	if (view)
		return ms_abi_address(abi, ms_abi_word(abi, view));
	if (at < p->window || at - p->window > p->window_len ||
	    p->window_len - (at - p->window) < p->word) {
		p->window = at;
		p->window_len =
			ms_source_read(src, at, p->bytes,
		                       end - at < WINDOW_BYTES ? (size_t)(end - at) : WINDOW_BYTES);
		if (p->window_len < p->word)
			return 0;
	}
	return ms_abi_address(abi, ms_abi_word(abi, p->bytes + (at - p->window)));
}

/* Whether a pointer may have this value. */
static bool is_mapped(const struct pass *p, uint64_t value)
{
	const struct ms_region *region = ms_region_of(p->typing->regions, value);

	return region && region->kind != MS_REGION_SKIP;
}

static uint64_t size_of(const struct pass *p, struct ms_block block)
{
	const struct ms_blocks *blocks = p->typing->blocks;

	return ms_block_size(blocks, &blocks->extents.at[block.extent], block.granule);
}

static struct ms_range range_of(const struct pass *p, struct ms_block block)
{
	const struct ms_extent *extent = &p->typing->blocks->extents.at[block.extent];
	ms_addr begin = ms_block_begin(extent, block.granule);

	return (struct ms_range){ begin, begin + size_of(p, block) };
}

/* ---- claims ---- */

static bool is_better(const struct pass *p, uint32_t claim, uint32_t than)
{
	if (form_of(claim) != form_of(than))
		return form_of(claim) > form_of(than);
	return form_of(claim) == MS_FORM_ONE &&
	       p->book->types.at[type_of(claim)].size > p->book->types.at[type_of(than)].size;
}

static void push(struct pass *p, uint32_t number, uint32_t claim)
{
	uint32_t *slot;

	/* How often one gets a better type is the target's to choose. */
	if (p->queue.n >= p->most)
		return;
	slot = ms_vec_push(p->passing, &p->queue);
	p->out_of_memory |= !slot;
	if (!slot)
		return;
	*slot = number;
	p->claims[number] = claim;
}

static void wait_for(struct pass *p, uint32_t number, uint32_t claim)
{
	struct waiting *slot;

	if (p->claims[number] || p->waiting.n >= p->most)
		return;
	slot = ms_vec_push(p->passing, &p->waiting);
	p->out_of_memory |= !slot;
	if (slot)
		*slot = (struct waiting){ number, claim };
}

/* A pointer to what @what says of @type has that @value. */
static void claim(struct pass *p, uint64_t value, enum ms_book_what what, uint32_t type)
{
	enum ms_form form = MS_FORM_TABLE;
	struct ms_block block;
	uint32_t number;

	if (!value || !ms_lookup_begin(p->lookup, value, &block))
		return;
	number = ms_block_number(p->typing->blocks, block);
	if (what == MS_BOOK_POINTER)
		form = ms_fits(&p->book->types.at[type], size_of(p, block));
	if (form == MS_FORM_NONE || !is_better(p, claim_of(type, form), p->claims[number]))
		return;
	if (form == MS_FORM_ONE)
		push(p, number, claim_of(type, form));
	else
		wait_for(p, number, claim_of(type, form));
}

/* ---- following ---- */

/* So many there are room for. */
static uint64_t bounded(const struct pass *p, const struct ms_book_field *field, ms_addr at,
                        ms_addr end)
{
	uint64_t bytes = ms_book_bytes(p->book, field->what, field->type, p->word);
	uint64_t room = at < end ? (end - at) / bytes : 0;

	return field->n < room ? field->n : room;
}

/* Each of the @n pointers from @at on. False when there were too many. */
static bool follow_pointers(struct pass *p, const struct ms_book_field *field, ms_addr at,
                            ms_addr end, uint64_t *budget)
{
	uint64_t n = bounded(p, field, at, end);

	for (uint64_t i = 0; i < n; i++) {
		if (!*budget)
			return false;
		--*budget;
		claim(p, word_at(p, at + i * p->word, end), (enum ms_book_what)field->what,
		      field->type);
	}
	return true;
}

/* To the next object of the row; false when that was the last. */
static bool go_on(const struct pass *p, struct place *place)
{
	place->field = 0;
	place->at += p->book->types.at[place->type].size;
	return --place->left > 0;
}

/*
 * Follow what @field says is at the begin of @range, and does not go on behind it. What a
 * book says can be without end (an object that contains itself), so the steps are counted.
 */
static void follow(struct pass *p, const struct ms_book_field *field, struct ms_range range,
                   uint64_t *budget)
{
	struct place places[DEEPEST];
	ms_addr end = range.end;
	size_t depth = 0;

	if (field->what != MS_BOOK_OBJECT) {
		(void)follow_pointers(p, field, range.begin, end, budget);
		return;
	}
	places[0] =
		(struct place){ range.begin, bounded(p, field, range.begin, end), field->type, 0 };
	if (places[0].left)
		depth = 1;
	while (depth && *budget) {
		struct place *place = &places[depth - 1];
		const struct ms_book_type *type = &p->book->types.at[place->type];
		const struct ms_book_field *next;
		ms_addr there;

		--*budget;
		if (place->field == type->n) {
			depth -= !go_on(p, place);
			continue;
		}
		next = &p->book->fields.at[type->first + place->field++];
		there = place->at + next->at;
		/* What goes on to the end does so to that of a block, not of an object in one. */
		if (next->n == MS_BOOK_REST && depth > 1)
			continue;
		if (next->what != MS_BOOK_OBJECT) {
			if (!follow_pointers(p, next, there, end, budget))
				return;
		} else if (depth < DEEPEST && bounded(p, next, there, end)) {
			places[depth++] = (struct place){ there, bounded(p, next, there, end),
				                          next->type, 0 };
		}
	}
}

/* A virtual table says which class it is, be it declared as one of its bases. */
static uint32_t exact_type(struct pass *p, struct ms_range range, uint32_t type)
{
	struct ms_types *types = p->typing->types;
	uint32_t number;
	const char *name;
	uint32_t found;

	if (!p->by_name.used)
		return type;
	number = ms_types_of_block(types, range.begin, ms_range_len(range));
	if (number == MS_TYPE_UNKNOWN || ms_types_at(types, number)->how != MS_HOW_VTABLE)
		return type;
	name = ms_types_at(types, number)->name;
	found = (uint32_t)ms_map_find(&p->by_name, ms_hash(MS_HASH_BASIS, name, strlen(name)));
	if (!found || ms_fits(&p->book->types.at[found - 1], ms_range_len(range)) != MS_FORM_ONE)
		return type;
	return found - 1;
}

static void follow_block(struct pass *p, uint32_t number)
{
	struct ms_block block = ms_block_numbered(p->typing->blocks, number);
	struct ms_range range = range_of(p, block);
	enum ms_form form = form_of(p->claims[number]);
	struct ms_book_field field = { .type = type_of(p->claims[number]), .n = 1 };
	uint64_t budget = LOOKED_AT + ms_range_len(range);

	if (form == MS_FORM_MANY || form == MS_FORM_TABLE)
		field.n = MS_BOOK_REST;
	if (form == MS_FORM_TABLE)
		field.what = MS_BOOK_POINTER;
	else if (form == MS_FORM_ONE && (p->book->types.at[field.type].flags & MS_BOOK_VIRTUAL))
		field.type = exact_type(p, range, field.type);
	follow(p, &field, range, &budget);
}

/* ---- what waits ---- */

struct look {
	uint64_t pointers; /* that are not null, behind the first object */
	bool wrong;        /* something is no pointer */
};

static void look_at(struct pass *p, ms_addr at, ms_addr end, bool counts, struct look *look)
{
	uint64_t value = word_at(p, at, end);

	look->wrong |= value && !is_mapped(p, value);
	look->pointers += counts && value;
}

static bool are_pointers(struct pass *p, struct ms_range range)
{
	uint64_t n = ms_range_len(range) / p->word;
	struct look look = { 0 };

	for (uint64_t i = 0; i < n && i < LOOKED_AT && !look.wrong; i++)
		look_at(p, range.begin + i * p->word, range.end, true, &look);
	return look.pointers && !look.wrong;
}

/* Whether each object of a row has pointers where the type has them. */
static bool are_objects(struct pass *p, uint32_t index, struct ms_range range)
{
	const struct ms_book_type *type = &p->book->types.at[index];
	uint64_t n = ms_range_len(range) / type->size;
	struct look look = { 0 };

	for (uint64_t i = 0; i < n && i < LOOKED_AT && !look.wrong; i++)
		for (uint32_t k = 0; k < type->n && k < LOOKED_AT && !look.wrong; k++) {
			const struct ms_book_field *field = &p->book->fields.at[type->first + k];

			if (field->what != MS_BOOK_OBJECT && field->at < type->size)
				look_at(p, range.begin + i * type->size + field->at, range.end,
				        i > 0, &look);
		}
	return look.pointers && !look.wrong;
}

static void hear(struct pass *p, struct waiting waiting)
{
	struct ms_block block;
	struct ms_range range;
	enum ms_form form = form_of(waiting.claim);

	if (p->claims[waiting.number])
		return;
	block = ms_block_numbered(p->typing->blocks, waiting.number);
	range = range_of(p, block);
	if (form == MS_FORM_TABLE && !are_pointers(p, range))
		return;
	if (form == MS_FORM_MANY && !are_objects(p, type_of(waiting.claim), range))
		waiting.claim = claim_of(type_of(waiting.claim), MS_FORM_FRONT);
	push(p, waiting.number, waiting.claim);
}

static void follow_all(struct pass *p)
{
	while (p->followed < p->queue.n || p->heard < p->waiting.n) {
		if (p->out_of_memory)
			return;
		if (p->followed < p->queue.n)
			follow_block(p, p->queue.at[p->followed++]);
		else
			hear(p, p->waiting.at[p->heard++]);
	}
}

/* ---- where it begins ---- */

static void follow_variables(struct pass *p, const struct ms_codes *code)
{
	const struct ms_book_variable *variable;
	uint64_t budget = VARIABLE_STEPS;

	ms_vec_for_each (variable, &p->book->variables) {
		const struct ms_code *module = &code->at[variable->module];
		ms_addr at = variable->at + module->bias;
		const struct ms_region *region = ms_region_of(p->typing->regions, at);
		uint64_t bytes = variable->n *
		                 ms_book_bytes(p->book, variable->what, variable->type, p->word);
		struct ms_book_field field = { .type = variable->type,
			                       .n = variable->n,
			                       .what = variable->what };

		if (!module->has_bias || variable->local || !region ||
		    region->kind != MS_REGION_GLOBALS)
			continue;
		if (bytes <= region->range.end - at)
			follow(p, &field, (struct ms_range){ at, at + bytes }, &budget);
	}
}

/* Objects with a virtual table say themselves what they are, whoever points to them. */
static bool list_virtual(struct pass *p)
{
	for (uint32_t i = 0; i < p->book->types.n; i++) {
		const char *name = ms_book_name(p->book, i);
		uint64_t key = ms_hash(MS_HASH_BASIS, name, strlen(name));

		if (!(p->book->types.at[i].flags & MS_BOOK_VIRTUAL) || !*name ||
		    ms_map_find(&p->by_name, key))
			continue;
		if (!ms_map_add(&p->by_name, p->passing, key, (uint64_t)i + 1))
			return false;
	}
	return true;
}

static void follow_virtual(struct pass *p)
{
	uint32_t n = p->by_name.used ? ms_blocks_numbers(p->typing->blocks) : 0;

	for (uint32_t number = 0; number < n; number++) {
		struct ms_block block = ms_block_numbered(p->typing->blocks, number);
		uint32_t type;

		if (p->typing->blocks->extents.at[block.extent].kind != MS_EXTENT_HEAP)
			continue;
		type = exact_type(p, range_of(p, block), UINT32_MAX);
		if (type != UINT32_MAX &&
		    is_better(p, claim_of(type, MS_FORM_ONE), p->claims[number]))
			push(p, number, claim_of(type, MS_FORM_ONE));
	}
}

/* ---- names ---- */

/* Numbers of what was named already, for each type and form. */
struct naming {
	struct pass *pass;
	const struct ms_codes *code;
	uint32_t *known; /* + 1 */
};

static uint32_t name(struct naming *n, uint32_t type, enum ms_form form)
{
	static const char *const behind[] = {
		[MS_FORM_MANY] = "[]",
		[MS_FORM_TABLE] = " *[]",
		[MS_FORM_ONE] = "",
	};
	const char *text = ms_book_name(n->pass->book, type);
	struct ms_type told = { .how = MS_HOW_DEBUG };
	const struct ms_code *module = &n->code->at[n->pass->book->types.at[type].module];

	/* What begins with a virtual table has its name from there. */
	if (!*text ||
	    (form == MS_FORM_ONE && (n->pass->book->types.at[type].flags & MS_BOOK_VIRTUAL)))
		return MS_TYPE_UNKNOWN;
	(void)snprintf(told.name, sizeof(told.name), "%.*s%s", MS_TYPE_TEXT - 8, text,
	               behind[form]);
	(void)snprintf(told.module, sizeof(told.module), "%.*s", MS_TYPE_TEXT - 1, module->name);
	return ms_types_add(n->pass->typing->types, &told);
}

/* Put numbers of types in the place of claims. */
static bool name_all(struct pass *p, const struct ms_codes *code)
{
	const size_t forms = (size_t)1 << FORM_BITS;
	struct naming naming = { p, code, NULL };
	uint32_t n = ms_blocks_numbers(p->typing->blocks);

	naming.known =
		ms_arena_alloc(p->passing, (p->book->types.n + 1) * forms * sizeof(uint32_t));
	if (!naming.known)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t *known = &naming.known[p->claims[i]];
		enum ms_form form = form_of(p->claims[i]);

		if (form > MS_FORM_FRONT && !*known)
			*known = name(&naming, type_of(p->claims[i]), form) + 1;
		p->claims[i] = form > MS_FORM_FRONT ? *known - 1 : MS_TYPE_UNKNOWN;
	}
	return true;
}

/* Follow all pointers of variables and blocks, and name what they lead to. */
static bool find_claims(struct pass *p, const struct ms_codes *code)
{
	const struct ms_typing *typing = p->typing;
	uint32_t n = ms_blocks_numbers(typing->blocks);

	p->word = typing->src->abi.word_bytes;
	p->most = (uint64_t)CLAIMS_FOR_EACH * n;
	p->lookup = ms_arena_alloc(p->passing, sizeof(*p->lookup));
	p->claims = ms_arena_alloc(ms_types_are_kept(typing->types) ? p->passing : typing->arena,
	                           ((size_t)n + 1) * sizeof(*p->claims));
	if (!p->lookup || !p->claims || !list_virtual(p))
		return false;
	ms_lookup_init(p->lookup, typing->blocks);
	follow_variables(p, code);
	follow_all(p);
	follow_virtual(p);
	follow_all(p);
	return !p->out_of_memory && name_all(p, code);
}

enum ms_status ms_typed_by_fields(const struct ms_typing *typing, const struct ms_book *book,
                                  const struct ms_codes *code, struct ms_error *err)
{
	struct ms_arena passing = { 0 };
	struct pass *p = ms_arena_alloc(&passing, sizeof(*p));
	bool ok = p;

	if (ok) {
		p->typing = typing;
		p->book = book;
		p->passing = &passing;
		ok = find_claims(p, code);
	}
	if (ok)
		ms_types_keep_debug(typing->types, typing->blocks, p->claims);
	ms_arena_deinit(&passing);
	return ok ? MS_OK : ms_fail(err, MS_E_NOMEM, "no memory for the types of blocks");
}
