/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/functions.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/page.h"
#include "target/inject/library/embedded.h"

enum {
	BREAKPOINT = 0xcc,
	MALLOC_ALIGNMENT = 16,

	OPERATORS = MS_AGENT_NEW, /* C++'s begin here */
};

/* What becomes of the table when a function is not diverted. */
enum role {
	MAKES,           /* samples are lost */
	NEEDED,          /* nothing can be sampled */
	RELEASES,        /* blocks stay known that are freed: where it is, it is needed */
	RELEASES_NEEDED, /* and each library has it */
	BY_MALLOC,       /* as MAKES; the agent has malloc make its block */
	BY_MEMALIGN,     /* as MAKES; the agent has memalign make its block */
	TELLS,           /* it makes no block: what it would tell is not known */
};

static const struct {
	const char *name;
	unsigned n_arguments;
	enum role role;
} functions[] = {
	[MS_AGENT_MALLOC] = { "malloc", 1, NEEDED },
	[MS_AGENT_FREE] = { "free", 1, RELEASES_NEEDED },
	[MS_AGENT_CALLOC] = { "calloc", 2, MAKES },
	[MS_AGENT_REALLOC] = { "realloc", 2, RELEASES_NEEDED },
	[MS_AGENT_MEMALIGN] = { "memalign", 2, MAKES },
	[MS_AGENT_ALIGNED_ALLOC] = { "aligned_alloc", 2, MAKES },
	[MS_AGENT_POSIX_MEMALIGN] = { "posix_memalign", 3, MAKES },
	[MS_AGENT_VALLOC] = { "valloc", 1, MAKES },
	[MS_AGENT_PVALLOC] = { "pvalloc", 1, MAKES },
	[MS_AGENT_MALLOCX] = { "mallocx", 2, MAKES },
	[MS_AGENT_RALLOCX] = { "rallocx", 3, RELEASES },
	[MS_AGENT_DALLOCX] = { "dallocx", 2, RELEASES },
	[MS_AGENT_SDALLOCX] = { "sdallocx", 3, RELEASES },
	[MS_AGENT_CFREE] = { "cfree", 1, RELEASES },
	[MS_AGENT_FREE_SIZED] = { "free_sized", 2, RELEASES },
	[MS_AGENT_FREE_ALIGNED_SIZED] = { "free_aligned_sized", 3, RELEASES },
	[MS_AGENT_NEW] = { "_Znwm", 1, BY_MALLOC },
	[MS_AGENT_NEW_ARRAY] = { "_Znam", 1, BY_MALLOC },
	[MS_AGENT_NEW_NOTHROW] = { "_ZnwmRKSt9nothrow_t", 2, BY_MALLOC },
	[MS_AGENT_NEW_ARRAY_NOTHROW] = { "_ZnamRKSt9nothrow_t", 2, BY_MALLOC },
	[MS_AGENT_NEW_ALIGNED] = { "_ZnwmSt11align_val_t", 2, BY_MEMALIGN },
	[MS_AGENT_NEW_ARRAY_ALIGNED] = { "_ZnamSt11align_val_t", 2, BY_MEMALIGN },
	[MS_AGENT_NEW_ALIGNED_NOTHROW] = { "_ZnwmSt11align_val_tRKSt9nothrow_t", 3, BY_MEMALIGN },
	[MS_AGENT_NEW_ARRAY_ALIGNED_NOTHROW] = { "_ZnamSt11align_val_tRKSt9nothrow_t", 3,
	                                         BY_MEMALIGN },
	[MS_AGENT_DELETE] = { "_ZdlPv", 1, RELEASES },
	[MS_AGENT_DELETE_ARRAY] = { "_ZdaPv", 1, RELEASES },
	[MS_AGENT_DELETE_NOTHROW] = { "_ZdlPvRKSt9nothrow_t", 2, RELEASES },
	[MS_AGENT_DELETE_ARRAY_NOTHROW] = { "_ZdaPvRKSt9nothrow_t", 2, RELEASES },
	[MS_AGENT_DELETE_SIZED] = { "_ZdlPvm", 2, RELEASES },
	[MS_AGENT_DELETE_ARRAY_SIZED] = { "_ZdaPvm", 2, RELEASES },
	[MS_AGENT_DELETE_ALIGNED] = { "_ZdlPvSt11align_val_t", 2, RELEASES },
	[MS_AGENT_DELETE_ARRAY_ALIGNED] = { "_ZdaPvSt11align_val_t", 2, RELEASES },
	[MS_AGENT_DELETE_ALIGNED_NOTHROW] = { "_ZdlPvSt11align_val_tRKSt9nothrow_t", 3, RELEASES },
	[MS_AGENT_DELETE_ARRAY_ALIGNED_NOTHROW] = { "_ZdaPvSt11align_val_tRKSt9nothrow_t", 3,
	                                            RELEASES },
	[MS_AGENT_DELETE_SIZED_ALIGNED] = { "_ZdlPvmSt11align_val_t", 3, RELEASES },
	[MS_AGENT_DELETE_ARRAY_SIZED_ALIGNED] = { "_ZdaPvmSt11align_val_t", 3, RELEASES },
	[MS_AGENT_CXA_FINALIZE] = { "__cxa_finalize", 1, TELLS },
};

