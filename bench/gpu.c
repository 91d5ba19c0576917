/* SPDX-License-Identifier: Apache-2.0
 *
 * Times reductions on a CUDA device. Every timed result is first compared with the CPU's. Three times a
 * point: isolated  a call between two unrelated kernels: what a program that does something else feels stream
 * calls that follow each other on a stream graph     calls that follow each other in a replayed graph: no
 * host in the way Inputs rotate over more memory than the L2 cache holds. One JSON row a line on the standard
 * output.
 *
 *   bench_gpu [--ops sum,dot] [--dtypes f32,f64] [--data normal,wide] [--sizes 1024,4294967296]
 *             [--threads T --blocks B] [--repetitions R]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/backend.h"
#include "cuda/driver.h"
#include "data.h"

static const struct sumac_driver *cu;
static CUstream stream;

static void check(CUresult result, const char *what) {
  const char *name = "?";
  if (result == CUDA_SUCCESS) return;
  cu->cuGetErrorName(result, &name);
  fprintf(stderr, "bench_gpu: %s: %s\n", what, name);
  exit(5);
}

static void expect(sumac_status status) {
  if (status == SUMAC_OK) return;
  fprintf(stderr, "bench_gpu: %s\n", sumac_error_message());
  exit(5);
}

enum { PATTERN = 64 << 20, MOST_SLOTS = 64, CALLS = 32 };

static CUdeviceptr memory[2], out, scratch;
static size_t memory_bytes;
static char *pattern[2]; /* on the host */

/* Device memory: the pattern, again and again. */
static void fill(enum data data, sumac_dtype dtype, int bits) {
  for (int i = 0; i < 2; i++) {
    size_t n = (size_t)PATTERN * 8 / (size_t)bits;
    data_fill(data, dtype, pattern[i], n, 16);
    if (i) /* another order, so that a dot product is no sum of squares */
      for (size_t k = 0; k < PATTERN / 2; k += 16) {
        char t[16];
        memcpy(t, pattern[1] + k, 16);
        memcpy(pattern[1] + k, pattern[1] + PATTERN - 16 - k, 16);
        memcpy(pattern[1] + PATTERN - 16 - k, t, 16);
      }
    check(cu->cuMemcpyHtoD_v2(memory[i], pattern[i], PATTERN), "copy");
    for (size_t done = PATTERN; done < memory_bytes; done *= 2)
      check(cu->cuMemcpyDtoDAsync_v2(memory[i] + done, memory[i],
                                     done < memory_bytes - done ? done : memory_bytes - done, stream),
            "copy");
  }
  check(cu->cuStreamSynchronize(stream), "copies");
}

static sumac_tensor tensor(CUdeviceptr at, sumac_dtype dtype, int64_t *n) {
  return (sumac_tensor){
      .data = (void *)(uintptr_t)at, .device = {2, 0}, .ndim = 1, .dtype = dtype, .shape = n};
}

struct job {
  sumac_op op;
  sumac_dtype dtype, out_dtype;
  sumac_options options;
  int64_t n;
  size_t bytes; /* of one input */
  int inputs, slots;
};

static void call(const struct job *j, int slot) {
  int64_t n = j->n;
  sumac_tensor x = tensor(memory[0] + (size_t)slot * j->bytes, j->dtype, &n),
               y = tensor(memory[1] + (size_t)slot * j->bytes, j->dtype, &n),
               to = tensor(out + 8u * (unsigned)slot, j->out_dtype, NULL);
  to.ndim = 0;
  expect(sumac_reduce(NULL, j->op, &x, j->inputs > 1 ? &y : NULL, &j->options, &to));
}

