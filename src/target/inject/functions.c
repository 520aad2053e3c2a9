/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/functions.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/page.h"
#include "target/code/image.h"
#include "target/maps.h"
#include "target/proc.h"

enum {
	BREAKPOINT = 0xcc,
	MOST_TEXT = 64 << 20,
	VERSION_CODE = 16,
	MAJOR = 2,
	/* glibc's versions whose thread control block is known: fs:0x80 is nobody's. */
	OLDEST = 31,
	NEWEST = 43,
};

static const struct {
	const char *name;
	unsigned n_arguments;
	bool needed; /* without the others samples are lost, without these the table is wrong */
} functions[] = {
	[MS_AGENT_MALLOC] = { "malloc", 1, true },
	[MS_AGENT_FREE] = { "free", 1, true },
	[MS_AGENT_CALLOC] = { "calloc", 2, false },
	[MS_AGENT_REALLOC] = { "realloc", 2, true },
	[MS_AGENT_MEMALIGN] = { "memalign", 2, false },
	[MS_AGENT_ALIGNED_ALLOC] = { "aligned_alloc", 2, false },
	[MS_AGENT_POSIX_MEMALIGN] = { "posix_memalign", 3, false },
	[MS_AGENT_VALLOC] = { "valloc", 1, false },
	[MS_AGENT_PVALLOC] = { "pvalloc", 1, false },
};

static_assert(sizeof(functions) / sizeof(functions[0]) == MS_AGENT_N, "a row for each");

const char *ms_function_name(enum ms_agent_function function)
{
	return functions[function].name;
}

/* ---- the C library ---- */

/* What is looked through. */
struct search {
	const struct ms_malloc_functions_in *in;
	struct ms_arena *arena;
	const struct ms_mapping *text; /* of the C library */
	const char *in_front;          /* the file of another that has a malloc; NULL: none */
	struct ms_image image;
	const uint8_t *bytes; /* the text, as the file has it */
};

static bool is_libc(struct ms_image *image)
{
	ms_addr malloc_at, info_at, version_at;

	return ms_image_find(image, "malloc", &malloc_at) &&
	       ms_image_find(image, "malloc_info", &info_at) &&
	       ms_image_find(image, "gnu_get_libc_version", &version_at);
}

static enum ms_status fail_none(pid_t tid, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "process %d has not loaded the GNU C library (it is linked statically, or "
	              "uses another)",
	              tid);
	ms_advise(err, "attach takes programs that load glibc 2.31 to 2.43; others can be scanned "
	               "without stacks, or started with libmalloc_debug");
	return err->status;
}

/* Look at the object whose instructions @map has. */
static enum ms_status look_at(struct search *s, const struct ms_mapping *map, struct ms_error *err)
{
	const struct ms_mapping *head = ms_maps_head(s->in->maps, map);
	struct ms_image image;
	ms_addr at;

	if (!head || !ms_image_open(s->in->mem_fd, head->range.begin, &image))
		return MS_OK;
	if (ms_image_has_allocator(&image)) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "malloc of process %d is not the C library's: %s has another",
		              s->in->tid, map->name);
		ms_advise(err, "use that allocator's own profiler, or scan without stacks");
		return err->status;
	}
	if (!is_libc(&image)) {
		/* The loader has one until the C library is there. */
		if (!s->in_front && ms_image_find(&image, "malloc", &at) &&
		    !ms_image_find(&image, "__tls_get_addr", &at))
			s->in_front = map->name;
		return MS_OK;
	}
	if (s->text && ms_maps_head(s->in->maps, s->text) != head) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "process %d has loaded two C libraries, %s and %s", s->in->tid,
		              s->text->name, map->name);
		ms_advise(err, "a program that loads one by dlmopen() cannot be attached: start it "
		               "with libmalloc_debug");
		return err->status;
	}
	s->text = map;
	s->image = image;
	return MS_OK;
}

static enum ms_status find_libc(struct search *s, struct ms_error *err)
{
	const struct ms_mapping *map;
	enum ms_status st = MS_OK;

	ms_vec_for_each (map, s->in->maps) {
		if (map->prot & MS_PROT_EXEC && map->inode)
			st = look_at(s, map, err);
		if (st)
			return st;
	}
	return s->text ? MS_OK : fail_none(s->in->tid, err);
}

/* gnu_get_libc_version() is: lea VERSION(%rip),%rax; ret. */
static bool read_version(struct search *s, char ret[16])
{
	static const uint8_t lea[] = { 0x48, 0x8d, 0x05 };
	uint8_t code[VERSION_CODE];
	int32_t distance;
	const uint8_t *at;
	ms_addr function, text;

	if (!ms_image_find(&s->image, "gnu_get_libc_version", &function) ||
	    !ms_image_read(&s->image, function, code, sizeof(code)))
		return false;
	at = memmem(code, sizeof(code) - sizeof(distance), lea, sizeof(lea));
	if (!at)
		return false;
	at += sizeof(lea);
	memcpy(&distance, at, sizeof(distance));
	text = function + (ms_addr)(at - code) + sizeof(distance) + (ms_addr)(int64_t)distance;
	if (!ms_image_read(&s->image, text, ret, 15))
		return false;
	ret[15] = '\0';
	ret[strspn(ret, "0123456789.")] = '\0';
	return *ret;
}

