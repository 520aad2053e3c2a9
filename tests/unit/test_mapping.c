/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "engine/mapping.h"
#include "fake.h"
#include "module.h"

enum { R = MS_PROT_READ, RW = MS_PROT_READ | MS_PROT_WRITE, RX = MS_PROT_READ | MS_PROT_EXEC };

static struct ms_fake fake;
static struct ms_regions regions;

static void classify(void)
{
	struct ms_error err;

	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
}

static enum ms_region_kind kind_at(ms_addr addr)
{
	const struct ms_region *r = ms_region_of(&regions, addr);

	cr_assert_not_null(r, "nothing at 0x%lx", (unsigned long)addr);
	return r->kind;
}

/* Text at 0x400000, data of 0x1000 file and 0x3000 memory bytes at 0x402000. */
static void map_program(void)
{
	Elf64_Phdr *phdr;

	ms_fake_init(&fake);
	phdr = elf_write(ms_fake_map(&fake, 0x400000, 0x1000, R, "/bin/p"), 3);
	phdr[0] = elf_load(0x400000, 0x1000, PF_R);
	phdr[1] = elf_load(0x401000, 0x1000, PF_R | PF_X);
	phdr[2] = elf_load(0x402000, 0x2800, PF_R | PF_W);
	ms_fake_map(&fake, 0x401000, 0x1000, RX, "/bin/p");
	ms_fake_map(&fake, 0x402000, 0x1000, RW, "/bin/p");
}

Test(mapping, gives_zero_filled_data_to_its_program)
{
	map_program();
	ms_fake_map(&fake, 0x403000, 0x5000, RW, "");
	classify();
	cr_assert_eq(kind_at(0x402000), MS_REGION_GLOBALS);
	cr_assert_eq(kind_at(0x403000), MS_REGION_GLOBALS);
	cr_assert_eq(kind_at(0x404fff), MS_REGION_GLOBALS);
	cr_assert_eq(kind_at(0x405000), MS_REGION_MEMORY, "what was mapped behind is not bss");
	ms_fake_deinit(&fake);
}

Test(mapping, gives_the_break_its_own_when_it_shares_with_bss)
{
	map_program();
	ms_fake_map(&fake, 0x403000, 0x9000, RW, "[heap]");
	classify();
	cr_assert_eq(kind_at(0x403000), MS_REGION_GLOBALS);
	cr_assert_eq(kind_at(0x405000), MS_REGION_BRK);
	ms_fake_deinit(&fake);
}

Test(mapping, keeps_programs_and_libraries_apart)
{
	Elf64_Phdr *phdr;

	map_program();
	phdr = elf_write(ms_fake_map(&fake, 0x700000, 0x1000, R, "/lib/l"), 2);
	phdr[0] = elf_load(0, 0x1000, PF_R);
	phdr[1] = elf_load(0x1000, 0x1000, PF_R | PF_W);
	ms_fake_map(&fake, 0x701000, 0x1000, RW, "/lib/l");
	ms_fake_map(&fake, 0x702000, 0x1000, RW, "");
	classify();
	cr_assert_neq(ms_region_of(&regions, 0x402000)->module,
	              ms_region_of(&regions, 0x701000)->module);
	cr_assert_eq(kind_at(0x701000), MS_REGION_GLOBALS);
	cr_assert_eq(kind_at(0x702000), MS_REGION_MEMORY);
	ms_fake_deinit(&fake);
}

Test(mapping, takes_private_files_that_are_no_modules_for_memory)
{
	map_program();
	ms_fake_map(&fake, 0x600000, 0x1000, RW, "/var/data");
	classify();
	cr_assert_eq(kind_at(0x600000), MS_REGION_MEMORY);
	ms_fake_deinit(&fake);
}

Test(mapping, passes_over_kernel_pages_and_devices)
{
	ms_fake_init(&fake);
	ms_fake_map(&fake, 0x10000, 0x1000, RW, "/dev/dri/card0");
	ms_fake_map(&fake, 0x20000, 0x1000, RW, "/dev/zero (deleted)");
	ms_fake_map(&fake, 0x30000, 0x1000, RW, "/dev/shm/x");
	ms_fake_map(&fake, 0x40000, 0x1000, R, "[vvar]");
	ms_fake_map(&fake, 0x50000, 0x1000, RX, "[vdso]");
	ms_fake_map(&fake, 0x60000, 0x1000, RW, "[stack]");
	classify();
	cr_assert_eq(kind_at(0x10000), MS_REGION_SKIP);
	cr_assert_eq(kind_at(0x20000), MS_REGION_MEMORY);
	cr_assert_eq(kind_at(0x30000), MS_REGION_MEMORY);
	cr_assert_eq(kind_at(0x40000), MS_REGION_SKIP);
	cr_assert_eq(kind_at(0x50000), MS_REGION_SKIP);
	cr_assert_eq(kind_at(0x60000), MS_REGION_STACK);
	ms_fake_deinit(&fake);
}

Test(mapping, does_not_believe_a_header_that_makes_no_sense)
{
	Elf64_Phdr *phdr;

	ms_fake_init(&fake);
	phdr = elf_write(ms_fake_map(&fake, 0x400000, 0x1000, R, "/bin/p"), 2);
	phdr[0] = elf_load(0x400000, 0x1000, PF_R);
	phdr[1] = elf_load(0x401000, UINT64_MAX - 0x500000, PF_R | PF_W);
	ms_fake_map(&fake, 0x401000, 0x1000, RW, "");
	classify();
	cr_assert_eq(kind_at(0x401000), MS_REGION_MEMORY);
	ms_fake_deinit(&fake);
}
