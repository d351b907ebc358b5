/* The options of an optimiser: their tables, names and ranges, and ct_optim_set. */
#include "optim.h"

#include <math.h>
#include <string.h>

/* ---- the tables ---- */

static const ct_optim_number common_numbers[CTI_NN_COMMON] = {
    [CTI_NN_LR] = {.name = "lr", .value = 1e-3},
    [CTI_NN_WEIGHT_DECAY] = {.name = "weight_decay"},
    [CTI_NN_MATRICES_ONLY] = {.name = "decay_matrices_only", .flag = true},
    [CTI_NN_CLIP_NORM] = {.name = "clip_norm"},
    [CTI_NN_SKIP_NONFINITE] = {.name = "skip_nonfinite", .flag = true},
};

const cti_nn_number cti_nn_item_numbers[CTI_NN_ITEM_NUMBERS] = {
    {"step", CT_I64, offsetof(cti_nn_item, step)},
    {"lr_scale", CT_F64, offsetof(cti_nn_item, lr_scale)},
    {"weight_decay", CT_F64, offsetof(cti_nn_item, weight_decay)},
    {"frozen", CT_BOOL, offsetof(cti_nn_item, frozen)},
};

/* The index of the rule that has option i; -1 for the options that every optimiser has. */
static int rule_with(const ct_optim *optim, int i) {
    int rule = optim->rules - 1;
    while (rule >= 0 && i < optim->rule[rule].first) rule--;
    return rule;
}

const ct_optim_number *cti_nn_option(const ct_optim *optim, int i) {
    const int rule = rule_with(optim, i);
    CTI_ASSERT(i >= 0 && i < optim->values);
    return rule < 0 ? &common_numbers[i]
                    : &optim->rule[rule].is->numbers[i - optim->rule[rule].first];
}

const char *cti_nn_rest(int rule) {
    static const char *const rest[CTI_NN_RULES] = {"", "rest.", "rest.rest.", "rest.rest.rest."};
    return rest[rule];
}

const char *cti_nn_option_name(const ct_optim *optim, int i, char name[CTI_NN_OPTION_NAME]) {
    const int rule = rule_with(optim, i);
    snprintf(name, CTI_NN_OPTION_NAME, "%s%s", cti_nn_rest(rule < 0 ? 0 : rule),
             cti_nn_option(optim, i)->name);
    return name;
}

/* ---- whether a rule is complete ---- */

enum { LONGEST_NAME = 31, MOST_NUMBERS = 1000 };

/* A name of a number or a state is a part of names in checkpoints. */
static bool is_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const size_t length = name ? strlen(name) : 0;
    return length > 0 && length <= LONGEST_NAME && strspn(name, letters) == length;
}

static bool is_number_name(const ct_optim_rule *rule, int i, bool rest) {
    const char *name = rule->numbers[i].name;
    if (!is_name(name)) return false;
    for (int k = 0; k < i; k++)
        if (!strcmp(name, rule->numbers[k].name)) return false;
    for (int k = 0; !rest && k < CTI_NN_COMMON; k++)
        if (!strcmp(name, common_numbers[k].name)) return false;
    return rest || strcmp(name, "skipped") != 0;
}

static bool is_state_name(const ct_optim_rule *rule, int i) {
    const char *name = rule->states[i];
    if (!is_name(name) || !strcmp(name, "rest")) return false;
    for (int k = 0; k < i; k++)
        if (!strcmp(name, rule->states[k])) return false;
    for (int k = 0; k < CTI_NN_ITEM_NUMBERS; k++)
        if (!strcmp(name, cti_nn_item_numbers[k].name)) return false;
    return true;
}

