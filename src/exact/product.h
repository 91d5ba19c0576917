/* SPDX-License-Identifier: Apache-2.0
 *
 * Products: a significand of 128 bits and an exponent of 64, so that nothing over- or underflows on the way.
 * What a multiplication leaves below the 128 bits is cut off, at most 2^-127 of the value, and remembered:
 * integers whose product has more bits fit no integer type. The order of multiplications is the caller's to
 * fix; then all machines give the same bits.
 *
 * Plain C in headers, nothing of libc but types: to be shared with device code.
 */
#ifndef SUMAC_PRODUCT_H
#define SUMAC_PRODUCT_H

#include "exact/finish.h"

/* (-1)^negative * bits * 2^exponent; bit 127 of bits is set. */
struct sumac_product {
  sumac_u128 bits;
  int64_t exponent;
  int64_t n, nan; /* factors, and NaNs among them */
  bool negative, sticky, zero, inf;
};

SUMAC_HD static inline void sumac_product_init(struct sumac_product *p) {
  struct sumac_product one = {(sumac_u128)1 << 127, -127, 0, 0, false, false, false, false};
  *p = one;
}

/* Exponents end far beyond what any type holds, and far from where adding two of them overflows. */
SUMAC_HD static inline int64_t sumac_product_clamp(int64_t exponent) {
  const int64_t most = (int64_t)1 << 61;
  return exponent > most ? most : exponent < -most ? -most : exponent;
}

/* Multiplies by high * 2^64 + low over 2^64, normalised or one bit short of it. */
SUMAC_HD static inline void sumac_product_set(struct sumac_product *p, sumac_u128 high, uint64_t low,
                                              int64_t exponent) {
  int short_of = !(high >> 127);
  p->bits = short_of ? high << 1 | low >> 63 : high;
  p->sticky |= low << short_of != 0;
  p->exponent = sumac_product_clamp(exponent - short_of);
}

/* Multiplies by one element. */
SUMAC_HD static inline void sumac_product_add(struct sumac_product *p, struct sumac_element e) {
  p->n++;
  if (e.nan) {
    p->nan++;
    return;
  }
  p->negative ^= e.negative;
  p->inf |= e.inf;
  p->zero |= !e.inf && !e.magnitude;
  if (e.inf || !e.magnitude) return;
  int shift = 64 - sumac_bit_length(e.magnitude);
  uint64_t factor = e.magnitude << shift;
  sumac_u128 low = (sumac_u128)(uint64_t)p->bits * factor;
  sumac_product_set(p, (p->bits >> 64) * factor + (uint64_t)(low >> 64), (uint64_t)low,
                    p->exponent + 64 + e.exponent - shift);
}

SUMAC_HD static inline void sumac_product_merge(struct sumac_product *p, const struct sumac_product *q) {
  const uint64_t a = (uint64_t)(p->bits >> 64), b = (uint64_t)p->bits, c = (uint64_t)(q->bits >> 64),
                 d = (uint64_t)q->bits;
  const sumac_u128 bd = (sumac_u128)b * d, ad = (sumac_u128)a * d, bc = (sumac_u128)b * c;
  const sumac_u128 middle = (bd >> 64) + (uint64_t)ad + (uint64_t)bc;
  p->n += q->n;
  p->nan += q->nan;
  p->negative ^= q->negative;
  p->zero |= q->zero;
  p->inf |= q->inf;
  p->sticky |= q->sticky || (uint64_t)bd;
  sumac_product_set(p, (sumac_u128)a * c + (ad >> 64) + (bc >> 64) + (middle >> 64), (uint64_t)middle,
                    p->exponent + q->exponent + 128);
}

/* The power p^times, times >= 1. */
SUMAC_HD static inline void sumac_product_power(struct sumac_product *p, int64_t times) {
  struct sumac_product base = *p;
  for (int bit = sumac_bit_length((sumac_u128)times) - 2; bit >= 0; bit--) {
    struct sumac_product square = *p;
    sumac_product_merge(p, &square);
    if (times >> bit & 1) sumac_product_merge(p, &base);
  }
}

/* Rounded once; special cases as sumac.h has them. The factors are of type t. */
SUMAC_HD static inline uint64_t sumac_product_finish(const struct sumac_product *p,
                                                     const struct sumac_type_info *t,
                                                     const struct sumac_finish *f, bool *range) {
  if ((p->nan && !f->skip_nan) || (p->inf && p->zero)) return sumac_special(f, true, false, range);
  if (p->inf) return sumac_special(f, false, p->negative, range);
  if (p->zero) {
    struct sumac_real zero = {0, 0, p->negative && t->cls == SUMAC_C_FLOAT, false, 0};
    return sumac_round(zero, f->out, f->saturate, range);
  }
  const int far = 1 << 28; /* beyond all types, and within an int */
  int exponent = p->exponent > far ? far : p->exponent < -far ? -far : (int)p->exponent;
  struct sumac_real r = {p->bits, exponent, p->negative, p->sticky, 0};
  return sumac_round(r, f->out, f->saturate, range);
}

#endif
