/* Byte-pair encoding beside one of plain loops, on texts that are drawn. For each known mistake a
 * text is drawn at which it shows. */
#include "../course.h"
#include "exercise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_TEXT = 40000, MOST_MERGES = 256, ROOM = 512 };

/* ---- the right way, and wrong ways that are known ---- */

enum {
    TIE_LARGEST,
    TIE_FIRST,
    TIE_LAST,
    TIE_RIGHT,
    WITHOUT_OVERLAPS,
    FROM_RIGHT,
    ONCE_MERGED,
    TWICE_NOT_MERGED,
    COUNTED_ONCE,
    NOT_REPLACED,
    ONE_REPLACED,
    UNTIL_ZERO,
    SIGNED_BYTES,
    LAST_PAIR_LOST,
    NUMBERED_FROM_257,
    TRAINING_MISTAKES
};
static const course_mistake training_mistakes[] = {
    [TIE_LARGEST] = {"when the largest of equally frequent pairs is taken, not the smallest"},
    [TIE_FIRST] = {"when the one that stands first in the text is taken of equally frequent pairs"},
    [TIE_LAST] = {"when the one that stands last in the text is taken of equally frequent pairs"},
    [TIE_RIGHT] = {"when equally frequent pairs are compared by `right` before `left`"},
    [WITHOUT_OVERLAPS] = {"when pairs that overlap are counted once: \"aaa\" has two of (a, a)"},
    [FROM_RIGHT] = {"when a pair is replaced from the end of the text on"},
    [ONCE_MERGED] = {"when a pair that occurs once is merged, too"},
    [TWICE_NOT_MERGED] = {"when a pair that occurs twice is not merged"},
    [COUNTED_ONCE] = {"when pairs are counted in the bytes only, and never again after a merge"},
    [NOT_REPLACED] = {"when pairs are counted again, but were not replaced in the text"},
    [ONE_REPLACED] = {"when only the first place of a pair is replaced"},
    [UNTIL_ZERO] = {"when the text ends at a byte of 0, as a string does"},
    [SIGNED_BYTES] = {"when bytes are char, which is negative from 128 on"},
    [LAST_PAIR_LOST] = {"when the last pair of the text is not counted"},
    [NUMBERED_FROM_257] = {"when merges are numbered from 257 on, not 256"}};

enum {
    LONGEST_FIRST,
    LAST_MERGE_FIRST,
    LEFTMOST_FIRST,
    ONE_OF_EACH,
    EACH_FROM_RIGHT,
    ENCODED_UNTIL_ZERO,
    ENCODED_SIGNED,
    NO_MERGES,
    LAST_MERGE_LOST,
    ENCODING_MISTAKES
};
static const course_mistake encoding_mistakes[] = {
    [LONGEST_FIRST] = {"when the longest token that fits is taken at each place, from the left on"},
    [LAST_MERGE_FIRST] = {"when merges are applied from the last to the first"},
    [LEFTMOST_FIRST] = {"when the leftmost pair that has a merge is replaced first, not the pair "
                        "whose merge was learned first"},
    [ONE_OF_EACH] = {"when only the first place of a pair is replaced"},
    [EACH_FROM_RIGHT] = {"when a pair is replaced from the end of the text on"},
    [ENCODED_UNTIL_ZERO] = {"when the text ends at a byte of 0, as a string does"},
    [ENCODED_SIGNED] = {"when bytes are char, which is negative from 128 on"},
    [NO_MERGES] = {"when no merge is applied"},
    [LAST_MERGE_LOST] = {"when the last merge is never applied"}};

enum { RIGHT_BEFORE_LEFT, ONE_LEVEL, DECODED_UNTIL_ZERO, DECODING_MISTAKES };
static const course_mistake decoding_mistakes[] = {
    [RIGHT_BEFORE_LEFT] = {"when the right part of a token is written before the left one"},
    [ONE_LEVEL] = {"when the parts of a token are taken for bytes: a part may be a merge, too"},
    [DECODED_UNTIL_ZERO] = {"when the text ends at a byte of 0, as a string does"}};

