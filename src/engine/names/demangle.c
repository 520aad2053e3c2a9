/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/names/demangle.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * One pass from left to right. It works because what a name may refer back to, a
 * substitution, always stands in the output in one piece: a prefix from where its
 * nested name began, a pointer behind what it points to. So a substitution is a range
 * of the output, and to use one is to copy it to the end.
 *
 * A step returns false when it does not know what stands there, and with it all do:
 * the caller then shows the name as it is.
 */

enum { MAX_OUT = 1024, MAX_SUBSTITUTIONS = 128, MAX_DEPTH = 64, MAX_ARGS = 256 };

struct piece {
	uint16_t begin;
	uint16_t end;
};

struct demangling {
	const char *at; /* ends in NUL, which no step goes beyond */
	char out[MAX_OUT];
	size_t n;
	struct piece substitutions[MAX_SUBSTITUTIONS];
	size_t n_substitutions;
	unsigned depth;
};

static_assert(MAX_OUT <= UINT16_MAX, "a piece's ends fit");

static bool type(struct demangling *d);
static bool name(struct demangling *d);

static bool put(struct demangling *d, const char *text, size_t len)
{
	if (len > sizeof(d->out) - d->n)
		return false;
	memmove(d->out + d->n, text, len); /* it may be of out itself */
	d->n += len;
	return true;
}

static bool put_text(struct demangling *d, const char *text)
{
	return put(d, text, strlen(text));
}

/* What was put since @begin can be referred to from now on. */
static bool keep(struct demangling *d, size_t begin)
{
	if (d->n_substitutions == MAX_SUBSTITUTIONS)
		return false;
	d->substitutions[d->n_substitutions++] = (struct piece){ (uint16_t)begin, (uint16_t)d->n };
	return true;
}

static bool take(struct demangling *d, char c)
{
	if (*d->at != c)
		return false;
	d->at++;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A decimal number; false when there is none, or none that a name can have. */
static bool number(struct demangling *d, size_t *ret)
{
	size_t n = 0;

	if (!is_digit(*d->at))
		return false;
	for (; is_digit(*d->at); d->at++) {
		n = n * 10 + (size_t)(*d->at - '0');
		if (n > MAX_OUT)
			return false;
	}
	*ret = n;
	return true;
}

/* <source-name>, with its ABI tags. */
static bool source_name(struct demangling *d)
{
	static const char anonymous[] = "_GLOBAL__N";
	size_t len;

	if (!number(d, &len) || !len || strnlen(d->at, len) < len)
		return false;
	/* The 9th byte is '_', '.' or '$', as the assembler likes. */
	if (len >= 10 && !strncmp(d->at, anonymous, 8) && d->at[9] == 'N') {
		if (!put_text(d, "(anonymous namespace)"))
			return false;
	} else if (!put(d, d->at, len)) {
		return false;
	}
	d->at += len;
	while (take(d, 'B')) {
		if (!number(d, &len) || strnlen(d->at, len) < len || !put_text(d, "[abi:") ||
		    !put(d, d->at, len) || !put_text(d, "]"))
			return false;
		d->at += len;
	}
	return true;
}

/* "_" is 1, "0_" is 2, …: <lambda-sig>'s and <unnamed-type-name>'s numbers. */
static bool ordinal(struct demangling *d)
{
	char text[16];
	size_t n = 0;
	bool first = *d->at == '_';

	if (!first && !number(d, &n))
		return false;
	(void)snprintf(text, sizeof(text), "#%zu}", first ? 1 : n + 2);
	return take(d, '_') && put_text(d, text);
}

/* Types up to an E, with commas; "v" alone is none. */
static bool parameters(struct demangling *d)
{
	if (d->at[0] == 'v' && d->at[1] == 'E') {
		d->at += 2;
		return true;
	}
	for (unsigned i = 0; *d->at != 'E'; i++)
		if ((i && !put_text(d, ", ")) || !type(d))
			return false;
	d->at++;
	return true;
}

static bool unqualified_name(struct demangling *d)
{
	if (*d->at != 'U')
		return source_name(d);
	d->at++;
	if (take(d, 't'))
		return put_text(d, "{unnamed type") && ordinal(d);
	return take(d, 'l') && put_text(d, "{lambda(") && parameters(d) && put_text(d, ")") &&
	       ordinal(d);
}

/* ---- substitutions ---- */

/* "_" is the first, "0_" the second, …, in base 36. */
static bool numbered_substitution(struct demangling *d)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct piece piece;
	size_t i = 0;

	if (*d->at != '_') {
		for (; *d->at && *d->at != '_' && i < MAX_SUBSTITUTIONS; d->at++) {
			const char *digit = strchr(digits, *d->at);

			if (!digit)
				return false;
			i = i * 36 + (size_t)(digit - digits);
		}
		i++;
	}
	if (!take(d, '_') || i >= d->n_substitutions)
		return false;
	piece = d->substitutions[i];
	return put(d, d->out + piece.begin, (size_t)(piece.end - piece.begin));
}

