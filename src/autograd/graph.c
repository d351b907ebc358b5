/* The recorded graph as text and for Graphviz, in two passes along the tape. The first goes from
 * the root to older nodes and numbers the nodes that it reaches; the second goes back and writes
 * them. There is no recursion, and each node takes a graph_entry of 24 bytes.
 *
 * A node does not hold its result. The values are read from any tensor that exists and has them: a
 * handle in an open scope, a leaf's tensor, or a saved tensor of the node or of a node that reads
 * the result. If there is none, the values were not kept. */
#include "../core/context.h"
#include "../core/summary.h"
#include "tape.h"

/* The entry of one node. */
typedef struct {
    /* a tensor with the output's shape and dtype, which a node that reads it has saved; NULL in the
     * root's entry */
    const ct_tensor *saved;
    int64_t id;    /* its number among the ops or the leaves of the text; 0 if not written yet */
    int64_t first; /* the number of the first output, in `value`; 0 if not numbered yet */
} graph_entry;

typedef struct {
    const ct_tensor *tensor;
    FILE *file;
    bool dot;
    ct_graph_opts opts;
    cti_node *root, *oldest; /* the first and last op that are reached */
    int64_t count;           /* the number of nodes that are reached, leaves included */
    graph_entry *of;         /* [count] the entry of node n is at n->number - 1 */
    const ct_tensor *
        *value; /* [1 + outputs] if opts.values: the tensor with the values; NULL if not kept */
    int64_t outputs; /* the number of outputs of all nodes, which are numbered from 1 */
    int64_t op_ids, leaf_ids, constant_ids; /* the last numbers that were given */
} graph;

/* ---- the first pass ---- */

/* Sets `number` of the root and of every node that it was computed from. */
static void graph_reach(graph *g) {
    CTI_ASSERT(!g->root->number); /* no other walk is under way */
    g->root->number = 1;
    g->count = 1;
    /* ops that have a number and that the loop has not visited */
    int64_t pending = g->root->call.op != NULL;
    for (cti_node *node = g->root; pending; node = node->prev) {
        if (!node->number) continue;
        pending--;
        g->oldest = node;
        for (int i = 0; i < node->call.n; i++) {
            cti_node *edge = node->edge[i] ? cti_node_of(node->edge[i]) : NULL;
            if (!edge || edge->number) continue;
            edge->number = (int)++g->count;
            pending += edge->call.op != NULL;
        }
    }
}

/* The next newer op that the first pass has reached; NULL after the root. */
static cti_node *next_op(const graph *g, cti_node *node) {
    if (node == g->root) return NULL;
    do node = node->next;
    while (!node->number);
    return node;
}

/* Sets every number back to 0. */
static void numbers_clear(graph *g) {
    for (cti_node *node = g->oldest; node; node = next_op(g, node)) {
        for (int i = 0; i < node->call.n; i++)
            if (node->edge[i] && !cti_node_of(node->edge[i])->call.op)
                cti_node_of(node->edge[i])->number = 0;
        node->number = 0;
    }
    g->root->number = 0;
}

/* ---- the second pass ---- */

/* Writes a name between double quotes. In a label Graphviz also reads HTML's entities. */
static void graph_put_name(const graph *g, const char *name) {
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') fputc('\\', g->file);
        fputc((unsigned char)*name < ' ' || *name == 127 ? '?' : *name, g->file);
        if (*name == '&' && g->dot) fputs("amp;", g->file);
    }
}

static void type_put(FILE *file, const ct_tensor *t) {
    fprintf(file, "%s %s", SHAPE(t->shape), cti_dtype_name(t->dtype));
}

/* A tensor with the shape and dtype of the node's output. */
static const ct_tensor *type_of(const graph *g, const graph_entry *w) {
    return w->saved ? w->saved : g->tensor;
}

/* ---- values and gradients ---- */

/* Writes at most two lines of a label, each behind its "\n". Returns whether all shown numbers are
 * finite. */
static bool value_put(const graph *g, const ct_tensor *value, const char *name) {
    if (!g->opts.values) return true;
    fprintf(g->file, "\\n%s", name);
    if (!value || !value->storage) {
        fputs("values not kept", g->file);
        return true;
    }
    const cti_summary summary = cti_tensor_summarize(value);
    cti_summary_print(value, &summary, g->file);
    return summary.finite == value->numel;
}

static bool grad_put(const graph *g, const cti_grad_slot *slot, const char *name) {
    const ct_tensor *grad = cti_node_of(slot)->call.op ? slot->retained : slot->sum;
    /* a sum that is lent to the running backward may still be undefined */
    if (!g->opts.grads || !grad || slot->lent) return true;
    const cti_summary summary = cti_tensor_summarize(grad);
    fprintf(g->file, "\\n%s|grad| ", name);
    if (summary.nans) fprintf(g->file, "nan (%lld nan)", (long long)summary.nans);
    else if (summary.infinities) fprintf(g->file, "inf (%lld inf)", (long long)summary.infinities);
    else fprintf(g->file, "%.6g", summary.norm);
    return summary.finite == grad->numel;
}

