/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast, compared with what, and is it right? Contenders that read the same bytes run in turn within
 * each repetition, so that a slow moment of the machine hits them alike; a ratio is the median of the
 * ratios within repetitions. Large arrays lie twice in memory and each timed call reads the copy that
 * was read longer ago. Every timed result is compared with one that was found in another way.
 */
#include <float.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sumac/sumac.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef BENCH_OPENBLAS
#include <cblas.h>
#endif

#include "data.h"
#include "loops.h"
#include "parts.h"
#include "report.h"

enum {
  MAX_CONTENDERS = 32,
  MAX_COMPARISONS = 64,
  MAX_REPETITIONS = 1001,
  MAX_ENGINES = 4,
  OPS = SUMAC_ALL + 1
};

static struct {
  size_t array_bytes;
  int repetitions;
  const char *json, *only, *command, *commit;
} options = {.array_bytes = 400000000, .repetitions = 15};

/* A context and what to call it. engines[0 … isas) have one thread, the best instruction set last;
 * engines[isas] is the best one with all threads. */
struct engine {
  sumac_context *context;
  const char *isa;
  int threads;
};

static struct engine engines[MAX_ENGINES];
static int isas, engine_count, all_threads;
static sumac_context *checker; /* the baseline instruction set with all threads */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void check(sumac_status status) {
  if (status == SUMAC_OK) return;
  fprintf(stderr, "bench: %s\n", sumac_error_message());
  exit(1);
}

static void create_engines(void) {
  const uint32_t masks[] = {SUMAC_CPU_BASE, SUMAC_CPU_AVX2, SUMAC_CPU_AVX512};
  const char *const names[] = {"base", "avx2", "avx512"};
  for (int i = 0; i < 3; i++) {
    struct engine *engine = &engines[isas];
    check(sumac_context_create(&(sumac_config){.threads = 1, .cpu_features = masks[i]}, &engine->context));
    engine->isa = sumac_context_isa(engine->context);
    engine->threads = 1;
    if (strcmp(engine->isa, names[i]) == 0)
      isas++;
    else
      sumac_context_destroy(engine->context); /* this processor does not have it */
  }
  engine_count = isas;
  struct engine *all = &engines[isas];
  check(sumac_context_create(NULL, &all->context));
  all_threads = all->threads = sumac_context_threads(all->context);
  all->isa = sumac_context_isa(all->context);
  if (all_threads > 1) engine_count++;
  check(sumac_context_create(&(sumac_config){.cpu_features = SUMAC_CPU_BASE}, &checker));
}

static const struct engine *best(void) { return &engines[isas - 1]; }

/* ---- arrays --------------------------------------------------------------------------------- */

/* Copies of one array, `spacing` apart; `turn` counts their uses. */
struct arena {
  unsigned char *memory;
  size_t size, spacing;
  unsigned copies, turn;
};

static struct arena arena, read_arena; /* a group's array; the f32 numbers whose plain sum is the yardstick */

static void arena_create(struct arena *a, size_t size) {
  a->size = size;
  /* Huge pages, which numpy asks for too. */
  a->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (a->memory == MAP_FAILED) {
    perror("bench: memory");
    exit(1);
  }
  madvise(a->memory, size, MADV_HUGEPAGE);
}

static void copy_part(void *arg, int part, size_t begin, size_t end) {
  const struct arena *a = arg;
  (void)part;
  memcpy(a->memory + a->spacing + begin, a->memory + begin, end - begin);
}

static void arena_fill(struct arena *a, enum data data, sumac_dtype dtype, size_t bytes, size_t misaligned) {
  a->spacing = a->size / 2 & ~(size_t)4095;
  a->copies = bytes + misaligned <= a->spacing ? 2 : 1;
  data_fill(data, dtype, a->memory, bytes / (dtype.bits / 8), all_threads);
  if (misaligned) memmove(a->memory + misaligned, a->memory, bytes);
  if (a->copies == 2) in_parts(all_threads, bytes + misaligned, copy_part, a);
}

/* Small arrays are used where they are, as a program that calls often would: caches may hold them. */
static unsigned char *arena_next(struct arena *a, bool rotate) {
  return a->memory + (rotate ? a->turn++ % a->copies : 0) * a->spacing;
}

/* ---- groups --------------------------------------------------------------------------------- */

/* Something that can be timed on a group's array. */
struct contender {
  sumac_op op;
  sumac_acc acc;
  const struct engine *engine; /* NULL: `loop` on `threads` */
  loop *loop;
  const char *loop_isa;
  int threads;
  bool reads_f32; /* as many bytes of read_arena instead of the group's array */
};

