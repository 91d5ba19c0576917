/* SPDX-License-Identifier: Apache-2.0
 *
 * Selections: the greatest key (semantics.h) among n elements, keys being signed integers of the element's
 * width; for minima, of the key's complement. NaN keys lie outside those of numbers and are found by the
 * greatest magnitude.
 */

SUMAC_INLINE bool is_minimum(enum sumac_map map) { return map == SUMAC_M_MIN || map == SUMAC_M_ARGMIN; }

/* Lanes of `size` bytes: a > b, as all ones; a - b; the greater one. Signed. */
SUMAC_INLINE vu64 v_greater(size_t size, vu64 a, vu64 b) {
  switch (size) {
  case 1: return (vu64)((vi8)a > (vi8)b);
  case 2: return (vu64)((vi16)a > (vi16)b);
  case 4: return (vu64)((vi32)a > (vi32)b);
  default: return (vu64)((vi64)a > (vi64)b);
  }
}
SUMAC_INLINE vu64 v_minus(size_t size, vu64 a, vu64 b) {
  switch (size) {
  case 1: return (vu64)((vu8)a - (vu8)b);
  case 2: return (vu64)((vu16)a - (vu16)b);
  case 4: return (vu64)((vu32)a - (vu32)b);
  default: return a - b;
  }
}
SUMAC_INLINE vi64 v_max(size_t size, vi64 a, vi64 b) {
  switch (size) {
  case 1: return (vi64)v_max_i8((vi8)a, (vi8)b);
  case 2: return (vi64)v_max_i16((vi16)a, (vi16)b);
  case 4: return (vi64)v_max_i32((vi32)a, (vi32)b);
  default: return v_max_i64(a, b);
  }
}

/* The low bits of x in every lane. */
SUMAC_INLINE vu64 v_lanes(size_t size, uint64_t x) {
  uint64_t low = sumac_low_bits((int)size * 8);
  return v_u64(UINT64_MAX / low * (x & low));
}
SUMAC_INLINE vu64 v_least_key(size_t size) { return v_lanes(size, (uint64_t)1 << (8 * size - 1)); }

/* All ones where an element of a float type is NaN. */
SUMAC_INLINE vu64 v_is_nan(enum sumac_type type, vu64 v) {
  const struct sumac_type_info *t = &sumac_types[type];
  return v_greater(t->size, v & ~v_least_key(t->size), v_lanes(t->size, sumac_inf_bits(t)));
}

/* sumac_key() in every lane; of minima its complement. */
SUMAC_INLINE vu64 v_keys(enum sumac_type type, enum sumac_map map, vu64 v) {
  const size_t size = sumac_types[type].size;
  const vu64 sign = v_least_key(size), zero = {0}, negative = v_greater(size, zero, v);
  switch (sumac_types[type].cls) {
  case SUMAC_C_BOOL: v = (vu64)((vu8)v != 0) & v_lanes(1, 1); break;
  case SUMAC_C_UINT: v ^= sign; break;
  case SUMAC_C_INT:
    if (map == SUMAC_M_MAXABS) v = v_minus(size, v ^ negative, negative) ^ sign;
    break;
  default:
    v = map == SUMAC_M_MAXABS  ? v & ~sign
        : map < SUMAC_M_ARGMIN ? v ^ (negative & ~sign)
                               : v_minus(size, (v & ~sign) ^ negative, negative);
  }
  return is_minimum(map) ? ~v : v;
}

SUMAC_INLINE vi64 select_step(enum sumac_type type, enum sumac_map map, bool skip_nan, vu64 v, vi64 best,
                              vu64 *nans) {
  const struct sumac_type_info *t = &sumac_types[type];
  vu64 nan = {0};
  if (t->cls == SUMAC_C_FLOAT) {
    nan = v_is_nan(type, v);
    *nans |= nan;
  }
  vu64 key = v_keys(type, map, v);
  if (__builtin_expect(skip_nan, 0)) /* gcc leaves it in the loop, where it may halve the speed */
    key = v_select64((vi64)nan, v_least_key(t->size), key);
  return v_max(t->size, best, (vi64)key);
}

SUMAC_INLINE int64_t select_loop(enum sumac_type type, enum sumac_map map, const char *x, size_t n,
                                 bool skip_nan, bool *nan) {
  const struct sumac_type_info *t = &sumac_types[type];
  const size_t size = t->size, lanes = VB / size;
  vi64 best[4];
  vu64 nans = {0};
  SUMAC_UNROLL
  for (int u = 0; u < 4; u++) best[u] = (vi64)v_least_key(size);
  size_t i = 0, part = n * size >= STREAM_BYTES ? stream_length(n, size, 4) : 0;
  for (size_t at = 0; at < part * size; at += VB) { /* four streams (fold.tmpl.h) */
    SUMAC_UNROLL
    for (size_t u = 0; u < 4; u++) {
      const char *p = x + at + u * part * size;
      v_prefetch(p + AHEAD);
      best[u] = select_step(type, map, skip_nan, (vu64)v_load(p), best[u], &nans);
    }
  }
  for (i = 4 * part; i + 4 * lanes <= n; i += 4 * lanes) {
    const char *p = x + i * size;
    SUMAC_UNROLL
    for (int u = 0; u < 4; u++)
      best[u] = select_step(type, map, skip_nan, (vu64)v_load(p + u * VB), best[u], &nans);
  }
  int64_t least = INT64_MIN >> (64 - t->dtype.bits), key = least;
  bool seen = v_or64(nans) != 0;
  best[0] = v_max(size, v_max(size, best[0], best[1]), v_max(size, best[2], best[3]));
  for (size_t l = 0; l < lanes; l++) {
    uint64_t bits = sumac_bits_at(t, &best[0], l);
    int64_t k = (int64_t)(bits << (64 - t->dtype.bits)) >> (64 - t->dtype.bits);
    key = k > key ? k : key;
  }
  for (; i < n; i++) {
    uint64_t bits = sumac_bits_at(t, x, i);
    bool is_nan = t->cls == SUMAC_C_FLOAT && (bits & sumac_low_bits(t->dtype.bits - 1)) > sumac_inf_bits(t);
    seen |= is_nan;
    if (is_nan && skip_nan) continue;
    int64_t k = sumac_key(t, map, bits);
    k = is_minimum(map) ? ~k : k;
    key = k > key ? k : key;
  }
  *nan |= seen;
  return t->cls == SUMAC_C_FLOAT && skip_nan && key == least ? INT64_MIN : key;
}
