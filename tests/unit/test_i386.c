/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of i386 programs: two are run, which are a few instructions each. lsan: off */
#include <asm/ldt.h>
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/net.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/target.h"

enum {
	BASE = 0x8048000,
	HEADERS = sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
	SIGTIMEDWAIT = 177,
	AFTER_CALL = BASE + 0x9a, /* of waits */
	TLS_BASE = 0x08048120,
	SOCKET = 100,
	NOT_KILLED = 42, /* the status of a program whose call returned */
};

/*
 * Makes an entry of the GDT and waits for ever in rt_sigtimedwait(), with one value in the second
 * word of xmm3 and others in edi and ebp.
 */
static const uint8_t waits[] = {
	0xb8, 0xf3, 0x00, 0x00, 0x00,             /* mov $243, %eax: set_thread_area() */
	0xbb, 0xa6, 0x80, 0x04, 0x08,             /* mov $desc, %ebx */
	0xcd, 0x80,                               /* int $0x80 */
	0xa1, 0xa6, 0x80, 0x04, 0x08,             /* mov desc, %eax: its number */
	0xc1, 0xe0, 0x03, 0x83, 0xc8, 0x03,       /* shl $3, %eax; or $3, %eax */
	0x8e, 0xe8,                               /* mov %ax, %gs */
	0xb8, 0x44, 0x33, 0x22, 0x11,             /* mov $0x11223344, %eax */
	0x66, 0x0f, 0x6e, 0xd8,                   /* movd %eax, %xmm3 */
	0x66, 0x0f, 0x73, 0xfb, 0x04,             /* pslldq $4, %xmm3 */
	0xbb, 0xb6, 0x80, 0x04, 0x08,             /* mov $set, %ebx */
	0x31, 0xc9, 0x31, 0xd2,                   /* xor %ecx, %ecx; xor %edx, %edx */
	0xbe, 0x08, 0x00, 0x00, 0x00,             /* mov $8, %esi */
	0xbf, 0x1e, 0xab, 0xa1, 0x5c,             /* mov $0x5ca1ab1e, %edi */
	0xbd, 0x0d, 0xf0, 0xad, 0x0b,             /* mov $0x0badf00d, %ebp */
	0xb8, 0xb1, 0x00, 0x00, 0x00, 0xcd, 0x80, /* mov $177, %eax; int $0x80 */
	0xb8, 0x01, 0x00, 0x00, 0x00,             /* mov $1, %eax: exit() */
	0xbb, 0x2a, 0x00, 0x00, 0x00, 0xcd, 0x80, /* mov $42, %ebx; int $0x80 */
	0xff, 0xff, 0xff, 0xff,                   /* desc: any number */
	0x20, 0x81, 0x04, 0x08,                   /* begins at TLS_BASE */
	0xff, 0xff, 0x0f, 0x00, 0x51, 0x00, 0x00, 0x00,
	0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* set */
};

