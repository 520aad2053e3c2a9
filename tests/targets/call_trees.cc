/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the backtraces of malloc_debug with those of the compiler's own unwinder, at
 * random places of random trees of calls.
 *
 *	call_trees SEED TREES [LIBRARY...]
 *
 * FRAMES in the environment says how many of the innermost the shim keeps: if not all.
 *
 * Four threads do so at once. On the way down are frames of several forms, callbacks from
 * the C library, signal handlers on either stack, coroutines, longjmp() and exceptions out
 * of the depth, and calls through LIBRARY..., one loaded after the other where the last one
 * was. "N compared, M at an address that had other code before": status 0; the first
 * difference is told with both stacks: status 1.
 */

#include <alloca.h>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

namespace
{

/* With a sample each 8192 bytes, a block so large is always one. */
enum { FRAMES = 200, BLOCK = 2 * 8192, DEEPEST = 60, THREADS = 4, COROUTINE_STACK = 256 << 10 };

size_t (*malloc_backtrace)(const void *pointer, uintptr_t *frames, size_t n);
unsigned long compared;
size_t frames = FRAMES; /* that the shim keeps */

struct walker {
	uint64_t random;
	unsigned long budget;
	int jumps;
	bool may_signal;
	bool may_leave;
	jmp_buf out;
};

thread_local walker *self;

struct leaving {
};

unsigned roll(walker &w, unsigned n)
{
	w.random ^= w.random << 13;
	w.random ^= w.random >> 7;
	w.random ^= w.random << 17;
	return (unsigned)(w.random >> 33) % n;
}

void tell(const char *who, uintptr_t *pc, size_t n, uintptr_t less)
{
	fprintf(stderr, "%s:\n", who);
	for (size_t i = 0; i < n; i++) {
		Dl_info info = {};
		dladdr((void *)(pc[i] - less), &info);
		fprintf(stderr, "  %#lx %s %s\n", (unsigned long)(pc[i] - less),
		        info.dli_fname ? info.dli_fname : "?",
		        info.dli_sname ? info.dli_sname : "?");
	}
}

/* The innermost frame is of this function in both, at two calls. */
__attribute__((noinline)) void compare()
{
	uintptr_t ours[FRAMES];
	void *theirs[FRAMES];
	char *volatile p = (char *)malloc(BLOCK);
	int m = backtrace(theirs, FRAMES);
	size_t n = malloc_backtrace(p, ours, FRAMES);
	bool same = n == ((size_t)m < frames ? (size_t)m : frames) && n > 1;

	for (size_t i = 1; same && i < n; i++)
		same = ours[i] == (uintptr_t)theirs[i] - 1;
	free(p);
	__atomic_add_fetch(&compared, 1, __ATOMIC_RELAXED);
	if (same)
		return;
	tell("malloc_debug", ours, n, 0);
	tell("the compiler's unwinder", (uintptr_t *)theirs, (size_t)m, 1);
	_exit(1);
}

void go_on(walker &w, int depth);

#define FORM __attribute__((noinline)) void

FORM plain(walker &w, int depth)
{
	go_on(w, depth + 1);
	asm volatile("");
}

FORM large(walker &w, int depth)
{
	volatile char space[5000];
	space[depth] = 1;
	go_on(w, depth + 1);
	space[depth + 1] = space[depth];
}

FORM grows(walker &w, int depth)
{
	volatile char *space = (char *)alloca(8 + roll(w, 900));
	space[0] = 1;
	go_on(w, depth + 1);
	space[1] = space[0];
}

FORM aligned(walker &w, int depth)
{
	alignas(64) volatile char space[128];
	asm volatile("" : : "r"(&space) : "memory");
	space[0] = 1;
	go_on(w, depth + 1);
	space[1] = space[0];
}

/* Uses every register that calls keep, the frame pointer's too. */
__attribute__((noinline, optimize("omit-frame-pointer"))) void keeps(walker &w, int depth)
{
	uint64_t a = w.random, b = a * 3, c = b ^ 5, d = c + 7, e = d * 11, f = e ^ 13;
	asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	go_on(w, depth + 1);
	asm volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
}

__attribute__((noinline, optimize("O0"))) void unoptimized(walker &w, int depth)
{
	volatile int here = depth;
	go_on(w, here + 1);
}

/* With arguments on the stack. */
__attribute__((noinline)) long many(walker &w, int depth, long a, long b, long c, long d, long e,
                                    long f)
{
	go_on(w, depth + 1);
	return a + b + c + d + e + f + depth;
}

FORM pushes(walker &w, int depth)
{
	volatile long sum = many(w, depth, 1, 2, 3, 4, 5, 6);
	sum = sum + 1;
}

int through_qsort_depth(const void *a, const void *)
{
	static thread_local int at;

	if (*(const int *)a > 0 && at == 0) {
		at = 1;
		go_on(*self, *(const int *)a + 1);
		at = 0;
	}
	return 0;
}

FORM sorts(walker &w, int depth)
{
	int pair[2] = { depth, depth };
	(void)w;
	qsort(pair, 2, sizeof(int), through_qsort_depth);
}

FORM throws_through(walker &w, int depth)
{
	try {
		go_on(w, depth + 1);
	} catch (const int &) {
		compare();
	}
	asm volatile("");
}

struct lasting {
	walker &w;
	~lasting()
	{
		compare();
	}
};

FORM unwinds(walker &w, int depth)
{
	lasting on_the_way = { w };
	go_on(w, depth + 1);
}

void on_signal(int)
{
	self->may_signal = false;
	compare();
	go_on(*self, DEEPEST / 2);
	self->may_signal = true;
}

FORM signalled(walker &w, int depth)
{
	if (w.may_signal)
		raise(roll(w, 2) ? SIGUSR1 : SIGUSR2);
	else
		go_on(w, depth + 1);
	asm volatile("");
}

struct coroutine {
	ucontext_t caller, own;
	int depth;
};

void coroutine_start(unsigned high, unsigned low)
{
	coroutine *c = (coroutine *)((uintptr_t)high << 32 | low);

	go_on(*self, c->depth);
	compare();
}

FORM switches(walker &w, int depth)
{
	static thread_local bool running;
	coroutine c;

	if (running)
		return;
	running = true;
	bool may_leave = w.may_leave;
	w.may_leave = false; /* there is nobody above to catch it */
	void *stack = malloc(COROUTINE_STACK);
	getcontext(&c.own);
	c.own.uc_stack.ss_sp = stack;
	c.own.uc_stack.ss_size = COROUTINE_STACK;
	c.own.uc_link = &c.caller;
	c.depth = depth > DEEPEST / 2 ? depth : DEEPEST / 2;
	makecontext(&c.own, (void (*)())coroutine_start, 2, (unsigned)((uintptr_t)&c >> 32),
	            (unsigned)(uintptr_t)&c);
	swapcontext(&c.caller, &c.own);
	w.may_leave = may_leave;
	free(stack);
	running = false;
}

void go_on(walker &w, int depth)
{
	static void (*const forms[])(walker &, int) = {
		plain,  large, grows,          aligned, keeps,     unoptimized,
		pushes, sorts, throws_through, unwinds, signalled, switches,
	};
	unsigned n = 1 + roll(w, 2);

	if (roll(w, 4) == 0)
		compare();
	if (w.may_leave && roll(w, 200) == 0)
		throw 1;
	if (w.may_leave && w.may_signal && w.jumps && roll(w, 400) == 0)
		longjmp(w.out, 1);
	for (unsigned i = 0; i < n && depth < DEEPEST && w.budget; i++) {
		w.budget--;
		forms[roll(w, sizeof(forms) / sizeof(*forms))](w, depth);
	}
	asm volatile("");
}

void grow_tree(walker &w)
{
	w.budget = 100;
	w.may_signal = true;
	w.jumps = 0;
	w.may_leave = true;
	try {
		go_on(w, 1);
	} catch (const int &) {
		compare();
	}
}

struct plan {
	pthread_t thread;
	uint64_t seed;
	unsigned long trees;
};

void *work(void *argument)
{
	plan *p = (plan *)argument;
	std::vector<char> space(SIGSTKSZ + (128 << 10));
	stack_t other = {};
	walker w = {};

	other.ss_sp = space.data();
	other.ss_size = space.size();
	sigaltstack(&other, nullptr);
	w.random = p->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	self = &w;
	for (unsigned long i = 0; i < p->trees; i++)
		grow_tree(w);
	other.ss_flags = SS_DISABLE;
	sigaltstack(&other, nullptr);
	return nullptr;
}

void jump_out(walker &w)
{
	w.jumps = 1;
	w.may_leave = true;
	w.may_signal = true;
	w.budget = 100;
	if (setjmp(w.out) == 0) {
		try {
			plain(w, 1);
		} catch (const int &) {
		}
	}
	compare();
}

/* In the handler of a signal, too, for which the shim has to ask a full unwinder. */
void call_back()
{
	compare();
	raise(SIGUSR1);
}

/* How often one was where another had been. */
unsigned load_in_turns(int n, char **names)
{
	uintptr_t last = 0;
	unsigned met = 0;

	for (int i = 0; n && i < 40 * n; i++) {
		void *library = dlopen(names[i % n], RTLD_NOW);
		auto run = library ? (int (*)(void (*)()))dlsym(library, "run") : nullptr;

		if (!run) {
			fprintf(stderr, "%s\n", dlerror());
			_exit(2);
		}
		met += (uintptr_t)run == last;
		last = (uintptr_t)run;
		run(call_back);
		dlclose(library);
	}
	return met;
}

} // namespace

