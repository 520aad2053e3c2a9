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

#include "inproc/annotate/ignored.h"
#include "inproc/export.h"

/*
 * Weak, so that a static program, where nobody can stand in front of malloc, links: the
 * C library's strong malloc and free win there, and what is left of ours passes on to
 * its __libc_ names. Among shared objects weak is as good as strong.
 *
 * What is called before the next definitions are known, by dlsym() itself or by one of
 * its callees, is served from a few bytes of our own, which are never reused.
 */
#define INTERPOSE   MS_EXPORT __attribute__((weak))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Small, and the same register as the thread's other variables: no call to find it. */
#define OWN_TLS _Thread_local __attribute__((tls_model("initial-exec")))

enum { EARLY_BYTES = 16384, EARLY_ALIGN = 16, MOST_BEHIND = 65536 };

struct next {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *p, size_t size);
	void (*free)(void *p);
	void *(*memalign)(size_t align, size_t size);
	void *(*aligned_alloc)(size_t align, size_t size);
	int (*posix_memalign)(void **ret, size_t align, size_t size);
	void *(*valloc)(size_t size);
	void *(*pvalloc)(size_t size);
	size_t (*usable_size)(void *p); /* NULL when it is not of the same allocator */
};

/*
 * Two sets, for free() of a block whose beginning alone can be an entry is one look,
 * while a program may also have us ignore an address inside of a block.
 */
struct sets {
	struct ms_ignored made;   /* in windows: beginnings of blocks */
	struct ms_ignored chosen; /* by the program: any address inside */
};

/* An interposer has no caller that could hold its state. Scans find the sets in here. */
static struct {
	struct next next;
	bool ready;
	bool reached;  /* the program's calls come to ours */
	size_t behind; /* what who is in front puts before its caller's bytes in a block of ours */
	size_t early_used;
	struct sets sets;
	char early[EARLY_BYTES] __attribute__((aligned(EARLY_ALIGN)));
} state; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* Per thread, which is the point of it. */
static OWN_TLS struct {
	unsigned windows; /* open ones */
	bool resolving;
	bool probing;
	void *probe; /* what came out of ours meanwhile */
} own;               /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* ---- before the next definitions are known ---- */

static bool is_early(const void *p)
{
	return (uintptr_t)p - (uintptr_t)state.early < EARLY_BYTES;
}

/* Zeroed; the size stands in front, for realloc(). */
static void *early_alloc(size_t size)
{
	size_t whole = (size + 2 * (size_t)EARLY_ALIGN - 1) & ~(size_t)(EARLY_ALIGN - 1);
	size_t at;

	if (size > EARLY_BYTES - 2 * (size_t)EARLY_ALIGN)
		return NULL;
	at = __atomic_fetch_add(&state.early_used, whole, __ATOMIC_RELAXED);
	if (at > EARLY_BYTES - whole)
		return NULL;
	memcpy(state.early + at, &size, sizeof(size));
	return state.early + at + EARLY_ALIGN;
}

static void *early_realloc(const void *p, size_t size)
{
	void *grown = malloc(size);
	size_t old;

	if (!grown)
		return NULL;
	memcpy(&old, (const char *)p - EARLY_ALIGN, sizeof(old));
	return memcpy(grown, p, old < size ? old : size);
}

/* ---- the next definitions ---- */

extern void *__libc_malloc(size_t size) __attribute__((weak));
extern void *__libc_calloc(size_t n, size_t size) __attribute__((weak));
extern void *__libc_realloc(void *p, size_t size) __attribute__((weak));
extern void __libc_free(void *p) __attribute__((weak));
extern void *__libc_memalign(size_t align, size_t size) __attribute__((weak));

