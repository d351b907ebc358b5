/* Handles that have ended, without debug mode: each use is an error, for as many handles as are
 * remembered, and no use crashes. */
#include "ended_uses.h"
#include <math.h>

enum { REMEMBERED = 4096 };

/* A handle that `age` others have ended after, whose memory some of these have had. */
static ct_tensor *ended(int age) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *y = ct_full(context, CT_F32, CT_SHAPE(2, 3), 3);
    ct_scope_close(scope);
    for (int i = 0; i < age; i++) ct_release(ct_full(context, CT_F32, CT_SHAPE(2, 3), 7));
    return y;
}

static void is_an_error(const char *call, const char *function) {
    char begin[64];
    snprintf(begin, sizeof begin, "%s: ", function);
    const char *message = ct_error_message(context);
    ck_assert_msg(ct_error(context) == CT_ERR_ARGUMENT, "%s: %s", call, message);
    ck_assert_msg(!strncmp(message, begin, strlen(begin)), "%s: %s", call, message);
    expect(CT_ERR_ARGUMENT, " has ended: its scope was closed", "CT_DEBUG=1 says what made it");
}

START_TEST(every_use) {
    each_use_of(ended((int[]){0, 1, 2, 31, 32, 33, 500, 3000}[_i]), is_an_error);
}
END_TEST

static void is_harmless(const char *call, const char *function) {
    (void)call, (void)function;
    ct_error_clear(context);
}

START_TEST(the_oldest_crash_nothing) {
    for (int i = 0; i < 40; i++) each_use_of(ended(REMEMBERED + 500 + 777 * i), is_harmless);
}
END_TEST

START_TEST(an_input_is_named) {
    ct_tensor *y = ended(1), *x = ct_ones(context, CT_F32, CT_SHAPE(2, 3));
    ck_refused(ct_add(x, y), CT_ERR_ARGUMENT, "add: input 1 has ended: its scope was closed", "");
    ck_refused(ct_max(y, CT_ALL, false), CT_ERR_ARGUMENT,
               "max: input 0 has ended: its scope was closed", "");
    for (int age = 1; age < 40; age++) { /* no room for outputs: said in the handle's context */
        y = ended(age);
        ck_refused(ct_apply_many(&(ct_op){.name = "several"}, &y, 1, NULL, NULL), CT_ERR_ARGUMENT,
                   "several: outs is NULL", "");
    }
}
END_TEST

/* As many as handle.h says are remembered, in any order of ends, with handles that stay between. */
START_TEST(the_last_are_remembered) {
    static ct_tensor *made[3 * REMEMBERED];
    const int n = 3 * REMEMBERED;
    uint32_t random = 1;
    int first = 0; /* those before have ended, more than REMEMBERED ago */
    static int order[3 * REMEMBERED];
    int ends = 0;
    for (int i = 0; i < n; i++) {
        made[i] = ct_full(context, CT_F32, CT_SCALAR, i);
        random = random * 1664525u + 1013904223u;
        if (random >> 30 == 0) continue; /* a quarter stays */
        ct_release(made[i]);
        order[ends++] = i;
        first = ends > REMEMBERED ? ends - REMEMBERED : 0;
        if (i % 97) continue;
        for (int k = first; k < ends; k += 1 + (ends - first) / 50) {
            ck_assert_msg(!ct_neg(made[order[k]]), "%d of %d ended", k, ends);
            expect(CT_ERR_ARGUMENT, "neg: input 0 has ended", "");
        }
    }
    no_error();
}
END_TEST

/* Handles that programs keep by mistake after their scope: a leaf, a sum of losses, a gradient, a
 * parameter. */
START_TEST(usual_mistakes) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *leaf = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(2)), true);
    ct_scope_close(scope);
    ck_refused(ct_sum(leaf, CT_ALL, false), CT_ERR_ARGUMENT, "sum: input 0 has ended", "");

    ct_tensor *total = ct_zeros(context, CT_F32, CT_SCALAR);
    for (int step = 0; step < 3; step++) {
        scope = ct_scope_open(context);
        total = ct_add(total, ct_full(context, CT_F32, CT_SCALAR, 1));
        ct_scope_close(scope);
    }
    expect(CT_ERR_ARGUMENT, "add: input 0 has ended", "");

    ct_tensor *x = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(2)), true);
    ct_backward(ct_sum(ct_mul(x, x), CT_ALL, false));
    ct_tensor *g = ct_grad(x);
    ct_zero_grad(x);
    ct_full(context, CT_F32, CT_SHAPE(2), 99);
    ck_refused(ct_data_f32(g), CT_ERR_ARGUMENT, "data: the tensor has ended", "");

    ct_module *m = ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 2});
    ct_tensor *weight = ct_module_get(m, "weight");
    ct_module_free(m);
    ck_refused(ct_linear(x, weight, NULL), CT_ERR_ARGUMENT, "linear: input 1 has ended", "");
}
END_TEST

