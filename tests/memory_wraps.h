/* What a suite that is linked with --wrap of cti_take defines (__wrap_...), and what it stands for
 * (__real_...). */
#ifndef MEMORY_WRAPS_H
#define MEMORY_WRAPS_H

#include "../src/core/context.h"

void *__real_cti_take_any(ct_context *context, size_t size);
void *__real_cti_take_zeroed(ct_context *context, size_t size);
char *__real_cti_take_string(ct_context *context, const char *string);
ct_tensor *__real_cti_handle_take_any(ct_context *context);
void *__wrap_cti_take_any(ct_context *context, size_t size);
void *__wrap_cti_take_zeroed(ct_context *context, size_t size);
char *__wrap_cti_take_string(ct_context *context, const char *string);
ct_tensor *__wrap_cti_handle_take_any(ct_context *context);

#endif
