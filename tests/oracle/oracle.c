/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 u128;

/* ---- big integers --------------------------------------------------------------------------- */

/* a += v·2^bit */
static void big_add_at(oracle_big *a, uint64_t v, int bit) {
  int i = bit / 32;
  u128 carry = (u128)v << (bit % 32);
  for (; carry != 0; i++) {
    carry += a->word[i];
    a->word[i] = (uint32_t)carry;
    carry >>= 32;
  }
}

static void big_add(oracle_big *a, const oracle_big *b) {
  uint64_t carry = 0;
  for (int i = 0; i < ORACLE_WORDS; i++) {
    carry += (uint64_t)a->word[i] + b->word[i];
    a->word[i] = (uint32_t)carry;
    carry >>= 32;
  }
}

static int big_compare(const oracle_big *a, const oracle_big *b) {
  for (int i = ORACLE_WORDS - 1; i >= 0; i--)
    if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
  return 0;
}

/* a - b, where a >= b */
static oracle_big big_subtract(const oracle_big *a, const oracle_big *b) {
  oracle_big difference;
  int64_t borrow = 0;
  for (int i = 0; i < ORACLE_WORDS; i++) {
    int64_t d = (int64_t)a->word[i] - b->word[i] + borrow;
    difference.word[i] = (uint32_t)d;
    borrow = d < 0 ? -1 : 0;
  }
  return difference;
}

/* Words up to the highest that is not 0. */
static int big_length(const oracle_big *a) {
  int n = ORACLE_WORDS;
  while (n > 0 && a->word[n - 1] == 0) n--;
  return n;
}

static oracle_big big_multiply(const oracle_big *a, const oracle_big *b) {
  oracle_big product = {{0}};
  int n = big_length(a), m = big_length(b);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m && a->word[i] != 0; j++)
      if (b->word[j] != 0) big_add_at(&product, (uint64_t)a->word[i] * b->word[j], 32 * (i + j));
  return product;
}

static oracle_big big_shift_words(const oracle_big *a, int words) {
  oracle_big shifted = {{0}};
  memcpy(shifted.word + words, a->word, sizeof a->word - 4 * (size_t)words);
  return shifted;
}

static oracle_big big_from(uint64_t v) {
  oracle_big a = {{0}};
  big_add_at(&a, v, 0);
  return a;
}

/* ---- elements ------------------------------------------------------------------------------- */

/* Float types by their code and width; a number is m·2^(max(field,1) - bias - mantissa bits). */
typedef struct float_format {
  sumac_dtype dtype;
  int exponent_bits, mantissa_bits, bias;
  int has_inf;      /* 0: the top exponent holds numbers too, all ones is NaN */
  uint64_t nan;     /* the canonical one */
  uint64_t largest; /* code of the largest finite number */
} float_format;

static const float_format formats[] = {
    {{2, 64, 1}, 11, 52, 1023, 1, 0x7ff8000000000000, 0x7fefffffffffffff},
    {{2, 32, 1}, 8, 23, 127, 1, 0x7fc00000, 0x7f7fffff},
    {{2, 16, 1}, 5, 10, 15, 1, 0x7e00, 0x7bff},
    {{4, 16, 1}, 8, 7, 127, 1, 0x7fc0, 0x7f7f},
    {{10, 8, 1}, 4, 3, 7, 0, 0x7f, 0x7e},
    {{12, 8, 1}, 5, 2, 15, 1, 0x7e, 0x7b},
};

/* NULL for the integer types and bool. */
static const float_format *format_of(sumac_dtype dtype) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (formats[i].dtype.code == dtype.code && formats[i].dtype.bits == dtype.bits) return &formats[i];
  return NULL;
}

static uint64_t low_bits(int bits) { return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1; }

