/* SPDX-License-Identifier: Apache-2.0 */
#include "target/code/image.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SEGMENTS = 64, MAX_DYNAMIC = 256, MAX_CHAIN = 100000, PAGE = 4096, NAME_BYTES = 32 };

/* What the dynamic section says of symbols; 0 where it is silent. */
struct tables {
	ms_addr symbols;
	ms_addr strings;
	uint64_t strings_len;
	ms_addr gnu_hash;
	ms_addr hash;
};

bool ms_image_read(const struct ms_image *image, ms_addr addr, void *buf, size_t len)
{
	return addr <= INT64_MAX && pread(image->mem_fd, buf, len, (off_t)addr) == (ssize_t)len;
}

static bool read_u32(const struct ms_image *image, ms_addr addr, uint32_t *ret)
{
	return ms_image_read(image, addr, ret, sizeof(*ret));
}

/* Take from one program header what concerns us; @load is how far segments reach in the file. */
static void take_segment(struct ms_image *image, const Elf64_Phdr *head, struct ms_range *load)
{
	if (head->p_type == PT_LOAD) {
		ms_addr begin = ms_align_down(head->p_vaddr, PAGE);

		if (load->begin > begin)
			load->begin = begin;
		if (load->end < head->p_vaddr + head->p_memsz)
			load->end = head->p_vaddr + head->p_memsz;
	} else if (head->p_type == PT_DYNAMIC) {
		image->dynamic = head->p_vaddr;
	} else if (head->p_type == PT_GNU_EH_FRAME) {
		image->frame_header = head->p_vaddr;
	} else if (head->p_type == PT_INTERP) {
		image->has_interpreter = true;
	}
}

bool ms_image_open(int mem_fd, ms_addr base, struct ms_image *ret)
{
	struct ms_image image = { .mem_fd = mem_fd };
	struct ms_range load = { UINT64_MAX, 0 };
	Elf64_Phdr heads[MAX_SEGMENTS];
	Elf64_Ehdr head;

	if (!ms_image_read(&image, base, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(heads[0]) || !head.e_phnum || head.e_phnum > MAX_SEGMENTS ||
	    !ms_image_read(&image, base + head.e_phoff, heads, head.e_phnum * sizeof(heads[0])))
		return false;
	for (size_t i = 0; i < head.e_phnum; i++)
		take_segment(&image, &heads[i], &load);
	if (load.begin >= load.end)
		return false;
	image.bias = base - load.begin;
	image.range = (struct ms_range){ base, load.end + image.bias };
	image.dynamic += image.dynamic ? image.bias : 0;
	image.frame_header += image.frame_header ? image.bias : 0;
	*ret = image;
	return true;
}

/* The loader may or may not have added the bias to a pointer of the dynamic section. */
static ms_addr relocated(const struct ms_image *image, uint64_t value)
{
	return ms_range_has(image->range, value) ? value : value + image->bias;
}

static bool read_tables(const struct ms_image *image, struct tables *ret)
{
	struct tables tables = { 0 };
	Elf64_Dyn entry;

	for (ms_addr at = image->dynamic; at < image->dynamic + MAX_DYNAMIC * sizeof(entry);
	     at += sizeof(entry)) {
		if (!ms_image_read(image, at, &entry, sizeof(entry)) || entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_SYMTAB)
			tables.symbols = relocated(image, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_STRTAB)
			tables.strings = relocated(image, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_STRSZ)
			tables.strings_len = entry.d_un.d_val;
		else if (entry.d_tag == DT_GNU_HASH)
			tables.gnu_hash = relocated(image, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_HASH)
			tables.hash = relocated(image, entry.d_un.d_ptr);
	}
	*ret = tables;
	return tables.symbols && tables.strings;
}

/* Whether symbol @index is the defined function @name; its address then. */
static bool is_symbol(const struct ms_image *image, const struct tables *tables, uint32_t index,
                      const char *name, ms_addr *ret)
{
	size_t len = strlen(name) + 1;
	char have[NAME_BYTES];
	Elf64_Sym symbol;

	if (!ms_image_read(image, tables->symbols + (uint64_t)index * sizeof(symbol), &symbol,
	                   sizeof(symbol)))
		return false;
	if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
	    symbol.st_name >= tables->strings_len || len > sizeof(have))
		return false;
	if (!ms_image_read(image, tables->strings + symbol.st_name, have, len) ||
	    memcmp(have, name, len) != 0 ||
	    !ms_range_has(image->range, image->bias + symbol.st_value))
		return false;
	*ret = image->bias + symbol.st_value;
	return true;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (uint8_t)*name++;
	return hash;
}

/* Source: the layout of DT_GNU_HASH as glibc's elf/dl-lookup.c reads it. */
static bool find_by_gnu_hash(const struct ms_image *image, const struct tables *tables,
                             const char *name, ms_addr *ret)
{
	struct {
		uint32_t n_buckets, first_symbol, n_bloom, bloom_shift;
	} head;
	uint32_t want = gnu_hash_of(name);
	ms_addr buckets;
	uint32_t index;

	if (!ms_image_read(image, tables->gnu_hash, &head, sizeof(head)) || !head.n_buckets)
		return false;
	buckets = tables->gnu_hash + sizeof(head) + (uint64_t)head.n_bloom * sizeof(uint64_t);
	if (!read_u32(image, buckets + (uint64_t)(want % head.n_buckets) * 4, &index) ||
	    index < head.first_symbol)
		return false;
	for (uint32_t steps = 0; steps < MAX_CHAIN; steps++, index++) {
		ms_addr chain = buckets + (uint64_t)head.n_buckets * 4;
		uint32_t hash;

		if (!read_u32(image, chain + (uint64_t)(index - head.first_symbol) * 4, &hash))
			return false;
		if ((hash | 1) == (want | 1) && is_symbol(image, tables, index, name, ret))
			return true;
		if (hash & 1) /* the last of its chain */
			return false;
	}
	return false;
}

static uint32_t sysv_hash_of(const char *name)
{
	uint32_t hash = 0;

	while (*name) {
		hash = (hash << 4) + (uint8_t)*name++;
		hash ^= (hash & 0xf0000000) >> 24;
		hash &= 0x0fffffff;
	}
	return hash;
}

/* Source: System V ABI, chapter 5, "Hash Table". */
static bool find_by_hash(const struct ms_image *image, const struct tables *tables,
                         const char *name, ms_addr *ret)
{
	struct {
		uint32_t n_buckets, n_chain;
	} head;
	uint32_t index;

	if (!ms_image_read(image, tables->hash, &head, sizeof(head)) || !head.n_buckets)
		return false;
	if (!read_u32(image, tables->hash + 8 + (uint64_t)(sysv_hash_of(name) % head.n_buckets) * 4,
	              &index))
		return false;
	for (uint32_t steps = 0; index && index < head.n_chain && steps < MAX_CHAIN; steps++) {
		if (is_symbol(image, tables, index, name, ret))
			return true;
		if (!read_u32(image, tables->hash + 8 + ((uint64_t)head.n_buckets + index) * 4,
		              &index))
			return false;
	}
	return false;
}

bool ms_image_find(const struct ms_image *image, const char *name, ms_addr *ret)
{
	struct tables tables;

	if (!image->dynamic || !read_tables(image, &tables))
		return false;
	if (tables.gnu_hash)
		return find_by_gnu_hash(image, &tables, name, ret);
	return tables.hash && find_by_hash(image, &tables, name, ret);
}
