/* SPDX-License-Identifier: Apache-2.0 */

/* A leak of a C++ program whose stack is named; ends when its input does. */
#include <cstdio>
#include <cstring>

namespace shop
{

template <typename T> struct Cart {
	T *fill(size_t n)
	{
		T *p = new T[n]; /* here: fill */

		memset(p, 1, n);
		return p;
	}
};

__attribute__((noinline)) static void lose(size_t n)
{
	Cart<char> cart;
	char *p = cart.fill(n); /* here: lose */

	asm volatile("" : "+r"(p));
}

} // namespace shop

static __attribute__((noinline)) void forget()
{
	volatile char stack[16 * 1024];

	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = 0;
}

int main()
{
	auto outer = [](size_t n) __attribute__((noinline))
	{
		shop::lose(n); /* here: lambda */
		asm volatile("");
	};

	volatile size_t size = 1234; /* else there are clones of functions, just for that */

	outer(size);
	forget();
	puts("READY");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
