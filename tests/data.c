/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include <math.h>

const sumac_dtype dtypes[DTYPES] = {{2, 64, 1}, {2, 32, 1}, {2, 16, 1}, {4, 16, 1}, {10, 8, 1},
                                    {12, 8, 1}, {0, 8, 1},  {0, 16, 1}, {0, 32, 1}, {0, 64, 1},
                                    {1, 8, 1},  {1, 16, 1}, {1, 32, 1}, {1, 64, 1}, {6, 8, 1}};

static const char *const dtype_names[DTYPES] = {"f64", "f32", "f16", "bf16", "e4m3fn", "e5m2", "i8",  "i16",
                                                "i32", "i64", "u8",  "u16",  "u32",    "u64",  "bool"};

const char *const op_text[OPS] = {"sum",   "dot",           "mean", "var", "std",    "norm1",
                                  "norm2", "norminf",       "min",  "max", "argmin", "argmax",
                                  "prod",  "count_nonzero", "any",  "all"};

static const char *const kind_names[DATA_KINDS] = {
    "normal",     "uniform",     "wide",     "subnormal", "ties", "cancellation", "specials",
    "minus zero", "random bits", "outliers", "drifting",  "huge", "equal"};

int same_dtype(sumac_dtype a, sumac_dtype b) { return a.code == b.code && a.bits == b.bits; }

const char *dtype_text(sumac_dtype dtype) {
  for (int i = 0; i < DTYPES; i++)
    if (same_dtype(dtypes[i], dtype)) return dtype_names[i];
  return "?";
}

const char *data_kind_name(data_kind kind) { return kind_names[kind]; }

int dtype_is_float(sumac_dtype dtype) {
  return dtype.code == 2 || dtype.code == 4 || dtype.code == 10 || dtype.code == 12;
}

uint64_t data_next(data_random *random) {
  uint64_t z = random->state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

uint64_t data_below(data_random *random, uint64_t limit) {
  return (uint64_t)((unsigned __int128)data_next(random) * limit >> 64);
}

static double uniform(data_random *random) { return (double)(data_next(random) >> 11) * 0x1p-53; }

/* Near enough to a normal distribution. */
static double normal(data_random *random) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += uniform(random);
  return sum;
}

static uint64_t mask(int bits) { return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1; }

/* ---- float codes ---------------------------------------------------------------------------- */

static int mantissa_bits(sumac_dtype dtype) {
  switch (dtype.code) {
  case 4: return 7;
  case 10: return 3;
  case 12: return 2;
  default: return dtype.bits == 64 ? 52 : dtype.bits == 32 ? 23 : 10;
  }
}

static int exponent_bits(sumac_dtype dtype) { return dtype.bits - 1 - mantissa_bits(dtype); }

/* The largest exponent field that holds numbers; e4m3fn uses all, but for the code of all ones. */
static int top_field(sumac_dtype dtype) { return (1 << exponent_bits(dtype)) - (dtype.code == 10 ? 1 : 2); }

static uint64_t assemble(sumac_dtype dtype, int negative, int field, uint64_t fraction) {
  int m = mantissa_bits(dtype);
  uint64_t code = (uint64_t)field << m | (fraction & mask(m));
  if (dtype.code == 10 && code == 0x7f) code--;
  return code | (uint64_t)negative << (dtype.bits - 1);
}

static uint64_t random_number(sumac_dtype dtype, data_random *random, int least_field, int fields) {
  int field = least_field + (int)data_below(random, (uint64_t)fields);
  return assemble(dtype, data_next(random) & 1, field, data_next(random));
}

static uint64_t code_of_nan(sumac_dtype dtype, uint64_t payload) {
  if (dtype.code == 10) return 0x7f | (payload & 0x80);
  uint64_t inf = (uint64_t)(top_field(dtype) + 1) << mantissa_bits(dtype);
  uint64_t fraction = payload & mask(mantissa_bits(dtype));
  return inf | (fraction == 0 ? 1 : fraction) | (payload >> 63) << (dtype.bits - 1);
}

uint64_t data_code(sumac_dtype dtype, double value) {
  if (!dtype_is_float(dtype)) {
    if (dtype.code == 6) return value != 0;
    return (value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value) & mask(dtype.bits);
  }
  int m = mantissa_bits(dtype), bias = (1 << (exponent_bits(dtype) - 1)) - 1, e,
      negative = signbit(value) != 0;
  if (isnan(value)) return code_of_nan(dtype, (uint64_t)1 << (m - 1));
  if (isinf(value) && dtype.code == 10) return 0x7f;
  if (isinf(value)) return assemble(dtype, negative, top_field(dtype) + 1, 0);
  double fraction = frexp(fabs(value), &e); /* in [1/2, 1): 1.f·2^(e-1) */
  int field = value == 0 ? 0 : e - 1 + bias;
  if (field > top_field(dtype)) return assemble(dtype, negative, top_field(dtype), UINT64_MAX);
  if (field < 1) return assemble(dtype, negative, 0, (uint64_t)ldexp(fabs(value), m + bias - 1));
  return assemble(dtype, negative, field, (uint64_t)ldexp(fraction, m + 1));
}

static uint64_t special(sumac_dtype dtype, data_random *random) {
  switch (data_below(random, 6)) {
  case 0: return data_code(dtype, INFINITY);
  case 1: return data_code(dtype, -INFINITY);
  case 2: return data_code(dtype, -0.0);
  case 3: return 0;
  case 4: return code_of_nan(dtype, data_next(random));
  default: return data_code(dtype, 1);
  }
}

/* x, then half a unit in the last place of x rounded to one of the types' precisions, then a trifle to
 * decide, or not; the rest cancels. */
