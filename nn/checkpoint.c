/* A checkpoint: one safetensors file. Training that resumes from it gives the same bits as training
 * that did not stop.
 *
 *     model.NAME            the parameters, or the trained ones, and the persistent buffers
 *     optim.lr, ...         the optimiser: optim/saved.h lists its tensors
 *     optims.0.lr, ...      the same of each further optimiser
 *     tensor.NAME           the caller's tensors
 *     __metadata__          the checksum; each optimiser's name; step, seed and stream as decimals;
 *                           optim.dist etc., the count of steps of an optimiser's group (the group
 *                           has the name "dist"); fingerprint, cti_fingerprint_text when the file
 *                           was saved (src/core/kernel_bits.h)
 *
 * (1) A save writes nothing before all arguments are checked. A load reads and checks the whole
 * file before it changes anything; the steps after that cannot fail.
 *
 * (2) The processes of a group save or load together (checkpoint_group.h): only the first has a
 * file, and all succeed or all fail. */
#include <cotangent/io.h>

#include <string.h>

#include "../src/core/kernel_bits.h"
#include "../src/core/message.h"
#include "../src/io/checksum.h"
#include "match.h"
#include "optim/saved.h"
#include "together.h"

static const char fingerprint_key[] = "fingerprint";
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

/* A checkpoint has the bits of all tensors, and files have no blocks. */
static bool checkpoint_has_no_blocks(const cti_nn_state *state) {
    for (int64_t i = 0; i < state->n; i++)
        if (cti_is_blocks(state->named[i].tensor->dtype))
            return ct_fail(state->context, CT_ERR_DTYPE,
                           "checkpoint: %s is %s, which a checkpoint cannot have; with .trained it "
                           "leaves out frozen parameters",
                           state->named[i].name, cti_dtype_name(state->named[i].tensor->dtype));
    return true;
}

/* Collects everything except the metadata. `copies` replace the optimisers: gathered copies for a
 * save, drafts for a load. If `copies` is NULL the optimisers themselves are collected. */
static bool checkpoint_gather(cti_nn_state *state, const ct_checkpoint *checkpoint,
                              ct_optim *copies) {
    if (!cti_nn_state_add_module(state, "model.", checkpoint->module, checkpoint->trained))
        return false;
    const int64_t first = first_optim(checkpoint);
    for (int64_t i = first; i < checkpoint->n_optims; i++) {
        char key[PREFIX];
        ct_optim *optim = copies ? &copies[i - first] : optim_at(checkpoint, i);
        if (!cti_nn_optim_gather(state, optim_key(i, key), optim)) return false;
    }
    for (int64_t i = 0; i < checkpoint->n_tensors; i++) {
        const ct_named *named = &checkpoint->tensors[i];
        if (!cti_nn_state_add(state, "tensor.", named->name, named->tensor)) return false;
        state->record[state->n - 1].exact = true;
    }
    return checkpoint_has_no_blocks(state);
}

/* ---- arguments ---- */

/* The objects among the arguments have numbers: MODULE, ITS_GROUP, -1 for .optim, and for .optims
 * 0 ... n_optims - 1. */
enum { MODULE = -3, ITS_GROUP };

static const cti_object *object_at(const ct_checkpoint *checkpoint, int64_t i) {
    if (i == MODULE) return checkpoint->module ? &checkpoint->module->object : NULL;
    if (i == ITS_GROUP) return checkpoint->group ? &checkpoint->group->object : NULL;
    const ct_optim *optim = optim_at(checkpoint, i);
    return optim ? &optim->object : NULL;
}
static int64_t objects_end(const ct_checkpoint *checkpoint) {
    return checkpoint->optims ? checkpoint->n_optims : 0;
}
static int64_t tensors_end(const ct_checkpoint *checkpoint) {
    return checkpoint->tensors ? checkpoint->n_tensors : 0;
}

/* The context of the first object; NULL if there is no object. */
static ct_context *context_of(const ct_checkpoint *checkpoint) {
    const cti_object *first = NULL;
    for (int64_t i = MODULE; checkpoint && !first && i < objects_end(checkpoint); i++)
        first = object_at(checkpoint, i);
    return first ? first->context : NULL;
}

