/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Functions behind a symbol of no size: `sizeless LIBRARY`, where LIBRARY is this file built with
 * -DLIBRARY and stripped; see truth.h. The library has stubs of an assembler's, whose symbols have
 * no size, functions without a symbol right behind them, and functions with one elsewhere.
 *
 *	nameless    nothing has it, and it has a function without a symbol
 *	exported    nothing has it, and it has a function with one
 *	labelled    nothing has it, and it has the function that a symbol of no size is the begin of
 *
 * It waits inside of a function without a symbol.
 */
#include "truth.h"

#include <dlfcn.h>

enum { NAMELESS = 232, EXPORTED = 360, LABELLED = 488 };

#ifdef LIBRARY

/* Of its own, so that no other symbol comes between. */
#define SECTION "stubs"

__asm__(".section " SECTION ", \"ax\", %progbits\n"
        ".globl stub\n"
        ".type stub, %function\n"
        "stub: ret\n"
        ".skip 2047, 0x90\n"
        ".globl labelled_stub\n"
        ".type labelled_stub, %function\n"
        "labelled_stub:\n"
        ".cfi_startproc\n"
        "ret\n"
        ".skip 63, 0x90\n"
        ".cfi_endproc\n"
        ".text\n");

void labelled_stub(void);

static NOINLINE __attribute__((section(SECTION))) void destroy(void *p)
{
	say_text("destroy\n");
	free(p);
}

void close_it(void *p)
{
	say_text("close\n");
	free(p);
}

static void *make(size_t size, void (*function)(void *p))
{
	void **p = calloc(1, size);

	p[1] = (void *)(uintptr_t)function;
	return p;
}

void lose(void)
{
	tell("nameless", make(NAMELESS, destroy));
	tell("exported", make(EXPORTED, close_it));
	tell("labelled", make(LABELLED, (void (*)(void *))(uintptr_t)labelled_stub));
}

static NOINLINE __attribute__((section(SECTION))) void wait_inside(void)
{
	ready();
	say_text("");
}

void wait_here(void)
{
	wait_inside();
	say_text("");
}

#else

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

	if (!library)
		return 2;
	((void (*)(void))(uintptr_t)dlsym(library, "lose"))();
	forget();
	((void (*)(void))(uintptr_t)dlsym(library, "wait_here"))();
}

#endif
