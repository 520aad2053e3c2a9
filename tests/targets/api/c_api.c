/* SPDX-License-Identifier: Apache-2.0 */
/* The C functions of libmemunreachable: what they tell, and what they refuse; see api.h. */
#include "api.h"

#include <pthread.h>
#include <sys/mman.h>

enum { MANY_LEAKS = 1024, KEYS = 40, TEXT_BYTES = 16 * 1024 };

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static void clean(void)
{
	EXPECT_LEAKS(0);
	EXPECT(NoLeaks(), "leaks, where there are none");
}

static void stack_reference(void)
{
	void *volatile held;

	hide_new(0, BLOCK);
	held = revealed(0);
	EXPECT_LEAKS(0);
	held = NULL;
	EXPECT_LEAKS(1);
	free_hidden(0);
	EXPECT_LEAKS(0);
	(void)held;
}

static void *volatile global;

static void global_reference(void)
{
	hide_new(0, BLOCK);
	global = revealed(0);
	EXPECT_LEAKS(0);
	global = NULL;
	EXPECT_LEAKS(1);
	free_hidden(0);
	EXPECT_LEAKS(0);
}

/* The first keys have their values in the thread's own memory, later ones on the heap. */
static void thread_specific(void)
{
	pthread_key_t keys[KEYS];

	for (int i = 0; i < KEYS; i++)
		EXPECT(!pthread_key_create(&keys[i], NULL), "no key");
	for (int i = 0; i < KEYS; i += KEYS - 1) {
		hide_new(0, BLOCK);
		pthread_setspecific(keys[i], revealed(0));
		EXPECT_LEAKS(0);
		pthread_setspecific(keys[i], NULL);
		EXPECT_LEAKS(1);
		free_hidden(0);
		EXPECT_LEAKS(0);
	}
}

/* The first result, alive or not, is no reference. */
static void twice(void)
{
	struct UnreachableMemoryInfo first = { 0 };

	hide_new(0, BLOCK);
	forget();
	EXPECT(GetUnreachableMemory(&first, LIMIT) && first.num_leaks == 1, "first: %zu leaks",
	       first.num_leaks);
	EXPECT_LEAKS(1);
	EXPECT(first.num_listed == 1 && is_hidden(0, first.leaks[0].begin), "another block");
	FreeUnreachableMemory(&first);
	EXPECT_LEAKS(1);
	EXPECT(!NoLeaks(), "no leaks, where there is one");
	free_hidden(0);
	clean();
}

static void many_and_limit(void)
{
	struct UnreachableMemoryInfo info = { 0 };
	size_t bytes = 0;

	for (size_t i = 0; i < MANY_LEAKS; i++) {
		hide_new(i, BLOCK);
		bytes += usable_size(i);
	}
	forget();
	EXPECT(GetUnreachableMemory(&info, LIMIT), "failed");
	EXPECT(info.num_listed == LIMIT, "%zu listed", info.num_listed);
	EXPECT(info.num_leaks == MANY_LEAKS, "%zu leaks", info.num_leaks);
	EXPECT(info.leak_bytes == bytes, "%zu bytes, not %zu", info.leak_bytes, bytes);
	EXPECT(info.num_allocations >= MANY_LEAKS && info.allocation_bytes >= bytes,
	       "%zu allocations, %zu bytes", info.num_allocations, info.allocation_bytes);
	FreeUnreachableMemory(&info);
	for (size_t i = 0; i < MANY_LEAKS; i++)
		free_hidden(i);
	EXPECT_LEAKS(0);
}

/* None and every one. */
static void limits(void)
{
	static const size_t all[] = { 0, 1, 299, 300, 301, SIZE_MAX };

	for (size_t i = 0; i < 300; i++)
		hide_new(i, BLOCK);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct UnreachableMemoryInfo info = { 0 };
		size_t wanted = all[i] < 300 ? all[i] : 300;

		forget();
		EXPECT(GetUnreachableMemory(&info, all[i]), "failed with limit %zu", all[i]);
		EXPECT(info.num_leaks == 300, "limit %zu: %zu leaks", all[i], info.num_leaks);
		EXPECT(info.num_listed == wanted, "limit %zu: %zu listed", all[i], info.num_listed);
		FreeUnreachableMemory(&info);
	}
}

