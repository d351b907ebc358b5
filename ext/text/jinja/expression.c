/* Expressions. */
#include <math.h>
#include <string.h>

#include "interpret.h"

static const cti_jinja_value undefined_value = {.kind = CTI_JINJA_UNDEFINED};

bool cti_jinja_nest(cti_jinja_run *run) {
    if (!cti_jinja_step(run)) return false;
    if (++run->state->nesting <= CTI_JINJA_NESTING) return true;
    run->state->nesting--;
    cti_jinja_fail(run, "calls and values are nested more than %d deep", CTI_JINJA_DEPTH);
    return false;
}

cti_jinja_value *cti_jinja_variable(cti_jinja_activation *in, cti_jinja_ref ref) {
    for (uint32_t up = ref.up; up; up--) in = in->around;
    return &in->slot[ref.slot];
}

static cti_jinja_value evaluate_variable(cti_jinja_run *run, cti_jinja_activation *in,
                                         const cti_jinja_node *node) {
    const cti_jinja_value value = *cti_jinja_variable(in, node->ref);
    if (value.kind != CTI_JINJA_ABSENT) return value;
    return cti_jinja_undefined(run, value, cti_jinja_string_value(node->text));
}

/* ---- calls ---- */

enum { FEW_ARGUMENTS = 6 };

typedef struct {
    cti_jinja_value few[FEW_ARGUMENTS + 1], *arg;
    int64_t n;
    cti_jinja_dict *keywords;
} evaluated;

static void add_keyword(cti_jinja_run *run, evaluated *to, cti_jinja_value name,
                        cti_jinja_value value) {
    if (!to->keywords) to->keywords = cti_jinja_dict_new(run, 0);
    if (name.kind != CTI_JINJA_STRING) {
        cti_jinja_fail(run, "keywords must be strings");
    } else if (cti_jinja_get(run, to->keywords, name)) {
        cti_jinja_fail(run, "got multiple values for keyword argument '%.*s'",
                       (int)name.string->size, name.string->at);
    } else {
        cti_jinja_set(run, to->keywords, name, value);
    }
}

static void add_star(cti_jinja_run *run, evaluated *to, cti_jinja_value star) {
    if (!cti_jinja_is_iterable(star)) {
        cti_jinja_fail(run, "argument after * must be an iterable, not %s",
                       cti_jinja_type_name(star));
        return;
    }
    const cti_jinja_list *more = cti_jinja_collect(run, star);
    if (!more || !more->count) return;
    cti_jinja_value *all =
        cti_jinja_take(run, (size_t)(to->n + more->count), sizeof(cti_jinja_value));
    if (!all) return;
    if (to->n) memcpy(all, to->arg, (size_t)to->n * sizeof *all);
    memcpy(all + to->n, more->item, (size_t)more->count * sizeof *all);
    to->arg = all;
    to->n += more->count;
}

static void add_star_star(cti_jinja_run *run, evaluated *to, cti_jinja_value mapping) {
    const cti_jinja_dict *dict = mapping.kind == CTI_JINJA_DICT ? mapping.dict : NULL;
    if (!dict)
        cti_jinja_fail(run, "argument after ** must be a mapping, not %s",
                       cti_jinja_type_name(mapping));
    for (int64_t i = 0; dict && i < dict->count; i++)
        add_keyword(run, to, dict->entry[i].key, dict->entry[i].value);
}

/* Evaluates arguments; the first is `before` unless that is ABSENT. Returns false after an error.
 */
