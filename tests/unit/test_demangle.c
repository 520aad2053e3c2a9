/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/names/demangle.h"

enum { CAP = 256 };

/* What c++filt -t says of them. */
static const struct {
	const char *mangled;
	const char *name;
} names[] = {
	{ "3Foo", "Foo" },
	{ "N3foo3BarE", "foo::Bar" },
	{ "N1a1b1c1dE", "a::b::c::d" },
	{ "St9exception", "std::exception" },
	{ "NSt6locale5facetE", "std::locale::facet" },
	{ "i", "int" },
	{ "PKc", "char const*" },
	{ "PVKc", "char const volatile*" },
	{ "RKN1a1bE", "a::b const&" },
	{ "OSs", "std::basic_string<char, std::char_traits<char>, std::allocator<char> >&&" },
	{ "Sd", "std::basic_iostream<char, std::char_traits<char> >" },
	{ "Dn", "decltype(nullptr)" },
	{ "3BoxIiE", "Box<int>" },
	{ "St8functionIFvvEE", "std::function<void ()>" },
	{ "3BoxIjjbE", "Box<unsigned int, unsigned int, bool>" },
	{ "3BoxIS_IiEE", "Box<Box<int> >" },
	{ "3BoxI1AS0_E", "Box<A, A>" },
	{ "3BoxIP1AS1_S0_E", "Box<A*, A*, A>" },
	{ "N3foo3BoxINS_1AEE1BE", "foo::Box<foo::A>::B" },
	{ "N3foo3BoxINS_1AES1_NS0_IiEEEE", "foo::Box<foo::A, foo::A, foo::Box<int> >" },
	{ "St6vectorIiSaIiEE", "std::vector<int, std::allocator<int> >" },
	{ "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
	  "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >" },
	{ "St23_Sp_counted_ptr_inplaceI3FooSaIvELN9__gnu_cxx12_Lock_policyE2EE",
	  "std::_Sp_counted_ptr_inplace<Foo, std::allocator<void>, (__gnu_cxx::_Lock_policy)2>" },
	{ "1SILin7ELb1ELm8EE", "S<-7, true, 8ul>" },
	{ "1SILb0EE", "S<false>" },
	{ "5TupleIJidEE", "Tuple<int, double>" },
	{ "5TupleIJEE", "Tuple<>" },
	{ "N12_GLOBAL__N_16HiddenE", "(anonymous namespace)::Hidden" },
	{ "Z4mainE5Local", "main::Local" },
	{ "Z3foovE5Local", "foo()::Local" },
	{ "Z3fooiPKcE5Local_0", "foo(int, char const*)::Local" },
	{ "ZN1a1bEiE5Local", "a::b(int)::Local" },
	{ "ZNK1a1bEvE5Local", "a::b() const::Local" },
	{ "Z3foovEUlvE_", "foo()::{lambda()#1}" },
	{ "Z3foovEUliE0_", "foo()::{lambda(int)#2}" },
	{ "Z3foovEUt_", "foo()::{unnamed type#1}" },
	{ "N3fooB5cxx113BarE", "foo[abi:cxx11]::Bar" },
};

Test(demangle, types_as_c_filt_does)
{
	char name[CAP];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cr_expect(ms_demangle_type(names[i].mangled, name, sizeof(name)), "%s",
		          names[i].mangled);
		cr_expect_str_eq(name, names[i].name, "%s: %s", names[i].mangled, name);
	}
}

Test(demangle, refuses_what_it_does_not_know_or_makes_no_sense)
{
	static const char *const refused[] = {
		"",
		"0",
		"3Fo",
		"4",
		"N",
		"NE",
		"N3foo",
		"3FooE",
		"3Foo3Bar",
		"S_",
		"3BoxI",
		"3BoxIi",
		"3BoxIiEE",
		"Fvv",
		"A3_i",
		"3BoxIXsz1EE",
		"3BoxIS5_E",
		"3BoxIT_E",
		"K",
		"DpT_",
		"Sx",
		"Z3foo",
		"Z3foovE",
		"Z3fooIiEvvE1X",
		"1SILiEE",
		"1SILb2EE",
		"1SIJiE",
		"Z1fvEUl",
		"99999999999999999999x",
		"N3fooI",
		"NIiEE",
		"J",
		"3BoxIJJiEEE",
		"#3Foo",
		"3BoxI1AS0_S1_E",
		"3Foo#",
	};
	char name[CAP] = "before";

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		bool known = ms_demangle_type(refused[i], name, sizeof(name));

		cr_expect_not(known, "%s: %s", refused[i], name);
		cr_expect_str_eq(name, "before");
	}
}

