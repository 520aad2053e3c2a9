// variants: static static-pie
/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pointers to blocks outside of heap, globals and ordinary stacks:
 * `mappings SCENARIO`, `mappings list`; see truth.h. Mapped memory of every
 * kind, stacks that the program switches by itself, and what only the kernel
 * holds.
 */
#include "truth.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))
/* Below the threshold for mmap, and enough for forget(). */
#define STACK_BYTES (FORGET_BYTES + 64 * 1024)

static void *volatile held[16];

static void *new_live(size_t size)
{
	void *p = fresh(size);

	tell("live", p);
	return p;
}

static void *need(void *p)
{
	if (p == MAP_FAILED || p == NULL)
		_exit(97);
	return p;
}

/* A mapping with closed pages at both sides, so that it merges with none. */
static void *map_apart(size_t bytes)
{
	char *p = need(mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	if (mprotect(p + PAGE, bytes, PROT_READ | PROT_WRITE) != 0)
		_exit(97);
	return p + PAGE;
}

static void anonymous(void)
{
	void **page = map_apart(3 * PAGE);

	page[1000] = new_live(100);
	held[1] = page;
}

/* mapping -> mapping -> block -> mapping -> block */
static void anonymous_chain(void)
{
	void **first = map_apart(PAGE), **second = map_apart(5 * PAGE), **third = map_apart(PAGE);
	void **block = new_live(100);

	held[1] = &first[17];
	first[200] = &second[3];
	second[2000] = block;
	block[3] = third;
	third[5] = new_live(101);
}

static void anonymous_lost(void)
{
	void **page = map_apart(3 * PAGE), *block = fresh(100);

	page[1000] = block;
	tell("possible", block);
	tell_sized("mapping", page, 3 * PAGE);
}

/* Two lost mappings that hold each other, and a chain of blocks. */
static void anonymous_cycle_lost(void)
{
	void **first = map_apart(PAGE), **second = map_apart(PAGE);
	void **block = fresh(100), *child = fresh(40);

	first[1] = second;
	second[1] = first;
	second[2] = block;
	block[0] = child;
	tell("possible", block);
	tell("possible", child);
	tell_sized("mapping", first, PAGE);
	tell_sized("mapping", second, PAGE);
}

static void shared_anonymous(void)
{
	void **page =
		need(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));

	page[100] = new_live(100);
	held[1] = page;
}

NOINLINE static void *map_file(int fd, int flags)
{
	void *p;

	if (fd < 0 || ftruncate(fd, 2 * PAGE) != 0)
		_exit(97);
	p = need(mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0));
	close(fd);
	return p;
}

static void hold_in_file(int fd, int flags)
{
	void **page = map_file(fd, flags);

	page[600] = new_live(100);
	held[1] = page;
}

static void memfd(void)
{
	hold_in_file((int)syscall(SYS_memfd_create, "memscan-test", 0), MAP_SHARED);
}

static void posix_shm(void)
{
	char name[64], *to = name;
	int fd;

	to = put_text(to, "/memscan-test-");
	to = put_number(to, (uint64_t)getpid(), 10);
	*to = '\0';
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	shm_unlink(name);
	hold_in_file(fd, MAP_SHARED);
}

static void sysv_shm(void)
{
	int id = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);
	void **page = need(shmat(id, NULL, 0));

	shmctl(id, IPC_RMID, NULL);
	page[300] = new_live(100);
	held[1] = page;
}

static int temporary_file(void)
{
	char path[] = "/tmp/memscan-mapping-XXXXXX";
	int fd = mkstemp(path);

	unlink(path);
	return fd;
}

static void file_shared(void)
{
	hold_in_file(temporary_file(), MAP_SHARED);
}

static void file_private(void)
{
	hold_in_file(temporary_file(), MAP_PRIVATE);
}

/* Pointers in pages that cannot be written to any more. */
static void close_pages(int fd, int prot)
{
	void **page = map_file(fd, MAP_SHARED);

	page[600] = new_live(100);
	held[1] = page;
	(void)mprotect(page, 2 * PAGE, prot);
}

static void memfd_read_only(void)
{
	close_pages((int)syscall(SYS_memfd_create, "memscan-test", 0), PROT_READ);
}

static void memfd_closed(void)
{
	close_pages((int)syscall(SYS_memfd_create, "memscan-test", 0), PROT_NONE);
}

