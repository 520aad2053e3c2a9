/* SPDX-License-Identifier: Apache-2.0 */
/* lsan: off. What is opened for names is never closed. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sym/symbols.h"
#include "target/maps.h"

static struct ms_arena arena;
static struct ms_mappings maps;
static struct ms_symbols *symbols;
static struct ms_symbol symbol;
static struct ms_symbols_call call;
static struct ms_opener opener;
static const struct ms_finder finder = { ms_opener_find, &opener };

static size_t read_self(const void *ctx, ms_addr addr, void *buf, size_t len)
{
	struct iovec here = { buf, len };
	struct iovec there = { (void *)(uintptr_t)addr, len };
	ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

	(void)ctx;
	return n > 0 ? (size_t)n : 0;
}

/* Read our own map as it is now. */
static void open_symbols(void)
{
	struct ms_error err;

	memset(&maps, 0, sizeof(maps));
	cr_assert_eq(ms_maps_read(getpid(), &arena, &maps, &err), MS_OK);
	ms_opener_init(&opener, getpid(), geteuid());
	ms_symbols_opener(&maps, &opener);
	call = (struct ms_symbols_call){ .finder = &finder, .maps = &maps, .read = read_self };
	cr_assert_eq(ms_symbols_open(&call, &arena, &symbols, &err), MS_OK);
}

static void setup(void)
{
	ms_arena_init(&arena);
	open_symbols();
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(symbols, .init = setup, .fini = teardown);

/* Where our own program begins in memory. */
static ms_addr program_begin(void)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, &maps)
		if (strstr(map->name, "test_symbols"))
			return map->range.begin;
	cr_assert_fail("our own program is not in our map");
	return 0;
}

Test(symbols, tells_function_line_and_build_of_code)
{
	ms_addr addr = (uintptr_t)program_begin + 1;

	ms_symbols_name(symbols, addr, &symbol);
	cr_assert_not_null(strstr(symbol.module, "test_symbols"));
	cr_assert_str_eq(symbol.function, "program_begin");
	cr_assert_eq(symbol.function_offset, 1);
	cr_assert_eq(symbol.rel_pc, addr - program_begin());
	cr_assert_not_null(strstr(symbol.file, "test_symbols.c"));
	cr_assert_gt(symbol.line, 50);
	cr_assert_eq(strlen(symbol.build_id), 40);
	cr_assert_eq(strspn(symbol.build_id, "0123456789abcdef"), 40);
	cr_assert_eq(symbol.elf_offset, 0);
}

Test(symbols, knows_nothing_of_what_is_not_mapped)
{
	ms_symbols_name(symbols, 0x10, &symbol);
	cr_assert_null(symbol.module);
	cr_assert_null(symbol.function);
	cr_assert_null(symbol.build_id);
	ms_symbols_name(symbols, UINT64_MAX, &symbol);
	cr_assert_null(symbol.module);
}

Test(symbols, memory_without_file_has_only_its_begin)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	teardown();
	setup();
	ms_symbols_name(symbols, (uintptr_t)page + 8, &symbol);
	cr_assert_str_eq(symbol.module, "");
	cr_assert_eq(symbol.map_begin + symbol.rel_pc, (uintptr_t)page + 8);
	cr_assert_null(symbol.function);
	(void)munmap(page, 4096);
}

Test(symbols, the_vdso_is_read_from_memory)
{
	ms_addr vdso = getauxval(AT_SYSINFO_EHDR);
	bool found = false;

	for (ms_addr at = vdso; at < vdso + 4096 && !found; at += 16) {
		ms_symbols_name(symbols, at, &symbol);
		found = symbol.function &&
		        (strstr(symbol.function, "vdso") || strstr(symbol.function, "__kernel_"));
	}
	cr_assert_str_eq(symbol.module, "[vdso]");
	cr_assert(found, "no function of the vdso has a name");
	cr_assert_not_null(symbol.build_id);
}

/* ---- which file it is ---- */

/* What every place is said to have, and what was asked for last. */
static const char *offered[3];
static size_t n_asked;

static int offer(void *ctx, const struct ms_file_question *question, struct ms_file_answer *ret)
{
	(void)ctx;
	n_asked++;
	ret->place = question->place;
	if (question->kind != MS_FILE_CODE || question->place >= 3 || !offered[question->place])
		return -1;
	return open(offered[question->place], O_RDONLY | O_CLOEXEC);
}

static const char *name_with(const char *first, const char *second, const char *third)
{
	static const struct ms_finder offering = { offer, NULL };
	struct ms_error err;

	offered[0] = first;
	offered[1] = second;
	offered[2] = third;
	n_asked = 0;
	call.finder = &offering;
	cr_assert_eq(ms_symbols_open(&call, &arena, &symbols, &err), MS_OK);
	ms_symbols_name(symbols, (uintptr_t)program_begin + 1, &symbol);
	return symbol.function;
}

Test(symbols, a_file_with_other_headers_is_not_the_one_that_is_mapped)
{
	cr_expect_null(name_with("/bin/true", "/bin/false", NULL));
	cr_expect_null(name_with("/proc/self/maps", NULL, NULL));
	cr_expect_str_eq(name_with("/bin/true", "/bin/false", "/proc/self/exe"), "program_begin");
	cr_expect_geq(n_asked, 3);
}

