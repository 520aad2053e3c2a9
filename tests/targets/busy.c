/* SPDX-License-Identifier: Apache-2.0 */
/*
 * busy BEAT_MS LIVE: threads that compute, allocate, sleep, start threads and
 * processes, and serve connections, each checking itself all the time.
 * busy BEAT_MS LIVE quiet [THREADS]: only sleeps, in poll() and nanosleep().
 *
 * For tests that kill memscan in the middle of a scan: whatever that leaves
 * behind, a register, a byte, a child or a signal of somebody else's, shows here
 * as a line "WRONG what" and status 3. LIVE blocks are kept in a list, so that a
 * scan takes its time.
 *
 * Prints "READY NAME": connections are made to the abstract Unix socket NAME; each
 * gets the byte back that it sends, and the end. Then "beat N WORKER COUNT… eintr E
 * strange S" every BEAT_MS, until standard input ends.
 *
 *	eintr     epoll_wait() returned it. The kernel never restarts that call, and
 *	          a memscan that dies with the process stopped cannot set it back
 *	strange   a child was there that we did not make. It must be gone soon
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MALLOC, COMPUTE, SLEEP, PROCESS, SERVE, N_WORKERS };
enum { TABLE = 256, SPINS = 200000, SHORT_MS = 3, CHILD_STATUS = 7, MAX_QUIET = 16 };

static const char *const names[N_WORKERS] = { "malloc", "compute", "sleep", "process", "serve" };
static atomic_ulong counts[N_WORKERS];
static atomic_ulong eintr, strange;
static volatile sig_atomic_t alarms;
static __thread volatile uint64_t canary = 0x5ca1ab1e0ddba11;

static int beat_pipe[2]; /* numbers of beats, for the sleeper to read */
static int listener;

static _Noreturn void wrong(const char *what, long value)
{
	char line[160];
	int n = snprintf(line, sizeof(line), "WRONG %s: %ld (errno %d)\n", what, value, errno);

	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		_exit(4);
	_exit(3);
}

