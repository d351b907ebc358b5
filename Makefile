# cotangent. `make help` lists the targets.

CC     ?= cc
AR     ?= ar
BUILD  ?= build
PREFIX ?= /usr/local
comma  := ,
LIBDIR ?= $(PREFIX)/lib
# Without -g: line numbers are nine tenths of a library, and of a program that is linked with it. With them: OPT="-O3 -g".
OPT    ?= -O3
CFLAGS ?=
SANITIZE ?=
# Of kernels: instrumented in full, one takes minutes to compile.
KERNEL_SANITIZE ?= $(SANITIZE)
# What the demo trains on; what `make bench` runs.
TEXT   ?= $(wildcard include/cotangent/*.h src/*/*.c src/*/*.h ops/*.c ops/*/*.c ops/*/*.h nn/*.c nn/*.h nn/*/*.c examples/*.c)

# The system that is compiled for, as CC says it: what differs is in files named after one of these.
MACHINE_TRIPLE := $(shell $(CC) -dumpmachine)
OS_NAME  = $(if $(findstring mingw,$(MACHINE_TRIPLE))$(findstring windows,$(MACHINE_TRIPLE)),windows,$(if $(findstring wasi,$(MACHINE_TRIPLE)),wasi,posix))
OF_OS    = $(foreach n,$(OS_NAME) $(if $(filter posix wasi,$(OS_NAME)),unix),src/os/os_$(n)% examples/system_$(n).c)
OTHER_OS = $(filter-out $(OF_OS),$(wildcard src/os/os_*.c examples/system_*.c))
IS_MACOS = $(findstring macos,$(MACHINE_TRIPLE))$(findstring darwin,$(MACHINE_TRIPLE))
# Test programs that a system cannot have: without --wrap of a linker nothing fails on purpose, and
# those of files and threads wrap POSIX. What is printed to stderr is seen by dup.
POSIX_FAULTS = io_faults io_races shard_faults profile_faults token_faults disk_model threads_refused
WRAPPED  = $(POSIX_FAULTS) faults op_faults dist_faults graph gradcheck_html
NOT_HERE = $(WASI_NOT_HERE) $(if $(filter windows wasi,$(OS_NAME)),unseen) $(if $(filter windows,$(OS_NAME)),$(if $(IS_GCC),$(POSIX_FAULTS),$(WRAPPED)),$(if $(IS_MACOS),$(WRAPPED)))
# GCC keeps vectors of 32 and 64 bytes on Windows' stack, which is aligned to 16 (GCC bug 54412), so
# its assembler makes moves of them unaligned. CTI_BUILD: the public functions are exported.
ifeq ($(OS_NAME),windows)
IS_GCC := $(findstring Free Software,$(shell $(CC) --version))
EXE = .exe
SYSTEM_FLAGS = -DCTI_BUILD -D__USE_MINGW_ANSI_STDIO=1 -Wno-format $(if $(IS_GCC),-Wa$(comma)-muse-unaligned-vector-move)
SYSTEM_LIBS  = -static-libgcc -Wl,--stack,1048576
else ifneq ($(OS_NAME),wasi)
SYSTEM_FLAGS = -D_POSIX_C_SOURCE=200809L $(if $(filter 4,$(word 2,$(FACTS))),-D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64) -fPIC -pthread
SYSTEM_LIBS  = -pthread
endif

VERSION := $(shell awk '/define CT_VERSION_(MAJOR|MINOR|PATCH)/ {v = v (v == "" ? "" : ".") $$3} END {print v}' include/cotangent/types.h)
MAJOR   := $(firstword $(subst ., ,$(VERSION)))

WARN = -Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Werror=vla -Werror=switch -Werror=incompatible-pointer-types
# What the compiler takes for granted. Where expressions of floats are doubles under -std=c11 (s390x,
# __FLT_EVAL_METHOD__ 1), GCC refuses a vector of floats times a float; with -fexcess-precision=fast they
# are floats, as elsewhere. The x87 keeps 64 bits of a double's 53 until it stores it: SSE2 instead.
FACTS := $(shell echo __FLT_EVAL_METHOD__ __SIZEOF_POINTER__ __i386__ | $(CC) -std=c11 -E -P -x c - 2>/dev/null)
IS_I386 := $(filter 1,$(word 3,$(FACTS)))
EXCESS = $(if $(IS_I386),-msse2 -mfpmath=sse,$(if $(filter 1 2,$(firstword $(FACTS))),-fexcess-precision=fast))
SANITIZED = $(if $(findstring -fsanitize,$(SANITIZE))$(findstring --coverage,$(SANITIZE)),-DCTI_ASSERTS)
STD ?= c11
BASE = -std=$(STD) $(EXCESS) $(SYSTEM_FLAGS) -Iinclude -fvisibility=hidden -ffp-contract=off -fno-math-errno -fno-trapping-math
ALL_CFLAGS = $(BASE) $(OPT) $(WARN) $(SANITIZE) $(SANITIZED) $(CFLAGS)
KERNEL_CFLAGS = $(BASE) $(OPT) $(WARN) $(KERNEL_SANITIZE) $(CFLAGS)
LIBS = -lm $(SYSTEM_LIBS)
$(if $(filter -ffast-math -Ofast -ffinite-math-only -funsafe-math-optimizations,$(CC) $(OPT) $(CFLAGS)),$(error cotangent cannot be compiled with -ffast-math or -Ofast: masks are infinities$(comma) and sums have an order))

# make V=1 shows whole commands.
V ?= 0
if_quiet = $(if $(filter 0,$(V)),@echo "  $(1) $@";)

# Kernels are one source, compiled for each instruction set of this machine in the table and each of f32 and f64; and what heirs add.
ARCH := $(if $(IS_I386),i386,$(patsubst arm64,aarch64,$(firstword $(subst -, ,$(MACHINE_TRIPLE)))))
SETS := src/kernels/sets.txt
sets_of = $(shell awk '($$2 == "any" || $$2 == "$(ARCH)") && $$4 == "$(1)" {print $$1}' $(SETS))
ISAS ?= $(call sets_of,real)
define kernel_flags
$(1)_FLAGS := $(shell awk '$$1 == "$(1)" {printf "-DCTI_VECTOR_BYTES=%s", $$3; for (i = 5; i <= NF; i++) printf " %s", $$i}' $(SETS))
endef
# AMX is not asked for on Windows, where GCC's tile loads have a long for a stride: 32 bits.
HEIRS_OF_ARCH := $(filter-out $(if $(filter windows,$(OS_NAME)),amx),$(call sets_of,heir))
$(foreach i,$(ISAS) $(HEIRS_OF_ARCH),$(eval $(call kernel_flags,$(i))))
HEIRS := $(if $(filter avx512,$(ISAS)),$(foreach i,$(HEIRS_OF_ARCH),$(shell $(CC) $($(i)_FLAGS) -E -x c /dev/null >/dev/null 2>&1 && echo $(i))))
HAVE = $(ISAS:%=-DCTI_HAVE_%) $(HEIRS:%=-DCTI_HAVE_%)
KERNELS = $(BUILD)/obj/src/kernels
KOBJ = $(foreach i,$(ISAS),$(foreach t,f32 f64,$(KERNELS)/real_$(i)_$(t).o $(KERNELS)/random_$(i)_$(t).o)) \
       $(HEIRS:%=$(KERNELS)/%.o) $(KERNELS)/bf16_scalar.o $(KERNELS)/i64.o $(KERNELS)/bool.o $(KERNELS)/bfloat16.o $(KERNELS)/isa.o

OBJ      = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out src/kernels/% $(OTHER_OS),$(wildcard src/*/*.c)) $(wildcard ops/*.c ops/*/*.c nn/*.c nn/*/*.c)) $(KOBJ)
# The library from its amalgamation, to test that: make BUILD=build/amalgamated AMALGAMATED=1 test. Three files are compiled by
# themselves, as tests make their functions fail by the linker or have one of their own.
ifdef AMALGAMATED
OBJ = $(AMALGAMATION)/cotangent.o $(addprefix $(BUILD)/obj/src/,core/memory.o core/handle.o kernels/isa.o)
endif
EXAMPLES = $(patsubst examples/%.c,$(BUILD)/%$(EXE),$(filter-out examples/common.c examples/plot.c $(CHAR_LM:%=examples/%.c) examples/world_one.c examples/seq2seq_model.c examples/system_%.c,$(wildcard examples/*.c)))
# What char_lm is linked with, besides common.o and either world_one.o or world_mpi.o.
CHAR_LM  = gpt gpt_write plot run run_log
COURSE   = $(patsubst %.c,$(BUILD)/obj/%.o,examples/course/course.c $(wildcard examples/course/[0-9]*/test.c))
TESTS    = $(patsubst tests/%.c,$(BUILD)/tests/%$(EXE),$(filter-out $(NOT_HERE:%=tests/test_%.c),$(wildcard tests/test_*.c)))
STATIC   = $(BUILD)/libcotangent.a
# What the Check programs link: the kernels' objects, and the others compiled once more with the invariants of src/core/assert.h checked.
# With -O1, which has the same bits outside of src/kernels and takes half the time. Sanitized and measured libraries check them themselves.
ASSERTED = $(if $(SANITIZED)$(AMALGAMATED),$(STATIC),$(BUILD)/asserts/libcotangent.a)
ASSERTED_OBJ = $(patsubst $(BUILD)/obj/%,$(BUILD)/obj/asserts/%,$(filter-out $(KOBJ),$(OBJ)))
at_O1 = $(patsubst -O3,-O1,$(patsubst -O2,-O1,$(1)))

# The shared library under its full name, the name that programs ask for, and the name that they link.
ifeq ($(OS_NAME),windows)
SHARED = $(BUILD)/libcotangent-$(MAJOR).dll
SONAME = libcotangent-$(MAJOR).dll
LINKED = libcotangent.dll.a
SHARED_FLAGS = -Wl,--out-implib,$(BUILD)/$(LINKED)
else ifneq (,$(IS_MACOS))
SHARED = $(BUILD)/libcotangent.$(VERSION).dylib
SONAME = libcotangent.$(MAJOR).dylib
LINKED = libcotangent.dylib
SHARED_FLAGS = -Wl,-install_name,@rpath/$(SONAME) -Wl,-compatibility_version,$(MAJOR).0.0 -Wl,-current_version,$(VERSION)
else
SHARED = $(BUILD)/libcotangent.so.$(VERSION)
SONAME = libcotangent.so.$(MAJOR)
LINKED = libcotangent.so
SHARED_FLAGS = -Wl,-soname,$(SONAME) -Wl,--no-undefined
endif
.DEFAULT_GOAL := all
include packaging/systems.mk packaging/wasm.mk

all: $(STATIC) $(SHARED) $(EXAMPLES) ## the library, static and shared, and the examples, in build/

help: ## this list
	@awk -F ':.*## ' '/^[a-z_.-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST)) $(wildcard packaging/*.mk) mpi/mpi.mk
	@echo "Variables: CC, OPT, CFLAGS, BUILD (default build), PREFIX (/usr/local), DESTDIR, STRIP; SUITES=\"nn io\" for"
	@echo "test, asan, ubsan, tsan, coverage, valgrind and cross: only these test programs."

# ---- the library ----

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# Its text says how far this build is optimised: the last -O counts.
$(BUILD)/obj/src/core/kernel_bits.o $(BUILD)/obj/asserts/src/core/kernel_bits.o: ALL_CFLAGS += $(patsubst %,'-DCTI_OPTIMISED="%"',$(lastword $(filter -O%,$(OPT) $(CFLAGS))))

AMALGAMATION = $(BUILD)/amalgamation
amalgamation: $(AMALGAMATION)/cotangent.c ## the library as two files, in build/amalgamation/
$(AMALGAMATION)/cotangent.c: packaging/amalgamate src/kernels/sets.txt $(wildcard include/cotangent/*.h src/*/*.[ch] ops/*.[ch] ops/*/*.[ch] nn/*.[ch] nn/*/*.[ch])
	CC='$(CC)' packaging/amalgamate $(@D)
$(AMALGAMATION)/cotangent.o: $(AMALGAMATION)/cotangent.c $(BUILD)/flags
	$(call if_quiet,CC)$(CC) -O3 -fPIC -fvisibility=hidden -Wall -Wextra -Werror -DCTI_WITHOUT_memory -DCTI_WITHOUT_handle -DCTI_WITHOUT_isa -c $< -o $@
packaging-check: all $(BUILD)/obj/tests/cases.o ## the amalgamation, find_package and FetchContent, from projects outside of this tree; needs cmake
	BUILD=$(abspath $(BUILD)) CC='$(CC)' packaging/check

$(KERNELS)/isa.o: src/kernels/isa.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) $(HAVE) -MMD -MP -c $< -o $@

