/* The names of exercise.h, which stand for the submission's. */
#include "../remote.h"
#include "exercise.h"

const ct_op neuron = REMOTE_OP("neuron", 0);
const ct_op add = REMOTE_OP("add", 0);
const ct_op mul = REMOTE_OP("mul", 0);