/* Nothing is written but by a call that succeeds. */
static void other_versions(void)
{
	static const size_t versions[] = { 2, 3, SIZE_MAX };

	hide_new(0, BLOCK);
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct UnreachableMemoryInfo info, before;

		memset(&info, 0xa5, sizeof(info));
		info.version = versions[i];
		before = info;
		forget();
		EXPECT(!GetUnreachableMemory(&info, LIMIT), "version %zu is taken", versions[i]);
		EXPECT(!memcmp(&info, &before, sizeof(info)), "version %zu: written", versions[i]);
	}
	EXPECT_LEAKS(1);
}

/* Only the version is read. */
static void garbage_in_info(void)
{
	struct UnreachableMemoryInfo info;

	hide_new(0, BLOCK);
	memset(&info, 0xa5, sizeof(info));
	info.version = 0;
	forget();
	EXPECT(GetUnreachableMemory(&info, LIMIT), "failed");
	EXPECT(info.num_leaks == 1 && info.num_listed == 1, "%zu leaks, %zu listed", info.num_leaks,
	       info.num_listed);
	FreeUnreachableMemory(&info);
}

static void no_info(void)
{
	EXPECT(!GetUnreachableMemory(NULL, LIMIT), "NULL is taken");
	FreeUnreachableMemory(NULL);
	EXPECT_LEAKS(0);
}

static void freed_twice(void)
{
	struct UnreachableMemoryInfo info = { 0 };

	FreeUnreachableMemory(&info);
	hide_new(0, BLOCK);
	forget();
	EXPECT(GetUnreachableMemory(&info, LIMIT), "failed");
	FreeUnreachableMemory(&info);
	EXPECT(!info.num_listed && !info.leaks, "not empty once freed");
	FreeUnreachableMemory(&info);
	EXPECT(GetUnreachableMemory(&info, LIMIT) && info.num_leaks == 1, "not to be used again");
	FreeUnreachableMemory(&info);
}

/* What a fork shares of hugetlbfs could cost this process its life; most machines have none. */
static void huge_pages(void)
{
	const size_t len = 2 << 20;
	volatile char *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
	                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (at == MAP_FAILED) {
		EXPECT_LEAKS(0);
		return;
	}
	*at = 1;
	EXPECT(!LogUnreachableMemory(true, LIMIT), "searched, where a fork shares huge pages");
	(void)munmap((void *)at, len);
	EXPECT_LEAKS(0);
}

static void not_dumpable(void)
{
	char *text;

	hide_new(0, BLOCK);
	become_nobody();
	EXPECT_LEAKS(1);
	EXPECT(!prctl(PR_SET_DUMPABLE, 0), "prctl: %s", strerror(errno));
	EXPECT_REFUSAL();
	EXPECT(!NoLeaks(), "no leaks, where nothing could be searched");
	EXPECT(!LogUnreachableMemory(true, LIMIT), "logged, where nothing could be searched");
	text = GetUnreachableMemoryString(true, LIMIT);
	EXPECT(text && !strncmp(text, "Failed to get unreachable memory\n", 33), "text: %s", text);
	free(text);
	EXPECT(!prctl(PR_GET_DUMPABLE), "made dumpable");
}

/* ---- what is told of a leak ---- */

/* The caller forgets, and the result holds the block. */
static struct UnreachableMemoryLeak first_leak(size_t num_leaks, size_t num_listed)
{
	struct UnreachableMemoryInfo info = { 0 };
	struct UnreachableMemoryLeak leak;

	EXPECT(GetUnreachableMemory(&info, LIMIT), "failed");
	EXPECT(info.num_leaks == num_leaks, "%zu leaks, not %zu", info.num_leaks, num_leaks);
	EXPECT(info.num_listed == num_listed, "%zu listed, not %zu", info.num_listed, num_listed);
	leak = info.leaks[0];
	FreeUnreachableMemory(&info);
	return leak;
}