static int64_t replace_first(int *tokens, int64_t n, pair p, int made, bool only_one) {
    int64_t kept = 0;
    bool done = false;
    for (int64_t i = 0; i < n; i++) {
        const bool here =
            i + 1 < n && tokens[i] == p.left && tokens[i + 1] == p.right && !(done && only_one);
        tokens[kept++] = here ? made : tokens[i];
        if (here) i++, done = true;
    }
    return kept;
}
static void reverse(int *tokens, int64_t n) {
    for (int64_t i = 0; i < n / 2; i++) {
        const int other = tokens[i];
        tokens[i] = tokens[n - 1 - i], tokens[n - 1 - i] = other;
    }
}
/* Replaces a pair, and returns how many tokens are left. */
static int64_t replace(int *tokens, int64_t n, pair p, int made, bool only_one, bool from_right) {
    if (!from_right) return replace_first(tokens, n, p, made, only_one);
    reverse(tokens, n);
    n = replace_first(tokens, n, (pair){p.right, p.left}, made, only_one);
    reverse(tokens, n);
    return n;
}

/* How often each pair occurs: counts[left + SIGNED][right + SIGNED]. Zeros between two counts. */
enum { SIGNED = 128, SIDE = SIGNED + 256 + MOST_MERGES + 1 };
static int counts[SIDE][SIDE];
static int *count_of(int left, int right) { return &counts[left + SIGNED][right + SIGNED]; }

static void count_pairs(const int *tokens, int64_t n, bool without_overlaps) {
    int64_t counted = -2;
    for (int64_t i = 0; i + 1 < n; i++) {
        const bool equal = tokens[i] == tokens[i + 1];
        if (without_overlaps && equal && counted == i - 1 && tokens[i - 1] == tokens[i]) continue;
        ++*count_of(tokens[i], tokens[i + 1]), counted = i;
    }
}
static void forget_pairs(const int *tokens, int64_t n) {
    for (int64_t i = 0; i + 1 < n; i++) *count_of(tokens[i], tokens[i + 1]) = 0;
}

/* Whether p is taken before q, which occurs as often and earlier in the text. */
static bool comes_before(pair p, pair q, course_set mistakes) {
    if (course_has(mistakes, TIE_FIRST)) return false;
    if (course_has(mistakes, TIE_LAST)) return true;
    if (course_has(mistakes, TIE_RIGHT))
        return p.right != q.right ? p.right < q.right : p.left < q.left;
    const bool smaller = p.left != q.left ? p.left < q.left : p.right < q.right;
    return course_has(mistakes, TIE_LARGEST) ? !smaller : smaller;
}

/* The pair of a text that is counted highest. Returns how often it was counted. */
static int find_best(const int *tokens, int64_t n, course_set mistakes, pair *best) {
    int most = 0;
    for (int64_t i = 0; i + 1 < n; i++) {
        const pair p = {tokens[i], tokens[i + 1]};
        const int count = *count_of(p.left, p.right);
        if (count < most || (count == most && !comes_before(p, *best, mistakes))) continue;
        most = count, *best = p;
    }
    return most;
}

static int64_t first_tokens(const int64_t *text, int64_t n, bool until_zero, bool is_signed,
                            int *tokens) {
    int64_t i = 0;
    for (; i < n && !(until_zero && text[i] == 0); i++)
        tokens[i] = (int)(is_signed && text[i] > 127 ? text[i] - 256 : text[i]);
    return i;
}

static int train(const int64_t *text, int64_t n, int most, course_set mistakes, pair *merges) {
    static int tokens[LONGEST_TEXT];
    const bool once = course_has(mistakes, COUNTED_ONCE);
    const int least = course_has(mistakes, ONCE_MERGED)        ? 1
                      : course_has(mistakes, TWICE_NOT_MERGED) ? 3
                                                               : 2,
              first = course_has(mistakes, NUMBERED_FROM_257) ? 257 : 256;
    int made = 0;
    n = first_tokens(text, n, course_has(mistakes, UNTIL_ZERO), course_has(mistakes, SIGNED_BYTES),
                     tokens);
    const int64_t bytes = n;
    for (; made < most; made++) {
        pair best = {0, 0};
        const int64_t seen = n - course_has(mistakes, LAST_PAIR_LOST);
        if (!once || made == 0) count_pairs(tokens, seen, course_has(mistakes, WITHOUT_OVERLAPS));
        const int count = find_best(tokens, seen, mistakes, &best);
        if (!once) forget_pairs(tokens, seen);
        if (count < least) break;
        merges[made] = best;
        if (once) *count_of(best.left, best.right) = 0;
        else if (!course_has(mistakes, NOT_REPLACED))
            n = replace(tokens, n, best, first + made, course_has(mistakes, ONE_REPLACED),
                        course_has(mistakes, FROM_RIGHT));
    }
    if (once) forget_pairs(tokens, bytes);
    return made;
}

/* Writes the bytes of a token, the negative ones of ONE_LEVEL too; returns where they end, at most
 * `room`. */
