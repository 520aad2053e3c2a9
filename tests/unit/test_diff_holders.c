/* SPDX-License-Identifier: Apache-2.0 */
/* What roots hold in two reports of memscan retained, read back and compared. */
#include <criterion/criterion.h>

#include "golden/sample.h"
#include "report/diff/holders.h"
#include "report/diff/writers.h"
#include "report/json/walk.h"

static struct ms_arena arena;
static struct ms_report reports[MS_DIFF_SIDES];
static struct ms_holders holders[MS_DIFF_SIDES];
static struct ms_diff diff;
static struct ms_error err;
static struct keeper keeper;
static char text[KEPT_BYTES];

static const char head[] =
	"{\"schema\":\"memscan.retained/1\",\"tool\":{},\"target\":{\"pid\":7,\"exe\":\"/bin/p\"},"
	"\"scan\":{\"time\":%d,\"later\":1},\"totals\":{\"reachable\":{\"count\":10,"
	"\"bytes\":%d},\"unreachable\":{\"count\":2,\"bytes\":16},\"by_root\":{},\"roots\":3},";

/* The report of @side, whose lists are these. */
static enum ms_status read_side(int side, int bytes, const char *by_root, const char *by_type)
{
	struct ms_json_file file = { "held.json", text, 0 };

	snprintf(text, sizeof(text), head, side + 1, bytes);
	snprintf(text + strlen(text), sizeof(text) - strlen(text),
	         "\"by_root\":[%s],\"shared\":[{}],\"by_type\":[%s],\"warnings\":[]}", by_root,
	         by_type);
	file.len = strlen(text);
	memset(&err, 0, sizeof(err));
	return ms_holders_read(&file, &arena, &reports[side], &holders[side], &err);
}

static void make(void)
{
	diff = (struct ms_diff){ .reports = { &reports[0], &reports[1] },
		                 .holders = { &holders[0], &holders[1] },
		                 .files = { "old.json", "new.json" },
		                 .limit = UINT64_MAX };
	cr_assert_eq(ms_diff_make(&diff, &arena, &err), MS_OK);
}

static void compare(const char *old, const char *new)
{
	cr_assert_eq(read_side(MS_DIFF_OLD, 1000, old, ""), MS_OK, "%s", err.text);
	cr_assert_eq(read_side(MS_DIFF_NEW, 1000, new, ""), MS_OK, "%s", err.text);
	make();
}

#define ROOT(members, bytes)                                                                 \
	"{\"root\":{" members "},\"words\":1,\"retained_count\":1,\"retained_bytes\":" bytes \
	",\"chain\":[{\"address\":\"0x1\"}]}"
#define DATA "\"kind\":\"data\",\"address\":\"0x404040\",\"offset\":16448,\"module\":\"/bin/p\""

/* The same root in another run: one row, that grew. */
static const struct {
	const char *old;
	const char *new;
	size_t rows;
} same[] = {
	{ ROOT(DATA, "5"), ROOT(DATA, "9"), 1 },
	{ ROOT(DATA, "5"), ROOT(DATA, "5"), 0 },
	{ ROOT(DATA, "5"), ROOT("\"kind\":\"data\",\"offset\":16448,\"module\":\"/opt/p\"", "9"),
	  1 },
	{ ROOT(DATA, "5"), ROOT("\"kind\":\"data\",\"offset\":16456,\"module\":\"/bin/p\"", "9"),
	  2 },
	{ ROOT(DATA ",\"symbol\":\"g\",\"symbol_offset\":0", "5"),
	  ROOT("\"kind\":\"data\",\"offset\":99,\"module\":\"/bin/p\",\"symbol\":\"g\"", "9"), 1 },
	{ ROOT(DATA ",\"symbol\":\"g\"", "5"), ROOT(DATA ",\"symbol\":\"h\"", "9"), 2 },
	{ ROOT("\"kind\":\"stack\",\"offset\":8,\"thread\":7,\"thread_name\":\"w\"", "5"),
	  ROOT("\"kind\":\"stack\",\"offset\":80,\"thread\":9,\"thread_name\":\"w\"", "9"), 1 },
	{ ROOT("\"kind\":\"stack\",\"thread_name\":\"v\"", "5"),
	  ROOT("\"kind\":\"stack\",\"thread_name\":\"w\"", "9"), 2 },
	{ ROOT("\"kind\":\"tls\",\"symbol\":\"t\"", "5"),
	  ROOT("\"kind\":\"data\",\"symbol\":\"t\"", "9"), 2 },
	{ ROOT("\"kind\":\"later\",\"new\":[1]", "5"), ROOT("\"kind\":\"later\",\"new\":[2]", "9"),
	  1 },
};

Test(diff_holders, a_root_is_compared_by_what_stays_the_same)
{
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		compare(same[i].old, same[i].new);
		cr_assert_eq(diff.roots.n, same[i].rows, "%zu: %zu rows", i, diff.roots.n);
		if (same[i].rows == 1)
			cr_assert_eq(ms_diff_growth(&diff.roots.at[0]), 4, "%zu", i);
	}
}

static const char *written(const char *format)
{
	keeper_init(&keeper);
	cr_assert(ms_diff_writer_find(format)->write(&diff, &keeper.base));
	return keeper.bytes;
}

