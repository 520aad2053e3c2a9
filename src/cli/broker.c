/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/broker.h"

#include <string.h>

#include "sym/pass.h"

/*
 * Of each mapped file there are some places where it, its debug information, what that has in
 * common with others, and a server's may be; an honest reader asks for none of them twice.
 */
enum { MOST_OF_EACH = 64 };

int ms_broker_serve(struct ms_opener *opener, int channel)
{
	uint64_t most = (opener->n + UINT64_C(1)) * MOST_OF_EACH;
	struct ms_file_question question;
	struct ms_file_answer answer;

	for (uint64_t asked = 0; asked < most; asked++) {
		int fd;

		if (!ms_pass_receive(channel, &question, sizeof(question), NULL))
			return 0;
		memset(&answer, 0, sizeof(answer));
		fd = ms_opener_find(opener, &question, &answer);
		if (!ms_pass_send(channel, &answer, sizeof(answer), fd))
			return 0;
	}
	return 1;
}

int ms_broker_find(void *ctx, const struct ms_file_question *question, struct ms_file_answer *ret)
{
	const int *channel = ctx;
	int fd;

	if (!ms_pass_send(*channel, question, sizeof(*question), -1) ||
	    !ms_pass_receive(*channel, ret, sizeof(*ret), &fd))
		return -1;
	return fd;
}