/* A row of the report: the ratio to the fastest of the contenders in the set `against` (bit i: contender
 * i). */
struct comparison {
  const char *name;
  int contender;
  uint32_t against;
  const char *against_name;
  enum measure measure;
  double target;
};

/* The right value of an operation and the sum of the terms' magnitudes. */
struct right {
  bool known;
  uint64_t bits;
  double value, magnitude;
};

struct group {
  const char *data;
  sumac_dtype dtype;
  int64_t n, stride;
  size_t bytes, misaligned, y_offset; /* y follows x where it is used */
  struct contender contenders[MAX_CONTENDERS];
  int contender_count;
  struct comparison comparisons[MAX_COMPARISONS];
  int comparison_count;
  struct right right[OPS];
};

static struct right read_right;

static struct group group_create(const char *name, enum data data, sumac_dtype dtype, size_t bytes) {
  struct group group = {.data = name ? name : data_name(data, dtype), .dtype = dtype, .stride = 1};
  group.n = (int64_t)(bytes / (dtype.bits / 8));
  group.bytes = (size_t)group.n * (dtype.bits / 8);
  arena_fill(&arena, data, dtype, group.bytes, 0);
  return group;
}

static int add_sumac(struct group *group, sumac_op op, sumac_acc acc, const struct engine *engine) {
  group->contenders[group->contender_count] =
      (struct contender){.op = op, .acc = acc, .engine = engine, .threads = engine->threads};
  return group->contender_count++;
}

static int add_loop(struct group *group, sumac_op op, loop *body, const char *isa, int threads) {
  group->contenders[group->contender_count] =
      (struct contender){.op = op, .loop = body, .loop_isa = isa, .threads = threads};
  return group->contender_count++;
}

static int add_read(struct group *group, const struct engine *engine) {
  int i = add_sumac(group, SUMAC_SUM, SUMAC_ACC_F32, engine);
  group->contenders[i].reads_f32 = true;
  return i;
}

static void compare(struct group *group, struct comparison comparison) {
  group->comparisons[group->comparison_count++] = comparison;
}

static uint32_t only(int contender) { return UINT32_C(1) << contender; }

/* ---- right values --------------------------------------------------------------------------- */

