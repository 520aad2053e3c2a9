/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files, and whether they are those that were mapped: by their first page, as the core has it,
 * or by the build-id in that; where it is left out, by the dynamic section, which the loader
 * has written to. What cannot be proved to be another file is read.
 */
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/elf/class.h"
#include "base/elf/notes.h"
#include "base/elf/object.h"
#include "engine/origins/build_id.h"
#include "target/core/parts.h"

enum { MAX_DYNAMIC = 256, MAX_PHDRS = 128, MAX_PLACES = 64 };

/* ---- the file itself, as bytes ---- */

static bool is_in_file(const struct ms_core_file *file, uint64_t offset, uint64_t len)
{
	return offset <= file->len && len <= file->len - offset;
}

static size_t read_file(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct ms_core_file *file = ctx;

	if (offset > file->len)
		return 0;
	if (len > file->len - offset)
		len = (size_t)(file->len - offset);
	memcpy(buf, file->bytes + offset, len);
	return len;
}

static struct ms_reader reader_of(const struct ms_core_file *file)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is only read, as its type cannot say */
	return (struct ms_reader){ read_file, (void *)(uintptr_t)file };
}

/* The program headers of a file. */
struct headers {
	size_t n;
	Elf64_Phdr at[MAX_PHDRS];
};

/* False for anything but a program or library as @core is of: a core or an object file, too. */
static bool headers_of(const struct ms_core *core, const struct ms_core_file *file,
                       struct headers *ret)
{
	const uint8_t word_bytes = core->base.abi.word_bytes;
	Elf64_Ehdr head;

	ret->n = 0;
	if (!ms_elf_read_header(reader_of(file), 0, &head) ||
	    ms_elf_word_bytes(&head) != word_bytes ||
	    (head.e_type != ET_EXEC && head.e_type != ET_DYN) || head.e_phnum > MAX_PHDRS ||
	    head.e_phentsize != ms_elf_segment_bytes(word_bytes) ||
	    !ms_elf_read_segments(reader_of(file), head.e_phoff, &head, ret->at))
		return false;
	ret->n = head.e_phnum;
	return true;
}

static uint8_t build_id_of(const struct ms_core_file *file, const struct headers *headers,
                           uint8_t ret[MS_BUILD_ID_BYTES])
{
	const Elf64_Phdr *phdr;
	uint8_t len = 0;

	for (phdr = headers->at; phdr < headers->at + headers->n && !len; phdr++)
		if (phdr->p_type == PT_NOTE && is_in_file(file, phdr->p_offset, phdr->p_filesz))
			len = ms_notes_build_id(file->bytes + phdr->p_offset, phdr->p_filesz,
			                        phdr->p_align, ret);
	return len;
}

/* ---- proofs ---- */

static bool is_same_id(struct ms_core *core, const struct ms_core_file *file,
                       const struct headers *headers)
{
	uint8_t id[MS_BUILD_ID_BYTES];
	struct ms_loaded loaded;

	ms_loaded_read(&core->base, file->head, &loaded);
	return loaded.build_id_len && build_id_of(file, headers, id) == loaded.build_id_len &&
	       memcmp(id, loaded.build_id, loaded.build_id_len) == 0;
}

/* Of an entry with an address the loader may have added to it where the file is. */
static bool is_same_entry(uint8_t word_bytes, const Elf64_Dyn *mapped, const Elf64_Dyn *entry,
                          ms_addr bias)
{
	return mapped->d_tag == entry->d_tag &&
	       (mapped->d_un.d_val == entry->d_un.d_val ||
	        mapped->d_un.d_val == ms_elf_address(word_bytes, entry->d_un.d_val + bias) ||
	        entry->d_tag == DT_DEBUG);
}

static enum ms_core_file_state compare_dynamic(struct ms_core *core,
                                               const struct ms_core_file *file,
                                               const Elf64_Phdr *phdr, ms_addr bias)
{
	const uint8_t word_bytes = core->base.abi.word_bytes;
	const size_t each = ms_elf_dynamic_bytes(word_bytes);
	ms_addr at = ms_elf_address(word_bytes, bias + phdr->p_vaddr);
	ms_addr in_file = phdr->p_offset;

	for (size_t i = 0; i < MAX_DYNAMIC; i++, at += each, in_file += each) {
		Elf64_Dyn mapped;
		Elf64_Dyn entry;

		if (!ms_elf_read_dynamic(reader_of(file), in_file, word_bytes, &entry, 1) ||
		    !ms_elf_read_dynamic(ms_source_reader(&core->base), at, word_bytes, &mapped, 1))
			return MS_CORE_FILE_UNPROVED;
		if (!is_same_entry(word_bytes, &mapped, &entry, bias))
			return MS_CORE_FILE_OTHER;
		if (entry.d_tag == DT_NULL)
			return MS_CORE_FILE_PROVED;
	}
	return MS_CORE_FILE_UNPROVED;
}

