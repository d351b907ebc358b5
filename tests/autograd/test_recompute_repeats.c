/* The second run of ct_recompute: it computes what the first has, by the same ops from the same
 * tensors, or backward is CT_ERR_GRAD. A gradient never changes without an error. */
#include "src/autograd/recompute.h"

#include "tests/support/recompute_check.h"

/* ---- random functions ---- */

/* A function is a list of steps on a value h, which begins as the input. */
typedef enum {
    TIMES_A,
    TIMES_B,
    PLUS_B,
    TIMES_CONSTANT,
    TIMES_OUTSIDE,
    TIMES_INPUT,
    TIMES_DETACHED,
    DROPOUT,
    TANH,
    RELU,
    TRANSPOSED,
    KINDS
} kind;
enum { STEPS = 5, SIDE = 3 };
typedef struct {
    kind step[STEPS];
    ct_tensor *a, *b, *constant, *outside;
    double p; /* the probability of dropout */
} steps;

static ct_tensor *run_steps(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    const steps *s = arg;
    ct_tensor *h = in[0];
    for (int i = 0; i < STEPS; i++) switch (s->step[i]) {
        case TIMES_A: h = ct_mul(h, s->a); break;
        case TIMES_B: h = ct_mul(s->b, h); break;
        case PLUS_B: h = ct_add(h, s->b); break;
        case TIMES_CONSTANT: h = ct_mul(h, s->constant); break;
        case TIMES_OUTSIDE: h = ct_mul(h, s->outside); break;
        case TIMES_INPUT: h = ct_mul(h, in[0]); break;
        case TIMES_DETACHED: h = ct_mul(h, ct_detach(in[0])); break;
        case DROPOUT: h = ct_dropout(h, s->p, true); break;
        case TANH: h = ct_tanh(h); break;
        case RELU: h = ct_relu(h); break;
        case TRANSPOSED: h = ct_transpose(h, 0, 1); break;
        case KINDS: break;
        }
    return h;
}

static int below(int n) { return (int)ct_random_below(context, n); }

/* Small integers, so that zeros and equal values are frequent. */
static ct_tensor *integers(void) {
    ct_tensor *t = ct_zeros(context, CT_F32, CT_SHAPE(SIDE, SIDE));
    for (int i = 0; i < SIDE * SIDE; i++) ct_data_f32(t)[i] = (float)(below(4) - 1);
    return t;
}
static ct_tensor *leaf(void) { return ct_set_requires_grad(integers(), true); }

/* Makes a random change between forward and backward, or none. */
static void change(steps *s) {
    switch (below(7)) {
    case 0: s->step[below(STEPS)] = (kind)below(KINDS); break;
    case 1: s->constant = integers(); break;
    case 2: ct_data_f32(s->constant)[below(SIDE * SIDE)] += 1; break;
    case 3: s->a = leaf(); break;
    case 4: ct_set_requires_grad(s->b, false); break;
    case 5: s->p = 0.25; break;
    case 6: s->outside = ct_exp(s->b); break;
    }
}

/* Gradients of x, a and b, if they have one. */
static void gradients(steps s, ct_tensor *x, bool recompute, bool changes, result *r) {
    ct_tensor *a = s.a, *b = s.b;
    ct_rng_set(context, (ct_rng){.seed = 5});
    ct_tensor *y = recompute ? ct_recompute(run_steps, &s, &x, 1) : run_steps(&x, 1, &s);
    no_error();
    ct_rng_set(context, (ct_rng){.seed = ct_random_below(context, 1 << 30)});
    if (changes) change(&s);
    result_clear(r);
    ct_tensor *cotangent = ct_add_scalar(ct_detach(x), 2);
    const bool done =
        ct_requires_grad(y) && ct_backward_with(&y, &cotangent, 1, (ct_backward_opts){0});
    if (done) result_add(r, ct_grad(x)), result_add(r, ct_grad(a)), result_add(r, ct_grad(b));
    ct_set_requires_grad(b, true);
}

static void zero_grads(const steps *s, ct_tensor *x) {
    ct_zero_grad(x), ct_zero_grad(s->a), ct_zero_grad(s->b);
}

/* After any change between forward and backward, the gradients equal those without ct_recompute, or
 * backward fails. Without a change it does not fail. */
