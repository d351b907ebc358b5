/* The names of exercise.h, which stand for the submission's. */
#include "../remote.h"
#include "exercise.h"

const ct_op layer_norm = REMOTE_OP("layer_norm", sizeof(layer_norm_attrs));
