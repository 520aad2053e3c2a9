/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/scan/naming.h"
#include "target/maps.h"

static struct ms_arena arena;
static struct ms_report *report;
static struct ms_error err;
static struct ms_naming naming;

/* The build-id of a file that is mapped, as a scan has it. */
static void take_build_id(struct ms_code *code)
{
	int fd = open(code->name, O_RDONLY | O_CLOEXEC);
	const void *id;
	ssize_t len;
	Elf *elf;

	(void)elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	len = elf ? dwelf_elf_gnu_build_id(elf, &id) : 0;
	if (len > 0 && len <= MS_BUILD_ID_BYTES) {
		memcpy(code->build_id, id, (size_t)len);
		code->build_id_len = (uint8_t)len;
	}
	(void)elf_end(elf);
	(void)close(fd);
}

/* A report of ourselves, without any address. */
static void setup(void)
{
	struct ms_mappings maps = { 0 };
	const struct ms_mapping *map;

	ms_arena_init(&arena);
	report = ms_arena_alloc(&arena, sizeof(*report));
	cr_assert_eq(ms_maps_read(getpid(), &arena, &maps, &err), MS_OK);
	ms_vec_for_each (map, &maps) {
		struct ms_code *code = map->inode ? ms_vec_push(&arena, &report->code) : NULL;

		if (!code)
			continue;
		*code = (struct ms_code){ .range = map->range,
			                  .offset = map->offset,
			                  .inode = map->inode,
			                  .dev_major = map->dev_major,
			                  .dev_minor = map->dev_minor,
			                  .prot = map->prot };
		(void)snprintf(code->name, sizeof(code->name), "%s", map->name);
		take_build_id(code);
	}
	naming = (struct ms_naming){ .pid = getpid() };
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(naming, .init = setup, .fini = teardown);

static void add_pc(ms_addr pc)
{
	ms_addr *entry = ms_vec_push(&arena, &report->pcs);

	cr_assert_not_null(entry);
	*entry = pc;
}

static void add_stack(size_t n)
{
	struct ms_stack *stack = ms_vec_push(&arena, &report->stacks);

	cr_assert_not_null(stack);
	*stack = (struct ms_stack){ (uint32_t)(report->pcs.n - n), (uint32_t)n, 0 };
}

/* Two bytes in: an address of ours, in a function of that name. */
static ms_addr in_setup(void)
{
	return (uintptr_t)setup + 2;
}

static void fill(void)
{
	cr_assert_eq(ms_naming_fill(&naming, &arena, report, &err), MS_OK);
}

static struct ms_code *own_code(void)
{
	struct ms_code *code = ms_range_find(&report->code, in_setup());

	cr_assert_not_null(code);
	return code;
}

static void check_is_setup(const struct ms_named *named)
{
	cr_assert_gt(named->functions.n, 0);
	cr_assert_str_eq(named->functions.at[named->functions.n - 1].name, "setup");
	cr_assert_str_eq(named->symbol.function, "setup");
	cr_assert_eq(named->symbol.function_offset, 2);
	cr_assert_not_null(strstr(named->symbol.file, "test_naming.c"));
	cr_assert_gt(named->symbol.line, 30);
	cr_assert_not_null(strstr(named->symbol.module, "test_naming"));
	cr_assert_eq(named->symbol.map_begin, own_code()->range.begin);
}

Test(naming, a_report_without_addresses_needs_no_process)
{
	naming.pid = -1;
	fill();
	cr_assert_eq(report->names.n, 0);
	cr_assert_eq(report->warnings.n, 0);
}

Test(naming, each_address_has_its_names_in_any_order)
{
	add_pc(in_setup());
	add_pc((uintptr_t)teardown + 2);
	add_pc(8);
	add_pc(in_setup());
	fill();
	cr_assert_eq(report->names.n, 4);
	check_is_setup(&report->names.at[0]);
	cr_assert_str_eq(report->names.at[1].symbol.function, "teardown");
	cr_assert_null(report->names.at[2].symbol.module);
	cr_assert_null(report->names.at[2].symbol.function);
	check_is_setup(&report->names.at[3]);
}

/* It stands behind all code that has lines, in a file of its own of the C library. */
extern void _fini(void);

Test(naming, code_without_lines_has_not_those_of_another_address)
{
	const struct ms_named *named;

	add_pc(in_setup());
	add_pc((uintptr_t)_fini + 1);
	fill();
	check_is_setup(&report->names.at[0]);
	named = &report->names.at[1];
	cr_assert_str_eq(named->symbol.function, "_fini");
	cr_assert_null(named->symbol.file);
	cr_assert_eq(named->functions.n, 1);
	cr_assert_null(named->functions.at[0].file);
	cr_assert_eq(named->functions.at[0].line, 0);
}

Test(naming, a_process_that_has_ended_is_named_by_its_files)
{
	naming.pid = 0;
	add_pc(in_setup());
	fill();
	check_is_setup(&report->names.at[0]);
}

Test(naming, another_build_is_not_believed)
{
	struct ms_code *code;

	add_pc(in_setup());
	add_pc((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version") + 2);
	ms_vec_for_each (code, &report->code)
		if (strcmp(code->name, own_code()->name) == 0)
			code->build_id[0] ^= 1;
	fill();
	cr_assert_null(report->names.at[0].symbol.function);
	cr_assert_not_null(report->names.at[1].symbol.function);
	cr_assert_eq(report->warnings.n, 1);
	cr_assert_not_null(strstr(report->warnings.at[0].text, "another build than was mapped"));
}

Test(naming, without_a_build_id_another_inode_is_not_believed)
{
	struct ms_code *code;

	add_pc(in_setup());
	ms_vec_for_each (code, &report->code)
		if (strcmp(code->name, own_code()->name) == 0) {
			code->build_id_len = 0;
			code->inode++;
		}
	fill();
	cr_assert_null(report->names.at[0].symbol.function);
	cr_assert_not_null(strstr(report->warnings.at[0].text, "it cannot be opened"));
}

/* What a mapping says of the offset may be a lie; an address is of no code then. */
Test(naming, code_that_the_file_has_not_has_no_name)
{
	add_pc(in_setup());
	own_code()->offset = UINT64_C(1) << 62;
	fill();
	cr_assert_null(report->names.at[0].symbol.function);
}

Test(naming, code_that_is_in_no_file_is_no_reason_to_warn)
{
	own_code()->inode = 0;
	own_code()->name[0] = '\0';
	add_pc(in_setup());
	fill();
	cr_assert_eq(report->warnings.n, 0);
	cr_assert_null(report->names.at[0].symbol.module);
}

/* A function whose length nobody tells, one whose length is told, and code of none. */
__asm__(".text\n"
        ".type without_size, @function\n"
        "without_size: nop\n"
        "nop\n"
        ".type with_size, @function\n"
        "with_size: nop\n"
        "nop\n"
        ".size with_size, . - with_size\n"
        ".Lof_none: nop\n"
        "nop\n"
        ".section .data.rel.local, \"aw\"\n"
        ".balign 8\n"
        "places: .quad without_size, with_size, .Lof_none\n"
        ".text\n");
extern const ms_addr places[3];

Test(naming, a_function_without_a_size_ends_where_one_with_a_size_does)
{
	for (size_t i = 0; i < 3; i++)
		add_pc(places[i] + 1);
	fill();
	cr_assert_str_eq(report->names.at[0].symbol.function, "without_size");
	cr_assert_str_eq(report->names.at[1].symbol.function, "with_size");
	cr_assert_null(report->names.at[2].symbol.function);
	cr_assert_not_null(report->names.at[2].symbol.module);
}

Test(naming, all_addresses_of_the_c_library_in_little_time)
{
	/* One of the first: what is mapped with code may begin with other things than code. */
	ms_addr first = (uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
	struct ms_code *code = ms_range_find(&report->code, first);
	size_t named = 0;

	cr_assert_not_null(code);
	for (ms_addr pc = first; pc < code->range.end && report->pcs.n < 20000; pc += 16)
		add_pc(pc);
	fill();
	for (size_t i = 0; i < report->names.n; i++)
		named += report->names.at[i].symbol.function != NULL;
	cr_assert_gt(named, report->names.n / 2);
}

/* ---- suppressions ---- */

static uint32_t verdict_of(const char *pattern)
{
	struct ms_suppression entries[] = { { "never", "file", 1 }, { pattern, "file", 2 } };
	const struct ms_suppressions suppressions = { .at = entries, .n = 2 };
	uint32_t verdicts[2] = { 77, 77 };

	cr_assert(ms_naming_judge(&naming, report, &suppressions, verdicts, &err));
	cr_assert_eq(verdicts[1], 0, "the other stack matches %s", pattern);
	return verdicts[0];
}

Test(naming, judges_by_function_file_and_module)
{
	add_pc(in_setup());
	add_pc((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version") + 2);
	add_stack(2);
	add_pc(8);
	add_stack(1);
	cr_assert_eq(verdict_of("^setup$"), 2);
	cr_assert_eq(verdict_of("/test_naming.c"), 2);
	cr_assert_eq(verdict_of("libc.so"), 2);
	cr_assert_eq(verdict_of("^libc.so.6$"), 2);
	cr_assert_eq(verdict_of("^teardown$"), 0);
	cr_assert_eq(verdict_of("never"), 0);
}

Test(naming, modules_are_judged_when_the_file_is_not_believed)
{
	add_pc(in_setup());
	add_stack(1);
	add_pc(8);
	add_stack(1);
	own_code()->build_id[0] ^= 1;
	cr_assert_eq(verdict_of("^setup$"), 0);
	cr_assert_eq(verdict_of("test_naming"), 2);
}

/* ---- what was named to judge is named once ---- */

static struct ms_names_book book;

/* Two stacks are judged; of one frame each, the second in no file. */
static void judge(uint32_t verdict)
{
	book = (struct ms_names_book){ .arena = &arena };
	naming.book = &book;
	add_pc(in_setup());
	add_stack(1);
	add_pc(8);
	add_stack(1);
	cr_assert_eq(verdict_of("^setup$"), verdict);
}

Test(naming, what_was_named_to_be_judged_is_not_named_again)
{
	judge(2);
	own_code()->build_id[0] ^= 1; /* whoever looks now finds another build */
	fill();
	check_is_setup(&report->names.at[0]);
	cr_assert_null(report->names.at[1].symbol.module);
	cr_assert_eq(report->warnings.n, 0);
}

Test(naming, what_was_not_asked_for_is_named_with_the_rest)
{
	judge(2);
	add_pc((uintptr_t)teardown + 2);
	add_pc(in_setup());
	fill();
	check_is_setup(&report->names.at[0]);
	cr_assert_str_eq(report->names.at[2].symbol.function, "teardown");
	check_is_setup(&report->names.at[3]);
}

Test(naming, the_question_may_be_gone_when_its_names_are_used)
{
	struct ms_codes code = report->code;
	size_t len = code.n * sizeof(*code.at);

	report->code.at = malloc(len);
	cr_assert_not_null(report->code.at);
	memcpy(report->code.at, code.at, len);
	judge(2);
	memset(report->code.at, 0xff, len);
	free(report->code.at);
	report->code = code;
	fill();
	check_is_setup(&report->names.at[0]);
}

Test(naming, what_is_to_be_said_of_a_file_is_said_once)
{
	own_code()->build_id[0] ^= 1;
	judge(0);
	cr_assert_eq(report->warnings.n, 0);
	fill();
	cr_assert_eq(report->warnings.n, 1);
	cr_assert_not_null(strstr(report->warnings.at[0].text, "another build"));
}
