/* SPDX-License-Identifier: Apache-2.0
 *
 * The finish: what an operation makes of its exact sums, rounded once. All rules for NaN, infinities,
 * zeros, n and ddof are here.
 *
 *   mean       S / n
 *   variance   (n Q - S^2) / (n (n - ddof)), S = sum of x, Q = sum of x^2; no cancellation: both are exact
 *   root       sqrt(Q); deviation = sqrt(variance)
 *
 * Plain C in headers, nothing of libc but types: to be shared with device code.
 */
#ifndef SUMAC_FINISH_H
#define SUMAC_FINISH_H

#include "exact/round.h"

/* Non-negative integers as little-endian base 2^32 digits. The variance of f64 needs most: n * Q is 134 + 2
 * limbs, S^2 2 * 69. */
enum { SUMAC_DIGITS = 144 };

struct sumac_finish {
  enum sumac_finish_kind kind;
  const struct sumac_type_info *out;
  int64_t ddof;
  bool skip_nan, saturate;
};

/* |limbs| into digits; returns how many. */
SUMAC_HD static inline int sumac_digits_of_limbs(const int64_t *limb, int count, uint32_t *digit) {
  bool negative = limb[count - 1] < 0;
  int lowest = 0;
  SUMAC_HD_ROLLED
  while (lowest < count - 1 && !limb[lowest]) lowest++;
  SUMAC_HD_ROLLED
  for (int i = 0; i < count; i++) {
    uint64_t v = sumac_magnitude_limb(limb, count, negative, lowest, i);
    digit[i] = (uint32_t)v;
    if (i == count - 1) digit[count] = (uint32_t)(v >> 32);
  }
  int n = count; /* at least one limb */
  SUMAC_HD_ROLLED
  while (n >= 0 && !digit[n]) n--;
  return n + 1;
}

/* Divides in place by d in [1, 2^62]; returns whether there is a remainder. */
SUMAC_HD static inline bool sumac_digits_divide(uint32_t *digit, int count, uint64_t d) {
  sumac_u128 rest = 0;
  SUMAC_HD_ROLLED
  for (int i = count - 1; i >= 0; i--) {
    rest = rest << 32 | digit[i];
    if (rest >> 64 == 0) {
      digit[i] = (uint32_t)((uint64_t)rest / d);
      rest = (uint64_t)rest % d;
    } else {
      digit[i] = (uint32_t)(rest / d);
      rest %= d;
    }
  }
  return rest != 0;
}

SUMAC_HD static inline struct sumac_real sumac_real_of_digits(const uint32_t *digit, int count, int bias,
                                                              bool negative, bool sticky) {
  struct sumac_real r = {0, 0, negative, sticky, 0};
  SUMAC_HD_ROLLED
  while (count > 0 && !digit[count - 1]) count--;
  int i = count;
  SUMAC_HD_ROLLED
  while (i > 0 && r.bits >> 96 == 0) r.bits = r.bits << 32 | digit[--i];
  r.exponent = 32 * i - bias;
  if (i > 0) sumac_real_fill(&r, digit[i - 1], i > 1 ? digit[i - 2] : 0);
  i = i > 2 ? i - 2 : 0;
  SUMAC_HD_ROLLED
  while (i > 0 && !r.sticky) r.sticky = digit[--i] != 0;
  return r;
}

/* r / n, n in [1, 2^62]. */
SUMAC_HD static inline struct sumac_real sumac_real_divide(struct sumac_real r, uint64_t n) {
  int shift = r.bits ? 128 - sumac_bit_length(r.bits) : 0; /* none where guard or sticky is set */
  r.bits <<= shift;
  r.exponent -= shift;
  /* schoolbook, 32 bits of the quotient at a time: at least 66 of them are significant */
  sumac_u128 quotient = 0, rest = 0;
  SUMAC_HD_ROLLED
  for (int i = 3; i >= 0; i--) {
    rest = rest << 32 | (uint32_t)(r.bits >> (32 * i));
    uint64_t digit = 0; /* rest < 2^32 n */
    if (rest >> 64 == 0) {
      digit = (uint64_t)rest / n;
      rest = (uint64_t)rest % n;
    } else {
      SUMAC_HD_ROLLED
      for (int bit = 31; bit >= 0; bit--)
        if (rest >= (sumac_u128)n << bit) {
          rest -= (sumac_u128)n << bit;
          digit |= (uint64_t)1 << bit;
        }
    }
    quotient = quotient << 32 | digit;
  }
  r.sticky |= rest != 0 || r.guard != 0;
  r.guard = 0;
  r.bits = quotient;
  return r;
}

