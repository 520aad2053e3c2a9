/* SPDX-License-Identifier: Apache-2.0 */
#include "ptrow.h"

/*
 * What a heap of ptmalloc's must be for memscan to call it verified. Each row names one
 * thing that is relied on, and a damage after which only that is wrong: the heap as drawn
 * is verified, the damaged one is not. Pictures: ptheap.h.
 *
 * Not relied on, and so not here, because malloc itself believes the same words, or
 * because nothing is told from them:
 *
 *	a size that leads exactly over used chunks   malloc_usable_size() says the same; all
 *	                that is in them counts as one block, so that nothing more is told
 *	the bin a free chunk is in, fd_nextsize,     it is free wherever it is linked
 *	binmap, last_remainder, attached_threads
 *	the key in a cached block                    it is its list that makes it free
 *	bits of top's size but P, A of free chunks   they say nothing of what is in use
 *	a fastbin's list that ends too early         malloc has lost what was behind as well
 *	where chunks begin behind a stranger's       all in front of where they are found
 *	bytes in break memory                        again counts as roots
 *	several free chunks linked in a ring of      malloc itself takes them for free: by
 *	their own                                    the P bit, the footer and sound links
 */

/* Everything there is: used, free in two bins, cached, fast; a second arena of two heaps. */
#define ALL \
	"T u24 f64 u40 b200 u24 c24 c24 q40 u64 t m9000 m5000; u24 f64 u40 q24 u24 | u24 f64 u40 t"
#define PIECES   "u24 f64 u24 | u40 f24 u24 | u24 t"
#define STRANGER "u24 f64 u24 x100 u24 f40 u24 t"

static void check_only_when_damaged(const struct row *row, const char *version)
{
	struct row sound = *row;

	sound.damage[0] = sound.lost[0] = sound.says[0] = '\0';
	check(&sound, version);
	check(row, version);
}

