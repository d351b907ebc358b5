/* Modules of a program with a type: several inputs, data, a description, a copy and an end; scopes
 * of ct_module_enter; functions that run when a module or a context is freed. */

#include "tests/support/memory_faults.h"
#include "tests/support/nn_check.h"

/* ---- a module with two inputs and an end ---- */

/* The calls of functions so far, one letter for each. */
static char seen[64];
static void note(const char *text) {
    ck_assert_uint_lt(strlen(seen) + strlen(text), sizeof seen);
    strcat(seen, text);
}
#define ck_seen(text)                                                                              \
    do {                                                                                           \
        ck_assert_str_eq(seen, text);                                                              \
        seen[0] = 0;                                                                               \
    } while (0)

typedef struct {
    char name[2];
    double factor;
    ct_module *module; /* a copy's own */
} pool_data;

static int pools; /* how many pool_data there are */

static void begin(void) {
    setup();
    seen[0] = 0;
    pools = 0;
}

static pool_data *new_pool_data(char name, double factor) {
    pool_data *data = malloc(sizeof *data);
    ck_assert_ptr_nonnull(data);
    *data = (pool_data){.name = {name}, .factor = factor};
    pools++;
    return data;
}

static ct_tensor *pool_forward(void *data, ct_tensor *x) {
    return ct_scale(x, ((pool_data *)data)->factor);
}
static void pool_describe(const void *data, FILE *file) {
    fprintf(file, "factor=%g", ((const pool_data *)data)->factor);
}
static void *pool_clone(void *data, ct_module *copy) {
    const pool_data *of = data;
    pool_data *own = new_pool_data((char)(of->name[0] - 'a' + 'A'), of->factor);
    own->module = copy;
    return own;
}
static void pool_end(void *data) {
    note(((pool_data *)data)->name);
    free(data);
    pools--;
}
static const ct_module_type pool_type = {.name = "Pool",
                                         .forward = pool_forward,
                                         .describe = pool_describe,
                                         .clone = pool_clone,
                                         .end = pool_end};
static const ct_module_type bare_type = {.name = "Bare"};

/* A Pool with weight (3). */
static ct_module *new_pool_in(ct_context *c, char name, double factor) {
    pool_data *data = new_pool_data(name, factor);
    ct_module *pool = ct_module_new_of(c, &pool_type, data);
    if (!pool) {
        free(data);
        pools--;
        return NULL;
    }
    ct_module_add_param(pool, "weight", ct_ones(c, CT_F64, CT_SHAPE(3)));
    return pool;
}
static ct_module *new_pool(char name) { return new_pool_in(context, name, 2); }

/* y = x weight where the mask is true, otherwise 0; *weights also leaves the scope */
static ct_tensor *pool(ct_module *m, ct_tensor *x, ct_tensor *mask, ct_tensor **weights) {
    ct_scope scope = ct_module_enter(m);
    ct_tensor *y = ct_mul(x, ct_module_get(m, "weight"));
    *weights = ct_scope_keep(scope, ct_exp(y));
    y = ct_where(mask, y, ct_zeros(ct_context_of(x), CT_F64, CT_SCALAR));
    return ct_scope_return(scope, y);
}

static ct_tensor *all_true(ct_shape shape) {
    return ct_logical_not(ct_zeros(context, CT_BOOL, shape));
}

START_TEST(several_inputs) {
    ct_module *m = new_pool('a');
    ct_tensor *x = randn(CT_SHAPE(2, 3)), *weights, *mask = all_true(CT_SHAPE(2, 3));
    ct_tensor *y = pool(m, x, mask, &weights);
    ck_assert(distance(y, x) == 0);
    ck_assert(distance(weights, ct_exp(x)) == 0);
    ct_backward(ct_sum(y, CT_ALL, false));
    ck_assert(distance(ct_grad(ct_module_get(m, "weight")), ct_sum(x, CT_DIMS(0), false)) < 1e-14);
    ct_module_free(m);
    ck_seen("a");
}
END_TEST

