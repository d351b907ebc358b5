/* Matching by name, shape and dtype. One message, and the caller's report, have all mismatches. */
#include "match.h"

#include <string.h>

#include "../src/core/message.h"
#include "../src/io/name_map.h"
#include "load_map.h"

/* ---- one message with every mismatch ---- */

enum { PATH_SHOWN = 200, MORE_SHOWN = 40 };

typedef struct {
    cti_writer out;
    char text[CTI_MESSAGE_SIZE];
    const char *heading; /* heading of the last mismatch: "missing: ", "unexpected: " or "" */
    int64_t omitted;     /* mismatches that did not fit the message */
} mismatches;

/* Reserves room in the message for op, at least PATH_SHOWN bytes of the path, and "; and N
 * more". */
static void mismatches_begin(mismatches *m, const cti_shards *file) {
    const size_t path = strlen(file->path), shown = path < PATH_SHOWN ? path : PATH_SHOWN;
    const size_t around = strlen(file->op) + strlen(": : ") + shown + MORE_SHOWN;
    m->out = (cti_writer){m->text, sizeof m->text - around, 0};
    m->heading = NULL;
    m->omitted = 0;
}

/* Appends a mismatch. If it does not fit it is counted instead; the very first one is shortened. */
static void mismatch_add(mismatches *m, const char *heading, const char *what) {
    const bool first = !m->heading, same = !first && !strcmp(m->heading, heading);
    const size_t used = m->out.used;
    if (!first) cti_string_write(&m->out, same && *heading ? ", " : "; ");
    if (!same) cti_string_write(&m->out, heading);
    const size_t before = m->out.used;
    cti_string_write(&m->out, what);
    m->heading = heading;
    if (m->out.used <= m->out.size && !m->omitted) return;
    if (first) {
        m->out.used =
            before + cti_text_shorten(m->text + before, m->out.size - before, what, strlen(what));
    } else {
        m->omitted++;
        m->out.used = used;
    }
}

static bool dtype_fits(const cti_nn_state *state, int64_t i, cti_file_dtype from) {
    const ct_dtype dtype = state->named[i].tensor->dtype;
    return state->record[i].exact ? !strcmp(cti_file_dtype_name(from), cti_dtype_table[dtype].file)
                                  : cti_file_tensor_fits(from, dtype);
}

static bool tensor_fits(const cti_nn_state *state, int64_t i, const cti_file_tensor *from) {
    return from->ndim <= CT_MAX_DIMS &&
           cti_shape_equal(state->named[i].tensor->shape, from->shape) &&
           dtype_fits(state, i, from->dtype);
}

static void misfit_describe(const ct_tensor *tensor, const cti_file_tensor *from,
                            char what[CTI_NN_MAP_FAULT]) {
    const size_t size = CTI_NN_MAP_FAULT;
    const char *name = NAME(from->name);
    if (from->ndim > CT_MAX_DIMS) {
        snprintf(what, size, "%s has shape %s, file has %" PRId64 " dims", name,
                 SHAPE(tensor->shape), from->ndim);
    } else if (!cti_shape_equal(tensor->shape, from->shape)) {
        snprintf(what, size, "%s has shape %s, file has %s%s", name, SHAPE(tensor->shape),
                 SHAPE(from->shape),
                 cti_nn_is_transpose(tensor, from)
                     ? ": an entry of a map with `.transposed = true` would fit"
                     : "");
    } else {
        snprintf(what, size, "%s is %s, file has %s%s", name, cti_dtype_name(tensor->dtype),
                 cti_file_dtype_name(from->dtype), cti_file_dtype_advice(from->dtype));
    }
}

/* Records the error. Returns false, without an error, if there was no mismatch. */
static bool mismatches_end(const mismatches *m, const cti_shards *file) {
    if (!m->heading) return false;
    char more[MORE_SHOWN] = "", path[CTI_MESSAGE_SIZE];
    if (m->omitted) snprintf(more, sizeof more, "; and %" PRId64 " more", m->omitted);
    const size_t taken = strlen(file->op) + strlen(": : ") + m->out.used + strlen(more);
    cti_text_shorten(path, CTI_MESSAGE_SIZE - 1 - taken, file->path, strlen(file->path));
    ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: %.*s%s", file->op, path, (int)m->out.used,
            m->text, more);
    return true;
}

/* ---- the caller's report ---- */

enum { REPORT_NAMES = 4, REPORT_NAME = sizeof((ct_load_report *)0)->loaded_names[0] };