static int64_t expand(const pair *merges, int token, course_set mistakes, int *text, int64_t at,
                      int64_t room) {
    if (at >= room) return room;
    if (token < 256) {
        text[at] = token;
        return at + 1;
    }
    pair p = merges[token - 256];
    if (course_has(mistakes, ONE_LEVEL)) p = (pair){p.left % 256, p.right % 256};
    if (course_has(mistakes, RIGHT_BEFORE_LEFT)) p = (pair){p.right, p.left};
    at = expand(merges, p.left, mistakes, text, at, room);
    return expand(merges, p.right, mistakes, text, at, room);
}

/* The longest token whose bytes stand at the beginning of the text. */
static int longest_token(const pair *merges, int count, const int *text, int64_t n, int64_t *size) {
    int longest = text[0], bytes[ROOM];
    *size = 1;
    for (int i = 0; i < count; i++) {
        const int64_t length = expand(merges, 256 + i, 0, bytes, 0, ROOM);
        if (length <= *size || length > n || length == ROOM) continue;
        if (memcmp(bytes, text, (size_t)length * sizeof *text)) continue;
        *size = length, longest = 256 + i;
    }
    return longest;
}

/* The merge of two tokens that was learned first, or -1. */
static int merge_of(const pair *merges, int count, int left, int right) {
    for (int i = 0; i < count; i++)
        if (merges[i].left == left && merges[i].right == right) return i;
    return -1;
}

static int64_t encode_by_place(const pair *merges, int count, int *tokens, int64_t n) {
    for (int64_t i = 0; i + 1 < n; i++) {
        const int found = merge_of(merges, count, tokens[i], tokens[i + 1]);
        if (found < 0) continue;
        tokens[i] = 256 + found;
        memmove(tokens + i + 1, tokens + i + 2, (size_t)(n - i - 2) * sizeof *tokens);
        n--, i = -1; /* from the left again */
    }
    return n;
}

static int64_t encode(const pair *merges, int count, const int64_t *text, int64_t n,
                      course_set mistakes, int *tokens) {
    n = first_tokens(text, n, course_has(mistakes, ENCODED_UNTIL_ZERO),
                     course_has(mistakes, ENCODED_SIGNED), tokens);
    if (course_has(mistakes, NO_MERGES)) return n;
    if (course_has(mistakes, LAST_MERGE_LOST) && count > 0) count--;
    if (course_has(mistakes, LEFTMOST_FIRST)) return encode_by_place(merges, count, tokens, n);
    if (course_has(mistakes, LONGEST_FIRST)) {
        int64_t made = 0, size;
        for (int64_t i = 0; i < n; i += size)
            tokens[made++] = longest_token(merges, count, tokens + i, n - i, &size);
        return made;
    }
    for (int i = 0; i < count; i++) {
        const int which = course_has(mistakes, LAST_MERGE_FIRST) ? count - 1 - i : i;
        n = replace(tokens, n, merges[which], 256 + which, course_has(mistakes, ONE_OF_EACH),
                    course_has(mistakes, EACH_FROM_RIGHT));
    }
    return n;
}

/* ---- what is compared ---- */

/* Texts, tokens and merges are tensors of i64, results of f64: what is not there is -1. */
static ct_tensor *with_gaps(ct_context *context, const int *x, int64_t n, int64_t room) {
    static double values[LONGEST_TEXT];
    for (int64_t i = 0; i < room; i++) values[i] = i < n ? x[i] : -1;
    return course_f64(context, CT_SHAPE(room), values);
}
static ct_tensor *merges_with_gaps(ct_context *context, const pair *merges, int count, int most) {
    double values[MOST_MERGES][2];
    for (int i = 0; i < most; i++)
        values[i][0] = i < count ? merges[i].left : -1,
        values[i][1] = i < count ? merges[i].right : -1;
    return course_f64(context, CT_SHAPE(most, 2), &values[0][0]);
}

/* Copies merges from a tensor, and returns how many there are; -1: those are no merges. */
static int take_merges(ct_tensor *x, pair *merges) {
    const int64_t *values = ct_data_i64(x);
    const int count = (int)ct_dim(x, 0);
    for (int i = 0; i < count; i++) {
        const int64_t left = values[2 * i], right = values[2 * i + 1];
        if (left < 0 || right < 0 || left >= 256 + i || right >= 256 + i) return -1;
        merges[i] = (pair){(int)left, (int)right};
    }
    return count;
}
static const uint8_t *bytes_of(ct_tensor *text) {
    static uint8_t bytes[LONGEST_TEXT];
    for (int64_t i = 0; i < ct_numel(text); i++) bytes[i] = (uint8_t)ct_data_i64(text)[i];
    return bytes;
}

