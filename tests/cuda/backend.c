/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA backend around its kernels: streams, capture, workspaces, states, errors. What the kernels make of
 * numbers is the matter of tests/conformance.c; here the host says what is right. Faults and counts are the
 * emulated driver's: on a real device these tests are left out.
 */
#include "cuda/backend.h"
#include "cuda/driver.h"
#include "data.h"
#include "device.h"
#include "view.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct sumac_driver *cu;
#define ok(CALL) assert_int_equal(CALL, CUDA_SUCCESS)

static void done(sumac_status status) {
  if (status != SUMAC_OK) fail_msg("%s: %s", sumac_status_name(status), sumac_error_message());
}
static void refused(sumac_status status, sumac_status wanted, const char *why) {
  if (status != wanted || !strstr(sumac_error_message(), why))
    fail_msg("%s: \"%s\", which should say \"%s\"", sumac_status_name(status), sumac_error_message(), why);
}

/* What only the emulated driver has (tests/emu/emu.h), or NULL. */
static void *of_emulator(const char *name) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver ? dlsym(driver, name) : NULL;
}
#define EMULATOR(RESULT, NAME, PARAMETERS) RESULT(*NAME) PARAMETERS = (RESULT(*) PARAMETERS)of_emulator(#NAME)

/* ---- data: an array of a type on both sides, and one more for DOT */

struct pair {
  view x, y;
  device_tensor dx, dy;
};

static void pair_make(struct pair *p, sumac_dtype dtype, data_kind kind, int64_t n) {
  data_random random = {(uint64_t)n * 64 + dtype.code + dtype.bits};
  uint64_t *codes = malloc((size_t)(n + 1) * sizeof *codes);
  data_codes(dtype, kind, &random, codes, (size_t)n);
  view_array(&p->x, dtype, codes, n);
  data_codes(dtype, kind, &random, codes, (size_t)n);
  view_array(&p->y, dtype, codes, n);
  free(codes);
  device_copy(&p->dx, &p->x.tensor);
  device_copy(&p->dy, &p->y.tensor);
}
static void pair_free(struct pair *p) {
  device_free(&p->dx);
  device_free(&p->dy);
  view_free(&p->x);
  view_free(&p->y);
}

static double on_host(const struct pair *p, sumac_op op) {
  double value = 0;
  sumac_tensor out = scalar_of(SUMAC_F64, &value);
  done(sumac_reduce(NULL, op, &p->x.tensor, op == SUMAC_DOT ? &p->y.tensor : NULL, NULL, &out));
  return value;
}
static sumac_status start(const struct pair *p, sumac_op op, CUstream stream, const sumac_tensor *out) {
  sumac_options options = {.stream = stream};
  return sumac_reduce(NULL, op, &p->dx.tensor, op == SUMAC_DOT ? &p->dy.tensor : NULL, &options, out);
}

/* Room for results on the device, all ones at first. */
enum { ROOM = 64 };
struct room {
  device_tensor d;
  double value[ROOM];
};
static void room_make(struct room *r) {
  int64_t n = ROOM;
  memset(r->value, 0xff, sizeof r->value);
  sumac_tensor t = tensor_of(SUMAC_F64, r->value, &n);
  device_copy(&r->d, &t);
}
static sumac_tensor room_for(const struct room *r, int i) {
  sumac_tensor t = scalar_of(SUMAC_F64, (double *)(uintptr_t)r->d.span + i);
  t.device = r->d.tensor.device;
  return t;
}
static void room_read(struct room *r) {
  ok(cu->cuCtxSynchronize());
  device_read(&r->d, r->value);
}
static void equal(double got, double want, const char *what, int i) {
  if (memcmp(&got, &want, sizeof got) != 0) fail_msg("%s %d: %a, want %a", what, i, got, want);
}

static const sumac_op ops[] = {SUMAC_SUM, SUMAC_DOT,   SUMAC_MEAN, SUMAC_VAR,
                               SUMAC_STD, SUMAC_NORM1, SUMAC_NORM2};
enum { SOME_OPS = sizeof ops / sizeof *ops };

/* ---- results, streams, graphs */

static void results_on_both_sides(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 1000, 60000};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    struct pair p;
    struct room r;
    pair_make(&p, SUMAC_F32, DATA_NORMAL, sizes[s]);
    room_make(&r);
    for (int i = 0; i < SOME_OPS; i++) {
      double there = -1, want = on_host(&p, ops[i]);
      sumac_tensor host = scalar_of(SUMAC_F64, &there), device = room_for(&r, i);
      done(start(&p, ops[i], NULL, &host));
      done(start(&p, ops[i], NULL, &device));
      equal(there, want, op_text[ops[i]], (int)sizes[s]);
    }
    room_read(&r);
    for (int i = 0; i < SOME_OPS; i++) equal(r.value[i], on_host(&p, ops[i]), op_text[ops[i]], (int)sizes[s]);
    double untouched;
    memset(&untouched, 0xff, sizeof untouched);
    equal(r.value[SOME_OPS], untouched, "beside the results", 0);
    device_free(&r.d);
    pair_free(&p);
  }
}

