/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "report/records/formats.h"

static const struct ms_recording_writer *const writers[] = {
	&ms_recording_text,
	&ms_recording_json,
};

const struct ms_recording_writer *ms_recording_writer_find(const char *name)
{
	for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
		if (strcmp(writers[i]->name, name) == 0)
			return writers[i];
	}
	return NULL;
}
