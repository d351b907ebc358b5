#include "rotary.h"
#include "op.h"

static bool is_factor(double value) { return value > 0 && !isinf(value); }

bool cti_rotary_check(ct_context *context, const char *owner, ct_rope_opts *opts, int64_t d) {
    opts->base = cti_option(opts->base, 10000);
    opts->attention_factor = cti_option(opts->attention_factor, 1);
    if (!is_factor(opts->base))
        return ct_fail(context, CT_ERR_ARGUMENT, "%sbase is %g, must be finite and greater than 0",
                       owner, opts->base);
    if (!is_factor(opts->attention_factor))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%sattention_factor is %g, must be finite and greater than 0", owner,
                       opts->attention_factor);
    if (opts->dims < 0 || opts->dims % 2 != 0)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%sdims is %lld, must be an even number of at least 0", owner,
                       (long long)opts->dims);
    if (!opts->dims) opts->dims = d;
    for (int64_t j = 0; opts->frequencies && opts->dims <= d && j < opts->dims / 2; j++)
        if (!isfinite(opts->frequencies[j]))
            return ct_fail(context, CT_ERR_ARGUMENT, "%sfrequencies[%lld] is %g, must be finite",
                           owner, (long long)j, opts->frequencies[j]);
    return true;
}

const double *cti_rotary_values(const ct_tensor *frequencies) {
    if (!frequencies) return NULL;
    CTI_ASSERT(frequencies->dtype == CT_F64 && frequencies->contiguous);
    return (const double *)frequencies->data;
}
