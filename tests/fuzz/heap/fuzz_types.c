/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing what blocks are said to be: a drawn process (drawn_kinds.h) with a block of every kind,
 * some of whose words are then written over.
 *
 *	fuzz: -max_len=128 -len_control=0
 *
 * The first byte of an input chooses whether the source can be viewed, whether only what is not
 * marked is searched, and whether unused parts of containers are looked for; then come writes
 * of four bytes each:
 *
 *	place   where: a block, the holders, the types and tables of the module
 *	word    which of its words
 *	how     set, add, flip bits
 *	value   a number, or an address of one of these places
 *
 * It must neither crash nor run on; each block has a type that there is, or none; a process that
 * nothing was written to has the names with which it was drawn.
 */

#include <string.h>

#include "drawn_kinds.h"
#include "engine/kinds/python/plain.h"
#include "writes.h"

enum { HEAD_BYTES = 1, WRITE_BYTES = 4, MAX_WRITES = 31, NAMED = 96 };

#define HOLDERS (DK_DATA + 0x600)
#define TYPES   (DK_DATA + 0x100)
#define TABLES  (DK_CONSTANTS + 0x80)
#define PROGRAM (DK_LIBRARY + 0x100000)

static struct drawn_kinds d; /* drawn once; what is written to it is taken back */

static struct {
	ms_addr at;
	const char *name;
} named[NAMED];
static size_t n_named;
static ms_addr next_holder = HOLDERS;

static struct {
	ms_addr place;
	uint64_t old;
} written[MAX_WRITES];
static size_t n_written;

/* ---- drawing ---- */

static ms_addr name_it(ms_addr at, const char *name)
{
	named[n_named].at = at;
	named[n_named++].name = name;
	return at;
}

static ms_addr block(uint64_t len, const char *name)
{
	return name_it(drawn_kinds_block(&d, len), name);
}

static ms_addr text(ms_addr at, const char *bytes)
{
	strcpy(ms_fake_at(&d.fake, at), bytes);
	return at;
}

#define hold(n, ...) (dk_put(&d, next_holder, __VA_ARGS__), next_holder += 8 * ((n) + 1))

static void draw_sequences(void)
{
	ms_addr at = text(block(41, "buffer of std::string"), "\x01 characters of a string");
	ms_addr part;

	hold(3, at, 24, 40);
	at = block(80, "elements of std::vector");
	hold(3, at, at + 24, at + 80);
	at = block(64, "map of std::deque");
	part = block(512, "elements of std::deque");
	ms_fake_put(&d.fake, at + 24, part);
	hold(10, at, 8, part, part, part + 512, at + 24, part + 64, part, part + 512, at + 24);
}

static void draw_nodes(void)
{
	ms_addr node[3];
	ms_addr at;

	for (int i = 0; i < 3; i++)
		node[i] = block(24, "node of std::list");
	dk_put(&d, node[0], node[1], next_holder);
	dk_put(&d, node[1], node[2], node[0]);
	dk_put(&d, node[2], next_holder, node[1]);
	hold(3, node[0], node[2], 3);
	for (int i = 0; i < 3; i++)
		node[i] = block(40, "node of std::map or std::set");
	dk_put(&d, node[0], 0, node[1], 0, 0);
	dk_put(&d, node[1], 1, next_holder + 8, node[0], node[2]);
	dk_put(&d, node[2], 0, node[1], 0, 0);
	hold(6, 0, 0, node[1], node[0], node[2], 3);
	at = block(13 * 8, "buckets of an unordered container");
	node[0] = block(24, "node of an unordered container");
	hold(7, at, 13, node[0], 1, 0x3f800000, 13, 0);
}

