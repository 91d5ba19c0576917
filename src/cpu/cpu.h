/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPU backend is made of: the accumulators that its loops fill, the table of loops that each
 * instruction set provides (loops.tmpl.h, compiled once per ISA), and the thread pool.
 */
#ifndef SUMAC_CPU_H
#define SUMAC_CPU_H

#include <math.h>
#include <string.h>

#include "exact/product.h"

/* One exact sum in progress: a number, and windows above it (fold.tmpl.h tells how). What tiles left in
 * window k waits in waiting[k], in units of 2^unit[k]. */
enum { SUMAC_MAX_WINDOWS = 5, SUMAC_BY_EXPONENT = 99 };

struct sumac_sum {
  struct sumac_counts counts;
  int windows;          /* tried on the next tile; 0: not chosen yet; SUMAC_BY_EXPONENT: none will do */
  int exponent;         /* of window 0 */
  size_t hold, backoff; /* elements to stay with more windows than usual; how many the next time */
  int tiles;            /* since the last flush */
  int open;             /* windows 0 ... open - 1 are set; the others, and limbs, when they are needed */
  int unit[SUMAC_MAX_WINDOWS];
  sumac_i128 waiting[SUMAC_MAX_WINDOWS];
  struct sumac_exact number;
};

void sumac_sum_init(struct sumac_sum *sum, struct sumac_format format);

/* Moves what waits in the windows into the number, and settles it: canonical afterwards. */
void sumac_sum_flush(struct sumac_sum *sum);

/* The parts of the loops that need no vectors. x, y: n contiguous elements of type t.
 *   by_element  adds them by the book; n is not counted
 *   specials    where inf or NaN is among them: counts these, copies all others to cx, cy (unless NULL)
 *               with neutral elements in their place, and returns true. x may be cx
 *   note_zeros  looks for a term that is neither -0 nor NaN
 *   pad         copies n elements and fills up to `width` with -0, or with +0 */
void sumac_sum_by_element(struct sumac_sum *sum, const struct sumac_type_info *t, enum sumac_map map,
                          const void *x, const void *y, size_t n);
bool sumac_sum_specials(struct sumac_sum *sum, const struct sumac_type_info *t, enum sumac_map map,
                        const void *x, const void *y, size_t n, void *cx, void *cy);
void sumac_sum_note_zeros(struct sumac_sum *sum, const struct sumac_type_info *t, enum sumac_map map,
                          const void *x, const void *y, size_t n);
void sumac_pad(const struct sumac_type_info *t, void *to, const void *x, size_t n, size_t width,
               bool negative);

/* Multiplies p by n contiguous elements of a type, in a fixed order (product.c). */
void sumac_product_of(enum sumac_type type, const void *x, size_t n, struct sumac_product *p);

/* The bits of element i, in the low end. */
static inline uint64_t sumac_bits_at(const struct sumac_type_info *t, const void *p, size_t i) {
  uint64_t bits = 0;
  switch (t->size) {
  case 1: return ((const uint8_t *)p)[i];
  case 2: memcpy(&bits, (const char *)p + 2 * i, 2); break;
  case 4: memcpy(&bits, (const char *)p + 4 * i, 4); break;
  default: memcpy(&bits, (const char *)p + 8 * i, 8); break;
  }
  return bits;
}

static inline void sumac_put_bits(const struct sumac_type_info *t, void *p, size_t i, uint64_t bits) {
  memcpy((char *)p + i * t->size, &bits, t->size); /* little endian, as every supported machine is */
}

static inline double sumac_element_value(struct sumac_element e) {
  double v = e.nan ? NAN : e.inf ? INFINITY : ldexp((double)e.magnitude, e.exponent);
  return e.negative ? -v : v;
}

/* Adds n contiguous elements (or pairs) at any alignment. */
typedef void sumac_exact_loop(struct sumac_sum *sum, const void *x, const void *y, size_t n);

/* The same of elements and of their squares. */
typedef void sumac_moments_loop(struct sumac_sum *sum, struct sumac_sum *square, const void *x, size_t n);

/* Sums n contiguous terms in a fixed order, in the accumulator's arithmetic. CENTRED: (x - centre)^2. */
typedef double sumac_plain_loop(const void *x, const void *y, size_t n, double centre);

/* The greatest key (semantics.h; of MIN and ARGMIN: the greatest complement) among n > 0 contiguous
 * elements; *nan is set if a NaN is among them. With skip_nan NaNs have the key INT64_MIN. */
typedef int64_t sumac_select_loop(const void *x, size_t n, bool skip_nan, bool *nan);

/* How many of n contiguous elements are zero, or NaN. */
enum sumac_counted { SUMAC_COUNT_ZEROS, SUMAC_COUNT_NANS, SUMAC_COUNTED };
typedef int64_t sumac_count_loop(const void *x, size_t n);

enum { SUMAC_M_CENTRED = SUMAC_LOOP_MAPS, SUMAC_PLAIN_MAPS };
enum { SUMAC_SELECT_MAPS = SUMAC_M_ARGMAX + 1 - SUMAC_M_MIN };

struct sumac_loops {
  const char *name;
  sumac_exact_loop *exact[SUMAC_LOOP_MAPS][SUMAC_TYPES];
  sumac_moments_loop *moments[SUMAC_TYPES];
  sumac_plain_loop *plain[SUMAC_ACCS][SUMAC_PLAIN_MAPS][SUMAC_TYPES];
  sumac_select_loop *select[SUMAC_SELECT_MAPS][SUMAC_TYPES];
  sumac_count_loop *count[SUMAC_COUNTED][SUMAC_TYPES];
};

extern const struct sumac_loops sumac_loops_base;
#if defined(SUMAC_HAVE_AVX2)
extern const struct sumac_loops sumac_loops_avx2;
#endif
#if defined(SUMAC_HAVE_AVX512)
extern const struct sumac_loops sumac_loops_avx512;
#endif

/* ---- features.c */

/* The best loops that the processor has, SUMAC_CPU_FEATURES allows, and the mask (0: any). */
const struct sumac_loops *sumac_cpu_loops(unsigned mask);

/* How many CPUs the cgroups of this process, version 1 or 2, leave to it, to the nearest; INT_MAX: any. All
 * files are looked for below `root`: "" but in tests. */
long long sumac_cgroup_cpus(const char *root);

/* How many threads affinity and cgroup leave to this process. */
int sumac_cpu_threads(void);

/* ---- pool.c */

/* Runs parts 0 ... parts - 1 on up to `workers` threads, the caller among them as worker 0; worker numbers
 * are below `workers`. Returns when all are done. */
typedef void sumac_part(void *arg, int part, int worker);
void sumac_pool_run(sumac_context *context, int workers, int parts, sumac_part *run, void *arg);
void sumac_pool_destroy(sumac_context *context);

/* ---- the floating-point environment: default while loops run, the caller's afterwards, flags included */

struct sumac_fp {
  unsigned word;
};
#if defined(__x86_64__)
static inline struct sumac_fp sumac_fp_enter(void) {
  struct sumac_fp fp = {__builtin_ia32_stmxcsr()};
  __builtin_ia32_ldmxcsr(0x1f80); /* round to nearest, no FTZ, no DAZ, all exceptions masked */
  return fp;
}
static inline void sumac_fp_leave(struct sumac_fp fp) { __builtin_ia32_ldmxcsr(fp.word); }
#else
#error "the floating-point environment of this architecture is not known yet"
#endif

#endif
