/* SPDX-License-Identifier: Apache-2.0 */
/*
 * texts: leaks many names of files, and behind and in front of them a few other texts in blocks
 * of the same size.
 */
#include "truth.h"

#include <stdio.h>

enum { NAMES = 600, ODD = 3 };

NOINLINE static void lose(const char *text)
{
	char *copy = malloc(24);

	if (!copy)
		_exit(97);
	(void)snprintf(copy, 24, "%s", text);
	tell("leak", copy);
}

NOINLINE static void lose_names(void)
{
	char name[24];

	lose("--mode=quiet,fast");
	for (int i = 0; i < NAMES; i++) {
		(void)snprintf(name, sizeof(name), "photo-%04d.jpeg", i);
		lose(name);
	}
	for (int i = 0; i < ODD; i++)
		lose("https://example.org/");
	memset(name, 0, sizeof(name));
}

int main(void)
{
	lose_names();
	forget();
	wait_for_end();
	return 0;
}
