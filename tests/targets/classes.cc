/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of C++ classes that nothing reaches. Besides where each block is, the program
 * tells its type as its own typeid has it: "is:NAME 0xADDR SIZE".
 */
#include "truth.h"

#include <dlfcn.h>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

namespace shop
{

struct Item {
	virtual ~Item()
	{
	}
	Item *first = nullptr;
	Item *second = nullptr;
};

struct Book : Item {
};

struct Priced {
	virtual ~Priced()
	{
	}
	long price = 0;
};

/* Its second vtable pointer, for Item, is not where the block begins. */
struct Both : Priced, Item {
};

struct Virtually : virtual Item {
	long more = 0;
};

/* A base without virtual functions, which comes behind the pointer all the same. */
struct Bare {
	long a = 0;
};

struct Dressed : Bare {
	virtual ~Dressed()
	{
	}
};

template <class T> struct Box : Item {
	T value{};
};

template <class A, class B = Box<A>> struct Pair : Item {
	struct Inner : Item {
	};
};

template <int n, bool sure> struct Sized : Item {
};

namespace
{
struct Hidden : Item {
};
} // namespace

struct Cache : Item {
};
struct Keeper : Item {
};
struct Part : Item {
};
struct Ring : Item {
};

} // namespace shop

namespace
{

template <class T> NOINLINE T *told(T *p)
{
	char what[512];

	tell("leak", p);
	*put_text(put_text(what, "is:"), typeid(*p).name()) = '\0';
	tell(what, p);
	return p;
}

/* A new object, with nothing in the usable bytes behind it. */
template <class T> NOINLINE T *make()
{
	return told(new (fresh(sizeof(T))) T);
}

template <class T> NOINLINE void lose()
{
	(void)make<T>();
}

NOINLINE void lose_local()
{
	struct Local : shop::Item {
	};

	lose<Local>();
}

NOINLINE void types()
{
	lose<shop::Item>();
	lose<shop::Book>();
	lose<shop::Both>();
	lose<shop::Virtually>();
	lose<shop::Dressed>();
	lose<shop::Hidden>();
	lose<shop::Box<int>>();
	lose<shop::Box<shop::Box<const char *>>>();
	lose<shop::Box<std::string>>();
	lose<shop::Box<std::vector<std::string>>>();
	lose<shop::Pair<long>>();
	lose<shop::Pair<shop::Book, shop::Box<shop::Book>>::Inner>();
	lose<shop::Sized<-7, true>>();
	lose<shop::Box<void (*)(int)>>();
	lose_local();
}

/* Classes of the C++ library. */
NOINLINE void standard()
{
	lose<std::ostringstream>();
	lose<std::bad_alloc>();
	told(new (fresh(sizeof(std::logic_error))) std::logic_error(""));
}

/* Blocks whose first word tells nothing, however it looks. */
NOINLINE void plain()
{
	static const char text[] = "some text of the program, and long enough";
	void *function = reinterpret_cast<void *>(&free);
	const void *string = text;
	uint64_t *block = static_cast<uint64_t *>(fresh(64));

	tell("leak", block);
	block = static_cast<uint64_t *>(fresh(64));
	memcpy(block, &function, sizeof(function));
	tell("leak", block);
	block = static_cast<uint64_t *>(fresh(64));
	memcpy(block, &string, sizeof(string));
	tell("leak", block);
	leak(4);
}

/*
 * What is held by a Cache alone, by a Cache and a Keeper, by a Keeper alone; a ring that
 * a Cache leads to, and one that leads to a Cache.
 */
NOINLINE void graph()
{
	shop::Cache *cache = make<shop::Cache>();
	shop::Keeper *keeper = make<shop::Keeper>();
	shop::Ring *ring = make<shop::Ring>();

	cache->first = make<shop::Part>();
	cache->second = make<shop::Part>();
	keeper->first = cache->second;
	keeper->second = make<shop::Part>();
	cache->second->first = make<shop::Ring>();
	cache->second->first->first = make<shop::Ring>();
	cache->second->first->first->first = cache->second->first;
	ring->first = make<shop::Ring>();
	ring->first->first = ring;
	ring->first->second = make<shop::Cache>();
	ring->first->second->first = make<shop::Book>();
}

NOINLINE void use_library(const char *function)
{
	void *library = dlopen(getenv("CLASS_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
	void *(*make_one)(const char **name);
	const char *name = nullptr;
	char what[512];
	void *p;

	if (!library)
		_exit(97);
	make_one = reinterpret_cast<void *(*)(const char **)>(dlsym(library, function));
	p = make_one(&name);
	tell("leak", p);
	if (name) {
		*put_text(put_text(what, "is:"), name) = '\0';
		tell(what, p);
	}
}

NOINLINE void library()
{
	use_library("make_widget");
	use_library("make_derived");
	use_library("make_operated");
}

const struct scenario scenarios[] = {
	{ "types", types, 0 }, { "standard", standard, 0 }, { "plain", plain, 0 },
	{ "graph", graph, 0 }, { "library", library, 1 },
};

} // namespace

int main(int argc, char **argv)
{
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),
	                    argc > 1 ? argv[1] : "types");
}
