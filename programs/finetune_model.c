/* The model and the data of finetune; see finetune.h. */
#include "finetune.h"
#include "system.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

/* Gives the model a row for each id of the tokenizer. */
static void grow_model(const tuning *t) {
    const long long ids = ct_tokenizer_size(t->tokenizer);
    const long long before = ct_lm_about(t->lm).vocab_size;
    if (ids <= before) return;
    if (is_lora() && !option.merge)
        fail(EXIT_USAGE,
             "the tokenizer has %lld ids and the model %lld rows: new rows are no part of an "
             "adapter, so use --merge or --full",
             ids, before);
    ct_lm_resize(t->lm, ids);
    check(t->context, EXIT_FAILED);
    printf("The tokenizer has %lld ids and the model had %lld rows: it gets new ones\n", ids,
           before);
}

/* What weights are kept in. Those that are trained are f32, and so are those of a folder unless a
 * flag says otherwise. */
static ct_dtype dtype_of_weights(const tuning *t, const char *path) {
    if (option.full || (!option.base && !is_gguf(path))) return CT_F32;
    return weights_dtype(t->context, path, "base", option.base);
}

static void open_model(tuning *t, const char *folder) {
    t->weights = dtype_of_weights(t, folder);
    const ct_lm_opts opts = {.dtype = t->weights,
                             .recompute = option.recompute,
                             .ignore_unknown = option.ignore_unknown};
    if (option.task) labels_open_model(t, folder, opts);
    else t->lm = ct_lm_open(t->context, folder, opts);
    check(t->context, EXIT_USAGE);
    const ct_lm_info about = ct_lm_about(t->lm);
    if (!about.causal && !option.task)
        fail(EXIT_USAGE, "%s is a %s, which does not predict the next token", folder, about.family);
    const long long longest = about.max_length;
    if (!flag_was_read("length") && longest > 0 && option.length > longest) option.length = longest;
    if (longest > 0 && option.length > longest)
        fail(EXIT_USAGE, "--length %lld is more than the model's %lld tokens", option.length,
             longest);
    grow_model(t);
}

/* Adds adapters to the Linears that match one of the patterns, with commas and spaces between them.
 * A name as PEFT has it, without dots and *, stands for all paths that end in it. */
static void add_adapters(tuning *t) {
    static const char between[] = ", ";
    const bool gpt2 = !strcmp(ct_lm_about(t->lm).family, "gpt2");
    const char *at = option.targets ? option.targets : "all-linear";
    head_modules head = {0};
    if (option.task) labels_head(t, &head);
    const ct_lora_opts opts = {.rank = option.rank,
                               .alpha = option.alpha,
                               .dropout = option.dropout,
                               .modules_to_save = head.name,
                               .n_modules_to_save = head.n};
    at += strspn(at, between);
    if (!*at) fail(EXIT_USAGE, "--targets names no Linear");
    while (*at) {
        const int length = (int)strcspn(at, between);
        char name[250], pattern[256];
        snprintf(name, sizeof name, "%.*s", length, at);
        const bool all = !strcmp(name, "all-linear");
        if (all) snprintf(pattern, sizeof pattern, "%s", gpt2 ? "*h.*" : "*layer*.*");
        else snprintf(pattern, sizeof pattern, "%s%s", strpbrk(name, ".*?") ? "" : "*.", name);
        ct_lora_add(t->lm, pattern, opts);
        check(t->context, EXIT_USAGE);
        at += length;
        at += strspn(at, between);
    }
}

/* ---- the data ---- */

static rows make_rows(const documents *d, const char *path) {
    rows r = rows_make(d, option.length, !option.padded);
    if (!r.n) fail(EXIT_USAGE, "%s has no token that the loss could count", path);
    if (r.cut)
        printf("%lld document%s longer than %lld tokens and lose%s the end (--length)\n",
               (long long)r.cut, r.cut == 1 ? " is" : "s are", option.length,
               r.cut == 1 ? "s" : "");
    if (d->dropped)
        printf(
            "%lld pair%s left out, as an answer begins behind the first %lld tokens (--length)\n",
            (long long)d->dropped, d->dropped == 1 ? " is" : "s are", option.length);
    if (r.dropped)
        printf("%lld document%s left out, as the loss would count none of the tokens\n",
               (long long)r.dropped, r.dropped == 1 ? " is" : "s are");
    printf("%s: %lld document%s, %lld token%s, of which the loss counts %lld; %lld row%s of %lld, "
           "%.0f %% full\n",
           path, (long long)d->count, PLURAL(d->count), (long long)r.tokens, PLURAL(r.tokens),
           (long long)r.all_learned, (long long)r.n, PLURAL(r.n), option.length,
           100 * (double)r.tokens / ((double)r.n * (double)option.length));
    chat_tally_print(&d->chats);
    return r;
}

/* The end of a turn should be one token, because generation ends with a token. Returns whether
 * tokens of a built-in template were added to the tokenizer. Their rows are trained, which needs
 * --full. */
