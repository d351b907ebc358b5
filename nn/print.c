/* Prints a module in the manner of torch's repr: kind, options, and children indented by two. */
#include "module.h"

static void module_print_at(const ct_module *module, FILE *file, int indent) {
    fprintf(file, "%s(", cti_nn_kind_name(module));
    if (module->children) fprintf(file, "\n%*s", indent + 2, "");
    const bool described = module->type->describe != NULL;
    if (described) module->type->describe(module->self, file);
    for (const ct_module *child = module->children; child; child = child->next) {
        if (child != module->children || described) fprintf(file, "\n%*s", indent + 2, "");
        fprintf(file, "(%s): ", child->name);
        module_print_at(child, file, indent + 2);
    }
    if (module->children) fprintf(file, "\n%*s", indent, "");
    fputc(')', file);
}

void ct_module_print(const ct_module *module, FILE *file) {
    if (!module || !file || !cti_object_is_open(&module->object, "ct_module_print")) return;
    module_print_at(module, file, 0);
    fputc('\n', file);
}
