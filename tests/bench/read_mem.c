/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One read of a process's heap, the limit that a whole scan is measured against.
 *
 *	read_mem PID
 *
 * Reads what can hold a heap (the brk heap, and anonymous writable mappings of at
 * least 128 KiB, malloc's own threshold) through /proc/PID/mem in pieces of 1 MiB,
 * as fast as one thread can, and does nothing with it. Prints "BYTES NS".
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 1 << 20, LEAST = 128 << 10, MOST_RANGES = 1 << 16 };

static struct range {
	uint64_t begin;
	uint64_t end;
} ranges[MOST_RANGES];

static char piece[PIECE];

static void die(const char *what)
{
	fprintf(stderr, "read_mem: %s\n", what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int can_hold_heap(const struct range *r, const char *mode, const char *name)
{
	if (strncmp(mode, "rw-p", 4))
		return 0;
	return !strcmp(name, "[heap]") || (!*name && r->end - r->begin >= LEAST);
}

static size_t list_ranges(const char *pid)
{
	char path[64], line[512], mode[8], name[256];
	size_t n = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		die("no such process");
	while (n < MOST_RANGES && fgets(line, sizeof(line), maps)) {
		struct range *r = &ranges[n];

		*name = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %255s", &r->begin,
		           &r->end, mode, name) >= 3)
			n += (size_t)can_hold_heap(r, mode, name);
	}
	fclose(maps);
	return n;
}

static uint64_t read_range(int mem, const struct range *r)
{
	uint64_t at = r->begin;

	while (at < r->end) {
		size_t len = r->end - at < PIECE ? r->end - at : PIECE;
		ssize_t got = pread(mem, piece, len, (off_t)at);

		if (got <= 0)
			die("unreadable");
		at += (uint64_t)got;
	}
	return r->end - r->begin;
}

int main(int argc, char **argv)
{
	uint64_t bytes = 0;
	uint64_t since;
	char path[64];
	size_t n;
	int mem;

	if (argc != 2)
		die("usage: read_mem PID");
	n = list_ranges(argv[1]);
	snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		die("not permitted");
	memset(piece, 1, sizeof(piece));
	since = now_ns();
	for (size_t i = 0; i < n; i++)
		bytes += read_range(mem, &ranges[i]);
	since = now_ns() - since;
	printf("%" PRIu64 " %" PRIu64 "\n", bytes, since);
	return 0;
}
