/* The labels of finetune --task: a base becomes a classifier, and its rows have labels for targets;
 * see finetune.h. */
#include "finetune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

static const char *problem_of(labelled_kind kind) {
    switch (kind) {
    case LABELLED_ONE: break;
    case LABELLED_SEVERAL: return "multi_label_classification";
    case LABELLED_REAL: return "regression";
    }
    return "single_label_classification";
}

/* Opens the folder with its own labels, if it has a head of this kind, and otherwise with those of
 * the data. */
void labels_open_model(tuning *t, const char *folder, ct_lm_opts opts) {
    const labelled_task task = (labelled_task)option.task;
    t->labelled = labelled_read(option.data, task);
    const labelled_kind kind = t->labelled.kind;
    opts.head = task == LABELLED_TOKENS ? CT_LM_HEAD_TOKEN : CT_LM_HEAD_SEQUENCE;
    if (task == LABELLED_SEQUENCES) opts.problem_type = problem_of(kind);
    if (kind == LABELLED_REAL) opts.labels = 1;
    t->lm = ct_lm_open(t->context, folder, opts);
    check(t->context, EXIT_USAGE);
    ct_lm_info about = ct_lm_about(t->lm);
    const bool own = about.n_drawn == 0;
    labelled_resolve(&t->labelled, own && kind != LABELLED_REAL ? about.label_names : NULL,
                     own ? about.labels : 0);
    if (!own && kind != LABELLED_REAL) {
        if (t->labelled.n_names < 2)
            fail(EXIT_USAGE, "%s has one label only: there is nothing to tell apart", option.data);
        ct_module_free(t->lm);
        opts.labels = t->labelled.n_names;
        opts.label_names = (const char *const *)t->labelled.names;
        t->lm = ct_lm_open(t->context, folder, opts);
        check(t->context, EXIT_USAGE);
        about = ct_lm_about(t->lm);
    }
    printf("%s", kind == LABELLED_REAL ? "One number for each text" : "Labels:");
    for (int64_t i = 0; i < about.labels && kind != LABELLED_REAL; i++)
        printf("%s %s", i ? "," : "", about.label_names[i]);
    printf("%s", about.n_drawn ? "\nNot in the folder, and drawn:" : "\n");
    for (int64_t i = 0; i < about.n_drawn; i++) printf("%s %s", i ? "," : "", about.drawn[i]);
    if (about.n_drawn) printf("\n");
}

/* Adds the module of a parameter, without the parameter's own name; `part` is its length. */
static void head_add(head_modules *h, const char *name, size_t part) {
    char path[sizeof *h->path];
    snprintf(path, sizeof path, "%.*s", (int)part, name);
    for (int64_t i = 0; i < h->n; i++)
        if (!strcmp(h->path[i], path)) return;
    if (h->n == MOST_HEADS) fail(EXIT_FAILED, "a head of more than %d modules", MOST_HEADS);
    snprintf(h->path[h->n], sizeof path, "%s", path);
    h->name[h->n] = h->path[h->n];
    h->n++;
}

void labels_head(const tuning *t, head_modules *h) {
    const ct_lm_info about = ct_lm_about(t->lm);
    char base[64] = "";
    *h = (head_modules){0};
    for (ct_param p = {0}; ct_module_next(t->lm, &p);) {
        const size_t n = strcspn(p.name, ".");
        if (!*base) snprintf(base, sizeof base, "%.*s", (int)n, p.name);
        if (strlen(base) != n || strncmp(p.name, base, n) != 0) head_add(h, p.name, n);
    }
    for (int64_t i = 0; i < about.n_drawn; i++) { /* such as the pooler, which stands in the base */
        const char *name = about.drawn[i], *last = strrchr(name, '.');
        const size_t n = strcspn(name, ".");
        if (last && strlen(base) == n && !strncmp(name, base, n))
            head_add(h, name, (size_t)(last - name));
    }
}

