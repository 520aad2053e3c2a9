/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/syscall.h>

#include "target/freeze/rewind.h"

enum { RESTARTSYS = 512, SIGUSR1_BIT = 1 << 9, SIGCHLD_BIT = 1 << 16 };

static const struct {
	const char *what;
	struct ms_broken_call broken;
	bool rewound;
} cases[] = {
	{ "epoll_wait, broken off by us",
	  { -EINTR, SYS_epoll_pwait, MS_RESTART_ALWAYS, false, false, 0, 0 },
	  true },
	{ "a call that returned events",
	  { 3, SYS_epoll_pwait, MS_RESTART_ALWAYS, false, false, 0, 0 },
	  false },
	{ "another error",
	  { -EBADF, SYS_epoll_pwait, MS_RESTART_ALWAYS, false, false, 0, 0 },
	  false },
	{ "one that the kernel restarts",
	  { -RESTARTSYS, SYS_read, MS_RESTART_SOCKET, true, false, 0, 0 },
	  false },
	{ "no system call at all", { -EINTR, -1, MS_RESTART_ALWAYS, false, false, 0, 0 }, false },
	{ "a call that is not in the table",
	  { -EINTR, SYS_close, MS_RESTART_NEVER, false, false, 0, 0 },
	  false },
	{ "read of a socket", { -EINTR, SYS_read, MS_RESTART_SOCKET, true, false, 0, 0 }, true },
	{ "read of something else",
	  { -EINTR, SYS_read, MS_RESTART_SOCKET, false, false, 0, 0 },
	  false },
	{ "stopped by SIGSTOP before",
	  { -EINTR, SYS_semop, MS_RESTART_ALWAYS, false, true, 0, 0 },
	  false },
	{ "a signal with a handler",
	  { -EINTR, SYS_semop, MS_RESTART_ALWAYS, false, false, SIGUSR1_BIT, SIGUSR1_BIT },
	  false },
	{ "a signal that is ignored",
	  { -EINTR, SYS_semop, MS_RESTART_ALWAYS, false, false, SIGCHLD_BIT, SIGUSR1_BIT },
	  true },
	{ "handlers, but no signal",
	  { -EINTR, SYS_semop, MS_RESTART_ALWAYS, false, false, 0, SIGUSR1_BIT },
	  true },
};

Test(rewind, a_call_is_given_back_when_only_we_broke_it_off)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(ms_rewind_wanted(&cases[i].broken), cases[i].rewound, "%s",
		             cases[i].what);
}
