/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/target.h"

/* Enter the sandbox in a child, run @body and tell how the child ended. */
static int status_of(void (*body)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		struct ms_error err;

		if (ms_sandbox_enter(&err))
			syscall(SYS_exit_group, 99);
		body();
		syscall(SYS_exit_group, 7);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void open_file(void)
{
	(void)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY);
}

static void make_socket(void)
{
	(void)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
}

static void make_process(void)
{
	(void)syscall(SYS_fork);
}

static void run_program(void)
{
	(void)syscall(SYS_execve, "/bin/true", NULL, NULL);
}

static void kill_parent(void)
{
	(void)syscall(SYS_kill, getppid(), 0);
}

/* getpid in its x32 form: the number carries a bit more. */
static void call_x32(void)
{
	(void)syscall(0x40000000 | SYS_read, -1, NULL, 0);
}

static void call_32_bit(void)
{
	__asm__ volatile("int $0x80" : : "a"(20) : "memory", "r8", "r9", "r10", "r11");
}

static void do_what_sweeping_needs(void)
{
	char byte;
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	page = mremap(page, 4096, 8192, MREMAP_MAYMOVE);
	memset(page, 1, 8192);
	(void)munmap(page, 8192);
	(void)!pread(0, &byte, 0, 0);
	(void)!write(2, "", 0);
}

static const struct {
	const char *what;
	void (*body)(void);
	bool killed;
} cases[] = {
	{ "opening a file", open_file, true },
	{ "making a socket", make_socket, true },
	{ "making a process", make_process, true },
	{ "running a program", run_program, true },
	{ "signalling another process", kill_parent, true },
	{ "an x32 call", call_x32, true },
	{ "a 32-bit call", call_32_bit, true },
	{ "what sweeping needs", do_what_sweeping_needs, false },
};

Test(sandbox, kills_at_a_call_that_sweeping_does_not_need)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status = status_of(cases[i].body);

		if (cases[i].killed)
			cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%s: %#x",
			          cases[i].what, status);
		else
			cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%s: %#x",
			          cases[i].what, status);
	}
}
