/* Attention in blocks against its scalar reference: every option, odd sizes, strides, every
 * ISA, any number of threads; and how much memory it takes. */
#include "attention_check.h"

START_TEST(attention_is_the_reference) {
    for (int k = 0; k < 12; k++) {
        const problem p = random_problem((uint64_t)(_i * 12 + k));
        agree(&p, isa_of(k));
    }
}
END_TEST

START_TEST(edges_of_blocks) {
    static const int64_t sizes[][2] = {{119, 121}, {120, 120}, {121, 119}, {128, 127}, {31, 129},
                                       {129, 32},  {256, 255}, {511, 40},  {40, 513},  {513, 300},
                                       {300, 520}, {241, 258}, {257, 300}};
    problem p = {.b = 1,
                 .h = 2,
                 .kv = 1,
                 .t = sizes[_i][0],
                 .s = sizes[_i][1],
                 .d = 5,
                 .dv = 4,
                 .seed = (uint64_t)_i};
    for (int k = 0; k < 4; k++) {
        p.causal = k & 1;
        p.keys = k & 2;
        p.mask = k == 3 ? 1 : 0;
        p.dropout = k == 2 ? 0.4 : 0;
        agree(&p, isa_of(_i));
    }
}
END_TEST

/* So many heads that each is one pair of ranges, of several blocks of keys and of queries. */
START_TEST(several_blocks_in_a_pair) {
    const problem p = {.b = 4,
                       .h = 4,
                       .kv = 2,
                       .t = 250,
                       .s = 300,
                       .d = 5,
                       .dv = 6,
                       .causal = _i & 1,
                       .keys = _i & 2,
                       .mask = (int[]){0, 1, 2, 7}[_i],
                       .dropout = _i == 2 ? 0.4 : 0,
                       .seed = 40,
                       .layout = {_i % 2, _i % 2, _i % 2}};
    agree(&p, isa_of(_i));
}
END_TEST

/* Rows of the operands and of the results have a multiple of 4096 bytes, so that they share cache
 * sets. */
START_TEST(rows_far_apart) {
    problem p = {.b = 1,
                 .h = 1024,
                 .kv = 512,
                 .t = 40,
                 .s = 20,
                 .d = 4,
                 .dv = 4,
                 .layout = {1, 1, 1},
                 .transposed = true,
                 .seed = 6};
    p.keys = _i;
    agree(&p, isa_of(_i));
}
END_TEST

START_TEST(any_number_of_threads) {
    static const int threads[] = {2, 3, 7};
    problem p = random_problem(1000 + (uint64_t)_i);
    p.t = (int64_t[]){70, 300, 700, 1100}[_i % 4], p.s = (int64_t[]){90, 530, 650, 1100}[_i % 4];
    p.d = p.dv = 8;
    if (_i % 2) p.mask = 1 + _i % 9, p.mask_is_bool = false; /* its gradient is a sum */
    how w = {_i % 3 ? CT_F32 : CT_F64, .weights = _i % 4 < 2 ? (_i + _i / 3) % 3 : 0, .threads = 1};
    const result one = solve(&p, w);
    for (int k = 0; k < 3; k++) {
        w.threads = threads[k];
        const result more = solve(&p, w);
        same_bits(&p, more, one, "threads");
        forget(more);
    }
    forget(one);
}
END_TEST

/* every pair adds to the gradient of this mask: no two at a time */
START_TEST(one_number_for_all_pairs) {
    for (int64_t b = 1; b <= 2; b++) {
        problem p = {.b = b,
                     .h = 2,
                     .kv = 2,
                     .t = 1100,
                     .s = 1100,
                     .d = 4,
                     .dv = 4,
                     .mask = b > 1 ? MASKS + 1 : 7,
                     .seed = 3};
        const result one = solve(&p, (how){CT_F64, .threads = 1}),
                     reference = solve(&p, (how){CT_F64, .reference = true});
        near(&p, one, reference, 1e-12, "reference");
        forget(reference);
        for (int k = 0; k < 6; k++) {
            const result more = solve(&p, (how){CT_F64, .threads = 2 + k});
            same_bits(&p, more, one, "threads");
            forget(more);
        }
        forget(one);
    }
}
END_TEST

