/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filtered trace|notify|clone: calls itself under a filter of system calls. getppid() is left
 * to a tracer (SECCOMP_RET_TRACE: without one the kernel says ENOSYS), or answered by a thread
 * of the program (SECCOMP_RET_USER_NOTIF: 4711); the last leaves clone() and clone3() to a
 * tracer.
 *
 * Prints "READY"; with the end of its input "calls N wrong N".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ANSWER = 4711 };

static int listener = -1;

static void *answer(void *arg)
{
	for (;;) {
		struct seccomp_notif call;
		struct seccomp_notif_resp reply = { .val = ANSWER };

		memset(&call, 0, sizeof(call));
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
			continue;
		reply.id = call.id;
		(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
	}
	return arg;
}

static int filter(unsigned first, unsigned second, unsigned action, unsigned flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* What getppid() answers from now on; 0: no filter could be had. */
static long set_up(const char *how)
{
	pthread_t server;

	if (!strcmp(how, "clone"))
		return filter(SYS_clone, SYS_clone3, SECCOMP_RET_TRACE, 0) ? 0 : getppid();
	if (!strcmp(how, "trace"))
		return filter(SYS_getppid, SYS_getppid, SECCOMP_RET_TRACE, 0) ? 0 : -ENOSYS;
	/* the thread that answers asks nothing itself */
	listener = filter(SYS_getppid, SYS_getppid, SECCOMP_RET_USER_NOTIF,
	                  SECCOMP_FILTER_FLAG_NEW_LISTENER);
	return listener < 0 || pthread_create(&server, NULL, answer, NULL) ? 0 : ANSWER;
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	long expected = argc > 1 ? set_up(argv[1]) : 0;
	unsigned long calls = 0;
	unsigned long wrong = 0;

	(void)puts(expected ? "READY" : "SKIP");
	(void)fflush(stdout);
	for (; !poll(&input, 1, 0); calls++) {
		long got = syscall(SYS_getppid);

		wrong += (got < 0 ? -errno : got) != expected;
	}
	(void)printf("calls %lu wrong %lu\n", calls, wrong);
	return 0;
}
