/* Generation in C: ids against a loop over forwards, ends of rows, penalties, seeds, and rows that
 * go on. test_model_generate_opts.c has the options of files. */
#include "small_lm.h"
#include "tests/text/text_files.h"

enum { PROMPTS = 3, STEPS = 7 };

/* The largest logit behind a text, with a penalty for its own ids. */
static int64_t greedy(ct_module *lm, const int64_t *text, int64_t n, double penalty) {
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *y =
        run_lm(lm, ct_from_i64(context, CT_SHAPE(1, n), text), (ct_lm_call){.result = CT_LM_LAST});
    double logit[31];
    ct_tensor *wide = ct_contiguous(ct_cast(y, CT_F64));
    for (int v = 0; v < 31; v++) logit[v] = ct_data_f64(wide)[v];
    bool seen[31] = {false};
    for (int64_t i = 0; i < n; i++) seen[text[i]] = true;
    int64_t best = 0;
    for (int v = 0; v < 31; v++) {
        if (seen[v]) logit[v] = logit[v] > 0 ? logit[v] / penalty : logit[v] * penalty;
        if (logit[v] > logit[best]) best = v;
    }
    ct_scope_close(scope);
    return best;
}

static const int64_t prompts[PROMPTS][4] = {{3, 1, 4, 1}, {5, 9}, {2, 6, 5}};
static const int64_t sizes[PROMPTS] = {4, 2, 3};

static ct_batch padded(bool left) {
    int64_t ids[PROMPTS * 4];
    bool mask[PROMPTS * 4];
    for (int b = 0; b < PROMPTS; b++)
        for (int64_t t = 0; t < 4; t++) {
            const int64_t at = left ? t - (4 - sizes[b]) : t;
            mask[b * 4 + t] = at >= 0 && at < sizes[b];
            ids[b * 4 + t] = mask[b * 4 + t] ? prompts[b][at] : 0;
        }
    return (ct_batch){.ids = ct_from_i64(context, CT_SHAPE(PROMPTS, 4), ids),
                      .mask = ct_from_bool(context, CT_SHAPE(PROMPTS, 4), mask)};
}

/* The ids of all rows, -1 behind the last of a row. */
static void run_generator(ct_module *lm, ct_batch batch, ct_generate_opts opts,
                          int64_t out[PROMPTS][STEPS]) {
    ct_generator *generator = ct_generate_new(lm, batch, opts);
    ck_assert_msg(generator != NULL, "%s", ct_error_message(context));
    for (int step = 0; step < STEPS; step++) {
        int64_t ids[PROMPTS];
        const bool more = ct_generate_next(generator, ids);
        ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
        for (int b = 0; b < PROMPTS; b++) out[b][step] = more ? ids[b] : -1;
    }
    ct_generate_free(generator);
}

START_TEST(greedy_ids) {
    static const char *const configs[] = {LLAMA, GEMMA, GPT2, NEOX};
    for (int c = 0; c < 12; c++) {
        ct_module *lm = rough_lm(configs[c % 4], c < 8 ? f64 : (ct_lm_opts){0});
        const double penalty = c < 4 ? 0 : 1.7;
        int64_t got[PROMPTS][STEPS];
        run_generator(
            lm, padded(c % 2),
            (ct_generate_opts){.max_new = STEPS, .no_eos = true, .repetition_penalty = penalty},
            got);
        for (int b = 0; b < PROMPTS; b++) {
            int64_t text[4 + STEPS], n = sizes[b];
            memcpy(text, prompts[b], (size_t)n * sizeof *text);
            for (int step = 0; step < STEPS; step++) {
                text[n] = greedy(lm, text, n, penalty ? penalty : 1);
                ck_assert_msg(got[b][step] == text[n], "config %d, row %d, step %d", c, b, step);
                n++;
            }
        }
    }
}
END_TEST

