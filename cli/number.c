/* SPDX-License-Identifier: Apache-2.0 */
#include "number.h"

#include <fenv.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

typedef unsigned __int128 u128;

/* ---- float formats ------------------------------------------------------------------------- */

struct format {
  int exponent_bits, fraction_bits;
  bool has_inf; /* otherwise only the all-ones pattern is NaN and the rest of its binade is finite */
};

static struct format format_of(sumac_dtype dtype) {
  switch (dtype.code << 8 | dtype.bits) {
  case 2 << 8 | 64: return (struct format){11, 52, true};
  case 2 << 8 | 32: return (struct format){8, 23, true};
  case 2 << 8 | 16: return (struct format){5, 10, true};
  case 4 << 8 | 16: return (struct format){8, 7, true};
  case 10 << 8 | 8: return (struct format){4, 3, false};
  default: return (struct format){5, 2, true}; /* e5m2 */
  }
}

static int format_bias(struct format f) { return (1 << (f.exponent_bits - 1)) - 1; }

static uint64_t format_top(struct format f) {
  return ((UINT64_C(1) << f.exponent_bits) - 1) << f.fraction_bits;
}

/* The pattern that stands for what lies beyond the largest finite number. */
static uint64_t format_beyond(struct format f) {
  return f.has_inf ? format_top(f) : format_top(f) | ((UINT64_C(1) << f.fraction_bits) - 1);
}

static uint64_t format_nan(struct format f) {
  return f.has_inf ? format_top(f) | UINT64_C(1) << (f.fraction_bits - 1) : format_beyond(f);
}

double number_to_double(sumac_dtype dtype, uint64_t bits) {
  struct format f = format_of(dtype);
  uint64_t fraction = bits & ((UINT64_C(1) << f.fraction_bits) - 1);
  int exponent = (int)(bits >> f.fraction_bits & ((UINT64_C(1) << f.exponent_bits) - 1));
  bool negative = bits >> (f.fraction_bits + f.exponent_bits) & 1;
  double value;
  if (f.has_inf && exponent == (1 << f.exponent_bits) - 1) {
    value = fraction ? NAN : INFINITY;
  } else if (!f.has_inf && (bits & format_beyond(f)) == format_beyond(f)) {
    value = NAN;
  } else {
    uint64_t significand = exponent ? fraction | UINT64_C(1) << f.fraction_bits : fraction;
    value = ldexp((double)significand, (exponent ? exponent : 1) - format_bias(f) - f.fraction_bits);
  }
  return negative ? -value : value;
}

uint64_t number_bits(sumac_dtype dtype, const void *element) {
  uint8_t b8;
  uint16_t b16;
  uint32_t b32;
  uint64_t b64;
  switch (dtype.bits) {
  case 8: memcpy(&b8, element, sizeof b8); return b8;
  case 16: memcpy(&b16, element, sizeof b16); return b16;
  case 32: memcpy(&b32, element, sizeof b32); return b32;
  default: memcpy(&b64, element, sizeof b64); return b64;
  }
}

static void store_bits(sumac_dtype dtype, uint64_t bits, void *element) {
  uint8_t b8 = (uint8_t)bits;
  uint16_t b16 = (uint16_t)bits;
  uint32_t b32 = (uint32_t)bits;
  switch (dtype.bits) {
  case 8: memcpy(element, &b8, sizeof b8); break;
  case 16: memcpy(element, &b16, sizeof b16); break;
  case 32: memcpy(element, &b32, sizeof b32); break;
  default: memcpy(element, &bits, sizeof bits); break;
  }
}

/* ---- decimal to binary --------------------------------------------------------------------- */

/* A positive value: significand · 2^exponent with the top bit of the significand set, plus something
 * below its last bit if `sticky`. That is enough to round once to any format of at most 62 bits. */
struct binary {
  uint64_t significand;
  int exponent;
  bool sticky;
};

