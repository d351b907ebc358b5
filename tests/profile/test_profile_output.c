/* The profile's limits and its output: tables and a trace. */
#include <unistd.h>

#include "profile_check.h"

/* ---- limits ---- */

START_TEST(more_calls_than_events) {
    enum { CALLS = CT_PROFILE_EVENTS + 100 };
    ct_tensor *x = ct_rand(context, CT_F32, CT_SHAPE(2));
    start();
    const int64_t before = live(), allocations = ct_memory(context).allocator_calls;
    for (int64_t i = 0; i < CALLS; i++) ct_release(ct_neg(x));
    ck_assert_int_eq(live(), before);
    ck_assert_int_le(ct_memory(context).allocator_calls, allocations + 4); /* slabs of handles */
    stop();
    calls(op("neg"), CALLS, 0);
    ck_assert_int_eq(profile()->events_count, CT_PROFILE_EVENTS);
    ck_assert_int_eq(profile()->dropped, 100);
    ck_assert_int_le(profile()->shapes_count, CTI_PROFILE_SHAPES);
    says("The trace has the first 65536 calls; 100 later ones did not fit.");
    no_error();
}
END_TEST

START_TEST(more_shapes_than_room) {
    ct_shape shape = {.ndim = 8, .dim = {1, 1, 1, 1, 1, 1, 1, 1}};
    ct_tensor *x = ct_rand(context, CT_F32, shape);
    start();
    for (int i = 0; i < CT_PROFILE_EVENTS - 1; i++) ct_release(ct_add(x, x));
    stop();
    ck_assert_int_le(profile()->shapes_count, CTI_PROFILE_SHAPES);
    ck_assert_int_gt(profile()->shapes_count, CTI_PROFILE_SHAPES - 600);
    ck_assert_int_eq(profile()->event[0].shapes_count, 28);
    ck_assert_int_eq(profile()->event[CT_PROFILE_EVENTS - 2].shapes_count, 0);
}
END_TEST

START_TEST(more_names_than_rows) {
    static char name[CT_PROFILE_OPS + 10][16];
    static ct_op many[CT_PROFILE_OPS + 10];
    ct_tensor *x = ct_rand(context, CT_F32, CT_SHAPE(2));
    start();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < CT_PROFILE_OPS + 10; i++) {
            snprintf(name[i], sizeof name[i], "op %d", i);
            many[i] = (ct_op){.name = name[i], .forward = twice_forward};
            ct_apply(&many[i], &x, 1, NULL);
        }
    stop();
    calls(op("op 0"), 2, 0);
    calls(op("op 253"), 2, 0); /* with add and scale 256 */
    calls(op("others"), 24, 0);
    start();
    for (int i = 0; i < CT_PROFILE_MODULES + 10; i++) {
        snprintf(name[0], sizeof name[0], "Norm%d", i);
        ct_module *own = ct_module_set_forward(ct_module_new(context, name[0]), calls_twice, NULL);
        ct_forward(own, x);
        ct_module_free(own);
    }
    stop();
    calls(module("Norm1023"), 1, 0);
    calls(module("others"), 10, 0);
    says("others");
    no_error();
}
END_TEST

/* A name is kept, so that it may end; of a long one its first bytes. */
START_TEST(long_names) {
    char *name = malloc(1000);
    memset(name, 'n', 999);
    name[999] = 0;
    const ct_op long_op = {.name = name, .forward = twice_forward};
    ct_tensor *x = ct_rand(context, CT_F32, CT_SHAPE(2));
    start();
    for (int i = 0; i < 2; i++) ct_apply(&long_op, &x, 1, NULL);
    stop();
    memset(name, 'x', 999);
    free(name);
    ck_assert_int_eq(profile()->ops.count, CTI_PROFILE_FIRST + 3);
    const cti_profile_row *row = &profile()->ops.row[CTI_PROFILE_FIRST];
    calls(row, 2, 0);
    ck_assert_uint_eq(strspn(row->name, "n"), CTI_NAME_SIZE - 1);
}
END_TEST

/* ---- what is written ---- */

