/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A file system (FUSE) whose handle of each open folder is the address of a block, which nothing
 * but the kernel has, as libfuse's servers do it. A child has N folders open until the end of the
 * input; then each block is freed, and "freed N" printed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "../../targets/truth.h"

enum { N = 30, MESSAGE_BYTES = 1 << 17 };

#define FOLDER "/mnt"

static struct message {
	struct fuse_in_header head;
	char body[MESSAGE_BYTES];
} asked;

static int server;
static unsigned n_open, n_freed;

NOINLINE static void answer(int error, const void *body, size_t len)
{
	struct {
		struct fuse_out_header head;
		char body[256];
	} out = { .head = { .len = (uint32_t)(sizeof(out.head) + len),
		            .error = error,
		            .unique = asked.head.unique } };

	if (len)
		memcpy(out.body, body, len);
	if (write(server, &out, out.head.len) < 0 && errno != ENOENT)
		_exit(3);
	memset(&out, 0, sizeof(out));
}

NOINLINE static void open_folder(void)
{
	struct fuse_open_out opened = { .fh = 0 };
	char *block = fresh(200);

	tell("live", block);
	opened.fh = (uint64_t)(uintptr_t)block;
	answer(0, &opened, sizeof(opened));
	n_open++;
}

NOINLINE static void serve_one(void)
{
	const struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
		                            .minor = FUSE_KERNEL_MINOR_VERSION,
		                            .max_write = 4096 };
	const struct fuse_attr_out attr = { .attr = { .ino = 1, .mode = S_IFDIR | 0755, .nlink = 2 } };
	const struct fuse_release_in *release = (const void *)asked.body;

	if (read(server, &asked, sizeof(asked)) <= 0)
		return;
	if (asked.head.opcode == FUSE_INIT)
		answer(0, &init, sizeof(init));
	else if (asked.head.opcode == FUSE_GETATTR)
		answer(0, &attr, sizeof(attr));
	else if (asked.head.opcode == FUSE_OPENDIR)
		open_folder();
	else if (asked.head.opcode == FUSE_RELEASEDIR) {
		free((void *)(uintptr_t)release->fh);
		n_freed++;
		answer(0, NULL, 0);
	} else if (asked.head.opcode != FUSE_FORGET && asked.head.opcode != FUSE_BATCH_FORGET)
		answer(-ENOSYS, NULL, 0);
	memset(&asked, 0, sizeof(asked));
}

static pid_t open_all(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)close(server);
	for (unsigned i = 0; i < N; i++)
		if (open(FOLDER, O_RDONLY | O_DIRECTORY) < 0)
			_exit(4);
	for (;;)
		pause();
}

int main(void)
{
	char options[128];
	pid_t user;

	server = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	(void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0",
	               server);
	if (server < 0 || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("handles", FOLDER, "fuse", MS_NOSUID | MS_NODEV, options)) {
		return 2;
	}
	user = open_all();
	while (n_open < N)
		serve_one();
	forget();
	wait_for_end();
	(void)kill(user, SIGKILL);
	while (n_freed < N)
		serve_one();
	say_text("freed 30\n");
	return 0;
}