/* Logits of -1, -2, ... -7, of which a penalty of 2.5 makes -2.5 and -5 of the first two. */
START_TEST(penalties_of_negative_logits) {
    for (int i = 0; i < 2; i++) {
        ct_module *lm = new_lm("{\"model_type\": \"gpt2\", \"vocab_size\": 7, \"n_embd\": 8, "
                               "\"n_layer\": 0, \"n_head\": 1, \"n_positions\": 8}",
                               i ? f64 : (ct_lm_opts){0});
        ct_tensor *words = ct_module_get(lm, "transformer.wte.weight");
        for (int v = 0; v < 7; v++) ct_init_constant(ct_narrow(words, 0, v, 1), -(v + 1) / 8.0);
        ct_init_constant(ct_module_get(lm, "transformer.ln_f.weight"), 0);
        ct_init_constant(ct_module_get(lm, "transformer.ln_f.bias"), 1);
        const int64_t id[] = {6}, want[] = {0, 1, 0, 0};
        ct_generator *generator = ct_generate_new(
            lm, (ct_batch){.ids = ct_from_i64(context, CT_SHAPE(1, 1), id)},
            (ct_generate_opts){.max_new = 4, .no_eos = true, .repetition_penalty = 2.5});
        for (int step = 0; step < 4; step++) {
            int64_t next;
            ck_assert(ct_generate_next(generator, &next));
            ck_assert_int_eq(next, want[step]);
        }
        ct_generate_free(generator);
    }
}
END_TEST

/* Draws depend on the seed, the row and the step, and the context's generator stays. */
START_TEST(draws) {
    ct_module *lm = new_lm(LLAMA, f64); /* nearly uniform logits */
    const int64_t one[] = {3, 1, 3, 1, 3, 1};
    const ct_batch same = {.ids = ct_from_i64(context, CT_SHAPE(PROMPTS, 2), one)};
    ct_generate_opts opts = {.max_new = STEPS, .no_eos = true, .seed = 5};
    opts.sample.temperature = 1;
    int64_t got[3][PROMPTS][STEPS];
    const ct_rng rng = ct_rng_get(context);
    run_generator(lm, same, opts, got[0]);
    const ct_rng after = ct_rng_get(context);
    ck_assert(!memcmp(&rng, &after, sizeof rng));
    run_generator(lm, same, opts, got[1]);
    opts.seed = 6;
    run_generator(lm, same, opts, got[2]);
    ck_assert(!memcmp(got[0], got[1], sizeof got[0]));
    ck_assert(memcmp(got[0], got[2], sizeof got[0]));
    ck_assert(memcmp(got[0][0], got[0][1], sizeof got[0][0])); /* rows differ */
    int equal = 0;
    for (int step = 1; step < STEPS; step++) equal += got[0][0][step] == got[0][0][0];
    ck_assert_int_lt(equal, STEPS - 1);
}
END_TEST

