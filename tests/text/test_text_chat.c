/* Chats in C: the text of each kind, ids with targets, templates of folders, and refusals.
 * tests/torch/test_chats_live.py compares with transformers. */
#include "tests/support/remove_tree.h"
#include "text_files.h"
#include <sys/stat.h>

static ct_tokenizer *tokenizer;

static void begin_chats(void) {
    setup();
    tokenizer = open_small(context, "");
    ck_assert_int_ge(ct_token_add(tokenizer, "<s>", "bos_token"), 0);
    ck_assert_int_ge(ct_token_add(tokenizer, "</s>", "eos_token"), 0);
    ck_assert_int_ge(ct_token_add(tokenizer, "<|im_start|>", NULL), 0);
    ck_assert_int_ge(ct_token_add(tokenizer, "<|im_end|>", NULL), 0);
}

static void end_chats(void) {
    ct_tokenizer_close(tokenizer);
    remove_tree(in_folder("t"));
    teardown();
}

static const char *chat_text(const ct_tokenizer *of, const ct_message *messages, int64_t n,
                             ct_chat_opts opts) {
    static char text[2000];
    const int64_t size = ct_chat_text(of, messages, n, opts, NULL, 0);
    ck_assert_msg(size >= 0, "%s", ct_error_message(context));
    ck_assert_int_eq(ct_chat_text(of, messages, n, opts, text, sizeof text), size);
    ck_assert_int_eq(strlen(text), size);
    char part[6];
    ck_assert_int_eq(ct_chat_text(of, messages, n, opts, part, sizeof part), size);
    ck_assert(!strncmp(part, text, 5) && part[5] == 0);
    return text;
}

static const ct_message talk[] = {{.role = "system", .content = " be\n"},
                                  {.role = "user", .content = "a "},
                                  {.role = "assistant",
                                   .content = "\x1f"
                                              "b\n"},
                                  {.role = "user", .content = "c"}};

