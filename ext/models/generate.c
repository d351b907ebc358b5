/* Generation: what a row has been given is read at once, then it gets one id a step.
 *
 * A row has the bits that it has by itself, because products and attention choose their kernels for
 * a number of rows that the call names (src/core/row_rule.h). A row with several ids that its cache
 * has not, a prompt or what ct_generate_more has added, counts as many rows; a row with one such id
 * is a step, and counts as one. Rows of both kinds run in a forward each. The logits behind a
 * prompt are a product with one row of each text, so they count as one too (forward.c). What a row
 * computes then follows from its own calls. Rows are generated in groups, each with a cache of its
 * own; how many rows a group has is a matter of speed and memory only. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "../../nn/bare.h"
#include "../../src/core/int_math.h"
#include "../../src/core/memory.h"
#include "../../src/core/row_rule.h"
#include "lm.h"

static const char generate_new_op[] = "generate_new", generate_next_op[] = "generate_next",
                  generate_end_op[] = "generate_end", generate_logprobs_op[] = "generate_logprobs",
                  generate_more_op[] = "generate_more", generate_back_op[] = "generate_back";

enum { GROUP_ROWS = 8, ROW_TAIL = 512, NO_ID = -100 /* a target without a loss */ };

/* The state of a row. */
typedef struct {
    int64_t *id; /* [room]: the prompt, the generated ids, and what was added */
    int64_t room;
    int64_t count; /* the number of these ids */
    int64_t read;  /* how many of them the cache keeps: at most count - 1 */
    int64_t given; /* the ids at the last prompt or ct_generate_more: max_new counts from here */
    int64_t drawn; /* the ids that were drawn in all, forgotten ones too */
    unsigned char
        *seen; /* a bit for each id of the vocabulary, 1 if the row has the id; NULL: no penalty */
    double logprob; /* the log-probability of the last id; NaN: there is no id */
    bool ended;
    ct_decode_state text; /* the stream in which stop texts are searched */
    char tail[ROW_TAIL];  /* the end of the text so far */
    size_t tail_size;
} generated_row;

struct ct_generator {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_lm *lm;
    ct_generate_opts opts; /* complete; .eos and .stop are copies */
    char *stops;           /* the memory of the stop texts */
    size_t stops_size, longest_stop;
    /* [characters_room] the characters of an id, with space for those of any id that the tokenizer
     * has now (characters_reserve); NULL without stop texts */
    char *characters;
    size_t characters_room;
    generated_row *row; /* [n] */
    int64_t n, vocab;
    int64_t groups;      /* each has GROUP_ROWS rows; the last may have fewer */
    int64_t longest;     /* the tokens of the longest prompt */
    ct_lm_cache **cache; /* [groups] */
};
_Static_assert(sizeof(struct ct_generator) <= CTI_OBJECT_BYTES, "a generator is an object");

/* ---- memory ---- */

static size_t seen_bytes(const ct_generator *g) { return (size_t)(g->vocab / 8 + 1); }

static void generator_end(cti_hook *self) {
    ct_generator *g = (ct_generator *)self;
    ct_context *context = g->context;
    for (int64_t i = 0; g->row && i < g->n; i++) {
        if (g->row[i].id)
            cti_give_any(context, g->row[i].id, cti_bytes(g->row[i].room, sizeof(int64_t)));
        if (g->row[i].seen) cti_give_any(context, g->row[i].seen, seen_bytes(g));
    }
    for (int64_t i = 0; g->cache && i < g->groups; i++) ct_lm_cache_free(g->cache[i]);
    if (g->row) cti_give_any(context, g->row, cti_bytes(g->n, sizeof *g->row));
    if (g->cache) cti_give_any(context, g->cache, cti_bytes(g->groups, sizeof *g->cache));
    if (g->opts.eos)
        cti_give_any(context, (void *)g->opts.eos, cti_bytes(g->opts.n_eos, sizeof(int64_t)));
    if (g->opts.stop)
        cti_give_any(context, (void *)g->opts.stop, cti_bytes(g->opts.n_stop, sizeof(char *)));
    if (g->stops) cti_give_any(context, g->stops, g->stops_size);
    if (g->characters) cti_give_any(context, g->characters, g->characters_room);
    cti_object_end(&g->object, "of a language model");
}

