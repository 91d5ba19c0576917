/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of exact sums that are the same for every instruction set: moving windows into the number,
 * and the elements that windows cannot take.
 */
#include "cpu/cpu.h"

void sumac_sum_init(struct sumac_sum *sum, struct sumac_format format) {
  memset(sum, 0, offsetof(struct sumac_sum, unit));
  sum->number.format = format;
  sum->number.low = sum->number.high = 0;
}

void sumac_sum_flush(struct sumac_sum *sum) {
  for (int k = 0; k < sum->open; k++) {
    if (!sum->waiting[k]) continue;
    sumac_exact_add(&sum->number, sum->waiting[k], sum->unit[k]);
    sum->waiting[k] = 0;
  }
  sum->tiles = 0;
  sumac_exact_settle(&sum->number);
}

void sumac_sum_by_element(struct sumac_sum *sum, const struct sumac_type_info *t, enum sumac_map map,
                          const void *x, const void *y, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct sumac_element a = sumac_decode(t, sumac_bits_at(t, x, i)), b = a;
    if (map == SUMAC_M_DOT) b = sumac_decode(t, sumac_bits_at(t, y, i));
    sumac_exact_add_element(&sum->number, &sum->counts, map, a, b);
  }
  sumac_exact_settle(&sum->number);
}

bool sumac_sum_specials(struct sumac_sum *sum, const struct sumac_type_info *t, enum sumac_map map,
                        const void *x, const void *y, size_t n, void *cx, void *cy) {
  const uint64_t magnitude = sumac_low_bits(t->dtype.bits - 1), first = sumac_inf_bits(t) + !sumac_has_inf(t);
  const bool dot = map == SUMAC_M_DOT;
  bool found = false;
  for (size_t i = 0; i < n && !found; i++)
    found = (sumac_bits_at(t, x, i) & magnitude) >= first ||
            (dot && (sumac_bits_at(t, y, i) & magnitude) >= first);
  if (!found) return false;
  for (size_t i = 0; i < n; i++) {
    uint64_t a = sumac_bits_at(t, x, i), b = dot ? sumac_bits_at(t, y, i) : 0;
    if ((a & magnitude) >= first || (dot && (b & magnitude) >= first)) {
      sumac_exact_add_element(&sum->number, &sum->counts, map, sumac_decode(t, a), sumac_decode(t, b));
      a = magnitude + 1;
      b = 0;
    }
    if (cx) sumac_put_bits(t, cx, i, a);
    if (cx && dot) sumac_put_bits(t, cy, i, b);
  }
  return true;
}

void sumac_sum_note_zeros(struct sumac_sum *sum, const struct sumac_type_info *t, enum sumac_map map,
                          const void *x, const void *y, size_t n) {
  for (size_t i = 0; i < n && !sum->counts.not_negative_zero; i++) {
    struct sumac_element a = sumac_decode(t, sumac_bits_at(t, x, i)), b = a;
    if (map == SUMAC_M_DOT) b = sumac_decode(t, sumac_bits_at(t, y, i));
    bool negative = map == SUMAC_M_SUM ? a.negative : map == SUMAC_M_DOT && a.negative != b.negative;
    bool zero = !a.inf && !b.inf && (!a.magnitude || !b.magnitude);
    if (!a.nan && !b.nan && !(zero && negative)) sum->counts.not_negative_zero = 1;
  }
}

void sumac_pad(const struct sumac_type_info *t, void *to, const void *x, size_t n, size_t width,
               bool negative) {
  uint64_t fill = negative ? (uint64_t)1 << (t->dtype.bits - 1) : 0;
  for (int bits = t->dtype.bits; bits < 64; bits *= 2) fill |= fill << bits;
  for (size_t i = 0; i < width * t->size; i += sizeof fill) memcpy((char *)to + i, &fill, sizeof fill);
  memcpy(to, x, n * t->size);
}
