/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core's files share: failures, contexts, checked tensors, and the plan of a reduction, which is
 * all that a backend gets to see.
 */
#ifndef SUMAC_CORE_H
#define SUMAC_CORE_H

#include "exact/finish.h"

/* ---- error.c */

/* Notes the sentence for sumac_error_message() and returns status. */
sumac_status sumac_fail(sumac_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a name to a list of them for a sentence: "exact, f64". `list` is a string in `size` bytes. */
void sumac_list_add(char *list, size_t size, const char *name);

/* ---- names.c */

/* As kernels and states call them. */
extern const char *const sumac_map_names[SUMAC_MAPS];

/* The supported type that a dtype names, or SUMAC_TYPES after noting a failure that names `what`. */
enum sumac_type sumac_type_of(sumac_dtype dtype, const char *what, sumac_status *status);

/* ---- context.c */

struct sumac_loops;
struct sumac_pool;

struct sumac_context {
  sumac_config config;
  int threads;
  const struct sumac_loops *loops;
  struct sumac_pool *_Atomic pool;
};

/* The context itself, or the default one for NULL. */
sumac_status sumac_context_get(sumac_context *given, sumac_context **context);

void *sumac_alloc(const sumac_context *context, size_t size);
void sumac_free(const sumac_context *context, void *memory, size_t size);

/* ---- tensor.c: a tensor checked, as addresses and byte strides */

enum { SUMAC_HOST = -1 };

struct sumac_view {
  const char *data;
  enum sumac_type type;
  int device; /* ordinal of the CUDA device; SUMAC_HOST */
  int ndim;
  int64_t n; /* elements */
  int64_t shape[SUMAC_MAX_DIMS], stride[SUMAC_MAX_DIMS];
};

sumac_status sumac_view_of(const sumac_tensor *tensor, const char *name, struct sumac_view *view);

/* ---- the plan of a reduction */

/* `outer` dimensions, one result each, and `inner` ones, reduced; both row-major, strides in bytes. Inner
 * dimensions of length 1 are gone, and those of stride 0, whose product is `repeat`; neighbours that lie as
 * one are one; where the order is free, strides are positive and ascending. */
struct sumac_dims {
  int ndim;
  int64_t n;
  int64_t shape[SUMAC_MAX_DIMS];
  int64_t stride[2][SUMAC_MAX_DIMS]; /* of x and y */
  int64_t weight[SUMAC_MAX_DIMS];    /* of the dimension's index in the index that ARGMIN and ARGMAX give */
};

struct sumac_plan {
  enum sumac_map map;
  enum sumac_acc acc;
  enum sumac_type type; /* of x and y */
  bool skip_nan;
  int device; /* where the data are; SUMAC_HOST */
  bool out_on_device;
  void *stream; /* of the device */
  const char *data[2];
  struct sumac_dims outer, inner;
  int64_t repeat;
  struct sumac_finish finish;
  /* results */
  char *out;
  int64_t out_stride[SUMAC_MAX_DIMS];
};

/* Lays out x (and y) for a reduction of the axes marked in `reduced`. */
void sumac_plan_dims(struct sumac_plan *plan, const struct sumac_view *x, const struct sumac_view *y,
                     const bool *reduced);

/* ---- reduce.c: checks that states share */

sumac_status sumac_check_options(const char *call, const sumac_options *options);
sumac_status sumac_check_pair(const char *call, bool takes_y, const struct sumac_view *x,
                              const sumac_tensor *y, struct sumac_view *view);
sumac_status sumac_check_output(const char *call, bool may_be_bool, enum sumac_type out);

/* ---- the CPU backend (src/cpu/backend.c) */

/* Runs the plan; ERR_RANGE after all of out has been written. */
sumac_status sumac_cpu_reduce(sumac_context *context, const struct sumac_plan *plan);

/* The statistics of all elements of a plan for MOMENTS without outer dimensions. */
sumac_status sumac_cpu_stats(sumac_context *context, const struct sumac_plan *plan,
                             sumac_statistics *statistics);

/* Adds all elements of a plan without outer dimensions to a state's numbers: sum, and square (MOMENTS), in
 * canonical limbs of the given formats. */
struct sumac_state_sums {
  struct sumac_format sum, square;
  int64_t *sum_limb, *square_limb;
  struct sumac_counts counts;
};
sumac_status sumac_cpu_accumulate(sumac_context *context, const struct sumac_plan *plan,
                                  struct sumac_state_sums *into);

#endif
