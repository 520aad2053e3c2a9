/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_NAMES_FIELDS_H
#define MS_ENGINE_NAMES_FIELDS_H

/*
 * Types of blocks by the pointers that lead to them: where debug information says that a
 * variable or a field points to a `struct T`, what begins there is one, if it is as large.
 *
 *	static struct cache *g_cache;           g_cache ──▶ cache
 *	struct cache { struct item **items; };               items ──▶ item *[]
 *	struct item { struct item *next; … };                             ├──▶ item ─next─▶ item
 *	                                                                  └──▶ item
 *
 *	book.c     what debug information says, as it comes from another process
 *	fits.c     whether a block can be what a pointer says
 *	fields.c   from the variables on, breadth first
 *	asking.c   which modules are asked about, and what is made of the answer
 */

#include "engine/names/fields/book.h"
#include "engine/names/types.h"
#include "engine/options.h"

struct ms_typing {
	struct ms_source *src;
	const struct ms_regions *regions;
	const struct ms_blocks *blocks; /* sealed */
	struct ms_types *types;         /* gets numbers for blocks */
	const struct ms_scan_options *options;
	struct ms_arena *arena;
	struct ms_report *report; /* its warnings are added to */

	struct ms_report
		*asked; /* its code was asked about, and it was not answered yet; or NULL */
};

/*
 * Ask options->book about the modules. It may be long until the answer is there, and
 * ms_typing_take() must come then, whatever has failed.
 *
 * Returns MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_typing_ask(struct ms_typing *typing, struct ms_error *err);

/*
 * Wait for the answer, and give types to blocks by it. Without one there are none, and a
 * warning.
 *
 * Returns MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_typing_take(const struct ms_typing *typing, struct ms_error *err);

/*
 * Give types to blocks by @book, which was checked.
 *
 * @code: the modules that it is of
 *
 * A block that several claim has the type that fits it best; of these the one that is
 * nearest to a variable.
 * Returns MS_E_NOMEM.
 * Cost: 8 bytes for each block; one read of each block that is reached.
 */
ms_must_check enum ms_status ms_typed_by_fields(const struct ms_typing *typing,
                                                const struct ms_book *book,
                                                const struct ms_codes *code, struct ms_error *err);

/* ---- between these files ---- */

/* What a block can be, from the weakest on. */
enum ms_form {
	MS_FORM_NONE,
	MS_FORM_FRONT, /* it begins as such an object does, and is too long for one */
	MS_FORM_MANY,  /* several objects */
	MS_FORM_TABLE, /* pointers to objects */
	MS_FORM_ONE,
};

/* How a block of @size bytes can be what points to an object, or several, of @type. */
enum ms_form ms_fits(const struct ms_book_type *type, uint64_t size);

#endif
