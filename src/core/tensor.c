/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: the checks, and the layout of a reduction.
 */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ELEMENTS ((int64_t)1 << 62)

sumac_status sumac_view_of(const sumac_tensor *tensor, const char *name, struct sumac_view *view) {
  sumac_status status = SUMAC_OK;
  if (!tensor) return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: the tensor is NULL", name);
  view->type = sumac_type_of(tensor->dtype, name, &status);
  if (status) return status;
  if (tensor->device.type > 1)
    return sumac_fail(SUMAC_ERR_UNSUPPORTED, "%s: device type %d is not supported; only host memory (type 1) is", name,
                      (int)tensor->device.type);
  if (tensor->device.type < 0)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: device type %d is negative", name, (int)tensor->device.type);
  if (tensor->ndim < 0 || tensor->ndim > SUMAC_MAX_DIMS)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: ndim is %d; it must be 0 to %d", name, (int)tensor->ndim, SUMAC_MAX_DIMS);
  if (tensor->ndim > 0 && !tensor->shape)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: shape is NULL, but ndim is %d", name, (int)tensor->ndim);

  int64_t size = sumac_types[view->type].size;
  bool empty = false, over = false;
  view->ndim = tensor->ndim;
  view->n = 1;
  for (int i = 0; i < tensor->ndim; i++) {
    int64_t length = view->shape[i] = tensor->shape[i];
    if (length < 0)
      return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: shape[%d] is %lld; lengths must not be negative", name, i,
                        (long long)length);
    empty |= length == 0;
    if (length && !over) over = __builtin_mul_overflow(view->n, length, &view->n) || view->n > MOST_ELEMENTS;
  }
  if (over && !empty)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: the shape has more than 2^62 elements", name);
  int64_t low = 0, high = 0, dense = size;
  bool far = false;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    int64_t stride = dense, reach;
    if (tensor->strides) far |= __builtin_mul_overflow(tensor->strides[i], size, &stride);
    if (view->shape[i] > 1 && !empty) {
      far |= __builtin_mul_overflow(view->shape[i] - 1, stride, &reach);
      far |= __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
    }
    view->stride[i] = stride;
    if (!tensor->strides && !empty) far |= __builtin_mul_overflow(dense, view->shape[i], &dense);
  }
  if (empty) {
    view->n = 0;
    far = false;
    low = high = 0;
  }
  uintptr_t first = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset;
  far |= first < (uintptr_t)tensor->data && view->n > 0;
  if (far || high > INT64_MAX - size || (view->n > 0 && (first + (uintptr_t)high + (uintptr_t)size < first ||
                                                         (low < 0 && first < 0 - (uintptr_t)low))))
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: shape, strides and byte_offset reach beyond the address space", name);
  if (view->n > 0 && !tensor->data) return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: data is NULL, but the tensor has elements", name);
  view->data = view->n > 0 ? (const char *)first : NULL;
  return SUMAC_OK;
}

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

static void add_dim(struct sumac_dims *d, int64_t length, int64_t sx, int64_t sy) {
  d->shape[d->ndim] = length;
  d->stride[0][d->ndim] = sx;
  d->stride[1][d->ndim] = sy;
  d->ndim++;
}

/* Row-major order over the dims may be left: ascending positive strides read memory in its own order. */
static void free_order(struct sumac_plan *plan) {
  struct sumac_dims *d = &plan->inner, from = *d;
  d->ndim = 0;
  for (int i = 0; i < from.ndim; i++) {
    int64_t length = from.shape[i], sx = from.stride[0][i], sy = from.stride[1][i];
    if (sx == 0 && sy == 0) {
      plan->repeat *= length;
      d->n /= length;
      continue;
    }
    if (sx < 0 || (sx == 0 && sy < 0)) {
      plan->data[0] += (length - 1) * sx;
      plan->data[1] += (length - 1) * sy;
      sx = -sx;
      sy = -sy;
    }
    int at = d->ndim;
    add_dim(d, length, sx, sy);
    for (; at > 0 && magnitude(d->stride[0][at - 1]) < sx; at--) { /* insertion, longest stride first */
      d->shape[at] = d->shape[at - 1];
      d->stride[0][at] = d->stride[0][at - 1];
      d->stride[1][at] = d->stride[1][at - 1];
    }
    d->shape[at] = length;
    d->stride[0][at] = sx;
    d->stride[1][at] = sy;
  }
}

/* Joins neighbours that lie as one. */
static void join(struct sumac_dims *d) {
  struct sumac_dims from = *d;
  d->ndim = 0;
  for (int i = 0; i < from.ndim; i++) {
    int64_t length = from.shape[i], sx = from.stride[0][i], sy = from.stride[1][i];
    int last = d->ndim - 1;
    int64_t rx, ry;
    if (last >= 0 && !__builtin_mul_overflow(sx, length, &rx) && !__builtin_mul_overflow(sy, length, &ry) &&
        d->stride[0][last] == rx && d->stride[1][last] == ry) {
      d->shape[last] *= length;
      d->stride[0][last] = sx;
      d->stride[1][last] = sy;
    } else {
      add_dim(d, length, sx, sy);
    }
  }
}

void sumac_plan_dims(struct sumac_plan *plan, const struct sumac_view *x, const struct sumac_view *y,
                     const bool *reduced) {
  plan->data[0] = x->data;
  plan->data[1] = y ? y->data : x->data;
  plan->repeat = 1;
  plan->outer.ndim = plan->inner.ndim = 0;
  plan->outer.n = plan->inner.n = 1;
  for (int i = 0; i < x->ndim; i++) {
    struct sumac_dims *d = reduced[i] ? &plan->inner : &plan->outer;
    d->n *= x->shape[i];
    if (x->shape[i] == 1 && reduced[i]) continue;
    add_dim(d, x->shape[i], x->stride[i], y ? y->stride[i] : x->stride[i]);
  }
  bool free = plan->acc == SUMAC_ACC_EXACT && plan->map != SUMAC_M_ARGMIN && plan->map != SUMAC_M_ARGMAX;
  if (free && plan->inner.n > 0) free_order(plan);
  if (plan->inner.n > 0) join(&plan->inner);
}