/* 0 leads to 1 and 2, and 1 to 3. */
static void referenced(void)
{
	struct UnreachableMemoryLeak leak;
	size_t behind = 0;

	for (size_t i = 0; i < 4; i++)
		hide_new(i, BLOCK << i);
	point_to(0, 5, 1);
	point_to(0, 30, 2);
	point_to(1, 7, 3);
	for (size_t i = 1; i < 4; i++)
		behind += usable_size(i);
	forget();
	leak = first_leak(4, 1);
	EXPECT(is_hidden(0, leak.begin), "not the block that leads to the others");
	EXPECT(leak.size >= BLOCK && leak.size <= usable_size(0), "size %zu", leak.size);
	EXPECT(leak.referenced_count == 3, "%zu referenced", leak.referenced_count);
	EXPECT(leak.referenced_size == behind, "%zu bytes", leak.referenced_size);
	EXPECT(leak.total_size == leak.size + behind, "%zu in all", leak.total_size);
	EXPECT(!leak.similar_count && !leak.similar_size && !leak.backtrace.num_frames,
	       "similar, without any backtrace");
}

/* One leak, with the lowest address for its head. */
static void cycle(void)
{
	struct UnreachableMemoryLeak leak;

	for (size_t i = 0; i < 3; i++)
		hide_new(i, BLOCK);
	for (size_t i = 0; i < 3; i++)
		point_to(i, 0, (i + 1) % 3);
	forget();
	leak = first_leak(3, 1);
	EXPECT(is_hidden(lowest_hidden(3), leak.begin), "not the lowest is the head");
	EXPECT(leak.referenced_count == 2, "%zu referenced", leak.referenced_count);
}

NOINLINE static void more_than_is_shown(void)
{
	static const char text[] = "what the block begins with, and more of it";
	struct UnreachableMemoryLeak leak;

	hide_new(0, BLOCK);
	fill_hidden(0, 0, text);
	forget();
	leak = first_leak(1, 1);
	EXPECT(!memcmp(leak.contents, text, MEMUNREACHABLE_CONTENTS), "\"%.32s\"", leak.contents);
	free_hidden(0);
}

NOINLINE static void less_than_could_be_shown(void)
{
	struct UnreachableMemoryLeak leak;

	hide_new(0, 8);
	fill_hidden(0, 'x', "");
	forget();
	leak = first_leak(1, 1);
	for (size_t i = 0; i < MEMUNREACHABLE_CONTENTS; i++)
		EXPECT(leak.contents[i] == (i < leak.size ? 'x' : 0), "byte %zu: %02x", i,
		       (unsigned char)leak.contents[i]);
	free_hidden(0);
}

static void contents(void)
{
	more_than_is_shown();
	forget();
	less_than_could_be_shown();
}

static void leak_text(void)
{
	struct UnreachableMemoryLeak leak;
	char text[2000], wanted[100];
	size_t len;

	hide_new(0, BLOCK);
	fill_hidden(0, 0, "abc\xff");
	forget();
	leak = first_leak(1, 1);
	for (int shown = 0; shown < 2; shown++) {
		len = memunreachable_leak_text(&leak, shown, NULL, 0);
		EXPECT(len && len < sizeof(text), "%zu bytes", len);
		EXPECT(memunreachable_leak_text(&leak, shown, text, sizeof(text)) == len, "len");
		EXPECT(strlen(text) == len, "%zu bytes, not %zu", strlen(text), len);
		snprintf(wanted, sizeof(wanted), "  %zu bytes unreachable at %zx\n", leak.size,
		         leak.begin);
		EXPECT(!strncmp(text, wanted, strlen(wanted)), "%s", text);
		EXPECT(!strstr(text, "first 32 bytes of contents:\n") == !shown, "%s", text);
		EXPECT(!strstr(text, ": 61 62 63 ff 00 00") == !shown, "%s", text);
		memset(text, '!', sizeof(text));
		EXPECT(memunreachable_leak_text(&leak, shown, text, 10) == len, "len");
		EXPECT(strlen(text) == 9 && !strncmp(text, wanted, 9) && text[10] == '!', "cut");
	}
}

