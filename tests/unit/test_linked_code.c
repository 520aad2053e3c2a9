/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/code/linked_code.h"

/*
 * A program with an allocator linked in:
 *
 *	BASE      TEXT                                          DATA      END
 *	│ header, │ cold parts │ ENTRY: main … │ archive │ others │ state    │
 *	│ table   │            │               │         │        │
 */
enum {
	BASE = 0x400000,
	TABLE = 0x400, /* of functions */
	TEXT = 0x10000,
	COLD = 0x10000,
	ENTRY = 0x11000,
	ARCHIVE = 0x12000,
	FAR = 0x60000,
	DATA = 0x70000,
	END = 0x72000,
	STATE = DATA + 0x100,
	MORE = DATA + 0x800,
	STATE_BYTES = 0x20,
	FUNCTION = 0x100, /* all have so many bytes, but for the last */
	MEMBERS = 16,     /* of the archive, that refer to its state */
	RW = MS_PROT_READ | MS_PROT_WRITE,
	RX = MS_PROT_READ | MS_PROT_EXEC,
};

static uint8_t program[END];
static struct ms_linked_code found;
static struct ms_anchors anchors;
static bool is_dynamic;
static bool has_table;
static struct ms_mapping maps[8];
static size_t n_maps;

static void put(size_t at, uint64_t value, size_t len)
{
	memcpy(program + at, &value, len);
}

/* lea to(%rip), %rax */
static void refer(size_t at, size_t to)
{
	put(at, 0x058d48, 3);
	put(at + 3, to - (at + 7), 4);
}

/* @code of @n bytes, and behind it how far it is from there to @to */
static void branch(size_t at, uint64_t code, size_t n, size_t to)
{
	put(at, code, n);
	put(at + n, to - (at + n + 4), 4);
}

static void call(size_t at, size_t to)
{
	branch(at, 0xe8, 1, to);
}

static void jump(size_t at, size_t to)
{
	branch(at, 0xe9, 1, to);
}

static void jump_if(size_t at, size_t to)
{
	branch(at, 0x840f, 2, to);
}

static void draw_table(void)
{
	uint32_t n = (DATA - TEXT) / FUNCTION;

	put(TABLE, 0x3b031b01, 4);
	put(TABLE + 8, n, 4);
	for (uint32_t i = 0; i < n; i++)
		put(TABLE + 12 + i * 8, (uint64_t)(TEXT + i * FUNCTION - TABLE), 4);
}

static void draw(void)
{
	const Elf64_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64 },
		                  .e_entry = ENTRY };

	memset(program, 0x90, sizeof(program));
	memcpy(program, &head, sizeof(head));
	draw_table();
	for (size_t i = 0; i < MEMBERS; i++)
		refer(ARCHIVE + i * FUNCTION + 0x20, STATE + i % 4 * 8);
	anchors = (struct ms_anchors){ 1, { { BASE + STATE, BASE + STATE + STATE_BYTES } } };
	is_dynamic = true;
	has_table = true;
	maps[0] = (struct ms_mapping){ .range = { BASE, BASE + TEXT }, .prot = MS_PROT_READ };
	maps[1] = (struct ms_mapping){ .range = { BASE + TEXT, BASE + DATA }, .prot = RX };
	maps[2] = (struct ms_mapping){ .range = { BASE + DATA, BASE + END }, .prot = RW };
	n_maps = 3;
}

static size_t find(void)
{
	const struct ms_mappings all = { maps, n_maps, n_maps };
	struct ms_image image = { .object = { .word_bytes = 8,
		                              .span = { BASE, BASE + END },
		                              .bias = BASE,
		                              .frame_header = has_table ? BASE + TABLE : 0,
		                              .has_interpreter = is_dynamic } };
	struct ms_arena arena = { 0 };

	image.mem_fd = memfd_create("memory", MFD_CLOEXEC);
	cr_assert_eq(pwrite(image.mem_fd, program, END, BASE), END);
	ms_linked_code_find(&image, &all, &anchors, &arena, &found);
	ms_arena_deinit(&arena);
	(void)close(image.mem_fd);
	return found.n;
}

static bool is_found(size_t at)
{
	for (size_t i = 0; i < found.n; i++)
		if (ms_range_has(found.at[i], BASE + at))
			return true;
	return false;
}

Test(linked_code, is_whole_functions_that_refer_to_the_state)
{
	draw();
	cr_assert_eq(find(), 1);
	cr_expect_eq(found.at[0].begin, BASE + ARCHIVE);
	cr_expect_eq(found.at[0].end, BASE + ARCHIVE + MEMBERS * FUNCTION);
	cr_expect_eq(found.anchors.n, 1);
	cr_expect(ms_anchors_have(&found.anchors, anchors.at[0]));
	cr_expect_eq(found.text.begin, BASE + TEXT);
	cr_expect_eq(found.text.end, BASE + DATA);
	cr_expect_not(found.calls_into_text);
}

