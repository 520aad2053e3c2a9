/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_ARGS_H
#define MS_CLI_ARGS_H

/* What the option parsers of several commands have in common. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "target/snapshot.h"
#include "target/target.h"

/* Record in @err that the call is wrong, and with @advice what to do. Returns false. */
bool ms_args_wrong(struct ms_error *err, const char *advice, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Digits only: no sign, no blank, no unit; what strtoull() takes beyond that are typos. */
bool ms_args_number(const char *s, uint64_t most, uint64_t *ret);

/* Bytes: a number, with K, M or G behind for powers of 1,024. */
bool ms_args_size(const char *s, uint64_t most, uint64_t *ret);

/* Seconds, more than 0 and at most @most_s, in nanoseconds: digits, or "1.5" with nine behind. */
bool ms_args_seconds(const char *s, uint64_t most_s, uint64_t *ret_ns);

/* A number, or "all", which is UINT64_MAX. */
bool ms_args_limit(const char *s, uint64_t *ret);

/* Whether @s can be a pid namespace, as --ns takes it: a process, or a file. */
bool ms_args_namespace(const char *s, struct ms_error *err);

/* Which of @n names @s is; @n when it is none. */
size_t ms_args_name(const char *const *names, size_t n, const char *s);

/* As --snapshot takes it. */
bool ms_args_snapshot(const char *s, enum ms_snapshot_how *ret);

bool ms_args_is_folder(const char *path);

/* What commands begin their options with that stop a process, and are given its id as a word. */
struct ms_args_process {
	struct ms_choice choice;
	uint64_t timeout_ns; /* for stopping it */
};

enum { MS_ARGS_TIMEOUT_S = 30, MS_ARGS_MOST_S = 365 * 86400 };

/*
 * For rows of their options, of which @to is: the id, its namespace, the name, and how long it
 * may take.
 */
bool ms_args_take_id(void *to, const char *arg, struct ms_error *err);
bool ms_args_take_ns(void *to, const char *arg, struct ms_error *err);
bool ms_args_take_name(void *to, const char *arg, struct ms_error *err);
bool ms_args_take_timeout(void *to, const char *arg, struct ms_error *err);

#define MS_ARGS_PROCESS                                                                           \
	{ 'p', "pid", "N", "the process; any of its threads' ids works",                          \
	  .take = ms_args_take_id },                                                              \
		{ 0, "ns", "PID|FILE", "N is that of a pid namespace: of process PID, or FILE's", \
		  .take = ms_args_take_ns },                                                      \
	{                                                                                         \
		'n', "name", "NAME", "choose the process by name; there must be exactly one",     \
			.take = ms_args_take_name                                                 \
	}

/* An option, all of it. */
struct ms_option {
	int letter;       /* 0 when it has none */
	const char *name; /* behind "--" */
	const char
		*arg; /* what --help calls its argument; in [] where it may be omitted; or NULL */
	const char *help; /* may be several lines */
	/*
	 * Take @arg, NULL where there is none, into @to, the options of the command; false when it
	 * is wrong, with both lines in @err. NULL: what is at @flag there, a bool, becomes true.
	 */
	bool (*take)(void *to, const char *arg, struct ms_error *err);
	size_t flag;
	int use;             /* the command's own */
	bool last;           /* the rest of the line is not looked at */
	const char *instead; /* it is not for this command: what to do instead; NULL: it is */
};

/* The options of a command. */
struct ms_option_table {
	const char *command; /* as it is called: "memscan run" */
	const char *usage;   /* what --help prints above the options */
	const char *notes;   /* and what below */
	const char *see;     /* the advice when the call is wrong */
	const struct ms_option *at;
	size_t n;
	bool leading; /* behind the first word that is no option there are none */
};

enum { MS_OPTIONS_MOST = 40 };

/*
 * Take all options of a command line, in any order and shortened where that is unambiguous,
 * into @to. Words that are no options are the rest of @argv then.
 *
 * Returns where they begin; -1 when the call is wrong, with both lines in @err.
 */
int ms_args_take(int argc, char **argv, const struct ms_option_table *table, void *to,
                 struct ms_error *err);

/*
 * Take the id, if it is the one of the @n words left at @words; false, with both lines in @err,
 * when there are more, or not one process was chosen.
 */
bool ms_args_choose(int n, char **words, const struct ms_option_table *table,
                    struct ms_args_process *process, struct ms_error *err);

/* Whether one process was chosen; @see: what to do when not. */
bool ms_args_is_one(const struct ms_choice *choice, const char *see, struct ms_error *err);

/* Print what --help does. */
void ms_args_help(FILE *to, const struct ms_option_table *table);

#endif