static_assert(sizeof(functions) / sizeof(functions[0]) == MS_AGENT_N, "a row for each");

const char *ms_function_name(enum ms_agent_function function)
{
	return functions[function].name;
}

bool ms_function_releases(enum ms_agent_function function)
{
	return functions[function].role == RELEASES || functions[function].role == RELEASES_NEEDED;
}

bool ms_function_makes(enum ms_agent_function function)
{
	return !ms_function_releases(function) && functions[function].role != TELLS;
}

static const char *verdict_text(enum ms_place_verdict verdict)
{
	switch (verdict) {
	case MS_PLACE_FOUND:
		break;
	case MS_PLACE_UNKNOWN:
		return "its instructions are not understood";
	case MS_PLACE_TOO_NEAR:
		return "it is too short";
	case MS_PLACE_CHANGED:
		return "its file has a breakpoint there";
	}
	return NULL;
}

/* Whether the function at @entry has a place already. */
static bool is_diverted(const struct ms_malloc_functions *all, ms_addr entry)
{
	for (size_t i = 0; i < MS_AGENT_N; i++)
		if (all->at[i].found && all->at[i].place.entry == entry)
			return true;
	return false;
}

/* A write over two pages could be broken off between them. */
static bool crosses_page(const struct ms_place *place)
{
	return place->window / MS_PAGE_BYTES != (place->window + MS_JUMP - 1) / MS_PAGE_BYTES;
}

/* ---- where they are ---- */

static bool is_libc(const struct ms_malloc_library *library)
{
	return library->kind == MS_LIBRARY_GLIBC || library->kind == MS_LIBRARY_MUSL;
}

/* jemalloc or tcmalloc, linked into the program. */
static bool is_embedded(const struct ms_malloc_library *library)
{
	return library->is_program && !is_libc(library);
}

static bool find_code(struct ms_malloc_library *library, size_t i, struct ms_range *ret)
{
	char name[64];

	if (functions[i].role == TELLS && library->kind != MS_LIBRARY_GLIBC)
		return false;
	if (is_libc(library) && i >= MS_AGENT_OF_LIBC && functions[i].role != TELLS)
		return false;
	(void)snprintf(name, sizeof(name), "%s%s", library->prefix, functions[i].name);
	if (is_embedded(library))
		return (i < OPERATORS && ms_malloc_library_code(library, name, ret)) ||
		       ms_embedded_code(library, functions[i].name, ret);
	if (ms_malloc_library_code(library, name, ret))
		return true;
	/* What the standard has named since, gperftools' has under a name of its own. */
	(void)snprintf(name, sizeof(name), "tc_%s", functions[i].name);
	return library->kind == MS_LIBRARY_TCMALLOC && ms_malloc_library_code(library, name, ret);
}

/* ---- operators that call what is diverted ---- */

/* What leads to another library, or by way of the loader back to this one. */
static bool is_stub(const struct ms_malloc_library *library, ms_addr at)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const struct ms_range text = library->text->range;
	const uint8_t *bytes;
	struct ms_insn insn;

	if (!ms_range_has(text, at) || text.end - at < sizeof(endbr64) + MS_INSN_MAX)
		return false;
	bytes = library->bytes + (at - text.begin);
	if (!memcmp(bytes, endbr64, sizeof(endbr64)))
		bytes += sizeof(endbr64);
	return ms_insn_read(bytes, MS_INSN_MAX, &insn) && insn.kind == MS_INSN_END &&
	       insn.relative_at;
}

/*
 * Whether an operator does no more, first of all, than to call another: malloc, or an operator,
 * which count its block.
 */
