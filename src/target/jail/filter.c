/* SPDX-License-Identifier: Apache-2.0 */
#include "target/jail/filter.h"

#include <assert.h>
#include <linux/seccomp.h>

/* By hand, for the lists are short and libseccomp allocates by malloc. */

struct writer {
	struct sock_filter *code;
	size_t n;
};

static void put(struct writer *w, struct sock_filter instruction)
{
	assert(w->n < MS_FILTER_CODE);
	w->code[w->n++] = instruction;
}

static void load(struct writer *w, size_t offset)
{
	put(w, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void answer(struct writer *w, uint32_t what)
{
	put(w, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

/* Go on when it is @value; else jump, to where is settled later. */
static void expect(struct writer *w, uint32_t value)
{
	put(w, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 0));
}

/* The machine is little-endian, so that the low half of an argument comes first. */
static size_t low_half(uint8_t arg)
{
	return offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t);
}

static void put_rule(struct writer *w, const struct ms_filter_rule *rule)
{
	size_t begin = w->n;

	load(w, offsetof(struct seccomp_data, nr));
	expect(w, rule->call);
	for (size_t i = 0; i < MS_FILTER_CONDITIONS; i++) {
		const struct ms_filter_condition *c = &rule->conditions[i];

		if (!c->mask)
			continue;
		load(w, low_half(c->arg));
		if (c->mask != UINT32_MAX)
			put(w, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, c->mask));
		expect(w, c->value);
	}
	answer(w, SECCOMP_RET_ALLOW);
	for (size_t i = begin; i < w->n; i++)
		if (BPF_CLASS(w->code[i].code) == BPF_JMP)
			w->code[i].jf = (uint8_t)(w->n - i - 1);
}

size_t ms_filter_compile(const struct ms_filter *filter, struct sock_filter *code)
{
	struct writer w = { code, 0 };

	load(&w, offsetof(struct seccomp_data, arch));
	put(&w, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, filter->audit, 1, 0));
	answer(&w, SECCOMP_RET_KILL_PROCESS);
	if (filter->foreign_call) {
		load(&w, offsetof(struct seccomp_data, nr));
		put(&w, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K,
		                                     filter->foreign_call, 0, 1));
		answer(&w, SECCOMP_RET_KILL_PROCESS);
	}
	for (size_t i = 0; i < filter->n; i++)
		put_rule(&w, &filter->rules[i]);
	if (filter->more)
		put_rule(&w, filter->more);
	answer(&w, filter->otherwise);
	return w.n;
}
