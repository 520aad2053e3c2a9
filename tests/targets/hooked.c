/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Programs with hooks in the place of malloc: `hooked NAME`. Each tells what its hooks were
 * called for, with "here" when that was in this program. Without the library that has the
 * variables they are none: "no hooks".
 */

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/malloc_debug/malloc_debug.h"

#pragma weak __malloc_hook
#pragma weak __realloc_hook
#pragma weak __free_hook
#pragma weak __memalign_hook

/* So that the compiler does not know them, and leaves none out. */
static void *(*volatile make)(size_t size) = malloc;
static void *(*volatile resize)(void *p, size_t size) = realloc;
static void (*volatile release)(void *p) = free;
static void *(*volatile zeroed)(size_t n, size_t size) = calloc;
static void *(*volatile aligned)(size_t align, size_t size) = aligned_alloc;

extern char __executable_start[];
extern char etext[];

static struct {
	unsigned n;
	struct {
		const char *what;
		size_t size;
		size_t align;
		const void *caller;
	} call[4096];
} seen;

static void *(*old_malloc)(size_t, const void *);
static void *(*old_realloc)(void *, size_t, const void *);
static void (*old_free)(void *, const void *);
static void *(*old_memalign)(size_t, size_t, const void *);

static void note(const char *what, size_t size, size_t align, const void *caller)
{
	unsigned n = __atomic_fetch_add(&seen.n, 1, __ATOMIC_RELAXED);

	if (n < sizeof(seen.call) / sizeof(*seen.call)) {
		seen.call[n].what = what;
		seen.call[n].size = size;
		seen.call[n].align = align;
		seen.call[n].caller = caller;
	}
}

static void *my_malloc(size_t size, const void *caller)
{
	note("malloc", size, 0, caller);
	return memset(old_malloc(size, caller), 0x5a, size);
}

static void *my_realloc(void *p, size_t size, const void *caller)
{
	note(p ? "realloc" : "realloc NULL", size, 0, caller);
	return old_realloc(p, size, caller);
}

static void my_free(void *p, const void *caller)
{
	note(p ? "free" : "free NULL", 0, 0, caller);
	old_free(p, caller);
}

static void *my_memalign(size_t align, size_t size, const void *caller)
{
	note("memalign", size, align, caller);
	return old_memalign(align, size, caller);
}

static void save(void)
{
	old_malloc = __malloc_hook;
	old_realloc = __realloc_hook;
	old_free = __free_hook;
	old_memalign = __memalign_hook;
}

static void hook(void)
{
	__malloc_hook = my_malloc;
	__realloc_hook = my_realloc;
	__free_hook = my_free;
	__memalign_hook = my_memalign;
}

static void unhook(void)
{
	__malloc_hook = old_malloc;
	__realloc_hook = old_realloc;
	__free_hook = old_free;
	__memalign_hook = old_memalign;
}

static const char *place_of(const void *caller)
{
	uintptr_t at = (uintptr_t)caller;

	return at >= (uintptr_t)__executable_start && at < (uintptr_t)etext ? "here" : "elsewhere";
}

static void tell(void)
{
	for (unsigned i = 0; i < seen.n; i++) {
		printf("%s %zu", seen.call[i].what, seen.call[i].size);
		if (seen.call[i].align)
			printf(" at %zu", seen.call[i].align);
		printf(" %s\n", place_of(seen.call[i].caller));
	}
}

static void calls(void)
{
	unsigned char *zero;
	void *p[8];
	int failed;

	save();
	hook();
	p[0] = make(10);
	zero = zeroed(3, 5);
	p[0] = resize(p[0], 20);
	p[1] = resize(NULL, 30);
	p[1] = reallocarray(p[1], 5, 8);
	p[2] = memalign(64, 10);
	p[3] = aligned(32, 64);
	failed = posix_memalign(&p[4], 128, 20);
	p[5] = valloc(40);
	p[6] = pvalloc(50);
	failed += malloc_usable_size(p[0]) < 20;
	for (int i = 0; i < 7; i++)
		failed += !p[i];
	for (int i = 0; i < 15; i++)
		failed += zero[i] != 0;
	for (int i = 0; i < 7; i++)
		release(p[i]);
	release(zero);
	release(NULL);
	unhook();
	tell();
	printf("%d failed\n", failed);
}

