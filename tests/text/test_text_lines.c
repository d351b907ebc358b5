/* ct_json_lines: files with a JSON object in each line. */
#include "text_files.h"

static const char *put_lines(const char *text, size_t size) {
    const char *path = in_folder("lines.jsonl");
    write_all(path, text, size);
    return path;
}

static ct_json_lines *open_lines(const char *text) {
    ct_json_lines *lines = ct_json_lines_open(context, put_lines(text, strlen(text)));
    ck_assert_msg(lines != NULL, "%s", ct_error_message(context));
    return lines;
}

static void ck_message(const ct_json_line *line, int i, const char *role, const char *content) {
    ck_assert_ptr_null(line->text);
    ck_assert_int_gt(line->n_messages, i);
    ck_assert_str_eq(line->messages[i].role, role);
    ck_assert_str_eq(line->messages[i].content, content);
}

START_TEST(texts_and_messages) {
    ct_json_lines *lines = open_lines(
        "{\"id\": 7, \"text\": \"a\\u0000\\u00e9\"}\r\n\n \t\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\\nb\", \"name\": null},"
        " {\"content\": \"\", \"role\": \"assistant\"}]}\n"
        "{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"},"
        "{\"from\": \"human\", \"value\": \"h\"}, {\"from\": \"gpt\", \"value\": \"g\"}]}\n"
        "{\"messages\": [{\"role\": \"gpt\", \"content\": \"c\"}]}");
    ct_json_line line;
    ck_assert(ct_json_lines_next(lines, &line));
    ck_assert_int_eq(line.number, 1);
    ck_assert_uint_eq(line.bytes, 4);
    ck_assert_mem_eq(line.text, "a\0\xc3\xa9", 5);
    ck_assert_ptr_null(line.messages);
    ck_assert(ct_json_lines_next(lines, &line));
    ck_assert_int_eq(line.number, 4);
    ck_assert_int_eq(line.n_messages, 2);
    ck_message(&line, 0, "user", "a\nb");
    ck_message(&line, 1, "assistant", "");
    ck_assert(ct_json_lines_next(lines, &line));
    ck_assert_int_eq(line.n_messages, 3);
    ck_message(&line, 0, "system", "s");
    ck_message(&line, 1, "user", "h");
    ck_message(&line, 2, "assistant", "g");
    ck_assert(ct_json_lines_next(lines, &line));
    ck_assert_int_eq(line.number, 6);
    ck_message(&line, 0, "gpt", "c"); /* only ShareGPT's roles are renamed */
    for (int i = 0; i < 2; i++) ck_assert(!ct_json_lines_next(lines, &line));
    ck_assert_int_eq(ct_error(context), CT_OK);
    ct_json_lines_close(lines);
}
END_TEST

/* The byte order mark is no part of the first line, and an error in any other. */
START_TEST(byte_order_marks) {
    ct_json_lines *lines =
        open_lines("\xef\xbb\xbf{\"text\": \"a\"}\n\xef\xbb\xbf{\"text\": \"b\"}");
    ct_json_line line;
    ck_assert(ct_json_lines_next(lines, &line));
    ck_assert_str_eq(line.text, "a");
    ck_refused(ct_json_lines_next(lines, &line), CT_ERR_FORMAT, "lines.jsonl:2: byte 0", "");
}
END_TEST

START_TEST(empty_files) {
    static const char *const texts[] = {"", "\n", "\r\n  \n\t", "\xef\xbb\xbf\n"};
    for (int i = 0; i < 4; i++) {
        ct_json_line line = {.number = 5};
        ck_assert(!ct_json_lines_next(open_lines(texts[i]), &line));
        ck_assert_int_eq(line.number, 0);
        ck_assert_int_eq(ct_error(context), CT_OK);
    }
}
END_TEST

