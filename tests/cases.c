/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults that reductions elsewhere have had, each with the whole kind it belongs to. The names follow the
 * fault; the wanted values follow from integer arithmetic or are spelled out.
 *
 *   cases [nightly]     "nightly" adds an array of 2 GB
 *   cases cuda          what exists there on a CUDA device, too
 */
#include "data.h"
#include "everywhere.h"
#include "view.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void ok(sumac_status status) {
  if (status != SUMAC_OK) fail_msg("%s", sumac_error_message());
}

/* The value of a float or integer code. */
static double value(sumac_dtype dtype, uint64_t bits) {
  double d = 0;
  int64_t one = 1;
  sumac_tensor t = tensor_of(dtype, &bits, &one), out = scalar_of(SUMAC_F64, &d);
  ok(sumac_reduce(NULL, SUMAC_MAX, &t, NULL, NULL, &out));
  return d;
}

/* The operation over codes of a type, to f64. */
static double reduced(sumac_op op, sumac_dtype dtype, const uint64_t *codes, int64_t n) {
  view v;
  view_array(&v, dtype, codes, n);
  outcome got = everywhere(op, &v.tensor, op == SUMAC_DOT ? &v.tensor : NULL, 0, 0, SUMAC_F64);
  if (got.status != SUMAC_OK)
    fail_msg("%s of %lld %s: %s", op_text[op], (long long)n, dtype_text(dtype), sumac_error_message());
  view_free(&v);
  return double_of(got.bits);
}

/* Along axes, to doubles in row-major order. */
static void along(sumac_op op, const sumac_tensor *x, int32_t naxes, const int32_t *axes, uint32_t flags,
                  const double *want, int64_t count) {
  sumac_options options = {.axes = axes, .naxes = naxes, .flags = flags};
  int64_t shape[SUMAC_MAX_DIMS], n = 1;
  sumac_dtype dtype;
  int32_t ndim;
  double *got = calloc((size_t)count + 1, sizeof *got);
  ok(sumac_result_type(op, x, &options, &dtype, &ndim, shape));
  for (int32_t i = 0; i < ndim; i++) n *= shape[i];
  assert_int_equal(n, count);
  sumac_tensor out = {.data = got, .ndim = ndim, .dtype = SUMAC_F64, .shape = shape};
  ok(sumac_reduce(NULL, op, x, NULL, &options, &out));
  for (int64_t i = 0; i < count; i++)
    if (bits_of(got[i]) != bits_of(want[i]))
      fail_msg("%s, result %lld: %g, want %g", op_text[op], (long long)i, got[i], want[i]);
  free(got);
}

static uint64_t *filled(size_t n, uint64_t code) {
  uint64_t *codes = malloc((n + 1) * sizeof *codes);
  for (size_t i = 0; i < n; i++) codes[i] = code;
  return codes;
}

static uint64_t largest(sumac_dtype d) {
  return dtype_is_float(d) ? data_code(d, DBL_MAX) : ((uint64_t)1 << (d.bits - 1)) - 1;
}

static void same(double got, double want) {
  if (isnan(want) ? !isnan(got) : bits_of(got) != bits_of(want)) fail_msg("got %a, want %a", got, want);
}

/* ---- accumulators --------------------------------------------------------------------------- */

static void narrow_accumulators_overflow(void **state) {
  (void)state;
  for (int d = 0; d < 6; d++)
    for (int64_t n = 2; n < 70000; n = n * 3 + 1) {
      uint64_t top = largest(dtypes[d]), *codes = filled((size_t)n, top);
      same(reduced(SUMAC_MEAN, dtypes[d], codes, n), value(dtypes[d], top));
      same(reduced(SUMAC_VAR, dtypes[d], codes, n), 0);
      same(reduced(SUMAC_STD, dtypes[d], codes, n), 0);
      free(codes);
    }
  uint16_t h[3] = {0x78e2, 0x78e2, 0x78e2}; /* 40000 */
  float f[3] = {3e38f, 3e38f, 3e38f};
  assert_int_equal(everywhere_bits(SUMAC_MEAN, SUMAC_F16, h, NULL, 3, SUMAC_F16), 0x78e2);
  assert_int_equal(everywhere_bits(SUMAC_MEAN, SUMAC_F32, f, NULL, 3, SUMAC_F32),
                   data_code(SUMAC_F32, (double)3e38f));
  static int8_t i8[10000];
  static uint8_t u8[1000];
  static int32_t i32[10000];
  memset(i8, 63, sizeof i8);
  memset(u8, 255, sizeof u8);
  for (int i = 0; i < 10000; i++) i32[i] = (1 << 30) - 1;
  assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_I8, i8, NULL, 10000, SUMAC_I64), 630000);
  assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_U8, u8, NULL, 1000, SUMAC_U64), 255000);
  assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_I32, i32, NULL, 10000, SUMAC_I64), 10737418230000);
  for (int d = 6; d < DTYPES; d++) { /* the lowest and the highest of each integer type */
    int width = dtypes[d].code == SUMAC_BOOL.code ? 1 : dtypes[d].bits, is_signed = dtypes[d].code == 0;
    uint64_t top = (uint64_t)1 << (width - 1),
             codes[] = {is_signed ? top - 1 : top * 2 - 1, is_signed ? top : 0};
    for (int k = 0; k < 2; k++)
      for (int64_t n = 1; n < 200000; n = n * 7 + 1) {
        uint64_t *x = filled((size_t)n, codes[k]);
        double each = k == 0 ? ldexp(1, width - is_signed) - 1 : is_signed ? -ldexp(1, width - 1) : 0;
        if (width <= 32)
          same(reduced(SUMAC_SUM, dtypes[d], x, n), each * (double)n);
        else if (k == 1)
          same(reduced(SUMAC_SUM, dtypes[d], x, n), each * (double)n);
        free(x);
      }
  }
}

