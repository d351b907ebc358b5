/* Every public function that takes a tensor is called with one of blocks: it reads it, or refuses
 * it with CT_ERR_DTYPE. And every such function of the headers is among these calls. */
#define USES_COLS 96 /* blocks, and three parts of packed attention */
#include "ended_uses.h"

#include <ctype.h>

static int refused, taken;

/* Calls that only look at the handle or pass it on. */
static bool is_of_the_handle(const char *call) {
    static const char *const calls[] = {"ct_shape_of(",
                                        "ct_dtype_of(",
                                        "ct_ndim(",
                                        "ct_dim(",
                                        "ct_numel(",
                                        "ct_keep(",
                                        "ct_release(",
                                        "ct_scope_",
                                        "ct_wrote(",
                                        "ct_detach(",
                                        "ct_grad(",
                                        "ct_zero_grad(",
                                        "ct_requires_grad(",
                                        "ct_recompute(",
                                        "ct_jacobian(",
                                        "ct_apply(&returning",
                                        "ct_apply(&saving",
                                        "ct_forward(ct_module_set_forward",
                                        "ct_module_add_param("};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strncmp(call, calls[i], strlen(calls[i]))) return true;
    return false;
}

/* Calls that read it. All others are CT_ERR_DTYPE. */
static bool is_read(const char *call) {
    static const char *const calls[] = {"ct_linear(x, y, NULL)",
                                        "ct_activated_linear(x, CT_RELU, y, NULL, NULL)",
                                        "ct_linear_cross_entropy(x, y, ids,",
                                        "ct_embedding(ids, y)",
                                        "ct_index_select(y, 0, ids)",
                                        "ct_clone(y)",
                                        "ct_cast(y, CT_F64)",
                                        "ct_to_f32(",
                                        "ct_to_f64(",
                                        "ct_print(",
                                        "ct_graph_",
                                        "ct_tensors_save("};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strncmp(call, calls[i], strlen(calls[i]))) return true;
    return false;
}

/* Calls that are wrong for a matrix of any dtype, or for one without a gradient. */
static bool is_wrong_anyway(const char *call, ct_status status) {
    if (status == CT_ERR_GRAD)
        return strstr(call, "ct_backward") || strstr(call, "ct_retain_grad") ||
               strstr(call, "ct_watch");
    return status == CT_ERR_FORMAT && strstr(call, "ct_checkpoint_load");
}

static void is_read_or_refused(const char *call, const char *function) {
    const ct_status status = ct_error(context);
    (void)function;
    if (is_read(call)) {
        taken++;
        ck_assert_msg(status == CT_OK, "%s: %s", call, ct_error_message(context));
    } else {
        refused += status == CT_ERR_DTYPE;
        ck_assert_msg(status == CT_ERR_DTYPE || (status == CT_OK && is_of_the_handle(call)) ||
                          (status != CT_OK && is_wrong_anyway(call, status)),
                      "%s: %s", call, status ? ct_error_message(context) : "is taken");
    }
    ct_error_clear(context);
}

START_TEST(every_use) {
    const ct_dtype dtype = _i % 2 ? CT_Q4_0 : CT_Q8_0;
    refused = taken = 0;
    for (int i = 0; i < USE_GROUPS; i++) {
        ct_tensor *y = ct_cast(ct_ones(context, CT_F32, CT_SHAPE(2, USES_COLS)), dtype);
        const ended_use u = uses_of(y, is_read_or_refused);
        use_groups[i](&u);
    }
    remove("nowhere"); /* ct_tensors_save reads blocks, and so writes this file */
    ck_assert_int_gt(refused, 150);
    ck_assert_int_gt(taken, 10);
}
END_TEST

/* ---- the functions of the headers ---- */

static char *file_text(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    char *text = malloc(1 << 20);
    text[fread(text, 1, (1 << 20) - 1, file)] = 0;
    fclose(file);
    return text;
}

/* Whether a declaration, from the name of the function to its ';', has a tensor as an argument. */
static bool takes_a_tensor(const char *at, const char *end) {
    const char *open = memchr(at, '(', (size_t)(end - at));
    for (const char *p = open; p && p < end; p++)
        if (!strncmp(p, "ct_tensor *", 11)) return true;
    return false;
}

START_TEST(every_function_of_the_headers) {
    static const char *const headers[] = {"tensor", "ops",   "autograd", "nn",       "init",
                                          "io",     "optim", "scope",    "gradcheck"};
    char *uses = file_text("tests/core/ended_uses.h");
    int functions = 0;
    if (!uses) return; /* not in the folder of the sources */
    for (size_t h = 0; h < sizeof headers / sizeof *headers; h++) {
        char path[64];
        snprintf(path, sizeof path, "include/cotangent/%s.h", headers[h]);
        char *text = file_text(path), name[64];
        ck_assert_ptr_nonnull(text);
        for (char *at = text; (at = strstr(at, "CT_API "));) {
            char *end = strchr(at, ';'), *open = strchr(at, '(');
            ck_assert(end && open && open < end);
            char *begin = open;
            while (isalnum((unsigned char)begin[-1]) || begin[-1] == '_') begin--;
            snprintf(name, sizeof name, "%.*s(", (int)(open - begin), begin);
            if (takes_a_tensor(begin, end)) {
                functions++;
                /* the elementwise ops of one tensor come from the tables of unary.h */
                bool listed = strstr(uses, name) != NULL;
#define IS_NAMED(op, ...) listed |= !strcmp(name, "ct_" #op "(");
                CTI_UNARY_KERNELS(IS_NAMED, IS_NAMED, IS_NAMED, IS_NAMED)
                CTI_SCALAR_KERNELS(IS_NAMED, IS_NAMED, IS_NAMED)
                ck_assert_msg(listed, "%s of %s is not among the calls of ended_uses.h", name,
                              path);
            }
            at = end;
        }
        free(text);
    }
    free(uses);
    ck_assert_int_gt(functions, 120);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("blocks");
    TCase *tcase = tcase_create("walk");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, every_use, 0, 2);
    tcase_add_test(tcase, every_function_of_the_headers);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