static bool rule_fits(ct_context *context, const ct_optim_rule *rule, bool rest) {
    if (!rule->name || !*rule->name)
        return ct_fail(context, CT_ERR_ARGUMENT, "ct_optim_new: a rule has no name");
    if (!rule->step && !rule->step_all)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the rule has no step", rule->name);
    if (rule->n_states < 0 || rule->n_states > CTI_NN_STATES || (rule->n_states && !rule->states))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the rule has %d states, must be 0 to %d",
                       rule->name, rule->states ? rule->n_states : 0, CTI_NN_STATES);
    if (rule->n_numbers < 0 || rule->n_numbers > MOST_NUMBERS ||
        (rule->n_numbers && !rule->numbers))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the rule has %d numbers, must be 0 to %d",
                       rule->name, rule->numbers ? rule->n_numbers : 0, MOST_NUMBERS);
    for (int i = 0; i < rule->n_states; i++)
        if (!is_state_name(rule, i))
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "%s: state %d is called \"%s\", which is no name or another's",
                           rule->name, i, rule->states[i] ? rule->states[i] : "NULL");
    for (int i = 0; i < rule->n_numbers; i++)
        if (!is_number_name(rule, i, rest))
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "%s: number %d is called \"%s\", which is no name or another's",
                           rule->name, i, rule->numbers[i].name ? rule->numbers[i].name : "NULL");
    return true;
}

/* The index in value[] of the rule's number of that name, if the rule is a rest and has one; if
 * not, `otherwise`. */
static int option_override(const cti_nn_rule *rule, bool rest, const char *name, int otherwise) {
    for (int i = 0; rest && i < rule->is->n_numbers; i++)
        if (!strcmp(rule->is->numbers[i].name, name)) return rule->first + i;
    return otherwise;
}

bool cti_nn_rules_fit(ct_context *context, ct_optim *optim, const ct_optim_rule *rule) {
    optim->values = CTI_NN_COMMON;
    for (; rule; rule = rule->rest) {
        const bool rest = optim->rules > 0;
        if (optim->rules == CTI_NN_RULES)
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: more than %d rules follow each other",
                           cti_nn_optim_name(optim), CTI_NN_RULES);
        if (!rule_fits(context, rule, rest)) return false;
        cti_nn_rule *added = &optim->rule[optim->rules++];
        *added = (cti_nn_rule){.is = rule, .first = optim->values};
        added->weight_decay = option_override(added, rest, "weight_decay", CTI_NN_WEIGHT_DECAY);
        added->matrices_only =
            option_override(added, rest, "decay_matrices_only", CTI_NN_MATRICES_ONLY);
        added->lr_scale = option_override(added, rest, "lr_scale", -1);
        optim->values += rule->n_numbers;
    }
    return true;
}

/* ---- values ---- */

void cti_nn_options_fill(ct_optim *optim, const ct_optim_opts *opts) {
    const double given[CTI_NN_COMMON] = {[CTI_NN_LR] = opts->lr,
                                         [CTI_NN_WEIGHT_DECAY] = opts->weight_decay,
                                         [CTI_NN_MATRICES_ONLY] = opts->decay_matrices_only,
                                         [CTI_NN_CLIP_NORM] = opts->clip_norm,
                                         [CTI_NN_SKIP_NONFINITE] = opts->skip_nonfinite};
    for (int i = 0; i < optim->values; i++) {
        const double *numbers = i < CTI_NN_COMMON ? given : opts->numbers;
        const double value = numbers ? numbers[i < CTI_NN_COMMON ? i : i - CTI_NN_COMMON] : 0;
        optim->value[i] = cti_option(value, cti_option(cti_nn_option(optim, i)->value, 0));
    }
}

static bool is_in_range(const ct_optim_number *number, double x) {
    const double most = cti_option(number->most, INFINITY);
    if (number->flag) return x == 0 || x == 1;
    return isfinite(x) && (number->open_least ? x > number->least : x >= number->least) &&
           (number->open_most ? x < most : x <= most);
}

/* Writes "is VALUE, must be RANGE". */
static void option_say_range(const ct_optim_number *number, double x, char *says, size_t size) {
    const double least = number->least, most = cti_option(number->most, INFINITY);
    const char *over = number->open_least ? "greater than" : "at least",
               *under = number->open_most ? "less than" : "at most";
    if (number->flag) snprintf(says, size, "is %g, must be 0 or 1", x);
    else if (least == most) snprintf(says, size, "is %g, must be %g", x, least);
    else if (isfinite(least) && isfinite(most))
        snprintf(says, size, "is %g, must be %s %g and %s %g", x, over, least, under, most);
    else if (isfinite(least))
        snprintf(says, size, "is %g, must be a number %s%s %g", x, number->open_least ? "" : "of ",
                 over, least);
    else if (isfinite(most))
        snprintf(says, size, "is %g, must be a number %s%s %g", x, number->open_most ? "" : "of ",
                 under, most);
    else snprintf(says, size, "is %g, must be a finite number", x);
}