/* Waits in recv() of SOCKET, by socketcall(). */
static const uint8_t receives[] = {
	0xb8,   0x66, 0x00, 0x00, 0x00,             /* mov $102, %eax: socketcall() */
	0xbb,   0x0a, 0x00, 0x00, 0x00,             /* mov $SYS_RECV, %ebx */
	0xb9,   0x71, 0x80, 0x04, 0x08, 0xcd, 0x80, /* mov $args, %ecx; int $0x80 */
	0xb8,   0x01, 0x00, 0x00, 0x00,             /* mov $1, %eax: exit() */
	0xbb,   0x2a, 0x00, 0x00, 0x00, 0xcd, 0x80, /* mov $42, %ebx; int $0x80 */
	SOCKET, 0x00, 0x00, 0x00,                   /* args */
	0x54,   0x80, 0x04, 0x08, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

/*
 * Has two numbers on the x87's stack, one in xmm3 and values in esi and edi, and sleeps in pause();
 * behind it lie a C library's two pieces of code.
 */
static const uint8_t computes[] = {
	0xd9, 0xeb, 0xd9, 0xe8,                   /* fldpi; fld1 */
	0xb8, 0x44, 0x33, 0x22, 0x11,             /* mov $0x11223344, %eax */
	0x66, 0x0f, 0x6e, 0xd8,                   /* movd %eax, %xmm3 */
	0xbe, 0xef, 0xbe, 0xad, 0xde,             /* mov $0xdeadbeef, %esi */
	0xbf, 0x1e, 0xab, 0xa1, 0x5c,             /* mov $0x5ca1ab1e, %edi */
	0xb8, 0x1d, 0x00, 0x00, 0x00, 0xcd, 0x80, /* mov $29, %eax: pause(); int $0x80 */
	0xb8, 0x01, 0x00, 0x00, 0x00,             /* mov $1, %eax: exit() */
	0xbb, 0x2a, 0x00, 0x00, 0x00, 0xcd, 0x80, /* mov $42, %ebx; int $0x80 */
	0xb8, 0xad, 0x00, 0x00, 0x00, 0xcd, 0x80, /* mov $173, %eax: rt_sigreturn(); int $0x80 */
	0xcd, 0x80, 0xc3,                         /* int $0x80; ret */
};

enum { PAUSE = 29, GETS_BACK = BASE + HEADERS + 42, CALLS = GETS_BACK + 7 };

static const struct ms_arch *arch;

static void setup(void)
{
	arch = ms_arch_of(EM_386, 4);
	cr_assert(arch);
}

TestSuite(i386, .init = setup, .timeout = 20);

/* ---- programs ---- */

static int program(const uint8_t *code, size_t len)
{
	const Elf32_Ehdr head = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32,
		                               ELFDATA2LSB, EV_CURRENT },
		                  .e_type = ET_EXEC,
		                  .e_machine = EM_386,
		                  .e_version = EV_CURRENT,
		                  .e_entry = BASE + HEADERS,
		                  .e_phoff = sizeof(head),
		                  .e_ehsize = sizeof(head),
		                  .e_phentsize = sizeof(Elf32_Phdr),
		                  .e_phnum = 1 };
	const Elf32_Phdr load = { .p_type = PT_LOAD,
		                  .p_vaddr = BASE,
		                  .p_filesz = (uint32_t)(HEADERS + len),
		                  .p_memsz = (uint32_t)(HEADERS + len),
		                  .p_flags = PF_R | PF_W | PF_X,
		                  .p_align = 0x1000 };
	int fd = memfd_create("program", MFD_CLOEXEC);

	cr_assert(write(fd, &head, sizeof(head)) == sizeof(head) &&
	          write(fd, &load, sizeof(load)) == sizeof(load) &&
	          write(fd, code, len) == (ssize_t)len);
	return fd;
}

static bool is_asleep_in(pid_t pid, int call)
{
	char path[64];
	int now = -1;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%d", &now) != 1)
		now = -1;
	if (file)
		(void)fclose(file);
	return now == call;
}

/* Start it and wait until it sleeps in @call; 0 where the kernel runs none. */
static pid_t start(const uint8_t *code, size_t len, int call)
{
	char *const none[] = { NULL };
	int fd = program(code, len);
	int sockets[2];
	pid_t pid;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	pid = fork();
	if (!pid) {
		(void)dup2(sockets[0], SOCKET);
		(void)syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH);
		_exit(errno == ENOEXEC ? ENOEXEC : 1);
	}
	(void)close(fd);
	for (int i = 0; i < 5000 && !is_asleep_in(pid, call); i++) {
		int status;

		if (waitpid(pid, &status, WNOHANG) == pid) {
			cr_assert_eq(WEXITSTATUS(status), ENOEXEC, "status 0x%x", status);
			cr_skip("this kernel runs no 32-bit programs");
		}
		(void)usleep(1000);
	}
	cr_assert(is_asleep_in(pid, call));
	return pid;
}

