/* The parts of programs/finetune: rows, batches, the order of rows, and the folder that is written.
 * test_documents.c has the documents; tests/examples/check runs the program. */
#include "byte_documents.h"
#include "programs/finetune_memory.h"
#include "programs/finetune_out.h"
#include "tests/support/remove_tree.h"

#include <math.h>

static void teardown_folders(void) {
    remove_tree(in_folder("out"));
    teardown();
}

/* ---- rows ---- */

static int64_t length_of(const rows *r, int64_t row) {
    int64_t n = 0;
    for (int64_t p = r->first[row]; p < r->first[row + 1]; p++) n += r->pieces[p].length;
    return n;
}

START_TEST(packing) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    /* lengths 7, 3, 5, 5, 2, 1 and 23; the document of one token has no target */
    documents d =
        read_lengths(tokenizer, "aaaaaaa\nbbb\nccccc\nddddd\nee\nf\nggggggggggggggggggggggg");
    rows r = rows_make(&d, 10, true);
    ck_assert_int_eq(r.dropped, 1);
    ck_assert_int_eq(r.cut, 0);
    ck_assert_int_eq(r.tokens, 45);
    ck_assert_int_eq(r.n, 5); /* 10, 10, 7 + 3, 5 + 5, 3 + 2 */
    int full = 0;
    int64_t learned = 0;
    for (int64_t i = 0; i < r.n; i++) {
        ck_assert_int_le(length_of(&r, i), 10);
        full += length_of(&r, i) == 10;
        learned += r.learned[i];
    }
    ck_assert_int_eq(full, 4);
    ck_assert_int_eq(learned, 45 - 6); /* the last token of each document has no target */
    ck_assert_int_eq(r.all_learned, learned);
    rows_free(&r);
    r = rows_make(&d, 10, false);
    ck_assert_int_eq(r.n, 8);
    for (int64_t i = 0; i < r.n; i++) ck_assert_int_eq(r.first[i + 1] - r.first[i], 1);
    rows_free(&r);
    documents_free(&d);
}
END_TEST

/* Every token of many random documents is in one row, once. */
START_TEST(all_tokens) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    static char text[60000];
    size_t size = 0;
    for (int i = 0; i < 500; i++) {
        const int64_t n = 2 + ct_random_below(context, 80);
        for (int64_t k = 0; k < n; k++) text[size++] = (char)('a' + ct_random_below(context, 26));
        text[size++] = '\n';
    }
    text[size] = 0;
    documents d = read_lengths(tokenizer, text);
    rows r = rows_make(&d, 37, true);
    char *seen = calloc((size_t)d.n, 1);
    int64_t tokens = 0;
    for (int64_t p = 0; p < r.first[r.n]; p++)
        for (int64_t t = 0; t < r.pieces[p].length; t++, tokens++)
            ck_assert_int_eq(seen[r.pieces[p].begin + t]++, 0);
    for (int64_t i = 0; i < r.n; i++) ck_assert(length_of(&r, i) <= 37 && r.learned[i] > 0);
    for (int64_t t = 0; t < d.n; t++) ck_assert(seen[t] || d.targets[t] == -100);
    ck_assert_int_eq(tokens, r.tokens);
    ck_assert((double)tokens > 0.95 * 37 * (double)r.n); /* rows are nearly full */
    free(seen);
    rows_free(&r);
    documents_free(&d);
}
END_TEST

START_TEST(long_conversations) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    const documents_opts opts = {
        .tokenizer = tokenizer, .end_id = 0, .chat = {.chat_template = "chatml"}};
    const char *path = put_text(
        "a.jsonl", "{\"messages\": [{\"role\": \"assistant\", \"content\": \"123456789\"}]}\n"
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"1\"}]}\n"
                   "{\"text\": \"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\"}\n");
    documents d = documents_read(context, path, &opts);
    rows r = rows_make(&d, 30, false); /* the words of the assistant begin at token 22 */
    ck_assert_int_eq(r.cut, 1);
    ck_assert_int_eq(r.dropped, 1);
    ck_assert_int_eq(r.n, 3);
    ck_assert_int_eq(r.learned[0], 9);
    ck_assert_int_eq(r.learned[1], 30); /* the text is cut into two rows and loses nothing */
    ck_assert_int_eq(r.learned[2], 22);
    rows_free(&r);
    documents_free(&d);
}
END_TEST

/* ---- batches ---- */

