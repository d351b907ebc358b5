/* The names of exercise.h, which stand for the submission's. */
#include "../remote.h"
#include "exercise.h"

const ct_op masked_attention = REMOTE_OP("masked_attention", sizeof(masked_attention_attrs));
