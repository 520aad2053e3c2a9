/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_NEWFILE_H
#define MS_BASE_NEWFILE_H

/*
 * A file that is written whole or not at all, under a name in a folder that may be others', too.
 *
 * The bytes go to a file without a name (O_TMPFILE), which gets its name when all are written: a
 * process that is killed leaves nothing. On a file system without such files it has a temporary
 * name. A regular file of that name is replaced and never opened. A FIFO, a device or a socket is
 * written to as it is, and so is a descriptor of this process (/dev/stdout, /dev/fd/N).
 *
 * In a folder that others may write to, any of these, and a link, can be planted. There only
 * what belongs to this user or to root is used, and the new file is for its owner alone. In any
 * other folder a file keeps its mode, and its owner where that can be had. This question is asked
 * of every part of the path, without following a link and without opening what is there.
 *
 * No malloc, no lock.
 */

#include <stdbool.h>
#include <sys/stat.h>

enum { MS_NEWFILE_NAME = 256, MS_NEWFILE_TEMP = 48 };

struct ms_newfile_call {
	const char *path;
	bool no_link;  /* the last part of the path may not be a link */
	bool in_place; /* what is this user's is emptied if its folder, which is not shared, takes
	                  no new one */
	bool durable;  /* it is on the disk before it gets its name */
	bool secret;   /* it is for its owner alone, whoever could read what was there */
	unsigned wait_ms; /* for a reader of a FIFO, which may be about to come */
};

struct ms_newfile {
	int fd;      /* to write to */
	int folder;  /* -1: this is no new file, and there is nothing to undo */
	bool shared; /* others may write to the folder */
	bool durable;
	bool exists;
	struct stat old; /* if it exists; of EPERM what was refused */
	char name[MS_NEWFILE_NAME];
	char temp[MS_NEWFILE_TEMP]; /* "": it has no name yet */
};

/*
 * Begin one. Returns 0, or errno; EPERM for what someone else may have planted, which is in
 * ret->old then, or with nlink 0 there for an EPERM of the kernel's; ENXIO for a FIFO that nobody
 * reads.
 */
int ms_newfile_begin(const struct ms_newfile_call *call, struct ms_newfile *ret);

/* Find out whether it could be begun; leaves nothing behind, and waits for no reader. */
int ms_newfile_check(const struct ms_newfile_call *call, struct ms_newfile *ret);

/* Begin one in @folder whose name is chosen later. */
int ms_newfile_begin_in(const char *folder, struct ms_newfile *ret);

/* Give it @name if that is free; EEXIST otherwise. It has to be ended in any case. */
int ms_newfile_take(struct ms_newfile *file, const char *name);

/* Give it @name, in place of any regular file that has it; EPERM for anything else. */
int ms_newfile_replace(struct ms_newfile *file, const char *name);

/* End it: with its name, or as if it had never been. Returns 0, or errno; then it has ended, too.
 */
int ms_newfile_commit(struct ms_newfile *file);
void ms_newfile_cancel(struct ms_newfile *file);

/* "a FIFO", by st_mode. */
const char *ms_newfile_kind(mode_t mode);

#endif
