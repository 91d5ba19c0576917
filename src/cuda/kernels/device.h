/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels ask of the machine: indices, warps, barriers, atomics, loads, conversions. Every intrinsic and
 * all inline PTX of the project's kernels is here, behind functions that the emulated driver of the tests
 * provides as well (tests/emu/device_emu.h): kernel sources hold nothing that only one of the two can do.
 *
 * Every warp_ and block_ function is called by all 32 lanes, or all threads of the block.
 */
#ifndef SUMAC_DEVICE_H
#define SUMAC_DEVICE_H

#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

struct vec16 { /* sixteen bytes: what one thread loads at once */
  u32 w[4];
};
struct float_pair {
  float low, high;
};

#ifndef __CUDACC__
#include "device_emu.h"
#else

/* One-line definitions of kernels: a name, at most so many threads a block, at least so many blocks a
 * multiprocessor, the type of the one argument, and the function it is given to. */
/* clang-format off */
#define ENTRY(MOST, LEAST) extern "C" __global__ void __launch_bounds__(MOST, LEAST)
#define ARGUMENT(TYPE) const __grid_constant__ TYPE a
#define KERNEL(NAME, MOST, LEAST, ARGS, ...) ENTRY(MOST, LEAST) NAME(ARGUMENT(ARGS)) { __VA_ARGS__(a); }
/* clang-format on */
#define DEVICE static __device__ __forceinline__
#define DEVICE_COLD inline __device__ __noinline__ /* static would name it by its path */
#define MEMBER __device__ __forceinline__

/* ---- where am I */

DEVICE u32 thread_index() { return threadIdx.x; }
DEVICE u32 block_index() { return blockIdx.x; }
DEVICE u32 block_threads() { return blockDim.x; }
DEVICE u32 grid_blocks() { return gridDim.x; }

extern __shared__ __align__(16) char sumac_shared[];
DEVICE char *shared_memory() { return sumac_shared; }

/* ---- barriers, and the order of launches (programmatic dependent launch) */

DEVICE void block_barrier() { __syncthreads(); }
DEVICE void warp_barrier() { __syncwarp(); }

/* Nothing that an earlier kernel of the stream writes may be touched before this. */
DEVICE void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
DEVICE void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* ---- warps */

DEVICE u32 warp_shuffle(u32 v, u32 lane) { return __shfl_sync(~0u, v, (int)lane); }
DEVICE i64 warp_shuffle(i64 v, u32 lane) { return __shfl_sync(~0u, v, (int)lane); }
DEVICE double warp_shuffle(double v, u32 lane) { return __shfl_sync(~0u, v, (int)lane); }
/* The value of the lane below by `by`; a lane that has none gets its own. */
DEVICE i64 warp_from_below(i64 v, u32 by) { return __shfl_up_sync(~0u, v, by); }
DEVICE double warp_exchange(double v, u32 mask) { return __shfl_xor_sync(~0u, v, (int)mask); }
DEVICE float warp_exchange(float v, u32 mask) { return __shfl_xor_sync(~0u, v, (int)mask); }
DEVICE i64 warp_exchange(i64 v, u32 mask) { return __shfl_xor_sync(~0u, v, (int)mask); }
DEVICE u32 warp_ballot(bool v) { return __ballot_sync(~0u, v); }
DEVICE bool warp_any(bool v) { return __any_sync(~0u, v); }

#if __CUDA_ARCH__ >= 800
DEVICE u32 warp_add(u32 v) { return __reduce_add_sync(~0u, v); }
DEVICE u32 warp_max(u32 v) { return __reduce_max_sync(~0u, v); }
DEVICE u32 warp_or(u32 v) { return __reduce_or_sync(~0u, v); }
#else
DEVICE u32 warp_add(u32 v) {
  for (int m = 16; m; m >>= 1) v += __shfl_xor_sync(~0u, v, m);
  return v;
}
DEVICE u32 warp_max(u32 v) {
  for (int m = 16; m; m >>= 1) v = max(v, __shfl_xor_sync(~0u, v, m));
  return v;
}
DEVICE u32 warp_or(u32 v) {
  for (int m = 16; m; m >>= 1) v |= __shfl_xor_sync(~0u, v, m);
  return v;
}
#endif

/* ---- memory */

/* Sixteen aligned bytes of the input, read once. */
DEVICE vec16 load16(const void *p) {
  vec16 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3},[%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(p));
  return v;
}
/* The vector is in its registers now. */
DEVICE void hold(vec16 &v) { asm volatile("" : "+r"(v.w[0]), "+r"(v.w[1]), "+r"(v.w[2]), "+r"(v.w[3])); }
DEVICE u64 load_shared_work(const u64 *p) { return __ldcg((const unsigned long long *)p); }
DEVICE void store_shared_work(u64 *p, u64 v) { __stcg((unsigned long long *)p, (unsigned long long)v); }

