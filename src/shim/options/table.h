/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_OPTIONS_TABLE_H
#define MS_SHIM_OPTIONS_TABLE_H

/* The options, one row each. To add one, add its row; the parser has nothing of it. */

#include "shim/options/options.h"

enum ms_opt_takes {
	MS_TAKES_NOTHING,
	MS_TAKES_NUMBER, /* or nothing, for the row's own number */
	MS_NEEDS_NUMBER,
	MS_TAKES_PATH, /* or nothing, for the row's own */
};

struct ms_opt_row {
	const char *name;
	const char *alias;
	size_t bare;
	size_t min;
	size_t max;
	const char *path;
	enum ms_opt_takes takes;
	uint32_t sets;
	/* what is more than setting bits; the number is one within bounds */
	void (*apply)(struct ms_opts *options, size_t number, const char *path);
};

/* NULL when there is none of this name or alias. */
const struct ms_opt_row *ms_opt_find(const char *name, size_t len);

#endif
