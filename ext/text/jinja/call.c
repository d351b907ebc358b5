/* Calls of rows: the names of filters, tests, methods and globals, and how arguments are bound. */
#include <inttypes.h>
#include <string.h>

#include "value.h"

const cti_jinja_row *cti_jinja_row_find(const cti_jinja_row *table, const char *name, size_t size) {
    for (; table->name; table++)
        if (!strncmp(table->name, name, size) && !table->name[size]) return table;
    return NULL;
}

const cti_jinja_row *cti_jinja_method_find(cti_jinja_value receiver, const char *name,
                                           size_t size) {
    const cti_jinja_row *table = NULL;
    switch (receiver.kind) {
    case CTI_JINJA_STRING: table = cti_jinja_string_methods; break;
    case CTI_JINJA_LIST: table = cti_jinja_list_methods; break;
    case CTI_JINJA_RANGE_OBJECT:
    case CTI_JINJA_TUPLE: table = cti_jinja_tuple_methods; break;
    case CTI_JINJA_DICT: table = cti_jinja_dict_methods; break;
    case CTI_JINJA_BOOL:
    case CTI_JINJA_INT: table = cti_jinja_int_methods; break;
    case CTI_JINJA_REAL: table = cti_jinja_real_methods; break;
    case CTI_JINJA_CYCLER: table = cti_jinja_cycler_methods; break;
    case CTI_JINJA_LOOP: table = cti_jinja_loop_methods; break;
    default: return NULL;
    }
    const cti_jinja_row *row = cti_jinja_row_find(table, name, size);
    if (row || receiver.kind != CTI_JINJA_STRING || !receiver.string->markup) return row;
    return cti_jinja_row_find(cti_jinja_markup_methods, name, size);
}

static int parameters_of(const cti_jinja_row *row) {
    int count = 0;
    while (row->parameter[count]) count++;
    return count;
}

static int parameter_index(const cti_jinja_row *row, const cti_jinja_string *name) {
    for (int i = 0; row->parameter[i]; i++)
        if (cti_jinja_string_is(name, row->parameter[i])) return i;
    return -1;
}

/* Puts keyword arguments into their parameters, and the others into call->keywords. */
static bool bind_keywords(cti_jinja_run *run, cti_jinja_call *call,
                          const cti_jinja_dict *keywords) {
    const cti_jinja_row *row = call->row;
    cti_jinja_dict *others = NULL;
    if (row->keywords) {
        others = cti_jinja_dict_new(run, 0);
        call->keywords = others;
    }
    for (int64_t i = 0; keywords && i < keywords->count; i++) {
        const cti_jinja_entry *entry = &keywords->entry[i];
        const cti_jinja_string *name = entry->key.string;
        const int at = row->positional ? -1 : parameter_index(row, name);
        if (at >= 0 && call->arg[at].kind == CTI_JINJA_ABSENT) {
            call->arg[at] = entry->value;
        } else if (at >= 0) {
            cti_jinja_fail(run, "%s() got multiple values for argument '%.*s'", row->name,
                           (int)name->size, name->at);
        } else if (row->keywords) {
            cti_jinja_set(run, others, entry->key, entry->value);
        } else if (row->positional) {
            cti_jinja_fail(run, "%s() takes no keyword arguments", row->name);
        } else {
            cti_jinja_fail(run, "%s() got an unexpected keyword argument '%.*s'", row->name,
                           (int)name->size, name->at);
        }
        if (run->failed) return false;
    }
    return !run->failed;
}

cti_jinja_value cti_jinja_row_call(cti_jinja_run *run, const cti_jinja_row *row,
                                   cti_jinja_value receiver, const cti_jinja_value *arg, int64_t n,
                                   const cti_jinja_dict *keywords) {
    const cti_jinja_value none = {.kind = CTI_JINJA_UNDEFINED};
    if (run->failed) return none;
    if (row->refused) return cti_jinja_fail(run, "'%s' is not run: %s", row->name, row->refused);
    cti_jinja_call call = {.row = row, .receiver = receiver};
    const int64_t most = parameters_of(row);
    const int64_t bound = n < most ? n : most;
    for (int64_t i = 0; i < bound; i++) call.arg[i] = arg[i];
    if (n > most && !row->rest)
        return cti_jinja_fail(run, "%s() takes %d positional arguments but %" PRId64 " were given",
                              row->name, (int)most, n);
    call.rest = arg + bound;
    call.rests = n - bound;
    if (!bind_keywords(run, &call, keywords)) return none;
    for (int i = 0; i < row->required; i++)
        if (call.arg[i].kind == CTI_JINJA_ABSENT)
            return cti_jinja_fail(run, "%s() missing a required argument: '%s'", row->name,
                                  row->parameter[i]);
    if (!cti_jinja_read(run, receiver)) return none;
    for (int64_t i = 0; i < n; i++)
        if (!cti_jinja_read(run, arg[i])) return none;
    const cti_jinja_value result = row->run(run, &call);
    return run->failed ? none : result;
}
