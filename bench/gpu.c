/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_gpu: the library's reductions of contiguous tensors on a CUDA device; see protocol.h. Also:
 *   --accs exact,f32         only these accumulators
 *   --threads T --blocks B   the shape of launches, instead of the library's choice
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/backend.h"
#include "protocol.h"

static const char *accs;

static sumac_tensor tensor(const void *data, sumac_dtype dtype, int64_t *n) {
  return (sumac_tensor){
      .data = (void *)(uintptr_t)data, .device = {2, 0}, .ndim = n != NULL, .dtype = dtype, .shape = n};
}

static const char *call(const struct contest *c, const void *data_x, const void *data_y, void *out, int64_t n,
                        void *stream) {
  sumac_options options = {.acc = *(const sumac_acc *)c->more, .stream = stream};
  sumac_tensor x = tensor(data_x, c->dtype, &n), y = tensor(data_y, c->dtype, &n),
               to = tensor(out, c->out, NULL);
  sumac_status status = sumac_reduce(NULL, c->op, &x, c->op == SUMAC_DOT ? &y : NULL, &options, &to);
  return status == SUMAC_OK ? NULL : sumac_error_message();
}

static uint64_t slow_tiles(void *stream) {
  uint64_t count;
  give_up_if(sumac_cuda_slow_tiles(0, stream, &count) != SUMAC_OK, "slow tiles", sumac_error_message());
  return count;
}

static double unit_of(sumac_acc acc) {
  return acc == SUMAC_ACC_F64 ? 0x1p-53 : acc == SUMAC_ACC_F32 ? 0x1p-24 : 0;
}

static void competition(struct contest *c) {
  char extra[64];
  snprintf(extra, sizeof extra, ", \"threads\": %d, \"blocks\": %d", sumac_cuda_threads, sumac_cuda_blocks);
  for (sumac_acc acc = SUMAC_ACC_EXACT; acc <= SUMAC_ACC_I64; acc++) { /* those that devices have */
    if (!is_listed(accs, sumac_acc_name(acc))) continue;
    int64_t none = 0;
    sumac_options options = {.acc = acc};
    sumac_tensor empty = tensor(NULL, c->dtype, &none);
    if (sumac_result_type(c->op, &empty, &options, &c->out, NULL, NULL) != SUMAC_OK) continue;
    c->who = "sumac";
    c->acc = sumac_acc_name(acc);
    c->unit = unit_of(acc);
    c->call = call;
    c->more = &acc;
    c->slow_tiles = acc == SUMAC_ACC_EXACT ? slow_tiles : NULL;
    c->tile = 512 * sumac_cuda_loads(c->op, c->dtype);
    c->extra = extra;
    compete(c);
  }
}

int main(int argc, char **argv) {
  int left = 1; /* what is not for the protocol */
  for (int i = 1; i < argc; i += 2) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(argv[i], "--accs"))
      accs = value;
    else if (!strcmp(argv[i], "--threads"))
      sumac_cuda_threads = atoi(value);
    else if (!strcmp(argv[i], "--blocks"))
      sumac_cuda_blocks = atoi(value);
    else
      for (int k = i; k < argc && k < i + 2; k++) argv[left++] = argv[k];
  }
  argv[left] = NULL;
  run_contests(left, argv, competition);
  return 0;
}
