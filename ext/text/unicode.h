/* Properties of characters, as the tokenizers package 0.23.3 and Python see them. The package has
 * several versions of Unicode in it: one for the regular expressions (oniguruma's), one for BERT's
 * rules, one for normal forms and one for Rust's standard library. The tables in unicode_tables.c
 * are made by make_unicode, which asks the package itself. */
#ifndef CTI_TEXT_UNICODE_H
#define CTI_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General categories, as regular expressions see them. CTI_CN has the characters that are not
 * assigned. */
typedef enum {
    CTI_CN,
    CTI_CC,
    CTI_CF,
    CTI_CO,
    CTI_LU,
    CTI_LL,
    CTI_LT,
    CTI_LM,
    CTI_LO,
    CTI_MN,
    CTI_MC,
    CTI_ME,
    CTI_ND,
    CTI_NL,
    CTI_NO,
    CTI_PC,
    CTI_PD,
    CTI_PS,
    CTI_PE,
    CTI_PI,
    CTI_PF,
    CTI_PO,
    CTI_SM,
    CTI_SC,
    CTI_SK,
    CTI_SO,
    CTI_ZS,
    CTI_ZL,
    CTI_ZP,
    CTI_CATEGORIES
} cti_category;

cti_category cti_unicode_category(uint32_t c);

/* Sets of categories, as masks of bits. */
#define CTI_IN(category) (1u << (category))
#define CTI_LETTERS                                                                                \
    (CTI_IN(CTI_LU) | CTI_IN(CTI_LL) | CTI_IN(CTI_LT) | CTI_IN(CTI_LM) | CTI_IN(CTI_LO))
#define CTI_NUMBERS (CTI_IN(CTI_ND) | CTI_IN(CTI_NL) | CTI_IN(CTI_NO))
#define CTI_MARKS   (CTI_IN(CTI_MN) | CTI_IN(CTI_MC) | CTI_IN(CTI_ME))

bool cti_unicode_is_space(uint32_t c); /* \s of oniguruma: 25 characters */
bool cti_unicode_is_word(uint32_t c);  /* \w of oniguruma */

/* The classes of a fast splitter: which of \p{L}, \p{N}, \s a character is in. */
typedef enum { CTI_OTHER, CTI_LETTER, CTI_NUMBER, CTI_SPACE } cti_class;
cti_class cti_unicode_class(uint32_t c);

/* Rust's char::is_whitespace, is_numeric and is_alphanumeric, and \w of its regex crate. */
bool cti_rust_is_space(uint32_t c);
bool cti_rust_is_numeric(uint32_t c);
bool cti_rust_is_word(uint32_t c);

/* BERT's rules: the characters that clean_text removes, those it makes a space, those that
 * handle_chinese_chars puts spaces around, and those that are pieces of their own
 * (BertPreTokenizer's and Punctuation's punctuation). */
bool cti_bert_is_removed(uint32_t c);
bool cti_bert_is_space(uint32_t c);
bool cti_bert_is_chinese(uint32_t c);
bool cti_bert_is_punctuation(uint32_t c);

/* Whether StripAccents drops the character (a combining mark), and whether BertNormalizer's
 * strip_accents does (a nonspacing mark). */
bool cti_unicode_is_accent(uint32_t c);
bool cti_bert_is_accent(uint32_t c);

/* Python's str.isalpha, isdecimal, isdigit, isnumeric, isspace and isprintable of one character; a
 * letter's case: isupper, islower, or the title case, of which Python's istitle speaks. */
bool cti_python_is_alpha(uint32_t c);
bool cti_python_is_decimal(uint32_t c);
bool cti_python_is_digit(uint32_t c);
bool cti_python_is_numeric(uint32_t c);
bool cti_python_is_space(uint32_t c);
bool cti_python_is_printable(uint32_t c);
bool cti_python_is_lower(uint32_t c);
bool cti_python_is_upper(uint32_t c);
bool cti_python_is_title(uint32_t c);
/* Whether the lower case of a sigma before or behind it depends on what lies beyond. */
bool cti_python_is_case_ignorable(uint32_t c);
int cti_python_decimal(uint32_t c); /* 0 to 9 of a decimal digit; -1 of any other character */

enum { CTI_FOLDED = 4 }; /* the most characters that one character becomes */

/* The lower case of a character, by Rust's char::to_lowercase: n characters in out[]. */
int cti_unicode_lower(uint32_t c, uint32_t out[CTI_FOLDED]);
/* The same for its upper case, its title case, and the full fold of Python's str.casefold. */
int cti_unicode_upper(uint32_t c, uint32_t out[CTI_FOLDED]);
int cti_unicode_title(uint32_t c, uint32_t out[CTI_FOLDED]);
int cti_unicode_full_fold(uint32_t c, uint32_t out[CTI_FOLDED]);
/* The character that stands for all that option i of a regular expression takes for equal to c.
 * cti_long_folds has the folds of several characters. cti_unicode_each_cased calls a function with
 * each character that is not its own fold, and with some others. */
uint32_t cti_unicode_fold(uint32_t c);
void cti_unicode_each_cased(void (*each)(void *arg, uint32_t c), void *arg);
/* The full canonical decomposition of a character: n characters in out[]; itself if it has none. */
int cti_unicode_decompose(uint32_t c, uint32_t out[CTI_FOLDED]);
/* The same for its full compatible decomposition. */
enum { CTI_COMPATIBLE = 18 };
int cti_unicode_decompose_compatible(uint32_t c, uint32_t out[CTI_COMPATIBLE]);
int cti_unicode_combining_class(uint32_t c);
/* The canonical composition of two characters; 0 if there is none. */
uint32_t cti_unicode_compose(uint32_t a, uint32_t b);

#endif
