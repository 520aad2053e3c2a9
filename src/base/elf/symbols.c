/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of loaded objects, by the tables that the loader itself uses. */
#include <string.h>

#include "base/elf/class.h"
#include "base/elf/object.h"

enum {
	MAX_CHAIN = 1 << 10, /* symbols in one bucket; linkers make a few dozen */
	MAX_IMPORTS = 1 << 16,
	MAX_NAME = 64,
};

/* A table for GNU's hash, in front of bloom filter, buckets and chains. */
struct gnu_hash {
	uint32_t n_buckets;
	uint32_t first; /* symbol that is in the table; those before are wanted from others */
	uint32_t n_bloom;
	uint32_t shift;
};

/* The older table, in front of buckets and a chain for each symbol. */
struct hash {
	uint32_t n_buckets;
	uint32_t n_symbols;
};

/* A symbol's name that is looked for. */
struct wanted {
	struct ms_reader from;
	const struct ms_dynamic *dynamic;
	const char *name;
	uint64_t *ret_bytes; /* of the function that is found; NULL: not asked for */
};

/* Number @index of the table at @table. */
static bool number(const struct wanted *w, ms_addr table, uint32_t index, uint32_t *ret)
{
	return ms_read_all(w->from, table + (ms_addr)index * sizeof(*ret), ret, sizeof(*ret));
}

/* Whether symbol @index has the name; the symbol then. */
static bool is_called(const struct wanted *w, uint32_t index, Elf64_Sym *ret)
{
	char text[MAX_NAME];
	size_t len = strlen(w->name) + 1;

	return len <= sizeof(text) &&
	       ms_elf_read_symbol(w->from, w->dynamic->symbols, index, w->dynamic->word_bytes,
	                          ret) &&
	       ms_read_all(w->from, w->dynamic->strings + ret->st_name, text, len) &&
	       memcmp(text, w->name, len) == 0;
}

/* The address of symbol @index, when it is the function wanted, or 0. */
static ms_addr function_at(const struct wanted *w, uint32_t index)
{
	Elf64_Sym symbol;
	unsigned char type;

	if (!is_called(w, index, &symbol))
		return 0;
	type = ELF64_ST_TYPE(symbol.st_info);
	if (symbol.st_shndx == SHN_UNDEF || !symbol.st_value ||
	    (type != STT_FUNC && type != STT_NOTYPE) || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL)
		return 0;
	if (w->ret_bytes)
		*w->ret_bytes = symbol.st_size;
	return ms_elf_address(w->dynamic->word_bytes, w->dynamic->bias + symbol.st_value);
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

/* Source: the layout of DT_GNU_HASH as glibc's elf/dl-lookup.c reads it. */
static ms_addr find_by_gnu_hash(const struct wanted *w)
{
	uint32_t hash = gnu_hash_of(w->name);
	struct gnu_hash table;
	ms_addr buckets = w->dynamic->gnu_hash + sizeof(table);
	uint32_t index;
	uint32_t have;

	if (!ms_read_all(w->from, w->dynamic->gnu_hash, &table, sizeof(table)) || !table.n_buckets)
		return 0;
	buckets += (ms_addr)table.n_bloom * w->dynamic->word_bytes;
	if (!number(w, buckets, hash % table.n_buckets, &index) || index < table.first)
		return 0;
	for (int i = 0; i < MAX_CHAIN; i++, index++) {
		ms_addr chains = buckets + (ms_addr)table.n_buckets * sizeof(have);
		ms_addr found;

		if (!number(w, chains, index - table.first, &have))
			return 0;
		found = (have | 1) == (hash | 1) ? function_at(w, index) : 0;
		if (found || have & 1) /* the last of its chain */
			return found;
	}
	return 0;
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 0;

	for (; *name; name++) {
		hash = (hash << 4) + (uint8_t)*name;
		hash ^= (hash & 0xf0000000) >> 24;
		hash &= 0x0fffffff;
	}
	return hash;
}

/* Source: System V ABI, chapter 5, "Hash Table". */
static ms_addr find_by_hash(const struct wanted *w)
{
	struct hash table;
	ms_addr buckets = w->dynamic->hash + sizeof(table);
	ms_addr found = 0;
	uint32_t index;

	if (!ms_read_all(w->from, w->dynamic->hash, &table, sizeof(table)) || !table.n_buckets ||
	    !number(w, buckets, hash_of(w->name) % table.n_buckets, &index))
		return 0;
	buckets += (ms_addr)table.n_buckets * sizeof(index);
	for (int i = 0; i < MAX_CHAIN && !found && index && index < table.n_symbols; i++) {
		found = function_at(w, index);
		if (!found && !number(w, buckets, index, &index))
			return 0;
	}
	return found;
}

static ms_addr find_function(const struct wanted *w)
{
	if (!w->dynamic->symbols || !w->dynamic->strings)
		return 0;
	if (w->dynamic->gnu_hash)
		return find_by_gnu_hash(w);
	return w->dynamic->hash ? find_by_hash(w) : 0;
}

ms_addr ms_dynamic_function(struct ms_reader from, const struct ms_dynamic *dynamic,
                            const char *name)
{
	const struct wanted w = { from, dynamic, name, NULL };

	return find_function(&w);
}

struct ms_range ms_dynamic_code(struct ms_reader from, const struct ms_dynamic *dynamic,
                                const char *name)
{
	uint64_t bytes = 0;
	const struct wanted w = { from, dynamic, name, &bytes };
	ms_addr begin = find_function(&w);

	return (struct ms_range){ begin, begin + bytes >= begin ? begin + bytes : begin };
}

/* How many symbols there are among which those wanted from others are. */
static uint32_t count_imports(const struct wanted *w)
{
	struct gnu_hash gnu = { 0 };
	struct hash table = { 0 };

	if (w->dynamic->gnu_hash)
		(void)ms_read_all(w->from, w->dynamic->gnu_hash, &gnu, sizeof(gnu));
	else if (w->dynamic->hash)
		(void)ms_read_all(w->from, w->dynamic->hash, &table, sizeof(table));
	return gnu.first > table.n_symbols ? gnu.first : table.n_symbols;
}

bool ms_dynamic_imports(struct ms_reader from, const struct ms_dynamic *dynamic, const char *name)
{
	const struct wanted w = { from, dynamic, name, NULL };
	uint32_t n = dynamic->symbols && dynamic->strings ? count_imports(&w) : 0;
	Elf64_Sym symbol;

	for (uint32_t i = 1; i < n && i < MAX_IMPORTS; i++)
		if (is_called(&w, i, &symbol) && symbol.st_shndx == SHN_UNDEF)
			return true;
	return false;
}
