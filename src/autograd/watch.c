/* Reports each leaf that has its whole gradient while backward still runs. States and invariants
 * are in watch.h. */
#include "watch.h"

#include <inttypes.h>
#include <limits.h>

typedef struct {
    cti_node *node; /* the leaf's node, with a reference */
    int64_t uses;
} watched_leaf;

typedef enum { WATCH_IDLE, WATCH_EARLY, WATCH_LATE } watch_state; /* see watch.h */

struct cti_watch {
    ct_context *context;
    const ct_watch_fns *fns;
    void *self;
    int64_t n;
    watched_leaf *leaf; /* [n] */
    bool *reached; /* [n] whether the running backward reaches the leaf and has not reported it */
    watch_state state;
    bool calling; /* whether a function of the watcher is running */
};
typedef struct cti_watch watch;

/* ---- making and freeing ---- */

static void watch_free(watch *w) {
    ct_context *context = w->context;
    for (int64_t i = 0; w->leaf && i < w->n; i++)
        if (w->leaf[i].node) cti_node_unref(w->leaf[i].node);
    cti_give(context, w->leaf, cti_bytes(w->n, sizeof *w->leaf));
    cti_give(context, w->reached, cti_bytes(w->n, sizeof *w->reached));
    cti_give(context, w, sizeof *w);
}

static cti_grad_slot *leaf_slot(const watch *w, int64_t i) { return &w->leaf[i].node->slot[0]; }

/* The number of the leaf with this slot, or -1 if it is not watched. slot->watched may be the
 * number that an earlier watcher has given. */
static int64_t number_of(const watch *w, const cti_grad_slot *slot) {
    if (!slot || !slot->watched || (int64_t)slot->watched > w->n) return -1;
    const int64_t i = (int64_t)slot->watched - 1;
    return w->leaf[i].node && leaf_slot(w, i) == slot ? i : -1;
}

static bool leaf_add(watch *w, int64_t i, ct_tensor *t) {
    ct_context *context = w->context;
    if (!t) return ct_fail(context, CT_ERR_ARGUMENT, "watch: leaf %" PRId64 " is NULL", i);
    if (!cti_tensor_in(t, context, "watch")) return false;
    cti_node *node = t->slot ? cti_node_of(t->slot) : NULL;
    if (!node || node->call.op)
        return ct_fail(context, CT_ERR_GRAD,
                       "watch: tensor %" PRId64 " %s is no leaf that requires a gradient", i,
                       SHAPE(t->shape));
    if (number_of(w, t->slot) >= 0)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "watch: leaf %" PRId64 " is leaf %" PRId64 " again", i,
                       number_of(w, t->slot));
    cti_node_ref(node);
    w->leaf[i].node = node;
    t->slot->watched = (unsigned)i + 1;
    return true;
}

static watch *watch_new(ct_context *context, ct_tensor *const *leaves, int64_t n) {
    watch *w = cti_take_zeroed(context, sizeof *w);
    if (!w) return NULL;
    w->context = context;
    w->n = n;
    w->leaf = cti_take_zeroed(context, cti_bytes(n, sizeof *w->leaf));
    w->reached = w->leaf ? cti_take_zeroed(context, cti_bytes(n, sizeof *w->reached)) : NULL;
    bool made = w->reached;
    for (int64_t i = 0; made && i < n; i++) made = leaf_add(w, i, leaves[i]);
    if (made) return w;
    watch_free(w);
    return NULL;
}

bool ct_watch(ct_context *context, ct_tensor *const *leaves, int64_t n, const ct_watch_fns *fns,
              void *self) {
    if (!cti_ready(context)) return false;
    if (!fns || n < 0 || n > UINT_MAX - 1 || (n && !leaves))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "watch: %" PRId64 " leaves at %p and functions at %p", n,
                       (const void *)leaves, (const void *)fns);
    if (context->watch) return false;
    watch *w = watch_new(context, leaves, n);
    if (!w) return false;
    w->fns = fns;
    w->self = self;
    context->watch = w;
    return true;
}

void ct_unwatch(ct_context *context, void *self) {
    if (!context) return;
    watch *w = context->watch;
    if (!w || w->self != self) return;
    context->watch = NULL;
    if (!w->calling) watch_free(w);
}

/* ---- calling the program's functions ---- */

