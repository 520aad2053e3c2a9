/* SPDX-License-Identifier: Apache-2.0 */
#include "target/core/layout.h"

#include <elf.h>
#include <string.h>

#include "base/elf/class.h"
#include "base/file.h"
#include "base/page.h"
#include "base/sort.h"
#include "engine/source.h"
#include "target/arch/arch.h"
#include "target/core/core.h"

enum {
	MAX_SEGMENTS = 1 << 21, /* the kernel lets a process have 65,530 mappings by default */
};

/* Where addresses of 32 bits end. */
static const uint64_t MOST_NARROW = (uint64_t)1 << 32;

/* All notes together: a copy of them is kept. Those of a thread take some 3 to 15 KiB. */
static const uint64_t MAX_NOTES = (uint64_t)512 << 20;

struct reading {
	const struct ms_core_input *input;
	struct ms_arena *arena;
	struct ms_core_layout *ret;
	struct ms_error *err;
	uint64_t notes_bytes; /* that were read */
};

static const char *name_of(const struct reading *r)
{
	return ms_file_end(r->input->path, 100);
}

static enum ms_status no_memory(const struct reading *r)
{
	return ms_fail(r->err, MS_E_NOMEM, "no memory for the layout of the core");
}

static enum ms_status damaged(const struct reading *r, const char *how)
{
	(void)ms_fail(r->err, MS_E_CORRUPT, "%s is damaged: %s", name_of(r), how);
	ms_advise(r->err, "it may be cut off at its beginning, or still be being written: take "
	                  "the core anew, by gcore PID of a running process");
	return MS_E_CORRUPT;
}

/* Whether [@offset, @offset + @len) is in the file. */
static bool is_within(const struct reading *r, uint64_t offset, uint64_t len)
{
	return offset <= r->input->bytes && len <= r->input->bytes - offset;
}

/* ---- the ELF header ---- */

static enum ms_status refuse(const struct reading *r, const char *what)
{
	(void)ms_fail(r->err, MS_E_UNSUPPORTED, "%s is %s", name_of(r), what);
	ms_advise(r->err, "give a core, as the kernel writes one when a program crashes, or gcore "
	                  "PID of a running one (coredumpctl dump -o FILE gets one from systemd)");
	return MS_E_UNSUPPORTED;
}

static enum ms_status foreign(const struct reading *r, const char *machine)
{
	const struct ms_arch *compat = ms_native_arch.compat;

	(void)ms_fail(r->err, MS_E_UNSUPPORTED, "%s is the core of a program for %s", name_of(r),
	              machine);
	ms_advise(r->err, "this memscan reads cores of 64-bit %s%s%s programs alone",
	          ms_native_arch.title, compat ? " and of " : "", compat ? compat->title : "");
	return MS_E_UNSUPPORTED;
}

static enum ms_status check_machine(const struct reading *r, const Elf64_Ehdr *header)
{
	static const struct {
		uint16_t machine;
		const char *name;
	} others[] = {
		{ EM_386, "i386 (32-bit x86)" },
		{ EM_X86_64, "x86-64" },
		{ EM_AARCH64, "aarch64" },
		{ EM_ARM, "arm" },
		{ EM_RISCV, "RISC-V" },
		{ EM_PPC64, "ppc64" },
		{ EM_S390, "s390" },
	};

	r->ret->arch = ms_arch_of(header->e_machine, ms_elf_word_bytes(header));
	if (r->ret->arch)
		return MS_OK;
	if (header->e_machine == ms_native_arch.elf_machine)
		return foreign(r, "x32, with pointers of 32 bits");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (header->e_machine == others[i].machine)
			return foreign(r, others[i].name);
	return foreign(r, "another processor");
}

static bool is_wide(const struct reading *r)
{
	return r->ret->arch->abi.word_bytes == sizeof(uint64_t);
}

static enum ms_status read_header(const struct reading *r, Elf64_Ehdr *ret)
{
	enum ms_status st;

	memset(ret, 0, sizeof(*ret));
	(void)r->input->from.read(r->input->from.ctx, 0, ret, sizeof(*ret));
	if (!r->input->bytes)
		return refuse(r, "empty");
	if (memcmp(ret->e_ident, ELFMAG, SELFMAG) != 0)
		return refuse(r, "not a core: it does not begin as an ELF file does");
	/* Of the other order of bytes the type is read wrong, but that machine is refused. */
	if (ret->e_ident[EI_DATA] == ELFDATA2LSB && ret->e_type != ET_CORE)
		return refuse(r, "an ELF file, but not a core: a program, a library or an object");
	if (ret->e_ident[EI_DATA] != ELFDATA2LSB)
		return foreign(r, "a big-endian processor");
	st = check_machine(r, ret);
	if (st)
		return st;
	if (!ms_elf_read_header(r->input->from, 0, ret))
		return damaged(r, "it ends within its ELF header");
	return ret->e_phentsize == ms_elf_segment_bytes(ms_elf_word_bytes(ret))
	               ? MS_OK
	               : damaged(r, "its program headers have an unknown size");
}

