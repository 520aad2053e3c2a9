/*
 * SPDX-License-Identifier: Apache-2.0
 * variants: static static-pie
 *
 * Threads that stand in known chains of calls, one kind each. Main answers every line
 * of its input with how far a counter has come, to show that threads run on.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What keeps a call from being inlined, merged, or made a jump. */
#define LINK __attribute__((noipa))
#define STAY __asm__ volatile("" ::: "memory")

static volatile unsigned long count;
static void (*volatile nowhere)(void) = (void (*)(void))0x1234;

LINK static void rest(void)
{
	for (;;)
		pause();
}

/* ---- a plain chain ---- */

LINK static void chain_leaf(void)
{
	rest();
	STAY;
}

LINK static void chain_middle(void)
{
	chain_leaf();
	STAY;
}

static void *chain_thread(void *unused)
{
	chain_middle();
	return unused;
}

/* ---- recursion deeper than what is shown ---- */

LINK static void recurse(int n)
{
	if (n == 0)
		rest();
	else
		recurse(n - 1);
	STAY;
}

static void *deep_thread(void *unused)
{
	recurse(400);
	return unused;
}

/* ---- a stack larger than what is copied ---- */

LINK static void spread(int n)
{
	volatile char much[16 * 1024];

	much[0] = 0;
	if (n == 0)
		rest();
	else
		spread(n - 1);
	(void)much[0];
	STAY;
}

static void *large_thread(void *unused)
{
	spread(100);
	return unused;
}

/* ---- in a signal's handler: on the same stack, and on another ---- */

static void handle(int signal)
{
	(void)signal;
	rest();
	STAY;
}

LINK static void interrupted(int signal)
{
	(void)raise(signal);
	STAY;
}

static void *signal_thread(void *unused)
{
	interrupted(SIGUSR1);
	return unused;
}

static void *other_stack_thread(void *unused)
{
	static char bytes[64 * 1024];
	const stack_t stack = { .ss_sp = bytes, .ss_size = sizeof(bytes) };

	(void)sigaltstack(&stack, NULL);
	interrupted(SIGUSR2);
	return unused;
}

/* ---- called through a bad pointer ---- */

LINK static void call_nowhere(void)
{
	nowhere();
	STAY;
}

static void *nowhere_thread(void *unused)
{
	call_nowhere();
	return unused;
}

/* ---- asleep in the kernel: the parent of a vfork ---- */

static void *vfork_thread(void *unused)
{
	pid_t child = vfork();

	if (child == 0) {
		for (;;)
			pause();
	}
	return unused;
}

/* ---- one that never rests ---- */

LINK static void count_up(void)
{
	for (;;)
		count++;
}

static void *busy_thread(void *unused)
{
	count_up();
	return unused;
}

static void start(const char *name, void *(*body)(void *))
{
	pthread_t id;

	if (pthread_create(&id, NULL, body, NULL) != 0)
		_exit(97);
	(void)pthread_setname_np(id, name);
}

static void set_handlers(void)
{
	struct sigaction act = { .sa_handler = handle };

	(void)sigaction(SIGUSR1, &act, NULL);
	(void)sigaction(SIGSEGV, &act, NULL);
	act.sa_flags = SA_ONSTACK;
	(void)sigaction(SIGUSR2, &act, NULL);
}

LINK static void answer(void)
{
	char byte;

	while (read(0, &byte, 1) == 1)
		if (byte == '\n') {
			printf("%lu\n", count);
			(void)fflush(stdout);
		}
	STAY;
}

int main(int argc, char **argv)
{
	set_handlers();
	start("chain", chain_thread);
	start("deep", deep_thread);
	start("large", large_thread);
	start("signal", signal_thread);
	start("other stack", other_stack_thread);
	start("nowhere", nowhere_thread);
	start("busy", busy_thread);
	start("\033[1mhostile\n\"", chain_thread);
	if (argc > 1 && strcmp(argv[1], "vfork") == 0)
		start("vfork", vfork_thread);
	usleep(200000); /* until all are where they stay */
	puts("READY");
	(void)fflush(stdout);
	answer();
	_exit(0);
}
