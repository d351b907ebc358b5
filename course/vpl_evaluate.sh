#!/bin/bash
# Moodle's Virtual Programming Lab: the execution file vpl_evaluate.sh of an activity that asks for exercise.c. The execution server has what
# `make handout` packs, built by `make course`, in /opt/cotangent-course. Change the exercise's number, and nothing else.
EXERCISE=${EXERCISE:-01}
COURSE=${COURSE:-/opt/cotangent-course}
[ ! -f vpl_environment.sh ] || . ./vpl_environment.sh
cat > vpl_execution <<END
#!/bin/sh
export VPL_GRADEMAX='$VPL_GRADEMAX'
"$COURSE/course/grade" "$EXERCISE" . --seed random --json grading.json >/dev/null
"$COURSE/course/adapt" vpl grading.json
rm -f grading.json
END
chmod +x vpl_execution
