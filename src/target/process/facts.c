/* SPDX-License-Identifier: Apache-2.0 */
/* What the report says of the process and of the machine, from /proc. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/proc.h"
#include "target/target.h"

static const int64_t NS_PER_S = 1000000000;

/* When the machine was booted, ns since the epoch, as the difference of two clocks. */
static int64_t boot_time(void)
{
	struct timespec wall = { 0 };
	struct timespec up = { 0 };

	(void)clock_gettime(CLOCK_REALTIME, &wall);
	(void)clock_gettime(CLOCK_BOOTTIME, &up);
	return (wall.tv_sec - up.tv_sec) * NS_PER_S + wall.tv_nsec - up.tv_nsec;
}

static int64_t start_time(pid_t pid)
{
	int64_t per_second = sysconf(_SC_CLK_TCK);
	struct ms_proc_stat stat;

	if (!ms_proc_stat(pid, &stat) || per_second <= 0)
		return 0;
	return boot_time() + (int64_t)stat.start_ticks * (NS_PER_S / per_second);
}

static void host_facts(struct ms_host_facts *host)
{
	struct utsname names;

	if (uname(&names))
		return;
	(void)snprintf(host->name, sizeof(host->name), "%s", names.nodename);
	(void)snprintf(host->kernel, sizeof(host->kernel), "%s", names.release);
	(void)snprintf(host->arch, sizeof(host->arch), "%.31s", names.machine);
}

void ms_target_facts(pid_t pid, struct ms_target_facts *target, struct ms_host_facts *host)
{
	char status[MS_PROC_STATUS_BYTES];
	pid_t ids[MS_PROC_NAMESPACES];
	size_t n_ids = ms_proc_ns_ids_of(pid, "NStgid", ids);
	pid_t living = ms_proc_living_thread(pid);
	const struct ms_arch *arch = ms_target_arch(living);
	ssize_t n;

	memset(target, 0, sizeof(*target));
	memset(host, 0, sizeof(*host));
	host_facts(host);
	target->pid = pid;
	target->ns_pid = n_ids > 1 ? ids[n_ids - 1] : 0;
	target->word_size = arch->abi.word_bytes;
	(void)snprintf(target->arch, sizeof(target->arch), "%s", arch->name);
	(void)ms_proc_read(pid, "status", status, sizeof(status));
	target->threads = (uint32_t)ms_proc_field(status, "Threads", 10);
	target->start_time = start_time(pid);
	ms_proc_link(living, "exe", target->exe, sizeof(target->exe));
	n = ms_proc_read(living, "cmdline", target->cmdline, sizeof(target->cmdline));
	target->cmdline_len = n > 0 ? (uint32_t)n : 0;
}
