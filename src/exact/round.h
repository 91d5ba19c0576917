/* SPDX-License-Identifier: Apache-2.0
 *
 * From exact numbers to bits, rounding once. An exact value is first brought to a `sumac_real`: its
 * leading 128 bits and whether anything non-zero follows. Division and square root keep that form
 * exact in the same sense (a floor and a sticky bit), so that the one rounding at the end is right
 * for every output type.
 *
 * Plain C in headers, nothing of libc but types: to be shared with device code.
 */
#ifndef SUMAC_ROUND_H
#define SUMAC_ROUND_H

#include "exact/exact.h"

/* (-1)^negative * (bits + guard / 4 + a fraction below 1/4, non-zero iff sticky) * 2^exponent.
 * Where guard or sticky is set, bits has 128 significant bits, or 65 after a square root: more than any
 * type's precision + 1. */
struct sumac_real {
  sumac_u128 bits;
  int exponent;
  bool negative, sticky;
  int guard; /* two bits: a square root needs to know them */
};

SUMAC_HD static inline int sumac_bit_length(sumac_u128 v) {
  uint64_t high = (uint64_t)(v >> 64), low = (uint64_t)v;
#ifdef __CUDA_ARCH__
  return high ? 128 - __clzll((long long)high) : 64 - __clzll((long long)low);
#else
  return high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
#endif
}

/* Limb i of |x|, x canonical: lowest is the index of x's lowest non-zero limb. */
SUMAC_HD static inline uint64_t sumac_magnitude_limb(const int64_t *limb, int count, bool negative,
                                                     int lowest, int i) {
  if (!negative) return (uint64_t)limb[i];
  if (i < lowest) return 0;
  uint64_t v = i == lowest ? 0 - (uint64_t)limb[i] : ~(uint64_t)limb[i];
  return i == count - 1 ? v : v & 0xffffffff;
}

/* Fills r.bits, which has at least 97 bits, up to 128, and the guard, from the two digits below; what is left
 * of these is sticky. */
SUMAC_HD static inline void sumac_real_fill(struct sumac_real *r, uint32_t first, uint32_t second) {
  int room = 128 - sumac_bit_length(r->bits);
  uint64_t next = (uint64_t)first << 32 | second;
  if (room) r->bits = r->bits << room | next >> (64 - room);
  r->exponent -= room;
  next <<= room;
  r->guard = (int)(next >> 62);
  r->sticky |= next << 2 != 0;
}

/* The value of canonical limbs. */
SUMAC_HD static inline struct sumac_real sumac_real_of_limbs(const int64_t *limb, int count, int bias) {
  struct sumac_real r = {0, 0, limb[count - 1] < 0, false, 0};
  int lowest = 0, i = count;
  SUMAC_HD_ROLLED
  while (lowest < count - 1 && !limb[lowest]) lowest++;
  SUMAC_HD_ROLLED
  while (i > 0 && r.bits >> 96 == 0)
    r.bits = r.bits << 32 | sumac_magnitude_limb(limb, count, r.negative, lowest, --i);
  r.exponent = 32 * i - bias;
  if (i > lowest) {
    uint64_t first = sumac_magnitude_limb(limb, count, r.negative, lowest, i - 1);
    uint64_t second = i > 1 ? sumac_magnitude_limb(limb, count, r.negative, lowest, i - 2) : 0;
    sumac_real_fill(&r, (uint32_t)first, (uint32_t)second);
    r.sticky |= i - 2 > lowest;
  }
  return r;
}

/* The value of one element. */
SUMAC_HD static inline struct sumac_real sumac_real_of_element(struct sumac_element e) {
  struct sumac_real r = {e.magnitude, e.exponent, e.negative, false, 0};
  return r;
}

/* The floor of the square root of a number of 127 or 128 bits. */
SUMAC_HD static inline uint64_t sumac_root(sumac_u128 v) {
  uint64_t root = 0;
#ifdef __CUDA_ARCH__ /* an estimate from 53 bits, made too small by more than its error; a step of Newton's; \
                        the last unit */
  double s = __dsqrt_rd((double)(uint64_t)(v >> 64)) * 4294967296.0;
  root = (uint64_t)s - 4096;
  sumac_u128 rest = v - (sumac_u128)root * root;
  root += (uint64_t)(((double)(uint64_t)(rest >> 64) * 18446744073709551616.0 + (double)(uint64_t)rest) /
                     (2 * s));
  while ((sumac_u128)root * root > v) root--;
  while (v - (sumac_u128)root * root > 2 * (sumac_u128)root) root++;
#else /* by bits: floating point is the caller's here */
  for (uint64_t bit = (uint64_t)1 << 63; bit; bit >>= 1) {
    uint64_t wider = root | bit;
    if ((sumac_u128)wider * wider <= v) root = wider;
  }
#endif
  return root;
}

