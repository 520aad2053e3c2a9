/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what finds malloc in a static program without symbols (target/code/static_code.h),
 * and the gadgets that are looked for in any code (target/arch).
 *
 *	fuzz: -max_len=256 -len_control=0
 *
 * A program is drawn whose text refers to its main_arena. The first three bytes of an input
 * move its mappings; then come writes of three bytes, two for the place and one for the
 * value. It must neither crash nor run on, and what is found must be near the text.
 */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/code/static_code.h"

#include "fuzz.h"

enum {
	BASE = 0x10000,
	TEXT = 0x2000,
	DATA = 0x4000,
	ARENA = DATA + 0x100,
	BINS = 0x70,
	N_BINS = 127,
	BYTES = 0x6000,
	REFERENCES = 40,
	MARGIN = 0x1000,
};

static uint8_t program[BYTES];

static void put(size_t at, const void *bytes, size_t len)
{
	memcpy(program + at, bytes, len);
}

static void draw(void)
{
	static const uint8_t gadgets[] = { 0x0f, 0x05, 0xc3, 0x48, 0xc7, 0xc0,
		                           0x0f, 0,    0,    0,    0x0f, 0x05 };

	memset(program, 0, sizeof(program));
	for (size_t i = 0; i < N_BINS; i++) {
		uint64_t self = BASE + ARENA + BINS + (i - 1) * 16;

		put(ARENA + BINS + i * 16, &self, sizeof(self));
		put(ARENA + BINS + i * 16 + 8, &self, sizeof(self));
	}
	for (size_t i = 0; i < REFERENCES; i++) {
		size_t at = TEXT + 0x400 + i * 32;
		int32_t distance = (int32_t)(ARENA - (at + 4));

		put(at, &distance, sizeof(distance));
	}
	put(TEXT + 0x100, gadgets, sizeof(gadgets));
}

static void find_gadgets(void)
{
	uint8_t *text = malloc(DATA - TEXT);
	struct ms_gadgets found = { 0 };

	require(text, "there is memory");
	memcpy(text, program + TEXT, DATA - TEXT);
	ms_native_arch.calls->find(text, DATA - TEXT, TEXT, &found);
	require(!found.call || (found.call >= TEXT && found.call < DATA), "a call is in the text");
	require(!found.restore || (found.restore >= TEXT && found.restore < DATA),
	        "so is the other");
	free(text);
}

static bool find_malloc(const uint8_t moved[3])
{
	static int memory = -1;
	struct ms_mapping maps[] = {
		{ .range = { BASE, BASE + TEXT }, .prot = MS_PROT_READ },
		{ .range = { BASE + TEXT, BASE + DATA }, .prot = MS_PROT_READ | MS_PROT_EXEC },
		{ .range = { BASE + DATA, BASE + BYTES }, .prot = MS_PROT_READ | MS_PROT_WRITE },
	};
	const struct ms_mappings all = { maps, 3, 3 };
	struct ms_image image = { .object.span = { BASE, BASE + BYTES + moved[0] * 16u } };
	struct ms_arena arena = { 0 };
	struct ms_range code;
	bool found;

	maps[1].range.begin += moved[1] * 8u;
	maps[2].range.end -= moved[2] * 8u;
	if (memory < 0)
		memory = memfd_create("memory", MFD_CLOEXEC);
	require(pwrite(memory, program, BYTES, BASE) == BYTES, "the memory is there");
	image.mem_fd = memory;
	found = ms_static_code_find(&image, &all, &arena, &code);
	if (found)
		require(code.begin < code.end && code.begin >= BASE + TEXT - MARGIN &&
		                code.end <= BASE + DATA + MARGIN,
		        "it is in the text");
	ms_arena_deinit(&arena);
	return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return -1;
	draw();
	for (size_t i = 3; i + 3 <= size; i += 3)
		program[TEXT + (data[i] + 256u * data[i + 1]) % (BYTES - TEXT)] = data[i + 2];
	require(find_malloc(data) || size > 3 || data[1] > 64, "what it has is found");
	find_gadgets();
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	for (uint8_t i = 0; i < 16; i++) {
		uint8_t seed[] = { i, i * 16, i * 8, i, 4, 0, 1, i, 0x0f };

		take(seed, i % 2 ? 3 : sizeof(seed));
	}
}
