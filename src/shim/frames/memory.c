/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where code has no unwind tables, libunwind guesses, and checks the addresses by writing a
 * byte from there into a pipe. The pipe has the lowest numbers that were free, and programs
 * have their own ideas of these: a shell's `exec 4>file` would have such bytes in the file,
 * and a program that closes what it does not know would have libunwind read from a socket.
 */
#include "shim/frames/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libunwind.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/page.h"
#include "shim/next.h"
#include "shim/pointer.h"

enum { PAGES = 4, NO_SUCH_WAY = 999 };

/* Pages that this thread could read, as libunwind itself remembers them. */
static MS_SHIM_TLS struct {
	uintptr_t page[PAGES];
	unsigned next;
} good; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/*
 * The kernel reads the set of signals before it refuses the way to set them: a call that
 * changes nothing, needs no descriptor, and is forbidden by no sandbox.
 */
static bool is_readable(uintptr_t at)
{
	int kept = errno;
	bool done = syscall(SYS_rt_sigprocmask, NO_SUCH_WAY, at, NULL, sizeof(unw_word_t)) == 0 ||
	            errno != EFAULT;

	errno = kept;
	return done;
}

static bool is_good(uintptr_t page)
{
	for (unsigned i = 0; i < PAGES; i++) {
		if (good.page[i] == page)
			return true;
	}
	return false;
}

static int access_mem(unw_addr_space_t space, unw_word_t at, unw_word_t *value, int write,
                      void *cursor)
{
	uintptr_t page = at & ~(uintptr_t)(MS_PAGE_BYTES - 1);

	(void)space;
	(void)cursor;
	if (write) {
		memcpy(ms_pointer(at), value, sizeof(*value));
		return 0;
	}
	if (at - page > MS_PAGE_BYTES - sizeof(*value) || !is_good(page)) {
		if (!is_readable(at))
			return -UNW_EINVAL;
		good.page[good.next++ % PAGES] = page;
	}
	memcpy(value, ms_pointer(at), sizeof(*value));
	return 0;
}

static bool is_pipe(const int *fd)
{
	struct stat st[2];

	return fstat(fd[0], &st[0]) == 0 && fstat(fd[1], &st[1]) == 0 && S_ISFIFO(st[0].st_mode) &&
	       S_ISFIFO(st[1].st_mode) && st[0].st_ino == st[1].st_ino;
}

/* It is opened by the first call, and gets the numbers that are next. */
void ms_memory_init(void)
{
	void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, "_Ux86_64_get_accessors") : NULL;
	unw_addr_space_t *space = library ? dlsym(library, "_ULx86_64_local_addr_space") : NULL;
	unw_accessors_t *(*get_accessors)(unw_addr_space_t);
	int fd[2];

	if (!symbol || !space)
		return;
	memcpy(&get_accessors, &symbol, sizeof(symbol));
	fd[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	fd[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)close(fd[0]);
	(void)close(fd[1]);
	get_accessors(*space)->access_mem = access_mem;
	if (fd[0] < 0 || fd[1] < 0 || !is_pipe(fd))
		return;
	(void)close(fd[0]);
	(void)close(fd[1]);
}
