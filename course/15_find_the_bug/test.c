/* Five ops of which the student names the mistake and mends it: the names against what was put in,
 * the ops against plain loops and their differences. */
#include "../course.h"
#include "exercise.h"

#include <string.h>

typedef struct {
    const char *name;
    const ct_op *op;
    ct_fn reference; /* the same function by plain loops */
    /* and inputs for which differences take too long */
    ct_tensor *in[3], *large[3];
    int n;
    mistake answer, right;
} program;

/* The evidence that the report would show for each mistake. */
static const char *const evidence[] = {
    [WRONG_SIGN] = "all analytic numbers would be -1 times the numeric ones",
    [COTANGENT_IGNORED] = "the analytic numbers would be the same for every cotangent",
    [ASSIGNED] = "what is used once would be right, and what is used several times wrong",
    [DERIVATIVE_AT_OUTPUT] = "the gradient would be right where x = y",
    [TAKEN_FOR_CONSTANT] = "a term would be missing, through which an element acts on others",
    [NOT_TRANSPOSED] = "numbers would arrive in other rows than they belong to",
    [WRONG_COUNT] = "all would be wrong by the same factor, a quotient of two counts",
    [SCALE_TWICE] = "all would be wrong by the same factor, the scale",
    [MASK_FORGOTTEN] = "there would be analytic numbers where the numeric ones are 0",
    [LAST_ROW_MISSED] = "the last row would be wrong, and no other",
};

static ct_tensor *apply(ct_tensor *const *in, int n, void *arg) {
    return ct_apply(arg, in, n, NULL);
}

/* Fails because there is no answer yet, and prints the checker's report. */
static void show_report(const program *p) {
    ct_gradcheck_result r =
        ct_gradcheck(apply, (void *)p->op, p->in, p->n, (ct_gradcheck_opts){.report = stdout});
    course_fail("the answer is not written yet: name %s_mistake and mend %s_backward. %s", p->name,
                p->name,
                r.ok ? "(The checker finds nothing wrong)" : "The checker's report is below");
}

static void check_name(const program *p) {
    if (p->answer == NOT_ANSWERED) show_report(p);
    if ((unsigned)p->answer > LAST_ROW_MISSED)
        course_fail("%s_mistake: %d is none of the mistakes in exercise.h", p->name,
                    (int)p->answer);
    if (p->answer != p->right)
        course_fail("%s_mistake: that is not it. With that mistake %s", p->name,
                    evidence[p->answer]);
}

static void check_mended(const program *p) {
    course_value("the forward, which was right", ct_apply(p->op, p->in, p->n, NULL),
                 p->reference(p->in, p->n, NULL), 1e-12);
    /* the last number of each row is the largest by far */
    ct_tensor *far[3], *last = ct_zeros(ct_context_of(p->in[0]), CT_F64, ct_shape_of(p->in[0]));
    const int64_t columns = ct_dim(last, -1);
    memcpy(far, p->in, sizeof far);
    for (int64_t e = columns - 1; e < ct_numel(last); e += columns) ct_data_f64(last)[e] = 2000;
    far[0] = ref_add(p->in[0], last);
    course_value("the forward, which was right, where the last number of each row is large",
                 ct_apply(p->op, far, p->n, NULL), p->reference(far, p->n, NULL), 1e-10);
    if (p->answer == NOT_ANSWERED &&
        !ct_gradcheck(apply, (void *)p->op, p->in, p->n, (ct_gradcheck_opts){0}).ok)
        show_report(p);
    course_own_forward(p->reference, NULL);
    course_gradient(p->name, p->op, NULL, p->in, p->n, (ct_gradcheck_opts){0});
    /* the op is passed as `arg`, which the reference does not read */
    course_gradient_as(p->name, apply, p->reference, (void *)p->op, p->large, p->n, 1e-9);
}

/* ---- the five ---- */

#define REFERENCE(name, ...)                                                                       \
    static ct_tensor *name##_by_reference(ct_tensor *const *in, int n, void *arg) {                \
        (void)n, (void)arg;                                                                        \
        return __VA_ARGS__;                                                                        \
    }
