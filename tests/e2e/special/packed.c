/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks to which packed structures lead, as Rust's repr(packed) makes them, too: no pointer
 * stands at a multiple of four bytes. What the texts hold in turn does.
 *
 * Tells one leak (truth.h), frees everything else at its end, and prints how many blocks
 * that were.
 */
#include "../../targets/truth.h"

#define ENTRIES 300

struct text {
	char *bytes;
	size_t length;
};

struct entry {
	uint64_t from;
	uint8_t kind;
	struct text *text;
	uint8_t rest[7];
} __attribute__((packed));

static struct entry *entries;

NOINLINE static void make(void)
{
	entries = fresh(ENTRIES * sizeof(*entries));
	for (size_t i = 0; i < ENTRIES; i++) {
		struct text *text = fresh(sizeof(*text));

		text->bytes = fresh(20 + i);
		text->length = 20 + i;
		entries[i] = (struct entry){ .from = i, .kind = 3, .text = text };
		tell("live", text);
		tell("live", text->bytes);
	}
	leak(77);
}

static unsigned long release(void)
{
	unsigned long n = 0;

	for (size_t i = 0; i < ENTRIES; i++) {
		struct text *text = entries[i].text;

		free(text->bytes);
		free(text);
		n += 2;
	}
	free(entries);
	return n + 1;
}

int main(void)
{
	char line[32], *to = line;

	make();
	forget();
	wait_for_end();
	to = put_text(to, "freed ");
	to = put_number(to, release(), 10);
	*to++ = '\n';
	*to = '\0';
	say_text(line);
	return 0;
}