Test(linked_code, has_what_it_calls_and_what_that_calls)
{
	draw();
	call(ARCHIVE + 0x80, ARCHIVE + (MEMBERS + 2) * FUNCTION);
	call(ARCHIVE + (MEMBERS + 2) * FUNCTION + 8, FAR);
	jump(FAR + 0x10, FAR + 0x8000);
	find();
	cr_expect(is_found(ARCHIVE + (MEMBERS + 2) * FUNCTION));
	cr_expect(is_found(ARCHIVE + (MEMBERS + 3) * FUNCTION - 1));
	cr_expect_not(is_found(ARCHIVE + (MEMBERS + 3) * FUNCTION));
	cr_expect(is_found(FAR) && is_found(FAR + FUNCTION - 1) && !is_found(FAR + FUNCTION));
	cr_expect(is_found(FAR + 0x8000));
}

Test(linked_code, has_not_what_calls_it)
{
	draw();
	call(ARCHIVE - FUNCTION + 0x10, ARCHIVE);
	call(ARCHIVE + MEMBERS * FUNCTION, ARCHIVE);
	find();
	cr_expect_not(is_found(ARCHIVE - 1));
	cr_expect_not(is_found(ARCHIVE + MEMBERS * FUNCTION));
}

/* The target of a call is a function's first byte, or a way out of the program. */
Test(linked_code, is_not_misled_by_bytes_that_look_like_a_call)
{
	draw();
	call(ARCHIVE + 0x80, FAR + 1);
	find();
	cr_expect_not(is_found(FAR));
	memcpy(program + FAR + 0x8, "\xf3\x0f\x1e\xfa\xf2\xff\x25", 7);
	call(ARCHIVE + 0x80, FAR + 0x8);
	find();
	cr_expect(is_found(FAR), "a stub");
}

enum {
	MOVABS = 0xb848, /* of %rax, and eight bytes */
	UNKNOWN = 0x06,  /* no instruction */
};

/* What @draw_it draws into an operand of @function makes FAR found only if that is not understood.
 */
static void hides(void (*draw_it)(size_t at, size_t to), size_t function, size_t to)
{
	draw();
	put(function + 0x80, MOVABS, 2);
	draw_it(function + 0x82, to);
	find();
	cr_expect_not(is_found(FAR));
	put(function + 0xf0, UNKNOWN, 1);
	find();
	cr_expect(is_found(FAR));
}

Test(linked_code, is_not_misled_by_an_operand_that_looks_like_a_jump)
{
	hides(jump, ARCHIVE, FAR);
}

Test(linked_code, is_not_misled_by_an_operand_that_looks_like_a_reference)
{
	hides(refer, FAR, STATE);
}

Test(linked_code, is_not_misled_where_the_last_instruction_is_another_functions)
{
	draw();
	put(ARCHIVE + 0x80, MOVABS, 2);
	jump(ARCHIVE + 0x82, FAR);
	put(ARCHIVE + FUNCTION - 1, MOVABS, 1);
	find();
	cr_expect(is_found(FAR));
}

Test(linked_code, has_a_neighbour_that_it_jumps_to_by_a_byte)
{
	const size_t next = ARCHIVE + MEMBERS * FUNCTION;

	draw();
	put(next - 2, 0x00eb, 2);
	find();
	cr_expect(is_found(next) && !is_found(next + FUNCTION));
}

Test(linked_code, has_the_cold_parts_of_its_functions)
{
	draw();
	jump_if(ARCHIVE + 0x80, COLD + 0x200 + 0x14);
	call(ARCHIVE + 0x180, COLD + 0x400);
	find();
	cr_expect(is_found(COLD + 0x200) && is_found(COLD + 0x300) && is_found(COLD + 0x4ff));
	cr_expect_not(is_found(COLD + 0x1ff) || is_found(COLD + 0x500));
	cr_expect_not(is_found(ENTRY), "what lies between is the program");
	cr_expect_not(is_found(ARCHIVE - 1));
}

Test(linked_code, has_what_lies_between_its_functions_and_what_that_calls)
{
	const size_t next = ARCHIVE + MEMBERS * FUNCTION + 0x4000;

	draw();
	refer(next + 0x20, STATE);
	call(next - 0x1000, FAR);
	find();
	cr_expect(is_found(next - 0x1000));
	cr_expect(is_found(FAR));
	draw();
	refer(next + FUNCTION + 0x20, STATE);
	find();
	cr_expect(is_found(next + FUNCTION));
	cr_expect_not(is_found(next - 0x1000), "too far");
}