void ct_generate_free(ct_generator *g) {
    if (g && g->object.self == &g->object) generator_end(&g->object.hook);
}

/* ---- options ---- */

static bool generate_opts_check(const cti_lm *lm, const ct_generate_opts *o) {
    ct_context *context = lm->context;
    if (lm->config.family->bidirectional || lm->config.head->kind != CT_LM_HEAD_CAUSAL)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the model is not a causal language model",
                       generate_new_op);
    if (o->max_new < 0)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: max_new is %" PRId64, generate_new_op,
                       o->max_new);
    if (!(o->repetition_penalty >= 0) || isinf(o->repetition_penalty))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: a repetition penalty of %g", generate_new_op,
                       o->repetition_penalty);
    if (o->n_eos < 0 || (o->n_eos && !o->eos) || o->n_stop < 0 || (o->n_stop && !o->stop))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL, or its number is negative",
                       generate_new_op, o->n_eos < 0 || (o->n_eos && !o->eos) ? "eos" : "stop");
    if (o->n_stop && !o->tokenizer)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: stop texts need a tokenizer",
                       generate_new_op);
    if (o->n_stop && !ct_token_room(o->tokenizer))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the tokenizer has ended", generate_new_op);
    for (int64_t i = 0; i < o->n_stop; i++)
        if (!o->stop[i] || !*o->stop[i] || strlen(o->stop[i]) > ROW_TAIL / 2)
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "%s: stop text %" PRId64 " must have between 1 and %d bytes",
                           generate_new_op, i, ROW_TAIL / 2);
    return true;
}

/* Makes space for the characters of any id. The tokenizer may have got a longer token since the
 * last step (ct_token_add). */
static bool characters_reserve(ct_generator *g) {
    const size_t room = g->opts.n_stop ? ct_token_room(g->opts.tokenizer) : 0;
    if (room <= g->characters_room) return true;
    char *characters = cti_take_any(g->context, room);
    if (!characters) return false;
    if (g->characters) cti_give_any(g->context, g->characters, g->characters_room);
    g->characters = characters, g->characters_room = room;
    return true;
}

/* Copies the stop texts and the ids that end a row. */
static bool lists_copy(ct_generator *g, const ct_generate_opts *o) {
    ct_context *context = g->context;
    const ct_generate_opts *folder = &g->lm->generation;
    const int64_t *eos = o->n_eos ? o->eos : folder->eos;
    const int64_t n_eos = o->no_eos ? 0 : o->n_eos ? o->n_eos : folder->n_eos;
    g->opts.eos = NULL, g->opts.stop = NULL;
    g->opts.n_eos = n_eos;
    if (n_eos) {
        int64_t *copy = cti_take_any(context, cti_bytes(n_eos, sizeof *copy));
        if (!copy) return false;
        memcpy(copy, eos, (size_t)n_eos * sizeof *copy);
        g->opts.eos = copy;
    }
    if (!o->n_stop) return true;
    for (int64_t i = 0; i < o->n_stop; i++) {
        g->stops_size += strlen(o->stop[i]) + 1;
        if (strlen(o->stop[i]) > g->longest_stop) g->longest_stop = strlen(o->stop[i]);
    }
    const char **list = cti_take_any(context, cti_bytes(o->n_stop, sizeof *list));
    if (!list) return false;
    g->opts.stop = list;
    g->stops = cti_take_any(context, g->stops_size);
    if (!g->stops || !characters_reserve(g)) return false;
    char *at = g->stops;
    for (int64_t i = 0; i < o->n_stop; i++) {
        const size_t size = strlen(o->stop[i]) + 1;
        memcpy(at, o->stop[i], size);
        list[i] = at;
        at += size;
    }
    return true;
}

/* ---- making ---- */

static void row_saw(generated_row *row, int64_t id) {
    if (row->seen) row->seen[id / 8] |= (unsigned char)(1 << id % 8);
}

/* What is searched for stop texts begins here. */
static void row_text_begin(generated_row *row) {
    row->text = (ct_decode_state){.keep_special = true};
    row->tail_size = 0;
}