Test(symbols, a_library_without_its_file_is_read_from_memory)
{
	(void)name_with(NULL, NULL, NULL);
	ms_symbols_name(symbols, (uintptr_t)gnu_get_libc_version + 2, &symbol);
	cr_assert_str_eq(symbol.function, "gnu_get_libc_version");
	cr_expect_eq(symbol.function_offset, 2);
	cr_expect_eq(strlen(symbol.build_id), 40);
	cr_expect_lt(symbol.rel_pc, 1 << 30);
}

static bool only_program(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	*ret = (struct ms_opener_file){ .path = files, .renamed = true };
	return number == 0;
}

Test(symbols, the_program_is_opened_as_the_kernel_has_it)
{
	struct ms_file_question question = { .kind = MS_FILE_CODE, .place = 1 };
	struct ms_file_answer answer;
	char path[PATH_MAX] = "";
	struct stat is, want;
	int fd;

	cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
	opener.file = only_program;
	opener.files = path;
	opener.n = 1;
	fd = ms_opener_find(&opener, &question, &answer);
	cr_assert(fd >= 0 && !fstat(fd, &is) && !stat("/proc/self/exe", &want));
	cr_expect(is.st_ino == want.st_ino && is.st_dev == want.st_dev);
	cr_expect_eq(answer.place, 1);
	(void)close(fd);
	/* Another file of the process is not it. */
	opener.files = "/usr/lib/libother.so";
	cr_expect_lt(ms_opener_find(&opener, &question, &answer), 0);
}

/* Map our own program from the middle of another file, @lead bytes behind its begin. */
static char *map_inner(const char *path, size_t lead, size_t *ret_len)
{
	int from = open("/proc/self/exe", O_RDONLY);
	int to = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct stat st;
	char *bytes;

	cr_assert(from >= 0 && to >= 0 && fstat(from, &st) == 0);
	bytes = malloc((size_t)st.st_size);
	cr_assert(bytes && read(from, bytes, (size_t)st.st_size) == st.st_size);
	cr_assert_eq(pwrite(to, bytes, (size_t)st.st_size, (off_t)lead), st.st_size);
	free(bytes);
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, to, (off_t)lead);
	cr_assert_neq(bytes, MAP_FAILED);
	(void)close(from);
	(void)close(to);
	*ret_len = (size_t)st.st_size;
	return bytes;
}

Test(symbols, an_elf_file_may_begin_inside_of_another)
{
	char path[] = "/tmp/memscan-inner-XXXXXX";
	ms_addr rel = (uintptr_t)program_begin - program_begin();
	int fd = mkstemp(path);
	size_t len;
	char *inner = map_inner(path, 0x20000, &len);

	teardown();
	setup();
	ms_symbols_name(symbols, (uintptr_t)inner + rel, &symbol);
	cr_assert_str_eq(symbol.module, path);
	cr_assert_eq(symbol.elf_offset, 0x20000);
	cr_assert_eq(symbol.rel_pc, rel);
	cr_assert_str_eq(symbol.function, "program_begin");
	(void)unlink(path);
	(void)close(fd);
	(void)munmap(inner, len);
}

Test(symbols, a_file_that_took_the_name_is_not_read)
{
	char path[] = "/tmp/memscan-taken-XXXXXX";
	ms_addr rel = (uintptr_t)program_begin - program_begin();
	int fd = mkstemp(path);
	size_t len;
	char *inner = map_inner(path, 0, &len);

	/* A FIFO without a writer would keep whoever opens it waiting. */
	cr_assert(unlink(path) == 0 && mkfifo(path, 0600) == 0);
	teardown();
	setup();
	ms_symbols_name(symbols, (uintptr_t)inner + rel, &symbol);
	cr_assert_not_null(strstr(symbol.module, " (deleted)"));
	cr_assert_eq(symbol.rel_pc, rel);
	(void)unlink(path);
	(void)close(fd);
	(void)munmap(inner, len);
}

Test(symbols, without_a_process_no_file_is_opened)
{
	const struct ms_mapping *map = ms_maps_find(&maps, (uintptr_t)program_begin);
	struct ms_error err;

	call.finder = NULL;
	cr_assert_eq(ms_symbols_open(&call, &arena, &symbols, &err), MS_OK);
	ms_symbols_name(symbols, (uintptr_t)program_begin, &symbol);
	cr_assert_not_null(strstr(symbol.module, "test_symbols"));
	cr_assert_null(symbol.function);
	cr_assert_eq(symbol.rel_pc, (uintptr_t)program_begin - map->range.begin + map->offset,
	             "by the mapping alone");
}

static const struct {
	char name[48];
	char readable[48];
} names[] = {
	{ "main", "main" },
	{ "_ZN2ns1T4waitEi", "ns::T::wait(int)" },
	{ "_ZN2ns1T4waitEi@@V_1", "ns::T::wait(int)" },
	{ "_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write" },
	{ "_RNvC6_123foo3bar", "123foo::bar" },
	{ "memcpy@@GLIBC_2.14", "memcpy" },
	{ "memcpy@GLIBC_2.2.5", "memcpy" },
	{ "@odd", "@odd" },
	{ "_Z", "_Z" },
	{ "_ZN", "_ZN" },
	{ "", "" },
};

Test(symbols, names_are_made_readable)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_assert_str_eq(ms_readable_name(names[i].name, &arena), names[i].readable);
}

Test(symbols, a_name_of_endless_nesting_ends)
{
	static char name[12000];

	memset(name, 'P', sizeof(name) - 1);
	memcpy(name, "_Z1f", 4);
	cr_assert_not_null(ms_readable_name(name, &arena));
}
