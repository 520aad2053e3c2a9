/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what reads the functions of an ELF file (elf/functions.h).
 *
 *	fuzz: -max_len=2048
 *
 * The first byte of an input says where the image begins, the second how much shorter the
 * file is than it was said to be; the rest is the file. It must neither crash nor run on.
 * Functions must be in order, have names, and be found at their addresses alone.
 */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/functions.h"

#include "module.h"

static int file = -1;

static void write_file(const uint8_t *data, size_t size)
{
	if (file < 0)
		file = memfd_create("file", MFD_CLOEXEC);
	require(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size,
	        "the file is there");
}

static void check(const struct ms_elf_image *image, size_t size)
{
	const struct ms_elf_function *f;
	uint64_t begin = 0;

	ms_vec_for_each (f, &image->functions) {
		const struct ms_elf_function *at = ms_elf_function_at(image, f->begin);

		require(f->begin >= begin && f->end > f->begin, "functions are in order");
		require(f->name[0] && strlen(f->name) < size, "they have names");
		require(at && at->begin == f->begin, "the nearest is found");
		at = ms_elf_function_at(image, f->end);
		require(!at || (at->begin <= f->end && at->end > f->end), "it has the address");
		begin = f->begin;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ms_arena arena = { 0 };
	struct ms_elf_image image = { .variables = false };

	if (size < 2)
		return -1;
	write_file(data + 2, size - 2);
	if (ms_elf_read(file, data[0], size - 2 + data[1], &arena, &image)) {
		check(&image, size);
		require(image.functions.n == 3 || data[0] || !is_drawn(data + 2, size - 2),
		        "what it has is found");
		(void)ms_elf_address(&image, size);
	}
	ms_arena_deinit(&arena);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	uint8_t seed[2 + 3 + sizeof(struct drawn_module)] = { 0 };
	struct drawn_module m;

	for (uint8_t begin = 0; begin < 4; begin++) {
		draw_module(&m);
		if (begin == 1)
			m.symbols[1].st_name = sizeof(m.strings) + 10;
		if (begin == 2)
			m.sections[1].sh_type = SHT_DYNSYM;
		if (begin == 3) {
			m.symbols[1].st_name = sizeof(m.strings) - 1;
			m.strings[sizeof(m.strings) - 1] = 'x';
		}
		seed[0] = begin;
		memcpy(seed + 2 + begin, &m, sizeof(m));
		take(seed, 2 + begin + sizeof(m));
	}
}
