/* A checkpoint: one safetensors file with everything that resumed training needs to give the same
 * bits as if it had not stopped.
 *
 *     model.NAME            the parameters and persistent buffers
 *     optim.lr, ...         the optimiser: optim/saved.h lists its tensors
 *     optims.0.lr, ...      the same of each further optimiser
 *     tensor.NAME           the caller's tensors
 *     __metadata__          the checksum; each optimiser's name; step, seed and stream as decimals
 */
#include <cotangent/io.h>

#include <string.h>

#include "../src/io/checksum.h"
#include "match.h"
#include "optim/saved.h"

static const char format[] = "cotangent checkpoint 1";

/* ---- the optimisers: .optim, which is number -1, and .optims ---- */

enum { PREFIX = 32 }; /* bytes of "optims.123", with its NUL */

static int64_t first_optim(const ct_checkpoint *checkpoint) { return checkpoint->optim ? -1 : 0; }
static ct_optim *optim_at(const ct_checkpoint *checkpoint, int64_t i) {
    return i < 0 ? checkpoint->optim : checkpoint->optims[i];
}
static bool has_optim(const ct_checkpoint *checkpoint) {
    return checkpoint->optim || checkpoint->n_optims > 0;
}
static const char *optim_key(int64_t i, char key[PREFIX]) {
    if (i < 0) strcpy(key, "optim");
    else snprintf(key, PREFIX, "optims.%" PRId64, i);
    return key;
}

/* ---- collecting ---- */

/* Collects everything except the metadata; to load from a file, drafts in the optimisers' place. */
static bool gather(cti_nn_state *state, const ct_checkpoint *checkpoint, ct_optim *drafts,
                   const cti_shards *file) {
    if (!cti_nn_state_add_module(state, "model.", checkpoint->module)) return false;
    const int64_t first = first_optim(checkpoint);
    for (int64_t i = first; i < checkpoint->n_optims; i++) {
        char key[PREFIX];
        ct_optim *optim = drafts ? &drafts[i - first] : optim_at(checkpoint, i);
        if (!cti_nn_optim_gather(state, optim_key(i, key), optim, file)) return false;
    }
    for (int64_t i = 0; i < checkpoint->n_tensors; i++) {
        const ct_named *named = &checkpoint->tensors[i];
        if (!cti_nn_state_add(state, "tensor.", named->name, named->tensor)) return false;
        state->item[state->n - 1].exact = true;
    }
    return true;
}

/* ---- arguments ---- */

static ct_context *context_of(const ct_checkpoint *checkpoint) {
    if (!checkpoint) return NULL;
    if (checkpoint->module) return checkpoint->module->context;
    return checkpoint->optim ? checkpoint->optim->context : NULL;
}

static bool check_optims(ct_context *context, const char *op, const ct_checkpoint *checkpoint) {
    if (checkpoint->n_optims < 0 || (checkpoint->n_optims > 0 && !checkpoint->optims))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: optims is NULL, or n_optims negative", op);
    for (int64_t i = first_optim(checkpoint); i < checkpoint->n_optims; i++) {
        const ct_optim *optim = optim_at(checkpoint, i);
        if (!optim)
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: optims[%" PRId64 "] is NULL", op, i);
        if (!cti_object_is_open(&optim->object, op)) return false;
        if (optim->context != context)
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: module and optim are of two contexts",
                           op);
    }
    return true;
}

static bool check_tensors(ct_context *context, const char *op, const ct_checkpoint *checkpoint) {
    if (checkpoint->n_tensors < 0 || (checkpoint->n_tensors > 0 && !checkpoint->tensors))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: tensors is NULL, or n_tensors negative", op);
    for (int64_t i = 0; i < checkpoint->n_tensors; i++) {
        const ct_named *named = &checkpoint->tensors[i];
        if (!named->name || !named->tensor)
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: tensors[%" PRId64 "]: %s is NULL", op, i,
                           named->name ? "the tensor" : "the name");
        if (!cti_tensor_in(named->tensor, context, op) || !cti_tensor_has_values(named->tensor, op))
            return false;
    }
    return true;
}

/* Checks the arguments. Returns the context; NULL if one is wrong, with an error recorded if module
 * or optim gives a context to record it in. */
