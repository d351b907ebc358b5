/* A generator's row has the bits that it has by itself (src/core/row_rule.h): products of each
 * number of rows, and generations of 1 to 128 rows beside the same rows one by one, of which some
 * end, go back and go on. The logits are read by a module of the test in the place of the head. */
#include "tests/support/suite.h"

#include <cotangent/cotangent.h>

#include <math.h>
#include <stdio.h>

#include "ext/models/lm.h"
#include "src/core/context.h"
#include "src/core/int_math.h"
#include "src/gemm/gemm.h"
#include "tests/support/one_context.h"

#include "tests/kernels/amx_model.h"
void kernels_of_model(cti_kernels *table);
#define cti_kernels_amx  kernels_of_model
#define CTI_VECTOR_BYTES 0
#include "src/kernels/amx.c"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- instruction sets: all of this machine, and one with the model of AMX ---- */

static int isas(void) {
    int n = 0;
    while (cti_isa_at(n)) n++;
    return n + 1;
}

static ct_context *context_of(int i, int threads) {
    static cti_kernels f32;
    static cti_isa model;
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .threads = threads});
    if (i + 1 < isas()) {
        c->isa = cti_isa_at(i);
    } else {
        model = *cti_isa_find(NULL);
        f32 = *model.of[CT_F32];
        kernels_of_model(&f32);
        model.of[CT_F32] = &f32;
        c->isa = &model;
    }
    ck_assert(ct_set_matmul(c, CT_MATMUL_F32));
    return c;
}

/* ---- products ---- */

enum { MOST_ROWS = 150, MOST_N = 70, MOST_K = 900 };

typedef struct {
    ct_dtype dtype, weight;
    int64_t n, k;
    bool b_by_columns, bias;
} product;

/* C (m, n) of the first m rows from `first` on, with A dense by rows, or by columns. */
static ct_tensor *product_of(const product *p, ct_tensor *x, ct_tensor *w, ct_tensor *bias,
                             int64_t first, int64_t m, bool a_by_columns) {
    ct_tensor *a = ct_narrow(x, 0, first, m);
    if (a_by_columns) a = ct_transpose(ct_contiguous(ct_transpose(a, 0, 1)), 0, 1);
    return p->b_by_columns ? ct_linear(a, w, bias) : ct_matmul(a, w);
}

static const char *bits(ct_tensor *x) {
    ck_assert_msg(x != NULL, "%s", ct_error_message(context));
    return x->data;
}

static void check_product(const product *p, int64_t m) {
    const int64_t size = p->dtype == CT_F64 ? 8 : 4;
    ct_tensor *x = ct_randn(context, p->dtype, CT_SHAPE(MOST_ROWS, p->k));
    ct_tensor *w =
        ct_randn(context, p->dtype, p->b_by_columns ? CT_SHAPE(p->n, p->k) : CT_SHAPE(p->k, p->n));
    if (p->weight == CT_BF16) w = ct_cast(w, CT_BF16);
    ct_tensor *bias = p->bias ? ct_randn(context, p->dtype, CT_SHAPE(p->n)) : NULL;
    for (int rows = CTI_ROWS_ONE; rows <= CTI_ROWS_MANY; rows++) {
        cti_set_rows(context, (cti_rows)rows);
        for (int how = 0; how < 2; how++) {
            const char *all = bits(product_of(p, x, w, bias, 0, m, how));
            for (int64_t i = 0; i < m; i += 1 + m / 16) {
                const char *one = bits(product_of(p, x, w, bias, i, 1, false));
                ck_assert_msg(!memcmp(one, all + i * p->n * size, (size_t)(p->n * size)),
                              "%s, matmul %d, rule %d: row %lld of %lld, n %lld, k %lld, A %d",
                              context->isa->name, context->matmul, rows, (long long)i, (long long)m,
                              (long long)p->n, (long long)p->k, how);
            }
        }
        cti_set_rows(context, CTI_ROWS_ANY);
    }
}

