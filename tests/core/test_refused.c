/* Refusals of tensors, ops of one's own, scopes, backward and printing, and each one's error for a
 * tensor that has no values or has ended. */
#include "src/core/context.h"

#include "tests/support/op_check.h"

START_TEST(wrapping) {
    float numbers[8] = {0};
#define WRAP(dtype, shape, strides, data) ct_wrap(context, dtype, shape, strides, data)
    ck_assert_ptr_null(ct_wrap(NULL, CT_F32, CT_SHAPE(2), NULL, numbers));
    FAILS(WRAP((ct_dtype)5, CT_SHAPE(2), NULL, numbers), CT_ERR_DTYPE, "wrap");
    FAILS(WRAP((ct_dtype)-1, CT_SHAPE(2), NULL, numbers), CT_ERR_DTYPE, "wrap");
    FAILS(WRAP(CT_F32, CT_SHAPE(2, -1), NULL, numbers), CT_ERR_SHAPE,
          "a size is negative: (2, -1)");
    FAILS(WRAP(CT_F32, CT_SHAPE(2), NULL, NULL), CT_ERR_ARGUMENT, "wrap: data is NULL for (2)");
    FAILS(WRAP(CT_F32, CT_SHAPE(2), NULL, (char *)numbers + 1), CT_ERR_ARGUMENT,
          "wrap: data is not aligned for f32");
    const int64_t far = INT64_MAX / 2, far_in_bytes = INT64_MAX / 3, farther = INT64_MAX / 16;
    FAILS(WRAP(CT_F32, CT_SHAPE(3), &far, numbers), CT_ERR_MEMORY,
          "wrap: the stride 4611686018427387903 of dim 0 overflows");
    FAILS(WRAP(CT_F32, CT_SHAPE(2), &far_in_bytes, numbers), CT_ERR_MEMORY, "of dim 0 overflows");
    FAILS(WRAP(CT_F32, CT_SHAPE(3), &farther, numbers), CT_ERR_MEMORY, "of dim 0 overflows");
    FAILS(WRAP(CT_F32, CT_SHAPE(3), &(int64_t){-farther}, numbers), CT_ERR_MEMORY,
          "wrap: the stride -576460752303423487 of dim 0 overflows");
    has_shape(WRAP(CT_F32, CT_SHAPE(0, 2), NULL, NULL), CT_SHAPE(0, 2));
    IS(WRAP(CT_F32, CT_SHAPE(1), &far, numbers), 0); /* the stride of one element means nothing */
#undef WRAP
}
END_TEST

START_TEST(reading) {
    ct_tensor *x = of(CT_F64, CT_SHAPE(2, 3));
    double out[6];
    ck_assert(!ct_to_f64(x, NULL, 6));
    FAILS(NULL, CT_ERR_ARGUMENT, "to_f64: (2, 3) into NULL of 6 elements");
    ck_assert(!ct_to_f64(x, out, 5));
    FAILS(NULL, CT_ERR_ARGUMENT, "to_f64: (2, 3) into an array of 5 elements");
    ck_assert(!ct_to_f64(NULL, out, 6) && ct_to_f64(of(CT_F64, CT_SHAPE(0)), NULL, 0));
    ck_assert(ct_dtype_of(NULL) == CT_F32 && ct_shape_of(NULL).ndim == 0 && ct_ndim(NULL) == 0 &&
              ct_numel(NULL) == 0 && ct_dim(NULL, 0) == -1 && isnan(ct_item(NULL)));
    ck_assert(!ct_context_of(NULL) && !ct_data_f32(NULL) && !ct_grad(NULL) &&
              !ct_requires_grad(NULL) && !ct_zero_grad(NULL) && !ct_retain_grad(NULL) &&
              !ct_detach(NULL) && !ct_set_requires_grad(NULL, true));
    ck_assert(isnan(ct_item(x)));
    FAILS(NULL, CT_ERR_SHAPE, "item: (2, 3) does not have one element");
    ck_assert_int_eq(ct_dim(x, 2), -1);
    FAILS(NULL, CT_ERR_SHAPE, "dim: no dim 2 in a tensor of 2 dims");
    FAILS(ct_retain_grad(x), CT_ERR_GRAD, "retain_grad: (2, 3) was not computed from anything");
    const ct_rng none = ct_rng_get(NULL);
    ck_assert(none.seed == 0 && none.stream == 0 && ct_threads(NULL) == 0 &&
              ct_error(NULL) == CT_ERR_MEMORY);
}
END_TEST