static void expect(int right, const char *what, long value)
{
	if (!right)
		wrong(what, value);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

/* ---- registers that hold for a while ---- */

#if defined(__x86_64__)
/*
 * Every general register, and the 128 bytes below the stack pointer that a
 * function may use without moving it, hold numbers made of @seed while @spins are
 * counted down. 0 when all of them still do.
 */
uint64_t hold_general(uint64_t seed, uint64_t spins);
__asm__(".text\n"
        "hold_general:\n"
        ".irp r,rbx,rbp,r12,r13,r14,r15\n\tpush %\\r\n\t.endr\n"
        "	mov $1, %rcx\n"
        ".irp r,rax,rbx,rdx,rbp,r8,r9,r10,r11,r12,r13,r14,r15\n"
        "	lea (%rdi,%rcx), %\\r\n\tinc %rcx\n\t.endr\n"
        ".irp n,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128\n"
        "	lea \\n(%rdi), %rcx\n\tmov %rcx, -\\n(%rsp)\n\t.endr\n"
        "1:	dec %rsi\n\tjnz 1b\n"
        "	mov $1, %rcx\n"
        ".irp r,rax,rbx,rdx,rbp,r8,r9,r10,r11,r12,r13,r14,r15\n"
        "	sub %rdi, %\\r\n\tsub %rcx, %\\r\n\tinc %rcx\n\tor %\\r, %rax\n\t.endr\n"
        ".irp n,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128\n"
        "	lea \\n(%rdi), %rcx\n\tsub -\\n(%rsp), %rcx\n\tor %rcx, %rax\n\t.endr\n"
        ".irp r,r15,r14,r13,r12,rbp,rbx\n\tpop %\\r\n\t.endr\n"
        "	ret\n");

/* The same of vector registers: from @in, 16 of them, to @out; and of the control word. */
void hold_vectors(const void *in, void *out, uint64_t spins, uint32_t *control);
__asm__("hold_vectors:\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "	vmovdqu 32*\\n(%rdi), %ymm\\n\n\t.endr\n"
        "	ldmxcsr (%rcx)\n"
        "1:	dec %rdx\n\tjnz 1b\n"
        "	stmxcsr (%rcx)\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "	vmovdqu %ymm\\n, 32*\\n(%rsi)\n\t.endr\n"
        "	vzeroupper\n\tret\n");

void hold_sse(const void *in, void *out, uint64_t spins, uint32_t *control);
__asm__("hold_sse:\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "	movdqu 32*\\n(%rdi), %xmm\\n\n\t.endr\n"
        "	ldmxcsr (%rcx)\n"
        "1:	dec %rdx\n\tjnz 1b\n"
        "	stmxcsr (%rcx)\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "	movdqu %xmm\\n, 32*\\n(%rsi)\n\t.endr\n"
        "	ret\n");

/* And of the eight x87 registers, from the last of @in to the first. */
void hold_x87(const double *in, double *out, uint64_t spins);
__asm__("hold_x87:\n"
        ".irp n,0,1,2,3,4,5,6,7\n\tfldl 8*\\n(%rdi)\n\t.endr\n"
        "1:	dec %rdx\n\tjnz 1b\n"
        ".irp n,7,6,5,4,3,2,1,0\n\tfstpl 8*\\n(%rsi)\n\t.endr\n"
        "	ret\n");

static void check_vectors(uint64_t seed)
{
	enum { ROUND_TO_ZERO = 0x7f80, USUAL = 0x1f80 };
	uint64_t in[64], out[64];
	uint32_t control = ROUND_TO_ZERO, usual = USUAL;
	int avx = __builtin_cpu_supports("avx");

	for (size_t i = 0; i < 64; i++)
		out[i] = in[i] = seed * (2 * i + 1);
	(avx ? hold_vectors : hold_sse)(in, out, SPINS, &control);
	__asm__ volatile("ldmxcsr %0" : : "m"(usual));
	expect(!memcmp(in, out, sizeof(in)), "vector registers", avx);
	/* the lowest bits say what went wrong with numbers, and nothing did */
	expect(control == ROUND_TO_ZERO, "MXCSR", (long)control);
}

static void check_registers(uint64_t seed)
{
	double in[8], out[8] = { 0 };

	expect(hold_general(seed, SPINS) == 0, "general registers or red zone", 0);
	check_vectors(seed);
	for (int i = 0; i < 8; i++)
		in[i] = 1.0 / (double)(seed % 1000 + (uint64_t)i + 3);
	hold_x87(in, out, SPINS);
	expect(!memcmp(in, out, sizeof(in)), "x87 registers", 0);
}
#else
static void check_registers(uint64_t seed)
{
	volatile uint64_t sum = 0;

	for (uint64_t i = 1; i <= SPINS; i++)
		sum += i * seed;
	expect(sum == seed * (SPINS * (uint64_t)(SPINS + 1) / 2), "a sum", 0);
}
#endif

static void on_alarm(int number)
{
	(void)number;
	alarms++;
}

/* The one thread that gets signals: they fall between any two instructions of it. */
static void *compute(void *arg)
{
	stack_t stack = { .ss_sp = arg, .ss_size = 1 << 16 };
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigaltstack(&stack, NULL);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	for (uint64_t seed = 0x9e3779b97f4a7c15;; seed = seed * 6364136223846793005 + 1) {
		check_registers(seed);
		expect(canary == 0x5ca1ab1e0ddba11, "thread-local storage", (long)canary);
		counts[COMPUTE]++;
	}
	return NULL;
}

/* ---- malloc ---- */

struct slot {
	unsigned char *bytes;
	size_t size;
	unsigned char pattern;
};

static void check_slot(const struct slot *slot)
{
	for (size_t i = 0; i < slot->size; i++)
		expect(slot->bytes[i] == slot->pattern, "a byte of the heap", slot->bytes[i]);
}

static void *allocate(void *arg)
{
	static struct slot slots[TABLE];
	uint64_t random = 88172645463325252;

	(void)arg;
	for (;;) {
		struct slot *slot;

		random = random * 6364136223846793005 + 1442695040888963407;
		slot = &slots[random >> 56];
		check_slot(slot);
		if (random >> 55 & 1) {
			free(slot->bytes);
			slot->bytes = NULL;
		}
		slot->size = 1 + (random >> 40) % (random >> 30 & 15 ? 400 : 200000);
		slot->bytes = realloc(slot->bytes, slot->size);
		expect(slot->bytes != NULL, "realloc", 0);
		slot->pattern = (unsigned char)(random >> 33);
		memset(slot->bytes, slot->pattern, slot->size);
		counts[MALLOC]++;
	}
	return NULL;
}

/* ---- calls that sleep ---- */

/* What sleeps for @ms must not be back before; the clocks agree to a tick. */
static void check_slept(uint64_t since, unsigned ms, const char *what)
{
	uint64_t slept = now_ns() - since;

	expect(slept + 100000 >= (uint64_t)ms * 1000000, what, (long)slept);
}

static void sleep_in_poll(void)
{
	uint64_t since = now_ns();
	int n = poll(NULL, 0, SHORT_MS);

	expect(n == 0, "poll", n);
	check_slept(since, SHORT_MS, "poll was back early");
}

static void sleep_in_nanosleep(void)
{
	struct timespec ts = { 0, SHORT_MS * 1000000 };
	uint64_t since = now_ns();
	int n = nanosleep(&ts, NULL);

	expect(n == 0, "nanosleep", n);
	check_slept(since, SHORT_MS, "nanosleep was back early");
}

static void sleep_in_futex(void)
{
	struct timespec ts = { 0, SHORT_MS * 1000000 };
	uint32_t word = 0;
	uint64_t since = now_ns();
	long n = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0);

	expect(n == -1 && errno == ETIMEDOUT, "futex", n);
	check_slept(since, SHORT_MS, "futex was back early");
}

