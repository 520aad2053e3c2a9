/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libunwind knows one machine. Stacks of other programs that this kernel runs are unwound by
 * the engine's own unwinder.
 */
#include <stdio.h>
#include <string.h>

#include "engine/unwind/unwind.h"
#include "target/arch/arch.h"
#include "target/stacks/stacks.h"

struct ms_compat_unwinder {
	struct ms_source base;
	const struct ms_frozen_stacks *stacks;
	struct ms_unwinder *unwinder;
	bool cut; /* what was not copied of a stack was asked for */
};

static size_t read_stacks(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	/* NOLINTNEXTLINE(clang-diagnostic-cast-align): it is the first member */
	struct ms_compat_unwinder *u = (struct ms_compat_unwinder *)(void *)src;

	/* What it holds by now has nothing to do with the rest. */
	if (ms_range_find(&u->stacks->missing, addr)) {
		u->cut = true;
		return 0;
	}
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

static void say_why_not_more(const struct ms_compat_unwinder *u, struct ms_backtrace *trace)
{
	const char *why = "no unwind information leads further";

	if (trace->frames.n == MS_MAX_FRAMES)
		why = "the stack is deeper than what is shown";
	else if (ms_unwinder_was_whole(u->unwinder))
		why = "";
	else if (ms_unwinder_over_budget(u->unwinder))
		why = "its unwind tables take too much to read";
	else if (u->cut)
		why = "the stack is larger than what is copied";
	(void)snprintf(trace->failure, sizeof(trace->failure), "%s", why);
}

bool ms_compat_unwind(struct ms_compat_unwinder *u, const struct ms_thread *thread,
                      struct ms_arena *arena, struct ms_backtrace *trace)
{
	struct ms_kept_stack s = { .rest = &u->base };
	ms_addr pcs[MS_MAX_FRAMES];
	size_t n;

	set_registers(&s, u->stacks->arch, thread);
	u->cut = false;
	n = ms_unwind(u->unwinder, &s, pcs, MS_MAX_FRAMES);
	for (size_t i = 0; i < n; i++) {
		struct ms_frame *frame = ms_vec_push(arena, &trace->frames);

		if (!frame)
			return false;
		frame->pc = pcs[i];
	}
	say_why_not_more(u, trace);
	return true;
}
