/* SPDX-License-Identifier: Apache-2.0
 *
 * sumac_reduce and what tells about it beforehand: checks arguments, makes the plan, calls the backend.
 */
#include "core/core.h"

#include <stdio.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cuda/backend.h"

static const sumac_options no_options;

sumac_status sumac_check_options(const char *call, const sumac_options *o) {
  if (o->flags & ~(SUMAC_KEEPDIMS | SUMAC_SKIP_NAN | SUMAC_SATURATE))
    return sumac_fail(SUMAC_ERR_ARGUMENT,
                      "%s: flags 0x%x has bits that are no flag; there are KEEPDIMS, SKIP_NAN, SATURATE",
                      call, (unsigned)o->flags);
  if (o->reserved0 || memcmp(o->reserved, no_options.reserved, sizeof o->reserved))
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: reserved option fields must be zero", call);
  if (o->ddof < 0)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: ddof is %lld; it must not be negative", call,
                      (long long)o->ddof);
  return SUMAC_OK;
}

/* Which axes are reduced. */
static sumac_status mark_axes(const char *call, const sumac_options *o, int ndim, bool *reduced) {
  memset(reduced, !o->axes, SUMAC_MAX_DIMS);
  if (!o->axes) {
    if (o->naxes)
      return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: naxes is %d, but axes is NULL", call, (int)o->naxes);
    return SUMAC_OK;
  }
  if (o->naxes < 0 || o->naxes > ndim)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: naxes is %d; the tensor has %d dimensions", call,
                      (int)o->naxes, ndim);
  for (int i = 0; i < o->naxes; i++) {
    int axis = o->axes[i] < 0 ? o->axes[i] + ndim : o->axes[i];
    if (axis < 0 || axis >= ndim)
      return sumac_fail(SUMAC_ERR_ARGUMENT,
                        "%s: axis %d is out of range; a tensor of %d dimensions has axes %d to %d", call,
                        (int)o->axes[i], ndim, -ndim, ndim - 1);
    if (reduced[axis])
      return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: axis %d is given twice", call, (int)o->axes[i]);
    reduced[axis] = true;
  }
  return SUMAC_OK;
}

/* The accumulators that exist for a type, as a list for a sentence. */
static const char *list_accs(enum sumac_type type, char *list, size_t size) {
  list[0] = 0;
  for (int a = 0; a < SUMAC_ACCS; a++)
    if (sumac_variant((enum sumac_acc)a, type)) sumac_list_add(list, size, sumac_acc_name((sumac_acc)a));
  return list;
}

static sumac_status check_combination(sumac_op op, enum sumac_type type, const sumac_options *o) {
  const struct sumac_op_info *info = &sumac_ops[op];
  char list[64];
  if (o->acc < 0 || o->acc >= SUMAC_ACCS)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: accumulator %d is not known; for %s there are %s", info->name,
                      (int)o->acc, sumac_types[type].name, list_accs(type, list, sizeof list));
  if (info->map >= SUMAC_M_MIN && o->acc != SUMAC_ACC_EXACT)
    return sumac_fail(SUMAC_ERR_UNSUPPORTED,
                      "%s: it adds nothing up and takes no accumulator but exact, not %s", info->name,
                      sumac_acc_name((sumac_acc)o->acc));
  if (!sumac_variant((enum sumac_acc)o->acc, type))
    return sumac_fail(SUMAC_ERR_UNSUPPORTED, "%s: there is no accumulator %s for %s; there are %s",
                      info->name, sumac_acc_name((sumac_acc)o->acc), sumac_types[type].name,
                      list_accs(type, list, sizeof list));
  return SUMAC_OK;
}

static enum sumac_type default_output(sumac_op op, enum sumac_type type) {
  const struct sumac_type_info *t = &sumac_types[type];
  bool is_float = t->cls == SUMAC_C_FLOAT;
  switch ((enum sumac_out_rule)sumac_ops[op].out) {
  case SUMAC_O_SAME: return type;
  case SUMAC_O_INDEX: return SUMAC_T_I64;
  case SUMAC_O_TRUTH: return SUMAC_T_BOOL;
  case SUMAC_O_REAL:
    if (!is_float) return SUMAC_T_F64;
    break;
  case SUMAC_O_WIDE: break;
  }
  if (is_float) return t->size > 4 ? SUMAC_T_F64 : SUMAC_T_F32;
  return t->cls == SUMAC_C_UINT ? SUMAC_T_U64 : SUMAC_T_I64;
}

sumac_status sumac_check_output(const char *call, bool may_be_bool, enum sumac_type out) {
  char list[128] = "";
  if (out != SUMAC_T_BOOL || may_be_bool) return SUMAC_OK;
  for (int i = 0; i < SUMAC_TYPES; i++)
    if (i != SUMAC_T_BOOL) sumac_list_add(list, sizeof list, sumac_types[i].name);
  return sumac_fail(
      SUMAC_ERR_UNSUPPORTED,
      "%s: the output type cannot be bool (only that of any, all, and min and max of bool can); there are "
      "%s",
      call, list);
}

