/* The labels of a classifier: in the options, in config.json, and in the text that is written. */
#include <cotangent/autograd.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/core/message.h"
#include "folder.h"

/* ---- what the options and a file say ---- */

static const char *const problems[] = {[CTI_LM_REGRESSION] = "regression",
                                       [CTI_LM_ONE_LABEL] = "single_label_classification",
                                       [CTI_LM_MANY_LABELS] = "multi_label_classification"};

const char *cti_lm_problem_name(cti_lm_problem problem) { return problems[problem]; }

bool cti_lm_problem_find(cti_text name, cti_lm_problem *problem) {
    for (*problem = CTI_LM_REGRESSION; *problem <= CTI_LM_MANY_LABELS; ++*problem)
        if (!cti_text_compare(cti_text_of(problems[*problem]), name)) return true;
    return false;
}

bool cti_lm_head_opts_check(ct_context *context, const char *op, const ct_lm_opts *opts) {
    cti_lm_problem problem;
    if ((unsigned)opts->head > CT_LM_HEAD_TOKEN)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: .head is no head", op);
    if (opts->labels < 0 || opts->labels > CTI_LM_MOST_LABELS)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: .labels is %" PRId64 "; there are at most %d labels", op, opts->labels,
                       CTI_LM_MOST_LABELS);
    if (opts->label_names && !opts->labels)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: .label_names needs .labels", op);
    for (int64_t i = 0; opts->label_names && i < opts->labels; i++) {
        const char *name = opts->label_names[i];
        const size_t size = name ? strlen(name) : 0;
        if (!name || cti_json_utf8(name, size) < size)
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: .label_names[%" PRId64 "] is %s", op, i,
                           name ? "not UTF-8" : "NULL");
    }
    return !opts->problem_type || cti_lm_problem_find(cti_text_of(opts->problem_type), &problem) ||
           ct_fail(context, CT_ERR_ARGUMENT, "%s: .problem_type is neither %s, %s nor %s", op,
                   problems[CTI_LM_REGRESSION], problems[CTI_LM_ONE_LABEL],
                   problems[CTI_LM_MANY_LABELS]);
}

/* Reads the number of labels that a file has: num_labels, which stands before the number of names
 * in id2label. */
static bool labels_count(const cti_lm_reader *reader, cti_json_at names, int64_t *n) {
    const cti_json_at count = cti_json_member(reader->tree, 0, "num_labels");
    *n = 2;
    if (count && reader->tree->value[count].kind != CTI_JSON_NULL)
        return (cti_json_whole(reader->tree, count, n) && *n >= 1 && *n <= CTI_LM_MOST_LABELS) ||
               cti_lm_refuse(reader, "num_labels", count, "not a number of labels from 1 to %d",
                             CTI_LM_MOST_LABELS);
    if (!names) return true;
    if (reader->tree->value[names].kind == CTI_JSON_OBJECT) *n = reader->tree->value[names].count;
    else *n = 0;
    return (*n > 0 && *n <= CTI_LM_MOST_LABELS) ||
           cti_lm_refuse(reader, "id2label", names, "not an object with 1 to %d labels",
                         CTI_LM_MOST_LABELS);
}

enum { LABEL_TEXT = sizeof "LABEL_9223372036854775807" };

/* Sets the n names of id2label, a member {"0": "name", ...}; 0: LABEL_0, LABEL_1, ... . */
static bool label_names_find(const cti_lm_reader *reader, cti_json_at names, int64_t n,
                             cti_text *name, char (*text)[LABEL_TEXT]) {
    const cti_json_tree *tree = reader->tree;
    for (int64_t i = 0; i < n; i++) {
        snprintf(text[i], LABEL_TEXT, "LABEL_%" PRId64, i);
        name[i] = names ? (cti_text){NULL, 0} : cti_text_of(text[i]);
    }
    for (cti_json_at at = names ? cti_json_first(tree, names) : 0; at; at = tree->value[at].next) {
        const cti_text key = cti_json_key_of(tree, at);
        const cti_json_kind kind = tree->value[at].kind;
        int64_t i = 0;
        size_t k = 0;
        while (k < key.size && key.at[k] >= '0' && key.at[k] <= '9' && i < n)
            i = 10 * i + key.at[k++] - '0';
        if (!key.size || k < key.size || i >= n || name[i].at)
            return cti_lm_refuse(reader, "id2label", names,
                                 "its keys are not \"0\" to \"%" PRId64 "\"", n - 1);
        if (kind != CTI_JSON_STRING && kind != CTI_JSON_NUMBER)
            return cti_lm_refuse(reader, "id2label", at, "a name is neither a text nor a number");
        name[i] = cti_json_text(tree, at);
        if (memchr(name[i].at, 0, name[i].size))
            return cti_lm_refuse(reader, "id2label", names, "a name has U+0000");
    }
    return true;
}

