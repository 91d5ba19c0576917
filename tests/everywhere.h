/* SPDX-License-Identifier: Apache-2.0
 *
 * One exact reduction by every way that the library has: each instruction set, with one thread and with
 * more, and through a state; on request on a device, too. All of them must agree; what they agree on is
 * returned.
 */
#ifndef SUMAC_TESTS_EVERYWHERE_H
#define SUMAC_TESTS_EVERYWHERE_H

#include "sumac/sumac.h"

typedef struct outcome {
  sumac_status status;
  uint64_t bits; /* as written; all ones where nothing was */
} outcome;

/* From now on also on a CUDA device, as far as operations exist there. 0 where there is none. */
int everywhere_with_device(void);

/* All axes are reduced; y only for DOT. Options: flags and ddof. */
outcome everywhere(sumac_op op, const sumac_tensor *x, const sumac_tensor *y, uint32_t flags, int64_t ddof,
                   sumac_dtype out);

/* The same over plain arrays, with the default options; a failure ends the test. */
uint64_t everywhere_bits(sumac_op op, sumac_dtype dtype, const void *x, const void *y, int64_t n,
                         sumac_dtype out);
double everywhere_f64(sumac_op op, const double *x, const double *y, int64_t n);

/* Fails the test unless `everywhere` gives what the oracle does, for an array of codes. */
void agree_with_oracle(sumac_op op, sumac_dtype dtype, const uint64_t *x, const uint64_t *y, int64_t n,
                       uint32_t flags, int64_t ddof, sumac_dtype out);

/* Codes to and from C numbers. */
double double_of(uint64_t bits);
uint64_t bits_of(double value);

#endif
