/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * in_transit PLACE: blocks whose only pointers were sent and not received yet; see truth.h.
 *
 *	pipe, stream (a pair of sockets), path (a UNIX socket with a name), tcp, queue (System V):
 *	        a message for each
 *	seqpacket, dgram (pairs of sockets), udp
 *	        one message with all
 *	rights  as stream, one message only, which carries a descriptor; the other blocks are lost
 *	error   as udp, and the socket has an error that was not asked for yet
 *	offset  as stream, and the program has set SO_PEEK_OFF
 *
 * Messages are packed, so that pointers lie at any byte. At the end of its input the program
 *receives all and compares it with what it sent; it says "received N" for N pointers if that is so
 *and nothing else was there, and what only the kernel knows is as it was.
 */
#include "truth.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { N = 40, BLOCK = 200, OFFSET = 5 };

struct message {
	char kind;
	void *block;
	uint32_t number;
} __attribute__((packed));

struct queued {
	long type;
	struct message message;
};

/* Inverted, so that it holds nothing. */
static uintptr_t sent[N];
static int from, to, queue = -1;
static int whole; /* one message has all */
static int n_sent = N;

static void fail(const char *what)
{
	perror(what);
	_exit(97);
}

static void need(int ok, const char *what)
{
	if (!ok)
		fail(what);
}

static struct message message(int i)
{
	return (struct message){ 'm', (void *)~sent[i], (uint32_t)i };
}

/* ---- the ways ---- */

static void open_pipe(void)
{
	int ends[2];

	need(pipe(ends) == 0, "pipe");
	from = ends[0];
	to = ends[1];
}

static void open_pair(int type)
{
	int ends[2];

	need(socketpair(AF_UNIX, type, 0, ends) == 0, "socketpair");
	from = ends[0];
	to = ends[1];
}

static void open_stream(void)
{
	open_pair(SOCK_STREAM);
}

static void open_seqpacket(void)
{
	open_pair(SOCK_SEQPACKET);
	whole = 1;
}

static void open_dgram(void)
{
	open_pair(SOCK_DGRAM);
	whole = 1;
}

static void open_listening(int domain, struct sockaddr *name, socklen_t len)
{
	int server = socket(domain, SOCK_STREAM, 0);

	need(server >= 0 && bind(server, name, len) == 0 && listen(server, 1) == 0, "listen");
	need(getsockname(server, name, &len) == 0, "getsockname");
	to = socket(domain, SOCK_STREAM, 0);
	need(connect(to, name, len) == 0, "connect");
	from = accept(server, NULL, NULL);
	need(from >= 0, "accept");
}

static void open_path(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };

	(void)snprintf(name.sun_path, sizeof(name.sun_path), "/tmp/in_transit.%d", getpid());
	open_listening(AF_UNIX, (struct sockaddr *)&name, sizeof(name));
	(void)unlink(name.sun_path);
}

static void open_tcp(void)
{
	struct sockaddr_in name = { .sin_family = AF_INET };
	int on = 1;

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	open_listening(AF_INET, (struct sockaddr *)&name, sizeof(name));
	/* What the sender holds back is not shown. */
	need(setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "setsockopt");
}

static int bound(struct sockaddr_in *name)
{
	socklen_t len = sizeof(*name);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	name->sin_family = AF_INET;
	name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	need(fd >= 0 && bind(fd, (struct sockaddr *)name, len) == 0 &&
	             getsockname(fd, (struct sockaddr *)name, &len) == 0,
	     "bind");
	return fd;
}

static void open_udp(void)
{
	struct sockaddr_in a = { 0 }, b = { 0 };

	from = bound(&a);
	to = bound(&b);
	need(connect(to, (struct sockaddr *)&a, sizeof(a)) == 0 &&
	             connect(from, (struct sockaddr *)&b, sizeof(b)) == 0,
	     "connect");
	whole = 1;
}

static void open_queue(void)
{
	queue = msgget(IPC_PRIVATE, 0600);
	need(queue >= 0, "msgget");
}

/* ---- sending ---- */

static void send_one(int i)
{
	struct queued m = { i + 1, message(i) };

	if (queue >= 0)
		need(msgsnd(queue, &m, sizeof(m.message), 0) == 0, "msgsnd");
	else
		need(write(to, &m.message, sizeof(m.message)) == sizeof(m.message), "write");
}

static void send_all(void)
{
	struct message all[N];

	for (int i = 0; i < N && whole; i++)
		all[i] = message(i);
	if (whole)
		need(write(to, all, sizeof(all)) == sizeof(all), "write");
	for (int i = 0; i < N && !whole; i++)
		send_one(i);
}

/* On a busy machine the kernel delivers some later. */
static void send_and_await_all(void)
{
	int there = 0;

	send_all();
	while (there < (int)sizeof(struct message) * N) {
		need(ioctl(from, FIONREAD, &there) == 0, "ioctl");
		(void)usleep(1000);
	}
}

