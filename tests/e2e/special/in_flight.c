/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that only the kernel holds, for requests of io_uring: in_flight HOW [LEAKS [BYTES]]
 *
 *	waiting    of three requests that wait for a pipe
 *	unread     of three requests that were answered; the program has not read the answers
 *	read       of none: the answers were read, and the blocks forgotten
 *
 * Each has another block. Besides there are so many LEAKS (none by default) of the same size, or
 * of so many BYTES.
 * Says what is lost (truth.h); "live" are those that are in use, by the kernel alone. Exits with
 * status 77 where the kernel has no io_uring for it.
 */
#include "../../targets/truth.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { HELD = 3, BYTES = 72, INNER_BYTES = 100, ENTRIES = 8 };

static struct {
	int fd;
	struct io_uring_params params;
	uint8_t *queues;
	struct io_uring_sqe *requests;
} ring;

static uint32_t *number(uint32_t offset)
{
	return (uint32_t *)(void *)(ring.queues + offset);
}

static void set_up(void)
{
	const struct io_uring_params *p = &ring.params;

	ring.fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &ring.params);
	if (ring.fd < 0)
		_exit(77);
	ring.queues = mmap(NULL, p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe),
	                   PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	ring.requests = mmap(NULL, p->sq_entries * sizeof(struct io_uring_sqe),
	                     PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	if (ring.queues == MAP_FAILED || ring.requests == MAP_FAILED ||
	    !(p->features & IORING_FEAT_SINGLE_MMAP))
		_exit(77);
}

/* Ask for a byte from @fd, and give the kernel a block to remember. */
NOINLINE static void ask(uint32_t i, int fd, const char *fact)
{
	char **block = fresh(BYTES);

	*block = fresh(INNER_BYTES);
	tell(fact, block);
	tell(fact, *block);
	ring.requests[i] = (struct io_uring_sqe){ .opcode = IORING_OP_POLL_ADD,
		                                  .fd = fd,
		                                  .poll32_events = POLLIN,
		                                  .user_data = (uintptr_t)block };
	number(ring.params.sq_off.array)[i] = i;
}

static void ask_all(int fd, const char *fact)
{
	for (uint32_t i = 0; i < HELD; i++)
		ask(i, fd, fact);
	*number(ring.params.sq_off.tail) = HELD;
	if (syscall(SYS_io_uring_enter, ring.fd, HELD, 0, 0, NULL, 0) != HELD)
		_exit(77);
	memset(ring.requests, 0, ring.params.sq_entries * sizeof(*ring.requests));
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	const int leaks = argc > 2 ? atoi(argv[2]) : 0;
	const size_t bytes = argc > 3 ? (size_t)atoi(argv[3]) : BYTES;
	const char *fact = strcmp(how, "read") == 0 ? "leak" : "live";
	int fds[2];

	set_up();
	if (pipe(fds))
		_exit(99);
	ask_all(fds[0], fact);
	if (strcmp(how, "waiting") != 0 &&
	    (write(fds[1], "x", 1) != 1 ||
	     syscall(SYS_io_uring_enter, ring.fd, 0, HELD, IORING_ENTER_GETEVENTS, NULL, 0) != 0))
		_exit(99);
	if (strcmp(how, "read") == 0) {
		*number(ring.params.cq_off.head) = HELD;
		memset(ring.queues + ring.params.cq_off.cqes, 0,
		       HELD * sizeof(struct io_uring_cqe));
	}
	for (int i = 0; i < leaks; i++)
		leak(bytes);
	forget();
	wait_for_end();
	return 0;
}