START_TEST(forward_of_one_input) {
    ct_module *m = new_pool('a'), *none = ct_module_new_of(context, &bare_type, NULL);
    ct_tensor *x = randn(CT_SHAPE(2, 3));
    ck_assert(distance(ct_forward(m, x), ct_scale(x, 2)) == 0);
    ck_refused(ct_forward(none, x), CT_ERR_ARGUMENT, "Bare", "has no forward of one input");
    ck_refused(ct_module_set_forward(m, pool_forward, NULL), CT_ERR_ARGUMENT,
               "ct_module_set_forward", "Pool");
    /* a built-in layer calls it */
    ct_layer_opts opts = {.embed_dim = 3, .num_heads = 1, .dtype = CT_F64};
    ct_module *encoder = ct_encoder_new(context, opts, 1, false);
    ct_module_free(ct_module_set_child(encoder, "layers.0.norm1", m));
    ck_assert_ptr_nonnull(ct_forward(encoder, randn(CT_SHAPE(1, 2, 3))));
    no_error();
}
END_TEST

START_TEST(data_has_a_type) {
    ct_module *m = new_pool('a'), *linear = ct_dropout_new(context, 0);
    ct_module *bare = ct_module_new_of(context, &bare_type, NULL);
    const pool_data *data = ct_module_data(m, &pool_type);
    ck_assert_ptr_nonnull(data);
    ck_assert(data->factor == 2);
    ck_refused(ct_module_data(m, &bare_type), CT_ERR_ARGUMENT, "expected a Bare", "got a Pool");
    ck_refused(ct_module_data(linear, &pool_type), CT_ERR_ARGUMENT, "Pool", "Dropout");
    ck_refused(ct_module_data(m, NULL), CT_ERR_ARGUMENT, "ct_module_data", "Pool");
    ck_assert_ptr_null(ct_module_data(bare, &bare_type));
    no_error();
    /* the question alone is no error, whatever the module is */
    static const ct_module_type namesake = {.name = "Pool"};
    ck_assert(ct_module_is(m, &pool_type) && !ct_module_is(m, &namesake));
    ck_assert(!ct_module_is(linear, &pool_type) && !ct_module_is(m, NULL));
    no_error();
    ct_fail(context, CT_ERR_ARGUMENT, "of the caller");
    ck_assert_ptr_eq(ct_module_data(m, &pool_type), data);
    ct_error_clear(context);
    ct_module_free(m);
    ck_assert(!ct_module_is(m, &pool_type) && !ct_module_is(NULL, &pool_type));
    no_error();
    ck_refused(ct_module_data(m, &pool_type), CT_ERR_ARGUMENT, "ct_module_data", "has ended");
    ck_assert_ptr_null(ct_module_data(NULL, &pool_type));
    no_error();
    ck_refused(ct_module_new_of(context, NULL, NULL), CT_ERR_ARGUMENT, "ct_module_new_of", "type");
    ck_refused(ct_module_new_of(context, &(ct_module_type){.name = ""}, NULL), CT_ERR_ARGUMENT,
               "ct_module_new_of", "name");
    no_error();
}
END_TEST

static void printed(const ct_module *m, char *text, size_t size) {
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ct_module_print(m, file);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
}

START_TEST(described) {
    char text[256];
    ct_module *m = new_pool('a'), *bare = ct_module_new_of(context, &bare_type, NULL);
    ct_module_add_child(bare, "pool", m);
    printed(m, text, sizeof text);
    ck_assert_str_eq(text, "Pool(factor=2)\n");
    printed(bare, text, sizeof text);
    ck_assert_str_eq(text, "Bare(\n  (pool): Pool(factor=2)\n)\n");
}
END_TEST

/* ---- scopes ---- */

