/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that are kept by distances: patterns of fontconfig, or nodes with a pointer
 * relative to itself, as Boost's offset_ptr is (1 is null).
 *
 *	relative patterns|nodes
 *
 * Tells one leak (truth.h), frees everything else at its end, and prints how many blocks
 * that were.
 */
#include "../../targets/truth.h"

#include <dlfcn.h>
#include <stdio.h>

#define PATTERNS 50
#define NODES    500

static void *kept[NODES];
static unsigned long n_freed;

/* In front of the C library's, to count. */
void free(void *p)
{
	static void (*next)(void *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "free");
	n_freed += p != NULL;
	next(p);
}

NOINLINE static void lose(size_t size)
{
	tell("leak", fresh(size));
}

static void *function(void *library, const char *name)
{
	void *found = library ? dlsym(library, name) : NULL;

	if (!found) {
		say_text(library ? "no such function\n" : "no fontconfig\n");
		_exit(77);
	}
	return found;
}

static void make_patterns(void *library)
{
	void *(*create)(void) = (void *(*)(void))function(library, "FcPatternCreate");
	int (*add_string)(void *, const char *, const char *) =
		(int (*)(void *, const char *, const char *))function(library,
	                                                              "FcPatternAddString");
	int (*add_integer)(void *, const char *, int) =
		(int (*)(void *, const char *, int))function(library, "FcPatternAddInteger");

	for (int i = 0; i < PATTERNS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "Family %d", i);
		kept[i] = create();
		add_string(kept[i], "family", name);
		add_integer(kept[i], "weight", i);
	}
}

static void free_patterns(void *library)
{
	void (*destroy)(void *) = (void (*)(void *))function(library, "FcPatternDestroy");

	for (int i = 0; i < PATTERNS; i++)
		destroy(kept[i]);
}

struct node {
	long number;
	intptr_t text; /* relative to this member */
	long length;
	char rest[48];
};

NOINLINE static void make_nodes(void)
{
	for (int i = 0; i < NODES; i++) {
		struct node *node = malloc(sizeof(*node));

		node->number = i;
		node->length = 24 + 16 * (i * 7 % 32);
		kept[i * 131 % NODES] = node;
		node->text = (intptr_t)malloc((size_t)node->length);
	}
	/* In another order than they were allocated in. */
	for (unsigned i = NODES - 1, random = 1; i > 0; i--) {
		struct node *a = kept[i];
		struct node *b = kept[(random = random * 1103515245 + 12345) / 65536 % i];
		intptr_t text = a->text;

		a->text = b->text;
		b->text = text;
	}
	for (int i = 0; i < NODES; i++) {
		struct node *node = kept[i];

		if (i % 50 == 0)
			free((void *)node->text);
		node->text = i % 50 ? node->text - (intptr_t)&node->text : 1;
		OPAQUE(node);
	}
}

static void free_nodes(void)
{
	for (int i = 0; i < NODES; i++) {
		struct node *node = kept[i];

		if (node->text != 1)
			free((char *)&node->text + node->text);
		free(node);
	}
}

int main(int argc, char **argv)
{
	int patterns = argc > 1 && strcmp(argv[1], "patterns") == 0;
	void *library = patterns ? dlopen("libfontconfig.so.1", RTLD_NOW) : NULL;
	char line[64];

	if (patterns)
		make_patterns(library);
	else
		make_nodes();
	lose(1000);
	forget();
	wait_for_end();
	n_freed = 0;
	if (patterns)
		free_patterns(library);
	else
		free_nodes();
	snprintf(line, sizeof(line), "freed %lu\n", n_freed);
	say_text(line);
	return 0;
}
