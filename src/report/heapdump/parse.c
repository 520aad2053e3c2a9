/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A dump, line by line.
 *
 * Unknown lines are passed over before MAPS, as versions to come may have
 * them, and adb may put its own in front; a line that begins as a known one must be
 * whole. A dump that says its version must come to its END: a file that was cut off
 * would otherwise pass for a smaller heap.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/sort.h"
#include "report/heapdump/dump.h"

enum { MOST_NAME = 90 };

/* A piece of a line. */
struct text {
	const char *at;
	const char *end;
};

enum part { PART_RECORDS, PART_MAPS, PART_ENDED };

struct parser {
	const struct ms_heapdump_file *file;
	struct ms_arena *arena;
	struct ms_heapdump *dump;
	struct ms_error *err;
	enum part part;
	size_t number; /* of the line, from 1 */
	bool has_records_line;
	bool ignored_more; /* something stands behind END */
	uint64_t n_records;
};

static const char take_again[] = "it is damaged or cut off: take the dump again, copy all of it";

static enum ms_status __attribute__((format(printf, 2, 3)))
corrupt(const struct parser *p, const char *fmt, ...)
{
	char what[MS_ERROR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	(void)ms_fail(p->err, MS_E_CORRUPT, "%s, line %zu: %.80s",
	              ms_file_end(p->file->name, MOST_NAME), p->number, what);
	ms_advise(p->err, "%s", take_again);
	return MS_E_CORRUPT;
}

static enum ms_status no_memory(const struct parser *p)
{
	(void)ms_fail(p->err, MS_E_NOMEM, "no memory for the dump %.90s", p->file->name);
	ms_advise(p->err, "it needs several times its own size");
	return MS_E_NOMEM;
}

static enum ms_status __attribute__((format(printf, 2, 3)))
warn(const struct parser *p, const char *fmt, ...)
{
	struct ms_heapdump_warnings *warnings = &p->dump->warnings;
	char what[MS_ERROR_TEXT];
	const char **slot;
	va_list ap;

	if (warnings->n == MS_HEAPDUMP_MOST_WARNINGS)
		return MS_OK;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	slot = ms_vec_push(p->arena, warnings);
	if (!slot)
		return no_memory(p);
	*slot = ms_arena_strndup(p->arena, what, sizeof(what));
	return *slot ? MS_OK : no_memory(p);
}

/* ---- pieces of lines ---- */

static size_t length(struct text t)
{
	return (size_t)(t.end - t.at);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool begins(struct text t, const char *s)
{
	size_t len = strlen(s);

	return length(t) >= len && memcmp(t.at, s, len) == 0;
}

static bool equals(struct text t, const char *s)
{
	return length(t) == strlen(s) && begins(t, s);
}

static void skip_blanks(struct text *t)
{
	while (t->at < t->end && is_blank(*t->at))
		t->at++;
}

/* The next word of @rest, which is empty when there is none. */
static struct text take_word(struct text *rest)
{
	struct text word;

	skip_blanks(rest);
	word = *rest;
	while (rest->at < rest->end && !is_blank(*rest->at))
		rest->at++;
	word.end = rest->at;
	return word;
}

static unsigned digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : 16;
}

/* All of @t is one number. */
static bool is_number(struct text t, unsigned base, uint64_t *ret)
{
	uint64_t n = 0;

	if (t.at == t.end)
		return false;
	for (; t.at < t.end; t.at++) {
		unsigned digit = digit_of(*t.at);

		if (digit >= base || n > (UINT64_MAX - digit) / base)
			return false;
		n = n * base + digit;
	}
	*ret = n;
	return true;
}

static const char *keep(const struct parser *p, struct text t)
{
	return ms_arena_strndup(p->arena, t.at, length(t));
}

/* ---- the head ---- */

static enum ms_status parse_version(struct parser *p, struct text version)
{
	char *ret = p->dump->version;
	struct text minor = version;
	struct text major = version;
	uint64_t numbers[2];

	while (minor.at < minor.end && *minor.at != '.')
		minor.at++;
	major.end = minor.at;
	minor.at += minor.at < minor.end;
	if (!begins(version, "v"))
		return corrupt(p, "the version of the dump is missing");
	major.at++;
	if (!is_number(major, 10, &numbers[0]) || !is_number(minor, 10, &numbers[1]) ||
	    length(version) >= sizeof(p->dump->version))
		return corrupt(p, "this is not a version of a heap dump");
	if (ret[0])
		return corrupt(p, "a second dump begins here");
	(void)snprintf(ret, sizeof(p->dump->version), "%.*s", (int)length(version) - 1,
	               version.at + 1);
	if (numbers[0] == 1)
		return MS_OK;
	(void)ms_fail(p->err, MS_E_UNSUPPORTED, "%s, line %zu: heap dumps of version %s",
	              ms_file_end(p->file->name, MOST_NAME), p->number, ret);
	ms_advise(p->err, "memscan reads versions 1.0 to 1.2");
	return MS_E_UNSUPPORTED;
}

static enum ms_status parse_fingerprint(struct parser *p, struct text value)
{
	if (length(value) < 2 || *value.at != '\'' || value.end[-1] != '\'')
		return corrupt(p, "the build fingerprint does not stand in quotes");
	value.at++;
	value.end--;
	p->dump->fingerprint = keep(p, value);
	return p->dump->fingerprint ? MS_OK : no_memory(p);
}

static enum ms_status parse_head_number(struct parser *p, struct text value, uint64_t *ret)
{
	return is_number(value, 10, ret) ? MS_OK : corrupt(p, "a number should stand here");
}

/* ---- records ---- */

static enum ms_status parse_frames(struct parser *p, struct text rest,
                                   struct ms_heapdump_record *record)
{
	record->first = p->dump->pcs.n;
	for (struct text word = take_word(&rest); length(word); word = take_word(&rest)) {
		ms_addr *pc = ms_vec_push(p->arena, &p->dump->pcs);

		if (!pc)
			return no_memory(p);
		if (!is_number(word, 16, pc))
			return corrupt(p, "this is not the address of a frame: %.16s",
			               keep(p, word) ? keep(p, word) : "");
		if (++record->n_frames > MS_HEAPDUMP_MOST_FRAMES)
			return corrupt(p, "a stack of more than %d frames",
			               MS_HEAPDUMP_MOST_FRAMES);
	}
	return MS_OK;
}

static enum ms_status keep_record(struct parser *p, const struct ms_heapdump_record *record)
{
	struct ms_heapdump_record *slot = ms_vec_push(p->arena, &p->dump->records);

	if (!slot)
		return no_memory(p);
	*slot = *record;
	return MS_OK;
}

/* "z 0  sz       50  num    1  bt a100 b200", the "z" being taken. */
static enum ms_status parse_record(struct parser *p, struct text rest)
{
	struct ms_heapdump_record record = { .info = SIZE_MAX, .line = p->number };
	struct text z = take_word(&rest);
	enum ms_status st;

	if (!equals(z, "0") && !equals(z, "1"))
		return corrupt(p, "a record must begin with z 0 or z 1");
	record.app = equals(z, "1");
	if (!equals(take_word(&rest), "sz") || !is_number(take_word(&rest), 10, &record.size))
		return corrupt(p, "the size of a record is missing, or too large");
	if (!equals(take_word(&rest), "num") || !is_number(take_word(&rest), 10, &record.count))
		return corrupt(p, "the number of blocks of a record is missing, or too large");
	if (!equals(take_word(&rest), "bt"))
		return corrupt(p, "the backtrace of a record is missing");
	p->n_records++;
	st = parse_frames(p, rest, &record);
	if (st)
		return st;
	return keep_record(p, &record);
}

/*
 * '{"MAP" RELPC "FUNCTION" OFFSET}': names are in quotes, and may have quotes inside, so
 * that the first quote which a number and @behind follow is the one that ends it.
 */
static bool take_name_and_number(struct text *rest, const char *behind, struct text *ret_name,
                                 uint64_t *ret)
{
	const char *begin = rest->at + 1;

	if (!begins(*rest, "\""))
		return false;
	for (const char *at = begin; at + 2 < rest->end; at++) {
		struct text number = { at + 2, at + 2 };

		if (at[0] != '"' || at[1] != ' ')
			continue;
		while (number.end < rest->end && digit_of(*number.end) < 16)
			number.end++;
		if (!begins((struct text){ number.end, rest->end }, behind) ||
		    !is_number(number, 16, ret))
			continue;
		*ret_name = (struct text){ begin, at };
		rest->at = number.end;
		return true;
	}
	return false;
}

static enum ms_status parse_info(struct parser *p, struct text *rest)
{
	struct ms_heapdump_info *info = ms_vec_push(p->arena, &p->dump->infos);
	struct text library = { 0 };
	struct text function = { 0 };
	uint64_t offset;
	bool whole;

	if (!info)
		return no_memory(p);
	whole = begins(*rest, "{");
	rest->at += whole;
	whole = whole && take_name_and_number(rest, " \"", &library, &info->rel_pc);
	rest->at += whole;
	whole = whole && take_name_and_number(rest, "}", &function, &offset);
	if (!whole)
		return corrupt(p, "a frame of bt_info is not whole");
	rest->at++;
	info->library = keep(p, library);
	info->function = keep(p, function);
	return info->library && info->function ? MS_OK : no_memory(p);
}

/* What stands below a record names its frames, one by one. */
static enum ms_status parse_infos(struct parser *p, struct text rest)
{
	struct ms_heapdump *dump = p->dump;
	struct ms_heapdump_record *record;
	size_t first = dump->infos.n;

	if (dump->records.n == 0)
		return corrupt(p, "bt_info without a record above it");
	for (skip_blanks(&rest); length(rest); skip_blanks(&rest)) {
		enum ms_status st = parse_info(p, &rest);

		if (st)
			return st;
	}
	record = &dump->records.at[dump->records.n - 1];
	if (record->info != SIZE_MAX)
		return corrupt(p, "a second bt_info for one record");
	if (dump->infos.n - first == record->n_frames) {
		record->info = first;
		return MS_OK;
	}
	/* Whose names they are cannot be told. */
	return warn(p, "line %zu: bt_info has %zu frames, its record %zu: not used", p->number,
	            dump->infos.n - first, record->n_frames);
}

/* ---- mappings ---- */

static bool take_range(struct text *rest, struct ms_range *ret)
{
	struct text begin = take_word(rest);
	struct text end = begin;
	const char *dash = length(begin) ? memchr(begin.at, '-', length(begin)) : NULL;

	if (!dash)
		return false;
	begin.end = dash;
	end.at = dash + 1;
	return is_number(begin, 16, &ret->begin) && is_number(end, 16, &ret->end);
}

/* "BEGIN-END rwxp OFFSET MAJOR:MINOR INODE", then blanks and the name, which may hold blanks. */
static bool parse_mapping(const struct parser *p, struct text rest, struct ms_heapdump_mapping *ret)
{
	if (!take_range(&rest, &ret->range) || length(take_word(&rest)) != 4 ||
	    !is_number(take_word(&rest), 16, &ret->offset) || !memchr(rest.at, ':', length(rest)) ||
	    !length(take_word(&rest)) || !is_number(take_word(&rest), 10, &ret->inode))
		return false;
	skip_blanks(&rest);
	ret->name = keep(p, rest);
	ret->line = p->number;
	return true;
}

static enum ms_status parse_maps_line(struct parser *p, struct text line)
{
	struct ms_heapdump_mapping mapping = { 0 };
	struct ms_heapdump_mapping *slot;

	if (!length(line))
		return MS_OK;
	if (begins(line, "Could not open"))
		return warn(p, "line %zu: the dump has no mappings: functions cannot be named",
		            p->number);
	if (!parse_mapping(p, line, &mapping))
		return corrupt(p, "this is not a line of /proc/PID/maps");
	if (mapping.range.begin >= mapping.range.end)
		return corrupt(p, "a mapping that ends before it begins");
	slot = ms_vec_push(p->arena, &p->dump->mappings);
	if (!slot || !mapping.name)
		return no_memory(p);
	*slot = mapping;
	return MS_OK;
}

static bool mapping_before(const void *a, const void *b)
{
	const struct ms_heapdump_mapping *x = a;
	const struct ms_heapdump_mapping *y = b;

	return x->range.begin < y->range.begin;
}

/* Addresses are searched in them. */
static enum ms_status order_mappings(struct parser *p)
{
	struct ms_heapdump_mappings *mappings = &p->dump->mappings;

	if (!ms_sort(p->arena, mappings->at, mappings->n, sizeof(*mappings->at), mapping_before))
		return no_memory(p);
	for (size_t i = 1; i < mappings->n; i++) {
		if (mappings->at[i].range.begin >= mappings->at[i - 1].range.end)
			continue;
		p->number = mappings->at[i].line;
		return corrupt(p, "a mapping that overlaps the one of line %zu",
		               mappings->at[i - 1].line);
	}
	return MS_OK;
}

/* ---- the whole ---- */

static enum ms_status parse_before_maps(struct parser *p, struct text line)
{
	static const char title[] = "Android Native Heap Dump";
	static const char refused[] = "Native heap dump not available";
	struct text rest = line;
	struct text word = take_word(&rest);

	skip_blanks(&rest);
	if (equals(word, "z"))
		return parse_record(p, rest);
	if (equals(word, "bt_info"))
		return parse_infos(p, rest);
	if (equals(line, "MAPS")) {
		p->part = PART_MAPS;
		return MS_OK;
	}
	if (begins(line, title)) {
		line.at += strlen(title);
		return parse_version(p, take_word(&line));
	}
	if (begins(line, "Build fingerprint: "))
		return parse_fingerprint(p, (struct text){ line.at + 19, line.end });
	if (begins(line, "Total memory: "))
		return parse_head_number(p, (struct text){ line.at + 14, line.end },
		                         &p->dump->total_bytes);
	if (begins(line, "Allocation records: ")) {
		p->has_records_line = true;
		return parse_head_number(p, (struct text){ line.at + 20, line.end },
		                         &p->dump->total_records);
	}
	if (begins(line, "Backtrace size: "))
		return parse_head_number(p, (struct text){ line.at + 16, line.end },
		                         &p->dump->backtrace_size);
	if (begins(line, refused)) {
		(void)ms_fail(p->err, MS_E_CORRUPT, "%.90s: its process kept no backtraces",
		              p->file->name);
		ms_advise(p->err, "start the process with Malloc Debug's option backtrace");
		return MS_E_CORRUPT;
	}
	return MS_OK;
}

static enum ms_status parse_line(struct parser *p, struct text line)
{
	if (memchr(line.at, '\0', length(line)))
		return corrupt(p, "a byte that is not text: this is not a heap dump");
	if (p->part == PART_ENDED) {
		p->ignored_more |= length(line) > 0;
		return MS_OK;
	}
	if (equals(line, "END")) {
		p->part = PART_ENDED;
		return MS_OK;
	}
	return p->part == PART_MAPS ? parse_maps_line(p, line) : parse_before_maps(p, line);
}

static enum ms_status parse_lines(struct parser *p)
{
	const char *at = p->file->text;
	const char *end = at + p->file->len;
	enum ms_status st = MS_OK;

	while (!st && at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		struct text line = { at, newline ? newline : end };

		at = newline ? newline + 1 : end;
		/* Older adb gave out "\r\n", and "\r\r\n" to Windows. */
		while (line.at < line.end && line.end[-1] == '\r')
			line.end--;
		p->number++;
		st = parse_line(p, line);
	}
	return st;
}

static enum ms_status check_whole(struct parser *p)
{
	const struct ms_heapdump *dump = p->dump;

	if (!dump->version[0] && !p->n_records) {
		(void)ms_fail(p->err, MS_E_CORRUPT, "%.120s is not an Android heap dump",
		              p->file->name);
		ms_advise(p->err, "give a file that am dumpheap -n or Malloc Debug's option "
		                  "backtrace_dump_on_exit wrote");
		return MS_E_CORRUPT;
	}
	if (dump->version[0] && p->part != PART_ENDED)
		return corrupt(p, "the file ends before the dump does: END is missing");
	if (p->ignored_more && warn(p, "what follows END is not read"))
		return MS_E_NOMEM;
	if (p->has_records_line && dump->total_records != p->n_records)
		return warn(p, "the dump announces %llu records and has %llu",
		            (unsigned long long)dump->total_records,
		            (unsigned long long)p->n_records);
	return MS_OK;
}

/* Android's rule: on N, the number of frames that were asked for stands in its place. */
static bool counts_are_valid(const struct ms_heapdump *dump)
{
	const struct ms_heapdump_record *record;
	unsigned equal = 0;

	if (dump->version[0] && strcmp(dump->version, "1.0") != 0)
		return true;
	ms_vec_for_each (record, &dump->records) {
		if (!record->n_frames)
			continue;
		if (record->count != dump->backtrace_size)
			return true;
		if (++equal == 3)
			return false;
	}
	return equal == 0;
}

/* Sum up, and leave out what has no stack. */
static enum ms_status settle_records(struct parser *p)
{
	struct ms_heapdump *dump = p->dump;
	struct ms_heapdump_record *record;
	uint64_t blocks = 0;
	uint64_t bytes = 0;
	size_t kept = 0;

	dump->counts_valid = counts_are_valid(dump);
	ms_vec_for_each (record, &dump->records) {
		uint64_t all;

		if (!dump->counts_valid)
			record->count = 1;
		if (__builtin_mul_overflow(record->size, record->count, &all) ||
		    __builtin_add_overflow(bytes, all, &bytes) || bytes > INT64_MAX ||
		    __builtin_add_overflow(blocks, record->count, &blocks) || blocks > INT64_MAX) {
			p->number = record->line;
			return corrupt(p, "the sizes of all records exceed 64 bits");
		}
		if (record->n_frames) {
			dump->records.at[kept++] = *record;
		} else {
			dump->stackless_records++;
			dump->stackless_bytes += all;
		}
	}
	dump->bytes = bytes - dump->stackless_bytes;
	dump->records.n = kept;
	return MS_OK;
}

enum ms_status ms_heapdump_parse(const struct ms_heapdump_file *file, struct ms_arena *arena,
                                 struct ms_heapdump *ret, struct ms_error *err)
{
	struct parser p = { .file = file, .arena = arena, .dump = ret, .err = err };
	enum ms_status st;

	memset(ret, 0, sizeof(*ret));
	if (!file->len) {
		(void)ms_fail(err, MS_E_CORRUPT, "%.120s is empty", file->name);
		ms_advise(err, "%s", take_again);
		return MS_E_CORRUPT;
	}
	st = parse_lines(&p);
	if (!st)
		st = check_whole(&p);
	if (!st)
		st = order_mappings(&p);
	return st ? st : settle_records(&p);
}
