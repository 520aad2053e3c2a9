/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the kernel knew of a process: signal stacks, and the values that epoll instances,
 * timers, queued signals and requests in flight hold. No core has them. But who has none of the
 * functions which give them to the kernel cannot have any there.
 */
#include <stdio.h>
#include <string.h>

#include "base/elf/object.h"
#include "target/arch/arch.h"
#include "target/core/parts.h"

enum { MOST_CODE = 64 << 20, PIECE = 1 << 20 }; /* of a static program, all together */

/* Functions, by what they give. */
enum given { GIVES_STACKS, GIVES_EPOLL, GIVES_TIMERS, GIVES_SIGNALS, GIVES_REQUESTS, GIVEN };

static const struct {
	const char *function;
	enum given given;
} givers[] = {
	{ "sigaltstack", GIVES_STACKS },
	{ "epoll_ctl", GIVES_EPOLL },
	{ "timer_create", GIVES_TIMERS },
	{ "sigqueue", GIVES_SIGNALS },
	{ "pthread_sigqueue", GIVES_SIGNALS },
	{ "mq_notify", GIVES_SIGNALS },
	/* liburing's and libaio's; a program that makes the calls by itself is not recognised */
	{ "io_uring_queue_init", GIVES_REQUESTS },
	{ "io_uring_queue_init_params", GIVES_REQUESTS },
	{ "io_uring_queue_init_mem", GIVES_REQUESTS },
	{ "io_uring_setup", GIVES_REQUESTS },
	{ "io_submit", GIVES_REQUESTS },
};

struct asking {
	struct ms_core *core;
	bool given[GIVEN];
	bool unknown;        /* some object could not be asked */
	uint64_t code_bytes; /* that were searched */
	uint8_t *piece;
};

static void ask_dynamic(struct asking *a, const struct ms_dynamic *dynamic)
{
	const struct ms_reader from = ms_source_reader(&a->core->base);
	ms_addr hash = dynamic->gnu_hash ? dynamic->gnu_hash : dynamic->hash;
	uint64_t word;

	if (!ms_read_all(from, hash, &word, sizeof(word)) ||
	    !ms_read_all(from, dynamic->symbols, &word, sizeof(word)) ||
	    !ms_read_all(from, dynamic->strings, &word, sizeof(word))) {
		a->unknown = true;
		return;
	}
	for (size_t i = 0; i < sizeof(givers) / sizeof(givers[0]); i++)
		if (ms_dynamic_imports(from, dynamic, givers[i].function))
			a->given[givers[i].given] = true;
}

/* The begin of @range behind zeros that nobody wrote; instructions are others. */
static ms_addr skip_zeros(const struct ms_core *core, struct ms_range range)
{
	size_t i = ms_range_search(core->parts.at, core->parts.n, sizeof(*core->parts.at),
	                           range.begin);

	for (; i < core->parts.n && core->parts.at[i].range.begin <= range.begin &&
	       (core->parts.at[i].where == MS_CORE_IN_HOLE ||
	        core->parts.at[i].where == MS_CORE_ZERO);
	     i++)
		range.begin = core->parts.at[i].range.end;
	return range.begin < range.end ? range.begin : range.end;
}

/* Whether the code at @range makes the call of a static program's sigaltstack(). */
static bool calls_sigaltstack(struct asking *a, struct ms_range range)
{
	const struct ms_code_bytes *call = &a->core->layout.arch->sigaltstack_code;

	while ((range.begin = skip_zeros(a->core, range)) < range.end) {
		size_t len =
			ms_range_len(range) < PIECE ? (size_t)ms_range_len(range) : (size_t)PIECE;

		a->code_bytes += len;
		if (a->code_bytes > MOST_CODE)
			return true;
		if (ms_source_read(&a->core->base, range.begin, a->piece, len) != len) {
			a->unknown = true;
			return false;
		}
		if (memmem(a->piece, len, call->bytes, call->n))
			return true;
		if (len < PIECE)
			break;
		range.begin += PIECE - (size_t)call->n + 1;
	}
	return false;
}

/* No function's name is known of a static program, but its code is there. */
static void ask_static(struct asking *a, const struct ms_object *object)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, &a->core->base.mappings)
		if ((map->prot & MS_PROT_EXEC) && ms_range_has(object->span, map->range.begin) &&
		    calls_sigaltstack(a, map->range))
			a->given[GIVES_STACKS] = true;
	a->given[GIVES_EPOLL] = a->given[GIVES_TIMERS] = a->given[GIVES_SIGNALS] = true;
}

static void ask(struct asking *a, const struct ms_core_cell *cell)
{
	const struct ms_core_file *file = ms_core_file_of(a->core, cell);
	struct ms_dynamic dynamic = { 0 };
	struct ms_object object;

	if (!file || file->head != cell->range.begin)
		return;
	if (!ms_object_read(ms_source_reader(&a->core->base), cell->range.begin,
	                    a->core->base.abi.page_bytes, &object)) {
		a->unknown |= file->code;
		return;
	}
	if (object.dynamic)
		dynamic = ms_dynamic_read(ms_source_reader(&a->core->base), &object);
	if (dynamic.symbols && ms_dynamic_is_shared(&dynamic))
		ask_dynamic(a, &dynamic);
	else if (file->program && !object.has_interpreter)
		ask_static(a, &object);
}

static void warn(const struct asking *a)
{
	static const char *const names[] = { [GIVES_EPOLL] = "epoll instances",
		                             [GIVES_TIMERS] = "timers",
		                             [GIVES_SIGNALS] = "queued signals",
		                             [GIVES_REQUESTS] = "requests in flight" };
	struct ms_core *core = a->core;
	char text[96] = "";

	for (enum given i = GIVES_EPOLL; i < GIVEN; i++)
		if (a->given[i])
			(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			               *text ? ", " : "", names[i]);
	if (*text)
		ms_note_add(core->arena, core->warnings,
		            "a core does not have what %s hold, which the program may have: what "
		            "only these point to is reported as leaked",
		            text);
	if (core->base.unknown_stack_bytes)
		ms_note_add(core->arena, core->warnings,
		            "a core does not say where signal stacks are: unreachable blocks of "
		            "%llu bytes or more, which may be one, and what they lead to are "
		            "possible leaks, not leaks",
		            (unsigned long long)core->base.unknown_stack_bytes);
}

bool ms_core_kernels_ask(struct ms_core *core)
{
	struct asking a = { .core = core, .piece = ms_arena_alloc(core->arena, PIECE) };
	const struct ms_core_cell *cell;

	if (!a.piece)
		return false;
	if (core->layout.by_memscan) {
		core->base.unknown_stack_bytes = core->layout.unknown_stack_bytes;
		core->base.n_requests = core->layout.n_requests;
		core->base.serves_files = core->layout.serves_files;
		return true;
	}
	ms_vec_for_each (cell, &core->cells)
		if (cell->file && !cell->offset)
			ask(&a, cell);
	if (a.given[GIVES_STACKS] || a.unknown)
		core->base.unknown_stack_bytes = core->base.abi.signal_frame.least_stack;
	warn(&a);
	return true;
}
