/* Chats in C: built-in templates and those of folders, contents that cannot end a turn, what is
 * learned, and refusals. tests/torch/test_chats_live.py compares with transformers. */
#include "tests/support/remove_tree.h"
#include "text_files.h"
#include <sys/stat.h>

/* A tokenizer of single bytes, with special tokens <s>, </s>, [ and ], and with the tokens <think>,
 * </think> and <call>, which are not special. A turn is [ROLE:CONTENT]. */
static const char chat_json[] =
    "{'version':'1.0','truncation':null,'padding':null,'added_tokens':["
    "{'id':10,'content':'<s>','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':true},"
    "{'id':11,'content':'</s>','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':true},"
    "{'id':12,'content':'[','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':true},"
    "{'id':13,'content':']','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':true},"
    "{'id':14,'content':'<think>','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':false},"
    "{'id':15,'content':'</think>','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':false},"
    "{'id':16,'content':'<call>','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':false},"
    "{'id':17,'content':'[x]','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':true}],"
    "'normalizer':null,'pre_tokenizer':{'type':'Split','pattern':{'Regex':'.'},"
    "'behavior':'Isolated','invert':false},'post_processor':null,'decoder':null,"
    "'model':{'type':'WordLevel','unk_token':'?','vocab':{'?':0,'u':1,'a':2,'t':3,'s':4,':':5,"
    "'p':6,'q':7,'r':8,'n':9}}}";
#define USUAL                                                                                      \
    "{% for m in messages %}[{{ m.role[0] }}:{{ m.content }}]{% endfor %}"                         \
    "{% if add_generation_prompt %}[a:{% endif %}"
/* Reasoning is written in the last message only, and the prompt begins it. */
#define REASONS                                                                                    \
    "{% for m in messages %}[{{ m.role[0] }}:{% if m.role == 'assistant' and loop.last %}<think>"  \
    "{{ m.r }}</think>{% endif %}{{ m.content }}]{% endfor %}"                                     \
    "{% if add_generation_prompt %}[a:<think>{% endif %}"

static ct_tokenizer *tokenizer;

static ct_tokenizer *chat_open(const char *name) {
    static char text[sizeof chat_json];
    strcpy(text, chat_json);
    for (char *at = text; *at; at++)
        if (*at == '\'') *at = '"';
    write_all(name, text, strlen(text));
    ct_tokenizer *opened = ct_tokenizer_open(context, name);
    ck_assert_msg(opened != NULL, "%s", ct_error_message(context));
    return opened;
}

static void begin_chats(void) {
    setup();
    tokenizer = chat_open(in_folder("chat.json"));
    ck_assert_int_eq(ct_token_add(tokenizer, "<s>", "bos_token"), 10);
    ck_assert_int_eq(ct_token_add(tokenizer, "</s>", "eos_token"), 11);
}

static void end_chats(void) {
    ct_tokenizer_close(tokenizer);
    remove_tree(in_folder("t"));
    teardown();
}

static const char *chat_text(const ct_tokenizer *of, const ct_message *messages, int64_t n,
                             ct_chat_opts opts) {
    static char text[2000];
    const int64_t size = ct_chat_text(of, messages, n, told(opts), NULL, 0);
    ck_assert_msg(size >= 0, "%s", chat_error);
    ck_assert_int_eq(ct_chat_text(of, messages, n, opts, text, sizeof text), size);
    ck_assert_int_eq(strlen(text), size);
    char part[6];
    ck_assert_int_eq(ct_chat_text(of, messages, n, opts, part, sizeof part), size);
    ck_assert(!strncmp(part, text, 5) && strlen(part) == (size < 5 ? (size_t)size : 5));
    return text;
}

