/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libunwind knows one machine. Stacks of other programs that this kernel runs are unwound by
 * the engine's own unwinder, each within the piece of it that was copied.
 */
#include <stdio.h>
#include <string.h>

#include "engine/unwind/unwind.h"
#include "target/arch/arch.h"
#include "target/maps.h"
#include "target/stacks/stacks.h"

struct ms_compat_unwinder {
	struct ms_source base;
	const struct ms_frozen_stacks *stacks;
	struct ms_unwinder *unwinder;
};

static size_t read_stacks(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	/* NOLINTNEXTLINE(clang-diagnostic-cast-align): it is the first member */
	const struct ms_compat_unwinder *u = (const struct ms_compat_unwinder *)(void *)src;

	return ms_stacks_read(u->stacks, addr, buf, len);
}

static const struct ms_source_ops ops = { .name = "stacks", .read = read_stacks };

struct ms_compat_unwinder *ms_compat_unwinder_new(const struct ms_frozen_stacks *stacks,
                                                  struct ms_arena *arena)
{
	struct ms_compat_unwinder *u = ms_arena_alloc(arena, sizeof(*u));

	if (!u)
		return NULL;
	u->base.ops = &ops;
	u->base.abi = stacks->arch->abi;
	u->base.mappings = stacks->maps;
	u->stacks = stacks;
	u->unwinder = ms_unwinder_new(&u->base, arena);
	return u->unwinder ? u : NULL;
}

static void set(struct ms_kept_stack *s, const struct ms_arch *arch, uint8_t dwarf, uint64_t value)
{
	uint64_t reg = ms_row_register(arch->abi.word_bytes, dwarf);

	if (reg < MS_ROW_REGISTERS) {
		s->known |= 1U << reg;
		s->registers[reg] = value;
	}
}

/* Of a thread that sleeps in the kernel and did not stop only its call's arguments are known. */
static void set_registers(struct ms_kept_stack *s, const struct ms_arch *arch,
                          const struct ms_thread *thread)
{
	for (uint8_t i = 0; thread->stopped && i < arch->n_dwarf; i++)
		set(s, arch, i, thread->words[arch->dwarf[i]]);
	for (size_t i = 0; !thread->stopped && i < thread->n_words && i < 6; i++)
		set(s, arch, arch->dwarf_args[i], thread->words[i]);
	set(s, arch, arch->dwarf_pc, thread->pc);
	set(s, arch, arch->dwarf_sp, thread->sp);
	s->interrupted = true;
}

/* The copied piece that the stack pointer is in. */
static void set_bytes(struct ms_kept_stack *s, const struct ms_frozen_stacks *stacks, ms_addr sp)
{
	const uint8_t *bytes = (const uint8_t *)stacks->bytes;
	const struct ms_range *range;

	ms_vec_for_each (range, &stacks->copied) {
		if (ms_range_has(*range, sp)) {
			s->at = range->begin;
			s->bytes = bytes;
			s->n = (size_t)ms_range_len(*range);
			return;
		}
		bytes += ms_range_len(*range);
	}
}

static bool is_code(const struct ms_frozen_stacks *stacks, ms_addr addr)
{
	const struct ms_mapping *map = ms_maps_find(&stacks->maps, addr);

	return map && map->prot & MS_PROT_EXEC;
}

/*
 * A call through a bad pointer: pc leads nowhere, but where it came from was pushed. Go on
 * from there. False when this is no such case.
 */
static bool step_over_bad_call(struct ms_compat_unwinder *u, struct ms_kept_stack *s)
{
	ms_addr *sp = &s->registers[MS_ROW_RSP];
	uint64_t caller;

	if (!u->stacks->arch->pushes_returns || is_code(u->stacks, s->registers[MS_ROW_RETURN]) ||
	    !ms_source_word(&u->base, *sp, &caller) || !is_code(u->stacks, caller))
		return false;
	s->registers[MS_ROW_RETURN] = caller;
	*sp += u->base.abi.word_bytes;
	s->interrupted = false;
	return true;
}

static void say_why_not_more(const struct ms_compat_unwinder *u, const struct ms_kept_stack *s,
                             struct ms_backtrace *trace)
{
	const char *why = "no unwind information leads further";

	if (trace->frames.n == MS_MAX_FRAMES)
		why = "the stack is deeper than what is shown";
	else if (ms_unwinder_was_whole(u->unwinder))
		why = "";
	else if (ms_unwinder_is_tired(u->unwinder))
		why = "its unwind tables take too much to read";
	else if (ms_range_find(&u->stacks->missing, s->at + s->n))
		why = "the stack is larger than what is copied";
	(void)snprintf(trace->failure, sizeof(trace->failure), "%s", why);
}

bool ms_compat_unwind(struct ms_compat_unwinder *u, const struct ms_thread *thread,
                      struct ms_arena *arena, struct ms_backtrace *trace)
{
	struct ms_kept_stack s = { .known = 0 };
	ms_addr pcs[MS_MAX_FRAMES];
	size_t n = 0;

	set_registers(&s, u->stacks->arch, thread);
	set_bytes(&s, u->stacks, thread->sp);
	if (step_over_bad_call(u, &s))
		pcs[n++] = thread->pc;
	n += ms_unwind(u->unwinder, &s, pcs + n, MS_MAX_FRAMES - n);
	if (!n)
		pcs[n++] = thread->pc;
	for (size_t i = 0; i < n; i++) {
		struct ms_frame *frame = ms_vec_push(arena, &trace->frames);

		if (!frame)
			return false;
		frame->pc = pcs[i];
	}
	say_why_not_more(u, &s, trace);
	return true;
}