static void draw_python(void)
{
	ms_addr dict = block(64, "dict");
	ms_addr keys = block(128, "keys of dict");

	dk_put(&d, TYPES, 1, TYPES, 0, text(DK_CONSTANTS, "type"), 408);
	dk_put(&d, TYPES + 256, 1, TYPES, 0, text(DK_CONSTANTS + 16, "dict"), 48);
	ms_fake_put(&d.fake, TYPES + 256 + 168, UINT64_C(1) << 29 | UINT64_C(1) << 14);
	dk_put(&d, dict, TYPES + 208, TYPES + 208, 3, TYPES + 256, 1, 0, keys, 0);
	dk_put(&d, TYPES + 208, dict, dict); /* in the collector's ring */
}

static void draw_libraries(void)
{
	ms_addr at = block(472, "FILE");
	ms_addr more = block(1024, "buffer of FILE");

	dk_put(&d, at, 0xfbad2484, 0, 0, 0, 0, 0, 0, more, more + 1024);
	ms_fake_put(&d.fake, at + 216, TABLES);
	at = block(4064, "chunk of obstack");
	dk_put(&d, at, at + 4064, 0);
	hold(5, 4064, at, at + 100, at + 200, at + 4064);
	at = block(7160, "zlib inflate state");
	dk_put(&d, at, next_holder, 16191);
	hold(8, 0, 0, 0, 0, 0, 0, 0, at);
	at = block(168, "LHASH of OpenSSL");
	more = block(128, "buckets of LHASH");
	dk_put(&d, at, more, DK_CODE, DK_CODE, UINT64_C(16) << 32 | 8, 8, 512, 256, 1);
	ms_fake_put(&d.fake, more + 24, block(24, "node of LHASH"));
	at = block(1024, "memory context Cache");
	dk_put(&d, TABLES, DK_CODE, DK_CODE, DK_CODE, DK_CODE);
	dk_put(&d, at, 430, 8192, TABLES, at, 0, 0, 0, text(DK_CONSTANTS + 32, "Cache"));
	at = block(56, "Rust trait object");
	dk_put(&d, TABLES + 64, DK_CODE, 56, 8, DK_CODE);
	hold(2, at, TABLES + 64);
	(void)text(block(24, "text"), "a text");
}

static void draw_more(void)
{
	ms_addr at = block(1000, "SSL");
	ms_addr other;

	dk_put(&d, TABLES + 128, 0x10000, 0, DK_CODE, DK_CODE, DK_CODE, DK_CODE, DK_CODE, DK_CODE,
	       DK_CODE, DK_CODE, DK_CODE, DK_CODE, DK_CODE, DK_CODE);
	dk_put(&d, at, 0x304, TABLES + 128);
	at = block(64, "hashes of GHashTable");
	other = block(128, "keys of GHashTable");
	hold(10, 16, UINT64_C(15) << 32 | 13, UINT64_C(8) << 32 | 8, 0, other, at, other, DK_CODE,
	     0, 1);
	at = block(4096 + 192, "pages of SQLite");
	dk_put(&d, at + 4096, at, at + 4096 + 56);
	at = text(block(88, "data of QByteArray"), "") + 24;
	dk_put(&d, text(at, "\x01\x02 some bytes") - 24, UINT64_C(13) << 32 | 1, 64, 24);
	at = block(64, "map of std::deque");
	other = block(4096, "elements of std::deque");
	ms_fake_put(&d.fake, at + 16, other);
	hold(6, at, at + 16, at + 24, at + 64, 3, 100);
}

static void draw_fonts(void)
{
	ms_addr at = block(8176, "FcExprPage");
	ms_addr test = block(24, "FcTest");
	ms_addr list = block(16, "FcPtrList");
	ms_addr entry = block(16, "entry of FcPtrList");

	dk_put(&d, at, 0, at + 16 + 24, 7);
	dk_put(&d, test, 1, UINT64_C(22) << 32 | 5, at + 16);
	dk_put(&d, block(24, "FcRule"), 0, 1, test);
	dk_put(&d, list, DK_CODE, entry);
	dk_put(&d, entry, 0, test);
}

