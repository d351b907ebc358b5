/* The functions of examples/web/gradcheck.html: three ops whose backward the page breaks, and the
 * checker's page about it. */
#include <cotangent/cotangent.h>
#include <math.h>
#include <stdlib.h>

#define EXPORT(type, name, ...)                                                                    \
    __attribute__((export_name(#name))) type name(__VA_ARGS__);                                    \
    type name(__VA_ARGS__)

/* Mistake number `bit` of an op is ticked in the page: the wrong expression stands in place of the
 * right one. The page shows the lines of the backward with the one that runs. */
static unsigned mistakes;
#define BREAK(bit, right, wrong) (mistakes >> (bit) & 1 ? (wrong) : (right))

#define EPS 1e-5

/* y = softmax(x) along each row;  dx = y (g - sum(y g)) */
static ct_tensor *softmax_forward(ct_call *c) { return ct_softmax(c->in[0], -1); }

static bool softmax_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *y = c->out;
    ct_tensor *yg = ct_mul(y, g[0]);
    ct_tensor *sum = ct_sum(yg, CT_DIMS(BREAK(0, -1, 0)), true);
    ct_tensor *dx = BREAK(1, ct_sub(yg, ct_mul(y, sum)), yg);
    grad[0] = BREAK(2, dx, ct_neg(dx));
    return grad[0] != NULL;
}

/* y = n w + b,  n = (x - mean) r,  r = 1 / sqrt(var + eps)
 * dx = r (u - mean(u) - n mean(u n)),  u = g w;  dw = sum(g n),  db = sum(g) over the rows */
static ct_tensor *layer_norm_forward(ct_call *c) {
    return ct_layer_norm(c->in[0], c->in[1], c->in[2], EPS);
}

static bool layer_norm_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *x = c->in[0], *w = c->in[1];
    ct_tensor *centred = ct_sub(x, ct_mean(x, CT_DIMS(-1), true));
    ct_tensor *var = ct_mean(ct_mul(centred, centred), CT_DIMS(-1), true);
    ct_tensor *r = ct_pow(ct_add_scalar(var, EPS), -0.5);
    ct_tensor *n = ct_mul(centred, r);
    ct_tensor *u = BREAK(0, ct_mul(g[0], w), g[0]);
    ct_tensor *d = BREAK(1, ct_sub(u, ct_mean(u, CT_DIMS(-1), true)), u);
    ct_tensor *along = ct_mean(ct_mul(u, n), CT_DIMS(-1), true);
    d = BREAK(2, ct_sub(d, ct_mul(n, along)), d);
    grad[0] = BREAK(3, ct_mul(d, r), d);
    ct_tensor *gn = ct_mul(g[0], n);
    grad[1] = BREAK(4, ct_sum(gn, CT_DIMS(0), false), ct_mean(gn, CT_DIMS(0), false));
    grad[2] = ct_sum(g[0], CT_DIMS(0), false);
    return grad[0] && grad[1] && grad[2];
}

/* P = softmax(q k^T / sqrt(d)), causal */
static ct_tensor *attention_weights(const ct_call *c, bool causal) {
    const int64_t t = ct_dim(c->in[0], 0), d = ct_dim(c->in[0], 1);
    ct_tensor *scores = ct_matmul(c->in[0], ct_transpose(c->in[1], 0, 1));
    ct_tensor *mask = causal ? ct_causal_mask(c->context, t, t) : NULL;
    return ct_masked_softmax(ct_scale(scores, 1 / sqrt((double)d)), mask, -1);
}

/* y = P v
 * dP = g v^T,  dS = P (dP - sum(P dP));  dq = dS k / sqrt(d),  dk = dS^T q / sqrt(d),  dv = P^T g
 */
static ct_tensor *attention_forward(ct_call *c) {
    return ct_matmul(attention_weights(c, true), c->in[2]);
}

static bool attention_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2];
    ct_tensor *p = attention_weights(c, BREAK(0, true, false));
    ct_tensor *dp = ct_matmul(g[0], ct_transpose(v, 0, 1));
    ct_tensor *sum = ct_sum(ct_mul(p, dp), CT_DIMS(-1), true);
    ct_tensor *ds = ct_mul(p, BREAK(1, ct_sub(dp, sum), dp));
    const double scale = BREAK(2, 1 / sqrt((double)ct_dim(q, 1)), 1);
    grad[0] = ct_scale(ct_matmul(ds, k), scale);
    grad[1] = ct_scale(ct_matmul(BREAK(3, ct_transpose(ds, 0, 1), ds), q), scale);
    grad[2] = ct_matmul(BREAK(4, ct_transpose(p, 0, 1), p), g[0]);
    return grad[0] && grad[1] && grad[2];
}

/* ---- the page's functions ---- */

enum { MOST_MISTAKES = 6 };
static const struct {
    ct_op op;
    int n; /* the inputs */
    ct_shape shape[3];
    const char *mistakes[MOST_MISTAKES]; /* by their bit; NULL: no more */
} ops[] = {
    {.op = {.name = "softmax", .forward = softmax_forward, .backward = softmax_backward},
     .n = 1,
     .shape = {{2, {3, 5}}},
     .mistakes = {"the sum runs over the wrong dim", "the sum over the row is missing",
                  "the sign is wrong"}},
    {.op = {.name = "layer_norm", .forward = layer_norm_forward, .backward = layer_norm_backward},
     .n = 3,
     .shape = {{2, {3, 5}}, {1, {5}}, {1, {5}}},
     .mistakes = {"the weight is forgotten", "the mean's term is missing",
                  "the variance's term is missing", "1 / sqrt(var) is missing",
                  "dw is a mean and not a sum"}},
    {.op = {.name = "attention", .forward = attention_forward, .backward = attention_backward},
     .n = 3,
     .shape = {{2, {4, 3}}, {2, {4, 3}}, {2, {4, 3}}},
     .mistakes = {"the backward forgets the mask", "the sum over the row is missing",
                  "1 / sqrt(d) is forgotten", "dk takes dS and not its transpose",
                  "dv takes P and not its transpose"}},
};
enum { OPS = sizeof ops / sizeof *ops };

EXPORT(const char *, web_op, int i) { return i >= 0 && i < OPS ? ops[i].op.name : NULL; }
EXPORT(const char *, web_mistake, int i, int bit) {
    return bit < MOST_MISTAKES ? ops[i].mistakes[bit] : NULL;
}

static ct_tensor *run(ct_tensor *const *in, int n, void *arg) { return ct_apply(arg, in, n, NULL); }

static char *page;
static size_t page_size;
static bool right;

/* Checks op i with the mistakes of the bits; returns the checker's page, or NULL after an error. */
EXPORT(const char *, web_check, int i, unsigned bits) {
    mistakes = bits;
    ct_context *context = ct_context_new((ct_context_opts){.seed = 7, .threads = 1});
    ct_tensor *in[3] = {NULL};
    for (int k = 0; k < ops[i].n; k++) in[k] = ct_randn(context, CT_F64, ops[i].shape[k]);
    free(page);
    page = NULL;
    FILE *file = open_memstream(&page, &page_size);
    if (!file) return NULL;
    const ct_gradcheck_result r =
        ct_gradcheck(run, (void *)&ops[i].op, in, ops[i].n, (ct_gradcheck_opts){.html = file});
    right = r.ok;
    const bool done = !fclose(file) && r.ran;
    if (!done) puts(ct_error_message(context));
    ct_context_free(context);
    return done ? page : NULL;
}
EXPORT(int, web_check_size, void) { return (int)page_size; }
EXPORT(int, web_right, void) { return right; }
