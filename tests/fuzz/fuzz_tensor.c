/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor metadata and options from anywhere. Where the view fits into memory between guard pages, the result
 * is compared with the oracle; where it does not, only the calls that read no element are made.
 */
#include "../data.h"
#include "../oracle/oracle.h"
#include "../view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
  const uint8_t *data;
  size_t left;
} input;

static uint64_t take(input *in, size_t bytes) {
  uint64_t v = 0;
  for (size_t i = 0; i < bytes && in->left > 0; i++, in->left--) v |= (uint64_t)*in->data++ << (8 * i);
  return v;
}

static void must(int right, const char *what) {
  if (!right) {
    fprintf(stderr, "%s: %s\n", what, sumac_error_message());
    abort();
  }
}

/* Anything at all in every field. */
static void wild(input *in) {
  int64_t shape[SUMAC_MAX_DIMS], strides[SUMAC_MAX_DIMS], out_shape[SUMAC_MAX_DIMS];
  int32_t axes[SUMAC_MAX_DIMS], ndim;
  sumac_tensor x = {.data = (void *)(uintptr_t)take(in, 8), .shape = shape, .byte_offset = take(in, 8)};
  x.device.type = (int32_t)take(in, take(in, 1) % 5);
  x.ndim = take(in, 1) % 4 ? (int32_t)take(in, 1) % 6 : (int32_t)take(in, 4);
  x.dtype = take(in, 1) % 4
                ? dtypes[take(in, 1) % DTYPES]
                : (sumac_dtype){(uint8_t)take(in, 1), (uint8_t)take(in, 1), (uint16_t)take(in, 2)};
  x.strides = take(in, 1) % 2 ? strides : NULL;
  for (int i = 0; i < SUMAC_MAX_DIMS; i++) {
    shape[i] = (int64_t)take(in, take(in, 1) % 9);
    strides[i] = (int64_t)take(in, take(in, 1) % 9);
    axes[i] = (int32_t)take(in, take(in, 1) % 5);
  }
  sumac_options options = {.axes = take(in, 1) % 2 ? axes : NULL};
  options.naxes = (int32_t)take(in, take(in, 1) % 5);
  if (options.axes != NULL && options.naxes > SUMAC_MAX_DIMS) options.naxes = SUMAC_MAX_DIMS;
  options.acc = (int32_t)take(in, 1) % 9 - 1;
  options.flags = (uint32_t)take(in, take(in, 1) % 5);
  options.ddof = (int64_t)take(in, take(in, 1) % 9);
  sumac_op op = (sumac_op)(take(in, 1) % (OPS + 2));
  sumac_dtype dtype;
  char name[100];
  sumac_status status = sumac_result_type(op, &x, &options, &dtype, &ndim, out_shape);
  must(status == SUMAC_OK || status == SUMAC_ERR_ARGUMENT || status == SUMAC_ERR_UNSUPPORTED, "result_type");
  if (status == SUMAC_OK)
    must(ndim >= 0 && ndim <= x.ndim && sumac_dtype_name(dtype) != NULL, "the result's type");
  status = sumac_kernel_name(NULL, op, &x, &options, name, sizeof name);
  must(status == SUMAC_OK || status == SUMAC_ERR_ARGUMENT || status == SUMAC_ERR_UNSUPPORTED, "kernel_name");
}

/* A small view in memory, any strides. */
static void tame(input *in) {
  int64_t shape[4], strides[4], n = 1;
  int ndim = (int)(take(in, 1) % 5), dense = take(in, 1) % 3 == 0;
  sumac_dtype dtype = dtypes[take(in, 1) % DTYPES];
  for (int i = 0; i < ndim; i++) {
    shape[i] = (int64_t)(take(in, 1) % (ndim == 1 ? 200 : 12));
    strides[i] = (int64_t)(take(in, 1) % 41) - 20;
    n *= shape[i];
  }
  sumac_op op = (sumac_op)(take(in, 1) % OPS);
  int32_t axes[4], naxes = 0;
  uint64_t chosen = take(in, 1), flags = take(in, 1);
  for (int i = 0; i < ndim; i++)
    if (chosen >> i & 1) axes[naxes++] = chosen >> (4 + i) & 1 ? i - ndim : i;
  sumac_options options = {
      .axes = flags & 8 ? NULL : axes, .naxes = flags & 8 ? 0 : naxes, .flags = (uint32_t)flags & 7};
  options.ddof = (int64_t)(flags >> 4 & 3);
  sumac_dtype out_type, to = dtypes[take(in, 1) % (DTYPES - 1)];
  int64_t out_shape[4];
  int32_t out_ndim;
  view x, y, got, want;
  view_make(&x, dtype, ndim, shape, dense ? NULL : strides, (int)(take(in, 1) % 18) - 1);
  view_make(&y, dtype, ndim, shape, dense ? NULL : strides, -1);
  for (size_t i = 0; i < x.span_size; i++) {
    x.span[i] = in->left > 0 ? (uint8_t)take(in, 1) : (uint8_t)(i * 37 + (size_t)n);
    y.span[i] = (uint8_t)(x.span[i] + i);
  }
  must(sumac_result_type(op, &x.tensor, &options, &out_type, &out_ndim, out_shape) == SUMAC_OK,
       "result_type");
  if (flags & 64) to = out_type;
  view_make(&got, to, out_ndim, out_shape, NULL, -1);
  view_make(&want, to, out_ndim, out_shape, NULL, -1);
  const sumac_tensor *second = op == SUMAC_DOT ? &y.tensor : NULL;
  sumac_status status = sumac_reduce(NULL, op, &x.tensor, second, &options, &got.tensor);
  sumac_status wanted = oracle_reduce(op, &x.tensor, second, &options, &want.tensor);
  must(status == wanted, "status");
  if (wanted != SUMAC_ERR_EMPTY)
    must(memcmp(got.span, want.span, got.span_size) == 0, "not the oracle's bits");
  view_free(&x);
  view_free(&y);
  view_free(&got);
  view_free(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {data, size};
  if (take(&in, 1) % 4 == 0)
    wild(&in);
  else
    tame(&in);
  return 0;
}
