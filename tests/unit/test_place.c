/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths are proved against objdump, over all code of the C libraries that there are;
 * what was moved is run, and must answer as what stood there.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/range.h"
#include "target/inject/place.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- against objdump ---- */

static const char *const libraries[] = {
	"/lib/x86_64-linux-gnu/libc.so.6",
	"/usr/lib64/libc.so.6",
	"build/glibc/*/root/usr/lib/x86_64-linux-gnu/libc.so.6",
	"build/glibc/*/root/lib/x86_64-linux-gnu/libc.so.6",
};

static const struct {
	const char *name;
	unsigned n_arguments;
} functions[] = {
	{ "malloc", 1 },         { "free", 1 },    { "calloc", 2 },
	{ "realloc", 2 },        { "valloc", 1 },  { "memalign", 2 },
	{ "posix_memalign", 3 }, { "pvalloc", 1 }, { "aligned_alloc", 2 },
};

enum { LINE = 512 };

/* One instruction of objdump's: "  addr:\tbytes \ttext". */
struct line {
	unsigned long addr;
	uint8_t bytes[MS_INSN_MAX + 1];
	size_t n;
	bool bad; /* no instruction, as objdump sees it */
};

static unsigned digit(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
}

static bool read_line(FILE *from, struct line *ret)
{
	char text[LINE], *at = NULL;

	while (fgets(text, sizeof(text), from)) {
		ret->addr = strtoul(text, &at, 16);
		if (at[0] != ':' || at[1] != '\t')
			continue;
		ret->n = 0;
		ret->bad = strstr(text, "(bad)");
		for (at += 2; ret->n < sizeof(ret->bytes) && isxdigit((unsigned char)*at); at += 3)
			ret->bytes[ret->n++] = (uint8_t)(digit(at[0]) << 4 | digit(at[1]));
		return true;
	}
	return false;
}

/* Calls @check with each library that there is, by whichever name; at least one must be. */
static void each_library(void (*check)(const char *library))
{
	enum { MOST = 64 };
	struct stat seen[MOST], st;
	size_t n = 0;

	for (size_t i = 0; i < N_OF(libraries); i++) {
		glob_t found;

		if (glob(libraries[i], 0, NULL, &found))
			continue;
		for (size_t k = 0; k < found.gl_pathc; k++) {
			size_t known = 0;

			cr_assert(!stat(found.gl_pathv[k], &st) && n < MOST);
			while (known < n &&
			       (seen[known].st_ino != st.st_ino || seen[known].st_dev != st.st_dev))
				known++;
			if (known < n)
				continue;
			seen[n++] = st;
			check(found.gl_pathv[k]);
		}
		globfree(&found);
	}
	cr_assert_gt(n, 0, "no C library found");
}

static void compare_lengths(const char *library)
{
	char command[LINE];
	size_t n = 0, unknown = 0;
	struct line line;

	snprintf(command, sizeof(command), "objdump -dw --insn-width=16 -j .text %s", library);
	FILE *from = popen(command, "r");
	while (read_line(from, &line)) {
		struct ms_insn insn;

		n++;
		if (!ms_insn_read(line.bytes, line.n, &insn))
			unknown++;
		else if (!line.bad)
			cr_assert_eq(insn.length, line.n, "%s, %lx: %u bytes, objdump says %zu",
			             library, line.addr, insn.length, line.n);
	}
	(void)pclose(from);
	cr_assert_gt(n, 10000, "%s: objdump showed %zu instructions", library, n);
	/* x87, AVX-512 and what only the kernel's borders need. */
	cr_assert_lt(unknown * 12, n, "%s: %zu of %zu not understood", library, unknown, n);
	printf("%s: %zu instructions, %zu not understood\n", library, n, unknown);
}

Test(insn, lengths_are_those_of_objdump)
{
	each_library(compare_lengths);
}

