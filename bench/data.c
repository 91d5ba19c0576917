/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "parts.h"

static bool is_float(sumac_dtype dtype) { return dtype.code == 2 || dtype.code == 4; }

const char *data_name(enum data data, sumac_dtype dtype) {
  static const char *const names[] = {"normal", "4 windows", "whole range", "outliers"};
  return is_float(dtype) ? names[data] : "random codes";
}

/* A counter and a mixing function, so that threads need not share a generator. */
static uint64_t hash(uint64_t i) {
  uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* Four uniform numbers less their mean, scaled by √3: variance 1, and a full mantissa. */
static double normal(uint64_t i) {
  uint64_t a = hash(2 * i), b = hash(2 * i + 1);
  int64_t sum = (int64_t)(a >> 32) + (uint32_t)a + (int64_t)(b >> 32) + (uint32_t)b;
  return (double)(sum - (INT64_C(1) << 33)) * (0x1p-32 * 1.7320508075688772);
}

/* Random sign and mantissa, exponent in [low, high). */
static double spread(uint64_t i, int low, int high) {
  uint64_t a = hash(2 * i), b = hash(2 * i + 1) >> 32;
  uint64_t exponent = 1023 + (uint64_t)low + (b * (uint64_t)(high - low) >> 32);
  uint64_t bits = (a & UINT64_C(0x800fffffffffffff)) | exponent << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double element(enum data data, bool wide, uint64_t i) {
  switch (data) {
  case DATA_NORMAL: break;
  case DATA_FOUR_WINDOWS: return spread(i, -75, 75);
  case DATA_WHOLE_RANGE: return wide ? spread(i, -1022, 990) : spread(i, -126, 95);
  case DATA_OUTLIERS:
    if (i % 1000000 != 500000) break;
    if (i / 1000000 % 2) return wide ? 0x1p-900 : 0x1p-120f;
    return wide ? 0x1p900 : 0x1p90f;
  }
  return normal(i);
}

static uint32_t f32_bits(double value) {
  float rounded = (float)value;
  uint32_t bits;
  memcpy(&bits, &rounded, sizeof bits);
  return bits;
}

/* Truncated, and below the smallest normal number zero. */
static uint16_t f16_bits(double value) {
  uint32_t bits = f32_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  return (uint16_t)(sign | (magnitude < 113u << 23 ? 0 : (magnitude - (112u << 23)) >> 13));
}

/* The low bits of the result are the element. */
static uint64_t code(enum data data, sumac_dtype dtype, uint64_t i) {
  if (dtype.code == 2 && dtype.bits == 64) {
    double value = element(data, true, i);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  if (dtype.code == 2 && dtype.bits == 16) return f16_bits(element(data, false, i));
  if (dtype.code == 2) return f32_bits(element(data, false, i));
  if (dtype.code == 4) return f32_bits(element(data, false, i)) >> 16;
  uint64_t random = hash(i);
  if (dtype.code == 10 && (random & 0x7f) == 0x7f) return random ^ 1;
  if (dtype.code == 12 && (random & 0x7c) == 0x7c) return random ^ 0x40;
  /* 40 bits of 64: the sum must fit. */
  return dtype.bits == 64 ? (uint64_t)((int64_t)random >> 24) : random;
}

struct fill {
  enum data data;
  sumac_dtype dtype;
  unsigned char *elements;
};

static void fill_part(void *arg, int part, size_t begin, size_t end) {
  const struct fill *fill = arg;
  size_t size = fill->dtype.bits / 8;
  (void)part;
  for (size_t i = begin; i < end; i++) {
    uint64_t bits = code(fill->data, fill->dtype, i);
    memcpy(fill->elements + i * size, &bits, size); /* little endian, as all this machine code is */
  }
}

void data_fill(enum data data, sumac_dtype dtype, void *elements, size_t n, int threads) {
  struct fill fill = {data, dtype, elements};
  in_parts(threads, n, fill_part, &fill);
}
