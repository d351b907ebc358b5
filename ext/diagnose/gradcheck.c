/* ct_gradcheck: a check by src/check whose wrong gradients are diagnosed, and which is reported as
 * text and as a page. */
#include "diagnose.h"

static void check_report(cti_check *check) {
    cti_diagnose_report(check);
    cti_diagnose_html(check);
}

ct_gradcheck_result ct_gradcheck(ct_fn fn, void *arg, ct_tensor *const *in, int n,
                                 ct_gradcheck_opts opts) {
    static const cti_check_client client = {.explain = cti_diagnose, .report = check_report};
    return cti_check_run(fn, arg, in, n, opts, &client);
}
