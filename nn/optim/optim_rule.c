/* Calls of a rule's functions. The library's are called directly. A function of a program is a
 * callback: it runs in a frame of its
 * own, so that the optimiser's module cannot be freed meanwhile, and its errors are held until
 * their text names the rule. */
#include "../../src/core/callback.h"
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

/* The gradient becomes as clipping leaves it. */
static void call_step(void *arg) {
    rule_call *c = arg;
    ct_optim_item *item = c->items;
    if (item->grad_scale != 1) item->grad = ct_scale(item->grad, item->grad_scale);
    item->grad_scale = 1;
    c->done = item->grad && c->rule->step(item, c->user);
}
static void call_step_all(void *arg) {
    rule_call *c = arg;
    c->done = c->rule->step_all(c->items, c->n, c->user);
}
static void call_takes(void *arg) {
    rule_call *c = arg;
    c->done = c->rule->takes(c->name, c->param, c->user);
}
static void call_fault(void *arg) {
    rule_call *c = arg;
    c->fault = c->rule->fault(c->numbers);
}

bool cti_nn_frame_is_open(ct_context *context, uint64_t id) {
    if (!id) return false;
    cti_check_callbacks(context); /* closes frames of calls that were left */
    const cti_frame *frame = context->frame;
    while (frame && frame->id != id) frame = frame->outer;
    return frame;
}

bool cti_optim_is_idle(const ct_optim *optim, const char *function) {
    if (!cti_nn_frame_is_open(optim->context, optim->busy)) return true;
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

/* Runs a function of the rule, called `what` in messages, in an open frame. param NULL: it is for
 * no single parameter. False with an error. */
static bool rule_callback(ct_optim *optim, rule_call *c, const char *what, void (*call)(void *),
                          const char *param) {
    ct_context *context = optim->context;
    const char *op = context->op;
    const bool held = context->held;
    context->op = c->rule->name;
    context->held = true;
    cti_callback_run(context, what, c->rule->name, call, c);
    context->held = held;
    context->op = op;
    if (context->status == CT_OK) return true;
    name_error(context, c->rule, param);
    return false;
}

/* Opens the frame of a function of a rule. Nothing is recorded in it. */
static void enter_rule(ct_optim *optim, cti_frame *frame) {
    cti_frame_open(optim->context, frame, true);
    frame->module = &optim->module->namer;
    optim->busy = frame->id;
}
static void leave_rule(ct_optim *optim, cti_frame *frame) {
    cti_frame_close(optim->context, frame);
    optim->busy = 0;
}

/* ---- takes, fault ---- */

static bool rule_takes(ct_optim *optim, const ct_optim_rule *rule, const cti_nn_item *item) {
    rule_call c = {.rule = rule, .user = optim->user, .param = item->param, .done = true};
    for (const cti_nn_name *name = item->names; rule->takes && c.done && name; name = name->next) {
        cti_frame frame;
        c.name = name->text;
        enter_rule(optim, &frame);
        if (optim->own) call_takes(&c);
        else c.done &= rule_callback(optim, &c, "takes", call_takes, item->names->text);
        leave_rule(optim, &frame);
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
    const uint64_t busy = of->busy;
    cti_frame frame;
    enter_rule(of, &frame);
    const bool ok = rule_callback(of, &c, "fault", call_fault, NULL);
    leave_rule(of, &frame);
    of->busy = busy;
    return ok ? c.fault : NULL;
}

/* ---- a step ---- */

/* Counts the writes of a program's rule before they are made, because the rule may change the
 * items. */
static void count_writes(const ct_optim_rule *rule, const ct_optim_item *items, int64_t n) {
    for (int64_t i = 0; i < n; i++) cti_op_step_wrote(&items[i], rule->n_states);
}

/* Runs the rule on one item; false with an error that names the parameter. */
static bool run_step(ct_optim *optim, const ct_optim_rule *rule, int64_t at) {
    ct_context *context = optim->context;
    ct_optim_item item = optim->steps[at];
    rule_call c = {.rule = rule, .user = optim->user, .items = &item};
    cti_frame frame;
    count_writes(rule, &item, 1);
    enter_rule(optim, &frame);
    bool ok = rule_callback(optim, &c, "step", call_step, item.name);
    leave_rule(optim, &frame);
    if (ok && !c.done)
        ok = ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: its step returned false", rule->name,
                     optim->steps[at].name);
    return ok;
}

/* Runs a program's rule on n items at once. */
static bool run_step_all(ct_optim *optim, const ct_optim_rule *rule, ct_optim_item *items,
                         int64_t n) {
    rule_call c = {.rule = rule, .user = optim->user, .items = items, .n = n};
    cti_frame frame;
    count_writes(rule, items, n);
    enter_rule(optim, &frame);
    const bool ok = rule_callback(optim, &c, "step_all", call_step_all, NULL);
    leave_rule(optim, &frame);
    if (ok && !c.done)
        ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: its step_all returned false", rule->name);
    return ok && c.done;
}

/* Runs the rule on n items. Returns how many of them were updated. */
static int64_t run_rule(ct_optim *optim, const ct_optim_rule *rule, int64_t first, int64_t n) {
    ct_optim_item *items = optim->steps + first;
    int64_t i = 0;
    if (optim->own) return rule->step_all(items, n, optim->user) ? n : 0;
    if (rule->step_all) return n && run_step_all(optim, rule, items, n) ? n : 0;
    while (i < n && run_step(optim, rule, first + i)) i++;
    return i;
}

int64_t cti_nn_rules_run(ct_optim *optim) {
    int64_t first = 0;
    for (int r = 0; r < optim->rules; r++) {
        const int64_t n = optim->rule[r].steps, done = run_rule(optim, optim->rule[r].is, first, n);
        first += done;
        if (done < n) break;
    }
    return first;
}
