/* SPDX-License-Identifier: Apache-2.0
 *
 * The host twin of cuda/kernels/device.h: what each of its functions means, on one thread of the emulated
 * machine.
 */
#ifndef SUMAC_EMU_DEVICE_H
#define SUMAC_EMU_DEVICE_H

#include "machine.h"

#include <math.h>
#include <string.h>

template <class ARGS, void (*BODY)(const ARGS &)>
static emu_kernel kernel(const char *name, uint32_t threads) {
  return {name, sizeof(ARGS), threads, [](const void *args) { BODY(*static_cast<const ARGS *>(args)); }};
}
#define KERNEL(NAME, THREADS, BLOCKS, ARGS, ...) static auto NAME = kernel<ARGS, __VA_ARGS__>(#NAME, THREADS);
#define DEVICE static inline
#define DEVICE_COLD static __attribute__((noinline))
#define MEMBER inline

/* The caller's place in the source, as default arguments of each function at which threads meet. */
#define HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SITE (emu_site{__func__, file, line})

/* ---- where am I */

DEVICE u32 thread_index() { return emu_here.thread; }
DEVICE u32 block_index() { return emu_here.block; }
DEVICE u32 block_threads() { return emu_here.launch.threads; }
DEVICE u32 grid_blocks() { return emu_here.launch.blocks; }
DEVICE char *shared_memory() { return emu_here.shared; }

/* ---- barriers, and the order of launches */

DEVICE void block_barrier(HERE) { emu_block_barrier(SITE); }
DEVICE void warp_barrier(HERE) { emu_exchange(0, SITE); }
DEVICE void wait_for_earlier_kernels() { emu_waited(); }
DEVICE void let_next_kernel_start() {}

/* ---- bits */

template <class TO, class FROM> static TO same_bits(FROM from) {
  static_assert(sizeof(TO) == sizeof(FROM), "as many bits");
  TO to;
  memcpy(&to, &from, sizeof to);
  return to;
}
DEVICE u64 bits_of(double x) { return same_bits<u64>(x); }
DEVICE u32 bits_of(float x) { return same_bits<u32>(x); }
DEVICE double double_of(u64 b) { return same_bits<double>(b); }
DEVICE float float_of(u32 b) { return same_bits<float>(b); }
DEVICE u32 high_word(double x) { return (u32)(bits_of(x) >> 32); }
DEVICE u32 low_word(double x) { return (u32)bits_of(x); }
DEVICE double double_of(u32 high, u32 low) { return double_of((u64)high << 32 | low); }

