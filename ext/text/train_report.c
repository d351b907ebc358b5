/* The progress and the errors that all steps of a training report. */
#include <cotangent/autograd.h>

#include "train.h"

const char cti_train_op[] = "tokenizer_train";

bool cti_training_goes_on(const cti_training *training, double done) {
    if (!training->progress || training->progress(training->arg, done)) return true;
    return ct_fail(training->context, CT_ERR_ARGUMENT, "%s: progress returned false", cti_train_op);
}

bool cti_training_no_memory(const cti_training *training) {
    return ct_fail(training->context, CT_ERR_MEMORY, "%s: out of memory", cti_train_op);
}
