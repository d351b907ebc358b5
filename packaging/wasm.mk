# WebAssembly: 32 bits, SIMD128, WASI preview 1, one thread; docs/platforms.md. `make wasm` calls make
# again with zig as CC, and then OS_NAME is wasi.

# setjmp and longjmp, which the tests' assertions use, are exceptions of WebAssembly and need flags.
ifeq ($(OS_NAME),wasi)
EXE = .wasm
SHARED =
OWN_CHECK = 1
export CK_EXCLUDE_TAGS ?= forks posix threads locks full-folder proc
SYSTEM_FLAGS = -D_GNU_SOURCE
SYSTEM_LIBS = -Wl,-z,stack-size=8388608
WASI_CHECK = -Itests/portable/wasi -include tests/portable/wasi.h -mexception-handling \
    -mllvm -wasm-enable-sjlj -mllvm -wasm-use-legacy-eh=false
WASI_NOT_HERE = $(WRAPPED) profile_output $(call programs_of,ranks)
endif

WASM_TOOLS = $(ZIG)/wasmtime
$(WASM_TOOLS): tests/wasm/requirements.txt $(ZIG)/ready
	$(ZIG)/bin/pip install -q -r $<
	@touch $@
WASM = $(BUILD)/wasm
ON_WASM = $(MAKE) BUILD=$(WASM) CC="$(zig) cc -Wno-deprecated -target wasm32-wasi -msimd128" AR="$(zig) ar"
wasm: $(ZIG)/ready ## build library, examples and tests for WebAssembly (wasm32, SIMD128, WASI) with zig
	+$(ON_WASM) all tests
wasm-test: $(WASM_TOOLS) ## the suite in wasmtime, or SUITES="nn io"
	+RUN="$(abspath $(ZIG))/bin/python tests/wasm/run" $(ON_WASM) test
# The page of tokens has a tokenizer of this project's own pages.
$(BUILD)/web/tokenizer.json: $(BUILD)/tokenize README.md $(wildcard docs/*.md)
	@mkdir -p $(@D)
	$(RUN) $(BUILD)/tokenize --train 2000 --out $@ $(filter %.md,$^) > $(@D)/tokenizer.log
web: $(ZIG)/ready $(BUILD)/web/tokenizer.json ## examples/web: pages that check, tokenize and train in the browser, in build/web/
	+$(ON_WASM) $(WASM)/seq2seq_web.wasm $(WASM)/gradcheck_web.wasm $(WASM)/tokenizer_web.wasm
	cp $(WASM)/*_web.wasm examples/web/* $(BUILD)/web
	@echo "python3 -m http.server -d $(BUILD)/web, then http://localhost:8000"
web-test: web ## these pages in a headless Chromium: one learns to 99 %, one finds every mistake; build/web/page.png
	python3 tests/browser/page $(BUILD)/web
	python3 tests/browser/gradcheck $(BUILD)/web
	python3 tests/browser/tokens $(BUILD)/web $(BUILD)/tokenize
.PHONY: wasm wasm-test web web-test

ifeq ($(OS_NAME),wasi)
$(BUILD)/obj/programs/%.o $(BUILD)/obj/examples/%.o: ALL_CFLAGS += -D_WASI_EMULATED_SIGNAL # for sig_atomic_t; no signal comes
endif

# A module without main (reactor): the page calls its exported functions.
$(BUILD)/%_web.wasm: $(BUILD)/obj/examples/web/%_web.o $(PARTS_LIB) $(STATIC)
	$(call if_quiet,LD)$(CC) -mexec-model=reactor $(filter %.o,$^) $(PARTS_LIB) $(STATIC) -o $@ $(LIBS) -Wl,--strip-debug
