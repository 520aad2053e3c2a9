/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * history LOG: what a log says of blocks at a moment. Reads lines ADDRESS TIME (hexadecimal,
 * decimal), and writes for each, in the same order, the last record of the address up to
 * the time and the first after it: two groups of EVENT TIME SIZE CALLER, event 0 where
 * there is no such record. The last line is the number of records.
 */
#include "log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct question {
	struct question *next; /* of the same slot */
	uint64_t address, time;
	struct log_record before, after;
};

enum { SLOTS = 1 << 16 };

static struct question *slots[SLOTS];

static struct question **slot_of(uint64_t address)
{
	return &slots[(address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

static void answer(const struct log_record *inverted)
{
	struct log_record r = { ~inverted->time, ~inverted->address, ~inverted->what,
		                ~inverted->caller };

	for (struct question *q = *slot_of(r.address); q; q = q->next) {
		if (q->address != r.address)
			continue;
		if (r.time <= q->time)
			q->before = r;
		else if (!q->after.what)
			q->after = r;
	}
}

static void print(const struct log_record *r, const char *end)
{
	printf("%u %" PRIu64 " %" PRIu64 " %" PRIx64 "%s", (unsigned)(r->what >> LOG_EVENT_SHIFT),
	       r->time, r->what & ((UINT64_C(1) << LOG_EVENT_SHIFT) - 1), r->caller, end);
}

/* Records of the log: holes are not read, and what a thread had not finished is left out. */
static uint64_t read_log(int fd, const char *log, off_t size)
{
	uint64_t n = 0;
	off_t begin = 0, end;

	while (begin < size && (begin = lseek(fd, begin, SEEK_DATA)) >= 0) {
		end = lseek(fd, begin, SEEK_HOLE);
		for (; begin < end; begin += (off_t)sizeof(struct log_record)) {
			const struct log_record *r = (const void *)(log + begin);

			if (!r->time)
				continue;
			answer(r);
			n++;
		}
	}
	return n;
}

int main(int argc, char **argv)
{
	int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
	const char *log =
		size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	static struct question *all;
	size_t n = 0;
	uint64_t address, time, records;

	if (log == MAP_FAILED) {
		fprintf(stderr, "history: no log to read\n");
		return 1;
	}
	while (scanf("%" SCNx64 " %" SCNu64, &address, &time) == 2) {
		if (!(n & (n - 1)) && !(all = realloc(all, 2 * (n + 1) * sizeof(*all))))
			return 1;
		all[n++] = (struct question){ .address = address, .time = time };
	}
	for (size_t i = 0; i < n; i++) {
		struct question **slot = slot_of(all[i].address);

		all[i].next = *slot;
		*slot = &all[i];
	}
	records = read_log(fd, log, size);
	for (size_t i = 0; i < n; i++) {
		print(&all[i].before, " ");
		print(&all[i].after, "\n");
	}
	printf("%" PRIu64 "\n", records);
	return 0;
}
