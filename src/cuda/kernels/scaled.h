/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of binary32 values, and of bfloat16 as such: a window of 51 bits holds them as integers, times a power
 * of two. The certificate looks at magnitudes only: none reaches above the window, none but zero has bits
 * below it. Slow path: 16 bins of 16 binades, one addition an element.
 */
#ifndef SUMAC_KERNEL_SCALED_H
#define SUMAC_KERNEL_SCALED_H

#include "adaptive.h"

template <int TYPE, int MAP, int U> struct scaled_sum {
  typedef tile<U, false> tile_type;
  typedef words_of<TYPE, MAP> words;
  static constexpr int elements = U * element<TYPE>::per_vector, bias = sumac_types[TYPE].sum.bias;
  static constexpr bool halves = element<TYPE>::size == 2;
  static constexpr int BITS = 51, MANTISSA = 23, HEAD = 4, LEAST = -126, MOST = 77;
  static constexpr int BINS = 16, COLUMNS = sumac_columns((enum sumac_type)TYPE),
                       shared_bytes = BINS * COLUMNS * 8;

  i64 sum;   /* in units of the window */
  u32 above; /* a magnitude m from here on is too large: compared as m - 1 + 2^31, which zero passes */
  u32 count; /* elements a lane has added since the last flush */
  u32 seen;  /* a term that is neither -0 nor NaN */

  MEMBER void start() {
    sum = 0;
    count = 0;
    seen = false;
    close();
  }
  /* The window's place is in `above`, and in nothing else that the loop needs. */
  MEMBER void close() { above = 0; }
  MEMBER bool is_closed() const { return above == 0; }
  template <class R> MEMBER void open(const R &r) {
    above = 0x7fffffffu + ((u32)(r.state().place + BITS + 127) << 23);
  }
  MEMBER float scale() const { return float_of(((u32)(2 * 127 + BITS) << 23) - (above - 0x7fffffffu)); }
  /* A magnitude below has bits under the window: compared as signed, which zero passes as well. */
  MEMBER i32 below() const { return (i32)(above - ((u32)(BITS - MANTISSA) << 23)); }

  static MEMBER u32 value_bits(const tile_type &t, int k) {
    if (!halves) return t.x[k / 4].w[k % 4];
    u32 w = t.x[k / 8].w[k / 2 % 4];
    return k & 1 ? w & 0xffff0000u : w << 16;
  }
  MEMBER bool is_full() const { return count > 4096 - elements; }
  template <class R> MEMBER void flush(const R &r) {
    if (count) flush_one(sum, r.state().place + bias, r.limb());
    sum = 0;
    count = 0;
  }
  /* Largest and least magnitude but zero, less 1 and plus 2^31. */
  static MEMBER void range(const tile_type &t, u32 &most, i32 &least) {
    most = 0;
    least = 0x7fffffff;
    if (halves) {
      u32 high = 0, low = 0x7fff7fffu;
#pragma unroll
      for (int k = 0; k < U * 4; k += 2) {
        u32 a = (t.x[k / 4].w[k % 4] | 0x80008000u) - 0x00010001u;
        u32 b = (t.x[k / 4].w[k % 4 + 1] | 0x80008000u) - 0x00010001u;
        high = max3_halves(high, a, b);
        low = min3_halves(low, a, b);
      }
      u32 h = high >> 16 > (high & 0xffff) ? high >> 16 : high & 0xffff;
      i32 l = (i32)low >> 16 < (i32)(low << 16) >> 16 ? (i32)low >> 16 : (i32)(low << 16) >> 16;
      most = ((h + 1) << 16) - 1;
      least = (i32)(((u32)(l + 1) << 16) - 1);
    } else {
#pragma unroll
      for (int k = 0; k < elements; k += 2) {
        u32 a = (value_bits(t, k) | 0x80000000u) - 1, b = (value_bits(t, k + 1) | 0x80000000u) - 1;
        most = max3(most, a, b);
        least = min3(least, (i32)a, (i32)b);
      }
    }
  }
  MEMBER bool add(const tile_type &t) {
    u32 most;
    i32 least;
    range(t, most, least);
    if (warp_any(most >= above || least < below())) return false;
    float up = scale();
#pragma unroll
    for (int k = 0; k < elements; k++) sum += nearest_i64(float_of(value_bits(t, k)) * up);
    if (most >= 0x80000000u)
      seen = true;
    else
      note_zeros(t);
    count += elements;
    return true;
  }
  MEMBER void note_zeros(const tile_type &t) {
#pragma unroll
    for (int j = 0; j < U; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) seen |= t.x[j].w[i] != element<TYPE>::signs;
  }

  /* Before the first tile: a window for its first elements. */
  template <class R> MEMBER void begin(const R &r, const tile_type &t) {
    r.set_place(place_for(warp_max(largest(t, element<TYPE>::per_vector))));
    open(r);
  }

  /* ---- rarely */

  MEMBER bool fits(const tile_type &t, int k) const {
    u32 m = (value_bits(t, k) | 0x80000000u) - 1;
    return m < above && (i32)m >= below();
  }
  /* Magnitude bits of the largest finite element. */
  static MEMBER u32 largest(const tile_type &t, int count = elements) {
    u32 most = 0;
#pragma unroll
    for (int k = 0; k < count; k++) {
      u32 m = value_bits(t, k) & 0x7fffffffu;
      if (m < 0x7f800000u && m > most) most = m;
    }
    return most;
  }
  static MEMBER int place_for(u32 most) {
    int to = (int)(most >> 23) - 127 + HEAD - BITS;
    return to < LEAST ? LEAST : to > MOST ? MOST : to;
  }
  template <class R> MEMBER bool move(const R &r, u32 most) {
    int to = place_for(most);
    bool too_large = most && most + 0x7fffffffu >= above;
    if (r.state().place != NO_PLACE && count && !too_large && to >= r.state().place - 8) return false;
    flush(r);
    r.set_place(to);
    open(r);
    return true;
  }
  /* One element's integer and the exponent of its unit, less the least. */
  static MEMBER i32 integer(u32 b, u32 &unit) {
    u32 m = b & 0x7fffffffu, field = m >> 23;
    unit = field > 1 ? field - 1 : 0;
    m -= unit << 23;
    return (i32)b < 0 ? -(i32)m : (i32)m;
  }
  template <class R> MEMBER void spill(const R &r, tile_type &t, int k) {
    u32 b = value_bits(t, k), unit;
    if (!is_special<TYPE, MAP>(halves ? b >> 16 : b, 0, r.counts())) {
      i32 v = integer(b, unit);
      add_alone(v, (int)unit - 149 + bias, r.limb());
      seen = true;
    } else if ((b & 0x7fffffffu) == 0x7f800000u) {
      seen = true;
    }
    put_bits<TYPE>(t.x, k, element<TYPE>::sign);
  }
  template <class R> MEMBER void slow(const R &r, tile_type &memory) {
    u32 most;
    i32 least;
    tile_type t = memory;
    r.use_bins(BINS, COLUMNS);
    range(t, most, least);
    if (warp_any(most >= 0xff7fffffu)) { /* NaN or infinite */
#pragma unroll 1
      for (int k = 0; k < elements; k++)
        if ((value_bits(memory, k) & 0x7fffffffu) >= 0x7f800000u) spill(r, memory, k);
      t = memory;
      warp_barrier();
    }
    if (!seen) note_zeros(t);
    i64 *column = r.column(COLUMNS);
#pragma unroll
    for (int k = 0; k < elements; k++) {
      u32 unit;
      i32 m = integer(value_bits(t, k), unit);
      column[(unit >> 4) * COLUMNS] += (i64)m * (i64)(1u << (unit & 15));
    }
    if (r.wait(elements, (1u << 19) - elements)) flush_bins(r);
  }
  template <class R> MEMBER void flush_bins(const R &r) {
    int k = (int)lane_index();
    warp_barrier();
    if (k < BINS) add_alone(r.bin_total(k, COLUMNS), 16 * k - 149 + bias, r.limb());
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
    if (r.state().binned) flush_bins(r);
  }
};

#endif
