/* The language of chat templates: blanks, statements, scopes, operators, what is refused and where,
 * and the bounds. The texts are what jinja2 3.1.6 makes in the environment of transformers. */
#include "jinja_render.h"

#include <stdio.h>

#include "src/os/os.h"

typedef struct {
    const char *jinja, *text;
} golden;

static const char variables[] = "{\"s\": \" a b \", \"x\": \"abc\", \"n\": null, \"l\": [1, 2, 3], "
                                "\"d\": {\"b\": 1, \"items\": 7}}";

static void check_golden(const golden *cases, size_t n) {
    for (size_t i = 0; i < n; i++)
        render_gives((render_case){.jinja = cases[i].jinja, .variables = variables}, cases[i].text);
}
#define CHECK(cases) check_golden(cases, sizeof(cases) / sizeof *(cases))

START_TEST(blanks_around_tags) {
    static const golden cases[] = {
        {"  {% if x %}\n  a\n  {% endif %}\nb\n", "  a\nb"},      /* trim and lstrip, one \n */
        {"a  {% if x %} b {% endif %}  c", "a   b   c"},          /* no line of its own */
        {"a \n {%- if x -%} \n b {% endif %}", "ab "},            /* over lines */
        {"  {%+ if x %}\na{%+ endif +%}\nb", "  a\nb"},           /* + switches both off */
        {"{{ x }}\n{{- x }} \n {{ x -}} \n c", "abcabc \n abcc"}, /* no newline goes behind }} */
        {"a {#- c -#} b\n  {# d #}\ne", "ab\ne"},
        {"{% raw %}{{ x }}{% endraw %}\n|{%- raw -%} {{ y }} {%- endraw -%} |", "{{ x }}|{{ y }}|"},
        {"{% if x %}\r\na\r\n{% endif %}\rb\r\n", "a\nb"},
        {"\xC2\xA0\n {%- if x %}a{% endif %}", "a"}, /* NBSP is white space */
        {"{#", ""},                                  /* a comment that begins at the end is none */
        {"{{ {'a': {'b': 1}}['a']['b'] }}", "1"},    /* }} inside of brackets ends nothing */
    };
    CHECK(cases);
}
END_TEST

START_TEST(operators) {
    static const golden cases[] = {
        {"{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ 7 / 2 }}",
         "64 4 -4 -2 3.5"},
        /* a negative constant is written before the power of a variable */
        {"{% set i = 3 %}{{ (-2) ** i }} {{ -2.5 ** i }} {{ (1 - 3) ** i }} {{ (-i) ** 2 }} {{ [-2 "
         "** i, 2 ** -1] }}",
         "-8 -15.625 -8 9 [-8, 0.5]"},
        {"{{ 1 ~ 2 + 'a' }}|{{ 'a' 'b' \"c\" }}|{{ 'ab' * 2 }}|{{ [1] * 2 + [3] }}", "12a|"
                                                                                     "abc|abab|"
                                                                                     "[1, 1, 3]"},
        {"{{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ not 1 in l }} {{ 4 not in l }} {{ 1 == true }}",
         "True False False True True"},
        {"{{ n or 0 or '' or x }} {{ n and x }} {{ x and n }} {{ 1 if n }}|{{ 1 if n else 2 }}",
         "abc None None |2"},
        {"{{ x[1:] }} {{ x[::-1] }} {{ x[-1] }} {{ x[9] }}|{{ l[::-2] }} {{ x[2:0:-1] }}",
         "bc cba c |[3, 1] cb"},
        {"{{ '\xC3\xA9\xF0\x9F\x98\x80z'[1] }}{{ '\xC3\xA9\xF0\x9F\x98\x80z'[::-1] }}",
         "\xF0\x9F\x98\x80z\xF0\x9F\x98\x80\xC3\xA9"},
        {"{{ '\\x41\\u00e9\\101\\n\\q\\\xC3\xA9' }}", "A\xC3\xA9"
                                                      "A\n\\q\\xe9"},
        {"{{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 1.5e3 }} {{ 1e20 }}", "1000 31 3 1500.0 1e+20"},
        {"{{ d.items is callable }} {{ d['items'] }} {{ d.b }} {{ d.zz is defined }}",
         "True 7 1 False"},
        {"{{ u }}|{{ u ~ 'a' }}|{{ u == n }}|{{ u == v }}|{{ 'a' in u }}", "|a|False|True|False"},
        {"{{ 1, 2 }} {{ () }} {{ {1: 'a', 1.0: 'b', true: 'c'} }}", "(1, 2) () {1: 'c'}"},
    };
    CHECK(cases);
}
END_TEST