static void sleep_in_epoll(int epoll)
{
	struct epoll_event event;
	uint64_t since = now_ns();
	int n = epoll_wait(epoll, &event, 1, SHORT_MS);

	if (n == -1 && errno == EINTR) {
		eintr++;
		return;
	}
	expect(n == 0, "epoll_wait", n);
	check_slept(since, SHORT_MS, "epoll_wait was back early");
}

static void *go_to_sleep(void *arg)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint64_t number, last = 0;

	(void)arg;
	for (;;) {
		sleep_in_poll();
		sleep_in_nanosleep();
		sleep_in_futex();
		sleep_in_epoll(epoll);
		expect(read(beat_pipe[0], &number, sizeof(number)) == sizeof(number), "read", 0);
		expect(number == last + 1, "a number from the pipe", (long)number);
		last = number;
		counts[SLEEP]++;
	}
	return NULL;
}

/* ---- threads and processes ---- */

static void *answer(void *arg)
{
	char *text = malloc(100);

	expect(text != NULL, "malloc in a new thread", 0);
	memset(text, 'x', 100);
	free(text);
	return (char *)arg + 1;
}

static void check_thread(void)
{
	pthread_t thread;
	char byte[2];
	void *result = NULL;

	expect(!pthread_create(&thread, NULL, answer, byte), "pthread_create", 0);
	expect(!pthread_join(thread, &result), "pthread_join", 0);
	expect(result == byte + 1, "what a thread returned", 0);
}

/* SIGCHLD is blocked everywhere: one that is pending when we have no child is not ours. */
static void check_no_child(void)
{
	siginfo_t info = { 0 };
	sigset_t set;

	sigpending(&set);
	expect(!sigismember(&set, SIGCHLD), "a SIGCHLD without a child", 0);
	expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "a child that nobody made", 0);
	if (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL))
		strange++;
}

