/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Programs that do nothing wrong, in ways that are hard on what stands in front of malloc:
 * `debugged_life NAME`. "done" at the end says that each block kept its bytes.
 */

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void *(*volatile make)(size_t size) = malloc;
static void *(*volatile zeroed)(size_t n, size_t size) = calloc;
static void *(*volatile resize)(void *p, size_t size) = realloc;
static void *(*volatile resize_array)(void *p, size_t n, size_t size) = reallocarray;
static void *(*volatile aligned)(size_t align, size_t size) = memalign;
static int (*volatile place)(void **p, size_t align, size_t size) = posix_memalign;
static void (*volatile release)(void *p) = free;

static void need(int condition, const char *what)
{
	if (condition)
		return;
	printf("failed: %s\n", what);
	exit(1);
}

static void fill(void *p, size_t n, int seed)
{
	for (size_t i = 0; i < n; i++)
		((unsigned char *)p)[i] = (unsigned char)(seed + (int)i);
}

static int is_filled(const void *p, size_t n, int seed)
{
	for (size_t i = 0; i < n; i++) {
		if (((const unsigned char *)p)[i] != (unsigned char)(seed + (int)i))
			return 0;
	}
	return 1;
}

/* From each alignment, to sizes on all sides. */
static void resizes_aligned(void)
{
	static const size_t sizes[] = { 1, 50, 99, 100, 101, 300, 5000, 200000 };

	for (size_t align = 8; align <= 65536; align *= 2) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			size_t kept = sizes[i] < 100 ? sizes[i] : 100;
			void *p = NULL;

			need(place(&p, align, 100) == 0, "posix_memalign");
			need((uintptr_t)p % align == 0, "alignment");
			fill(p, 100, 3);
			p = resize(p, sizes[i]);
			need(p && is_filled(p, kept, 3), "kept bytes");
			need(malloc_usable_size(p) >= sizes[i], "usable size");
			fill(p, sizes[i], 5);
			p = resize(p, 150);
			need(p && is_filled(p, sizes[i] < 150 ? sizes[i] : 150, 5), "kept again");
			release(p);
		}
	}
}

static void edges(void)
{
	const size_t most = SIZE_MAX;
	void *p = make(0);
	void *q = &p;

	need(p && malloc_usable_size(p) > 0, "malloc(0)");
	need(resize(p, 0) == NULL, "realloc to 0");
	release(NULL);
	need(malloc_usable_size(NULL) == 0, "usable size of NULL");
	errno = 0;
	need(!make(most) && errno == ENOMEM, "malloc of all");
	errno = 0;
	need(!make(most - 16) && errno == ENOMEM, "malloc of nearly all");
	errno = 0;
	need(!zeroed(most / 2, 3) && errno == ENOMEM, "calloc of more than all");
	errno = 0;
	need(!resize_array(NULL, most / 2, 3) && errno == ENOMEM, "reallocarray of more");
	p = make(10);
	fill(p, 10, 1);
	errno = 0;
	need(!resize(p, most - 16) && errno == ENOMEM && is_filled(p, 10, 1), "realloc to all");
	errno = 0;
	need(!resize(p, most / 2) && errno == ENOMEM && is_filled(p, 10, 1), "realloc to half");
	release(p);
	errno = 0;
	need(!pvalloc(most) && errno == ENOMEM, "pvalloc of all");
	need(!aligned(((size_t)1 << 63) + 1, 8), "alignment beyond the last");
	need(!aligned((size_t)1 << 63, 8), "the last alignment");
	errno = 7;
	need(place(&q, 4, 8) == EINVAL && place(&q, 24, 8) == EINVAL &&
	             place(&q, 64, most - 16) == ENOMEM && errno == 7 && q == &p,
	     "posix_memalign");
	errno = 7;
	release(make(10));
	need(errno == 7, "errno");
	p = pvalloc(1);
	need(p && (uintptr_t)p % 4096 == 0 && malloc_usable_size(p) >= 4096, "pvalloc");
	release(p);
	p = valloc(1);
	need(p && (uintptr_t)p % 4096 == 0, "valloc");
	release(p);
}

/* Not a power of two: with a header, the next one is taken. */
static void odd_alignment(void)
{
	void *p = aligned(24, 100);

	printf("%d\n", p && (uintptr_t)p % 32 == 0);
	release(p);
}

/* Android refuses what is larger than 2 GiB; here that is a block as any other. */
static void huge(void)
{
	size_t size = (size_t)3 << 30;
	char *p = make(size);

	if (!p) {
		puts("no memory");
		return;
	}
	p[0] = 1;
	p[size - 1] = 2;
	need(malloc_usable_size(p) >= size, "usable size");
	release(p);
}

