/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of SUMAC_VECTOR_BYTES bytes and the few operations on them that the compilers' vector
 * extensions do not express well. Everything here is static and inlined, so that an ISA file exports
 * nothing of it. Loads take any alignment.
 */
#ifndef SUMAC_SIMD_H
#define SUMAC_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SUMAC_INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

/* Unrolls the loop that follows, so that arrays of vectors live in registers; or leaves it a loop, so that
 * its body finds enough of them. */
#if defined(__clang__)
#define SUMAC_UNROLL _Pragma("unroll")
#define SUMAC_ROLLED _Pragma("nounroll")
#else
#define SUMAC_UNROLL _Pragma("GCC unroll 16")
#define SUMAC_ROLLED _Pragma("GCC unroll 1")
#endif

enum { VB = SUMAC_VECTOR_BYTES };

typedef double vf64 __attribute__((vector_size(VB)));
typedef float vf32 __attribute__((vector_size(VB)));
typedef int64_t vi64 __attribute__((vector_size(VB)));
typedef uint64_t vu64 __attribute__((vector_size(VB)));
typedef int32_t vi32 __attribute__((vector_size(VB)));
typedef uint32_t vu32 __attribute__((vector_size(VB)));
typedef int16_t vi16 __attribute__((vector_size(VB)));
typedef uint16_t vu16 __attribute__((vector_size(VB)));
typedef int8_t vi8 __attribute__((vector_size(VB)));
typedef uint8_t vu8 __attribute__((vector_size(VB)));
typedef float vf32_half __attribute__((vector_size(VB / 2)));
typedef int32_t vi32_half __attribute__((vector_size(VB / 2)));
typedef uint32_t vu32_half __attribute__((vector_size(VB / 2)));
typedef uint16_t vu16_half __attribute__((vector_size(VB / 2)));

SUMAC_INLINE vu8 v_load(const void *p) {
  vu8 v;
  memcpy(&v, p, sizeof v);
  return v;
}

SUMAC_INLINE vf64 v_f64(double x) { return x - (vf64){0}; }
SUMAC_INLINE vf32 v_f32(float x) { return x - (vf32){0}; }
SUMAC_INLINE vu64 v_u64(uint64_t x) { return x - (vu64){0}; }
SUMAC_INLINE vu32 v_u32(uint32_t x) { return x - (vu32){0}; }
SUMAC_INLINE vu16 v_u16(uint16_t x) { return x - (vu16){0}; }
SUMAC_INLINE vu8 v_u8(uint8_t x) { return x - (vu8){0}; }

SUMAC_INLINE vu64 v_select64(vi64 mask, vu64 a, vu64 b) { return ((vu64)mask & a) | (~(vu64)mask & b); }

SUMAC_INLINE uint64_t v_or64(vu64 v) {
  uint64_t r = 0;
  for (int i = 0; i < VB / 8; i++) r |= v[i];
  return r;
}

/* VB/8 floats at p, as doubles. */
SUMAC_INLINE vf64 v_load_f32_as_f64(const void *p) {
  vf32_half h;
  memcpy(&h, p, sizeof h);
  return __builtin_convertvector(h, vf64);
}

/* The halves of a vector of floats, as doubles. */
SUMAC_INLINE vf64 v_low_f64(vf32 v) {
#if SUMAC_VECTOR_BYTES == 64
  return _mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
#elif SUMAC_VECTOR_BYTES == 32
  return _mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
#else
  return __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1), vf64);
#endif
}
SUMAC_INLINE vf64 v_high_f64(vf32 v) {
#if SUMAC_VECTOR_BYTES == 64
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
#elif SUMAC_VECTOR_BYTES == 32
  return _mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
#else
  return __builtin_convertvector(__builtin_shufflevector(v, v, 2, 3), vf64);
#endif
}

/* VB/4 numbers of 16 bits at p, each in 32. */
SUMAC_INLINE vu32 v_load_u16_as_u32(const void *p) {
  vu16_half h;
  memcpy(&h, p, sizeof h);
#if SUMAC_VECTOR_BYTES == 64
  return (vu32)_mm512_cvtepu16_epi32((__m256i)h);
#elif SUMAC_VECTOR_BYTES == 32
  return (vu32)_mm256_cvtepu16_epi32((__m128i)h);
#else
  return __builtin_convertvector(h, vu32);
#endif
}