START_TEST(loops) {
    static const golden cases[] = {
        {"{% for a in l if a > 1 %}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %}",
         "1/2False 2/2True "},
        {"{% for a in l %}{{ loop.previtem }}<{{ loop.nextitem }},{% endfor %}", "<2,1<3,2<,"},
        {"{% for a in l %}{% if a == 2 %}{% continue %}{% endif %}{{ a }}{% else %}E{% endfor %}",
         "13"},
        {"{% for a in l %}{% break %}{% else %}E{% endfor %}", "E"}, /* as jinja2 3.1.6 */
        {"{% for a in [] %}{% else %}E{% endfor %}{% for a in u %}{% else %}U{% endfor %}", "EU"},
        {"{% for a, b in ['xy', 'zz'] if a != b %}{{ [a, loop.previtem, loop.nextitem] }}{% endfor "
         "%}"
         "{% for a, b in ['xy', 'zw'] if b %}{{ loop.nextitem }}{% endfor %}",
         "['x', Undefined, Undefined]('z', 'w')"}, /* a condition makes tuples */
        {"{% for a in 'xyz' %}{{ a }}{% for b in loop %}{{ b[0] }}{% endfor %}{% endfor %}", "xyz"},
        {"{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"},
        {"{% for a in [[1, [2]]] recursive %}{% if a is iterable %}<{{ loop(a) }}>"
         "{% else %}{{ a }}{{ loop.depth }}{% endif %}{% endfor %}",
         "<12<23>>"},
        {"{% for a in l %}{{ loop.cycle('x', 'y') }}{{ loop.changed(a // 2) }}{% endfor %}",
         "xTrueyTruexFalse"},
        {"{% for a in l|map('string') %}{{ a }}{{ loop.length }}{% endfor %}", "132333"},
        {"{% for a in 'ab' %}{% for b in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% "
         "endfor %}",
         "1231;1232;"},
    };
    CHECK(cases);
}
END_TEST

