/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/track/loaded.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/elf/notes.h"
#include "base/range.h"
#include "shim/pointer.h"
#include "shim/track/trace.h"

enum { ENTRIES = 4096, PATH_BYTES = 512 };

#define MIX UINT64_C(0x9e3779b97f4a7c15)

_Static_assert((int)MS_BUILD_ID_BYTES == (int)MALLOC_DEBUG_BUILD_ID, "the registry's");

/* A piece of a library's code, as the loader shows it. */
struct seen {
	struct malloc_debug_module as; /* without path and stacks */
	const char *name;
};

/* Of an entry what the registry does not show. */
struct own {
	uint64_t identity; /* a hash of what and where it is */
	uint64_t seen;     /* the last look that has seen it */
	bool contested;    /* something else was or is at its addresses */
};

/* Written under the loader's lock, by one thread. */
static struct {
	bool busy;
	bool known; /* adds and subs are those of the last look */
	uint64_t adds;
	uint64_t subs;
	uint64_t looks;
	uint64_t mix;
	uint32_t n;
	uint32_t next; /* where the entry of the next library is expected */
	struct ms_arena arena;
	struct own own[ENTRIES];
	struct malloc_debug_module at[ENTRIES];
} state; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* ---- what the loader shows ---- */

static struct ms_range range_of(const struct malloc_debug_module *module)
{
	uint64_t begin = ~module->inverted + module->code_at;

	return (struct ms_range){ begin, begin + module->code_bytes };
}

/* Whether @part, which need not be loaded, lies in what is. */
static bool is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];

		if (load->p_type == PT_LOAD && (load->p_flags & PF_R) &&
		    part->p_vaddr >= load->p_vaddr && part->p_memsz <= load->p_filesz &&
		    part->p_vaddr - load->p_vaddr <= load->p_filesz - part->p_memsz)
			return true;
	}
	return false;
}

static void read_build_id(const struct dl_phdr_info *info, struct malloc_debug_module *ret)
{
	for (int i = 0; i < info->dlpi_phnum && !ret->build_id_len; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_NOTE && is_loaded(info, part))
			ret->build_id_len = ms_notes_build_id(ms_pointer(at), part->p_memsz,
			                                      part->p_align, ret->build_id);
	}
}

static const ElfW(Phdr) * first_part(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			return &info->dlpi_phdr[i];
	return NULL;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ at[i]) * MIX;
	return hash;
}

static uint64_t identity_of(const struct seen *seen)
{
	const struct malloc_debug_module *as = &seen->as;
	const uint64_t numbers[] = { as->inverted, as->vaddr, as->code_at, as->code_bytes,
		                     as->code_offset };
	uint64_t hash = MIX;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		hash = (hash ^ numbers[i]) * MIX;
	hash = hash_bytes(hash, as->build_id, sizeof(as->build_id));
	hash = hash_bytes(hash, seen->name, strlen(seen->name));
	return hash ^ hash >> 32;
}

/* ---- entries ---- */

/* The loader may have it relative to where the process was then. */
static const char *keep_path(const char *name)
{
	char path[PATH_BYTES];
	size_t len = 0;

	if (name[0] != '/' && getcwd(path, sizeof(path) - 1)) {
		len = strlen(path);
		path[len++] = '/';
		name += strncmp(name, "./", 2) == 0 ? 2 : 0;
	}
	if (len + strlen(name) >= sizeof(path))
		return NULL;
	memcpy(path + len, name, strlen(name) + 1);
	return ms_arena_strndup(&state.arena, path, sizeof(path));
}

/* Mark all that is or was where entry @i is, and itself. */
static void contest(uint32_t i)
{
	for (uint32_t k = 0; k < i; k++) {
		struct ms_range both =
			ms_range_common(range_of(&state.at[k]), range_of(&state.at[i]));

		if (ms_range_len(both) && state.own[k].identity != state.own[i].identity)
			state.own[k].contested = state.own[i].contested = true;
	}
}

