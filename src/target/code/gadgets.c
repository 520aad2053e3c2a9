/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two pieces of code that every C library has, found by their bytes: symbols would not
 * do, for the one is no function of its own and the other is hidden.
 */
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/proc.h"
#include "target/target.h"

/*
 * What is read of a process counts as resident in it from then on, and may come from its disk: no
 * more than is needed. C libraries have both in their first half MiB of code.
 */
enum {
	PIECE = 1 << 16,
	OVERLAP = MS_GADGET_BYTES,
	MAX_PIECES = 1 << 12,
};

struct search {
	const struct ms_arch_calls *calls;
	int mem_fd;
	uint8_t *buf;
};

/* Look through @text, until both are found or enough has been read in all. */
static void search(const struct search *s, struct ms_range text, unsigned *pieces,
                   struct ms_gadgets *ret)
{
	for (ms_addr at = text.begin; at < text.end; at += PIECE - OVERLAP, ++*pieces) {
		uint64_t left = text.end - at;
		ssize_t n;

		if ((ret->call && ret->restore) || *pieces == MAX_PIECES)
			return;
		n = pread(s->mem_fd, s->buf, left < PIECE ? (size_t)left : PIECE, (off_t)at);
		if (n <= 0)
			return;
		s->calls->find(s->buf, (size_t)n, at, ret);
	}
}

void ms_gadgets_find(pid_t pid, struct ms_collection *shared, struct ms_arena *arena)
{
	int mem_fd = ms_proc_open(ms_proc_living_thread(pid), "mem", O_RDONLY);
	uint8_t *buf = ms_arena_alloc(arena, PIECE);
	const struct search s = { shared->arch->calls, mem_fd, buf };
	unsigned pieces = 0;

	shared->gadgets = (struct ms_gadgets){ 0 };
	if (mem_fd < 0 || !buf || !s.calls)
		goto out;
	/* The C library's first: then few others need to be read. */
	for (uint32_t i = 0; i < shared->n_libc_code; i++)
		search(&s, shared->libc_code[i], &pieces, &shared->gadgets);
	for (uint32_t i = 0; i < shared->n_all_code; i++)
		search(&s, shared->all_code[i], &pieces, &shared->gadgets);
out:
	if (mem_fd >= 0)
		(void)close(mem_fd);
}
