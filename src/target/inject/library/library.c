/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/library/library.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target/inject/library/embedded.h"
#include "target/inject/library/program.h"
#include "target/maps.h"

enum {
	MOST_ALLOCATORS = 8,
	MOST_LINKS = 1 << 14,
	VERSION_CODE = 16,
	MAJOR = 2,
	/* glibc's versions whose thread control block is known: fs:0x80 is nobody's. */
	OLDEST = 31,
	NEWEST = 43,
};

/* An object of the process that has a malloc. */
struct candidate {
	const struct ms_mapping *text;
	struct ms_image image;
};

/* What is looked through. */
struct search {
	const struct ms_running *in;
	struct ms_arena *arena;
	struct candidate libc;    /* text is NULL until it is found */
	struct candidate program; /* of one that is linked dynamically; or its text is NULL */
	struct candidate allocators[MOST_ALLOCATORS];
	size_t n_allocators;
	ms_addr debug; /* what the loader shows debuggers */
	struct ms_effort effort;
	struct ms_malloc_library *ret;
};

/* ---- what the process has loaded ---- */

static bool is_libc(struct ms_image *image)
{
	ms_addr malloc_at, info_at, version_at;

	return ms_image_find(image, "malloc", &malloc_at) &&
	       ms_image_find(image, "malloc_info", &info_at) &&
	       ms_image_find(image, "gnu_get_libc_version", &version_at);
}

/* Its loader is itself. Source: musl's ldso/dynlink.c, 1.1.17 to 1.2.6. */
static bool is_musl(struct ms_image *image)
{
	ms_addr malloc_at, stage_at, main_at;

	return ms_image_find(image, "malloc", &malloc_at) &&
	       ms_image_find(image, "__dls3", &stage_at) &&
	       ms_image_find(image, "__libc_start_main", &main_at);
}

static enum ms_status take_libc(struct search *s, const struct candidate *found,
                                struct ms_error *err)
{
	if (!s->libc.text || s->libc.image.object.span.begin == found->image.object.span.begin) {
		s->libc = *found;
		return MS_OK;
	}
	(void)ms_fail(err, MS_E_UNSUPPORTED, "process %d has loaded two C libraries, %s and %s",
	              s->in->tid, s->libc.text->name, found->text->name);
	ms_advise(err, "a program that loads one by dlmopen() cannot be attached: start it "
	               "with libmalloc_debug");
	return err->status;
}

static enum ms_status take_allocator(struct search *s, const struct candidate *found,
                                     struct ms_error *err)
{
	for (size_t i = 0; i < s->n_allocators; i++)
		if (s->allocators[i].image.object.span.begin == found->image.object.span.begin)
			return MS_OK;
	if (s->n_allocators < MOST_ALLOCATORS) {
		s->allocators[s->n_allocators++] = *found;
		return MS_OK;
	}
	(void)ms_fail(err, MS_E_UNSUPPORTED, "process %d has loaded more than %d allocators",
	              s->in->tid, MOST_ALLOCATORS);
	ms_advise(err, "scan without stacks, or start the program with libmalloc_debug");
	return err->status;
}

/* Look at the object whose instructions @map has. */
static enum ms_status look_at(struct search *s, const struct ms_mapping *map, struct ms_error *err)
{
	const struct ms_mapping *head = ms_maps_head(s->in->maps, map);
	struct candidate found = { .text = map };
	ms_addr at;

	if (!head || !ms_image_open(s->in->tid, s->in->mem_fd, head->range.begin, &s->effort,
	                            &found.image)) {
		ms_effort_remember(&s->effort, map, s->arena);
		return MS_OK;
	}
	if (!s->debug)
		s->debug = ms_image_debug(&found.image);
	if (!s->program.text && ms_image_is_program(&found.image))
		s->program = found;
	if (ms_image_has_allocator(&found.image))
		return take_allocator(s, &found, err);
	if (is_libc(&found.image) || is_musl(&found.image))
		return take_libc(s, &found, err);
	/* The loader has one until the C library is there. */
	if (ms_image_find(&found.image, "malloc", &at) &&
	    !ms_image_find(&found.image, "__tls_get_addr", &at)) {
		if (!ms_image_may_pass_on(&found.image))
			return take_allocator(s, &found, err);
		if (!s->ret->in_front)
			s->ret->in_front = map->name;
	}
	ms_effort_remember(&s->effort, map, s->arena);
	return MS_OK;
}

static enum ms_status check_effort(const struct search *s, struct ms_error *err)
{
	if (!s->effort.ended)
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "process %d has mapped so many files, or files with so long tables of "
	              "symbols, that its malloc was not found within %llu reads",
	              s->in->tid, (unsigned long long)s->effort.reads);
	ms_advise(err, "scan it without stacks, or start the program with libmalloc_debug");
	return err->status;
}

