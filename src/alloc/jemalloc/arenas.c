/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/jemalloc/jemalloc.h"

/*
 * A module's data has a table of pointers to arenas by their numbers. An arena names its
 * base, of which it was made: the base knows the arena's number, and the list of blocks
 * of metadata in which both of them lie. So much agrees in no other memory, nor in that
 * of a jemalloc whose members stand elsewhere; the layout that finds most arenas is the
 * one.
 */

enum { ALIGNMENT = 64, MOST_BLOCKS = 1024, MOST_TABLES = 64 };

/* The blocks of @base, of which one has @arena and one itself. False when they are none. */
static bool base_blocks(const struct ms_jemalloc *je, const struct ms_je_layout *layout,
                        ms_addr base, ms_addr arena, struct ms_ranges *add)
{
	ms_addr block = ms_je_word_or_0(je, base + layout->base_blocks);
	bool has_arena = false;
	bool has_base = false;

	for (uint32_t n = 0; block; n++) {
		struct ms_range range = { block, block };
		uint64_t head[2];

		if (n == MOST_BLOCKS || block % MS_JE_PAGE ||
		    ms_peek_read(je->peek, block, head, sizeof(head)) != sizeof(head) || !head[0] ||
		    head[0] % MS_JE_PAGE || head[0] >> 47)
			return false;
		range.end = block + head[0];
		if (!ms_je_is_writable(je, block) || !ms_je_is_writable(je, range.end - 1))
			return false;
		has_arena |= ms_range_has(range, arena);
		has_base |= ms_range_has(range, base);
		if (add && !ms_ranges_add(je->d->arena, add, range.begin, range.end))
			return false;
		block = head[1];
	}
	return has_arena && has_base;
}

static uint32_t int_at(const struct ms_jemalloc *je, ms_addr addr)
{
	uint32_t value;

	return ms_peek_read(je->peek, addr, &value, sizeof(value)) == sizeof(value) ? value
	                                                                            : UINT32_MAX;
}

/* The number of the arena at @arena; UINT32_MAX: it is none. */
static uint32_t arena_number(const struct ms_jemalloc *je, const struct ms_je_layout *layout,
                             ms_addr arena)
{
	ms_addr base;
	uint32_t ind;

	if (!arena || arena % ALIGNMENT || arena >> 47 || !ms_je_is_writable(je, arena))
		return UINT32_MAX;
	base = ms_je_word_or_0(je, arena + layout->arena_base);
	if (!base || base % ALIGNMENT || base >> 47)
		return UINT32_MAX;
	ind = int_at(je, base);
	if (ind >= MS_JE_ARENAS ||
	    (layout->arena_ind && int_at(je, arena + layout->arena_ind) != ind) ||
	    !base_blocks(je, layout, base, arena, NULL))
		return UINT32_MAX;
	return ind;
}

/* Read the table at @table as far as it is in the data: so many words. */
static uint32_t read_table(const struct ms_jemalloc *je, const struct ms_je_copy *copy,
                           ms_addr table)
{
	uint64_t n = (copy->data.end - table) / MS_JE_WORD;

	if (n > MS_JE_ARENAS)
		n = MS_JE_ARENAS;
	ms_source_fill(je->d->src, table, (uint8_t *)je->table, n * MS_JE_WORD);
	return (uint32_t)n;
}

/* How many arenas the table at @table has. */
static uint32_t count_arenas(const struct ms_jemalloc *je, const struct ms_je_copy *copy,
                             const struct ms_je_layout *layout, ms_addr table)
{
	uint32_t n_words = read_table(je, copy, table);
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_words; i++)
		n += je->table[i] && arena_number(je, layout, je->table[i]) == i;
	return n;
}

/* ---- the table ---- */

/* Where the table of a layout's arenas is. */
struct table {
	const struct ms_je_layout *layout;
	ms_addr addr;
	uint32_t n;     /* arenas; 0: it was not found */
	uint32_t tried; /* hostile bytes could have many */
};