static int64_t written(const char *function, int64_t result) {
    if (result < 0)
        course_fail("%s returns %lld, as the stub does: is it not written yet?", function,
                    (long long)result);
    return result;
}

static ct_tensor *train_yours(ct_tensor *const *in, int n, void *arg) {
    pair merges[MOST_MERGES];
    const int most = *(const int *)arg;
    (void)n;
    memset(merges, 0xff, sizeof merges);
    const int64_t count =
        written("bpe_train", bpe_train(bytes_of(in[0]), ct_numel(in[0]), most, merges));
    return merges_with_gaps(ct_context_of(in[0]), merges, (int)count, most);
}
static ct_tensor *train_right(ct_tensor *const *in, int n, void *arg, course_set mistakes) {
    pair merges[MOST_MERGES];
    const int most = *(const int *)arg,
              count = train(ct_data_i64(in[0]), ct_numel(in[0]), most, mistakes, merges);
    (void)n;
    return merges_with_gaps(ct_context_of(in[0]), merges, count, most);
}

/* How often the two pairs occur where yours is taken and the right one must be. */
static void explain_training(ct_tensor *const *in, int n, void *arg, ct_tensor *got,
                             ct_tensor *right, char *said, size_t size) {
    static int tokens[LONGEST_TEXT];
    const double *yours = ct_data_f64(got), *other = ct_data_f64(right);
    const int64_t bytes = ct_numel(in[0]), most = *(const int *)arg;
    (void)n, (void)size;
    *said = 0;
    int64_t left = first_tokens(ct_data_i64(in[0]), bytes, false, false, tokens), i = 0;
    while (i < most && yours[2 * i] == other[2 * i] && yours[2 * i + 1] == other[2 * i + 1]) {
        const pair p = {(int)other[2 * i], (int)other[2 * i + 1]};
        left = replace(tokens, left, p, 256 + (int)i++, false, false);
    }
    int count[2] = {0, 0};
    for (int64_t j = 0; j + 1 < left; j++)
        for (int k = 0; k < 2; k++) {
            const double *p = (k ? other : yours) + 2 * i;
            count[k] += tokens[j] == p[0] && tokens[j + 1] == p[1];
        }
    char texts[2][96];
    for (int k = 0; k < 2; k++) {
        const double *p = (k ? other : yours) + 2 * i;
        if (p[0] < 0) snprintf(texts[k], sizeof texts[k], "not there");
        else
            snprintf(texts[k], sizeof texts[k], "(%.0f, %.0f), which occurs %d times", p[0], p[1],
                     count[k]);
    }
    course_hint("merge %lld is %s, and must be %s", (long long)i, texts[0], texts[1]);
}

static ct_tensor *encode_yours(ct_tensor *const *in, int n, void *arg) {
    static int tokens[LONGEST_TEXT];
    pair merges[MOST_MERGES];
    const int64_t bytes = ct_numel(in[0]);
    (void)n, (void)arg;
    memset(tokens, 0xff, sizeof tokens);
    const int count = take_merges(in[1], merges);
    const int64_t made =
        written("bpe_encode", bpe_encode(merges, count, bytes_of(in[0]), bytes, tokens));
    return with_gaps(ct_context_of(in[0]), tokens, made, bytes);
}
static ct_tensor *encode_right(ct_tensor *const *in, int n, void *arg, course_set mistakes) {
    static int tokens[LONGEST_TEXT];
    pair merges[MOST_MERGES];
    const int64_t bytes = ct_numel(in[0]);
    const int count = take_merges(in[1], merges);
    (void)n, (void)arg;
    if (count < 0) return NULL;
    const int64_t made = encode(merges, count, ct_data_i64(in[0]), bytes, mistakes, tokens);
    return with_gaps(ct_context_of(in[0]), tokens, made, bytes);
}

