/* Sentence vectors of the texts of a file, as a NumPy file or, with --search, the nearest texts: by
 * a folder of sentence-transformers or any other model of a Hugging Face folder. */
#include "common.h"
#include "embed_texts.h"
#include "system.h"
#include "weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *out, *prompt, *search, *query_prompt;
    long long top, dims, batch, threads, dtype, ignore_unknown;
} option = {.top = 5, .batch = 32};

static ct_context *context;
static ct_tokenizer *tokenizer;
static ct_module *lm;

/* ---- prompts ---- */

/* The text of a prompt: of the flag's name, else of the first of the usual names that the folder
 * has, else the folder's default; "" without any. */
static const char *prompt_of(const char *option_name, const char *named, const char *const *usual) {
    const char *text = named && *named ? ct_lm_prompt(lm, named) : NULL;
    check(context, EXIT_USAGE);
    if (named && *named && !text)
        fail(EXIT_USAGE, "--%s: the folder has no prompt \"%s\"", option_name, named);
    for (; !named && !text && usual && *usual; usual++) text = ct_lm_prompt(lm, *usual);
    if (!named && !text) text = ct_lm_prompt(lm, NULL);
    check(context, EXIT_USAGE);
    return text ? text : "";
}

/* The tokens of a prompt with those of the post-processor before it. */
static int64_t prompt_tokens(const char *prompt) {
    texts t = {0};
    texts_add(&t, "", prompt, strlen(prompt), 1);
    const char *text = *t.text;
    const size_t size = strlen(text);
    const int64_t n = ct_encode(tokenizer, text, size, (ct_encode_opts){0}, NULL, NULL, 0);
    int64_t *ids = malloc(sizeof *ids * 3 * (size_t)(n > 0 ? n : 1)), count = 0;
    if (n < 0 || !ids) fail(EXIT_FAILED, "out of memory");
    ct_encode(tokenizer, text, size, (ct_encode_opts){0}, ids, ids + n, n);
    for (int64_t i = 0; i < n; i++)
        if (ids[n + 2 * i + 1]) count = i + 1; /* no token of the post-processor */
    free(ids);
    texts_free(&t);
    return count;
}

/* ---- vectors ---- */

/* Computes the vectors of some texts, rows [first, first + n) of the order, into out[, dim]. */
static void embed_batch(const texts *t, const int64_t *order, int64_t n, int64_t tokens,
                        vectors *out) {
    const char **text = malloc(sizeof *text * (size_t)n);
    if (!text) fail(EXIT_FAILED, "out of memory");
    for (int64_t i = 0; i < n; i++) text[i] = t->text[order[i]];
    ct_scope scope = ct_scope_open_no_grad(context);
    const int64_t longest = ct_lm_about(lm).max_length;
    const ct_batch batch = ct_encode_batch(
        tokenizer, text, NULL, n, (ct_batch_opts){.max_length = longest > 0 ? longest : 0});
    check(context, EXIT_USAGE);
    ct_tensor *y = ct_lm_forward(
        lm, batch.ids,
        (ct_lm_call){.key_mask = batch.mask, .result = CT_LM_EMBED, .prompt_tokens = tokens});
    check(context, EXIT_USAGE);
    const int64_t dim = ct_dim(y, 1);
    if (option.dims > dim)
        fail(EXIT_USAGE, "--dims %lld: a vector has %lld", option.dims, (long long)dim);
    if (option.dims) y = ct_normalize(ct_narrow(y, 1, 0, option.dims), 2, 1, 1e-12);
    y = ct_contiguous(y);
    check(context, EXIT_FAILED);
    vectors_put(out, order, n, option.dims ? option.dims : dim, ct_data_f32(y));
    ct_scope_close(scope);
    free(text);
}

/* The vectors of all texts, in batches of texts that have about as many tokens. */
static vectors embed_all(const texts *t, const char *prompt) {
    vectors out = {.n = t->n};
    int64_t *order = texts_order(t, tokenizer);
    const int64_t tokens = prompt_tokens(prompt);
    progress bar = {.total = t->n, .per_step = 1, .unit = "texts/s", .begun = now()};
    for (int64_t i = 0; i < t->n && !interrupted(); i += option.batch) {
        const int64_t n = t->n - i < option.batch ? t->n - i : option.batch;
        embed_batch(t, order + i, n, tokens, &out);
        if (!option.search) progress_show(&bar, i + n, "vectors");
    }
    if (!option.search) progress_end();
    if (interrupted()) fail(interrupt_exit(), "interrupted: nothing is written");
    free(order);
    return out;
}

/* ---- the search ---- */

typedef struct {
    double score;
    int64_t at;
} found;

