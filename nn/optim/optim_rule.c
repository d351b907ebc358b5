/* Calls of a rule's functions. The library's are called directly. A function of a program runs in a
 * frame of its own, so that the optimiser's module cannot be freed meanwhile; the optimiser is busy
 * until the function returns; and its errors are held until their text names the rule. */
#include "optim.h"

#include <string.h>

/* ---- calls ---- */

typedef struct {
    const ct_optim_rule *rule;
    void *user;
    /* the arguments and the result of the function */
    ct_optim_item *items;
    int64_t n;
    const double *numbers;
    const char *name, *fault;
    const ct_tensor *param;
    bool done;
} rule_call;

/* A rule's `step` gets a gradient that is clipped already; step_all clips by itself. */
static void rule_call_step(rule_call *c) {
    ct_optim_item *item = c->items;
    if (item->grad_scale != 1) item->grad = ct_scale(item->grad, item->grad_scale);
    item->grad_scale = 1;
    c->done = item->grad && c->rule->step(item, c->user);
}
static void rule_call_step_all(rule_call *c) {
    c->done = c->rule->step_all(c->items, c->n, c->user);
}
static void rule_call_takes(rule_call *c) { c->done = c->rule->takes(c->name, c->param, c->user); }
static void rule_call_fault(rule_call *c) { c->fault = c->rule->fault(c->numbers); }

bool cti_optim_is_idle(const ct_optim *optim, const char *function) {
    if (!optim->busy) return true;
    return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: called by the optimiser's own rule",
                   function);
}

/* Records the pending error anew, with the names of the rule and the parameter before it. */
static void name_error(ct_context *context, const ct_optim_rule *rule, const char *param) {
    const ct_status status = context->status;
    char message[CTI_MESSAGE_SIZE];
    memcpy(message, context->message, sizeof message);
    context->status = CT_OK;
    context->frame->module = NULL; /* the message has the module's path already */
    ct_fail(context, status, "%s: %s%s%s", rule->name, param ? param : "", param ? ": " : "",
            message);
}

/* Runs a function of the rule in a frame in which nothing is recorded. param NULL: it is for no
 * single parameter. False with an error. */
static bool rule_callback(ct_optim *optim, rule_call *c, void (*call)(rule_call *c),
                          const char *param) {
    ct_context *context = optim->context;
    const char *op = context->op;
    const bool held = context->held;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    frame.module = &optim->module->namer;
    context->op = c->rule->name;
    context->held = true;
    optim->busy++;
    call(c);
    optim->busy--;
    context->held = held;
    context->op = op;
    if (context->status != CT_OK) name_error(context, c->rule, param);
    cti_frame_close(context, &frame);
    return context->status == CT_OK;
}

/* ---- takes, fault ---- */

static bool rule_takes(ct_optim *optim, const ct_optim_rule *rule, const cti_nn_item *item) {
    rule_call c = {.rule = rule, .user = optim->user, .param = item->param, .done = true};
    for (const cti_nn_name *name = item->names; rule->takes && c.done && name; name = name->next) {
        c.name = name->text;
        if (optim->own) rule_call_takes(&c);
        else c.done &= rule_callback(optim, &c, rule_call_takes, item->names->text);
    }
    return c.done;
}

int cti_nn_rule_for(ct_optim *optim, const cti_nn_item *item) {
    for (int i = 0; i < optim->rules; i++) {
        if (rule_takes(optim, optim->rule[i].is, item)) return i;
        if (!cti_ready(optim->context)) return -1;
    }
    ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: no rule takes the parameter %s",
            cti_nn_optim_name(optim), item->names->text);
    return -1;
}

const char *cti_nn_rule_fault(ct_optim *of, const ct_optim_rule *rule, const double *numbers) {
    rule_call c = {.rule = rule, .numbers = numbers};
    if (!rule->fault) return NULL;
    if (of->own) return rule->fault(numbers);
    return rule_callback(of, &c, rule_call_fault, NULL) ? c.fault : NULL;
}

/* ---- a step ---- */

/* Counts the writes of a program's rule before they are made, because the rule may change the
 * items. */
static void writes_count(const ct_optim_rule *rule, const ct_optim_item *items, int64_t n) {
    for (int64_t i = 0; i < n; i++) cti_op_step_wrote(&items[i], rule->n_states);
}