static bool row_takes_id(const ct_generator *g, const char *op, int64_t i, int64_t id) {
    return (id >= 0 && id < g->vocab) ||
           ct_fail(g->context, CT_ERR_ARGUMENT,
                   "%s: row %" PRId64 ": the id %" PRId64 " is not in the vocabulary of %" PRId64,
                   op, i, id, g->vocab);
}

/* Makes space for ids of a row. */
static bool row_reserve(const ct_generator *g, generated_row *row, int64_t room) {
    if (room <= row->room) return true;
    int64_t *id = cti_take_any(g->context, cti_bytes(room, sizeof *id));
    if (!id) return false;
    if (row->count) memcpy(id, row->id, (size_t)row->count * sizeof *id);
    if (row->id) cti_give_any(g->context, row->id, cti_bytes(row->room, sizeof *id));
    row->id = id, row->room = room;
    return true;
}

/* Copies the tokens of a prompt. */
static bool prompt_copy(ct_generator *g, int64_t i, const int64_t *ids, const bool *mask,
                        int64_t T) {
    generated_row *row = &g->row[i];
    for (int64_t t = 0; t < T; t++) {
        if (mask && !mask[t]) continue;
        if (!row_takes_id(g, generate_new_op, i, ids[t])) return false;
        row->id[row->count++] = ids[t];
        row_saw(row, ids[t]);
    }
    row->given = row->count;
    return row->count || ct_fail(g->context, CT_ERR_ARGUMENT, "%s: row %" PRId64 " has no token",
                                 generate_new_op, i);
}

static bool generator_rows_fill(ct_generator *g, ct_tensor *ids, ct_tensor *mask) {
    ct_context *context = g->context;
    const int64_t T = ct_shape_of(ids).dim[1];
    ct_scope scope = ct_scope_open_no_grad(context);
    const int64_t *id = ct_data_i64(ct_contiguous(ids));
    const bool *shown = mask ? ct_data_bool(ct_contiguous(mask)) : NULL;
    int64_t room = 0;
    bool ok = id && (shown || !mask);
    if (ok && __builtin_add_overflow(T, g->opts.max_new, &room))
        ok = ct_fail(context, CT_ERR_MEMORY, "%s: the length overflows", generate_new_op);
    for (int64_t i = 0; ok && i < g->n; i++) {
        generated_row *row = &g->row[i];
        ok = row_reserve(g, row, room);
        row_text_begin(row);
        row->logprob = (double)NAN;
        if (ok && g->opts.repetition_penalty != 1) {
            row->seen = cti_take_zeroed(context, seen_bytes(g));
            ok = row->seen != NULL;
        }
        ok = ok && prompt_copy(g, i, id + i * T, shown ? shown + i * T : NULL, T);
        if (ok) g->longest = cti_max(g->longest, row->count);
    }
    ct_scope_close(scope);
    return ok;
}

/* The rows of a group. */
static int64_t group_rows(const ct_generator *g, int64_t group) {
    return cti_min(GROUP_ROWS, g->n - group * GROUP_ROWS);
}

static bool caches_make(ct_generator *g) {
    g->groups = cti_ceil_div(g->n, GROUP_ROWS);
    g->cache = cti_take_zeroed(g->context, cti_bytes(g->groups, sizeof *g->cache));
    for (int64_t i = 0; g->cache && i < g->groups; i++) {
        g->cache[i] =
            ct_lm_cache_new(g->lm->module, group_rows(g, i), g->longest + g->opts.max_new);
        if (!g->cache[i]) return false;
    }
    return g->cache != NULL;
}

/* Models with a table of positions have no position behind its end. */
static bool positions_check(const ct_generator *g, const char *op, int64_t length) {
    const int64_t most = cti_lm_integer(&g->lm->config, CTI_LM_MAX_LENGTH);
    if (!g->lm->config.family->names.positions || length + g->opts.max_new <= most + 1) return true;
    return ct_fail(g->context, CT_ERR_ARGUMENT,
                   "%s: prompts of %" PRId64 " tokens and %" PRId64 " new ones, but the model has "
                   "%" PRId64 " positions",
                   op, length, g->opts.max_new, most);
}

