/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/library/program.h"

#include <string.h>
#include <unistd.h>

#include "target/inject/library/embedded.h"
#include "target/maps.h"

static const char known[] =
	"attach takes programs that load glibc 2.31 to 2.43 or musl, and static "
	"ones with symbols; others can be scanned without stacks";

static enum ms_status fail_none(pid_t tid, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "process %d has loaded no C library that is known, and has none of its own",
	              tid);
	ms_advise(err, "%s", known);
	return err->status;
}

/* ---- the file ---- */

/* The instructions of the program: of a static one there are no other's. */
static bool find_text(const struct ms_running *in, struct ms_arena *arena,
                      struct ms_malloc_library *ret)
{
	struct ms_effort effort = { 0 };
	const struct ms_mapping *map;

	ms_vec_for_each (map, in->maps) {
		const struct ms_mapping *head;

		if (!(map->prot & MS_PROT_EXEC) || !map->inode ||
		    ms_effort_may_skip(&effort, map, (size_t)(map - in->maps->at)))
			continue;
		ms_effort_remember(&effort, map, arena);
		head = ms_maps_head(in->maps, map);
		if (!head ||
		    !ms_image_open(in->tid, in->mem_fd, head->range.begin, NULL, &ret->image))
			continue;
		/* Its loader has not begun: that lies behind it, and is not the program. */
		if (ret->image.object.has_interpreter)
			return false;
		if (ms_image_needs_others(&ret->image))
			continue;
		ret->text = map;
		return true;
	}
	return false;
}

static enum ms_status read_file(const struct ms_running *in, struct ms_arena *arena,
                                struct ms_malloc_library *ret, struct ms_error *err)
{
	int fd = ms_mapped_file_open(in, ret->text);

	ret->bytes = ms_mapped_file_take(fd, ret->text, ret->text->range, arena);
	if (ret->bytes)
		ms_symtab_read(fd, arena, &ret->symbols);
	if (fd >= 0)
		(void)close(fd);
	if (!ret->bytes) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "the file of process %d cannot be read, or is another by now: %s",
		              in->tid, ret->text->name);
		ms_advise(err, "run memscan as root; after an update restart the program");
		return err->status;
	}
	if (ret->symbols.n)
		return MS_OK;
	if (ret->symbols.too_large) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "the symbol table of process %d is too large: more than %d entries, "
		              "or 256 MiB of names",
		              in->tid, MS_SYMTAB_MOST);
		ms_advise(err, "scan it without stacks");
		return err->status;
	}
	(void)ms_fail(
		err, MS_E_UNSUPPORTED,
		"process %d is linked statically and has no symbols that say where its malloc "
		"is",
		in->tid);
	ms_advise(err, "run the program as it was before it was stripped (strip -g leaves enough), "
	               "or scan it without stacks");
	return err->status;
}

/* ---- what it has ---- */

static bool has(struct ms_malloc_library *library, const char *name)
{
	struct ms_range ignored;

	return ms_malloc_library_code(library, name, &ignored);
}

static bool is_one(struct ms_malloc_library *library, const char *name, const char *other)
{
	struct ms_range one, two;

	return ms_malloc_library_code(library, name, &one) &&
	       ms_malloc_library_code(library, other, &two) && one.begin == two.begin;
}

/* Source: glibc's csu/libc-tls.c; musl's src/env/__init_tls.c and src/malloc/lite_malloc.c. */
static enum ms_status judge(pid_t tid, struct ms_arena *arena, struct ms_malloc_library *ret,
                            struct ms_error *err)
{
	const bool is_glibc = has(ret, "__libc_setup_tls");
	bool embedded = false;

	if (!is_glibc && !has(ret, "__init_tp"))
		return fail_none(tid, err);
	ret->control = is_glibc ? &ms_control_glibc : &ms_control_musl;
	ret->kind = is_glibc ? MS_LIBRARY_GLIBC : MS_LIBRARY_MUSL;
	/* First: gperftools' has glibc's names, too. */
	if (is_glibc && ms_embedded_find(tid, arena, ret, &embedded, err))
		return err->status;
	ret->apart = embedded && !ms_embedded_is_reached(ret);
	if (embedded)
		return MS_OK;
	if (is_glibc ? is_one(ret, "malloc", "__libc_malloc")
	             : is_one(ret, "malloc", "default_malloc"))
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED, "malloc of process %d is not the C library's", tid);
	ms_advise(err, "attach knows glibc's and musl's in static programs, and with glibc "
	               "jemalloc's and gperftools' tcmalloc: use that allocator's own profiler, "
	               "or scan without stacks");
	return err->status;
}

static enum ms_status check_words(pid_t tid, const struct ms_malloc_library *library,
                                  struct ms_error *err)
{
	if (!ms_control_is_named(library->control, library->bytes,
	                         (size_t)ms_range_len(library->text->range)))
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "instructions of process %d use what %s leaves free of a thread's control "
	              "block in versions that are known",
	              tid, library->control->name);
	ms_advise(err, "scan it without stacks");
	return err->status;
}

enum ms_status ms_program_find(const struct ms_running *in, struct ms_arena *arena,
                               struct ms_malloc_library *ret, struct ms_error *err)
{
	enum ms_status st;

	if (!find_text(in, arena, ret))
		return fail_none(in->tid, err);
	ret->is_program = true;
	ret->libc_text = ret->text->range;
	st = read_file(in, arena, ret, err);
	if (!st)
		st = judge(in->tid, arena, ret, err);
	return st ? st : check_words(in->tid, ret, err);
}
