# How the Check programs are compiled and linked, and which of them a system has.

# Each test_NAME.c in a folder of tests/ is a program.
CHECK_PROGRAMS := $(sort $(patsubst test_%.c,%,$(notdir $(wildcard tests/*/test_*.c))))

# Test programs that a system cannot have: WRAPPED need a linker with --wrap to make functions fail on purpose,
# POSIX_FAULTS wrap functions of POSIX, and test_unseen reads stderr by dup.
POSIX_FAULTS = gguf_faults io_faults model_faults set_faults io_races shard_faults profile_faults token_faults disk_model threads_refused
WRAPPED  = $(POSIX_FAULTS) faults op_faults optim_faults module_to_faults dist_faults graph gradcheck_html jacobian_calls module_types \
    watch
# The Check programs of each floor in ext/, which a build without the floor leaves out.
programs_of = $(patsubst test_%.c,%,$(notdir $(wildcard tests/$(1)/test_*.c)))
TESTS_OF_data = $(call programs_of,data) hooks
TESTS_OF_diagnose = $(call programs_of,diagnose)
TESTS_OF_ranks = $(call programs_of,ranks) disk_model hooks
TESTS_OF_models = $(call programs_of,models) documents finetune labels preferences
TESTS_OF_text = $(call programs_of,text)
FLOORLESS = $(foreach f,$(filter-out $(notdir $(EXT)),data diagnose models ranks text),$(TESTS_OF_$(f)))
# Without ext/diagnose the other programs link this ct_gradcheck, a check without diagnoses.
PLAIN_CHECK = $(if $(filter ext/diagnose,$(EXT)),,$(BUILD)/obj/tests/support/plain_gradcheck.o)
# In the amalgamation calls of cti_arena_take are within one object, where --wrap does not reach them.
NOT_HERE = $(WASI_NOT_HERE) $(FLOORLESS) $(if $(AMALGAMATED),text_model_faults) \
    $(if $(filter windows wasi,$(OS_NAME)),unseen) \
    $(if $(filter windows,$(OS_NAME)),$(if $(IS_GCC),$(POSIX_FAULTS),$(WRAPPED)),$(if $(IS_MACOS),$(WRAPPED)))

# If there is no Check, OWN_CHECK=1 takes the part of it in tests/portable.
OWN_CHECK ?= $(if $(filter windows,$(OS_NAME)),1)
CHECK_CFLAGS = $(if $(OWN_CHECK),-Itests/portable,$(shell pkg-config --cflags check))
CHECK_LIBS   = $(if $(OWN_CHECK),,$(shell pkg-config --libs check))
# Functions of POSIX that the tests use, for Windows.
ifeq ($(OS_NAME),windows)
CHECK_CFLAGS += -Itests/portable/windows -include tests/portable/windows.h
CHECK_LIBS   += -static -lpthread
else ifneq (,$(IS_MACOS))
CHECK_CFLAGS += -D_DARWIN_C_SOURCE
else ifeq ($(OS_NAME),wasi)
CHECK_CFLAGS += $(WASI_CHECK)
CHECK_LIBS   += -mexception-handling
endif

# Tests are compiled with -O0, which takes half the time of -O1. Those that compute much themselves have -O1, and those
# that contain kernels or models of kernels have -O2.
TEST_OPT = $(if $(call is_one_of,$(MODELS)),at_O2,$(if $(call is_one_of,$(COMPUTING)),at_O1,at_O0))
TEST_CFLAGS = $(call $(TEST_OPT),$(ALL_CFLAGS))
is_one_of = $(filter $(1:%=test_%.c),$(notdir $<))
at_O1 = $(patsubst -O3,-O1,$(patsubst -O2,-O1,$(1)))
at_O0 = $(patsubst -O3,-O0,$(patsubst -O2,-O0,$(1)))
at_O2 = $(patsubst -O3,-O2,$(1))
MODELS = amx gemm generate_rows
COMPUTING = attention_fused attention_hidden attention_rounded attention_seen checksum disk_model dist_faults faults graph \
    kernel_rows kernels losses ops ops_more rounded rows shard_faults stored text_unicode

$(BUILD)/obj/tests/kernels/amx_avx512.o: TEST_OPT = at_O2

# tests/nn/test_mlp.c is the program build/tests/test_mlp.
program_from = $(eval $(BUILD)/tests/$(basename $(notdir $(1)))$(EXE): $(BUILD)/obj/$(1:.c=.o))
$(foreach f,$(wildcard tests/*/test_*.c),$(call program_from,$(f)))

# A rule for each file by name, because make 3.81 would take the first pattern that fits, $(BUILD)/obj/%.o.
TEST_OBJ = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out tests/fuzz/% tests/mutation/%,$(wildcard tests/*/*.c)))
$(TEST_OBJ): $(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	@[ -n "$(OWN_CHECK)" ] || pkg-config --exists check || \
	    { echo "The tests need Check: apt-get install check pkg-config"; exit 1; }
	$(call if_quiet,CC)$(CC) $(TEST_CFLAGS) -I. $(CHECK_CFLAGS) -MMD -MP -c $< -o $@

# glibc's names of calls with offsets and times, where a long has 32 bits (_FILE_OFFSET_BITS, _TIME_BITS).
WIDE_OFFSETS := $(if $(filter 4,$(word 2,$(FACTS))),$(findstring linux-gnu,$(MACHINE_TRIPLE)))
OFFSETS := $(if $(WIDE_OFFSETS),open openat pread pwrite ftruncate fstat fstatat lstat stat fcntl)
TIMES := $(if $(WIDE_OFFSETS),fstat fstatat lstat stat)
wrapped = $(foreach f,$(1),-Wl$(comma)--wrap=$(f) $(if $(filter $(f),$(OFFSETS)),-Wl$(comma)--wrap=$(f)64) \
    $(if $(filter $(f),$(TIMES)),-Wl$(comma)--wrap=__$(f)64_time64) \
    $(if $(filter fcntl,$(f)),-Wl$(comma)--wrap=__fcntl_time64))
CHECK_CFLAGS += $(if $(OFFSETS),-include tests/portable/wide_offsets.h)
MALLOCS = $(call wrapped,malloc calloc realloc)
TAKES = cti_take_any cti_take_zeroed cti_string_take cti_handle_take_any
LDFLAGS_test_io_faults = $(call wrapped,open openat pread write pwrite close fsync rename mkdir unlink unlinkat \
    fstat fstatat lstat stat fchmod fchown fcntl realpath $(TAKES))
LDFLAGS_test_io_races = $(LDFLAGS_test_io_faults)
LDFLAGS_test_gguf_faults = $(LDFLAGS_test_io_faults)
LDFLAGS_test_shard_faults = $(LDFLAGS_test_io_faults)
LDFLAGS_test_profile_faults = $(LDFLAGS_test_io_faults)
LDFLAGS_test_model_faults = $(LDFLAGS_test_io_faults)
LDFLAGS_test_set_faults = $(LDFLAGS_test_io_faults)
LDFLAGS_test_token_faults = $(LDFLAGS_test_io_faults)
# A system's own functions would fail with malloc.
POSIX_FAULTS += text_faults text_model_faults jinja_faults
LDFLAGS_test_text_faults = $(LDFLAGS_test_io_faults) $(MALLOCS)
LDFLAGS_test_jinja_faults = $(MALLOCS)
LDFLAGS_test_disk_model = $(call wrapped,open openat pread write pwrite ftruncate close fsync rename mkdir unlink \
    unlinkat fstat lstat stat)
LDFLAGS_test_faults = $(patsubst %,-Wl$(comma)--wrap=%,$(TAKES))
LDFLAGS_test_dist_faults = $(LDFLAGS_test_faults)
LDFLAGS_test_op_faults = $(LDFLAGS_test_faults)
LDFLAGS_test_optim_faults = $(LDFLAGS_test_faults)
LDFLAGS_test_module_to_faults = $(LDFLAGS_test_faults)
LDFLAGS_test_threads_refused = $(patsubst %,-Wl$(comma)--wrap=%,\
    pthread_mutex_init pthread_cond_init pthread_create pthread_once)
# The models of tokenizers.
LDFLAGS_test_text_model_faults = $(call wrapped,cti_arena_take cti_arena_copy) $(MALLOCS)
LDFLAGS_test_graph = $(LDFLAGS_test_faults)
LDFLAGS_test_watch = $(LDFLAGS_test_faults)
LDFLAGS_test_module_types = $(LDFLAGS_test_faults)
LDFLAGS_test_gradcheck_html = $(LDFLAGS_test_faults)
LDFLAGS_test_jacobian_calls = $(LDFLAGS_test_faults)
$(foreach t,disk_model documents finetune labels preferences run_log,$(BUILD)/tests/test_$(t)$(EXE)): $(PARTS_LIB)
$(BUILD)/tests/test_amx$(EXE): $(BUILD)/obj/tests/kernels/amx_avx512.o
DIST_TESTS = $(filter $(addprefix $(BUILD)/tests/,test_dist$(EXE) test_dist_%),$(TESTS))
$(foreach t,text_normalize text_faults,$(BUILD)/tests/test_$(t)$(EXE)): $(BUILD)/obj/tests/text/text_probe.o
$(DIST_TESTS): $(BUILD)/obj/tests/ranks/thread_comm.o

EXAMPLES_TEST = $(if $(filter-out $(EXT),ext/data ext/ranks),,$(BUILD)/tests/test_examples)
INSTALL_TEST  = $(BUILD)/tests/test_install
$(BUILD)/tests/test_examples: $(PROGRAMS) $(EXAMPLES)
$(INSTALL_TEST): $(STATIC) $(SHARED)
$(BUILD)/tests/test_examples $(INSTALL_TEST):
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/%s/check\n' $(@F:test_%=%) > $@ && chmod +x $@

# Tests with these tags need what Windows lacks.
ifeq ($(OS_NAME),windows)
export CK_EXCLUDE_TAGS ?= forks posix exact-sin
endif
