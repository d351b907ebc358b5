/* check_gradient: see README.md. */
#include "exercise.h"

check check_gradient(const function *f, const double *x) {
    (void)f, (void)x; /* it is not written yet */
    return (check){.verdict = NO_VERDICT};
}
