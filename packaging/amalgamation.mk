# The library as two files, and the ways in which another project can use it.

AMALGAMATION = $(BUILD)/amalgamation
LIBRARY_FILES = $(wildcard include/cotangent/*.h $(FOLDERS:%=%/*.[ch]))
amalgamation: $(AMALGAMATION)/cotangent.c ## the library as two files, in build/amalgamation/; EXT=: the core alone
AMALGAMATES = $(addprefix packaging/,amalgamate amalgamated.c.in names.py)
$(AMALGAMATION)/cotangent.c: $(AMALGAMATES) src/kernels/sets.txt $(LIBRARY_FILES) $(BUILD)/flags
	packaging/amalgamate $(@D) $(FOLDERS)
$(AMALGAMATION)/cotangent.o: $(AMALGAMATION)/cotangent.c $(BUILD)/flags
	$(call if_quiet,CC)$(CC) -O3 -fPIC -fvisibility=hidden -Wall -Wextra -Werror \
	    -DCTI_WITHOUT_memory -DCTI_WITHOUT_handle -DCTI_WITHOUT_isa -c $< -o $@
packaging-check: all $(BUILD)/obj/tests/support/cases.o \
    ## what docs/install.md says, from projects outside of this tree; needs cmake, and meson to try that
	BUILD=$(abspath $(BUILD)) CC='$(CC)' packaging/check
.PHONY: amalgamation packaging-check
