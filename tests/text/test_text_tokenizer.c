/* Tokenizers as a whole: ids, ranges and texts that the tokenizers package gave; errors; decoding
 * as a stream; files that are cut at each byte. */
#include <cotangent/cotangent.h>

#include <stdio.h>

#include "ext/text/tokenizer.h"
#include "tests/support/remove_tree.h"
#include "tests/support/suite.h"
#include "tokenizer_files.h"

enum { PATH = 512 };

static ct_context *context;
static char folder[PATH];

static void start(void) {
    context = ct_context_new((ct_context_opts){0});
    snprintf(folder, sizeof folder, "/tmp/cotangent-tokenizer-XXXXXX");
    ck_assert(mkdtemp(folder));
}

static void stop(void) {
    remove_tree(folder);
    ck_assert_msg(!ct_error(context), "%s", ct_error_message(context));
    ct_context_free(context);
}

static ct_tokenizer *tokenizer_of(const char *json) {
    char *text = unquoted(json);
    ct_tokenizer *tokenizer = cti_tokenizer_of(context, "file.json", cti_text_of(text));
    free(text);
    return tokenizer;
}

/* The stream of ids, joined; a result that does not fit changes nothing. */
static void stream_all(const ct_tokenizer *tokenizer, const int64_t *ids, int n, bool keep,
                       char *out) {
    ct_decode_state state = {.keep_special = keep};
    char piece[64];
    const size_t room = ct_token_room(tokenizer);
    ck_assert(room <= sizeof piece);
    for (int i = 0; i <= n; i++) {
        const int64_t id = i < n ? ids[i] : -1;
        const ct_decode_state before = state;
        const int64_t size = ct_decode_next(tokenizer, &state, id, piece, 1);
        ck_assert(size >= 0 && (!size || !memcmp(&before, &state, sizeof state)));
        if (size) ck_assert_int_eq(ct_decode_next(tokenizer, &state, id, piece, room), size);
        ck_assert(!piece[size]);
        memcpy(out, piece, (size_t)size + 1);
        out += size;
    }
}

static void check_cases(const char *json, const text_case *cases, int n) {
    ct_tokenizer *tokenizer = tokenizer_of(json);
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    int64_t ids[MOST], offsets[2 * MOST];
    char text[256];
    for (int i = 0; i < n; i++) {
        const text_case *c = &cases[i];
        const size_t size = strlen(c->text);
        ck_assert_int_eq(
            ct_encode(tokenizer, c->text, size, (ct_encode_opts){0}, ids, offsets, MOST), c->n);
        for (int k = 0; k < c->n; k++)
            ck_assert_msg(ids[k] == c->ids[k] && offsets[2 * k] == c->offsets[2 * k] &&
                              offsets[2 * k + 1] == c->offsets[2 * k + 1],
                          "'%s': token %d is %d of (%d, %d), not %d of (%d, %d)", c->text, k,
                          (int)ids[k], (int)offsets[2 * k], (int)offsets[2 * k + 1], (int)c->ids[k],
                          (int)c->offsets[2 * k], (int)c->offsets[2 * k + 1]);
        /* room for fewer ids */
        for (int room = 0; room <= c->n; room++) {
            int64_t few[MOST + 1], ranges[2 * MOST + 2];
            memset(few, 0x55, sizeof few);
            memset(ranges, 0x55, sizeof ranges);
            ck_assert_int_eq(
                ct_encode(tokenizer, c->text, size, (ct_encode_opts){0}, few, ranges, room), c->n);
            ck_assert(!memcmp(few, c->ids, (size_t)room * sizeof *few));
            ck_assert(!memcmp(ranges, c->offsets, 2 * (size_t)room * sizeof *few));
            ck_assert(few[room] == 0x5555555555555555 && ranges[2 * room] == few[room]);
        }
        for (int keep = 0; keep < 2; keep++) {
            const char *want = keep ? c->whole : c->decoded;
            ck_assert_int_eq(ct_decode(tokenizer, c->ids, c->n, keep, text, sizeof text),
                             (int)strlen(want));
            ck_assert_str_eq(text, want);
            stream_all(tokenizer, c->ids, c->n, keep, text);
            ck_assert_str_eq(text, want);
            ck_assert_int_eq(ct_decode(tokenizer, c->ids, c->n, keep, text, 3), (int)strlen(want));
            ck_assert(!memcmp(text, want, strlen(want) < 2 ? strlen(want) : 2));
            ck_assert_int_eq(ct_decode(tokenizer, c->ids, c->n, keep, NULL, 0), (int)strlen(want));
        }
    }
    ct_tokenizer_close(tokenizer);
}

