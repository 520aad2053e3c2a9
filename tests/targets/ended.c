// variants: static static-pie
/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that have ended, and what they returned: `ended SCENARIO`, `ended list`;
 * see truth.h.
 *
 * Who has not been joined yet can still be asked for the result, which is alive;
 * what joined and detached threads left behind is lost, though it still stands in
 * the stacks that the C library keeps for the next thread. All stacks are of one
 * size, so that the kept ones and those of threads to be joined can be as many.
 */
#include "truth.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>

enum { MAX_THREADS = 8, STACK_BYTES = 8 << 20 };

enum order { FORWARD, BACKWARD };

static pthread_t joined[MAX_THREADS];
static pthread_t waiting[MAX_THREADS];
static pthread_barrier_t barrier;

static int n_tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n - 2;
}

static void wait_until_alone(void)
{
	while (n_tasks() > 1)
		usleep(1000);
}

static void *lose_result(void *unused)
{
	void *result = fresh(334);

	(void)unused;
	tell("leak", result);
	pthread_barrier_wait(&barrier);
	forget();
	return result;
}

static void *return_a_block(void *unused)
{
	void *result = fresh(333);

	(void)unused;
	tell("live", result);
	pthread_barrier_wait(&barrier);
	forget();
	return result;
}

/* @n at one time, so that each has a stack of its own. */
static void start(pthread_t *ids, int n, void *(*body)(void *), int state)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, state);
	pthread_barrier_init(&barrier, NULL, (unsigned)n);
	for (int i = 0; i < n; i++)
		pthread_create(&ids[i], &attr, body, NULL);
	pthread_attr_destroy(&attr);
}

static void join(pthread_t *ids, int n, enum order order)
{
	for (int i = 0; i < n; i++)
		pthread_join(ids[order == FORWARD ? i : n - 1 - i], NULL);
	memset(ids, 0, MAX_THREADS * sizeof(ids[0]));
}

/* @n_joined threads are joined, then @n_waiting end, some of them on stacks of those. */
static void join_first(int n_joined, int n_waiting, enum order order)
{
	start(joined, n_joined, lose_result, PTHREAD_CREATE_JOINABLE);
	join(joined, n_joined, order);
	start(waiting, n_waiting, return_a_block, PTHREAD_CREATE_JOINABLE);
	wait_until_alone();
}

static void joined_4_waiting_2(void)
{
	join_first(4, 2, FORWARD);
}

static void joined_4_waiting_2_backward(void)
{
	join_first(4, 2, BACKWARD);
}

static void joined_2_waiting_1(void)
{
	join_first(2, 1, FORWARD);
}

static void joined_2_waiting_1_backward(void)
{
	join_first(2, 1, BACKWARD);
}

/* glibc keeps 40 MiB of stacks: one of the five is given back. */
static void joined_5_waiting_2(void)
{
	join_first(5, 2, FORWARD);
}

static void joined_5_waiting_2_backward(void)
{
	join_first(5, 2, BACKWARD);
}

/* The other way round: two have ended and wait, then two more come and are joined. */
static void waiting_2_joined_2(void)
{
	start(waiting, 2, return_a_block, PTHREAD_CREATE_JOINABLE);
	wait_until_alone();
	start(joined, 2, lose_result, PTHREAD_CREATE_JOINABLE);
	join(joined, 2, BACKWARD);
}

static void detached_2_waiting_2(void)
{
	start(joined, 2, lose_result, PTHREAD_CREATE_DETACHED);
	wait_until_alone();
	memset(joined, 0, sizeof(joined));
	start(waiting, 2, return_a_block, PTHREAD_CREATE_JOINABLE);
	wait_until_alone();
}

/* Detached when they had ended already. */
static void detached_late(void)
{
	start(joined, 2, lose_result, PTHREAD_CREATE_JOINABLE);
	wait_until_alone();
	start(waiting, 2, return_a_block, PTHREAD_CREATE_JOINABLE);
	wait_until_alone();
	for (int i = 0; i < 2; i++)
		pthread_detach(joined[i]);
	memset(joined, 0, sizeof(joined));
}

/* A thread with a block that only its stack holds; a child made by fork() does not have it. */
static void *hold_a_block(void *unused)
{
	void *volatile held = fresh(335);

	(void)unused;
	tell("leak", held);
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return held;
}

/* Go on in a child, which is scanned; the parent ends with it. */
static void go_on_in_a_child(void)
{
	pid_t pid = fork();

	if (pid) {
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	tell_pid(getpid());
	memset(waiting, 0, sizeof(waiting));
}

/* The threads of its parent have freed nothing: their caches are empty, and no thread has them. */
static void forked(void)
{
	start(waiting, 3, hold_a_block, PTHREAD_CREATE_JOINABLE);
	usleep(200000);
	go_on_in_a_child();
}

static void *fork_and_stay(void *unused)
{
	(void)unused;
	go_on_in_a_child();
	ready();
	return NULL;
}

/* The same for the cache of the main thread, which is not in the child. */
static void forked_by_a_thread(void)
{
	pthread_t id;

	pthread_create(&id, NULL, fork_and_stay, NULL);
	for (;;)
		pause();
}

static const struct scenario scenarios[] = {
	{ "joined_4_waiting_2", joined_4_waiting_2, 0 },
	{ "joined_4_waiting_2_backward", joined_4_waiting_2_backward, 0 },
	{ "joined_2_waiting_1", joined_2_waiting_1, 0 },
	{ "joined_2_waiting_1_backward", joined_2_waiting_1_backward, 0 },
	{ "joined_5_waiting_2", joined_5_waiting_2, 0 },
	{ "joined_5_waiting_2_backward", joined_5_waiting_2_backward, 0 },
	{ "waiting_2_joined_2", waiting_2_joined_2, 0 },
	{ "detached_2_waiting_2", detached_2_waiting_2, 0 },
	{ "detached_late", detached_late, 0 },
	{ "forked", forked, 0 },
	{ "forked_by_a_thread", forked_by_a_thread, 0 },
};

int main(int argc, char **argv)
{
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),
	                    argc > 1 ? argv[1] : "joined_4_waiting_2");
}
