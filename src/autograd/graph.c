/* The recorded graph as text and for Graphviz. Nodes are numbered along the tape, from the newest
 * to the oldest and back: no recursion, and two words of memory for each node that is reached. */
#include "../core/context.h"
#include "tape.h"

typedef struct {
    /* what a reader has saved of it, for the shape; NULL: the tensor itself is asked for */
    const ct_tensor *saved;
    int64_t id; /* as written: of ops and leaves apart, from 1; 0: not written yet */
} seen;

typedef struct {
    const ct_tensor *tensor;
    FILE *file;
    bool dot;
    cti_node *root, *oldest; /* the ops that are reached are between them */
    /* of nodes: of ops, and with the leaves; a node's number is its place in `of`, from 1 */
    int64_t ops, count;
    seen *of;
    int64_t op_ids, leaf_ids, constant_ids;
} graph;

/* ---- reaching ---- */

/* Numbers what the tensor was computed from. */
static void reach(graph *g) {
    g->root->number = 1;
    g->count = 1;
    int64_t waiting = g->root->call.op != NULL;
    for (cti_node *node = g->root; waiting; node = node->prev) {
        if (!node->number) continue;
        waiting--;
        g->ops++;
        g->oldest = node;
        for (int i = 0; i < node->call.n; i++) {
            cti_node *edge = node->edge[i] ? cti_node_of(node->edge[i]) : NULL;
            if (!edge || edge->number) continue;
            edge->number = (int)++g->count;
            waiting += edge->call.op != NULL;
        }
    }
}

/* The op behind `node` among those that are reached, from the oldest to the root. */
static cti_node *next_op(const graph *g, cti_node *node) {
    if (node == g->root) return NULL;
    do node = node->next;
    while (!node->number);
    return node;
}

static void forget(graph *g) {
    for (cti_node *node = g->oldest; node; node = next_op(g, node)) {
        for (int i = 0; i < node->call.n; i++)
            if (node->edge[i] && !cti_node_of(node->edge[i])->call.op)
                cti_node_of(node->edge[i])->number = 0;
        node->number = 0;
    }
    g->root->number = 0;
}

/* ---- writing ---- */

/* A name between double quotes, for which both forms have one rule. */
static void put_name(FILE *file, const char *name) {
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') fputc('\\', file);
        fputc((unsigned char)*name < ' ' || *name == 127 ? '?' : *name, file);
    }
}

static void put_type(FILE *file, const ct_tensor *t) {
    fprintf(file, "%s %s", SHAPE(t->shape), cti_dtype_name(t->dtype));
}

static const ct_tensor *type_of(const graph *g, const seen *s) {
    return s->saved ? s->saved : g->tensor;
}

static void put_leaf(graph *g, const cti_node *node) {
    seen *s = &g->of[node->number - 1];
    char buffer[CTI_NAME_SIZE];
    const cti_namer *namer = node->owner && node->owner->parameter > 0 ? node->owner->namer : NULL;
    const char *name = namer ? namer->name(namer, buffer) : NULL;
    s->id = ++g->leaf_ids;
    fprintf(g->file, g->dot ? "    x%lld [label=\"" : "x%lld = ", (long long)s->id);
    if (name && !g->dot) fputs("parameter \"", g->file);
    put_name(g->file, name ? name : "leaf");
    if (name && !g->dot) fputc('"', g->file);
    fputs(g->dot ? "\\n" : " ", g->file);
    put_type(g->file, type_of(g, s));
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

/* The shape of a result is that which a reader has saved, so where there are several only their
 * number is told. */
static void put_result(const graph *g, const cti_node *node) {
    if (node->call.n_outs > 1) fprintf(g->file, "%d outputs", node->call.n_outs);
    else put_type(g->file, type_of(g, &g->of[node->number - 1]));
}

static void put_op(graph *g, const cti_node *node) {
    FILE *file = g->file;
    const ct_call *c = &node->call;
    seen *s = &g->of[node->number - 1];
    for (int i = 0; i < c->n; i++)
        if (node->edge[i] && !cti_node_of(node->edge[i])->call.op &&
            !g->of[cti_node_of(node->edge[i])->number - 1].id)
            put_leaf(g, cti_node_of(node->edge[i]));
    s->id = ++g->op_ids;
    fprintf(file, g->dot ? "    n%lld [label=\"" : "%%%lld = ", (long long)s->id);
    put_name(file, c->op->name);
    if (g->dot) {
        fputs(node->released ? " (released)\\n" : "\\n", file);
        put_result(g, node);
        fputs(node == g->root ? "\", penwidth=2];\n" : "\"];\n", file);
        for (int i = 0; i < c->n; i++) put_input(g, node, i, s->id);
        return;
    }
    fputc('(', file);
    for (int i = 0; i < c->n; i++) {
        if (i) fputs(", ", file);
        put_input(g, node, i, 0);
    }
    fputs(node->released ? "released by backward) " : ") ", file);
    put_type(file, type_of(g, s));
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
        forget(&g);
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
