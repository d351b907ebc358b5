/* A tokenizer: opening, closing, and its tokens. */
#include "tokenizer.h"

#include <cotangent/autograd.h>
#include <cotangent/context.h>

#include <string.h>

#include "../../src/core/memory.h"
#include "utf8.h"

const char *const cti_role_names[CTI_ROLES] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

/* ---- the end ---- */

/* Gives the memory back and ends the object. */
static void tokenizer_end(cti_hook *self) {
    ct_tokenizer *tokenizer = (ct_tokenizer *)self;
    cti_arena_free(&tokenizer->arena);
    tokenizer->parts = NULL;
    cti_object_end(&tokenizer->object, "");
}

void ct_tokenizer_close(ct_tokenizer *tokenizer) {
    if (cti_tokenizer_is_open(tokenizer)) tokenizer_end(&tokenizer->object.hook);
}

/* ---- reading ---- */

/* Reads the kinds in the order in which they need each other. */
static bool tokenizer_parts_read(const cti_reading *reading, cti_tokenizer_parts *parts) {
    const cti_json_tree *tree = reading->tree;
    const cti_json_at model = cti_json_member(tree, 0, "model"),
                      added = cti_json_member(tree, 0, "added_tokens"),
                      normalizer = cti_json_member(tree, 0, "normalizer"),
                      pretokenizer = cti_json_member(tree, 0, "pre_tokenizer");
    if (!model || tree->value[model].kind != CTI_JSON_OBJECT)
        return cti_reading_fail(reading, 0, "it has no \"model\", so it is no tokenizer");
    if (normalizer && !cti_normalizer_read(reading, normalizer, &parts->normalizer)) return false;
    if (pretokenizer && !cti_pretokenizer_read(reading, pretokenizer, &parts->pretokenizer))
        return false;
    parts->bytes = cti_pretokenizer_ends_in_bytes(parts->pretokenizer);
    parts->next_piece = cti_pretokenizer_pieces(parts->pretokenizer);
    parts->vocabulary.arena = reading->arena;
    parts->added = (cti_added_tokens){
        .arena = reading->arena, .model = &parts->vocabulary, .normalizer = parts->normalizer};
    if (!cti_model_read(reading, model, parts->bytes, &parts->vocabulary, &parts->model) ||
        !cti_added_tokens_read(reading, added, &parts->added) ||
        !cti_postprocessor_read(reading, cti_json_member(tree, 0, "post_processor"),
                                &parts->postprocessor) ||
        !cti_decoder_read(reading, cti_json_member(tree, 0, "decoder"), &parts->decoder))
        return false;
    if (added) {
        const size_t begin = tree->value[added].begin;
        parts->added_array = (cti_extent){begin, begin + tree->value[added].size};
    }
    return true;
}

/* Raises the size above the ids of the post-processor, which need not be ids of tokens. */
static void template_measure(cti_tokenizer_parts *parts, const cti_template_part *part, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (part[i].id >= parts->size) parts->size = part[i].id + 1;
}

void cti_tokenizer_measure(cti_tokenizer_parts *parts) {
    parts->size = parts->vocabulary.size;
    if (parts->added.largest >= parts->size) parts->size = parts->added.largest + 1;
    parts->longest_token = 0;
    for (int64_t id = 0; id < parts->size; id++) {
        const size_t size = cti_token_text(parts, id).size;
        if (size > parts->longest_token) parts->longest_token = size;
    }
    for (int64_t i = 0; i < parts->added.count; i++) {
        const size_t size = parts->added.token[i].decoded.size;
        if (size > parts->longest_token) parts->longest_token = size;
    }
    template_measure(parts, parts->postprocessor.single, parts->postprocessor.singles);
    template_measure(parts, parts->postprocessor.pair, parts->postprocessor.pairs);
}

/* Parses a copy of the text, because the tree overwrites it. */
bool cti_tokenizer_read(ct_tokenizer *tokenizer, const char *op, const char *path, cti_text json) {
    cti_tokenizer_parts *parts = tokenizer->parts;
    ct_context *context = tokenizer->context;
    parts->file = json;
    const size_t room = json.size + 1;
    char *copy = cti_take_any(context, room);
    if (!copy) return false;
    memcpy(copy, json.at, json.size);
    cti_json_tree tree;
    bool done = cti_json_tree_read(context, op, path, copy, json.size, &tree);
    if (done) {
        const cti_reading reading = {
            .context = context, .arena = &tokenizer->arena, .path = path, .tree = &tree, .op = op};
        done = tokenizer_parts_read(&reading, parts);
        cti_json_tree_free(&tree);
    }
    cti_give_any(context, copy, room);
    if (done) cti_tokenizer_measure(parts);
    return done;
}

ct_tokenizer *cti_tokenizer_new(ct_context *context) {
    ct_tokenizer *tokenizer = cti_object_new(context, sizeof *tokenizer, "tokenizer");
    if (!tokenizer) return NULL;
    cti_object_end_with_context(&tokenizer->object, tokenizer_end);
    tokenizer->arena.context = context;
    tokenizer->parts = cti_arena_take(&tokenizer->arena, 1, sizeof *tokenizer->parts);
    if (!tokenizer->parts) {
        ct_tokenizer_close(tokenizer);
        return NULL;
    }
    *tokenizer->parts = (cti_tokenizer_parts){0};
    for (int i = 0; i < CTI_ROLES; i++) tokenizer->parts->role[i] = -1;
    return tokenizer;
}