/* Calls on many streams at once, each with the default ones' names, too. */
static void streams(void **state) {
  (void)state;
  enum { STREAMS = 6 };
  CUstream stream[STREAMS] = {NULL, (CUstream)1, (CUstream)2};
  struct pair p;
  struct room r;
  pair_make(&p, SUMAC_F64, DATA_NORMAL, 30000);
  room_make(&r);
  for (int i = 3; i < STREAMS; i++) ok(cu->cuStreamCreate(&stream[i], i % 2 ? CU_STREAM_NON_BLOCKING : 0));
  for (int i = 0; i < ROOM; i++) {
    sumac_tensor out = room_for(&r, i);
    done(start(&p, ops[i % SOME_OPS], stream[i % STREAMS], &out));
  }
  room_read(&r);
  for (int i = 0; i < ROOM; i++) equal(r.value[i], on_host(&p, ops[i % SOME_OPS]), "stream", i % STREAMS);
  for (int i = 3; i < STREAMS; i++) ok(cu->cuStreamDestroy_v2(stream[i]));
  device_free(&r.d);
  pair_free(&p);
}

/* Graphs captured on one stream run at once on others, and again, beside calls on the first. */
static void graphs(void **state) {
  (void)state;
  enum { GRAPHS = 2, EACH = 20 };
  CUstream stream, other[GRAPHS];
  CUgraph graph;
  CUgraphExec exec[GRAPHS];
  struct pair p;
  struct room r;
  pair_make(&p, SUMAC_F32, DATA_NORMAL, 50000);
  room_make(&r);
  ok(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int g = 0; g < GRAPHS; g++) {
    ok(cu->cuStreamCreate(&other[g], CU_STREAM_NON_BLOCKING));
    ok(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < EACH; i++) {
      sumac_tensor out = room_for(&r, g * EACH + i);
      done(start(&p, ops[i % SOME_OPS], stream, &out));
    }
    ok(cu->cuStreamEndCapture(stream, &graph));
    ok(cu->cuGraphInstantiateWithFlags(&exec[g], graph, 0));
    ok(cu->cuGraphDestroy(graph));
  }
  for (int round = 0; round < 3; round++) {
    memset(r.value, 0xff, sizeof r.value);
    device_write(&r.d, r.value);
    ok(cu->cuCtxSynchronize());
    for (int g = 0; g < GRAPHS; g++) ok(cu->cuGraphLaunch(exec[g], other[g]));
    for (int i = GRAPHS * EACH; i < ROOM; i++) {
      sumac_tensor out = room_for(&r, i);
      done(start(&p, ops[i % EACH % SOME_OPS], stream, &out));
    }
    room_read(&r);
    for (int i = 0; i < ROOM; i++) equal(r.value[i], on_host(&p, ops[i % EACH % SOME_OPS]), "graph", i);
  }
  for (int g = 0; g < GRAPHS; g++) {
    ok(cu->cuGraphExecDestroy(exec[g]));
    ok(cu->cuStreamDestroy_v2(other[g]));
  }
  ok(cu->cuStreamDestroy_v2(stream));
  device_free(&r.d);
  pair_free(&p);
}

/* Once it is warm, a call launches one kernel and allocates nothing; captures take from what there is, and a
 * graph that is gone gives back. */
