/* The parts of programs/finetune: documents and their targets, rows, batches, the order of rows,
 * and the folder that is written. tests/examples/check runs the program. */
#include "programs/chat_form.h"
#include "programs/documents.h"
#include "programs/finetune_memory.h"
#include "programs/finetune_out.h"
#include "src/os/os.h"
#include "tests/support/files.h"
#include "tests/support/remove_tree.h"

#include <math.h>

static void teardown_folders(void) {
    remove_tree(in_folder("out"));
    teardown();
}

static const char *put_text(const char *name, const char *text) {
    const char *path = in_folder(name);
    write_all(path, text, strlen(text));
    return path;
}

/* A tokenizer of bytes: <e> is 0, and a byte's id is its place in GPT-2's alphabet + 1. */
static ct_tokenizer *bytes_tokenizer(void) {
    const char *paths[] = {put_text("corpus", "a")}, *special[] = {"<e>"};
    const ct_tokenizer_opts opts = {.vocab_size = 257, .special = special, .n_special = 1};
    ct_tokenizer *tokenizer = ct_tokenizer_train(context, paths, 1, opts);
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    return tokenizer;
}

/* The ids of a document as text, with ~ for <e>. */
static const char *text_of(const ct_tokenizer *tokenizer, const int32_t *ids, int64_t n) {
    static char text[1000];
    size_t size = 0;
    for (int64_t t = 0; t < n; t++) {
        const int64_t id = ids[t];
        if (id == 0) text[size++] = '~';
        else size += (size_t)ct_decode(tokenizer, &id, 1, true, text + size, sizeof text - size);
    }
    text[size] = 0;
    return text;
}

/* The targets of a document as text, with _ for none. */
static const char *targets_of(const ct_tokenizer *tokenizer, const documents *d, int64_t i) {
    static char text[1000];
    size_t size = 0;
    for (int64_t t = d->begin[i]; t < d->begin[i + 1]; t++) {
        const int64_t id = d->targets[t];
        if (id <= 0) text[size++] = id ? '_' : '~';
        else size += (size_t)ct_decode(tokenizer, &id, 1, true, text + size, sizeof text - size);
    }
    text[size] = 0;
    return text;
}

static const char *document(const ct_tokenizer *tokenizer, const documents *d, int64_t i) {
    return text_of(tokenizer, d->ids + d->begin[i], d->begin[i + 1] - d->begin[i]);
}

/* ---- documents ---- */

START_TEST(plain_text) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    documents_opts opts = {.tokenizer = tokenizer, .end_id = 0};
    documents d = documents_read(context, put_text("a.txt", "ab<e>--cd--"), &opts);
    ck_assert_int_eq(d.count, 1);
    ck_assert_str_eq(document(tokenizer, &d, 0), "ab~--cd--~"); /* <e> is the token */
    documents_free(&d);
    opts.plain = true;
    d = documents_read(context, in_folder("a.txt"), &opts);
    ck_assert_str_eq(document(tokenizer, &d, 0), "ab<e>--cd--~"); /* <e> is ordinary text */
    ck_assert_str_eq(targets_of(tokenizer, &d, 0), "b<e>--cd--~_");
    documents_free(&d);
    opts.separator = "--";
    d = documents_read(context, in_folder("a.txt"), &opts);
    ck_assert_int_eq(d.count, 2);
    ck_assert_str_eq(document(tokenizer, &d, 0), "ab<e>~");
    ck_assert_str_eq(document(tokenizer, &d, 1), "cd~");
    ck_assert_str_eq(targets_of(tokenizer, &d, 1), "d~_");
    documents_free(&d);
    opts.end_id = -1;
    d = documents_read(context, in_folder("a.txt"), &opts);
    ck_assert_str_eq(targets_of(tokenizer, &d, 1), "d_");
    documents_free(&d);
}
END_TEST

