# A source of kernels with CTI_PUT is compiled for each instruction set of this machine in the table and for each of f32
# and f64. An heir is a set that adds a few kernels to another's table, from a source of its name. Other sources are
# compiled once. CMakeLists.txt and packaging/amalgamate find the sources by the same rule.

ARCH := $(if $(IS_I386),i386,$(patsubst arm64,aarch64,$(firstword $(subst -, ,$(MACHINE_TRIPLE)))))
SETS := src/kernels/sets.txt
sets_of = $(shell awk '($$2 == "any" || $$2 == "$(ARCH)") && $$4 == "$(1)" {print $$1}' $(SETS))
ISAS ?= $(call sets_of,real)
define kernel_flags
$(1)_FLAGS := $(shell awk '$$1 == "$(1)" {printf "-DCTI_VECTOR_BYTES=%s", $$3; \
    for (i = 5; i <= NF; i++) printf " %s", $$i}' $(SETS))
endef
# AMX is left out on Windows, because GCC's tile loads take a stride as a long, which has 32 bits there.
HEIRS_OF_ARCH := $(filter-out $(if $(filter windows,$(OS_NAME)),amx),$(call sets_of,heir))
$(foreach i,$(ISAS) $(HEIRS_OF_ARCH),$(eval $(call kernel_flags,$(i))))
has_flags = $(shell $(CC) $($(1)_FLAGS) -E -x c /dev/null >/dev/null 2>&1 && echo $(1))
HEIRS := $(if $(filter avx512,$(ISAS)),$(foreach i,$(HEIRS_OF_ARCH),$(call has_flags,$(i))))
KERNELS = $(BUILD)/obj/src/kernels
REAL := $(patsubst src/kernels/%.c,%,$(shell grep -lw CTI_PUT src/kernels/*.c))
ONCE := $(filter-out $(REAL) $(shell awk '$$4 == "heir" {print $$1}' $(SETS)),$(patsubst src/kernels/%.c,%, \
    $(wildcard src/kernels/*.c)))
KOBJ = $(foreach i,$(ISAS),$(foreach t,f32 f64,$(REAL:%=$(KERNELS)/%_$(i)_$(t).o))) \
    $(HEIRS:%=$(KERNELS)/%.o) $(ONCE:%=$(KERNELS)/%.o)

# The -O2 in the CFLAGS of a distribution is meant for programs in general; kernels then stay at -O3. Who wants less says -O1, or OPT=-O2.
RAISED = $(if $(filter -O2,$(lastword $(filter -O%,$(CFLAGS)))),-O3)
KERNEL_CFLAGS = $(BASE) $(OPT) $(WARN) $(KERNEL_SANITIZE) $(CPPFLAGS) $(CFLAGS) $(RAISED)
$(ONCE:%=$(KERNELS)/%.o): ALL_CFLAGS += $(RAISED)

# The kernels of one source for a set and a type, with the flags of both.
define kernel_object
$(KERNELS)/$(1).o: src/kernels/$(2).c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call if_quiet,CC)$$(CC) $$(KERNEL_CFLAGS) $(3) -MMD -MP -c $$< -o $$@
endef
# random.c never makes one instruction of a b + c: its results are the same bits on every ISA.
flags_of_set = $($(1)_FLAGS) $(if $(filter f64,$(2)),-DCTI_F64_KERNELS) -DCTI_SET=$(1)_$(2) \
    $(if $(filter random,$(3)),-ffp-contract=off)
$(foreach i,$(HEIRS),$(eval $(call kernel_object,$(i),$(i),$($(i)_FLAGS))))
$(foreach s,$(REAL),$(foreach i,$(ISAS),$(foreach t,f32 f64,$(eval \
    $(call kernel_object,$(s)_$(i)_$(t),$(s),$(call flags_of_set,$(i),$(t),$(s)))))))

# The list of these sets, from the plainest to the best.
DEFINE_SETS = '-DCTI_SETS=$(foreach i,$(ISAS),SET($(i))) $(foreach i,$(HEIRS),HEIR($(i)))'
$(BUILD)/obj/src/core/isa.o: ALL_CFLAGS += $(DEFINE_SETS)