oracle_number oracle_decode(sumac_dtype dtype, uint64_t bits) {
  oracle_number x = {ORACLE_FINITE, 0, 0, 0};
  const float_format *f = format_of(dtype);
  if (f != NULL) {
    uint64_t top = low_bits(f->exponent_bits);
    uint64_t field = bits >> f->mantissa_bits & top;
    uint64_t fraction = bits & low_bits(f->mantissa_bits);
    x.negative = (int)(bits >> (f->exponent_bits + f->mantissa_bits) & 1);
    if (field == top && f->has_inf)
      x.class = fraction != 0 ? ORACLE_NAN : ORACLE_INF;
    else if (field == top && fraction == low_bits(f->mantissa_bits))
      x.class = ORACLE_NAN;
    x.m = fraction + (field != 0 ? (uint64_t)1 << f->mantissa_bits : 0);
    x.e = (field != 0 ? (int)field : 1) - f->bias - f->mantissa_bits;
  } else if (dtype.code == SUMAC_BOOL.code) {
    x.m = bits != 0;
  } else {
    x.negative = dtype.code == SUMAC_I8.code && (bits >> (dtype.bits - 1) & 1) != 0;
    x.m = x.negative ? (0 - bits) & low_bits(dtype.bits) : bits;
  }
  return x;
}

/* Orders finite numbers and infinities; −0 and +0 are equal. */
static int compare_magnitudes(oracle_number a, oracle_number b) {
  if (a.class == ORACLE_INF || b.class == ORACLE_INF)
    return (a.class == ORACLE_INF) - (b.class == ORACLE_INF);
  if (a.m == 0 || b.m == 0) return (a.m != 0) - (b.m != 0);
  int shift_a = __builtin_clzll(a.m), shift_b = __builtin_clzll(b.m);
  a.m <<= shift_a, a.e -= shift_a;
  b.m <<= shift_b, b.e -= shift_b;
  if (a.e != b.e) return a.e < b.e ? -1 : 1;
  return (a.m > b.m) - (a.m < b.m);
}

static int is_zero(oracle_number x) { return x.class == ORACLE_FINITE && x.m == 0; }

static int compare(oracle_number a, oracle_number b) {
  int below_a = a.negative && !is_zero(a), below_b = b.negative && !is_zero(b);
  if (below_a != below_b) return below_a ? -1 : 1;
  return below_a ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

/* ---- adding --------------------------------------------------------------------------------- */

#define UNIT 2176 /* sums are kept in units of 2^-2176: the least product is 2^-2148 */

void oracle_clear(oracle_stats *stats) { memset(stats, 0, sizeof *stats); }

/* sum += m·2^e·times, piece by piece of 32 bits */
static void add_term(oracle_big *sum, u128 m, int e, uint64_t times) {
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 2; j++) {
      uint64_t piece = (uint64_t)(uint32_t)(m >> (32 * i)) * (uint32_t)(times >> (32 * j));
      big_add_at(sum, piece, UNIT + e + 32 * (i + j));
    }
}

/* What a term adds to a sum, be it an element or a product. */
static void count_term(oracle_stats *stats, int infinite, int negative, u128 m, int e, uint64_t times) {
  if (infinite)
    *(negative ? &stats->minus_inf : &stats->plus_inf) += times;
  else if (m == 0)
    *(negative ? &stats->minus_zero : &stats->plus_zero) += times;
  else
    add_term(negative ? &stats->negative : &stats->positive, m, e, times);
}

static int power_length(const oracle_power *a) {
  int n = 2 * ORACLE_FACTOR_WORDS;
  while (n > 0 && a->word[n - 1] == 0) n--;
  return n;
}

/* Exponents end where no type comes near. */
static int64_t power_exponent(int64_t e) {
  int64_t most = (int64_t)1 << 60;
  return e > most ? most : e < -most ? -most : e;
}

/* Keeps 512 bits: what is lost is far below any type's last place. */
static oracle_power power_multiply(const oracle_power *a, const oracle_power *b) {
  oracle_power p = {{0}, power_exponent(a->e + b->e)};
  int n = power_length(a), m = power_length(b);
  for (int i = 0; i < n; i++) {
    uint64_t carry = 0;
    for (int j = 0; j < m || carry != 0; j++) {
      carry += p.word[i + j] + (j < m ? (uint64_t)a->word[i] * b->word[j] : 0);
      p.word[i + j] = (uint32_t)carry;
      carry >>= 32;
    }
  }
  int over = power_length(&p) - ORACLE_FACTOR_WORDS;
  if (over <= 0) return p;
  uint32_t lost = 0;
  for (int i = 0; i < over; i++) lost |= p.word[i];
  memmove(p.word, p.word + over, sizeof p.word / 2);
  memset(p.word + ORACLE_FACTOR_WORDS, 0, sizeof p.word / 2);
  p.word[0] |= lost != 0;
  p.e = power_exponent(p.e + 32 * over);
  return p;
}

