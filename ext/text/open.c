/* Opening: a tokenizer.json, and the other files of its folder, tokenizer_config.json and the chat
 * template. */
#include <cotangent/autograd.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/file.h"
#include "../../src/io/kind.h"
#include "../../src/os/os.h"
#include "tokenizer.h"

static const char tokenizer_open_op[] = "tokenizer_open";

cti_text cti_read_file(cti_arena *arena, const char *op, const char *path) {
    cti_file file;
    cti_text text = {0};
    if (!cti_file_open(arena->context, op, path, &file)) return text;
    char *room = NULL;
    if (file.size < 0 || (uint64_t)file.size >= CTI_MOST_BYTES)
        ct_fail(arena->context, CT_ERR_MEMORY, "%s: %s: %lld bytes are too many", op, path,
                (long long)file.size);
    else room = cti_arena_take(arena, (size_t)file.size + 1, 1);
    if (room && cti_file_read(&file, 0, room, (size_t)file.size)) {
        room[file.size] = 0;
        text = (cti_text){room, (size_t)file.size};
    }
    cti_file_close(&file);
    return text;
}

char *cti_tokenizer_path(cti_arena *arena, const char *folder, const char *name) {
    const size_t length = strlen(folder), size = length + strlen(name) + 2;
    char *path = cti_arena_take(arena, size, 1);
    if (!path) return NULL;
    const bool has_end = length && cti_os_is_separator(folder[length - 1]);
    snprintf(path, size, "%s%s%s", folder, has_end || !length ? "" : "/", name);
    return path;
}

/* Reads a file of the folder, which may be absent. Returns false after an error. */
static bool read_if_there(cti_arena *arena, const char *folder, const char *name, char **path,
                          cti_text *text) {
    *text = (cti_text){0};
    *path = cti_tokenizer_path(arena, folder, name);
    if (!*path) return false;
    cti_os_about about;
    if (!cti_os_about_path(*path, &about)) return true;
    *text = cti_read_file(arena, tokenizer_open_op, *path);
    return text->at != NULL;
}

/* Whether a JSON file is of a known other kind, such as the pointer of a file that git-lfs has not
 * fetched, which is an error. Of a plain text the parser reports the byte. */
static bool is_no_json(ct_context *context, const char *path, cti_text text) {
    const cti_file file = {.context = context,
                           .op = tokenizer_open_op,
                           .path = path,
                           .fd = -1,
                           .size = (int64_t)text.size};
    return cti_kind_refuse_json(&file, text.at);
}

#define ITS_FOLDER                                                                                 \
    "in Python, transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes" \
    " a tokenizer.json"

/* Whether a folder has a file with this name. */
static bool has_file(cti_arena *arena, const char *folder, const char *name) {
    const char *path = cti_tokenizer_path(arena, folder, name);
    cti_os_about about;
    return path && cti_os_about_path(path, &about);
}

static int rank_gguf(const char *name) { return cti_kind_is_name(name, "", CTI_KIND_GGUF) - 1; }

