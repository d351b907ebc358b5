/* AddressSanitizer. It reports an access to memory that is poisoned. */
#ifndef CTI_CORE_ASAN_H
#define CTI_CORE_ASAN_H

#include <stddef.h>

#if defined __SANITIZE_ADDRESS__
#define CTI_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define CTI_ASAN 1
#endif
#endif

#if defined CTI_ASAN
#include <sanitizer/asan_interface.h>
static inline void cti_asan_poison(void *memory, size_t size) {
    __asan_poison_memory_region(memory, size);
}
static inline void cti_asan_unpoison(void *memory, size_t size) {
    __asan_unpoison_memory_region(memory, size);
}
#else
static inline void cti_asan_poison(void *memory, size_t size) { (void)memory, (void)size; }
static inline void cti_asan_unpoison(void *memory, size_t size) { (void)memory, (void)size; }
#endif

#endif