/* Whether an object, or a tensor if the object is NULL, belongs to the context of every
 * argument. */
static bool is_in_all(const ct_checkpoint *checkpoint, const char *op, const cti_object *object,
                      const ct_tensor *tensor) {
    bool in = true;
    for (int64_t i = MODULE; i < objects_end(checkpoint); i++) {
        const cti_object *beside = object_at(checkpoint, i);
        if (!beside) continue;
        in &= object ? cti_object_in(object, beside->context, op)
                     : cti_tensor_in(tensor, beside->context, op);
    }
    for (int64_t i = 0; i < tensors_end(checkpoint); i++) {
        ct_context *beside = ct_context_of(checkpoint->tensors[i].tensor);
        if (!beside) continue;
        in &= object ? cti_object_in(object, beside, op) : cti_tensor_in(tensor, beside, op);
    }
    return in;
}

/* Whether every argument is open and all belong to one context. If not, the error is recorded in
 * the contexts of all arguments. */
static bool are_together(const char *op, const ct_checkpoint *checkpoint) {
    const ct_context *context = context_of(checkpoint);
    for (int64_t i = MODULE; context && i < objects_end(checkpoint); i++) {
        const cti_object *object = object_at(checkpoint, i);
        if (object && (object->self != object || object->context != context))
            return is_in_all(checkpoint, op, object, NULL);
    }
    for (int64_t i = 0; context && i < tensors_end(checkpoint); i++) {
        const ct_tensor *tensor = checkpoint->tensors[i].tensor;
        if (tensor && !cti_tensor_is_of(tensor, context))
            return is_in_all(checkpoint, op, NULL, tensor);
    }
    return true;
}

static bool optims_check(ct_context *context, const char *op, const ct_checkpoint *checkpoint) {
    if (checkpoint->n_optims < 0 || (checkpoint->n_optims > 0 && !checkpoint->optims))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: optims is NULL, or n_optims negative", op);
    for (int64_t i = first_optim(checkpoint); i < checkpoint->n_optims; i++) {
        if (!optim_at(checkpoint, i))
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: optims[%" PRId64 "] is NULL", op, i);
        if (!cti_optim_is_idle(optim_at(checkpoint, i), op)) return false;
    }
    return true;
}

static bool tensors_check(ct_context *context, const char *op, const ct_checkpoint *checkpoint) {
    if (checkpoint->n_tensors < 0 || (checkpoint->n_tensors > 0 && !checkpoint->tensors))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: tensors is NULL, or n_tensors negative", op);
    for (int64_t i = 0; i < checkpoint->n_tensors; i++) {
        const ct_named *named = &checkpoint->tensors[i];
        if (!named->name || !named->tensor)
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: tensors[%" PRId64 "]: %s is NULL", op, i,
                           named->name ? "the tensor" : "the name");
        if (!cti_tensor_has_values(named->tensor, op)) return false;
    }
    return true;
}

/* The group in which an optimiser is saved and loaded, or NULL. */
static ct_checkpoint_group *group_of(const ct_optim *optim) {
    return optim->client ? optim->client->group : NULL;
}

/* Checks that every optimiser with a group may join .group, and that .group is the group of one of
 * them. */
static bool group_check(ct_context *context, const char *op, const ct_checkpoint *checkpoint) {
    const ct_checkpoint_group *group = checkpoint->group;
    bool found = !group;
    for (int64_t i = first_optim(checkpoint); i < checkpoint->n_optims; i++) {
        const ct_checkpoint_group *its = group_of(optim_at(checkpoint, i));
        found |= its == group;
        if (its && !its->fns->may_join(its, group, op)) return false;
    }
    return found ||
           ct_fail(context, CT_ERR_ARGUMENT, "%s: .group is of none of the optimisers", op);
}

/* Checks the arguments. Returns the context, or NULL if an argument is wrong. The error is recorded
 * if an object gives a context to record it in. */
static ct_context *checkpoint_check(const char *op, const char *path,
                                    const ct_checkpoint *checkpoint) {
    ct_context *context = context_of(checkpoint);
    if (!context || !are_together(op, checkpoint)) return NULL;
    if (!path || !checkpoint->module)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: path or module is NULL", op);
    return optims_check(context, op, checkpoint) && group_check(context, op, checkpoint) &&
                   tensors_check(context, op, checkpoint)
               ? context
               : NULL;
}