/* How many program headers there are; more than a header can say are in section header 0. */
static uint64_t count_headers(const struct reading *r, const Elf64_Ehdr *header)
{
	const size_t bytes = is_wide(r) ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	const size_t at =
		is_wide(r) ? offsetof(Elf64_Shdr, sh_info) : offsetof(Elf32_Shdr, sh_info);
	uint32_t n;

	if (header->e_phnum != PN_XNUM)
		return header->e_phnum;
	if (header->e_shentsize != bytes || !is_within(r, header->e_shoff, bytes) ||
	    !ms_read_all(r->input->from, header->e_shoff + at, &n, sizeof(n)))
		return 0;
	return n;
}

/* ---- segments ---- */

static uint8_t prot_of(uint32_t flags)
{
	return (uint8_t)((flags & PF_R ? MS_PROT_READ : 0) | (flags & PF_W ? MS_PROT_WRITE : 0) |
	                 (flags & PF_X ? MS_PROT_EXEC : 0));
}

static enum ms_status add_segment(const struct reading *r, const Elf64_Phdr *phdr)
{
	struct ms_core_segment *segment;
	uint64_t there;

	if (!phdr->p_memsz)
		return MS_OK;
	if (phdr->p_vaddr % MS_PAGE_BYTES || phdr->p_memsz % MS_PAGE_BYTES ||
	    phdr->p_vaddr + phdr->p_memsz < phdr->p_vaddr ||
	    (!is_wide(r) && phdr->p_vaddr + phdr->p_memsz > MOST_NARROW))
		return damaged(r, "a segment makes no sense as memory");
	segment = ms_vec_push(r->arena, &r->ret->segments);
	if (!segment)
		return no_memory(r);
	*segment = (struct ms_core_segment){
		.range = { phdr->p_vaddr, phdr->p_vaddr + phdr->p_memsz },
		.offset = phdr->p_offset,
		.bytes = phdr->p_filesz < phdr->p_memsz ? phdr->p_filesz : phdr->p_memsz,
		.prot = prot_of(phdr->p_flags),
	};
	there = phdr->p_offset < r->input->bytes ? r->input->bytes - phdr->p_offset : 0;
	if (there < segment->bytes)
		segment->cut = segment->bytes - there;
	return MS_OK;
}

/* Read @len bytes at @offset to @ret, zeros, which holes of the file leave as they are. */
static bool read_data(const struct reading *r, uint64_t offset, uint8_t *ret, uint64_t len)
{
	const struct ms_ranges whole = { .at = &(struct ms_range){ offset, offset + len }, .n = 1 };
	const struct ms_ranges *data = r->input->data ? r->input->data : &whole;
	size_t i = ms_range_search(data->at, data->n, sizeof(*data->at), offset);

	for (; i < data->n && data->at[i].begin < whole.at->end; i++) {
		struct ms_range part = ms_range_common(data->at[i], *whole.at);

		if (!ms_read_all(r->input->from, part.begin, ret + (part.begin - offset),
		                 (size_t)ms_range_len(part)))
			return false;
	}
	return true;
}

static enum ms_status add_notes(struct reading *r, const Elf64_Phdr *phdr)
{
	uint64_t len = phdr->p_filesz;
	uint8_t *bytes;

	if (phdr->p_offset >= r->input->bytes)
		return damaged(r, "its notes lie behind its end");
	if (!is_within(r, phdr->p_offset, len)) {
		len = r->input->bytes - phdr->p_offset;
		r->ret->damaged = true;
	}
	if (len > MAX_NOTES - r->notes_bytes)
		return damaged(r, "its notes are longer than there can be");
	r->notes_bytes += len;
	bytes = ms_arena_alloc(r->arena, len + 1);
	if (!bytes)
		return no_memory(r);
	if (!read_data(r, phdr->p_offset, bytes, len))
		return damaged(r, "its notes cannot be read");
	if (!ms_core_notes_take(bytes, len, r->arena, r->ret))
		return no_memory(r);
	return r->ret->threads.n <= MS_CORE_THREADS
	               ? MS_OK
	               : damaged(r, "it has more threads than there can be");
}

static bool starts_before(const void *a, const void *b)
{
	return ((const struct ms_range *)a)->begin < ((const struct ms_range *)b)->begin;
}

static enum ms_status sort_segments(const struct reading *r)
{
	struct ms_core_layout *ret = r->ret;

	if (!ms_sort(r->arena, ret->segments.at, ret->segments.n, sizeof(*ret->segments.at),
	             starts_before))
		return no_memory(r);
	for (size_t i = 1; i < ret->segments.n; i++)
		if (ret->segments.at[i].range.begin < ret->segments.at[i - 1].range.end)
			return damaged(r, "segments lie over each other");
	return MS_OK;
}

/* Bytes of the core are memory of one segment at most: what is read is bounded by its length. */
static enum ms_status check_stored(const struct reading *r)
{
	const struct ms_core_segment *segment;
	struct ms_ranges stored = { 0 };