static const char *const configs[] = {
    "{\"model_type\": \"llama\", \"vocab_size\": 257, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 64}",
    "{\"model_type\": \"gpt2\", \"vocab_size\": 257, \"n_embd\": 16, \"n_layer\": 2, "
    "\"n_head\": 4, \"n_positions\": 64, \"attn_pdrop\": 0, \"resid_pdrop\": 0, \"embd_pdrop\": "
    "0}"};

static ct_module *new_lm(int i, ct_dtype dtype) {
    ct_module *lm = ct_lm_new(context, configs[i], (ct_lm_opts){.dtype = dtype});
    ck_assert_msg(lm != NULL, "%s", ct_error_message(context));
    return lm;
}

/* The sum of the losses of rows, each in a batch of its own if apart. */
static double loss_of(ct_module *lm, const rows *r, bool apart) {
    int64_t which[64];
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++) which[i] = i;
    for (int64_t i = 0; i < r->n; i += apart ? 1 : r->n) {
        const row_batch b = rows_batch(context, r, which + i, apart ? 1 : r->n);
        const ct_cross_entropy_opts opts = {.reduction = CT_SUM};
        sum += ct_item(ct_lm_loss(lm, b.ids, b.targets, b.call, opts));
    }
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
    return sum;
}

/* Documents that share a row have the loss that each has in a row of its own. */
START_TEST(packed_rows_are_separate) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    documents d =
        read_lengths(tokenizer, "hello\nhallo welt\nabc\nxy\nxyxyxyxyxyxy\nq r s\nthe fox\n");
    rows packed = rows_make(&d, 20, true), separate = rows_make(&d, 20, false);
    ck_assert_int_lt(packed.n, separate.n);
    ck_assert_int_eq(packed.all_learned, separate.all_learned);
    ct_module *lm = new_lm(_i, CT_F64);
    ct_param param = {0};
    while (ct_module_next(lm, &param)) ct_init_normal(param.tensor, 0.2, 0.5);
    const double a = loss_of(lm, &packed, false), b = loss_of(lm, &separate, true),
                 c = loss_of(lm, &separate, false), e = loss_of(lm, &packed, true);
    ck_assert_msg(fabs(a - b) < 1e-9 * b && fabs(c - b) < 1e-9 * b && fabs(e - b) < 1e-9 * b,
                  "%.12g %.12g %.12g %.12g", a, b, c, e);
    rows_free(&packed);
    rows_free(&separate);
    documents_free(&d);
}
END_TEST

START_TEST(orders) {
    const rows r = {.n = 50};
    row_order order = {.rows = &r, .seed = 3}, again = {.rows = &r, .seed = 3},
              other = {.rows = &r, .seed = 4};
    int same_epoch = 0, same_seed = 0;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int seen[50] = {0};
        for (int64_t i = 0; i < 50; i++) seen[row_at(&order, 50 * epoch + i)]++;
        for (int i = 0; i < 50; i++) ck_assert_int_eq(seen[i], 1);
    }
    for (int64_t i = 0; i < 50; i++) {
        const int64_t row = row_at(&order, i);
        same_epoch += row == row_at(&again, 50 + i);
        same_seed += row == row_at(&other, i);
    }
    for (int64_t i = 149; i >= 0; i--) ck_assert_int_eq(row_at(&order, i), row_at(&again, i));
    ck_assert(same_epoch < 10 && same_seed < 10);
    free(order.order);
    free(again.order);
    free(other.order);
}
END_TEST

/* ---- the result ---- */

static void train_steps(ct_module *lm, const rows *r, int steps, double *first, double *last) {
    ct_optim *optim = ct_adamw_new(lm, (ct_adamw_opts){.lr = 2e-2});
    ck_assert_msg(optim != NULL, "%s", ct_error_message(context));
    int64_t which[64];
    for (int64_t i = 0; i < r->n; i++) which[i] = i;
    for (int step = 0; step < steps; step++) {
        const row_batch b = rows_batch(context, r, which, r->n);
        ct_tensor *loss = ct_lm_loss(lm, b.ids, b.targets, b.call, (ct_cross_entropy_opts){0});
        ct_backward(loss);
        ct_optim_step(optim);
        ct_optim_zero_grad(optim);
        *last = ct_item(loss);
        if (!step) *first = *last;
    }
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

/* Adapters beside f32 and bf16 learn; the folder has them, and loaded they give the same logits. */
START_TEST(adapters_out) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    documents d = read_lengths(tokenizer, "aaaa\naaaaaaaa\naaa\n");
    rows r = rows_make(&d, 16, true);
    const ct_dtype dtype = _i ? CT_BF16 : CT_F32;
    ct_module *lm = new_lm(0, dtype);
    const char *base = in_folder("base.safetensors");
    ck_assert(ct_save(lm, base, (ct_save_opts){0}));
    ck_assert_int_gt(ct_lora_add(lm, "*layers.*", (ct_lora_opts){.rank = 4, .alpha = 32}), 0);
    double first = 0, last = 0;
    train_steps(lm, &r, 30, &first, &last);
    ck_assert_msg(last < first - 0.2, "%g and then %g", first, last);
    const char *out = in_folder("out");
    ck_assert(!result_check(out, false));
    result_save(&(result){.context = context, .lm = lm, .adapters = true}, out);
    ck_assert(!ct_error(context));
    ct_module *again = new_lm(0, dtype);
    ck_assert(ct_load(again, base, (ct_load_opts){0}));
    ck_assert_msg(ct_lora_load(again, out), "%s", ct_error_message(context));
    ct_module_train(again, false);
    ct_module_train(lm, false);
    const double a = loss_of(lm, &r, false), b = loss_of(again, &r, false);
    ck_assert_msg(a == b, "%.9g and %.9g", a, b);
    rows_free(&r);
    documents_free(&d);
}
END_TEST