static bool generator_fill(ct_generator *g, ct_batch prompts, const ct_generate_opts *opts) {
    g->row = cti_take_zeroed(g->context, cti_bytes(g->n, sizeof *g->row));
    if (!g->row || !lists_copy(g, opts) || !generator_rows_fill(g, prompts.ids, prompts.mask) ||
        !positions_check(g, generate_new_op, g->longest))
        return false;
    if (!caches_make(g)) return false;
    cti_nn_end_with(g->lm->module, &g->object, generator_end);
    return true;
}

static bool prompts_check(const cti_lm *lm, const ct_batch *prompts) {
    ct_context *context = lm->context;
    const ct_shape ids = ct_shape_of(prompts->ids), mask = ct_shape_of(prompts->mask);
    if (!prompts->ids || ct_dtype_of(prompts->ids) != CT_I64 || ids.ndim != 2 || ids.dim[0] < 1)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: .ids of the prompts must be i64 (n, T)",
                       generate_new_op);
    if (prompts->mask && (ct_dtype_of(prompts->mask) != CT_BOOL || mask.ndim != 2 ||
                          mask.dim[0] != ids.dim[0] || mask.dim[1] != ids.dim[1]))
        return ct_fail(context, CT_ERR_SHAPE,
                       "%s: .mask of the prompts must be bool (%" PRId64 ", %" PRId64 "), as .ids",
                       generate_new_op, ids.dim[0], ids.dim[1]);
    return true;
}

ct_generator *ct_generate_new(ct_module *module, ct_batch prompts, ct_generate_opts opts) {
    cti_lm *lm = cti_lm_of(module);
    if (!lm || !cti_lm_is_ready(lm->context) || !generate_opts_check(lm, &opts) ||
        !prompts_check(lm, &prompts))
        return NULL;
    ct_generator *g = cti_object_new(lm->context, sizeof *g, "generator");
    if (!g) return NULL;
    g->lm = lm;
    g->n = ct_shape_of(prompts.ids).dim[0];
    g->vocab = cti_lm_integer(&lm->config, CTI_LM_VOCAB);
    g->opts = opts;
    if (!g->opts.max_new) g->opts.max_new = 100;
    if (g->opts.repetition_penalty == 0) g->opts.repetition_penalty = 1;
    g->opts.eos = NULL, g->opts.stop = NULL;
    if (generator_fill(g, prompts, &opts)) return g;
    ct_generate_free(g);
    return NULL;
}

/* ---- a step ---- */

/* Shortens a group's cache to what its rows keep in it. It is longer after a step that failed, and
 * after ct_generate_back. */
static bool cache_align(const ct_generator *g, int64_t group) {
    int64_t lengths[GROUP_ROWS];
    for (int64_t i = 0; i < group_rows(g, group); i++)
        lengths[i] = g->row[group * GROUP_ROWS + i].read;
    return ct_lm_cache_set_lengths(g->cache[group], lengths);
}

/* Whether a row has a part in a forward of this kind. */
static bool row_is_run(const generated_row *row, cti_rows kind) {
    return !row->ended && (row->count - row->read > 1) == (kind == CTI_ROWS_MANY);
}

/* The rows of a group that a forward of this kind runs, and T, the most ids that one of them has
 * for it. Every row of the cache needs room for T more, because the forward pads. Returns -1 after
 * an error. */
static int64_t rows_run(const ct_generator *g, int64_t group, cti_rows kind, int64_t *T) {
    int64_t n = 0, longest = 0;
    *T = 0;
    for (int64_t i = 0; i < group_rows(g, group); i++) {
        const generated_row *row = &g->row[group * GROUP_ROWS + i];
        longest = cti_max(longest, row->read);
        if (!row_is_run(row, kind)) continue;
        *T = cti_max(*T, row->count - row->read);
        n++;
    }
    return !n || cti_lm_cache_reserve(g->cache[group], longest + *T) ? n : -1;
}

/* Runs a group's forward on the ids that the cache has not, of n rows. The other rows have no token
 * in it; a step of all rows needs no mask. */
