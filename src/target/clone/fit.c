/* SPDX-License-Identifier: Apache-2.0 */
#include "target/clone/fit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/syscalls.h"
#include "target/proc.h"
#include "target/room.h"

enum {
	GET_DISPATCH = 0x4211, /* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, Linux 6.4 */
	GET_RSEQ = 0x420f,     /* PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13 */
	RSEQ_CS = 8,           /* offset in struct rseq */
};

#define SIGSYS_BIT (UINT64_C(1) << (SIGSYS - 1))

struct ms_wanted_call ms_fit_wanted(const struct ms_injection *in, const char *name,
                                    struct ms_call call)
{
	struct ms_wanted_call ret = {
		.name = name,
		.data = { .nr = (int)ms_arch_call(in->arch, call.nr),
		          .arch = in->arch->audit,
		          .instruction_pointer = in->gadgets->call + in->arch->call_bytes },
	};

	for (size_t i = 0; i < 6; i++)
		ret.data.args[i] = call.args[i];
	return ret;
}

/* Whether this kernel can hand a system call to the program that makes it: from Linux 5.11 on. */
static bool kernel_dispatches(void)
{
	enum { DISPATCH = 59, ON = 1 }; /* PR_SET_SYSCALL_USER_DISPATCH */

	/* No selector is at such an address: refused for it by a kernel that knows the call. */
	return !prctl(DISPATCH, ON, 0L, 0L, UINTPTR_MAX) || errno != EINVAL;
}

/* Whether the kernel says of @tid where its calls go. */
static bool ask_dispatch(pid_t tid, bool *ret_dispatched)
{
	struct {
		uint64_t mode;
		uint64_t selector;
		uint64_t offset;
		uint64_t len;
	} dispatch = { 0 };

	if (ptrace((MS_PTRACE_REQUEST)GET_DISPATCH, tid, sizeof(dispatch), &dispatch) &&
	    kernel_dispatches())
		return false;
	*ret_dispatched = dispatch.mode != 0;
	return true;
}

/* Whether SIGSYS has the default action and none is pending; false where that is not known. */
static bool has_plain_sigsys(pid_t tid, char *status, size_t size)
{
	static const char *const masks[] = { "SigPnd", "ShdPnd", "SigIgn", "SigCgt" };

	if (ms_proc_read(tid, "status", status, size) <= 0 || !strstr(status, "\nSigCgt:"))
		return false;
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++)
		if (ms_proc_field(status, masks[i], 16) & SIGSYS_BIT)
			return false;
	return true;
}

/*
 * Linux 5.11 to 6.3 hands calls to programs and does not say of which. A thread of a program
 * without a handler for SIGSYS may try one: should it be dispatched, its tracer sees the signal and
 * takes it away (inject.h). With a handler, a tracer that is killed in that moment would leave it a
 * call of ours to handle.
 */
static enum ms_status check_dispatch(pid_t tid, union ms_seccomp_room *room, struct ms_error *err)
{
	bool dispatched = false;

	if (!ask_dispatch(tid, &dispatched)) {
		if (has_plain_sigsys(tid, room->status, sizeof(room->status)))
			return MS_OK;
		return ms_fail(err, MS_E_UNSUPPORTED,
		               "it handles SIGSYS, and before Linux 6.4 the kernel does not say "
		               "whether its system calls are dispatched by itself");
	}
	return dispatched ? ms_fit_dispatched(err) : MS_OK;
}

enum ms_status ms_fit_dispatched(struct ms_error *err)
{
	return ms_fail(err, MS_E_UNSUPPORTED, "its system calls are dispatched by itself");
}

uint64_t ms_fit_blocked(pid_t tid)
{
	bool ignored;

	return ask_dispatch(tid, &ignored) ? UINT64_MAX : ~SIGSYS_BIT;
}

enum ms_status ms_fit_check(const struct ms_injection *in, const struct ms_wanted_call *calls,
                            size_t n, union ms_seccomp_room *room, struct ms_error *err)
{
	enum ms_status st = check_dispatch(in->tid, room, err);

	if (st)
		return st;
	if (in->arch->guards_returns(in->tid))
		return ms_fail(err, MS_E_UNSUPPORTED, "its return addresses are guarded (SHSTK)");
	return ms_seccomp_check(in->tid, calls, n, room, err);
}

/* Whether this kernel has restartable sequences: from Linux 4.18 on, unless built without. */
static bool kernel_has_sequences(void)
{
	return !syscall(SYS_rseq, NULL, 0, 0, 0) || errno != ENOSYS;
}

bool ms_fit_is_in_sequence(pid_t tid)
{
	struct {
		uint64_t at;
		uint32_t size;
		uint32_t signature;
		uint32_t flags;
		uint32_t padding;
	} rseq = { 0 };
	uint64_t cs = 0;

	if (ptrace((MS_PTRACE_REQUEST)GET_RSEQ, tid, sizeof(rseq), &rseq) <= 0)
		return kernel_has_sequences();
	if (!rseq.at)
		return false;
	return ms_room_read(tid, rseq.at + RSEQ_CS, &cs, sizeof(cs)) != sizeof(cs) || cs;
}

/* What of the pieces of code stands at @at now. */
static struct ms_gadgets look_at(const struct ms_freezer *freezer, ms_addr at)
{
	struct ms_gadgets found = { 0 };
	uint8_t code[MS_GADGET_BYTES];
	size_t n = ms_room_read(freezer->shared->live_tid, at, code, sizeof(code));

	freezer->arch->calls->find(code, n, at, &found);
	return found;
}

void ms_fit_check_gadgets(const struct ms_freezer *freezer)
{
	struct ms_gadgets *gadgets = &freezer->shared->gadgets;

	if (freezer->arch->calls && gadgets->call && gadgets->restore &&
	    look_at(freezer, gadgets->call).call == gadgets->call &&
	    look_at(freezer, gadgets->restore).restore == gadgets->restore)
		return;
	*gadgets = (struct ms_gadgets){ 0 };
}