START_TEST(ends_of_rows) {
    ct_module *lm = rough_lm(LLAMA, f64);
    int64_t whole[PROMPTS][STEPS], got[PROMPTS][STEPS];
    const ct_generate_opts opts = {.max_new = STEPS, .no_eos = true};
    run_generator(lm, padded(false), opts, whole);
    ct_generate_opts with_eos = opts;
    with_eos.no_eos = false, with_eos.eos = &whole[1][2], with_eos.n_eos = 1;
    run_generator(lm, padded(true), with_eos, got);
    for (int b = 0; b < PROMPTS; b++) {
        bool ended = false;
        for (int step = 0; step < STEPS; step++) {
            ck_assert_int_eq(got[b][step], ended ? -1 : whole[b][step]);
            ended |= whole[b][step] == whole[1][2];
        }
    }
    ct_generate_opts two = opts; /* behind a prompt of any length */
    two.max_new = 2;
    run_generator(lm, padded(false), two, got);
    for (int b = 0; b < PROMPTS; b++)
        ck_assert(got[b][1] == whole[b][1] && got[b][1] >= 0 && got[b][2] == -1);
    ct_lm_info about = ct_lm_about(lm);
    ck_assert(about.n_eos == 1 && about.eos[0] == 2); /* transformers' default for Llama */
    /* the ids that the model's folder names, unless no id ends a row */
    ct_module *many =
        rough_lm("{\"model_type\": \"llama\", \"eos_token_id\": [0, 1, 2, 3, 4, 5, 6, 7, "
                 "8, 9, 10, 11, 12, 13, 14, 15], " SIZES "}",
                 f64);
    run_generator(many, padded(false), opts, whole);
    run_generator(many, padded(false), (ct_generate_opts){.max_new = STEPS}, got);
    int ends = 0;
    for (int b = 0; b < PROMPTS; b++) {
        bool ended = false;
        for (int step = 0; step < STEPS; step++) {
            ck_assert_int_ge(whole[b][step], 0);
            ck_assert_int_eq(got[b][step], ended ? -1 : whole[b][step]);
            ends += !ended && whole[b][step] < 16 && step + 1 < STEPS;
            ended |= whole[b][step] < 16;
        }
    }
    ck_assert_int_gt(ends, 0);
    const int64_t outside[] = {1, 31};
    ck_refused(
        ct_generate_new(lm, (ct_batch){.ids = ct_from_i64(context, CT_SHAPE(1, 2), outside)}, opts),
        CT_ERR_ARGUMENT, "generate_new", "31");
    const bool none[] = {false, false};
    const ct_batch empty = {.ids = some_ids(1, 2),
                            .mask = ct_from_bool(context, CT_SHAPE(1, 2), none)};
    ck_refused(ct_generate_new(lm, empty, opts), CT_ERR_ARGUMENT, "generate_new", "no token");
}
END_TEST

/* "ab" and "aba" by a tokenizer of seven ids. */
START_TEST(stop_texts) {
    ct_tokenizer *tokenizer = open_small(context, "");
    ct_module *lm = new_lm("{\"model_type\": \"llama\", \"vocab_size\": 7, \"hidden_size\": 8, "
                           "\"intermediate_size\": 8, \"num_hidden_layers\": 1, "
                           "\"num_attention_heads\": 2}",
                           f64);
    const int64_t id[] = {0};
    const ct_batch prompt = {.ids = ct_from_i64(context, CT_SHAPE(1, 1), id)};
    static const char *const stops[] = {"ba", "bbbbbbbbbb"};
    ct_generate_opts opts = {.max_new = 3000, .no_eos = true, .tokenizer = tokenizer};
    opts.sample.temperature = 1;
    for (int i = 0; i < 30; i++) {
        opts.stop = stops, opts.n_stop = 2, opts.seed = (uint64_t)i;
        ct_generator *generator = ct_generate_new(lm, prompt, opts);
        ck_assert_ptr_nonnull(generator);
        int64_t ids[3000], n = 0;
        while (n < 3000 && ct_generate_next(generator, &ids[n])) n++;
        ck_assert(ct_error(context) == CT_OK && n > 0 && n < 3000);
        char text[10000], before[10000];
        ct_decode(tokenizer, ids, n, true, text, sizeof text);
        ct_decode(tokenizer, ids, n - 1, true, before, sizeof before);
        ck_assert_msg(strstr(text, stops[0]) || strstr(text, stops[1]), "%s", text);
        ck_assert_msg(!strstr(before, stops[0]) && !strstr(before, stops[1]), "%s", before);
        ct_generate_free(generator);
    }
    /* a stop text that never comes, in a text longer than a row's kept end */
    static const char *const never[] = {"xyz"};
    opts.stop = never, opts.n_stop = 1, opts.max_new = 900;
    ct_generator *generator = ct_generate_new(lm, prompt, opts);
    int64_t next, n = 0;
    while (ct_generate_next(generator, &next)) n++;
    ck_assert_int_eq(n, 900);
    ct_generate_free(generator);
    opts.tokenizer = NULL;
    ck_refused(ct_generate_new(lm, prompt, opts), CT_ERR_ARGUMENT, "generate_new", "tokenizer");
    static const char *const blank[] = {""};
    opts.tokenizer = tokenizer, opts.stop = blank;
    ck_refused(ct_generate_new(lm, prompt, opts), CT_ERR_ARGUMENT, "stop text 0", "bytes");
    ct_tokenizer_close(tokenizer);
}
END_TEST

