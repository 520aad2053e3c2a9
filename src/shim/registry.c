/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/registry.h"

#include "malloc_debug/registry.h"
#include "shim/guard/guard.h"
#include "shim/out/record.h"
#include "shim/shim.h"
#include "shim/track/deferred.h"
#include "shim/track/freed.h"
#include "shim/track/live.h"
#include "shim/track/loaded.h"
#include "shim/track/trace.h"

/* The version puts it into the data of the file, where it is looked for. */
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
static _Alignas(8) struct malloc_debug_registry registry = {
	.version = MALLOC_DEBUG_REGISTRY_VERSION,
	.bytes = sizeof(registry),
};

void ms_registry_publish(void)
{
	if (ms_shim_knows_all())
		registry.flags |= MALLOC_DEBUG_ALL_BLOCKS;
	if (ms_shim_has(MS_OPT_HEADER)) {
		registry.flags |= MALLOC_DEBUG_HEADERS;
		registry.least_offset = (uint32_t)ms_guard_offset(&ms_shim.options);
	}
	if (ms_shim_has(MS_OPT_REAR_GUARD))
		registry.flags |= MALLOC_DEBUG_REAR_GUARDS;
	registry.flags |= MALLOC_DEBUG_USABLE_NOTED;
	registry.shards = ms_live_shards();
	registry.slot_bytes = sizeof(struct malloc_debug_slot);
	registry.stack_pages = ms_trace_pages(&registry.stacks_a_page);
	registry.kept = ms_freed_kept();
	registry.deferred = ms_deferred_list();
	registry.records = ms_record_slots();
	registry.modules = ms_loaded_list();
	registry.magic[0] = MALLOC_DEBUG_MAGIC_1;
	__atomic_store_n(&registry.magic[1], MALLOC_DEBUG_MAGIC_2, __ATOMIC_RELEASE);
}

void ms_registry_unnoted(void)
{
	(void)__atomic_fetch_and(&registry.flags, ~(uint32_t)MALLOC_DEBUG_USABLE_NOTED,
	                         __ATOMIC_RELAXED);
}

void ms_registry_bypassed(void)
{
	(void)__atomic_fetch_or(&registry.flags, MALLOC_DEBUG_BYPASSED, __ATOMIC_RELAXED);
	ms_registry_unnoted();
}
