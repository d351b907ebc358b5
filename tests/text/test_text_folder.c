/* The files beside a tokenizer.json: roles, and tokens that they add. The ids are those that
 * transformers.AutoTokenizer gave for such folders. */
#include "text_files.h"

/* Writes the files of a folder, of which NULL is absent, with ' in place of ". */
static const char *folder_with(const char *config, const char *map, const char *added,
                               const char *model) {
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json",
                                        "added_tokens.json", "config.json"};
    const char *const texts[] = {config, map, added, model};
    ct_tokenizer_close(open_small(context, ""));
    ck_assert(!rename(in_folder("small.json"), in_folder("tokenizer.json")));
    for (int i = 0; i < 4; i++) {
        remove(in_folder(names[i]));
        if (!texts[i]) continue;
        char text[1000];
        const int size = snprintf(text, sizeof text, "%s", texts[i]);
        for (int k = 0; k < size; k++)
            if (text[k] == '\'') text[k] = '"';
        write_all(in_folder(names[i]), text, (size_t)size);
    }
    return in_folder("");
}

typedef struct {
    const char *config, *map, *added, *model;
    int64_t size, role[3]; /* the ids of eos_token, pad_token, unk_token */
    const char *last;      /* the text of the last id */
} folder_case;

#define AS_IT_IS                                                                                   \
    "{'content':'<x>','lstrip':false,'rstrip':false,'normalized':false,"                           \
    "'single_word':false,'special':true}"
