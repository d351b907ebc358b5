/* The recorded graph as text and for Graphviz, in two passes along the tape: from the root to older
 * nodes, which numbers the nodes that are reached, and back, which writes them. There is no
 * recursion, and a `written` of 16 bytes for each node. */
#include "../core/context.h"
#include "tape.h"

/* Of one node. */
typedef struct {
    /* the saved tensor of an op that reads its output, for shape and dtype; NULL of the root */
    const ct_tensor *saved;
    int64_t id; /* in the text, from 1, ops and leaves separately; 0: not written yet */
} written;

typedef struct {
    const ct_tensor *tensor;
    FILE *file;
    bool dot;
    cti_node *root, *oldest;                /* the first and last op that are reached */
    int64_t count;                          /* of nodes that are reached, with leaves */
    written *of;                            /* [count], of node n at n->number - 1 */
    int64_t op_ids, leaf_ids, constant_ids; /* the last ones given */
} graph;

/* ---- the first pass ---- */

/* Sets `number` of the root and of every node that it was computed from. */
static void reach(graph *g) {
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

/* The next newer op that is reached; NULL after the root. */
static cti_node *next_op(const graph *g, cti_node *node) {
    if (node == g->root) return NULL;
    do node = node->next;
    while (!node->number);
    return node;
}

/* Sets every number back to 0. */
static void clear_numbers(graph *g) {
    for (cti_node *node = g->oldest; node; node = next_op(g, node)) {
        for (int i = 0; i < node->call.n; i++)
            if (node->edge[i] && !cti_node_of(node->edge[i])->call.op)
                cti_node_of(node->edge[i])->number = 0;
        node->number = 0;
    }
    g->root->number = 0;
}

/* ---- the second pass ---- */

/* A name between double quotes, escaped alike in text and dot. */
static void put_name(FILE *file, const char *name) {
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') fputc('\\', file);
        fputc((unsigned char)*name < ' ' || *name == 127 ? '?' : *name, file);
    }
}

static void put_type(FILE *file, const ct_tensor *t) {
    fprintf(file, "%s %s", SHAPE(t->shape), cti_dtype_name(t->dtype));
}

/* A tensor with the shape and dtype of the node's output. */
static const ct_tensor *type_of(const graph *g, const written *w) {
    return w->saved ? w->saved : g->tensor;
}

static void put_leaf(graph *g, const cti_node *node) {
    written *w = &g->of[node->number - 1];
    char buffer[CTI_NAME_SIZE];
    const cti_namer *namer = node->owner && node->owner->parameter > 0 ? node->owner->namer : NULL;
    const char *name = namer ? namer->name(namer, buffer) : NULL;
    w->id = ++g->leaf_ids;
    fprintf(g->file, g->dot ? "    x%lld [label=\"" : "x%lld = ", (long long)w->id);
    if (name && !g->dot) fputs("parameter \"", g->file);
    put_name(g->file, name ? name : "leaf");
    if (name && !g->dot) fputc('"', g->file);
    fputs(g->dot ? "\\n" : " ", g->file);
    put_type(g->file, type_of(g, w));
    fputs(g->dot ? name ? "\", fillcolor=\"#d5e8f7\"];\n" : "\", fillcolor=\"#fdf0c8\"];\n" : "\n",
          g->file);
}

static void put_input(graph *g, const cti_node *node, int i, int64_t to) {
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
        put_type(g->file, node->call.in[i]);
        fprintf(g->file,
                "\", style=dashed, color=gray50, fontcolor=gray30];\n    c%lld -> n%lld "
                "[style=dashed, color=gray50];\n",
                id, (long long)to);
    } else if (!g->dot && node->call.in[i]) {
        put_type(g->file, node->call.in[i]);
    } else if (!g->dot) {
        fputs("NULL", g->file);
    }
}

/* The shape of a single output; only the number of several, as `saved` does not say whose shape it
 * is. */
