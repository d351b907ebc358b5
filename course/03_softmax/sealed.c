/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

const sealed_op sealed_ops[] = {
    {"softmax", &softmax, NULL},
    {"log_softmax", &log_softmax, NULL},
    {NULL, NULL, NULL},
};
const sealed_function sealed_functions[] = {{NULL, NULL}};
