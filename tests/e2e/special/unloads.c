/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does what each line of input says with one library at a time: "open PATH" prints where its
 * function is, "run" calls that, "close" closes it.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library;
static void (*function)(void);

static void open_library(const char *path)
{
	void *symbol;

	library = dlopen(path, RTLD_NOW);
	symbol = library ? dlsym(library, "library_run") : NULL;
	memcpy(&function, &symbol, sizeof(symbol));
	printf("opened %p\n", symbol);
}

/* The last block's address is left in no frame. */
__attribute__((noinline)) static void scrub(void)
{
	volatile char space[16384];

	for (size_t i = 0; i < sizeof(space); i++)
		space[i] = 0;
}

__attribute__((noinline)) static void call(void)
{
	function();
	scrub();
	puts("ran");
}

int main(void)
{
	char line[4096];

	puts("READY");
	(void)fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "open ", 5) == 0) {
			open_library(line + 5);
		} else if (strcmp(line, "run") == 0) {
			call();
		} else {
			printf("closed %d\n", dlclose(library));
		}
		(void)fflush(stdout);
	}
	return 0;
}