static void accumulators_stagnate(void **state) {
  (void)state;
  for (int d = 0; d < DTYPES; d++) {
    uint64_t *ones = filled(70000, data_code(dtypes[d], 1));
    same(reduced(SUMAC_SUM, dtypes[d], ones, 70000), 70000);
    same(reduced(SUMAC_MEAN, dtypes[d], ones, 70000), 1);
    same(reduced(SUMAC_NORM1, dtypes[d], ones, 70000), 70000);
    same(reduced(SUMAC_NORM2, dtypes[d], ones, 40000), 200);
    same(reduced(SUMAC_DOT, dtypes[d], ones, 70000), 70000);
    free(ones);
  }
  static uint16_t h[70000];
  for (int i = 0; i < 70000; i++) h[i] = 0x3f80;
  assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_BF16, h, NULL, 70000, SUMAC_BF16),
                   data_code(SUMAC_BF16, 70144));
  for (int i = 0; i < 20000; i++) h[i] = 0x3c00;
  assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_F16, h, NULL, 20000, SUMAC_F16),
                   data_code(SUMAC_F16, 20000));
  assert_int_equal(everywhere_bits(SUMAC_NORM2, SUMAC_F16, h, NULL, 20000, SUMAC_F16),
                   data_code(SUMAC_F16, 141.375));
  int64_t n = 25000000;
  float *f = malloc((size_t)n * sizeof *f), got = 0;
  for (int64_t i = 0; i < n; i++) f[i] = 1;
  sumac_tensor t = tensor_of(SUMAC_F32, f, &n), out = scalar_of(SUMAC_F32, &got);
  ok(sumac_reduce(NULL, SUMAC_NORM2, &t, NULL, NULL, &out));
  same(got, 5000);
  ok(sumac_reduce(NULL, SUMAC_SUM, &t, NULL, NULL, &out));
  same(got, 25000000);
  ok(sumac_reduce(NULL, SUMAC_MEAN, &t, NULL, NULL, &out));
  same(got, 1);
  free(f);
}

static void integers_wrap(void **state) {
  (void)state;
  int64_t low[2] = {INT64_MIN, INT64_MIN}, high[2] = {INT64_MAX, 1};
  int64_t three[3] = {-1303487490025821099, -8371390547526583103, -2572374159461887095};
  same(double_of(everywhere_bits(SUMAC_NORMINF, SUMAC_I64, low, NULL, 2, SUMAC_F64)), 0x1p63);
  same(double_of(everywhere_bits(SUMAC_NORM1, SUMAC_I64, low, NULL, 2, SUMAC_F64)), 0x1p64);
  same(double_of(everywhere_bits(SUMAC_NORM2, SUMAC_I64, low, NULL, 2, SUMAC_F64)), 0x1.6a09e667f3bcdp+63);
  assert_int_equal(everywhere_bits(SUMAC_NORMINF, SUMAC_I64, low, NULL, 2, SUMAC_U64), UINT64_C(1) << 63);
  same(double_of(everywhere_bits(SUMAC_MEAN, SUMAC_I64, high, NULL, 2, SUMAC_F64)), 0x1p62);
  same(double_of(everywhere_bits(SUMAC_MEAN, SUMAC_I64, three, NULL, 3, SUMAC_F64)), -4082417399004763765.0);
  for (int d = 6; d < 10; d++) { /* |lowest| in every signed type and size */
    for (int64_t n = 1; n < 70; n++) {
      uint64_t *x = filled((size_t)n, (uint64_t)1 << (dtypes[d].bits - 1));
      same(reduced(SUMAC_NORMINF, dtypes[d], x, n), ldexp(1, dtypes[d].bits - 1));
      same(reduced(SUMAC_NORM1, dtypes[d], x, n), ldexp((double)n, dtypes[d].bits - 1));
      free(x);
    }
  }
  int32_t rows[14] = {49406, 320, 1125, 539, 320, 2368, 49407, 49406, 320, 1125, 539, 320, 1929, 49407};
  int64_t shape[2] = {2, 7};
  int32_t axis = 1, near[2] = {1 << 24, (1 << 24) + 1};
  sumac_tensor t = tensor_of(SUMAC_I32, rows, shape);
  t.ndim = 2;
  along(SUMAC_ARGMAX, &t, 1, &axis, 0, (double[]){6, 6}, 2);
  assert_int_equal(everywhere_bits(SUMAC_ARGMAX, SUMAC_I32, near, NULL, 2, SUMAC_I64), 1);
  assert_int_equal(everywhere_bits(SUMAC_MAX, SUMAC_I32, near, NULL, 2, SUMAC_I32), (1 << 24) + 1);
  assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_I32, near, NULL, 2, SUMAC_I64), (1 << 25) + 1);
}

