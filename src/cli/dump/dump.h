/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_DUMP_H
#define MS_CLI_DUMP_H

/* Between the files of memscan dump. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "cli/args.h"
#include "target/dump/dump.h"
#include "target/snapshot.h"

struct ms_dump_options {
	struct ms_args_process process; /* first: options of it take it so */
	const char *output;
	bool compress; /* by zstd */
	bool heap_only;
	enum ms_snapshot_how how;
	bool quiet, verbose, help;
};

extern const struct ms_option_table ms_dump_table;

/* False when the call is wrong, with both lines in @err. */
bool ms_dump_parse(int argc, char **argv, struct ms_dump_options *ret, struct ms_error *err);

/* A file that a core is written to. */
struct ms_dump_file {
	int fd;
	atomic_int *sys_errno; /* why it could not be written; shared with who waits for it */
	uint64_t hole;         /* bytes of zeros that are to be written, or left out */
	size_t used;
	struct ZSTD_CCtx_s *zstd; /* NULL: it is not compressed */
	uint8_t *buffer, *packed; /* of MS_DUMP_BUFFER */
};

enum { MS_DUMP_BUFFER = 1 << 17 };

/* Write to @file as it is, with holes; or compressed by zstd. False without memory. */
bool ms_dump_file_sink(struct ms_dump_file *file, bool compress, struct ms_dump_sink *ret);

#endif