static void put_result(const graph *g, const cti_node *node) {
    if (node->call.n_outs > 1) fprintf(g->file, "%d outputs", node->call.n_outs);
    else put_type(g->file, type_of(g, &g->of[node->number - 1]));
}

static void put_op(graph *g, const cti_node *node) {
    FILE *file = g->file;
    const ct_call *c = &node->call;
    written *w = &g->of[node->number - 1];
    for (int i = 0; i < c->n; i++)
        if (node->edge[i] && !cti_node_of(node->edge[i])->call.op &&
            !g->of[cti_node_of(node->edge[i])->number - 1].id)
            put_leaf(g, cti_node_of(node->edge[i]));
    w->id = ++g->op_ids;
    fprintf(file, g->dot ? "    n%lld [label=\"" : "%%%lld = ", (long long)w->id);
    put_name(file, c->op->name);
    if (g->dot) {
        fputs(node->released ? " (released)\\n" : "\\n", file);
        put_result(g, node);
        fputs(node == g->root ? "\", penwidth=2];\n" : "\"];\n", file);
        for (int i = 0; i < c->n; i++) put_input(g, node, i, w->id);
        return;
    }
    fputc('(', file);
    for (int i = 0; i < c->n; i++) {
        if (i) fputs(", ", file);
        put_input(g, node, i, 0);
    }
    fputs(node->released ? "released by backward) " : ") ", file);
    put_type(file, type_of(g, w));
    fputc('\n', file);
}

static void put_all(graph *g) {
    if (g->dot)
        fputs("digraph cotangent {\n"
              "    label=\"Data flows down the arrows. Gradients flow back up the solid ones.\";\n"
              "    fontname=\"Helvetica\"; fontsize=11; ranksep=0.3;\n"
              "    node [shape=box, style=filled, fillcolor=white, fontname=\"Helvetica\", "
              "fontsize=11, height=0.3];\n",
              g->file);
    if (!g->root) {
        fputs(g->dot ? "    c1 [label=\"" : "", g->file);
        put_type(g->file, g->tensor);
        fputs(g->dot ? "\", style=dashed];\n" : ", of no recorded op\n", g->file);
    } else if (!g->oldest) {
        put_leaf(g, g->root);
    }
    for (cti_node *node = g->oldest; node; node = next_op(g, node)) put_op(g, node);
    if (g->dot) fputs("}\n", g->file);
}

static bool write_graph(const ct_tensor *tensor, FILE *file, bool dot) {
    if (!tensor || !cti_tensor_is_open(tensor, "graph")) return false;
    ct_context *context = tensor->context;
    if (!file) return ct_fail(context, CT_ERR_ARGUMENT, "graph: file is NULL");
    graph g = {.tensor = tensor,
               .file = file,
               .dot = dot,
               .root = tensor->slot ? cti_node_of(tensor->slot) : NULL};
    if (g.root) {
        reach(&g);
        g.of = cti_take_zeroed(context, cti_bytes(g.count, sizeof *g.of));
    }
    for (cti_node *node = g.of ? g.oldest : NULL; node; node = next_op(&g, node))
        for (int i = 0; i < node->call.n; i++)
            if (node->edge[i])
                g.of[cti_node_of(node->edge[i])->number - 1].saved = node->call.in[i];
    const bool able = !g.root || g.of;
    if (able) put_all(&g);
    if (g.root) {
        clear_numbers(&g);
        cti_give(context, g.of, cti_bytes(g.count, sizeof *g.of));
    }
    if (able && ferror(file))
        return ct_fail(context, CT_ERR_IO, "graph: the file cannot be written to");
    return able;
}

bool ct_graph_dot(const ct_tensor *tensor, FILE *file) { return write_graph(tensor, file, true); }
bool ct_graph_print(const ct_tensor *tensor, FILE *file) {
    return write_graph(tensor, file, false);
}
