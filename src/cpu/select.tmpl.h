/* SPDX-License-Identifier: Apache-2.0
 *
 * Selections: the greatest key (semantics.h) among n elements, keys being signed integers of the element's
 * width; for minima, of the key's complement. NaN keys lie outside those of numbers and are found by the
 * greatest magnitude.
 */

SUMAC_INLINE bool is_minimum(enum sumac_map map) { return map == SUMAC_M_MIN || map == SUMAC_M_ARGMIN; }

/* The functions for 8, 16, 32 and 64 bits differ by their types only; the compiler's vectors know no others.
 */
SUMAC_INLINE vi8 keys_8(enum sumac_type type, enum sumac_map map, vi8 v) {
  const int cls = sumac_types[type].cls;
  vi8 s = v < 0;
  if (cls == SUMAC_C_BOOL) v = (vi8)(v != 0) & 1;
  if (cls == SUMAC_C_UINT) v ^= INT8_MIN;
  if (cls == SUMAC_C_INT && map == SUMAC_M_MAXABS) v = (vi8)((vu8)(v ^ s) - (vu8)s) ^ INT8_MIN;
  if (cls == SUMAC_C_FLOAT)
    v = map == SUMAC_M_MAXABS  ? v & INT8_MAX
        : map < SUMAC_M_ARGMIN ? v ^ (s & INT8_MAX)
                               : ((v & INT8_MAX) ^ s) - s;
  return is_minimum(map) ? ~v : v;
}
SUMAC_INLINE vi16 keys_16(enum sumac_type type, enum sumac_map map, vi16 v) {
  const int cls = sumac_types[type].cls;
  vi16 s = v < 0;
  if (cls == SUMAC_C_UINT) v ^= INT16_MIN;
  if (cls == SUMAC_C_INT && map == SUMAC_M_MAXABS) v = (vi16)((vu16)(v ^ s) - (vu16)s) ^ INT16_MIN;
  if (cls == SUMAC_C_FLOAT)
    v = map == SUMAC_M_MAXABS  ? v & INT16_MAX
        : map < SUMAC_M_ARGMIN ? v ^ (s & INT16_MAX)
                               : ((v & INT16_MAX) ^ s) - s;
  return is_minimum(map) ? ~v : v;
}
SUMAC_INLINE vi32 keys_32(enum sumac_type type, enum sumac_map map, vi32 v) {
  const int cls = sumac_types[type].cls;
  vi32 s = v < 0;
  if (cls == SUMAC_C_UINT) v ^= INT32_MIN;
  if (cls == SUMAC_C_INT && map == SUMAC_M_MAXABS) v = (vi32)((vu32)(v ^ s) - (vu32)s) ^ INT32_MIN;
  if (cls == SUMAC_C_FLOAT)
    v = map == SUMAC_M_MAXABS  ? v & INT32_MAX
        : map < SUMAC_M_ARGMIN ? v ^ (s & INT32_MAX)
                               : ((v & INT32_MAX) ^ s) - s;
  return is_minimum(map) ? ~v : v;
}
SUMAC_INLINE vi64 keys_64(enum sumac_type type, enum sumac_map map, vi64 v) {
  const int cls = sumac_types[type].cls;
  vi64 s = v < 0;
  if (cls == SUMAC_C_UINT) v ^= INT64_MIN;
  if (cls == SUMAC_C_INT && map == SUMAC_M_MAXABS) v = (vi64)((vu64)(v ^ s) - (vu64)s) ^ INT64_MIN;
  if (cls == SUMAC_C_FLOAT)
    v = map == SUMAC_M_MAXABS  ? v & INT64_MAX
        : map < SUMAC_M_ARGMIN ? v ^ (s & INT64_MAX)
                               : ((v & INT64_MAX) ^ s) - s;
  return is_minimum(map) ? ~v : v;
}

