/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain sums, with partials of the accumulator's type: eight vectors, added up in a fixed order. A vector of
 * f32 travels as the vf64 of the same bits; f16 and bf16 are f32 that are rounded at each step, which is what
 * their own arithmetic gives: f32 has twice their digits and two more, and a product of bf16 that it cannot
 * hold, 16 bits of a subnormal, is below half of bf16's least number.
 */

enum { PLAIN_VECTORS = 8 };

SUMAC_INLINE vf32 acc_round(enum sumac_acc acc, vf32 v) {
  return acc == SUMAC_ACC_F16 ? v_round_to_f16(v) : acc == SUMAC_ACC_BF16 ? v_round_to_bf16(v) : v;
}
SUMAC_INLINE vf64 acc_add(enum sumac_acc acc, vf64 a, vf64 b) {
  return acc == SUMAC_ACC_F64 ? a + b : (vf64)acc_round(acc, (vf32)a + (vf32)b);
}
SUMAC_INLINE vf64 acc_mul(enum sumac_acc acc, vf64 a, vf64 b) {
  return acc == SUMAC_ACC_F64 ? a * b : (vf64)acc_round(acc, (vf32)a * (vf32)b);
}
SUMAC_INLINE vf64 acc_splat(enum sumac_acc acc, double v) {
  return acc == SUMAC_ACC_F64 ? v_f64(v) : (vf64)v_f32((float)v);
}

/* What a map adds up. */
SUMAC_INLINE vf64 plain_term(enum sumac_acc acc, int map, vf64 a, vf64 b, double centre) {
  switch (map) {
  case SUMAC_M_SUM: return a;
  case SUMAC_M_ABS: return acc == SUMAC_ACC_F64 ? v_abs_f64(a) : (vf64)((vu32)a & INT32_MAX);
  case SUMAC_M_SQUARE: return acc_mul(acc, a, a);
  case SUMAC_M_DOT: return acc_mul(acc, a, b);
  default: a = acc_add(acc, a, acc_splat(acc, -centre)); return acc_mul(acc, a, a);
  }
}

/* LANES elements at p as doubles. */
SUMAC_INLINE vf64 load_f64(enum sumac_type type, const char *p) {
  vf64 v;
  if (type == SUMAC_T_F64) {
    memcpy(&v, p, sizeof v);
    return v;
  }
  if (type == SUMAC_T_F32) return v_load_f32_as_f64(p);
  for (int i = 0; i < LANES; i++) {
    uint64_t bits = sumac_bits_at(&sumac_types[type], p, (size_t)i);
    v[i] = type == SUMAC_T_U64   ? (double)bits
           : type == SUMAC_T_I64 ? (double)(int64_t)bits
                                 : (double)integer_at(type, p, (size_t)i);
  }
  return v;
}

/* Narrow floats, whose vectors load_f32() takes in full. */
SUMAC_INLINE bool is_narrow(enum sumac_type type) {
  return type == SUMAC_T_F16 || type == SUMAC_T_BF16 || type == SUMAC_T_E4M3FN || type == SUMAC_T_E5M2;
}

/* GROUP elements at p, in one vector if single, otherwise in two. */
SUMAC_INLINE void plain_load(enum sumac_type type, bool single, const char *p, vf64 *v) {
  if (single || is_narrow(type)) {
    vf32 a = load_f32(type, p) * (type == SUMAC_T_E4M3FN ? 256.0f : 1.0f);
    v[0] = single ? (vf64)a : v_low_f64(a);
    v[1] = v_high_f64(a);
  } else {
    v[0] = load_f64(type, p);
    v[1] = load_f64(type, p + LANES * sumac_types[type].size);
  }
}

/* In f32 vectors, inf and NaN of a narrow type are right only where the hardware converts; and e4m3's NaN
 * nowhere. Such blocks are summed by element. */
