/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver.h"

enum { PATTERN = 64 << 20, SEQUENCE = 256 << 20, MOST_CALLS = 256, LEAST_CALLS = 4, THREADS = 16 };

static const struct sumac_driver *cu;
static CUstream stream;
static CUdeviceptr memory[2], out, scratch;
static size_t memory_bytes, pattern_bytes;
static unsigned char *pattern[2]; /* on the host: what the device's memory holds again and again */
static const char *ops = "sum", *dtypes, *kinds = "normal", *sizes; /* lists; NULL: all */
static int repetitions = 9, most_calls = MOST_CALLS;

void give_up_if(int failed, const char *what, const char *why) {
  if (!failed) return;
  fprintf(stderr, "%s: %s\n", what, why);
  exit(5);
}

static void check(CUresult result, const char *what) {
  const char *name = "?";
  if (result != CUDA_SUCCESS) cu->cuGetErrorName(result, &name);
  give_up_if(result != CUDA_SUCCESS, what, name);
}

static void expect(sumac_status status) { give_up_if(status != SUMAC_OK, "sumac", sumac_error_message()); }

/* ---- input */

static void fill(enum data data, sumac_dtype dtype) {
  size_t half = pattern_bytes / 2;
  for (int i = 0; i < 2; i++) {
    data_fill(data, dtype, pattern[i], pattern_bytes * 8 / dtype.bits, THREADS);
    /* y in another order, so that a dot product is no sum of squares: its vectors turned round. */
    for (size_t k = 0; i && k < half; k += 16) {
      unsigned char t[16], *a = pattern[1] + k, *b = pattern[1] + pattern_bytes - 16 - k;
      memcpy(t, a, 16);
      memcpy(a, b, 16);
      memcpy(b, t, 16);
    }
    check(cu->cuMemcpyHtoD_v2(memory[i], pattern[i], pattern_bytes), "copy");
    for (size_t done = pattern_bytes; done < memory_bytes; done *= 2) {
      size_t more = done < memory_bytes - done ? done : memory_bytes - done;
      check(cu->cuMemcpyDtoDAsync_v2(memory[i] + done, memory[i], more, stream), "copy");
    }
  }
  check(cu->cuStreamSynchronize(stream), "copies");
}

/* ---- results */

static sumac_kind kind_of(sumac_op op) {
  switch (op) {
  case SUMAC_DOT: return SUMAC_KIND_DOT;
  case SUMAC_NORM1: return SUMAC_KIND_ABS;
  case SUMAC_NORM2: return SUMAC_KIND_SQUARE;
  case SUMAC_VAR:
  case SUMAC_STD: return SUMAC_KIND_MOMENTS;
  default: return SUMAC_KIND_SUM;
  }
}

/* Adds `bytes` of the pattern from `at` on, going round; of x and y both for a dot product, else of the one
 * that comes `first`. */
static void add_pattern(sumac_state *state, sumac_kind kind, const struct contest *c, size_t at, size_t bytes,
                        int first) {
  for (size_t take; bytes; bytes -= take, at = 0) {
    take = pattern_bytes - at < bytes ? pattern_bytes - at : bytes;
    int64_t n = (int64_t)(take * 8 / c->dtype.bits);
    sumac_tensor x = {.data = pattern[first] + at, .ndim = 1, .dtype = c->dtype, .shape = &n}, y = x;
    y.data = pattern[1] + at;
    expect(sumac_state_add(state, &x, kind == SUMAC_KIND_DOT ? &y : NULL));
  }
}

