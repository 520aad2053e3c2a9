/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what opens files for a process that may have been taken over by what it reads
 * (sym/opener.h, cli/broker.h).
 *
 *	fuzz: -max_len=512
 *
 * The first byte of an input chooses whether the question comes over a socket, and whether
 * the rest is its bytes, or: kind, number, place, length of a build-id, that, and a name.
 * Two folders are made, of which one is the process's root. What is given must be a
 * regular file in there that everyone may read, and never the one outside.
 */

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/broker.h"
#include "sym/pass.h"

#include "fuzz.h"

enum { OTHERS = 65534, FIXED = 5 };

static char folder[] = "/tmp/fuzz_opener.XXXXXX";
static char root[32]; /* of the process: /proc/self/fd/N, so that links are kept in it */
static struct stat secret;

/* ---- the folders ---- */

static void put_file(int at, const char *path, mode_t mode)
{
	int fd = openat(at, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	require(fd >= 0 && write(fd, path, strlen(path)) > 0 && fchmod(fd, mode) == 0 &&
	                close(fd) == 0,
	        "a file is made");
}

static void remove_folders(void)
{
	char command[sizeof(folder) + 16];

	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	(void)!system(command); /* NOLINT(cert-env33-c): of ours */
}

static void make_folders(void)
{
	static const char *const folders[] = { "root",
		                               "root/.debug",
		                               "root/usr",
		                               "root/usr/lib",
		                               "root/usr/lib/debug",
		                               "root/usr/lib/debug/.build-id",
		                               "root/usr/lib/debug/.build-id/ab" };
	int at;

	require(mkdtemp(folder) && (at = open(folder, O_PATH | O_CLOEXEC)) >= 0, "a folder");
	(void)atexit(remove_folders);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		require(mkdirat(at, folders[i], 0755) == 0, "a folder is made");
	put_file(at, "secret", 0644);
	put_file(at, "root/app", 0755);
	put_file(at, "root/x", 0644);
	put_file(at, "root/.debug/x", 0644);
	put_file(at, "root/private", 0600);
	put_file(at, "root/usr/lib/debug/common", 0644);
	put_file(at, "root/usr/lib/debug/private", 0600);
	put_file(at, "root/usr/lib/debug/.build-id/ab/cd.debug", 0644);
	require(symlinkat("../../../../secret", at, "root/usr/lib/debug/out") == 0 &&
	                symlinkat("../secret", at, "root/out") == 0 &&
	                mkfifoat(at, "root/usr/lib/debug/pipe", 0644) == 0 &&
	                fstatat(at, "secret", &secret, 0) == 0,
	        "there is a way out");
	(void)snprintf(root, sizeof(root), "/proc/self/fd/%d",
	               openat(at, "root", O_PATH | O_CLOEXEC));
}

static bool file_of(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	static const char *const paths[] = { "/app", "/app (deleted)", "", "relative", "[heap]" };

	(void)files;
	*ret = (struct ms_opener_file){ .path = paths[number] };
	return number != 4;
}

static void prepare(struct ms_opener *opener)
{
	if (!root[0])
		make_folders();
	ms_opener_init(opener, 0, OTHERS);
	opener->uid = OTHERS;
	opener->file = file_of;
	opener->n = 5;
	opener->roots[0] = root;
	opener->roots[1] = NULL;
}

/* ---- questions ---- */

static void ask_for(const uint8_t *data, size_t size, struct ms_file_question *ret)
{
	size_t id;

	memset(ret, 0, sizeof(*ret));
	if (size < FIXED)
		return;
	ret->kind = data[0] % 6;
	ret->code = data[1] % 6;
	ret->place = data[2] % 16;
	ret->id_len = data[3];
	id = data[4] < size - FIXED ? data[4] : size - FIXED;
	id = id < MS_FILE_ID ? id : (size_t)MS_FILE_ID;
	memcpy(ret->id, data + FIXED, id);
	size -= FIXED + id;
	memcpy(ret->name, data + FIXED + id, size < MS_FILE_NAME ? size : (size_t)MS_FILE_NAME);
}

static void check_given(int fd)
{
	struct stat st;

	require(fstat(fd, &st) == 0 && S_ISREG(st.st_mode), "a regular file is given");
	require(st.st_mode & S_IROTH, "one that everyone may read");
	require(st.st_ino != secret.st_ino || st.st_dev != secret.st_dev, "not the one outside");
	require((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY, "for reading");
	(void)close(fd);
}

static void ask_over_socket(struct ms_opener *opener, const void *bytes, size_t len)
{
	struct ms_file_answer answer;
	int channel[2];
	int fd;

	require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) == 0, "a socket");
	require(send(channel[1], bytes, len, 0) == (ssize_t)len, "it is asked");
	require(shutdown(channel[1], SHUT_WR) == 0, "once");
	require(ms_broker_serve(opener, channel[0]) == 0, "an end of questions is no failure");
	(void)close(channel[0]);
	if (ms_pass_receive(channel[1], &answer, sizeof(answer), &fd) && fd >= 0)
		check_given(fd);
	(void)close(channel[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ms_file_question question;
	struct ms_file_answer answer;
	struct ms_opener opener;
	int fd;

	if (!size)
		return -1;
	prepare(&opener);
	if (data[0] & 1) {
		ask_over_socket(&opener, data + 1, size - 1);
		return 0;
	}
	if (data[0] & 2) {
		memset(&question, 0xff, sizeof(question));
		size = size - 1 < sizeof(question) ? size - 1 : sizeof(question);
		memcpy(&question, data + 1, size);
	} else {
		ask_for(data + 1, size - 1, &question);
	}
	memset(&answer, 0, sizeof(answer));
	fd = ms_opener_find(&opener, &question, &answer);
	if (fd >= 0)
		check_given(fd);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	static const char *const names[] = { "common", "x",         "private", "out",
		                             "pipe",   "../secret", "app",     "" };
	struct ms_file_question question = { .kind = MS_FILE_DEBUG, .name = "x" };
	uint8_t whole[1 + sizeof(question)] = { 1 };

	for (uint8_t kind = MS_FILE_CODE; kind <= MS_FILE_COMMON; kind++)
		for (uint8_t i = 0; i < 8; i++) {
			uint8_t seed[32] = { 0, kind, i % 5, 0, 2, 2, 0xab, 0xcd };

			memcpy(seed + 8, names[i], strlen(names[i]));
			take(seed, 8 + strlen(names[i]));
			seed[4] = 0;
			take(seed, 8 + strlen(names[i]));
		}
	for (uint8_t i = 1; i < 3; i++) {
		whole[0] = i;
		memcpy(whole + 1, &question, sizeof(question));
		take(whole, sizeof(whole));
	}
}
