/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts for every instruction set that both the library and this processor have.
 */
#ifndef SUMAC_TESTS_ENGINES_H
#define SUMAC_TESTS_ENGINES_H

#include "sumac/sumac.h"

typedef struct engine {
  sumac_context *context;
  const char *isa;
  int threads;
} engine;

/* One engine per instruction set with that many threads; says on stdout which ones are missing. */
#define ENGINES_MAX 3
int engines_open(engine engines[ENGINES_MAX], int threads);
/* One that stands for CUDA devices: which of these runs a call, its tensors say. */
int engines_open_device(engine engines[ENGINES_MAX]);
void engines_close(engine *engines, int count);

#endif