ParameterizedTestParameters(glibc_invariants, a_chunk)
{
	static struct row rows[] = {
		{ "its size is not below the smallest", "u24 u40 u24 t",
		  "chunk1.size = 17, chunk1.bk = 33", "M", "contradicts its neighbours" },
		{ "its size is a multiple of 16", "u24 u24 u40 u24 t",
		  "chunk1.size = 41, chunk2.mem = 41", "M", "contradicts" },
		{ "its size leads to a chunk", ALL, "chunk1.size += 32", "M0", "contradicts" },
		{ "its size leads not behind the end", ALL, "chunk9.size = 0x100001", "M",
		  "contradicts" },
		{ "no free one is inside of it", "u24 u24 f64 u24 t",
		  "chunk1.size += 80, chunk3.size |= 1", "M", "is in a bin" },
		{ "its M bit is clear", ALL, "chunk3.size |= 2", "M0", "contradicts" },
		{ "its A bit is clear in the main arena", ALL, "chunk3.size |= 4", "M0",
		  "contradicts" },
		{ "its A bit is set in others", ALL, "chunk15.size ^= 4", "0", "contradicts" },
		{ "the first has its P bit", "u24 u40 t", "chunk0.size ^= 1", "M", "contradicts" },
		{ "the first of a heap has its P bit", ALL, "chunk13.size ^= 1", "0",
		  "contradicts" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_invariants, a_chunk, .timeout = 20)
{
	check_only_when_damaged(row, "2.31");
	check_only_when_damaged(row, "2.36");
}

ParameterizedTestParameters(glibc_invariants, a_free_chunk)
{
	static struct row rows[] = {
		{ "its size stands at its end", ALL, "chunk2.foot ^= 16", "M0", "contradicts" },
		{ "the one before is in use", ALL, "chunk2.size ^= 1, chunk1.foot = 32", "M0",
		  "contradicts" },
		{ "it is in a bin", ALL, "chunk3.next_size ^= 1, chunk3.foot = 48", "M0",
		  "contradicts" },
		{ "it is in a bin, when alone", "u24 u24 u24 t",
		  "chunk1.next_size ^= 1, chunk1.foot = 32", "M", "1 free chunks, but 0 in bins" },
		{ "what is in a bin is free by the P bit behind", ALL, "chunk2.next_size |= 1", "M",
		  "is in a bin, but not free" },
		{ "fd leads to the next of its list", ALL, "chunk2.fd = main.bin3", "M",
		  "but not free" },
		{ "bk leads to the one before", ALL, "chunk2.bk = chunk4", "M", "but not free" },
		{ "its list is a header's", "u24 f64 u24 t",
		  "chunk1.fd = chunk1, chunk1.bk = chunk1, main.fd0 = main.bin0,"
		  "main.bk0 = main.bin0",
		  "M", "1 free chunks, but 0 in bins" },
		{ "a header's fd leads to the first", ALL, "main.fd0 = main.bin0", "M", "in bins" },
		{ "a header's bk leads to the last", ALL, "main.bk0 = main.bin0", "M", "in" },
		{ "an empty bin leads to itself", ALL, "main.fd90 = chunk2", "M", "not free" },
		{ "it is in the bins of its own arena", "T f24 u24 t ; f24 u24 t",
		  "main.fd0 = chunk4, main.bk0 = chunk4, chunk4.bk = main.bin0,"
		  "chunk4.fd = main.bin0, arena0.fd0 = chunk1, arena0.bk0 = chunk1,"
		  "chunk1.fd = arena0.bin0, chunk1.bk = arena0.bin0",
		  "M0", "not free" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_invariants, a_free_chunk, .timeout = 20)
{
	check_only_when_damaged(row, "2.31");
	check_only_when_damaged(row, "2.36");
}

ParameterizedTestParameters(glibc_invariants, a_fastbin)
{
	static struct row rows[] = {
		{ "leads to chunks", ALL, "main.fast5 = chunk3.mem", "M", "fastbin 5" },
		{ "leads to chunks of the arena", ALL, "main.fast0 = chunk16", "M", "fastbin 0" },
		{ "leads to chunks that look used", ALL, "main.fast3 = chunk2", "M", "fastbin 3" },
		{ "leads to chunks of its size", ALL,
		  "main.fast3 = chunk3, chunk3.fd -> 0 || main.fast8 = chunk3, chunk3.fd -> 0", "M",
		  "fastbin 3 || fastbin 8" },
		{ "leads to each chunk once", ALL, "chunk8.fd -> chunk8", "M",
		  "fastbin 1 || fastbin 4" },
		{ "has no chunk of another's", "u24 q40 u40 q40 t",
		  "main.fast2 = chunk1 || main.fast6 = chunk1", "M", "fastbin 2 || fastbin 6" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_invariants, a_fastbin, .timeout = 20)
{
	check_only_when_damaged(row, "2.31");
	check_only_when_damaged(row, "2.36");
}

ParameterizedTestParameters(glibc_invariants, a_cache)
{
	static struct row rows[] = {
		{ "counts what it lists", ALL, "cache0.count0 += 1", "M0", "contradicts itself" },
		{ "lists what it counts", ALL, "cache0.count0 -= 1", "M0", "contradicts itself" },
		{ "has a list where it counts", ALL, "cache0.count9 += 1", "M0", "contradicts" },
		{ "counts where it has a list", ALL, "cache0.entry9 = chunk3.mem", "M0",
		  "contradicts" },
		{ "lists blocks", ALL, "chunk7.fd -> chunk1.bk", "M0", "contradicts" },
		{ "lists blocks that look used", ALL, "chunk7.fd -> chunk2.mem", "M0",
		  "contradicts" },
		{ "lists blocks of the bin's size", ALL, "chunk7.fd -> chunk3.mem", "M0",
		  "contradicts" },
		{ "lists each once", ALL, "chunk6.fd -> chunk7.mem", "M0", "contradicts" },
		{ "has nothing of a fastbin's", "T c24 c24 q24 u24 t",
		  "chunk2.fd -> chunk3.mem, chunk3.fd -> 0", "M", "contradicts" },
		{ "has nothing of another cache's", "T c24 c40 T c24 u24 t",
		  "cache1.entry0 = chunk1.mem", "M", "contradicts" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_invariants, a_cache, .timeout = 20)
{
	check_only_when_damaged(row, "2.31");
	check_only_when_damaged(row, "2.36");
}

ParameterizedTestParameters(glibc_invariants, the_main_arena)
{
	static struct row rows[] = {
		{ "top is a chunk", ALL, "chunk10.size = 1", "M0", "where top does" },
		{ "top is the last chunk", ALL, "main.top = chunk9", "M0", "where top does" },
		{ "top has its P bit", ALL, "chunk10.size ^= 1", "M", "contradicts" },
		{ "top ends where its memory does", ALL, "chunk10.size -= 16", "M0", "top does" },
		{ "sbrk_base and system_mem say where", ALL, "main.system_mem += 16", "M0",
		  "where top does" },
		{ "sbrk_base is its begin", ALL, "par.sbrk_base += 32", "~M0", "where top does" },
		{ "its break memory is mapped", ALL,
		  "main.system_mem += 0x300000000000, chunk10.size += 0x300000000000"
		  " || main.system_mem += 0x30000000, chunk10.size += 0x30000000",
		  "M0", "where top does" },
		{ "behind a stranger it goes on", "u24 f64 u24 x100 u24 t", "chunk4.size ^= 1", "M",
		  "no way from the fence" },
		{ "a fence is two headers", STRANGER, "chunk2.next_size = 33", "M", "contradicts" },
		{ "scattered, it has all of system_mem", PIECES, "main.system_mem += 4096", "M",
		  "segments hold" },
		{ "scattered, no less than system_mem", PIECES, "main.system_mem -= 4096", "M",
		  "segments hold" },
		{ "scattered, each piece can be walked", PIECES, "chunk5.size = 1", "~M",
		  "segments hold" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_invariants, the_main_arena, .timeout = 20)
{
	check_only_when_damaged(row, "2.31");
	check_only_when_damaged(row, "2.36");
}

ParameterizedTestParameters(glibc_invariants, another_arena)
{
	static struct row rows[] = {
		{ "top lies in a heap of its own", ALL, "arena0.top = chunk2", "0",
		  "top lies in no heap" },
		{ "top is the last chunk of the newest heap", ALL, "arena0.top = chunk21", "0",
		  "not end as it should" },
		{ "top ends where its heap does", ALL, "chunk22.size -= 16", "0", "not end as" },
		{ "a heap names its arena", ALL, "heap0.ar_ptr = main", "0", "no heap at" },
		{ "a heap names the one before", ALL, "heap1.prev_heap = 0", "0", "heaps hold" },
		{ "a heap has whole pages", ALL, "heap0.heap_size += 16", "0", "no heap at" },
		{ "a heap has no more than it may", ALL, "heap0.heap_size += 4096", "0",
		  "no heap at" },
		{ "a heap is walked to its end", ALL, "heap1.heap_size -= 4096", "0",
		  "contradicts" },
		{ "heaps are aligned", ALL, "heap1.prev_heap = chunk15", "0", "no heap at" },
		{ "heaps are in no ring", ALL, "heap0.prev_heap = heap1", "0", "heaps hold" },
		{ "its heaps have all of system_mem", ALL, "arena0.system_mem += 4096", "0",
		  "heaps hold" },
		{ "its heaps have no more", ALL, "arena0.system_mem -= 4096", "0", "heaps hold" },
		{ "an older heap ends with a fence", ALL, "chunk18.next_size = 33", "0",
		  "contradicts" },
		{ "the ring of arenas leads to it", ALL, "main.next = main", "~M0",
		  "is in no ring" },
		{ "the ring of arenas closes", ALL, "arena0.next = 0", "~M0m", "" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_invariants, another_arena, .timeout = 20)
{
	check_only_when_damaged(row, "2.31");
	check_only_when_damaged(row, "2.36");
}

ParameterizedTestParameters(glibc_invariants, mmapped_chunks)
{
	static struct row rows[] = {
		{ "as many as n_mmaps", ALL, "par.n_mmaps += 1, par.max_n_mmaps += 1", "m",
		  "the counters say 3" },
		{ "as many bytes as mmapped_mem", ALL,
		  "par.mmapped_mem += 4096, par.max_mmapped_mem += 4096", "m", "say 2 of" },
		{ "M bit alone: P", ALL, "chunk11.size |= 1", "~m", "found, the" },
		{ "M bit alone: A", ALL, "chunk11.size |= 4", "~m", "found, the" },
		{ "M bit alone: no M", ALL, "chunk11.size ^= 2", "~m", "found, the" },
		{ "size makes whole pages", ALL, "chunk11.size += 16", "~m", "found, the" },
		{ "prev_size leads to the begin of a page", ALL, "chunk11.prev = 16", "~m",
		  "found, the" },
		{ "size ends in memory", ALL, "chunk12.size = 0x200002", "~m", "found, the" },
		{ "none overlaps another", ALL, "chunk11.size += 4096", "~m", "found, the" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, glibc_invariants, mmapped_chunks, .timeout = 20)
{
	check_only_when_damaged(row, "2.31");
	check_only_when_damaged(row, "2.36");
}
