/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/elf/debug.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

enum { LONGEST_ID = 64, CRC_PIECE = 64 * 1024 };

/* What is looked for: by build-id, or by checksum where there is none. */
struct wanted {
	struct ms_debug *debug;
	const unsigned char *id;
	size_t id_len; /* 0: the file has none */
	uint32_t crc;
	const char *link;
};

static const int open_flags = O_PATH | O_CLOEXEC;

/* ---- opening ---- */

/* @path as a process has it whose root is @root: links do not lead out of there. */
static int open_below(const char *root, const char *path)
{
	const struct open_how how = {
		.flags = (uint64_t)open_flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	long fd = -1;

	if (folder < 0)
		return -1;
	fd = syscall(SYS_openat2, folder, path + strspn(path, "/"), &how, sizeof(how));
	(void)close(folder);
	/* Before Linux 5.6, and where a container's filter does not know the call. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
		char whole[2 * PATH_MAX];

		(void)snprintf(whole, sizeof(whole), "%s%s", root, path);
		fd = open(whole, open_flags);
	}
	return ms_file_reopen_regular((int)fd);
}

/* ---- is it the one? ---- */

static bool has_symbols(Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	while ((section = elf_nextscn(elf, section))) {
		const char *name;

		if (!gelf_getshdr(section, &header))
			return false;
		name = elf_strptr(elf, names, header.sh_name);
		if (header.sh_type == SHT_SYMTAB ||
		    (header.sh_type != SHT_NOBITS && name &&
		     (strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0 ||
		      strcmp(name, ".debug_str") == 0)))
			return true;
	}
	return false;
}

static bool has_id(Elf *elf, const unsigned char *id, size_t len)
{
	const void *found;

	return dwelf_elf_gnu_build_id(elf, &found) == (ssize_t)len && memcmp(found, id, len) == 0;
}

/* The checksum of .gnu_debuglink: CRC-32 as zip files have it. */
static uint32_t checksum(int fd)
{
	uint32_t table[256];
	uint32_t crc = ~UINT32_C(0);
	unsigned char bytes[CRC_PIECE];
	off_t at = 0;
	ssize_t n;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? UINT32_C(0xedb88320) : 0);
	}
	while ((n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xff];
		at += n;
	}
	return ~crc;
}

static bool fits(const struct wanted *w, int fd)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	bool ok = elf && elf_kind(elf) == ELF_K_ELF && has_symbols(elf) &&
	          (w->id_len ? has_id(elf, w->id, w->id_len) : checksum(fd) == w->crc);

	if (elf)
		(void)elf_end(elf);
	return ok;
}

/* ---- where it may be ---- */

/* The file @path of @root, if it is the one wanted. */
static int __attribute__((format(printf, 3, 4)))
try(const struct wanted *w, const char *root, const char *fmt, ...)
{
	char path[PATH_MAX];
	char whole[2 * PATH_MAX];
	va_list ap;
	int fd;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n < 0 || n >= PATH_MAX)
		return -1;
	(void)snprintf(whole, sizeof(whole), "%s%s", root, path);
	/* In our own root, and in a folder of the user's, links are believed. */
	fd = strncmp(root, "/proc/", 6) == 0 ? open_below(root, path) : ms_file_open_regular(whole);
	if (fd < 0)
		return -1;
	if (fits(w, fd)) {
		w->debug->found = ms_arena_strndup(w->debug->arena, whole, sizeof(whole));
		return fd;
	}
	w->debug->refused = ms_arena_strndup(w->debug->arena, whole, sizeof(whole));
	(void)close(fd);
	return -1;
}