static enum ms_core_file_state prove_by_dynamic(struct ms_core *core,
                                                const struct ms_core_file *file,
                                                const struct headers *headers)
{
	const uint32_t page = core->base.abi.page_bytes;
	const Elf64_Phdr *phdr;
	const Elf64_Phdr *dynamic = NULL;
	ms_addr bias = file->head;
	bool placed = false;

	for (phdr = headers->at; phdr < headers->at + headers->n; phdr++) {
		if (phdr->p_type == PT_LOAD && !placed) {
			bias -= ms_align_down(phdr->p_vaddr - phdr->p_offset, page);
			placed = true;
		}
		if (phdr->p_type == PT_DYNAMIC)
			dynamic = phdr;
	}
	return dynamic && placed && file->head ? compare_dynamic(core, file, dynamic, bias)
	                                       : MS_CORE_FILE_UNPROVED;
}

/* How much of the file's first page the core has. */
static size_t first_bytes(struct ms_core *core, const struct ms_core_file *file, uint8_t *buf,
                          size_t len)
{
	return file->head ? ms_source_read(&core->base, file->head, buf, len) : 0;
}

static enum ms_core_file_state prove(struct ms_core *core, const struct ms_core_file *file)
{
	uint8_t mapped[MS_CORE_HEAD_BYTES];
	size_t n = first_bytes(core, file, mapped, sizeof(mapped));
	struct headers headers;

	if (!headers_of(core, file, &headers))
		return n || file->code ? MS_CORE_FILE_OTHER : MS_CORE_FILE_DATA;
	if (!n)
		return prove_by_dynamic(core, file, &headers);
	if (n <= file->len && memcmp(mapped, file->bytes, n) == 0)
		return MS_CORE_FILE_PROVED;
	return is_same_id(core, file, &headers) ? MS_CORE_FILE_PROVED : MS_CORE_FILE_OTHER;
}

/* ---- opening ---- */

static bool map_file(int fd, struct ms_core_file *file)
{
	struct stat st;
	void *bytes;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return false;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return false;
	file->map = bytes;
	file->bytes = bytes;
	file->len = (uint64_t)st.st_size;
	return true;
}

static void unmap_file(struct ms_core_file *file)
{
	(void)munmap(file->map, file->len);
	file->map = NULL;
	file->bytes = NULL;
	file->len = 0;
}

static void open_file(struct ms_core *core, const struct ms_core_call *call,
                      struct ms_core_file *file, ms_addr at)
{
	const struct ms_core_wanted wanted = { file->path, at, file->program };
	uint32_t place = 0;

	file->state = MS_CORE_FILE_ABSENT;
	for (int tries = 0; tries < MAX_PLACES; tries++) {
		struct ms_core_file found = *file;
		int fd = call->open(call->ctx, &wanted, &place);

		if (fd < 0)
			return;
		if (map_file(fd, &found)) {
			found.state = (uint8_t)prove(core, &found);
			if (found.state == MS_CORE_FILE_OTHER || found.state == MS_CORE_FILE_DATA)
				unmap_file(&found);
			*file = found;
		}
		(void)close(fd);
		if (file->bytes)
			return;
	}
}

/* Whether the core says that it is no ELF file. */
static bool is_data(struct ms_core *core, const struct ms_core_file *file)
{
	uint8_t magic[SELFMAG];

	if (first_bytes(core, file, magic, sizeof(magic)) == sizeof(magic))
		return memcmp(magic, ELFMAG, SELFMAG) != 0;
	return !file->code && !file->head;
}

/* Permissions of what is in no segment are those of the file's own segments. */
static void set_prot(struct ms_core *core, size_t i)
{
	const struct ms_core_cell *cell = &core->cells.at[i];
	const struct ms_core_file *file = ms_core_file_of(core, cell);
	struct headers headers;

	if (cell->segment || !file || !file->bytes)
		return;
	(void)headers_of(core, file, &headers);
	for (const Elf64_Phdr *phdr = headers.at; phdr < headers.at + headers.n; phdr++) {
		uint64_t begin = ms_align_down(phdr->p_offset, core->base.abi.page_bytes);

		if (phdr->p_type != PT_LOAD || cell->offset < begin ||
		    cell->offset >= phdr->p_offset + phdr->p_filesz)
			continue;
		if (phdr->p_flags & PF_X)
			core->base.mappings.at[i].prot |= MS_PROT_EXEC;
		if (phdr->p_flags & PF_W)
			core->base.mappings.at[i].prot |= MS_PROT_WRITE;
	}
}

void ms_core_files_open(struct ms_core *core, const struct ms_core_call *call)
{
	for (size_t i = 0; i < core->cells.n; i++) {
		const struct ms_core_cell *cell = &core->cells.at[i];
		struct ms_core_file *file = cell->file ? &core->files.at[cell->file - 1] : NULL;
		bool whole = cell->segment && !cell->segment->cut &&
		             cell->segment->bytes == ms_range_len(cell->segment->range);

		if (!file || whole || file->state || ms_is_device(file->path) ||
		    core->base.mappings.at[i].shared || is_data(core, file))
			continue;
		open_file(core, call, file, cell->range.begin);
	}
	for (size_t i = 0; i < core->cells.n; i++)
		set_prot(core, i);
}