/* The loss counts the assistant's words and the end of its turns, and nothing that a user said. */
START_TEST(conversations) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    ck_assert_int_eq(ct_token_add(tokenizer, "<|im_end|>", NULL), 257);
    const documents_opts opts = {
        .tokenizer = tokenizer, .end_id = 0, .chat = {.chat_template = "chatml"}};
    const char *path =
        put_text("a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, "
                            "{\"role\": \"assistant\", \"content\": \"yo\"}, {\"role\": \"user\", "
                            "\"content\": \"<|im_end|>\"}]}\n{\"text\": \"abc\"}\n");
    documents d = documents_read(context, path, &opts);
    ck_assert_int_eq(d.count, 2);
    ck_assert_int_eq(d.chats.conversations, 1);
    ck_assert(d.is_whole[0] && !d.is_whole[1]);
    ck_assert_str_eq(document(tokenizer, &d, 0),
                     "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n"
                     "<|im_start|>user\n<|im_end|><|im_end|>\n");
    char learned[200] = "";
    int n = 0;
    for (int64_t t = 0; t < d.begin[1]; t++)
        if (d.targets[t] != -100) {
            ck_assert_int_eq(d.targets[t], d.ids[t + 1]);
            const int64_t id = d.targets[t];
            ct_decode(tokenizer, &id, 1, true, learned + strlen(learned), 20);
            n++;
        }
    ck_assert_str_eq(learned, "yo<|im_end|>");
    ck_assert_int_eq(n, 3);
    ck_assert_str_eq(targets_of(tokenizer, &d, 1), "bc~_");
    documents_free(&d);
}
END_TEST

/* What the loss counts of document i, as text. */
static const char *learned_of(const ct_tokenizer *tokenizer, const documents *d, int64_t i) {
    static char text[400];
    *text = 0;
    for (int64_t t = d->begin[i]; t < d->begin[i + 1]; t++) {
        const int64_t id = d->targets[t];
        if (id != -100) ct_decode(tokenizer, &id, 1, true, text + strlen(text), 40);
    }
    return text;
}

/* A template that drops all but the last answer's part before a bar, and all of a message that
 * begins with a dash unless it is the last. It reads names with tools only. */
static const char cutting[] = "{% for m in messages %}{% set c = m.content %}"
                              "{% if not loop.last %}{% set c = c.split('|') | last %}{% endif %}"
                              "{% if loop.last or not c.startswith('-') %}{{ m.role[:1] }}{{ c }}"
                              "{% if c != 'open' %}<|im_end|>{% endif %}{% endif %}{% endfor %}"
                              "{% if add_generation_prompt %}a{% endif %}";

#define USER(content)      "{\"role\": \"user\", \"content\": \"" content "\"}"
#define ASSISTANT(content) "{\"role\": \"assistant\", \"content\": \"" content "\"}"
#define CHAT(messages)     "{\"messages\": [" messages "]}\n"

/* Turns that later messages rewrite get a row each, of which only the last answer counts; a weight
 * of 0 stays one. Turns that are not in the text, and those without an end, are counted. */
