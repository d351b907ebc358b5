/* The properties of characters that regular expressions can name: general categories, a few sets,
 * and scripts. */
#include "char_property.h"
#include "unicode.h"
#include "unicode_tables.h"

#define OTHER_CATEGORIES (CTI_IN(CTI_CN) | CTI_IN(CTI_CC) | CTI_IN(CTI_CF) | CTI_IN(CTI_CO))
#define PUNCTUATION                                                                                \
    (CTI_IN(CTI_PC) | CTI_IN(CTI_PD) | CTI_IN(CTI_PS) | CTI_IN(CTI_PE) | CTI_IN(CTI_PI) |          \
     CTI_IN(CTI_PF) | CTI_IN(CTI_PO))
#define SYMBOLS    (CTI_IN(CTI_SM) | CTI_IN(CTI_SC) | CTI_IN(CTI_SK) | CTI_IN(CTI_SO))
#define SEPARATORS (CTI_IN(CTI_ZS) | CTI_IN(CTI_ZL) | CTI_IN(CTI_ZP))
#define ALL_CATEGORIES                                                                             \
    (OTHER_CATEGORIES | CTI_LETTERS | CTI_MARKS | CTI_NUMBERS | PUNCTUATION | SYMBOLS | SEPARATORS)

/* The names of general categories and of unions of them. Surrogates (Cs) have no name here, because
 * well-formed UTF-8 has none. */
static const struct {
    const char *name;
    uint32_t categories;
} category_sets[] = {
    {"any", ALL_CATEGORIES},
    {"assigned", ALL_CATEGORIES & ~CTI_IN(CTI_CN)},
    {"c", OTHER_CATEGORIES},
    {"other", OTHER_CATEGORIES},
    {"cn", CTI_IN(CTI_CN)},
    {"unassigned", CTI_IN(CTI_CN)},
    {"cc", CTI_IN(CTI_CC)},
    {"control", CTI_IN(CTI_CC)},
    {"cntrl", CTI_IN(CTI_CC)},
    {"cf", CTI_IN(CTI_CF)},
    {"format", CTI_IN(CTI_CF)},
    {"co", CTI_IN(CTI_CO)},
    {"privateuse", CTI_IN(CTI_CO)},
    {"l", CTI_LETTERS},
    {"letter", CTI_LETTERS},
    {"lc", CTI_IN(CTI_LU) | CTI_IN(CTI_LL) | CTI_IN(CTI_LT)},
    {"casedletter", CTI_IN(CTI_LU) | CTI_IN(CTI_LL) | CTI_IN(CTI_LT)},
    {"lu", CTI_IN(CTI_LU)},
    {"uppercaseletter", CTI_IN(CTI_LU)},
    {"ll", CTI_IN(CTI_LL)},
    {"lowercaseletter", CTI_IN(CTI_LL)},
    {"lt", CTI_IN(CTI_LT)},
    {"titlecaseletter", CTI_IN(CTI_LT)},
    {"lm", CTI_IN(CTI_LM)},
    {"modifierletter", CTI_IN(CTI_LM)},
    {"lo", CTI_IN(CTI_LO)},
    {"otherletter", CTI_IN(CTI_LO)},
    {"m", CTI_MARKS},
    {"mark", CTI_MARKS},
    {"combiningmark", CTI_MARKS},
    {"mn", CTI_IN(CTI_MN)},
    {"nonspacingmark", CTI_IN(CTI_MN)},
    {"mc", CTI_IN(CTI_MC)},
    {"spacingmark", CTI_IN(CTI_MC)},
    {"me", CTI_IN(CTI_ME)},
    {"enclosingmark", CTI_IN(CTI_ME)},
    {"n", CTI_NUMBERS},
    {"number", CTI_NUMBERS},
    {"nd", CTI_IN(CTI_ND)},
    {"decimalnumber", CTI_IN(CTI_ND)},
    {"digit", CTI_IN(CTI_ND)},
    {"nl", CTI_IN(CTI_NL)},
    {"letternumber", CTI_IN(CTI_NL)},
    {"no", CTI_IN(CTI_NO)},
    {"othernumber", CTI_IN(CTI_NO)},
    {"p", PUNCTUATION},
    {"punctuation", PUNCTUATION},
    {"punct", PUNCTUATION},
    {"pc", CTI_IN(CTI_PC)},
    {"connectorpunctuation", CTI_IN(CTI_PC)},
    {"pd", CTI_IN(CTI_PD)},
    {"dashpunctuation", CTI_IN(CTI_PD)},
    {"ps", CTI_IN(CTI_PS)},
    {"openpunctuation", CTI_IN(CTI_PS)},
    {"pe", CTI_IN(CTI_PE)},
    {"closepunctuation", CTI_IN(CTI_PE)},
    {"pi", CTI_IN(CTI_PI)},
    {"initialpunctuation", CTI_IN(CTI_PI)},
    {"pf", CTI_IN(CTI_PF)},
    {"finalpunctuation", CTI_IN(CTI_PF)},
    {"po", CTI_IN(CTI_PO)},
    {"otherpunctuation", CTI_IN(CTI_PO)},
    {"s", SYMBOLS},
    {"symbol", SYMBOLS},
    {"sm", CTI_IN(CTI_SM)},
    {"mathsymbol", CTI_IN(CTI_SM)},
    {"sc", CTI_IN(CTI_SC)},
    {"currencysymbol", CTI_IN(CTI_SC)},
    {"sk", CTI_IN(CTI_SK)},
    {"modifiersymbol", CTI_IN(CTI_SK)},
    {"so", CTI_IN(CTI_SO)},
    {"othersymbol", CTI_IN(CTI_SO)},
    {"z", SEPARATORS},
    {"separator", SEPARATORS},
    {"zs", CTI_IN(CTI_ZS)},
    {"spaceseparator", CTI_IN(CTI_ZS)},
    {"zl", CTI_IN(CTI_ZL)},
    {"lineseparator", CTI_IN(CTI_ZL)},
    {"zp", CTI_IN(CTI_ZP)},
    {"paragraphseparator", CTI_IN(CTI_ZP)},
};