static void file_read_only(void)
{
	close_pages(temporary_file(), PROT_READ);
}

/* Shared memory, seen through a mapping that does not share what is written to it. */
static void memfd_private(void)
{
	int fd = (int)syscall(SYS_memfd_create, "memscan-test", 0);
	void **page = map_file(dup(fd), MAP_SHARED);

	page[600] = new_live(100);
	munmap(page, 2 * PAGE);
	page = map_file(fd, MAP_PRIVATE);
	(void)((volatile char *)page)[600 * sizeof(*page)];
	held[1] = page;
}

/* A block whose pages cannot all be read holds what the others hold. */
static void guarded_page(void)
{
	char *block = new_live(100 * PAGE);
	char *page = (char *)(((uintptr_t)block + 10 * PAGE) & ~(uintptr_t)(PAGE - 1));

	held[1] = block;
	*(void **)(page - 16) = new_live(100);
	*(void **)(page + PAGE) = new_live(101);
	*(void **)(page + 50 * PAGE) = new_live(102);
	/* MADV_GUARD_INSTALL, Linux 6.13: neither we nor a tracer can read it */
	madvise(page, PAGE, 102);
}

/* Reserved, hardly touched: must cost neither time nor memory. */
static void sparse(void)
{
	char *area = need(mmap(NULL, (size_t)64 << 30, PROT_READ | PROT_WRITE,
	                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));

	held[1] = area;
	*(void **)(area + ((size_t)33 << 30)) = new_live(100);
	*(void **)(area + ((size_t)63 << 30)) = new_live(101);
}

/* ---- stacks that the program switches ---- */

static ucontext_t of_main, of_routine;

/* Eight terabytes of address space and half a gigabyte of huge pages: almost nothing is there. */
static void terabytes(void)
{
	const size_t terabyte = (size_t)1 << 40;
	const size_t huge = (size_t)512 << 20;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *closed = need(mmap(NULL, 4 * terabyte, PROT_NONE, flags, -1, 0));
	char *open = need(mmap(NULL, 4 * terabyte, PROT_READ | PROT_WRITE, flags, -1, 0));
	char *pages = need(mmap(NULL, huge, PROT_READ | PROT_WRITE, flags, -1, 0));

	(void)madvise(pages, huge, MADV_HUGEPAGE);
	*(void **)(open + 3 * terabyte + 64) = new_live(100);
	*(void **)(pages + huge / 2 + 64) = new_live(101);
	held[1] = open;
	held[2] = pages;
	held[3] = closed;
}

static void run_in_routine(void)
{
	void *volatile slot = new_live(100);

	memset(&of_routine, 0, sizeof(of_routine));
	ready();
	OPAQUE(slot);
}

NOINLINE static void enter_routine(void *stack, size_t bytes, void (*routine)(void))
{
	/* what malloc left behind on this stack, which nobody will clear later */
	forget();
	getcontext(&of_routine);
	of_routine.uc_stack.ss_sp = stack;
	of_routine.uc_stack.ss_size = bytes;
	of_routine.uc_link = NULL;
	makecontext(&of_routine, routine, 0);
	stack = NULL;
	OPAQUE(stack);
	swapcontext(&of_main, &of_routine);
}

/* Runs on a block that only its stack pointer points into. */
static void routine_on_block(void)
{
	mallopt(M_MMAP_THRESHOLD, 4 * STACK_BYTES);
	enter_routine(new_live(STACK_BYTES), STACK_BYTES, run_in_routine);
}

static void routine_on_mapped_block(void)
{
	enter_routine(new_live(STACK_BYTES), STACK_BYTES, run_in_routine);
}

static void routine_on_mapping(void)
{
	enter_routine(map_apart(STACK_BYTES), STACK_BYTES, run_in_routine);
}

/* Main's own stack waits: its pointer stands in of_main. */
NOINLINE static void hold_and_enter(void)
{
	void *volatile slot = new_live(100);

	enter_routine(map_apart(STACK_BYTES), STACK_BYTES, run_in_routine);
	OPAQUE(slot);
}

static void stack_of_main_waits(void)
{
	hold_and_enter();
}

/*
 * A routine whose control block stands below its stack in one block, and which knows a variable
 * of a caller of the frame that waits.
 */
struct control {
	void *volatile slot;
	char stack[STACK_BYTES];
};

