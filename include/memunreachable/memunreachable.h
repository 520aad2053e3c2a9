/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMUNREACHABLE_MEMUNREACHABLE_H
#define MEMUNREACHABLE_MEMUNREACHABLE_H

/*
 * A program searches itself for unreachable (leaked) heap memory.
 *
 *	if (!NoLeaks())
 *		LogUnreachableMemory(true, 10);
 *
 * All other threads stand still for about as long as a fork() takes; the search is made
 * by another process on a copy-on-write copy of the memory, and the caller waits for it.
 * Calls may come from any thread, one after the other is served. Nothing is allocated by
 * the program's malloc before the search is over.
 *
 * Failures go to standard error, in lines that begin with "libmemunreachable: ".
 *
 * In C++ the same is in namespace android, with the signatures of Android's
 * libmemunreachable (below).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
/* The C names would stand beside those of namespace android, so they have one of their own. */
namespace memunreachable_c
{
extern "C" {
#endif

enum { MEMUNREACHABLE_CONTENTS = 32, MEMUNREACHABLE_FRAMES = 16, MEMUNREACHABLE_SIGNATURE = 24 };

/* Versions of UnreachableMemoryInfo. A program that wants no more than the first sets 0. */
enum { MEMUNREACHABLE_FIRST = 0, MEMUNREACHABLE_MERGED = 1 };

/*
 * Where the block was allocated, innermost call first: known when the program runs with
 * libmalloc_debug.so and one of its backtrace options.
 */
struct UnreachableMemoryBacktrace {
	size_t num_frames; /* 0: not known */
	uintptr_t frames[MEMUNREACHABLE_FRAMES];
	size_t reserved[8];
};

/* A block that nothing reaches, with all that only it leads to. Sizes are usable bytes. */
struct UnreachableMemoryLeak {
	uintptr_t begin;
	size_t size;
	size_t referenced_count; /* unreachable blocks that it leads to */
	size_t referenced_size;
	size_t similar_count; /* leaks merged into this one, which are not listed */
	size_t similar_size;
	size_t similar_referenced_count;
	size_t similar_referenced_size;
	size_t total_size; /* of all these together */
	char contents[MEMUNREACHABLE_CONTENTS];
	struct UnreachableMemoryBacktrace backtrace;

	/*
	 * From MEMUNREACHABLE_MERGED on; zeros before. Texts live as long as the leaks. Names,
	 * ways and signatures are those of memscan's reports.
	 */
	const char *type;   /* what the block seems to be; "" when not known */
	const char *how;    /* how that was found: "vtable" or others; "" when it was not */
	const char *module; /* the program's or library's file that has it, or "" */
	char signature[MEMUNREACHABLE_SIGNATURE]; /* the same in another run and on another host */
	size_t reserved[2];
};

struct UnreachableMemoryInfo {
	/*
	 * In: which leaks are similar, or the call fails.
	 *
	 *	MEMUNREACHABLE_FIRST	those with the same known backtrace
	 *	MEMUNREACHABLE_MERGED	these, and without a backtrace those with one signature:
	 *				one type, or else one size and shape (memscan(1))
	 */
	size_t version;
	size_t num_listed;
	struct UnreachableMemoryLeak *leaks; /* num_listed of them, largest total_size first */
	size_t num_leaks;                    /* all unreachable blocks, listed or not */
	size_t leak_bytes;
	size_t num_allocations; /* all blocks */
	size_t allocation_bytes;
	size_t reserved[8];
};

/*
 * Log the unreachable memory of this process, at most @limit leaks, to standard error.
 *
 * Returns false when it could not be searched. Finding leaks is no failure.
 */
bool LogUnreachableMemory(bool log_contents, size_t limit);

/* True when this process was searched and no block is unreachable. */
bool NoLeaks(void);

/*
 * Find the unreachable memory of this process.
 *
 * @info:  in: the version, out: the rest, written only when this returns true. What it
 *         points to is never searched for pointers, so it hides no leak from the next call.
 * @limit: leaks to list; the counts always count all
 *
 * Returns false when @info is NULL, when its version is not one of this library's, and
 * when the process could not be searched: it is traced already, not dumpable, may have
 * no more processes, or its malloc is not understood. The reason is logged.
 */
bool GetUnreachableMemory(struct UnreachableMemoryInfo *info, size_t limit);

/*
 * Release what GetUnreachableMemory() made; @info is empty then, its version is 0, and NULL
 * is allowed.
 */
void FreeUnreachableMemory(struct UnreachableMemoryInfo *info);

/*
 * The same as text, of malloc and to be freed by free(); when the process could not be
 * searched, text that says so. NULL without memory.
 */
char *GetUnreachableMemoryString(bool log_contents, size_t limit);

/*
 * Find out why the block at @ptr, or with @ptr inside, is alive, and write it as text: the
 * shortest chain of references that leads to it, a root first. Of a leaked block, which
 * blocks point to it; of memory that is no block, what it is. NULL, a freed block and any
 * other address are allowed: nothing is read at @ptr.
 *
 * The thread that asks has the address itself, on its stack or in registers. What points
 * straight to the block from there counts only if nothing else leads to it, and then the
 * text says that, and what else points to the block; chains from there through other blocks
 * count as all do. Frames of this library never count.
 *
 * The text is the one of `memscan why`: for people, not for programs. Names of functions and
 * variables come from symbol tables; a stripped file has only those that it exports.
 *
 * Returns text of malloc, to be freed by free(); NULL when it could not be found out, with
 * the reason logged, and errno set to
 *
 *	EPERM		the process is traced already, or not dumpable
 *	ENOTSUP		its malloc is not understood; it runs under a sanitizer or Valgrind
 *	EDEADLK		a signal handler asks during a search of the same thread
 *	EAGAIN		the heap changed each time, or no more processes may be made
 *	ETIMEDOUT	the threads could not be stopped in time
 *	ENOMEM		no memory
 *	EIO		the heap is damaged, or the search was ended from outside
 *
 * or to what a system call failed with.
 */
char *memunreachable_why(const void *ptr);

/*
 * Write one leak as text to @text, at most @size bytes with the NUL. Frames are named by
 * what this process has mapped now.
 *
 * Returns the bytes that the whole text has, without the NUL, as snprintf() does.
 */
size_t memunreachable_leak_text(const struct UnreachableMemoryLeak *leak, bool log_contents,
                                char *text, size_t size);

/*
 * Do not search @size bytes at @p for pointers, or do so again. For memory that holds
 * addresses which are no references, such as copies of what is found here.
 */
void memunreachable_hide(const void *p, size_t size);
void memunreachable_unhide(const void *p, size_t size);

/*
 * Install the handler of signal 35 (SIGRTMIN + 1), which makes the process report its
 * unreachable memory, or with value 1 its stacks, to `memscan trigger PID`, or to a file
 * in the folder that the environment variable MEMUNREACHABLE_FOLDER names (/tmp).
 *
 * The shared library does so by itself when it is loaded and the signal has its default
 * action, unless MEMUNREACHABLE_TRIGGER is 0. Programs with the static library call it.
 *
 * Returns false, with the reason logged, without memory.
 */
bool memunreachable_install_handler(void);

#ifdef __cplusplus
} /* extern "C" */
} /* namespace memunreachable_c */

