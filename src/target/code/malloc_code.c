/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where malloc lies in a process.
 *
 * The object file of glibc's is linked in one piece, exported from `malloc` to
 * `malloc_info`, its static functions before and behind. What else exports both
 * names is glibc under another name. musl's, which exports nothing of its own, and what is
 * in static programs are known by the data that they refer to.
 *
 * A library that is an allocator and nothing else is known by a function of its own
 * interface; all of its instructions serve malloc. What just stands in front of malloc
 * has no such function and is left alone. An allocator within a program is found once a
 * decoder has said where it keeps its state (linked_code.h).
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "target/code/gadgets.h"
#include "target/code/image.h"
#include "target/code/linked_code.h"
#include "target/code/musl_code.h"
#include "target/code/signal_code.h"
#include "target/code/static_code.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/target.h"

/*
 * Source: DWARF of glibc 2.23 to 2.43, amd64: static functions begin 0x6120 below
 * malloc at most, on i386 (2.31, 2.36, 2.43) 0x4960; malloc_info is the last but for a few hundred
 * bytes.
 */
enum { BEFORE_MALLOC = 0x6400, BEHIND_INFO = 0x1000 };

/*
 * Source: the text of libjemalloc.so.2 (5.2.1, 5.3.0), libtcmalloc*.so.4 (2.8.1, 2.10) and
 * libmimalloc.so.2 (2.0.9) has 0.7 MiB at most. What is larger has another purpose, too.
 */
enum { MOST_TEXT = 4 << 20, MAPPINGS_PER_READ = 16 };

/* What is looked through: a process that runs, or what a source shows. */
struct memory {
	const struct ms_running *running;
	struct ms_source *src; /* NULL: it runs */
	struct ms_effort *effort;
};

static bool open_image(const struct memory *memory, ms_addr base, struct ms_image *ret)
{
	return memory->src ? ms_image_open_in(memory->src, base, memory->effort, ret)
	                   : ms_image_open(memory->running->tid, memory->running->mem_fd, base,
	                                   memory->effort, ret);
}

static void add(struct ms_range *ranges, uint32_t *n, struct ms_range range)
{
	if (*n < MS_CODE_RANGES)
		ranges[(*n)++] = range;
}

static void add_code(struct ms_collection *shared, struct ms_range code, struct ms_range text)
{
	code = ms_range_common(code, text);
	if (code.begin == code.end || shared->n_malloc_code == MS_CODE_RANGES ||
	    shared->n_libc_code == MS_CODE_RANGES)
		return;
	add(shared->malloc_code, &shared->n_malloc_code, code);
	add(shared->libc_code, &shared->n_libc_code, text);
}

static void add_any(struct ms_collection *shared, struct ms_range text)
{
	if (shared->n_all_code < MS_ALL_CODE_RANGES)
		shared->all_code[shared->n_all_code++] = text;
}

static bool is_allocator(struct ms_image *image, struct ms_range text)
{
	return !ms_image_is_program(image) && ms_range_len(text) <= MOST_TEXT &&
	       ms_image_has_allocator(image);
}

/*
 * What malloc calls beside the C library's main file: glibc's locks are in a file of their own
 * before 2.34, and the loader finds a function that is called for the first time.
 */
static bool is_called(struct ms_image *image)
{
	ms_addr at;

	return ms_image_find(image, "pthread_mutex_lock", &at) ||
	       ms_image_find(image, "__tls_get_addr", &at);
}

static bool add_musl(struct ms_collection *shared, const struct ms_image *image,
                     const struct ms_mappings *maps, struct ms_range text, struct ms_arena *arena)
{
	struct ms_range code[MS_MUSL_CODE_RANGES];
	size_t n = ms_musl_code_find(image, maps, arena, code);

	for (size_t i = 0; i < n; i++)
		add_code(shared, code[i], text);
	return n > 0;
}

/* Look for malloc in the image that @text maps the instructions of. */
static void look_at(const struct memory *memory, const struct ms_mappings *maps,
                    const struct ms_mapping *text, struct ms_collection *shared,
                    struct ms_arena *arena)
{
	const struct ms_mapping *head = ms_maps_head(maps, text);
	struct ms_image image;
	ms_addr malloc_at;
	ms_addr info_at;
	struct ms_range code;

	if (!head || !open_image(memory, head->range.begin, &image))
		return;
	if (is_allocator(&image, text->range)) {
		add(shared->malloc_code, &shared->n_malloc_code, text->range);
		return;
	}
	if (ms_image_find(&image, "malloc", &malloc_at) &&
	    ms_image_find(&image, "malloc_info", &info_at) && malloc_at < info_at)
		code = (struct ms_range){ malloc_at - BEFORE_MALLOC, info_at + BEHIND_INFO };
	else if (ms_image_is_program(&image))
		return;
	else if (ms_image_needs_others(&image)) { /* as no static program does, nor musl */
		if (is_called(&image))
			add(shared->libc_code, &shared->n_libc_code, text->range);
		return;
	} else if (!ms_static_code_find(&image, maps, arena, &code)) {
		if (!add_musl(shared, &image, maps, text->range, arena) && is_called(&image))
			add(shared->libc_code, &shared->n_libc_code, text->range);
		return;
	}
	add_code(shared, code, text->range);
}