SUMAC_INLINE vi64 v_max_keys(size_t size, vi64 a, vi64 b) {
  switch (size) {
  case 1: return (vi64)v_max_i8((vi8)a, (vi8)b);
  case 2: return (vi64)v_max_i16((vi16)a, (vi16)b);
  case 4: return (vi64)v_max_i32((vi32)a, (vi32)b);
  default: return v_max_i64(a, b);
  }
}

/* NaN lanes are all ones; of magnitudes m above inf. */
SUMAC_INLINE vu8 v_nans(enum sumac_type type, vu8 v) {
  switch (sumac_types[type].size) {
  case 1: return (vu8)((vi8)(v & INT8_MAX) > (int8_t)sumac_inf_bits(&sumac_types[type]));
  case 2: return (vu8)((vi16)((vu16)v & INT16_MAX) > (int16_t)sumac_inf_bits(&sumac_types[type]));
  case 4: return (vu8)((vi32)((vu32)v & INT32_MAX) > (int32_t)sumac_inf_bits(&sumac_types[type]));
  default: return (vu8)((vi64)((vu64)v & INT64_MAX) > (int64_t)sumac_inf_bits(&sumac_types[type]));
  }
}

SUMAC_INLINE vi64 v_least_key(size_t size) {
  switch (size) {
  case 1: return (vi64)v_u8(128);
  case 2: return (vi64)v_u16(0x8000);
  case 4: return (vi64)v_u32(0x80000000u);
  default: return (vi64)v_u64((uint64_t)1 << 63);
  }
}

SUMAC_INLINE vi64 select_step(enum sumac_type type, enum sumac_map map, bool skip_nan, vu8 v, vi64 best,
                              vu8 *nans) {
  const size_t size = sumac_types[type].size;
  vu8 nan = {0};
  if (sumac_types[type].cls == SUMAC_C_FLOAT) {
    nan = v_nans(type, v);
    *nans |= nan;
  }
  vi64 key = size == 1   ? (vi64)keys_8(type, map, (vi8)v)
             : size == 2 ? (vi64)keys_16(type, map, (vi16)v)
             : size == 4 ? (vi64)keys_32(type, map, (vi32)v)
                         : keys_64(type, map, (vi64)v);
  if (skip_nan) key = (vi64)v_select64((vi64)nan, (vu64)v_least_key(size), (vu64)key);
  return v_max_keys(size, best, key);
}

SUMAC_INLINE int64_t select_loop(enum sumac_type type, enum sumac_map map, const char *x, size_t n,
                                 bool skip_nan, bool *nan) {
  const struct sumac_type_info *t = &sumac_types[type];
  const size_t size = t->size, lanes = VB / size;
  vi64 best[4];
  vu8 nans = {0};
  SUMAC_UNROLL
  for (int u = 0; u < 4; u++) best[u] = v_least_key(size);
  size_t i = 0, part = n * size >= STREAM_BYTES ? stream_length(n, size, 4) : 0;
  for (size_t at = 0; at < part * size; at += VB) { /* four streams (fold.tmpl.h) */
    SUMAC_UNROLL
    for (size_t u = 0; u < 4; u++) {
      const char *p = x + at + u * part * size;
      v_prefetch(p + AHEAD);
      best[u] = select_step(type, map, skip_nan, v_load(p), best[u], &nans);
    }
  }
  for (i = 4 * part; i + 4 * lanes <= n; i += 4 * lanes) {
    const char *p = x + i * size;
    SUMAC_UNROLL
    for (int u = 0; u < 4; u++)
      best[u] = select_step(type, map, skip_nan, v_load(p + u * VB), best[u], &nans);
  }
  int64_t least = INT64_MIN >> (64 - t->dtype.bits), key = least;
  bool seen = v_or64((vu64)nans) != 0;
  best[0] = v_max_keys(size, v_max_keys(size, best[0], best[1]), v_max_keys(size, best[2], best[3]));
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