static double as_double(sumac_dtype dtype, uint64_t bits) {
  if (dtype.code == 0) return (double)(int64_t)bits;
  if (dtype.bits == 32) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static sumac_tensor view(const struct group *group, unsigned char *array, int64_t *n) {
  return (sumac_tensor){.data = array,
                        .ndim = 1,
                        .dtype = group->dtype,
                        .shape = n,
                        .strides = (int64_t *)&group->stride,
                        .byte_offset = group->misaligned};
}

/* From a state that is merged, last piece first, from states of seven uneven pieces. */
static uint64_t from_pieces(const struct group *group, sumac_kind kind, sumac_op op, sumac_dtype out_dtype) {
  enum { PIECES = 7 };
  sumac_state *all, *piece;
  check(sumac_state_create(checker, kind, group->dtype, &all));
  for (int64_t i = PIECES - 1; i >= 0; i--) {
    int64_t begin = group->n * i * i / (PIECES * PIECES);
    int64_t n = group->n * (i + 1) * (i + 1) / (PIECES * PIECES) - begin;
    sumac_tensor x = view(group, arena.memory, &n), y;
    x.byte_offset += (uint64_t)(begin * group->stride) * (group->dtype.bits / 8);
    y = x;
    y.byte_offset += group->y_offset;
    check(sumac_state_create(checker, kind, group->dtype, &piece));
    check(sumac_state_add(piece, &x, kind == SUMAC_KIND_DOT ? &y : NULL));
    check(sumac_state_merge(all, piece));
    sumac_state_destroy(piece);
  }
  uint64_t bits = 0;
  check(sumac_state_result(all, op, NULL, &(sumac_tensor){.data = &bits, .dtype = out_dtype}));
  sumac_state_destroy(all);
  return bits;
}

/* By a plain loop, of finite f64 or f32 numbers that lie densely. */
static uint64_t selected(const struct group *group, sumac_op op) {
  uint64_t bits = 0;
  double chosen = 0;
  int64_t index = -1, nonzero = 0;
  for (int64_t i = 0; i < group->n; i++) {
    double x = group->dtype.bits == 64 ? ((double *)arena.memory)[i] : ((float *)arena.memory)[i];
    nonzero += x != 0;
    if (op == SUMAC_NORMINF) x = fabs(x);
    if (index < 0 || (op == SUMAC_MIN || op == SUMAC_ARGMIN ? x < chosen : x > chosen)) {
      chosen = x;
      index = i;
    }
  }
  if (op == SUMAC_ARGMIN || op == SUMAC_ARGMAX) return (uint64_t)index;
  if (op == SUMAC_COUNT_NONZERO) return (uint64_t)nonzero;
  if (group->dtype.bits == 64)
    memcpy(&bits, &chosen, sizeof chosen);
  else
    memcpy(&bits, &(float){(float)chosen}, sizeof(float));
  return bits;
}

static sumac_dtype out_dtype_of(const struct group *group, sumac_op op) {
  int64_t n = group->n;
  sumac_tensor x = view(group, arena.memory, &n);
  sumac_dtype dtype;
  check(sumac_result_type(op, &x, NULL, &dtype, NULL, NULL));
  return dtype;
}

static const struct right *right_value(struct group *group, sumac_op op) {
  struct right *right = &group->right[op];
  if (right->known) return right;
  right->known = true;
  sumac_dtype out = out_dtype_of(group, op);
  switch (op) {
  case SUMAC_SUM:
  case SUMAC_MEAN: right->bits = from_pieces(group, SUMAC_KIND_SUM, op, out); break;
  case SUMAC_DOT: right->bits = from_pieces(group, SUMAC_KIND_DOT, op, out); break;
  case SUMAC_VAR:
  case SUMAC_STD: right->bits = from_pieces(group, SUMAC_KIND_MOMENTS, op, out); break;
  case SUMAC_NORM1: right->bits = from_pieces(group, SUMAC_KIND_ABS, op, out); break;
  case SUMAC_NORM2: right->bits = from_pieces(group, SUMAC_KIND_SQUARE, op, out); break;
  default: right->bits = selected(group, op);
  }
  right->value = as_double(out, right->bits);
  if (op == SUMAC_SUM)
    right->magnitude = as_double(SUMAC_F64, from_pieces(group, SUMAC_KIND_ABS, SUMAC_NORM1, SUMAC_F64));
  else if (op == SUMAC_DOT) {
    /* Σ|x·y| is at most ‖x‖·‖y‖. */
    struct group y = *group;
    y.misaligned += group->y_offset;
    right->magnitude = as_double(SUMAC_F64, from_pieces(group, SUMAC_KIND_SQUARE, SUMAC_NORM2, SUMAC_F64)) *
                       as_double(SUMAC_F64, from_pieces(&y, SUMAC_KIND_SQUARE, SUMAC_NORM2, SUMAC_F64));
  } else
    right->magnitude = fabs(right->value);
  return right;
}

/* Exact results to the bit. Others to the bound that sumac.h promises, and loops of others to that of
 * adding up in any order. */
static bool is_right(struct group *group, const struct contender *contender, uint64_t bits, double value) {
  const struct right *right = contender->reads_f32 ? &read_right : right_value(group, contender->op);
  if (contender->engine && contender->acc == SUMAC_ACC_EXACT) return bits == right->bits;
  bool wide = contender->engine ? contender->acc != SUMAC_ACC_F32 : group->dtype.bits == 64;
  double n = contender->reads_f32 ? (double)group->bytes / 4 : (double)group->n;
  double bound = contender->engine ? 301 + log2(n + 1) : n + 1; /* 1: the output is rounded too */
  double unit = wide && out_dtype_of(group, contender->op).bits == 64 ? DBL_EPSILON : FLT_EPSILON;
  return fabs(value - right->value) <= bound * unit * right->magnitude;
}

/* ---- timing --------------------------------------------------------------------------------- */

struct loop_run {
  const struct contender *contender;
  const struct group *group;
  const unsigned char *x;
  double sums[MAX_PARTS];
};

static void loop_part(void *arg, int part, size_t begin, size_t end) {
  struct loop_run *run = arg;
  const unsigned char *x = run->x + begin * (run->group->dtype.bits / 8);
  run->sums[part] = run->contender->loop(x, x + run->group->y_offset, end - begin);
}

/* Seconds of one call; its result through bits and value. */
static double run_once(const struct group *group, const struct contender *contender, int calls,
                       uint64_t *bits, double *value) {
  bool rotate = calls == 1;
  *bits = 0;
  if (!contender->engine) {
    static struct loop_run run;
    run.contender = contender;
    run.group = group;
    run.x = arena_next(&arena, rotate);
    double start = now();
    for (int i = 0; i < calls; i++) in_parts(contender->threads, (size_t)group->n, loop_part, &run);
    double seconds = now() - start;
    *value = 0;
    for (int i = 0; i < contender->threads; i++) *value += run.sums[i];
    return seconds / calls;
  }
  int64_t n = group->n, dense = (int64_t)(group->bytes / sizeof(float));
  sumac_tensor x = view(group, arena_next(contender->reads_f32 ? &read_arena : &arena, rotate), &n), y = x;
  if (contender->reads_f32)
    x = (sumac_tensor){.data = x.data, .ndim = 1, .dtype = SUMAC_F32, .shape = &dense};
  y.byte_offset += group->y_offset;
  sumac_options how = {.acc = (int32_t)contender->acc};
  sumac_tensor out = {.data = bits};
  check(sumac_result_type(contender->op, &x, &how, &out.dtype, NULL, NULL));
  double start = now();
  for (int i = 0; i < calls; i++)
    check(sumac_reduce(contender->engine->context, contender->op, &x, contender->op == SUMAC_DOT ? &y : NULL,
                       &how, &out));
  double seconds = now() - start;
  *value = as_double(out.dtype, *bits);
  return seconds / calls;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static struct spread spread_of(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, ascending);
  return (struct spread){values[(n - 1) / 4], values[n / 2], values[3 * (n - 1) / 4]};
}

static double times[MAX_CONTENDERS][MAX_REPETITIONS];

/* Of a set, the contender with the least median. (The least of each repetition would be none's speed.) */
static int fastest(const struct group *group, uint32_t set) {
  int best_one = -1;
  double least = INFINITY, values[MAX_REPETITIONS];
  for (int c = 0; c < group->contender_count; c++) {
    if (!(set >> c & 1)) continue;
    memcpy(values, times[c], (size_t)options.repetitions * sizeof *values);
    double middle = spread_of(values, options.repetitions).median;
    if (middle < least) {
      least = middle;
      best_one = c;
    }
  }
  return best_one;
}

static void report_comparison(const struct group *group, const struct comparison *comparison,
                              const int *wrong) {
  const struct contender *contender = &group->contenders[comparison->contender];
  const double *own = times[comparison->contender];
  double values[MAX_REPETITIONS];
  struct row row = {.name = comparison->name,
                    .data = group->data,
                    .dtype = sumac_dtype_name(contender->reads_f32 ? SUMAC_F32 : group->dtype),
                    .op = sumac_op_name(contender->op),
                    .isa = contender->engine ? contender->engine->isa : contender->loop_isa,
                    .threads = contender->threads,
                    .bytes = (double)group->bytes,
                    .measure = comparison->measure,
                    .target = comparison->target,
                    .wrong = wrong[comparison->contender]};
  memcpy(values, own, (size_t)options.repetitions * sizeof *values);
  row.seconds = spread_of(values, options.repetitions);
  if (comparison->against) {
    int rival = fastest(group, comparison->against);
    for (int r = 0; r < options.repetitions; r++) values[r] = times[rival][r] / own[r];
    row.against = comparison->against_name;
    row.ratio = spread_of(values, options.repetitions);
  }
  report_add(row);
}

static void group_run(struct group *group) {
  int wrong[MAX_CONTENDERS] = {0}, count = group->contender_count;
  int calls = group->bytes > 1 << 23 ? 1 : 1 + (int)((1 << 23) / group->bytes);
  fprintf(stderr, "%s %s, %zu bytes\n", sumac_dtype_name(group->dtype), group->data, group->bytes);
  for (int c = 0; c < count; c++) { /* starts threads and finds the right values */
    uint64_t bits;
    double value;
    run_once(group, &group->contenders[c], 1, &bits, &value);
    is_right(group, &group->contenders[c], bits, value);
  }
  for (int r = 0; r < options.repetitions; r++)
    for (int i = 0; i < count; i++) {
      int c = (i + r) % count; /* no contender always follows the same one */
      uint64_t bits;
      double value;
      times[c][r] = run_once(group, &group->contenders[c], calls, &bits, &value);
      wrong[c] += !is_right(group, &group->contenders[c], bits, value);
    }
  for (int i = 0; i < group->comparison_count; i++) report_comparison(group, &group->comparisons[i], wrong);
}

/* ---- what is measured ------------------------------------------------------------------------ */

static bool wanted(const char *section) { return !options.only || strcmp(options.only, section) == 0; }

static bool is_isa(const struct engine *engine, const char *isa) { return strcmp(engine->isa, isa) == 0; }

static sumac_acc plain_acc(sumac_dtype dtype) {
  if (dtype.code == 0) return SUMAC_ACC_I64;
  return dtype.bits == 64 ? SUMAC_ACC_F64 : SUMAC_ACC_F32;
}

#ifdef BENCH_OPENBLAS
static double blas_asum_f64(const void *x, const void *y, size_t n) {
  (void)y;
  return cblas_dasum((int)n, x, 1);
}
static double blas_asum_f32(const void *x, const void *y, size_t n) {
  (void)y;
  return cblas_sasum((int)n, x, 1);
}
static double blas_dot_f64(const void *x, const void *y, size_t n) { return cblas_ddot((int)n, x, 1, y, 1); }
static double blas_dot_f32(const void *x, const void *y, size_t n) { return cblas_sdot((int)n, x, 1, y, 1); }
#endif

/* Adds loops that do the same as our plain kernels, with rows of their own, and says how near ours is to
 * the fastest of them. */
static void add_rivals(struct group *group, sumac_op op, int plain, int threads) {
  bool dot = op == SUMAC_DOT, wide = group->dtype.bits == 64;
  loop *sum_loop = wide ? loop_sum_f64 : loop_sum_f32, *dot_loop = wide ? loop_dot_f64 : loop_dot_f32;
  int fast = add_loop(group, op, dot ? dot_loop : sum_loop, "native", threads);
  compare(group, (struct comparison){"-O3 -ffast-math loop", fast, only(plain), "our plain kernel", 0, 0});
  uint32_t rivals = only(fast);
#ifdef BENCH_OPENBLAS
  if (threads == 1) {
    loop *asum = wide ? blas_asum_f64 : blas_asum_f32, *blas_dot = wide ? blas_dot_f64 : blas_dot_f32;
    int blas = add_loop(group, dot ? SUMAC_DOT : SUMAC_NORM1, dot ? blas_dot : asum, "openblas", 1);
    compare(group, (struct comparison){dot ? "OpenBLAS dot" : "OpenBLAS asum", blas, only(plain),
                                       "our plain kernel", 0, 0});
    rivals |= only(blas);
  }
#endif
  compare(group, (struct comparison){dot ? "plain dot" : "plain sum", plain, rivals, "the best of the loops",
                                     threads == 1 ? MEASURE_RATIO : MEASURE_NONE, 0.97});
}

static double sum_target(sumac_dtype dtype, const struct engine *engine) {
  if (dtype.code == 0) return 0.97;
  if (dtype.code == SUMAC_E5M2.code || is_isa(engine, "avx2")) return 0.90;
  return 0.95;
}

/* The exact sum of each dtype, with each instruction set, and with all threads. The yardstick is our plain
 * f32 sum of as many bytes (f64: f64 sum), which is as fast as this machine reads. */
static void measure_sums(void) {
  const sumac_dtype dtypes[] = {SUMAC_F64,  SUMAC_F32, SUMAC_F16, SUMAC_BF16, SUMAC_E4M3FN,
                                SUMAC_E5M2, SUMAC_I8,  SUMAC_I16, SUMAC_I32,  SUMAC_I64};
  loop *const widening[] = {loop_sum_i8, loop_sum_i16, loop_sum_i32, loop_sum_i64};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    sumac_dtype dtype = dtypes[d];
    struct group group = group_create(NULL, DATA_NORMAL, dtype, options.array_bytes);
    bool full = dtype.code == 2 && dtype.bits >= 32;
    const char *read_name = full ? "plain sum" : "plain f32 sum, same bytes";
    int read[2] = {0}, plain[2] = {0}, widen[2] = {0};
    const struct engine *with[2] = {best(), &engines[engine_count - 1]};
    int kinds = engine_count > isas ? 2 : 1;
    for (int t = 0; t < kinds; t++) {
      if (dtype.code != 0) plain[t] = add_sumac(&group, SUMAC_SUM, plain_acc(dtype), with[t]);
      read[t] = full ? plain[t] : add_read(&group, with[t]);
      if (full) add_rivals(&group, SUMAC_SUM, plain[t], with[t]->threads);
      if (!full && dtype.code != 0)
        compare(&group, (struct comparison){"plain sum", plain[t], only(read[t]), read_name, 0, 0});
      if (dtype.code == 0) {
        widen[t] = add_loop(&group, SUMAC_SUM, widening[d - 6], "native", with[t]->threads);
        compare(&group, (struct comparison){"-O3 widening loop", widen[t], only(read[t]), read_name, 0, 0});
      }
    }
    for (int e = 0; e < engine_count; e++) {
      int t = e >= isas, exact = add_sumac(&group, SUMAC_SUM, SUMAC_ACC_EXACT, &engines[e]);
      compare(&group, (struct comparison){"exact sum", exact, only(read[t]), read_name,
                                          is_isa(&engines[e], "base") ? MEASURE_NONE : MEASURE_RATIO,
                                          sum_target(dtype, &engines[e])});
      if (dtype.code == 0)
        compare(&group, (struct comparison){"exact sum", exact, only(widen[t]), "-O3 widening loop", 0, 0});
      else if (!full)
        compare(&group,
                (struct comparison){"exact sum", exact, only(plain[t]), "plain sum of the type", 0, 0});
    }
    group_run(&group);
  }
}

