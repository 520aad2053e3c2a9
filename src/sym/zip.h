/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_ZIP_H
#define MS_SYM_ZIP_H

/* Android maps the libraries of an app from where they are stored in its package, a zip file. */

#include "base/arena.h"
#include "base/range.h"

/* A file that is stored, not compressed. */
struct ms_zip_member {
	struct ms_range range; /* first: searched by it; where its bytes are in the zip file */
	const char *name;
};

struct ms_zip_members MS_VEC(struct ms_zip_member);

/*
 * List what is stored in the zip file @fd, in the order of its bytes, without overlap.
 * False when it is no zip file or one that contradicts itself, and without memory.
 */
bool ms_zip_list(int fd, struct ms_arena *arena, struct ms_zip_members *ret);

#endif
