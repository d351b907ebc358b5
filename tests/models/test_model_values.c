/* Values of each family against transformers', from a table: texts of config.json in both dialects,
 * biases, windows, frequencies, scales and norms. tests/torch/test_models_live.py has more cases.
 */
#include "model_values.h"
#include "tests/support/refused.h"
#include <math.h>

static ct_context *context;

static void begin_values(void) { context = ct_context_new((ct_context_opts){.threads = 1}); }
static void end_values(void) { ct_context_free(context); }

/* The values of a parameter: 0.2 + 1.2 u, with u uniform in [-0.5, 0.5) by a hash of the name and
 * the index. */
static void fill(const char *name, ct_tensor *to) {
    uint32_t seed = 2166136261U;
    for (const char *at = name; *at; at++) seed = (seed ^ (unsigned char)*at) * 16777619U;
    double *out = ct_data_f64(to);
    for (int64_t i = 0; i < ct_numel(to); i++) {
        uint32_t x = (uint32_t)i * 2654435761U + seed;
        x = (x ^ x >> 16) * 0x7FEB352DU;
        x = (x ^ x >> 15) * 0x846CA68BU;
        x ^= x >> 16;
        out[i] = 0.2 + 1.2 * ((double)x / 4294967296.0 - 0.5);
    }
    ct_wrote(to);
}

static ct_module *model_of(const char *config) {
    char text[1024];
    snprintf(text, sizeof text, "%s", config);
    for (char *at = text; *at; at++)
        if (*at == '\'') *at = '"';
    ct_module *lm = ct_lm_new(context, text, (ct_lm_opts){.dtype = CT_F64});
    ck_assert_msg(lm != NULL, "%s: %s", text, ct_error_message(context));
    ct_module_train(lm, false);
    ct_param param = {0};
    while (ct_module_next(lm, &param)) fill(param.name, param.tensor);
    return lm;
}

START_TEST(values_of_transformers) {
    const char *config = model_values[_i].config;
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_module *lm = model_of(config);
    ct_tensor *ids = ct_from_i64(context, CT_SHAPE(1, MODEL_IDS), model_ids);
    ct_tensor *y = ct_lm_forward(lm, ids, (ct_lm_call){0});
    ck_assert_msg(y != NULL, "%s: %s", config, ct_error_message(context));
    const int64_t size = ct_numel(y);
    ck_assert_int_eq(size, model_values[_i].size);
    const int64_t n = size < MODEL_VALUES ? size : MODEL_VALUES;
    const double *got = ct_data_f64(ct_contiguous(y)) + size - n, *want = model_values[_i].value;
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fabs(want[i]) > most ? fabs(want[i]) : most;
    /* transformers computes some norms and frequencies in f32 */
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) < 5e-6 * most, "%s: value %d is %.9g, not %.9g",
                      config, (int)i, got[i], want[i]);
    ct_scope_close(scope);
}
END_TEST

int main(void) {
    return run_tests(
        "model values", begin_values, end_values,
        TESTS(LOOP(values_of_transformers, (int)(sizeof model_values / sizeof *model_values))));
}
