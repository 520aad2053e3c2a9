/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_CLI_H
#define MS_CLI_CLI_H

/*
 * The commands. To add one: cmd_NAME.c with ms_cmd_NAME(), its line here, a row in
 * main.c, a section of man/memscan.1.
 */

/* What memscan ends with; scripts rely on the numbers (man page, EXIT STATUS). */
enum ms_exit {
	MS_EXIT_CLEAN = 0,     /* scanned, no leaks */
	MS_EXIT_LEAKS = 1,     /* scanned, leaks found */
	MS_EXIT_USAGE = 2,     /* the call was wrong */
	MS_EXIT_REFUSED = 3,   /* could not scan */
	MS_EXIT_UNWRITTEN = 4, /* the report could not be written */
};

/* Each takes its own arguments, argv[0] being the command's name, and answers enum ms_exit. */
int ms_cmd_scan(int argc, char **argv);
int ms_cmd_core(int argc, char **argv);
int ms_cmd_dump(int argc, char **argv);
int ms_cmd_why(int argc, char **argv);
int ms_cmd_retained(int argc, char **argv);
int ms_cmd_live(int argc, char **argv);
int ms_cmd_diff(int argc, char **argv);
int ms_cmd_attach(int argc, char **argv);
int ms_cmd_detach(int argc, char **argv);
int ms_cmd_trigger(int argc, char **argv);
int ms_cmd_stacks(int argc, char **argv);
int ms_cmd_heapdump(int argc, char **argv);
int ms_cmd_records(int argc, char **argv);
int ms_cmd_run(int argc, char **argv); /* or the exit status of the program that it runs */

#endif
