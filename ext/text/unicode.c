/* unicode.h: looking up characters in the tables. */
#include "unicode.h"

#include "unicode_tables.h"

cti_category cti_unicode_category(uint32_t c) {
    return (cti_category)cti_unicode_record_of(c)->category;
}

cti_class cti_unicode_class(uint32_t c) {
    return (cti_class)(cti_unicode_record_of(c)->flags >> CTI_CLASS_SHIFT);
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

static bool category_is_in(uint32_t c, unsigned categories) {
    return CTI_IN(cti_unicode_category(c)) & categories;
}

bool cti_python_is_alpha(uint32_t c) { return category_is_in(c, CTI_LETTERS); }
bool cti_python_is_decimal(uint32_t c) { return category_is_in(c, CTI_IN(CTI_ND)); }
bool cti_python_is_digit(uint32_t c) {
    return cti_python_is_decimal(c) || cti_unicode_has(c, CTI_HAS_MORE_DIGIT);
}
bool cti_python_is_numeric(uint32_t c) {
    return category_is_in(c, CTI_NUMBERS) || cti_unicode_has(c, CTI_HAS_MORE_NUMERIC);
}
bool cti_python_is_space(uint32_t c) { return (c >= 0x1C && c <= 0x1F) || cti_unicode_is_space(c); }
bool cti_python_is_printable(uint32_t c) {
    const unsigned hidden = CTI_IN(CTI_CN) | CTI_IN(CTI_CC) | CTI_IN(CTI_CF) | CTI_IN(CTI_CO) |
                            CTI_IN(CTI_ZS) | CTI_IN(CTI_ZL) | CTI_IN(CTI_ZP);
    return c == ' ' || !category_is_in(c, hidden);
}
bool cti_python_is_lower(uint32_t c) {
    return category_is_in(c, CTI_IN(CTI_LL)) || cti_unicode_has(c, CTI_HAS_MORE_LOWER);
}
bool cti_python_is_upper(uint32_t c) {
    return category_is_in(c, CTI_IN(CTI_LU)) || cti_unicode_has(c, CTI_HAS_MORE_UPPER);
}
bool cti_python_is_title(uint32_t c) { return category_is_in(c, CTI_IN(CTI_LT)); }

/* The characters of Word_Break MidLetter, MidNumLet and Single_Quote, and the marks and signs. */
bool cti_python_is_case_ignorable(uint32_t c) {
    static const uint16_t inside_words[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                            0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                            0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof inside_words / sizeof *inside_words; i++)
        if (c == inside_words[i]) return true;
    return category_is_in(c, CTI_IN(CTI_MN) | CTI_IN(CTI_ME) | CTI_IN(CTI_CF) | CTI_IN(CTI_LM) |
                                 CTI_IN(CTI_SK));
}

/* Digits stand in tens, from zero on; several tens may follow each other. */
int cti_python_decimal(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9' ? (int)(c - '0') : -1;
    if (!cti_python_is_decimal(c)) return -1;
    uint32_t first = c;
    while (cti_python_is_decimal(first - 1)) first--;
    return (int)((c - first) % 10);
}

enum { CAPITAL_I_DOT = 0x130, DOT_ABOVE = 0x307 };

enum {
    LOWER_RUNS = sizeof cti_lower_runs / sizeof *cti_lower_runs,
    UPPER_RUNS = sizeof cti_upper_runs / sizeof *cti_upper_runs,
    LONG_CASES = sizeof cti_long_cases / sizeof *cti_long_cases,
    FOLD_RUNS = sizeof cti_fold_runs / sizeof *cti_fold_runs
};

/* The last of n runs that begins at or before c; the first if none does. */
static const cti_case_run *case_run_find(const cti_case_run *runs, size_t n, uint32_t c) {
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
    out[0] = (uint32_t)((int32_t)c + case_run_find(cti_lower_runs, LOWER_RUNS, c)->delta);
    if (c != CAPITAL_I_DOT) return 1;
    out[1] = DOT_ABOVE;
    return 2;
}

static bool case_run_has(const cti_case_run *run, uint32_t c) {
    return c >= run->first && c <= run->last && (c - run->first) % (uint32_t)run->step == 0;
}

/* What a run of `runs` makes of a character; itself if it is in none. */
static uint32_t case_run_map(const cti_case_run *runs, size_t n, uint32_t c) {
    const cti_case_run *run = case_run_find(runs, n, c);
    return case_run_has(run, c) ? (uint32_t)((int32_t)c + run->delta) : c;
}

/* The upper or title case in a row of cti_long_cases; 0 if the character has no row. */
static int long_case_find(uint32_t c, int column, uint32_t out[CTI_FOLDED]) {
    size_t low = 0, high = LONG_CASES;
    while (low < high) { /* the first row that is not before c */
        const size_t middle = (low + high) / 2;
        if (cti_long_cases[middle][0] < c) low = middle + 1;
        else high = middle;
    }
    if (low == LONG_CASES || cti_long_cases[low][0] != c) return 0;
    int n = 0;
    for (; n < 3 && cti_long_cases[low][column + n]; n++) out[n] = cti_long_cases[low][column + n];
    return n;
}

int cti_unicode_upper(uint32_t c, uint32_t out[CTI_FOLDED]) {
    const int n = long_case_find(c, 1, out);
    if (n) return n;
    out[0] = case_run_map(cti_upper_runs, UPPER_RUNS, c);
    return 1;
}

/* The title case is the upper case, except that of the letters DZ, LJ and NJ with and without caron
 * in threes (capital, title, small), and of Georgian letters, whose capitals are for whole words.
 */
int cti_unicode_title(uint32_t c, uint32_t out[CTI_FOLDED]) {
    const int n = long_case_find(c, 4, out);
    if (n) return n;
    if (c >= 0x1C4 && c <= 0x1CC) out[0] = c - (c - 0x1C4) % 3 + 1;
    else if (c >= 0x1F1 && c <= 0x1F3) out[0] = 0x1F2;
    else if (c >= 0x10D0 && c <= 0x10FF) out[0] = c;
    else out[0] = case_run_map(cti_upper_runs, UPPER_RUNS, c);
    return 1;
}

/* The fold is the lower case of the upper case, except that of the dotless i (itself), of the
 * capital sharp s, and of Cherokee letters (the capitals). */
int cti_unicode_full_fold(uint32_t c, uint32_t out[CTI_FOLDED]) {
    enum { DOTLESS_I = 0x131, CAPITAL_SHARP_S = 0x1E9E };
    if (c == CAPITAL_SHARP_S) {
        out[0] = out[1] = 's';
        return 2;
    }
    const int n = cti_unicode_upper(c, out);
    if (c == DOTLESS_I) out[0] = c;
    if ((c >= 0x13A0 && c <= 0x13FD) || (c >= 0xAB70 && c <= 0xABBF) || c == DOTLESS_I) return 1;
    uint32_t lower[CTI_FOLDED];
    if (n == 1) return cti_unicode_lower(out[0], out);
    for (int i = 0; i < n; i++) {
        cti_unicode_lower(out[i], lower);
        out[i] = lower[0];
    }
    return n;
}

uint32_t cti_unicode_fold(uint32_t c) {
    /* A run may map a character to itself: U+0130 is its own fold, although it has a lower case. */
    const cti_case_run *run = case_run_find(cti_fold_runs, FOLD_RUNS, c);
    if (case_run_has(run, c)) return (uint32_t)((int32_t)c + run->delta);
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

enum {
    DECOMPOSED_RUNS = sizeof cti_decomposed_runs / sizeof *cti_decomposed_runs,
    COMPOSED = sizeof cti_composed / sizeof *cti_composed
};

/* The index of the decomposition of a character that has one. */
static size_t decomposition_find(uint32_t c) {
    size_t low = 0, high = DECOMPOSED_RUNS;
    while (high - low > 1) { /* the last run that begins at or before c */
        const size_t middle = (low + high) / 2;
        if (cti_decomposed_runs[middle].first <= c) low = middle;
        else high = middle;
    }
    return cti_decomposed_runs[low].at + (c - cti_decomposed_runs[low].first);
}

/* The parts are found from the last to the first. */
int cti_unicode_decompose(uint32_t c, uint32_t out[CTI_FOLDED]) {
    if (c >= SYLLABLES && c < SYLLABLES + N_SYLLABLES) return decompose_hangul(c - SYLLABLES, out);
    uint32_t seconds[CTI_FOLDED - 1];
    int n = 0;
    while (cti_unicode_has(c, CTI_HAS_DECOMPOSES)) {
        const size_t at = decomposition_find(c);
        if (cti_decomposed_second[at]) seconds[n++] = cti_decomposed_second[at];
        c = cti_decomposed_first[at];
    }
    out[0] = c;
    for (int i = 0; i < n; i++) out[1 + i] = seconds[n - 1 - i];
    return 1 + n;
}

enum {
    NEAR_RUNS = sizeof cti_compatible_near / sizeof *cti_compatible_near,
    COMPATIBLE_RUNS = sizeof cti_compatible_runs / sizeof *cti_compatible_runs
};

int cti_unicode_decompose_compatible(uint32_t c, uint32_t out[CTI_COMPATIBLE]) {
    if (!cti_unicode_has(c, CTI_HAS_COMPATIBLE)) return cti_unicode_decompose(c, out);
    out[0] = case_run_map(cti_compatible_near, NEAR_RUNS, c);
    if (out[0] != c) return 1;
    size_t low = 0, high = COMPATIBLE_RUNS;
    while (high - low > 1) { /* the last run that begins at or before c */
        const size_t middle = (low + high) / 2;
        if (cti_compatible_runs[middle].first <= c) low = middle;
        else high = middle;
    }
    const cti_compatible_run *run = &cti_compatible_runs[low];
    const uint16_t *part = cti_compatible + run->at + (size_t)run->length * (c - run->first);
    for (int i = 0; i < run->length; i++) out[i] = part[i];
    return run->length;
}

static uint32_t hangul_compose(uint32_t a, uint32_t b) {
    if (a >= LEADING && a < LEADING + N_LEADING && b >= VOWELS && b < VOWELS + N_VOWELS) {
        return SYLLABLES + ((a - LEADING) * N_VOWELS + (b - VOWELS)) * N_TRAILING;
    }
    if (a >= SYLLABLES && a < SYLLABLES + N_SYLLABLES && (a - SYLLABLES) % N_TRAILING == 0 &&
        b > TRAILING && b < TRAILING + N_TRAILING) {
        return a + (b - TRAILING);
    }
    return 0;
}

/* The character with a decomposition. */
static uint32_t character_of_decomposition(size_t at) {
    size_t low = 0, high = DECOMPOSED_RUNS;
    while (high - low > 1) { /* the last run whose decompositions begin at or before `at` */
        const size_t middle = (low + high) / 2;
        if (cti_decomposed_runs[middle].at <= at) low = middle;
        else high = middle;
    }
    return cti_decomposed_runs[low].first + (uint32_t)(at - cti_decomposed_runs[low].at);
}

uint32_t cti_unicode_compose(uint32_t a, uint32_t b) {
    size_t low = 0, high = COMPOSED;
    while (low < high) { /* the first pair that is not before (a, b) */
        const size_t middle = (low + high) / 2, at = cti_composed[middle];
        const uint32_t first = cti_decomposed_first[at], second = cti_decomposed_second[at];
        if (first < a || (first == a && second < b)) low = middle + 1;
        else high = middle;
    }
    const size_t at = low < COMPOSED ? cti_composed[low] : 0;
    if (low < COMPOSED && cti_decomposed_first[at] == a && cti_decomposed_second[at] == b)
        return character_of_decomposition(at);
    return hangul_compose(a, b);
}