/* ---- gradients against differences ---- */

static ct_tensor *attend_fn(ct_tensor *const *in, int n, void *arg) {
    ct_attention_opts o = *(ct_attention_opts *)arg;
    if (n > 3) o.mask = in[3];
    ct_seed(ct_context_of(in[0]), 3);
    const ct_attention_out y = ct_attention(in[0], in[1], in[2], o);
    return o.need_weights ? y.weights : y.out;
}

START_TEST(gradients_are_right) {
    problem p = {.b = 2, .h = 4, .kv = 2, .t = 3, .s = 4, .mask = _i % (MASKS + 1)};
    ct_tensor *in[4] = {ct_randn(context, CT_F64, CT_SHAPE(2, 4, 3, 3)),
                        ct_randn(context, CT_F64, CT_SHAPE(2, 2, 4, 3)),
                        ct_randn(context, CT_F64, CT_SHAPE(2, 2, 4, 2)),
                        p.mask ? ct_randn(context, CT_F64, mask_shape(&p)) : NULL};
    for (int i = 0; i < 4 && in[i]; i++) ct_set_requires_grad(in[i], true);
    const int weights = _i / (MASKS + 1) % 3;
    ct_attention_opts o = {.causal = _i % 2,
                           .dropout = _i % 3 ? 0 : 0.4,
                           .need_weights = weights > 0,
                           .mean_weights = weights > 1};
    if (_i % 4 > 1)
        o.key_mask = ct_from_bool(context, CT_SHAPE(2, 4), (bool[]){1, 0, 1, 1, 0, 0, 1, 1});
    ct_gradcheck_result r = ct_gradcheck(attend_fn, &o, in, p.mask ? 4 : 3,
                                         (ct_gradcheck_opts){.atol = 1e-8, .rtol = 1e-6});
    ck_assert_msg(r.ran && r.ok, "mask %d: %s %s", p.mask, r.diagnosis, ct_error_message(context));
}
END_TEST

/* ---- digits ---- */

/* The gradient of a mask that repeats along 200,000 queries keeps its digits: 2/9 of each. */
START_TEST(a_long_sum_of_a_masks_gradient) {
    enum { T = 200000 };
    ct_tensor *q = ct_zeros(context, CT_F32, CT_SHAPE(1, 1, T, 1)),
              *k = ct_zeros(context, CT_F32, CT_SHAPE(1, 1, 3, 1));
    ct_tensor *v = ct_from_f32(context, CT_SHAPE(1, 1, 3, 1), (float[]){1, 0, 0});
    ct_tensor *mask = ct_set_requires_grad(ct_zeros(context, CT_F32, CT_SHAPE(3)), true);
    ct_tensor *y = ct_attention(q, k, v, (ct_attention_opts){.mask = mask}).out,
              *g = ct_full(context, CT_F32, CT_SHAPE(1, 1, T, 1), 1);
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    ck_assert_double_eq_tol(ct_data_f32(ct_grad(mask))[0] / (2.0 / 9 * T), 1, 5e-5);
    ck_assert_double_eq_tol(ct_data_f32(ct_grad(mask))[1] / (-1.0 / 9 * T), 1, 5e-5);
}
END_TEST

