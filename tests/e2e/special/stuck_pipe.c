/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * stuck_pipe: a pipe that holds pointers, and whose lock is held: a child writes to it from a page
 * that nobody makes (userfaultfd) until the input of the program ends.
 *
 * Tells the blocks (truth.h); "SKIP": userfaultfd() is not allowed here. At its end it reads all
 * that was written and says "received N".
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../../targets/truth.h"

enum { N = 40, PAGE = 4096 };

static uintptr_t sent[N]; /* inverted: so that it holds nothing */
static int ends[2], stuck[2], going[2], uffd;
static char *page;

static void *write_page(void *arg)
{
	if (write(ends[1], page, PAGE) != PAGE)
		_exit(96);
	return arg;
}

static int make_page_missing(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register whole = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	whole.range.start = (uintptr_t)page;
	whole.range.len = PAGE;
	return uffd >= 0 && !ioctl(uffd, UFFDIO_API, &api) && !ioctl(uffd, UFFDIO_REGISTER, &whole);
}

NOINLINE static void make(void)
{
	for (int i = 0; i < N; i++) {
		void *block = fresh(200);

		tell("live", block);
		sent[i] = ~(uintptr_t)block;
		if (write(ends[1], &block, sizeof(block)) != sizeof(block))
			_exit(97);
	}
	leak(77);
}

/* The page is asked for when the writer has the lock of the pipe; it comes when that is said. */
static int be_child(void)
{
	struct uffdio_zeropage zeros = { .range = { .len = PAGE } };
	struct uffd_msg fault;
	pthread_t writer;
	char word = 's';

	(void)close(going[1]);
	if (!make_page_missing() || pthread_create(&writer, NULL, write_page, NULL) != 0)
		return 92;
	if (read(uffd, &fault, sizeof(fault)) != sizeof(fault) || write(stuck[1], &word, 1) != 1)
		return 95;
	(void)read(going[0], &word, 1);
	zeros.range.start = (uintptr_t)page;
	return ioctl(uffd, UFFDIO_ZEROPAGE, &zeros) != 0 || pthread_join(writer, NULL) != 0;
}

static int receive(void)
{
	char bytes[N * sizeof(void *) + PAGE];
	size_t got = 0;

	while (got < sizeof(bytes)) {
		ssize_t n = read(ends[0], bytes + got, sizeof(bytes) - got);

		if (n <= 0)
			_exit(94);
		got += (size_t)n;
	}
	for (int i = 0; i < N; i++)
		if (((void **)(void *)bytes)[i] != (void *)~sent[i])
			_exit(93);
	return N;
}

int main(void)
{
	char word, line[32];

	if (pipe(ends) != 0 || pipe(stuck) != 0 || pipe(going) != 0)
		return 96;
	make();
	if (fork() == 0)
		_exit(be_child());
	(void)close(stuck[1]);
	if (read(stuck[0], &word, 1) != 1) {
		say_text("skip 0x0 0\nREADY\n");
		return 0;
	}
	forget();
	wait_for_end();
	(void)close(going[1]);
	(void)snprintf(line, sizeof(line), "received %d\n", receive());
	say_text(line);
	return 0;
}
