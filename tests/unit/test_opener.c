/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a core or of a process lead to files that its author may read, and to no others. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "sym/files.h"
#include "sym/opener.h"

enum { OTHER = 4711 };

static char top[] = "/tmp/memscan-opener-XXXXXX";
static const char *asked; /* the path of the file with the number 0 */
static struct ms_opener opener;
static struct ms_error err;

static const char *in_top(const char *name)
{
	static char paths[4][128];
	static size_t next;
	char *ret = paths[next++ % 4];

	(void)snprintf(ret, sizeof(paths[0]), "%s/%s", top, name);
	return ret;
}

static void put_folder(const char *name, mode_t mode)
{
	cr_assert_eq(mkdir(in_top(name), 0755), 0);
	cr_assert_eq(chmod(in_top(name), mode), 0);
}

static void put_file(const char *name, mode_t mode)
{
	int fd = open(in_top(name), O_WRONLY | O_CREAT | O_EXCL, 0600);

	cr_assert(fd >= 0 && fchmod(fd, mode) == 0);
	cr_assert(ms_fd_write_all(fd, name, strlen(name)));
	(void)close(fd);
}

static bool only_one(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	(void)files;
	*ret = (struct ms_opener_file){ .path = asked };
	return number == 0;
}

static void be_ready(uid_t uid)
{
	ms_opener_init(&opener, 0, uid);
	opener.file = only_one;
	opener.n = 1;
}

static void make_top(void)
{
	cr_assert(mkdtemp(top) && chmod(top, 0755) == 0);
	put_folder("open", 0755);
	put_folder("closed", 0700);
	put_folder("users", 0700);
	put_file("open/file", 0644);
	put_file("open/secret", 0600);
	put_file("closed/file", 0644);
	put_file("users/file", 0600);
	cr_assert_eq(symlink(in_top("open/secret"), in_top("open/to-secret")), 0);
	cr_assert_eq(symlink(in_top("closed"), in_top("open/to-closed")), 0);
	if (geteuid() == 0) {
		cr_assert_eq(chown(in_top("users"), OTHER, OTHER), 0);
		cr_assert_eq(chown(in_top("users/file"), OTHER, OTHER), 0);
	}
}

static void remove_top(void)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf %s", top);
	cr_assert_eq(system(command), 0);
}

TestSuite(opener, .init = make_top, .fini = remove_top);

/* What file @name is, as the file with code itself; "": there is none. */
static const char *text_of(const struct ms_file_question *question)
{
	static char text[64];
	struct ms_file_answer answer;
	int fd = ms_opener_find(&opener, question, &answer);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		(void)close(fd);
	return text;
}

static const char *code_at(const char *path)
{
	asked = path;
	return text_of(&(const struct ms_file_question){ .kind = MS_FILE_CODE });
}

static void need_root(void)
{
	if (geteuid() == 0)
		return;
	remove_top(); /* which a test that is skipped does not come to */
	cr_skip_test("only root has rights to give away");
}

Test(opener, of_a_core_gives_files_that_everyone_may_read_alone)
{
	need_root();
	be_ready(MS_OPENER_EVERYONE);
	cr_expect_str_eq(code_at(in_top("open/file")), "open/file");
	cr_expect_str_eq(code_at(in_top("open/secret")), "");
	cr_expect_str_eq(code_at(in_top("open/to-secret")), "");
	cr_expect_str_eq(code_at(in_top("closed/file")), "");
	cr_expect_str_eq(code_at(in_top("open/to-closed/file")), "");
	cr_expect_str_eq(code_at(in_top("open/../closed/../open/file")), "");
	cr_expect_str_eq(code_at(in_top("users/file")), "");
}

Test(opener, of_a_process_gives_its_users_files_as_well)
{
	need_root();
	be_ready(OTHER);
	cr_expect_str_eq(code_at(in_top("open/file")), "open/file");
	cr_expect_str_eq(code_at(in_top("users/file")), "users/file");
	cr_expect_str_eq(code_at(in_top("open/secret")), "");
	cr_expect_str_eq(code_at(in_top("closed/file")), "");
}

