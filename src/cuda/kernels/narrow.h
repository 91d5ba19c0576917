/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of f16 and fp8, and products of e4m3: fixed-point numbers of 40, 32, 18 and 36 bits, so that one
 * choice of windows holds all there are, and nothing needs to be certified but that no NaN or infinity is
 * among them. Those poison a floating-point sum that is made anyway.
 */
#ifndef SUMAC_KERNEL_NARROW_H
#define SUMAC_KERNEL_NARROW_H

#include "adaptive.h"

/* Counts NaN and infinities and puts neutral elements in their place; was one infinite? */
template <class S> DEVICE bool drop_specials(typename S::tile_type &t, u64 *counts) {
  typedef element<S::type> e;
  bool seen = false;
#pragma unroll 1
  for (int k = 0; k < S::elements; k++) {
    u64 bx = bits_at<S::type>(t.x, k), by = bits_at<S::type>(factor(t), k);
    if (!is_special<S::type, S::map>(bx, by, counts)) continue;
    seen |= (bx & e::magnitude) <= e::inf && (!S::product || (by & e::magnitude) <= e::inf);
    put_bits<S::type>(t.x, k, e::sign);
    if constexpr (S::map == SUMAC_M_DOT) put_bits<S::type>(t.y, k, 0);
  }
  return seen;
}

template <int TYPE, int MAP, int U> struct narrow_sum {
  typedef tile<U, MAP == SUMAC_M_DOT> tile_type;
  static constexpr int type = TYPE, map = MAP;
  static constexpr int elements = U * element<TYPE>::per_vector, bias = words_of<TYPE, MAP>::number.bias;
  static constexpr bool product = words_of<TYPE, MAP>::product, e4m3 = TYPE == SUMAC_T_E4M3FN;
  static constexpr bool two_windows = !e4m3; /* e4m3 needs the low one only */
  /* exponents of the windows' units */
  static constexpr int HIGH = -6, LOW = TYPE == SUMAC_T_F16 ? -24 : !e4m3 ? -16 : product ? -18 : -9;
  static constexpr float MAGIC = 1.5f * 131072.f, UP = (float)(1 << -LOW);
  static constexpr int shared_bytes = 0;

  i64 high, low;
  u32 seen;

  MEMBER void start() {
    high = low = 0;
    seen = false;
  }
  /* Four or two elements of a word, as pairs. */
  static MEMBER float_pair pair(u32 w, int half) {
    if (TYPE == SUMAC_T_F16) return floats_of_halves(w);
    if (e4m3) return floats_of_halves(halves_of_e4m3(half ? w >> 16 : w));
    return floats_of_halves(half ? pick_bytes<0x3424>(w, 0) : pick_bytes<0x1404>(w, 0));
  }
  static constexpr int pairs = TYPE == SUMAC_T_F16 ? 1 : 2; /* a word */

  /* The tile in units of HIGH and LOW; false if something in it is NaN or infinite. */
  static MEMBER bool sum(const tile_type &t, i64 &h, i64 &l) {
    const vec16(&x)[U] = t.x, (&y)[U] = factor(t);
    h = l = 0;
    bool bad = false;
    if (e4m3 && product) {
      double d = 0;
#pragma unroll
      for (int k = 0; k < U * 4; k++)
#pragma unroll
        for (int z = 0; z < 2; z++) {
          float_pair a = pair(x[k / 4].w[k % 4], z), b = pair(y[k / 4].w[k % 4], z);
          d += (double)(a.low * b.low);
          d += (double)(a.high * b.high);
        }
      bad = !(d - d == 0);
      l = nearest_i64(d * UP);
    } else if (e4m3) {
#pragma unroll
      for (int g = 0; g < U * 4; g += 16) { /* 64 values of 18 bits: exact in binary32 */
        float a0 = 0, a1 = 0;
#pragma unroll
        for (int k = g; k < g + 16 && k < U * 4; k++)
#pragma unroll
          for (int z = 0; z < 2; z++) {
            float_pair f = pair(x[k / 4].w[k % 4], z);
            a0 += f.low;
            a1 += f.high;
          }
        float a = a0 + a1;
        bad |= !(a - a == 0);
        l += nearest_i32(a * UP);
      }
    } else {
      u32 bits = 0;
      float r0 = 0, r1 = 0;
#pragma unroll
      for (int k = 0; k < U * 4; k++)
#pragma unroll
        for (int z = 0; z < pairs; z++) {
          float_pair f = pair(x[k / 4].w[k % 4], z);
          float t0 = f.low + MAGIC, t1 = f.high + MAGIC;
          bits += bits_of(t0) + bits_of(t1);
          r0 += f.low - (t0 - MAGIC);
          r1 += f.high - (t1 - MAGIC);
        }
      float r = r0 + r1;
      bad = !(r - r == 0);
      h = (i32)(bits - (u32)elements * 0x48400000u); /* the bits of MAGIC */
      l = nearest_i32(r * UP);
    }
    return !bad;
  }
  MEMBER bool is_closed() const { return false; }
  template <class R> MEMBER void begin(const R &, const tile_type &) {}
  MEMBER bool is_full() const { return false; }
  template <class R> MEMBER void flush(const R &) {}
  MEMBER bool try_tile(tile_type &t) {
    i64 h, l;
    if (MAP == SUMAC_M_ABS) clear_signs<TYPE>(t);
    bool good = sum(t, h, l);
    if (warp_any(!good)) return false;
    if (!words_of<TYPE, MAP>::never_negative_zero) {
      if (h | l)
        seen = true;
      else if (!seen)
        seen = has_bits(t);
    }
    high += h;
    low += l;
    return true;
  }
  template <class R> MEMBER void cold_tile(const R &r, tile_type &t) {
    seen |= drop_specials<narrow_sum>(t, r.counts());
    try_tile(t);
  }
  /* A term that is not -0? */
  static MEMBER bool has_bits(const tile_type &t) {
    bool any = false;
#pragma unroll
    for (int k = 0; k < elements; k++) {
      u64 bx = bits_at<TYPE, U>(t.x, k), by = MAP == SUMAC_M_DOT ? bits_at<TYPE, U>(factor(t), k) : 0;
      bool zero =
          !(bx & element<TYPE>::magnitude) || (MAP == SUMAC_M_DOT && !(by & element<TYPE>::magnitude));
      any |= !zero || !((bx ^ by) & element<TYPE>::sign);
    }
    return any;
  }
  template <class R> MEMBER void end(const R &r) {
    if (two_windows) flush_one(high, HIGH + bias, r.limb());
    flush_one(low, LOW + bias, r.limb());
  }
};

#endif