/* ---- threads ---- */

enum { THREADS = 8, BLOCKS = 500 };

static void *leave_blocks(void *blocks)
{
	void **p = blocks;

	for (int i = 0; i < BLOCKS; i++) {
		p[i] = make((size_t)i + 1);
		fill(p[i], (size_t)i + 1, i);
	}
	return NULL;
}

static void *take_blocks(void *blocks)
{
	void **p = blocks;

	for (int i = 0; i < BLOCKS; i++) {
		void *block;

		while (!(block = __atomic_exchange_n(&p[i], NULL, __ATOMIC_ACQ_REL)))
			;
		need(is_filled(block, (size_t)i + 1, i), "bytes of another thread");
		release(block);
	}
	return NULL;
}

static void *hand_over(void *blocks)
{
	void **p = blocks;

	for (int i = 0; i < BLOCKS; i++) {
		void *block = make((size_t)i + 1);

		fill(block, (size_t)i + 1, i);
		__atomic_store_n(&p[i], block, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void freed_by_others(void)
{
	static void *left[THREADS][BLOCKS];
	static void *handed[THREADS][BLOCKS];
	pthread_t thread[THREADS];
	pthread_t taker[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, leave_blocks, left[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < THREADS; i++) {
		pthread_create(&thread[i], NULL, hand_over, handed[i]);
		pthread_create(&taker[i], NULL, take_blocks, handed[i]);
		take_blocks(left[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		pthread_join(taker[i], NULL);
	}
}

static pthread_key_t key;

/* The last thing that a thread does. */
static void allocate_at_end(void *p)
{
	release(p);
	release(resize(make(20), 3000));
}

static void *with_key(void *unused)
{
	pthread_setspecific(key, make(10));
	return unused;
}

static void thread_ends(void)
{
	pthread_key_create(&key, allocate_at_end);
	for (int i = 0; i < 50; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, with_key, NULL);
		pthread_join(thread, NULL);
	}
}

/* ---- children ---- */

static void vforks(void)
{
	for (int i = 0; i < 20; i++) {
		char *const argv[] = { (char *)"/bin/true", NULL };
		volatile pid_t pid = vfork();
		int status = 0;

		if (!pid) {
			release(resize(make(30), 3000));
			execv(argv[0], argv);
			_exit(9);
		}
		need(waitpid(pid, &status, 0) == pid && status == 0, "child");
		release(resize(make(30), 3000));
	}
}

/* ---- signals ---- */

static volatile unsigned handled;
static void *from_handler[1000];
static sigjmp_buf back;

static void allocate_in_handler(int number)
{
	unsigned n = handled++;

	(void)number;
	release(from_handler[n % 1000]);
	from_handler[n % 1000] = resize(make(10), 500);
	fill(from_handler[n % 1000], 500, (int)n);
}

static void jump(int number)
{
	(void)number;
	release(make(10));
	siglongjmp(back, 1);
}

static void handlers(void)
{
	signal(SIGUSR1, allocate_in_handler);
	signal(SIGUSR2, jump);
	for (volatile int i = 0; i < 2000; i++) {
		void *p = make(100);

		raise(SIGUSR1);
		release(p);
		if (!sigsetjmp(back, 1))
			raise(SIGUSR2);
	}
	for (unsigned i = 0; i < 1000; i++) {
		need(is_filled(from_handler[i], 500, (int)(1000 + i)), "bytes of a handler");
		release(from_handler[i]);
	}
}

/* ---- fork ---- */

static void *early[3];

static void before_forks(void)
{
	early[0] = make(10);
}

static void after_forks(void)
{
	early[1] = make(20);
}

static void in_children(void)
{
	early[2] = make(30);
}

/* Before any constructor, so its handler is called last before a fork, and first after it. */
static void handle_forks_early(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "forks") == 0)
		pthread_atfork(before_forks, after_forks, in_children);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const first)(int, char **) = handle_forks_early;

static void free_early(void)
{
	for (size_t i = 0; i < sizeof(early) / sizeof(*early); i++)
		release(early[i]);
}

static int child_of_fork(void)
{
	int status = 1;
	pid_t child = fork();

	need(child >= 0, "fork");
	if (!child) {
		need(early[0] && !early[1] && early[2], "blocks of the child's handlers");
		free_early();
		_exit(0);
	}
	(void)waitpid(child, &status, 0);
	return status;
}

static void forks(void)
{
	for (int i = 0; i < 20; i++) {
		need(child_of_fork() == 0, "child");
		need(early[0] && early[1] && !early[2], "blocks of the parent's handlers");
		free_early();
		memset(early, 0, sizeof(early));
	}
}

/* ---- while calls are disabled ---- */

static void *volatile block_before;

static void waits_to_allocate(void)
{
	release(make(10));
}

static void waits_to_free(void)
{
	release(block_before);
}

static void waits_to_resize(void)
{
	block_before = realloc(block_before, 100);
}

static void waits_to_fork(void)
{
	(void)!fork();
}

/* How a child ends that calls @what with malloc disabled, and half a second to live then. */
static int end_of_disabled(void (*what)(void))
{
	const struct itimerval limit = { .it_value = { 0, 500000 } };
	void (*disable)(void) = NULL;
	void (*enable)(void) = NULL;
	int status = 0;
	pid_t child;

	*(void **)&disable = dlsym(RTLD_DEFAULT, "malloc_disable");
	*(void **)&enable = dlsym(RTLD_DEFAULT, "malloc_enable");
	block_before = make(10);
	child = fork();
	need(child >= 0, "fork");
	if (!child) {
		(void)signal(SIGALRM, SIG_DFL);
		(void)setitimer(ITIMER_REAL, &limit, NULL);
		if (disable && enable) {
			disable();
			enable();
			release(make(10));
			disable();
		}
		what();
		_exit(0);
	}
	(void)waitpid(child, &status, 0);
	release(block_before);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* The thread that disabled them waits as all others. */
static void waits_disabled(void)
{
	void (*const calls[])(void) = { waits_to_allocate, waits_to_free, waits_to_resize,
		                        waits_to_fork };

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		printf("%s%s", i ? " " : "",
		       end_of_disabled(calls[i]) == SIGALRM ? "waits" : "passes");
	puts("");
}

/* It ends nevertheless, with all that is told then. */
static void exits_disabled(void)
{
	void (*disable)(void) = NULL;

	*(void **)&disable = dlsym(RTLD_DEFAULT, "malloc_disable");
	puts("done");
	(void)alarm(10);
	if (disable)
		disable();
	exit(0);
}

/* ---- libraries ---- */

static void *opened;

__attribute__((constructor)) static void open_early(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "opens") == 0)
		opened = dlopen("libm.so.6", RTLD_NOW);
}

static void opens(void)
{
	need(opened != NULL, "library of the constructor");
	for (int i = 0; i < 20; i++) {
		void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);

		need(!dlsym(RTLD_DEFAULT, "no_such_function") && dlerror(), "error");
		need(!dlopen("no_such_library.so", RTLD_NOW) && dlerror(), "another error");
		if (library)
			dlclose(library);
	}
	dlclose(opened);
}

/* ---- too little memory ---- */

enum { MOST = 400000 };

/* No mapping is left for tables to grow; the blocks have theirs from before. */
static void limited(void)
{
	static void *p[MOST];
	struct rlimit limit = { 0, RLIM_INFINITY };
	size_t n = 0;

	for (int i = 0; i < 200; i++)
		p[i] = make(200000 - 4096);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	for (int i = 0; i < 200; i++)
		p[i] = resize(p[i], 1);
	for (int i = 0; i < 200; i++)
		release(p[i]);
	p[0] = make((size_t)100 << 20); /* of the heap, which keeps it */
	memset(p[0], 1, 1);
	p[1] = make(16);
	release(p[0]);
	release(p[1]);
	for (int i = 0; i < 200; i++) /* no list of freed blocks keeps it */
		release(make(16));
	need(setrlimit(RLIMIT_AS, &limit) == 0, "limit");
	for (; n < MOST && (p[n] = make(24)) != NULL; n++)
		fill(p[n], 24, (int)n);
	need(n > 100000, "blocks under the limit");
	for (size_t i = 0; i < n; i += 2)
		need(malloc_usable_size(p[i]) >= 24, "usable size");
	for (size_t i = 0; i < n; i++) {
		need(is_filled(p[i], 24, (int)i), "bytes");
		if (i % 3 == 0)
			p[i] = resize(p[i], 20);
		release(p[i]);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} rows[] = {
	{ "resizes_aligned", resizes_aligned },
	{ "edges", edges },
	{ "odd_alignment", odd_alignment },
	{ "huge", huge },
	{ "freed_by_others", freed_by_others },
	{ "thread_ends", thread_ends },
	{ "vforks", vforks },
	{ "handlers", handlers },
	{ "forks", forks },
	{ "waits_disabled", waits_disabled },
	{ "exits_disabled", exits_disabled },
	{ "opens", opens },
	{ "limited", limited },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (argc == 2 && strcmp(argv[1], rows[i].name) == 0) {
			rows[i].run();
			puts("done");
			return 0;
		}
	}
	fputs("usage: debugged_life NAME\n", stderr);
	return 2;
}