/* The CPU's result of the same bytes: the pattern as often as it fits, by doubling a state. */
static uint64_t right(const struct job *j, size_t offset) {
  static const sumac_kind kinds[] = {
      [SUMAC_SUM] = SUMAC_KIND_SUM,     [SUMAC_DOT] = SUMAC_KIND_DOT,     [SUMAC_MEAN] = SUMAC_KIND_SUM,
      [SUMAC_VAR] = SUMAC_KIND_MOMENTS, [SUMAC_STD] = SUMAC_KIND_MOMENTS, [SUMAC_NORM1] = SUMAC_KIND_ABS,
      [SUMAC_NORM2] = SUMAC_KIND_SQUARE};
  sumac_state *total, *part;
  uint64_t bits = 0;
  size_t size = j->bytes / (size_t)j->n, at = offset % PATTERN, left = j->bytes;
  int64_t one = 1;
  expect(sumac_state_create(NULL, kinds[j->op], j->dtype, &total));
  expect(sumac_state_create(NULL, kinds[j->op], j->dtype, &part));
  size_t whole = left / PATTERN; /* times the whole pattern: any rotation of it is the same multiset */
  sumac_tensor x = {.data = pattern[0], .device = {1, 0}, .ndim = 1, .dtype = j->dtype}, y = x;
  y.data = pattern[1];
  if (whole) {
    int64_t n = PATTERN / (int64_t)size;
    x.shape = y.shape = &n;
    expect(sumac_state_add(part, &x, j->inputs > 1 ? &y : NULL));
    for (size_t k = whole; k; k >>= 1) {
      if (k & 1) expect(sumac_state_merge(total, part));
      if (k > 1) expect(sumac_state_merge(part, part));
    }
    left -= whole * PATTERN;
  }
  while (left) {
    size_t take = PATTERN - at < left ? PATTERN - at : left;
    int64_t n = (int64_t)(take / size);
    x.data = pattern[0] + at;
    y.data = pattern[1] + at;
    x.shape = y.shape = &n;
    expect(sumac_state_add(total, &x, j->inputs > 1 ? &y : NULL));
    left -= take;
    at = 0;
  }
  sumac_tensor to = {.data = &bits, .device = {1, 0}, .ndim = 1, .dtype = j->out_dtype, .shape = &one};
  sumac_options o = j->options;
  o.acc = 0;
  o.stream = NULL;
  sumac_status status = sumac_state_result(total, j->op, &o, &to);
  if (status != SUMAC_ERR_RANGE) expect(status); /* written saturated, as on the device */
  sumac_state_destroy(total);
  sumac_state_destroy(part);
  return bits;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, int n, double *noise) {
  qsort(v, (size_t)n, sizeof *v, compare);
  if (noise) *noise = (v[3 * n / 4] - v[n / 4]) / v[n / 2];
  return v[n / 2];
}

enum way { WITH_OTHERS, ONLY_OTHERS, CALLS_ONLY };

static void enqueue(const struct job *j, enum way way, int calls) {
  for (int i = 0; i < calls; i++) {
    if (way != CALLS_ONLY) check(cu->cuMemsetD8Async(scratch, 1, 4096, stream), "memset");
    if (way != ONLY_OTHERS) call(j, i % j->slots);
  }
}

/* Seconds a call, of `calls` in a graph. */
static double graph_time(const struct job *j, enum way way, int calls, int repetitions, double *noise) {
  CUgraph graph;
  CUgraphExec exec;
  CUevent from, to;
  double t[64];
  check(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "capture");
  enqueue(j, way, calls);
  check(cu->cuStreamEndCapture(stream, &graph), "end of capture");
  check(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), "instantiate");
  check(cu->cuEventCreate(&from, 0), "event");
  check(cu->cuEventCreate(&to, 0), "event");
  for (int r = -1; r < repetitions; r++) {
    float ms;
    check(cu->cuEventRecord(from, stream), "record");
    check(cu->cuGraphLaunch(exec, stream), "replay");
    check(cu->cuEventRecord(to, stream), "record");
    check(cu->cuEventSynchronize(to), "replay");
    check(cu->cuEventElapsedTime_v2(&ms, from, to), "time");
    if (r >= 0) t[r] = ms * 1e-3 / calls;
  }
  cu->cuEventDestroy_v2(from);
  cu->cuEventDestroy_v2(to);
  cu->cuGraphExecDestroy(exec);
  cu->cuGraphDestroy(graph);
  return median(t, repetitions, noise);
}

static double stream_time(const struct job *j, int calls, int repetitions) {
  CUevent from, to;
  double t[64];
  check(cu->cuEventCreate(&from, 0), "event");
  check(cu->cuEventCreate(&to, 0), "event");
  for (int r = -1; r < repetitions; r++) {
    float ms;
    check(cu->cuEventRecord(from, stream), "record");
    enqueue(j, CALLS_ONLY, calls);
    check(cu->cuEventRecord(to, stream), "record");
    check(cu->cuEventSynchronize(to), "stream");
    check(cu->cuEventElapsedTime_v2(&ms, from, to), "time");
    if (r >= 0) t[r] = ms * 1e-3 / calls;
  }
  cu->cuEventDestroy_v2(from);
  cu->cuEventDestroy_v2(to);
  return median(t, repetitions, NULL);
}

