/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled, not run: the sizes, places and numbers that a program compiled against an older header has
 * built in. A change here is a change of the ABI, and of the SONAME. */
#include <stddef.h>
#include <sumac/sumac.h>

_Static_assert(sizeof(sumac_dtype) == 4, "");
_Static_assert(offsetof(sumac_dtype, bits) == 1 && offsetof(sumac_dtype, lanes) == 2, "");
_Static_assert(sizeof(sumac_device) == 8 && offsetof(sumac_device, id) == 4, "");

_Static_assert(sizeof(sumac_tensor) == 48, "");
_Static_assert(offsetof(sumac_tensor, data) == 0 && offsetof(sumac_tensor, device) == 8, "");
_Static_assert(offsetof(sumac_tensor, ndim) == 16 && offsetof(sumac_tensor, dtype) == 20, "");
_Static_assert(offsetof(sumac_tensor, shape) == 24 && offsetof(sumac_tensor, strides) == 32, "");
_Static_assert(offsetof(sumac_tensor, byte_offset) == 40, "");

_Static_assert(sizeof(sumac_config) == 64, "");
_Static_assert(offsetof(sumac_config, cpu_features) == 4 && offsetof(sumac_config, alloc) == 8, "");
_Static_assert(offsetof(sumac_config, dealloc) == 16 && offsetof(sumac_config, user) == 24, "");
_Static_assert(offsetof(sumac_config, reserved) == 32, "");

_Static_assert(sizeof(sumac_options) == 64, "");
_Static_assert(offsetof(sumac_options, axes) == 0 && offsetof(sumac_options, naxes) == 8, "");
_Static_assert(offsetof(sumac_options, acc) == 12 && offsetof(sumac_options, flags) == 16, "");
_Static_assert(offsetof(sumac_options, ddof) == 24 && offsetof(sumac_options, stream) == 32, "");
_Static_assert(offsetof(sumac_options, reserved) == 40, "");

_Static_assert(sizeof(sumac_device_info) == 192, "");
_Static_assert(offsetof(sumac_device_info, name) == 0 && offsetof(sumac_device_info, compute_major) == 128,
               "");
_Static_assert(offsetof(sumac_device_info, compute_minor) == 132, "");
_Static_assert(offsetof(sumac_device_info, multiprocessors) == 136, "");
_Static_assert(offsetof(sumac_device_info, driver_version) == 140, "");
_Static_assert(offsetof(sumac_device_info, memory_bytes) == 144, "");
_Static_assert(offsetof(sumac_device_info, kernels) == 152, "");
_Static_assert(offsetof(sumac_device_info, reserved) == 160, "");

_Static_assert(sizeof(sumac_statistics) == 144, "");
_Static_assert(offsetof(sumac_statistics, nan) == 8 && offsetof(sumac_statistics, zeros) == 32, "");
_Static_assert(offsetof(sumac_statistics, mean) == 40 && offsetof(sumac_statistics, norminf) == 72, "");
_Static_assert(offsetof(sumac_statistics, min) == 80 && offsetof(sumac_statistics, max) == 88, "");
_Static_assert(offsetof(sumac_statistics, min_bits) == 96 && offsetof(sumac_statistics, max_bits) == 104, "");
_Static_assert(offsetof(sumac_statistics, reserved) == 112, "");

_Static_assert(SUMAC_ERR_ARGUMENT == 1 && SUMAC_ERR_UNSUPPORTED == 2 && SUMAC_ERR_EMPTY == 3, "");
_Static_assert(SUMAC_ERR_RANGE == 4 && SUMAC_ERR_FORMAT == 5 && SUMAC_ERR_MEMORY == 6, "");
_Static_assert(SUMAC_ERR_DEVICE == 7, "");
_Static_assert(SUMAC_SUM == 0 && SUMAC_DOT == 1 && SUMAC_MEAN == 2 && SUMAC_VAR == 3, "");
_Static_assert(SUMAC_STD == 4 && SUMAC_NORM1 == 5 && SUMAC_NORM2 == 6 && SUMAC_NORMINF == 7, "");
_Static_assert(SUMAC_MIN == 8 && SUMAC_MAX == 9 && SUMAC_ARGMIN == 10 && SUMAC_ARGMAX == 11, "");
_Static_assert(SUMAC_PROD == 12 && SUMAC_COUNT_NONZERO == 13 && SUMAC_ANY == 14 && SUMAC_ALL == 15, "");
_Static_assert(SUMAC_ACC_EXACT == 0 && SUMAC_ACC_F64 == 1 && SUMAC_ACC_F32 == 2 && SUMAC_ACC_I64 == 3, "");
_Static_assert(SUMAC_ACC_F16 == 4 && SUMAC_ACC_BF16 == 5 && SUMAC_ACC_I32 == 6, "");
_Static_assert(SUMAC_KIND_SUM == 0 && SUMAC_KIND_ABS == 1 && SUMAC_KIND_SQUARE == 2, "");
_Static_assert(SUMAC_KIND_DOT == 3 && SUMAC_KIND_MOMENTS == 4, "");
_Static_assert(SUMAC_KEEPDIMS == 1 && SUMAC_SKIP_NAN == 2 && SUMAC_SATURATE == 4, "");
_Static_assert(SUMAC_CPU_BASE == 1 && SUMAC_CPU_AVX2 == 2 && SUMAC_CPU_AVX512 == 4, "");
_Static_assert(SUMAC_MAX_DIMS == 64, "");