Test(linked_code, is_not_more_ranges_than_there_is_room_for)
{
	draw();
	for (size_t i = 0; i < 16; i++)
		call(ARCHIVE + 0x40 + i * 8, ARCHIVE + 0x4400 + i * (0x4000 + 2 * FUNCTION));
	cr_expect_leq(find(), MS_LINKED_CODE_RANGES);
	cr_expect_geq(found.n, 1);
	for (size_t i = 0; i < 16; i++)
		cr_expect(is_found(ARCHIVE + 0x4400 + i * (0x4000 + 2 * FUNCTION)), "%zu", i);
}

/* The C library is in there: what is far is known by who called it. */
Test(linked_code, of_a_static_program_ends_where_the_c_library_may_begin)
{
	draw();
	is_dynamic = false;
	call(ARCHIVE + 0x80, ARCHIVE + 0x8000);
	call(ARCHIVE + 0x180, COLD + 0x400);
	find();
	cr_expect(is_found(ARCHIVE + 0x8000));
	cr_expect(is_found(COLD + 0x400));
	cr_expect_not(found.calls_into_text);
	refer(FAR + 0x8000, STATE);
	call(ARCHIVE + 0x380, FAR);
	find();
	cr_expect(is_found(FAR), "near one that refers to it behind");
	memset(program + FAR + 0x8000, 0x90, FUNCTION);
	memset(program + ARCHIVE + 0x380, 0x90, 8);
	call(ARCHIVE + 0x280, FAR);
	find();
	cr_expect_not(is_found(FAR));
	cr_expect(found.calls_into_text);
	jump_if(ARCHIVE + 0x380, FAR + 4);
	find();
	cr_expect(is_found(FAR), "a part of a function");
}

Test(linked_code, of_programs_at_fixed_addresses_has_absolute_operands)
{
	static const struct {
		const char *what;
		uint8_t bytes[4];
		bool known;
	} cases[] = {
		{ "an address beside a scaled index", { 0x48, 0x8b, 0x04, 0xc5 }, true },
		{ "the same with a register", { 0x48, 0x8b, 0x84, 0xc8 }, true },
		{ "an address beside a register", { 0x90, 0x48, 0x8b, 0x80 }, true },
		{ "a constant for a register", { 0x90, 0x90, 0x41, 0xb8 }, true },
		{ "the same, signed", { 0x90, 0x48, 0xc7, 0xc0 }, true },
		{ "an address alone", { 0x48, 0x8b, 0x04, 0x25 }, true },
		{ "a number", { 0x31, 0x31, 0x31, 0x31 }, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		draw();
		memcpy(program + FAR, cases[i].bytes, 4);
		put(FAR + 4, BASE + STATE + 8, 4);
		find();
		cr_expect_eq(is_found(FAR), cases[i].known, "%s", cases[i].what);
	}
}

Test(linked_code, is_known_only_where_many_functions_refer_to_each_anchor)
{
	draw();
	anchors.at[anchors.n++] = (struct ms_range){ BASE + MORE, BASE + MORE + 8 };
	for (size_t i = 0; i < 7; i++)
		refer(ARCHIVE + i * FUNCTION + 0x40, MORE);
	refer(ARCHIVE + 0x60, MORE);
	cr_expect_eq(find(), 0, "seven functions");
	refer(ARCHIVE + 7 * FUNCTION + 0x40, MORE);
	cr_expect_eq(find(), 1, "eight");
	cr_expect_eq(found.anchors.n, 2);
}

Test(linked_code, is_not_looked_for_by_anchors_outside_of_the_programs_data)
{
	draw();
	anchors.at[0] = (struct ms_range){ BASE + TEXT, BASE + TEXT + 8 };
	cr_expect_eq(find(), 0);
	cr_expect_eq(found.anchors.n, 0);
	anchors.at[0] = (struct ms_range){ 0x7f0000000000, 0x7f0000000008 };
	cr_expect_eq(find(), 0);
	anchors.n = 0;
	cr_expect_eq(find(), 0);
	anchors.n = UINT32_MAX;
	memset(anchors.at, 0xff, sizeof(anchors.at));
	cr_expect_eq(find(), 0);
}

Test(linked_code, is_not_known_without_a_table_of_functions)
{
	draw();
	has_table = false;
	cr_expect_eq(find(), 0, "no table");
	draw();
	program[TABLE + 3] = 0x1b;
	cr_expect_eq(find(), 0, "another encoding");
	draw();
	put(TABLE + 8, UINT32_MAX, 4);
	cr_expect_eq(find(), 0, "too many");
	draw();
	put(TABLE + 12 + 8, (uint64_t)(FAR - TABLE), 4);
	cr_expect_eq(find(), 0, "out of order");
}

Test(linked_code, is_in_one_mapping_or_not_known)
{
	draw();
	maps[1].range.end = BASE + FAR;
	maps[3] = maps[2];
	maps[2] = (struct ms_mapping){ .range = { BASE + FAR, BASE + DATA }, .prot = RX };
	n_maps = 4;
	cr_expect_eq(find(), 0);
}