static ct_context *check(const char *op, const char *path, const ct_checkpoint *checkpoint) {
    ct_context *context = context_of(checkpoint);
    if (!context) return NULL;
    if (checkpoint->module && !cti_object_is_open(&checkpoint->module->object, op)) return NULL;
    if (checkpoint->optim && !cti_object_is_open(&checkpoint->optim->object, op)) return NULL;
    if (!path || !checkpoint->module)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: path or module is NULL", op);
    return check_optims(context, op, checkpoint) && check_tensors(context, op, checkpoint) ? context
                                                                                           : NULL;
}

/* ---- saving ---- */

/* The optimisers' keys and names, as metadata. */
typedef struct {
    char key[PREFIX];
} optim_name;

static bool save(ct_context *context, const char *op, const char *path,
                 const ct_checkpoint *checkpoint, const char *const *metadata) {
    cti_nn_state state = {.context = context};
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    bool ok = gather(&state, checkpoint, NULL, NULL) &&
              cti_safetensors_save_checked(context, op, path, state.named, state.n, metadata);
    cti_frame_close(context, &frame);
    cti_nn_state_free(&state);
    return ok;
}

bool ct_checkpoint_save(const char *path, ct_checkpoint *checkpoint) {
    static const char op[] = "checkpoint_save";
    ct_context *context = check(op, path, checkpoint);
    if (!context) return false;
    if (!has_optim(checkpoint) && !checkpoint->n_tensors)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: optim and optims are NULL", op, path);
    if (checkpoint->step < 0 || checkpoint->step > CTI_NN_LAST_STEP)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: %s: step is %" PRId64 ", must be at least 0 and at most %" PRId64, op,
                       path, checkpoint->step, CTI_NN_LAST_STEP);
    ct_rng rng = ct_rng_get(context);
    char step[24], seed[24], stream[24];
    snprintf(step, sizeof step, "%" PRId64, checkpoint->step);
    snprintf(seed, sizeof seed, "%" PRIu64, rng.seed);
    snprintf(stream, sizeof stream, "%" PRIu64, rng.stream);

    const int64_t first = first_optim(checkpoint), optims = checkpoint->n_optims - first;
    const size_t bytes = cti_bytes(2 * optims + 11, sizeof(char *)),
                 names = cti_bytes(optims, sizeof(optim_name));
    const char **metadata = cti_take(context, bytes);
    optim_name *name = metadata ? cti_take(context, names) : NULL;
    bool ok = name;
    if (ok) {
        const char **at = metadata;
        *at++ = CTI_CHECKSUM_KEY, *at++ = CTI_CHECKSUM_ZEROS, *at++ = "format", *at++ = format;
        for (int64_t i = 0; i < optims; i++) {
            *at++ = optim_key(first + i, name[i].key);
            *at++ = optim_at(checkpoint, first + i)->rule->name;
        }
        *at++ = "step", *at++ = step, *at++ = "seed", *at++ = seed;
        *at++ = "stream", *at++ = stream, *at++ = NULL;
        ok = save(context, op, path, checkpoint, metadata);
    }
    cti_give(context, metadata, bytes);
    cti_give(context, name, names);
    return ok;
}

/* ---- loading ---- */

/* Reads a decimal of at most `most` from the metadata. */
static bool read_decimal(const cti_shards *file, const char *key, uint64_t most, uint64_t *out) {
    const cti_text *text = cti_shards_metadata(file, cti_text_of(key));
    bool ok = text && text->size > 0;
    *out = 0;
    for (size_t i = 0; ok && i < text->size; i++) {
        uint64_t digit = (uint64_t)(text->at[i] - '0');
        ok = text->at[i] >= '0' && text->at[i] <= '9' && *out <= (most - digit) / 10;
        *out = 10 * *out + digit;
    }
    if (!ok)
        ct_fail(file->context, CT_ERR_FORMAT,
                "%s: %s: metadata \"%s\" is no whole number of at most %" PRIu64 ": %s", file->op,
                file->path, key, most, text ? NAME(*text) : "missing");
    return ok;
}

/* Whether the file has an optimiser, and none is given to load it into. */
static bool is_for_inference(const cti_shards *file, const ct_checkpoint *checkpoint) {
    return !has_optim(checkpoint) && (cti_shards_metadata(file, cti_text_of("optim")) ||
                                      cti_shards_metadata(file, cti_text_of("optims.0")));
}