static void measure_spread(void) {
  const sumac_dtype dtypes[] = {SUMAC_F64, SUMAC_F32};
  const enum data kinds[] = {DATA_FOUR_WINDOWS, DATA_WHOLE_RANGE, DATA_OUTLIERS};
  for (int d = 0; d < 2; d++)
    for (int k = 0; k < 3; k++) {
      struct group group = group_create(NULL, kinds[k], dtypes[d], options.array_bytes);
      int plain[2] = {add_sumac(&group, SUMAC_SUM, plain_acc(dtypes[d]), best())};
      if (engine_count > isas) plain[1] = add_sumac(&group, SUMAC_SUM, plain_acc(dtypes[d]), &engines[isas]);
      for (int e = 0; e < engine_count; e++) {
        const struct engine *engine = &engines[e];
        int exact = add_sumac(&group, SUMAC_SUM, SUMAC_ACC_EXACT, engine);
        struct comparison row = {"exact sum", exact, only(plain[e >= isas]), "plain sum", 0, 0.95};
        if (kinds[k] == DATA_FOUR_WINDOWS && engine->threads == 1) row.measure = MEASURE_RATIO;
        if (kinds[k] == DATA_WHOLE_RANGE && engine->threads == 1) {
          row.measure = MEASURE_GBS_PER_THREAD;
          row.target = 10;
        }
        if (is_isa(engine, "base")) row.measure = MEASURE_NONE;
        compare(&group, row);
      }
      group_run(&group);
    }
}