#define CHECK(name) check_cases(name##_json, name##_cases, sizeof name##_cases / sizeof(text_case))

START_TEST(byte_level) { CHECK(bpe); }
END_TEST
START_TEST(sentencepiece) { CHECK(llama); }
END_TEST
START_TEST(wordpiece) { CHECK(bert); }
END_TEST
START_TEST(unigram) { CHECK(unigram); }
END_TEST

static int64_t encode_string(const ct_tokenizer *tokenizer, const char *text, ct_encode_opts opts,
                             int64_t *ids) {
    return ct_encode(tokenizer, text, strlen(text), opts, ids, NULL, MOST);
}

START_TEST(options) {
    ct_tokenizer *tokenizer = tokenizer_of(bpe_json);
    int64_t ids[MOST];
    ck_assert_int_eq(encode_string(tokenizer, "<s>a", (ct_encode_opts){.no_special = true}, ids),
                     2);
    ck_assert(ids[0] == 0 && ids[1] == ct_token_id(tokenizer, "a"));
    /* the alphabet of this model lacks '<', 's' and '>', which are then left out */
    ck_assert_int_eq(encode_string(tokenizer, "<s>a", (ct_encode_opts){.plain = true}, ids), 2);
    ck_assert(ids[0] == 0 && ids[1] == ct_token_id(tokenizer, "a"));
    ck_assert_int_eq(
        encode_string(tokenizer, "lo w", (ct_encode_opts){.plain = true, .no_special = true}, ids),
        3);
    ck_assert(ids[0] == ct_token_id(tokenizer, "l") &&
              ids[2] == ct_token_id(tokenizer, "\xc4\xa0w"));
    ct_tokenizer_close(tokenizer);
}
END_TEST

START_TEST(tokens) {
    ct_tokenizer *tokenizer = tokenizer_of(bpe_json);
    ck_assert_int_eq(ct_tokenizer_size(tokenizer), 38);
    ck_assert_str_eq(ct_token(tokenizer, 0), "<s>");
    ck_assert_str_eq(ct_token(tokenizer, 30), "hello");
    /* the package does not take the ids 60 and 61 of the file, which are not the next ones */
    ck_assert_str_eq(ct_token(tokenizer, 36), "wor");
    ck_assert_int_eq(ct_token_id(tokenizer, "lo w"), 37);
    ck_assert_int_eq(ct_token_id(tokenizer, "nothing"), -1);
    ck_assert(!ct_token(tokenizer, 38) && !ct_token(tokenizer, -1));
    ck_assert_int_eq(ct_token_role(tokenizer, "eos_token"), -1);
    ct_tokenizer_close(tokenizer);
}
END_TEST

/* The ids of a post-processor need not be ids of tokens, but an embedding needs their rows. */
START_TEST(ids_of_a_template) {
    static const char json[] =
        "{'post_processor':{'type':'BertProcessing','sep':['x',40],'cls':['y',7]},"
        "'model':{'type':'WordLevel','vocab':{'a':0},'unk_token':'a'}}";
    ct_tokenizer *tokenizer = tokenizer_of(json);
    int64_t ids[MOST];
    ck_assert_int_eq(encode_string(tokenizer, "a", (ct_encode_opts){0}, ids), 3);
    ck_assert(ids[0] == 7 && ids[1] == 0 && ids[2] == 40);
    ck_assert_int_eq(ct_tokenizer_size(tokenizer), 41);
    ck_assert(!ct_token(tokenizer, 40) && ct_token_id(tokenizer, "x") == -1);
    ck_assert_int_eq(ct_token_add(tokenizer, "z", NULL), 1);
    ck_assert_int_eq(ct_tokenizer_size(tokenizer), 41);
    ct_tokenizer_close(tokenizer);
}
END_TEST

/* A text that needs an unk_token which the vocabulary does not have. */
START_TEST(no_unknown_token) {
    ct_tokenizer *tokenizer =
        tokenizer_of("{'model':{'type':'WordLevel','vocab':{'a':0},'unk_token':'b'}}");
    ck_assert_int_eq(ct_encode(tokenizer, "a", 1, (ct_encode_opts){0}, NULL, NULL, 0), 1);
    ck_assert_int_eq(ct_encode(tokenizer, "b", 1, (ct_encode_opts){0}, NULL, NULL, 0), -1);
    ck_assert(!ct_error(context));
    ct_tokenizer_close(tokenizer);
}
END_TEST

