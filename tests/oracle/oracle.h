/* SPDX-License-Identifier: Apache-2.0
 *
 * The test oracle: every reduction of sumac.h in exact mode, computed as naively as can be. It shares no
 * source with the library. Elements are added one by one into a wide fixed-point integer, and a result
 * is rounded by searching, among the codes of the output type, for its two neighbours: there is no
 * shifting, sticky bit or carry that could be wrong in the same way as in the library.
 * check_mpfr.c checks it against MPFR.
 */
#ifndef SUMAC_TESTS_ORACLE_H
#define SUMAC_TESTS_ORACLE_H

#include "sumac/sumac.h"

/* Room for (Σx)² in units of 2^-4352: 2·(2176 + 1024 + 62) bits. */
#define ORACLE_WORDS 224

/* A non-negative integer in base 2^32, lowest word first. */
typedef struct oracle_big {
  uint32_t word[ORACLE_WORDS];
} oracle_big;

/* One decoded element: ±m·2^e. */
typedef enum oracle_class { ORACLE_FINITE, ORACLE_INF, ORACLE_NAN } oracle_class;

typedef struct oracle_number {
  oracle_class class;
  int negative;
  uint64_t m; /* 0: a zero */
  int e;
} oracle_number;

/* A product's leading bits in 2^e, lowest word first. The lowest bit is set if anything below is lost. */
#define ORACLE_FACTOR_WORDS 16
typedef struct oracle_power {
  uint32_t word[2 * ORACLE_FACTOR_WORDS];
  int64_t e;
} oracle_power;

/* What any operation needs to know of the elements, or products, added so far. */
typedef struct oracle_stats {
  oracle_big positive,
      negative;      /* sums of the positive terms and of the other ones' magnitudes, in 2^-2176 */
  oracle_big square; /* Σx² in 2^-2176; not kept for products */
  uint64_t n;        /* all terms, NaN included */
  uint64_t nan;      /* elements that are NaN, pairs that hold one */
  uint64_t invalid;  /* products inf·0 of elements that are not NaN */
  uint64_t plus_inf, minus_inf;
  uint64_t plus_zero, minus_zero;
  oracle_number min, max, largest; /* of the elements that are not NaN; largest in magnitude */
  uint64_t min_at, max_at, nan_at; /* indices of the first such element */
  oracle_power product;            /* of the elements that are finite and not 0 */
  uint64_t factors, negatives;     /* how many these are; elements with a minus sign */
  int floats;                      /* whether a zero has a sign */
} oracle_stats;

/* An unrounded result: ±(numerator/denominator)·2^-unit, or the square root of that. */
typedef struct oracle_value {
  oracle_class class;
  int negative;
  oracle_big numerator;
  oracle_big denominator;
  int unit;
  int root;
} oracle_value;

oracle_number oracle_decode(sumac_dtype dtype, uint64_t bits);

void oracle_clear(oracle_stats *stats);
/* `times` copies of one element, or of the product of two. */
void oracle_add(oracle_stats *stats, sumac_dtype dtype, uint64_t bits, uint64_t times);
void oracle_add_product(oracle_stats *stats, sumac_dtype dtype, uint64_t x, uint64_t y, uint64_t times);

/* The result of `op` (flags: SUMAC_SKIP_NAN), or SUMAC_ERR_EMPTY. */
sumac_status oracle_finish(const oracle_stats *stats, sumac_op op, uint32_t flags, int64_t ddof,
                           oracle_value *value);
/* Its bits in a type (flags: SUMAC_SATURATE); SUMAC_OK or SUMAC_ERR_RANGE. */
sumac_status oracle_round(const oracle_value *value, sumac_dtype dtype, uint32_t flags, uint64_t *bits);
/* Both in one. */
sumac_status oracle_result(const oracle_stats *stats, sumac_op op, uint32_t flags, int64_t ddof,
                           sumac_dtype dtype, uint64_t *bits);

/* Bits of the element at data + byte_offset + index·strides, and storing them there. */
uint64_t oracle_load(const sumac_tensor *tensor, const int64_t *index);
void oracle_store(const sumac_tensor *tensor, const int64_t *index, uint64_t bits);
/* Steps `index` through `shape` in row-major order; 0 at the end. */
int oracle_next(int32_t ndim, const int64_t *shape, int64_t *index);

/* sumac_reduce in exact mode, without its argument checks. */
sumac_status oracle_reduce(sumac_op op, const sumac_tensor *x, const sumac_tensor *y,
                           const sumac_options *options, const sumac_tensor *out);

#endif
