/* Multi-head attention: against double loops, its properties, its masks. */
#include "tests/support/nn_check.h"

static bool same_bits(ct_tensor *a, ct_tensor *b) {
    double *x = values(a), *y = values(b);
    bool same = ct_numel(a) == ct_numel(b) && !memcmp(x, y, sizeof(double) * (size_t)ct_numel(a));
    free(x), free(y);
    return same;
}

static double item(ct_tensor *t) { return ct_item(t); }

/* A module with random biases. */
static ct_module *make(ct_mha_opts opts) {
    ct_module *mha = ct_mha_new(context, opts);
    no_error();
    for (ct_param p = {0}; ct_module_next(mha, &p);)
        if (strstr(p.name, "bias")) ct_init_normal(p.tensor, 0, 0.5);
    return mha;
}

/* ---- the reference ---- */

/* Attention by loops over doubles. allowed (0 or 1) and added are (B, H, T, S) or NULL. */

typedef struct {
    int64_t b, h, t, s, e, kdim, vdim;
    double *out, *weights; /* (B, T, E), (B, H, T, S) */
} naive;

static void row(const double *x, const double *w, double bias, int64_t n, double *y) {
    *y = bias;
    for (int64_t i = 0; i < n; i++) *y += x[i] * w[i];
}

static naive reference(ct_module *mha, ct_tensor *tq, ct_tensor *tk, ct_tensor *tv, int64_t heads,
                       const double *allowed, const double *added) {
    naive r = {ct_dim(tq, 0), heads,         ct_dim(tq, 1), ct_dim(tk, 1), ct_dim(tq, 2),
               ct_dim(tk, 2), ct_dim(tv, 2), NULL,          NULL};
    int64_t d = r.e / r.h, e = r.e;
    bool packed = r.kdim == e && r.vdim == e;
    ct_param p = {0};
    bool biased = false;
    while (ct_module_next(mha, &p)) biased |= !strcmp(p.name, "in_proj_bias");
    double *w = packed ? values(ct_module_get(mha, "in_proj_weight")) : NULL;
    double *wq = packed ? w : values(ct_module_get(mha, "q_proj_weight")),
           *wk = packed ? w + e * e : values(ct_module_get(mha, "k_proj_weight"));
    double *wv = packed ? w + 2 * e * e : values(ct_module_get(mha, "v_proj_weight")),
           *wo = values(ct_module_get(mha, "out_proj.weight"));
    double *bias = biased ? values(ct_module_get(mha, "in_proj_bias")) : calloc((size_t)(3 * e), 8);
    double *bo = biased ? values(ct_module_get(mha, "out_proj.bias")) : calloc((size_t)e, 8);
    double *q = values(tq), *k = values(tk), *v = values(tv);
    double *qq = malloc((size_t)(r.b * r.t * e) * 8), *kk = malloc((size_t)(r.b * r.s * e + 1) * 8),
           *vv = malloc((size_t)(r.b * r.s * e + 1) * 8);
    for (int64_t i = 0; i < r.b * r.t; i++)
        for (int64_t j = 0; j < e; j++) row(q + i * e, wq + j * e, bias[j], e, &qq[i * e + j]);
    for (int64_t i = 0; i < r.b * r.s; i++)
        for (int64_t j = 0; j < e; j++) {
            row(k + i * r.kdim, wk + j * r.kdim, bias[e + j], r.kdim, &kk[i * e + j]);
            row(v + i * r.vdim, wv + j * r.vdim, bias[2 * e + j], r.vdim, &vv[i * e + j]);
        }
    r.out = malloc((size_t)(r.b * r.t * e) * 8);
    r.weights = calloc((size_t)(r.b * r.h * r.t * r.s + 1), 8);
    double *mixed = calloc((size_t)(r.b * r.t * e), 8);
    for (int64_t b = 0; b < r.b; b++)
        for (int64_t h = 0; h < r.h; h++)
            for (int64_t i = 0; i < r.t; i++) {
                double *weight = r.weights + ((b * r.h + h) * r.t + i) * r.s, most = -INFINITY,
                       total = 0;
                int64_t at = ((b * r.h + h) * r.t + i) * r.s;
                for (int64_t j = 0; j < r.s; j++) {
                    row(qq + (b * r.t + i) * e + h * d, kk + (b * r.s + j) * e + h * d, 0, d,
                        &weight[j]);
                    weight[j] = weight[j] / sqrt((double)d) + (added ? added[at + j] : 0);
                    if (allowed && !allowed[at + j]) weight[j] = -INFINITY;
                    most = fmax(most, weight[j]);
                }
                for (int64_t j = 0; j < r.s; j++)
                    total += weight[j] = most == -INFINITY ? 0 : exp(weight[j] - most);
                for (int64_t j = 0; j < r.s; j++) {
                    if (total > 0) weight[j] /= total;
                    for (int64_t c = 0; c < d; c++)
                        mixed[(b * r.t + i) * e + h * d + c] +=
                            weight[j] * vv[(b * r.s + j) * e + h * d + c];
                }
            }
    for (int64_t i = 0; i < r.b * r.t; i++)
        for (int64_t j = 0; j < e; j++) row(mixed + i * e, wo + j * e, bo[j], e, &r.out[i * e + j]);
    if (!packed) free(wq), free(wk), free(wv);
    free(w), free(wo), free(bias), free(bo), free(q), free(k), free(v), free(qq), free(kk),
        free(vv), free(mixed);
    return r;
}