/* ---- a call that runs ---- */

/* Adds 1 or -1 to the calls that are running in each optimiser: while a save or load runs, its
 * optimisers cannot be freed, and so neither can its group. */
static void optims_count_running(const ct_checkpoint *checkpoint, int change) {
    for (int64_t i = -1; i < objects_end(checkpoint); i++) {
        ct_optim *optim = optim_at(checkpoint, i);
        if (optim && optim->object.self == &optim->object &&
            optim->context == context_of(checkpoint))
            optim->running += change;
    }
}

/* ---- lists of the optimisers ---- */

/* Pointers to the optimisers, a copy of each, and the number of steps of each. */
typedef struct {
    ct_optim *copy;
    ct_optim **optim;
    uint64_t *steps; /* steps of each optimiser's group */
    int64_t n;
    size_t bytes;
} optim_list;

static bool optims_collect(ct_context *context, const ct_checkpoint *checkpoint, optim_list *list) {
    const int64_t first = first_optim(checkpoint), n = checkpoint->n_optims - first;
    *list = (optim_list){
        .n = n, .bytes = cti_bytes(n, sizeof(ct_optim) + sizeof(ct_optim *) + sizeof(uint64_t))};
    list->copy = cti_take_zeroed(context, list->bytes);
    if (!list->copy) {
        list->n = 0;
        return false;
    }
    list->steps = (uint64_t *)(list->copy + n);
    list->optim = (ct_optim **)(list->steps + n);
    for (int64_t i = 0; i < n; i++) list->optim[i] = optim_at(checkpoint, first + i);
    return true;
}

/* ---- saving ---- */

/* Texts for one optimiser's metadata. */
typedef struct {
    char key[PREFIX], steps_key[2 * PREFIX], steps[24];
} optim_texts;

/* Writes the key of a group's count of steps: "optim.dist". */
static void steps_key_write(const ct_checkpoint_group *group, const char *key,
                            char steps_key[2 * PREFIX]) {
    snprintf(steps_key, 2 * PREFIX, "%s.%s", key, group->fns->steps);
}

static bool checkpoint_write(ct_context *context, const char *op, const char *path,
                             const ct_checkpoint *checkpoint, const optim_list *list) {
    const ct_rng rng = ct_rng_get(context);
    char step[24], seed[24], stream[24], fingerprint[CTI_FINGERPRINT_TEXT];
    cti_fingerprint_text(context, fingerprint);
    snprintf(step, sizeof step, "%" PRId64, checkpoint->step);
    snprintf(seed, sizeof seed, "%" PRIu64, rng.seed);
    snprintf(stream, sizeof stream, "%" PRIu64, rng.stream);

    const size_t bytes = cti_bytes(4 * list->n + 13, sizeof(char *)),
                 names = cti_bytes(list->n, sizeof(optim_texts));
    const char **metadata = cti_take(context, bytes);
    optim_texts *texts = metadata ? cti_take(context, names) : NULL;
    cti_nn_state state = {.context = context};
    bool ok = texts;
    if (ok) {
        const char **at = metadata;
        *at++ = CTI_CHECKSUM_KEY, *at++ = CTI_CHECKSUM_ZEROS, *at++ = "format", *at++ = format;
        for (int64_t i = 0; i < list->n; i++) {
            const ct_checkpoint_group *group = group_of(list->optim[i]);
            *at++ = optim_key(first_optim(checkpoint) + i, texts[i].key);
            *at++ = cti_nn_optim_name(list->optim[i]);
            if (!group) continue;
            steps_key_write(group, texts[i].key, texts[i].steps_key);
            snprintf(texts[i].steps, sizeof texts->steps, "%" PRId64, group->steps);
            *at++ = texts[i].steps_key, *at++ = texts[i].steps;
        }
        *at++ = "step", *at++ = step, *at++ = "seed", *at++ = seed;
        *at++ = "stream", *at++ = stream;
        *at++ = fingerprint_key, *at++ = fingerprint, *at++ = NULL;
        ok = checkpoint_gather(&state, checkpoint, list->copy) &&
             cti_safetensors_save_checked(context, op, path, state.named, state.n, metadata);
    }
    cti_nn_state_free(&state);
    cti_give(context, metadata, bytes);
    cti_give(context, texts, names);
    return ok;
}