static void stop(pid_t pid)
{
	int status;

	cr_assert_eq(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	cr_assert_eq(waitpid(pid, &status, __WALL), pid);
	cr_assert(WIFSTOPPED(status));
}

static void end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, __WALL);
}

static bool has_word(const struct ms_frozen_thread *thread, uint64_t word)
{
	for (size_t i = 0; i < thread->n_words; i++)
		if (thread->words[i] == word)
			return true;
	return false;
}

/* ---- registers ---- */

Test(i386, registers_are_words_of_32_bits)
{
	pid_t pid = start(waits, sizeof(waits), SIGTIMEDWAIT);
	static struct ms_frozen_thread thread;
	struct user_desc entry = { 0 };
	struct ms_cpu cpu;

	stop(pid);
	cr_assert(arch->capture(pid, MS_CAPTURED_ROOTS, &thread, &cpu));
	cr_expect_eq(thread.pc, AFTER_CALL);
	cr_expect_eq(thread.sp >> 32, 0);
	cr_expect(thread.sp);
	cr_expect(has_word(&thread, 0x5ca1ab1e), "edi");
	cr_expect(has_word(&thread, 0x0badf00d), "ebp");
	cr_expect(has_word(&thread, 0x11223344), "the upper half of a word of xmm3");
	for (size_t i = 0; i < thread.n_words; i++)
		cr_assert_eq(thread.words[i] >> 32, 0, "word %zu", i);
	cr_expect_eq(thread.tp, TLS_BASE);
	for (uintptr_t number = 12; number < 15 && !entry.base_addr; number++)
		(void)ptrace(PTRACE_GET_THREAD_AREA, pid, number, &entry);
	cr_expect_eq(entry.base_addr, TLS_BASE, "as the kernel has it in the GDT");
	end(pid);
}

/* ---- calls ---- */

