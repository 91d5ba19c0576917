/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli.h"

/* What this build does on this machine. */
int info_main(int argc, const char **argv) {
  if (argc > 1) fail(EXIT_USAGE, "info takes no '%s'; it has no options", argv[1]);
  sumac_context *context;
  check(sumac_context_create(NULL, &context));
  printf("version      %s\n", sumac_version());
  printf("device       cpu\n");
  printf("instructions %s\n", sumac_context_isa(context));
  printf("threads      %d\n", sumac_context_threads(context));
  printf("operations  ");
  for (int i = 0; sumac_op_name((sumac_op)i); i++) printf(" %s", sumac_op_name((sumac_op)i));
  printf("\naccumulators");
  for (int i = 0; sumac_acc_name((sumac_acc)i); i++) printf(" %s", sumac_acc_name((sumac_acc)i));
  printf("\ndtypes      ");
  sumac_dtype dtype;
  for (int i = 0; sumac_dtype_at(i, &dtype); i++) printf(" %s", sumac_dtype_name(dtype));
  printf("\nfiles        .npy 1.0 2.0 3.0, raw, text\n");
  sumac_context_destroy(context);
  close_output();
  return 0;
}
