# The course: grading, and what a teacher gives away.

COURSE = $(patsubst %.c,$(BUILD)/obj/%.o,examples/course/course.c $(wildcard examples/course/[0-9]*/test.c))
$(COURSE): $(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(call at_O1,$(ALL_CFLAGS)) -MMD -MP -c $< -o $@

EX ?= all
course: $(STATIC) $(COURSE) ## what grading needs, built
grade: course \
    ## grade exercises of examples/course/: EX=05, all without it; \
    FILE=a submission elsewhere, JSON=results.json, SEED=7; ALL=DIR CSV=marks.csv
	@command -v python3 >/dev/null || { echo "make grade needs python3"; exit 2; }
	@examples/course/grade --build $(BUILD) $(if $(JSON),--json '$(JSON)') $(if $(SEED),--seed '$(SEED)') \
	    $(if $(ALL),--all '$(ALL)') $(if $(CSV),--csv '$(CSV)') $(EX) $(if $(FILE),'$(FILE)') || [ $$? -eq 1 ]
handout: course ## the course for students, without solutions, in build/cotangent-course.tar.gz
	@examples/course/kit handout --build $(BUILD)
autograder: course ## an exercise for Gradescope, EX=05, in build/autograder-05_....zip
	@examples/course/kit autograder $(EX) --build $(BUILD)
# What both need to build the library: each makefile that make has read, the folders of headers, and the folders of the
# sources of OBJ.
kit-files:
	@printf 'makefile %s\n' $(filter-out $(BUILD)/%,$(MAKEFILE_LIST))
	@printf 'headers %s\n' $(patsubst -I%,%,$(filter -I%,$(BASE)))
	@printf 'sources %s\n' $(sort $(foreach o,$(OBJ:$(BUILD)/obj/%=%),$(firstword $(subst /, ,$(o)))))
.PHONY: course grade handout autograder kit-files