START_TEST(random_changes) {
    int same = 0, refused = 0;
    for (int round = 0; round < 4000; round++) {
        ct_scope scope = ct_scope_open(context);
        ct_rng_set(context, (ct_rng){.seed = (uint64_t)round, .stream = 1});
        steps s = {.a = leaf(), .b = leaf(), .constant = integers(), .p = 0.5};
        s.outside = ct_exp(s.a);
        for (int i = 0; i < STEPS; i++) s.step[i] = (kind)below(KINDS);
        ct_tensor *x = leaf();
        static result want, got;
        gradients(s, x, false, false, &want);
        zero_grads(&s, x);
        s.outside = ct_exp(s.a); /* the graph behind the first is released */
        gradients(s, x, true, round % 4, &got);
        if (ct_error(context)) {
            ck_assert_msg(round % 4, "%s", ct_error_message(context));
            refused++;
            expect(CT_ERR_GRAD, "recompute", "");
        } else {
            result_same(&want, &got);
            same++;
        }
        ct_scope_close(scope);
        ck_assert_ptr_null(context->tape_first);
    }
    ck_assert_msg(same > 1500 && refused > 1000, "%d the same, %d refused", same, refused);
}
END_TEST

/* ---- modules ---- */

typedef enum {
    TO_BF16,
    TO_BF16_AND_BACK,
    OTHER_CHILD,
    EQUAL_CHILD,
    EVALUATION,
    CHILD_IN_EVALUATION,
    LOAD,
    FROZEN,
    EXCHANGE,
    CHANGES
} module_change;

static void change_module(ct_module *m, module_change what) {
    ct_module *linear = ct_module_child(m, "layers.1.linear1");
    switch (what) {
    case TO_BF16: ck_assert(ct_module_to(m, CT_BF16)); break;
    case TO_BF16_AND_BACK: ck_assert(ct_module_to(m, CT_BF16) && ct_module_to(m, CT_F32)); break;
    case OTHER_CHILD:
        ct_module_set_child(
            m, "layers.1.linear1",
            ct_linear_new(context, (ct_linear_opts){.in_features = 6, .out_features = 24}));
        break;
    case EQUAL_CHILD: ct_module_set_child(m, "layers.1.linear1", ct_module_clone(linear)); break;
    case EVALUATION: ct_module_train(m, false); break;
    case CHILD_IN_EVALUATION:
        ct_module_train(ct_module_child(m, "layers.0.self_attn"), false);
        break;
    case LOAD: ct_init_normal(ct_module_get(linear, "weight"), 0, 1); break;
    case FROZEN: ct_set_requires_grad(ct_module_get(linear, "bias"), false); break;
    case EXCHANGE: {
        ct_tensor *bias = ct_module_get(linear, "bias");
        cti_tensor_exchange(bias, ct_zeros(context, CT_F32, ct_shape_of(bias)));
        break;
    }
    case CHANGES: break;
    }
}

START_TEST(changed_modules) {
    for (int what = 0; what <= CHANGES; what++) {
        ct_scope scope = ct_scope_open(context);
        const ct_layer_opts opts = {
            .embed_dim = 6, .num_heads = 2, .dropout = 0.3, .recompute = true};
        ct_module *m = ct_encoder_new(context, opts, 2, false);
        ct_tensor *x = parameter(CT_SHAPE(2, 5, 6));
        ct_tensor *y = ct_encoder_forward(m, x, (ct_stack_call){0});
        change_module(m, (module_change)what);
        no_error();
        const bool done = ct_backward_with(&y, &x, 1, (ct_backward_opts){0});
        ck_assert_msg(done == (what == CHANGES), "change %d", what);
        if (!done) expect(CT_ERR_GRAD, "recompute", "");
        ct_scope_close(scope);
        ck_assert_ptr_null(context->tape_first);
        ct_module_free(m);
    }
}
END_TEST

/* ---- what neither the result nor the tensors with a gradient show ---- */

typedef struct {
    ct_tensor *w, *v, *frozen;
    double p, a;
    bool training;
} part_of_zeros;

/* A branch that begins as nothing: w is zeros. */
static ct_tensor *zeros(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    const part_of_zeros *z = arg;
    ct_tensor *h = ct_mul(ct_mul(ct_mul(in[0], z->frozen), z->w), z->v);
    return ct_scale(ct_dropout(h, z->p, z->training), z->a);
}

START_TEST(changes_behind_zeros) {
    for (int what = 0; what < 9; what++) {
        const ct_shape shape = CT_SHAPE(7, 9);
        const bool strided = what == 6 || what == 7;
        ct_tensor *base = ct_rand(context, CT_F64, CT_SHAPE(9, 7));
        part_of_zeros z = {.w = ct_set_requires_grad(ct_zeros(context, CT_F64, shape), true),
                           .v = ct_set_requires_grad(ct_rand(context, CT_F64, shape), true),
                           .frozen = ct_transpose(base, 0, 1),
                           .p = 0.5,
                           .a = 2,
                           .training = true};
        ct_tensor *x = ct_rand(context, CT_F64, shape);
        if (!strided) z.frozen = base = ct_contiguous(z.frozen);
        ct_tensor *y = ct_recompute(zeros, &z, &x, 1);
        if (what == 1) z.p = 0.4;
        if (what == 2) z.a = 3;
        if (what == 3) z.training = false;
        if (what == 4 || what == 7) ct_data_f64(base)[13] += 1e-9;
        if (what == 5) z.frozen = ct_rand(context, CT_F64, shape);
        if (what == 8) cti_tensor_exchange(z.v, ct_rand(context, CT_F64, shape));
        const bool done = ct_backward_with(&y, &x, 1, (ct_backward_opts){0});
        ck_assert_msg(done == (what % 6 == 0), "change %d", what);
        if (!done)
            expect(CT_ERR_GRAD, what == 8 ? "exchanged" : "by other ops or from other constants",
                   "recompute");
    }
}
END_TEST