/* product *= (m 2^e)^times */
static void multiply_term(oracle_stats *stats, uint64_t m, int e, uint64_t times) {
  oracle_power base = {{(uint32_t)m, (uint32_t)(m >> 32)}, e};
  if (stats->factors == 0) stats->product = (oracle_power){{1}, 0};
  stats->factors += times;
  for (; times > 0; times >>= 1) {
    if (times & 1) stats->product = power_multiply(&stats->product, &base);
    if (times > 1) base = power_multiply(&base, &base);
  }
}

void oracle_add(oracle_stats *stats, sumac_dtype dtype, uint64_t bits, uint64_t times) {
  if (times == 0) return;
  oracle_number x = oracle_decode(dtype, bits);
  uint64_t at = stats->n;
  stats->n += times;
  if (x.class == ORACLE_NAN) {
    if (stats->nan == 0) stats->nan_at = at;
    stats->nan += times;
    return;
  }
  int first = stats->n - stats->nan == times;
  if (first || compare(x, stats->min) < 0) stats->min = x, stats->min_at = at;
  if (first || compare(x, stats->max) > 0) stats->max = x, stats->max_at = at;
  if (first || compare_magnitudes(x, stats->largest) > 0) stats->largest = x;
  count_term(stats, x.class == ORACLE_INF, x.negative, x.m, x.e, times);
  if (x.class == ORACLE_FINITE) add_term(&stats->square, (u128)x.m * x.m, 2 * x.e, times);
  if (x.class == ORACLE_FINITE && x.m != 0) multiply_term(stats, x.m, x.e, times);
  if (x.negative) stats->negatives += times;
  stats->floats = format_of(dtype) != NULL;
}

void oracle_add_product(oracle_stats *stats, sumac_dtype dtype, uint64_t x_bits, uint64_t y_bits,
                        uint64_t times) {
  oracle_number x = oracle_decode(dtype, x_bits), y = oracle_decode(dtype, y_bits);
  stats->n += times;
  if (x.class == ORACLE_NAN || y.class == ORACLE_NAN) {
    stats->nan += times;
    return;
  }
  int infinite = x.class == ORACLE_INF || y.class == ORACLE_INF;
  if (infinite && (is_zero(x) || is_zero(y)))
    stats->invalid += times;
  else
    /* a product of integers that is 0 has no sign */
    count_term(stats, infinite,
               x.negative != y.negative && (format_of(dtype) != NULL || (x.m != 0 && y.m != 0)),
               (u128)x.m * y.m, x.e + y.e, times);
}

/* ---- results -------------------------------------------------------------------------------- */

static sumac_status set_class(oracle_value *value, oracle_class class, int negative) {
  value->class = class;
  value->negative = negative;
  return SUMAC_OK;
}

static sumac_status set_number(oracle_value *value, oracle_number x) {
  add_term(&value->numerator, x.class == ORACLE_FINITE ? x.m : 0, x.e, 1);
  return set_class(value, x.class, x.negative);
}

static sumac_status select_element(const oracle_stats *stats, sumac_op op, int nan, oracle_value *value) {
  if (op == SUMAC_ARGMIN || op == SUMAC_ARGMAX) {
    uint64_t at = nan ? stats->nan_at : op == SUMAC_ARGMIN ? stats->min_at : stats->max_at;
    return set_number(value, (oracle_number){ORACLE_FINITE, 0, at, 0});
  }
  if (nan) return set_class(value, ORACLE_NAN, 0);
  oracle_number x = op == SUMAC_MIN ? stats->min : stats->max;
  if (is_zero(x)) x.negative = op == SUMAC_MIN ? stats->minus_zero != 0 : stats->plus_zero == 0;
  return set_number(value, x);
}

