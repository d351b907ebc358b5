# Linux on other machines, each a line of packaging/cross.txt. The tests of a program run in one
# process (CK_FORK=no), as qemu translates the code of each process anew. qemu 7.2 aborts in a child
# of fork that starts threads (cpu_exec: cpu == current_cpu), so tests tagged "forks" are left out.

TARGET ?= aarch64
MACHINES = $(shell awk '/^[a-z]/ {print $$1}' packaging/cross.txt)
machine_column = $(shell awk -F ' *[|] *' '$$1 == "$(TARGET)" {print $$$(1)}' packaging/cross.txt)
known_target = $(if $(filter $(MACHINES),$(TARGET)),true,echo "TARGET is one of $(MACHINES)"; exit 1)
CROSS_CC  = $(patsubst ZIG,$(zig),$(call machine_column,2))
CROSS_AR  = $(patsubst ZIG,$(zig),$(call machine_column,3))
CROSS_RUN = $(call machine_column,4)
# Debian's Check for the machine, if there is one.
CROSS_CHECK = /usr/lib/$(patsubst %-gcc,%,$(firstword $(call machine_column,2)))/pkgconfig
ON_MACHINE = $(if $(CROSS_RUN),RUN="$(CROSS_RUN)" CK_EXCLUDE_TAGS=forks) CK_FORK=no PKG_CONFIG_LIBDIR=$(CROSS_CHECK) \
    $(MAKE) BUILD=$(BUILD)/$(TARGET) CC="$(CROSS_CC)" AR="$(CROSS_AR)" \
    CFLAGS="$(strip $(call machine_column,6) $(CFLAGS))" \
    $(if $(wildcard $(CROSS_CHECK)/check.pc),,OWN_CHECK=1) COURSE_TEST= \
    $(if $(zig_if_asked),NOT_HERE="$(ON_STATIC_NOT)" EXAMPLES_TEST= INSTALL_TEST=)
# In a static program --wrap also catches calls inside the C library (opendir's open fails), and zig's linker
# also those inside one object file. The strtoll of zig's musl stops in a number beyond 64 bits, on which the
# examples' test fails.
ON_STATIC_NOT = io_faults shard_faults disk_model op_faults
zig_if_asked = $(if $(findstring ZIG,$(call machine_column,2)),$(ZIG)/ready)

cross: cross-tools \
    ## the suite but for the course on another machine: \
    TARGET=aarch64, arm, i386, musl, musl-static, riscv64 or s390x; \
    see make cross-help
	+$(ON_MACHINE) test
cross-build: cross-tools ## everything built for TARGET, nothing run
	+$(ON_MACHINE) all tests
cross-demo: cross-tools ## the demo on TARGET=musl-static: programs that need no shared library
	+$(ON_MACHINE) demo
cross-tools:
	@$(known_target)
	@$(if $(zig_if_asked),$(MAKE) -s $(zig_if_asked),command -v $(firstword $(CROSS_CC)) >/dev/null) \
	    $(if $(CROSS_RUN),&& command -v $(firstword $(CROSS_RUN)) >/dev/null) || { $(MAKE) -s cross-help; exit 1; }
cross-help:
	@$(known_target)
	@echo "For TARGET=$(TARGET), on Debian:"
	@echo "  apt-get install $(strip $(call machine_column,5) $(if $(CROSS_RUN),qemu-user) make python3 python3-venv)"

# Runs a part of the suite on every machine of CROSS_PART, because CI has no time for more.
CROSS_PART ?= $(MACHINES)
cross-part: ## a few suites, every 40th or PART=20, on each machine of CROSS_PART="arm musl"
	+@for target in $(CROSS_PART); do \
	    $(MAKE) BUILD=$(BUILD)/part ZIG=$(ZIG) PAGES= cross TARGET=$$target SUITES="$(SHORT_SUITES)" \
	        PART=$(or $(PART),40) OPT=-O1 || exit 1; \
	done
# Each takes longer than a minute in qemu.
LONG_SUITES = op_faults faults ops ops_more attention_fused gemm gradcheck_mutants gradcheck_right disk_model io_faults
SHORT_SUITES = $(filter-out $(LONG_SUITES),$(CHECK_PROGRAMS))

# Machines of this kind with fewer instructions, in qemu; valgrind has no AVX-512 either.
OLDER = Haswell Nehalem
older-x86: $(or $(CHOSEN),$(BUILD)/tests/test_nn $(BUILD)/tests/test_empty) \
    ## test programs on x86-64 without AVX-512, and without AVX2; needs qemu-user
	@for cpu in $(OLDER); do for program in $^; do \
	    qemu-x86_64 -cpu $$cpu $$program > $(BUILD)/older.log 2>&1 || { cat $(BUILD)/older.log; exit 1; }; \
	    echo "$$cpu: $$(basename $$program): $$(grep '^[0-9]*%' $(BUILD)/older.log)"; \
	done; done
.PHONY: older-x86
.PHONY: cross cross-build cross-demo cross-tools cross-help cross-part

compilers: \
    ## everything by every installed GCC and clang, -O0 to -O3, C11 and C23, LTO, -m32, without warnings: \
    COMPILERS="gcc-11" WAYS="O3-c11"; hours
	+@BUILD=$(BUILD) $(if $(wildcard $(ZIG)/ready),ZIG="$(zig)") $(if $(WAYS),WAYS="$(WAYS)") TESTS="$(TESTS_RUN)" \
	    packaging/compilers $(COMPILERS)
.PHONY: compilers
