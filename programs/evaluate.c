/* Tells how well a language model does on data: perplexity of texts, the loss of an assistant's
 * words, or the share of questions whose right choice it finds most probable; and how well a
 * classifier tells labels. Two models are compared on the same data.
 *
 *     evaluate SmolLM2-135M --data held_out.txt
 *     evaluate adapter --data questions.jsonl --against SmolLM2-135M --json result.json
 *
 * One model is in memory at a time, and rows run in batches. */
#include "evaluate.h"
#include "model_path.h"
#include "system.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

evaluate_options option = {.batch = 8};

/* ---- units and rows ---- */

scored *evaluation_add(evaluation *e) {
    if (e->n == e->room) {
        e->room = 2 * e->n + 64;
        e->unit = room_for(e->unit, (size_t)e->room, sizeof *e->unit);
    }
    e->unit[e->n] = (scored){0};
    return &e->unit[e->n++];
}

void score_rows_add(score_rows *set, score_row row) {
    if (set->n == set->room) {
        set->room = 2 * set->n + 64;
        set->row = room_for(set->row, (size_t)set->room, sizeof *set->row);
    }
    set->row[set->n++] = row;
}

/* ---- running ---- */

static int by_length(const void *a, const void *b) {
    const score_row *x = *(score_row *const *)a, *y = *(score_row *const *)b;
    if (x->length != y->length) return x->length < y->length ? 1 : -1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Whether the target of place t of a row counts. That of the last place is in no window. */
static bool is_counted(const score_rows *set, const score_row *row, int64_t t) {
    return t >= row->from && t + 1 < row->length && set->targets[row->begin + t] >= 0;
}

/* Runs n rows, of which the first is the longest. Padding stands behind the tokens, so a causal
 * model needs no mask. */
static void run_batch(const evaluation *e, const score_rows *set, score_row *const *row,
                      int64_t n) {
    const int64_t T = row[0]->length;
    ct_scope scope = ct_scope_open_no_grad(e->context);
    ct_tensor *ids = ct_zeros(e->context, CT_I64, CT_SHAPE(n, T)),
              *targets = ct_full(e->context, CT_I64, CT_SHAPE(n, T), -100);
    int64_t *id = ids ? ct_data_i64(ids) : NULL, *target = targets ? ct_data_i64(targets) : NULL;
    check(e->context, EXIT_FAILED);
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < row[i]->length; t++) {
            id[i * T + t] = set->ids[row[i]->begin + t];
            if (!is_counted(set, row[i], t)) continue;
            target[i * T + t] = set->targets[row[i]->begin + t];
            row[i]->tokens++;
        }
    ct_tensor *losses = ct_lm_loss(e->lm, ids, targets, (ct_lm_call){0},
                                   (ct_cross_entropy_opts){.reduction = CT_NONE});
    const float *nats = losses ? ct_data_f32(ct_contiguous(losses)) : NULL;
    check(e->context, EXIT_FAILED);
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < row[i]->length; t++)
            if (is_counted(set, row[i], t)) row[i]->nats += (double)nats[i * T + t];
    ct_scope_close(scope);
}

void evaluation_run(evaluation *e, score_rows *set) {
    score_row **order = room_for(NULL, (size_t)set->n, sizeof *order);
    int64_t n = 0, tokens = 0, done = 0;
    for (int64_t i = 0; i < set->n; i++) { /* a row that predicts nothing is not run */
        bool any = false;
        for (int64_t t = set->row[i].from; t < set->row[i].length && !any; t++)
            any = is_counted(set, &set->row[i], t);
        if (!any) continue;
        order[n++] = &set->row[i];
        tokens += set->row[i].length;
    }
    qsort(order, (size_t)n, sizeof *order, by_length);
    progress p = {.total = tokens, .per_step = 1, .unit = "tokens/s", .begun = now()};
    catch_interrupts();
    for (int64_t i = 0; i < n && !interrupted(); i += option.batch) {
        const int64_t k = n - i < option.batch ? n - i : option.batch;
        run_batch(e, set, order + i, k);
        for (int64_t j = i; j < i + k; j++) done += order[j]->length;
        if (system_is_terminal()) progress_show(&p, done, "tokens");
    }
    progress_end();
    free(order);
    e->seconds = now() - p.begun;
    if (interrupted()) exit(interrupt_exit());
}

