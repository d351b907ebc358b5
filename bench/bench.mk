# Speed and memory; bench/README.md.

# Each program with the objects that it links besides the library.
BENCH = $(addprefix $(BUILD)/bench/,gemm ops peak vmath gradcheck_eps) \
    $(if $(filter ext/models,$(EXT)),$(BUILD)/bench/rows) $(if $(filter ext/text,$(EXT)),$(BUILD)/bench/encode)
bench_object = $(addprefix $(BUILD)/obj/bench/,$(addsuffix .o,$(1)))
MACHINE = $(call bench_object,machine timing $(ISAS:%=fma_%))
$(BUILD)/bench/rows: $(call bench_object,timing gpt micro attention decode models)
$(BUILD)/bench/gemm: $(MACHINE)
$(BUILD)/bench/ops: $(call bench_object,timing cases)
$(BUILD)/bench/peak: $(MACHINE)
$(BENCH): $(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) $(LINK_FLAGS) $(filter %.o,$^) $(STATIC) -o $@ $(LIBS) -ldl

WITHOUT_CHECK = $(call bench_object,cases thread_comm)
$(BUILD)/obj/bench/cases.o: tests/support/cases.c
$(BUILD)/obj/bench/thread_comm.o: tests/ranks/thread_comm.c
$(WITHOUT_CHECK): $(BUILD)/flags # which the rule for tests asks for
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) -I. -MMD -MP -c $(filter %.c,$^) -o $@

define bench_fma
$(BUILD)/obj/bench/fma_$(1).o: bench/fma.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call if_quiet,CC)$$(CC) $$(ALL_CFLAGS) $$($(1)_FLAGS) -DCT_FMA_F32=fma_$(1)_f32 -DCT_FMA_F64=fma_$(1)_f64 \
	    -MMD -MP -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call bench_fma,$(i))))
$(BUILD)/obj/bench/machine.o: ALL_CFLAGS += '-DFMA_LOOPS=$(foreach i,$(ISAS),LOOP($(i)))'

bench: $(BENCH) \
    ## speed and memory, beside PyTorch where build/venv has it: ROW=toy,gemm THREADS=1 ROUNDS=9; see bench/README.md
	@command -v python3 >/dev/null || \
	    { echo "make bench needs python3. Without it, try: echo 10 | $(BUILD)/bench/rows toy"; exit 1; }
	@BUILD=$(BUILD) bench/run

losses: $(BUILD)/char_lm $(BUILD)/finetune \
    ## what rounding does to learning: char_lm in f32 and bf16, three seeds each: TEXT=FILE JOBS=2; or MODEL=FOLDER; see bench/losses
	@BUILD=$(BUILD) TEXT="$(TEXT)" bench/losses

gradcheck-plot: $(BUILD)/bench/gradcheck_eps ## docs/gradcheck_eps.svg: the error of differences by the step
	$< | python3 bench/gradcheck_plot.py docs/gradcheck_eps.svg
.PHONY: bench losses gradcheck-plot
