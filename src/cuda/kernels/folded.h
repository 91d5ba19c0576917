/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of binary64 values, and of products that are exact in binary64 or as two binary64 numbers: K windows
 * of 52 bits below each other. x + M, M = 1.5 * 2^52 units, has x rounded to a multiple of the window's unit
 * in its low bits: their patterns add up as integers, and what was rounded off goes to the next window. The
 * certificate: no sum left M's binade, and nothing is left below the last window.
 */
#ifndef SUMAC_KERNEL_FOLDED_H
#define SUMAC_KERNEL_FOLDED_H

#include "adaptive.h"

/* A term as the slow path and outliers see it: an integer of 53 bits times a power of two. */
DEVICE i64 integer_of(double v, int &unit) {
  u32 high = high_word(v), m = high & 0x7fffffffu, t = m >> 20 > 1 ? (m >> 20) - 1 : 0;
  i64 i = (i64)((u64)(m - (t << 20)) << 32 | low_word(v));
  unit = (int)t - 1074;
  return (i32)high < 0 ? -i : i;
}

/* Is a term neither -0 nor NaN? Asked where a tile came out as zero. */
template <class S, class TILE> DEVICE_COLD bool look_for_term(const TILE *t) {
  bool seen = false;
#pragma unroll 1
  for (int k = 0; k < S::elements; k++) {
    double rest, h = S::term(*t, k, rest);
    seen |= bits_of(h) != (u64)1 << 63 && h == h;
  }
  return seen;
}
template <class S, class TILE> DEVICE bool has_term(const TILE &t) {
  TILE copy = t;
  return look_for_term<S>(&copy);
}

