/* Stands in for the library of filters, tests, methods and printing until it is here; whoever adds
 * a definition of a name below removes it from this file. */
#include "value.h"

const cti_jinja_row cti_jinja_filters[] = {{.name = NULL}};
const cti_jinja_row cti_jinja_tests[] = {{.name = NULL}};
const cti_jinja_row cti_jinja_string_methods[] = {{.name = NULL}};
const cti_jinja_row cti_jinja_list_methods[] = {{.name = NULL}};
const cti_jinja_row cti_jinja_tuple_methods[] = {{.name = NULL}};
const cti_jinja_row cti_jinja_dict_methods[] = {{.name = NULL}};
const cti_jinja_row cti_jinja_int_methods[] = {{.name = NULL}};
const cti_jinja_row cti_jinja_real_methods[] = {{.name = NULL}};
const cti_jinja_row cti_jinja_cycler_methods[] = {{.name = NULL}};
const cti_jinja_row cti_jinja_loop_methods[] = {{.name = NULL}};

void cti_jinja_repr(cti_jinja_builder *out, cti_jinja_value value, int32_t quotes) {
    (void)quotes;
    cti_jinja_print(out, value);
}

void cti_jinja_print(cti_jinja_builder *out, cti_jinja_value value) {
    if (value.kind == CTI_JINJA_STRING) cti_jinja_add_string(out, value.string);
}

void cti_jinja_add_escaped(cti_jinja_builder *out, const cti_jinja_string *string) {
    cti_jinja_add_string(out, string);
}

cti_jinja_value cti_jinja_percent(cti_jinja_run *run, const cti_jinja_string *format,
                                  cti_jinja_value arguments) {
    (void)arguments;
    return cti_jinja_fail(run, "'%.*s' %% is not run", (int)format->size, format->at);
}

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
