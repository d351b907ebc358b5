/* The properties of characters that regular expressions can name: general categories, a few sets,
 * and scripts. The ranges of the scripts are those that the tokenizers package matches. */
#include "char_property.h"
#include "unicode.h"

/* The ranges of the scripts, one script after the other. */
static const cti_char_range script_range[] = {
    /* Arabic */
    {0x600, 0x604},
    {0x606, 0x60B},
    {0x60D, 0x61A},
    {0x61C, 0x61E},
    {0x620, 0x63F},
    {0x641, 0x64A},
    {0x656, 0x66F},
    {0x671, 0x6DC},
    {0x6DE, 0x6FF},
    {0x750, 0x77F},
    {0x870, 0x88E},
    {0x890, 0x891},
    {0x897, 0x8E1},
    {0x8E3, 0x8FF},
    {0xFB50, 0xFBC2},
    {0xFBD3, 0xFD3D},
    {0xFD40, 0xFD8F},
    {0xFD92, 0xFDC7},
    {0xFDCF, 0xFDCF},
    {0xFDF0, 0xFDFF},
    {0xFE70, 0xFE74},
    {0xFE76, 0xFEFC},
    {0x10E60, 0x10E7E},
    {0x10EC2, 0x10EC4},
    {0x10EFC, 0x10EFF},
    {0x1EE00, 0x1EE03},
    {0x1EE05, 0x1EE1F},
    {0x1EE21, 0x1EE22},
    {0x1EE24, 0x1EE24},
    {0x1EE27, 0x1EE27},
    {0x1EE29, 0x1EE32},
    {0x1EE34, 0x1EE37},
    {0x1EE39, 0x1EE39},
    {0x1EE3B, 0x1EE3B},
    {0x1EE42, 0x1EE42},
    {0x1EE47, 0x1EE47},
    {0x1EE49, 0x1EE49},
    {0x1EE4B, 0x1EE4B},
    {0x1EE4D, 0x1EE4F},
    {0x1EE51, 0x1EE52},
    {0x1EE54, 0x1EE54},
    {0x1EE57, 0x1EE57},
    {0x1EE59, 0x1EE59},
    {0x1EE5B, 0x1EE5B},
    {0x1EE5D, 0x1EE5D},
    {0x1EE5F, 0x1EE5F},
    {0x1EE61, 0x1EE62},
    {0x1EE64, 0x1EE64},
    {0x1EE67, 0x1EE6A},
    {0x1EE6C, 0x1EE72},
    {0x1EE74, 0x1EE77},
    {0x1EE79, 0x1EE7C},
    {0x1EE7E, 0x1EE7E},
    {0x1EE80, 0x1EE89},
    {0x1EE8B, 0x1EE9B},
    {0x1EEA1, 0x1EEA3},
    {0x1EEA5, 0x1EEA9},
    {0x1EEAB, 0x1EEBB},
    {0x1EEF0, 0x1EEF1},
    /* Bopomofo */
    {0x2EA, 0x2EB},
    {0x3105, 0x312F},
    {0x31A0, 0x31BF},
    /* Cyrillic */
    {0x400, 0x484},
    {0x487, 0x52F},
    {0x1C80, 0x1C8A},
    {0x1D2B, 0x1D2B},
    {0x1D78, 0x1D78},
    {0x2DE0, 0x2DFF},
    {0xA640, 0xA69F},
    {0xFE2E, 0xFE2F},
    {0x1E030, 0x1E06D},
    {0x1E08F, 0x1E08F},
    /* Devanagari */
    {0x900, 0x950},
    {0x955, 0x963},
    {0x966, 0x97F},
    {0xA8E0, 0xA8FF},
    {0x11B00, 0x11B09},
    /* Greek */
    {0x370, 0x373},
    {0x375, 0x377},
    {0x37A, 0x37D},
    {0x37F, 0x37F},
    {0x384, 0x384},
    {0x386, 0x386},
    {0x388, 0x38A},
    {0x38C, 0x38C},
    {0x38E, 0x3A1},
    {0x3A3, 0x3E1},
    {0x3F0, 0x3FF},
    {0x1D26, 0x1D2A},
    {0x1D5D, 0x1D61},
    {0x1D66, 0x1D6A},
    {0x1DBF, 0x1DBF},
    {0x1F00, 0x1F15},
    {0x1F18, 0x1F1D},
    {0x1F20, 0x1F45},
    {0x1F48, 0x1F4D},
    {0x1F50, 0x1F57},
    {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B},
    {0x1F5D, 0x1F5D},
    {0x1F5F, 0x1F7D},
    {0x1F80, 0x1FB4},
    {0x1FB6, 0x1FC4},
    {0x1FC6, 0x1FD3},
    {0x1FD6, 0x1FDB},
    {0x1FDD, 0x1FEF},
    {0x1FF2, 0x1FF4},
    {0x1FF6, 0x1FFE},
    {0x2126, 0x2126},
    {0xAB65, 0xAB65},
    {0x10140, 0x1018E},
    {0x101A0, 0x101A0},
    {0x1D200, 0x1D245},
    /* Han */
    {0x2E80, 0x2E99},
    {0x2E9B, 0x2EF3},
    {0x2F00, 0x2FD5},
    {0x3005, 0x3005},
    {0x3007, 0x3007},
    {0x3021, 0x3029},
    {0x3038, 0x303B},
    {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},
    {0xF900, 0xFA6D},
    {0xFA70, 0xFAD9},
    {0x16FE2, 0x16FE3},
    {0x16FF0, 0x16FF1},
    {0x20000, 0x2A6DF},
    {0x2A700, 0x2B739},
    {0x2B740, 0x2B81D},
    {0x2B820, 0x2CEA1},
    {0x2CEB0, 0x2EBE0},
    {0x2EBF0, 0x2EE5D},
    {0x2F800, 0x2FA1D},
    {0x30000, 0x3134A},
    {0x31350, 0x323AF},
    /* Hangul */
    {0x1100, 0x11FF},
    {0x302E, 0x302F},
    {0x3131, 0x318E},
    {0x3200, 0x321E},
    {0x3260, 0x327E},
    {0xA960, 0xA97C},
    {0xAC00, 0xD7A3},
    {0xD7B0, 0xD7C6},
    {0xD7CB, 0xD7FB},
    {0xFFA0, 0xFFBE},
    {0xFFC2, 0xFFC7},
    {0xFFCA, 0xFFCF},
    {0xFFD2, 0xFFD7},
    {0xFFDA, 0xFFDC},
    /* Hebrew */
    {0x591, 0x5C7},
    {0x5D0, 0x5EA},
    {0x5EF, 0x5F4},
    {0xFB1D, 0xFB36},
    {0xFB38, 0xFB3C},
    {0xFB3E, 0xFB3E},
    {0xFB40, 0xFB41},
    {0xFB43, 0xFB44},
    {0xFB46, 0xFB4F},
    /* Hiragana */
    {0x3041, 0x3096},
    {0x309D, 0x309F},
    {0x1B001, 0x1B11F},
    {0x1B132, 0x1B132},
    {0x1B150, 0x1B152},
    {0x1F200, 0x1F200},
    /* Katakana */
    {0x30A1, 0x30FA},
    {0x30FD, 0x30FF},
    {0x31F0, 0x31FF},
    {0x32D0, 0x32FE},
    {0x3300, 0x3357},
    {0xFF66, 0xFF6F},
    {0xFF71, 0xFF9D},
    {0x1AFF0, 0x1AFF3},
    {0x1AFF5, 0x1AFFB},
    {0x1AFFD, 0x1AFFE},
    {0x1B000, 0x1B000},
    {0x1B120, 0x1B122},
    {0x1B155, 0x1B155},
    {0x1B164, 0x1B167},
    /* Latin */
    {0x41, 0x5A},
    {0x61, 0x7A},
    {0xAA, 0xAA},
    {0xBA, 0xBA},
    {0xC0, 0xD6},
    {0xD8, 0xF6},
    {0xF8, 0x2B8},
    {0x2E0, 0x2E4},
    {0x1D00, 0x1D25},
    {0x1D2C, 0x1D5C},
    {0x1D62, 0x1D65},
    {0x1D6B, 0x1D77},
    {0x1D79, 0x1DBE},
    {0x1E00, 0x1EFF},
    {0x2071, 0x2071},
    {0x207F, 0x207F},
    {0x2090, 0x209C},
    {0x212A, 0x212B},
    {0x2132, 0x2132},
    {0x214E, 0x214E},
    {0x2160, 0x2188},
    {0x2C60, 0x2C7F},
    {0xA722, 0xA787},
    {0xA78B, 0xA7CD},
    {0xA7D0, 0xA7D1},
    {0xA7D3, 0xA7D3},
    {0xA7D5, 0xA7DC},
    {0xA7F2, 0xA7FF},
    {0xAB30, 0xAB5A},
    {0xAB5C, 0xAB64},
    {0xAB66, 0xAB69},
    {0xFB00, 0xFB06},
    {0xFF21, 0xFF3A},
    {0xFF41, 0xFF5A},
    {0x10780, 0x10785},
    {0x10787, 0x107B0},
    {0x107B2, 0x107BA},
    {0x1DF00, 0x1DF1E},
    {0x1DF25, 0x1DF2A},
    /* Thai */
    {0xE01, 0xE3A},
    {0xE40, 0xE5B},
};