/* Writes the lines of each output of a node. */
static bool outputs_put(const graph *g, const cti_node *node) {
    bool finite = true;
    for (int k = 0; k < node->call.n_outs; k++) {
        char name[32] = "";
        if (node->call.n_outs > 1) snprintf(name, sizeof name, "output %d: ", k);
        if (g->value) finite &= value_put(g, g->value[g->of[node->number - 1].first + k], name);
        finite &= grad_put(g, &node->slot[k], name);
    }
    return finite;
}

/* Ends a label and the node's attributes. A node with NaN or infinities is red. */
static void end_put(const graph *g, bool finite, const char *attributes) {
    fprintf(g->file, "\"%s%s];\n", attributes, finite ? "" : ", color=red, fontcolor=red");
}

/* ---- nodes ---- */

static void leaf_put(graph *g, const cti_node *node) {
    graph_entry *w = &g->of[node->number - 1];
    char buffer[CTI_NAME_SIZE];
    const cti_namer *namer = node->owner && node->owner->parameter > 0 ? node->owner->namer : NULL;
    const char *name = namer ? namer->name(namer, buffer) : NULL;
    w->id = ++g->leaf_ids;
    fprintf(g->file, g->dot ? "    x%lld [label=\"" : "x%lld = ", (long long)w->id);
    if (name && !g->dot) fputs("parameter \"", g->file);
    graph_put_name(g, name ? name : "leaf");
    if (name && !g->dot) fputc('"', g->file);
    fputs(g->dot ? "\\n" : " ", g->file);
    type_put(g->file, type_of(g, w));
    if (g->dot)
        end_put(g, outputs_put(g, node),
                name ? ", fillcolor=\"#d5e8f7\"" : ", fillcolor=\"#fdf0c8\"");
    else fputc('\n', g->file);
}

static void input_put(graph *g, const cti_node *node, int i, int64_t to) {
    const cti_grad_slot *slot = node->edge[i];
    if (slot) {
        const cti_node *from = cti_node_of(slot);
        const char kind = from->call.op ? g->dot ? 'n' : '%' : 'x';
        const int output = (int)(slot - from->slot);
        fprintf(g->file, g->dot ? "    %c%lld -> n%lld" : "%c%lld", kind,
                (long long)g->of[from->number - 1].id, (long long)to);
        if (from->call.n_outs > 1)
            fprintf(g->file, g->dot ? " [label=\"output %d\"]" : ".%d", output);
        if (g->dot) fputs(";\n", g->file);
    } else if (g->dot && node->call.in[i]) {
        const long long id = ++g->constant_ids;
        fprintf(g->file, "    c%lld [label=\"", id);
        type_put(g->file, node->call.in[i]);
        const bool finite = value_put(g, node->call.in[i], "");
        end_put(g, finite,
                finite ? ", style=dashed, color=gray50, fontcolor=gray30" : ", style=dashed");
        fprintf(g->file, "    c%lld -> n%lld [style=dashed, color=gray50];\n", id, (long long)to);
    } else if (!g->dot && node->call.in[i]) {
        type_put(g->file, node->call.in[i]);
    } else if (!g->dot) {
        fputs("NULL", g->file);
    }
}

/* Writes the shape of a single output. Of several outputs it writes only the number, because
 * `saved` may be any of them. */
static void result_put(const graph *g, const cti_node *node) {
    if (node->call.n_outs > 1) fprintf(g->file, "%d outputs", node->call.n_outs);
    else type_put(g->file, type_of(g, &g->of[node->number - 1]));
}

static void graph_put_op(graph *g, const cti_node *node) {
    FILE *file = g->file;
    const ct_call *c = &node->call;
    graph_entry *w = &g->of[node->number - 1];
    for (int i = 0; i < c->n; i++)
        if (node->edge[i] && !cti_node_of(node->edge[i])->call.op &&
            !g->of[cti_node_of(node->edge[i])->number - 1].id)
            leaf_put(g, cti_node_of(node->edge[i]));
    w->id = ++g->op_ids;
    fprintf(file, g->dot ? "    n%lld [label=\"" : "%%%lld = ", (long long)w->id);
    graph_put_name(g, c->op->name);
    if (g->dot) {
        fputs(node->released ? " (released)\\n" : "\\n", file);
        result_put(g, node);
        end_put(g, outputs_put(g, node), node == g->root ? ", penwidth=2" : "");
        for (int i = 0; i < c->n; i++) input_put(g, node, i, w->id);
        return;
    }
    fputc('(', file);
    for (int i = 0; i < c->n; i++) {
        if (i) fputs(", ", file);
        input_put(g, node, i, 0);
    }
    fputs(node->released ? "released by backward) " : ") ", file);
    type_put(file, type_of(g, w));
    fputc('\n', file);
}

