/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/service.h"

#include "base/clock.h"
#include "scan/trust.h"
#include "target/target.h"

void ms_service_begin(struct ms_service *service)
{
	ms_target_facts(service->pid, &service->target, &service->machine);
	service->began_ns = ms_now_ns();
}

/* Whether the deadline is no more than @ahead_ns away. */
static bool is_late(const struct ms_service *service, uint64_t ahead_ns)
{
	return service->deadline_ns && ms_now_ns() + ahead_ns >= service->deadline_ns;
}

enum ms_status ms_service_ask(struct ms_service *service, struct ms_arena *arena,
                              struct ms_report *ret, struct ms_error *err)
{
	const struct ms_service_host *host = service->host;
	uint64_t since_ns = ms_now_ns();
	struct ms_trust trust = { 0 };
	enum ms_status st;

	service->deadline_ns = service->limit_ns ? since_ns + service->limit_ns : 0;
	for (;;) {
		const char *why;

		st = host->attempt(service->ctx, arena, ret, err);
		trust.spent_ns = ms_now_ns() - since_ns;
		if (!st)
			service->options.anchors = ret->anchors;
		why = ms_trust_doubt(&trust, st, ret, err);
		if (!why || service->once || is_late(service, ms_trust_pause_ns(&trust)))
			break;
		if (host->doubted)
			host->doubted(service->ctx, trust.attempts, why);
		ms_sleep_ns(ms_trust_pause_ns(&trust));
	}
	return st ? st : ms_trust_take(&trust, service->pid, arena, ret, err);
}

void ms_service_finish(struct ms_service *service, struct ms_arena *arena, struct ms_report *ret)
{
	uint32_t threads = ret->target.threads; /* those frozen; /proc counts at another time */
	struct ms_error err;

	ret->scan.duration_ns = ms_now_ns() - service->began_ns;
	ret->target = service->target;
	ret->target.threads = threads;
	ret->host = service->machine;
	ret->possible = service->options.possible;
	/* Without names it still is a report. */
	if (service->host->name(service->ctx, arena, ret, &err))
		ms_note_add(arena, &ret->warnings, "functions are not named: %s", err.text);
}