static const struct {
    const char *name;
    uint16_t first, count; /* in script_range */
} scripts[] = {
    {"arabic", 0, 59},    {"bopomofo", 59, 3},   {"cyrillic", 62, 10}, {"devanagari", 72, 5},
    {"greek", 77, 36},    {"han", 113, 22},      {"hangul", 135, 14},  {"hebrew", 149, 9},
    {"hiragana", 158, 6}, {"katakana", 164, 14}, {"latin", 178, 39},   {"thai", 217, 2},
};

#define OTHER_CATEGORIES (CTI_IN(CTI_CN) | CTI_IN(CTI_CC) | CTI_IN(CTI_CF) | CTI_IN(CTI_CO))
#define PUNCTUATION                                                                                \
    (CTI_IN(CTI_PC) | CTI_IN(CTI_PD) | CTI_IN(CTI_PS) | CTI_IN(CTI_PE) | CTI_IN(CTI_PI) |          \
     CTI_IN(CTI_PF) | CTI_IN(CTI_PO))
#define SYMBOLS    (CTI_IN(CTI_SM) | CTI_IN(CTI_SC) | CTI_IN(CTI_SK) | CTI_IN(CTI_SO))
#define SEPARATORS (CTI_IN(CTI_ZS) | CTI_IN(CTI_ZL) | CTI_IN(CTI_ZP))
#define ALL_CATEGORIES                                                                             \
    (OTHER_CATEGORIES | CTI_LETTERS | CTI_MARKS | CTI_NUMBERS | PUNCTUATION | SYMBOLS | SEPARATORS)

