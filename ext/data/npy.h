/* The header of a NumPy file (.npy). It says of what kind an array's numbers are, and the numbers
 * follow it:
 *
 *     "\x93NUMPY", major and minor version, the length of the text (2 bytes; 4 from version 2 on),
 *     {'descr': '<u2', 'fortran_order': False, 'shape': (100,), }   spaces and a line end
 *
 * The text is a Python literal. Versions 1, 2 and 3 are read. */
#ifndef CTI_EXT_DATA_NPY_H
#define CTI_EXT_DATA_NPY_H

#include "../../src/io/file.h"

enum { CTI_NPY_MAGIC = 6, CTI_NPY_DTYPE = 16 };

typedef struct {
    char dtype[CTI_NPY_DTYPE]; /* such as "<u2"; a longer one is refused */
    bool fortran_order;
    int dims;
    int64_t length; /* the product of the dims */
    int64_t data;   /* the offset of the numbers */
} cti_npy;

/* Whether a file of at least n bytes that begins with these is a NumPy file. */
bool cti_npy_is(const unsigned char *first, size_t n);
/* Reads the header. A fault is CT_ERR_FORMAT with its offset. */
bool cti_npy_read(const cti_file *file, cti_npy *npy);

#endif