static ct_tensor *decode_yours(ct_tensor *const *in, int n, void *arg) {
    uint8_t text[ROOM];
    int tokens[ROOM], bytes[ROOM];
    pair merges[MOST_MERGES];
    (void)n, (void)arg;
    memset(text, 0xff, sizeof text);
    for (int64_t i = 0; i < ct_numel(in[0]); i++) tokens[i] = (int)ct_data_i64(in[0])[i];
    const int count = take_merges(in[1], merges);
    const int64_t size =
        written("bpe_decode", bpe_decode(merges, count, tokens, ct_numel(in[0]), text, ROOM));
    for (int64_t i = 0; i < size; i++) bytes[i] = text[i];
    return with_gaps(ct_context_of(in[0]), bytes, size, ROOM);
}
static ct_tensor *decode_right(ct_tensor *const *in, int n, void *arg, course_set mistakes) {
    int bytes[ROOM];
    pair merges[MOST_MERGES];
    const int count = take_merges(in[1], merges);
    int64_t at = 0;
    (void)n, (void)arg;
    for (int64_t i = 0; i < ct_numel(in[0]); i++) {
        const int64_t token = ct_data_i64(in[0])[i];
        if (count < 0 || token >= 256 + count) return NULL;
        at = expand(merges, (int)token, mistakes, bytes, at, ROOM);
    }
    for (int64_t i = 0; i < at; i++)
        if (course_has(mistakes, DECODED_UNTIL_ZERO) && bytes[i] == 0) at = i;
    return with_gaps(ct_context_of(in[0]), bytes, at, ROOM);
}

static void explain_tokens(ct_tensor *const *in, int n, void *arg, ct_tensor *got, ct_tensor *right,
                           char *said, size_t size) {
    const double *yours = ct_data_f64(got), *other = ct_data_f64(right);
    int64_t i = 0, a = 0, b = 0;
    (void)in, (void)n, (void)arg, (void)size;
    *said = 0;
    while (i + 1 < ct_numel(got) && yours[i] == other[i]) i++;
    while (a < ct_numel(got) && yours[a] != -1) a++;
    while (b < ct_numel(got) && other[b] != -1) b++;
    course_hint("of %lld, which must be %lld, number %lld is the first that is wrong", (long long)a,
                (long long)b, (long long)i);
}

static const char *const names[] = {"the text: byte", "the merges: merge, part",
                                    "the result: number"};
static const char *const training_names[] = {"the text: byte", "the merges: merge, part"};
static const course_function training =
                                 COURSE_FUNCTION(train_yours, train_right, training_mistakes,
                                                 training_names, .explain = explain_training),
                             encoding =
                                 COURSE_FUNCTION(encode_yours, encode_right, encoding_mistakes,
                                                 names, .explain = explain_tokens),
                             decoding =
                                 COURSE_FUNCTION(decode_yours, decode_right, decoding_mistakes,
                                                 names, .explain = explain_tokens);

/* ---- texts ---- */

static int below(ct_context *context, int n) { return (int)ct_random_below(context, n); }

static ct_tensor *text_of(ct_context *context, const int64_t *text, int64_t n) {
    return ct_from_i64(context, CT_SHAPE(n), text);
}

/* Draws different bytes: letters that can be printed, or any, with 0 and 255 among them. */
static void draw_letters(ct_context *context, int64_t *letters, int n, bool any) {
    for (int i = 0; i < n; i++) {
        letters[i] = any ? i == 0   ? 0
                           : i == 1 ? 255
                                    : below(context, 256)
                         : 'A' + below(context, 26) + (below(context, 2) ? 'a' - 'A' : 0);
        for (int j = 0; j < i; j++)
            if (letters[i] == letters[j]) i--, j = i;
    }
}

enum { WORDS = 5, LONGEST_WORD = 4, MOST_LETTERS = 40 };
/* A text of letters, half of it in words that come again. */
static void draw_words(ct_context *context, const int64_t *letters, int count, int64_t *text,
                       int64_t n) {
    int64_t words[WORDS][LONGEST_WORD];
    for (int i = 0; i < WORDS * LONGEST_WORD; i++)
        words[i / LONGEST_WORD][i % LONGEST_WORD] = letters[below(context, count)];
    for (int64_t at = 0; at < n;) {
        const int64_t *word = words[below(context, WORDS)];
        const int length = below(context, 3) ? 1 + below(context, LONGEST_WORD) : 0;
        for (int i = 0; i < length && at < n; i++) text[at++] = word[i];
        if (length == 0) text[at++] = letters[below(context, count)];
    }
}

typedef enum { FEW_LETTERS, RUNS, ANY_BYTES } kind;
static int64_t draw_text(ct_context *context, kind of, int64_t *text) {
    int64_t letters[MOST_LETTERS], n = 16 + below(context, 48);
    if (of == RUNS) { /* one letter several times, then another */
        draw_letters(context, letters, 2, false);
        for (int64_t at = 0, which = 0, left = 0; at < n; left--) {
            if (left == 0) left = 1 + below(context, 7), which = !which;
            text[at++] = letters[which];
        }
        return n;
    }
    const int count = of == ANY_BYTES ? 3 + below(context, MOST_LETTERS - 3) : 3;
    if (of == ANY_BYTES) n = 200;
    draw_letters(context, letters, count, of == ANY_BYTES);
    draw_words(context, letters, count, text, n);
    return n;
}

