/* SPDX-License-Identifier: Apache-2.0 */
#include "target/transit/look.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/search.h"
#include "base/syscalls.h"
#include "base/vec.h"
#include "target/descriptors.h"
#include "target/proc.h"
#include "target/transit/transit.h"
#include "target/urgent.h"

#ifndef MSG_COPY
#define MSG_COPY 040000 /* include/uapi/linux/msg.h */
#endif
#ifndef MSG_STAT
#define MSG_STAT 11
#define MSG_INFO 12
#endif

enum { NAME_BYTES = 48, LINK_BYTES = 32, PIDFD_OF_THREAD = O_EXCL, TYPE_BYTES = sizeof(long) };

/* To list descriptors before the target is stopped. */
static const uint64_t listing_ns = UINT64_C(40000000);

struct looking {
	struct ms_transit_found *found;
	pid_t pid;
	pid_t tid;                         /* a thread of it that has its descriptors */
	int pidfd;                         /* of it; minus errno when it cannot be had */
	int tube[2];                       /* ours, for what tee() shows */
	bool has_queues;                   /* its message queues are ours to see */
	struct ms_fds known;               /* all descriptors before it stood, ascending */
	struct ms_fds likely;              /* of these, pipes and sockets */
	uint64_t seen[MS_TRANSIT_RECORDS]; /* inodes of what has a record */
	uint64_t until_ns;
	uint32_t n_bytes;
	struct ms_arena arena;
	int priority; /* before the process was urgent */
	bool hurries;
};

/* ---- records ---- */

static bool is_over(const struct looking *l)
{
	if (ms_now_ns() < l->until_ns)
		return false;
	atomic_store(&l->found->cut, true);
	return true;
}

static uint8_t *room(const struct looking *l, size_t *ret_len)
{
	*ret_len = MS_TRANSIT_BYTES - l->n_bytes;
	if (!*ret_len || atomic_load(&l->found->n_records) == MS_TRANSIT_RECORDS) {
		atomic_store(&l->found->cut, true);
		return NULL;
	}
	return l->found->bytes + l->n_bytes;
}

static void add(struct looking *l, struct ms_transit_record record, size_t len, uint64_t inode)
{
	const unsigned n = atomic_load(&l->found->n_records);

	record.late = atomic_load(&l->found->released);
	record.at = l->n_bytes;
	record.len = (uint32_t)len;
	l->found->records[n] = record;
	l->seen[n] = inode;
	l->n_bytes += ((uint32_t)len + 7) & ~UINT32_C(7);
	atomic_store(&l->found->n_records, n + 1);
}

static bool is_seen(const struct looking *l, uint64_t inode)
{
	for (unsigned i = atomic_load(&l->found->n_records); i-- > 0;)
		if (l->seen[i] == inode)
			return true;
	return false;
}

static void count_refused(const struct looking *l, int error)
{
	atomic_fetch_add(&l->found->n_refused, 1);
	atomic_store(&l->found->refusal, error);
}

/* ---- pipes ---- */

/* What has a pipe's slots may not fit into ours, which has fewer. */
static void make_tube_as_large(const struct looking *l, int pipe)
{
	const int size = fcntl(pipe, F_GETPIPE_SZ);

	if (size > fcntl(l->tube[1], F_GETPIPE_SZ))
		(void)fcntl(l->tube[1], F_SETPIPE_SZ, size);
}

static int waiting_bytes(int fd)
{
	int n = 0;

	return ioctl(fd, FIONREAD, &n) ? 0 : n;
}

static void show_pipe(struct looking *l, int32_t number, int pipe, uint64_t inode)
{
	struct ms_transit_record record = { .place = MS_TRANSIT_PIPE, .number = number };
	size_t len;
	uint8_t *bytes = room(l, &len);
	size_t got = 0;
	ssize_t n;

	if (!bytes)
		return;
	make_tube_as_large(l, pipe);
	n = tee(pipe, l->tube[1], len, SPLICE_F_NONBLOCK);
	if (n <= 0)
		return;
	record.behind = waiting_bytes(pipe) > n;
	for (const size_t all = (size_t)n; got < all && n > 0; got += n > 0 ? (size_t)n : 0)
		n = read(l->tube[0], bytes + got, all - got);
	add(l, record, got, inode);
}

/* ---- sockets ---- */

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, name, &value, &len) ? -1 : value;
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static bool is_loopback(const union address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	if (a->any.sa_family != AF_INET6)
		return false;
	return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr) && a->v6.sin6_addr.s6_addr[12] == 127);
}

