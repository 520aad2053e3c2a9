/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/bypass.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/next.h"
#include "shim/out/say.h"
#include "shim/pointer.h"
#include "shim/registry.h"

#if __ELF_NATIVE_CLASS == 64
#define SYMBOL_OF(info) ELF64_R_SYM(info)
#else
#define SYMBOL_OF(info) ELF32_R_SYM(info)
#endif

/* A function of which there are two. */
struct pair {
	const char *name;
	uintptr_t ours;
	uintptr_t next; /* 0: there is none */
	bool lazy_too;  /* what the library being looked at binds at the first call is the next */
};

static const char *const names[] = {
	"malloc",       "free",     "calloc",
	"realloc",      "memalign", "aligned_alloc",
	"valloc",       "pvalloc",  "posix_memalign",
	"reallocarray", "cfree",    "malloc_usable_size",
	"free_sized",   "dlopen",   "free_aligned_sized",
};

enum { NAMES = sizeof(names) / sizeof(*names) };

static struct {
	bool any;
	bool said;
	uint64_t looked_at; /* modules that had come and gone when all were looked at; plus 1 */
} state;                    /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* A look at all modules, or at @from and those that were loaded after it. */
struct look {
	struct pair pairs[NAMES];
	const struct link_map *from; /* NULL: at all */
	bool begun;
	uint32_t n;
};

/* Relocations, of @each bytes. */
struct table {
	const void *at;
	size_t bytes;
	size_t each;
};

/* What a module says of itself. */
struct module {
	const struct dl_phdr_info *info;
	uintptr_t low, high;             /* its image */
	uintptr_t relro_low, relro_high; /* read-only since it was relocated */
	const ElfW(Sym) * symbols;
	const char *strings;
	struct table relocations;
	struct table calls; /* of functions, which may be bound at the first call */
};

/* ---- reading a module ---- */

static uintptr_t address_of(const struct module *m, const ElfW(Dyn) * d)
{
	uintptr_t at = (uintptr_t)d->d_un.d_ptr;

	return at < m->low ? at + m->info->dlpi_addr : at; /* relocated or not */
}

static void take_dynamic(struct module *m, const ElfW(Dyn) * d)
{
	switch (d->d_tag) {
	case DT_SYMTAB:
		m->symbols = ms_pointer(address_of(m, d));
		break;
	case DT_STRTAB:
		m->strings = ms_pointer(address_of(m, d));
		break;
	case DT_RELA:
	case DT_REL:
		m->relocations.at = ms_pointer(address_of(m, d));
		m->relocations.each = d->d_tag == DT_RELA ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel));
		break;
	case DT_RELASZ:
	case DT_RELSZ:
		m->relocations.bytes = d->d_un.d_val;
		break;
	case DT_JMPREL:
		m->calls.at = ms_pointer(address_of(m, d));
		break;
	case DT_PLTRELSZ:
		m->calls.bytes = d->d_un.d_val;
		break;
	case DT_PLTREL:
		m->calls.each = d->d_un.d_val == DT_RELA ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel));
		break;
	default:
		break;
	}
}

static bool read_module(const struct dl_phdr_info *info, struct module *ret)
{
	const ElfW(Dyn) *dynamic = NULL;

	*ret = (struct module){ .info = info, .low = UINTPTR_MAX };
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && begin < ret->low)
			ret->low = begin;
		if (p->p_type == PT_LOAD && begin + p->p_memsz > ret->high)
			ret->high = begin + p->p_memsz;
		if (p->p_type == PT_GNU_RELRO) {
			ret->relro_low = begin;
			ret->relro_high = begin + p->p_memsz;
		}
		if (p->p_type == PT_DYNAMIC)
			dynamic = ms_pointer(begin);
	}
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
		take_dynamic(ret, dynamic);
	return ret->symbols && ret->strings;
}

/* ---- redirecting ---- */

/*
 * Asks the kernel, by writing what is there. Pages that are read-only once they are relocated
 * may not be so yet, when another thread is loading their library.
 */
static bool is_writable(uintptr_t slot)
{
	uintptr_t value = __atomic_load_n((uintptr_t *)ms_pointer(slot), __ATOMIC_RELAXED);
	struct iovec local = { &value, sizeof(value) };
	struct iovec remote = { ms_pointer(slot), sizeof(value) };

	return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == sizeof(value);
}

