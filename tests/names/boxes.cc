// SPDX-License-Identifier: Apache-2.0
//! Containers of LLVM's library, in a program that says what its blocks are: of each a line in a file.
//!
//!	boxes FILE
//!
//! What is allocated while a `Making` lives is a part of that. The program runs until its input ends.

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <new>
#include <set>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>
#include <vector>

// ---- what was allocated as what ----

struct Made {
	void *at;
	const char *name;
};

static Made made[1 << 17];
static size_t n_made;
// Of a container's blocks; and of those of a length or more, where it has two kinds.
static const char *making, *making_large;
static size_t large;

struct Making {
	Making(const char *name, const char *of_large = nullptr, size_t least = 0)
	{
		making = name, making_large = of_large, large = least;
	}
	~Making() { making = nullptr; }
};

void *operator new(size_t size)
{
	void *at = malloc(size);

	if (!at)
		abort();
	if (making && n_made < sizeof(made) / sizeof(made[0]))
		made[n_made++] = { at, making_large && size >= large ? making_large : making };
	return at;
}

void operator delete(void *at) noexcept
{
	for (size_t i = n_made; at && i-- > 0;)
		if (made[i].at == at) {
			made[i] = made[--n_made];
			break;
		}
	free(at);
}

// ---- the containers ----

static std::string text(const char *before, int i)
{
	Making part("buffer of std::string");

	return std::string(before) + " with a number that makes it long: " + std::to_string(i);
}

struct Point {
	double x, y, z;
};

static std::vector<std::string> words;
static std::vector<Point> points;
static std::vector<int *> pointers;
static std::list<std::string> lines;
static std::map<int, Point> prices;
static std::set<std::string> names;
static std::unordered_map<int, Point> places;
static std::unordered_set<std::string> tags;
static std::deque<Point> jobs;

static void add(int i)
{
	{
		std::string word = text("a word", i), line = text("a line", i), name = text("a name", i), tag = text("a tag", i);
		{
			Making part("elements of std::vector");
			words.push_back(std::move(word));
			points.push_back({ 1.0 * i, 2.0, 3.0 });
			pointers.push_back(nullptr);
		}
		{
			Making part("node of std::list");
			lines.push_back(std::move(line));
		}
		{
			Making part("node of std::map or std::set");
			prices[i * 7] = { 1.0, 2.0, 1.0 * i };
			names.insert(std::move(name));
		}
		{
			// Nodes have 48 bytes at most; the first table of buckets is no longer.
			Making part("node of an unordered container", "buckets of an unordered container", 49);
			places[i * 3] = { 1.0, 2.0, 1.0 * i };
			tags.insert(std::move(tag));
		}
	}
	Making part("map of std::deque", "elements of std::deque", 4000);
	jobs.push_back({ 4.0, 5.0, 1.0 * i });
	if (i % 3 == 0)
		jobs.pop_front();
}

int main(int, char **argv)
{
	FILE *out = fopen(argv[1], "w");

	for (int i = 0; i < 3000; i++)
		add(i);
	for (size_t i = 0; i < n_made; i++)
		fprintf(out, "%p %s\n", made[i].at, made[i].name);
	fclose(out);
	while (getchar() != EOF)
		;
	return 0;
}