static void norms_leave_the_range(void **state) {
  (void)state;
  static const struct {
    double x[3];
    int n;
    double want;
  } f32[] = {{{1e20, 1, 1}, 3, 1e20},
             {{2e-28}, 1, 2e-28},
             {{2e20}, 1, 2e20},
             {{1e-23, 0}, 2, 1e-23},
             {{3e37, 4e37}, 2, 5e37}};
  for (size_t i = 0; i < sizeof f32 / sizeof *f32; i++) {
    float x[3];
    for (int j = 0; j < 3; j++) x[j] = (float)f32[i].x[j];
    assert_int_equal(everywhere_bits(SUMAC_NORM2, SUMAC_F32, x, NULL, f32[i].n, SUMAC_F32),
                     data_code(SUMAC_F32, (double)(float)f32[i].want));
  }
  for (int e = -1074; e < 1024; e++) { /* one element: its magnitude, whatever its square */
    double x[2] = {-ldexp(1, e), 0};
    same(everywhere_f64(SUMAC_NORM2, x, NULL, 2), ldexp(1, e));
  }
}

static void cancellation(void **state) {
  (void)state;
  static double m[15000];
  double p[4] = {1e154, 1e154, 1e154, 1e154}, q[4] = {1e154, 1e154, -1e154, -1e154};
  for (int i = 0; i < 15000; i += 3) m[i] = 1, m[i + 1] = 1e16, m[i + 2] = -1e16;
  same(everywhere_f64(SUMAC_SUM, m, NULL, 15000), 5000);
  same(everywhere_f64(SUMAC_DOT, p, q, 4), 0);
  float x[2] = {2281.5f, 2281.25f}, s[2] = {4194304.0f, 4194304.5f};
  double alone[1] = {46.813722133636475};
  sumac_options options = {.ddof = 1};
  int64_t n = 2;
  double got = 0;
  sumac_tensor t = tensor_of(SUMAC_F32, x, &n), out = scalar_of(SUMAC_F64, &got);
  ok(sumac_reduce(NULL, SUMAC_VAR, &t, NULL, &options, &out));
  same(got, 0.03125);
  same(everywhere_f64(SUMAC_VAR, alone, NULL, 1), 0);
  n = 1, t = tensor_of(SUMAC_F64, alone, &n);
  ok(sumac_reduce(NULL, SUMAC_VAR, &t, NULL, &options, &out));
  assert_true(isnan(got));
  assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_F32, s, NULL, 2, SUMAC_F32),
                   data_code(SUMAC_F32, 8388608));
  /* a constant column far from 0 has no variance, whatever its length */
  int64_t shape[2] = {100000, 2};
  float *c = malloc(200000 * sizeof *c);
  for (int i = 0; i < 200000; i++) c[i] = i % 2 ? -100.1f : 100.1f;
  t = tensor_of(SUMAC_F32, c, shape);
  t.ndim = 2;
  int32_t axis = 0;
  along(SUMAC_STD, &t, 1, &axis, 0, (double[]){0, 0}, 2);
  free(c);
}

/* ---- what is read --------------------------------------------------------------------------- */

/* Views that begin at any byte, with lengths that no vector divides. */
static void misaligned(void **state) {
  (void)state;
  for (int d = 0; d < DTYPES; d++)
    for (int offset = 0; offset < 32; offset++) {
      int64_t n = 1000 + offset;
      uint64_t *codes = malloc((size_t)n * sizeof *codes);
      double sum = 0;
      for (int64_t i = 0; i < n; i++) {
        int small = dtypes[d].code == SUMAC_BOOL.code ? i % 7 > 3 : (int)((i + offset) % 7);
        codes[i] = data_code(dtypes[d], small);
        sum += small;
      }
      view v;
      view_make(&v, dtypes[d], 1, &n, NULL, offset);
      view_fill(&v, codes);
      same(double_of(everywhere(SUMAC_SUM, &v.tensor, NULL, 0, 0, SUMAC_F64).bits), sum);
      same(double_of(everywhere(SUMAC_MAX, &v.tensor, NULL, 0, 0, SUMAC_F64).bits),
           dtypes[d].code == SUMAC_BOOL.code ? 1 : 6);
      /* the same by byte_offset */
      v.tensor.data = v.span - offset;
      v.tensor.byte_offset = (uint64_t)offset;
      same(double_of(everywhere(SUMAC_SUM, &v.tensor, NULL, 0, 0, SUMAC_F64).bits), sum);
      view_free(&v);
      free(codes);
    }
}

/* Only the last element is set. */
static void tails_are_dropped(void **state) {
  (void)state;
  static const int64_t more[] = {511,  512,  513,  1023, 1024,  1025,  2047,  2048,  2049,
                                 2880, 4095, 4096, 4097, 65535, 65536, 65537, 262147};
  for (int d = 0; d < DTYPES; d++)
    for (int64_t i = 1; i < 258 + 17; i++) {
      int64_t n = i < 258 ? i : more[i - 258];
      if (d > 5 && i > 258 + 13) continue;
      uint64_t *codes = filled((size_t)n, 0);
      codes[n - 1] = data_code(dtypes[d], 1);
      static const sumac_op ops[] = {SUMAC_SUM,     SUMAC_NORM1, SUMAC_NORM2,
                                     SUMAC_NORMINF, SUMAC_MAX,   SUMAC_DOT};
      for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) same(reduced(ops[k], dtypes[d], codes, n), 1);
      same(reduced(SUMAC_ARGMAX, dtypes[d], codes, n), (double)(n - 1));
      same(reduced(SUMAC_ARGMIN, dtypes[d], codes, n), 0);
      free(codes);
    }
}

