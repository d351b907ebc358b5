/* The names of exercise.h, which stand for the submission's. */
#include "../remote.h"
#include "exercise.h"

const ct_op softmax = REMOTE_OP("softmax", 0);
const ct_op log_softmax = REMOTE_OP("log_softmax", 0);