static ct_tensor *group_logits(ct_generator *g, int64_t group, cti_rows kind, int64_t n,
                               int64_t T) {
    const int64_t all = group_rows(g, group);
    const bool masked = kind == CTI_ROWS_MANY || n < all;
    ct_tensor *ids = ct_zeros(g->context, CT_I64, CT_SHAPE(all, T));
    ct_tensor *mask = masked ? ct_zeros(g->context, CT_BOOL, CT_SHAPE(all, T)) : NULL;
    int64_t *id = ids ? ct_data_i64(ids) : NULL;
    bool *shown = mask ? ct_data_bool(mask) : NULL;
    if (!id || (masked && !shown)) return NULL;
    for (int64_t i = 0; i < all; i++) {
        const generated_row *row = &g->row[group * GROUP_ROWS + i];
        if (!row_is_run(row, kind)) continue;
        const int64_t new_ids = row->count - row->read;
        memcpy(id + i * T, row->id + row->read, (size_t)new_ids * sizeof *id);
        for (int64_t t = 0; shown && t < new_ids; t++) shown[i * T + t] = true;
    }
    const cti_rows before = cti_set_rows(g->context, kind);
    ct_tensor *logits = ct_lm_forward(
        g->lm->module, ids,
        (ct_lm_call){.key_mask = mask, .cache = g->cache[group], .result = CT_LM_LAST});
    cti_set_rows(g->context, before);
    /* a head of the program's own may have fewer logits than there are ids, but not more */
    if (!logits || ct_dim(logits, 1) <= g->vocab) return logits;
    return ct_fail(g->context, CT_ERR_ARGUMENT,
                   "%s: the head makes %" PRId64 " logits, but the model has %" PRId64 " ids",
                   generate_next_op, ct_dim(logits, 1), g->vocab);
}

/* The logits (1, V) of a row with the repetition penalty; NULL after an error. They are a copy, as
 * a head of the program's own may have made a view of something else. */
static ct_tensor *penalised(const ct_generator *g, const generated_row *row, ct_tensor *logits) {
    const double p = g->opts.repetition_penalty;
    ct_tensor *y = ct_clone(logits);
    float *f = y && ct_dtype_of(y) == CT_F32 ? ct_data_f32(y) : NULL;
    double *d = y && ct_dtype_of(y) == CT_F64 ? ct_data_f64(y) : NULL;
    if (!f && !d) return NULL;
    for (int64_t v = 0; v < ct_dim(y, 1); v++) {
        if (!(row->seen[v / 8] >> v % 8 & 1)) continue;
        if (f) f[v] = f[v] > 0 ? f[v] / (float)p : f[v] * (float)p;
        else d[v] = d[v] > 0 ? d[v] / p : d[v] * p;
    }
    ct_wrote(y);
    return y;
}

/* Draws an id from logits (1, V); -1 after an error. */
static int64_t id_draw(const ct_generator *g, int64_t i, ct_tensor *logits) {
    int64_t id = -1;
    const ct_rng rng = ct_rng_get(g->context);
    if (logits && g->row[i].seen) logits = penalised(g, &g->row[i], logits);
    if (!logits) return -1;
    ct_rng_set(g->context, (ct_rng){g->opts.seed, (uint64_t)i << 32 ^ (uint64_t)g->row[i].drawn});
    const bool ok = ct_sample(logits, g->opts.sample, &id, 1);
    ct_rng_set(g->context, rng);
    return ok ? id : -1;
}

/* Adds the characters of an id to the end of a row's text, and returns whether a stop text is in
 * it; -1 after an error. */
static int finds_stop(const ct_generator *g, generated_row *row, int64_t id) {
    const int64_t size =
        ct_decode_next(g->opts.tokenizer, &row->text, id, g->characters, g->characters_room);
    bool found = false;
    for (int64_t at = 0; at < size && !found; at++) { /* each byte may end a stop text */
        if (row->tail_size == ROW_TAIL) {
            row->tail_size = g->longest_stop - 1;
            memmove(row->tail, row->tail + ROW_TAIL - row->tail_size, row->tail_size);
        }
        row->tail[row->tail_size++] = g->characters[at];
        for (int64_t s = 0; s < g->opts.n_stop && !found; s++) {
            const size_t n = strlen(g->opts.stop[s]);
            found =
                n <= row->tail_size && !memcmp(row->tail + row->tail_size - n, g->opts.stop[s], n);
        }
    }
    if (size >= 0) return found;
    ct_fail(g->context, CT_ERR_ARGUMENT, "%s: the tokenizer cannot decode id %" PRId64,
            generate_next_op, id);
    return -1;
}