static bool calls_another(const struct ms_malloc_library *library, struct ms_range code,
                          const struct ms_malloc_functions *all)
{
	const uint8_t *bytes = library->bytes + (code.begin - library->text->range.begin);
	const size_t n = (size_t)ms_range_len(code);
	struct ms_insn insn = { .kind = MS_INSN_PLAIN };

	for (size_t at = 0; at < n && insn.kind == MS_INSN_PLAIN; at += insn.length) {
		if (!ms_insn_read(bytes + at, n - at, &insn))
			return false;
		if (insn.kind == MS_INSN_CALL_OTHER)
			return true;
		if (insn.kind == MS_INSN_CALL || insn.kind == MS_INSN_JMP) {
			ms_addr aim = ms_insn_aim(&insn, bytes + at, code.begin + at);

			return is_diverted(all, aim) || is_stub(library, aim);
		}
	}
	return false;
}

/* ---- musl's, of which some make their blocks by others ---- */

/* Where a call of @aim leads to, by way of a stub that the loader has filled in, too. */
static ms_addr behind_stub(const struct ms_malloc_library *library, ms_addr aim)
{
	const struct ms_range text = library->text->range;
	struct ms_insn insn;
	ms_addr to;

	if (!ms_range_has(text, aim) || text.end - aim < MS_INSN_MAX)
		return aim;
	const uint8_t *bytes = library->bytes + (aim - text.begin);

	if (!ms_insn_read(bytes, MS_INSN_MAX, &insn) || insn.kind != MS_INSN_END ||
	    !insn.relative_at ||
	    !ms_image_read(&library->image, ms_insn_aim(&insn, bytes, aim), &to, sizeof(to)))
		return aim;
	return to;
}

/* Whether an instruction of @code leads to @function of the library, or cannot be read. */
static bool leads_to(struct ms_malloc_library *library, struct ms_range code,
                     enum ms_agent_function function)
{
	const uint8_t *bytes = library->bytes + (code.begin - library->text->range.begin);
	const size_t n = (size_t)ms_range_len(code);
	struct ms_range aim;
	struct ms_insn insn;

	if (!find_code(library, function, &aim) || aim.begin == code.begin)
		return false;
	for (size_t at = 0; at < n; at += insn.length) {
		if (!ms_insn_read(bytes + at, n - at, &insn))
			return true;
		if (insn.kind != MS_INSN_CALL && insn.kind != MS_INSN_JMP)
			continue;
		ms_addr to = ms_insn_aim(&insn, bytes + at, code.begin + at);

		if (to == aim.begin || behind_stub(library, to) == aim.begin)
			return true;
	}
	return false;
}

/*
 * Source: musl's src/malloc, 1.2.1 to 1.2.6. calloc calls malloc, the aligned ones call
 * aligned_alloc, or one that does. mallocng's own functions do not; where one does, as the older
 * malloc's may, a block would be kept that is never freed under its address.
 */
static const char *check_musl(struct ms_malloc_library *library, size_t i, struct ms_range code,
                              struct ms_malloc_function *function)
{
	switch (i) {
	case MS_AGENT_CALLOC:
		function->is_outer = leads_to(library, code, MS_AGENT_MALLOC);
		break;
	case MS_AGENT_POSIX_MEMALIGN:
		function->is_outer = leads_to(library, code, MS_AGENT_ALIGNED_ALLOC);
		break;
	case MS_AGENT_MEMALIGN: /* a jump, which leaves no frame on the stack */
	case MS_AGENT_VALLOC:
		function->is_other_name = leads_to(library, code, MS_AGENT_ALIGNED_ALLOC) ||
		                          leads_to(library, code, MS_AGENT_MEMALIGN);
		break;
	case MS_AGENT_REALLOC:
	case MS_AGENT_ALIGNED_ALLOC:
		return leads_to(library, code, MS_AGENT_MALLOC) ? "it calls malloc" : NULL;
	default:
		break;
	}
	return function->is_other_name ? "it calls one that is diverted" : NULL;
}

/* ---- each function ---- */

/* Source: gperftools' src/tcmalloc.cc, 2.8 to 2.18. */
static bool calls_memalign(const struct ms_malloc_library *library, size_t i)
{
	return library->kind == MS_LIBRARY_TCMALLOC &&
	       (i == MS_AGENT_POSIX_MEMALIGN || i == MS_AGENT_VALLOC || i == MS_AGENT_PVALLOC);
}