	ms_vec_for_each (segment, &r->ret->segments)
		if (!ms_ranges_add(r->arena, &stored, segment->offset,
		                   segment->offset + segment->bytes - segment->cut))
			return no_memory(r);
	if (!ms_sort(r->arena, stored.at, stored.n, sizeof(*stored.at), starts_before))
		return no_memory(r);
	for (size_t i = 1; i < stored.n; i++)
		if (stored.at[i].begin < stored.at[i - 1].end)
			return damaged(r, "segments share bytes of the file");
	return MS_OK;
}

/* What overlaps another one is left out, and said. */
static bool sort_mapped(const struct reading *r)
{
	struct ms_core_layout *ret = r->ret;
	size_t kept = 0;

	if (!ms_sort(r->arena, ret->mapped.at, ret->mapped.n, sizeof(*ret->mapped.at),
	             starts_before))
		return false;
	for (size_t i = 0; i < ret->mapped.n; i++) {
		if (kept && ret->mapped.at[i].range.begin < ret->mapped.at[kept - 1].range.end)
			ret->damaged = true;
		else
			ret->mapped.at[kept++] = ret->mapped.at[i];
	}
	ret->mapped.n = kept;
	return true;
}

/*
 * As the kernel said to the program; the smallest that there is where it said nothing that makes
 * sense, or a segment is of no whole pages.
 */
static uint32_t page_of(const struct ms_core_layout *layout)
{
	uint64_t page = ms_core_auxv_value(layout, AT_PAGESZ);
	const struct ms_core_segment *segment;

	if (page < MS_PAGE_BYTES || page > MS_LARGEST_PAGE_BYTES || page & (page - 1))
		return MS_PAGE_BYTES;
	ms_vec_for_each (segment, &layout->segments)
		if ((segment->range.begin | segment->range.end) & (page - 1))
			return MS_PAGE_BYTES;
	return (uint32_t)page;
}

static enum ms_status read_headers(struct reading *r, const Elf64_Ehdr *header)
{
	const size_t bytes = header->e_phentsize;
	uint64_t n = count_headers(r, header);
	Elf64_Ehdr one = *header;
	enum ms_status st = MS_OK;

	if (!n || n > MAX_SEGMENTS)
		return damaged(r, "it has no program headers");
	one.e_phnum = 1;
	if (!is_within(r, header->e_phoff, n * bytes))
		return damaged(r, "its program headers lie behind its end");
	for (uint64_t i = 0; i < n && !st; i++) {
		Elf64_Phdr phdr;

		if (!ms_elf_read_segments(r->input->from, header->e_phoff + i * bytes, &one, &phdr))
			return damaged(r, "its program headers cannot be read");
		if (phdr.p_type == PT_LOAD)
			st = add_segment(r, &phdr);
		else if (phdr.p_type == PT_NOTE && phdr.p_filesz)
			st = add_notes(r, &phdr);
	}
	return st;
}

enum ms_status ms_core_layout_read(const struct ms_core_input *input, struct ms_arena *arena,
                                   struct ms_core_layout *ret, struct ms_error *err)
{
	struct reading r = { .input = input, .arena = arena, .ret = ret, .err = err };
	Elf64_Ehdr header;
	enum ms_status st;

	memset(ret, 0, sizeof(*ret));
	st = read_header(&r, &header);
	if (!st)
		st = read_headers(&r, &header);
	if (!st)
		st = sort_segments(&r);
	if (!st)
		st = check_stored(&r);
	if (st)
		return st;
	if (!sort_mapped(&r))
		return no_memory(&r);
	if (!ret->threads.n)
		return damaged(&r, "it has no registers of any thread");
	if (!ret->segments.n)
		return damaged(&r, "it has no memory of the process");
	ret->page_bytes = page_of(ret);
	return MS_OK;
}

/* The bytes of a core's begin. */
struct begin {
	const uint8_t *bytes;
	size_t n;
};

static size_t read_begin(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct begin *begin = ctx;
	size_t there = offset < begin->n ? begin->n - (size_t)offset : 0;

	len = len < there ? len : there;
	if (len)
		memcpy(buf, begin->bytes + offset, len);
	return len;
}

enum ms_status ms_core_check(const void *bytes, size_t n, const char *path, struct ms_error *err)
{
	struct begin begin = { bytes, n };
	const struct ms_core_input input = { { read_begin, &begin }, n, NULL, path };
	struct ms_core_layout layout = { .arch = NULL };
	const struct reading r = { .input = &input, .ret = &layout, .err = err };
	Elf64_Ehdr header;

	return read_header(&r, &header);
}

uint64_t ms_core_auxv_value(const struct ms_core_layout *layout, uint64_t type)
{
	const struct ms_core_auxv *entry;

	ms_vec_for_each (entry, &layout->auxv)
		if (entry->type == type)
			return entry->value;
	return 0;
}
