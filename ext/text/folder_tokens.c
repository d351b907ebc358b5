/* The files beside a tokenizer.json, by the rules of transformers.AutoTokenizer 5.24 for a
 * PreTrainedTokenizerFast:
 *
 * 1. tokenizer_config.json's "added_tokens_decoder" adds its tokens in the order of their ids. Only
 *    without this member are added_tokens.json and special_tokens_map.json read. The first adds its
 *    tokens; the members of the second replace those of tokenizer_config.json.
 * 2. Then the tokens that have a role are added as special tokens, in the order of cti_role_names,
 *    then the other members whose name ends in "_token", then "extra_special_tokens" or, without
 *    it, "additional_special_tokens".
 * 3. A role without a member has the default token of the tokenizer's class, if the tokenizer has
 *    this token.
 * 4. "add_bos_token" and "add_eos_token" change nothing, because the post-processor of
 *    tokenizer.json decides. */
#include "folder_tokens.h"

#include <cotangent/autograd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/file.h"
#include "../../src/io/kind.h"
#include "../../src/os/os.h"

static const char folder_op[] = "tokenizer_open";

enum { FOLDER_CONFIG, FOLDER_MAP, FOLDER_ADDED, FOLDER_MODEL, FOLDER_GENERATION, FOLDER_FILES };
static const char *const folder_names[FOLDER_FILES] = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json",
    "generation_config.json"};

typedef struct {
    ct_tokenizer *tokenizer;
    cti_reading file[FOLDER_FILES]; /* .tree is NULL if there is no such file */
    cti_json_tree tree[FOLDER_FILES];
    bool has_list; /* tokenizer_config.json has "added_tokens_decoder" */
    bool added;    /* tokens were added or changed */
    int64_t names; /* the added tokens from this index on are named by members */
} folder_reading;

/* ---- files ---- */

