/* Opening: a tokenizer.json, or a folder with one. */
#include <cotangent/autograd.h>

#include <string.h>

#include "../../src/io/gguf_split.h"
#include "../../src/io/kind.h"
#include "../../src/io/set.h"
#include "folder_tokens.h"
#include "gguf_tokens.h"

static const char tokenizer_open_op[] = "tokenizer_open";

#define ITS_FOLDER                                                                                 \
    "in Python, transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes" \
    " a tokenizer.json"

/* Whether a folder has a file with this name. A failure only leaves out the advice of a message. */
static bool advises(cti_arena *arena, const char *folder, const char *name) {
    const char *path = cti_tokenizer_path(arena, folder, name);
    cti_os_about about;
    return path && cti_os_about_path(path, &about);
}

/* Refuses a folder without a tokenizer.json, and names the files of another format that it has. */
static bool folder_refuse(cti_arena *arena, const char *folder) {
    static const char *const others[][2] = {
        {"vocab.json", "merges.txt"}, {"tokenizer.model"}, {"spiece.model"},
        {"sentencepiece.bpe.model"},  {"vocab.txt"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *first = others[i][0], *second = others[i][1];
        if (!advises(arena, folder, first) || (second && !advises(arena, folder, second))) continue;
        return ct_fail(arena->context, CT_ERR_IO,
                       "%s: %s: has no tokenizer.json, but %s%s%s; " ITS_FOLDER, tokenizer_open_op,
                       folder, first, second ? " and " : "", second ? second : "");
    }
    return ct_fail(arena->context, CT_ERR_IO, "%s: %s: has no tokenizer.json", tokenizer_open_op,
                   folder);
}

/* Whether a path is, by the end of its name, a file of another format, which is an error. */
static bool is_other_format(ct_context *context, const char *path) {
    if (!cti_kind_is_name(path, "", ".model") && !cti_kind_is_name(path, "", ".txt")) return false;
    ct_fail(context, CT_ERR_FORMAT, "%s: %s: is not a tokenizer.json; " ITS_FOLDER,
            tokenizer_open_op, path);
    return true;
}

/* Reads a tokenizer.json. */
static bool tokenizer_file_read(ct_tokenizer *tokenizer, const char *path) {
    const cti_text json = cti_file_read_whole(&tokenizer->arena, tokenizer_open_op, path);
    return json.at && !cti_folder_is_no_json(tokenizer->context, path, json) &&
           (json.at[0] == '{' || !is_other_format(tokenizer->context, path)) &&
           cti_tokenizer_read(tokenizer, tokenizer_open_op, path, json);
}

/* Reads the GGUF file of a folder without a tokenizer.json. */
static bool folder_gguf_read(ct_tokenizer *tokenizer, const char *folder) {
    ct_context *context = tokenizer->context;
    char *path;
    if (!cti_gguf_find_in(context, tokenizer_open_op, folder, &path)) return false;
    if (!path) return folder_refuse(&tokenizer->arena, folder);
    const bool done = cti_gguf_tokenizer_read(tokenizer, tokenizer_open_op, path);
    cti_path_free(context, path);
    return done;
}

/* Reads the files of a folder. */
static bool tokenizer_folder_read(ct_tokenizer *tokenizer, const char *folder) {
    cti_arena *arena = &tokenizer->arena;
    char *path = cti_tokenizer_path(arena, folder, "tokenizer.json");
    if (!path) return false;
    cti_os_about about;
    if (!cti_file_find(arena->context, tokenizer_open_op, path, &about)) return false;
    if (about.kind == CTI_OS_ABSENT) return folder_gguf_read(tokenizer, folder);
    return tokenizer_file_read(tokenizer, path) && cti_folder_read(tokenizer, folder);
}

/* ---- the functions ---- */

static ct_tokenizer *tokenizer_of_copy(ct_context *context, const char *op, const char *path,
                                       cti_text json) {
    ct_tokenizer *tokenizer = cti_tokenizer_new(context);
    if (!tokenizer) return NULL;
    const cti_text copy = cti_arena_copy(&tokenizer->arena, json);
    return cti_tokenizer_begin(tokenizer, copy.at && cti_tokenizer_read(tokenizer, op, path, copy));
}

ct_tokenizer *cti_tokenizer_of(ct_context *context, const char *path, cti_text json) {
    return tokenizer_of_copy(context, tokenizer_open_op, path, json);
}

ct_tokenizer *ct_tokenizer_parse(ct_context *context, const char *json, size_t bytes) {
    static const char op[] = "tokenizer_parse";
    if (json || !bytes)
        return tokenizer_of_copy(context, op, "the text", (cti_text){json ? json : "", bytes});
    ct_fail(context, CT_ERR_ARGUMENT, "%s: the text is NULL", op);
    return NULL;
}

/* Reads a folder into a new tokenizer. Its set has the head tokenizer.json; config.json, which is
 * read too, is the head of the model's set. */
static ct_tokenizer *tokenizer_folder_open(ct_tokenizer *tokenizer, const char *folder) {
    ct_context *context = tokenizer->context;
    cti_set_reading reading = {.context = context,
                               .op = tokenizer_open_op,
                               .folder = folder,
                               .head = {"tokenizer.json", "config.json"}};
    bool done = false, again = true;
    while (again && tokenizer && cti_set_read_begin(&reading)) {
        done = cti_set_read_end(&reading, tokenizer_folder_read(tokenizer, folder), &again);
        if (!again) break;
        cti_tokenizer_begin(tokenizer, false);
        tokenizer = cti_tokenizer_new(context);
    }
    return tokenizer ? cti_tokenizer_begin(tokenizer, done) : NULL;
}

/* A tokenizer.json beside the file stands before the tokenizer in it. */
static ct_tokenizer *tokenizer_gguf_open(ct_tokenizer *tokenizer, const char *path) {
    ct_context *context = tokenizer->context;
    char *folder = cti_path_folder(context, path);
    char *json = folder ? cti_path_in(context, folder, "tokenizer.json") : NULL;
    cti_os_about about = {.kind = CTI_OS_ABSENT};
    bool done = json && cti_file_find(context, tokenizer_open_op, json, &about);
    if (done && about.kind != CTI_OS_ABSENT) tokenizer = tokenizer_folder_open(tokenizer, folder);
    else {
        done = done && cti_gguf_tokenizer_read(tokenizer, tokenizer_open_op, path);
        tokenizer = cti_tokenizer_begin(tokenizer, done);
    }
    cti_path_free(context, json);
    cti_path_free(context, folder);
    return tokenizer;
}

static bool file_is_gguf(ct_context *context, const char *path, bool *is) {
    cti_file file;
    char first[4] = {0};
    if (!cti_file_open(context, tokenizer_open_op, path, &file)) return false;
    const bool done = file.size < 4 || cti_file_read(&file, 0, first, sizeof first);
    cti_file_close(&file);
    *is = !memcmp(first, "GGUF", 4);
    return done;
}

ct_tokenizer *ct_tokenizer_open(ct_context *context, const char *path) {
    bool is_gguf = false;
    ct_tokenizer *tokenizer = cti_tokenizer_new(context);
    if (!tokenizer) return NULL;
    cti_os_about about = {.kind = CTI_OS_ABSENT};
    if (!path) ct_fail(context, CT_ERR_ARGUMENT, "%s: the path is NULL", tokenizer_open_op);
    bool done = path && cti_file_find(context, tokenizer_open_op, path, &about);
    if (done && about.kind == CTI_OS_FOLDER) return tokenizer_folder_open(tokenizer, path);
    done = done && cti_set_settle(context, tokenizer_open_op, path) &&
           file_is_gguf(context, path, &is_gguf);
    if (is_gguf) return tokenizer_gguf_open(tokenizer, path);
    done = done && tokenizer_file_read(tokenizer, path);
    return cti_tokenizer_begin(tokenizer, done);
}
