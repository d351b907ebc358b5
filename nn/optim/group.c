/* Parameter groups: options for the parameters whose names match a pattern. */
#include "../../src/io/name_map.h"
#include "optim.h"

static bool matches_any(const char *pattern, const cti_nn_name *name) {
    while (name && !cti_name_matches(pattern, cti_text_of(name->text))) name = name->next;
    return name;
}

bool cti_nn_optim_has(const ct_optim *optim, const char *pattern) {
    int64_t i = 0;
    while (i < optim->count && !matches_any(pattern, optim->items[i].names)) i++;
    return i < optim->count;
}

static void group_join(cti_nn_item *item, const cti_nn_item *group) {
    item->lr_scale = group->lr_scale;
    item->weight_decay = group->weight_decay;
    item->frozen = group->frozen;
    item->grouped = true;
    if (item->frozen) cti_nn_item_reset(item);
}

bool ct_optim_group(ct_optim *optim, const char *pattern, ct_group_opts opts) {
    if (!cti_nn_optim_ready(optim, "ct_optim_group")) return false;
    const char *op = cti_nn_optim_name(optim);
    if (!pattern)
        return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: the pattern of a group is NULL", op);
    const cti_nn_item group = {.lr_scale = cti_option(opts.lr_scale, 1),
                               .weight_decay = cti_option(opts.weight_decay, 0),
                               .frozen = opts.frozen};
    cti_nn_fault fault;
    if (cti_nn_item_fault(&group, &fault))
        return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: %s of \"%s\" %s", op, fault.name,
                       pattern, fault.says);
    bool any = false;
    for (cti_nn_item *item = optim->items, *end = item + optim->count; item < end; item++) {
        if (!matches_any(pattern, item->names)) continue;
        group_join(item, &group);
        any = true;
    }
    return any || ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: no parameter is called \"%s\"", op,
                          pattern);
}
