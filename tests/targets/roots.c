// variants: static static-pie
/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every place in a process's own memory and registers that keeps a block
 * alive: `roots SCENARIO`, `roots list`; see truth.h. mappings.c has those of
 * mmap, coroutines and the kernel.
 *
 * Each scenario has one block, or a few, that hang on this place alone, and
 * one that is lost, so that a scan which tells nothing at all is no success.
 * To put a pointer in one place only, it travels there as its complement.
 */
#include "truth.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <setjmp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);

#define PAGE 4096

static int in_bss_filler[10];
static void *volatile in_bss;
static void *volatile in_data = &in_bss_filler;
static void *volatile own_page[PAGE / sizeof(void *)]
	__attribute__((aligned(PAGE))) = { &in_bss_filler };
static void *const volatile in_relro[2]
	__attribute__((section(".data.rel.ro"))) = { &in_bss_filler[1], &in_bss_filler[2] };

static void *new_live(size_t size)
{
	void *p = fresh(size);

	tell("live", p);
	return p;
}

/* A live block, as the complement of its address. */
NOINLINE static uintptr_t hidden_live(size_t size)
{
	return ~(uintptr_t)new_live(size);
}

static void globals(void)
{
	in_bss = new_live(100);
	in_data = new_live(101);
}

static void read_only_page(void)
{
	own_page[100] = new_live(100);
	if (mprotect((void *)own_page, PAGE, PROT_READ) != 0)
		_exit(97);
}

/* What was written before the loader made the page read-only. */
static void relro(void)
{
	uintptr_t slot = (uintptr_t)&in_relro[1];
	void *page = (void *)(slot & ~(uintptr_t)(PAGE - 1));

	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) != 0)
		_exit(97);
	*(void **)slot = new_live(100);
	if (mprotect(page, PAGE, PROT_READ) != 0)
		_exit(97);
}

static void unreadable_page(void)
{
	char *block = fresh(100 * PAGE);
	char *page = (char *)(((uintptr_t)block + 10 * PAGE) & ~(uintptr_t)(PAGE - 1));

	in_bss = block;
	*(void **)(page + 8) = new_live(100);
	*(void **)(page + PAGE) = new_live(101);
	*(void **)(page + 50 * PAGE) = new_live(102);
	if (mprotect(page, PAGE, PROT_NONE) != 0 ||
	    mprotect((void *)own_page, PAGE, PROT_NONE) != 0)
		_exit(97);
}

static void interior(void)
{
	char *p = fresh(1000);

	tell("interior", p);
	own_page[1] = p + 8;
	p = fresh(1000);
	tell("interior", p);
	own_page[2] = p + malloc_usable_size(p) - 1;
	p = fresh(500000);
	tell("interior", p);
	own_page[3] = p + 400000;
}

/* ---- stacks ---- */

static void stack_of_main(void)
{
	void *volatile slots[3] = { 0 };

	slots[1] = new_live(100);
	ready();
	OPAQUE(slots[1]);
}

NOINLINE static void deep_frames(int depth)
{
	char filler[3000];

	memset(filler, depth, sizeof(filler));
	OPAQUE(depth);
	if (depth > 0)
		deep_frames(depth - 1);
	else
		wait_for_end();
	__asm__ volatile("" : : "r"(filler) : "memory");
}

/* Far above the stack pointer, many pages up. */
static void stack_far_up(void)
{
	void *volatile slot = new_live(100);

	forget();
	deep_frames(400);
	OPAQUE(slot);
	_exit(0);
}

static volatile int n_ready;

static void thread_is_ready(void)
{
	forget();
	__atomic_fetch_add(&n_ready, 1, __ATOMIC_SEQ_CST);
}

static void sleep_for_ever(void)
{
	for (;;)
		pause();
}

static void start_threads(void *(*body)(void *), int n)
{
	pthread_t id;

	for (int i = 0; i < n; i++)
		if (pthread_create(&id, NULL, body, NULL) != 0)
			_exit(97);
	while (__atomic_load_n(&n_ready, __ATOMIC_SEQ_CST) < n)
		usleep(1000);
	memset(&id, 0, sizeof(id));
	usleep(10000);
}

/* ---- what is said in instructions ---- */

static jmp_buf jump;

#ifdef __x86_64__
#include "roots_x86_64.h"
#else
#include "roots_i386.h"
#endif

static void *hold_on_stack(void *unused)
{
	void *volatile slot = new_live(100);

	(void)unused;
	thread_is_ready();
	sleep_for_ever();
	OPAQUE(slot);
	return NULL;
}

static void stacks_of_threads(void)
{
	start_threads(hold_on_stack, 5);
}

#ifdef __x86_64__
static void red_zone(void)
{
	start_threads(hold_in_red_zone, 1);
}
#endif