/* Where its functions of malloc are, by the symbols that programs are linked to. */
static void find_functions(const char *library, struct ms_range ret[N_OF(functions)])
{
	char command[LINE], name[LINE];
	unsigned long entry, size;
	size_t n = 0;

	snprintf(command, sizeof(command), "nm -DS --defined-only %s", library);
	FILE *from = popen(command, "r");
	for (char line[LINE]; fgets(line, sizeof(line), from);) {
		if (sscanf(line, "%lx %lx %*c %[^@]@@", &entry, &size, name) != 3 ||
		    !strstr(line, "@@"))
			continue;
		for (size_t i = 0; i < N_OF(functions); i++)
			if (!strcmp(name, functions[i].name)) {
				ret[i] = (struct ms_range){ entry, entry + size };
				n++;
			}
	}
	(void)pclose(from);
	cr_assert_eq(n, N_OF(functions), "%s has %zu of them", library, n);
}

/* A library's text is at the same offset in the file as from its begin in memory. */
static uint8_t *whole_file(const char *library, size_t *ret_n)
{
	FILE *from = fopen(library, "rb");

	cr_assert_not_null(from);
	fseek(from, 0, SEEK_END);
	*ret_n = (size_t)ftell(from);
	uint8_t *bytes = malloc(*ret_n);
	rewind(from);
	cr_assert_eq(fread(bytes, 1, *ret_n, from), *ret_n);
	(void)fclose(from);
	return bytes;
}

static void find_places(const char *library)
{
	struct ms_range found[N_OF(functions)];
	size_t n_file;
	uint8_t *file = whole_file(library, &n_file);

	find_functions(library, found);
	for (size_t i = 0; i < N_OF(functions); i++) {
		const uint64_t entry = found[i].begin;
		const size_t n = (size_t)ms_range_len(found[i]);
		struct ms_place place;
		struct ms_moved moved;

		cr_assert(n && found[i].end <= n_file, "%s, %s", library, functions[i].name);
		cr_expect_eq(
			ms_place_choose(file + entry, n, entry, functions[i].n_arguments, &place),
			MS_PLACE_FOUND, "%s, %s", library, functions[i].name);
		cr_expect(ms_place_move(&place, entry + 0x1000000, &moved), "%s, %s", library,
		          functions[i].name);
		cr_expect_not(ms_place_is_reached(&place, file, n_file, 0, n), "%s, %s", library,
		              functions[i].name);
	}
	free(file);
}

Test(place, is_found_in_each_function_of_malloc)
{
	each_library(find_places);
}

/* ---- by hand ---- */

enum { ENTRY = 0x10000 };

static const struct {
	const char *what;
	uint8_t code[24];
	enum ms_place_verdict verdict;
	unsigned window, end, n_undo; /* offsets, where found */
} drawn[] = {
	{ "push, mov, sub",
	  { 0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10 },
	  MS_PLACE_FOUND,
	  1,
	  8,
	  8 },
	{ "endbr64, five pushes",
	  { 0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54, 0x55, 0x53, 0x50 },
	  MS_PLACE_FOUND,
	  4,
	  9,
	  0 },
	{ "test, jcc to elsewhere",
	  { 0x48, 0x85, 0xff, 0x74, 0x40, 0x48, 0x89, 0xf8 },
	  MS_PLACE_FOUND,
	  3,
	  8,
	  0 },
	{ "a jump alone", { 0xe9, 0, 1, 0, 0 }, MS_PLACE_FOUND, 0, 5, 0 },
	{ "an add cannot be undone",
	  { 0x48, 0x83, 0xc7, 8, 0x90, 0x90, 0x90, 0x90, 0x90 },
	  MS_PLACE_UNKNOWN,
	  0,
	  0,
	  0 },
	{ "an argument is written",
	  { 0x48, 0x89, 0xf7, 0x90, 0x90, 0x90, 0x90, 0x90 },
	  MS_PLACE_UNKNOWN,
	  0,
	  0,
	  0 },
	{ "memory is written",
	  { 0x48, 0x89, 0x07, 0x90, 0x90, 0x90, 0x90, 0x90 },
	  MS_PLACE_UNKNOWN,
	  0,
	  0,
	  0 },
	{ "a call", { 0x53, 0xe8, 0, 0, 0, 0 }, MS_PLACE_UNKNOWN, 0, 0, 0 },
	{ "it returns too early",
	  { 0x53, 0x5b, 0xc3, 0x90, 0x90, 0x90, 0x90 },
	  MS_PLACE_TOO_NEAR,
	  0,
	  0,
	  0 },
	{ "a loop to the second instruction",
	  { 0x53, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x90 },
	  MS_PLACE_TOO_NEAR,
	  0,
	  0,
	  0 },
	{ "a breakpoint at the entry",
	  { 0xcc, 0x48, 0x89, 0xfb, 0x90, 0x90 },
	  MS_PLACE_CHANGED,
	  0,
	  0,
	  0 },
	{ "a breakpoint in the window",
	  { 0x53, 0x90, 0xcc, 0x90, 0x90, 0x90 },
	  MS_PLACE_CHANGED,
	  0,
	  0,
	  0 },
};

