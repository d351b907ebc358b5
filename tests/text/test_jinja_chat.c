/* What a template is given and what a render returns: messages from JSON with the marks of their
 * bytes, variables, and the places of {% generation %}. */
#include "jinja_render.h"

#include <stdio.h>

/* The marks of a text, a character for each byte: '.' the template, '1' the first message, '-' no
 * message. */
static const char *marks_of(const cti_jinja_output *output) {
    static char marks[1000];
    size_t at = 0;
    ck_assert_uint_lt(output->size, sizeof marks);
    for (size_t i = 0; i < output->spans; i++) {
        const int32_t mark = output->span[i].mark;
        ck_assert_uint_gt(output->span[i].end, at);
        ck_assert(!i || mark != output->span[i - 1].mark);
        for (; at < output->span[i].end; at++)
            marks[at] = (char)(mark < 0 ? '-' : mark ? '0' + mark : '.');
    }
    ck_assert_uint_eq(at, output->size);
    marks[at] = 0;
    return marks;
}

static void marks_are(render_case c, const char *text, const char *marks) {
    cti_jinja_output output;
    ck_assert_msg(render_into(c, &output), "%s: %s", c.jinja, output.fault.text);
    ck_assert_str_eq(output.text, text);
    ck_assert_str_eq(marks_of(&output), marks);
    cti_jinja_output_free(&output);
}

static const char talk[] = "[{\"role\": \"user\", \"content\": \"q1\"}, {\"role\": \"assistant\", "
                           "\"content\": null, \"calls\": [{\"n\": 12}], \"reasoning\": \"r\"}]";