START_TEST(arguments) {
    ct_tokenizer *tokenizer = tokenizer_of(bpe_json);
    int64_t ids[MOST];
    char text[MOST];
    ct_decode_state state = {0};
    const ct_encode_opts opts = {0};
    ck_assert_int_eq(ct_encode(NULL, "a", 1, opts, ids, NULL, MOST), -1);
    ck_assert_int_eq(ct_encode(tokenizer, NULL, 1, opts, ids, NULL, MOST), -1);
    ck_assert_int_eq(ct_encode(tokenizer, "a", 1, opts, NULL, NULL, 1), -1);
    ck_assert_int_eq(ct_encode(tokenizer, "a", 1, opts, ids, NULL, -1), -1);
    ck_assert_int_eq(ct_encode(tokenizer, "a", 1, opts, NULL, NULL, 0), 2);
    ck_assert_int_eq(ct_decode(tokenizer, NULL, 1, false, text, MOST), -1);
    ck_assert_int_eq(ct_decode(tokenizer, ids, -1, false, text, MOST), -1);
    ck_assert_int_eq(ct_decode(tokenizer, ids, 1, false, NULL, 1), -1);
    ck_assert_int_eq(ct_decode_next(tokenizer, NULL, 1, text, MOST), -1);
    ck_assert_int_eq(ct_decode_next(tokenizer, &state, 1, NULL, 1), -1);
    ck_assert(ct_token_id(tokenizer, NULL) == -1 && ct_token_role(tokenizer, NULL) == -1);
    ck_assert(!ct_tokenizer_open(context, NULL) && ct_error(context) == CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ck_assert(!ct_tokenizer_open(context, "/nonexistent.json") && ct_error(context) == CT_ERR_IO);
    ct_error_clear(context);
    ct_tokenizer_close(tokenizer);
    ct_tokenizer_close(tokenizer);
    ct_tokenizer_close(NULL);
    ck_assert_int_eq(ct_encode(tokenizer, "a", 1, opts, ids, NULL, MOST), -1);
    ck_assert(ct_tokenizer_size(tokenizer) == -1 && !ct_token(tokenizer, 0));
    ck_assert(!ct_error(context));
    ck_assert_int_eq(ct_token_add(tokenizer, "x", NULL), -1);
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
}
END_TEST

/* A tokenizer ends with its context. */
START_TEST(closed_with_the_context) {
    ct_context *other = ct_context_new((ct_context_opts){0});
    char *text = unquoted(llama_json);
    ck_assert(cti_tokenizer_of(other, "file.json", cti_text_of(text)) != NULL);
    free(text);
    ct_context_free(other);
}
END_TEST

/* A byte that is not whole stays in the stream; at the end it is U+FFFD. */
START_TEST(streams_of_bytes) {
    ct_tokenizer *tokenizer = tokenizer_of(llama_json);
    static const struct {
        int64_t ids[6];
        int n;
        const char *whole, *stream;
    } cases[] = {
        {{4, 5, 6, 7},
         4,
         "\xe2\x82\xac"
         "a",
         "\xe2\x82\xac"
         "a"},
        {{4, 5}, 2, "\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd"},
        {{4, 7},
         2,
         "\xef\xbf\xbd"
         "a",
         "\xef\xbf\xbd"
         "a"},
        {{9, 9, 7}, 3, " a", " a"},
        {{2, 3, 4}, 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "\xc3\xa9\xef\xbf\xbd"},
        {{4, 2, 3},
         3,
         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {{9}, 1, "", ""},
        {{-7, 12, 100, 9, 8}, 5, "b", "b"},
    };
    char text[MOST];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_decode(tokenizer, cases[i].ids, cases[i].n, true, text, sizeof text);
        ck_assert_str_eq(text, cases[i].whole);
        stream_all(tokenizer, cases[i].ids, cases[i].n, true, text);
        ck_assert_str_eq(text, cases[i].stream);
    }
    ct_tokenizer_close(tokenizer);
}
END_TEST

/* Other decoders, by the package: the tokens a</w>, b</w>c and ##x of a WordLevel. */
START_TEST(decoders) {
    static const struct {
        const char *decoder, *text;
    } cases[] = {
        {"null", "a</w> b</w>c ##x  ."},
        {"{'type':'BPEDecoder','suffix':'</w>'}", "a b c##x ."},
        {"{'type':'WordPiece','prefix':'##','cleanup':false}", "a</w> b</w>cx  ."},
        {"{'type':'WordPiece','prefix':'##','cleanup':true}", "a</w> b</w>cx ."},
        {"{'type':'Sequence','decoders':[]}", "a</w>b</w>c##x ."},
        {"{'type':'Replace','pattern':{'String':'</w>'},'content':'__'}", "a__b__c##x ."},
        {"{'type':'Strip','content':'#','start':1,'stop':0}", "a</w>b</w>c#x ."},
        {"{'type':'Sequence','decoders':[{'type':'Fuse'},"
         "{'type':'Strip','content':'.','start':0,'stop':1}]}",
         "a</w>b</w>c##x "},
        {"{'type':'Metaspace','replacement':'#','prepend_scheme':'always'}", "a</w>b</w>c  x ."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024], text[MOST];
        snprintf(json, sizeof json,
                 "{'decoder':%s,'model':{'type':'WordLevel','unk_token':'a</w>',"
                 "'vocab':{'a</w>':0,'b</w>c':1,'##x':2,' .':3}}}",
                 cases[i].decoder);
        ct_tokenizer *tokenizer = tokenizer_of(json);
        ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
        const int64_t ids[] = {0, 1, 2, 3};
        ct_decode(tokenizer, ids, 4, false, text, sizeof text);
        ck_assert_str_eq(text, cases[i].text);
        stream_all(tokenizer, ids, 4, false, text);
        ck_assert_str_eq(text, cases[i].text);
        ct_tokenizer_close(tokenizer);
    }
}
END_TEST

START_TEST(kinds_that_are_not_there) {
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{'model':{'type':'Bigram','vocab':[]}}", "'Bigram'"},
        {"{'normalizer':{'type':'Precompiled'},'model':{'type':'BPE','vocab':{},'merges':[]}}",
         "Precompiled"},
        {"{'decoder':{'type':'CTC'},'model':{'type':'WordLevel','vocab':{'a':0},"
         "'unk_token':'a'}}",
         "unknown decoder 'CTC'"},
        {"{'decoder':{'type':'Sequence','decoders':[{'type':'Fuse'},{'type':'ByteFallback'}]},"
         "'model':{'type':'WordLevel','vocab':{'a':0},'unk_token':'a'}}",
         "ByteFallback: the decoder does not work behind"},
        {"{'post_processor':{'type':'X'},'model':{'type':'WordLevel','vocab':{'a':0},"
         "'unk_token':'a'}}",
         "unknown post-processor 'X'"},
        {"{'added_tokens':[{'id':2147483647,'content':'a','single_word':false,'lstrip':false,"
         "'rstrip':false,'normalized':false,'special':false}],"
         "'model':{'type':'WordLevel','vocab':{'a':0},'unk_token':'a'}}",
         "too large"},
        {"{'added_tokens':[{'id':1,'content':'a'}],'model':{'type':'WordLevel','vocab':{'a':0},"
         "'unk_token':'a'}}",
         "no \"single_word\""},
        {"[]", "no \"model\""},
        {"{'version':'1.0'}", "no \"model\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert(!tokenizer_of(cases[i].json));
        ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
        const char *message = ct_error_message(context);
        ck_assert_msg(strstr(message, "tokenizer_open: file.json: byte ") == message &&
                          strstr(message, cases[i].message),
                      "%s", message);
        ct_error_clear(context);
    }
}
END_TEST

START_TEST(files_cut_at_each_byte) {
    const char *const files[] = {bpe_json, llama_json, bert_json, unigram_json};
    for (int i = 0; i < 4; i++) {
        char *text = unquoted(files[i]);
        const int64_t live = ct_memory(context).live;
        for (size_t size = 0; size < strlen(text); size++) {
            ck_assert(!cti_tokenizer_of(context, "file.json", (cti_text){text, size}));
            ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
            ct_error_clear(context);
        }
        ck_assert_int_eq(ct_memory(context).live, live);
        free(text);
    }
}
END_TEST

/* One byte after the other is replaced: the file is refused, or makes a tokenizer that works. */
START_TEST(files_with_a_wrong_byte) {
    char *text = unquoted(_i ? unigram_json : llama_json);
    static const char wrong[] = {'0', '9', '"', '}', ']', ',', 'A', '\\', '\x80'};
    for (size_t at = 0; at < strlen(text); at++) {
        const char right = text[at];
        text[at] = wrong[at % sizeof wrong];
        ct_tokenizer *tokenizer = cti_tokenizer_of(context, "file.json", cti_text_of(text));
        if (tokenizer) {
            int64_t ids[MOST];
            char out[MOST];
            const int64_t n = encode_string(tokenizer, "ab <s> \xc3\xa9", (ct_encode_opts){0}, ids);
            ck_assert(n <= MOST);
            if (n > 0) ck_assert(ct_decode(tokenizer, ids, n, true, out, MOST) >= 0);
            ct_tokenizer_close(tokenizer);
        }
        ct_error_clear(context);
        text[at] = right;
    }
    free(text);
}
END_TEST

/* ---- added tokens, roles, files ---- */

static void write_file(const char *name, const char *text) {
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert(file && fputs(text, file) >= 0 && !fclose(file));
}

static char *read_file(const char *name) {
    static char text[1 << 14];
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    ck_assert(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

START_TEST(folders_and_roles) {
    char *json = unquoted(bert_json);
    write_file("tokenizer.json", json);
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, folder);
    ck_assert(tokenizer && ct_token_role(tokenizer, "sep_token") == -1);
    ct_tokenizer_close(tokenizer);
    const char *config = "{\"sep_token\": \"[SEP]\", \"cls_token\": {\"content\": \"[CLS]\", "
                         "\"lstrip\": false}, \"pad_token\": null, \"mask_token\": null, "
                         "\"chat_template\": \"{{ \\\"x\\\" }}\", \"other\": [1, {}]}";
    write_file("tokenizer_config.json", config);
    tokenizer = ct_tokenizer_open(context, folder);
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    ck_assert_int_eq(ct_token_role(tokenizer, "sep_token"), 2);
    ck_assert_int_eq(ct_token_role(tokenizer, "cls_token"), 1);
    ck_assert_int_eq(ct_token_role(tokenizer, "pad_token"), -1);
    ck_assert_int_eq(ct_token_role(tokenizer, "mask_token"), -1);
    ck_assert_int_eq(ct_token_role(tokenizer, "other"), -1);
    ck_assert_str_eq(ct_chat_template(tokenizer, NULL), "{{ \"x\" }}");
    /* unchanged files are saved as they were */
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s/again", folder);
    ck_assert(ct_tokenizer_save(tokenizer, path));
    ck_assert_str_eq(read_file("again/tokenizer.json"), json);
    ck_assert_str_eq(read_file("again/tokenizer_config.json"), config);
    ck_assert_int_eq(ct_token_add(tokenizer, "[SEP]", "pad_token"), 2);
    ck_assert(ct_tokenizer_save(tokenizer, path));
    ck_assert_str_eq(read_file("again/tokenizer.json"), json);
    ck_assert_str_eq(read_file("again/tokenizer_config.json"),
                     "{\n  \"pad_token\": \"[SEP]\",\n  \"sep_token\": \"[SEP]\",\n"
                     "  \"cls_token\": {\"content\": \"[CLS]\", \"lstrip\": false},\n"
                     "  \"mask_token\": null,\n"
                     "  \"chat_template\": \"{{ \\\"x\\\" }}\",\n  \"other\": [1, {}]\n}\n");
    ct_tokenizer_close(tokenizer);
    free(json);
}
END_TEST

START_TEST(new_tokens) {
    ct_tokenizer *tokenizer = tokenizer_of(bpe_json);
    const char *before = ct_token(tokenizer, 37);
    ck_assert_int_eq(ct_token_add(tokenizer, "<new>", "eos_token"), 38);
    ck_assert_int_eq(ct_token_add(tokenizer, "<new>", "pad_token"), 38);
    ck_assert_int_eq(ct_token_add(tokenizer, "hello", NULL), 30);
    ck_assert_int_eq(ct_token_add(tokenizer, "<s>", "bos_token"), 0);
    ck_assert_str_eq(before, "lo w");
    ck_assert(ct_tokenizer_size(tokenizer) == 39 && ct_token_role(tokenizer, "pad_token") == 38);
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s/new.json", folder);
    ck_assert(ct_tokenizer_save(tokenizer, path));
    ct_tokenizer *again = ct_tokenizer_open(context, path);
    ck_assert_msg(again != NULL, "%s", ct_error_message(context));
    int64_t ids[2][MOST];
    const char *text = "a<new>lo world hello wor";
    const int64_t n = encode_string(tokenizer, text, (ct_encode_opts){0}, ids[0]);
    ck_assert(n > 4 && ids[0][2] == 38);
    ck_assert_int_eq(encode_string(again, text, (ct_encode_opts){0}, ids[1]), n);
    ck_assert(!memcmp(ids[0], ids[1], (size_t)n * sizeof **ids));
    char out[MOST];
    ct_decode(again, ids[1], n, false, out, sizeof out);
    ck_assert(!strstr(out, "<new>") && !strstr(out, "hello"));
    ct_tokenizer_close(again);
    ck_assert_int_eq(ct_token_add(tokenizer, "", NULL), -1);
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ck_assert_int_eq(ct_token_add(tokenizer, "\xff", NULL), -1);
    ct_error_clear(context);
    ck_assert_int_eq(ct_token_add(tokenizer, "<q>", "a role"), -1);
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ck_assert_int_eq(ct_token_id(tokenizer, "<q>"), -1);
    ct_tokenizer_close(tokenizer);
}
END_TEST

/* A megabyte in which each byte could begin an added token, or which is full of an added token that
 * strips the white space beside it: a quadratic search would take minutes. */
START_TEST(long_texts) {
    enum { SIZE = 1 << 20 };
    ct_tokenizer *tokenizer = tokenizer_of(bpe_json);
    char *text = malloc(SIZE);
    const char *const patterns[] = {"<mas", "lo ", "wor", " ", "a", "\xff", "<mask> "};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const size_t length = strlen(patterns[i]);
        for (size_t at = 0; at < SIZE; at++) text[at] = patterns[i][at % length];
        ck_assert(ct_encode(tokenizer, text, SIZE, (ct_encode_opts){0}, NULL, NULL, 0) > 0);
    }
    free(text);
    ct_tokenizer_close(tokenizer);
}
END_TEST

/* Large texts of one repeated part, also of parts that a normalizer removes. The number of ids does
 * not depend on the room for them, and ranges are within the text. */
START_TEST(large_texts) {
    static const char *const files[] = {bpe_json, llama_json, bert_json, unigram_json};
    static const char *const parts[] = {
        "\xff", " ", "a", "ab", "\xcc\x81", "hello <mask> ", "\x01", "\xe4\xb8\xad", "wor. "};
    enum { SIZE = 200000 };
    char *text = malloc(SIZE);
    int64_t *ids = malloc(4 * SIZE * sizeof *ids), *offsets = malloc(8 * SIZE * sizeof *offsets);
    ck_assert(text && ids && offsets);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        ct_tokenizer *tokenizer = tokenizer_of(files[f]);
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            const size_t length = strlen(parts[p]);
            for (size_t i = 0; i < SIZE; i++) text[i] = parts[p][i % length];
            const int64_t n =
                ct_encode(tokenizer, text, SIZE, (ct_encode_opts){0}, ids, offsets, 4 * SIZE);
            ck_assert(n >= 0 && n <= 4 * SIZE);
            ck_assert_int_eq(ct_encode(tokenizer, text, SIZE, (ct_encode_opts){0}, NULL, NULL, 0),
                             n);
            for (int64_t i = 0; i < n; i++)
                ck_assert(0 <= offsets[2 * i] && offsets[2 * i] <= offsets[2 * i + 1] &&
                          offsets[2 * i + 1] <= SIZE);
        }
        ct_tokenizer_close(tokenizer);
    }
    free(text);
    free(ids);
    free(offsets);
}
END_TEST

int main(void) {
    return run_tests("text_tokenizer", start, stop,
                     TESTS(TEST(byte_level), TEST(sentencepiece), TEST(wordpiece), TEST(unigram),
                           TEST(options), TEST(tokens), TEST(ids_of_a_template),
                           TEST(no_unknown_token), TEST(arguments), TEST(closed_with_the_context),
                           TEST(streams_of_bytes), TEST(decoders), TEST(kinds_that_are_not_there),
                           TEST(files_cut_at_each_byte), LOOP(files_with_a_wrong_byte, 2),
                           TEST(folders_and_roles), TEST(new_tokens), TEST(long_texts),
                           TEST(large_texts)));
}