DEVICE void add_global(u64 *p, u64 v) { atomicAdd((unsigned long long *)p, (unsigned long long)v); }
DEVICE void add_shared(u64 *p, u64 v) { atomicAdd((unsigned long long *)p, (unsigned long long)v); }

/* Adds to a counter after everything this thread has written, and before anything it reads: what was in it.
 */
DEVICE u64 take_ticket(u64 *p, u64 v) {
  u64 old;
  asm volatile("atom.add.acq_rel.gpu.global.u64 %0,[%1],%2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
  return old;
}
/* What a thread wrote to global memory becomes visible to all before what it writes next. */
DEVICE void publish() { __threadfence(); }

/* ---- bits */

DEVICE u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
DEVICE double double_of(u64 b) { return __longlong_as_double((long long)b); }
DEVICE float float_of(u32 b) { return __uint_as_float(b); }
DEVICE u32 high_word(double x) { return (u32)__double2hiint(x); }
DEVICE u32 low_word(double x) { return (u32)__double2loint(x); }
DEVICE double double_of(u32 high, u32 low) { return __hiloint2double((int)high, (int)low); }

/* The high word of (high:low) << (by & 31). */
DEVICE u32 funnel_left(u32 low, u32 high, u32 by) { return __funnelshift_l(low, high, by); }
/* Bytes of (b:a) by selector; a selector nibble with its top bit set takes the byte's sign eight times. */
template <u32 SELECT> DEVICE u32 pick_bytes(u32 a, u32 b) {
  u32 r;
  asm("prmt.b32 %0,%1,%2,%3;" : "=r"(r) : "r"(a), "r"(b), "n"(SELECT));
  return r;
}

DEVICE u32 max3(u32 a, u32 b, u32 c) { return __vimax3_u32(a, b, c); }
DEVICE i32 min3(i32 a, i32 b, i32 c) { return __vimin3_s32(a, b, c); }
/* Two 16-bit numbers at once: unsigned, signed. */
DEVICE u32 max3_halves(u32 a, u32 b, u32 c) { return __vimax3_u16x2(a, b, c); }
DEVICE u32 min3_halves(u32 a, u32 b, u32 c) { return __vimin3_s16x2(a, b, c); }
/* a0 b0 + a1 b1 + a2 b2 + a3 b3 + c over signed or unsigned bytes. */
DEVICE i32 dot_bytes(i32 a, i32 b, i32 c) { return __dp4a(a, b, c); }
DEVICE u32 dot_bytes(u32 a, u32 b, u32 c) { return __dp4a(a, b, c); }
DEVICE u64 multiply_high(u64 a, u64 b) { return __umul64hi(a, b); }
DEVICE int leading_zeros(u32 v) { return __clz((int)v); }
DEVICE int leading_zeros(u64 v) { return __clzll((long long)v); }
DEVICE int count_bits(u32 v) { return __popc(v); }

/* ---- conversions: to integers round to nearest, ties to even */

DEVICE i64 nearest_i64(float x) { return __float2ll_rn(x); }
DEVICE i32 nearest_i32(float x) { return __float2int_rn(x); }
DEVICE i64 nearest_i64(double x) { return __double2ll_rn(x); }
/* Two f16 as f32. */
DEVICE float_pair floats_of_halves(u32 h) {
  float_pair f;
  asm("{.reg .b16 l,h; mov.b32 {l,h},%2; cvt.f32.f16 %0,l; cvt.f32.f16 %1,h;}"
      : "=f"(f.low), "=f"(f.high)
      : "r"(h));
  return f;
}
/* Two e4m3 in the low 16 bits as two f16. */
DEVICE u32 halves_of_e4m3(u32 b) {
#if __CUDA_ARCH__ >= 890
  u32 r;
  asm("{.reg .b16 t; cvt.u16.u32 t,%1; cvt.rn.f16x2.e4m3x2 %0,t;}" : "=r"(r) : "r"(b));
  return r;
#else
  /* as f16 bits, 2^8 too small; a product by 2^8 puts it right, subnormals too; NaN by hand */
  u32 w = (b & 0xff) | (b & 0xff00) << 8, h = (w & 0x00800080) << 8 | (w & 0x007f007f) << 7, r;
  asm("mul.rn.f16x2 %0,%1,%2;" : "=r"(r) : "r"(h), "r"(0x5c005c00u));
  if ((w & 0x7f) == 0x7f) r |= 0x7fff;
  if ((w & 0x7f0000) == 0x7f0000) r |= 0x7fff0000;
  return r;
#endif
}
DEVICE double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE double square_root(double x) { return __dsqrt_rn(x); }

#endif
#endif
