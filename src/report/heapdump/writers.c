/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "report/heapdump/formats.h"

static const struct ms_heapdump_writer *const writers[] = {
	&ms_heapdump_text,
	&ms_heapdump_html,
	&ms_heapdump_folded,
	&ms_heapdump_json,
};

const struct ms_heapdump_writer *ms_heapdump_writer_find(const char *name)
{
	for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
		if (strcmp(writers[i]->name, name) == 0)
			return writers[i];
	return NULL;
}
