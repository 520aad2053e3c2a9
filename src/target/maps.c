/* SPDX-License-Identifier: Apache-2.0 */
#include "target/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "engine/modules.h"
#include "target/proc.h"
#include "target/target.h"

enum { MAX_READS = 20, FIRST_READ = 256 * 1024 };

struct text MS_VEC(char);

/* A line being taken apart; `ok` turns false at the first surprise and stays so. */
struct line {
	const char *at;
	const char *end;
	bool ok;
};

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

static uint64_t take_number(struct line *line, int base)
{
	const char *begin = line->at;
	uint64_t value = 0;

	while (line->at < line->end && digit_of(*line->at) < base)
		value = value * (uint64_t)base + (uint64_t)digit_of(*line->at++);
	line->ok &= line->at > begin && line->at - begin <= 20;
	return value;
}

static void take_char(struct line *line, char c)
{
	if (line->at < line->end && *line->at == c)
		line->at++;
	else
		line->ok = false;
}

static void take_flags(struct line *line, struct ms_mapping *map)
{
	const char *flags = line->at;

	if (line->end - flags < 4) {
		line->ok = false;
		return;
	}
	map->prot = (uint8_t)((flags[0] == 'r' ? MS_PROT_READ : 0) |
	                      (flags[1] == 'w' ? MS_PROT_WRITE : 0) |
	                      (flags[2] == 'x' ? MS_PROT_EXEC : 0));
	map->shared = flags[3] == 's';
	line->at += 4;
}

/* "BEGIN-END rwxp OFFSET MAJOR:MINOR INODE", then blanks and the name, which may hold blanks. */
static bool parse_line(struct line *line, struct ms_mapping *map)
{
	map->range.begin = take_number(line, 16);
	take_char(line, '-');
	map->range.end = take_number(line, 16);
	take_char(line, ' ');
	take_flags(line, map);
	take_char(line, ' ');
	map->offset = take_number(line, 16);
	take_char(line, ' ');
	map->dev_major = (uint32_t)take_number(line, 16);
	take_char(line, ':');
	map->dev_minor = (uint32_t)take_number(line, 16);
	take_char(line, ' ');
	map->inode = take_number(line, 10);
	while (line->at < line->end && *line->at == ' ')
		line->at++;
	return line->ok && map->range.begin < map->range.end;
}

/* The name on @line, shared with the mapping before when it is the same. */
static const char *name_of(const struct line *line, const struct ms_mappings *maps,
                           struct ms_arena *arena)
{
	size_t len = (size_t)(line->end - line->at);

	if (!len)
		return "";
	if (maps->n > 1) {
		const char *before = maps->at[maps->n - 2].name;

		if (strlen(before) == len && !memcmp(before, line->at, len))
			return before;
	}
	return ms_arena_strndup(arena, line->at, len);
}

static enum ms_status add_line(struct line *line, struct ms_arena *arena, struct ms_mappings *maps,
                               struct ms_error *err)
{
	ms_addr floor = maps->n ? maps->at[maps->n - 1].range.end : 0;
	struct ms_mapping *map = ms_vec_push(arena, maps);

	if (!map)
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of mappings");
	if (!parse_line(line, map) || map->range.begin < floor)
		return ms_fail(err, MS_E_CORRUPT, "line %zu of the memory map is not understood",
		               maps->n);
	map->name = name_of(line, maps, arena);
	if (!map->name)
		return ms_fail(err, MS_E_NOMEM, "no memory for the names of mappings");
	/* MAP_HUGETLB without a file: the kernel has one for it, known to it alone. */
	if (!map->shared && ms_name_begins(map->name, "/anon_hugepage"))
		map->inode = 0;
	map->file = map->inode != 0;
	return MS_OK;
}

enum ms_status ms_maps_parse(const char *text, size_t len, struct ms_arena *arena,
                             struct ms_mappings *ret, struct ms_error *err)
{
	struct ms_mappings maps = { 0 };
	const char *at = text;

	while (at < text + len) {
		const char *newline = memchr(at, '\n', (size_t)(text + len - at));
		struct line line = { at, newline ? newline : text + len, true };
		enum ms_status st = add_line(&line, arena, &maps, err);

		if (st)
			return st;
		at = line.end + 1;
	}
	*ret = maps;
	return MS_OK;
}

static enum ms_status explain_errno(pid_t tid, int error, struct ms_error *err)
{
	if (error == ENOENT || error == ESRCH)
		return ms_fail(err, MS_E_GONE, "process %d ended", tid);
	if (error == EACCES || error == EPERM)
		return ms_target_explain_denied(tid, err);
	return ms_fail_sys(err, error, "reading the memory map of process %d", tid);
}

