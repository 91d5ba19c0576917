/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs that have broken exact or careful sums before, or that sit on an edge of how the library works.
 * Where the right value is known it is written down, and the oracle has to know it as well.
 */
#include "data.h"
#include "everywhere.h"
#include "oracle/oracle.h"
#include "view.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define D 0x1p-1074 /* the least f64 */
#define MAX_TERMS 16

typedef struct known_sum {
  double want;
  int n;
  double x[MAX_TERMS];
} known_sum;

static const known_sum known_sums[] = {
    /* sums whose intermediates overflow */
    {0.30000000000000004, 9, {1e308, 1e308, .1, .1, 1e30, .1, -1e30, -1e308, -1e308}},
    {1e308, 3, {1e308, 1e308, -1e308}},
    {0, 4, {1e308, 1e308, -1e308, -1e308}},
    {0, 4, {1e308, -1e308, 1e308, -1e308}},
    /* from test262: each has exercised a bug in a real implementation */
    {9.9792015476736e291, 3, {8.98846567431158e307, 8.988465674311579e307, -1.7976931348623157e308}},
    {9.565271205476347e307, 3, {-5.630637621603525e255, 9.565271205476345e307, 2.9937604643020797e292}},
    {1.61796594939028e308,
     9,
     {6.739986666787661e66, 2, -1.2689709186578243e-116, 1.7046015739467354e308, -9.979201547673601e291,
      6.160926733208294e307, -3.179557053031852e234, -7.027282978772846e307, -0.7500000000000001}},
    {-INFINITY,
     15,
     {0.31150493246968836, -8.988465674311582e307, 1.8315037361673755e-270, -15.999999999999996,
      2.9999999999999996, 7.345200721499384e164, -2.033582473639399, -8.98846567431158e307,
      -3.5737295155405993e292, 4.13894772383715e-124, -3.6111186457260667e-35, 2.387234887098013e180,
      7.645295562778372e-298, 3.395189016861822e-103, -2.6331611115768973e-149}},
    {-1.5936821971565685e308,
     5,
     {-1.1442589134409902e308, 9.593842098384855e138, 4.494232837155791e307, -1.3482698511467367e308,
      4.494232837155792e307}},
    {-1.5936821971565687e308,
     4,
     {-1.1442589134409902e308, 4.494232837155791e307, -1.3482698511467367e308, 4.494232837155792e307}},
    {-1.5936821971565685e308,
     4,
     {9.593842098384855e138, -6.948356297254111e307, -1.3482698511467367e308, 4.494232837155792e307}},
    {1.7976931348623157e308, 3, {-2.534858246857893e115, 8.988465674311579e307, 8.98846567431158e307}},
    {INFINITY, 3, {1.3588124894186193e308, 1.4803986201152006e223, 6.741349255733684e307}},
    {INFINITY, 3, {6.741349255733684e307, 1.7976931348623155e308, -7.388327292663961e41}},
    {1.7976931348623157e308, 3, {-1.9807040628566093e28, 1.7976931348623157e308, 9.9792015476736e291}},
    {1.7976931348623157e308,
     4,
     {-1.0214557991173964e61, 1.7976931348623157e308, 8.98846567431158e307, -8.988465674311579e307}},
    {INFINITY,
     5,
     {1.7976931348623157e308, 7.999999999999999, -1.908963895403937e-230, 1.6445950082320264e292,
      2.0734856707605806e205}},
    {-INFINITY, 3, {6.197409167220438e-223, -9.979201547673601e291, -1.7976931348623157e308}},
    {8.353845887521184e307,
     6,
     {4.49423283715579e307, 8.944251746776101e307, -0.0002441406250000001, 1.1752060710043817e308,
      4.940846717201632e292, -1.6836699406454528e308}},
    {-1.7976931348623157e308,
     6,
     {8.988465674311579e307, 7.999999999999998, 7.029158107234023e-308, -2.2303483759420562e-172,
      -1.7976931348623157e308, -8.98846567431158e307}},
    {INFINITY, 2, {8.98846567431158e307, 8.98846567431158e307}},
    /* ties to even, and what decides them from far below */
    {1, 2, {1, 0x1p-53}},
    {1 + 0x1p-51, 2, {1 + 0x1p-52, 0x1p-53}},
    {1 + 0x1p-52, 3, {1, 0x1p-53, 0x1p-106}},
    {1, 3, {1, 0x1p-53, -0x1p-106}},
    {1 + 0x1p-52, 3, {1, 0x1p-53, D}},
    {1, 3, {1, 0x1p-53, -D}},
    {-1 - 0x1p-52, 3, {-1, -0x1p-53, -D}},
    {0x1p53, 2, {0x1p53, 1}},
    {0x1p53 + 2, 3, {0x1p53, 1, D}},
    {0x1p53 + 4, 2, {0x1p53 + 2, 1}},
    {10000000000000002, 3, {1e16, 1, 1e-16}},
    {0, 4, {1e16 - 2, 1 - 0x1p-53, -(1e16 - 2), -(1 - 0x1p-53)}},
    /* the edge of overflow: 2^1024 − 2^970 is halfway and rounds up */
    {-DBL_MAX, 2, {-DBL_MAX, -1}},
    {DBL_MAX, 3, {DBL_MAX, 0x1p970, -D}},
    {INFINITY, 2, {DBL_MAX, 0x1p970}},
    {-INFINITY, 2, {-DBL_MAX, -0x1p970}},
    {DBL_MAX, 3, {DBL_MAX, DBL_MAX, -DBL_MAX}},
    /* from CPython's testFsum */
    {0, 0, {0}},
    {0x1p53 - 1, 3, {0x1p53, -0.5, -0x1p-54}},
    {1e-100, 7, {1e100, 1, -1e100, 1e-100, 1e50, -1, -1e50}},
    {0x1p53 + 2, 3, {0x1p53, 1, 0x1p-100}},
    {0x1p53 + 12, 3, {0x1p53 + 10, 1, 0x1p-100}},
    {0x1p53 - 3, 3, {0x1p53 - 4, 0.5, 0x1p-54}},
    /* subnormals */
    {1239 * D, 4, {D, 7 * D, -3 * D, 1234 * D}},
    {DBL_MIN - D, 2, {DBL_MIN, -D}},
    {DBL_MIN, 2, {DBL_MIN - D, D}},
    {0, 2, {D, -D}},
    {3 * D, 3, {D, D, D}},
    /* specials */
    {NAN, 2, {INFINITY, -INFINITY}},
    {NAN, 2, {INFINITY, NAN}},
    {INFINITY, 3, {INFINITY, -DBL_MAX, -DBL_MAX}},
    {-INFINITY, 3, {DBL_MAX, DBL_MAX, -INFINITY}},
    {NAN, 5, {1, INFINITY, 2, -INFINITY, 3}},
    {-0.0, 1, {-0.0}},
    {-0.0, 3, {-0.0, -0.0, -0.0}},
    {0, 2, {-0.0, 0.0}},
    {0, 3, {1, -0.0, -1}},
};