static void add(const struct seen *seen, uint64_t identity)
{
	struct malloc_debug_module *entry = &state.at[state.n];
	const char *path = state.n < ENTRIES ? keep_path(seen->name) : NULL;
	uint64_t inverted = seen->as.inverted;

	if (!path)
		return;
	*entry = seen->as;
	entry->inverted = 0;
	entry->path = (uintptr_t)path;
	entry->path_len = (uint32_t)strlen(path);
	entry->first_stack = ms_trace_next();
	__atomic_store_n(&entry->inverted, inverted, __ATOMIC_RELEASE);
	state.own[state.n] = (struct own){ identity, state.looks, false };
	contest(state.n++);
}

/* Whether entry @i is of that identity, and may be it still, or again. */
static bool is_entry(uint32_t i, uint64_t identity)
{
	return i < state.n && state.own[i].identity == identity &&
	       (!state.at[i].end_stack || !state.own[i].contested);
}

/* The entries of what is loaded are, as a rule, in its order. */
static void note(const struct seen *seen)
{
	uint64_t identity = identity_of(seen);
	uint32_t i = state.next;

	if (!is_entry(i, identity))
		for (i = state.n; i-- > 0 && !is_entry(i, identity);)
			continue;
	if (i >= state.n) {
		add(seen, identity);
		return;
	}
	state.own[i].seen = state.looks;
	__atomic_store_n(&state.at[i].end_stack, 0, __ATOMIC_RELAXED);
	state.next = i + 1;
}

/* ---- looking ---- */

static int see_library(struct dl_phdr_info *info, size_t size, void *unused)
{
	const ElfW(Phdr) *first = first_part(info);
	struct seen seen = { .name = info->dlpi_name };

	(void)size;
	(void)unused;
	/* The program stays, and what the kernel shows of itself has no path. */
	if (!first || !seen.name || !strchr(seen.name, '/'))
		return 0;
	seen.as.vaddr = first->p_vaddr - first->p_offset;
	seen.as.inverted = ~(uint64_t)(uintptr_t)(info->dlpi_addr + seen.as.vaddr);
	read_build_id(info, &seen.as);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		seen.as.code_at = part->p_vaddr - seen.as.vaddr;
		seen.as.code_bytes = part->p_memsz;
		seen.as.code_offset = part->p_offset;
		note(&seen);
	}
	return 0;
}

static void look_at_all(void)
{
	uint64_t mix = 0;

	state.looks++;
	state.next = 0;
	(void)dl_iterate_phdr(see_library, NULL);
	for (uint32_t i = 0; i < state.n; i++) {
		if (state.at[i].end_stack)
			continue;
		if (state.own[i].seen != state.looks)
			__atomic_store_n(&state.at[i].end_stack, ms_trace_next(), __ATOMIC_RELAXED);
		else if (state.own[i].contested)
			mix ^= state.own[i].identity * MIX;
	}
	__atomic_store_n(&state.mix, mix, __ATOMIC_RELEASE);
}

/* Called with the loader's lock, which the same thread may take again. */
static int see_counts(struct dl_phdr_info *info, size_t size, void *ret_subs)
{
	bool same = state.known && state.adds == info->dlpi_adds && state.subs == info->dlpi_subs;

	(void)size;
	*(uint64_t *)ret_subs = info->dlpi_subs;
	if (same || __atomic_exchange_n(&state.busy, true, __ATOMIC_ACQUIRE))
		return 1;
	look_at_all();
	state.adds = info->dlpi_adds;
	state.subs = info->dlpi_subs;
	state.known = true;
	__atomic_store_n(&state.busy, false, __ATOMIC_RELEASE);
	return 1;
}

uint64_t ms_loaded_look(void)
{
	uint64_t subs = 0;

	(void)dl_iterate_phdr(see_counts, &subs);
	return subs;
}

uint64_t ms_loaded_mix(void)
{
	return __atomic_load_n(&state.mix, __ATOMIC_ACQUIRE);
}

struct malloc_debug_list ms_loaded_list(void)
{
	return (struct malloc_debug_list){ (uintptr_t)state.at, ENTRIES, sizeof(*state.at) };
}
