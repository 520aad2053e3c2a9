/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"

#include <assert.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool ms_args_wrong(struct ms_error *err, const char *advice, const char *fmt, ...)
{
	char text[MS_ERROR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)ms_fail(err, MS_E_UNSUPPORTED, "%s", text);
	ms_advise(err, "%s", advice);
	return false;
}

bool ms_args_number(const char *s, uint64_t most, uint64_t *ret)
{
	uint64_t n = 0;

	if (*s == '\0')
		return false;
	for (; *s; s++) {
		uint64_t digit = (uint64_t)(*s - '0');

		if (*s < '0' || *s > '9' || digit > most || n > (most - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*ret = n;
	return true;
}

bool ms_args_size(const char *s, uint64_t most, uint64_t *ret)
{
	static const char units[] = "kmgKMG";
	char digits[32];
	size_t len = strlen(s);
	const char *unit = len ? strchr(units, s[len - 1]) : NULL;
	unsigned shift = unit ? 10 * ((unsigned)(unit - units) % 3 + 1) : 0;

	len -= unit ? 1 : 0;
	if (len >= sizeof(digits))
		return false;
	memcpy(digits, s, len);
	digits[len] = '\0';
	if (!ms_args_number(digits, most >> shift, ret))
		return false;
	*ret <<= shift;
	return true;
}

bool ms_args_seconds(const char *s, uint64_t most_s, uint64_t *ret_ns)
{
	enum { DIGITS = 9 };
	char digits[32] = "";
	size_t whole = strspn(s, "0123456789");
	size_t parts = s[whole] == '.' ? strspn(s + whole + 1, "0123456789") : 0;
	bool pointed = s[whole] == '.';
	uint64_t ns = 0;

	if (!whole || whole + DIGITS >= sizeof(digits) || parts > DIGITS || (pointed && !parts) ||
	    s[whole + pointed + parts] != '\0')
		return false;
	memcpy(digits, s, whole);
	memset(digits + whole, '0', DIGITS);
	memcpy(digits + whole, s + whole + pointed, parts);
	if (!ms_args_number(digits, most_s * UINT64_C(1000000000), &ns) || !ns)
		return false;
	*ret_ns = ns;
	return true;
}

bool ms_args_limit(const char *s, uint64_t *ret)
{
	if (strcmp(s, "all") != 0)
		return ms_args_number(s, UINT64_MAX, ret);
	*ret = UINT64_MAX;
	return true;
}

bool ms_args_namespace(const char *s, struct ms_error *err)
{
	bool is_number = !s[strspn(s, "0123456789")];
	uint64_t pid = 0;

	return (!is_number || (ms_args_number(s, INT_MAX, &pid) && pid)) ||
	       ms_args_wrong(err,
	                     "give the number of a process in it, or a file such as "
	                     "/proc/4711/ns/pid",
	                     "--ns takes a pid namespace, not '%s'", s);
}

size_t ms_args_name(const char *const *names, size_t n, const char *s)
{
	size_t i = 0;

	while (i < n && strcmp(s, names[i]) != 0)
		i++;
	return i;
}

bool ms_args_snapshot(const char *s, enum ms_snapshot_how *ret)
{
	static const char *const names[] = {
		[MS_SNAPSHOT_AUTO] = "auto",
		[MS_SNAPSHOT_FORK] = "fork",
		[MS_SNAPSHOT_COPY] = "copy",
	};
	size_t which = ms_args_name(names, sizeof(names) / sizeof(names[0]), s);

	if (which == sizeof(names) / sizeof(names[0]))
		return false;
	*ret = (enum ms_snapshot_how)which;
	return true;
}

bool ms_args_is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- the process ---- */

bool ms_args_take_id(void *to, const char *arg, struct ms_error *err)
{
	struct ms_args_process *process = to;
	uint64_t id = 0;

	if (!ms_args_number(arg, INT_MAX, &id) || id == 0)
		return ms_args_wrong(err, "give the number that ps shows, or use --name NAME",
		                     "--pid takes the number of a process, not '%s'", arg);
	process->choice.id = (pid_t)id;
	return true;
}

bool ms_args_take_ns(void *to, const char *arg, struct ms_error *err)
{
	((struct ms_args_process *)to)->choice.ns = arg;
	return ms_args_namespace(arg, err);
}

bool ms_args_take_name(void *to, const char *arg, struct ms_error *err)
{
	((struct ms_args_process *)to)->choice.name = arg;
	return *arg || ms_args_wrong(err, "give the name that ps shows, or the number",
	                             "--name takes the name of a process");
}

bool ms_args_take_timeout(void *to, const char *arg, struct ms_error *err)
{
	uint64_t *timeout_ns = &((struct ms_args_process *)to)->timeout_ns;

	return ms_args_seconds(arg, MS_ARGS_MOST_S, timeout_ns) ||
	       ms_args_wrong(err, "for example 5 or 0.5", "--timeout takes seconds, not '%s'", arg);
}

bool ms_args_is_one(const struct ms_choice *choice, const char *see, struct ms_error *err)
{
	if (choice->id && choice->name)
		return ms_args_wrong(err, see, "--pid and --name exclude each other");
	if (choice->ns && choice->name)
		return ms_args_wrong(err, "give the number that it has there, by --pid N",
		                     "--ns and --name exclude each other");
	return choice->id || choice->name || ms_args_wrong(err, see, "no process was given");
}

bool ms_args_choose(int n, char **words, const struct ms_option_table *table,
                    struct ms_args_process *process, struct ms_error *err)
{
	const struct ms_choice *choice = &process->choice;
	int at = 0;

	if (n && !choice->id && !choice->name && !ms_args_take_id(process, words[at++], err))
		return false;
	if (at < n)
		return ms_args_wrong(err, table->see, "one process at a time: unexpected %s",
		                     words[at]);
	return ms_args_is_one(choice, table->see, err);
}

/* ---- options ---- */

/* What getopt_long() returns for row i: a number beyond every letter. */
enum { CODE_BASE = UCHAR_MAX + 1 };

struct getopt_tables {
	struct option longs[MS_OPTIONS_MOST + 1];
	char shorts[2 * MS_OPTIONS_MOST + 3];
};

/*
 * "+" first: what is behind a word is no option. ":" then: a missing argument is reported as
 * such; then each letter, ":" when it takes one.
 */
static void make_tables(const struct ms_option_table *table, struct getopt_tables *ret)
{
	char *letter = ret->shorts;

	assert(table->n <= MS_OPTIONS_MOST);
	if (table->leading)
		*letter++ = '+';
	*letter++ = ':';
	for (size_t i = 0; i < table->n; i++) {
		const struct ms_option *option = &table->at[i];

		ret->longs[i].name = option->name;
		ret->longs[i].has_arg = !option->arg            ? no_argument
		                        : option->arg[0] == '[' ? optional_argument
		                                                : required_argument;
		ret->longs[i].val = CODE_BASE + (int)i;
		if (option->letter)
			*letter++ = (char)option->letter;
		if (option->letter && option->arg)
			*letter++ = ':';
	}
}

/* The row of what getopt_long() returned, or left in optopt: a code or a letter of ours. */
static const struct ms_option *find_option(const struct ms_option_table *table, int code)
{
	size_t i = 0;

	if (code >= CODE_BASE)
		return &table->at[code - CODE_BASE];
	while (i + 1 < table->n && table->at[i].letter != code)
		i++;
	assert(table->at[i].letter == code);
	return &table->at[i];
}

enum { MATCHES = MS_ERROR_TEXT / 2 };

/* How many options @word is short for; @ret: their names. */
static size_t find_matches(const struct ms_option_table *table, const char *word, char ret[MATCHES])
{
	const char *name = strncmp(word, "--", 2) ? word : word + 2;
	size_t len = strcspn(name, "=");
	size_t n = 0;
	int at = 0;

	for (size_t i = 0; len && i < table->n; i++) {
		if (strncmp(table->at[i].name, name, len) != 0)
			continue;
		at += snprintf(ret + at, MATCHES - (size_t)at, "%s--%s", n++ ? ", " : "",
		               table->at[i].name);
		if (at >= MATCHES)
			break;
	}
	return n;
}

/* What getopt_long() answers with ':' and '?'. */
static bool wrong(const struct ms_option_table *table, int code, const char *word,
                  struct ms_error *err)
{
	const struct ms_option *option = NULL;
	char names[MATCHES];

	if (code == ':' || optopt >= CODE_BASE)
		option = find_option(table, optopt);
	if (code == ':')
		return ms_args_wrong(err, table->see, "--%s needs its argument, %s", option->name,
		                     option->arg);
	if (option)
		return ms_args_wrong(err, table->see, "--%s takes no argument", option->name);
	if (optopt)
		return ms_args_wrong(err, table->see, "there is no option -%c", optopt);
	if (find_matches(table, word, names) > 1)
		return ms_args_wrong(err, table->see, "%.60s is short for several options: %s",
		                     word, names);
	return ms_args_wrong(err, table->see, "there is no option %.60s", word);
}

static bool take_one(const struct ms_option_table *table, const struct ms_option *option, void *to,
                     struct ms_error *err)
{
	if (option->instead)
		return ms_args_wrong(err, option->instead, "--%s is not for %s", option->name,
		                     table->command);
	if (option->take)
		return option->take(to, optarg, err);
	*((bool *)to + option->flag) = true;
	return true;
}

int ms_args_take(int argc, char **argv, const struct ms_option_table *table, void *to,
                 struct ms_error *err)
{
	const struct ms_option *option;
	struct getopt_tables tables = { 0 };
	int code;

	make_tables(table, &tables);
	opterr = 0;
	optind = 0; /* GNU: begin anew, also when tests call us twice */
	while ((code = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1) {
		if (code == '?' || code == ':') {
			(void)wrong(table, code, argv[optind - 1], err);
			return -1;
		}
		option = find_option(table, code);
		if (!take_one(table, option, to, err))
			return -1;
		if (option->last)
			break;
	}
	return optind;
}

enum { LEFT = 25, INDENT = 6 }; /* of the names, and in front of them */

static void list_option(FILE *to, const struct ms_option *option)
{
	const char *help = option->help;
	char left[80];
	int n = snprintf(left, sizeof(left), "--%s%s%s", option->name,
	                 option->arg && option->arg[0] != '[' ? " " : "",
	                 option->arg ? option->arg : "");

	(void)fprintf(to, option->letter ? "  -%c, %-*s" : "  %c   %-*s",
	              option->letter ? option->letter : ' ', LEFT, left);
	if (n > LEFT)
		(void)fprintf(to, "\n%*s", INDENT + LEFT, "");
	for (const char *end; (end = strchr(help, '\n')); help = end + 1)
		(void)fprintf(to, "  %.*s\n%*s", (int)(end - help), help, INDENT + LEFT, "");
	(void)fprintf(to, "  %s\n", help);
}

void ms_args_help(FILE *to, const struct ms_option_table *table)
{
	(void)fprintf(to, "%s\n", table->usage);
	for (size_t i = 0; i < table->n; i++)
		if (!table->at[i].instead)
			list_option(to, &table->at[i]);
	(void)fprintf(to, "\n%s", table->notes);
}
