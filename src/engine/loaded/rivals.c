/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/rivals.h"

#include <string.h>

#include "base/file.h"

enum { PIECE = 1 << 16, OVERLAP = 256, HEX_DIGITS = 40 };

/* No more of a module's constants is looked through. */
static const uint64_t MOST_CONSTANTS = UINT64_C(64) << 20;

/* Libraries that are allocators, as their files' names begin. */
static const char *const files[] = {
	"libjemalloc",  "libtcmalloc", "libmimalloc",       "libsnmalloc", "librpmalloc",
	"libtbbmalloc", "libhoard",    "libclang_rt.scudo", "libscudo",    "libhardened_malloc",
	"libasan",      "libtsan",     "liblsan",           "libhwasan"
};

/* How names that are given to private memory begin. */
static const struct {
	const char *mapping;
	const char *allocator;
} named_memory[] = {
	{ "[anon:scudo:", "scudo" },
	{ "[anon:partition_alloc", "PartitionAlloc" },
};

/* How the version of an allocator is found. */
enum version {
	VERSION_NONE,
	VERSION_BEHIND, /* the text's */
	VERSION_COMMIT, /* anywhere: 5.3.0-0-g and a commit's number of 40 digits */
};

/*
 * Source: the strings of libjemalloc.so.2 5.2.1 to 5.3.1, libtcmalloc.so.4 2.8.1 to 2.18.1,
 * libmimalloc.so.2 2.0.9, both libclang_rt.scudo of LLVM 14 and Chromium 150;
 * hardened_malloc's util.c; tcmalloc's malloc_extension.h, of which only Google's has caches
 * for each processor.
 */
static const struct {
	const char *text;
	const char *allocator;
	enum version version;
} banners[] = {
	{ "<jemalloc>: ", "jemalloc", VERSION_COMMIT },
	{ "gperftools ", "gperftools", VERSION_BEHIND },
	{ "tcmalloc.per_cpu_caches_active", "Google's tcmalloc", VERSION_NONE },
	{ "mimalloc: ", "mimalloc", VERSION_NONE },
	{ "Scudo ", "scudo", VERSION_NONE },
	{ "fatal allocator error: ", "hardened_malloc", VERSION_NONE },
	{ "partition_alloc/partitions", "PartitionAlloc", VERSION_NONE },
};

enum { N_BANNERS = sizeof(banners) / sizeof(banners[0]) };

bool ms_rival_is_file(const char *name)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (ms_name_begins(name, files[i]))
			return true;
	return false;
}

/* ---- texts ---- */

/* What was found so far in a module. */
struct texts {
	size_t banner; /* the first of the table; N_BANNERS: none */
	char behind[MS_RIVAL_TEXT / 2];
	char commit[MS_RIVAL_TEXT / 2];
};

static bool is_of_version(char c)
{
	return (c >= '0' && c <= '9') || c == '.';
}

/* A version is of digits and dots, and begins with a digit. */
static void take_version(const char *from, const char *end, char ret[MS_RIVAL_TEXT / 2])
{
	size_t n = 0;

	while (from + n < end && n + 1 < MS_RIVAL_TEXT / 2 && is_of_version(from[n]))
		n++;
	if (!n || from[0] == '.')
		return;
	memcpy(ret, from, n);
	ret[n] = '\0';
}

static bool is_commit(const char *at, const char *end)
{
	size_t n = 0;

	while (at + n < end && ((at[n] >= '0' && at[n] <= '9') || (at[n] >= 'a' && at[n] <= 'f')))
		n++;
	return n == HEX_DIGITS;
}

/* The text that has "-g" at @at: so many commits after a version. */
static void take_commit(const char *begin, const char *at, const char *end, struct texts *ret)
{
	const char *from = at;

	if (!is_commit(at + 2, end))
		return;
	while (from > begin && (is_of_version(from[-1]) || from[-1] == '-'))
		from--;
	take_version(from, at, ret->commit);
}

static void take_commits(const char *bytes, size_t len, struct texts *ret)
{
	const char *end = bytes + len;
	const char *at = bytes;

	while (!ret->commit[0] && (at = memmem(at, (size_t)(end - at), "-g", 2))) {
		take_commit(bytes, at, end, ret);
		at++;
	}
}

