/* SPDX-License-Identifier: Apache-2.0
 *
 * From a block's words to the result, in one warp: carries by look-ahead over all limbs at once, then the
 * same finish and rounding as on the CPU (exact/finish.h).
 */
#ifndef SUMAC_KERNEL_FINISH_H
#define SUMAC_KERNEL_FINISH_H

#include "elements.h"

/* Lane l holds limbs L l ... L l + L - 1 of one number. Brings them to digits below 2^32 that are,
 * sign-extended, the number in two's complement. */
template <int L> DEVICE void settle(const i64 (&limb)[L], u32 (&digit)[L]) {
  u32 lane = lane_index();
  i64 carry = 0;
#pragma unroll
  for (int j = 0; j < L; j++) {
    i64 v = limb[j] + carry;
    digit[j] = (u32)v;
    carry = v >> 32;
  }
  carry = warp_from_below(carry, 1);
  if (lane == 0) carry = 0;
  u32 ones = ~0u, any = 0;
#pragma unroll
  for (int j = 0; j < L; j++) {
    i64 v = (i64)digit[j] + carry;
    digit[j] = (u32)v;
    carry = v >> 32;
    ones &= digit[j];
  }
  /* what is left to carry is -1, 0 or 1: first all +1, which a lane of all ones passes on (one that owes a
   * borrow absorbs it instead), then all -1, which a lane of zeros passes on */
  i32 owed = (i32)carry;
  u32 pass = warp_ballot(ones == ~0u && owed >= 0), make = warp_ballot(owed == 1);
  u32 come = ((make | pass) + make) ^ pass;
  if (come >> lane & 1) {
    if (ones == ~0u && owed < 0) owed = 0;
    u32 k = 1;
#pragma unroll
    for (int j = 0; j < L; j++) {
      digit[j] += k;
      k = k && digit[j] == 0;
    }
  }
#pragma unroll
  for (int j = 0; j < L; j++) any |= digit[j];
  pass = warp_ballot(any == 0);
  make = warp_ballot(owed == -1);
  come = ((make | pass) + make) ^ pass;
  if (come >> lane & 1) {
    u32 k = 1;
#pragma unroll
    for (int j = 0; j < L; j++) {
      u32 was = digit[j];
      digit[j] -= k;
      k = k && was == 0;
    }
  }
}

/* The magnitude of such digits; whether they were negative. */
template <int L> DEVICE bool magnitude(u32 (&digit)[L]) {
  bool negative = warp_shuffle(digit[L - 1], 31) >> 31;
  if (!negative) return false;
  u32 ones = ~0u;
#pragma unroll
  for (int j = 0; j < L; j++) {
    digit[j] = ~digit[j];
    ones &= digit[j];
  }
  u32 pass = warp_ballot(ones == ~0u), come = (pass + 1) ^ pass;
  if (come >> lane_index() & 1) {
    u32 k = 1;
#pragma unroll
    for (int j = 0; j < L; j++) {
      digit[j] += k;
      k = k && digit[j] == 0;
    }
  }
  return true;
}

/* Reads N limbs (spare ones included) of one number. */
template <int N> struct lanes_of { static constexpr int L = (N + 31) / 32; };
template <int N> DEVICE void read_limbs(const u64 *word, i64 (&limb)[lanes_of<N>::L]) {
  constexpr int L = lanes_of<N>::L;
#pragma unroll
  for (int j = 0; j < L; j++) {
    int i = (int)lane_index() * L + j;
    limb[j] = i < N ? (i64)word[i] : 0;
  }
}

/* Canonical form in place: limbs in [0, 2^32) but for the top one, which is signed. Spare limbs are its sign.
 */
template <int N> DEVICE void settle_words(u64 *word) {
  constexpr int L = lanes_of<N>::L;
  i64 limb[L];
  u32 digit[L];
  read_limbs<N>(word, limb);
  settle<L>(limb, digit);
#pragma unroll
  for (int j = 0; j < L; j++) {
    int i = (int)lane_index() * L + j;
    if (i < N) word[i] = i == N - 1 ? (u64)(i64)(i32)digit[j] : digit[j];
  }
  warp_barrier();
}

/* The digits of the number's magnitude, in `scratch` from DIGITS_BELOW on, zeros below. Returns the index of
 * the leading one, or -1; whether any but the `used` leading ones is not zero. */
enum { DIGITS_BELOW = 6 };
template <int N>
DEVICE int leading_digits(const u64 *word, u32 *scratch, int used, bool &negative, bool &sticky) {
  constexpr int L = lanes_of<N>::L;
  i64 limb[L];
  u32 digit[L];
  read_limbs<N>(word, limb);
  settle<L>(limb, digit);
  negative = magnitude<L>(digit);
  int lane = (int)lane_index(), mine = 0;
  if (lane < DIGITS_BELOW) scratch[lane] = 0;
#pragma unroll
  for (int j = 0; j < L; j++) {
    if (digit[j]) mine = lane * L + j + 1;
    scratch[DIGITS_BELOW + lane * L + j] = digit[j];
  }
  int top = (int)warp_max((u32)mine) - 1;
  bool below = false;
#pragma unroll
  for (int j = 0; j < L; j++) below |= digit[j] && lane * L + j <= top - used;
  sticky = warp_any(below); /* and the digits are written */
  return top;
}

/* Makes the words those of the number's magnitude, and tells which of them are occupied. */
template <int N> DEVICE sumac_format occupied(u64 *word, int bias, u32 *scratch, int &first) {
  bool negative, sticky;
  int top = leading_digits<N>(word, scratch, 0, negative, sticky);
  u32 height = 0; /* of the lowest digit, from the top */
  for (int i = (int)lane_index(); i < N; i += 32) {
    u32 digit = scratch[DIGITS_BELOW + i];
    word[i] = digit;
    if (digit && !height) height = (u32)(N - i);
  }
  height = warp_max(height);
  warp_barrier();
  first = top < 0 ? 0 : N - (int)height;
  return sumac_format{(i16)(top < 0 ? 1 : top - first + 1), (i16)(bias - 32 * first)};
}

/* The number's leading bits. */
template <int N> DEVICE sumac_real real_of_words(const u64 *word, int bias, u32 *scratch) {
  sumac_real r = {0, 0, false, false, 0};
  int top = leading_digits<N>(word, scratch, 6, r.negative, r.sticky);
  if (top < 0) return r;
  const u32 *at = scratch + DIGITS_BELOW + top;
  r.bits = (u128)((u64)at[0] << 32 | at[-1]) << 64 | ((u64)at[-2] << 32 | at[-3]);
  r.exponent = 32 * (top - 3) - bias;
  sumac_real_fill(&r, at[-4], at[-5]);
  return r;
}

/* words times `factor`: lane 0 alone, since only views with strides of 0 ask for it. */
DEVICE_COLD void multiply_words(u64 *word, int count, u64 factor) {
  if (lane_index() == 0) {
    i128 carry = 0;
#pragma unroll 1
    for (int i = 0; i < count; i++) {
      i128 v = (i128)(i64)word[i] * (i128)factor + carry;
      word[i] = i < count - 1 ? (u64)v & 0xffffffff : (u64)v;
      carry = v >> 32;
    }
  }
  warp_barrier();
}

DEVICE void write_result(const sumac_launch &a, u64 bits, bool range) {
  switch (a.out_type.size) {
  case 1: *(u8 *)a.out = (u8)bits; break;
  case 2: *(u16 *)a.out = (u16)bits; break;
  case 4: *(u32 *)a.out = (u32)bits; break;
  default: *(u64 *)a.out = bits;
  }
  if (range) *a.range = 1;
}

#endif
