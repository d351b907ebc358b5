/* On machines whose long has 32 bits glibc has other names for the calls with offsets of 64 bits,
 * and from 2.34 on for those with times of 64 bits. The linker wraps calls by these names. */
#ifndef WIDE_OFFSETS_H
#define WIDE_OFFSETS_H

#include <features.h>

#define __wrap_open      __wrap_open64
#define __real_open      __real_open64
#define __wrap_openat    __wrap_openat64
#define __real_openat    __real_openat64
#define __wrap_pread     __wrap_pread64
#define __real_pread     __real_pread64
#define __wrap_pwrite    __wrap_pwrite64
#define __real_pwrite    __real_pwrite64
#define __wrap_ftruncate __wrap_ftruncate64
#define __real_ftruncate __real_ftruncate64
#if defined __USE_TIME_BITS64
#define __wrap_fstat   __wrap___fstat64_time64
#define __real_fstat   __real___fstat64_time64
#define __wrap_fstatat __wrap___fstatat64_time64
#define __real_fstatat __real___fstatat64_time64
#define __wrap_lstat   __wrap___lstat64_time64
#define __real_lstat   __real___lstat64_time64
#define __wrap_stat    __wrap___stat64_time64
#define __real_stat    __real___stat64_time64
#define __wrap_fcntl   __wrap___fcntl_time64
#define __real_fcntl   __real___fcntl_time64
#else
#define __wrap_fstat   __wrap_fstat64
#define __real_fstat   __real_fstat64
#define __wrap_fstatat __wrap_fstatat64
#define __real_fstatat __real_fstatat64
#define __wrap_lstat   __wrap_lstat64
#define __real_lstat   __real_lstat64
#define __wrap_stat    __wrap_stat64
#define __real_stat    __real_stat64
#define __wrap_fcntl   __wrap_fcntl64
#define __real_fcntl   __real_fcntl64
#endif

#endif
