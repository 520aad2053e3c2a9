/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/options/rows.h"

static const char usage[] =
	"Usage: memscan [scan] [OPTION]... PID\n"
	"Report unreachable (leaked) heap memory of a running process. It needs no\n"
	"preparation, stands still for milliseconds and runs on.\n\n"
	"Other commands, each with its own --help:\n"
	"  memscan run [OPTION]... [--] PROG [ARG]...  run PROG, scan it just before it exits\n"
	"  memscan why PID ADDRESS|TYPE                print what keeps a block alive\n"
	"  memscan retained PID                        print what holds how much memory\n"
	"  memscan live PID                            print which calls allocated what lives\n"
	"  memscan diff [OPTION]... OLD NEW            print what leaked or grew between reports\n"
	"  memscan core [OPTION]... FILE               scan the core of a process\n"
	"  memscan dump [OPTION]... PID -o FILE        write a core of a running process\n"
	"  memscan stacks PID                          print the stack of every thread\n"
	"  memscan attach PID, memscan detach PID      sample backtraces of its allocations, or end\n"
	"  memscan trigger [--stacks] PID              ask a process to search itself\n"
	"  memscan heapdump [OPTION]... [OLD] FILE     read Android native heap dumps\n"
	"  memscan records [OPTION]... FILE            read recordings of malloc and free\n\n"
	"Options of a scan:";

static const char notes[] =
	"Sizes are usable sizes, as of malloc_usable_size(): malloc(20) counts as 24. Under\n"
	"libmalloc_debug.so they are the requested sizes.\n"
	"\nExit status: 0 no leaks, 1 leaks found, 2 usage error, 3 could not scan (stderr says\n"
	"why and what to do), 4 the report could not be written.\n";

static const char run_usage[] =
	"Usage: memscan run [OPTION]... [--] PROG [ARG]...\n"
	"Run PROG at full speed, and report its unreachable (leaked) heap memory just\n"
	"before it exits. The report goes to standard error, or to --output FILE, where\n"
	"%p in the name stands for the process id.\n";

static const char run_notes[] =
	"Sizes are usable sizes, as of malloc_usable_size(): malloc(20) counts as 24.\n"
	"\nExit status: that of PROG (127 not found, 126 cannot be executed), or N of\n"
	"--error-exitcode. If PROG was not started: 2 usage error, 3 PROG cannot be traced,\n"
	"4 the report cannot be written.\n";

static const char why_usage[] =
	"Usage: memscan why [OPTION]... PID ADDRESS|TYPE\n"
	"Print by which chain of references, root first, a block of a running process is\n"
	"kept alive; for a leaked block, which blocks point to it. ADDRESS is hexadecimal,\n"
	"anywhere in the block; TYPE the name of a type as reports print it, of which\n"
	"the largest blocks are looked at.\n";

static const char why_notes[] =
	"What consists of hexadecimal digits, one of them decimal, is an address, with 0x or\n"
	"without; '::abc1' is a type.\n"
	"\nExit status: 0 answered, 2 usage error, 3 could not scan, or no such block or type\n"
	"(stderr says why and what to do), 4 the answer could not be written.\n";

static const char retained_usage[] =
	"Usage: memscan retained [OPTION]... PID\n"
	"Print what holds the reachable heap memory of a running process: by root (a\n"
	"variable, a thread's stack or thread-local storage, the kernel), by type and by\n"
	"block, how much would be free without it, largest first, and the chain of blocks\n"
	"that leads to most of it. What several roots share is counted apart.\n";

static const char retained_notes[] =
	"What the roots hold and what they share is together all that is reachable. A list has\n"
	"10000 entries at most.\n"
	"\nExit status: 0 answered, 2 usage error, 3 could not scan (stderr says why and what to\n"
	"do), 4 the answer could not be written.\n";

static const char live_usage[] =
	"Usage: memscan live [OPTION]... PID\n"
	"Print which calls allocated the live heap memory of a running process whose\n"
	"allocations are sampled, how much as far as samples say, and how much of that is\n"
	"leaked; most bytes first.\n";

static const char live_notes[] =
	"An estimate comes with its standard error: in two of three cases the truth is no\n"
	"farther away.\n"
	"\nExit status: 0 answered, 2 usage error, 3 could not scan, or no samples (stderr says\n"
	"why and what to do), 4 the profile could not be written.\n";

static const char core_usage[] =
	"Usage: memscan core [OPTION]... FILE\n"
	"Report unreachable (leaked) heap memory of the process whose core FILE is: the\n"
	"kernel's, gcore's or systemd-coredump's, also compressed by zstd, lz4 or xz. What a\n"
	"core does not have is read from the programs and libraries that were mapped.\n";

/* By what command, and where its options are listed. */
#define NAMED(name) .command = (name), .see = "see " name " --help"

const struct ms_option_table ms_options_commands[] = {
	[MS_USE_SCAN] = { NAMED("memscan"), .usage = usage, .notes = notes },
	[MS_USE_RUN] = { NAMED("memscan run"), .usage = run_usage, .notes = run_notes,
	                 .leading = true },
	[MS_USE_WHY] = { NAMED("memscan why"), .usage = why_usage, .notes = why_notes },
	[MS_USE_RETAINED] = { NAMED("memscan retained"), .usage = retained_usage,
	                      .notes = retained_notes },
	[MS_USE_LIVE] = { NAMED("memscan live"), .usage = live_usage, .notes = live_notes },
	[MS_USE_CORE] = { NAMED("memscan core"), .usage = core_usage, .notes = notes },
};