#define PROGRAM(op_name, inputs, mistake_it_had)                                                   \
    {.name = #op_name,                                                                             \
     .op = &op_name,                                                                               \
     .reference = op_name##_by_reference,                                                          \
     .n = inputs,                                                                                  \
     .answer = op_name##_mistake,                                                                  \
     .right = mistake_it_had}

REFERENCE(silu, ref_silu(in[0]))
static program silu_program(ct_context *context) {
    program p = PROGRAM(silu, 1, DERIVATIVE_AT_OUTPUT);
    p.in[0] = ref_scale(course_randn(context, CT_SHAPE(3, 4)), 2);
    p.large[0] = course_randn(context, CT_SHAPE(40000));
    return p;
}

REFERENCE(embedding, ref_index_select(in[0], 0, in[1]))
static program embedding_program(ct_context *context) {
    program p = PROGRAM(embedding, 2, ASSIGNED);
    p.in[0] = course_randn(context, CT_SHAPE(5, 3));
    /* row 2 is used three times, row 1 not at all */
    p.in[1] = ct_from_i64(context, CT_SHAPE(6), (int64_t[]){2, 0, 2, 4, 3, 2});
    p.large[0] = course_randn(context, CT_SHAPE(2000, 20));
    p.large[1] = ct_arange(context, CT_I64, 0, 2000, 1);
    return p;
}

REFERENCE(rms_norm, ref_rms_norm(in[0], in[1], 1e-6))
static program rms_norm_program(ct_context *context) {
    program p = PROGRAM(rms_norm, 2, TAKEN_FOR_CONSTANT);
    p.in[0] = course_randn(context, CT_SHAPE(3, 5));
    p.in[1] = course_randn(context, CT_SHAPE(5));
    p.large[0] = course_randn(context, CT_SHAPE(2, 20000));
    p.large[1] = course_randn(context, CT_SHAPE(20000));
    return p;
}

REFERENCE(cross_entropy, ref_cross_entropy(in[0], in[1], -100))
static program cross_entropy_program(ct_context *context) {
    program p = PROGRAM(cross_entropy, 2, WRONG_COUNT);
    p.in[0] = course_randn(context, CT_SHAPE(5, 4));
    /* two of five rows are ignored */
    p.in[1] = ct_from_i64(context, CT_SHAPE(5), (int64_t[]){3, -100, 0, 2, -100});
    p.large[0] = course_randn(context, CT_SHAPE(400, 100));
    p.large[1] = ct_full(context, CT_I64, CT_SHAPE(400), 7);
    return p;
}

static ct_tensor *batch(ct_tensor *x) { return ct_unsqueeze(x, 0); }
REFERENCE(causal_attention,
          ct_squeeze(ref_attention(batch(in[0]), batch(in[1]), batch(in[2]), NULL, true), 0))
static program causal_attention_program(ct_context *context) {
    program p = PROGRAM(causal_attention, 3, NOT_TRANSPOSED);
    for (int i = 0; i < 3; i++) {
        p.in[i] = course_randn(context, CT_SHAPE(4, 3));
        p.large[i] = course_randn(context, CT_SHAPE(128, 64));
    }
    return p;
}

#define TESTS(name)                                                                                \
    static void name##_named(ct_context *context) {                                                \
        program p = name##_program(context);                                                       \
        check_name(&p);                                                                            \
    }                                                                                              \
    static void name##_mended(ct_context *context) {                                               \
        program p = name##_program(context);                                                       \
        check_mended(&p);                                                                          \
    }
TESTS(silu)
TESTS(embedding)
TESTS(rms_norm)
TESTS(cross_entropy)
TESTS(causal_attention)

const course_test course_tests[] = {
    {"silu_named", 1, silu_named},
    {"silu_mended", 1, silu_mended},
    {"embedding_named", 1, embedding_named},
    {"embedding_mended", 1, embedding_mended},
    {"rms_norm_named", 1, rms_norm_named},
    {"rms_norm_mended", 1, rms_norm_mended},
    {"cross_entropy_named", 1, cross_entropy_named},
    {"cross_entropy_mended", 1, cross_entropy_mended},
    {"causal_attention_named", 1, causal_attention_named},
    {"causal_attention_mended", 1, causal_attention_mended},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