/* (n Q - S^2) / (n (n - ddof)), n > ddof >= 0. Negative only where S and Q are not sums of the same numbers.
 */
SUMAC_HD static inline struct sumac_real sumac_real_variance(const int64_t *s, struct sumac_format sf,
                                                             const int64_t *q, struct sumac_format qf,
                                                             int64_t n, int64_t ddof) {
  uint32_t sum[SUMAC_MAX_LIMBS / 2 + 2] = {0}, square[SUMAC_MAX_LIMBS + 1] = {0}, digit[SUMAC_DIGITS] = {0};
  int sums = sumac_digits_of_limbs(s, sf.limbs, sum), squares = sumac_digits_of_limbs(q, qf.limbs, square);
  int low = 0, low_square = 0; /* zero digits below: skipped, most are */
  SUMAC_HD_ROLLED
  while (low_square < squares && !square[low_square]) low_square++;
  SUMAC_HD_ROLLED
  while (low < sums && !sum[low]) low++;
  /* S^2 weighs 2^-(2 sum bias), Q 2^-(product bias): both go on the finer grid */
  int grid = 2 * sf.bias > qf.bias ? 2 * sf.bias : qf.bias;
  int qshift = (grid - qf.bias) / 32, sshift = (grid - 2 * sf.bias) / 32;
  int used = qshift + squares + 3 > sshift + 2 * sums + 1 ? qshift + squares + 3 : sshift + 2 * sums + 1;
  if (used > SUMAC_DIGITS) used = SUMAC_DIGITS;
  bool negative = false;
  uint64_t factor[2] = {(uint64_t)n & 0xffffffff, (uint64_t)n >> 32};
  SUMAC_HD_ROLLED
  for (int j = 0; j < 2; j++) {
    uint64_t carry = 0;
    SUMAC_HD_ROLLED
    for (int i = low_square; i < squares || carry; i++) {
      carry += digit[qshift + i + j] + (i < squares ? square[i] * factor[j] : 0);
      digit[qshift + i + j] = (uint32_t)carry;
      carry >>= 32;
    }
  }
  SUMAC_HD_ROLLED
  for (int j = low; j < sums; j++) {
    uint64_t carry = 0, borrow = 0; /* digit -= sum * sum[j] << 32 j */
    SUMAC_HD_ROLLED
    for (int i = low; i < sums || carry || borrow; i++) {
      if (sshift + i + j >= used) { /* S^2 > n Q: no sums of real numbers */
        negative = true;
        break;
      }
      carry += i < sums ? (uint64_t)sum[i] * sum[j] : 0;
      uint64_t d = (uint64_t)digit[sshift + i + j] - (uint32_t)carry - borrow;
      digit[sshift + i + j] = (uint32_t)d;
      borrow = d >> 63;
      carry >>= 32;
    }
  }
  /* n (n - ddof) is below 2^124: of the leading 256 bits, divided by it, 66 or more are left */
  enum { LEADING = 8 };
  int count = used;
  SUMAC_HD_ROLLED
  while (count > 0 && !digit[count - 1]) count--;
  uint32_t leading[LEADING];
  bool sticky = false;
  int first = count - LEADING;
  for (int i = 0; i < LEADING; i++) leading[i] = first + i >= 0 ? digit[first + i] : 0;
  SUMAC_HD_ROLLED
  for (int i = 0; i < first && !sticky; i++) sticky = digit[i] != 0;
  sticky |= sumac_digits_divide(leading, LEADING, (uint64_t)n);
  sticky |= sumac_digits_divide(leading, LEADING, (uint64_t)(n - ddof));
  return sumac_real_of_digits(leading, LEADING, grid - 32 * first, negative, sticky);
}

/* The bits of a special value: NaN, or an infinity. */
SUMAC_HD static inline uint64_t sumac_special(const struct sumac_finish *f, bool nan, bool negative,
                                              bool *range) {
  const struct sumac_type_info *t = f->out;
  if (t->cls == SUMAC_C_FLOAT) {
    if (nan || !sumac_has_inf(t)) return sumac_nan_bits(t);
    return sumac_inf_bits(t) | (negative ? (uint64_t)1 << (t->dtype.bits - 1) : 0);
  }
  *range = true;
  if (nan) return 0;
  struct sumac_real far = {(sumac_u128)1 << 127, 0, negative, false, 0};
  return sumac_round(far, t, true, range);
}

