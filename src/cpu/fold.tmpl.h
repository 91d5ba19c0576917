/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact sums of floats: folds into integer windows. Compiled once per instruction set.
 *
 * Window k is the number M_k = 1.5 * 2^(e_k), e_k = E - 52 k. For |v| <= 2^(e_k - 1) the sum t = v + M_k is
 * v rounded to a multiple of 2^(e_k - 52), and the bits of t less the bits of M_k are that multiple as an
 * integer. So the bits may be added up as integers, exactly. What the rounding left, v - (t - M_k), is
 * exact too (FastTwoSum), at most 2^(e_k - 53), and goes to window k + 1.
 *
 * A tile is proven exact, or leaves no trace: `high` collects exponent bits of t that differ from M_0's (a
 * value was too large for window 0, or is inf or NaN), `rest` what is left after the last window. Where one
 * of them is not zero, hard_tile() chooses other windows, more windows, or adds by exponent. Any choice
 * gives the same sum; only speed depends on it.
 *
 * A large array is read as several streams, from equally many places at once: memory serves one core faster
 * that way (docs/perf-log.md). Then a tile is n elements at x, n at x + apart, and so on.
 */

enum { LANES = VB / 8, GROUP = 2 * LANES, TILE = VB > 16 ? 4096 : 2048, SAMPLE = 64 };

/* Elements per step of a loop: a group, or a cache line if that is more; for 16 bits, two vectors; for 8 bits
 * one, since more would be much code. */
SUMAC_INLINE size_t step_of(size_t size) {
  return GROUP * size >= 64 ? GROUP : size == 1 ? VB : VB > 32 ? 4 * GROUP : 64 / size;
}

/* Adds n elements, a multiple of step_of(), to a sum, or leaves no trace and returns false. Where apart is
 * not 0, n elements of every stream. */
typedef bool sumac_tile(struct sumac_sum *sum, const char *x, const char *y, size_t n, size_t apart);

SUMAC_INLINE bool is_product(enum sumac_map map) { return map == SUMAC_M_SQUARE || map == SUMAC_M_DOT; }

/* Of an array that is worth several streams; the base instruction set goes without, for its size. */
#define STREAM_BYTES (VB > 16 ? (size_t)1 << 17 : SIZE_MAX)

/* Elements of each: whole kilobytes, but no multiple of a page, so that streams do not meet in one set of the
 * cache. */
SUMAC_INLINE size_t stream_length(size_t n, size_t size, size_t streams) {
  size_t bytes = n * size / streams / 1024 * 1024;
  return (bytes % 4096 ? bytes : bytes - 1024) / size;
}

SUMAC_INLINE int streams_of(enum sumac_map map) { return map == SUMAC_M_DOT ? 2 : 4; }

/* f64 products leave a low part. */
SUMAC_INLINE bool has_low_part(enum sumac_type type, enum sumac_map map) {
  return type == SUMAC_T_F64 && is_product(map);
}

/* Windows that do for most tiles. f16 and fp8 always fit, with their exponent fixed. Sums of 16-bit types
 * have a tile of their own (narrow_tile), which counts as one window. */
SUMAC_INLINE int least_windows(enum sumac_type type, enum sumac_map map) {
  return type == SUMAC_T_F64 || is_product(map) ? 2 : 1;
}
SUMAC_INLINE int fixed_exponent(enum sumac_type type, enum sumac_map map) {
  return type == SUMAC_T_F64 || type == SUMAC_T_F32 || type == SUMAC_T_BF16 ? INT_MIN
         : is_product(map)                                                  ? 34
                                                                            : 17;
}

/* e4m3 is read as the f16 of 2^-8 times its value. */
SUMAC_INLINE int weight_exponent(enum sumac_type type, enum sumac_map map) {
  return type != SUMAC_T_E4M3FN ? 0 : is_product(map) ? 16 : 8;
}

/* Binades from the highest to the lowest bit of one term, less one. */
SUMAC_INLINE int term_depth(enum sumac_type type, enum sumac_map map) {
  int mantissa = type == SUMAC_T_F64 ? 52 : type == SUMAC_T_F32 ? 23 : 7;
  return is_product(map) ? 2 * mantissa + 1 : mantissa;
}

SUMAC_INLINE vf64 v_abs_f64(vf64 v) { return (vf64)((vu64)v & INT64_MAX); }

/* GROUP elements of any type as floats, exact but for weight_exponent(); inf and NaN as they may. */
SUMAC_INLINE vf32 load_f32(enum sumac_type type, const char *p) {
  vf32 v;
  vu16_half h;
  switch (type) {
  case SUMAC_T_F32: memcpy(&v, p, sizeof v); return v;
  case SUMAC_T_F16: memcpy(&h, p, sizeof h); return v_f16_to_f32(h);
  case SUMAC_T_BF16: return (vf32)(v_load_u16_as_u32(p) << 16);
  case SUMAC_T_E5M2: return v_f16_to_f32(v_load_u8_as_u16(p) << 8);
  default: h = v_load_u8_as_u16(p); return v_f16_to_f32((h & 0x7f) << 7 | (h & 0x80) << 8);
  }
}

/* The terms of GROUP elements: h, and the low parts of f64 products in l. Products of 16-bit and 8-bit
 * types are formed in f32, unless `wide`; `risk` gathers where one may be inexact, having underflowed. */