$(KERNELS)/bf16_scalar.o: src/kernels/bf16_scalar.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(KERNEL_CFLAGS) $(scalar_FLAGS) -MMD -MP -c $< -o $@

define heir_kernels
$(KERNELS)/$(1).o: src/kernels/$(1).c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call if_quiet,CC)$$(CC) $$(KERNEL_CFLAGS) $$($(1)_FLAGS) -MMD -MP -c $$< -o $$@
endef
$(foreach i,$(HEIRS),$(eval $(call heir_kernels,$(i))))

# random.c never makes one instruction of a b + c: its results are the same bits on every ISA.
f64_FLAGS = -DCTI_F64_KERNELS
define real_kernels
$(KERNELS)/real_$(1)_$(2).o: src/kernels/real.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call if_quiet,CC)$$(CC) $$(KERNEL_CFLAGS) $$($(1)_FLAGS) $$($(2)_FLAGS) -DCTI_TABLE=cti_kernels_$(1)_$(2) -DCTI_RANDOM=cti_random_$(1)_$(2) -MMD -MP -c $$< -o $$@
$(KERNELS)/random_$(1)_$(2).o: src/kernels/random.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call if_quiet,CC)$$(CC) $$(KERNEL_CFLAGS) $$($(1)_FLAGS) $$($(2)_FLAGS) -ffp-contract=off -DCTI_RANDOM=cti_random_$(1)_$(2) -MMD -MP -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(foreach t,f32 f64,$(eval $(call real_kernels,$(i),$(t)))))