/* The tokens of a chat, spelled, each with a space behind it; what is learned has a * before it. */
static const char *chat_tokens(const ct_tokenizer *of, const char *messages, ct_chat_opts opts) {
    static char shown[2000];
    int64_t ids[400], targets[400];
    opts.messages = messages;
    const int64_t n = ct_chat_encode(of, NULL, 0, told(opts), ids, targets, 400);
    ck_assert_msg(n >= 0 && n <= 400, "%s: %s", messages, chat_error);
    *shown = 0;
    for (int64_t t = 0; t < n; t++) {
        const bool learned = t && targets[t - 1] != -100;
        if (learned) ck_assert_int_eq(targets[t - 1], ids[t]);
        snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s%s%s", t ? " " : "",
                 learned ? "*" : "", ct_token(of, ids[t]));
    }
    if (n) ck_assert_int_eq(targets[n - 1], -100);
    /* a smaller room gets the first ids and the targets among them */
    for (int64_t room = 0; room < n; room += 3) {
        int64_t few[400], fewer[400];
        ck_assert_int_eq(ct_chat_encode(of, NULL, 0, opts, few, fewer, room), n);
        ck_assert(!memcmp(few, ids, (size_t)room * sizeof *ids));
        ck_assert(!memcmp(fewer, targets, (size_t)room * sizeof *targets));
    }
    return shown;
}

static const ct_message talk[] = {{.role = "system", .content = " be\n"},
                                  {.role = "user", .content = "a "},
                                  {.role = "assistant",
                                   .content = "\x1f"
                                              "b\n"},
                                  {.role = "user", .content = "c"}};