START_TEST(errors_have_the_path) {
    ct_module *outer = ct_module_new_of(context, &bare_type, NULL), *m = new_pool('a');
    ct_module_add_child(outer, "pool", m);
    ct_tensor *weights;
    ck_refused(pool(m, randn(CT_SHAPE(2, 5)), all_true(CT_SHAPE(2, 5)), &weights), CT_ERR_SHAPE,
               "pool: mul", "(2, 5)");
    ck_refused(ct_matmul(randn(CT_SHAPE(2, 5)), randn(CT_SHAPE(2, 5))), CT_ERR_SHAPE, "matmul",
               "(2, 5)");
    /* while a scope is open the module stays; afterwards it may be freed */
    ct_scope scope = ct_module_enter(m), inner = ct_scope_open(context);
    ct_module_free(m);
    expect(CT_ERR_ARGUMENT, "ct_module_free", "the Pool is running");
    ct_module_free(outer);
    expect(CT_ERR_ARGUMENT, "ct_module_free", "the Bare is running");
    ct_tensor *x = randn(CT_SHAPE(2));
    ct_scope_close(scope); /* and with it the inner scope */
    ck_refused(ct_exp(x), CT_ERR_ARGUMENT, "exp", "has ended");
    ct_scope_close(inner);
    ct_module_free(outer);
    ck_seen("a");
    ck_assert_uint_eq(ct_module_enter(m).id, 0);
    expect(CT_ERR_ARGUMENT, "ct_module_enter", "has ended");
    ck_assert_uint_eq(ct_module_enter(NULL).id, 0);
}
END_TEST

START_TEST(the_profile_has_it) {
    ct_module *outer = ct_module_new_of(context, &bare_type, NULL), *m = new_pool('a');
    ct_module_add_child(outer, "pool", m);
    ct_tensor *x = randn(CT_SHAPE(2, 3)), *mask = all_true(CT_SHAPE(2, 3)), *weights;
    ck_assert(ct_profile_start(context));
    for (int i = 0; i < 3; i++) pool(m, x, mask, &weights);
    ct_scope scope = ct_module_enter(outer);
    pool(m, x, mask, &weights);
    ct_scope_close(scope);
    scope = ct_module_enter(outer);
    ck_assert(ct_profile_stop(context));
    ct_scope_close(scope); /* its span has ended */
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ct_profile_print(context, file);
    rewind(file);
    int calls = -1, called = 0;
    for (char line[512]; fgets(line, sizeof line, file);) {
        const char *at = strstr(line, "pool");
        if (at && sscanf(at, "pool %d", &calls) == 1) called += calls;
    }
    fclose(file);
    ck_assert_int_eq(called, 4);
}
END_TEST

/* ---- copies ---- */

START_TEST(cloned) {
    ct_module *outer = new_pool('a');
    ct_module_add_child(outer, "b", new_pool('b'));
    ct_module_add_child(outer, "bare", ct_module_new_of(context, &bare_type, NULL));
    ct_module *copy = ct_module_clone(outer);
    no_error();
    const pool_data *a = ct_module_data(copy, &pool_type),
                    *b = ct_module_data(ct_module_child(copy, "b"), &pool_type);
    ck_assert_str_eq(a->name, "A");
    ck_assert_str_eq(b->name, "B");
    ck_assert_ptr_eq(a->module, copy);
    ck_assert_ptr_eq(b->module, ct_module_child(copy, "b"));
    ct_module_free(outer);
    ck_seen("ab");
    ck_assert(distance(ct_forward(copy, randn(CT_SHAPE(3))), randn(CT_SHAPE(3))) > 0);
    ct_module_free(copy);
    ck_seen("AB");
    ck_assert_int_eq(pools, 0);
}
END_TEST

static void *no_clone(void *data, ct_module *copy) {
    (void)data, (void)copy;
    return NULL;
}
static void *freeing_clone(void *data, ct_module *copy) {
    ct_module_free(copy);
    return data;
}
static void no_end(void *data) { (void)data; }