START_TEST(scopes) {
    static const golden cases[] = {
        {"{% set y = 1 %}{% for a in l %}{{ y }}{% set y = a %}{{ y }} {% endfor %}{{ y }}",
         "11 12 13 1"},
        {"{% if x %}{% set q = 5 %}{% endif %}{{ q }}{% if n %}{% set x = 6 %}{% endif %}{{ x }}",
         "5abc"},
        {"{% set ns = namespace(a='') %}{% for a in l %}{% set ns.a = ns.a ~ a %}{% endfor %}{{ "
         "ns.a }}",
         "123"},
        {"{% macro m() %}{{ z }}{% endmacro %}{% set z = 4 %}{{ m() }}{% set z = 5 %}{{ m() }}",
         "45"},
        {"{% macro m() %}{{ a }}{% endmacro %}{% for a in l %}{{ m() }}{% endfor %}", ""},
        {"{% macro f(a, b=a) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}"
         "{{ f(1) }}{{ f(1, 2, 3, c=4) }}",
         "11(){}12(3,){'c': 4}"},
        {"{% macro f() %}<{{ caller(1) }}>{% endmacro %}{% call(u) f() %}{{ u }}{{ x }}{% endcall "
         "%}",
         "<1abc>"},
        {"{% set q | upper %}a{{ x }}{% endset %}{{ q }}{% filter upper %}z{% endfilter %}",
         "AABCZ"},
        {"{% with x = 1, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}", "1abcabc"},
        {"{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}", "123"},
        {"{% set x = 9 %}{% block b %}{{ x }}{% set x = 8 %}{% endblock %}{{ x }}", "99"},
        {"{% for x in x %}{{ x }}{% endfor %}{{ x }}", "abcabc"},
        {"{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "B"},
        {"{{ tools is none }}{{ documents }}{{ add_generation_prompt }}{{ bos_token }}{{ eos_token "
         "}}",
         "TrueNoneFalse<s>"},
        {"{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}"
         "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b",
         "121a|b"},
    };
    CHECK(cases);
}
END_TEST

START_TEST(errors_of_the_parse_have_a_place) {
    static const struct {
        const char *jinja, *words;
        int line, column;
    } cases[] = {
        {"{% if x %}", "Unexpected end of template", 1, 11},
        {"a\n  {% foo %}", "Encountered unknown tag 'foo'", 2, 6},
        {"{% for a in l %}\n{% endif %}", "'endfor' or 'else'", 2, 4},
        {"\xC3\xA9{{ x ! }}", "unexpected char '!'", 1, 7},
        {"{{ (1, 2 }}", "unexpected '}', expected ')'", 1, 10},
        {"{{ 'abc }}", "unexpected char '''", 1, 4},
        {"{{ x.\n }}", "expected name or number", 2, 2},
        {"{{ }}", "unexpected 'end of print statement'", 1, 4},
        {"{% raw %}abc", "Missing end of raw directive", 1, 1},
        {"abc{# d", "Missing end of comment tag", 1, 4},
        {"{% set 5 = 3 %}", "can't assign to 'const'", 1, 10},
        {"{% break %}", "'break' outside of a loop", 1, 10},
        {"{% for a in l %}{% generation %}{% break %}", "outside of a loop", 0, 0},
        {"{{ x|foo }}", "No filter named 'foo'", 1, 6},
        {"{{ x is foo }}", "No test named 'foo'", 0, 0},
        {"{{ f(a=1, a=2) }}", "keyword argument repeated", 0, 0},
        {"{% macro f(a=1, b) %}{% endmacro %}", "non-default argument", 0, 0},
        {"{{ 99999999999999999999 }}", "beyond 64 bits", 1, 4},
        {"{{ '\\x4' }}", "truncated \\xXX escape", 0, 0},
        {"{% include 'a' %}", "the statement 'include' is not run", 1, 4},
        {"{% extends 'a' %}", "'extends' is not run", 0, 0},
        {"{% import 'a' as b %}", "'import' is not run", 0, 0},
        {"{% from 'a' import b %}", "'from' is not run", 0, 0},
        {"{% autoescape true %}", "'autoescape' is not run", 0, 0},
        {"{{ self }}", "'self' is not run", 0, 0},
        {"\xFF", "byte 0 of the template is not UTF-8", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        render_fails((render_case){.jinja = cases[i].jinja}, cases[i].words, cases[i].line,
                     cases[i].column);
}
END_TEST

START_TEST(what_python_refuses_is_refused) {
    static const struct {
        const char *jinja, *words;
    } cases[] = {
        {"{{ u.x }}", "'u' is undefined"},
        {"{{ u + 'a' }}", "'u' is undefined"},
        {"{{ u() }}", "'u' is undefined"},
        {"{{ d.zz.y }}", "'dict object' has no attribute 'zz'"},
        {"{{ l[9].y }}", "list object has no element 9"},
        {"{{ 'a' + 1 }}", "can only concatenate str (not \"int\") to str"},
        {"{{ 1 + 'a' }}", "unsupported operand type(s) for +: 'int' and 'str'"},
        {"{{ 1 < 'a' }}", "'<' not supported between instances of 'int' and 'str'"},
        {"{{ 1 in x }}", "requires string as left operand, not int"},
        {"{{ 1 / 0 }}", "division by zero"},
        {"{{ 9223372036854775807 + 1 }}", "beyond 64 bits"},
        {"{{ x() }}", "'str' object is not callable"},
        {"{% for a in 5 %}{% endfor %}", "'int' object is not iterable"},
        {"{% for a, b in l %}{% endfor %}", "cannot unpack non-iterable int object"},
        {"{% set x.a = 1 %}", "cannot assign attribute on non-namespace object"},
        {"{% set ns = namespace(_a=1) %}", "underscore"},
        {"{{ l.append(1) }}", "access to attribute 'append' of 'list' object is unsafe"},
        {"{{ x.__class__.y }}", "unsafe"},
        {"{{ {[1]: 2} }}", "unhashable type: 'list'"},
        {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "takes not more than 1 argument"},
        {"{% macro f(a) %}{{ a.b }}{% endmacro %}{{ f() }}", "parameter 'a' was not provided"},
        {"{{ loop(1) }}", "'loop' is undefined"},
        {"{{ raise_exception('what the author says') }}", "what the author says"},
        {"{% if x %}{{ x|foo }}{% endif %}", "No filter named 'foo' found."},
        {"{{ lipsum() }}", "'lipsum' is not run"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        render_fails((render_case){.jinja = cases[i].jinja, .variables = variables}, cases[i].words,
                     0, 0);
    render_fails((render_case){.jinja = "a\n{{ 1 +\n u.x }}"}, "'u' is undefined", 3, 4);
    render_gives((render_case){.jinja = "{% if u %}{{ x|foo }}{% endif %}ok"}, "ok");
}
END_TEST

/* A text of n repetitions, with something before and behind. */
static char *repeated(const char *before, const char *each, size_t n, const char *behind) {
    const size_t size = strlen(each), first = strlen(before);
    char *text = malloc(first + n * size + strlen(behind) + 1);
    ck_assert(text != NULL);
    strcpy(text, before);
    for (size_t i = 0; i < n; i++) memcpy(text + first + i * size, each, size);
    strcpy(text + first + n * size, behind);
    return text;
}

static void fails_repeated(const char *before, const char *each, size_t n, const char *behind,
                           const char *words) {
    char *text = repeated(before, each, n, behind);
    render_fails((render_case){.jinja = text}, words, 0, 0);
    free(text);
}

START_TEST(bounds) {
    static const char deep[] = "nested more than 200 deep";
    char *close = repeated("1", "]", 150, "|length }}"), *text = repeated("{{ ", "[", 150, close);
    render_gives((render_case){.jinja = text}, "1");
    free(close);
    free(text);
    fails_repeated("", "a", CTI_JINJA_TEXT + 1, "", "longer than 1048576 bytes");
    fails_repeated("{{ ", "[", 250, "", deep);
    fails_repeated("{{ ", "not ", 250, "1 }}", deep);
    fails_repeated("{{ ", "-", 250, "1 }}", deep);
    fails_repeated("{{ 1", " + 1", 250, " }}", deep);
    fails_repeated("{{ x", ".a", 250, " }}", deep);
    fails_repeated("{{ x", "|trim", 250, " }}", deep);
    fails_repeated("", "{% if x %}", 250, "", deep);
    fails_repeated("{{ 1", " + 1", 100000, " }}", deep);
    render_fails((render_case){.jinja = "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"},
                 deep, 0, 0);
    render_gives((render_case){.jinja =
                                   "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% else %}end{% endif "
                                   "%}{% endmacro %}{{ f(150) }}"},
                 "end");
    render_fails(
        (render_case){.jinja = "{% for a in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}"}, deep,
        0, 0);
    render_fails((render_case){.jinja = "{% set ns = namespace(a=[]) %}{% for i in range(300) %}"
                                        "{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}"},
                 deep, 0, 0);
    render_gives((render_case){.jinja = "{{ range(100000)|length }}"}, "100000");
    render_fails((render_case){.jinja = "{{ range(100001) }}"}, "MAX_RANGE (100000)", 0, 0);
    render_fails((render_case){.jinja = "{% for a in range(100000) %}{% for b in range(1000) %}"
                                        "{% endfor %}{% endfor %}"},
                 "more than 10000000 steps", 0, 0);
    /* reading a long string has its steps */
    static const char *const reads[] = {
        "{% if 'y' in a %}{% endif %}", "{% if a == b %}{% endif %}", "{% if a < b %}{% endif %}",
        "{% set y = a[9] %}",           "{% set y = a.find('y') %}",  "{% set y = a[1:2] %}"};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        char jinja[300];
        snprintf(jinja, sizeof jinja,
                 "{%% set a = '\u00e9' * 500000 %%}{%% set b = a[:-1] ~ '\u00e9' %%}"
                 "{%% for i in range(100000) %%}%s{%% endfor %%}",
                 reads[i]);
        render_fails((render_case){.jinja = jinja}, "more than 10000000 steps", 0, 0);
    }
    render_fails((render_case){.jinja =
                                   "{% set a = 'x' * 1000000 %}{% for i in range(100) %}{{ a }}"
                                   "{% endfor %}"},
                 "longer than 67108864 bytes", 0, 0);
    render_fails((render_case){.jinja = "{% set a = 'x' * 1000000 %}{% for i in range(5000) %}"
                                        "{% set b = a ~ i %}{% endfor %}"},
                 "more than 1073741824 bytes", 0, 0);
}
END_TEST

START_TEST(a_long_chain_of_elif_is_not_deep) {
    char *text = repeated("{% if n %}", "{% elif n %}", 20000, "{% else %}end{% endif %}");
    render_gives((render_case){.jinja = text, .variables = variables}, "end");
    free(text);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 3, RENDERS = 200 };
static const cti_jinja_template *shared;
typedef struct {
    cti_thread thread;
    int number;
    bool good;
} renderer;

static void render_often(void *arg) {
    renderer *own = arg;
    char content[20], wanted[60];
    own->good = true;
    for (int i = 0; i < RENDERS; i++) {
        snprintf(content, sizeof content, "%d of %d", i, own->number);
        snprintf(wanted, sizeof wanted, "<user>%s|0<user>%s|1", content, content);
        cti_jinja_chat *chat = cti_jinja_chat_new();
        cti_jinja_output output = {.size = 0};
        own->good &=
            chat && cti_jinja_chat_message(chat, "user", content) &&
            cti_jinja_chat_message(chat, "user", content) &&
            cti_jinja_render(shared, chat, (cti_jinja_render_opts){.messages = 2}, &output) &&
            !strcmp(output.text, wanted);
        cti_jinja_output_free(&output);
        cti_jinja_chat_free(chat);
    }
}

START_TEST(threads_share_a_template) {
    cti_arena arena = {.context = NULL};
    cti_jinja_fault fault;
    shared = cti_jinja_compile(
        &arena,
        cti_text_of(
            "{% macro m(a) %}<{{ a.role }}>{{ a.content }}{% endmacro %}{% for a in messages "
            "%}{{ m(a) ~ '|' ~ loop.index0 }}{% endfor %}"),
        &fault);
    ck_assert(shared != NULL);
    renderer own[THREADS];
    for (int i = 0; i < THREADS; i++) {
        own[i].number = i;
        ck_assert(cti_thread_start(&own[i].thread, render_often, &own[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        cti_thread_join(&own[i].thread);
        ck_assert(own[i].good);
    }
    cti_arena_free(&arena);
}
END_TEST

int main(void) {
    return run_cases("jinja",
                     CASES({.name = "language",
                            .tests = TESTS(TEST(blanks_around_tags), TEST(operators), TEST(loops),
                                           TEST(scopes), TEST(errors_of_the_parse_have_a_place),
                                           TEST(what_python_refuses_is_refused), TEST(bounds),
                                           TEST(a_long_chain_of_elif_is_not_deep))},
                           {.name = "threads",
                            .tags = "threads",
                            .tests = TESTS(TEST(threads_share_a_template))}));
}