static const folder_case cases[] = {
    {NULL, NULL, NULL, NULL, 7, {-1, -1, -1}, "ab"},
    {"{'eos_token':'[SEP]','add_bos_token':true,'add_eos_token':true}",
     NULL,
     NULL,
     NULL,
     7,
     {4, -1, -1},
     "ab"},
    {"{'pad_token':'<p>','eos_token':'<e>'}", NULL, NULL, NULL, 9, {7, 8, -1}, "<p>"},
    {"{'eos_token':'b'}", NULL, NULL, NULL, 7, {1, -1, -1}, "ab"},
    {NULL, "{'eos_token':'[SEP]','pad_token':'[PAD]'}", NULL, NULL, 7, {4, 5, -1}, "ab"},
    {"{'eos_token':'<gone>','pad_token':'[PAD]'}",
     "{'eos_token':{'content':'[SEP]'},'pad_token':null}",
     NULL,
     NULL,
     7,
     {4, -1, -1},
     "ab"},
    {"{'eos_token':'[SEP]','added_tokens_decoder':{}}",
     "{'eos_token':'[PAD]'}",
     "{'<x>':7}",
     NULL,
     7,
     {4, -1, -1},
     "ab"},
    {"{'pad_token':'<p>','added_tokens_decoder':{'20':" AS_IT_IS "}}",
     NULL,
     NULL,
     NULL,
     9,
     {-1, 8, -1},
     "<p>"},
    {"{'pad_token':'<p>'}", NULL, "{'<x>':8,'<p>':7}", NULL, 9, {-1, 7, -1}, "<x>"},
    {"{'image_token':'<i>','additional_special_tokens':['<y>'],'pad_token':'<p>'}",
     NULL,
     NULL,
     NULL,
     10,
     {-1, 7, -1},
     "<y>"},
    {"{'extra_special_tokens':{'video_token':'<v>'}}", NULL, NULL, NULL, 8, {-1, -1, -1}, "<v>"},
    {"{'tokenizer_class':'BertTokenizerFast','pad_token':null}",
     NULL,
     NULL,
     NULL,
     7,
     {-1, -1, -1},
     "ab"},
    {"{'tokenizer_class':'BertTokenizer'}", NULL, NULL, NULL, 7, {-1, 5, -1}, "ab"},
    {"{'model_max_length':9}", NULL, NULL, "{'model_type':'bert'}", 7, {-1, 5, -1}, "ab"},
    {"{'tokenizer_class':'PreTrainedTokenizerFast'}",
     NULL,
     NULL,
     "{'model_type':'bert'}",
     7,
     {-1, -1, -1},
     "ab"},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(roles_and_tokens) {
    const folder_case *c = &cases[_i];
    ct_tokenizer *tokenizer =
        ct_tokenizer_open(context, folder_with(c->config, c->map, c->added, c->model));
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    ck_assert_int_eq(ct_tokenizer_size(tokenizer), c->size);
    ck_assert_int_eq(ct_token_role(tokenizer, "eos_token"), c->role[0]);
    ck_assert_int_eq(ct_token_role(tokenizer, "pad_token"), c->role[1]);
    ck_assert_int_eq(ct_token_role(tokenizer, "unk_token"), c->role[2]);
    ck_assert_str_eq(ct_token(tokenizer, c->size - 1), c->last);
    /* the tokens and the roles come back from a saved folder */
    char saved[1100];
    snprintf(saved, sizeof saved, "%s", in_folder("saved"));
    ck_assert(ct_tokenizer_save(tokenizer, saved));
    ct_tokenizer *again = ct_tokenizer_open(context, saved);
    ck_assert_msg(again != NULL, "%s", ct_error_message(context));
    ck_assert_int_eq(ct_tokenizer_size(again), c->size);
    ck_assert_int_eq(ct_token_role(again, "pad_token"), c->role[1]);
    remove(in_folder("saved/tokenizer.json"));
    remove(in_folder("saved/tokenizer_config.json"));
}
END_TEST

/* The flags of a token in the list, and the token of a word that the model has. */
START_TEST(flags) {
    ct_tokenizer *tokenizer = ct_tokenizer_open(
        context, folder_with("{'eos_token':'b','added_tokens_decoder':{'3':{'content':'[CLS]',"
                             "'lstrip':true,'special':true}}}",
                             NULL, NULL, NULL));
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    int64_t ids[8];
    const ct_encode_opts opts = {.no_special = true};
    ck_assert_int_eq(ct_encode(tokenizer, "ab [CLS]a", 9, opts, ids, NULL, 8), 4);
    const int64_t want[] = {0, 1, 3, 0};
    ck_assert_mem_eq(ids, want, sizeof want);
}
END_TEST

/* A saved role counts, although the folder's special_tokens_map.json has another token. */
START_TEST(saved_in_place) {
    const char *path = folder_with("{'pad_token':'a'}", "{'pad_token':'[PAD]'}", NULL, NULL);
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    ck_assert_int_eq(ct_token_role(tokenizer, "pad_token"), 5);
    ck_assert_int_eq(ct_token_add(tokenizer, "[SEP]", "pad_token"), 4);
    ck_assert(ct_tokenizer_save(tokenizer, in_folder("")));
    ct_tokenizer *again = ct_tokenizer_open(context, in_folder(""));
    ck_assert_msg(again != NULL, "%s", ct_error_message(context));
    ck_assert_int_eq(ct_token_role(again, "pad_token"), 4);
}
END_TEST

/* A template that was set takes the place of the folder's, and is saved where transformers reads
 * it. */
START_TEST(template_that_is_set) {
    static const char *const
        before[] = {NULL, "{'pad_token':'a'}", "{'chat_template':'old','x':1}",
                    "{'chat_template':[{'name':'default','template':'old'}]}"},
        chatml[] = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
                   "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if "
                   "add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    const ct_message message = {.role = "user", .content = "a"};
    char text[100], jinja[1100];
    const char *path = folder_with(before[_i % 4], NULL, NULL, NULL);
    snprintf(jinja, sizeof jinja, "%s", in_folder("chat_template.jinja"));
    if (_i >= 4) write_all(jinja, "old", 3);
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    for (int removed = 0; removed < 2; removed++) { /* into the same folder */
        ck_assert(ct_tokenizer_set_template(tokenizer, removed ? NULL : chatml));
        ck_assert(ct_tokenizer_save(tokenizer, path));
        ct_tokenizer *again = ct_tokenizer_open(context, path);
        ck_assert_msg(again != NULL, "%s", ct_error_message(context));
        const int64_t n = ct_chat_text(again, &message, 1, (ct_chat_opts){0}, text, sizeof text);
        ck_assert(removed ? n == -1 : !strcmp(text, "<|im_start|>user\na<|im_end|>\n"));
        ct_tokenizer_close(again);
    }
    FILE *file = fopen(jinja, "rb");
    ck_assert_ptr_null(file);
    ck_assert(!ct_tokenizer_set_template(tokenizer, "\xff"));
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ck_assert(!ct_tokenizer_set_template(NULL, ""));
}
END_TEST

START_TEST(refused) {
    static const struct {
        const char *config, *map, *added, *message;
    } bad[] = {
        {"{'split_special_tokens':true}", NULL, NULL, "split_special_tokens"},
        {"{'eos_token':5}", NULL, NULL, "eos_token"},
        {NULL, "{'pad_token':[]}", NULL, "special_tokens_map.json"},
        {NULL, "[]", NULL, "special_tokens_map.json"},
        {NULL, "{'pad_token':", NULL, "special_tokens_map.json"},
        {NULL, NULL, "{'<x>':'7'}", "added_tokens.json"},
        {"{'added_tokens_decoder':{'-1':" AS_IT_IS "}}", NULL, NULL, "tokenizer_config.json"},
        {"{'added_tokens_decoder':{'99999999999999999999':" AS_IT_IS "}}", NULL, NULL,
         "tokenizer_config.json"},
        {"{'added_tokens_decoder':{'1':'<x>'}}", NULL, NULL, "added_tokens_decoder"},
        {"{'additional_special_tokens':[7]}", NULL, NULL, "additional_special_tokens"},
        {"{'extra_special_tokens':'<x>'}", NULL, NULL, "extra_special_tokens"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_ptr_null(
            ct_tokenizer_open(context, folder_with(bad[i].config, bad[i].map, bad[i].added, NULL)));
        ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
        ck_assert_msg(strstr(ct_error_message(context), bad[i].message) != NULL, "%s",
                      ct_error_message(context));
        ct_error_clear(context);
    }
}
END_TEST

/* A text in memory makes the tokenizer of the file that has it, which is saved as that file. */
START_TEST(texts_in_memory) {
    static char text[1 << 14], again[1 << 14];
    ct_tokenizer *opened = open_small(context, "");
    const size_t size = read_all(in_folder("small.json"), text, sizeof text);
    ct_tokenizer *parsed = ct_tokenizer_parse(context, text, size);
    ck_assert_msg(parsed != NULL, "%s", ct_error_message(context));
    int64_t want[20], got[20];
    const int64_t n = ct_encode(opened, "ab ba[SEP]b", 11, (ct_encode_opts){0}, want, NULL, 20);
    memset(text, '#', size); /* it was copied */
    ck_assert_int_eq(ct_encode(parsed, "ab ba[SEP]b", 11, (ct_encode_opts){0}, got, NULL, 20), n);
    ck_assert(n > 5 && !memcmp(want, got, (size_t)n * sizeof *want));
    ck_assert(ct_token_role(parsed, "eos_token") == -1 && !ct_chat_template(parsed, NULL));
    ck_assert(ct_tokenizer_save(parsed, in_folder("again.json")));
    read_all(in_folder("small.json"), text, sizeof text);
    ck_assert(read_all(in_folder("again.json"), again, sizeof again) == size);
    ck_assert(!memcmp(text, again, size));
    ct_tokenizer_close(parsed);
    ct_tokenizer_close(opened);
    for (size_t cut = 0; cut < size; cut += 7)
        ck_refused(ct_tokenizer_parse(context, text, cut), CT_ERR_FORMAT, "tokenizer_parse",
                   "byte");
    ck_refused(ct_tokenizer_parse(context, NULL, 1), CT_ERR_ARGUMENT, "tokenizer_parse", "NULL");
}
END_TEST

int main(void) {
    return run_tests("folders of tokenizers", setup, teardown,
                     TESTS(LOOP(roles_and_tokens, CASES), TEST(flags), TEST(saved_in_place),
                           LOOP(template_that_is_set, 8), TEST(refused), TEST(texts_in_memory)));
}
