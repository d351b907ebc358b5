/* Ops whose backward has one mistake each, and the diagnosis that gradcheck must give. Every op is
 * also tested with a correct backward, where gradcheck must find nothing. */
#include "tests/support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cotangent/cotangent.h>

#include "wrong_ops.h"

/* ---- an op of f64 from two functions on its numbers ---- */

typedef struct {
    const char *name;
    ct_mistake mistake;
    const char *words; /* in the diagnosis; NULL: any */
    ct_shape in[2], out;
    work *forward, *backward;
} wrong_op;

static ct_context *context;

static numbers of(const ct_call *c) {
    numbers s = {.n = ct_numel(c->in[0])};
    s.columns = ct_ndim(c->in[0]) ? ct_dim(c->in[0], -1) : 1;
    s.rows = s.n / s.columns;
    for (int i = 0; i < c->n; i++) s.x[i] = ct_data_f64(c->in[i]);
    return s;
}

static ct_tensor *forward(ct_call *c) {
    const wrong_op *op = *(const wrong_op *const *)c->attrs;
    numbers s = of(c);
    ct_tensor *y = ct_zeros(c->context, CT_F64, op->out);
    s.y = ct_data_f64(y), s.m = ct_numel(y);
    op->forward(&s);
    return y;
}

static bool backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    ct_tensor *g = cotangents[0];
    const wrong_op *op = *(const wrong_op *const *)c->attrs;
    numbers s = of(c);
    s.y = ct_data_f64(c->out), s.g = ct_data_f64(g), s.m = ct_numel(g);
    for (int i = 0; i < c->n; i++) {
        grad[i] = ct_zeros(c->context, CT_F64, ct_shape_of(c->in[i]));
        s.dx[i] = ct_data_f64(grad[i]);
    }
    op->backward(&s);
    return true;
}

static const ct_op user_op = {
    .name = "user", .attrs_size = sizeof(wrong_op *), .forward = forward, .backward = backward};

static ct_tensor *apply(ct_tensor *const *in, int n, void *arg) {
    return ct_apply(&user_op, in, n, &arg);
}

#define SHAPE2                                                                                     \
    {                                                                                              \
        .ndim = 2, .dim = { 3, 5 }                                                                 \
    }
#define WIDE                                                                                       \
    {                                                                                              \
        .ndim = 2, .dim = { 3, 6 }                                                                 \
    }
#define SQUARE                                                                                     \
    {                                                                                              \
        .ndim = 2, .dim = { 4, 4 }                                                                 \
    }
#define FLAT(n)                                                                                    \
    {                                                                                              \
        .ndim = 1, .dim = { n }                                                                    \
    }
#define CUBE                                                                                       \
    {                                                                                              \
        .ndim = 3, .dim = { 2, 3, 4 }                                                              \
    }
#define NONE        {.ndim = -1}
#define SAME(shape) {shape, NONE}, shape
#define RIGHT       CT_MISTAKE_NONE, NULL