static void same_double(double got, double want, const char *what, size_t at) {
  uint64_t nan = UINT64_C(0x7ff8000000000000);
  if (isnan(want) ? bits_of(got) != nan : bits_of(got) != bits_of(want))
    fail_msg("%s %zu: got %a, want %a", what, at, got, want);
}

static double oracle_f64(sumac_op op, const double *x, const double *y, int64_t n) {
  static oracle_stats stats;
  uint64_t bits = 0;
  oracle_clear(&stats);
  for (int64_t i = 0; i < n; i++) {
    if (y != NULL)
      oracle_add_product(&stats, SUMAC_F64, bits_of(x[i]), bits_of(y[i]), 1);
    else
      oracle_add(&stats, SUMAC_F64, bits_of(x[i]), 1);
  }
  assert_int_equal(oracle_result(&stats, op, 0, 0, SUMAC_F64, &bits), SUMAC_OK);
  return double_of(bits);
}

/* As they are, in reverse, and with the terms far apart in an array of zeros (the fast path's tiles). */
static void sums_that_are_known(void **state) {
  (void)state;
  static double spread[5000];
  for (size_t i = 0; i < sizeof known_sums / sizeof *known_sums; i++) {
    const known_sum *k = &known_sums[i];
    same_double(oracle_f64(SUMAC_SUM, k->x, NULL, k->n), k->want, "known sum, oracle", i);
    same_double(everywhere_f64(SUMAC_SUM, k->x, NULL, k->n), k->want, "known sum", i);
    double reversed[MAX_TERMS];
    for (int j = 0; j < k->n; j++) reversed[j] = k->x[k->n - 1 - j];
    same_double(everywhere_f64(SUMAC_SUM, reversed, NULL, k->n), k->want, "known sum reversed", i);
    for (size_t j = 0; j < 5000; j++) spread[j] = -0.0;
    for (int j = 0; j < k->n; j++) spread[(size_t)j * 331 + 7] = k->x[j];
    same_double(everywhere_f64(SUMAC_SUM, spread, NULL, 5000), k->n == 0 ? -0.0 : k->want, "known sum spread",
                i);
  }
}

