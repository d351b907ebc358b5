/* This header has the options and the frequencies of rotary positions, for ct_rope, for
 * ct_rope_frequencies and for modules. */
#ifndef CTI_OPS_SUPPORT_ROTARY_H
#define CTI_OPS_SUPPORT_ROTARY_H

#include <cotangent/ops.h>

#include <math.h>

/* Replaces 0 in base and attention_factor by the defaults and in dims by d, the width of the rows.
 * Returns whether all options are in their ranges and every frequency is finite; dims may still be
 * greater than d. If not, records CT_ERR_ARGUMENT. `owner` is the beginning of the error, up to the
 * name of the option: "rope: " or "MultiheadAttention: rotary.". */
bool cti_rotary_check(ct_context *context, const char *owner, ct_rope_opts *opts, int64_t d);

/* Returns the numbers of a dense f64 tensor of frequencies, for the field `frequencies`; NULL for
 * NULL. */
const double *cti_rotary_values(const ct_tensor *frequencies);

/* Returns the frequency of pair j of `half` pairs: base^(-2j/dims). */
static inline double cti_rotary_frequency(double base, int64_t j, int64_t half) {
    return pow(base, -(double)j / (double)half);
}

#endif
