/* A checkpoint: one safetensors file with everything that resumed training needs to give the same
 * bits as if it had not stopped.
 *
 *     model.NAME            the parameters
 *     optim.STATE.NAME      the optimiser's state of each parameter, e.g. optim.m.weight
 *     optim.step.NAME       i64 (): how many times each was updated
 *     optim.lr, ...         f64 or bool (): the optimiser's numbers, exact
 *     __metadata__          the optimiser's name; step, seed and stream as decimals */
#include <cotangent/io.h>

#include <string.h>

#include "optim/optim.h"
#include "state.h"

static const char format[] = "cotangent checkpoint 1";

/* Collects everything except the metadata. */
static bool gather(cti_nn_state *state, const ct_checkpoint *checkpoint) {
    ct_optim *optim = checkpoint->optim;
    if (!cti_nn_state_add_module(state, "model.", checkpoint->module)) return false;
    for (const cti_nn_number *number = optim->rule->numbers; number->name; number++)
        if (!cti_nn_state_add_number(state, "optim.", number->name, number->dtype,
                                     (char *)optim + number->offset))
            return false;
    for (int64_t i = 0; i < optim->count; i++) {
        cti_nn_slot *slot = &optim->slots[i];
        if (!cti_nn_state_add_number(state, "optim.step.", slot->name, CT_I64, &slot->step))
            return false;
        for (int k = 0; k < CTI_NN_STATES && slot->state[k]; k++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "optim.%s.", optim->rule->state[k]);
            if (!cti_nn_state_add(state, prefix, slot->name, slot->state[k])) return false;
        }
    }
    return true;
}

/* Checks the arguments. Returns the context; NULL if one is missing, with an error recorded if
 * module or optim gives a context to record it in. */
static ct_context *check(const char *op, const char *path, const ct_checkpoint *checkpoint) {
    if (!checkpoint) return NULL;
    ct_context *context = checkpoint->module  ? checkpoint->module->context
                          : checkpoint->optim ? checkpoint->optim->context
                                              : NULL;
    if (!context) return NULL;
    if (checkpoint->module && !cti_object_is_open(&checkpoint->module->object, op)) return NULL;
    if (checkpoint->optim && !cti_object_is_open(&checkpoint->optim->object, op)) return NULL;
    if (!path || !checkpoint->module || !checkpoint->optim)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: path, module or optim is NULL", op);
    if (checkpoint->optim->context != context)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: module and optim are of two contexts", op);
    return context;
}

bool ct_checkpoint_save(const char *path, ct_checkpoint *checkpoint) {
    static const char op[] = "checkpoint_save";
    ct_context *context = check(op, path, checkpoint);
    if (!context) return false;
    if (checkpoint->step < 0 || checkpoint->step > CTI_NN_LAST_STEP)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: %s: step is %" PRId64 ", must be at least 0 and at most %" PRId64, op,
                       path, checkpoint->step, CTI_NN_LAST_STEP);
    ct_rng rng = ct_rng_get(context);
    char step[24], seed[24], stream[24];
    snprintf(step, sizeof step, "%" PRId64, checkpoint->step);
    snprintf(seed, sizeof seed, "%" PRIu64, rng.seed);
    snprintf(stream, sizeof stream, "%" PRIu64, rng.stream);
    const char *const metadata[] = {"format", format, "optim", checkpoint->optim->rule->name,
                                    "step",   step,   "seed",  seed,
                                    "stream", stream, NULL};

    cti_nn_state state = {.context = context};
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    bool ok = gather(&state, checkpoint) &&
              cti_safetensors_write(context, op, path, metadata, state.item, state.n);
    cti_frame_close(context, &frame);
    cti_nn_state_free(&state);
    return ok;
}