/* Why a function's block is not to be counted, or cannot be made; or NULL. */
static const char *check_callers(struct ms_malloc_library *library, size_t i, struct ms_range code,
                                 struct ms_malloc_functions *all)
{
	if (library->kind == MS_LIBRARY_MUSL)
		return check_musl(library, i, code, &all->at[i]);
	bool is_operator = i >= OPERATORS && ms_function_makes((enum ms_agent_function)i);

	all->at[i].is_other_name =
		calls_memalign(library, i) || (is_operator && calls_another(library, code, all));
	if (all->at[i].is_other_name)
		return "it calls one that is diverted";
	if (functions[i].role == BY_MEMALIGN && !all->at[MS_AGENT_MEMALIGN].found)
		return "memalign is not diverted";
	return NULL;
}

/*
 * Whether it is seen that nothing leads to @place: that what looks like a branch is in the middle
 * of an instruction, by those of the function around it.
 */
static bool is_safe(const struct ms_malloc_library *library, const struct ms_place *place,
                    size_t len)
{
	const struct ms_range text = library->text->range;
	const ms_addr bias = library->image.object.bias;
	const size_t n = (size_t)ms_range_len(text);
	struct ms_range around;

	if (!ms_place_is_reached(place, library->bytes, n, text.begin, len))
		return true;
	if (ms_place_is_led_into(place, library->bytes + (place->entry - text.begin), len,
	                         place->entry))
		return false;
	for (size_t at = 0; ms_place_find_branch(place, library->bytes, n, text.begin, &at); at++) {
		if (!ms_symtab_around(&library->symbols, text.begin + at - bias, &around))
			return false;
		around = (struct ms_range){ around.begin + bias, around.end + bias };
		if (around.begin < text.begin || around.end > text.end ||
		    ms_place_is_led_into(place, library->bytes + (around.begin - text.begin),
		                         (size_t)ms_range_len(around), around.begin))
			return false;
	}
	return true;
}

static const char *choose_place(const struct ms_malloc_library *library, size_t i,
                                struct ms_range code, struct ms_place *ret)
{
	struct ms_range text = library->text->range;
	size_t at = (size_t)(code.begin - text.begin);
	enum ms_place_verdict verdict =
		ms_place_choose(library->bytes + at, (size_t)ms_range_len(code), code.begin,
	                        functions[i].n_arguments, ret);

	if (verdict)
		return verdict_text(verdict);
	if (crosses_page(ret))
		return "its beginning lies across two pages";
	if (!is_safe(library, ret, (size_t)ms_range_len(code)))
		return "a branch may lead to where the jump would be";
	return NULL;
}

static bool is_chosen(const struct ms_malloc_library *library, size_t i)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%s%s", library->prefix, functions[i].name);
	return ms_symtab_is_chosen(&library->symbols, name) ||
	       (i >= OPERATORS && ms_symtab_is_chosen(&library->symbols, functions[i].name));
}

static const char *place_function(struct ms_malloc_library *library, size_t i,
                                  struct ms_malloc_functions *all)
{
	struct ms_range text = library->text->range;
	struct ms_range code;
	const char *other;

	if (is_embedded(library) && is_chosen(library, i))
		return "which one it is was chosen when the program started (IFUNC)";
	all->at[i].is_absent =
		(functions[i].role == TELLS && !all->find_object) || !find_code(library, i, &code);
	if (all->at[i].is_absent)
		return "it is not there";
	if (!ms_range_has(text, code.begin) || code.end > text.end || code.begin == code.end)
		return "the library does not say where it is";
	all->at[i].is_other_name = is_diverted(all, code.begin);
	if (all->at[i].is_other_name)
		return "it is another name of one that is diverted";
	other = check_callers(library, i, code, all);
	if (!other)
		other = choose_place(library, i, code, &all->at[i].place);
	if (other && all->at[i].is_outer)
		all->at[i].is_other_name = true;
	return other;
}

static bool is_needed(const struct ms_malloc_library *library, size_t i,
                      const struct ms_malloc_function *function)
{
	const enum role role = functions[i].role;

	/* Else blocks of it would be known under other addresses. */
	if (library->kind == MS_LIBRARY_MUSL && i == MS_AGENT_ALIGNED_ALLOC)
		return !function->is_absent;
	/* A linker leaves out what no one calls. */
	if (role == RELEASES_NEEDED && is_embedded(library) && function->is_absent)
		return false;
	if (role == NEEDED || role == RELEASES_NEEDED)
		return true;
	return role == RELEASES && !function->is_absent && !function->is_other_name;
}

