# The Python package: over the tree's library for tests, and as wheels.

PACKAGE = $(BUILD)/python/cotangent
PROBES = tests/support/cases.h tests/io/gguf_probe.h tests/text/text_probe.h tests/text/jinja_probe.h
$(PACKAGE)/_headers.py: $(PROBES) python/make_ffi.py docs/declarations.py \
    $(wildcard include/cotangent/*.h python/cotangent/*.py) $(BUILD)/venv/ready $(SHARED)
	@mkdir -p $(@D)
	@ln -sf $(abspath $(wildcard python/cotangent/*.py)) $(@D)
	@ln -sf $(abspath $(BUILD)/$(LINKED)) $(@D)/$(LINKED)
	$(BUILD)/venv/bin/python python/make_ffi.py $(@D) $(PROBES)
python-test: $(PACKAGE)/_headers.py ## the Python package over the tree's library, and its page; makes build/venv
	PYTHONPATH=$(BUILD)/python $(BUILD)/venv/bin/python -m pytest -q -p no:cacheprovider tests/python

# A wheel for each machine, by zig from the amalgamation, for every Linux with glibc 2.17 or newer (PEP 600).
WHEEL = $(BUILD)/wheel
WHEEL_MACHINES = x86_64 aarch64
GLIBC = 2.17
$(WHEEL)/venv/ready: python/requirements.txt
	python3 -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/pip install -q -r $<
	@touch $@
$(WHEEL)/%/libcotangent.so: $(AMALGAMATION)/cotangent.c $(ZIG)/ready
	@mkdir -p $(@D)
	$(zig) cc -target $*-linux-gnu.$(GLIBC) -std=c11 -D_GNU_SOURCE -O3 -fPIC -fvisibility=hidden -shared -s $< -o $@ -lm -pthread
$(WHEEL)/%/ready: $(WHEEL)/%/libcotangent.so $(WHEEL)/venv/ready pyproject.toml python/CMakeLists.txt python/make_ffi.py \
    $(wildcard python/cotangent/*.py) docs/python.md
	@rm -f $(@D)/*.whl
	. $(WHEEL)/venv/bin/activate && pip wheel -q . --no-deps --no-build-isolation -w $(@D) \
	    -C cmake.define.COTANGENT_LIBRARY=$(abspath $<) -C build-dir=$(abspath $(@D))/cmake && \
	    python -m wheel tags --remove --platform-tag manylinux_$(subst .,_,$(GLIBC))_$* $(@D)/*.whl
	@touch $@
wheel: $(WHEEL_MACHINES:%=$(WHEEL)/%/ready) ## wheels of the Python package for Linux on x86_64 and aarch64, in build/wheel; needs cmake
	@ls $(WHEEL_MACHINES:%=$(WHEEL)/%/*.whl)
$(WHEEL)/aarch64/mha: examples/mha.c $(WHEEL)/aarch64/libcotangent.so
	$(zig) cc -target aarch64-linux-gnu.$(GLIBC) -Iinclude $< -o $@ -L$(@D) -lcotangent -Wl,-rpath,'$$ORIGIN' -lm -pthread
wheel-test: wheel $(WHEEL)/aarch64/mha \
    ## these wheels: what they ask of a system, the tests in an empty venv, aarch64's library in qemu; \
    needs qemu-user and libc6-arm64-cross
	python/wheel_test $(WHEEL)
.PHONY: python-test wheel wheel-test
