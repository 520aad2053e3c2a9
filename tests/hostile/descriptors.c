/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors N ENTRIES DUPLICATES: N descriptors of a file, an epoll instance with so many
 * entries, whose data are the only pointers to blocks, and so many duplicates of it. A second
 * thread keeps making a new instance, and an entry with the only pointer to a block.
 *
 * Prints "READY". Ends with its input: prints "lost N", the entries whose block is not what
 * it was, status 0 or 1.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BYTES = 100, ROUND_US = 500 };

static atomic_int ending;
static atomic_int lost;

/* A block that only the entry for @fd in @epoll points to. */
static void __attribute__((noinline)) enter(int epoll, int fd, int op)
{
	struct epoll_event event = { .events = EPOLLIN };

	event.data.ptr = memset(malloc(BYTES), 'd', BYTES);
	if (epoll_ctl(epoll, op, fd, &event))
		abort();
	memset(&event, 0, sizeof(event));
	__asm__ volatile("" ::"r"(&event) : "memory");
}

static void __attribute__((noinline)) take(int epoll)
{
	struct epoll_event event = { 0 };

	if (epoll_wait(epoll, &event, 1, 0) != 1 || ((char *)event.data.ptr)[BYTES - 1] != 'd')
		atomic_fetch_add(&lost, 1);
	free(event.data.ptr);
}

static void *change(void *arg)
{
	while (!atomic_load(&ending)) {
		int epoll = epoll_create1(0);
		int event = eventfd(1, 0);

		enter(epoll, event, EPOLL_CTL_ADD);
		usleep(ROUND_US);
		take(epoll);
		close(event);
		close(epoll);
	}
	return arg;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000;
	int entries = argc > 2 ? atoi(argv[2]) : 100;
	int duplicates = argc > 3 ? atoi(argv[3]) : 10;
	struct rlimit most;
	pthread_t changer;
	int epoll;

	getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	for (int i = 0; i < n; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			abort();
	epoll = epoll_create1(0);
	for (int i = 0; i < entries; i++)
		enter(epoll, eventfd(0, 0), EPOLL_CTL_ADD);
	for (int i = 0; i < duplicates; i++)
		if (dup(epoll) < 0)
			abort();
	if (pthread_create(&changer, NULL, change, NULL))
		return 2;
	puts("READY");
	fflush(stdout);
	while (getchar() != EOF)
		;
	atomic_store(&ending, 1);
	pthread_join(changer, NULL);
	printf("lost %d\n", atomic_load(&lost));
	return atomic_load(&lost) > 0;
}
