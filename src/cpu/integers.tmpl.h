/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact sums of integers: the widest lane that cannot overflow within a block, then 128 bits. The loops over
 * products are plain C that the compiler vectorises; the sums are memory-bound by hand.
 */

/* 8 bits: bytes summed eight at a time; signed ones as unsigned, 128 up. |x|: min(v, -v) as unsigned. */
SUMAC_INLINE sumac_i128 sum_bytes(enum sumac_type type, enum sumac_map map, const char *x, size_t n) {
  vu64 total = {0};
  const bool biased = type == SUMAC_T_I8 && map == SUMAC_M_SUM;
  size_t i = 0;
  for (; i + 2 * VB <= n; i += 2 * VB) {
    v_prefetch(x + i + AHEAD);
    SUMAC_UNROLL
    for (int u = 0; u < 2; u++) {
      vu8 v = v_load(x + i + u * VB);
      if (biased) v ^= 128;
      if (type == SUMAC_T_I8 && map == SUMAC_M_ABS) v = (v ^ (vu8)((vi8)v < 0)) - (vu8)((vi8)v < 0);
      if (type == SUMAC_T_BOOL) v = (vu8)(v != 0) & 1;
      total += v_sum_bytes(v);
    }
  }
  sumac_i128 sum = 0;
  for (int l = 0; l < VB / 8; l++) sum += total[l];
  if (biased) sum -= (sumac_i128)128 * (sumac_i128)i;
  for (; i < n; i++) {
    int v = type == SUMAC_T_I8 ? (int8_t)x[i] : (uint8_t)x[i];
    sum += type == SUMAC_T_BOOL ? v != 0 : map == SUMAC_M_ABS && v < 0 ? -v : v;
  }
  return sum;
}

/* 16, 32 and 64 bits: lanes of 64 bits take the even and the odd 32-bit halves, or 16-bit pairs through
 * 32 bits; signed numbers as unsigned, half the range up. */
SUMAC_INLINE sumac_i128 sum_words(enum sumac_type type, enum sumac_map map, const char *x, size_t n) {
  const int bits = sumac_types[type].dtype.bits;
  const bool is_signed = sumac_types[type].cls == SUMAC_C_INT, biased = is_signed && map == SUMAC_M_SUM;
  const size_t lanes = VB * 8 / (size_t)bits;
  vu64 low[2] = {{0}, {0}}, high[2] = {{0}, {0}};
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const char *p = x + i * (size_t)bits / 8;
    v_prefetch(p + AHEAD);
    if (VB == 64) v_prefetch(p + AHEAD + 64);
    SUMAC_UNROLL
    for (int u = 0; u < 2; u++) {
      vu8 raw = v_load(p + u * VB);
      vu64 v = (vu64)raw;
      if (bits == 16) {
        vu16 h = (vu16)raw;
        if (biased) h ^= 0x8000;
        if (is_signed && !biased) h = (h ^ (vu16)((vi16)h < 0)) - (vu16)((vi16)h < 0);
        v = (vu64)(((vu32)h & 0xffff) + ((vu32)h >> 16));
      } else if (bits == 32) {
        vu32 h = (vu32)raw;
        if (biased) h ^= 0x80000000u;
        if (is_signed && !biased) h = (h ^ (vu32)((vi32)h < 0)) - (vu32)((vi32)h < 0);
        v = (vu64)h;
      } else {
        if (biased) v ^= (uint64_t)1 << 63;
        if (is_signed && !biased) v = (v ^ (vu64)((vi64)v < 0)) - (vu64)((vi64)v < 0);
      }
      low[u] += v & UINT32_MAX;
      high[u] += v >> 32;
    }
  }
  sumac_i128 sum = 0;
  for (int u = 0; u < 2; u++)
    for (int l = 0; l < VB / 8; l++) sum += (sumac_i128)low[u][l] + ((sumac_i128)high[u][l] << (bits == 64 ? 32 : 0));
  if (biased) sum -= ((sumac_i128)i) << (bits - 1);
  for (; i < n; i++) {
    struct sumac_element e = sumac_decode(&sumac_types[type], sumac_bits_at(&sumac_types[type], x, i));
    sum += e.negative && map == SUMAC_M_SUM ? -(sumac_i128)e.magnitude : (sumac_i128)e.magnitude;
  }
  return sum;
}

