/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/codes.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sym/modules.h"

enum { MOST_PLACES = 3 };

static const char deleted[] = " (deleted)";

static size_t path_len(const struct ms_code *code)
{
	size_t len = strnlen(code->name, sizeof(code->name));
	size_t end = strlen(deleted);

	return len > end && memcmp(code->name + len - end, deleted, end) == 0 ? len - end : len;
}

/* Where the file may be, surest first; how many places. */
static size_t list_places(const struct ms_codes_call *call, const struct ms_code *code,
                          char ret[MOST_PLACES][PATH_MAX])
{
	int len = (int)path_len(code);
	size_t n = 0;

	if (call->tid)
		(void)snprintf(ret[n++], PATH_MAX, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64,
		               (int)call->tid, code->range.begin, code->range.end);
	if (code->name[0] != '/')
		return n;
	if (call->tid)
		(void)snprintf(ret[n++], PATH_MAX, "/proc/%d/root%.*s", (int)call->tid, len,
		               code->name);
	/* Of a process after chroot() alone the kernel shows us the path in our root. */
	(void)snprintf(ret[n++], PATH_MAX, "%.*s", len, code->name);
	return n;
}

static bool is_mapped_one(const struct ms_symbol_file *file, const struct ms_code *code)
{
	const unsigned char *id;
	size_t len = ms_symbol_file_build_id(file, &id);

	/* Where none was seen the inode had to do. */
	return !code->build_id_len || (len == code->build_id_len && len <= sizeof(code->build_id) &&
	                               memcmp(id, code->build_id, len) == 0);
}

enum ms_code_state ms_code_open(const struct ms_codes_call *call, const struct ms_code *code,
                                struct ms_arena *arena, struct ms_symbol_file **ret)
{
	enum ms_code_state state = MS_CODE_ABSENT;
	char paths[MOST_PLACES][PATH_MAX];
	size_t n = list_places(call, code, paths);
	char root[32] = "";
	char name[MS_PATH_TEXT];
	const struct ms_debug_places places = {
		.folder = call->debug_folder,
		.roots = { call->tid ? root : NULL, "" },
		.debuginfod = call->debuginfod,
	};

	(void)snprintf(root, sizeof(root), "/proc/%d/root", (int)call->tid);
	(void)snprintf(name, sizeof(name), "%.*s", (int)path_len(code), code->name);
	for (size_t i = 0; i < n; i++) {
		/* A build-id says more than an inode, which a copy of the file has not. */
		int fd = ms_module_open(paths[i], code->build_id_len ? 0 : code->inode);
		struct ms_symbol_file *file;

		if (fd < 0)
			continue;
		file = ms_symbol_file_take(fd, name, &places, arena);
		if (file && is_mapped_one(file, code)) {
			*ret = file;
			return MS_CODE_OPEN;
		}
		state = file ? MS_CODE_CHANGED : MS_CODE_NO_ELF;
		if (file)
			ms_symbol_file_close(file);
	}
	return state;
}