/* ---- a model ---- */

/* What the data is: labels for a classifier, and otherwise by its first line. */
static data_kind kind_of_data(ct_context *context, const ct_lm_info *about) {
    if (about->labels) return DATA_LABELS;
    const documents_opts opts = {.format = (int)option.format};
    if (!documents_are_json(option.data, &opts)) return DATA_TEXTS;
    ct_json_line line;
    ct_json_lines *lines = ct_json_lines_open(context, option.data);
    const bool any = ct_json_lines_next(lines, &line);
    check(context, EXIT_USAGE);
    if (!any) fail(EXIT_USAGE, "%s has no line", option.data);
    const data_kind kind = line.choices ? DATA_CHOICES : DATA_TEXTS;
    ct_json_lines_close(lines);
    return kind;
}

/* The names in the list of --labels, which has commas between them. */
static const char **label_name; /* [n_label_names], for the whole run */
static int64_t n_label_names;

static void read_label_names(void) {
    if (!option.labels) return;
    if (!option.task) fail(EXIT_USAGE, "--labels needs --task");
    const size_t size = strlen(option.labels) + 1;
    char *text = room_for(NULL, size, 1);
    label_name = room_for(NULL, size, sizeof *label_name);
    memcpy(text, option.labels, size);
    for (char *at = strtok(text, ","); at; at = strtok(NULL, ",")) {
        at += strspn(at, " ");
        if (*at) label_name[n_label_names++] = at;
    }
    if (!n_label_names) fail(EXIT_USAGE, "--labels names no label");
}

/* The head of --task, for adapters whose base has none: they have its weights, but not the names of
 * its labels. */
static void open_head(ct_lm_opts *opts) {
    if (!option.task) return;
    opts->head = option.task == LABELLED_TOKENS ? CT_LM_HEAD_TOKEN : CT_LM_HEAD_SEQUENCE;
    opts->labels = n_label_names, opts->label_names = label_name;
}

/* Fails if a parameter is as it was drawn. What adapters bring requires a gradient, and the rest of
 * their model does not. */
static void check_drawn(const evaluation *e, const ct_lm_info *about, bool has_adapters) {
    for (ct_param p = {0}; about->n_drawn && ct_module_next(e->lm, &p);)
        for (int64_t i = 0; i < about->n_drawn; i++)
            if (!strcmp(p.name, about->drawn[i]) && !(has_adapters && ct_requires_grad(p.tensor)))
                fail(EXIT_USAGE, "%s has no %s, which --task needs", e->path, p.name);
}

static void open_model(evaluation *e) {
    e->context = ct_context_new((ct_context_opts){.threads = (int)option.threads,
                                                  .matmul = (ct_matmul_precision)option.matmul});
    check(e->context, EXIT_USAGE);
    const char *base = model_base(e->context, e->path, e->base);
    e->tokenizer = model_tokenizer(e->context, e->path, base);
    e->form = chat_form_read(e->context, e->tokenizer, &option.chat, cti_os_time());
    ct_lm_opts opts = {.dtype = weights_dtype(e->context, base, "dtype", option.dtype),
                       .ignore_unknown = option.ignore_unknown};
    open_head(&opts);
    e->lm = model_open(e->context, e->path, base, opts);
    if (e->adapter) ct_lora_load(e->lm, e->adapter);
    check(e->context, EXIT_USAGE);
    const ct_lm_info about = ct_lm_about(e->lm);
    if (!about.causal && !about.labels)
        fail(EXIT_USAGE,
             "%s is a %s, which does not predict the next token, and has no head that tells labels",
             e->path, about.family);
    check_drawn(e, &about, e->adapter || strcmp(e->path, base) != 0);
    e->kind = kind_of_data(e->context, &about);
}

