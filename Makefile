# cotangent: make help
CC      ?= cc
BUILD   ?= build
OPT     ?= -O3
WARN     = -Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Werror=vla
CFLAGS  ?= -g
BASE     = -std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -pthread $(OPT) $(WARN)
LDLIBS   = -lm -pthread

SRC  = $(wildcard src/*.c src/io/*.c ops/*.c nn/*.c nn/optim/*.c)
OBJ  = $(SRC:%.c=$(BUILD)/obj/%.o)

ARCH := $(shell $(CC) -dumpmachine)
ISAS  = scalar
scalar_FLAGS = -DCT_VECTOR_BYTES=0
ifneq (,$(findstring x86_64,$(ARCH)))
ISAS += avx2 avx512
avx2_FLAGS   = -DCT_VECTOR_BYTES=32 -ffp-contract=fast -mavx2 -mfma
avx512_FLAGS = -DCT_VECTOR_BYTES=64 -ffp-contract=fast -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma -mprefer-vector-width=512
endif
ifneq (,$(findstring aarch64,$(ARCH)))
ISAS += neon
neon_FLAGS   = -DCT_VECTOR_BYTES=16 -ffp-contract=fast
endif
KOBJ = $(foreach i,$(ISAS),$(BUILD)/obj/src/kernels/real_$(i)_f32.o $(BUILD)/obj/src/kernels/real_$(i)_f64.o) \
       $(BUILD)/obj/src/kernels/int.o $(BUILD)/obj/src/kernels/isa.o

all: $(BUILD)/libcotangent.a
$(BUILD)/libcotangent.a: $(OBJ) $(KOBJ)
	rm -f $@; $(AR) rcs $@ $^
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/obj/src/kernels/isa.o: src/kernels/isa.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(ISAS:%=-DCT_HAVE_%) -MMD -MP -c $< -o $@
define KERNEL
$(BUILD)/obj/src/kernels/real_$(1)_f32.o: src/kernels/real.c
	@mkdir -p $$(@D)
	$$(CC) $$(BASE) $$(CFLAGS) $$($(1)_FLAGS) -DCT_TABLE=ct_kernels_$(1)_f32 -MMD -MP -c $$< -o $$@
$(BUILD)/obj/src/kernels/real_$(1)_f64.o: src/kernels/real.c
	@mkdir -p $$(@D)
	$$(CC) $$(BASE) $$(CFLAGS) $$($(1)_FLAGS) -DCT_F64_KERNELS -DCT_TABLE=ct_kernels_$(1)_f64 -MMD -MP -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call KERNEL,$(i))))
clean:
	rm -rf $(BUILD)
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
.PHONY: all clean
