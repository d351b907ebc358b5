/* Loads by a map, loads of a part, and their reports. */
#include "tests/support/files.h"
#include "tests/support/suite.h"

#define NAMED(...)                                                                                 \
    (const ct_named[]){__VA_ARGS__}, (int64_t)(sizeof((ct_named[]){__VA_ARGS__}) / sizeof(ct_named))

static const char *save(const ct_named *named, int64_t n, ct_save_opts opts) {
    const char *path = in_folder(opts.shard_bytes ? "set" : "theirs.safetensors");
    ck_assert_msg(ct_tensors_save(context, path, named, n, opts), "%s", ct_error_message(context));
    return path;
}

static ct_tensor *random_of(ct_shape shape) { return ct_randn(context, CT_F32, shape); }

static bool load(ct_module *m, const char *path, const ct_load_map *map, int64_t n) {
    return ct_load(m, path, (ct_load_opts){.map = map, .n_map = n});
}
#define AS(name, theirs, ...) {.param = name, .file = theirs, __VA_ARGS__}
#define MAP(...)                                                                                   \
    (const ct_load_map[]){__VA_ARGS__},                                                            \
        (int64_t)(sizeof((ct_load_map[]){__VA_ARGS__}) / sizeof(ct_load_map))

static void ck_equal(ct_tensor *a, ct_tensor *b) {
    const int64_t n = ct_numel(a);
    ck_assert_int_eq(n, ct_numel(b));
    float *x = malloc((size_t)n * 4 + 1), *y = malloc((size_t)n * 4 + 1);
    ck_assert(ct_to_f32(a, x, n) && ct_to_f32(b, y, n) && !memcmp(x, y, (size_t)n * 4));
    free(x);
    free(y);
}

static ct_module *with(const char *name, ct_shape shape) {
    ct_module *m = ct_module_new(context, "M");
    ct_module_add_param(m, name, ct_full(context, CT_F32, shape, -1));
    return m;
}

/* ---- maps ---- */

/* q, k and v of each layer, in shards too, into the packed projection, in any order. */
START_TEST(pieces_fill_a_parameter) {
    enum { E = 6 };
    ct_module *m = ct_encoder_new(
        context, (ct_layer_opts){.embed_dim = E, .num_heads = 2, .hidden = 5}, 2, false);
    ct_tensor *q[2], *k[2], *v[2], *qb[2], *kb[2], *vb[2];
    ct_named named[64];
    static char names[64][64];
    int n = 0;
#define ADD(text, layer, t)                                                                        \
    (snprintf(names[n], sizeof names[n], text, layer), named[n] = (ct_named){names[n], t}, n++,    \
     named[n - 1].tensor)
    for (int l = 0; l < 2; l++) {
        v[l] = ADD("model.%d.v.weight", l, random_of(CT_SHAPE(E, E)));
        q[l] = ADD("model.%d.q.weight", l, random_of(CT_SHAPE(E, E)));
        k[l] = ADD("model.%d.k.weight", l, random_of(CT_SHAPE(E, E)));
        qb[l] = ADD("model.%d.q.bias", l, random_of(CT_SHAPE(E)));
        kb[l] = ADD("model.%d.k.bias", l, random_of(CT_SHAPE(E)));
        vb[l] = ADD("model.%d.v.bias", l, random_of(CT_SHAPE(E)));
    }
    for (ct_param p = {0}; ct_module_next(m, &p);) /* all others by their own names */
        if (!strstr(p.name, "in_proj")) {
            ct_tensor *t = random_of(ct_shape_of(p.tensor));
            strcpy(names[n], p.name);
            named[n] = (ct_named){names[n], t}, n++;
        }
    static const ct_load_map map[] = {
        AS("layers.*.self_attn.in_proj_weight", "model.*.v.weight", .param_start = 2 * E),
        AS("layers.*.self_attn.in_proj_weight", "model.*.q.weight"),
        AS("layers.*.self_attn.in_proj_weight", "model.*.k.weight", .param_start = E),
        AS("layers.*.self_attn.in_proj_bias", "model.*.q.bias"),
        AS("layers.*.self_attn.in_proj_bias", "model.*.k.bias", .param_start = E),
        AS("layers.*.self_attn.in_proj_bias", "model.*.v.bias", .param_start = 2 * E, .rows = E),
    };
    for (int sharded = 0; sharded < 2; sharded++) {
        const char *path = save(named, n, (ct_save_opts){.shard_bytes = sharded ? 300 : 0});
        for (ct_param p = {0}; ct_module_next(m, &p);) ct_init_constant(p.tensor, 9);
        ck_assert_msg(load(m, path, map, 6), "%s", ct_error_message(context));
        for (int l = 0; l < 2; l++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%d.self_attn.in_proj_weight", l);
            ct_tensor *w = ct_module_get(m, name);
            ck_equal(ct_narrow(w, 0, 0, E), q[l]);
            ck_equal(ct_narrow(w, 0, E, E), k[l]);
            ck_equal(ct_narrow(w, 0, 2 * E, E), v[l]);
            snprintf(name, sizeof name, "layers.%d.self_attn.in_proj_bias", l);
            w = ct_module_get(m, name);
            ck_equal(ct_narrow(w, 0, 0, E), qb[l]);
            ck_equal(ct_narrow(w, 0, E, E), kb[l]);
            ck_equal(ct_narrow(w, 0, 2 * E, E), vb[l]);
        }
        for (int i = 12; i < n; i++) ck_equal(ct_module_get(m, names[i]), named[i].tensor);
    }
    DIR *dir = opendir(in_folder("set"));
    for (struct dirent *entry; (entry = readdir(dir));) {
        char name[300];
        snprintf(name, sizeof name, "set/%s", entry->d_name);
        if (entry->d_name[0] != '.') remove(in_folder(name));
    }
    closedir(dir);
}
END_TEST

