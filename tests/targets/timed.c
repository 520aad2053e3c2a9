/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timed: one thread asleep in each of the system calls that take a time-out, for
 * as many milliseconds as argv[1] says. Nothing wakes them but their time-out; those
 * whose names end with "again" were woken some times before, and measure from the last.
 *
 * Prints "READY" when all sleep, then for each "NAME TOOK RESULT", where TOOK is in
 * milliseconds by the monotonic clock and RESULT what the call said, and "done"; then
 * waits for the end of its input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/time_types.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Whoever would change a time-out in its place is found out at the end. */
static const struct timespec *asked;
static long asked_ms;
static int semaphores;

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441 /* Linux 5.11 */
#endif

enum { WAKES = 10 };

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* When the call that is measured began; set again by those that make several. */
static _Thread_local long begun_ms;

static long call_poll(void)
{
	return poll(NULL, 0, (int)asked_ms);
}

static long call_select(void)
{
	struct timeval timeout = { asked->tv_sec, asked->tv_nsec / 1000 };

	return select(0, NULL, NULL, NULL, &timeout);
}

static long call_ppoll_raw(void)
{
	struct timespec timeout = *asked;

	return syscall(SYS_ppoll, NULL, 0, &timeout, NULL, 8);
}

static long call_nanosleep(void)
{
	return nanosleep(asked, NULL);
}

static long call_futex(void)
{
	static uint32_t word;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, asked, NULL, 0);
}

static long call_epoll_wait(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(0), &event, 1, (int)asked_ms);
}

static long call_epoll_pwait(void)
{
	struct epoll_event event;
	sigset_t none;

	sigemptyset(&none);
	return epoll_pwait(epoll_create1(0), &event, 1, (int)asked_ms, &none);
}

static long call_epoll_pwait2(void)
{
	struct epoll_event event;

	const struct {
		int64_t seconds, ns; /* as the kernel has it, whatever the C library does */
	} timeout = { asked->tv_sec, asked->tv_nsec };

	return syscall(SYS_epoll_pwait2, epoll_create1(0), &event, 1, &timeout, NULL, 0);
}

static long call_sigtimedwait(void)
{
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	return sigtimedwait(&set, &info, asked);
}

static long call_semtimedop(void)
{
	struct sembuf take = { 0, -1, 0 };

	return semtimedop(semaphores, &take, 1, asked);
}

static long call_mq_timedreceive(void)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	struct timespec until;
	char name[32];
	char text[8];
	mqd_t queue;

	snprintf(name, sizeof(name), "/timed.%d", (int)getpid());
	queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
	mq_unlink(name);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += asked->tv_sec;
	until.tv_nsec += asked->tv_nsec;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	return mq_timedreceive(queue, text, sizeof(text), NULL, &until);
}

static long call_io_getevents(void)
{
	aio_context_t context = 0;
	struct io_event event;
	struct timespec timeout = *asked;

	if (syscall(SYS_io_setup, 1, &context))
		return -1;
	return syscall(SYS_io_getevents, context, 1, 1, &event, &timeout);
}

static int with_timeout(int fd, int which)
{
	const struct timeval timeout = { asked->tv_sec, asked->tv_nsec / 1000 };

	setsockopt(fd, SOL_SOCKET, which, &timeout, sizeof(timeout));
	return fd;
}

