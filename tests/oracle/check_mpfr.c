/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the oracle against MPFR: decoding of every code of the small types and of random codes of the
 * others, and every operation, input and output type on random data. Sums are held by MPFR with enough
 * bits to be exact (mpfr_sum, mpfr_dot) and rounded by it once, with mpfr_subnormalize.
 */
#include "oracle.h"

#include "../data.h"

#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_BITS 9000 /* (Σx)² and n·Σx² of any f64 data fit */
#define MAX_N 40

static long failures;

/* The value of an element by MPFR's own means: from the C types where there are such. */
static void set_element(mpfr_t r, sumac_dtype dtype, uint64_t bits) {
  if (dtype.code == 2 && dtype.bits == 64) {
    double d;
    memcpy(&d, &bits, 8);
    mpfr_set_d(r, d, MPFR_RNDN);
  } else if ((dtype.code == 2 && dtype.bits == 32) || dtype.code == 4) {
    uint32_t wide = dtype.code == 4 ? (uint32_t)bits << 16 : (uint32_t)bits;
    float f;
    memcpy(&f, &wide, 4);
    mpfr_set_flt(r, f, MPFR_RNDN);
  } else if (dtype.code == 2 || dtype.code == 10 || dtype.code == 12) {
    /* No C type that every compiler has: by the definition of the format. */
    int mantissa = dtype.code == 2 ? 10 : dtype.code == 10 ? 3 : 2, bias = dtype.code == 10 ? 7 : 15;
    long ones = 2 * bias + 1, field = (long)(bits >> mantissa) & ones, top = 1L << mantissa;
    long fraction = (long)bits & (top - 1);
    if (field == ones && (dtype.code == 10 ? fraction == top - 1 : fraction != 0))
      mpfr_set_nan(r);
    else if (field == ones && dtype.code != 10)
      mpfr_set_inf(r, 1);
    else
      mpfr_set_si_2exp(r, field == 0 ? fraction : fraction + top, (field == 0 ? 1 : field) - bias - mantissa,
                       MPFR_RNDN);
    mpfr_setsign(r, r, bits >> (dtype.bits - 1) & 1, MPFR_RNDN);
  } else if (dtype.code == 6) {
    mpfr_set_ui(r, bits != 0, MPFR_RNDN);
  } else if (dtype.code == 1) {
    mpfr_set_uj(r, bits, MPFR_RNDN);
  } else {
    int shift = 64 - dtype.bits;
    mpfr_set_sj(r, (int64_t)(bits << shift) >> shift, MPFR_RNDN);
  }
}

/* Precision, the exponents e of MPFR (0.1… · 2^e) of the least subnormal and the largest number. */
static void float_limits(sumac_dtype dtype, int *precision, long *emin, long *emax) {
  static const struct {
    uint8_t code, bits;
    int precision;
    long emin, emax;
  } rows[] = {{2, 64, 53, -1073, 1024}, {2, 32, 24, -148, 128}, {2, 16, 11, -23, 16},
              {4, 16, 8, -132, 128},    {10, 8, 4, -8, 9},      {12, 8, 3, -15, 16}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].code == dtype.code && rows[i].bits == dtype.bits)
      *precision = rows[i].precision, *emin = rows[i].emin, *emax = rows[i].emax;
}

