/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/worker.h"

static const uint64_t minute_ns = UINT64_C(60000000000);

static struct ms_error err;

static struct ms_worker start(int (*work)(void *ctx, int fd), uint64_t limit_ns)
{
	const struct ms_worker_call call = { "test", work, NULL, limit_ns };
	struct ms_worker worker;

	cr_assert_eq(ms_worker_start(&call, &worker, &err), MS_OK);
	return worker;
}

/* Read it to its end; false when that does not come in time. */
static bool hear(const struct ms_worker *worker, const char *expected)
{
	char text[64] = "";
	size_t n = 0;
	ssize_t more;

	while ((more = ms_worker_read(worker, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)more;
	cr_assert_str_eq(text, expected);
	return more == 0;
}

static int tell_and_end(void *ctx, int fd)
{
	(void)ctx;
	return write(fd, "hello", 5) == 5 ? 0 : 1;
}

/* The end of what it tells is not its own. */
static int tell_and_stay(void *ctx, int fd)
{
	(void)tell_and_end(ctx, fd);
	(void)close(fd);
	(void)sleep(1000);
	return 0;
}

static int stay(void *ctx, int fd)
{
	(void)ctx;
	(void)fd;
	(void)sleep(1000);
	return 0;
}

static int fail(void *ctx, int fd)
{
	(void)tell_and_end(ctx, fd);
	return 3;
}

static void is_gone(const struct ms_worker *worker)
{
	cr_assert_neq(kill(worker->pid, 0), 0);
}

Test(worker, what_it_tells_is_heard)
{
	struct ms_worker worker = start(tell_and_end, minute_ns);

	cr_assert(hear(&worker, "hello"));
	cr_assert(ms_worker_end(&worker, true));
	is_gone(&worker);
}

Test(worker, that_fails_says_so)
{
	struct ms_worker worker = start(fail, minute_ns);

	cr_assert(hear(&worker, "hello"));
	cr_assert_not(ms_worker_end(&worker, true));
}

Test(worker, that_says_nothing_is_not_waited_for, .timeout = 30)
{
	struct ms_worker worker = start(stay, 1);

	cr_assert_not(hear(&worker, ""));
	cr_assert_not(ms_worker_end(&worker, false));
	is_gone(&worker);
}

Test(worker, that_told_all_and_stays_is_not_waited_for, .timeout = 30)
{
	struct ms_worker worker = start(tell_and_stay, minute_ns / 600);

	(void)hear(&worker, "hello");
	cr_assert_not(ms_worker_end(&worker, true));
	is_gone(&worker);
}
