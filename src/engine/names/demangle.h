/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_NAMES_DEMANGLE_H
#define MS_ENGINE_NAMES_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Write the C++ type that @mangled names, as c++filt -t would: "N3foo3BoxIiEE" is
 * "foo::Box<int>".
 *
 * Returns false, with @ret untouched, when the name holds something that is not known
 * here (types of arrays, expressions), makes no sense, or does not fit
 * into @cap bytes.
 * Context: any bytes may come; no malloc.
 * Source:  Itanium C++ ABI, 5.1 "External Names", as far as types of objects need it.
 */
bool ms_demangle_type(const char *mangled, char *ret, size_t cap);

/*
 * The same for a function as it is linked: "_ZNK3foo3BoxIiE3getEPKc" is
 * "foo::Box<int>::get(char const*) const". Where ms_demangle_type() gives up this does, and
 * for thunks, tables, literals as operators, and expressions.
 */
bool ms_demangle_function(const char *mangled, char *ret, size_t cap);

#endif
