/* SPDX-License-Identifier: Apache-2.0 */

/* Places of a drawn heap by their names, and damage done there. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/glibc/layout.h"
#include "ptplaces.h"

/* Fields of a thing, by offset; those with a number come @step bytes apart. */
struct field {
	const char *name;
	uint64_t offset;
	uint64_t step;
};

static ms_addr offset_of(const struct field *fields, const char *name)
{
	size_t len = strcspn(name, "0123456789");
	uint64_t n = strtoull(name + len, NULL, 10);

	for (; fields->name; fields++)
		if (strlen(fields->name) == len && !strncmp(fields->name, name, len))
			return fields->offset + n * fields->step;
	ptheap_refuse(name, "field of that thing");
}

static ms_addr field_of_chunk(const struct ptheap *h, const struct ptheap_chunk *chunk,
                              const char *field)
{
	const uint64_t word = ptheap_shape(h)->word;
	const struct field fields[] = { { "prev", 0, 0 },
		                        { "size", word, 0 },
		                        { "mem", 2 * word, 0 },
		                        { "fd", 2 * word, 0 },
		                        { "bk", 3 * word, 0 },
		                        { "foot", chunk->size, 0 },
		                        { "next_size", chunk->size + word, 0 },
		                        { NULL, 0, 0 } };

	return chunk->addr + offset_of(fields, field);
}

static ms_addr field_of_arena(const struct ptheap_libc *libc, const char *field)
{
	const struct ms_pt_shape *shape = ms_pt_shape_of(libc->version->word);
	const struct ms_arena_layout *layout = &shape->arenas[libc->version->arena];
	const uint64_t word = shape->word;
	const struct field fields[] = { { "flags", layout->flags, 0 },
		                        { "top", layout->top, 0 },
		                        { "next", layout->next, 0 },
		                        { "attached", layout->attached, 0 },
		                        { "system_mem", layout->system_mem, 0 },
		                        { "fast", layout->fastbins, word },
		                        { "bin", layout->bins - 2 * word, 2 * word },
		                        { "fd", layout->bins, 2 * word },
		                        { "bk", layout->bins + word, 2 * word },
		                        { NULL, 0, 0 } };

	return offset_of(fields, field);
}

static ms_addr field_of_par(const struct ptheap_libc *libc, const char *field)
{
	const struct ms_pt_shape *shape = ms_pt_shape_of(libc->version->word);
	const struct ms_par_layout *layout = &shape->pars[libc->version->par];
	const struct field fields[] = { { "trim", 0, 0 },
		                        { "hp_pagesize", layout->hp_pagesize, 0 },
		                        { "n_mmaps", layout->n_mmaps, 0 },
		                        { "max_n_mmaps", layout->n_mmaps + 8u, 0 },
		                        { "mmapped_mem", layout->mmapped_mem, 0 },
		                        { "max_mmapped_mem", layout->mmapped_mem + shape->word, 0 },
		                        { "sbrk_base", layout->sbrk_base, 0 },
		                        { "tcache_count", layout->tcache_bins + shape->header, 0 },
		                        { NULL, 0, 0 } };

	return offset_of(fields, field);
}

static ms_addr field_of_heap(const struct ptheap *h, const char *field)
{
	const uint64_t word = ptheap_shape(h)->word;
	const struct field fields[] = { { "ar_ptr", 0, 0 },
		                        { "prev_heap", word, 0 },
		                        { "heap_size", 2 * word, 0 },
		                        { "mprotect_size", 3 * word, 0 },
		                        { NULL, 0, 0 } };

	return offset_of(fields, field);
}

static ms_addr field_of_cache(const struct ptheap_libc *libc, const char *field)
{
	const struct ms_pt_shape *shape = ms_pt_shape_of(libc->version->word);
	const struct ms_tcache_layout *layout = &shape->tcaches[libc->version->tcache];
	const struct field fields[] = { { "count", 0, layout->count_bytes },
		                        { "entry", layout->entries, shape->word },
		                        { NULL, 0, 0 } };

	return offset_of(fields, field);
}

/* The @n-th cache that was drawn. */
static ms_addr cache_at(const struct ptheap *h, uint64_t n)
{
	for (size_t i = 0; i < h->n_chunks; i++)
		if (h->chunks[i].kind == 'T' && !n--)
			return ptheap_mem(h, &h->chunks[i]);
	ptheap_refuse("cache", "cache of that number");
}

ms_addr ptheap_place(const struct ptheap *h, const char *name)
{
	char thing[16];
	const char *dot = strchr(name, '.');
	const char *field = dot ? dot + 1 : NULL;
	size_t len = strcspn(name, "0123456789.");
	uint64_t n = strtoull(name + len, NULL, 10);

	(void)snprintf(thing, sizeof(thing), "%.*s", (int)len, name);
	if (!strcmp(thing, "chunk"))
		return field ? field_of_chunk(h, &h->chunks[n], field) : h->chunks[n].addr;
	if (!strcmp(thing, "main"))
		return h->libcs[n].arena + (field ? field_of_arena(&h->libcs[n], field) : 0);
	if (!strcmp(thing, "arena"))
		return h->arenas[n] + (field ? field_of_arena(&h->libcs[0], field) : 0);
	if (!strcmp(thing, "par"))
		return h->libcs[n].par + (field ? field_of_par(&h->libcs[n], field) : 0);
	if (!strcmp(thing, "heap"))
		return h->heaps[n] + (field ? field_of_heap(h, field) : 0);
	if (!strcmp(thing, "cache"))
		return cache_at(h, n) + (field ? field_of_cache(&h->libcs[0], field) : 0);
	if (!strcmp(thing, "tls"))
		return ptheap_tls_slot(h, h->fake.base.threads.at[n].tp, 0);
	ptheap_refuse(name, "place");
}

static uint64_t changed(const struct ptheap *h, ms_addr place, const char *operator, uint64_t value)
{
	uint64_t old = ptheap_word(h, place);

	switch (*operator) {
	case '=':
		return value;
	case '+':
		return old + value;
	case '|':
		return old | value;
	case '^':
		return old ^ value;
	case '-':
		return operator[1] == '>' ? ptheap_link_at(h->libcs[0].version, place, value)
		                          : old - value;
	}
	ptheap_refuse(operator, "operator");
}

void ptheap_break(struct ptheap *h, const char *damage)
{
	while (*damage) {
		char name[32];
		char operator[3];
		char text[32];
		uint64_t value;
		int len = 0;
		int n = sscanf(damage, " %31s %2s %31[^, ]%n", name, operator, text, &len);
		ms_addr place;

		if (n != 3)
			ptheap_refuse(damage, "damage");
		place = ptheap_place(h, name);
		value = strchr("-0123456789", *text) ? (uint64_t)strtoll(text, NULL, 0)
		                                     : ptheap_place(h, text);
		ms_fake_put(&h->fake, place, changed(h, place, operator, value));
		damage += len;
		damage += strspn(damage, ", ");
	}
}
