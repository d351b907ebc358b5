#include "text_probe.h"

#include <cotangent/autograd.h>
#include <cotangent/context.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ext/text/gguf_tokens.h"
#include "ext/text/normalize.h"

struct text_probe {
    ct_context *context;
    cti_arena arena;
    char *json;
    cti_json_tree tree;
    const cti_normalizer *normalizer;
};

const cti_normalizer *text_probe_normalizer(const text_probe *probe) { return probe->normalizer; }

void text_probe_close(text_probe *probe) {
    cti_json_tree_free(&probe->tree);
    cti_arena_free(&probe->arena);
    ct_context_free(probe->context);
    free(probe->json);
    free(probe);
}

text_probe *text_probe_open(const char *json, char *message, size_t room) {
    text_probe *probe = calloc(1, sizeof *probe);
    /* In an array, because value 0 is no part of a file's. */
    const size_t size = strlen(json) + 2;
    probe->json = malloc(size + 1);
    snprintf(probe->json, size + 1, "[%s]", json);
    probe->context = ct_context_new((ct_context_opts){.threads = 1});
    probe->arena.context = probe->context;
    const cti_reading reading = {
        .context = probe->context, .arena = &probe->arena, .path = "probe", .tree = &probe->tree};
    if (cti_json_tree_read(probe->context, "probe", "probe", probe->json, size, &probe->tree) &&
        cti_normalizer_read(&reading, 1, &probe->normalizer)) {
        return probe;
    }
    snprintf(message, room, "%s", ct_error_message(probe->context));
    text_probe_close(probe);
    return NULL;
}

int64_t text_probe_normalize(const text_probe *probe, const char *text, int64_t base, int64_t size,
                             char *out, int64_t *from, int64_t room) {
    cti_aligned normal = {.at = text + base, .size = (size_t)size, .base = (size_t)base};
    cti_aligned spare = {0};
    int64_t n = -1;
    if (cti_normalizer_run(probe->normalizer, &normal, &spare)) {
        n = (int64_t)normal.size;
        for (int64_t i = 0; i < n && i < room; i++) {
            const cti_extent origin = cti_aligned_origin(&normal, (size_t)i, (size_t)i + 1);
            out[i] = normal.at[i];
            from[2 * i] = (int64_t)origin.begin;
            from[2 * i + 1] = (int64_t)origin.end;
        }
    }
    cti_aligned_free(&normal);
    cti_aligned_free(&spare);
    return n;
}

bool text_probe_gguf(const char *path, const char *architecture, int64_t rows, const char *gguf,
                     char *message, size_t room) {
    ct_context *context = ct_context_new((ct_context_opts){.threads = 1});
    const ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    cti_gguf_out out;
    bool done = tokenizer && cti_gguf_out_begin(context, "probe", gguf, &out);
    if (done) {
        cti_gguf_put_text(&out, "general.architecture", cti_text_of(architecture));
        done = cti_tokenizer_put(tokenizer, &out, rows, NULL, 0) && cti_gguf_out_write(&out);
        cti_gguf_out_end(&out);
    }
    snprintf(message, room, "%s", done ? "" : ct_error_message(context));
    ct_context_free(context);
    return done;
}