static void try_arena(const struct ms_jemalloc *je, const struct ms_je_copy *copy, ms_addr at,
                      uint64_t word, struct table *best)
{
	for (size_t i = 0; i < ms_je_n_layouts; i++) {
		const struct ms_je_layout *layout = &ms_je_layouts[i];
		uint32_t ind;
		ms_addr table;
		uint32_t n;

		if (layout->bits != copy->bits)
			continue;
		ind = arena_number(je, layout, word);
		if (ind == UINT32_MAX || at - copy->data.begin < ind * (uint64_t)MS_JE_WORD)
			continue;
		table = at - ind * (uint64_t)MS_JE_WORD;
		if ((best->n && best->addr == table) || best->tried == MOST_TABLES)
			continue;
		best->tried++;
		n = count_arenas(je, copy, layout, table);
		if (n > best->n)
			*best = (struct table){ layout, table, n, best->tried };
	}
}

/* What bin_infos begins with: classes, each with slab size, regions and number of bins. */
static void try_bins(const struct ms_jemalloc *je, struct ms_je_copy *copy, ms_addr at)
{
	enum { INFO_WORDS = 5 };
	uint64_t words[MS_JE_BINS][INFO_WORDS];

	if (ms_peek_read(je->peek, at, words, sizeof(words)) != sizeof(words))
		return;
	for (uint32_t i = 0; i < MS_JE_BINS; i++)
		if (words[i][0] != ms_je_class_bytes(i) || !words[i][1] ||
		    words[i][1] % MS_JE_PAGE ||
		    words[i][1] / words[i][0] != (uint32_t)words[i][2] || !(words[i][2] >> 32) ||
		    words[i][2] >> 32 > 64)
			return;
	for (uint32_t i = 0; i < MS_JE_BINS; i++)
		copy->n_shards[i] = (uint32_t)(words[i][2] >> 32);
}

static void search_piece(const struct ms_jemalloc *je, struct ms_je_copy *copy,
                         struct ms_range piece, struct table *best)
{
	uint64_t *words = je->words;
	size_t n = ms_source_words(je->d->src, piece.begin, words,
	                           (size_t)ms_range_len(piece) / MS_JE_WORD);

	for (size_t i = 0; i < n; i++) {
		ms_addr at = ms_je_nth(piece.begin, i);

		if (words[i] == ms_je_class_bytes(0))
			try_bins(je, copy, at);
		else if (words[i] > MS_JE_PAGE && words[i] % ALIGNMENT == 0)
			try_arena(je, copy, at, words[i], best);
	}
}

static void find_table(const struct ms_jemalloc *je, struct ms_je_copy *copy, struct table *ret)
{
	struct ms_range rest = copy->data;
	struct ms_range run;

	for (; ms_source_present(je->d->src, rest, &run); rest.begin = run.end) {
		run.begin = ms_align_up(run.begin, MS_JE_WORD);
		if (run.end <= run.begin)
			continue;
		if (ms_range_len(run) > MS_JE_PIECE_BYTES)
			run.end = run.begin + MS_JE_PIECE_BYTES;
		search_piece(je, copy, run, ret);
	}
}

/* ---- arenas ---- */

/* The program's own functions can have the only pointer to what they need. */
static bool has_hooks_in_heap(const struct ms_jemalloc *je, const struct ms_je_layout *layout,
                              ms_addr base)
{
	for (size_t i = 0; i < 2 && layout->base_hooks[i]; i++) {
		const struct ms_region *region = ms_region_of(
			je->d->regions, ms_je_word_or_0(je, base + layout->base_hooks[i]));

		if (region && region->kind != MS_REGION_GLOBALS)
			return true;
	}
	return false;
}

static enum ms_status add_arena(struct ms_jemalloc *je, struct ms_je_copy *copy, ms_addr addr,
                                uint32_t ind)
{
	const struct ms_je_layout *layout = copy->layout;
	struct ms_je_arena *arena = ms_vec_push(je->d->arena, &copy->arenas);

	if (!arena)
		return MS_E_NOMEM;
	arena->addr = addr;
	arena->ind = ind;
	arena->base = ms_je_word_or_0(je, addr + layout->arena_base);
	arena->group = ms_blocks_new_group(je->d->blocks);
	copy->by_ind[ind] = (uint16_t)copy->arenas.n;
	if (!base_blocks(je, layout, arena->base, addr, &copy->metadata))
		return MS_E_NOMEM;
	if (has_hooks_in_heap(je, layout, arena->base))
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "arena %u has the program's own extent hooks, which are in a heap",
		               ind);
	return MS_OK;
}

