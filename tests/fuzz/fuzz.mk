# Fuzzing by libFuzzer, of clang.

# Only the scalar kernels are built, without coverage: the search is for paths of the engine.
SECONDS ?= 60
FUZZ     = load gguf checkpoint program tokens log dist text chat answer
FUZZING  = BUILD=$(BUILD)/fuzz CC=clang ISAS=scalar OPT="-O1 -g1" KERNEL_SANITIZE=-fsanitize=address \
           SANITIZE="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
fuzz: ## hostile files, GGUF, checkpoints, token files, tokenizers, chats, logs of runs, answers of submissions and programs of calls, SECONDS=60 each; needs clang
	$(MAKE) $(FUZZING) $(FUZZ:%=$(BUILD)/fuzz/fuzz_%)
	@folder=$$(mktemp -d /dev/shm/cotangent-fuzz-XXXXXX 2>/dev/null || mktemp -d) && \
	trap 'rm -rf "$$folder"' EXIT INT TERM && \
	for target in $(FUZZ); do \
	    mkdir -p $(BUILD)/fuzz/corpus/$$target && echo "== $$target" && \
	    FUZZ_FOLDER=$$folder $(BUILD)/fuzz/fuzz_$$target -seed_inputs=$$(tests/fuzz/seeds $$target $(BUILD)/fuzz/seeds) \
	        -max_total_time=$(SECONDS) -print_final_stats=1 -verbosity=0 -print_funcs=0 \
	        -artifact_prefix=$(BUILD)/fuzz/$$target- $(BUILD)/fuzz/corpus/$$target || exit 1; \
	done
FUZZ_OBJ = $(FUZZ:%=$(BUILD)/obj/tests/fuzz/%.o)
$(FUZZ_OBJ): $(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) -I. -MMD -MP -c $< -o $@
$(BUILD)/fuzz_log: $(PARTS_LIB)
LDFLAGS_fuzz_program = $(LDFLAGS_test_faults)
$(BUILD)/fuzz_dist: $(BUILD)/obj/bench/thread_comm.o
$(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/obj/bench/cases.o $(STATIC)
	$(call if_quiet,LD)$(CC) $(LINK_FLAGS) -fsanitize=fuzzer $(filter %.o,$^) $(filter $(PARTS_LIB),$^) $(STATIC) -o $@ $(LIBS) $(LDFLAGS_$(@F))
.PHONY: fuzz
