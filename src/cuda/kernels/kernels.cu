/* SPDX-License-Identifier: Apache-2.0
 *
 * All kernels of exact sums, expanded from the lists: one for each map and dtype, and each of them for
 * contiguous tensors and for strided ones.
 */
#include "exact.h"

/* clang-format off */
#define DENSE(NAME, T, M) KERNEL(NAME, sumac_most_threads(T, M), sumac_least_blocks(T, M), sumac_launch, exact_kernel<dense_source, T, M>)
#define STRIDED(NAME, T, M) KERNEL(NAME##_strided, sumac_most_threads(T, M), sumac_least_blocks(T, M), sumac_launch_strided, exact_kernel<strided_source, T, M>)
#define BOTH(NAME, T, M) DENSE(NAME, T, M) STRIDED(NAME, T, M)
/* clang-format on */

#define SUMAC_DTYPE(ID, ...) BOTH(sumac_exact_sum_##ID, SUMAC_T_##ID, SUMAC_M_SUM)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) BOTH(sumac_exact_abs_##ID, SUMAC_T_##ID, SUMAC_M_ABS)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) BOTH(sumac_exact_square_##ID, SUMAC_T_##ID, SUMAC_M_SQUARE)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) BOTH(sumac_exact_dot_##ID, SUMAC_T_##ID, SUMAC_M_DOT)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) BOTH(sumac_exact_moments_##ID, SUMAC_T_##ID, SUMAC_M_MOMENTS)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