/* The product on the grid of 2^-2176, or, where it is beyond that, a number that rounds alike. */
static sumac_status set_product(const oracle_stats *stats, int floats, oracle_value *value) {
  uint64_t zeros = stats->plus_zero + stats->minus_zero;
  int infinite = stats->plus_inf != 0 || stats->minus_inf != 0;
  int negative = (int)(stats->negatives % 2);
  if (infinite && zeros != 0) return set_class(value, ORACLE_NAN, 0);
  if (infinite) return set_class(value, ORACLE_INF, negative);
  set_class(value, ORACLE_FINITE, negative && (floats || zeros == 0));
  if (zeros != 0) return SUMAC_OK;
  oracle_power product = stats->product;
  if (stats->factors == 0) product = (oracle_power){{1}, 0};
  int length = power_length(&product);
  int64_t at = product.e + UNIT; /* of its lowest bit */
  if (at + 32 * length > 32 * 160) {
    big_add_at(&value->numerator, 1, 32 * 160); /* 2^2944 */
  } else if (at + 32 * length < 32) {
    value->numerator = big_from(1);
  } else {
    for (int i = 0; i < length; i++) { /* what lies below the grid is only known to be there */
      int64_t bit = at + 32 * i;
      if (bit >= 0)
        big_add_at(&value->numerator, product.word[i], (int)bit);
      else if (bit > -32)
        big_add_at(&value->numerator, product.word[i] >> -bit, 0);
      if (bit < 0 && product.word[i] != 0) value->numerator.word[0] |= 1;
    }
  }
  return SUMAC_OK;
}

sumac_status oracle_finish(const oracle_stats *stats, sumac_op op, uint32_t flags, int64_t ddof,
                           oracle_value *value) {
  memset(value, 0, sizeof *value);
  value->unit = UNIT;
  value->denominator = big_from(1);
  int nan = !(flags & SUMAC_SKIP_NAN) && stats->nan != 0;
  int infinite = stats->plus_inf != 0 || stats->minus_inf != 0;
  uint64_t n = stats->n - (flags & SUMAC_SKIP_NAN ? stats->nan : 0);

  if (op == SUMAC_MIN || op == SUMAC_MAX || op == SUMAC_ARGMIN || op == SUMAC_ARGMAX)
    return n == 0 ? SUMAC_ERR_EMPTY : select_element(stats, op, nan, value);
  if (op == SUMAC_COUNT_NONZERO || op == SUMAC_ANY || op == SUMAC_ALL) {
    uint64_t zeros = stats->plus_zero + stats->minus_zero;
    uint64_t count = op == SUMAC_COUNT_NONZERO ? n - zeros : op == SUMAC_ANY ? n > zeros : zeros == 0;
    return set_number(value, (oracle_number){ORACLE_FINITE, 0, count, 0});
  }
  if (nan || stats->invalid != 0) return set_class(value, ORACLE_NAN, 0);
  if (op == SUMAC_PROD) return set_product(stats, stats->floats, value);

  if (op == SUMAC_NORM1 || op == SUMAC_NORM2 || op == SUMAC_NORMINF) {
    if (infinite) return set_class(value, ORACLE_INF, 0);
    if (op == SUMAC_NORM1) {
      value->numerator = stats->positive;
      big_add(&value->numerator, &stats->negative);
    } else if (op == SUMAC_NORM2) {
      value->numerator = stats->square;
      value->root = 1;
    } else if (n > 0) {
      oracle_number x = stats->largest;
      x.negative = 0;
      return set_number(value, x);
    }
    return SUMAC_OK;
  }

  int below = big_compare(&stats->positive, &stats->negative) < 0;
  oracle_big sum = below ? big_subtract(&stats->negative, &stats->positive)
                         : big_subtract(&stats->positive, &stats->negative);
  if (op == SUMAC_VAR || op == SUMAC_STD) {
    if (infinite || ddof < 0 || (uint64_t)ddof >= n) return set_class(value, ORACLE_NAN, 0);
    oracle_big count = big_from(n), divisor = big_from(n - (uint64_t)ddof);
    oracle_big squares = big_multiply(&count, &stats->square), sum_squared = big_multiply(&sum, &sum);
    squares = big_shift_words(&squares, UNIT / 32);
    value->numerator = big_subtract(&squares, &sum_squared);
    value->denominator = big_multiply(&count, &divisor);
    value->unit = 2 * UNIT;
    value->root = op == SUMAC_STD;
    return SUMAC_OK;
  }

  /* SUM, DOT, MEAN */
  if (stats->plus_inf != 0 && stats->minus_inf != 0) return set_class(value, ORACLE_NAN, 0);
  if (infinite) return set_class(value, ORACLE_INF, stats->minus_inf != 0);
  if (op == SUMAC_MEAN) {
    if (n == 0) return set_class(value, ORACLE_NAN, 0);
    value->denominator = big_from(n);
  }
  value->numerator = sum;
  value->negative = below || (n > 0 && stats->minus_zero == n);
  return SUMAC_OK;
}

