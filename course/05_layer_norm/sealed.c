/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

const sealed_op sealed_ops[] = {
    {"layer_norm", &layer_norm, NULL},
    {NULL, NULL, NULL},
};
const sealed_function sealed_functions[] = {{NULL, NULL}};