$(STATIC): $(OBJ)
	@rm -f $@
	$(call if_quiet,AR)$(AR) rcs $@ $(OBJ)

$(BUILD)/obj/asserts/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(call at_O1,$(ALL_CFLAGS)) -DCTI_ASSERTS -MMD -MP -c $< -o $@

$(BUILD)/asserts/libcotangent.a: $(ASSERTED_OBJ) $(KOBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(call if_quiet,AR)$(AR) rcs $@ $(ASSERTED_OBJ) $(KOBJ)

$(SHARED): $(OBJ)
	$(call if_quiet,LD)$(CC) -shared $(SHARED_FLAGS) $(SANITIZE) $(OBJ) -o $@ $(LIBS)
	@[ $(@F) = $(SONAME) ] || { ln -sf $(@F) $(BUILD)/$(SONAME) && ln -sf $(SONAME) $(BUILD)/$(LINKED); }

# A change of compiler or flags rebuilds.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_CFLAGS) $(KERNEL_SANITIZE) $(ISAS) $(HEIRS)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS) $(KERNEL_SANITIZE) $(ISAS) $(HEIRS)' > $@

# ---- programs ----

SYSTEM_OBJ = $(BUILD)/obj/examples/system_$(OS_NAME).o

$(foreach e,attention_map lora tokens,$(BUILD)/$(e)$(EXE)): $(BUILD)/obj/examples/gpt.o
$(BUILD)/seq2seq$(EXE): $(BUILD)/obj/examples/seq2seq_model.o $(BUILD)/obj/examples/plot.o
$(BUILD)/char_lm$(EXE): $(CHAR_LM:%=$(BUILD)/obj/examples/%.o) $(BUILD)/obj/examples/world_one.o
$(BUILD)/%$(EXE): $(BUILD)/obj/examples/%.o $(BUILD)/obj/examples/common.o $(SYSTEM_OBJ) $(STATIC)
	$(call if_quiet,LD)$(CC) $(SANITIZE) $(filter %.o,$^) $(STATIC) -o $@ $(LIBS)

demo: $(BUILD)/seq2seq$(EXE) $(BUILD)/char_lm$(EXE) ## train two transformers, about a minute: digits to their reverse, and this project's own source code
	@mkdir -p $(BUILD)/demo
	@echo "== seq2seq: an encoder-decoder learns to write digits in reverse"
	@$(RUN) $(BUILD)/seq2seq$(EXE) --out $(BUILD)/demo
	@echo; echo "== char_lm: a GPT learns the source code of this project"
	@$(RUN) $(BUILD)/char_lm$(EXE) --steps 1500 --lr 0.004 --warmup 50 --eval-every 75 --out $(BUILD)/demo $(TEXT)
	@echo; echo "Open these in a browser:"; ls $(BUILD)/demo/*.svg

# ---- the course ----

EX ?= all
course: $(STATIC) $(COURSE) ## what grading needs, built
grade: course ## grade exercises of examples/course/: EX=05, all without it; FILE=a submission elsewhere, JSON=results.json, SEED=7; ALL=DIR CSV=marks.csv
	@command -v python3 >/dev/null || { echo "make grade needs python3"; exit 2; }
	@examples/course/grade --build $(BUILD) $(if $(JSON),--json '$(JSON)') $(if $(SEED),--seed '$(SEED)') $(if $(ALL),--all '$(ALL)') $(if $(CSV),--csv '$(CSV)') $(EX) $(if $(FILE),'$(FILE)') || [ $$? -eq 1 ]
handout: course ## the course for students, without solutions, in build/cotangent-course.tar.gz
	@examples/course/kit handout --build $(BUILD)
autograder: course ## an exercise for Gradescope, EX=05, in build/autograder-05_....zip
	@examples/course/kit autograder $(EX) --build $(BUILD)
# What both need to build the library: each makefile that was read, the folders of headers, and those of the sources of OBJ.
kit-files:
	@printf 'makefile %s\n' $(filter-out $(BUILD)/%,$(MAKEFILE_LIST))
	@printf 'headers %s\n' $(patsubst -I%,%,$(filter -I%,$(BASE)))
	@printf 'sources %s\n' $(sort $(foreach o,$(OBJ:$(BUILD)/obj/%=%),$(firstword $(subst /, ,$(o)))))

# ---- tests ----

# Where there is no Check, OWN_CHECK=1 takes the part of it in tests/portable.
OWN_CHECK ?= $(if $(filter windows,$(OS_NAME)),1)
CHECK_CFLAGS = $(if $(OWN_CHECK),-Itests/portable,$(shell pkg-config --cflags check))
CHECK_LIBS   = $(if $(OWN_CHECK),,$(shell pkg-config --libs check))
# What POSIX has and the tests use, for Windows.
ifeq ($(OS_NAME),windows)
CHECK_CFLAGS += -Itests/portable/windows -include tests/portable/windows.h
CHECK_LIBS   += -static -lpthread
else ifneq (,$(IS_MACOS))
CHECK_CFLAGS += -D_DARWIN_C_SOURCE
else ifeq ($(OS_NAME),wasi)
CHECK_CFLAGS += $(WASI_CHECK)
CHECK_LIBS   += -mexception-handling
endif

# Tests are compiled with -O1, which takes half the time of -O2 and -O3, but for those that contain kernels.
TEST_CFLAGS = $(if $(filter $(COMPUTING:%=tests/test_%.c),$<),$(ALL_CFLAGS),$(call at_O1,$(ALL_CFLAGS)))
COMPUTING = amx amx_avx512 gemm stored

# Of each file by name: make 3.81 would take the first rule that fits, $(BUILD)/obj/%.o.
TEST_OBJ = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/*.c))
$(TEST_OBJ): $(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@[ -n "$(OWN_CHECK)" ] || pkg-config --exists check || { echo "The tests need Check: apt-get install check pkg-config"; exit 1; }
	$(call if_quiet,CC)$(CC) $(TEST_CFLAGS) -I. $(CHECK_CFLAGS) -MMD -MP -c $< -o $@

# glibc's names of calls with offsets and times, where a long has 32 bits (_FILE_OFFSET_BITS, _TIME_BITS).
WIDE_OFFSETS := $(if $(filter 4,$(word 2,$(FACTS))),$(findstring linux-gnu,$(MACHINE_TRIPLE)))
OFFSETS := $(if $(WIDE_OFFSETS),open openat pread pwrite ftruncate fstat fstatat lstat stat fcntl)
TIMES := $(if $(WIDE_OFFSETS),fstat fstatat lstat stat)
wrapped = $(foreach f,$(1),-Wl$(comma)--wrap=$(f) $(if $(filter $(f),$(OFFSETS)),-Wl$(comma)--wrap=$(f)64) $(if $(filter $(f),$(TIMES)),-Wl$(comma)--wrap=__$(f)64_time64) $(if $(filter fcntl,$(f)),-Wl$(comma)--wrap=__fcntl_time64))
CHECK_CFLAGS += $(if $(OFFSETS),-include tests/portable/wide_offsets.h)
LDFLAGS_test_io_faults = $(call wrapped,open openat pread write pwrite close fsync rename mkdir unlink unlinkat fstat fstatat lstat stat fchmod fchown fcntl realpath cti_take_any cti_take_zeroed cti_handle_take_any)
LDFLAGS_test_io_races = $(LDFLAGS_test_io_faults)
LDFLAGS_test_shard_faults = $(LDFLAGS_test_io_faults)
LDFLAGS_test_profile_faults = $(LDFLAGS_test_io_faults)
LDFLAGS_test_token_faults = $(LDFLAGS_test_io_faults)
LDFLAGS_test_disk_model = $(call wrapped,open openat pread write pwrite ftruncate close fsync rename mkdir unlink unlinkat fstat lstat stat)
LDFLAGS_test_faults = $(patsubst %,-Wl$(comma)--wrap=%,cti_take_any cti_take_zeroed cti_take_string cti_handle_take_any)
LDFLAGS_test_dist_faults = $(LDFLAGS_test_faults)
LDFLAGS_test_op_faults = $(LDFLAGS_test_faults)
LDFLAGS_test_threads_refused = $(patsubst %,-Wl$(comma)--wrap=%,pthread_mutex_init pthread_cond_init pthread_create pthread_once)
LDFLAGS_test_graph = $(LDFLAGS_test_faults)
LDFLAGS_test_gradcheck_html = $(LDFLAGS_test_faults)
$(BUILD)/tests/test_run_log$(EXE): $(BUILD)/obj/examples/run_log.o $(SYSTEM_OBJ)
$(BUILD)/tests/test_disk_model: $(BUILD)/obj/examples/run.o $(BUILD)/obj/examples/run_log.o $(SYSTEM_OBJ)
DIST_TESTS = $(filter $(BUILD)/tests/test_dist%,$(TESTS))
$(DIST_TESTS): $(BUILD)/obj/tests/thread_comm.o
$(BUILD)/tests/%$(EXE): $(BUILD)/obj/tests/%.o $(BUILD)/obj/tests/cases.o $(ASSERTED)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) $(SANITIZE) $(filter %.o,$^) $(ASSERTED) -o $@ $(CHECK_LIBS) $(LIBS) $(LDFLAGS_$(basename $(@F)))

EXAMPLES_TEST = $(BUILD)/tests/test_examples
COURSE_TEST   = $(BUILD)/tests/test_course
INSTALL_TEST  = $(BUILD)/tests/test_install
$(EXAMPLES_TEST): $(EXAMPLES)
$(COURSE_TEST): $(STATIC) $(COURSE)
$(INSTALL_TEST): $(STATIC) $(SHARED)
$(EXAMPLES_TEST) $(COURSE_TEST) $(INSTALL_TEST):
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/%s/check $(if $(filter %course,$@),quick)\n' $(@F:test_%=%) > $@ && chmod +x $@

course-test: course ## the course, its archives and its grader, with every wrong submission; make test grades five of each exercise
	@BUILD=$(BUILD) tests/course/check

tests: $(TESTS)
CHOSEN = $(SUITES:%=$(BUILD)/tests/test_%$(EXE))
# On macOS and Windows the test programs alone; on Windows without what it cannot have.
ifeq ($(OS_NAME),windows)
export CK_EXCLUDE_TAGS ?= forks posix exact-sin
endif
ifneq (,$(filter windows wasi,$(OS_NAME))$(IS_MACOS))
SUITE = $(or $(CHOSEN),$(TESTS))
else
SUITE = $(or $(CHOSEN),$(TESTS) $(EXAMPLES_TEST) $(COURSE_TEST) $(INSTALL_TEST))
PAGES = $(if $(AMALGAMATED),,layers headers docs-check)
endif
test: $(SUITE) $(PAGES) ## the whole suite, or SUITES="nn io"; needs Check and python3
	@BUILD=$(BUILD) tests/run $(SUITE)

$(BUILD)/tests/libcases.so: $(BUILD)/obj/tests/cases.o $(SHARED)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) -shared $< -o $@ -L$(BUILD) -lcotangent -Wl,-rpath,'$$ORIGIN/..'

$(BUILD)/venv/ready: tests/torch/requirements.txt
	python3 -m venv $(BUILD)/venv
	$(BUILD)/venv/bin/pip install -q -r $<
	@touch $@

test-torch: $(BUILD)/venv/ready $(SHARED) $(BUILD)/tests/libcases.so ## values and gradients against PyTorch, live; makes build/venv
	BUILD=$(BUILD) $(BUILD)/venv/bin/python -m pytest -q -p no:cacheprovider -p no:logging tests/torch

golden: $(BUILD)/venv/ready $(SHARED) $(BUILD)/tests/libcases.so ## make tests/golden/ anew from PyTorch
	BUILD=$(BUILD) $(BUILD)/venv/bin/python tests/golden/make.py

# One process for a program's tests: a sanitized one forks slowly.
ASAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
asan: ## the suite under AddressSanitizer, with leaks, and UndefinedBehaviorSanitizer
	CK_FORK=no $(MAKE) BUILD=$(BUILD)/asan OPT="-O1 -g1" SANITIZE="$(ASAN)" test
ubsan: ## the suite under UndefinedBehaviorSanitizer alone
	CK_FORK=no $(MAKE) BUILD=$(BUILD)/ubsan OPT="-O1 -g1" SANITIZE="-fsanitize=undefined -fno-sanitize-recover=all" test
tsan: ## the suite under ThreadSanitizer, but for the course and what is tagged as of one thread
	CK_FORK=no CK_EXCLUDE_TAGS=one-thread $(MAKE) BUILD=$(BUILD)/tsan OPT="-O2 -g1" SANITIZE="-fsanitize=thread" COURSE_TEST= test
# Branches are counted as the source has them: without optimisation, which merges some, and without inlining, as each copy of a function would
# count its branches again. A program's tests are one process, as each process writes the counters of all files; test_engine, which has one
# that ends its process, runs once more. What is compiled per instruction set and dtype counts as one, over those that this machine runs.
# Needs gcc, and the gcov of its version.
LINES    = 97
BRANCHES = 90
COVERAGE = --coverage -fprofile-update=atomic -Dalways_inline=
# Left out: the course, and what trains or compiles programs, which unoptimised takes longer than all else.
COVERING = CK_FORK=no $(MAKE) BUILD=$(BUILD)/coverage OPT="-O0 -g1" SANITIZE="$(COVERAGE)" COURSE_TEST= EXAMPLES_TEST= INSTALL_TEST=
COVERED  = $(foreach d,src ops nn,-d $(BUILD)/coverage/obj/$(d))
BRANCH   = --rc lcov_branch_coverage=1 --rc genhtml_branch_coverage=1 --rc 'lcov_excl_br_line=LCOV_EXCL_BR_LINE|CTI_ASSERT'
coverage: ## lines and branches that the Check suites reach: build/coverage/html; needs lcov; SUITES=io KEEP=1 adds those of io
	@command -v lcov >/dev/null || { echo "make coverage needs lcov: apt-get install lcov"; exit 1; }
	+$(COVERING) build-suite
	@rm -rf $(BUILD)/coverage/html; find $(BUILD)/coverage/obj -name '*.gcda' | while read -r counters; do \
	    [ -n "$(KEEP)" ] && [ "$$counters" -nt "$${counters%.gcda}.gcno" ] || rm "$$counters"; done
	+$(COVERING) run-suite
	@lcov -q --capture $(BRANCH) $(COVERED) -b . --no-external -o $(BUILD)/coverage/trace.info 2> $(BUILD)/coverage/lcov.log && \
	    genhtml -q $(BRANCH) -p $(CURDIR) -o $(BUILD)/coverage/html $(BUILD)/coverage/trace.info 2>> $(BUILD)/coverage/lcov.log || \
	    { cat $(BUILD)/coverage/lcov.log; exit 1; }
	@python3 tests/coverage/report.py $(BUILD)/coverage/trace.info $(if $(SUITES),,$(LINES) $(BRANCHES))
build-suite: $(SUITE)
run-suite: $(SUITE)
	@BUILD=$(BUILD) tests/run $(SUITE)
	@$(if $(filter %/test_engine,$(SUITE)),CK_FORK=yes $(BUILD)/tests/test_engine > $(BUILD)/tests/test_engine.log 2>&1 || { cat $(BUILD)/tests/test_engine.log; exit 1; })

# Of the kernels the scalar ones alone, without coverage: the search is for paths of the engine.
SECONDS ?= 60
FUZZ     = load checkpoint program tokens log dist
FUZZING  = BUILD=$(BUILD)/fuzz CC=clang ISAS=scalar OPT="-O1 -g1" KERNEL_SANITIZE=-fsanitize=address \
           SANITIZE="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
fuzz: ## hostile files, checkpoints, token files, logs of runs and programs of calls, SECONDS=60 each; needs clang
	$(MAKE) $(FUZZING) $(FUZZ:%=$(BUILD)/fuzz/fuzz_%)
	@folder=$$(mktemp -d /dev/shm/cotangent-fuzz-XXXXXX 2>/dev/null || mktemp -d) && trap 'rm -rf "$$folder"' EXIT INT TERM && \
	for target in $(FUZZ); do \
	    mkdir -p $(BUILD)/fuzz/corpus/$$target && echo "== $$target" && \
	    FUZZ_FOLDER=$$folder $(BUILD)/fuzz/fuzz_$$target -seed_inputs=$$(tests/fuzz/seeds $$target $(BUILD)/fuzz/seeds) \
	        -max_total_time=$(SECONDS) -print_final_stats=1 -verbosity=0 -print_funcs=0 \
	        -artifact_prefix=$(BUILD)/fuzz/$$target- $(BUILD)/fuzz/corpus/$$target || exit 1; \
	done
FUZZ_OBJ = $(FUZZ:%=$(BUILD)/obj/tests/fuzz/%.o)
$(FUZZ_OBJ): $(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/fuzz_log: $(BUILD)/obj/examples/run_log.o $(SYSTEM_OBJ)
LDFLAGS_fuzz_program = $(LDFLAGS_test_faults)
$(BUILD)/fuzz_dist: $(BUILD)/obj/bench/thread_comm.o
$(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/obj/bench/cases.o $(STATIC)
	$(call if_quiet,LD)$(CC) $(SANITIZE) -fsanitize=fuzzer $(filter %.o,$^) $(STATIC) -o $@ $(LIBS) $(LDFLAGS_$(@F))

include packaging/cross.mk

KILLS ?= 1000
kill: $(BUILD)/char_lm ## ends trainings at random moments, KILLS=1000 times by SIGKILL and some by pipes, limits and second runs, SEED=1: each goes on and ends with the same bytes
	@command -v python3 >/dev/null || { echo "make kill needs python3"; exit 2; }
	@KILLS=$(KILLS) SEED=$(or $(SEED),1) tests/kill/run $(BUILD)/char_lm

valgrind: $(or $(CHOSEN),$(TESTS)) ## the suite under valgrind (slow); with line numbers: BUILD=build/debug OPT="-O3 -g1"
	@BUILD=$(BUILD) VALGRIND=1 tests/run $^

$(BUILD)/mutation/venv/ready: tests/mutation/requirements.txt
	python3 -m venv $(BUILD)/mutation/venv
	$(BUILD)/mutation/venv/bin/pip install -q -r $<
	@touch $@

mutate: $(TESTS) $(BUILD)/mutation/venv/ready ## do the tests notice changes of the backward code? See tests/mutation/README.md; SAMPLE=150 SEED=1, or FILE=ops/gelu.c
	@$(MAKE) BUILD=$(BUILD)/asan OPT="-O1 -g1" SANITIZE="$(ASAN)" tests
	@BUILD=$(BUILD) CC='$(CC)' FLAGS='$(BASE) $(OPT)' SANITIZED='$(BASE) -O1 -g1 $(ASAN)' WARN='$(WARN)' LIBRARY='$(ASSERTED)' LIBRARIES='$(CHECK_LIBS) $(LIBS)' \
	    $(foreach v,$(filter LDFLAGS_test_%,$(.VARIABLES)),$(v)='$($(v))') $(BUILD)/mutation/venv/bin/python tests/mutation/mutate.py

layers: $(STATIC) $(SHARED) ## fail on an include, a circle of calls or a global name that the architecture does not allow
	@tests/layers $(OBJ)
	@CC='$(CC)' tests/made_up_dtype
	@! nm -D --defined-only $(SHARED) | awk '{print $$3}' | grep -v '^ct_\|^_' || { echo "layers: the shared library exports these"; exit 1; }

headers: $(BUILD)/flags ## every public header compiles alone, as C11, C++11 and C++20, and the README's program as C++20
	@for h in include/cotangent/*.h mpi/include/cotangent/*.h; do \
	    printf '#include <cotangent/%s>\n' $${h##*/} | $(CC) -std=c11 $(WARN) -Wpedantic -Werror -Iinclude -Impi/include -c -x c - -o $(BUILD)/header.o || exit 1; \
	    ! command -v c++ >/dev/null || for std in c++11 c++20; do \
	        printf '#include <cotangent/%s>\n' $${h##*/} | c++ -std=$$std -Wall -Wextra -Wpedantic -Werror -Iinclude -Impi/include -fsyntax-only -x c++ - || exit 1; done; \
	done
	@! command -v c++ >/dev/null || c++ -std=c++20 -Wall -Werror -Iinclude -fsyntax-only -x c++ examples/mha.c
	@echo "headers: each compiles alone"

$(BUILD)/make_parameters: docs/make_parameters.c $(STATIC)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) $< $(STATIC) -o $@ $(LIBS)