/* Compares out and the weights of each head, by the largest reference value. */
static void same(ct_module *mha, ct_tensor *q, ct_tensor *k, ct_tensor *v, int64_t heads,
                 ct_mha_call call, const double *allowed, const double *added, double gate) {
    call.need_weights = call.per_head = true;
    ct_mha_out y = ct_mha_forward(mha, q, k, v, call);
    naive r = reference(mha, q, k ? k : q, v ? v : q, heads, allowed, added);
    double *out = values(y.out), *weights = values(y.weights), most = 0, off = 0;
    for (int64_t i = 0; i < r.b * r.t * r.e; i++)
        most = fmax(most, fabs(r.out[i])), off = fmax(off, fabs(r.out[i] - out[i]));
    ck_assert_msg(off <= gate * most, "off by %g of %g", off, most);
    ck_assert_int_eq(ct_numel(y.weights), r.b * r.h * r.t * r.s);
    for (int64_t i = 0; i < ct_numel(y.weights); i++) {
        ck_assert_double_eq_tol(weights[i], r.weights[i], gate);
        if (allowed && !allowed[i]) ck_assert_double_eq(weights[i], 0);
    }
    /* with mean weights, and without weights */
    call.per_head = false;
    ct_mha_out average = ct_mha_forward(mha, q, k, v, call);
    ck_assert_double_le(distance(average.weights, ct_mean(y.weights, CT_DIMS(1), false)), 1e-7);
    call.need_weights = false;
    ct_mha_out none = ct_mha_forward(mha, q, k, v, call);
    ck_assert_ptr_null(none.weights);
    ck_assert_double_le(distance(none.out, y.out), gate * most);
    free(out), free(weights), free(r.out), free(r.weights);
}

/* Writes what a broadcast mask (B, H, T, S) allows into doubles. */
static double *spread(ct_tensor *mask, ct_shape full) {
    return values(ct_cast(ct_contiguous(ct_expand(mask, full)), CT_F64));
}

static ct_tensor *coin(ct_shape shape) {
    return ct_gt(ct_rand(context, CT_F32, shape), ct_full(context, CT_F32, CT_SCALAR, 0.3));
}

START_TEST(shapes_of_torchs_tests) {
    static const struct {
        int64_t b, t, s, e, h;
    } shape[] = {
        {3, 4, 0, 8, 2}, {2, 10, 0, 64, 8}, {1, 3, 7, 32, 4}, {2, 8, 12, 64, 8}, {1, 1, 0, 4, 1}};
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++)
        for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
            for (int no_bias = 0; no_bias < 2; no_bias++) {
                int64_t b = shape[i].b, t = shape[i].t, s = shape[i].s, e = shape[i].e,
                        h = shape[i].h;
                ct_module *mha = make((ct_mha_opts){
                    .embed_dim = e, .num_heads = h, .no_bias = no_bias, .dtype = (ct_dtype)dtype});
                ct_tensor *q = ct_randn(context, (ct_dtype)dtype, CT_SHAPE(b, t, e)),
                          *k = s ? ct_randn(context, (ct_dtype)dtype, CT_SHAPE(b, s, e)) : NULL;
                double gate = dtype == CT_F32 ? 3e-6 : 1e-12;
                same(mha, q, k, k, h, (ct_mha_call){0}, NULL, NULL, gate);
                if (!k) same(mha, q, q, q, h, (ct_mha_call){0}, NULL, NULL, gate);
                ct_tensor *v = k ? ct_randn(context, (ct_dtype)dtype, CT_SHAPE(b, s, e)) : NULL;
                if (v) same(mha, q, k, v, h, (ct_mha_call){0}, NULL, NULL, gate);
                int64_t n = s ? s : t;
                ct_tensor *causal = ct_causal_mask(context, t, n);
                double *allowed = spread(causal, CT_SHAPE(b, h, t, n));
                same(mha, q, k, k, h, (ct_mha_call){.causal = true}, allowed, NULL, gate);
                free(allowed);
            }
}
END_TEST

