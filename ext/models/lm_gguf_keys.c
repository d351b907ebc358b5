/* The keys of GGUF files that have a number of config.json, and the divisors of rotary
 * frequencies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lm_gguf.h"

const cti_lm_gguf_key cti_lm_gguf_keys[] = {
    {"context_length", CTI_LM_GGUF_U32, CTI_LM_MAX_LENGTH, true},
    {"embedding_length", CTI_LM_GGUF_U32, CTI_LM_WIDTH, true},
    {"block_count", CTI_LM_GGUF_U32, CTI_LM_LAYERS, true},
    {"feed_forward_length", CTI_LM_GGUF_U32, CTI_LM_HIDDEN, true},
    {"attention.head_count", CTI_LM_GGUF_U32, CTI_LM_HEADS, true},
    {"attention.head_count_kv", CTI_LM_GGUF_U32, CTI_LM_KV_HEADS, false},
    {"attention.key_length", CTI_LM_GGUF_U32, CTI_LM_HEAD_DIM, false},
    {"attention.value_length", CTI_LM_GGUF_U32, CTI_LM_HEAD_DIM, false},
    {"attention.layer_norm_rms_epsilon", CTI_LM_GGUF_F32, CTI_LM_EPS, true},
    {"attention.layer_norm_epsilon", CTI_LM_GGUF_F32, CTI_LM_EPS, true},
    {"attention.sliding_window", CTI_LM_GGUF_U32, CTI_LM_WINDOW, false},
    {"final_logit_softcapping", CTI_LM_GGUF_F32, CTI_LM_FINAL_CAP, false},
    {"attention.scale", CTI_LM_GGUF_F32, CTI_LM_SCORE_SCALE, false},
    {"embedding_scale", CTI_LM_GGUF_F32, CTI_LM_EMBED_SCALE, false},
    {"residual_scale", CTI_LM_GGUF_F32, CTI_LM_RESIDUAL_SCALE, false},
    {"logit_scale", CTI_LM_GGUF_F32, CTI_LM_LOGITS_DIVISOR, false},
    {"use_parallel_residual", CTI_LM_GGUF_FLAG, CTI_LM_PARALLEL, true},
    {.key = NULL},
};

const cti_lm_key *cti_lm_gguf_row(const cti_lm_family *family, cti_lm_number number) {
    for (const cti_lm_key *row = family->keys; row->key; row++)
        if (row->kind <= CTI_LM_NAME && row->number == number) return row;
    return NULL;
}

bool cti_lm_gguf_has(const cti_lm_family *family, const cti_lm_gguf_key *row) {
    /* other families have the key of a window without following it in every reader */
    if (row->number == CTI_LM_WINDOW) return family->local_base != 0;
    if (row->number == CTI_LM_EPS) return family->rms == (strstr(row->key, "rms") != NULL);
    return cti_lm_gguf_row(family, row->number) != NULL;
}

/* ---- Llama 3's frequencies ---- */

/* A dim's length of wave w is 2 pi / its frequency. The divisor is 1 where w < original / high, the
 * factor where w > original / low, and between them
 *
 *     1 / ((1 - s) / factor + s),    s = (original / w - low) / (high - low)
 *
 * in f32, each step rounded as PyTorch's tensors do: a number over a tensor is its reciprocal times
 * the number. */
void cti_lm_gguf_divisors(cti_lm_gguf_llama3 rope, int64_t head_dim, float *divisor) {
    const float factor = (float)rope.factor, low = (float)rope.low,
                span = (float)(rope.high - rope.low), original = (float)rope.original,
                turn = (float)(2 * 3.14159265358979323846);
    for (int64_t i = 0; i < head_dim / 2; i++) {
        const float exponent = (float)(2 * i) / (float)head_dim;
        const float power = (float)pow((float)rope.base, exponent);
        const float frequency = 1.0f / power;
        const float inverse = 1.0f / frequency;
        const float wave = inverse * turn;
        if ((double)wave < rope.original / rope.high) {
            divisor[i] = 1;
        } else if ((double)wave > rope.original / rope.low) {
            divisor[i] = factor;
        } else {
            const float turns = 1.0f / wave;
            const float above = turns * original - low;
            const float s = above / span;
            const float part = (1 - s) / factor;
            const float sum = part + s;
            divisor[i] = 1.0f / sum;
        }
    }
}

