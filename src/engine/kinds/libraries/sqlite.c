/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/kinds/kinds.h"

/*
 * SQLite: the handle of a connection, and what it leads to. It knows where its files are by a
 * table of functions, and lists its databases, of which the second is called "temp":
 *
 *	handle      │ vfs │ statements │ … │ mutex │ databases │ their number │ …
 *	databases   │ name │ Btree │ … │ Schema │        four words for each
 *	Btree       │ handle │ BtShared │ …       BtShared   │ Pager │ handle │ …
 *	Pager       │ vfs │ …                     statement  │ handle │ before │ next │ …
 *
 * Where it does not ask malloc how long a block is, all blocks have their length in front.
 * Pages of the cache are known by themselves: behind as many bytes as a page has stands where it
 * begins, and where what is kept for it does, which is right behind.
 *
 * Source: SQLite 3.7 to 3.45 src/sqliteInt.h, btreeInt.h, pager.c, pcache1.c, vdbeInt.h.
 */

static const struct ms_kind_type handle = { "sqlite3", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type statement = { "sqlite3_stmt", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type mutex = { "sqlite3_mutex", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type btree = { "Btree of SQLite", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type shared = { "BtShared of SQLite", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type pager = { "Pager of SQLite", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type schema = { "Schema of SQLite", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type pages = { "pages of SQLite", MS_HOW_OBJECT, MS_SURE_CERTAIN };

/* Words of a handle. */
enum { VFS, STATEMENTS, MUTEX = 3, DATABASES, NUMBER, LEAST_HANDLE = 400 };

/* Of a database, and of a vfs: versions, name, functions. */
enum { DB_NAME, DB_TREE, DB_SCHEMA = 3, DB_WORDS, VFS_NAME = 3, VFS_FUNCTIONS = 5, VFS_WORDS = 9 };

enum {
	MOST_DATABASES = 127,
	MOST_NAME = 64,
	MOST_VERSION = 3,
	NEXT = 2,
	MOST_STATEMENTS = 1 << 16
};

/* Of a cached page. */
enum { LEAST_PAGE = 512, MOST_PAGE = 65536, MOST_HEADER = 128 };

static bool is_vfs(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[VFS_WORDS];
	char name[MOST_NAME];

	if (!ms_kinds_words(k, at, words, VFS_WORDS) || !(uint32_t)words[0] ||
	    (uint32_t)words[0] > MOST_VERSION ||
	    !ms_kinds_text(k, words[VFS_NAME], name, sizeof(name)))
		return false;
	for (int i = VFS_FUNCTIONS; i < VFS_WORDS; i++)
		if (!ms_kinds_is_code(k, words[i]))
			return false;
	return true;
}

static bool has_length(const struct ms_kind_block *b, uint64_t length)
{
	return length < UINT64_MAX - MS_KIND_WORD && ms_kind_fits(b->usable, length + MS_KIND_WORD);
}

/* The block of the object at @at. */
static bool find_object(struct ms_kinds *k, ms_addr at, struct ms_kind_block *ret)
{
	uint64_t length;

	if (ms_kinds_at(k, at, ret))
		return true;
	return ms_kinds_at(k, at - MS_KIND_WORD, ret) &&
	       ms_kinds_words(k, at - MS_KIND_WORD, &length, 1) && has_length(ret, length);
}

/* @words: of what may be a handle */
static bool is_handle(struct ms_kinds *k, const uint8_t *words)
{
	uint64_t databases[2 * DB_WORDS];
	uint64_t n = (uint32_t)ms_kind_word(words, NUMBER);
	char name[MOST_NAME];

	return n >= 2 && n <= MOST_DATABASES &&
	       ms_kinds_words(k, ms_kind_word(words, DATABASES), databases, (size_t)2 * DB_WORDS) &&
	       ms_kinds_text(k, databases[DB_WORDS + DB_NAME], name, sizeof(name)) &&
	       !strcmp(name, "temp") && is_vfs(k, ms_kind_word(words, VFS));
}

/* A word by which an object is known, and what it is then. */
struct mark {
	size_t word; /* of its first two */
	uint64_t value;
	const struct ms_kind_type *type;
};

/* The object at @at, if it has the mark; the other of its two words. */
static bool take(struct ms_kinds *k, ms_addr at, struct mark mark, ms_addr *ret_other)
{
	struct ms_kind_block found;
	uint64_t words[2];

	if (!find_object(k, at, &found) || !ms_kinds_words(k, at, words, 2) ||
	    words[mark.word] != mark.value)
		return false;
	ms_kinds_claim(k, &found, mark.type, NULL);
	*ret_other = words[1 - mark.word];
	return true;
}

static void take_any(struct ms_kinds *k, ms_addr at, const struct ms_kind_type *type)
{
	struct ms_kind_block found;

	if (find_object(k, at, &found))
		ms_kinds_claim(k, &found, type, NULL);
}

static void take_database(struct ms_kinds *k, ms_addr of, ms_addr vfs, ms_addr at)
{
	uint64_t words[DB_WORDS];
	ms_addr next;

	if (!ms_kinds_words(k, at, words, DB_WORDS))
		return;
	if (take(k, words[DB_TREE], (struct mark){ 0, of, &btree }, &next) &&
	    take(k, next, (struct mark){ 1, of, &shared }, &next))
		(void)take(k, next, (struct mark){ 0, vfs, &pager }, &next);
	take_any(k, words[DB_SCHEMA], &schema);
}

static void take_statements(struct ms_kinds *k, ms_addr of, ms_addr at)
{
	const struct mark mark = { 0, of, &statement };
	uint64_t words[NEXT + 1];
	ms_addr other;

	for (int i = 0; i < MOST_STATEMENTS && ms_kinds_step(k) && take(k, at, mark, &other);
	     i++, at = words[NEXT])
		if (!ms_kinds_words(k, at, words, NEXT + 1))
			return;
}

/* Whether @n bytes at @bytes, which are at @at, begin with a page. */
static bool are_pages(const uint8_t *bytes, size_t n, ms_addr at)
{
	for (uint64_t len = LEAST_PAGE; len <= MOST_PAGE && len + 2 * MS_KIND_WORD <= n; len *= 2) {
		size_t i = (size_t)(len / MS_KIND_WORD);
		uint64_t behind = ms_kind_word(bytes, i + 1) - at - len;

		if (ms_kind_word(bytes, i) == at && behind >= 2 * MS_KIND_WORD &&
		    behind <= MOST_HEADER && behind % MS_KIND_WORD == 0)
			return true;
	}
	return false;
}

static void look_at(struct ms_kinds *k, const struct ms_kind_block *b, size_t front)
{
	const uint8_t *words = b->bytes + front;
	ms_addr of = b->begin + front;
	ms_addr at;

	if (are_pages(words, b->n - front, of))
		ms_kinds_claim(k, b, &pages, NULL);
	if (!is_handle(k, words))
		return;
	ms_kinds_claim(k, b, &handle, NULL);
	take_any(k, ms_kind_word(words, MUTEX), &mutex);
	take_statements(k, of, ms_kind_word(words, STATEMENTS));
	at = ms_kind_word(words, DATABASES);
	for (uint32_t n = (uint32_t)ms_kind_word(words, NUMBER); n; n--)
		take_database(k, of, ms_kind_word(words, VFS),
		              at + (ms_addr)(n - 1) * DB_WORDS * MS_KIND_WORD);
}

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (b->n < LEAST_HANDLE)
		return;
	look_at(k, b, 0);
	if (has_length(b, ms_kind_word(b->bytes, 0)))
		look_at(k, b, MS_KIND_WORD);
}

const struct ms_kind ms_kind_sqlite = { .name = "SQLite", .block = block };
