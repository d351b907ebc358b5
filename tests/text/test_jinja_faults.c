/* Chat templates when memory is short: each malloc fails once. A render then fails and says that
 * memory was short, or nothing else changes, and nothing is leaked. */
#include "jinja_render.h"

#include "tests/support/fault_sweep.h"
#include "tests/support/malloc_faults.h"

/* A template and a chat that take more than one block of an arena, with every statement. */
static char *long_template, *long_content;
static const char part[] =
    "{% macro m(a, b=1) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{{ caller() if caller }}{% "
    "endmacro %}"
    "{% for m in messages if m.role %}{% set ns = namespace(a=[]) %}{% set ns.a = ns.a + [m] %}"
    "{{ m.content|upper|replace('A', 'B')|tojson }}{{ m.content[::-1] }}{{ ns.a[0]|items|list }}"
    "{{ loop.length }}{{ m.content.split('a')|map('trim')|join('-') }}{% endfor %}"
    "{% call m(1, 2, 3, c=4) %}{% generation %}x{% endgeneration %}{% endcall %}"
    "{% set t | trim %}{{ messages|groupby('role') }}{% endset %}{{ t }}{{ range(9)|list }}"
    "{% filter upper %}{{ dict(a=1, **{'b': 2}) }}{% endfilter %}";

static cti_jinja_output output;
static bool made, memory;

static bool render_all(void *arg) {
    (void)arg;
    static char messages[30000];
    strcpy(messages, "[{\"role\": \"user\", \"content\": \"");
    strcat(messages, long_content);
    strcat(messages, "\", \"reasoning\": \"r\"}]");
    made = render_into((render_case){.jinja = long_template,
                                     .messages = messages,
                                     .tools = "[{\"a\": 1.5}]",
                                     .variables = "{\"a\": {\"b\": [1]}}"},
                       &output);
    memory = output.fault.memory || strstr(output.fault.text, "out of memory") != NULL;
    cti_jinja_output_free(&output);
    return made;
}

static void says_memory(const fault_end *end, void *arg) {
    (void)arg;
    FAULT_CK(end, made || memory);
}

START_TEST(a_render_without_memory) {
    const size_t parts = 4;
    long_template = malloc(parts * sizeof part + 1);
    long_content = malloc(20001);
    ck_assert(long_template && long_content);
    *long_template = 0;
    for (size_t i = 0; i < parts; i++)
        memcpy(long_template + i * (sizeof part - 1), part, sizeof part);
    for (size_t i = 0; i < 20000; i++) long_content[i] = "ab c"[i % 4];
    long_content[20000] = 0;
    ck_assert(render_all(NULL));
    fault_sweep(&(fault_case){.name = "a render",
                              .kind = FAULT_CALL,
                              .only = "malloc",
                              .status = CT_ERR_MEMORY,
                              .run = render_all,
                              .end = says_memory,
                              .again = render_all,
                              .least = 10,
                              .sparse = 40});
    free(long_template);
    free(long_content);
}
END_TEST

int main(void) {
    return run_tests("jinja_faults", NULL, NULL, TESTS(TEST(a_render_without_memory)));
}