/* Makes config->labels: of the options, or else of the file. */
static bool label_names_read(const cti_lm_reader *reader, cti_json_at names, int64_t n,
                             const ct_lm_opts *opts) {
    ct_context *context = reader->context;
    const size_t bytes = cti_bytes(n, sizeof(cti_text) + LABEL_TEXT);
    cti_text *name = cti_take_any(context, bytes);
    if (!name) return false;
    bool ok = true;
    if (opts->label_names)
        for (int64_t i = 0; i < n; i++) name[i] = cti_text_of(opts->label_names[i]);
    else ok = label_names_find(reader, names, n, name, (char(*)[LABEL_TEXT])(name + n));
    ok = ok && cti_lm_texts_copy(context, name, n, &reader->config->labels);
    cti_give_any(context, name, bytes);
    return ok;
}

static bool problem_read(const cti_lm_reader *reader, const ct_lm_opts *opts) {
    static const char key[] = "problem_type";
    cti_lm_config *config = reader->config;
    const cti_json_at value = cti_json_member(reader->tree, 0, key);
    const bool is_absent = !value || reader->tree->value[value].kind == CTI_JSON_NULL;
    if (opts->problem_type) cti_lm_problem_find(cti_text_of(opts->problem_type), &config->problem);
    else if (!is_absent &&
             (reader->tree->value[value].kind != CTI_JSON_STRING ||
              !cti_lm_problem_find(cti_json_text(reader->tree, value), &config->problem)))
        return cti_lm_refuse(reader, key, value, "neither %s, %s nor %s",
                             problems[CTI_LM_REGRESSION], problems[CTI_LM_ONE_LABEL],
                             problems[CTI_LM_MANY_LABELS]);
    if (is_absent && !opts->problem_type) config->problem = CTI_LM_NO_PROBLEM;
    if (config->problem != CTI_LM_ONE_LABEL || config->labels.n > 1) return true;
    if (!opts->problem_type && !opts->labels)
        return cti_lm_refuse(reader, key, value, "it needs more than one label");
    return ct_fail(reader->context, CT_ERR_ARGUMENT, "%s: %s: %s needs more than one label",
                   reader->op, reader->path, problems[CTI_LM_ONE_LABEL]);
}

bool cti_lm_labels_read(const cti_lm_reader *reader, const ct_lm_opts *opts) {
    cti_lm_config *config = reader->config;
    int64_t n;
    if (!cti_lm_is_classifier(config))
        return (!opts->labels && !opts->problem_type) ||
               ct_fail(reader->context, CT_ERR_ARGUMENT,
                       "%s: %s: .labels and .problem_type are of a classifier, and this is a %s %s",
                       reader->op, reader->path, config->family->model_type,
                       cti_lm_head_text(config->head->kind));
    cti_json_at names = cti_json_member(reader->tree, 0, "id2label");
    if (names && reader->tree->value[names].kind == CTI_JSON_NULL) names = 0;
    if (!labels_count(reader, names, &n)) return false;
    if (opts->labels && opts->labels != n) n = opts->labels, config->keeps_head = false;
    /* names of another number of labels are not of these, as in transformers */
    if (names && (reader->tree->value[names].kind != CTI_JSON_OBJECT ||
                  reader->tree->value[names].count != n))
        names = 0;
    return label_names_read(reader, names, n, opts) && problem_read(reader, opts);
}

/* ---- what is written ---- */

typedef struct {
    const char *name;
    int64_t id;
} named_label;

static int label_compare(const void *a, const void *b) {
    const named_label *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : x->id < y->id ? -1 : 1;
}

static void id2label_write(cti_writer *out, const cti_lm_texts *labels) {
    for (int64_t i = 0; i < labels->n; i++) {
        cti_string_write(out, i ? ", \"" : "{\"");
        cti_natural_write(out, i);
        cti_string_write(out, "\": ");
        cti_quoted_write(out, cti_text_of(labels->at[i]));
    }
    cti_string_write(out, "}");
}