/* A trim gives back no handle's memory. */
START_TEST(trimmed) {
    ct_tensor *kept[2000];
    for (int i = 0; i < 2000; i++) kept[i] = ct_full(context, CT_F32, CT_SCALAR, i);
    for (int i = 0; i < 2000; i++) ct_release(kept[i]);
    ct_memory_trim(context);
    for (int i = 0; i < 2000; i++) {
        ck_assert(isnan(ct_item(kept[i])));
        expect(CT_ERR_ARGUMENT, "item: the tensor has ended", "");
    }
}
END_TEST

/* ---- modules, optimisers and caches that were freed ---- */

static ct_module *linear(void) {
    return ct_linear_new(context, (ct_linear_opts){.in_features = 3, .out_features = 3});
}

/* Others have been freed since, and made. */
static void churn(int age) {
    for (int i = 0; i < age; i++) ct_module_free(linear());
}

static void freed(const char *function, const char *noun) {
    char begin[64], words[64];
    snprintf(begin, sizeof begin, "%s: the %s ", function, noun);
    ck_assert_msg(ct_error(context) == CT_ERR_ARGUMENT, "%s: no error", function);
    ck_assert_msg(!strncmp(ct_error_message(context), begin, strlen(begin)), "%s: %s", function,
                  ct_error_message(context));
    snprintf(words, sizeof words, "has ended: it was freed");
    expect(CT_ERR_ARGUMENT, begin, words);
}

START_TEST(freed_modules) {
    const int age = (int[]){0, 1, 5, 500}[_i];
    const ct_layer_opts layer = {.embed_dim = 3, .num_heads = 1};
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(1, 2, 3));
    ct_module *m = linear(),
              *mha = ct_mha_new(context, (ct_mha_opts){.embed_dim = 3, .num_heads = 1}),
              *encoder = ct_encoder_layer_new(context, layer),
              *decoder = ct_decoder_layer_new(context, layer),
              *stack = ct_encoder_new(context, layer, 1, false),
              *mine = ct_module_new(context, "mine"), *parent = ct_module_new(context, "parent");
    ct_kv_cache *caches[1];
    ct_module *all[] = {m, mha, encoder, decoder, stack, mine};
    for (int i = 0; i < 6; i++) ct_module_free(all[i]);
    churn(age);
    for (int i = 0; i < 6; i++) ct_module_free(all[i]); /* twice is harmless */
    no_error();
#define FREED(call, function) ((void)(call), freed(function, "module"))
    FREED(ct_forward(m, x), "ct_forward");
    FREED(ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){0}).out, "ct_mha_forward");
    FREED(ct_kv_cache_new(mha, 1, 4), "ct_kv_cache_new");
    FREED(ct_encoder_layer_forward(encoder, x, (ct_mha_call){0}).out, "ct_encoder_layer_forward");
    FREED(ct_decoder_layer_forward(decoder, x, x, (ct_mha_call){0}, (ct_mha_call){0}).out,
          "ct_decoder_layer_forward");
    FREED(ct_encoder_forward(stack, x, (ct_stack_call){0}), "ct_encoder_forward");
    FREED(ct_kv_caches_new(stack, 1, 4, caches, 1), "ct_kv_caches_new");
    FREED(ct_module_set_forward(mine, NULL, NULL), "ct_module_set_forward");
    FREED(ct_module_add_param(mine, "w", x), "ct_module_add_param");
    FREED(ct_module_add_child(mine, "c", parent), "ct_module_add_child");
    FREED(ct_module_add_child(parent, "c", mine), "ct_module_add_child");
    FREED(ct_module_set_child(mine, "c", parent), "ct_module_set_child");
    FREED(ct_module_set_child(parent, "c", mine), "ct_module_set_child");
    FREED(ct_module_clone(mine), "ct_module_clone");
    FREED(ct_module_append(mine, "c", parent), "ct_module_append");
    FREED(ct_module_child(m, "c"), "ct_module_child");
    FREED(ct_module_get(m, "weight"), "ct_module_get");
    FREED(ct_module_next(m, &(ct_param){0}), "ct_module_next");
    FREED(ct_module_count(m), "ct_module_next");
    ct_module_train(m, true);
    freed("ct_module_train", "module");
    FREED(ct_module_training(m), "ct_module_training");
    ct_module_print(m, stdout);
    freed("ct_module_print", "module");
    FREED(ct_sgd_new(m, (ct_sgd_opts){.lr = 1}), "SGD");
    FREED(ct_adamw_new(m, (ct_adamw_opts){0}), "AdamW");
    FREED(ct_clip_grad_norm(m, 1), "ct_clip_grad_norm");
    FREED(ct_save(m, "nowhere", (ct_save_opts){0}), "ct_save");
    FREED(ct_load(m, "nowhere", (ct_load_opts){0}), "ct_load");