/* Compares the value's magnitude with (a + b)/2, where a and b are m·2^e and in [0, 2^1025). */
static int compare_with_mean(const oracle_value *value, oracle_number a, oracle_number b) {
  int unit = UNIT / 2; /* the least mean is 2^-1075 */
  oracle_big x = {{0}};
  big_add_at(&x, a.m, a.e + unit - 1);
  big_add_at(&x, b.m, b.e + unit - 1);
  if (value->root) {
    x = big_multiply(&x, &x);
    unit *= 2;
  }
  x = big_multiply(&x, &value->denominator);
  x = big_shift_words(&x, (value->unit - unit) / 32);
  return big_compare(&value->numerator, &x);
}

/* The magnitude with a given code, where codes count the magnitudes of a type upwards from 0. One more
 * than the largest is the number that the type would hold next. */
static oracle_number magnitude(sumac_dtype dtype, const float_format *f, uint64_t code, int one_more) {
  if (f == NULL) {
    oracle_number x = {ORACLE_FINITE, 0, code, 0};
    if (one_more && code == UINT64_MAX) return (oracle_number){ORACLE_FINITE, 0, 1, 64};
    x.m += (uint64_t)one_more;
    return x;
  }
  oracle_number x = oracle_decode(dtype, code);
  x.m += (uint64_t)one_more;
  return x;
}

sumac_status oracle_round(const oracle_value *value, sumac_dtype dtype, uint32_t flags, uint64_t *bits) {
  const float_format *f = format_of(dtype);
  int negative = value->negative;
  uint64_t largest = f != NULL                       ? f->largest
                     : dtype.code == SUMAC_I8.code   ? low_bits(dtype.bits - 1) + (uint64_t)negative
                     : negative                      ? 0
                     : dtype.code == SUMAC_BOOL.code ? 1
                                                     : low_bits(dtype.bits);
  uint64_t sign = f != NULL && negative ? (uint64_t)1 << (dtype.bits - 1) : 0;
  uint64_t code = largest;
  int beyond = value->class != ORACLE_FINITE;

  if (value->class == ORACLE_NAN) {
    *bits = f != NULL ? f->nan : 0;
    return f != NULL ? SUMAC_OK : SUMAC_ERR_RANGE;
  }
  if (value->class == ORACLE_FINITE) {
    /* the largest code whose magnitude does not exceed the value's */
    uint64_t low = 0, high = largest;
    while (low < high) {
      uint64_t middle = high - (high - low) / 2;
      oracle_number x = magnitude(dtype, f, middle, 0);
      if (compare_with_mean(value, x, x) >= 0)
        low = middle;
      else
        high = middle - 1;
    }
    int order = compare_with_mean(value, magnitude(dtype, f, low, 0), magnitude(dtype, f, low, 1));
    int up = order > 0 || (order == 0 && low % 2 == 1);
    beyond = up && low == largest;
    code = beyond ? low : low + (uint64_t)up;
  }
  if (f == NULL) {
    *bits = (negative ? 0 - code : code) & low_bits(dtype.bits);
    return beyond && !(value->class == ORACLE_FINITE && flags & SUMAC_SATURATE) ? SUMAC_ERR_RANGE : SUMAC_OK;
  }
  *bits = sign | code;
  if (beyond && !(value->class == ORACLE_FINITE && flags & SUMAC_SATURATE))
    *bits = f->has_inf ? sign | (largest + 1) : f->nan;
  return SUMAC_OK;
}

sumac_status oracle_result(const oracle_stats *stats, sumac_op op, uint32_t flags, int64_t ddof,
                           sumac_dtype dtype, uint64_t *bits) {
  oracle_value value;
  sumac_status status = oracle_finish(stats, op, flags, ddof, &value);
  return status != SUMAC_OK ? status : oracle_round(&value, dtype, flags, bits);
}

