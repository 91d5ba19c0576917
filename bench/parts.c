/* SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct part {
  void (*body)(void *arg, int part, size_t begin, size_t end);
  void *arg;
  int number;
  size_t begin, end;
  pthread_t thread;
};

static void *run_part(void *argument) {
  struct part *part = argument;
  part->body(part->arg, part->number, part->begin, part->end);
  return NULL;
}

void in_parts(int threads, size_t n, void (*body)(void *arg, int part, size_t begin, size_t end), void *arg) {
  struct part parts[MAX_PARTS];
  threads = threads < 1 ? 1 : threads > MAX_PARTS ? MAX_PARTS : threads;
  for (int i = 0; i < threads; i++) {
    size_t share = n / (size_t)threads, begin = share * (size_t)i;
    parts[i] = (struct part){body, arg, i, begin, i == threads - 1 ? n : begin + share, 0};
    if (i > 0 && pthread_create(&parts[i].thread, NULL, run_part, &parts[i]) != 0) {
      fprintf(stderr, "bench: no thread can be started\n");
      exit(1);
    }
  }
  run_part(&parts[0]);
  for (int i = 1; i < threads; i++) pthread_join(parts[i].thread, NULL);
}