START_TEST(not_cloned) {
    static const ct_module_type types[] = {
        {.name = "One", .end = no_end},
        {.name = "Two", .clone = no_clone, .end = no_end},
        {.name = "Three", .clone = freeing_clone, .end = no_end}};
    static const char *const why[] = {"no clone", "returned NULL", "is running"};
    for (int i = 0; i < 3; i++) {
        int data = 0;
        ct_module *outer = new_pool('a');
        ct_module_add_child(outer, "first", new_pool('b'));
        ct_module_add_child(outer, "x", ct_module_new_of(context, &types[i], &data));
        ck_refused(ct_module_clone(outer), CT_ERR_ARGUMENT, types[i].name, why[i]);
        ck_seen("B"); /* the part that was copied has ended */
        ct_module_free(outer);
        ck_seen("ab");
    }
    ck_assert_int_eq(pools, 0);
}
END_TEST

/* ---- ends ---- */

static void note_text(void *text) { note(text); }

START_TEST(ends_in_order) {
    ct_module *outer = new_pool('a'), *inner = new_pool('b');
    ct_module_add_child(outer, "inner", inner);
    static char w[] = "w", x[] = "x", y[] = "y", z[] = "z";
    ck_assert(ct_module_on_free(inner, note_text, y));
    ck_assert(ct_module_on_free(outer, note_text, w));
    ck_assert(ct_module_on_free(outer, note_text, x));
    ck_assert(ct_module_on_free(outer, note_text, x));
    ck_assert(ct_module_on_free(outer, NULL, x)); /* one of the two */
    ck_assert(ct_module_on_free(outer, NULL, z)); /* it is not in the list: no effect */
    ck_assert(ct_module_on_free(outer, NULL, ct_module_data(outer, &pool_type))); /* stays */
    ct_fail(context, CT_ERR_ARGUMENT, "of the caller");
    ct_module_free(outer); /* functions run while an error is pending */
    ck_seen("xwayb");
    ct_error_clear(context);
    ck_assert(!ct_module_on_free(NULL, note_text, w));
    ck_refused(ct_module_on_free(outer, note_text, w), CT_ERR_ARGUMENT, "ct_module_on_free",
               "has ended");
}
END_TEST

START_TEST(ends_with_the_context) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    static char u[] = "u", v[] = "v", w[] = "w", x[] = "x";
    ck_assert(ct_context_on_free(c, note_text, u));
    ck_assert(ct_context_on_free(c, note_text, v));
    ct_module *outer = new_pool_in(c, 'a', 1), *inner = new_pool_in(c, 'b', 1);
    ct_module_add_child(outer, "inner", inner);
    ck_assert(ct_module_on_free(inner, note_text, x));
    ck_assert(ct_context_on_free(c, note_text, w));
    ck_assert(ct_context_on_free(c, NULL, v));
    ct_context_free(c);
    ck_seen("waxbu");
    ck_assert(!ct_context_on_free(NULL, note_text, w));
}
END_TEST

/* ---- hostile functions ---- */

static ct_module *victim;

static void use_the_module(void *arg) {
    (void)arg;
    ck_assert(distance(ct_forward(victim, randn(CT_SHAPE(3))), randn(CT_SHAPE(3))) >= 0);
    note("u");
}
static void free_again(void *arg) {
    (void)arg;
    note("f");
    ct_module_free(victim);
}
static void free_the_child(void *arg) {
    (void)arg;
    note("c");
    ct_module_free(ct_module_child(victim, "child"));
}
static void add_another(void *arg) {
    note("n");
    ck_assert(!ct_module_on_free(victim, add_another, arg));
    ck_assert(!ct_module_on_free(ct_module_child(victim, "child"), add_another, arg));
}
static void add_a_child(void *arg) {
    (void)arg;
    note("d");
    ct_module *more = new_pool('m');
    ck_assert_ptr_null(ct_module_add_child(ct_module_child(victim, "child"), "more", more));
}
static void fail_too(void *arg) {
    (void)arg;
    note("e");
    ct_fail(context, CT_ERR_SHAPE, "of the end");
}