static void *volatile *callers;

static void run_below_caller(void)
{
	void *volatile *volatile seen = callers;

	callers = NULL;
	ready();
	OPAQUE(seen);
}

/* Behind the block that the stack is in. */
NOINLINE static void lose_chain(void)
{
	void **chain = fresh(102);

	*chain = fresh(103);
	tell("leak-direct", chain);
	tell("leak-indirect", *chain);
}

NOINLINE static void hold_and_enter_controlled(struct control *control)
{
	void *volatile slot = fresh(100);

	tell("doubtful", slot);
	control->slot = fresh(101);
	tell("doubtful", control->slot);
	lose_chain();
	enter_routine(control->stack, STACK_BYTES, run_below_caller);
	OPAQUE(slot);
}

static void routine_with_control(void)
{
	void *volatile variable[2048];

	mallopt(M_MMAP_THRESHOLD, 4 * STACK_BYTES);
	callers = variable;
	hold_and_enter_controlled(new_live(sizeof(struct control)));
}

static void yield_holding(void)
{
	void *volatile slot = new_live(100);

	swapcontext(&of_routine, &of_main);
	OPAQUE(slot);
}

static void parked_on_block(void)
{
	enter_routine(new_live(STACK_BYTES), STACK_BYTES, yield_holding);
}

static void parked_on_mapping(void)
{
	enter_routine(map_apart(STACK_BYTES), STACK_BYTES, yield_holding);
}

static void handle_on_other_stack(int number)
{
	void *volatile slot = new_live(102);

	(void)number;
	ready();
	OPAQUE(slot);
}

NOINLINE static void register_signal_stack(void *memory)
{
	stack_t stack = { .ss_sp = memory, .ss_size = STACK_BYTES };

	if (sigaltstack(&stack, NULL) != 0)
		_exit(97);
}

NOINLINE static void set_signal_stack(void *memory)
{
	struct sigaction action = { .sa_handler = handle_on_other_stack, .sa_flags = SA_ONSTACK };

	register_signal_stack(memory);
	if (sigaction(SIGUSR1, &action, NULL) != 0)
		_exit(97);
}

NOINLINE static void be_interrupted(void)
{
	void *volatile slot = new_live(101);

	raise(SIGUSR1);
	OPAQUE(slot);
}

/* The interrupted frames' stack is alive, and so is the handler's. */
static void signal_stack_on_mapping(void)
{
	set_signal_stack(map_apart(STACK_BYTES));
	be_interrupted();
}

static void signal_stack_on_block(void)
{
	set_signal_stack(new_live(STACK_BYTES));
	be_interrupted();
}

enum { STACKED_THREADS = 3 };

/* Only the kernel knows where it is, and what lies on it is in use. */
NOINLINE static void set_unseen_stack(void)
{
	void **stack = new_live(STACK_BYTES);

	stack[0] = new_live(103);
	set_signal_stack(stack);
	stack = NULL;
	OPAQUE(stack);
}

static void *sleep_with_stack(void *barrier)
{
	set_unseen_stack();
	forget();
	pthread_barrier_wait(barrier);
	for (;;)
		pause();
}

/* In use, in threads that sleep and in one that does not. */
static void signal_stacks_of_threads(void)
{
	static pthread_barrier_t barrier;
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, STACKED_THREADS + 1);
	for (int i = 0; i < STACKED_THREADS; i++)
		pthread_create(&thread, NULL, sleep_with_stack, &barrier);
	pthread_barrier_wait(&barrier);
	set_unseen_stack();
}

NOINLINE static void register_unseen_stack(void)
{
	void **stack = new_live(STACK_BYTES);

	stack[0] = new_live(104);
	register_signal_stack(stack);
	stack = NULL;
	OPAQUE(stack);
}

static void *sleep_with_registered_stack(void *barrier)
{
	register_unseen_stack();
	forget();
	pthread_barrier_wait(barrier);
	for (;;)
		pause();
}

/* The handler is to follow: until then nobody uses the stacks. */
static void signal_stacks_before_handlers(void)
{
	enum { REGISTERED_THREADS = 8 };
	static pthread_barrier_t barrier;
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, REGISTERED_THREADS + 1);
	for (int i = 0; i < REGISTERED_THREADS; i++)
		pthread_create(&thread, NULL, sleep_with_registered_stack, &barrier);
	pthread_barrier_wait(&barrier);
	register_unseen_stack();
}

