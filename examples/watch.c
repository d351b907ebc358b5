/* This example shows when the gradient of each parameter is complete. A watcher of leaves is called
 * at that moment, while backward still runs: it prints the parameter, the number of nodes that have
 * run, and the norm of the gradient. A program may send the gradient to another process then, or
 * update the parameter and end the gradient, so that backward reuses its memory. */
#include <cotangent/cotangent.h>

#include <math.h>
#include <stdio.h>

enum { MOST = 64 };

typedef struct {
    ct_tensor *leaf[MOST];
    char name[MOST][64];
    int64_t n;     /* the number of leaves */
    int nodes;     /* the number of nodes of the backward that have run */
    double square; /* the square of the norm over all gradients */
} watcher;

static void begin(void *self, const bool *reached, bool retain_graph) {
    watcher *w = self;
    (void)retain_graph;
    int count = 0;
    for (int64_t i = 0; i < w->n; i++) count += reached[i];
    printf("backward reaches %d of %d parameters\n", count, (int)w->n);
    w->nodes = 0;
    w->square = 0;
}

static bool whole(void *self, int64_t i, ct_tensor *grad) {
    watcher *w = self;
    ct_tensor *square = ct_sum(ct_mul(grad, grad), CT_ALL, false);
    printf("%4d nodes  %-34s |g| = %.5f\n", w->nodes + 1, w->name[i], sqrt(ct_item(square)));
    w->square += ct_item(square);
    return false; /* false: the leaf keeps the gradient */
}

static void turn(void *self) { ((watcher *)self)->nodes++; }

static void end(void *self, bool ok) {
    const watcher *w = self;
    printf("%4d nodes  %s, norm over all gradients %.5f\n", w->nodes, ok ? "end" : "failed",
           sqrt(w->square));
}

static const ct_watch_fns fns = {.begin = begin, .whole = whole, .turn = turn, .end = end};

int main(void) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!c) return 1;
    ct_layer_opts layer = {.embed_dim = 16, .num_heads = 2, .norm_first = true};
    ct_module *model = ct_encoder_new(c, layer, 2, true);
    static watcher w;
    for (ct_param p = {0}; ct_module_next(model, &p) && w.n < MOST; w.n++) {
        w.leaf[w.n] = p.tensor;
        snprintf(w.name[w.n], sizeof w.name[0], "%s", p.name);
    }
    ct_watch(c, w.leaf, w.n, &fns, &w);
    ct_tensor *y = ct_encoder_forward(model, ct_randn(c, CT_F32, CT_SHAPE(4, 6, 16)),
                                      (ct_stack_call){.self = {.causal = true}});
    ct_backward(ct_mse_loss(y, ct_randn(c, CT_F32, CT_SHAPE(4, 6, 16))));
    ct_unwatch(c, &w);
    printf("%21s clipping would say       %.5f\n", "", ct_clip_grad_norm(model, 1));
    ct_context_free(c);
    return 0;
}
