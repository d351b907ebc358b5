#include "dtype.h"

#include "../kernels/elementwise.h"
#include "isa.h"

const cti_dtype_info cti_dtype_table[CTI_DTYPES] = {
    /*            name    file    size  real   computed  statistics, bits of a code */
    [CT_F32] = {"f32", "F32", 4, true, CT_F32, CT_F32, 0},
    [CT_F64] = {"f64", "F64", 8, true, CT_F64, CT_F64, 0},
    [CT_I64] = {"i64", "I64", 8, false, CT_I64, CT_I64, 0},
    [CT_BOOL] = {"bool", "BOOL", 1, false, CT_BOOL, CT_BOOL, 0},
    [CT_BF16] = {"bf16", "BF16", 2, false, CT_F32, CT_F32, 0},
    [CT_Q8_0] = {"q8_0", "Q8_0", 0, false, CT_F32, CT_F32, 8},
    [CT_Q4_0] = {"q4_0", "Q4_0", 0, false, CT_F32, CT_F32, 4},
};

#define TABLE_ENTRIES(type, array) (sizeof((type *)0)->array / sizeof *((type *)0)->array)
_Static_assert(TABLE_ENTRIES(cti_elementwise_kernels, cast) == CTI_DTYPES,
               "a kernel casts to each dtype");
_Static_assert(TABLE_ENTRIES(cti_isa, of) == CTI_DTYPES,
               "an instruction set has a table for each dtype");
