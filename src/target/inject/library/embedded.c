/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/library/embedded.h"

#include <stdio.h>
#include <string.h>

#include "target/code/piece.h"

enum { LONGEST_PREFIX = 32, MOST_PREFIXES = 256 };

static bool has(const struct ms_malloc_library *library, const char *prefix, const char *name)
{
	char whole[64];
	struct ms_range ignored;

	(void)snprintf(whole, sizeof(whole), "%s%s", prefix, name);
	return ms_symtab_find(&library->symbols, whole, &ignored);
}

static bool is_one(const struct ms_malloc_library *library, const char *name, const char *prefix)
{
	char whole[64];
	struct ms_range one, two;

	(void)snprintf(whole, sizeof(whole), "%s%s", prefix, name);
	return ms_symtab_find(&library->symbols, name, &one) &&
	       ms_symtab_find(&library->symbols, whole, &two) && one.begin == two.begin;
}

/* ---- jemalloc ---- */

/* Of what the prefix is, where the symbol is that of such a function; or NULL. */
static const char *prefix_of(const char *name, struct ms_arena *arena)
{
	/* Source: jemalloc's src/jemalloc.c, 5.3. A linker may leave out what is not called.
	 */
	static const char *const own[] = { "mallctl", "sdallocx" };
	const size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		const size_t n = strlen(own[i]);

		if (len < n || len - n > LONGEST_PREFIX || strcmp(name + len - n, own[i]) != 0)
			continue;
		char *prefix = ms_arena_alloc(arena, len - n + 1);

		if (prefix) {
			memcpy(prefix, name, len - n);
			prefix[len - n] = '\0';
		}
		return prefix;
	}
	return NULL;
}

static enum ms_status fail_two(pid_t tid, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "the program of process %d has two allocators linked into it", tid);
	ms_advise(err, "scan it without stacks, or use that allocator's own profiler");
	return err->status;
}

/* Plain names come first: the program's calls of malloc lead there. */
static enum ms_status find_jemalloc(pid_t tid, struct ms_arena *arena,
                                    struct ms_malloc_library *library, bool *ret,
                                    struct ms_error *err)
{
	const struct ms_symtab *table = &library->symbols;
	const char *found = NULL;
	unsigned n_prefixes = 0;
	bool other = false;

	for (size_t i = 0; i < table->n; i++) {
		const char *name = ms_symtab_function(table, i);
		const char *prefix = name ? prefix_of(name, arena) : NULL;

		if (!prefix)
			continue;
		/* A file of lies; jemalloc has two such names. */
		if (++n_prefixes > MOST_PREFIXES)
			return fail_two(tid, err);
		if (!has(library, prefix, "malloc"))
			continue;
		if (!*prefix) {
			found = prefix;
			other = false;
			break;
		}
		if (found && strcmp(found, prefix) != 0)
			other = true;
		found = prefix;
	}
	if (other)
		return fail_two(tid, err);
	*ret = found;
	if (found) {
		library->kind = MS_LIBRARY_JEMALLOC;
		library->prefix = found;
	}
	return MS_OK;
}

/* ---- either ---- */

enum ms_status ms_embedded_find(pid_t tid, struct ms_arena *arena,
                                struct ms_malloc_library *library, bool *ret, struct ms_error *err)
{
	enum ms_status st = find_jemalloc(tid, arena, library, ret, err);

	if (st || !has(library, "tc_", "malloc"))
		return st;
	if (*ret)
		return fail_two(tid, err);
	/* Source: gperftools' src/debugallocation.cc: it checks by which function a block was made.
	 */
	if (has(library, "", "_ZN25DebugMallocImplementation15VerifyAllMemoryEv")) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "malloc of process %d is tcmalloc's that debugs, linked into it",
		              tid);
		ms_advise(err,
		          "link the program with libtcmalloc_minimal, or scan it without stacks");
		return err->status;
	}
	*ret = true;
	library->kind = MS_LIBRARY_TCMALLOC;
	library->prefix = "tc_";
	return MS_OK;
}

/*
 * Source: gperftools' src/libc_override_gcc_and_weak.h, 2.10: all are other names of tc_
 * functions. jemalloc's src/jemalloc_cpp.cpp, 5.3: where it is linked into a program, its
 * operators are, or the linker would have found two; those of the C++ library are weak.
 */
bool ms_embedded_code(struct ms_malloc_library *library, const char *name, struct ms_range *ret)
{
	struct ms_range found;
	bool is_own;

	if (!ms_symtab_find(&library->symbols, name, &found))
		return false;
	if (library->kind == MS_LIBRARY_TCMALLOC)
		is_own = ms_symtab_has_at(&library->symbols, found.begin, "tc_");
	else
		is_own = !strncmp(name, "_Z", 2) && has(library, "", "_ZL9handleOOMmb") &&
		         ms_symtab_is_strong(&library->symbols, name);
	return is_own && ms_malloc_library_code(library, name, ret);
}

bool ms_embedded_is_reached(struct ms_malloc_library *library)
{
	return is_one(library, "malloc", library->prefix);
}

/* ---- without symbols ---- */

/* Source: jemalloc's src/pages.c and others, 3.0 to 5.3; gperftools' src/common.cc, 2.8 to 2.18. */
static const struct trace {
	const char *name;
	const char *text;
} traces[] = {
	{ "jemalloc", "<jemalloc>: " },
	{ "tcmalloc", "TCMALLOC_TRANSFER_NUM_OBJ" },
};

static const char *find_trace(const struct ms_piece *piece)
{
	for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
		if (memmem(piece->bytes, (size_t)ms_range_len(piece->range), traces[i].text,
		           strlen(traces[i].text)))
			return traces[i].name;
	return NULL;
}

enum ms_status ms_embedded_check_stripped(const struct ms_running *in,
                                          const struct ms_image *program, struct ms_arena *arena,
                                          struct ms_error *err)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, in->maps) {
		const struct ms_range part = ms_range_common(map->range, program->object.span);
		struct ms_piece piece;
		const char *name;

		if (part.begin >= part.end || map->prot & MS_PROT_WRITE || !map->inode ||
		    !ms_piece_read_constant(program, in->maps, part, arena, &piece))
			continue;
		name = find_trace(&piece);
		if (!name)
			continue;
		(void)ms_fail(
			err, MS_E_UNSUPPORTED,
			"the program of process %d has %s linked into it, and no symbols that say where",
			in->tid, name);
		ms_advise(err, "run the program as it was before it was stripped (strip -g leaves "
		               "enough), or scan it without stacks");
		return err->status;
	}
	return MS_OK;
}
