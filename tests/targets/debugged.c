/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Programs with one memory bug each, for libmalloc_debug.so to find: `debugged NAME`.
 * Prints the address of the block in question. Each is volatile enough that no compiler
 * sees the bug, or takes it away.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
	release(p); /* told: write_before */
}

static void write_after(void)
{
	char *p = told(malloc(100));

	put(p, 100, 0x41);
	put(p, 131, 0x42);
	release(p); /* told: write_after */
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

	release(p); /* told: use_after_free */
	put(p, 20, 0xaf);
}

static void double_free(void)
{
	char *p = told(malloc(100));

	release(p); /* told: double_free */
	release(p); /* told: double_free */
}

static void wild_free(void)
{
	static char bytes[4096];

	release(told(bytes + 2048)); /* told: wild_free */
}

static void unmapped_free(void)
{
	release(told((void *)(uintptr_t)0x10020));
}

static void realloc_freed(void)
{
	char *p = told(malloc(100));

	release(p);          /* told: realloc_freed */
	p = realloc(p, 200); /* told: realloc_freed */
	if (p)
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

static void size_of_wild(void)
{
	static char bytes[4096];

	printf("%zu\n", malloc_usable_size(told(bytes + 2048)));
}

static void realloc_wild(void)
{
	static uint32_t words[1024];

	words[512 - 64 / 4] = 0x12345678; /* where a header's tag would be */
	if (realloc(told(&words[512]), 200))
		puts("a block");
}

static void write_around(void)
{
	char *p = told(malloc(100));

	put(p, -1, 0x01);
	put(p, 100, 0x02);
	release(p);
}

static void realloc_to_nothing(void)
{
	char *p = told(malloc(100));

	put(p, 101, 0x41);
	if (realloc(p, 0))
		puts("a block");
}

static void shrink(void)
{
	char *p = told(malloc(100));

	put(p, 100, 0x41);
	if (realloc(p, 50) != p)
		puts("moved");
	put(p, 50, 0x42);
	release(p);
}

static void use_large_after_free(void)
{
	char *p = told(malloc(3000000));

	release(p);
	put(p, 20, 0x01);
	put(p, 2000000, 0x02);
}

/* The first leaves a list of one when the second comes. */
static void use_two_after_free(void)
{
	char *p = told(malloc(100));
	char *q = told(malloc(100));

	release(p);
	put(p, 1, 0x11);
	release(q);
	put(q, 2, 0x12);
}

static HIDDEN void *move_leak(void *p)
{
	return realloc(p, 5000);
}

static void leak_moved(void)
{
	told(move_leak(malloc(100)));
}

static void leak_of_nothing(void)
{
	told(malloc(0));
}

static HIDDEN void *allocate(size_t size)
{
	return malloc(size);
}

/* The stack of the one from allocate() is longer. */
static void leaks_in_order(void)
{
	void *p = allocate(300);
	void *r = malloc(300);

	told(p);
	told(malloc(5000));
	told(r);
	told(calloc(3, 5));
}

static void leaves_at_once(void)
{
	char *p = told(malloc(100));

	release(p);
	put(p, 20, 0xaf);
	told(malloc(100));
	puts("done");
	fflush(stdout);
	_exit(0);
}

static HIDDEN char *allocate_leak(void)
{
	return malloc(1024); /* told: allocate_leak */
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

static void calls_at_the_edges(void)
{
	void *(*volatile make)(size_t) = malloc;
	void *(*volatile resize)(void *, size_t) = realloc;
	char *a = resize(NULL, 30);
	char *b = aligned_alloc(64, 128);
	char *c = valloc(10);
	char *d = pvalloc(11);
	char *e = calloc(2, 50);
	char *f = malloc(5000);
	char *g = resize(f, 4000);
	int failed = make(SIZE_MAX - 4096) != NULL;

	failed += resize(a, SIZE_MAX - 4096) != NULL;
	printf("%p %p %p %p %p %p %d\n", (void *)a, (void *)b, (void *)c, (void *)d, (void *)e,
	       (void *)g, failed);
	failed += resize(a, 0) != NULL;
	free(b);
	free(NULL);
}

static void at_exit(void)
{
	char *p = told(malloc(100));

	release(p);
	put(p, 20, 0xaf);
	told(allocate_leak());
}

static HIDDEN void *allocate_here(size_t size)
{
	return malloc(size);
}

static HIDDEN void *allocate_there(size_t size)
{
	return malloc(size);
}

/* By turns, so that no two neighbours have the same stack. */
static void leaks_by_turns(void)
{
	for (int i = 0; i < 20; i++) {
		allocate_here(600);
		allocate_there(600);
	}
	for (volatile int i = 0; i < 3; i++)
		allocate_here(7000);
}

static void bytes(void)
{
	unsigned char *p = malloc(40);
	unsigned char *zero = calloc(1, 40);

	printf("%02x %02x %02x %zu\n", p[0], p[39], zero[0], malloc_usable_size(p));
	free(zero);
	free(p);
}

/* What realloc() adds is new, and what was there is as it was. */
static void grown_bytes(void)
{
	size_t usable;
	unsigned char *p = malloc(40);

	memset(p, 0x11, 40);
	usable = malloc_usable_size(p);
	p = realloc(p, 5000);
	if (p)
		printf("%02x %02x %02x %02x\n", p[0], p[39], p[usable], p[4999]);
	free(p);
}

/*
 * Waits for lines; each makes a block and tells it, so that a signal can be answered; or,
 * "-N", frees the Nth.
 */
static void interactive(void)
{
	char line[64];
	char *kept[64];
	unsigned n = 0;

	puts("READY");
	fflush(stdout);
	while (n < 64 && fgets(line, sizeof(line), stdin)) {
		if (line[0] == '-') {
			free(kept[atoi(line + 1)]);
			told(NULL);
			continue;
		}
		kept[n] = malloc((size_t)atoi(line));
		told(kept[n++]);
	}
}

static void *allocate_often(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
		char *p = malloc(100);

		p = realloc(p, 300);
		release(p);
	}
	return NULL;
}

static HIDDEN void allocate_much(void)
{
	void *p[500];

	for (size_t i = 0; i < 500; i++)
		p[i] = malloc(i);
	for (size_t i = 0; i < 500; i++)
		free(p[i]);
}

/* Children of a process whose threads allocate: what locks they held stays locked. */
static void forks(void)
{
	pthread_t thread[3];
	int stop = 0;
	int failed = 0;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, allocate_often, &stop);
	for (int i = 0; i < 40; i++) {
		pid_t pid = i % 4 == 3 ? vfork() : fork();
		int status = 0;

		if (pid == 0) {
			alarm(10);
			allocate_much();
			_exit(7);
		}
		waitpid(pid, &status, 0);
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	printf("%d failed\n", failed);
}

/* Threads that never stop, when the process does. */
static void others_at_exit(void)
{
	pthread_t thread;
	static int never;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, allocate_often, &never);
	usleep(20000);
}