SUMAC_INLINE void load_terms(enum sumac_type type, enum sumac_map map, bool wide, const char *x,
                             const char *y, vf64 *h, vf64 *l, vu64 *risk) {
  if (type == SUMAC_T_F64) {
    SUMAC_UNROLL
    for (int u = 0; u < 2; u++) {
      vf64 a, b;
      memcpy(&a, x + u * VB, VB);
      if (!is_product(map)) {
        h[u] = map == SUMAC_M_ABS ? v_abs_f64(a) : a;
        continue;
      }
      b = a;
      if (map == SUMAC_M_DOT) memcpy(&b, y + u * VB, VB);
      h[u] = a * b;
      l[u] = v_fmsub(a, b, h[u]);
      *risk |= (vu64)(v_abs_f64(h[u]) < 0x1p-969);
#if SUMAC_VECTOR_BYTES == 16
      *risk |= (vu64)(v_abs_f64(a) > 0x1p+990) | (vu64)(v_abs_f64(b) > 0x1p+990);
#endif
    }
    return;
  }
  vf32 a = load_f32(type, x);
  if (!is_product(map)) {
    if (map == SUMAC_M_ABS) a = (vf32)((vu32)a & INT32_MAX);
    h[0] = v_low_f64(a);
    h[1] = v_high_f64(a);
    return;
  }
  vf32 b = map == SUMAC_M_DOT ? load_f32(type, y) : a;
  if (type == SUMAC_T_F32 || wide) {
    h[0] = v_low_f64(a) * v_low_f64(b);
    h[1] = v_high_f64(a) * v_high_f64(b);
    return;
  }
  vf32 p = a * b;
  if (type == SUMAC_T_BF16) *risk |= (vu64)((vf32)((vu32)p & INT32_MAX) < 0x1p-126f);
  h[0] = v_low_f64(p);
  h[1] = v_high_f64(p);
}

/* Is every product that `risk` may mean exact, being one by zero? */
static NOINLINE bool risk_is_zeros(enum sumac_type type, enum sumac_map map, const char *x, const char *y,
                                   size_t n) {
  const struct sumac_type_info *t = &sumac_types[type];
  for (size_t i = 0; i < n; i++) {
    struct sumac_element a = sumac_decode(t, sumac_bits_at(t, x, i)), b = a;
    if (map == SUMAC_M_DOT) b = sumac_decode(t, sumac_bits_at(t, y, i));
    int exponent = a.exponent + b.exponent; /* of the product's last place */
    if (a.magnitude && b.magnitude && exponent < (type == SUMAC_T_F64 ? -1074 : -149)) return false;
    /* the first product form needs |a|, |b| < 2^996 where there is no fused multiply-add */
    if (type == SUMAC_T_F64 && (a.exponent > 900 || b.exponent > 900)) return false;
  }
  return true;
}

/* The exponent of window k, clamped: at -1022 its last place is the last of all doubles. */
SUMAC_INLINE int window_exponent(int top, int k) { return top - 52 * k > -1022 ? top - 52 * k : -1022; }

/* The bits of 1.5 * 2^e. */
SUMAC_INLINE uint64_t magic_bits(int e) { return (uint64_t)(e + 1023) << 52 | (uint64_t)1 << 51; }

/* Adds v to windows first ... last - 1. */
SUMAC_INLINE void fold(vf64 v, int first, int last, const vf64 *magic, vu64 *acc, vu64 *high, vu64 *rest) {
  SUMAC_UNROLL
  for (int k = first; k < last; k++) {
    vf64 t = v + magic[k];
    acc[k] += (vu64)t;
    if (k == 0) *high |= (vu64)t ^ (vu64)magic[0];
    vf64 q = t - magic[k];
    if (k < last - 1)
      v = v - q;
    else if (rest)
      *rest |= (vu64)v ^ (vu64)q;
  }
}

SUMAC_INLINE bool has_narrow_tile(enum sumac_type type, enum sumac_map map) {
  return (type == SUMAC_T_F16 || type == SUMAC_T_BF16) && !is_product(map);
}

/* Makes window k count in units of 2^unit. Before the loop, so that no call is left behind it. */
SUMAC_INLINE void open_window(struct sumac_sum *sum, int k, int unit) {
  if (k < sum->open && sum->unit[k] == unit) return;
  if (k < sum->open && sum->waiting[k]) sumac_sum_flush(sum);
  for (; sum->open <= k; sum->open++) sum->waiting[sum->open] = 0;
  sum->unit[k] = unit;
}

/* Adds what a tile left in window k: a signed integer a lane. */
SUMAC_INLINE void commit(struct sumac_sum *sum, int k, vu64 v) {
  SUMAC_UNROLL
  for (int i = 0; i < LANES; i++) sum->waiting[k] += (int64_t)v[i];
}

/* Range checks of the types that are certified as integers, before any conversion: the greatest and the
 * least non-zero of twice the magnitude, the latter less one, so that zero wraps to the greatest. (Twice,
 * since that drops the sign without a constant in a register.) */
struct range {
  vu64 most, least;
};

SUMAC_INLINE void range_add(enum sumac_type type, struct range *r, vu8 v) {
  if (type == SUMAC_T_F32) {
    vu32 u = (vu32)v + (vu32)v;
    r->most = (vu64)v_max_u32((vu32)r->most, u);
    r->least = (vu64)v_min_u32((vu32)r->least, u - 1);
  } else if (type == SUMAC_T_BF16 || type == SUMAC_T_F16) {
    vu16 u = (vu16)v + (vu16)v;
    r->most = (vu64)v_max_u16((vu16)r->most, u);
    if (type == SUMAC_T_BF16) r->least = (vu64)v_min_u16((vu16)r->least, u - 1);
  } else {
    r->most = (vu64)v_max_u8((vu8)r->most, v + v);
  }
}

/* Are all elements seen below 2^(e - 1), their last bits at 2^(e - depth) or above? (f16, fp8: is none inf or
 * NaN?) */