START_TEST(model_out) {
    ct_module *lm = new_lm(0, CT_F32);
    const char *out = in_folder("out");
    result_save(&(result){.context = context, .lm = lm}, out);
    ct_module *again = ct_lm_open(context, out, (ct_lm_opts){0});
    ck_assert_msg(again != NULL, "%s", ct_error_message(context));
    ck_assert(same(lm, again));
    char path[300];
    snprintf(path, sizeof path, "%s.unfinished", out);
    ck_assert_ptr_null(opendir(path));
}
END_TEST

/* The estimate grows with the tokens and the parameters that are trained. */
START_TEST(memory) {
    ct_module *lm = new_lm(0, CT_F32);
    const memory_opts opts = {
        .tokens = 128, .length = 64, .learned = 1, .micro_batches = 1, .shares = 1, .ranks = 1};
    memory_opts larger = opts;
    larger.tokens = 1280;
    const memory_estimate a = memory_estimate_of(context, lm, opts),
                          b = memory_estimate_of(context, lm, larger);
    const double numbers = 4 * (double)ct_module_count(lm);
    ck_assert(a.gradients == numbers && a.optimiser == 2 * numbers && a.weights >= numbers);
    ck_assert(b.activations > 6 * a.activations && b.activations < 12 * a.activations);
    ck_assert(memory_sum(&b) > memory_sum(&a));
    for (ct_param p = {0}; ct_module_next(lm, &p);) ck_assert_ptr_null(ct_grad(p.tensor));
}
END_TEST

/* The estimate of a model with many ids, whose loss computes large blocks of logits, is what a
 * micro-batch of this size takes. */
START_TEST(memory_of_many_ids) {
    enum { ROWS = 12, T = 128 };
    ct_module *lm = ct_lm_new(context,
                              "{\"model_type\": \"llama\", \"vocab_size\": 20000, "
                              "\"hidden_size\": 32, \"intermediate_size\": 64, "
                              "\"num_hidden_layers\": 3, \"num_attention_heads\": 2, "
                              "\"max_position_embeddings\": 256}",
                              (ct_lm_opts){0});
    const memory_opts opts = {
        .tokens = ROWS * T, .length = T, .learned = 1, .micro_batches = 2, .shares = 1, .ranks = 1};
    const memory_estimate m = memory_estimate_of(context, lm, opts);
    ct_tensor *ids = ct_zeros(context, CT_I64, CT_SHAPE(ROWS, T)),
              *targets = ct_full(context, CT_I64, CT_SHAPE(ROWS, T), 1);
    for (int i = 0; i < 2; i++) { /* the second has the gradients of the first */
        ct_scope scope = ct_scope_open(context);
        const double before = (double)ct_memory(context).live;
        ct_memory_reset_peak(context);
        ct_backward(ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0}));
        ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
        const double taken = (double)ct_memory(context).peak - before;
        ct_scope_close(scope);
        ck_assert_msg(i == 0 || fabs(m.activations / taken - 1) < 0.05, "%.0f for %.0f",
                      m.activations, taken);
    }
}
END_TEST

int main(void) {
    return run_tests("finetune", setup, teardown_folders,
                     TESTS(TEST(packing), TEST(all_tokens), TEST(long_conversations),
                           LOOP(packed_rows_are_separate, 2), TEST(orders), LOOP(adapters_out, 2),
                           TEST(model_out), TEST(memory), TEST(memory_of_many_ids)));
}