static ct_context *checkpoint_check_save(const char *op, const char *path,
                                         const ct_checkpoint *checkpoint) {
    ct_context *context = checkpoint_check(op, path, checkpoint);
    if (!context) return NULL;
    if (!has_optim(checkpoint) && !checkpoint->n_tensors)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: optim and optims are NULL", op, path);
    if (checkpoint->step >= 0 && checkpoint->step <= CTI_NN_LAST_STEP) return context;
    return ct_fail(context, CT_ERR_ARGUMENT,
                   "%s: %s: step is %" PRId64 ", must be at least 0 and at most %" PRId64, op, path,
                   checkpoint->step, CTI_NN_LAST_STEP);
}

/* Whether a call with this group may begin. If not, the error is in the contexts of all
 * arguments. */
static bool call_may_begin(cti_group_call call, const char *op, const ct_checkpoint *checkpoint) {
    ct_checkpoint_group *group = checkpoint->group;
    if (!group || (cti_object_is_open(&group->object, op) && group->fns->may_begin(group, call)))
        return true;
    are_together(op, checkpoint);
    return false;
}

static bool checkpoint_save_running(const char *path, const ct_checkpoint *checkpoint) {
    static const char op[] = "checkpoint_save";
    ct_checkpoint_group *group = checkpoint->group;
    ct_context *context = checkpoint_check_save(op, path, checkpoint);
    if (!context && !group) return false;
    optim_list list = {0};
    bool ok = context && optims_collect(context, checkpoint, &list);
    if (!context) context = group->context;
    ok = cti_nn_gather(group, list.optim, list.n, list.copy, checkpoint->step, ok);
    if (ok && cti_group_is_first(group))
        ok = checkpoint_write(context, op, path, checkpoint, &list);
    ok = cti_group_agree(group, CTI_GROUP_SAVE, 1, ok);
    cti_nn_gathered_free(list.optim, list.n, list.copy);
    cti_give(context, list.copy, list.bytes);
    return ok;
}

bool ct_checkpoint_save(const char *path, ct_checkpoint *checkpoint) {
    if (!context_of(checkpoint) || !call_may_begin(CTI_GROUP_SAVE, "checkpoint_save", checkpoint))
        return false;
    ct_context *context = context_of(checkpoint);
    cti_frame frame; /* it owns the states that cti_nn_gather makes */
    cti_frame_open(context, &frame, true);
    optims_count_running(checkpoint, 1);
    const bool ok = checkpoint_save_running(path, checkpoint);
    optims_count_running(checkpoint, -1);
    cti_frame_close(context, &frame);
    return ok;
}

/* ---- loading ---- */