/* VB/4 bytes at p, each in 16 bits. */
SUMAC_INLINE vu16_half v_load_u8_as_u16(const void *p) {
#if SUMAC_VECTOR_BYTES == 64
  return (vu16_half)_mm256_cvtepu8_epi16(_mm_loadu_si128(p));
#elif SUMAC_VECTOR_BYTES == 32
  return (vu16_half)_mm_cvtepu8_epi16(_mm_loadl_epi64(p));
#else
  const uint8_t *b = p;
  return (vu16_half){b[0], b[1], b[2], b[3]};
#endif
}

/* Halves as floats. Without F16C infinities and NaNs come out as large finite numbers. */
SUMAC_INLINE vf32 v_f16_to_f32(vu16_half h) {
#if SUMAC_VECTOR_BYTES == 64
  return _mm512_cvtph_ps((__m256i)h);
#elif SUMAC_VECTOR_BYTES == 32
  return _mm256_cvtph_ps((__m128i)h);
#else
  vu32 u = __builtin_convertvector(h, vu32);
  vf32 magnitude = (vf32)((u & 0x7fff) << 13) * 0x1p112f;
  return (vf32)((vu32)magnitude | (u & 0x8000) << 16);
#endif
}

/* To the nearest number of f16, or of bf16, ties to even. A NaN's payload must be none of more digits. */
SUMAC_INLINE vf32 v_round_to_f16(vf32 v) {
#if SUMAC_VECTOR_BYTES == 64
  return _mm512_cvtph_ps(_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif SUMAC_VECTOR_BYTES == 32
  return _mm256_cvtph_ps(_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
  vu32 u = (vu32)v & INT32_MAX, sign = (vu32)v ^ u;
  vu32 normal = (u + 0xfff + (u >> 13 & 1)) & 0xffffe000;
  vu32 small = (vu32)((vf32)u + 0.5f - 0.5f); /* 0.5 has 2^-24, f16's least, for its last place */
  vu32 is_small = (vu32)((vf32)u < 0x1p-14f), is_large = (vu32)((vf32)normal >= 0x1p16f);
  u = (is_small & small) | (~is_small & normal);
  return (vf32)(sign | (is_large & 0x7f800000) | (~is_large & u));
#endif
}
SUMAC_INLINE vf32 v_round_to_bf16(vf32 v) {
  vu32 u = (vu32)v;
  return (vf32)((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000);
}

/* a * b - c, rounded once. */
SUMAC_INLINE vf64 v_fmsub(vf64 a, vf64 b, vf64 c) {
#if SUMAC_VECTOR_BYTES == 64
  return _mm512_fmsub_pd(a, b, c);
#elif SUMAC_VECTOR_BYTES == 32
  return _mm256_fmsub_pd(a, b, c);
#else
  /* Dekker and Veltkamp: exact for c = a * b rounded, |a|, |b| < 2^996 and no underflow in the parts;
   * load_terms() marks what comes near either as a risk. */
  vf64 ca = a * 0x1.0000002p27, cb = b * 0x1.0000002p27;
  vf64 ah = ca - (ca - a), bh = cb - (cb - b), al = a - ah, bl = b - bh;
  return ((ah * bh - c) + ah * bl + al * bh) + al * bl;
#endif
}

/* a + b as a * 1 + b: some processors multiply-add on other ports than they add on, and a loop may be short
 * of the latter. The compiler must not see that `one` is 1. */
SUMAC_INLINE vf32 v_opaque_one(void) {
  vf32 one = v_f32(1);
  __asm__("" : "+v"(one));
  return one;
}
SUMAC_INLINE vf32 v_add_by_fma(vf32 a, vf32 one, vf32 b) {
#if SUMAC_VECTOR_BYTES == 64
  return _mm512_fmadd_ps(a, one, b);
#elif SUMAC_VECTOR_BYTES == 32
  return _mm256_fmadd_ps(a, one, b);
#else
  (void)one;
  return a + b;
#endif
}

/* Operations that are one instruction of the same name in each width. */
#if SUMAC_VECTOR_BYTES == 64
typedef __m512i vint;
#define MM(NAME) _mm512_##NAME
#elif SUMAC_VECTOR_BYTES == 32
typedef __m256i vint;
#define MM(NAME) _mm256_##NAME
#else
typedef __m128i vint;
#define MM(NAME) _mm_##NAME
#endif

SUMAC_INLINE vu8 v_max_u8(vu8 a, vu8 b) { return (vu8)MM(max_epu8)((vint)a, (vint)b); }
SUMAC_INLINE vi16 v_max_i16(vi16 a, vi16 b) { return (vi16)MM(max_epi16)((vint)a, (vint)b); }
#if SUMAC_VECTOR_BYTES >= 32
SUMAC_INLINE vi8 v_max_i8(vi8 a, vi8 b) { return (vi8)MM(max_epi8)((vint)a, (vint)b); }
SUMAC_INLINE vu16 v_max_u16(vu16 a, vu16 b) { return (vu16)MM(max_epu16)((vint)a, (vint)b); }
SUMAC_INLINE vu16 v_min_u16(vu16 a, vu16 b) { return (vu16)MM(min_epu16)((vint)a, (vint)b); }
SUMAC_INLINE vi32 v_max_i32(vi32 a, vi32 b) { return (vi32)MM(max_epi32)((vint)a, (vint)b); }
SUMAC_INLINE vu32 v_max_u32(vu32 a, vu32 b) { return (vu32)MM(max_epu32)((vint)a, (vint)b); }
SUMAC_INLINE vu32 v_min_u32(vu32 a, vu32 b) { return (vu32)MM(min_epu32)((vint)a, (vint)b); }
#else
SUMAC_INLINE vi8 v_max_i8(vi8 a, vi8 b) { return (vi8)v_select64((vi64)(a > b), (vu64)a, (vu64)b); }
SUMAC_INLINE vu16 v_max_u16(vu16 a, vu16 b) { return (vu16)v_select64((vi64)(a > b), (vu64)a, (vu64)b); }
SUMAC_INLINE vu16 v_min_u16(vu16 a, vu16 b) { return (vu16)v_select64((vi64)(a < b), (vu64)a, (vu64)b); }
SUMAC_INLINE vi32 v_max_i32(vi32 a, vi32 b) { return (vi32)v_select64((vi64)(a > b), (vu64)a, (vu64)b); }
SUMAC_INLINE vu32 v_max_u32(vu32 a, vu32 b) { return (vu32)v_select64((vi64)(a > b), (vu64)a, (vu64)b); }
SUMAC_INLINE vu32 v_min_u32(vu32 a, vu32 b) { return (vu32)v_select64((vi64)(a < b), (vu64)a, (vu64)b); }
#endif
#if SUMAC_VECTOR_BYTES == 64
SUMAC_INLINE vi64 v_max_i64(vi64 a, vi64 b) { return (vi64)MM(max_epi64)((vint)a, (vint)b); }
#else
SUMAC_INLINE vi64 v_max_i64(vi64 a, vi64 b) { /* in one type: gcc makes a blend of it then */
  vi64 m = a > b;
  return (m & a) | (~m & b);
}
#endif

/* Sums of 8 neighbouring bytes, as 64-bit numbers. */
SUMAC_INLINE vu64 v_sum_bytes(vu8 a) { return (vu64)MM(sad_epu8)((vint)a, (vint){0}); }

/* Sums of 2 neighbouring products, as 32-bit numbers. */
SUMAC_INLINE vi32 v_dot_i16(vi16 a, vi16 b) { return (vi32)MM(madd_epi16)((vint)a, (vint)b); }

#if SUMAC_VECTOR_BYTES >= 32
#define SUMAC_BYTE_TABLES 1 /* the three operations that follow exist */

SUMAC_INLINE vu8 v_add_saturated_u8(vu8 a, vu8 b) {
#if SUMAC_VECTOR_BYTES == 64
  return (vu8)_mm512_adds_epu8((__m512i)a, (__m512i)b);
#else
  return (vu8)_mm256_adds_epu8((__m256i)a, (__m256i)b);
#endif
}

/* table[index % 16] per byte, or 0 where index >= 128; the table repeated in every 16 bytes. */
SUMAC_INLINE vu8 v_lookup(vu8 table, vu8 index) {
#if SUMAC_VECTOR_BYTES == 64
  return (vu8)_mm512_shuffle_epi8((__m512i)table, (__m512i)index);
#else
  return (vu8)_mm256_shuffle_epi8((__m256i)table, (__m256i)index);
#endif
}

/* Sums of 2 neighbouring products of unsigned and signed bytes, as 16-bit numbers (saturating). */
SUMAC_INLINE vi16 v_dot_u8_i8(vu8 a, vi8 b) {
#if SUMAC_VECTOR_BYTES == 64
  return (vi16)_mm512_maddubs_epi16((__m512i)a, (__m512i)b);
#else
  return (vi16)_mm256_maddubs_epi16((__m256i)a, (__m256i)b);
#endif
}
#endif

/* How far ahead of the loads, in bytes, loops prefetch. Any distance from 4 KB on did alike in a first sweep,
 * of which no results were kept. */
enum { AHEAD = 4096 };
SUMAC_INLINE void v_prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }

#endif
