/* The frequencies of models with scaled positions, by the formulas of transformers'
 * modeling_rope_utils.py. ops.h has them. */
#include "support/op.h"
#include "support/rotary.h"

/* Which options a kind uses, besides base and dims. */
typedef struct {
    const char *name;
    bool factor, length, band, attention, magnitude, factors;
    double low, high; /* the defaults */
} rope_kind;

static const rope_kind rope_kinds[] = {
    [CT_ROPE_DEFAULT] = {.name = "CT_ROPE_DEFAULT"},
    [CT_ROPE_LINEAR] = {.name = "CT_ROPE_LINEAR", .factor = true},
    [CT_ROPE_LLAMA3] = {.name = "CT_ROPE_LLAMA3",
                        .factor = true,
                        .length = true,
                        .band = true,
                        .low = 1,
                        .high = 4},
    [CT_ROPE_YARN] = {.name = "CT_ROPE_YARN",
                      .factor = true,
                      .length = true,
                      .band = true,
                      .attention = true,
                      .magnitude = true,
                      .low = 1,
                      .high = 32},
    [CT_ROPE_LONGROPE] = {.name = "CT_ROPE_LONGROPE",
                          .factor = true,
                          .length = true,
                          .attention = true,
                          .factors = true},
};

/* ---- checks ---- */

static bool refuse(ct_context *context, const char *option, double value, const char *must) {
    return ct_fail(context, CT_ERR_ARGUMENT, "rope_frequencies: %s is %.10g, must be %s", option,
                   value, must);
}

/* Returns whether the value is finite and greater than 0. */
static bool scaling_is_positive(ct_context *context, const char *option, double value) {
    return (value > 0 && !isinf(value)) ||
           refuse(context, option, value, "finite and greater than 0");
}

/* Returns whether only options are set that the kind uses. */
static bool scaling_is_used(ct_context *context, const ct_rope_scaling_opts *o,
                            const rope_kind *kind) {
    const struct {
        const char *name;
        bool set, used;
    } option[] = {
        {"factor", o->factor != 0, kind->factor},
        {"original_length", o->original_length != 0, kind->length},
        {"low", o->low != 0, kind->band},
        {"high", o->high != 0, kind->band},
        {"attention_factor", o->attention_factor != 0, kind->attention},
        {"mscale", o->mscale != 0, kind->magnitude},
        {"mscale_all_dim", o->mscale_all_dim != 0, kind->magnitude},
        {"no_truncate", o->no_truncate, kind->magnitude},
        {"factors", o->factors != NULL, kind->factors},
    };
    for (int i = 0; i < COUNT(option); i++)
        if (option[i].set && !option[i].used)
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "rope_frequencies: %s is set, which %s does not use", option[i].name,
                           kind->name);
    return true;
}

/* Replaces the limits of the band by their defaults if they are 0, and checks them. */
static bool scaling_check_band(ct_context *context, ct_rope_scaling_opts *o,
                               const rope_kind *kind) {
    o->low = cti_option(o->low, kind->low);
    o->high = cti_option(o->high, kind->high);
    if (!scaling_is_positive(context, "low", o->low) ||
        !scaling_is_positive(context, "high", o->high))
        return false;
    if (o->high < o->low || (o->high == o->low && o->kind == CT_ROPE_LLAMA3))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "rope_frequencies: high is %g, must be more than low, which is %g", o->high,
                       o->low);
    return true;
}

static bool scaling_check_factors(ct_context *context, const ct_rope_scaling_opts *o) {
    if (!o->factors)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "rope_frequencies: factors is NULL, and CT_ROPE_LONGROPE needs them");
    for (int64_t j = 0; j < o->dims / 2; j++)
        if (!(o->factors[j] > 0) || isinf(o->factors[j]))
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "rope_frequencies: factors[%lld] is %g, must be finite and greater "
                           "than 0",
                           (long long)j, o->factors[j]);
    return true;
}