START_TEST(products) {
    static const int64_t n[] = {1, 2, 15, 16, 33, 70}, k[] = {1, 7, 19, 40, 130, 600, 900};
    static const int64_t rows[] = {1, 2, 3, 5, 8, 13, 16, 31, 33, 64, 100, 150};
    context = context_of(_i / 2, 1 + _i % 2);
    for (int i = 0; i < 100; i++) {
        const int type = (int)ct_random_below(context, 3);
        const product p = {.dtype = type == 1 ? CT_F64 : CT_F32,
                           .weight = type == 2 ? CT_BF16 : CT_F32,
                           .n = n[ct_random_below(context, COUNT(n))],
                           .k = k[ct_random_below(context, COUNT(k))],
                           .b_by_columns = type == 2 || i % 2,
                           .bias = i % 3 == 0};
        const int64_t m = rows[ct_random_below(context, COUNT(rows))];
        if (m * p.n * p.k > 1 << 21) continue;
        ct_scope scope = ct_scope_open_no_grad(context);
        ck_assert(ct_set_matmul(context, (ct_matmul_precision)(CT_MATMUL_F32 + i / 2 % 4)));
        check_product(&p, m);
        ct_scope_close(scope);
    }
    ct_context_free(context);
}
END_TEST

/* A row whose numbers are not finite, or too large or too small for terms of bf16, does not change
 * the bits of the other rows. */
START_TEST(numbers_of_other_rows) {
    static const float odd[] = {1e30f, 1e-33f, INFINITY, NAN};
    for (int i = 0; i < isas(); i++) {
        context = context_of(i, 1);
        for (int o = 0; o < 4 * 4; o++) {
            ct_scope scope = ct_scope_open_no_grad(context);
            ck_assert(ct_set_matmul(context, (ct_matmul_precision)(CT_MATMUL_F32 + o % 4)));
            ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(64, 80)),
                      *w = ct_randn(context, CT_F32, CT_SHAPE(80, 80));
            cti_set_rows(context, CTI_ROWS_MANY);
            ct_tensor *before = ct_linear(x, w, NULL);
            ct_init_constant(ct_narrow(ct_narrow(x, 0, 20, 1), 1, 7, 1), odd[o / 4]);
            ct_tensor *after = ct_linear(x, w, NULL);
            cti_set_rows(context, CTI_ROWS_ANY);
            for (int64_t r = 0; r < 64; r++)
                ck_assert_msg(r == 20 ||
                                  !memcmp(bits(before) + r * 320, bits(after) + r * 320, 320),
                              "%s, matmul %d, row %lld", context->isa->name, o % 4, (long long)r);
            ct_scope_close(scope);
        }
        ct_context_free(context);
    }
}
END_TEST

/* ---- attention that returns its weights, which no model of the floor asks for ---- */

/* Compares the result of a row of T queries and S keys by itself with its result beside a row that
 * has more queries and keys. */
START_TEST(attention_with_weights) {
    enum { S = 600, MORE_S = 1000, D = 16 }; /* K blocks of several lengths */
    const int64_t T = _i % 2 ? 3 : 1, MORE_T = _i % 2 ? 20 : 1;
    context = context_of(_i / 2, 1);
    ct_scope scope = ct_scope_open_no_grad(context);
    for (int p = CT_MATMUL_F32; p <= CT_MATMUL_BF16; p++)
        for (int rows = CTI_ROWS_ONE; rows <= CTI_ROWS_MANY; rows++) {
            ct_tensor *q = ct_randn(context, CT_F32, CT_SHAPE(2, 2, MORE_T, D)),
                      *k = ct_randn(context, CT_F32, CT_SHAPE(2, 2, MORE_S, D)),
                      *v = ct_randn(context, CT_F32, CT_SHAPE(2, 2, MORE_S, D));
            /* query 0 has the index S - T in both */
            const int64_t lengths[] = {S - T + MORE_T, MORE_S};
            ct_attention_opts opts = {.need_weights = true, .causal = true, .lower_right = true};
            ck_assert(ct_set_matmul(context, (ct_matmul_precision)p));
            cti_set_rows(context, (cti_rows)rows);
            ct_tensor *one = ct_attention(ct_narrow(ct_narrow(q, 0, 0, 1), 2, 0, T),
                                          ct_narrow(ct_narrow(k, 0, 0, 1), 2, 0, S),
                                          ct_narrow(ct_narrow(v, 0, 0, 1), 2, 0, S), opts)
                                 .out;
            opts.lengths = ct_from_i64(context, CT_SHAPE(2), lengths);
            ct_tensor *all = ct_attention(q, k, v, opts).out;
            cti_set_rows(context, CTI_ROWS_ANY);
            all = ct_contiguous(ct_narrow(ct_narrow(all, 0, 0, 1), 2, 0, T));
            ck_assert_msg(
                !memcmp(bits(ct_contiguous(one)), bits(all), (size_t)T * 2 * D * sizeof(float)),
                "%s, matmul %d, rule %d", context->isa->name, p, rows);
        }
    ct_scope_close(scope);
    ct_context_free(context);
}
END_TEST

