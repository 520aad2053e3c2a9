/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "alloc/agent/agent.h"
#include "engine/origins/unloaded.h"

/* Copy the table of the library that was kept last. */
static bool take_table(struct ms_agent_reading *r, const struct ms_agent_module *module)
{
	const struct ms_former_code *former =
		&r->d->origins->formers.at[r->d->origins->formers.n - 1];
	ms_addr at = r->at + offsetof(struct ms_agent_data, tables) + module->table_at;
	struct ms_former_table *table;
	uint8_t *bytes;

	if (!former->moved || !module->table_bytes || module->table_at > MS_AGENT_TABLES ||
	    module->table_bytes > MS_AGENT_TABLES - module->table_at ||
	    module->table > UINT64_MAX - MS_AGENT_TABLES)
		return true;
	bytes = ms_arena_alloc(r->d->arena, module->table_bytes);
	if (!bytes)
		return false;
	if (ms_source_read(r->d->src, at, bytes, module->table_bytes) != module->table_bytes)
		return true;
	table = ms_vec_push(r->d->arena, &r->tables);
	if (!table)
		return false;
	*table = (struct ms_former_table){
		.code = { former->range.begin + former->moved, former->range.end + former->moved },
		.at = { module->table, module->table + module->table_bytes },
		.bytes = bytes,
	};
	return true;
}

static bool take(struct ms_agent_reading *r, const struct ms_agent_module *module)
{
	const size_t before = r->d->origins->formers.n;
	struct ms_former former = {
		.file = { module->begin, module->code_end },
		.vaddr = module->vaddr,
		.code = module->code,
		.code_offset = module->code_offset,
		.first_stack = module->first_unload,
		.end_stack = module->end_unload,
		.path = ms_arena_strndup(r->d->arena, module->path, sizeof(module->path)),
	};

	static_assert((int)MS_AGENT_BUILD_ID == (int)MS_BUILD_ID_BYTES, "as the report has it");
	if (!former.path)
		return false;
	if (module->build_id_len <= sizeof(former.build_id))
		former.build_id_len = (uint8_t)module->build_id_len;
	memcpy(former.build_id, module->build_id, sizeof(former.build_id));
	if (!ms_unloaded_add(r->d, &former))
		return false;
	return r->d->origins->formers.n == before || take_table(r, module);
}

bool ms_agent_read_modules(struct ms_agent_reading *r)
{
	ms_addr at = r->at + offsetof(struct ms_agent_data, modules);
	struct ms_agent_module module;

	for (uint32_t i = 0; i < r->facts.n_modules; i++, at += sizeof(module))
		if (ms_source_read(r->d->src, at, &module, sizeof(module)) == sizeof(module) &&
		    !take(r, &module))
			return false;
	return true;
}