/* Refuses a folder without a tokenizer.json, and names the files of another format that it has. */
static bool refuse_folder(cti_arena *arena, const char *folder) {
    static const char *const others[][2] = {
        {"vocab.json", "merges.txt"}, {"tokenizer.model"}, {"spiece.model"},
        {"sentencepiece.bpe.model"},  {"vocab.txt"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *first = others[i][0], *second = others[i][1];
        if (!has_file(arena, folder, first) || (second && !has_file(arena, folder, second)))
            continue;
        return ct_fail(arena->context, CT_ERR_IO,
                       "%s: %s: has no tokenizer.json, but %s%s%s; " ITS_FOLDER, tokenizer_open_op,
                       folder, first, second ? " and " : "", second ? second : "");
    }
    char gguf[128];
    const bool found = cti_kind_find(folder, rank_gguf, gguf, sizeof gguf) >= 0;
    return ct_fail(arena->context, CT_ERR_IO, "%s: %s: has no tokenizer.json%s%s%s",
                   tokenizer_open_op, folder, found ? ", and the tokenizer inside " : "",
                   found ? gguf : "", found ? " is not read" : "");
}

/* Whether a path is, by the end of its name, a file of another format, which is an error. */
static bool is_other_format(ct_context *context, const char *path) {
    if (!cti_kind_is_name(path, "", ".model") && !cti_kind_is_name(path, "", ".txt")) return false;
    ct_fail(context, CT_ERR_FORMAT, "%s: %s: is not a tokenizer.json; " ITS_FOLDER,
            tokenizer_open_op, path);
    return true;
}

/* Reads a tokenizer.json. */
static bool read_tokenizer_file(ct_tokenizer *tokenizer, const char *path) {
    const cti_text json = cti_read_file(&tokenizer->arena, tokenizer_open_op, path);
    return json.at && !is_no_json(tokenizer->context, path, json) &&
           (json.at[0] == '{' || !is_other_format(tokenizer->context, path)) &&
           cti_tokenizer_read(tokenizer, path, json);
}

/* Reads the token with a role: a string, or an object with a "content". A token that the tokenizer
 * does not have gives no role. */
static bool read_role(const cti_reading *reading, cti_tokenizer_parts *parts, int role) {
    const cti_json_tree *tree = reading->tree;
    const char *name = cti_role_names[role];
    cti_json_at value = cti_json_member(tree, 0, name);
    if (value && tree->value[value].kind == CTI_JSON_OBJECT)
        value = cti_json_member(tree, value, "content");
    if (!value || tree->value[value].kind == CTI_JSON_NULL) return true;
    if (tree->value[value].kind != CTI_JSON_STRING)
        return cti_reading_fail(reading, value, "\"%s\" is not a token", name);
    parts->role[role] = cti_token_find(parts, cti_json_text(tree, value));
    return true;
}

/* Reads "chat_template": a text, or a list of named ones, of which "default" is taken. */
static bool read_template_text(const cti_reading *reading, cti_tokenizer_parts *parts) {
    const cti_json_tree *tree = reading->tree;
    const cti_json_at value = cti_json_member(tree, 0, "chat_template");
    if (value && tree->value[value].kind == CTI_JSON_ARRAY) {
        for (cti_json_at i = cti_json_first(tree, value); i; i = tree->value[i].next) {
            cti_text name = {0};
            if (!cti_reading_text(reading, i, "name", &name)) return false;
            if (name.at && !strcmp(name.at, "default"))
                return cti_reading_text(reading, i, "template", &parts->template_text);
        }
        return true;
    }
    return cti_reading_text(reading, 0, "chat_template", &parts->template_text);
}

static bool read_config(ct_tokenizer *tokenizer, const char *path) {
    cti_tokenizer_parts *parts = tokenizer->parts;
    const cti_text copy = cti_arena_copy(&tokenizer->arena, parts->config);
    cti_json_tree tree;
    if (!copy.at || !cti_json_tree_read(tokenizer->context, tokenizer_open_op, path,
                                        (char *)copy.at, copy.size, &tree))
        return false;
    const cti_reading reading = {
        .context = tokenizer->context, .arena = &tokenizer->arena, .path = path, .tree = &tree};
    bool done = tree.value[0].kind == CTI_JSON_OBJECT ||
                cti_reading_fail(&reading, 0, "it is not an object");
    for (int i = 0; i < CTI_ROLES && done; i++) done = read_role(&reading, parts, i);
    done = done && read_template_text(&reading, parts);
    cti_json_tree_free(&tree);
    return done;
}

/* Reads the files of a folder. */
static bool read_tokenizer_folder(ct_tokenizer *tokenizer, const char *folder) {
    cti_tokenizer_parts *parts = tokenizer->parts;
    cti_arena *arena = &tokenizer->arena;
    char *path = cti_tokenizer_path(arena, folder, "tokenizer.json");
    if (!path) return false;
    cti_os_about about;
    if (!cti_os_about_path(path, &about) && errno == ENOENT) return refuse_folder(arena, folder);
    if (!read_tokenizer_file(tokenizer, path)) return false;
    if (!read_if_there(arena, folder, "tokenizer_config.json", &path, &parts->config)) return false;
    if (parts->config.at &&
        (is_no_json(tokenizer->context, path, parts->config) || !read_config(tokenizer, path)))
        return false;
    cti_text jinja;
    if (!read_if_there(arena, folder, "chat_template.jinja", &path, &jinja)) return false;
    parts->template_is_file = jinja.at != NULL;
    if (jinja.at) parts->template_text = jinja;
    return true;
}

/* ---- the functions ---- */

ct_tokenizer *cti_tokenizer_of(ct_context *context, const char *path, cti_text json) {
    ct_tokenizer *tokenizer = cti_tokenizer_new(context);
    if (!tokenizer) return NULL;
    const cti_text copy = cti_arena_copy(&tokenizer->arena, json);
    return cti_tokenizer_begin(tokenizer, copy.at && cti_tokenizer_read(tokenizer, path, copy));
}

ct_tokenizer *ct_tokenizer_open(ct_context *context, const char *path) {
    ct_tokenizer *tokenizer = cti_tokenizer_new(context);
    if (!tokenizer) return NULL;
    if (!path) {
        ct_fail(context, CT_ERR_ARGUMENT, "%s: the path is NULL", tokenizer_open_op);
        return cti_tokenizer_begin(tokenizer, false);
    }
    cti_os_about about;
    const bool is_folder = cti_os_about_path(path, &about) && about.kind == CTI_OS_FOLDER;
    if (is_folder) return cti_tokenizer_begin(tokenizer, read_tokenizer_folder(tokenizer, path));
    return cti_tokenizer_begin(tokenizer, read_tokenizer_file(tokenizer, path));
}