START_TEST(rewritten_turns) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    ct_token_add(tokenizer, "<|im_end|>", NULL);
    const documents_opts opts = {
        .tokenizer = tokenizer, .end_id = 0, .chat = {.chat_template = cutting}};
    documents d = documents_read(
        context,
        put_text(
            "a.jsonl",
            CHAT(USER("1") ", " ASSISTANT("x|p") ", " USER(
                "2") ", {\"role\": \"assistant\", "
                     "\"weight\": 1, \"content\": \"y|q\", \"tool\": {\"a\": [\"}\", 1]}}, " USER(
                         "3") ", " ASSISTANT("r"))
                CHAT(USER("1") ", " ASSISTANT("p") ", " USER("2") ", " ASSISTANT("y|q") ", " USER(
                    "3") ", " ASSISTANT("r"))
                    CHAT(USER("1") ", {\"weight\": 1, \"role\": \"assistant\", \"content\": "
                                   "\"p\"}, " USER("2") ", " ASSISTANT("y|q") ", " USER("3"))
                        CHAT(USER("1") ", " ASSISTANT("p") ", " USER("2") ", " ASSISTANT("q"))
                            CHAT(USER(
                                "1") ", {\"role\": \"assistant\", \"content\": \"x|p\", \"train\": "
                                     "false}, " USER("2") ", " ASSISTANT("y|q"))
                                CHAT(USER("1") ", " ASSISTANT("open")) CHAT(USER(
                                    "1") ", " ASSISTANT("-") ", " USER("2") ", " ASSISTANT("q"))),
        &opts);
    static const struct {
        const char *text, *learned;
    } want[] = {
        {"u1<|im_end|>ax|p<|im_end|>", "x|p<|im_end|>"},
        {"u1<|im_end|>ap<|im_end|>u2<|im_end|>ay|q<|im_end|>", "y|q<|im_end|>"},
        {"u1<|im_end|>ap<|im_end|>u2<|im_end|>aq<|im_end|>u3<|im_end|>ar<|im_end|>", "r<|im_end|>"},
        {"u1<|im_end|>ap<|im_end|>", "p<|im_end|>"},
        {"u1<|im_end|>ap<|im_end|>u2<|im_end|>ay|q<|im_end|>", "y|q<|im_end|>"},
        {"u1<|im_end|>ap<|im_end|>u2<|im_end|>aq<|im_end|>u3<|im_end|>ar<|im_end|>", "r<|im_end|>"},
        {"u1<|im_end|>ap<|im_end|>", "p<|im_end|>"},
        {"u1<|im_end|>ap<|im_end|>u2<|im_end|>ay|q<|im_end|>", "y|q<|im_end|>"},
        {"u1<|im_end|>ap<|im_end|>u2<|im_end|>aq<|im_end|>", "p<|im_end|>q<|im_end|>"},
        {"u1<|im_end|>ap<|im_end|>u2<|im_end|>ay|q<|im_end|>", "y|q<|im_end|>"},
        {"u1<|im_end|>aopen", "open"},
        {"u1<|im_end|>u2<|im_end|>aq<|im_end|>", "q<|im_end|>"},
    };
    ck_assert_int_eq(d.count, 12);
    for (int i = 0; i < 12; i++) {
        ck_assert_str_eq(document(tokenizer, &d, i), want[i].text);
        ck_assert_str_eq(learned_of(tokenizer, &d, i), want[i].learned);
    }
    const chat_tally *t = &d.chats;
    ck_assert(t->conversations == 7 && t->rows == 12 && t->split == 3 && t->rewritten == 4);
    ck_assert_int_eq(t->absent, 1);
    ck_assert_int_eq(t->open, 1);
    ck_assert_int_eq(t->learned, 13);
    documents_free(&d);
}
END_TEST

/* A conversation's own tools stand before those of the run. */
START_TEST(tools) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    const documents_opts opts = {
        .tokenizer = tokenizer,
        .end_id = 0,
        .chat = {.chat_template =
                     "{{ tools[0].n }}{% for m in messages %}{{ m.content }}{% endfor %}",
                 .tools = "[{\"n\": \"run\"}]"}};
    documents d = documents_read(
        context,
        put_text("a.jsonl",
                 CHAT(ASSISTANT("a")) "{\"messages\": [" ASSISTANT("b") "], \"tools\": "
                                                                        "[{\"n\": \"own\"}]}\n"),
        &opts);
    ck_assert_str_eq(document(tokenizer, &d, 0), "runa");
    ck_assert_str_eq(document(tokenizer, &d, 1), "ownb");
    ck_assert_int_eq(d.chats.without_tools, 0);
    documents_free(&d);
}
END_TEST

/* A date is one of this place: noon, if it has no time of day. */
START_TEST(dates) {
    for (int year = 1971; year < 2100; year += 3)
        for (int month = 1; month <= 12; month++) {
            const int day = 1 + (year + 5 * month) % 28;
            char text[40];
            snprintf(text, sizeof text, "%d-%02d-%02d%s", year, month, day,
                     month % 2 ? "" : "T23:59");
            cti_os_date date;
            ck_assert(cti_os_local_date(chat_date(&(chat_flags){.date = text}, 5), &date));
            ck_assert_msg(date.year == year && date.month == month && date.day == day &&
                              date.hour == (month % 2 ? 12 : 23) &&
                              date.minute == (month % 2 ? 0 : 59) && date.second == 0,
                          "%s", text);
        }
    ck_assert_int_eq(chat_date(&(chat_flags){0}, 5), 5);
}
END_TEST

