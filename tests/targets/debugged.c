/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Programs with one memory bug each, for libmalloc_debug.so to find: `debugged NAME`.
 * Prints the address of the block in question. Each is volatile enough that no compiler
 * sees the bug, or takes it away.
 */

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIDDEN __attribute__((noipa, noinline))

static HIDDEN char *told(void *p)
{
	printf("%#lx\n", (unsigned long)(uintptr_t)p);
	fflush(stdout);
	return p;
}

static HIDDEN void put(char *p, long at, int byte)
{
	((volatile char *)p)[at] = (char)byte;
}

static HIDDEN void release(void *p)
{
	free(p);
}

static void write_before(void)
{
	char *p = told(malloc(100));

	put(p, -15, 0x02);
	put(p, -1, 0x03);
	release(p);
}

static void write_after(void)
{
	char *p = told(malloc(100));

	put(p, 100, 0x41);
	put(p, 131, 0x42);
	release(p);
}

static void write_after_realloc(void)
{
	char *p = told(malloc(100));

	put(p, 100, 0x41);
	release(realloc(p, 5000));
}

static void use_after_free(void)
{
	char *p = told(malloc(100));

	release(p);
	put(p, 20, 0xaf);
}

static void double_free(void)
{
	char *p = told(malloc(100));

	release(p);
	release(p);
}

static void wild_free(void)
{
	static char bytes[4096];

	release(told(bytes + 2048));
}

static void unmapped_free(void)
{
	release(told((void *)(uintptr_t)0x10020));
}

static void realloc_freed(void)
{
	char *p = told(malloc(100));

	release(p);
	if (realloc(p, 200))
		puts("a block");
}

static void size_of_freed(void)
{
	char *p = told(malloc(100));

	release(p);
	printf("%zu\n", malloc_usable_size(p));
}

static void header_after_free(void)
{
	char *p = told(malloc(100));

	release(p);
	put(p, -64, 0x00);
}

static HIDDEN char *allocate_leak(void)
{
	return malloc(1024);
}

static void leak(void)
{
	told(allocate_leak());
}

static void *in_thread(void *unused)
{
	release(malloc(10));
	return unused;
}

static void threads(void)
{
	for (int i = 0; i < 4; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, in_thread, NULL);
		pthread_join(thread, NULL);
	}
}

static void calls(void)
{
	char *a = malloc(16);
	char *b = calloc(3, 5);
	char *c = realloc(a, 100000);
	char *d = memalign(64, 10);
	void *e = NULL;

	if (posix_memalign(&e, 128, 20))
		abort();
	free(b);
	free(c);
	free(d);
	free(e);
	printf("%p %p %p %p %p\n", (void *)a, (void *)b, (void *)c, (void *)d, e);
}

static void bytes(void)
{
	unsigned char *p = malloc(40);
	unsigned char *zero = calloc(1, 40);

	printf("%02x %02x %02x %zu\n", p[0], p[39], zero[0], malloc_usable_size(p));
	free(zero);
	free(p);
}

/* Waits for lines; each makes a block and tells it, so that a signal can be answered. */
static void interactive(void)
{
	char line[64];
	char *kept[64];
	unsigned n = 0;

	puts("READY");
	fflush(stdout);
	while (n < 64 && fgets(line, sizeof(line), stdin)) {
		kept[n] = malloc((size_t)atoi(line));
		told(kept[n++]);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} rows[] = {
	{ "write_before", write_before },
	{ "write_after", write_after },
	{ "write_after_realloc", write_after_realloc },
	{ "use_after_free", use_after_free },
	{ "double_free", double_free },
	{ "wild_free", wild_free },
	{ "unmapped_free", unmapped_free },
	{ "realloc_freed", realloc_freed },
	{ "size_of_freed", size_of_freed },
	{ "header_after_free", header_after_free },
	{ "leak", leak },
	{ "threads", threads },
	{ "calls", calls },
	{ "bytes", bytes },
	{ "interactive", interactive },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (argc == 2 && strcmp(argv[1], rows[i].name) == 0) {
			rows[i].run();
			puts("done");
			return 0;
		}
	}
	fputs("usage: debugged NAME\n", stderr);
	return 2;
}