static void sums_from_fsum(void **state) {
  (void)state;
  static double x[3000];
  for (int n = 1; n <= 1000; n++) x[n - 1] = 1. / n;
  same_double(everywhere_f64(SUMAC_SUM, x, NULL, 1000), 0x1.df11f45f4e61ap+2, "harmonic", 0);
  for (int n = 1; n <= 1000; n++) x[n - 1] = (n % 2 ? -1. : 1.) / n;
  same_double(everywhere_f64(SUMAC_SUM, x, NULL, 1000), -0x1.62a2af1bd3624p-1, "alternating", 0);
  int count = 0;
  for (int n = -1074; n < 971; n += 2) x[count++] = ldexp(1, n) - ldexp(1, n + 50) + ldexp(1, n + 52);
  x[count++] = -0x1p1022;
  same_double(everywhere_f64(SUMAC_SUM, x, NULL, count), 0x1.5555555555555p+970, "ladder", 0);
  double t = 1;
  for (int i = 0; i < 1000; i++, t *= 1.7) x[i] = t * 1.7 - t;
  x[1000] = -t;
  same_double(everywhere_f64(SUMAC_SUM, x, NULL, 1001), oracle_f64(SUMAC_SUM, x, NULL, 1001), "telescope", 0);
}

/* Two terms: the processor's own addition, one term: the term. */
static void few_terms(void **state) {
  (void)state;
  data_random random = {1};
  for (int i = 0; i < 20000; i++) {
    double x[3];
    int64_t n = 2;
    for (int j = 0; j < 3; j++) {
      uint64_t r = data_next(&random);
      if (j > 0 && i % 2) /* near the term before, where rounding happens */
        r = (bits_of(x[j - 1]) & UINT64_C(0x7ff0000000000000)) + (data_below(&random, 110) << 52) -
            (UINT64_C(55) << 52) + (r & UINT64_C(0x800fffffffffffff));
      x[j] = double_of(r);
      if (!isfinite(x[j])) x[j] = 1;
    }
    volatile double sum = x[0] + x[1];
    double got = 0;
    sumac_tensor t = tensor_of(SUMAC_F64, x, &n), out = scalar_of(SUMAC_F64, &got);
    assert_int_equal(sumac_reduce(NULL, SUMAC_SUM, &t, NULL, NULL, &out), SUMAC_OK);
    same_double(got, sum, "two terms", (size_t)i);
    n = 1;
    assert_int_equal(sumac_reduce(NULL, SUMAC_SUM, &t, NULL, NULL, &out), SUMAC_OK);
    same_double(got, x[0], "one term", (size_t)i);
    n = 3;
    assert_int_equal(sumac_reduce(NULL, SUMAC_SUM, &t, NULL, NULL, &out), SUMAC_OK);
    same_double(got, oracle_f64(SUMAC_SUM, x, NULL, 3), "three terms", (size_t)i);
    float f[2] = {(float)x[0], (float)x[1]}, f_got = 0;
    if (isfinite(f[0]) && isfinite(f[1])) {
      volatile float f_sum = f[0] + f[1];
      n = 2;
      t = tensor_of(SUMAC_F32, f, &n), out = scalar_of(SUMAC_F32, &f_got);
      assert_int_equal(sumac_reduce(NULL, SUMAC_SUM, &t, NULL, NULL, &out), SUMAC_OK);
      same_double(f_got, f_sum, "two floats", (size_t)i);
    }
  }
}

