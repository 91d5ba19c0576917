/* SPDX-License-Identifier: Apache-2.0 */
#include "engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int engines_open(engine engines[ENGINES_MAX], int threads) {
  static const struct {
    const char *isa;
    uint32_t mask;
  } sets[ENGINES_MAX] = {{"base", SUMAC_CPU_BASE},
                         {"avx2", SUMAC_CPU_BASE | SUMAC_CPU_AVX2},
                         {"avx512", SUMAC_CPU_BASE | SUMAC_CPU_AVX2 | SUMAC_CPU_AVX512}};
  static int said[ENGINES_MAX];
  int count = 0;
  for (int i = 0; i < ENGINES_MAX; i++) {
    sumac_config config = {.threads = threads, .cpu_features = sets[i].mask};
    engine *e = &engines[count];
    if (sumac_context_create(&config, &e->context) != SUMAC_OK) {
      fprintf(stderr, "no context: %s\n", sumac_error_message());
      abort();
    }
    e->isa = sets[i].isa;
    e->threads = threads;
    if (strcmp(sumac_context_isa(e->context), sets[i].isa) == 0) {
      count++;
      continue;
    }
    if (!said[i])
      printf("skipped: instruction set %s, which this processor or build does not have\n", sets[i].isa);
    said[i] = 1;
    sumac_context_destroy(e->context);
  }
  return count;
}

int engines_open_device(engine engines[ENGINES_MAX]) {
  engines[0] = (engine){NULL, "cuda", 0};
  return 1;
}

void engines_close(engine *engines, int count) {
  for (int i = 0; i < count; i++) sumac_context_destroy(engines[i].context);
}