bool cti_nn_optim_fault(const ct_optim *optim, ct_optim *of, cti_nn_fault *fault) {
    for (int i = 0; i < optim->values; i++) {
        const ct_optim_number *number = cti_nn_option(optim, i);
        if (is_in_range(number, optim->value[i])) continue;
        cti_nn_option_name(optim, i, fault->name);
        option_say_range(number, optim->value[i], fault->says, sizeof fault->says);
        return true;
    }
    *fault->name = '\0';
    for (int i = 0; i < optim->rules; i++) {
        const cti_nn_rule *rule = &optim->rule[i];
        const char *says = cti_nn_rule_fault(of, rule->is, optim->value + rule->first);
        if (!cti_ready(of->context)) return true;
        if (!says) continue;
        snprintf(fault->says, sizeof fault->says, "%s", says);
        return true;
    }
    return false;
}

bool cti_nn_item_fault(const cti_nn_item *item, cti_nn_fault *fault) {
    static const ct_optim_number at_least_0 = {0};
    const double of_group[] = {item->lr_scale, item->weight_decay};
    if (item->step < 0 || item->step > CTI_NN_LAST_STEP) {
        snprintf(fault->name, sizeof fault->name, "step");
        snprintf(fault->says, sizeof fault->says,
                 "is %" PRId64 ", must be at least 0 and at most %" PRId64, item->step,
                 CTI_NN_LAST_STEP);
        return true;
    }
    for (int i = 0; i < 2; i++) {
        if (is_in_range(&at_least_0, of_group[i])) continue;
        snprintf(fault->name, sizeof fault->name, "%s",
                 cti_nn_item_numbers[CTI_NN_GROUP_NUMBERS + i].name);
        option_say_range(&at_least_0, of_group[i], fault->says, sizeof fault->says);
        return true;
    }
    return false;
}

bool cti_nn_optim_check(const ct_optim *optim, ct_optim *of) {
    cti_nn_fault fault;
    if (!cti_nn_optim_fault(optim, of, &fault)) return true;
    return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: %s%s%s", cti_nn_optim_name(optim),
                   fault.name, *fault.name ? " " : "", fault.says);
}

/* ---- options of an optimiser that is made ---- */

/* The index of the option of that name; -1: there is none. */
static int option_named(const ct_optim *optim, const char *name) {
    char buffer[CTI_NN_OPTION_NAME];
    int i = optim->values - 1;
    while (i >= 0 && strcmp(cti_nn_option_name(optim, i, buffer), name) != 0) i--;
    return i;
}

/* Records the error for an unknown option, with the names of all options. */
static bool option_refuse(const ct_optim *optim, const char *name) {
    char known[256] = "", buffer[CTI_NN_OPTION_NAME];
    size_t used = 0;
    for (int i = 0; i < optim->values && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                 cti_nn_option_name(optim, i, buffer));
    return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: no option \"%s\": there are %s",
                   cti_nn_optim_name(optim), name, known);
}

/* Checks a copy of the values, so that the rule's `fault` and on_error see the old value. */
static bool option_set(ct_optim *optim, int i, double value) {
    const size_t bytes = cti_bytes(optim->values, sizeof(double));
    ct_optim copy = *optim;
    copy.value = cti_take(optim->context, bytes);
    if (!copy.value) return false;
    memcpy(copy.value, optim->value, bytes);
    copy.value[i] = cti_option(value, 0);
    const bool right = cti_nn_optim_check(&copy, optim);
    if (right) optim->value[i] = copy.value[i];
    cti_give(optim->context, copy.value, bytes);
    return right;
}

bool ct_optim_set(ct_optim *optim, const char *number, double value) {
    if (!cti_nn_optim_ready(optim, "ct_optim_set")) return false;
    const int option = number ? option_named(optim, number) : -1;
    return option < 0 ? option_refuse(optim, number ? number : "NULL")
                      : option_set(optim, option, value);
}

void ct_optim_set_lr(ct_optim *optim, double lr) {
    if (cti_nn_optim_ready(optim, "ct_optim_set_lr")) option_set(optim, CTI_NN_LR, lr);
}