/* of 1e4 and more: the softmax is a choice, and its gradient stays finite */
START_TEST(large_scores) {
    problem p = {
        .b = 1, .h = 2, .kv = 2, .t = 150, .s = 260, .d = 16, .dv = 8, .scale = 2000, .seed = 4};
    agree(
        &(problem){
            .b = 1, .h = 1, .kv = 1, .t = 5, .s = 6, .d = 3, .dv = 2, .scale = 1e-3, .seed = 1},
        NULL);
    const result want = solve(&p, (how){CT_F64, .reference = true}),
                 got = solve(&p, (how){.dtype = CT_F64}),
                 single = solve(&p, (how){.dtype = CT_F32});
    near(&p, got, want, 1e-9, "f64");
    for (int i = 0; i < RESULTS; i++)
        for (int64_t k = 0; k < single.count[i]; k++) HOLDS(isfinite(single.value[i][k]), "f32");
    for (int64_t k = 0; k < want.count[OUT]; k++)
        ck_assert_double_eq_tol(single.value[OUT][k], want.value[OUT][k], 0.05);
    forget(want), forget(got), forget(single);
    /* the lowest float in place of -inf: a row of nothing else is a row of equals */
    p.scale = 0, p.mask = 6;
    double bias[150];
    for (int i = 0; i < 150; i++) bias[i] = i % 2 ? -3.4028234663852886e38 : 0;
    const result low = solve(&p, (how){CT_F32, .mask = bias}),
                 whole = solve(&p, (how){CT_F32, .mask = bias, .reference = true});
    near(&p, low, whole, 1e-5, "lowest float");
    forget(low), forget(whole);
}
END_TEST

/* Backward multiplies by the weights of forward, to the bit, even if scores are so large that their
 * last bits decide. With one-hot values, out is P. With one-hot cotangents, a column for each query
 * of a key head, dv is P^T. */
static void same_weights(const problem *p, how w, ct_attention_opts o) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 7, .threads = 2, .isa = w.isa});
    const int64_t group = p->h / p->kv, wide = p->s > group * p->t ? p->s : group * p->t;
    const int64_t n[2] = {p->b * p->h * p->t * p->d, p->b * p->kv * p->s * p->d};
    ct_tensor *in[3], *g = ct_zeros(c, w.dtype, CT_SHAPE(p->b, p->h, p->t, wide));
    state = p->seed;
    for (int i = 0; i < 2; i++) {
        double *value = malloc((size_t)(n[i] + 1) * sizeof *value);
        for (int64_t k = 0; k < n[i]; k++) value[k] = noise();
        in[i] = laid_out(leaf(c, w.dtype, CT_SHAPE(n[i]), value, n[i]), p->layout[i], p->b,
                         i ? p->kv : p->h, i ? p->s : p->t, p->d);
        free(value);
    }
    double *one = calloc((size_t)(p->s * wide), sizeof *one);
    for (int64_t k = 0; k < p->s; k++) one[k * wide + k] = 1;
    ct_tensor *v = leaf(c, w.dtype, CT_SHAPE(p->s, wide), one, p->s * wide), *dv;
    free(one);
    v = ct_set_requires_grad(
        ct_contiguous(ct_expand(ct_detach(v), CT_SHAPE(p->b, p->kv, p->s, wide))), true);
    for (int64_t i = 0; i < p->b * p->h * p->t; i++) {
        const int64_t at = i * wide + i % (group * p->t);
        if (w.dtype == CT_F64) ct_data_f64(g)[at] = 1;
        else ct_data_f32(g)[at] = 1;
    }
    in[2] = v;
    if (p->mask) o.mask = ct_randn(c, w.dtype, CT_SHAPE(p->t, p->s));
    if (p->keys) {
        o.key_mask = ct_ones(c, CT_BOOL, CT_SHAPE(p->b, p->s));
        for (int64_t i = 0; i < p->b * p->s; i++)
            ct_data_bool(o.key_mask)[i] = i % p->s == 0 || draw(4) > 0;
    }
    o.causal = p->causal, o.dropout = p->dropout, o.scale = p->scale;
    o.need_weights = w.weights > 0;
    ct_tensor *out = ct_attention(in[0], in[1], in[2], o).out;
    ck_assert_msg(out && ct_backward_with(&out, &g, 1, (ct_backward_opts){0}) && (dv = ct_grad(v)),
                  "%s", ct_error_message(c));
    const int64_t rows = p->b * p->h * p->t;
    double *forward = malloc((size_t)(rows * wide) * sizeof *forward),
           *backward = malloc((size_t)(rows * wide + ct_numel(dv)) * 8);
    ct_to_f64(out, forward, rows * wide), ct_to_f64(dv, backward, ct_numel(dv));
    const double eps = w.dtype == CT_F64 ? 0x1p-52 : 0x1p-23;
    char text[256];
    describe(p, text);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < p->s; k++) {
            const int64_t head = i / (group * p->t), column = i % (group * p->t);
            const double want = forward[i * wide + k];
            const double got = backward[(head * p->s + k) * wide + column];
            HOLDS(fabs(got - want) <= 8 * eps,
                  "query %d, key %d: forward %.9g, backward %.9g: %s %s", (int)i, (int)k, want, got,
                  w.isa, text);
            if (p->s == 1 && p->dropout == 0)
                HOLDS(want == 1 && got == 1, "one key: %.9g, %.9g: %s", want, got, text);
        }
    free(forward), free(backward);
    ct_context_free(c);
}