/* A model without layers whose id behind position p is b at 511 and 512, and a at other places:
 * the stop text lies across the end of the part of its text that a row keeps. */
START_TEST(a_stop_text_behind_a_long_text) {
    ct_tokenizer *tokenizer = open_small(context, "");
    ct_module *lm = new_lm("{\"model_type\": \"gpt2\", \"vocab_size\": 7, \"n_embd\": 8, "
                           "\"n_layer\": 0, \"n_head\": 1, \"n_positions\": 800}",
                           f64);
    ct_tensor *words = ct_module_get(lm, "transformer.wte.weight"),
              *places = ct_module_get(lm, "transformer.wpe.weight");
    double *w = ct_data_f64(words), *p = ct_data_f64(places);
    for (int i = 0; i < 7 * 8; i++) w[i] = i % 9 == 0; /* row v is 1 at v */
    for (int i = 0; i < 800 * 8; i++) p[i] = i % 8 == (i / 8 == 511 || i / 8 == 512) ? 100 : 0;
    ct_wrote(words), ct_wrote(places);
    static const char *const stops[] = {"bb"};
    const int64_t id[] = {0};
    ct_generator *generator = ct_generate_new(
        lm, (ct_batch){.ids = ct_from_i64(context, CT_SHAPE(1, 1), id)},
        (ct_generate_opts){
            .max_new = 700, .no_eos = true, .stop = stops, .n_stop = 1, .tokenizer = tokenizer});
    ck_assert_msg(generator != NULL, "%s", ct_error_message(context));
    int64_t next, n = 0;
    while (ct_generate_next(generator, &next)) {
        ck_assert_int_eq(next, n == 511 || n == 512);
        n++;
    }
    ck_assert_int_eq(n, 513);
    ct_generate_free(generator);
    ct_tokenizer_close(tokenizer);
}
END_TEST

/* A token that is added while a generator runs, and is longer than all before, ends a row too. */
START_TEST(a_token_that_is_added) {
    ct_tokenizer *tokenizer = open_small(context, "");
    const int64_t added_id = ct_tokenizer_size(tokenizer);
    ct_module *lm = new_lm("{\"model_type\": \"llama\", \"vocab_size\": 8, \"hidden_size\": 8, "
                           "\"intermediate_size\": 8, \"num_hidden_layers\": 0, "
                           "\"num_attention_heads\": 2}",
                           f64);
    ck_assert_int_lt(added_id, 8);
    const int64_t id[] = {0, 0};
    static const char *const stops[] = {"xy"};
    ct_generator *generator = ct_generate_new(
        lm, (ct_batch){.ids = ct_from_i64(context, CT_SHAPE(2, 1), id)},
        (ct_generate_opts){
            .max_new = 20, .no_eos = true, .stop = stops, .n_stop = 1, .tokenizer = tokenizer});
    ck_assert_ptr_nonnull(generator);
    int64_t ids[2];
    ck_assert(ct_generate_next(generator, ids));
    char longer[3000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 2] = 'y', longer[sizeof longer - 1] = 0;
    ck_assert_int_eq(ct_token_add(tokenizer, longer, NULL), added_id);
    ck_assert(ct_generate_end(generator, 1));
    /* the last norm makes zeros, of which this head makes its bias */
    ct_init_constant(ct_module_get(lm, "model.norm.weight"), 0);
    ct_module *head = ct_linear_new(
        context, (ct_linear_opts){.in_features = 8, .out_features = 8, .dtype = CT_F64});
    ct_tensor *bias = ct_module_get(head, "bias");
    ct_data_f64(bias)[added_id] = 5;
    ct_wrote(bias);
    ct_module_free(ct_module_set_child(lm, "lm_head", head));
    ck_assert_msg(ct_generate_next(generator, ids), "%s", ct_error_message(context));
    ck_assert(ids[0] == added_id && ids[1] == -1);
    ck_assert(!ct_generate_next(generator, ids) && ct_error(context) == CT_OK);
    ct_tokenizer_close(tokenizer);
}
END_TEST