/* The C library has no other names for these. */
static int by_memalign(void **ret, size_t align, size_t size)
{
	void *p;

	if (align < sizeof(void *) || (align & (align - 1)) != 0)
		return EINVAL;
	p = state.next.memalign(align, size);
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
	return state.next.memalign(page_bytes(), size);
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

/*
 * Fill in state.next. Several threads may do so at once: all find the same.
 */
static void resolve(void)
{
	static const struct {
		const char *name;
		size_t at;
	} wanted[] = {
		{ "malloc", offsetof(struct next, malloc) },
		{ "calloc", offsetof(struct next, calloc) },
		{ "realloc", offsetof(struct next, realloc) },
		{ "free", offsetof(struct next, free) },
		{ "memalign", offsetof(struct next, memalign) },
		{ "aligned_alloc", offsetof(struct next, aligned_alloc) },
		{ "posix_memalign", offsetof(struct next, posix_memalign) },
		{ "valloc", offsetof(struct next, valloc) },
		{ "pvalloc", offsetof(struct next, pvalloc) },
	};
	/* what a static program has, where dlsym() finds nothing */
	struct next next = {
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

	own.resolving = true;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		void *p = dlsym(RTLD_NEXT, wanted[i].name);

		if (p)
			memcpy((char *)&next + wanted[i].at, &p, sizeof(p));
	}
	next.usable_size = usable_size_of(next.free);
	state.next = next;
	__atomic_store_n(&state.ready, true, __ATOMIC_RELEASE);
	own.resolving = false;
	errno = kept;
}

/* Whether the next definitions can be called; false while this thread looks for them. */
static inline bool ready(void)
{
	if (!UNLIKELY(!__atomic_load_n(&state.ready, __ATOMIC_ACQUIRE)))
		return true;
	if (own.resolving)
		return false;
	resolve();
	return true;
}

/* ---- what ours add ---- */

/* In the open window of a thread. */
__attribute__((noinline)) static void *made(void *p)
{
	if (own.probing)
		own.probe = p;
	else if (p)
		(void)ms_ignored_add(&state.sets.made, (const char *)p + state.behind);
	return p;
}

static inline bool in_window(void)
{
	return UNLIKELY(own.windows != 0);
}

static inline bool any_ignored(void)
{
	return ms_ignored_any(&state.sets.made) || ms_ignored_any(&state.sets.chosen);
}

__attribute__((noinline)) static bool forget(void *p)
{
	bool was = ms_ignored_remove(&state.sets.made, (const char *)p + state.behind, 1);
	size_t size;

	if (!ms_ignored_any(&state.sets.chosen))
		return was;
	size = state.next.usable_size ? state.next.usable_size(p) : 0;
	return ms_ignored_remove(&state.sets.chosen, p, size ? size : 1) || was;
}

bool ms_malloc_ignore(const void *p)
{
	return ms_ignored_add(&state.sets.chosen, p);
}

/*
 * Call malloc() as the program does, and see whether that comes to ours. Not by comparing
 * addresses: the address of a function may be that of a jump to it in the program.
 *
 * Who is in front may put something of its own before what it gives its caller, as a
 * malloc does that guards its blocks: this block shows how much. A block that is aligned
 * to more than usual has more before it, and is not ignored.
 */
static void look_in_front(void)
{
	void *(*volatile theirs)(size_t) = malloc;
	void (*volatile give_back)(void *) = free;
	char *outer;

	own.windows++;
	own.probing = true;
	outer = theirs(1);
	own.probing = false;
	own.windows--;
	state.reached = own.probe != NULL;
	if (own.probe && (uintptr_t)outer - (uintptr_t)own.probe < MOST_BEHIND)
		state.behind = (uintptr_t)outer - (uintptr_t)own.probe;
	own.probe = NULL; /* no reference to what is there next */
	give_back(outer);
}

/* Early, so that no signal handler's malloc() is the first. */
__attribute__((constructor)) static void resolve_early(void)
{
	if (ready())
		look_in_front();
}

/* One that is in front may start later, and passes everything on until then. */
MS_EXPORT void memunreachable_malloc_started(void)
{
	resolve_early();
}

bool ms_malloc_reached(void)
{
	return state.reached;
}

void ms_malloc_disable(void)
{
	own.windows++;
}

bool ms_malloc_enable(void)
{
	if (own.windows == 0)
		return false;
	own.windows--;
	return true;
}

/* ---- the interposers ---- */

INTERPOSE void *malloc(size_t size)
{
	if (UNLIKELY(!ready()))
		return early_alloc(size);
	/* Else it is not there in the backtraces that who is behind takes. */
	if (in_window())
		return made(state.next.malloc(size));
	return state.next.malloc(size);
}

INTERPOSE void *calloc(size_t nmemb, size_t size)
{
	size_t bytes;

	if (UNLIKELY(!ready()))
		return __builtin_mul_overflow(nmemb, size, &bytes) ? NULL : early_alloc(bytes);
	if (in_window())
		return made(state.next.calloc(nmemb, size));
	return state.next.calloc(nmemb, size);
}

INTERPOSE void free(void *ptr)
{
	if (UNLIKELY(is_early(ptr)) || UNLIKELY(!ready()))
		return;
	if (UNLIKELY(any_ignored()) && ptr)
		(void)forget(ptr);
	state.next.free(ptr);
}

/* As LeakSanitizer has it, the new block is a new one: ignored if made in a window. */
INTERPOSE void *realloc(void *ptr, size_t size)
{
	bool was = false;
	void *grown;

	if (UNLIKELY(is_early(ptr)))
		return early_realloc(ptr, size);
	if (UNLIKELY(!ready()))
		return early_alloc(size);
	if (UNLIKELY(any_ignored()) && ptr)
		was = forget(ptr);
	if (!was && !in_window())
		return state.next.realloc(ptr, size);
	grown = state.next.realloc(ptr, size);
	if (UNLIKELY(was) && !grown && size > 0)
		(void)ms_malloc_ignore(ptr); /* it failed, the block lives on */
	return in_window() ? made(grown) : grown;
}

INTERPOSE void *reallocarray(void *ptr, size_t nmemb, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(nmemb, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(ptr, bytes);
}

INTERPOSE void *memalign(size_t alignment, size_t size)
{
	if (!ready())
		return NULL;
	if (in_window())
		return made(state.next.memalign(alignment, size));
	return state.next.memalign(alignment, size);
}

INTERPOSE void *aligned_alloc(size_t alignment, size_t size)
{
	if (!ready())
		return NULL;
	if (in_window())
		return made(state.next.aligned_alloc(alignment, size));
	return state.next.aligned_alloc(alignment, size);
}

INTERPOSE int posix_memalign(void **memptr, size_t alignment, size_t size)
{
	int failed = ready() ? state.next.posix_memalign(memptr, alignment, size) : ENOMEM;

	if (!failed && in_window())
		(void)made(*memptr);
	return failed;
}

INTERPOSE void *valloc(size_t size)
{
	if (!ready())
		return NULL;
	if (in_window())
		return made(state.next.valloc(size));
	return state.next.valloc(size);
}

INTERPOSE void *pvalloc(size_t size)
{
	if (!ready())
		return NULL;
	if (in_window())
		return made(state.next.pvalloc(size));
	return state.next.pvalloc(size);
}

/* No header of this C library declares the rest: of old programs, and of C23's. */
void cfree(void *ptr);
void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);

INTERPOSE void cfree(void *ptr)
{
	free(ptr);
}

INTERPOSE void free_sized(void *ptr, size_t size)
{
	(void)size;
	free(ptr);
}

INTERPOSE void free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	free(ptr);
}