static bool read_metadata(const cti_shards *file, const ct_checkpoint *checkpoint, ct_rng *rng,
                          uint64_t *step) {
    const cti_text *kind = cti_shards_metadata(file, cti_text_of("format"));
    if (!kind || cti_text_compare(*kind, cti_text_of(format)) != 0)
        return ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: metadata \"format\" is not \"%s\"",
                       file->op, file->path, format);
    for (int64_t i = 0; i < file->files; i++)
        if (!file->file[i].checked)
            return ct_fail(file->context, CT_ERR_FORMAT,
                           "%s: %s: metadata does not begin with \"" CTI_CHECKSUM_KEY
                           "\", as a checkpoint's does",
                           file->op, file->file[i].file.path);
    for (int64_t i = first_optim(checkpoint); i < checkpoint->n_optims; i++) {
        char key[PREFIX];
        const char *ours = optim_at(checkpoint, i)->rule->name;
        const cti_text *name = cti_shards_metadata(file, cti_text_of(optim_key(i, key)));
        if (!name || cti_text_compare(*name, cti_text_of(ours)) != 0)
            return ct_fail(file->context, CT_ERR_FORMAT,
                           "%s: %s: the optimiser%s%s is %s, the file's is %s", file->op,
                           file->path, i < 0 ? "" : " ", i < 0 ? "" : key, ours,
                           name ? NAME(*name) : "missing");
    }
    return read_decimal(file, "step", CTI_NN_LAST_STEP, step) &&
           read_decimal(file, "seed", UINT64_MAX, &rng->seed) &&
           read_decimal(file, "stream", UINT64_MAX, &rng->stream);
}

/* Reads everything: the optimisers into their drafts, the rest into new tensors. */
static bool read_all(cti_nn_state *state, const cti_nn_match *match,
                     const ct_checkpoint *checkpoint, ct_optim *drafts) {
    const int64_t first = first_optim(checkpoint);
    char key[PREFIX];
    for (int64_t i = first; i < checkpoint->n_optims; i++)
        if (!cti_nn_draft_begin(&drafts[i - first], optim_at(checkpoint, i), optim_key(i, key),
                                match->file))
            return false;
    if (!gather(state, checkpoint, drafts, match->file) || !cti_nn_state_match(state, match) ||
        !cti_nn_state_read(state))
        return false;
    cti_nn_state_write_numbers(state);
    for (int64_t i = first; i < checkpoint->n_optims; i++)
        if (!cti_nn_draft_check(&drafts[i - first], optim_key(i, key), match->file)) return false;
    return true;
}

static bool load(const cti_shards *file, ct_checkpoint *checkpoint) {
    ct_context *context = file->context;
    ct_rng rng;
    uint64_t step;
    cti_nn_state state = {.context = context};
    const bool inference = is_for_inference(file, checkpoint);
    const cti_nn_match match = {
        .file = file, .module = checkpoint->module, .prefix = "model.", .ignore_others = inference};
    const int64_t first = first_optim(checkpoint), optims = checkpoint->n_optims - first;
    const size_t bytes = cti_bytes(optims, sizeof(ct_optim));
    ct_optim *drafts = cti_take_zeroed(context, bytes);
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    const bool ok = drafts && read_metadata(file, checkpoint, &rng, &step) &&
                    read_all(&state, &match, checkpoint, drafts);
    if (ok) {
        cti_nn_state_commit(&state);
        for (int64_t i = 0; i < optims; i++)
            cti_nn_draft_adopt(&drafts[i], optim_at(checkpoint, first + i));
        if (!inference) ct_rng_set(context, rng);
        checkpoint->step = (int64_t)step;
    }
    for (int64_t i = 0; drafts && i < optims; i++) cti_nn_draft_end(&drafts[i]);
    cti_frame_close(context, &frame);
    cti_nn_state_free(&state);
    cti_give(context, drafts, bytes);
    return ok;
}

bool ct_checkpoint_load(const char *path, ct_checkpoint *checkpoint) {
    static const char op[] = "checkpoint_load";
    ct_context *context = check(op, path, checkpoint);
    if (!cti_ready(context)) return false;
    cti_shards file;
    if (!cti_shards_open_checked(context, op, path, &file)) return false;
    const bool ok = load(&file, checkpoint);
    cti_shards_close(&file);
    return ok;
}