SUMAC_INLINE bool range_fits(enum sumac_type type, const struct range *r, int e, int depth) {
  uint32_t most = 0, least = UINT32_MAX;
  if (type == SUMAC_T_F32) {
    vu32 m = (vu32)r->most, l = (vu32)r->least;
    for (int i = 0; i < VB / 4; i++) {
      most = m[i] > most ? m[i] : most;
      least = l[i] < least ? l[i] : least;
    }
  } else if (type == SUMAC_T_BF16 || type == SUMAC_T_F16) {
    vu16 m = (vu16)r->most, l = (vu16)r->least;
    for (int i = 0; i < VB / 2; i++) {
      most = m[i] > most ? m[i] : most;
      least = l[i] < least ? l[i] : least;
    }
    if (type == SUMAC_T_F16) return most < 2 * 0x7c00;
    most <<= 16;
    least = least == UINT16_MAX ? UINT32_MAX : ((least + 1) << 16) - 1;
  } else {
    vu8 m = (vu8)r->most;
    for (int i = 0; i < VB; i++) most = m[i] > most ? m[i] : most;
    return most < 2 * (type == SUMAC_T_E4M3FN ? 0x7f : 0x7c);
  }
  if (least == UINT32_MAX) return true; /* zeros only */
  int top = (int)(most >> 24) - 127, bottom = (int)((least + 1) >> 24) - 127;
  if (bottom < -126) bottom = -126;
  return top < 128 && top + 1 <= e - 1 && bottom - term_depth(type, SUMAC_M_SUM) >= e - depth;
}

/* Tries n elements of S streams each in K windows at sum->exponent. */
SUMAC_INLINE bool fold_streams(enum sumac_type type, enum sumac_map map, bool wide, int K, int S,
                               struct sumac_sum *sum, const char *x, const char *y, size_t n, size_t apart) {
  const size_t size = sumac_types[type].size, step = step_of(size);
  const bool low = has_low_part(type, map);
  const bool fixed = fixed_exponent(type, map) != INT_MIN;
  /* Two windows take the squares of what one takes: v <= 2^(e - 1) and v a multiple of 2^(e - 52). */
  const bool squares = type == SUMAC_T_F32 && map == SUMAC_M_SQUARE && K == 2 && !wide;
  const bool ranged = K == 1 || fixed || squares, checked = !ranged; /* `checked` by `high` and `rest` */
  const int W = low ? K + 1 : K;
  vf64 magic[SUMAC_MAX_WINDOWS];
  vu64 acc[SUMAC_MAX_WINDOWS], high = {0}, rest = {0}, risk = {0};
  struct range range = {{0}, ~(vu64){0}}, range_y = range;
  SUMAC_UNROLL
  for (int k = 0; k < W; k++) {
    int e = window_exponent(sum->exponent, k);
    open_window(sum, k, e - 52 + weight_exponent(type, map));
    magic[k] = (vf64)v_u64(magic_bits(e));
    acc[k] = (vu64){0};
  }
  for (size_t i = 0; i < n; i += step) {
    SUMAC_ROLLED
    for (int s = 0; s < S; s++) {
      const size_t at = i * size + (size_t)s * apart;
      const char *px = x + at, *py = map == SUMAC_M_DOT ? y + at : px;
      SUMAC_UNROLL
      for (size_t b = 0; b < step * size; b += 64) {
        v_prefetch(px + b + AHEAD);
        if (map == SUMAC_M_DOT) v_prefetch(py + b + AHEAD);
      }
      if (ranged) {
        SUMAC_UNROLL
        for (size_t b = 0; b < step * size; b += VB) {
          range_add(type, &range, v_load(px + b));
          if (map == SUMAC_M_DOT) range_add(type, &range_y, v_load(py + b));
        }
      }
      SUMAC_UNROLL
      for (size_t g = 0; g < step; g += GROUP) {
        vf64 h[2], l[2];
        load_terms(type, map, wide, px + g * size, py + g * size, h, l, &risk);
        SUMAC_UNROLL
        for (int u = 0; u < 2; u++) {
          if (K == 1) {
            acc[0] += (vu64)(h[u] + magic[0]);
          } else {
            fold(h[u], 0, K, magic, acc, &high, checked ? &rest : NULL);
            if (low) fold(l[u], 1, W, magic, acc, &high, &rest);
          }
        }
      }
    }
  }
  const int exponent = squares ? (sum->exponent + 1) >> 1 : sum->exponent;
  if (ranged && !(range_fits(type, &range, exponent, 52) &&
                  (map != SUMAC_M_DOT || range_fits(type, &range_y, exponent, 52))))
    return false;
  if (checked && ((v_or64(high) >> 52) | (v_or64(rest) << 1))) return false;
  if (is_product(map) && (type == SUMAC_T_F64 || (type == SUMAC_T_BF16 && !wide)) && v_or64(risk)) {
    for (int s = 0; s < S; s++)
      if (!risk_is_zeros(type, map, x + (size_t)s * apart, y + (size_t)s * apart, n)) return false;
  }
  SUMAC_UNROLL
  for (int k = 0; k < W; k++) {
    uint64_t adds =
        (size_t)S * n / LANES * ((k < K) + (low && k > 0)); /* 1024 a lane of 2^51, and 1024 of 2^50 */
    commit(sum, k, acc[k] - adds * (uint64_t)((vu64)magic[k])[0]);
  }
  return true;
}

SUMAC_INLINE bool fold_tile(enum sumac_type type, enum sumac_map map, bool wide, int K, struct sumac_sum *sum,
                            const char *x, const char *y, size_t n, size_t apart) {
  if (VB > 16 && apart) return fold_streams(type, map, wide, K, streams_of(map), sum, x, y, n, apart);
  return fold_streams(type, map, wide, K, 1, sum, x, y, n, 0);
}

