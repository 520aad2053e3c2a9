/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LeakSanitizer's names, for programs annotated for it. What it would end the process
 * for, except leaks found by __lsan_do_leak_check(), is only reported.
 *
 * Its options that mean something here, from the program's __lsan_default_options() and
 * then from LSAN_OPTIONS: exitcode, detect_leaks, leak_check_at_exit, suppressions,
 * use_unaligned. The last two hold for every search.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "inproc/annotate/options.h"
#include "inproc/export.h"
#include "memunreachable/annotate.h"
#include "memunreachable/memunreachable.h"

/*
 * Weak, for a static sanitizer's own may stand in the same program. In a program that was
 * built with a sanitizer that one's are called, and at exit it looks by itself: ours
 * stays silent. (Preloaded into such a program ours come first, and the sanitizer reports what
 * is annotated. They cannot pass on: the sanitizer calls these names itself, inside dlsym().)
 */
#define LSAN MS_EXPORT __attribute__((weak))

enum { EXITCODE = 23, LISTED = 100, LEAK_TEXT = 16384, DECIMAL = 10 };

/* <sanitizer/lsan_interface.h> comes with a compiler, not with the C library. */
void __lsan_ignore_object(const void *p);
void __lsan_disable(void);
void __lsan_enable(void);
void __lsan_register_root_region(const void *p, size_t size);
void __lsan_unregister_root_region(const void *p, size_t size);
void __lsan_do_leak_check(void);
int __lsan_do_recoverable_leak_check(void);

/* What a program may define. */
extern int __lsan_is_turned_off(void) __attribute__((weak));
extern const char *__lsan_default_options(void) __attribute__((weak));
extern const char *__lsan_default_suppressions(void) __attribute__((weak));

/* What every sanitizer's run-time defines. */
extern void __sanitizer_set_report_path(const char *path) __attribute__((weak));

extern int __cxa_atexit(void (*f)(void *arg), void *arg, void *dso);

/* An annotation has no caller that could hold its state. */
static struct {
	char suppressions[PATH_MAX];
	int exitcode;
	bool checks;  /* of LeakSanitizer's names */
	bool at_exit; /* asked for */
	bool done;    /* the one check that may end the process */
} state;              /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* ---- annotations ---- */

LSAN void __lsan_ignore_object(const void *p)
{
	memunreachable_ignore(p);
}

LSAN void __lsan_disable(void)
{
	memunreachable_disable();
}

LSAN void __lsan_enable(void)
{
	memunreachable_enable();
}

LSAN void __lsan_register_root_region(const void *p, size_t size)
{
	memunreachable_register_root(p, size);
}

LSAN void __lsan_unregister_root_region(const void *p, size_t size)
{
	memunreachable_unregister_root(p, size);
}

/* ---- options ---- */

static void read_flag(const char *text, const char *name, bool *flag)
{
	char value[8];

	if (ms_option_find(text, name, value, sizeof(value)) < 0)
		return;
	*flag = !strcmp(value, "1") || !strcmp(value, "yes") || !strcmp(value, "true");
}

static void read_options(const char *text, bool *leak_check_at_exit)
{
	char number[16];

	read_flag(text, "detect_leaks", &state.checks);
	/* the default of the other run-time; here it has to be asked for */
	if (state.checks)
		read_flag(text, "detect_leaks", &state.at_exit);
	else
		state.at_exit = false;
	read_flag(text, "leak_check_at_exit", leak_check_at_exit);
	if (ms_option_find(text, "exitcode", number, sizeof(number)) > 0)
		state.exitcode = (int)strtol(number, NULL, DECIMAL);
	read_flag(text, "use_unaligned", &ms_lsan.unaligned);
	if (ms_option_find(text, "suppressions", state.suppressions, sizeof(state.suppressions)) >=
	    0)
		ms_lsan.suppressions_file = state.suppressions;
}

static void check_at_exit(void *unused);

/*
 * Options are read before the program runs, as LeakSanitizer does; the program's own may
 * not depend on its constructors. What is registered this early is called last, after
 * the destructors of the program and of every library.
 */
__attribute__((constructor)) static void begin(void)
{
	bool leak_check_at_exit = true;
	const char *asked;

	state.exitcode = EXITCODE;
	state.checks = true;
	ms_lsan.default_suppressions = __lsan_default_suppressions;
	if (__lsan_default_options)
		read_options(__lsan_default_options(), &leak_check_at_exit);
	read_options(secure_getenv("LSAN_OPTIONS"), &leak_check_at_exit);
	state.at_exit = state.at_exit && leak_check_at_exit && !__sanitizer_set_report_path;
	asked = secure_getenv("MEMUNREACHABLE_AT_EXIT");
	if (asked)
		state.at_exit = !strcmp(asked, "1");
	if (state.at_exit)
		(void)__cxa_atexit(check_at_exit, NULL, NULL);
}

/* ---- checks ---- */

/* A failure has no caller to be reported to. */
static void print(const char *text, size_t length)
{
	(void)ms_fd_write_all(STDERR_FILENO, text, length);
}

static void print_leak(const struct UnreachableMemoryLeak *leak)
{
	char text[LEAK_TEXT];
	size_t length = memunreachable_leak_text(leak, false, text, sizeof(text));

	print(text, length < sizeof(text) ? length : sizeof(text) - 1);
	print("\n", 1);
}

/* Search once and report what was found; false when nothing was, or it could not be. */
static bool found_leaks(void)
{
	struct UnreachableMemoryInfo info = { .version = 0 };
	char head[128];
	bool found;

	if (__lsan_is_turned_off && __lsan_is_turned_off())
		return false;
	if (!GetUnreachableMemory(&info, LISTED))
		return false;
	found = info.num_leaks > 0;
	if (found) {
		int length = snprintf(
			head, sizeof(head),
			"Unreachable memory:\n  %zu bytes in %zu unreachable allocation%s\n\n",
			info.leak_bytes, info.num_leaks, info.num_leaks == 1 ? "" : "s");

		print(head, (size_t)length);
		for (size_t i = 0; i < info.num_listed; i++)
			print_leak(&info.leaks[i]);
	}
	FreeUnreachableMemory(&info);
	return found;
}

/* The first call wins, be it the program's or that at exit. */
static bool first_check_found_leaks(void)
{
	return !__atomic_exchange_n(&state.done, true, __ATOMIC_ACQ_REL) && found_leaks();
}

/* As there, nothing else runs: no handlers, no flushing of stdio. */
LSAN void __lsan_do_leak_check(void)
{
	if (state.checks && first_check_found_leaks() && state.exitcode != 0)
		_exit(state.exitcode);
}

LSAN int __lsan_do_recoverable_leak_check(void)
{
	return state.checks && found_leaks();
}

/*
 * exit() inside a handler goes on with the remaining handlers, of which there is none,
 * writes out what stdio holds, and takes the new status (glibc; POSIX leaves it open).
 */
static void check_at_exit(void *unused)
{
	(void)unused;
	if (first_check_found_leaks() && state.exitcode != 0)
		exit(state.exitcode);
}