static bool is_same_host(const union address *a, const union address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->any.sa_family == AF_INET6 &&
	       !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

/* Whether all that comes to @fd is sent on this host. */
static bool is_local(int fd)
{
	union address own = { 0 };
	union address peer = { 0 };
	socklen_t len = sizeof(own);

	if (getsockname(fd, &own.any, &len))
		return false;
	len = sizeof(peer);
	if (getpeername(fd, &peer.any, &len))
		return is_loopback(&own);
	return is_loopback(&peer) || is_same_host(&own, &peer);
}

/* Another protocol above TCP (TLS in the kernel) interprets what is looked at. */
static bool has_upper(int fd)
{
	char name[16] = "";
	socklen_t len = sizeof(name);

	return !getsockopt(fd, IPPROTO_TCP, TCP_ULP, name, &len) && len && name[0];
}

static bool may_be_shown(int fd)
{
	const int domain = option(fd, SOL_SOCKET, SO_DOMAIN);
	const int protocol = option(fd, SOL_SOCKET, SO_PROTOCOL);

	if (option(fd, SOL_SOCKET, SO_ACCEPTCONN) != 0)
		return false;
	if (domain == AF_UNIX)
		return true;
	if (domain != AF_INET && domain != AF_INET6)
		return false;
	if (protocol == IPPROTO_TCP)
		return is_local(fd) && !has_upper(fd);
	return protocol == IPPROTO_UDP && is_local(fd);
}

/* No more than the first message is shown of those that keep messages apart. */
static bool has_more(int fd, ssize_t got)
{
	const int type = option(fd, SOL_SOCKET, SO_TYPE);

	return type == SOCK_DGRAM || waiting_bytes(fd) > got;
}

static void show_socket(struct looking *l, int32_t number, const struct pollfd *ready,
                        uint64_t inode)
{
	struct ms_transit_record record = { .place = MS_TRANSIT_SOCKET, .number = number };
	size_t len;
	uint8_t *bytes;
	ssize_t n;

	if (!may_be_shown(ready->fd))
		return;
	if (ready->revents & POLLERR || option(ready->fd, SOL_SOCKET, SO_PEEK_OFF) >= 0) {
		atomic_fetch_add(&l->found->n_left, 1);
		return;
	}
	bytes = room(l, &len);
	/* Without room for control messages no descriptor is received with it. */
	n = bytes ? recv(ready->fd, bytes, len, MSG_PEEK | MSG_DONTWAIT) : 0;
	if (n <= 0)
		return;
	record.behind = has_more(ready->fd, n);
	add(l, record, (size_t)n, inode);
}

/* ---- descriptors ---- */

static void show(struct looking *l, int32_t number, const struct pollfd *ready)
{
	struct stat st;

	if (fstat(ready->fd, &st) || is_seen(l, st.st_ino))
		return;
	if (S_ISFIFO(st.st_mode))
		show_pipe(l, number, ready->fd, st.st_ino);
	else if (S_ISSOCK(st.st_mode))
		show_socket(l, number, ready, st.st_ino);
}

/* What the target runs beside is not urgent. */
static void hurry_no_more(struct looking *l)
{
	if (!l->hurries || !atomic_load(&l->found->released))
		return;
	l->hurries = false;
	ms_urgent_end(l->priority);
}

static void look_at(struct looking *l, int32_t fd)
{
	struct pollfd ready = { .events = POLLIN };

	hurry_no_more(l);
	ready.fd = l->pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, l->pidfd, fd, 0);
	if (ready.fd < 0) {
		const int error = l->pidfd < 0 ? -l->pidfd : errno;

		/* EBADF: it was closed. */
		if (error != EBADF)
			count_refused(l, error);
		return;
	}
	/* This takes no lock, so that nothing is waited for where there is nothing. */
	if (poll(&ready, 1, 0) == 1 && ready.revents & POLLIN)
		show(l, fd, &ready);
	(void)close(ready.fd);
}

/* Whether @fd is a socket, or the end of a pipe without a name that is read from. */
static bool is_likely(const struct looking *l, int32_t fd)
{
	char name[NAME_BYTES];
	char link[LINK_BYTES];
	struct stat st;

	(void)snprintf(name, sizeof(name), "fd/%d", fd);
	ms_proc_link(l->tid, name, link, sizeof(link));
	if (!strncmp(link, "socket:[", strlen("socket:[")))
		return true;
	if (strncmp(link, "pipe:[", strlen("pipe:[")) != 0)
		return false;
	(void)snprintf(name, sizeof(name), "/proc/%d/fd/%d", l->tid, fd);
	return !lstat(name, &st) && st.st_mode & S_IRUSR;
}

static void push(struct looking *l, struct ms_fds *fds, int32_t fd)
{
	int32_t *slot = ms_vec_push(&l->arena, fds);

	if (slot)
		*slot = fd;
}

static bool is_known(const struct looking *l, int32_t fd)
{
	size_t at = ms_lower_bound(0, l->known.n, i, l->known.at[i] < fd);

	return at < l->known.n && l->known.at[at] == fd;
}