int main(int argc, char **argv)
{
	struct sigaction action = {};
	plan plans[THREADS] = {};
	walker w = {};
	void *unused[1];

	if (argc < 3)
		return 2;
	malloc_backtrace = (size_t(*)(const void *, uintptr_t *, size_t))dlsym(RTLD_DEFAULT,
	                                                                       "malloc_backtrace");
	if (!malloc_backtrace)
		return 2;
	if (getenv("FRAMES"))
		frames = strtoul(getenv("FRAMES"), nullptr, 10);
	(void)backtrace(unused, 1); /* it loads a library at its first call */
	action.sa_handler = on_signal;
	sigaction(SIGUSR1, &action, nullptr);
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &action, nullptr);
	for (int i = 0; i < THREADS; i++) {
		plans[i].seed = strtoul(argv[1], nullptr, 10) * THREADS + i + 1;
		plans[i].trees = strtoul(argv[2], nullptr, 10);
		pthread_create(&plans[i].thread, nullptr, work, &plans[i]);
	}
	self = &w;
	w.random = plans[0].seed;
	unsigned met = load_in_turns(argc - 3, argv + 3);
	for (plan &p : plans)
		pthread_join(p.thread, nullptr);
	for (int i = 0; i < 20; i++)
		jump_out(w);
	printf("%lu compared, %u at an address that had other code before\n", compared, met);
	return 0;
}