static void inputs_of_training(ct_context *context, kind of, ct_tensor **in) {
    int64_t text[256];
    in[0] = text_of(context, text, draw_text(context, of, text));
}
/* Merges of one text, and another text, or tokens, to which they are applied. */
static void inputs_of_encoding(ct_context *context, kind of, ct_tensor **in) {
    int64_t text[256], merges_as_numbers[MOST_MERGES][2];
    pair merges[MOST_MERGES];
    const int64_t n = draw_text(context, of, text), half = n / 2;
    const int count = train(text, half, 12, 0, merges);
    for (int i = 0; i < count; i++)
        merges_as_numbers[i][0] = merges[i].left, merges_as_numbers[i][1] = merges[i].right;
    in[0] = text_of(context, text + half, n - half);
    in[1] = ct_from_i64(context, CT_SHAPE(count, 2), &merges_as_numbers[0][0]);
}
static void inputs_of_decoding(ct_context *context, kind of, ct_tensor **in) {
    int64_t tokens[24];
    inputs_of_encoding(context, of, in);
    const int64_t *bytes = ct_data_i64(in[0]);
    const int count = (int)ct_dim(in[1], 0), n = below(context, 24);
    for (int i = 0; i < n; i++)
        tokens[i] = count && below(context, 3) ? 256 + below(context, count)
                                               : bytes[below(context, (int)ct_numel(in[0]))];
    in[0] = text_of(context, tokens, n);
}

typedef void (*maker)(ct_context *context, kind of, ct_tensor **in);

/* Mistakes that have a test of their own, and which cost no points elsewhere if that can be. */
static course_set separate_of(const course_function *f) {
    if (f == &training)
        return COURSE_BIT(TIE_LARGEST) | COURSE_BIT(TIE_FIRST) | COURSE_BIT(TIE_LAST) |
               COURSE_BIT(TIE_RIGHT) | COURSE_BIT(WITHOUT_OVERLAPS) | COURSE_BIT(FROM_RIGHT);
    if (f == &encoding)
        return COURSE_BIT(LONGEST_FIRST) | COURSE_BIT(LEFTMOST_FIRST) |
               COURSE_BIT(LAST_MERGE_FIRST) | COURSE_BIT(EACH_FROM_RIGHT);
    return 0;
}

/* Whether the mistake gives another result at these inputs. */
static bool shows(const course_function *f, ct_tensor *const *in, int n, int *most, int mistake) {
    return !course_same(f->variant(in, n, most, 0), f->variant(in, n, most, COURSE_BIT(mistake)),
                        0);
}

/* Compares at inputs at which the mistakes from..to each show, and at some others. */
static void compare(ct_context *context, const char *what, const course_function *f, maker make,
                    kind of, int n, int most, int from, int to) {
    enum { OTHERS = 3, TRIES = 300 };
    const course_set separate = separate_of(f);
    for (int mistake = from; mistake <= to + OTHERS; mistake++) {
        ct_tensor *best[2] = {NULL, NULL};
        int fewest = 64;
        for (int tried = 0; tried < TRIES && fewest > 0; tried++) {
            ct_tensor *in[2] = {NULL, NULL};
            int others = 0;
            make(context, of, in);
            if (mistake <= to && !shows(f, in, n, &most, mistake)) others = 32;
            for (int i = 0; i < f->count; i++)
                if (course_has(separate, i) && (i < from || i > to))
                    others += shows(f, in, n, &most, i);
            if (others < fewest) fewest = others, memcpy(best, in, sizeof in);
        }
        course_forward(what, f, &most, best, n, 0);
    }
}

/* ---- tests ---- */

/* The example of README.md, with other letters. */
static void by_hand(ct_context *context) {
    static const int example[] = {0, 0, 0, 1, 3, 0, 0, 0, 1, 0, 2};
    int64_t letters[4], text[11];
    int most = 8;
    draw_letters(context, letters, 4, false);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            if (letters[i] < letters[j]) {
                const int64_t other = letters[i];
                letters[i] = letters[j], letters[j] = other;
            }
    for (int i = 0; i < 11; i++) text[i] = letters[example[i]];
    ct_tensor *in[2] = {text_of(context, text, 11), NULL};
    course_forward("the merges of a text like aaabdaaabac", &training, &most, in, 1, 0);
    const int64_t merges[] = {letters[0], letters[0], letters[0], letters[1], 256, 257};
    in[1] = ct_from_i64(context, CT_SHAPE(3, 2), merges);
    course_forward("the tokens of a text like aaabdaaabac", &encoding, NULL, in, 2, 0);
    const int64_t tokens[] = {258, letters[3], 258, letters[0], letters[2]};
    in[0] = text_of(context, tokens, 5);
    course_forward("the text of the five tokens", &decoding, NULL, in, 2, 0);
}