static sumac_status check_op(sumac_op op) {
  if ((unsigned)op >= SUMAC_OPS)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "operation %d is not known; there are 0 (%s) to %d (%s)", (int)op,
                      sumac_ops[0].name, SUMAC_OPS - 1, sumac_ops[SUMAC_OPS - 1].name);
  return SUMAC_OK;
}

struct request {
  struct sumac_view x, y;
  bool reduced[SUMAC_MAX_DIMS];
  int ndim; /* of the output */
  int64_t shape[SUMAC_MAX_DIMS];
};

/* What sumac_reduce and sumac_result_type check alike. */
static sumac_status check_request(sumac_op op, const sumac_tensor *x, const sumac_options *o,
                                  struct request *r) {
  sumac_status status = check_op(op);
  if (status) return status;
  const char *call = sumac_ops[op].name;
  if ((status = sumac_check_options(call, o)) || (status = sumac_view_of(x, "x", &r->x)) ||
      (status = mark_axes(call, o, r->x.ndim, r->reduced)) || (status = check_combination(op, r->x.type, o)))
    return status;
  r->ndim = 0;
  for (int i = 0; i < r->x.ndim; i++)
    if (!r->reduced[i] || (o->flags & SUMAC_KEEPDIMS))
      r->shape[r->ndim++] = r->reduced[i] ? 1 : r->x.shape[i];
  return SUMAC_OK;
}

sumac_status sumac_result_type(sumac_op op, const sumac_tensor *x, const sumac_options *options,
                               sumac_dtype *dtype, int32_t *ndim, int64_t *shape) {
  struct request r;
  sumac_status status = check_request(op, x, options ? options : &no_options, &r);
  if (status) return status;
  if (dtype) *dtype = sumac_types[default_output(op, r.x.type)].dtype;
  if (ndim) *ndim = r.ndim;
  if (shape) memcpy(shape, r.shape, (size_t)r.ndim * sizeof *shape);
  return SUMAC_OK;
}

sumac_status sumac_kernel_name(sumac_context *context, sumac_op op, const sumac_tensor *x,
                               const sumac_options *options, char *buffer, size_t size) {
  const sumac_options *o = options ? options : &no_options;
  struct request r;
  if (!buffer || !size)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_kernel_name: buffer must not be NULL and size not 0");
  sumac_status status = check_request(op, x, o, &r);
  if (status) return status;
  enum sumac_map map = (enum sumac_map)sumac_ops[op].map;
  if (r.x.device != SUMAC_HOST) {
    bool exact = o->acc == SUMAC_ACC_F64 && !sumac_cuda_is_plain(SUMAC_ACC_F64, r.x.type);
    snprintf(buffer, size, "cuda.%s.%s.%s", sumac_acc_name(exact ? SUMAC_ACC_EXACT : (sumac_acc)o->acc),
             sumac_map_names[map], sumac_types[r.x.type].name);
  } else {
    const char *way = sumac_is_selection(map) ? "select"
                      : sumac_is_count(map)   ? "count"
                                              : sumac_acc_name((sumac_acc)o->acc);
    snprintf(buffer, size, "cpu.%s.%s.%s.%s", sumac_context_isa(context), way, sumac_map_names[map],
             sumac_types[r.x.type].name);
  }
  return SUMAC_OK;
}

/* y where an operation takes it, and only there. */
sumac_status sumac_check_pair(const char *call, bool takes_y, const struct sumac_view *x,
                              const sumac_tensor *y, struct sumac_view *view) {
  if (!takes_y) {
    if (y) return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: takes one tensor; y must be NULL", call);
    return SUMAC_OK;
  }
  if (!y) return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: takes two tensors; y is NULL", call);
  sumac_status status = sumac_view_of(y, "y", view);
  if (status) return status;
  if (view->type != x->type)
    return sumac_fail(SUMAC_ERR_UNSUPPORTED, "%s: x is %s and y is %s; both must be of one dtype", call,
                      sumac_types[x->type].name, sumac_types[view->type].name);
  if (view->device != x->device)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: x and y lie on different devices; both must lie on one", call);
  if (view->ndim != x->ndim)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: x has %d dimensions and y has %d; both must be of one shape",
                      call, x->ndim, view->ndim);
  for (int i = 0; i < x->ndim; i++)
    if (view->shape[i] != x->shape[i])
      return sumac_fail(SUMAC_ERR_ARGUMENT,
                        "%s: in dimension %d x has length %lld and y %lld; both must be of one shape", call,
                        i, (long long)x->shape[i], (long long)view->shape[i]);
  return SUMAC_OK;
}

