/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the readers of /proc/PID/maps and smaps. The kernel writes them, but names are
 * the target's, and of a process that runs they come in pieces that need not fit.
 *
 *	fuzz: -max_len=1024
 *
 * The first byte of an input chooses which; the rest is the text. It must neither crash
 * nor run on. Mappings must be in order; printed as the kernel does, they must be read as
 * the same again.
 */

#include <inttypes.h>
#include <string.h>

#include "target/maps.h"

#include "fuzz.h"

static char *print(const struct ms_mapping *m, char *to)
{
	return to + sprintf(to,
	                    "%" PRIx64 "-%" PRIx64 " %c%c%c%c %08" PRIx64 " %02x:%02x %" PRIu64
	                    " %s\n",
	                    m->range.begin, m->range.end, m->prot & MS_PROT_READ ? 'r' : '-',
	                    m->prot & MS_PROT_WRITE ? 'w' : '-', m->prot & MS_PROT_EXEC ? 'x' : '-',
	                    m->shared ? 's' : 'p', m->offset, m->dev_major, m->dev_minor, m->inode,
	                    m->name);
}

static bool is_same(const struct ms_mapping *a, const struct ms_mapping *b)
{
	return a->range.begin == b->range.begin && a->range.end == b->range.end &&
	       a->prot == b->prot && a->shared == b->shared && a->offset == b->offset &&
	       a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
	       a->inode == b->inode && !strcmp(a->name, b->name);
}

static void read_again(const struct ms_mappings *maps, struct ms_arena *arena)
{
	struct ms_mappings again = { 0 };
	struct ms_error err;
	size_t bytes = 1;
	char *text;
	char *to;

	for (size_t i = 0; i < maps->n; i++)
		bytes += 128 + strlen(maps->at[i].name);
	to = text = malloc(bytes);
	require(text, "there is memory");
	for (size_t i = 0; i < maps->n; i++)
		to = print(&maps->at[i], to);
	require(!ms_maps_parse(text, (size_t)(to - text), arena, &again, &err) &&
	                again.n == maps->n,
	        "what is printed can be read");
	for (size_t i = 0; i < maps->n; i++)
		require(is_same(&again.at[i], &maps->at[i]), "it is the same again");
	free(text);
}

static void parse(const char *text, size_t size, struct ms_arena *arena)
{
	struct ms_mappings maps = { 0 };
	struct ms_error err;
	ms_addr end = 0;

	memset(&err, 0, sizeof(err));
	if (ms_maps_parse(text, size, arena, &maps, &err)) {
		require(err.status && err.text[0], "an error is told");
		return;
	}
	for (size_t i = 0; i < maps.n; i++) {
		require(maps.at[i].range.begin >= end && maps.at[i].range.end > end,
		        "mappings are in order");
		end = maps.at[i].range.end;
	}
	read_again(&maps, arena);
}

static void parse_wiped(const char *text, size_t size, struct ms_arena *arena)
{
	char *copy = malloc(size + 1);
	struct ms_ranges wiped = { 0 };
	struct ms_error err;

	require(copy, "there is memory");
	memcpy(copy, text, size);
	copy[size] = '\0';
	require(!ms_maps_parse_flagged(copy, MS_FLAG_WIPED, arena, &wiped, &err),
	        "every text can be read");
	require(wiped.n <= size / strlen("VmFlags: wf"), "each is told by a line");
	for (size_t i = 0; i < wiped.n; i++)
		require(wiped.at[i].begin <= wiped.at[i].end, "a range is one");
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ms_arena arena = { 0 };

	if (!size)
		return -1;
	if (data[0] % 2)
		parse_wiped((const char *)data + 1, size - 1, &arena);
	else
		parse((const char *)data + 1, size - 1, &arena);
	ms_arena_deinit(&arena);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	static const char maps[] =
		"\0"
		"00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/a b\n"
		"00651000-00652000 rw-p 00051000 fd:1f 173521      /usr/bin/a b (deleted)\n"
		"00e03000-00e24000 rw-p 00000000 00:00 0           [heap]\n"
		"7f2c4b9f0000-7f2c4b9f1000 ---p 00000000 00:00 0 \n"
		"7f2c4b9f1000-7f2c4b9f2000 rw-s 00000000 00:01 4294967295 /memfd:x\\012y\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n";
	static const char overlap[] = "\0"
				      "1000-3000 rw-p 0 0:0 0 a\n"
				      "2000-4000 rw-p 0 0:0 0 a\n";
	static const char smaps[] = "\1"
				    "7f2c4b9f0000-7f2c4b9f1000 rw-p 00000000 00:00 0 \n"
				    "Size:                  4 kB\n"
				    "AnonHugePages:         0 kB\n"
				    "VmFlags: rd wr mr mw me ac wf sd \n"
				    "7f2c4b9f1000-7f2c4b9f2000 rw-p 00000000 00:00 0 \n"
				    "VmFlags: rd wr mr mw me ac sd \n";

	take(maps, sizeof(maps) - 1);
	take(overlap, sizeof(overlap) - 1);
	take(smaps, sizeof(smaps) - 1);
}
