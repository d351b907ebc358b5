/* Saving: the text of the opened files, with edits. */
#include <cotangent/autograd.h>
#include <cotangent/context.h>

#include <stdlib.h>
#include <string.h>

#include "../../src/io/set.h"
#include "tokenizer.h"

static const char tokenizer_save_op[] = "tokenizer_save";

/* ---- texts ---- */

/* Bytes [range.begin, range.end) of a text are replaced by `text`, which is malloc's. */
typedef struct {
    cti_extent range;
    char *text;
    size_t size;
} text_edit;

/* A text by one of the functions below, measured first; .at is NULL if memory is short. */
typedef void write_text(cti_writer *writer, const void *arg);
static char *text_by(write_text *write, const void *arg, size_t *size) {
    cti_writer writer = {0};
    write(&writer, arg);
    *size = writer.used;
    char *text = malloc(writer.used + 1);
    if (!text) return NULL;
    writer = (cti_writer){.at = text, .size = writer.used};
    write(&writer, arg);
    return text;
}

static void flag_write(cti_writer *writer, const char *key, bool flag, const char *end) {
    cti_string_write(writer, "      \"");
    cti_string_write(writer, key);
    cti_string_write(writer, flag ? "\": true" : "\": false");
    cti_string_write(writer, end);
}

/* The array of added tokens in the layout of the tokenizers package. */
static void added_token_write(cti_writer *writer, const void *arg) {
    const cti_added_tokens *added = arg;
    cti_string_write(writer, added->count ? "[\n" : "[");
    for (int64_t i = 0; i < added->count; i++) {
        const cti_added_token *token = &added->token[i];
        cti_string_write(writer, "    {\n      \"id\": ");
        cti_natural_write(writer, token->id);
        cti_string_write(writer, ",\n      \"content\": ");
        cti_quoted_write(writer, token->content);
        cti_string_write(writer, ",\n");
        flag_write(writer, "single_word", token->single_word, ",\n");
        flag_write(writer, "lstrip", token->lstrip, ",\n");
        flag_write(writer, "rstrip", token->rstrip, ",\n");
        flag_write(writer, "normalized", token->normalized, ",\n");
        flag_write(writer, "special", token->special, "\n    }");
        cti_string_write(writer, i + 1 < added->count ? ",\n" : "\n");
    }
    cti_string_write(writer, added->count ? "  ]" : "]");
}

/* The same as a new first member of the file's object. */
static void added_member_write(cti_writer *writer, const void *added) {
    cti_string_write(writer, "\n  \"added_tokens\": ");
    added_token_write(writer, added);
    cti_string_write(writer, ",");
}

/* ---- edits ---- */

/* Writes a text with one edit to a file. */
static bool edited_json_write(ct_context *context, const char *path, cti_text text,
                              const text_edit *edit) {
    cti_file_new file;
    if (!cti_file_new_open(context, tokenizer_save_op, path, &file)) return false;
    if (cti_file_new_write(&file, text.at, edit->range.begin) &&
        cti_file_new_write(&file, edit->text, edit->size) &&
        cti_file_new_write(&file, text.at + edit->range.end, text.size - edit->range.end))
        return cti_file_new_commit(&file);
    cti_file_new_drop(&file);
    return false;
}

static bool no_memory(ct_context *context) {
    return ct_fail(context, CT_ERR_MEMORY, "%s: out of memory", tokenizer_save_op);
}

static bool tokenizer_json_save(const ct_tokenizer *tokenizer, const char *path) {
    const cti_tokenizer_parts *parts = tokenizer->parts;
    text_edit edit = {0};
    if (parts->changed) {
        const bool has_array = parts->added_array.end > 0;
        edit.range = parts->added_array;
        if (!has_array) { /* right behind the object's bracket; the comma after it is right, because
                             the object has a model */
            const size_t at = (size_t)((const char *)memchr(parts->file.at, '{', parts->file.size) -
                                       parts->file.at) +
                              1;
            edit.range = (cti_extent){at, at};
        }
        edit.text =
            text_by(has_array ? added_token_write : added_member_write, &parts->added, &edit.size);
        if (!edit.text) return no_memory(tokenizer->context);
    }
    const bool done = edited_json_write(tokenizer->context, path, parts->file, &edit);
    free(edit.text);
    return done;
}

/* ---- tokenizer_config.json ---- */

