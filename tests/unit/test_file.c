/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

static char folder[] = "/tmp/memscan-base-XXXXXX";
static char path[sizeof(folder) + 16];

static void make_folder(void)
{
	cr_assert_not_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/file", folder);
}

static void remove_folder(void)
{
	(void)unlink(path);
	cr_assert_eq(rmdir(folder), 0);
}

TestSuite(file, .init = make_folder, .fini = remove_folder);

static void put(const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	cr_assert(fd >= 0);
	cr_assert(ms_fd_write_all(fd, text, strlen(text)));
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

/* ---- files that others name ---- */

Test(file, regular_ones_are_opened)
{
	char got[8] = "";
	int fd;

	put("hello", 0600);
	fd = ms_file_open_regular(path);
	cr_assert(fd >= 0, "%s", strerror(errno));
	cr_assert(ms_fd_read_all(fd, got, 5));
	cr_assert_str_eq(got, "hello");
	close(fd);
	unlink(path);
	cr_assert_eq(ms_file_open_regular(path), -1);
	cr_assert_eq(errno, ENOENT);
}

/* A writer waits at the other end of a pipe; it must not be let go. */
Test(file, a_pipe_is_not_opened_even_for_a_moment)
{
	pid_t writer;
	int status;

	cr_assert_eq(mkfifo(path, 0600), 0);
	writer = fork();
	if (!writer) {
		(void)open(path, O_WRONLY);
		_exit(0);
	}
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(ms_file_open_regular(path), -1);
		cr_assert_eq(errno, EPERM, "%s", strerror(errno));
		usleep(10000);
	}
	cr_assert_eq(waitpid(writer, &status, WNOHANG), 0, "the writer went on");
	kill(writer, SIGKILL);
	waitpid(writer, &status, 0);
}

/* A program may leave a link where its file was, and we may be root. */
Test(file, below_a_root_no_link_leads_out)
{
	char got[8] = "";
	int fd;

	cr_assert_eq(symlink("/etc/passwd", path), 0);
	cr_assert_eq(ms_file_open_below(folder, "/file"), -1);
	cr_assert_eq(errno, ENOENT, "%s", strerror(errno));
	unlink(path);
	put("hello", 0600);
	fd = ms_file_open_below(folder, "/../file");
	cr_assert(fd >= 0, "%s", strerror(errno));
	cr_assert(ms_fd_read_all(fd, got, 5));
	cr_assert_str_eq(got, "hello");
	close(fd);
}
