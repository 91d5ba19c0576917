/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of integers, their magnitudes and products, which are exact whatever is done: as many 32-bit pieces as
 * a term has, each summed in 64 bits. 8-bit types take four terms an instruction.
 */
#ifndef SUMAC_KERNEL_INTEGERS_H
#define SUMAC_KERNEL_INTEGERS_H

#include "adaptive.h"

template <int TYPE, int MAP, int U> struct integer_sum {
  typedef element<TYPE> e;
  typedef tile<U, MAP == SUMAC_M_DOT> tile_type;
  static constexpr int elements = U * e::per_vector;
  static constexpr bool product = words_of<TYPE, MAP>::product;
  static constexpr int term_bits = product ? 2 * e::bits : e::bits;
  /* one 64-bit sum where 2^31 terms fit it, else one for each 32 bits of the term, the last signed */
  static constexpr int pieces = term_bits <= 32 ? 1 : (term_bits + 31) / 32;
  static constexpr bool bytes = e::size == 1;
  static constexpr int shared_bytes = 0;

  i64 sum[pieces];
  u32 count;
  u32 seen;

  MEMBER void start() {
    count = 0;
    seen = false;
#pragma unroll
    for (int i = 0; i < pieces; i++) sum[i] = 0;
  }
  template <class R> MEMBER void flush(const R &r) {
#pragma unroll
    for (int i = 0; i < pieces; i++) {
      flush_one(sum[i], 32 * i, r.limb());
      sum[i] = 0;
    }
    count = 0;
  }
  static MEMBER i64 value(const vec16 (&v)[U], int k) {
    u64 b = bits_at<TYPE, U>(v, k);
    return e::is_signed ? (i64)(b << (64 - e::bits)) >> (64 - e::bits) : (i64)b;
  }
  /* Bytes 0 or 1 of a word of bools, which may hold any bytes. */
  static MEMBER u32 ones(u32 w) { return (((w & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w) >> 7 & 0x01010101u; }
  /* Magnitudes of four signed bytes, unsigned. */
  static MEMBER u32 magnitudes(u32 w) {
    u32 negative = (w >> 7) & 0x01010101u, mask = negative * 255;
    return (w ^ mask) + negative; /* no byte carries: only 0 ^ 0 + 0 and 255 - x + 1 <= 128 occur */
  }
  MEMBER void tile_of_bytes(const tile_type &t) {
    const vec16(&x)[U] = t.x, (&y)[U] = factor(t);
    i32 s = 0;
    u32 u = 0;
    constexpr u32 all = 0x01010101u;
#pragma unroll
    for (int k = 0; k < U * 4; k++) {
      u32 a = x[k / 4].w[k % 4], b = y[k / 4].w[k % 4];
      if (TYPE == SUMAC_T_BOOL) {
        a = ones(a);
        b = ones(b);
      }
      if (e::is_signed && MAP == SUMAC_M_ABS)
        u = dot_bytes(magnitudes(a), all, u);
      else if (e::is_signed)
        s = dot_bytes((i32)a, product ? (i32)b : (i32)all, s);
      else
        u = dot_bytes(a, product ? b : all, u);
    }
    sum[0] += (i64)s + (i64)u;
  }
  MEMBER bool is_closed() const { return false; }
  template <class R> MEMBER void begin(const R &, const tile_type &) {}
  MEMBER bool is_full() const { return !bytes && count > (1u << 30); }
  MEMBER bool try_tile(const tile_type &t) {
    if constexpr (bytes)
      tile_of_bytes(t);
    else
      tile_of_words(t);
    count += elements;
    return true;
  }
  template <class R> MEMBER void cold_tile(const R &, tile_type &) {} /* never asked for */
  MEMBER void tile_of_words(const tile_type &t) {
    const vec16(&x)[U] = t.x, (&y)[U] = factor(t);
#pragma unroll
    for (int k = 0; k < elements; k++) {
      i64 a = value(x, k), b = product ? value(y, k) : 0;
      if (MAP == SUMAC_M_ABS && e::is_signed)
        a = a < 0 ? (i64)(0 - (u64)a) : a; /* 2^63: its bits are unsigned */
      if (pieces == 1) {
        sum[0] += product ? a * b : a;
      } else if (pieces == 2) {
        i64 v = product ? (i64)((u64)a * (u64)b) : a; /* 32-bit factors */
        bool is_unsigned = !e::is_signed || MAP == SUMAC_M_ABS;
        sum[0] += (u32)v;
        sum[pieces - 1] += is_unsigned ? (i64)((u64)v >> 32) : v >> 32;
      } else {
        u64 low = (u64)a * (u64)b, high = multiply_high((u64)a, (u64)b);
        if (e::is_signed) high -= (a < 0 ? (u64)b : 0) + (b < 0 ? (u64)a : 0);
        sum[0] += (u32)low;
        sum[1 % pieces] += (i64)(low >> 32);
        sum[2 % pieces] += (u32)high;
        sum[pieces - 1] += e::is_signed ? (i64)high >> 32 : (i64)(high >> 32);
      }
    }
  }
  template <class R> MEMBER void end(const R &r) { flush(r); }
};

#endif