/* With the first message goes the descriptor of the standard input. */
static void send_rights(void)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct message m = message(0);
	struct iovec part = { &m, sizeof(m) };
	struct msghdr header = { .msg_iov = &part,
		                 .msg_iovlen = 1,
		                 .msg_control = &control,
		                 .msg_controllen = sizeof(control) };
	int fd = STDIN_FILENO;

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	need(sendmsg(to, &header, 0) == sizeof(m), "sendmsg");
	n_sent = 1; /* what follows a message with a descriptor is not shown */
}

static void make_error(void)
{
	send_all();
	(void)close(to);
	need(write(from, "x", 1) == 1, "write");
}

static void set_offset(void)
{
	int offset = OFFSET;

	send_all();
	need(setsockopt(from, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)) == 0, "setsockopt");
}

/* ---- receiving ---- */

static int option(int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	need(getsockopt(from, SOL_SOCKET, name, &value, &len) == 0, "getsockopt");
	return value;
}

static void check_error(void)
{
	need(option(SO_ERROR) == ECONNREFUSED, "the error");
}

static void check_offset(void)
{
	need(option(SO_PEEK_OFF) == OFFSET, "the offset");
}

static void check_rights(void)
{
	char byte, control[64];
	struct iovec part = { &byte, 1 };
	struct msghdr header = { .msg_iov = &part,
		                 .msg_iovlen = 1,
		                 .msg_control = control,
		                 .msg_controllen = sizeof(control) };

	need(recvmsg(from, &header, MSG_PEEK) == 1 && header.msg_controllen, "the descriptor");
}

static ssize_t receive(char *bytes, size_t len)
{
	struct queued m;

	if (queue < 0)
		return read(from, bytes, len);
	if (msgrcv(queue, &m, sizeof(m.message), 0, IPC_NOWAIT) != sizeof(m.message))
		return 0;
	memcpy(bytes, &m.message, sizeof(m.message));
	return sizeof(m.message);
}

static size_t receive_all(char *bytes, size_t len)
{
	size_t got = 0;
	ssize_t n = 1;

	while (n > 0 && got < len) {
		n = receive(bytes + got, len - got);
		got += n > 0 ? (size_t)n : 0;
	}
	return got;
}

static int is_empty(void)
{
	struct pollfd ready = { from, POLLIN, 0 };
	struct msqid_ds ds;

	if (queue < 0)
		return poll(&ready, 1, 0) == 0 || !(ready.revents & POLLIN);
	return msgctl(queue, IPC_STAT, &ds) == 0 && ds.msg_qnum == 0;
}

static int release(void)
{
	struct message all[N], expected;
	size_t len = (size_t)n_sent * sizeof(*all);

	need(receive_all((char *)all, len) == len, "receive");
	for (int i = 0; i < n_sent; i++) {
		expected = message(i);
		need(memcmp(&all[i], &expected, sizeof(expected)) == 0, "a message");
		free(all[i].block);
	}
	need(is_empty(), "more than was sent");
	return n_sent;
}

static void check_queue(void)
{
	struct msqid_ds ds;

	need(msgctl(queue, IPC_STAT, &ds) == 0 && ds.msg_qnum == N && ds.msg_lrpid == 0 &&
	             ds.msg_rtime == 0,
	     "the queue");
}

static void no_check(void)
{
}

static const struct way {
	const char *name;
	void (*open)(void);
	void (*send)(void);
	void (*check)(void);
} ways[] = {
	{ "pipe", open_pipe, send_all, no_check },
	{ "stream", open_stream, send_all, no_check },
	{ "path", open_path, send_all, no_check },
	{ "tcp", open_tcp, send_and_await_all, no_check },
	{ "queue", open_queue, send_all, check_queue },
	{ "seqpacket", open_seqpacket, send_all, no_check },
	{ "dgram", open_dgram, send_all, no_check },
	{ "udp", open_udp, send_all, no_check },
	{ "rights", open_stream, send_rights, check_rights },
	{ "error", open_udp, make_error, check_error },
	{ "offset", open_stream, set_offset, check_offset },
};

NOINLINE static void make(void)
{
	for (int i = 0; i < N; i++) {
		char *block = fresh(BLOCK);

		tell("live", block);
		sent[i] = ~(uintptr_t)block;
	}
	leak(77);
}

int main(int argc, char **argv)
{
	const struct way *way = ways;
	const struct way *end = ways + sizeof(ways) / sizeof(*ways);
	char line[32];

	while (way < end && (argc != 2 || strcmp(way->name, argv[1]) != 0))
		way++;
	if (way == end)
		return 2;
	way->open();
	make();
	way->send();
	forget();
	wait_for_end();
	way->check();
	(void)snprintf(line, sizeof(line), "received %d\n", release());
	if (queue >= 0)
		(void)msgctl(queue, IPC_RMID, NULL);
	say_text(line);
	return 0;
}