/* NaN lies right behind the array, in the same page. */
static void over_reads(void **state) {
  (void)state;
  for (int d = 0; d < 6; d++)
    for (int64_t n = 0; n < 80; n++) {
      int64_t room = 200;
      uint64_t codes[200];
      double sum = 0;
      for (int64_t i = 0; i < room; i++) {
        codes[i] = i < n ? data_code(dtypes[d], (double)(i % 9)) : data_code(dtypes[d], (double)NAN);
        sum += i < n ? (double)(i % 9) : 0;
      }
      view v;
      view_array(&v, dtypes[d], codes, room);
      v.shape[0] = n;
      same(double_of(everywhere(SUMAC_SUM, &v.tensor, NULL, 0, 0, SUMAC_F64).bits), sum);
      if (n > 0)
        same(double_of(everywhere(SUMAC_MAX, &v.tensor, NULL, 0, 0, SUMAC_F64).bits),
             n < 9 ? (double)n - 1 : 8);
      assert_false(isnan(double_of(everywhere(SUMAC_DOT, &v.tensor, &v.tensor, 0, 0, SUMAC_F64).bits)));
      view_free(&v);
    }
  float x[16], y[16];
  for (int i = 0; i < 16; i++) x[i] = i < 11 ? (float)i : NAN, y[i] = i < 11 ? 1 : NAN;
  assert_int_equal(everywhere_bits(SUMAC_DOT, SUMAC_F32, x, y, 11, SUMAC_F32), data_code(SUMAC_F32, 55));
  assert_int_equal(everywhere_bits(SUMAC_NORM2, SUMAC_F32, x, NULL, 11, SUMAC_F64), bits_of(sqrt(385)));
}

static void strides(void **state) {
  (void)state;
  double x[24];
  for (int i = 0; i < 24; i++) x[i] = i;
  int64_t shape[3] = {3, 4}, steps[3] = {4, -1}, cube[3] = {2, 3, 2}, cube_steps[3] = {-12, 4, -2};
  sumac_tensor t = tensor_of(SUMAC_F64, x + 3, shape);
  t.ndim = 2, t.strides = steps;
  int32_t axis = 1, first = 0;
  along(SUMAC_SUM, &t, 1, &axis, 0, (double[]){6, 22, 38}, 3);
  along(SUMAC_ARGMAX, &t, 1, &axis, 0, (double[]){0, 0, 0}, 3);
  along(SUMAC_ARGMIN, &t, 1, &axis, 0, (double[]){3, 3, 3}, 3);
  sumac_tensor z = tensor_of(SUMAC_F64, x + 12 + 3, cube);
  z.ndim = 3, z.strides = cube_steps;
  along(SUMAC_SUM, &z, 1, &first, 0, (double[]){18, 14, 26, 22, 34, 30}, 6);
  int64_t y[3] = {8, 10, 77}, two = 2, back = -1, low = 0;
  sumac_tensor u = tensor_of(SUMAC_I64, y + 1, &two), out = scalar_of(SUMAC_I64, &low);
  u.strides = &back;
  ok(sumac_reduce(NULL, SUMAC_MIN, &u, NULL, NULL, &out));
  assert_int_equal(low, 8);
}

static void broadcasts(void **state) {
  (void)state;
  double a = 2, b[5] = {0, 1, 2, 3, 4}, m[3] = {1, 2, 3}, got = 0;
  int64_t five = 5, zero = 0, shape[2] = {3, 5}, steps[2] = {1, 0};
  sumac_tensor x = tensor_of(SUMAC_F64, &a, &five), y = tensor_of(SUMAC_F64, b, &five),
               out = scalar_of(SUMAC_F64, &got);
  x.strides = &zero;
  ok(sumac_reduce(NULL, SUMAC_DOT, &x, &y, NULL, &out));
  same(got, 20);
  ok(sumac_reduce(NULL, SUMAC_DOT, &y, &x, NULL, &out));
  same(got, 20);
  ok(sumac_reduce(NULL, SUMAC_NORM2, &x, NULL, NULL, &out));
  same(got, sqrt(20));
  sumac_tensor t = tensor_of(SUMAC_F64, m, shape);
  t.ndim = 2, t.strides = steps;
  int32_t axis = 1, first = 0;
  along(SUMAC_SUM, &t, 1, &axis, 0, (double[]){5, 10, 15}, 3);
  along(SUMAC_SUM, &t, 1, &first, 0, (double[]){6, 6, 6, 6, 6}, 5);
}

/* Strides NULL, scalars. */
static void dlpack_forms(void **state) {
  (void)state;
  double x[6] = {0, 1, 2, 3, 4, 5}, s = 2.5, got = 0;
  int64_t shape[2] = {2, 3};
  int32_t axis = 0;
  sumac_tensor t = tensor_of(SUMAC_F64, x, shape), scalar = scalar_of(SUMAC_F64, &s),
               out = scalar_of(SUMAC_F64, &got);
  t.ndim = 2;
  along(SUMAC_SUM, &t, 1, &axis, 0, (double[]){3, 5, 7}, 3);
  for (int op = 0; op < OPS; op++) {
    ok(sumac_reduce(NULL, (sumac_op)op, &scalar, op == SUMAC_DOT ? &scalar : NULL, NULL, &out));
    int none = op == SUMAC_VAR || op == SUMAC_STD || op == SUMAC_ARGMIN || op == SUMAC_ARGMAX;
    same(got, op == SUMAC_DOT ? 6.25 : none ? 0 : op >= SUMAC_COUNT_NONZERO ? 1 : 2.5);
  }
}

/* ---- specials ------------------------------------------------------------------------------- */

