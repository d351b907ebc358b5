/* The reading of decoders. */
#include <string.h>

#include "decoders.h"
#include "utf8.h"

enum { LONGEST_STRIP = 255 };

/* The names in the order of cti_decode_kind. */
static const char *const decode_names[CTI_DECODE_KINDS] = {
    "Replace",   "Metaspace",    "WordPiece", "Strip",    "BPEDecoder",
    "ByteLevel", "ByteFallback", "Fuse",      "Sequence",
};

/* A decoder that is being read, and which stages have come already. */
typedef struct {
    const cti_reading *reading;
    cti_decoder *out;
    bool has_bytes, is_whole;
} decoder_read;

static bool is_one_character(cti_text text) {
    return text.size && cti_utf8_length((unsigned char)text.at[0]) == text.size;
}

static bool metaspace_stage_read(const cti_reading *reading, cti_json_at value,
                                 cti_decode_stage *stage) {
    static const char *const keys[] = {"replacement", "prepend_scheme", "add_prefix_space",
                                       "split",       "str_rep",        NULL};
    cti_text scheme = cti_text_of("always");
    bool prefix = true, split = true;
    if (!cti_reading_only(reading, value, keys) ||
        !cti_reading_needs_text(reading, value, "replacement", &stage->text) ||
        !cti_reading_text(reading, value, "prepend_scheme", &scheme) ||
        !cti_reading_bool(reading, value, "add_prefix_space", &prefix) ||
        !cti_reading_bool(reading, value, "split", &split))
        return false;
    if (!is_one_character(stage->text))
        return cti_reading_fail(reading, value, "\"replacement\" is not one character");
    stage->flag = !strcmp(scheme.at, "never");
    if (!stage->flag && strcmp(scheme.at, "always") != 0 && strcmp(scheme.at, "first") != 0)
        return cti_reading_fail(reading, value, "\"prepend_scheme\" is '%s'", scheme.at);
    if (!prefix && !stage->flag)
        return cti_reading_fail(reading, value,
                                "\"add_prefix_space\" contradicts "
                                "\"prepend_scheme\"");
    return true;
}

static bool wordpiece_stage_read(const cti_reading *reading, cti_json_at value,
                                 cti_decode_stage *stage) {
    static const char *const keys[] = {"prefix", "cleanup", NULL};
    return cti_reading_only(reading, value, keys) &&
           cti_reading_needs_text(reading, value, "prefix", &stage->text) &&
           cti_reading_bool(reading, value, "cleanup", &stage->flag);
}

static bool strip_stage_read(const cti_reading *reading, cti_json_at value,
                             cti_decode_stage *stage) {
    static const char *const keys[] = {"content", "start", "stop", NULL};
    if (!cti_reading_only(reading, value, keys) ||
        !cti_reading_needs_text(reading, value, "content", &stage->text) ||
        !cti_reading_natural(reading, value, "start", &stage->start) ||
        !cti_reading_natural(reading, value, "stop", &stage->stop))
        return false;
    if (!is_one_character(stage->text))
        return cti_reading_fail(reading, value, "\"content\" is not one character");
    if (stage->start > LONGEST_STRIP || stage->stop > LONGEST_STRIP)
        return cti_reading_fail(reading, value, "more than %d characters are to be removed",
                                LONGEST_STRIP);
    return true;
}

static bool replace_stage_read(const cti_reading *reading, cti_json_at value,
                               cti_decode_stage *stage) {
    static const char *const keys[] = {"pattern", "content", NULL};
    const cti_json_at pattern = cti_json_member(reading->tree, value, "pattern");
    if (!pattern) return cti_reading_fail(reading, value, "it has no \"pattern\"");
    return cti_reading_only(reading, value, keys) &&
           cti_reading_needs_text(reading, value, "content", &stage->text) &&
           cti_pattern_read(reading, pattern, &stage->pattern);
}

/* Reads the members of a stage. */
static bool stage_read(const cti_reading *reading, cti_json_at value, cti_decode_stage *stage) {
    static const char *const bpe_keys[] = {"suffix", NULL}, *const none[] = {NULL},
                             *const byte_keys[] = {"add_prefix_space", "trim_offsets", "use_regex",
                                                   NULL};
    switch (stage->kind) {
    case CTI_DECODE_REPLACE: return replace_stage_read(reading, value, stage);
    case CTI_DECODE_METASPACE: return metaspace_stage_read(reading, value, stage);
    case CTI_DECODE_WORDPIECE: return wordpiece_stage_read(reading, value, stage);
    case CTI_DECODE_STRIP: return strip_stage_read(reading, value, stage);
    case CTI_DECODE_BPE:
        return cti_reading_only(reading, value, bpe_keys) &&
               cti_reading_needs_text(reading, value, "suffix", &stage->text);
    case CTI_DECODE_BYTES: return cti_reading_only(reading, value, byte_keys);
    default: return cti_reading_only(reading, value, none);
    }
}