/* Ends a call of one of the watcher's functions, before which `calling` was set. Returns false if
 * the function has left an error. If it has called ct_unwatch the watcher is freed now, so the
 * caller compares it with context->watch. */
static bool watch_told(watch *w) {
    ct_context *context = w->context;
    w->calling = false;
    if (context->watch != w) watch_free(w);
    return context->status == CT_OK;
}

static bool watch_tell_begin(watch *w, bool retain_graph) {
    if (!w->fns->begin) return true;
    w->calling = true;
    w->fns->begin(w->self, w->reached, retain_graph);
    return watch_told(w);
}

/* Reports that the gradient of leaf i is whole. */
static bool watch_tell_whole(watch *w, int64_t i) {
    const cti_node *node = w->leaf[i].node;
    cti_grad_slot *slot = leaf_slot(w, i);
    w->reached[i] = false;
    if (!w->fns->whole || !node->owner || !slot->sum) return true;
    w->calling = true;
    if (w->fns->whole(w->self, i, slot->sum)) cti_grad_slot_empty(slot);
    return watch_told(w);
}

static bool watch_tell_turn(watch *w) {
    if (!w->fns->turn) return true;
    w->calling = true;
    w->fns->turn(w->self);
    return watch_told(w);
}

static bool watch_tell_end(watch *w, bool ok) {
    if (!w->fns->end) return true;
    w->calling = true;
    w->fns->end(w->self, ok);
    return watch_told(w);
}

/* ---- in a backward ---- */

/* Counts the edges to leaves, and finds the leaves that this backward reaches. The walk sets a
 * node's number to 1 when it finds that the backward reaches the node, and back to 0 when it passes
 * the node. */
static watch_state watch_count_uses(watch *w, ct_tensor *const *outs, int n) {
    watch_state state = WATCH_EARLY;
    for (int64_t i = 0; i < w->n; i++) w->leaf[i].uses = 0, w->reached[i] = false;
    for (int i = 0; i < n; i++) {
        const int64_t leaf = number_of(w, outs[i]->slot);
        if (leaf >= 0) w->reached[leaf] = true, state = WATCH_LATE;
        else if (cti_node_of(outs[i]->slot)->call.op) cti_node_of(outs[i]->slot)->number = 1;
    }
    for (cti_node *node = w->context->tape_last; node; node = node->prev) {
        const bool reached = node->number;
        node->number = 0;
        if (node->call.op->flags & CTI_OP_HIDES_LEAVES) state = WATCH_LATE;
        for (int e = 0; e < node->call.n; e++) {
            if (!node->edge[e]) continue;
            cti_node *from = cti_node_of(node->edge[e]);
            const int64_t i = number_of(w, node->edge[e]);
            if (i >= 0) w->leaf[i].uses++, w->reached[i] |= reached;
            else if (reached && from->call.op) from->number = 1;
        }
    }
    for (int64_t i = 0; i < w->n; i++) w->reached[i] &= w->leaf[i].node->owner != NULL;
    return state;
}

bool cti_watch_begin(ct_context *context, ct_tensor *const *outs, int n, bool retain_graph) {
    watch *w = context->watch;
    w->state = watch_count_uses(w, outs, n);
    if (retain_graph) w->state = WATCH_LATE;
    return watch_tell_begin(w, retain_graph);
}

bool cti_watch_ran(ct_context *context, const cti_node *node) {
    watch *w = context->watch;
    bool ok = true;
    for (int e = 0; w->state == WATCH_EARLY && e < node->call.n; e++) {
        const int64_t i = number_of(w, node->edge[e]);
        if (i < 0 || !w->leaf[i].uses || --w->leaf[i].uses || !w->reached[i]) continue;
        ok = watch_tell_whole(w, i);
        if (!ok || context->watch != w) return ok;
    }
    return w->state == WATCH_IDLE || watch_tell_turn(w);
}

bool cti_watch_end(ct_context *context, bool ok) {
    watch *w = context->watch;
    for (int64_t i = 0; ok && w->state != WATCH_IDLE && i < w->n; i++) {
        if (!w->reached[i]) continue;
        ok = watch_tell_whole(w, i);
        if (context->watch != w) return ok;
    }
    if (w->state == WATCH_IDLE) return ok;
    w->state = WATCH_IDLE;
    return watch_tell_end(w, ok) && ok;
}