static bool add_chat_tokens(tuning *t) {
    t->end_of_turn = -1;
    if (!t->documents.chats.conversations && !t->held_documents.chats.conversations) return false;
    const char *end = chat_missing_end(t->tokenizer, &t->form);
    if (end && is_lora())
        fail(EXIT_USAGE,
             "the tokenizer has no token %s, which ends a turn of this template: --full adds it "
             "and trains its row, and adapters cannot; or use a template whose end it has "
             "(zephyr's turns end with eos_token)",
             end);
    if (end) {
        chat_add_tokens(t->context, t->tokenizer, &t->form);
        t->has_new_tokens = true;
        grow_model(t);
    }
    t->end_of_turn = ct_chat_end(t->tokenizer, t->form.opts);
    return end != NULL;
}

static void read_documents(tuning *t) {
    const ct_lm_info about = ct_lm_about(t->lm);
    documents_opts opts = {.tokenizer = t->tokenizer,
                           .end_id = ct_token_role(t->tokenizer, "eos_token"),
                           .separator = option.separator,
                           .plain = option.plain,
                           .format = (int)option.format,
                           .chat = t->form.opts,
                           .preferences = is_preferences(),
                           .length = option.length};
    if (opts.end_id < 0 && about.n_eos) opts.end_id = about.eos[0];
    t->documents = documents_read(t->context, option.data, &opts);
    if (option.valid) t->held_documents = documents_read(t->context, option.valid, &opts);
}

static void read_labelled(tuning *t) {
    t->end_of_turn = -1;
    const ct_lm_info about = ct_lm_about(t->lm);
    if (option.valid) {
        t->held_labelled = labelled_read(option.valid, (labelled_task)option.task);
        if (t->held_labelled.kind != t->labelled.kind)
            fail(EXIT_USAGE, "%s has labels of another kind than %s", option.valid, option.data);
        labelled_resolve(&t->held_labelled, about.label_names, about.labels);
    } else {
        t->held_labelled = labelled_hold_out(&t->labelled, option.hold_out);
    }
    t->documents = label_documents(t->tokenizer, &t->labelled, option.length, option.plain);
    t->held_documents =
        label_documents(t->tokenizer, &t->held_labelled, option.length, option.plain);
}

static void read_texts(tuning *t) {
    read_documents(t);
    if (add_chat_tokens(t)) {
        documents_free(&t->documents);
        documents_free(&t->held_documents);
        read_documents(t);
    }
    if (!option.valid && option.hold_out > 0)
        t->held_documents = documents_hold_out(&t->documents, option.hold_out);
}

static void read_data(tuning *t) {
    if (option.task) read_labelled(t);
    else read_texts(t);
    if (!t->documents.count) fail(EXIT_USAGE, "%s has no text to train on", option.data);
    t->rows = make_rows(&t->documents, option.data);
    if (t->held_documents.count)
        t->held = make_rows(&t->held_documents, option.valid ? option.valid : "held out");
    else if (option.hold_out > 0)
        fail(EXIT_USAGE, "--hold-out %g of %lld document%s is none", option.hold_out,
             (long long)t->documents.count, PLURAL(t->documents.count));
    t->order = (row_order){.rows = &t->rows, .seed = (uint64_t)option.seed};
    const int64_t units = rows_units(&t->rows);
    if (!flag_was_read("batch") && option.batch > units) option.batch = units;
    const long long per_step = option.batch * option.accumulate;
    if (!option.steps) option.steps = (option.epochs * units + per_step - 1) / per_step;
}

/* A folder of adapters cannot be trained: it is no whole model. */
static void refuse_adapters(const char *folder) {
    char path[4200];
    system_file adapters, config;
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    const bool has_adapters = system_find_file(path, &adapters) && adapters.exists;
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (has_adapters && !(system_find_file(path, &config) && config.exists))
        fail(EXIT_USAGE,
             "%s has adapters, and no whole model: name their base, or train with --merge", folder);
}

/* The clocks of ranks differ, and their texts must not. */
static void refuse_clocks(const tuning *t, const run *r) {
    static const char *const names[] = {"default", "tool_use"};
    for (int i = 0; i < 2 && ct_comm_size(r->world) > 1 && !option.chat.date; i++) {
        const char *text = ct_chat_template(t->tokenizer, names[i]);
        if (text && strstr(text, "strftime_now"))
            fail(EXIT_USAGE, "the template writes the date, which all ranks need: --date DATE");
    }
}

void finetune_open(tuning *t, const run *r, const char *folder) {
    refuse_adapters(folder);
    t->tokenizer = ct_tokenizer_open(t->context, folder);
    check(t->context, EXIT_USAGE);
    if (ct_tokenizer_note(t->tokenizer) && !ct_comm_rank(r->world))
        warn("%s", ct_tokenizer_note(t->tokenizer));
    t->form = chat_form_read(t->context, t->tokenizer, &option.chat, (int64_t)t->date);
    refuse_clocks(t, r);
    open_model(t, folder);
    if (is_lora()) add_adapters(t);
    read_data(t);
}
