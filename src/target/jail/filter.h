/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_FILTER_H
#define MS_TARGET_FILTER_H

/*
 * A list of allowed system calls, as a program for seccomp.
 *
 * An argument is looked at in its low 32 bits: those of which a rule is made are int to
 * the kernel, or flags of which it refuses higher ones.
 */

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

enum { MS_FILTER_CONDITIONS = 3, MS_FILTER_CODE = 512 };

/* The argument @arg, of its bits @mask, is @value; all of a mask of 0 are. */
struct ms_filter_condition {
	uint8_t arg;
	uint32_t mask;
	uint32_t value;
};

/* A call is allowed when all of a rule's conditions hold; by any of several rules for it. */
struct ms_filter_rule {
	uint32_t call;
	struct ms_filter_condition conditions[MS_FILTER_CONDITIONS];
};

struct ms_filter {
	uint32_t audit;        /* AUDIT_ARCH_*: calls of any other kind end the process */
	uint32_t foreign_call; /* so do numbers from this on; 0: none */
	const struct ms_filter_rule *rules;
	size_t n;
	const struct ms_filter_rule *more; /* one more; NULL: none */
	uint32_t otherwise;                /* SECCOMP_RET_* for what no rule allows */
};

/* How many instructions were written to @code, of MS_FILTER_CODE. */
size_t ms_filter_compile(const struct ms_filter *filter, struct sock_filter *code);

#endif
