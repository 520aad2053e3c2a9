/* SPDX-License-Identifier: Apache-2.0 */
#include "report/records/operation.h"

#include <assert.h>
#include <string.h>

#define NAME(name) (name), sizeof(name) - 1

/* How a line goes on behind its address. */
static const struct kind {
	const char *name;
	size_t len; /* of the name */
	const char *form;
	bool has_old;
	bool has_number;
	bool has_size;
} kinds[] = {
	[MS_OP_MALLOC] = { NAME("malloc"), "TID: malloc 0xADDRESS SIZE [START END]",
	                   .has_size = true },
	[MS_OP_CALLOC] = { NAME("calloc"), "TID: calloc 0xADDRESS NUMBER SIZE [START END]",
	                   .has_number = true, .has_size = true },
	[MS_OP_REALLOC] = { NAME("realloc"), "TID: realloc 0xNEW 0xOLD SIZE [START END]",
	                    .has_old = true, .has_size = true },
	[MS_OP_MEMALIGN] = { NAME("memalign"), "TID: memalign 0xADDRESS ALIGNMENT SIZE [START END]",
	                     .has_number = true, .has_size = true },
	[MS_OP_FREE] = { NAME("free"), "TID: free 0xADDRESS [START END]" },
	[MS_OP_THREAD_DONE] = { NAME("thread_done"), "TID: thread_done 0x0 [END]" },
	[MS_OP_KINDS] = { NAME(""),
	                  "TID: malloc|calloc|realloc|memalign|free|thread_done 0xADDRESS ..." },
};

static_assert(sizeof(kinds) / sizeof(kinds[0]) == MS_OP_KINDS + 1, "each kind has its row");

enum { MOST_TRAILING = 3 };

/* What is left of a line. */
struct rest {
	const char *at;
	const char *end;
};

static bool skip_blanks(struct rest *rest)
{
	const char *begin = rest->at;

	while (rest->at < rest->end && (*rest->at == ' ' || *rest->at == '\t'))
		rest->at++;
	return rest->at > begin;
}

static bool take_char(struct rest *rest, char c)
{
	bool there = rest->at < rest->end && *rest->at == c;

	rest->at += there;
	return there;
}

/* A number ends with the line, or before a blank; @stop is taken for one. */
static bool is_ended(const struct rest *rest, char stop)
{
	return rest->at == rest->end || *rest->at == ' ' || *rest->at == '\t' || *rest->at == stop;
}

static bool take_decimal(struct rest *rest, char stop, uint64_t *ret)
{
	const char *begin = rest->at;
	uint64_t n = 0;

	for (; rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9'; rest->at++) {
		uint64_t digit = (uint64_t)(*rest->at - '0');

		if (n >= UINT64_MAX / 10 && (n > UINT64_MAX / 10 || digit > UINT64_MAX % 10))
			return false;
		n = n * 10 + digit;
	}
	*ret = n;
	return rest->at > begin && is_ended(rest, stop);
}

static unsigned hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

/* "0x12ab"; the 0x may be missing, as it may for Android's reader. */
static bool take_address(struct rest *rest, ms_addr *ret)
{
	const char *begin;
	uint64_t n = 0;

	if (rest->end - rest->at > 2 && rest->at[0] == '0' && rest->at[1] == 'x')
		rest->at += 2;
	begin = rest->at;
	for (unsigned digit; rest->at < rest->end; rest->at++) {
		digit = hex_digit(*rest->at);
		if (digit == 16)
			break;
		if (n >> 60)
			return false;
		n = n << 4 | digit;
	}
	*ret = n;
	return rest->at > begin && is_ended(rest, ' ');
}

static enum ms_operation_kind take_kind(struct rest *rest)
{
	size_t left = (size_t)(rest->end - rest->at);

	for (int i = 0; i < MS_OP_KINDS; i++) {
		const struct kind *kind = &kinds[i];

		if (left > kind->len && rest->at[0] == kind->name[0] &&
		    memcmp(rest->at, kind->name, kind->len) == 0) {
			rest->at += kind->len;
			return (enum ms_operation_kind)i;
		}
	}
	return MS_OP_KINDS;
}