static void string(void)
{
	char wanted[100];
	char *text;

	hide_new(0, BLOCK);
	forget();
	text = GetUnreachableMemoryString(false, LIMIT);
	EXPECT(text, "NULL");
	snprintf(wanted, sizeof(wanted),
	         "  %zu bytes in 1 unreachable allocation\n  ABI: '" ABI_NAME "'\n\n",
	         usable_size(0));
	EXPECT(!strncmp(text, wanted, strlen(wanted)), "%s", text);
	EXPECT(strstr(text, "bytes unreachable at") && !strstr(text, "contents"), "%s", text);
	free(text);
	EXPECT_LEAKS(1);
	text = GetUnreachableMemoryString(true, LIMIT);
	EXPECT(text && strstr(text, "contents:\n"), "%s", text);
	free(text);
	free_hidden(0);
	EXPECT_LEAKS(0);
}

/* On standard error, which is a file for the time. */
static void log_to_stderr(void)
{
	static char text[TEXT_BYTES];
	int file = memfd_create("log", MFD_CLOEXEC);
	int saved = dup(STDERR_FILENO);

	hide_new(0, BLOCK);
	dup2(file, STDERR_FILENO);
	forget();
	EXPECT(LogUnreachableMemory(true, LIMIT), "failed");
	dup2(saved, STDERR_FILENO);
	EXPECT(pread(file, text, sizeof(text) - 1, 0) > 0, "nothing logged");
	EXPECT(strstr(text, " bytes in 1 allocation unreachable out of "), "%s", text);
	EXPECT(strstr(text, " bytes unreachable at "), "%s", text);
	EXPECT(strstr(text, "first 32 bytes of contents:\n"), "%s", text);
	memset(text, 0, sizeof(text));
	close(file);
	close(saved);
	EXPECT_LEAKS(1);
}

NOINLINE static void hide_new_pages(void)
{
	void *p = NULL;

	EXPECT(!posix_memalign(&p, PAGE, 3 * PAGE), "no memory");
	memset(p, 0, 3 * PAGE);
	hidden[0] = ~(uintptr_t)p;
	fences[0] = fresh(8);
}

NOINLINE static void protect_second_page(int protection)
{
	EXPECT(!mprotect((char *)revealed(0) + PAGE, PAGE, protection), "mprotect");
}

/* A block in which a page cannot be read, held and lost. */
static void protected_block(void)
{
	void *volatile held;

	hide_new_pages();
	protect_second_page(PROT_NONE);
	held = revealed(0);
	EXPECT_LEAKS(0);
	held = NULL;
	EXPECT_LEAKS(1);
	protect_second_page(PROT_READ | PROT_WRITE);
	free_hidden(0);
	EXPECT_LEAKS(0);
	(void)held;
}

static const struct api_case cases[] = {
	{ "clean", clean },
	{ "stack_reference", stack_reference },
	{ "global_reference", global_reference },
	{ "thread_specific", thread_specific },
	{ "twice", twice },
	{ "many_and_limit", many_and_limit },
	{ "limits", limits },
	{ "other_versions", other_versions },
	{ "garbage_in_info", garbage_in_info },
	{ "no_info", no_info },
	{ "freed_twice", freed_twice },
	{ "not_dumpable", not_dumpable },
	{ "huge_pages", huge_pages },
	{ "referenced", referenced },
	{ "cycle", cycle },
	{ "contents", contents },
	{ "leak_text", leak_text },
	{ "string", string },
	{ "log_to_stderr", log_to_stderr },
	{ "protected_block", protected_block },
};

int main(int argc, char **argv)
{
	return RUN_CASE(cases, argc, argv);
}
