/* SPDX-License-Identifier: Apache-2.0
 *
 * Test data: the lists that the tests walk, random numbers, and arrays of every kind that a reduction
 * may find hard, as element codes of a given dtype.
 */
#ifndef SUMAC_TESTS_DATA_H
#define SUMAC_TESTS_DATA_H

#include "sumac/sumac.h"

#define DTYPES 15
extern const sumac_dtype dtypes[DTYPES];
#define OPS 16
extern const char *const op_text[OPS];
const char *dtype_text(sumac_dtype dtype);
int dtype_is_float(sumac_dtype dtype);
int same_dtype(sumac_dtype a, sumac_dtype b);

/* splitmix64 */
typedef struct data_random {
  uint64_t state;
} data_random;
uint64_t data_next(data_random *random);
/* in [0, limit) */
uint64_t data_below(data_random *random, uint64_t limit);

typedef enum data_kind {
  DATA_NORMAL,       /* N(0, 1), for integers a third of the bits */
  DATA_UNIFORM,      /* (0, 1); for integers the whole range */
  DATA_WIDE,         /* exponents over the whole range */
  DATA_SUBNORMAL,    /* integers: −1, 0, 1 */
  DATA_TIES,         /* sums halfway between two numbers of some output type, or a trifle off */
  DATA_CANCELLATION, /* x and −x, permuted */
  DATA_SPECIALS,     /* NaN, infinities, zeros among others */
  DATA_MINUS_ZERO,   /* only */
  DATA_RANDOM_BITS,
  DATA_OUTLIERS, /* normal but for one in a thousand */
  DATA_DRIFTING, /* magnitudes that grow or shrink with the index, over the whole range */
  DATA_HUGE,     /* the top two binades */
  DATA_EQUAL,    /* one value */
  DATA_KINDS
} data_kind;
const char *data_kind_name(data_kind kind);

void data_codes(sumac_dtype dtype, data_kind kind, data_random *random, uint64_t *codes, size_t n);

/* Packs codes as little-endian elements. */
void data_pack(sumac_dtype dtype, const uint64_t *codes, size_t n, void *bytes);

/* Codes of one value in a dtype, by truncation; infinities and NaN map to the type's own. */
uint64_t data_code(sumac_dtype dtype, double value);

#endif
