/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_HEAPDUMP_FORMATS_H
#define MS_REPORT_HEAPDUMP_FORMATS_H

/* The writers there are, one per file, and what they share. */

#include <string.h>

#include "report/heapdump/view.h"
#include "report/print.h"

extern const struct ms_heapdump_writer ms_heapdump_text;   /* text.c: as Android's viewer */
extern const struct ms_heapdump_writer ms_heapdump_html;   /* html.c: one page */
extern const struct ms_heapdump_writer ms_heapdump_folded; /* folded.c: for flame graphs */
extern const struct ms_heapdump_writer ms_heapdump_json;   /* json.c: memscan.heapdump/1 */

static inline const struct ms_heapdump_place *ms_heapdump_place_of(
	const struct ms_heapdump_view *view, const struct ms_heapdump_node *node)
{
	return &view->places.at[node->value];
}

/* How a tree is called: by Android's rule, which calls all "zygote" that is no app's child. */
static inline const char *ms_heapdump_root_name(const struct ms_heapdump_node *node)
{
	return node->value ? "APP" : "ZYGOTE";
}

/* What a dump itself says about a function, where its file says nothing; or NULL. */
static inline const char *ms_heapdump_own_name(const struct ms_heapdump_place *place)
{
	return place->info && place->info->function[0] ? place->info->function : NULL;
}

/* The last part of a path. */
static inline const char *ms_heapdump_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* All bytes of a view. */
static inline struct ms_heapdump_amount ms_heapdump_sum(const struct ms_heapdump_view *view,
                                                        bool old)
{
	struct ms_heapdump_amount sum = { 0 };
	uint32_t i = view->first_root;

	for (; i != MS_HEAPDUMP_NONE; i = view->nodes.at[i].next) {
		const struct ms_heapdump_node *root = &view->nodes.at[i];

		sum.bytes += old ? root->old.bytes : root->now.bytes;
		sum.count += old ? root->old.count : root->now.count;
	}
	return sum;
}

static inline double ms_heapdump_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100 * (double)part / (double)whole : 0;
}

#endif