static void below_red_zone(void)
{
	start_threads(lose_below_red_zone, 1);
}

/* A thread on a stack in a block that only its SP points into. */
static void *hold_on_own_stack(void *unused)
{
	void *volatile slot = new_live(100);

	(void)unused;
	__atomic_fetch_add(&n_ready, 1, __ATOMIC_SEQ_CST);
	sleep_for_ever();
	OPAQUE(slot);
	return NULL;
}

NOINLINE static void start_on_block(void)
{
	pthread_attr_t attr;
	pthread_t id;
	char *block = memalign(PAGE, 22 * PAGE);

	memset(block, 0, 22 * PAGE);
	tell("live", block);
	/* what the program keeps below and behind the stack */
	*(void *volatile *)block = new_live(101);
	*(void *volatile *)(block + 21 * PAGE) = new_live(102);
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, block + PAGE, 20 * PAGE) != 0 ||
	    pthread_create(&id, &attr, hold_on_own_stack, NULL) != 0)
		_exit(97);
	pthread_attr_destroy(&attr);
	while (__atomic_load_n(&n_ready, __ATOMIC_SEQ_CST) < 1)
		usleep(1000);
}

static void stack_in_heap(void)
{
	start_on_block();
}

/* ---- registers ---- */

static void registers_asleep(void)
{
	start_threads(hold_while_asleep, 1);
}

static void registers_running(void)
{
	start_threads(hold_while_running, 1);
}

static void vector_registers(void)
{
	start_threads(hold_in_vectors, 1);
}

static void wide_vector_registers(void)
{
	start_threads(hold_in_zmm, 1);
}

/* ---- thread-local ---- */

static __thread void *volatile tls_slot[4];

static void *hold_in_tls(void *unused)
{
	(void)unused;
	tls_slot[3] = new_live(100);
	thread_is_ready();
	sleep_for_ever();
	return NULL;
}

static void static_tls(void)
{
	tls_slot[1] = new_live(101);
	start_threads(hold_in_tls, 3);
}

static pthread_key_t keys[50];

static void set_keys(void)
{
	for (int i = 0; i < 50; i += 7)
		pthread_setspecific(keys[i], new_live(100 + (size_t)i));
}

static void *hold_in_keys(void *unused)
{
	(void)unused;
	set_keys();
	thread_is_ready();
	sleep_for_ever();
	return NULL;
}

/* The first 32 are in struct pthread, the others in a block of their own. */
static void thread_keys(void)
{
	for (int i = 0; i < 50; i++)
		pthread_key_create(&keys[i], NULL);
	set_keys();
	start_threads(hold_in_keys, 3);
}

static void *ignore_argument(void *argument)
{
	tell("live", argument);
	argument = NULL;
	thread_is_ready();
	sleep_for_ever();
	return argument;
}

NOINLINE static void start_with_argument(void)
{
	pthread_t id;

	if (pthread_create(&id, NULL, ignore_argument, fresh(100)) != 0)
		_exit(97);
}

static void thread_argument(void)
{
	start_with_argument();
	while (__atomic_load_n(&n_ready, __ATOMIC_SEQ_CST) < 1)
		usleep(1000);
	usleep(10000);
}

/* musl has neither. */
#ifdef __GLIBC__
static void no_destructor(void *p)
{
	(void)p;
}

static void *hold_for_thread_exit(void *unused)
{
	(void)unused;
	for (int i = 0; i < 5; i++)
		__cxa_thread_atexit_impl(no_destructor, new_live(100), &in_bss_filler);
	thread_is_ready();
	sleep_for_ever();
	return NULL;
}

static void thread_exit_arguments(void)
{
	start_threads(hold_for_thread_exit, 2);
}

/* ---- the C library's own state ---- */

static void no_handler(int status, void *p)
{
	(void)status;
	(void)p;
}

/* More than the 32 that fit into the first table. */
static void exit_arguments(void)
{
	for (int i = 0; i < 70; i++)
		on_exit(no_handler, new_live(100));
}
#endif

static void environment(void)
{
	char *text = new_live(100);

	strcpy(text, "MEMSCAN_TEST_PUT=1");
	putenv(text);
	/* replaced values are another matter: glibc 2.41 changed what becomes of them */
	setenv("MEMSCAN_TEST_SET", "a value that is set", 1);
}

NOINLINE static void open_files(void)
{
	char byte[2];

	for (int i = 0; i < 3; i++) {
		FILE *in = fopen("/proc/self/status", "r");

		if (in == NULL || fread(byte, 1, 1, in) != 1)
			_exit(97);
	}
	setvbuf(stdout, new_live(10000), _IOFBF, 10000);
}

