/* SPDX-License-Identifier: Apache-2.0 */
#include "report/writers.h"

#include <string.h>

static const struct ms_writer *const writers[] = {
	&ms_text_writer, &ms_json_writer, &ms_html_writer, &ms_folded_writer, &ms_pprof_writer,
};

static const struct ms_writer *const answer_writers[] = {
	&ms_why_text_writer,
	&ms_why_json_writer,
};

static const struct ms_writer *const live_writers[] = {
	&ms_live_text_writer,
	&ms_live_folded_writer,
	&ms_live_pprof_writer,
	&ms_json_writer,
};

static const struct ms_writer *const retained_writers[] = {
	&ms_retained_text_writer,
	&ms_retained_json_writer,
};

static const struct ms_writer *find(const struct ms_writer *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(list[i]->name, name) == 0)
			return list[i];
	}
	return NULL;
}

const struct ms_writer *ms_writer_find(const char *name)
{
	return find(writers, sizeof(writers) / sizeof(writers[0]), name);
}

const struct ms_writer *ms_answer_writer_find(const char *name)
{
	return find(answer_writers, sizeof(answer_writers) / sizeof(answer_writers[0]), name);
}

const struct ms_writer *ms_live_writer_find(const char *name)
{
	return find(live_writers, sizeof(live_writers) / sizeof(live_writers[0]), name);
}

const struct ms_writer *ms_retained_writer_find(const char *name)
{
	return find(retained_writers, sizeof(retained_writers) / sizeof(retained_writers[0]), name);
}
