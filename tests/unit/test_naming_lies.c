/* SPDX-License-Identifier: Apache-2.0 */

/* The names of a worker that the target has taken over: it is put in the place of ours. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#define ms_names_work lie
#include "cli/scan/naming.c" /* NOLINT(bugprone-suspicious-include) */

static void (*tell)(FILE *to);

int lie(void *ctx, const struct ms_worker_side *side)
{
	FILE *to = fdopen(side->fd, "w");

	(void)ctx;
	tell(to);
	return fclose(to);
}

static void put(FILE *to, const struct ms_name_record *record)
{
	(void)fwrite(record, sizeof(*record), 1, to);
}

/* Until nobody listens any more. */
static void put_endlessly(FILE *to, const struct ms_name_record *record)
{
	while (!ferror(to))
		put(to, record);
}

static void tell_endless_strings(FILE *to)
{
	put_endlessly(to, &(struct ms_name_record){ .kind = MS_NAME_STRING });
}

static void tell_endless_warnings(FILE *to)
{
	put(to, &(struct ms_name_record){ .kind = MS_NAME_STRING, .n = 1 });
	(void)fputc('w', to);
	put_endlessly(to, &(struct ms_name_record){ .kind = MS_NAME_WARNING, .text = 1 });
}

static void tell_endless_names(FILE *to)
{
	put_endlessly(to, &(struct ms_name_record){ .kind = MS_NAME_NAME });
}

static void listen_to(void (*liar)(FILE *to))
{
	struct ms_arena arena = { 0 };
	struct ms_report *report = ms_arena_alloc(&arena, sizeof(*report));
	ms_addr *pc = ms_vec_push(&arena, &report->pcs);
	struct ms_naming naming = { .pid = getpid() };
	struct ms_error err;

	*pc = 0x1000;
	tell = liar;
	cr_assert_eq(ms_naming_fill(&naming, &arena, report, &err), MS_OK);
	cr_assert_lt(report->warnings.n, 10000);
	cr_assert_geq(report->warnings.n, 1);
	ms_arena_deinit(&arena);
}

Test(naming_lies, endless_strings_end, .timeout = 30)
{
	listen_to(tell_endless_strings);
}

Test(naming_lies, endless_warnings_end, .timeout = 30)
{
	listen_to(tell_endless_warnings);
}

Test(naming_lies, endless_names_end, .timeout = 30)
{
	listen_to(tell_endless_names);
}