/* A name that several labels have stands for the last of them, as in transformers. */
static void label2id_write(cti_writer *out, const named_label *label, int64_t n) {
    const char *before = "{";
    for (int64_t i = 0; i < n; i++) {
        if (i + 1 < n && !strcmp(label[i].name, label[i + 1].name)) continue;
        cti_string_write(out, before);
        cti_quoted_write(out, cti_text_of(label[i].name));
        cti_string_write(out, ": ");
        cti_natural_write(out, label[i].id);
        before = ", ";
    }
    cti_string_write(out, "}");
}

/* Sets a member to the labels by name, or by id without `sorted`. */
static bool labels_set(cti_lm_edit *edit, const char *key, const cti_lm_texts *labels,
                       const named_label *sorted) {
    cti_writer out = {NULL, 0, 0};
    char *text = NULL;
    for (int pass = 0; pass < 2; pass++) {
        if (pass) text = cti_take_any(edit->context, out.used + 1);
        if (pass && !text) return false;
        out = (cti_writer){text, pass ? out.used : 0, 0};
        if (sorted) label2id_write(&out, sorted, labels->n);
        else id2label_write(&out, labels);
    }
    text[out.used] = 0;
    const bool ok = cti_lm_edit_set(edit, key, text);
    cti_give_any(edit->context, text, out.used + 1);
    return ok;
}

bool cti_lm_set_labels(const cti_lm_config *config, cti_lm_edit *edit) {
    const cti_lm_texts *labels = &config->labels;
    bool has_count;
    char value[64];
    if (!cti_lm_is_classifier(config)) return true;
    const size_t bytes = cti_bytes(labels->n, sizeof(named_label));
    named_label *sorted = cti_take_any(edit->context, bytes);
    if (!sorted) return false;
    for (int64_t i = 0; i < labels->n; i++) sorted[i] = (named_label){labels->at[i], i};
    qsort(sorted, (size_t)labels->n, sizeof *sorted, label_compare);
    bool ok = labels_set(edit, "label2id", labels, sorted) &&
              labels_set(edit, "id2label", labels, NULL) &&
              cti_lm_edit_find(edit, "num_labels", &has_count);
    cti_give_any(edit->context, sorted, bytes);
    snprintf(value, sizeof value, "%" PRId64, labels->n);
    if (ok && has_count) ok = cti_lm_edit_set(edit, "num_labels", value);
    if (!ok || config->problem == CTI_LM_NO_PROBLEM) return ok;
    snprintf(value, sizeof value, "\"%s\"", problems[config->problem]);
    return cti_lm_edit_set(edit, "problem_type", value);
}

/* ---- texts ---- */

bool cti_lm_texts_copy(ct_context *context, const cti_text *from, int64_t n, cti_lm_texts *out) {
    *out = (cti_lm_texts){.n = n, .bytes = cti_bytes(n, sizeof *out->at)};
    if (n == 0) return true;
    for (int64_t i = 0; i < n; i++) out->bytes += from[i].size + 1;
    out->at = cti_take_any(context, out->bytes);
    if (!out->at) {
        *out = (cti_lm_texts){0};
        return false;
    }
    char *text = (char *)(out->at + n);
    for (int64_t i = 0; i < n; i++) {
        memcpy(text, from[i].at, from[i].size);
        text[from[i].size] = 0;
        out->at[i] = text;
        text += from[i].size + 1;
    }
    return true;
}

bool cti_lm_texts_clone(ct_context *context, const cti_lm_texts *from, cti_lm_texts *out) {
    *out = (cti_lm_texts){.n = from->n, .bytes = from->bytes};
    if (from->n == 0) return true;
    out->at = cti_take_any(context, from->bytes);
    if (!out->at) {
        *out = (cti_lm_texts){0};
        return false;
    }
    memcpy(out->at, from->at, from->bytes);
    for (int64_t i = 0; i < from->n; i++)
        out->at[i] = (const char *)out->at + (from->at[i] - (const char *)from->at);
    return true;
}

void cti_lm_texts_free(ct_context *context, cti_lm_texts *texts) {
    if (texts->at) cti_give_any(context, texts->at, texts->bytes);
    *texts = (cti_lm_texts){0};
}
