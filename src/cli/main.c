/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/tell.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	bool inherits; /* starts with the dispositions of signals that memscan was given */
} commands[] = {
	{ "scan", ms_cmd_scan, false },         { "run", ms_cmd_run, true },
	{ "trigger", ms_cmd_trigger, false },   { "stacks", ms_cmd_stacks, false },
	{ "heapdump", ms_cmd_heapdump, false }, { "records", ms_cmd_records, false },
	{ "why", ms_cmd_why, false },           { "retained", ms_cmd_retained, false },
	{ "diff", ms_cmd_diff, false },         { "live", ms_cmd_live, false },
	{ "attach", ms_cmd_attach, false },     { "detach", ms_cmd_detach, false },
	{ "core", ms_cmd_core, false },         { "dump", ms_cmd_dump, false },
};

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

/* A lone number is a process to scan. */
static bool is_number(const char *word)
{
	return *word && word[strspn(word, "0123456789")] == '\0';
}

/*
 * Give standard descriptors that are closed something harmless, lest a socket of
 * ours becomes number 1 and takes the report; writing there still fails. A program
 * that we start finds them closed.
 */
static void occupy_standard_descriptors(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		(void)close(fd);
}

/* "help", "help COMMAND" and "version" are words for options. */
static int run_word(int argc, char **argv)
{
	static char help[] = "--help";
	static char version[] = "--version";
	const bool is_help = !strcmp(argv[1], "help");
	const struct command *command = is_help && argc > 2 ? find(argv[2]) : NULL;
	char *words[] = { argv[0], is_help ? help : version, NULL };

	if (command)
		words[0] = argv[2];
	return command ? command->run(2, words) : ms_cmd_scan(2, words);
}

int main(int argc, char **argv)
{
	const struct command *command = argc > 1 ? find(argv[1]) : NULL;
	struct ms_error err;

	occupy_standard_descriptors();
	if (!command || !command->inherits) {
		/* A reader that goes away is a report that could not be written: status 4. */
		(void)signal(SIGPIPE, SIG_IGN);
		/* Ignored children could not be waited for. */
		(void)signal(SIGCHLD, SIG_DFL);
	}
	if (argc < 2 || argv[1][0] == '-' || is_number(argv[1]))
		return ms_cmd_scan(argc, argv);
	if (command)
		return command->run(argc - 1, argv + 1);
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "version"))
		return run_word(argc, argv);
	(void)ms_fail(&err, MS_E_UNSUPPORTED, "there is no command '%s'", argv[1]);
	ms_advise(&err, "see memscan --help; to scan a process by name: memscan --name NAME");
	return ms_tell_failed(&err, MS_EXIT_USAGE);
}
