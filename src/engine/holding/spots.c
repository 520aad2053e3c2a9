/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/elf/object.h"
#include "engine/holding/why.h"
#include "engine/loaded/tls.h"

/* ---- beside the thread pointer ---- */

/*
 * The next program or library from region *@i on, which is moved behind its first; false
 * when there is none.
 */
static bool next_module(const struct ms_regions *regions, size_t *i, ms_addr *ret)
{
	for (; *i < regions->n; ++*i) {
		const struct ms_region *region = &regions->at[*i];

		if (region->kind != MS_REGION_GLOBALS ||
		    ms_module_begin(regions, region->module) != region->range.begin)
			continue;
		*ret = region->range.begin;
		++*i;
		return true;
	}
	return false;
}

/* What the thread-local variables of all modules need together, at most. */
uint64_t ms_subject_tls_bytes(const struct ms_why *why)
{
	const struct ms_source *src = why->decoding->src;
	const struct ms_reader from = ms_source_reader(why->decoding->src);
	struct ms_object object;
	uint64_t bytes = 0;
	ms_addr begin;

	for (size_t i = 0; next_module(why->roots->regions, &i, &begin);)
		if (ms_object_read(from, begin, src->abi.page_bytes, &object))
			bytes += ms_align_up(object.tls_bytes, object.tls_align) + object.tls_align;
	return bytes;
}

/* Whether the module that begins at @begin has its variables @distance below the pointer. */
static bool has_variable(struct ms_peek *peek, ms_addr begin, int64_t distance)
{
	const struct ms_reader from = ms_peek_reader(peek);
	struct ms_object object;
	struct ms_tls tls;

	if (!ms_object_read(from, begin, peek->src->abi.page_bytes, &object) || !object.tls_bytes)
		return false;
	/* The program's own are the nearest. */
	if (!peek->src->abi.tls_above && ms_object_is_program(from, &object))
		return distance <= (int64_t)ms_align_up(object.tls_bytes, object.tls_align);
	return ms_tls_find(peek, begin, &tls) && distance <= tls.far && distance > tls.near;
}

/* A variable of a thread may lie beside its thread pointer, where its stack's top is. */
static void name_variable(struct ms_why *why, struct ms_spot *spot)
{
	const struct ms_source *src = why->decoding->src;
	const struct ms_thread *thread = ms_source_thread(src, spot->tid);
	int64_t distance = thread ? (int64_t)(thread->tp - spot->at) : 0;
	uint64_t away = (uint64_t)(distance < 0 ? -distance : distance);
	ms_addr begin;

	if (!distance || !spot->at || (distance < 0) != src->abi.tls_above ||
	    away > ms_subject_tls_bytes(why))
		return;
	spot->kind = MS_ROOT_TLS;
	spot->offset = -distance;
	for (size_t i = 0; next_module(why->roots->regions, &i, &begin);) {
		const struct ms_mapping *mapping = ms_range_find(&src->mappings, begin);

		if (!has_variable(&why->peek, begin, distance) || !mapping)
			continue;
		(void)strncpy(spot->name, mapping->name, sizeof(spot->name) - 1);
		return;
	}
}

/*
 * Where storage lies above, the main thread's may begin in the last page of the loader's own data,
 * from which the loader took it, and be named as that.
 */
static bool name_loaders(struct ms_why *why, struct ms_spot *spot)
{
	const struct ms_source *src = why->decoding->src;
	const uint64_t bytes = src->abi.tls_above ? ms_subject_tls_bytes(why) : 0;
	const struct ms_thread *t;

	ms_vec_for_each (t, &src->threads) {
		if (!t->tp || spot->at < t->tp || spot->at - t->tp >= bytes)
			continue;
		spot->tid = t->tid;
		name_variable(why, spot);
		return spot->kind == MS_ROOT_TLS;
	}
	return false;
}

/* ---- on the way ---- */

static void name_transit(const struct ms_why *why, struct ms_spot *spot)
{
	static const char *const names[] = { [MS_TRANSIT_PIPE] = "pipe",
		                             [MS_TRANSIT_SOCKET] = "socket",
		                             [MS_TRANSIT_QUEUE] = "message queue" };
	const struct ms_transit_word *word = &why->roots->src->transit.at[spot->offset];

	static_assert(sizeof(names) / sizeof(names[0]) == MS_TRANSIT_PLACES, "a name for each");
	(void)strncpy(spot->name, names[word->place], sizeof(spot->name) - 1);
	spot->offset = word->number;
}

/* ---- any root ---- */

uint32_t ms_subject_address(struct ms_why *why, ms_addr at)
{
	struct ms_pcs *pcs = &why->report->pcs;
	ms_addr *slot;

	for (size_t i = 0; i < pcs->n; i++)
		if (pcs->at[i] == at)
			return (uint32_t)i + 1;
	slot = ms_vec_push(why->decoding->arena, pcs);
	if (slot)
		*slot = at;
	return slot ? (uint32_t)pcs->n : 0;
}

struct ms_spot ms_subject_spot(struct ms_why *why, const struct ms_root_name *name)
{
	struct ms_spot spot = { .at = name->at,
		                .offset = name->offset,
		                .tid = name->tid,
		                .kind = (uint8_t)name->kind };

	if (name->kind == MS_ROOT_GLOBALS && name_loaders(why, &spot))
		return spot;
	if (name->kind == MS_ROOT_GLOBALS)
		spot.pc = ms_subject_address(why, name->at);
	switch (name->kind) {
	case MS_ROOT_GLOBALS:
	case MS_ROOT_BREAK:
	case MS_ROOT_UNPROVED:
		(void)strncpy(spot.name, why->roots->src->mappings.at[name->mapping].name,
		              sizeof(spot.name) - 1);
		break;
	case MS_ROOT_STACK:
		name_variable(why, &spot);
		break;
	case MS_ROOT_TRANSIT:
		name_transit(why, &spot);
		break;
	case MS_ROOT_TLS:
	case MS_ROOT_REGISTER:
	case MS_ROOT_KERNEL:
	case MS_ROOT_KINDS:
		break;
	}
	return spot;
}
