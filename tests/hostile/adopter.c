/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adopter: a master that counts its children.
 *
 * Adopts orphans (the first of a pid namespace, or a subreaper). Each line of standard input
 * is a command to start as a child, by /bin/sh; "started PID" answers, and "ended PID STATUS"
 * comes when it ends. "strange PID STATUS" comes for a child that it has not started.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1024 };

static pid_t known[MOST];
static int n_known;

static void on_child(int signal)
{
	(void)signal;
}

static int forget(pid_t pid)
{
	for (int i = 0; i < n_known; i++)
		if (known[i] == pid) {
			known[i] = known[--n_known];
			return 1;
		}
	return 0;
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0)
		printf("%s %d %d\n", forget(pid) ? "ended" : "strange", pid, status);
	fflush(stdout);
}

static void start(const char *command)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || n_known == MOST)
		abort();
	known[n_known++] = pid;
	printf("started %d\n", pid);
	fflush(stdout);
}

int main(void)
{
	struct sigaction act = { .sa_handler = on_child };
	sigset_t blocked, before;
	char line[4096];
	size_t n = 0;

	(void)sigaction(SIGCHLD, &act, NULL);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &blocked, &before);
	for (;;) {
		struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
		char *end;
		ssize_t got;

		reap();
		if (ppoll(&in, 1, NULL, &before) < 0)
			continue;
		got = read(STDIN_FILENO, line + n, sizeof(line) - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
		line[n] = '\0';
		while ((end = strchr(line, '\n'))) {
			*end++ = '\0';
			start(line);
			n -= (size_t)(end - line);
			memmove(line, end, n + 1);
		}
	}
	return 0;
}
