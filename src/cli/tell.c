/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tell.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/utf8.h"
#include "sym/opener.h"

/* Texts quote names that others chose: none of them may command the terminal. */
static void print_line(FILE *to, const char *before, const char *text)
{
	char clean[1024];

	ms_utf8_clean(text, strlen(text), true, clean, sizeof(clean));
	(void)fprintf(to, "%s%s\n", before, clean);
}

static void tell_line(const char *text)
{
	print_line(stderr, "memscan: ", text);
}

/* What to do about a failure where the place that noticed it knew nothing better. */
static const char *general_advice(enum ms_status status)
{
	switch (status) {
	case MS_E_GONE:
		return "check the id of the process (ps -e); scan a short-lived one earlier";
	case MS_E_DENIED:
		return "run memscan as root or as the user of the process; see ptrace(2)";
	case MS_E_TIMEOUT:
		return "try again when the process is less busy";
	case MS_E_NOMEM:
		return "free some memory on this machine, or raise the limit of the cgroup";
	case MS_E_UNSUPPORTED:
		return "memscan cannot do this here; memscan(1) lists what it can";
	case MS_OK:
	case MS_E_FAULT:
	case MS_E_SYS:
	case MS_E_CORRUPT:
	case MS_E_BUSY:
	case MS_E_DIED:
		break;
	}
	return "try again; report it if it does not go away";
}

const char *ms_tell_advice(const struct ms_error *err)
{
	return err->advice[0] ? err->advice : general_advice(err->status);
}

bool ms_tell_has_left(int sys_errno, struct ms_error *err)
{
	if (sys_errno != EPIPE)
		return false;
	*err = (struct ms_error){ .status = MS_E_SYS, .sys_errno = sys_errno };
	return true;
}

void ms_tell_error(const struct ms_error *err)
{
	if (!err->text[0])
		return;
	tell_line(err->text);
	tell_line(ms_tell_advice(err));
}

int ms_tell_failed(const struct ms_error *err, enum ms_exit status)
{
	ms_tell_error(err);
	return (int)status;
}

int ms_tell_unwritten(int sys_errno, const char *what, const char *advice)
{
	struct ms_error err;

	if (!ms_tell_has_left(sys_errno, &err)) {
		(void)ms_fail_sys(&err, sys_errno, "%s", what);
		ms_advise(&err, "%s", advice);
	}
	return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
}

bool ms_tell_is_unread(const struct ms_report *report, struct ms_error *err)
{
	const struct ms_totals *totals = &report->totals;

	if (totals->leaked_allocations || !totals->unread_bytes)
		return false;
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "nothing can be said about %" PRIu64
	              " MiB of process %d: no heap that memscan reads",
	              totals->unread_bytes >> 20, (int)report->target.pid);
	ms_advise(err,
	          report->mappings.n
	                  ? "look at its unreachable mappings in the report; where an allocator of "
	                    "its own has blocks there, use that one's profiler"
	                  : "under Valgrind use vgdb(1)'s leak_check; where the program has an "
	                    "allocator of its own, use that one's profiler");
	return true;
}

void ms_tell(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tell_line(text);
}

void ms_tell_out(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	print_line(stdout, "", text);
}

void ms_tell_servers(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *client = dlopen("libdebuginfod.so.1", RTLD_LAZY);
	struct ms_error err;

	if (!urls || !urls[strspn(urls, " ")])
		ms_tell("--debuginfod: DEBUGINFOD_URLS names no server, so none is asked; set it");
	else if (!client)
		ms_tell("--debuginfod: no server is asked without libdebuginfod1; install it");
	else if (ms_fetch_check(&err))
		ms_tell("--debuginfod: no server is asked: %s; set DEBUGINFOD_CACHE_PATH to a folder "
		        "of your own",
		        err.text);
	if (client)
		(void)dlclose(client);
}

static void tell_notes(const char *what, const struct ms_notes *notes)
{
	const struct ms_note *note;

	ms_vec_for_each (note, notes)
		ms_tell("%s: %s", what, note->text);
}

void ms_tell_report(const struct ms_report *report)
{
	const struct ms_scan_facts *scan = &report->scan;

	for (int i = 0; i < MS_PHASES; i++)
		ms_tell("phase %s: %.3f ms", ms_phase_name((enum ms_phase)i),
		        (double)scan->phase_ns[i] / 1e6);
	ms_tell("tries %" PRIu32 ", threads %" PRIu32 ", single steps %" PRIu64
	        ", bytes read %" PRIu64 ", peak memory %" PRIu64 " bytes",
	        scan->attempts, report->target.threads, scan->steps, scan->bytes_read,
	        scan->peak_rss_bytes);
	tell_notes("warning", &report->warnings);
	tell_notes("evidence", &report->evidence);
}