static int connected(int which)
{
	int fds[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
	return with_timeout(fds[0], which);
}

static long call_accept(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = with_timeout(socket(AF_INET, SOCK_STREAM, 0), SO_RCVTIMEO);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	bind(fd, (struct sockaddr *)&address, sizeof(address));
	listen(fd, 1);
	return accept(fd, NULL, NULL);
}

static long call_recv(void)
{
	char byte;

	return recv(connected(SO_RCVTIMEO), &byte, 1, 0);
}

static long call_recv_udp(void)
{
	char byte;

	return recv(with_timeout(socket(AF_INET, SOCK_DGRAM, 0), SO_RCVTIMEO), &byte, 1, 0);
}

static long call_read_socket(void)
{
	char byte;

	return read(connected(SO_RCVTIMEO), &byte, 1);
}

static long call_send(void)
{
	int fd = connected(SO_SNDTIMEO);
	char bytes[4096] = { 0 };

	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	return send(fd, bytes, sizeof(bytes), 0);
}

/* Wake who waits at the other end some times, which begins its time-out anew. */
static void *feed(void *fd)
{
	for (int i = 0; i < WAKES; i++) {
		usleep(70000);
		if (write((int)(intptr_t)fd, "", 1) != 1)
			return NULL;
	}
	return NULL;
}

static int fed(void)
{
	pthread_t feeder;
	int fds[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
	if (pthread_create(&feeder, NULL, feed, (void *)(intptr_t)fds[1]))
		return -1;
	return with_timeout(fds[0], SO_RCVTIMEO);
}

static long call_recv_again(void)
{
	int fd = fed();
	char byte;

	for (int i = 0; i < WAKES; i++)
		if (recv(fd, &byte, 1, 0) != 1)
			return -1;
	begun_ms = now_ms();
	return recv(fd, &byte, 1, 0);
}

static long call_epoll_wait_again(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);
	int fd = fed();
	char byte;

	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	for (int i = 0; i < WAKES; i++)
		if (epoll_wait(epoll, &event, 1, (int)asked_ms) != 1 || read(fd, &byte, 1) != 1)
			return -1;
	begun_ms = now_ms();
	return epoll_wait(epoll, &event, 1, (int)asked_ms);
}

static long call_sigtimedwait_again(void)
{
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 2);
	for (int i = 0; i < WAKES; i++) {
		pthread_kill(pthread_self(), SIGRTMIN + 2);
		if (sigtimedwait(&set, &info, asked) < 0)
			return -1;
		usleep(50000);
	}
	begun_ms = now_ms();
	return sigtimedwait(&set, &info, asked);
}

static const struct {
	const char *name;
	long (*call)(void);
} calls[] = {
	{ "poll", call_poll },
	{ "select", call_select },
	{ "ppoll", call_ppoll_raw },
	{ "nanosleep", call_nanosleep },
	{ "futex", call_futex },
	{ "epoll_wait", call_epoll_wait },
	{ "epoll_pwait", call_epoll_pwait },
	{ "epoll_pwait2", call_epoll_pwait2 },
	{ "sigtimedwait", call_sigtimedwait },
	{ "semtimedop", call_semtimedop },
	{ "mq_timedreceive", call_mq_timedreceive },
	{ "io_getevents", call_io_getevents },
	{ "accept", call_accept },
	{ "recv", call_recv },
	{ "recv_udp", call_recv_udp },
	{ "read_socket", call_read_socket },
	{ "send", call_send },
	{ "recv_again", call_recv_again },
	{ "epoll_wait_again", call_epoll_wait_again },
	{ "sigtimedwait_again", call_sigtimedwait_again },
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static struct {
	pthread_t thread;
	atomic_int begun;
	long took_ms;
	long result;
	int error;
} sleepers[CALLS];

static void *sleeper(void *arg)
{
	size_t i = (uintptr_t)arg;

	begun_ms = now_ms();
	atomic_store(&sleepers[i].begun, 1);
	sleepers[i].result = calls[i].call();
	sleepers[i].error = errno;
	sleepers[i].took_ms = now_ms() - begun_ms;
	return NULL;
}

int main(int argc, char **argv)
{
	struct timespec mine;
	sigset_t blocked;

	if (argc != 2)
		return 2;
	asked_ms = atol(argv[1]);
	mine = (struct timespec){ asked_ms / 1000, asked_ms % 1000 * 1000000 };
	asked = &mine;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN + 1);
	sigaddset(&blocked, SIGRTMIN + 2);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	for (size_t i = 0; i < CALLS; i++)
		if (pthread_create(&sleepers[i].thread, NULL, sleeper, (void *)(uintptr_t)i))
			return 2;
	for (size_t i = 0; i < CALLS; i++)
		while (!atomic_load(&sleepers[i].begun))
			usleep(1000);
	printf("READY\n");
	fflush(stdout);
	for (size_t i = 0; i < CALLS; i++) {
		pthread_join(sleepers[i].thread, NULL);
		printf("%s %ld %s\n", calls[i].name, sleepers[i].took_ms,
		       sleepers[i].result >= 0 ? "0" : strerrorname_np(sleepers[i].error));
	}
	printf("changed %d\ndone\n", mine.tv_sec * 1000 + mine.tv_nsec / 1000000 != asked_ms);
	fflush(stdout);
	semctl(semaphores, 0, IPC_RMID);
	while (getchar() != EOF)
		;
	return 0;
}
