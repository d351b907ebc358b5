/* Option i of regular expressions: which characters count as equal, as in oniguruma.
 *
 * A class is folded as a whole, when its brackets, intersections and negations inside are done: it
 * gets each character that is equal to one that it has. The negation of the whole class comes after
 * this, so (?i:[^a]) has neither a nor A, but (?i:[b&&[^a]]) folds the set that is b. A class that
 * is not negated and has a character such as U+00DF also matches ss, the characters that it is
 * equal to. */
#include "regex_parse.h"
#include "unicode.h"
#include "unicode_tables.h"

enum { LONG_FOLDS = sizeof cti_long_folds / sizeof *cti_long_folds, LONGEST_FOLD = 3 };

/* Whether a sorted set has a character. */
static bool builder_has(const cti_set_builder *set, uint32_t c) {
    return cti_char_set_has_wide(
        &(cti_char_set){.count = (uint32_t)set->count, .range = set->range}, c);
}

/* A set to which all characters are added that equal one of its own. This takes two passes: one
 * finds the folds of its characters, one adds every character with such a fold. */
typedef struct {
    cti_set_builder *set, folds;
} set_folding;

static void fold_find(void *arg, uint32_t c) {
    set_folding *f = arg;
    const uint32_t fold = cti_unicode_fold(c);
    if (builder_has(f->set, c) || builder_has(f->set, fold)) cti_set_add(&f->folds, fold, fold);
}

static void fold_add_equal(void *arg, uint32_t c) {
    set_folding *f = arg;
    const uint32_t fold = cti_unicode_fold(c);
    if (!builder_has(&f->folds, fold)) return;
    cti_set_add(f->set, c, c);
    cti_set_add(f->set, fold, fold);
}

static void set_fold(cti_set_builder *set) {
    set_folding f = {.set = set};
    cti_set_sort(set);
    cti_unicode_each_cased(fold_find, &f);
    cti_set_sort(&f.folds);
    cti_unicode_each_cased(fold_add_equal, &f);
    set->failed |= f.folds.failed;
    cti_set_free(&f.folds);
    cti_set_sort(set);
}

/* Adds the node of a sorted set: a character, if there is only one. */
static uint32_t fold_add_set(cti_regex_parser *p, cti_set_builder *set) {
    if (set->failed || set->count != 1 || set->range[0].first != set->range[0].last)
        return cti_regex_add_node(
            p, (cti_regex_node){.kind = CTI_NODE_SET, .a = cti_regex_add_set(p, set)});
    const uint32_t c = set->range[0].first;
    cti_set_free(set);
    return cti_regex_add_node(p, (cti_regex_node){.kind = CTI_NODE_CHAR, .a = c});
}

/* The sequence of characters of a long fold. */
static uint32_t fold_add_long(cti_regex_parser *p, const uint16_t fold[LONGEST_FOLD]) {
    const uint32_t parent = cti_regex_add_node(p, (cti_regex_node){.kind = CTI_NODE_SEQUENCE});
    uint32_t last = 0;
    for (int i = 0; i < LONGEST_FOLD && fold[i] && !p->fault; i++) {
        cti_set_builder set = {0};
        cti_set_add(&set, fold[i], fold[i]);
        set_fold(&set);
        cti_regex_append(p, parent, &last, fold_add_set(p, &set));
    }
    return p->fault ? 0 : parent;
}

uint32_t cti_regex_add_class(cti_regex_parser *p, cti_set_builder *set, bool negated) {
    bool matches[LONG_FOLDS] = {false}, any = false;
    if (p->ignore_case) set_fold(set);
    for (int i = 0; p->ignore_case && !negated && i < LONG_FOLDS; i++)
        any |= matches[i] = builder_has(set, cti_long_folds[i][0]);
    if (negated) cti_set_negate(set);
    cti_set_sort(set);
    const uint32_t first = fold_add_set(p, set);
    if (!any || !first) return first;
    const uint32_t parent = cti_regex_add_node(p, (cti_regex_node){.kind = CTI_NODE_CHOICE});
    uint32_t last = 0;
    if (parent) cti_regex_append(p, parent, &last, first);
    for (int i = 0; i < LONG_FOLDS && !p->fault; i++)
        if (matches[i]) cti_regex_append(p, parent, &last, fold_add_long(p, cti_long_folds[i] + 1));
    return p->fault ? 0 : parent;
}

bool cti_regex_begins_fold(uint32_t a, uint32_t b) {
    for (int i = 0; i < LONG_FOLDS; i++)
        if (cti_long_folds[i][1] == a && cti_long_folds[i][2] == b) return true;
    return false;
}