/* Names of sets of categories. Surrogates (Cs) are in no text. */
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

/* Sets that are no sets of categories. */
enum { SET_SPACE, SET_WORD, SET_BRACKET_WORD, SET_XDIGIT, SET_BLANK, SET_ASCII, SET_POSIX_PUNCT };
static const struct {
    const char *name;
    int set;
} other_sets[] = {
    {"space", SET_SPACE},   {"whitespace", SET_SPACE}, {"word", SET_WORD},
    {"xdigit", SET_XDIGIT}, {"blank", SET_BLANK},      {"ascii", SET_ASCII},
};

#define PROPERTIES_IN(array) ((int)(sizeof(array) / sizeof *(array)))
_Static_assert(PROPERTIES_IN(scripts) + PROPERTIES_IN(category_sets) + SET_POSIX_PUNCT + 2 <=
                   CTI_PROPERTIES,
               "each property has a number below CTI_PROPERTIES");

/* A set has the number 1 + set. The numbers of scripts follow, and then the numbers of
 * category_sets. */
static int number_of_script(int i) { return SET_POSIX_PUNCT + 2 + i; }
static int number_of_categories(int i) { return number_of_script(PROPERTIES_IN(scripts)) + i; }

/* Compares a name with one of the tables: case, spaces, '-' and '_' do not matter. */
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
    for (int i = 0; i < PROPERTIES_IN(scripts); i++)
        if (is_property_name(name, size, scripts[i].name)) return number_of_script(i);
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

void cti_property_add(cti_set_draft *set, int number) {
    const int script = number - number_of_script(0), category = number - number_of_categories(0);
    if (script >= 0 && category < 0) {
        for (int i = 0; i < scripts[script].count; i++) {
            const cti_char_range *range = &script_range[scripts[script].first + i];
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