/* Members that the row's template does not read, and special tokens that assistants spell. */
START_TEST(what_is_not_used) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    ct_token_add(tokenizer, "<|im_end|>", NULL);
    ck_assert(ct_tokenizer_set_template(
        tokenizer, "{% for m in messages %}{{ m.role }}{{ m.content }}{{ m.name }}{% endfor %}"));
    documents_opts opts = {.tokenizer = tokenizer, .end_id = 0};
    const char *path = put_text(
        "a.jsonl", CHAT(USER("<|im_end|>") ", {\"role\": \"assistant\", \"content\": "
                                           "\"<|im_end|><e\", \"name\": \"n\", "
                                           "\"x\": {\"y\": \"z\"}, \"no\": null, \"weight\": "
                                           "0}") "{\"messages\": [{\"x\": 1, \"role\": "
                                                 "\"assistant\", \"content\": \"a<e>\", "
                                                 "\"train\": true, \"v\": "
                                                 "\"\\\"}\"}], \"tools\": [{}]}\n");
    documents d = documents_read(context, path, &opts);
    const chat_tally *t = &d.chats;
    ck_assert_int_eq(t->n_members, 3);
    static const char *const names[] = {"name", "x", "v"};
    static const int unread[] = {0, 2, 1};
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(t->member[i].name, names[i]);
        ck_assert_int_eq(t->member[i].unread, unread[i]);
    }
    ck_assert_int_eq(t->without_tools, 1);
    ck_assert_int_eq(t->spelled, 2);
    ck_assert_str_eq(t->token, "<|im_end|>");
    ck_assert_int_eq(t->line, 1);
    documents_free(&d);
    opts.chat.parse_special = true;
    d = documents_read(context, path, &opts);
    ck_assert_int_eq(d.chats.spelled, 0);
    documents_free(&d);
}
END_TEST

/* Lines with a text, and with a prompt and a completion. A special token in the text is one token,
 * unless .plain is set. The targets of a completion are the tokens behind the prompt and the end of
 * the text. */
START_TEST(completions) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    documents_opts opts = {.tokenizer = tokenizer, .end_id = 0};
    const char *path = put_text("a.jsonl", "{\"prompt\": \"ab\", \"completion\": \"<e>c\"}\n"
                                           "{\"prompt\": \"\", \"completion\": \"de\"}\n"
                                           "{\"prompt\": \"fg\", \"completion\": \"\"}\n"
                                           "{\"text\": \"x<e>\"}\n");
    static const char *const shown[2][4] = {{"ab~c~", "de~", "fg~", "x~"},
                                            {"ab<e>c~", "de~", "fg~", "x<e>~"}},
                             *const targets[2][4] = {{"_~c~_", "e~_", "_~_", "~_"},
                                                     {"_<e>c~_", "e~_", "_~_", "<e>~_"}};
    for (int plain = 0; plain < 2; plain++) {
        opts.plain = plain;
        documents d = documents_read(context, path, &opts);
        ck_assert(d.count == 4 && d.chats.conversations == 0 && d.is_whole[0] && !d.is_whole[3]);
        for (int i = 0; i < 4; i++) {
            ck_assert_str_eq(document(tokenizer, &d, i), shown[plain][i]);
            ck_assert_str_eq(targets_of(tokenizer, &d, i), targets[plain][i]);
        }
        documents_free(&d);
    }
    static char text[3000]; /* longer than the first room for ids */
    memset(text, 'a', sizeof text);
    memcpy(text, "{\"prompt\": \"", 12);
    memcpy(text + 2000, "\", \"completion\": \"", 18);
    memcpy(text + sizeof text - 3, "\"}", 3);
    documents d = documents_read(context, put_text("long.jsonl", text), &opts);
    const int64_t prompt = 2000 - 12, n = prompt + (int64_t)sizeof text - 3 - 2018 + 1;
    ck_assert_int_eq(d.n, n);
    for (int64_t t = 0; t < n; t++)
        ck_assert((d.targets[t] == -100) == (t < prompt - 1 || t == n - 1));
    documents_free(&d);
}
END_TEST

