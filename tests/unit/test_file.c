/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/walk.h"

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

/* Of a sparse file nothing is read when it is too long. */
Test(file, what_is_too_long_is_not_read)
{
	struct ms_arena arena = { 0 };
	struct ms_bytes bytes = { 0 };
	struct ms_error err;

	put("hello", 0600);
	cr_assert_eq(truncate(path, 1 << 20), 0);
	cr_assert_eq(ms_file_read_most(path, 1 << 20, &arena, &bytes, &err), MS_OK);
	cr_assert_eq(bytes.n, 1 << 20);
	bytes = (struct ms_bytes){ 0 };
	cr_assert_eq(truncate(path, (1 << 20) + 1), 0);
	cr_assert_eq(ms_file_read_most(path, 1 << 20, &arena, &bytes, &err), MS_E_SYS);
	cr_assert(strstr(err.text, "File too large"), "%s", err.text);
	cr_assert_eq(bytes.n, 0);
	ms_arena_deinit(&arena);
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

/* ---- without openat2(), and by asking ---- */

/* From here on openat2() fails with @error, as before Linux 5.6 or in a container. */
static void forbid_openat2(unsigned error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static const struct {
	const char *path;
	const char *text; /* NULL: it is not found */
	int error;
} below[] = {
	{ "/file", "hello", 0 },
	{ "file", "hello", 0 },
	{ "/../../file", "hello", 0 },
	{ "/a/b/../../file", "hello", 0 },
	{ "//a//./b/file", "inner", 0 },
	{ "/absolute/file", "inner", 0 },
	{ "/relative", "hello", 0 },
	{ "/out/passwd", NULL, ENOENT },
	{ "/a/up/etc/passwd", NULL, ENOENT },
	{ "/loop", NULL, ELOOP },
	{ "/file/more", NULL, ENOTDIR },
	{ "/a", NULL, EPERM },
	{ "/nothing", NULL, ENOENT },
};

/* What is made below the folder, the last first to remove. */
static const struct {
	const char *name;
	const char *target; /* of a link; NULL: it is a folder */
} made[] = {
	{ "a", NULL },          { "a/b", NULL },
	{ "absolute", "/a/b" }, { "relative", "a/../../../file" },
	{ "out", "/etc" },      { "a/up", "../../../../.." },
	{ "loop", "loop" },
};

enum { MADE = sizeof(made) / sizeof(made[0]) };

static void put_inner(const char *text)
{
	char outer[sizeof(path)];

	(void)strcpy(outer, path);
	(void)snprintf(path, sizeof(path), "%s/a/b/file", folder);
	put(text, 0644);
	(void)strcpy(path, outer);
}

static void make_tree(void)
{
	char name[sizeof(path)];

	make_folder();
	put("hello", 0644);
	for (size_t i = 0; i < MADE; i++) {
		(void)snprintf(name, sizeof(name), "%s/%s", folder, made[i].name);
		cr_assert_eq(made[i].target ? symlink(made[i].target, name) : mkdir(name, 0755), 0);
	}
	put_inner("inner");
}

static void remove_tree(void)
{
	char name[sizeof(path)];

	(void)snprintf(name, sizeof(name), "%s/a/b/file", folder);
	(void)unlink(name);
	for (size_t i = MADE; i-- > 0;) {
		(void)snprintf(name, sizeof(name), "%s/%s", folder, made[i].name);
		(void)remove(name);
	}
	remove_folder();
}

TestSuite(below, .init = make_tree, .fini = remove_tree);

static void expect_below(const char *how)
{
	for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
		int fd = ms_file_open_below(folder, below[i].path);
		int error = errno;
		char got[8] = "";

		cr_expect_eq(fd >= 0, below[i].text != NULL, "%s: %s", how, below[i].path);
		if (fd < 0) {
			cr_expect_eq(error, below[i].error, "%s: %s: %s", how, below[i].path,
			             strerror(error));
			continue;
		}
		cr_expect(ms_fd_read_all(fd, got, 5));
		cr_expect_str_eq(got, below[i].text, "%s: %s", how, below[i].path);
		close(fd);
	}
}

Test(below, below_a_root_is_the_same_with_every_kernel)
{
	expect_below("openat2");
	forbid_openat2(EPERM);
	expect_below("EPERM");
}

Test(below, below_a_root_is_the_same_before_openat2)
{
	forbid_openat2(ENOSYS);
	expect_below("ENOSYS");
}

static bool is_not_secret(const void *ctx, const struct stat *st)
{
	(void)ctx;
	return S_ISLNK(st->st_mode) || st->st_mode & S_IXOTH || st->st_mode & S_IROTH;
}

Test(below, what_is_on_the_way_is_asked_about)
{
	const struct ms_walk walk = { is_not_secret, NULL };
	char name[sizeof(path)];
	int fd = ms_file_open_allowed(folder, "/absolute/file", &walk);

	cr_assert(fd >= 0, "%s", strerror(errno));
	close(fd);
	(void)snprintf(name, sizeof(name), "%s/a", folder);
	cr_assert_eq(chmod(name, 0700), 0);
	cr_assert_eq(ms_file_open_allowed(folder, "/absolute/file", &walk), -1);
	cr_assert_eq(errno, EACCES, "%s", strerror(errno));
	cr_assert_eq(chmod(path, 0600), 0);
	cr_assert_eq(ms_file_open_allowed(folder, "/relative", &walk), -1);
	cr_assert_eq(errno, EACCES, "%s", strerror(errno));
}
