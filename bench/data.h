/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUMAC_BENCH_DATA_H
#define SUMAC_BENCH_DATA_H

#include <stddef.h>
#include <sumac/sumac.h>

/* What arrays hold. Integers and fp8 are random codes in each of them (fp8: finite ones). */
enum data {
  DATA_NORMAL,       /* N(0, 1), nearly */
  DATA_FOUR_WINDOWS, /* random signs and exponents over 150 binades: with their mantissas 4 windows of 52 */
  DATA_WHOLE_RANGE,  /* random signs and exponents, from the smallest normal number to where sums of 2^30
                        of them stay finite in an accumulator of the type itself */
  DATA_OUTLIERS      /* normal, but each 10^6-th is huge or tiny */
};

const char *data_name(enum data data, sumac_dtype dtype);

/* Writes n elements. What element i is depends on i alone. */
void data_fill(enum data data, sumac_dtype dtype, void *elements, size_t n, int threads);

#endif