static ct_tensor *constant_logits(void *self, ct_tensor *x) { /* a view of the head's parameter */
    ct_tensor *row = ct_module_get(self, "row");
    return ct_expand(row, CT_SHAPE(ct_dim(x, 0), 1, ct_dim(row, 0)));
}
static ct_tensor *flat_logits(void *self, ct_tensor *x) {
    return ct_reshape(constant_logits(self, x), CT_SHAPE(ct_dim(x, 0), -1));
}

/* A head of the program's own may have fewer logits than the model has ids, but not more. */
START_TEST(heads_of_another_size) {
    static const int64_t sizes_of_heads[] = {5, 31, 4000};
    for (int i = 0; i < 4; i++) {
        ct_module *lm = rough_lm(LLAMA, f64), *head = ct_module_new(context, "Linear");
        const int64_t size = sizes_of_heads[i % 3];
        ct_tensor *row = ct_module_add_param(head, "row", ct_ones(context, CT_F64, CT_SHAPE(size)));
        ct_data_f64(row)[3] = 4, ct_data_f64(row)[4] = 3.5, ct_data_f64(row)[2] = 3;
        ct_wrote(row);
        ct_module_set_forward(head, i < 3 ? constant_logits : flat_logits, head);
        ct_module_free(ct_module_set_child(lm, "lm_head", head));
        ct_generator *generator = ct_generate_new(
            lm, padded(true),
            (ct_generate_opts){.max_new = 3, .no_eos = true, .repetition_penalty = 2});
        int64_t ids[PROMPTS];
        if (i >= 2) {
            ck_refused(ct_generate_next(generator, ids), i == 2 ? CT_ERR_ARGUMENT : CT_ERR_SHAPE,
                       i == 2 ? "generate_next" : "the head made a tensor of 2 dims",
                       i == 2 ? "4000 logits, but the model has 31 ids" : ", 1, 16)");
            continue;
        }
        ck_assert_msg(ct_generate_next(generator, ids), "%s", ct_error_message(context));
        /* the first prompt has the ids 3 and 4, whose logits are halved; the others have neither */
        ck_assert(ids[0] == 2 && ids[1] == 3 && ids[2] == 3);
        ck_assert(ct_data_f64(row)[3] == 4 && ct_data_f64(row)[4] == 3.5);
    }
}
END_TEST

/* A generator has room for the ids that its model had when it was made. */
START_TEST(a_larger_vocabulary) {
    ct_module *lm = rough_lm(LLAMA, f64);
    const int64_t id[] = {3};
    const ct_batch prompt = {.ids = ct_from_i64(context, CT_SHAPE(1, 1), id)};
    ct_generator *generator =
        ct_generate_new(lm, prompt, (ct_generate_opts){.no_eos = true, .repetition_penalty = 2});
    int64_t next;
    ck_assert(ct_generate_next(generator, &next));
    ck_assert(ct_lm_resize(lm, 31) && ct_generate_next(generator, &next));
    ck_assert(ct_lm_resize(lm, 4000));
    ck_refused(ct_generate_next(generator, &next), CT_ERR_ARGUMENT, "had 31 ids", "has 4000 now");
    ck_assert(ct_generate_next(ct_generate_new(lm, prompt, (ct_generate_opts){0}), &next));
}
END_TEST

/* A generator reads its model without dropout, in either mode of the model. */
START_TEST(in_training) {
    ct_module *lm = rough_lm(GPT2, f64);
    int64_t want[PROMPTS][STEPS], got[PROMPTS][STEPS];
    const ct_generate_opts opts = {.max_new = STEPS, .no_eos = true};
    run_generator(lm, padded(false), opts, want);
    ct_module_train(lm, true);
    run_generator(lm, padded(false), opts, got);
    ck_assert(ct_module_training(lm));
    ck_assert(!memcmp(want, got, sizeof want));
}
END_TEST

/* ---- a row that goes on ---- */

/* A row as its ids, beside the generator's. */
typedef struct {
    int64_t id[64], n;
    bool ended;
} followed;

