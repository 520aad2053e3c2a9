// SPDX-License-Identifier: Apache-2.0
//
// Leaks of one mistake are one entry, with its type and signature, for those who ask for
// that version; in C++, by the C functions. See api.h. `PROGRAM wait` prints what it found,
// and stays until its input ends: memscan is to say the same.
#include "api.h"

using memunreachable_c::FreeUnreachableMemory;
using memunreachable_c::GetUnreachableMemory;
using memunreachable_c::UnreachableMemoryInfo;
using memunreachable_c::UnreachableMemoryLeak;

namespace
{

enum { SESSIONS = 30 };

class Session
{
      public:
	virtual ~Session() = default;
	virtual int id() const
	{
		return id_;
	}

      private:
	int id_ = 7;
	char name_[100] = "session";
};

NOINLINE void lose_session(size_t i)
{
	hidden[i] = ~reinterpret_cast<uintptr_t>(new Session);
	fences[i] = fresh(8);
}

void lose_sessions()
{
	for (size_t i = 0; i < SESSIONS; i++)
		lose_session(i);
}

UnreachableMemoryInfo found(size_t version)
{
	UnreachableMemoryInfo info = {};

	info.version = version;
	EXPECT(GetUnreachableMemory(&info, LIMIT), "failed");
	EXPECT(info.version == version, "version %zu", info.version);
	return info;
}

bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

void Merged()
{
	UnreachableMemoryInfo info;

	lose_sessions();
	forget();
	info = found(memunreachable_c::MEMUNREACHABLE_MERGED);
	EXPECT(info.num_leaks == SESSIONS && info.num_listed == 1, "%zu leaks, %zu listed",
	       info.num_leaks, info.num_listed);

	const UnreachableMemoryLeak &leak = info.leaks[0];

	EXPECT(leak.similar_count == SESSIONS - 1, "%zu similar", leak.similar_count);
	EXPECT(leak.similar_size == (SESSIONS - 1) * leak.size, "%zu bytes", leak.similar_size);
	EXPECT(leak.total_size == info.leak_bytes, "%zu bytes in total", leak.total_size);
	EXPECT(ends_with(leak.type, "Session"), "type '%s'", leak.type);
	EXPECT(!strcmp(leak.how, "vtable"), "how '%s'", leak.how);
	EXPECT(strstr(leak.module, "/cc_merged"), "module '%s'", leak.module);
	EXPECT(strlen(leak.signature) == 16, "signature '%s'", leak.signature);
	FreeUnreachableMemory(&info);
	/* Neither the names nor the search hold any of them. */
	EXPECT_LEAKS(SESSIONS);
}

/* Types that differ, and blocks without one. */
void Several()
{
	UnreachableMemoryInfo info;

	lose_sessions();
	for (size_t i = SESSIONS; i < SESSIONS + 2; i++)
		hide_new(i, 2 * BLOCK);
	forget();
	info = found(memunreachable_c::MEMUNREACHABLE_MERGED);
	EXPECT(info.num_listed == 2, "%zu listed", info.num_listed);

	const UnreachableMemoryLeak &plain = info.leaks[1];

	EXPECT(plain.similar_count == 1, "%zu similar", plain.similar_count);
	EXPECT(!*plain.type && !*plain.how && !*plain.module, "type '%s', how '%s', module '%s'",
	       plain.type, plain.how, plain.module);
	EXPECT(strcmp(plain.signature, info.leaks[0].signature) != 0, "one signature");
	FreeUnreachableMemory(&info);
}

void Apart()
{
	UnreachableMemoryInfo info;

	lose_sessions();
	forget();
	info = found(0);
	EXPECT(info.num_listed == SESSIONS, "%zu listed", info.num_listed);
	EXPECT(!info.leaks[0].type && !info.leaks[0].signature[0], "more than version 0 has");
	FreeUnreachableMemory(&info);
}

void Text()
{
	UnreachableMemoryInfo info;
	char text[1024];

	lose_sessions();
	forget();
	info = found(memunreachable_c::MEMUNREACHABLE_MERGED);
	memunreachable_c::memunreachable_leak_text(&info.leaks[0], false, text, sizeof(text));
	EXPECT(strstr(text, " similar unreachable bytes in 29 allocations\n") &&
	               strstr(text, "Session (vtable of cc_merged"),
	       "text: %s", text);
	FreeUnreachableMemory(&info);
}

void *volatile g_session;

void Why()
{
	char *text;

	lose_session(0);
	g_session = revealed(0);
	forget();
	text = memunreachable_why(g_session);
	EXPECT(text && strstr(text, "Session, ") && strstr(text, "g_session in cc_merged"),
	       "text: %s", text);
	free(text);
	g_session = nullptr;
}

int wait_and_tell()
{
	UnreachableMemoryInfo info;
	char byte;

	lose_sessions();
	forget();
	info = found(memunreachable_c::MEMUNREACHABLE_MERGED);
	dprintf(STDOUT_FILENO, "%zu %zu %zu %s %s %s\n", info.num_listed,
	        info.leaks[0].similar_count, info.leaks[0].total_size, info.leaks[0].signature,
	        info.leaks[0].how, info.leaks[0].type);
	FreeUnreachableMemory(&info);
	forget();
	say_text("READY\n");
	return read(STDIN_FILENO, &byte, 1) > 0;
}

const api_case cases[] = {
	{ "merged", Merged }, { "several", Several }, { "apart", Apart },
	{ "text", Text },     { "why", Why },
};

} // namespace

static bool search(size_t *ret_leaks)
{
	UnreachableMemoryInfo info = {};

	if (!GetUnreachableMemory(&info, LIMIT))
		return false;
	*ret_leaks = info.num_leaks;
	FreeUnreachableMemory(&info);
	return true;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "wait"))
		return wait_and_tell();
	return RUN_CASE(cases, argc, argv);
}