static bool evaluate_arguments(cti_jinja_run *run, cti_jinja_activation *in,
                               const cti_jinja_arguments *arguments, cti_jinja_value before,
                               evaluated *to) {
    *to = (evaluated){.n = 0};
    to->arg = to->few;
    if (before.kind != CTI_JINJA_ABSENT) to->arg[to->n++] = before;
    if (!arguments) return !run->failed;
    if (arguments->count > FEW_ARGUMENTS) {
        to->arg = cti_jinja_take(run, (size_t)arguments->count + 1, sizeof *to->arg);
        if (!to->arg) return false;
        to->arg[0] = before;
    }
    for (const cti_jinja_node *node = arguments->positional; node; node = node->next)
        to->arg[to->n++] = cti_jinja_evaluate(run, in, node);
    if (arguments->star) add_star(run, to, cti_jinja_evaluate(run, in, arguments->star));
    for (const cti_jinja_node *node = arguments->keyword; node; node = node->next)
        add_keyword(run, to, cti_jinja_string_value(node->text),
                    cti_jinja_evaluate(run, in, node->first));
    if (arguments->star_star)
        add_star_star(run, to, cti_jinja_evaluate(run, in, arguments->star_star));
    return !run->failed;
}

cti_jinja_value cti_jinja_evaluate_call(cti_jinja_run *run, cti_jinja_activation *in,
                                        const cti_jinja_node *node, cti_jinja_value caller) {
    evaluated all;
    const cti_jinja_value callee = cti_jinja_evaluate(run, in, node->first);
    const cti_jinja_value absent = {.kind = CTI_JINJA_ABSENT};
    if (!evaluate_arguments(run, in, node->arguments, absent, &all)) return undefined_value;
    if (caller.kind != CTI_JINJA_ABSENT) {
        static const cti_jinja_string name = {.at = "caller", .size = 6, .length = 6};
        add_keyword(run, &all, cti_jinja_string_value(&name), caller);
    }
    return cti_jinja_value_call(run, callee, all.arg, all.n, all.keywords);
}

cti_jinja_value cti_jinja_value_call(cti_jinja_run *run, cti_jinja_value callee,
                                     const cti_jinja_value *arg, int64_t n,
                                     const cti_jinja_dict *keywords) {
    const cti_jinja_value none = {.kind = CTI_JINJA_ABSENT};
    switch (callee.kind) {
    case CTI_JINJA_MACRO: return cti_jinja_macro_call(run, callee.macro, arg, n, keywords);
    case CTI_JINJA_METHOD:
        return cti_jinja_row_call(run, callee.bound->row, callee.bound->receiver, arg, n, keywords);
    case CTI_JINJA_FUNCTION: return cti_jinja_row_call(run, callee.row, none, arg, n, keywords);
    case CTI_JINJA_UNDEFINED: return cti_jinja_undefined_fail(run, callee);
    case CTI_JINJA_LOOP:
        if (n != 1 || keywords)
            return cti_jinja_fail(run, "loop() takes 1 positional argument but %lld were given",
                                  (long long)n);
        return cti_jinja_loop_call(run, callee.loop, arg[0]);
    case CTI_JINJA_JOINER:
        if (n || keywords)
            return cti_jinja_fail(run, "a joiner takes no arguments but %lld were given",
                                  (long long)n);
        if (callee.joiner->used) return callee.joiner->separator;
        callee.joiner->used = true;
        return cti_jinja_string_view(run, "", 0, 0);
    default: return cti_jinja_fail(run, "'%s' object is not callable", cti_jinja_type_name(callee));
    }
}

/* ---- filters and tests ---- */

static cti_jinja_value evaluate_row(cti_jinja_run *run, cti_jinja_activation *in,
                                    const cti_jinja_node *node) {
    const cti_jinja_value none = {.kind = CTI_JINJA_ABSENT};
    const bool filter = node->kind == CTI_JINJA_FILTERED;
    const cti_jinja_value value =
        node->first ? cti_jinja_evaluate(run, in, node->first) : run->state->captured;
    if (!node->row)
        return cti_jinja_fail(run, "No %s named '%.*s' found.", filter ? "filter" : "test",
                              (int)node->text->size, node->text->at);
    evaluated all;
    if (!evaluate_arguments(run, in, node->arguments, value, &all)) return undefined_value;
    return cti_jinja_row_call(run, node->row, none, all.arg, all.n, all.keywords);
}

/* ---- operators ---- */