static void look_at_once(const struct memory *memory, const struct ms_mappings *maps,
                         const struct ms_mapping *text, struct ms_collection *shared,
                         struct ms_arena *arena)
{
	const uint32_t before = shared->n_malloc_code + shared->n_libc_code;

	if (ms_effort_may_skip(memory->effort, text, (size_t)(text - maps->at)))
		return;
	look_at(memory, maps, text, shared, arena);
	/* A second copy of a C library (dlmopen) has a malloc of its own. */
	if (shared->n_malloc_code + shared->n_libc_code == before)
		ms_effort_remember(memory->effort, text, arena);
}

/* Take what was found as a whole, or nothing of it. */
static void add_linked(struct ms_collection *shared, const struct ms_linked_code *code)
{
	if (!code->n || MS_CODE_RANGES - shared->n_malloc_code < code->n ||
	    MS_ANCHORS - shared->anchors.n < code->anchors.n ||
	    (code->calls_into_text && shared->n_libc_code == MS_CODE_RANGES))
		return;
	for (size_t i = 0; i < code->n; i++)
		add(shared->malloc_code, &shared->n_malloc_code, code->at[i]);
	shared->n_linked_code += (uint32_t)code->n;
	for (uint32_t i = 0; i < code->anchors.n; i++)
		(void)ms_anchors_add(&shared->anchors, code->anchors.at[i]);
	if (code->calls_into_text)
		add(shared->libc_code, &shared->n_libc_code, code->text);
}

/* Look for allocators that are linked in, behind all others in the list. */
static void look_for_linked(const struct memory *memory, const struct ms_mappings *maps,
                            struct ms_collection *shared, struct ms_arena *arena)
{
	const struct ms_mapping *map;

	if (!shared->wanted.n)
		return;
	ms_vec_for_each (map, maps) {
		const struct ms_mapping *head;
		struct ms_linked_code code;
		struct ms_image image;

		/* All mappings are looked through for each that may have one of the anchors. */
		if (!(map->prot & MS_PROT_EXEC) || !map->inode ||
		    !ms_effort_take(memory->effort, 1 + maps->n / MAPPINGS_PER_READ, 0))
			continue;
		head = ms_maps_head(maps, map);
		if (!head || !open_image(memory, head->range.begin, &image) ||
		    is_allocator(&image, map->range))
			continue;
		ms_linked_code_find(&image, maps, &shared->wanted, arena, &code);
		add_linked(shared, &code);
	}
}

static void look_through(const struct memory *memory, const struct ms_mappings *maps,
                         struct ms_collection *shared, struct ms_arena *arena)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, maps) {
		if (!(map->prot & MS_PROT_EXEC))
			continue;
		add_any(shared, map->range);
		if (map->inode)
			look_at_once(memory, maps, map, shared, arena);
		else if (!strcmp(map->name, "[vdso]"))
			add(shared->libc_code, &shared->n_libc_code, map->range);
	}
	look_for_linked(memory, maps, shared, arena);
	shared->code_cut = memory->effort->ended;
}

static void forget(struct ms_collection *shared)
{
	shared->n_malloc_code = 0;
	shared->n_libc_code = 0;
	shared->n_linked_code = 0;
	shared->anchors.n = 0;
	shared->n_all_code = 0;
	shared->has_signal_stacks = false;
	shared->code_cut = false;
	shared->gadgets = (struct ms_gadgets){ 0 };
}

void ms_malloc_code_find_in(struct ms_source *src, struct ms_collection *shared,
                            struct ms_arena *arena)
{
	struct ms_effort effort = { 0 };
	const struct memory memory = { .src = src, .effort = &effort };

	forget(shared);
	look_through(&memory, &src->mappings, shared, arena);
}

void ms_malloc_code_find(pid_t pid, struct ms_collection *shared, struct ms_arena *arena)
{
	pid_t living = ms_proc_living_thread(pid);
	struct ms_mappings maps = { 0 };
	const struct ms_running running = { living, ms_proc_open(living, "mem", O_RDONLY), &maps };
	struct ms_effort effort = { 0 };
	const struct memory memory = { .running = &running, .effort = &effort };
	struct ms_proc_stat stat = { 0 };
	struct ms_error err;

	(void)ms_proc_stat(living, &stat);
	shared->program = stat.program; /* before all that is learnt of it */
	shared->arch = ms_target_arch(living);
	forget(shared);
	if (running.mem_fd < 0)
		return;
	if (!ms_maps_read(living, arena, &maps, &err)) {
		look_through(&memory, &maps, shared, arena);
		ms_gadgets_find(&running, shared, arena);
		/* Where a signal has a handler already, threads are asked in any case. */
		shared->has_signal_stacks = !ms_proc_has_handlers(living) &&
		                            ms_signal_stacks_are_in(&running, shared->arch, arena);
	}
	(void)close(running.mem_fd);
}