docs: $(BUILD)/make_parameters ## make docs/api.md from the headers, docs/ops.md from them and the ops, docs/parameters.md from the modules
	docs/make_api > $(BUILD)/api.md && mv $(BUILD)/api.md docs/api.md
	docs/make_ops > $(BUILD)/ops.md && mv $(BUILD)/ops.md docs/ops.md
	$(RUN) $(BUILD)/make_parameters > $(BUILD)/parameters.md && mv $(BUILD)/parameters.md docs/parameters.md
graph-picture: $(BUILD)/graph$(EXE) ## docs/graph.svg: what build/graph draws; needs Graphviz
	$(RUN) $< $(BUILD)/graph.dot > $(BUILD)/graph.txt && dot -Tsvg $(BUILD)/graph.dot -o docs/graph.svg

# The blocks of C in docs/training.md, as one program, are compiled and run: a short run, one that goes on, and a mistake. Its C++ is compiled.
# That of docs/scaling.md runs without MPI, to its end and once more.
docs-check: $(BUILD)/make_parameters $(BUILD)/graph$(EXE) $(BUILD)/flags ## fail where a page is out of date, names what is not there, or shows what does not compile
	@docs/make_api > $(BUILD)/api.md && cmp -s $(BUILD)/api.md docs/api.md || { echo "docs/api.md is out of date: make docs"; exit 1; }
	@docs/make_ops > $(BUILD)/ops.md && cmp -s $(BUILD)/ops.md docs/ops.md || { echo "docs/ops.md is out of date: make docs"; exit 1; }
	@$(RUN) $(BUILD)/make_parameters | cmp -s - docs/parameters.md || { echo "docs/parameters.md is out of date: make docs"; exit 1; }
	@docs/blocks c README.md | awk '/^#line/ && n++ {exit} !/^#line/' | cmp -s - examples/mha.c || { echo "README.md does not show examples/mha.c as it is"; exit 1; }
	@rm -rf $(BUILD)/docs && mkdir -p $(BUILD)/docs && docs/blocks c docs/training.md > $(BUILD)/docs/training.c && docs/blocks cpp docs/training.md > $(BUILD)/docs/training.cpp
	@$(CC) $(filter-out -Wmissing-prototypes,$(ALL_CFLAGS)) -Werror $(BUILD)/docs/training.c $(STATIC) -o $(BUILD)/docs/training $(LIBS)
	@cd $(BUILD)/docs && for steps in 3 6; do $(RUN) ./training $(CURDIR)/README.md $$steps || exit 1; done > out && \
	    grep -q '^goes on after step 3$$' out && grep -q '^step 6 ' out && [ -s best.safetensors ] && \
	    ! $(RUN) ./training missing 1 2> err && grep -qx 'cotangent: cannot open missing' err || { echo "the program of docs/training.md does not run"; cat out; exit 1; }
	@! command -v c++ >/dev/null || c++ -std=c++20 -Wall -Wpedantic -Werror -Iinclude -fsyntax-only $(BUILD)/docs/training.cpp
	@docs/blocks c docs/scaling.md > $(BUILD)/docs/scaling.c && echo 'ct_comm *ct_mpi_comm(ct_context *context) {(void)context; return NULL;} /* one process */' >> $(BUILD)/docs/scaling.c
	@$(CC) $(ALL_CFLAGS) -Werror -Impi/include $(BUILD)/docs/scaling.c $(STATIC) -o $(BUILD)/docs/scaling $(LIBS)
	@cd $(BUILD)/docs && rm -f run.safetensors && $(RUN) ./scaling > out && grep -q '^step 200: loss 0' out && [ -s run.safetensors ] && $(RUN) ./scaling > out && [ ! -s out ] || \
	    { echo "the program of docs/scaling.md does not run"; cat $(BUILD)/docs/out; exit 1; }
	@! docs/scaling_table | grep -vxFf docs/scaling.md || { echo "docs/scaling.md does not have these lines of docs/scaling_table"; exit 1; }
	@$(RUN) $(BUILD)/graph$(EXE) $(BUILD)/docs/graph.dot > $(BUILD)/docs/graph.txt && docs/graph_labels $(BUILD)/docs/graph.dot docs/graph.svg
	@docs/check_names README.md docs/*.md
	@echo "docs: the pages are up to date, and their programs compile"

# ---- the rest ----

# Paths may have spaces. Of a build with -g the debug information stays in build/.
STRIP ?= $(shell $(CC) -print-prog-name=strip)
HEADERS = $(notdir $(wildcard include/cotangent/*.h))
TO_INCLUDE = $(DESTDIR)$(PREFIX)/include/cotangent
TO_LIB = $(DESTDIR)$(LIBDIR)
LINKS = $(SONAME) $(LINKED)
# Where the dynamic linker does not look by itself, programs are linked with the path of the library.
RPATH = $(if $(filter /lib /lib64 /usr/lib /usr/lib64 /usr/lib/%,$(LIBDIR)),, -Wl$(comma)-rpath$(comma)"$${libdir}")
absolute = $(if $(filter /%,$(firstword $(PREFIX))),,$(error PREFIX is not an absolute path: $(PREFIX)))
install: $(STATIC) $(SHARED) ## headers, libraries and the pkg-config file (PREFIX, DESTDIR)
	@$(absolute)install -d "$(TO_INCLUDE)" "$(TO_LIB)/pkgconfig"
	install -m 644 include/cotangent/*.h "$(TO_INCLUDE)"
	install -m 644 $(STATIC) "$(TO_LIB)"
	install -m 755 $(SHARED) "$(TO_LIB)"
	$(STRIP) -S "$(TO_LIB)/$(notdir $(STATIC))" "$(TO_LIB)/$(notdir $(SHARED))"
	ln -sf $(notdir $(SHARED)) "$(TO_LIB)/$(SONAME)"
	ln -sf $(SONAME) "$(TO_LIB)/$(LINKED)"
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$${prefix}/include' '' 'Name: cotangent' \
	    'Description: tensors, reverse-mode differentiation and transformers' 'Version: $(VERSION)' \
	    'Cflags: -I"$${includedir}"' 'Libs: -L"$${libdir}" -lcotangent$(RPATH)' 'Libs.private: $(LIBS)' > "$(TO_LIB)/pkgconfig/cotangent.pc"
	@chmod 644 "$(TO_LIB)/pkgconfig/cotangent.pc"

# Folders that are left empty go too; lib and include stay where they are the system's.
uninstall: ## remove what install put there, with the same PREFIX and DESTDIR
	@$(absolute)cd "$(TO_INCLUDE)" 2>/dev/null && rm -f $(HEADERS) || true
	@cd "$(TO_LIB)" 2>/dev/null && rm -f $(notdir $(STATIC) $(SHARED)) $(LINKS) pkgconfig/cotangent.pc || true
	@if [ -n "$(DESTDIR)" ]; then cd "$(DESTDIR)" && for d in "$(PREFIX)/include/cotangent" "$(LIBDIR)/pkgconfig"; do rmdir -p "$${d#/}"; done; \
	else rmdir "$(TO_INCLUDE)" "$(TO_LIB)/pkgconfig"; \
	    case "$(PREFIX)" in /usr|/usr/local) ;; *) rmdir "$(PREFIX)/include" "$(LIBDIR)" "$(PREFIX)" ;; esac; fi 2>/dev/null || true

# Each with what is linked into it besides the library.
BENCH = $(addprefix $(BUILD)/bench/,rows gemm ops peak vmath gradcheck_eps)
bench_object = $(addprefix $(BUILD)/obj/bench/,$(addsuffix .o,$(1)))
MACHINE = $(call bench_object,machine timing $(ISAS:%=fma_%))
$(BUILD)/bench/rows: $(call bench_object,timing gpt micro attention decode)
$(BUILD)/bench/gemm: $(MACHINE)
$(BUILD)/bench/ops: $(call bench_object,timing cases)
$(BUILD)/bench/peak: $(MACHINE)
$(BENCH): $(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) $(SANITIZE) $(filter %.o,$^) $(STATIC) -o $@ $(LIBS) -ldl

WITHOUT_CHECK = $(call bench_object,cases thread_comm)
$(WITHOUT_CHECK): $(BUILD)/obj/bench/%.o: tests/%.c $(BUILD)/flags # which the rule for tests asks for
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

define bench_fma
$(BUILD)/obj/bench/fma_$(1).o: bench/fma.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call if_quiet,CC)$$(CC) $$(ALL_CFLAGS) $$($(1)_FLAGS) -DCT_FMA_F32=fma_$(1)_f32 -DCT_FMA_F64=fma_$(1)_f64 -MMD -MP -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call bench_fma,$(i))))
$(BUILD)/obj/bench/machine.o: ALL_CFLAGS += $(ISAS:%=-DCTI_HAVE_%)

bench: $(BENCH) ## speed and memory, beside PyTorch where build/venv has it: ROW=toy,gemm THREADS=1 ROUNDS=9; see bench/README.md
	@command -v python3 >/dev/null || { echo "make bench needs python3. Without it, try: echo 10 | $(BUILD)/bench/rows toy"; exit 1; }
	@BUILD=$(BUILD) bench/run

losses: $(BUILD)/char_lm ## what rounding does to learning: char_lm in f32 and bf16, three seeds each: TEXT=FILE JOBS=2; see bench/losses
	@BUILD=$(BUILD) TEXT="$(TEXT)" bench/losses

gradcheck-plot: $(BUILD)/bench/gradcheck_eps ## docs/gradcheck_eps.svg: the error of differences by the step
	$< | python3 bench/gradcheck_plot.py docs/gradcheck_eps.svg

include mpi/mpi.mk

# For clangd. Kernels as for the widest instruction set, in f32.
WIDEST = $(lastword $(ISAS))
COMMANDS_KERNELS = $($(WIDEST)_FLAGS) -DCTI_TABLE=cti_kernels_$(WIDEST)_f32 -DCTI_RANDOM=cti_random_$(WIDEST)_f32
COMMANDS_FILES = $(wildcard docs/*.c src/*/*.c ops/*.c ops/*/*.c nn/*.c nn/*/*.c examples/*.c examples/course/*.c examples/course/*/*.c tests/*.c)
json = $(subst ",\",$(subst \,\\,$(1)))
flags_of = $(ALL_CFLAGS) $(if $(filter src/kernels/real.c src/kernels/random.c,$(1)),$(COMMANDS_KERNELS)) \
           $(if $(filter src/kernels/isa.c,$(1)),$(HAVE)) $(if $(filter $(HEIRS:%=src/kernels/%.c),$(1)),$($(patsubst src/kernels/%.c,%,$(1))_FLAGS)) \
           $(if $(filter src/kernels/bf16_scalar.c,$(1)),$(scalar_FLAGS)) $(if $(filter tests/%,$(1)),-I. $(CHECK_CFLAGS))
command_of = {"directory": "$(call json,$(CURDIR))", "file": "$(1)", "command": "$(strip $(call json,$(CC) $(call flags_of,$(1)) -c $(1)))"}
compile_commands.json: FORCE
	$(file >$@,[$(call command_of,$(firstword $(COMMANDS_FILES))))
	$(foreach f,$(wordlist 2,9999,$(COMMANDS_FILES)),$(file >>$@,$(comma)$(call command_of,$(f))))
	$(file >>$@,])
	@echo "wrote $@ for $(words $(COMMANDS_FILES)) sources"

# The versions of tests/style/requirements.txt, as another version lays some lines out otherwise.
STYLE = $(BUILD)/style/venv
$(STYLE)/ready: tests/style/requirements.txt
	python3 -m venv $(STYLE)
	$(STYLE)/bin/pip install -q -r $<
	@touch $@

C_FILES = $(foreach d,docs include/cotangent src/* ops ops/* nn nn/* examples examples/web examples/course examples/course/* tests tests/fuzz tests/mutation tests/course/* bench mpi mpi/include/cotangent mpi/tests,$(wildcard $(d)/*.c $(d)/*.h))
format: $(STYLE)/ready ## clang-format in place
	$(STYLE)/bin/clang-format -i $(C_FILES)
format-check: $(STYLE)/ready ## fail where clang-format would change something
	@$(STYLE)/bin/clang-format --dry-run -Werror $(C_FILES) && echo "format: as .clang-format says"

tidy: $(STYLE)/ready compile_commands.json ## clang-tidy, the checks of .clang-tidy, which are errors
	@printf '%s\n' $(filter-out $(OTHER_OS),$(wildcard src/*/*.c ops/*.c ops/*/*.c nn/*.c nn/*/*.c examples/*.c)) | \
	    xargs -P $(shell nproc) -n 8 $(STYLE)/bin/clang-tidy --quiet -p . && echo "tidy: clean"

clean: ## remove build/
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
.SECONDARY:
.PHONY: graph-picture amalgamation packaging-check losses coverage build-suite run-suite kill course grade handout autograder kit-files format-check tidy mutate fuzz all help demo tests test test-torch golden asan ubsan tsan valgrind layers headers docs docs-check install uninstall bench gradcheck-plot format clean FORCE