/* n = 0 … 65 ones and primes at every alignment: a tail that is dropped shows. */
static void tails(void **state) {
  (void)state;
  static const double primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
  uint64_t codes[66];
  for (int d = 0; d < DTYPES; d++)
    for (int64_t n = 0; n <= 65; n++) {
      for (int64_t i = 0; i < n; i++)
        codes[i] = data_code(dtypes[d], dtypes[d].bits == 8 ? 1 : primes[i % 16]);
      agree_with_oracle(SUMAC_SUM, dtypes[d], codes, NULL, n, 0, 0, SUMAC_F64);
      agree_with_oracle(SUMAC_DOT, dtypes[d], codes, codes, n, 0, 0, SUMAC_F64);
      for (int offset = 1; offset < 16; offset += n % 8 ? 7 : 1) {
        view v;
        view_make(&v, dtypes[d], 1, &n, NULL, offset);
        view_fill(&v, codes);
        double want = 0;
        for (int64_t i = 0; i < n; i++) want += dtypes[d].bits == 8 ? 1 : primes[i % 16];
        outcome got = everywhere(SUMAC_SUM, &v.tensor, NULL, 0, 0, SUMAC_F64);
        assert_int_equal(got.status, SUMAC_OK);
        same_double(double_of(got.bits), want, dtype_text(dtypes[d]), (size_t)n);
        view_free(&v);
      }
    }
}

/* The edges of a window whose top is 2^E: ±2^(E−1), ±(2^(E−1)−ulp), and the last bits of two folds. */
static void window_edges(void **state) {
  (void)state;
  static uint64_t x[2100], y[2100];
  data_random random = {7};
  for (int e = -1060; e <= 1024; e += 11)
    for (int round = 0; round < 2; round++) {
      int64_t n = round == 0 ? 40 : 2100;
      double top = ldexp(1, e - 1), below = nextafter(top, 0);
      const double edges[] = {top,
                              -top,
                              below,
                              -below,
                              ldexp(1, e - 104),
                              -ldexp(3, e - 105),
                              ldexp(1, e - 105),
                              ldexp(1, e - 53),
                              -ldexp(1, e - 52),
                              ldexp(3, e - 54)};
      for (int64_t i = 0; i < n; i++) {
        double filler = ldexp((double)data_below(&random, 2000) - 1000, e - 16);
        x[i] = bits_of(i % 7 == 3 ? edges[data_below(&random, 10)] : filler);
        y[i] = bits_of(i % 5 == 1 ? edges[data_below(&random, 10)] : filler);
      }
      agree_with_oracle(SUMAC_SUM, SUMAC_F64, x, NULL, n, 0, 0, SUMAC_F64);
      agree_with_oracle(SUMAC_NORM1, SUMAC_F64, x, NULL, n, 0, 0, SUMAC_F64);
      agree_with_oracle(SUMAC_NORM2, SUMAC_F64, x, NULL, n, 0, 0, SUMAC_F64);
      agree_with_oracle(SUMAC_VAR, SUMAC_F64, x, NULL, n, 0, 1, SUMAC_F64);
      agree_with_oracle(SUMAC_DOT, SUMAC_F64, x, y, n, 0, 0, SUMAC_F64);
    }
}

