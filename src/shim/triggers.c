/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/triggers.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/next.h"
#include "shim/out/heapdump.h"
#include "shim/out/record.h"
#include "shim/out/say.h"
#include "shim/out/stats.h"
#include "shim/shim.h"

/* Below SIGRTMAX; on Android and with the GNU C library alike 45 to 49. */
enum {
	ENABLE_BELOW = 19,
	RECORD_BELOW = 18,
	DUMP_BELOW = 17,
	UNREACHABLE_BELOW = 16,
	STATS_BELOW = 15,
};

enum { WANT_DUMP = 1, WANT_UNREACHABLE = 2, WANT_STATS = 4 };

uint32_t ms_triggered; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static struct {
	bool (*log_unreachable)(bool contents, size_t limit);
} state; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static void handle(int number, siginfo_t *info, void *context)
{
	int kept = errno;
	int below = SIGRTMAX - number;

	(void)info;
	(void)context;
	if (below == ENABLE_BELOW)
		(void)__atomic_xor_fetch(&ms_shim.capturing, 1, __ATOMIC_RELAXED);
	else if (below == RECORD_BELOW)
		ms_record_write(ms_shim.options.record_file);
	else if (below == DUMP_BELOW)
		(void)__atomic_or_fetch(&ms_triggered, WANT_DUMP, __ATOMIC_SEQ_CST);
	else if (below == UNREACHABLE_BELOW)
		(void)__atomic_or_fetch(&ms_triggered, WANT_UNREACHABLE, __ATOMIC_SEQ_CST);
	else
		(void)__atomic_or_fetch(&ms_triggered, WANT_STATS, __ATOMIC_SEQ_CST);
	if (ms_triggers_pending())
		__atomic_store_n(&ms_shim.way, MS_SHIM_CARE, __ATOMIC_SEQ_CST);
	errno = kept;
}

static bool install(int below, const char *what)
{
	struct sigaction action = { .sa_sigaction = handle,
		                    .sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK };

	if (sigaction(SIGRTMAX - below, &action, NULL) == 0)
		return true;
	ms_say("Unable to set up %s function: %s", what, strerror(errno));
	return false;
}

/* From the folder that we are from ourselves, or else from where libraries are. */
static void *load_unreachable(void)
{
	static const char name[] = "libmemunreachable.so.1";
	char path[PATH_MAX];
	void *library = NULL;
	const char *slash;
	Dl_info own;

	if (dladdr(&state, &own) && own.dli_fname && (slash = strrchr(own.dli_fname, '/'))) {
		(void)snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - own.dli_fname),
		               own.dli_fname, name);
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return library ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* A copy that the program is linked with comes first. */
static void find_unreachable(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "LogUnreachableMemory");
	void *library;

	if (!symbol) {
		library = load_unreachable();
		symbol = library ? dlsym(library, "LogUnreachableMemory") : NULL;
	}
	memcpy(&state.log_unreachable, &symbol, sizeof(symbol));
}

bool ms_triggers_init(void)
{
	static const struct {
		uint32_t with;
		int below;
		const char *what;
		const char *use;
	} rows[] = {
		{ MS_OPT_BACKTRACE_ON_SIGNAL, ENABLE_BELOW, "backtrace signal enable",
		  "to enable backtracing" },
		{ MS_OPT_BACKTRACE, DUMP_BELOW, "backtrace dump signal", "to dump the backtrace" },
		{ MS_OPT_RECORD, RECORD_BELOW, "record dump signal",
		  "to dump the allocation records" },
		{ MS_OPT_STATS_ON_SIGNAL, STATS_BELOW, "log allocator stats signal",
		  "to log allocator stats" },
		{ MS_OPT_UNREACHABLE_ON_SIGNAL, UNREACHABLE_BELOW, "check unreachable signal",
		  "to check for unreachable memory" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!ms_shim_has(rows[i].with))
			continue;
		if (!install(rows[i].below, rows[i].what))
			return false;
		if (ms_shim_has(MS_OPT_VERBOSE))
			ms_say("%s: Run: 'kill -%d %d' %s.", ms_shim.program,
			       SIGRTMAX - rows[i].below, getpid(), rows[i].use);
	}
	if (ms_shim_has(MS_OPT_UNREACHABLE_ON_SIGNAL))
		find_unreachable();
	return true;
}

static void check_unreachable(void)
{
	ms_say("Starting to check for unreachable memory.");
	if (!state.log_unreachable || !state.log_unreachable(false, 100))
		ms_say("Unreachable check failed, %s",
		       state.log_unreachable
		               ? "the process must be dumpable and ptrace_scope allow tracing."
		               : "libmemunreachable.so.1 cannot be loaded.");
}

void ms_triggers_run(void)
{
	int kept = errno;
	uint32_t wanted;

	/* first: what comes after it makes it the other again */
	__atomic_store_n(&ms_shim.way, ms_shim.usual, __ATOMIC_SEQ_CST);
	wanted = __atomic_exchange_n(&ms_triggered, 0, __ATOMIC_SEQ_CST);

	if (wanted & WANT_UNREACHABLE)
		check_unreachable();
	if (wanted & WANT_STATS)
		ms_stats_log();
	if (wanted & WANT_DUMP)
		ms_heapdump_write(".txt");
	errno = kept;
}
