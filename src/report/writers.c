/* SPDX-License-Identifier: Apache-2.0 */
#include "report/writers.h"

#include <string.h>

#include "report/formats.h"

static const struct ms_writer *const writers[] = {
	&ms_text_writer,
	&ms_json_writer,
};

const struct ms_writer *ms_writer_find(const char *name)
{
	for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
		if (strcmp(writers[i]->name, name) == 0)
			return writers[i];
	}
	return NULL;
}
