/* SPDX-License-Identifier: Apache-2.0 */
/* lsan: off */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/maps.h"
#include "target/proc.h"
#include "target/transit/look.h"
#include "target/transit/transit.h"

/* These tests look at what they have sent themselves. */
static struct ms_arena arena;
static struct ms_source source;
static struct ms_notes warnings;
static char block[64];

static void begin(void)
{
	struct ms_error err;

	source.abi = (struct ms_abi){ .page_bytes = 4096, .word_bytes = 8 };
	cr_assert_not(ms_maps_read(getpid(), &arena, &source.mappings, &err));
}

/* The helper is this process's child, and its sweeper, too. */
static struct ms_transit *begun(void)
{
	struct ms_transit *transit = ms_transit_start(getpid());

	cr_assert_not_null(transit);
	ms_transit_await(transit);
	return transit;
}

static void look(void)
{
	struct ms_transit *transit = begun();

	source.transit.n = 0;
	warnings.n = 0;
	ms_transit_look(transit);
	ms_transit_wait(transit, MS_TRANSIT_MOST_NS);
	ms_transit_end(transit, &source, &arena, &warnings);
}

/* How many pointers into the block are where @number is. */
static size_t found(enum ms_transit_place place, int number)
{
	const struct ms_transit_word *word;
	size_t n = 0;

	ms_vec_for_each (word, &source.transit)
		n += word->value - (uintptr_t)block < sizeof(block) && word->place == place &&
		     word->number == number;
	return n;
}

static bool is_warned(const char *of)
{
	const struct ms_note *note;

	ms_vec_for_each (note, &warnings)
		if (strstr(note->text, of))
			return true;
	return false;
}

/* A pointer, behind so many zeros. */
static void send_to(int fd, size_t skipped)
{
	char bytes[64] = { 0 };
	char *sent = block + skipped;

	memcpy(bytes + skipped, &sent, sizeof(sent));
	cr_assert_eq(write(fd, bytes, skipped + sizeof(sent)), skipped + sizeof(sent));
}

static void receive_from(int fd, size_t skipped)
{
	char bytes[64];
	char *got;

	cr_assert_eq(read(fd, bytes, skipped + sizeof(got)), skipped + sizeof(got));
	memcpy(&got, bytes + skipped, sizeof(got));
	cr_expect_eq(got, block + skipped);
}

TestSuite(transit, .init = begin);

Test(transit, in_pipes_is_found_at_any_byte)
{
	int ends[2];

	cr_assert_not(pipe(ends));
	for (size_t i = 0; i < 20; i++)
		send_to(ends[1], i);
	look();
	cr_expect_eq(found(MS_TRANSIT_PIPE, ends[0]), 20);
	look();
	cr_expect_eq(found(MS_TRANSIT_PIPE, ends[0]), 20);
	cr_expect_eq(warnings.n, 0);
	for (size_t i = 0; i < 20; i++)
		receive_from(ends[0], i);
}

/* What is in more slots than a pipe of ours has at first. */
Test(transit, in_a_large_pipe_is_found)
{
	static char page[4096];
	int ends[2];

	cr_assert_not(pipe2(ends, O_DIRECT));
	cr_assert_gt(fcntl(ends[0], F_SETPIPE_SZ, 1 << 20), 1 << 18);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(write(ends[1], page, sizeof(page)), sizeof(page));
	send_to(ends[1], 3);
	look();
	cr_expect_eq(found(MS_TRANSIT_PIPE, ends[0]), 1);
}

