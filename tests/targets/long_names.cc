// SPDX-License-Identifier: Apache-2.0
/* long_names: blocks of classes whose names are long, and have spaces and brackets; see truth.h. */
#include <map>
#include <string>
#include <vector>

extern "C" {
#include "truth.h"
}

template <class Key, class Value> struct Registry {
	virtual ~Registry()
	{
	}
	Key *keys = nullptr;
	Value *values = nullptr;
};

using Table = Registry<std::vector<unsigned long>, Registry<std::vector<long>, std::vector<char>>>;

struct Registrar {
	virtual ~Registrar()
	{
	}
};

static void *volatile kept[2];

int main()
{
	kept[0] = new Table;
	kept[1] = new Registrar;
	ready();
}