/* Tries n elements of a 16-bit type, a multiple of step_of() and at most NARROW_TILE, in f32: an integer
 * window M = 1.5 * 2^e, and what it leaves added up as floats, exactly: for up to 128 terms a lane of at most
 * 2^(e - 24), all multiples of 2^(e - 41), no sum needs more than 24 bits. f16 fits as a whole, with e = 17.
 */
enum { NARROW_TILE = 4 * 2 * LANES * 128, NARROW_DEPTH = 41, NARROW_LEAST = -80, NARROW_MOST = 120 };

/* Adds 32-bit integers to 64-bit lanes, each 2^31 up. */
SUMAC_INLINE vu64 widen_add(vu64 lanes, vu32 v) {
  v ^= 0x80000000u;
  return lanes + ((vu64)v & UINT32_MAX) + ((vu64)v >> 32);
}

SUMAC_INLINE bool narrow_streams(enum sumac_type type, enum sumac_map map, int S, struct sumac_sum *sum,
                                 const char *x, size_t n, size_t apart) {
  const int e = type == SUMAC_T_F16 ? 17 : sum->exponent;
  if (e < NARROW_LEAST || e > NARROW_MOST) return false;
  open_window(sum, 0, e - 23);
  open_window(sum, 1, e - NARROW_DEPTH);
  const uint32_t bits = (uint32_t)(e + 127) << 23 | 1u << 22;
  const vf32 magic = (vf32)v_u32(bits), one = v_opaque_one();
  vu32 acc[2] = {{0}, {0}};
  vf32 rest[4];
  struct range range = {{0}, ~(vu64){0}};
  SUMAC_UNROLL
  for (int u = 0; u < 4; u++) rest[u] = (vf32){0};
  for (size_t i = 0; i < 2 * n; i += 2 * VB) {
    SUMAC_ROLLED
    for (int s = 0; s < S; s++) {
      SUMAC_UNROLL
      for (int u = 0; u < 2; u++) { /* a vector at a time, which keeps it all in 16 registers */
        const char *p = x + i + (size_t)s * apart + (size_t)u * VB;
        vf32 v[2];
        vu8 raw = v_load(p);
        v_prefetch(p + AHEAD);
        range_add(type, &range, raw);
        if (type == SUMAC_T_BF16) { /* order does not matter: even ones, odd ones */
          v[0] = (vf32)((vu32)raw << 16);
          v[1] = (vf32)((vu32)raw & 0xffff0000u);
        } else {
          v[0] = load_f32(type, p);
          v[1] = load_f32(type, p + VB / 2);
        }
        SUMAC_UNROLL
        for (int h = 0; h < 2; h++) {
          if (map == SUMAC_M_ABS) v[h] = (vf32)((vu32)v[h] & INT32_MAX);
          /* f16's conversion keeps the ports for additions busy, bf16's does not */
          vf32 t = type == SUMAC_T_F16 ? v_add_by_fma(v[h], one, magic) : v[h] + magic,
               r = v[h] - (t - magic);
          vf32 *sum_r = &rest[2 * u + h];
          acc[u] += (vu32)t;
          *sum_r = type == SUMAC_T_F16 ? v_add_by_fma(r, one, *sum_r) : r + *sum_r;
        }
      }
    }
  }
  if (!range_fits(type, &range, e, NARROW_DEPTH)) return false;
  const uint32_t adds = (uint32_t)((size_t)S * n / (2 * GROUP));
  vu64 whole = {0}, part = {0};
  vf32 scale = (vf32)v_u32((uint32_t)(NARROW_DEPTH - e + 127) << 23);
  SUMAC_UNROLL
  for (int u = 0; u < 4; u++) {
    if (u < 2) whole = widen_add(whole, acc[u] - adds * bits);
    part = widen_add(part, (vu32) __builtin_convertvector(rest[u] * scale, vi32));
  }
  commit(sum, 0, whole - ((uint64_t)4 << 31));
  commit(sum, 1, part - ((uint64_t)8 << 31));
  return true;
}

SUMAC_INLINE bool narrow_tile(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                              size_t n, size_t apart) {
  if (VB > 16 && apart) return narrow_streams(type, map, streams_of(map), sum, x, n, apart);
  return narrow_streams(type, map, 1, sum, x, n, 0);
}

/* Of a number > 0. */
SUMAC_INLINE int floor_log2(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits >> 52 ? (int)(bits >> 52) - 1023 : 63 - __builtin_clzll(bits) - 1074;
}

/* Exponents of the greatest and the least non-zero |h| in a tile; false if an h is inf or NaN. */
SUMAC_INLINE bool tile_span(enum sumac_type type, enum sumac_map map, const char *x, const char *y, size_t n,
                            int *top, int *bottom) {
  const size_t size = sumac_types[type].size;
  vf64 most = {0}, least = v_f64(INFINITY);
  vi64 special = {0};
  for (size_t i = 0; i < n; i += GROUP) {
    vf64 h[2], l[2];
    vu64 risk = {0};
    load_terms(type, map, true, x + i * size, y + (map == SUMAC_M_DOT ? i * size : 0), h, l, &risk);
    for (int u = 0; u < 2; u++) {
      vf64 a = v_abs_f64(h[u]);
      special |= ~(a < INFINITY);
      most = (vf64)v_select64(a > most, (vu64)a, (vu64)most);
      least = (vf64)v_select64((a < least) & (a != 0), (vu64)a, (vu64)least);
    }
  }
  double m = 0, l = INFINITY;
  for (int i = 0; i < LANES; i++) {
    m = most[i] > m ? most[i] : m;
    l = least[i] < l ? least[i] : l;
  }
  if (v_or64((vu64)special)) return false;
  *top = m > 0 ? floor_log2(m) : -1074;
  *bottom = m > 0 ? floor_log2(l) : -1074;
  return true;
}

