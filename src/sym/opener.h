/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_OPENER_H
#define MS_SYM_OPENER_H

/*
 * What answers the questions of finder.h: composes paths and opens them, and reads no byte
 * of what it opens. The asking process may have been taken over by what it reads.
 *
 * Only regular files are opened, and never waited for. In the process's root, and in the
 * caller's own folder, neither links nor ".." lead out. By name it gives only files that
 * everyone, or the user of the process, may read, in folders that they may pass: the name
 * beside a file is chosen by others. The mapping itself and the caller's own folder are not
 * such names.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/range.h"
#include "base/status.h"
#include "sym/finder.h"

enum { MS_OPENER_ROOTS = 2 };

#define MS_OPENER_ANYONE   ((uid_t)-1) /* it does not matter whose files are */
#define MS_OPENER_EVERYONE ((uid_t)-2) /* no user's files beside those that everyone may read */

/* A file that the process has mapped. */
struct ms_opener_file {
	const char *path; /* as the kernel prints it */
	struct ms_range range;
	uint64_t mapped; /* the inode that it has to have where its mapping leads; 0: any */
	uint64_t named;  /* the same, where its name leads */
	bool renamed;    /* what has its name now is another file */
};

struct ms_opener {
	/* False when there is no such number. */
	bool (*file)(const void *files, uint32_t number, struct ms_opener_file *ret);
	const void *files;
	size_t n; /* how many numbers there are */

	char root[32];      /* of the process */
	pid_t tid;          /* a living thread of the process; 0: there is none any more */
	uid_t uid;          /* of the process; or MS_OPENER_ANYONE, MS_OPENER_EVERYONE */
	const char *folder; /* the user's, with debug information; NULL: none */
	/* Folders with a usr/lib/debug, in which files have their paths; "": ours; NULL: no more */
	const char *roots[MS_OPENER_ROOTS];
	bool debuginfod; /* the servers of DEBUGINFOD_URLS are asked, too */
	bool confined;   /* the first root is a tree that links do not lead out of */
	/* The user's own path of the file that the process has as @given_name; NULL: none. */
	const char *given;
	const char *given_name;
};

/*
 * Be ready to open files of the process with the thread @tid, which is 0 when it has ended:
 * in its root and in ours, for its user @uid.
 *
 * To be filled in: file, files, n; folder and debuginfod, if wanted. Not to be copied.
 */
void ms_opener_init(struct ms_opener *opener, pid_t tid, uid_t uid);

/* A ms_finder.find; @ctx: the struct ms_opener. */
int ms_opener_find(void *ctx, const struct ms_file_question *question, struct ms_file_answer *ret);

/*
 * Ask debuginfod's servers, in a process of its own, for debug information by build-id.
 * Returns a descriptor, or -1.
 */
int ms_fetch_debug(const unsigned char *id, size_t len);

/*
 * Whether debuginfod's cache is this user's alone. ms_fetch_debug() asks no server otherwise:
 * what another user puts there, as links, would be followed with this user's rights.
 *
 * Returns MS_E_DENIED with the folder.
 */
ms_must_check enum ms_status ms_fetch_check(struct ms_error *err);

#endif