static const wrong_op ops[] = {
    {"square", RIGHT, SAME(SHAPE2), square, square_right},
    {"triple", RIGHT, SAME(FLAT(7)), triple, triple_right},
    {"relu", RIGHT, SAME(SHAPE2), relu, relu_right},
    {"dropout", RIGHT, SAME(SHAPE2), dropout, dropout_right},
    {"silu", RIGHT, SAME(SHAPE2), silu, silu_right},
    {"tanh", RIGHT, SAME(SHAPE2), tangent, tangent_right},
    {"mean", RIGHT, {SHAPE2, NONE}, {.ndim = 0}, mean, mean_right},
    {"scaled", RIGHT, SAME(SHAPE2), scaled, scaled_right},
    {"squares", RIGHT, {SHAPE2, NONE}, {.ndim = 0}, squares, squares_right},
    {"softmax", RIGHT, SAME(SHAPE2), softmax, softmax_right},
    {"cross-entropy", RIGHT, {SHAPE2, NONE}, {.ndim = 0}, cross_entropy, cross_entropy_right},
    {"layer norm", RIGHT, SAME(SHAPE2), layer_norm, layer_norm_right},
    {"broadcast", RIGHT, {SHAPE2, FLAT(5)}, SHAPE2, times_row, times_row_right},
    {"softmax times a matrix", RIGHT, {SHAPE2, {2, {5, 2}}}, {2, {3, 2}}, mixture, mixture_right},
    {"softmax times a row",
     RIGHT,
     {SHAPE2, FLAT(5)},
     SHAPE2,
     softmax_times_row,
     softmax_times_row_right},
    {"product", RIGHT, {{2, {3, K}}, {2, {K, K}}}, {2, {3, K}}, product, product_right},
    {"shared matrix", RIGHT, {{3, {3, 2, 2}}, {2, {2, 2}}}, {3, {3, 2, 2}}, shared, shared_right},
    {"x x^T", RIGHT, {{2, {3, K}}, NONE}, {2, {3, 3}}, gram, gram_right},
    {"bend", RIGHT, SAME(SHAPE2), bend, bend_right},
    {"length", RIGHT, {SHAPE2, NONE}, {.ndim = 0}, length, length_right},
    {"rows", RIGHT, {SQUARE, NONE}, {2, {6, 4}}, rows_of, rows_of_right},
    {"leaky", RIGHT, SAME(SHAPE2), leaky, leaky_right},
    {"labelled", RIGHT, {SHAPE2, SHAPE2}, SHAPE2, labelled, labelled_right},
    {"row squares", RIGHT, {SQUARE, NONE}, FLAT(4), row_squares, row_squares_right},
    {"turned", RIGHT, SAME(SQUARE), turned, turned_right},
    {"forms", RIGHT, {{2, {3, K}}, {2, {K, K}}}, FLAT(3), forms, forms_right},

    {"sign", CT_MISTAKE_SIGN, "sign", SAME(SHAPE2), square, square_sign},
    {"factor 2", CT_MISTAKE_FACTOR, "is 2 times", SAME(SHAPE2), square, square_twice},
    {"factor -1/10", CT_MISTAKE_FACTOR,
     "1/10 of what it must be: a factor of 10 is missing, with the sign", SAME(SHAPE2), square,
     square_tenth},
    {"mean without 1/N",
     CT_MISTAKE_FACTOR,
     "15 times what it must be: a factor of 15 too many, perhaps its number of elements (15)",
     {SHAPE2, NONE},
     {.ndim = 0},
     mean,
     mean_undivided},
    {"without 1/sqrt(d)", CT_MISTAKE_FACTOR,
     "2.23607 times what it must be, perhaps the root of the size of its dim 1 (5)", SAME(SHAPE2),
     scaled, scaled_unscaled},
    {"mean over a broadcast",
     CT_MISTAKE_FACTOR,
     "it is 1/3 of what it must be: a factor of 3 is missing, perhaps one over the size of the "
     "output's dim 0 (3)",
     {SHAPE2, FLAT(5)},
     SHAPE2,
     times_row,
     times_row_averaged},
    {"cross-entropy without 1/N",
     CT_MISTAKE_FACTOR,
     "3 times what it must be: a factor of 3 too many, perhaps the size of its dim 0 (3)",
     {SHAPE2, NONE},
     {.ndim = 0},
     cross_entropy,
     cross_entropy_summed},
    {"chain rule without the inside", CT_MISTAKE_CHAIN, "passed on times 1", SAME(SHAPE2), square,
     square_handed_on},
    {"the other operand forgotten",
     CT_MISTAKE_CHAIN,
     "input 1 (5): the local derivative is missing",
     {SHAPE2, FLAT(5)},
     SHAPE2,
     times_row,
     times_row_handed_on},
    {"the row forgotten behind a softmax",
     CT_MISTAKE_CHAIN,
     "is missing: input 1",
     {SHAPE2, FLAT(5)},
     SHAPE2,
     softmax_times_row,
     softmax_times_row_without_it},
    {"a power too low", CT_MISTAKE_CHAIN, "is missing: the input", SAME(SHAPE2), cube, cube_less},
    {"a power of three too high", CT_MISTAKE_CHAIN, "too many: the output", SAME(SHAPE2), cube,
     cube_more},
    {"zero", CT_MISTAKE_ZERO, "input 0 (3, 5): its gradient is zero", SAME(SHAPE2), square,
     square_zero},
    {"zero for one input",
     CT_MISTAKE_ZERO,
     "input 1 (5): its gradient is zero",
     {SHAPE2, FLAT(5)},
     SHAPE2,
     times_row,
     times_row_zero},
    {"only the last of a batch",
     CT_MISTAKE_SUM,
     "the output's dim 0 is missing: only the last index",
     {{3, {3, 2, 2}}, {2, {2, 2}}},
     {3, {3, 2, 2}},
     shared,
     shared_last},
    {"no sum over a broadcast",
     CT_MISTAKE_SUM,
     "the output's dim 0 is missing",
     {SHAPE2, FLAT(5)},
     SHAPE2,
     times_row,
     times_row_unsummed},
    {"no sum over one of two",
     CT_MISTAKE_SUM,
     "the output's dim 2 is missing",
     {CUBE, {2, {3, 1}}},
     CUBE,
     times_part,
     times_part_half},
    {"sum over the wrong dim",
     CT_MISTAKE_SUM,
     "wrong dims",
     {SQUARE, FLAT(4)},
     SQUARE,
     times_row,
     times_row_by_rows},
    {"sum of other groups",
     CT_MISTAKE_SUM,
     "wrong dims",
     {CUBE, {2, {3, 1}}},
     CUBE,
     times_part,
     times_part_regrouped},
    {"sum over too much", CT_MISTAKE_SUM, "too many dims", SAME(SHAPE2), softmax, softmax_sums_all},
    {"softmax for a sigmoid", CT_MISTAKE_SUM, "only the diagonal", SAME(SHAPE2), softmax,
     softmax_diagonal},
    {"transposed", CT_MISTAKE_TRANSPOSED, "the gradient is transposed", SAME(SHAPE2), square,
     square_transposed},
    {"transposed, square", CT_MISTAKE_TRANSPOSED, "the gradient is transposed", SAME(SQUARE),
     square, square_transposed},
    {"cotangent transposed", CT_MISTAKE_TRANSPOSED, "the cotangent is read transposed",
     SAME(SQUARE), square, square_reads_transposed},
    {"operand not transposed",
     CT_MISTAKE_TRANSPOSED,
     "output's dim 1 and the input's dim 1",
     {{2, {3, K}}, {2, {K, K}}},
     {2, {3, K}},
     product,
     product_untransposed},
    {"permuted", CT_MISTAKE_PERMUTED, "order 2, 0, 1", SAME(CUBE), square, square_permuted},
    {"reversed", CT_MISTAKE_PERMUTED, "the gradient is in reversed order", SAME(FLAT(7)), square,
     square_reversed},
    {"shifted", CT_MISTAKE_PERMUTED, "the gradient is shifted by 1", SAME(FLAT(7)), square,
     square_shifted},
    {"cotangent shifted", CT_MISTAKE_PERMUTED, "the cotangent is read shifted by", SAME(FLAT(7)),
     square, square_cotangent_shifted},
    {"two swapped", CT_MISTAKE_PERMUTED, "element 1 has the numbers of element 4", SAME(FLAT(7)),
     square, square_swapped},
    {"index assigned",
     CT_MISTAKE_ASSIGNED,
     "repeated index",
     {SQUARE, NONE},
     {2, {6, 4}},
     rows_of,
     rows_of_assigned},
    {"broadcast assigned",
     CT_MISTAKE_ASSIGNED,
     "broadcast row",
     {SHAPE2, FLAT(5)},
     SHAPE2,
     times_row,
     times_row_assigned},
    {"uniform", CT_MISTAKE_UNIFORM, "all of the cotangent is the same", SAME(FLAT(9)), triple,
     triple_of_mean},
    {"cotangent ignored", CT_MISTAKE_COTANGENT, "every one, and right only for ones", SAME(SHAPE2),
     square, square_ignoring},
    {"a loss ignores it",
     CT_MISTAKE_COTANGENT,
     "every one, and right only for ones",
     {SHAPE2, NONE},
     {.ndim = 0},
     squares,
     square_ignoring},
    {"something added", CT_MISTAKE_COTANGENT, "zeros", SAME(SHAPE2), square, square_offset},
    {"not linear", CT_MISTAKE_COTANGENT, "linearly", SAME(SHAPE2), square, square_nonlinear},
    {"softmax without its sum", CT_MISTAKE_TERM,
     "the sum over dim 1 of the cotangent times the output, times the output", SAME(SHAPE2),
     softmax, softmax_sumless},
    {"softmax times a matrix without its row sum",
     CT_MISTAKE_TERM,
     "the output, times one number for each row along dim 1",
     {SHAPE2, {2, {5, 2}}},
     {2, {3, 2}},
     mixture,
     mixture_sumless},
    {"layer norm without the mean", CT_MISTAKE_TERM, "the sum over dim 1 of the cotangent",
     SAME(SHAPE2), layer_norm, layer_norm_meanless},
    {"layer norm without the other", CT_MISTAKE_TERM, "times the output, times the output",
     SAME(SHAPE2), layer_norm, layer_norm_projectionless},
    {"layer norm without both", CT_MISTAKE_TERM, "two terms", SAME(SHAPE2), layer_norm,
     layer_norm_bare},
    {"cross-entropy without target",
     CT_MISTAKE_TERM,
     "one element of each row along dim 1",
     {SHAPE2, NONE},
     {.ndim = 0},
     cross_entropy,
     cross_entropy_targetless},
    {"cross-entropy of more rows without target",
     CT_MISTAKE_TERM,
     "one element of each row along dim 1",
     {{2, {4, 5}}, NONE},
     {.ndim = 0},
     cross_entropy,
     cross_entropy_targetless},
    {"product rule, one half", CT_MISTAKE_PRODUCT_RULE, "half", SAME(SHAPE2), silu,
     silu_first_half},
    {"product rule, the other", CT_MISTAKE_PRODUCT_RULE, "the factor that is linear", SAME(SHAPE2),
     silu, silu_second_half},
    {"product rule of matrices",
     CT_MISTAKE_PRODUCT_RULE,
     "half",
     {{2, {3, K}}, NONE},
     {2, {3, 3}},
     gram,
     gram_half},
    {"relu without its mask", CT_MISTAKE_MASK, "mask", SAME(SHAPE2), relu, relu_maskless},
    {"dropout without its mask", CT_MISTAKE_MASK, "5 of 15 elements", SAME(SHAPE2), dropout,
     dropout_maskless},
    {"dropout without anything", CT_MISTAKE_MASK, "0.7 times", SAME(SHAPE2), dropout,
     dropout_nothing},
    {"dropout without its scale", CT_MISTAKE_SCALE, "1.42857 (as of a dropout), is forgotten",
     SAME(SHAPE2), dropout, dropout_scaleless},
    {"dropout's scale twice", CT_MISTAKE_SCALE, "applied twice", SAME(SHAPE2), dropout,
     dropout_twice},
    {"only the first block", CT_MISTAKE_EDGES, "from index 8 on", SAME(FLAT(21)), square,
     square_first},
    {"tail", CT_MISTAKE_EDGES,
     "only from index 16 on: the remainder of 21 behind whole blocks of 8 or 16", SAME(FLAT(21)),
     square, square_tail},
    {"tail of rows", CT_MISTAKE_EDGES, "along dim 1 is wrong only from index 4 on", SAME(WIDE),
     square, square_row_tail},
    /* a single index is no pattern of blocks */
    {"last of rows", CT_MISTAKE_EDGES, "along dim 1 is wrong only at the last index", SAME(SHAPE2),
     square, square_row_tail},
    {"only the first row", CT_MISTAKE_EDGES, "only index 0 along dim 0 has its gradient",
     SAME(SHAPE2), square, square_first_row},
    {"last", CT_MISTAKE_EDGES, "only at the last index", SAME(FLAT(12)), square, square_last},
    {"first of each four", CT_MISTAKE_EDGES, "first index of each block of 4", SAME(FLAT(12)),
     square, square_every},
    {"output for input", CT_MISTAKE_FORWARD_VALUE, "the output is used where the input is meant",
     SAME(SHAPE2), silu, silu_at_output},
    {"input for output", CT_MISTAKE_FORWARD_VALUE, "the input is used where the output is meant",
     SAME(SHAPE2), tangent, tangent_at_input},
    {"in f32", CT_MISTAKE_ROUNDING, "size of f32's rounding", SAME(SHAPE2), square, square_in_f32},
    {"clipped", CT_MISTAKE_COTANGENT, "a large one gives too little", SAME(SHAPE2), square,
     square_clipped},
    {"half above a threshold", CT_MISTAKE_THRESHOLD, "the input is above a threshold between",
     SAME(SHAPE2), square, square_above},
    {"rows", CT_MISTAKE_ROWS, "each index along dim 0 of the input is off by a factor of its own",
     SAME(SHAPE2), square, square_by_uneven_rows},
    {"a factor that depends on the place", CT_MISTAKE_ROWS,
     "along dim 0 of the input it is 1 + 1 times the index", SAME(SHAPE2), square, square_by_rows},
    {"both branches", CT_MISTAKE_THRESHOLD, "both branches are wrong: 0.1 times", SAME(SHAPE2),
     leaky, leaky_swapped},
    {"another target",
     CT_MISTAKE_PERMUTED,
     "one element of each row along dim 1 (the target's?) reaches another",
     {SHAPE2, NONE},
     {.ndim = 0},
     cross_entropy,
     cross_entropy_other_target},
    {"e^x for its softmax",
     CT_MISTAKE_TERM,
     "times one number for each row along dim 1",
     {SHAPE2, NONE},
     {.ndim = 0},
     cross_entropy,
     cross_entropy_exp},
    {"a factor in one branch",
     CT_MISTAKE_CHAIN,
     "is missing: input 1, at 7 of 15 elements",
     {SHAPE2, SHAPE2},
     SHAPE2,
     labelled,
     labelled_without_w},
    {"the op left out", CT_MISTAKE_CHAIN, "as if the op were not there", SAME(SQUARE), turned,
     turned_left_out},
    {"a row's element by the number of the row",
     CT_MISTAKE_PERMUTED,
     "an element of input 1 is read at the index along dim 0 of the output",
     {SQUARE, FLAT(4)},
     SQUARE,
     times_row,
     times_row_of_rows},
    {"x for its softmax",
     CT_MISTAKE_CHAIN,
     "multiplied by input 0 itself, where a function of it",
     {SHAPE2, FLAT(5)},
     SHAPE2,
     softmax_times_row,
     softmax_times_row_of_x},
    {"the cotangent by columns",
     CT_MISTAKE_SUM,
     "index along dim 1, where that along dim 0 is meant",
     {SQUARE, NONE},
     FLAT(4),
     row_squares,
     row_squares_by_columns},
    {"the first of a batch",
     CT_MISTAKE_PERMUTED,
     "input 0 is read at index 0 of its dim 0, whatever the index",
     {{3, {3, 2, 2}}, {2, {2, 2}}},
     {3, {3, 2, 2}},
     shared,
     shared_of_first},
    {"another angle", CT_MISTAKE_FORMULA, "an angle, as of a rotary embedding", SAME(SQUARE),
     turned, turned_otherwise},
    {"W for W transposed in a form",
     CT_MISTAKE_TRANSPOSED,
     "backward is right for input 1 with dims 0 and 1 exchanged",
     {{2, {3, K}}, {2, {K, K}}},
     FLAT(3),
     forms,
     forms_untransposed},
    {"derivative shifted", CT_MISTAKE_PERMUTED, "the local derivative is shifted by 1 along dim 0",
     SAME(FLAT(9)), square, square_beside},
    {"residual forgotten", CT_MISTAKE_RESIDUAL, "the error is the cotangent itself", SAME(SHAPE2),
     bend, bend_without_x},
    {"another constant", CT_MISTAKE_FORMULA, "depends on the input's element", SAME(SHAPE2), bend,
     bend_slower},
    {"norm without the norm",
     CT_MISTAKE_CHAIN,
     "times what it must be: the output",
     {SHAPE2, NONE},
     {.ndim = 0},
     length,
     length_undivided},
    {"n for n - 1",
     CT_MISTAKE_FACTOR,
     ", perhaps n / (n - 1) upside down with n = 15",
     {SHAPE2, NONE},
     {.ndim = 0},
     spread_of,
     spread_over_n},
    {"exchanged",
     CT_MISTAKE_EXCHANGED,
     "the gradients of inputs",
     {SHAPE2, SHAPE2},
     SHAPE2,
     times,
     times_exchanged},
    {"the wrong operand",
     CT_MISTAKE_OPERAND,
     "input 0 is used where input 1 is meant",
     {SHAPE2, SHAPE2},
     SHAPE2,
     times,
     times_itself},
    {"kernel reversed",
     CT_MISTAKE_REVERSED,
     "the kernel is reversed along dim 0",
     {FLAT(9), FLAT(3)},
     FLAT(7),
     filter,
     filter_reversed},
    {"forward in place of backward", CT_MISTAKE_TRANSPOSED, "the same way as the forward",
     SAME(FLAT(6)), steps, steps_same_way},
    {"one element", CT_MISTAKE_CHAIN, "0.666667 times input 0 to the power -1", SAME(FLAT(1)),
     cubic, cubic_square},
    {"not finite", CT_MISTAKE_NOT_FINITE, "gradient is not finite", SAME(SHAPE2), square,
     square_nan},
    {"nonsense", CT_MISTAKE_UNKNOWN, "no known mistake", SAME(SHAPE2), square, square_random},
};