/* The same for the narrower floats: single bits all over the range, among others of one magnitude. */
static void window_edges_of_narrow_types(void **state) {
  (void)state;
  static uint64_t x[9000];
  data_random random = {8};
  for (int d = 1; d < 6; d++) {
    uint64_t sign = (uint64_t)1 << (dtypes[d].bits - 1), codes = dtypes[d].bits == 32   ? 255
                                                                 : dtypes[d].bits == 16 ? 256
                                                                                        : 127;
    for (uint64_t high = 0; high < codes; high += dtypes[d].bits == 8 ? 3 : 17)
      for (int round = 0; round < 2; round++) {
        int64_t n = round == 0 ? 50 : 9000;
        int shift = dtypes[d].bits == 32 ? 23 : dtypes[d].bits == 16 ? 7 : 0;
        for (int64_t i = 0; i < n; i++) {
          uint64_t near = (high + (i % 97 == 0 ? data_below(&random, codes) : 0)) % codes;
          x[i] = near << shift | (data_next(&random) & (((uint64_t)1 << shift) - 1));
          x[i] ^= data_next(&random) % 2 ? sign : 0;
        }
        agree_with_oracle(SUMAC_SUM, dtypes[d], x, NULL, n, 0, 0, SUMAC_F64);
        agree_with_oracle(SUMAC_SUM, dtypes[d], x, NULL, n, 0, 0, dtypes[d]);
        agree_with_oracle(SUMAC_NORM2, dtypes[d], x, NULL, n, 0, 0, SUMAC_F64);
        agree_with_oracle(SUMAC_DOT, dtypes[d], x, x + n / 2, n / 2, 0, 0, SUMAC_F64);
      }
  }
}

/* Many copies of the largest elements, by stride 0 and in memory: no lane may wrap unseen. */
static void accumulators_wrap(void **state) {
  (void)state;
  static const int64_t counts[] = {4095, 4096, 4097, 100000, (INT64_C(1) << 31) + 1};
  static oracle_stats stats;
  for (int d = 0; d < DTYPES; d++)
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
      for (int k = 0; k < 4; k++) {
        double values[] = {DBL_MAX, -DBL_MAX, 0.1, -1};
        uint64_t bits = 0, code = k < 2 && !dtype_is_float(dtypes[d]) ? (uint64_t)1 << (dtypes[d].bits - 1)
                                                                      : data_code(dtypes[d], values[k]);
        code -= k == 0 && !dtype_is_float(dtypes[d]);
        int64_t shape[1] = {counts[c]}, stride[1] = {0};
        sumac_tensor t = tensor_of(dtypes[d], &code, shape);
        t.strides = stride;
        oracle_clear(&stats);
        oracle_add(&stats, dtypes[d], code, (uint64_t)counts[c]);
        for (int op = SUMAC_SUM; op <= SUMAC_NORM2; op++) {
          if (op == SUMAC_DOT) continue;
          outcome got = everywhere((sumac_op)op, &t, NULL, 0, 0, SUMAC_F64);
          assert_int_equal(oracle_result(&stats, (sumac_op)op, 0, 0, SUMAC_F64, &bits), SUMAC_OK);
          if (got.status != SUMAC_OK || got.bits != bits)
            fail_msg("%s of %lld copies of %s %#llx: got %#llx, want %#llx", op_text[op],
                     (long long)counts[c], dtype_text(dtypes[d]), (unsigned long long)code,
                     (unsigned long long)got.bits, (unsigned long long)bits);
        }
      }
  static uint64_t x[70000];
  for (int d = 0; d < DTYPES; d++)
    for (int k = 0; k < 2; k++) {
      uint64_t code = dtype_is_float(dtypes[d]) ? data_code(dtypes[d], k ? -DBL_MAX : DBL_MAX)
                                                : ((uint64_t)1 << (dtypes[d].bits - 1)) - (uint64_t)!k;
      for (int i = 0; i < 70000; i++) x[i] = code;
      agree_with_oracle(SUMAC_SUM, dtypes[d], x, NULL, 70000, 0, 0, SUMAC_F64);
      agree_with_oracle(SUMAC_MEAN, dtypes[d], x, NULL, 70000, 0, 0, SUMAC_F64);
      agree_with_oracle(SUMAC_NORM2, dtypes[d], x, NULL, 70000, 0, 0, SUMAC_F64);
      agree_with_oracle(SUMAC_DOT, dtypes[d], x, x, 70000, 0, 0, SUMAC_F64);
    }
}

