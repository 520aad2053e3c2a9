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
 *
 * Why not libiberty's cplus_demangle_v3_callback(), which allocates nothing either: names
 * come from the target's memory, and what a name of 190 bytes asks for can be 9 MB of
 * output, four times as much for each 20 bytes more, which its callback cannot stop. It
 * takes 430 bytes of stack for each "P": 431 KiB for a name of 1,005 bytes, where a process
 * beside a program has 512 KiB (inproc/companion.c). Here both are bounded, by MAX_OUT and
 * MAX_DEPTH: 20 KiB of stack at most. The price: of the 49,529 functions that libstdc++ and
 * LLVM 14 export, 23 % keep their mangled name; the others are as libiberty writes them,
 * but for "> >". (Debian 12's libiberty.a of 2023-01-04, gcc 12 -O2.)
 */

enum {
	MAX_OUT = 1024,
	MAX_SUBSTITUTIONS = 128,
	MAX_DEPTH = 64,
	MAX_ARGS = 256,
	MAX_NAMED_ARGS = 16
};

struct piece {
	uint16_t begin;
	uint16_t end;
};

/* Of a template, what T_, T0_, … stand for in the types behind its name. */
struct arguments {
	size_t n;
	struct piece at[MAX_NAMED_ARGS];
};

struct demangling {
	const char *at; /* ends in NUL, which no step goes beyond */
	char out[MAX_OUT];
	size_t n;
	struct piece substitutions[MAX_SUBSTITUTIONS];
	size_t n_substitutions;
	unsigned depth;

	/* of the name that ended last */
	bool is_const;
	char ref;        /* R: of an object that has a name, O: that has none */
	bool is_special; /* of a function without a result: a constructor, a conversion */
	bool has_result; /* the function's type begins with that of its result */
	struct arguments arguments;
	const struct arguments *params; /* what T_ may refer to; NULL: nothing */
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

static bool operator_name(struct demangling *d)
{
	static const struct {
		char code[3];
		char text[10];
	} known[] = {
		{ "nw", " new" },      { "na", " new[]" },    { "dl", " delete" },
		{ "da", " delete[]" }, { "aw", " co_await" }, { "ps", "+" },
		{ "ng", "-" },         { "ad", "&" },         { "de", "*" },
		{ "co", "~" },         { "pl", "+" },         { "mi", "-" },
		{ "ml", "*" },         { "dv", "/" },         { "rm", "%" },
		{ "an", "&" },         { "or", "|" },         { "eo", "^" },
		{ "aS", "=" },         { "pL", "+=" },        { "mI", "-=" },
		{ "mL", "*=" },        { "dV", "/=" },        { "rM", "%=" },
		{ "aN", "&=" },        { "oR", "|=" },        { "eO", "^=" },
		{ "ls", "<<" },        { "rs", ">>" },        { "lS", "<<=" },
		{ "rS", ">>=" },       { "eq", "==" },        { "ne", "!=" },
		{ "lt", "<" },         { "gt", ">" },         { "le", "<=" },
		{ "ge", ">=" },        { "ss", "<=>" },       { "nt", "!" },
		{ "aa", "&&" },        { "oo", "||" },        { "pp", "++" },
		{ "mm", "--" },        { "cm", "," },         { "pm", "->*" },
		{ "pt", "->" },        { "cl", "()" },        { "ix", "[]" },
		{ "qu", "?" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strncmp(d->at, known[i].code, 2) != 0)
			continue;
		d->at += 2;
		return put_text(d, "operator") && put_text(d, known[i].text);
	}
	if (strncmp(d->at, "cv", 2) != 0)
		return false;
	d->at += 2;
	if (!put_text(d, "operator ") || !type(d))
		return false;
	d->is_special = true;
	return true;
}

static bool unqualified_name(struct demangling *d)
{
	if (*d->at >= 'a' && *d->at <= 'z')
		return operator_name(d);
	if (d->at[0] == 'L' && is_digit(d->at[1]))
		d->at++; /* static */
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
	if (piece.begin > piece.end)
		return false;
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

/* The next argument can be referred to by its number; a pack cannot. */
static bool numbered_argument(struct demangling *d, unsigned *n, struct arguments *ret)
{
	bool is_pack = *d->at == 'J';
	size_t begin = d->n + (*n ? strlen(", ") : 0);

	if (!template_argument(d, n))
		return false;
	if (ret->n < MAX_NAMED_ARGS) {
		struct piece piece = { (uint16_t)begin, (uint16_t)(is_pack ? begin : d->n) };

		ret->at[ret->n++] = piece;
	}
	return true;
}

/* What follows an I. */
static bool template_arguments(struct demangling *d)
{
	struct arguments arguments = { 0 };
	unsigned n = 0;

	if (!put_text(d, d->n && d->out[d->n - 1] == '<' ? " <" : "<"))
		return false;
	while (*d->at != 'E')
		if (!numbered_argument(d, &n, &arguments))
			return false;
	d->at++;
	d->arguments = arguments;
	return put_text(d, d->out[d->n - 1] == '>' ? " >" : ">");
}

/* ---- names ---- */

/* The last part of the class that was put since @begin, without its arguments. */
static struct piece class_of(const struct demangling *d, size_t begin)
{
	size_t end = d->n;
	size_t at = d->n;
	unsigned depth = 0;

	while (at > begin && (depth || at - begin < 2 || memcmp(d->out + at - 2, "::", 2) != 0)) {
		at--;
		if (d->out[at] == '[' && !depth)
			end = at;
		if (d->out[at] == '>')
			depth++;
		if (d->out[at] == '<' && depth && !--depth)
			end = at;
	}
	return (struct piece){ (uint16_t)at, (uint16_t)end };
}

/* C or D and a digit: a constructor or a destructor. */
static bool structor(struct demangling *d, size_t begin)
{
	struct piece piece = class_of(d, begin);
	bool destroys = *d->at == 'D';

	if (d->at[1] < '0' || d->at[1] > '5')
		return false;
	d->at += 2;
	d->is_special = true;
	return put_text(d, destroys ? "::~" : "::") &&
	       put(d, d->out + piece.begin, (size_t)(piece.end - piece.begin));
}

/* One part of a nested name; *@kept: it can be referred to already. */
static bool nested_part(struct demangling *d, size_t begin, bool *kept)
{
	bool is_first = d->n == begin;

	*kept = false;
	if (take(d, 'I'))
		return !is_first && template_arguments(d);
	if (!is_first && (*d->at == 'C' || *d->at == 'D'))
		return structor(d, begin);
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
	size_t qualifiers = strspn(d->at, "rVK"); /* of a member function: not part of its name */
	bool is_const = memchr(d->at, 'K', qualifiers);
	bool has_result = false;
	bool special = true; /* the part before */
	char ref;
	bool kept = true;

	d->at += qualifiers;
	ref = *d->at;
	d->at += strspn(d->at, "RO");
	while (*d->at != 'E') {
		has_result = *d->at == 'I' && !special;
		d->is_special = false;
		if ((!kept && !keep(d, begin)) || !nested_part(d, begin, &kept))
			return false;
		special = d->is_special;
	}
	d->at++;
	d->is_const = is_const;
	d->ref = ref;
	d->has_result = has_result;
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

	d->is_const = false;
	d->ref = 0;
	d->has_result = false;
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
	if ((!kept && !keep(d, begin)) || !template_arguments(d))
		return false;
	d->has_result = true;
	return true;
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

/* What follows a T: "_" is the first argument of the template, "0_" the second, … */
static bool template_parameter(struct demangling *d)
{
	size_t begin = d->n;
	struct piece piece;
	size_t i = 0;

	if (*d->at != '_') {
		if (!number(d, &i))
			return false;
		i++;
	}
	if (!take(d, '_') || !d->params || i >= d->params->n || *d->at == 'I')
		return false;
	piece = d->params->at[i];
	return piece.end > piece.begin &&
	       put(d, d->out + piece.begin, (size_t)(piece.end - piece.begin)) && keep(d, begin);
}

/* What follows PF: the pointed-to function is in no piece, but has its number. */
static bool function_pointer(struct demangling *d)
{
	static const struct piece none = { 1, 0 };
	size_t begin = d->n;

	if (!type(d) || !put_text(d, " (*)(") || !parameters(d) || !put_text(d, ")") ||
	    d->n_substitutions == MAX_SUBSTITUTIONS)
		return false;
	d->substitutions[d->n_substitutions++] = none;
	return keep(d, begin);
}

/* What follows an F. */
static bool function_type(struct demangling *d)
{
	size_t begin = d->n;

	return type(d) && put_text(d, " (") && parameters(d) && put_text(d, ")") && keep(d, begin);
}

/* A reference to a reference is one; what is behind a function would belong inside of it. */
static bool put_modifier(struct demangling *d, const char *text)
{
	static const char null[] = "nullptr)";

	if (d->out[d->n - 1] == ')' &&
	    (d->n < strlen(null) || memcmp(d->out + d->n - strlen(null), null, strlen(null)) != 0))
		return false;
	return (*text == '&' && d->out[d->n - 1] == '&') || put_text(d, text);
}

static bool any_type(struct demangling *d)
{
	const char *behind = modifier(*d->at);
	const char *simple = builtin(*d->at);
	size_t begin = d->n;

	if (take(d, 'T'))
		return template_parameter(d);
	if (take(d, 'F'))
		return function_type(d);
	if (d->at[0] == 'P' && d->at[1] == 'F') {
		d->at += 2;
		return function_pointer(d);
	}
	if (behind) {
		/* "VK" is one step of two: both belong to the same type. */
		bool both = d->at[0] == 'V' && d->at[1] == 'K';

		d->at += both ? 2 : 1;
		return type(d) && put_modifier(d, both ? " const volatile" : behind) &&
		       keep(d, begin);
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

static void begin(struct demangling *d, const char *mangled)
{
	d->at = mangled;
	d->n = 0;
	d->n_substitutions = 0;
	d->depth = 0;
	d->is_const = false;
	d->ref = 0;
	d->is_special = false;
	d->has_result = false;
	d->arguments.n = 0;
	d->params = NULL;
}

bool ms_demangle_type(const char *mangled, char *ret, size_t cap)
{
	struct demangling d;

	begin(&d, mangled);
	if (!type(&d) || *d.at || d.n >= cap)
		return false;
	memcpy(ret, d.out, d.n);
	ret[d.n] = '\0';
	return true;
}

/* ---- functions ---- */

/* At the end of a function's name and types: nothing, or what a compiler made of it. */
static bool is_end(const char *at)
{
	return !*at || *at == '.';
}

/* The types of a function's parameters, in parentheses. */
static bool function_types(struct demangling *d)
{
	if (!put_text(d, "("))
		return false;
	if (d->at[0] == 'v' && is_end(d->at + 1))
		d->at++;
	else
		for (unsigned i = 0; !is_end(d->at); i++)
			if ((i && !put_text(d, ", ")) || !type(d))
				return false;
	return put_text(d, ")");
}

/* ".part.0", ".cold": each as [clone …]; letters, then numbers. */
static bool clones(struct demangling *d)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
	static const char digits[] = "0123456789";

	while (*d->at) {
		size_t len = 1 + strspn(d->at + 1, letters);

		while (d->at[len] == '.' && is_digit(d->at[len + 1]))
			len += 1 + strspn(d->at + len + 1, digits);
		if (*d->at != '.' || len == 1 || !put_text(d, " [clone ") || !put(d, d->at, len) ||
		    !put_text(d, "]"))
			return false;
		d->at += len;
	}
	return true;
}

/*
 * The result of a template's function stands behind the name, and is told in front of it:
 *
 *	out   name │ result │ (types) const
 */
bool ms_demangle_function(const char *mangled, char *ret, size_t cap)
{
	struct demangling d;
	struct arguments arguments;
	size_t name_end;
	size_t result_end;
	bool is_const;
	char ref;

	if (strncmp(mangled, "_Z", 2) != 0)
		return false;
	begin(&d, mangled + 2);
	if (!name(&d))
		return false;
	arguments = d.arguments;
	d.params = &arguments;
	is_const = d.is_const;
	ref = d.ref;
	name_end = d.n;
	if (d.has_result && !is_end(d.at) && (!type(&d) || !put_text(&d, " ")))
		return false;
	result_end = d.n;
	if ((!is_end(d.at) && !function_types(&d)) || (is_const && !put_text(&d, " const")) ||
	    (ref == 'R' && !put_text(&d, " &")) || (ref == 'O' && !put_text(&d, " &&")) ||
	    !clones(&d) || d.n >= cap)
		return false;
	memcpy(ret, d.out + name_end, result_end - name_end);
	memcpy(ret + result_end - name_end, d.out, name_end);
	memcpy(ret + result_end, d.out + result_end, d.n - result_end);
	ret[d.n] = '\0';
	return true;
}
