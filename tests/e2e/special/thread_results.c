/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Arguments and results of threads, searched after each thread that is started:
 * `thread_results ROUNDS LOSE_ARGUMENTS LOSE_RESULTS DETACH`. Says "clean", or "leak"
 * as soon as one is found. With LOSE_ARGUMENTS threads do not free their argument;
 * with LOSE_RESULTS they are joined, but what they returned is not freed; with DETACH
 * nobody can ask for it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_THREADS = 10 };

extern int __lsan_do_recoverable_leak_check(void);

static int lose_arguments;
static int lose_results;
static int detach;

static void *work(void *argument)
{
	if (!lose_arguments)
		free(argument);
	return malloc(234);
}

static void end(pthread_t id)
{
	void *result = NULL;

	if (detach) {
		pthread_detach(id);
		return;
	}
	pthread_join(id, &result);
	if (!lose_results)
		free(result);
}

static int found_in_a_round(void)
{
	pthread_t ids[N_THREADS];

	for (int i = 0; i < N_THREADS; i++) {
		if (pthread_create(&ids[i], NULL, work, malloc(123)) != 0)
			exit(2);
		if (__lsan_do_recoverable_leak_check())
			return 1;
	}
	for (int i = 0; i < N_THREADS; i++)
		end(ids[i]);
	return 0;
}

int main(int argc, char **argv)
{
	int found = 0;

	if (argc != 5)
		return 2;
	lose_arguments = atoi(argv[2]);
	lose_results = atoi(argv[3]);
	detach = atoi(argv[4]);
	for (int left = atoi(argv[1]); left > 0 && !found; left--)
		found = found_in_a_round();
	puts(found ? "leak" : "clean");
	return 0;
}
