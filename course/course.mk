# The course: grading, what a teacher gives away, and the tests of both.

# Of each exercise a program is built, its judge: tests, what stands in them for a submission, and the library. A submission
# is linked, by course/grade, with the sealed.o of course/ and of its exercise.
COURSE_SHARED  = course/course.c course/reference.c course/remote.c course/seal.c
COURSE_FOLDERS = $(patsubst course/%/test.c,%,$(wildcard course/[0-9]*/test.c))
COURSE_OBJ     = $(patsubst %.c,$(BUILD)/obj/%.o,$(COURSE_SHARED) course/sealed.c \
                   $(foreach e,$(COURSE_FOLDERS),$(addprefix course/$(e)/,test.c remote.c sealed.c)) \
                   $(wildcard course/[0-9]*/ops_*.c))
WITHOUT_DEBUG  = -Wl,--strip-debug
JUDGES         = $(COURSE_FOLDERS:%=$(BUILD)/course/%/judge)
COURSE         = $(COURSE_OBJ) $(JUDGES)
$(COURSE_OBJ): $(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call if_quiet,CC)$(CC) $(call at_O1,$(ALL_CFLAGS)) -MMD -MP -c $< -o $@
$(JUDGES): $(BUILD)/course/%/judge: $(BUILD)/obj/course/%/test.o $(BUILD)/obj/course/%/remote.o \
    $(COURSE_SHARED:%.c=$(BUILD)/obj/%.o) $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) $(LINK_FLAGS) $(if $(SANITIZE),,$(WITHOUT_DEBUG)) $^ -o $@ $(LIBS)

EX ?= all
course: $(STATIC) $(COURSE) ## what grading needs, built
grade: course \
    ## grade exercises of course/: EX=05, all without it; \
    FILE=a submission elsewhere, REPORT=report.html, JSON=grading.json, SEED=7; ALL=DIR CSV=marks.csv FEEDBACK=DIR; \
    of 18: CUMULATIVE=1 with the ops of earlier exercises, PICTURE=model.html
	@command -v python3 >/dev/null || { echo "make grade needs python3"; exit 2; }
	@course/grade --build $(BUILD) $(if $(JSON),--json '$(JSON)') $(if $(SEED),--seed '$(SEED)') \
	    $(if $(CUMULATIVE),--cumulative) $(if $(PICTURE),--picture '$(PICTURE)') \
	    $(if $(ALL),--all '$(ALL)') $(if $(CSV),--csv '$(CSV)') $(if $(FEEDBACK),--feedback '$(FEEDBACK)') \
	    $(if $(REPORT),--report '$(REPORT)') $(EX) $(if $(FILE),'$(FILE)') || [ $$? -eq 1 ]
handout: course ## the course for students, without solutions, in build/cotangent-course.tar.gz; EX=01-05 is a part
	@course/kit handout $(EX) --build $(BUILD)
autograder: course ## an exercise for Gradescope, EX=05, in build/autograder-05_....zip
	@course/kit autograder $(EX) --build $(BUILD)
# The list of what both need to build the library: each makefile that make has read, the folders of headers with all that
# is in them, and the folders of sources, of which only files belong to the library.
kit-files:
	@printf 'makefile %s\n' $(filter-out $(BUILD)/%,$(MAKEFILE_LIST))
	@printf 'headers %s\n' $(patsubst -I%,%,$(filter -I%,$(BASE)))
	@printf 'sources %s\n' $(FOLDERS)

# The judge's plain loops beside the library's ops.
COURSE_REFERENCE = $(BUILD)/course/reference
$(COURSE_REFERENCE): course/tests/reference.c $(BUILD)/obj/course/reference.o $(STATIC)
	@mkdir -p $(@D)
	$(call if_quiet,LD)$(CC) $(call at_O1,$(ALL_CFLAGS)) $(LDFLAGS) $^ -o $@ $(LIBS)
COURSE_TEST = $(BUILD)/tests/test_course
$(BUILD)/tests/test_course: $(STATIC) $(COURSE) $(COURSE_REFERENCE)
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec course/tests/check quick\n' > $@ && chmod +x $@
course-test: course $(COURSE_REFERENCE) \
    ## the course, its archives and its grader, with every wrong submission; make test grades two of each exercise
	@BUILD=$(BUILD) course/tests/check
course-mutants: course ## a thousand small mistakes in the course's solutions, each of which must lose points
	@BUILD=$(BUILD) course/tests/check mutants
course-class: course ## a class of 200 with every kind of submission, graded twice, with the same marks
	@BUILD=$(BUILD) course/tests/check crowd
.PHONY: course-mutants course-class course grade handout autograder kit-files course-test