#include <cstring>
#include <string>
#include <utility>
#include <vector>

extern "C" {
using memunreachable_c::LogUnreachableMemory;
using memunreachable_c::memunreachable_install_handler;
using memunreachable_c::memunreachable_why;
using memunreachable_c::NoLeaks;
}

namespace android
{

struct Leak {
	static const size_t contents_length = memunreachable_c::MEMUNREACHABLE_CONTENTS;

	uintptr_t begin = 0;
	size_t size = 0;
	size_t referenced_count = 0;
	size_t referenced_size = 0;
	size_t similar_count = 0;
	size_t similar_size = 0;
	size_t similar_referenced_count = 0;
	size_t similar_referenced_size = 0;
	size_t total_size = 0;
	char contents[contents_length] = {};
	struct Backtrace {
		static const size_t max_frames = memunreachable_c::MEMUNREACHABLE_FRAMES;

		size_t num_frames = 0;
		uintptr_t frames[max_frames] = {};
		size_t reserved[8] = {};
	} backtrace;
	size_t reserved[8] = {};

	std::string ToString(bool log_contents) const
	{
		const auto *leak =
			reinterpret_cast<const memunreachable_c::UnreachableMemoryLeak *>(this);
		std::string text(4096, '\0');
		size_t length;

		/* Names are looked up each time: seldom more than once. */
		while ((length = memunreachable_c::memunreachable_leak_text(
				leak, log_contents, &text[0], text.size())) >= text.size())
			text.resize(length + 1);
		text.resize(length);
		return text;
	}
};

static_assert(sizeof(Leak) == sizeof(memunreachable_c::UnreachableMemoryLeak),
              "one layout in both languages");

struct UnreachableMemoryInfo {
	std::vector<Leak> leaks;
	size_t num_leaks = 0;
	size_t leak_bytes = 0;
	size_t num_allocations = 0;
	size_t allocation_bytes = 0;
	size_t version = 0; /* in: 0, or the call fails */
	size_t reserved[8] = {};

