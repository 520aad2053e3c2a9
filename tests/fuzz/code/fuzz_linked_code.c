/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what finds an allocator that is linked into a program (target/code/linked_code.h), and
 * reads instructions for it (target/code/insn.h).
 *
 *	fuzz: -max_len=256 -len_control=0
 *
 * A program is drawn with an allocator whose functions refer to its state. The first three bytes of
 * an input move its text, its state and say what it is; then come writes of three bytes, two for
 * the place and one for the value. It must neither crash nor run on, and what is found must
 * be in the text.
 */

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/code/linked_code.h"

#include "fuzz.h"

enum {
	BASE = 0x400000,
	TABLE = 0x400, /* of functions */
	TEXT = 0x1000,
	ENTRY = 0x1400,
	MEMBERS = 0x1800, /* of the allocator */
	N_MEMBERS = 10,
	DATA = 0x3000,
	STATE = DATA + 0x100,
	BYTES = 0x4000,
	FUNCTION = 0x40,
};

static uint8_t program[BYTES];

static void put(size_t at, uint64_t value, size_t len)
{
	memcpy(program + at, &value, len);
}

static void draw(void)
{
	const Elf64_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64 },
		                  .e_entry = ENTRY };
	const uint32_t n = (DATA - TEXT) / FUNCTION;

	memset(program, 0x90, sizeof(program));
	memcpy(program, &head, sizeof(head));
	put(TABLE, 0x3b031b01, 4);
	put(TABLE + 8, n, 4);
	for (uint32_t i = 0; i < n; i++)
		put(TABLE + 12 + i * 8, (uint64_t)(TEXT + i * FUNCTION - TABLE), 4);
	for (size_t i = 0; i < N_MEMBERS; i++) {
		size_t at = MEMBERS + i * FUNCTION + 8;

		put(at, 0x058d48, 3); /* lea of the state */
		put(at + 3, STATE - (at + 7), 4);
		put(at + 16, 0xe8, 1); /* a call of what lies far behind */
		put(at + 17, MEMBERS + 0x800 + i * FUNCTION - (at + 21), 4);
	}
}

static size_t find(const uint8_t moved[3])
{
	static int memory = -1;
	struct ms_mapping maps[] = {
		{ .range = { BASE, BASE + TEXT }, .prot = MS_PROT_READ },
		{ .range = { BASE + TEXT, BASE + DATA }, .prot = MS_PROT_READ | MS_PROT_EXEC },
		{ .range = { BASE + DATA, BASE + BYTES }, .prot = MS_PROT_READ | MS_PROT_WRITE },
	};
	const struct ms_mappings all = { maps, 3, 3 };
	const ms_addr state = BASE + STATE + moved[1] / 32u;
	const struct ms_anchors anchors = { 1, { { state, state + 32 } } };
	struct ms_image image = { .object = { .span = { BASE, BASE + BYTES },
		                              .word_bytes = moved[2] & 1 ? 4 : 8,
		                              .bias = BASE,
		                              .frame_header = BASE + TABLE,
		                              .has_interpreter = moved[2] & 2 } };
	struct ms_arena arena = { 0 };
	struct ms_linked_code found;

	maps[1].range.end -= moved[0];
	if (memory < 0)
		memory = memfd_create("memory", MFD_CLOEXEC);
	require(pwrite(memory, program, BYTES, BASE) == BYTES, "the memory is there");
	image.mem_fd = memory;
	ms_linked_code_find(&image, &all, &anchors, &arena, &found);
	for (size_t i = 0; i < found.n; i++)
		require(found.at[i].begin < found.at[i].end &&
		                found.at[i].begin >= maps[1].range.begin &&
		                found.at[i].end <= maps[1].range.end &&
		                (!i || found.at[i - 1].end < found.at[i].begin),
		        "it is in the text, in order");
	ms_arena_deinit(&arena);
	return found.n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return -1;
	draw();
	for (size_t i = 3; i + 3 <= size; i += 3)
		program[TABLE + (data[i] + 256u * data[i + 1]) % (BYTES - TABLE)] = data[i + 2];
	require(find(data) || size > 3, "what it has is found");
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	for (uint8_t i = 0; i < 32; i++) {
		uint8_t seed[] = { i, i * 4, i, i * 8, 0x14, 0xe9, i, 0x16, 0x0f, 12, 0, i };

		take(seed, i % 2 ? 3 : sizeof(seed));
	}
}
