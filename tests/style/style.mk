# clang-format, clang-tidy, and the commands of the compiler for clangd.

# compile_commands.json is for clangd. Its kernels are those of the widest instruction set, in f32.
WIDEST = $(lastword $(ISAS))
COMMANDS_KERNELS = $($(WIDEST)_FLAGS) -DCTI_SET=$(WIDEST)_f32
COMMANDS_FILES = $(wildcard docs/*.c $(FOLDERS:%=%/*.c) \
    programs/*.c examples/*.c course/*.c course/*/*.c tests/*/*.c)
json = $(subst ",\",$(subst \,\\,$(1)))
flags_of = $(ALL_CFLAGS) $(if $(filter $(REAL:%=src/kernels/%.c),$(1)),$(COMMANDS_KERNELS)) \
    $(if $(filter src/core/isa.c,$(1)),$(DEFINE_SETS)) \
    $(if $(filter $(HEIRS:%=src/kernels/%.c),$(1)),$($(patsubst src/kernels/%.c,%,$(1))_FLAGS)) \
    $(if $(filter tests/%,$(1)),-I. $(CHECK_CFLAGS))
command_of = {"directory": "$(call json,$(CURDIR))", "file": "$(1)", \
    "command": "$(strip $(call json,$(CC) $(call flags_of,$(1)) -c $(1)))"}
compile_commands.json: FORCE
	$(file >$@,[$(call command_of,$(firstword $(COMMANDS_FILES))))
	$(foreach f,$(wordlist 2,9999,$(COMMANDS_FILES)),$(file >>$@,$(comma)$(call command_of,$(f))))
	$(file >>$@,])
	@echo "wrote $@ for $(words $(COMMANDS_FILES)) sources"

# The versions are those of tests/style/requirements.txt, because other versions format some lines differently.
STYLE = $(BUILD)/style/venv
$(STYLE)/ready: tests/style/requirements.txt
	python3 -m venv $(STYLE)
	$(STYLE)/bin/pip install -q -r $<
	@touch $@

C_FOLDERS = docs include/cotangent $(FOLDERS) programs examples examples/web course course/* course/tests/* \
    $(filter-out tests/portable,$(patsubst %/,%,$(wildcard tests/*/))) bench \
    ext/ranks/mpi ext/ranks/mpi/include/cotangent ext/ranks/mpi/tests
C_FILES = $(foreach d,$(C_FOLDERS),$(wildcard $(d)/*.c $(d)/*.h))
format: $(STYLE)/ready ## clang-format in place
	$(STYLE)/bin/clang-format -i $(C_FILES)
format-check: $(STYLE)/ready ## fail where clang-format would change something
	@$(STYLE)/bin/clang-format --dry-run -Werror $(C_FILES) && echo "format: as .clang-format says"

# With asserts, because a variable may be used in an assert only.
tidy: $(STYLE)/ready compile_commands.json \
    ## clang-tidy, the checks of .clang-tidy, which are errors; PART=3: every third file
	@printf '%s\n' $(call part_of,$(filter-out $(OTHER_OS),$(wildcard $(FOLDERS:%=%/*.c) programs/*.c examples/*.c))) | \
	    xargs -P $(shell nproc) -n 8 $(STYLE)/bin/clang-tidy --quiet -p . --extra-arg=-DCTI_ASSERTS && echo "tidy: clean"
.PHONY: format format-check tidy
