/* SPDX-License-Identifier: Apache-2.0 */
#include "target/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 64 };

/* As getdents64(2) fills it; glibc declares it only for its own readdir. */
struct dirent_head {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
};

enum { DIRENT_NAME = 19 }; /* d_name follows the type without padding */

int ms_proc_open(pid_t id, const char *name, int flags)
{
	char path[PATH_BYTES];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", id, name);
	fd = open(path, flags | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

ssize_t ms_proc_read_path(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 0;

	buf[0] = '\0';
	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		n = read(fd, buf + len, size - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	n = n < 0 ? -errno : (ssize_t)len;
	(void)close(fd);
	buf[n < 0 ? 0 : len] = '\0';
	return n;
}

ssize_t ms_proc_read(pid_t id, const char *name, char *buf, size_t size)
{
	char path[PATH_BYTES];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", id, name);
	return ms_proc_read_path(path, buf, size);
}

void ms_proc_name(pid_t id, char *buf, size_t size)
{
	ssize_t len = ms_proc_read(id, "comm", buf, size);

	/* It may have more of them, of its own. */
	if (len > 0 && buf[len - 1] == '\n')
		buf[len - 1] = '\0';
}

void ms_proc_link(pid_t id, const char *name, char *buf, size_t size)
{
	char path[PATH_BYTES];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", id, name);
	n = readlink(path, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
}

void ms_proc_write(pid_t id, const char *name, const char *text)
{
	int fd = ms_proc_open(id, name, O_WRONLY);

	if (fd < 0)
		return;
	(void)!write(fd, text, strlen(text));
	(void)close(fd);
}

bool ms_proc_stat(pid_t id, struct ms_proc_stat *ret)
{
	char text[1024];
	uint64_t in_kernel;
	const char *after;

	if (ms_proc_read(id, "stat", text, sizeof(text)) <= 0)
		return false;
	/* The name may contain anything, ")" too, but nothing behind it does; proc(5) */
	after = strrchr(text, ')');
	if (!after ||
	    sscanf(after,
	           ") %c %*d %*d %*d %*d %*d %" SCNu32 " %*u %*u %*u %*u %" SCNu64 " %" SCNu64
	           " %*d %*d %*d %*d %*d %*d %" SCNu64 " %*u %*d %*u %" SCNu64 " %*u %" SCNu64
	           " %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %*d %*u %*u %*u %*u %*d %*u %*u"
	           " %" SCNu64,
	           &ret->state, &ret->flags, &ret->cpu_ticks, &in_kernel, &ret->start_ticks,
	           &ret->program.code, &ret->program.stack, &ret->program.brk) != 8)
		return false;
	ret->cpu_ticks += in_kernel;
	return true;
}

char ms_proc_state(pid_t tid)
{
	struct ms_proc_stat stat;

	if (!ms_proc_stat(tid, &stat))
		return 'X';
	return stat.state;
}

uint64_t ms_proc_field(const char *status, const char *key, int base)
{
	size_t len = strlen(key);
	const char *line = status;

	while (line) {
		if (!strncmp(line, key, len) && line[len] == ':')
			return strtoull(line + len + 1, NULL, base);
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 0;
}

pid_t ms_proc_tracer(pid_t tid)
{
	char status[MS_PROC_STATUS_BYTES];

	(void)ms_proc_read(tid, "status", status, sizeof(status));
	return (pid_t)ms_proc_field(status, "TracerPid", 10);
}

bool ms_proc_has_handlers(pid_t tid)
{
	const uint64_t library = UINT64_C(3) << 31;
	char status[MS_PROC_STATUS_BYTES];

	return ms_proc_read(tid, "status", status, sizeof(status)) <= 0 ||
	       ms_proc_field(status, "SigCgt", 16) & ~library;
}

size_t ms_proc_ns_ids(const char *status, const char *key, pid_t ret[MS_PROC_NAMESPACES])
{
	size_t len = strlen(key);
	const char *line = status;
	size_t n = 0;
	char *end;

	while (line && (strncmp(line, key, len) != 0 || line[len] != ':')) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	for (line = line ? line + len + 1 : ""; *line == '\t' && n < MS_PROC_NAMESPACES;
	     line = end) {
		long id = strtol(line + 1, &end, 10);

		if (end == line + 1)
			break;
		ret[n++] = (pid_t)id;
	}
	return n;
}

size_t ms_proc_ns_ids_of(pid_t id, const char *key, pid_t ret[MS_PROC_NAMESPACES])
{
	char status[MS_PROC_STATUS_BYTES];

	(void)ms_proc_read(id, "status", status, sizeof(status));
	return ms_proc_ns_ids(status, key, ret);
}

int ms_proc_list_open(struct ms_proc_list *list, pid_t id, const char *name, char *buf)
{
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

	list->fd = id ? ms_proc_open(id, name, flags) : open("/proc", flags);
	list->pos = 0;
	list->len = 0;
	list->buf = buf;
	return list->fd < 0 ? list->fd : 0;
}

void ms_proc_list_rewind(struct ms_proc_list *list)
{
	(void)lseek(list->fd, 0, SEEK_SET);
	list->pos = 0;
	list->len = 0;
}

static bool fill_list(struct ms_proc_list *list)
{
	long n = syscall(SYS_getdents64, list->fd, list->buf, MS_PROC_LIST_BYTES);

	list->pos = 0;
	list->len = n > 0 ? (size_t)n : 0;
	return n > 0;
}

bool ms_proc_list_next(struct ms_proc_list *list, int32_t *ret)
{
	for (;;) {
		struct dirent_head head;
		const char *name;

		if (list->pos >= list->len && !fill_list(list))
			return false;
		memcpy(&head, list->buf + list->pos, sizeof(head));
		name = list->buf + list->pos + DIRENT_NAME;
		list->pos += head.len;
		if (*name < '0' || *name > '9')
			continue;
		*ret = (int32_t)strtol(name, NULL, 10);
		return true;
	}
}

void ms_proc_list_close(struct ms_proc_list *list)
{
	(void)close(list->fd);
}

pid_t ms_proc_living_thread(pid_t pid)
{
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list;
	pid_t living = 0;
	int32_t tid;

	if (ms_proc_list_open(&list, pid, "task", buf) < 0)
		return 0;
	while (!living && ms_proc_list_next(&list, &tid)) {
		char state = ms_proc_state(tid);

		if (state != 'Z' && state != 'X')
			living = tid;
	}
	ms_proc_list_close(&list);
	return living;
}

pid_t ms_proc_thread_of(pid_t pid)
{
	pid_t living = ms_proc_living_thread(pid);

	return living ? living : pid;
}

bool ms_proc_is_over(pid_t pid)
{
	pid_t living = ms_proc_living_thread(pid);
	char pages[64];

	return !living || ms_proc_read(living, "statm", pages, sizeof(pages)) <= 0 ||
	       !strncmp(pages, "0 ", 2);
}
