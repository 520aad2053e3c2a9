/* SPDX-License-Identifier: Apache-2.0 */
// Backtraces of leaks in C++, with libmalloc_debug.so and without; see api.h.
#include "api.h"

#include <string>

namespace
{

using namespace android;

const bool kept = getenv("LIBC_DEBUG_MALLOC_OPTIONS") != nullptr &&
                  strstr(getenv("LIBC_DEBUG_MALLOC_OPTIONS"), "backtrace") != nullptr;

template <class T> class Cache
{
      public:
	NOINLINE void Fill(T place, const char *why) const
	{
		hide_new(place, BLOCK);
		OPAQUE(why);
	}
};

struct Node {
	long words[8];
};

NOINLINE void MakeNode()
{
	hidden[0] = ~reinterpret_cast<uintptr_t>(new Node());
	fences[0] = fresh(8);
}

void Fill()
{
	const Cache<unsigned long> cache;

	cache.Fill(0, "text");
}

size_t count(const std::string &text, const char *what)
{
	size_t n = 0;

	for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at++)
		n++;
	return n;
}

void Method()
{
	static const char name[] = "(anonymous namespace)::Cache<unsigned long>::Fill(unsigned "
				   "long, char const*) const+";
	UnreachableMemoryInfo info;

	Fill();
	forget();
	EXPECT(GetUnreachableMemory(info) && info.leaks.size() == 1, "%zu leaks",
	       info.leaks.size());
	const Leak &leak = info.leaks[0];
	std::string text = leak.ToString(true);

	EXPECT((leak.backtrace.num_frames > 3) == kept, "%zu frames", leak.backtrace.num_frames);
	EXPECT(count(text, name) == kept, "%s", text.c_str());
	EXPECT(text.find("contents:") < text.find(" pc ") || !kept, "%s", text.c_str());
	EXPECT(info.ToString(false).find(leak.ToString(false)) != std::string::npos, "%s",
	       info.ToString(false).c_str());
}

void Operator()
{
	std::string text;

	MakeNode();
	forget();
	text = GetUnreachableMemoryString();
	EXPECT(count(text, " unreachable allocation\n") == 1, "%s", text.c_str());
	EXPECT(count(text, "(operator new(unsigned long)+") == kept, "%s", text.c_str());
	EXPECT(count(text, "(anonymous namespace)::MakeNode()+") == kept, "%s", text.c_str());
}

const char *suppressions = "";

void Suppressed()
{
	Fill();
	suppressions = "leak:Cache<unsigned long>::Fill\n";
	EXPECT_LEAKS(kept ? 0 : 1);
	suppressions = "leak:_ZN\n";
	EXPECT_LEAKS(1);
}

const api_case cases[] = {
	{ "method", Method },
	{ "operator", Operator },
	{ "suppressed", Suppressed },
};

} // namespace

extern "C" const char *__lsan_default_suppressions()
{
	return suppressions;
}

extern "C" void __lsan_enable();
void (*const volatile linked)() = __lsan_enable;

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