/* ---- a head that keeps the logits ---- */

enum { ROWS = 128, STEPS = 5, LONGEST = 300, VOCAB = 64, ROW_BYTES = VOCAB * 8 };

/* The logits of a call of the head: n rows of `bytes`. */
typedef struct {
    int64_t n, bytes;
    char *logits; /* [ROWS] rows */
} head_call;
static head_call calls[ROWS];
static int n_calls;

static ct_tensor *kept_logits(void *data, ct_tensor *x) {
    ct_module *module = *(ct_module **)data;
    ct_tensor *y = ct_linear(x, ct_module_get(module, "weight"), NULL);
    head_call *call = &calls[n_calls++];
    call->n = y->shape.dim[0];
    call->bytes = ct_numel(y) / call->n * (y->dtype == CT_F64 ? 8 : 4);
    ck_assert(call->bytes <= ROW_BYTES && n_calls < ROWS);
    if (!call->logits) call->logits = malloc(ROWS * ROW_BYTES);
    memcpy(call->logits, bits(y), (size_t)(call->n * call->bytes));
    return y;
}

static const ct_module_type keeper = {.name = "Keeper", .forward = kept_logits};

static void keep_logits(ct_module *lm) {
    static ct_module *module;
    const char *path = cti_lm_head_path(ct_module_data(lm, &cti_lm_type));
    char weight[CTI_LM_PATH];
    snprintf(weight, sizeof weight, "%s.weight", path);
    module = ct_module_new_of(context, &keeper, &module);
    ck_assert(ct_module_add_param(module, "weight", ct_module_get(lm, weight)));
    ck_assert_msg(ct_module_set_child(lm, path, module) != NULL, "%s", ct_error_message(context));
}

/* ---- generations ---- */

static int64_t prompt[ROWS][LONGEST], length[ROWS];
static int64_t end[ROWS]; /* the step before which the program ends the row */
/* the step before which the row loses `lost` ids and gets `added`; STEPS: it does not */
static int64_t goes_on[ROWS], lost[ROWS], added[ROWS];

/* The settings of ct_set_matmul before each step, of which the first is set when the generator is
 * made and another after that. */
typedef struct {
    ct_matmul_precision made, step[STEPS];
} settings;

static const settings all_settings[] = {
    {CT_MATMUL_F32, {CT_MATMUL_F32, CT_MATMUL_F32, CT_MATMUL_F32, CT_MATMUL_F32, CT_MATMUL_F32}},
    {CT_MATMUL_BF16,
     {CT_MATMUL_BF16, CT_MATMUL_BF16, CT_MATMUL_BF16, CT_MATMUL_BF16, CT_MATMUL_BF16}},
    {CT_MATMUL_BF16X3,
     {CT_MATMUL_BF16X3, CT_MATMUL_BF16X3, CT_MATMUL_BF16X3, CT_MATMUL_BF16X3, CT_MATMUL_BF16X3}},
    {CT_MATMUL_BF16X6,
     {CT_MATMUL_BF16X6, CT_MATMUL_BF16X6, CT_MATMUL_BF16X6, CT_MATMUL_BF16X6, CT_MATMUL_BF16X6}},
    {CT_MATMUL_F32, {CT_MATMUL_BF16, CT_MATMUL_F32, CT_MATMUL_BF16X3, CT_MATMUL_BF16}},
    {CT_MATMUL_BF16, {CT_MATMUL_F32, CT_MATMUL_BF16, CT_MATMUL_BF16X6, CT_MATMUL_F32}},
};

typedef struct {
    char logits[STEPS][ROW_BYTES];
    int64_t id[STEPS], steps;
} row_bits;

/* Draws prompts of 1, a few, and many tokens, and the steps at which rows end. */
static void draw_rows(int64_t longest) {
    for (int r = 0; r < ROWS; r++) {
        const int64_t kind = ct_random_below(context, 4);
        length[r] = 1 + (kind == 0   ? 0
                         : kind == 1 ? ct_random_below(context, 4)
                         : kind == 2 ? ct_random_below(context, cti_min(longest, 40))
                                     : ct_random_below(context, longest));
        end[r] = ct_random_below(context, 3) ? STEPS : 1 + ct_random_below(context, STEPS);
        for (int64_t t = 0; t < LONGEST; t++) prompt[r][t] = ct_random_below(context, 40);
        goes_on[r] = ct_random_below(context, 2) ? STEPS : 1 + ct_random_below(context, STEPS - 1);
        lost[r] = ct_random_below(context, 3) ? ct_random_below(context, 4) : 0;
        added[r] = ct_random_below(context, 3) ? ct_random_below(context, 60) : 0;
    }
    length[0] = 1, length[1] = longest;
}

