/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMUNREACHABLE_TRIGGER_H
#define MEMUNREACHABLE_TRIGGER_H

/*
 * What a process with the handler and memscan trigger agree on.
 *
 * The signal is debuggerd's: SIGRTMIN + 1 of glibc, 35. The value that comes with it says
 * what is wanted: 1 the stacks, all else (kill sends none) the leaks.
 *
 * A process with the handler has a mapping of a file that has no place, named MS_SIGN and
 * the folder in which it answers. A program that later gives the signal a handler of its
 * own has the mapping, too; it gets the signal.
 *
 * To get the answer, first bind a stream socket in the folder of the process, named
 * MS_ANSWER_SOCKET with the process's number as itself sees it, and reads from what
 * connects until its end. An answer that is whole ends with a byte 0. One that begins with
 * a byte MS_ANSWER_REFUSED is a line that says why there is none, and one that says what
 * to do. Only root and the process's own user are answered.
 */

enum { MS_TRIGGER_SIGNAL = 35, MS_TRIGGER_STACKS = 1, MS_ANSWER_REFUSED = 1 };

/* The longest name of a file that has no place is 249 bytes. */
enum { MS_FOLDER_BYTES = 200 };

#define MS_SIGN          "memunreachable:"
#define MS_ANSWER_SOCKET ".memunreachable.%d"

/* The environment of a process with the handler. */
#define MS_ENV_TRIGGER    "MEMUNREACHABLE_TRIGGER"
#define MS_ENV_FOLDER     "MEMUNREACHABLE_FOLDER"
#define MS_ENV_RSS        "MEMUNREACHABLE_RSS"
#define MS_ENV_INTERVAL   "MEMUNREACHABLE_INTERVAL"
#define MS_ENV_MEMSCAN    "MEMUNREACHABLE_MEMSCAN"

#define MS_DEFAULT_FOLDER "/tmp"

#endif
