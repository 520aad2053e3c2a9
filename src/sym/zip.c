/* SPDX-License-Identifier: Apache-2.0 */

/*
 * As far as the PKWARE specification (APPNOTE 6.3.3, 4.3) goes for packages: one disk, no
 * Zip64. Every number is the file's and checked against its length.
 */
#include "sym/zip.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sort.h"

enum {
	END_BYTES = 22,
	END_MAGIC = 0x06054b50,
	MOST_COMMENT = 0xffff,
	ENTRY_BYTES = 46,
	ENTRY_MAGIC = 0x02014b50,
	LOCAL_BYTES = 30,
	LOCAL_MAGIC = 0x04034b50,
	STORED = 0,
	MOST_DIRECTORY = 64 << 20,
};

struct zip {
	int fd;
	uint64_t len;
	struct ms_arena *arena;
	const unsigned char *directory;
	size_t directory_len;
};

static uint32_t get16(const unsigned char *at)
{
	return (uint32_t)(at[0] | at[1] << 8);
}

static uint32_t get32(const unsigned char *at)
{
	return get16(at) | get16(at + 2) << 16;
}

/* @len bytes at @offset, or NULL. */
static unsigned char *read_at(const struct zip *zip, uint64_t offset, size_t len)
{
	unsigned char *bytes;

	if (offset > zip->len || len > zip->len - offset)
		return NULL;
	bytes = ms_arena_alloc(zip->arena, len + 1);
	if (!bytes || pread(zip->fd, bytes, len, (off_t)offset) != (ssize_t)len)
		return NULL;
	return bytes;
}

/* The end of the file says where the directory is; a comment may stand behind it. */
static bool find_directory(struct zip *zip)
{
	size_t n = zip->len < END_BYTES + MOST_COMMENT ? zip->len : END_BYTES + MOST_COMMENT;
	const unsigned char *tail = read_at(zip, zip->len - n, n);

	if (!tail || n < END_BYTES)
		return false;
	for (size_t at = n - END_BYTES + 1; at-- > 0;) {
		if (get32(tail + at) != END_MAGIC)
			continue;
		zip->directory_len = get32(tail + at + 12);
		if (zip->directory_len > MOST_DIRECTORY)
			return false;
		zip->directory = read_at(zip, get32(tail + at + 16), zip->directory_len);
		return zip->directory;
	}
	return false;
}

/* Where the bytes of @entry are stored: behind a header of their own. */
static bool find_range(const struct zip *zip, const unsigned char *entry, struct ms_range *ret)
{
	uint64_t offset = get32(entry + 42);
	unsigned char local[LOCAL_BYTES];

	if (pread(zip->fd, local, sizeof(local), (off_t)offset) != LOCAL_BYTES ||
	    get32(local) != LOCAL_MAGIC)
		return false;
	ret->begin = offset + LOCAL_BYTES + get16(local + 26) + get16(local + 28);
	ret->end = ret->begin + get32(entry + 20);
	return ret->begin < ret->end && ret->end <= zip->len;
}

static bool list_members(const struct zip *zip, struct ms_zip_members *ret)
{
	size_t left = zip->directory_len;

	for (const unsigned char *at = zip->directory; left >= ENTRY_BYTES;) {
		size_t name_len = get16(at + 28);
		size_t len = ENTRY_BYTES + name_len + get16(at + 30) + get16(at + 32);
		struct ms_range range;
		struct ms_zip_member *member;

		if (get32(at) != ENTRY_MAGIC || len > left)
			return false;
		if (get16(at + 10) == STORED && find_range(zip, at, &range)) {
			member = ms_vec_push(zip->arena, ret);
			if (!member)
				return false;
			member->range = range;
			member->name = ms_arena_strndup(zip->arena, (const char *)at + ENTRY_BYTES,
			                                name_len);
			if (!member->name)
				return false;
		}
		at += len;
		left -= len;
	}
	return true;
}

static bool member_before(const void *a, const void *b)
{
	const struct ms_zip_member *x = a;
	const struct ms_zip_member *y = b;

	return x->range.begin < y->range.begin;
}

bool ms_zip_list(int fd, struct ms_arena *arena, struct ms_zip_members *ret)
{
	struct zip zip = { .fd = fd, .arena = arena };
	struct stat st;

	ret->n = 0;
	if (fstat(fd, &st) != 0)
		return false;
	zip.len = (uint64_t)st.st_size;
	if (!find_directory(&zip) || !list_members(&zip, ret) ||
	    !ms_sort(arena, ret->at, ret->n, sizeof(*ret->at), member_before))
		return false;
	for (size_t i = 1; i < ret->n; i++)
		if (ret->at[i].range.begin < ret->at[i - 1].range.end)
			return false;
	return true;
}