static void nothing_is_allocated(void **state) {
  (void)state;
  EMULATOR(void, emu_reset, (void));
  EMULATOR(uint64_t, emu_allocations, (void));
  EMULATOR(uint64_t, emu_launches, (void));
  EMULATOR(uint64_t, emu_calls, (const char *));
  if (!emu_reset) skip();
  struct pair p;
  struct room r;
  CUstream stream;
  pair_make(&p, SUMAC_BF16, DATA_NORMAL, 3000);
  room_make(&r);
  ok(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  done(sumac_warm(NULL, 0));
  emu_reset();
  for (int i = 0; i < 3 * SOME_OPS; i++) {
    double value;
    sumac_tensor there = room_for(&r, i), here = scalar_of(SUMAC_F64, &value);
    done(start(&p, ops[i % SOME_OPS], i % 3 ? stream : NULL, i % 2 ? &there : &here));
  }
  assert_int_equal(emu_allocations(), 0);
  assert_int_equal(emu_launches(), 3 * SOME_OPS);
  for (int i = 0; i < 200; i++) {
    CUgraph graph;
    sumac_tensor out = room_for(&r, 0);
    ok(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    done(start(&p, SUMAC_SUM, stream, &out));
    ok(cu->cuStreamEndCapture(stream, &graph));
    ok(cu->cuGraphDestroy(graph));
    if (i == 0) emu_reset();
  }
  assert_int_equal(emu_allocations(), 0);
  assert_int_equal(emu_calls("cuUserObjectCreate"), 199); /* a workspace for each graph */
  ok(cu->cuStreamDestroy_v2(stream));
  device_free(&r.d);
  pair_free(&p);
}

/* Streams that come and go: a bounded number of workspaces, and only the later ones cost calls for that. */
static void many_streams(void **state) {
  (void)state;
  EMULATOR(void, emu_fail, (const char *));
  EMULATOR(uint64_t, emu_allocations, (void));
  EMULATOR(uint64_t, emu_calls, (const char *));
  enum { MANY = 400 };
  struct pair p;
  struct room r;
  CUstream stream;
  uint64_t allocations = 0;
  pair_make(&p, SUMAC_F64, DATA_NORMAL, 4500);
  room_make(&r);
  double want = on_host(&p, SUMAC_SUM), here;
  sumac_tensor out = scalar_of(SUMAC_F64, &here);
  for (int i = 0; i < MANY; i++) {
    sumac_tensor there = room_for(&r, i % ROOM);
    here = -7;
    ok(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (emu_fail && i == 300) emu_fail("cuStreamWaitEvent:1=999,cuEventRecord:1=999");
    if (emu_fail && i == 300) refused(start(&p, SUMAC_SUM, stream, &there), SUMAC_ERR_DEVICE, "CUDA_ERROR");
    done(start(&p, SUMAC_SUM, stream, i % 2 ? &there : &out)); /* at 300 the event is not recorded */
    if (i % 2 == 0) equal(here, want, "stream", i);
    if (emu_allocations && i == 200) allocations = emu_allocations();
    ok(cu->cuStreamDestroy_v2(stream));
  }
  room_read(&r);
  for (int i = 1; i < ROOM; i += 2) equal(r.value[i], want, "stream", i);
  if (emu_allocations) assert_int_equal(emu_allocations(), allocations);
  if (emu_calls) assert_int_equal(emu_calls("cuEventCreate"), 0); /* since 300 */
  device_free(&r.d);
  pair_free(&p);
}

static void range_flag(void **state) {
  (void)state;
  struct pair p;
  struct room r;
  pair_make(&p, SUMAC_I32, DATA_HUGE, 999);
  room_make(&r);
  sumac_tensor there = room_for(&r, 0), here = scalar_of(SUMAC_I8, &r.value[1]);
  there.dtype = SUMAC_I8;
  done(sumac_device_check(0));
  for (int i = 0; i < 2; i++) {
    done(start(&p, SUMAC_NORM1, NULL, &there));
    ok(cu->cuCtxSynchronize());
    refused(sumac_device_check(0), SUMAC_ERR_RANGE, "device 0 did not fit");
    done(sumac_device_check(0));
  }
  device_read(&r.d, r.value);
  assert_int_equal(*(int8_t *)&r.value[0], 127);
  refused(start(&p, SUMAC_NORM1, NULL, &here), SUMAC_ERR_RANGE, "does not fit i8");
  assert_int_equal(*(int8_t *)&r.value[1], 127);
  done(sumac_device_check(0)); /* what was told is not told again */
  sumac_options saturate = {.flags = SUMAC_SATURATE};
  done(sumac_reduce(NULL, SUMAC_NORM1, &p.dx.tensor, NULL, &saturate, &there));
  ok(cu->cuCtxSynchronize());
  done(sumac_device_check(0));
  device_free(&r.d);
  pair_free(&p);
}

static void states(void **state) {
  (void)state;
  CUstream stream;
  ok(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int kind = SUMAC_KIND_SUM; kind <= SUMAC_KIND_MOMENTS; kind++)
    for (int i = 0; i < DTYPES; i++) {
      static const data_kind kinds[] = {DATA_WIDE, DATA_SPECIALS, DATA_RANDOM_BITS};
      unsigned char bytes[2][4096];
      sumac_state *s[2];
      for (int side = 0; side < 2; side++) {
        done(sumac_state_create(NULL, (sumac_kind)kind, dtypes[i], &s[side]));
        if (side) done(sumac_state_set_stream(s[side], stream));
      }
      for (int k = 0; k < 3; k++) {
        struct pair p;
        pair_make(&p, dtypes[i], kinds[k], 700 + 613 * k);
        done(sumac_state_add(s[0], &p.x.tensor, kind == SUMAC_KIND_DOT ? &p.y.tensor : NULL));
        done(sumac_state_add(s[1], &p.dx.tensor, kind == SUMAC_KIND_DOT ? &p.dy.tensor : NULL));
        pair_free(&p);
      }
      size_t size = sumac_state_size(s[0]);
      for (int side = 0; side < 2; side++) done(sumac_state_write(s[side], bytes[side], size));
      if (memcmp(bytes[0], bytes[1], size) != 0)
        fail_msg("kind %d of %s: the device's bytes differ from the host's", kind, dtype_text(dtypes[i]));
      for (int side = 0; side < 2; side++) sumac_state_destroy(s[side]);
    }
  ok(cu->cuStreamDestroy_v2(stream));
}

/* Many tensors at once: a launch for each type of contiguous ones, and the words of one by one. */
static void many_tensors(void **state) {
  (void)state;
  EMULATOR(uint64_t, emu_launches, (void));
  enum { TENSORS = 620, REACH = 3000 };
  const sumac_dtype types[] = {SUMAC_F64, SUMAC_F32, SUMAC_BF16, SUMAC_F16, SUMAC_I8};
  static sumac_tensor tx[2][TENSORS], ty[2][TENSORS];
  const sumac_tensor *x[2][TENSORS], *y[2][TENSORS];
  static int64_t n[TENSORS];
  CUstream stream;
  ok(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int kind = SUMAC_KIND_SUM; kind <= SUMAC_KIND_MOMENTS; kind++)
    for (int mixed = 0; mixed < 2; mixed++) {
      unsigned char bytes[2][4096];
      struct pair p[5];
      sumac_state *s[2];
      uint64_t launches = 0;
      for (int t = 0; t < 5; t++) pair_make(&p[t], types[t], DATA_WIDE, REACH);
      for (int i = 0; i < TENSORS; i++) {
        struct pair *of = &p[mixed ? i % 5 : 1];
        int64_t at = i * 37 % 2000, size = of->x.tensor.dtype.bits / 8;
        n[i] = i % 9 == 0 ? 0 : i % 50 == 1 ? REACH - at : i % 13;
        const sumac_tensor *from[4] = {&of->x.tensor, &of->dx.tensor, &of->y.tensor, &of->dy.tensor};
        sumac_tensor *to[4] = {&tx[0][i], &tx[1][i], &ty[0][i], &ty[1][i]};
        for (int k = 0; k < 4; k++) {
          *to[k] = *from[k];
          to[k]->byte_offset += (uint64_t)(at * size);
          to[k]->shape = &n[i];
        }
        for (int side = 0; side < 2; side++) x[side][i] = &tx[side][i], y[side][i] = &ty[side][i];
      }
      for (int side = 0; side < 2; side++) {
        done(sumac_state_create(NULL, (sumac_kind)kind, SUMAC_F64, &s[side]));
        done(sumac_state_set_stream(s[side], stream));
        if (emu_launches) launches = emu_launches();
        done(sumac_state_add_many(s[side], TENSORS, x[side], kind == SUMAC_KIND_DOT ? y[side] : NULL));
      }
      /* 509 have elements: more than one launch takes */
      if (emu_launches) assert_int_equal(emu_launches() - launches, mixed ? 5 : 2);
      size_t size = sumac_state_size(s[0]);
      for (int side = 0; side < 2; side++) done(sumac_state_write(s[side], bytes[side], size));
      if (memcmp(bytes[0], bytes[1], size) != 0) fail_msg("kind %d, mixed %d: bytes differ", kind, mixed);
      for (int side = 0; side < 2; side++) sumac_state_destroy(s[side]);
      for (int t = 0; t < 5; t++) pair_free(&p[t]);
    }
  ok(cu->cuStreamDestroy_v2(stream));
}

/* ---- speed that results do not show */

enum { OUTLIERS_APART = 9973 };
static uint64_t slow_tiles(sumac_op op, sumac_dtype dtype, data_kind kind, int64_t n, double outlier) {
  uint64_t before, after;
  double value;
  struct pair p;
  sumac_tensor out = scalar_of(SUMAC_F64, &value);
  pair_make(&p, dtype, kind, n);
  uint64_t code = data_code(dtype, outlier);
  for (int64_t i = 500; i < n && outlier != 0; i += OUTLIERS_APART)
    data_pack(dtype, &code, 1, p.x.span + i * dtype.bits / 8);
  device_write(&p.dx, p.x.span);
  done(sumac_cuda_slow_tiles(0, NULL, &before));
  done(start(&p, op, NULL, &out));
  done(sumac_cuda_slow_tiles(0, NULL, &after));
  pair_free(&p);
  return after - before;
}

/* A small outlier costs no tile its fast path, a large one its own and perhaps the next;
 * where elements have nothing in
 * common, no tile has one. */
static void outliers_are_cheap(void **state) {
  (void)state;
  static const sumac_op some[] = {SUMAC_SUM, SUMAC_NORM1};
  const sumac_dtype types[] = {SUMAC_F64, SUMAC_F32, SUMAC_BF16};
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < 2; i++) {
      int64_t n = 80000, tile = INT64_C(32) * 16 * sumac_cuda_loads(some[i], types[t]) / (types[t].bits / 8);
      uint64_t normal = slow_tiles(some[i], types[t], DATA_NORMAL, n, 0),
               small = slow_tiles(some[i], types[t], DATA_NORMAL, n, 1e-30),
               large = slow_tiles(some[i], types[t], DATA_NORMAL, n, 1e30),
               wide = slow_tiles(some[i], types[t], DATA_WIDE, n, 0);
      if (normal > 0 || small > 0 || large > 2 * (uint64_t)(n / OUTLIERS_APART + 1) ||
          wide < (uint64_t)(n / tile))
        fail_msg("%s of %s: of %lld tiles %llu are slow, %llu and %llu with small and large outliers, %llu "
                 "where exponents are wide",
                 op_text[some[i]], dtype_text(types[t]), (long long)(n / tile), (unsigned long long)normal,
                 (unsigned long long)small, (unsigned long long)large, (unsigned long long)wide);
    }
}

/* No shape of a launch shows in a result, nor does the time of day. */
static void the_same_again(void **state) {
  (void)state;
  const sumac_dtype types[] = {SUMAC_F64, SUMAC_F32, SUMAC_F16, SUMAC_I64};
  for (int t = 0; t < 4; t++) {
    struct pair p;
    pair_make(&p, types[t], types[t].code == SUMAC_I64.code ? DATA_UNIFORM : DATA_DRIFTING, 9001);
    for (int i = 0; i < 100; i++) {
      double value = -1;
      sumac_op op = ops[i % SOME_OPS];
      sumac_tensor out = scalar_of(SUMAC_F64, &value);
      sumac_cuda_threads = i < 30 ? 0 : 32 << i % 4;
      sumac_cuda_blocks = i < 30 ? 0 : 2 + i % 5;
      done(start(&p, op, NULL, &out));
      equal(value, on_host(&p, op), op_text[op], i);
    }
    sumac_cuda_threads = sumac_cuda_blocks = 0;
    pair_free(&p);
  }
}

static void *from_a_thread(void *argument) {
  const struct pair *p = argument;
  uintptr_t wrong = 0;
  double want = on_host(p, SUMAC_SUM);
  for (int i = 0; i < 40; i++) {
    double value = -1;
    sumac_tensor out = scalar_of(SUMAC_F64, &value);
    wrong += start(p, SUMAC_SUM, i % 2 ? (CUstream)2 : NULL, &out) != SUMAC_OK || value != want;
  }
  return (void *)wrong;
}

/* Threads have no context of their own, and need none. */
static void threads(void **state) {
  (void)state;
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  struct pair p;
  pair_make(&p, SUMAC_F64, DATA_NORMAL, 3000);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, from_a_thread, &p), 0);
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    pthread_join(thread[i], &wrong);
    assert_null(wrong);
  }
  pair_free(&p);
}