static void *function(const char *name)
{
	void *p = dlsym(RTLD_DEFAULT, name);

	if (!p) {
		printf("no %s\n", name);
		exit(1);
	}
	return p;
}

struct found {
	uintptr_t p;
	size_t size;
};

static void find(uintptr_t p, size_t size, void *arg)
{
	struct found *found = arg;

	if (p == found->p)
		found->size = size;
	free(malloc(10));
}

static HIDDEN void *block_for_api(size_t size)
{
	return malloc(size);
}

static void api(void)
{
	void (*get)(uint8_t **, size_t *, size_t *, size_t *, size_t *) =
		function("get_malloc_leak_info");
	void (*put)(uint8_t *) = function("free_malloc_leak_info");
	size_t (*backtrace)(const void *, uintptr_t *, size_t) = function("malloc_backtrace");
	int (*iterate)(uintptr_t, size_t, void (*)(uintptr_t, size_t, void *), void *) =
		function("malloc_iterate");
	int (*dump)(FILE *) = function("write_malloc_leak_info");
	volatile size_t too_many = SIZE_MAX / 2;
	bool (*dump_to)(const char *) = function("debug_dump_heap");
	void *a = block_for_api(77777);
	void *b = block_for_api(77777);
	struct found found = { (uintptr_t)a, 0 };
	size_t sizes[4] = { 1, 1, 1, 1 };
	uintptr_t frame[4] = { 0 };
	uint8_t *info = NULL;
	size_t n;

	get(NULL, sizes, sizes, sizes, sizes);
	get(&info, NULL, sizes, sizes, sizes);
	get(&info, sizes, NULL, sizes, sizes);
	get(&info, sizes, sizes, NULL, sizes);
	get(&info, sizes, sizes, sizes, NULL);
	get(&info, &sizes[0], &sizes[1], &sizes[2], &sizes[3]);
	printf("info %d %d %zu\n", info != NULL, sizes[0] % (sizes[1] ? sizes[1] : 1) == 0,
	       sizes[3]);
	for (size_t i = 0; info && i < sizes[0]; i += sizes[1]) {
		size_t *record = (size_t *)(void *)(info + i);

		if (record[0] == 77777)
			printf("record %zu %d\n", record[1], record[2] != 0);
	}
	put(info);
	n = backtrace(a, frame, 2);
	printf("frames %zu %d %zu\n", n, frame[0] - (uintptr_t)block_for_api < 100 && frame[2] == 0,
	       backtrace(&found, frame, 2));
	n = (size_t)iterate(0, 0, find, &found);
	printf("iterate %d %d\n", (int)n, found.size >= 77777);
	printf("dump %d", dump(fopen("/dev/null", "w")) & 1);
	printf(" %d", dump_to("/dev/null"));
	printf(" %d\n", dump_to("/nowhere/heap"));
	malloc_info(0, stdout);
	printf("mallopt %d %d %d\n", mallopt(-104, 0), mallopt(-4711, 0), mallopt(M_MMAP_MAX, 100));
	printf("mallinfo %d\n", mallinfo2().arena > 0);
	errno = 0;
	printf("aligned %d", aligned_alloc(24, 48) == NULL && errno == EINVAL);
	printf(" %d", aligned_alloc(64, 65) == NULL);
	printf(" %d\n", calloc(too_many, 4) == NULL && errno == ENOMEM);
	free(b);
	free(a);
}