static const struct {
    void (*fn)(void *arg);
    const char *seen, *word1, *word2; /* "": no error */
} hostile[] = {{use_the_module, "uab", "", ""},
               {free_again, "fab", "ct_module_free", "is running"},
               {free_the_child, "cba", "", ""},
               {add_another, "nab", "ct_module_on_free", "is being freed"},
               {add_a_child, "dab", "being freed", ""},
               {fail_too, "eab", "of the end", ""}};

START_TEST(hostile_ends) {
    victim = new_pool('a');
    ct_module_add_child(victim, "child", new_pool('b'));
    ck_assert(ct_module_on_free(victim, hostile[_i].fn, NULL));
    ct_module_free(victim);
    if (*hostile[_i].word1) expect(ct_error(context), hostile[_i].word1, hostile[_i].word2);
    no_error();
    ck_seen(hostile[_i].seen);
}
END_TEST

static void add_to_the_context(void *arg) {
    note("n");
    ck_assert(!ct_context_on_free(arg, add_to_the_context, arg));
    ck_assert_int_eq(ct_error(arg), CT_ERR_ARGUMENT);
    ct_error_clear(arg);
    ct_context_free(arg);
    ck_assert_int_eq(ct_error(arg), CT_ERR_ARGUMENT);
    ct_error_clear(arg);
    ct_module *m = new_pool_in(arg, 'z', 1);
    ck_assert_ptr_null(m);
    ck_assert_int_eq(ct_error(arg), CT_ERR_ARGUMENT);
}

START_TEST(hostile_ends_of_a_context) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    ck_assert(ct_context_on_free(c, add_to_the_context, c));
    ct_context_free(c);
    ck_seen("n");
}
END_TEST

/* ---- without memory ---- */

static ct_context *poor;

static void begin_poor(void *arg) {
    (void)arg;
    poor = new_with((ct_context_opts){.threads = 1});
    seen[0] = 0;
}
static bool use_every_door(void *arg) {
    (void)arg;
    static char w[] = "w";
    ct_module *m = new_pool_in(poor, 'a', 1), *child = m ? new_pool_in(poor, 'b', 1) : NULL;
    if (child && !ct_module_add_child(m, "child", child)) ct_module_free(child);
    if (!ct_context_on_free(poor, note_text, w) || !ct_module_on_free(m, note_text, w))
        return false;
    ct_module *copy = ct_module_clone(m);
    ct_scope scope = ct_module_enter(m);
    ct_tensor *y = ct_ones(poor, CT_F64, CT_SHAPE(3));
    ct_scope_return(scope, y);
    return copy && y && ct_error(poor) == CT_OK;
}
static void end_poor(const fault_end *end, void *arg) {
    (void)arg;
    ct_context_free(poor);
    poor = NULL;
    FAULT_CK(end, pools == 0);
}

START_TEST(without_memory) {
    for (int forever = 0; forever < 2; forever++)
        fault_sweep(&(fault_case){.name = "modules of a type",
                                  .kind = FAULT_TAKE,
                                  .forever = forever,
                                  .context = &poor,
                                  .grows = true,
                                  .begin = begin_poor,
                                  .run = use_every_door,
                                  .end = end_poor,
                                  .least = 10});
}
END_TEST

int main(void) {
    return run_tests("module_types", begin, teardown,
                     TESTS(TEST(several_inputs), TEST(forward_of_one_input), TEST(data_has_a_type),
                           TEST(described), TEST(errors_have_the_path), TEST(the_profile_has_it),
                           TEST(cloned), TEST(not_cloned), TEST(ends_in_order),
                           TEST(ends_with_the_context),
                           LOOP(hostile_ends, sizeof hostile / sizeof *hostile),
                           TEST(hostile_ends_of_a_context), TEST(without_memory)));
}