static void draw_windows(void)
{
	ms_addr object = drawn_kinds_block(&d, 40);
	ms_addr private = drawn_kinds_block(&d, 100);
	ms_addr vector = block(16 + 9 * 16, "QObjectPrivate::SignalVector");
	ms_addr data = block(40, "QObjectPrivate::ConnectionData");
	ms_addr at = block(88, "QObjectPrivate::Connection");
	ms_addr pixels;

	dk_put(&d, object, TABLES, private);
	dk_put(&d, private, TABLES, object);
	dk_put(&d, vector, 0, 8, 0, 0, at, at);
	dk_put(&d, data, UINT64_C(1) << 32, vector, at, 0, 0);
	dk_put(&d, at, 0, data + 16, 0, 0, object, object, 0, DK_CODE, 0, 2, 0);
	at = block(144, "QImageData");
	pixels = block(100 * 4 * 10, "pixels of QImage");
	dk_put(&d, at, UINT64_C(100) << 32 | 1, UINT64_C(32) << 32 | 10, 4000, 0, 0, pixels, 5,
	       400);
	ms_fake_put(&d.fake, at + 96, 1);
}

/* ---- certificates ---- */

static ms_addr bytes_of(uint64_t len, const char *name, const void *first, size_t n)
{
	ms_addr at = block(len, name);

	memcpy(ms_fake_at(&d.fake, at), first, n);
	return at;
}

static ms_addr string_of(uint64_t kind, uint64_t len)
{
	ms_addr string = block(24, "ASN1_STRING");

	dk_put(&d, string, kind << 32 | len, block(len, "bytes of ASN1_STRING"));
	return string;
}

static ms_addr draw_stack(ms_addr item)
{
	ms_addr stack = block(32, "STACK of OpenSSL");
	ms_addr items = block(32, "items of STACK");

	dk_put(&d, stack, 1, items, UINT64_C(4) << 32, 0);
	ms_fake_put(&d.fake, items, item);
	return stack;
}

static void draw_certificate(void)
{
	ms_addr at = block(360, "X509");
	ms_addr name = block(40, "X509_NAME");
	ms_addr buffer = block(32, "BUF_MEM");
	ms_addr entry = block(24, "X509_NAME_ENTRY");
	ms_addr key = block(48, "X509_PUBKEY");
	ms_addr extension = block(40, "X509_EXTENSION");

	dk_put(&d, entry, DK_CONSTANTS, string_of(12, 30));
	dk_put(&d, buffer, 27, bytes_of(36, "encoding of X509_NAME", "\x30\x19", 2), 36);
	dk_put(&d, name, draw_stack(entry), 0, buffer,
	       bytes_of(45, "encoding of X509_NAME", "\x31\x2b", 2), 45);
	dk_put(&d, key, block(16, "X509_ALGOR"), string_of(3, 65), block(140, "EVP_PKEY"));
	dk_put(&d, extension, DK_CONSTANTS, 0, UINT64_C(4) << 32 | 31,
	       block(31, "bytes of ASN1_STRING"));
	dk_put(&d, at, string_of(2, 1), UINT64_C(2) << 32 | 20, block(20, "bytes of ASN1_STRING"),
	       0, DK_CONSTANTS, 0, name, string_of(23, 13), string_of(24, 15),
	       block(40, "X509_NAME"), key, 0, 0, draw_stack(extension),
	       bytes_of(600, "encoding of X509", "\x30\x82\x02\x54", 4), 600, 0, DK_CONSTANTS, 0,
	       UINT64_C(3) << 32 | 70, block(70, "bytes of ASN1_STRING"));
}

/* ---- redis ---- */

static void draw_dict(ms_addr value)
{
	ms_addr dict = block(56, "dict");
	ms_addr table = block(32, "table of dict");
	ms_addr entry = block(24, "dictEntry");

	ms_fake_put(&d.fake, TYPES + 512, DK_CODE);
	dk_put(&d, dict, TYPES + 512, table, 0, 1, 0, UINT64_MAX, 0xff020000);
	ms_fake_put(&d.fake, table + 16, entry);
	dk_put(&d, entry, bytes_of(24, "sds string", "\x28short", 6) + 1, value);
}