/* Do the counters alone decide? Then *bits is the result. */
SUMAC_HD static inline bool sumac_finish_special(const struct sumac_finish *f, const struct sumac_counts *c,
                                                 uint64_t *bits, bool *range) {
  bool spread = f->kind == SUMAC_F_VARIANCE || f->kind == SUMAC_F_DEVIATION;
  int64_t n = f->skip_nan ? c->n - c->nan : c->n;
  bool nan = (c->nan && !f->skip_nan) || (spread && n <= f->ddof) || (f->kind == SUMAC_F_MEAN && n == 0);
  if (!nan && !c->pinf && !c->ninf) return false;
  *bits = sumac_special(f, nan || spread || (c->pinf && c->ninf), c->ninf != 0, range);
  return true;
}

/* The result of a sum, or of a variance. */
SUMAC_HD static inline uint64_t sumac_finish_real(const struct sumac_finish *f, const struct sumac_counts *c,
                                                  struct sumac_real r, bool *range) {
  bool spread = f->kind == SUMAC_F_VARIANCE || f->kind == SUMAC_F_DEVIATION;
  int64_t n = f->skip_nan ? c->n - c->nan : c->n;
  if (f->kind == SUMAC_F_MEAN) r = sumac_real_divide(r, (uint64_t)n);
  if (!r.bits) r.negative = !spread && n > 0 && !c->not_negative_zero && f->out->cls == SUMAC_C_FLOAT;
  if (f->kind == SUMAC_F_ROOT || f->kind == SUMAC_F_DEVIATION) r = sumac_real_sqrt(r);
  return sumac_round(r, f->out, f->saturate, range);
}

/* The result of canonical sums: s, in format sf, and for the variance q, in format qf. */
SUMAC_HD static inline uint64_t sumac_finish_sums(const struct sumac_finish *f, const struct sumac_counts *c,
                                                  const int64_t *s, struct sumac_format sf, const int64_t *q,
                                                  struct sumac_format qf, bool *range) {
  uint64_t bits;
  if (sumac_finish_special(f, c, &bits, range)) return bits;
  int64_t n = f->skip_nan ? c->n - c->nan : c->n;
  bool spread = f->kind == SUMAC_F_VARIANCE || f->kind == SUMAC_F_DEVIATION;
  return sumac_finish_real(f, c,
                           spread ? sumac_real_variance(s, sf, q, qf, n, f->ddof)
                                  : sumac_real_of_limbs(s, sf.limbs, sf.bias),
                           range);
}

/* ---- plain sums, which binary64 holds */

SUMAC_HD static inline double sumac_sqrt(double x) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}

/* The result of a sum of n terms, or for a variance of the squares of n elements about their mean. NaN where
 * there are too few. */
SUMAC_HD static inline double sumac_plain_value(const struct sumac_finish *f, double sum, double squares,
                                                int64_t n) {
  double divisor = n > f->ddof ? (double)(n - f->ddof) : 0;
  switch (f->kind) {
  case SUMAC_F_MEAN: return sum / (double)n;
  case SUMAC_F_ROOT: return sumac_sqrt(n ? sum : 0);
  case SUMAC_F_VARIANCE: return (divisor > 0 ? squares : 0) / divisor;
  case SUMAC_F_DEVIATION: return sumac_sqrt((divisor > 0 ? squares : 0) / divisor);
  default: return n ? sum : 0;
  }
}

/* Its bits in the output type. */
SUMAC_HD static inline uint64_t sumac_plain_bits(const struct sumac_finish *f, double value, bool *range) {
  union {
    double value;
    uint64_t bits;
  } v = {value};
  uint64_t magnitude = v.bits & sumac_low_bits(63), mantissa = magnitude & sumac_low_bits(52);
  int field = (int)(magnitude >> 52);
  bool negative = v.bits >> 63;
  if (field == 2047) return sumac_special(f, mantissa != 0, negative, range);
  if (field) mantissa |= (uint64_t)1 << 52;
  struct sumac_real r = {mantissa, (field ? field : 1) - 1075, negative, false, 0};
  return sumac_round(r, f->out, f->saturate, range);
}

#endif
