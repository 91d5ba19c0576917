/* SPDX-License-Identifier: Apache-2.0
 *
 * Strided tensors between guard pages: a read or write outside the bytes that the view spans ends the
 * test, and the bytes in its gaps are all ones (NaN, −1), so that using one shows in the result.
 */
#ifndef SUMAC_TESTS_VIEW_H
#define SUMAC_TESTS_VIEW_H

#include "sumac/sumac.h"

#define VIEW_DIMS 8

typedef struct view {
  sumac_tensor tensor;
  int64_t shape[VIEW_DIMS], strides[VIEW_DIMS];
  unsigned char *map;
  size_t map_size;
  unsigned char *span; /* the bytes of the view, gaps included */
  size_t span_size;
} view;

/* `strides` NULL: dense. `offset` >= 0: the span begins that many bytes behind a guard page; −1: it ends at
 * one. Elements are all ones at first. */
void view_make(view *v, sumac_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides,
               int offset);
void view_free(view *v);

int64_t view_count(const view *v);
/* Stores one code per element, in row-major order of the view. */
void view_fill(view *v, const uint64_t *codes);

/* A dense one-dimensional view over codes that ends at a guard page. */
void view_array(view *v, sumac_dtype dtype, const uint64_t *codes, int64_t n);

/* A tensor over plain memory: dense, one-dimensional (n >= 0), with the shape kept in *shape. */
sumac_tensor tensor_of(sumac_dtype dtype, const void *data, int64_t *shape);
/* A scalar. */
sumac_tensor scalar_of(sumac_dtype dtype, void *data);

#endif
