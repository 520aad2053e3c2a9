/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tell.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/utf8.h"

/* Texts quote names that others chose: none of them may command the terminal. */
static void tell_line(const char *text)
{
	char clean[1024];

	ms_utf8_clean(text, strlen(text), true, clean, sizeof(clean));
	(void)fprintf(stderr, "memscan: %s\n", clean);
}

void ms_tell_error(const struct ms_error *err)
{
	tell_line(err->text);
	if (err->advice[0])
		tell_line(err->advice);
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

void ms_tell_servers(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *client = dlopen("libdebuginfod.so.1", RTLD_LAZY);

	if (!urls || !urls[strspn(urls, " ")])
		ms_tell("--debuginfod: DEBUGINFOD_URLS names no server, so none is asked");
	else if (!client)
		ms_tell("--debuginfod: no server is asked without libdebuginfod1; install it");
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
