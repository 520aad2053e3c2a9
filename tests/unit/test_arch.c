/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <libunwind.h>
#include <sys/syscall.h>

#include "target/arch/arch.h"

#ifdef __aarch64__
#include "arch_aarch64.h"
#else
#include "arch_x86_64.h"
#endif

static const struct ms_arch *const arch = &ms_native_arch;

/* libunwind asks for registers by its own numbers. */
Test(arch, registers_are_numbered_as_libunwind_does)
{
	cr_expect_eq(arch->dwarf_pc, LIBUNWIND_PC);
	cr_expect_eq(arch->dwarf_sp, UNW_REG_SP);
	cr_expect_leq(arch->n_dwarf, MS_DWARF_REGISTERS);
	cr_expect_lt(arch->dwarf_pc, arch->n_dwarf);
	cr_expect_lt(arch->dwarf_sp, arch->n_dwarf);
}

/* The gadget is where the call's instruction is; the kernel shows where it ends. */
Test(arch, a_call_is_as_long_as_the_instruction_that_is_found)
{
	struct ms_gadgets found = { 0 };

	arch->calls->find(call_and_return, sizeof(call_and_return), 0x1000, &found);
	cr_expect_eq(found.call, 0x1000 + CALL_AT);
	cr_expect_eq(call_and_return[CALL_AT + arch->call_bytes], RETURN_BYTE);
}

static const struct {
	int64_t call;
	enum ms_restart restart;
} restarts[] = {
#ifdef SYS_epoll_wait
	{ SYS_epoll_wait, MS_RESTART_ALWAYS },
#endif
	{ SYS_epoll_pwait, MS_RESTART_ALWAYS },
	{ SYS_semop, MS_RESTART_ALWAYS },
	{ SYS_semtimedop, MS_RESTART_ALWAYS },
	{ SYS_rt_sigtimedwait, MS_RESTART_ALWAYS },
	{ SYS_io_uring_enter, MS_RESTART_ALWAYS },
	{ SYS_recvfrom, MS_RESTART_ALWAYS },
	{ SYS_connect, MS_RESTART_ALWAYS },
	{ SYS_read, MS_RESTART_SOCKET },
	{ SYS_writev, MS_RESTART_SOCKET },
	/* Whether it closed before it was broken off cannot be told: never twice. */
	{ SYS_close, MS_RESTART_NEVER },
	{ SYS_ioctl, MS_RESTART_NEVER },
	{ -1, MS_RESTART_NEVER },
};

Test(arch, calls_that_return_eintr_after_a_stop_are_known)
{
	for (size_t i = 0; i < sizeof(restarts) / sizeof(restarts[0]); i++)
		cr_expect_eq(arch->restart(restarts[i].call), restarts[i].restart, "call %lld",
		             (long long)restarts[i].call);
}

static const struct {
	int64_t call;
	struct ms_timed timed;
} timeouts[] = {
#ifdef SYS_epoll_wait
	{ SYS_epoll_wait, { MS_TIMEOUT_MS, 3 } },
#endif
	{ SYS_epoll_pwait, { MS_TIMEOUT_MS, 3 } },
	{ SYS_epoll_pwait2, { MS_TIMEOUT_SPEC, 3 } },
	{ SYS_semtimedop, { MS_TIMEOUT_SPEC, 3 } },
	{ SYS_rt_sigtimedwait, { MS_TIMEOUT_SPEC, 2 } },
	{ SYS_io_getevents, { MS_TIMEOUT_SPEC, 4 } },
	{ SYS_io_pgetevents, { MS_TIMEOUT_SPEC, 4 } },
	{ SYS_recvfrom, { MS_TIMEOUT_RECEIVE, 0 } },
	{ SYS_accept4, { MS_TIMEOUT_RECEIVE, 0 } },
	{ SYS_sendmsg, { MS_TIMEOUT_SEND, 0 } },
	{ SYS_connect, { MS_TIMEOUT_NONE, 0 } }, /* at its end it says EINPROGRESS */
	{ SYS_semop, { MS_TIMEOUT_NONE, 0 } },
	{ SYS_ppoll, { MS_TIMEOUT_NONE, 0 } }, /* the kernel restarts it */
	{ -1, { MS_TIMEOUT_NONE, 0 } },
};

Test(arch, timeouts_of_calls_that_are_made_again_are_known)
{
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		struct ms_timed timed = arch->timed(timeouts[i].call);

		cr_expect_eq(timed.how, timeouts[i].timed.how, "call %lld",
		             (long long)timeouts[i].call);
		cr_expect_eq(timed.arg, timeouts[i].timed.arg, "call %lld",
		             (long long)timeouts[i].call);
	}
}

Test(arch, repeating_instructions_are_told_from_others_with_that_prefix)
{
	for (size_t i = 0; i < sizeof(instructions) / sizeof(instructions[0]); i++)
		cr_expect_eq(arch->stepping->repeats(instructions[i].code, instructions[i].len),
		             instructions[i].repeats, "%s", instructions[i].what);
}

Test(arch, return_addresses_stand_behind_calls)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		cr_expect_eq(arch->stepping->is_call(calls[i].before, sizeof(calls[i].before)),
		             calls[i].call, "%s", calls[i].what);
}
