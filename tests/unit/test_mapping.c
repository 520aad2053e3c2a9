/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "engine/mapping.h"
#include "engine/modules.h"
#include "fake.h"
#include "module.h"

enum { R = MS_PROT_READ, RW = MS_PROT_READ | MS_PROT_WRITE, RX = MS_PROT_READ | MS_PROT_EXEC };

static struct ms_fake fake;
static struct ms_regions regions;

static void classify(void)
{
	struct ms_error err;

	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	for (size_t i = 0; i < regions.n; i++)
		cr_assert_lt(regions.at[i].range.begin, regions.at[i].range.end);
}

static enum ms_region_kind kind_at(ms_addr addr)
{
	const struct ms_region *r = ms_region_of(&regions, addr);

	cr_assert_not_null(r, "nothing at 0x%lx", (unsigned long)addr);
	return r->kind;
}

/* Text from 0x400100 on, data of 0x1000 file and 0x2080 memory bytes at 0x402000. */
static void map_program(void)
{
	Elf64_Phdr *phdr;

	ms_fake_init(&fake);
	phdr = elf_write(ms_fake_map(&fake, 0x400000, 0x1000, R, "/bin/p"), 5);
	phdr[0] = elf_load(0, 0x800000, PF_R | PF_W);
	phdr[0].p_type = PT_GNU_STACK;
	phdr[1] = elf_load(0x400100, 0xf00, PF_R);
	phdr[2] = elf_load(0x401000, 0x1000, PF_R | PF_X);
	phdr[3] = elf_load(0x402000, 0x2080, PF_R | PF_W);
	phdr[4] = elf_load(0x409000, 0x1000, PF_R);
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
	cr_assert_eq(ms_region_of(&regions, 0x403000)->module,
	             ms_region_of(&regions, 0x402000)->module);
	cr_assert_null(ms_region_of(&regions, 0x3fffff));
	cr_assert_null(ms_region_of(&regions, 0x408000));
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
	cr_assert_null(ms_region_of(&regions, 0x5fffff), "a hole");
	cr_assert_str_eq(ms_region_mapping(&fake.base, ms_region_of(&regions, 0x600000))->name,
	                 "/var/data");
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
	ms_fake_map(&fake, 0x70000, 0x1000, R, "[vvar_vclock]");
	ms_fake_map(&fake, 0x80000, 0x1000, RX, "[vsyscall]");
	ms_fake_map(&fake, 0x90000, 0x1000, MS_PROT_EXEC, "[uprobes]");
	classify();
	cr_assert_eq(kind_at(0x10000), MS_REGION_SKIP);
	cr_assert_eq(kind_at(0x20000), MS_REGION_MEMORY);
	cr_assert_eq(kind_at(0x30000), MS_REGION_MEMORY);
	cr_assert_eq(kind_at(0x40000), MS_REGION_SKIP);
	cr_assert_eq(kind_at(0x50000), MS_REGION_SKIP);
	cr_assert_eq(kind_at(0x60000), MS_REGION_STACK);
	cr_assert_eq(kind_at(0x70000), MS_REGION_SKIP);
	cr_assert_eq(kind_at(0x80000), MS_REGION_SKIP);
	cr_assert_eq(kind_at(0x90000), MS_REGION_SKIP);
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

/* A mapping where a program's bss would be, or the same file's, and what it is. */
struct guest_case {
	const char *name;
	size_t len;
	bool shared;
	uint32_t dev_major;
	uint32_t dev_minor;
	enum ms_region_kind kind;
};

Test(mapping, leaves_out_of_a_program_what_is_not_its_own)
{
	static const struct guest_case cases[] = {
		{ "", 0x2000, false, 0, 0, MS_REGION_GLOBALS },
		{ "", 0x2000, true, 0, 0, MS_REGION_MEMORY },
		{ "/bin/p", 0x1000, false, 0, 0, MS_REGION_GLOBALS },
		{ "/bin/p", 0x1000, true, 0, 0, MS_REGION_MEMORY },
		{ "/bin/p", 0x1000, false, 1, 0, MS_REGION_MEMORY },
		{ "/bin/p", 0x1000, false, 0, 1, MS_REGION_MEMORY },
		{ "/var/data", 0x1000, false, 0, 0, MS_REGION_MEMORY },
		{ "[vvar]", 0x1000, false, 0, 0, MS_REGION_SKIP },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct guest_case *c = &cases[i];
		struct ms_mapping *m;

		memset(&regions, 0, sizeof(regions));
		map_program();
		ms_fake_map(&fake, 0x403000, c->len, RW, c->name);
		m = &fake.base.mappings.at[3];
		m->shared = c->shared;
		m->dev_major = c->dev_major;
		m->dev_minor = c->dev_minor;
		ms_fake_map(&fake, 0x40a000, 0x1000, RW, "/bin/p");
		classify();
		cr_expect_eq(kind_at(0x403000), c->kind, "case %zu", i);
		cr_expect_eq(kind_at(0x40a000), MS_REGION_MEMORY, "behind its end");
		ms_fake_deinit(&fake);
	}
}

/* What is wrong with a program's header; nothing for 0. */
static void break_header(Elf64_Ehdr *ehdr, int how)
{
	switch (how) {
	case 0:
		ehdr->e_phnum = 128;
		break;
	case 1:
		ehdr->e_ident[EI_MAG0] = 0;
		break;
	case 2:
		ehdr->e_ident[EI_CLASS] = ELFCLASS32;
		break;
	case 3:
		ehdr->e_phentsize = 32;
		break;
	case 4:
		ehdr->e_phnum = 129;
		break;
	default:
		memcpy((char *)ehdr + 0x10008, (char *)ehdr + ehdr->e_phoff, 0x200);
		ehdr->e_phoff = 0x10008;
	}
}

Test(mapping, believes_only_headers_of_its_own_kind)
{
	for (int how = 0; how < 6; how++) {
		char *page;

		ms_fake_init(&fake);
		memset(&regions, 0, sizeof(regions));
		page = ms_fake_map(&fake, 0x400000, 0x11000, R, "/bin/p");
		elf_write(page, 1)[0] = elf_load(0x400000, 0x13000, PF_R | PF_W);
		break_header((Elf64_Ehdr *)(void *)page, how);
		ms_fake_map(&fake, 0x411000, 0x1000, RW, "");
		classify();
		cr_expect_eq(kind_at(0x411000), how ? MS_REGION_MEMORY : MS_REGION_GLOBALS,
		             "broken in way %d", how);
		ms_fake_deinit(&fake);
	}
}

Test(mapping, finds_headers_at_the_begin_of_files_only)
{
	map_program();
	elf_write(ms_fake_at(&fake, 0x402000), 1)[0] = elf_load(0, 0x1000, PF_R | PF_W);
	elf_write(ms_fake_map(&fake, 0x700000, 0x1000, RW, ""), 1)[0] =
		elf_load(0, 0x2000, PF_R | PF_W);
	classify();
	cr_assert_eq(ms_region_of(&regions, 0x402000)->module,
	             ms_region_of(&regions, 0x400000)->module);
	cr_assert_eq(kind_at(0x700000), MS_REGION_MEMORY);
	ms_fake_deinit(&fake);
}

/* As lld links: a page of the file that several segments have a part of is mapped for each. */
Test(mapping, of_a_page_of_several_segments_the_first_mapping_is_the_header)
{
	static const int prot[] = { R, RX, R, RW };
	Elf64_Phdr *phdr;

	ms_fake_init(&fake);
	for (int copy = 0; copy < 2; copy++) {
		ms_addr base = copy ? 0x410000 : 0x400000;

		for (int segment = 0; segment < 4; segment++) {
			ms_addr at = base + (ms_addr)segment * 0x1000;

			phdr = elf_write(
				ms_fake_map(&fake, at, 0x1000, prot[segment], "/lib/small.so"), 4);
			phdr[0] = elf_load(0, 0x700, PF_R);
			phdr[1] = elf_load(0x1700, 0x200, PF_R | PF_X);
			phdr[2] = elf_load(0x2900, 0x200, PF_R | PF_W);
			phdr[3] = elf_load(0x3b00, 0x50, PF_R | PF_W);
			fake.base.mappings.at[fake.base.mappings.n - 1].offset = 0;
		}
		ms_fake_map(&fake, base + 0x4000, 0x3000, RW, "");
	}
	classify();
	for (ms_addr base = 0x400000; base <= 0x410000; base += 0x10000) {
		cr_expect_eq(kind_at(base + 0x3000), MS_REGION_GLOBALS);
		cr_expect_eq(kind_at(base + 0x4000), MS_REGION_MEMORY, "behind its data");
		for (ms_addr at = base; at < base + 0x4000; at += 0x1000) {
			cr_expect_eq(ms_region_of(&regions, at)->module,
			             ms_region_of(&regions, base)->module);
			cr_expect_eq(ms_module_first(&fake.base.mappings,
			                             ms_range_find(&fake.base.mappings, at))
			                     ->range.begin,
			             base);
		}
	}
	cr_expect_neq(ms_region_of(&regions, 0x400000)->module,
	              ms_region_of(&regions, 0x410000)->module);
	ms_fake_deinit(&fake);
}

/* The span of what is read only, with its bss, reaches into the library behind. */
Test(mapping, a_file_that_is_read_in_front_of_its_library_hides_none_of_it)
{
	ms_fake_init(&fake);
	for (ms_addr base = 0x400000; base <= 0x403000; base += 0x3000) {
		Elf64_Phdr *phdr =
			elf_write(ms_fake_map(&fake, base, base == 0x400000 ? 0x3000 : 0x1000, R,
		                              "/lib/x.so"),
		                  3);

		phdr[0] = elf_load(0, 0x1000, PF_R);
		phdr[1] = elf_load(0x1000, 0x1000, PF_R | PF_X);
		phdr[2] = elf_load(0x2000, 0x3000, PF_R | PF_W);
		fake.base.mappings.at[fake.base.mappings.n - 1].offset = 0;
	}
	ms_fake_map(&fake, 0x404000, 0x1000, RX, "/lib/x.so");
	ms_fake_map(&fake, 0x405000, 0x1000, RW, "/lib/x.so");
	ms_fake_map(&fake, 0x406000, 0x2000, RW, "");
	classify();
	cr_expect_eq(kind_at(0x405000), MS_REGION_GLOBALS);
	cr_expect_eq(kind_at(0x407fff), MS_REGION_GLOBALS, "its bss");
	cr_expect_neq(ms_region_of(&regions, 0x400000)->module,
	              ms_region_of(&regions, 0x403000)->module);
	ms_fake_deinit(&fake);
}

Test(mapping, is_not_led_astray_by_a_header_without_segments)
{
	map_program();
	elf_write(ms_fake_map(&fake, 0x403000, 0x1000, R, "/bin/q"), 0);
	ms_fake_map(&fake, 0x404000, 0x1000, RW, "");
	classify();
	cr_assert_eq(kind_at(0x404000), MS_REGION_GLOBALS);
	ms_fake_deinit(&fake);
}
