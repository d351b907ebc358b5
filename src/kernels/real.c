/* The kernels of one ISA and one real dtype, from all sources but random.c, which has compiler
 * flags of its own. Each source is an object, so that a change compiles no more than it must. */
#include "kernels.h"

void CTI_PUT(unary)(cti_kernels *table);
void CTI_PUT(elementwise)(cti_kernels *table);
void CTI_PUT(rows)(cti_kernels *table);
void CTI_PUT(products)(cti_kernels *table);
void CTI_PUT(block_products)(cti_kernels *table);

void CTI_PUT(real)(cti_kernels *table);
void CTI_PUT(real)(cti_kernels *table) {
    CTI_PUT(unary)(table);
    CTI_PUT(elementwise)(table);
    CTI_PUT(rows)(table);
    CTI_PUT(products)(table);
    CTI_PUT(block_products)(table);
}
