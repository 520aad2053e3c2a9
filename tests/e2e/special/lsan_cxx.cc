/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The same in C++; see lsan_c.c.
 */
#include <sanitizer/lsan_interface.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#define NOINLINE __attribute__((noinline, noclone))

template <size_t N> struct Block {
	char bytes[N - sizeof(void *)] = {};
	void *other = nullptr;
};

template <size_t N> NOINLINE Block<N> *make()
{
	auto *block = new Block<N>();

	block->other = new Block<N + 16>();
	return block;
}

template <size_t N> NOINLINE void lose()
{
	Block<N> *volatile block = make<N>();

	block = nullptr;
	(void)block;
}

/* A singleton that is left on purpose, the way many libraries have it. */
NOINLINE static void windows()
{
	__lsan::ScopedDisabler outer;
	lose<1000>();
	{
		__lsan::ScopedDisabler inner;
		lose<1032>();
	}
	lose<1064>();
}

NOINLINE static void objects()
{
	__lsan_ignore_object(make<2008>());
	lose<3000>();
	std::unique_ptr<Block<3032>> deleted(new Block<3032>());
	__lsan_ignore_object(deleted.get());
}

/* The other thread's window is not this one's. */
NOINLINE static void beside()
{
	std::thread([] {
		__lsan::ScopedDisabler mine;
		std::thread([] { lose<4008>(); }).join();
		lose<5000>();
	}).join();
}

NOINLINE static void thrown()
{
	try {
		__lsan::ScopedDisabler until_thrown;
		lose<6008>();
		throw 1;
	} catch (int) {
		lose<7000>();
	}
}

NOINLINE static void forget()
{
	char dead[65536];

	memset(dead, 0, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
}

int main()
{
	windows();
	objects();
	beside();
	thrown();
	forget();
	puts("READY");
	fflush(stdout);
	forget();
	while (getchar() != EOF)
		;
	forget();
	return 0;
}