/* ---- results ---- */

static ct_tensor *through(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    ct_tensor *y = ct_add(in[0], in[0]);
    ct_tensor **last = arg;
    if (*last) ct_copy_into(y, *last);
    return ct_transpose(y, 0, 1);
}

/* One bit of the result's last element, in large and strided ones, for any number of threads. Which
 * NaN it is counts for nothing. */
START_TEST(one_bit_of_the_result) {
    const ct_shape shapes[] = {CT_SHAPE(2, 3), CT_SHAPE(519, 700), CT_SHAPE(3, 1), CT_SHAPE(0, 4)};
    for (ct_dtype dtype = CT_F32; dtype <= CT_F64; dtype++)
        for (int i = 0; i < 24; i++) {
            ct_scope scope = ct_scope_open(context);
            ct_set_threads(context, 1 + i / 12);
            ct_tensor *x = ct_randn(context, dtype, shapes[i % 4]), *last = NULL;
            const int64_t n = ct_numel(x), size = dtype == CT_F32 ? 4 : 8;
            const bool nan = i % 3 == 1 && n, changed = i / 4 % 2 && n;
            if (nan)
                ct_copy_into(ct_select(x, 0, 0), ct_full(context, dtype, CT_SHAPE(1), (double)NAN));
            ct_set_requires_grad(x, true);
            ct_tensor *y = ct_recompute(through, &last, &x, 1);
            last = ct_add_scalar(ct_detach(ct_transpose(y, 0, 1)), 0);
            char *bytes = dtype == CT_F32 ? (char *)ct_data_f32(last) : (char *)ct_data_f64(last);
            if (nan) bytes[0] ^= 1;
            if (changed) bytes[(n - 1) * size] ^= 1;
            ct_tensor *cotangent = ct_transpose(ct_detach(x), 0, 1);
            const bool done = ct_backward_with(&y, &cotangent, 1, (ct_backward_opts){0});
            ck_assert_msg(done != changed, "case %d: %s", i, ct_error_message(context));
            if (!done) expect(CT_ERR_GRAD, "other values", "recompute");
            ct_scope_close(scope);
        }
}
END_TEST

/* ---- one element of a constant, of a dtype that has no NaN to look for ---- */

static ct_tensor *of_constant(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    ct_tensor *constant = arg;
    switch (ct_dtype_of(constant)) {
    case CT_BF16: return ct_linear(in[0], constant, NULL);
    case CT_BOOL: return ct_masked_fill(in[0], constant, 0);
    default: return ct_index_select(in[0], 0, constant);
    }
}

/* In a tensor of zeros: only the graph tells, and not the result. */
START_TEST(one_element_of_a_constant) {
    static const ct_dtype dtypes[] = {CT_BF16, CT_BOOL, CT_I64};
    enum { N = 15 };
    for (int i = 0; i < 3 * (N + 1); i++) {
        ct_scope scope = ct_scope_open(context);
        const int at = i / 3; /* N: none */
        const bool ids = dtypes[i % 3] == CT_I64;
        ct_tensor *x = ct_set_requires_grad(ct_zeros(context, CT_F32, CT_SHAPE(3, 5)), true);
        ct_tensor *constant = ct_zeros(context, dtypes[i % 3], ids ? CT_SHAPE(N) : CT_SHAPE(3, 5));
        ct_tensor *y = ct_recompute(of_constant, constant, &x, 1);
        if (at < N) constant->data[(size_t)at * cti_dtype_size(dtypes[i % 3])] = 1;
        ck_assert_msg(ct_backward(ct_sum(y, CT_ALL, false)) == (at == N), "case %d", i);
        if (at < N) expect(CT_ERR_GRAD, "from other constants", "recompute");
        ct_scope_close(scope);
    }
}
END_TEST

int main(void) {
    return run_tests("recompute, repeated", setup, teardown,
                     TESTS(TEST(random_changes), TEST(changed_modules), TEST(changes_behind_zeros),
                           TEST(one_bit_of_the_result), TEST(one_element_of_a_constant)));
}
