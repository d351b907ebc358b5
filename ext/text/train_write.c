/* The tokenizer.json of a trained tokenizer, in the form of the tokenizers package. */
#include <string.h>

#include "train.h"

static cti_text token_text(const cti_trained *trained, size_t id) {
    const cti_tally_text *text = &trained->tokens.text[id];
    return (cti_text){trained->tokens.bytes + text->at, text->size};
}

static void specials_write(const cti_training *training, cti_writer *out) {
    cti_string_write(out, "\"added_tokens\":[");
    for (int64_t i = 0; i < training->n_special; i++) {
        cti_string_write(out, i ? ",{\"id\":" : "{\"id\":");
        cti_natural_write(out, i);
        cti_string_write(out, ",\"content\":");
        cti_quoted_write(out, training->special[i]);
        cti_string_write(out, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                              "\"normalized\":false,\"special\":true}");
    }
    cti_string_write(out, "]");
}

static void byte_level_write(const cti_training *training, cti_writer *out) {
    cti_string_write(out,
                     "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
                     "\"use_regex\":");
    cti_string_write(out, training->use_regex ? "true}" : "false}");
}

static void pretokenizer_write(const cti_training *training, cti_writer *out) {
    cti_string_write(out, "\"pre_tokenizer\":");
    const char *expression = training->expression;
    if (expression) {
        cti_string_write(out, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                              "\"pattern\":{\"Regex\":");
        cti_quoted_write(out, (cti_text){expression, strlen(expression)});
        cti_string_write(out, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    byte_level_write(training, out);
    if (expression) cti_string_write(out, "]}");
}

static void merges_write(const cti_trained *trained, cti_writer *out) {
    cti_string_write(out, "\"merges\":[");
    const char *separator = "[";
    for (size_t i = 0; i < trained->count; i++) {
        const cti_merged_pair *merge = &trained->merge[i];
        if (merge->replaced) continue;
        cti_string_write(out, separator);
        cti_quoted_write(out, token_text(trained, merge->a));
        cti_string_write(out, ",");
        cti_quoted_write(out, token_text(trained, merge->b));
        cti_string_write(out, "]");
        separator = ",[";
    }
    cti_string_write(out, "]");
}

void cti_train_write(const cti_training *training, const cti_trained *trained, cti_writer *out) {
    cti_string_write(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,");
    specials_write(training, out);
    cti_string_write(out, ",\"normalizer\":null,");
    pretokenizer_write(training, out);
    cti_string_write(out, ",\"post_processor\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
                          "\"trim_offsets\":false,\"use_regex\":true},"
                          "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
                          "\"trim_offsets\":true,\"use_regex\":true},"
                          "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                          "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                          "\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,"
                          "\"vocab\":{");
    for (size_t id = 0; id < trained->tokens.count; id++) {
        if (id) cti_string_write(out, ",");
        cti_quoted_write(out, token_text(trained, id));
        cti_string_write(out, ":");
        cti_natural_write(out, (int64_t)id);
    }
    cti_string_write(out, "},");
    merges_write(trained, out);
    cti_string_write(out, "}}");
}