/* Lets the generator make its next ids, each of which must be the one that a forward of the whole
 * row gives, with the penalty for all of the row's ids. */
static bool follow(ct_module *lm, ct_generator *g, followed *rows, double penalty) {
    int64_t ids[PROMPTS];
    const bool any = ct_generate_next(g, ids);
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
    for (int b = 0; b < PROMPTS; b++) {
        followed *row = &rows[b];
        ck_assert_int_eq(ids[b] == -1, row->ended || !any);
        if (row->ended || !any) continue;
        ck_assert_int_eq(ids[b], greedy(lm, row->id, row->n, penalty));
        row->id[row->n++] = ids[b];
    }
    return any;
}

static void add_ids(ct_generator *g, followed *rows, int b, const int64_t *ids, int64_t n) {
    ck_assert_msg(ct_generate_more(g, b, ids, n), "%s", ct_error_message(context));
    for (int64_t i = 0; i < n; i++) rows[b].id[rows[b].n++] = ids[i];
    rows[b].ended = false;
}

/* Rows that end, go back and go on have the ids of a run that reads the whole row each time.
 * max_new counts from what was added, and the cache grows. */
START_TEST(rows_that_go_on) {
    static const char *const configs[] = {LLAMA, GEMMA, GPT2, NEOX};
    static const int64_t more[] = {7, 7, 22, 30, 0, 11};
    ct_module *lm = rough_lm(configs[_i % 4], f64);
    const double penalty = _i < 4 ? 1 : 1.3;
    followed rows[PROMPTS] = {0};
    for (int b = 0; b < PROMPTS; b++) {
        memcpy(rows[b].id, prompts[b], sizeof prompts[b]);
        rows[b].n = sizes[b];
    }
    ct_generator *g = ct_generate_new(
        lm, padded(_i % 2),
        (ct_generate_opts){.max_new = 3, .no_eos = true, .repetition_penalty = penalty});
    ck_assert_ptr_nonnull(g);
    ck_assert(follow(lm, g, rows, penalty));
    ck_assert(ct_generate_end(g, 1));
    rows[1].ended = true;
    ck_assert(follow(lm, g, rows, penalty));
    add_ids(g, rows, 0, more, 6); /* a row that has not ended, while another makes a step */
    ck_assert(follow(lm, g, rows, penalty));
    rows[2].ended = true; /* its third id */
    for (int i = 0; i < 2; i++) ck_assert(follow(lm, g, rows, penalty));
    rows[0].ended = true; /* three ids behind those that were added */
    ck_assert(!follow(lm, g, rows, penalty));
    add_ids(g, rows, 1, more, 1);
    add_ids(g, rows, 2, NULL, 0);
    ck_assert(ct_generate_back(g, 0, 2)); /* into the prompt; the row has ended all the same */
    rows[0].n = 2;
    ck_assert(follow(lm, g, rows, penalty));
    add_ids(g, rows, 0, more + 2, 1);
    ck_assert(ct_generate_back(g, 2, rows[2].n - 1)); /* the id of the last step, in a living row */
    rows[2].n--;
    for (int i = 0; i < 2; i++) ck_assert(follow(lm, g, rows, penalty));
    rows[1].ended = true;
    for (int b = 0; b < PROMPTS; b++) { /* the same from the first id on */
        ck_assert(ct_generate_back(g, b, 1));
        rows[b].n = 1;
        add_ids(g, rows, b, more, b);
    }
    for (int i = 0; i < 3; i++) ck_assert(follow(lm, g, rows, penalty));
    ck_assert_int_eq(rows[0].n, 4);
    ct_generate_free(g);
}
END_TEST

