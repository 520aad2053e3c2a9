/* SPDX-License-Identifier: Apache-2.0 */
/* lsan: off */
#include <criterion/criterion.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "target/descriptors.h"

static struct ms_arena arena;

/* The instances that the runner of the tests has. */
static size_t of_the_runner;

static size_t epolls_after(const struct ms_descriptors *before, struct ms_descriptors *ret)
{
	ms_descriptors_look(getpid(), before, &arena, ret);
	return ret->epolls.n - of_the_runner;
}

static void count_runners(void)
{
	struct ms_descriptors found;

	of_the_runner = epolls_after(NULL, &found);
}

static bool is_one_of(const struct ms_fds *fds, int32_t wanted)
{
	const int32_t *fd;

	ms_vec_for_each (fd, fds)
		if (*fd == wanted)
			return true;
	return false;
}

TestSuite(descriptors, .init = count_runners);

Test(descriptors, have_each_epoll_instance_once)
{
	struct ms_descriptors found;
	struct ms_descriptors again;
	int first = epoll_create1(0);
	int second = epoll_create1(0);
	int event = eventfd(0, 0);

	for (int i = 0; i < 20; i++)
		cr_assert_geq(dup(i % 2 ? first : second), 0);
	cr_expect_eq(epolls_after(NULL, &found), 2);
	cr_expect(is_one_of(&found.others, event));
	cr_expect(!is_one_of(&found.others, first));
	cr_expect_eq(found.n_unseen, 0);
	cr_expect_eq(epolls_after(&found, &again), 2);
	ms_arena_deinit(&arena);
}

/* A new number, and one that was something else. */
Test(descriptors, that_are_epoll_instances_since_are_found)
{
	struct ms_descriptors before;
	struct ms_descriptors found;
	int event = eventfd(0, 0);
	int epoll;

	cr_expect_eq(epolls_after(NULL, &before), 0);
	epoll = epoll_create1(0);
	cr_expect_eq(epolls_after(&before, &found), 1);
	cr_expect(is_one_of(&found.epolls, epoll));
	cr_assert_eq(dup2(epoll, event), event);
	(void)close(epoll);
	cr_expect_eq(epolls_after(&before, &found), 1);
	cr_expect(is_one_of(&found.epolls, event));
	ms_arena_deinit(&arena);
}

Test(descriptors, that_were_epoll_instances_are_looked_at_again)
{
	struct ms_descriptors before;
	struct ms_descriptors found;
	int epoll = epoll_create1(0);
	int event = eventfd(0, 0);

	cr_expect_eq(epolls_after(NULL, &before), 1);
	cr_assert_eq(dup2(event, epoll), epoll);
	cr_expect_eq(epolls_after(&before, &found), 0);
	cr_expect(is_one_of(&found.others, epoll));
	ms_arena_deinit(&arena);
}

/* However many there are, those that were instances, or are new, are looked at. */
Test(descriptors, beyond_the_time_limit_are_counted)
{
	struct ms_descriptors before;
	struct ms_descriptors found;
	int last = -1;
	int epoll;

	while (last < 900)
		cr_assert_gt(last = dup(STDERR_FILENO), -1);
	epoll = epoll_create1(0);
	cr_expect_eq(epolls_after(NULL, &before), 1);
	cr_expect_eq(epolls_after(&before, &found), 1);
	cr_expect(is_one_of(&found.epolls, epoll));
	cr_expect_eq(found.others.n + found.n_unseen, before.others.n);
	ms_arena_deinit(&arena);
}