static enum ms_status check_version(struct search *s, struct ms_malloc_functions *ret,
                                    struct ms_error *err)
{
	unsigned major = 0, minor = 0;

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

/* ---- its file ---- */

/* Whether the file begins as the library in memory does, its build-id included. */
static bool is_same(const struct search *s, int fd)
{
	const struct ms_mapping *head = ms_maps_head(s->in->maps, s->text);
	uint8_t file[MS_PAGE_BYTES], memory[MS_PAGE_BYTES];

	return pread(fd, file, sizeof(file), 0) == sizeof(file) &&
	       ms_image_read(&s->image, head->range.begin, memory, sizeof(memory)) &&
	       !memcmp(file, memory, sizeof(file));
}

static int open_file(const struct search *s)
{
	char name[512];
	int fd;

	/* Only root may open it so; it is the file itself, though it was deleted. */
	(void)snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, s->text->range.begin,
	               s->text->range.end);
	fd = ms_proc_open(s->in->tid, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (size_t)snprintf(name, sizeof(name), "root%s", s->text->name) < sizeof(name))
		fd = ms_proc_open(s->in->tid, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && !is_same(s, fd)) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static enum ms_status read_text(struct search *s, struct ms_error *err)
{
	size_t len = (size_t)ms_range_len(s->text->range);
	uint8_t *bytes = len <= MOST_TEXT ? ms_arena_alloc(s->arena, len) : NULL;
	int fd = open_file(s);
	ssize_t n = 0;

	if (fd >= 0 && bytes)
		n = pread(fd, bytes, len, (off_t)s->text->offset);
	if (fd >= 0)
		(void)close(fd);
	if (!bytes)
		return ms_fail(err, MS_E_NOMEM, "no memory for the C library's instructions");
	/* The last page of a mapping may be behind the file's end. */
	if (n <= 0 || len - (size_t)n >= MS_PAGE_BYTES) {
		(void)ms_fail(
			err, MS_E_UNSUPPORTED,
			"the file of the C library of process %d cannot be read, or is another "
			"by now: %s",
			s->in->tid, s->text->name);
		ms_advise(err, "run memscan as root; after an update of the C library restart the "
		               "program");
		return err->status;
	}
	s->bytes = bytes;
	return MS_OK;
}

/* ---- its functions ---- */

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

/* Another name of a function that has a place already. */
static bool is_alias(const struct ms_malloc_functions *all, size_t before, ms_addr entry)
{
	for (size_t i = 0; i < before; i++)
		if (all->at[i].found && all->at[i].place.entry == entry)
			return true;
	return false;
}

/* A write over two pages could be broken off between them. */
static bool crosses_page(const struct ms_place *place)
{
	return place->window / MS_PAGE_BYTES != (place->window + MS_JUMP - 1) / MS_PAGE_BYTES;
}

static const char *place_function(struct search *s, size_t i, struct ms_malloc_functions *all)
{
	struct ms_range text = s->text->range;
	size_t len = (size_t)ms_range_len(text);
	struct ms_range code;
	struct ms_place *ret = &all->at[i].place;
	enum ms_place_verdict verdict;
	size_t at;

	if (!ms_image_find_code(&s->image, functions[i].name, &code))
		return "the C library does not have it";
	if (!ms_range_has(text, code.begin) || code.end > text.end || code.begin == code.end)
		return "the C library does not say where it is";
	all->at[i].is_other_name = is_alias(all, i, code.begin);
	if (all->at[i].is_other_name)
		return "it is another name of one that is diverted";
	at = (size_t)(code.begin - text.begin);
	verdict = ms_place_choose(s->bytes + at, (size_t)ms_range_len(code), code.begin,
	                          functions[i].n_arguments, ret);
	if (verdict)
		return verdict_text(verdict);
	if (crosses_page(ret))
		return "its beginning lies across two pages";
	if (ms_place_is_reached(ret, s->bytes, len, text.begin, (size_t)ms_range_len(code)))
		return "a branch may lead to where the jump would be";
	return NULL;
}

static enum ms_status place_all(struct search *s, struct ms_malloc_functions *ret,
                                struct ms_error *err)
{
	for (size_t i = 0; i < MS_AGENT_N; i++) {
		struct ms_malloc_function *function = &ret->at[i];

		function->left_out = place_function(s, i, ret);
		function->found = !function->left_out;
		if (function->found || !functions[i].needed)
			continue;
		(void)ms_fail(err, MS_E_UNSUPPORTED, "%s of process %d cannot be diverted: %s",
		              functions[i].name, s->in->tid, function->left_out);
		ms_advise(err, "please report it, with the C library's package and version; "
		               "meanwhile start the program with libmalloc_debug");
		return err->status;
	}
	return MS_OK;
}

enum ms_status ms_malloc_functions_find(const struct ms_malloc_functions_in *in,
                                        struct ms_arena *arena, struct ms_malloc_functions *ret,
                                        struct ms_error *err)
{
	struct search s = { .in = in, .arena = arena };
	enum ms_status st = find_libc(&s, err);

	memset(ret, 0, sizeof(*ret));
	if (!st)
		st = check_version(&s, ret, err);
	if (!st)
		st = read_text(&s, err);
	if (st)
		return st;
	ret->file = s.text->name;
	ret->in_front = s.in_front;
	ret->text = s.text->range;
	return place_all(&s, ret, err);
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
