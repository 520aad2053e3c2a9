/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "alloc/registry/registry.h"
#include "engine/origins/unloaded.h"

static const char *read_path(struct ms_registry *r, const struct malloc_debug_module *module)
{
	char path[MS_PATH_TEXT];

	if (module->path_len >= sizeof(path) ||
	    ms_peek_read(&r->peek, module->path, path, module->path_len) != module->path_len)
		return NULL;
	path[module->path_len] = '\0';
	return ms_arena_strndup(r->d->arena, path, sizeof(path));
}

/* What makes no sense leads nowhere: its stacks stay as they are. */
static bool take(struct ms_registry *r, const struct malloc_debug_module *module)
{
	ms_addr begin = ~module->inverted;
	struct ms_former former = {
		.file = { begin, begin + module->code_at + module->code_bytes },
		.vaddr = module->vaddr,
		.code = begin + module->code_at,
		.code_offset = module->code_offset,
		.first_stack = module->first_stack,
		.end_stack = module->end_stack,
		.path = read_path(r, module),
	};

	static_assert((int)MALLOC_DEBUG_BUILD_ID == (int)MS_BUILD_ID_BYTES, "as the report has it");
	if (!former.path || module->build_id_len > sizeof(former.build_id))
		return true;
	former.build_id_len = (uint8_t)module->build_id_len;
	memcpy(former.build_id, module->build_id, sizeof(former.build_id));
	return ms_unloaded_add(r->d, &former);
}

bool ms_registry_read_modules(struct ms_registry *r)
{
	const struct malloc_debug_list *list = &r->told.modules;
	struct malloc_debug_module module;

	for (uint64_t i = 0; i < list->n; i++) {
		ms_addr at = list->at + i * list->bytes;

		if (ms_peek_read(&r->peek, at, &module, sizeof(module)) != sizeof(module) ||
		    !module.inverted)
			break;
		if (!take(r, &module))
			return false;
	}
	return true;
}