/* Each name cut off anywhere, and with each of its bytes another. */
Test(demangle, survives_names_that_were_damaged)
{
	char name[CAP];
	char copy[CAP];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i].mangled);

		for (size_t k = 0; k < len; k++) {
			snprintf(copy, sizeof(copy), "%.*s", (int)k, names[i].mangled);
			(void)ms_demangle_type(copy, name, sizeof(name));
			for (int c = 1; c < 256; c++) {
				strcpy(copy, names[i].mangled);
				copy[k] = (char)c;
				(void)ms_demangle_type(copy, name, sizeof(name));
			}
		}
	}
}

static bool repeated(const char *what, size_t n, const char *behind)
{
	static char mangled[8192];
	static char name[2048];

	mangled[0] = '\0';
	while (n--)
		strcat(mangled, what);
	strcat(mangled, behind);
	return ms_demangle_type(mangled, name, sizeof(name));
}

Test(demangle, bounds_depth_and_length)
{
	cr_assert(repeated("P", 20, "i"));
	cr_assert_not(repeated("P", 100, "i"), "depth");
	cr_assert_not(repeated("P", 5000, "i"), "depth");
	cr_assert_not(repeated("Z", 5000, "1fvE1X"), "depth of names");
	cr_assert_not(repeated("1AI", 1000, "i"), "depth of arguments");
	cr_assert_not(repeated("20aaaaaaaaaaaaaaaaaaaa", 1, "I20bbbbbbbbbbbbbbbbbbbbS_S"),
	              "no end");
	cr_assert_not(repeated("N", 1, "1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a"), "no end");
}

/* A name that doubles with each argument: S2_ has 66 bytes, S3_ 136, and so on. */
Test(demangle, bounds_what_a_short_name_may_grow_to)
{
	static const char begin[] = "1XI30aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1YIS0_S0_ES1_IS2_S2_E";
	char mangled[CAP];
	char name[2048];

	snprintf(mangled, sizeof(mangled), "%sE", begin);
	cr_assert(ms_demangle_type(mangled, name, sizeof(name)));
	snprintf(mangled, sizeof(mangled), "%sS1_IS3_S3_ES1_IS4_S4_ES1_IS5_S5_EE", begin);
	cr_assert_not(ms_demangle_type(mangled, name, sizeof(name)));
}

Test(demangle, wants_room_for_the_whole)
{
	char name[4] = "";

	cr_assert(ms_demangle_type("3Foo", name, 4));
	cr_assert_not(ms_demangle_type("3Foo", name, 3));
}

/* ---- functions ---- */

