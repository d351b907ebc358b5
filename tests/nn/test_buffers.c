/* Buffers: saved if they are persistent, found by name, and neither trained nor counted. */
#include "tests/support/files.h"
#include "tests/support/suite.h"

static void no_error(void) {
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

typedef struct {
    ct_module *root, *child;
    ct_tensor *weight, *steps, *seen, *mean, *scratch;
} counted;

static counted make(int64_t start) {
    counted m = {.root = ct_module_new(context, "Root"), .child = ct_module_new(context, "Child")};
    bool seen[3] = {start > 0, false, true};
    m.weight = ct_module_add_param(m.root, "weight", ct_randn(context, CT_F32, CT_SHAPE(2, 3)));
    m.steps = ct_module_add_buffer(m.root, "steps", ct_from_i64(context, CT_SCALAR, &start), true);
    ct_module_add_child(m.root, "child", m.child);
    m.seen = ct_module_add_buffer(m.child, "seen", ct_from_bool(context, CT_SHAPE(3), seen), true);
    m.mean = ct_module_add_buffer(m.child, "mean",
                                  ct_full(context, CT_F64, CT_SHAPE(5), (double)start), true);
    m.scratch = ct_module_add_buffer(m.child, "scratch",
                                     ct_full(context, CT_F32, CT_SHAPE(7), (double)start), false);
    ct_module_add_buffer(m.child, "same", m.steps, true);
    no_error();
    return m;
}

START_TEST(names_and_counts) {
    counted m = make(4);
    static const char *const names[] = {"steps", "child.seen", "child.mean", "child.scratch"};
    int n = 0;
    for (ct_param b = {0}; ct_module_next_buffer(m.root, &b); n++) {
        ck_assert_int_lt(n, 4);
        ck_assert_str_eq(b.name, names[n]);
        ck_assert(ct_module_get(m.root, b.name) == b.tensor);
        ck_assert(b.owner == (n ? m.child : m.root));
    }
    ck_assert_int_eq(n, 4);
    ck_assert(ct_module_get(m.root, "child.same") == m.steps);
    n = 0;
    for (ct_param p = {0}; ct_module_next(m.root, &p);) n++;
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(ct_module_count(m.root), 6);
    ct_param b = {0};
    ck_assert(!ct_module_next_buffer(NULL, &b) && !ct_module_next_buffer(m.root, NULL));
    no_error();
    ct_module *freed = ct_module_new(context, "M");
    ct_module_free(freed);
    ck_refused(ct_module_next_buffer(freed, &b), CT_ERR_ARGUMENT, "ct_module_next_buffer", "ended");
    ck_refused(ct_module_add_buffer(freed, "b", m.steps, true), CT_ERR_ARGUMENT,
               "ct_module_add_buffer", "ended");
}
END_TEST

START_TEST(saved_if_persistent) {
    counted from = make(4), to = make(0);
    const char *path = in_folder("file"), *checkpoint = in_folder("checkpoint");
    ck_assert(ct_save(from.root, path, (ct_save_opts){0}));
    ct_safetensors *file = ct_safetensors_open(context, path);
    int n = 0;
    for (ct_safetensors_entry e = {0}; ct_safetensors_next(file, &e); n++)
        ck_assert(!strstr(e.name, "scratch") && !strstr(e.name, "same"));
    ck_assert_int_eq(n, 4);
    for (int by = 0; by < 2; by++) {
        to = make(0);
        ct_optim *a = ct_sgd_new(from.root, (ct_sgd_opts){.momentum = 0.5}),
                 *b = ct_sgd_new(to.root, (ct_sgd_opts){.momentum = 0.5});
        if (by) {
            ck_assert(ct_checkpoint_save(
                checkpoint, &(ct_checkpoint){.module = from.root, .optim = a, .step = 3}));
            ck_assert(
                ct_checkpoint_load(checkpoint, &(ct_checkpoint){.module = to.root, .optim = b}));
        } else {
            ck_assert(ct_load(to.root, path, (ct_load_opts){0}));
        }
        no_error();
        ck_assert(*ct_data_i64(to.steps) == 4 && ct_data_bool(to.seen)[0] &&
                  ct_data_f64(to.mean)[4] == 4 && ct_data_f32(to.scratch)[0] == 0);
        ck_assert(same(from.root, to.root));
    }
    /* a file without it is refused, and one with the scratch buffer too */
    ct_module_add_buffer(to.root, "more", ct_zeros(context, CT_BOOL, CT_SHAPE(1)), true);
    ck_refused(ct_load(to.root, path, (ct_load_opts){0}), CT_ERR_FORMAT, path, "missing: more");
    ct_module *one = ct_module_new(context, "One");
    ct_module_add_buffer(one, "scratch", ct_zeros(context, CT_F32, CT_SHAPE(7)), false);
    const ct_named named = {"scratch", from.scratch};
    ck_assert(ct_tensors_save(context, path, &named, 1, (ct_save_opts){0}));
    ck_refused(ct_load(one, path, (ct_load_opts){0}), CT_ERR_FORMAT, path, "unexpected: scratch");
}
END_TEST

START_TEST(refused) {
    counted m = make(1);
    ct_tensor *t = ct_zeros(context, CT_F32, CT_SHAPE(2, 3));
    ct_module *r = m.root;
    ck_refused(ct_module_add_buffer(r, "b", NULL, true), CT_ERR_ARGUMENT, "Root",
               "the buffer \"b\" is NULL");
    ck_refused(ct_module_add_buffer(NULL, "b", t, true), CT_ERR_ARGUMENT, "ct_module_add_buffer",
               "module is NULL");
    ck_assert(!ct_module_add_buffer(NULL, "b", NULL, true));
    ck_refused(ct_module_add_buffer(r, NULL, t, true), CT_ERR_ARGUMENT, "Root", "a name may not");
    ck_refused(ct_module_add_buffer(r, "a.b", t, true), CT_ERR_ARGUMENT, "Root", "a name may not");
    static const char *const taken[] = {"weight", "steps", "child"};
    for (int i = 0; i < 3; i++)
        ck_refused(ct_module_add_buffer(r, taken[i], t, true), CT_ERR_ARGUMENT, "Root", taken[i]);
    ck_refused(ct_module_add_param(r, "steps", t), CT_ERR_ARGUMENT, "Root", "a \"steps\" already");
    ck_refused(ct_module_add_child(r, "steps", ct_module_new(context, "M")), CT_ERR_ARGUMENT,
               "Root", "a \"steps\" already");
    ck_refused(ct_module_add_buffer(r, "b", ct_transpose(t, 0, 1), true), CT_ERR_ARGUMENT, "Root",
               "not contiguous");
    ck_refused(ct_module_add_buffer(r, "b", m.weight, true), CT_ERR_ARGUMENT, "Root",
               "requires a gradient");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ck_assert(!ct_module_add_buffer(r, "b", ct_zeros(other, CT_F32, CT_SHAPE(1)), true));
    ct_error_clear(context);
    ct_context_free(other);
    ck_assert(ct_module_get(r, "b") == NULL);
    ct_error_clear(context);
}
END_TEST

/* A buffer lives as long as its modules, beyond the scope that made it, and then gives its memory
 * back; a full name has the same limit as a parameter's. */
START_TEST(lifetime) {
    const int64_t live = ct_memory(context).live;
    ct_scope scope = ct_scope_open(context);
    counted m = make(9);
    ct_scope_close(scope);
    ck_assert(*ct_data_i64(m.steps) == 9);
    ct_module_free(m.child);
    ck_assert(*ct_data_i64(m.steps) == 9);
    ct_module_free(m.root);
    ck_assert_int_eq(ct_memory(context).live, live);
    no_error();

    ct_module *leaf = ct_module_new(context, "Leaf"), *root = ct_module_new(context, "Root");
    char name[256];
    memset(name, 'n', 250);
    name[250] = 0;
    ct_module_add_buffer(leaf, name, ct_zeros(context, CT_F32, CT_SHAPE(1)), false);
    no_error();
    ck_refused(ct_module_add_child(root, "leaves", leaf), CT_ERR_ARGUMENT, "Root", "bytes, more");
}
END_TEST

/* Steps do not change buffers. */
START_TEST(not_trained) {
    ct_module *m = ct_module_new(context, "M");
    ct_tensor *w = ct_module_add_param(m, "w", ct_ones(context, CT_F32, CT_SHAPE(3)));
    ct_tensor *b = ct_module_add_buffer(m, "b", ct_ones(context, CT_F32, CT_SHAPE(3)), true);
    ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){.lr = 0.5});
    ck_assert(ct_backward(ct_sum(ct_mul(w, b), CT_ALL, false)) && ct_optim_step(optim));
    no_error();
    ck_assert(ct_data_f32(w)[0] == 0.5f && ct_data_f32(b)[0] == 1);
}
END_TEST

int main(void) {
    return run_tests("buffers", setup, teardown,
                     TESTS(TEST(names_and_counts), TEST(saved_if_persistent), TEST(refused),
                           TEST(lifetime), TEST(not_trained)));
}