static int inputs(const wrong_op *op, ct_tensor *in[2]) {
    int n = 0;
    for (; n < 2 && op->in[n].ndim >= 0; n++) in[n] = ct_randn(context, CT_F64, op->in[n]);
    return n;
}

START_TEST(the_diagnosis_is_made) {
    const wrong_op *op = &ops[_i];
    ct_tensor *in[2];
    const int n = inputs(op, in);
    FILE *report =
        getenv("GRADCHECK_REPORT") ? stderr : NULL; /* GRADCHECK_REPORT=1 prints every report */
    if (report) fprintf(report, "\n-- %s\n", op->name);
    for (int seed = 0; seed < 3; seed++) {
        ct_gradcheck_result r = ct_gradcheck(
            apply, (void *)op, in, n,
            (ct_gradcheck_opts){.seed = (uint64_t)seed, .report = seed ? NULL : report});
        ck_assert_msg(ct_error(context) == CT_OK, "%s: %s", op->name, ct_error_message(context));
        ck_assert_msg(r.ran && r.ok == (op->mistake == CT_MISTAKE_NONE), "%s: %s", op->name,
                      r.diagnosis);
        ck_assert_msg(r.mistake == op->mistake, "%s: %s, not %s: %s", op->name,
                      ct_mistake_name(r.mistake), ct_mistake_name(op->mistake), r.diagnosis);
        ck_assert_msg(!op->words || strstr(r.diagnosis, op->words),
                      "%s: \"%s\" does not say \"%s\"", op->name, r.diagnosis, op->words);
        ck_assert((r.wrong > 0) == (op->mistake != CT_MISTAKE_NONE) &&
                  (*r.diagnosis != 0) == !r.ok);
    }
}
END_TEST