static void report_add_name(int64_t *n, char names[REPORT_NAMES][REPORT_NAME], const char *name) {
    if (*n < REPORT_NAMES) cti_text_shorten(names[*n], REPORT_NAME - 1, name, strlen(name));
    ++*n;
}

static void report_print_line(FILE *file, const char *heading, int64_t n,
                              const char names[REPORT_NAMES][REPORT_NAME]) {
    fprintf(file, "%s %" PRId64, heading, n);
    for (int i = 0; i < REPORT_NAMES && i < n; i++)
        fprintf(file, "%s%s", i ? ", " : ": ", NAME(cti_text_of(names[i])));
    fprintf(file, n > REPORT_NAMES ? ", ...\n" : "\n");
}

void ct_load_report_print(const ct_load_report *report, FILE *file) {
    if (!report || !file) return;
    report_print_line(file, "loaded", report->loaded, report->loaded_names);
    report_print_line(file, "missing", report->missing, report->missing_names);
    report_print_line(file, "unexpected", report->unexpected, report->unexpected_names);
    report_print_line(file, "mismatched", report->mismatched, report->mismatched_names);
    if (report->ignored) report_print_line(file, "ignored", report->ignored, report->ignored_names);
    if (report->square)
        report_print_line(file, "square and not transposed, as others are", report->square,
                          report->square_names);
}

/* ---- what the file has for each name ---- */

/* Whether the tensors of a source are in the file and fit. If not, `what` has the reason, except
 * for a single tensor that is missing. */
static cti_nn_found source_check(cti_nn_state *state, int64_t s, char what[CTI_NN_MAP_FAULT]) {
    const cti_nn_source *source = &state->source[s];
    if (state->record[source->record].kept) return CTI_NN_ABSENT;
    if (source->slices) return cti_nn_map_check(state, s, what);
    if (!source->from) return CTI_NN_ABSENT;
    if (tensor_fits(state, source->record, source->from)) return CTI_NN_GOOD;
    misfit_describe(state->named[source->record].tensor, source->from, what);
    return CTI_NN_MISFIT;
}

static bool is_ignored(const cti_nn_match *match, const cti_file_tensor *tensor) {
    const char *const *pattern = match->load.ignore;
    while (pattern && *pattern && !cti_name_matches(*pattern, tensor->name)) pattern++;
    return pattern && *pattern;
}

/* Counts the tensors that the file has for a source, and in *needed the tensors that are not to be
 * ignored. */
static int64_t file_tensors_count(const cti_nn_state *state, const cti_nn_match *match,
                                  const cti_nn_source *source, int64_t *needed) {
    int64_t n = source->from != NULL;
    *needed = n && !is_ignored(match, source->from);
    for (int64_t k = 0; k < source->slices; k++) {
        const cti_file_tensor *from = state->slice[source->slice + k].from;
        n += from != NULL;
        *needed += from && !is_ignored(match, from);
    }
    return n;
}

/* Leaves out the names of a shared tensor that are to be ignored, if the file has another name of
 * it. */
static void ignored_leave_out(cti_nn_state *state, const cti_nn_match *match, int64_t i) {
    int64_t needed;
    bool any = false;
    for (int64_t s = i; s >= 0; s = state->source[s].next) {
        file_tensors_count(state, match, &state->source[s], &needed);
        any |= needed > 0;
    }
    for (int64_t s = i; any && s >= 0; s = state->source[s].next) {
        cti_nn_source *source = &state->source[s];
        if (!file_tensors_count(state, match, source, &needed) || needed) continue;
        source->from = NULL;
        for (int64_t k = 0; k < source->slices; k++) state->slice[source->slice + k].from = NULL;
    }
}

static void match_mark_taken(const cti_nn_match *match, const cti_file_tensor *from, bool *taken) {
    const int64_t j = from ? cti_shards_find(match->file, from->name) : -1;
    if (j >= 0) taken[j] = true;
}

/* Sets the tensor of each source without slices, and taken[j] for each tensor of the file that a
 * source uses. */
static void matching_match_names(cti_nn_state *state, const cti_nn_match *match, bool *taken) {
    for (int64_t s = 0; s < state->sources; s++) {
        cti_nn_source *source = &state->source[s];
        const int64_t j =
            source->slices ? -1 : cti_shards_find(match->file, cti_text_of(source->name));
        if (j >= 0) source->from = match->file->tensor[j];
    }
    for (int64_t i = 0; i < state->n; i++)
        if (match->load.ignore && state->source[i].next >= 0) ignored_leave_out(state, match, i);
    for (int64_t s = 0; s < state->sources; s++)
        match_mark_taken(match, state->source[s].from, taken);
    for (int64_t k = 0; k < state->slices; k++)
        match_mark_taken(match, state->slice[k].from, taken);
}

