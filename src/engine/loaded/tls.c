/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/tls.h"

#include <elf.h>

#include "base/elf/class.h"
#include "base/elf/object.h"

/*
 * Thread-local storage lies below the thread pointer: the program's nearest, those of
 * libraries behind it, each as far off as those before it are large.
 *
 *	        … │ libc.so.6 │ libfoo.so │ program │ thread control block
 *	          far      near                     tp
 *
 * A library's instructions take the distance of a variable out of words that the loader
 * has filled in. The relocation of such a word says which variable it is, so
 *
 *	far = (the variable's place in the library's storage) - (the word, a negative number)
 *
 * On i386 relocations have no addends: what was in the word before it was filled in is nowhere
 * else. But it was a place in the library's storage, so each word says between which distances
 * that lies, and all of them together say it more closely.
 *
 * On aarch64 storage lies above the thread pointer, in the opposite order: distances are negative.
 *
 * A program, static or not, was linked knowing that its own storage is the nearest, and has
 * no such relocation.
 */

enum {
	MAX_RELOCATIONS = 1 << 20,
	PIECE = 64,    /* relocations read at a time */
	TCB_WORDS = 2, /* from the thread pointer on, where storage lies above it */
};

static const uint64_t MAX_FAR = UINT64_C(1) << 32;

/* What relocations say of one object. */
struct answer {
	uint64_t far;
	bool given;
	bool contradicted;
};

static void give(struct answer *answer, uint64_t far)
{
	answer->contradicted |= answer->given && far != answer->far;
	answer->far = far;
	answer->given = true;
}

/*
 * aarch64: a word that has the distance, as elsewhere, or two words of which the second has it when
 * the first is a function that takes it from there; another function's second word is an address.
 */
static void hear_described(struct ms_peek *peek, const struct ms_object *object,
                           const Elf64_Rela *rela, struct answer *answer)
{
	const uint32_t type = ELF64_R_TYPE(rela->r_info);
	const ms_addr at = object->bias + rela->r_offset;
	uint64_t words[2] = { 0 };

	if (type != R_AARCH64_TLS_TPREL && type != R_AARCH64_TLSDESC)
		return;
	if (ms_peek_read(peek, at, words, sizeof(words)) != sizeof(words))
		return;
	words[0] = type == R_AARCH64_TLSDESC ? words[1] : words[0];
	if (words[0] >= TCB_WORDS * sizeof(words[0]) && words[0] < MAX_FAR)
		give(answer, (uint64_t)rela->r_addend - words[0]);
}

static void hear(struct ms_peek *peek, const struct ms_object *object, const Elf64_Rela *rela,
                 struct answer *answer)
{
	uint64_t word;

	/* One with a symbol may be another object's variable. */
	if (ELF64_R_SYM(rela->r_info))
		return;
	if (peek->src->abi.tls_above) {
		hear_described(peek, object, rela, answer);
		return;
	}
	if (ELF64_R_TYPE(rela->r_info) != R_X86_64_TPOFF64)
		return;
	if (ms_peek_read(peek, object->bias + rela->r_offset, &word, sizeof(word)) != sizeof(word))
		return;
	give(answer, (uint64_t)rela->r_addend - word);
}

static struct answer ask_relocations(struct ms_peek *peek, const struct ms_object *object,
                                     const struct ms_dynamic *dynamic)
{
	ms_addr at = dynamic->rela;
	uint64_t left = dynamic->rela_bytes / sizeof(Elf64_Rela);
	struct answer answer = { 0 };
	Elf64_Rela rela[PIECE];

	if (!at || left > MAX_RELOCATIONS)
		return answer;
	while (left) {
		uint64_t wanted = left < PIECE ? left : (uint64_t)PIECE;
		size_t n = ms_peek_read(peek, at, rela, wanted * sizeof(rela[0])) / sizeof(rela[0]);

		for (size_t i = 0; i < n; i++)
			hear(peek, object, &rela[i], &answer);
		if (n < wanted)
			break;
		at += n * sizeof(rela[0]);
		left -= n;
	}
	return answer;
}

/* By words that relocations of i386 filled in: the least and the most of them. */
struct bounds {
	int64_t least;
	int64_t most;
	bool given;
};

