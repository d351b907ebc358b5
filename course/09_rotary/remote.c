/* The names of exercise.h, which stand for the submission's. */
#include "../remote.h"
#include "exercise.h"

const ct_op rotary = REMOTE_OP("rotary", sizeof(rotary_attrs));
