/* The marks of what filters and methods make: what is copied keeps its own, what is made has its
 * value's, and brackets, commas and quotes have their container's. */
#include "jinja_literals.h"
#include "tests/support/suite.h"

/* The result as it is printed, and the mark of each byte as a digit. */
static const struct {
    const char *call, *text, *marks;
} marked[] = {
    {"|string @1[@2'a', 12, @3none]", "['a', 12, None]", "112111111133331"},
    {"|tojson @1{@2'k': @3'<\n', 'n': @4[@5true]}", "{\"k\": \"<\\n\", \"n\": [true]}",
     "1121111333111111114555541"},
    {"|tojson @1[@2'\\u00e9'], ensure_ascii=true", "[\"\\u00e9\"]", "1122222211"},
    {"|tojson @1[@2 1, @3 2], indent=1", "[\n 1,\n 2\n]", "1112111311"},
    {"|tojson @1[1, 2], separators=(@2';', ':')", "[1;2]", "11211"},
    {"|tojson @2'a'", "\"a\"", "222"},
    {"|e @1'<a'", "&lt;a", "11111"},
    {"|upper @1'\\u00df'", "SS", "11"},
    {"|title @1'ab'", "Ab", "11"},
    {"|replace @1'axb', 'x', @2'yy'", "ayyb", "1221"},
    {"|replace @1'axb', 'x', 'y'", "ayb", "101"},
    {"|join [@1'a', @2 5, @3none], '-'", "a-5-None", "10203333"},
    {"|join [@1'a', 'b'], @2', '", "a, b", "1220"},
    {"|indent @1'a\\nb', '> '", "a\n> b", "11001"},
    {"|indent @1'a\\nb', @2 2", "a\n  b", "11221"},
    {"|truncate @1'abcdefghij', 4, true, leeway=0", "a...", "1000"},
    {"|center @1'a', @2 3", " a ", "212"},
    {"|format '%s=%05d %r', @1'k', @2 7, @3'v'", "k=00007 'v'", "10000020333"},
    {"|format @1'%s<', '<'", "<<", "01"},
    {"|urlencode @1'a b'", "a%20b", "11111"},
    {"|xmlattr @1{@2'k': @3'v'}", " k=\"v\"", "121131"},
    {"|wordwrap @1'aa bb', 2", "aa\nbb", "11011"},
    {"|striptags @1'<b>a  b</b>&lt;'", "a b<", "1111"},
    {"|pprint @1{@2'a': @3 1}", "{'a': 1}", "11211131"},
    {"|round @1 2.5", "2.0", "111"},
    {"|sum @1[1, 2]", "3", "1"},
    {"|default none, @1'x', true", "x", "1"},
    {"|first @1'abc'", "a", "1"},
    {"|groupby [@1{'k': @2'v'}], 'k'", "[('v', [{'k': 'v'}])]", "000200001111111211000"},
    {".split @1'a,b', ','", "['a', 'b']", "1111111111"},
    {".join @1', ', [@2'a', @3'b']", "a, b", "2113"},
    {".strip @1' a ', ' '", "a", "1"},
    {".partition @1'a=b', '='", "('a', '=', 'b')", "111111111111111"},
    {".zfill @1'-5', @2 4", "-005", "1221"},
    {".ljust @1'a', 3, @2'*'", "a**", "122"},
    {".expandtabs @1'a\\tb', 4", "a   b", "11111"},
    {".format '<{}|{:>4}|{!r}>', @1'a', @2 5, @3'b'", "<a|   5|'b'>", "010000203330"},
    {".format @1'<{:*>3}', 'a'", "<**a", "1110"},
    {".format @1'{}', @2'a'", "a", "2"},
    {".items @1{@2'k': @3 1}", "dict_items([('k', 1)])", "1111111111111121113111"},
    {".get @1{'k': @2'v'}, 'k'", "v", "2"},
};

static void check_marks(size_t i) {
    cti_jinja_run run = {.now = 0};
    cti_jinja_builder out = cti_jinja_build(&run);
    cti_jinja_print(&out, call_literal(&run, marked[i].call));
    const cti_jinja_value value = cti_jinja_built(&out, false);
    ck_assert_msg(!run.failed, "%s: %s", marked[i].call, run.error);
    const cti_jinja_string *text = value.string;
    char marks[200] = "";
    for (size_t j = 0; j < text->size; j++) marks[j] = (char)('0' + cti_jinja_mark_at(text, j));
    ck_assert_msg(cti_jinja_string_is(text, marked[i].text), "%s: %.*s", marked[i].call,
                  (int)text->size, text->at);
    ck_assert_msg(!strcmp(marks, marked[i].marks), "%s: %.*s\n%s and not\n%s", marked[i].call,
                  (int)text->size, text->at, marks, marked[i].marks);
    cti_arena_free(&run.arena);
}

START_TEST(marks) {
    for (size_t i = 0; i < sizeof marked / sizeof *marked; i++) check_marks(i);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("jinja_marks");
    TCase *tests = tcase_create("jinja_marks");
    tcase_add_test(tests, marks);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