/* ---- rows ---- */

static const labelled *labelled_of(const tuning *t, const rows *r) {
    return r == &t->held ? &t->held_labelled : &t->labelled;
}

/* The sum of the losses of rows, each of which has the mean over its labels. */
ct_tensor *labels_loss(const tuning *t, const rows *r, const int64_t *which, int64_t n) {
    const label_batch b =
        label_batch_make(t->context, labelled_of(t, r), r, which, n, ct_lm_about(t->lm).labels);
    const ct_cross_entropy_opts sum = {.reduction = CT_SUM};
    ct_tensor *loss = ct_lm_loss(t->lm, b.ids, b.targets, b.call, sum);
    return ct_dtype_of(b.targets) == CT_I64 ? loss
                                            : ct_scale(loss, 1.0 / (double)ct_dim(b.targets, 1));
}

/* ---- runs that go on ---- */

/* Adds what the texts are labelled with to an FNV-1a hash. */
static uint64_t hash_labels(uint64_t h, const labelled *l) {
    for (int64_t i = 0; i < l->n; i++) {
        const labelled_text *text = &l->texts[i];
        uint64_t bits;
        memcpy(&bits, &text->real, sizeof bits);
        h = (h ^ bits) * 0x100000001b3u;
        h = (h ^ (uint64_t)text->n_labels) * 0x100000001b3u;
        for (int64_t k = 0; k < text->n_labels && l->kind != LABELLED_REAL; k++)
            h = (h ^ (uint64_t)text->ids[k]) * 0x100000001b3u;
    }
    return h;
}

/* Writes how often the training has each label, "7 good, 5 bad", as far as there is room. */
static void count_labels(const labelled *l, char *out, size_t room) {
    size_t at = 0;
    *out = 0;
    if (l->kind == LABELLED_REAL) snprintf(out, room, "%lld numbers", (long long)l->n);
    for (int64_t label = 0; label < l->n_names && at < room; label++) {
        long long n = 0;
        for (int64_t i = 0; i < l->n; i++)
            for (int64_t k = 0; k < l->texts[i].n_labels; k++) n += l->texts[i].ids[k] == label;
        const int more =
            snprintf(out + at, room - at, "%s%lld %s", label ? ", " : "", n, l->names[label]);
        at += more > 0 ? (size_t)more : room;
    }
}

void labels_declare(const tuning *t, run *r) {
    char counts[400], text[sizeof counts + 40];
    const uint64_t h = hash_labels(0xcbf29ce484222325u, &t->labelled);
    count_labels(&t->labelled, counts, sizeof counts);
    snprintf(text, sizeof text, "%s (hash %016llx)", counts,
             (unsigned long long)hash_labels(h, &t->held_labelled));
    run_same_words(r, "labels", text);
}

/* ---- what the model can do ---- */

void labels_report(const tuning *t) {
    int64_t which[MOST_ROWS];
    label_scores s = label_scores_new(t->context, &t->held_labelled, ct_lm_about(t->lm).labels);
    ct_module_train(t->lm, false);
    for (int64_t at = 0, n = 0; at < t->held.n; at += n) {
        for (n = 0; n < option.batch && at + n < t->held.n; n++) which[n] = at + n;
        label_scores_add(&s, t->lm, &t->held_labelled, &t->held, which, n);
    }
    ct_module_train(t->lm, true);
    const label_f1s f1 = label_f1s_of(&s);
    if (t->held_labelled.kind == LABELLED_REAL)
        printf("Held out: root of the mean square error %.4f over %.0f texts\n",
               sqrt(s.squares / s.decisions), s.decisions);
    else
        printf("Held out: accuracy %.4f, F1 %.4f (the mean over %lld labels), over %.0f %s\n",
               s.all_right / s.decisions, f1.macro, (long long)f1.seen, s.decisions,
               option.task == LABELLED_TOKENS ? "words" : "texts");
    label_scores_free(&s);
}
