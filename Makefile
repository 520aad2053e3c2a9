# SPDX-License-Identifier: Apache-2.0
#
#	make            build/memscan and the libraries
#	make ABI=32     libmalloc_debug for programs of i386, in build/32
#	make musl       libmemunreachable for programs built by musl-gcc, in build/musl
#	make demo       install what is missing, build, scan a bundled leaking program
#	make check      install what is missing, build, run every test
#	make check-unit, check-unit-san, check-e2e, layers, lint     parts of it
#	make check-quick     layers, unit tests, and a minute end to end: for while one works
#	make check-long      what make check leaves out: unit tests without sanitizers and with gcc's, which
#	                fuzzers' seeds have, too (make check-fuzz), end-to-end tests of each combination
#	                of parameters, where else each value of one is in a test, and more rounds of what
#	                depends on chance
#	make fuzz       look for inputs that break a reader of foreign bytes; FUZZ="NAME..."
#	                chooses, or make fuzz-NAME; FUZZ_SECONDS= says how long each (60);
#	                make fuzz-keep keeps what was found in tests/fuzz/corpus
#	make tsan       what threads share, under ThreadSanitizer
#	make check-programs  more programs from packages at work: no leak may be used later;
#	                PROGRAMS=NAME,NAME chooses, PROGRAM_SECONDS= says how long,
#	                PROGRAM_MALLOC=FILE gives them another allocator
#	make check-names     which share of live blocks gets a name in programs from packages, and
#	                whether names are right by a debugger's view; NAMES="NAME..." chooses
#	make check-bare      make demo and make check in a root of their own with nothing installed but make
#	                and git, as root, before a release; BARE_ROOT=FOLDER is where it is made
#	make bench      measure a scan against its peers; BENCH=full, or BENCH="PART..."
#	make bench-leaks     true leaks of packages as memscan, LeakSanitizer and Valgrind count them;
#	                LEAKS="NAME..." chooses
#	make bench-parts     measure single parts of the engine
#	make install    PREFIX=, DESTDIR= and GNU's directory variables
#	make arm64      memscan and the libraries in build/arm64, by a compiler for aarch64 that RUN_ARM64
#	                unpacks
#	make check-arm64     build them, then in an emulator unit tests, scans of programs that know their
#	                leaks, programs at work with the libraries, and memscan killed in the middle of
#	                ARM64_KILLS= scans; not a part of make check.
#	                RUN_ARM64=FILE runs a command there: FOLDER COMMAND...; ARM64_CACHE is its folder
#	make check-kernels   boot packaged kernels (KERNELS="5.10 6.1 6.12") in an emulator and run the main
#	                commands there, and programs that a wrong question to the kernel would hurt,
#	                KERNEL_ROUNDS= times (50); KERNEL_CHECKS="NAME..." chooses. Not a part of make check.
#	make check-headers   compile every source by the headers of Debian 11, the oldest supported
#	make clean
#
# A file added to a room, to tests/unit, tests/support, tests/targets, tests/targets/api,
# tests/bench or a room of tests/fuzz is found by itself.

# For each file that may be made, and each header, make would try them all: two seconds a call.
MAKEFLAGS   += --no-builtin-rules

B           := build
NM          ?= nm
OBJCOPY     ?= objcopy
ifeq ($(ABI),32)
B           := build/32
override CC := $(CC) -m32
endif
VERBOSE     ?=
# A test waits for a third of its time.
E2E_JOBS    ?= $(shell n=$$(nproc); echo $$((n + (n + 1) / 2)))
CFLAGS      ?= -O2 -g
PREFIX      ?= /usr/local
EXEC_PREFIX ?= $(PREFIX)
bindir      ?= $(EXEC_PREFIX)/bin
libdir      ?= $(EXEC_PREFIX)/lib
includedir  ?= $(PREFIX)/include
datarootdir ?= $(PREFIX)/share
mandir      ?= $(datarootdir)/man
INSTALL     ?= install

WARNINGS := -Wall -Wextra -Wformat=2 -Wshadow -Wundef -Wvla -Wpointer-arith -Wwrite-strings \
            -Wcast-qual -Wcast-align -Wstrict-prototypes -Wmissing-prototypes \
            -Wnull-dereference -Wconversion -Wimplicit-fallthrough $(if $(CI),-Werror)
# Empty until tools/install-deps has run, which is why check and demo call make again.
LIBPROC2 ?= $(shell pkg-config --exists libproc2 2>/dev/null && echo libproc2)
PACKAGES := $(if $(filter 32,$(ABI)),,json-c $(LIBPROC2) libdw libelf libunwind-generic libzstd liblz4 liblzma)
FLAGS    := -std=gnu11 -D_GNU_SOURCE $(if $(filter 32,$(ABI)),-D_FILE_OFFSET_BITS=64) -Isrc -Iinclude -fvisibility=hidden -pthread $(WARNINGS) \
            $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
# libiberty has no file for pkg-config.
LIBS     := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -liberty
CRITERION := $(shell pkg-config --libs criterion 2>/dev/null)
# Unit tests and fuzzers share the objects with sanitizers, clang's as libFuzzer is part of it;
# SAN_CC=gcc: others, without what libFuzzer wants. What -O2 and all of -g take to compile is more
# than a run gains by them. clang knows fewer attributes than gcc, warns of what macros of Criterion
# compare, and of a row that names some members it wants all; with -O1 gcc knows too little of
# lengths to warn of them. Most of a unit test runs once: to optimize it takes longer than it runs;
# what is undefined is looked for in src alone.
SAN_CC   ?= clang
SAN      := $(B)/san-$(SAN_CC)
SANITIZE := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
ifeq ($(SAN_CC),clang)
SAN_FLAGS := $(SANITIZE) -fsanitize=fuzzer-no-link -D__SANITIZE_ADDRESS__ \
             -Wno-unknown-attributes -Wno-missing-field-initializers
UNIT_SAN  := $(filter-out -fsanitize=fuzzer-no-link,$(SAN_FLAGS)) -fno-sanitize=undefined -O0 \
             -Wno-sign-compare -Wno-null-pointer-arithmetic
HEAP_SAN  := $(SAN_FLAGS) -fno-sanitize-coverage=trace-cmp,indirect-calls
else
SAN_FLAGS := $(SANITIZE) -Wno-format-truncation -Wno-format-overflow
endif