Test(i386, a_call_that_was_broken_off_is_made_once_more)
{
	pid_t pid = start(waits, sizeof(waits), SIGTIMEDWAIT);
	struct ms_cpu cpu;

	for (int i = 0; i < 20; i++) {
		stop(pid);
		cr_assert(arch->look(pid, &cpu));
		cr_assert_eq(cpu.call, SIGTIMEDWAIT);
		cr_assert_eq(cpu.result, -EINTR);
		cr_assert_eq(cpu.args[3], 8);
		cr_assert(arch->rewind(pid, NULL));
		cr_assert_eq(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
		while (!is_asleep_in(pid, SIGTIMEDWAIT))
			(void)usleep(100);
	}
	end(pid);
}

/* So that the test above would notice. */
Test(i386, a_call_that_was_broken_off_returns_if_it_is_not)
{
	pid_t pid = start(waits, sizeof(waits), SIGTIMEDWAIT);
	int status = 0;

	stop(pid);
	cr_assert_eq(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	cr_assert_eq(waitpid(pid, &status, __WALL), pid);
	cr_expect_eq(WEXITSTATUS(status), NOT_KILLED);
}

Test(i386, a_call_is_made_once_more_with_another_argument)
{
	const struct ms_again again = { .changed = true, .arg = 5, .value = 0x12345678 };
	pid_t pid = start(waits, sizeof(waits), SIGTIMEDWAIT);
	static struct ms_frozen_thread thread;
	struct ms_cpu cpu;

	stop(pid);
	cr_assert(arch->rewind(pid, &again));
	cr_assert(arch->capture(pid, MS_CAPTURED_ROOTS, &thread, &cpu));
	cr_expect_eq(cpu.pc, AFTER_CALL - 2);
	cr_expect_eq(cpu.args[5], 0x12345678);
	cr_expect_eq(cpu.result, SIGTIMEDWAIT);
	cr_expect(!has_word(&thread, 0x0badf00d));
	end(pid);
}

Test(i386, a_call_can_be_answered)
{
	pid_t pid = start(waits, sizeof(waits), SIGTIMEDWAIT);
	struct ms_cpu cpu;

	stop(pid);
	cr_assert(arch->answer(pid, EAGAIN));
	cr_assert(arch->look(pid, &cpu));
	cr_expect_eq(cpu.result, -EAGAIN);
	end(pid);
}

Test(i386, a_call_of_a_socket_is_shown_with_its_arguments)
{
	enum { ERESTARTSYS = 512 };
	pid_t pid = start(receives, sizeof(receives), 102);
	struct ms_cpu cpu;

	stop(pid);
	cr_assert(arch->look(pid, &cpu));
	cr_expect_eq(cpu.call, 102 | SYS_RECV << 16);
	cr_expect_eq(cpu.args[0], SOCKET);
	cr_expect_eq(cpu.args[2], 1);
	cr_expect_eq(cpu.result, -ERESTARTSYS);
	end(pid);
}

/* ---- tables ---- */

static const struct {
	int64_t call;
	enum ms_restart restart;
	struct ms_timed timed;
} calls[] = {
	{ 256, MS_RESTART_ALWAYS, { MS_TIMEOUT_MS, 3 } },     /* epoll_wait */
	{ 319, MS_RESTART_ALWAYS, { MS_TIMEOUT_MS, 3 } },     /* epoll_pwait */
	{ 441, MS_RESTART_ALWAYS, { MS_TIMEOUT_SPEC, 3 } },   /* epoll_pwait2 */
	{ 177, MS_RESTART_ALWAYS, { MS_TIMEOUT_SPEC32, 2 } }, /* rt_sigtimedwait */
	{ 421, MS_RESTART_ALWAYS, { MS_TIMEOUT_SPEC, 2 } },   /* rt_sigtimedwait_time64 */
	{ 420, MS_RESTART_ALWAYS, { MS_TIMEOUT_SPEC, 3 } },   /* semtimedop_time64 */
	{ 247, MS_RESTART_ALWAYS, { MS_TIMEOUT_SPEC32, 4 } }, /* io_getevents */
	{ 416, MS_RESTART_ALWAYS, { MS_TIMEOUT_SPEC, 4 } },   /* io_pgetevents_time64 */
	{ 426, MS_RESTART_ALWAYS, { MS_TIMEOUT_NONE, 0 } },   /* io_uring_enter */
	/* ipc(): semop, semtimedop, msgrcv, semctl; and while that is not known */
	{ 117 | 1 << 16, MS_RESTART_ALWAYS, { MS_TIMEOUT_NONE, 0 } },
	{ 117 | 4 << 16, MS_RESTART_ALWAYS, { MS_TIMEOUT_SPEC32, 5 } },
	{ 117 | 12 << 16, MS_RESTART_ALWAYS, { MS_TIMEOUT_NONE, 0 } },
	{ 117 | 3 << 16, MS_RESTART_NEVER, { MS_TIMEOUT_NONE, 0 } },
	{ 117, MS_RESTART_NEVER, { MS_TIMEOUT_SPEC32, 5 } },
	/* socketcall(): accept, recv, sendmsg, connect, bind */
	{ 102 | SYS_ACCEPT << 16, MS_RESTART_ALWAYS, { MS_TIMEOUT_RECEIVE, 0 } },
	{ 102 | SYS_RECV << 16, MS_RESTART_ALWAYS, { MS_TIMEOUT_RECEIVE, 0 } },
	{ 102 | SYS_SENDMSG << 16, MS_RESTART_ALWAYS, { MS_TIMEOUT_SEND, 0 } },
	{ 102 | SYS_CONNECT << 16, MS_RESTART_ALWAYS, { MS_TIMEOUT_NONE, 0 } },
	{ 102 | SYS_BIND << 16, MS_RESTART_NEVER, { MS_TIMEOUT_NONE, 0 } },
	{ 371, MS_RESTART_ALWAYS, { MS_TIMEOUT_RECEIVE, 0 } }, /* recvfrom */
	{ 364, MS_RESTART_ALWAYS, { MS_TIMEOUT_RECEIVE, 0 } }, /* accept4 */
	{ 3, MS_RESTART_SOCKET, { MS_TIMEOUT_RECEIVE, 0 } },   /* read */
	{ 146, MS_RESTART_SOCKET, { MS_TIMEOUT_SEND, 0 } },    /* writev */
	{ 6, MS_RESTART_NEVER, { MS_TIMEOUT_NONE, 0 } },       /* close: never twice */
	{ 168, MS_RESTART_NEVER, { MS_TIMEOUT_NONE, 0 } },     /* poll: the kernel restarts it */
	{ SYS_epoll_pwait, MS_RESTART_NEVER, { MS_TIMEOUT_NONE, 0 } }, /* another's number */
	{ -1, MS_RESTART_NEVER, { MS_TIMEOUT_NONE, 0 } },
};

Test(i386, calls_that_return_eintr_after_a_stop_are_known)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct ms_timed timed = arch->timed(calls[i].call);

		cr_expect_eq(arch->restart(calls[i].call), calls[i].restart, "call 0x%llx",
		             (long long)calls[i].call);
		cr_expect(timed.how == calls[i].timed.how && timed.arg == calls[i].timed.arg,
		          "call 0x%llx", (long long)calls[i].call);
	}
}

