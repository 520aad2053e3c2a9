/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Hides blocks where no scan of this process looks, and takes them back: `hides file`,
 * `hides xor`, `hides child` (in the memory of a child process); see truth.h. It begins
 * with them in reach. A line of input, "hide" or "show", is repeated when it was obeyed.
 *
 * Beside them are true leaks; what is hidden holds more blocks, and one of the leaks.
 */
#include "truth.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { ROWS = 5, TRUE_LEAKS = 40, KEY = 0x5a5a5a5a };

struct row {
	struct row *next;
	void *load;
};

/* The first row, when it is shown. */
static struct row *volatile shown;

/* ---- where it hides ---- */

static int ends[2];
static volatile uintptr_t inverted;

static void put(int fd)
{
	void *p = shown;

	if (write(fd, &p, sizeof(p)) != sizeof(p))
		_exit(97);
}

static void get(int fd)
{
	void *p;

	if (read(fd, &p, sizeof(p)) != sizeof(p))
		_exit(97);
	shown = p;
}

static void file_begin(void)
{
	ends[0] = memfd_create("hides", 0);
	if (ends[0] < 0)
		_exit(97);
}

static void file_hide(void)
{
	put(ends[0]);
}

static void file_show(void)
{
	if (lseek(ends[0], 0, SEEK_SET) != 0)
		_exit(97);
	get(ends[0]);
	if (lseek(ends[0], 0, SEEK_SET) != 0)
		_exit(97);
}

static void xor_begin(void)
{
}

static void xor_hide(void)
{
	inverted = ~(uintptr_t)shown ^ KEY;
}

static void xor_show(void)
{
	shown = (struct row *)(~inverted ^ KEY);
}

/* The child begins before there are blocks. It keeps an address until it is asked for it. */
static void child_begin(void)
{
	char kept[sizeof(void *)];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
		_exit(97);
	if (fork() != 0) {
		(void)close(ends[1]);
		return;
	}
	(void)close(ends[0]);
	while (recv(ends[1], kept, sizeof(kept), 0) == sizeof(kept) &&
	       recv(ends[1], kept, 0, 0) == 0 &&
	       send(ends[1], kept, sizeof(kept), 0) == sizeof(kept))
		;
	_exit(0);
}

static void child_hide(void)
{
	put(ends[0]);
}

static void child_show(void)
{
	(void)send(ends[0], "", 0, 0);
	get(ends[0]);
}

static const struct place {
	const char *name;
	void (*begin)(void);
	void (*hide)(void);
	void (*show)(void);
} places[] = {
	{ "file", file_begin, file_hide, file_show },
	{ "xor", xor_begin, xor_hide, xor_show },
	{ "child", child_begin, child_hide, child_show },
};

/* ---- what there is ---- */

NOINLINE static void make(void)
{
	struct row *rows = NULL;

	for (int i = 0; i < ROWS; i++) {
		struct row *row = fresh(sizeof(*row));

		row->load = fresh(100 + 1000 * (size_t)i);
		row->next = rows;
		tell("live", row);
		tell("live", row->load);
		rows = row;
	}
	shown = rows;
	for (int i = 0; i < TRUE_LEAKS; i++) {
		struct row *row = fresh(sizeof(*row));

		row->load = fresh(10 + 50 * (size_t)i);
		tell("leak", row);
		tell("leak", row->load);
	}
}

NOINLINE static void obey(const struct place *place, const char *word)
{
	if (strcmp(word, "hide\n") == 0) {
		place->hide();
		shown = NULL;
	} else {
		place->show();
	}
}

int main(int argc, char **argv)
{
	const struct place *place = places;
	char word[64];

	while (place < places + 3 && (argc != 2 || strcmp(place->name, argv[1]) != 0))
		place++;
	if (place == places + 3)
		return 2;
	place->begin();
	make();
	forget();
	say_text("READY\n");
	for (;;) {
		ssize_t n = read(STDIN_FILENO, word, sizeof(word) - 1);

		if (n <= 0)
			_exit(0);
		word[n] = '\0';
		obey(place, word);
		inverted = strcmp(place->name, "xor") == 0 ? inverted : 0;
		forget();
		say_text(word);
	}
}