static void set(const struct module *m, uintptr_t slot, uintptr_t value)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *begin = ms_pointer(slot & ~(page - 1));
	bool relro = slot >= (m->relro_low & ~(page - 1)) && slot < (m->relro_high & ~(page - 1));
	bool fixed = !is_writable(slot);

	if (fixed && (!relro || mprotect(begin, page, PROT_READ | PROT_WRITE) != 0))
		return;
	__atomic_store_n((uintptr_t *)ms_pointer(slot), value, __ATOMIC_RELEASE);
	if (fixed)
		(void)mprotect(begin, page, PROT_READ);
}

static const struct pair *pair_of(const struct look *l, const char *name)
{
	for (size_t i = 0; i < NAMES; i++)
		if (name[0] == l->pairs[i].name[0] && strcmp(name, l->pairs[i].name) == 0)
			return &l->pairs[i];
	return NULL;
}

static void look_at(struct look *l, const struct module *m, const ElfW(Rel) * r, bool call)
{
	uintptr_t at = m->info->dlpi_addr + r->r_offset;
	const uintptr_t *slot = ms_pointer(at);
	const struct pair *pair;
	bool unbound;

	if (!SYMBOL_OF(r->r_info) || at % sizeof(*slot) || at < m->low ||
	    at > m->high - sizeof(*slot))
		return;
	pair = pair_of(l, m->strings + m->symbols[SYMBOL_OF(r->r_info)].st_name);
	if (!pair || !pair->next)
		return;
	unbound = call && pair->lazy_too && *slot >= m->low && *slot < m->high &&
	          pair->ours - m->low >= m->high - m->low;
	if (*slot != pair->next && !unbound)
		return;
	set(m, at, pair->ours);
	l->n += *slot == pair->ours;
}

static void look_at_all(struct look *l, const struct module *m, const struct table *table)
{
	if (!table->at || !table->each)
		return;
	for (size_t i = 0; i + table->each <= table->bytes; i += table->each)
		look_at(l, m, (const void *)((const char *)table->at + i), table == &m->calls);
}

static int look_at_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct look *l = ctx;
	struct module m;

	(void)size;
	l->begun |= !l->from || (info->dlpi_addr == l->from->l_addr && info->dlpi_name &&
	                         strcmp(info->dlpi_name, l->from->l_name) == 0);
	/* not the one that defines ours, whose references may be meant so */
	if (!l->begun || !read_module(info, &m) ||
	    ((uintptr_t)&state >= m.low && (uintptr_t)&state < m.high))
		return 0;
	look_at_all(l, &m, &m.relocations);
	look_at_all(l, &m, &m.calls);
	return 0;
}

/* @library: a handle, or NULL for all modules */
static uint32_t redirect(void *library)
{
	struct look l = { .from = NULL };
	struct link_map *map = NULL;

	if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
		return 0;
	l.from = map;
	for (size_t i = 0; i < NAMES; i++) {
		struct pair *pair = &l.pairs[i];
		uintptr_t bound;

		pair->name = names[i];
		pair->ours = (uintptr_t)dlsym(RTLD_DEFAULT, names[i]);
		pair->next = (uintptr_t)dlsym(RTLD_NEXT, names[i]);
		bound = library ? (uintptr_t)dlsym(library, names[i]) : 0;
		pair->lazy_too = bound && bound == pair->next;
	}
	(void)dl_iterate_phdr(look_at_module, &l);
	return l.n;
}

/* ---- what is known ---- */

static void note(uint32_t n, const char *name)
{
	if (!n)
		return;
	__atomic_store_n(&state.any, true, __ATOMIC_RELAXED);
	if (!__atomic_exchange_n(&state.said, true, __ATOMIC_RELAXED))
		ms_say("%s calls the next allocator directly (RTLD_DEEPBIND); its calls, and those "
		       "of others like it, are redirected here. Blocks made before are not checked.",
		       name);
}

static int take_changes(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	*(uint64_t *)ctx = info->dlpi_adds + info->dlpi_subs + 1;
	return 1;
}

bool ms_bypass_look(void)
{
	int kept = errno;
	uint64_t changes = 0;

	(void)dl_iterate_phdr(take_changes, &changes);
	if (changes != __atomic_load_n(&state.looked_at, __ATOMIC_RELAXED)) {
		note(redirect(NULL), "A library");
		__atomic_store_n(&state.looked_at, changes, __ATOMIC_RELAXED);
	}
	errno = kept;
	return __atomic_load_n(&state.any, __ATOMIC_RELAXED);
}

void ms_bypass_loaded(void *library, const char *name)
{
	int kept = errno;

	note(redirect(library), name);
	errno = kept;
}

void ms_bypass_unseen(void)
{
	__atomic_store_n(&state.any, true, __ATOMIC_RELAXED);
	ms_registry_bypassed();
}