static enum ms_status look_at_all(struct search *s, struct ms_error *err)
{
	const struct ms_mapping *map;
	enum ms_status st = MS_OK;

	ms_vec_for_each (map, s->in->maps) {
		if (map->prot & MS_PROT_EXEC && map->inode &&
		    !ms_effort_may_skip(&s->effort, map, (size_t)(map - s->in->maps->at)))
			st = look_at(s, map, err);
		if (st)
			return st;
	}
	return check_effort(s, err);
}

/* ---- whose malloc calls reach ---- */

/* As <link.h> has them, with addresses in place of pointers. */
struct debug {
	int32_t version;
	int32_t padding;
	ms_addr map;
};

struct link {
	ms_addr bias;
	ms_addr name;
	ms_addr dynamic;
	ms_addr next;
};

/*
 * Of the allocators the first in the loader's list, in whose order it looks up symbols, if the C
 * library comes later; else NULL. What dlopen() loads comes behind. False: there is no list.
 */
static bool find_reached(struct search *s, struct candidate **ret)
{
	const struct ms_image *image = &s->libc.image;
	struct debug debug;
	struct link link;
	ms_addr at;

	*ret = NULL;
	if (!s->debug || !ms_image_read(image, s->debug, &debug, sizeof(debug)))
		return false;
	at = debug.map;
	for (size_t n = 0; at && n < MOST_LINKS; n++, at = link.next) {
		if (!ms_image_read(image, at, &link, sizeof(link)))
			return false;
		if (link.dynamic == image->object.dynamic)
			return true;
		for (size_t i = 0; i < s->n_allocators; i++)
			if (link.dynamic == s->allocators[i].image.object.dynamic)
				*ret = &s->allocators[i];
		if (*ret)
			return true;
	}
	return false;
}

/* Source: what libjemalloc.so.2 and libtcmalloc*.so.4 export. */
static enum ms_status judge(struct search *s, struct candidate *reached, struct ms_error *err)
{
	static const char debugs[] = "_ZN25DebugMallocImplementation15VerifyAllMemoryEv";
	const bool with_glibc = s->ret->kind == MS_LIBRARY_GLIBC;
	ms_addr at;

	if (with_glibc && ms_image_find(&reached->image, "mallctl", &at)) {
		s->ret->kind = MS_LIBRARY_JEMALLOC;
		return MS_OK;
	}
	/* That one checks by which function a block was made. */
	if (with_glibc && ms_image_find(&reached->image, "tc_malloc", &at) &&
	    !ms_image_find(&reached->image, debugs, &at)) {
		s->ret->kind = MS_LIBRARY_TCMALLOC;
		return MS_OK;
	}
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "malloc of process %d is not the C library's: %s has another", s->in->tid,
	              reached->text->name);
	ms_advise(
		err,
		"attach knows glibc's, musl's, and beside glibc jemalloc's and "
		"gperftools' tcmalloc: use that allocator's own profiler, or scan without stacks");
	return err->status;
}

/* Calls of malloc by libraries reach the program's, where it exports that. */
static bool exports_malloc(struct search *s)
{
	struct ms_range code;
	ms_addr at;

	return ms_image_find(&s->program.image, "malloc", &at) &&
	       ms_malloc_library_code(s->ret, "malloc", &code) && code.begin == at;
}

/* The program's own allocator, where one is linked into it and its symbols say so. */
static enum ms_status find_embedded(struct search *s, bool *ret, struct ms_error *err)
{
	struct ms_malloc_library own = { 0 };
	enum ms_status st;
	int fd;

	*ret = false;
	if (!s->program.text || s->ret->kind != MS_LIBRARY_GLIBC)
		return MS_OK;
	fd = ms_mapped_file_open(s->in, s->program.text);
	if (fd < 0)
		return MS_OK;
	ms_symtab_read(fd, s->arena, &own.symbols);
	(void)close(fd);
	if (!own.symbols.n)
		/* What it exports may be enough. */
		return ms_image_has_allocator(&s->program.image)
		               ? MS_OK
		               : ms_embedded_check_stripped(s->in, &s->program.image, s->arena,
		                                            err);
	st = ms_embedded_find(s->in->tid, s->arena, &own, ret, err);
	if (st || !*ret)
		return st;
	s->ret->kind = own.kind;
	s->ret->prefix = own.prefix;
	s->ret->symbols = own.symbols;
	s->ret->image = s->program.image;
	s->ret->image.effort = NULL;
	s->ret->is_program = true;
	s->ret->apart = !ms_embedded_is_reached(s->ret) || !exports_malloc(s);
	s->ret->in_front = NULL;
	for (size_t i = 0; i < s->n_allocators && !s->ret->apart; i++)
		if (s->allocators[i].text != s->program.text)
			s->ret->beside = s->allocators[i].text->name;
	return MS_OK;
}

static enum ms_status choose(struct search *s, struct candidate **ret, struct ms_error *err)
{
	struct candidate *reached = NULL;
	enum ms_status st;
	bool embedded;

