/* Macros, and the bodies of call blocks and generations. */
#include "interpret.h"

cti_jinja_value cti_jinja_macro_new(cti_jinja_run *run, const cti_jinja_node *node,
                                    cti_jinja_activation *around) {
    cti_jinja_macro *macro = cti_jinja_take(run, 1, sizeof *macro);
    if (macro) *macro = (cti_jinja_macro){.node = node, .around = around};
    return (cti_jinja_value){.kind = macro ? CTI_JINJA_MACRO : CTI_JINJA_UNDEFINED, .macro = macro};
}

/* The words in which Python names a macro: 'name', or None for a caller. */
static const char *macro_named(const cti_jinja_function *function, char text[128]) {
    if (!function->name) return "None";
    text[0] = '\'';
    size_t size = cti_text_shorten(text + 1, 120, function->name->at, function->name->size);
    text[size + 1] = '\'';
    text[size + 2] = 0;
    return text;
}

/* Gives the parameters their arguments, positional or by name; ABSENT where there is none. */
static void bind_parameters(cti_jinja_run *run, cti_jinja_activation *in,
                            const cti_jinja_function *function, const cti_jinja_value *arg,
                            int64_t n, const cti_jinja_dict *keywords) {
    int64_t i = 0;
    for (const cti_jinja_node *each = function->parameter; each; each = each->next) {
        cti_jinja_value value = {.kind = CTI_JINJA_ABSENT};
        if (i < n) {
            value = arg[i];
        } else if (keywords) {
            const cti_jinja_value *named =
                cti_jinja_get(run, keywords, cti_jinja_string_value(each->text));
            if (named) value = *named;
        }
        in->slot[each->ref.slot] = value;
        i++;
    }
}

/* Whether a keyword names a parameter that no positional argument has. */
static bool takes_keyword(const cti_jinja_function *function, int64_t n,
                          const cti_jinja_string *name) {
    int64_t i = 0;
    for (const cti_jinja_node *each = function->parameter; each; each = each->next)
        if (i++ >= n && cti_jinja_string_equal(each->text, name)) return true;
    return false;
}

/* Gives caller, kwargs and varargs what is left, and refuses what nothing takes. */
static void bind_rest(cti_jinja_run *run, cti_jinja_activation *in,
                      const cti_jinja_function *function, const cti_jinja_value *arg, int64_t n,
                      const cti_jinja_dict *keywords) {
    char text[128];
    cti_jinja_dict *left = function->keywords >= 0 ? cti_jinja_dict_new(run, 0) : NULL;
    cti_jinja_value caller = {.kind = CTI_JINJA_NONE};
    for (int64_t i = 0; keywords && i < keywords->count && !run->failed; i++) {
        const cti_jinja_entry *entry = &keywords->entry[i];
        const cti_jinja_string *name = entry->key.string;
        if (takes_keyword(function, n, name)) continue;
        if (function->caller >= 0 && cti_jinja_string_is(name, "caller")) caller = entry->value;
        else if (left) cti_jinja_set(run, left, entry->key, entry->value);
        else if (cti_jinja_string_is(name, "caller"))
            cti_jinja_fail(run,
                           "macro %s was invoked with two values for the special caller "
                           "argument. This is most likely a bug.",
                           macro_named(function, text));
        else
            cti_jinja_fail(run, "macro %s takes no keyword argument '%.*s'",
                           macro_named(function, text), (int)name->size, name->at);
    }
    if (function->caller >= 0) {
        if (caller.kind == CTI_JINJA_NONE)
            caller = cti_jinja_undefined_hint(run, "No caller defined");
        in->slot[function->caller] = caller;
    }
    if (left) in->slot[function->keywords] = cti_jinja_dict_value(left, 0);
    const int64_t more = n > function->parameters ? n - function->parameters : 0;
    if (function->rest >= 0) {
        cti_jinja_list *rest = cti_jinja_list_new(run, more);
        for (int64_t i = 0; i < more; i++)
            cti_jinja_append(run, rest, arg[function->parameters + i]);
        in->slot[function->rest] = cti_jinja_list_value(CTI_JINJA_TUPLE, rest, 0);
    } else if (more) {
        cti_jinja_fail(run, "macro %s takes not more than %lld argument(s)",
                       macro_named(function, text), (long long)function->parameters);
    }
}

/* Parameters without an argument get their default, or are undefined. */
static void bind_defaults(cti_jinja_run *run, cti_jinja_activation *in,
                          const cti_jinja_function *function) {
    int64_t without = function->parameters - function->defaulted;
    const cti_jinja_node *value = function->defaults;
    for (const cti_jinja_node *each = function->parameter; each; each = each->next) {
        const bool has_default = without-- <= 0;
        cti_jinja_value *slot = &in->slot[each->ref.slot];
        if (slot->kind == CTI_JINJA_ABSENT && has_default) {
            *slot = cti_jinja_evaluate(run, in, value);
        } else if (slot->kind == CTI_JINJA_ABSENT) {
            cti_jinja_builder hint = cti_jinja_build(run);
            cti_jinja_add_text(&hint, "parameter '", 0);
            cti_jinja_add_string(&hint, each->text);
            cti_jinja_add(&hint, "' was not provided", 19, 0); /* with the NUL */
            *slot = cti_jinja_undefined_hint(run, run->failed ? "" : hint.at);
        }
        if (has_default) value = value->next;
    }
}

cti_jinja_value cti_jinja_macro_call(cti_jinja_run *run, const cti_jinja_macro *macro,
                                     const cti_jinja_value *arg, int64_t n,
                                     const cti_jinja_dict *keywords) {
    const cti_jinja_value none = {.kind = CTI_JINJA_UNDEFINED};
    const cti_jinja_function *function = macro->node->function;
    if (!cti_jinja_enter(run)) return none;
    cti_jinja_activation *in = cti_jinja_activate(run, macro->around, function->slots);
    cti_jinja_value text = none;
    if (in) {
        bind_parameters(run, in, function, arg, n, keywords);
        bind_rest(run, in, function, arg, n, keywords);
        cti_jinja_frame_enter(run, in, &function->frame);
        bind_defaults(run, in, function);
        if (!run->failed) text = cti_jinja_capture(run, in, macro->node->body, NULL);
    }
    cti_jinja_leave(run);
    return text;
}

bool cti_jinja_macro_member(cti_jinja_run *run, const cti_jinja_macro *macro,
                            const cti_jinja_string *name, cti_jinja_value *found) {
    const cti_jinja_function *function = macro->node->function;
    if (cti_jinja_string_is(name, "name")) {
        *found = function->name ? cti_jinja_string_value(function->name) : cti_jinja_none(0);
    } else if (cti_jinja_string_is(name, "arguments")) {
        cti_jinja_list *names = cti_jinja_list_new(run, function->parameters);
        for (const cti_jinja_node *each = function->parameter; each; each = each->next)
            cti_jinja_append(run, names, cti_jinja_string_value(each->text));
        *found = cti_jinja_list_value(CTI_JINJA_TUPLE, names, 0);
    } else if (cti_jinja_string_is(name, "catch_kwargs")) {
        *found = cti_jinja_bool(function->keywords >= 0, 0);
    } else if (cti_jinja_string_is(name, "catch_varargs")) {
        *found = cti_jinja_bool(function->rest >= 0, 0);
    } else if (cti_jinja_string_is(name, "caller")) {
        *found = cti_jinja_bool(function->caller >= 0 || function->explicit_caller, 0);
    } else {
        return false;
    }
    return true;
}
