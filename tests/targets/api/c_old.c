/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that was compiled when UnreachableMemoryInfo had one version only: what the
 * header declared then stands here, word by word, in place of today's. See api.h.
 */
#define MEMUNREACHABLE_MEMUNREACHABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMUNREACHABLE_CONTENTS = 32, MEMUNREACHABLE_FRAMES = 16 };

struct UnreachableMemoryBacktrace {
	size_t num_frames;
	uintptr_t frames[MEMUNREACHABLE_FRAMES];
	size_t reserved[8];
};

struct UnreachableMemoryLeak {
	uintptr_t begin;
	size_t size;
	size_t referenced_count;
	size_t referenced_size;
	size_t similar_count;
	size_t similar_size;
	size_t similar_referenced_count;
	size_t similar_referenced_size;
	size_t total_size;
	char contents[MEMUNREACHABLE_CONTENTS];
	struct UnreachableMemoryBacktrace backtrace;
	size_t reserved[8];
};

struct UnreachableMemoryInfo {
	size_t version;
	size_t num_listed;
	struct UnreachableMemoryLeak *leaks;
	size_t num_leaks;
	size_t leak_bytes;
	size_t num_allocations;
	size_t allocation_bytes;
	size_t reserved[8];
};

bool GetUnreachableMemory(struct UnreachableMemoryInfo *info, size_t limit);
void FreeUnreachableMemory(struct UnreachableMemoryInfo *info);
size_t memunreachable_leak_text(const struct UnreachableMemoryLeak *leak, bool log_contents,
                                char *text, size_t size);

#include "api.h"

enum { LEAKS = 30 };

/* One entry for each, and nothing where nothing was. */
static void as_before(void)
{
	static const size_t none[8];
	struct UnreachableMemoryInfo info = { 0 };
	struct UnreachableMemoryInfo around[2];
	char text[512];

	for (size_t i = 0; i < LEAKS; i++)
		hide_new(i, BLOCK);
	forget();
	memset(around, 0xa5, sizeof(around));
	around[0].version = 0;
	EXPECT(GetUnreachableMemory(&around[0], LIMIT), "failed");
	info = around[0];
	EXPECT(info.version == 0 && info.num_leaks == LEAKS && info.num_listed == LEAKS,
	       "version %zu, %zu leaks, %zu listed", info.version, info.num_leaks, info.num_listed);
	for (size_t i = 0; i < sizeof(around[1]); i++)
		EXPECT(((unsigned char *)&around[1])[i] == 0xa5, "written behind its end");
	for (size_t i = 0; i < LEAKS; i++) {
		EXPECT(info.leaks[i].size == usable_size(0), "%zu bytes", info.leaks[i].size);
		EXPECT(!info.leaks[i].similar_count, "%zu similar", info.leaks[i].similar_count);
		EXPECT(!memcmp(info.leaks[i].reserved, none, sizeof(none)), "reserved is written");
	}
	EXPECT(memunreachable_leak_text(&info.leaks[0], false, text, sizeof(text)) < sizeof(text) &&
	               strstr(text, "bytes unreachable at ") && !strstr(text, "type"),
	       "text: %s", text);
	FreeUnreachableMemory(&info);
}

static const struct api_case cases[] = {
	{ "as_before", as_before },
};

int main(int argc, char **argv)
{
	return RUN_CASE(cases, argc, argv);
}