/* "TID: KIND 0xADDRESS" */
static bool take_beginning(struct rest *rest, struct ms_operation *ret)
{
	uint64_t tid;

	if (!take_decimal(rest, ':', &tid) || tid > INT32_MAX || !take_char(rest, ':') ||
	    !skip_blanks(rest))
		return false;
	ret->tid = (uint32_t)tid;
	ret->kind = take_kind(rest);
	return ret->kind < MS_OP_KINDS && skip_blanks(rest) && take_address(rest, &ret->address);
}

static bool take_data(struct rest *rest, struct ms_operation *ret)
{
	const struct kind *kind = &kinds[ret->kind];

	if (kind->has_old && !(skip_blanks(rest) && take_address(rest, &ret->old)))
		return false;
	if (kind->has_number && !(skip_blanks(rest) && take_decimal(rest, ' ', &ret->number)))
		return false;
	if (kind->has_size && !(skip_blanks(rest) && take_decimal(rest, ' ', &ret->size)))
		return false;
	if (ret->kind == MS_OP_CALLOC &&
	    __builtin_mul_overflow(ret->number, ret->size, &ret->size)) {
		ret->size = UINT64_MAX;
		return ret->address == 0;
	}
	return true;
}

/* The numbers up to the end of the line; a count of bytes that is not known is "-1". */
static bool take_trailing(struct rest *rest, uint64_t *ret, unsigned *ret_n)
{
	unsigned n = 0;

	for (;;) {
		bool unknown;

		(void)skip_blanks(rest);
		*ret_n = n;
		if (rest->at == rest->end)
			return true;
		if (n == MOST_TRAILING)
			return false;
		unknown = take_char(rest, '-');
		if (!take_decimal(rest, ' ', &ret[n]) || (unknown && ret[n] != 1))
			return false;
		if (unknown)
			ret[n] = UINT64_MAX;
		n++;
	}
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a < b ? b - a : a - b;
}

/*
 * No, one or both times, and the present bytes. On which side of the times those stand in
 * Android's files could not be verified; two times of a call are closer to each other than
 * a time to a number of bytes.
 */
static bool set_times(const uint64_t *n, unsigned count, struct ms_operation *ret)
{
	const uint64_t *start = n;

	if (ret->kind == MS_OP_THREAD_DONE) {
		if (count > 1)
			return false;
		ret->timed = count == 1;
		ret->start_ns = ret->end_ns = count ? n[0] : 0;
		return ret->end_ns <= INT64_MAX;
	}
	if (count == 1)
		return ret->kind == MS_OP_FREE || ret->kind == MS_OP_REALLOC;
	if (count == 0)
		return true;
	if (count == 3 && distance(n[1], n[2]) < distance(n[0], n[1]))
		start = n + 1;
	ret->timed = true;
	ret->start_ns = start[0];
	ret->end_ns = start[1];
	return start[0] <= start[1] && start[1] <= INT64_MAX;
}

enum ms_operation_problem ms_operation_read(const char *line, size_t len, struct ms_operation *ret)
{
	struct rest rest = { line, line + len };
	uint64_t trailing[MOST_TRAILING];
	unsigned n;

	*ret = (struct ms_operation){ .kind = MS_OP_KINDS };
	if (!take_beginning(&rest, ret))
		return MS_OP_NO_LINE;
	if (!take_data(&rest, ret))
		return MS_OP_NO_DATA;
	if (!take_trailing(&rest, trailing, &n) || !set_times(trailing, n, ret))
		return MS_OP_NO_TIMES;
	return MS_OP_READ;
}

const char *ms_operation_name(enum ms_operation_kind kind)
{
	return kinds[kind].name;
}

const char *ms_operation_form(enum ms_operation_kind kind)
{
	return kinds[kind].form;
}