/* An error leaves the row as it was. */
START_TEST(rows_that_cannot_go_on) {
    ct_module *lm = rough_lm(GPT2, f64); /* 32 positions */
    static const int64_t ids[40] = {3, 31};
    ct_generator *g =
        ct_generate_new(lm, padded(false), (ct_generate_opts){.max_new = 4, .no_eos = true});
    int64_t want[PROMPTS], got[PROMPTS];
    ck_refused(ct_generate_more(NULL, 0, ids, 1), CT_OK, "", "");
    ck_refused(ct_generate_more(g, 3, ids, 1), CT_ERR_ARGUMENT, "generate_more", "row 3 of 3");
    ck_refused(ct_generate_back(g, -1, 1), CT_ERR_ARGUMENT, "generate_back", "row -1 of 3");
    ck_refused(ct_generate_more(g, 0, ids, 2), CT_ERR_ARGUMENT, "row 0", "id 31");
    ck_refused(ct_generate_more(g, 0, ids, -1), CT_ERR_ARGUMENT, "generate_more", "-1 ids");
    ck_refused(ct_generate_more(g, 0, NULL, 1), CT_ERR_ARGUMENT, "generate_more", "NULL");
    ck_refused(ct_generate_more(g, 0, ids + 2, 26), CT_ERR_ARGUMENT, "generate_more",
               "32 positions");
    ck_refused(ct_generate_back(g, 1, 0), CT_ERR_ARGUMENT, "row 1", "length of 0 from one of 2");
    ck_refused(ct_generate_back(g, 1, 3), CT_ERR_ARGUMENT, "row 1", "length of 3 from one of 2");
    ck_assert(ct_generate_next(g, got));
    ct_generate_free(g);
    g = ct_generate_new(lm, padded(false), (ct_generate_opts){.max_new = 4, .no_eos = true});
    ck_assert(ct_generate_next(g, want));
    ck_assert(!memcmp(want, got, sizeof want));
    ck_assert(ct_generate_more(g, 0, ids + 2, 24)); /* 29 ids and 4 more: the last is not read */
    for (int i = 0; i < 4; i++) ck_assert(ct_generate_next(g, got) && got[0] >= 0);
    ck_assert_int_eq(ct_error(context), CT_OK);
    ct_generate_free(g);
}
END_TEST

static bool ends_in_b(const ct_tokenizer *tokenizer, int64_t id) {
    const char *text = ct_token(tokenizer, id);
    const size_t size = strlen(text);
    return text[size - 1] == 'b' && !strstr(text, "ba");
}

/* A stop text is searched in what was generated since the row went on: one that the text before
 * begins is not found. Draws go on, also after ids were forgotten. */
START_TEST(stop_texts_of_a_row_that_goes_on) {
    ct_tokenizer *tokenizer = open_small(context, "");
    ct_module *lm = new_lm("{\"model_type\": \"llama\", \"vocab_size\": 7, \"hidden_size\": 8, "
                           "\"intermediate_size\": 8, \"num_hidden_layers\": 1, "
                           "\"num_attention_heads\": 2}",
                           f64);
    const int64_t first[] = {0};
    const ct_batch prompt = {.ids = ct_from_i64(context, CT_SHAPE(1, 1), first)};
    static const char *const stops[] = {"ba"};
    ct_generate_opts opts = {
        .max_new = 3000, .no_eos = true, .tokenizer = tokenizer, .stop = stops, .n_stop = 1};
    opts.sample.temperature = 1;
    bool across = false, differ = false;
    for (int i = 0; i < 30; i++) {
        opts.seed = (uint64_t)i;
        ct_generator *g = ct_generate_new(lm, prompt, opts);
        ck_assert_ptr_nonnull(g);
        int64_t ids[2000], n = 0, before[2000], n_before = 0;
        char text[8000];
        for (int turn = 0; turn < 4; turn++) {
            n = 0;
            while (n < 2000 && ct_generate_next(g, &ids[n])) n++;
            ck_assert(ct_error(context) == CT_OK && n > 0 && n < 2000);
            ct_decode(tokenizer, ids, n, true, text, sizeof text);
            ck_assert_msg(strstr(text, "ba") != NULL, "%s", text);
            ct_decode(tokenizer, ids, n - 1, true, text, sizeof text);
            ck_assert_msg(!strstr(text, "ba"), "%s", text);
            differ |= turn && (n != n_before || memcmp(ids, before, (size_t)n * sizeof *ids) != 0);
            memcpy(before, ids, (size_t)n * sizeof *ids);
            n_before = n;
            ck_assert(ct_generate_back(g, 0, 1) && ct_generate_more(g, 0, NULL, 0));
        }
        int64_t id = -1, behind = -1; /* an id that ends in b, and the one behind it */
        while (id < 0 || !ends_in_b(tokenizer, id)) ck_assert(ct_generate_next(g, &id));
        ck_assert(ct_generate_more(g, 0, NULL, 0) && ct_generate_next(g, &behind));
        const char *text_behind = ct_token(tokenizer, behind);
        if (*text_behind == 'a' && !strstr(text_behind, "ba")) {
            across = true;
            ck_assert(ct_generate_next(g, &id)); /* the row has not ended */
        }
        ct_generate_free(g);
    }
    ck_assert(across && differ);
    ct_tokenizer_close(tokenizer);
}
END_TEST