/* Mistakes that are visible without single elements are found in fast mode too, and correct ops
 * pass. */
START_TEST(fast_mode_finds_them_too) {
    const wrong_op *op = &ops[_i];
    ct_tensor *in[2];
    const int n = inputs(op, in);
    ct_gradcheck_result r =
        ct_gradcheck(apply, (void *)op, in, n, (ct_gradcheck_opts){.fast = true});
    /* f32's rounding is not looked for in directions */
    ck_assert_msg(
        r.ran && r.ok == (op->mistake == CT_MISTAKE_NONE || op->mistake == CT_MISTAKE_ROUNDING),
        "%s: %s", op->name, r.diagnosis);
    if (r.ok) return;
    switch (op->mistake) {
    case CT_MISTAKE_SIGN:
    case CT_MISTAKE_FACTOR:
    case CT_MISTAKE_ZERO:
    case CT_MISTAKE_UNIFORM:
    case CT_MISTAKE_NOT_FINITE:
        ck_assert_msg(r.mistake == op->mistake, "%s: %s", op->name, r.diagnosis);
        break;
    default:
        ck_assert_msg(r.mistake != CT_MISTAKE_SIGN && r.mistake != CT_MISTAKE_ZERO, "%s: %s",
                      op->name, r.diagnosis);
    }
    ck_assert(r.ok || r.worst[0].index == -1);
}
END_TEST

