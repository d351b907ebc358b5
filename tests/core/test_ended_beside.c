/* Handles and modules that have ended, of another context than the call's other arguments:
 * the error is in both(the caller may look at either), and nothing crashes. */
#include "ended_uses.h"

static ct_context *other;
static bool pending; /* an error is pending in `other` before each call */

static void set_up(void) {
    setup();
    other = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
}
static void tear_down(void) {
    ct_context_free(other);
    teardown();
}

/* A handle of `other` that has ended. Its cell has had `age` handles since, and has the last. */
static ct_tensor *ended(int age) {
    ct_tensor *y = ct_full(other, CT_F32, CT_SHAPE(2, 3), 3);
    ct_release(y);
    for (int i = 0; i < age; i++) {
        ct_tensor *t = ct_ones(other, CT_F32, CT_SHAPE(1, 2, 1, 2, 1, 2, 1, 2));
        if (i < age - 1) ct_release(t);
    }
    return y;
}

/* Whether the call's text has a word that is an argument of `context`. */
static bool has_another(const char *call) {
    static const char *const words[] = {
        "x",        "q",     "three",  "row",       "leaf",    "loss",    "mask",
        "ids",      "index", "linear", "mha",       "encoder", "decoder", "encoders",
        "decoders", "both",  "module", "positions", "cache",   "scope",   "c"};
    for (const char *at = call; *at;) {
        const size_t length =
            strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        for (size_t i = 0; length && i < sizeof words / sizeof *words; i++)
            if (strlen(words[i]) == length && !strncmp(at, words[i], length) &&
                (at == call || at[-1] != '.'))
                return true;
        at += length ? length : 1;
    }
    return false;
}

static void is_an_error_in_both(const char *call, const char *function) {
    const char *message = ct_error_message(context);
    if (has_another(call)) {
        char begin[64];
        snprintf(begin, sizeof begin, "%s: ", function);
        ck_assert_msg(ct_error(context) == CT_ERR_ARGUMENT, "%s: %s", call, message);
        ck_assert_msg(!strncmp(message, begin, strlen(begin)), "%s: %s", call, message);
        ck_assert_msg(strstr(message, " has ended: its scope was closed"), "%s: %s", call, message);
    } else {
        ck_assert_msg(!ct_error(context), "%s: %s", call, message);
    }
    ck_assert_msg(ct_error(other) == (pending ? CT_ERR_IO : CT_ERR_ARGUMENT), "%s: %s", call,
                  ct_error_message(other));
    ck_assert_msg(pending || strstr(ct_error_message(other), " has ended: its scope was closed"),
                  "%s: %s", call, ct_error_message(other));
    ct_error_clear(context), ct_error_clear(other);
    if (pending) ct_fail(other, CT_ERR_IO, "an earlier fault");
}

/* At each offset of a cell, and past the last. */
START_TEST(every_use) { each_use_of(ended(_i), is_an_error_in_both); }
END_TEST

START_TEST(every_use_beside_an_error) {
    ct_tensor *y = ended(_i);
    pending = true;
    ct_fail(other, CT_ERR_IO, "an earlier fault");
    each_use_of(y, is_an_error_in_both);
    pending = false;
}
END_TEST

/* ---- modules, optimisers and caches ---- */

static void freed(const char *call, const char *noun) {
    char words[64];
    snprintf(words, sizeof words, "the %s has ended: it was freed", noun);
    ck_assert_msg(ct_error(context) && strstr(ct_error_message(context), words), "%s: %s", call,
                  ct_error_message(context));
    ck_assert_msg(ct_error(other) && strstr(ct_error_message(other), words), "%s: %s", call,
                  ct_error_message(other));
    ct_error_clear(context), ct_error_clear(other);
}

START_TEST(objects) {
    const ct_layer_opts layer = {.embed_dim = 3, .num_heads = 1};
    const ct_mha_opts one = {.embed_dim = 3, .num_heads = 1};
    const ct_linear_opts square = {.in_features = 3, .out_features = 3};
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(1, 2, 3)),
              *k = ct_ones(context, CT_F32, CT_SHAPE(1, 1, 1, 3)), *v = k;
    ct_module *linear = ct_linear_new(other, square), *mha = ct_mha_new(other, one),
              *encoder = ct_encoder_layer_new(other, layer),
              *decoder = ct_decoder_layer_new(other, layer),
              *stack = ct_encoder_new(other, layer, 1, false),
              *stacked = ct_decoder_new(other, layer, 1, false),
              *both = ct_transformer_new(other, (ct_transformer_opts){.layer = layer,
                                                                      .num_encoder_layers = 1,
                                                                      .num_decoder_layers = 1}),
              *positions =
                  ct_positions_new(other, (ct_positions_opts){.max_length = 4, .embed_dim = 3}),
              *mine = ct_module_new(context, "mine"), *live = ct_linear_new(context, square),
              *attends = ct_mha_new(context, one), *encodes = ct_encoder_layer_new(context, layer),
              *encodes_all = ct_encoder_new(context, layer, 1, false);
    ct_optim *optim = ct_sgd_new(linear, (ct_sgd_opts){.lr = 1}),
             *steps = ct_sgd_new(live, (ct_sgd_opts){.lr = 1});
    ct_kv_cache *cache = ct_kv_cache_new(mha, 1, 4);
    ck_assert_msg(optim && cache && positions && both, "%s", ct_error_message(other));
    no_error();
    ct_kv_cache_free(cache), ct_optim_free(optim);
    ct_module *all[] = {linear, mha, encoder, decoder, stack, stacked, both, positions};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ct_module_free(all[i]);
    for (int i = 0; i < _i; i++) ct_module_free(ct_linear_new(other, square));
    const ct_mha_call plain = {0};
    const ct_stack_call calm = {0};
