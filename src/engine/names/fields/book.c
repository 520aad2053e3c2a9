/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/names/fields/book.h"

static bool is_something(const struct ms_book *book, uint32_t what, uint32_t type)
{
	return what < MS_BOOK_WHATS && type < book->types.n;
}

static bool type_sensible(const struct ms_book *book, const struct ms_book_type *type,
                          size_t n_code)
{
	return type->name < book->text.n && type->module < n_code && type->size &&
	       (uint64_t)type->first + type->n <= book->fields.n;
}

/* Where objects end is looked at when they are: what a field has behind that is not read. */
static bool fields_sensible(const struct ms_book *book)
{
	const struct ms_book_field *field;

	ms_vec_for_each (field, &book->fields)
		if (!is_something(book, field->what, field->type))
			return false;
	return true;
}

static bool variables_sensible(const struct ms_book *book, size_t n_code)
{
	const struct ms_book_variable *variable;

	ms_vec_for_each (variable, &book->variables)
		if (!is_something(book, variable->what, variable->type) ||
		    variable->module >= n_code || variable->n == MS_BOOK_REST ||
		    variable->local > 1)
			return false;
	return true;
}

bool ms_book_check(struct ms_book *book, size_t n_code)
{
	const struct ms_book_type *type;
	struct ms_note *note;

	if (book->types.n > MS_BOOK_TYPES || book->fields.n > MS_BOOK_FIELDS ||
	    book->variables.n > MS_BOOK_VARIABLES || book->text.n > MS_BOOK_TEXT ||
	    book->warnings.n > MS_BOOK_WARNINGS)
		return false;
	/* The last name ends, and so do all. */
	if (book->text.n && book->text.at[book->text.n - 1])
		return false;
	ms_vec_for_each (type, &book->types)
		if (!type_sensible(book, type, n_code))
			return false;
	ms_vec_for_each (note, &book->warnings)
		note->text[sizeof(note->text) - 1] = '\0';
	return fields_sensible(book) && variables_sensible(book, n_code);
}
