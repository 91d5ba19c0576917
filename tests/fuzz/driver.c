/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target without libFuzzer: first the files named, then mutations of them and of noise.
 *
 *   fuzz_X [-runs=N] [-seed=S] [-keep] [FILE...]
 *
 * Runs are a function of their seed. With -keep every input is written to the file "crash" before it is run,
 * so that a failing one is left there.
 */
#include "../data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 4096, KEPT = 256 };

static struct {
  size_t size;
  uint8_t at[MOST];
} corpus[KEPT];
static size_t kept;
static int keep_inputs;

static void keep(const uint8_t *data, size_t size, size_t slot) {
  corpus[slot].size = size;
  memcpy(corpus[slot].at, data, size);
}

static void run(const uint8_t *data, size_t size) {
  FILE *crash = keep_inputs ? fopen("crash", "wb") : NULL;
  if (crash != NULL) {
    fwrite(data, 1, size, crash);
    fclose(crash);
  }
  /* in memory of just that size, so that a sanitizer sees a byte too many */
  uint8_t *exact = malloc(size == 0 ? 1 : size);
  memcpy(exact, data, size);
  LLVMFuzzerTestOneInput(exact, size);
  free(exact);
}

static size_t mutate(uint8_t *data, size_t size, data_random *random) {
  for (uint64_t edits = 1 + data_below(random, 6); edits > 0; edits--) {
    size_t at = size == 0 ? 0 : (size_t)data_below(random, size), n = (size_t)data_below(random, 16);
    switch (data_below(random, 6)) {
    case 0:
      if (size > 0) data[at] ^= (uint8_t)(1u << data_below(random, 8));
      break;
    case 1:
      if (size > 0) data[at] = (uint8_t)data_next(random);
      break;
    case 2: { /* a number that edges are made of */
      static const uint64_t edges[] = {0,         1,         255, UINT64_C(1) << 31, UINT64_C(1) << 62,
                                       INT64_MAX, UINT64_MAX};
      uint64_t edge = edges[data_below(random, 7)];
      for (size_t i = 0; i < 8 && at + i < size; i++) data[at + i] = (uint8_t)(edge >> (8 * i));
      break;
    }
    case 3: /* cut */ size = at; break;
    case 4: /* grow */
      for (size_t i = 0; i < n && size < MOST; i++) data[size++] = (uint8_t)data_next(random);
      break;
    default: /* take from another */
      if (kept > 0) {
        size_t other = (size_t)data_below(random, kept);
        for (size_t i = at; i < at + n && i < size && i < corpus[other].size; i++)
          data[i] = corpus[other].at[i];
      }
    }
  }
  return size;
}

int main(int argc, char **argv) {
  long runs = 2000;
  data_random random = {1};
  static uint8_t input[MOST];
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "-runs=", 6) == 0) {
      runs = atol(argv[i] + 6);
    } else if (strncmp(argv[i], "-seed=", 6) == 0) {
      random.state = strtoull(argv[i] + 6, NULL, 0);
    } else if (strcmp(argv[i], "-keep") == 0) {
      keep_inputs = 1;
    } else {
      FILE *file = fopen(argv[i], "rb");
      if (file == NULL) {
        perror(argv[i]);
        return 2;
      }
      size_t size = fread(input, 1, MOST, file);
      fclose(file);
      run(input, size);
      if (kept < KEPT) keep(input, size, kept++);
    }
  }
  for (long i = 0; i < runs; i++) {
    size_t size = 0;
    if (kept == 0 || data_below(&random, 4) == 0) {
      size = (size_t)data_below(&random, 400);
      for (size_t j = 0; j < size; j++) input[j] = (uint8_t)data_next(&random);
    } else {
      size_t parent = (size_t)data_below(&random, kept);
      size = corpus[parent].size;
      memcpy(input, corpus[parent].at, size);
    }
    size = mutate(input, size, &random);
    run(input, size);
    if (kept < KEPT || data_below(&random, 20) == 0)
      keep(input, size, kept < KEPT ? kept++ : (size_t)data_below(&random, KEPT));
  }
  if (keep_inputs) remove("crash");
  printf("%ld runs, none failed\n", runs);
  return 0;
}
