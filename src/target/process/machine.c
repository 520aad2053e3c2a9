/* SPDX-License-Identifier: Apache-2.0 */
/* For which machine a process's program is, by its file: the kernel runs others than its own. */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/proc.h"
#include "target/target.h"

/*
 * The ELF header of the program that @tid runs, which begins alike in both classes; false when it
 * may not be read.
 */
static bool program_header(pid_t tid, Elf64_Ehdr *ret)
{
	int fd = ms_proc_open(tid, "exe", O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, ret, sizeof(*ret));
	(void)close(fd);
	return n == (ssize_t)sizeof(*ret) && !memcmp(ret->e_ident, ELFMAG, SELFMAG);
}

/* NULL: it is not known. */
static const struct ms_arch *arch_of(const Elf64_Ehdr *head)
{
	return ms_arch_of(head->e_machine, head->e_ident[EI_CLASS] == ELFCLASS64 ? 8 : 4);
}

const struct ms_arch *ms_target_arch(pid_t id)
{
	const struct ms_arch *arch = NULL;
	Elf64_Ehdr head;

	if (program_header(id, &head))
		arch = arch_of(&head);
	return arch ? arch : &ms_native_arch;
}

enum ms_status ms_target_check_machine(pid_t pid, struct ms_error *err)
{
	const struct ms_arch *arch = &ms_native_arch;
	enum ms_status st = MS_OK;
	Elf64_Ehdr head;

	if (!program_header(ms_proc_living_thread(pid), &head) || arch_of(&head))
		return MS_OK;
	if (head.e_machine == arch->elf_machine)
		st = ms_fail(err, MS_E_UNSUPPORTED,
		             "process %d runs a program with addresses of 32 bits on %s (x32)", pid,
		             arch->title);
	else
		st = ms_fail(err, MS_E_UNSUPPORTED,
		             "process %d runs a program for another machine (ELF machine %u)", pid,
		             head.e_machine);
	ms_advise(err, "this memscan reads processes of %s%s%s only", arch->title,
	          arch->compat ? " and " : "", arch->compat ? arch->compat->title : "");
	return st;
}

enum ms_status ms_target_check_native(pid_t pid, const char *what, struct ms_error *err)
{
	const struct ms_arch *arch = ms_target_arch(ms_proc_thread_of(pid));

	if (arch == &ms_native_arch)
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED, "process %d is a 32-bit process (%s): %s", pid,
	              arch->title, what);
	return MS_E_UNSUPPORTED;
}