/* docs/gradcheck.md has a row for each diagnosis, and its example is the actual report. */
START_TEST(the_page_is_up_to_date) {
    static char page[1 << 16], line[512];
    FILE *file = fopen("docs/gradcheck.md", "r");
    if (!file) return; /* run from elsewhere */
    page[fread(page, 1, sizeof page - 1, file)] = 0;
    fclose(file);
    const char *table = strstr(page, "## The diagnoses");
    ck_assert_ptr_nonnull(table);
    for (int m = CT_MISTAKE_NOT_FINITE; m <= CT_MISTAKE_WANTS; m++)
        ck_assert_msg(strstr(table, ct_mistake_name((ct_mistake)m)) != NULL, "%s",
                      ct_mistake_name((ct_mistake)m));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(ops[i].name, "softmax without its sum")) continue;
        ct_tensor *in[2];
        const int n = inputs(&ops[i], in);
        ct_gradcheck_result r = ct_gradcheck(apply, (void *)&ops[i], in, n, (ct_gradcheck_opts){0});
        snprintf(line, sizeof line, "gradcheck: wrong: %s\n", r.diagnosis);
        ck_assert_msg(strstr(page, line) != NULL, "%s", line);
    }
}
END_TEST

static void setup(void) { context = ct_context_new((ct_context_opts){.seed = 12, .threads = 2}); }
static void teardown(void) { ct_context_free(context); }

int main(void) {
    const int count = (int)(sizeof ops / sizeof *ops);
    return run_tests("gradcheck_mistakes", setup, teardown,
                     TESTS(LOOP(the_diagnosis_is_made, count),
                           LOOP(fast_mode_finds_them_too, count), TEST(the_page_is_up_to_date)));
}