sumac_status sumac_reduce(sumac_context *context, sumac_op op, const sumac_tensor *x, const sumac_tensor *y,
                          const sumac_options *options, const sumac_tensor *out) {
  const sumac_options *o = options ? options : &no_options;
  struct request r;
  struct sumac_view to;
  sumac_status status = check_request(op, x, o, &r);
  if (status) return status;
  const struct sumac_op_info *info = &sumac_ops[op];
  if ((status = sumac_check_pair(info->name, info->map == SUMAC_M_DOT, &r.x, y, &r.y)) ||
      (status = sumac_view_of(out, "out", &to)) ||
      (status = sumac_check_output(info->name, default_output(op, r.x.type) == SUMAC_T_BOOL, to.type)))
    return status;
  for (int i = 0; i < to.ndim; i++)
    if (to.n > 0 && to.shape[i] > 1 && to.stride[i] == 0)
      return sumac_fail(SUMAC_ERR_ARGUMENT,
                        "%s: out has stride 0 in dimension %d of length %lld; its elements would be one",
                        info->name, i, (long long)to.shape[i]);
  if (to.ndim != r.ndim)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: out has %d dimensions; the result has %d", info->name, to.ndim,
                      r.ndim);
  for (int i = 0; i < r.ndim; i++)
    if (to.shape[i] != r.shape[i])
      return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: out has length %lld in dimension %d; the result has %lld",
                        info->name, (long long)to.shape[i], i, (long long)r.shape[i]);
  if (to.device != SUMAC_HOST && to.device != r.x.device)
    return sumac_fail(
        SUMAC_ERR_ARGUMENT,
        "%s: out lies on device %d and x elsewhere; out must lie on the device of x, or in host "
        "memory",
        info->name, to.device);
  if (sumac_is_selection((enum sumac_map)info->map) && info->map != SUMAC_M_MAXABS && r.x.n == 0 && to.n > 0)
    return sumac_fail(SUMAC_ERR_EMPTY, "%s: the reduction has no elements: there is no extreme one",
                      info->name);

  struct sumac_plan plan;
  plan.map = (enum sumac_map)info->map;
  plan.acc = (enum sumac_acc)o->acc;
  plan.type = r.x.type;
  plan.skip_nan = (o->flags & SUMAC_SKIP_NAN) != 0;
  plan.finish = (struct sumac_finish){(enum sumac_finish_kind)info->finish, &sumac_types[to.type], o->ddof,
                                      plan.skip_nan, (o->flags & SUMAC_SATURATE) != 0};
  sumac_plan_dims(&plan, &r.x, info->map == SUMAC_M_DOT ? &r.y : NULL, r.reduced);
  plan.out = (char *)(uintptr_t)to.data;
  int k = 0, j = 0; /* output dimensions of the kept axes */
  for (int i = 0; i < r.x.ndim; i++) {
    if (!r.reduced[i])
      plan.out_stride[k++] = to.stride[j++];
    else if (o->flags & SUMAC_KEEPDIMS)
      j++;
  }
  plan.stream = o->stream;
  plan.out_on_device = to.device != SUMAC_HOST;
  if (plan.device != SUMAC_HOST) return sumac_cuda_reduce(&plan);
  if ((status = sumac_context_get(context, &context))) return status;
  return sumac_cpu_reduce(context, &plan);
}

sumac_status sumac_stats(sumac_context *context, const sumac_tensor *x, const sumac_options *options,
                         sumac_statistics *statistics) {
  const sumac_options *o = options ? options : &no_options;
  struct sumac_view view;
  bool reduced[SUMAC_MAX_DIMS];
  sumac_status status;
  if (!statistics) return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_stats: statistics must not be NULL");
  if ((status = sumac_check_options("sumac_stats", o)) || (status = sumac_view_of(x, "x", &view)))
    return status;
  if (o->axes || o->naxes || o->acc || o->flags || o->stream)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_stats: of the options only ddof may be set");
  if (view.device != SUMAC_HOST)
    return sumac_fail(SUMAC_ERR_UNSUPPORTED,
                      "sumac_stats: x lies on a CUDA device; it must lie in host memory");
  struct sumac_plan plan = {
      .map = SUMAC_M_MOMENTS, .acc = SUMAC_ACC_EXACT, .type = view.type, .skip_nan = true};
  plan.finish = (struct sumac_finish){SUMAC_F_VALUE, &sumac_types[SUMAC_T_F64], o->ddof, true, false};
  memset(reduced, true, sizeof reduced);
  sumac_plan_dims(&plan, &view, NULL, reduced);
  if ((status = sumac_context_get(context, &context))) return status;
  return sumac_cpu_stats(context, &plan, statistics);
}
