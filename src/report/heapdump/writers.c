/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "report/heapdump/formats.h"

static bool write_folded(const struct ms_heapdump_view *view, struct ms_sink *sink)
{
	return ms_amounts_folded(&view->tree, sink);
}

static bool write_pprof(const struct ms_heapdump_view *view, struct ms_sink *sink)
{
	return ms_amounts_pprof(&view->tree, sink);
}

static bool write_html(const struct ms_heapdump_view *view, struct ms_sink *sink)
{
	const struct ms_amount_page page = {
		.title = "Native heap",
		.lines = view->lines.at,
		.n_lines = view->lines.n,
		.whole_paths = view->verbose,
	};

	return ms_amounts_html(&view->tree, &page, sink);
}

static const struct ms_heapdump_writer html = { .name = "html", .write = write_html };
static const struct ms_heapdump_writer folded = { .name = "folded", .write = write_folded };
static const struct ms_heapdump_writer pprof = { .name = "pprof",
	                                         .write = write_pprof,
	                                         .no_text = true };

static const struct ms_heapdump_writer *const writers[] = {
	&ms_heapdump_text, &html, &folded, &pprof, &ms_heapdump_json,
};

const struct ms_heapdump_writer *ms_heapdump_writer_find(const char *name)
{
	for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
		if (strcmp(writers[i]->name, name) == 0)
			return writers[i];
	return NULL;
}
