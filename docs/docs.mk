# The pages that are made, and what is checked of all of them.

$(BUILD)/make_parameters: docs/make_parameters.c $(STATIC)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) $< $(STATIC) -o $@ $(LIBS)

docs: $(BUILD)/make_parameters \
    ## make docs/api.md from the headers, docs/ops.md from them and the ops, docs/parameters.md from the modules
	docs/make_api > $(BUILD)/api.md && mv $(BUILD)/api.md docs/api.md
	docs/make_ops > $(BUILD)/ops.md && mv $(BUILD)/ops.md docs/ops.md
	$(RUN) $(BUILD)/make_parameters > $(BUILD)/parameters.md && mv $(BUILD)/parameters.md docs/parameters.md
graph-picture: $(BUILD)/graph$(EXE) ## docs/graph.svg: what build/graph draws; needs Graphviz
	$(RUN) $< $(BUILD)/graph.dot > $(BUILD)/graph.txt && dot -Tsvg $(BUILD)/graph.dot -o docs/graph.svg

# The blocks of C in docs/training.md, as one program, are compiled and run: a short run, one that goes on, and a
# mistake. Its C++ is compiled. The program of docs/scaling.md runs without MPI, to its end and once more.
stale = { echo "$(1) is out of date: make docs"; exit 1; }
wrong = { echo "$(1)"; exit 1; }
docs-check: $(BUILD)/make_parameters $(BUILD)/graph$(EXE) $(BUILD)/flags \
    ## fail where a page is out of date, names what is not there, or shows what does not compile
	@docs/make_api > $(BUILD)/api.md && cmp -s $(BUILD)/api.md docs/api.md || $(call stale,docs/api.md)
	@docs/make_ops > $(BUILD)/ops.md && cmp -s $(BUILD)/ops.md docs/ops.md || $(call stale,docs/ops.md)
	@$(RUN) $(BUILD)/make_parameters | cmp -s - docs/parameters.md || $(call stale,docs/parameters.md)
	@docs/blocks c README.md | awk '/^#line/ && n++ {exit} !/^#line/' | cmp -s - examples/mha.c || \
	    $(call wrong,README.md does not show examples/mha.c as it is)
	@rm -rf $(BUILD)/docs && mkdir -p $(BUILD)/docs
	@docs/blocks c docs/training.md > $(BUILD)/docs/training.c
	@docs/blocks cpp docs/training.md > $(BUILD)/docs/training.cpp
	@$(CC) $(filter-out -Wmissing-prototypes,$(ALL_CFLAGS)) -Werror $(BUILD)/docs/training.c $(STATIC) \
	    -o $(BUILD)/docs/training $(LIBS)
	@cd $(BUILD)/docs && for steps in 3 6; do $(RUN) ./training $(CURDIR)/README.md $$steps || exit 1; done > out && \
	    grep -q '^goes on after step 3$$' out && grep -q '^step 6 ' out && [ -s best.safetensors ] && \
	    ! $(RUN) ./training missing 1 2> err && grep -qx 'cotangent: cannot open missing' err || \
	    { cat out; $(call wrong,the program of docs/training.md does not run); }
	@! command -v c++ >/dev/null || \
	    c++ -std=c++20 -Wall -Wpedantic -Werror -Iinclude -fsyntax-only $(BUILD)/docs/training.cpp
	@docs/blocks c docs/scaling.md > $(BUILD)/docs/scaling.c && \
	    echo 'ct_comm *ct_mpi_comm(ct_context *context) {(void)context; return NULL;}' >> $(BUILD)/docs/scaling.c
	@$(CC) $(ALL_CFLAGS) -Werror -I$(MPI_AT)/include $(BUILD)/docs/scaling.c $(STATIC) -o $(BUILD)/docs/scaling $(LIBS)
	@cd $(BUILD)/docs && rm -f run.safetensors && $(RUN) ./scaling > out && grep -q '^step 200: loss 0' out && \
	    [ -s run.safetensors ] && $(RUN) ./scaling > out && [ ! -s out ] || \
	    { cat out; $(call wrong,the program of docs/scaling.md does not run); }
	@! docs/scaling_table | grep -vxFf docs/scaling.md || \
	    $(call wrong,docs/scaling.md does not have these lines of docs/scaling_table)
	@$(RUN) $(BUILD)/graph$(EXE) $(BUILD)/docs/graph.dot > $(BUILD)/docs/graph.txt && \
	    docs/graph_labels $(BUILD)/docs/graph.dot docs/graph.svg
	@docs/check_names README.md docs/*.md docs/notes/*.md
	@echo "docs: the pages are up to date, and their programs compile"
.PHONY: docs graph-picture docs-check