/* The whole range of a type in every tile, so that sums go by exponent; then so many of its largest numbers
 * that one exponent's sum is full, subnormal numbers and zeros; then inf and NaN in the middle of it. */
static void whole_range(void **state) {
  (void)state;
  enum { N = 100000 };
  static uint64_t x[N], y[N];
  for (int d = 0; d < DTYPES; d++) {
    if (!dtype_is_float(dtypes[d])) continue;
    data_random random = {17};
    data_codes(dtypes[d], DATA_WIDE, &random, x, N);
    data_codes(dtypes[d], DATA_WIDE, &random, y, N);
    for (int i = 0; i < 9000; i++) {
      x[40000 + i] = data_code(dtypes[d], i % 3 ? DBL_MAX : -DBL_MAX);
      x[50000 + i] = data_below(&random, 3);
    }
    for (int specials = 0; specials < 4; specials++) {
      if (specials) x[60000 + specials] = data_code(dtypes[d], specials == 1 ? NAN : INFINITY);
      if (specials == 2) x[60001] = 0; /* in place of the NaN */
      if (specials == 3) x[60004] = data_code(dtypes[d], -INFINITY);
      for (int op = SUMAC_SUM; op <= SUMAC_NORM2; op++)
        agree_with_oracle((sumac_op)op, dtypes[d], x, op == SUMAC_DOT ? y : NULL, N, 0, 0, SUMAC_F64);
    }
  }
}

/* Every code of the types of 16 and 8 bits once: with the NaNs, without them, and the finite ones alone. */
static void every_code(void **state) {
  (void)state;
  static uint64_t x[65536], y[65536];
  for (int d = 2; d < DTYPES; d++) {
    if (dtypes[d].bits > 16) continue;
    int64_t n = (int64_t)1 << dtypes[d].bits, finite = 0;
    for (int64_t i = 0; i < n; i++) x[i] = (uint64_t)i;
    for (int op = 0; op < OPS; op++)
      for (uint32_t flags = 0; flags < 4; flags += SUMAC_SKIP_NAN)
        agree_with_oracle((sumac_op)op, dtypes[d], x, x, n, flags, 0, SUMAC_F64);
    for (int64_t i = 0; i < n; i++)
      if (oracle_decode(dtypes[d], (uint64_t)i).class == ORACLE_FINITE) x[finite++] = (uint64_t)i;
    for (int64_t i = 0; i < finite; i++) y[i] = x[finite - 1 - i];
    for (int op = 0; op < OPS; op++) {
      agree_with_oracle((sumac_op)op, dtypes[d], x, y, finite, 0, 1, SUMAC_F64);
      agree_with_oracle((sumac_op)op, dtypes[d], x, y, finite / 2, 0, 1, SUMAC_F32);
      if (dtypes[d].code != SUMAC_BOOL.code)
        agree_with_oracle((sumac_op)op, dtypes[d], x, y, finite / 2, SUMAC_SATURATE, 1, dtypes[d]);
    }
    for (int64_t i = 0; i < finite; i++) { /* each one alone */
      uint64_t alone = 0;
      int64_t one = 1;
      sumac_tensor t = tensor_of(dtypes[d], &x[i], &one), out = scalar_of(dtypes[d], &alone);
      if (dtypes[d].code == SUMAC_BOOL.code) break;
      assert_int_equal(sumac_reduce(NULL, SUMAC_SUM, &t, NULL, NULL, &out), SUMAC_OK);
      assert_int_equal(alone, x[i]);
    }
  }
}

