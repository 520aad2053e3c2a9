/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/newfile.h"

enum { SOMEONE = 4321 };

static char folder[64];
static struct ms_newfile file;

static void setup(void)
{
	snprintf(folder, sizeof(folder), "/tmp/memscan-newfile-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	umask(0);
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(newfile, .init = setup, .fini = teardown, .timeout = 20);

/* One of several at a time. */
static const char *in(const char *name)
{
	static char path[16][512];
	static int turn;

	turn = (turn + 1) % 16;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
	return path[turn];
}

static void put(const char *name, const char *text, mode_t mode, uid_t owner)
{
	int fd = open(in(name), O_WRONLY | O_CREAT | O_EXCL, 0600);

	cr_assert(fd >= 0);
	cr_assert(ms_fd_write_all(fd, text, strlen(text)));
	cr_assert_eq(fchmod(fd, mode), 0);
	cr_assert(owner == geteuid() || fchown(fd, owner, owner) == 0);
	close(fd);
}

static void assert_holds(const char *name, const char *text)
{
	char got[64] = "";
	int fd = open(in(name), O_RDONLY);

	cr_assert(fd >= 0, "%s is missing", name);
	cr_assert(read(fd, got, sizeof(got) - 1) >= 0);
	close(fd);
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

static int begin(const char *path)
{
	return ms_newfile_begin(&(struct ms_newfile_call){ .path = path }, &file);
}

static int check(const char *path)
{
	return ms_newfile_check(&(struct ms_newfile_call){ .path = path }, &file);
}

/* Write it at @path: 0, or errno. */
static int save(const char *path)
{
	int error = begin(path);

	if (error)
		return error;
	cr_assert(ms_fd_write_all(file.fd, "new", 3));
	return ms_newfile_commit(&file);
}

/* Of what another user may have planted. */
static void assert_planted(const char *path, const char *kind)
{
	cr_assert_eq(check(path), EPERM, "%s", path);
	cr_assert_eq(save(path), EPERM, "%s", path);
	cr_assert_neq(file.old.st_nlink, 0);
	cr_assert_str_eq(ms_newfile_kind(file.old.st_mode), kind);
	cr_assert_eq(file.fd, -1);
	cr_assert_eq(file.folder, -1);
}

static void make_sticky(void)
{
	if (geteuid())
		cr_skip_test("needs two users");
	cr_assert_eq(chmod(folder, 01777), 0);
}

/* ---- new ones ---- */

Test(newfile, has_no_name_until_it_is_whole)
{
	cr_assert_eq(begin(in("new")), 0);
	cr_assert_eq(entries(), 0);
	cr_assert(ms_fd_write_all(file.fd, "new", 3));
	cr_assert_eq(ms_newfile_commit(&file), 0);
	assert_holds("new", "new");
	cr_assert_eq(entries(), 1);
}

Test(newfile, is_for_its_owner_alone)
{
	struct stat st;

	cr_assert_eq(save(in("new")), 0);
	cr_assert_eq(stat(in("new"), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
}

Test(newfile, checked_or_cancelled_leaves_nothing)
{
	cr_assert_eq(check(in("new")), 0);
	cr_assert_eq(begin(in("new")), 0);
	ms_newfile_cancel(&file);
	cr_assert_eq(entries(), 0);
}

Test(newfile, of_a_process_that_is_killed_leaves_nothing)
{
	pid_t pid = fork();

	if (!pid) {
		if (begin(in("new")) || !ms_fd_write_all(file.fd, "new", 3))
			_exit(1);
		(void)raise(SIGKILL);
	}
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert_eq(entries(), 0);
}

Test(newfile, is_found_by_a_path_of_any_form)
{
	cr_assert_eq(mkdir(in("a"), 0700), 0);
	cr_assert_eq(save(in("a//..///./a/new")), 0);
	assert_holds("a/new", "new");
	cr_assert_eq(chdir(in("a")), 0);
	cr_assert_eq(save("relative"), 0);
	cr_assert_eq(save("../a/./other"), 0);
	assert_holds("a/relative", "new");
	assert_holds("a/other", "new");
}

Test(newfile, needs_a_path_to_a_file)
{
	char longest[300];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	cr_assert_eq(begin(""), ENOENT);
	cr_assert_eq(begin("/"), EISDIR);
	cr_assert_eq(begin(folder), EISDIR);
	cr_assert_eq(begin(in(".")), EISDIR);
	cr_assert_eq(begin(in("none/new")), ENOENT);
	cr_assert_eq(begin(in("none/")), ENOENT);
	cr_assert_eq(begin(in(longest)), ENAMETOOLONG);
	cr_assert_eq(begin("/dev/fd/77"), ENOENT);
}

/* ---- in place of old ones ---- */

Test(newfile, replaces_a_file_and_keeps_its_mode_and_owner)
{
	struct stat st;
	uid_t owner = geteuid() ? geteuid() : SOMEONE;

	put("old", "a longer text", 0640, owner);
	cr_assert_eq(save(in("old")), 0);
	assert_holds("old", "new");
	cr_assert_eq(stat(in("old"), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0640);
	cr_assert_eq(st.st_uid, owner);
	cr_assert_eq(entries(), 1);
}

/* A second name of a file that everyone may read can be anyone's work. */
Test(newfile, in_a_shared_folder_is_for_its_owner_alone)
{
	struct stat st;

	put("readable", "theirs", 0644, geteuid());
	cr_assert_eq(link(in("readable"), in("old")), 0);
	cr_assert_eq(chmod(folder, 01777), 0);
	cr_assert_eq(save(in("old")), 0);
	assert_holds("readable", "theirs");
	assert_holds("old", "new");
	cr_assert_eq(stat(in("old"), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
}

Test(newfile, takes_a_name_that_came_meanwhile)
{
	cr_assert_eq(begin(in("new")), 0);
	put("new", "meanwhile", 0600, geteuid());
	cr_assert(ms_fd_write_all(file.fd, "new", 3));
	cr_assert_eq(ms_newfile_commit(&file), 0);
	assert_holds("new", "new");
	cr_assert_eq(entries(), 1);
}

Test(newfile, replaces_nothing_that_was_planted_meanwhile)
{
	make_sticky();
	cr_assert_eq(begin(in("new")), 0);
	put("new", "theirs", 0666, SOMEONE);
	cr_assert_eq(ms_newfile_commit(&file), EPERM);
	assert_holds("new", "theirs");
	cr_assert_eq(entries(), 1);
}

Test(newfile, empties_its_own_where_no_new_one_can_be)
{
	struct ms_newfile_call call = { .path = in("old"), .in_place = true };

	if (geteuid())
		cr_skip_test("needs two users");
	put("old", "a longer text", 0600, SOMEONE);
	cr_assert_eq(chmod(folder, 0755), 0);
	cr_assert_eq(seteuid(SOMEONE), 0);
	cr_assert_eq(save(call.path), EACCES);
	cr_assert_eq(ms_newfile_check(&call, &file), EACCES);
	assert_holds("old", "a longer text");
	cr_assert_eq(ms_newfile_begin(&call, &file), 0);
	cr_assert(ms_fd_write_all(file.fd, "new", 3));
	cr_assert_eq(ms_newfile_commit(&file), 0);
	cr_assert_eq(seteuid(0), 0);
	assert_holds("old", "new");
}

/* ---- what others may have planted ---- */

Test(newfile, is_not_written_to_a_file_of_others)
{
	make_sticky();
	put("old", "theirs", 0666, SOMEONE);
	assert_planted(in("old"), "a file");
	assert_holds("old", "theirs");
}

Test(newfile, is_not_written_to_a_file_in_the_folder_of_another)
{
	make_sticky();
	cr_assert_eq(chmod(folder, 0755), 0);
	cr_assert_eq(chown(folder, SOMEONE, SOMEONE), 0);
	put("old", "theirs", 0600, SOMEONE);
	assert_planted(in("old"), "a file");
	cr_assert_eq(save(in("new")), 0);
}

static void make_fifo(const char *name, uid_t owner)
{
	cr_assert_eq(mkfifo(in(name), 0600), 0);
	cr_assert_eq(chown(in(name), owner, owner), 0);
}

/* A reader must not be let go, either. */
Test(newfile, opens_no_fifo_of_others)
{
	int status;
	pid_t reader;

	make_sticky();
	make_fifo("pipe", SOMEONE);
	reader = fork();
	if (!reader) {
		(void)open(in("pipe"), O_RDONLY);
		_exit(0);
	}
	usleep(20000);
	assert_planted(in("pipe"), "a FIFO");
	cr_assert_eq(waitpid(reader, &status, WNOHANG), 0, "the reader went on");
	kill(reader, SIGKILL);
	waitpid(reader, &status, 0);
}

Test(newfile, opens_no_second_name_of_a_fifo)
{
	make_sticky();
	make_fifo("pipe", 0);
	cr_assert_eq(link(in("pipe"), in("other")), 0);
	assert_planted(in("other"), "a FIFO");
}

Test(newfile, opens_no_socket_of_others)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	make_sticky();
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", in("socket"));
	cr_assert_eq(bind(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
	cr_assert_eq(chown(name.sun_path, SOMEONE, SOMEONE), 0);
	assert_planted(name.sun_path, "a socket");
}

Test(newfile, opens_no_device_of_others)
{
	make_sticky();
	/* /dev/zero */
	if (mknod(in("device"), S_IFCHR | 0600, makedev(1, 5)))
		cr_skip_test("no device node can be made here");
	cr_assert_eq(chown(in("device"), SOMEONE, SOMEONE), 0);
	assert_planted(in("device"), "a device");
}

Test(newfile, follows_no_link_of_others)
{
	make_sticky();
	put("old", "old", 0600, 0);
	cr_assert_eq(symlink("old", in("link")), 0);
	cr_assert_eq(lchown(in("link"), SOMEONE, SOMEONE), 0);
	assert_planted(in("link"), "a link");
	assert_holds("old", "old");
}

Test(newfile, follows_no_link_of_others_to_a_folder)
{
	make_sticky();
	cr_assert_eq(mkdir(in("safe"), 0700), 0);
	cr_assert_eq(symlink("safe", in("link")), 0);
	cr_assert_eq(lchown(in("link"), SOMEONE, SOMEONE), 0);
	assert_planted(in("link/new"), "a link");
	cr_assert_eq(ms_newfile_begin_in(in("link"), &file), EPERM);
}

/* ---- what is the caller's own ---- */

Test(newfile, follows_links_of_its_own)
{
	struct stat st;

	cr_assert_eq(chmod(folder, 01777), 0);
	cr_assert_eq(mkdir(in("safe"), 0700), 0);
	cr_assert_eq(symlink(in("safe"), in("folder")), 0);
	cr_assert_eq(symlink("folder/../safe/new", in("link")), 0);
	cr_assert_eq(save(in("link")), 0);
	assert_holds("safe/new", "new");
	cr_assert_eq(save(in("folder/other")), 0);
	assert_holds("safe/other", "new");
	cr_assert_eq(lstat(in("link"), &st), 0);
	cr_assert(S_ISLNK(st.st_mode));
}

Test(newfile, follows_no_link_where_none_is_wanted)
{
	struct ms_newfile_call call = { .path = in("link"), .no_link = true };

	cr_assert_eq(symlink("elsewhere", call.path), 0);
	cr_assert_eq(ms_newfile_begin(&call, &file), ELOOP);
	cr_assert_eq(save(call.path), 0);
	assert_holds("elsewhere", "new");
}

Test(newfile, does_not_follow_links_in_a_circle)
{
	cr_assert_eq(symlink("b", in("a")), 0);
	cr_assert_eq(symlink("a", in("b")), 0);
	cr_assert_eq(save(in("a")), ELOOP);
}

Test(newfile, writes_to_a_fifo_of_its_own)
{
	char got[8] = "";
	int fd;

	cr_assert_eq(chmod(folder, 01777), 0);
	make_fifo("pipe", geteuid());
	cr_assert_eq(check(in("pipe")), 0);
	fd = open(in("pipe"), O_RDWR);
	cr_assert_eq(begin(in("pipe")), 0);
	cr_assert_eq(fcntl(file.fd, F_GETFL) & O_NONBLOCK, 0);
	cr_assert(ms_fd_write_all(file.fd, "new", 3));
	cr_assert_eq(ms_newfile_commit(&file), 0);
	cr_assert_eq(read(fd, got, sizeof(got)), 3);
	cr_assert_str_eq(got, "new");
	close(fd);
	cr_assert_eq(entries(), 1);
}

Test(newfile, waits_for_a_reader_as_long_as_it_is_to)
{
	struct ms_newfile_call call = { .path = in("pipe") };
	pid_t reader;

	make_fifo("pipe", geteuid());
	cr_assert_eq(ms_newfile_begin(&call, &file), ENXIO);
	call.wait_ms = 50;
	cr_assert_eq(ms_newfile_begin(&call, &file), ENXIO);
	call.wait_ms = 10000;
	reader = fork();
	if (!reader) {
		usleep(100000);
		(void)open(call.path, O_RDONLY);
		(void)pause();
	}
	cr_assert_eq(ms_newfile_begin(&call, &file), 0);
	cr_assert_eq(ms_newfile_commit(&file), 0);
	kill(reader, SIGKILL);
	waitpid(reader, NULL, 0);
}

Test(newfile, writes_to_devices_that_keep_nothing)
{
	cr_assert_eq(save("/dev/null"), 0);
	make_sticky();
	if (mknod(in("null"), S_IFCHR | 0666, makedev(1, 3)))
		cr_skip_test("no device node can be made here");
	cr_assert_eq(chown(in("null"), SOMEONE, SOMEONE), 0);
	cr_assert_eq(save(in("null")), 0);
}

/* ---- descriptors of its own ---- */

Test(newfile, writes_to_its_descriptors_where_they_stand)
{
	char path[32];
	int fd;

	put("out", "first ", 0600, geteuid());
	fd = open(in("out"), O_WRONLY | O_APPEND);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	cr_assert_eq(check(path), 0);
	cr_assert_eq(save(path), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cr_assert_eq(save(path), 0);
	assert_holds("out", "first newnew");
	cr_assert_eq(symlink(path, in("link")), 0);
	cr_assert_eq(save(in("link")), 0);
	assert_holds("out", "first newnewnew");
	close(fd);
}

Test(newfile, writes_to_pipes_and_sockets_that_it_has)
{
	char path[32];
	char got[8] = "";
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[1]);
	cr_assert_eq(save(path), 0);
	cr_assert_eq(read(ends[0], got, sizeof(got)), 3);
	cr_assert_eq(pipe(ends), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[1]);
	cr_assert_eq(save(path), 0);
	cr_assert_eq(read(ends[0], got, sizeof(got)), 3);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	cr_assert_eq(check(path), EBADF);
	cr_assert_eq(save(path), EBADF);
}

/* ---- names that are chosen later ---- */

Test(newfile, takes_a_free_name_or_replaces_one)
{
	put("first", "old", 0600, geteuid());
	make_fifo("pipe", geteuid());
	cr_assert_eq(ms_newfile_begin_in(folder, &file), 0);
	cr_assert(ms_fd_write_all(file.fd, "new", 3));
	cr_assert_eq(ms_newfile_take(&file, "first"), EEXIST);
	cr_assert_eq(ms_newfile_replace(&file, "pipe"), EPERM);
	cr_assert_eq(ms_newfile_replace(&file, "first"), 0);
	ms_newfile_cancel(&file);
	assert_holds("first", "new");
	cr_assert_eq(ms_newfile_begin_in(folder, &file), 0);
	cr_assert_eq(ms_newfile_take(&file, "second"), 0);
	ms_newfile_cancel(&file);
	assert_holds("second", "");
	cr_assert_eq(entries(), 3);
}

/* ---- without nameless files ---- */

Test(newfile, has_a_temporary_name_where_there_must_be_one)
{
	/* Without /proc no name can be given to what has none. */
	if (geteuid() || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/proc", "tmpfs", 0, NULL))
		cr_skip_test("needs a mount namespace");
	put("old", "old", 0644, 0);
	cr_assert_eq(begin(in("new")), 0);
	cr_assert_eq(entries(), 2);
	cr_assert_eq(strncmp(file.temp, ".memscan-", 9), 0);
	ms_newfile_cancel(&file);
	cr_assert_eq(entries(), 1);
	cr_assert_eq(save(in("new")), 0);
	cr_assert_eq(save(in("old")), 0);
	assert_holds("new", "new");
	assert_holds("old", "new");
	cr_assert_eq(entries(), 2);
	cr_assert_eq(ms_newfile_begin_in(folder, &file), 0);
	cr_assert_eq(ms_newfile_take(&file, "old"), EEXIST);
	cr_assert_eq(ms_newfile_take(&file, "third"), 0);
	ms_newfile_cancel(&file);
	cr_assert_eq(entries(), 3);
	cr_assert_eq(umount2("/proc", MNT_DETACH), 0); /* LeakSanitizer needs it */
}
