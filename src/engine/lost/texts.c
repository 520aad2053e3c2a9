/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lost/texts.h"

#include <string.h>

#include "engine/names/types.h"

/* In patterns; no text has these characters. */
enum { NUMBER = '\1', REST = '\2' };

/* Texts of one pattern have this many characters in common, and a third or half of all. */
enum { LEAST_ALIKE = 3, ENOUGH_ALIKE = 4 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_mark(char c)
{
	return c == NUMBER || c == REST;
}

/* Whether @c is inside of a character of UTF-8. */
static bool is_inside(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* A pattern that is made of another one and a text. */
struct merging {
	const char *pattern;
	const char *text;
	char out[MS_LIKES_LOOKED + 1];
	size_t n;
	size_t alike; /* characters of the text that are literal, or within a number */
};

static size_t skip_digits(const char **at)
{
	size_t n = 0;

	for (; is_digit(**at); ++*at)
		n++;
	return n;
}

/* Where both have a number here, or just had the begin of one: pass it over. */
static bool merge_number(struct merging *m)
{
	size_t before = 0;
	size_t in_text;

	if (*m->pattern == NUMBER) {
		in_text = skip_digits(&m->text);
		m->pattern += in_text != 0;
		if (in_text)
			m->out[m->n++] = NUMBER;
		m->alike += in_text;
		return in_text;
	}
	while (before < m->n && is_digit(m->out[m->n - 1 - before]))
		before++;
	if (!before && (!is_digit(*m->pattern) || !is_digit(*m->text)))
		return false;
	if (!is_digit(*m->pattern) && !is_digit(*m->text))
		return false;
	(void)skip_digits(&m->pattern);
	m->alike += skip_digits(&m->text);
	m->n -= before;
	m->out[m->n++] = NUMBER;
	return true;
}

static void merge_begin(struct merging *m)
{
	for (;;) {
		if (*m->pattern == *m->text && !is_mark(*m->pattern) && *m->text) {
			m->out[m->n++] = *m->text++;
			m->pattern++;
			m->alike++;
		} else if (!merge_number(m)) {
			return;
		}
	}
}

/* How many bytes at the ends of what is left are the same; no part of a number or character. */
static size_t common_end(const struct merging *m)
{
	size_t a = strlen(m->pattern);
	size_t b = strlen(m->text);
	const char *end = m->text + b;
	size_t n = 0;

	while (n < a && n < b && m->pattern[a - 1 - n] == m->text[b - 1 - n] &&
	       !is_mark(m->text[b - 1 - n]))
		n++;
	while (n && (is_digit(*(end - n)) || is_inside(*(end - n))))
		n--;
	return n;
}

static void merge_rest(struct merging *m)
{
	size_t n = common_end(m);

	/* The characters that differ may have the same first byte. */
	if (is_inside(*m->pattern) || is_inside(*m->text)) {
		while (m->n && is_inside(m->out[m->n - 1]))
			m->n--;
		m->n -= m->n != 0;
	}
	if (m->n && m->out[m->n - 1] == NUMBER)
		m->n--;
	m->out[m->n++] = REST;
	memcpy(m->out + m->n, m->text + strlen(m->text) - n, n);
	m->n += n;
	m->alike += n;
}

/* Make @pattern that of @text, too; false when they have too little in common. */
static bool merge(char pattern[MS_LIKES_LOOKED + 1], const char *text)
{
	struct merging m = { .pattern = pattern, .text = text };
	size_t len = strlen(text);

	if (!strcmp(pattern, text))
		return true;
	merge_begin(&m);
	if (*m.pattern || *m.text)
		merge_rest(&m);
	if (m.alike < LEAST_ALIKE ||
	    (m.alike * 2 < len && (m.alike < ENOUGH_ALIKE || m.alike * 3 < len)))
		return false;
	memcpy(pattern, m.out, m.n);
	pattern[m.n] = '\0';
	return true;
}

static void start(struct ms_like_sum *like, ms_addr addr, const char *text)
{
	size_t len = strlen(text);

	*like = (struct ms_like_sum){ .count = 1, .weight = 1, .first = { addr, addr + len } };
	like->last = like->first;
	memcpy(like->pattern, text, len);
}

/* No pattern is that of @text: it takes the place of one that others have outnumbered. */
static void make_room(struct ms_text_sums *sums, ms_addr addr, const char *text)
{
	for (size_t i = 0; i < sums->n; i++) {
		if (!sums->at[i].weight) {
			start(&sums->at[i], addr, text);
			return;
		}
	}
	for (size_t i = 0; i < sums->n; i++)
		sums->at[i].weight--;
}

void ms_text_sums_add(struct ms_text_sums *sums, ms_addr addr, const unsigned char *bytes,
                      size_t len)
{
	char text[MS_LIKES_LOOKED + 1] = "";
	size_t n = strnlen((const char *)bytes, len < MS_LIKES_LOOKED ? len : MS_LIKES_LOOKED);

	/* A string may have any bytes. */
	for (size_t i = 0; i < n; i++)
		if (bytes[i] < ' ')
			return;
	memcpy(text, bytes, n);
	if (n == MS_LIKES_LOOKED)
		text[n - 1] = REST;
	sums->count++;
	for (size_t i = 0; i < sums->n; i++) {
		struct ms_like_sum *like = &sums->at[i];

		if (!merge(like->pattern, text))
			continue;
		like->count++;
		like->weight++;
		like->last = (struct ms_range){ addr, addr + n };
		return;
	}
	if (sums->n < MS_LIKES_KEPT)
		start(&sums->at[sums->n++], addr, text);
	else
		make_room(sums, addr, text);
}

/* ---- the report ---- */

/* Insertion: there are few. */
static void sort(struct ms_text_sums *sums)
{
	for (size_t i = 1; i < sums->n; i++) {
		struct ms_like_sum like = sums->at[i];
		size_t j = i;

		for (; j > 0 && sums->at[j - 1].count < like.count; j--)
			sums->at[j] = sums->at[j - 1];
		sums->at[j] = like;
	}
}

/* Marks become "…"; nothing where every text is the same. */
static void write_pattern(const char *pattern, char ret[MS_PATTERN_TEXT])
{
	static const char mark[] = "…";
	size_t n = 0;

	if (!strchr(pattern, NUMBER) && !strchr(pattern, REST))
		pattern = "";
	for (; *pattern; pattern++) {
		bool is = is_mark(*pattern);

		if (n + sizeof(mark) > MS_PATTERN_TEXT)
			break;
		memcpy(ret + n, is ? mark : pattern, is ? sizeof(mark) - 1 : 1);
		n += is ? sizeof(mark) - 1 : 1;
	}
	memset(ret + n, 0, MS_PATTERN_TEXT - n);
}

/* Nothing of what stands behind a NUL. */
static void read_sample(const struct ms_leak_list *list, struct ms_range text,
                        char ret[MS_PREVIEW_TEXT])
{
	size_t len = strnlen(ret, ms_types_read_text(list->blocks->src, text, ret));

	memset(ret + len, 0, MS_PREVIEW_TEXT - len);
}

bool ms_text_sums_write(struct ms_leak_list *list, struct ms_text_sums *sums, struct ms_leak *ret)
{
	struct ms_likes *likes = &list->report->likes;

	sort(sums);
	ret->texts = sums->count;
	ret->first_like = (uint32_t)likes->n;
	for (size_t i = 0; i < sums->n && i < MS_LEAK_LIKES; i++) {
		const struct ms_like_sum *sum = &sums->at[i];
		struct ms_like *like = ms_vec_push(list->arena, likes);

		if (!like)
			return false;
		like->count = sum->count;
		write_pattern(sum->pattern, like->pattern);
		read_sample(list, sum->first, like->first);
		like->last[0] = '\0';
		if (like->pattern[0])
			read_sample(list, sum->last, like->last);
		ret->n_likes++;
	}
	return true;
}
