/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what the process that names functions tells (cli/scan/names.h), by whose libraries
 * it may have been taken over.
 *
 *	fuzz: -max_len=8192
 *
 * The first byte of an input chooses whether stacks are judged before they are named, the
 * second the pieces that names come in, the third how much of the rest the first process
 * tells before it ends; others go on. It must neither crash nor run on. What is believed must
 * be in bounds, and can be written in every format.
 */

#include <string.h>

#include "cli/worker.h"

#include "fuzz.h"

/* No process is started: the input is what it would tell. */
#define ms_worker_start       told_start
#define ms_worker_read        told_read
#define ms_worker_end         told_end
#define ms_worker_take_ids    told_take_ids
#define ms_proc_living_thread told_living_thread

enum ms_status told_start(const struct ms_worker_call *call, struct ms_worker *ret,
                          struct ms_error *err);
ssize_t told_read(const struct ms_worker *worker, void *buf, size_t len);
bool told_end(const struct ms_worker *worker, bool heard);
void told_take_ids(pid_t id, struct ms_worker_call *call);
pid_t told_living_thread(pid_t pid);

#include "cli/scan/naming.c" /* NOLINT(bugprone-suspicious-include) */
#include "report/writers.h"

enum { CHOSEN = 3, UNIT = 16, PCS = 4 };

/* What is left to tell, and what of it the present process tells. */
static struct {
	const uint8_t *at;
	size_t left;
	size_t first;
	size_t now;
	size_t piece;
} told;

enum ms_status told_start(const struct ms_worker_call *call, struct ms_worker *ret,
                          struct ms_error *err)
{
	(void)call;
	(void)err;
	*ret = (struct ms_worker){ .fd = -1 };
	told.now = told.first < told.left ? told.first : told.left;
	told.first = told.left - told.now;
	return MS_OK;
}

ssize_t told_read(const struct ms_worker *worker, void *buf, size_t len)
{
	size_t n = told.piece < told.now ? told.piece : told.now;

	(void)worker;
	n = n < len ? n : len;
	memcpy(buf, told.at, n);
	told.at += n;
	told.left -= n;
	told.now -= n;
	return (ssize_t)n;
}

bool told_end(const struct ms_worker *worker, bool heard)
{
	(void)worker;
	told.at += told.now;
	told.left -= told.now;
	return heard;
}

void told_take_ids(pid_t id, struct ms_worker_call *call)
{
	(void)id;
	call->uid = 0;
	call->gid = 0;
}

pid_t told_living_thread(pid_t pid)
{
	return pid;
}

/* ---- a report, and what is made of it ---- */

static struct ms_report report;
static struct ms_leak leak = { .id = 1, .stack = 1 };
static struct ms_stack stacks[] = { { 0, PCS }, { 2, 2 } };
static ms_addr pcs[PCS] = { 0x1010, 0x2020, 0x1010, 0x9000 };
static struct ms_code code[] = {
	{ .range = { 0x1000, 0x2000 }, .inode = 1, .name = "/lib/one" },
	{ .range = { 0x2000, 0x3000 }, .inode = 2, .name = "/lib/two" },
};

static void make_report(void)
{
	memset(&report, 0, sizeof(report));
	report.leaks.at = &leak;
	report.leaks.n = 1;
	report.stacks.at = stacks;
	report.stacks.n = sizeof(stacks) / sizeof(stacks[0]);
	report.pcs.at = pcs;
	report.pcs.n = PCS;
	report.code.at = code;
	report.code.n = sizeof(code) / sizeof(code[0]);
}

static bool sink_write(struct ms_sink *sink, const char *bytes, size_t len)
{
	(void)sink;
	require(!memchr(bytes, '\0', len) && !memchr(bytes, '\033', len), "plain text");
	return true;
}

static void fill(struct ms_arena *arena, struct ms_names_book *book)
{
	static const char *const formats[] = { "text", "json" };
	const struct ms_naming naming = { .book = book };
	struct ms_sink sink = { sink_write, false };
	struct ms_error err;

	require(ms_naming_fill(&naming, arena, &report, &err) == MS_OK, "a liar is no failure");
	require(report.names.n == PCS, "each address has its names");
	require(!memcmp(&report.names.at[0], &report.names.at[2], sizeof(report.names.at[0])),
	        "one address has the same");
	require(!report.names.at[3].symbol.module, "what is in no file has no name");
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		require(ms_writer_find(formats[i])->write(&report, &sink), "it is written");
}