static bool compare_once(cti_jinja_run *run, const char *op, cti_jinja_value a, cti_jinja_value b) {
    if (op[0] == '=') return cti_jinja_equal(run, a, b);
    if (op[0] == '!') return !cti_jinja_equal(run, a, b);
    if (op[0] == 'i') return cti_jinja_contains(run, b, a);
    if (op[0] == 'n') return !cti_jinja_contains(run, b, a);
    return cti_jinja_compare(run, op, a, b);
}

/* a < b < c is a < b and b < c, where b is evaluated once. */
static cti_jinja_value evaluate_compare(cti_jinja_run *run, cti_jinja_activation *in,
                                        const cti_jinja_node *node) {
    cti_jinja_value left = cti_jinja_evaluate(run, in, node->first);
    bool holds = true;
    for (const cti_jinja_node *operand = node->second; operand && holds && !run->failed;
         operand = operand->next) {
        const cti_jinja_value right = cti_jinja_evaluate(run, in, operand->first);
        holds = !run->failed && compare_once(run, operand->op, left, right);
        left = right;
    }
    return cti_jinja_bool(holds, 0);
}

static cti_jinja_value evaluate_concat(cti_jinja_run *run, cti_jinja_activation *in,
                                       const cti_jinja_node *node) {
    cti_jinja_builder out = cti_jinja_build(run);
    for (const cti_jinja_node *each = node->first; each && !run->failed; each = each->next) {
        const cti_jinja_value value = cti_jinja_evaluate(run, in, each);
        if (!run->failed) cti_jinja_print(&out, value);
    }
    return cti_jinja_built(&out, false);
}

static cti_jinja_value evaluate_items(cti_jinja_run *run, cti_jinja_activation *in,
                                      const cti_jinja_node *node) {
    if (node->kind == CTI_JINJA_DICT_OF) {
        cti_jinja_dict *dict = cti_jinja_dict_new(run, 0);
        for (const cti_jinja_node *key = node->first; key && !run->failed; key = key->next->next) {
            const cti_jinja_value name = cti_jinja_evaluate(run, in, key);
            cti_jinja_set(run, dict, name, cti_jinja_evaluate(run, in, key->next));
        }
        return cti_jinja_dict_value(dict, 0);
    }
    cti_jinja_list *list = cti_jinja_list_new(run, 0);
    for (const cti_jinja_node *item = node->first; item && !run->failed; item = item->next)
        cti_jinja_append(run, list, cti_jinja_evaluate(run, in, item));
    return cti_jinja_list_value(node->kind == CTI_JINJA_LIST_OF ? CTI_JINJA_LIST : CTI_JINJA_TUPLE,
                                list, 0);
}

static cti_jinja_value evaluate_slice(cti_jinja_run *run, cti_jinja_activation *in,
                                      const cti_jinja_node *node) {
    const cti_jinja_value of = cti_jinja_evaluate(run, in, node->first);
    cti_jinja_read(run, of);
    const cti_jinja_node *bound[3] = {node->second, node->third, node->fourth};
    cti_jinja_value value[3] = {{.kind = CTI_JINJA_ABSENT}};
    for (int i = 0; i < 3; i++)
        if (bound[i]) value[i] = cti_jinja_evaluate(run, in, bound[i]);
    if (run->state->folds && of.kind != CTI_JINJA_UNDEFINED && !cti_jinja_is_sliced(of, value))
        return cti_jinja_undefined(run, of, cti_jinja_none(0));
    return cti_jinja_slice(run, of, value[0], value[1], value[2]);
}

static cti_jinja_value evaluate_condition(cti_jinja_run *run, cti_jinja_activation *in,
                                          const cti_jinja_node *node) {
    const cti_jinja_value test = cti_jinja_evaluate(run, in, node->first);
    if (cti_jinja_truth(run, test)) return cti_jinja_evaluate(run, in, node->second);
    if (node->third) return cti_jinja_evaluate(run, in, node->third);
    return cti_jinja_undefined_hint(run, "the inline if-expression evaluated to false and no else "
                                         "section was defined.");
}

