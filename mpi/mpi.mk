# libcotangent_mpi, which the Makefile includes. MPICC=mpicc.mpich for another MPI; with the same
# BUILD it rebuilds what is MPI's.
MPICC    ?= mpicc
MPI       = $(BUILD)/mpi
MPI_OBJ   = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard mpi/*.c))
MPI_STATIC = $(BUILD)/libcotangent_mpi.a
MPI_SONAME = $(subst libcotangent,libcotangent_mpi,$(SONAME))
MPI_SHARED = $(MPI_SONAME:.so.%=.so).$(VERSION)
MPI_TESTS = $(patsubst mpi/tests/%.c,$(MPI)/%,$(wildcard mpi/tests/*.c))
# Both names of the variable that says which compiler mpicc runs.
mpicc     = OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC)
has_mpi   = command -v $(MPICC) >/dev/null || { echo "$@ needs $(MPICC): apt-get install libopenmpi-dev openmpi-bin"; exit 1; }
# What a program is linked with besides, where it is linked statically: mpicc's own line, but for the compiler.
mpi_libs  = $(filter -L% -l% -Wl%,$(shell $(MPICC) -show 2>/dev/null))

mpi: $(MPI_STATIC) $(BUILD)/$(MPI_SHARED) ## libcotangent_mpi, ranks as processes of MPI, in build/; needs mpicc, or MPICC=mpicc.mpich

$(BUILD)/mpi_flags: FORCE
	@$(has_mpi)
	@mkdir -p $(@D)
	@flags='$(MPICC) $(shell $(MPICC) -show 2>/dev/null) $(ALL_CFLAGS)'; echo "$$flags" | cmp -s - $@ || echo "$$flags" > $@

$(BUILD)/obj/mpi/%.o: mpi/%.c $(BUILD)/mpi_flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(mpicc) $(ALL_CFLAGS) -Impi/include -MMD -MP -c $< -o $@

$(MPI_STATIC): $(MPI_OBJ)
	@rm -f $@
	$(call if_quiet,AR)$(AR) rcs $@ $(MPI_OBJ)

$(BUILD)/$(MPI_SHARED): $(MPI_OBJ) $(SHARED)
	$(call if_quiet,LD)$(mpicc) -shared -Wl,-soname,$(MPI_SONAME) -Wl,--no-undefined $(SANITIZE) $(MPI_OBJ) -o $@ -L$(BUILD) -lcotangent $(LIBS)
	@ln -sf $(@F) $(BUILD)/$(MPI_SONAME)
	@ln -sf $(MPI_SONAME) $(BUILD)/libcotangent_mpi.so

$(MPI)/%: $(BUILD)/obj/mpi/tests/%.o $(MPI_STATIC) $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(mpicc) $(SANITIZE) $^ -o $@ $(LIBS)

test-mpi: $(MPI_TESTS) ## what several ranks compute and how they fail, under mpirun; needs mpicc
	@MPI=$(MPI) MPICC='$(MPICC)' mpi/tests/run
