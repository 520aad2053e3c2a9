/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A linked list of ten million nodes (or argv[2]), the longest chain of
 * references that marking and folding can meet: "live" hangs on a global,
 * "lost" on nothing. Not told node by node; see truth.h.
 */
#include "truth.h"

struct node {
	struct node *next;
	uint64_t load;
};

static struct node *volatile head;

NOINLINE static struct node *make_list(size_t n)
{
	struct node *list = NULL;

	while (n-- > 0) {
		struct node *node = fresh(sizeof(*node));

		node->next = list;
		list = node;
	}
	return list;
}

NOINLINE static void lose_list(size_t n)
{
	struct node *list = make_list(n);

	tell("leak-direct", list);
}

int main(int argc, char **argv)
{
	size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 10 * 1000 * 1000;

	if (argc > 1 && strcmp(argv[1], "live") == 0)
		head = make_list(n);
	else
		lose_list(n);
	ready();
}
