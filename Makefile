# cotangent. `make help` lists the targets. This file builds the library, programs and examples, and tests; the
# makefiles that it includes lie beside what they build.

# What an archive of the course sets, if this is one.
-include course/handout.mk
CC     ?= cc
AR     ?= ar
BUILD  ?= build
comma  := ,
# Without -g: line numbers are nine tenths of a library and of a program that is linked with it. OPT="-O3 -g" has them.
OPT    ?= -O3
# The user's own flags; they stand last, so that they win.
CPPFLAGS ?=
CFLAGS   ?=
LDFLAGS  ?=
SANITIZE ?=
# The same for kernels. With sanitizers one of them takes half a minute or more to compile.
KERNEL_SANITIZE ?= $(SANITIZE)
.DEFAULT_GOAL := all

VERSION := $(shell awk '/define CT_VERSION_(MAJOR|MINOR|PATCH)/ {v = v (v == "" ? "" : ".") $$3} END {print v}' \
    include/cotangent/types.h)
# What a program that was linked asks for: before 1.0 a minor version may change the interface.
MAJOR   := $(firstword $(subst ., ,$(VERSION)))
ABI     := $(if $(filter 0,$(MAJOR)),0.$(word 2,$(subst ., ,$(VERSION))),$(MAJOR))
include packaging/target.mk

STD ?= c11
WARN = -Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings \
    -Werror=vla -Werror=switch -Werror=implicit-function-declaration -Werror=incompatible-pointer-types
BASE = -std=$(STD) $(EXCESS) $(SYSTEM_FLAGS) -Iinclude -fvisibility=hidden \
    -ffp-contract=off -fno-math-errno -fno-trapping-math
# Builds with sanitizers or for coverage check the library's invariants (src/core/assert.h). Another build does with
# ASSERTS=-DCTI_ASSERTS, and a step of a small model then has a tenth more instructions.
ASSERTS ?= $(if $(findstring -fsanitize,$(SANITIZE))$(findstring --coverage,$(SANITIZE)),-DCTI_ASSERTS)
ALL_CFLAGS = $(BASE) $(OPT) $(WARN) $(SANITIZE) $(ASSERTS) $(CPPFLAGS) $(CFLAGS)
LINK_FLAGS = $(SANITIZE) $(CFLAGS) $(LDFLAGS)
LIBS = -lm $(SYSTEM_LIBS)
FAST_MATH = -ffast-math -Ofast -ffinite-math-only -funsafe-math-optimizations
$(if $(filter $(FAST_MATH),$(CC) $(OPT) $(CPPFLAGS) $(CFLAGS)),$(error \
    cotangent cannot be compiled with -ffast-math or -Ofast: masks are infinities$(comma) and sums have an order))

# make V=1 shows whole commands.
V ?= 0
if_quiet = $(if $(filter 0,$(V)),@echo "  $(1) $@";)

include src/kernels/kernels.mk

# The folders of the library: the core, and the floors above it that EXT names.
EXT     ?= $(patsubst %/,%,$(wildcard ext/*/))
# ext/models stands on ext/text, and ext/text on ext/data.
stands_on = $(if $(filter $(1),$(EXT)),$(if $(filter $(2),$(EXT)),,$(error EXT has $(1), which stands on $(2))))
$(call stands_on,ext/text,ext/data)$(call stands_on,ext/models,ext/text)
FOLDERS  = $(patsubst %/,%,$(wildcard src/*/) ops/ $(wildcard ops/*/) nn/ $(wildcard nn/*/)) $(EXT) \
    $(if $(filter ext/text,$(EXT)),ext/text/jinja)
