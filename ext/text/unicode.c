/* unicode.h: looking up characters in the tables. */
#include "unicode.h"

#include "unicode_tables.h"

cti_category cti_unicode_category(uint32_t c) {
    return (cti_category)cti_unicode_record_of(c)->category;
}

cti_class cti_unicode_class(uint32_t c) {
    if (c >= CTI_BLOCKS_END) return CTI_OTHER;
    const uint8_t four = cti_class_item[32 * cti_class_block[c / 128] + c % 128 / 4];
    return (cti_class)(four >> 2 * (c % 4) & 3);
}

bool cti_unicode_is_space(uint32_t c) { return cti_unicode_has(c, CTI_HAS_SPACE); }
bool cti_unicode_is_word(uint32_t c) { return cti_unicode_has(c, CTI_HAS_WORD); }
bool cti_rust_is_space(uint32_t c) { return cti_unicode_has(c, CTI_HAS_RUST_SPACE); }
bool cti_rust_is_numeric(uint32_t c) { return cti_unicode_has(c, CTI_HAS_RUST_NUMERIC); }
bool cti_rust_is_word(uint32_t c) { return cti_unicode_has(c, CTI_HAS_RUST_WORD); }
bool cti_bert_is_removed(uint32_t c) { return cti_unicode_has(c, CTI_HAS_BERT_REMOVED); }
bool cti_bert_is_space(uint32_t c) { return cti_unicode_has(c, CTI_HAS_BERT_SPACE); }
bool cti_bert_is_chinese(uint32_t c) { return cti_unicode_has(c, CTI_HAS_BERT_CHINESE); }
bool cti_bert_is_punctuation(uint32_t c) { return cti_unicode_has(c, CTI_HAS_BERT_PUNCTUATION); }
bool cti_unicode_is_accent(uint32_t c) { return cti_unicode_has(c, CTI_HAS_ACCENT); }
bool cti_bert_is_accent(uint32_t c) { return cti_unicode_has(c, CTI_HAS_BERT_ACCENT); }

int cti_unicode_combining_class(uint32_t c) { return cti_unicode_record_of(c)->combining_class; }

enum { CAPITAL_I_DOT = 0x130, DOT_ABOVE = 0x307 };

enum {
    LOWER_RUNS = sizeof cti_lower_runs / sizeof *cti_lower_runs,
    FOLD_RUNS = sizeof cti_fold_runs / sizeof *cti_fold_runs
};

/* The last of n runs that begins at or before c; the first if none does. */
static const cti_case_run *find_run(const cti_case_run *runs, size_t n, uint32_t c) {
    size_t low = 0, high = n;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (runs[middle].first <= c) low = middle;
        else high = middle;
    }
    return &runs[low];
}

/* Only U+0130 has a lower case of two characters. */
int cti_unicode_lower(uint32_t c, uint32_t out[CTI_FOLDED]) {
    out[0] = c;
    if (!cti_unicode_has(c, CTI_HAS_LOWER)) return 1;
    out[0] = (uint32_t)((int32_t)c + find_run(cti_lower_runs, LOWER_RUNS, c)->delta);
    if (c != CAPITAL_I_DOT) return 1;
    out[1] = DOT_ABOVE;
    return 2;
}

uint32_t cti_unicode_fold(uint32_t c) {
    const cti_case_run *run = find_run(cti_fold_runs, FOLD_RUNS, c);
    if (c >= run->first && c <= run->last && (c - run->first) % (uint32_t)run->step == 0)
        return (uint32_t)((int32_t)c + run->delta);
    uint32_t lower[CTI_FOLDED];
    cti_unicode_lower(c, lower);
    return lower[0];
}

static void each_of_runs(const cti_case_run *runs, size_t n, void (*each)(void *, uint32_t),
                         void *arg) {
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = runs[i].first; c <= runs[i].last; c += (uint32_t)runs[i].step)
            each(arg, c);
}