/* Sets taken[j] for each tensor of the file that has the name of a frozen parameter, which the
 * state does not have. */
static bool match_mark_frozen(const cti_nn_state *state, const cti_nn_match *match, bool *taken) {
    for (ct_param param = {0}; match->trained && cti_nn_next_name(match->module, &param);) {
        if (ct_requires_grad(param.tensor)) continue;
        char *name = cti_nn_prefixed(state->context, match->prefix, param.name);
        if (!name) return false;
        const int64_t j = cti_shards_find(match->file, cti_text_of(name));
        if (j >= 0) taken[j] = true;
        cti_path_free(state->context, name);
    }
    return true;
}

/* ---- matching ---- */

typedef struct {
    cti_nn_state *state;
    const cti_nn_match *match;
    mismatches mismatches;
    ct_load_report *report;
} matching;

/* Sets `found` of each source. A record is loaded from its first good source. */
static void matching_find_sources(matching *m) {
    cti_nn_state *state = m->state;
    char what[CTI_NN_MAP_FAULT];
    for (int64_t s = 0; s < state->sources; s++)
        state->source[s].found = source_check(state, s, what);
    for (int64_t i = 0; i < state->n; i++) {
        int64_t s = i;
        while (s >= 0 && state->source[s].found != CTI_NN_GOOD) s = state->source[s].next;
        state->record[i].source = s;
    }
}

/* Counts the sources of a record with this result. */
static int64_t matching_count_found(const cti_nn_state *state, int64_t i, cti_nn_found found) {
    int64_t n = 0;
    for (int64_t s = i; s >= 0; s = state->source[s].next) n += state->source[s].found == found;
    return n;
}

/* Reports missing tensors. A record with several names needs the tensor of only one of them. But a
 * name for which the file has some of the map's tensors and not all is always an error. */
static void matching_check_missing(matching *m, int64_t i) {
    cti_nn_state *state = m->state;
    char what[CTI_NN_MAP_FAULT];
    if (state->record[i].kept) return;
    if (state->record[i].source < 0 && !matching_count_found(state, i, CTI_NN_MISFIT))
        report_add_name(&m->report->missing, m->report->missing_names, state->named[i].name);
    const bool any = matching_count_found(state, i, CTI_NN_GOOD) ||
                     matching_count_found(state, i, CTI_NN_PART) ||
                     matching_count_found(state, i, CTI_NN_MISFIT);
    for (int64_t s = i; s >= 0; s = state->source[s].next) {
        const cti_nn_source *source = &state->source[s];
        if (source->found != CTI_NN_PART && (any || s != i)) continue;
        source_check(state, s, what);
        mismatch_add(&m->mismatches, "missing: ", source->slices ? what : source->name);
    }
}

/* Reports tensors that do not fit. In a partial load one name that fits is enough. */
static void matching_check_misfits(matching *m, int64_t i) {
    cti_nn_state *state = m->state;
    char what[CTI_NN_MAP_FAULT];
    if (m->match->load.partial && state->record[i].source >= 0) return;
    for (int64_t s = i; s >= 0; s = state->source[s].next) {
        if (state->source[s].found != CTI_NN_MISFIT) continue;
        source_check(state, s, what);
        mismatch_add(&m->mismatches, "", what);
        report_add_name(&m->report->mismatched, m->report->mismatched_names, state->named[i].name);
    }
}

static void matching_check_others(matching *m, const bool *taken) {
    const cti_shards *file = m->match->file;
    ct_load_report *report = m->report;
    for (int64_t j = 0; j < file->tensors; j++) {
        if (taken[j] || m->match->ignore_others) continue;
        const char *name = file->tensor[j]->name.at;
        if (is_ignored(m->match, file->tensor[j])) {
            report_add_name(&report->ignored, report->ignored_names, name);
            continue;
        }
        mismatch_add(&m->mismatches, "unexpected: ", NAME(file->tensor[j]->name));
        report_add_name(&report->unexpected, report->unexpected_names, name);
    }
}

/* ---- several tensors for one ---- */