static void measure_dots(void) {
  const sumac_dtype dtypes[] = {SUMAC_F64, SUMAC_F32, SUMAC_F16, SUMAC_BF16};
  for (int d = 0; d < 4; d++) {
    sumac_dtype dtype = dtypes[d];
    struct group group = group_create(NULL, DATA_NORMAL, dtype, options.array_bytes & ~(size_t)127);
    group.n /= 2;
    group.y_offset = group.bytes / 2;
    int plain[2] = {add_sumac(&group, SUMAC_DOT, plain_acc(dtype), best())};
    if (engine_count > isas) plain[1] = add_sumac(&group, SUMAC_DOT, plain_acc(dtype), &engines[isas]);
    for (int t = 0; t < 1 + (engine_count > isas) && dtype.bits > 16; t++)
      add_rivals(&group, SUMAC_DOT, plain[t], t ? all_threads : 1);
    for (int e = 0; e < engine_count; e++) {
      int exact = add_sumac(&group, SUMAC_DOT, SUMAC_ACC_EXACT, &engines[e]);
      compare(&group, (struct comparison){"exact dot", exact, only(plain[e >= isas]), "plain dot",
                                          is_isa(&engines[e], "base") ? MEASURE_NONE : MEASURE_RATIO,
                                          dtype.bits > 16 ? 0.93 : 0.90});
    }
    group_run(&group);
  }
}