void cti_unicode_each_cased(void (*each)(void *arg, uint32_t c), void *arg) {
    each_of_runs(cti_lower_runs, LOWER_RUNS, each, arg);
    each_of_runs(cti_fold_runs, FOLD_RUNS, each, arg);
}

/* Hangul syllables: a leading consonant, a vowel and perhaps a trailing consonant. Their numbers
 * are in the order of (leading, vowel, trailing). */
enum {
    SYLLABLES = 0xAC00,
    LEADING = 0x1100,
    VOWELS = 0x1161,
    TRAILING = 0x11A7, /* one before the first, as 0 is no trailing consonant */
    N_LEADING = 19,
    N_VOWELS = 21,
    N_TRAILING = 28,
    N_SYLLABLES = N_LEADING * N_VOWELS * N_TRAILING
};

static int decompose_hangul(uint32_t syllable, uint32_t out[CTI_FOLDED]) {
    const uint32_t trailing = syllable % N_TRAILING;
    out[0] = LEADING + syllable / (N_VOWELS * N_TRAILING);
    out[1] = VOWELS + syllable / N_TRAILING % N_VOWELS;
    out[2] = TRAILING + trailing;
    return trailing ? 3 : 2;
}

int cti_unicode_decompose(uint32_t c, uint32_t out[CTI_FOLDED]) {
    out[0] = c;
    if (!cti_unicode_has(c, CTI_HAS_DECOMPOSES)) return 1;
    if (c >= SYLLABLES && c < SYLLABLES + N_SYLLABLES) return decompose_hangul(c - SYLLABLES, out);
    size_t low = 0, high = sizeof cti_decomposed / sizeof cti_decomposed[0];
    while (high - low > 1) { /* the last character that is at or before c */
        const size_t middle = (low + high) / 2;
        if (cti_decomposed[middle] >> 2 <= c) low = middle;
        else high = middle;
    }
    const uint16_t *unit = cti_decomposed_parts + cti_decomposed_at[low];
    const int n = (int)(cti_decomposed[low] & 3) + 1;
    for (int i = 0; i < n; i++) {
        uint32_t part = *unit++;
        if (part >= 0xD800 && part < 0xDC00) {
            part = 0x10000 + ((part & 0x3FF) << 10 | (*unit++ & 0x3FFu));
        }
        out[i] = part;
    }
    return n;
}

static uint32_t compose_hangul(uint32_t a, uint32_t b) {
    if (a >= LEADING && a < LEADING + N_LEADING && b >= VOWELS && b < VOWELS + N_VOWELS) {
        return SYLLABLES + ((a - LEADING) * N_VOWELS + (b - VOWELS)) * N_TRAILING;
    }
    if (a >= SYLLABLES && a < SYLLABLES + N_SYLLABLES && (a - SYLLABLES) % N_TRAILING == 0 &&
        b > TRAILING && b < TRAILING + N_TRAILING) {
        return a + (b - TRAILING);
    }
    return 0;
}

uint32_t cti_unicode_compose(uint32_t a, uint32_t b) {
    if (a >= 0x10000 || b >= 0x10000) {
        for (size_t i = 0; i < sizeof cti_composed_large / sizeof cti_composed_large[0]; i++) {
            if (cti_composed_large[i][0] == a && cti_composed_large[i][1] == b) {
                return cti_composed_large[i][2];
            }
        }
        return 0;
    }
    size_t low = 0, high = sizeof cti_composed / sizeof cti_composed[0];
    while (low < high) { /* the first pair that is not before (a, b) */
        const size_t middle = (low + high) / 2;
        const uint16_t *pair = cti_composed[middle];
        if (pair[0] < a || (pair[0] == a && pair[1] < b)) low = middle + 1;
        else high = middle;
    }
    if (low < sizeof cti_composed / sizeof cti_composed[0] && cti_composed[low][0] == a &&
        cti_composed[low][1] == b) {
        return cti_composed[low][2];
    }
    return compose_hangul(a, b);
}
