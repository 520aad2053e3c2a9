/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/inject/functions.h"
#include "target/maps.h"

/* In this very process, whose C library nobody has changed. */
static struct ms_arena arena;
static struct ms_mappings maps;
static struct ms_malloc_functions found;
static struct ms_error err;
static int mem_fd;

static enum ms_status find(void)
{
	const struct ms_running in = { getpid(), mem_fd, &maps };

	return ms_malloc_functions_find(&in, &arena, &found, &err);
}

static void setup(void)
{
	ms_arena_init(&arena);
	memset(&maps, 0, sizeof(maps));
	cr_assert_eq(ms_maps_read(getpid(), &arena, &maps, &err), MS_OK);
	mem_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	cr_assert_geq(mem_fd, 0);
}

static void teardown(void)
{
	(void)close(mem_fd);
	ms_arena_deinit(&arena);
}

TestSuite(functions, .init = setup, .fini = teardown);

static ms_addr address_of(const char *name)
{
	void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	ms_addr at = (uintptr_t)dlsym(library, name);

	cr_assert(at, "no %s", name);
	return at;
}

Test(functions, are_found_where_the_loader_finds_them)
{
	cr_assert_eq(find(), MS_OK, "%s", err.text);
	cr_expect(!strncmp(found.name, "glibc ", 6), "%s", found.name);
	cr_expect_str_eq(found.name + 6, gnu_get_libc_version());
	for (unsigned i = 0; i < MS_AGENT_N; i++) {
		const struct ms_malloc_function *function = &found.at[i];

		cr_expect_neq(function->found, function->left_out != NULL);
		if (function->found)
			cr_expect_eq(function->place.entry, address_of(ms_function_name(i)), "%s",
			             ms_function_name(i));
	}
	cr_expect(found.at[MS_AGENT_MALLOC].found && found.at[MS_AGENT_FREE].found &&
	          found.at[MS_AGENT_REALLOC].found);
}

Test(functions, with_two_names_are_diverted_once)
{
	ms_addr memalign_at = address_of("memalign");

	cr_assert_eq(find(), MS_OK, "%s", err.text);
	cr_expect_eq(found.at[MS_AGENT_ALIGNED_ALLOC].is_other_name,
	             memalign_at == address_of("aligned_alloc"));
	for (unsigned i = 0; i < MS_AGENT_N; i++)
		for (unsigned k = 0; k < i; k++)
			cr_expect(!found.at[i].found || !found.at[k].found ||
			          found.at[i].place.entry != found.at[k].place.entry);
}

Test(functions, of_a_process_without_the_c_library_are_refused_with_advice)
{
	maps.n = 0;
	cr_expect_eq(find(), MS_E_UNSUPPORTED);
	cr_expect(strstr(err.text, "has loaded no C library that is known"), "%s", err.text);
	cr_expect(*err.advice);
}

Test(functions, whose_file_is_another_are_refused)
{
	char *other = realpath("/proc/self/exe", NULL);
	struct ms_mapping *map;

	ms_vec_for_each (map, &maps)
		if (strstr(map->name, "/libc.so.6") || strstr(map->name, "/libc-2")) {
			map->range.begin += map->prot & MS_PROT_EXEC ? 4096 : 0;
			map->name = other; /* neither map_files nor the name leads to it */
		}
	cr_expect_eq(find(), MS_E_UNSUPPORTED);
	cr_expect(strstr(err.text, "cannot be read, or is another"), "%s", err.text);
	free(other);
}

/* ---- windows ---- */

enum { ENTRY = 0x1000, SLOT = 0x9000 };

/* push %rbx; mov %rdi,%rbx; sub $16,%rsp */
static const uint8_t code[] = { 0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10, 0x90, 0x90,
	                        0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 };

static enum ms_window look_at(const uint8_t *now)
{
	struct ms_place place;
	int fd = memfd_create("code", MFD_CLOEXEC);
	enum ms_window window;

	cr_assert_eq(ms_place_choose(code, sizeof(code), ENTRY, 1, &place), MS_PLACE_FOUND);
	cr_assert_eq(pwrite(fd, now, sizeof(code), ENTRY), sizeof(code));
	window = ms_window_look(fd, &place, SLOT);
	(void)close(fd);
	return window;
}

static void jump_to(uint8_t *bytes, uint64_t aim)
{
	memcpy(bytes, code, sizeof(code));
	cr_assert(ms_jump_write(ENTRY + 1, aim, bytes + 1));
}

Test(functions, as_in_the_file_are_plain)
{
	cr_expect_eq(look_at(code), MS_WINDOW_PLAIN);
}

Test(functions, with_our_jump_are_ours)
{
	uint8_t bytes[sizeof(code)];

	jump_to(bytes, SLOT);
	cr_expect_eq(look_at(bytes), MS_WINDOW_OURS);
}

Test(functions, with_another_jump_are_foreign)
{
	uint8_t bytes[sizeof(code)];

	jump_to(bytes, SLOT + 1);
	cr_expect_eq(look_at(bytes), MS_WINDOW_FOREIGN);
}

Test(functions, with_a_changed_byte_are_foreign)
{
	/* up to the end of the last instruction that the jump would cover */
	for (size_t i = 0; i < 8; i++) {
		uint8_t bytes[sizeof(code)];

		memcpy(bytes, code, sizeof(code));
		bytes[i] ^= 1;
		cr_expect_eq(look_at(bytes), MS_WINDOW_FOREIGN, "byte %zu", i);
	}
}

Test(functions, may_have_a_breakpoint_on_the_instruction_that_stays)
{
	uint8_t bytes[sizeof(code)];

	memcpy(bytes, code, sizeof(code));
	bytes[0] = 0xcc;
	cr_expect_eq(look_at(bytes), MS_WINDOW_PLAIN);
	jump_to(bytes, SLOT);
	bytes[0] = 0xcc;
	cr_expect_eq(look_at(bytes), MS_WINDOW_OURS);
}

Test(functions, may_have_no_breakpoint_where_the_jump_goes)
{
	uint8_t bytes[sizeof(code)];

	memcpy(bytes, code, sizeof(code));
	bytes[1] = 0xcc;
	cr_expect_eq(look_at(bytes), MS_WINDOW_FOREIGN);
}