/* Android's opcodes: 5 writes to a file, 6 lists, 7 frees the list. */
static void mallopts(void)
{
	bool (*tell)(int, void *, size_t) = function("android_mallopt");
	struct {
		uint8_t *buffer;
		size_t overall_size;
		size_t info_size;
		size_t total_memory;
		size_t backtrace_size;
	} info = { (uint8_t *)&pipe, 1, 1, 1, 1 };
	FILE *file = tmpfile();
	char line[256];
	bool done;

	for (int opcode = 5; opcode <= 7; opcode++) {
		void *arg = opcode == 5 ? (void *)file : &info;

		errno = 0;
		printf("%d %d", opcode, tell(opcode, NULL, sizeof(void *)));
		printf(" %d", errno == EINVAL);
		errno = 0;
		printf(" %d", tell(opcode, arg, 7));
		printf(" %d\n", errno == EINVAL);
	}
	errno = 0;
	done = tell(4, &info, sizeof(info));
	printf("4 %d %d\n", done, errno == ENOTSUP);
	errno = 0;
	done = tell(6, &info, sizeof(info));
	printf("6 %d %d: %d %zu\n", done, errno == ENOTSUP, info.buffer && info.overall_size > 0,
	       info.backtrace_size);
	if (!done)
		info.buffer = NULL;
	errno = 0;
	done = tell(7, &info, sizeof(info));
	printf("7 %d %d\n", done, errno == ENOTSUP);
	errno = 0;
	done = tell(5, file, sizeof(file));
	printf("5 %d %d\n", done, errno == ENOTSUP);
	rewind(file);
	for (int i = 0; i < 4 && fgets(line, sizeof(line), file); i++)
		fputs(line, stdout);
}

static void untracked(void)
{
	int (*iterate)(uintptr_t, size_t, void (*)(uintptr_t, size_t, void *), void *) =
		function("malloc_iterate");
	bool (*dump)(const char *) = function("debug_dump_heap");
	bool (*tell)(FILE *) = function("write_malloc_leak_info");
	struct found found = { 0, 0 };
	int done;

	errno = 0;
	done = iterate(0, 0, find, &found);
	printf("iterate %d %d\n", done, errno == ENOTSUP);
	printf("dump %d %d\n", dump("/nowhere/heap"), tell(stdout));
	printf("stats %d\n", mallopt(-205, 0));
	malloc_info(0, stdout);
}