static void check_process(void)
{
	static const struct timespec at_once;
	sigset_t set;
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(CHILD_STATUS);
	expect(pid > 0, "fork", pid);
	expect(waitpid(pid, &status, 0) == pid, "waitpid", pid);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == CHILD_STATUS, "a child's status",
	       status);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	expect(sigtimedwait(&set, NULL, &at_once) == SIGCHLD, "no SIGCHLD of our child", 0);
}

static void *start_others(void *arg)
{
	(void)arg;
	for (;;) {
		check_process();
		sleep_in_poll();
		check_thread();
		check_no_child();
		counts[PROCESS]++;
	}
	return NULL;
}

/* ---- connections ---- */

static void *serve(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		char byte;

		expect(fd >= 0, "accept", fd);
		/* the peer may be gone, that is no mistake of ours */
		if (recv(fd, &byte, 1, 0) == 1)
			(void)send(fd, &byte, 1, MSG_NOSIGNAL);
		expect(!close(fd), "close", fd);
		counts[SERVE]++;
	}
	return NULL;
}

static void start_listening(char *name, size_t size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int n = snprintf(name, size, "memscan-busy-%d", getpid());

	/* abstract: the name begins with a zero byte */
	memcpy(address.sun_path + 1, name, (size_t)n);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	expect(!bind(listener, (struct sockaddr *)&address,
	             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
	       "bind", 0);
	expect(!listen(listener, 64), "listen", 0);
}

/* ---- the process ---- */

static void keep_live(unsigned long n)
{
	static void *kept;

	while (n--) {
		void **block = malloc(48);

		expect(block != NULL, "malloc", 0);
		block[0] = kept;
		kept = block;
	}
}

static void start_workers(void)
{
	static void *(*const bodies[N_WORKERS])(void *) = { allocate, compute, go_to_sleep,
		                                            start_others, serve };
	struct itimerval often = { { 0, 7000 }, { 0, 7000 } };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK };
	pthread_t thread;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaddset(&set, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < N_WORKERS; i++)
		expect(!pthread_create(&thread, NULL, bodies[i], malloc(1 << 16)), "pthread_create",
		       i);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void beat(uint64_t number)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "beat %llu", (unsigned long long)number);

	for (int i = 0; i < N_WORKERS; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " %s %lu", names[i], counts[i]);
	n += snprintf(line + n, sizeof(line) - (size_t)n, " alarms %d eintr %lu strange %lu\n",
	              (int)alarms, eintr, strange);
	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		_exit(4);
}

/* Whether input has ended, after @ms at the earliest. */
static int has_ended(unsigned ms)
{
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
	uint64_t since = now_ns();
	int n = poll(&in, 1, (int)ms);

	expect(n >= 0, "poll of the input", n);
	if (!n)
		check_slept(since, ms, "poll of the input was back early");
	return n;
}

static void *stay_quiet(void *arg)
{
	for (;;) {
		sleep_in_poll();
		sleep_in_nanosleep();
		counts[SLEEP]++;
		if (arg)
			return NULL;
	}
}

int main(int argc, char **argv)
{
	int quiet = argc > 3 && !strcmp(argv[3], "quiet");
	unsigned beat_ms = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
	char name[64] = "-";
	pthread_t thread;

	if (argc > 2)
		keep_live(strtoul(argv[2], NULL, 10));
	for (int i = 1; quiet && argc > 4 && i < atoi(argv[4]) && i < MAX_QUIET; i++)
		expect(!pthread_create(&thread, NULL, stay_quiet, NULL), "pthread_create", i);
	expect(!pipe(beat_pipe), "pipe", 0);
	if (!quiet) {
		start_listening(name, sizeof(name));
		start_workers();
	}
	printf("READY %s\n", name);
	fflush(stdout);
	for (uint64_t number = 1; !has_ended(beat_ms); number++) {
		if (quiet)
			stay_quiet(&thread);
		else
			expect(write(beat_pipe[1], &number, sizeof(number)) == sizeof(number),
			       "write", 0);
		beat(number);
	}
	_exit(0);
}