/* A row of the generator as the test follows it. */
typedef struct {
    bool alive;
    int64_t count, read; /* its ids, and those that are in the cache */
} row_state;

/* What the program does to row i before a step. */
static void change_row(ct_generator *g, int i, int r, int step, row_state *row) {
    if (end[r] == step) {
        ck_assert(ct_generate_end(g, i));
        row->alive = false;
    }
    if (goes_on[r] != step) return;
    row->count = cti_max(1, row->count - lost[r]);
    row->read = cti_min(row->read, row->count - 1);
    ck_assert(ct_generate_back(g, i, row->count));
    ck_assert_msg(ct_generate_more(g, i, prompt[r], cti_min(added[r], 310 - row->count)), "%s",
                  ct_error_message(context));
    row->count += cti_min(added[r], 310 - row->count);
    row->alive = true;
}

/* Generates n rows, the given ones, and keeps what each has: the first step tells how the generator
 * groups rows, and later ones leave out the groups without a living row. A group has a forward of
 * the rows that read several ids, and one of those that read one. */
static void generate(ct_module *lm, const settings *s, const int *rows, int n, row_bits *out) {
    static int64_t ids[ROWS * LONGEST];
    static bool mask[ROWS * LONGEST];
    int64_t T = 1, group = cti_min(n, 8), next[ROWS];
    row_state state[ROWS];
    ct_scope scope = ct_scope_open(context);
    for (int i = 0; i < n; i++) T = cti_max(T, length[rows[i]]);
    for (int i = 0; i < n; i++) {
        out[i].steps = 0;
        state[i] = (row_state){true, length[rows[i]], 0};
        for (int step = 0; step < STEPS; step++) out[i].id[step] = -1;
        for (int64_t t = 0; t < T; t++) {
            mask[i * T + t] = t < length[rows[i]];
            ids[i * T + t] = prompt[rows[i]][t];
        }
    }
    ck_assert(ct_set_matmul(context, s->made));
    ct_generator *g =
        ct_generate_new(lm,
                        (ct_batch){.ids = ct_from_i64(context, CT_SHAPE(n, T), ids),
                                   .mask = ct_from_bool(context, CT_SHAPE(n, T), mask)},
                        (ct_generate_opts){.max_new = STEPS, .no_eos = true});
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < n; i++) change_row(g, i, rows[i], step, &state[i]);
        ck_assert(ct_set_matmul(context, s->step[step] ? s->step[step] : s->made));
        n_calls = 0;
        ct_generate_next(g, next);
        ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
        int at = 0;
        for (int64_t i = 0; i < n; i += group)
            for (int single = 0; single < 2; single++) {
                bool any = false;
                for (int64_t r = i; r < cti_min(n, i + group); r++) {
                    row_state *row = &state[r];
                    if (!row->alive || (row->count - row->read == 1) != single) continue;
                    any = true;
                    ck_assert_int_eq(calls[at].n, cti_min(group, n - i));
                    memcpy(out[r].logits[step], calls[at].logits + (r - i) * calls[at].bytes,
                           (size_t)calls[at].bytes);
                    out[r].id[step] = next[r];
                    out[r].steps = step + 1;
                }
                at += any;
            }
        ck_assert_int_eq(n_calls, at);
        for (int i = 0; i < n; i++)
            if (state[i].alive) state[i].read = state[i].count++;
    }
    ct_generate_free(g);
    ct_scope_close(scope);
}

#define MODEL(family, more, sizes)                                                                 \
    "{\"model_type\": \"" family "\", \"vocab_size\": 40, \"num_hidden_layers\": 2, "              \
    "\"num_attention_heads\": 4, \"max_position_embeddings\": 320, " more sizes "}"
#define WIDE "\"hidden_size\": 64, \"intermediate_size\": 96"

/* Sizes around the thresholds of plans, and what families have: grouped heads, windows, caps,
 * biases, parallel layers, tied heads, tables of positions. */
