/* SPDX-License-Identifier: Apache-2.0 */
/* A library to be opened at run time, and what it makes: each tells its type's name. */
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <typeinfo>

namespace plugin
{

struct Widget {
	virtual ~Widget()
	{
	}
	virtual int work()
	{
		return 1;
	}
	long n = 0;
};

/* Of a class of the C++ library. */
struct Broken : std::exception {
	const char *what() const noexcept override
	{
		return "broken";
	}
};

} // namespace plugin

static int open_it(void *)
{
	return 1;
}

static int close_it(void *)
{
	return 2;
}

struct operations {
	int (*open)(void *);
	int (*close)(void *);
};

static const struct operations operations = { open_it, close_it };

template <class T> static void *make(const char **name)
{
	void *p = calloc(1, sizeof(T) + 64);

	*name = typeid(*new (p) T).name();
	return p;
}

extern "C" {
void *make_widget(const char **name)
{
	return make<plugin::Widget>(name);
}

void *make_derived(const char **name)
{
	return make<plugin::Broken>(name);
}

/* As C does it: a pointer to what can be done with the block. */
void *make_operated(const char **)
{
	const struct operations *p = &operations;
	void *block = calloc(1, 64);

	memcpy(block, &p, sizeof(p));
	return block;
}
}