/* Replaces options that are 0 by their defaults, and checks all. */
static bool scaling_check(ct_context *context, ct_rope_scaling_opts *o) {
    if ((unsigned)o->kind >= COUNT(rope_kinds))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "rope_frequencies: kind is %d, which is no ct_rope_scaling", (int)o->kind);
    const rope_kind *kind = &rope_kinds[o->kind];
    o->base = cti_option(o->base, 10000);
    if (!scaling_is_positive(context, "base", o->base)) return false;
    if (o->kind == CT_ROPE_YARN && o->base <= 1)
        return refuse(context, "base", o->base, "more than 1 for CT_ROPE_YARN");
    if (o->dims < 2 || o->dims % 2 != 0)
        return refuse(context, "dims", (double)o->dims, "an even number of at least 2");
    if (!scaling_is_used(context, o, kind)) return false;
    if (o->attention_factor != 0 &&
        !scaling_is_positive(context, "attention_factor", o->attention_factor))
        return false;
    if (kind->factors && !scaling_check_factors(context, o)) return false;
    /* with an attention_factor the frequencies of LongRoPE need neither of the next two */
    const bool needed = o->kind != CT_ROPE_LONGROPE || o->attention_factor == 0;
    if (kind->factor && (needed || o->factor != 0) &&
        !scaling_is_positive(context, "factor", o->factor))
        return false;
    const int64_t least = o->kind == CT_ROPE_LONGROPE ? 2 : 1;
    if (kind->length && (needed || o->original_length != 0) && o->original_length < least)
        return refuse(context, "original_length", (double)o->original_length,
                      least == 2 ? "at least 2" : "at least 1");
    if (kind->band && !scaling_check_band(context, o, kind)) return false;
    if (!(o->mscale >= 0) || isinf(o->mscale))
        return refuse(context, "mscale", o->mscale, "finite and at least 0");
    if (!(o->mscale_all_dim >= 0) || isinf(o->mscale_all_dim))
        return refuse(context, "mscale_all_dim", o->mscale_all_dim, "finite and at least 0");
    return true;
}

/* ---- formulas ---- */

#define TWO_PI 6.283185307179586476925286766559

static double llama3_frequency(const ct_rope_scaling_opts *o, double rate) {
    /* the rotations of this pair in the original length */
    const double turns = (double)o->original_length * rate / TWO_PI;
    if (turns < o->low) return rate / o->factor;
    if (turns > o->high) return rate;
    const double s = (turns - o->low) / (o->high - o->low);
    return (1 - s) * rate / o->factor + s * rate;
}

/* Returns the pair, as a real number, that makes so many rotations in the original length. */
static double yarn_pair(const ct_rope_scaling_opts *o, double rotations) {
    return (double)o->dims * log((double)o->original_length / (TWO_PI * rotations)) /
           (2 * log(o->base));
}

static double yarn_frequency(const ct_rope_scaling_opts *o, double rate, int64_t j) {
    double first = yarn_pair(o, o->high), last = yarn_pair(o, o->low);
    if (!o->no_truncate) first = floor(first), last = ceil(last);
    first = fmax(first, 0), last = fmin(last, (double)o->dims - 1);
    if (first == last) last += 0.001;
    const double slowed = fmin(fmax(((double)j - first) / (last - first), 0), 1);
    return rate / o->factor * slowed + rate * (1 - slowed);
}

static double scaled_frequency(const ct_rope_scaling_opts *o, int64_t j) {
    const double rate = cti_rotary_frequency(o->base, j, o->dims / 2);
    switch (o->kind) {
    case CT_ROPE_LINEAR: return rate / o->factor;
    case CT_ROPE_LLAMA3: return llama3_frequency(o, rate);
    case CT_ROPE_YARN: return yarn_frequency(o, rate, j);
    case CT_ROPE_LONGROPE: return rate / o->factors[j];
    default: return rate;
    }
}

static double yarn_magnitude(double factor, double m) {
    return factor > 1 ? 0.1 * m * log(factor) + 1 : 1;
}

static double attention_factor_of(const ct_rope_scaling_opts *o) {
    if (o->attention_factor != 0) return o->attention_factor;
    if (o->kind == CT_ROPE_YARN)
        return o->mscale > 0 && o->mscale_all_dim > 0
                   ? yarn_magnitude(o->factor, o->mscale) /
                         yarn_magnitude(o->factor, o->mscale_all_dim)
                   : yarn_magnitude(o->factor, 1);
    if (o->kind == CT_ROPE_LONGROPE && o->factor > 1)
        return sqrt(1 + log(o->factor) / log((double)o->original_length));
    return 1;
}

bool ct_rope_frequencies(ct_context *context, ct_rope_scaling_opts opts, double *frequencies,
                         double *attention_factor) {
    if (!cti_ready(context)) return false;
    if (!frequencies)
        return ct_fail(context, CT_ERR_ARGUMENT, "rope_frequencies: frequencies is NULL");
    if (!scaling_check(context, &opts)) return false;
    for (int64_t j = 0; j < opts.dims / 2; j++) frequencies[j] = scaled_frequency(&opts, j);
    if (attention_factor) *attention_factor = attention_factor_of(&opts);
    return true;
}
