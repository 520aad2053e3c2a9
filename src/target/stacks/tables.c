/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind tables are read from the process's memory, not from files: those may be
 * deleted, replaced or in another mount namespace, and the vdso has none. Only a program
 * linked statically at a fixed address has frames without a table over them; where they
 * are its section headers say, which are in the file alone, and /proc/PID/exe is it.
 */
#include <assert.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/elf/frames.h"
#include "engine/modules.h"
#include "target/code/image.h"
#include "target/stacks/stacks.h"

/*
 * How an entry of eh_frame begins; pc is relative to itself.
 * Source: Linux Standard Base Core 5.0, 10.6.1.
 */
struct frame_entry {
	uint32_t len; /* of what follows; 0: the end; UINT32_MAX: a longer length follows */
	uint32_t cie; /* 0: this is none of code, but what such share */
	int32_t pc;
};

enum {
	MAX_SECTIONS = 1024,
	MAX_NAMES = 64 * 1024,
	MAX_FRAME_BYTES = 64 << 20,
};

static_assert(sizeof(struct frame_entry) == 12, "eh_frame layout");
static_assert(sizeof(struct ms_unwind_entry) <= sizeof(struct frame_entry), "a table's room");

/*
 * The image that has the code in @map: where its file's mappings begin, or at its own begin,
 * for several may be within one file.
 */
static bool open_image(const struct ms_frozen_stacks *stacks, const struct ms_mapping *map,
                       struct ms_image *ret)
{
	const struct ms_mapping *first = ms_module_first(&stacks->maps, map);

	return (ms_image_open(0, stacks->mem, first->range.begin, NULL, ret) &&
	        ms_range_has(ret->object.span, map->range.begin)) ||
	       ms_image_open(0, stacks->mem, map->range.begin, NULL, ret);
}

static bool read_header(const struct ms_image *image, struct ms_unwind_table *ret)
{
	struct ms_frame_header header;

	if (!ms_image_read(image, image->object.frame_header, &header, sizeof(header)) ||
	    !ms_frame_is_searchable(&header))
		return false;
	ret->base = image->object.frame_header;
	ret->entries = image->object.frame_header + sizeof(header);
	ret->n = header.count;
	return header.count > 0;
}

static bool read_file(int fd, uint64_t at, void *buf, size_t len)
{
	return at <= INT64_MAX && pread(fd, buf, len, (off_t)at) == (ssize_t)len;
}

/* Find the section .eh_frame of the program in @fd; addresses as in the file. */
static bool find_section(int fd, struct ms_arena *arena, struct ms_range *ret)
{
	Elf64_Shdr *sections = ms_arena_alloc(arena, MAX_SECTIONS * sizeof(*sections));
	char *names = ms_arena_alloc(arena, MAX_NAMES + 1);
	const Elf64_Shdr *strings;
	Elf64_Ehdr head;

	if (!sections || !names || !read_file(fd, 0, &head, sizeof(head)) ||
	    head.e_shentsize != sizeof(*sections) || head.e_shnum > MAX_SECTIONS ||
	    head.e_shstrndx >= head.e_shnum ||
	    !read_file(fd, head.e_shoff, sections, head.e_shnum * sizeof(*sections)))
		return false;
	strings = &sections[head.e_shstrndx];
	if (strings->sh_size > MAX_NAMES ||
	    !read_file(fd, strings->sh_offset, names, strings->sh_size))
		return false;
	for (size_t i = 0; i < head.e_shnum; i++) {
		if (sections[i].sh_name >= strings->sh_size ||
		    strcmp(names + sections[i].sh_name, ".eh_frame") != 0)
			continue;
		*ret = (struct ms_range){ sections[i].sh_addr,
			                  sections[i].sh_addr + sections[i].sh_size };
		return ret->begin < ret->end && sections[i].sh_size <= MAX_FRAME_BYTES;
	}
	return false;
}

/* Where the frames of the program are, @map being one of its mappings. */
static bool find_frames(const struct ms_frozen_stacks *stacks, const struct ms_mapping *map,
                        struct ms_arena *arena, struct ms_range *ret)
{
	size_t entry = (size_t)(map - stacks->maps.at);
	int fd = stacks->open && map->inode ? stacks->open(stacks->open_ctx, entry) : -1;
	struct stat st;
	bool found;

	if (fd < 0)
		return false;
	found = fstat(fd, &st) == 0 && st.st_ino == map->inode && find_section(fd, arena, ret);
	(void)close(fd);
	return found;
}

static int by_pc(const void *a, const void *b)
{
	const struct ms_unwind_entry *left = a;
	const struct ms_unwind_entry *right = b;

	return (left->pc > right->pc) - (left->pc < right->pc);
}

size_t ms_unwind_table_make(struct ms_range frames, const char *bytes, ms_addr base,
                            struct ms_unwind_entry *ret)
{
	struct frame_entry entry;
	size_t n = 0;

	for (uint64_t at = 0; at + sizeof(entry) <= ms_range_len(frames);
	     at += sizeof(entry.len) + entry.len) {
		ms_addr field = frames.begin + at + offsetof(struct frame_entry, pc);

		memcpy(&entry, bytes + at, sizeof(entry));
		/* None is so short, and the table has room for as many as there can be. */
		if (entry.len < sizeof(entry) - sizeof(entry.len) || entry.len == UINT32_MAX)
			break;
		/* Encodings other than the usual give an address that is not searched for. */
		if (entry.cie)
			ret[n++] = (struct ms_unwind_entry){
				.pc = (int32_t)(field + (ms_addr)(int64_t)entry.pc - base),
				.frame = (int32_t)(frames.begin + at - base),
			};
	}
	qsort(ret, n, sizeof(*ret), by_pc);
	return n;
}

/* Make the table that the program lacks. */
static bool make(const struct ms_frozen_stacks *stacks, const struct ms_mapping *map,
                 const struct ms_image *image, struct ms_arena *arena, struct ms_unwind_table *ret)
{
	struct ms_unwind_entry *entries;
	struct ms_range frames;
	char *bytes;

	if (!find_frames(stacks, map, arena, &frames))
		return false;
	frames.begin += image->object.bias;
	frames.end += image->object.bias;
	bytes = ms_arena_alloc(arena, ms_range_len(frames));
	entries = ms_arena_alloc(arena, ms_range_len(frames));
	if (!bytes || !entries || !ms_image_read(image, frames.begin, bytes, ms_range_len(frames)))
		return false;
	ret->base = image->object.span.begin;
	ret->made = entries;
	ret->entries = MS_MADE_TABLE;
	ret->n = ms_unwind_table_make(frames, bytes, ret->base, entries);
	return ret->n > 0;
}

void ms_unwind_table_find(const struct ms_frozen_stacks *stacks, const struct ms_mapping *map,
                          struct ms_arena *arena, struct ms_unwind_table *ret)
{
	struct ms_unwind_table table = { 0 };
	struct ms_image image;

	if (open_image(stacks, map, &image))
		table.found = image.object.frame_header ? read_header(&image, &table)
		                                        : make(stacks, map, &image, arena, &table);
	table.looked = true;
	*ret = table;
}
