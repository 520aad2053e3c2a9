/* SPDX-License-Identifier: Apache-2.0 */
#include "target/freeze/remaining.h"

#include <stdbool.h>

#include "target/arch/arch.h"

static const uint64_t ms_ns = 1000000;

/* Half of what marks can distinguish lies ahead, 12 days. */
static const uint64_t ahead_ms = MS_MARK_LIMIT / 2;

/* A deadline that has passed longer ago than this is none of this clock's. */
static const uint64_t passed_ms = 60000;

static uint64_t round_up(uint64_t ns)
{
	return (ns + ms_ns - 1) / ms_ns;
}

static uint32_t mark_of(uint64_t deadline_ms)
{
	return (uint32_t)(deadline_ms % MS_MARK_LIMIT) + 1;
}

/* The deadline that the mark says, unless it was made by another clock (a namespace's). */
static bool read_mark(const struct ms_waiting *waiting, uint64_t now_ns, uint64_t *ret_ms)
{
	uint64_t now_ms = now_ns / ms_ns;
	uint64_t ahead;

	if (!waiting->mark)
		return false;
	ahead = (MS_MARK_LIMIT + (uint64_t)waiting->mark - mark_of(now_ms)) % MS_MARK_LIMIT;
	if (ahead > ahead_ms) {
		uint64_t ago = MS_MARK_LIMIT - ahead;

		*ret_ms = now_ms - ago;
		return ago <= passed_ms && ago <= now_ms;
	}
	*ret_ms = now_ms + ahead;
	return ahead <= round_up(waiting->timeout_ns) + 1;
}

uint64_t ms_remaining(const struct ms_waiting *waiting, uint64_t now_ns, uint32_t *ret_mark)
{
	uint64_t since_ns = waiting->since_ns ? waiting->since_ns : now_ns;
	uint64_t deadline_ms;

	*ret_mark = 0;
	if (waiting->timeout_ns > UINT64_MAX - since_ns - ms_ns)
		return waiting->timeout_ns;
	if (!read_mark(waiting, now_ns, &deadline_ms))
		deadline_ms = round_up(since_ns + waiting->timeout_ns);
	if (deadline_ms * ms_ns <= now_ns)
		return 0;
	if (deadline_ms - now_ns / ms_ns < ahead_ms)
		*ret_mark = mark_of(deadline_ms);
	return deadline_ms * ms_ns - now_ns;
}
