/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "engine/origins/origins.h"
#include "engine/origins/unloaded.h"
#include "fake.h"
#include "module.h"

/* Libraries that stacks were kept of, and what is at their addresses now. */

enum {
	PAGE = 4096,
	RX = MS_PROT_READ | MS_PROT_EXEC,
	AT = 0x400000,
	CODE = AT + PAGE,
	NOTE = 0x800, /* from AT on */
	ID_BYTES = 20,
};

static struct ms_fake fake;
static struct ms_origins origins;
static struct ms_decoding decoding;
static struct ms_former former;

static void init(void)
{
	ms_fake_init(&fake);
	memset(&origins, 0, sizeof(origins));
	decoding = (struct ms_decoding){ .src = &fake.base,
		                         .arena = &fake.arena,
		                         .origins = &origins };
	former = (struct ms_former){
		.file = { AT, CODE + PAGE },
		.code = CODE,
		.code_offset = PAGE,
		.first_stack = 10,
		.end_stack = 20,
		.build_id_len = ID_BYTES,
		.path = "/lib/plugin.so",
	};
	memset(former.build_id, 0xab, ID_BYTES);
}

static void deinit(void)
{
	ms_fake_deinit(&fake);
}

TestSuite(unloaded, .init = init, .fini = deinit, .timeout = 20);

static void map(const char *name)
{
	ms_fake_map(&fake, AT, PAGE, MS_PROT_READ, name);
	ms_fake_map(&fake, CODE, PAGE, RX, name);
}

/* A header, and a note with a build-id of such bytes. */
static void write_id(uint8_t byte)
{
	unsigned char *page = ms_fake_at(&fake, AT);
	Elf64_Phdr *segments = elf_write(page, 2);
	const Elf64_Nhdr note = { sizeof(ELF_NOTE_GNU), ID_BYTES, NT_GNU_BUILD_ID };

	segments[0] = elf_load(0, 2 * PAGE, PF_R);
	segments[1] = (Elf64_Phdr){ .p_type = PT_NOTE,
		                    .p_vaddr = NOTE,
		                    .p_memsz = sizeof(note) + sizeof(ELF_NOTE_GNU) + ID_BYTES,
		                    .p_align = 4 };
	memcpy(page + NOTE, &note, sizeof(note));
	memcpy(page + NOTE + sizeof(note), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU));
	memset(page + NOTE + sizeof(note) + sizeof(ELF_NOTE_GNU), byte, ID_BYTES);
}

static ms_addr move(ms_addr pc, uint32_t stack)
{
	return ms_unloaded_move(&origins, pc, stack);
}

static const char *name_at(ms_addr pc)
{
	const struct ms_code *code = ms_range_find(&origins.unloaded, pc);

	return code ? code->name : "";
}

/* Whether a stack of its time is moved. */
static bool is_kept(void)
{
	cr_assert(ms_unloaded_add(&decoding, &former));
	return move(CODE, 15) != CODE;
}

Test(unloaded, one_that_is_loaded_as_it_was_is_not_kept)
{
	map("/lib/plugin.so");
	write_id(0xab);
	cr_assert_not(is_kept());
	cr_assert_eq(origins.unloaded.n, 0);
}

Test(unloaded, one_where_nothing_is_any_more_is_kept)
{
	cr_assert(is_kept());
}

Test(unloaded, one_of_another_build_id_is_kept)
{
	map("/lib/plugin.so");
	write_id(0xac);
	cr_assert(is_kept());
}

Test(unloaded, one_that_is_at_another_place_of_the_same_file_is_kept)
{
	map("/lib/plugin.so");
	write_id(0xab);
	former.code_offset = 0;
	cr_assert(is_kept());
}

Test(unloaded, without_a_build_id_the_name_of_the_file_has_to_do)
{
	former.build_id_len = 0;
	map("/other/plugin.so (deleted)");
	cr_assert_not(is_kept());
	memset(&origins, 0, sizeof(origins));
	former.path = "/lib/plugin";
	cr_assert(is_kept());
}

