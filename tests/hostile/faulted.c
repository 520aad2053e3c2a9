/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faulted: memory whose pages a thread of the program's own makes when they are touched
 * (userfaultfd), as a program that was moved between machines has it, or that keeps some
 * compressed. Half of them hold the only pointers to live blocks and are not there yet.
 *
 * Prints "READY"; with the end of its input touches and frees all, prints "freed N", and
 * ends; "SKIP": userfaultfd() is not allowed here.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 64, PAGE = 4096, BLOCK = 200 };

static uintptr_t stored[PAGES]; /* inverted: so that it holds nothing */
static void **pages;
static int uffd;

static void *serve(void *arg)
{
	struct uffd_msg message;

	while (read(uffd, &message, sizeof(message)) == sizeof(message)) {
		uint64_t at = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
		uintptr_t words[PAGE / sizeof(uintptr_t)] = { 0 };
		struct uffdio_copy copy = { .dst = at, .src = (uintptr_t)words, .len = PAGE };

		words[5] = ~stored[(at - (uintptr_t)pages) / PAGE];
		(void)ioctl(uffd, UFFDIO_COPY, &copy);
		memset(words, 0, sizeof(words));
	}
	return arg;
}

static int start(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register whole = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t server;

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	             0);
	whole.range.start = (uintptr_t)pages;
	whole.range.len = PAGES * PAGE;
	return uffd >= 0 && !ioctl(uffd, UFFDIO_API, &api) &&
	       !ioctl(uffd, UFFDIO_REGISTER, &whole) && !pthread_create(&server, NULL, serve, NULL);
}

static void **held_by(int page)
{
	return pages + (size_t)page * PAGE / sizeof(*pages) + 5;
}

int main(void)
{
	int freed = 0;

	if (!start()) {
		(void)puts("SKIP");
		return 0;
	}
	for (int i = 0; i < PAGES; i++)
		stored[i] = ~(uintptr_t)malloc(BLOCK);
	for (int i = 0; i < PAGES; i += 2)
		(void)*(void *volatile *)held_by(i);
	(void)puts("READY");
	(void)fflush(stdout);
	(void)getchar();
	for (int i = 0; i < PAGES; i++, freed++)
		free(*held_by(i));
	(void)printf("freed %d\n", freed);
	return 0;
}