ct_tokenizer *cti_tokenizer_begin(ct_tokenizer *tokenizer, bool done) {
    if (done) return tokenizer;
    tokenizer_end(&tokenizer->object.hook);
    return NULL;
}

const char *ct_tokenizer_note(const ct_tokenizer *tokenizer) {
    return cti_tokenizer_is_open(tokenizer) ? tokenizer->parts->note : NULL;
}

/* ---- tokens ---- */

cti_text cti_token_text(const cti_tokenizer_parts *parts, int64_t id) {
    const cti_added_token *added = cti_added_token_of(&parts->added, id);
    if (added) return added->content;
    if (id < 0 || id >= parts->vocabulary.size) return (cti_text){0};
    return parts->vocabulary.text[id];
}

int64_t ct_tokenizer_size(const ct_tokenizer *tokenizer) {
    return cti_tokenizer_is_open(tokenizer) ? tokenizer->parts->size : -1;
}

size_t ct_token_room(const ct_tokenizer *tokenizer) {
    if (!cti_tokenizer_is_open(tokenizer)) return 0;
    return cti_decode_room(&tokenizer->parts->decoder, tokenizer->parts->longest_token);
}

const char *ct_token(const ct_tokenizer *tokenizer, int64_t id) {
    return cti_tokenizer_is_open(tokenizer) ? cti_token_text(tokenizer->parts, id).at : NULL;
}

int64_t cti_token_find(const cti_tokenizer_parts *parts, cti_text token) {
    const int64_t index = cti_vocabulary_find(&parts->added.index, token.at, token.size);
    if (index != CTI_NO_ID) return parts->added.token[index].id;
    return cti_vocabulary_find(&parts->vocabulary, token.at, token.size);
}

int64_t ct_token_id(const ct_tokenizer *tokenizer, const char *token) {
    if (!cti_tokenizer_is_open(tokenizer) || !token) return -1;
    return cti_token_find(tokenizer->parts, cti_text_of(token));
}

/* The index of a role; -1 if there is no such role. */
static int role_index(const char *role) {
    for (int i = 0; role && i < CTI_ROLES; i++)
        if (!strcmp(role, cti_role_names[i])) return i;
    return -1;
}

int64_t ct_token_role(const ct_tokenizer *tokenizer, const char *role) {
    const int i = role_index(role);
    return cti_tokenizer_is_open(tokenizer) && i >= 0 ? tokenizer->parts->role[i] : -1;
}

/* Makes the text a special token. Returns its id, or -1 after an error. */
static int64_t special_add(ct_tokenizer *tokenizer, cti_text text) {
    cti_tokenizer_parts *parts = tokenizer->parts;
    cti_added_token token = {.special = true};
    const int64_t known = cti_vocabulary_find(&parts->added.index, text.at, text.size);
    if (known != CTI_NO_ID) {
        if (parts->added.token[known].special) return parts->added.token[known].id;
        token = parts->added.token[known];
        token.special = true;
    } else {
        token.content = cti_arena_copy(&tokenizer->arena, text);
        if (!token.content.at) return -1;
    }
    bool full;
    const int64_t index = cti_added_tokens_add(&parts->added, token, &full);
    if (full) ct_fail(tokenizer->context, CT_ERR_ARGUMENT, "token_add: there are too many tokens");
    if (index < 0 || !cti_added_tokens_index(&parts->added)) return -1;
    parts->changed = true;
    cti_tokenizer_measure(parts);
    return parts->added.token[index].id;
}

int64_t ct_token_add(ct_tokenizer *tokenizer, const char *token, const char *role) {
    if (!tokenizer || !cti_object_is_ready(&tokenizer->object, "ct_token_add", "tokenizer", NULL))
        return -1;
    ct_context *context = tokenizer->context;
    const int i = role_index(role);
    const cti_text text = cti_text_of(token ? token : "");
    const char *fault = !text.size                                        ? "the token is empty"
                        : cti_utf8_check(text.at, text.size) != text.size ? "the token is not UTF-8"
                                                                          : NULL;
    if (fault) {
        ct_fail(context, CT_ERR_ARGUMENT, "token_add: %s", fault);
        return -1;
    }
    if (role && i < 0) {
        ct_fail(context, CT_ERR_ARGUMENT, "token_add: unknown role '%s'", role);
        return -1;
    }
    const int64_t id = special_add(tokenizer, text);
    if (id < 0 || !role) return id;
    tokenizer->parts->role_changed[i] |= tokenizer->parts->role[i] != id;
    tokenizer->parts->role[i] = id;
    return id;
}

bool ct_tokenizer_set_template(ct_tokenizer *tokenizer, const char *text) {
    if (!tokenizer ||
        !cti_object_is_ready(&tokenizer->object, "ct_tokenizer_set_template", "tokenizer", NULL))
        return false;
    cti_text copy = {0};
    const cti_text name = cti_text_of(cti_chat_default);
    if (text) {
        copy = cti_text_of(text);
        if (cti_utf8_check(copy.at, copy.size) != copy.size)
            return ct_fail(tokenizer->context, CT_ERR_ARGUMENT,
                           "tokenizer_set_template: the template is not UTF-8");
        copy = cti_arena_copy(&tokenizer->arena, copy);
        if (!copy.at) return false;
    }
    if (!cti_chat_template_set(&tokenizer->arena, &tokenizer->parts->chat_templates, name, copy))
        return false;
    tokenizer->parts->template_changed = true;
    return true;
}