/* Transposed tensors and rows of them, of other dtypes too. */
START_TEST(transposed) {
    enum { IN = 5, OUT = 9 };
    ct_tensor *theirs = random_of(CT_SHAPE(IN, OUT)), *t = ct_transpose(theirs, 0, 1);
    for (int half = 0; half < 2; half++) {
        const char *path = save(NAMED({"c_attn", theirs}),
                                (ct_save_opts){.floats = half ? CT_FILE_BF16 : CT_FILE_SAME});
        ct_safetensors *file = ct_safetensors_open(context, path);
        if (half) t = ct_transpose(ct_safetensors_read(file, "c_attn"), 0, 1);
        ct_module *m = with("weight", CT_SHAPE(OUT, IN));
        ck_assert_msg(load(m, path, MAP(AS("weight", "c_attn", .transposed = true))), "%s",
                      ct_error_message(context));
        ck_equal(ct_module_get(m, "weight"), t);

        m = with("q", CT_SHAPE(2, IN));
        ct_module_add_param(m, "rest", ct_zeros(context, CT_F32, CT_SHAPE(7, IN)));
        ck_assert_msg(load(m, path,
                           MAP(AS("q", "c_attn", .rows = 2, .transposed = true),
                               AS("rest", "c_attn", .file_start = 2, .transposed = true))),
                      "%s", ct_error_message(context));
        ck_equal(ct_module_get(m, "q"), ct_narrow(t, 0, 0, 2));
        ck_equal(ct_module_get(m, "rest"), ct_narrow(t, 0, 2, 7));
        ct_safetensors_close(file);
    }
}
END_TEST

/* Rows from any place of a tensor to any place of a parameter, of the file's dtype and of another.
 */
START_TEST(rows_of_a_tensor) {
    enum { ROWS = 9, COLS = 5 };
    ct_tensor *t = random_of(CT_SHAPE(ROWS, COLS));
    for (int half = 0; half < 2; half++) {
        const char *path =
            save(NAMED({"all", t}), (ct_save_opts){.floats = half ? CT_FILE_BF16 : CT_FILE_SAME});
        ct_safetensors *file = ct_safetensors_open(context, path);
        ct_tensor *all = ct_safetensors_read(file, "all");
        ct_module *m = with("turned", CT_SHAPE(ROWS, COLS));
        ck_assert_msg(load(m, path,
                           MAP(AS("turned", "all", .param_start = 7, .rows = 2),
                               AS("turned", "all", .file_start = 2, .rows = 7))),
                      "%s", ct_error_message(context));
        ck_equal(ct_narrow(ct_module_get(m, "turned"), 0, 7, 2), ct_narrow(all, 0, 0, 2));
        ck_equal(ct_narrow(ct_module_get(m, "turned"), 0, 0, 7), ct_narrow(all, 0, 2, 7));
        ct_safetensors_close(file);
    }
}
END_TEST