/* Sets that are not unions of general categories. */
enum { SET_SPACE, SET_WORD, SET_BRACKET_WORD, SET_XDIGIT, SET_BLANK, SET_ASCII, SET_POSIX_PUNCT };
static const struct {
    const char *name;
    int set;
} other_sets[] = {
    {"space", SET_SPACE},   {"whitespace", SET_SPACE}, {"word", SET_WORD},
    {"xdigit", SET_XDIGIT}, {"blank", SET_BLANK},      {"ascii", SET_ASCII},
};

#define PROPERTIES_IN(array) ((int)(sizeof(array) / sizeof *(array)))
_Static_assert(PROPERTIES_IN(cti_scripts) + PROPERTIES_IN(category_sets) + SET_POSIX_PUNCT + 2 <=
                   CTI_PROPERTIES,
               "each property has a number below CTI_PROPERTIES");

/* A set has the number 1 + set. The numbers of scripts follow, and then the numbers of
 * category_sets. */
static int number_of_script(int i) { return SET_POSIX_PUNCT + 2 + i; }
static int number_of_categories(int i) { return number_of_script(PROPERTIES_IN(cti_scripts)) + i; }

/* Whether a name is `wanted`, a name of the tables. Case, spaces, '-' and '_' do not matter. */
static bool is_property_name(const char *name, size_t size, const char *wanted) {
    for (size_t i = 0; i < size; i++) {
        char c = name[i];
        if (c == ' ' || c == '-' || c == '_') continue;
        if (c >= 'A' && c <= 'Z') c = (char)(c | 0x20);
        if (c != *wanted) return false;
        wanted++;
    }
    return !*wanted;
}

int cti_property_number(const char *name, size_t size) {
    for (int i = 0; i < PROPERTIES_IN(other_sets); i++)
        if (is_property_name(name, size, other_sets[i].name)) return 1 + other_sets[i].set;
    for (int i = 0; i < PROPERTIES_IN(cti_scripts); i++)
        if (is_property_name(name, size, cti_scripts[i].name)) return number_of_script(i);
    for (int i = 0; i < PROPERTIES_IN(category_sets); i++)
        if (is_property_name(name, size, category_sets[i].name)) return number_of_categories(i);
    return 0;
}

int cti_property_in_bracket(int number, bool posix) {
    if (number == 1 + SET_WORD) return 1 + SET_BRACKET_WORD;
    const int punct = cti_property_number("punct", 5);
    return posix && number == punct ? 1 + SET_POSIX_PUNCT : number;
}

static bool is_in_set(int set, uint32_t c, uint32_t categories) {
    switch (set) {
    case SET_SPACE: return cti_unicode_is_space(c);
    case SET_WORD: return cti_unicode_is_word(c);
    case SET_BRACKET_WORD: /* \w in brackets lacks six characters of Latin-1 */
        return cti_unicode_is_word(c) &&
               !(c < 0x100 && CTI_IN(cti_unicode_category(c)) & CTI_IN(CTI_NO));
    case SET_XDIGIT:
        return c < 0x80 && ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'));
    case SET_BLANK: return c == '\t' || CTI_IN(cti_unicode_category(c)) & CTI_IN(CTI_ZS);
    case SET_ASCII: return c < 0x80;
    case SET_POSIX_PUNCT: return CTI_IN(cti_unicode_category(c)) & (PUNCTUATION | SYMBOLS);
    default: return CTI_IN(cti_unicode_category(c)) & categories;
    }
}

void cti_property_add(cti_set_builder *set, int number) {
    const int script = number - number_of_script(0), category = number - number_of_categories(0);
    if (script >= 0 && category < 0) {
        for (int i = 0; i < cti_scripts[script].count; i++) {
            const cti_char_range *range = &cti_script_ranges[cti_scripts[script].at + i];
            cti_set_add(set, range->first, range->last);
        }
        return;
    }
    const uint32_t categories = category >= 0 ? category_sets[category].categories : 0;
    const int kind = category >= 0 ? -1 : number - 1;
    uint32_t begin = 0;
    bool inside = false;
    for (uint32_t c = 0; c <= CTI_LAST_CHARACTER + 1; c++) {
        const bool is_in = c <= CTI_LAST_CHARACTER && is_in_set(kind, c, categories);
        if (is_in && !inside) begin = c;
        if (!is_in && inside) cti_set_add(set, begin, c - 1);
        inside = is_in;
    }
}