/* ---- ops of one's own ---- */

static ct_tensor *copied(ct_call *c) { return ct_scale(c->in[0], 1); }

START_TEST(ops_of_ones_own) {
    const ct_op whole = {.name = "mine", .forward = copied}, nameless = {.forward = copied},
                empty = {.name = "empty"},
                asking = {.name = "asking", .forward = copied, .attrs_size = 4};
    ct_tensor *x = of(CT_F32, CT_SHAPE(2)), *outs[2] = {x, x};
    ck_assert_ptr_nonnull(ct_apply(&whole, &x, 1, NULL));
    FAILS(ct_apply(NULL, &x, 1, NULL), CT_ERR_ARGUMENT, "apply: the op has no forward or no name");
    FAILS(ct_apply(&nameless, &x, 1, NULL), CT_ERR_ARGUMENT, "no forward or no name");
    FAILS(ct_apply(&empty, &x, 1, NULL), CT_ERR_ARGUMENT, "no forward or no name");
    FAILS(ct_apply(&asking, &x, 1, NULL), CT_ERR_ARGUMENT, "asking: attrs is NULL");
    ck_assert(!ct_apply_many(NULL, &x, 1, NULL, outs) && !outs[0]);
    FAILS(NULL, CT_ERR_ARGUMENT, "no forward or no name");
    ct_tensor *some[3] = {NULL, x, NULL};
    ck_assert(!ct_apply_many(NULL, some, 3, NULL, NULL));
    FAILS(NULL, CT_ERR_ARGUMENT, "apply: outs is NULL");
    ck_assert(!ct_apply_many(&whole, NULL, 0, NULL, NULL) && !ct_apply(&whole, NULL, 0, NULL) &&
              !ct_apply(&whole, NULL, 2, NULL) && !ct_apply_many(&whole, some, 1, NULL, outs));
    /* with a pending error the first stays, and an input of another context is named there */
    ct_context *strange = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    ct_tensor *both[2] = {x, ct_ones(strange, CT_F32, CT_SHAPE(2))};
    ct_fail(context, CT_ERR_ARGUMENT, "the first");
    ck_assert_ptr_null(ct_apply(&whole, both, 2, NULL));
    FAILS(NULL, CT_ERR_ARGUMENT, "the first");
    ck_assert_msg(ct_error(strange) && strstr(ct_error_message(strange), "mine"), "%s",
                  ct_error_message(strange));
    ct_error_clear(strange);
    ct_fail(context, CT_ERR_ARGUMENT, "the first");
    ck_assert_ptr_null(ct_apply(NULL, both, 2, NULL));
    FAILS(NULL, CT_ERR_ARGUMENT, "the first");
    ck_assert_msg(strstr(ct_error_message(strange), "apply"), "%s", ct_error_message(strange));
    ct_context_free(strange);
}
END_TEST

/* A limit that leaves no room for the list of inputs. */
START_TEST(no_memory_for_the_inputs) {
    static const ct_op whole = {.name = "mine", .forward = copied};
    for (int profiled = 0; profiled < 2; profiled++) {
        ct_context *small =
            ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .memory_limit = 64 << 20});
        ck_assert(!profiled || ct_profile_start(small));
        ct_tensor *x = ct_ones(small, CT_F32, CT_SHAPE(2));
        ck_assert_ptr_null(ct_apply(&whole, &x, 1 << 30, NULL)); /* refused before they are read */
        ck_assert_msg(ct_error(small) == CT_ERR_MEMORY, "%s", ct_error_message(small));
        ct_error_clear(small);
        ck_assert_msg(ct_scale(x, 2) != NULL, "%s", ct_error_message(small)); /* and it goes on */
        ck_assert(!profiled || ct_profile_stop(small));
        ct_context_free(small);
    }
}
END_TEST

/* ---- inside a backward ---- */

static FILE *printed;
static bool refused_zero, refused_read;