/* The content of a file says what it is, and its name only if it is one of JSON. */
START_TEST(kinds_of_files) {
    static const struct {
        const char *name, *text;
        int format;
        int64_t count; /* documents of JSON; 1: a text */
    } cases[] = {
        {"a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}", DOCUMENTS_ANY, 2},
        {"a.NDJSON", "{\"text\": \"a\"}\n{\"text\": \"b\"}", DOCUMENTS_ANY, 2},
        {"a.txt", "\xef\xbb\xbf \n{ \"text\": \"a\"}\n{\"text\": \"b\"}", DOCUMENTS_ANY, 2},
        {"a", "[\n {\"text\": \"a\"}, {\"text\": \"b\"}, {\"text\": \"c\"}]", DOCUMENTS_ANY, 3},
        {"a", "{\"text\": \"a\"}\n{\"text\": \"b\"}", DOCUMENTS_TEXT, 1},
        {"a", "[a]\nb", DOCUMENTS_ANY, 1},
        {"a", "{% if b %}\n{}", DOCUMENTS_ANY, 1},
        {"a", "{", DOCUMENTS_ANY, 1},
    };
    ct_tokenizer *tokenizer = bytes_tokenizer();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const documents_opts opts = {
            .tokenizer = tokenizer, .end_id = -1, .format = cases[i].format};
        documents d = documents_read(context, put_text(cases[i].name, cases[i].text), &opts);
        ck_assert_msg(d.count == cases[i].count, "case %zu: %d", i, (int)d.count);
        ck_assert_int_eq(d.n, cases[i].count > 1 ? cases[i].count : (int64_t)strlen(cases[i].text));
        documents_free(&d);
    }
}
END_TEST

static documents read_lengths(const ct_tokenizer *tokenizer, const char *text) {
    const char *separator =
        strchr(text, '\n') ? "\n" : NULL; /* one that is not there is an error */
    const documents_opts opts = {.tokenizer = tokenizer, .end_id = -1, .separator = separator};
    return documents_read(context, put_text("lengths", text), &opts);
}

START_TEST(hold_out) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    documents d = read_lengths(tokenizer, "aa\nbb\ncc\ndd\nee\nff\ngg\nhh\nii\njj");
    documents held = documents_hold_out(&d, 0.3);
    ck_assert_int_eq(held.count, 3);
    ck_assert_int_eq(d.count, 7);
    ck_assert_str_eq(text_of(tokenizer, held.ids, held.n), "ddggjj");
    ck_assert_str_eq(text_of(tokenizer, d.ids, d.n), "aabbcceeffhhii");
    documents_free(&d);
    documents_free(&held);
    d = read_lengths(tokenizer, "abcdefghij");
    held = documents_hold_out(&d, 0.2);
    ck_assert_str_eq(document(tokenizer, &d, 0), "abcdefgh");
    ck_assert_str_eq(targets_of(tokenizer, &d, 0), "bcdefgh_"); /* i is not learned */
    ck_assert_str_eq(targets_of(tokenizer, &held, 0), "j_");
    documents_free(&d);
    documents_free(&held);
}
END_TEST

/* ---- rows ---- */

static int64_t length_of(const rows *r, int64_t row) {
    int64_t n = 0;
    for (int64_t p = r->first[row]; p < r->first[row + 1]; p++) n += r->pieces[p].length;
    return n;
}

START_TEST(packing) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    /* lengths 7, 3, 5, 5, 2, 1 and 23; the document of one token has no target */
    documents d =
        read_lengths(tokenizer, "aaaaaaa\nbbb\nccccc\nddddd\nee\nf\nggggggggggggggggggggggg");
    rows r = rows_make(&d, 10, true);
    ck_assert_int_eq(r.dropped, 1);
    ck_assert_int_eq(r.cut, 0);
    ck_assert_int_eq(r.tokens, 45);
    ck_assert_int_eq(r.n, 5); /* 10, 10, 7 + 3, 5 + 5, 3 + 2 */
    int full = 0;
    int64_t learned = 0;
    for (int64_t i = 0; i < r.n; i++) {
        ck_assert_int_le(length_of(&r, i), 10);
        full += length_of(&r, i) == 10;
        learned += r.learned[i];
    }
    ck_assert_int_eq(full, 4);
    ck_assert_int_eq(learned, 45 - 6); /* the last token of each document has no target */
    ck_assert_int_eq(r.all_learned, learned);
    rows_free(&r);
    r = rows_make(&d, 10, false);
    ck_assert_int_eq(r.n, 8);
    for (int64_t i = 0; i < r.n; i++) ck_assert_int_eq(r.first[i + 1] - r.first[i], 1);
    rows_free(&r);
    documents_free(&d);
}
END_TEST