Test(place, is_chosen_or_refused)
{
	for (size_t i = 0; i < N_OF(drawn); i++) {
		struct ms_place place;
		enum ms_place_verdict verdict =
			ms_place_choose(drawn[i].code, sizeof(drawn[i].code), ENTRY, 2, &place);

		cr_expect_eq(verdict, drawn[i].verdict, "%s: %d", drawn[i].what, verdict);
		if (verdict != MS_PLACE_FOUND || verdict != drawn[i].verdict)
			continue;
		cr_expect_eq(place.window, ENTRY + drawn[i].window, "%s", drawn[i].what);
		cr_expect_eq(place.end, ENTRY + drawn[i].end, "%s", drawn[i].what);
		cr_expect_eq(place.n_undo, drawn[i].n_undo, "%s", drawn[i].what);
		cr_expect_eq(memcmp(place.bytes, drawn[i].code, drawn[i].end), 0, "%s",
		             drawn[i].what);
	}
}

Test(place, is_not_chosen_beyond_the_bytes)
{
	struct ms_place place;

	for (size_t n = 0; n < 8; n++)
		cr_expect_neq(ms_place_choose(drawn[0].code, n, ENTRY, 1, &place), MS_PLACE_FOUND,
		              "%zu", n);
}

Test(place, rdx_is_free_where_no_argument_is_in_it)
{
	static const uint8_t code[] = { 0x31, 0xd2, 0x90, 0x90, 0x90, 0x90, 0x90 };
	struct ms_place place;

	cr_expect_eq(ms_place_choose(code, sizeof(code), ENTRY, 2, &place), MS_PLACE_FOUND);
	cr_expect_eq(ms_place_choose(code, sizeof(code), ENTRY, 3, &place), MS_PLACE_UNKNOWN);
}

Test(place, a_pc_of_the_window_is_found_in_the_moved_code)
{
	struct ms_place place;
	struct ms_moved moved;

	cr_assert_eq(ms_place_choose(drawn[0].code, 24, ENTRY, 1, &place), MS_PLACE_FOUND);
	cr_assert(ms_place_move(&place, 0x20000, &moved));
	cr_expect_eq(ms_place_moved_pc(&place, &moved, 0x20000, ENTRY), 0, "the entry stays");
	cr_expect_eq(ms_place_moved_pc(&place, &moved, 0x20000, ENTRY + 1), 0x20001);
	cr_expect_eq(ms_place_moved_pc(&place, &moved, 0x20000, ENTRY + 4), 0x20004);
	cr_expect_eq(ms_place_moved_pc(&place, &moved, 0x20000, ENTRY + 8), 0, "behind it");
	cr_expect_eq(ms_place_moved_pc(&place, &moved, 0x20000, ENTRY + 2), 0, "no instruction");
}

