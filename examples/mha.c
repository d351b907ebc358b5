/* Multi-head self-attention in forty lines: two sequences, two masks, forward and backward. */
#include <cotangent/cotangent.h>

int main(void) {
    /* Memory, threads, random numbers and errors. This context prints the first error and exits. */
    ct_context *context = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!context) return 1;

    /* B = 2 sequences of T = 5 tokens, each of E = 8 numbers, seen by H = 2 heads of 4 numbers. */
    ct_module *mha = ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2});
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 5, 8)); /* (B, T, E) */
    ct_set_requires_grad(x, true);
    ct_module_print(mha, stdout);

    /* true = a real token. In the second sequence token 1 is hidden: nobody may attend to it. */
    const bool real[2][5] = {{true, true, true, true, true}, {true, false, true, true, true}};
    ct_tensor *key_mask = ct_from_bool(context, CT_SHAPE(2, 5), real[0]);

    /* Causal: token t sees tokens 0 ... t. All masks that are given apply together. */
    ct_mha_call call = {.key_mask = key_mask, .causal = true, .need_weights = true};
    ct_mha_out y = ct_mha_forward(mha, x, NULL, NULL, call);

    /* Row t: how token t divides its attention. The future and the hidden token get exact zeros. */
    printf("\nattention weights (B, T, S), mean of the heads:\n");
    ct_print(y.weights, stdout);

    /* A loss that looks at token 2 alone: mean of the squares of out[:, 2, :]. */
    ct_tensor *token = ct_select(y.out, 1, 2); /* (B, T, E) -> (B, E) */
    ct_tensor *loss = ct_mean(ct_mul(token, token), CT_ALL, false);
    ct_backward(loss);

    /* So tokens 3 and 4, its future, and the hidden token have gradients of exactly zero. */
    printf("\nloss %.6f\nd loss / d x (B, T, E):\n", ct_item(loss));
    ct_print(ct_grad(x), stdout);
    printf("\nd loss / d out_proj.bias (E):\n");
    ct_print(ct_grad(ct_module_get(mha, "out_proj.bias")), stdout);

    ct_context_free(context); /* tensors, gradients and the module go with it */
    return 0;
}