/* jinja2 computes a constant when it compiles, and writes it into a program of Python, where (-2)
 * ** n is then -2 ** n, which is -(2 ** n). If n is a constant too, nothing is written but the
 * result. */
static cti_jinja_value evaluate_binary(cti_jinja_run *run, cti_jinja_activation *in,
                                       const cti_jinja_node *node) {
    const cti_jinja_value first = cti_jinja_evaluate(run, in, node->first);
    const cti_jinja_value second = cti_jinja_evaluate(run, in, node->second);
    const bool negative = (first.kind == CTI_JINJA_INT && first.integer < 0) ||
                          (first.kind == CTI_JINJA_REAL && signbit(first.real));
    if (!negative || !node->first->flag || node->flag || strcmp(node->op, "**") != 0)
        return cti_jinja_arithmetic(run, node->op, first, second);
    const cti_jinja_value positive = cti_jinja_negate(run, first, false);
    return cti_jinja_negate(run, cti_jinja_arithmetic(run, node->op, positive, second), false);
}

static cti_jinja_value evaluate_node(cti_jinja_run *run, cti_jinja_activation *in,
                                     const cti_jinja_node *node) {
    const cti_jinja_value none = {.kind = CTI_JINJA_ABSENT};
    cti_jinja_value first, second;
    switch (node->kind) {
    case CTI_JINJA_CONSTANT: return node->constant;
    case CTI_JINJA_VARIABLE: return evaluate_variable(run, in, node);
    case CTI_JINJA_ATTRIBUTE:
        first = cti_jinja_evaluate(run, in, node->first);
        return cti_jinja_attribute(run, first, cti_jinja_string_value(node->text));
    case CTI_JINJA_ITEM:
        first = cti_jinja_evaluate(run, in, node->first);
        second = cti_jinja_evaluate(run, in, node->second);
        if (!cti_jinja_read(run, first) || !cti_jinja_read(run, second)) return undefined_value;
        return cti_jinja_item(run, first, second);
    case CTI_JINJA_SLICE: return evaluate_slice(run, in, node);
    case CTI_JINJA_CALL: return cti_jinja_evaluate_call(run, in, node, none);
    case CTI_JINJA_FILTERED:
    case CTI_JINJA_TESTED: return evaluate_row(run, in, node);
    case CTI_JINJA_NOT:
        first = cti_jinja_evaluate(run, in, node->first);
        return cti_jinja_bool(!cti_jinja_truth(run, first), 0);
    case CTI_JINJA_NEGATIVE:
    case CTI_JINJA_POSITIVE:
        first = cti_jinja_evaluate(run, in, node->first);
        return cti_jinja_negate(run, first, node->kind == CTI_JINJA_POSITIVE);
    case CTI_JINJA_BINARY: return evaluate_binary(run, in, node);
    case CTI_JINJA_AND:
    case CTI_JINJA_OR:
        first = cti_jinja_evaluate(run, in, node->first);
        if (cti_jinja_truth(run, first) == (node->kind == CTI_JINJA_OR)) return first;
        return cti_jinja_evaluate(run, in, node->second);
    case CTI_JINJA_COMPARE: return evaluate_compare(run, in, node);
    case CTI_JINJA_CONCAT: return evaluate_concat(run, in, node);
    case CTI_JINJA_CONDITION: return evaluate_condition(run, in, node);
    default: return evaluate_items(run, in, node);
    }
}

cti_jinja_value cti_jinja_evaluate(cti_jinja_run *run, cti_jinja_activation *in,
                                   const cti_jinja_node *node) {
    if (node->kind == CTI_JINJA_CONSTANT) return node->constant;
    if (!cti_jinja_nest(run)) return undefined_value;
    const cti_jinja_value value = evaluate_node(run, in, node);
    run->state->nesting--;
    if (!run->failed) return value;
    if (!run->at) run->at = node->at + 1;
    return undefined_value;
}