/* Reads a decimal of at most `most` from the metadata. */
static bool read_decimal(const cti_safetensors *file, const char *key, uint64_t most,
                         uint64_t *out) {
    const cti_text *text = cti_safetensors_metadata(file, cti_text_of(key));
    bool ok = text && text->size > 0;
    *out = 0;
    for (size_t i = 0; ok && i < text->size; i++) {
        uint64_t digit = (uint64_t)(text->at[i] - '0');
        ok = text->at[i] >= '0' && text->at[i] <= '9' && *out <= (most - digit) / 10;
        *out = 10 * *out + digit;
    }
    if (!ok)
        ct_fail(file->file.context, CT_ERR_FORMAT,
                "%s: %s: metadata \"%s\" is no whole number of at most %" PRIu64 ": %s",
                file->file.op, file->file.path, key, most, text ? NAME(*text) : "missing");
    return ok;
}

static bool read_metadata(const cti_safetensors *file, const ct_optim *optim, ct_rng *rng,
                          uint64_t *step) {
    const cti_file *f = &file->file;
    const cti_text *kind = cti_safetensors_metadata(file, cti_text_of("format"));
    if (!kind || cti_text_compare(*kind, cti_text_of(format)) != 0)
        return ct_fail(f->context, CT_ERR_FORMAT, "%s: %s: metadata \"format\" is not \"%s\"",
                       f->op, f->path, format);
    const cti_text *name = cti_safetensors_metadata(file, cti_text_of("optim"));
    if (!name || cti_text_compare(*name, cti_text_of(optim->rule->name)) != 0)
        return ct_fail(f->context, CT_ERR_FORMAT, "%s: %s: the optimiser is %s, the file's is %s",
                       f->op, f->path, optim->rule->name, name ? NAME(*name) : "missing");
    return read_decimal(file, "step", CTI_NN_LAST_STEP, step) &&
           read_decimal(file, "seed", UINT64_MAX, &rng->seed) &&
           read_decimal(file, "stream", UINT64_MAX, &rng->stream);
}

/* Every step count, the only i64 in a checkpoint, is in [0, CTI_NN_LAST_STEP]. */
static bool check_steps(const cti_nn_state *state, const cti_file *file) {
    for (int64_t i = 0; i < state->n; i++) {
        const cti_named *item = &state->item[i];
        int64_t step = 0;
        if (item->tensor->dtype == CT_I64) cti_number_get(item->read, &step);
        if (step < 0 || step > CTI_NN_LAST_STEP)
            return ct_fail(file->context, CT_ERR_FORMAT,
                           "%s: %s: %s is %" PRId64 ", must be at least 0 and at most %" PRId64,
                           file->op, file->path, item->name, step, CTI_NN_LAST_STEP);
    }
    return true;
}

/* The optimiser's numbers in the file pass the same checks as in its constructor. */
static bool check_numbers(const cti_nn_state *state, const cti_file *file, const ct_optim *optim) {
    ct_optim changed = *optim;
    for (const cti_nn_number *number = optim->rule->numbers; number->name; number++)
        for (int64_t i = 0; i < state->n; i++)
            if (state->item[i].value == (const char *)optim + number->offset)
                cti_number_get(state->item[i].read, (char *)&changed + number->offset);
    const cti_nn_fault fault = cti_nn_optim_fault(&changed);
    if (!fault.name) return true;
    return ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: optim.%s is %g, must be %s", file->op,
                   file->path, fault.name, fault.value, fault.must);
}

bool ct_checkpoint_load(const char *path, ct_checkpoint *checkpoint) {
    static const char op[] = "checkpoint_load";
    ct_context *context = check(op, path, checkpoint);
    if (!cti_ready(context)) return false;
    cti_safetensors file;
    if (!cti_safetensors_open(context, op, path, &file)) return false;
    ct_rng rng;
    uint64_t step;
    cti_nn_state state = {.context = context};
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    bool ok = read_metadata(&file, checkpoint->optim, &rng, &step) && gather(&state, checkpoint) &&
              cti_nn_state_match(&state, &file, checkpoint->module, "model.", false) &&
              cti_nn_state_read(&state, &file) && check_steps(&state, &file.file) &&
              check_numbers(&state, &file.file, checkpoint->optim);
    if (ok) {
        cti_nn_state_commit(&state);
        ct_rng_set(context, rng);
        checkpoint->step = (int64_t)step;
    }
    cti_frame_close(context, &frame);
    cti_nn_state_free(&state);
    cti_safetensors_close(&file);
    return ok;
}