static void training_test(ct_context *context) {
    compare(context, "the merges of a text of three letters", &training, inputs_of_training,
            FEW_LETTERS, 1, 4, COUNTED_ONCE, ONE_REPLACED);
    compare(context, "the merges of a text of three letters", &training, inputs_of_training,
            FEW_LETTERS, 1, 4, LAST_PAIR_LOST, NUMBERED_FROM_257);
}

static void ties(ct_context *context) {
    compare(context, "the merges of a text of three letters", &training, inputs_of_training,
            FEW_LETTERS, 1, 6, TIE_LARGEST, TIE_RIGHT);
}

static void overlaps(ct_context *context) {
    compare(context, "the merges of a text like aaabbbbba", &training, inputs_of_training, RUNS, 1,
            4, WITHOUT_OVERLAPS, FROM_RIGHT);
}

/* Training ends when no pair occurs twice. */
static void ends(ct_context *context) {
    compare(context, "at most 200 merges of a text of three letters", &training, inputs_of_training,
            FEW_LETTERS, 1, 200, ONCE_MERGED, TWICE_NOT_MERGED);
    int64_t letters[MOST_LETTERS];
    draw_letters(context, letters, MOST_LETTERS, true);
    ct_tensor *in[1];
    int most = 5;
    for (int n = 0; n <= 3; n++) {
        in[0] = text_of(context, letters, n);
        course_forward("the merges of a text of at most three bytes, no two equal", &training,
                       &most, in, 1, 0);
    }
    in[0] = text_of(context, (int64_t[]){letters[2], letters[2], letters[2]}, 3);
    course_forward("the merges of three equal bytes", &training, &most, in, 1, 0);
    in[0] = text_of(context, (int64_t[]){letters[2], letters[2]}, 2);
    course_forward("the merges of two equal bytes", &training, &most, in, 1, 0);
    most = 0;
    inputs_of_training(context, FEW_LETTERS, in);
    course_forward("no merge is asked for", &training, &most, in, 1, 0);
    in[0] = text_of(context, letters, MOST_LETTERS), most = 50;
    course_forward("the merges of forty different bytes", &training, &most, in, 1, 0);
}

static void bytes(ct_context *context) {
    compare(context, "the merges of a text of any bytes", &training, inputs_of_training, ANY_BYTES,
            1, 5, UNTIL_ZERO, SIGNED_BYTES);
    compare(context, "the tokens of a text of any bytes", &encoding, inputs_of_encoding, ANY_BYTES,
            2, 0, ENCODED_UNTIL_ZERO, ENCODED_SIGNED);
    compare(context, "the bytes of tokens", &decoding, inputs_of_decoding, ANY_BYTES, 2, 0,
            DECODED_UNTIL_ZERO, DECODED_UNTIL_ZERO);
}

static void encoding_test(ct_context *context) {
    compare(context, "the tokens of a text of three letters", &encoding, inputs_of_encoding,
            FEW_LETTERS, 2, 0, ONE_OF_EACH, ONE_OF_EACH);
    compare(context, "the tokens of a text like aaabbbbba", &encoding, inputs_of_encoding, RUNS, 2,
            0, ONE_OF_EACH, EACH_FROM_RIGHT);
    compare(context, "the tokens of a text of three letters", &encoding, inputs_of_encoding,
            FEW_LETTERS, 2, 0, NO_MERGES, LAST_MERGE_LOST);
    ct_tensor *in[2];
    inputs_of_encoding(context, FEW_LETTERS, in);
    ct_tensor *merges = in[1];
    in[1] = ct_from_i64(context, CT_SHAPE(0, 2), NULL);
    course_forward("the tokens of a text without a merge", &encoding, NULL, in, 2, 0);
    in[1] = merges;
    for (int64_t n = 0; n < 2; n++) {
        in[0] = text_of(context, ct_data_i64(merges), n);
        course_forward("the tokens of an empty text, or of one byte", &encoding, NULL, in, 2, 0);
    }
}

