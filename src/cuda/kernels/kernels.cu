/* SPDX-License-Identifier: Apache-2.0
 *
 * All kernels, expanded from the lists: one for each map and dtype, and accumulator, and each of them for
 * contiguous tensors and for strided ones; exact ones for many contiguous ones, too.
 */
#include "exact.h"
#include "plain.h"

/* clang-format off */
#define DENSE(NAME, T, M) KERNEL(NAME, sumac_most_threads(T, M), sumac_least_blocks(T, M), sumac_launch, exact_kernel<dense_source, T, M>)
#define STRIDED(NAME, T, M) KERNEL(NAME##_strided, sumac_most_threads(T, M), sumac_least_blocks(T, M), sumac_launch_strided, exact_kernel<strided_source, T, M>)
#define MANY(NAME, T, M) KERNEL(NAME##_many, sumac_most_threads(T, M), sumac_least_blocks(T, M), sumac_launch_many, exact_kernel<many_source, T, M>)
#define ALL(NAME, T, M) DENSE(NAME, T, M) STRIDED(NAME, T, M) MANY(NAME, T, M)
/* clang-format on */

#define SUMAC_DTYPE(ID, ...) ALL(sumac_exact_sum_##ID, SUMAC_T_##ID, SUMAC_M_SUM)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) ALL(sumac_exact_abs_##ID, SUMAC_T_##ID, SUMAC_M_ABS)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) ALL(sumac_exact_square_##ID, SUMAC_T_##ID, SUMAC_M_SQUARE)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) ALL(sumac_exact_dot_##ID, SUMAC_T_##ID, SUMAC_M_DOT)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) ALL(sumac_exact_moments_##ID, SUMAC_T_##ID, SUMAC_M_MOMENTS)
#include "model/dtypes.def"
#undef SUMAC_DTYPE

/* clang-format off */
#define TYPE_F64 double
#define TYPE_F32 float
#define PLAIN_DENSE(NAME, A, T, M) KERNEL(NAME, sumac_plain_threads(M), SUMAC_PLAIN_BLOCKS, sumac_launch, plain_kernel<dense_source, T, M, TYPE_##A>)
#define PLAIN_STRIDED(NAME, A, T, M) KERNEL(NAME##_strided, sumac_plain_threads(M), SUMAC_PLAIN_BLOCKS, sumac_launch_strided, plain_kernel<strided_source, T, M, TYPE_##A>)
#define PLAIN_BOTH(NAME, A, T, M) PLAIN_DENSE(NAME, A, T, M) PLAIN_STRIDED(NAME, A, T, M)
/* clang-format on */

#define SUMAC_PLAIN(A, T) PLAIN_BOTH(sumac_##A##_sum_##T, A, SUMAC_T_##T, SUMAC_M_SUM)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
#define SUMAC_PLAIN(A, T) PLAIN_BOTH(sumac_##A##_abs_##T, A, SUMAC_T_##T, SUMAC_M_ABS)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
#define SUMAC_PLAIN(A, T) PLAIN_BOTH(sumac_##A##_square_##T, A, SUMAC_T_##T, SUMAC_M_SQUARE)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
#define SUMAC_PLAIN(A, T) PLAIN_BOTH(sumac_##A##_dot_##T, A, SUMAC_T_##T, SUMAC_M_DOT)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
#define SUMAC_PLAIN(A, T) PLAIN_BOTH(sumac_##A##_moments_##T, A, SUMAC_T_##T, SUMAC_M_MOMENTS)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
