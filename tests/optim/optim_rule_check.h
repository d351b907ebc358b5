/* A module, and the states that Lion has by its formula. The suites of optimisers' rules use them.
 */
#ifndef OPTIM_RULE_CHECK_H
#define OPTIM_RULE_CHECK_H

#include <math.h>

#include "tests/support/files.h"
#include "optim_model.h"
#include "tests/support/optim_rules.h"

static inline ct_module *model(void) {
    ct_module *m = model_in(context, CT_F64);
    ck_assert_ptr_nonnull(m);
    return m;
}

static inline void good(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

/* ---- Lion by its formula ---- */

typedef struct {
    double p[MOST], m[MOST], lr_scale, decay;
    int n;
} reference;

static inline void begin(reference *r, double decay) {
    for (int k = 0; k < PARAMS; k++) {
        r[k] = (reference){.n = k < 2 ? MOST : ROWS, .lr_scale = 1, .decay = decay};
        for (int i = 0; i < r[k].n; i++) r[k].p[i] = sin(i + k + 1);
    }
}

static inline void update(reference *r, int k, double lr, double scale, int t) {
    for (int i = 0; i < r->n; i++) {
        const double g = scale * gradient(k, i, t), c = r->m[i] + 0.1 * (g - r->m[i]);
        r->p[i] *= 1 - lr * r->lr_scale * r->decay;
        r->p[i] -= lr * r->lr_scale * (c > 0 ? 1 : -1);
        r->m[i] += (1 - 0.98) * (g - r->m[i]);
    }
}

static inline void is(ct_module *m, const reference *r, double gate) {
    for (int k = 0; k < PARAMS; k++) {
        double got[MOST];
        good(ct_to_f64(ct_module_get(m, names[k]), got, r[k].n));
        for (int i = 0; i < r[k].n; i++)
            ck_assert_msg(fabs(got[i] - r[k].p[i]) <= gate, "%s[%d] is %.17g, not %.17g", names[k],
                          i, got[i], r[k].p[i]);
    }
}

static const ct_optim_opts lion_opts = {.lr = 0.05,
                                        .weight_decay = 0.2,
                                        .clip_norm = 0.7,
                                        .skip_nonfinite = true,
                                        .numbers = (const double[]){0, 0.98}};

#endif