static void order(ct_context *context) {
    compare(context, "the tokens of a text of three letters", &encoding, inputs_of_encoding,
            FEW_LETTERS, 2, 0, LONGEST_FIRST, LEFTMOST_FIRST);
    compare(context, "the tokens of a text like aaabbbbba", &encoding, inputs_of_encoding, RUNS, 2,
            0, LONGEST_FIRST, LAST_MERGE_FIRST);
}

static void refuse(const char *what, const pair *merges, int count, const int *tokens, int64_t n,
                   int64_t room, int64_t right) {
    uint8_t text[ROOM] = {0};
    const int64_t got = bpe_decode(merges, count, tokens, n, text, room);
    if (got != right)
        course_fail("%s: bpe_decode returns %lld, and must return %lld", what, (long long)got,
                    (long long)right);
}

static void decoding_test(ct_context *context) {
    compare(context, "the bytes of tokens", &decoding, inputs_of_decoding, FEW_LETTERS, 2, 0,
            RIGHT_BEFORE_LEFT, ONE_LEVEL);
    enum { DOUBLED = 40 }; /* token 256 + i has 2^(i + 1) bytes */
    pair merges[DOUBLED];
    const int letter = below(context, 256);
    for (int i = 0; i < DOUBLED; i++)
        merges[i] = i ? (pair){255 + i, 255 + i} : (pair){letter, letter};
    const int tokens[] = {letter, 257, 256}; /* 1, 4 and 2 bytes */
    refuse("seven bytes, and room for seven", merges, 3, tokens, 3, 7, 7);
    refuse("seven bytes, and room for six", merges, 3, tokens, 3, 6, -1);
    refuse("seven bytes, and room for four", merges, 3, tokens, 3, 4, -1);
    refuse("no token, and no room", merges, 3, tokens, 0, 0, 0);
    refuse("a token of 2^40 bytes, and room for 512", merges, DOUBLED,
           (int[]){letter, 255 + DOUBLED}, 2, ROOM, -1);
    const int known = 1 + below(context, DOUBLED - 1);
    refuse("a token that has no merge", merges, known, (int[]){letter, 256 + known}, 2, ROOM, -1);
    refuse("a negative token", merges, known, (int[]){letter, -1 - below(context, 300)}, 2, ROOM,
           -1);
    refuse("the last token that has a merge", merges, 3, (int[]){258}, 1, ROOM, 8);
}

/* A text of 40,000 bytes: who counts the places of each pair anew has no time. */
static void large(ct_context *context) {
    static int64_t text[LONGEST_TEXT];
    static pair merges[MOST_MERGES], yours[MOST_MERGES];
    static int tokens[LONGEST_TEXT], right[LONGEST_TEXT];
    static uint8_t back[LONGEST_TEXT];
    int64_t letters[MOST_LETTERS];
    draw_letters(context, letters, MOST_LETTERS, true);
    for (int64_t at = 0; at < LONGEST_TEXT; at += 500)
        draw_words(context, letters, MOST_LETTERS, text + at, 500);
    ct_tensor *in = text_of(context, text, LONGEST_TEXT);
    const uint8_t *as_bytes = bytes_of(in);
    const int count = train(text, LONGEST_TEXT, MOST_MERGES, 0, merges),
              got =
                  (int)written("bpe_train", bpe_train(as_bytes, LONGEST_TEXT, MOST_MERGES, yours));
    if (got != count) course_fail("%d merges are learned, and must be %d", got, count);
    for (int i = 0; i < count; i++)
        if (yours[i].left != merges[i].left || yours[i].right != merges[i].right)
            course_fail("merge %d is (%d, %d) and must be (%d, %d)", i, yours[i].left,
                        yours[i].right, merges[i].left, merges[i].right);
    const int64_t n = encode(merges, count, text, LONGEST_TEXT, 0, right),
                  made = written("bpe_encode",
                                 bpe_encode(merges, count, as_bytes, LONGEST_TEXT, tokens));
    if (made != n || memcmp(tokens, right, (size_t)n * sizeof *tokens))
        course_fail("the tokens of 40,000 bytes are wrong: there are %lld, and must be %lld",
                    (long long)made, (long long)n);
    const int64_t size = bpe_decode(merges, count, right, n, back, LONGEST_TEXT);
    if (size != LONGEST_TEXT || memcmp(back, as_bytes, LONGEST_TEXT))
        course_fail("40,000 bytes are not the same after encoding and decoding");
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand},
    {"training", 1, training_test},
    {"ties", 1, ties},
    {"overlaps", 1, overlaps},
    {"ends", 1, ends},
    {"bytes", 1, bytes},
    {"encoding", 1, encoding_test},
    {"order", 1, order},
    {"decoding", 1, decoding_test},
    {"large", 1, large},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