static uint64_t round_binary(struct format f, struct binary b) {
  int lowest = 1 - format_bias(f), exponent = b.exponent + 63;
  if (exponent > format_bias(f) + 1) return format_beyond(f);
  int shift = 63 - f.fraction_bits + (exponent < lowest ? lowest - exponent : 0);
  if (shift > 64) return 0;
  uint64_t kept = shift == 64 ? 0 : b.significand >> shift;
  uint64_t half = UINT64_C(1) << (shift - 1);
  uint64_t rest = b.significand & (half | (half - 1));
  bool up = rest > half || (rest == half && (b.sticky || (kept & 1)));
  if (exponent >= lowest) kept += (uint64_t)(exponent - lowest) << f.fraction_bits;
  kept += up;
  return kept < format_beyond(f) ? kept : format_beyond(f);
}

/* 5^q as 128 bits, top bit set, rounded down (exact for 0 <= q <= 55), for every q that a 64-bit
 * integer times 10^q needs to reach from below the smallest to above the largest double. */
enum { POWER_MIN = -342, POWER_MAX = 308, POWER_EXACT = 55 };
static struct { uint64_t high, low; } power[POWER_MAX - POWER_MIN + 1];

enum { BIG_WORDS = 18 };

/* The leading 128 bits of a big number, least significant word first, of which one word above the
 * lowest two is not zero. */
static void store_power(int q, const uint64_t big[BIG_WORDS]) {
  int top = BIG_WORDS - 1;
  while (big[top] == 0) top--;
  u128 head = (u128)big[top] << 64 | big[top - 1];
  int shift = __builtin_clzll(big[top]);
  if (shift) head = head << shift | big[top - 2] >> (64 - shift);
  power[q - POWER_MIN].high = (uint64_t)(head >> 64);
  power[q - POWER_MIN].low = (uint64_t)head;
}

static void make_powers(void) {
  uint64_t big[BIG_WORDS] = {0};
  big[2] = 1;
  for (int q = 0; q <= POWER_MAX; q++) {
    store_power(q, big);
    uint64_t carry = 0;
    for (int i = 0; i < BIG_WORDS; i++) {
      u128 t = (u128)big[i] * 5 + carry;
      big[i] = (uint64_t)t;
      carry = (uint64_t)(t >> 64);
    }
  }
  /* ⌊⌊x/5⌋/5⌋ = ⌊x/25⌋, so dividing a large power of two step by step loses nothing. */
  memset(big, 0, sizeof big);
  big[BIG_WORDS - 1] = UINT64_C(1) << 63;
  for (int q = -1; q >= POWER_MIN; q--) {
    uint64_t rest = 0;
    for (int i = BIG_WORDS - 1; i >= 0; i--) {
      u128 t = (u128)rest << 64 | big[i];
      big[i] = (uint64_t)(t / 5);
      rest = (uint64_t)(t % 5);
    }
    store_power(q, big);
  }
}

static pthread_once_t powers_once = PTHREAD_ONCE_INIT;

static int floor_log2_of_power_of_10(int q) { return (217706 * q) >> 16; } /* right for |q| <= 1233 */

/* digits / 5^-q · 2^q for -27 <= q < 0 (5^27 < 2^63), by division: for the decimals that are, or lie
 * next to, short binary fractions, which a reciprocal rounded down cannot tell apart. */
static struct binary divide_by_power(uint64_t digits, int q) {
  uint64_t divisor = 1;
  for (int i = q; i < 0; i++) divisor *= 5;
  int zeros = __builtin_clzll(digits);
  u128 dividend = (u128)(digits << zeros) << 64, quotient = dividend / divisor;
  int extra = 64 - __builtin_clzll((uint64_t)(quotient >> 64));
  return (struct binary){.significand = (uint64_t)(quotient >> extra),
                         .exponent = q - zeros - 64 + extra,
                         .sticky = quotient << (128 - extra) != 0 || quotient * divisor != dividend};
}

/* digits · 10^q as a binary, digits != 0; false if 192 bits of product do not decide its sticky bit
 * and last places. */