/* Puts a stage into its place in the decoder, if the order allows it. */
static bool stage_place(decoder_read *read, const cti_reading *reading, cti_json_at value,
                        cti_decode_stage stage) {
    cti_decoder *out = read->out;
    if (stage.kind == CTI_DECODE_FUSE) {
        read->is_whole = true;
        return true;
    }
    if (stage.kind == CTI_DECODE_STRIP && read->is_whole && !out->strips) {
        out->strips = true;
        out->strip = stage;
        return true;
    }
    if (read->has_bytes || read->is_whole)
        return cti_reading_fail(reading, value, "the decoder does not work behind the one before");
    if (stage.kind == CTI_DECODE_BYTES || stage.kind == CTI_DECODE_FALLBACK) {
        out->bytes = stage.kind;
        read->has_bytes = true;
        read->is_whole = stage.kind == CTI_DECODE_BYTES;
        return true;
    }
    const bool waits = out->stages && out->stage[0].kind == CTI_DECODE_BPE;
    if (out->stages == CTI_MOST_STAGES || waits || (stage.kind == CTI_DECODE_BPE && out->stages))
        return cti_reading_fail(reading, value, "the decoder does not work behind the one before");
    out->stage[out->stages++] = stage;
    return true;
}

/* Reads a decoder that is no Sequence. */
static bool decoder_read_one(decoder_read *read, cti_json_at value, int kind) {
    cti_reading reading = *read->reading;
    reading.type_of = value;
    cti_decode_stage stage = {.kind = (cti_decode_kind)kind};
    return stage_read(&reading, value, &stage) && stage_place(read, &reading, value, stage);
}

static bool decoders_read(decoder_read *read, cti_json_at value) {
    const cti_json_tree *tree = read->reading->tree;
    const cti_json_at list = cti_json_member(tree, value, "decoders");
    if (!list || tree->value[list].kind != CTI_JSON_ARRAY)
        return cti_reading_fail(read->reading, value, "a Sequence has no array \"decoders\"");
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next) {
        const int kind =
            cti_reading_kind(read->reading, i, "decoder", decode_names, CTI_DECODE_SEQUENCE);
        if (kind < 0 || !decoder_read_one(read, i, kind)) return false;
    }
    return true;
}

bool cti_decoder_read(const cti_reading *reading, cti_json_at value, cti_decoder *decoder) {
    *decoder = (cti_decoder){.bytes = CTI_DECODE_FUSE};
    decoder->joins_with_space = !value || reading->tree->value[value].kind == CTI_JSON_NULL;
    if (decoder->joins_with_space) return true;
    decoder_read read = {.reading = reading, .out = decoder};
    const int kind = cti_reading_kind(reading, value, "decoder", decode_names, CTI_DECODE_KINDS);
    if (kind < 0) return false;
    return kind == CTI_DECODE_SEQUENCE ? decoders_read(&read, value)
                                       : decoder_read_one(&read, value, kind);
}

bool cti_decoder_waits(const cti_decoder *decoder) {
    return decoder->stages && decoder->stage[0].kind == CTI_DECODE_BPE;
}

/* a * b + c, or SIZE_MAX. */
static size_t saturated(size_t a, size_t b, size_t c) {
    size_t result;
    if (__builtin_mul_overflow(a, b, &result) || __builtin_add_overflow(result, c, &result))
        return SIZE_MAX;
    return result;
}

size_t cti_decode_room(const cti_decoder *decoder, size_t size) {
    enum { HELD = 16 }; /* room for the U+FFFD of all held bytes, a space and the NUL */
    for (int i = 0; i < decoder->stages; i++) {
        const cti_decode_stage *stage = &decoder->stage[i];
        if (stage->kind == CTI_DECODE_REPLACE)
            size = saturated(saturated(size, 1, 1), saturated(stage->text.size, 1, 1), 0);
        else if (stage->kind != CTI_DECODE_STRIP) size = saturated(size, 2, 1);
    }
    if (decoder->bytes == CTI_DECODE_BYTES) size = saturated(size, 3, 0);
    if (decoder->strips)
        size = saturated((size_t)decoder->strip.stop, decoder->strip.text.size, size);
    return saturated(size, 1, HELD);
}
