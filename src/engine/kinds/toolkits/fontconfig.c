/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/fontconfig.h"
#include "engine/kinds/kinds.h"

/*
 * What fontconfig has read of its configuration, which is some thousand blocks in each program
 * with a window, and the patterns of fonts:
 *
 *	FcExprPage     │ next page │ behind the last used │ 340 × (operator, 4: any; 2 words) │
 *	FcRule         │ next │ 1 or 2, 4: any │ FcTest or FcEdit │
 *	FcTest         │ kind of match, qualifier │ object, operator │ expression │
 *	FcEdit         │ object, operator │ expression │ binding, 4: any │
 *	FcPtrList      │ function of libfontconfig │ first entry │          entry: │ next │ data │
 *	FcRuleSet      │ references │ 3 texts │ enabled │ 3 × FcPtrList │
 *	FcPattern      │ used, room │ distance to elements │ references │
 *	an element     │ object, 4: any │ values │
 *	FcValueList    │ next │ type │ value │ binding │
 *
 * Expressions stand in pages, and one is only where others end. So a rule is known by what it
 * leads to, and that by its expression.
 *
 * Source: fontconfig 2.13.1 to 2.15 src/fcint.h, fcptrlist.c.
 */

static const struct ms_kind_type page = { "FcExprPage", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type rule = { "FcRule", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type test = { "FcTest", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type edit = { "FcEdit", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type list = { "FcPtrList", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type entry = { "entry of FcPtrList", MS_HOW_CONTAINER,
	                                   MS_SURE_CERTAIN };
static const struct ms_kind_type rule_set = { "FcRuleSet", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type pattern = { "FcPattern", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type elements = { "elements of FcPattern", MS_HOW_CONTAINER,
	                                      MS_SURE_CERTAIN };
static const struct ms_kind_type value = { "FcValueList", MS_HOW_CONTAINER, MS_SURE_CERTAIN };

static const struct ms_kind_type text = { "text", MS_HOW_TEXT, MS_SURE_CERTAIN };

enum { ROUNDED = 32 };

/* A block of @words, and hardly more. */
static bool is_of(const struct ms_kind_block *b, uint64_t words)
{
	return b->usable >= words * MS_KIND_WORD && b->usable - words * MS_KIND_WORD < ROUNDED;
}

/* ---- expressions ---- */

enum { EXPR_WORDS = 3, EXPRS = 340, PAGE_HEAD = 2, PAGE_WORDS = PAGE_HEAD + EXPRS * EXPR_WORDS };
enum { STRING = 2, CONSTANT = 10, MOST_OPERATOR = 64, FLAG = 1 << 16, MOST_NAME = 256 };

static bool is_operator(uint64_t word)
{
	return ((uint32_t)word & ~(uint32_t)FLAG) < MOST_OPERATOR;
}

/* The number of the expression at @at, were @begin a page's begin; UINT64_MAX: none is there. */
static uint64_t number_of(ms_addr begin, ms_addr at)
{
	uint64_t offset = at - begin - (uint64_t)PAGE_HEAD * MS_KIND_WORD;

	return offset % (EXPR_WORDS * MS_KIND_WORD) ? UINT64_MAX
	                                            : offset / (EXPR_WORDS * MS_KIND_WORD);
}

/* A string or the name of a constant. */
static void take_text(struct ms_kinds *k, const uint8_t *bytes)
{
	uint32_t op = (uint32_t)ms_kind_word(bytes, 0);
	char name[MOST_NAME];

	if ((op == STRING || op == CONSTANT) &&
	    ms_kinds_text(k, ms_kind_word(bytes, 1), name, sizeof(name)))
		ms_kinds_claim_at(k, ms_kind_word(bytes, 1), &text, NULL);
}

static void look_for_page(struct ms_kinds *k, const struct ms_kind_block *b)
{
	const uint8_t *exprs = b->bytes + (size_t)PAGE_HEAD * MS_KIND_WORD;
	struct ms_kind_block next;
	uint64_t used = number_of(b->begin, ms_kind_word(b->bytes, 1));

	if (!used || used > EXPRS ||
	    (ms_kind_word(b->bytes, 0) &&
	     (!ms_kinds_at(k, ms_kind_word(b->bytes, 0), &next) || !is_of(&next, PAGE_WORDS))))
		return;
	for (size_t i = 0; i < used; i++)
		if (!is_operator(ms_kind_word(exprs, i * EXPR_WORDS)))
			return;
	ms_kinds_claim(k, b, &page, NULL);
	for (size_t i = 0; i < used; i++)
		take_text(k, exprs + i * EXPR_WORDS * MS_KIND_WORD);
}

static bool is_expression(struct ms_kinds *k, ms_addr at)
{
	struct ms_kind_block of;
	uint64_t words[2];

	return ms_kinds_within(k, at, &of) && is_of(&of, PAGE_WORDS) &&
	       ms_kinds_words(k, of.begin, words, 2) && number_of(of.begin, words[1]) <= EXPRS &&
	       number_of(of.begin, at) < number_of(of.begin, words[1]);
}

/* ---- rules ---- */

enum { IS_TEST = 1, IS_EDIT = 2, RULE_WORDS = 3 };
enum { MOST_KIND = 2, MOST_QUALIFIER = 3, MOST_OBJECT = 1 << 16, MOST_BINDING = 3 };

/* An object and what is done with it. */
static bool is_done(uint64_t word)
{
	return (uint32_t)word && (uint32_t)word < MOST_OBJECT && is_operator(word >> 32);
}

static bool is_test(struct ms_kinds *k, const uint64_t words[RULE_WORDS])
{
	uint32_t kind = (uint32_t)words[0];

	return (kind <= MOST_KIND || kind == UINT32_MAX) && words[0] >> 32 <= MOST_QUALIFIER &&
	       is_done(words[1]) && is_expression(k, words[2]);
}

static bool is_edit(struct ms_kinds *k, const uint64_t words[RULE_WORDS])
{
	return is_done(words[0]) && is_expression(k, words[1]) &&
	       (uint32_t)words[2] <= MOST_BINDING;
}

static void look_for_rule(struct ms_kinds *k, const struct ms_kind_block *b)
{
	ms_addr next = ms_kind_word(b->bytes, 0);
	uint32_t type = (uint32_t)ms_kind_word(b->bytes, 1);
	uint64_t words[RULE_WORDS];
	struct ms_kind_block of;

	if ((type != IS_TEST && type != IS_EDIT) ||
	    (next && (!ms_kinds_at(k, next, &of) || !is_of(&of, RULE_WORDS))) ||
	    !ms_kinds_at(k, ms_kind_word(b->bytes, 2), &of) || !is_of(&of, RULE_WORDS) ||
	    !ms_kinds_words(k, of.begin, words, RULE_WORDS) ||
	    !(type == IS_TEST ? is_test(k, words) : is_edit(k, words)))
		return;
	ms_kinds_claim(k, b, &rule, NULL);
	ms_kinds_claim(k, &of, type == IS_TEST ? &test : &edit, NULL);
}

/* ---- lists ---- */

enum { LIST_WORDS = 2, SET_WORDS = 8, SET_TEXTS = 1, SET_ENABLED = 4, SET_LISTS = 5 };

static bool is_own_code(const struct ms_kinds *k, ms_addr at)
{
	const struct ms_region *region = ms_region_of(k->regions, at);

	return region && region->module == k->fontconfig && ms_kinds_is_code(k, at);
}

static bool take_entries(struct ms_kinds *k, ms_addr at, bool claim_them)
{
	while (at) {
		struct ms_kind_block of;
		struct ms_kind_block data;
		uint64_t words[LIST_WORDS];

		if (!ms_kinds_step(k) || !ms_kinds_at(k, at, &of) || !is_of(&of, LIST_WORDS) ||
		    !ms_kinds_words(k, at, words, LIST_WORDS) || !ms_kinds_at(k, words[1], &data))
			return false;
		if (claim_them)
			ms_kinds_claim(k, &of, &entry, NULL);
		at = words[0];
	}
	return true;
}

static void look_for_list(struct ms_kinds *k, const struct ms_kind_block *b)
{
	ms_addr first = ms_kind_word(b->bytes, 1);

	if (!first || !is_own_code(k, ms_kind_word(b->bytes, 0)) || !take_entries(k, first, false))
		return;
	ms_kinds_claim(k, b, &list, NULL);
	(void)take_entries(k, first, true);
}

static bool is_list(struct ms_kinds *k, ms_addr at)
{
	struct ms_kind_block of;
	ms_addr function;

	return ms_kinds_at(k, at, &of) && is_of(&of, LIST_WORDS) &&
	       ms_kinds_words(k, at, &function, 1) && is_own_code(k, function);
}

/* Lists of it are lists though they are empty. */
static void look_for_rule_set(struct ms_kinds *k, const struct ms_kind_block *b)
{
	struct ms_kind_block of;

	if (!(uint32_t)ms_kind_word(b->bytes, 0) ||
	    (uint32_t)ms_kind_word(b->bytes, SET_ENABLED) > 1)
		return;
	for (size_t i = SET_TEXTS; i < SET_ENABLED; i++)
		if (ms_kind_word(b->bytes, i) && !ms_kinds_at(k, ms_kind_word(b->bytes, i), &of))
			return;
	for (size_t i = SET_LISTS; i < SET_WORDS; i++)
		if (!is_list(k, ms_kind_word(b->bytes, i)))
			return;
	ms_kinds_claim(k, b, &rule_set, NULL);
	for (size_t i = SET_LISTS; i < SET_WORDS; i++)
		ms_kinds_claim_at(k, ms_kind_word(b->bytes, i), &list, NULL);
}

/* ---- patterns ---- */

enum { PATTERN_WORDS = 4, ELEMENT_WORDS = 2, VALUE_WORDS = 4, MOST_TYPE = 9 };

static void take_values(struct ms_kinds *k, ms_addr at)
{
	struct ms_kind_block of;
	uint64_t words[VALUE_WORDS];

	while (at && ms_kinds_step(k) && ms_kinds_at(k, at, &of) && is_of(&of, VALUE_WORDS) &&
	       ms_kinds_words(k, at, words, VALUE_WORDS) && (uint32_t)words[1] <= MOST_TYPE &&
	       (uint32_t)words[3] <= MOST_BINDING) {
		ms_kinds_claim(k, &of, &value, NULL);
		at = words[0];
	}
}

static void look_for_pattern(struct ms_kinds *k, const struct ms_kind_block *b)
{
	ms_addr at = b->begin + ms_kind_word(b->bytes, 1);
	uint32_t used = (uint32_t)ms_kind_word(b->bytes, 0);
	struct ms_block array;

	if (!ms_fontconfig_array(&k->lookup, b->begin, b->bytes, &array))
		return;
	ms_kinds_claim(k, b, &pattern, NULL);
	ms_kinds_claim_at(k, at, &elements, NULL);
	for (uint32_t i = 0; i < used && ms_kinds_step(k); i++) {
		uint64_t words[ELEMENT_WORDS];

		if (!ms_kinds_words(k, at + i * sizeof(words), words, ELEMENT_WORDS))
			return;
		take_values(k, words[1]);
	}
}

/* ---- the kind ---- */

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (is_of(b, PAGE_WORDS))
		look_for_page(k, b);
	if (is_of(b, RULE_WORDS))
		look_for_rule(k, b);
	if (is_of(b, LIST_WORDS))
		look_for_list(k, b);
	if (is_of(b, SET_WORDS))
		look_for_rule_set(k, b);
	if (is_of(b, PATTERN_WORDS))
		look_for_pattern(k, b);
}

static bool begin(struct ms_kinds *k)
{
	const struct ms_mapping *library = ms_mapped_file(k->src, "libfontconfig.so");
	const struct ms_region *of =
		library ? ms_region_of(k->regions, library->range.begin) : NULL;

	if (of)
		k->fontconfig = of->module;
	return of;
}

const struct ms_kind ms_kind_fontconfig = { .name = "fontconfig", .begin = begin, .block = block };