static void look_through(const char *bytes, size_t len, struct texts *ret)
{
	for (size_t i = 0; i < ret->banner; i++) {
		const char *at = memmem(bytes, len, banners[i].text, strlen(banners[i].text));

		if (!at)
			continue;
		ret->banner = i;
		take_version(at + strlen(banners[i].text), bytes + len, ret->behind);
	}
	take_commits(bytes, len, ret);
}

static void look_at(const struct ms_decoding *d, struct ms_range range, uint64_t *left,
                    struct texts *ret)
{
	char piece[PIECE];

	/* Pieces overlap, so that a text is whole in one of them. */
	for (ms_addr at = range.begin; at < range.end && *left; at += PIECE - OVERLAP) {
		size_t want = range.end - at < PIECE ? (size_t)(range.end - at) : PIECE;
		size_t n = ms_source_read(d->src, at, piece, want);

		look_through(piece, n, ret);
		*left -= *left < PIECE ? *left : PIECE;
	}
}

static size_t append(char *to, size_t at, const char *text)
{
	size_t n = strnlen(text, MS_RIVAL_TEXT - 1 - at);

	memcpy(to + at, text, n);
	to[at + n] = '\0';
	return at + n;
}

void ms_rival_in(const struct ms_decoding *d, uint32_t module, char ret[MS_RIVAL_TEXT])
{
	struct texts texts = { .banner = N_BANNERS };
	uint64_t left = MOST_CONSTANTS;
	const struct ms_region *region;
	const char *version;
	size_t at;

	ret[0] = '\0';
	ms_vec_for_each (region, d->regions) {
		uint8_t prot = ms_region_mapping(d->src, region)->prot;

		if (region->kind == MS_REGION_GLOBALS && region->module == module &&
		    (prot & MS_PROT_READ) && !(prot & MS_PROT_WRITE))
			look_at(d, region->range, &left, &texts);
	}
	if (texts.banner == N_BANNERS)
		return;
	at = append(ret, 0, banners[texts.banner].allocator);
	version = banners[texts.banner].version == VERSION_COMMIT   ? texts.commit
	          : banners[texts.banner].version == VERSION_BEHIND ? texts.behind
	                                                            : "";
	if (version[0])
		(void)append(ret, append(ret, at, " "), version);
}

/* ---- names ---- */

static bool is_own(const struct ms_decoding *d, const struct ms_mapping *m, const uint32_t *own,
                   size_t n_own)
{
	const struct ms_region *region = ms_region_of(d->regions, m->range.begin);

	for (size_t i = 0; region && region->kind == MS_REGION_GLOBALS && i < n_own; i++)
		if (own[i] == region->module)
			return true;
	return false;
}

static bool find_file(struct ms_decoding *d, const uint32_t *own, size_t n_own)
{
	const struct ms_mapping *m;

	ms_vec_for_each (m, &d->src->mappings) {
		const struct ms_region *region = ms_region_of(d->regions, m->range.begin);

		if (!m->file || !ms_rival_is_file(ms_file_name(m->name)) ||
		    is_own(d, m, own, n_own))
			continue;
		(void)strncpy(d->rival.name, ms_file_name(m->name), sizeof(d->rival.name) - 1);
		if (region && region->kind == MS_REGION_GLOBALS)
			ms_rival_in(d, region->module, d->rival.what);
		return true;
	}
	return false;
}

static void find_memory(struct ms_decoding *d)
{
	const struct ms_mapping *m;

	ms_vec_for_each (m, &d->src->mappings)
		for (size_t i = 0; i < sizeof(named_memory) / sizeof(named_memory[0]); i++)
			if (!m->file && ms_name_begins(m->name, named_memory[i].mapping)) {
				(void)strncpy(d->rival.name, named_memory[i].allocator,
				              sizeof(d->rival.name) - 1);
				return;
			}
}

void ms_rival_find(struct ms_decoding *d, const uint32_t *own, size_t n_own)
{
	if (!find_file(d, own, n_own))
		find_memory(d);
}
