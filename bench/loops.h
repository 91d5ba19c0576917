/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUMAC_BENCH_LOOPS_H
#define SUMAC_BENCH_LOOPS_H

#include <stddef.h>

/* What a programmer writes, and what a compiler makes of it when it may reorder (-O3 -ffast-math
 * -march=native). y is used by the dot products only; integers are added up in 64 bits. */
typedef double loop(const void *x, const void *y, size_t n);

loop loop_sum_f64, loop_sum_f32, loop_dot_f64, loop_dot_f32;
loop loop_sum_i8, loop_sum_i16, loop_sum_i32, loop_sum_i64;

#endif