static void measure_others(void) {
  const sumac_dtype dtypes[] = {SUMAC_F64, SUMAC_F32};
  const struct {
    sumac_op op;
    double target;
    const char *name;
  } ops[] = {{SUMAC_VAR, 0.85, "exact var"},
             {SUMAC_STD, 0.85, "exact std"},
             {SUMAC_NORM2, 0.85, "exact norm2"},
             {SUMAC_NORM1, 0, "exact norm1"},
             {SUMAC_MIN, 0, "min"},
             {SUMAC_MAX, 0, "max"},
             {SUMAC_ARGMAX, 0, "argmax"},
             {SUMAC_NORMINF, 0, "norminf"},
             {SUMAC_COUNT_NONZERO, 0, "count_nonzero"}};
  for (int d = 0; d < 2; d++) {
    struct group group = group_create(NULL, DATA_NORMAL, dtypes[d], options.array_bytes);
    for (int e = isas - 1; e < engine_count; e++) {
      int plain = add_sumac(&group, SUMAC_SUM, plain_acc(dtypes[d]), &engines[e]);
      for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        int contender = add_sumac(&group, ops[i].op, SUMAC_ACC_EXACT, &engines[e]);
        compare(&group, (struct comparison){ops[i].name, contender, only(plain), "plain sum",
                                            ops[i].target > 0 ? MEASURE_RATIO : MEASURE_NONE, ops[i].target});
      }
    }
    group_run(&group);
  }
}