static void dots_that_are_known(void **state) {
  (void)state;
  static const struct {
    double want;
    int n;
    double x[4], y[4];
  } dots[] = {
      {1, 3, {1e200, 1e200, 1}, {1e200, -1e200, 1}}, /* products overflow and cancel */
      {0, 4, {1e154, 1e154, 1e154, 1e154}, {1e154, 1e154, -1e154, -1e154}},
      {INFINITY, 1, {1e200}, {1e200}},
      {-INFINITY, 1, {1e200}, {-1e200}},
      {0, 1, {1e-200}, {1e-200}}, /* underflows, keeping its sign */
      {-0.0, 1, {1e-200}, {-1e-200}},
      {0x1p-1074, 2, {0x1p-537, 0x1p-600}, {0x1p-538, 0x1p-600}}, /* half the least number and a trifle */
      {0, 1, {0x1p-537}, {0x1p-538}},
      {0x1p-1074, 1, {0x1.8p-537}, {0x1p-538}},
      {0x1p-1022, 2, {0x1p-511, 0x1p-1074}, {0x1p-511, 0x1p-1074}},
      {0x1p-104, 2, {1 + 0x1p-52, -1}, {1 + 0x1p-52, 1 + 0x1p-51}}, /* what one fma would show */
      {NAN, 1, {INFINITY}, {0}},
      {NAN, 2, {INFINITY, 1}, {-0.0, 1}},
      {NAN, 2, {INFINITY, INFINITY}, {1, -1}},
      {NAN, 2, {INFINITY, NAN}, {1, 1}},
      {-INFINITY, 2, {INFINITY, DBL_MAX}, {-1, DBL_MAX}},
      {-0.0, 2, {-0.0, 0.0}, {1, -1}},
      {0, 2, {-0.0, 0.0}, {1, 1}},
      {0, 2, {1, -1}, {1, 1}},
      {0, 0, {0}, {0}},
  };
  for (size_t i = 0; i < sizeof dots / sizeof *dots; i++) {
    same_double(oracle_f64(SUMAC_DOT, dots[i].x, dots[i].y, dots[i].n), dots[i].want, "known dot, oracle", i);
    same_double(everywhere_f64(SUMAC_DOT, dots[i].x, dots[i].y, dots[i].n), dots[i].want, "known dot", i);
    same_double(everywhere_f64(SUMAC_DOT, dots[i].y, dots[i].x, dots[i].n), dots[i].want, "known dot swapped",
                i);
  }
}

/* Ogita, Rump and Oishi 2005, algorithm 6.1: dot products of a wanted condition number; y = 1 in effect for
 * sums. Exponents climb, then the terms cancel what has gathered. */
static void ill_conditioned(void **state) {
  (void)state;
  enum { N = 600 };
  static double x[N], y[N];
  static uint64_t a[N], b[N];
  data_random random = {99};
  for (int half = 13; half <= 500; half = half * 2 - 3) {
    for (int i = 0; i < N; i++) {
      int e = i < N / 2 ? (i == 0   ? half
                           : i == 1 ? 0
                                    : (int)data_below(&random, (uint64_t)half + 1))
                        : half - half * (i - N / 2) / (N / 2 - 1);
      x[i] = ldexp((double)(int64_t)data_next(&random), e - 63);
      double sum = i < N / 2 ? 0 : oracle_f64(SUMAC_DOT, x, y, i),
             r = ldexp((double)(int64_t)data_next(&random), e - 63);
      y[i] = i < N / 2 ? r : (r - sum) / x[i];
    }
    for (int i = N; i > 1; i--) {
      int j = (int)data_below(&random, (uint64_t)i);
      double s = x[i - 1], t = y[i - 1];
      x[i - 1] = x[j], y[i - 1] = y[j];
      x[j] = s, y[j] = t;
    }
    for (int i = 0; i < N; i++) {
      a[i] = bits_of(x[i]), b[i] = bits_of(y[i]);
      double p = x[i] * y[i];
      y[i] = isfinite(p) ? p : 0;
    }
    agree_with_oracle(SUMAC_DOT, SUMAC_F64, a, b, N, 0, 0, SUMAC_F64);
    same_double(everywhere_f64(SUMAC_SUM, y, NULL, N), oracle_f64(SUMAC_SUM, y, NULL, N),
                "ill-conditioned sum", (size_t)half);
  }
  /* Anderson 1999: what is left when the rounded mean is taken away */
  double mean;
  for (int i = 0; i < N; i++) x[i] = (double)(data_next(&random) >> 11) * 0x1p-53;
  mean = everywhere_f64(SUMAC_MEAN, x, NULL, N);
  for (int i = 0; i < N; i++) x[i] -= mean;
  same_double(everywhere_f64(SUMAC_SUM, x, NULL, N), oracle_f64(SUMAC_SUM, x, NULL, N), "Anderson", 0);
}