static void graph_put_all(graph *g) {
    if (g->dot)
        fputs("digraph cotangent {\n"
              "    label=\"Data flows down the arrows. Gradients flow back up the solid ones.",
              g->file);
    if (g->dot && (g->opts.values || g->opts.grads)) fputs(" Red: NaN or infinite.", g->file);
    if (g->dot)
        fputs("\";\n"
              "    fontname=\"Helvetica\"; fontsize=11; ranksep=0.3;\n"
              "    node [shape=box, style=filled, fillcolor=white, fontname=\"Helvetica\", "
              "fontsize=11, height=0.3];\n",
              g->file);
    if (!g->root) {
        fputs(g->dot ? "    c1 [label=\"" : "", g->file);
        type_put(g->file, g->tensor);
        if (g->dot) end_put(g, value_put(g, g->tensor, ""), ", style=dashed");
        else fputs(", of no recorded op\n", g->file);
    } else if (!g->oldest) {
        leaf_put(g, g->root);
    }
    for (cti_node *node = g->oldest; node; node = next_op(g, node)) graph_put_op(g, node);
    if (g->dot) fputs("}\n", g->file);
}

/* Finds the nodes' types, and with opts.values their values. */
static void saved_find(graph *g) {
    for (cti_node *node = g->oldest; node; node = next_op(g, node)) {
        for (int i = 0; i < node->call.n; i++) {
            if (!node->edge[i]) continue;
            const cti_grad_slot *slot = node->edge[i];
            graph_entry *w = &g->of[cti_node_of(slot)->number - 1];
            w->saved = node->call.in[i];
            if (g->value && w->saved->storage) g->value[w->first + slot->index] = w->saved;
        }
        for (int k = 0; g->value && k < node->call.n_outs; k++) {
            const ct_tensor *out = node->call.outs[k];
            if (out && out->storage) g->value[g->of[node->number - 1].first + k] = out;
        }
    }
}

static void value_keep(graph *g, const ct_tensor *t) {
    if (!t->slot || !t->storage || !cti_node_of(t->slot)->number) return;
    g->value[g->of[cti_node_of(t->slot)->number - 1].first + t->slot->index] = t;
}

/* Finds the values of results and leaves whose handles have not ended. */
static void alive_find(graph *g) {
    for (const cti_frame *frame = g->tensor->context->frame; frame; frame = frame->outer)
        for (const ct_tensor *t = frame->tensors; t; t = t->next) value_keep(g, t);
    for (cti_node *node = g->oldest; node; node = next_op(g, node))
        for (int i = 0; i < node->call.n; i++) {
            const cti_node *from = node->edge[i] ? cti_node_of(node->edge[i]) : NULL;
            if (from && !from->call.op && from->owner) value_keep(g, from->owner);
        }
    value_keep(g, g->tensor);
}

static void number_outputs(graph *g, const cti_node *node) {
    graph_entry *w = &g->of[node->number - 1];
    if (w->first) return;
    w->first = g->outputs + 1;
    g->outputs += node->call.n_outs;
}

/* Allocates and fills the entries. Returns false with an error if memory is short. */
static bool graph_prepare(graph *g) {
    ct_context *context = g->tensor->context;
    g->of = cti_take_zeroed(context, cti_bytes(g->count, sizeof *g->of));
    if (!g->of) return false;
    if (g->opts.values) {
        number_outputs(g, g->root);
        for (cti_node *node = g->oldest; node; node = next_op(g, node)) {
            number_outputs(g, node);
            for (int i = 0; i < node->call.n; i++)
                if (node->edge[i]) number_outputs(g, cti_node_of(node->edge[i]));
        }
        g->value = cti_take_zeroed(context, cti_bytes(g->outputs + 1, sizeof *g->value));
        if (!g->value) return false;
    }
    saved_find(g);
    if (g->value) alive_find(g);
    return true;
}

static bool graph_write(const ct_tensor *tensor, FILE *file, bool dot, ct_graph_opts opts) {
    if (!tensor || !cti_tensor_is_open(tensor, "graph")) return false;
    ct_context *context = tensor->context;
    if (!file) return ct_fail(context, CT_ERR_ARGUMENT, "graph: file is NULL");
    graph g = {.tensor = tensor,
               .file = file,
               .dot = dot,
               .opts = opts,
               .root = tensor->slot ? cti_node_of(tensor->slot) : NULL};
    if (g.root) graph_reach(&g);
    const bool able = !g.root || graph_prepare(&g);
    if (able) graph_put_all(&g);
    if (g.root) numbers_clear(&g);
    cti_give(context, g.value, cti_bytes(g.outputs + 1, sizeof *g.value));
    cti_give(context, g.of, cti_bytes(g.count, sizeof *g.of));
    if (able && ferror(file))
        return ct_fail(context, CT_ERR_IO, "graph: the file cannot be written to");
    return able;
}

bool ct_graph_dot_with(const ct_tensor *tensor, FILE *file, ct_graph_opts opts) {
    return graph_write(tensor, file, true, opts);
}
bool ct_graph_dot(const ct_tensor *tensor, FILE *file) {
    return ct_graph_dot_with(tensor, file, (ct_graph_opts){0});
}
bool ct_graph_print(const ct_tensor *tensor, FILE *file) {
    return graph_write(tensor, file, false, (ct_graph_opts){0});
}
