/* Matching by name, shape and dtype: every mismatch in one message, and in the caller's report. */
#include "match.h"

#include <string.h>

#include "../src/core/message.h"
#include "load_map.h"

/* ---- one message with every mismatch ---- */

enum { PATH_SHOWN = 200, MORE_SHOWN = 40 };

typedef struct {
    cti_writer out;
    char text[CTI_MESSAGE_SIZE];
    const char *heading; /* of the last mismatch: "missing: ", "unexpected: " or "" */
    int64_t omitted;     /* mismatches that did not fit the message */
} mismatches;

/* Reserves room for op, for at least PATH_SHOWN bytes of the path, and for "; and N more". */
static void begin(mismatches *m, const cti_shards *file) {
    const size_t path = strlen(file->path), shown = path < PATH_SHOWN ? path : PATH_SHOWN;
    const size_t around = strlen(file->op) + strlen(": : ") + shown + MORE_SHOWN;
    m->out = (cti_writer){m->text, sizeof m->text - around, 0};
    m->heading = NULL;
    m->omitted = 0;
}

/* Appends one mismatch. One that does not fit is counted instead; the very first is shortened. */
static void add_mismatch(mismatches *m, const char *heading, const char *what) {
    const bool first = !m->heading, same = !first && !strcmp(m->heading, heading);
    const size_t used = m->out.used;
    if (!first) cti_write(&m->out, same && *heading ? ", " : "; ");
    if (!same) cti_write(&m->out, heading);
    const size_t before = m->out.used;
    cti_write(&m->out, what);
    m->heading = heading;
    if (m->out.used <= m->out.size && !m->omitted) return;
    if (first) {
        m->out.used =
            before + cti_shorten(m->text + before, m->out.size - before, what, strlen(what));
    } else {
        m->omitted++;
        m->out.used = used;
    }
}

static bool dtype_fits(const cti_nn_state *state, int64_t i, cti_file_dtype from) {
    const ct_dtype dtype = state->named[i].tensor->dtype;
    return state->item[i].exact ? !strcmp(cti_file_dtype_name(from), cti_dtype_table[dtype].file)
                                : cti_safetensors_fits(from, dtype);
}

static bool fits(const cti_nn_state *state, int64_t i, const cti_file_tensor *from) {
    return from->ndim <= CT_MAX_DIMS &&
           cti_shape_equal(state->named[i].tensor->shape, from->shape) &&
           dtype_fits(state, i, from->dtype);
}

static void add_misfit(mismatches *m, const ct_tensor *tensor, const cti_file_tensor *from) {
    char what[CTI_NAME_TEXT + 2 * CTI_SHAPE_TEXT + 40];
    const char *name = NAME(from->name);
    if (from->ndim > CT_MAX_DIMS) {
        snprintf(what, sizeof what, "%s has shape %s, file has %" PRId64 " dims", name,
                 SHAPE(tensor->shape), from->ndim);
    } else if (!cti_shape_equal(tensor->shape, from->shape)) {
        snprintf(what, sizeof what, "%s has shape %s, file has %s", name, SHAPE(tensor->shape),
                 SHAPE(from->shape));
    } else {
        snprintf(what, sizeof what, "%s is %s, file has %s", name, cti_dtype_name(tensor->dtype),
                 cti_file_dtype_name(from->dtype));
    }
    add_mismatch(m, "", what);
}

/* Records the error; false if there was no mismatch. */
static bool end(const mismatches *m, const cti_shards *file) {
    if (!m->heading) return false;
    char more[MORE_SHOWN] = "", path[CTI_MESSAGE_SIZE];
    if (m->omitted) snprintf(more, sizeof more, "; and %" PRId64 " more", m->omitted);
    const size_t taken = strlen(file->op) + strlen(": : ") + m->out.used + strlen(more);
    cti_shorten(path, CTI_MESSAGE_SIZE - 1 - taken, file->path, strlen(file->path));
    ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: %.*s%s", file->op, path, (int)m->out.used,
            m->text, more);
    return true;
}

/* ---- the caller's report ---- */

enum { REPORT_NAMES = 4, REPORT_NAME = sizeof((ct_load_report *)0)->loaded_names[0] };

static void count(int64_t *n, char names[REPORT_NAMES][REPORT_NAME], const char *name) {
    if (*n < REPORT_NAMES) cti_shorten(names[*n], REPORT_NAME - 1, name, strlen(name));
    ++*n;
}

static void print_line(FILE *file, const char *heading, int64_t n,
                       const char names[REPORT_NAMES][REPORT_NAME]) {
    fprintf(file, "%s %" PRId64, heading, n);
    for (int i = 0; i < REPORT_NAMES && i < n; i++)
        fprintf(file, "%s%s", i ? ", " : ": ", NAME(cti_text_of(names[i])));
    fprintf(file, n > REPORT_NAMES ? ", ...\n" : "\n");
}

