/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that searches itself from each kind of place, a few times each, for tests with
 * many allocators: ten blocks are lost, and those are listed and no others, from main(), a
 * second thread and the handler of a signal, while nothing else runs, and while threads allocate;
 * and from a forked child. See api.h.
 */
#include "api.h"

#include <pthread.h>
#include <signal.h>

enum { PLANTED = 10, THREADS = 3, SLOTS = 64 };

static volatile bool ended;

static void *allocate(void *arg)
{
	void *held[SLOTS] = { NULL };
	unsigned seed = (unsigned)(uintptr_t)arg;

	while (!ended) {
		int slot = rand_r(&seed) % SLOTS;
		size_t size = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 50 ? 400 : 20000);

		free(held[slot]);
		/* An old link of an allocator's list of free blocks may lead to one that is lost.
		 */
		held[slot] = fresh(size);
	}
	for (int i = 0; i < SLOTS; i++)
		free(held[i]);
	return NULL;
}

/* Small ones, some of several pages, and a few that are mappings by themselves. */
static size_t size_of(size_t i)
{
	return i % 3 ? 40 * i : i % 2 ? 20000 : 400000;
}

NOINLINE static bool is_listed(const struct UnreachableMemoryInfo *info, size_t i)
{
	for (size_t k = 0; k < info->num_listed; k++)
		if (is_hidden(i, info->leaks[k].begin))
			return info->leaks[k].size == usable_size(i);
	return false;
}

static void expect_the_planted(void)
{
	struct UnreachableMemoryInfo info = { 0 };

	EXPECT(GetUnreachableMemory(&info, LIMIT), "failed");
	EXPECT(info.num_leaks == PLANTED, "%zu leaks", info.num_leaks);
	for (size_t i = 0; i < PLANTED; i++)
		EXPECT(is_listed(&info, i), "block %zu is not listed, or with another size", i);
	FreeUnreachableMemory(&info);
}

static void *in_thread(void *arg)
{
	expect_the_planted();
	return arg;
}

static void in_handler(int signal)
{
	(void)signal;
	expect_the_planted();
}

static void from_everywhere(void)
{
	pthread_t thread;

	forget();
	expect_the_planted();
	forget();
	EXPECT(!pthread_create(&thread, NULL, in_thread, NULL), "no thread");
	pthread_join(thread, NULL);
	signal(SIGUSR1, in_handler);
	forget();
	raise(SIGUSR1);
}

static void in_a_child(void)
{
	pid_t child;
	int status;

	forget();
	child = fork();
	if (!child) {
		expect_the_planted();
		_exit(0);
	}
	EXPECT(waitpid(child, &status, 0) == child && !status, "the child: %#x", status);
}

static void plant(void)
{
	for (size_t i = 0; i < PLANTED; i++)
		hide_new(i, size_of(i));
	forget(); /* a thread begins with registers of the one that made it */
}

static void alone(void)
{
	plant();
	from_everywhere();
	in_a_child();
}

static void beside_threads_that_allocate(void)
{
	pthread_t threads[THREADS];

	plant();
	for (size_t i = 0; i < THREADS; i++)
		EXPECT(!pthread_create(&threads[i], NULL, allocate, (void *)(i + 1)), "no thread");
	from_everywhere();
	ended = true;
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static const struct api_case cases[] = {
	{ "alone", alone },
	{ "beside_threads_that_allocate", beside_threads_that_allocate },
};

int main(int argc, char **argv)
{
	return RUN_CASE(cases, argc, argv);
}