/* exact, held without rounding error, to the bits of a float type */
static uint64_t float_bits(mpfr_t exact, sumac_dtype dtype, uint32_t flags) {
  int precision = 0;
  long emin = 0, emax = 0;
  float_limits(dtype, &precision, &emin, &emax);
  mpfr_t r;
  mpfr_init2(r, precision);
  int ternary = mpfr_set(r, exact, MPFR_RNDN);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  ternary = mpfr_check_range(r, ternary, MPFR_RNDN);
  mpfr_subnormalize(r, ternary, MPFR_RNDN);
  mpfr_set_emin(mpfr_get_emin_min());
  mpfr_set_emax(mpfr_get_emax_max());

  int mantissa = precision - 1, e4m3 = dtype.code == 10;
  uint64_t sign = (uint64_t)(mpfr_signbit(r) != 0) << (dtype.bits - 1);
  uint64_t top = ((uint64_t)1 << (dtype.bits - 1)) - ((uint64_t)1 << mantissa); /* code of inf */
  uint64_t nan = e4m3 ? 0x7f : top | (uint64_t)1 << (mantissa - 1);
  uint64_t largest = e4m3 ? 0x7e : top - 1, bits;
  if (mpfr_nan_p(r)) {
    bits = nan;
  } else if (mpfr_zero_p(r)) {
    bits = sign;
  } else if (mpfr_inf_p(r) || (e4m3 && mpfr_cmpabs_ui(r, 448) > 0)) {
    int clamp = (flags & SUMAC_SATURATE) != 0 && mpfr_number_p(exact);
    bits = clamp ? sign | largest : e4m3 ? nan : sign | top;
  } else {
    mpfr_exp_t e = mpfr_get_exp(r); /* |r| in [2^(e-1), 2^e) */
    long least = emin + mantissa;   /* of the normal numbers */
    mpfr_abs(r, r, MPFR_RNDN);
    mpfr_mul_2si(r, r, mantissa - (e < least ? least - 1 : e - 1), MPFR_RNDN);
    uint64_t m = mpfr_get_uj(r, MPFR_RNDN);
    bits = sign | (e < least ? m : m + ((uint64_t)(e - least) << mantissa));
  }
  mpfr_clear(r);
  return bits;
}

static sumac_status int_bits(mpfr_t exact, sumac_dtype dtype, uint32_t flags, uint64_t *bits) {
  if (mpfr_nan_p(exact)) {
    *bits = 0;
    return SUMAC_ERR_RANGE;
  }
  mpfr_t r, low, high;
  mpfr_inits2(EXACT_BITS, r, low, high, (mpfr_ptr)0);
  int is_signed = dtype.code == 0, width = dtype.code == 6 ? 1 : dtype.bits;
  mpfr_set_ui_2exp(high, 1, width - is_signed, MPFR_RNDN);
  mpfr_neg(low, high, MPFR_RNDN);
  if (!is_signed) mpfr_set_ui(low, 0, MPFR_RNDN);
  mpfr_sub_ui(high, high, 1, MPFR_RNDN);
  mpfr_roundeven(r, exact);
  int below = mpfr_less_p(r, low), above = mpfr_greater_p(r, high);
  if (below || above) mpfr_set(r, below ? low : high, MPFR_RNDN);
  uint64_t mask = dtype.bits == 64 ? UINT64_MAX : ((uint64_t)1 << dtype.bits) - 1;
  *bits = (mpfr_sgn(r) < 0 ? (uint64_t)mpfr_get_sj(r, MPFR_RNDN) : mpfr_get_uj(r, MPFR_RNDN)) & mask;
  int error = (below || above) && !(flags & SUMAC_SATURATE && mpfr_number_p(exact));
  mpfr_clears(r, low, high, (mpfr_ptr)0);
  return error ? SUMAC_ERR_RANGE : SUMAC_OK;
}

/* The operation in MPFR's terms. The specials follow from IEEE arithmetic, as MPFR does it, and from
 * the words of sumac.h where that says more. */
