/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "engine/loaded/reserved.h"
#include "fake.h"
#include "module.h"

/* A program at MODULE with its data, and a page in the midst of a range that has no access. */
enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	MODULE = 0x400000,
	DATA = 0x401000,
	DATA_BYTES = 0x20000,
	RESERVED = 0x10000000,
	AROUND = 1 << 17,
	PAGE = 0x1000,
};

struct drawn {
	const char *what;
	uint64_t mark_at; /* in the data */
	uint64_t before;  /* bytes without access */
	uint64_t behind;
	uint8_t prot; /* of what is behind */
	size_t n;     /* ranges to be found */
};

static size_t count(const struct drawn *drawn)
{
	struct ms_regions regions = { 0 };
	struct ms_ranges found = { 0 };
	struct ms_fake fake;
	struct ms_error err;
	Elf64_Phdr *phdr;
	size_t n;

	ms_fake_init(&fake);
	phdr = elf_write(ms_fake_map(&fake, MODULE, PAGE, MS_PROT_READ, "/bin/program"), 2);
	phdr[0] = elf_load(0, PAGE, PF_R);
	phdr[1] = elf_load(PAGE, DATA_BYTES, PF_R | PF_W);
	ms_fake_map(&fake, DATA, DATA_BYTES, RW, "/bin/program");
	memcpy(ms_fake_at(&fake, DATA + drawn->mark_at), "\xff Go buildinf:", 14);
	ms_fake_map(&fake, RESERVED - drawn->before, drawn->before, 0, "");
	ms_fake_map(&fake, RESERVED, PAGE, RW, "");
	ms_fake_map(&fake, RESERVED + PAGE, drawn->behind, drawn->prot, "");
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	cr_assert(ms_reserved_find(&fake.base, &regions, &fake.arena, &found));
	n = found.n;
	if (n)
		cr_expect(found.at[0].begin == RESERVED && found.at[0].end == RESERVED + PAGE);
	ms_fake_deinit(&fake);
	return n;
}

Test(reserved, pages_are_gos_own_in_the_midst_of_a_range)
{
	static const struct drawn cases[] = {
		{ "such a page", 0x40, AROUND, AROUND, 0, 1 },
		{ "the last mark that is looked at", 0xfff0, AROUND, AROUND, 0, 1 },
		{ "a mark too far", 0x10000, AROUND, AROUND, 0, 0 },
		{ "no mark: it is not aligned", 0x48, AROUND, AROUND, 0, 0 },
		{ "a guard page in front", 0x40, PAGE, AROUND, 0, 0 },
		{ "a guard page behind", 0x40, AROUND, PAGE, 0, 0 },
		{ "memory that can be read behind", 0x40, AROUND, AROUND, MS_PROT_READ, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(count(&cases[i]), cases[i].n, "%s", cases[i].what);
}