Test(place, is_reached_by_branches_into_it_alone)
{
	uint8_t text[64] = { 0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10, 0xc3 };
	struct ms_place place;

	memset(text + 9, 0x90, sizeof(text) - 9);
	cr_assert_eq(ms_place_choose(text, sizeof(text), ENTRY, 1, &place), MS_PLACE_FOUND);
	cr_expect_not(ms_place_is_reached(&place, text, sizeof(text), ENTRY, 9));
	for (uint64_t aim = ENTRY; aim < ENTRY + 12; aim++) {
		cr_assert(ms_jump_write(ENTRY + 40, aim, text + 40));
		cr_expect_eq(ms_place_is_reached(&place, text, sizeof(text), ENTRY, 9),
		             aim > ENTRY && aim < ENTRY + 8, "%lx", (unsigned long)aim);
	}
	memset(text + 40, 0x90, 5);
	text[9] = 0xeb; /* the function's own, of a byte, to the second instruction */
	text[10] = 0xf6;
	cr_expect(ms_place_is_reached(&place, text, sizeof(text), ENTRY, 11));
}

Test(place, is_not_led_into_by_what_is_in_the_middle_of_an_instruction)
{
	/* mov $IMMEDIATE,%rax, of which the last bytes are those of a jump. */
	uint8_t text[64] = { 0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10, 0xc3 };
	struct ms_place place;
	size_t at = 0;

	memset(text + 9, 0x90, sizeof(text) - 9);
	cr_assert_eq(ms_place_choose(text, sizeof(text), ENTRY, 1, &place), MS_PLACE_FOUND);
	text[37] = 0x48;
	text[38] = 0xb8;
	cr_assert(ms_jump_write(ENTRY + 41, ENTRY + 4, text + 41));
	cr_assert(ms_place_is_reached(&place, text, sizeof(text), ENTRY, 9));
	cr_expect(ms_place_find_branch(&place, text, sizeof(text), ENTRY, &at));
	cr_expect_eq(at, 41);
	cr_expect_not(ms_place_is_led_into(&place, text + 32, 32, ENTRY + 32));
	cr_expect(ms_place_is_led_into(&place, text + 41, 23, ENTRY + 41), "read from the jump on");
	at++;
	cr_expect_not(ms_place_find_branch(&place, text, sizeof(text), ENTRY, &at));
}

Test(place, of_a_function_that_is_one_jump_may_be_called)
{
	uint8_t text[64] = { 0xe9, 0x20, 0, 0, 0 };
	struct ms_place place;

	memset(text + 5, 0x90, sizeof(text) - 5);
	cr_assert_eq(ms_place_choose(text, 5, ENTRY, 1, &place), MS_PLACE_FOUND);
	for (uint64_t aim = ENTRY; aim < ENTRY + 5; aim++) {
		cr_assert(ms_jump_write(ENTRY + 40, aim, text + 40));
		cr_expect_eq(ms_place_is_reached(&place, text, sizeof(text), ENTRY, 5),
		             aim != ENTRY, "%lx", (unsigned long)aim);
	}
}

/* ---- run ---- */

typedef long function(long, long);

/* Each is a whole function of two arguments. */
static const struct {
	const char *what;
	uint8_t code[40];
} whole[] = {
	{ "push, a short branch, pop", /* test: 0 gives 7 */
	  { 0x53, 0x48, 0x85, 0xff, 0x74, 0x06, 0x48, 0x8d, 0x04, 0x37, 0x5b, 0xc3, 0xb8, 7, 0, 0,
	    0, 0x5b, 0xc3 } },
	{ "sub of the stack, a value read beside %rip",
	  { 0x48, 0x83, 0xec, 0x18, 0x48, 0x8b, 0x05, 0x09, 0,    0,    0,    0x48, 0x01, 0xf8,
	    0x48, 0x83, 0xc4, 0x18, 0xc3, 0x90, 0x11, 0x22, 0x33, 0x44, 0x55, 0,    0,    0 } },
	{ "sub of more of the stack", { 0x48, 0x81, 0xec, 0x88, 1,    0,    0, 0x48, 0x8d, 0x44,
	                                0x77, 1,    0x48, 0x81, 0xc4, 0x88, 1, 0,    0,    0xc3 } },
	{ "endbr64, a short jump",
	  { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x04, 0x37, 0xeb, 0x03, 0xf4, 0xf4, 0xf4, 0xc3 } },
	{ "a jump alone", { 0xe9, 3, 0, 0, 0, 0xf4, 0xf4, 0xf4, 0x48, 0x8d, 0x04, 0x37, 0xc3 } },
	{ "xor of a free register", { 0x31, 0xc0, 0x48, 0x01, 0xf8, 0x48, 0x01, 0xf0, 0xc3 } },
};

