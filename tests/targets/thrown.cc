// SPDX-License-Identifier: Apache-2.0
//
// thrown: after READY, for each line of standard input it asks every operator new for more than
// there is, and says how many threw std::bad_alloc, and how many said that there is nothing.
#include <cstdio>
#include <new>

static const std::size_t most = std::size_t(1) << 60;
static volatile std::size_t size = most;

template <class Make> static void ask(Make make, int *threw, int *nothing)
{
	try {
		*nothing += make() == nullptr;
	} catch (const std::bad_alloc &) {
		++*threw;
	}
}

int main()
{
	const std::align_val_t page{ 4096 };
	char line[16];

	std::setvbuf(stdin, nullptr, _IONBF, 0);
	std::puts("READY");
	std::fflush(stdout);
	while (std::fgets(line, sizeof(line), stdin)) {
		int threw = 0, nothing = 0;

		for (int i = 0; i < 1000; i++) {
			ask([] { return ::operator new(size); }, &threw, &nothing);
			ask([] { return ::operator new[](size); }, &threw, &nothing);
			ask([&] { return ::operator new(size, page); }, &threw, &nothing);
			ask([&] { return ::operator new[](size, page); }, &threw, &nothing);
			ask([] { return ::operator new(size, std::nothrow); }, &threw, &nothing);
			ask([&] { return ::operator new(size, page, std::nothrow); }, &threw,
			    &nothing);
		}
		std::printf("threw %d nothing %d\n", threw, nothing);
		std::fflush(stdout);
	}
	return 0;
}