static void judge_stacks(struct ms_arena *arena, struct ms_names_book *book)
{
	static const char text[] = "leak:foo\nleak:/lib/two\n";
	const struct ms_suppression_file file = { "known", text, sizeof(text) - 1 };
	const struct ms_naming naming = { .book = book };
	struct ms_suppressions known = { 0 };
	uint32_t verdicts[2];
	struct ms_error err;

	require(!ms_suppressions_parse(&file, arena, &known, &err), "these can be read");
	require(ms_naming_judge(&naming, &report, &known, verdicts, &err), "a liar is no failure");
	require(verdicts[0] == 1 || verdicts[0] == 2, "the module's name counts in any case");
	require(verdicts[1] <= known.n, "a verdict is a suppression");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ms_arena arena = { 0 };
	struct ms_names_book book = { .arena = &arena };

	if (size < CHOSEN)
		return -1;
	make_report();
	told.at = data + CHOSEN;
	told.left = size - CHOSEN;
	told.piece = 1 + (size_t)data[1];
	told.first = (size_t)data[2] * UNIT;
	if (data[0] % 2)
		judge_stacks(&arena, &book);
	fill(&arena, &book);
	ms_arena_deinit(&arena);
	return 0;
}

/* ---- what an honest process tells ---- */

static struct {
	size_t n;
	uint8_t bytes[8192];
} seed;

static void tell(const void *bytes, size_t len)
{
	memcpy(seed.bytes + seed.n, bytes, len);
	seed.n += len;
}

static void tell_record(struct ms_name_record record)
{
	tell(&record, sizeof(record));
}

static void tell_string(const char *s)
{
	tell_record((struct ms_name_record){ .kind = MS_NAME_STRING, .n = (uint32_t)strlen(s) });
	tell(s, strlen(s));
}

static void tell_names(void)
{
	const struct ms_name_function functions[] = { { 1, 3, 2, 10 }, { 3, 0, 2, 20 } };

	tell_record((struct ms_name_record){ .kind = MS_NAME_GROUP, .index = 1 });
	tell_string("inner");
	tell_string("/src/a.c");
	tell_string("outer\033[1m");
	tell_record((struct ms_name_record){ .kind = MS_NAME_NAME,
	                                     .n = 2,
	                                     .rel_pc = 0x10,
	                                     .function_offset = 4,
	                                     .text = 3,
	                                     .file = 2,
	                                     .line = 20 });
	tell(functions, sizeof(functions));
	tell_record((struct ms_name_record){ .kind = MS_NAME_WARNING, .text = 1 });
	tell_record((struct ms_name_record){ .kind = MS_NAME_GROUP, .index = 3 });
	tell_record((struct ms_name_record){ .kind = MS_NAME_NAME, .index = 2, .text = 1 });
}

void fuzz_seeds(fuzz_take take_seed)
{
	for (uint8_t what = 0; what < 2; what++)
		for (uint8_t first = 0; first < 4; first++) {
			const uint8_t chosen[CHOSEN] = { what, (uint8_t)(255 - first * 80),
				                         first ? (uint8_t)(first * 8) : 255 };

			seed.n = 0;
			tell(chosen, CHOSEN);
			tell_names();
			tell_record((struct ms_name_record){ .kind = MS_NAME_END });
			take_seed(seed.bytes, seed.n);
			/* Of an address that there is not, or a string. */
			seed.n -= sizeof(struct ms_name_record);
			tell_record((struct ms_name_record){
				.kind = MS_NAME_NAME,
				.index = first % 2 ? 3 : 0,
				.text = 77,
			});
			take_seed(seed.bytes, seed.n);
		}
	/* More functions than an address can have. */
	seed.n = 0;
	tell("\0\377\377", CHOSEN);
	tell_record((struct ms_name_record){ .kind = MS_NAME_GROUP, .index = 1 });
	tell_record((struct ms_name_record){ .kind = MS_NAME_NAME, .n = MS_NAME_FUNCTIONS + 1 });
	memset(seed.bytes + seed.n, 0, (MS_NAME_FUNCTIONS + 1) * sizeof(struct ms_name_function));
	seed.n += (MS_NAME_FUNCTIONS + 1) * sizeof(struct ms_name_function);
	take_seed(seed.bytes, seed.n);
}