/* Runs the rule on one item; false with an error that names the parameter. */
static bool rule_run_step(ct_optim *optim, const ct_optim_rule *rule, int64_t at) {
    ct_optim_item item = optim->steps[at];
    rule_call c = {.rule = rule, .user = optim->user, .items = &item};
    writes_count(rule, &item, 1);
    bool ok = rule_callback(optim, &c, rule_call_step, item.name);
    if (ok && !c.done)
        ok = ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: %s: its step returned false", rule->name,
                     optim->steps[at].name);
    return ok;
}

/* Runs a program's rule on n items at once. */
static bool rule_run_step_all(ct_optim *optim, const ct_optim_rule *rule, ct_optim_item *items,
                              int64_t n) {
    rule_call c = {.rule = rule, .user = optim->user, .items = items, .n = n};
    writes_count(rule, items, n);
    const bool ok = rule_callback(optim, &c, rule_call_step_all, NULL);
    if (ok && !c.done)
        ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: its step_all returned false", rule->name);
    return ok && c.done;
}

/* Runs the rule on n items. Returns how many of them were updated. */
static int64_t rule_run(ct_optim *optim, const ct_optim_rule *rule, int64_t first, int64_t n) {
    ct_optim_item *items = optim->steps + first;
    int64_t i = 0;
    if (optim->own) return rule->step_all(items, n, optim->user) ? n : 0;
    if (rule->step_all) return n && rule_run_step_all(optim, rule, items, n) ? n : 0;
    while (i < n && rule_run_step(optim, rule, first + i)) i++;
    return i;
}

/* ---- states of bf16, for a rule that takes none ---- */

/* Gives n items states of the parameter's dtype, which end with the scope. */
static bool states_widen(ct_optim_item *items, int64_t n, int states) {
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < states; k++) {
            items[i].state[k] = ct_cast(items[i].state[k], items[i].param->dtype);
            if (!items[i].state[k]) return false;
        }
    return true;
}

/* Runs the rule as rule_run does, on wide copies of the states, and rounds those of the items that
 * were updated. The rule may change the items, so `before` and `wide`, which have room for n, keep
 * what they were. */
static int64_t rule_run_wide(ct_optim *optim, const ct_optim_rule *rule, int64_t first, int64_t n,
                             ct_optim_item *before, ct_optim_item *wide) {
    ct_optim_item *items = optim->steps + first;
    memcpy(before, items, (size_t)n * sizeof *items);
    if (!states_widen(items, n, rule->n_states)) return 0;
    memcpy(wide, items, (size_t)n * sizeof *items);
    const int64_t done = rule_run(optim, rule, first, n);
    for (int64_t i = 0; i < done; i++)
        for (int k = 0; k < rule->n_states; k++)
            cti_op_round_state(before[i].state[k], wide[i].state[k], before[i].element,
                               before[i].step);
    return done;
}

/* Does so for all items at once if the rule has a step_all, and otherwise one after another, so
 * that only one has wide states at a time. */
static int64_t rule_run_rounded(ct_optim *optim, const ct_optim_rule *rule, int64_t first,
                                int64_t n) {
    const int64_t part = rule->step_all ? n : 1;
    const size_t bytes = cti_bytes(part, 2 * sizeof(ct_optim_item));
    ct_optim_item *copies = n ? cti_take(optim->context, bytes) : NULL;
    int64_t done = 0, now = part;
    while (copies && done < n && now == part) {
        ct_scope scope = ct_scope_open_no_grad(optim->context);
        now = rule_run_wide(optim, rule, first + done, part, copies, copies + part);
        ct_scope_close(scope);
        done += now;
    }
    if (copies) cti_give(optim->context, copies, bytes);
    return done;
}

int64_t cti_nn_rules_run(ct_optim *optim) {
    int64_t first = 0;
    for (int r = 0; r < optim->rules; r++) {
        const ct_optim_rule *rule = optim->rule[r].is;
        const bool rounds = optim->state_dtype == CT_BF16 && rule->n_states && !rule->bf16_states;
        const int64_t n = optim->rule[r].steps, done = rounds
                                                           ? rule_run_rounded(optim, rule, first, n)
                                                           : rule_run(optim, rule, first, n);
        first += done;
        if (done < n) break;
    }
    return first;
}