static void exact_result(mpfr_t r, sumac_op op, int floats, mpfr_ptr *x, mpfr_ptr *y, unsigned n, long ddof) {
  mpfr_t square;
  mpfr_init2(square, EXACT_BITS);
  int nan = 0, inf = 0, minus_zeros = floats;
  for (unsigned i = 0; i < n; i++) {
    nan |= mpfr_nan_p(x[i]);
    inf |= mpfr_inf_p(x[i]);
    int negative = mpfr_signbit(x[i]) != (y != NULL && mpfr_signbit(y[i]));
    minus_zeros &= negative && (mpfr_zero_p(x[i]) || (y != NULL && mpfr_zero_p(y[i])));
  }
  switch (op) {
  case SUMAC_DOT: mpfr_dot(r, x, y, n, MPFR_RNDN); break;
  case SUMAC_SUM:
  case SUMAC_MEAN: mpfr_sum(r, x, n, MPFR_RNDN); break;
  case SUMAC_NORM1:
  case SUMAC_NORM2:
  case SUMAC_NORMINF:
    mpfr_set_ui(r, 0, MPFR_RNDN);
    for (unsigned i = 0; i < n; i++) {
      if (op == SUMAC_NORM2)
        mpfr_sqr(square, x[i], MPFR_RNDN);
      else
        mpfr_abs(square, x[i], MPFR_RNDN);
      if (op == SUMAC_NORMINF)
        mpfr_max(r, r, square, MPFR_RNDN);
      else
        mpfr_add(r, r, square, MPFR_RNDN);
    }
    if (op == SUMAC_NORM2) mpfr_sqrt(r, r, MPFR_RNDN);
    break;
  case SUMAC_VAR:
  case SUMAC_STD:
    mpfr_dot(square, x, x, n, MPFR_RNDN);
    mpfr_sum(r, x, n, MPFR_RNDN);
    mpfr_sqr(r, r, MPFR_RNDN);
    mpfr_mul_ui(square, square, n, MPFR_RNDN);
    mpfr_sub(r, square, r, MPFR_RNDN);
    mpfr_div_ui(r, r, n, MPFR_RNDN); /* by n = 0 for no elements: NaN, as wanted */
    mpfr_div_si(r, r, (long)n - ddof, MPFR_RNDN);
    if (op == SUMAC_STD) mpfr_sqrt(r, r, MPFR_RNDN);
    if (inf || (long)n <= ddof) mpfr_set_nan(r);
    break;
  case SUMAC_MIN:
  case SUMAC_MAX:
    mpfr_set(r, x[0], MPFR_RNDN);
    for (unsigned i = 1; i < n; i++) {
      int zeros = mpfr_zero_p(r) && mpfr_zero_p(x[i]);
      if (zeros)
        mpfr_setsign(r, r,
                     op == SUMAC_MIN ? mpfr_signbit(r) || mpfr_signbit(x[i])
                                     : mpfr_signbit(r) && mpfr_signbit(x[i]),
                     MPFR_RNDN);
      else
        (op == SUMAC_MIN ? mpfr_min : mpfr_max)(r, r, x[i], MPFR_RNDN);
    }
    break;
  case SUMAC_ARGMIN:
  case SUMAC_ARGMAX: {
    unsigned best = 0;
    for (unsigned i = 1; i < n && !mpfr_nan_p(x[best]); i++)
      if (mpfr_nan_p(x[i]) ||
          (op == SUMAC_ARGMIN ? mpfr_less_p(x[i], x[best]) : mpfr_greater_p(x[i], x[best])))
        best = i;
    mpfr_set_ui(r, best, MPFR_RNDN);
    break;
  }
  case SUMAC_PROD:
    mpfr_set_ui(r, 1, MPFR_RNDN);
    for (unsigned i = 0; i < n; i++) mpfr_mul(r, r, x[i], MPFR_RNDN);
    if (mpfr_zero_p(r) && !floats) mpfr_setsign(r, r, 0, MPFR_RNDN);
    break;
  case SUMAC_COUNT_NONZERO:
  case SUMAC_ANY:
  case SUMAC_ALL: {
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) count += !mpfr_zero_p(x[i]);
    mpfr_set_ui(r, op == SUMAC_COUNT_NONZERO ? count : op == SUMAC_ANY ? count > 0 : count == n, MPFR_RNDN);
    nan = 0;
    break;
  }
  }
  if (nan && op != SUMAC_ARGMIN && op != SUMAC_ARGMAX) mpfr_set_nan(r);
  if (mpfr_zero_p(r) && (op == SUMAC_SUM || op == SUMAC_DOT || op == SUMAC_MEAN))
    mpfr_setsign(r, r, n > 0 && minus_zeros, MPFR_RNDN);
  if (op == SUMAC_MEAN) mpfr_div_ui(r, r, n, MPFR_RNDN);
  mpfr_clear(square);
}

