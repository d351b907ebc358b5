/* ct_gradcheck of the Check programs that link a library without ext/diagnose: the core's check, in
 * which every wrong gradient is CT_MISTAKE_UNKNOWN, and which prints no report. */
#include "src/check/check.h"

ct_gradcheck_result ct_gradcheck(ct_fn fn, void *arg, ct_tensor *const *in, int n,
                                 ct_gradcheck_opts opts) {
    return cti_check_run(fn, arg, in, n, opts, NULL);
}
