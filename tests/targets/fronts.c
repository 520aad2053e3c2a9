/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Puts a header in front of each block, as programs with an allocator of their own do, so that no
 * pointer leads to a begin. See truth.h.
 *
 *	fronts one    a header of one word
 *	fronts two    of one word, or of two for a third of the blocks
 *	fronts half   of one word, or of 20 to 48 for half of the blocks: no usual places
 */
#include "truth.h"

enum { BLOCKS = 3000, LOST = 20, WORD = sizeof(void *) };

struct node {
	struct node *next;
	void *load;
};

static struct node *volatile all;

/* Allocate a block with a header of @words words; returns a pointer to its data. */
static void *give(const char *kind, size_t size, size_t words)
{
	size_t *p = fresh(size + words * WORD);

	p[0] = size;
	tell(kind, p);
	return p + words;
}

static size_t words_in_front(const char *how, int i)
{
	if (strcmp(how, "half") == 0)
		return i % 2 ? 1 : 20 + (size_t)i % 30;
	return strcmp(how, "two") == 0 && i % 3 == 0 ? 2 : 1;
}

NOINLINE static void make(const char *how)
{
	for (int i = 0; i < BLOCKS; i++) {
		const char *kind = strcmp(how, "half") == 0 ? "interior" : "live";
		size_t words = words_in_front(how, i);
		struct node *node = give(kind, sizeof(*node), words);

		node->load = give(kind, 24 + 8 * (size_t)(i % 9), words);
		node->next = all;
		all = node;
	}
	for (int i = 0; i < LOST; i++)
		(void)give("leak", 40, 1);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	make(argv[1]);
	ready();
}