/* Every token of many random documents is in one row, once. */
START_TEST(all_tokens) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    static char text[60000];
    size_t size = 0;
    for (int i = 0; i < 500; i++) {
        const int64_t n = 2 + ct_random_below(context, 80);
        for (int64_t k = 0; k < n; k++) text[size++] = (char)('a' + ct_random_below(context, 26));
        text[size++] = '\n';
    }
    text[size] = 0;
    documents d = read_lengths(tokenizer, text);
    rows r = rows_make(&d, 37, true);
    char *seen = calloc((size_t)d.n, 1);
    int64_t tokens = 0;
    for (int64_t p = 0; p < r.first[r.n]; p++)
        for (int64_t t = 0; t < r.pieces[p].length; t++, tokens++)
            ck_assert_int_eq(seen[r.pieces[p].begin + t]++, 0);
    for (int64_t i = 0; i < r.n; i++) ck_assert(length_of(&r, i) <= 37 && r.learned[i] > 0);
    for (int64_t t = 0; t < d.n; t++) ck_assert(seen[t] || d.targets[t] == -100);
    ck_assert_int_eq(tokens, r.tokens);
    ck_assert((double)tokens > 0.95 * 37 * (double)r.n); /* rows are nearly full */
    free(seen);
    rows_free(&r);
    documents_free(&d);
}
END_TEST

START_TEST(long_conversations) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    const documents_opts opts = {
        .tokenizer = tokenizer, .end_id = 0, .chat = {.chat_template = "chatml"}};
    const char *path = put_text(
        "a.jsonl", "{\"messages\": [{\"role\": \"assistant\", \"content\": \"123456789\"}]}\n"
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"1\"}]}\n"
                   "{\"text\": \"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\"}\n");
    documents d = documents_read(context, path, &opts);
    rows r = rows_make(&d, 30, false); /* the words of the assistant begin at token 22 */
    ck_assert_int_eq(r.cut, 1);
    ck_assert_int_eq(r.dropped, 1);
    ck_assert_int_eq(r.n, 3);
    ck_assert_int_eq(r.learned[0], 9);
    ck_assert_int_eq(r.learned[1], 30); /* the text is cut into two rows and loses nothing */
    ck_assert_int_eq(r.learned[2], 22);
    rows_free(&r);
    documents_free(&d);
}
END_TEST

/* ---- batches ---- */

static const char *const configs[] = {
    "{\"model_type\": \"llama\", \"vocab_size\": 257, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"max_position_embeddings\": 64}",
    "{\"model_type\": \"gpt2\", \"vocab_size\": 257, \"n_embd\": 16, \"n_layer\": 2, "
    "\"n_head\": 4, \"n_positions\": 64, \"attn_pdrop\": 0, \"resid_pdrop\": 0, \"embd_pdrop\": "
    "0}"};

static ct_module *new_lm(int i, ct_dtype dtype) {
    ct_module *lm = ct_lm_new(context, configs[i], (ct_lm_opts){.dtype = dtype});
    ck_assert_msg(lm != NULL, "%s", ct_error_message(context));
    return lm;
}

/* The sum of the losses of rows, each in a batch of its own if apart. */
static double loss_of(ct_module *lm, const rows *r, bool apart) {
    int64_t which[64];
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++) which[i] = i;
    for (int64_t i = 0; i < r->n; i += apart ? 1 : r->n) {
        const row_batch b = rows_batch(context, r, which + i, apart ? 1 : r->n);
        const ct_cross_entropy_opts opts = {.reduction = CT_SUM};
        sum += ct_item(ct_lm_loss(lm, b.ids, b.targets, b.call, opts));
    }
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
    return sum;
}