Test(i386, calls_have_the_numbers_of_this_machine)
{
	cr_expect_eq(ms_arch_own_call(arch, 45), SYS_brk);
	cr_expect_eq(ms_arch_own_call(arch, 192), SYS_mmap);
	cr_expect_eq(ms_arch_own_call(arch, 422), SYS_futex);
	cr_expect_eq(ms_arch_own_call(arch, 1), SYS_exit);
	cr_expect_eq(ms_arch_own_call(arch, -1), -1);
	cr_expect_geq(ms_arch_own_call(arch, SYS_futex), INT32_MAX, "which is another's here");
	cr_expect_eq(ms_arch_own_call(&ms_native_arch, SYS_futex), SYS_futex);
}

Test(i386, calls_of_ours_have_its_numbers)
{
	cr_expect_eq(ms_arch_call(arch, SYS_clone), 120);
	cr_expect_eq(ms_arch_call(arch, SYS_close_range), 436);
	cr_expect_eq(ms_arch_call(arch, SYS_close), 6);
	cr_expect_eq(ms_arch_call(arch, SYS_unshare), 310);
	cr_expect_geq(ms_arch_call(arch, SYS_epoll_wait), INT32_MAX, "none that anyone makes");
	cr_expect_eq(ms_arch_call(&ms_native_arch, SYS_clone), SYS_clone);
}

Test(i386, pieces_of_code_to_call_and_to_return_by_are_found)
{
	static const uint8_t code[] = { 0xb8, 0xad, 0x00, 0x00, 0x00, 0xcd, 0x80, 0x90,
		                        0xcd, 0x80, 0x5d, 0xcd, 0x80, 0xc3, 0x90, 0x90 };
	struct ms_gadgets found = { 0 };

	arch->calls->find(code, sizeof(code), 0x1000, &found);
	cr_expect_eq(found.restore, 0x1000);
	cr_expect_eq(found.call, 0x100b, "behind the others something else than ret follows");
}

static struct ms_registers saved, now;
static struct ms_vectors saved_vectors, vectors_now;
static uint8_t block[2 * MS_FRAME_BYTES + MS_VECTORS_BYTES];

/* As clone.c lays it out: the frame, and the vectors behind it. Returns where. */
static ms_addr put_block(pid_t pid, const struct ms_gadgets *gadgets)
{
	struct user_regs_struct regs;
	struct iovec local = { block, sizeof(block) };
	struct iovec remote = { NULL, sizeof(block) };
	ms_addr at;

	memcpy(&regs, saved.words, sizeof(regs));
	at = ms_align_down(regs.rsp - sizeof(block), 64);
	(void)arch->calls->frame(&saved, gadgets, 1 << (SIGUSR1 - 1), at + MS_FRAME_BYTES, block);
	memcpy(block + MS_FRAME_BYTES, saved_vectors.bytes, saved_vectors.n);
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's interface wants it so */
	remote.iov_base = (void *)(uintptr_t)at;
	cr_assert_eq(process_vm_writev(pid, &local, 1, &remote, 1, 0), (ssize_t)sizeof(block));
	return at;
}

