/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elf/object.h"
#include "base/elf/rows.h"
#include "engine/kinds/kinds.h"

/*
 * What a std::function of libstdc++ calls, where that is too large for the function itself:
 *
 *	│ closure │ … │ manager │ invoker │
 *
 * Both are functions made for this closure, and so in one module, and are not the same. In C, too,
 * two functions can stand behind a pointer and a number, as in GTK in thousands of places. But the
 * manager allocates closures, so its module has C++'s operator new, or wants it. And return
 * addresses, which stand behind each other in stacks, begin no function. It is "likely".
 * (In LLVM's library a closure has a virtual table.)
 *
 * Source: libstdc++ 12 bits/std_function.h.
 */

static const struct ms_kind_type closure = { "closure of std::function", MS_HOW_CONTAINER,
	                                     MS_SURE_LIKELY };

enum { MANAGER = 2, INVOKER, FUNCTION_WORDS };

/* Of what a module is known to have. */
enum { HAS_NOT = 1, HAS };

/* A module that has no tables of symbols is of a static program. */
static bool look_for_new(struct ms_kinds *k, uint32_t module)
{
	/* operator new, of a size_t */
	const char *name = k->word == MS_KIND_WORD ? "_Znwm" : "_Znwj";
	const struct ms_reader from = ms_peek_reader(&k->peek);
	struct ms_dynamic dynamic;
	struct ms_object object;

	if (!ms_object_read(from, ms_module_begin(k->regions, module), k->src->abi.page_bytes,
	                    &object) ||
	    !object.dynamic)
		return true;
	dynamic = ms_dynamic_read(from, &object);
	return !dynamic.symbols || ms_dynamic_imports(from, &dynamic, name) ||
	       ms_dynamic_function(from, &dynamic, name);
}

static bool has_new(struct ms_kinds *k, uint32_t module)
{
	uint64_t known = ms_map_find(&k->with_new, (uint64_t)module + 1);

	if (known)
		return known == HAS;
	known = look_for_new(k, module) ? HAS : HAS_NOT;
	(void)ms_map_add(&k->with_new, k->arena, (uint64_t)module + 1, known);
	return known == HAS;
}

/* By the table over the frames of their module; where that has none, any address may begin one. */
static bool begin_functions(struct ms_kinds *k, uint32_t module, ms_addr a, ms_addr b)
{
	const struct ms_reader from = ms_peek_reader(&k->peek);
	struct ms_object object;

	return !ms_object_read(from, ms_module_begin(k->regions, module), k->src->abi.page_bytes,
	                       &object) ||
	       !object.frame_header ||
	       (ms_row_begin(from, object.frame_header, a) == a &&
	        ms_row_begin(from, object.frame_header, b) == b);
}

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	const struct ms_region *manager;
	const struct ms_region *invoker;

	if (!k->cxx || spot->offset || spot->behind < FUNCTION_WORDS ||
	    ms_kind_near(spot, MANAGER) == ms_kind_near(spot, INVOKER) ||
	    !ms_kinds_is_code(k, ms_kind_near(spot, MANAGER)) ||
	    !ms_kinds_is_code(k, ms_kind_near(spot, INVOKER)))
		return;
	manager = ms_region_of(k->regions, ms_kind_near(spot, MANAGER));
	invoker = ms_region_of(k->regions, ms_kind_near(spot, INVOKER));
	if (manager->module == invoker->module && has_new(k, manager->module) &&
	    begin_functions(k, manager->module, ms_kind_near(spot, MANAGER),
	                    ms_kind_near(spot, INVOKER)))
		ms_kinds_claim(k, &spot->to, &closure, spot);
}

const struct ms_kind ms_kind_functions = {
	.name = "std::function", .narrow = true, .pointer = pointer, .may = ms_kind_may_be_cxx
};