START_TEST(backward_has_forwards_weights) {
    static const int64_t lengths[] = {1, 2, 3, 5, 16, 17, 33, 130, 260},
                         widths[] = {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 64, 65, 100, 300};
    const int64_t t = (int64_t[]){1, 2, 3, 4, 17, 130}[_i];
    for (int k = 0; k < 56; k++) {
        problem p = {.b = 1 + k % 2,
                     .h = 2,
                     .kv = 1 + k / 3 % 2,
                     .t = t,
                     .s = lengths[k % 9],
                     .d = widths[k % 14],
                     .seed = (uint64_t)k};
        p.scale = (double[]){0, 30, 3000, 1e4}[k % 4] / (k % 4 ? sqrt((double)p.d) : 1);
        p.causal = k % 5 == 4, p.keys = k % 7 == 5, p.mask = k % 6 == 3,
        p.dropout = k % 8 == 7 ? 0.25 : 0;
        for (int i = 0; i < 2; i++) p.layout[i] = k / 4 % 3;
        const how w = {k % 3 ? CT_F32 : CT_F64, .isa = isa_of(k), .weights = k % 10 == 9};
        same_weights(&p, w, (ct_attention_opts){0});
    }
}
END_TEST

/* If there is one key, or one key has all the weight, scores change nothing. Then dP - D must be 0,
 * although both are rounded in different ways. */
START_TEST(a_weight_of_1_has_no_gradient) {
    for (int k = 0; k < 24; k++) {
        problem p = {.b = 1,
                     .h = 2,
                     .kv = 1 + k % 2,
                     .t = (int64_t[]){1, 2, 3, 130}[_i],
                     .s = k % 3 ? 1 : 40,
                     .d = 20,
                     .dv = 37 + k};
        p.mask = k % 4 == 3 ? 1 : 0, p.dropout = k % 5 == 4 ? 0.25 : 0, p.seed = (uint64_t)k;
        double bias[130 * 40]; /* hides all keys but one: their weights become 0 */
        for (int i = 0; i < 130 * 40; i++) bias[i] = p.s == 1 || i % 40 == 7 ? 3 : -1e6;
        if (p.s > 1) p.mask = 1;
        const result r =
            solve(&p, (how){k % 2 ? CT_F64 : CT_F32, .isa = isa_of(k / 2), .mask = bias});
        for (int i = DQ; i < RESULTS; i++)
            for (int64_t j = 0; j < r.count[i] && i != DV; j++)
                HOLDS(r.value[i][j] == 0, "%s[%d] is %g", names[i], (int)j, r.value[i][j]);
        forget(r);
    }
}
END_TEST

/* Decoding sums values over each run of keys that the key mask leaves. To divide each run's sum by
 * the sum of the weights would be a rounding for each run: 500 of them here. */