void ct_load_report_print(const ct_load_report *report, FILE *file) {
    if (!report || !file) return;
    print_line(file, "loaded", report->loaded, report->loaded_names);
    print_line(file, "missing", report->missing, report->missing_names);
    print_line(file, "unexpected", report->unexpected, report->unexpected_names);
    print_line(file, "mismatched", report->mismatched, report->mismatched_names);
}

/* ---- matching ---- */

/* What takes a tensor of the file. */
enum { NOBODY = -1, PIECES = -2 };

/* The item that a tensor of the file is for by another of the parameter's names. */
static int64_t other_taker(const cti_nn_state *state, const cti_nn_match *match, cti_text name) {
    const size_t before = strlen(match->prefix);
    if (name.size < before || memcmp(name.at, match->prefix, before) ||
        strlen(name.at) != name.size)
        return NOBODY;
    const int64_t i = cti_nn_item_named(state, match->module, name.at + before);
    return i >= 0 && !state->item[i].mapped ? i : NOBODY;
}

static void match_names(cti_nn_state *state, const cti_nn_match *match, int64_t *taker) {
    const cti_shards *file = match->file;
    for (int64_t j = 0; j < file->tensors; j++) taker[j] = NOBODY;
    for (int64_t i = 0; i < state->n; i++) {
        cti_nn_item *item = &state->item[i];
        const int64_t j =
            item->mapped ? -1 : cti_shards_find(file, cti_text_of(state->named[i].name));
        if (j < 0) continue;
        item->from = file->tensor[j];
        taker[j] = i;
    }
    cti_nn_map_mark(match, state, taker, PIECES);
    for (int64_t j = 0; j < file->tensors; j++) {
        const cti_file_tensor *from = file->tensor[j];
        if (taker[j] == NOBODY) taker[j] = other_taker(state, match, from->name);
        if (taker[j] < 0) continue;
        cti_nn_item *item = &state->item[taker[j]];
        if (!item->from || (match->load.partial && !fits(state, taker[j], item->from)))
            item->from = from;
    }
}

/* Checks items that pieces fill; one that they do not fill is left out. */
static void check_pieces(cti_nn_state *state, mismatches *m, ct_load_report *report) {
    for (int64_t i = 0; i < state->n; i++) {
        if (!state->item[i].mapped) continue;
        char what[CTI_NN_MAP_FAULT];
        switch (cti_nn_map_check(state, i, what)) {
        case CTI_NN_MAP_GOOD: continue;
        case CTI_NN_MAP_MISSING:
            add_mismatch(m, "missing: ", what);
            count(&report->missing, report->missing_names, state->named[i].name);
            break;
        case CTI_NN_MAP_MISFIT:
            add_mismatch(m, "", what);
            count(&report->mismatched, report->mismatched_names, state->named[i].name);
            break;
        }
        state->item[i].pieces = 0;
    }
}

static void check_names(cti_nn_state *state, const cti_nn_match *match, const int64_t *taker,
                        mismatches *m, ct_load_report *report) {
    const cti_shards *file = match->file;
    for (int64_t i = 0; i < state->n; i++) {
        if (state->item[i].mapped || state->item[i].from) continue;
        add_mismatch(m, "missing: ", state->named[i].name);
        count(&report->missing, report->missing_names, state->named[i].name);
    }
    for (int64_t j = 0; j < file->tensors; j++) {
        if (taker[j] != NOBODY || match->ignore_others) continue;
        add_mismatch(m, "unexpected: ", NAME(file->tensor[j]->name));
        count(&report->unexpected, report->unexpected_names, file->tensor[j]->name.at);
    }
    for (int64_t j = 0; j < file->tensors; j++) {
        const int64_t i = taker[j];
        if (i < 0 || fits(state, i, file->tensor[j])) continue;
        /* of several names, partial takes one that fits */
        if (match->load.partial && state->item[i].from != file->tensor[j]) continue;
        add_misfit(m, state->named[i].tensor, file->tensor[j]);
        count(&report->mismatched, report->mismatched_names, state->named[i].name);
        state->item[i].from = NULL;
    }
}

bool cti_nn_state_match(cti_nn_state *state, const cti_nn_match *match) {
    ct_context *context = state->context;
    ct_load_report none, *report = match->load.report ? match->load.report : &none;
    *report = (ct_load_report){0};
    if (!cti_nn_map_apply(state, match)) return false;
    const size_t bytes = cti_bytes(match->file->tensors, sizeof(int64_t));
    int64_t *taker = cti_take(context, bytes);
    if (!taker) return false;
    match_names(state, match, taker);
    mismatches m;
    begin(&m, match->file);
    check_names(state, match, taker, &m, report);
    check_pieces(state, &m, report);
    cti_give(context, taker, bytes);
    if (!match->load.partial && end(&m, match->file)) return false;
    for (int64_t i = 0; i < state->n; i++)
        if (state->item[i].from || state->item[i].pieces)
            count(&report->loaded, report->loaded_names, state->named[i].name);
    if (match->load.partial && state->n > 0 && report->loaded == 0)
        return ct_fail(context, CT_ERR_FORMAT, "%s: %s: nothing in it fits the module",
                       match->file->op, match->file->path);
    return true;
}
