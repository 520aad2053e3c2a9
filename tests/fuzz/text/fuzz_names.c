/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what takes text that others wrote: files of suppressions, and the names of
 * types in a scanned program.
 *
 *	fuzz: -max_len=512
 *
 * The first byte of an input chooses which; the rest is the text. It must neither
 * crash nor run on; a file's patterns must be of its lines, in order, and none may be
 * found by what it does not match; a name must fit.
 */

#include <stdlib.h>
#include <string.h>

#include "engine/names/demangle.h"
#include "engine/names/suppressions.h"

#include "fuzz.h"

static void check_patterns(const struct ms_suppressions *parsed, size_t size)
{
	static const char *const names[] = { "", "a", "foo::Bar<int>", "/usr/lib/libfoo.so.1" };
	size_t line = 0;

	for (size_t i = 0; i < parsed->n; i++) {
		require(parsed->at[i].line > line && parsed->at[i].line <= size + 1,
		        "lines are in order");
		line = parsed->at[i].line;
		require(!strchr(parsed->at[i].pattern, '\n'), "a pattern is of one line");
		(void)ms_suppression_matches(parsed->at[i].pattern, parsed->at[i].pattern);
		require(!ms_suppression_matches(parsed->at[i].pattern, ""),
		        "no pattern matches nothing");
	}
	for (size_t i = 0; i < 4; i++) {
		size_t found = ms_suppressions_find(parsed, &names[i], 1);

		require(found == parsed->n ||
		                ms_suppression_matches(parsed->at[found].pattern, names[i]),
		        "what is found matches");
	}
}

static void parse(const char *text, size_t size)
{
	const struct ms_suppression_file file = { "known.txt", text, size };
	struct ms_suppressions parsed = { 0 };
	struct ms_arena arena;
	struct ms_error err;

	memset(&err, 0, sizeof(err));
	ms_arena_init(&arena);
	if (ms_suppressions_parse(&file, &arena, &parsed, &err))
		require(err.text[0] && err.advice[0], "an error is told");
	check_patterns(&parsed, size);
	ms_arena_deinit(&arena);
}

static void demangle(const char *text, size_t size)
{
	char *mangled = malloc(size + 1);
	char name[128];

	memcpy(mangled, text, size);
	mangled[size] = '\0';
	if (ms_demangle_type(mangled, name, sizeof(name)))
		require(name[0] && strnlen(name, sizeof(name)) < sizeof(name), "a name fits");
	free(mangled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return -1;
	if (data[0] % 2)
		parse((const char *)data + 1, size - 1);
	else
		demangle((const char *)data + 1, size - 1);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	static const char *const seeds[] = {
		"\1leak:foo\n# known\n\nleak:^bar*$\nleak:/usr/lib/lib*.so\n",
		"\1leak:a\nthread:b\n",
		"\0St6vectorIiSaIiEE",
		"\0N3foo3BarIiNS_3BazEJcdEEE",
		"\0PFvRKSsOT_E",
		"\0ZN1a1bEvE1c",
	};

	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
		take(seeds[i], 1 + strlen(seeds[i] + 1));
}
