/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SCAN_SERVICE_H
#define MS_SCAN_SERVICE_H

/*
 * One scan, in the process that asks for it: attempts until an answer can be believed
 * (trust.h), what the report says of the target and of this machine, names for its stacks.
 *
 * It knows in which order, how often and until when. How a target is held and searched, by
 * which way the report comes, what names functions and where messages go is its host's:
 *
 *	memscan       cli/scan/cmd_scan.c   three processes for each attempt (cli/scan/trio.h)
 *	memscan run   cli/run/sweeps.c      one attempt: the target stands, and ends then
 *	the library   inproc/search.c       the program forks itself (inproc/search.h)
 */

#include <sys/types.h>

#include "engine/report.h"
#include "engine/scan.h"

/*
 * What a scan needs of its host; @ctx is service->ctx.
 *
 * To add a host: write attempt() and name(); the others are for those who have something to
 * say meanwhile, or who scan twice.
 */
struct ms_service_host {
	/*
	 * Freeze, hold and search the target once, with service->options, until
	 * service->deadline_ns. @arena, of @ret's vectors, is to be emptied first.
	 */
	enum ms_status (*attempt)(void *ctx, struct ms_arena *arena, struct ms_report *ret,
	                          struct ms_error *err);
	/* Of so many attempts the last was in doubt, and another one follows; or NULL. */
	void (*doubted)(void *ctx, unsigned attempts, const char *why);
	/* Wait until the second scan of two, which is to confirm @n_lost blocks; or NULL. */
	enum ms_status (*wait)(void *ctx, size_t n_lost, struct ms_error *err);
	/* Fill report->names; what fails is noted in the report. */
	enum ms_status (*name)(void *ctx, struct ms_arena *arena, struct ms_report *report,
	                       struct ms_error *err);
};

struct ms_service {
	const struct ms_service_host *host;
	void *ctx;
	pid_t pid;
	struct ms_scan_options options;
	uint64_t limit_ns; /* of each scan, with all its attempts; 0: none */
	bool once;         /* there is no second attempt: the target would be no other */

	/* the service's */
	uint64_t began_ns;    /* of the report's duration; a host may set another */
	uint64_t deadline_ns; /* of the present scan, as ms_now_ns(); 0: none */
	struct ms_target_facts target;
	struct ms_host_facts machine;
};

/* Note what /proc says of the target, while there is one, and when it began. The first step. */
void ms_service_begin(struct ms_service *service);

/*
 * Scan. A heap that was caught in the middle of a change is looked at again, some times and
 * a little later each time, but not past the deadline; the last answer counts.
 *
 * Returns what attempt() does, or why the answer says nothing (ms_trust_take()).
 */
ms_must_check enum ms_status ms_service_ask(struct ms_service *service, struct ms_arena *arena,
                                            struct ms_report *ret, struct ms_error *err);

/*
 * Scan twice: what is lost stays lost (engine/lost/confirm.h). There is no second scan where
 * the first found nothing lost. What the first cost and warned of is in @ret as well.
 *
 * @wait_ns: that host->wait() takes, for the report
 */
ms_must_check enum ms_status ms_service_ask_twice(struct ms_service *service, uint64_t wait_ns,
                                                  struct ms_arena *arena, struct ms_report *ret,
                                                  struct ms_error *err);

/* Complete the answer: facts, duration, names. */
void ms_service_finish(struct ms_service *service, struct ms_arena *arena, struct ms_report *ret);

#endif