START_TEST(tables_that_are_printed) {
    ct_module *encoder =
        ct_encoder_new(context, (ct_layer_opts){.embed_dim = 8, .num_heads = 2}, 2, true);
    ct_tensor *x = ct_rand(context, CT_F32, CT_SHAPE(2, 3, 8));
    start();
    ck_assert(ct_backward(total(ct_forward(encoder, x))));
    says("activated_linear");
    ct_exp(x);
    apply(x);
    stop();
    says("\ntw\"i\\c?e?\xff"); /* control characters are printed as ? */
    says("outside ops");
    says(" 1 thread\n");
    says("\nTransformerEncoder  ");
    says("\n  layers.0  ");
    says("\n    layers.0.self_attn  ");
    says("\n      layers.0.self_attn.out_proj  ");
    says("\n    layers.1.norm2  ");
    says("\n  norm  ");
    says("\n-  ");
    double whole, rest;
    ck_assert(sscanf(strstr(printed, "\nTransformerEncoder"), "%*s %*d %lf", &whole) == 1);
    ck_assert(sscanf(strstr(printed, "\noutside ops"), " outside ops %lf", &rest) == 1);
    const int64_t forward = module("TransformerEncoder")->time[0];
    int64_t modules = 0;
    for (int i = CTI_PROFILE_FIRST; i < profile()->modules.count; i++)
        modules += profile()->modules.row[i].time[0];
    ck_assert(modules > forward);
    ck_assert_double_eq_tol(whole, (double)modules * 1e-6, 0.0051);
    const int64_t outside = cti_profile_wall(profile()) - time_of(&profile()->ops);
    ck_assert_double_eq_tol(rest, (double)outside * 1e-6, 0.0051);
    ck_assert(strstr(printed, "\n  layers.0  ") < strstr(printed, "\n    layers.0.self_attn  "));
    ck_assert(strstr(printed, "\n  layers.1  ") > strstr(printed, "\n    layers.0.norm2  "));
    calls(module("layers.0.self_attn"), 1, 0); /* ct_forward and ct_mha_forward are one call */
    calls(module("TransformerEncoder"), 1, 0);
}
END_TEST

/* Loads the trace as strict JSON; each event inside another one or beside it; names and shapes. */
static const char check_trace[] =
    "import json, sys\n"
    "def no(x): raise ValueError(x)\n"
    "d = json.load(open(sys.argv[1], encoding='utf-8'), parse_constant=no)\n"
    "e = [x for x in d['traceEvents'] if x['ph'] == 'X']\n"
    "stack = []\n"
    "for x in sorted(e, key=lambda x: (x['ts'], -x['dur'])):\n"
    "    end = round((x['ts'] + x['dur']) * 1000)\n"
    "    while stack and stack[-1] <= round(x['ts'] * 1000): stack.pop()\n"
    "    assert not stack or end <= stack[-1], x\n"
    "    stack.append(end)\n"
    "by = {(x['name'], x['cat']): x for x in e}\n"
    "name = 'tw\"i\\\\c\\ne\\x01?'\n"
    "assert by[name, 'forward']['args'] == {'module': 'Outer', 'shapes': '(4, 3) -> (4, 3)'}, by\n"
    "assert by[name, 'backward']['args']['module'] == 'Outer'\n"
    "assert by['scale', 'backward']['args']['module'] == 'Outer'\n"
    "assert by['Outer', 'module'] and by['fill', 'update']\n"
    "assert by['linear', 'forward']['args']['shapes'] == '(4, 3), (5, 3), NULL -> (4, 5)'\n"
    "c = [x for x in d['traceEvents'] if x['ph'] == 'C']\n"
    "assert c and all(x['args']['bytes'] > 0 for x in c)\n"
    "assert d['otherData']['dropped_events'] == 0 and d['otherData']['threads'] == 1\n";

START_TEST(a_trace) {
    char path[] = "/tmp/cotangent-trace-XXXXXX", script[sizeof path + 4], command[128];
    const int fd = mkstemp(path);
    ck_assert(fd >= 0 && close(fd) == 0);
    ct_module *outer = ct_module_set_forward(ct_module_new(context, "Outer"), calls_twice, NULL);
    ct_tensor *x = leaf(CT_SHAPE(4, 3));
    start();
    ck_assert(ct_backward(total(ct_forward(outer, x))));
    ct_linear(x, leaf(CT_SHAPE(5, 3)), NULL);
    ct_init_constant(x, 1);
    for (int i = 0; i < 500; i++) ct_neg(x); /* more than a buffer of the writer */
    ck_assert_msg(ct_profile_trace(context, path), "%s", ct_error_message(context));
    ct_exp(x); /* it goes on */
    stop();
    calls(op("exp"), 1, 0);
    snprintf(script, sizeof script, "%s.py", path);
    FILE *file = fopen(script, "w");
    ck_assert(file && fputs(check_trace, file) >= 0 && fclose(file) == 0);
    snprintf(command, sizeof command, "python3 %s %s", script, path);
    ck_assert_int_eq(system(command), 0);
    ck_assert(unlink(script) == 0 && unlink(path) == 0);
    no_error();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("profile output");
    for (int debug = 0; debug < 2; debug++) {
        TCase *tests = tcase_create(debug ? "in debug mode" : "tests");
        tcase_add_checked_fixture(tests, debug ? setup_debug : setup, teardown);
        if (!debug) tcase_add_test(tests, more_calls_than_events);
        if (!debug) tcase_add_test(tests, more_shapes_than_room);
        tcase_add_test(tests, more_names_than_rows);
        tcase_add_test(tests, long_names);
        tcase_add_test(tests, tables_that_are_printed);
        suite_add_tcase(suite, tests);
        TCase *parsed = tcase_create("traces that Python's parser reads");
        tcase_set_tags(parsed, "posix");
        tcase_add_checked_fixture(parsed, debug ? setup_debug : setup, teardown);
        tcase_add_test(parsed, a_trace);
        suite_add_tcase(suite, parsed);
    }
    return run_suite(suite);
}
