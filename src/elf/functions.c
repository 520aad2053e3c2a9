/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/functions.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "base/search.h"
#include "base/sort.h"

enum {
	MOST_BYTES = 256 << 20, /* of one table */
	PIECE = 256,            /* symbols read at a time */
	OVERLAPS = 64,          /* functions looked at behind the nearest */
	OWN_CLASS = sizeof(ElfW(Addr)) == sizeof(uint64_t) ? ELFCLASS64 : ELFCLASS32,
};

/* The bytes of an image, in the middle of a file perhaps. */
struct reader {
	int fd;
	uint64_t begin;
	uint64_t bytes;
	struct ms_arena *arena;
	struct ms_elf_image *image;
};

static bool read_at(const struct reader *r, uint64_t at, void *buf, size_t len)
{
	char *to = buf;

	if (at > r->bytes || len > r->bytes - at)
		return false;
	for (at += r->begin; len;) {
		ssize_t n = pread(r->fd, to, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return true;
}

/* @n entries of @size bytes and a byte 0 behind them, or NULL when the image has not all. */
static void *read_table(const struct reader *r, uint64_t at, uint64_t n, size_t size)
{
	uint64_t len = n * size; /* callers have counts of 16 bits, or bytes */
	void *table;

	if (!len || len > MOST_BYTES || at > r->bytes || len > r->bytes - at)
		return NULL;
	table = ms_arena_resize(r->arena, NULL, (size_t)len + 1);
	return table && read_at(r, at, table, (size_t)len) ? table : NULL;
}

static bool read_header(const struct reader *r, ElfW(Ehdr) * ret)
{
	return read_at(r, 0, ret, sizeof(*ret)) && memcmp(ret->e_ident, ELFMAG, SELFMAG) == 0 &&
	       ret->e_ident[EI_CLASS] == OWN_CLASS && ret->e_ident[EI_DATA] == ELFDATA2LSB;
}

static void read_segments(const struct reader *r, const ElfW(Ehdr) * ehdr)
{
	const ElfW(Phdr) *phdr = read_table(r, ehdr->e_phoff, ehdr->e_phnum, sizeof(*phdr));

	for (unsigned i = 0; phdr && i < ehdr->e_phnum; i++) {
		struct ms_elf_segment *segment;

		if (phdr[i].p_type != PT_LOAD || !(phdr[i].p_flags & PF_X))
			continue;
		segment = ms_vec_push(r->arena, &r->image->code);
		if (segment)
			*segment = (struct ms_elf_segment){ phdr[i].p_offset, phdr[i].p_filesz,
				                            phdr[i].p_vaddr };
	}
}

static bool is_wanted(const struct reader *r, unsigned type)
{
	return type == STT_FUNC || type == STT_GNU_IFUNC ||
	       (type == STT_OBJECT && r->image->variables);
}

static void add_function(const struct reader *r, const ElfW(Sym) * sym, const char *strings,
                         uint64_t n_strings)
{
	struct ms_elf_function *function;
	uint64_t end;

	if (!is_wanted(r, ELF64_ST_TYPE(sym->st_info)) || sym->st_shndx == SHN_UNDEF ||
	    !sym->st_size || sym->st_name >= n_strings || !strings[sym->st_name] ||
	    __builtin_add_overflow((uint64_t)sym->st_value, sym->st_size, &end))
		return;
	function = ms_vec_push(r->arena, &r->image->functions);
	if (function)
		*function = (struct ms_elf_function){ sym->st_value, end, strings + sym->st_name };
}

static void read_symbols(const struct reader *r, const ElfW(Shdr) * table, const ElfW(Shdr) * names)
{
	const char *strings = read_table(r, names->sh_offset, names->sh_size, 1);
	uint64_t n = table->sh_size / sizeof(ElfW(Sym));
	ElfW(Sym) piece[PIECE] = { 0 };

	if (!strings || table->sh_size > MOST_BYTES)
		return;
	for (uint64_t i = 0; i < n;) {
		size_t some = n - i < PIECE ? (size_t)(n - i) : PIECE;

		if (!read_at(r, table->sh_offset + i * sizeof(*piece), piece,
		             some * sizeof(*piece)))
			return;
		for (size_t k = 0; k < some; k++)
			add_function(r, &piece[k], strings, names->sh_size);
		i += some;
	}
}

static void read_sections(const struct reader *r, const ElfW(Ehdr) * ehdr, uint32_t type)
{
	const ElfW(Shdr) *shdr = read_table(r, ehdr->e_shoff, ehdr->e_shnum, sizeof(*shdr));

	for (unsigned i = 0; shdr && i < ehdr->e_shnum; i++)
		if (shdr[i].sh_type == type && shdr[i].sh_link < ehdr->e_shnum)
			read_symbols(r, &shdr[i], &shdr[shdr[i].sh_link]);
}

static bool begins_before(const void *a, const void *b)
{
	const struct ms_elf_function *x = a;
	const struct ms_elf_function *y = b;

	return x->begin < y->begin;
}

bool ms_elf_read(int fd, uint64_t begin, uint64_t bytes, struct ms_arena *arena,
                 struct ms_elf_image *ret)
{
	struct reader r = { fd, begin, bytes > begin ? bytes - begin : 0, arena, ret };
	ElfW(Ehdr) ehdr;

	*ret = (struct ms_elf_image){ .variables = ret->variables };
	if (!read_header(&r, &ehdr))
		return false;
	read_segments(&r, &ehdr);
	/* The second has only what a stripped file needs for linking, but may be all there is. */
	read_sections(&r, &ehdr, SHT_SYMTAB);
	if (!ret->functions.n)
		read_sections(&r, &ehdr, SHT_DYNSYM);
	if (!ms_sort(arena, ret->functions.at, ret->functions.n, sizeof(*ret->functions.at),
	             begins_before))
		ret->functions.n = 0;
	return true;
}

uint64_t ms_elf_address(const struct ms_elf_image *image, uint64_t at)
{
	const struct ms_elf_segment *segment;

	ms_vec_for_each (segment, &image->code)
		if (at - segment->offset < segment->bytes)
			return at - segment->offset + segment->address;
	return at;
}

/* How many functions begin at @address or before it. */
static size_t count_before(const struct ms_elf_image *image, uint64_t address)
{
	return ms_lower_bound(0, image->functions.n, i, image->functions.at[i].begin <= address);
}

/* Of those that have it the nearest; of several names for one the first in the table. */
const struct ms_elf_function *ms_elf_function_at(const struct ms_elf_image *image, uint64_t address)
{
	const struct ms_elf_function *found = NULL;
	size_t n = count_before(image, address);

	for (size_t i = n; i-- && n - i <= OVERLAPS;) {
		const struct ms_elf_function *function = &image->functions.at[i];

		if (found && function->begin != found->begin)
			break;
		if (address < function->end)
			found = function;
	}
	return found;
}
