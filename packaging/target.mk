# The system that is compiled for, as CC names it. What differs between systems is in files named after one of them.

MACHINE_TRIPLE := $(shell $(CC) -dumpmachine)
OS_NAME  = $(if $(findstring mingw,$(MACHINE_TRIPLE))$(findstring windows,$(MACHINE_TRIPLE)),windows,$(strip \
    $(if $(findstring wasi,$(MACHINE_TRIPLE)),wasi,posix)))
OF_OS    = $(foreach n,$(OS_NAME) $(if $(filter posix wasi,$(OS_NAME)),unix),src/os/os_$(n)% programs/system_$(n).c)
OTHER_OS = $(filter-out $(OF_OS),$(wildcard src/os/os_*.c programs/system_*.c))
IS_MACOS = $(findstring macos,$(MACHINE_TRIPLE))$(findstring darwin,$(MACHINE_TRIPLE))

# What the compiler takes for granted. Where expressions of floats are doubles under -std=c11 (s390x,
# __FLT_EVAL_METHOD__ 1), GCC refuses a vector of floats times a float; with -fexcess-precision=fast they
# are floats, as elsewhere. The x87 computes a double with 64 bits instead of 53 until it stores it, so
# SSE2 is used.
FACTS   := $(shell echo __FLT_EVAL_METHOD__ __SIZEOF_POINTER__ __i386__ | $(CC) -std=c11 -E -P -x c - 2>/dev/null)
IS_I386 := $(filter 1,$(word 3,$(FACTS)))
EXCESS   = $(if $(IS_I386),-msse2 -mfpmath=sse,$(if $(filter 1 2,$(firstword $(FACTS))),-fexcess-precision=fast))

# GCC keeps vectors of 32 and 64 bytes on Windows' stack, which is aligned to 16 (GCC bug 54412), so
# its assembler makes moves of them unaligned. CTI_BUILD: the public functions are exported.
ifeq ($(OS_NAME),windows)
IS_GCC := $(findstring Free Software,$(shell $(CC) --version))
EXE = .exe
SYSTEM_FLAGS = -DCTI_BUILD -D__USE_MINGW_ANSI_STDIO=1 -Wno-format \
    $(if $(IS_GCC),-Wa$(comma)-muse-unaligned-vector-move)
SYSTEM_LIBS  = -static-libgcc -Wl,--stack,1048576
else ifneq ($(OS_NAME),wasi)
SYSTEM_FLAGS = -D_POSIX_C_SOURCE=200809L \
    $(if $(filter 4,$(word 2,$(FACTS))),-D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64) -fPIC -pthread
SYSTEM_LIBS  = -pthread
endif

# The shared library under its full name, the name that programs ask for, and the name that they link.
ifeq ($(OS_NAME),windows)
SHARED = $(BUILD)/libcotangent-$(ABI).dll
SONAME = libcotangent-$(ABI).dll
LINKED = libcotangent.dll.a
SHARED_FLAGS = -Wl,--out-implib,$(BUILD)/$(LINKED)
else ifneq (,$(IS_MACOS))
SHARED = $(BUILD)/libcotangent.$(VERSION).dylib
SONAME = libcotangent.$(ABI).dylib
LINKED = libcotangent.dylib
SHARED_FLAGS = -Wl,-install_name,@rpath/$(SONAME) -Wl,-compatibility_version,$(ABI).0 \
    -Wl,-current_version,$(VERSION)
else
SHARED = $(BUILD)/libcotangent.so.$(VERSION)
SONAME = libcotangent.so.$(ABI)
LINKED = libcotangent.so
SHARED_FLAGS = -Wl,-soname,$(SONAME) -Wl,--no-undefined
endif
