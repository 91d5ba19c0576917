/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts of elements of one kind: a comparison leaves all ones in the lanes that agree, whose bytes are
 * counted.
 */

/* All ones where an element is zero, or NaN. */
SUMAC_INLINE vu64 v_is_counted(enum sumac_type type, enum sumac_counted what, vu64 v) {
  const struct sumac_type_info *t = &sumac_types[type];
  if (what == SUMAC_COUNT_NANS) return v_is_nan(type, v);
  if (t->cls == SUMAC_C_FLOAT) v &= ~v_least_key(t->size);
  switch (t->size) {
  case 1: return (vu64)((vu8)v == 0);
  case 2: return (vu64)((vu16)v == 0);
  case 4: return (vu64)((vu32)v == 0);
  default: return (vu64)(v == 0);
  }
}

/* sumac_count_loop. */
SUMAC_INLINE int64_t count_loop(enum sumac_type type, enum sumac_counted what, const char *x, size_t n) {
  const struct sumac_type_info *t = &sumac_types[type];
  const size_t bytes = n * t->size, whole = bytes / VB * VB;
  vu64 total = {0};
  if (what == SUMAC_COUNT_NANS && t->cls != SUMAC_C_FLOAT) return 0;
  for (size_t i = 0; i < whole;) {
    const size_t end = whole - i < 255 * (size_t)VB ? whole : i + 255 * (size_t)VB; /* a byte's worth */
    vu8 bytes_found = {0};
    for (; i < end; i += VB) {
      v_prefetch(x + i + AHEAD);
      bytes_found -= (vu8)v_is_counted(type, what, (vu64)v_load(x + i));
    }
    total += v_sum_bytes(bytes_found);
  }
  int64_t found = 0;
  for (int i = 0; i < VB / 8; i++) found += (int64_t)total[i];
  found /= (int64_t)t->size;
  for (size_t i = whole / t->size; i < n; i++) {
    uint64_t bits = sumac_bits_at(t, x, i);
    if (t->cls == SUMAC_C_FLOAT) bits &= sumac_low_bits(t->dtype.bits - 1);
    found += what == SUMAC_COUNT_NANS ? bits > sumac_inf_bits(t) : bits == 0;
  }
  return found;
}