static void point(enum data data, struct job j, int repetitions) {
  char kernel[128];
  int64_t n = j.n;
  sumac_tensor x = tensor(memory[0], j.dtype, &n);
  size_t size = j.bytes / (size_t)j.n;
  j.slots = (int)(memory_bytes / j.bytes < MOST_SLOTS ? memory_bytes / j.bytes : MOST_SLOTS);
  if (j.slots < 1) return;
  expect(sumac_kernel_name(NULL, j.op, &x, &j.options, kernel, sizeof kernel));
  check(cu->cuMemsetD8Async(out, 0xa5, 8 * MOST_SLOTS, stream), "poison");
  uint64_t before, after, got[MOST_SLOTS];
  expect(sumac_cuda_slow_tiles(0, stream, &before));
  for (int s = 0; s < j.slots; s++) call(&j, s);
  expect(sumac_cuda_slow_tiles(0, stream, &after));
  check(cu->cuMemcpyDtoH_v2(got, out, sizeof got), "results");
  int wrong = 0, slots = j.slots < 4 ? j.slots : 4;
  size_t out_size = j.out_dtype.bits / 8u;
  for (int s = 0; s < slots; s++) {
    uint64_t want = right(&j, (size_t)s * j.bytes);
    wrong += memcmp(&want, &got[s], out_size) != 0;
  }
  int calls = j.bytes >= 1 << 28 ? 4 : CALLS;
  double noise;
  double graph = graph_time(&j, CALLS_ONLY, calls, repetitions, &noise);
  double isolated = graph_time(&j, WITH_OTHERS, calls, repetitions, NULL) -
                    graph_time(&j, ONLY_OTHERS, calls, repetitions, NULL);
  double queued = stream_time(&j, calls, repetitions);
  double bytes = (double)j.bytes * j.inputs;
  printf("{\"who\": \"sumac\", \"op\": \"%s\", \"dtype\": \"%s\", \"acc\": \"%s\", \"data\": \"%s\", "
         "\"bytes\": %.0f, "
         "\"wrong\": %d, \"graph_us\": %.3f, \"isolated_us\": %.3f, \"stream_us\": %.3f, \"noise\": %.3f, "
         "\"GBs\": %.0f, "
         "\"slow_tiles\": %.4f, \"threads\": %d, \"blocks\": %d}\n",
         sumac_op_name(j.op), sumac_dtype_name(j.dtype), sumac_acc_name((sumac_acc)j.options.acc),
         data_name(data, j.dtype), bytes, wrong, graph * 1e6, isolated * 1e6, queued * 1e6, noise,
         bytes / graph * 1e-9,
         (double)(after - before) /
             ((double)j.slots * (double)j.n * (double)size / 512 / sumac_cuda_loads(j.op, j.dtype)),
         sumac_cuda_threads, sumac_cuda_blocks);
  fflush(stdout);
}

/* Is `word` in the comma-separated list? No list has all. */
static int listed(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
    if (!strncmp(p, word, n) && (!p[n] || p[n] == ',')) return 1;
  return !list;
}

int main(int argc, char **argv) {
  const char *ops = "sum", *dtypes = NULL, *kinds = "normal", *sizes = NULL;
  int repetitions = 9;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--ops")) ops = argv[i + 1];
    if (!strcmp(argv[i], "--dtypes")) dtypes = argv[i + 1];
    if (!strcmp(argv[i], "--data")) kinds = argv[i + 1];
    if (!strcmp(argv[i], "--sizes")) sizes = argv[i + 1];
    if (!strcmp(argv[i], "--threads")) sumac_cuda_threads = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--blocks")) sumac_cuda_blocks = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--repetitions")) repetitions = atoi(argv[i + 1]);
  }
  struct sumac_cuda_device *device;
  bool pushed;
  sumac_status status;
  cu = sumac_driver(&status);
  expect(status);
  expect(sumac_cuda_device(0, &device));
  expect(sumac_cuda_enter(device, &pushed));
  check(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
  memory_bytes = (size_t)(device->info.memory_bytes / 4 > (uint64_t)4 << 30 ? (uint64_t)4 << 30 : PATTERN);
  for (int i = 0; i < 2; i++) {
    check(cu->cuMemAlloc_v2(&memory[i], memory_bytes), "memory");
    pattern[i] = malloc(PATTERN);
    if (!pattern[i]) return 6;
  }
  check(cu->cuMemAlloc_v2(&out, 8 * MOST_SLOTS), "memory");
  check(cu->cuMemAlloc_v2(&scratch, 4096), "memory");

  static const char *const names[] = {"normal", "four", "wide", "outliers"};
  sumac_dtype dtype;
  for (int t = 0; sumac_dtype_at(t, &dtype); t++) {
    if (!listed(dtypes, sumac_dtype_name(dtype))) continue;
    for (int d = DATA_NORMAL; d <= DATA_OUTLIERS; d++) {
      if (!listed(kinds, names[d])) continue;
      fill((enum data)d, dtype, dtype.bits);
      for (int op = 0; op <= SUMAC_NORM2; op++) {
        if (!listed(ops, sumac_op_name((sumac_op)op))) continue;
        for (size_t bytes = 1024; bytes <= memory_bytes; bytes *= 4) {
          char text[32];
          snprintf(text, sizeof text, "%zu", bytes);
          if (!listed(sizes, text)) continue;
          struct job j = {.op = (sumac_op)op, .dtype = dtype, .inputs = op == SUMAC_DOT ? 2 : 1};
          j.bytes = bytes / (size_t)j.inputs;
          j.n = (int64_t)(j.bytes * 8 / dtype.bits);
          j.options.stream = stream;
          int64_t n = j.n;
          sumac_tensor x = tensor(memory[0], dtype, &n);
          expect(sumac_result_type(j.op, &x, &j.options, &j.out_dtype, NULL, NULL));
          point((enum data)d, j, repetitions);
        }
      }
    }
  }
  return 0;
}
