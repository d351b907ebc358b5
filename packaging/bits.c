/* Prints hashes of the values and gradients of every line of ops.def, and of the parameters of a
 * small encoder after some steps of each optimiser, for each instruction set and dtype. Linked with
 * the library and with the amalgamation, it has to print the same. */
#include <cotangent/cotangent.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/support/cases.h"

/* FNV-1a: begins with BASIS, and goes on with each byte of a tensor. */
#define BASIS UINT64_C(14695981039346656037)
static uint64_t hash(uint64_t h, ct_tensor *t) {
    if (!t) return h;
    t = ct_contiguous(t);
    const ct_dtype dtype = ct_dtype_of(t);
    const size_t size = dtype == CT_F32 ? 4 : dtype == CT_BOOL ? 1 : 8;
    const void *data = dtype == CT_F32   ? (void *)ct_data_f32(t)
                       : dtype == CT_F64 ? (void *)ct_data_f64(t)
                       : dtype == CT_I64 ? (void *)ct_data_i64(t)
                                         : (void *)ct_data_bool(t);
    const unsigned char *at = data;
    for (size_t i = 0; i < (size_t)ct_numel(t) * size; i++) h = (h ^ at[i]) * 1099511628211u;
    return h;
}

static void line_bits(ct_context *context, const char *isa, const case_line *line, int variant,
                      ct_dtype dtype) {
    ct_scope scope = ct_scope_open(context);
    case_input inputs[CASE_INPUTS];
    ct_tensor *in[CASE_INPUTS] = {0};
    const int n = case_inputs(line, variant, 3, inputs);
    const case_build_opts opts = {.dtype = dtype, .seed = 11};
    uint64_t h = BASIS;
    if (n >= 0 && case_build(context, inputs, n, opts, in)) {
        ct_tensor *y = case_run(context, line, in);
        h = hash(h, y);
        if (y && ct_requires_grad(y)) {
            ct_tensor *g = case_cotangent(y, 5, false);
            ct_backward_with(&y, &g, 1, (ct_backward_opts){0});
            for (int i = 0; i < n; i++)
                if (in[i]) h = hash(h, ct_grad(in[i]));
        }
    }
    printf("%s %s %d %s %016llx\n", isa, line->name, variant, dtype == CT_F32 ? "f32" : "f64",
           ct_error(context) ? 0ull : (unsigned long long)h);
    ct_error_clear(context);
    ct_scope_close(scope);
}

/* Some steps of an encoder of two layers. */
static void training_bits(ct_context *context, const char *isa, ct_dtype dtype, bool adam) {
    ct_seed(context, 3);
    const ct_layer_opts layer = {
        .embed_dim = 40, .num_heads = 4, .hidden = 96, .dropout = 0.1, .dtype = dtype};
    ct_module *encoder = ct_encoder_new(context, layer, 2, true);
    ct_optim *optim =
        adam
            ? ct_adamw_new(encoder, (ct_adamw_opts){.weight_decay = 0.1, .clip_norm = 1})
            : ct_sgd_new(encoder, (ct_sgd_opts){.momentum = 0.9, .nesterov = true, .clip_norm = 1});
    for (int step = 0; step < 4; step++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = ct_randn(context, dtype, CT_SHAPE(3, 70, 40));
        ct_optim_zero_grad(optim);
        ct_backward(ct_mean(ct_mul(ct_forward(encoder, x), x), CT_ALL, false));
        ct_optim_step(optim);
        ct_scope_close(scope);
    }
    uint64_t h = BASIS;
    for (ct_param param = {0}; ct_module_next(encoder, &param);) h = hash(h, param.tensor);
    printf("%s %s %s %016llx\n", isa, adam ? "adamw" : "sgd", dtype == CT_F32 ? "f32" : "f64",
           ct_error(context) ? 0ull : (unsigned long long)h);
    if (ct_error(context)) fprintf(stderr, "%s\n", ct_error_message(context));
    ct_error_clear(context);
}

int main(void) {
    static const char *const isas[] = {"scalar", "neon", "avx2", "avx512"};
    for (int i = 0; i < (int)(sizeof isas / sizeof *isas); i++) {
        ct_context *context = ct_context_new((ct_context_opts){.threads = 1, .isa = isas[i]});
        const bool runs = ct_error(context) == CT_OK;
        for (int dtype = CT_F32; runs && dtype <= CT_F64; dtype++) {
            for (int line = 0; line < case_count(); line++)
                for (int v = 0; v < case_variants(case_at(line)); v++)
                    line_bits(context, isas[i], case_at(line), v, (ct_dtype)dtype);
            training_bits(context, isas[i], (ct_dtype)dtype, true);
            training_bits(context, isas[i], (ct_dtype)dtype, false);
        }
        ct_context_free(context);
    }
    return 0;
}