# Of src/target/arch and src/inproc/control, what is named as this machine is, and others whose
# programs its kernel runs.
MACHINE := $(if $(filter 32,$(ABI)),i386,$(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null))))
COMPAT  := $(if $(filter x86_64,$(MACHINE)),i386)
ARCHES  := $(MACHINE) $(COMPAT)
# What the shim does not unwind by: of i386 programs few have libunwind, and on aarch64 that does
# not get by signed return addresses.
NOT_UNWINDER := $(addprefix src/shim/frames/,$(if $(filter x86_64,$(MACHINE)),libgcc.c,libunwind.c memory.c))
# Processes are listed by libproc2 where there is one.
NOT_NAMED := src/target/process/named_$(if $(LIBPROC2),proc,libproc2).c
SRC     := $(filter-out $(filter-out $(ARCHES:%=src/target/arch/%%) $(ARCHES:%=src/inproc/control/%%), \
             $(wildcard src/target/arch/*.c src/inproc/control/*.c)) $(NOT_UNWINDER) $(NOT_NAMED), \
             $(sort $(wildcard src/*/*.c src/*/*/*.c src/*/*/*/*.c)))
SUPPORT := $(sort $(wildcard tests/support/*.c))
UNIT    := $(patsubst tests/unit/%.c,%,$(sort $(wildcard tests/unit/test_*.c)))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/*/fuzz_*.c))
BENCHES := $(patsubst tests/bench/%.c,$(B)/bench/%,$(sort $(wildcard tests/bench/*.c)))
TARGET_SRC := $(sort $(wildcard tests/targets/*.c))
# A target that asks for it in a comment is built in three ways.
VARIED  := $(if $(TARGET_SRC),$(shell grep -l 'variants: static static-pie' $(TARGET_SRC)))
API_SRC := $(sort $(wildcard tests/targets/api/*.c tests/targets/api/*.cc))
API     := $(basename $(API_SRC:tests/targets/%=$(B)/%))
CC_TARGET_SRC := $(sort $(wildcard tests/targets/*.cc))
TARGETS := $(TARGET_SRC:tests/targets/%.c=$(B)/targets/%) \
           $(CC_TARGET_SRC:tests/targets/%.cc=$(B)/targets/%) \
           $(VARIED:tests/targets/%.c=$(B)/targets/%-static) \
           $(VARIED:tests/targets/%.c=$(B)/targets/%-static-pie) \
           $(API) $(API:%=%-archived)
MAIN    := src/cli/main
# What stands in front of malloc is in the libraries alone.
PARTS   := $(filter-out $(MAIN) src/inproc/annotate/malloc src/inproc/annotate/front \
                        src/inproc/annotate/kin src/inproc/annotate/lsan \
                        src/shim/entry src/shim/dlopen src/shim/other src/shim/start src/shim/api src/shim/hooks/hooks,$(SRC:.c=))

Q := $(if $(VERBOSE),,@)
LINT     := $(B)/lint
# By itself it visits up to 5 nodes of each block of a function: twice the time.
ANALYZER_NODES ?= 3
ANALYZER := -fanalyzer --param analyzer-bb-explosion-factor=$(ANALYZER_NODES) -Werror

.PHONY: all arm64 arm64-tools check-arm64 musl $(COMPAT) demo demo-run check check-quick check-long check-all \
        check-unit check-unit-san check-fuzz check-e2e e2e-beside e2e-alone lint-idle \
        check-bare check-programs check-names check-kernels check-headers tsan targets fuzz fuzz-keep bench bench-leaks bench-programs \
        bench-parts install install-all \
        install-shim clean lint \
        lint-format lint-tidy lint-cppcheck lint-analyzer lint-python layers $(UNIT:%=unit-%) $(UNIT:%=unit-san-%)
.SECONDARY:
.DELETE_ON_ERROR:

# Which C library CC compiles for.
LIBC := $(if $(shell echo | $(CC) -include features.h -dM -E - 2>/dev/null | grep -w __GLIBC__),glibc,musl)

# The libraries are not written for other machines yet, libmemunreachable not for i386.
LIBRARIES := $(if $(filter x86_64 aarch64,$(MACHINE)),$(B)/libmemunreachable.so $(B)/libmemunreachable.a) \
             $(if $(filter x86_64 i386 aarch64,$(MACHINE)),$(B)/libmalloc_debug.so)
all: $(if $(filter 32,$(ABI)),,$(B)/memscan) $(LIBRARIES)

# ---- objects, and the archives that the program and its tests are linked from ----

$(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The program and the libraries are linked from the same objects. Without a PLT nothing is bound
# at the first call, which takes kilobytes of the stack that the handler of a signal was given.
$(B)/src/%.o: FLAGS += -fPIC -fno-plt -ftls-model=initial-exec

# With ANALYZED=1 lint-analyzer has nothing to do for them any more, which compiles a second time.
ifdef ANALYZED
$(B)/src/%.o: src/%.c Makefile
	@mkdir -p $(@D) $(dir $(LINT)/src/$*)
	$(Q)$(CC) $(FLAGS) $(CFLAGS) $(ANALYZER) -MMD -MP -c -o $@ $<
	@touch $(LINT)/src/$*.analyzed
endif

$(SAN)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(SAN_CC) $(FLAGS) $(CFLAGS) $(SAN_FLAGS) -MMD -MP -c -o $@ $<
$(SAN)/tests/unit/%.o: SAN_FLAGS := $(or $(UNIT_SAN),$(SAN_FLAGS))
# It counts its own frames by the bytes that are kept of a stack.
$(SAN)/tests/unit/test_unwind.o: SAN_FLAGS += -O1
# What an allocator's or a block's words are compared with is an address as a rule, of no use for
# another input of a fuzzer.
$(SAN)/src/alloc/%.o $(SAN)/src/engine/graph/%.o $(SAN)/src/engine/kinds/%.o $(SAN)/src/engine/mapping.o \
		$(SAN)/src/engine/loaded/peek.o $(SAN)/src/base/range.o $(SAN)/tests/fuzz/arena.o \
		$(SAN)/tests/support/%.o: SAN_FLAGS := $(or $(HEAP_SAN),$(SAN_FLAGS))

# Criterion's assertions do not tell the compiler that they end a test.
$(B)/tests/%.o $(SAN)/tests/%.o: FLAGS += -Itests -Itests/support -Wno-null-dereference
$(SAN)/tests/fuzz/%.o: FLAGS += -Itests/fuzz

# "q": two rooms may have a file of the same name, which "r" would replace.
define archive
	@rm -f $@
	$(Q)$(AR) cqs $@ $^
endef

$(B)/parts.a: $(PARTS:%=$(B)/%.o)
	$(archive)
$(SAN)/parts.a: $(PARTS:%=$(SAN)/%.o)
	$(archive)
$(B)/support.a: $(SUPPORT:%.c=$(B)/%.o)
	$(archive)
$(SAN)/support.a: $(SUPPORT:%.c=$(SAN)/%.o)
	$(archive)

$(B)/memscan: $(B)/$(MAIN).o $(B)/parts.a
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# ---- the agent: code that memscan maps into a foreign process, as bytes ----

# Registers that it does not save are the program's; nothing calls the C library, or jumps by
# a table of addresses. Of CFLAGS it takes none: it runs where nothing of ours is loaded.
AGENT       := src/target/inject/agent/code
AGENT_FLAGS := -std=gnu11 -Isrc -O2 -mgeneral-regs-only -ffreestanding -fpie -fvisibility=hidden \
               -ffunction-sections -fno-jump-tables -fno-stack-protector -fcf-protection=none \
               -fno-asynchronous-unwind-tables -fomit-frame-pointer -Wframe-larger-than=112 $(WARNINGS)
# clang takes "flatten" for one level.
AGENT_FLAGS += $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),-mllvm -inline-threshold=10000)
AGENT_WITH  := $(AGENT:%/code=%/table.c) $(AGENT:%/code=%/distance.c) $(AGENT:%/code=%/unload.c)
AGENT_OBJ   := $(B)/agent/hooks.o $(B)/agent/slow.o
AGENT_C     := $(if $(filter x86_64,$(MACHINE)),$(AGENT)/slow.c)

$(B)/agent/slow.o: $(AGENT)/slow.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_FLAGS) $(AGENT_WITH:%=-include %) -MMD -MP -c -o $@ $<
$(B)/agent/hooks.o: $(AGENT)/hooks.S Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(AGENT_FLAGS) -MMD -MP -c -o $@ $<

# Whatever is not at a fixed distance would need a loader, and a call in C would leave its
# return address behind.
$(B)/agent/blob: $(AGENT_OBJ) $(AGENT)/flat.lds
	@! readelf -rW $(AGENT_OBJ) | grep R_X86_64_ | grep -vE 'R_X86_64_(PC32|PLT32) '
	$(Q)$(LD) -T $(AGENT)/flat.lds --gc-sections -nostdlib -e 0 -o $@.elf $(AGENT_OBJ)
	@! objdump -d --no-show-raw-insn $@.elf | grep -E '\scall|mm[0-9]' | \
		grep -vE 'call +([345][0-9a-f]{3} |\*%rax$$)|<ms_agent_(before|after)[a-z_]*>$$'
	$(Q)$(OBJCOPY) -O binary -j .blob $@.elf $@

# No bytes where there is no agent for the machine.
$(B)/agent/blob.bytes: $(if $(AGENT_C),$(B)/agent/blob)
	@mkdir -p $(@D)
	$(Q)cat /dev/null $^ | od -An -v -tx1 | sed 's/ \(..\)/0x\1,/g' >$@
BLOB := src/target/inject/agent/blob.o
$(B)/$(BLOB) $(SAN)/$(BLOB) $(B)/tsan/$(BLOB): $(B)/agent/blob.bytes
$(B)/$(BLOB) $(B)/%/$(BLOB) $(B)/lint/$(BLOB:.o=.tidy) $(B)/lint/$(BLOB:.o=.analyzed): FLAGS += -I$(B)/agent

# ---- the library that programs link; it depends on the C library alone ----

NOT_IN_LIBRARY := src/report/json.c src/report/stacks.c src/report/writers.c src/target/process/find.c \
                  $(wildcard src/target/process/named_*.c) \
                  src/scan/confirm.c \
                  $(filter-out src/report/json/fields.c,$(wildcard src/report/json/*.c)) \
                  $(wildcard src/report/answers/retained.c src/report/sites/live.c src/report/diff/*.c src/report/amounts/*.c src/report/heapdump/*.c src/report/records/*.c \
                             src/target/run/*.c src/target/core/*.c src/target/inject/*.c src/target/inject/library/*.c src/target/inject/agent/*.c src/target/inject/stopped/*.c \
                             src/target/stacks/*.c src/cli/*.c src/cli/*/*.c src/cli/*/*/*.c src/sym/*.c src/sym/*/*.c src/shim/*.c src/shim/*/*.c)
# musl does not free all of its own where something stands in front of its malloc.
NOT_FOR_musl   := src/inproc/annotate/front.c
LIBRARY := $(filter-out $(NOT_IN_LIBRARY) $(NOT_FOR_$(LIBC)),$(SRC))
SONAME  := libmemunreachable.so.1

$(B)/$(SONAME): $(LIBRARY:%.c=$(B)/%.o) src/inproc/libmemunreachable.map
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -pthread -Wl,-soname,$(SONAME) -Wl,-z,defs -Wl,-z,now -Wl,-z,nodelete \
		-Wl,--version-script=src/inproc/libmemunreachable.map -o $@ $(filter %.o,$^)

$(B)/libmemunreachable.so: $(B)/$(SONAME)
	@ln -sf $(SONAME) $@

# Most of it is one member, whose own names are local. The others stay by themselves, for the
# linker is to take them only where a program wants them: front.c and kin.c say why, lsan.c
# and the trigger act before main().
SINGLE  := $(filter $(patsubst %,$(B)/src/inproc/annotate/%.o,front kin lsan),$(LIBRARY:%.c=$(B)/%.o))
TRIGGER := $(patsubst %.c,$(B)/%.o,$(wildcard src/inproc/trigger/*.c))
MEMBERS := $(B)/members/memunreachable.o $(B)/members/trigger.o $(SINGLE)
$(B)/members/memunreachable.o: $(filter-out $(SINGLE) $(TRIGGER),$(LIBRARY:%.c=$(B)/%.o))
$(B)/members/trigger.o: $(TRIGGER)
$(B)/members/%.o:
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -r -nostdlib -o $@ $^

$(B)/libmemunreachable.a: $(MEMBERS) src/inproc/libmemunreachable.map tools/seal-archive
	$(Q)AR='$(AR)' NM='$(NM)' OBJCOPY='$(OBJCOPY)' tools/seal-archive $@ src/inproc/libmemunreachable.map $(MEMBERS)

# The same for programs that are built against musl where glibc is the system's: build/musl. The
# kernel's headers lie among glibc's.
MUSL_CC ?= musl-gcc
musl: $(B)/musl/kernel
	$(Q)$(MAKE) --no-print-directory B=$(B)/musl PACKAGES= CC='$(MUSL_CC) -idirafter $(abspath $<)' \
		$(B)/musl/libmemunreachable.so $(B)/musl/libmemunreachable.a
$(B)/musl/kernel:
	@mkdir -p $@
	@ln -sfn /usr/include/linux /usr/include/asm-generic /usr/include/$$(gcc -print-multiarch)/asm $@

# ---- the library that programs are started with; it loads libunwind by itself ----

SHIM        := $(filter src/shim/% src/elf/%,$(SRC)) \
               src/base/arena.c src/base/file.c src/base/map.c src/base/newfile.c src/base/range.c \
               src/base/sort.c src/base/status.c src/base/vec.c src/base/walk.c src/base/elf/notes.c \
               src/base/elf/rows.c
SHIM_SONAME := libmalloc_debug.so.1

$(B)/$(SHIM_SONAME): $(SHIM:%.c=$(B)/%.o) src/shim/libmalloc_debug.map
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -pthread -Wl,-soname,$(SHIM_SONAME) -Wl,-z,defs -Wl,-z,now -Wl,-z,nodelete \
		-Wl,--version-script=src/shim/libmalloc_debug.map -o $@ $(filter %.o,$^)

$(B)/libmalloc_debug.so: $(B)/$(SHIM_SONAME)
	@ln -sf $(SHIM_SONAME) $@

# ---- tests ----

# lld, where it is installed, takes less than half of the time of GNU ld; build ids are as of that.
TEST_LDFLAGS := $(LDFLAGS) $(if $(shell command -v ld.lld),-fuse-ld=lld -Xlinker --build-id=sha1)

# Criterion starts a process for each test, which loads all that it is linked with: only what the
# test needs, and instead of libgit2, by the name that Criterion has for it, tests/unit/git2.c.
CRITERION_FILE := $(firstword $(wildcard $(patsubst -L%,%/libcriterion.so,$(filter -L%,$(CRITERION)))) \
                    $(shell $(CC) -print-file-name=libcriterion.so 2>/dev/null))
GIT2           := $(addprefix $(B)/git2/,$(shell readelf -d $(CRITERION_FILE) 2>/dev/null | \
                    sed -n 's/.*(NEEDED).*\[\(libgit2[^]]*\)\].*/\1/p'))
UNIT_LIBS      := -Wl,--as-needed $(LIBS) -Wl,--no-as-needed $(GIT2) \
                  -Wl,-rpath,'$$ORIGIN/../git2:$$ORIGIN/../../git2' $(CRITERION)
$(B)/git2/%: tests/unit/git2.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -fPIC -Wl,-soname,$* -o $@ $<

$(B)/unit/%: $(B)/tests/unit/%.o $(B)/support.a $(B)/parts.a | $(GIT2)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(TEST_LDFLAGS) -o $@ $^ $(UNIT_LIBS)

$(SAN)/unit/%: $(SAN)/tests/unit/%.o $(SAN)/support.a $(SAN)/parts.a | $(GIT2)
	@mkdir -p $(@D)
	$(Q)$(SAN_CC) $(CFLAGS) $(SANITIZE) $(TEST_LDFLAGS) -o $@ $^ $(UNIT_LIBS)

$(B)/bench/%: $(B)/tests/bench/%.o $(B)/support.a $(B)/parts.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# What memscan is tried on: ordinary programs, nothing of ours in them.
TARGET_FLAGS := -std=gnu11 -O1 -g -pthread
$(B)/targets/%-static-pie: tests/targets/%.c $(wildcard tests/targets/*.h) Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_FLAGS) -static-pie -o $@ $< -ldl -lrt
$(B)/targets/%-static: tests/targets/%.c $(wildcard tests/targets/*.h) Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_FLAGS) -static -o $@ $< -ldl -lrt
$(B)/targets/%: tests/targets/%.c $(wildcard tests/targets/*.h) Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_FLAGS) -o $@ $< -ldl -lrt

# What only an aarch64 program can do, or is tried only there.
$(B)/targets/%: tests/arm64/%.c $(wildcard tests/targets/*.h) Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_FLAGS) -Itests/targets -o $@ $<

# Programs that search themselves, with the library shared and archived.
API_FLAGS := -O1 -g -pthread -Wall -Wextra $(if $(CI),-Werror) -Iinclude
API_DEPS  := $(wildcard tests/targets/*.h tests/targets/api/*.h include/memunreachable/*.h) Makefile
API_LINK  := -L$(B) -lmemunreachable -Wl,-rpath,$(abspath $(B))
$(B)/api/%-archived: tests/targets/api/%.c $(API_DEPS) $(B)/libmemunreachable.a
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(API_FLAGS) -o $@ $< $(B)/libmemunreachable.a
$(B)/api/%-archived: tests/targets/api/%.cc $(API_DEPS) $(B)/libmemunreachable.a
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=gnu++17 $(API_FLAGS) -o $@ $< $(B)/libmemunreachable.a
$(B)/api/%: tests/targets/api/%.c $(API_DEPS) $(B)/libmemunreachable.so
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE $(API_FLAGS) -o $@ $< $(API_LINK)
$(B)/api/%: tests/targets/api/%.cc $(API_DEPS) $(B)/libmemunreachable.so
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=gnu++17 $(API_FLAGS) -o $@ $< $(API_LINK)
$(B)/targets/%: tests/targets/%.cc $(wildcard tests/targets/*.h) Makefile
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=gnu++17 -O1 -g -pthread -o $@ $< -ldl

targets: $(TARGETS) $(if $(shell command -v $(MUSL_CC)),musl) \
         $(if $(COMPAT),$(shell $(CC) -m32 -E -xc -include stdio.h /dev/null >/dev/null 2>&1 && echo $(COMPAT)))
$(COMPAT):
	$(Q)$(MAKE) --no-print-directory ABI=32

check:
	tools/install-deps check
	$(MAKE) -j$$(nproc) check-all

# The parts one after the other, also under -j: later ones lean on what earlier ones prove. A
# fuzzer's ten seconds are of a clock: four share a processor. Beside the end-to-end tests runs
# what needs nothing but processors, and has them only when no test wants one: a test would wait
# for moments that do not come.
check-all:
	$(MAKE) all ANALYZED=$(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),,1)
	$(MAKE) targets
	$(MAKE) layers
	$(MAKE) check-unit UNIT='$(DIFFER)'
	$(MAKE) check-unit-san
	$(MAKE) -j$$((4 * $$(nproc))) fuzz FUZZ_SECONDS=10 FUZZ_SEED=1
	$(MAKE) check-e2e lint-idle
lint-idle:
	chrt --idle 0 $(MAKE) lint

check-long:
	tools/install-deps check
	$(MAKE) -j$$(nproc) all targets
	$(MAKE) -j$$(nproc) check-unit
	$(MAKE) -j$$(nproc) check-unit-san check-fuzz SAN_CC=gcc
	COMBINATIONS=all SCANS=30 KILLS=30 HOSTILE_SCANS=20 KILL_ROUNDS=10 TEST_SECONDS=6000 $(MAKE) check-e2e

# While one works: what finds most mistakes, and a minute of each room end to end.
QUICK := targets stacks suppressions backtraces malloc_debug records annotations
check-quick: all targets
	$(MAKE) layers
	$(MAKE) check-unit
	tests/e2e/run -n $(E2E_JOBS) --dist loadgroup $(QUICK:%=test_%.py) \
		-k "not test_targets or $$(. /etc/os-release && echo $$VERSION_CODENAME)-dynamic"

# Those of which a part is not as it is, or is omitted, with sanitizers.
DIFFER := $(patsubst tests/unit/%.c,%,$(shell grep -l '"sanitized.h"' $(UNIT:%=tests/unit/%.c)))

# Unit tests that compare times say "check: alone" in their source, and no other runs beside them.
ALONE := $(if $(UNIT),$(patsubst tests/unit/%.c,%,$(shell grep -l 'check: alone' $(UNIT:%=tests/unit/%.c))))
check-unit: $(UNIT:%=$(B)/unit/%)
	@test -n "$^" || { echo "no unit tests found" >&2; exit 1; }
	@$(MAKE) --no-print-directory -k -O $(patsubst %,unit-%,$(filter-out $(ALONE),$(UNIT)))
	@$(MAKE) --no-print-directory -k -j1 $(ALONE:%=unit-%)
check-unit-san: $(UNIT:%=$(SAN)/unit/%)
	@test -n "$^" || { echo "no unit tests found" >&2; exit 1; }
	@$(MAKE) --no-print-directory -k -O $(patsubst %,unit-san-%,$(filter-out $(ALONE),$(UNIT)))
	@$(MAKE) --no-print-directory -k -j1 $(ALONE:%=unit-san-%)

$(UNIT:%=unit-%): unit-%: $(B)/unit/%
	@echo "== $<"; $<

# Criterion does not see a leak that LeakSanitizer reports, so every report goes to a
# file, and a file is a failure. A test whose source says "lsan: off" runs without. No
# signal gets a handler: threads of programs that have one are asked for their stacks. Of
# strstr it does not check arguments: a library that Criterion needs reads all of the machine's
# certificates at its start, and each search would measure the rest of them.
$(UNIT:%=unit-san-%): unit-san-%: $(SAN)/unit/%
	@rm -f $(SAN)/log/$*.*; mkdir -p $(SAN)/log; echo "== $<"; failed=0; \
	leaks=1; ! grep -q 'lsan: off' tests/unit/$*.c || leaks=0; \
	options=abort_on_error=1:detect_leaks=$$leaks:log_path=$(SAN)/log/$*; \
	options=$$options:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:intercept_strstr=0; \
	ASAN_OPTIONS=$$options UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1 $< || failed=1; \
	for log in $(SAN)/log/$*.*; do \
		test ! -e $$log || { cat $$log; failed=1; }; \
	done; exit $$failed

$(FUZZ_SRC:tests/fuzz/%.c=$(SAN)/fuzz/%): $(SAN)/fuzz/%: $(SAN)/tests/fuzz/%.o \
		$(SAN)/tests/fuzz/seeds.o $(SAN)/tests/fuzz/written.o $(SAN)/tests/fuzz/arena.o \
		$(SAN)/support.a $(SAN)/parts.a
	@mkdir -p $(@D)
	$(Q)$(SAN_CC) $(CFLAGS) $(SANITIZE) $(TEST_LDFLAGS) -o $@ $^ $(LIBS)

# Seeds and random changes of them, the same each time, and what is kept of make fuzz; seconds
# for each reader.
check-fuzz: $(FUZZ_SRC:tests/fuzz/%.c=$(SAN)/fuzz/%)
	@test -n "$^" || { echo "no fuzzers found" >&2; exit 1; }
	@failed=; for f in $^; do echo "== $$f"; \
		ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1 \
			sh -c "timeout 60 $$f && find tests/fuzz/corpus -path '*/$${f##*/fuzz_}/*' | xargs -r timeout 60 $$f" || \
			failed="$$failed $$f"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# What workers share, under ThreadSanitizer, which Criterion does not run under: heaps decoded
# by up to five, whole scans by two, and a walk over a million blocks. Its runtime does not know
# all places where a kernel puts mappings at random.
TSAN := $(B)/tsan/tests/fuzz/heap/fuzz_glibc $(B)/tsan/tests/fuzz/heap/fuzz_scan $(B)/tsan/tests/bench/walk
$(B)/tsan/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) $(CFLAGS) -Wno-tsan -fsanitize=thread -MMD -MP -c -o $@ $<
$(B)/tsan/tests/%.o: FLAGS += -Itests -Itests/fuzz -Itests/support -Wno-null-dereference
$(B)/tsan/parts.a: $(PARTS:%=$(B)/tsan/%.o)
	$(archive)
$(B)/tsan/support.a: $(SUPPORT:%.c=$(B)/tsan/%.o)
	$(archive)
$(filter %/walk,$(TSAN)): %: %.o $(B)/tsan/parts.a
	$(Q)$(CC) $(CFLAGS) -fsanitize=thread $(LDFLAGS) -o $@ $^ $(LIBS)
$(filter-out %/walk,$(TSAN)): %: %.o $(B)/tsan/tests/fuzz/seeds.o $(B)/tsan/tests/fuzz/written.o \
		$(B)/tsan/support.a $(B)/tsan/parts.a
	$(Q)$(CC) $(CFLAGS) -fsanitize=thread $(LDFLAGS) -o $@ $^ $(LIBS)

tsan: $(TSAN)
	@for t in $(filter-out %/walk,$^); do echo "== $$t"; \
		setarch -R $$t && setarch -R $$t tests/fuzz/corpus/$${t##*/fuzz_}/* || exit 1; \
	done
	@echo "== $(filter %/walk,$^)"; setarch -R $(filter %/walk,$^) 1

# Of these, what a library of 32 bits can be tried by, once more with that.
NARROW := malloc_debug malloc_debug_deepbind malloc_debug_files
# What measures time, or changes the machine, has it for itself; the rest mostly waits.
check-e2e: all targets
	$(MAKE) e2e-beside
	$(MAKE) e2e-alone
e2e-beside:
	tests/e2e/run -n $(E2E_JOBS) --dist loadgroup -m 'not alone'
	$(if $(COMPAT),ABI=32 tests/e2e/run -n $(E2E_JOBS) --dist loadgroup $(NARROW:%=test_%.py))
e2e-alone:
	tests/e2e/run -m alone

check-bare:
	$(if $(BARE_ROOT),BARE_ROOT='$(BARE_ROOT)') tools/check-bare

# What installing, starting and scanning dozens of programs takes is not for every check.
check-programs:
	tools/install-deps programs
	$(MAKE) -j$$(nproc) all targets
	PROGRAMS='$(or $(PROGRAMS),all)' PROGRAM_SECONDS='$(or $(PROGRAM_SECONDS),5)' tests/e2e/run test_false_leaks.py test_rust_programs.py

# So is building some of them with debug information.
check-names: all $(B)/bench/types
	tools/install-deps names
	tests/names/build $(B)/names
	tests/names/check.py $(foreach name,$(NAMES),'$(name)')

layers: $(SRC:%.c=$(B)/%.o)
	tools/check-layers $(B)

# ---- another machine ----

# The emulator and the compiler are not of this project: RUN_ARM64 names a program that has them.
RUN_ARM64   ?= ../shared/tools/run-arm64.sh
ARM64_CACHE ?= $(HOME)/.cache/run-arm64
ARM64_PACKAGES := python3 libcriterion-dev libzstd-dev liblz4-dev liblzma-dev
# Left out: attach and its agent, and unwind tables, which are for x86 alone; what compiles programs;
# and single tests: two of how long something takes, one of more memory than the emulator has.
ARM64_NOT   := agent agent_registers agent_stack agent_threads functions i386 patch place \
               shim_walk unwind type_reader
ARM64_WITHOUT := lead/out_of_locks glibc_locate/data_full_of_what_looks_like_bins_takes_no_time \
               worker/gets_no_more_than_its_memory
ARM64_UNIT  ?= $(filter-out $(ARM64_NOT:%=test_%),$(UNIT))
ARM64_PROGRAMS := tagged crowd leaks leaks-static mappings heap_shapes ended large_tls
ARM64_OTHERS := blocked busy harm demo_leaky debugged
ARM64_SCANS ?= 20
ARM64_KILLS ?= 100
ARM64_RUN   = ARM64_CACHE='$(ARM64_CACHE)' ARM64_PACKAGES='$(ARM64_PACKAGES)' ARM64_TIMEOUT=3600 $(RUN_ARM64)
ARM64_MAKE  = LD_LIBRARY_PATH='$(ARM64_CACHE)/tools/usr/lib/x86_64-linux-gnu' PKG_CONFIG_SYSROOT_DIR='$(ARM64_CACHE)/root' \
              PKG_CONFIG_LIBDIR='$(ARM64_CACHE)/root/usr/lib/aarch64-linux-gnu/pkgconfig' $(MAKE) B=$(B)/arm64 \
              $(foreach tool,CC-gcc CXX-g++,$(subst -,='$(ARM64_CACHE)/bin/aarch64-linux-gnu-,$(tool))') \
              $(foreach tool,AR-ar NM-nm OBJCOPY-objcopy,$(subst -,='$(ARM64_CACHE)/tools/usr/bin/aarch64-linux-gnu-,$(tool))')

arm64-tools:
	@$(ARM64_RUN) tests/arm64 true
arm64: arm64-tools
	$(ARM64_MAKE) all
empty :=
check-arm64: arm64
	$(ARM64_MAKE) $(ARM64_UNIT:%=$(B)/arm64/unit/%) $(ARM64_PROGRAMS:%=$(B)/arm64/targets/%) \
		$(ARM64_OTHERS:%=$(B)/arm64/targets/%) $(API:$(B)/%=$(B)/arm64/%) $(API:$(B)/%=$(B)/arm64/%-archived)
	$(ARM64_RUN) . sh -c 'for t in $(ARM64_UNIT); do echo "== $$t"; \
			$(B)/arm64/unit/$$t -j1 --filter "!($(subst $(empty) $(empty),|,$(ARM64_WITHOUT)))" || failed="$$failed $$t"; done; \
		tests/arm64/scan.py $(B)/arm64 $(ARM64_PROGRAMS) || failed="$$failed scans"; \
		tests/arm64/libraries.py $(B)/arm64 || failed="$$failed libraries"; \
		$(B)/arm64/targets/harm $(B)/arm64 $(ARM64_SCANS) $(ARM64_KILLS) || failed="$$failed harm"; \
		test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }'

# ---- other kernels, and an older userland ----

KERNELS       ?= 5.10 6.1 6.12
KERNEL_ROUNDS ?= 50
check-kernels:
	tools/install-deps kernels
	$(MAKE) -j$$(nproc) all targets
	$(MAKE) check-headers
	KERNEL_ROUNDS=$(KERNEL_ROUNDS) KERNEL_CHECKS='$(KERNEL_CHECKS)' tests/kernels/check.py $(KERNELS)

# The C library's and the kernel's; those of other libraries are this machine's, which a folder of
# links holds apart from the rest.
OLD_ROOT     := $(B)/glibc/bullseye/root
OTHER_HEADERS := json-c libproc2 libunwind* dwarf.h elfutils libelf.h gelf.h nlist.h libiberty zstd*.h lz4*.h lzma lzma.h
OLD_C        := $(filter-out src/target/inject/agent/blob.c,$(SRC)) $(NOT_NAMED)
check-headers:
	tools/fetch-glibc bullseye
	@rm -rf $(B)/headers && mkdir -p $(B)/headers && \
		for dir in /usr/include /usr/include/$$($(CC) -print-multiarch); do \
			for name in $(addprefix $$dir/,$(OTHER_HEADERS)); do \
				test ! -e $$name || ln -sf $$name $(B)/headers/; \
			done; \
		done
	@printf '%s\n' $(OLD_C) | xargs -P $$(nproc) -n 8 $(CC) $(FLAGS) -Werror -Wno-deprecated-declarations -fsyntax-only \
		--sysroot=$(abspath $(OLD_ROOT)) -idirafter $(B)/headers
	@echo "$(words $(OLD_C)) sources compile by the headers of Debian 11"

# ---- fuzzing ----

# What stands before the archives takes their base/arena.c's place.
$(FUZZ_SRC:tests/fuzz/%.c=$(B)/fuzz/%): $(B)/fuzz/%: $(SAN)/tests/fuzz/%.o \
		$(SAN)/tests/fuzz/written.o $(SAN)/tests/fuzz/arena.o $(SAN)/support.a $(SAN)/parts.a
	@mkdir -p $(@D)
	$(Q)$(SAN_CC) $(SANITIZE) -fsanitize=fuzzer $(TEST_LDFLAGS) -o $@ $^ $(LIBS)

# Each begins with its seeds and what was kept of earlier runs: tests/fuzz/corpus/NAME, to which
# an input is added that broke a reader. Options of a fuzzer stand in its comment. The limit of
# memory is arena.c's: libFuzzer's own takes a thread, by which giving memory back costs ten
# times as much. What libFuzzer prints is in build/fuzz/log.
FUZZERS      := $(patsubst tests/fuzz/%.c,%,$(FUZZ_SRC))
FUZZ         ?= $(patsubst fuzz_%,%,$(notdir $(FUZZERS)))
FUZZ_SECONDS ?= 60
# 0: other inputs each time; make check has the same.
FUZZ_SEED    ?= 0
fuzz: $(FUZZ:%=fuzz-%)

# $(1): its name; $(2): with its room
define fuzzer
.PHONY: fuzz-$(1)
fuzz-$(1): corpus := $(B)/fuzz/corpus/$(1)
fuzz-$(1): $(B)/fuzz/$(2)
	@mkdir -p $$(corpus) $(B)/fuzz/log && $(B)/fuzz/$(2) --write $$(corpus).seeds
	@ASAN_OPTIONS=malloc_context_size=4:quarantine_size_mb=4 UBSAN_OPTIONS=print_stacktrace=1 \
		$(B)/fuzz/$(2) -max_total_time=$(FUZZ_SECONDS) -seed=$(FUZZ_SEED) -timeout=10 -rss_limit_mb=0 \
		-artifact_prefix=$$(corpus). -print_final_stats=1 -print_funcs=0 \
		$$$$(sed -n 's/^.*fuzz: *\(-[^*]*\)$$$$/\1/p' tests/fuzz/$(2).c) \
		$$(corpus) $$(wildcard tests/fuzz/corpus/$(1)) $$(corpus).seeds \
		>$(B)/fuzz/log/$(1) 2>&1 || { cat $(B)/fuzz/log/$(1) >&2; exit 1; }
	@sed -n 's/^#\([0-9]*\).*DONE *\(.*\) exec.*/== $(1): \1 runs, \2/p' $(B)/fuzz/log/$(1)
endef
$(foreach path,$(FUZZERS),$(eval $(call fuzzer,$(patsubst fuzz_%,%,$(notdir $(path))),$(path))))

# Choose anew what is kept: the least that reaches all that was reached, but for what the seeds
# reach and for inputs over a kilobyte.
fuzz-keep: $(FUZZ:%=fuzz-%)
	@for name in $(FUZZ); do \
		corpus=$(B)/fuzz/corpus/$$name; kept=tests/fuzz/corpus/$$name; \
		rm -rf $$corpus.kept; cp -r $$corpus.seeds $$corpus.kept; mkdir -p $$kept; \
		$(B)/fuzz/*/fuzz_$$name -set_cover_merge=1 -rss_limit_mb=0 $$corpus.kept $$corpus $$kept \
			>$(B)/fuzz/log/$$name.keep 2>&1 || { cat $(B)/fuzz/log/$$name.keep >&2; exit 1; }; \
		(cd $$corpus.seeds && rm -f $$(ls | sed "s|^|../$$name.kept/|")); \
		find $$corpus.kept -type f -size +1024c -delete; rm -r $$kept; mv $$corpus.kept $$kept; \
		echo "== $$name: $$(ls $$kept | wc -l) inputs kept"; \
	done

# ---- measuring ----

# BENCH, given in the environment or to make, chooses: "full", or the names of parts.
bench:
	tools/install-deps bench
	$(MAKE) all bench-programs
	BENCH='$(BENCH)' tests/bench/bench

# The heaps that are measured, and a peer; nothing of ours in them.
HEAPS := $(B)/bench/heap $(B)/bench/heap-lsan $(B)/bench/heap-self $(B)/bench/read_mem \
         $(B)/bench/pairs $(B)/bench/pairs-lsan $(B)/bench/stop
# The heaps that are decoded.
GROWN := $(B)/bench/grown $(B)/bench/grown-musl
HEAP_FLAGS := -std=gnu11 -D_GNU_SOURCE -Iinclude -O2 -g -pthread
$(B)/bench/heap $(B)/bench/read_mem $(B)/bench/pairs $(B)/bench/stop $(B)/bench/grown: $(B)/bench/%: tests/bench/%.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(HEAP_FLAGS) -o $@ $<
$(B)/bench/heap-lsan $(B)/bench/pairs-lsan: $(B)/bench/%-lsan: tests/bench/%.c Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(HEAP_FLAGS) -fsanitize=leak -o $@ $<
$(B)/bench/heap-self: tests/bench/heap.c $(B)/libmemunreachable.a Makefile
	@mkdir -p $(@D)
	$(Q)$(CC) $(HEAP_FLAGS) -Wl,-u,GetUnreachableMemory -o $@ $< $(B)/libmemunreachable.a

$(B)/bench/grown-musl: tests/bench/grown.c Makefile
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) -std=gnu11 -O2 -g -static -o $@ $<
$(B)/bench/decode: | $(GROWN)

bench-programs: $(HEAPS)

# True leaks of packages beside LeakSanitizer and Valgrind; LEAKS names some of the packages.
bench-leaks:
	tools/install-deps leaks
	$(MAKE) all
	tests/bench/package_leaks.py $(LEAKS)

# Single parts of the engine against what bounds them.
bench-parts: $(filter-out $(HEAPS) $(GROWN),$(BENCHES))
	@failed=; for b in $^; do echo "== $$b"; $$b || failed="$$failed $$b"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# ---- the demonstration ----

demo:
	tools/install-deps build
	$(MAKE) -j$$(nproc) demo-run

# The program runs until its input ends. memscan answers 1 when it finds leaks, which is
# the answer wanted here. $(1): its environment; $(2): options of the scan
define scan_demo
	@rm -f $(B)/demo.in; mkfifo $(B)/demo.in; exec 3<>$(B)/demo.in; \
	echo "\$$ $(strip $(1) $(B)/targets/demo_leaky) &"; \
	env $(1) $(B)/targets/demo_leaky <$(B)/demo.in >$(B)/demo.out & pid=$$!; trap 'kill $$pid' EXIT; \
	tries=50; until grep -q READY $(B)/demo.out; do \
		tries=$$((tries - 1)); test $$tries -gt 0 || exit 1; sleep 0.1; \
	done; \
	echo "\$$ $(strip $(B)/memscan --pid $$pid $(2))"; status=0; \
	$(B)/memscan --pid $$pid $(2) || status=$$?; \
	test $$status -eq 1 || { echo "demo: memscan ended with $$status, not 1" >&2; exit 1; }
endef

# Once as it is, and once with who allocated what.
demo-run: all $(B)/targets/demo_leaky
	$(call scan_demo,,--contents --limit 5)
	$(call scan_demo,LD_PRELOAD=$(B)/libmalloc_debug.so LIBC_DEBUG_MALLOC_OPTIONS=backtrace)

# ---- checks of the text itself ----

ALL_C := $(SRC) $(AGENT_C) $(SUPPORT) $(sort $(wildcard tests/unit/*.c tests/bench/*.c tests/freelog/*.c \
         tests/fuzz/*.c tests/fuzz/*/*.c))
ALL_H := $(sort $(wildcard src/*/*.h src/*/*/*.h src/*/*/*/*.h include/*/*.h tests/support/*.h \
         tests/golden/*.h tests/freelog/*.h tests/fuzz/*.h tests/fuzz/*/*.h))

# What is one long process goes first.
lint: lint-cppcheck lint-format lint-tidy lint-analyzer lint-python

lint-format:
	$(Q)clang-format --dry-run --Werror $(ALL_C) $(ALL_H) $(TARGET_SRC) $(CC_TARGET_SRC) $(API_SRC)

# A file of src is looked at again once its object was made again, by all that it includes.
lint-tidy: $(SRC:%.c=$(LINT)/%.tidy) $(AGENT_C:%.c=$(LINT)/%.tidy)
lint-analyzer: $(SRC:%.c=$(LINT)/%.analyzed) $(AGENT_C:%.c=$(LINT)/%.analyzed)

# One file a call: version 14 takes va_lists of one for those of the next. Nearly all of its
# time is the static analyzer's, on the few functions with the most paths: by itself it visits
# up to 225000 nodes of each (TIDY_NODES=225000: eleven minutes of processor time).
TIDY_NODES ?= 10000
TIDY_DEPTH := -Xclang -analyzer-config -Xclang max-nodes=$(TIDY_NODES)
$(LINT)/%.tidy: %.c $(B)/%.o .clang-tidy
	@mkdir -p $(@D)
	$(Q)clang-tidy --quiet $< -- $(FLAGS) $(TIDY_DEPTH) >$@ 2>&1 || { cat $@ >&2; exit 1; }

lint-cppcheck:
	$(Q)cppcheck --quiet --std=c11 -D_GNU_SOURCE -Isrc -Iinclude --inline-suppr --error-exitcode=1 \
		--enable=warning,performance,portability $(SRC)

# Where malloc itself is, version 12 takes a call of it for two: that of C, and that of the file.
OWN_MALLOC := src/inproc/annotate/front src/inproc/annotate/malloc src/shim/entry
$(OWN_MALLOC:%=$(LINT)/%.analyzed) $(OWN_MALLOC:%=$(B)/%.o): ANALYZER += -Wno-analyzer-malloc-leak -Wno-analyzer-double-free
$(LINT)/%.analyzed: %.c $(B)/%.o
	@mkdir -p $(@D)
	$(Q)gcc $(FLAGS) $(CFLAGS) -g0 $(ANALYZER) -c -o /dev/null $< && touch $@

# Names that are not there, or not used.
lint-python:
	$(Q)pyflakes3 $(wildcard tests/*/*.py tests/*/*/*.py) \
		$$(grep -Ils -d skip --exclude='*.py' '^#!/usr/bin/python3' tools/* tests/*/*)

# ---- install, clean ----

install: $(if $(filter 32,$(ABI)),install-shim,install-all)
# All there is of 32 bits: make ABI=32 install libdir=...
install-shim: $(B)/libmalloc_debug.so
	$(INSTALL) -d $(DESTDIR)$(libdir)
	$(INSTALL) -m 755 $(B)/$(SHIM_SONAME) $(DESTDIR)$(libdir)/$(SHIM_SONAME)
	ln -sf $(SHIM_SONAME) $(DESTDIR)$(libdir)/libmalloc_debug.so
install-all: all install-shim
	$(INSTALL) -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/pkgconfig \
		$(DESTDIR)$(mandir)/man1 $(DESTDIR)$(mandir)/man3 $(DESTDIR)$(mandir)/man7 \
		$(DESTDIR)$(includedir)/memunreachable $(DESTDIR)$(includedir)/malloc_debug
	$(INSTALL) -m 755 $(B)/$(SONAME) $(DESTDIR)$(libdir)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/libmemunreachable.so
	$(INSTALL) -m 644 $(B)/libmemunreachable.a $(DESTDIR)$(libdir)/libmemunreachable.a
	$(INSTALL) -m 644 include/malloc_debug/*.h $(DESTDIR)$(includedir)/malloc_debug/
	$(INSTALL) -m 644 include/memunreachable/*.h $(DESTDIR)$(includedir)/memunreachable/
	sed -e 's|@prefix@|$(PREFIX)|; s|@libdir@|$(libdir)|; s|@includedir@|$(includedir)|' \
		-e "s|@version@|$$(sed -n 's/.*MS_VERSION "\(.*\)"/\1/p' src/report/version.h)|" \
		src/inproc/libmemunreachable.pc.in >$(DESTDIR)$(libdir)/pkgconfig/libmemunreachable.pc
	$(INSTALL) -m 755 $(B)/memscan $(DESTDIR)$(bindir)/memscan
	$(INSTALL) -m 644 man/memscan.1 $(DESTDIR)$(mandir)/man1/memscan.1
	$(INSTALL) -m 644 man/libmemunreachable.3 $(DESTDIR)$(mandir)/man3/libmemunreachable.3
	$(INSTALL) -m 644 man/malloc_debug.7 $(DESTDIR)$(mandir)/man7/malloc_debug.7

clean:
	rm -rf $(B)

OBJECTS := $(SRC:.c=) $(SUPPORT:.c=) tests/fuzz/arena tests/fuzz/seeds $(FUZZ_SRC:.c=) \
           $(UNIT:%=tests/unit/%) $(BENCHES:$(B)/%=tests/%)
WATCHED := $(PARTS) $(SUPPORT:.c=) $(FUZZ_SRC:.c=)
-include $(AGENT_OBJ:.o=.d) $(OBJECTS:%=$(B)/%.d) $(OBJECTS:%=$(SAN)/%.d) $(WATCHED:%=$(B)/tsan/%.d)