START_TEST(every_mask) {
    int64_t b = 2, h = 2, t = 5, s = 7, e = 8;
    ct_module *mha = make((ct_mha_opts){.embed_dim = e, .num_heads = h, .dtype = CT_F64});
    ct_tensor *q = randn(CT_SHAPE(b, t, e)), *k = randn(CT_SHAPE(b, s, e));
    ct_shape full = CT_SHAPE(b, h, t, s),
             shape[] = {CT_SHAPE(t, s), CT_SHAPE(b, 1, 1, s), CT_SHAPE(b, 1, t, s),
                        full,           CT_SHAPE(s),          CT_SHAPE(t, 1)};
    ct_tensor *causal = ct_causal_mask(context, t, s);
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        ct_tensor *mask = coin(shape[i]), *key = coin(CT_SHAPE(b, s)), *bias = randn(shape[i]);
        ct_tensor *keys = ct_view(key, CT_SHAPE(b, 1, 1, s));
        double *only = spread(mask, full), *added = spread(bias, full),
               *both = spread(ct_logical_and(ct_logical_and(mask, keys), causal), full);
        double *two = spread(ct_logical_and(keys, causal), full);
        same(mha, q, k, k, h, (ct_mha_call){.mask = mask}, only, NULL, 1e-12);
        same(mha, q, k, k, h, (ct_mha_call){.mask = mask, .key_mask = key, .causal = true}, both,
             NULL, 1e-12);
        same(mha, q, k, k, h, (ct_mha_call){.mask = bias}, NULL, added, 1e-12);
        same(mha, q, k, k, h, (ct_mha_call){.mask = bias, .key_mask = key, .causal = true}, two,
             added, 1e-12);
        free(only), free(added), free(both), free(two);
    }
    /* a query that may attend to nothing gets out_proj's bias */
    ct_tensor *none = ct_zeros(context, CT_BOOL, CT_SHAPE(b, s));
    ct_mha_out y =
        ct_mha_forward(mha, q, k, k, (ct_mha_call){.key_mask = none, .need_weights = true});
    ck_assert_double_eq(largest(y.weights), 0);
    ck_assert_double_eq(distance(y.out, ct_contiguous(ct_expand(ct_module_get(mha, "out_proj.bias"),
                                                                CT_SHAPE(b, t, e)))),
                        0);
    ck_assert(ct_backward(ct_sum(ct_mul(y.out, randn(CT_SHAPE(b, t, e))), CT_ALL, false)));
    ck_assert_double_eq(largest(ct_grad(ct_module_get(mha, "in_proj_weight"))), 0);
}
END_TEST

START_TEST(widths_that_differ) {
    ct_module *mha =
        make((ct_mha_opts){.embed_dim = 8, .num_heads = 4, .kdim = 5, .vdim = 3, .dtype = CT_F64});
    ct_tensor *q = randn(CT_SHAPE(2, 3, 8)), *k = randn(CT_SHAPE(2, 6, 5)),
              *v = randn(CT_SHAPE(2, 6, 3));
    same(mha, q, k, v, 4, (ct_mha_call){0}, NULL, NULL, 1e-12);
    ck_assert_ptr_null(ct_mha_forward(mha, q, NULL, NULL, (ct_mha_call){0}).out);
    expect(CT_ERR_SHAPE, "(2, S, 5)", "(2, 3, 8)");
}
END_TEST