/* Leave nothing of what it had in its registers, and have it return to the frame behind a call. */
static void divert(pid_t pid, const struct ms_gadgets *gadgets, ms_addr at)
{
	const struct ms_call call = { SYS_sigaltstack, { 0, 0 } };
	struct ms_registers registers = saved;
	struct ms_vectors none = saved_vectors;
	struct user_regs_struct regs;

	memset(none.bytes, 0, none.n_ptrace);
	memcpy(&regs, registers.words, sizeof(regs));
	regs.rsi = regs.rdi = regs.rbp = 0;
	memcpy(registers.words, &regs, sizeof(regs));
	arch->calls->call(&registers, gadgets, &call, at);
	cr_assert(arch->calls->restore(pid, &registers, &none));
}

Test(i386, a_thread_returns_from_a_call_of_ours_by_itself)
{
	enum { LEGACY_HEAD = 8, STACK = 32, XMM_END = 416 };
	pid_t pid = start(computes, sizeof(computes), PAUSE);
	const struct ms_gadgets gadgets = { CALLS, GETS_BACK };
	struct user_regs_struct regs;
	uint64_t mask = 0;
	int status;

	stop(pid);
	cr_assert(arch->calls->save(pid, &saved, &saved_vectors));
	divert(pid, &gadgets, put_block(pid, &gadgets));
	cr_assert_eq(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	for (int i = 0; i < 5000 && !is_asleep_in(pid, PAUSE); i++) {
		cr_assert_eq(waitpid(pid, &status, WNOHANG), 0, "it ended");
		(void)usleep(1000);
	}
	stop(pid);
	cr_assert(arch->calls->save(pid, &now, &vectors_now));
	cr_expect_arr_eq(now.words, saved.words, sizeof(regs), "the general registers");
	cr_expect_arr_eq(vectors_now.bytes, saved_vectors.bytes, LEGACY_HEAD, "the x87's state");
	cr_expect_arr_eq(vectors_now.bytes + STACK, saved_vectors.bytes + STACK, XMM_END - STACK,
	                 "its numbers, and xmm");
	cr_assert_eq(ptrace(PTRACE_GETSIGMASK, pid, sizeof(mask), &mask), 0);
	cr_expect_eq(mask, 1 << (SIGUSR1 - 1), "the mask of the frame");
	end(pid);
}

/* ---- which it is ---- */

Test(i386, is_told_by_machine_and_class)
{
	cr_expect_str_eq(arch->name, "i386");
	cr_expect_eq(ms_arch_of(EM_X86_64, 8), &ms_native_arch);
	cr_expect_null(ms_arch_of(EM_X86_64, 4), "x32");
	cr_expect_null(ms_arch_of(EM_386, 8));
	cr_expect_null(ms_arch_of(EM_ARM, 4));
}

Test(i386, is_that_of_a_process_by_its_program)
{
	pid_t pid = start(waits, sizeof(waits), SIGTIMEDWAIT);
	struct ms_error err;
	uint64_t least;
	pid_t found;

	cr_expect_eq(ms_target_arch(pid), arch);
	cr_expect_eq(ms_target_arch(getpid()), &ms_native_arch);
	cr_expect_eq(ms_target_check(pid, &found, &err), MS_OK);
	cr_expect_eq(ms_target_check_native(getpid(), "", &err), MS_OK);
	cr_expect_eq(ms_target_check_native(pid, "so it is", &err), MS_E_UNSUPPORTED);
	cr_expect(strstr(err.text, "32-bit process (i386): so it is"), "%s", err.text);
	cr_expect_eq(ms_fork_check(pid, &least, &err), MS_OK, "%s", err.text);
	end(pid);
}