/* What c++filt says of them. */
static const struct {
	const char *mangled;
	const char *name;
} functions[] = {
	{ "_Z4makev", "make()" },
	{ "_ZL4makev", "make()" },
	{ "_Z3fooiPKc", "foo(int, char const*)" },
	{ "_ZN1a1bEv", "a::b()" },
	{ "_ZNK1a1bERKS_", "a::b(a const&) const" },
	{ "_ZNK4pool5CacheIiE4fillEiPKc", "pool::Cache<int>::fill(int, char const*) const" },
	{ "_ZN3FooC1Ev", "Foo::Foo()" },
	{ "_ZN3FooD2Ev", "Foo::~Foo()" },
	{ "_ZN1a3BoxIS_IiEEC2ERKS1_", "a::Box<a<int> >::Box(a<int> const&)" },
	{ "_ZN3FooC1IiEET_", "Foo::Foo<int>(int)" },
	{ "_Z3maxIiET_S0_S0_", "int max<int>(int, int)" },
	{ "_Z3useIP3FooEvRKT_", "void use<Foo*>(Foo* const&)" },
	{ "_Z3putIiEvOT_", "void put<int>(int&&)" },
	{ "_Z3putIRiEvOT_", "void put<int&>(int&)" },
	{ "_ZN3FooIiE3barIdEEvT_", "void Foo<int>::bar<double>(double)" },
	{ "_ZN3FooplERKS_", "Foo::operator+(Foo const&)" },
	{ "_ZN3FoocvbEv", "Foo::operator bool()" },
	{ "_ZN3FooixEm", "Foo::operator[](unsigned long)" },
	{ "_ZN3FoonwEm", "Foo::operator new(unsigned long)" },
	{ "_Znwm", "operator new(unsigned long)" },
	{ "_ZdlPv", "operator delete(void*)" },
	{ "_ZN12_GLOBAL__N_17StringsEv", "(anonymous namespace)::Strings()" },
	{ "_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const" },
	{ "_ZZ3fooiENKUliE_clEi", "foo(int)::{lambda(int)#1}::operator()(int) const" },
	{ "_Z4sortPvmPFiPKvS1_E", "sort(void*, unsigned long, int (*)(void const*, void const*))" },
	{ "_ZSt4moveIRiEONSt16remove_referenceIT_E4typeEOS2_",
	  "std::remove_reference<int&>::type&& std::move<int&>(int&)" },
	{ "_ZNSt6vectorIiSaIiEE9push_backERKi",
	  "std::vector<int, std::allocator<int> >::push_back(int const&)" },
	{ "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm",
	  "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
	  ">::_M_create(unsigned long&, unsigned long)" },
	{ "_ZN9__gnu_cxx13new_allocatorIcE8allocateEmPKv",
	  "__gnu_cxx::new_allocator<char>::allocate(unsigned long, void const*)" },
	{ "_Z4makev.cold", "make() [clone .cold]" },
	{ "_ZN1a1bEv.isra.0.part.1", "a::b() [clone .isra.0] [clone .part.1]" },
	{ "_Z3fooz", "foo(...)" },
	{ "_ZNKR3Foo3barEv", "Foo::bar() const &" },
	{ "_ZNSt8ios_base7failureB5cxx11C1EPKc",
	  "std::ios_base::failure[abi:cxx11]::failure(char const*)" },
	{ "_ZNO3Foo3barEv", "Foo::bar() &&" },
	{ "_ZltI3FooEbT_", "bool operator< <Foo>(Foo)" },
	{ "_Z1fSt8functionIFviEE", "f(std::function<void (int)>)" },
};

Test(demangle, functions_as_c_filt_does)
{
	char name[CAP];

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		cr_expect(ms_demangle_function(functions[i].mangled, name, sizeof(name)), "%s",
		          functions[i].mangled);
		cr_expect_str_eq(name, functions[i].name);
	}
}

Test(demangle, refuses_what_is_no_function_it_knows)
{
	static const char *const none[] = { "main",
		                            "_Z",
		                            "_ZTV3Foo",
		                            "_ZThn16_N1a1bEv",
		                            "_Z3foo1",
		                            "_Z1fIiEvT0_",
		                            "_Z1fvT_",
		                            "_ZN3FooC9Ev",
		                            "_ZN3Foo",
		                            "_Z1fv.",
		                            "_Z1fPFvvES1_S0_S9_",
		                            "_Z1fPPFvvE",
		                            "_Z1fRSt1gIFvvEEPS0_" };
	char name[CAP];

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		cr_expect_not(ms_demangle_function(none[i], name, sizeof(name)), "%s is %s",
		              none[i], name);
	cr_expect_not(ms_demangle_function("_Z4makev", name, 6));
	cr_expect(ms_demangle_function("_Z4makev", name, 7));
}

Test(demangle, survives_functions_that_were_damaged)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		size_t len = strlen(functions[i].mangled);

		for (size_t at = 0; at < len; at++) {
			static const char others[] = "\0EINKZSTCDPF_0v9.";
			char copy[CAP];
			char name[CAP];

			for (size_t k = 0; k < sizeof(others); k++) {
				memcpy(copy, functions[i].mangled, len + 1);
				copy[at] = others[k];
				(void)ms_demangle_function(copy, name, sizeof(name));
			}
		}
	}
}
