/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks to which only words lead that have a number beside the address, in the 16 bits that
 * no address needs: a stack as Boost's lock-free one, with a count above the address, and a
 * table of addresses that are shifted, with a count below.
 *
 * Tells one leak (truth.h), frees everything else at its end, and prints how many blocks
 * that were.
 */
#include "../../targets/truth.h"

#define NODES   50
#define ENTRIES 20
#define LOW48   (UINT64_MAX >> 16)

struct node {
	uint64_t next; /* with a count above */
	char bytes[40];
};

static uint64_t top;
static uint64_t table[ENTRIES]; /* with a count below */

NOINLINE static void make(void)
{
	for (uint64_t i = 0; i < NODES; i++) {
		struct node *node = fresh(sizeof(*node));

		node->next = top;
		top = (uint64_t)(uintptr_t)node | (i + 1) << 48;
		tell("live", node);
	}
	for (uint64_t i = 0; i < ENTRIES; i++) {
		char *block = fresh(100 + i);

		table[i] = (uint64_t)(uintptr_t)block << 16 | i;
		tell("live", block);
	}
	leak(77);
}

static unsigned long release(void)
{
	unsigned long n = 0;

	while (top) {
		struct node *node = (struct node *)(uintptr_t)(top & LOW48);

		top = node->next;
		free(node);
		n++;
	}
	for (size_t i = 0; i < ENTRIES; i++, n++)
		free((void *)(uintptr_t)(table[i] >> 16));
	return n;
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