/* NIST StRD NumAcc1 to NumAcc4: certified for the decimal data; binary64 holds those to 15 digits or so. */
static void nist(void **state) {
  (void)state;
  static const struct {
    int n;
    double first, low, high, mean, deviation;
  } sets[] = {{3, 10000001, 10000003, 10000002, 10000002, 1},
              {1001, 1.2, 1.1, 1.3, 1.2, 0.1},
              {1001, 1000000.2, 1000000.1, 1000000.3, 1000000.2, 0.1},
              {1001, 10000000.2, 10000000.1, 10000000.3, 10000000.2, 0.1}};
  static double x[1001];
  static uint64_t codes[1001];
  for (size_t s = 0; s < 4; s++) {
    for (int i = 0; i < sets[s].n; i++) {
      x[i] = i == 0 ? sets[s].first : i % 2 ? sets[s].low : sets[s].high;
      codes[i] = bits_of(x[i]);
    }
    double mean = everywhere_f64(SUMAC_MEAN, x, NULL, sets[s].n), deviation = 0;
    sumac_options options = {.ddof = 1};
    int64_t n = sets[s].n;
    sumac_tensor t = tensor_of(SUMAC_F64, x, &n), out = scalar_of(SUMAC_F64, &deviation);
    assert_int_equal(sumac_reduce(NULL, SUMAC_STD, &t, NULL, &options, &out), SUMAC_OK);
    assert_true(fabs(mean - sets[s].mean) <= 1e-15 * sets[s].mean);
    /* the data are off by half an ulp, and so may be their deviation */
    assert_true(fabs(deviation - sets[s].deviation) <= 0x1p-53 * sets[s].mean);
    agree_with_oracle(SUMAC_MEAN, SUMAC_F64, codes, NULL, n, 0, 0, SUMAC_F64);
    agree_with_oracle(SUMAC_STD, SUMAC_F64, codes, NULL, n, 0, 1, SUMAC_F64);
  }
}

/* Halfway cases of every output type, reached from below and above by a trifle that a detour by f64 or f32
 * would lose. */
static void rounded_once(void **state) {
  (void)state;
  static const int precisions[] = {53, 24, 11, 8, 4, 3};
  for (int d = 0; d < 6; d++)
    for (int odd = 0; odd < 2; odd++)
      for (int trifle = -1; trifle <= 1; trifle++)
        for (int e = -5; e <= 5; e++) {
          int p = precisions[d];
          double x[3] = {ldexp(1 + odd * ldexp(1, 1 - p), e), ldexp(1, e - p), trifle * 0x1p-1000};
          double up = x[0] + ldexp(1, e + 1 - p), want = trifle > 0 || (trifle == 0 && odd) ? up : x[0];
          uint64_t got = everywhere_bits(SUMAC_SUM, SUMAC_F64, x, NULL, 3, dtypes[d]);
          if (got != data_code(dtypes[d], want))
            fail_msg("%a + %a + %a to %s: %#llx", x[0], x[1], x[2], dtype_text(dtypes[d]),
                     (unsigned long long)got);
        }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_that_are_known), cmocka_unit_test(sums_from_fsum),
      cmocka_unit_test(few_terms),           cmocka_unit_test(tails),
      cmocka_unit_test(window_edges),        cmocka_unit_test(window_edges_of_narrow_types),
      cmocka_unit_test(accumulators_wrap),   cmocka_unit_test(whole_range),
      cmocka_unit_test(every_code),          cmocka_unit_test(dots_that_are_known),
      cmocka_unit_test(ill_conditioned),     cmocka_unit_test(nist),
      cmocka_unit_test(rounded_once),
  };
  return cmocka_run_group_tests_name("hard cases", tests, NULL, NULL);
}