START_TEST(prefix_and_other_names) {
    ct_tensor *w = random_of(CT_SHAPE(3)), *s = random_of(CT_SCALAR),
              *none = random_of(CT_SHAPE(0, 3));
    const char *path =
        save(NAMED({"transformer.w", w}, {"transformer.a.s", s}, {"transformer.none", none}),
             (ct_save_opts){0});
    ct_module *m = with("w", CT_SHAPE(3)), *a = with("s", CT_SCALAR);
    ct_module_add_param(m, "none", ct_zeros(context, CT_F32, CT_SHAPE(0, 3)));
    ct_module_add_child(m, "a", a);
    ct_module_add_param(a, "tied", ct_module_get(m, "w"));
    ck_assert_msg(load(m, path, MAP(AS("*", "transformer.*"))), "%s", ct_error_message(context));
    ck_equal(ct_module_get(m, "w"), w);
    ck_equal(ct_module_get(m, "a.s"), s);
    /* an entry may call a shared parameter by its other name */
    ct_init_constant(ct_module_get(m, "w"), 0);
    ck_assert_msg(load(m, path,
                       MAP(AS("a.tied", "transformer.w"), AS("none", "transformer.none"),
                           AS("a.*", "transformer.a.*"))),
                  "%s", ct_error_message(context));
    ck_equal(ct_module_get(m, "w"), w);
}
END_TEST

static void ck_map(ct_shape shape, const char *path, const ct_load_map *map, int64_t n,
                   ct_status status, const char *says) {
    ct_module *m = with("w", shape);
    const int64_t live = ct_memory(context).live;
    ck_refused(load(m, path, map, n), status, path, says);
    ck_assert_int_eq(ct_memory(context).live, live);
    float *w = ct_data_f32(ct_module_get(m, "w"));
    for (int64_t i = 0; i < ct_numel(ct_module_get(m, "w")); i++) ck_assert(w[i] == -1);
}

START_TEST(map_refuses) {
    int64_t number = 1;
    const char *path =
        save(NAMED({"a", random_of(CT_SHAPE(2, 3))}, {"b", random_of(CT_SHAPE(3, 2))},
                   {"i", ct_from_i64(context, CT_SHAPE(1), &number)}),
             (ct_save_opts){0});
    const ct_shape w = CT_SHAPE(4, 3);
    ck_map(w, path, MAP(AS(NULL, "a")), CT_ERR_ARGUMENT,
           "map entry 0 (NULL): param or file is NULL");
    ck_map(w, path, MAP(AS("w", "a"), AS("w", NULL)), CT_ERR_ARGUMENT, "map entry 1 (w): param or");
    ck_map(w, path, MAP(AS("*w*", "a")), CT_ERR_ARGUMENT, "(*w*): more than one *");
    ck_map(w, path, MAP(AS("w", "*")), CT_ERR_ARGUMENT, "a * in file, but none in param");
    ck_map(w, path, MAP(AS("w", "a", .param_start = -1)), CT_ERR_ARGUMENT, "is negative");
    ck_map(w, path, MAP(AS("w", "a", .file_start = -1)), CT_ERR_ARGUMENT, "is negative");
    ck_map(w, path, MAP(AS("w", "a", .rows = -1)), CT_ERR_ARGUMENT, "is negative");
    ck_map(w, path, MAP(AS("x", "a")), CT_ERR_ARGUMENT, "(x): no parameter has such a name");
    ck_map(w, path, MAP(AS("w*w", "a")), CT_ERR_ARGUMENT, "no parameter has such a name");
    ck_map(w, path, NULL, 1, CT_ERR_ARGUMENT, "map is NULL");
    ck_map(w, path, MAP(AS("w", "a")), CT_ERR_FORMAT,
           "unexpected: i, b; w: the map fills 2 of its 4 rows");
    ck_map(w, path, MAP(AS("w", "a"), AS("w", "a", .param_start = 1)), CT_ERR_FORMAT,
           "w: two entries of the map fill rows from 1 on");
    ck_map(w, path, MAP(AS("w", "a", .rows = 1), AS("w", "a", .param_start = 2)), CT_ERR_FORMAT,
           "w: the map fills 3 of its 4 rows");
    ck_map(w, path, MAP(AS("w", "a"), AS("w", "gone", .param_start = 2)), CT_ERR_FORMAT,
           "missing: gone for w");
    ck_map(w, path, MAP(AS("w", "b")), CT_ERR_FORMAT, "w is f32 (4, 3), file has F32 (3, 2)");
    ck_map(CT_SHAPE(2, 3, 1), path, MAP(AS("w", "a")), CT_ERR_FORMAT, "w is f32 (2, 3, 1)");
    ck_map(w, path, MAP(AS("w", "a", .transposed = true)), CT_ERR_FORMAT, "(2, 3) transposed");
    ck_map(w, path, MAP(AS("w", "a", .param_start = 3)), CT_ERR_FORMAT, "for rows from 3 on");
    ck_map(w, path, MAP(AS("w", "a", .param_start = INT64_MAX, .rows = INT64_MAX)), CT_ERR_FORMAT,
           "for rows from 9223372036854775807 on");
    ck_map(w, path, MAP(AS("w", "a", .file_start = 3)), CT_ERR_FORMAT, "w is f32 (4, 3)");
    ck_map(w, path, MAP(AS("w", "a", .file_start = 1, .rows = INT64_MAX)), CT_ERR_FORMAT,
           "w is f32");
    ck_map(CT_SHAPE(1), path, MAP(AS("w", "i")), CT_ERR_FORMAT, "w is f32 (1), file has I64 (1)");
    ck_map(CT_SCALAR, path, MAP(AS("w", "i", .transposed = true)), CT_ERR_FORMAT, "transposed");
}
END_TEST

