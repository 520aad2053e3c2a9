/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/walk.h"

static const char deleted[] = " (deleted)";
static const char debug_folder[] = "/usr/lib/debug";

enum { BY_NAME = 2 }; /* the first place where a name leads, of a file with code */

/* A question, with what its place is made of. */
struct search {
	const struct ms_opener *opener;
	const struct ms_file_question *q;
	struct ms_opener_file file;
	int path_len;   /* of the file's, without what the kernel adds */
	int folder_len; /* of the folder of that */
	char id[2 * MS_FILE_ID + 1];
	struct ms_file_answer *ret;
};

/* ---- opening ---- */

/*
 * Whether everyone, or the user of the process, may read this file or pass this folder. Nobody
 * asks for permission to follow a link.
 */
static bool is_allowed(const void *ctx, const struct stat *st)
{
	const struct ms_opener *opener = ctx;
	mode_t owners = S_ISDIR(st->st_mode) ? S_IXUSR : S_IRUSR | S_IWUSR;
	mode_t everyones = S_ISDIR(st->st_mode) ? S_IXOTH : S_IROTH;

	return S_ISLNK(st->st_mode) || st->st_mode & everyones ||
	       (st->st_uid == opener->uid && st->st_mode & owners);
}

/* Whether the caller gave that folder by hand: what is in there is the caller's to give. */
static bool is_given(const struct ms_opener *opener, const char *root)
{
	return root == opener->folder || (opener->confined && root == opener->roots[0]);
}

/* The file of that name in @root, if it may be given away. */
static int __attribute__((format(printf, 3, 4)))
open_named(const struct search *s, const char *root, const char *fmt, ...)
{
	const struct ms_opener *opener = s->opener;
	const struct ms_walk walk = { is_allowed, opener };
	char path[PATH_MAX];
	va_list ap;
	int n;

	if (!root)
		return -1;
	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n < 0 || n >= PATH_MAX ||
	    snprintf(s->ret->path, PATH_MAX, "%s%s", root, path) >= PATH_MAX)
		return -1;
	if (is_given(opener, root))
		return ms_file_open_below(root, path);
	if (opener->uid != MS_OPENER_ANYONE)
		return ms_file_open_allowed(*root ? root : "/", path, &walk);
	/* In our own root links are believed. */
	return strncmp(root, "/proc/", 6) == 0 ? ms_file_open_below(root, path)
	                                       : ms_file_open_regular(s->ret->path);
}

/* ---- the mapped file itself ---- */

static bool has_inode(int fd, uint64_t inode)
{
	struct stat st;

	return !inode || (fstat(fd, &st) == 0 && st.st_ino == inode);
}

/* @fd if it is open and has that inode, else -1. */
static int checked(int fd, uint64_t inode)
{
	if (fd < 0 || has_inode(fd, inode))
		return fd;
	(void)close(fd);
	return -1;
}

static int open_in_root(const struct search *s, const char *root)
{
	int fd = s->file.path[0] == '/' && !s->file.renamed
	                 ? open_named(s, root, "%.*s", s->path_len, s->file.path)
	                 : -1;

	return checked(fd, s->file.named);
}

/* The program of the process, if that is the file: the kernel prints its name in the same way. */
static int open_program(const struct search *s)
{
	char link[sizeof(s->opener->root)];
	char name[PATH_MAX];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)s->opener->tid);
	n = readlink(link, name, sizeof(name) - 1);
	name[n > 0 ? n : 0] = '\0';
	if (n <= 0 || strcmp(name, s->file.path) != 0)
		return -1;
	(void)snprintf(s->ret->path, PATH_MAX, "%s", link);
	return checked(ms_file_open_regular(link), s->file.named);
}

/*
 * Surest first: by the mapping, which is the file whatever became of its name, but takes a
 * privilege; the same of the program, which takes none; by name. Of a process after chroot()
 * alone the kernel shows us the path in our root.
 */
static int open_code(const struct search *s, uint32_t place)
{
	const struct ms_opener *opener = s->opener;

	if (place >= BY_NAME)
		return open_in_root(s, opener->roots[place - BY_NAME]);
	if (!place && opener->given && opener->given_name &&
	    strcmp(opener->given_name, s->file.path) == 0) {
		(void)snprintf(s->ret->path, PATH_MAX, "%s", opener->given);
		return ms_file_open_regular(opener->given);
	}
	if (!opener->tid)
		return -1;
	if (place > 0)
		return open_program(s);
	(void)snprintf(s->ret->path, PATH_MAX, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64,
	               (int)opener->tid, s->file.range.begin, s->file.range.end);
	return checked(ms_file_open_regular(s->ret->path), s->file.mapped);
}

/* ---- debug information ---- */

static int open_by_id(const struct search *s, const char *root, const char *folder)
{
	if (!s->id[0])
		return -1;
	return open_named(s, root, "%s/.build-id/%.2s/%s.debug", folder, s->id, s->id + 2);
}

