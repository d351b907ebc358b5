/* ct_gradcheck: a check of src/check, the diagnosis of a wrong gradient, and the reports. */
#ifndef CTI_DIAGNOSE_DIAGNOSE_H
#define CTI_DIAGNOSE_DIAGNOSE_H

#include "../../src/check/check.h"

/* diagnose.c: says which mistake explains the error of an input with a wrong gradient. False: out
 * of memory. */
bool cti_diagnose(cti_check *check, cti_checked *c);
/* report.c: prints the report. */
void cti_diagnose_report(const cti_check *check);
/* The name of a cotangent by .output of a ct_gradcheck_element: "random", "ones", ..., or "1 at ",
 * which the caller completes by the position. */
const char *cti_diagnose_cotangent(int64_t output);
/* "ok", "wrong" or "cannot tell". */
const char *cti_diagnose_verdict(const ct_gradcheck_result *result);
/* html.c: writes the report as a page. CT_ERR_IO if the file cannot be written. */
void cti_diagnose_html(cti_check *check);

#endif
