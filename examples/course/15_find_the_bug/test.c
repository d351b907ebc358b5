/* Five ops of which the student names the mistake and mends it: the names against what was put in,
 * the ops against the library's and against differences. */
#include "../course.h"
#include "exercise.h"

typedef struct {
    const char *name;
    const ct_op *op;
    ct_tensor *in[3], *expected;
    int n;
    mistake answer, right;
} program;

/* What the report would show of each mistake. */
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

/* Nothing is answered: the checker's report is all there is to say. */
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
    course_value("the forward, which was right", ct_apply(p->op, p->in, p->n, NULL), p->expected,
                 1e-12);
    if (p->answer == NOT_ANSWERED &&
        !ct_gradcheck(apply, (void *)p->op, p->in, p->n, (ct_gradcheck_opts){0}).ok)
        show_report(p);
    course_gradient(p->name, p->op, NULL, p->in, p->n, (ct_gradcheck_opts){0});
}

/* ---- the five ---- */

static program silu_program(ct_context *context) {
    program p = {
        .name = "silu", .op = &silu, .n = 1, .answer = silu_mistake, .right = DERIVATIVE_AT_OUTPUT};
    p.in[0] = ct_scale(course_randn(context, CT_SHAPE(3, 4)), 2);
    p.expected = ct_silu(p.in[0]);
    return p;
}

/* Row 2 is used three times, row 1 not at all. */
static program embedding_program(ct_context *context) {
    program p = {.name = "embedding",
                 .op = &embedding,
                 .n = 2,
                 .answer = embedding_mistake,
                 .right = ASSIGNED};
    p.in[0] = course_randn(context, CT_SHAPE(5, 3));
    p.in[1] = ct_from_i64(context, CT_SHAPE(6), (int64_t[]){2, 0, 2, 4, 3, 2});
    p.expected = ct_index_select(p.in[0], 0, p.in[1]);
    return p;
}

static program rms_norm_program(ct_context *context) {
    program p = {.name = "rms_norm",
                 .op = &rms_norm,
                 .n = 2,
                 .answer = rms_norm_mistake,
                 .right = TAKEN_FOR_CONSTANT};
    p.in[0] = course_randn(context, CT_SHAPE(3, 5)), p.in[1] = course_randn(context, CT_SHAPE(5));
    p.expected = ct_rms_norm(p.in[0], p.in[1], 1e-6);
    return p;
}

/* Two of five rows are ignored. */
static program cross_entropy_program(ct_context *context) {
    program p = {.name = "cross_entropy",
                 .op = &cross_entropy,
                 .n = 2,
                 .answer = cross_entropy_mistake,
                 .right = WRONG_COUNT};
    p.in[0] = course_randn(context, CT_SHAPE(5, 4));
    p.in[1] = ct_from_i64(context, CT_SHAPE(5), (int64_t[]){3, -100, 0, 2, -100});
    p.expected = ct_cross_entropy(p.in[0], p.in[1], (ct_cross_entropy_opts){0});
    return p;
}

static program causal_attention_program(ct_context *context) {
    program p = {.name = "causal_attention",
                 .op = &causal_attention,
                 .n = 3,
                 .answer = causal_attention_mistake,
                 .right = NOT_TRANSPOSED};
    ct_tensor *head[3];
    for (int i = 0; i < 3; i++) {
        p.in[i] = course_randn(context, CT_SHAPE(4, 3));
        head[i] = ct_reshape(p.in[i], CT_SHAPE(1, 1, 4, 3));
    }
    p.expected =
        ct_reshape(ct_attention(head[0], head[1], head[2], (ct_attention_opts){.causal = true}).out,
                   CT_SHAPE(4, 3));
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
