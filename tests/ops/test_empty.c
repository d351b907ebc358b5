/* Empty tensors cost nothing: no loop runs over a large size when another size is 0, forward or
 * backward. Each call below returns at once, with a result or an error; a loop over 2^45 rows would
 * run into the test's time limit. */
#include "tests/support/op_check.h"

#include "tests/support/cases.h"

/* 2^45, or 2^21 if size_t has 32 bits. Products with the other sizes do not overflow, and a tensor
 * of this size that is not empty is too large for can_be_made(). */
static const int64_t HUGE_SIZE = (int64_t)1 << (sizeof(size_t) > 4 ? 45 : 21);

/* With a memory limit, so that a huge result that is not empty is CT_ERR_MEMORY even if the system
 * overcommits. */
static ct_context *limited(void) {
    return ct_context_new(
        (ct_context_opts){.seed = 1, .threads = 2, .memory_limit = (int64_t)1 << 22});
}

/* Is the shape empty or small enough to allocate, without overflow of its strides? */
static bool can_be_made(ct_shape shape) {
    double count = 1, stride = 1;
    for (int d = 0; d < shape.ndim; d++) {
        count *= (double)shape.dim[d];
        stride *= fmax(1, (double)shape.dim[d]);
    }
    return count <= 1 << 20 && stride <= 0x1p58;
}

static void exchange(case_input *input, int n, int64_t from, int64_t to) {
    for (int i = 0; i < n; i++)
        for (int d = 0; d < input[i].shape.ndim; d++)
            if (input[i].shape.dim[d] == from) input[i].shape.dim[d] = to;
}

/* Runs a list of inputs, forward and backward. False: the inputs could not be made, or the call
 * failed. */
static bool run(const case_line *line, const case_input *input, int n, ct_dtype dtype) {
    ct_context *c = limited();
    ct_tensor *in[CASE_INPUTS] = {0}, *y = NULL, *g;
    bool made = true;
    for (int i = 0; i < n; i++) made = made && can_be_made(input[i].shape);
    if (made && case_build(c, input, n, (case_build_opts){.dtype = dtype, .seed = 3}, in))
        y = case_run(c, line, in);
    if (y && ct_requires_grad(y)) {
        g = ct_zeros(c, ct_dtype_of(y), ct_shape_of(y));
        ck_assert_msg(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}) ||
                          ct_error(c) == CT_ERR_MEMORY,
                      "%s: %s", line->call, ct_error_message(c));
    }
    ct_context_free(c);
    return y != NULL;
}

/* Each line of ops.def on its lists of inputs. One size is 0 in every shape that has it, and
 * another is huge. */
START_TEST(ops) {
    const case_line *line = case_at(_i);
    for (int variant = 0; variant < case_variants(line); variant++) {
        case_input input[CASE_INPUTS];
        const int n = case_inputs(line, variant, 1, input);
        int64_t size[CASE_INPUTS * CT_MAX_DIMS];
        int sizes = 0;
        for (int i = 0; i < n; i++)
            for (int d = 0; d < input[i].shape.ndim; d++) {
                const int64_t s = input[i].shape.dim[d];
                bool known = s <= 1;
                for (int k = 0; k < sizes; k++) known = known || size[k] == s;
                if (!known) size[sizes++] = s;
            }
        for (int none = -1; none < sizes; none++)
            for (int huge = 0; huge < sizes; huge++) {
                if (none == huge) continue;
                case_inputs(line, variant, 1, input);
                exchange(input, n, size[huge], HUGE_SIZE);
                if (none >= 0) exchange(input, n, size[none], 0);
                run(line, input, n, variant % 2 ? CT_F64 : CT_F32);
            }
    }
}
END_TEST

/* Most lines have a list that runs, otherwise the test above would be empty. */
START_TEST(lists_run) {
    int ran = 0;
    for (int i = 0; i < case_count(); i++) {
        const case_line *line = case_at(i);
        bool any = false;
        for (int variant = 0; variant < case_variants(line) && !any; variant++)
            for (int64_t none = 2; none < 8 && !any; none++)
                for (int64_t huge = 2; huge < 8 && !any; huge++) {
                    case_input input[CASE_INPUTS];
                    const int n = case_inputs(line, variant, 1, input);
                    bool has[2] = {false, false};
                    for (int k = 0; k < n; k++)
                        for (int d = 0; d < input[k].shape.ndim; d++) {
                            has[0] = has[0] || input[k].shape.dim[d] == none;
                            has[1] = has[1] || input[k].shape.dim[d] == huge;
                        }
                    if (none == huge || !has[0] || !has[1]) continue;
                    exchange(input, n, huge, HUGE_SIZE);
                    exchange(input, n, none, 0);
                    any = run(line, input, n, CT_F64);
                }
        ran += any;
    }
    ck_assert_msg(ran * 3 >= case_count() * 2, "only %d of %d lines", ran, case_count());
}
END_TEST

/* Calls that ops.def does not have: weights of packed attention, sampling, printing, copying out,
 * filling. */
START_TEST(others) {
    ct_context *c = limited();
    ct_tensor *x = ct_zeros(c, CT_F32, CT_SHAPE(HUGE_SIZE, 0)),
              *y = ct_zeros(c, CT_F32, CT_SHAPE(0, HUGE_SIZE));
    ct_tensor *packed[] = {ct_zeros(c, CT_F32, CT_SHAPE(2, HUGE_SIZE, 0)),
                           ct_zeros(c, CT_F32, CT_SHAPE(0, HUGE_SIZE, 6))};
    for (int i = 0; i < 4; i++) {
        ct_packed_attention(packed[i / 2], 2,
                            (ct_attention_opts){.need_weights = true, .mean_weights = i % 2});
        ck_assert(ct_error(c) == CT_OK || ct_error(c) == CT_ERR_MEMORY);
        ct_error_clear(c);
    }
    int64_t none;
    ck_assert(ct_sample(y, (ct_sample_opts){0}, &none, 0) || ct_error(c) == CT_ERR_MEMORY);
    ct_error_clear(c);
    FILE *file = fopen("/dev/null", "w");
    ct_print(x, file), ct_print(y, file), ct_print(ct_transpose(ct_unsqueeze(x, 0), 0, 2), file);
    fclose(file);
    ck_assert(ct_to_f32(x, NULL, 0) && ct_to_f32(ct_transpose(y, 0, 1), NULL, 0));
    ck_assert(ct_init_xavier_uniform(x, 1) && ct_init_kaiming_uniform(y, 1) &&
              ct_init_normal(x, 0, 1) && ct_init_constant(y, 1));
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
    ct_context_free(c);
}
END_TEST

int main(void) {
    return run_cases("empty tensors", CASES({.name = "empty",
                                             .timeout = 20,
                                             .tests = TESTS(LOOP(ops, case_count()),
                                                            TEST(lists_run), TEST(others))}));
}
