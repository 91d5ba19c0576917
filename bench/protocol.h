/* SPDX-License-Identifier: Apache-2.0
 *
 * How everything on a CUDA device is measured, the library and its peers alike. Read by C and C++.
 *
 * A point is one call on so many bytes of input. It is checked against the exact result, computed on the
 * processor, and then timed in three ways:
 *   graph     calls that follow each other in a replayed graph: no host in the way
 *   isolated  a call between two unrelated kernels: what a program that does something else feels
 *   stream    calls that follow each other on a stream
 * Each call of a sequence reads other memory: 256 MB in all, several times the L2 cache, or, below 1 MB,
 * 256 times the input, which then may lie in the cache; for everyone.
 */
#ifndef SUMAC_BENCH_PROTOCOL_H
#define SUMAC_BENCH_PROTOCOL_H

#include <stdint.h>
#include <sumac/sumac.h>

#include "data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One competitor on one operation, dtype and kind of data. */
struct contest {
  sumac_op op;
  sumac_dtype dtype;
  enum data data;
  /* filled in by whoever competes */
  const char *who, *acc; /* the program, what it accumulates in */
  sumac_dtype out;
  double unit; /* of the accumulator, 2^-24 for f32; 0: the result is right to the bit; HUGE_VAL: unchecked */
  /* Enqueues the reduction of n elements on the stream; the result goes to `out`. Returns NULL, or why not:
   * then the contestant is left out. */
  const char *(*call)(const struct contest *contest, const void *x, const void *y, void *out, int64_t n,
                      void *stream);
  const void *more; /* for call() */
  /* Or NULL, and "": tiles that have taken a slow path on the stream so far; bytes of a tile; JSON to be
   * added. */
  uint64_t (*slow_tiles)(void *stream);
  int tile;
  const char *extra;
};

/* What the command line of every such program has, and memory on the device.
 *   --ops sum,dot --dtypes f32,f64 --data normal,wide --sizes 1024,1048576   only these; else: sum, all
 *                                                            dtypes, normal, and all sizes
 *   --repetitions 9 --calls 256   how often a sequence is timed; most calls in one
 *   --mb 4096                     the largest size
 * The competition is called for each operation, dtype and kind of data, and calls compete() for each that
 * takes part: a JSON row a size, one a line, on the standard output. */
void run_contests(int argc, char **argv, void (*competition)(struct contest *contest));
void compete(const struct contest *contest);

/* Is `word` in the comma-separated list? No list has all. */
int is_listed(const char *list, const char *word);

/* Ends the program with a message unless `failed` is 0. */
void give_up_if(int failed, const char *what, const char *why);

#ifdef __cplusplus
}
#endif

#endif