/* Adds by exponent. A bin sums the significands, as integers, of all terms of one sign and exponent field:
 * these bits, as a number, are its index. So no term is too large, too small or too far from the others.
 * `width` is that of the significand without its leading bit: 52 or 23. */
enum { BINS_F64 = 1 << 12, BINS_F32 = 1 << 9, BINS_AT_ONCE = 16 };

SUMAC_INLINE int bins_of(int width) { return width == 52 ? BINS_F64 : BINS_F32; }

/* Of field 0, the subnormal numbers, and of field 1. */
SUMAC_INLINE int bin_exponent(int width) { return width == 52 ? -1074 : -149; }

/* Inf and NaN: their bins only tell that there are some. */
SUMAC_INLINE bool is_special_bin(int width, uint64_t index) {
  return (index + 1) % (uint64_t)(bins_of(width) / 2) == 0;
}

/* Empties a bin of f64 that has become large, which is after 1024 terms or more. */
static NOINLINE void empty_bin(struct sumac_sum *sum, uint64_t *bin, uint64_t index) {
  int field = (int)(index % (BINS_F64 / 2));
  sumac_i128 v = bin[index];
  bin[index] = is_special_bin(52, index);
  if (bin[index]) return;
  sumac_exact_add(&sum->number, index < BINS_F64 / 2 ? v : -v, bin_exponent(52) + (field ? field - 1 : 0));
}

/* `normal`: the term is known not to be zero or subnormal. */
SUMAC_INLINE void bins_add(struct sumac_sum *sum, uint64_t *bin, int width, uint64_t bits, bool normal) {
  const uint64_t hidden = (uint64_t)1 << width, index = bits >> width;
  const bool leading = normal || index % (uint64_t)(bins_of(width) / 2);
  bin[index] += (bits & (hidden - 1)) | (leading ? hidden : 0);
  if (width == 52 && bin[index] >> 63) empty_bin(sum, bin, index);
}

/* Moves all bins into the number; inf and NaN are among the terms if it returns true. */
SUMAC_INLINE bool bins_flush(struct sumac_sum *sum, uint64_t *bin, int width) {
  const int fields = bins_of(width) / 2;
  const bool special = bin[fields - 1] || bin[2 * fields - 1];
  /* the subnormal numbers weigh as much as field 1, not half of it */
  sumac_exact_add(&sum->number, (int64_t)(bin[0] - bin[fields]), bin_exponent(width));
  bin[0] = bin[fields] = bin[fields - 1] = bin[2 * fields - 1] = 0;
  for (int first = 0; first < fields; first += BINS_AT_ONCE) {
    vu64 low = {0}, high = {0}, shift = {0}; /* halves of what bins hold, at most 16 * 2^32 * 2^15 together */
    for (int i = 0; i < LANES; i++) shift[i] = (uint64_t)i;
    SUMAC_UNROLL
    for (int i = 0; i < BINS_AT_ONCE; i += LANES) {
      vu64 plus, minus;
      memcpy(&plus, bin + first + i, VB);
      memcpy(&minus, bin + fields + first + i, VB);
      low += ((plus & UINT32_MAX) - (minus & UINT32_MAX)) << (shift + (uint64_t)i);
      high += ((plus >> 32) - (minus >> 32)) << (shift + (uint64_t)i);
    }
    int64_t l = 0, h = 0;
    SUMAC_UNROLL
    for (int i = 0; i < LANES; i++) {
      l += (int64_t)low[i];
      h += (int64_t)high[i];
    }
    sumac_exact_add(&sum->number, l + (sumac_i128)h * ((int64_t)1 << 32), bin_exponent(width) + first - 1);
  }
  sumac_exact_settle(&sum->number);
  return special;
}

/* Are the elements of a step all neither zero nor subnormal? */
SUMAC_INLINE bool all_normal(enum sumac_type type, const char *x) {
  const size_t size = sumac_types[type].size;
  vu64 found = {0};
  SUMAC_UNROLL
  for (size_t b = 0; b < step_of(size) * size; b += VB) {
    vu8 v = v_load(x + b);
    found |= size == 8   ? (vu64)(((vu64)v & 0x7ff0000000000000u) == 0)
             : size == 4 ? (vu64)(((vu32)v & 0x7f800000) == 0)
                         : (vu64)(((vu16)v & 0x7f80) == 0);
  }
  return !v_or64(found);
}

/* Adds a step of one stream. */
SUMAC_INLINE void bins_step(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, uint64_t *bin,
                            const char *x, bool normal) {
  const size_t size = sumac_types[type].size;
  SUMAC_UNROLL
  for (size_t i = 0; i < step_of(size); i++) {
    uint64_t bits = sumac_bits_at(&sumac_types[type], x, i);
    if (type == SUMAC_T_BF16) bits <<= 16;
    if (map == SUMAC_M_ABS) bits &= size == 8 ? INT64_MAX : INT32_MAX;
    bins_add(sum, bin, size == 8 ? 52 : 23, bits, normal);
  }
}

/* Adds a group's products. f64 products may over- or underflow: such groups go by the book. */
SUMAC_INLINE void bins_products(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum,
                                uint64_t *bin, const char *x, const char *y) {
  const bool low = has_low_part(type, map);
  vf64 h[2], l[2];
  vu64 risk = {0};
  uint64_t term[GROUP];
  load_terms(type, map, true, x, y, h, l, &risk);
  if (low) {
    risk |= ~(vu64)(v_abs_f64(h[0]) < 0x1p1020) | ~(vu64)(v_abs_f64(h[1]) < 0x1p1020);
    if (v_or64(risk)) {
      sumac_sum_by_element(sum, &sumac_types[type], map, x, y, GROUP);
      return;
    }
    memcpy(term, l, sizeof term);
    for (int i = 0; i < GROUP; i++) bins_add(sum, bin, 52, term[i], false);
  }
  memcpy(term, h, sizeof term);
  for (int i = 0; i < GROUP; i++) bins_add(sum, bin, 52, term[i], false);
}