/* Grouped-query attention equals attention with the key and value heads repeated. */
START_TEST(grouped_queries) {
    int64_t e = 8, h = 4, kv = 2, d = 2;
    ct_module *grouped =
        make((ct_mha_opts){.embed_dim = e, .num_heads = h, .num_kv_heads = kv, .dtype = CT_F64});
    ct_module *whole = make((ct_mha_opts){.embed_dim = e, .num_heads = h, .dtype = CT_F64});
    double *wq = values(ct_module_get(grouped, "q_proj_weight")),
           *wk = values(ct_module_get(grouped, "k_proj_weight"));
    double *wv = values(ct_module_get(grouped, "v_proj_weight")),
           *b = values(ct_module_get(grouped, "in_proj_bias"));
    double *w = ct_data_f64(ct_module_get(whole, "in_proj_weight")),
           *wb = ct_data_f64(ct_module_get(whole, "in_proj_bias"));
    memcpy(w, wq, sizeof(double) * (size_t)(e * e));
    memcpy(wb, b, sizeof(double) * (size_t)e);
    for (int64_t i = 0; i < e; i++) {
        int64_t from = i / d / (h / kv) * d + i % d;
        memcpy(w + (e + i) * e, wk + from * e, sizeof(double) * (size_t)e);
        memcpy(w + (2 * e + i) * e, wv + from * e, sizeof(double) * (size_t)e);
        wb[e + i] = b[e + from];
        wb[2 * e + i] = b[e + kv * d + from];
    }
    memcpy(ct_data_f64(ct_module_get(whole, "out_proj.weight")),
           ct_data_f64(ct_module_get(grouped, "out_proj.weight")),
           sizeof(double) * (size_t)(e * e));
    memcpy(ct_data_f64(ct_module_get(whole, "out_proj.bias")),
           ct_data_f64(ct_module_get(grouped, "out_proj.bias")), sizeof(double) * (size_t)e);
    free(wq), free(wk), free(wv), free(b);
    ct_tensor *x = randn(CT_SHAPE(2, 5, e));
    ct_mha_call call = {.causal = true, .need_weights = true, .per_head = true};
    ct_mha_out y = ct_mha_forward(grouped, x, NULL, NULL, call),
               z = ct_mha_forward(whole, x, NULL, NULL, call);
    ck_assert_double_lt(distance(y.out, z.out), 1e-13);
    ck_assert_double_lt(distance(y.weights, z.weights), 1e-13);
}
END_TEST

/* bias_k and the zero key are two extra keys that no mask hides: equal to attention over the
 * extended keys with a padded mask. */
START_TEST(extra_keys) {
    int64_t b = 2, h = 2, t = 3, s = 4, e = 8;
    ct_module *mha = make((ct_mha_opts){.embed_dim = e,
                                        .num_heads = h,
                                        .add_bias_kv = true,
                                        .add_zero_attn = true,
                                        .dtype = CT_F64});
    ct_tensor *q = randn(CT_SHAPE(b, t, e)), *x = randn(CT_SHAPE(b, s, e));
    ct_tensor *w = ct_module_get(mha, "in_proj_weight"), *bias = ct_module_get(mha, "in_proj_bias"),
              *zero = ct_zeros(context, CT_F64, CT_SHAPE(b, 1, e));
    ct_tensor *qq = ct_linear(q, ct_narrow(w, 0, 0, e), ct_narrow(bias, 0, 0, e));
    ct_tensor *kk = ct_linear(x, ct_narrow(w, 0, e, e), ct_narrow(bias, 0, e, e)),
              *vv = ct_linear(x, ct_narrow(w, 0, 2 * e, e), ct_narrow(bias, 0, 2 * e, e));
    kk = ct_cat(
        (ct_tensor *[]){kk, ct_expand(ct_module_get(mha, "bias_k"), CT_SHAPE(b, 1, e)), zero}, 3,
        1);
    vv = ct_cat(
        (ct_tensor *[]){vv, ct_expand(ct_module_get(mha, "bias_v"), CT_SHAPE(b, 1, e)), zero}, 3,
        1);
    ct_tensor *two = ct_ones(context, CT_BOOL, CT_SHAPE(t, 2)),
              *causal = ct_causal_mask(context, t, s), *mask = coin(CT_SHAPE(t, s)),
              *key = coin(CT_SHAPE(b, s));
    ct_tensor *allowed = ct_logical_and(
        ct_cat((ct_tensor *[]){ct_logical_and(mask, causal), two}, 2, 1),
        ct_view(ct_cat((ct_tensor *[]){key, ct_ones(context, CT_BOOL, CT_SHAPE(b, 2))}, 2, 1),
                CT_SHAPE(b, 1, 1, s + 2)));
    ct_attention_out a =
        ct_attention(ct_split_heads(qq, h), ct_split_heads(kk, h), ct_split_heads(vv, h),
                     (ct_attention_opts){.mask = allowed, .need_weights = true});
    ct_tensor *out = ct_forward(ct_module_child(mha, "out_proj"), ct_combine_heads(a.out));
    ct_mha_out y = ct_mha_forward(
        mha, q, x, x,
        (ct_mha_call){
            .mask = mask, .key_mask = key, .causal = true, .need_weights = true, .per_head = true});
    ck_assert_double_lt(distance(y.out, out), 1e-13);
    ck_assert_double_lt(distance(y.weights, a.weights), 1e-13);
    ck_assert_int_eq(ct_dim(y.weights, 3), s + 2);
    ct_tensor *floats = ct_where(mask, ct_zeros(context, CT_F64, CT_SCALAR),
                                 ct_full(context, CT_F64, CT_SCALAR, -INFINITY));
    ct_mha_out z = ct_mha_forward(mha, q, x, x,
                                  (ct_mha_call){.mask = floats, .key_mask = key, .causal = true});
    ck_assert_double_lt(distance(z.out, out), 1e-13);
    ct_tensor *column = coin(CT_SHAPE(t, 1)); /* a mask that must be expanded before it is padded */
    ck_assert_ptr_nonnull(ct_mha_forward(mha, q, x, x, (ct_mha_call){.mask = column}).out);
    ck_assert(ct_backward(ct_sum(ct_mul(y.out, y.out), CT_ALL, false)));
    for (ct_param p = {0}; ct_module_next(mha, &p);)
        ck_assert_msg(ct_grad(p.tensor) && largest(ct_grad(p.tensor)) > 0, "%s", p.name);
}
END_TEST

