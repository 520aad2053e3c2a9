/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/agent/agent.h"

/* What is in front of the filter. */
enum { HEAD_BYTES = offsetof(struct ms_agent_data, filter) };

/* A mean distance that is longer would find nothing. */
static const uint64_t longest_interval = (uint64_t)1 << 32;

/* The kernel calls what lies where the heap of brk() would begin by that name, whatever it is. */
static bool is_private_memory(const struct ms_mapping *m, int prot)
{
	return !m->file && !m->shared && (!m->name[0] || !strcmp(m->name, "[heap]")) &&
	       m->prot == prot;
}

/* The data itself is aligned as no memory of ours is. */
static bool read_head(struct ms_agent_reading *r, ms_addr at)
{
	struct ms_agent_facts *facts = &r->facts;
	uint8_t head[HEAD_BYTES];

	if (ms_source_read(r->d->src, at, head, HEAD_BYTES) != HEAD_BYTES)
		return false;
#define TAKE(field) \
	memcpy(&facts->field, head + offsetof(struct ms_agent_data, field), sizeof(facts->field))
	TAKE(magic);
	TAKE(interval);
	TAKE(n_dropped);
	TAKE(n_used);
	TAKE(n_modules);
	TAKE(whole);
#undef TAKE
	return true;
}

/*
 * Whether the data begins with @m. Memory that came behind it may have been joined to its
 * mapping. Who takes the agent out, but must leave its memory, clears the first letter.
 */
static bool is_data(struct ms_agent_reading *r, const struct ms_mapping *m)
{
	static const char magic[] = MS_AGENT_MAGIC;

	if (!is_private_memory(m, MS_PROT_READ | MS_PROT_WRITE) ||
	    ms_range_len(m->range) < sizeof(struct ms_agent_data) || !read_head(r, m->range.begin))
		return false;
	r->ended = r->facts.magic[0] == '\0';
	return (r->ended || r->facts.magic[0] == magic[0]) &&
	       memcmp(r->facts.magic + 1, magic + 1, sizeof(magic) - 1) == 0;
}

/* Where the agent's code begins, in front of the data; the data's begin if there is none. */
static ms_addr text_begin(struct ms_agent_reading *r)
{
	const struct ms_mapping *m = ms_range_find(&r->d->src->mappings, r->at - 1);
	char magic[sizeof(MS_AGENT_TEXT_MAGIC) - 1];
	ms_addr begin = r->at - MS_AGENT_TEXT_BYTES;

	if (m && is_private_memory(m, MS_PROT_READ | MS_PROT_EXEC) && m->range.begin <= begin &&
	    ms_source_read(r->d->src, begin, magic, sizeof(magic)) == sizeof(magic) &&
	    memcmp(magic, MS_AGENT_TEXT_MAGIC, sizeof(magic)) == 0)
		return begin;
	return r->at;
}

static bool hand_over_memory(struct ms_agent_reading *r)
{
	ms_addr end = r->at + sizeof(struct ms_agent_data);

	return ms_ranges_add(r->d->arena, &r->d->owned, text_begin(r),
	                     ms_align_up(end, r->d->src->abi.page_bytes));
}

static const char *judge(const struct ms_agent_facts *facts)
{
	if (facts->interval > longest_interval)
		return "its distance between samples makes no sense";
	if (facts->n_modules > MS_AGENT_MODULES)
		return "it has more libraries than it has room for";
	return facts->n_used > MS_AGENT_RECORDS ? "it has more records than it has room for" : NULL;
}

bool ms_agent_find(struct ms_agent_reading *r)
{
	const struct ms_mapping *m;

	r->record = ms_arena_alloc(r->d->arena, sizeof(*r->record));
	if (!r->record)
		return false;
	ms_vec_for_each (m, &r->d->src->mappings) {
		if (!is_data(r, m))
			continue;
		r->at = m->range.begin;
		r->problem = judge(&r->facts);
		return hand_over_memory(r);
	}
	return true;
}