/* ---- views ---------------------------------------------------------------------------------- */

static unsigned char *address(const sumac_tensor *t, const int64_t *index) {
  int64_t at = 0, dense = 1;
  for (int32_t i = t->ndim - 1; i >= 0; i--) {
    at += index[i] * (t->strides != NULL ? t->strides[i] : dense);
    dense *= t->shape[i];
  }
  return (unsigned char *)t->data + t->byte_offset + at * (t->dtype.bits / 8);
}

uint64_t oracle_load(const sumac_tensor *t, const int64_t *index) {
  const unsigned char *p = address(t, index);
  uint64_t bits = 0;
  for (int i = 0; i < t->dtype.bits / 8; i++) bits |= (uint64_t)p[i] << (8 * i);
  return bits;
}

void oracle_store(const sumac_tensor *t, const int64_t *index, uint64_t bits) {
  unsigned char *p = address(t, index);
  for (int i = 0; i < t->dtype.bits / 8; i++) p[i] = (unsigned char)(bits >> (8 * i));
}

int oracle_next(int32_t ndim, const int64_t *shape, int64_t *index) {
  for (int32_t i = ndim - 1; i >= 0; i--) {
    if (++index[i] < shape[i]) return 1;
    index[i] = 0;
  }
  return 0;
}

/* Starts a walk; 0 when there is nothing to walk over. */
static int walk(int32_t ndim, const int64_t *shape, int64_t *index) {
  for (int32_t i = 0; i < ndim; i++) {
    index[i] = 0;
    if (shape[i] == 0) return 0;
  }
  return 1;
}

sumac_status oracle_reduce(sumac_op op, const sumac_tensor *x, const sumac_tensor *y,
                           const sumac_options *options, const sumac_tensor *out) {
  static const sumac_options defaults;
  const sumac_options *o = options != NULL ? options : &defaults;
  int reduced[SUMAC_MAX_DIMS] = {0};
  for (int32_t i = 0; i < x->ndim; i++) reduced[i] = o->axes == NULL;
  for (int32_t i = 0; o->axes != NULL && i < o->naxes; i++)
    reduced[o->axes[i] < 0 ? o->axes[i] + x->ndim : o->axes[i]] = 1;

  /* the same rank twice: kept axes walk in `outer`, reduced ones in `inner`, the others have length 1 */
  int64_t outer[SUMAC_MAX_DIMS], inner[SUMAC_MAX_DIMS], i[SUMAC_MAX_DIMS], j[SUMAC_MAX_DIMS];
  int64_t at[SUMAC_MAX_DIMS], to[SUMAC_MAX_DIMS];
  for (int32_t d = 0; d < x->ndim; d++) {
    outer[d] = reduced[d] ? 1 : x->shape[d];
    inner[d] = reduced[d] ? x->shape[d] : 1;
  }
  oracle_stats *stats = malloc(sizeof *stats);
  sumac_status status = SUMAC_OK;
  for (int more = walk(x->ndim, outer, i); more; more = oracle_next(x->ndim, outer, i)) {
    oracle_clear(stats);
    for (int next = walk(x->ndim, inner, j); next; next = oracle_next(x->ndim, inner, j)) {
      for (int32_t d = 0; d < x->ndim; d++) at[d] = i[d] + j[d];
      if (y != NULL)
        oracle_add_product(stats, x->dtype, oracle_load(x, at), oracle_load(y, at), 1);
      else
        oracle_add(stats, x->dtype, oracle_load(x, at), 1);
    }
    int32_t rank = 0;
    for (int32_t d = 0; d < x->ndim; d++)
      if (!reduced[d] || o->flags & SUMAC_KEEPDIMS) to[rank++] = i[d];
    uint64_t bits = 0;
    sumac_status one = oracle_result(stats, op, o->flags, o->ddof, out->dtype, &bits);
    if (one == SUMAC_ERR_EMPTY) {
      status = one;
      break;
    }
    if (one != SUMAC_OK) status = one;
    oracle_store(out, to, bits);
  }
  free(stats);
  return status;
}
