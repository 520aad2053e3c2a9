/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/origins/unloaded.h"

#include <string.h>

#include "base/file.h"
#include "base/page.h"
#include "engine/modules.h"
#include "engine/origins/build_id.h"

/* Where no memory of a process is, and room for as many libraries as there may be. */
static const ms_addr first_free = UINT64_C(1) << 60;
static const uint64_t most_bytes = UINT64_C(1) << 40;
enum { MOST_UNLOADED = 1 << 16 };

static const char deleted[] = " (deleted)";

static bool is_sensible(const struct ms_former *former)
{
	return former->file.begin <= former->code && former->code < former->file.end &&
	       former->file.end < first_free && ms_range_len(former->file) < most_bytes &&
	       former->build_id_len <= MS_BUILD_ID_BYTES;
}

/* ---- whether it is gone ---- */

/* By the name alone: the loader may have come by another path to it. */
static bool has_name_of(const struct ms_mapping *map, const struct ms_former *former)
{
	const char *now = ms_file_name(map->name);
	const char *then = ms_file_name(former->path);
	size_t len = strlen(then);

	return strncmp(now, then, len) == 0 && (!now[len] || strcmp(now + len, deleted) == 0);
}

static bool has_build_id_of(struct ms_source *src, const struct ms_mapping *map,
                            const struct ms_former *former)
{
	struct ms_loaded loaded;

	ms_loaded_read(src, ms_module_first(&src->mappings, map)->range.begin, &loaded);
	return loaded.build_id_len == former->build_id_len &&
	       memcmp(loaded.build_id, former->build_id, former->build_id_len) == 0;
}

/* Programs may copy code to larger pages: then it shows no file, but is the same. */
static bool is_there(struct ms_source *src, const struct ms_former *former)
{
	const struct ms_mapping *map = ms_range_find(&src->mappings, former->code);

	if (!map || !(map->prot & MS_PROT_EXEC))
		return false;
	if (!map->file)
		return !former->end_stack;
	if (map->range.begin - map->offset != former->code - former->code_offset)
		return false;
	return former->build_id_len ? has_build_id_of(src, map, former) : has_name_of(map, former);
}

/* ---- keeping ---- */

static struct ms_code *add_code(struct ms_decoding *d, const struct ms_former *former,
                                uint64_t moved)
{
	struct ms_code *code = ms_vec_push(d->arena, &d->origins->unloaded);

	if (!code)
		return NULL;
	*code = (struct ms_code){ .moved = moved,
		                  .bias = former->file.begin - former->vaddr + moved,
		                  .has_bias = 1,
		                  .prot = MS_PROT_READ,
		                  .build_id_len = former->build_id_len };
	memcpy(code->build_id, former->build_id, sizeof(code->build_id));
	(void)strncpy(code->name, former->path, sizeof(code->name) - 1);
	/* Its file is looked for by path and build-id: without one it is not looked for. */
	code->dev_major = code->dev_minor = UINT32_MAX;
	code->inode = former->build_id_len ? d->origins->formers.n : 0;
	return code;
}

static uint64_t distance_to_free(const struct ms_decoding *d, const struct ms_former *former)
{
	const struct ms_codes *all = &d->origins->unloaded;
	ms_addr at = all->n ? all->at[all->n - 1].range.end : first_free;

	/* A gap, lest code at an end is taken for the next one's. */
	at = ms_align_up(at, MS_LARGEST_PAGE_BYTES) + MS_LARGEST_PAGE_BYTES;
	return at + former->file.begin % MS_LARGEST_PAGE_BYTES - former->file.begin;
}

bool ms_unloaded_add(struct ms_decoding *d, const struct ms_former *former)
{
	struct ms_former_code *kept;
	struct ms_code *code;
	uint64_t moved;
	bool there = is_there(d->src, former);

	if (!is_sensible(former) || d->origins->formers.n == MOST_UNLOADED ||
	    (there && !former->end_stack))
		return true;
	moved = there ? 0 : distance_to_free(d, former);
	kept = ms_vec_push(d->arena, &d->origins->formers);
	if (!kept)
		return false;
	*kept = (struct ms_former_code){
		{ former->code, former->file.end }, former->first_stack, former->end_stack, moved
	};
	if (there)
		return true;
	if (former->file.begin < former->code) {
		code = add_code(d, former, moved);
		if (!code)
			return false;
		code->range = (struct ms_range){ former->file.begin + moved, former->code + moved };
	}
	code = add_code(d, former, moved);
	if (!code)
		return false;
	code->range = (struct ms_range){ former->code + moved, former->file.end + moved };
	code->offset = former->code_offset;
	code->prot |= MS_PROT_EXEC;
	return true;
}

ms_addr ms_unloaded_move(const struct ms_origins *origins, ms_addr pc, uint32_t stack)
{
	const struct ms_former_code *former;

	ms_vec_for_each (former, &origins->formers)
		if (ms_range_has(former->range, pc) && stack >= former->first_stack &&
		    (!former->end_stack || stack < former->end_stack))
			return pc + former->moved;
	return pc;
}