/* Takes everything, inf and NaN too, and many tiles at once: to empty all bins takes as long as a few
 * thousand elements. */
SUMAC_INLINE bool bins_tile(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                            const char *y, size_t n, size_t apart) {
  const struct sumac_type_info *t = &sumac_types[type];
  if (t->cls != SUMAC_C_FLOAT || fixed_exponent(type, map) != INT_MIN) return true; /* never needed */
  const size_t size = t->size, step = is_product(map) ? GROUP : step_of(size);
  const int width = type == SUMAC_T_F64 || is_product(map) ? 52 : 23, streams = apart ? streams_of(map) : 1;
  uint64_t bin[BINS_F64];
  memset(bin, 0, (size_t)bins_of(width) * sizeof bin[0]);
  for (int s = 0; s < streams; s++) {
    const char *px = x + (size_t)s * apart, *py = y + (size_t)s * apart;
    for (size_t i = 0; i < n * size; i += step * size) {
      v_prefetch(px + i + AHEAD);
      if (is_product(map))
        bins_products(type, map, sum, bin, px + i, py + i);
      else if (all_normal(type, px + i))
        bins_step(type, map, sum, bin, px + i, true);
      else
        bins_step(type, map, sum, bin, px + i, false);
    }
  }
  if (bins_flush(sum, bin, width)) {
    for (int s = 0; s < streams; s++)
      sumac_sum_specials(sum, t, map, x + (size_t)s * apart, y + (size_t)s * apart, n, NULL, NULL);
  }
  return true;
}

/* The windows, 2 or 4, that reach from 2^(exponent - 1) down to the last bits of terms of 2^bottom. More are
 * slower than bins, and so are 4 for f32 and bf16. */
SUMAC_INLINE int windows_for(enum sumac_type type, enum sumac_map map, int exponent, int bottom) {
  int need = (exponent - (bottom - term_depth(type, map)) + 51) / 52 - has_low_part(type, map);
  return need <= 2 ? 2 : need <= 4 && least_windows(type, map) == 2 ? 4 : SUMAC_BY_EXPONENT;
}

/* Chooses windows for a tile of one stream, which then takes them, or goes by exponent. */
SUMAC_INLINE bool fit_tile(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                           const char *y, size_t n, size_t apart, sumac_tile *bins) {
  const struct sumac_type_info *t = &sumac_types[type];
  (void)apart;
  if (t->cls != SUMAC_C_FLOAT) return true; /* integers have none */
  const int least = least_windows(type, map);
  const bool fixed = fixed_exponent(type, map) != INT_MIN;
  _Alignas(64) char buffer[2][TILE * sizeof(double)];
  int top = 0, bottom = 0;
  if (fixed || !tile_span(type, map, x, y, n, &top, &bottom)) {
    if (sumac_sum_specials(sum, t, map, x, y, n, buffer[0], buffer[1])) {
      x = buffer[0]; /* a copy with neutral elements in place of inf and NaN */
      y = buffer[1];
      if (!fixed && !tile_span(type, map, x, y, n, &top, &bottom)) top = 1024;
    } else {
      top = 1024; /* a product overflowed */
    }
  }
  if (fixed) { /* fits, inf and NaN being gone */
    return fold_tile(type, map, false, least, sum, x, y, n, 0);
  }
  const int slack = least == 1 ? 6 : 24;
  if (top + 2 > sum->exponent || top + slack < sum->exponent) sum->exponent = top + 3 < 1023 ? top + 3 : 1023;
  sum->windows = top <= sum->exponent - 2 ? windows_for(type, map, sum->exponent, bottom) : SUMAC_BY_EXPONENT;
  if (sum->windows == 2 && fold_tile(type, map, true, 2, sum, x, y, n, 0)) return true;
  if (sum->windows == 4 && least == 2 && fold_tile(type, map, true, 4, sum, x, y, n, 0)) return true;
  sum->windows = SUMAC_BY_EXPONENT;
  return bins(sum, x, y, n, 0);
}

enum { MOST_HELD = 64 * TILE };

/* Elements to take at once: what is held on to, where that goes by exponent. */
SUMAC_INLINE size_t tile_length(const struct sumac_sum *sum, size_t usual) {
  return sum->windows == SUMAC_BY_EXPONENT && sum->hold > usual ? sum->hold : usual;
}

/* Other than the usual ways, out of line. */
struct detours {
  sumac_tile *fit, *bins;
};

/* A tile that the usual windows did not take, or shall not be offered to them. */
SUMAC_INLINE bool hard_tile(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                            const char *y, size_t n, size_t apart, struct detours other) {
  const int least = least_windows(type, map);
  if (sumac_types[type].cls != SUMAC_C_FLOAT) return true; /* integers have none */
  if (sum->windows == SUMAC_BY_EXPONENT) {
    if (apart || n > 2 * GROUP) return other.bins(sum, x, y, n, apart);
    sumac_sum_by_element(sum, &sumac_types[type], map, x, y, n); /* a tail is not worth emptying all bins */
    return true;
  }
  if (sum->windows == 2 && least == 1 && fold_tile(type, map, true, 2, sum, x, y, n, apart)) return true;
  if (sum->windows == 4 && least == 2 && fold_tile(type, map, true, 4, sum, x, y, n, apart)) return true;
  int windows = 0;
  for (int s = 0; s < (apart ? streams_of(map) : 1); s++) {
    other.fit(sum, x + (size_t)s * apart, y + (size_t)s * apart, n, 0);
    if (sum->windows > windows) windows = sum->windows;
  }
  sum->windows = windows;
  if (windows <= least) return true;
  sum->hold = sum->backoff; /* stay with what was needed for 0, 1, 3, 7 ... tiles */
  sum->backoff = sum->backoff < MOST_HELD / 2 ? 2 * sum->backoff + TILE : MOST_HELD;
  return true;
}