static enum ms_status read_text(int fd, pid_t tid, struct ms_arena *arena, struct text *text,
                                struct ms_error *err)
{
	ssize_t n;

	do {
		if (!ms_vec_reserve(arena, text, text->n + FIRST_READ))
			return ms_fail(err, MS_E_NOMEM, "no memory for the memory map's text");
		n = read(fd, text->at + text->n, text->cap - text->n);
		if (n > 0)
			text->n += (size_t)n;
	} while (n > 0);
	if (n < 0)
		return explain_errno(tid, errno, err);
	if (!text->n)
		return ms_fail(err, MS_E_GONE, "process %d ended", tid);
	return MS_OK;
}

static enum ms_status read_once(pid_t tid, struct ms_arena *arena, struct ms_mappings *ret,
                                struct ms_error *err)
{
	int fd = ms_proc_open(tid, "maps", O_RDONLY);
	struct ms_arena scratch = { 0 };
	struct text text = { 0 };
	enum ms_status st;

	if (fd < 0)
		return explain_errno(tid, -fd, err);
	st = read_text(fd, tid, &scratch, &text, err);
	(void)close(fd);
	if (!st)
		st = ms_maps_parse(text.at, text.n, arena, ret, err);
	ms_arena_deinit(&scratch);
	return st;
}

enum ms_status ms_maps_read(pid_t tid, struct ms_arena *arena, struct ms_mappings *ret,
                            struct ms_error *err)
{
	enum ms_status st = MS_E_CORRUPT;
	struct ms_error last = { 0 };

	/* Of a process that runs the kernel lists one piece after the other, and they may not fit.
	 */
	for (int i = 0; i < MAX_READS && st == MS_E_CORRUPT; i++)
		st = read_once(tid, arena, ret, &last);
	if (st)
		*err = last;
	return st;
}

/* The mapping's own line before its details: "begin-end rw-p ..."; they begin with a word. */
static bool parse_range(const char *line, struct ms_range *ret, bool *ret_shared)
{
	char *end;
	ms_addr begin = strtoull(line, &end, 16);

	if (end == line || *end != '-')
		return false;
	*ret = (struct ms_range){ begin, strtoull(end + 1, &end, 16) };
	*ret_shared = strlen(end) > 4 && end[4] == 's'; /* " rwxs" */
	return true;
}

static bool has_flag(const char *line, bool shared, const char *flag)
{
	if (*flag == ' ')
		return ms_name_begins(line, "VmFlags:") && strstr(line, flag);
	return shared && ms_name_begins(line, flag) && strtoull(line + strlen(flag), NULL, 10);
}

enum ms_status ms_maps_parse_flagged(char *text, const char *flag, struct ms_arena *arena,
                                     struct ms_ranges *ret, struct ms_error *err)
{
	struct ms_range range = { 0 };
	bool shared = false;
	char *rest;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (!parse_range(line, &range, &shared) && has_flag(line, shared, flag) &&
		    !ms_ranges_add(arena, ret, range.begin, range.end))
			return ms_fail(err, MS_E_NOMEM, "no memory for the list of mappings");
	return MS_OK;
}

enum ms_status ms_maps_flagged(pid_t tid, const char *flag, struct ms_arena *arena,
                               struct ms_ranges *ret, struct ms_error *err)
{
	int fd = ms_proc_open(tid, "smaps", O_RDONLY);
	struct ms_arena scratch = { 0 };
	struct text text = { 0 };
	char *end;
	enum ms_status st;

	if (fd < 0)
		return explain_errno(tid, -fd, err);
	st = read_text(fd, tid, &scratch, &text, err);
	(void)close(fd);
	if (st)
		goto out;
	end = ms_vec_push(&scratch, &text);
	if (!end) {
		st = ms_fail(err, MS_E_NOMEM, "no memory for the memory map's text");
		goto out;
	}
	*end = '\0';
	st = ms_maps_parse_flagged(text.at, flag, arena, ret, err);
out:
	ms_arena_deinit(&scratch);
	return st;
}

const struct ms_mapping *ms_maps_find(const struct ms_mappings *maps, ms_addr addr)
{
	return ms_range_find(maps, addr);
}

const struct ms_mapping *ms_maps_head(const struct ms_mappings *maps, const struct ms_mapping *map)
{
	const struct ms_mapping *head = map;

	if (!map->file)
		return map;
	/* Copies of one library (dlmopen) each begin with a mapping of offset 0. */
	while (head->offset || !ms_mapping_same_file(head, map)) {
		if (head == maps->at)
			return NULL;
		head--;
	}
	return ms_module_first(maps, head);
}
