/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: the checks, and the layout of a reduction.
 */
#include "core/core.h"

#include <string.h>

#define MOST_ELEMENTS ((int64_t)1 << 62)

sumac_status sumac_view_of(const sumac_tensor *tensor, const char *name, struct sumac_view *view) {
  sumac_status status = SUMAC_OK;
  if (!tensor) return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: the tensor is NULL", name);
  view->type = sumac_type_of(tensor->dtype, name, &status);
  if (status) return status;
  switch (tensor->device.type) {
  case 0:
  case 1:
  case 3: view->device = SUMAC_HOST; break;
  case 2:
  case 13: view->device = tensor->device.id; break;
  default:
    return sumac_fail(
        SUMAC_ERR_UNSUPPORTED,
        "%s: device type %d is not supported; there are 1 (host), 2 (CUDA), 3 (CUDA pinned host) and 13 "
        "(CUDA managed)",
        name, (int)tensor->device.type);
  }
  if ((tensor->device.type == 2 || tensor->device.type == 13) && view->device < 0)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: device %d is negative", name, (int)tensor->device.id);
  if (tensor->ndim < 0 || tensor->ndim > SUMAC_MAX_DIMS)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: ndim is %d; it must be 0 to %d", name, (int)tensor->ndim,
                      SUMAC_MAX_DIMS);
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
    /* where nothing is stepped over, the stride means nothing */
    if (tensor->strides && (view->shape[i] < 2 || empty))
      stride = 0;
    else if (tensor->strides)
      far |= __builtin_mul_overflow(tensor->strides[i], size, &stride);
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
  if (far || high > INT64_MAX - size ||
      (view->n > 0 &&
       (first + (uintptr_t)high + (uintptr_t)size < first || (low < 0 && first < 0 - (uintptr_t)low))))
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: shape, strides and byte_offset reach beyond the address space",
                      name);
  if (view->n > 0 && !tensor->data)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: data is NULL, but the tensor has elements", name);
  view->data =
      view->n > 0 ? (const char *)first : ""; /* not NULL: C lets nothing be added to that, not even 0 */
  return SUMAC_OK;
}

static void set_dim(struct sumac_dims *d, int i, int64_t length, int64_t sx, int64_t sy, int64_t weight) {
  d->shape[i] = length;
  d->stride[0][i] = sx;
  d->stride[1][i] = sy;
  d->weight[i] = weight;
}

static void copy_dim(struct sumac_dims *d, int to, const struct sumac_dims *from, int i) {
  set_dim(d, to, from->shape[i], from->stride[0][i], from->stride[1][i], from->weight[i]);
}

/* An element that is repeated counts as often; of its indices the first one wins. */
static void drop_repeats(struct sumac_plan *plan) {
  struct sumac_dims *d = &plan->inner;
  int kept = 0;
  d->n = 1;
  for (int i = 0; i < d->ndim; i++) {
    if (d->stride[0][i] == 0 && d->stride[1][i] == 0) {
      plan->repeat *= d->shape[i];
    } else {
      d->n *= d->shape[i];
      copy_dim(d, kept++, d, i);
    }
  }
  d->ndim = kept;
}

/* Row-major order over the dims may be left: descending positive strides read memory in its own order. */
static void sort_strides(struct sumac_plan *plan) {
  struct sumac_dims *d = &plan->inner;
  for (int i = 0; i < d->ndim; i++) {
    int64_t length = d->shape[i], sx = d->stride[0][i], sy = d->stride[1][i], weight = d->weight[i];
    if (sx < 0 || (sx == 0 && sy < 0)) {
      plan->data[0] += (length - 1) * sx;
      plan->data[1] += (length - 1) * sy;
      sx = -sx;
      sy = -sy;
    }
    int at = i;
    for (; at > 0 && d->stride[0][at - 1] < sx; at--) copy_dim(d, at, d, at - 1);
    set_dim(d, at, length, sx, sy, weight);
  }
}

/* Joins neighbours that lie as one. */
static void join(struct sumac_dims *d) {
  int kept = 0;
  for (int i = 0; i < d->ndim; i++) {
    int64_t length = d->shape[i], rx, ry, rw;
    if (kept > 0 && !__builtin_mul_overflow(d->stride[0][i], length, &rx) &&
        !__builtin_mul_overflow(d->stride[1][i], length, &ry) &&
        !__builtin_mul_overflow(d->weight[i], length, &rw) && d->stride[0][kept - 1] == rx &&
        d->stride[1][kept - 1] == ry && d->weight[kept - 1] == rw) {
      set_dim(d, kept - 1, length * d->shape[kept - 1], d->stride[0][i], d->stride[1][i], d->weight[i]);
    } else {
      copy_dim(d, kept++, d, i);
    }
  }
  d->ndim = kept;
}

void sumac_plan_dims(struct sumac_plan *plan, const struct sumac_view *x, const struct sumac_view *y,
                     const bool *reduced) {
  bool arg = plan->map == SUMAC_M_ARGMIN || plan->map == SUMAC_M_ARGMAX;
  plan->data[0] = x->data;
  plan->data[1] = y ? y->data : x->data;
  plan->device = x->device;
  plan->repeat = 1;
  plan->outer.ndim = plan->inner.ndim = 0;
  plan->outer.n = plan->inner.n = 1;
  for (int i = 0; i < x->ndim; i++) {
    struct sumac_dims *d = reduced[i] ? &plan->inner : &plan->outer;
    d->n =
        x->shape[i] && d->n > MOST_ELEMENTS / x->shape[i] ? MOST_ELEMENTS : d->n * x->shape[i]; /* if empty */
    if (x->shape[i] == 1 && reduced[i]) continue;
    set_dim(d, d->ndim++, x->shape[i], x->stride[i], y ? y->stride[i] : x->stride[i], 0);
  }
  struct sumac_dims *inner = &plan->inner;
  if (inner->n == 0 || plan->outer.n == 0) { /* nothing to walk, and nowhere to point to */
    inner->ndim = 0;
    for (int i = 0; i < plan->outer.ndim; i++) plan->outer.stride[0][i] = plan->outer.stride[1][i] = 0;
    return;
  }
  int64_t weight = 1;
  for (int i = inner->ndim - 1; i >= 0; i--) {
    inner->weight[i] = arg ? weight : 0;
    if (i > 0) weight *= inner->shape[i];
  }
  drop_repeats(plan);
  bool ordered = arg || plan->map == SUMAC_M_PROD; /* what is multiplied is rounded on the way */
  if (!sumac_is_plain(plan->acc) && !ordered) sort_strides(plan);
  join(inner);
}