cti_text cti_file_read_whole(cti_arena *arena, const char *op, const char *path) {
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

/* Reads a file of the folder, which may be absent. *text is in the arena; its .at is NULL if there
 * is no file. Returns false after an error. */
static bool folder_text(cti_arena *arena, const char *folder, const char *name, char **path,
                        cti_text *text) {
    *text = (cti_text){0};
    *path = cti_tokenizer_path(arena, folder, name);
    if (!*path) return false;
    cti_os_about about;
    if (!cti_file_find(arena->context, folder_op, *path, &about)) return false;
    if (about.kind == CTI_OS_ABSENT) return true;
    *text = cti_file_read_whole(arena, folder_op, *path);
    return text->at != NULL;
}

bool cti_folder_is_no_json(ct_context *context, const char *path, cti_text text) {
    const cti_file file = {
        .context = context, .op = folder_op, .path = path, .fd = -1, .size = (int64_t)text.size};
    return cti_kind_refuse_json(&file, text.at);
}

/* Reads and parses a file of the folder, if it is there. */
static bool folder_file_read(folder_reading *read, const char *folder, int which) {
    ct_tokenizer *tokenizer = read->tokenizer;
    char *path;
    cti_text text;
    if (!folder_text(&tokenizer->arena, folder, folder_names[which], &path, &text)) return false;
    if (!text.at) return true;
    if (cti_folder_is_no_json(tokenizer->context, path, text)) return false;
    const cti_text copy = cti_arena_copy(&tokenizer->arena, text);
    if (!copy.at || !cti_json_tree_read(tokenizer->context, folder_op, path, (char *)copy.at,
                                        copy.size, &read->tree[which]))
        return false;
    if (which == FOLDER_CONFIG) tokenizer->parts->config = text;
    read->file[which] = (cti_reading){.context = tokenizer->context,
                                      .arena = &tokenizer->arena,
                                      .path = path,
                                      .tree = &read->tree[which]};
    return read->tree[which].value[0].kind == CTI_JSON_OBJECT ||
           cti_reading_fail(&read->file[which], 0, "it is not an object");
}

/* A member of one of the files; 0 if there is none. */
static cti_json_at folder_member(const folder_reading *read, int which, const char *key) {
    return read->file[which].tree ? cti_json_member(&read->tree[which], 0, key) : 0;
}

/* The file and the value of a member: special_tokens_map.json, if it counts, replaces
 * tokenizer_config.json. */
static cti_json_at effective_member(const folder_reading *read, const char *key,
                                    const cti_reading **file) {
    const cti_json_at mapped = read->has_list ? 0 : folder_member(read, FOLDER_MAP, key);
    *file = &read->file[mapped ? FOLDER_MAP : FOLDER_CONFIG];
    return mapped ? mapped : folder_member(read, FOLDER_CONFIG, key);
}

/* ---- tokens ---- */

/* Reads a token: a string, or an object with a "content" and flags. */
static bool folder_token_read(const cti_reading *file, cti_json_at value, const char *key,
                              cti_added_token *token) {
    const cti_json_kind kind = file->tree->value[value].kind;
    if (kind == CTI_JSON_STRING) {
        token->content = cti_arena_copy(file->arena, cti_json_text(file->tree, value));
        return token->content.at != NULL;
    }
    if (kind != CTI_JSON_OBJECT) return cti_reading_fail(file, value, "\"%s\" is not a token", key);
    return cti_reading_needs_text(file, value, "content", &token->content) &&
           cti_reading_bool(file, value, "single_word", &token->single_word) &&
           cti_reading_bool(file, value, "lstrip", &token->lstrip) &&
           cti_reading_bool(file, value, "rstrip", &token->rstrip) &&
           cti_reading_bool(file, value, "normalized", &token->normalized) &&
           cti_reading_bool(file, value, "special", &token->special);
}

/* Adds a token, or gives an added token these flags; one that is special stays special, as in the
 * package. Returns its index, or -1 after an error. */
static int64_t folder_add(folder_reading *read, const cti_reading *file, cti_json_at value,
                          cti_added_token token) {
    cti_added_tokens *added = &read->tokenizer->parts->added;
    const int64_t known = cti_vocabulary_find(&added->index, token.content.at, token.content.size);
    token.special |= known != CTI_NO_ID && added->token[known].special;
    bool full;
    const int64_t index = cti_added_tokens_add(added, token, &full);
    if (full) cti_reading_fail(file, value, "there are too many added tokens");
    read->added = true;
    return index;
}

/* Reads a token that is special and adds it, unless it is an added token of tokenizer.json or of a
 * list. If several tokens have one content, the last one's flags hold. *id, which may be NULL,
 * receives the token's id. */
static bool named_token_add(folder_reading *read, const cti_reading *file, cti_json_at value,
                            const char *key, int64_t *id) {
    cti_added_tokens *added = &read->tokenizer->parts->added;
    cti_added_token token = {0};
    if (!folder_token_read(file, value, key, &token)) return false;
    if (!token.content.size) return true;
    token.special = true;
    int64_t index = cti_vocabulary_find(&added->index, token.content.at, token.content.size);
    if (index == CTI_NO_ID || index >= read->names) index = folder_add(read, file, value, token);
    if (index >= 0 && id) *id = added->token[index].id;
    return index >= 0;
}

/* ---- lists ---- */

/* A token of a list, which is sorted by ids. */
typedef struct {
    int64_t id;
    cti_json_at value;
    cti_added_token token;
} listed_token;

static int listed_compare(const void *a, const void *b) {
    const listed_token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Whether the tokenizer has this added token with the same flags. */
static bool is_listed_already(const cti_added_tokens *added, const cti_added_token *token) {
    const int64_t index =
        cti_vocabulary_find(&added->index, token->content.at, token->content.size);
    if (index == CTI_NO_ID) return false;
    const cti_added_token *known = &added->token[index];
    return known->single_word == token->single_word && known->lstrip == token->lstrip &&
           known->rstrip == token->rstrip && known->normalized == token->normalized &&
           known->special == token->special;
}

/* Reads member {"id": token} of "added_tokens_decoder". */
static bool listed_read(const cti_reading *file, cti_json_at member, listed_token *listed) {
    const cti_text key = cti_json_key_of(file->tree, member);
    for (size_t i = 0; i < key.size; i++) {
        if (key.at[i] < '0' || key.at[i] > '9' || listed->id >= CTI_MOST_IDS)
            return cti_reading_fail(file, member, "\"%s\" is not an id", key.at);
        listed->id = 10 * listed->id + (key.at[i] - '0');
    }
    listed->token.normalized = true; /* the defaults of AddedToken */
    if (file->tree->value[member].kind != CTI_JSON_OBJECT)
        return cti_reading_fail(file, member, "a token of \"added_tokens_decoder\" is an object");
    if (!folder_token_read(file, member, "added_tokens_decoder", &listed->token)) return false;
    const cti_json_at normalized = cti_json_member(file->tree, member, "normalized");
    if (!normalized) listed->token.normalized = !listed->token.special;
    return true;
}

/* Whether a value is this text, or a token with this content. */
static bool is_text(const cti_reading *file, cti_json_at value, cti_text text) {
    if (value && file->tree->value[value].kind == CTI_JSON_OBJECT)
        value = cti_json_member(file->tree, value, "content");
    return value && file->tree->value[value].kind == CTI_JSON_STRING &&
           !cti_text_compare(cti_json_text(file->tree, value), text);
}

/* Whether a text is a token with a role. */
static bool has_role(const folder_reading *read, cti_text text) {
    for (int i = 0; i < CTI_ROLES; i++) {
        const cti_reading *file;
        const cti_json_at value = effective_member(read, cti_role_names[i], &file);
        if (is_text(file, value, text)) return true;
    }
    return false;
}

/* Returns whether a member's key ends in "_token", its value is a text and the key is no role. */
static bool is_other_named(const cti_reading *file, cti_json_at member) {
    const cti_text key = cti_json_key_of(file->tree, member);
    if (key.size <= 6 || memcmp(key.at + key.size - 6, "_token", 6) ||
        file->tree->value[member].kind != CTI_JSON_STRING)
        return false;
    for (int role = 0; role < CTI_ROLES; role++)
        if (!cti_text_compare(key, cti_text_of(cti_role_names[role]))) return false;
    return true;
}

/* Whether a text is a token that such a member names. */
static bool has_name(const folder_reading *read, cti_text text) {
    for (int which = FOLDER_CONFIG; which <= (read->has_list ? FOLDER_CONFIG : FOLDER_MAP);
         which++) {
        const cti_reading *file = &read->file[which];
        if (!file->tree) continue;
        for (cti_json_at i = cti_json_first(file->tree, 0); i; i = file->tree->value[i].next)
            if (is_other_named(file, i) && is_text(file, i, text)) return true;
    }
    return false;
}

/* The value of "extra_special_tokens" or, without it, "additional_special_tokens"; 0 if there is
 * none. */
static cti_json_at extra_member(const folder_reading *read, const cti_reading **file) {
    static const char *const keys[] = {"extra_special_tokens", "additional_special_tokens"};
    for (int k = 0; k < 2; k++) {
        const cti_json_at list = effective_member(read, keys[k], file);
        const cti_json_kind kind = list ? (*file)->tree->value[list].kind : CTI_JSON_NULL;
        const bool is_list = kind == CTI_JSON_ARRAY || kind == CTI_JSON_OBJECT;
        if (kind != CTI_JSON_NULL && !(is_list && !(*file)->tree->value[list].count)) return list;
    }
    return 0;
}

/* Whether a text is an item of it. */
static bool is_extra(const folder_reading *read, cti_text text) {
    const cti_reading *file;
    const cti_json_at list = extra_member(read, &file);
    if (!list) return false;
    for (cti_json_at i = cti_json_first(file->tree, list); i; i = file->tree->value[i].next)
        if (is_text(file, i, text)) return true;
    return false;
}

/* Reads member {"content": id} of added_tokens.json. */
static bool old_listed_read(const folder_reading *read, cti_json_at member, listed_token *listed) {
    const cti_reading *file = &read->file[FOLDER_ADDED];
    const cti_text key = cti_json_key_of(file->tree, member);
    if (!cti_json_whole(file->tree, member, &listed->id) || listed->id >= CTI_MOST_IDS)
        return cti_reading_fail(file, member, "\"%s\" has no id", key.at);
    listed->token.content = cti_arena_copy(file->arena, key);
    listed->token.special = has_role(read, key) || is_extra(read, key);
    listed->token.normalized = !listed->token.special;
    return listed->token.content.at != NULL;
}

/* Adds the tokens of "added_tokens_decoder", the value `list`, or of added_tokens.json. */
static bool listed_token_add(folder_reading *read, int which, cti_json_at list) {
    const cti_reading *file = &read->file[which];
    const cti_added_tokens *added = &read->tokenizer->parts->added;
    const uint32_t n = file->tree->value[list].count;
    listed_token *listed = cti_arena_take(file->arena, n, sizeof *listed);
    if (!listed) return false;
    size_t count = 0;
    for (cti_json_at i = cti_json_first(file->tree, list); i; i = file->tree->value[i].next) {
        listed_token *next = &listed[count];
        *next = (listed_token){.value = i};
        if (which == FOLDER_CONFIG ? !listed_read(file, i, next) : !old_listed_read(read, i, next))
            return false;
        const cti_text text = next->token.content;
        next->token.special |= has_role(read, text) || has_name(read, text);
        count += text.size > 0;
    }
    qsort(listed, count, sizeof *listed, listed_compare);
    for (size_t i = 0; i < count; i++) {
        const cti_text text = listed[i].token.content;
        const bool known = which == FOLDER_CONFIG ? is_listed_already(added, &listed[i].token)
                                                  : cti_vocabulary_find(&added->index, text.at,
                                                                        text.size) != CTI_NO_ID;
        if (!known && folder_add(read, file, listed[i].value, listed[i].token) < 0) return false;
    }
    return true;
}

/* Adds the tokens that members of a file name and that have no role. */
static bool other_named_token_add(folder_reading *read, int which) {
    const cti_reading *file = &read->file[which];
    if (!file->tree) return true;
    for (cti_json_at i = cti_json_first(file->tree, 0); i; i = file->tree->value[i].next)
        if (is_other_named(file, i) &&
            !named_token_add(read, file, i, cti_json_key_of(file->tree, i).at, NULL))
            return false;
    return true;
}

static bool extra_tokens_add(folder_reading *read) {
    const cti_reading *file;
    const cti_json_at list = extra_member(read, &file);
    if (!list) return true;
    const char *key = cti_json_key_of(file->tree, list).at;
    const cti_json_kind kind = file->tree->value[list].kind;
    if (kind != CTI_JSON_ARRAY && kind != CTI_JSON_OBJECT)
        return cti_reading_fail(file, list, "\"%s\" is not a list of tokens", key);
    for (cti_json_at i = cti_json_first(file->tree, list); i; i = file->tree->value[i].next)
        if (!named_token_add(read, file, i, key, NULL)) return false;
    return true;
}

/* ---- roles ---- */

/* The default tokens of a class of transformers, in the order of cti_role_names. */
typedef struct {
    const char *name;   /* without "Fast" */
    const char *models; /* values of config.json's "model_type" that stand for it */
    const char *token[CTI_ROLES];
} folder_class;
static const char gpt2_end[] = "<|endoftext|>";
static const folder_class folder_classes[] = {
    {"GPT2Tokenizer", " gpt2 gpt_neo gptj opt phi ", {gpt2_end, gpt2_end, gpt2_end}},
    {"Qwen2Tokenizer",
     " qwen2 qwen3 qwen2_moe qwen3_moe ",
     {NULL, gpt2_end, gpt2_end, NULL, gpt2_end}},
    {"LlamaTokenizer", " ", {"<s>", "</s>", "<unk>"}},
    {"GemmaTokenizer",
     " gemma gemma2 gemma3 gemma3_text ",
     {"<bos>", "<eos>", "<unk>", NULL, "<pad>", NULL, "<mask>"}},
    {"BertTokenizer",
     " bert distilbert electra ",
     {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {"RobertaTokenizer",
     " roberta bart ",
     {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
};

/* The class that tokenizer_config.json names or, if it names none, the class of config.json's
 * model_type. NULL if this class has no default tokens. */
static const folder_class *folder_class_of(const folder_reading *read) {
    const cti_json_at named = folder_member(read, FOLDER_CONFIG, "tokenizer_class");
    const int which = named ? FOLDER_CONFIG : FOLDER_MODEL;
    const cti_json_at value = named ? named : folder_member(read, FOLDER_MODEL, "model_type");
    if (!value || read->tree[which].value[value].kind != CTI_JSON_STRING) return NULL;
    const cti_text text = cti_json_text(&read->tree[which], value);
    for (size_t i = 0; i < sizeof folder_classes / sizeof *folder_classes; i++) {
        const folder_class *class = &folder_classes[i];
        const size_t n = strlen(class->name);
        if (named && !strncmp(text.at, class->name, n) &&
            (!text.at[n] || !strcmp(text.at + n, "Fast")))
            return class;
        const char *at = named || !text.size ? NULL : strstr(class->models, text.at);
        if (at && at > class->models && at[-1] == ' ' && at[text.size] == ' ') return class;
    }
    return NULL;
}

/* Gives a role to the default token of the class, if the tokenizer has it. */
static bool default_token_add(folder_reading *read, const char *token, int64_t *id) {
    cti_tokenizer_parts *parts = read->tokenizer->parts;
    if (!token || cti_token_find(parts, cti_text_of(token)) < 0) return true;
    cti_added_tokens *added = &parts->added;
    const cti_reading *file = &read->file[FOLDER_CONFIG];
    if (!file->tree) file = &read->file[FOLDER_MODEL]; /* the file that names the class */
    const cti_added_token special = {.content = cti_text_of(token), .special = true};
    int64_t index = cti_vocabulary_find(&added->index, token, strlen(token));
    if (index == CTI_NO_ID) index = folder_add(read, file, 0, special);
    if (index >= 0) *id = added->token[index].id;
    return index >= 0;
}

/* A role is `changed` if tokenizer_config.json has neither the role nor the class that implies it.
 * Then a save writes it, because the saved folder need not have the other files. */
static bool roles_read(folder_reading *read) {
    cti_tokenizer_parts *parts = read->tokenizer->parts;
    const folder_class *class = folder_class_of(read);
    const bool has_defaults = class && !(parts->bytes && !strcmp(class->name, "LlamaTokenizer"));
    for (int i = 0; i < CTI_ROLES; i++) {
        const cti_reading *file;
        const cti_json_at value = effective_member(read, cti_role_names[i], &file);
        if (!value) {
            if (has_defaults && !default_token_add(read, class->token[i], &parts->role[i]))
                return false;
            parts->role_changed[i] =
                parts->role[i] >= 0 && !folder_member(read, FOLDER_CONFIG, "tokenizer_class");
            continue;
        }
        parts->role_changed[i] = file == &read->file[FOLDER_MAP];
        if (file->tree->value[value].kind != CTI_JSON_NULL &&
            !named_token_add(read, file, value, cti_role_names[i], &parts->role[i]))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

/* Reads "eos_token_id", an id or a list of ids; what is neither is for ct_lm_open to judge. */
static void eos_read(const cti_reading *generation, cti_tokenizer_parts *parts) {
    const cti_json_tree *tree = generation->tree;
    const cti_json_at value = cti_json_member(tree, 0, "eos_token_id");
    const bool list = value && tree->value[value].kind == CTI_JSON_ARRAY;
    cti_json_at i = list ? cti_json_first(tree, value) : value;
    for (; i && parts->n_eos < CTI_MOST_EOS; i = list ? tree->value[i].next : 0)
        parts->n_eos += cti_json_whole(tree, i, &parts->eos[parts->n_eos]);
}

/* Reads a file of a template, if it is there. */
static bool template_file_read(ct_tokenizer *tokenizer, const char *folder, const char *file,
                               cti_text name) {
    char *path;
    cti_text text;
    if (!folder_text(&tokenizer->arena, folder, file, &path, &text)) return false;
    tokenizer->parts->template_is_file |= text.at != NULL;
    return !text.at ||
           cti_chat_template_set(&tokenizer->arena, &tokenizer->parts->chat_templates, name, text);
}

/* Reads NAME.jinja of the folder of additional templates. */
static bool named_templates_read(ct_tokenizer *tokenizer, const char *folder) {
    static const char suffix[] = ".jinja";
    ct_context *context = tokenizer->context;
    const char *path = cti_tokenizer_path(&tokenizer->arena, folder, "additional_chat_templates");
    cti_os_about about;
    if (!path || !cti_file_find(context, folder_op, path, &about)) return false;
    if (about.kind != CTI_OS_FOLDER) return true;
    cti_os_folder *list = cti_os_folder_open(path);
    if (!list) return ct_fail(context, CT_ERR_IO, "%s: %s: it cannot be listed", folder_op, path);
    bool done = true;
    while (done) {
        const char *file = cti_os_folder_next(list);
        if (!file) break;
        const size_t size = strlen(file), end = sizeof suffix - 1;
        if (size <= end || strcmp(file + size - end, suffix) != 0) continue;
        const cti_text name = cti_arena_copy(&tokenizer->arena, (cti_text){file, size - end});
        done = name.at && template_file_read(tokenizer, path, file, name);
    }
    cti_os_folder_close(list);
    return done;
}

/* Templates in files of their own come in the place of those of tokenizer_config.json. */
static bool template_files_read(ct_tokenizer *tokenizer, const char *folder) {
    cti_chat_templates *templates = &tokenizer->parts->chat_templates;
    const cti_chat_templates before = *templates;
    *templates = (cti_chat_templates){0};
    if (!template_file_read(tokenizer, folder, "chat_template.jinja",
                            cti_text_of(cti_chat_default)) ||
        !named_templates_read(tokenizer, folder))
        return false;
    if (!templates->count) *templates = before;
    return true;
}

/* Adds the tokens of all files, and gives the roles. */
static bool folder_tokens_add(folder_reading *read) {
    const cti_reading *config = &read->file[FOLDER_CONFIG];
    bool splits = false;
    if (config->tree) {
        if (!cti_reading_bool(config, 0, "split_special_tokens", &splits)) return false;
        if (splits)
            return cti_reading_fail(config,
                                    cti_json_member(config->tree, 0, "split_special_tokens"),
                                    "\"split_special_tokens\" is not supported: remove it and "
                                    "encode with .plain = true");
    }
    const cti_json_at list = folder_member(read, FOLDER_CONFIG, "added_tokens_decoder");
    read->has_list = list && config->tree->value[list].kind == CTI_JSON_OBJECT;
    if (read->has_list ? !listed_token_add(read, FOLDER_CONFIG, list)
                       : read->file[FOLDER_ADDED].tree && !listed_token_add(read, FOLDER_ADDED, 0))
        return false;
    read->names = read->tokenizer->parts->added.count;
    return roles_read(read) && other_named_token_add(read, FOLDER_CONFIG) &&
           (read->has_list || other_named_token_add(read, FOLDER_MAP)) && extra_tokens_add(read);
}

bool cti_folder_read(ct_tokenizer *tokenizer, const char *folder) {
    cti_tokenizer_parts *parts = tokenizer->parts;
    folder_reading read = {.tokenizer = tokenizer};
    bool done = true;
    for (int i = 0; i < FOLDER_FILES && done; i++) done = folder_file_read(&read, folder, i);
    done = done && folder_tokens_add(&read) &&
           (!read.file[FOLDER_CONFIG].tree ||
            cti_chat_templates_read(&read.file[FOLDER_CONFIG], &parts->chat_templates));
    if (done && read.file[FOLDER_GENERATION].tree) eos_read(&read.file[FOLDER_GENERATION], parts);
    for (int i = 0; i < FOLDER_FILES; i++)
        if (read.file[i].tree) cti_json_tree_free(&read.tree[i]);
    if (!done) return false;
    if (read.added) {
        if (!cti_added_tokens_index(&parts->added)) return false;
        parts->changed = true;
        cti_tokenizer_measure(parts);
    }
    parts->has_map = !read.has_list && read.file[FOLDER_MAP].tree;
    return template_files_read(tokenizer, folder);
}