/* One template is a text, and several are a list with their names. */
static void templates_write(cti_writer *writer, const cti_chat_templates *templates) {
    if (templates->count == 1 &&
        !cti_text_compare(templates->at[0].name, cti_text_of(cti_chat_default))) {
        cti_quoted_write(writer, templates->at[0].text);
        return;
    }
    for (int64_t i = 0; i < templates->count; i++) {
        cti_string_write(writer, i ? ", {\"name\": " : "[{\"name\": ");
        cti_quoted_write(writer, templates->at[i].name);
        cti_string_write(writer, ", \"template\": ");
        cti_quoted_write(writer, templates->at[i].text);
        cti_string_write(writer, "}");
    }
    cti_string_write(writer, "]");
}

/* Whether chat_template.jinja has the template: it had it, and there is only one, or none now. */
static bool template_has_file(const cti_tokenizer_parts *parts) {
    const cti_chat_templates *templates = &parts->chat_templates;
    return parts->template_is_file &&
           (!templates->count ||
            (templates->count == 1 &&
             !cti_text_compare(templates->at[0].name, cti_text_of(cti_chat_default))));
}

/* Whether the config gets the templates anew: they have changed, or come from several files. */
static bool templates_have_changed(const cti_tokenizer_parts *parts) {
    return parts->template_changed || (parts->template_is_file && !template_has_file(parts));
}

/* Writes the members that have changed since `config` was read: roles, and a chat template that was
 * set. If the folder has a special_tokens_map.json, it would override the roles; an empty
 * "added_tokens_decoder" keeps it from being read. */
static void roles_write(cti_writer *writer, const cti_tokenizer_parts *parts) {
    if (parts->has_map) cti_string_write(writer, "\n  \"added_tokens_decoder\": {},");
    for (int i = 0; i < CTI_ROLES; i++) {
        if (!parts->role_changed[i]) continue;
        cti_string_write(writer, "\n  \"");
        cti_string_write(writer, cti_role_names[i]);
        cti_string_write(writer, "\": ");
        if (parts->role[i] < 0) cti_string_write(writer, "null");
        else cti_quoted_write(writer, cti_token_text(parts, parts->role[i]));
        cti_string_write(writer, ",");
    }
    if (!templates_have_changed(parts) || !parts->chat_templates.count) return;
    cti_string_write(writer, "\n  \"chat_template\": ");
    templates_write(writer, &parts->chat_templates);
    cti_string_write(writer, ",");
}

