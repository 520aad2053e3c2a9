/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_HEAPDUMP_FORMATS_H
#define MS_REPORT_HEAPDUMP_FORMATS_H

/* The writers there are, one per file, and what they share. */

#include <string.h>

#include "report/heapdump/view.h"
#include "report/print.h"

extern const struct ms_heapdump_writer ms_heapdump_text; /* text.c: as Android's viewer */
extern const struct ms_heapdump_writer ms_heapdump_json; /* json.c: memscan.heapdump/1 */

static inline const struct ms_heapdump_place *ms_heapdump_place_of(
	const struct ms_heapdump_view *view, const struct ms_amount_node *node)
{
	return &view->places.at[node->key];
}

/* What a dump itself says about a function, where its file says nothing; or NULL. */
static inline const char *ms_heapdump_own_name(const struct ms_heapdump_place *place)
{
	return place->info && place->info->function[0] ? place->info->function : NULL;
}

#endif
