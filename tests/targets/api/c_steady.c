/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that searches itself every 50 ms while its threads allocate: the answer and
 * the memory stay what they are, and nothing is left. STEADY in the environment says for
 * how many seconds; see api.h.
 */
#include "api.h"

#include <pthread.h>
#include <time.h>

enum { THREADS = 4, SLOTS = 64, PLANTED = 5, DEFAULT_S = 3, EVERY_US = 50000 };

static volatile bool ended;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Small blocks, arenas that grow, and blocks that are mappings, each kept for a while. */
static void *allocate(void *arg)
{
	void *held[SLOTS] = { NULL };
	unsigned seed = (unsigned)(uintptr_t)arg;

	while (!ended) {
		int slot = rand_r(&seed) % SLOTS;
		int kind = rand_r(&seed) % 100;
		size_t size = (size_t)rand_r(&seed) % (kind ? kind < 90 ? 400 : 20000 : 300000);

		if (kind % 2) {
			held[slot] = realloc(held[slot], size + 1);
		} else {
			free(held[slot]);
			held[slot] = malloc(size);
		}
		/* An old link of an allocator's list of free blocks may lead to one that is lost.
		 */
		if (held[slot])
			memset(held[slot], 0, malloc_usable_size(held[slot]));
	}
	for (int i = 0; i < SLOTS; i++)
		free(held[i]);
	return NULL;
}

/* Pages of address space. */
static unsigned long mapped(void)
{
	char text[128] = "";
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	EXPECT(read(fd, text, sizeof(text) - 1) > 0, "statm: %s", strerror(errno));
	close(fd);
	return strtoul(text, NULL, 10);
}

static void search_for(double seconds)
{
	double end = now_s() + seconds;
	unsigned long grown = 0, first = 0;
	int n = 0;

	for (; now_s() < end; n++) {
		EXPECT_LEAKS(PLANTED);
		usleep(EVERY_US);
		if (n == 10)
			first = mapped();
	}
	grown = first ? mapped() - first : 0;
	/* Arenas grow and shrink; a search that left its memory would leave a MiB each time. */
	EXPECT((long)grown < 32 * 1024, "%lu pages more after %d searches", grown, n);
	EXPECT(n > 3, "only %d searches", n);
}

static void while_threads_allocate(void)
{
	const char *seconds = getenv("STEADY");
	pthread_t threads[THREADS];

	for (size_t i = 0; i < PLANTED; i++)
		hide_new(i, BLOCK);
	forget(); /* a thread begins with registers of the one that made it */
	for (size_t i = 0; i < THREADS; i++)
		EXPECT(!pthread_create(&threads[i], NULL, allocate, (void *)(i + 1)), "no thread");
	search_for(seconds ? atof(seconds) : DEFAULT_S);
	ended = true;
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static const struct api_case cases[] = {
	{ "while_threads_allocate", while_threads_allocate },
};

int main(int argc, char **argv)
{
	return RUN_CASE(cases, argc, argv);
}