/* A line as text: what it has, and of messages role, content and JSON. */
static const char *show(const ct_json_line *line) {
    static char text[2000];
    size_t n = (size_t)sprintf(text, "%d", (int)line->number);
    if (line->text) n += (size_t)sprintf(text + n, " text(%s)", line->text);
    if (line->label) n += (size_t)sprintf(text + n, " label(%s)", line->label);
    if (line->prompt) n += (size_t)sprintf(text + n, " prompt(%s)", line->prompt);
    if (line->completion) n += (size_t)sprintf(text + n, " completion(%s)", line->completion);
    for (int64_t i = 0; i < line->n_messages; i++)
        n += (size_t)sprintf(text + n, " %s(%s)%s", line->messages[i].role,
                             line->messages[i].content ? line->messages[i].content : "NULL",
                             line->messages[i].json);
    for (int64_t i = 0; i < line->n_chosen; i++)
        n += (size_t)sprintf(text + n, " chosen(%s)", line->chosen[i].content);
    for (int64_t i = 0; i < line->n_rejected; i++)
        n += (size_t)sprintf(text + n, " rejected(%s)", line->rejected[i].content);
    for (int64_t i = 0; i < line->n_choices; i++)
        n += (size_t)sprintf(text + n, "%s(%s)", line->answer == i ? " answer" : " choice",
                             line->choices[i].content);
    if (line->tools) sprintf(text + n, " tools%s", line->tools);
    return text;
}