/* NaN at every position of every size: it is the extreme, and its index is. */
static void nan_propagates(void **state) {
  (void)state;
  static const int64_t lengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 33, 257};
  for (int d = 0; d < 6; d++)
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
      for (int64_t at = 0; at<lengths[k]; at += lengths[k]> 100 ? 3 : 1)
        for (int two = 0; two < 2; two++) {
          uint64_t codes[257];
          for (int64_t i = 0; i < lengths[k]; i++) codes[i] = data_code(dtypes[d], (double)i);
          codes[at] = data_code(dtypes[d], (double)NAN);
          if (two) /* the first of several */
            codes[lengths[k] - 1] = codes[at];
          same(reduced(SUMAC_ARGMAX, dtypes[d], codes, lengths[k]), (double)at);
          same(reduced(SUMAC_ARGMIN, dtypes[d], codes, lengths[k]), (double)at);
          same(reduced(SUMAC_MAX, dtypes[d], codes, lengths[k]), (double)NAN);
          same(reduced(SUMAC_MIN, dtypes[d], codes, lengths[k]), (double)NAN);
          same(reduced(SUMAC_NORMINF, dtypes[d], codes, lengths[k]), (double)NAN);
        }
  double low[2] = {-INFINITY, NAN}, behind[2] = {NAN, 7};
  same(everywhere_f64(SUMAC_MIN, low, NULL, 2), (double)NAN);
  same(everywhere_f64(SUMAC_MAX, behind, NULL, 2), (double)NAN);
}

/* No finite identity may win against the data. */
static void identities_survive(void **state) {
  (void)state;
  for (int d = 0; d < 6; d++)
    for (int64_t n = 1; n < 300; n = n * 2 + 1)
      for (int negative = 0; negative < 2; negative++) {
        double inf = negative ? -INFINITY : INFINITY;
        if (dtypes[d].code == SUMAC_E4M3FN.code) inf = negative ? -448 : 448;
        uint64_t *x = filled((size_t)n, data_code(dtypes[d], inf));
        same(reduced(SUMAC_MIN, dtypes[d], x, n), inf);
        same(reduced(SUMAC_MAX, dtypes[d], x, n), inf);
        same(reduced(SUMAC_ARGMIN, dtypes[d], x, n), 0);
        same(reduced(SUMAC_ARGMAX, dtypes[d], x, n), 0);
        free(x);
      }
  for (int d = 6; d < DTYPES; d++)
    for (int64_t n = 1; n < 300; n = n * 2 + 1) {
      static const uint64_t ends[] = {0, 1, UINT64_MAX};
      for (int k = 0; k < 4; k++) {
        uint64_t code = k < 3 ? ends[k] : (uint64_t)1 << (dtypes[d].bits - 1), *x = filled((size_t)n, code);
        same(reduced(SUMAC_ARGMIN, dtypes[d], x, n), 0);
        same(reduced(SUMAC_ARGMAX, dtypes[d], x, n), 0);
        same(reduced(SUMAC_MIN, dtypes[d], x, n), reduced(SUMAC_MAX, dtypes[d], x, n));
        free(x);
      }
    }
  uint8_t p[2] = {0x26, 0x35}, q[3] = {0x38, 0x7f, 0x30}; /* e4m3fn: 0.21875, 0.8125; 1, NaN, 0.5 */
  assert_int_equal(everywhere_bits(SUMAC_MAX, SUMAC_E4M3FN, p, NULL, 2, SUMAC_E4M3FN), 0x35);
  assert_int_equal(everywhere_bits(SUMAC_MIN, SUMAC_E4M3FN, p, NULL, 2, SUMAC_E4M3FN), 0x26);
  assert_int_equal(everywhere_bits(SUMAC_MAX, SUMAC_E4M3FN, q, NULL, 3, SUMAC_E4M3FN), 0x7f);
  assert_int_equal(everywhere_bits(SUMAC_ARGMAX, SUMAC_E4M3FN, q, NULL, 3, SUMAC_I64), 1);
}

static void signed_zeros(void **state) {
  (void)state;
  for (int d = 0; d < 6; d++)
    for (int64_t n = 1; n < 3000; n = n * 3 + 1) {
      uint64_t *x = filled((size_t)n, data_code(dtypes[d], -0.0));
      same(reduced(SUMAC_SUM, dtypes[d], x, n), -0.0);
      same(reduced(SUMAC_MEAN, dtypes[d], x, n), -0.0);
      same(reduced(SUMAC_NORM1, dtypes[d], x, n), 0);
      same(reduced(SUMAC_DOT, dtypes[d], x, n), 0);
      same(reduced(SUMAC_MAX, dtypes[d], x, n), -0.0);
      for (int64_t at = 0; at < n; at += n / 7 + 1) { /* one +0 anywhere */
        x[at] = 0;
        same(reduced(SUMAC_SUM, dtypes[d], x, n), 0);
        same(reduced(SUMAC_MAX, dtypes[d], x, n), 0);
        same(reduced(SUMAC_MIN, dtypes[d], x, n), n > 1 ? -0.0 : 0);
        same(reduced(SUMAC_ARGMAX, dtypes[d], x, n), 0);
        x[at] = data_code(dtypes[d], -0.0);
      }
      free(x);
    }
}