static const struct {
    const char *config;
    int64_t longest;
    bool lora, resized;
} models[] = {
    {MODEL("llama", "\"num_key_value_heads\": 2, ", WIDE), LONGEST, false, false},
    {MODEL("gemma3_text",
           "\"num_key_value_heads\": 2, \"head_dim\": 16, \"sliding_window\": 50, "
           "\"layer_types\": [\"sliding_attention\", \"full_attention\"], ",
           WIDE),
     LONGEST, false, false},
    {"{\"model_type\": \"gpt2\", \"vocab_size\": 40, \"n_embd\": 64, \"n_layer\": 2, "
     "\"n_head\": 4, \"n_positions\": 320}",
     LONGEST, true, false},
    {MODEL("gpt_neox", "\"rotary_pct\": 0.5, ", WIDE), 130, false, false},
    {MODEL("qwen2", "\"num_key_value_heads\": 1, ",
           "\"hidden_size\": 48, \"intermediate_size\": 900"),
     40, false, true},
    {MODEL("llama", "\"tie_word_embeddings\": true, ",
           "\"hidden_size\": 16, \"intermediate_size\": 24"),
     70, true, true},
};

static ct_module *make_model(int m, ct_dtype dtype) {
    const bool blocks = dtype == CT_Q8_0 || dtype == CT_Q4_0;
    ct_module *lm = ct_lm_new(context, models[m].config,
                              (ct_lm_opts){.dtype = blocks ? CT_F32 : dtype}); /* rounded below */
    ck_assert_msg(lm != NULL, "%s", ct_error_message(context));
    ct_scope scope = ct_scope_open_no_grad(context);
    if (models[m].resized) ck_assert(ct_lm_resize(lm, 57));
    if (models[m].lora) ck_assert(ct_lora_add(lm, "*", (ct_lora_opts){.rank = 4, .alpha = 8}) > 0);
    ct_module_train(lm, false);
    for (ct_param p = {0}; ct_module_next(lm, &p);) {
        ct_tensor *x = ct_scale(ct_randn(context, CT_F32, ct_shape_of(p.tensor)), 0.3);
        ck_assert(ct_copy_into(p.tensor, ct_cast(x, ct_dtype_of(p.tensor))));
    }
    ct_scope_close(scope);
    if (blocks) ck_assert_msg(ct_module_to(lm, dtype), "%s", ct_error_message(context));
    keep_logits(lm);
    return lm;
}

static row_bits one[ROWS], together[ROWS];

static void check_generations(ct_module *lm, const settings *s, const int *counts, int n_counts,
                              const char *name) {
    static bool known[ROWS];
    memset(known, 0, sizeof known);
    for (int c = 0; c < n_counts; c++) {
        int rows[ROWS];
        const int first = (int)ct_random_below(context, ROWS);
        for (int i = 0; i < counts[c]; i++) rows[i] = (first + 37 * i) % ROWS;
        generate(lm, s, rows, counts[c], together);
        for (int i = 0; i < counts[c]; i++) {
            const int r = rows[i];
            if (!known[r]) generate(lm, s, &r, 1, &one[r]);
            known[r] = true;
            ck_assert_msg(one[r].steps == together[i].steps, "%s: %lld steps for %lld", name,
                          (long long)together[i].steps, (long long)one[r].steps);
            for (int64_t step = 0; step < one[r].steps; step++)
                ck_assert_msg(
                    (one[r].id[step] < 0 || !memcmp(one[r].logits[step], together[i].logits[step],
                                                    (size_t)calls[0].bytes)) &&
                        one[r].id[step] == together[i].id[step],
                    "%s: row %d of %d, a prompt of %lld, step %lld: other logits", name, i,
                    counts[c], (long long)length[r], (long long)step);
        }
    }
}

START_TEST(generations) {
    static const ct_dtype dtypes[] = {CT_F32, CT_BF16, CT_F64, CT_Q8_0, CT_Q4_0};
    const int isa = _i % isas(), m = _i / isas() % COUNT(models);
    context = context_of(isa, 1 + _i % 2);
    draw_rows(models[m].longest);
    for (int d = 0; d < COUNT(dtypes); d++) {
        ct_module *lm = make_model(m, dtypes[d]);
        const bool rounds = dtypes[d] != CT_F64 && context->isa->of[CT_F32]->bf16;
        const int first = rounds && d > 2 ? (_i + d) % COUNT(all_settings) : 0; /* one for blocks */
        for (int s = first; s < (rounds ? COUNT(all_settings) : 1); s += d > 2 ? 9 : 1 + 2 * d) {
            const bool few = models[m].longest == LONGEST;
            const int counts[] = {(few ? 2 : 9) + (int)ct_random_below(context, few ? 3 : 8)};
            char name[100];
            snprintf(name, sizeof name, "%s, model %d, dtype %d, settings %d", context->isa->name,
                     m, d, s);
            check_generations(lm, &all_settings[s], counts, COUNT(counts), name);
        }
        ct_module_free(lm);
    }
    ct_context_free(context);
}
END_TEST

