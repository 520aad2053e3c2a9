/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/names/suppressions.h"

#include <string.h>

static bool is_special(char c)
{
	return c == '*' || c == '$' || c == '\0';
}

/* Where the @len bytes of @part are found first in @name, or NULL. */
static const char *find_part(const char *name, const char *part, size_t len)
{
	return memmem(name, strlen(name), part, len);
}

bool ms_suppression_matches(const char *pattern, const char *name)
{
	bool at_begin = *pattern == '^';
	bool after_star = false;

	if (!*name)
		return false;
	pattern += at_begin;
	while (*pattern) {
		const char *part = pattern;
		const char *found;

		if (*pattern == '*') {
			pattern++;
			at_begin = false;
			after_star = true;
			continue;
		}
		if (*pattern == '$')
			return !*name || after_star;
		while (!is_special(*pattern))
			pattern++;
		found = find_part(name, part, (size_t)(pattern - part));
		if (!found || (at_begin && found != name))
			return false;
		name = found + (pattern - part);
		at_begin = false;
		after_star = false;
	}
	return true;
}

/* ---- the file ---- */

struct parser {
	const char *file;
	size_t line;
	struct ms_arena *arena;
	struct ms_error *err;
};

/* The end of a long path, lest it pushes out what else a line has to say. */
static const char *end_of_path(const char *path)
{
	enum { SHOWN = 80 };
	size_t len = strlen(path);

	return len > SHOWN ? path + len - SHOWN : path;
}

static enum ms_status wrong(struct parser *p, const char *what, const char *word, size_t len)
{
	enum { WORD_SHOWN = 24 };
	enum ms_status st = ms_fail(p->err, MS_E_UNSUPPORTED, "%s:%zu: %s'%.*s'%s", p->file,
	                            p->line, what, (int)(len < WORD_SHOWN ? len : WORD_SHOWN), word,
	                            len < WORD_SHOWN ? "" : "...");

	ms_advise(p->err, "a line is leak:PATTERN, or a comment that begins with #");
	return st;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/*
 * One line without its end. As LeakSanitizer takes it: blanks around the line do not
 * count, those behind the colon belong to the pattern.
 */
static enum ms_status parse_line(struct parser *p, const char *line, size_t len,
                                 struct ms_suppressions *ret)
{
	static const char kind[] = "leak:";
	const char *end = line + len;
	struct ms_suppression *s;
	const char *colon;
	char *pattern;

	while (line < end && is_blank(*line))
		line++;
	while (line < end && is_blank(end[-1]))
		end--;
	if (line == end || *line == '#')
		return MS_OK;
	len = (size_t)(end - line);
	if (memchr(line, '\0', len))
		return wrong(p, "a byte of value 0 in ", line, strnlen(line, len));
	colon = memchr(line, ':', len);
	if (!colon)
		return wrong(p, "leak: is missing before ", line, len);
	if (len < strlen(kind) || memcmp(line, kind, strlen(kind)) != 0)
		return wrong(p, "the only kind of suppression is leak:, not ", line,
		             (size_t)(colon + 1 - line));
	if (ret->n == MS_SUPPRESSIONS_MOST)
		return wrong(p, "too many suppressions, from here on: ", line, len);
	line += strlen(kind);
	s = ms_vec_push(p->arena, ret);
	pattern = ms_arena_strndup(p->arena, line, (size_t)(end - line));
	if (!s || !pattern)
		return ms_fail(p->err, MS_E_NOMEM, "no memory for the suppressions");
	*s = (struct ms_suppression){ pattern, p->file, p->line };
	return MS_OK;
}

enum ms_status ms_suppressions_parse(const struct ms_suppression_file *file, struct ms_arena *arena,
                                     struct ms_suppressions *ret, struct ms_error *err)
{
	struct parser p = { end_of_path(file->path), 1, arena, err };
	const char *at = file->text;
	const char *end = file->text + file->len;
	enum ms_status st = MS_OK;

	for (; at < end && !st; p.line++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *line_end = newline ? newline : end;

		st = parse_line(&p, at, (size_t)(line_end - at), ret);
		at = newline ? newline + 1 : end;
	}
	return st;
}

size_t ms_suppressions_find(const struct ms_suppressions *suppressions, const char *const *names,
                            size_t n)
{
	for (size_t i = 0; i < suppressions->n; i++)
		for (size_t k = 0; k < n; k++)
			if (ms_suppression_matches(suppressions->at[i].pattern, names[k]))
				return i;
	return suppressions->n;
}