SUMAC_INLINE bool has_special(enum sumac_type type, const char *x, size_t n) {
  if (type == SUMAC_T_E4M3FN) { /* in bytes, for the compiler to vectorise */
    const uint8_t *b = (const uint8_t *)x;
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++) any |= (uint8_t)((b[i] | 0x80) == 0xff);
    return any;
  }
  if (VB > 16 || !is_narrow(type)) return false;
  const struct sumac_type_info *t = &sumac_types[type];
  bool any = false;
  for (size_t i = 0; i < n; i++)
    any |= (sumac_bits_at(t, x, i) & sumac_low_bits(t->dtype.bits - 1)) >= sumac_inf_bits(t);
  return any;
}

SUMAC_INLINE double value_at(enum sumac_type type, const char *p, size_t i) {
  const struct sumac_type_info *t = &sumac_types[type];
  uint64_t bits = sumac_bits_at(t, p, i);
  if (t->cls != SUMAC_C_FLOAT)
    return type == SUMAC_T_U64   ? (double)bits
           : type == SUMAC_T_I64 ? (double)(int64_t)bits
                                 : (double)integer_at(type, p, i);
  return sumac_element_value(sumac_decode(t, bits));
}

/* sumac_plain_loop. A whole block is read as several streams, which add to the same vectors: with AVX2 memory
 * serves them 1.3 times as fast, with AVX-512 as fast (docs/perf-log.md). Those of types below 32 bits would
 * be too short. */
SUMAC_INLINE double plain_sum(enum sumac_acc acc, enum sumac_type type, int map, const char *x, const char *y,
                              size_t n, double centre) {
  const bool single = acc != SUMAC_ACC_F64;
  const bool dot = map == SUMAC_M_DOT;
  const size_t size = sumac_types[type].size;
  const size_t vectors = single ? 1 : 2, step = PLAIN_VECTORS / vectors * GROUP; /* of a group, of a step */
  const size_t streams = VB > 16 && size >= 4 && n % (4 * step) == 0 ? 4 / (1 + dot) : 1;
  /* -0, so that -0 alone gives -0 */
  vf64 sum[PLAIN_VECTORS], rest = acc_splat(acc, -0.0);
  size_t done = 0;
  SUMAC_UNROLL
  for (size_t u = 0; u < PLAIN_VECTORS; u++) sum[u] = rest;
  if (!has_special(type, x, n) && !(dot && has_special(type, y, n))) {
    const size_t part = n / streams;
    for (size_t i = 0; i + step <= part; i += step) {
      SUMAC_ROLLED
      for (size_t s = 0; s < streams; s++) {
        const char *px = x + (s * part + i) * size, *py = dot ? y + (s * part + i) * size : px;
        for (size_t b = 0; size < 4 && b < step * size; b += 64) {
          v_prefetch(px + b + AHEAD);
          if (dot) v_prefetch(py + b + AHEAD);
        }
        SUMAC_UNROLL
        for (size_t u = 0; u < PLAIN_VECTORS; u += vectors) {
          vf64 a[2], b[2];
          plain_load(type, single, px + u / vectors * GROUP * size, a);
          if (dot) plain_load(type, single, py + u / vectors * GROUP * size, b);
          SUMAC_UNROLL
          for (size_t v = 0; v < vectors; v++)
            sum[u + v] = acc_add(acc, sum[u + v], plain_term(acc, map, a[v], dot ? b[v] : a[v], centre));
        }
      }
    }
    done = n - n % step;
  }
  for (size_t i = done; i < n; i++) { /* in every lane */
    vf64 a = acc_splat(acc, value_at(type, x, i)), b = dot ? acc_splat(acc, value_at(type, y, i)) : a;
    rest = acc_add(acc, rest, plain_term(acc, map, a, b, centre));
  }
  for (int u = PLAIN_VECTORS / 2; u; u /= 2)
    for (int v = 0; v < u; v++) sum[v] = acc_add(acc, sum[v], sum[v + u]);
  for (int l = 0; l < (single ? 2 * LANES : LANES); l++)
    rest = acc_add(acc, rest, acc_splat(acc, single ? (double)((vf32)sum[0])[l] : sum[0][l]));
  return single ? (double)((vf32)rest)[0] : rest[0];
}