/* Both ends of a pair, a duplicate, and what is left of a message that was read in part. */
Test(transit, in_sockets_is_found_once)
{
	int ends[2];
	int copy;

	cr_assert_not(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	send_to(ends[1], 0);
	send_to(ends[0], 7);
	copy = dup(ends[0]);
	receive_from(ends[1], 7);
	send_to(ends[0], 7);
	send_to(ends[0], 8);
	look();
	cr_expect_eq(found(MS_TRANSIT_SOCKET, ends[0]), 1);
	cr_expect_eq(found(MS_TRANSIT_SOCKET, ends[1]), 2);
	cr_expect_eq(found(MS_TRANSIT_SOCKET, copy), 0);
	receive_from(ends[0], 0);
}

Test(transit, behind_the_first_of_several_messages_is_doubted)
{
	int ends[2];

	cr_assert_not(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	send_to(ends[1], 0);
	look();
	cr_expect_eq(found(MS_TRANSIT_SOCKET, ends[0]), 1);
	cr_expect_eq(warnings.n, 0);
	send_to(ends[1], 0);
	look();
	cr_expect_eq(found(MS_TRANSIT_SOCKET, ends[0]), 1);
	cr_expect(is_warned("perhaps more behind"));
}

Test(transit, without_pointers_is_not_doubted)
{
	int ends[2];

	cr_assert_not(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
	cr_assert_eq(write(ends[1], "text", 4), 4);
	cr_assert_eq(write(ends[1], "text", 4), 4);
	look();
	cr_expect_eq(warnings.n, 0);
}

static struct sockaddr_in name_of(int fd)
{
	struct sockaddr_in name = { 0 };
	socklen_t len = sizeof(name);

	cr_assert_not(getsockname(fd, (struct sockaddr *)&name, &len));
	return name;
}

static int udp_at(uint32_t address)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	cr_assert_not(bind(fd, (struct sockaddr *)&name, sizeof(name)));
	return fd;
}

static void send_udp(int from, int to)
{
	struct sockaddr_in name = name_of(to);
	char *sent = block;

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(sendto(from, &sent, sizeof(sent), 0, (struct sockaddr *)&name, sizeof(name)),
	             sizeof(sent));
}

/* Anybody may send to the other one. */
Test(transit, from_other_hosts_is_not_looked_at)
{
	int open = udp_at(INADDR_ANY);
	int closed = udp_at(INADDR_LOOPBACK);

	send_udp(open, closed);
	send_udp(closed, open);
	look();
	cr_expect_eq(found(MS_TRANSIT_SOCKET, closed), 1);
	cr_expect_eq(found(MS_TRANSIT_SOCKET, open), 0);
	receive_from(open, 0);
	receive_from(closed, 0);
}

Test(transit, beside_a_waiting_error_is_left_alone)
{
	int fd = udp_at(INADDR_LOOPBACK);
	int gone = udp_at(INADDR_LOOPBACK);
	struct sockaddr_in name = name_of(gone);
	int error = 0;
	socklen_t len = sizeof(error);

	cr_assert_not(connect(fd, (struct sockaddr *)&name, sizeof(name)));
	send_udp(gone, fd);
	cr_assert_not(close(gone));
	cr_assert_eq(write(fd, "x", 1), 1);
	look();
	cr_expect_eq(found(MS_TRANSIT_SOCKET, fd), 0);
	cr_expect(is_warned("1 socket could not be looked into"));
	cr_assert_not(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
	cr_expect_eq(error, ECONNREFUSED);
}

Test(transit, where_the_program_has_an_offset_is_left_alone)
{
	int ends[2];
	int offset = 3;
	socklen_t len = sizeof(offset);

	cr_assert_not(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	cr_assert_not(setsockopt(ends[0], SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)));
	send_to(ends[1], 0);
	look();
	cr_expect_eq(source.transit.n, 0);
	cr_expect(is_warned("1 socket could not be looked into"));
	cr_assert_not(getsockopt(ends[0], SOL_SOCKET, SO_PEEK_OFF, &offset, &len));
	cr_expect_eq(offset, 3);
}

Test(transit, in_named_pipes_and_for_others_is_not_looked_at)
{
	char path[] = "/tmp/test_transit.XXXXXX";
	int ends[2];
	int fd;

	cr_assert_not_null(mkdtemp(path));
	cr_assert_not(rmdir(path));
	cr_assert_not(mkfifo(path, 0600));
	fd = open(path, O_RDWR);
	cr_assert_not(unlink(path));
	send_to(fd, 0);
	cr_assert_not(pipe(ends));
	send_to(ends[1], 0);
	cr_assert_not(close(ends[0]));
	look();
	cr_expect_eq(source.transit.n, 0);
	cr_expect_eq(warnings.n, 0);
}

struct message {
	long type;
	void *text[3];
};

static void send_message(int queue)
{
	struct message message = { (long)(uintptr_t)block, { NULL, block + 1, NULL } };

	cr_assert_not(msgsnd(queue, &message, sizeof(message.text), 0));
}

Test(transit, in_queues_is_found_with_the_types)
{
	int queue = msgget(IPC_PRIVATE, 0600);
	struct msqid_ds before;
	struct msqid_ds after;

	cr_assert_geq(queue, 0);
	for (int i = 0; i < 5; i++)
		send_message(queue);
	cr_assert_not(msgctl(queue, IPC_STAT, &before));
	look();
	cr_assert_not(msgctl(queue, IPC_STAT, &after));
	cr_assert_not(msgctl(queue, IPC_RMID, NULL));
	cr_expect_eq(found(MS_TRANSIT_QUEUE, queue), 10);
	cr_expect_eq(memcmp(&before, &after, sizeof(before)), 0);
}

/* ---- the helper, in this process ---- */

static struct ms_transit_found seen;

static void serve_here(void)
{
	const char word = MS_TRANSIT_LOOK;
	int channel[2];

	cr_assert_not(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel));
	cr_assert_eq(write(channel[0], &word, 1), 1);
	cr_assert_eq(ms_transit_serve(&seen, getpid(), channel[1]), 0);
}

static bool is_seen_in(int fd)
{
	for (unsigned i = 0; i < atomic_load(&seen.n_records); i++)
		if (seen.records[i].number == fd)
			return true;
	return false;
}

static unsigned descriptors_of(const char *file)
{
	char buf[MS_PROC_LIST_BYTES];
	char name[32];
	char link[64];
	struct ms_proc_list list;
	unsigned n = 0;
	int32_t fd;

	cr_assert_not(ms_proc_list_open(&list, getpid(), "fd", buf));
	while (ms_proc_list_next(&list, &fd)) {
		(void)snprintf(name, sizeof(name), "fd/%d", fd);
		ms_proc_link(getpid(), name, link, sizeof(link));
		n += strstr(link, file) != NULL;
	}
	ms_proc_list_close(&list);
	return n;
}

Test(transit, with_a_descriptor_gives_none_to_who_looks)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	char *sent = block;
	struct iovec part = { &sent, sizeof(sent) };
	struct msghdr message = { .msg_iov = &part,
		                  .msg_iovlen = 1,
		                  .msg_control = &control,
		                  .msg_controllen = sizeof(control) };
	int passed = memfd_create("passed", 0);
	int ends[2];

	cr_assert_not(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	memcpy(CMSG_DATA(&control.header), &passed, sizeof(passed));
	cr_assert_eq(sendmsg(ends[1], &message, 0), sizeof(sent));
	serve_here();
	cr_expect_eq(descriptors_of("passed"), 1);
	cr_expect(is_seen_in(ends[0]));
	message.msg_controllen = sizeof(control);
	cr_assert_eq(recvmsg(ends[0], &message, 0), sizeof(sent));
	cr_expect_eq(message.msg_controllen, sizeof(control));
	cr_expect_eq(descriptors_of("passed"), 2);
}

/* What was looked at since the target ran again is marked. */
Test(transit, that_is_seen_late_is_known_to_be)
{
	int ends[2];

	cr_assert_not(pipe(ends));
	send_to(ends[1], 0);
	serve_here();
	cr_expect(is_seen_in(ends[0]) && !seen.records[0].late);
	atomic_store(&seen.n_records, 0);
	atomic_store(&seen.released, true);
	serve_here();
	cr_expect(is_seen_in(ends[0]) && seen.records[0].late);
}

/* One that was made when the others had been listed. */
Test(transit, in_a_pipe_of_now_is_found)
{
	struct ms_transit *transit = begun();
	int ends[2];

	cr_assert_not(pipe(ends));
	send_to(ends[1], 0);
	ms_transit_look(transit);
	ms_transit_wait(transit, MS_TRANSIT_MOST_NS);
	ms_transit_end(transit, &source, &arena, &warnings);
	cr_expect_eq(found(MS_TRANSIT_PIPE, ends[0]), 1);
}

Test(transit, is_not_looked_for_without_a_helper)
{
	ms_transit_look(NULL);
	ms_transit_wait(NULL, 0);
	ms_transit_end(NULL, &source, &arena, &warnings);
	cr_expect(is_warned("no process could be started"));
}

Test(transit, beyond_the_room_for_it_is_said)
{
	static char bytes[1 << 20];
	int ends[2];

	for (int i = 0; i < MS_TRANSIT_BYTES / (1 << 20) + 1; i++) {
		cr_assert_not(pipe(ends));
		cr_assert_geq(fcntl(ends[0], F_SETPIPE_SZ, sizeof(bytes)), (int)sizeof(bytes));
		cr_assert_eq(write(ends[1], bytes, sizeof(bytes)), sizeof(bytes));
	}
	look();
	cr_expect(is_warned("not all pipes"));
}

/* ---- words ---- */

Test(transit, words_of_four_bytes_are_read_as_such)
{
	struct ms_mapping map = { .range = { 0x8000, 0x9000 }, .prot = MS_PROT_WRITE, .name = "" };
	const struct ms_transit_record record = { .number = 5, .len = 12 };
	const uint8_t bytes[12] = { 1, 0x10, 0x80, 0, 0, 1, 1, 1, 1, 0x20, 0x80, 0 };

	source.abi.word_bytes = 4;
	source.mappings = (struct ms_mappings){ &map, 1, 1 };
	cr_assert(ms_transit_add_words(&record, bytes, &source, &arena));
	cr_expect_eq(source.transit.n, 1);
	cr_expect_eq(source.transit.at[0].value, 0x8010);
	cr_expect_eq(source.transit.at[0].number, 5);
}

Test(transit, words_to_files_are_no_pointers_to_a_heap)
{
	struct ms_mapping map = { .range = { 0x8000, 0x9000 }, .prot = MS_PROT_READ, .name = "" };
	const struct ms_transit_record record = { .len = 8 };
	const uint8_t bytes[8] = { 0x10, 0x80 };

	map.file = true;
	source.mappings = (struct ms_mappings){ &map, 1, 1 };
	cr_assert(ms_transit_add_words(&record, bytes, &source, &arena));
	cr_expect_eq(source.transit.n, 0);
	map.file = false;
	cr_assert(ms_transit_add_words(&record, bytes, &source, &arena));
	cr_expect_eq(source.transit.n, 1);
}
