# The pages that are made, and what is checked of all of them.

$(BUILD)/make_parameters: docs/make_parameters.c $(STATIC)
	$(call if_quiet,CC)$(CC) $(ALL_CFLAGS) $< $(STATIC) -o $@ $(LIBS)

docs: $(BUILD)/make_parameters \
    ## make docs/ops.md from its header and the ops, docs/parameters.md from the modules
	docs/make_ops > $(BUILD)/ops.md && mv $(BUILD)/ops.md docs/ops.md
	$(RUN) $(BUILD)/make_parameters > $(BUILD)/parameters.md && mv $(BUILD)/parameters.md docs/parameters.md
graph-picture: $(BUILD)/graph$(EXE) ## docs/graph.svg: what build/graph draws; needs Graphviz
	$(RUN) $< $(BUILD)/graph.dot > $(BUILD)/graph.txt && dot -Tsvg $(BUILD)/graph.dot -o docs/graph.svg

stale = { echo "$(1) is out of date: make docs"; exit 1; }
wrong = { echo "$(1)"; exit 1; }

# A page whose C has a main is a program: its blocks of C, one after the other. Some need a line more, PAGE_END.
PROGRAM_PAGES := $(shell grep -l '^int main\b' docs/*.md docs/*/*.md 2>/dev/null)
PAGES_BUILT = $(PROGRAM_PAGES:%.md=$(BUILD)/%$(EXE))
$(PROGRAM_PAGES:%.md=$(BUILD)/%.c): $(BUILD)/%.c: %.md docs/blocks docs/docs.mk
	@mkdir -p $(@D)
	@{ docs/blocks c $< && echo '$(PAGE_END)'; } > $@
$(PAGES_BUILT): %$(EXE): %.c $(STATIC) $(BUILD)/flags
	@$(CC) $(filter-out -Wmissing-prototypes,$(ALL_CFLAGS)) $(PAGE_FLAGS) -Werror $< $(STATIC) -o $@ $(LIBS)
# A program without MPI.
$(BUILD)/docs/scaling.c: PAGE_END = ct_comm *ct_mpi_comm(ct_context *context) {(void)context; return NULL;}
$(BUILD)/docs/scaling$(EXE): PAGE_FLAGS = -I$(MPI_AT)/include

# If the page has a block of output, its program runs without arguments in a folder of its own, reads the page's block
# of JSON, if there is one, and must print that output (docs/recipes/README.md).
PAGES_RUN := $(patsubst %.md,$(BUILD)/%.printed,$(shell grep -l '^```output$$' docs/*.md docs/*/*.md 2>/dev/null))
$(PAGES_RUN): %.printed: %$(EXE)
	@rm -rf $*.run $@ && mkdir $*.run
	@docs/blocks json $(*:$(BUILD)/%=%).md > $*.in && docs/blocks output $(*:$(BUILD)/%=%).md > $*.output
	@cd $*.run && $(RUN) ../$(<F) < ../$(*F).in > ../$(*F).new && diff -u ../$(*F).output ../$(*F).new || \
	    $(call wrong,the program of $(*:$(BUILD)/%=%).md does not print the output that the page shows)
	@mv $*.new $@
recipes: $(filter $(BUILD)/docs/recipes/%,$(PAGES_BUILT)) ## the programs of docs/recipes, in build/docs/recipes
test-torch: recipes

docs-check: $(BUILD)/make_parameters $(BUILD)/graph$(EXE) $(PAGES_BUILT) $(PAGES_RUN) \
    ## fail where a page is out of date, names what is not there, or shows what does not compile
	@docs/make_ops > $(BUILD)/ops.md && cmp -s $(BUILD)/ops.md docs/ops.md || $(call stale,docs/ops.md)
	@$(RUN) $(BUILD)/make_parameters | cmp -s - docs/parameters.md || $(call stale,docs/parameters.md)
	@docs/blocks c README.md | awk '/^#line/ && n++ {exit} !/^#line/' | cmp -s - examples/mha.c || \
	    $(call wrong,README.md does not show examples/mha.c as it is)
	@docs/blocks cpp docs/training.md > $(BUILD)/docs/training.cpp
	@! command -v c++ >/dev/null || \
	    c++ -std=c++20 -Wall -Wpedantic -Werror -Iinclude -fsyntax-only $(BUILD)/docs/training.cpp
	@rm -rf $(BUILD)/docs/run && mkdir $(BUILD)/docs/run
	@cd $(BUILD)/docs/run && for n in 3 6; do $(RUN) ../training $(CURDIR)/README.md $$n || exit 1; done > out && \
	    grep -q '^goes on after step 3$$' out && grep -q '^step 6 ' out && [ -s best.safetensors ] && \
	    ! $(RUN) ../training missing 1 2> err && grep -qx 'cotangent: cannot open missing' err || \
	    { cat out; $(call wrong,the program of docs/training.md does not run); }
	@cd $(BUILD)/docs/run && $(RUN) ../scaling > out && grep -q '^step 200: loss 0' out && \
	    [ -s run.safetensors ] && $(RUN) ../scaling > out && [ ! -s out ] || \
	    { cat out; $(call wrong,the program of docs/scaling.md does not run); }
	@! docs/scaling_table | grep -vxFf docs/scaling.md || \
	    $(call wrong,docs/scaling.md does not have these lines of docs/scaling_table)
	@$(RUN) $(BUILD)/graph$(EXE) $(BUILD)/docs/graph.dot > $(BUILD)/docs/graph.txt && \
	    docs/graph_labels $(BUILD)/docs/graph.dot docs/graph.svg
	@docs/check_platforms
	@docs/check_names README.md docs/*.md docs/*/*.md
	@echo "docs: the pages are up to date, and their programs compile"
.PHONY: docs graph-picture docs-check recipes

# The pages as a site. Sphinx and its theme are of docs/site/requirements.txt.
SITE = $(BUILD)/site
$(SITE)/venv/ready: docs/site/requirements.txt
	python3 -m venv $(SITE)/venv
	$(SITE)/venv/bin/pip install -q -r $<
	@touch $@
SPHINX = SITE_PAGES=$(abspath $(SITE)/pages) $(SITE)/venv/bin/sphinx-build -q -W --keep-going -d $(SITE)/doctrees -c docs/site
site: $(SITE)/venv/ready $(SHARED) ## the pages as a site that needs no network, in build/site/html; with demos if `make web` has built them
	python3 docs/site/pages.py $(SITE)/pages $(BUILD)/web
	$(SPHINX) -b html $(SITE)/pages $(SITE)/html
	python3 docs/site/check $(SITE)/html $(SHARED)
	@echo "$(SITE)/html/index.html"
site-test: web ## that site in a headless Chromium: search, a phone's width, contrast, a demo; pictures in build/site
	+$(MAKE) site
	python3 tests/browser/site $(SITE)/html
.PHONY: site site-test

# Manual pages: man -M build/man ct_matmul. Who installs may lack python3 or help2man, and then has fewer pages.
MAN = $(BUILD)/man
PYTHON3 ?= python3
man: $(MAN)/ready ## a manual page for each header, function and program, in build/man; needs python3, and help2man for programs
$(MAN)/ready: docs/make_man docs/declarations.py docs/formulas.py docs/ops.md $(wildcard include/cotangent/*.h) $(PROGRAMS)
	@mkdir -p $(MAN)
	@if command -v $(PYTHON3) >/dev/null; then $(PYTHON3) docs/make_man $(MAN) $(filter %.h,$^) $(PROGRAMS); \
	else echo "no manual pages: there is no $(PYTHON3)"; fi
	@touch $@
.PHONY: man
