/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cli/output.h"
#include "golden/sample.h"

static char folder[64];
static struct ms_report report;
static struct ms_error err;

static void setup(void)
{
	snprintf(folder, sizeof(folder), "/tmp/memscan-output-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(output, .init = setup, .fini = teardown);

static const char *in_folder(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	fputs(text, file);
	fclose(file);
}

static void assert_file(const char *path, const char *text)
{
	static char got[1024];
	FILE *file = fopen(path, "r");

	cr_assert_not_null(file, "%s is missing", path);
	got[fread(got, 1, sizeof(got) - 1, file)] = '\0';
	fclose(file);
	cr_assert_str_eq(got, text);
}

static int entries(void)
{
	DIR *dir = opendir(folder);
	int n = -2; /* "." and ".." */

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool write_short(const struct ms_report *r, struct ms_sink *sink)
{
	(void)r;
	return sink->write(sink, "short\n", 6);
}

static bool write_then_fail(const struct ms_report *r, struct ms_sink *sink)
{
	(void)write_short(r, sink);
	return false;
}

/* Larger than any buffer in between. */
static bool write_long(const struct ms_report *r, struct ms_sink *sink)
{
	static char bytes[100000];

	(void)r;
	memset(bytes, 'x', sizeof(bytes));
	return sink->write(sink, "a", 1) && sink->write(sink, bytes, sizeof(bytes)) &&
	       sink->write(sink, "z", 1);
}

static const struct ms_writer short_writer = { .name = "short", .write = write_short };
static const struct ms_writer failing_writer = { .name = "failing", .write = write_then_fail };
static const struct ms_writer long_writer = { .name = "long", .write = write_long };

static enum ms_status write_to(const char *path, const struct ms_writer *writer)
{
	return ms_output_write(path, writer, &report, false, &err);
}

static unsigned mode_of(const char *name)
{
	struct stat st;

	cr_assert_eq(stat(in_folder(name), &st), 0);
	return st.st_mode & 07777;
}

Test(output, a_new_file_is_for_its_owner_alone)
{
	umask(0);
	cr_assert_eq(write_to(in_folder("new"), &short_writer), MS_OK, "%s", err.text);
	assert_file(in_folder("new"), "short\n");
	cr_assert_eq(mode_of("new"), 0600);
	cr_assert_eq(entries(), 1);
}

Test(output, an_old_file_keeps_its_mode)
{
	umask(077);
	put_file(in_folder("old"), "old");
	cr_assert_eq(chmod(in_folder("old"), 0664), 0);
	cr_assert_eq(write_to(in_folder("old"), &short_writer), MS_OK, "%s", err.text);
	assert_file(in_folder("old"), "short\n");
	cr_assert_eq(mode_of("old"), 0664);
}

enum { SOMEONE = 4321, NOBODY = 65534 };

Test(output, an_old_file_keeps_its_owner)
{
	struct stat st;

	if (geteuid())
		cr_skip_test("needs two users");
	put_file(in_folder("old"), "old");
	cr_assert_eq(chown(in_folder("old"), SOMEONE, SOMEONE), 0);
	cr_assert_eq(write_to(in_folder("old"), &short_writer), MS_OK, "%s", err.text);
	assert_file(in_folder("old"), "short\n");
	cr_assert_eq(stat(in_folder("old"), &st), 0);
	cr_assert_eq(st.st_uid, SOMEONE);
	cr_assert_eq(st.st_gid, SOMEONE);
}

Test(output, an_old_file_that_cannot_be_given_away_is_replaced)
{
	struct stat st;

	if (geteuid())
		cr_skip_test("needs two users");
	put_file(in_folder("old"), "a longer text than the report");
	cr_assert_eq(chmod(in_folder("old"), 0666), 0);
	cr_assert_eq(chown(folder, NOBODY, NOBODY), 0);
	cr_assert_eq(seteuid(NOBODY), 0);
	cr_assert_eq(write_to(in_folder("old"), &short_writer), MS_OK, "%s", err.text);
	cr_assert_eq(seteuid(0), 0);
	assert_file(in_folder("old"), "short\n");
	cr_assert_eq(stat(in_folder("old"), &st), 0);
	cr_assert_eq(st.st_uid, NOBODY);
	cr_assert_eq(mode_of("old"), 0600);
	cr_assert_eq(entries(), 1);
}

Test(output, a_file_that_was_planted_where_all_may_write_is_refused)
{
	if (geteuid())
		cr_skip_test("needs two users");
	cr_assert_eq(chmod(folder, 01777), 0);
	put_file(in_folder("old"), "old");
	cr_assert_eq(chmod(in_folder("old"), 0666), 0);
	cr_assert_eq(chown(in_folder("old"), SOMEONE, SOMEONE), 0);
	cr_assert_eq(ms_output_check(in_folder("old"), &err), MS_E_SYS);
	cr_assert_eq(write_to(in_folder("old"), &short_writer), MS_E_SYS);
	cr_assert_not_null(strstr(err.text, ": a file of user 4321 stands there"), "%s", err.text);
	cr_assert_str_eq(
		err.advice,
		"remove it, or give --output a name in a folder that only you may write to");
	assert_file(in_folder("old"), "old");
}

Test(output, an_old_file_is_replaced_and_its_reader_keeps_the_old_one)
{
	char got[4] = "";
	int fd;

	put_file(in_folder("old"), "old");
	fd = open(in_folder("old"), O_RDONLY);
	cr_assert_eq(write_to(in_folder("old"), &short_writer), MS_OK);
	assert_file(in_folder("old"), "short\n");
	cr_assert_eq(read(fd, got, 3), 3);
	cr_assert_str_eq(got, "old");
	close(fd);
}

Test(output, a_failure_leaves_the_old_file_and_nothing_else)
{
	put_file(in_folder("old"), "old");
	cr_assert_neq(write_to(in_folder("old"), &failing_writer), MS_OK);
	assert_file(in_folder("old"), "old");
	cr_assert_neq(write_to(in_folder("new"), &failing_writer), MS_OK);
	cr_assert_eq(entries(), 1);
}

Test(output, a_link_stays_one)
{
	char link[128];
	struct stat st;

	snprintf(link, sizeof(link), "%s/link", folder);
	put_file(in_folder("old"), "old");
	cr_assert_eq(symlink("old", link), 0);
	cr_assert_eq(write_to(link, &short_writer), MS_OK);
	cr_assert_eq(lstat(link, &st), 0);
	cr_assert(S_ISLNK(st.st_mode));
	assert_file(in_folder("old"), "short\n");
}

Test(output, long_reports_come_whole)
{
	struct stat st;

	cr_assert_eq(write_to(in_folder("long"), &long_writer), MS_OK);
	cr_assert_eq(stat(in_folder("long"), &st), 0);
	cr_assert_eq(st.st_size, 100002);
}

/* A node of our own: were the code wrong, root's test would replace the machine's. */
static const char *full_device(void)
{
	const char *path = in_folder("full");
	int fd;

	if (mknod(path, S_IFCHR | 0600, makedev(1, 7)) != 0)
		return NULL;
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return NULL;
	close(fd);
	return path;
}

Test(output, a_full_disk_is_noticed)
{
	const char *full = full_device();

	if (!full)
		cr_skip_test("no device node can be made here");
	cr_assert_eq(ms_output_check(full, &err), MS_OK);
	cr_assert_eq(write_to(full, &short_writer), MS_E_SYS);
	cr_assert_eq(err.sys_errno, ENOSPC);
	cr_assert_eq(write_to(full, &long_writer), MS_E_SYS);
	cr_assert_neq(err.advice[0], '\0');
}

Test(output, a_file_system_that_fills_up_keeps_the_old_file)
{
	const struct rlimit few = { 50000, RLIM_INFINITY };

	put_file(in_folder("old"), "old");
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
	cr_assert_eq(write_to(in_folder("old"), &long_writer), MS_E_SYS);
	assert_file(in_folder("old"), "old");
	cr_assert_eq(entries(), 1);
}

Test(output, a_pipe_is_written_in_place)
{
	char got[16] = "";
	int fd;

	cr_assert_eq(mkfifo(in_folder("pipe"), 0600), 0);
	cr_assert_eq(ms_output_check(in_folder("pipe"), &err), MS_OK);
	fd = open(in_folder("pipe"), O_RDWR);
	cr_assert_eq(write_to(in_folder("pipe"), &short_writer), MS_OK);
	cr_assert_eq(read(fd, got, sizeof(got) - 1), 6);
	cr_assert_str_eq(got, "short\n");
	close(fd);
	cr_assert_eq(entries(), 1);
}

/* A core has holes: it is begun in no pipe, and nobody waits for the reader of one. */
Test(output, what_is_written_by_others_is_a_regular_file)
{
	struct ms_output_file *file;

	cr_assert_eq(mkfifo(in_folder("pipe"), 0600), 0);
	cr_assert_eq(ms_output_begin(in_folder("pipe"), "core", &file, &err), MS_E_SYS);
	cr_assert_not_null(strstr(err.text, "it is no regular file"), "%s", err.text);
	cr_assert_eq(ms_output_begin("/dev/null", "core", &file, &err), MS_E_SYS);
	cr_assert_eq(ms_output_begin(in_folder("core"), "core", &file, &err), MS_OK);
	cr_assert_eq(entries(), 1, "a file has its name before it is whole");
	cr_assert_eq(write(ms_output_fd(file), "core", 4), 4);
	cr_assert_eq(ms_output_commit(file, &err), MS_OK);
	assert_file(in_folder("core"), "core");
	cr_assert_eq(entries(), 2);
}

Test(output, standard_output_takes_the_report_and_stays_open)
{
	int kept = dup(STDOUT_FILENO);
	int fd = open(in_folder("out"), O_RDWR | O_CREAT, 0600);

	dup2(fd, STDOUT_FILENO);
	cr_assert_eq(write_to(NULL, &short_writer), MS_OK);
	cr_assert_eq(fcntl(STDOUT_FILENO, F_GETFD), 0);
	dup2(kept, STDOUT_FILENO);
	assert_file(in_folder("out"), "short\n");
}

Test(output, a_closed_standard_output_is_a_failure)
{
	int kept = dup(STDOUT_FILENO);
	enum ms_status st;

	close(STDOUT_FILENO);
	st = write_to(NULL, &short_writer);
	dup2(kept, STDOUT_FILENO);
	cr_assert_eq(st, MS_E_SYS);
	cr_assert_eq(err.sys_errno, EBADF);
}

Test(output, checking_finds_what_writing_would_meet)
{
	cr_assert_eq(ms_output_check(NULL, &err), MS_OK);
	cr_assert_eq(ms_output_check(in_folder("none/report"), &err), MS_E_SYS);
	cr_assert_eq(err.sys_errno, ENOENT);
	cr_assert_eq(ms_output_check(folder, &err), MS_E_SYS);
	cr_assert_eq(err.sys_errno, EISDIR);
	put_file(in_folder("file"), "");
	cr_assert_eq(ms_output_check(in_folder("file/report"), &err), MS_E_SYS);
	cr_assert_eq(err.sys_errno, ENOTDIR);
	cr_assert_eq(ms_output_check("/proc/report", &err), MS_E_SYS);
	cr_assert_neq(err.advice[0], '\0');
}

Test(output, checking_leaves_no_trace)
{
	put_file(in_folder("old"), "old");
	cr_assert_eq(ms_output_check(in_folder("old"), &err), MS_OK);
	cr_assert_eq(ms_output_check(in_folder("new"), &err), MS_OK);
	assert_file(in_folder("old"), "old");
	cr_assert_eq(entries(), 1);
}