static enum ms_status fail_place(const struct ms_malloc_library *library, pid_t tid,
                                 const char *name, const struct ms_malloc_function *function,
                                 struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED, "%s of process %d cannot be diverted: %s", name, tid,
	              function->left_out);
	if (library->is_program && function->is_absent)
		ms_advise(err,
		          "the program itself never calls %s, which is not linked into it: "
		          "scan it without stacks",
		          name);
	else if (library->is_program)
		ms_advise(err,
		          "please report it, with the C library and compiler of %s; meanwhile "
		          "scan it without stacks",
		          library->text->name);
	else
		ms_advise(err,
		          "please report it, with the package and version of %s; meanwhile start "
		          "the program with libmalloc_debug",
		          library->text->name);
	return err->status;
}

static enum ms_status place_all(struct ms_malloc_library *library, pid_t tid,
                                struct ms_malloc_functions *ret, struct ms_error *err)
{
	for (size_t i = 0; i < MS_AGENT_N; i++) {
		struct ms_malloc_function *function = &ret->at[i];

		function->left_out = place_function(library, i, ret);
		function->found = !function->left_out;
		if (function->found || !is_needed(library, i, function))
			continue;
		return fail_place(library, tid, functions[i].name, function, err);
	}
	return MS_OK;
}

/* What says which library an address is in, without a lock: glibc's since 2.35. 0: there is none.
 */
static ms_addr find_object(struct ms_malloc_library *library)
{
	struct ms_range code;

	if (library->kind != MS_LIBRARY_GLIBC || library->is_program ||
	    !ms_malloc_library_code(library, "_dl_find_object", &code))
		return 0;
	return code.begin;
}

static void name_library(const struct ms_malloc_library *library, struct ms_malloc_functions *ret)
{
	if (is_libc(library))
		(void)snprintf(ret->name, sizeof(ret->name), "%s%s%s%s",
		               library->is_program ? "its own " : "", library->control->name,
		               *library->version ? " " : "", library->version);
	else if (library->is_program)
		(void)snprintf(ret->name, sizeof(ret->name), "its own %s",
		               library->kind == MS_LIBRARY_JEMALLOC ? "jemalloc" : "tcmalloc");
	else
		(void)snprintf(ret->name, sizeof(ret->name), "%s",
		               ms_file_name(library->text->name));
}

enum ms_status ms_malloc_functions_find(const struct ms_running *in, struct ms_arena *arena,
                                        struct ms_malloc_functions *ret, struct ms_error *err)
{
	struct ms_malloc_library library;
	enum ms_status st = ms_malloc_library_find(in, arena, &library, err);

	memset(ret, 0, sizeof(*ret));
	if (st)
		return st;
	ret->file = library.text->name;
	ret->in_front = library.in_front;
	ret->beside = library.beside;
	ret->apart = library.apart;
	ret->text = library.text->range;
	ret->libc_text = library.libc_text;
	ret->control = library.control;
	ret->passed_on = library.kind == MS_LIBRARY_GLIBC ? MALLOC_ALIGNMENT : 0;
	ret->find_object = find_object(&library);
	name_library(&library, ret);
	if (library.is_program)
		ms_symtab_sort(&library.symbols, arena);
	return place_all(&library, in->tid, ret, err);
}

/* ---- what stands there ---- */

enum ms_window ms_window_look(int mem_fd, const struct ms_place *place, ms_addr slot)
{
	size_t window = (size_t)(place->window - place->entry);
	size_t len = (size_t)(place->end - place->entry);
	uint8_t wanted[MS_PLACE_BYTES], now[MS_PLACE_BYTES];
	uint8_t jump[MS_JUMP];

	if (pread(mem_fd, now, len, (off_t)place->entry) != (ssize_t)len)
		return MS_WINDOW_FOREIGN;
	memcpy(wanted, place->bytes, len);
	/* A uprobe or a debugger's breakpoint on the first instruction, which stays. */
	if (window && now[0] == BREAKPOINT)
		wanted[0] = BREAKPOINT;
	if (!memcmp(now, wanted, len))
		return MS_WINDOW_PLAIN;
	if (!ms_jump_write(place->window, slot, jump))
		return MS_WINDOW_FOREIGN;
	memcpy(wanted + window, jump, sizeof(jump));
	return memcmp(now, wanted, len) ? MS_WINDOW_FOREIGN : MS_WINDOW_OURS;
}