/* A name alone: in no other folder. */
static bool is_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int open_beside(const struct search *s, const char *root, const char *before,
                       const char *behind)
{
	if (!is_name(s->q->name) || s->file.path[0] != '/')
		return -1;
	return open_named(s, root, "%s%.*s%s/%s", before, s->folder_len, s->file.path, behind,
	                  s->q->name);
}

/* By its build-id, or by its name with the ELF file, or in a tree that repeats the folders. */
static int open_debug(const struct search *s, uint32_t place)
{
	enum { IN_FOLDER = 3, IN_ROOT = 4 };
	const char *folder = s->opener->folder;
	const char *root;

	switch (place) {
	case 0:
		return open_by_id(s, folder, "");
	case 1:
		return open_beside(s, folder, "", "");
	case 2:
		return is_name(s->q->name) ? open_named(s, folder, "/%s", s->q->name) : -1;
	default:
		break;
	}
	root = s->opener->roots[(place - IN_FOLDER) / IN_ROOT];
	switch ((place - IN_FOLDER) % IN_ROOT) {
	case 0:
		return open_by_id(s, root, debug_folder);
	case 1:
		return open_beside(s, root, "", "");
	case 2:
		return open_beside(s, root, "", "/.debug");
	default:
		return open_beside(s, root, debug_folder, "");
	}
}

/* A path that leads down only. */
static bool is_below(const char *path)
{
	if (!*path)
		return false;
	for (const char *at = path; *at; at += strspn(at, "/")) {
		size_t len = strcspn(at, "/");

		if (len == 2 && at[0] == '.' && at[1] == '.')
			return false;
		at += len;
	}
	return true;
}

static int open_common(const struct search *s, uint32_t place)
{
	const char *root;

	if (place == 0)
		return open_by_id(s, s->opener->folder, "");
	root = s->opener->roots[(place - 1) / 2];
	if ((place - 1) % 2 == 0)
		return open_by_id(s, root, debug_folder);
	return is_below(s->q->name) ? open_named(s, root, "%s/%s", debug_folder, s->q->name) : -1;
}

static int open_served(const struct search *s, uint32_t place)
{
	(void)place;
	(void)snprintf(s->ret->path, PATH_MAX, "what a debuginfod server has");
	return s->opener->debuginfod && s->id[0] ? ms_fetch_debug(s->q->id, s->q->id_len) : -1;
}

/* ---- questions ---- */

void ms_opener_init(struct ms_opener *opener, pid_t tid, uid_t uid)
{
	memset(opener, 0, sizeof(*opener));
	opener->tid = tid;
	/* Without privileges there is nothing to be given away. */
	opener->uid = geteuid() == 0 ? uid : MS_OPENER_ANYONE;
	(void)snprintf(opener->root, sizeof(opener->root), "/proc/%d/root", (int)tid);
	opener->roots[0] = tid ? opener->root : NULL;
	opener->roots[1] = "";
}

static const struct {
	int (*open)(const struct search *s, uint32_t place);
	uint32_t places;
	bool of_code; /* it has to be one that there is */
} kinds[] = {
	[MS_FILE_CODE] = { open_code, BY_NAME + MS_OPENER_ROOTS, true },
	[MS_FILE_DEBUG] = { open_debug, 3 + 4 * MS_OPENER_ROOTS, true },
	[MS_FILE_COMMON] = { open_common, 1 + 2 * MS_OPENER_ROOTS, false },
	[MS_FILE_SERVER] = { open_served, 1, false },
};

static bool begin(struct search *s)
{
	const struct ms_file_question *q = s->q;
	const char *slash;
	size_t len;

	s->file = (struct ms_opener_file){ .path = "" };
	if (q->kind >= sizeof(kinds) / sizeof(kinds[0]) || q->id_len > MS_FILE_ID ||
	    !memchr(q->name, '\0', MS_FILE_NAME))
		return false;
	for (size_t i = 0; q->id_len >= 2 && i < q->id_len; i++)
		(void)snprintf(s->id + 2 * i, 3, "%02x", q->id[i]);
	if (!kinds[q->kind].of_code)
		return true;
	if (q->code >= s->opener->n || !s->opener->file(s->opener->files, q->code, &s->file))
		return false;
	len = strnlen(s->file.path, PATH_MAX - 1);
	if (len >= strlen(deleted) &&
	    memcmp(s->file.path + len - strlen(deleted), deleted, strlen(deleted)) == 0)
		len -= strlen(deleted);
	s->path_len = (int)len;
	slash = memrchr(s->file.path, '/', len);
	s->folder_len = slash ? (int)(slash - s->file.path) : 0;
	return true;
}

int ms_opener_find(void *ctx, const struct ms_file_question *question, struct ms_file_answer *ret)
{
	struct search s = { .opener = ctx, .q = question, .ret = ret };

	if (!begin(&s))
		return -1;
	for (uint32_t place = question->place; place < kinds[question->kind].places; place++) {
		int fd = kinds[question->kind].open(&s, place);

		ret->place = place;
		if (fd >= 0)
			return fd;
	}
	return -1;
}