#undef FREED
}
END_TEST

START_TEST(freed_optimisers_and_caches) {
    ct_module *m = linear(),
              *mha = ct_mha_new(context, (ct_mha_opts){.embed_dim = 3, .num_heads = 1});
    ct_optim *optim = ct_adam_new(m, (ct_adam_opts){0}), *other = ct_adam_new(m, (ct_adam_opts){0});
    ct_kv_cache *cache = ct_kv_cache_new(mha, 1, 4);
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(1, 1, 3));
    ct_optim_free(optim), ct_kv_cache_free(cache);
    churn(40);
    ct_optim_free(optim), ct_kv_cache_free(cache);
    no_error();
    ck_assert(!ct_optim_step(optim));
    freed("ct_optim_step", "optimiser");
    ct_optim_zero_grad(optim);
    freed("ct_optim_zero_grad", "optimiser");
    ct_optim_set_lr(optim, 1);
    freed("ct_optim_set_lr", "optimiser");
    ck_assert(!ct_optim_set(optim, "lr", 1));
    freed("ct_optim_set", "optimiser");
    ck_assert(isnan(ct_optim_grad_norm(optim)));
    freed("ct_optim_grad_norm", "optimiser");
    ck_assert(!ct_optim_group(optim, "*", (ct_group_opts){0}));
    freed("ct_optim_group", "optimiser");
    ck_assert_int_eq(ct_optim_skipped(optim), 0);
    freed("ct_optim_skipped", "optimiser");
    ck_assert(!ct_checkpoint_save("nowhere", &(ct_checkpoint){.module = m, .optim = optim}));
    freed("checkpoint_save", "optimiser");
    ck_assert_int_eq(ct_kv_cache_length(cache), 0);
    freed("ct_kv_cache_length", "cache");
    ck_assert(!ct_kv_cache_truncate(cache, 0));
    freed("ct_kv_cache_truncate", "cache");
    ct_tensor *k = ct_ones(context, CT_F32, CT_SHAPE(1, 1, 1, 3)), *v = k;
    ck_assert(!ct_kv_cache_append(cache, &k, &v));
    freed("ct_kv_cache_append", "cache");
    ck_assert_ptr_null(ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.cache = cache}).out);
    freed("ct_mha_forward", "cache");
    ct_module_free(m); /* and its optimisers */
    ck_assert(!ct_optim_step(other));
    freed("ct_optim_step", "optimiser");
    ct_optim_free(other);
    no_error();
}
END_TEST

/* A NULL module is an error where another argument has a context. */
START_TEST(modules_that_are_null) {
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(1, 2, 3));
    ct_module *m = linear();
#define NONE(call, function)                                                                       \
    ((void)(call), expect(CT_ERR_ARGUMENT, function ": module is NULL", ""))
    NONE(ct_forward(NULL, x), "ct_forward");
    NONE(ct_mha_forward(NULL, x, NULL, NULL, (ct_mha_call){0}).out, "ct_mha_forward");
    NONE(ct_encoder_layer_forward(NULL, x, (ct_mha_call){0}).out, "ct_encoder_layer_forward");
    NONE(ct_decoder_layer_forward(NULL, x, x, (ct_mha_call){0}, (ct_mha_call){0}).out,
         "ct_decoder_layer_forward");
    NONE(ct_encoder_forward(NULL, x, (ct_stack_call){0}), "ct_encoder_forward");
    NONE(ct_decoder_forward(NULL, x, x, (ct_stack_call){0}), "ct_decoder_forward");
    NONE(ct_positions_forward(NULL, x, 0), "ct_positions_forward");
    NONE(ct_positions_forward_at(NULL, x, x), "ct_positions_forward_at");
    NONE(ct_module_add_param(NULL, "w", x), "ct_module_add_param");
    NONE(ct_module_add_child(NULL, "w", m), "ct_module_add_child");
    NONE(ct_module_append(NULL, "w", m), "ct_module_append");
    NONE(ct_module_set_child(NULL, "w", m), "ct_module_set_child");
#undef NONE
}
END_TEST

int main(void) {
    return run_tests("ended", setup, teardown,
                     TESTS(LOOP(every_use, 8), TEST(the_oldest_crash_nothing),
                           TEST(an_input_is_named), TEST(the_last_are_remembered),
                           TEST(usual_mistakes), TEST(trimmed), LOOP(freed_modules, 4),
                           TEST(freed_optimisers_and_caches), TEST(modules_that_are_null)));
}