	*ret = &s->libc;
	s->ret->kind = is_musl(&s->libc.image) ? MS_LIBRARY_MUSL : MS_LIBRARY_GLIBC;
	s->ret->control = s->ret->kind == MS_LIBRARY_MUSL ? &ms_control_musl : &ms_control_glibc;
	st = find_embedded(s, &embedded, err);
	if (st)
		return st;
	if (embedded) {
		*ret = &s->program;
		return MS_OK;
	}
	if (!s->n_allocators)
		return MS_OK;
	if (!find_reached(s, &reached)) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "process %d has a malloc in %s beside the C library's, and does not "
		              "show which its calls reach",
		              s->in->tid, s->allocators[0].text->name);
		ms_advise(err, "try again when the program has started");
		return err->status;
	}
	if (!reached) {
		s->ret->beside = s->allocators[0].text->name;
		return MS_OK;
	}
	*ret = reached;
	return judge(s, reached, err);
}

/* ---- the C library's version ---- */

/* gnu_get_libc_version() is: lea VERSION(%rip),%rax; ret. */
static bool read_version(struct search *s, char ret[16])
{
	static const uint8_t lea[] = { 0x48, 0x8d, 0x05 };
	uint8_t code[VERSION_CODE];
	int32_t distance;
	const uint8_t *at;
	ms_addr function, text;

	if (!ms_image_find(&s->libc.image, "gnu_get_libc_version", &function) ||
	    !ms_image_read(&s->libc.image, function, code, sizeof(code)))
		return false;
	at = memmem(code, sizeof(code) - sizeof(distance), lea, sizeof(lea));
	if (!at)
		return false;
	at += sizeof(lea);
	memcpy(&distance, at, sizeof(distance));
	text = function + (ms_addr)(at - code) + sizeof(distance) + (ms_addr)(int64_t)distance;
	if (!ms_image_read(&s->libc.image, text, ret, 15))
		return false;
	ret[15] = '\0';
	ret[strspn(ret, "0123456789.")] = '\0';
	return *ret;
}

static enum ms_status check_version(struct search *s, struct ms_error *err)
{
	struct ms_malloc_library *ret = s->ret;
	unsigned major = 0, minor = 0;

	/* musl does not say it; of what differs, the threads' control blocks are looked at. */
	if (ret->control == &ms_control_musl)
		return MS_OK;
	if (!read_version(s, ret->version))
		(void)snprintf(ret->version, sizeof(ret->version), "unknown");
	if (sscanf(ret->version, "%u.%u", &major, &minor) == 2 && major == MAJOR &&
	    minor >= OLDEST && minor <= NEWEST)
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "process %d uses the GNU C library %s; known are 2.%d to 2.%d", s->in->tid,
	              ret->version, OLDEST, NEWEST);
	ms_advise(err, "use a newer memscan, or start the program with libmalloc_debug");
	return err->status;
}

/* ---- the file ---- */

static enum ms_status read_text(struct search *s, const struct candidate *c, struct ms_error *err)
{
	int fd = ms_mapped_file_open(s->in, c->text);

	s->ret->bytes = ms_mapped_file_take(fd, c->text, c->text->range, s->arena);
	if (fd >= 0)
		(void)close(fd);
	if (s->ret->bytes)
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "the file of the %s of process %d cannot be read, or is another by now: %s",
	              c == &s->libc ? "C library" : "allocator", s->in->tid, c->text->name);
	ms_advise(err, "run memscan as root; after an update of that library restart the program");
	return err->status;
}

/* ---- the outside ---- */

enum ms_status ms_malloc_library_find(const struct ms_running *in, struct ms_arena *arena,
                                      struct ms_malloc_library *ret, struct ms_error *err)
{
	struct search s = { .in = in, .arena = arena, .ret = ret };
	struct candidate *chosen = NULL;
	enum ms_status st;

	memset(ret, 0, sizeof(*ret));
	ret->prefix = "";
	st = look_at_all(&s, err);
	if (!st && !s.libc.text)
		return ms_program_find(in, arena, ret, err);
	if (!st)
		st = choose(&s, &chosen, err);
	if (!st)
		st = check_version(&s, err);
	if (!st)
		st = read_text(&s, chosen, err);
	if (st)
		return st;
	ret->text = chosen->text;
	ret->image = chosen->image;
	ret->image.effort = NULL;
	ret->libc_text = s.libc.text->range;
	return MS_OK;
}

bool ms_malloc_library_code(struct ms_malloc_library *library, const char *name,
                            struct ms_range *ret)
{
	const ms_addr bias = library->image.object.bias;

	if (!library->is_program)
		return ms_image_find_code(&library->image, name, ret);
	if (!ms_symtab_find(&library->symbols, name, ret))
		return false;
	*ret = (struct ms_range){ ret->begin + bias, ret->end + bias };
	return true;
}
