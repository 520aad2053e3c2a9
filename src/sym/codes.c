/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/codes.h"

#include <string.h>

static bool file_of(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	const struct ms_codes *codes = files;
	const struct ms_code *code;

	if (number >= codes->n)
		return false;
	code = &codes->at[number];
	ret->path = code->name;
	ret->range = code->range;
	/* A build-id says more than an inode, which a copy of the file has not. */
	ret->mapped = ret->named = code->build_id_len ? 0 : code->inode;
	return true;
}

void ms_codes_opener(const struct ms_codes *codes, struct ms_opener *ret)
{
	ret->file = file_of;
	ret->files = codes;
	ret->n = codes->n;
}

static bool is_mapped_one(const struct ms_symbol_file *file, const struct ms_code *code)
{
	const unsigned char *id;
	size_t len = ms_symbol_file_build_id(file, &id);

	/* Where none was seen the inode had to do. */
	return !code->build_id_len || (len == code->build_id_len && len <= sizeof(code->build_id) &&
	                               memcmp(id, code->build_id, len) == 0);
}

static enum ms_code_state state_of(const struct ms_symbol_file *file, const struct ms_code *code)
{
	if (!file)
		return MS_CODE_NO_ELF;
	if (!is_mapped_one(file, code))
		return MS_CODE_CHANGED;
	return ms_symbol_file_fits(file) ? MS_CODE_OPEN : MS_CODE_TOO_LARGE;
}

enum ms_code_state ms_code_open(const struct ms_codes *codes, size_t number,
                                const struct ms_finder *finder, struct ms_arena *arena,
                                struct ms_symbol_file **ret)
{
	const struct ms_code *code = &codes->at[number];
	struct ms_file_question question = { .kind = MS_FILE_CODE, .code = (uint32_t)number };
	enum ms_code_state state = MS_CODE_ABSENT;
	struct ms_file_answer answer;
	int fd;

	/* What is too large is the one that was mapped: no other is looked for. */
	while (state != MS_CODE_TOO_LARGE &&
	       (fd = finder->find(finder->ctx, &question, &answer)) >= 0) {
		struct ms_symbol_file *file =
			ms_symbol_file_take(fd, code->name, finder, question.code, arena);

		state = state_of(file, code);
		if (state == MS_CODE_OPEN) {
			*ret = file;
			return state;
		}
		if (file)
			ms_symbol_file_close(file);
		question.place = answer.place + 1;
	}
	return state;
}
