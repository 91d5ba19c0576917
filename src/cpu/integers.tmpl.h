/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact sums of integers: the widest lane that cannot overflow within a block, then 128 bits. The loops over
 * products are plain C that the compiler vectorises; the sums are memory-bound by hand.
 */

/* Vectors of a step: two of the one stream, or one of each. */
SUMAC_INLINE int step_vectors(int S) { return S == 1 ? 2 : S; }
SUMAC_INLINE size_t step_bytes(int S) { return S == 1 ? 2 * VB : VB; }
SUMAC_INLINE const char *step_vector(int S, int u, const char *x, size_t apart) {
  return x + (S == 1 ? (size_t)u * VB : (size_t)u * apart);
}

/* 8 bits, a multiple of step_bytes() in each stream: bytes summed eight at a time; signed ones as unsigned,
 * 128 up. */
SUMAC_INLINE sumac_i128 sum_bytes(enum sumac_type type, enum sumac_map map, int S, const char *x,
                                  size_t bytes, size_t apart) {
  const bool biased = type == SUMAC_T_I8 && map == SUMAC_M_SUM;
  vu64 total = {0};
  for (size_t i = 0; i < bytes; i += step_bytes(S)) {
    SUMAC_UNROLL
    for (int u = 0; u < step_vectors(S); u++) {
      const char *p = step_vector(S, u, x + i, apart);
      v_prefetch(p + AHEAD);
      vu8 v = v_load(p), negative = (vu8)((vi8)v < 0);
      if (biased) v ^= 128;
      if (type == SUMAC_T_I8 && map == SUMAC_M_ABS) v = (v ^ negative) - negative;
      if (type == SUMAC_T_BOOL) v = (vu8)(v != 0) & 1;
      total += v_sum_bytes(v);
    }
  }
  sumac_i128 sum = biased ? -(sumac_i128)128 * (sumac_i128)((size_t)S * bytes) : 0;
  for (int l = 0; l < VB / 8; l++) sum += total[l];
  return sum;
}

/* 16, 32 and 64 bits: lanes of 64 bits take the even and the odd 32-bit halves, or 16-bit pairs through
 * 32 bits; signed numbers as unsigned, half the range up. */
SUMAC_INLINE sumac_i128 sum_words(enum sumac_type type, enum sumac_map map, int S, const char *x,
                                  size_t bytes, size_t apart) {
  const int bits = sumac_types[type].dtype.bits;
  const bool is_signed = sumac_types[type].cls == SUMAC_C_INT, biased = is_signed && map == SUMAC_M_SUM;
  vu64 low[2] = {{0}, {0}}, high[2] = {{0}, {0}};
  for (size_t i = 0; i < bytes; i += step_bytes(S)) {
    SUMAC_UNROLL
    for (int u = 0; u < step_vectors(S); u++) {
      const char *p = step_vector(S, u, x + i, apart);
      v_prefetch(p + AHEAD);
      vu8 raw = v_load(p);
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
      low[u % 2] += v & UINT32_MAX;
      high[u % 2] += v >> 32;
    }
  }
  sumac_i128 sum = biased ? -((sumac_i128)((size_t)S * bytes * 8 / (size_t)bits) << (bits - 1)) : 0;
  for (int u = 0; u < 2; u++)
    for (int l = 0; l < VB / 8; l++)
      sum += (sumac_i128)low[u][l] + ((sumac_i128)high[u][l] << (bits == 64 ? 32 : 0));
  return sum;
}

SUMAC_INLINE sumac_i128 sum_steps(enum sumac_type type, enum sumac_map map, int S, const char *x,
                                  size_t bytes, size_t apart) {
  return sumac_types[type].size == 1 ? sum_bytes(type, map, S, x, bytes, apart)
                                     : sum_words(type, map, S, x, bytes, apart);
}

SUMAC_INLINE sumac_i128 sum_integers(enum sumac_type type, enum sumac_map map, const char *x, size_t n) {
  const struct sumac_type_info *t = &sumac_types[type];
  enum { STREAMS = 4 };
  size_t bytes = n * t->size;
  sumac_i128 sum = 0;
  if (bytes >= STREAM_BYTES) {
    const size_t part = stream_length(n, t->size, STREAMS) * t->size;
    sum = sum_steps(type, map, STREAMS, x, part, part);
    x += STREAMS * part;
    bytes -= STREAMS * part;
  }
  const size_t whole = bytes - bytes % step_bytes(1);
  sum += sum_steps(type, map, 1, x, whole, 0);
  for (size_t i = whole / t->size; i < bytes / t->size; i++) {
    struct sumac_element e = sumac_decode(t, sumac_bits_at(t, x, i));
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
      for (size_t i = 0; i < block; i++)
        s += (int32_t)integer_at(type, x, i) * (int32_t)integer_at(type, y, i);
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
      sum += (sumac_i128)high * ((sumac_i128)1 << 32) + (sumac_i128)low;
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
SUMAC_INLINE void dot_wide(enum sumac_type type, struct sumac_exact *number, const char *x, const char *y,
                           size_t n) {
  const struct sumac_type_info *t = &sumac_types[type];
  sumac_i128 high = 0;
  sumac_u128 low = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t a = sumac_bits_at(t, x, i), b = sumac_bits_at(t, y, i);
    sumac_u128 p =
        type == SUMAC_T_I64 ? (sumac_u128)((sumac_i128)(int64_t)a * (int64_t)b) : (sumac_u128)a * b;
    low += (uint64_t)p;
    high += type == SUMAC_T_I64 ? (sumac_i128)p >> 64 : (sumac_i128)(p >> 64);
  }
  sumac_exact_add(number, (sumac_i128)low, 0); /* below 2^92 */
  sumac_exact_add(number, high, 64);
}

/* sumac_exact_loop for integers. */
SUMAC_INLINE void exact_integers(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum,
                                 const char *x, const char *y, size_t n) {
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
      sumac_exact_add(number, sum_integers(type, map, x, count), 0);
    sumac_exact_settle(number);
    x += count * size;
    y += count * size;
    n -= count;
  }
}