static void files(void)
{
	open_files();
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void *tree_root;
static regex_t pattern;

NOINLINE static void fill_library_state(void)
{
	for (int i = 0; i < 100; i++) {
		int *number = new_live(24);

		*number = (i * 37) % 100;
		tsearch(number, &tree_root, compare);
	}
	hcreate(50);
	for (int i = 0; i < 20; i++) {
		char *key = new_live(16);
		ENTRY entry = { key, NULL };

		key[0] = (char)('a' + i);
		hsearch(entry, ENTER);
	}
	if (regcomp(&pattern, "^(a|b)*[[:digit:]]+(foo|bar){2,5}$", REG_EXTENDED) != 0)
		_exit(97);
	setlocale(LC_ALL, "C.UTF-8");
	uselocale(newlocale(LC_ALL_MASK, "C", NULL));
	setenv("TZ", "Europe/Berlin", 1);
	tzset();
}

static void library_state(void)
{
	fill_library_state();
}

/* ---- dlopen ---- */

static void hold_in_library(void *library)
{
	void (*in_data_of)(void *), (*in_tls_of)(void *);

	*(void **)&in_data_of = dlsym(library, "holder_set_data");
	*(void **)&in_tls_of = dlsym(library, "holder_set_tls");
	if (in_data_of == NULL || in_tls_of == NULL)
		_exit(97);
	in_data_of(new_live(100));
	in_tls_of(new_live(101));
}

static void *library;

static void *hold_in_library_tls(void *unused)
{
	void (*in_tls_of)(void *);

	(void)unused;
	*(void **)&in_tls_of = dlsym(library, "holder_set_tls");
	in_tls_of(new_live(102));
	thread_is_ready();
	sleep_for_ever();
	return NULL;
}

static const char *library_path(void)
{
	const char *path = getenv("HOLDER_LIBRARY");

	if (path == NULL)
		_exit(96);
	return path;
}

static void opened_library(void)
{
	library = dlopen(library_path(), RTLD_NOW);
	if (library == NULL)
		_exit(96);
	hold_in_library(library);
	start_threads(hold_in_library_tls, 3);
}

static void copy_library(int to)
{
	char bytes[4096];
	int from = open(library_path(), O_RDONLY);
	ssize_t n;

	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)n) != n)
			_exit(97);
	close(from);
}

/* As after an upgrade: the file is gone. */
static void deleted_library(void)
{
	char path[] = "/tmp/memscan-holder-XXXXXX";
	int fd = mkstemp(path);

	copy_library(fd);
	close(fd);
	library = dlopen(path, RTLD_NOW);
	unlink(path);
	if (library == NULL)
		_exit(96);
	hold_in_library(library);
}

static void memfd_library(void)
{
	char path[64], *to = path;
	int fd = (int)syscall(SYS_memfd_create, "holder", 0);

	copy_library(fd);
	to = put_text(to, "/proc/self/fd/");
	to = put_number(to, (uint64_t)fd, 10);
	*to = '\0';
	library = dlopen(path, RTLD_NOW);
	if (library == NULL)
		_exit(96);
	hold_in_library(library);
}

static const struct scenario scenarios[] = {
	{ "globals", globals, 0 },
	{ "read_only_page", read_only_page, 0 },
	{ "relro", relro, 0 },
	{ "unreadable_page", unreadable_page, 0 },
	{ "interior", interior, 0 },
	{ "stack_of_main", stack_of_main, 0 },
	{ "stack_far_up", stack_far_up, 0 },
	{ "stacks_of_threads", stacks_of_threads, 0 },
#ifdef __x86_64__
	{ "red_zone", red_zone, 0 },
#endif
	{ "below_red_zone", below_red_zone, 0 },
	{ "stack_in_heap", stack_in_heap, 0 },
	{ "registers_asleep", registers_asleep, 0 },
	{ "registers_running", registers_running, 0 },
	{ "vector_registers", vector_registers, 0 },
	{ "wide_vector_registers", wide_vector_registers, 0 },
	{ "static_tls", static_tls, 0 },
	{ "thread_keys", thread_keys, 0 },
	{ "thread_argument", thread_argument, 0 },
#ifdef __GLIBC__
	{ "thread_exit_arguments", thread_exit_arguments, 0 },
	{ "exit_arguments", exit_arguments, 0 },
#endif
	{ "environment", environment, 0 },
	{ "files", files, 0 },
	{ "library_state", library_state, 0 },
	{ "in_jmp_buf", in_jmp_buf, 0 },
	{ "opened_library", opened_library, 1 },
	{ "deleted_library", deleted_library, 1 },
	{ "memfd_library", memfd_library, 1 },
};

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "globals";

	if (strcmp(name, "list") != 0) {
		leak(60);
		forget();
	}
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), name);
}