/* Each form of an object, and which comes first. */
START_TEST(forms) {
    static const struct {
        const char *line, *shown;
    } cases[] = {
        {"{'prompt': 'a', 'completion': 'b', 'text': 'c'}", "1 prompt(a) completion(b)"},
        {"{'prompt': [{'role': 'user', 'content': 'a'}, {'train': true, 'role': 'assistant', "
         "'content': 'x'}], 'completion': [{'role': 'assistant', 'content': 'b', 'weight': 1}]}",
         "1 user(a){'role': 'user', 'content': 'a'} "
         "assistant(x){'role': 'assistant', 'content': 'x', 'train': false} "
         "assistant(b){'role': 'assistant', 'content': 'b', 'weight': 1}"},
        {"{'text': 'whole', 'instruction': 'a\"', 'input': 'b', 'output': 'c'}",
         "1 user(a\"\nb){'role': 'user', 'content': 'a\\\"\\nb'} "
         "assistant(c){'role': 'assistant', 'content': 'c'}"},
        {"{'instruction': 'a', 'input': '', 'output': 'c', 'system': 's', 'history': []}",
         "1 system(s){'role': 'system', 'content': 's'} user(a){'role': 'user', 'content': 'a'} "
         "assistant(c){'role': 'assistant', 'content': 'c'}"},
        {"{'instruction': '', 'input': null, 'output': ''}",
         "1 user(){'role': 'user', 'content': ''} assistant(){'role': 'assistant', 'content': ''}"},
        {"{'text': 'a', 'label': 'b'}", "1 text(a) label(b)"},
        {"{'prompt': 'a', 'chosen': ' b', 'rejected': ' c', 'messages': 3}",
         "1 prompt(a) chosen( b) rejected( c)"},
        {"{'chosen': 'so is it', 'rejected': 'so is he'}",
         "1 prompt(so is) chosen( it) rejected( he)"},
        {"{'chosen': '\\u00e9', 'rejected': '\\u00e8'}",
         "1 prompt() chosen(\xc3\xa9) rejected(\xc3\xa8)"},
        {"{'chosen': 'a', 'rejected': 'ab'}", "1 prompt(a) chosen() rejected(b)"},
        {"{'prompt': [{'role': 'u', 'content': 'a'}], 'chosen': [{'role': 'b', 'content': 'b'}], "
         "'rejected': [{'role': 'b', 'content': 'c'}, {'role': 'd', 'content': 'd'}], 'tools': []}",
         "1 u(a){'role': 'u', 'content': 'a'} chosen(b) rejected(c) rejected(d) tools[]"},
        {"{'prompt': 'a', 'chosen': [{'role': 'u', 'content': 'a'}, {'role': 'b', 'content': "
         "'b'}], "
         "'rejected': [{'role': 'u', 'content': 'a'}, {'role': 'b', 'content': 'c'}]}",
         "1 u(a){'role': 'u', 'content': 'a'} chosen(b) rejected(c)"},
        {"{'chosen': [{'role': 'u', 'content': 'b'}], 'rejected': [{'role': 'u', 'content': 'c'}]}",
         "1 chosen(b) rejected(c)"},
        {"{'question': 'a', 'choices': ['b', '', ' \\u00e9'], 'answer': 2, 'text': 'c'}",
         "1 prompt(a) choice(b) choice() answer( \xc3\xa9)"},
        {"{'answer': 0, 'prompt': '', 'choices': ['b'], 'question': 'c', 'tools': []}",
         "1 prompt() answer(b)"},
        {"{'prompt': 'a', 'completion': 'b', 'choices': ['b'], 'answer': 0}",
         "1 prompt(a) completion(b)"},
        {"{'choices': ['b'], 'answer': 0, 'text': 'c'}", "1 text(c)"},
        {"{'text': 'a', 'label': -1.50, 'chosen': 'c'}", "1 text(a) label(-1.50)"},
        {"{'text': 'a', 'prompt': 'b', 'output': 'c'}", "1 text(a)"},
        {"{'conversations': [{'value': [3], 'from': 'gpt', 'weight': null, 'x': {'y': ['\\u00e9', "
         "true, 1e3]}}], 'text': 'a', 'tools': '[1]'}",
         "1 assistant(NULL){'content': [3], 'role': 'assistant', 'weight': null, "
         "'x': {'y': ['\xc3\xa9', true, 1e3]}} tools[1]"},
        {"{'text': 'a', 'messages': [{'role': 'a'}], 'conversations': 3, 'tools': [{'a':{}},[]]}",
         "1 a(NULL){'role': 'a'} tools[{'a': {}}, []]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400], shown[400];
        strcpy(text, cases[i].line);
        strcpy(shown, cases[i].shown);
        for (char *at = text; *at; at++)
            if (*at == '\'') *at = '"';
            else if (*at == '"') memmove(at + 1, at, strlen(at) + 1), *at++ = '\\';
        for (char *at = shown; *at; at++)
            if (*at == '\'') *at = '"';
        ct_json_lines *lines = open_lines(text);
        ct_json_line line;
        ck_assert_msg(ct_json_lines_next(lines, &line), "%s: %s", text, ct_error_message(context));
        ck_assert_str_eq(show(&line), shown);
        ct_json_lines_close(lines);
    }
}
END_TEST

/* An array has the objects that lines have, wherever its white space is. */
START_TEST(arrays) {
    static const struct {
        const char *file, *shown, *fault;
    } cases[] = {
        {"[]", "", NULL},
        {" \n[ \n ] \n", "", NULL},
        {"\xef\xbb\xbf\n[{'text':'a'},\n {'text':\n'b]}'}\n,{'text':'[\\\"{'}]",
         "2 text(a);3 text(b]});5 text([\"{);", NULL},
        {"[\n{\n'messages': [{'role': 'user', 'content': 'a'}]\n}\n]",
         "2 user(a){'role': 'user', 'content': 'a'};", NULL},
        {"[{'text':'a'}", "1 text(a);", ":1: the array does not end"},
        {"[{'text':'a'},\n", "1 text(a);", ":2: the array does not end"},
        {"[", "", ":1: the array does not end"},
        {"[{'text':'a'},]", "1 text(a);", ":1: an object is expected behind the comma"},
        {"[{'text':'a'} {'text':'b'}]", "1 text(a);", ":1: a comma or the bracket"},
        {"[{'text':'a'}]\n{", "1 text(a);", ":2: the file goes on behind the array"},
        {"[{'text':'a'},\n\n3, {'text':'b'}]", "1 text(a);", ":3: byte 0: this is not an object"},
        {"[,{'text':'b'}]", "", ":1: byte 0: "},
        {"[{'text':'a'", "", ":1: byte 11: "},
        {"[[{'text':'a'}]]", "", ":1: byte 0: this is not an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[200], want[200], shown[400] = "";
        strcpy(file, cases[i].file);
        strcpy(want, cases[i].shown);
        for (char *at = file; *at; at++) *at = *at == '\'' ? '"' : *at;
        for (char *at = want; *at; at++) *at = *at == '\'' ? '"' : *at;
        ct_json_lines *lines = open_lines(file);
        ct_json_line line;
        while (ct_json_lines_next(lines, &line)) strcat(strcat(shown, show(&line)), ";");
        ck_assert_str_eq(shown, want);
        ck_assert_int_eq(ct_error(context), cases[i].fault ? CT_ERR_FORMAT : CT_OK);
        if (cases[i].fault)
            ck_assert_msg(strstr(ct_error_message(context), cases[i].fault) != NULL, "%s: %s", file,
                          ct_error_message(context));
        ct_error_clear(context);
        ck_assert(!ct_json_lines_next(lines, &line) && !ct_error(context)); /* it has ended */
        ct_json_lines_close(lines);
    }
}
END_TEST

/* Lines of many lengths, whose ends are at all places of the blocks that are read. */
START_TEST(long_lines) {
    enum { LINES = 40 };
    static char text[LINES * 20000 + 1000];
    size_t size = 0;
    if (_i) text[size++] = '['; /* the same as an array */
    for (int i = 0; i < LINES; i++) {
        size += (size_t)sprintf(text + size, "{\"text\": \"");
        const size_t n = (size_t)i * 997 % 20000 + (i == 20 ? 150000 : 0);
        memset(text + size, 'a' + i % 26, n);
        size += n;
        size += (size_t)sprintf(text + size, i == LINES - 1 ? "\"}" : _i ? "\"},\n" : "\"}\n");
    }
    if (_i) text[size++] = ']';
    ct_json_lines *lines = ct_json_lines_open(context, put_lines(text, size));
    ct_json_line line;
    for (int i = 0; i < LINES; i++) {
        const size_t n = (size_t)i * 997 % 20000 + (i == 20 ? 150000 : 0);
        ck_assert(ct_json_lines_next(lines, &line));
        ck_assert_int_eq(line.number, i + 1);
        ck_assert_uint_eq(line.bytes, n);
        ck_assert_uint_eq(strlen(line.text), n);
        for (size_t k = 0; k < n; k++) ck_assert_int_eq(line.text[k], 'a' + i % 26);
    }
    ck_assert(!ct_json_lines_next(lines, &line));
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

START_TEST(faults) {
    static const struct {
        const char *line, *fault;
    } cases[] = {
        {"3", "byte 0: this is not an object"},
        {"[{\"text\": \"a\"}]", "byte 0: this is not an object"}, /* an array is the whole file */
        {"{\"text\": 1}", "byte 9: \"text\" is not a text"},
        {"{\"text\": \"a\" ", "byte 13: "},
        {"{\"text\": \"a\"} {}", "byte 14: "},
        {"{\"text\": \"\xff\"}", "byte 10: "},
        {"{\"texts\": \"a\"}", "byte 0: the object has no \"text\", \"messages\" or"},
        {"{\"text\": null, \"prompt\": \"a\"}", "byte 0: the object has no \"text\""},
        {"{\"text\": \"a\", \"text\": \"b\"}", "twice"},
        {"{\"messages\": []}", "byte 13: \"messages\" is not a list of messages"},
        {"{\"messages\": {}}", "byte 13: \"messages\" is not a list of messages"},
        {"{\"conversations\": 3}", "byte 18: \"conversations\" is not a list of messages"},
        {"{\"messages\": [3]}", "byte 14: a message is not an object"},
        {"{\"messages\": [{\"content\": \"a\"}]}", "byte 14: a message needs a \"role\""},
        {"{\"messages\": [{\"role\": null, \"content\": \"a\"}]}",
         "byte 23: a message needs a \"role\""},
        {"{\"messages\": [{\"role\": \"a\", \"weight\": 0.5}]}", "byte 38: the \"weight\" of"},
        {"{\"messages\": [{\"role\": \"a\", \"weight\": true}]}", "byte 38: the \"weight\" of"},
        {"{\"messages\": [{\"role\": \"a\", \"train\": 0}]}", "byte 37: the \"train\" of"},
        {"{\"messages\": [{\"role\": \"a\", \"role\": \"b\"}]}", "twice"},
        {"{\"conversations\": [{\"from\": \"a\", \"role\": \"b\"}]}", "both \"from\" and"},
        {"{\"messages\": [], \"text\": \"a\"}", "byte 13: \"messages\" is not a list"},
        {"{\"prompt\": \"a\", \"completion\": [{\"role\": \"a\"}]}", "are two texts, or two"},
        {"{\"prompt\": [{\"role\": \"a\"}], \"completion\": \"b\"}", "are two texts, or two"},
        {"{\"instruction\": \"a\", \"output\": 3}", "byte 31: \"output\" is not a text"},
        {"{\"instruction\": \"a\", \"input\": 3, \"output\": \"b\"}", "\"input\" is not a text"},
        {"{\"instruction\": \"a\", \"output\": \"b\", \"history\": [3]}",
         "\"history\" is not read"},
        {"{\"prompt\": \"a\", \"choices\": [], \"answer\": 0}",
         "byte 27: \"choices\" is not a list"},
        {"{\"question\": \"a\", \"choices\": [\"b\", 3], \"answer\": 0}", "\"choices\" is not a"},
        {"{\"question\": [], \"choices\": [\"b\"], \"answer\": 0}", "the question of \"choices\""},
        {"{\"question\": \"a\", \"choices\": [\"b\"], \"answer\": 1}",
         "byte 46: the \"answer\" to"},
        {"{\"question\": \"a\", \"choices\": [\"b\"], \"answer\": -1}", "the \"answer\" to"},
        {"{\"question\": \"a\", \"choices\": [\"b\"], \"answer\": 0.5}", "the \"answer\" to"},
        {"{\"question\": \"a\", \"choices\": [\"b\"], \"answer\": \"b\"}", "the \"answer\" to"},
        {"{\"question\": \"a\", \"choices\": [\"b\"]}", "the \"answer\" to"},
        {"{\"chosen\": \"b\", \"rejected\": []}", "byte 28: \"chosen\" and \"rejected\" are"},
        {"{\"chosen\": [], \"rejected\": []}", "byte 11: \"chosen\" and \"rejected\" are"},
        {"{\"chosen\": \"a\", \"rejected\": \"b\", \"prompt\": []}", "byte 43: \"chosen\" and"},
        {"{\"messages\": [{\"role\": \"a\", \"content\": [{\"type\": \"image_url\"}]}]}",
         "byte 50: a part of a content is an image"},
        {"{\"messages\": [{\"role\": \"a\"}], \"tools\": {}}", "\"tools\" is not a list"},
        {"{\"messages\": [{\"role\": \"a\", \"content\": \"b\\u0000\"}]}", "U+0000"},
        {"{\"messages\": [{\"from\": \"a\", \"value\": \"b\"}]}", "needs a \"role\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text, "{\"text\": \"one\"}\n\n%s\n{\"text\": \"last\"}\n",
                 cases[i].line);
        ct_json_lines *lines = open_lines(text);
        ct_json_line line;
        ck_assert(ct_json_lines_next(lines, &line));
        ck_assert(!ct_json_lines_next(lines, &line));
        ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
        const char *message = ct_error_message(context);
        ck_assert_msg(strstr(message, cases[i].fault) && strstr(message, "lines.jsonl:3: byte "),
                      "%s: %s", cases[i].line, message);
        ck_assert_ptr_null(line.text);
        ck_assert(!ct_json_lines_next(lines, &line)); /* while the error is pending */
        ct_error_clear(context);
        ck_assert_msg(ct_json_lines_next(lines, &line), "%s", ct_error_message(context));
        ck_assert_str_eq(line.text, "last");
        ct_json_lines_close(lines);
    }
}
END_TEST

/* A line that is cut at each byte, is followed by a quote or has a NUL there, is an error. */
START_TEST(hostile) {
    static const char *const wholes[] = {
        "{\"a\":[1,{}],\"messages\":[{\"role\":\"u\\u0041\",\"content\":\"\\ud83d\\ude00\"}]}",
        ("[{\"text\":\"a\"},{\"prompt\":\"x\",\"completion\":\"y\"},{\"instruction\":\"\","
         "\"output\":\"\"}]"),
        "{\"conversations\":[{\"from\":\"gpt\",\"value\":[{\"x\":-1e5}]}],\"tools\":[{}]}"};
    const char *whole = wholes[_i];
    const size_t length = strlen(whole);
    for (size_t cut = 1; cut < length; cut++)
        for (int more = 0; more < 3; more++) {
            char text[200];
            memcpy(text, whole, length + 1);
            if (more == 1) text[cut] = '"';
            if (more == 1 && text[cut] == whole[cut]) continue;
            if (more == 2) text[cut] = 0;
            const size_t size = more == 2 ? length : cut + (more == 1);
            ct_json_lines *lines = ct_json_lines_open(context, put_lines(text, size));
            ct_json_line line;
            while (ct_json_lines_next(lines, &line)) ck_assert_int_eq(_i, 1);
            ck_assert_msg(ct_error(context) == CT_ERR_FORMAT, "cut at %zu, %d", cut, more);
            ct_error_clear(context);
            ct_json_lines_close(lines);
        }
    char deep[300] = "{\"a\":";
    memset(deep + 5, '[', 200);
    ct_json_line line;
    ck_assert(!ct_json_lines_next(open_lines(deep), &line));
    ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
    ct_error_clear(context);
}
END_TEST

START_TEST(many_members) {
    static char text[2000] = "{\"text\": \"a\"";
    for (int i = 0; i < 64; i++) sprintf(text + strlen(text), ", \"%d\": 0", i);
    strcat(text, "}");
    ct_json_line line;
    ck_assert(!ct_json_lines_next(open_lines(text), &line));
    ck_assert_ptr_nonnull(strstr(ct_error_message(context), "more than 64 members"));
    ct_error_clear(context);
}
END_TEST

START_TEST(refused) {
    ck_assert_ptr_null(ct_json_lines_open(NULL, "a"));
    ck_assert_ptr_null(ct_json_lines_open(context, NULL));
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ck_assert_ptr_null(ct_json_lines_open(context, in_folder("none")));
    ck_assert_int_eq(ct_error(context), CT_ERR_IO);
    ct_error_clear(context);
    ck_assert_ptr_null(ct_json_lines_open(context, folder));
    ck_assert_int_eq(ct_error(context), CT_ERR_IO);
    ct_error_clear(context);
    ct_json_line line;
    ck_assert(!ct_json_lines_next(NULL, &line));
    ct_json_lines *lines = open_lines("{\"text\": \"\"}");
    ck_assert(!ct_json_lines_next(lines, NULL));
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ck_assert(ct_json_lines_next(lines, &line));
    ct_json_lines_close(lines);
    ct_json_lines_close(lines);
    ct_json_lines_close(NULL);
    ck_assert(!ct_json_lines_next(lines, &line));
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
}
END_TEST

/* The messages of a line are as ct_chat_encode takes them. */
START_TEST(encoded) {
    ct_tokenizer *tokenizer = open_small(context, ",'<|im_start|>':7,'<|im_end|>':8");
    ct_json_lines *lines = open_lines("{\"messages\": [{\"role\": \"b\", \"content\": \"ab\"}]}");
    ct_json_line line;
    ck_assert(ct_json_lines_next(lines, &line));
    char text[100];
    ct_chat_opts opts = {.chat_template = "chatml"};
    ck_assert_int_gt(ct_chat_text(tokenizer, line.messages, line.n_messages, opts, text, 100), 0);
    ck_assert_str_eq(text, "<|im_start|>b\nab<|im_end|>\n");
}
END_TEST

int main(void) {
    return run_tests("JSON lines", setup, teardown,
                     TESTS(TEST(texts_and_messages), TEST(byte_order_marks), TEST(empty_files),
                           LOOP(long_lines, 2), TEST(forms), TEST(arrays), TEST(faults),
                           LOOP(hostile, 3), TEST(many_members), TEST(refused), TEST(encoded)));
}
