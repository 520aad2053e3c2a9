/* SPDX-License-Identifier: Apache-2.0 */
#include "report/book/book.h"

#include <string.h>

enum { VECTORS = 5, PIECE_BYTES = 1 << 20 /* of memory: what a false count costs */ };

struct book_vec {
	void *at; /* where the vector keeps its typed pointer */
	size_t *n;
	size_t *cap;
	size_t size; /* of an entry */
	uint64_t max;
};

#define BOOK_VEC(vec, max)                                                  \
	(struct book_vec)                                                   \
	{                                                                   \
		&(vec)->at, &(vec)->n, &(vec)->cap, sizeof(*(vec)->at), max \
	}

/* In the order in which they travel. */
static void list_vectors(struct ms_book *book, struct book_vec ret[VECTORS])
{
	ret[0] = BOOK_VEC(&book->types, MS_BOOK_TYPES);
	ret[1] = BOOK_VEC(&book->fields, MS_BOOK_FIELDS);
	ret[2] = BOOK_VEC(&book->variables, MS_BOOK_VARIABLES);
	ret[3] = BOOK_VEC(&book->text, MS_BOOK_TEXT);
	ret[4] = BOOK_VEC(&book->warnings, MS_BOOK_WARNINGS);
}

static unsigned char *entries(const struct book_vec *vec)
{
	unsigned char *at;

	memcpy(&at, vec->at, sizeof(at));
	return at;
}

bool ms_book_send(ms_wire_put put, void *ctx, const struct ms_book *book)
{
	struct ms_book copy = *book;
	struct book_vec vectors[VECTORS];

	list_vectors(&copy, vectors);
	for (size_t i = 0; i < VECTORS; i++) {
		uint64_t n = *vectors[i].n;

		if (!put(ctx, &n, sizeof(n)) ||
		    (n && !put(ctx, entries(&vectors[i]), (size_t)n * vectors[i].size)))
			return false;
	}
	return true;
}

static enum ms_status receive_entries(const struct ms_wire_link *link, const struct book_vec *vec,
                                      uint64_t n, struct ms_arena *arena, struct ms_error *err)
{
	size_t piece = PIECE_BYTES / vec->size;

	while (*vec->n < n) {
		size_t more = n - *vec->n < piece ? (size_t)(n - *vec->n) : piece;
		size_t want = *vec->n + more;

		if (*vec->cap < want &&
		    !ms_vec_reserve_bytes(arena, vec->at, vec->cap, want, vec->size))
			return ms_fail(err, MS_E_NOMEM, "no memory for types");
		if (!link->get(link->ctx, entries(vec) + *vec->n * vec->size, more * vec->size))
			return ms_fail(err, MS_E_DIED, "the types ended in the middle");
		*vec->n = want;
	}
	return MS_OK;
}

enum ms_status ms_book_receive(const struct ms_wire_link *link, size_t n_code,
                               struct ms_arena *arena, struct ms_book *ret, struct ms_error *err)
{
	struct ms_book book = { 0 };
	struct book_vec vectors[VECTORS];

	list_vectors(&book, vectors);
	for (size_t i = 0; i < VECTORS; i++) {
		enum ms_status st;
		uint64_t n;

		if (!link->get(link->ctx, &n, sizeof(n)))
			return ms_fail(err, MS_E_DIED, "the types ended in the middle");
		if (n > vectors[i].max)
			return ms_fail(err, MS_E_CORRUPT,
			               "the types make no sense: an absurd count");
		st = receive_entries(link, &vectors[i], n, arena, err);
		if (st)
			return st;
	}
	if (!ms_book_check(&book, n_code))
		return ms_fail(err, MS_E_CORRUPT, "the types make no sense: an entry out of range");
	*ret = book;
	return MS_OK;
}