static void subnormals_are_flushed(void **state) {
  (void)state;
  for (int d = 0; d < 6; d++)
    for (int64_t n = 1; n < 3000; n = n * 3 + 1) {
      uint64_t *x = filled((size_t)n, 1);
      double least = value(dtypes[d], 1);
      assert_true(least > 0);
      same(reduced(SUMAC_SUM, dtypes[d], x, n), least * (double)n);
      same(reduced(SUMAC_NORM1, dtypes[d], x, n), least * (double)n);
      same(reduced(SUMAC_MEAN, dtypes[d], x, n), least);
      same(reduced(SUMAC_MAX, dtypes[d], x, n), least);
      x[0] = data_code(dtypes[d], -0.0);
      if (n > 1) same(reduced(SUMAC_ARGMAX, dtypes[d], x, n), 1);
      free(x);
    }
}

/* Infinities of each sign at every place, beside finite numbers of any size. */
static void infinities(void **state) {
  (void)state;
  for (int d = 0; d < 6; d++) {
    if (dtypes[d].code == SUMAC_E4M3FN.code) continue;
    for (int64_t n = 1; n < 40; n++)
      for (int64_t at = 0; at < n; at++) {
        uint64_t *x = filled((size_t)n, largest(dtypes[d]));
        x[at] = data_code(dtypes[d], -INFINITY);
        same(reduced(SUMAC_SUM, dtypes[d], x, n), -INFINITY);
        same(reduced(SUMAC_MEAN, dtypes[d], x, n), -INFINITY);
        same(reduced(SUMAC_NORM2, dtypes[d], x, n), INFINITY);
        same(reduced(SUMAC_VAR, dtypes[d], x, n), (double)NAN);
        if (at > 0) {
          x[0] = data_code(dtypes[d], INFINITY);
          same(reduced(SUMAC_SUM, dtypes[d], x, n), (double)NAN);
          same(reduced(SUMAC_NORM1, dtypes[d], x, n), INFINITY);
        }
        free(x);
      }
  }
}

/* ---- shapes --------------------------------------------------------------------------------- */

static void empty_inputs(void **state) {
  (void)state;
  int64_t shape[2] = {2, 0}, none[1] = {0};
  for (int d = 0; d < DTYPES; d++) {
    sumac_tensor t = tensor_of(dtypes[d], NULL, shape), u = tensor_of(dtypes[d], NULL, none);
    t.ndim = 2;
    int32_t axes[2] = {0, 1};
    along(SUMAC_SUM, &t, 1, &axes[1], 0, (double[]){0, 0}, 2);
    along(SUMAC_NORM2, &t, 1, &axes[1], 0, (double[]){0, 0}, 2);
    along(SUMAC_SUM, &t, 1, &axes[0], 0, NULL, 0);
    along(SUMAC_MAX, &t, 1, &axes[0], 0, NULL, 0);
    along(SUMAC_SUM, &t, 2, axes, 0, (double[]){0}, 1);
    assert_int_equal(everywhere(SUMAC_MAX, &t, NULL, 0, 0, SUMAC_F64).status, SUMAC_ERR_EMPTY);
    assert_int_equal(everywhere(SUMAC_ARGMIN, &u, NULL, 0, 0, SUMAC_F64).status, SUMAC_ERR_EMPTY);
    assert_int_equal(everywhere(SUMAC_SUM, &u, NULL, 0, 0, SUMAC_F64).bits, 0);
    assert_true(isnan(double_of(everywhere(SUMAC_MEAN, &u, NULL, 0, 0, SUMAC_F64).bits)));
    assert_true(isnan(double_of(everywhere(SUMAC_VAR, &u, NULL, 0, 0, SUMAC_F64).bits)));
    /* an empty call leaves nothing behind for the next one */
    uint64_t codes[3] = {data_code(dtypes[d], 1), data_code(dtypes[d], 1), data_code(dtypes[d], 1)};
    same(reduced(SUMAC_SUM, dtypes[d], codes, 3), 3);
  }
}

static void axes(void **state) {
  (void)state;
  double x[12];
  for (int i = 0; i < 12; i++) x[i] = i + 1;
  int64_t shape[3] = {2, 3, 2};
  sumac_tensor t = tensor_of(SUMAC_F64, x, shape);
  t.ndim = 3;
  int32_t last = -1, first = -3, middle = -2, outer[2] = {0, 2}, swapped[2] = {-1, 0};
  along(SUMAC_SUM, &t, 1, &last, 0, (double[]){3, 7, 11, 15, 19, 23}, 6);
  along(SUMAC_SUM, &t, 1, &first, 0, (double[]){8, 10, 12, 14, 16, 18}, 6);
  along(SUMAC_SUM, &t, 2, outer, 0, (double[]){18, 26, 34}, 3);
  along(SUMAC_SUM, &t, 2, swapped, SUMAC_KEEPDIMS, (double[]){18, 26, 34}, 3);
  along(SUMAC_ARGMAX, &t, 1, &middle, 0, (double[]){2, 2, 2, 2}, 4);
  along(SUMAC_ARGMAX, &t, 2, outer, 0, (double[]){3, 3, 3}, 3);
  along(SUMAC_MAX, &t, 0, &last, 0, x, 12);
  double ones[27], threes[9];
  for (int i = 0; i < 27; i++) ones[i] = 1, threes[i % 9] = 3;
  int64_t cube[3] = {3, 3, 3};
  sumac_tensor u = tensor_of(SUMAC_F64, ones, cube);
  u.ndim = 3;
  int32_t all[3] = {2, 1, 0}, one = 1;
  along(SUMAC_SUM, &u, 1, &one, SUMAC_KEEPDIMS, threes, 9);
  along(SUMAC_SUM, &u, 3, all, SUMAC_KEEPDIMS, (double[]){27}, 1);
  along(SUMAC_MAX, &u, 2, outer, SUMAC_KEEPDIMS, (double[]){1, 1, 1}, 3);
}