static bool scale(uint64_t digits, int q, struct binary *b) {
  int zeros = __builtin_clzll(digits);
  uint64_t w = digits << zeros, high = power[q - POWER_MIN].high, low = power[q - POWER_MIN].low;
  u128 tail = (u128)w * low, product = (u128)w * high + (uint64_t)(tail >> 64);
  uint64_t lowest = (uint64_t)tail;
  bool exact = q >= 0 && q <= POWER_EXACT;
  /* The true product exceeds this one by less than w < 2^64. It carries into the significand only
   * from a middle word of ones (one bit of it goes up when the product is normalised). */
  if (!exact && ((uint64_t)product | UINT64_C(1) << 63) == UINT64_MAX) {
    if (q < -27 || q >= 0) return false;
    *b = divide_by_power(digits, q);
    return true;
  }
  int shift = product >> 127 ? 0 : 1;
  product <<= shift; /* the bit of `lowest` that would move up counts in the sticky bit anyway */
  b->significand = (uint64_t)(product >> 64);
  b->exponent = floor_log2_of_power_of_10(q) - 127 - zeros + 128 - shift;
  b->sticky = !exact || (uint64_t)product != 0 || lowest != 0;
  return true;
}

/* The decimal as bits of a float format, by strtod_l in the C locale. Formats narrower than double
 * get a double rounded to odd, whose second rounding is then the only one that counts. */
static uint64_t round_text(struct format f, const char *text, size_t length) {
  static locale_t c_locale;
  if (!c_locale) c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  char *copy = allocate(length + 1);
  memcpy(copy, text, length);
  copy[length] = 0;
  char *digits = copy + (*copy == '-' || *copy == '+');
  uint64_t bits;
  double value;
  if (f.fraction_bits == 52) {
    value = strtod_l(digits, NULL, c_locale);
    memcpy(&bits, &value, sizeof bits);
  } else {
    fesetround(FE_DOWNWARD);
    value = strtod_l(digits, NULL, c_locale);
    fesetround(FE_UPWARD);
    double above = strtod_l(digits, NULL, c_locale);
    fesetround(FE_TONEAREST);
    memcpy(&bits, &value, sizeof bits);
    if (value != above) bits |= 1;
    memcpy(&value, &bits, sizeof value);
    int exponent;
    double significand = frexp(value, &exponent); /* in [0.5, 1) */
    bits = value == 0 ? 0
                      : round_binary(f, (struct binary){.significand = (uint64_t)ldexp(significand, 64),
                                                        .exponent = exponent - 64});
  }
  free(copy);
  return bits;
}

