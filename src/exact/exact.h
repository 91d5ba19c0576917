/* SPDX-License-Identifier: Apache-2.0
 *
 * The superaccumulator: a fixed-point number in int64 limbs of 32 payload bits. Limb i weighs
 * 2^(32 i - bias). Limbs may hold anything that fits their 64 bits in between; carrying brings them to
 * canonical form: every limb in [0, 2^32), the top one signed. Adding two canonical numbers is adding
 * their limbs as integers, 2^31 times over before a carry is due.
 *
 * Plain C in headers, nothing of libc but types: to be shared with device code.
 */
#ifndef SUMAC_EXACT_H
#define SUMAC_EXACT_H

#include "model/semantics.h"

__extension__ typedef __int128 sumac_i128;
__extension__ typedef unsigned __int128 sumac_u128;

/* Room above the format's top limb: a wide term added near the top spills its sign extension there. */
#define SUMAC_SPARE_LIMBS 4

/* Limbs low ... high - 1 are occupied. The others are zero, and not even set: most sums occupy a few. */
struct sumac_exact {
  struct sumac_format format;
  int low, high;
  int64_t limb[SUMAC_MAX_LIMBS + SUMAC_SPARE_LIMBS];
};

/* Sums that no number can hold, and what decides the sign of a zero. All additive. */
struct sumac_counts {
  int64_t n;                 /* elements, whatever they are */
  int64_t nan;               /* of these, NaN */
  int64_t pinf, ninf;        /* infinite terms; inf * 0 counts as one of each */
  int64_t not_negative_zero; /* non-zero where a term was seen that is neither -0 nor NaN */
};

SUMAC_HD static inline void sumac_carry(int64_t *limb, int count) {
  int64_t carry = 0;
  SUMAC_HD_ROLLED
  for (int i = 0; i < count - 1; i++) {
    int64_t v = limb[i] + carry;
    if (((uint64_t)v >> 32) == 0) { /* most are canonical: a branch breaks the chain of carries */
      limb[i] = v;
      carry = 0;
      continue;
    }
    limb[i] = v & 0xffffffff;
    carry = v >> 32;
  }
  limb[count - 1] += carry;
}

/* Occupies limbs first ... last - 1 as well. */
SUMAC_HD static inline void sumac_exact_occupy(struct sumac_exact *x, int first, int last) {
  if (x->low == x->high) x->low = x->high = first;
  while (x->low > first) x->limb[--x->low] = 0;
  while (x->high < last) x->limb[x->high++] = 0;
}

/* The occupied limbs are a number in a format of its own. */
SUMAC_HD static inline struct sumac_format sumac_exact_format(const struct sumac_exact *x) {
  struct sumac_format f = {(int16_t)(x->high - x->low), (int16_t)(x->format.bias - 32 * x->low)};
  return f;
}

/* Adds value * 2^exponent. |value| < 2^95; bits below the format's last place must be zero. The 4 limbs
 * touched may each be touched 2^30 times between carries. */
SUMAC_HD static inline void sumac_exact_add(struct sumac_exact *x, sumac_i128 value, int exponent) {
  if (!value) return;
  int place = exponent + x->format.bias;
  if (place < 0) { /* a window finer than the format: what lies below it is zero */
    value >>= -place < 127 ? -place : 127;
    place = 0;
  }
  int first = place >> 5;
  int64_t *limb = x->limb + first;
  sumac_exact_occupy(x, first, first + 4);
  value = (sumac_i128)((sumac_u128)value << (place & 31));
  limb[0] += (int64_t)(value & 0xffffffff);
  limb[1] += (int64_t)(value >> 32 & 0xffffffff);
  limb[2] += (int64_t)(value >> 64 & 0xffffffff);
  limb[3] += (int64_t)(value >> 96);
}

/* Brings what is occupied, at least one limb, to canonical form; spare limbs, which are sign extension then,
 * are folded into the format's top limb. The highest occupied limb takes whatever 2^62 elements can leave
 * there. */
SUMAC_HD static inline void sumac_exact_settle(struct sumac_exact *x) {
  int n = x->format.limbs;
  if (x->low == x->high) sumac_exact_occupy(x, 0, 1);
  sumac_carry(x->limb + x->low, x->high - x->low);
  if (x->high <= n) return;
  x->limb[n - 1] += (int64_t)((uint64_t)x->limb[n] << 32);
  x->high = n;
}

/* Adds one number to another of the same format. */
SUMAC_HD static inline void sumac_exact_merge(struct sumac_exact *into, const struct sumac_exact *from) {
  sumac_exact_occupy(into, from->low, from->high);
  for (int i = from->low; i < from->high; i++) into->limb[i] += from->limb[i];
  sumac_exact_settle(into);
}

SUMAC_HD static inline void sumac_counts_add(struct sumac_counts *a, const struct sumac_counts *b) {
  a->n += b->n;
  a->nan += b->nan;
  a->pinf += b->pinf;
  a->ninf += b->ninf;
  a->not_negative_zero += b->not_negative_zero;
}

/* Of the squares of what was counted: they are not negative. */
SUMAC_HD static inline struct sumac_counts sumac_counts_of_squares(struct sumac_counts c) {
  c.pinf += c.ninf;
  c.ninf = 0;
  c.not_negative_zero = 1;
  return c;
}

/* One element, or one product, by the book: what every fast path must agree with. n is not counted. */
SUMAC_HD static inline void sumac_exact_add_element(struct sumac_exact *x, struct sumac_counts *c,
                                                    enum sumac_map map, struct sumac_element a,
                                                    struct sumac_element b) {
  if (map == SUMAC_M_SQUARE) b = a;
  bool product = map == SUMAC_M_SQUARE || map == SUMAC_M_DOT;
  bool negative = map != SUMAC_M_ABS && (product ? a.negative != b.negative : a.negative);
  if (a.nan || (product && b.nan)) {
    c->nan++;
    return;
  }
  if (a.inf || (product && b.inf)) {
    bool zero = product && ((!a.inf && !a.magnitude) || (!b.inf && !b.magnitude));
    c->pinf += !negative || zero;
    c->ninf += negative || zero;
    c->not_negative_zero = 1;
    return;
  }
  sumac_u128 m = product ? (sumac_u128)a.magnitude * b.magnitude : a.magnitude;
  int exponent = product ? a.exponent + b.exponent : a.exponent;
  if (m || !negative) c->not_negative_zero = 1;
  uint64_t low = (uint64_t)(m & 0xffffffff), high = (uint64_t)(m >> 32 & 0xffffffff),
           top = (uint64_t)(m >> 64);
  /* in pieces, since a product of two 64-bit integers has 128 bits */
  sumac_i128 piece = (sumac_i128)((sumac_u128)high << 32 | low);
  sumac_exact_add(x, negative ? -piece : piece, exponent);
  if (top) sumac_exact_add(x, negative ? -(sumac_i128)top : (sumac_i128)top, exponent + 64);
}

#endif