static int pipe_end;
static volatile int has_allocated;

/* Some before, after which a block that is not sampled costs nothing. */
static void *allocate_one(void *done)
{
	char byte;

	for (int i = 0; i < 100; i++)
		release(malloc(10));
	has_allocated = 1;
	if (read(pipe_end, &byte, 1) != 1)
		abort();
	release(malloc(10));
	*(volatile int *)done = 1;
	return NULL;
}

static void disabled(void)
{
	void (*disable)(void) = function("malloc_disable");
	void (*enable)(void) = function("malloc_enable");
	int go[2];
	volatile int done = 0;
	pthread_t thread;
	int before;

	if (pipe(go))
		abort();
	pipe_end = go[0];
	pthread_create(&thread, NULL, allocate_one, (void *)&done);
	while (!has_allocated)
		usleep(1000);
	disable();
	if (write(go[1], "x", 1) != 1)
		abort();
	usleep(100000);
	before = done;
	enable();
	pthread_join(thread, NULL);
	printf("disabled %d, then %d\n", before, done);
}

/* A word that a program wrote, by the number it is known by; whoever wrote more is told. */
static HIDDEN void print_file(int fd)
{
	char text[64] = "";
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	printf("%d: %s, at %ld of %zd\n", fd, text, (long)lseek(fd, 0, SEEK_CUR), n);
}

static HIDDEN void allocate_in_between(void)
{
	release(malloc(100));
}

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret: as a compiler at run time makes it */
static const unsigned char call_without_tables[] = {
#ifdef __i386__
	0x55, 0x89, 0xe5, 0xff, 0x55, 0x08, 0x5d, 0xc3 /* call *8(%ebp) */
#else
	0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3
#endif
};

/* The lowest numbers are the program's, and calls come through code without tables. */
static void descriptors(void)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*call)(void (*)(void));

	memcpy(code, call_without_tables, sizeof(call_without_tables));
	memcpy(&call, &code, sizeof(code));
	for (int fd = 3; fd < 9; fd++) {
		int file = memfd_create("words", 0);

		if (dup2(file, fd) != fd || write(fd, "word", 4) != 4 || lseek(fd, 0, SEEK_SET))
			abort();
		if (file != fd) {
			printf("%d was not free\n", fd);
			(void)close(file);
		}
	}
	for (int i = 0; i < 100; i++)
		call(allocate_in_between);
	for (int fd = 3; fd < 9; fd++)
		print_file(fd);
}

/* A block that only memory shared with others refers to, and a search for leaks. */
static void shared_memory(void)
{
	const size_t bytes = 8 << 20;
	void **shared =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	memset(shared, 0x5a, bytes);
	shared[bytes / sizeof(*shared) / 2] = malloc(12345);
	raise(SIGRTMAX - 16);
	release(malloc(10));
	release(shared[bytes / sizeof(*shared) / 2]);
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
	{ "size_of_wild", size_of_wild },
	{ "realloc_wild", realloc_wild },
	{ "write_around", write_around },
	{ "realloc_to_nothing", realloc_to_nothing },
	{ "shrink", shrink },
	{ "use_large_after_free", use_large_after_free },
	{ "use_two_after_free", use_two_after_free },
	{ "leak_moved", leak_moved },
	{ "leak_of_nothing", leak_of_nothing },
	{ "leaks_in_order", leaks_in_order },
	{ "leaves_at_once", leaves_at_once },
	{ "leak", leak },
	{ "threads", threads },
	{ "calls", calls },
	{ "calls_at_the_edges", calls_at_the_edges },
	{ "at_exit", at_exit },
	{ "leaks_by_turns", leaks_by_turns },
	{ "untracked", untracked },
	{ "bytes", bytes },
	{ "grown_bytes", grown_bytes },
	{ "interactive", interactive },
	{ "forks", forks },
	{ "others_at_exit", others_at_exit },
	{ "api", api },
	{ "mallopts", mallopts },
	{ "disabled", disabled },
	{ "descriptors", descriptors },
	{ "shared_memory", shared_memory },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (argc == 2 && strcmp(argv[1], rows[i].name) == 0) {
			rows[i].run();
			puts("done");
			fflush(stdout);
			return 0;
		}
	}
	fputs("usage: debugged NAME\n", stderr);
	return 2;
}
