/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a frozen child's memory. lsan: off; check: alone */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/page.h"
#include "held.h"
#include "source_suite.h"
#include "target/proc.h"

enum { PAGE = SOURCE_SUITE_PAGE, SAMPLE_PAGES = (12 << 20) / PAGE };

/* What the child tells of itself. */
struct shared {
	unsigned char *at;
	unsigned char *second;
	unsigned char *grown;
	volatile int go;
	volatile int done;
};

static struct shared *shared;
static struct held held;
static struct ms_source *copy;

static void setup(void)
{
	shared = child_memory(sizeof(*shared));
}

TestSuite(copy, .init = setup, .timeout = 60);

static ms_addr addr_of(const void *pointer)
{
	return (uintptr_t)pointer;
}

static pid_t hold(void (*body)(void *arg))
{
	pid_t pid = child_start(body, NULL);

	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_assert_eq(ms_copy_open(held.shared, &held.arena, &held.warnings, &copy, &held.err),
	             MS_OK, "%s", held.err.text);
	return pid;
}

static void let_go(pid_t pid)
{
	copy->ops->close(copy);
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
}

static void sleep_for_ever(void)
{
	child_ready();
	for (;;)
		pause();
}

static void make_sample(void *arg)
{
	(void)arg;
	shared->at = source_suite_map(SAMPLE_PAGES * PAGE);
	sleep_for_ever();
}

Test(copy, is_a_source)
{
	static unsigned char bytes[SAMPLE_PAGES * PAGE];
	pid_t pid = hold(make_sample);
	struct source_sample sample = { addr_of(shared->at), sizeof(bytes), bytes, PAGE };

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = source_suite_byte(i);
	cr_expect_str_eq(copy->ops->name, "copy");
	source_suite_run(copy, &sample);
	cr_expect_not_null(ms_source_view(copy, sample.filled, sizeof(bytes)));
	cr_expect_geq(ms_copy_bytes(copy), sizeof(bytes));
	cr_expect_eq(copy->threads.n, 1);
	cr_expect_eq(copy->threads.at[0].tid, pid);
	cr_expect_eq(held.warnings.n, 0, "%s", held.warnings.at[0].text);
	let_go(pid);
}