START_TEST(built_in_templates) {
    static const struct {
        const char *name;
        int first, n; /* of `talk` */
        const char *text;
    } cases[] = {
        {"chatml", 0, 3,
         "<|im_start|>system\n be\n<|im_end|>\n<|im_start|>user\na <|im_end|>\n"
         "<|im_start|>assistant\n\x1f"
         "b\n<|im_end|>\n<|im_start|>assistant\n"},
        {"llama3", 0, 3,
         "<s><|start_header_id|>system<|end_header_id|>\n\nbe<|eot_id|><|start_header_id|>user"
         "<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nb"
         "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
        {"gemma", 1, 3,
         "<s><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n"
         "<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>model\n"},
        {"zephyr", 0, 3,
         "<|system|>\n be\n</s>\n<|user|>\na </s>\n<|assistant|>\n\x1f"
         "b\n</s>\n<|assistant|>\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_chat_opts opts = {.chat_template = cases[i].name, .add_generation_prompt = true};
        ck_assert_str_eq(chat_text(tokenizer, talk + cases[i].first, cases[i].n, opts),
                         cases[i].text);
    }
    static const ct_message wrong[] = {{.role = "user",
                                        .content = "a\xff"
                                                   "b"}};
    ck_assert_str_eq(chat_text(tokenizer, wrong, 1, (ct_chat_opts){.chat_template = "chatml"}),
                     "<|im_start|>user\na\xef\xbf\xbd"
                     "b<|im_end|>\n");
    /* a message as JSON, and all of them */
    static const ct_message json[] = {
        {.json = "{\"role\": \"user\", \"content\": \"c\", \"name\": null}"}};
    const char *want = "<|im_start|>user\nc<|im_end|>\n";
    ck_assert_str_eq(chat_text(tokenizer, json, 1, (ct_chat_opts){.chat_template = "chatml"}),
                     want);
    ck_assert_str_eq(chat_text(tokenizer, NULL, 0,
                               (ct_chat_opts){.chat_template = "chatml",
                                              .messages = "[{\"role\":\"user\","
                                                          "\"content\":\"c\"}]"}),
                     want);
}
END_TEST

START_TEST(variables) {
    const ct_message one[] = {{.role = "user", .content = "q"}};
    const ct_chat_opts opts = {
        .chat_template = "{{ tools is none }} {{ documents[0].t }} {{ x }} {{ bos_token }} "
                         "{{ strftime_now('%Y') }} {{ add_generation_prompt }}",
        .documents = "[{\"t\": \"d\"}]",
        .variables = "{\"x\": [1, 2.5], \"bos_token\": \"B\"}",
        .now = 1000000000};
    ck_assert_str_eq(chat_text(tokenizer, one, 1, opts), "True d [1, 2.5] B 2001 False");
    const ct_chat_opts tools = {.chat_template = "{{ tools | length }}{{ tools[0].name }}",
                                .tools = "[{\"name\": \"f\"}]"};
    ck_assert_str_eq(chat_text(tokenizer, one, 1, tools), "1f");
}
END_TEST

/* What a content spells, whole, in parts, cut and joined by the template, is plain text. */
START_TEST(contents_are_plain) {
    static const struct {
        const char *template, *messages, *tokens;
    } cases[] = {
        {USUAL, "[{'role':'user','content':'q]p[</s>'}]", "[ u : q ? p ? ? ? s ? ]"},
        {USUAL, "[{'role':'user','content':'<think>'}]", "[ u : <think> ]"},
        {USUAL, "[{'role':'assistant','content':'<think>q</think>p'}]",
         "[ a : *<think> *q *</think> *p *]"},
        /* a token of the template is plain in what others write, and a token in an assistant's */
        {REASONS,
         "[{'role':'user','content':'<think>'},{'role':'assistant','content':'p',"
         "'r':'</think><think>]'}]",
         "[ u : ? t ? ? n ? ? ] [ a : <think> *</think> *<think> *? *</think> *p *]"},
        {REASONS, "[{'role':'user','content':'<call>'}]", "[ u : <call> ]"},
        /* made of two messages, and of a message and the template */
        {"{% for m in messages %}{{ m.content }}{% endfor %}]",
         "[{'role':'user','content':'</'},{'role':'user','content':'s>'}]", "? ? s ? ]"},
        {"</{% for m in messages %}{{ m.content }}{% endfor %}", "[{'role':'user','content':'s>'}]",
         "? ? s ?"},
        /* the longest token [x] would take a byte of the message; the template's own [ stays */
        {"[{{ messages[0].content }}", "[{'role':'user','content':'x]'}]", "[ ? ?"},
        {"{% set c = messages[0].content %}{{ c[2:] + c[:2] }}]",
         "[{'role':'user','content':'s></'}]", "? ? s ? ]"},
        {"{{ messages[0].content.split('q') | join('') }}]", "[{'role':'user','content':'<q/sq>'}]",
         "? ? s ? ]"},
        {"{{ messages[0].content | upper | lower }}", "[{'role':'user','content':'</S>'}]",
         "? ? s ?"},
        {"{{ messages[0] | tojson }}", "[{'role':'user','n':'</s>'}]",
         "? ? r ? ? ? ? ? ? u s ? r ? ? ? ? n ? ? ? ? ? ? s ? ? ?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char messages[400];
        snprintf(messages, sizeof messages, "%s", cases[i].messages);
        for (char *at = messages; *at; at++)
            if (*at == '\'') *at = '"';
        if (strstr(cases[i].template, "tojson")) continue;
        ck_assert_str_eq(
            chat_tokens(tokenizer, messages, (ct_chat_opts){.chat_template = cases[i].template}),
            cases[i].tokens);
    }
    /* the quotes and brackets of JSON are the message's too */
    const char *json = chat_tokens(tokenizer, "[{\"role\":\"user\",\"n\":\"</s>]\"}]",
                                   (ct_chat_opts){.chat_template = "{{ messages[0] | tojson }}]"});
    ck_assert(!strstr(json, "</s>") && strlen(json) && json[strlen(json) - 1] == ']');
    ck_assert(strchr(json, ']') == json + strlen(json) - 1);
    /* tools, documents and variables are of no message */
    ct_chat_opts opts = {.chat_template =
                             "{{ tools[0].n }}{{ documents[0].n }}{{ v }}{{ bos_token }}]",
                         .tools = "[{\"n\":\"</s>\"}]",
                         .documents = "[{\"n\":\"]\"}]",
                         .variables = "{\"v\":\"[\"}"};
    static const char one[] = "[{\"role\":\"user\",\"content\":\"\"}]";
    ck_assert_str_eq(chat_tokens(tokenizer, one, opts), "? ? s ? ? ? <s> ]");
    opts.parse_special = true;
    ck_assert_str_eq(chat_tokens(tokenizer, one, opts), "</s> ] [ <s> ]");
    /* a variable in the place of a token's text is the template's */
    opts = (ct_chat_opts){.chat_template = "{{ bos_token }}", .variables = "{\"bos_token\":\"]\"}"};
    ck_assert_str_eq(chat_tokens(tokenizer, one, opts), "]");
}
END_TEST

#define USER(text)      "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
START_TEST(what_is_learned) {
    static const struct {
        const char *template, *messages, *tokens;
        int turn[4];
    } cases[] = {
        {USUAL,
         "[" USER("q") "," ASSISTANT("p") "]",
         "[ u : q ] [ a : *p *]",
         {0, CT_TURN_LEARNED}},
        {USUAL,
         "[" USER("q") "," ASSISTANT("p") "," USER("r") "," ASSISTANT("n") "]",
         "[ u : q ] [ a : *p *] [ u : r ] [ a : *n *]",
         {0, CT_TURN_LEARNED, 0, CT_TURN_LEARNED}},
        /* the prompt is known only from the messages before */
        {USUAL, "[" ASSISTANT("p") "," USER("q") "]", "[ a : *p *] [ u : q ]", {CT_TURN_LEARNED}},
        {USUAL,
         "[" USER("q") ",{\"role\":\"assistant\",\"content\":\"p\",\"weight\":0},"
                       "{\"role\":\"assistant\",\"content\":\"n\",\"train\":true}]",
         "[ u : q ] [ a : p ] [ a : *n *]",
         {0, CT_TURN_NONE, CT_TURN_LEARNED}},
        {USUAL,
         "[" USER("q") ",{\"role\":\"assistant\",\"content\":\"p\",\"train\":false}]",
         "[ u : q ] [ a : p ]",
         {0, CT_TURN_NONE}},
        /* an empty answer: the text has no byte of it */
        {USUAL, "[" USER("q") "," ASSISTANT("") "]", "[ u : q ] [ a : ]", {0, CT_TURN_ABSENT}},
        /* a prompt that begins the reasoning; the earlier answer is rewritten by the later one */
        {REASONS,
         "[" USER("q") ",{\"role\":\"assistant\",\"content\":\"p\",\"r\":\"n\"}]",
         "[ u : q ] [ a : <think> *n *</think> *p *]",
         {0, CT_TURN_LEARNED}},
        {REASONS,
         "[" USER("q") ",{\"role\":\"assistant\",\"content\":\"p\",\"r\":\"n\"}," USER(
             "r") ",{\"role\":\"assistant\",\"content\":\"t\",\"r\":\"s\"}]",
         "[ u : q ] [ a : p ] [ u : r ] [ a : <think> *s *</think> *t *]",
         {0, CT_TURN_REWRITTEN, 0, CT_TURN_LEARNED}},
        /* no token ends a turn: the message's last byte */
        {"{% for m in messages %}{{ m.role[0] }}:{{ m.content }} {% endfor %}"
         "{% if add_generation_prompt %}a:{% endif %}",
         "[" USER("q") "," ASSISTANT("p") "," USER("r") "]",
         "u : q ? a : *p ? u : r ?",
         {0, CT_TURN_OPEN}},
        /* the next special token begins the next prompt, so it does not end this turn */
        {"{% for m in messages %}[{{ m.role[0] }}:{{ m.content }}{% endfor %}"
         "{% if add_generation_prompt %}[a:{% endif %}",
         "[" USER("q") "," ASSISTANT("p") "," USER("r") "]",
         "[ u : q [ a : *p [ u : r",
         {0, CT_TURN_OPEN}},
        /* what a template repeats at a result is no part of the call */
        {"{% for m in messages %}[{{ m.role[0] }}:{% if m.role == 'tool' %}{{ m.content }}"
         "{{ messages[loop.index0 - 1].name }}{% else %}{{ m.name }}{{ m.content }}{% endif %}]"
         "{% endfor %}{% if add_generation_prompt %}[a:{% endif %}",
         "[" USER("q") ",{\"role\":\"assistant\",\"content\":\"p\",\"name\":\"n\"},"
                       "{\"role\":\"tool\",\"content\":\"r\"}]",
         "[ u : q ] [ a : *n *p *] [ t : r n ]",
         {0, CT_TURN_LEARNED}},
        /* generation tags: what they enclose, but for a message that is not learned */
        {"{% for m in messages %}[{% if m.role == 'assistant' %}{% generation %}a:{{ m.content }}"
         "{% endgeneration %}{% else %}u:{{ m.content }}{% endif %}]{% endfor %}",
         "[" USER("q") "," ASSISTANT(
             "p") ",{\"role\":\"assistant\",\"content\":\"n\",\"weight\":0}]",
         "[ u : q ] [ *a *: *p ] [ a : n ]",
         {0, CT_TURN_LEARNED, CT_TURN_NONE}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_chat_turn turns[5] = {-1, -1, -1, -1, -1};
        const ct_chat_opts opts = {
            .chat_template = cases[i].template, .turns = turns, .n_turns = 4};
        ck_assert_str_eq(chat_tokens(tokenizer, cases[i].messages, opts), cases[i].tokens);
        for (int m = 0; m < 4 && (int)turns[m] >= 0; m++)
            ck_assert_msg((int)turns[m] == cases[i].turn[m], "case %zu: message %d: %d", i, m,
                          (int)turns[m]);
        ck_assert_int_eq((int)turns[4], -1);
    }
    /* with a generation prompt behind it the last turn ends where it did */
    ck_assert_str_eq(
        chat_tokens(tokenizer, "[" USER("q") "," ASSISTANT("p") "]",
                    (ct_chat_opts){.chat_template = USUAL, .add_generation_prompt = true}),
        "[ u : q ] [ a : *p *] [ a :");
}
END_TEST

START_TEST(ends_and_members) {
    ck_assert_int_eq(ct_chat_end(tokenizer, (ct_chat_opts){.chat_template = USUAL}), 13);
    ck_assert_int_eq(ct_chat_end(tokenizer, (ct_chat_opts){.chat_template = "{{ 1 }}"}), 11);
    ck_assert_int_eq(
        ct_chat_end(tokenizer, (ct_chat_opts){.chat_template = "{{ raise_exception('no') }}"}), 11);
    ck_chat_refused(ct_chat_end(tokenizer, told((ct_chat_opts){.chat_template = "{% if %}"})),
                    "chat_end", "line 1");
    const ct_chat_opts opts = {.chat_template = REASONS "{{ messages[0]['tool_calls'] }}"};
    ck_assert(ct_chat_reads(tokenizer, opts, "r"));
    ck_assert(ct_chat_reads(tokenizer, opts, "tool_calls"));
    ck_assert(!ct_chat_reads(tokenizer, opts, "reasoning_content"));
    ck_assert(!ct_chat_reads(tokenizer, opts, NULL));
}
END_TEST

static void put_text(const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", in_folder("t"), name);
    write_all(path, text, strlen(text));
}

static const char *template_text(const ct_tokenizer *of, ct_chat_opts opts) {
    const ct_message one[] = {{.role = "user", .content = "q"}};
    return chat_text(of, one, 1, opts);
}

START_TEST(templates_of_folders) {
    char path[100];
    snprintf(path, sizeof path, "%s", in_folder("t"));
    ck_assert(!ct_chat_template(tokenizer, NULL));
    ck_chat_refused(ct_chat_text(tokenizer, talk, 1, told((ct_chat_opts){0}), NULL, 0),
                    "no chat template", "chatml");
    ck_assert(ct_tokenizer_set_template(tokenizer, "D{{ messages[0].content }}"));
    ck_assert_str_eq(ct_chat_template(tokenizer, NULL), "D{{ messages[0].content }}");
    ck_assert_str_eq(template_text(tokenizer, (ct_chat_opts){.tools = "[]"}), "Dq");
    ck_assert(ct_tokenizer_save(tokenizer, path));
    put_text("tokenizer_config.json",
             "{\"chat_template\": [{\"name\": \"default\", \"template\": \"D\"}, {\"name\": "
             "\"tool_use\", \"template\": \"T\"}, {\"name\": \"rag\", \"template\": \"{% if\"}]}");
    for (int saved = 0; saved < 2; saved++) {
        ct_tokenizer *of = ct_tokenizer_open(context, path);
        ck_assert_msg(of != NULL, "%s", ct_error_message(context));
        ck_assert_str_eq(template_text(of, (ct_chat_opts){0}), saved ? "E" : "D");
        ck_assert_str_eq(template_text(of, (ct_chat_opts){.tools = "[]"}), "T");
        ck_assert_str_eq(template_text(of, (ct_chat_opts){.chat_template = "tool_use"}), "T");
        /* a text that is no template fails when it is used */
        ck_chat_refused(
            ct_chat_text(of, talk, 1, told((ct_chat_opts){.chat_template = "rag"}), NULL, 0),
            "line 1, column", "");
        ck_chat_refused(
            ct_chat_text(of, talk, 1, told((ct_chat_opts){.chat_template = "ragg"}), NULL, 0),
            "there is no template \"ragg\"", "default, tool_use, rag, chatml, llama3");
        ck_assert(ct_tokenizer_set_template(of, "E"));
        ck_assert(ct_tokenizer_save(of, path));
        ct_tokenizer_close(of);
    }
    /* files of their own come in the place of all of these */
    put_text("chat_template.jinja", "F\n");
    ck_assert_int_eq(mkdir(in_folder("t/additional_chat_templates"), 0700), 0);
    put_text("additional_chat_templates/other.jinja", "O{{ 1 }}");
    put_text("additional_chat_templates/other.txt", "X");
    put_text("generation_config.json", "{\"eos_token_id\": [13, 11]}");
    ct_tokenizer *of = ct_tokenizer_open(context, path);
    ck_assert_msg(of != NULL, "%s", ct_error_message(context));
    ck_assert_str_eq(template_text(of, (ct_chat_opts){.tools = "[]"}), "F");
    ck_assert_str_eq(template_text(of, (ct_chat_opts){.chat_template = "other"}), "O1");
    ck_assert(!ct_chat_template(of, "tool_use") && !ct_chat_template(of, "other.txt"));
    ck_assert(ct_tokenizer_set_template(of, NULL) && !ct_chat_template(of, NULL));
    ck_refused(ct_tokenizer_set_template(of, "\xff"), CT_ERR_ARGUMENT, "set_template", "UTF-8");
    ct_tokenizer_close(of);
}
END_TEST

START_TEST(chats_that_are_refused) {
    static const ct_message null[] = {{.role = "user", .content = "q"}, {.role = "user"}},
                            odd[] = {{.role = "user]", .content = "q"}}, list[] = {{.json = "[1]"}},
                            cut[] = {{.json = "{\"role\": \"user"}},
                            weight[] = {{.json = "{\"role\":\"assistant\",\"weight\":2}"}},
                            train[] = {{.json = "{\"role\":\"assistant\",\"train\":1}"}};
    static const struct {
        ct_chat_opts opts;
        const ct_message *messages;
        int64_t n;
        const char *word1, *word2;
    } cases[] = {
        {{.chat_template = "nothing"}, talk, 1, "\"nothing\"", "chatml, llama3, gemma, zephyr"},
        {{.chat_template = "{{ x.y }}"}, talk, 1, "line 1", "x"},
        {{.chat_template = "a\n{{ raise_exception('no way') }}"}, talk, 1, "line 2", "no way"},
        {{.chat_template = "{{ 1"}, talk, 1, "line 1", ""},
        {{.chat_template = "{{ \xff }}"}, talk, 1, "UTF-8", ""},
        {{.chat_template = "gemma"}, talk, 2, "no system message", ""},
        {{.chat_template = "gemma"}, talk + 2, 1, "must alternate", ""},
        {{.chat_template = "chatml"}, talk, 0, "no messages", ""},
        {{.chat_template = "chatml"}, NULL, 1, "no messages", ""},
        {{.chat_template = "chatml", .messages = "[]"}, NULL, 0, "no messages", ""},
        {{.chat_template = "chatml", .messages = "[{}]"}, talk, 1, "also of the options", ""},
        {{.chat_template = "chatml", .messages = "{}"}, NULL, 0, "messages", "byte"},
        {{.chat_template = "chatml"}, null, 2, "message 1", "content"},
        {{.chat_template = "chatml"}, odd, 1, "message 0", "role"},
        {{.chat_template = "chatml"}, list, 1, "message 0", "byte"},
        {{.chat_template = "chatml"}, cut, 1, "message 0", "byte"},
        {{.chat_template = "chatml", .tools = "{}"}, talk, 1, "tools", ""},
        {{.chat_template = "chatml", .documents = "["}, talk, 1, "documents", ""},
        {{.chat_template = "chatml", .variables = "[]"}, talk, 1, "variables", ""},
        {{.chat_template = "chatml", .variables = "{\"tools\": 1}"}, talk, 1, "tools", ""},
        {{.chat_template = "chatml", .variables = "{\"a\":1,\"a\":2}"},
         talk,
         1,
         "variables",
         "twice"},
    };
    int64_t ids[100], targets[100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ct_chat_opts opts = cases[i].opts;
        ck_chat_refused(ct_chat_text(tokenizer, cases[i].messages, cases[i].n, told(opts), NULL, 0),
                        cases[i].word1, cases[i].word2);
        ck_chat_refused(
            ct_chat_encode(tokenizer, cases[i].messages, cases[i].n, told(opts), NULL, NULL, 0),
            cases[i].word1, cases[i].word2);
        ck_assert(ct_chat_text(tokenizer, cases[i].messages, cases[i].n, opts, NULL, 0) == -1);
    }
    const ct_chat_opts opts = {.chat_template = "{{ messages[0].role }}"};
    ck_chat_refused(ct_chat_encode(tokenizer, weight, 1, told(opts), ids, targets, 100),
                    "message 0", "weight");
    ck_chat_refused(ct_chat_encode(tokenizer, train, 1, told(opts), ids, targets, 100), "message 0",
                    "train");
    ck_chat_refused(ct_chat_encode(tokenizer, talk, 1, told(opts), ids, NULL, -1), "room", "-1");
    ck_chat_refused(ct_chat_encode(tokenizer, talk, 1, told(opts), NULL, NULL, 1), "room", "1");
    ck_chat_refused(ct_chat_encode(NULL, talk, 1, told(opts), NULL, NULL, 0), "chat_encode",
                    "tokenizer is NULL");
    ct_tokenizer *bare = open_small(context, "");
    ct_tokenizer_close(bare);
    ck_chat_refused(ct_chat_text(bare, talk, 1, told(opts), NULL, 0), "chat_text", "has ended");
    ck_assert(!ct_chat_template(bare, NULL) && !ct_chat_reads(bare, opts, "role"));
}
END_TEST

/* A message is whole if it fits, and otherwise ends with the last whole character that fits. */
START_TEST(room_for_the_message) {
    static const char whole[] =
        "chat_text: line 1, column 19 of the chat template: h\xc3\xa9\xe2\x82\xac";
    char error[sizeof whole + 2];
    for (size_t room = 0; room < sizeof error; room++) {
        memset(error, '#', sizeof error);
        const ct_chat_opts opts = {.chat_template =
                                       "{{ raise_exception('h\xc3\xa9\xe2\x82\xac') }}",
                                   .error = error,
                                   .error_room = room};
        ck_assert_int_eq(ct_chat_text(tokenizer, talk, 1, opts, NULL, 0), -1);
        ck_assert(error[room] == '#');
        if (!room) continue;
        size_t size = room < sizeof whole ? room - 1 : sizeof whole - 1;
        while (((unsigned char)whole[size] & 0xC0) == 0x80) size--;
        ck_assert_msg(strlen(error) == size && !memcmp(error, whole, size), "%zu: %s", room, error);
    }
    const ct_chat_opts opts = {.chat_template = "chatml", .error = error, .error_room = 9};
    strcpy(error, "#");
    ck_assert(ct_chat_text(tokenizer, talk, 1, opts, NULL, 0) > 0 && !strcmp(error, "#"));
}
END_TEST

/* An error of other work does not stop a chat, and a chat leaves it as it is. */
START_TEST(beside_a_pending_error) {
    ct_fail(context, CT_ERR_IO, "another error");
    const ct_chat_opts opts = {.chat_template = "gemma"};
    ck_assert(ct_chat_text(tokenizer, talk + 1, 2, opts, NULL, 0) > 0);
    ck_assert(ct_chat_encode(tokenizer, talk + 1, 2, opts, NULL, NULL, 0) > 0);
    ck_assert_int_eq(ct_chat_text(tokenizer, talk, 2, opts, NULL, 0), -1);
    ck_refused(NULL, CT_ERR_IO, "another error", "");
}
END_TEST

int main(void) {
    return run_tests("text chat", begin_chats, end_chats,
                     TESTS(TEST(built_in_templates), TEST(variables), TEST(contents_are_plain),
                           TEST(what_is_learned), TEST(ends_and_members),
                           TEST(templates_of_folders), TEST(chats_that_are_refused),
                           TEST(room_for_the_message), TEST(beside_a_pending_error)));
}