static uint64_t round_decimal(struct format f, const struct decimal *d, const char *text, size_t length) {
  if (d->digits == 0 || d->exp10 < POWER_MIN) return 0; /* below 2^64 · 10^-343 < 2^-1075 */
  if (d->exp10 > POWER_MAX) return format_beyond(f);
  int q = (int)d->exp10;
  struct binary b;
  if (!scale(d->digits, q, &b)) return round_text(f, text, length);
  uint64_t bits = round_binary(f, b);
  if (d->more) { /* the value lies above digits and below digits + 1: do both round alike? */
    b.sticky = true;
    bits = round_binary(f, b);
    if (d->digits == UINT64_MAX || !scale(d->digits + 1, q, &b) || round_binary(f, b) != bits)
      return round_text(f, text, length);
  }
  return bits;
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool is_digit(char c) { return (unsigned char)(c - '0') < 10; }

/* Eight digits at once (little endian): is every byte a digit, and what number do they make? */
static bool eight_digits(const char *p, uint64_t *number) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  v ^= UINT64_C(0x3030303030303030);
  if ((v | (v + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080)) return false;
  v = v * 10 + (v >> 8);
  *number = ((v & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
             (v >> 16 & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >>
            32;
  return true;
}

static const char *scan_digits(const char *p, uint64_t *digits) {
  uint64_t sum = *digits, eight;
  while (eight_digits(p, &eight)) {
    sum = sum * 100000000 + (eight & UINT32_MAX);
    p += 8;
  }
  for (; is_digit(*p); p++) sum = sum * 10 + (uint64_t)(*p - '0');
  *digits = sum;
  return p;
}

/* Keep as many significant digits of [p, end) as 64 bits hold, and note what is dropped. */
static void keep_leading_digits(const char *p, const char *end, struct decimal *d) {
  uint64_t digits = 0, next;
  for (; p < end; p++) {
    if (*p == '.') continue;
    if (__builtin_mul_overflow(digits, 10, &next) || __builtin_add_overflow(next, *p - '0', &next)) break;
    digits = next;
  }
  d->digits = digits;
  for (; p < end; p++) {
    if (*p == '.') continue;
    d->exp10++;
    d->more |= *p != '0';
  }
}

static const char *scan_word(const char *p, struct decimal *d) {
  if (strncasecmp(p, "nan", 3) == 0) {
    d->kind = DECIMAL_NAN;
    return p + 3;
  }
  if (strncasecmp(p, "inf", 3) == 0) {
    d->kind = DECIMAL_INF;
    return strncasecmp(p, "infinity", 8) == 0 ? p + 8 : p + 3;
  }
  return NULL;
}

const char *decimal_scan(const char *p, struct decimal *d) {
  *d = (struct decimal){.negative = *p == '-'};
  if (*p == '-' || *p == '+') p++;
  const char *first = p;
  p = scan_digits(p, &d->digits);
  int64_t count = p - first;
  if (*p == '.') {
    const char *fraction = ++p;
    p = scan_digits(p, &d->digits);
    d->exp10 = fraction - p;
    count += p - fraction;
  }
  if (count == 0) return scan_word(first, d);
  if (count > 19) keep_leading_digits(first, p, d);
  if ((*p | 0x20) == 'e') {
    const char *e = p + 1;
    bool down = *e == '-';
    if (*e == '-' || *e == '+') e++;
    if (!is_digit(*e)) return p; /* the caller sees that the number does not end here */
    int64_t exponent = 0;
    for (; is_digit(*e); e++)
      if (exponent < INT32_MAX) exponent = exponent * 10 + (*e - '0');
    d->exp10 += down ? -exponent : exponent;
    p = e;
  }
  return p;
}

/* The decimal's magnitude, if it is whole and below 2^64. */
static enum number_status to_integer(const struct decimal *d, uint64_t *magnitude) {
  *magnitude = d->digits;
  if (d->digits == 0) return NUMBER_OK;
  int64_t exponent = d->exp10;
  /* Digits that did not fit behind these: above the point they make it too large. */
  if (d->more) return exponent > 0 ? NUMBER_RANGE : NUMBER_FRACTION;
  for (; exponent < 0 && *magnitude % 10 == 0; exponent++) *magnitude /= 10;
  if (exponent < 0) return NUMBER_FRACTION;
  for (; exponent > 0; exponent--)
    if (__builtin_mul_overflow(*magnitude, 10, magnitude)) return NUMBER_RANGE;
  return NUMBER_OK;
}

static enum number_status store_integer(sumac_dtype dtype, const struct decimal *d, void *element) {
  uint64_t magnitude;
  if (d->kind != DECIMAL_FINITE) return NUMBER_RANGE;
  enum number_status status = to_integer(d, &magnitude);
  if (status != NUMBER_OK) return status;
  uint64_t largest = dtype.code == SUMAC_BOOL.code ? 1 : UINT64_MAX >> (64 - dtype.bits);
  if (dtype.code == SUMAC_I64.code)
    largest = (largest >> 1) + d->negative;
  else if (d->negative && magnitude)
    return NUMBER_RANGE;
  if (magnitude > largest) return NUMBER_RANGE;
  store_bits(dtype, d->negative ? -magnitude : magnitude, element);
  return NUMBER_OK;
}

/* A short number times or over a small power of ten is one exact operation's operands: correctly
 * rounded by the processor. */
static bool small_double(const struct decimal *d, double *value) {
  static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                               1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (d->digits >> 53 || d->more || d->exp10 < -22 || d->exp10 > 22) return false;
  *value = (double)d->digits;
  if (d->exp10 < 0)
    *value /= ten[-d->exp10];
  else
    *value *= ten[d->exp10];
  return true;
}

enum number_status number_store(sumac_dtype dtype, const struct decimal *d, const char *text, size_t length,
                                void *element) {
  if (!dtype_is_float(dtype)) return store_integer(dtype, d, element);
  double value;
  if (dtype.bits == 64 && d->kind == DECIMAL_FINITE && small_double(d, &value)) {
    if (d->negative) value = -value;
    memcpy(element, &value, sizeof value);
    return NUMBER_OK;
  }
  pthread_once(&powers_once, make_powers);
  struct format f = format_of(dtype);
  uint64_t bits = d->kind == DECIMAL_NAN   ? format_nan(f)
                  : d->kind == DECIMAL_INF ? format_beyond(f)
                                           : round_decimal(f, d, text, length);
  store_bits(dtype, bits | (uint64_t)(d->negative && d->kind != DECIMAL_NAN) << (dtype.bits - 1), element);
  return NUMBER_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* "d.ddde±x" as the shorter of plain and scientific notation reads best. */
static void lay_out(bool negative, const char *scientific, char text[NUMBER_MAX_TEXT]) {
  char digits[24];
  int count = 0, exponent = atoi(strchr(scientific, 'e') + 1);
  for (const char *p = scientific; *p != 'e'; p++)
    if (*p != '.') digits[count++] = *p;
  while (count > 1 && digits[count - 1] == '0') count--;
  digits[count] = 0;
  char *out = text;
  if (negative) *out++ = '-';
  if (exponent >= 17 || exponent < -5) {
    snprintf(out, 40, "%c%s%se%d", digits[0], count > 1 ? "." : "", digits + 1, exponent);
  } else if (exponent < 0) {
    snprintf(out, 40, "0.%.*s%s", -exponent - 1, "0000", digits);
  } else if (count <= exponent + 1) {
    snprintf(out, 40, "%s%.*s", digits, exponent + 1 - count, "0000000000000000");
  } else {
    snprintf(out, 40, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
  }
}

/* Adds one to the last of the digits "d.dddde±x"; false if they are all nines. */
static bool next_decimal(char *scientific) {
  for (char *p = strchr(scientific, 'e') - 1; p >= scientific; p--) {
    if (*p == '.') continue;
    if (*p != '9') {
      ++*p;
      return true;
    }
    *p = '0';
  }
  return false;
}

static bool reads_back(sumac_dtype dtype, const char *text, uint64_t magnitude) {
  struct decimal d;
  uint64_t element = 0;
  char padded[NUMBER_MAX_TEXT] = {0};
  memcpy(padded, text, strlen(text));
  decimal_scan(padded, &d);
  number_store(dtype, &d, padded, strlen(padded), &element);
  return number_bits(dtype, &element) == magnitude;
}

void number_shortest(sumac_dtype dtype, const void *element, char text[NUMBER_MAX_TEXT]) {
  uint64_t bits = number_bits(dtype, element), sign = UINT64_C(1) << (dtype.bits - 1);
  if (!dtype_is_float(dtype)) {
    bool negative = dtype.code == SUMAC_I64.code && (bits & sign);
    uint64_t magnitude = negative ? (~bits + 1) & (sign | (sign - 1)) : bits;
    snprintf(text, NUMBER_MAX_TEXT, "%s%" PRIu64, negative ? "-" : "", magnitude);
    return;
  }
  bool negative = (bits & sign) != 0;
  double value = number_to_double(dtype, bits & ~sign);
  if (!isfinite(value)) {
    strcpy(text, isnan(value) ? "nan" : negative ? "-inf" : "inf");
    return;
  }
  /* The nearest decimal of so many digits reads back if any does, but for one case: a power of two
   * has more room above than below, and the next decimal up may lie in it. */
  char scientific[NUMBER_MAX_TEXT];
  for (int places = 0; places <= 16; places++) {
    snprintf(scientific, sizeof scientific, "%.*e", places, value);
    if (reads_back(dtype, scientific, bits & ~sign)) break;
    if (next_decimal(scientific) && reads_back(dtype, scientific, bits & ~sign)) break;
  }
  lay_out(negative, scientific, text);
}

void number_hex(sumac_dtype dtype, const void *element, char text[NUMBER_MAX_TEXT]) {
  uint64_t bits = number_bits(dtype, element), sign = UINT64_C(1) << (dtype.bits - 1);
  bool negative = dtype.code != SUMAC_U64.code && dtype.code != SUMAC_BOOL.code && (bits & sign);
  if (dtype_is_float(dtype)) {
    double value = number_to_double(dtype, bits & ~sign);
    if (isnan(value)) negative = false;
    snprintf(text, NUMBER_MAX_TEXT, "%s%a", negative ? "-" : "", value);
  } else {
    uint64_t magnitude = negative ? (~bits + 1) & (sign | (sign - 1)) : bits;
    snprintf(text, NUMBER_MAX_TEXT, "%s0x%" PRIx64, negative ? "-" : "", magnitude);
  }
}
