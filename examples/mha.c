/* Multi-head self-attention in forty lines: two sequences, two masks, forward and backward. */
#include <cotangent/cotangent.h>

int main(void) {
    /* A context owns memory, threads and random numbers. With ct_error_die it exits at an error. */
    ct_context *context = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!context) return 1;

    /* B = 2 sequences of T = 5 tokens. A token has E = 8 numbers; each of H = 2 heads uses 4. */
    ct_module *mha = ct_mha_new(context, (ct_mha_opts){.embed_dim = 8, .num_heads = 2});
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 5, 8)); /* (B, T, E) */
    ct_set_requires_grad(x, true);
    ct_module_print(mha, stdout);

    /* False hides a token: no token may attend to token 1 of the second sequence. */
    const bool real[2][5] = {{true, true, true, true, true}, {true, false, true, true, true}};
    ct_tensor *key_mask = ct_from_bool(context, CT_SHAPE(2, 5), real[0]);

    /* With causal, token t sees only tokens 0 ... t. A token is visible if every mask allows it. */
    ct_mha_call call = {.key_mask = key_mask, .causal = true, .need_weights = true};
    ct_mha_out y = ct_mha_forward(mha, x, NULL, NULL, call);

    /* Row t has token t's weights for the S = T tokens; later and hidden tokens have exactly 0. */
    printf("\nattention weights (B, T, S), mean of the heads:\n");
    ct_print(y.weights, stdout);

    /* The loss uses only the output of token 2: it is the mean of the squares of out[:, 2, :]. */
    ct_tensor *token = ct_select(y.out, 1, 2); /* (B, T, E) -> (B, E) */
    ct_tensor *loss = ct_mean(ct_mul(token, token), CT_ALL, false);
    ct_backward(loss);

    /* Token 2 does not see tokens 3 and 4 or the hidden token, so their gradients are exactly 0. */
    printf("\nloss %.6f\nd loss / d x (B, T, E):\n", ct_item(loss));
    ct_print(ct_grad(x), stdout);
    printf("\nd loss / d out_proj.bias (E):\n");
    ct_print(ct_grad(ct_module_get(mha, "out_proj.bias")), stdout);

    ct_context_free(context); /* also frees the tensors, gradients and the module */
    return 0;
}