/* Leaves and descriptions must be metadata. */
static void check_metadata(struct ms_je_copy *copy)
{
	const struct ms_je_extent *e;

	ms_vec_for_each (e, &copy->extents)
		if (!ms_range_find(&copy->metadata, e->edata)) {
			ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
			               "what describes the extent at 0x%llx is not in an arena's "
			               "metadata",
			               (unsigned long long)e->range.begin);
			return;
		}
}

enum ms_status ms_je_read_arenas(struct ms_jemalloc *je, struct ms_je_copy *copy)
{
	struct table table = { 0 };
	uint32_t n_words;

	for (uint32_t i = 0; i < MS_JE_BINS; i++)
		copy->n_shards[i] = 1;
	copy->group = ms_blocks_new_group(je->d->blocks);
	copy->by_ind = ms_arena_alloc(je->d->arena, MS_JE_ARENAS * sizeof(*copy->by_ind));
	if (!copy->by_ind)
		return MS_E_NOMEM;
	find_table(je, copy, &table);
	if (!table.n) {
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "its arenas are laid out as in no version that memscan knows");
		return MS_OK;
	}
	copy->layout = table.layout;
	copy->table = table.addr;
	n_words = read_table(je, copy, table.addr);
	for (uint32_t i = 0; i < n_words; i++) {
		uint64_t word = je->table[i];
		enum ms_status st;

		if (!word || arena_number(je, copy->layout, word) != i)
			continue;
		st = add_arena(je, copy, word, i);
		if (st)
			return st;
	}
	if (!ms_ranges_tidy(je->d->arena, &copy->metadata))
		return MS_E_NOMEM;
	check_metadata(copy);
	return MS_OK;
}

/* ---- counters ---- */

/* What the bins of class @index in @arena count, together. False: they contradict themselves. */
struct counted {
	uint64_t given; /* regions, ever */
	uint64_t slabs;
	uint64_t regions;
	bool held; /* a thread is at work on one of them */
	bool agrees;
};

static ms_addr first_bin(const struct ms_jemalloc *je, const struct ms_je_copy *copy,
                         const struct ms_je_arena *arena, uint32_t index)
{
	ms_addr bins = arena->addr + copy->layout->arena_bins;

	if (copy->layout->bins_are_pointers)
		return ms_je_word_or_0(je, ms_je_nth(bins, index));
	for (uint32_t i = 0; i < index; i++)
		bins += (uint64_t)copy->n_shards[i] * copy->layout->bin_bytes;
	return bins;
}

static bool is_held(const struct ms_jemalloc *je, const struct ms_je_layout *layout, ms_addr lock)
{
	return ms_je_word_or_0(je, lock + layout->lock_held) & 0xff;
}

static struct counted count_bins(const struct ms_jemalloc *je, const struct ms_je_copy *copy,
                                 const struct ms_je_arena *arena, uint32_t index)
{
	const struct ms_je_layout *layout = copy->layout;
	ms_addr bin = first_bin(je, copy, arena, index);
	struct counted c = { .agrees = true };

	for (uint32_t i = 0; i < copy->n_shards[index]; i++, bin += layout->bin_bytes) {
		ms_addr stats = bin + layout->bin_stats;
		uint64_t now = ms_je_word_or_0(je, stats + MS_JE_BIN_CURREGS);
		uint64_t given = ms_je_word_or_0(je, stats + MS_JE_BIN_NMALLOC);

		c.given += given;
		c.held |= is_held(je, layout, bin);
		c.regions += now;
		c.slabs += ms_je_word_or_0(je, stats + MS_JE_BIN_CURSLABS);
		c.agrees &= given - ms_je_word_or_0(je, stats + MS_JE_BIN_NDALLOC) == now;
	}
	return c;
}

