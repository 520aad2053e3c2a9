/* SPDX-License-Identifier: Apache-2.0 */
/* A library that makes blocks with marks of its own in them. */
#include <stdlib.h>

struct operations {
	void (*open)(void);
	void (*close)(void);
};

static void open_it(void)
{
}

static void close_it(void)
{
}

static const struct operations operations = { open_it, close_it };

/* 200 bytes that begin with a table of functions; @mark: somebody else's. */
void *make_file(void *mark)
{
	const void **file = calloc(25, sizeof(*file));

	file[0] = &operations;
	file[2] = mark;
	return file;
}

/* 312 bytes with two callbacks and a name. */
void *make_cart(void *mark)
{
	const void **cart = calloc(39, sizeof(*cart));

	cart[1] = mark;
	cart[2] = (const void *)open_it;
	cart[3] = (const void *)close_it;
	cart[4] = "a cart of the library's";
	return cart;
}