/* One call on little data. */
static void measure_calls(void) {
  const enum data kinds[] = {DATA_NORMAL, DATA_WHOLE_RANGE};
  for (int k = 0; k < 2; k++) {
    struct group group = group_create(k ? "whole range, n=1000" : "n=1000", kinds[k], SUMAC_F64, 8000);
    for (int e = 0; e < engine_count; e++) {
      int plain = add_sumac(&group, SUMAC_SUM, SUMAC_ACC_F64, &engines[e]);
      int exact = add_sumac(&group, SUMAC_SUM, SUMAC_ACC_EXACT, &engines[e]);
      struct comparison row = {"one call, exact sum", exact, only(plain), "plain sum",
                               MEASURE_NANOSECONDS,   250};
      if (kinds[k] == DATA_WHOLE_RANGE) row.target = 8000 / 6.0; /* 6 GB/s */
      if (is_isa(&engines[e], "base")) row.measure = MEASURE_NONE;
      compare(&group, row);
    }
    group_run(&group);
  }
}

/* From 10^3 elements to where arrays fill the arena; small ones are read again and again where they are. */
static void measure_sizes(void) {
  static const char *const names[] = {"n=10^3", "n=10^4", "n=10^5", "n=10^6", "n=10^7", "n=10^8"};
  const sumac_dtype dtypes[] = {SUMAC_F64, SUMAC_F32};
  for (int d = 0; d < 2; d++) {
    size_t bytes = 1000 * (dtypes[d].bits / 8);
    for (size_t s = 0; s < sizeof names / sizeof *names && bytes <= arena.size; s++, bytes *= 10) {
      struct group group = group_create(names[s], DATA_NORMAL, dtypes[d], bytes);
      for (int e = isas - 1; e < engine_count; e++) {
        int plain = add_sumac(&group, SUMAC_SUM, plain_acc(dtypes[d]), &engines[e]);
        int exact = add_sumac(&group, SUMAC_SUM, SUMAC_ACC_EXACT, &engines[e]);
        compare(&group, (struct comparison){"exact sum, by size", exact, only(plain), "plain sum", 0, 0});
      }
      group_run(&group);
    }
  }
}

/* Elements that do not lie densely, or not where their size would have them. */
static void measure_views(void) {
  const sumac_dtype dtypes[] = {SUMAC_F64, SUMAC_F32};
  for (int d = 0; d < 2; d++)
    for (int strided = 0; strided < 2; strided++) {
      struct group group = group_create(strided ? "every second" : "misaligned by 1", DATA_NORMAL, dtypes[d],
                                        options.array_bytes - 64);
      if (strided) {
        group.stride = 2;
        group.n /= 2;
      } else {
        group.misaligned = 1;
        arena_fill(&arena, DATA_NORMAL, dtypes[d], group.bytes, 1);
      }
      for (int e = isas - 1; e < engine_count; e++) {
        int plain = add_sumac(&group, SUMAC_SUM, plain_acc(dtypes[d]), &engines[e]);
        int exact = add_sumac(&group, SUMAC_SUM, SUMAC_ACC_EXACT, &engines[e]);
        compare(&group, (struct comparison){"exact sum", exact, only(plain), "plain sum", 0, 0});
      }
      group_run(&group);
    }
}

/* ---- the command on text ---------------------------------------------------------------------- */

/* What `sumac sum` prints. */
static double run_command(const char *file, int threads, double *seconds) {
  char line[4096];
  snprintf(line, sizeof line, "'%s' sum --threads %d '%s'", options.command, threads, file);
  double value = NAN, start = now();
  FILE *pipe = popen(line, "r");
  if (!pipe || fscanf(pipe, "%lf", &value) != 1 || pclose(pipe) != 0) {
    fprintf(stderr, "bench: %s failed\n", line);
    exit(1);
  }
  *seconds = now() - start;
  return value;
}

