/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/gap.h"

#include <string.h>
#include <unistd.h>

#include "base/page.h"

static const uint64_t reach = (UINT64_C(1) << 31) - (1 << 20); /* of a jump, with some to spare */
static const ms_addr user_end = UINT64_C(0x7ffffffff000);      /* TASK_SIZE, x86-64 */
static const uint64_t heap_growth = UINT64_C(1) << 30;
static const uint64_t stack_growth = UINT64_C(1) << 28;

enum { APART = 16 * MS_PAGE_BYTES }; /* from neighbours: no mapping becomes one with ours */

uint64_t ms_gap_bytes(void)
{
	return MS_AGENT_TEXT_BYTES + ms_align_up(sizeof(struct ms_agent_data), MS_PAGE_BYTES);
}

/* What of the space between @below and @above (NULL: there is none) may be used. */
static struct ms_range usable(const struct ms_mapping *below, const struct ms_mapping *above,
                              ms_addr least)
{
	struct ms_range gap = { below ? below->range.end : least,
		                above ? above->range.begin : user_end };
	uint64_t under = APART, over = APART;

	if (below && !strcmp(below->name, "[heap]"))
		under = heap_growth;
	if (above && !strcmp(above->name, "[stack]"))
		over = stack_growth;
	if (gap.end <= gap.begin || gap.end - gap.begin < under + over)
		return (struct ms_range){ 0, 0 };
	return (struct ms_range){ gap.begin + under, gap.end - over };
}

static uint64_t distance(ms_addr a, ms_addr b)
{
	return a < b ? b - a : a - b;
}

struct choice {
	struct ms_range text;
	struct ms_range near;
	ms_addr best; /* 0: none yet */
};

/* The end of @gap that is nearer: what is loaded later then has the rest in one piece. */
static void consider(struct choice *choice, struct ms_range gap)
{
	const uint64_t bytes = ms_gap_bytes();
	const struct ms_range text = choice->text;
	ms_addr at;

	gap = ms_range_common(choice->near, gap);
	if (ms_range_len(gap) < bytes)
		return;
	at = gap.begin >= text.end ? ms_align_up(gap.begin, MS_PAGE_BYTES)
	                           : ms_align_down(gap.end - bytes, MS_PAGE_BYTES);
	if (at >= gap.begin && at + bytes <= gap.end &&
	    (!choice->best || distance(at, text.begin) < distance(choice->best, text.begin)))
		choice->best = at;
}

ms_addr ms_gap_find(const struct ms_mappings *maps, struct ms_range text, ms_addr brk,
                    ms_addr least)
{
	const struct ms_range growth = { brk > APART ? brk - APART : 0, brk + heap_growth };
	struct choice choice = {
		.text = text,
		.near = { text.end > reach ? text.end - reach : 0, text.begin + reach },
	};

	for (size_t i = 0; i <= maps->n; i++) {
		const struct ms_range gap = usable(i ? &maps->at[i - 1] : NULL,
		                                   i < maps->n ? &maps->at[i] : NULL, least);

		if (!brk || !ms_range_len(ms_range_common(gap, growth))) {
			consider(&choice, gap);
			continue;
		}
		consider(&choice, (struct ms_range){ gap.begin, growth.begin });
		consider(&choice, (struct ms_range){ growth.end, gap.end });
	}
	return choice.best;
}

ms_addr ms_gap_find_agent(int mem_fd, const struct ms_mappings *maps,
                          struct ms_agent_head *ret_head)
{
	for (size_t i = 0; i + 1 < maps->n; i++) {
		const struct ms_mapping *text = &maps->at[i], *data = text + 1;
		ms_addr at = text->range.end - MS_AGENT_TEXT_BYTES;
		struct ms_agent_head head;

		if (text->prot != (MS_PROT_READ | MS_PROT_EXEC) || text->inode || text->shared ||
		    ms_range_len(text->range) < MS_AGENT_TEXT_BYTES || data->inode ||
		    data->prot != (MS_PROT_READ | MS_PROT_WRITE) ||
		    data->range.begin != text->range.end ||
		    ms_range_len(data->range) < ms_gap_bytes() - MS_AGENT_TEXT_BYTES)
			continue;
		if (pread(mem_fd, &head, sizeof(head), (off_t)at) == sizeof(head) &&
		    !memcmp(head.magic, MS_AGENT_TEXT_MAGIC, sizeof(head.magic))) {
			*ret_head = head;
			return at;
		}
	}
	return 0;
}

bool ms_gap_is_begun(int mem_fd, ms_addr at)
{
	char mark[sizeof(MS_AGENT_BEGUN) - 1];

	return pread(mem_fd, mark, sizeof(mark), (off_t)(at + MS_AGENT_TEXT_BYTES)) ==
	               sizeof(mark) &&
	       !memcmp(mark, MS_AGENT_BEGUN, sizeof(mark));
}

/* Whether the page is in memory or in swap: reading another one may wait for who fills it. */
static bool is_there(int pagemap_fd, ms_addr at)
{
	uint64_t entry;

	return pread(pagemap_fd, &entry, sizeof(entry),
	             (off_t)(at / MS_PAGE_BYTES * sizeof(entry))) == sizeof(entry) &&
	       entry >> 62;
}

/* Whether the text is mapped in front of @data. */
static bool has_text(const struct ms_mapping *before, const struct ms_mapping *data)
{
	return before->range.end == data->range.begin && !before->inode && !before->shared &&
	       before->prot == (MS_PROT_READ | MS_PROT_EXEC) &&
	       ms_range_len(before->range) >= MS_AGENT_TEXT_BYTES;
}

ms_addr ms_gap_find_begun(int mem_fd, int pagemap_fd, const struct ms_mappings *maps)
{
	const uint64_t bytes = ms_gap_bytes();

	for (size_t i = 0; i < maps->n; i++) {
		const struct ms_mapping *map = &maps->at[i];
		ms_addr at = map->range.begin;

		if (map->inode || map->shared || map->prot != (MS_PROT_READ | MS_PROT_WRITE))
			continue;
		/* As it is mapped at first; then the text replaces a part. */
		if (ms_range_len(map->range) >= bytes &&
		    is_there(pagemap_fd, at + MS_AGENT_TEXT_BYTES) && ms_gap_is_begun(mem_fd, at))
			return at;
		at -= MS_AGENT_TEXT_BYTES;
		if (i && has_text(map - 1, map) &&
		    ms_range_len(map->range) >= bytes - MS_AGENT_TEXT_BYTES &&
		    is_there(pagemap_fd, map->range.begin) && ms_gap_is_begun(mem_fd, at))
			return at;
	}
	return 0;
}
