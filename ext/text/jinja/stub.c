/* Stands in for the interpreter until it is here; whoever adds a definition of a name below removes
 * it from this file. */
#include "value.h"

const cti_jinja_row cti_jinja_loop_methods[] = {{.name = NULL}};

int64_t cti_jinja_loop_length(cti_jinja_run *run, cti_jinja_loop *loop) {
    (void)loop;
    cti_jinja_fail(run, "loops are not run");
    return -1;
}

bool cti_jinja_loop_member(cti_jinja_run *run, cti_jinja_loop *loop, const cti_jinja_string *name,
                           cti_jinja_value *found) {
    (void)run, (void)loop, (void)name, (void)found;
    return false;
}

bool cti_jinja_macro_member(cti_jinja_run *run, const cti_jinja_macro *macro,
                            const cti_jinja_string *name, cti_jinja_value *found) {
    (void)run, (void)macro, (void)name, (void)found;
    return false;
}