/* ---- errors */

static void wrong_devices(void **state) {
  (void)state;
  struct pair p;
  double value = -7;
  pair_make(&p, SUMAC_F64, DATA_NORMAL, 10);
  sumac_tensor here = scalar_of(SUMAC_F64, &value), x = p.dx.tensor, out = here;
  x.device.id = 63;
  refused(sumac_reduce(NULL, SUMAC_SUM, &x, NULL, NULL, &here), SUMAC_ERR_ARGUMENT, "no CUDA device 63");
  refused(sumac_warm(NULL, 63), SUMAC_ERR_ARGUMENT, "no CUDA device 63");
  refused(sumac_device_check(-1), SUMAC_ERR_ARGUMENT, "no CUDA device -1");
  refused(sumac_reduce(NULL, SUMAC_DOT, &p.dx.tensor, &p.y.tensor, NULL, &here), SUMAC_ERR_ARGUMENT,
          "different devices");
  out.device = (sumac_device){2, 1};
  refused(sumac_reduce(NULL, SUMAC_SUM, &p.dx.tensor, NULL, NULL, &out), SUMAC_ERR_ARGUMENT,
          "out lies on device 1");
  refused(sumac_reduce(NULL, SUMAC_SUM, &p.x.tensor, NULL, NULL, &out), SUMAC_ERR_ARGUMENT,
          "out lies on device 1");
  refused(sumac_reduce(NULL, SUMAC_MAX, &p.dx.tensor, NULL, NULL, &here), SUMAC_ERR_UNSUPPORTED,
          "not supported on CUDA devices");
  equal(value, -7, "untouched", 0);
  pair_free(&p);
}

