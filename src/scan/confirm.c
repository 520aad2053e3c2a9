/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scan/service.h"

enum { MOST_NOTES = 100 }; /* of the first scan; an honest one makes some */

/* Leave of @mappings those that have a part of one of @before; both are by address. */
static void keep_common(struct ms_lost_mappings *mappings, const struct ms_lost_mappings *before)
{
	const struct ms_lost_mapping *mapping;
	size_t kept = 0;
	size_t i = 0;

	ms_vec_for_each (mapping, mappings) {
		while (i < before->n && before->at[i].range.end <= mapping->range.begin)
			i++;
		if (i < before->n && before->at[i].range.begin < mapping->range.end)
			mappings->at[kept++] = *mapping;
	}
	mappings->n = kept;
}

static bool has_note(const struct ms_notes *notes, const char *text)
{
	const struct ms_note *note;

	ms_vec_for_each (note, notes)
		if (!strcmp(note->text, text))
			return true;
	return false;
}

/* Put what the first scan cost, and what it warned of, into the report of the second. */
static void add_first(const struct ms_report *first, struct ms_arena *arena, struct ms_report *ret)
{
	struct ms_scan_facts *scan = &ret->scan;
	const struct ms_note *note;

	scan->pause_ns += first->scan.pause_ns;
	scan->bytes_read += first->scan.bytes_read;
	scan->steps += first->scan.steps;
	for (int i = 0; i < MS_PHASES; i++)
		scan->phase_ns[i] += first->scan.phase_ns[i];
	if (scan->peak_rss_bytes < first->scan.peak_rss_bytes)
		scan->peak_rss_bytes = first->scan.peak_rss_bytes;
	ms_vec_for_each (note, &first->warnings)
		if (note < first->warnings.at + MOST_NOTES && !has_note(&ret->warnings, note->text))
			ms_note_add(arena, &ret->warnings, "the first scan: %s", note->text);
	keep_common(&ret->mappings, &first->mappings);
}

/* The second scan, where @ret is what came of the first. */
static enum ms_status ask_again(struct ms_service *service, uint64_t wait_ns,
                                struct ms_arena *arena, struct ms_report *ret, struct ms_error *err)
{
	struct ms_arena arena_of_first = *arena;
	struct ms_report first = *ret;
	enum ms_status st;

	ms_arena_init(arena);
	st = service->host->wait(service->ctx, first.lost.n, err);
	service->options.lost = &first.lost;
	if (!st)
		st = ms_service_ask(service, arena, ret, err);
	service->options.lost = NULL;
	if (!st) {
		add_first(&first, arena, ret);
		ret->confirm_ns = wait_ns;
	}
	ms_arena_deinit(&arena_of_first);
	return st;
}

enum ms_status ms_service_ask_twice(struct ms_service *service, uint64_t wait_ns,
                                    struct ms_arena *arena, struct ms_report *ret,
                                    struct ms_error *err)
{
	enum ms_status st;

	service->options.keep_lost = true;
	st = ms_service_ask(service, arena, ret, err);
	service->options.keep_lost = false;
	if (!st && ret->lost.n)
		st = ask_again(service, wait_ns, arena, ret, err);
	if (!st)
		ret->confirm = true;
	return st;
}