enum { ROOM = 1 << 16, GLUE = 0x8000 };

/* Divert @code as attach does: its window leads to the undoing, and that to the moved code. */
static void divert(uint8_t *code)
{
	uint64_t entry = (uint64_t)(uintptr_t)code;
	uint8_t *glue = code + GLUE;
	struct ms_place place;
	struct ms_moved moved;

	cr_assert_eq(ms_place_choose(code, 40, entry, 2, &place), MS_PLACE_FOUND);
	memcpy(glue, place.undo, place.n_undo);
	cr_assert(ms_place_move(&place, entry + GLUE + place.n_undo, &moved));
	memcpy(glue + place.n_undo, moved.bytes, moved.len);
	cr_assert(ms_jump_write(place.window, entry + GLUE, code + (place.window - entry)));
}

Test(place, what_was_moved_answers_as_what_stood_there)
{
	for (size_t i = 0; i < N_OF(whole); i++) {
		uint8_t *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE | PROT_EXEC,
		                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		long before[3], after[3];
		function *call;

		cr_assert_neq(room, MAP_FAILED);
		memcpy(room, whole[i].code, sizeof(whole[i].code));
		memcpy(&call, &room, sizeof(call));
		for (int k = 0; k < 3; k++)
			before[k] = call(k, 1000);
		divert(room);
		for (int k = 0; k < 3; k++)
			after[k] = call(k, 1000);
		cr_expect_arr_eq(before, after, sizeof(before), "%s", whole[i].what);
		(void)munmap(room, ROOM);
	}
}

/* ---- as compilers make them with control-flow protection: Ubuntu's manner, and Fedora's ---- */

static const char *const compilers[] = { "gcc", "clang" };
static const char *const levels[] = { "-O0",
	                              "-O1",
	                              "-O2",
	                              "-O3",
	                              "-Os",
	                              "-O2 -fno-omit-frame-pointer -fstack-protector-all",
	                              "-O2 -fstack-clash-protection -D_FORTIFY_SOURCE=2",
	                              "-O2 -march=x86-64-v3" };

static const struct {
	const char *name;
	unsigned n_arguments;
} beginnings[] = {
	{ "a_malloc", 1 },  { "a_free", 1 },     { "a_calloc", 2 },
	{ "a_realloc", 2 }, { "a_memalign", 2 }, { "a_posix_memalign", 3 },
};

struct made {
	char what[LINE];
	void *library;
	uint8_t *glue; /* room for all that was moved */
};

static void *symbol_of(const struct made *made, const char *name, size_t *ret_size)
{
	void *at = dlsym(made->library, name), *found = NULL;
	const Elf64_Sym *symbol;
	Dl_info info;

	cr_assert(at && dladdr1(at, &info, &found, RTLD_DL_SYMENT) && found, "%s", name);
	symbol = found;
	*ret_size = symbol->st_size;
	return at;
}

