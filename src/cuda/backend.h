/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA backend as the core sees it. All of its calls fail where there is no device to use.
 */
#ifndef SUMAC_CUDA_BACKEND_H
#define SUMAC_CUDA_BACKEND_H

#include "core/core.h"
#include "cuda/launch.h"

/* Runs the plan, whose data lie on plan->device, on plan->stream. Asynchronous where out_on_device. */
sumac_status sumac_cuda_reduce(const struct sumac_plan *plan);

/* As sumac_cpu_accumulate, and synchronises; but plans of contiguous tensors of one type are first collected,
 * and added by one launch: the last of them by sumac_cuda_accumulate_rest(). A batch begins with count 0, and
 * takes plans of one map and one stream. */
struct sumac_cuda_batch {
  struct sumac_plan plan; /* the last one */
  int count;
  struct {
    const char *data[2];
    uint64_t n;
  } tensor[SUMAC_TENSORS];
};
sumac_status sumac_cuda_accumulate(struct sumac_cuda_batch *batch, const struct sumac_plan *plan,
                                   struct sumac_state_sums *into);
sumac_status sumac_cuda_accumulate_rest(struct sumac_cuda_batch *batch, struct sumac_state_sums *into);

/* The sticky range flag of asynchronous results: ERR_RANGE if it was up, and down afterwards. */
sumac_status sumac_cuda_check(int device);

/* All that first calls on the device would do. */
sumac_status sumac_cuda_warm(int device);

/* Sums with this accumulator are plain ones; others are exact, as all sums of integers are. */
bool sumac_cuda_is_plain(enum sumac_acc acc, enum sumac_type type);

const char *sumac_cuda_kernel_name(enum sumac_acc acc, enum sumac_map map, enum sumac_type type,
                                   bool strided);

/* For tests: tiles that have left the fast path on this stream so far. For tuning: the next launches' shape.
 */
struct CUstream_st;
sumac_status sumac_cuda_slow_tiles(int device, struct CUstream_st *stream, uint64_t *count);
extern _Thread_local int sumac_cuda_threads, sumac_cuda_blocks;
int sumac_cuda_loads(sumac_op op, sumac_dtype dtype); /* vectors a thread and tile */

#endif