/* Compares the values of a source with the values that were read for its record. */
static bool source_compare(const cti_nn_state *state, int64_t s, bool *equal) {
    ct_tensor *values = state->record[state->source[s].record].read;
    cti_frame frame;
    cti_frame_open(state->context, &frame, true);
    ct_tensor *other = cti_tensor_new(state->context, values->dtype, values->shape);
    const bool ok = other && cti_nn_state_read_source(state, s, other);
    *equal = ok && cti_safetensors_same_values(values, other);
    cti_frame_close(state->context, &frame);
    return ok;
}

/* "wte.weight", or "transformer.wte.weight for wte.weight". */
static const char *source_text(const cti_nn_state *state, int64_t s, char text[2 * CTI_NAME_TEXT]) {
    const cti_nn_source *source = &state->source[s];
    const cti_file_tensor *from = source->slices ? state->slice[source->slice].from : NULL;
    if (from && !cti_text_compare(from->name, cti_text_of(source->name))) from = NULL;
    snprintf(text, 2 * CTI_NAME_TEXT, "%s%s%s", from ? NAME(from->name) : "", from ? " for " : "",
             source->name);
    return text;
}

/* Checks that the names of a shared tensor have the same values in the file. If they differ none is
 * loaded. */
static bool match_names_compare(matching *m, int64_t i) {
    cti_nn_state *state = m->state;
    cti_nn_record *record = &state->record[i];
    const ct_tensor *tensor = state->named[i].tensor;
    const int64_t first = record->source;
    bool differ = false;
    for (int64_t s = first < 0 ? -1 : state->source[first].next; s >= 0;
         s = state->source[s].next) {
        char what[CTI_NN_MAP_FAULT + 4 * CTI_NAME_TEXT];
        bool equal;
        if (state->source[s].found != CTI_NN_GOOD) continue;
        if (!record->read) {
            record->read = cti_tensor_new(state->context, tensor->dtype, tensor->shape);
            if (!record->read || !cti_nn_state_read_source(state, first, record->read))
                return false;
        }
        if (!source_compare(state, s, &equal)) return false;
        if (equal) continue;
        differ = true;
        char a[2 * CTI_NAME_TEXT], b[2 * CTI_NAME_TEXT];
        snprintf(
            what, sizeof what,
            "%s and %s are one tensor of the module, but the file has different values for them",
            source_text(state, first, a), source_text(state, s, b));
        mismatch_add(&m->mismatches, "", what);
    }
    if (differ) {
        report_add_name(&m->report->mismatched, m->report->mismatched_names, state->named[i].name);
        record->source = -1;
        record->read = NULL;
    }
    return true;
}

/* ---- all of it ---- */

static bool matching_match_all(matching *m) {
    cti_nn_state *state = m->state;
    const size_t bytes = cti_bytes(m->match->file->tensors, sizeof(bool));
    bool *taken = cti_take_zeroed(state->context, bytes);
    if (!taken) return false;
    matching_match_names(state, m->match, taken);
    bool ok = match_mark_frozen(state, m->match, taken);
    matching_find_sources(m);
    for (int64_t i = 0; i < state->n; i++) matching_check_missing(m, i);
    if (ok) matching_check_others(m, taken);
    cti_give(state->context, taken, bytes);
    for (int64_t i = 0; i < state->n; i++) matching_check_misfits(m, i);
    for (int64_t i = 0; ok && i < state->n; i++) ok = match_names_compare(m, i);
    return ok;
}

static void report_set_loaded(const cti_nn_state *state, ct_load_report *report) {
    for (int64_t i = 0; i < state->n; i++) {
        if (state->record[i].source < 0) continue;
        report_add_name(&report->loaded, report->loaded_names, state->named[i].name);
        if (cti_nn_map_forgets(state, i))
            report_add_name(&report->square, report->square_names, state->named[i].name);
    }
}

bool cti_nn_state_match(cti_nn_state *state, const cti_nn_match *match) {
    ct_load_report none;
    matching m = {.state = state, .match = match, .report = &none};
    if (match->load.report) m.report = match->load.report;
    *m.report = (ct_load_report){0};
    if (!cti_nn_state_add_sources(state, match->prefix, match->module) ||
        !cti_nn_map_apply(state, match))
        return false;
    mismatches_begin(&m.mismatches, match->file);
    if (!matching_match_all(&m)) return false;
    report_set_loaded(state, m.report);
    if (!match->load.partial && mismatches_end(&m.mismatches, match->file)) return false;
    if (match->load.partial && state->n > 0 && m.report->loaded == 0)
        return ct_fail(state->context, CT_ERR_FORMAT, "%s: %s: nothing in it fits the module",
                       match->file->op, match->file->path);
    return true;
}