static void check_bins(struct ms_jemalloc *je, struct ms_je_copy *copy, struct ms_je_arena *arena)
{
	for (uint32_t i = 0; i < MS_JE_BINS && !arena->proof.doubt; i++) {
		struct counted c = count_bins(je, copy, arena, i);

		if (c.held)
			ms_proof_doubt(&arena->proof, MS_DOUBT_CHANGES,
			               "a thread has locked the bin of %llu bytes",
			               (unsigned long long)ms_je_class_bytes(i));
		else if (!copy->counts)
			continue;
		else if (!c.agrees || c.slabs != arena->tally.slabs[i] ||
		         c.regions != arena->tally.regions[i])
			ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
			               "%llu regions of %llu bytes, the bin counts %llu",
			               (unsigned long long)arena->tally.regions[i],
			               (unsigned long long)ms_je_class_bytes(i),
			               (unsigned long long)c.regions);
	}
}

/* How many blocks of large class MS_JE_BINS + @i were given, and given back, ever. */
static void read_large(const struct ms_jemalloc *je, const struct ms_je_copy *copy,
                       const struct ms_je_arena *arena, uint32_t i, uint64_t ret[2])
{
	const struct ms_je_layout *layout = copy->layout;

	ret[0] = ret[1] = 0;
	(void)ms_peek_read(je->peek,
	                   arena->addr + layout->arena_large_stats +
	                           (uint64_t)i * layout->large_stats_bytes,
	                   ret, 2 * sizeof(*ret));
}

bool ms_je_counts(const struct ms_jemalloc *je, const struct ms_je_copy *copy)
{
	const struct ms_je_arena *arena;
	uint64_t large[2];

	ms_vec_for_each (arena, &copy->arenas) {
		for (uint32_t i = 0; i < MS_JE_BINS; i++)
			if (count_bins(je, copy, arena, i).given)
				return true;
		for (uint32_t i = 0; i < MS_JE_CLASSES - MS_JE_BINS; i++) {
			read_large(je, copy, arena, i, large);
			if (large[0])
				return true;
		}
	}
	return false;
}

static void check_large(struct ms_jemalloc *je, struct ms_je_copy *copy, struct ms_je_arena *arena)
{
	for (uint32_t i = 0; i < MS_JE_CLASSES - MS_JE_BINS && copy->counts && !arena->proof.doubt;
	     i++) {
		uint64_t counts[2];

		read_large(je, copy, arena, i, counts);
		if (counts[0] - counts[1] != arena->tally.large[i])
			ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
			               "%llu blocks of %llu bytes, the arena counts %llu",
			               (unsigned long long)arena->tally.large[i],
			               (unsigned long long)ms_je_class_bytes(MS_JE_BINS + i),
			               (unsigned long long)(counts[0] - counts[1]));
	}
}

static void check_locks(struct ms_jemalloc *je, struct ms_je_copy *copy, struct ms_je_arena *arena)
{
	const struct ms_je_layout *layout = copy->layout;
	bool held = is_held(je, layout, arena->base + layout->base_lock);

	for (size_t i = 0; i < MS_JE_LOCKS && layout->arena_locks[i]; i++)
		held |= is_held(je, layout, arena->addr + layout->arena_locks[i]);
	if (held)
		ms_proof_doubt(&arena->proof, MS_DOUBT_CHANGES, "a thread has locked part of it");
}

void ms_je_check_arenas(struct ms_jemalloc *je, struct ms_je_copy *copy)
{
	struct ms_je_arena *arena;

	ms_vec_for_each (arena, &copy->arenas) {
		uint64_t pages = ms_je_word_or_0(je, arena->addr + copy->layout->arena_nactive);
		uint64_t internal = ms_je_word_or_0(je, arena->addr + copy->layout->arena_internal);

		check_locks(je, copy, arena);
		if (pages != arena->tally.pages)
			ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
			               "%llu pages in use, the arena counts %llu",
			               (unsigned long long)arena->tally.pages,
			               (unsigned long long)pages);
		if (copy->counts && internal != arena->tally.internal_bytes)
			ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
			               "%llu bytes of jemalloc's own, the arena counts %llu",
			               (unsigned long long)arena->tally.internal_bytes,
			               (unsigned long long)internal);
		check_bins(je, copy, arena);
		check_large(je, copy, arena);
	}
}