/* What a capture does not allow is refused before the driver would end the capture for it. */
static void captures_survive(void **state) {
  (void)state;
  for (unsigned flags = CU_STREAM_DEFAULT; flags <= CU_STREAM_NON_BLOCKING; flags++) {
    struct pair p;
    struct room r;
    double value = -7, want;
    CUstream stream, other;
    CUgraph graph;
    CUgraphExec exec;
    sumac_state *sums;
    uint64_t count;
    pair_make(&p, SUMAC_F16, DATA_NORMAL, 5000);
    room_make(&r);
    want = on_host(&p, SUMAC_SUM);
    sumac_tensor here = scalar_of(SUMAC_F64, &value), there = room_for(&r, 0);
    ok(cu->cuStreamCreate(&stream, flags));
    ok(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    done(sumac_state_create(NULL, SUMAC_KIND_SUM, SUMAC_F16, &sums));
    done(sumac_state_set_stream(sums, stream));
    ok(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    refused(start(&p, SUMAC_SUM, stream, &here), SUMAC_ERR_ARGUMENT, "host memory");
    refused(sumac_state_add(sums, &p.dx.tensor, NULL), SUMAC_ERR_ARGUMENT, "host memory");
    equal(value, -7, "untouched", 0);
    if (flags == CU_STREAM_DEFAULT) { /* the legacy stream would wait for it */
      const char *why = "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
      refused(start(&p, SUMAC_SUM, NULL, &here), SUMAC_ERR_DEVICE, why);
      refused(start(&p, SUMAC_SUM, NULL, &there), SUMAC_ERR_DEVICE, why);
      refused(sumac_warm(NULL, 0), SUMAC_ERR_DEVICE, why);
      refused(sumac_cuda_slow_tiles(0, NULL, &count), SUMAC_ERR_DEVICE, why);
      equal(value, -7, "untouched", 0);
    }
    done(start(&p, SUMAC_SUM, other, &here)); /* another stream may be waited for */
    equal(value, want, "beside a capture", 0);
    done(start(&p, SUMAC_SUM, stream, &there));
    ok(cu->cuStreamEndCapture(stream, &graph));
    ok(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cu->cuGraphLaunch(exec, stream));
    room_read(&r);
    equal(r.value[0], want, "captured", 0);

    ok(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_not_equal(cu->cuStreamSynchronize(stream), CUDA_SUCCESS); /* ends it */
    refused(start(&p, SUMAC_SUM, stream, &there), SUMAC_ERR_DEVICE, "an earlier error");
    assert_int_not_equal(cu->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    done(start(&p, SUMAC_SUM, stream, &here));

    ok(cu->cuGraphExecDestroy(exec));
    ok(cu->cuStreamDestroy_v2(stream));
    ok(cu->cuStreamDestroy_v2(other));
    sumac_state_destroy(sums);
    device_free(&r.d);
    pair_free(&p);
  }
}

static void child_has_no_device(void **state) {
  (void)state;
  struct pair p;
  double value = -7;
  sumac_tensor here = scalar_of(SUMAC_F64, &value);
  int status = -1;
  pair_make(&p, SUMAC_F32, DATA_NORMAL, 10);
  pid_t child = fork();
  if (child == 0)
    _exit(start(&p, SUMAC_SUM, NULL, &here) == SUMAC_ERR_DEVICE && strstr(sumac_error_message(), "forked") &&
                  sumac_warm(NULL, 0) == SUMAC_ERR_DEVICE && sumac_device_check(0) == SUMAC_ERR_DEVICE &&
                  value == -7
              ? 0
              : 1);
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  done(start(&p, SUMAC_SUM, NULL, &here));
  pair_free(&p);
}

/* ---- every call to the driver fails, one at a time */

static const char *const entries[] = {
#define SUMAC_DRIVER(NEED, NAME, PARAMETERS) #NAME,
#include "cuda/driver.def"
#undef SUMAC_DRIVER
};
enum { ENTRIES = sizeof entries / sizeof *entries };

/* What is shared with the children. */
static struct report {
  uint64_t calls[ENTRIES], live;
  int failures;
  char text[300];
} * report;

static void complain(const char *what) {
  snprintf(report->text, sizeof report->text, "%s (\"%s\")", what, sumac_error_message());
  _exit(1);
}

/* A step of the scenario, which may fail only for the fault: with the error's name, and no result written. */
static void step(sumac_status status, const char *what) {
  if (status == SUMAC_OK) return;
  report->failures++;
  if ((status == SUMAC_ERR_DEVICE && strstr(sumac_error_message(), ": CUDA_ERROR_UNKNOWN (unknown error)")) ||
      (status == SUMAC_ERR_MEMORY && strstr(sumac_error_message(), "out of memory")))
    return;
  complain(what);
}

/* Everything that the library does with the driver. The memory of the emulated device can be read here. */
static void scenario(const struct sumac_driver *driver, CUcontext context, CUstream stream, double *there) {
  float one[100];
  int64_t n = 100;
  double here = -7;
  uint64_t count;
  sumac_device_info info;
  sumac_state *sums;
  CUgraph graph;
  for (int i = 0; i < 100; i++) one[i] = 1;
  memcpy(there + 1, one, sizeof one);
  sumac_tensor x = tensor_of(SUMAC_F32, there + 1, &n), out = scalar_of(SUMAC_F64, &here),
               device_out = scalar_of(SUMAC_F64, there);
  x.device = device_out.device = (sumac_device){2, 0};
  sumac_options options = {.stream = stream};
  step(sumac_device_info_get(0, &info), "sumac_device_info_get");
  sumac_status status = sumac_reduce(NULL, SUMAC_SUM, &x, NULL, &options, &out);
  step(status, "to the host");
  if (here != (status ? -7 : 100)) complain("a wrong result on the host");
  *there = -7;
  status = sumac_reduce(NULL, SUMAC_SUM, &x, NULL, &options, &device_out);
  step(status, "to the device");
  if (*there != (status ? -7 : 100)) complain("a wrong result on the device");
  driver->cuCtxSetCurrent(context); /* for this; the library finds its own way otherwise */
  if (driver->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) != CUDA_SUCCESS)
    complain("no capture");
  step(sumac_reduce(NULL, SUMAC_SUM, &x, NULL, &options, &device_out), "captured");
  if (driver->cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS) complain("a capture did not survive");
  if (driver->cuGraphDestroy(graph) != CUDA_SUCCESS) complain("a graph is not sound");
  driver->cuCtxSetCurrent(NULL);
  if (sumac_state_create(NULL, SUMAC_KIND_SUM, SUMAC_F32, &sums) != SUMAC_OK) complain("no state");
  sumac_state_set_stream(sums, stream);
  status = sumac_state_add(sums, &x, NULL);
  step(status, "into a state");
  if (sumac_state_result(sums, SUMAC_SUM, NULL, &out) != SUMAC_OK || here != (status ? 0 : 100))
    complain("a wrong state");
  sumac_state_destroy(sums);
  step(sumac_device_check(0), "sumac_device_check");
  step(sumac_warm(NULL, 0), "sumac_warm");
  step(sumac_cuda_slow_tiles(0, stream, &count), "slow tiles");
}

/* In a child, which has not used the driver: the scenario with the fault, if there is one, and twice without.
 */
static void with_fault(const char *fault) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  struct sumac_driver driver;
  if (!library) complain(dlerror());
#define SUMAC_DRIVER(NEED, NAME, PARAMETERS) driver.NAME = (CUresult(*) PARAMETERS)dlsym(library, #NAME);
#include "cuda/driver.def"
#undef SUMAC_DRIVER
  EMULATOR(void, emu_fail, (const char *));
  EMULATOR(uint64_t, emu_calls, (const char *));
  EMULATOR(uint64_t, emu_live, (void));
  CUcontext context, after;
  CUdeviceptr memory;
  CUstream stream;
  driver.cuInit(0);
  driver.cuDevicePrimaryCtxRetain(&context, 0);
  driver.cuCtxPushCurrent_v2(context);
  driver.cuMemAlloc_v2(&memory, 4096);
  driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  driver.cuCtxPopCurrent_v2(&after);
  for (int round = 0; round < 3; round++) {
    int failed = report->failures;
    emu_fail(round == 0 ? fault : NULL);
    scenario(&driver, context, stream, (double *)(uintptr_t)memory);
    if (round == 0)
      for (int i = 0; i < ENTRIES; i++) report->calls[i] = emu_calls(entries[i]);
    else if (report->failures != failed)
      complain("what failed once fails again");
  }
  report->live = emu_live();
  _exit(0);
}

static void run_child(const char *fault) {
  int status = -1;
  memset(report, 0, sizeof *report);
  pid_t child = fork();
  if (child == 0) with_fault(fault);
  waitpid(child, &status, 0);
  if (status) fail_msg("%s: status %x: %s", fault ? fault : "no fault", (unsigned)status, report->text);
}

static void faults(void **state) {
  (void)state;
  /* Where a failure can be ignored, it is. A driver that does not open is the matter of tests/cuda/loader.c,
   * and some calls are this test's own. */
  static const char *const harmless[] = {"cuThreadExchangeStreamCaptureMode", "cuCtxPopCurrent_v2"},
                           *const other[] = {
                               "cuInit",          "cuDriverGetVersion",      "cuDeviceGetCount",
                               "cuCtxSetCurrent", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
                               "cuGraphDestroy"};
  uint64_t calls[ENTRIES], live, tried = 0;
  report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(report != MAP_FAILED);
  run_child(NULL);
  assert_int_equal(report->failures, 0);
  memcpy(calls, report->calls, sizeof calls);
  live = report->live;
  for (int i = 0; i < ENTRIES; i++) {
    int may_pass = 0, skipped = 0;
    for (size_t k = 0; k < sizeof harmless / sizeof *harmless; k++)
      may_pass |= strcmp(entries[i], harmless[k]) == 0;
    for (size_t k = 0; k < sizeof other / sizeof *other; k++) skipped |= strcmp(entries[i], other[k]) == 0;
    for (uint64_t call = 1; call <= calls[i] && !skipped; call++) {
      if (call > 8 && call < calls[i]) continue; /* kernels are looked for in the same way */
      for (int memory = 0; memory < 2; memory++) {
        char fault[100];
        snprintf(fault, sizeof fault, "%s:%d=%d", entries[i], (int)call, memory ? 2 : 999);
        run_child(fault);
        tried++;
        if (report->failures == 0 && !may_pass) fail_msg("%s: nothing failed", fault);
        if (report->live != live)
          fail_msg("%s: %d allocations live, without a fault %d", fault, (int)report->live, (int)live);
      }
    }
  }
  print_message("%d faults\n", (int)tried);
  assert_true(tried > 100);
}

/* ---- what other emulated devices are for */

/* Blocks take no more shared memory than there is. */
static void shared_memory(void **state) {
  (void)state;
  const sumac_dtype types[] = {SUMAC_F64, SUMAC_F32, SUMAC_BF16};
  for (int t = 0; t < 3; t++) {
    struct pair p;
    double value;
    sumac_tensor out = scalar_of(SUMAC_F64, &value);
    pair_make(&p, types[t], DATA_NORMAL, (1 << 20) / (types[t].bits / 8) + 9);
    for (int i = 0; i < SOME_OPS; i++) {
      done(start(&p, ops[i], NULL, &out));
      equal(value, on_host(&p, ops[i]), op_text[ops[i]], t);
    }
    pair_free(&p);
  }
}

/* Words that begin close to what they can hold (tests/emu/limits.cpp), and products that fit no windows. */
static void limits(void **state) {
  (void)state;
  enum { N = 1 << 19 };
  double *x = malloc(N * sizeof *x), want, got = -1;
  int64_t n = N;
  device_tensor d;
  for (int i = 0; i < N; i++)
    x[i] = i % 2 ? 0x1.fffffffffffffp-300 : ldexp(0x1.fffffffffffffp0, 300 + i % 16);
  sumac_tensor t = tensor_of(SUMAC_F64, x, &n), host = scalar_of(SUMAC_F64, &want),
               out = scalar_of(SUMAC_F64, &got);
  device_copy(&d, &t);
  done(sumac_reduce(NULL, SUMAC_DOT, &t, &t, NULL, &host));
  sumac_cuda_threads = 32;
  sumac_cuda_blocks = 1;
  done(sumac_reduce(NULL, SUMAC_DOT, &d.tensor, &d.tensor, NULL, &out));
  sumac_cuda_threads = sumac_cuda_blocks = 0;
  equal(got, want, "sum of", N);
  device_free(&d);
  free(x);
}

int main(int argc, char **argv) {
  const struct CMUnitTest first[] = {cmocka_unit_test(faults)}, tests[] = {
                                                                    cmocka_unit_test(results_on_both_sides),
                                                                    cmocka_unit_test(streams),
                                                                    cmocka_unit_test(graphs),
                                                                    cmocka_unit_test(nothing_is_allocated),
                                                                    cmocka_unit_test(many_streams),
                                                                    cmocka_unit_test(range_flag),
                                                                    cmocka_unit_test(states),
                                                                    cmocka_unit_test(many_tensors),
                                                                    cmocka_unit_test(outliers_are_cheap),
                                                                    cmocka_unit_test(the_same_again),
                                                                    cmocka_unit_test(threads),
                                                                    cmocka_unit_test(wrong_devices),
                                                                    cmocka_unit_test(captures_survive),
                                                                    cmocka_unit_test(child_has_no_device),
                                                                };
  const struct CMUnitTest small[] = {cmocka_unit_test(shared_memory)}, near[] = {cmocka_unit_test(limits)};
  const char *which = argc > 1 ? argv[1] : "";
  if (strcmp(which, "faults") == 0)
    return cmocka_run_group_tests_name("faults", first, NULL, NULL); /* the driver is not open */
  sumac_status status;
  if (!device_open()) {
    print_error("%s\n", sumac_error_message());
    return 1;
  }
  cu = sumac_driver(&status);
  if (strcmp(which, "shared") == 0) return cmocka_run_group_tests_name("shared", small, NULL, NULL);
  if (strcmp(which, "limits") == 0) return cmocka_run_group_tests_name("limits", near, NULL, NULL);
  return cmocka_run_group_tests_name("backend", tests, NULL, NULL);
}