static void measure_text(void) {
  const struct {
    const char *name, *format;
  } texts[] = {{"CSV, 17 digits", "%.17g\n"}, {"CSV, 6 digits", "%.6g\n"}};
  enum { NUMBERS = 4000000 };
  if (!options.command) {
    fprintf(stderr, "left out: text (the command was not built)\n");
    return;
  }
  for (int t = 0; t < 2; t++) {
    char path[] = "/tmp/sumac-bench-XXXXXX.csv";
    FILE *file = fdopen(mkstemps(path, 4), "w");
    data_fill(DATA_NORMAL, SUMAC_F64, arena.memory, NUMBERS, all_threads);
    double *numbers = (double *)arena.memory, bytes = 0, seconds[MAX_REPETITIONS];
    for (int i = 0; file && i < NUMBERS; i++) {
      char text[64];
      int length = snprintf(text, sizeof text, texts[t].format, numbers[i]);
      bytes += length;
      fwrite(text, 1, (size_t)length, file);
      numbers[i] = strtod(text, NULL);
    }
    if (!file || fclose(file) != 0) {
      perror(path);
      exit(1);
    }
    struct group group = {.dtype = SUMAC_F64, .n = NUMBERS, .stride = 1};
    double right = as_double(SUMAC_F64, from_pieces(&group, SUMAC_KIND_SUM, SUMAC_SUM, SUMAC_F64));
    for (int all = 0; all < 1 + (all_threads > 1); all++) {
      struct row row = {.name = "sumac sum FILE",
                        .data = texts[t].name,
                        .dtype = "f64",
                        .op = "sum",
                        .isa = best()->isa,
                        .threads = all ? all_threads : 1,
                        .bytes = bytes};
      fprintf(stderr, "%s, %.0f bytes\n", texts[t].name, bytes);
      for (int r = 0; r < options.repetitions; r++)
        row.wrong += run_command(path, row.threads, &seconds[r]) != right;
      row.seconds = spread_of(seconds, options.repetitions);
      row.measure = all ? MEASURE_NONE : MEASURE_GBS_PER_THREAD;
      row.target = 0.150;
      report_add(row);
    }
    unlink(path);
  }
}

/* ---- main ------------------------------------------------------------------------------------- */

static size_t available_memory(void) {
  char line[256];
  size_t kilobytes = 0;
  FILE *file = fopen("/proc/meminfo", "r");
  while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %zu", &kilobytes) != 1)
    continue;
  if (file) fclose(file);
  return kilobytes ? kilobytes * 1024 : (size_t)1 << 30;
}

static void parse(int argc, char **argv) {
  static const struct option longs[] = {{"mb", 1, NULL, 'm'},
                                        {"repetitions", 1, NULL, 'r'},
                                        {"json", 1, NULL, 'j'},
                                        {"only", 1, NULL, 'o'},
                                        {"command", 1, NULL, 'c'},
                                        {"commit", 1, NULL, 'g'},
                                        {0}};
  for (int option; (option = getopt_long(argc, argv, "", longs, NULL)) != -1;) switch (option) {
    case 'm': options.array_bytes = strtoul(optarg, NULL, 10) * 1000000; break;
    case 'r': options.repetitions = atoi(optarg); break;
    case 'j': options.json = optarg; break;
    case 'o': options.only = optarg; break;
    case 'c': options.command = optarg; break;
    case 'g': options.commit = optarg; break;
    default:
      fprintf(stderr,
              "usage: %s [--mb N] [--repetitions N] [--json FILE] [--commit ID] [--command PATH OF sumac]\n"
              "       [--only sums|spread|dots|others|calls|sizes|views|text]\n",
              argv[0]);
      exit(2);
    }
  if (options.array_bytes < 32000000) options.array_bytes = 32000000; /* the text section's numbers */
  if (options.repetitions < 1 || options.repetitions > MAX_REPETITIONS) options.repetitions = 15;
  while (4 * options.array_bytes > available_memory() / 4 * 3) options.array_bytes /= 2;
}

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*measure)(void);
  } sections[] = {{"sums", measure_sums},     {"spread", measure_spread}, {"dots", measure_dots},
                  {"others", measure_others}, {"calls", measure_calls},   {"sizes", measure_sizes},
                  {"views", measure_views},   {"text", measure_text}};
  parse(argc, argv);
  create_engines();
#ifdef BENCH_OPENBLAS
  openblas_set_num_threads(1);
#endif
  arena_create(&read_arena, 2 * options.array_bytes + 8192);
  arena_create(&arena, 2 * options.array_bytes + 8192);
  printf("sumac %s on %s with %d threads, arrays of %.0f MB, %d repetitions\n", sumac_version(), best()->isa,
         all_threads, 1e-6 * (double)options.array_bytes, options.repetitions);

  struct group read = group_create(NULL, DATA_NORMAL, SUMAC_F32, options.array_bytes);
  read_right = *right_value(&read, SUMAC_SUM);
  arena_fill(&read_arena, DATA_NORMAL, SUMAC_F32, read.bytes, 0);
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
    if (wanted(sections[i].name)) sections[i].measure();
  report_table();
  report_json(options.json, BENCH_DIR, options.commit ? options.commit : "unknown",
              (double)options.array_bytes, options.repetitions);
  return report_wrong() != 0;
}