static void ties(sumac_dtype dtype, data_random *random, uint64_t *codes, size_t n) {
  static const int precisions[] = {53, 24, 11, 8, 4, 3};
  int m = mantissa_bits(dtype), p;
  do p = precisions[data_below(random, 6)];
  while (p > m + 1);
  int lowest = p < top_field(dtype) ? p : top_field(dtype);
  int field = lowest + (int)data_below(random, (uint64_t)(top_field(dtype) - lowest + 1));
  int negative = data_next(random) & 1, cut = m + 1 - p;
  for (size_t i = 0; i < n; i++) codes[i] = i < 3 ? 0 : random_number(dtype, random, 0, field);
  for (size_t i = 4; i < n; i += 2) codes[i] = codes[i - 1] ^ (uint64_t)1 << (dtype.bits - 1);
  if (n > 3 && n % 2 == 0) codes[n - 1] = 0;
  if (n > 0) codes[0] = assemble(dtype, negative, field, data_next(random) >> cut << cut);
  if (n > 1 && field >= p)
    codes[1] = field > p ? assemble(dtype, negative, field - p, 0)
                         : assemble(dtype, negative, 0, (uint64_t)1 << (m - 1));
  if (n > 2 && data_next(random) % 3 != 0) codes[2] = assemble(dtype, data_next(random) & 1, 0, 1);
}

static void shuffle(uint64_t *codes, size_t n, data_random *random) {
  for (size_t i = n; i > 1; i--) {
    size_t j = (size_t)data_below(random, i);
    uint64_t swap = codes[i - 1];
    codes[i - 1] = codes[j];
    codes[j] = swap;
  }
}

static void float_codes(sumac_dtype dtype, data_kind kind, data_random *random, uint64_t *codes, size_t n) {
  int top = top_field(dtype);
  uint64_t sign = (uint64_t)1 << (dtype.bits - 1), first = random_number(dtype, random, 0, top + 1);
  int falling = data_next(random) & 1, one_sign = data_next(random) & 1;
  if (kind == DATA_TIES) {
    ties(dtype, random, codes, n);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    uint64_t x = data_code(dtype, normal(random));
    switch (kind) {
    case DATA_UNIFORM: x = data_code(dtype, uniform(random)); break;
    case DATA_WIDE: x = random_number(dtype, random, 0, top + 1); break;
    case DATA_SUBNORMAL: x = random_number(dtype, random, 0, 1); break;
    case DATA_CANCELLATION:
      x = i % 2 != 0 ? codes[i - 1] ^ sign : random_number(dtype, random, 0, top + 1);
      break;
    case DATA_SPECIALS:
      if (data_below(random, n < 64 ? 4 : n / 4) == 0) x = special(dtype, random);
      break;
    case DATA_MINUS_ZERO: x = sign; break;
    case DATA_RANDOM_BITS: x = data_next(random) & mask(dtype.bits); break;
    case DATA_OUTLIERS:
      if (data_below(random, 1000) == 0) x = random_number(dtype, random, 0, top + 1);
      break;
    case DATA_DRIFTING: {
      int field = (int)((unsigned __int128)(falling ? n - 1 - i : i) * (unsigned)top / n);
      x = random_number(dtype, random, field, 1);
      break;
    }
    case DATA_HUGE:
      x = random_number(dtype, random, top - 1, 2);
      x = one_sign ? x & ~sign : x;
      break;
    case DATA_EQUAL: x = first; break;
    default: break;
    }
    codes[i] = x;
  }
  if (kind == DATA_CANCELLATION) shuffle(codes, n, random);
}

/* ---- integer codes -------------------------------------------------------------------------- */

static void int_codes(sumac_dtype dtype, data_kind kind, data_random *random, uint64_t *codes, size_t n) {
  uint64_t whole = mask(dtype.bits), top = (uint64_t)1 << (dtype.bits - 1), first = data_next(random);
  for (size_t i = 0; i < n; i++) {
    uint64_t x = data_next(random);
    switch (kind) {
    case DATA_NORMAL:
    case DATA_TIES: x = (uint64_t)(int64_t)(normal(random) * (double)((uint64_t)1 << dtype.bits / 3)); break;
    case DATA_WIDE:
    case DATA_DRIFTING: x >>= data_below(random, 64); break;
    case DATA_SUBNORMAL: x = x % 3 - 1; break;
    case DATA_CANCELLATION: x = i % 2 != 0 ? 0 - codes[i - 1] : x; break;
    case DATA_SPECIALS: x = x % 4 == 0 ? top : x % 4 == 1 ? top - 1 : x % 4 == 2 ? whole : 0; break;
    case DATA_MINUS_ZERO: x = 0; break;
    case DATA_OUTLIERS: x = x % 1000 == 0 ? data_next(random) : x >> 60; break;
    case DATA_HUGE: x = first % 2 == 0 ? top - 1 - x % 4 : top + x % 4; break;
    case DATA_EQUAL: x = first; break;
    default: break;
    }
    codes[i] = x & whole;
  }
  if (kind == DATA_CANCELLATION) shuffle(codes, n, random);
}

void data_codes(sumac_dtype dtype, data_kind kind, data_random *random, uint64_t *codes, size_t n) {
  if (dtype_is_float(dtype))
    float_codes(dtype, kind, random, codes, n);
  else
    int_codes(dtype, kind, random, codes, n);
}

void data_pack(sumac_dtype dtype, const uint64_t *codes, size_t n, void *bytes) {
  unsigned char *p = bytes;
  for (size_t i = 0; i < n; i++)
    for (int byte = 0; byte < dtype.bits / 8; byte++) *p++ = (unsigned char)(codes[i] >> (8 * byte));
}
