/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact sums of fp8 by byte tables. A magnitude is 7 bits: the upper three, k, choose a power of two, the
 * lower four a factor:
 *   e4m3   units of 2^-10: factor (8 + m) << (e & 1) = 8 ... 30, times 4^k,  k = e >> 1
 *   e5m2   units of 2^-17: factor (4 + m) << (e & 3) = 4 ... 56, times 16^k, k = e >> 2
 * Subnormals (k = 0, e = 0) have 2m for a factor. The powers of two, with the sign, are bytes for k in a
 * pair or quadruple; multiply-add of bytes sums factor times power for one such plane.
 */
#if SUMAC_BYTE_TABLES

enum { BYTE_PLANES_MAX = 4, BYTE_RUN = 8 };

struct byte_tables {
  uint8_t factor[16], subnormal[16]; /* factor - 2m where e = 0 */
  int8_t power[BYTE_PLANES_MAX][16]; /* by sign and k */
};

static const struct byte_tables tables_e4m3 = {{8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30},
                                               {8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0},
                                               {{1, 4, 16, 64, 0, 0, 0, 0, -1, -4, -16, -64, 0, 0, 0, 0},
                                                {0, 0, 0, 0, 1, 4, 16, 64, 0, 0, 0, 0, -1, -4, -16, -64}}};

static const struct byte_tables tables_e5m2 = {{4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56},
                                               {4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                                               {{1, 16, 0, 0, 0, 0, 0, 0, -1, -16, 0, 0, 0, 0, 0, 0},
                                                {0, 0, 1, 16, 0, 0, 0, 0, 0, 0, -1, -16, 0, 0, 0, 0},
                                                {0, 0, 0, 0, 1, 16, 0, 0, 0, 0, 0, 0, -1, -16, 0, 0},
                                                {0, 0, 0, 0, 0, 0, 1, 16, 0, 0, 0, 0, 0, 0, -1, -16}}};

SUMAC_INLINE vu8 v_table(const void *table) {
  vu8 v;
  for (int i = 0; i < VB; i += 16) memcpy((char *)&v + i, table, 16);
  return v;
}

/* Adds n elements, a multiple of VB and at most 2^20, of S streams each, in the table's units; false if a NaN
 * or an infinity is among them. Sixteen-bit lanes hold BYTE_RUN sums of two products: 8 * 2 * 30 * 64 < 2^15.
 */
SUMAC_INLINE bool bytes_tile(enum sumac_type type, enum sumac_map map, int S, const char *x, size_t n,
                             size_t apart, sumac_i128 *total) {
  const struct byte_tables *t = type == SUMAC_T_E4M3FN ? &tables_e4m3 : &tables_e5m2;
  const int planes = type == SUMAC_T_E4M3FN ? 2 : 4;
  const vu8 factor = v_table(t->factor), subnormal = v_table(t->subnormal);
  const size_t most_run = (size_t)(BYTE_RUN / S) * VB;
  vu8 power[BYTE_PLANES_MAX], most = {0};
  vi32 wide[BYTE_PLANES_MAX];
  SUMAC_UNROLL
  for (int p = 0; p < planes; p++) {
    power[p] = v_table(t->power[p]);
    wide[p] = (vi32){0};
  }
  while (n) {
    size_t run = n < most_run ? n : most_run;
    vi16 sum[BYTE_PLANES_MAX];
    SUMAC_UNROLL
    for (int p = 0; p < planes; p++) sum[p] = (vi16){0};
    for (size_t i = 0; i < run; i += VB) {
      SUMAC_ROLLED
      for (int s = 0; s < S; s++) {
        const char *px = x + i + (size_t)s * apart;
        v_prefetch(px + AHEAD);
        vu8 v = v_load(px);
        if (map == SUMAC_M_ABS) v &= INT8_MAX;
        vu8 magnitude = v & INT8_MAX, high = (vu8)((vu16)v >> 4) & 15;
        most = v_max_u8(most, magnitude);
        /* From 16 on the saturated sum has its highest bit set, of which a lookup makes 0. */
        vu8 f = v_lookup(factor, magnitude) - v_lookup(subnormal, v_add_saturated_u8(magnitude, v_u8(0x70)));
        SUMAC_UNROLL
        for (int p = 0; p < planes; p++) sum[p] += v_dot_u8_i8(f, (vi8)v_lookup(power[p], high));
      }
    }
    SUMAC_UNROLL
    for (int p = 0; p < planes; p++) wide[p] += v_dot_i16(sum[p], (vi16)v_u16(1));
    x += run;
    n -= run;
  }
  for (int i = 0; i < VB; i++)
    if (most[i] >= (type == SUMAC_T_E4M3FN ? 0x7f : 0x7c)) return false;
  for (int p = 0; p < planes; p++) {
    int64_t s = 0;
    for (int i = 0; i < VB / 4; i++) s += wide[p][i];
    *total += (sumac_i128)s * (1 << (8 * p));
  }
  return true;
}

/* One stream's n elements, a multiple of VB: without inf and NaN, which are counted. */
enum { BYTE_TILE = 1 << 14 };
SUMAC_INLINE void bytes_one(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                            size_t n, sumac_i128 *total) {
  _Alignas(64) char buffer[BYTE_TILE];
  if (bytes_tile(type, map, 1, x, n, 0, total)) return;
  sumac_sum_specials(sum, &sumac_types[type], map, x, x, n, buffer, NULL);
  bytes_tile(type, map, 1, buffer, n, 0, total);
}

SUMAC_INLINE void exact_bytes(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const char *x,
                              size_t n) {
  const struct sumac_type_info *t = &sumac_types[type];
  enum { STREAMS = 4 };
  sumac_i128 total = 0;
  sum->counts.n += (int64_t)n;
  if (n >= STREAM_BYTES) {
    const size_t part = stream_length(n, 1, STREAMS);
    for (size_t i = 0, count; i < part; i += count) {
      count = part - i < BYTE_TILE / STREAMS ? part - i : BYTE_TILE / STREAMS;
      for (size_t s = 0; s < STREAMS && !sum->counts.not_negative_zero; s++)
        sumac_sum_note_zeros(sum, t, map, x + i + s * part, NULL, count);
      if (bytes_tile(type, map, STREAMS, x + i, count, part, &total)) continue;
      for (size_t s = 0; s < STREAMS; s++) bytes_one(type, map, sum, x + i + s * part, count, &total);
    }
    x += STREAMS * part;
    n -= STREAMS * part;
  }
  while (n) {
    size_t count = n < BYTE_TILE ? n : BYTE_TILE;
    char pad[VB];
    if (count >= VB) count -= count % VB;
    if (!sum->counts.not_negative_zero) sumac_sum_note_zeros(sum, t, map, x, NULL, count);
    if (count < VB) sumac_pad(t, pad, x, count, VB, true);
    bytes_one(type, map, sum, count < VB ? pad : x, count < VB ? VB : count, &total);
    x += count;
    n -= count;
  }
  sumac_exact_add(&sum->number, total, type == SUMAC_T_E4M3FN ? -10 : -17);
  sumac_exact_settle(&sum->number);
}

#endif
