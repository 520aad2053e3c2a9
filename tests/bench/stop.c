/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a tracer needs at least to stop all threads of a process once: the peer of an attach.
 *
 *	stop PID
 *
 * prints "NS ns THREADS": from the first thread's stop to the last one's release. All are seized
 * before. Threads that are made meanwhile are not looked for.
 */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST = 1 << 16 };

static pid_t threads[MOST];
static size_t n;

static uint64_t now_ns(void)
{
	struct timespec at;

	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000U + (uint64_t)at.tv_nsec;
}

static int seize_all(const char *pid)
{
	char path[64];
	const struct dirent *entry;
	DIR *folder;

	(void)snprintf(path, sizeof(path), "/proc/%s/task", pid);
	folder = opendir(path);
	while (folder && n < MOST && (entry = readdir(folder)) != NULL) {
		threads[n] = (pid_t)strtol(entry->d_name, NULL, 10);
		if (threads[n] && ptrace(PTRACE_SEIZE, threads[n], NULL, NULL) == 0)
			n++;
	}
	if (folder)
		(void)closedir(folder);
	return n > 0;
}

int main(int argc, char **argv)
{
	uint64_t since;
	int status;

	if (argc != 2 || !seize_all(argv[1])) {
		perror("stop PID");
		return 1;
	}
	since = now_ns();
	for (size_t i = 0; i < n; i++)
		(void)ptrace(PTRACE_INTERRUPT, threads[i], NULL, NULL);
	for (size_t i = 0; i < n; i++)
		(void)waitpid(threads[i], &status, __WALL);
	for (size_t i = 0; i < n; i++)
		(void)ptrace(PTRACE_DETACH, threads[i], NULL, NULL);
	printf("%lu ns %zu\n", (unsigned long)(now_ns() - since), n);
	return 0;
}
