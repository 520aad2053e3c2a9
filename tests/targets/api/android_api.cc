// SPDX-License-Identifier: Apache-2.0
//
// A program written for Android's header of libmemunreachable: namespace android, its
// types and default arguments; see api.h.
#include "api.h"

#include <pthread.h>

#include <string>
#include <vector>

using namespace android;

namespace
{

// A block with a known address that is kept inverted only.
class Lost
{
      public:
	explicit Lost(size_t i = 0, size_t size = BLOCK) : index(i)
	{
		hide_new(index, size);
	}
	~Lost()
	{
		Free();
	}
	void Free()
	{
		if (hidden[index])
			free_hidden(index);
	}

      private:
	size_t index;
};

void Clean()
{
	EXPECT_LEAKS(0);
	EXPECT(NoLeaks(), "leaks, where there are none");
}

void StackReference()
{
	void *volatile held;
	Lost lost;

	held = revealed(0);
	EXPECT_LEAKS(0);
	held = nullptr;
	EXPECT_LEAKS(1);
	lost.Free();
	EXPECT_LEAKS(0);
	(void)held;
}

void *volatile global;

void GlobalReference()
{
	Lost lost;

	global = revealed(0);
	EXPECT_LEAKS(0);
	global = nullptr;
	EXPECT_LEAKS(1);
	lost.Free();
	EXPECT_LEAKS(0);
}

void ThreadSpecific()
{
	pthread_key_t key;
	Lost lost;

	EXPECT(!pthread_key_create(&key, nullptr), "no key");
	pthread_setspecific(key, revealed(0));
	EXPECT_LEAKS(0);
	pthread_setspecific(key, nullptr);
	EXPECT_LEAKS(1);
	lost.Free();
	EXPECT_LEAKS(0);
	pthread_key_delete(key);
}

// The first result is gone when the second search is made.
void Twice()
{
	Lost lost;

	for (int i = 0; i < 2; i++) {
		forget();
		UnreachableMemoryInfo info;

		EXPECT(GetUnreachableMemory(info), "failed");
		EXPECT(info.leaks.size() == 1 && info.num_leaks == 1, "search %d: %zu leaks", i,
		       info.num_leaks);
		EXPECT(is_hidden(0, info.leaks[0].begin), "another block");
	}
	lost.Free();
	Clean();
}

// The first result is still there, and one is used again.
void TwiceAlive()
{
	UnreachableMemoryInfo first, second;
	Lost lost;

	for (UnreachableMemoryInfo *info : { &first, &second, &first }) {
		forget();
		EXPECT(GetUnreachableMemory(*info), "failed");
		EXPECT(info->leaks.size() == 1 && info->num_leaks == 1, "%zu leaks",
		       info->num_leaks);
	}
	EXPECT(is_hidden(0, first.leaks[0].begin) && is_hidden(0, second.leaks[0].begin),
	       "another block");
	EXPECT(!NoLeaks(), "no leaks, where there is one");
	lost.Free();
	forget();
	EXPECT(GetUnreachableMemory(first) && first.leaks.empty(), "%zu leaks", first.num_leaks);
}

void Log()
{
	Lost lost;

	forget();
	EXPECT(LogUnreachableMemory(true, 100), "failed");
	forget();
	EXPECT(LogUnreachableMemory(false, 0), "failed");
	EXPECT_LEAKS(1);
}

void NotDumpable()
{
	UnreachableMemoryInfo info;

	become_nobody();
	EXPECT_LEAKS(0);
	EXPECT(!prctl(PR_SET_DUMPABLE, 0), "prctl: %s", strerror(errno));
	EXPECT(!LogUnreachableMemory(true, 100), "not dumpable, and logged");
	EXPECT(!GetUnreachableMemory(info), "not dumpable, and searched");
	EXPECT(!NoLeaks(), "not dumpable, and no leaks");
	EXPECT(GetUnreachableMemoryString().rfind("Failed to get unreachable memory\n", 0) == 0,
	       "%s", GetUnreachableMemoryString().c_str());
}

void LeakLots()
{
	UnreachableMemoryInfo info;
	size_t bytes = 0;

	for (size_t i = 0; i < N_HIDDEN; i++) {
		hide_new(i, BLOCK);
		bytes += usable_size(i);
	}
	forget();
	EXPECT(LogUnreachableMemory(true, 100), "failed");
	forget();
	EXPECT(GetUnreachableMemory(info, 100), "failed");
	EXPECT(info.leaks.size() == 100, "%zu listed", info.leaks.size());
	EXPECT(info.num_leaks == N_HIDDEN, "%zu leaks", info.num_leaks);
	EXPECT(info.leak_bytes == bytes, "%zu bytes, not %zu", info.leak_bytes, bytes);
	EXPECT(info.num_allocations >= N_HIDDEN && info.allocation_bytes >= bytes, "totals");
	for (size_t i = 0; i < N_HIDDEN; i++)
		free_hidden(i);
	EXPECT_LEAKS(0);
}

void Version()
{
	UnreachableMemoryInfo info;
	Lost lost;

	info.version = 1;
	forget();
	EXPECT(!GetUnreachableMemory(info), "version 1 is taken");
	EXPECT(info.leaks.empty() && !info.num_leaks && !info.leak_bytes, "%zu leaks",
	       info.num_leaks);
	EXPECT_LEAKS(1);
}

// 0 leads to 1, and 1 to 2.
void Referenced()
{
	Lost first(0, 100), second(1, 200), third(2, 300);
	UnreachableMemoryInfo info;

	point_to(0, 3, 1);
	point_to(1, 4, 2);
	forget();
	EXPECT(GetUnreachableMemory(info), "failed");
	EXPECT(info.num_leaks == 3 && info.leaks.size() == 1, "%zu leaks, %zu listed",
	       info.num_leaks, info.leaks.size());
	const Leak &leak = info.leaks[0];
	EXPECT(is_hidden(0, leak.begin), "not the block that leads to the others");
	EXPECT(leak.referenced_count == 2, "%zu referenced", leak.referenced_count);
	EXPECT(leak.referenced_size == usable_size(1) + usable_size(2), "%zu bytes referenced",
	       leak.referenced_size);
	EXPECT(leak.total_size == leak.size + leak.referenced_size, "%zu in all", leak.total_size);
	EXPECT(leak.total_size == info.leak_bytes, "%zu bytes", info.leak_bytes);
	EXPECT(leak.similar_count == 0 && leak.backtrace.num_frames == 0, "similar");
	std::string text = leak.ToString(false);
	std::string wanted = "referencing " + std::to_string(leak.referenced_size) +
	                     " unreachable bytes in 2 allocations\n";
	EXPECT(text.find(wanted) != std::string::npos, "%s", text.c_str());
}

void Contents()
{
	static const char text[] = "what the block begins with, and more of it";
	UnreachableMemoryInfo info;
	Lost lost;

	fill_hidden(0, 0, text);
	forget();
	EXPECT(GetUnreachableMemory(info) && info.leaks.size() == 1, "failed");
	EXPECT(!memcmp(info.leaks[0].contents, text, Leak::contents_length), "contents");
}

std::string hex(uintptr_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%zx", (size_t)value);
	return text;
}

void Strings()
{
	UnreachableMemoryInfo info;
	Lost lost;

	fill_hidden(0, 0, "abc\xff");
	forget();
	EXPECT(GetUnreachableMemory(info) && info.leaks.size() == 1, "failed");
	const Leak &leak = info.leaks[0];
	std::string size = std::to_string(leak.size), address = hex(leak.begin);
	std::string first = "  " + size + " bytes unreachable at " + address + "\n";
	std::string shown = "   first 32 bytes of contents:\n   " + address + ": 61 62 63 ff 00 00";
	std::string head =
		"  " + size + " bytes in 1 unreachable allocation\n  ABI: '" ABI_NAME "'\n\n";

	EXPECT(leak.ToString(false) == first, "%s", leak.ToString(false).c_str());
	EXPECT(leak.ToString(true).rfind(first + shown, 0) == 0, "%s", leak.ToString(true).c_str());
	EXPECT(info.ToString(false) == head + first + "\n", "%s", info.ToString(false).c_str());
	EXPECT(info.ToString(true) == head + leak.ToString(true) + "\n", "%s",
	       info.ToString(true).c_str());
	EXPECT(GetUnreachableMemoryString(false, 0) == head, "%s",
	       GetUnreachableMemoryString(false, 0).c_str());
}

// By default 100 are listed, and no contents.
void StringDefaults()
{
	std::string text;
	size_t lines = 0;

	for (size_t i = 0; i < 150; i++)
		hide_new(i, BLOCK);
	forget();
	text = GetUnreachableMemoryString();
	EXPECT(text.find(" in 150 unreachable allocations\n") != std::string::npos, "%s",
	       text.c_str());
	EXPECT(text.find("contents") == std::string::npos, "contents");
	for (size_t at = 0; (at = text.find("bytes unreachable at", at)) != std::string::npos; at++)
		lines++;
	EXPECT(lines == 100, "%zu leaks in the text", lines);
}

const api_case cases[] = {
	{ "clean", Clean },
	{ "stack_reference", StackReference },
	{ "global_reference", GlobalReference },
	{ "thread_specific", ThreadSpecific },
	{ "twice", Twice },
	{ "twice_alive", TwiceAlive },
	{ "log", Log },
	{ "not_dumpable", NotDumpable },
	{ "leak_lots", LeakLots },
	{ "version", Version },
	{ "referenced", Referenced },
	{ "contents", Contents },
	{ "strings", Strings },
	{ "string_defaults", StringDefaults },
};

} // namespace

static bool search(size_t *ret_leaks)
{
	UnreachableMemoryInfo info;

	if (!GetUnreachableMemory(info))
		return false;
	*ret_leaks = info.num_leaks;
	return true;
}

int main(int argc, char **argv)
{
	return RUN_CASE(cases, argc, argv);
}
