/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact sums on their way through a block: each warp owns a vector of words in shared memory, the limbs of
 * one number (or two: sum and squares) and counters, and adds to it without atomics where all lanes add at
 * once. Words add up as integers, so the merge of warps, of blocks and of launches is an integer sum.
 */
#ifndef SUMAC_KERNEL_WORDS_H
#define SUMAC_KERNEL_WORDS_H

#include "cuda/launch.h"
#include "device.h"

typedef __int128 i128;
typedef unsigned __int128 u128;

/* The words of a map over a type. */
template <int TYPE, int MAP> struct words_of {
  static constexpr bool moments = MAP == SUMAC_M_MOMENTS;
  static constexpr bool product = sumac_is_product((enum sumac_map)MAP);
  static constexpr sumac_format number = product ? sumac_types[TYPE].product : sumac_types[TYPE].sum;
  static constexpr sumac_format square = sumac_types[TYPE].product;
  static constexpr enum sumac_type type = (enum sumac_type)TYPE;
  static constexpr enum sumac_map map = (enum sumac_map)MAP;
  static constexpr int limbs = number.limbs + SUMAC_SPARE, square_limbs = square.limbs + SUMAC_SPARE;
  static constexpr int columns = sumac_columns(type);
  static constexpr int squares_at = sumac_squares_at(type, map), counts_at = sumac_counts_at(type, map);
  static constexpr int count = counts_at + SUMAC_COUNTS, padded = sumac_padded_words(type, map);
  /* no term can be -0: what decides the sign of a zero is whether there is a term at all */
  static constexpr bool never_negative_zero =
      sumac_types[TYPE].cls != SUMAC_C_FLOAT || MAP == SUMAC_M_ABS || MAP == SUMAC_M_SQUARE;
};

DEVICE u32 lane_index() { return thread_index() & 31; }

/* Adds (top * 2^32k + d[k-1] * 2^32(k-1) + ... + d[0]) * 2^place: one word a lane. All lanes hold the same.
 */
template <int K> DEVICE void add_digits(const u32 (&d)[K], i64 top, int place, u64 *limb) {
  u32 lane = lane_index(), here = 0, below = 0, by = place & 31;
#pragma unroll
  for (int k = 0; k < K; k++) {
    if (lane == (u32)k) here = d[k];
    if (lane == (u32)k + 1) below = d[k];
  }
  u64 v = ((u64)below << by >> 32) + (lane == K ? (u64)top << by : (u64)(here << by));
  if (lane <= K) limb[(place >> 5) + lane] += v;
  warp_barrier();
}

/* Adds the sum over the warp of v * 2^place: in 16-bit pieces, since a 32-bit sum is one instruction. */
DEVICE_COLD void flush_one(i64 v, int place, u64 *limb) {
  u64 low = warp_add((u32)v & 0xffff) + ((u64)warp_add((u32)v >> 16) << 16);
  i64 high = (i64)warp_add((u32)(v >> 32) & 0xffff) + (i64)(i32)warp_add((u32)(i32)(v >> 48)) * 65536 +
             (i64)(low >> 32);
  const u32 d[2] = {(u32)low, (u32)high};
  add_digits<2>(d, high >> 32, place, limb);
}

/* The same of (high * 2^52 + low) * 2^place. */
DEVICE_COLD void flush_two(i64 high, i64 low, int place, u64 *limb) {
  i128 v = (i128)high * ((i64)1 << 52) + low;
  u64 a = (u64)v, b = (u64)(v >> 64);
  u64 e0 = warp_add((u32)a & 0xffff) + ((u64)warp_add((u32)a >> 16) << 16);
  u64 e1 = warp_add((u32)(a >> 32) & 0xffff) + ((u64)warp_add((u32)(a >> 48)) << 16) + (e0 >> 32);
  u64 e2 = warp_add((u32)b & 0xffff) + ((u64)warp_add((u32)b >> 16) << 16) + (e1 >> 32);
  i64 e3 = (i64)warp_add((u32)(b >> 32) & 0xffff) + (i64)(i32)warp_add((u32)(i32)((i64)b >> 48)) * 65536 +
           (i64)(e2 >> 32);
  const u32 d[4] = {(u32)e0, (u32)e1, (u32)e2, (u32)e3};
  add_digits<4>(d, e3 >> 32, place, limb);
}

/* One lane's value * 2^place, while others do the same: rare. */
DEVICE_COLD void add_alone(i64 value, int place, u64 *limb) {
  u64 *at = limb + (place >> 5);
  u64 low = (u64)(u32)value << (place & 31);
  i64 high = (i64)((u64)(value >> 32) << (place & 31)); /* a signed 32-bit number: it fits, shifted by 31 */
  add_shared(at, (u32)low);
  add_shared(at + 1, (low >> 32) + (u32)high);
  add_shared(at + 2, (u64)(high >> 32));
}

/* Counts what no number can hold: NaN, and infinite terms; inf * 0 is one of each sign. */
DEVICE_COLD void count_special(u64 *counts, bool nan, bool plus, bool minus) {
  if (!counts) return; /* squares, whose sums have counted them already */
  if (nan) add_shared(counts + SUMAC_COUNT_NAN, 1);
  if (plus) add_shared(counts + SUMAC_COUNT_PLUS, 1);
  if (minus) add_shared(counts + SUMAC_COUNT_MINUS, 1);
}

#endif
