/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/out/heapdump.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/newfile.h"
#include "shim/frames/modules.h"
#include "shim/out/listing.h"
#include "shim/out/private.h"
#include "shim/out/say.h"
#include "shim/shim.h"

enum { BUFFER_BYTES = 16384, PIECE_BYTES = 2048 };

/* stdio would allocate. */
struct output {
	int fd;
	bool failed;
	size_t used;
	char buffer[BUFFER_BYTES];
};

static void flush(struct output *out)
{
	if (!out->failed)
		out->failed = !ms_fd_write_all(out->fd, out->buffer, out->used);
	out->used = 0;
}

__attribute__((format(printf, 2, 3))) static void put(struct output *out, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (out->used > sizeof(out->buffer) - PIECE_BYTES)
		flush(out);
	va_start(ap, fmt);
	n = vsnprintf(out->buffer + out->used, PIECE_BYTES, fmt, ap);
	va_end(ap);
	if (n > 0)
		out->used += (size_t)n < PIECE_BYTES ? (size_t)n : PIECE_BYTES - 1;
}

static void put_file(struct output *out, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0) {
		put(out, "Could not open %s\n", path);
		return;
	}
	flush(out);
	while ((n = read(fd, out->buffer, sizeof(out->buffer))) > 0) {
		out->used = (size_t)n;
		flush(out);
	}
	(void)close(fd);
}

/* What the distribution calls itself: Linux has no better name for a build. */
static void put_fingerprint(struct output *out, struct ms_arena *arena)
{
	static const char key[] = "PRETTY_NAME=\"";
	struct ms_bytes text = { 0 };
	struct ms_error err;
	const char *begin;
	int len = 0;

	if (ms_file_read("/etc/os-release", arena, &text, &err) ||
	    !ms_vec_reserve(arena, &text, text.n + 1))
		text.at = NULL;
	else
		text.at[text.n] = '\0';
	begin = text.at ? strstr(text.at, key) : NULL;
	if (begin) {
		begin += sizeof(key) - 1;
		len = (int)strcspn(begin, "\"\n");
	}
	put(out, "Build fingerprint: '%.*s'\n\n", begin ? len : (int)strlen("unknown"),
	    begin ? begin : "unknown");
}

static void put_info(struct output *out, struct ms_places *places, const struct ms_trace *trace)
{

	put(out, "  bt_info");
	for (uint32_t i = 0; i < trace->n; i++) {
		const struct ms_place *place = ms_places_find(places, trace->pc[i]);

		put(out, " {\"%s\" %" PRIx64 " \"%s\" %" PRIx64 "}",
		    place->module ? place->module->name : "", place->pc, place->function,
		    place->function[0] ? place->offset : 0);
	}
	put(out, "\n");
}

static void put_group(struct output *out, struct ms_places *places, const struct ms_group *group)
{
	const struct ms_trace *trace = ms_trace_find(group->trace);

	put(out, "z 0  sz %8zu  num    %zu  bt", group->size, group->count);
	for (uint32_t i = 0; trace && i < trace->n && trace->pc[i]; i++)
		put(out, " %" PRIx64, trace->pc[i]);
	put(out, "\n");
	if (trace && places)
		put_info(out, places, trace);
}

static bool write_dump(struct output *out, struct ms_arena *arena)
{
	struct ms_places places;
	struct ms_groups groups = { 0 };
	bool full = ms_shim_has(MS_OPT_BACKTRACE_FULL);
	size_t total = 0;

	if (!ms_listing_groups(arena, true, &groups))
		return false;
	if (full)
		ms_places_init(&places);
	for (size_t i = 0; i < groups.n; i++)
		total += groups.at[i].size * groups.at[i].count;
	put(out, "Android Native Heap Dump v1.2\n\n");
	put_fingerprint(out, arena);
	put(out, "Total memory: %zu\nAllocation records: %zu\nBacktrace size: %zu\n\n", total,
	    groups.n, ms_shim.options.frames);
	for (size_t i = 0; i < groups.n; i++)
		put_group(out, full ? &places : NULL, &groups.at[i]);
	if (full)
		ms_places_deinit(&places);
	put(out, "MAPS\n");
	put_file(out, "/proc/self/maps");
	put(out, "END\n");
	flush(out);
	return !out->failed;
}

bool ms_heapdump_to(int fd)
{
	struct ms_arena arena = { 0 };
	struct output out = { .fd = fd };
	bool done = write_dump(&out, &arena);

	ms_arena_deinit(&arena);
	return done;
}

bool ms_heapdump_file(const char *path)
{
	struct ms_newfile file;
	bool done;

	if (ms_private_begin(path, &file)) {
		ms_say("Unable to create file: %s", path);
		return false;
	}
	ms_say("Dumping to file: %s", path);
	ms_say("%s", "");
	done = ms_heapdump_to(file.fd);
	return !ms_private_end(path, &file, done) && done;
}

void ms_heapdump_write(const char *suffix)
{
	char path[MS_OPT_PATH + 64];

	(void)snprintf(path, sizeof(path), "%s.%d%s", ms_shim.options.dump_prefix, getpid(),
	               suffix);
	(void)ms_heapdump_file(path);
}