static int by_score(const void *a, const void *b) {
    const found *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static double length_of(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum > 0 ? sqrt(sum) : 1;
}

/* Prints the texts with the largest cosines: "0.8123	line	text". */
static void print_nearest(const texts *t, const vectors *all, const vectors *query) {
    found *score = malloc(sizeof *score * (size_t)all->n);
    if (!score) fail(EXIT_FAILED, "out of memory");
    const double unit = length_of(query->at, query->dim);
    for (int64_t i = 0; i < all->n; i++) {
        const float *x = all->at + i * all->dim;
        double sum = 0;
        for (int64_t k = 0; k < all->dim; k++) sum += (double)x[k] * (double)query->at[k];
        score[i] = (found){sum / (unit * length_of(x, all->dim)), i};
    }
    qsort(score, (size_t)all->n, sizeof *score, by_score);
    for (int64_t i = 0; i < all->n && i < option.top; i++)
        printf("%.4f\t%lld\t%s\n", score[i].score, (long long)t->line[score[i].at],
               t->shown[score[i].at]);
    free(score);
}

static void search(const texts *t, const vectors *all) {
    static const char *const queries[] = {"query", NULL};
    texts query = {0};
    const char *prompt = prompt_of("query-prompt", option.query_prompt, queries);
    texts_add(&query, prompt, option.search, strlen(option.search), 1);
    vectors own = embed_all(&query, prompt);
    print_nearest(t, all, &own);
    free(own.at);
    texts_free(&query);
}

/* ---- the program ---- */

static void open_all(const char *folder) {
    const ct_lm_opts opts = {.dtype = weights_dtype(context, folder, "dtype", option.dtype),
                             .ignore_unknown = option.ignore_unknown};
    tokenizer = ct_tokenizer_open(context, folder);
    check(context, EXIT_USAGE);
    if (ct_tokenizer_note(tokenizer)) warn("%s", ct_tokenizer_note(tokenizer));
    lm = ct_lm_open(context, folder, opts);
    check(context, EXIT_USAGE);
}

static int embed_file(char *path) {
    static const char *const documents[] = {"document", "passage", "corpus", NULL};
    const char *prompt = prompt_of("prompt", option.prompt, option.search ? documents : NULL);
    texts t = texts_read(context, path, prompt);
    const double begun = now();
    catch_interrupts();
    vectors all = embed_all(&t, prompt);
    const double took = now() - begun;
    if (option.search) search(&t, &all);
    if (option.out) vectors_write(&all, option.out);
    if (option.out && !option.search)
        printf("%s: %lld vector%s of %lld numbers, in %.1f s; up to %.0f MB of memory\n",
               option.out, (long long)all.n, PLURAL(all.n), (long long)all.dim, took,
               system_peak_memory() * 1e-6);
    free(all.at);
    texts_free(&t);
    return 0;
}

/* The path of the file of vectors beside a file of texts. */
static const char *npy_beside(const char *path) {
    char name[1024];
    if (snprintf(name, sizeof name, "%s.npy", path) >= (int)sizeof name)
        fail(EXIT_USAGE, "the path %s is too long", path);
    return output_path(NULL, name);
}

int main(int argc, char **argv) {
    const flag flags[] = {
        flag_text(
            "out", &option.out, "FILE.npy",
            "file for the vectors, a NumPy array (texts, dims) of float32; default: FILE.npy, "
            "or with --search none"),
        flag_text(
            "prompt", &option.prompt, "NAME",
            "the folder's prompt before each text; \"\": none; default: the folder's default, "
            "or with --search its document"),
        flag_integer("dims", &option.dims, 0, 1e6,
                     "only the first N numbers of each vector, of length 1 again (Matryoshka); 0: "
                     "all"),
        flag_integer("batch", &option.batch, 1, 1e5, "texts that are computed at once"),
        flag_heading("The nearest texts"),
        flag_text("search", &option.search, "TEXT",
                  "print the texts that are nearest to this one: the cosine, the line, the text"),
        flag_integer("top", &option.top, 1, 1e9, "number of these texts"),
        flag_text("query-prompt", &option.query_prompt, "NAME",
                  "the folder's prompt before TEXT; default: query, if the folder has it"),
        flag_heading("The model"),
        flag_weights("dtype", &option.dtype,
                     "what weights are kept in; default: what most of the file's matrices are in"),
        flag_switch("ignore-unknown", &option.ignore_unknown,
                    "keys of the folder's JSON files that no model has are no error"),
        flag_integer("threads", &option.threads, 0, 1024,
                     "number of threads; 0: one for each core"),
    };
    const char *usage =
        "FOLDER|MODEL.gguf FILE [flags]\n\nWrites the sentence vectors of texts, or prints the "
        "texts that are nearest to one.\nA text is a line of a file, or an object {\"text\": ...} "
        "of a .jsonl file.\n\nThe vectors:";
    if (read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage) != 2)
        fail_usage("a folder of a model and a file of texts are needed");
    input_paths(1, argv + 2);
    if (option.out) option.out = output_path(NULL, option.out);
    else if (!option.search) option.out = npy_beside(argv[2]);
    context = ct_context_new((ct_context_opts){.threads = (int)option.threads});
    check(context, EXIT_USAGE);
    open_all(argv[1]);
    const int code = embed_file(argv[2]);
    ct_context_free(context);
    return code;
}
