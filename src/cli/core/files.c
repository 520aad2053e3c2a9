/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that opens the files that a core names. The sweeper asks it, which has no rights; it
 * reads none of these files, and has a process of its own because to open one may take for ever.
 */
#include <string.h>

#include "cli/core/core.h"
#include "sym/pass.h"

/* A process has 65,530 mappings by default, and for each file there are some places. */
enum { MOST_QUESTIONS = 1 << 20 };

struct question {
	char path[PATH_MAX];
	ms_addr at;
	uint32_t program;
	uint32_t place;
};

/* ---- the process that opens ---- */

/* The one file that is asked for. */
static bool wanted_file(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	const struct question *question = files;

	(void)number;
	*ret = (struct ms_opener_file){ .path = question->path,
		                        .range = { question->at, question->at + 1 } };
	return true;
}

static int answer_one(const struct ms_naming_core *core, const struct question *question,
                      uint32_t *ret_place)
{
	const struct ms_file_question asked = { .kind = MS_FILE_CODE, .place = question->place };
	struct ms_naming_core named = *core;
	struct ms_file_answer answer = { .place = question->place };
	struct ms_opener opener;
	int fd;

	/* Another file is not the one that --exe gives. */
	named.exe = question->program ? core->exe : NULL;
	named.program = question->path;
	ms_naming_core_opener(&named, &opener);
	opener.file = wanted_file;
	opener.files = question;
	opener.n = 1;
	fd = ms_opener_find(&opener, &asked, &answer);
	*ret_place = answer.place + 1;
	return fd;
}

int ms_core_files_serve(const struct ms_naming_core *core, int channel)
{
	struct question question = { 0 };

	for (uint32_t n = 0; n < MOST_QUESTIONS; n++) {
		uint32_t place;
		int fd;

		if (!ms_pass_receive(channel, &question, sizeof(question), NULL))
			return 0;
		question.path[PATH_MAX - 1] = '\0';
		fd = answer_one(core, &question, &place);
		if (!ms_pass_send(channel, &place, sizeof(place), fd))
			return 0;
	}
	return 1;
}

/* ---- the sweeper ---- */

int ms_core_files_ask(int channel, const struct ms_core_wanted *wanted, uint32_t *place)
{
	struct question question = { .at = wanted->at,
		                     .program = wanted->program,
		                     .place = *place };
	int fd = -1;

	/* No file has such a name. */
	if (strlen(wanted->path) >= sizeof(question.path))
		return -1;
	memcpy(question.path, wanted->path, strlen(wanted->path));
	if (!ms_pass_send(channel, &question, sizeof(question), -1) ||
	    !ms_pass_receive(channel, place, sizeof(*place), &fd))
		return -1;
	return fd;
}