START_TEST(runs_of_keys_are_scaled_once) {
    ct_tensor *q = ct_zeros(context, CT_F32, CT_SHAPE(1, 1, 1, 4));
    ct_tensor *k = ct_zeros(context, CT_F32, CT_SHAPE(1, 1, 1000, 4));
    ct_tensor *v = ct_ones(context, CT_F32, CT_SHAPE(1, 1, 1000, 4));
    ct_tensor *keys = ct_zeros(context, CT_BOOL, CT_SHAPE(1, 1000));
    for (int i = 0; i < 1000; i += 2) ct_data_bool(keys)[i] = true;
    ct_tensor *y = ct_attention(q, k, v, (ct_attention_opts){.key_mask = keys}).out;
    ck_assert_msg(y != NULL, "%s", ct_error_message(context));
    for (int i = 0; i < 4; i++)
        HOLDS(fabs((double)ct_data_f32(y)[i] - 1) <= 0x1p-23, "%.9g", (double)ct_data_f32(y)[i]);
}
END_TEST

/* ---- memory, layout, streams ---- */

/* all but a few keys are hidden, which takes the time away and not the memory */
static int64_t peak_of(int64_t t, bool causal) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .threads = 2});
    ct_tensor *in[3], *g = ct_ones(c, CT_F32, CT_SHAPE(1, 4, t, 64)),
                      *keys = ct_zeros(c, CT_BOOL, CT_SHAPE(1, t));
    for (int i = 0; i < 3; i++)
        in[i] = ct_set_requires_grad(ct_ones(c, CT_F32, CT_SHAPE(1, 4, t, 64)), true);
    for (int i = 0; i < 20; i++) ct_data_bool(keys)[i] = true;
    ct_memory_reset_peak(c);
    ct_tensor *y =
        ct_attention(in[0], in[1], in[2], (ct_attention_opts){.causal = causal, .key_mask = keys})
            .out;
    ck_assert_msg(y && ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), "%s",
                  ct_error_message(c));
    const int64_t peak = ct_memory(c).peak;
    ct_context_free(c);
    return peak;
}

START_TEST(memory_is_linear) {
    for (int64_t t = 128; t <= 16384; t *= 2) {
        const double tensors = 8.0 * 4 * 64 * 4 * (double)t, peak = (double)peak_of(t, t % 3);
        ck_assert_msg(peak < 1.2 * tensors + (3 << 20),
                      "T %d: %.0f bytes, where q, k, v, out and their gradients are %.0f", (int)t,
                      peak, tensors);
        if (t >= 4096)
            ck_assert_msg(peak < 1.3 * tensors, "T %d: %.0f bytes, %.2f times the tensors", (int)t,
                          peak, peak / tensors);
    }
}
END_TEST

/* The gradient of a mask takes the memory of one sum, or of up to eight if the mask is repeated
 * over batch or heads, however often it is repeated. */
START_TEST(memory_of_a_masks_gradient) {
    static const struct {
        ct_shape mask;
        int64_t sums, batch;
    } cases[] = {{{4, {6, 6, 100, 200}}, 1, 6},
                 {{4, {6, 1, 200, 300}}, 6, 6},
                 {{4, {1, 6, 200, 300}}, 6, 6},
                 {{2, {300, 400}}, 8, 6},
                 {{2, {300, 400}}, 1, 0}};
    for (int i = 0; i < 5; i++) {
        const int64_t t = cases[i].mask.dim[cases[i].mask.ndim - 2],
                      s = cases[i].mask.dim[cases[i].mask.ndim - 1];
        ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
        ct_tensor *q = ct_randn(c, CT_F32, CT_SHAPE(cases[i].batch, 6, t, 2)),
                  *k = ct_randn(c, CT_F32, CT_SHAPE(cases[i].batch, 6, s, 2));
        ct_tensor *mask = ct_set_requires_grad(ct_zeros(c, CT_F32, cases[i].mask), true);
        ct_tensor *y = ct_attention(q, k, k, (ct_attention_opts){.mask = mask}).out,
                  *g = y ? ct_ones(c, CT_F32, ct_shape_of(y)) : NULL;
        ct_memory_reset_peak(c);
        const int64_t live = ct_memory(c).live;
        ck_assert_msg(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), "%s",
                      ct_error_message(c));
        const double sums = (double)(ct_memory(c).peak - live) / (4.0 * (double)ct_numel(mask));
        ck_assert_msg(sums > (double)cases[i].sums && sums < (double)cases[i].sums + 2.8,
                      "%d: %g sums", i, sums);
        ct_context_free(c);
    }
}
END_TEST

