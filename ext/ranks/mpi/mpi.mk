# libcotangent_mpi, which the Makefile includes. MPICC=mpicc.mpich for another MPI; with the same
# BUILD it rebuilds what is MPI's.
MPICC    ?= mpicc
MPI       = $(BUILD)/mpi
MPI_AT    = ext/ranks/mpi
MPI_OBJ   = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out %/world_mpi.c,$(wildcard $(MPI_AT)/*.c)))
MPI_STATIC = $(BUILD)/libcotangent_mpi.a
MPI_SONAME = $(subst libcotangent,libcotangent_mpi,$(SONAME))
MPI_SHARED = libcotangent_mpi.so.$(VERSION)
MPI_TESTS = $(patsubst $(MPI_AT)/tests/%.c,$(MPI)/%,$(wildcard $(MPI_AT)/tests/*.c))
# OMPI_CC and MPICH_CC name the compiler that mpicc runs.
mpicc     = OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC)
has_mpi   = command -v $(MPICC) >/dev/null || \
    { echo "$@ needs $(MPICC): apt-get install libopenmpi-dev openmpi-bin"; exit 1; }
# A statically linked program needs these too: mpicc's own line without the compiler.
mpi_libs  = $(filter -L% -l% -Wl%,$(shell $(MPICC) -show 2>/dev/null))

mpi: $(MPI_STATIC) $(BUILD)/$(MPI_SHARED) $(BUILD)/char_lm_mpi $(if $(filter ext/models,$(EXT)),$(BUILD)/finetune_mpi) \
    ## libcotangent_mpi, ranks as processes of MPI, char_lm_mpi and finetune_mpi, in build/; needs mpicc, or MPICC=mpicc.mpich

$(BUILD)/mpi_flags: FORCE
	@$(has_mpi)
	@mkdir -p $(@D)
	@flags='$(MPICC) $(shell $(MPICC) -show 2>/dev/null) $(ALL_CFLAGS)'; \
	    echo "$$flags" | cmp -s - $@ || echo "$$flags" > $@

$(BUILD)/obj/$(MPI_AT)/%.o: $(MPI_AT)/%.c $(BUILD)/mpi_flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(mpicc) $(ALL_CFLAGS) -I$(MPI_AT)/include -MMD -MP -c $< -o $@

$(MPI_STATIC): $(MPI_OBJ)
	@rm -f $@
	$(call if_quiet,AR)$(AR) rcs $@ $(MPI_OBJ)

$(BUILD)/$(MPI_SHARED): $(MPI_OBJ) $(SHARED)
	$(call if_quiet,LD)$(mpicc) -shared -Wl,-soname,$(MPI_SONAME) -Wl,--no-undefined $(LINK_FLAGS) $(MPI_OBJ) \
	    -o $@ -L$(BUILD) -lcotangent $(LIBS)
	@ln -sf $(@F) $(BUILD)/$(MPI_SONAME)
	@ln -sf $(MPI_SONAME) $(BUILD)/libcotangent_mpi.so

$(BUILD)/char_lm_mpi $(BUILD)/finetune_mpi: $(BUILD)/%_mpi: $(BUILD)/obj/programs/%.o $(BUILD)/obj/$(MPI_AT)/world_mpi.o \
    $(PARTS_LIB) $(MPI_STATIC) $(STATIC)
	$(call if_quiet,LD)$(mpicc) $(LINK_FLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIBS)

# The engine once more, with messages cut so small that the tests have several segments.
MPI_SMALL = $(BUILD)/obj/$(MPI_AT)/tests/small_engine.o
$(MPI_SMALL): $(MPI_AT)/mpi_engine.c $(BUILD)/mpi_flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(mpicc) $(ALL_CFLAGS) -DCTI_MPI_SEGMENT=100000 -I$(MPI_AT)/include -MMD -MP -c $< -o $@
$(MPI)/transfers: $(MPI_SMALL) $(BUILD)/obj/$(MPI_AT)/mpi.o

$(MPI)/%: $(BUILD)/obj/$(MPI_AT)/tests/%.o $(MPI_STATIC) $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(mpicc) $(LINK_FLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIBS)

test-mpi: $(MPI_TESTS) mpi $(BUILD)/char_lm $(BUILD)/finetune $(BUILD)/tokenize ## what several ranks compute and how they fail, under mpiexec; needs mpicc
	@BUILD=$(BUILD) MPI=$(MPI) MPICC='$(MPICC)' CC='$(CC)' SANITIZE='$(SANITIZE)' $(MPI_AT)/tests/run

$(MPI)/steps: $(BUILD)/obj/$(MPI_AT)/bench/steps.o $(MPI_STATIC) $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(mpicc) $(LINK_FLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(LIBS)
bench-mpi: $(MPI)/steps ## what several ranks cost, in time and bytes; needs mpicc and python3
	@MPI=$(MPI) MPICC='$(MPICC)' $(MPI_AT)/bench/run

# `make install` does not install these.
MPI_HEADERS = $(notdir $(wildcard $(MPI_AT)/include/cotangent/*.h))
mpi-install: mpi \
    ## libcotangent_mpi, its header and cotangent_mpi.pc, beside what install has put there (PREFIX, DESTDIR)
	@$(absolute)install -d "$(TO_INCLUDE)" "$(TO_LIB)/pkgconfig"
	install -m 644 $(MPI_AT)/include/cotangent/*.h "$(TO_INCLUDE)"
	install -m 644 $(MPI_STATIC) "$(TO_LIB)"
	install -m 755 $(BUILD)/$(MPI_SHARED) "$(TO_LIB)"
	$(STRIP) -S "$(TO_LIB)/$(notdir $(MPI_STATIC))" "$(TO_LIB)/$(MPI_SHARED)"
	ln -sf $(MPI_SHARED) "$(TO_LIB)/$(MPI_SONAME)"
	ln -sf $(MPI_SONAME) "$(TO_LIB)/libcotangent_mpi.so"
	@$(call configured,pkgconfig/cotangent_mpi.pc,'LIBS=$(mpi_libs) $(LIBS)')
	@! command -v $(PYTHON3) >/dev/null || { $(PYTHON3) docs/make_man $(MPI)/man $(MPI_AT)/include/cotangent/*.h && \
	    install -d "$(TO_MAN)/man3" && install -m 644 $(MPI)/man/man3/* "$(TO_MAN)/man3"; }
mpi-uninstall: ## remove what mpi-install put there
	@$(absolute)cd "$(TO_INCLUDE)" 2>/dev/null && rm -f $(MPI_HEADERS) || true
	@cd "$(TO_MAN)/man3" 2>/dev/null && rm -f cotangent-mpi.3 ct_mpi_comm.3 || true
	@cd "$(TO_LIB)" 2>/dev/null && rm -f $(notdir $(MPI_STATIC)) $(MPI_SHARED) \
	    $(MPI_SONAME) libcotangent_mpi.so pkgconfig/cotangent_mpi.pc || true

.PHONY: bench-mpi mpi mpi-install mpi-uninstall test-mpi
