/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Leaks whose memory had another user: `residual LIBRARY`, where LIBRARY is this file built with
 * -DLIBRARY; see truth.h.
 *
 *	scribbled   the library wrote the first word of each, and the program's functions were there
 *	worded      likewise, and it wrote a text; no memory of the former users is left
 *	carts       the library's, with its callback in all of them
 *	orders      the program's, with its callback in all of them
 */
#include "truth.h"

#include <dlfcn.h>

enum { SCRIBBLED = 200, WORDED = 328, CARTS = 456, ORDERS = 584 };

enum { MOST = 300, CARTS_MADE = 40, SCRIBBLED_MADE = 200 };

#ifdef LIBRARY

static void on_cart(void)
{
	say_text("cart\n");
}

void scribble(uint64_t i)
{
	uint64_t *p = malloc(SCRIBBLED);

	p[0] = 0x1000 + i;
	tell("scribbled", p);
}

void write_words(uint64_t i)
{
	char *p = malloc(WORDED);

	memcpy(p, "record number a", sizeof("record number a"));
	p[sizeof("record number a") - 2] = (char)('a' + i % 26);
	tell("worded", p);
}

void make_cart(uint64_t i)
{
	uint64_t *p = calloc(1, CARTS);

	p[0] = i;
	p[3] = (uint64_t)(uintptr_t)on_cart;
	tell("carts", p);
}

#else

typedef void maker(uint64_t i);

struct order {
	uint64_t number;
	char name[40];
	void (*confirm)(void);
	void (*cancel)(void);
};

static void confirm(void)
{
	say_text("confirm\n");
}

static void cancel(void)
{
	say_text("cancel\n");
}

static NOINLINE struct order *make_order(size_t size, uint64_t i)
{
	struct order *order = calloc(1, size);

	order->number = i;
	order->confirm = confirm;
	order->cancel = cancel;
	return order;
}

/* Leave the program's functions in memory that is free then. */
static NOINLINE void use(size_t size)
{
	struct order *orders[MOST];

	for (uint64_t i = 0; i < MOST; i++)
		orders[i] = make_order(size, i);
	for (uint64_t i = 0; i < MOST; i++)
		free(orders[i]);
}

static NOINLINE void lose(void *library)
{
	maker *make_cart = (maker *)(uintptr_t)dlsym(library, "make_cart");
	maker *scribble = (maker *)(uintptr_t)dlsym(library, "scribble");
	maker *write_words = (maker *)(uintptr_t)dlsym(library, "write_words");

	for (uint64_t i = 0; i < CARTS_MADE; i++)
		make_cart(i);
	for (uint64_t i = 0; i < CARTS_MADE; i++)
		tell("orders", make_order(ORDERS, i));
	use(WORDED);
	for (uint64_t i = 0; i < MOST; i++)
		write_words(i);
	use(SCRIBBLED);
	for (uint64_t i = 0; i < SCRIBBLED_MADE; i++)
		scribble(i);
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

	if (!library)
		return 2;
	lose(library);
	forget();
	ready();
}

#endif
