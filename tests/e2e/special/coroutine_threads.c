/* SPDX-License-Identifier: Apache-2.0 */
/* N threads wait on coroutines' stacks that are parts of one heap block. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 64 << 10, OWN = 64 << 10 };

static char *stacks;
static pthread_barrier_t all;

static void wait_for_ever(void)
{
	pthread_barrier_wait(&all);
	for (;;)
		pause();
}

static void *leave_stack(void *stack)
{
	ucontext_t here, routine;

	getcontext(&routine);
	routine.uc_stack.ss_sp = stack;
	routine.uc_stack.ss_size = STACK;
	routine.uc_link = &here;
	makecontext(&routine, wait_for_ever, 0);
	swapcontext(&here, &routine);
	return NULL;
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	pthread_attr_t attr;
	pthread_t thread;

	stacks = malloc(n * STACK);
	memset(stacks, 1, n * STACK);
	pthread_barrier_init(&all, NULL, (unsigned)n + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, OWN);
	for (size_t i = 0; i < n; i++)
		if (pthread_create(&thread, &attr, leave_stack, stacks + i * STACK))
			return 1;
	pthread_barrier_wait(&all);
	puts("READY");
	fflush(stdout);
	for (;;)
		pause();
}