static void a_row_of_many_columns(void **state) {
  (void)state;
  enum { N = 65535 * 8 + 1 };
  float *x = malloc(N * sizeof *x);
  double *want = malloc(N * sizeof *want), *zero = calloc(N, sizeof *zero), sum = 0;
  for (int i = 0; i < N; i++) x[i] = (float)(i % 1000), want[i] = i % 1000, sum += i % 1000;
  int64_t shape[2] = {1, N};
  sumac_tensor t = tensor_of(SUMAC_F32, x, shape);
  t.ndim = 2;
  int32_t axis = 0, other = 1;
  along(SUMAC_SUM, &t, 1, &axis, 0, want, N);
  along(SUMAC_ARGMAX, &t, 1, &axis, 0, zero, N);
  along(SUMAC_SUM, &t, 1, &other, 0, &sum, 1);
  free(x);
  free(want);
  free(zero);
}

static void ties_in_arg(void **state) {
  (void)state;
  static uint64_t x[100003];
  for (int d = 0; d < DTYPES; d++) {
    for (int i = 0; i < 100003; i++) x[i] = 0;
    same(reduced(SUMAC_ARGMAX, dtypes[d], x, 2001), 0);
    for (int i = 7; i < 100003; i += 1000) x[i] = data_code(dtypes[d], 5);
    same(reduced(SUMAC_ARGMAX, dtypes[d], x, 100003), 7);
    same(reduced(SUMAC_ARGMIN, dtypes[d], x, 100003), 0);
  }
  int64_t t[10] = {2, 3, 0, 3, 3, 1, 3, 1, 3, 1}, shape[2] = {2, 5};
  sumac_tensor rows = tensor_of(SUMAC_I64, t, shape);
  rows.ndim = 2;
  int32_t axis = 1;
  along(SUMAC_ARGMAX, &rows, 1, &axis, 0, (double[]){1, 1}, 2);
  along(SUMAC_ARGMIN, &rows, 1, &axis, 0, (double[]){2, 0}, 2);
}

/* ---- once more ------------------------------------------------------------------------------ */

static void the_same_again(void **state) {
  (void)state;
  static float x[1000];
  data_random random = {3 * UINT64_C(0x9e3779b97f4a7c15)};
  for (int i = 0; i < 1000; i++) { /* splitmix without its increment: seeds 1, 2, 3 … beyond the start */
    data_random one = {random.state + (uint64_t)i + 1 - UINT64_C(0x9e3779b97f4a7c15)};
    x[i] = (float)(-1.0 + 2.0 * ((double)(data_next(&one) >> 11) / 0x1p53));
  }
  for (int i = 0; i < 100; i++) {
    assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_F32, x, NULL, 1000, SUMAC_F32),
                     data_code(SUMAC_F32, 36.01597595214844));
    assert_int_equal(everywhere_bits(SUMAC_MEAN, SUMAC_F32, x, NULL, 1000, SUMAC_F32),
                     data_code(SUMAC_F32, 0.03601597622036934));
  }
}

/* One output for calls in a row: nothing of before may show. */
static void stale_outputs(void **state) {
  (void)state;
  float x0[6] = {1, 2, 3, 4, 5, 6}, x1[6] = {2, 2, 3, 4, 5, 6}, out = -7;
  int64_t n = 6;
  sumac_tensor a = tensor_of(SUMAC_F32, x0, &n), b = tensor_of(SUMAC_F32, x1, &n),
               to = scalar_of(SUMAC_F32, &out);
  for (int i = 0; i < 6; i++) {
    memset(&out, 0xff, sizeof out);
    ok(sumac_reduce(NULL, SUMAC_MIN, i % 2 ? &b : &a, NULL, NULL, &to));
    same(out, i % 2 ? 2 : 1);
    memset(&out, 0xff, sizeof out);
    ok(sumac_reduce(NULL, SUMAC_SUM, i % 2 ? &b : &a, NULL, NULL, &to));
    same(out, i % 2 ? 22 : 21);
  }
}

static float small_integers[3000000];

static void *from_a_thread(void *wrong) {
  int64_t n = 3000000;
  sumac_tensor t = tensor_of(SUMAC_F32, small_integers, &n);
  double out = 0;
  sumac_tensor to = scalar_of(SUMAC_F64, &out);
  for (int i = 0; i < 20; i++) {
    *(int *)wrong += sumac_reduce(NULL, SUMAC_SUM, &t, NULL, NULL, &to) != SUMAC_OK || out != 15000000;
    *(int *)wrong += sumac_reduce(NULL, SUMAC_MAX, &t, NULL, NULL, &to) != SUMAC_OK || out != 10;
    *(int *)wrong += sumac_reduce(NULL, SUMAC_ARGMAX, &t, NULL, NULL, &to) != SUMAC_OK || out != 7;
  }
  return NULL;
}

static void concurrent_calls(void **state) {
  (void)state;
  for (int i = 0; i < 3000; i++)
    for (int j = 0; j < 1000; j++) small_integers[i * 1000 + j] = (float)((i * 7 + j * 3) % 11);
  pthread_t threads[8];
  int wrong[8] = {0};
  for (int i = 0; i < 8; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, from_a_thread, &wrong[i]), 0);
  for (int i = 0; i < 8; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(wrong[i], 0);
  }
}

