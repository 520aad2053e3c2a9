/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/served.h"

#include <string.h>

#include "base/elf/object.h"
#include "base/file.h"
#include "engine/loaded/links.h"
#include "engine/loaded/rivals.h"

enum {
	PIECE_WORDS = 1 << 12,
	MOST_DEFINERS = 16,
	FUNCTIONS = 2, /* by whose addresses a definer is known */
};

/* No more of a module's data is searched for addresses. */
static const uint64_t MOST_DATA = UINT64_C(64) << 20;

/* An object that defines malloc. */
struct definer {
	struct ms_dynamic dynamic;
	const struct ms_region *region; /* its dynamic section's */
	ms_addr functions[FUNCTIONS];
	bool own;
};

struct serving {
	struct ms_decoding *d;
	struct ms_peek *peek;
	const uint32_t *own;
	size_t n_own;
	struct ms_links links;
	struct definer definers[MOST_DEFINERS]; /* in the order of the loader's list */
	size_t n;
};

static const char *file_of(const struct serving *s, const struct definer *definer)
{
	return ms_file_name(ms_region_mapping(s->d->src, definer->region)->name);
}

static bool is_own(const struct serving *s, const struct ms_region *region)
{
	for (size_t i = 0; i < s->n_own; i++)
		if (s->own[i] == region->module)
			return true;
	return false;
}

/* Objects behind one of ours are never reached. */
static void find_definers(struct serving *s)
{
	const struct ms_reader from = ms_peek_reader(s->peek);
	const struct ms_link *link;

	ms_vec_for_each (link, &s->links) {
		struct definer *definer = &s->definers[s->n];
		struct ms_dynamic dynamic = ms_dynamic_read_at(from, link->dynamic, link->bias,
		                                               s->d->src->abi.word_bytes);

		*definer = (struct definer){
			.dynamic = dynamic,
			.region = ms_region_of(s->d->regions, link->dynamic),
			.functions = { ms_dynamic_function(from, &dynamic, "malloc"),
			               ms_dynamic_function(from, &dynamic, "calloc") },
		};
		if (!definer->functions[0] || !definer->region ||
		    definer->region->kind != MS_REGION_GLOBALS)
			continue;
		definer->own = is_own(s, definer->region);
		s->n++;
		if (definer->own || s->n == MOST_DEFINERS)
			return;
	}
}

/* The first definer behind @from that one of the @n words is a function of; s->n: none. */
static size_t definer_named(const struct serving *s, size_t from, const uint64_t *words, size_t n)
{
	for (size_t k = from + 1; k < s->n; k++)
		for (size_t i = 0; i < n; i++)
			for (size_t f = 0; f < FUNCTIONS; f++)
				if (words[i] && words[i] == s->definers[k].functions[f])
					return k;
	return s->n;
}

/* The same of all words of @range; adds up the bytes that are there. */
static size_t search(const struct serving *s, size_t from, struct ms_range range, uint64_t *bytes)
{
	const uint8_t word = s->d->src->abi.word_bytes;
	const size_t most = PIECE_WORDS * (size_t)word;
	uint64_t words[PIECE_WORDS];
	struct ms_range run;
	size_t best = s->n;

	while (*bytes < MOST_DATA && ms_source_present(s->d->src, range, &run)) {
		uint64_t left = ms_range_len(run);
		size_t piece = left < most ? (size_t)left : most;
		size_t n = ms_source_words(s->d->src, run.begin, words, piece / word);
		size_t found = definer_named(s, from, words, n);

		best = found < best ? found : best;
		*bytes += piece;
		range.begin = run.begin + piece;
	}
	return best;
}

/*
 * Whom definer @from passes calls on to: the first one behind it in the list whose
 * address is in its data; s->n when there is none. Adds up the bytes of its data.
 */
static size_t next_of(const struct serving *s, size_t from, uint64_t *bytes)
{
	uint32_t module = s->definers[from].region->module;
	const struct ms_region *region;
	size_t best = s->n;

	ms_vec_for_each (region, s->d->regions) {
		uint8_t prot = ms_region_mapping(s->d->src, region)->prot;
		size_t found;

		if (region->kind != MS_REGION_GLOBALS || region->module != module ||
		    (prot & MS_PROT_EXEC))
			continue;
		found = search(s, from, region->range, bytes);
		best = found < best ? found : best;
	}
	return best;
}

bool ms_served_may_pass_on(struct ms_reader from, const struct ms_dynamic *dynamic)
{
	static const char *const ways[] = { "dlsym", "dlvsym", "__libc_malloc" };

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (ms_dynamic_imports(from, dynamic, ways[i]))
			return true;
	return false;
}

enum ms_status ms_served_by(struct ms_decoding *d, struct ms_peek *peek, const uint32_t *own,
                            size_t n_own)
{
	struct serving s = { .d = d, .peek = peek, .own = own, .n_own = n_own };
	struct ms_rival *rival = &d->rival;
	size_t at = 0;

	if (!ms_links_read(peek, d->regions, d->arena, &s.links))
		return MS_E_NOMEM;
	find_definers(&s);
	while (at < s.n && !s.definers[at].own) {
		uint64_t bytes = 0;
		size_t next = next_of(&s, at, &bytes);
		const struct definer *definer = &s.definers[at];

		/* Whatever addresses it keeps. */
		bool is_rival = ms_rival_is_file(file_of(&s, definer));

		if (next < s.n && !is_rival) {
			at = next;
			continue;
		}
		(void)strncpy(rival->name, file_of(&s, definer), sizeof(rival->name) - 1);
		ms_rival_in(d, definer->region->module, rival->what);
		rival->bytes = bytes;
		rival->serves = true;
		rival->may_pass_on =
			!is_rival && ms_served_may_pass_on(ms_peek_reader(peek), &definer->dynamic);
		return MS_OK;
	}
	ms_rival_find(d, own, n_own);
	return MS_OK;
}