static void draw_growth(void)
{
	cr_assert_eq(read_side(MS_DIFF_OLD, 1000, ROOT(DATA, "5"),
	                       "{\"type\":{\"name\":\"T\"},\"count\":1,\"bytes\":8},"
	                       "{\"size\":24,\"count\":1,\"bytes\":24}"),
	             MS_OK, "%s", err.text);
	cr_assert_eq(read_side(MS_DIFF_NEW, 3000,
	                       ROOT(DATA, "9") "," ROOT(DATA ",\"symbol\":\"g\"", "99"),
	                       "{\"type\":{\"name\":\"T\"},\"count\":3,\"bytes\":24},"
	                       "{\"size\":24,\"count\":1,\"bytes\":24}"),
	             MS_OK, "%s", err.text);
	make();
}

Test(diff_holders, the_one_that_grew_most_is_in_the_first_line)
{
	draw_growth();
	cr_assert_eq(diff.live.n, 1);
	cr_assert_not_null(strstr(written("text"),
	                          "Live heap grew by 2000 bytes in 0.0 s; 99 bytes "
	                          "more are held by g in p (data); 2 x T more are "
	                          "live; nothing more is leaked\n"),
	                   "%s", keeper.bytes);
	cr_assert_not_null(strstr(keeper.bytes, " new     g in p (data)\n"), "%s", keeper.bytes);
	cr_assert_not_null(strstr(keeper.bytes, " grown   p+0x4040 (data)\n"), "%s", keeper.bytes);
	cr_assert_not_null(
		strstr(keeper.bytes, "warning: 2 roots are not listed in the old report"));
	cr_assert_null(strstr(keeper.bytes, "--heap"));
}

Test(diff_holders, json_has_the_roots)
{
	draw_growth();
	cr_assert_not_null(strstr(written("json"), "\"roots\":[\n{\"change\":\"new\",\"root\":{"
	                                           "\"kind\":\"data\",\"module\":\"/bin/p\","
	                                           "\"symbol\":\"g\"},\"old_allocations\":0"),
	                   "%s", keeper.bytes);
	cr_assert_not_null(
		strstr(keeper.bytes, "\"unlisted\":{\"leaks\":0,\"live\":0,\"roots\":0}"));
}

static const struct {
	const char *by_root;
	const char *by_type;
	const char *says;
} damaged[] = {
	{ "7", "", "\"by_root\" has a value that is not" },
	{ "{}", "", "an entry has no \"root\"" },
	{ "{\"root\":{}}", "", "\"kind\" is missing" },
	{ "{\"root\":{\"kind\":\"data\"}}", "", "\"retained_count\" is missing" },
	{ "{\"root\":7}", "", "\"root\" is not of type object" },
	{ ROOT("\"kind\":\"data\",\"offset\":\"1\"", "1"), "", "\"offset\" is not of type int" },
	{ ROOT("\"kind\":7", "1"), "", "\"kind\" is not of type string" },
	{ "", "{}", "\"count\" is missing" },
	{ "", "{\"count\":-1,\"bytes\":0}", "\"count\" is out of range" },
	{ "", "{\"type\":\"T\",\"count\":1,\"bytes\":0}", "\"type\" is not of type object" },
	{ "],\"by_root\":[", "", "\"by_root\" stands there twice" },
};

Test(diff_holders, damage_is_told_with_what_to_do)
{
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		cr_assert_eq(read_side(0, 1, damaged[i].by_root, damaged[i].by_type), MS_E_CORRUPT,
		             "%zu", i);
		cr_assert_not_null(strstr(err.text, damaged[i].says), "%zu: %s", i, err.text);
		cr_assert_not_null(strstr(err.text, "held.json, line 1"), "%s", err.text);
		cr_assert_neq(err.advice[0], '\0');
	}
}

Test(diff_holders, no_beginning_of_a_report_is_one)
{
	struct ms_json_file file = { "cut.json", text, 0 };

	cr_assert_eq(read_side(0, 1, ROOT(DATA, "5"), "{\"count\":1,\"bytes\":8}"), MS_OK);
	for (file.len = 0; file.len < strlen(text); file.len++)
		cr_assert_eq(ms_holders_read(&file, &arena, &reports[0], &holders[0], &err),
		             MS_E_CORRUPT, "%zu", file.len);
}

/* ---- what a file says that it is ---- */

static const struct {
	const char *text;
	const char *schema; /* NULL: it is refused */
} schemas[] = {
	{ "{\"schema\":\"memscan.report/1\"}", "memscan.report/1" },
	{ "{\"schema\":\"a\", and no JSON", "a" },
	{ " {\n\"leaks\":[{},7], \"x\":{\"schema\":\"b\"}, \"schema\":\"a\"", "a" },
	{ "{\"leaks\":[]}", NULL },
	{ "{\"schema\":7}", NULL },
	{ "{\"schema\":[\"a\"]}", NULL },
	{ "[]", NULL },
	{ "", NULL },
	{ "{", NULL },
};

Test(diff_holders, a_file_says_what_it_is)
{
	for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
		const struct ms_json_file file = { "x", schemas[i].text, strlen(schemas[i].text) };
		struct ms_json_schema schema = { "" };
		enum ms_status st = ms_json_schema_of(&file, &schema, &err);

		cr_assert_eq(st, schemas[i].schema ? MS_OK : MS_E_CORRUPT, "%zu", i);
		if (!st)
			cr_assert_str_eq(schema.text, schemas[i].schema);
	}
}
