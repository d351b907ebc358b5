#include "dtype.h"

const cti_dtype_info cti_dtype_table[CTI_DTYPES] = {
    /*           name    file    size  real   computed */
    [CT_F32] = {"f32", "F32", 4, true, CT_F32},     [CT_F64] = {"f64", "F64", 8, true, CT_F64},
    [CT_I64] = {"i64", "I64", 8, false, CT_I64},    [CT_BOOL] = {"bool", "BOOL", 1, false, CT_BOOL},
    [CT_BF16] = {"bf16", "BF16", 2, false, CT_F32},
};