NOINLINE static void lose_signal_stack(void)
{
	void *stack = fresh(STACK_BYTES);

	tell("leak", stack);
	set_signal_stack(stack);
	stack = NULL;
	OPAQUE(stack);
}

static void *end_with_stack(void *unused)
{
	lose_signal_stack();
	forget();
	return unused;
}

/* A thread that ends has no signal stack any more, nor has one that gives it up. */
static void signal_stacks_given_up(void)
{
	const stack_t none = { .ss_flags = SS_DISABLE };
	pthread_t thread;

	pthread_create(&thread, NULL, end_with_stack, NULL);
	pthread_join(thread, NULL);
	lose_signal_stack();
	sigaltstack(&none, NULL);
}

/* ---- what only the kernel holds ---- */

static void epoll_data(void)
{
	int epoll = epoll_create1(0);

	for (int i = 0; i < 20; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = new_live(100) };

		if (epoll_ctl(epoll, EPOLL_CTL_ADD, eventfd(0, 0), &event) != 0)
			_exit(97);
	}
}

static void timer_values(void)
{
	/* through glibc 2.33 a timer_t is a block: kept, so that it is no leak */
	static timer_t ids[5];

	for (int i = 0; i < 5; i++) {
		struct sigevent event = { .sigev_notify = i % 2 ? SIGEV_NONE : SIGEV_SIGNAL,
			                  .sigev_signo = SIGUSR1 };
		struct itimerspec later = { .it_value.tv_sec = 1000 };

		event.sigev_value.sival_ptr = new_live(100);
		if (timer_create(CLOCK_MONOTONIC, &event, &ids[i]) != 0 ||
		    timer_settime(ids[i], 0, &later, NULL) != 0)
			_exit(97);
	}
}

/* Above the threshold for mmap that any tunable here sets. */
enum { MAPPED_BYTES = 1 << 20 };

/* A block with a mapping of its own, kept alive. */
static void *keep_mapped(void)
{
	held[0] = new_live(MAPPED_BYTES);
	return held[0];
}

/*
 * What malloc writes at the begin of a mapping of @bytes, at @p. It leaves out as many of them
 * as it has done for what is held: from 2.43 on 16, and before 8 where words are short. There the
 * header stands 8 bytes behind the begin, lest a block begin at no multiple of 16.
 */
static void write_header(void *p, size_t bytes)
{
	const size_t front = sizeof(size_t) == 4 ? 8 : 0;
	size_t *words = (size_t *)((char *)p + front);
	const size_t *block = held[0];

	words[0] = front;
	words[1] = (bytes - (-(block[-1] - 2) & 0xff8)) | 2;
}

/* A mapping of the program's own that looks like one of malloc's; it holds a block. */
static void **map_alike(size_t bytes)
{
	void **p = map_apart(bytes);

	write_header(p, bytes);
	p[500] = new_live(100);
	return p;
}

/* Two more of malloc's, one of them lost. */
static void make_mapped(void)
{
	held[5] = new_live(MAPPED_BYTES + 5 * PAGE);
	leak(MAPPED_BYTES + 300000);
}

static void look_alikes(void)
{
	char *p;

	keep_mapped();
	held[1] = map_alike(5 * PAGE);
	held[2] = map_alike(700 * PAGE);
	p = (char *)map_alike(9 * PAGE);
	write_header(p, 900 * PAGE); /* far over what is mapped */
	held[3] = p;
	p = (char *)map_alike(300 * PAGE);
	if (mprotect(p + PAGE, 100 * PAGE, PROT_NONE) != 0 ||
	    mprotect(p + 150 * PAGE, 50 * PAGE, PROT_READ) != 0)
		_exit(97);
	held[4] = p;
	make_mapped();
}

/* Neither shared memory nor a file is malloc's, so that these are no twins. */
static void look_alikes_shared(void)
{
	size_t bytes = MAPPED_BYTES + PAGE;
	int fd = (int)syscall(SYS_memfd_create, "memscan-test", 0);

	keep_mapped();
	for (int i = 0; i < 2; i++) {
		if (i && (fd < 0 || ftruncate(fd, (off_t)bytes) != 0))
			_exit(97);
		held[1 + i] =
			need(mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		                  i ? MAP_PRIVATE : MAP_SHARED | MAP_ANONYMOUS, i ? fd : -1, 0));
		write_header(held[1 + i], bytes);
		((void **)held[1 + i])[500] = new_live(100);
	}
	leak(MAPPED_BYTES);
}