Test(unloaded, what_shows_no_file_is_the_same_unless_it_was_seen_to_be_gone)
{
	ms_fake_map(&fake, CODE, PAGE, RX, "");
	former.end_stack = 0;
	cr_assert_not(is_kept());
	former.end_stack = 20;
	cr_assert(is_kept());
}

Test(unloaded, only_stacks_of_its_time_are_moved)
{
	static const struct {
		ms_addr pc;
		uint32_t stack;
		bool moved;
	} cases[] = {
		{ CODE, 10, true },  { CODE + PAGE - 1, 19, true }, { CODE, 9, false },
		{ CODE, 20, false }, { CODE - 1, 15, false },       { CODE + PAGE, 15, false },
	};

	cr_assert(ms_unloaded_add(&decoding, &former));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(move(cases[i].pc, cases[i].stack) != cases[i].pc, cases[i].moved,
		             "%zu", i);
}

Test(unloaded, two_at_the_same_place_are_told_apart)
{
	ms_addr one;
	ms_addr other;

	cr_assert(ms_unloaded_add(&decoding, &former));
	former.first_stack = former.end_stack;
	former.end_stack = 0;
	former.path = "/lib/other.so";
	cr_assert(ms_unloaded_add(&decoding, &former));
	one = move(CODE + 5, 19);
	other = move(CODE + 5, 20);
	cr_assert_neq(one, other);
	cr_expect_str_eq(name_at(one), "/lib/plugin.so");
	cr_expect_str_eq(name_at(other), "/lib/other.so");
}

Test(unloaded, stacks_of_one_that_is_loaded_again_stay_whatever_was_there_meanwhile)
{
	map("/lib/plugin.so");
	write_id(0xab);
	cr_assert(ms_unloaded_add(&decoding, &former));
	former.first_stack = 0;
	former.end_stack = 30;
	former.build_id[0] = 1;
	cr_assert(ms_unloaded_add(&decoding, &former));
	cr_expect_eq(move(CODE, 15), CODE);
	cr_expect_neq(move(CODE, 25), CODE);
}

Test(unloaded, what_makes_no_sense_is_left_out)
{
	static const struct ms_range files[] = {
		{ CODE + 1, CODE + PAGE }, /* the code in front of it */
		{ AT, CODE },              /* no code */
		{ AT, UINT64_C(1) << 60 }, /* too long */
		{ UINT64_MAX - PAGE, CODE },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		former.file = files[i];
		cr_assert(ms_unloaded_add(&decoding, &former));
	}
	former.file = (struct ms_range){ AT, CODE + PAGE };
	former.build_id_len = MS_BUILD_ID_BYTES + 1;
	cr_assert(ms_unloaded_add(&decoding, &former));
	cr_assert_eq(origins.formers.n + origins.unloaded.n, 0);
}

/* ---- in a report ---- */

Test(unloaded, a_report_has_the_code_of_those_alone_that_its_stacks_are_in)
{
	struct ms_report report = { 0 };
	struct ms_origin_teller teller = { &origins, &fake.base, &fake.arena, &report, NULL };
	const struct ms_code *code;
	ms_addr *pc;

	cr_assert(ms_unloaded_add(&decoding, &former));
	former.path = "/lib/other.so";
	former.first_stack = 30;
	former.end_stack = 40;
	cr_assert(ms_unloaded_add(&decoding, &former));
	pc = ms_vec_push(&fake.arena, &report.pcs);
	*pc = move(CODE + 7, 35);
	cr_assert(ms_origin_tell_code(&teller));
	cr_assert_eq(report.code.n, 2, "from its header on");
	code = ms_range_find(&report.code, *pc);
	cr_expect_eq(code, &report.code.at[1]);
	cr_expect_str_eq(code->name, "/lib/other.so");
	cr_expect_eq(*pc - code->moved, CODE + 7);
	cr_expect_eq(*pc - code->range.begin + code->offset, PAGE + 7);
	cr_expect_eq(*pc - code->bias, PAGE + 7);
	cr_expect_eq(report.code.at[0].offset, 0);
	cr_expect_eq(report.code.at[0].range.end, code->range.begin);
}