static void bools(void **state) {
  (void)state;
  static uint8_t b[256];
  for (int byte = 1; byte < 256; byte++) { /* any byte but 0 is true, and counts once */
    memset(b, byte, sizeof b);
    assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_BOOL, b, NULL, 256, SUMAC_I64), 256);
    assert_int_equal(everywhere_bits(SUMAC_MAX, SUMAC_BOOL, b, NULL, 256, SUMAC_BOOL), 1);
    assert_int_equal(everywhere_bits(SUMAC_ARGMAX, SUMAC_BOOL, b, NULL, 256, SUMAC_I64), 0);
    same(double_of(everywhere_bits(SUMAC_MEAN, SUMAC_BOOL, b, NULL, 256, SUMAC_F64)), 1);
  }
  for (int i = 0; i < 256; i++) b[i] = (uint8_t)i;
  assert_int_equal(everywhere_bits(SUMAC_SUM, SUMAC_BOOL, b, NULL, 256, SUMAC_I64), 255);
  assert_int_equal(everywhere_bits(SUMAC_ARGMAX, SUMAC_BOOL, b, NULL, 256, SUMAC_I64), 1);
  assert_int_equal(everywhere_bits(SUMAC_ARGMAX, SUMAC_BOOL, b + 2, NULL, 254, SUMAC_I64), 0);
}

/* Ranks combine in any order; exact partials travel, not rounded ones, and narrow integers widen. */
static void ranks(void **state) {
  (void)state;
  static const double parts[4] = {1e16, 1, -1e16, 1};
  static const int orders[2][4] = {{0, 1, 2, 3}, {2, 0, 3, 1}};
  for (int o = 0; o < 2; o++) {
    sumac_state *total, *one;
    double out = 0;
    int64_t n = 1;
    sumac_tensor to = scalar_of(SUMAC_F64, &out);
    ok(sumac_state_create(NULL, SUMAC_KIND_SUM, SUMAC_F64, &total));
    for (int i = 0; i < 4; i++) {
      sumac_tensor t = tensor_of(SUMAC_F64, &parts[orders[o][i]], &n);
      ok(sumac_state_create(NULL, SUMAC_KIND_SUM, SUMAC_F64, &one));
      ok(sumac_state_add(one, &t, NULL));
      ok(sumac_state_merge(total, one));
      sumac_state_destroy(one);
    }
    ok(sumac_state_result(total, SUMAC_SUM, NULL, &to));
    same(out, 2);
    sumac_state_destroy(total);
  }
  sumac_state *total;
  int8_t i8[2] = {120, 100};
  int64_t n = 1, out = 0;
  sumac_tensor to = scalar_of(SUMAC_I64, &out);
  ok(sumac_state_create(NULL, SUMAC_KIND_SUM, SUMAC_I8, &total));
  for (int i = 0; i < 2; i++) {
    sumac_tensor t = tensor_of(SUMAC_I8, &i8[i], &n);
    ok(sumac_state_add(total, &t, NULL));
  }
  ok(sumac_state_result(total, SUMAC_SUM, NULL, &to));
  assert_int_equal(out, 220);
  sumac_state_destroy(total);
}

/* More than 2^31 bytes along the reduced axis. */
static void a_big_axis(void **state) {
  (void)state;
  int64_t shape[2] = {4194305, 64};
  double *x = calloc((size_t)(shape[0] * shape[1]), sizeof *x), want[64];
  assert_non_null(x);
  for (int i = 0; i < 64; i++) x[INT64_C(2097153) * 64 + i] = 1, want[i] = 2097153;
  sumac_tensor t = tensor_of(SUMAC_F64, x, shape);
  t.ndim = 2;
  int32_t axis = 0;
  along(SUMAC_ARGMAX, &t, 1, &axis, 0, want, 64);
  free(x);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(narrow_accumulators_overflow),
      cmocka_unit_test(accumulators_stagnate),
      cmocka_unit_test(integers_wrap),
      cmocka_unit_test(norms_leave_the_range),
      cmocka_unit_test(cancellation),
      cmocka_unit_test(misaligned),
      cmocka_unit_test(tails_are_dropped),
      cmocka_unit_test(over_reads),
      cmocka_unit_test(strides),
      cmocka_unit_test(broadcasts),
      cmocka_unit_test(dlpack_forms),
      cmocka_unit_test(nan_propagates),
      cmocka_unit_test(identities_survive),
      cmocka_unit_test(signed_zeros),
      cmocka_unit_test(subnormals_are_flushed),
      cmocka_unit_test(infinities),
      cmocka_unit_test(empty_inputs),
      cmocka_unit_test(axes),
      cmocka_unit_test(a_row_of_many_columns),
      cmocka_unit_test(ties_in_arg),
      cmocka_unit_test(the_same_again),
      cmocka_unit_test(stale_outputs),
      cmocka_unit_test(concurrent_calls),
      cmocka_unit_test(bools),
      cmocka_unit_test(ranks),
  };
  const struct CMUnitTest nightly[] = {cmocka_unit_test(a_big_axis)};
  if (argc > 1 && strcmp(argv[1], "cuda") == 0 && !everywhere_with_device()) {
    print_error("%s\n", sumac_error_message());
    return 1;
  }
  if (argc > 1 && strcmp(argv[1], "nightly") == 0)
    return cmocka_run_group_tests_name("cases, nightly", nightly, NULL, NULL);
  return cmocka_run_group_tests_name("cases", tests, NULL, NULL);
}