/* Gives a row its next id, and ends it if this was the last. Returns false after an error. */
static bool row_takes(ct_generator *g, generated_row *row, int64_t id) {
    row->read = row->count; /* from now on the cache's ids count as read */
    row->id[row->count++] = id;
    row->drawn++;
    row_saw(row, id);
    for (int64_t i = 0; i < g->opts.n_eos; i++) row->ended |= g->opts.eos[i] == id;
    row->ended |= row->count - row->given == g->opts.max_new;
    if (row->ended || !g->opts.n_stop) return true;
    const int found = finds_stop(g, row, id);
    row->ended |= found == 1;
    return found >= 0;
}

static bool group_ended(const ct_generator *g, int64_t group) {
    const generated_row *row = &g->row[group * GROUP_ROWS];
    for (int64_t i = 0; i < group_rows(g, group); i++)
        if (!row[i].ended) return false;
    return true;
}

/* Gives the rows that were run the log-probabilities of their ids, from the logits (rows, V). */
static bool logprobs_take(const ct_generator *g, int64_t group, cti_rows kind, ct_tensor *logits,
                          const int64_t *ids) {
    const int64_t rows = group_rows(g, group);
    ct_tensor *targets = ct_empty(g->context, CT_I64, CT_SHAPE(rows));
    int64_t *target = targets ? ct_data_i64(targets) : NULL;
    double loss[GROUP_ROWS];
    generated_row *row = &g->row[group * GROUP_ROWS];
    if (!target) return false;
    for (int64_t i = 0; i < rows; i++) target[i] = row_is_run(&row[i], kind) ? ids[i] : NO_ID;
    ct_tensor *losses =
        ct_cross_entropy(logits, targets, (ct_cross_entropy_opts){.reduction = CT_NONE});
    if (!losses || !ct_to_f64(losses, loss, rows)) return false;
    for (int64_t i = 0; i < rows; i++)
        if (row_is_run(&row[i], kind)) row[i].logprob = -loss[i];
    return true;
}

/* Draws the ids of the rows that a forward of this kind runs. */
static bool group_run(ct_generator *g, int64_t group, cti_rows kind, int64_t *ids) {
    int64_t T;
    const int64_t n = rows_run(g, group, kind, &T);
    if (n < 1) return n == 0;
    ct_tensor *logits = group_logits(g, group, kind, n, T);
    bool ok = logits != NULL;
    for (int64_t i = 0; ok && i < group_rows(g, group); i++) {
        const int64_t at = group * GROUP_ROWS + i;
        if (!row_is_run(&g->row[at], kind)) continue;
        ids[at] = id_draw(g, at, ct_narrow(logits, 0, i, 1));
        ok = ids[at] >= 0;
    }
    return ok && logprobs_take(g, group, kind, logits, ids + group * GROUP_ROWS);
}

/* Draws the ids of a group's rows, which are -1 in rows that have ended. */
static bool group_step(ct_generator *g, int64_t group, int64_t *ids) {
    ct_scope scope = ct_scope_open_no_grad(g->context);
    const bool ok = cache_align(g, group) && group_run(g, group, CTI_ROWS_MANY, ids) &&
                    group_run(g, group, CTI_ROWS_ONE, ids);
    ct_scope_close(scope);
    return ok;
}

/* A row's bits (`seen`) have room for the vocabulary that the model had at ct_generate_new. */
static bool vocabulary_check(const ct_generator *g, const char *op) {
    const int64_t vocab = cti_lm_integer(&g->lm->config, CTI_LM_VOCAB);
    return vocab == g->vocab ||
           ct_fail(g->context, CT_ERR_ARGUMENT,
                   "%s: the model had %" PRId64 " ids when the generator was made and has %" PRId64
                   " now: make another generator after ct_lm_resize",
                   op, g->vocab, vocab);
}