START_TEST(many_rows) {
    static const int counts[] = {128, 64, 65, 33, 16, 17, 1};
    static const ct_dtype dtypes[] = {CT_F32, CT_F32,  CT_BF16, CT_BF16,
                                      CT_F32, CT_Q8_0, CT_F32,  CT_Q4_0};
    context = context_of(isas() - 2, 2);
    draw_rows(20);
    ct_module *lm = make_model(_i % 2 ? 2 : 0, dtypes[_i % COUNT(dtypes)]);
    check_generations(lm, &all_settings[_i % COUNT(all_settings)], counts, COUNT(counts), "many");
    ct_context_free(context);
}
END_TEST

/* ---- forwards with caches in bf16 ---- */

/* Reads a prompt and then STEPS tokens of each of n rows, with caches that store bf16. */
static void read_rows(ct_module *lm, const int *rows, int n, row_bits *out) {
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_lm_cache *cache = ct_lm_cache_new(lm, n, LONGEST + STEPS);
    for (int64_t i = 0; i < cache->layers; i++) ck_assert(ct_kv_cache_to_bf16(cache->layer[i]));
    for (int step = 0; step < STEPS; step++) {
        int64_t T = 1;
        for (int i = 0; i < n && !step; i++) T = cti_max(T, length[rows[i]]);
        ct_tensor *ids = ct_zeros(context, CT_I64, CT_SHAPE(n, T)),
                  *mask = ct_zeros(context, CT_BOOL, CT_SHAPE(n, T));
        for (int i = 0; i < n; i++)
            for (int64_t t = 0; t < (step ? 1 : length[rows[i]]); t++) {
                ct_data_i64(ids)[i * T + t] = prompt[rows[i]][step ? LONGEST - step : t];
                ct_data_bool(mask)[i * T + t] = true;
            }
        n_calls = 0;
        cti_set_rows(context, step ? CTI_ROWS_ONE : CTI_ROWS_MANY);
        ct_lm_forward(lm, ids,
                      (ct_lm_call){.key_mask = mask, .cache = cache, .result = CT_LM_LAST});
        cti_set_rows(context, CTI_ROWS_ANY);
        ck_assert_msg(n_calls == 1 && !ct_error(context), "%s", ct_error_message(context));
        for (int i = 0; i < n; i++)
            memcpy(out[i].logits[step], calls[0].logits + i * calls[0].bytes,
                   (size_t)calls[0].bytes);
    }
    ct_lm_cache_free(cache);
    ct_scope_close(scope);
}

START_TEST(caches_in_bf16) {
    context = context_of(_i / 2, 2);
    draw_rows(LONGEST);
    ct_module *lm = make_model(_i % 2, CT_F32);
    int rows[6];
    for (int i = 0; i < COUNT(rows); i++) rows[i] = i;
    for (int p = CT_MATMUL_F32; p <= CT_MATMUL_BF16; p += CT_MATMUL_BF16 - CT_MATMUL_F32) {
        ck_assert(ct_set_matmul(context, (ct_matmul_precision)p));
        read_rows(lm, rows, COUNT(rows), together);
        for (int i = 0; i < COUNT(rows); i++) {
            read_rows(lm, &i, 1, one);
            for (int step = 0; step < STEPS; step++)
                ck_assert_msg(
                    !memcmp(one->logits[step], together[i].logits[step], (size_t)calls[0].bytes),
                    "%s, matmul %d: row %d, step %d", context->isa->name, p, i, step);
        }
    }
    ct_context_free(context);
}
END_TEST

int main(void) {
    return run_tests("generate rows", NULL, NULL,
                     TESTS(LOOP(products, 2 * isas()), TEST(numbers_of_other_rows),
                           LOOP(attention_with_weights, 2 * isas()),
                           LOOP(generations, COUNT(models) * isas()), LOOP(many_rows, 8),
                           LOOP(caches_in_bf16, 2 * isas())));
}
