/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocked: one thread asleep in each of the system calls that programs sleep in.
 * None of them is ever to wake: a call that returns was interrupted by whoever
 * looked at the process.
 *
 * Prints "READY" when all sleep, and on a line "stop" either "eintr 0", or "eintr N"
 * and the names of the calls that returned; status 0 or 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LONG_S = 3600 };

static const struct timespec an_hour = { LONG_S, 0 };
static const struct timeval an_hour_tv = { LONG_S, 0 };
static int semaphores;
static int queue;

static long call_nanosleep(void)
{
	return nanosleep(&an_hour, NULL);
}

static long call_clock_nanosleep(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LONG_S;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static long call_futex(void)
{
	static uint32_t word;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static long call_futex_timed(void)
{
	static uint32_t word;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &an_hour, NULL, 0);
}

static long call_read_pipe(void)
{
	int fds[2];
	char byte;

	return pipe(fds) ? -1 : read(fds[0], &byte, 1);
}

static long call_poll(void)
{
	return poll(NULL, 0, LONG_S * 1000);
}

static long call_select(void)
{
	struct timeval timeout = an_hour_tv;

	return select(0, NULL, NULL, NULL, &timeout);
}

static int listening(const struct timeval *timeout)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (timeout)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, timeout, sizeof(*timeout));
	bind(fd, (struct sockaddr *)&address, sizeof(address));
	listen(fd, 1);
	return fd;
}

static long call_accept(void)
{
	return accept(listening(NULL), NULL, NULL);
}

static long call_accept_timed(void)
{
	return accept(listening(&an_hour_tv), NULL, NULL);
}

static long call_epoll_wait(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(0), &event, 1, -1);
}

static long call_epoll_wait_timed(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(0), &event, 1, LONG_S * 1000);
}

static long call_epoll_pwait(void)
{
	struct epoll_event event;
	sigset_t none;

	sigemptyset(&none);
	return epoll_pwait(epoll_create1(0), &event, 1, -1, &none);
}

static long call_sigwaitinfo(void)
{
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	return sigwaitinfo(&set, &info);
}

static long call_sigtimedwait(void)
{
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	return sigtimedwait(&set, &info, &an_hour);
}

static long call_semop(void)
{
	struct sembuf take = { 0, -1, 0 };

	return semop(semaphores, &take, 1);
}

static long call_semtimedop(void)
{
	struct sembuf take = { 0, -1, 0 };

	return semtimedop(semaphores, &take, 1, &an_hour);
}

static long call_msgrcv(void)
{
	struct {
		long type;
		char text[8];
	} message;

	return msgrcv(queue, &message, sizeof(message.text), 0, 0);
}

static long call_inotify_read(void)
{
	struct inotify_event event;
	int fd = inotify_init();

	inotify_add_watch(fd, "/", IN_DELETE_SELF);
	return read(fd, &event, sizeof(event));
}

static long call_pause(void)
{
	return pause();
}

static long call_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	return sigsuspend(&none);
}

static int timed_socket(void)
{
	int fds[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &an_hour_tv, sizeof(an_hour_tv));
	return fds[0];
}

static long call_recv_timed(void)
{
	char byte;

	return recv(timed_socket(), &byte, 1, 0);
}

static long call_read_socket_timed(void)
{
	char byte;

	return read(timed_socket(), &byte, 1);
}

static const struct {
	const char *name;
	long (*call)(void);
} calls[] = {
	{ "nanosleep", call_nanosleep },
	{ "clock_nanosleep", call_clock_nanosleep },
	{ "futex", call_futex },
	{ "futex with a time-out", call_futex_timed },
	{ "read of a pipe", call_read_pipe },
	{ "poll", call_poll },
	{ "select", call_select },
	{ "accept", call_accept },
	{ "accept with a time-out", call_accept_timed },
	{ "epoll_wait", call_epoll_wait },
	{ "epoll_wait with a time-out", call_epoll_wait_timed },
	{ "epoll_pwait", call_epoll_pwait },
	{ "sigwaitinfo", call_sigwaitinfo },
	{ "sigtimedwait", call_sigtimedwait },
	{ "semop", call_semop },
	{ "semtimedop", call_semtimedop },
	{ "msgrcv", call_msgrcv },
	{ "read of inotify", call_inotify_read },
	{ "pause", call_pause },
	{ "sigsuspend", call_sigsuspend },
	{ "recv with a time-out", call_recv_timed },
	{ "read of a socket with a time-out", call_read_socket_timed },
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static struct {
	_Atomic pid_t tid;
	atomic_int returned;
	atomic_int last_errno;
} sleepers[CALLS];

static void *sleeper(void *arg)
{
	size_t i = (uintptr_t)arg;

	atomic_store(&sleepers[i].tid, (pid_t)syscall(SYS_gettid));
	/* One that returns at once for ever shows as well as one that returns once. */
	while (atomic_load(&sleepers[i].returned) < 1000000) {
		calls[i].call();
		atomic_store(&sleepers[i].last_errno, errno);
		atomic_fetch_add(&sleepers[i].returned, 1);
	}
	return NULL;
}

static int is_asleep(pid_t tid)
{
	char path[64];
	char text[256];
	const char *state;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	state = strrchr(text, ')');
	return state && state[2] == 'S';
}

static void clean_up(void)
{
	semctl(semaphores, 0, IPC_RMID);
	msgctl(queue, IPC_RMID, NULL);
}

static int tell(void)
{
	int bad = 0;

	for (size_t i = 0; i < CALLS; i++)
		bad += atomic_load(&sleepers[i].returned) > 0;
	printf("eintr %d\n", bad);
	for (size_t i = 0; i < CALLS; i++)
		if (atomic_load(&sleepers[i].returned))
			printf("%s returned %d times (%s)\n", calls[i].name,
			       atomic_load(&sleepers[i].returned),
			       strerrorname_np(atomic_load(&sleepers[i].last_errno)));
	return bad > 0;
}

int main(void)
{
	char line[16];
	sigset_t mine;
	int bad;

	/* Blocked in all threads, or sigwaitinfo() would not be the one to take them. */
	sigemptyset(&mine);
	sigaddset(&mine, SIGRTMIN);
	sigaddset(&mine, SIGRTMIN + 1);
	pthread_sigmask(SIG_BLOCK, &mine, NULL);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	queue = msgget(IPC_PRIVATE, 0600);
	for (size_t i = 0; i < CALLS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, sleeper, (void *)(uintptr_t)i))
			return 2;
	}
	for (size_t i = 0; i < CALLS; i++)
		while (!atomic_load(&sleepers[i].tid) || !is_asleep(atomic_load(&sleepers[i].tid)))
			usleep(1000);
	usleep(20000);
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "stop\n"))
		;
	bad = tell();
	clean_up();
	return bad;
}
