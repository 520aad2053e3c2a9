/* SPDX-License-Identifier: Apache-2.0 */
#include "drawn_core.h"

#include <assert.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <unistd.h>

#include "module.h"
#include "source_suite.h"
#include "target/arch/arch.h"

enum { VECTORS = 1024 };

static void draw_program(uint8_t *file)
{
	static const struct {
		Elf64_Nhdr head;
		char maker[4];
		uint8_t id[8];
	} note = { { 4, 8, NT_GNU_BUILD_ID }, "GNU", "12345678" };
	const Elf64_Half type = ET_DYN;
	Elf64_Phdr *phdrs = elf_write(file, 4);
	size_t at = 0x800;

	memcpy(file + offsetof(Elf64_Ehdr, e_type), &type, sizeof(type));
	phdrs[0] = elf_load(0, DRAWN_PAGE, PF_R);
	phdrs[1] = elf_load(DRAWN_PAGE, DRAWN_PAGE, PF_R | PF_X);
	phdrs[2] = elf_load(2 * DRAWN_PAGE, 3 * DRAWN_PAGE, PF_R | PF_W);
	for (size_t i = 0; i < 3; i++) {
		phdrs[i].p_offset = i * DRAWN_PAGE;
		phdrs[i].p_filesz = DRAWN_PAGE;
	}
	phdrs[3] = (Elf64_Phdr){ .p_type = PT_NOTE,
		                 .p_offset = at,
		                 .p_vaddr = at,
		                 .p_filesz = sizeof(note),
		                 .p_memsz = sizeof(note),
		                 .p_align = 4 };
	memcpy(file + at, &note, sizeof(note));
	for (size_t i = DRAWN_PAGE; i < (size_t)DRAWN_PAGES * DRAWN_PAGE; i++)
		file[i] = (uint8_t)(7 + i % 13);
}

void drawn_core_init(struct drawn_core *core)
{
	static const struct drawn_load loads[] = {
		{ DRAWN_PROGRAM, DRAWN_PAGE, DRAWN_PAGE, PF_R, 1, 0 },
		{ DRAWN_CODE, 0, DRAWN_PAGE, PF_R | PF_X, 1, 1 },
		{ DRAWN_DATA, DRAWN_PAGE, DRAWN_PAGE, PF_R | PF_W, 0, 0 },
		{ DRAWN_BSS, 0, 2 * DRAWN_PAGE, PF_R | PF_W, 0, 0 },
		{ DRAWN_BRK, DRAWN_PAGE, DRAWN_PAGE, PF_R | PF_W, 0, 0 },
		{ DRAWN_MEMORY, DRAWN_PAGE, DRAWN_PAGE, PF_R | PF_W, 0, 0 },
		{ DRAWN_MEMORY + DRAWN_PAGE, 0, DRAWN_PAGE, 0, 0, 0 },
		{ DRAWN_VVAR, 0, DRAWN_PAGE, PF_R, 0, 0 },
		{ DRAWN_VDSO, DRAWN_PAGE, DRAWN_PAGE, PF_R | PF_X, 0, 0 },
		{ DRAWN_STACK, 2 * DRAWN_PAGE, 2 * DRAWN_PAGE, PF_R | PF_W, 0, 0 },
	};
	static const struct drawn_file files[] = {
		{ { DRAWN_PROGRAM, DRAWN_CODE }, 0, DRAWN_PATH },
		{ { DRAWN_CODE, DRAWN_DATA }, 1, DRAWN_PATH },
		{ { DRAWN_DATA, DRAWN_BSS }, 2, DRAWN_PATH },
	};

	memset(core, 0, sizeof(*core));
	memcpy(core->loads, loads, sizeof(loads));
	core->n_loads = sizeof(loads) / sizeof(loads[0]);
	memcpy(core->files, files, sizeof(files));
	core->n_files = sizeof(files) / sizeof(files[0]);
	core->file_units = DRAWN_PAGE;
	core->page_bytes = DRAWN_PAGE;
	core->tids[core->n_tids++] = 100;
	core->tids[core->n_tids++] = 101;
	draw_program(core->program);
}

struct drawn_load *drawn_core_load(struct drawn_core *core, ms_addr at)
{
	for (size_t i = 0; i < core->n_loads; i++)
		if (core->loads[i].at == at)
			return &core->loads[i];
	abort();
}

/* ---- writing ---- */

static void put(struct drawn_core *core, const void *bytes, size_t n)
{
	assert(core->n + n <= sizeof(core->bytes));
	memcpy(core->bytes + core->n, bytes, n);
	core->n += n;
}

static void put_note(struct drawn_core *core, const char *maker, uint32_t type, const void *bytes,
                     size_t n)
{
	const Elf64_Nhdr head = { (Elf64_Word)strlen(maker) + 1, (Elf64_Word)n, type };
	char name[8] = { 0 };

	memcpy(name, maker, strlen(maker));
	put(core, &head, sizeof(head));
	put(core, name, sizeof(name));
	put(core, bytes, n);
	core->n = ms_align_up(core->n, 4);
}