/* ---- properties ---- */

START_TEST(properties) {
    ct_module *mha = make((ct_mha_opts){.embed_dim = 16, .num_heads = 4});
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 6, 16));
    ct_mha_out y = ct_mha_forward(
        mha, x, NULL, NULL, (ct_mha_call){.causal = true, .need_weights = true, .per_head = true});
    ck_assert_double_lt(largest(ct_add_scalar(ct_sum(y.weights, CT_DIMS(-1), false), -1)), 1e-6);
    ck_assert_double_eq(largest(ct_masked_fill(y.weights, ct_causal_mask(context, 6, 6), 0)), 0);

    ct_tensor *changed = ct_contiguous(ct_scale(x, 1)); /* a future token does not matter */
    for (int i = 0; i < 16; i++)
        ct_data_f32(changed)[5 * 16 + i] += 3, ct_data_f32(changed)[11 * 16 + i] = 1e6f;
    ct_tensor *z = ct_mha_forward(mha, changed, NULL, NULL, (ct_mha_call){.causal = true}).out;
    ct_tensor *before = ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.causal = true}).out;
    ck_assert(same_bits(ct_narrow(ct_select(z, 0, 0), 0, 0, 5),
                        ct_narrow(ct_select(before, 0, 0), 0, 0, 5)));
    ck_assert(same_bits(ct_narrow(ct_select(z, 0, 1), 0, 0, 5),
                        ct_narrow(ct_select(before, 0, 1), 0, 0, 5)));
    ck_assert(
        !same_bits(ct_select(ct_select(z, 0, 0), 0, 5), ct_select(ct_select(before, 0, 0), 0, 5)));

    ct_tensor *zero = ct_forward(mha, ct_zeros(context, CT_F32, CT_SHAPE(1, 3, 16)));
    ck_assert(isfinite(largest(zero)));
    ck_assert_int_eq(ct_numel(ct_forward(mha, ct_zeros(context, CT_F32, CT_SHAPE(0, 3, 16)))), 0);
    ck_assert_int_eq(ct_numel(ct_forward(mha, ct_zeros(context, CT_F32, CT_SHAPE(2, 0, 16)))), 0);
    ct_tensor *no_keys = ct_zeros(context, CT_F32, CT_SHAPE(2, 0, 16));
    ck_assert_int_eq(ct_numel(ct_mha_forward(mha, x, no_keys, no_keys, (ct_mha_call){0}).out),
                     2 * 6 * 16);

    ck_assert(ct_backward(
        ct_sum(ct_mul(y.out, ct_randn(context, CT_F32, CT_SHAPE(2, 6, 16))), CT_ALL, false)));
    for (ct_param p = {0}; ct_module_next(mha, &p);)
        ck_assert_msg(ct_grad(p.tensor) && largest(ct_grad(p.tensor)) > 0, "%s", p.name);
}
END_TEST

