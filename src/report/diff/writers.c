/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/writers.h"

#include <string.h>

const struct ms_diff_writer *ms_diff_writer_find(const char *name)
{
	static const struct ms_diff_writer *const writers[] = { &ms_diff_text_writer,
		                                                &ms_diff_json_writer };

	for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
		if (strcmp(writers[i]->name, name) == 0)
			return writers[i];
	return NULL;
}