/* Documents that share a row have the loss that each has in a row of its own. */
START_TEST(packed_rows_are_separate) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    documents d =
        read_lengths(tokenizer, "hello\nhallo welt\nabc\nxy\nxyxyxyxyxyxy\nq r s\nthe fox\n");
    rows packed = rows_make(&d, 20, true), separate = rows_make(&d, 20, false);
    ck_assert_int_lt(packed.n, separate.n);
    ck_assert_int_eq(packed.all_learned, separate.all_learned);
    ct_module *lm = new_lm(_i, CT_F64);
    ct_param param = {0};
    while (ct_module_next(lm, &param)) ct_init_normal(param.tensor, 0.2, 0.5);
    const double a = loss_of(lm, &packed, false), b = loss_of(lm, &separate, true),
                 c = loss_of(lm, &separate, false), e = loss_of(lm, &packed, true);
    ck_assert_msg(fabs(a - b) < 1e-9 * b && fabs(c - b) < 1e-9 * b && fabs(e - b) < 1e-9 * b,
                  "%.12g %.12g %.12g %.12g", a, b, c, e);
    rows_free(&packed);
    rows_free(&separate);
    documents_free(&d);
}
END_TEST

START_TEST(orders) {
    const rows r = {.n = 50};
    row_order order = {.rows = &r, .seed = 3}, again = {.rows = &r, .seed = 3},
              other = {.rows = &r, .seed = 4};
    int same_epoch = 0, same_seed = 0;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int seen[50] = {0};
        for (int64_t i = 0; i < 50; i++) seen[row_at(&order, 50 * epoch + i)]++;
        for (int i = 0; i < 50; i++) ck_assert_int_eq(seen[i], 1);
    }
    for (int64_t i = 0; i < 50; i++) {
        const int64_t row = row_at(&order, i);
        same_epoch += row == row_at(&again, 50 + i);
        same_seed += row == row_at(&other, i);
    }
    for (int64_t i = 149; i >= 0; i--) ck_assert_int_eq(row_at(&order, i), row_at(&again, i));
    ck_assert(same_epoch < 10 && same_seed < 10);
    free(order.order);
    free(again.order);
    free(other.order);
}
END_TEST

/* ---- the result ---- */

