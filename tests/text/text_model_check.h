/* Reads the model of a tokenizer from JSON. The suites of models use it. */
#ifndef TEXT_MODEL_CHECK_H
#define TEXT_MODEL_CHECK_H

#include <cotangent/context.h>

#include <stdio.h>

#include "ext/text/model.h"
#include "tests/support/suite.h"

static ct_context *context;
static cti_arena arena;
static cti_json_tree tree;
static char *json;
static cti_vocabulary vocabulary;
static const cti_model *model;

static inline void start(void) { context = ct_context_new((ct_context_opts){0}); }

static inline void close_model(void) {
    cti_arena_free(&arena);
    cti_json_tree_free(&tree);
    free(json);
    json = NULL;
    tree = (cti_json_tree){0};
    model = NULL;
}

static inline void stop(void) {
    close_model();
    ct_context_free(context);
}

/* Reads a model from JSON with ' in place of ". */
static inline bool open_model(const char *text, bool bytes) {
    close_model();
    json = malloc(strlen(text) + 1);
    strcpy(json, text);
    for (char *at = json; *at; at++)
        if (*at == '\'') *at = '"';
    arena = (cti_arena){.context = context};
    if (!cti_json_tree_read(context, "tokenizer_open", "t.json", json, strlen(text), &tree))
        return false;
    const cti_reading reading = {
        .context = context, .arena = &arena, .path = "t.json", .tree = &tree};
    return cti_model_read(&reading, 0, bytes, &vocabulary, &model);
}

#endif