/* Reads a decimal number up to `most` from the metadata. */
static bool decimal_read(const cti_shards *file, const char *key, uint64_t most, uint64_t *out) {
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

/* Whether the file has an optimiser although the caller gives none to load it into. */
static bool is_for_inference(const cti_shards *file, const ct_checkpoint *checkpoint) {
    return !has_optim(checkpoint) && (cti_shards_metadata(file, cti_text_of("optim")) ||
                                      cti_shards_metadata(file, cti_text_of("optims.0")));
}

/* The numbers that the first process of a group reads and sends to the others. */
typedef struct {
    ct_rng rng;
    uint64_t step, found_bytes;
    char other_bits[sizeof((ct_checkpoint *)0)->other_bits];
} read_numbers;

/* Writes other_bits if the file was saved with kernels of another fingerprint. Earlier versions
 * wrote no fingerprint. */
static void fingerprints_compare(const cti_shards *file, read_numbers *numbers) {
    char here[CTI_FINGERPRINT_TEXT], saved[CTI_FINGERPRINT_TEXT];
    const cti_text *text = cti_shards_metadata(file, cti_text_of(fingerprint_key));
    if (!text || text->size < CTI_FINGERPRINT_DIGITS) return;
    cti_fingerprint_text(file->context, here);
    if (!memcmp(text->at, here, CTI_FINGERPRINT_DIGITS)) return;
    cti_text_shorten(saved, sizeof saved - 1, text->at, text->size);
    snprintf(numbers->other_bits, sizeof numbers->other_bits, "saved by %s, loaded by %s", saved,
             here);
}

static bool checkpoint_metadata(const cti_shards *file, const ct_checkpoint *checkpoint,
                                const optim_list *list, read_numbers *numbers) {
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
    for (int64_t i = first_optim(checkpoint), n = 0; i < checkpoint->n_optims; i++, n++) {
        char key[PREFIX], steps[2 * PREFIX];
        const ct_optim *optim = list->optim[n];
        const char *ours = cti_nn_optim_name(optim);
        const cti_text *name = cti_shards_metadata(file, cti_text_of(optim_key(i, key)));
        if (!name || cti_text_compare(*name, cti_text_of(ours)) != 0)
            return ct_fail(file->context, CT_ERR_FORMAT,
                           "%s: %s: the optimiser%s%s is %s, the file's is %s", file->op,
                           file->path, i < 0 ? "" : " ", i < 0 ? "" : key, ours,
                           name ? NAME(*name) : "missing");
        const ct_checkpoint_group *group = group_of(optim);
        if (!group) continue;
        steps_key_write(group, key, steps);
        if (cti_shards_metadata(file, cti_text_of(steps)) &&
            !decimal_read(file, steps, CTI_NN_LAST_STEP, &list->steps[n]))
            return false;
    }
    fingerprints_compare(file, numbers);
    return decimal_read(file, "step", CTI_NN_LAST_STEP, &numbers->step) &&
           decimal_read(file, "seed", UINT64_MAX, &numbers->rng.seed) &&
           decimal_read(file, "stream", UINT64_MAX, &numbers->rng.stream);
}

/* Makes the drafts, and collects all tensors to load. */
static bool drafts_make(cti_nn_state *state, const ct_checkpoint *checkpoint,
                        const optim_list *list, const unsigned char *found, bool cut) {
    const unsigned char *at = found;
    for (int64_t i = 0; i < list->n; i++) {
        if (!cti_nn_draft_begin(&list->copy[i], list->optim[i], at, cut)) return false;
        at += list->optim[i]->count;
    }
    return checkpoint_gather(state, checkpoint, list->copy);
}

/* Checks that the `fault` of a rule has not freed or changed what is being loaded. */
static bool is_as_before(const char *op, const ct_checkpoint *checkpoint, int64_t changes) {
    if (!are_together(op, checkpoint)) return false;
    return checkpoint->module->changes == changes ||
           ct_fail(checkpoint->module->context, CT_ERR_ARGUMENT,
                   "%s: the rule of an optimiser has changed the module", op);
}

/* Reads everything: the optimisers into drafts, the other tensors into new ones. */
static bool tensors_read_all(cti_nn_state *state, const cti_nn_match *match,
                             const ct_checkpoint *checkpoint, const optim_list *list,
                             unsigned char *found) {
    const int64_t first = first_optim(checkpoint), changes = checkpoint->module->changes;
    char key[PREFIX];
    unsigned char *at = found;
    for (int64_t i = 0; i < list->n; i++) {
        cti_nn_look_up(list->optim[i], optim_key(first + i, key), match->file, at);
        at += list->optim[i]->count;
    }
    if (!drafts_make(state, checkpoint, list, found, false) || !cti_nn_state_match(state, match) ||
        !cti_nn_state_read(state))
        return false;
    cti_nn_state_write_numbers(state);
    for (int64_t i = 0; i < list->n; i++)
        if (!cti_nn_draft_check(&list->copy[i], list->optim[i], optim_key(first + i, key),
                                match->file) ||
            !is_as_before(match->file->op, checkpoint, changes))
            return false;
    return true;
}

/* Sends the first process's numbers and tensors to all processes, which make the same drafts.
 * Returns whether all processes have everything. */
static bool found_receive(ct_checkpoint_group *group, cti_nn_state *state,
                          const ct_checkpoint *checkpoint, const optim_list *list,
                          read_numbers *numbers, unsigned char *found, bool ok) {
    const cti_group_fns *fns = group->fns;
    const uint64_t mine = numbers->found_bytes;
    if (!cti_group_agree(group, CTI_GROUP_LOAD, 0, ok)) return false;
    fns->broadcast(group, numbers, sizeof *numbers);
    if (numbers->found_bytes != mine)
        ct_fail(group->context, CT_ERR_ARGUMENT,
                "checkpoint_load: %s %d has other optimisers than %s 0", fns->process,
                group->number, fns->process);
    if (!cti_group_agree(group, CTI_GROUP_LOAD, 0, numbers->found_bytes == mine)) return false;
    fns->broadcast(group, found, (size_t)mine);
    fns->broadcast(group, list->steps, (size_t)list->n * sizeof *list->steps);
    ok = cti_group_is_first(group) || drafts_make(state, checkpoint, list, found, true);
    return cti_nn_scatter(group, list->optim, list->n, list->copy, state, ok);
}

/* Loads from the file, which is NULL on a process that is not the first. `ok` is false if this
 * process already has an error. */
static bool checkpoint_load(ct_context *context, const cti_shards *file, ct_checkpoint *checkpoint,
                            bool ok) {
    ct_checkpoint_group *group = checkpoint->group;
    read_numbers numbers = {0};
    optim_list list = {0};
    cti_nn_state state = {.context = context};
    ok = ok && optims_collect(context, checkpoint, &list);
    for (int64_t i = 0; i < list.n && ok; i++)
        numbers.found_bytes += (uint64_t)list.optim[i]->count;
    const size_t found_bytes = (size_t)numbers.found_bytes;
    unsigned char *found = ok ? cti_take_zeroed(context, found_bytes) : NULL;
    ok = ok && found;
    const bool inference = file && is_for_inference(file, checkpoint);
    const cti_nn_match match = {.file = file,
                                .module = checkpoint->module,
                                .prefix = "model.",
                                .trained = checkpoint->trained,
                                .ignore_others = inference};
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    if (file)
        ok = ok && checkpoint_metadata(file, checkpoint, &list, &numbers) &&
             tensors_read_all(&state, &match, checkpoint, &list, found);
    if (group && group->several)
        ok = found_receive(group, &state, checkpoint, &list, &numbers, found, ok);
    if (ok) {
        cti_nn_state_commit(&state);
        for (int64_t i = 0; i < list.n; i++) {
            cti_nn_draft_adopt(&list.copy[i], list.optim[i]);
            ct_checkpoint_group *its = group_of(list.optim[i]);
            if (its) its->steps = (int64_t)list.steps[i];
        }
        if (inference) *numbers.other_bits = '\0';
        else ct_rng_set(context, numbers.rng);
        checkpoint->step = (int64_t)numbers.step;
        memcpy(checkpoint->other_bits, numbers.other_bits, sizeof numbers.other_bits);
    }
    for (int64_t i = 0; list.copy && i < list.n; i++)
        if (list.copy[i].context) cti_nn_draft_end(&list.copy[i]);
    cti_frame_close(context, &frame);
    cti_nn_state_free(&state);
    cti_give(context, found, found_bytes);
    cti_give(context, list.copy, list.bytes);
    return ok;
}

static bool checkpoint_load_running(const char *path, ct_checkpoint *checkpoint) {
    static const char op[] = "checkpoint_load";
    ct_checkpoint_group *group = checkpoint->group;
    const bool reads = cti_group_is_first(group);
    ct_context *context = checkpoint_check(op, path || reads ? path : "", checkpoint);
    bool ok = cti_ready(context);
    if (!ok && !group) return false;
    if (!context) context = group->context;
    cti_shards file;
    const bool opened = ok && reads && cti_shards_open_checked(context, op, path, &file);
    ok = ok && opened == reads;
    if (ok || group) ok = checkpoint_load(context, opened ? &file : NULL, checkpoint, ok);
    if (opened) cti_shards_close(&file);
    return ok;
}

bool ct_checkpoint_load(const char *path, ct_checkpoint *checkpoint) {
    if (!context_of(checkpoint) || !call_may_begin(CTI_GROUP_LOAD, "checkpoint_load", checkpoint))
        return false;
    optims_count_running(checkpoint, 1);
    const bool ok = checkpoint_load_running(path, checkpoint);
    optims_count_running(checkpoint, -1);
    return ok;
}
