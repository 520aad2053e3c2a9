/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module for any CPython from 3.9 on that loses objects, and says which: lines of "leak",
 * "kept" or "inner" (kept by a pointer to its middle), address and bytes; or takes a reference
 * to an object, and loses it. What it uses of
 * CPython is the stable part of its interface, and is declared here: the headers of four
 * versions are not to be had on one machine.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
	FIRST = 2000,
	LOST = 20,
	KEPT = 10,
	BYTES = 100,
	LETTERS = 40,
	API_VERSION = 1013,
	NO_ARGS = 4,
	ONE_ARG = 8
};

typedef struct object object;

struct method {
	const char *name;
	object *(*function)(object *, object *);
	int flags;
	const char *doc;
};

struct module {
	intptr_t base[5]; /* reference counter, type, init, index, copy */
	const char *name;
	const char *doc;
	intptr_t size;
	struct method *methods;
	void *rest[4];
};

void *PyObject_Malloc(size_t bytes);
object *PyBytes_FromStringAndSize(const char *bytes, intptr_t n);
object *PyLong_FromLong(long value);
void Py_IncRef(object *of);
object *PyModule_Create2(struct module *module, int version);

static void *volatile first[FIRST];
static void *volatile kept[KEPT];
static char *volatile inner[KEPT];

static void tell(const char *what, const void *at, size_t bytes)
{
	printf("%s %p %zu\n", what, at, bytes);
}

/* The interpreter's stack has old pointers to what is free now: have memory that was never used. */
static void use_up(void)
{
	for (int i = 0; i < FIRST; i += 2) {
		first[i] = PyObject_Malloc(BYTES);
		first[i + 1] = PyBytes_FromStringAndSize(NULL, LETTERS);
	}
}

static __attribute__((noinline)) void work(void)
{
	for (int i = 0; i < LOST; i++) {
		void *block = PyObject_Malloc(BYTES);
		object *bytes = PyBytes_FromStringAndSize(NULL, LETTERS);

		memset(block, 'x', BYTES);
		tell("leak", block, BYTES);
		tell("leak", bytes, 33 + LETTERS);
	}
	for (int i = 0; i < KEPT; i++) {
		kept[i] = PyObject_Malloc(BYTES);
		tell("kept", kept[i], BYTES);
		inner[i] = (char *)PyObject_Malloc(BYTES) + 16;
		tell("inner", inner[i] - 16, BYTES);
	}
}

/* Leave nothing of it on the stack. */
static __attribute__((noinline)) void wipe(void)
{
	volatile char stack[1 << 14];

	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = 0;
}

static object *lose(object *self, object *none)
{
	(void)self;
	(void)none;
	use_up();
	work();
	wipe();
	fflush(stdout);
	return PyLong_FromLong(LOST);
}

static object *take(object *self, object *of)
{
	(void)self;
	Py_IncRef(of);
	return PyLong_FromLong(1);
}

static struct method methods[] = { { "lose", lose, NO_ARGS, NULL },
	                           { "take", take, ONE_ARG, NULL },
	                           { 0 } };
static struct module pyleak = { .base = { 1 }, .name = "pyleak", .size = -1, .methods = methods };

__attribute__((visibility("default"))) object *PyInit_pyleak(void)
{
	return PyModule_Create2(&pyleak, API_VERSION);
}
