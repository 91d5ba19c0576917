/* SPDX-License-Identifier: Apache-2.0
 *
 * sumac_stats against the oracle: dtypes × kinds of data × sizes × layouts × instruction sets and threads.
 */
#include "data.h"
#include "engines.h"
#include "everywhere.h"
#include "oracle/oracle.h"
#include "view.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double oracle_f64(const oracle_stats *o, sumac_op op, int64_t ddof) {
  uint64_t bits = bits_of((double)NAN);
  oracle_result(o, op, SUMAC_SKIP_NAN, ddof, SUMAC_F64, &bits);
  return double_of(bits);
}

static void same_value(const char *what, const engine *e, sumac_dtype dtype, int64_t n, double got,
                       double want) {
  if (bits_of(got) != bits_of(want))
    fail_msg("%s of %lld %s, %s with %d threads: got %a, want %a", what, (long long)n, dtype_text(dtype),
             e->isa, e->threads, got, want);
}

static void compare(const engine *e, const sumac_tensor *x, const oracle_stats *o, int64_t ddof) {
  sumac_statistics got;
  sumac_options options = {.ddof = ddof};
  uint64_t bits = 0;
  int64_t n = (int64_t)o->n;
  memset(&got, 0xa5, sizeof got);
  assert_int_equal(sumac_stats(e->context, x, &options, &got), SUMAC_OK);
  assert_int_equal(got.n, o->n);
  assert_int_equal(got.nan, o->nan);
  assert_int_equal(got.pos_inf, o->plus_inf);
  assert_int_equal(got.neg_inf, o->minus_inf);
  assert_int_equal(got.zeros, o->plus_zero + o->minus_zero);
  same_value("mean", e, x->dtype, n, got.mean, oracle_f64(o, SUMAC_MEAN, 0));
  same_value("std", e, x->dtype, n, got.std, oracle_f64(o, SUMAC_STD, ddof));
  same_value("norm1", e, x->dtype, n, got.norm1, oracle_f64(o, SUMAC_NORM1, 0));
  same_value("norm2", e, x->dtype, n, got.norm2, oracle_f64(o, SUMAC_NORM2, 0));
  same_value("norminf", e, x->dtype, n, got.norminf, oracle_f64(o, SUMAC_NORMINF, 0));
  same_value("min", e, x->dtype, n, got.min, oracle_f64(o, SUMAC_MIN, 0));
  same_value("max", e, x->dtype, n, got.max, oracle_f64(o, SUMAC_MAX, 0));
  oracle_result(o, SUMAC_MIN, SUMAC_SKIP_NAN, 0, x->dtype, &bits);
  assert_int_equal(got.min_bits, bits);
  oracle_result(o, SUMAC_MAX, SUMAC_SKIP_NAN, 0, x->dtype, &bits);
  assert_int_equal(got.max_bits, bits);
  for (int i = 0; i < 4; i++) assert_int_equal(got.reserved[i], 0);
}

static void agrees(void **state) {
  static const int64_t sizes[] = {0, 1, 31, 32, 33, 1000, 4097, 70001};
  static oracle_stats stats;
  engine one[ENGINES_MAX], three[ENGINES_MAX];
  int engines = engines_open(one, 1);
  engines_open(three, 3);
  uint64_t *codes = malloc(70001 * sizeof *codes);
  (void)state;
  for (int d = 0; d < DTYPES; d++)
    for (int kind = 0; kind < DATA_KINDS; kind++)
      for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t n = sizes[k], line[1] = {n}, step[1] = {k % 3 == 0 ? -1 : 3};
        if (n > 5000 && (kind + d) % 5 != 0) continue;
        data_random random = {(uint64_t)(d * 100 + kind)};
        data_codes(dtypes[d], (data_kind)kind, &random, codes, (size_t)n);
        oracle_clear(&stats);
        for (int64_t i = 0; i < n; i++) oracle_add(&stats, dtypes[d], codes[i], 1);
        view v;
        view_make(&v, dtypes[d], 1, line, k % 2 ? NULL : step, k % 2 ? (int)(k % 5) : -1);
        view_fill(&v, codes);
        for (int i = 0; i < engines; i++)
          compare(n > 5000 ? &three[i] : &one[i], &v.tensor, &stats, (int64_t)(k % 2));
        view_free(&v);
      }
  free(codes);
  engines_close(one, engines);
  engines_close(three, engines);
}

/* Elements that are repeated by a stride of 0 count as often. */
static void repeats(void **state) {
  (void)state;
  double x[3] = {1, -2, 0};
  int64_t shape[2] = {1000, 3}, strides[2] = {0, 1};
  sumac_tensor t = tensor_of(SUMAC_F64, x, shape);
  static oracle_stats stats;
  engine e = {NULL, "default", 0};
  t.ndim = 2;
  t.strides = strides;
  oracle_clear(&stats);
  for (int i = 0; i < 3; i++) oracle_add(&stats, SUMAC_F64, bits_of(x[i]), 1000);
  compare(&e, &t, &stats, 1);
}

static void refuses(void **state) {
  (void)state;
  double x = 1;
  int32_t axis = 0;
  int64_t n = 1;
  sumac_tensor t = tensor_of(SUMAC_F64, &x, &n), wrong = t;
  sumac_statistics s, before;
  memset(&s, 0x5a, sizeof s);
  before = s;
  assert_int_equal(sumac_stats(NULL, &t, NULL, NULL), SUMAC_ERR_ARGUMENT);
  assert_int_equal(sumac_stats(NULL, NULL, NULL, &s), SUMAC_ERR_ARGUMENT);
  sumac_options axes = {.axes = &axis, .naxes = 1}, flags = {.flags = SUMAC_KEEPDIMS},
                acc = {.acc = SUMAC_ACC_F64};
  assert_int_equal(sumac_stats(NULL, &t, &axes, &s), SUMAC_ERR_ARGUMENT);
  assert_int_equal(sumac_stats(NULL, &t, &flags, &s), SUMAC_ERR_ARGUMENT);
  assert_int_equal(sumac_stats(NULL, &t, &acc, &s), SUMAC_ERR_ARGUMENT);
  wrong.device.type = 2;
  assert_int_equal(sumac_stats(NULL, &wrong, NULL, &s), SUMAC_ERR_UNSUPPORTED);
  assert_non_null(strstr(sumac_error_message(), "host memory"));
  assert_memory_equal(&s, &before, sizeof s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(agrees), cmocka_unit_test(repeats),
                                     cmocka_unit_test(refuses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
