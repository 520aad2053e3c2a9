/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server whose memory grows in two ways, among noise: "grows".
 *
 * For each line of input it serves 1000 requests: each adds a node of 200 bytes to a list that
 * nothing shortens, and each third one loses a block of 152 bytes. A thread allocates blocks of
 * many sizes meanwhile, and frees them again, but for a table of those that live at a time.
 * While a line is answered the thread rests, so that scans see a heap that stands still.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 1000, NODE = 200, LOST = 152, LIVE = 500, LARGEST = 4000, ROUNDS = 20000 };

struct node {
	struct node *next;
	char data[NODE - sizeof(struct node *)];
};

static struct node *requests;
static void *table[LIVE];
static unsigned long state = 1;

static unsigned int next_random(void)
{
	state = state * 6364136223846793005UL + 1442695040888963407UL;
	return (unsigned int)(state >> 33);
}

static void *make_noise(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int at = next_random() % LIVE;

		free(table[at]);
		table[at] = calloc(1, 1 + next_random() % LARGEST);
	}
	return NULL;
}

static void serve(int number)
{
	struct node *node = calloc(1, sizeof(*node));
	char *volatile lost = NULL;

	node->next = requests;
	requests = node;
	if (number % 3 == 0) {
		lost = calloc(1, LOST);
		lost = NULL;
	}
	(void)lost;
}

int main(void)
{
	char line[16];

	(void)puts("READY");
	(void)fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		pthread_t noise;

		if (pthread_create(&noise, NULL, make_noise, NULL))
			return 1;
		for (int i = 0; i < REQUESTS; i++)
			serve(i);
		(void)pthread_join(noise, NULL);
		(void)puts("SERVED");
		(void)fflush(stdout);
	}
	return 0;
}