/* What follows an S. */
static bool substitution(struct demangling *d)
{
	static const struct {
		char letter;
		const char *name;
	} known[] = {
		{ 'a', "std::allocator" },
		{ 'b', "std::basic_string" },
		{ 's', "std::basic_string<char, std::char_traits<char>, std::allocator<char> >" },
		{ 'i', "std::basic_istream<char, std::char_traits<char> >" },
		{ 'o', "std::basic_ostream<char, std::char_traits<char> >" },
		{ 'd', "std::basic_iostream<char, std::char_traits<char> >" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (take(d, known[i].letter))
			return put_text(d, known[i].name);
	return numbered_substitution(d);
}

/* ---- templates ---- */

/* L <type> <value> E, behind the L: a number or a truth value. */
static bool literal(struct demangling *d)
{
	static const char codes[] = "ijlmxy";
	static const char *const suffixes[] = { "", "u", "l", "ul", "ll", "ull" };
	const char *code = *d->at ? strchr(codes, *d->at) : NULL;
	size_t len;

	if (d->at[0] == 'b' && (d->at[1] == '0' || d->at[1] == '1') && d->at[2] == 'E') {
		d->at += 3;
		return put_text(d, d->at[-2] == '1' ? "true" : "false");
	}
	if (code)
		d->at++;
	else if (*d->at == 'b' || !put_text(d, "(") || !type(d) || !put_text(d, ")"))
		return false;
	if (take(d, 'n') && !put_text(d, "-"))
		return false;
	len = strspn(d->at, "0123456789");
	if (!len || !put(d, d->at, len) || (code && !put_text(d, suffixes[code - codes])))
		return false;
	d->at += len;
	return take(d, 'E');
}

/* One argument, or the several of a pack; *@n counts what was put. */
static bool template_argument(struct demangling *d, unsigned *n)
{
	if (take(d, 'J')) {
		while (*d->at != 'E')
			if (*d->at == 'J' || !template_argument(d, n))
				return false;
		d->at++;
		return true;
	}
	if ((*n && !put_text(d, ", ")) || ++*n > MAX_ARGS)
		return false;
	return take(d, 'L') ? literal(d) : type(d);
}

/* What follows an I. */
static bool template_arguments(struct demangling *d)
{
	unsigned n = 0;

	if (!put_text(d, "<"))
		return false;
	while (*d->at != 'E')
		if (!template_argument(d, &n))
			return false;
	d->at++;
	return put_text(d, d->out[d->n - 1] == '>' ? " >" : ">");
}

/* ---- names ---- */

/* One part of a nested name; *@kept: it can be referred to already. */
static bool nested_part(struct demangling *d, size_t begin, bool *kept)
{
	bool is_first = d->n == begin;

	*kept = false;
	if (take(d, 'I'))
		return !is_first && template_arguments(d);
	if (is_first && d->at[0] == 'S' && d->at[1] == 't') {
		d->at += 2;
		*kept = true;
		return put_text(d, "std");
	}
	if (is_first && take(d, 'S')) {
		*kept = true;
		return substitution(d);
	}
	return (is_first || put_text(d, "::")) && unqualified_name(d);
}

/*
 * What follows an N. The whole is kept by type(), as every class is: here only what
 * comes before its last part.
 */
static bool nested_name(struct demangling *d)
{
	size_t begin = d->n;
	bool kept = true;

	d->at += strspn(d->at, "rVK"); /* of a member function: not part of its name */
	d->at += strspn(d->at, "RO");
	while (*d->at != 'E') {
		if ((!kept && !keep(d, begin)) || !nested_part(d, begin, &kept))
			return false;
	}
	d->at++;
	return d->n > begin;
}

/* What follows a Z: a function, and what is local to it. */
static bool local_name(struct demangling *d)
{
	const char *function = d->at;
	bool is_const = function[0] == 'N' && function[1] == 'K';
	size_t len;

	/* A template's function has its result before its parameters: not known here. */
	if (!name(d) || d->out[d->n - 1] == '>')
		return false;
	/* A function without types is C's, or main. */
	if (!take(d, 'E') && (!put_text(d, "(") || !parameters(d) || !put_text(d, ")")))
		return false;
	if (is_const && !put_text(d, " const"))
		return false;
	if (!put_text(d, "::") || !name(d))
		return false;
	if (take(d, '_')) { /* its number, when there are several of the name */
		(void)take(d, '_');
		len = strspn(d->at, "0123456789");
		d->at += len;
		(void)take(d, '_');
	}
	return true;
}

/* A name that is not nested, and its template arguments. */
static bool unscoped_name(struct demangling *d)
{
	size_t begin = d->n;
	bool kept = false;

	if (d->at[0] == 'S' && d->at[1] == 't') {
		d->at += 2;
		if (!put_text(d, "std::") || !unqualified_name(d))
			return false;
	} else if (take(d, 'S')) {
		kept = true;
		if (!substitution(d))
			return false;
	} else if (!unqualified_name(d)) {
		return false;
	}
	if (!take(d, 'I'))
		return true;
	return (kept || keep(d, begin)) && template_arguments(d);
}

static bool name(struct demangling *d)
{
	bool ok;

	if (d->depth == MAX_DEPTH)
		return false;
	d->depth++;
	if (take(d, 'N'))
		ok = nested_name(d);
	else if (take(d, 'Z'))
		ok = local_name(d);
	else
		ok = unscoped_name(d);
	d->depth--;
	return ok;
}

/* ---- types ---- */

static const char *builtin(char code)
{
	static const char *const names['z' - 'a' + 1] = {
		['a' - 'a'] = "signed char", ['b' - 'a'] = "bool",
		['c' - 'a'] = "char",        ['d' - 'a'] = "double",
		['e' - 'a'] = "long double", ['f' - 'a'] = "float",
		['g' - 'a'] = "__float128",  ['h' - 'a'] = "unsigned char",
		['i' - 'a'] = "int",         ['j' - 'a'] = "unsigned int",
		['l' - 'a'] = "long",        ['m' - 'a'] = "unsigned long",
		['n' - 'a'] = "__int128",    ['o' - 'a'] = "unsigned __int128",
		['s' - 'a'] = "short",       ['t' - 'a'] = "unsigned short",
		['v' - 'a'] = "void",        ['w' - 'a'] = "wchar_t",
		['x' - 'a'] = "long long",   ['y' - 'a'] = "unsigned long long",
		['z' - 'a'] = "...",
	};

	return code >= 'a' && code <= 'z' ? names[code - 'a'] : NULL;
}

/* D and a letter. */
static const char *builtin_of_two(char code)
{
	switch (code) {
	case 'n':
		return "decltype(nullptr)";
	case 'i':
		return "char32_t";
	case 's':
		return "char16_t";
	case 'u':
		return "char8_t";
	default:
		return NULL;
	}
}

/* What stands behind a type that @code was put before, or NULL. */
static const char *modifier(char code)
{
	switch (code) {
	case 'P':
		return "*";
	case 'R':
		return "&";
	case 'O':
		return "&&";
	case 'K':
		return " const";
	case 'V':
		return " volatile";
	default:
		return NULL;
	}
}

/* A substitution that nothing was added to is none of its own. */
static bool is_plain_substitution(const char *from, const char *to)
{
	return from[0] == 'S' && from[1] != 't' && to[-1] != 'E';
}

static bool class_type(struct demangling *d)
{
	const char *from = d->at;
	size_t begin = d->n;

	return name(d) && (is_plain_substitution(from, d->at) || keep(d, begin));
}

static bool any_type(struct demangling *d)
{
	const char *behind = modifier(*d->at);
	const char *simple = builtin(*d->at);
	size_t begin = d->n;

	if (behind) {
		/* "VK" is one step of two: both belong to the same type. */
		bool both = d->at[0] == 'V' && d->at[1] == 'K';

		d->at += both ? 2 : 1;
		return type(d) && put_text(d, both ? " const volatile" : behind) && keep(d, begin);
	}
	if (simple) {
		d->at++;
		return put_text(d, simple);
	}
	if (*d->at == 'D') {
		simple = builtin_of_two(d->at[1]);
		if (!simple)
			return false;
		d->at += 2;
		return put_text(d, simple);
	}
	return class_type(d);
}

static bool type(struct demangling *d)
{
	bool ok;

	if (d->depth == MAX_DEPTH)
		return false;
	d->depth++;
	ok = any_type(d);
	d->depth--;
	return ok;
}

bool ms_demangle_type(const char *mangled, char *ret, size_t cap)
{
	struct demangling d;

	d.at = mangled;
	d.n = 0;
	d.n_substitutions = 0;
	d.depth = 0;
	if (!type(&d) || *d.at || d.n >= cap)
		return false;
	memcpy(ret, d.out, d.n);
	ret[d.n] = '\0';
	return true;
}