START_TEST(texts_of_kinds) {
    static const struct {
        ct_chat_opts opts;
        int first, n; /* of `talk` */
        const char *text;
    } cases[] = {
        {{.kind = CT_CHAT_CHATML},
         0,
         3,
         "<|im_start|>system\n be\n<|im_end|>\n<|im_start|>user\na <|im_end|>\n"
         "<|im_start|>assistant\n\x1f"
         "b\n<|im_end|>\n"},
        {{.kind = CT_CHAT_CHATML, .open = true},
         1,
         1,
         "<|im_start|>user\na <|im_end|>\n<|im_start|>assistant\n"},
        {{.kind = CT_CHAT_LLAMA3, .open = true},
         0,
         3,
         "<s><|start_header_id|>system<|end_header_id|>\n\nbe<|eot_id|><|start_header_id|>user"
         "<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nb"
         "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
        {{.kind = CT_CHAT_GEMMA, .open = true},
         1,
         3,
         "<s><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n"
         "<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>model\n"},
        {{.kind = CT_CHAT_ZEPHYR, .open = true},
         0,
         3,
         "<|system|>\n be\n</s>\n<|user|>\na </s>\n<|assistant|>\n\x1f"
         "b\n</s>\n<|assistant|>\n"},
        {{.kind = CT_CHAT_PHI3},
         1,
         2,
         "<|user|>\na <|end|>\n<|assistant|>\n\x1f"
         "b\n<|end|>\n</s>"},
        {{.kind = CT_CHAT_PHI3, .open = true}, 1, 1, "<|user|>\na <|end|>\n<|assistant|>\n"},
        {{.kind = CT_CHAT_LLAMA31},
         1,
         1,
         "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
         "Today Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na"
         "<|eot_id|>"},
        {{.kind = CT_CHAT_LLAMA31, .open = true, .date = "1 Mai 2025"},
         0,
         2,
         "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
         "Today Date: 1 Mai 2025\n\nbe<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na"
         "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
        {{.kind = CT_CHAT_GEMMA3, .open = true},
         0,
         4,
         "<s><start_of_turn>user\n be\n\n\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n"
         "<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>model\n"},
        {{.kind = CT_CHAT_QWEN3},
         1,
         2,
         "<|im_start|>user\na <|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n\x1f"
         "b\n<|im_end|>\n"},
        {{.kind = CT_CHAT_QWEN3},
         1,
         3,
         "<|im_start|>user\na <|im_end|>\n<|im_start|>assistant\n\x1f"
         "b\n<|im_end|>\n"
         "<|im_start|>user\nc<|im_end|>\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(chat_text(tokenizer, talk + cases[i].first, cases[i].n, cases[i].opts),
                         cases[i].text);
    static const ct_message wrong[] = {{.role = "user",
                                        .content = "a\xff"
                                                   "b"}};
    ck_assert_str_eq(chat_text(tokenizer, wrong, 1, (ct_chat_opts){.kind = CT_CHAT_CHATML}),
                     "<|im_start|>user\na\xef\xbf\xbd"
                     "b<|im_end|>\n");
}
END_TEST

/* Reasoning is written behind the last question only; a result of a tool is no question. */
START_TEST(reasoning) {
    static const ct_message messages[] = {
        {.role = "user", .content = "q"},
        {.role = "assistant", .content = "<think>\nold\n</think>\n\nx"},
        {.role = "user", .content = "<tool_response>\n3\n</tool_response>"},
        {.role = "assistant", .content = "\n<think>\nr\n\n</think>\n\ny"},
        {.role = "assistant", .content = "\nplain"},
    };
    const ct_chat_opts opts = {.kind = CT_CHAT_QWEN3};
    ck_assert_str_eq(chat_text(tokenizer, messages, 5, opts),
                     "<|im_start|>user\nq<|im_end|>\n"
                     "<|im_start|>assistant\n<think>\nold\n</think>\n\nx<|im_end|>\n"
                     "<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n"
                     "<|im_start|>assistant\n<think>\nr\n</think>\n\ny<|im_end|>\n"
                     "<|im_start|>assistant\n<think>\n\n</think>\n\nplain<|im_end|>\n");
    const ct_message asked[] = {messages[0], messages[1], {.role = "user", .content = "again"}};
    ck_assert_str_eq(chat_text(tokenizer, asked, 3, opts),
                     "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nx<|im_end|>\n"
                     "<|im_start|>user\nagain<|im_end|>\n");
    /* without reasoning only the last message has the marks; the last </think> ends it */
    static const ct_message several[] = {
        {.role = "user", .content = "q"},
        {.role = "assistant", .content = "x"},
        {.role = "assistant", .content = "<think>a</think>b</think>\nc"}};
    ck_assert_str_eq(chat_text(tokenizer, several, 3, opts),
                     "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nx<|im_end|>\n"
                     "<|im_start|>assistant\n<think>\na\n</think>\n\nc<|im_end|>\n");
}
END_TEST

/* The vocabulary has a, b, space and "ab", and no other letter. */
START_TEST(ids_and_targets) {
    static const ct_message messages[] = {{.role = "system", .content = "ab"},
                                          {.role = "user", .content = "b<|im_end|>b"},
                                          {.role = "assistant", .content = "a b"},
                                          {.role = "user", .content = "a"}};
    const int64_t start = ct_token_id(tokenizer, "<|im_start|>"),
                  end = ct_token_id(tokenizer, "<|im_end|>");
    const ct_chat_opts opts = {.kind = CT_CHAT_CHATML};
    int64_t ids[200], targets[200];
    const int64_t n = ct_chat_encode(tokenizer, messages, 4, opts, ids, targets, 200);
    ck_assert_msg(n > 0 && n < 200, "%s", ct_error_message(context));
    /* the a's of "system" and "assistant" are tokens too: only ends and starts are counted */
    int64_t ends = 0, starts = 0, learned = 0, at = -1;
    for (int64_t t = 0; t < n; t++) {
        ends += ids[t] == end;
        starts += ids[t] == start;
        if (ids[t] == start && starts == 3) at = t;
        if (targets[t] != -100) {
            learned++;
            ck_assert_int_eq(targets[t], ids[t + 1]);
            ck_assert(at >= 0 && starts == 3);
        }
    }
    ck_assert(starts == 4 && ends == 4 && learned == 4); /* a, space, b, <|im_end|> */
    int64_t last = n - 1;
    while (targets[last] == -100) last--;
    ck_assert_int_eq(targets[last], end);
    /* less room writes the same beginning, and counts all */
    int64_t few[8], part[8];
    ck_assert_int_eq(ct_chat_encode(tokenizer, messages, 4, opts, few, part, 8), n);
    ck_assert(!memcmp(few, ids, sizeof few));
    for (int t = 0; t < 7; t++) ck_assert_int_eq(part[t], targets[t]);
    ck_assert_int_eq(ct_chat_encode(tokenizer, messages, 4, opts, NULL, NULL, 0), n);
    ck_chat_refused(ct_chat_encode(tokenizer, messages, 4, told(opts), NULL, NULL, 1),
                    "chat_encode", "room for 1");
    ck_chat_refused(ct_chat_encode(tokenizer, messages, 4, told(opts), ids, NULL, -1),
                    "chat_encode", "room for -1");
}
END_TEST

/* Reasoning and the text behind it are the author's, between tokens of the template. */
START_TEST(reasoning_is_plain) {
    ck_assert_int_ge(ct_token_add(tokenizer, "<think>", NULL), 0);
    const int64_t think = ct_token_add(tokenizer, "</think>", NULL),
                  end = ct_token_id(tokenizer, "<|im_end|>");
    static const ct_message messages[] = {
        {.role = "user", .content = "a"},
        {.role = "assistant", .content = "<think>b<|im_end|>b</think>a<|im_end|>"}};
    int64_t ids[200], targets[200], ends = 0, thoughts = 0, learned = 0;
    const int64_t n = ct_chat_encode(tokenizer, messages, 2, (ct_chat_opts){.kind = CT_CHAT_QWEN3},
                                     ids, targets, 200);
    for (int64_t t = 0; t < n; t++) {
        ends += ids[t] == end;
        thoughts += ids[t] == think;
        learned += targets[t] == think || targets[t] == end;
    }
    ck_assert(n > 0 && ends == 2 && thoughts == 1 && learned == 2);
}
END_TEST

/* ---- messages that are JSON ---- */

/* A message with quotes in place of '. */
static const char *quoted(const char *json, char room[300]) {
    strcpy(room, json);
    for (char *at = room; *at; at++) *at = *at == '\'' ? '"' : *at;
    return room;
}

/* The text of a message that is JSON is that of its role and content; parts are joined. */
START_TEST(json_messages) {
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{'role': 'user', 'content': 'a\\n\\u00e9'}", "<|im_start|>user\na\n\xc3\xa9<|im_end|>\n"},
        {" {'content': '', 'weight': 0.0, 'train': true, 'role': 'b'} ",
         "<|im_start|>b\n<|im_end|>\n"},
        {"{'role': 'user', 'content': [{'type': 'text', 'text': 'a'}, {'text': ' \\nb', 'type': "
         "'text'}], 'weight': 1}",
         "<|im_start|>user\na \nb<|im_end|>\n"},
        {"{'role': 'user', 'content': [], 'name': null, 'tool_calls': [], 'x': {}, 'y': '', 'z': "
         "false, 'weight': null, 'train': null}",
         "<|im_start|>user\n<|im_end|>\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[300], text[200];
        const ct_message messages[] = {{.role = "no", .json = quoted(cases[i].json, json)},
                                       {.role = "user", .content = "c"}};
        ct_chat_opts opts = {.kind = CT_CHAT_CHATML};
        for (int n = 1; n < 3; n++) {
            char error[300] = "";
            opts.error = error, opts.error_room = sizeof error;
            ck_assert_msg(ct_chat_text(tokenizer, messages, n, opts, text, 200) > 0, "%s", error);
            ck_assert(!strncmp(text, cases[i].text, strlen(cases[i].text)));
            ck_assert_str_eq(text + strlen(cases[i].text),
                             n == 1 ? "" : "<|im_start|>user\nc<|im_end|>\n");
        }
    }
}
END_TEST

/* What a template would read and ours do not write is refused, and so is what is no message. */
START_TEST(json_messages_refused) {
    static const char *const cases[][2] = {
        {"{'role': 'user', 'content': 'a', 'reasoning_content': 'b'}", "\"reasoning_content\""},
        {"{'role': 'user', 'content': 'a', 'tool_calls': [{}]}", "\"tool_calls\""},
        {"{'role': 'user', 'content': 'a', 'name': 'b'}", "message 1: it has \"name\", which"},
        {"{'role': 'user', 'content': 'a', 'x': 0}", "\"x\""},
        {"{'role': 'user', 'content': 'a', 'x': true}", "\"x\""},
        {"{'role': 'user', 'content': 'a', 'x': {'y': null}}", "\"x\""},
        {"{'role': 'user', 'content': 'a', '\\u001b[2J': 1}", "\"\\u001b[2J\""},
        {"{'role': 'user', 'content': 'a', 'weight': 0.5}", "\"weight\" is neither 0 nor 1"},
        {"{'role': 'user', 'content': 'a', 'weight': '1'}", "\"weight\" is neither 0 nor 1"},
        {"{'role': 'user', 'content': 'a', 'train': 1}", "\"train\" is neither true nor false"},
        {"{'role': 'user', 'content': 'a', 'role': 'b'}", "a member twice"},
        {"{'role': 'user', 'content': null}", "it has no \"content\""},
        {"{'content': 'a'}", "it has no \"role\""},
        {"{'role': 3, 'content': 'a'}", "the role is not a text"},
        {"{'role': 'user', 'content': 3}", "neither a text nor a list of texts"},
        {"{'role': 'user', 'content': ['a']}", "a part of the content"},
        {"{'role': 'user', 'content': [{'type': 'text', 'text': 'a'}, {'type': 'image', 'text': "
         "'b'}]}",
         "a part of the content"},
        {"{'role': 'user', 'content': [{'type': 'text'}]}", "a part of the content"},
        {"{'role': 'user', 'content': [{'text': 'a'}]}", "a part of the content"},
        {"{'role': 'user', 'content': [{'type': 'text', 'text': 'a', 'x': 1}]}", "a part of the"},
        {"{'role': 'user', 'content': 'a\\u0000'}", "U+0000"},
        {"{'role': 'user', 'content': '\xff'}", "not UTF-8"},
        {"{'role': 'user', 'content': 'a'} 3", "something follows"},
        {"{'role': 'user', 'content': 'a'", "message 1: "},
        {"[]", "it is not a JSON object"},
        {"", "it is not a JSON object"},
        {"{'role': 'bad', 'content': 'a'}", "message 1: the role \"bad\" is none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[300];
        const ct_message messages[] = {{.role = "user", .content = "c"},
                                       {.json = quoted(cases[i][0], json)}};
        int64_t ids[100];
        const ct_chat_opts opts = {.kind = CT_CHAT_ZEPHYR};
        ck_chat_refused(ct_chat_encode(tokenizer, messages, 2, told(opts), ids, NULL, 100),
                        "chat_encode", cases[i][1]);
    }
}
END_TEST

/* A message of weight 0, or with train false, has no targets; others have theirs. */
START_TEST(learned_messages) {
    static const struct {
        const char *more;
        bool learned;
    } cases[] = {{"", true},
                 {", 'weight': 1", true},
                 {", 'weight': 0", false},
                 {", 'train': false", false},
                 {", 'train': true", true},
                 {", 'weight': 1, 'train': false", false},
                 {", 'weight': 0, 'train': true", false}};
    const int64_t end = ct_token_id(tokenizer, "<|im_end|>");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char spelled[200], json[300];
        snprintf(spelled, sizeof spelled, "{'role': 'assistant', 'content': 'ab'%s}",
                 cases[i].more);
        const ct_message messages[] = {{.json = quoted(spelled, json)},
                                       {.role = "user", .content = "b"},
                                       {.role = "assistant", .content = "a"}};
        int64_t ids[100], targets[100], learned = 0, ends = 0;
        const int64_t n = ct_chat_encode(tokenizer, messages, 3,
                                         (ct_chat_opts){.kind = CT_CHAT_CHATML}, ids, targets, 100);
        for (int64_t t = 0; t < n; t++) {
            learned += targets[t] != -100;
            ends += targets[t] == end;
        }
        ck_assert_int_eq(ends, cases[i].learned ? 2 : 1);
        ck_assert_int_gt(learned, ends);
    }
}
END_TEST

/* ---- folders ---- */

#define CHATML_TEXT(line)                                                                          \
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '" line "' + "              \
    "message['content'] + '<|im_end|>' + '" line "'}}{% endfor %}{% if add_generation_prompt %}"   \
    "{{ '<|im_start|>assistant" line "' }}{% endif %}"

static void put_template(const char *text) {
    FILE *file = fopen(in_folder("t/chat_template.jinja"), "wb");
    ck_assert(file && fwrite(text, 1, strlen(text), file) == strlen(text) && !fclose(file));
}

START_TEST(templates_of_folders) {
    static const struct {
        const char *text;
        bool known;
    } cases[] = {
        {CHATML_TEXT("\n"), true},
        {CHATML_TEXT("\\n"), true},
        {CHATML_TEXT("\\n") " ", false},
        {" " CHATML_TEXT("\\n"), false},
        {CHATML_TEXT("\\t"), false},
        {"{% for message in messages", false},
        {"", false},
    };
    char path[100];
    ck_assert_int_eq(mkdir(in_folder("t"), 0700), 0);
    snprintf(path, sizeof path, "%s", in_folder("t"));
    ck_assert(ct_tokenizer_save(tokenizer, path));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_template(cases[i].text);
        ct_tokenizer *of = ct_tokenizer_open(context, path);
        ck_assert_msg(of != NULL, "%s", ct_error_message(context));
        if (cases[i].known)
            ck_assert_str_eq(chat_text(of, &talk[3], 1, (ct_chat_opts){0}),
                             "<|im_start|>user\nc<|im_end|>\n");
        else
            ck_chat_refused(ct_chat_text(of, talk, 1, told((ct_chat_opts){0}), NULL, 0),
                            "not one that is known", "name a kind");
        ct_tokenizer_close(of);
    }
    /* SmolLM2's has a system message of its own, if there is none */
    put_template("{% for message in messages %}{% if loop.first and messages[0]['role'] != "
                 "'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
                 "trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
                 "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
    ct_tokenizer *of = ct_tokenizer_open(context, path);
    ck_assert_str_eq(chat_text(of, &talk[3], 1, (ct_chat_opts){.open = true}),
                     "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
                     "Hugging Face<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
                     "<|im_start|>assistant\n");
    ck_assert_str_eq(chat_text(of, talk, 1, (ct_chat_opts){0}),
                     "<|im_start|>system\n be\n<|im_end|>\n");
    ct_tokenizer_close(of);
    /* Phi-3.5's leaves an empty system message out */
    put_template(
        "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}"
        "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
        "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant'"
        " %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif "
        "%}");
    of = ct_tokenizer_open(context, path);
    static const ct_message empty[] = {{.role = "system", .content = ""},
                                       {.role = "user", .content = "c"},
                                       {.role = "system", .content = "b"}};
    ck_assert_str_eq(chat_text(of, empty, 3, (ct_chat_opts){.open = true}),
                     "<|user|>\nc<|end|>\n<|system|>\nb<|end|>\n<|assistant|>\n");
    ct_tokenizer_close(of);
    ck_chat_refused(ct_chat_text(tokenizer, talk, 1, told((ct_chat_opts){0}), NULL, 0),
                    "no chat template", "name a kind");
}
END_TEST

START_TEST(chats_that_are_refused) {
    static const ct_message tool[] = {{.role = "tool", .content = "x"}},
                            null[] = {{.role = "user", .content = NULL}},
                            users[] = {{.role = "user", .content = "x"},
                                       {.role = "user", .content = "y"}},
                            late[] = {{.role = "user", .content = "x"},
                                      {.role = "system", .content = "y"}};
    static const struct {
        int kind;
        const ct_message *messages;
        int64_t n;
        const char *word1, *word2;
    } cases[] = {
        {-1, talk, 1, "kind -1", ""},
        {99, talk, 1, "kind 99", ""},
        {CT_CHAT_CHATML, talk, 0, "no messages", ""},
        {CT_CHAT_CHATML, NULL, 1, "no messages", ""},
        {CT_CHAT_CHATML, null, 1, "message 0", "content is NULL"},
        {CT_CHAT_GEMMA, talk, 2, "message 0", "no system messages"},
        {CT_CHAT_GEMMA, users, 2, "message 1", "must alternate"},
        {CT_CHAT_GEMMA, talk + 2, 1, "message 0", "must alternate"},
        {CT_CHAT_GEMMA3, users, 2, "message 1", "must alternate"},
        {CT_CHAT_GEMMA3, talk + 2, 1, "message 0", "must alternate"},
        {CT_CHAT_GEMMA3, late, 2, "message 1", "must be the first"},
        {CT_CHAT_ZEPHYR, tool, 1, "\"tool\"", "none of system"},
        {CT_CHAT_PHI3, tool, 1, "\"tool\"", "none of system"},
        {CT_CHAT_LLAMA31, tool, 1, "\"tool\"", "none of system"},
        {CT_CHAT_QWEN3, tool, 1, "\"tool\"", "none of system"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ct_chat_opts opts = {.kind = (ct_chat)cases[i].kind};
        ck_chat_refused(ct_chat_text(tokenizer, cases[i].messages, cases[i].n, told(opts), NULL, 0),
                        cases[i].word1, cases[i].word2);
        ck_chat_refused(
            ct_chat_encode(tokenizer, cases[i].messages, cases[i].n, told(opts), NULL, NULL, 0),
            cases[i].word1, cases[i].word2);
        ck_assert(ct_chat_text(tokenizer, cases[i].messages, cases[i].n, opts, NULL, 0) == -1);
    }
    ck_assert_str_eq(chat_text(tokenizer, tool, 1, (ct_chat_opts){.kind = CT_CHAT_CHATML}),
                     "<|im_start|>tool\nx<|im_end|>\n");
    ct_tokenizer *bare = open_small(context, "");
    ck_chat_refused(
        ct_chat_text(bare, talk, 1, told((ct_chat_opts){.kind = CT_CHAT_LLAMA3}), NULL, 0),
        "bos_token", "no token has this role");
    ck_chat_refused(
        ct_chat_text(bare, talk, 1, told((ct_chat_opts){.kind = CT_CHAT_PHI3}), NULL, 0),
        "eos_token", "no token has this role");
    ct_tokenizer_close(bare);
    const ct_chat_opts opts = {.kind = CT_CHAT_CHATML};
    ck_chat_refused(ct_chat_text(bare, talk, 1, told(opts), NULL, 0), "chat_text", "has ended");
    ck_chat_refused(ct_chat_encode(NULL, talk, 1, told(opts), NULL, NULL, 0), "chat_encode",
                    "tokenizer is NULL");
}
END_TEST

/* A message is whole if it fits, and otherwise ends with the last whole character that fits. */
START_TEST(room_for_the_message) {
    static const ct_message messages[] = {{.role = "h\xc3\xa9\xe2\x82\xac", .content = "x"}};
    static const char whole[] =
        "chat_text: message 0: the role \"h\xc3\xa9\xe2\x82\xac\" is none of "
        "system, user and assistant";
    char error[sizeof whole + 2];
    for (size_t room = 0; room < sizeof error; room++) {
        memset(error, '#', sizeof error);
        const ct_chat_opts opts = {.kind = CT_CHAT_ZEPHYR, .error = error, .error_room = room};
        ck_assert_int_eq(ct_chat_text(tokenizer, messages, 1, opts, NULL, 0), -1);
        ck_assert(error[room] == '#');
        if (!room) continue;
        size_t size = room < sizeof whole ? room - 1 : sizeof whole - 1;
        while (((unsigned char)whole[size] & 0xC0) == 0x80) size--;
        ck_assert_msg(strlen(error) == size && !memcmp(error, whole, size), "%zu: %s", room, error);
    }
    ck_assert_int_eq(ct_chat_text(tokenizer, messages, 1,
                                  (ct_chat_opts){.kind = CT_CHAT_ZEPHYR, .error_room = 9}, NULL, 0),
                     -1);
    static const ct_message odd[] = {{.role = "\x1b[2J\n\xff", .content = "x"}};
    ck_chat_refused(
        ct_chat_text(tokenizer, odd, 1, told((ct_chat_opts){.kind = CT_CHAT_ZEPHYR}), NULL, 0),
        "role \"\\u001b[2J\\u000a\xef\xbf\xbd\"", "");
    char role[1001] = "";
    memset(role, '\n', 1000);
    const ct_message longest = {.role = role, .content = "x"};
    ck_chat_refused(
        ct_chat_text(tokenizer, &longest, 1, told((ct_chat_opts){.kind = CT_CHAT_ZEPHYR}), NULL, 0),
        "\\u000a...\\u000a", "");
    /* nothing was refused: the text stays as it is */
    strcpy(error, "#");
    const ct_chat_opts opts = {.kind = CT_CHAT_CHATML, .error = error, .error_room = sizeof error};
    ck_assert(ct_chat_text(tokenizer, messages, 1, opts, NULL, 0) > 0 && !strcmp(error, "#"));
}
END_TEST

/* An error of other work does not stop a chat, and a chat leaves it as it is. */
START_TEST(beside_a_pending_error) {
    ct_fail(context, CT_ERR_IO, "another error");
    const ct_chat_opts opts = {.kind = CT_CHAT_GEMMA};
    ck_assert(ct_chat_text(tokenizer, talk + 1, 2, opts, NULL, 0) > 0);
    ck_assert(ct_chat_encode(tokenizer, talk + 1, 2, opts, NULL, NULL, 0) > 0);
    ck_assert_int_eq(ct_chat_text(tokenizer, talk, 2, opts, NULL, 0), -1);
    ck_refused(NULL, CT_ERR_IO, "another error", "");
}
END_TEST

int main(void) {
    return run_tests("text chat", begin_chats, end_chats,
                     TESTS(TEST(texts_of_kinds), TEST(reasoning), TEST(ids_and_targets),
                           TEST(reasoning_is_plain), TEST(json_messages),
                           TEST(json_messages_refused), TEST(learned_messages),
                           TEST(templates_of_folders), TEST(chats_that_are_refused),
                           TEST(room_for_the_message), TEST(beside_a_pending_error)));
}