DEVICE u32 funnel_left(u32 low, u32 high, u32 by) {
  return (u32)((((u64)high << 32 | low) << (by & 31)) >> 32);
}
template <u32 SELECT> DEVICE u32 pick_bytes(u32 a, u32 b) {
  u64 bytes = (u64)b << 32 | a;
  u32 r = 0;
  for (int i = 0; i < 4; i++) {
    u32 from = SELECT >> (4 * i) & 15, byte = (u32)(bytes >> (8 * (from & 7))) & 255;
    r |= (from & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
  }
  return r;
}

template <class T> static T larger(T a, T b) { return a > b ? a : b; }
template <class T> static T smaller(T a, T b) { return a < b ? a : b; }
DEVICE u32 max3(u32 a, u32 b, u32 c) { return larger(larger(a, b), c); }
DEVICE i32 min3(i32 a, i32 b, i32 c) { return smaller(smaller(a, b), c); }
DEVICE u32 max3_halves(u32 a, u32 b, u32 c) {
  return max3(a & 0xffff, b & 0xffff, c & 0xffff) | max3(a >> 16, b >> 16, c >> 16) << 16;
}
DEVICE u32 min3_halves(u32 a, u32 b, u32 c) {
  return ((u32)min3((int16_t)a, (int16_t)b, (int16_t)c) & 0xffff) |
         (u32)min3((i32)a >> 16, (i32)b >> 16, (i32)c >> 16) << 16;
}
DEVICE i32 dot_bytes(i32 a, i32 b, i32 c) {
  for (int i = 0; i < 32; i += 8) c = (i32)((u32)c + (u32)((int8_t)(a >> i) * (int8_t)(b >> i)));
  return c;
}
DEVICE u32 dot_bytes(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
}
DEVICE u64 multiply_high(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
DEVICE int leading_zeros(u32 v) { return v ? __builtin_clz(v) : 32; }
DEVICE int leading_zeros(u64 v) { return v ? __builtin_clzll(v) : 64; }
DEVICE int count_bits(u32 v) { return __builtin_popcount(v); }

/* ---- warps */

/* A lane that does not exist is taken modulo 32. */
template <class T> static T from_lane(T v, u32 lane, const emu_site &site) {
  u64 mine = 0, theirs;
  memcpy(&mine, &v, sizeof v);
  theirs = emu_exchange(mine, site)[lane & 31];
  memcpy(&v, &theirs, sizeof v);
  return v;
}
DEVICE u32 warp_shuffle(u32 v, u32 lane, HERE) { return from_lane(v, lane, SITE); }
DEVICE i64 warp_shuffle(i64 v, u32 lane, HERE) { return from_lane(v, lane, SITE); }
DEVICE double warp_shuffle(double v, u32 lane, HERE) { return from_lane(v, lane, SITE); }
DEVICE i64 warp_from_below(i64 v, u32 by, HERE) {
  u32 lane = emu_here.thread & 31;
  return from_lane(v, lane >= by ? lane - by : lane, SITE);
}
DEVICE double warp_exchange(double v, u32 mask, HERE) { return from_lane(v, emu_here.thread ^ mask, SITE); }
DEVICE float warp_exchange(float v, u32 mask, HERE) { return from_lane(v, emu_here.thread ^ mask, SITE); }
DEVICE i64 warp_exchange(i64 v, u32 mask, HERE) { return from_lane(v, emu_here.thread ^ mask, SITE); }

static inline u32 ballot(const u64 *v) {
  u32 r = 0;
  for (int i = 0; i < 32; i++) r |= (u32)v[i] << i;
  return r;
}
DEVICE u32 warp_ballot(bool v, HERE) { return ballot(emu_exchange(v, SITE)); }
DEVICE bool warp_any(bool v, HERE) { return ballot(emu_exchange(v, SITE)) != 0; }
DEVICE u32 warp_add(u32 v, HERE) {
  const u64 *all = emu_exchange(v, SITE);
  u32 r = 0;
  for (int i = 0; i < 32; i++) r += (u32)all[i];
  return r;
}
DEVICE u32 warp_max(u32 v, HERE) {
  const u64 *all = emu_exchange(v, SITE);
  u32 r = 0;
  for (int i = 0; i < 32; i++) r = larger(r, (u32)all[i]);
  return r;
}
DEVICE u32 warp_or(u32 v, HERE) {
  const u64 *all = emu_exchange(v, SITE);
  u32 r = 0;
  for (int i = 0; i < 32; i++) r |= (u32)all[i];
  return r;
}

/* ---- memory */

/* What a processor of the device traps: an address that is no multiple of the access's size. */
static inline void check_aligned(const void *p, size_t to, const char *call) {
  if ((uintptr_t)p % to != 0) emu_fatal("%s of %p, which is no multiple of %zu", call, p, to);
}
static inline void check_global(const void *p, size_t to, const char *call) {
  check_aligned(p, to, call);
  emu_check_waited(call);
}
DEVICE vec16 load16(const void *p) {
  check_global(p, 16, __func__);
  vec16 v;
  memcpy(&v, p, sizeof v);
  return v;
}
DEVICE void hold(vec16 &) {}
DEVICE u64 load_shared_work(const u64 *p) {
  check_global(p, sizeof *p, __func__);
  return *p;
}
DEVICE void store_shared_work(u64 *p, u64 v) {
  check_global(p, sizeof *p, __func__);
  *p = v;
}
DEVICE void add_global(u64 *p, u64 v) {
  check_global(p, sizeof *p, __func__);
  *p += v;
}
DEVICE void add_shared(u64 *p, u64 v) {
  check_aligned(p, sizeof *p, __func__);
  *p += v;
}
DEVICE u64 take_ticket(u64 *p, u64 v) {
  check_global(p, sizeof *p, __func__);
  u64 old = *p;
  *p += v;
  return old;
}
DEVICE void publish() {}

/* ---- conversions: out of range to the nearest there is; NaN as the device does it */

DEVICE i64 nearest_i64(double x) {
  if (!(fabs(x) < 0x1p63)) return x >= 0x1p63 ? INT64_MAX : INT64_MIN;
  return (i64)__builtin_rint(x);
}
DEVICE i64 nearest_i64(float x) { return nearest_i64((double)x); }
DEVICE i32 nearest_i32(float x) {
  double r = __builtin_rint((double)x);
  return r != r ? 0 : r >= 0x1p31 ? INT32_MAX : r <= -0x1p31 ? INT32_MIN : (i32)r;
}
static inline float float_of_half(u32 h) {
  u32 sign = (h & 0x8000) << 16, rest = h & 0x7fff;
  if (rest > 0x7c00) return float_of(0x7fffffff);
  if (rest == 0x7c00) return float_of(sign | 0x7f800000);
  float size = float_of(rest << 13) * 0x1p112f; /* the exponent's bias is 15, not 127; subnormals too */
  return float_of(sign | bits_of(size));
}
DEVICE float_pair floats_of_halves(u32 h) { return {float_of_half(h & 0xffff), float_of_half(h >> 16)}; }

/* Every e4m3 is an f16: normal numbers differ in the bias, 7 or 15; subnormal ones are integers times 2^-9.
 */
static inline u32 half_of_e4m3(u32 b) {
  u32 sign = (b & 0x80) << 8, exponent = b >> 3 & 15, mantissa = b & 7;
  if ((b & 0x7f) == 0x7f) return 0x7fff;
  if (exponent != 0) return sign | (exponent + 8) << 10 | mantissa << 7;
  if (mantissa == 0) return sign;
  u32 top = mantissa >> 2 ? 2 : mantissa >> 1; /* its leading bit: 0, 1 or 2 */
  return sign | (top + 6) << 10 | ((mantissa << (10 - top)) & 0x3ff);
}
DEVICE u32 halves_of_e4m3(u32 b) { return half_of_e4m3(b & 0xff) | half_of_e4m3(b >> 8 & 0xff) << 16; }

DEVICE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
DEVICE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE double square_root(double x) { return __builtin_sqrt(x); }

#undef HERE
#undef SITE
#endif