#define FREED(call, noun) ((void)(call), freed(#call, noun))
    FREED(ct_forward(linear, x), "module");
    FREED(ct_mha_forward(mha, x, NULL, NULL, plain).out, "module");
    FREED(ct_encoder_layer_forward(encoder, x, plain).out, "module");
    FREED(ct_decoder_layer_forward(decoder, x, x, plain, plain).out, "module");
    FREED(ct_encoder_forward(stack, x, calm), "module");
    FREED(ct_decoder_forward(stacked, x, x, calm), "module");
    FREED(ct_transformer_forward(both, x, x, calm, calm), "module");
    FREED(ct_positions_forward(positions, x, 0), "module");
    FREED(ct_positions_forward_at(positions, x, x), "module");
    FREED(ct_module_add_param(linear, "w", x), "module");
    FREED(ct_module_add_buffer(linear, "w", x, true), "module");
    FREED(ct_module_add_child(linear, "c", live), "module");
    FREED(ct_module_add_child(mine, "c", linear), "module");
    FREED(ct_module_append(linear, "c", live), "module");
    FREED(ct_module_append(mine, "c", linear), "module");
    FREED(ct_module_set_child(linear, "c", live), "module");
    FREED(ct_module_set_child(mine, "c", linear), "module");
    FREED(ct_kv_cache_append(cache, &k, &v), "cache");
    FREED(ct_mha_forward(attends, x, NULL, NULL, (ct_mha_call){.cache = cache}).out, "cache");
    FREED(ct_encoder_layer_forward(encodes, x, (ct_mha_call){.cache = cache}).out, "cache");
    FREED(ct_encoder_forward(encodes_all, x, (ct_stack_call){.caches = &cache}), "cache");
    FREED(ct_checkpoint_save("no", &(ct_checkpoint){.module = linear, .optim = steps}), "module");
    FREED(ct_checkpoint_save("no", &(ct_checkpoint){.module = live, .optim = optim}), "optimiser");
    FREED(ct_checkpoint_load("no", &(ct_checkpoint){.module = live, .optim = optim}), "optimiser");
    FREED(
        ct_checkpoint_save("no", &(ct_checkpoint){.module = live, .optims = &optim, .n_optims = 1}),
        "optimiser");
#undef FREED
    no_error();
}
END_TEST

/* Objects that live, of two contexts, also with an error pending in the object's context. */
START_TEST(objects_of_two_contexts) {
    const ct_linear_opts square = {.in_features = 3, .out_features = 3};
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(1, 2, 3)), *k = x, *v = x;
    ct_module *linear = ct_linear_new(other, square), *live = ct_linear_new(context, square),
              *mine = ct_module_new(context, "mine");
    ct_optim *optim = ct_sgd_new(linear, (ct_sgd_opts){.lr = 1});
    ct_kv_cache *cache = ct_kv_cache_new_of(other, CT_F32, 1, 1, 4, 3);
    for (int with = 0; with < 2; with++) {
#define MIXED(call)                                                                                \
    do {                                                                                           \
        if (with) ct_fail(other, CT_ERR_IO, "an earlier fault");                                   \
        (void)(call);                                                                              \
        expect(CT_ERR_ARGUMENT, "context", "");                                                    \
        expect_in(other, with ? CT_ERR_IO : CT_ERR_ARGUMENT, with ? "earlier" : "context", "");    \
    } while (0)
        MIXED(ct_forward(linear, x));
        MIXED(ct_module_add_param(linear, "w", x));
        MIXED(ct_module_add_buffer(linear, "w", x, true));
        MIXED(ct_module_add_child(linear, "c", live));
        MIXED(ct_module_add_child(mine, "c", linear));
        MIXED(ct_module_append(linear, "c", live));
        MIXED(ct_kv_cache_append(cache, &k, &v));
        MIXED(ct_checkpoint_save("no", &(ct_checkpoint){.module = live, .optim = optim}));
        MIXED(ct_checkpoint_load("no", &(ct_checkpoint){.module = live, .optim = optim}));
#undef MIXED
    }
}
END_TEST

int main(void) {
    return run_tests("ended_beside", set_up, tear_down,
                     TESTS(LOOP(every_use, 66), LOOP(every_use_beside_an_error, 8),
                           LOOP(objects, 3), TEST(objects_of_two_contexts)));
}