START_TEST(bytes_keep_their_message) {
    static const struct {
        const char *jinja, *text, *marks;
    } cases[] = {
        {"{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}",
         "<user>q1;<assistant>;",
         "......"
         "11."
         "............"},
        {"{{ messages[0].content ~ '|' + messages[1].reasoning }}", "q1|r", "11.2"},
        {"{{ (messages[1].thinking ~ messages[0].content)[::-1] }}", "1qr", "112"},
        {"{% set t %}a{{ messages[0].content }}{% endset %}{{ t[1:] ~ t }}", "q1aq1", "11.11"},
        {"{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(messages[0].content) }}", "[q1]", ".11."},
        {"{% for c in messages[0].content %}{{ c }},{% endfor %}", "q,1,", "1.1."},
        {"{{ messages[1].calls[0].n + 1 }}", "13", "22"},
        {"{{ messages[1].calls }}", "[{'n': 12}]", "22222222222"},
        {"{{ [messages[0].content, 1] }}", "['q1', 1]", "..11....."},
        {"{{ messages[1]|tojson }}",
         "{\"thinking\": \"r\", \"role\": \"assistant\", \"calls\": [{\"n\": 12}], \"reasoning\": "
         "\"r\", \"reasoning_content\": \"r\"}",
         "2222222222222222222....2222........."
         "22222222222222222222222222222222222222222222222222222222222222"
         "222222"},
        {"{{ tools[0].name }}{{ v }}{{ documents[0].text }}", "tvd", "---"},
        {"{{ bos_token }}{{ w }}", "Bw", ".-"},
        {"{{ messages[0].content|length }}{{ loop is defined }}", "2False", "1....."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        marks_are((render_case){.jinja = cases[i].jinja,
                                .messages = talk,
                                .tools = "[{\"name\": \"t\"}]",
                                .documents = "[{\"text\": \"d\"}]",
                                .variables = "{\"v\": \"v\", \"w\": \"w\", \"bos_token\": \"B\"}"},
                  cases[i].text, cases[i].marks);
}
END_TEST

START_TEST(members_as_transformers_gives_them) {
    static const struct {
        const char *messages, *names;
    } cases[] = {
        {"[{\"role\": \"user\", \"content\": null, \"b\": 1}]", "['role', 'b']"},
        {"[{\"role\": \"a\", \"reasoning\": \"r\"}]",
         "['thinking', 'role', 'reasoning', 'reasoning_content']"},
        {"[{\"role\": \"a\", \"reasoning_content\": \"r\", \"thinking\": \"t\"}]",
         "['thinking', 'role', 'reasoning_content']"},
        {"[{\"role\": \"a\", \"reasoning_content\": null}]", "['role']"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        render_gives(
            (render_case){.jinja = "{{ messages[0]|list }}", .messages = cases[i].messages},
            cases[i].names);
    render_gives(
        (render_case){.jinja = "{{ messages[0].thinking }}{{ messages[0].reasoning_content }}",
                      .messages = cases[2].messages},
        "tr");
    render_gives((render_case){.jinja = "{{ messages[0] }}",
                               .messages = "[{\"a\": [1, -2, 1.5, 1e3, true, null, \"\\u00e9\"]}]"},
                 "{'a': [1, -2, 1.5, 1000.0, True, None, '\xC3\xA9']}");
}
END_TEST

START_TEST(json_that_is_refused) {
    static const struct {
        const char *json, *words;
    } cases[] = {
        {"[{\"role\": \"user\"}, 5]", "message 1: byte 19: it is not a JSON object"},
        {"{}", "messages: byte 0: it is not a JSON array"},
        {"[{\"a\": 1, \"a\": 2}]", "message 0: byte 14: a member stands twice"},
        {"[{\"a\": null, \"a\": 2}]", "stands twice"},
        {"[{\"a\": {\"b\": 1, \"b\": 1}}]", "stands twice"},
        {"[{\"a\": 9223372036854775808}]", "an integer beyond 64 bits"},
        {"[{\"a\": \"\\u0000\"}]", "U+0000"},
        {"[{\"a\": \"\\ud800\"}]", "half a surrogate pair"},
        {"[{\"a\": 01}]", "begins with 0"},
        {"[{\"a\": 1}] x", "something follows"},
        {"[{\"a\": \"\xFF\"}]", "byte 8: it is not UTF-8"},
        {"[{\"role\": \"<|im_end|>\"}]", "the role <|im_end|> has other characters"},
        {"[{\"role\": 5}]", "the role is no string"},
        {"[{\"a\"", "message 0"},
        {"[{\"a\": 1}", "messages"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        render_fails((render_case){.jinja = "x", .messages = cases[i].json}, cases[i].words, 0, 0);
    render_fails((render_case){.jinja = "x", .tools = "{}"}, "tools: byte 0", 0, 0);
    render_fails((render_case){.jinja = "x", .tools = "[1]"}, "tools: item 0", 0, 0);
    render_fails((render_case){.jinja = "x", .variables = "[]"}, "variables: byte 0", 0, 0);
    render_fails((render_case){.jinja = "x", .variables = "{\"messages\": 1}"},
                 "\"messages\" is set by another option", 0, 0);
    char deep[200] = "[{\"a\": ";
    memset(deep + 7, '[', 70);
    render_fails((render_case){.jinja = "x", .messages = deep}, "nested too deep", 0, 0);
}
END_TEST

START_TEST(contents_that_are_no_json) {
    cti_arena arena = {.context = NULL};
    cti_jinja_fault fault;
    cti_jinja_output output;
    const cti_jinja_template *jinja = cti_jinja_compile(
        &arena, cti_text_of("{% for m in messages %}{{ m.content }},{% endfor %}"), &fault);
    cti_jinja_chat *chat = cti_jinja_chat_new();
    ck_assert(cti_jinja_chat_message(chat, "user", "a\xFF"));
    ck_assert(cti_jinja_chat_message_json(chat, "{\"role\": \"tool\", \"content\": 5}"));
    ck_assert_int_eq(cti_jinja_chat_count(chat), 2);
    ck_assert_int_eq(cti_jinja_get_text(cti_jinja_chat_at(chat, 1), "content")->integer, 5);
    ck_assert(cti_jinja_render(jinja, chat, (cti_jinja_render_opts){.messages = 2}, &output));
    ck_assert_str_eq(output.text, "a\xEF\xBF\xBD,5,");
    cti_jinja_output_free(&output);
    ck_assert(cti_jinja_render(jinja, chat, (cti_jinja_render_opts){.messages = 1}, &output));
    ck_assert_str_eq(output.text, "a\xEF\xBF\xBD,");
    cti_jinja_output_free(&output);
    ck_assert(!cti_jinja_chat_message(chat, "user", NULL));
    ck_assert_str_eq(cti_jinja_chat_error(chat), "message 2: its content is NULL");
    ck_assert(!cti_jinja_chat_message(chat, "user", "the first error stays"));
    cti_jinja_chat_free(chat);
    cti_arena_free(&arena);
}
END_TEST

START_TEST(places_of_generation) {
    static const struct {
        const char *jinja, *places;
    } cases[] = {
        {"{% generation %}abc{% endgeneration %}x{% generation %}{% endgeneration %}", "0-3 4-4 "},
        {"\xC3\xA9{% generation %}\xC3\xA9{% generation %}z{% endgeneration %}{% endgeneration %}",
         "2-4 2-5 "}, /* the inner one counts from what is written so far */
        {"{% macro m() %}{% generation %}ab{% endgeneration %}c{% endmacro %}zz{{ m() }}", "2-4 "},
        {"{% set q %}{% generation %}G..{% endgeneration %}{% endset %}a{{ q }}", "0-3 "},
        {"{% set q %}{% generation %}\xC3\xA9{% endgeneration %}{% endset %}a{{ q }}", "0-1 "},
        {"{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "0-1 "},
        {"{% set q %}{% generation %}abc{% endgeneration %}{% endset %}a", "0-1 "},
        {"none", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cti_jinja_output output;
        char places[100] = "";
        ck_assert(render_into((render_case){.jinja = cases[i].jinja}, &output));
        for (size_t k = 0; k < output.generations; k++)
            snprintf(places + strlen(places), 40, "%zu-%zu ", output.generation[k].begin,
                     output.generation[k].end);
        ck_assert_msg(!strcmp(places, cases[i].places), "%s: %s", cases[i].jinja, places);
        cti_jinja_output_free(&output);
    }
}
END_TEST

START_TEST(what_a_template_names_and_writes) {
    cti_arena arena = {.context = NULL};
    cti_jinja_fault fault;
    const cti_jinja_template *jinja = cti_jinja_compile(
        &arena,
        cti_text_of("<|end|>{{ a.calls }}{{ a['tool'] }}{% generation %}{% endgeneration %}"),
        &fault);
    ck_assert(cti_jinja_has_generation(jinja));
    ck_assert(cti_jinja_names(jinja, cti_text_of("calls")));
    ck_assert(cti_jinja_names(jinja, cti_text_of("tool")));
    ck_assert(!cti_jinja_names(jinja, cti_text_of("too")));
    ck_assert(cti_jinja_writes(jinja, cti_text_of("<|end|>")));
    ck_assert(cti_jinja_writes(jinja, cti_text_of("tool")));
    ck_assert(!cti_jinja_writes(jinja, cti_text_of("calls")));
    cti_arena_free(&arena);
}
END_TEST

START_TEST(the_clock) {
    /* 1000000000 is 9 September 2001 in all time zones. */
    render_gives(
        (render_case){.jinja = "{{ strftime_now('%Y %B %b %m %y %C %G %s %% %n%t%Z%f') }}"},
        "2001 September Sep 09 01 20 2001 1000000000 % \n\t000000");
    render_gives((render_case){.jinja = "{{ strftime_now('%-m|%_m|%3m|%^b|%F|%D|%E')[:18] }}"},
                 "9| 9|009|SEP|2001-");
}
END_TEST

int main(void) {
    return run_tests("jinja_chat", NULL, NULL,
                     TESTS(TEST(bytes_keep_their_message), TEST(members_as_transformers_gives_them),
                           TEST(json_that_is_refused), TEST(contents_that_are_no_json),
                           TEST(places_of_generation), TEST(what_a_template_names_and_writes),
                           TEST(the_clock)));
}