/* The first window, from a sample of the first tile. */
SUMAC_INLINE void first_window(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                               const char *y, size_t n) {
  int least = least_windows(type, map), top, bottom;
  sum->windows = least;
  sum->exponent = fixed_exponent(type, map);
  if (sum->exponent != INT_MIN) return;
  bool finite = tile_span(type, map, x, y, n < SAMPLE ? n : SAMPLE, &top, &bottom);
  if (!finite) top = bottom = 0; /* any will do */
  top += least == 1 || map == SUMAC_M_MOMENTS ? 3 : 7;
  sum->exponent = top < 1023 ? top : 1023;
  int windows = windows_for(type, map, sum->exponent, bottom);
  if (windows == 2) return;
  sum->windows = windows;
  sum->hold = sum->backoff = 4 * TILE;
}

/* The tile that most data needs. */
SUMAC_INLINE bool usual_tile(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                             const char *y, size_t n, size_t apart) {
  if (sumac_types[type].cls != SUMAC_C_FLOAT) return true; /* integers have none */
  if (has_narrow_tile(type, map)) return narrow_tile(type, map, sum, x, n, apart);
  return fold_tile(type, map, false, least_windows(type, map), sum, x, y, n, apart);
}

/* The tile functions of one type and map, out of line: their loops want all registers. */
struct tiles {
  sumac_tile *usual, *hard;
};

SUMAC_INLINE void add_tile(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                           const char *y, size_t n, size_t apart, struct tiles tiles) {
  const int least = least_windows(type, map);
  if (!sum->windows) first_window(type, map, sum, x, y, n);
  if (++sum->tiles > 1 << 26) sumac_sum_flush(sum); /* a tile leaves less than 2^65 in a window */
  if (sum->hold) {
    size_t all = apart ? n * (size_t)streams_of(map) : n;
    sum->hold -= all < sum->hold ? all : sum->hold;
    tiles.hard(sum, x, y, n, apart);
    return;
  }
  sum->windows = least;
  if (tiles.usual(sum, x, y, n, apart))
    sum->backoff = 0;
  else
    tiles.hard(sum, x, y, n, apart);
}

/* sumac_exact_loop for floats. */
SUMAC_INLINE void exact_floats(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                               const char *y, size_t n, struct tiles tiles) {
  const struct sumac_type_info *t = &sumac_types[type];
  const size_t size = t->size, step = step_of(size), streams = (size_t)streams_of(map);
  const size_t most = has_narrow_tile(type, map) ? NARROW_TILE : TILE;
  if (map != SUMAC_M_DOT) y = x;
  sum->counts.n += (int64_t)n;
  if (n * size >= STREAM_BYTES) {
    const size_t part = stream_length(n, size, streams);
    for (size_t i = 0, count; i < part; i += count) {
      count = tile_length(sum, most) / streams / step * step;
      count = part - i < count ? part - i : count;
      for (size_t s = 0; s < streams && !sum->counts.not_negative_zero; s++)
        sumac_sum_note_zeros(sum, t, map, x + (i + s * part) * size, y + (i + s * part) * size, count);
      add_tile(type, map, sum, x + i * size, y + i * size, count, part * size, tiles);
    }
    x += streams * part * size;
    y += streams * part * size;
    n -= streams * part;
  }
  while (n) {
    const size_t length = tile_length(sum, most);
    size_t count = n < length ? n : length;
    const char *px = x, *py = y;
    _Alignas(64) char pad[2][256];
    if (count >= step) count -= count % step;
    if (!sum->counts.not_negative_zero) sumac_sum_note_zeros(sum, t, map, x, y, count);
    if (count < step) { /* the tail: a step of its own, filled up with terms that are -0 */
      sumac_pad(t, pad[0], x, count, step, true);
      px = py = pad[0];
      if (map == SUMAC_M_DOT) sumac_pad(t, pad[1], y, count, step, false), py = pad[1];
    }
    add_tile(type, map, sum, px, py, count < step ? step : count, 0, tiles);
    x += count * size;
    y += count * size;
    n -= count;
  }
}

/* ---- sums and sums of squares in one pass
 *
 * Sums take the windows from 2^e down, squares those from 2^(2e - 1). If all |v| <= 2^(e - 1) and v is a
 * multiple of 2^(e - 52), which a range check tells of all types but f64, then v^2 <= 2^(2e - 2) is a
 * multiple of 2^(2e - 104): two windows take it, unchecked. Of f64, v^2 <= 2^(2e - 2) says that v is not too
 * large, and nothing left of v after two windows, that is a multiple of 2^(e - 104), that no square
 * underflows. */
typedef bool sumac_moments_tile(struct sumac_sum *sum, struct sumac_sum *square, const char *x, size_t n,
                                size_t apart);

enum { MOMENTS_LEAST = -380, MOMENTS_MOST = 512, MOMENTS_HELD = 8 * TILE };