/* Grows and shrinks between being prepared for and being frozen. */
static void change_before(void *arg)
{
	/* Room to grow into, kept free until then. */
	unsigned char *room =
		mmap(NULL, 128 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	shared->at = source_suite_map(SAMPLE_PAGES * PAGE);
	shared->grown = room + 32 * PAGE;
	(void)munmap(room, 32 * PAGE);
	(void)munmap(room + 64 * PAGE, 64 * PAGE);
	memset(shared->grown, 5, PAGE);
	child_ready();
	while (!shared->go)
		usleep(1000);
	shared->second = source_suite_map(64 * PAGE);
	(void)mmap(room + 64 * PAGE, 32 * PAGE, PROT_READ | PROT_WRITE,
	           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(room + 64 * PAGE, 6, 32 * PAGE);
	(void)madvise(shared->at, PAGE, MADV_DONTNEED);
	(void)munmap(shared->at + 2 * PAGE, PAGE);
	shared->done = 1;
	for (;;)
		pause();
}

static pid_t prepare_and_hold(void (*body)(void *arg))
{
	pid_t pid = child_start(body, NULL);
	struct ms_source *prepared;
	static struct ms_arena arena;

	cr_assert_eq(ms_copy_prepare(pid, UINT64_MAX, &arena, &prepared, &held.err), MS_OK, "%s",
	             held.err.text);
	shared->go = 1;
	cr_assert(body != change_before || child_waits_for(&shared->done));
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_assert_eq(ms_copy_fill(prepared, held.shared, &held.warnings, &held.err), MS_OK, "%s",
	             held.err.text);
	copy = prepared;
	return pid;
}

Test(copy, is_a_source_after_preparation)
{
	static unsigned char bytes[SAMPLE_PAGES * PAGE];
	pid_t pid = prepare_and_hold(make_sample);
	struct source_sample sample = { addr_of(shared->at), sizeof(bytes), bytes, PAGE };

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = source_suite_byte(i);
	source_suite_run(copy, &sample);
	let_go(pid);
}

Test(copy, preparation_is_corrected_by_what_changed_since)
{
	pid_t pid = prepare_and_hold(change_before);
	unsigned char buf[4 * PAGE];
	const unsigned char *view;

	cr_assert_eq(ms_source_read(copy, addr_of(shared->at), buf, sizeof(buf)), 2 * PAGE);
	cr_expect_eq(buf[0], 0, "dropped since");
	cr_expect_eq(buf[PAGE], source_suite_byte(PAGE));
	cr_expect_eq(ms_source_read(copy, addr_of(shared->at) + 3 * PAGE, buf, 1), 1);
	cr_expect_eq(buf[0], source_suite_byte(3 * PAGE));
	view = ms_source_view(copy, addr_of(shared->second), 64 * PAGE);
	cr_assert_not_null(view, "mapped since");
	for (size_t i = 0; i < 64 * PAGE; i++)
		cr_assert_eq(view[i], source_suite_byte(i));
	view = ms_source_view(copy, addr_of(shared->grown), 64 * PAGE);
	cr_assert_not_null(view, "grown since");
	cr_expect_eq(view[0], 5);
	cr_expect_eq(view[PAGE], 0);
	for (size_t i = 32 * PAGE; i < 64 * PAGE; i++)
		cr_assert_eq(view[i], 6);
	let_go(pid);
}

/* Changes its memory as soon as it runs again. */
static void change_later(void *arg)
{
	(void)arg;
	shared->at = source_suite_map(PAGE);
	child_ready();
	while (!shared->go)
		usleep(1000);
	memset(shared->at, 0, PAGE);
	shared->done = 1;
	for (;;)
		pause();
}

Test(copy, stays_as_it_was_when_the_target_runs_on)
{
	pid_t pid = hold(change_later);
	unsigned char byte = 0;

	cr_assert_eq(ms_collection_release(held.shared, held.channel, &held.err), MS_OK);
	shared->go = 1;
	cr_assert(child_waits_for(&shared->done));
	cr_expect_eq(ms_source_read(copy, addr_of(shared->at) + 77, &byte, 1), 1);
	cr_expect_eq(byte, source_suite_byte(77));
	copy->ops->close(copy);
	child_end(pid);
}

static unsigned char data[2 * PAGE] = { 1, 2, 3 };

/* Anonymous memory of each kind that is easily forgotten, a mark in its second page. */
static void make_kinds(void *arg)
{
	unsigned char *at =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("x", 0);

	(void)arg;
	(void)!ftruncate(fd, 4 * PAGE);
	shared->second = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memcpy(at + PAGE, "anon", 5);
	memcpy(shared->second + PAGE, "memfd", 6);
	memcpy(data + PAGE, "data", 5);
	shared->at = at;
	sleep_for_ever();
}

static const char *text_at(const void *where)
{
	static char text[16];

	memset(text, 0, sizeof(text));
	cr_assert_eq(ms_source_read(copy, addr_of(where), text, 8), 8);
	return text;
}

static bool is_present(const void *where)
{
	ms_addr addr = addr_of(where);
	struct ms_range got;

	return ms_source_present(copy, (struct ms_range){ addr, addr + 8 }, &got);
}

Test(copy, has_shared_memory_and_data)
{
	pid_t pid = hold(make_kinds);

	cr_expect_str_eq(text_at(shared->at + PAGE), "anon");
	cr_expect_str_eq(text_at(shared->second + PAGE), "memfd");
	cr_expect_str_eq(text_at(data + PAGE), "data");
	cr_expect(is_present(shared->at + PAGE));
	cr_expect(is_present(shared->second + PAGE));
	cr_expect(is_present(data + PAGE));
	let_go(pid);
}

Test(copy, reads_clean_file_pages_but_does_not_hold_them)
{
	pid_t pid = hold(make_kinds);
	unsigned char here[64];

	cr_expect_not(is_present((const void *)(uintptr_t)hold), "text");
	cr_assert_eq(ms_source_read(copy, (uintptr_t)hold, here, sizeof(here)), sizeof(here));
	cr_expect_arr_eq(here, (const void *)(uintptr_t)hold, sizeof(here));
	cr_expect_null(ms_source_view(copy, (uintptr_t)hold, 64));
	let_go(pid);
}

static void hide_a_page(void *arg)
{
	(void)arg;
	shared->at = source_suite_map(8 * PAGE);
	(void)mprotect(shared->at + 2 * PAGE, PAGE, PROT_NONE);
	sleep_for_ever();
}

Test(copy, has_pages_without_access)
{
	pid_t pid = hold(hide_a_page);
	const unsigned char *view = ms_source_view(copy, addr_of(shared->at), 8 * PAGE);

	cr_assert_not_null(view, "across three mappings");
	for (size_t i = 0; i < 8 * PAGE; i++)
		cr_assert_eq(view[i], source_suite_byte(i), "byte %zu", i);
	cr_expect_eq(held.warnings.n, 0);
	let_go(pid);
}

static void reserve_much(void *arg)
{
	unsigned char *at;

	(void)arg;
	shared->at = mmap(NULL, (size_t)8 << 40, PROT_NONE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	at = shared->at + ((size_t)4 << 40);
	(void)mprotect(at, PAGE, PROT_READ | PROT_WRITE);
	memcpy(at, "far out", 8);
	sleep_for_ever();
}

Test(copy, terabytes_of_reserved_space_cost_nothing)
{
	pid_t pid = hold(reserve_much);

	cr_expect_str_eq(text_at(shared->at + ((size_t)4 << 40)), "far out");
	cr_expect_str_eq(text_at(shared->at + ((size_t)7 << 40)), "");
	cr_expect_lt(held.shared->freeze_ns, 1000000000u);
	let_go(pid);
}

/* A page of a file behind its end: mapped, and readable by nobody. */
static void map_beyond_a_file(void *arg)
{
	char name[] = "/tmp/memscan-short-XXXXXX";
	int fd = mkstemp(name);

	(void)arg;
	(void)unlink(name);
	(void)!ftruncate(fd, 4 * PAGE);
	shared->at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	memset(shared->at, 7, PAGE);
	(void)!ftruncate(fd, PAGE);
	sleep_for_ever();
}

Test(copy, what_lies_behind_a_files_end_ends_a_read)
{
	pid_t pid = hold(map_beyond_a_file);
	unsigned char buf[2 * PAGE];

	cr_expect_eq(ms_source_read(copy, addr_of(shared->at), buf, sizeof(buf)), PAGE);
	cr_expect_eq(ms_source_read(copy, addr_of(shared->at) + PAGE, buf, 8), 0);
	cr_expect_eq(held.warnings.n, 0);
	let_go(pid);
}

/* Secret memory is resident, and no other process can read it. */
static void map_secret_memory(void *arg)
{
	int fd = (int)syscall(SYS_memfd_secret, 0);

	(void)arg;
	if (fd < 0)
		_exit(1);
	(void)!ftruncate(fd, 4 * PAGE);
	shared->at = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(shared->at, 7, 3 * PAGE);
	sleep_for_ever();
}

static bool has_secret_memory(void)
{
	int fd = (int)syscall(SYS_memfd_secret, 0);

	return fd >= 0 && !close(fd);
}

Test(copy, what_cannot_be_read_is_told)
{
	unsigned char buf[8];
	char text[40];
	pid_t pid;

	if (!has_secret_memory())
		cr_skip_test("this kernel has no memfd_secret()");
	pid = hold(map_secret_memory);
	cr_expect_eq(ms_source_read(copy, addr_of(shared->at), buf, sizeof(buf)), 0);
	cr_assert_eq(held.warnings.n, 1);
	(void)snprintf(text, sizeof(text), "%zu pages of /secretmem", 3 * PAGE / ms_page_bytes());
	cr_expect(strstr(held.warnings.at[0].text, text), "%s", held.warnings.at[0].text);
	cr_assert_eq(copy->unseen.n, 1);
	cr_expect_eq(ms_range_len(copy->unseen.at[0]), 3 * PAGE);
	let_go(pid);
}

Test(copy, a_target_killed_while_it_is_frozen_is_gone)
{
	pid_t pid = child_start(make_sample, NULL);
	enum ms_status st;

	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	/* Its parent can reap it only when its tracer let go. */
	kill(pid, SIGKILL);
	for (int i = 0; i < 1000 && ms_proc_state(pid) != 'Z'; i++)
		usleep(1000);
	st = ms_copy_open(held.shared, &held.arena, &held.warnings, &copy, &held.err);
	cr_expect_eq(st, MS_E_GONE, "%d %s", st, held.err.text);
	(void)!held_release(&held);
	child_end(pid);
}