static double wave_of(double base, int64_t head_dim, int64_t i) {
    return 2 * 3.14159265358979323846 * pow(base, (double)(2 * i) / (double)head_dim);
}

static bool divisors_are(const float *divisor, int64_t head_dim, cti_lm_gguf_llama3 rope,
                         double error) {
    enum { MOST_DIM = 4096 };
    float own[MOST_DIM / 2];
    if (head_dim > MOST_DIM) return false;
    cti_lm_gguf_divisors(rope, head_dim, own);
    for (int64_t i = 0; i < head_dim / 2; i++)
        if (!(fabs((double)own[i] - (double)divisor[i]) <= error * (double)own[i])) return false;
    return true;
}

/* s is linear in 1 / w: s = slope / w - intercept. If the file has two divisors between 1 and the
 * factor, they say slope and intercept. The others only say between which lengths of wave the two
 * limits lie, and any limits there give the same divisors. */
bool cti_lm_gguf_find_llama3(const float *divisor, int64_t head_dim, cti_lm_gguf_llama3 *rope) {
    const int64_t n = head_dim / 2;
    const double most = n ? (double)divisor[n - 1] : 1;
    int64_t ones = 0, end = n;
    while (ones < n && fabs((double)divisor[ones] - 1) < 1e-6) ones++;
    while (end > ones && fabs((double)divisor[end - 1] - most) < 1e-6 * most) end--;
    rope->factor = fabs(most - round(most)) < 1e-6 * most ? round(most) : most;
    if (!(rope->factor > 1) || isinf(rope->factor)) return false;
    double short_wave = ones ? wave_of(rope->base, head_dim, ones - 1) : 0, /* below the limits */
        long_wave = wave_of(rope->base, head_dim, end < n ? end : n - 1), high_wave,
           low_wave;   /* the limits: original / high and original / low */
    if (ones == end) { /* none lies between them */
        if (end == n) return false;
        high_wave = short_wave + (long_wave - short_wave) / 3;
        low_wave = short_wave + (long_wave - short_wave) * 2 / 3;
    } else {
        const double factor = rope->factor, first = wave_of(rope->base, head_dim, ones),
                     s = (factor / (double)divisor[ones] - 1) / (factor - 1);
        if (end - ones > 1) {
            const double last = wave_of(rope->base, head_dim, end - 1),
                         t = (factor / (double)divisor[end - 1] - 1) / (factor - 1);
            const double slope = (s - t) / (1 / first - 1 / last), intercept = slope / first - s;
            low_wave = slope / intercept, high_wave = slope / (1 + intercept);
        } else { /* one of the limits may be chosen: the one of long waves */
            low_wave = first + (long_wave > first ? (long_wave - first) / 2 : first);
            for (int i = 0; i < 64; i++, low_wave = first + (low_wave - first) / 2) {
                high_wave = 1 / (1 / low_wave + (1 / first - 1 / low_wave) / s);
                if (high_wave > short_wave) break;
            }
        }
        if (!(low_wave > high_wave && high_wave > 0) || isinf(low_wave)) return false;
    }
    /* as the authors of models write it, if that is near enough */
    rope->low = 1, rope->original = round(low_wave), rope->high = round(rope->original / high_wave);
    if (rope->high > 1 && divisors_are(divisor, head_dim, *rope, 1e-6)) return true;
    rope->high = rope->original / high_wave;
    if (rope->high > 1 && divisors_are(divisor, head_dim, *rope, 1e-6)) return true;
    rope->original = 8192, rope->low = 8192 / low_wave, rope->high = 8192 / high_wave;
    return divisors_are(divisor, head_dim, *rope, 1e-5);
}

double cti_lm_gguf_query_scalar(double layers, double width, double heads, double head_dim) {
    return layers == 62 ? floor(width / heads) : head_dim;
}

double cti_lm_gguf_shortest(double number) {
    char text[40];
    const float single = (float)number;
    double shortest = number;
    for (int digits = 1; digits <= 9 && (double)single == number; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        shortest = strtod(text, NULL); /* both in the same locale */
        if ((float)shortest == single) break;
    }
    return shortest;
}