SUMAC_INLINE bool moments_streams(enum sumac_type type, int S, struct sumac_sum *sum,
                                  struct sumac_sum *square, const char *x, size_t n, size_t apart) {
  const size_t size = sumac_types[type].size, step = step_of(size);
  const bool low = type == SUMAC_T_F64;
  const int K = low ? 2 : 1, W = low ? 3 : 2, e = sum->exponent;
  vf64 magic[2], magic_square[3];
  vu64 acc[2], acc_square[3], high = {0}, rest = {0}, risk = {0}, unused;
  struct range range = {{0}, ~(vu64){0}};
  if (low && (e < MOMENTS_LEAST || e > MOMENTS_MOST)) return false;
  SUMAC_UNROLL
  for (int k = 0; k < W; k++) {
    if (k < K) {
      open_window(sum, k, e - 52 * (k + 1) + weight_exponent(type, SUMAC_M_SUM));
      magic[k] = (vf64)v_u64(magic_bits(e - 52 * k));
      acc[k] = (vu64){0};
    }
    open_window(square, k, 2 * e - 1 - 52 * (k + 1) + weight_exponent(type, SUMAC_M_SQUARE));
    magic_square[k] = (vf64)v_u64(magic_bits(2 * e - 1 - 52 * k));
    acc_square[k] = (vu64){0};
  }
  for (size_t i = 0; i < n; i += step) {
    SUMAC_ROLLED
    for (int s = 0; s < S; s++) {
      const char *p = x + i * size + (size_t)s * apart;
      SUMAC_UNROLL
      for (size_t b = 0; b < step * size; b += 64) v_prefetch(p + b + AHEAD);
      if (!low) {
        SUMAC_UNROLL
        for (size_t b = 0; b < step * size; b += VB) range_add(type, &range, v_load(p + b));
      }
      SUMAC_UNROLL
      for (size_t g = 0; g < step; g += GROUP) {
        vf64 v[2], h[2], l[2];
        load_terms(type, SUMAC_M_SUM, true, p + g * size, p, v, l, &risk);
        load_terms(type, SUMAC_M_SQUARE, true, p + g * size, p, h, l, &risk);
        SUMAC_UNROLL
        for (int u = 0; u < 2; u++) {
          fold(v[u], 0, K, magic, acc, &unused, low ? &rest : NULL);
          fold(h[u], 0, 2, magic_square, acc_square, low ? &high : &unused, low ? &rest : NULL);
          if (low) fold(l[u], 1, 3, magic_square, acc_square, &high, &rest);
        }
      }
    }
  }
  if (low ? (v_or64(high) >> 52) | (v_or64(rest) << 1) : !range_fits(type, &range, e, 52)) return false;
  SUMAC_UNROLL
  for (int k = 0; k < W; k++) {
    const uint64_t each = (size_t)S * n / LANES, adds = each * ((k < 2) + (low && k > 0));
    if (k < K) commit(sum, k, acc[k] - each * (uint64_t)((vu64)magic[k])[0]);
    commit(square, k, acc_square[k] - adds * (uint64_t)((vu64)magic_square[k])[0]);
  }
  return true;
}

SUMAC_INLINE bool moments_tile(enum sumac_type type, struct sumac_sum *sum, struct sumac_sum *square,
                               const char *x, size_t n, size_t apart) {
  if (sumac_types[type].cls != SUMAC_C_FLOAT) return false;
  if (VB > 16 && apart) return moments_streams(type, streams_of(SUMAC_M_MOMENTS), sum, square, x, n, apart);
  return moments_streams(type, 1, sum, square, x, n, 0);
}

/* How both sums are formed: in one pass, or one after the other. */
struct moments {
  sumac_moments_tile *both;
  sumac_exact_loop *sum, *square;
};

/* A piece of one or more streams. */
SUMAC_INLINE void add_moments(enum sumac_type type, struct sumac_sum *sum, struct sumac_sum *square,
                              const char *x, size_t n, size_t apart, struct moments ways) {
  const struct sumac_type_info *t = &sumac_types[type];
  const int streams = apart ? streams_of(SUMAC_M_MOMENTS) : 1;
  if (t->cls == SUMAC_C_FLOAT && n % step_of(t->size) == 0) {
    if (!sum->windows) first_window(type, SUMAC_M_MOMENTS, sum, x, x, n);
    if (++sum->tiles > 1 << 26) sumac_sum_flush(sum);
    if (++square->tiles > 1 << 26) sumac_sum_flush(square);
    if (!sum->hold && !square->hold && ways.both(sum, square, x, n, apart)) {
      sum->counts.n += (int64_t)n * streams;
      for (int s = 0; s < streams && !sum->counts.not_negative_zero; s++)
        sumac_sum_note_zeros(sum, t, SUMAC_M_SUM, x + (size_t)s * apart, x, n);
      return;
    }
  }
  for (int s = 0; s < streams; s++) {
    ways.sum(sum, x + (size_t)s * apart, x, n);
    ways.square(square, x + (size_t)s * apart, x, n);
  }
}

/* sumac_moments_loop. */
SUMAC_INLINE void exact_moments(enum sumac_type type, struct sumac_sum *sum, struct sumac_sum *square,
                                const char *x, size_t n, struct moments ways) {
  const size_t size = sumac_types[type].size, step = step_of(size),
               streams = (size_t)streams_of(SUMAC_M_MOMENTS);
  if (n * size >= STREAM_BYTES) {
    const size_t part = stream_length(n, size, streams);
    for (size_t i = 0, count; i < part; i += count) {
      count = (sum->hold || square->hold ? MOMENTS_HELD : TILE) / streams;
      count = part - i < count ? part - i : count;
      add_moments(type, sum, square, x + i * size, count, part * size, ways);
    }
    x += streams * part * size;
    n -= streams * part;
  }
  while (n) {
    size_t count = n < TILE ? n : TILE;
    if (count >= step) count -= count % step;
    add_moments(type, sum, square, x, count, 0, ways);
    x += count * size;
    n -= count;
  }
}
