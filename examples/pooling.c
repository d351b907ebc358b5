/* This example defines a new module type with two inputs, with data, and with a destructor for the
 * data. The module is attention that pools a bag of vectors into one vector (Ilse, Tomczak &
 * Welling 2018, arXiv:1802.04712). A bag h (N, E) has N places n, each for a vector h_n of E
 * numbers:
 *
 *     s_n = w . (tanh(V h_n) * sigmoid(U h_n)),    a = softmax(s),    z = sum over n of a_n h_n
 *
 * A mask is true at the places that have a vector. The model learns to classify bags. One vector of
 * each bag decides the class: its first number is 1, and its other numbers encode the class. */
#include <cotangent/cotangent.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BAGS = 64, PLACES = 8, WIDTH = 16, HIDDEN = 32, CLASSES = 4, STEPS = 200 };

/* ---- the module ---- */

/* The data of a module of this type. */
typedef struct {
    long long runs; /* the number of times that the module's forward has run */
} pooling;

static void pooling_describe(const void *data, FILE *file) {
    fprintf(file, "runs=%lld", ((const pooling *)data)->runs);
}

static void *pooling_clone(void *data, ct_module *copy) {
    (void)data, (void)copy;
    return calloc(1, sizeof(pooling));
}

static void pooling_end(void *data) {
    printf("The pooling has run %lld times\n", ((const pooling *)data)->runs);
    free(data);
}

static const ct_module_type pooling_type = {.name = "GatedPooling",
                                            .describe = pooling_describe,
                                            .clone = pooling_clone,
                                            .end = pooling_end};

static ct_module *pooling_new(ct_context *c, int64_t width, int64_t hidden) {
    pooling *data = calloc(1, sizeof *data);
    if (!data) return ct_fail(c, CT_ERR_MEMORY, "GatedPooling: out of memory");
    ct_module *m = ct_module_new_of(c, &pooling_type,
                                    data); /* the module now owns data; pooling_end frees it */
    if (!m) free(data);
    ct_linear_opts in = {.in_features = width, .out_features = hidden};
    ct_linear_opts out = {.in_features = hidden, .out_features = 1, .no_bias = true};
    ct_module_add_child(m, "v", ct_linear_new(c, in));
    ct_module_add_child(m, "u", ct_linear_new(c, in));
    ct_module_add_child(m, "w", ct_linear_new(c, out));
    return m;
}

/* Returns z (B, E) for h (B, N, E) and the bool mask (B, N). If weights is not NULL, sets *weights
 * to the attention weights a (B, N). */
static ct_tensor *pooling_forward(ct_module *m, ct_tensor *h, ct_tensor *mask,
                                  ct_tensor **weights) {
    pooling *data = ct_module_data(m, &pooling_type);
    ct_scope scope =
        ct_module_enter(m); /* the text of an error now begins with the module's path */
    ct_context *c = ct_context_of(h);
    ct_tensor *v = ct_tanh(ct_forward(ct_module_child(m, "v"), h));    /* (B, N, hidden) */
    ct_tensor *u = ct_sigmoid(ct_forward(ct_module_child(m, "u"), h)); /* (B, N, hidden) */
    ct_tensor *score = ct_squeeze(ct_forward(ct_module_child(m, "w"), ct_mul(v, u)), 2);
    score = ct_where(mask, score, ct_full(c, CT_F32, CT_SCALAR, -INFINITY));
    ct_tensor *a = ct_softmax(score, 1);                            /* (B, N) */
    ct_tensor *z = ct_squeeze(ct_matmul(ct_unsqueeze(a, 1), h), 1); /* (B, E) */
    if (data) data->runs++;
    if (weights) *weights = ct_scope_keep(scope, a);
    return ct_scope_return(scope, z);
}

/* ---- bags ---- */

typedef struct {
    ct_tensor *vectors, *mask, *classes; /* (B, N, E), (B, N), (B) */
    int64_t key[BAGS];                   /* the place of the vector that decides the class */
} bags;

static bags draw(ct_context *c) {
    static float x[BAGS][PLACES][WIDTH];
    bool real[BAGS][PLACES];
    int64_t class[BAGS];
    bags b;
    for (int i = 0; i < BAGS; i++) {
        const int64_t n = 2 + ct_random_below(c, PLACES - 1); /* 2 ... PLACES */
        b.key[i] = ct_random_below(c, n);
        class[i] = ct_random_below(c, CLASSES);
        for (int j = 0; j < PLACES; j++) {
            real[i][j] = j < n;
            x[i][j][0] = j == b.key[i];
            const int64_t shown = j == b.key[i] ? class[i] : ct_random_below(c, CLASSES);
            for (int k = 1; k < WIDTH; k++) x[i][j][k] = (k - 1) % CLASSES == shown;
        }
    }
    b.vectors = ct_from_f32(c, CT_SHAPE(BAGS, PLACES, WIDTH), x[0][0]);
    b.mask = ct_from_bool(c, CT_SHAPE(BAGS, PLACES), real[0]);
    b.classes = ct_from_i64(c, CT_SHAPE(BAGS), class);
    return b;
}

static ct_tensor *logits(ct_module *model, const bags *b, ct_tensor **weights) {
    ct_tensor *z = pooling_forward(ct_module_child(model, "pool"), b->vectors, b->mask, weights);
    return ct_forward(ct_module_child(model, "head"), z);
}

/* Prints the percentage of new bags whose class is right, and the mean attention weight of the
 * vector that decides. */
static void measure(ct_context *c, ct_module *model) {
    ct_scope scope = ct_scope_open_no_grad(c);
    bags b = draw(c);
    ct_tensor *weights, *best = ct_argmax(logits(model, &b, &weights), 1);
    ct_tensor *right = ct_mean(ct_cast(ct_eq(best, b.classes), CT_F32), CT_ALL, false);
    double attention = 0;
    for (int i = 0; i < BAGS; i++)
        attention += ct_item(ct_select(ct_select(weights, 0, i), 0, b.key[i])) / BAGS;
    printf("%.0f %% of new bags are right; the deciding vector has %.0f %% of the attention\n",
           100 * ct_item(right), 100 * attention);
    ct_scope_close(scope);
}

int main(void) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!c) return 1;
    ct_module *model = ct_module_new(c, "Bags");
    ct_module_add_child(model, "pool", pooling_new(c, WIDTH, HIDDEN));
    ct_module_add_child(
        model, "head",
        ct_linear_new(c, (ct_linear_opts){.in_features = WIDTH, .out_features = CLASSES}));
    ct_module_print(model, stdout);
    ct_optim *optim = ct_adamw_new(model, (ct_adamw_opts){.lr = 5e-3});
    measure(c, model);
    for (int step = 0; step < STEPS; step++) {
        ct_scope scope = ct_scope_open(c);
        bags b = draw(c);
        ct_backward(
            ct_cross_entropy(logits(model, &b, NULL), b.classes, (ct_cross_entropy_opts){0}));
        ct_optim_step(optim);
        ct_optim_zero_grad(optim);
        ct_scope_close(scope);
    }
    measure(c, model);
    ct_context_free(c); /* frees the module too, which runs pooling_end */
    return 0;
}