	UnreachableMemoryInfo() = default;
	UnreachableMemoryInfo(const UnreachableMemoryInfo &) = delete;
	UnreachableMemoryInfo &operator=(const UnreachableMemoryInfo &) = delete;

	/* The addresses would look like references to the next search, even when freed. */
	~UnreachableMemoryInfo()
	{
		Forget();
	}

	void Forget()
	{
		if (leaks.capacity() == 0)
			return;
		leaks.resize(leaks.capacity());
		memset(static_cast<void *>(leaks.data()), 0, leaks.size() * sizeof(Leak));
		memunreachable_c::memunreachable_unhide(leaks.data(), leaks.size() * sizeof(Leak));
		leaks.clear();
	}

	std::string ToString(bool log_contents) const
	{
		std::string text = "  " + std::to_string(leak_bytes) + " bytes in " +
		                   std::to_string(num_leaks) + " unreachable allocation" +
		                   (num_leaks == 1 ? "" : "s") + "\n";

#if defined(__x86_64__)
		text += "  ABI: 'x86_64'\n";
#elif defined(__aarch64__)
		text += "  ABI: 'arm64'\n";
#endif
		text += "\n";
		for (const Leak &leak : leaks)
			text += leak.ToString(log_contents) + "\n";
		return text;
	}
};

inline bool GetUnreachableMemory(UnreachableMemoryInfo &info, size_t limit = 100)
{
	memunreachable_c::UnreachableMemoryInfo found = {};

	/* The texts of later versions would not outlive this call; the C function has them. */
	if (info.version != memunreachable_c::MEMUNREACHABLE_FIRST)
		found.version = SIZE_MAX;
	if (!memunreachable_c::GetUnreachableMemory(&found, limit))
		return false;
	info.Forget();
	info.leaks.reserve(found.num_listed);
	if (found.num_listed) {
		memunreachable_c::memunreachable_hide(info.leaks.data(),
		                                      info.leaks.capacity() * sizeof(Leak));
		info.leaks.resize(found.num_listed);
		memcpy(static_cast<void *>(info.leaks.data()), found.leaks,
		       found.num_listed * sizeof(Leak));
	}
	info.num_leaks = found.num_leaks;
	info.leak_bytes = found.leak_bytes;
	info.num_allocations = found.num_allocations;
	info.allocation_bytes = found.allocation_bytes;
	memunreachable_c::FreeUnreachableMemory(&found);
	return true;
}

inline std::string GetUnreachableMemoryString(bool log_contents = false, size_t limit = 100)
{
	UnreachableMemoryInfo info;

	if (!GetUnreachableMemory(info, limit))
		return "Failed to get unreachable memory\n"
		       "If the process is not dumpable: prctl(PR_SET_DUMPABLE, 1), or run as root\n"
		       "If it is traced (gdb, strace): let the tracer go\n"
		       "For the reason see standard error\n";
	return info.ToString(log_contents);
}

} /* namespace android */
#endif /* __cplusplus */

#endif