static ct_tensor *watched_forward(ct_call *c) {
    c->drop = CT_DROP_IN(0) | CT_DROP_OUT;
    return ct_scale(c->in[0], 1);
}

static bool watched_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_context *own = c->context;
    refused_zero =
        !ct_zero_grad(g[0]) && ct_error(own) == CT_ERR_GRAD &&
        strstr(ct_error_message(own), "zero_grad: called inside the backward of watched");
    ct_error_clear(own);
    ct_print(c->in[0], printed);
    refused_read = ct_error(own) && strstr(ct_error_message(own), "print");
    ct_error_clear(own);
    ct_tensor *dropped = c->in[0];
    refused_read &= !ct_backward_with(&dropped, NULL, 1, (ct_backward_opts){0}) && ct_error(own);
    ct_error_clear(own);
    double number;
    refused_read &= !ct_to_f64(dropped, &number, 1) && ct_error(own);
    ct_error_clear(own);
    grad[0] = g[0];
    return true;
}

START_TEST(inside_a_backward) {
    static const ct_op watched = {
        .name = "watched", .forward = watched_forward, .backward = watched_backward};
    char text[128] = "";
    printed = fmemopen(text, sizeof text, "w");
    ct_tensor *x = F64(1, 2), *y = ct_apply(&watched, &x, 1, NULL);
    ck_assert_msg(ct_backward(ct_sum(y, CT_ALL, false)), "%s", ct_error_message(context));
    fclose(printed);
    ck_assert(refused_zero && refused_read);
    ck_assert_str_eq(text, "tensor(no values, shape=(2), dtype=f64)\n");
    IS(ct_grad(x), 1, 1);
}
END_TEST

START_TEST(scopes) {
    ct_context *strange = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    ct_tensor *theirs = ct_ones(strange, CT_F32, CT_SHAPE(2));
    const ct_scope none = ct_scope_open(NULL);
    ck_assert_ptr_null(none.context);
    ct_scope_close(none);
    ct_scope scope = ct_scope_open(context);
    ck_assert_ptr_null(ct_scope_keep(scope, theirs));
    ck_assert(ct_error(context) || ct_error(strange));
    ct_error_clear(context), ct_error_clear(strange);
    ck_assert_ptr_null(ct_scope_keep(scope, NULL));
    ct_release(NULL);
    ct_scope_close(scope);
    ct_context_free(strange);
    ct_print(of(CT_F32, CT_SHAPE(2)), NULL); /* nowhere */
}
END_TEST

/* Four times the width is the usual hidden size. */
START_TEST(modules_that_are_too_wide) {
    const int64_t wide = INT64_MAX / 4 + 1;
#define LAYER .embed_dim = wide, .num_heads = 1
    FAILS((void *)ct_mlp_new(context, (ct_mlp_opts){.dim = wide}), CT_ERR_MEMORY,
          "MLP: 4 dim overflows");
    FAILS((void *)ct_encoder_layer_new(context, (ct_layer_opts){LAYER}), CT_ERR_MEMORY,
          "EncoderLayer: 4 embed_dim overflows");
    FAILS((void *)ct_decoder_layer_new(context, (ct_layer_opts){LAYER}), CT_ERR_MEMORY,
          "DecoderLayer: 4 embed_dim overflows");
#undef LAYER
    FAILS((void *)ct_mlp_new(context, (ct_mlp_opts){.dim = wide - 1}), CT_ERR_MEMORY, "overflows");
}
END_TEST

/* Names of a caller's own ops are printed without their control characters. */
START_TEST(names_in_a_profile) {
    static const ct_op bell = {.name = "bell\a\x7f\tb", .forward = copied};
    char text[4096] = "";
    ck_assert(ct_profile_start(context));
    ct_tensor *x = of(CT_F32, CT_SHAPE(2));
    ck_assert_ptr_nonnull(ct_apply(&bell, &x, 1, NULL));
    ck_assert(ct_profile_stop(context));
    FILE *file = fmemopen(text, sizeof text, "w");
    ct_profile_print(context, file);
    fclose(file);
    ck_assert_msg(strstr(text, "bell???b") != NULL, "%s", text);
}
END_TEST

/* Each variable of the environment. An empty one counts as unset, and an invalid value is an
 * error. */