/* Scores the data by the model, which is in memory no longer then. */
static void evaluate(evaluation *e) {
    open_model(e);
    switch (e->kind) {
    case DATA_TEXTS: evaluate_texts(e); break;
    case DATA_CHOICES: evaluate_choices(e); break;
    case DATA_LABELS: evaluate_labels(e); break;
    }
    ct_context_free(e->context);
    e->context = NULL, e->lm = NULL, e->tokenizer = NULL;
}

static void evaluation_free(evaluation *e) {
    free(e->unit);
    labelled_free(&e->labelled);
    label_scores_free(&e->scores);
}

/* ---- the program ---- */

int main(int argc, char **argv) {
    const flag flags[] = {
        flag_text("data", &option.data, "FILE",
                  "plain text, or JSON: texts, chats, prompts with completions, or questions with "
                  "choices; for a classifier labelled texts (JSON, CSV)"),
        flag_text("against", &option.against, "MODEL", "another model, for the same data"),
        flag_text("adapter", &option.adapter, "DIR", "adapters for the model"),
        flag_text("base", &option.base, "FOLDER",
                  "the model of adapters, in place of the one that they name"),
        flag_text("json", &option.json, "FILE", "where the figures go, as JSON"),
        flag_choice("format", &option.format, "text|json",
                    "what the data is; default: JSON if the file begins or is named so"),
        flag_heading("Texts and chats"),
        flag_integer("window", &option.window, 0, 1e6,
                     "tokens that are read at once; 0: 1024, or fewer if the model has fewer"),
        flag_integer("stride", &option.stride, 0, 1e6,
                     "tokens from one window to the next; 0: half a window"),
        flag_text("separator", &option.separator, "TEXT",
                  "text between documents of a plain text; default: one document"),
        flag_switch("plain", &option.plain,
                    "special tokens that are spelled in texts are ordinary text"),
        CHAT_FLAGS(option.chat),
        flag_heading("Questions"),
        flag_text("delimiter", &option.delimiter, "TEXT",
                  "stands between a question and each choice; default: nothing"),
        flag_switch("bos", &option.bos,
                    "the tokenizer's tokens stand before a question; default: only for Gemma"),
        flag_heading("Labelled texts"),
        flag_integer("length", &option.length, 0, 1e6,
                     "most tokens of a text; 0: 512, or fewer if the model has fewer"),
        flag_choice("task", &option.task, "classify|tag",
                    "the head of adapters whose base has none, as finetune has it"),
        flag_text("labels", &option.labels, "LIST",
                  "the labels of this head, in their order: good,bad"),
        flag_heading("The run"),
        flag_integer("batch", &option.batch, 1, MOST_ROWS, "rows that run at once"),
        flag_weights("dtype", &option.dtype,
                     "what weights are kept in; default: what most of the file's matrices are in"),
        flag_switch("ignore-unknown", &option.ignore_unknown,
                    "keys of the folder's config.json that no model has are no error"),
        flag_integer("threads", &option.threads, 0, 1024,
                     "number of threads; 0: one for each core"),
        flag_matmul(&option.matmul),
    };
    const char *usage = "FOLDER|FILE.gguf --data FILE [flags]\n\n"
                        "Tells how well a language model does on data, and which of two models "
                        "does better.\n\nThe data:";
    if (read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage) != 1)
        fail_usage("one folder or GGUF file of a model is needed");
    if (!option.data) fail_usage("no data: --data FILE");
    if (option.separator && !*option.separator) fail(EXIT_USAGE, "--separator is empty");
    read_label_names();
    input_paths(1, (char *[]){(char *)option.data});
    if (option.json) output_path(NULL, option.json);
    evaluation a = {.path = argv[1], .base = option.base, .adapter = option.adapter},
               b = {.path = option.against};
    evaluate(&a);
    if (option.against) evaluate(&b);
    evaluate_report(&a, option.against ? &b : NULL);
    evaluation_free(&a);
    evaluation_free(&b);
    return 0;
}