SOURCES  = $(filter-out src/kernels/% $(OTHER_OS),$(wildcard $(FOLDERS:%=%/*.c)))
OBJ      = $(SOURCES:%.c=$(BUILD)/obj/%.o) $(KOBJ)
# AMALGAMATED=1 builds the library from its amalgamation, to test it: make BUILD=build/amalgamated AMALGAMATED=1 test.
# Three files are compiled by themselves, because tests make their functions fail by the linker or define their own.
ifdef AMALGAMATED
OBJ = $(AMALGAMATION)/cotangent.o $(addprefix $(BUILD)/obj/src/,core/memory.o core/handle.o core/isa.o)
endif
STATIC   = $(BUILD)/libcotangent.a
# The files of programs/ and examples/ that have no main go into an archive, from which the linker takes what a program
# needs.
OF_PROGRAMS ?= programs examples
MAINS   := $(filter-out examples/no_arguments.c,$(shell grep -l '^int main\b' \
    $(wildcard $(OF_PROGRAMS:%=%/*.c)) /dev/null))
PARTS    = $(filter-out $(MAINS) $(OTHER_OS),$(wildcard $(OF_PROGRAMS:%=%/*.c)))
PARTS_OBJ = $(PARTS:%.c=$(BUILD)/obj/%.o)
PARTS_LIB = $(BUILD)/obj/programs/parts.a
# Programs and examples that need a floor, which a build without it leaves out.
WITHOUT  = $(if $(filter ext/data,$(EXT)),,tokens) $(if $(filter ext/ranks,$(EXT)),,char_lm finetune) \
    $(if $(filter ext/diagnose,$(EXT)),,custom_op) \
    $(if $(filter ext/text,$(EXT)),,attention_map char_lm embed evaluate finetune generate lora tokenize tokens) \
    $(if $(filter ext/models,$(EXT)),,attention_map embed evaluate finetune generate)
built_of = $(patsubst $(1)/%.c,$(BUILD)/%$(EXE),$(filter-out $(WITHOUT:%=$(1)/%.c),$(filter $(1)/%,$(MAINS))))
PROGRAMS = $(call built_of,programs)
EXAMPLES = $(call built_of,examples)
# These take no arguments: their main is called by no_arguments.c.
ALONE   := $(patsubst examples/%.c,%,$(shell grep -l '^int main(void)' $(wildcard examples/*.c) /dev/null))
TESTS    = $(patsubst %,$(BUILD)/tests/test_%$(EXE),$(filter-out $(NOT_HERE),$(CHECK_PROGRAMS)))
include packaging/systems.mk packaging/wasm.mk packaging/amalgamation.mk

all: $(STATIC) $(SHARED) $(PROGRAMS) $(EXAMPLES) ## the library, static and shared, programs and examples, in build/

help: ## this list
	@awk '{sub(/^ +/, ""); text = text $$0} sub(/\\$$/, "", text) {next} \
	    text ~ /^[a-z_.-]+:.*## / {split(text, part, ":.*## "); printf "  make %-12s %s\n", part[1], part[2]} \
	    {text = ""}' \
	    $(filter %Makefile %.mk,$(MAKEFILE_LIST))
	@echo "Variables: CC, OPT, CFLAGS, BUILD (default build), PREFIX (/usr/local), DESTDIR, STRIP; SUITES=\"nn io\" for"
	@echo "test, asan, ubsan, tsan, coverage, valgrind and cross: only these test programs. PART=3: every third of them, and of"
	@echo "what tidy and test-torch check, the next one for the next commit."

# ---- the library ----

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# kernel_bits.c has a text that says how far kernels are optimised. The last -O counts.
OPTIMISED = $(lastword $(filter -O%,$(KERNEL_CFLAGS)))
$(BUILD)/obj/src/core/kernel_bits.o: ALL_CFLAGS += $(OPTIMISED:%='-DCTI_OPTIMISED="%"')

$(STATIC): $(OBJ)
	@rm -f $@
	$(call if_quiet,AR)$(AR) rcs $@ $(OBJ)

$(SHARED): $(OBJ)
	$(call if_quiet,LD)$(CC) -shared $(SHARED_FLAGS) $(LINK_FLAGS) $(OBJ) -o $@ $(LIBS)
	@[ $(@F) = $(SONAME) ] || { ln -sf $(@F) $(BUILD)/$(SONAME) && ln -sf $(SONAME) $(BUILD)/$(LINKED); }
# The names of links, so that `make build/libcotangent.so` makes the library.
$(addprefix $(BUILD)/,$(filter-out $(notdir $(SHARED)),$(SONAME) $(LINKED))): $(SHARED) ;

# A change of compiler, flags or floors rebuilds everything. The line is expanded here, because the recipe would see the
# variables of the object that is made first.
FLAGS_LINE := $(CC) $(ALL_CFLAGS) $(KERNEL_SANITIZE) $(LDFLAGS) $(ISAS) $(HEIRS) $(EXT)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@flags='$(FLAGS_LINE)'; echo "$$flags" | cmp -s - $@ || echo "$$flags" > $@

# ---- programs and examples ----

$(ALONE:%=$(BUILD)/obj/examples/%.o): Makefile # for the next line
$(ALONE:%=$(BUILD)/obj/examples/%.o): ALL_CFLAGS += -Dmain=example_main -Wno-missing-prototypes
$(PARTS_LIB): $(PARTS_OBJ)
	@rm -f $@
	$(call if_quiet,AR)$(AR) rcs $@ $(PARTS_OBJ)
$(PROGRAMS): $(BUILD)/%$(EXE): $(BUILD)/obj/programs/%.o
$(EXAMPLES): $(BUILD)/%$(EXE): $(BUILD)/obj/examples/%.o
$(PROGRAMS) $(EXAMPLES): $(PARTS_LIB) $(STATIC)
	$(call if_quiet,LD)$(CC) $(LINK_FLAGS) $(filter %.o,$^) $(PARTS_LIB) $(STATIC) -o $@ $(LIBS)

# The demo and `make losses` train on this text.
TEXT ?= $(wildcard include/cotangent/*.h $(FOLDERS:%=%/*.c) $(FOLDERS:%=%/*.h) programs/*.c examples/*.c)
demo: $(BUILD)/seq2seq$(EXE) $(BUILD)/char_lm$(EXE) \
	## train two transformers, about a minute: digits to their reverse, and this project's own source code
	@mkdir -p $(BUILD)/demo
	@echo "== seq2seq: an encoder-decoder learns to write digits in reverse"
	@$(RUN) $(BUILD)/seq2seq$(EXE) --out $(BUILD)/demo
	@echo; echo "== char_lm: a GPT learns the source code of this project"
	@$(RUN) $(BUILD)/char_lm$(EXE) --steps 1500 --lr 0.004 --warmup 50 --eval-every 75 --out $(BUILD)/demo $(TEXT)
	@echo; echo "Open these in a browser:"; ls $(BUILD)/demo/*.svg

# ---- the tests ----

include course/course.mk tests/tests.mk

tests: $(TESTS)
CHOSEN = $(SUITES:%=$(BUILD)/tests/test_%$(EXE))
# PART=3 leaves every third of a list, the next one for the next commit. A clone without its history has no number.
COMMIT_NUMBER = $(shell [ "$$(git rev-parse --is-shallow-repository 2>/dev/null)" = false ] && \
    git rev-list --count HEAD || git rev-parse HEAD 2>/dev/null | cksum | cut -d ' ' -f 1)
part_of = $(if $(PART),$(shell printf '%s\n' $(1) | \
    awk -v part=$(PART) -v number=$(or $(SEED),$(COMMIT_NUMBER)) '(NR + number) % part == 0'),$(1))
# Only the Check programs are run on macOS, Windows and WASI, and if the library lacks a floor.
ifneq (,$(filter windows wasi,$(OS_NAME))$(IS_MACOS)$(FLOORLESS))
SUITE = $(call part_of,$(or $(CHOSEN),$(TESTS)))
else
SUITE = $(call part_of,$(or $(CHOSEN),$(TESTS) $(EXAMPLES_TEST) $(COURSE_TEST) $(INSTALL_TEST)))
PAGES = $(if $(AMALGAMATED),,layers headers docs-check)
endif
test: $(SUITE) $(PAGES) ## the whole suite, or SUITES="nn io"; needs Check and python3
	@BUILD=$(BUILD) tests/run $(SUITE)

$(CHECK_PROGRAMS:%=$(BUILD)/tests/test_%$(EXE)): $(BUILD)/obj/tests/support/cases.o $(PLAIN_CHECK) $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) $(LINK_FLAGS) $(filter %.o,$^) $(filter $(PARTS_LIB),$^) $(STATIC) -o $@ \
	    $(CHECK_LIBS) $(LIBS) $(LDFLAGS_$(basename $(@F)))

clean: ## remove build/
	rm -rf $(BUILD)

include python/python.mk tests/checks.mk tests/fuzz/fuzz.mk tests/style/style.mk docs/docs.mk bench/bench.mk ext/text/text.mk
include packaging/install.mk packaging/release.mk ext/ranks/mpi/mpi.mk packaging/cross.mk
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
.SECONDARY:
.PHONY: all help demo tests test clean FORCE