/* A tensor that a map takes may also be a parameter's by name, and must fit that one too. */
START_TEST(taken_twice) {
    ct_tensor *theirs = random_of(CT_SHAPE(20, 30));
    const char *path = save(NAMED({"a", theirs}), (ct_save_opts){0});
    const ct_load_map map[] = {AS("w", "a")};
    ct_module *m = with("w", CT_SHAPE(20, 30));
    ct_module_add_param(m, "a", ct_zeros(context, CT_F32, CT_SHAPE(20, 30)));
    ck_assert_msg(load(m, path, map, 1), "%s", ct_error_message(context));
    ck_equal(ct_module_get(m, "w"), theirs);
    ck_equal(ct_module_get(m, "a"), theirs);
    m = with("w", CT_SHAPE(20, 30));
    ct_module_add_param(m, "a", ct_zeros(context, CT_F32, CT_SHAPE(1)));
    ck_refused(load(m, path, map, 1), CT_ERR_FORMAT, path, "a has shape (1), file has (20, 30)");
    ck_assert(ct_load(m, path, (ct_load_opts){.partial = true, .map = map, .n_map = 1}));
    ck_equal(ct_module_get(m, "w"), theirs);
    ck_assert(ct_data_f32(ct_module_get(m, "a"))[0] == 0);
}
END_TEST

/* ---- parts and reports ---- */

START_TEST(the_report) {
    ct_module *m = with("fits", CT_SHAPE(2));
    ct_module_add_param(m, "shape", ct_full(context, CT_F32, CT_SHAPE(2), -1));
    ct_module_add_param(m, "mapped", ct_full(context, CT_F32, CT_SHAPE(4), -1));
    char name[300];
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "missing%d", i);
        ct_module_add_param(m, name, ct_zeros(context, CT_F32, CT_SHAPE(1)));
    }
    memset(name, 'x', 299);
    name[299] = 0;
    ct_tensor *two = random_of(CT_SHAPE(2));
    const char *path = save(NAMED({"fits", two}, {"shape", random_of(CT_SHAPE(3))}, {name, two}),
                            (ct_save_opts){0});
    ct_load_report report = {.loaded = 77};
    ct_load_opts opts = {.partial = true, .report = &report};
    ck_assert_msg(ct_load(m, path, opts), "%s", ct_error_message(context));
    ck_equal(ct_module_get(m, "fits"), two);
    ck_assert(ct_data_f32(ct_module_get(m, "shape"))[0] == -1);
    ck_assert(report.loaded == 1 && report.missing == 7 && report.unexpected == 1 &&
              report.mismatched == 1);
    ck_assert_str_eq(report.loaded_names[0], "fits");
    ck_assert_str_eq(report.loaded_names[1], "");
    ck_assert_str_eq(report.missing_names[0], "mapped");
    ck_assert_str_eq(report.missing_names[3], "missing2");
    ck_assert_str_eq(report.mismatched_names[0], "shape");
    ck_assert_uint_eq(strlen(report.unexpected_names[0]), 127);
    ck_assert_ptr_nonnull(strstr(report.unexpected_names[0], "xx...xx"));

    const char *printed = printed_report(&report);
    ck_assert_ptr_nonnull(
        strstr(printed, "loaded 1: fits\nmissing 7: mapped, missing0, missing1, missing2, ...\n"
                        "unexpected 1: xxx"));
    ck_assert_ptr_nonnull(strstr(printed, "\nmismatched 1: shape\n"));
    ct_load_report_print(NULL, stdout);
    ct_load_report_print(&report, NULL);

    /* a failed load has loaded nothing, and the report says why */
    opts.partial = false;
    ck_assert(!ct_load(m, path, opts));
    ct_error_clear(context);
    ck_assert(report.loaded == 0 && !*report.loaded_names[0] && report.missing == 7 &&
              report.unexpected == 1 && report.mismatched == 1);
    ck_assert(!ct_load(m, in_folder("none"), opts));
    ct_error_clear(context);
    ck_assert(report.missing == 0 && !*report.missing_names[0]);

    /* either all pieces of a mapped parameter are read, or none */
    const ct_load_map map[] = {AS("mapped", "fits"), AS("mapped", "gone", .param_start = 2)};
    opts = (ct_load_opts){.partial = true, .map = map, .n_map = 2, .report = &report};
    ck_assert_msg(ct_load(m, path, opts), "%s", ct_error_message(context));
    ck_assert(ct_data_f32(ct_module_get(m, "mapped"))[0] == -1);
    ck_assert(report.loaded == 1 && report.missing == 7);
    opts.n_map = 1; /* a hole */
    ck_assert(ct_load(m, path, opts) && report.mismatched == 2 && report.missing == 6);
    ck_assert(ct_data_f32(ct_module_get(m, "mapped"))[0] == -1);
}
END_TEST