static void draw_lists(void)
{
	static const char elements[] = "\x15\0\0\0\x03\0\x83"
				       "abc\x04\xf1\x01\x02\x03\xe0\x02"
				       "ab\x04\xff";
	ms_addr pack = bytes_of(21, "listpack", elements, 21);
	ms_addr quick = block(40, "quicklist");
	ms_addr node = block(40, "quicklistNode");
	ms_addr skip = block(32, "zskiplist");
	ms_addr head = block(536, "zskiplistNode");
	ms_addr first = block(40, "zskiplistNode");
	ms_addr last = block(56, "zskiplistNode");

	dk_put(&d, quick, node, node, 3, 1, 0);
	dk_put(&d, node, 0, 0, pack, 21);
	dk_put(&d, skip, head, last, 2, 1);
	dk_put(&d, head, 0, 0, 0, first);
	dk_put(&d, first, 0, UINT64_C(0x3ff) << 52, 0, last);
	dk_put(&d, last, 0, UINT64_C(0x400) << 52, first);
}

static void draw_redis(void)
{
	ms_addr value = block(16, "redisObject");
	ms_addr loop = block(88, "aeEventLoop");
	ms_addr state = block(16, "aeApiState");

	dk_put(&d, value, UINT64_C(1) << 32,
	       bytes_of(24, "sds string", "\x0b\x0b\x01some string", 14) + 3);
	draw_dict(value);
	draw_lists();
	dk_put(&d, loop, UINT64_C(100) << 32 | 9, 1, block(3200, "aeFileEvent[]"),
	       block(800, "aeFiredEvent[]"), 0, 0, state, DK_CODE, DK_CODE);
	dk_put(&d, state, 5, block(1200, "epoll_event[]"));
}

/* ---- more of Qt and Rust ---- */

/* Rust is in programs, not in libraries. */
static void draw_table(void)
{
	ms_addr at = block(32 * 24 + 32 + 16, "table of HashMap or HashSet");
	uint8_t *places = ms_fake_at(&d.fake, at + 32 * 24);

	classes_map(&d.fake, PROGRAM, "/usr/bin/drawn");
	strcpy(ms_fake_at(&d.fake, PROGRAM + 0x800), "library/std/src/io/mod.rs");
	memset(places, 0xff, 32 + 16);
	places[1] = places[32 + 1] = 0x11;
}

static void draw_hash(void)
{
	ms_addr hash = block(48, "data of QHash");
	ms_addr buckets = block(16, "buckets of QHash");
	ms_addr node = block(24, "node of QHash");

	dk_put(&d, hash, 0, buckets, UINT64_C(1) << 32 | 1, UINT64_C(1) << 32 | 24, 2);
	dk_put(&d, buckets, node, hash);
	ms_fake_put(&d.fake, node, hash);
}

static void check_names(void)
{
	drawn_kinds_find(&d);
	for (size_t i = 0; i < n_named; i++)
		require(!strcmp(drawn_kinds_name(&d, named[i].at), named[i].name), named[i].name);
}

static void draw(void)
{
	if (n_named)
		return;
	drawn_kinds_init(
		&d,
		"/usr/lib/libstdc++.so.6+python+libc++.so+libssl+libglib-2.0+libQt5Core+libQt5Gui+libfontconfig.so");
	draw_sequences();
	draw_nodes();
	draw_python();
	draw_libraries();
	draw_more();
	draw_fonts();
	draw_windows();
	draw_certificate();
	draw_redis();
	draw_table();
	draw_hash();
	require(n_named <= NAMED, "there is a place for each");
	require(next_holder < DK_DATA + CLASSES_PAGE, "holders have room");
	check_names();
}

/* ---- writing ---- */

