/* The graph of a small transformer layer's loss: as text, and with a file's name as an argument for Graphviz (dot -Tsvg FILE). */
#include <cotangent/cotangent.h>

int main(int argc, char **argv) {
    ct_context *context = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!context) return 1;
    ct_module *model = ct_module_new(context, "classifier");
    ct_module_add_child(model, "attn", ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2}));
    ct_module_add_child(model, "norm", ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 8}));
    ct_module_add_child(model, "head", ct_linear_new(context, (ct_linear_opts){.in_features = 8, .out_features = 4}));

    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 5, 8)); /* (B, T, E), without a gradient */
    ct_tensor *classes = ct_zeros(context, CT_I64, CT_SHAPE(2));
    ct_tensor *h = ct_mha_forward(ct_module_child(model, "attn"), x, NULL, NULL, (ct_mha_call){.causal = true}).out;
    h = ct_forward(ct_module_child(model, "norm"), ct_add(x, h));
    ct_tensor *logits = ct_forward(ct_module_child(model, "head"), ct_mean(h, CT_DIMS(1), false)); /* (B, T, E) -> (B, 4) */
    ct_tensor *loss = ct_cross_entropy(logits, classes, (ct_cross_entropy_opts){0});

    bool good = true;
    ct_graph_print(loss, stdout);
    if (argc > 1) {
        FILE *file = fopen(argv[1], "w");
        if (file) ct_graph_dot(loss, file);
        good = file && fclose(file) == 0;
        if (!good) perror(argv[1]);
    }
    ct_context_free(context);
    return good ? 0 : 2;
}
