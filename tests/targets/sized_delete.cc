// SPDX-License-Identifier: Apache-2.0
/*
 * sized_delete COUNT: gives blocks of 32 bytes back as blocks of 16 bytes, as a program does
 * that deletes objects by a base class without a virtual destructor; then leaks. See truth.h.
 */
#include <new>

extern "C" {
#include "truth.h"
}

enum { LEAKS = 20, LEAKED = 100 };

NOINLINE static void lose()
{
	for (int i = 0; i < LEAKS; i++)
		tell_sized("leak", malloc(LEAKED), 112);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 10;

	for (int i = 0; i < n; i++) {
		void *p = ::operator new(32);

		OPAQUE(p);
		::operator delete(p, 16);
	}
	lose();
	ready();
}
