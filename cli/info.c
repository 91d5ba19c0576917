/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "cli.h"

/* The GPUs, or why there are none. */
static void print_devices(void) {
  int count = sumac_device_count();
  if (!count) printf("no GPU       %s\n", sumac_error_message());
  for (int i = 0; i < count; i++) {
    sumac_device_info gpu;
    check(sumac_device_info_get(i, &gpu));
    if (!i)
      printf("CUDA driver  %d.%d, kernels for %s\n", gpu.driver_version / 1000,
             gpu.driver_version % 1000 / 10, gpu.kernels);
    printf("device       cuda:%d, %s, compute capability %d.%d, %d multiprocessors, %.1f GiB\n", i, gpu.name,
           gpu.compute_major, gpu.compute_minor, gpu.multiprocessors, ldexp((double)gpu.memory_bytes, -30));
  }
}

/* What this build does on this machine. */
int info_main(int argc, const char **argv) {
  if (argc > 1) fail(EXIT_USAGE, "info takes no '%s'; it has no options", argv[1]);
  sumac_context *context;
  check(sumac_context_create(NULL, &context));
  printf("version      %s\n", sumac_version());
  printf("device       cpu\n");
  printf("instructions %s\n", sumac_context_isa(context));
  printf("threads      %d\n", sumac_context_threads(context));
  print_devices();
  printf("operations  ");
  for (int i = 0; sumac_op_name((sumac_op)i); i++) printf(" %s", sumac_op_name((sumac_op)i));
  printf("\naccumulators");
  for (int i = 0; sumac_acc_name((sumac_acc)i); i++) printf(" %s", sumac_acc_name((sumac_acc)i));
  printf("\ndtypes      ");
  sumac_dtype dtype;
  for (int i = 0; sumac_dtype_at(i, &dtype); i++) printf(" %s", sumac_dtype_name(dtype));
  printf("\nfiles        .npy 1.0 2.0 3.0, .npz, .safetensors, raw, text\n");
  sumac_context_destroy(context);
  close_output();
  return 0;
}