START_TEST(heads_may_be_permuted) {
    int64_t e = 12, h = 3, d = 4, to[] = {2, 0, 1};
    ct_module *a = make((ct_mha_opts){.embed_dim = e, .num_heads = h, .dtype = CT_F64}),
              *b = make((ct_mha_opts){.embed_dim = e, .num_heads = h, .dtype = CT_F64});
    double *w = ct_data_f64(ct_module_get(a, "in_proj_weight")),
           *w2 = ct_data_f64(ct_module_get(b, "in_proj_weight"));
    double *c = ct_data_f64(ct_module_get(a, "in_proj_bias")),
           *c2 = ct_data_f64(ct_module_get(b, "in_proj_bias"));
    double *o = ct_data_f64(ct_module_get(a, "out_proj.weight")),
           *o2 = ct_data_f64(ct_module_get(b, "out_proj.weight"));
    for (int64_t part = 0; part < 3; part++)
        for (int64_t i = 0; i < e; i++) {
            int64_t j = to[i / d] * d + i % d;
            memcpy(w2 + (part * e + j) * e, w + (part * e + i) * e, sizeof(double) * (size_t)e);
            c2[part * e + j] = c[part * e + i];
            for (int64_t r = 0; r < e; r++) o2[r * e + j] = o[r * e + i];
        }
    memcpy(ct_data_f64(ct_module_get(b, "out_proj.bias")),
           ct_data_f64(ct_module_get(a, "out_proj.bias")), sizeof(double) * (size_t)e);
    ct_tensor *x = randn(CT_SHAPE(2, 5, e));
    ck_assert_double_lt(distance(ct_forward(a, x), ct_forward(b, x)), 1e-13);
}
END_TEST

START_TEST(dropout_in_training_alone) {
    ct_module *mha = make((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .dropout = 0.5});
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(4, 20, 8));
    ct_mha_call call = {.need_weights = true, .per_head = true};
    ct_mha_out on = ct_mha_forward(mha, x, NULL, NULL, call);
    ct_module_train(mha, false);
    ct_mha_out off = ct_mha_forward(mha, x, NULL, NULL, call);
    double *a = values(on.weights), *b = values(off.weights), dropped = 0;
    for (int64_t i = 0; i < ct_numel(on.weights); i++)
        if (a[i] == 0) dropped++;
        else ck_assert_double_eq_tol(a[i], 2 * b[i], 1e-6);
    ck_assert_double_eq_tol(dropped / (double)ct_numel(on.weights), 0.5, 0.05);
    free(a), free(b);
    ct_module *out = make((ct_mha_opts){.embed_dim = 8, .num_heads = 2, .out_dropout = 0.5});
    ct_tensor *y = ct_forward(out, x);
    ck_assert_double_eq_tol(
        item(ct_mean(ct_cast(ct_eq(y, ct_zeros(context, CT_F32, CT_SCALAR)), CT_F64), CT_ALL,
                     false)),
        0.5, 0.1);
    ct_module_train(out, false);
    ck_assert_double_gt(item(ct_mean(ct_abs(ct_forward(out, x)), CT_ALL, false)), 0);
}
END_TEST

typedef struct {
    ct_module *mha;
    ct_tensor *key_mask;
} checked;

static ct_tensor *cross(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    checked *c = arg;
    return ct_mha_forward(c->mha, in[0], in[1], in[2],
                          (ct_mha_call){.mask = in[3], .key_mask = c->key_mask, .causal = true})
        .out;
}

START_TEST(gradients) {
    bool real[] = {true, true, false, true, true, true, true, true};
    checked c = {
        make((ct_mha_opts){
            .embed_dim = 6, .num_heads = 2, .kdim = 5, .add_bias_kv = true, .dtype = CT_F64}),
        ct_from_bool(context, CT_SHAPE(2, 4), real)};
    ct_tensor *in[] = {randn(CT_SHAPE(2, 3, 6)), randn(CT_SHAPE(2, 4, 5)), randn(CT_SHAPE(2, 4, 6)),
                       randn(CT_SHAPE(3, 4))};
    ct_gradcheck_result r = ct_gradcheck(cross, &c, in, 4, (ct_gradcheck_opts){0});
    no_error();
    ck_assert_msg(r.ok, "%s", r.diagnosis);
}
END_TEST

int main(void) {
    return run_tests("mha", setup, teardown,
                     TESTS(TEST(shapes_of_torchs_tests), TEST(every_mask), TEST(widths_that_differ),
                           TEST(grouped_queries), TEST(extra_keys), TEST(properties),
                           TEST(heads_may_be_permuted), TEST(dropout_in_training_alone),
                           TEST(gradients)));
}