/* Never asked for what cannot be. */
static void refusals(void)
{
	void *p = &seen;

	save();
	hook();
	errno = 0;
	printf("calloc %d", zeroed(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
	errno = 0;
	printf(" aligned_alloc %d", aligned(24, 48) == NULL && errno == EINVAL);
	errno = 0;
	printf(" %d", aligned(64, 65) == NULL && errno == EINVAL);
	printf(" posix_memalign %d %d %d\n", posix_memalign(&p, 4, 8) == EINVAL,
	       posix_memalign(&p, 24, 8) == EINVAL, p == &seen);
	unhook();
	for (unsigned i = 0; i < seen.n; i++) {
		if (strcmp(place_of(seen.call[i].caller), "here") == 0)
			puts("asked");
	}
}

static void *no_malloc(size_t size, const void *caller)
{
	(void)size;
	(void)caller;
	return NULL;
}

static void *no_memalign(size_t align, size_t size, const void *caller)
{
	(void)align;
	return no_malloc(size, caller);
}

static void failures(void)
{
	void *p = &seen;
	int done[4];

	save();
	__malloc_hook = no_malloc;
	__memalign_hook = no_memalign;
	done[0] = zeroed(3, 3) == NULL;
	errno = 0;
	done[1] = aligned(64, 64) == NULL && errno == ENOMEM;
	errno = 7;
	done[2] = posix_memalign(&p, 64, 64) == ENOMEM && errno == 7;
	done[3] = p == &seen;
	unhook();
	printf("%d %d %d %d\n", done[0], done[1], done[2], done[3]);
}

static void none(void)
{
	char *p;

	__malloc_hook = NULL;
	__realloc_hook = NULL;
	__free_hook = NULL;
	__memalign_hook = NULL;
	p = realloc(make(10), 100);
	release(p);
	release(aligned(64, 64));
	p = zeroed(1, 10);
	printf("%d\n", p && !p[0]);
	release(p);
}

/* The C library's manual has this: the hook is away while it calls malloc. */
static void *aside(size_t size, const void *caller)
{
	void *p;

	__malloc_hook = old_malloc;
	p = make(size);
	note("malloc", size, 0, caller);
	__malloc_hook = aside;
	return p;
}

static void sets_aside(void)
{
	void *p[2];

	save();
	__malloc_hook = aside;
	p[0] = make(10);
	p[1] = make(11);
	unhook();
	release(p[0]);
	release(p[1]);
	tell();
}

/* What was there before the hooks is theirs to free and to resize. */
static void before(void)
{
	void *p[3] = { make(10), make(11), zeroed(1, 12) };

	save();
	hook();
	release(p[0]);
	p[1] = resize(p[1], 100000);
	release(p[1]);
	release(p[2]);
	unhook();
	tell();
}

static void *hook_in_thread(void *unused)
{
	hook();
	return unused;
}

static void from_a_thread(void)
{
	pthread_t thread;

	save();
	pthread_create(&thread, NULL, hook_in_thread, NULL);
	while (__free_hook != my_free || __memalign_hook != my_memalign || !seen.n)
		release(make(10));
	pthread_join(thread, NULL);
	unhook();
	puts("seen");
}

static void forks(void)
{
	int status = 0;
	pid_t pid;

	save();
	hook();
	pid = fork();
	if (!pid) {
		seen.n = 0;
		release(make(77));
		_exit(seen.n == 2 && seen.call[0].size == 77 ? 7 : 1);
	}
	waitpid(pid, &status, 0);
	unhook();
	printf("%d\n", WEXITSTATUS(status));
}

static void opens(void)
{
	unsigned elsewhere = 0;
	void *library;

	save();
	hook();
	library = dlopen("libm.so.6", RTLD_NOW);
	unhook();
	for (unsigned i = 0; i < seen.n; i++)
		elsewhere += strcmp(place_of(seen.call[i].caller), "elsewhere") == 0;
	printf("%d %d\n", library != NULL, elsewhere > 0);
}

static void by_constructor(void)
{
	release(make(12345));
	unhook();
	for (unsigned i = 0; i < seen.n; i++) {
		if (seen.call[i].size == 12345)
			puts("seen");
	}
}

/* What Malloc Debug would tell; there is nothing of it. */
static void asks(void)
{
	void (*get)(uint8_t **, size_t *, size_t *, size_t *, size_t *);
	size_t (*backtrace)(const void *, uintptr_t *, size_t);
	int (*iterate)(uintptr_t, size_t, void (*)(uintptr_t, size_t, void *), void *);
	uint8_t *info = (uint8_t *)&seen;
	size_t n[4] = { 1, 1, 1, 1 };
	uintptr_t frame[1];

	*(void **)&get = dlsym(NULL, "get_malloc_leak_info");
	*(void **)&backtrace = dlsym(NULL, "malloc_backtrace");
	*(void **)&iterate = dlsym(NULL, "malloc_iterate");
	get(&info, &n[0], &n[1], &n[2], &n[3]);
	printf("%d %zu %zu %zu %zu\n", info == NULL, n[0], n[1], n[2], n[3]);
	printf("%zu %d\n", backtrace(&seen, frame, 1), iterate(0, SIZE_MAX, NULL, NULL));
	printf("%d %d %d\n", mallopt(-1000, -1000), mallopt(-101, 0), mallopt(M_MMAP_MAX, 100));
}

static const struct {
	const char *name;
	void (*run)(void);
} rows[] = {
	{ "calls", calls },
	{ "refusals", refusals },
	{ "failures", failures },
	{ "none", none },
	{ "sets_aside", sets_aside },
	{ "before", before },
	{ "from_a_thread", from_a_thread },
	{ "forks", forks },
	{ "opens", opens },
	{ "by_constructor", by_constructor },
	{ "asks", asks },
};

__attribute__((constructor)) static void start(int argc, char **argv)
{
	if (&__malloc_hook && argc == 2 && strcmp(argv[1], "by_constructor") == 0) {
		save();
		hook();
	}
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!&__malloc_hook) {
		puts("no hooks");
		return 0;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (argc == 2 && strcmp(argv[1], rows[i].name) == 0) {
			rows[i].run();
			puts("done");
			return 0;
		}
	}
	fputs("usage: hooked NAME\n", stderr);
	return 2;
}
