/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/suppressions.h"

#include "base/file.h"

static enum ms_status read_file(const char *path, struct ms_arena *arena,
                                struct ms_suppressions *ret, struct ms_error *err)
{
	struct ms_bytes content = { 0 };
	enum ms_status st = ms_file_read(path, arena, &content, err);
	const struct ms_suppression_file file = { path, content.at, content.n };

	if (!st)
		return ms_suppressions_parse(&file, arena, ret, err);
	ms_advise(err, "give --suppressions a readable file, or omit the option");
	return st;
}

enum ms_status ms_suppressions_read(const struct ms_options *options, struct ms_arena *arena,
                                    struct ms_suppressions *ret, struct ms_error *err)
{
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < options->n_suppressions && !st; i++)
		st = read_file(options->suppressions[i], arena, ret, err);
	return st;
}
