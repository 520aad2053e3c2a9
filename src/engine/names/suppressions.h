/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_NAMES_SUPPRESSIONS_H
#define MS_ENGINE_NAMES_SUPPRESSIONS_H

/*
 * Suppressions in LeakSanitizer's format: which leaks not to report, by names.
 *
 *	# a comment
 *	leak:libpool.so
 *	leak:^Cache::Entry$
 *
 * The files are read elsewhere; what stands in them is looked at here.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/vec.h"

struct ms_suppression {
	const char *pattern;
	const char *file; /* the end of its path; borrowed from the caller */
	size_t line;
};

struct ms_suppressions MS_VEC(struct ms_suppression);

enum { MS_SUPPRESSIONS_MOST = 1 << 16 };

/*
 * Whether @pattern matches @name, as LeakSanitizer's do: it is looked for anywhere in it;
 * `*` stands for anything, `^` at the beginning and `$` for the end of the name.
 *
 * It never goes back: each part between stars is taken where it is found first, so
 * "a$" does not match "aba". What follows a `$` does not count, and no pattern
 * matches an empty name.
 * Source: LLVM, compiler-rt/lib/sanitizer_common, TemplateMatch().
 */
bool ms_suppression_matches(const char *pattern, const char *name);

/* A file, read. */
struct ms_suppression_file {
	const char *path;
	const char *text; /* any bytes; need not end in NUL */
	size_t len;
};

/*
 * Append the suppressions of @file to @ret, which holds MS_SUPPRESSIONS_MOST at most.
 *
 * Returns MS_E_UNSUPPORTED with file, line and what is wrong in err; MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_suppressions_parse(const struct ms_suppression_file *file,
                                                   struct ms_arena *arena,
                                                   struct ms_suppressions *ret,
                                                   struct ms_error *err);

/* The first of @suppressions that matches one of @n names; its index, or suppressions->n. */
size_t ms_suppressions_find(const struct ms_suppressions *suppressions, const char *const *names,
                            size_t n);

#endif
