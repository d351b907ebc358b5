/* A small language, of which the seed draws the words. Its sentences have a grammar: an article and
 * an adjective agree with the noun, as in many languages,
 *
 *     lo tuma keros sivat ra mipo daren.
 *
 * so the end of an adjective tells which nouns may follow it. */
#ifndef LANGUAGE_H
#define LANGUAGE_H

#include <cotangent/cotangent.h>

#include <string.h>

static const char alphabet[] = " abcdefghijklmnopqrstuvwxyz.";
enum { LETTERS = sizeof alphabet - 1 };

enum { GENDERS = 2, NOUNS = 6, ADJECTIVES = 4, VERBS = 6, ADVERBS = 3, LONGEST = 12 };
typedef struct {
    uint64_t state; /* of the numbers that it draws */
    char article[GENDERS][LONGEST], ending[GENDERS][2], noun[GENDERS][NOUNS][LONGEST],
        adjective[ADJECTIVES][LONGEST], verb[VERBS][LONGEST], adverb[ADVERBS][LONGEST];
} language;

/* A number from 0 to n - 1 (splitmix64). */
static int language_draw(language *l, int n) {
    uint64_t z = l->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

static void make_word(language *l, int syllables, bool closed, char *word) {
    static const char consonants[] = "bdfgklmnprstvz", vowels[] = "aeiou";
    int at = 0;
    for (int i = 0; i < syllables; i++) {
        word[at++] = consonants[language_draw(l, (int)sizeof consonants - 1)];
        word[at++] = vowels[language_draw(l, (int)sizeof vowels - 1)];
    }
    if (closed) word[at++] = consonants[language_draw(l, (int)sizeof consonants - 1)];
    word[at] = 0;
}

static language new_language(uint64_t seed) {
    language l = {.state = seed};
    for (int g = 0; g < GENDERS; g++) {
        make_word(&l, 1, false, l.article[g]);
        l.ending[g][0] = g == 0 ? 'a' : 'o';
        for (int i = 0; i < NOUNS; i++) make_word(&l, 2, true, l.noun[g][i]);
    }
    while (strcmp(l.article[0], l.article[1]) == 0) make_word(&l, 1, false, l.article[1]);
    for (int i = 0; i < ADJECTIVES; i++) make_word(&l, 1, true, l.adjective[i]);
    for (int i = 0; i < VERBS; i++) make_word(&l, 2, true, l.verb[i]);
    for (int i = 0; i < ADVERBS; i++) make_word(&l, 3, false, l.adverb[i]);
    return l;
}

static void add_noun(language *l, char *sentence) {
    const int gender = language_draw(l, GENDERS);
    strcat(sentence, l->article[gender]), strcat(sentence, " ");
    if (language_draw(l, 2)) {
        strcat(sentence, l->adjective[language_draw(l, ADJECTIVES)]);
        strcat(sentence, l->ending[gender]), strcat(sentence, " ");
    }
    strcat(sentence, l->noun[gender][language_draw(l, NOUNS)]);
}

/* Fills text with n letters, each as its place in the alphabet. */
static void speak(language *l, int64_t n, int64_t *text) {
    char sentence[12 * LONGEST];
    for (int64_t at = 0; at < n;) {
        *sentence = 0;
        add_noun(l, sentence), strcat(sentence, " ");
        strcat(sentence, l->verb[language_draw(l, VERBS)]), strcat(sentence, " ");
        add_noun(l, sentence);
        if (language_draw(l, 3) == 0)
            strcat(sentence, " "), strcat(sentence, l->adverb[language_draw(l, ADVERBS)]);
        strcat(sentence, ". ");
        for (const char *c = sentence; *c && at < n; c++)
            text[at++] = strchr(alphabet, *c) - alphabet;
    }
}

/* The bits for each letter of `text` by counts of the letters that follow each `before` letters (1:
 * pairs, 2: triples) in `seen`. */
static double bits_by_counts(const int64_t *seen, int64_t n, const int64_t *text, int64_t length,
                             int before) {
    static double counts[LETTERS * LETTERS][LETTERS];
    double bits = 0;
    for (int i = 0; i < LETTERS * LETTERS; i++)
        for (int j = 0; j < LETTERS; j++) counts[i][j] = 0.02;
    for (int64_t i = 2; i < n; i++)
        counts[seen[i - 1] + (before == 2 ? LETTERS * seen[i - 2] : 0)][seen[i]]++;
    for (int64_t i = 2; i < length; i++) {
        const double *row = counts[text[i - 1] + (before == 2 ? LETTERS * text[i - 2] : 0)];
        double sum = 0;
        for (int j = 0; j < LETTERS; j++) sum += row[j];
        bits -= log2(row[text[i]] / sum) / (double)(length - 2);
    }
    return bits;
}

#endif
