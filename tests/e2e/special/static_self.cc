/* SPDX-License-Identifier: Apache-2.0 */
/* A C++ program to be linked statically that searches itself. */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "memunreachable/memunreachable.h"

/* Kept inverted, it is no reference. */
static volatile uintptr_t hidden;
static std::vector<std::string> *volatile kept;

__attribute__((noinline)) static void make()
{
	hidden = ~reinterpret_cast<uintptr_t>(new char[333]);
	kept = new std::vector<std::string>(100, std::string(100, 'x'));
}

__attribute__((noinline)) static void forget()
{
	char dead[1 << 16];

	memset(dead, 0, sizeof(dead));
	__asm__ volatile("" : : "r"(dead) : "memory");
}

int main()
{
	android::UnreachableMemoryInfo info;
	bool found;

	make();
	forget();
	found = android::GetUnreachableMemory(info);
	printf("%d %zu", found, info.num_leaks);
	for (const android::Leak &leak : info.leaks)
		printf(" %zu", leak.size);
	printf("\n");
	return kept->size() == 100 ? 0 : 1;
}