/* Each register has a value of its own: 0x1000 times the thread's number, and the register's. */
static void put_thread(struct drawn_core *core, int32_t tid)
{
	struct elf_prstatus status = { .pr_pid = tid };
	uint64_t vectors[VECTORS / sizeof(uint64_t)];
	uint64_t regs[sizeof(status.pr_reg) / sizeof(uint64_t)];

	for (size_t i = 0; i < sizeof(regs) / sizeof(regs[0]); i++)
		regs[i] = (uint64_t)tid << 12 | i;
	regs[ms_native_arch.dwarf[ms_native_arch.dwarf_sp]] =
		DRAWN_STACK + DRAWN_PAGE + (uint64_t)tid * 8;
	memcpy(status.pr_reg, regs, sizeof(regs));
	put_note(core, "CORE", NT_PRSTATUS, &status, sizeof(status));
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		vectors[i] = (uint64_t)tid << 24 | i;
	put_note(core, "CORE", NT_FPREGSET, vectors, sizeof(elf_fpregset_t));
	if (ms_native_arch.vector_note != NT_FPREGSET)
		put_note(core, "LINUX", ms_native_arch.vector_note, vectors, sizeof(vectors));
}

static void put_files(struct drawn_core *core)
{
	uint8_t bytes[4096];
	uint64_t numbers[2] = { core->n_files, core->file_units };
	size_t n = sizeof(numbers);

	memcpy(bytes, numbers, sizeof(numbers));
	for (size_t i = 0; i < core->n_files; i++, n += 3 * sizeof(uint64_t)) {
		const struct drawn_file *f = &core->files[i];
		uint64_t entry[] = { f->range.begin, f->range.end,
			             f->page * DRAWN_PAGE / core->file_units };

		memcpy(bytes + n, entry, sizeof(entry));
	}
	for (size_t i = 0; i < core->n_files; i++) {
		size_t len = strlen(core->files[i].path) + 1;

		memcpy(bytes + n, core->files[i].path, len);
		n += len;
	}
	if (core->n_files)
		put_note(core, "CORE", NT_FILE, bytes, n);
}

static void put_notes(struct drawn_core *core)
{
	const Elf64_auxv_t auxv[] = {
		{ AT_PAGESZ, { core->page_bytes } },
		{ AT_ENTRY, { DRAWN_CODE } },
		{ AT_RANDOM, { DRAWN_STACK + 2 * DRAWN_PAGE - 64 } },
		{ AT_SYSINFO_EHDR, { DRAWN_VDSO } },
		{ AT_NULL, { 0 } },
	};
	struct elf_prpsinfo program = { .pr_pid = 99,
		                        .pr_fname = "program",
		                        .pr_psargs = "program one two" };

	for (size_t i = 0; i < core->n_tids; i++) {
		put_thread(core, core->tids[i]);
		if (i)
			continue;
		put_note(core, "CORE", NT_PRPSINFO, &program, sizeof(program));
		put_note(core, "CORE", NT_AUXV, auxv, sizeof(auxv));
		put_files(core);
	}
}

static void put_memory(struct drawn_core *core, const struct drawn_load *load)
{
	for (size_t i = 0; i < load->in_core; i++) {
		uint8_t byte = source_suite_byte(i);

		if (load->file)
			byte = load->file == 1 ? core->program[load->page * DRAWN_PAGE + i] : 0;
		put(core, &byte, 1);
	}
}

void drawn_core_write(struct drawn_core *core)
{
	Elf64_Phdr phdrs[DRAWN_LOADS + 1] = { 0 };
	Elf64_Ehdr head = { .e_type = ET_CORE,
		            .e_machine = ms_native_arch.elf_machine,
		            .e_phoff = sizeof(head),
		            .e_phentsize = sizeof(phdrs[0]),
		            .e_phnum = (Elf64_Half)(core->n_loads + 1) };

	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
	head.e_ident[EI_DATA] = ELFDATA2LSB;
	core->notes = core->n = sizeof(head) + (core->n_loads + 1) * sizeof(phdrs[0]);
	put_notes(core);
	phdrs[0] = (Elf64_Phdr){ .p_type = PT_NOTE,
		                 .p_offset = core->notes,
		                 .p_filesz = core->n - core->notes };
	core->n = ms_align_up(core->n, DRAWN_PAGE) + core->shift;
	for (size_t i = 0; i < core->n_loads; i++) {
		const struct drawn_load *load = &core->loads[i];

		phdrs[i + 1] = elf_load(load->at, load->bytes, load->flags);
		phdrs[i + 1].p_offset = core->n;
		phdrs[i + 1].p_filesz = load->in_core;
		put_memory(core, load);
	}
	memcpy(core->bytes, &head, sizeof(head));
	memcpy(core->bytes + sizeof(head), phdrs, (core->n_loads + 1) * sizeof(phdrs[0]));
}

int drawn_memfd(const void *bytes, size_t n)
{
	int fd = memfd_create("drawn", MFD_CLOEXEC);
	ssize_t put_bytes = fd < 0 ? -1 : pwrite(fd, bytes, n, 0);

	assert(put_bytes == (ssize_t)n);
	(void)put_bytes;
	return fd;
}
