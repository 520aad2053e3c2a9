/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * What a std::function of libstdc++ calls, where that is too large for the function itself:
 *
 *	│ closure │ … │ manager │ invoker │
 *
 * Both are functions made for this closure, and so in one module, and are not the same. In C, too,
 * two functions can stand behind a pointer and a number, and so it is "likely". (In LLVM's library
 * a closure has a virtual table.)
 *
 * Source: libstdc++ 12 bits/std_function.h.
 */

static const struct ms_kind_type closure = { "closure of std::function", MS_HOW_CONTAINER,
	                                     MS_SURE_LIKELY };

enum { MANAGER = 2, INVOKER, FUNCTION_WORDS };

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
	if (manager->module == invoker->module)
		ms_kinds_claim(k, &spot->to, &closure, spot);
}

const struct ms_kind ms_kind_functions = { .name = "std::function",
	                                   .pointer = pointer,
	                                   .may = ms_kind_may_be_cxx };