START_TEST(heads_stay_where_they_were) { /* split, attended, joined: nothing is moved */
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, 5, 12)),
              *q = ct_transpose(ct_view(x, CT_SHAPE(2, 5, 3, 4)), 1, 2);
    ct_tensor *y = ct_attention(q, q, q, (ct_attention_opts){0}).out;
    ct_tensor *joined = ct_view(ct_transpose(y, 1, 2), CT_SHAPE(2, 5, 12));
    ck_assert_msg(joined != NULL, "%s", ct_error_message(context));
    ck_assert_ptr_nonnull(ct_data_f32(joined));
    ck_assert_ptr_nonnull(
        ct_data_f32(ct_attention(ct_contiguous(q), q, q, (ct_attention_opts){0}).out));
}
END_TEST

START_TEST(one_tensor_three_times) {
    const ct_attention_opts o = {.causal = true};
    ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(1, 2, 9, 4)), true),
              *copy[3];
    for (int i = 0; i < 3; i++)
        copy[i] = ct_set_requires_grad(ct_add_scalar(ct_detach(x), 0), true);
    backward(ct_attention(x, x, x, o).out);
    backward(ct_attention(copy[0], copy[1], copy[2], o).out);
    ct_tensor *sum = ct_add(ct_add(ct_grad(copy[0]), ct_grad(copy[1])), ct_grad(copy[2]));
    for (int64_t i = 0; i < ct_numel(x); i++)
        ck_assert_double_eq_tol(ct_data_f64(ct_grad(x))[i], ct_data_f64(sum)[i], 1e-12);
}
END_TEST

START_TEST(one_stream_of_dropout) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(1, 2, 9, 4));
    for (int k = 0; k < 4; k++) {
        const uint64_t stream = ct_rng_get(context).stream;
        ck_assert_ptr_nonnull(
            ct_attention(x, x, x,
                         (ct_attention_opts){.dropout = k / 2 * 0.5, .need_weights = k % 2})
                .out);
        ck_assert_uint_eq(ct_rng_get(context).stream, stream + (uint64_t)(k / 2));
    }
    ct_tensor *none = ct_attention(x, x, x, (ct_attention_opts){.dropout = 1}).out;
    for (int64_t i = 0; i < ct_numel(none); i++) ck_assert_double_eq(ct_data_f64(none)[i], 0);
}
END_TEST

int main(void) {
    return run_cases(
        "attention in blocks",
        CASES({.name = "fused, whatever the threads",
               .tags = "one-thread",
               .before = open_context,
               .after = close_context,
               .tests = TESTS(LOOP(attention_is_the_reference, 20), LOOP(edges_of_blocks, 13),
                              LOOP(several_blocks_in_a_pair, 4), TEST(memory_is_linear))},
              {.name = "fused",
               .before = open_context,
               .after = close_context,
               .tests =
                   TESTS(LOOP(rows_far_apart, 2), LOOP(any_number_of_threads, 12),
                         TEST(one_number_for_all_pairs), LOOP(gradients_are_right, 3 * (MASKS + 1)),
                         TEST(a_long_sum_of_a_masks_gradient), TEST(large_scores),
                         LOOP(backward_has_forwards_weights, 6),
                         LOOP(a_weight_of_1_has_no_gradient, 4), TEST(runs_of_keys_are_scaled_once),
                         TEST(memory_of_a_masks_gradient), TEST(heads_stay_where_they_were),
                         TEST(one_tensor_three_times), TEST(one_stream_of_dropout))}));
}
