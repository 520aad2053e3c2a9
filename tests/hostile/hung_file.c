/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hung_file KIND: maps a file of a file system (FUSE) that stops answering when the file's
 * first page has been read, then counts. KIND is data (private and writable) or code (the
 * file is called libc.so.6, and nothing of it has been read). The file system is mounted
 * where nobody else sees it, and ends with the process.
 *
 * Prints "READY"; with the end of its input "longest N", for how many milliseconds it did
 * not run. Where it may not mount, "CANNOT MOUNT".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "/mnt"

enum { FILE_BYTES = 1 << 20, PAGE = 4096, MESSAGE_BYTES = 1 << 18, FILE_NODE = 2 };
enum { FAILED = 2 }; /* exit status */

struct message {
	struct fuse_in_header head;
	char body[MESSAGE_BYTES];
};

static void answer(int fd, const struct message *asked, int error, const void *body, size_t len)
{
	struct fuse_out_header head = { .len = (uint32_t)(sizeof(head) + len),
		                        .error = error,
		                        .unique = asked->head.unique };
	char out[sizeof(head) + 2 * PAGE];

	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), body, len);
	if (write(fd, out, head.len) != (ssize_t)head.len && errno != ENOENT)
		_exit(FAILED);
}

static struct fuse_attr attributes(uint64_t node)
{
	bool file = node == FILE_NODE;

	return (struct fuse_attr){ .ino = node,
		                   .size = file ? FILE_BYTES : 0,
		                   .mode = file ? S_IFREG | 0755 : S_IFDIR | 0755,
		                   .nlink = 1,
		                   .blksize = PAGE };
}

static void serve_one(int fd, const struct message *asked, bool reads)
{
	static const char page[PAGE] = "a file";
	struct fuse_entry_out entry = { .nodeid = FILE_NODE,
		                        .entry_valid = 1000,
		                        .attr_valid = 1000,
		                        .attr = attributes(FILE_NODE) };
	struct fuse_attr_out attr = { .attr_valid = 1000, .attr = attributes(asked->head.nodeid) };
	struct fuse_open_out open = { .fh = 1 };
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
		                      .minor = FUSE_KERNEL_MINOR_VERSION,
		                      .max_write = PAGE };

	switch (asked->head.opcode) {
	case FUSE_INIT:
		answer(fd, asked, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		answer(fd, asked, 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
		answer(fd, asked, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		answer(fd, asked, 0, &open, sizeof(open));
		break;
	case FUSE_READ:
		/* Of all but the first page nothing is heard any more. */
		if (reads && !((const struct fuse_read_in *)asked->body)->offset)
			answer(fd, asked, 0, page, sizeof(page));
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(fd, asked, -ENOSYS, NULL, 0);
	}
}

/* Be the file system. */
static void serve(int fd, bool reads)
{
	static struct message asked;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		if (read(fd, &asked, sizeof(asked)) > 0)
			serve_one(fd, &asked, reads);
		else if (errno != EINTR && errno != ENOENT && errno != EAGAIN)
			_exit(0);
}

/* Mount it, for this process alone. Returns the descriptor to serve, or -1. */
static int mount_it(void)
{
	char options[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0 || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	(void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	return mount("hung", FOLDER, "fuse", MS_NOSUID | MS_NODEV, options) ? -1 : fd;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Until the end of the input. Returns the longest time that this did not run, in milliseconds. */
static uint64_t count(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	uint64_t longest = 0;
	uint64_t then = now_ms();

	while (!poll(&input, 1, 1)) {
		uint64_t now = now_ms();

		longest = now - then > longest ? now - then : longest;
		then = now;
	}
	return longest;
}

int main(int argc, char **argv)
{
	bool code = argc > 1 && !strcmp(argv[1], "code");
	volatile char *map;
	int fd = mount_it();

	if (fd < 0) {
		(void)puts("CANNOT MOUNT");
		return FAILED;
	}
	if (!fork())
		serve(fd, !code);
	(void)close(fd);
	fd = open(FOLDER "/libc.so.6", O_RDONLY);
	map = mmap(NULL, FILE_BYTES, PROT_READ | (code ? PROT_EXEC : PROT_WRITE), MAP_PRIVATE, fd,
	           0);
	if (fd < 0 || map == MAP_FAILED)
		return FAILED;
	if (!code)
		map[0] = 1;
	(void)puts("READY");
	(void)fflush(stdout);
	(void)printf("longest %llu\n", (unsigned long long)count());
	return 0;
}
