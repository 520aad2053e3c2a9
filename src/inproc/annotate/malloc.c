/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/annotate/malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inproc/annotate/front.h"
#include "inproc/annotate/ignored.h"
#include "inproc/export.h"

enum { MOST_BEHIND = 65536, DEAD_BYTES = 4096 };

/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): see front.h */
struct ms_front ms_front;
MS_FRONT_TLS struct ms_front_own ms_front_own;
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

/* ---- the next definitions ---- */

extern void *__libc_malloc(size_t size) __attribute__((weak));
extern void *__libc_calloc(size_t n, size_t size) __attribute__((weak));
extern void *__libc_realloc(void *p, size_t size) __attribute__((weak));
extern void __libc_free(void *p) __attribute__((weak));
extern void *__libc_memalign(size_t align, size_t size) __attribute__((weak));

/* Both are read as if they could change: no two functions are the same to the compiler. */
bool ms_malloc_is_library(void)
{
	void *(*volatile called)(size_t) = malloc;
	void *(*volatile library)(size_t) = __libc_malloc;

	return library && called == library;
}

/* The C library has no other names for these. */
static int by_memalign(void **ret, size_t align, size_t size)
{
	void *p;

	if (align < sizeof(void *) || (align & (align - 1)) != 0)
		return EINVAL;
	p = ms_front.next.memalign(align, size);
	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void *page_aligned(size_t size)
{
	return ms_front.next.memalign(page_bytes(), size);
}

static void *whole_pages(size_t size)
{
	size_t more;

	if (__builtin_add_overflow(size, page_bytes() - 1, &more)) {
		errno = ENOMEM;
		return NULL;
	}
	return page_aligned(more & ~(page_bytes() - 1));
}

/* Only the allocator that free() belongs to knows a block's size; NULL without it. */
static size_t (*usable_size_of(void (*next_free)(void *)))(void *)
{
	void *p = dlsym(RTLD_NEXT, "malloc_usable_size");
	size_t (*usable_size)(void *) = NULL;
	Dl_info of_free;
	Dl_info of_size;

	if (p && dladdr((void *)next_free, &of_free) && dladdr(p, &of_size) &&
	    of_free.dli_fbase == of_size.dli_fbase)
		memcpy(&usable_size, &p, sizeof(p));
	return usable_size;
}

void ms_front_resolve(void)
{
	static const struct {
		const char *name;
		size_t at;
	} wanted[] = {
		{ "malloc", offsetof(struct ms_next_malloc, malloc) },
		{ "calloc", offsetof(struct ms_next_malloc, calloc) },
		{ "realloc", offsetof(struct ms_next_malloc, realloc) },
		{ "free", offsetof(struct ms_next_malloc, free) },
		{ "memalign", offsetof(struct ms_next_malloc, memalign) },
		{ "aligned_alloc", offsetof(struct ms_next_malloc, aligned_alloc) },
		{ "posix_memalign", offsetof(struct ms_next_malloc, posix_memalign) },
		{ "valloc", offsetof(struct ms_next_malloc, valloc) },
		{ "pvalloc", offsetof(struct ms_next_malloc, pvalloc) },
	};
	/* what a static program has, where dlsym() finds nothing */
	struct ms_next_malloc next = {
		.malloc = __libc_malloc,
		.calloc = __libc_calloc,
		.realloc = __libc_realloc,
		.free = __libc_free,
		.memalign = __libc_memalign,
		.aligned_alloc = __libc_memalign,
		.posix_memalign = by_memalign,
		.valloc = page_aligned,
		.pvalloc = whole_pages,
	};
	int kept = errno;

	ms_front_own.resolving = true;
	/* Where free() is not ours it does not know our early bytes, which dlsym() may get. */
	if (!ms_malloc_is_library()) {
		for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
			void *p = dlsym(RTLD_NEXT, wanted[i].name);

			if (p)
				memcpy((char *)&next + wanted[i].at, &p, sizeof(p));
		}
		next.usable_size = usable_size_of(next.free);
	}
	ms_front.next = next;
	__atomic_store_n(&ms_front.ready, true, __ATOMIC_RELEASE);
	ms_front_own.resolving = false;
	errno = kept;
}

/* ---- what ours add ---- */

void *ms_front_made(void *p)
{
	if (ms_front_own.probing)
		ms_front_own.probe = p;
	else if (p && ms_front.reached) /* else free() is not ours, and does not forget it */
		(void)ms_ignored_add(&ms_front.sets.made, (const char *)p + ms_front.behind);
	return p;
}

bool ms_front_forget(void *p)
{
	bool was = ms_ignored_remove(&ms_front.sets.made, (const char *)p + ms_front.behind, 1);
	size_t size;

	if (!ms_ignored_any(&ms_front.sets.chosen))
		return was;
	size = ms_front.next.usable_size ? ms_front.next.usable_size(p) : 0;
	return ms_ignored_remove(&ms_front.sets.chosen, p, size ? size : 1) || was;
}

bool ms_malloc_ignore(const void *p)
{
	return ms_ignored_add(&ms_front.sets.chosen, p);
}

/*
 * Call malloc() as the program does, and see whether that comes to ours. Not by comparing
 * addresses: the address of a function may be that of a jump to it in the program.
 *
 * A malloc in front may put something of its own before what it gives its caller, as a
 * malloc does that guards its blocks: this block shows how much. A block that is aligned
 * to more than usual has more before it, and is not ignored.
 */
__attribute__((noinline)) static void look_in_front(void)
{
	void *(*volatile theirs)(size_t) = malloc;
	void (*volatile give_back)(void *) = free;
	char *outer;

	ms_front_own.windows++;
	ms_front_own.probing = true;
	outer = theirs(1);
	ms_front_own.probing = false;
	ms_front_own.windows--;
	ms_front.reached = ms_front_own.probe != NULL;
	if (ms_front_own.probe && (uintptr_t)outer - (uintptr_t)ms_front_own.probe < MOST_BEHIND)
		ms_front.behind = (uintptr_t)outer - (uintptr_t)ms_front_own.probe;
	ms_front_own.probe = NULL; /* no reference to what is there next */
	give_back(outer);
}

/*
 * The address of that block is in frames that are dead now. What is called next may have
 * a frame there for the whole life of the program, with that word in it, and whatever is
 * allocated in the block's place would look reachable.
 */
__attribute__((noinline)) static void clear_dead_frames(void)
{
	char dead[DEAD_BYTES];

	explicit_bzero(dead, sizeof(dead));
}

/* Early, so that no signal handler's malloc() is the first. */
__attribute__((constructor)) static void resolve_early(void)
{
	if (!ms_front_ready())
		return;
	look_in_front();
	clear_dead_frames();
}

/* One that is in front may start later, and passes everything on until then. */
MS_EXPORT void memunreachable_malloc_started(void)
{
	resolve_early();
}

bool ms_malloc_reached(void)
{
	return ms_front.reached;
}

void ms_malloc_disable(void)
{
	ms_front_own.windows++;
}

bool ms_malloc_enable(void)
{
	if (ms_front_own.windows == 0)
		return false;
	ms_front_own.windows--;
	return true;
}
