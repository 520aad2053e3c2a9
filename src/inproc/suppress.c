/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/suppress.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "inproc/annotate/options.h"

static const char *none_if_empty(const char *text)
{
	return text && *text ? text : NULL;
}

void ms_suppress_ask(struct ms_suppress_sources *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (ms_lsan.default_suppressions)
		ret->text = ms_lsan.default_suppressions();
	ret->files[0] = none_if_empty(ms_lsan.suppressions_file);
	ret->files[1] = none_if_empty(secure_getenv("MEMUNREACHABLE_SUPPRESSIONS"));
}

static enum ms_status read_file(const char *path, struct ms_arena *arena,
                                struct ms_suppressions *ret, struct ms_error *err)
{
	struct ms_bytes content = { 0 };
	enum ms_status st = ms_file_read(path, arena, &content, err);
	const struct ms_suppression_file file = { path, content.at, content.n };

	return st ? st : ms_suppressions_parse(&file, arena, ret, err);
}

enum ms_status ms_suppress_read(const struct ms_suppress_sources *sources, struct ms_arena *arena,
                                struct ms_suppressions *ret, struct ms_error *err)
{
	const struct ms_suppression_file text = { "__lsan_default_suppressions()", sources->text,
		                                  sources->text ? strlen(sources->text) : 0 };
	enum ms_status st = MS_OK;

	if (text.text)
		st = ms_suppressions_parse(&text, arena, ret, err);
	for (size_t i = 0; i < MS_SUPPRESS_FILES && !st; i++)
		if (sources->files[i])
			st = read_file(sources->files[i], arena, ret, err);
	return st;
}
