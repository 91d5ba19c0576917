/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain sums, with f64 or f32 partials: eight vectors, added up in a fixed order.
 */

enum { PLAIN_VECTORS = 8 };

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
  struct sumac_element e = sumac_decode(t, bits);
  double v = e.nan ? NAN : e.inf ? INFINITY : ldexp((double)e.magnitude, e.exponent);
  return e.negative ? -v : v;
}

SUMAC_INLINE double term_f64(int map, double a, double b, double centre) {
  switch (map) {
  case SUMAC_M_SUM: return a;
  case SUMAC_M_ABS: return fabs(a);
  case SUMAC_M_SQUARE: return a * a;
  case SUMAC_M_DOT: return a * b;
  default: return (a - centre) * (a - centre);
  }
}

SUMAC_INLINE float term_f32(int map, float a, float b, float centre) {
  switch (map) {
  case SUMAC_M_SUM: return a;
  case SUMAC_M_ABS: return fabsf(a);
  case SUMAC_M_SQUARE: return a * a;
  case SUMAC_M_DOT: return a * b;
  default: return (a - centre) * (a - centre);
  }
}

SUMAC_INLINE vf64 terms_f64(int map, vf64 a, vf64 b, double centre) {
  switch (map) {
  case SUMAC_M_SUM: return a;
  case SUMAC_M_ABS: return v_abs_f64(a);
  case SUMAC_M_SQUARE: return a * a;
  case SUMAC_M_DOT: return a * b;
  default: return (a - centre) * (a - centre);
  }
}

SUMAC_INLINE vf32 terms_f32(int map, vf32 a, vf32 b, float centre) {
  switch (map) {
  case SUMAC_M_SUM: return a;
  case SUMAC_M_ABS: return (vf32)((vu32)a & INT32_MAX);
  case SUMAC_M_SQUARE: return a * a;
  case SUMAC_M_DOT: return a * b;
  default: return (a - centre) * (a - centre);
  }
}

SUMAC_INLINE double plain_f64(enum sumac_type type, int map, const char *x, const char *y, size_t n,
                              double centre) {
  const size_t size = sumac_types[type].size, width = is_narrow(type) ? 2 * LANES : LANES;
  const bool dot = map == SUMAC_M_DOT;
  const float scale = type == SUMAC_T_E4M3FN ? 256 : 1;
  vf64 acc[PLAIN_VECTORS];
  double sum = -0.0; /* so that -0 alone gives -0 */
  size_t i = 0;
  SUMAC_UNROLL
  for (int u = 0; u < PLAIN_VECTORS; u++) acc[u] = v_f64(-0.0);
  if (!has_special(type, x, n) && !(dot && has_special(type, y, n))) {
    const size_t step = PLAIN_VECTORS * LANES;
    for (; i + step <= n; i += step) {
      const char *px = x + i * size, *py = dot ? y + i * size : px;
      for (size_t b = 0; b < step * size; b += 64) {
        v_prefetch(px + b + AHEAD);
        if (dot) v_prefetch(py + b + AHEAD);
      }
      SUMAC_UNROLL
      for (size_t u = 0; u < step / width; u++) {
        if (is_narrow(type)) {
          vf32 a = load_f32(type, px + u * width * size) * scale,
               b = dot ? load_f32(type, py + u * width * size) * scale : a;
          acc[2 * u] += terms_f64(map, v_low_f64(a), v_low_f64(b), centre);
          acc[2 * u + 1] += terms_f64(map, v_high_f64(a), v_high_f64(b), centre);
        } else {
          vf64 a = load_f64(type, px + u * width * size), b = dot ? load_f64(type, py + u * width * size) : a;
          acc[u] += terms_f64(map, a, b, centre);
        }
      }
    }
  }
  for (; i < n; i++) sum += term_f64(map, value_at(type, x, i), dot ? value_at(type, y, i) : 0, centre);
  for (int u = PLAIN_VECTORS / 2; u; u /= 2)
    for (int v = 0; v < u; v++) acc[v] += acc[v + u];
  for (int l = 0; l < LANES; l++) sum += acc[0][l];
  return sum;
}

SUMAC_INLINE double plain_f32(enum sumac_type type, int map, const char *x, const char *y, size_t n,
                              double middle) {
  const size_t size = sumac_types[type].size, width = 2 * LANES, step = PLAIN_VECTORS * width;
  const bool dot = map == SUMAC_M_DOT;
  const float scale = type == SUMAC_T_E4M3FN ? 256 : 1, centre = (float)middle;
  vf32 acc[PLAIN_VECTORS];
  float sum = -0.0f;
  size_t i = 0;
  SUMAC_UNROLL
  for (int u = 0; u < PLAIN_VECTORS; u++) acc[u] = v_f32(-0.0f);
  if (!has_special(type, x, n) && !(dot && has_special(type, y, n))) {
    for (; i + step <= n; i += step) {
      const char *px = x + i * size, *py = dot ? y + i * size : px;
      for (size_t b = 0; b < step * size; b += 64) {
        v_prefetch(px + b + AHEAD);
        if (dot) v_prefetch(py + b + AHEAD);
      }
      SUMAC_UNROLL
      for (size_t u = 0; u < PLAIN_VECTORS; u++) {
        vf32 a = load_f32(type, px + u * width * size) * scale,
             b = dot ? load_f32(type, py + u * width * size) * scale : a;
        acc[u] += terms_f32(map, a, b, centre);
      }
    }
  }
  for (; i < n; i++)
    sum += term_f32(map, (float)value_at(type, x, i), dot ? (float)value_at(type, y, i) : 0, centre);
  for (int u = PLAIN_VECTORS / 2; u; u /= 2)
    for (int v = 0; v < u; v++) acc[v] += acc[v + u];
  for (int l = 0; l < 2 * LANES; l++) sum += acc[0][l];
  return (double)sum;
}
