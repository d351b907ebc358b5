/* ct_encode_batch: texts become rows of a batch.
 *
 * The texts are encoded on the threads of the context, each into a row of its own, and the rows are
 * then put into tensors. A text that is too long loses its end; of a pair the longer text loses ids
 * first, as with "longest_first" of the tokenizers package. */
#include <cotangent/autograd.h>

#include <stdlib.h>
#include <string.h>

#include "../../src/core/int_math.h"
#include "../../src/core/parallel.h"
#include "../data/batch.h"
#include "tokenizer.h"

static const char encode_batch_op[] = "encode_batch";

typedef struct {
    const cti_tokenizer_parts *parts;
    const char *const *texts, *const *seconds;
    const ct_batch_opts *opts;
    const cti_template_part *template; /* the parts of a row */
    int64_t n_template;
    int64_t specials; /* the number of the template's tokens that a row has; 0 with no_special */
    cti_batch_row *rows;
    bool *failed; /* [threads] */
} batch_encoder;

/* Encodes a text without the template's tokens into a block that the caller frees. Returns false if
 * memory is short. */
static bool text_encode_one(const batch_encoder *encoder, const char *text, int64_t **ids,
                            int64_t *count) {
    const cti_text whole = cti_text_of(text);
    *ids = NULL;
    *count = 0;
    for (int64_t room = (int64_t)(whole.size / 2) + 16;;) {
        if ((uint64_t)room > SIZE_MAX / sizeof **ids) return false;
        int64_t *more = realloc(*ids, (size_t)room * sizeof **ids);
        if (!more) return false;
        *ids = more;
        cti_sink sink = {.ids = more, .room = room};
        const cti_plain plain = {.all = encoder->opts->encode.plain};
        if (!cti_text_encode(encoder->parts, whole, &plain, &sink)) return false;
        *count = sink.count;
        if (*count <= room) return true;
        room = *count;
    }
}

/* Shortens a pair to at most `most` ids by the rule of the package: the shorter text stays whole if
 * it has less than half of them. */
static void pair_shorten(int64_t most, int64_t *first, int64_t *second) {
    if (*first + *second <= most) return;
    int64_t *low = *first <= *second ? first : second, *high = low == first ? second : first;
    *high = *low > most ? *low : cti_max(*low, most - *low);
    if (*low + *high <= most) return;
    *low = most / 2;
    *high = *low + most % 2;
}

/* Makes a row of the ids of both texts by the template. */
static bool row_join(const batch_encoder *encoder, cti_batch_row *row, int64_t *const ids[2],
                     const int64_t count[2]) {
    const bool has_specials = !encoder->opts->encode.no_special;
    uint64_t length = 0;
    for (int64_t i = 0; i < encoder->n_template; i++) {
        const int64_t id = encoder->template[i].id;
        length += id >= 0 ? (uint64_t)has_specials : (uint64_t)count[id == CTI_SECOND_TEXT];
    }
    if (length >= SIZE_MAX / 2 / sizeof *row->ids) return false;
    row->ids = malloc((2 * (size_t)length + 1) * sizeof *row->ids);
    if (!row->ids) return false;
    row->types = row->ids + length;
    for (int64_t i = 0; i < encoder->n_template; i++) {
        const cti_template_part part = encoder->template[i];
        const int which = part.id == CTI_SECOND_TEXT;
        const int64_t n = part.id >= 0 ? has_specials : count[which];
        for (int64_t k = 0; k < n; k++) {
            row->types[row->length] = part.type;
            row->ids[row->length++] = part.id >= 0 ? part.id : ids[which][k];
        }
    }
    return true;
}

static bool row_encode(const batch_encoder *encoder, int64_t i) {
    int64_t *ids[2] = {NULL, NULL}, count[2] = {0, 0};
    bool ok = text_encode_one(encoder, encoder->texts[i], &ids[0], &count[0]);
    if (ok && encoder->seconds)
        ok = text_encode_one(encoder, encoder->seconds[i], &ids[1], &count[1]);
    if (ok && encoder->opts->max_length) {
        const int64_t most = encoder->opts->max_length - encoder->specials;
        if (encoder->seconds) pair_shorten(most, &count[0], &count[1]);
        else count[0] = cti_min(count[0], most);
    }
    ok = ok && row_join(encoder, &encoder->rows[i], ids, count);
    free(ids[0]);
    free(ids[1]);
    return ok;
}

static void rows_encode(void *arg, int64_t begin, int64_t end, int worker) {
    const batch_encoder *encoder = arg;
    for (int64_t i = begin; i < end && !encoder->failed[worker]; i++)
        encoder->failed[worker] = !row_encode(encoder, i);
}

/* The template of the batch, and the number of its tokens. Without them it still has the order and
 * the types of the texts. */
static void template_set(batch_encoder *encoder) {
    const cti_postprocessor *post = &encoder->parts->postprocessor;
    encoder->template = encoder->seconds ? post->pair : post->single;
    encoder->n_template = encoder->seconds ? post->pairs : post->singles;
    for (int64_t i = 0; i < encoder->n_template; i++)
        encoder->specials += encoder->template[i].id >= 0 && !encoder->opts->encode.no_special;
}

static bool texts_check(ct_context *context, const char *const *texts, int64_t n,
                        const char *name) {
    if (!texts) return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL", encode_batch_op, name);
    for (int64_t i = 0; i < n; i++)
        if (!texts[i])
            return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s[%lld] is NULL", encode_batch_op, name,
                           (long long)i);
    return true;
}

/* Encodes the rows on all threads. */
static bool batch_encode_all(const ct_tokenizer *tokenizer, batch_encoder *encoder, int64_t n) {
    ct_context *context = tokenizer->context;
    const int threads = cti_parallel_width(context);
    encoder->failed = calloc((size_t)threads, sizeof *encoder->failed);
    bool ok = encoder->failed != NULL;
    if (ok) cti_parallel(context, n, 1, rows_encode, encoder);
    for (int i = 0; ok && i < threads; i++) ok = !encoder->failed[i];
    free(encoder->failed);
    return ok || cti_encode_failed(tokenizer, encode_batch_op);
}

ct_batch ct_encode_batch(ct_tokenizer *tokenizer, const char *const *texts,
                         const char *const *seconds, int64_t n, ct_batch_opts opts) {
    ct_batch batch = {0};
    if (!tokenizer ||
        !cti_object_is_ready(&tokenizer->object, "ct_encode_batch", "tokenizer", NULL))
        return batch;
    ct_context *context = tokenizer->context;
    batch_encoder encoder = {
        .parts = tokenizer->parts, .texts = texts, .seconds = seconds, .opts = &opts};
    if (!cti_batch_check(context, &opts, n, encode_batch_op) ||
        !texts_check(context, texts, n, "texts") ||
        (seconds && !texts_check(context, seconds, n, "seconds")))
        return batch;
    template_set(&encoder);
    if (opts.max_length && opts.max_length < encoder.specials) {
        ct_fail(context, CT_ERR_ARGUMENT,
                "%s: max_length is %lld, and the tokens around the texts are %lld", encode_batch_op,
                (long long)opts.max_length, (long long)encoder.specials);
        return batch;
    }
    encoder.rows = cti_batch_rows_new(context, n, encode_batch_op);
    if (!encoder.rows) return batch;
    if (batch_encode_all(tokenizer, &encoder, n))
        batch = cti_batch_make(context, encoder.rows, n, false, &opts);
    for (int64_t i = 0; i < n; i++) free(encoder.rows[i].ids);
    free(encoder.rows);
    return batch;
}
