/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/worker.h"
#include "sanitized.h"
#include "target/proc.h"

static const uint64_t minute_ns = UINT64_C(60000000000);

static struct ms_error err;

static struct ms_worker start(int (*work)(void *ctx, const struct ms_worker_side *side),
                              uint64_t limit_ns)
{
	const struct ms_worker_call call = {
		.title = "test", .work = work, .limit_ns = limit_ns, .keep = -1
	};
	struct ms_worker worker;

	cr_assert_eq(ms_worker_start(&call, &worker, &err), MS_OK);
	return worker;
}

/* Read it to its end; false when that does not come in time. */
static bool hear(const struct ms_worker *worker, const char *expected)
{
	char text[64] = "";
	size_t n = 0;
	ssize_t more;

	while ((more = ms_worker_read(worker, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)more;
	cr_assert_str_eq(text, expected);
	return more == 0;
}

static int tell_and_end(void *ctx, const struct ms_worker_side *side)
{
	(void)ctx;
	return write(side->fd, "hello", 5) == 5 ? 0 : 1;
}

/* The end of what it tells is not its own. */
static int tell_and_stay(void *ctx, const struct ms_worker_side *side)
{
	(void)tell_and_end(ctx, side);
	(void)close(side->fd);
	for (;;)
		(void)syscall(SYS_read, -1, NULL, 0);
	return 0;
}

static int stay(void *ctx, const struct ms_worker_side *side)
{
	(void)ctx;
	(void)side;
	for (;;)
		(void)syscall(SYS_read, -1, NULL, 0);
	return 0;
}

static int fail(void *ctx, const struct ms_worker_side *side)
{
	(void)tell_and_end(ctx, side);
	return 3;
}

static void is_gone(const struct ms_worker *worker)
{
	cr_assert_neq(kill(worker->pid, 0), 0);
}

Test(worker, what_it_tells_is_heard)
{
	struct ms_worker worker = start(tell_and_end, minute_ns);

	cr_assert(hear(&worker, "hello"));
	cr_assert(ms_worker_end(&worker, true));
	is_gone(&worker);
}

Test(worker, that_fails_says_so)
{
	struct ms_worker worker = start(fail, minute_ns);

	cr_assert(hear(&worker, "hello"));
	cr_assert_not(ms_worker_end(&worker, true));
}

Test(worker, that_says_nothing_is_not_waited_for, .timeout = 30)
{
	struct ms_worker worker = start(stay, minute_ns / 600);

	cr_assert_not(hear(&worker, ""));
	cr_assert_not(ms_worker_end(&worker, false));
	is_gone(&worker);
}

Test(worker, that_told_all_and_stays_is_not_waited_for, .timeout = 30)
{
	struct ms_worker worker = start(tell_and_stay, minute_ns / 600);

	(void)hear(&worker, "hello");
	cr_assert_not(ms_worker_end(&worker, true));
	is_gone(&worker);
}

/* ---- what it is, and has ---- */

static struct ms_worker start_call(struct ms_worker_call *call)
{
	struct ms_worker worker;

	call->title = "test";
	call->limit_ns = minute_ns;
	cr_assert_eq(ms_worker_start(call, &worker, &err), MS_OK, "%s", err.text);
	return worker;
}

/* What a worker told in bytes that are not text. */
static void hear_bytes(const struct ms_worker *worker, void *ret, size_t len)
{
	for (char *at = ret; len > 0;) {
		ssize_t n = ms_worker_read(worker, at, len);

		cr_assert_gt(n, 0, "it ended early");
		at += n;
		len -= (size_t)n;
	}
}

static bool has_field(const char *text, const char *key, const char *value)
{
	const char *at = strstr(text, key);

	if (!at)
		return false;
	at += strlen(key);
	at += strspn(at, "\t ");
	return strncmp(at, value, strlen(value)) == 0 && strchr(" \n\t", at[strlen(value)]);
}

static int count_open(pid_t pid)
{
	char path[64];
	int n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	cr_assert(dir, "as root");
	for (const struct dirent *entry; (entry = readdir(dir));)
		n += entry->d_name[0] != '.';
	(void)closedir(dir);
	return n;
}

static const struct {
	const char *file, *key, *value;
	bool of_root;
} facts[] = {
	{ "status", "\nUid:", "4711\t4711\t4711\t4711", true },
	{ "status", "\nGid:", "4712\t4712\t4712\t4712", true },
	{ "status", "\nGroups:", "", true },
	{ "status", "\nCapPrm:", "0000000000000000", false },
	{ "status", "\nCapEff:", "0000000000000000", false },
	{ "status", "\nCapInh:", "0000000000000000", false },
	{ "status", "\nCapBnd:", "0000000000000000", true },
	{ "status", "\nNoNewPrivs:", "1", false },
	{ "status", "\nSeccomp:", "2", false },
	{ "limits", "Max cpu time", "61", false },
	{ "limits", "Max core file size", "0", false },
	{ "limits", "Max open files", "1024", false },
};

Test(worker, has_no_rights)
{
	struct ms_worker_call call = { .work = stay, .uid = 4711, .gid = 4712, .keep = -1 };
	struct ms_worker worker = start_call(&call);
	static char text[8192];

	if (SANITIZED)
		cr_skip_test("workers are not confined under AddressSanitizer");
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		if (facts[i].of_root && geteuid() != 0)
			continue;
		cr_assert_gt(ms_proc_read(worker.pid, facts[i].file, text, sizeof(text)), 0);
		cr_expect(has_field(text, facts[i].key, facts[i].value), "%s %s", facts[i].key,
		          strstr(text, facts[i].key));
	}
	if (geteuid() == 0)
		cr_expect_eq(count_open(worker.pid), 1);
	(void)ms_worker_end(&worker, false);
}

/* ---- memory ---- */

static int take_memory(void *ctx, const struct ms_worker_side *side)
{
	enum { PIECE = 1 << 20 };
	const uint64_t most = UINT64_C(4) << 30;
	uint64_t taken = 0;

	(void)ctx;
	/* As malloc() would, where the first way fails. */
	while (taken < most && mmap(NULL, PIECE, PROT_READ | PROT_WRITE,
	                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		taken += PIECE;
	while (taken < most && sbrk(PIECE) != (void *)-1)
		taken += PIECE;
	return write(side->fd, &taken, sizeof(taken)) == sizeof(taken) ? 0 : 1;
}

Test(worker, gets_no_more_than_its_memory)
{
	struct ms_arena large = { 0 };
	struct ms_worker_call call = { .work = take_memory, .keep = -1, .held = { &large } };
	struct ms_worker worker;
	uint64_t taken;

	if (SANITIZED)
		cr_skip_test("workers are not confined under AddressSanitizer");
	/* What it has by the fork does not count, for it is not for writing. */
	cr_assert(ms_arena_alloc(&large, (size_t)3 << 30));
	worker = start_call(&call);
	hear_bytes(&worker, &taken, sizeof(taken));
	cr_expect_leq(taken, UINT64_C(1) << 30);
	cr_expect_geq(taken, UINT64_C(1000) << 20);
	(void)ms_worker_end(&worker, true);
	ms_arena_deinit(&large);
}

/* Read, and then written to. */
static int write_to(void *ctx, const struct ms_worker_side *side)
{
	char *volatile at = ctx;
	bool refused = mprotect(at, 1, PROT_READ | PROT_WRITE) != 0;

	if (write(side->fd, at, 1) != 1 || write(side->fd, refused ? "r" : "w", 1) != 1)
		return 1;
	*at = 'x';
	(void)!write(side->fd, "!", 1);
	return 0;
}

Test(worker, may_read_what_it_has_by_the_fork_but_not_write)
{
	struct ms_arena arena = { 0 };
	char *piece = ms_arena_alloc(&arena, 100);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ms_worker_call of_arena = {
		.work = write_to, .ctx = piece, .keep = -1, .held = { &arena }
	};
	struct ms_worker_call of_shared = { .work = write_to,
		                            .ctx = page,
		                            .keep = -1,
		                            .shared = { (uintptr_t)page, (uintptr_t)page + 4096 } };
	struct ms_worker worker;

	if (SANITIZED)
		cr_skip_test("workers are not confined under AddressSanitizer");
	*piece = 'a';
	*page = 'b';
	worker = start_call(&of_arena);
	cr_expect(hear(&worker, "ar"));
	cr_expect_not(ms_worker_end(&worker, true));
	worker = start_call(&of_shared);
	cr_expect(hear(&worker, "br"));
	cr_expect_not(ms_worker_end(&worker, true));
	cr_expect_eq(*page, 'b');
	(void)munmap(page, 4096);
	ms_arena_deinit(&arena);
}

/* ---- files ---- */

static char folder[] = "/tmp/memscan-worker-XXXXXX";
static char code[64], beside[64], secret[64], pipe_name[64], given[64], users[64];

static void put_file(char *ret, const char *name, const char *text, mode_t mode)
{
	int fd;

	(void)snprintf(ret, 64, "%s/%s", folder, name);
	fd = open(ret, O_WRONLY | O_CREAT | O_TRUNC, mode);
	cr_assert(fd >= 0 && fchmod(fd, mode) == 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

static void make_files(void)
{
	cr_assert(mkdtemp(folder) && chmod(folder, 0755) == 0);
	put_file(code, "code", "code", 0755);
	put_file(beside, "code.debug", "debug", 0644);
	put_file(secret, "secret", "secret", 0600);
	put_file(users, "users", "users", 0600);
	(void)snprintf(pipe_name, sizeof(pipe_name), "%s/pipe", folder);
	cr_assert_eq(mkfifo(pipe_name, 0644), 0);
	(void)snprintf(given, sizeof(given), "%s/link", folder);
	cr_assert_eq(symlink(secret, given), 0);
	if (geteuid() == 0)
		cr_assert_eq(chown(users, 4711, 4711), 0);
}

static void remove_files(void)
{
	const char *all[] = { code, beside, secret, users, pipe_name, given, folder };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		(void)remove(all[i]);
}

/* More numbers than the opener is given. */
static bool only_code(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	(void)files;
	*ret = (struct ms_opener_file){ .path = code };
	return number <= 1;
}

static const struct {
	struct ms_file_question question;
	const char *text; /* "": there is no such file; for root */
} questions[] = {
	/* whoever ends by them gives nothing from there on */
	{ { .kind = MS_FILE_COMMON, .id_len = 1000 }, "" },
	{ { .kind = MS_FILE_DEBUG, .id_len = MS_FILE_ID + 1, .name = "code.debug" }, "" },
	{ { .kind = 77 }, "" },
	{ { .kind = UINT32_MAX }, "" },
	{ { .kind = MS_FILE_CODE }, "code" },
	{ { .kind = MS_FILE_CODE, .place = 3 }, "code" },
	{ { .kind = MS_FILE_CODE, .place = 4 }, "" },
	{ { .kind = MS_FILE_CODE, .place = UINT32_MAX }, "" },
	{ { .kind = MS_FILE_CODE, .code = 1 }, "" },
	{ { .kind = MS_FILE_CODE, .code = UINT32_MAX }, "" },
	{ { .kind = MS_FILE_DEBUG, .name = "code.debug" }, "debug" },
	{ { .kind = MS_FILE_DEBUG, .name = "users" }, "users" },
	{ { .kind = MS_FILE_DEBUG, .name = "secret" }, "" },
	{ { .kind = MS_FILE_DEBUG, .name = "link" }, "" },
	{ { .kind = MS_FILE_DEBUG, .name = "pipe" }, "" },
	{ { .kind = MS_FILE_DEBUG, .name = "." }, "" },
	{ { .kind = MS_FILE_DEBUG, .name = ".." }, "" },
	{ { .kind = MS_FILE_DEBUG, .name = "../../etc/passwd" }, "" },
	{ { .kind = MS_FILE_DEBUG, .name = "/etc/passwd" }, "" },
	{ { .kind = MS_FILE_DEBUG, .code = 1, .name = "code.debug" }, "" },
	{ { .kind = MS_FILE_COMMON, .name = "../../../etc/passwd" }, "" },
	{ { .kind = MS_FILE_COMMON, .name = "a/../../../../etc/passwd" }, "" },
	{ { .kind = MS_FILE_COMMON, .name = "/etc/passwd" }, "" },
	{ { .kind = MS_FILE_SERVER, .id_len = 20 }, "" },
};

static int ask_all(void *ctx, const struct ms_worker_side *side)
{
	(void)ctx;
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		char text[16] = "";
		struct ms_file_answer answer;
		int fd = side->finder->find(side->finder->ctx, &questions[i].question, &answer);

		if (fd >= 0 && (read(fd, text, sizeof(text) - 1) < 0 || write(fd, "x", 1) > 0))
			(void)strcpy(text, "?");
		(void)close(fd);
		if (write(side->fd, text, sizeof(text)) != sizeof(text))
			return 1;
	}
	return 0;
}

Test(worker, gets_files_by_what_they_are_and_no_others, .init = make_files, .fini = remove_files)
{
	struct ms_opener opener;
	struct ms_worker_call call = { .work = ask_all, .keep = -1, .opener = &opener };
	struct ms_worker worker;

	ms_opener_init(&opener, 0, 4711);
	opener.file = only_code;
	opener.n = 1;
	worker = start_call(&call);
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		bool is_mine = geteuid() != 0 && questions[i].question.kind == MS_FILE_DEBUG &&
		               (strcmp(questions[i].question.name, "secret") == 0 ||
		                strcmp(questions[i].question.name, "link") == 0);
		char text[16];

		hear_bytes(&worker, text, sizeof(text));
		cr_expect_str_eq(text, is_mine ? "secret" : questions[i].text, "question %zu", i);
	}
	cr_assert(ms_worker_end(&worker, true));
}

/* It gets answers for a while. */
static int ask_endlessly(void *ctx, const struct ms_worker_side *side)
{
	const struct ms_file_question question = { .kind = MS_FILE_CODE };
	struct ms_file_answer answer;
	uint64_t n = 0;
	int fd;

	(void)ctx;
	while ((fd = side->finder->find(side->finder->ctx, &question, &answer)) >= 0) {
		(void)close(fd);
		n++;
	}
	return write(side->fd, &n, sizeof(n)) == sizeof(n) ? 0 : 1;
}

Test(worker, is_not_answered_for_ever, .init = make_files, .fini = remove_files, .timeout = 30)
{
	struct ms_opener opener;
	struct ms_worker_call call = { .work = ask_endlessly, .keep = -1, .opener = &opener };
	struct ms_worker worker;
	uint64_t n;

	if (SANITIZED) {
		remove_files(); /* which a test that is skipped does not come to */
		cr_skip_test("workers are not confined under AddressSanitizer");
	}
	ms_opener_init(&opener, 0, 4711);
	opener.file = only_code;
	opener.n = 1;
	worker = start_call(&call);
	hear_bytes(&worker, &n, sizeof(n));
	cr_expect_eq(n, 128);
	cr_assert(ms_worker_end(&worker, true));
}