bool ct_generate_next(ct_generator *g, int64_t *ids) {
    if (!cti_object_is_ready(g ? &g->object : NULL, generate_next_op, "generator", NULL))
        return false;
    if (!ids) return ct_fail(g->context, CT_ERR_ARGUMENT, "%s: ids is NULL", generate_next_op);
    if (!vocabulary_check(g, generate_next_op) || !characters_reserve(g)) return false;
    const bool training = ct_module_training(g->lm->module);
    bool any = false, ok = true;
    for (int64_t i = 0; i < g->n; i++) ids[i] = -1, g->row[i].logprob = (double)NAN;
    if (training) ct_module_train(g->lm->module, false);
    for (int64_t i = 0; ok && i < g->groups; i++) {
        if (group_ended(g, i)) continue;
        ok = group_step(g, i, ids);
        any = true;
    }
    if (training) ct_module_train(g->lm->module, true);
    for (int64_t i = 0; ok && i < g->n; i++)
        if (ids[i] >= 0) ok = row_takes(g, &g->row[i], ids[i]);
    return ok && any;
}

int64_t ct_generate_logprobs(const ct_generator *g, double *logprobs) {
    if (!cti_object_is_ready(g ? &g->object : NULL, generate_logprobs_op, "generator", NULL))
        return -1;
    if (!logprobs)
        return ct_fail(g->context, CT_ERR_ARGUMENT, "%s: logprobs is NULL", generate_logprobs_op),
               -1;
    for (int64_t i = 0; i < g->n; i++) logprobs[i] = g->row[i].logprob;
    return g->n;
}

/* ---- what a program does to a row ---- */

/* The row that a function is about; NULL after an error. */
static generated_row *generated_row_of(const ct_generator *g, const char *op, int64_t row) {
    if (!cti_object_is_ready(g ? &g->object : NULL, op, "generator", NULL)) return NULL;
    if (row >= 0 && row < g->n) return &g->row[row];
    return ct_fail(g->context, CT_ERR_ARGUMENT, "%s: row %" PRId64 " of %" PRId64, op, row, g->n);
}

bool ct_generate_end(ct_generator *g, int64_t row) {
    generated_row *of = generated_row_of(g, generate_end_op, row);
    if (of) of->ended = true;
    return of != NULL;
}

/* Makes space for a row that grows to `length` ids before the next one is drawn. */
static bool row_grow(ct_generator *g, int64_t row, int64_t length) {
    int64_t room;
    if (__builtin_add_overflow(length, g->opts.max_new, &room))
        return ct_fail(g->context, CT_ERR_MEMORY, "%s: the length overflows", generate_more_op);
    return positions_check(g, generate_more_op, length) && row_reserve(g, &g->row[row], room) &&
           cti_lm_cache_reserve(g->cache[row / GROUP_ROWS], room);
}

bool ct_generate_more(ct_generator *g, int64_t row, const int64_t *ids, int64_t n) {
    generated_row *of = generated_row_of(g, generate_more_op, row);
    if (!of || !vocabulary_check(g, generate_more_op)) return false;
    if (n < 0 || (n && !ids))
        return ct_fail(g->context, CT_ERR_ARGUMENT, "%s: %" PRId64 " ids%s", generate_more_op, n,
                       ids ? "" : ", which are NULL");
    for (int64_t i = 0; i < n; i++)
        if (!row_takes_id(g, generate_more_op, row, ids[i])) return false;
    int64_t length;
    if (__builtin_add_overflow(of->count, n, &length))
        return ct_fail(g->context, CT_ERR_MEMORY, "%s: the length overflows", generate_more_op);
    if (!row_grow(g, row, length)) return false;
    for (int64_t i = 0; i < n; i++) {
        of->id[of->count++] = ids[i];
        row_saw(of, ids[i]);
    }
    of->given = of->count;
    of->ended = false;
    row_text_begin(of);
    return true;
}

bool ct_generate_back(ct_generator *g, int64_t row, int64_t length) {
    generated_row *of = generated_row_of(g, generate_back_op, row);
    if (!of) return false;
    if (length < 1 || length > of->count)
        return ct_fail(g->context, CT_ERR_ARGUMENT,
                       "%s: row %" PRId64 ": a length of %" PRId64 " from one of %" PRId64,
                       generate_back_op, row, length, of->count);
    of->count = length;
    of->read = cti_min(of->read, length - 1);
    of->given = cti_min(of->given, length);
    row_text_begin(of);
    if (of->seen) memset(of->seen, 0, seen_bytes(g));
    for (int64_t i = 0; of->seen && i < length; i++) row_saw(of, of->id[i]);
    return true;
}
