/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/names/fields/fields.h"
#include "engine/origins/origins.h"

/* List the code of every program and library. */
static bool list_code(const struct ms_typing *typing, struct ms_report *asked)
{
	const struct ms_origin_teller teller = { .src = typing->src,
		                                 .arena = typing->arena,
		                                 .report = asked };
	const struct ms_regions *regions = typing->regions;
	const struct ms_region *region;

	ms_vec_for_each (region, regions) {
		ms_addr *slot;

		if (region->kind != MS_REGION_GLOBALS ||
		    ms_module_begin(regions, region->module) != region->range.begin ||
		    !ms_region_mapping(typing->src, region)->inode)
			continue;
		slot = ms_vec_push(typing->arena, &asked->pcs);
		if (!slot)
			return false;
		*slot = region->range.begin;
	}
	if (!ms_origin_tell_code(&teller))
		return false;
	asked->pcs.n = 0;
	return true;
}

static void warn(const struct ms_typing *typing, const struct ms_error *why)
{
	ms_note_add(typing->arena, &typing->report->warnings,
	            "debug information was not looked at for types: %s", why->text);
}

enum ms_status ms_typing_ask(struct ms_typing *typing, struct ms_error *err)
{
	const struct ms_scan_options *options = typing->options;
	struct ms_report *asked = ms_arena_alloc(typing->arena, sizeof(*asked));
	struct ms_error why = { 0 };

	if (!options->book)
		return MS_OK;
	if (!asked || !list_code(typing, asked))
		return ms_fail(err, MS_E_NOMEM, "no memory for the types of blocks");
	if (options->ask_book(options->book_ctx, asked, &why))
		typing->asked = asked;
	else
		warn(typing, &why);
	return MS_OK;
}

enum ms_status ms_typing_take(const struct ms_typing *typing, struct ms_error *err)
{
	const struct ms_scan_options *options = typing->options;
	struct ms_arena passing = { 0 };
	enum ms_status st = MS_OK;
	struct ms_error why = { 0 };
	struct ms_book book;
	const struct ms_note *note;

	memset(&book, 0, sizeof(book));
	if (!typing->asked)
		return MS_OK;
	if (!options->book(options->book_ctx, typing->asked, &passing, &book, &why))
		warn(typing, &why);
	ms_vec_for_each (note, &book.warnings)
		ms_note_add(typing->arena, &typing->report->warnings, "%s", note->text);
	if (book.variables.n || book.types.n)
		st = ms_typed_by_fields(typing, &book, &typing->asked->code, err);
	ms_arena_deinit(&passing);
	return st;
}