static void check(sumac_op op, sumac_dtype in, sumac_dtype out, const uint64_t *a, const uint64_t *b,
                  unsigned n, long ddof, uint32_t flags, mpfr_t *store, data_kind kind, uint64_t seed) {
  static oracle_stats stats;
  mpfr_ptr x[MAX_N], y[MAX_N];
  unsigned kept = 0;
  oracle_clear(&stats);
  for (unsigned i = 0; i < n; i++) {
    if (op == SUMAC_DOT)
      oracle_add_product(&stats, in, a[i], b[i], 1);
    else
      oracle_add(&stats, in, a[i], 1);
    set_element(store[2 * kept], in, a[i]);
    set_element(store[2 * kept + 1], in, b[i]);
    x[kept] = store[2 * kept];
    y[kept] = store[2 * kept + 1];
    int skipped = mpfr_nan_p(x[kept]) || (op == SUMAC_DOT && mpfr_nan_p(y[kept]));
    kept += !(flags & SUMAC_SKIP_NAN && skipped);
  }
  if ((op == SUMAC_ARGMIN || op == SUMAC_ARGMAX) && kept < n) return; /* MPFR's index counts what was kept */
  uint64_t got = 0, want = 0;
  sumac_status status = oracle_result(&stats, op, flags, ddof, out, &got), wanted = SUMAC_OK;
  if (kept == 0 && op >= SUMAC_MIN && op <= SUMAC_ARGMAX) {
    wanted = SUMAC_ERR_EMPTY;
  } else {
    /* Quotients and roots are not exact, but with 9000 bits none comes so near to a halfway case of
     * the output type, where it is not one, that a second rounding could go wrong. */
    mpfr_t r;
    mpfr_init2(r, EXACT_BITS);
    exact_result(r, op, dtype_is_float(in), x, op == SUMAC_DOT ? y : NULL, kept, ddof);
    if (out.code < 2 || out.code == 6)
      wanted = int_bits(r, out, flags, &want);
    else
      want = float_bits(r, out, flags);
    mpfr_clear(r);
  }
  if (status != wanted || (status != SUMAC_ERR_EMPTY && got != want)) {
    if (failures++ < 20)
      printf("%s %s -> %s, %s, n %u, ddof %ld, flags %u, seed %#llx: oracle %d %#llx, MPFR %d %#llx\n",
             op_text[op], dtype_text(in), dtype_text(out), data_kind_name(kind), n, ddof, flags,
             (unsigned long long)seed, status, (unsigned long long)got, wanted, (unsigned long long)want);
  }
}

static void check_decoding(sumac_dtype dtype, mpfr_t r) {
  data_random random = {42};
  for (uint64_t i = 0; i < 65536 && (dtype.bits > 8 || i < 256); i++) {
    uint64_t bits = dtype.bits <= 16 ? i : data_next(&random) >> (64 - dtype.bits);
    oracle_number x = oracle_decode(dtype, bits);
    set_element(r, dtype, bits);
    int right = x.class == ORACLE_NAN   ? mpfr_nan_p(r)
                : x.class == ORACLE_INF ? mpfr_inf_p(r) && x.negative == (mpfr_signbit(r) != 0)
                                        : x.negative == (mpfr_signbit(r) != 0);
    if (right && x.class == ORACLE_FINITE) {
      mpfr_mul_2si(r, r, -x.e, MPFR_RNDN);
      mpfr_abs(r, r, MPFR_RNDN);
      right = mpfr_integer_p(r) && mpfr_get_uj(r, MPFR_RNDN) == x.m;
    }
    if (!right && failures++ < 20)
      printf("decoding %s %#llx is wrong\n", dtype_text(dtype), (unsigned long long)bits);
  }
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 6;
  mpfr_t store[2 * MAX_N + 2];
  for (int i = 0; i < 2 * MAX_N + 2; i++) mpfr_init2(store[i], 64);
  long checks = 0;
  for (int in = 0; in < DTYPES; in++) check_decoding(dtypes[in], store[0]);
  for (int round = 0; round < rounds; round++)
    for (int in = 0; in < DTYPES; in++)
      for (int kind = 0; kind < DATA_KINDS; kind++) {
        uint64_t seed = (uint64_t)((round * DTYPES + in) * DATA_KINDS + kind), a[MAX_N], b[MAX_N];
        data_random random = {seed};
        unsigned n = (unsigned)(data_next(&random) % (MAX_N + 1));
        data_codes(dtypes[in], (data_kind)kind, &random, a, n);
        data_codes(dtypes[in], (data_kind)kind, &random, b, n);
        for (int op = SUMAC_SUM; op < OPS; op++)
          for (int out = 0; out < DTYPES; out++)
            for (uint32_t flags = 0; flags < 8; flags += SUMAC_SKIP_NAN, checks++)
              check((sumac_op)op, dtypes[in], dtypes[out], a, b, n, (long)(data_next(&random) % 3), flags,
                    store, (data_kind)kind, seed);
      }
  for (int i = 0; i < 2 * MAX_N + 2; i++) mpfr_clear(store[i]);
  printf("%ld checks of the oracle against MPFR, %ld differences\n", checks, failures);
  return failures != 0;
}