/* A config for a tokenizer that was opened without one. */
static void new_config_write(cti_writer *writer, const void *arg) {
    cti_string_write(writer, "{");
    roles_write(writer, arg);
    cti_string_write(writer, "\n  \"clean_up_tokenization_spaces\": false,\n"
                             "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
}

/* The config that was opened, with its members. */
typedef struct {
    const cti_tokenizer_parts *parts;
    const cti_json_tree *tree;
} edited_config;

static bool is_changed_member(const cti_tokenizer_parts *parts, cti_text key) {
    if (templates_have_changed(parts) && !cti_text_compare(key, cti_text_of("chat_template")))
        return true;
    if (parts->has_map && !cti_text_compare(key, cti_text_of("added_tokens_decoder"))) return true;
    for (int i = 0; i < CTI_ROLES; i++)
        if (parts->role_changed[i] && key.size == strlen(cti_role_names[i]) &&
            !memcmp(key.at, cti_role_names[i], key.size))
            return true;
    return false;
}

/* The offset at which a value ends in the file. For a string value->size does not tell it, because
 * the file also has its quotes and escapes. */
static size_t end_in_file(cti_text file, const cti_json_value *value) {
    if (value->kind != CTI_JSON_STRING) return value->begin + value->size;
    size_t at = value->begin;
    while (file.at[at] != '"') at += file.at[at] == '\\' ? 2 : 1;
    return at + 1;
}

/* The config with the changed members in front, and the others as they were. */
static void edited_config_write(cti_writer *writer, const void *arg) {
    const edited_config *edited = arg;
    const cti_json_tree *tree = edited->tree;
    const cti_text file = edited->parts->config;
    cti_string_write(writer, "{");
    roles_write(writer, edited->parts);
    const char *separator = "\n  ";
    for (cti_json_at i = cti_json_first(tree, 0); i; i = tree->value[i].next) {
        const cti_json_value *value = &tree->value[i];
        if (is_changed_member(edited->parts, cti_json_key_of(tree, i))) continue;
        const size_t begin = value->begin - (value->kind == CTI_JSON_STRING);
        cti_string_write(writer, separator);
        cti_quoted_write(writer, cti_json_key_of(tree, i));
        cti_string_write(writer, ": ");
        cti_bytes_write(writer, file.at + begin, end_in_file(file, value) - begin);
        separator = ",\n  ";
    }
    /* the last role has a comma behind it */
    if (separator[0] != ',')
        cti_string_write(writer, "\n  \"clean_up_tokenization_spaces\": false");
    cti_string_write(writer, "\n}\n");
}

/* Makes the text of the config in edit->text. */
static bool tokenizer_config_make(const ct_tokenizer *tokenizer, text_edit *edit) {
    const cti_tokenizer_parts *parts = tokenizer->parts;
    if (!parts->config.at) {
        edit->text = text_by(new_config_write, parts, &edit->size);
        return edit->text || no_memory(tokenizer->context);
    }
    char *copy = malloc(parts->config.size + 1);
    if (!copy) return no_memory(tokenizer->context);
    memcpy(copy, parts->config.at, parts->config.size + 1);
    cti_json_tree tree;
    const bool done = cti_json_tree_read(tokenizer->context, tokenizer_save_op,
                                         "tokenizer_config.json", copy, parts->config.size, &tree);
    if (done) {
        edit->text = text_by(edited_config_write, &(edited_config){parts, &tree}, &edit->size);
        cti_json_tree_free(&tree);
    }
    free(copy);
    return done && (edit->text || no_memory(tokenizer->context));
}

static bool tokenizer_config_save(const ct_tokenizer *tokenizer, const char *path) {
    const cti_tokenizer_parts *parts = tokenizer->parts;
    bool changed = !parts->config.at || parts->has_map || templates_have_changed(parts);
    for (int i = 0; i < CTI_ROLES; i++) changed |= parts->role_changed[i];
    text_edit edit = {0};
    if (!changed) return edited_json_write(tokenizer->context, path, parts->config, &edit);
    const bool done = tokenizer_config_make(tokenizer, &edit) &&
                      edited_json_write(tokenizer->context, path, (cti_text){"", 0}, &edit);
    free(edit.text);
    return done;
}

/* ---- the public function ---- */

static bool ends_in(const char *path, const char *end) {
    const size_t length = strlen(path), size = strlen(end);
    return length >= size && !strcmp(path + length - size, end);
}

/* transformers takes the template of this file before those of the config. */
static bool template_save(const ct_tokenizer *tokenizer, const char *path) {
    ct_context *context = tokenizer->context;
    const cti_tokenizer_parts *parts = tokenizer->parts;
    const cti_chat_template *template =
        cti_chat_template_find(&parts->chat_templates, cti_text_of(cti_chat_default));
    if (!parts->template_is_file) return true;
    if (!template || !template_has_file(parts))
        return cti_set_remove(context, tokenizer_save_op, "chat_template.jinja");
    return edited_json_write(context, path, template->text, &(text_edit){0});
}

/* Saves a set of files (src/io/set.h) whose head is tokenizer.json. */
static bool tokenizer_folder_save(const ct_tokenizer *tokenizer, const char *folder) {
    ct_context *context = tokenizer->context;
    cti_arena arena = {.context = context};
    const char *json = cti_tokenizer_path(&arena, folder, "tokenizer.json"),
               *config = cti_tokenizer_path(&arena, folder, "tokenizer_config.json"),
               *jinja = cti_tokenizer_path(&arena, folder, "chat_template.jinja");
    cti_set set;
    bool done = json && config && jinja && cti_set_begin(context, tokenizer_save_op, folder, &set);
    if (done)
        done = cti_set_end(&set, template_save(tokenizer, jinja) &&
                                     tokenizer_config_save(tokenizer, config) &&
                                     tokenizer_json_save(tokenizer, json));
    cti_arena_free(&arena);
    return done;
}

bool ct_tokenizer_save(const ct_tokenizer *tokenizer, const char *path) {
    if (!tokenizer || !cti_object_is_open(&tokenizer->object, "ct_tokenizer_save")) return false;
    ct_context *context = tokenizer->context;
    if (!path || !*path)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the path is %s", tokenizer_save_op,
                       path ? "empty" : "NULL");
    if (!ends_in(path, ".json")) return tokenizer_folder_save(tokenizer, path);
    return cti_set_settle(context, tokenizer_save_op, path) && tokenizer_json_save(tokenizer, path);
}