/* The square root of r >= 0: floor of 65 bits, and sticky. */
SUMAC_HD static inline struct sumac_real sumac_real_sqrt(struct sumac_real r) {
  if (!r.bits) return r;
  int shift = 128 - sumac_bit_length(r.bits);
  if ((r.exponent - shift) & 1) shift--; /* 127 or 128 significant bits, even exponent */
  if (shift < 0) {                       /* 128 bits and an odd exponent: one bit becomes a guard */
    r.sticky |= r.guard & 1;
    r.guard = (int)(r.bits & 1) << 1 | r.guard >> 1;
    r.bits >>= 1;
  } else {
    r.bits <<= shift;
  }
  r.exponent -= shift;
  uint64_t root = sumac_root(r.bits);
  /* one more: (2 root + 1)^2 = 4 root^2 + 4 root + 1 */
  sumac_u128 rest = (r.bits - (sumac_u128)root * root) << 2 | r.guard, step = ((sumac_u128)root << 2) + 1;
  bool last = rest >= step;
  r.sticky |= rest != (last ? step : 0);
  r.bits = (sumac_u128)root << 1 | last;
  r.exponent = r.exponent / 2 - 1;
  r.guard = 0;
  return r;
}

/* Rounds (sig + a fraction, non-zero iff sticky) * 2^(top - 63), bit 63 of sig set, to the bits of float type
 * t, ties to even. Beyond the largest finite number: an infinity (e4m3fn: NaN), or that number with
 * `saturate`. */
SUMAC_HD static inline uint64_t sumac_round_float(uint64_t sig, bool sticky, int top, bool negative,
                                                  const struct sumac_type_info *t, bool saturate) {
  int emin = 2 - (1 << (t->exponent - 1)), normal = top > emin ? top : emin;
  int shift = 63 - t->mantissa + (normal - top); /* places that are dropped, of a subnormal more than usual */
  uint64_t sign = negative ? (uint64_t)1 << (t->dtype.bits - 1) : 0, limit = sumac_max_finite_bits(t);
  uint64_t kept = shift < 64 ? sig >> shift : 0;
  uint64_t rest = shift < 64 ? sig << (64 - shift) : shift == 64 ? sig : 0; /* to the left of the point */
  bool below = sticky || rest << 1 || shift > 64;
  kept += rest >> 63 && (below || (kept & 1));
  /* a carry out of the mantissa moves into the exponent field by itself, as does the hidden bit */
  kept += (uint64_t)(normal - emin) << t->mantissa;
  bool over = top > 1 - emin + !sumac_has_inf(t) || kept > limit;
  if (!over) return sign | kept;
  return saturate ? sign | limit : sumac_has_inf(t) ? sign | sumac_inf_bits(t) : sumac_nan_bits(t);
}

/* Rounds to the bits of type t, ties to even. *range is set where the value does not fit an integer
 * type; the bits are saturated then. Floats: as above. */
SUMAC_HD static inline uint64_t sumac_round(struct sumac_real r, const struct sumac_type_info *t,
                                            bool saturate, bool *range) {
  int width = t->dtype.bits, length = sumac_bit_length(r.bits);
  if (t->cls == SUMAC_C_FLOAT) {
    if (!length) return r.negative ? (uint64_t)1 << (width - 1) : 0;
    sumac_u128 bits = r.bits << (128 - length);
    bool sticky = r.sticky || r.guard || (uint64_t)bits;
    return sumac_round_float((uint64_t)(bits >> 64), sticky, length - 1 + r.exponent, r.negative, t,
                             saturate);
  }
  uint64_t limit = t->cls == SUMAC_C_INT    ? sumac_low_bits(width - 1) + r.negative
                   : t->cls == SUMAC_C_BOOL ? 1
                   : r.negative             ? 0
                                            : sumac_low_bits(width);
  bool over = length && length + r.exponent > 65; /* a zero may have any exponent */
  sumac_u128 kept = 0;
  if (!over && length) {
    int shift = -r.exponent;
    if (shift <= 0) {
      kept = r.bits << -shift;
    } else {
      bool half = shift <= 128 && (r.bits >> (shift - 1) & 1);
      bool below = r.sticky || r.guard ||
                   (shift > 128 ? r.bits != 0 : (r.bits & (((sumac_u128)1 << (shift - 1)) - 1)) != 0);
      kept = shift >= 128 ? 0 : r.bits >> shift;
      kept += half && (below || (kept & 1));
    }
  }
  if (over || kept > limit) {
    *range |= !saturate;
    kept = limit;
  }
  uint64_t bits = (uint64_t)kept;
  return (r.negative ? 0 - bits : bits) & sumac_low_bits(width);
}

#endif