SUMAC_INLINE int64_t integer_at(enum sumac_type type, const char *p, size_t i) {
  switch (type) {
  case SUMAC_T_I8: return ((const int8_t *)p)[i];
  case SUMAC_T_U8: return ((const uint8_t *)p)[i];
  case SUMAC_T_BOOL: return ((const uint8_t *)p)[i] != 0;
  default: break;
  }
  int16_t h;
  int32_t w;
  if (type == SUMAC_T_I16 || type == SUMAC_T_U16) {
    memcpy(&h, p + 2 * i, 2);
    return type == SUMAC_T_I16 ? (int64_t)h : (int64_t)(uint16_t)h;
  }
  memcpy(&w, p + 4 * i, 4);
  return type == SUMAC_T_I32 ? (int64_t)w : (int64_t)(uint32_t)w;
}

/* Products of integers of at most 32 bits: below 2^64, summed by halves. */
SUMAC_INLINE sumac_i128 dot_narrow(enum sumac_type type, const char *x, const char *y, size_t n) {
  const int bits = sumac_types[type].dtype.bits;
  const size_t size = sumac_types[type].size;
  sumac_i128 sum = 0;
  while (n) {
    size_t block = n < 1 << 14 ? n : 1 << 14;
    if (bits == 8) { /* 2^14 products below 2^16 */
      int32_t s = 0;
      for (size_t i = 0; i < block; i++) s += (int32_t)integer_at(type, x, i) * (int32_t)integer_at(type, y, i);
      sum += s;
    } else if (bits == 16) {
      int64_t s = 0;
      for (size_t i = 0; i < block; i++) s += integer_at(type, x, i) * integer_at(type, y, i);
      sum += s;
    } else if (type == SUMAC_T_I32) {
      uint64_t low = 0;
      int64_t high = 0;
      for (size_t i = 0; i < block; i++) {
        int64_t p = integer_at(type, x, i) * integer_at(type, y, i);
        low += (uint32_t)p;
        high += p >> 32;
      }
      sum += ((sumac_i128)high << 32) + (sumac_i128)low;
    } else {
      uint64_t low = 0, high = 0;
      for (size_t i = 0; i < block; i++) {
        uint64_t p = (uint64_t)integer_at(type, x, i) * (uint64_t)integer_at(type, y, i);
        low += (uint32_t)p;
        high += p >> 32;
      }
      sum += ((sumac_i128)high << 32) + (sumac_i128)low;
    }
    x += block * size;
    y += block * size;
    n -= block;
  }
  return sum;
}

/* Products of 64-bit integers. */
SUMAC_INLINE void dot_wide(enum sumac_type type, struct sumac_exact *number, const char *x, const char *y, size_t n) {
  const struct sumac_type_info *t = &sumac_types[type];
  sumac_i128 high = 0;
  sumac_u128 low = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t a = sumac_bits_at(t, x, i), b = sumac_bits_at(t, y, i);
    sumac_u128 p = type == SUMAC_T_I64 ? (sumac_u128)((sumac_i128)(int64_t)a * (int64_t)b) : (sumac_u128)a * b;
    low += (uint64_t)p;
    high += type == SUMAC_T_I64 ? (sumac_i128)p >> 64 : (sumac_i128)(p >> 64);
  }
  sumac_exact_add(number, (sumac_i128)low, 0); /* below 2^92 */
  sumac_exact_add(number, high, 64);
}

/* sumac_exact_loop for integers. */
SUMAC_INLINE void exact_integers(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                                 const char *y, size_t n) {
  const size_t size = sumac_types[type].size;
  struct sumac_exact *number = &sum->number;
  if (map != SUMAC_M_DOT) y = x;
  sum->counts.n += (int64_t)n;
  if (n) sum->counts.not_negative_zero = 1;
  while (n) {
    size_t count = n < (size_t)1 << 28 ? n : (size_t)1 << 28; /* so that every partial stays below 2^93 */
    if (is_product(map) && size == 8)
      dot_wide(type, number, x, y, count);
    else if (is_product(map))
      sumac_exact_add(number, dot_narrow(type, x, y, count), 0);
    else
      sumac_exact_add(number, size == 1 ? sum_bytes(type, map, x, count) : sum_words(type, map, x, count), 0);
    sumac_carry(number->limb, number->format.limbs + SUMAC_SPARE_LIMBS);
    x += count * size;
    y += count * size;
    n -= count;
  }
}