static void bound(struct ms_peek *peek, const struct ms_object *object, const Elf32_Rel *rel,
                  struct bounds *bounds)
{
	int32_t word;

	if (ELF32_R_TYPE(rel->r_info) != R_386_TLS_TPOFF || ELF32_R_SYM(rel->r_info))
		return;
	if (ms_peek_read(peek, ms_elf_address(object->word_bytes, object->bias + rel->r_offset),
	                 &word, sizeof(word)) != sizeof(word))
		return;
	if (!bounds->given || word < bounds->least)
		bounds->least = word;
	if (!bounds->given || word > bounds->most)
		bounds->most = word;
	bounds->given = true;
}

/* Where the storage of a library of i386 can be: all that is between the nearest and farthest. */
static bool find_bounded(struct ms_peek *peek, const struct ms_object *object,
                         const struct ms_dynamic *dynamic, struct ms_tls *ret)
{
	const int64_t bytes = (int64_t)object->tls_bytes;
	uint64_t n = dynamic->rel_bytes / sizeof(Elf32_Rel);
	struct bounds bounds = { 0 };
	int64_t far;

	for (uint64_t i = 0; dynamic->rel && i < n && i < MAX_RELOCATIONS; i++) {
		Elf32_Rel rel;

		if (ms_peek_read(peek, dynamic->rel + i * sizeof(rel), &rel, sizeof(rel)) !=
		    sizeof(rel))
			break;
		bound(peek, object, &rel, &bounds);
	}
	if (!bounds.given || bounds.most - bounds.least >= bytes || bounds.least >= 0 ||
	    bounds.most > 0)
		return false;
	/* far + least >= 0, far + most < bytes; and it is placed as in the file */
	far = bytes - 1 - bounds.most;
	far -= (far + (int64_t)object->tls_image) & (int64_t)(object->tls_align - 1);
	if (far < -bounds.least)
		return false;
	*ret = (struct ms_tls){ far, -bounds.least > bytes ? -bounds.least - bytes : 0 };
	return true;
}

/* That of a program. */
static struct ms_tls nearest(const struct ms_abi *abi, const struct ms_object *object)
{
	uint64_t far = ms_align_up(object->tls_bytes, object->tls_align);
	int64_t begin =
		(int64_t)ms_align_up(TCB_WORDS * (uint64_t)abi->word_bytes, object->tls_align);

	if (abi->tls_above)
		return (struct ms_tls){ -begin, -begin - (int64_t)(far + object->tls_align) };
	/* Its begin is placed as in the file, which can only take more. */
	if (object->tls_image & (object->tls_align - 1))
		far += object->tls_align;
	return (struct ms_tls){ (int64_t)far, 0 };
}

/* Whether storage that begins @far below the thread pointer is all on the side where it can be. */
static bool is_beside(const struct ms_abi *abi, const struct ms_object *object, int64_t far)
{
	int64_t bytes = (int64_t)object->tls_bytes;
	int64_t most = (int64_t)MAX_FAR;

	return abi->tls_above ? far < 0 && far >= -most : far >= bytes && far <= most;
}

bool ms_tls_find(struct ms_peek *peek, ms_addr begin, struct ms_tls *ret)
{
	const struct ms_reader from = ms_peek_reader(peek);
	struct ms_dynamic dynamic = { 0 };
	struct ms_object object;
	struct answer answer;

	if (!ms_object_read(from, begin, peek->src->abi.page_bytes, &object) || !object.tls_bytes ||
	    object.tls_bytes > MAX_FAR || object.tls_align > MAX_FAR)
		return false;
	if (object.dynamic)
		dynamic = ms_dynamic_read(from, &object);
	if (!object.dynamic || (dynamic.strings && !ms_dynamic_is_shared(&dynamic)) ||
	    ms_object_is_program(from, &object)) {
		*ret = nearest(&peek->src->abi, &object);
		return true;
	}
	if (object.word_bytes == sizeof(uint32_t))
		return find_bounded(peek, &object, &dynamic, ret);
	answer = ask_relocations(peek, &object, &dynamic);
	if (!answer.given || answer.contradicted ||
	    !is_beside(&peek->src->abi, &object, (int64_t)answer.far))
		return false;
	*ret = (struct ms_tls){ (int64_t)answer.far, (int64_t)(answer.far - object.tls_bytes) };
	return true;
}