/* List the descriptors, or look at those that are new. */
static void list(struct looking *l, bool new_ones)
{
	char *buf = ms_arena_alloc(&l->arena, MS_PROC_LIST_BYTES);
	struct ms_proc_list descriptors;
	int32_t fd;

	if (!buf || ms_proc_list_open(&descriptors, l->tid, "fd", buf) < 0)
		return;
	while (ms_now_ns() < l->until_ns && ms_proc_list_next(&descriptors, &fd)) {
		if (!new_ones)
			push(l, &l->known, fd);
		else if (is_known(l, fd))
			continue;
		if (!is_likely(l, fd))
			continue;
		if (new_ones)
			look_at(l, fd);
		else
			push(l, &l->likely, fd);
	}
	ms_proc_list_close(&descriptors);
}

/* ---- message queues ---- */

/* See the queues of the target's namespace. */
static bool enter_namespace(pid_t tid)
{
	char name[NAME_BYTES];
	struct stat own;
	struct stat its;
	bool entered;
	int fd;

	(void)snprintf(name, sizeof(name), "/proc/%d/ns/ipc", tid);
	if (stat("/proc/self/ns/ipc", &own) || stat(name, &its))
		return false;
	if (own.st_ino == its.st_ino)
		return true;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	entered = fd >= 0 && setns(fd, CLONE_NEWIPC) == 0;
	if (fd >= 0)
		(void)close(fd);
	return entered;
}

/* Add message @index of a queue with messages of @most bytes; false when there is none. */
static bool show_message(struct looking *l, int queue, long index, size_t most)
{
	struct ms_transit_record record = { .place = MS_TRANSIT_QUEUE, .number = queue };
	size_t len;
	uint8_t *bytes = room(l, &len);
	ssize_t n;

	if (!bytes || len <= TYPE_BYTES)
		return false;
	len -= TYPE_BYTES;
	if (most < len)
		len = most;
	n = msgrcv(queue, bytes, len, index, MSG_COPY | IPC_NOWAIT);
	if (n < 0 && errno != ENOMSG)
		count_refused(l, errno);
	if (n < 0)
		return false;
	/* A message's type is the program's, too. */
	add(l, record, TYPE_BYTES + (size_t)n, 0);
	return true;
}

/* Those are its own to or from which it was the last to send, or to receive. */
static void show_queues(struct looking *l)
{
	struct msginfo info;
	const int highest = msgctl(0, MSG_INFO, (struct msqid_ds *)(void *)&info);

	for (int slot = 0; slot <= highest && !is_over(l); slot++) {
		struct msqid_ds queue;
		const int id = msgctl(slot, MSG_STAT, &queue);
		long i = 0;

		if (id < 0 || !queue.msg_qnum ||
		    (queue.msg_lspid != l->pid && queue.msg_lrpid != l->pid))
			continue;
		while (!is_over(l) && show_message(l, id, i, queue.__msg_cbytes))
			i++;
	}
}

/* ---- the helper's life ---- */

static void prepare(struct looking *l)
{
	l->tid = ms_proc_thread_of(l->pid);
	l->pidfd = (int)syscall(SYS_pidfd_open, l->tid, l->tid == l->pid ? 0 : PIDFD_OF_THREAD);
	if (l->pidfd < 0)
		l->pidfd = -errno;
	l->has_queues = enter_namespace(l->tid);
	l->until_ns = ms_now_ns() + listing_ns;
	list(l, false);
	/* Pages that are there need not be made while the target stands. */
	memset(l->found->records, 0, sizeof(l->found->records));
	memset(l->found->bytes, 0, (size_t)64 * 1024);
}

static void look(struct looking *l)
{
	const int32_t *fd;

	l->until_ns = ms_now_ns() + MS_TRANSIT_MOST_NS;
	ms_vec_for_each (fd, &l->likely)
		if (!is_over(l))
			look_at(l, *fd);
	list(l, true);
	if (!is_over(l) && l->has_queues)
		show_queues(l);
}

static bool say(int channel, char word)
{
	return send(channel, &word, 1, MSG_NOSIGNAL) == 1;
}

int ms_transit_serve(struct ms_transit_found *found, pid_t pid, int channel)
{
	struct looking l = { .found = found, .pid = pid, .hurries = true };
	char word = 0;

	if (pipe2(l.tube, O_CLOEXEC | O_NONBLOCK))
		return 1;
	prepare(&l);
	if (!say(channel, MS_TRANSIT_READY))
		return 1;
	l.priority = ms_urgent_begin();
	if (recv(channel, &word, 1, 0) != 1 || word != MS_TRANSIT_LOOK)
		return 0;
	look(&l);
	return say(channel, MS_TRANSIT_DONE) ? 0 : 1;
}
