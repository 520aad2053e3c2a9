/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pointers with a number in the byte that the processor does not look at (TBI): `tagged SCENARIO`,
 * `tagged list`; see truth.h. What only such a pointer holds is alive, and what is lost is lost.
 */
#include "truth.h"

#include <pthread.h>

enum { N_TAGS = 256, TAG_SHIFT = 56 };

struct node {
	struct node *next;
	uint64_t load[5];
};

static struct node *volatile tagged[N_TAGS];
static __thread struct node *volatile of_thread;
static pthread_barrier_t barrier;

NOINLINE static void *with_tag(void *p, unsigned tag)
{
	return (void *)((uintptr_t)p | (uintptr_t)tag << TAG_SHIFT);
}

NOINLINE static struct node *new_node(struct node *next)
{
	struct node *node = fresh(sizeof(*node));

	node->next = next;
	node->load[0] = 1;
	return node;
}

/* Each tag that there is. */
NOINLINE static void hold_globals(void)
{
	for (unsigned tag = 0; tag < N_TAGS; tag++)
		tagged[tag] = with_tag(new_node(NULL), tag);
	leak(sizeof(struct node));
}

/* Each block holds the next by another tag; the program follows them as they are. */
NOINLINE static void hold_chain(void)
{
	struct node *node = NULL;

	for (unsigned tag = 1; tag < N_TAGS; tag++)
		node = with_tag(new_node(node), tag);
	tagged[0] = node;
	leak(sizeof(struct node));
	while (node->next)
		node = node->next;
}

/* The last of them is reached by tagged pointers alone, and so is lost with the first. */
NOINLINE static void lose_chain(void)
{
	struct node *node = NULL;

	for (unsigned tag = 1; tag < 10; tag++) {
		struct node *fresh_node = new_node(node);

		tell(tag < 9 ? "leak-indirect" : "leak-direct", fresh_node);
		node = with_tag(fresh_node, tag);
	}
}

static void *hold_in_thread(void *arg)
{
	struct node *volatile here = with_tag(new_node(NULL), 0xa5);

	(void)arg;
	of_thread = with_tag(new_node(NULL), 0x5a);
	pthread_barrier_wait(&barrier);
	poll(NULL, 0, LIFE_SECONDS * 1000);
	return here;
}

static void hold_by_thread(void)
{
	pthread_t id;

	leak(sizeof(struct node));
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&id, NULL, hold_in_thread, NULL);
	pthread_barrier_wait(&barrier);
}

static const struct scenario scenarios[] = {
	{ "globals", hold_globals, 0 },
	{ "chain", hold_chain, 0 },
	{ "lost_chain", lose_chain, 0 },
	{ "thread", hold_by_thread, 0 },
};

int main(int argc, char **argv)
{
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),
	                    argc > 1 ? argv[1] : "globals");
}
