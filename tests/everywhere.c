/* SPDX-License-Identifier: Apache-2.0 */
#include "everywhere.h"

#include "data.h"
#include "device.h"
#include "engines.h"
#include "oracle/oracle.h"
#include "view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int kind_of(sumac_op op) {
  switch (op) {
  case SUMAC_SUM:
  case SUMAC_MEAN: return SUMAC_KIND_SUM;
  case SUMAC_NORM1: return SUMAC_KIND_ABS;
  case SUMAC_NORM2: return SUMAC_KIND_SQUARE;
  case SUMAC_DOT: return SUMAC_KIND_DOT;
  case SUMAC_VAR:
  case SUMAC_STD: return SUMAC_KIND_MOMENTS;
  default: return -1;
  }
}

static int with_device;

int everywhere_with_device(void) { return with_device = device_open(); }

static outcome through_state(sumac_kind kind, sumac_op op, const sumac_tensor *x, const sumac_tensor *y,
                             const sumac_options *options, sumac_dtype out) {
  sumac_state *state;
  outcome got = {SUMAC_OK, UINT64_MAX};
  sumac_tensor result = scalar_of(out, &got.bits);
  got.status = sumac_state_create(NULL, kind, x->dtype, &state);
  if (got.status == SUMAC_OK) got.status = sumac_state_add(state, x, y);
  if (got.status == SUMAC_OK) got.status = sumac_state_result(state, op, options, &result);
  sumac_state_destroy(state);
  return got;
}

static void agree(outcome got, outcome first, sumac_op op, sumac_dtype dtype, const char *way, int which) {
  if (got.status != first.status || got.bits != first.bits)
    fail_msg("%s of %s, %s %d: %s %#llx, elsewhere %s %#llx (last error: \"%s\")", op_text[op],
             dtype_text(dtype), way, which, sumac_status_name(got.status), (unsigned long long)got.bits,
             sumac_status_name(first.status), (unsigned long long)first.bits, sumac_error_message());
}

outcome everywhere(sumac_op op, const sumac_tensor *x, const sumac_tensor *y, uint32_t flags, int64_t ddof,
                   sumac_dtype out) {
  static engine engines[2][ENGINES_MAX];
  static int count;
  if (count == 0) {
    count = engines_open(engines[0], 1);
    engines_open(engines[1], 4);
  }
  sumac_options options = {.flags = flags, .ddof = ddof};
  outcome first = {SUMAC_OK, UINT64_MAX};
  for (int i = 0; i < 2 * count; i++) {
    const engine *e = &engines[i % 2][i / 2];
    outcome got = {SUMAC_OK, UINT64_MAX};
    sumac_tensor result = scalar_of(out, &got.bits);
    got.status = sumac_reduce(e->context, op, x, y, &options, &result);
    if (i == 0) first = got;
    agree(got, first, op, x->dtype, e->isa, e->threads);
  }
  int kind = kind_of(op), moments = kind != SUMAC_KIND_DOT && kind != SUMAC_KIND_ABS;
  device_tensor there[2];
  const sumac_tensor *px = x, *py = y;
  if (with_device && kind >= 0) {
    device_copy(&there[0], x);
    px = &there[0].tensor;
    if (y != NULL) {
      device_copy(&there[1], y);
      py = &there[1].tensor;
    }
    outcome got = {SUMAC_OK, UINT64_MAX};
    sumac_tensor result = scalar_of(out, &got.bits);
    got.status = sumac_reduce(NULL, op, px, py, &options, &result);
    agree(got, first, op, x->dtype, "CUDA device", 0);
  }
  for (int i = 0; kind >= 0 && i <= moments; i++) {
    sumac_kind through = i == 0 ? (sumac_kind)kind : SUMAC_KIND_MOMENTS;
    agree(through_state(through, op, x, y, &options, out), first, op, x->dtype, "through a state of kind",
          (int)through);
    if (px != x)
      agree(through_state(through, op, px, py, &options, out), first, op, x->dtype,
            "on a CUDA device through a state of kind", (int)through);
  }
  if (px != x) device_free(&there[0]);
  if (py != y) device_free(&there[1]);
  return first;
}

uint64_t everywhere_bits(sumac_op op, sumac_dtype dtype, const void *x, const void *y, int64_t n,
                         sumac_dtype out) {
  sumac_tensor a = tensor_of(dtype, x, &n), b = tensor_of(dtype, y, &n);
  outcome got = everywhere(op, &a, y != NULL ? &b : NULL, 0, 0, out);
  if (got.status != SUMAC_OK) fail_msg("%s of %s: %s", op_text[op], dtype_text(dtype), sumac_error_message());
  uint64_t mask = out.bits == 64 ? UINT64_MAX : ((uint64_t)1 << out.bits) - 1;
  return got.bits & mask;
}

double everywhere_f64(sumac_op op, const double *x, const double *y, int64_t n) {
  return double_of(everywhere_bits(op, SUMAC_F64, x, y, n, SUMAC_F64));
}

void agree_with_oracle(sumac_op op, sumac_dtype dtype, const uint64_t *x, const uint64_t *y, int64_t n,
                       uint32_t flags, int64_t ddof, sumac_dtype out) {
  static oracle_stats stats;
  oracle_clear(&stats);
  for (int64_t i = 0; i < n; i++) {
    if (op == SUMAC_DOT)
      oracle_add_product(&stats, dtype, x[i], y[i], 1);
    else
      oracle_add(&stats, dtype, x[i], 1);
  }
  view a, b;
  view_array(&a, dtype, x, n);
  view_array(&b, dtype, y != NULL ? y : x, n);
  outcome got = everywhere(op, &a.tensor, op == SUMAC_DOT ? &b.tensor : NULL, flags, ddof, out);
  uint64_t want = 0, mask = out.bits == 64 ? UINT64_MAX : ((uint64_t)1 << out.bits) - 1;
  sumac_status wanted = oracle_result(&stats, op, flags, ddof, out, &want);
  if (wanted == SUMAC_ERR_EMPTY) want = UINT64_MAX;
  if (got.status != wanted || (got.bits & mask) != (want & mask))
    fail_msg("%s of %lld %s to %s, flags %u, ddof %lld: %s %#llx, want %s %#llx", op_text[op], (long long)n,
             dtype_text(dtype), dtype_text(out), flags, (long long)ddof, sumac_status_name(got.status),
             (unsigned long long)(got.bits & mask), sumac_status_name(wanted),
             (unsigned long long)(want & mask));
  view_free(&a);
  view_free(&b);
}

double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