Test(opener, of_a_given_folder_is_not_led_out_of_it)
{
	const struct ms_file_question secret = { .kind = MS_FILE_DEBUG, .name = "secret" };
	const struct ms_file_question link = { .kind = MS_FILE_DEBUG, .name = "to-secret" };
	char path[256];

	put_folder("given", 0755);
	be_ready(MS_OPENER_EVERYONE);
	opener.folder = in_top("given");
	opener.roots[1] = NULL;
	asked = "/../open/program";
	cr_expect_str_eq(text_of(&secret), "");
	cr_expect_str_eq(text_of(&link), "");
	asked = "/program";
	cr_assert_eq(symlink(in_top("open/secret"), in_top("given/to-secret")), 0);
	cr_expect_str_eq(text_of(&link), "");
	put_file("given/secret", 0600);
	asked = "/../program";
	cr_expect_str_eq(text_of(&secret), "given/secret", "what is in there is the caller's");
	(void)snprintf(path, sizeof(path), "/%s/program", "x");
	asked = path;
	cr_expect_str_eq(text_of(&secret), "given/secret");
}

/* ---- names of a heap dump ---- */

static bool is_found(const char *folder, const char *path)
{
	struct ms_symbol_folder at = { .path = folder };
	const struct ms_symbol_folders folders = { .at = &at, .n = 1 };
	const struct ms_mapped_file mapped = { .path = path };
	int fd = ms_symbol_folders_open(&folders, &mapped);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

Test(opener, of_a_heap_dump_stays_in_the_folder_that_was_given)
{
	put_folder("given", 0755);
	put_file("given/file", 0600);
	cr_assert_eq(symlink(in_top("open/file"), in_top("given/out")), 0);
	cr_assert_eq(symlink("../open", in_top("given/up")), 0);
	cr_expect(is_found(in_top("given"), "/file"));
	cr_expect_not(is_found(in_top("given"), "/out"));
	cr_expect_not(is_found(in_top("given"), "/up/file"));
	cr_expect_not(is_found(in_top("given"), "/../open/file"));
}

/* ---- the cache of debuginfod ---- */

static enum ms_status check_with(const char *name, const char *value)
{
	(void)unsetenv("DEBUGINFOD_CACHE_PATH");
	(void)unsetenv("XDG_CACHE_HOME");
	(void)setenv("HOME", in_top("open"), 1);
	(void)setenv(name, value, 1);
	return ms_fetch_check(&err);
}

Test(opener, asks_debuginfod_with_a_cache_of_its_own_alone)
{
	static const char *const names[] = { "DEBUGINFOD_CACHE_PATH", "XDG_CACHE_HOME", "HOME" };

	put_folder("everyones", 0777);
	put_folder("sticky", 01777);
	put_folder("sticky/mine", 0700);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cr_expect_eq(check_with(names[i], in_top("open")), MS_OK, "%s", names[i]);
		cr_expect_eq(check_with(names[i], in_top("open/new")), MS_OK, "%s", names[i]);
		cr_expect_eq(check_with(names[i], in_top("sticky/mine")), MS_OK, "%s", names[i]);
		cr_expect_eq(check_with(names[i], in_top("everyones")), MS_E_DENIED, "%s",
		             names[i]);
		cr_expect_eq(check_with(names[i], in_top("sticky/new")), MS_E_DENIED, "%s",
		             names[i]);
		cr_expect_eq(check_with(names[i], "relative"), MS_E_DENIED, "%s", names[i]);
	}
}

Test(opener, asks_debuginfod_with_no_cache_of_somebody_else)
{
	need_root();
	cr_expect_eq(check_with("HOME", in_top("users")), MS_E_DENIED);
	cr_expect(strstr(err.text, "users/.cache/debuginfod_client"), "%s", err.text);
	cr_expect(strstr(err.text, "may write there"), "%s", err.text);
	cr_assert_eq(symlink(in_top("users"), in_top("open/.debuginfod_client_cache")), 0);
	cr_expect_eq(check_with("HOME", in_top("open")), MS_E_DENIED, "by a link");
}