/* The log-softmax of the model's logits, whatever changes them before the draw; two groups of rows,
 * one row ended by the program. */
START_TEST(log_probabilities) {
    enum { ROWS = 11 };
    ct_module *lm = rough_lm(LLAMA, f64);
    int64_t text[ROWS][4 + STEPS], ids[ROWS];
    double logprobs[ROWS];
    for (int b = 0; b < ROWS; b++)
        for (int t = 0; t < 3; t++) text[b][t] = ct_random_below(context, 31);
    int64_t first[ROWS][3];
    for (int b = 0; b < ROWS; b++) memcpy(first[b], text[b], sizeof first[b]);
    ct_generate_opts opts = {
        .max_new = STEPS, .no_eos = true, .seed = 7, .repetition_penalty = 1.5};
    opts.sample = (ct_sample_opts){.temperature = 3, .top_k = 20};
    ct_generator *g = ct_generate_new(
        lm, (ct_batch){.ids = ct_from_i64(context, CT_SHAPE(ROWS, 3), first[0])}, opts);
    ck_assert_int_eq(ct_generate_logprobs(g, logprobs), ROWS);
    for (int b = 0; b < ROWS; b++) ck_assert(isnan(logprobs[b]));
    for (int step = 0; step < STEPS; step++) {
        if (step == 2) ck_assert(ct_generate_end(g, 9));
        ck_assert(ct_generate_next(g, ids));
        ck_assert_int_eq(ct_generate_logprobs(g, logprobs), ROWS);
        for (int b = 0; b < ROWS; b++) {
            ck_assert(!isnan(logprobs[b]) == !(b == 9 && step >= 2));
            if (b == 9 && step >= 2) continue;
            ct_tensor *logits =
                ct_lm_forward(lm, ct_from_i64(context, CT_SHAPE(1, 3 + step), text[b]),
                              (ct_lm_call){.result = CT_LM_LAST});
            const double want =
                ct_item(ct_select(ct_select(ct_log_softmax(logits, -1), 0, 0), 0, ids[b]));
            ck_assert_double_eq_tol(logprobs[b], want, 1e-10);
            text[b][3 + step] = ids[b];
        }
    }
    ck_assert(!ct_generate_next(g, ids));
    ck_assert_int_eq(ct_generate_logprobs(g, logprobs), ROWS);
    ck_assert(isnan(logprobs[0]));
    ck_refused(ct_generate_logprobs(g, NULL) >= 0, CT_ERR_ARGUMENT, "generate_logprobs", "NULL");
    ct_generate_free(g);
}
END_TEST

int main(void) {
    return run_tests("model generate", setup, end_with_folders,
                     TESTS(TEST(greedy_ids), TEST(penalties_of_negative_logits), TEST(draws),
                           TEST(ends_of_rows), TEST(stop_texts),
                           TEST(a_stop_text_behind_a_long_text), TEST(a_token_that_is_added),
                           TEST(heads_of_another_size), TEST(a_larger_vocabulary),
                           TEST(in_training), TEST(log_probabilities), LOOP(rows_that_go_on, 8),
                           TEST(rows_that_cannot_go_on), TEST(stop_texts_of_a_row_that_goes_on)));
}