static int find_by_id(const struct wanted *w, const char *root, const char *folder)
{
	char text[2 * LONGEST_ID + 1] = "";

	if (w->id_len < 2 || w->id_len > LONGEST_ID)
		return -1;
	for (size_t i = 0; i < w->id_len; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", w->id[i]);
	return try(w, root, "%s/.build-id/%.2s/%s.debug", folder, text, text + 2);
}

/* By its name: with the ELF file, or in a tree that repeats the folders. */
static int find_by_link(const struct wanted *w, const char *root)
{
	const char *path = w->debug->path;
	const char *slash = strrchr(path, '/');
	int len = slash ? (int)(slash - path) : 0;
	int fd = -1;

	if (*w->link == '/')
		return try(w, root, "%s", w->link);
	fd = try(w, root, "%.*s/%s", len, path, w->link);
	if (fd < 0)
		fd = try(w, root, "%.*s/.debug/%s", len, path, w->link);
	if (fd < 0)
		fd = try(w, root, "/usr/lib/debug%.*s/%s", len, path, w->link);
	return fd;
}

static int find_in_folder(const struct wanted *w, const char *folder)
{
	const char *path = w->debug->path;
	const char *slash = strrchr(path, '/');
	int fd = find_by_id(w, folder, "");

	if (fd < 0 && w->link)
		fd = try(w, folder, "%.*s/%s", slash ? (int)(slash - path) : 0, path, w->link);
	if (fd < 0 && w->link)
		fd = try(w, folder, "/%s", w->link);
	return fd;
}

static int find(const struct wanted *w)
{
	const struct ms_debug_places *places = w->debug->places;
	int fd = places->folder ? find_in_folder(w, places->folder) : -1;

	for (size_t i = 0; i < MS_DEBUG_ROOTS && fd < 0; i++) {
		if (!places->roots[i])
			continue;
		fd = find_by_id(w, places->roots[i], "/usr/lib/debug");
		if (fd < 0 && w->link)
			fd = find_by_link(w, places->roots[i]);
	}
	return fd;
}

/* ---- what is asked for ---- */

/*
 * What several files' debug information has in common can be in a further file (dwz),
 * for which libdwfl asks in the same way, once it has the first.
 */
static bool ask_for_common(Dwfl_Module *mod, struct wanted *w)
{
	Dwarf_Addr bias;
	Dwarf *dwarf = dwfl_module_getdwarf(mod, &bias);
	const void *id;
	ssize_t len = dwarf ? dwelf_dwarf_gnu_debugaltlink(dwarf, &w->link, &id) : 0;

	if (len <= 0)
		return false;
	w->id = id;
	w->id_len = (size_t)len;
	/* Relative ones are meant from the debug information's own place. */
	if (*w->link != '/')
		w->link = NULL;
	return true;
}

static bool ask(Dwfl_Module *mod, const char *link, struct wanted *w)
{
	GElf_Addr bias;
	GElf_Addr vaddr;
	Elf *elf = dwfl_module_getelf(mod, &bias);
	GElf_Word crc = 0;
	const char *own_link = elf ? dwelf_elf_gnu_debuglink(elf, &crc) : NULL;
	int len;

	if (link && link != own_link)
		return ask_for_common(mod, w);
	len = dwfl_module_build_id(mod, &w->id, &vaddr);
	w->id_len = len > 0 ? (size_t)len : 0;
	w->link = own_link;
	w->crc = crc;
	/* A name that is a path leads anywhere. */
	if (w->link && (!*w->link || strchr(w->link, '/')))
		w->link = NULL;
	return w->id_len || w->link;
}

int ms_debug_find(struct ms_debug *debug, Dwfl_Module *mod, const char *link, char **ret_name)
{
	struct wanted w = { .debug = debug };
	char *name = NULL;
	int fd;

	*ret_name = NULL;
	if (ask(mod, link, &w)) {
		fd = find(&w);
		if (fd >= 0) {
			*ret_name = debug->found ? strdup(debug->found) : NULL;
			return fd;
		}
	}
	if (!debug->places->debuginfod)
		return -1;
	fd = dwfl_standard_find_debuginfo(mod, NULL, "", 0, debug->path, link, w.crc, &name);
	if (fd >= 0 && !fits(&w, fd)) {
		debug->refused = "what a debuginfod server has";
		(void)close(fd);
		fd = -1;
	}
	*ret_name = name;
	return fd;
}