static ms_addr address(uint8_t n)
{
	switch (n % 4) {
	case 0:
		return HOLDERS + 8 * (n / 4u);
	case 1:
		return n < 128 ? TYPES + 32 * (n / 8u) : TABLES + 8 * (n / 8u % 16);
	}
	return named[n / 4 * 2 % n_named + n % 2].at;
}

static void apply(const uint8_t *w)
{
	ms_addr place = address(w[0]) + w[1] % 40 * 8u;
	uint64_t value = w[3] < 64 ? number(w[3]) : address(w[3]);

	if (!ms_source_word(&d.fake.base, place, &written[n_written].old))
		return;
	written[n_written++].place = place;
	ms_fake_put(&d.fake, place, changed_word(written[n_written - 1].old, w[2], value, value));
}

static void take_back(void)
{
	while (n_written) {
		n_written--;
		ms_fake_put(&d.fake, written[n_written].place, written[n_written].old);
	}
}

static void check_types(void)
{
	for (size_t i = 0; i < d.n; i++) {
		const struct ms_type *type = drawn_kinds_type(&d, d.at[i]);

		require(type->how <= MS_HOWS && type->sure < MS_SURES,
		        "a type is one that there is");
		require(strnlen(type->name, MS_TYPE_TEXT) < MS_TYPE_TEXT &&
		                strnlen(type->module, MS_TYPE_TEXT) < MS_TYPE_TEXT,
		        "names end");
	}
}

/* What of CPython's objects is no reference, and what its collector would free. */
static void check_plain(void)
{
	struct ms_walk_options like = { .unaligned = false };
	struct ms_collector collector = { 0 };
	struct ms_ranges hidden = { 0 };
	struct ms_marks wide = { 0 };
	struct ms_walk_count kept;
	struct ms_error err;
	const struct ms_range *r;

	require(!ms_plain_find(&d.blocks, &d.roots, &collector, &hidden, &wide), "there is memory");
	ms_vec_for_each (r, &hidden)
		require(ms_range_len(*r) == 8 || ms_range_len(*r) == 16,
		        "a word or links are hidden");
	require(collector.objects.n <= d.n, "an object has a block");
	require(!ms_collector_mark(&collector, &d.blocks, &like, &kept, &err), "there is memory");
	require(kept.blocks <= d.n && collector.lost.n <= collector.objects.n,
	        "no more is marked than there is");
}

/* What is hidden is of blocks, and not where their begins are kept. */
static void check_tails(void)
{
	const struct ms_range *hidden;

	require(d.strict || !d.tails.all.n, "nothing is hidden that nobody asked for");
	ms_vec_for_each (hidden, &d.tails.hidden)
		require(hidden->begin < hidden->end && hidden->begin >= DK_HEAP &&
		                hidden->end <= DK_HEAP + DK_HEAP_BYTES,
		        "what is hidden lies in blocks");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	draw();
	if (size < HEAD_BYTES)
		return -1;
	d.fake.no_view = data[0] & 1;
	d.live_only = data[0] & 2;
	d.strict = data[0] & 4;
	for (size_t i = HEAD_BYTES; i + WRITE_BYTES <= size && n_written < MAX_WRITES;
	     i += WRITE_BYTES)
		apply(data + i);
	drawn_kinds_find(&d);
	check_types();
	check_tails();
	check_plain();
	ms_arena_deinit(&d.found);
	take_back();
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	static const uint8_t seeds[][9] = {
		{ 0 },
		{ 1, 0, 1, 0, 70, 2, 1, 0, 66 },
		{ 2, 8, 2, 64, 4, 6, 0, 0, 130 },
		{ 3, 12, 0, 0, 90, 5, 3, 0, 12 },
		{ 4, 0, 1, 1, 8, 12, 2, 1, 8 },
		{ 5, 4, 1, 0, 90, 8, 2, 1, 16 },
	};

	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
		take(seeds[i], i ? sizeof(seeds[i]) : HEAD_BYTES);
}