static void train_steps(ct_module *lm, const rows *r, int steps, double *first, double *last) {
    ct_optim *optim = ct_adamw_new(lm, (ct_adamw_opts){.lr = 2e-2});
    ck_assert_msg(optim != NULL, "%s", ct_error_message(context));
    int64_t which[64];
    for (int64_t i = 0; i < r->n; i++) which[i] = i;
    for (int step = 0; step < steps; step++) {
        const row_batch b = rows_batch(context, r, which, r->n);
        ct_tensor *loss = ct_lm_loss(lm, b.ids, b.targets, b.call, (ct_cross_entropy_opts){0});
        ct_backward(loss);
        ct_optim_step(optim);
        ct_optim_zero_grad(optim);
        *last = ct_item(loss);
        if (!step) *first = *last;
    }
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

/* Adapters beside f32 and bf16 learn; the folder has them, and loaded they give the same logits. */
START_TEST(adapters_out) {
    ct_tokenizer *tokenizer = bytes_tokenizer();
    documents d = read_lengths(tokenizer, "aaaa\naaaaaaaa\naaa\n");
    rows r = rows_make(&d, 16, true);
    const ct_dtype dtype = _i ? CT_BF16 : CT_F32;
    ct_module *lm = new_lm(0, dtype);
    const char *base = in_folder("base.safetensors");
    ck_assert(ct_save(lm, base, (ct_save_opts){0}));
    ck_assert_int_gt(ct_lora_add(lm, "*layers.*", (ct_lora_opts){.rank = 4, .alpha = 32}), 0);
    double first = 0, last = 0;
    train_steps(lm, &r, 30, &first, &last);
    ck_assert_msg(last < first - 0.2, "%g and then %g", first, last);
    const char *out = in_folder("out");
    ck_assert(!out_check(out, false));
    out_save(context, lm, NULL, out, true);
    ck_assert(!ct_error(context));
    ct_module *again = new_lm(0, dtype);
    ck_assert(ct_load(again, base, (ct_load_opts){0}));
    ck_assert_msg(ct_lora_load(again, out), "%s", ct_error_message(context));
    ct_module_train(again, false);
    ct_module_train(lm, false);
    const double a = loss_of(lm, &r, false), b = loss_of(again, &r, false);
    ck_assert_msg(a == b, "%.9g and %.9g", a, b);
    rows_free(&r);
    documents_free(&d);
}
END_TEST

START_TEST(model_out) {
    ct_module *lm = new_lm(0, CT_F32);
    const char *out = in_folder("out");
    out_save(context, lm, NULL, out, false);
    ct_module *again = ct_lm_open(context, out, (ct_lm_opts){0});
    ck_assert_msg(again != NULL, "%s", ct_error_message(context));
    ck_assert(same(lm, again));
    char path[300];
    snprintf(path, sizeof path, "%s.unfinished", out);
    ck_assert_ptr_null(opendir(path));
}
END_TEST

/* The estimate grows with the tokens and the parameters that are trained. */
START_TEST(memory) {
    ct_module *lm = new_lm(0, CT_F32);
    const memory_opts opts = {
        .tokens = 128, .length = 64, .learned = 1, .micro_batches = 1, .shares = 1, .ranks = 1};
    memory_opts larger = opts;
    larger.tokens = 1280;
    const memory_estimate a = memory_estimate_of(context, lm, opts),
                          b = memory_estimate_of(context, lm, larger);
    const double numbers = 4 * (double)ct_module_count(lm);
    ck_assert(a.gradients == numbers && a.optimiser == 2 * numbers && a.weights >= numbers);
    ck_assert(b.activations > 6 * a.activations && b.activations < 12 * a.activations);
    ck_assert(memory_sum(&b) > memory_sum(&a));
    for (ct_param p = {0}; ct_module_next(lm, &p);) ck_assert_ptr_null(ct_grad(p.tensor));
}
END_TEST

/* The estimate of a model with many ids, whose loss computes large blocks of logits, is what a
 * micro-batch of this size takes. */
START_TEST(memory_of_many_ids) {
    enum { ROWS = 12, T = 128 };
    ct_module *lm = ct_lm_new(context,
                              "{\"model_type\": \"llama\", \"vocab_size\": 20000, "
                              "\"hidden_size\": 32, \"intermediate_size\": 64, "
                              "\"num_hidden_layers\": 3, \"num_attention_heads\": 2, "
                              "\"max_position_embeddings\": 256}",
                              (ct_lm_opts){0});
    const memory_opts opts = {
        .tokens = ROWS * T, .length = T, .learned = 1, .micro_batches = 2, .shares = 1, .ranks = 1};
    const memory_estimate m = memory_estimate_of(context, lm, opts);
    ct_tensor *ids = ct_zeros(context, CT_I64, CT_SHAPE(ROWS, T)),
              *targets = ct_full(context, CT_I64, CT_SHAPE(ROWS, T), 1);
    for (int i = 0; i < 2; i++) { /* the second has the gradients of the first */
        ct_scope scope = ct_scope_open(context);
        const double before = (double)ct_memory(context).live;
        ct_memory_reset_peak(context);
        ct_backward(ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, (ct_cross_entropy_opts){0}));
        ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
        const double taken = (double)ct_memory(context).peak - before;
        ct_scope_close(scope);
        ck_assert_msg(i == 0 || fabs(m.activations / taken - 1) < 0.05, "%.0f for %.0f",
                      m.activations, taken);
    }
}
END_TEST

int main(void) {
    return run_tests("finetune", setup, teardown_folders,
                     TESTS(TEST(plain_text), TEST(conversations), TEST(rewritten_turns),
                           TEST(tools), TEST(dates), TEST(what_is_not_used), TEST(completions),
                           TEST(kinds_of_files), TEST(hold_out), TEST(packing), TEST(all_tokens),
                           TEST(long_conversations), LOOP(packed_rows_are_separate, 2),
                           TEST(orders), LOOP(adapters_out, 2), TEST(model_out), TEST(memory),
                           TEST(memory_of_many_ids)));
}