/* False when there is no such compiler. */
static bool make_library(const char *compiler, const char *level, struct made *ret)
{
	char command[2 * LINE], path[64];

	snprintf(command, sizeof(command), "command -v %s >/dev/null", compiler);
	if (system(command))
		return false;
	snprintf(path, sizeof(path), "/tmp/memscan-beginnings-%d.so", (int)getpid());
	snprintf(command, sizeof(command),
	         "%s -shared -fPIC -fcf-protection=full -w %s -o %s "
	         "tests/e2e/special/beginnings.c",
	         compiler, level, path);
	cr_assert_eq(system(command), 0, "%s", command);
	snprintf(ret->what, sizeof(ret->what), "%s %s", compiler, level);
	ret->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	cr_assert(ret->library, "%s", dlerror());
	(void)unlink(path);
	/* The kernel maps it near libraries, which are near each other. */
	ret->glue = mmap(NULL, ROOM, PROT_READ | PROT_WRITE | PROT_EXEC,
	                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(ret->glue, MAP_FAILED);
	return true;
}

#define CALL(made, type, name) ((type)(uintptr_t)dlsym((made)->library, name))

/* What all functions do, as numbers. */
static size_t use_all(const struct made *made, long *ret)
{
	long (*place)(const void *) = CALL(made, long (*)(const void *), "place_of");
	void *(*a_malloc)(size_t) = CALL(made, void *(*)(size_t), "a_malloc");
	void (*a_free)(void *) = CALL(made, void (*)(void *), "a_free");
	void *(*a_calloc)(size_t, size_t) = CALL(made, void *(*)(size_t, size_t), "a_calloc");
	void *(*a_realloc)(void *, size_t) = CALL(made, void *(*)(void *, size_t), "a_realloc");
	void *(*a_memalign)(size_t, size_t) = CALL(made, void *(*)(size_t, size_t), "a_memalign");
	int (*a_posix)(void **, size_t, size_t) =
		CALL(made, int (*)(void **, size_t, size_t), "a_posix_memalign");
	unsigned char *block, *other = NULL;
	size_t n = 0;

	CALL(made, void (*)(void), "begin_again")();
	block = a_malloc(100);
	ret[n++] = place(block);
	ret[n++] = place(a_malloc(0));
	memset(block, 7, 100);
	block = a_realloc(block, 200);
	ret[n++] = place(block) + block[99];
	ret[n++] = place(a_realloc(NULL, 5));
	a_free(block);
	a_free(NULL);
	ret[n++] = block[0];
	ret[n++] = place(a_calloc(3, 33));
	ret[n++] = place(a_calloc(SIZE_MAX, 2));
	ret[n++] = place(a_memalign(256, 10));
	ret[n++] = a_posix((void **)&other, 512, 20);
	ret[n++] = place(other);
	ret[n++] = a_posix((void **)&other, 3, 20);
	ret[n++] = place(a_malloc(1 << 20));
	return n;
}

static void divert_made(const struct made *made)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	for (size_t i = 0; i < N_OF(beginnings); i++) {
		uint8_t *glue = made->glue + i * 512;
		size_t size;
		uint8_t *code = symbol_of(made, beginnings[i].name, &size);
		uint64_t entry = (uintptr_t)code;
		uint8_t *page = code - entry % 4096;
		struct ms_place place;
		struct ms_moved moved;

		cr_assert_arr_eq(code, endbr64, sizeof(endbr64), "%s", made->what);
		cr_assert_eq(ms_place_choose(code, size, entry, beginnings[i].n_arguments, &place),
		             MS_PLACE_FOUND, "%s, %s", made->what, beginnings[i].name);
		cr_expect_eq(place.window, entry + sizeof(endbr64));
		memcpy(glue, place.undo, place.n_undo);
		cr_assert(ms_place_move(&place, (uintptr_t)glue + place.n_undo, &moved));
		memcpy(glue + place.n_undo, moved.bytes, moved.len);
		cr_assert_eq(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
		cr_assert(ms_jump_write(place.window, (uintptr_t)glue,
		                        code + (place.window - entry)));
		cr_assert_arr_eq(code, endbr64, sizeof(endbr64), "it stays");
	}
}

Test(place, is_found_behind_each_endbr64_whatever_the_compiler)
{
	size_t n_made = 0;

	for (size_t i = 0; i < N_OF(compilers) * N_OF(levels); i++) {
		struct made made;
		long before[16], after[16];
		size_t n;

		if (!make_library(compilers[i / N_OF(levels)], levels[i % N_OF(levels)], &made))
			continue;
		n = use_all(&made, before);
		divert_made(&made);
		cr_assert_eq(use_all(&made, after), n);
		cr_expect_arr_eq(before, after, n * sizeof(*before), "%s", made.what);
		(void)munmap(made.glue, ROOM);
		(void)dlclose(made.library);
		n_made++;
	}
	cr_assert_gt(n_made, 0, "no compiler");
}
