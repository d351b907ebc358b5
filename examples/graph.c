/* This program prints the recorded graph of the loss of a small transformer layer. With a file name
 * as its argument it also writes the graph to this file for Graphviz (dot -Tsvg FILE). With
 * --numbers it runs backward first, and the drawing shows values and the norms of gradients. */
#include "../programs/common.h"

static ct_module *make_model(ct_context *c) {
    ct_mha_opts attn = {.embed_dim = 8, .num_heads = 2};
    ct_layer_norm_opts norm = {.dim = 8};
    ct_linear_opts head = {.in_features = 8, .out_features = 4};
    ct_module *m = ct_module_new(c, "classifier");
    ct_module_add_child(m, "attn", ct_mha_new(c, attn));
    ct_module_add_child(m, "norm", ct_layer_norm_new(c, norm));
    ct_module_add_child(m, "head", ct_linear_new(c, head));
    return m;
}

/* Applies norm(x + attention(x)), the mean over the tokens, and a linear layer: x (B, T, E) -> (B,
 * 4). Backward will keep the gradient of the norm's result, which is not a leaf. */
static ct_tensor *classify(ct_module *m, ct_tensor *x) {
    ct_mha_call call = {.causal = true};
    ct_tensor *h = ct_mha_forward(ct_module_child(m, "attn"), x, NULL, NULL, call).out;
    h = ct_retain_grad(ct_forward(ct_module_child(m, "norm"), ct_add(x, h)));
    return ct_forward(ct_module_child(m, "head"), ct_mean(h, CT_DIMS(1), false));
}

static void write_dot(ct_tensor *loss, const char *path, bool numbers) {
    /* backward releases the graph unless retain_graph is set */
    if (numbers) ct_backward_with(&loss, NULL, 1, (ct_backward_opts){.retain_graph = true});
    output o;
    output_begin(&o, path, false);
    ct_graph_dot_with(loss, o.file, (ct_graph_opts){.values = numbers, .grads = numbers});
    output_end(&o);
}

int main(int argc, char **argv) {
    long long numbers = 0;
    const flag flags[] = {flag_switch("numbers", &numbers, "draw values and norms of gradients")};
    const int files =
        read_flags(argc, argv, flags, 1, "[flags] [FILE]\n\nPrints a graph, and draws it as FILE:");
    if (files > 1) fail_usage("one file at a time, and not %s too", argv[2]);
    const char *path = files ? output_path(NULL, argv[1]) : NULL;
    ct_context *context = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!context) return 1;
    ct_module *model = make_model(context);
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 5, 8)); /* (B, T, E), without a gradient */
    ct_tensor *classes = ct_zeros(context, CT_I64, CT_SHAPE(2));
    ct_tensor *loss = ct_cross_entropy(classify(model, x), classes, (ct_cross_entropy_opts){0});

    ct_graph_print(loss, stdout);
    if (path) write_dot(loss, path, numbers);
    ct_context_free(context);
    return 0;
}
