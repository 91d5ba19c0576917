/* SPDX-License-Identifier: Apache-2.0
 *
 * What NaN, infinities, zeros and ties mean, once, for one element. Every backend's loops agree with
 * these functions; their scalar paths call them. Plain C in headers, nothing of libc but types: to be shared
 * with device code.
 */
#ifndef SUMAC_SEMANTICS_H
#define SUMAC_SEMANTICS_H

#include "model/model.h"

/* HD_ROLLED: a loop that device code must not repeat in line: size is latency. */
#ifdef __CUDACC__
#define SUMAC_HD __host__ __device__
#define SUMAC_HD_ROLLED _Pragma("unroll 1")
#else
#define SUMAC_HD
#define SUMAC_HD_ROLLED
#endif

/* One element as sign, integer magnitude and exponent: (-1)^negative * magnitude * 2^exponent. */
struct sumac_element {
  uint64_t magnitude;
  int exponent;
  bool negative, nan, inf;
};

SUMAC_HD static inline uint64_t sumac_low_bits(int n) {
  return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

/* The magnitude bits (all but the sign) from which on a float element is an infinity, and above which it
 * is a NaN. e4m3fn has no infinity: its only NaN is all ones, so "infinity" lies at that NaN less one,
 * a finite number, and callers must not ask. */
SUMAC_HD static inline uint64_t sumac_inf_bits(const struct sumac_type_info *t) {
  uint64_t all = sumac_low_bits(t->exponent) << t->mantissa;
  return t->dtype.code == 10 ? all | (sumac_low_bits(t->mantissa) - 1) : all;
}

SUMAC_HD static inline bool sumac_has_inf(const struct sumac_type_info *t) { return t->dtype.code != 10; }

/* The canonical quiet NaN. */
SUMAC_HD static inline uint64_t sumac_nan_bits(const struct sumac_type_info *t) {
  uint64_t all = sumac_low_bits(t->exponent) << t->mantissa;
  return all | (sumac_has_inf(t) ? (uint64_t)1 << (t->mantissa - 1) : sumac_low_bits(t->mantissa));
}

SUMAC_HD static inline uint64_t sumac_max_finite_bits(const struct sumac_type_info *t) {
  return sumac_inf_bits(t) - (sumac_has_inf(t) ? 1 : 0);
}

/* Decodes the element whose bits are in the low end of `bits` (bool: any non-zero byte is 1). */
SUMAC_HD static inline struct sumac_element sumac_decode(const struct sumac_type_info *t, uint64_t bits) {
  struct sumac_element e = {0, 0, false, false, false};
  int width = t->dtype.bits;
  bits &= sumac_low_bits(width);
  switch (t->cls) {
  case SUMAC_C_BOOL: e.magnitude = bits != 0; break;
  case SUMAC_C_UINT: e.magnitude = bits; break;
  case SUMAC_C_INT:
    e.negative = bits >> (width - 1);
    e.magnitude = (e.negative ? 0 - bits : bits) & sumac_low_bits(width);
    break;
  default: {
    uint64_t magnitude = bits & sumac_low_bits(width - 1);
    uint64_t mantissa = magnitude & sumac_low_bits(t->mantissa);
    int field = (int)(magnitude >> t->mantissa);
    e.negative = bits >> (width - 1);
    e.nan = magnitude > sumac_inf_bits(t);
    e.inf = sumac_has_inf(t) && magnitude == sumac_inf_bits(t);
    e.magnitude = field ? mantissa | (uint64_t)1 << t->mantissa : mantissa;
    e.exponent = (field ? field : 1) - ((1 << (t->exponent - 1)) - 1) - t->mantissa;
  }
  }
  return e;
}

/* Keys: signed integers of the element's width, ordered as MIN and MAX order the elements (-0 < +0;
 * NaN outside all others), or as ARGMIN and ARGMAX do (-0 and +0 tie), or by magnitude (MAXABS). */
SUMAC_HD static inline int64_t sumac_key(const struct sumac_type_info *t, enum sumac_map map, uint64_t bits) {
  int width = t->dtype.bits;
  uint64_t sign = (uint64_t)1 << (width - 1), all = sumac_low_bits(width);
  bits &= all;
  int64_t s = (int64_t)(bits << (64 - width)) >> (64 - width); /* sign-extended */
  switch (t->cls) {
  case SUMAC_C_BOOL: return bits != 0;
  case SUMAC_C_UINT: return (int64_t)((bits ^ sign) << (64 - width)) >> (64 - width);
  case SUMAC_C_INT:
    if (map != SUMAC_M_MAXABS) return s;
    bits = s < 0 ? 0 - (uint64_t)s : (uint64_t)s; /* up to 2^(width-1): ordered as unsigned */
    return (int64_t)((bits ^ sign) << (64 - width)) >> (64 - width);
  default:
    if (map == SUMAC_M_MAXABS) return (int64_t)(bits & ~sign);
    if (map == SUMAC_M_MIN || map == SUMAC_M_MAX) return s < 0 ? s ^ (int64_t)(all >> 1) : s;
    return s < 0 ? -(int64_t)(bits & ~sign) : s;
  }
}

/* The bits of the element whose key for MIN and MAX this is. */
SUMAC_HD static inline uint64_t sumac_bits_of_key(const struct sumac_type_info *t, int64_t key) {
  uint64_t sign = (uint64_t)1 << (t->dtype.bits - 1), bits = (uint64_t)key & sumac_low_bits(t->dtype.bits);
  if (t->cls == SUMAC_C_UINT) bits ^= sign;
  if (t->cls == SUMAC_C_FLOAT && key < 0) bits ^= sign - 1;
  return bits;
}

/* The element of a key (MAXABS: its magnitude). */
SUMAC_HD static inline struct sumac_element sumac_element_of_key(const struct sumac_type_info *t,
                                                                 enum sumac_map map, int64_t key) {
  int width = t->dtype.bits;
  uint64_t sign = (uint64_t)1 << (width - 1), all = sumac_low_bits(width), bits = (uint64_t)key & all;
  if (t->cls == SUMAC_C_INT && map == SUMAC_M_MAXABS) {
    struct sumac_element e = {bits ^ sign, 0, false, false, false};
    return e;
  }
  return sumac_decode(t, sumac_bits_of_key(t, key));
}

#endif