/* The exact result of an operation on what lies `offset` bytes into the memory, rounded to `type`. */
static uint64_t exact(const struct contest *c, sumac_kind kind, sumac_op op, int first, size_t offset,
                      size_t bytes, sumac_dtype type) {
  sumac_state *total, *whole;
  uint64_t bits = 0;
  expect(sumac_state_create(NULL, kind, c->dtype, &total));
  add_pattern(total, kind, c, offset % pattern_bytes, bytes % pattern_bytes, first);
  if (bytes >= pattern_bytes) { /* wherever it begins, the whole pattern is the same set of elements */
    expect(sumac_state_create(NULL, kind, c->dtype, &whole));
    add_pattern(whole, kind, c, 0, pattern_bytes, first);
    for (size_t k = bytes / pattern_bytes; k; k >>= 1) {
      if (k & 1) expect(sumac_state_merge(total, whole));
      expect(sumac_state_merge(whole, whole));
    }
    sumac_state_destroy(whole);
  }
  sumac_tensor to = {.data = &bits, .dtype = type};
  sumac_status status = sumac_state_result(total, op, NULL, &to);
  if (status != SUMAC_ERR_RANGE) expect(status); /* written saturated, as on the device */
  sumac_state_destroy(total);
  return bits;
}

static double exact_f64(const struct contest *c, sumac_kind kind, sumac_op op, int first, size_t offset,
                        size_t bytes) {
  uint64_t bits = exact(c, kind, op, first, offset, bytes, SUMAC_F64);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The elements' bits as a number: through a sum of one element, which is exact. */
static double number(uint64_t bits, sumac_dtype type) {
  double value;
  sumac_tensor x = {.data = &bits, .dtype = type}, to = {.data = &value, .dtype = SUMAC_F64};
  expect(sumac_reduce(NULL, SUMAC_SUM, &x, NULL, NULL, &to));
  return value;
}

/* Half a unit in the last place of a result, relative; of integers, which are right or wrong, none. */
static double rounding_of(sumac_dtype type) {
  if (type.code == SUMAC_BF16.code) return 0x1p-8;
  if (type.code != SUMAC_F64.code) return 0;
  return type.bits == 64 ? 0x1p-53 : type.bits == 32 ? 0x1p-24 : 0x1p-11;
}

static int is_wrong(const struct contest *c, uint64_t got, size_t offset, size_t bytes) {
  if (c->unit == 0) {
    /* An integer that overflows a narrow type is right in its low bits. */
    sumac_dtype type = c->out.code == SUMAC_I64.code ? SUMAC_I64 : c->out;
    uint64_t want = exact(c, kind_of(c->op), c->op, 0, offset, bytes, type);
    return memcmp(&want, &got, c->out.bits / 8u) != 0;
  }
  if (isinf(c->unit)) return 0;
  uint64_t best = exact(c, kind_of(c->op), c->op, 0, offset, bytes, c->out); /* an infinity, for one */
  if (!memcmp(&best, &got, c->out.bits / 8u)) return 0;
  double want = exact_f64(c, kind_of(c->op), c->op, 0, offset, bytes), terms = fabs(want);
  if (c->op == SUMAC_SUM || c->op == SUMAC_MEAN) { /* the bound that sumac.h gives for its accumulators */
    terms = exact_f64(c, SUMAC_KIND_ABS, SUMAC_NORM1, 0, offset, bytes);
    if (c->op == SUMAC_MEAN) terms /= (double)(bytes * 8 / c->dtype.bits);
  } else if (c->op == SUMAC_DOT) {
    terms = exact_f64(c, SUMAC_KIND_SQUARE, SUMAC_NORM2, 0, offset, bytes) *
            exact_f64(c, SUMAC_KIND_SQUARE, SUMAC_NORM2, 1, offset, bytes);
  }
  double bound = (301 + log2((double)bytes)) * c->unit * terms + 2 * rounding_of(c->out) * fabs(want);
  return !(fabs(number(got, c->out) - want) <= bound);
}

/* ---- times */

struct point {
  const struct contest *contest;
  size_t bytes; /* of one input */
  int calls, slots;
};

enum way { CALLS_ALONE, WITH_OTHERS, OTHERS_ALONE };

/* NULL, or why not. */
static const char *enqueue(const struct point *p, enum way way) {
  int64_t n = (int64_t)(p->bytes * 8 / p->contest->dtype.bits);
  for (int i = 0; i < p->calls; i++) {
    int slot = i % p->slots;
    if (way != CALLS_ALONE) check(cu->cuMemsetD8Async(scratch, 1, 4096, stream), "memset");
    if (way == OTHERS_ALONE) continue;
    const void *x = (const void *)(uintptr_t)(memory[0] + (size_t)slot * p->bytes),
               *y = (const void *)(uintptr_t)(memory[1] + (size_t)slot * p->bytes);
    void *to = (void *)(uintptr_t)(out + 8u * (unsigned)slot);
    const char *why = p->contest->call(p->contest, x, y, to, n, stream);
    if (why) return why;
  }
  return NULL;
}

static void enqueue_again(const struct point *p, enum way way) {
  const char *why = enqueue(p, way);
  give_up_if(why != NULL, p->contest->who, why);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

struct time {
  double median, noise; /* seconds a call; the distance of the quartiles, relative */
};

/* Of a graph's replays, or, without one, of the calls themselves. */
static struct time time_of(const struct point *p, CUgraphExec exec) {
  enum { MOST = 64 };
  double t[MOST];
  float ms, warm = 0;
  CUevent from, to;
  int count = 0, most = repetitions < MOST ? repetitions : MOST;
  check(cu->cuEventCreate(&from, 0), "event");
  check(cu->cuEventCreate(&to, 0), "event");
  while (count < most) {
    check(cu->cuEventRecord(from, stream), "record");
    if (exec)
      check(cu->cuGraphLaunch(exec, stream), "replay");
    else
      enqueue_again(p, CALLS_ALONE);
    check(cu->cuEventRecord(to, stream), "record");
    check(cu->cuEventSynchronize(to), "calls");
    check(cu->cuEventElapsedTime_v2(&ms, from, to), "time");
    if (warm > 1) /* a millisecond, after whatever the processor did meanwhile */
      t[count++] = ms * 1e-3 / p->calls;
    else
      warm += ms;
  }
  cu->cuEventDestroy_v2(from);
  cu->cuEventDestroy_v2(to);
  qsort(t, (size_t)count, sizeof *t, compare);
  double median = t[count / 2];
  return (struct time){median, (t[3 * count / 4] - t[count / 4]) / median};
}

static struct time time_of_graph(const struct point *p, enum way way) {
  CUgraph graph;
  CUgraphExec exec;
  check(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "capture");
  enqueue_again(p, way);
  check(cu->cuStreamEndCapture(stream, &graph), "end of capture");
  check(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), "instantiate");
  struct time time = time_of(p, exec);
  cu->cuGraphExecDestroy(exec);
  cu->cuGraphDestroy(graph);
  return time;
}

static bool measure(struct point *p) {
  const struct contest *c = p->contest;
  uint64_t got[MOST_CALLS], slow = c->slow_tiles ? c->slow_tiles(stream) : 0;
  check(cu->cuMemsetD8Async(out, 0xa5, sizeof got, stream), "poison");
  const char *why = enqueue(p, CALLS_ALONE);
  if (why) {
    fprintf(stderr, "left out: %s %s of %s in %s: %s\n", c->who, sumac_op_name(c->op),
            sumac_dtype_name(c->dtype), c->acc, why);
    return false;
  }
  if (c->slow_tiles) slow = c->slow_tiles(stream) - slow;
  check(cu->cuStreamSynchronize(stream), "calls");
  check(cu->cuMemcpyDtoH_v2(got, out, sizeof got), "results");
  int wrong = 0;
  for (int s = 0; s < p->slots && s < 4; s++) wrong += is_wrong(c, got[s], (size_t)s * p->bytes, p->bytes);

  struct time graph = time_of_graph(p, CALLS_ALONE), with = time_of_graph(p, WITH_OTHERS),
              others = time_of_graph(p, OTHERS_ALONE), queued = time_of(p, NULL);
  double bytes = (double)p->bytes * (c->op == SUMAC_DOT ? 2 : 1);
  printf("{\"who\": \"%s\", \"op\": \"%s\", \"dtype\": \"%s\", \"acc\": \"%s\", \"data\": \"%s\", \"bytes\": "
         "%.0f, "
         "\"wrong\": %d, \"graph_us\": %.3f, \"isolated_us\": %.3f, \"stream_us\": %.3f, \"noise\": %.4f, "
         "\"GBs\": %.0f",
         c->who, sumac_op_name(c->op), sumac_dtype_name(c->dtype), c->acc, data_name(c->data, c->dtype),
         bytes, wrong, graph.median * 1e6, (with.median - others.median) * 1e6, queued.median * 1e6,
         graph.noise, bytes / graph.median * 1e-9);
  if (c->slow_tiles) /* as a share */
    printf(", \"slow_tiles\": %.4f", (double)slow / p->calls / ((double)p->bytes / c->tile));
  printf("%s}\n", c->extra ? c->extra : "");
  fflush(stdout);
  return true;
}

int is_listed(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
    if (!strncmp(p, word, n) && (!p[n] || p[n] == ',')) return 1;
  return !list;
}

void compete(const struct contest *contest) {
  int inputs = contest->op == SUMAC_DOT ? 2 : 1;
  for (size_t bytes = 1024; bytes <= memory_bytes; bytes *= 4) {
    char text[32];
    snprintf(text, sizeof text, "%zu", bytes);
    if (!is_listed(sizes, text)) continue;
    struct point p = {.contest = contest, .bytes = bytes / (size_t)inputs};
    size_t calls = SEQUENCE / bytes;
    p.calls = calls > MOST_CALLS ? MOST_CALLS : calls < LEAST_CALLS ? LEAST_CALLS : (int)calls;
    if (p.calls > most_calls) p.calls = most_calls;
    size_t fit = memory_bytes / p.bytes;
    p.slots = fit < (size_t)p.calls ? (int)fit : p.calls;
    if (!measure(&p)) return;
  }
}

static int number_of(const char *text, int least, int most) {
  int value = atoi(text);
  give_up_if(value < least || value > most, text, "out of range");
  return value;
}

void run_contests(int argc, char **argv, void (*competition)(struct contest *contest)) {
  int megabytes = 4096;
  for (int i = 1; i < argc; i += 2) {
    const char *value = argv[i + 1];
    give_up_if(!value, argv[i], "a value is missing");
    if (!strcmp(argv[i], "--ops"))
      ops = value;
    else if (!strcmp(argv[i], "--dtypes"))
      dtypes = value;
    else if (!strcmp(argv[i], "--data"))
      kinds = value;
    else if (!strcmp(argv[i], "--sizes"))
      sizes = value;
    else if (!strcmp(argv[i], "--repetitions"))
      repetitions = number_of(value, 1, 64);
    else if (!strcmp(argv[i], "--calls"))
      most_calls = number_of(value, 1, MOST_CALLS);
    else if (!strcmp(argv[i], "--mb"))
      megabytes = number_of(value, 1, 1 << 16);
    else
      give_up_if(1, argv[i], "unknown option");
  }
  struct sumac_cuda_device *device;
  bool pushed;
  sumac_status status;
  cu = sumac_driver(&status);
  expect(status);
  expect(sumac_cuda_device(0, &device));
  expect(sumac_cuda_enter(device, &pushed));
  check(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
  memory_bytes = (size_t)megabytes << 20;
  pattern_bytes = memory_bytes < PATTERN ? memory_bytes : PATTERN;
  for (int i = 0; i < 2; i++) {
    check(cu->cuMemAlloc_v2(&memory[i], memory_bytes), "memory");
    pattern[i] = malloc(pattern_bytes);
    give_up_if(!pattern[i], "memory", "none left");
  }
  check(cu->cuMemAlloc_v2(&out, 8 * MOST_CALLS), "memory");
  check(cu->cuMemAlloc_v2(&scratch, 4096), "memory");

  static const char *const names[] = {"normal", "four", "wide", "outliers"};
  struct contest c = {.data = DATA_NORMAL};
  for (int t = 0; sumac_dtype_at(t, &c.dtype); t++) {
    if (!is_listed(dtypes, sumac_dtype_name(c.dtype))) continue;
    for (int d = DATA_NORMAL; d <= DATA_OUTLIERS; d++) {
      if (!is_listed(kinds, names[d])) continue;
      c.data = (enum data)d;
      fill(c.data, c.dtype);
      for (int op = 0; op < SUMAC_NORMINF; op++) {
        c.op = (sumac_op)op;
        if (is_listed(ops, sumac_op_name(c.op))) competition(&c);
      }
    }
  }
}
