/* The documents of programs/finetune: texts, conversations and their targets, tools, dates,
 * completions, kinds of files, and what is held out. */
#include "byte_documents.h"
#include "programs/chat_form.h"
#include "src/os/os.h"

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

int main(void) {
    return run_tests("documents", setup, teardown,
                     TESTS(TEST(plain_text), TEST(conversations), TEST(rewritten_turns),
                           TEST(tools), TEST(dates), TEST(what_is_not_used), TEST(completions),
                           TEST(kinds_of_files), TEST(hold_out)));
}
