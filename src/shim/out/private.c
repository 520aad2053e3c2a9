/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/out/private.h"

#include <errno.h>
#include <string.h>

#include "shim/out/say.h"

static void say_planted(const char *path, const struct ms_newfile *file)
{
	ms_say("%s: %s of user %u is in a folder that others may write to; choose another path",
	       path, ms_newfile_kind(file->old.st_mode), (unsigned)file->old.st_uid);
}

int ms_private_begin(const char *path, struct ms_newfile *ret)
{
	const struct ms_newfile_call call = { .path = path, .no_link = true, .in_place = true };
	int error = ms_newfile_begin(&call, ret);

	if (error == EPERM && ret->old.st_nlink)
		say_planted(path, ret);
	return error;
}

int ms_private_end(const char *path, struct ms_newfile *file, bool whole)
{
	int error;

	if (!whole) {
		ms_newfile_cancel(file);
		return 0;
	}
	error = ms_newfile_commit(file);
	if (error == EPERM && file->old.st_nlink)
		say_planted(path, file);
	else if (error)
		ms_say("Cannot give the file its name %s: %s", path, strerror(error));
	return error;
}
