/* The growing tree of a regular expression: its nodes and its sets. */
#include <stdlib.h>

#include "regex_parse.h"

static bool no_regex_memory(cti_regex_parser *p) {
    p->no_memory = true;
    return cti_regex_fault(p, p->at, "no memory");
}

uint32_t cti_regex_add_set(cti_regex_parser *p, cti_set_builder *builder) {
    cti_set_sort(builder);
    if (p->sets == p->set_room || !p->sets) {
        const uint32_t room = p->set_room ? 2 * p->set_room : 16;
        cti_set_builder *more = realloc(p->set, room * sizeof *more);
        if (!more) {
            cti_set_free(builder);
            return no_regex_memory(p);
        }
        p->set = more;
        p->set_room = room;
        if (!p->sets) p->set[p->sets++] = (cti_set_builder){0};
    }
    p->ranges += builder->count;
    if (p->ranges > CTI_MOST_RANGES) cti_regex_fault(p, p->at, "the expression is too large");
    p->set[p->sets] = *builder;
    if (builder->failed) no_regex_memory(p);
    return p->sets++;
}

uint32_t cti_regex_add_node(cti_regex_parser *p, cti_regex_node node) {
    if (p->fault) return 0;
    if (p->nodes == p->node_room) {
        const uint32_t room = p->node_room ? 2 * p->node_room : 64;
        cti_regex_node *more = realloc(p->node, room * sizeof *more);
        if (!more) return no_regex_memory(p);
        p->node = more;
        p->node_room = room;
    }
    if (!p->nodes) p->node[p->nodes++] = (cti_regex_node){0};
    p->node[p->nodes] = node;
    return p->nodes++;
}

void cti_regex_append(cti_regex_parser *p, uint32_t parent, uint32_t *last, uint32_t child) {
    if (*last) p->node[*last].next = child;
    else p->node[parent].child = child;
    *last = child;
}