/*
 * Directly below and above one of malloc's, which the kernel may join them with; what is
 * above ends in pages that are closed.
 */
static void look_alikes_beside(void)
{
	char *block = keep_mapped();
	char *base = (char *)((uintptr_t)block / PAGE * PAGE);
	size_t bytes = (((size_t *)block)[-1] + PAGE - 8) / PAGE * PAGE;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	void **below = mmap(base - 7 * PAGE, 7 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	char *above = mmap(base + bytes, 9 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (below != MAP_FAILED) {
		write_header(below, 7 * PAGE);
		below[500] = new_live(100);
		held[1] = below;
	}
	if (above != MAP_FAILED) {
		write_header(above, 9 * PAGE);
		if (mprotect(above + PAGE, 8 * PAGE, PROT_NONE) != 0)
			_exit(97);
		held[2] = above;
	}
	make_mapped();
}

/* Nobody can tell which is malloc's: what both hold is alive, and neither is told. */
static void look_alike_twins(void)
{
	void **block = fresh(2 * MAPPED_BYTES);
	void **alike = map_apart(2 * MAPPED_BYTES + PAGE);

	keep_mapped();
	write_header(alike, 2 * MAPPED_BYTES + PAGE);
	block[500] = new_live(100);
	alike[500] = new_live(120);
	tell("live", block);
	OPAQUE(block);
	OPAQUE(alike);
	leak(3 * MAPPED_BYTES);
}

static void queued_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 3; i++) {
		union sigval value = { .sival_ptr = new_live(100) };

		if (sigqueue(getpid(), SIGRTMIN + 3, value) != 0)
			_exit(97);
	}
}

static const struct scenario scenarios[] = {
	{ "anonymous", anonymous, 0 },
	{ "anonymous_chain", anonymous_chain, 0 },
	{ "anonymous_lost", anonymous_lost, 0 },
	{ "anonymous_cycle_lost", anonymous_cycle_lost, 0 },
	{ "shared_anonymous", shared_anonymous, 0 },
	{ "memfd", memfd, 0 },
	{ "memfd_read_only", memfd_read_only, 0 },
	{ "memfd_closed", memfd_closed, 0 },
	{ "memfd_private", memfd_private, 0 },
	{ "posix_shm", posix_shm, 0 },
	{ "sysv_shm", sysv_shm, 0 },
	{ "file_shared", file_shared, 0 },
	{ "file_private", file_private, 0 },
	{ "file_read_only", file_read_only, 0 },
	{ "guarded_page", guarded_page, 0 },
	{ "sparse", sparse, 0 },
	{ "terabytes", terabytes, 0 },
	{ "routine_on_block", routine_on_block, 0 },
	{ "routine_on_mapped_block", routine_on_mapped_block, 0 },
	{ "routine_on_mapping", routine_on_mapping, 0 },
	{ "routine_with_control", routine_with_control, 0 },
	{ "stack_of_main_waits", stack_of_main_waits, 0 },
	{ "parked_on_block", parked_on_block, 0 },
	{ "parked_on_mapping", parked_on_mapping, 0 },
	{ "signal_stack_on_mapping", signal_stack_on_mapping, 0 },
	{ "signal_stack_on_block", signal_stack_on_block, 0 },
	{ "signal_stacks_of_threads", signal_stacks_of_threads, 0 },
	{ "signal_stacks_before_handlers", signal_stacks_before_handlers, 0 },
	{ "signal_stacks_given_up", signal_stacks_given_up, 0 },
	{ "epoll_data", epoll_data, 0 },
	{ "timer_values", timer_values, 0 },
	{ "queued_signals", queued_signals, 0 },
	{ "look_alikes", look_alikes, 0 },
	{ "look_alikes_shared", look_alikes_shared, 0 },
	{ "look_alikes_beside", look_alikes_beside, 0 },
	{ "look_alike_twins", look_alike_twins, 0 },
};

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "anonymous";

	if (strcmp(name, "list") != 0)
		leak(60);
	/* for those scenarios that leave this stack and never come back */
	forget();
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), name);
}