START_TEST(variables) {
    static const char *const wrong[] = {"0", "-1", "1025", "2x", "x", "99999999999999999999"};
    unsetenv("CT_NUM_THREADS"), unsetenv("CT_ISA"), unsetenv("CT_DEBUG");
    ct_context *usual = ct_context_new((ct_context_opts){.seed = 1});
    setenv("CT_NUM_THREADS", "", 1), setenv("CT_ISA", "", 1), setenv("CT_DEBUG", "", 1);
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1});
    ck_assert(ct_error(c) == CT_OK && ct_threads(c) == ct_threads(usual) && !c->debug);
    ck_assert_str_eq(ct_isa_name(c), ct_isa_name(usual));
    ct_context_free(c);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("CT_NUM_THREADS", wrong[i], 1);
        c = ct_context_new((ct_context_opts){.seed = 1});
        ck_assert_msg(ct_error(c) == CT_ERR_ARGUMENT && strstr(ct_error_message(c), wrong[i]) &&
                          strstr(ct_error_message(c), "is not a number from 1 to 1024"),
                      "%s: %s", wrong[i], ct_error_message(c));
        ct_context_free(c);
        c = ct_context_new((ct_context_opts){.seed = 1, .threads = 3}); /* not read then */
        ck_assert(ct_error(c) == CT_OK && ct_threads(c) == 3);
        ct_context_free(c);
    }
    setenv("CT_NUM_THREADS", "1024", 1), setenv("CT_ISA", "scalar", 1), setenv("CT_DEBUG", "1", 1);
    c = ct_context_new((ct_context_opts){.seed = 1});
    ck_assert(ct_error(c) == CT_OK && ct_threads(c) == 1024 && c->debug);
    ck_assert_str_eq(ct_isa_name(c), "scalar");
    ct_context_free(c);
    c = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .isa = ""});
    ck_assert(ct_error(c) == CT_ERR_ARGUMENT);
    ct_context_free(c);
    unsetenv("CT_NUM_THREADS"), unsetenv("CT_ISA"), unsetenv("CT_DEBUG");
    ct_context_free(usual);
}
END_TEST

/* Each element is printed in its own way, at both ends of the range without an exponent. */
START_TEST(printing) {
    const struct {
        ct_tensor *tensor;
        const char *text;
    } cases[] = {
        {NULL, "tensor(NULL)\n"},
        {ct_full(context, CT_F64, CT_SHAPE(1), 99999),
         "tensor([99999.0000], shape=(1), dtype=f64)\n"},
        {ct_full(context, CT_F64, CT_SHAPE(1), 1e5),
         "tensor([1.0000e+05], shape=(1), dtype=f64)\n"},
        {ct_full(context, CT_F64, CT_SHAPE(1), 1e-4), "tensor([0.0001], shape=(1), dtype=f64)\n"},
        {ct_full(context, CT_F64, CT_SHAPE(1), 9e-5),
         "tensor([9.0000e-05], shape=(1), dtype=f64)\n"},
        {F64(0, INFINITY), "tensor([0.0000,    inf], shape=(2), dtype=f64)\n"},
        {F64(1e-9, INFINITY, NAN),
         "tensor([1.0000e-09,        inf,        nan], shape=(3), dtype=f64)\n"},
        {F64(-1e6, -INFINITY), "tensor([-1.0000e+06,        -inf], shape=(2), dtype=f64)\n"},
        {of(CT_BOOL, CT_SHAPE(0, 2)), "tensor([], shape=(0, 2), dtype=bool)\n"},
        {BOOL(true, false), "tensor([ true, false], shape=(2), dtype=bool)\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128] = "";
        FILE *file = fmemopen(text, sizeof text, "w");
        ct_print(cases[i].tensor, file);
        fclose(file);
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

int main(void) {
    return run_tests("refused", open_context, close_context,
                     TESTS(TEST(wrapping), TEST(reading), TEST(ops_of_ones_own),
                           TEST(no_memory_for_the_inputs), TEST(inside_a_backward), TEST(scopes),
                           TEST(modules_that_are_too_wide), TEST(names_in_a_profile),
                           TEST(variables), TEST(printing)));
}