START_TEST(a_part_that_fits_nothing) {
    const char *path = save(NAMED({"other", random_of(CT_SHAPE(2))}), (ct_save_opts){0});
    const ct_load_opts partial = {.partial = true};
    ck_refused(ct_load(two_numbers(), path, partial), CT_ERR_FORMAT, path,
               "nothing in it fits the module");
    path = save(NULL, 0, (ct_save_opts){0});
    ck_refused(ct_load(two_numbers(), path, partial), CT_ERR_FORMAT, path, "nothing in it fits");
    ck_assert(ct_load(ct_module_new(context, "Nothing"), path, partial));
}
END_TEST

/* Two matrices of 1 MB, of which one has two names. */
static ct_module *two_matrices(double value) {
    const ct_shape shape = CT_SHAPE(512, 512);
    ct_module *m = ct_module_new(context, "M");
    ct_module_add_param(m, "first", ct_full(context, CT_F32, shape, value));
    ct_module_add_param(m, "second", ct_full(context, CT_F32, shape, value));
    ct_module_add_param(m, "again", ct_module_get(m, "second"));
    return m;
}

/* Values without a copy: the memory of neither matrix is needed twice. */
START_TEST(without_copies) {
    enum { MATRIX = 512 * 512 * 4 };
    ct_tensor *first = random_of(CT_SHAPE(512, 512)), *second = random_of(CT_SHAPE(512, 512));
    const char *path = save(NAMED({"first", first}, {"again", second}), (ct_save_opts){0});
    for (int in_place = 0; in_place < 2; in_place++) {
        ct_module *m = two_matrices(-1);
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(1, 512)), true);
        ct_tensor *y = ct_sum(ct_matmul(x, ct_module_get(m, "first")), CT_ALL, false);
        const int64_t before = ct_memory(context).live;
        ct_memory_reset_peak(context);
        ck_assert(ct_load(m, path, (ct_load_opts){.in_place = in_place}));
        const int64_t more = ct_memory(context).peak - before;
        ck_assert_msg(in_place ? more < MATRIX / 2 : more >= 2 * MATRIX, "%lld", (long long)more);
        ck_equal(ct_module_get(m, "first"), first);
        ck_equal(ct_module_get(m, "second"), second);
        ck_refused(ct_backward(y), CT_ERR_GRAD, "matmul", "changed");
        ct_scope_close(scope);
    }
    ct_module *m = two_matrices(-1); /* both names of a shared parameter, with the same values */
    path = save(NAMED({"first", first}, {"second", second}, {"again", second}), (ct_save_opts){0});
    ck_assert(ct_load(m, path, (ct_load_opts){.in_place = true}));
    ck_equal(ct_module_get(m, "second"), second);
    path = save(NAMED({"first", first}, {"second", first}, {"again", second}), (ct_save_opts){0});
    m = two_matrices(-1); /* a fault in a header, or names that differ, change nothing */
    ck_refused(ct_load(m, path, (ct_load_opts){.in_place = true}), CT_ERR_FORMAT, "again",
               "second");
    ck_assert(ct_data_f32(ct_module_get(m, "first"))[0] == -1);
}
END_TEST

int main(void) {
    return run_tests("load map", setup, teardown,
                     TESTS(TEST(pieces_fill_a_parameter), TEST(transposed), TEST(rows_of_a_tensor),
                           TEST(prefix_and_other_names), TEST(map_refuses), TEST(taken_twice),
                           TEST(the_report), TEST(a_part_that_fits_nothing), TEST(without_copies)));
}