template <int TYPE, int MAP, int U> struct folded_sum {
  typedef tile<U, MAP == SUMAC_M_DOT> tile_type;
  typedef words_of<TYPE, MAP> words;
  static constexpr bool product = words::product, twofold = product && TYPE == SUMAC_T_F64;
  static constexpr int elements = U * element<TYPE>::per_vector, bias = words::number.bias;
  static constexpr int K = twofold ? 3 : 2, HEAD = 4;
  /* units of the top window: where all terms fit one window, that one; else any that the format can hold */
  static constexpr bool fixed = TYPE == SUMAC_T_F16 || TYPE == SUMAC_T_E5M2;
  static constexpr int LEAST = TYPE == SUMAC_T_F16    ? 0
                               : TYPE == SUMAC_T_E5M2 ? 20
                               : TYPE == SUMAC_T_F64  ? -1074 + 52 * (K - 1)
                                                      : 52 - bias;
  static constexpr int MOST = fixed ? LEAST : 971;
  static constexpr u32 inf = 0x7ff00000u;
  /* bins of 32 binades, an element's low and high part in two of them; FIRST: what products can reach.
   * Products of binary64 would need 134 of them: these go to the limbs one by one */
  static constexpr int FIRST = product ? 22 : 0, BINS = product ? 20 : 66;
  static constexpr bool binned = !twofold && !fixed;
  static constexpr int COLUMNS = sumac_columns((enum sumac_type)TYPE),
                       shared_bytes = binned ? BINS * COLUMNS * 8 : 0;
  static constexpr u32 TINY = (u32)(1023 - 969) << 20; /* below, a product's error may be inexact */

  i64 sum[K]; /* in units of the windows */
  u32 top; /* high word of the top window's M, whose low word is 0; the others' are 52 binades apart each */
  u32 count;
  u32 seen;

  MEMBER void start() {
    count = 0;
    seen = false;
#pragma unroll
    for (int w = 0; w < K; w++) sum[w] = 0;
    close();
    if (fixed) set(LEAST);
  }
  MEMBER void set(int place) { top = (u32)(place + 52 + 1023) << 20 | 0x80000u; }
  MEMBER void close() { top = inf; } /* what is added to an infinity is refused */
  MEMBER bool is_closed() const { return top == inf; }
  template <class R> MEMBER void open(const R &r) { set(fixed ? LEAST : r.state().place); }
  MEMBER double magic(int w) const { return double_of(top - ((u32)(52 * w) << 20), 0); }
  MEMBER bool is_full() const { return count > (twofold ? 1024 : 2048) - elements; }
  template <class R> MEMBER void flush(const R &r) {
    int place = fixed ? LEAST : r.state().place;
    if (count) {
      if (K == 3) flush_one(sum[K - 1], place - 104 + bias, r.limb());
      flush_two(sum[0], sum[1], place - 52 + bias, r.limb());
    }
#pragma unroll
    for (int w = 0; w < K; w++) sum[w] = 0;
    count = 0;
  }
  static MEMBER double value(const vec16 (&v)[U], int k) {
    u32 b = (u32)bits_at<TYPE, U>(v, k);
    if (TYPE == SUMAC_T_F64) return double_of(bits_at<TYPE, U>(v, k));
    if (TYPE == SUMAC_T_F32) return (double)float_of(b);
    if (TYPE == SUMAC_T_BF16) return (double)float_of(b << 16);
    return (double)floats_of_halves(TYPE == SUMAC_T_E5M2 ? b << 8 : b).low;
  }
  /* The term, and what a product of binary64 leaves below it. */
  static MEMBER double term(const tile_type &t, int k, double &rest) {
    const vec16(&y)[U] = factor(t);
    rest = 0;
    if (!product) return value(t.x, k);
    if (fixed) { /* exact in binary32 */
      u32 bx = (u32)bits_at<TYPE, U>(t.x, k), by = (u32)bits_at<TYPE, U>(y, k);
      constexpr int up = TYPE == SUMAC_T_E5M2 ? 8 : 0;
      return (double)(floats_of_halves(bx << up).low * floats_of_halves(by << up).low);
    }
    double a = value(t.x, k), b = value(y, k), h = a * b;
    if (twofold) rest = fused(a, b, -h);
    return h;
  }
  static MEMBER bool is_zero_product(const tile_type &t, int k) {
    return value(t.x, k) == 0 || value(factor(t), k) == 0;
  }
  /* Adds x to window `first` and below: does it fit? */
  MEMBER bool fold(double x, int first, i64 (&s)[K], u32 &out) const {
    double q = 0;
#pragma unroll
    for (int w = first; w < K; w++) {
      double t = x + magic(w);
      s[w] += (i64)bits_of(t);
      if (w == 0) out |= high_word(t) ^ top;
      q = t - magic(w);
      if (w < K - 1) x = x - q;
    }
    return x == q;
  }
  MEMBER bool fits(const tile_type &t, int k) const {
    i64 s[K] = {};
    u32 out = 0;
    double rest, h = term(t, k, rest);
    bool ok = fold(h, 0, s, out) && (!twofold || fold(rest, 1, s, out));
    if (twofold) ok &= (high_word(h) & 0x7fffffffu) >= TINY || is_zero_product(t, k);
    return ok && !(out & inf);
  }
  MEMBER bool add(const tile_type &t) {
    i64 s[K];
#pragma unroll
    for (int w = 0; w < K; w++) s[w] = -(i64)(elements * (twofold && w > 0 ? 2 : 1)) * (i64)bits_of(magic(w));
    u32 out = 0;
    bool left = false, tiny = false;
#pragma unroll
    for (int k = 0; k < elements; k++) {
      double rest, h = term(t, k, rest);
      left |= !fold(h, 0, s, out);
      if (twofold) {
        left |= !fold(rest, 1, s, out);
        tiny |= (high_word(h) & 0x7fffffffu) < TINY;
      }
    }
    if (twofold && warp_any(tiny)) {
#pragma unroll
      for (int k = 0; k < elements; k++) {
        double rest, h = term(t, k, rest);
        left |= (high_word(h) & 0x7fffffffu) < TINY && !is_zero_product(t, k);
      }
    }
    if (warp_any(left || (out & inf))) return false;
    i64 any = 0;
#pragma unroll
    for (int w = 0; w < K; w++) {
      any |= s[w];
      sum[w] += s[w];
    }
    if (!words::never_negative_zero) {
      if (any)
        seen = true;
      else if (!seen)
        seen = has_term<folded_sum>(t);
    }
    count += elements;
    return true;
  }
  static MEMBER u32 largest(const tile_type &t, int count = elements) {
    u32 most = 0;
#pragma unroll
    for (int k = 0; k < count; k++) {
      double rest, h = term(t, k, rest);
      u32 m = high_word(h) & 0x7fffffffu;
      if (m < inf && m > most) most = m;
    }
    return most;
  }
  static MEMBER int place_for(u32 most) {
    int to = (int)(most >> 20 > 0 ? most >> 20 : 1) - 1023 + HEAD - 51;
    return to < LEAST ? LEAST : to > MOST ? MOST : to;
  }
  /* Before the first tile: a window for its first elements. */
  template <class R> MEMBER void begin(const R &r, const tile_type &t) {
    if (fixed) return;
    r.set_place(place_for(warp_max(largest(t, element<TYPE>::per_vector))));
    open(r);
  }
  template <class R> MEMBER bool move(const R &r, u32 most) {
    if (fixed) return false;
    int to = place_for(most);
    if (r.state().place != NO_PLACE && count && to <= r.state().place + HEAD - 1 && to >= r.state().place - 8)
      return false;
    flush(r);
    r.set_place(to);
    open(r);
    return true;
  }
  template <class R> static MEMBER void add_double(const R &r, double v) {
    int unit;
    i64 i = integer_of(v, unit);
    int at = unit + bias;
    if (at < 0) { /* products have no bits down there */
      i = i >> (at < -63 ? 63 : -at);
      at = 0;
    }
    add_alone(i, at, r.limb());
  }
  template <class R> MEMBER void spill(const R &r, tile_type &t, int k) {
    const vec16(&y)[U] = factor(t);
    u64 bx = bits_at<TYPE, U>(t.x, k), by = bits_at<TYPE, U>(y, k);
    if (is_special<TYPE, MAP>(bx, by, r.counts())) {
      u64 m = bx & element<TYPE>::magnitude, n = product ? by & element<TYPE>::magnitude : 0;
      seen |= m <= element<TYPE>::inf && n <= element<TYPE>::inf;
    } else if (twofold) {
      int ux, uy;
      i64 x = integer_of(double_of(bx), ux), v = integer_of(double_of(by), uy);
      bool negative = (x ^ v) < 0;
      u64 mx = (u64)(x < 0 ? -x : x), mv = (u64)(v < 0 ? -v : v);
      u64 low = mx * mv, high = multiply_high(mx, mv);
      int at = ux + uy + bias;
      i64 a = (i64)(low & 0xffffffffffffffull), b = (i64)(high << 8 | low >> 56);
      add_alone(negative ? -a : a, at, r.limb());
      add_alone(negative ? -b : b, at + 56, r.limb());
      seen |= mx && mv ? true : !((bx ^ by) >> 63);
    } else {
      double rest, h = term(t, k, rest);
      add_double(r, h);
      seen |= bits_of(h) != (u64)1 << 63;
    }
    put_bits<TYPE>(t.x, k, element<TYPE>::sign);
    if constexpr (MAP == SUMAC_M_DOT) put_bits<TYPE>(t.y, k, 0);
  }
  template <class R> MEMBER void slow(const R &r, tile_type &t) {
    if (!binned) {
#pragma unroll 1
      for (int k = 0; k < elements; k++) spill(r, t, k);
      r.template count_alone<words::limbs>(32 * elements);
      return;
    }
    r.use_bins(BINS, COLUMNS);
    if (!words::never_negative_zero && !seen) seen = look_for_term<folded_sum>(&t);
#pragma unroll 1
    for (int k = 0; k < elements; k++) {
      double rest, h = term(t, k, rest);
      if ((high_word(h) & 0x7fffffffu) >= inf) spill(r, t, k);
    }
    /* two bins' shares of each element, and where the first one is */
    i64 first[elements], second[elements];
    u32 at[elements];
#pragma unroll
    for (int k = 0; k < elements; k++) {
      double rest, h = term(t, k, rest);
      u32 high = high_word(h), low = low_word(h), m = high & 0x7fffffffu;
      u32 e = m >> 20 > 1 ? (m >> 20) - 1 : 0, most = m - (e << 20);
      if (FIRST && !(m | low)) e = FIRST * 32;
      first[k] = (i64)(u64)(low << (e & 31));
      second[k] = (i64)((u64)funnel_left(most, 0, e) << 32 | funnel_left(low, most, e));
      if ((i32)high < 0) {
        first[k] = -first[k];
        second[k] = -second[k];
      }
      at[k] = ((e >> 5) - FIRST) * COLUMNS;
    }
    i64 *column = r.column(COLUMNS);
#pragma unroll
    for (u32 turn = 0; turn < 32 / COLUMNS; turn++) {
      if (lane_index() / COLUMNS == turn) {
#pragma unroll
        for (int k = 0; k < elements; k++) {
          column[at[k]] += first[k];
          column[at[k] + COLUMNS] += second[k];
        }
      }
      warp_barrier();
    }
    if (r.wait(elements, 512 - elements)) carry_bins(r);
  }
  template <class R> MEMBER void carry_bins(const R &r) {
    warp_barrier();
    if (lane_index() < COLUMNS) {
      i64 carry = 0;
#pragma unroll 4
      for (int k = 0; k < BINS - 1; k++) {
        i64 v = r.column(COLUMNS)[k * COLUMNS] + carry;
        r.column(COLUMNS)[k * COLUMNS] = v & 0xffffffff;
        carry = v >> 32;
      }
      r.column(COLUMNS)[(BINS - 1) * COLUMNS] += carry;
    }
    warp_barrier();
  }
  template <class R> MEMBER void flush_bins(const R &r) {
    carry_bins(r);
    for (int k = (int)lane_index(); k < BINS; k += 32) {
      i64 total = r.bin_total(k, COLUMNS);
      int at = 32 * (k + FIRST) - 1074 + bias;
      if (at < 0) {
        total = total >> (at < -63 ? 63 : -at);
        at = 0;
      }
      add_alone(total, at, r.limb());
    }
    warp_barrier();
    if (lane_index() == 0) r.state().binned = 0;
    warp_barrier();
  }
  MEMBER bool try_tile(tile_type &t) {
    if (MAP == SUMAC_M_ABS) clear_signs<TYPE>(t);
    return add(t);
  }
  template <class R> MEMBER void cold_tile(const R &r, tile_type &t) {
    if (MAP == SUMAC_M_ABS) clear_signs<TYPE>(t); /* where no try was made */
    adapt(r, this, &t);
  }
  template <class R> MEMBER void end(const R &r) {
    flush(r);
    if (binned && r.state().binned) flush_bins(r);
  }
};

#endif
