/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulator itself: that it does what a device does, and that it notices what it is there to notice.
 */
#include "cuda/types.h"
#include "emu.h"
#include "rules.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SUMAC_DRIVER(NEED, NAME, PARAMETERS) CUresult NAME PARAMETERS;
#include "cuda/driver.def"
#undef SUMAC_DRIVER

#define ok(CALL) assert_int_equal(CALL, CUDA_SUCCESS)

static CUlibrary library;

static void start(void) {
  CUcontext context;
  ok(cuInit(0));
  ok(cuDevicePrimaryCtxRetain(&context, 0));
  ok(cuCtxSetCurrent(context));
  ok(cuLibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0));
}

static uint64_t *allocate(size_t bytes) {
  CUdeviceptr address;
  ok(cuMemAlloc_v2(&address, bytes));
  return (uint64_t *)(uintptr_t)address;
}

struct shape {
  const char *kernel;
  unsigned blocks, threads, shared;
  int overlaps, freed;
  CUstream stream;
};

static CUresult launch(struct shape s, uint64_t *out, uint64_t n) {
  CUkernel kernel;
  struct rules args = {out, n};
  void *parameters[] = {&args};
  CUlaunchAttribute overlap = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  overlap.value.programmaticStreamSerializationAllowed = s.overlaps;
  CUlaunchConfig config = {s.blocks, 1, 1, s.threads, 1, 1, s.shared, s.stream, &overlap, 1};
  ok(cuLibraryGetKernel(&kernel, library, s.kernel));
  return cuLaunchKernelEx(&config, (CUfunction)kernel, parameters, NULL);
}

/* ---- what ends the process: run before the driver is opened, which a child could not use any more */

static void breaks(struct shape s, size_t bytes, uint64_t n) {
  start();
  uint64_t *out = allocate(bytes);
  if (s.freed) ok(cuMemFree_v2((uintptr_t)out));
  launch(s, out, n);
}

/* The child ends by the signal, having said something that begins and ends with these. */
static void dies(struct shape s, size_t bytes, uint64_t n, int by, const char *said, const char *also) {
  int ends[2], status;
  char text[2048] = "";
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL); /* cmocka's would go on with the next test */
    breaks(s, bytes, n);
    _exit(0);
  }
  close(ends[1]);
  for (size_t at = 0; at < sizeof text - 1;) {
    ssize_t got = read(ends[0], text + at, sizeof text - 1 - at);
    if (got <= 0) break;
    at += (size_t)got;
  }
  close(ends[0]);
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != by || !strstr(text, said) || !strstr(text, also))
    fail_msg("%s: status %x, said: %s", s.kernel, status, text);
}

static void notices_broken_rules(void **state) {
  (void)state;
  struct shape warp = {.blocks = 2, .threads = 32, .shared = 128}, block = {.blocks = 1, .threads = 64};
  struct {
    struct shape shape;
    const char *kernel, *said, *also;
  } cases[] = {
      {warp, "rules_without_barrier", "the order of threads shows", "rules_without_barrier"},
      {warp, "rules_two_calls", "thread 5 of 32: is at warp_add (",
       "thread 0 of the same warp is at warp_max ("},
      {warp, "rules_two_places", "thread 7 of 32: is at warp_add (",
       "thread 0 of the same warp is at warp_add ("},
      {block, "rules_early_end", "thread 37 of 64: is at the end",
       "thread 32 of the same warp is at block_barrier"},
      {block, "rules_warp_without_barrier", "thread 32 of 64: is at block_barrier",
       "thread 0 of the same block is at the end"},
      {block, "rules_lane_at_barrier", "thread 40 of 64: is at block_barrier", "is at warp_barrier"},
      {{.blocks = 1, .threads = 32, .overlaps = 1}, "rules_early_touch", "add_global before wait_for", ""},
      {warp, "rules_misaligned", "thread 0 of 32: load16 of", "no multiple of 16"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cases[i].shape.kernel = cases[i].kernel;
    dies(cases[i].shape, 4096, 0, SIGABRT, cases[i].said, cases[i].also);
  }
}

static void notices_wrong_memory(void **state) {
  (void)state;
  struct shape s = {.kernel = "rules_out_of_bounds", .blocks = 1, .threads = 32};
  dies(s, 4096, 512, SIGSEGV, "thread 9: access to", "0 bytes behind the 4096 bytes at");
  dies(s, 256, UINT64_C(0) - 600, SIGSEGV, "thread 9: access to", "4800 bytes before the 256 bytes at");
  dies(s, 8, 1, SIGABRT, "writes beside the 8 bytes at", "rules_out_of_bounds");
  dies(s, 8, 1 << 30, SIGSEGV, "thread 9: access to", "which is nobody's");
  struct shape freed = {.kernel = "rules_sum", .blocks = 1, .threads = 32, .shared = 8, .freed = 1};
  dies(freed, 8, 0, SIGSEGV, "thread 0: access to", ", freed");
  struct shape shared = {.kernel = "rules_shared_overflow", .blocks = 1, .threads = 32, .shared = 48 << 10};
  dies(shared, 8, 48 << 10, SIGSEGV, "kernel rules_shared_overflow", "thread 0: access to");
  struct shape deep = {.kernel = "rules_deep", .blocks = 1, .threads = 32};
  dies(deep, 8, 0, SIGSEGV, "kernel rules_deep", "access to");
}

/* ---- what works */

static void lanes_tell_each_other(void **state) {
  (void)state;
  enum { BLOCKS = 3, THREADS = 64, EACH = 12 };
  uint64_t *out = allocate(BLOCKS * THREADS * EACH * sizeof *out);
  struct shape s = {.kernel = "rules_warps", .blocks = BLOCKS, .threads = THREADS};
  ok(launch(s, out, 0));
  for (unsigned i = 0; i < BLOCKS * THREADS; i++) {
    unsigned t = i % THREADS, lane = t & 31, warp = t & 32, most = 0, sum = 0;
    for (unsigned k = 0; k < 32; k++) {
      most = most > ((warp + k) ^ 5) ? most : (warp + k) ^ 5;
      sum += warp + k;
    }
    const uint64_t *got = out + i * EACH;
    uint64_t expected[EACH] = {warp | ((lane + 1) & 31),
                               (uint64_t)(warp + 3) << 40,
                               warp + 31 - lane,
                               lane < 4 ? t : t - 4,
                               t ^ 16,
                               t ^ 1,
                               (uint64_t) - (int64_t)(t ^ 2),
                               0x49249249,
                               warp != 0,
                               sum,
                               most,
                               255};
    assert_memory_equal(got, expected, sizeof expected);
  }
  ok(cuMemFree_v2((uintptr_t)out));
}

static void blocks_add_up(void **state) {
  (void)state;
  uint64_t *out = allocate(4096);
  for (unsigned overlaps = 0; overlaps < 2; overlaps++) {
    struct shape s = {
        .kernel = "rules_sum", .blocks = 7, .threads = 256, .shared = 64, .overlaps = (int)overlaps};
    ok(cuMemsetD8Async((uintptr_t)out, 0, 4096, NULL));
    ok(launch(s, out, 0));
    assert_int_equal(out[0], 7 * 256 * (7 * 256 + 1) / 2);
    assert_int_equal(out[1], 0);
  }
  ok(launch((struct shape){.kernel = "rules_with_barrier", .blocks = 1, .threads = 96, .shared = 384}, out,
            0));
  for (unsigned t = 0; t < 96; t++) assert_int_equal(out[t], t ^ 1);
  ok(cuMemFree_v2((uintptr_t)out));
}

static void launches_have_limits(void **state) {
  (void)state;
  uint64_t *out = allocate(64);
  CUkernel kernel;
  ok(cuLibraryGetKernel(&kernel, library, "rules_with_barrier"));
  struct shape s = {.kernel = "rules_with_barrier", .blocks = 1, .threads = 32, .shared = 48 << 10};
  uint64_t before = emu_launches();
  assert_int_equal(
      launch((struct shape){.kernel = "rules_sum", .blocks = 1, .threads = 288, .shared = 72}, out, 0),
      CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(launch((struct shape){.kernel = "rules_warps", .blocks = 1, .threads = 1056}, out, 0),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(launch((struct shape){.kernel = "rules_warps", .blocks = 0, .threads = 32}, out, 0),
                   CUDA_ERROR_INVALID_VALUE);
  s.shared++;
  assert_int_equal(launch(s, out, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(emu_launches(), before);
  ok(cuMemFree_v2((uintptr_t)out));
  out = allocate(256);
  ok(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10, kernel, 0));
  s.shared = 227 << 10;
  ok(launch(s, out, 0));
  assert_int_equal(emu_launches(), before + 1);
  assert_int_equal(
      cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (227 << 10) + 1, kernel, 0),
      CUDA_ERROR_INVALID_VALUE);
  int blocks;
  ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (CUfunction)kernel, 256, 100 << 10));
  assert_int_equal(blocks, 2);
  assert_int_equal(cuLibraryGetKernel(&kernel, library, "nothing"), CUDA_ERROR_NOT_FOUND);
  ok(cuMemFree_v2((uintptr_t)out));
}

static void count_up(void *argument) { ++*(int *)argument; }

/* A graph runs what was captured with the arguments of then, and keeps its objects as long as it is needed.
 */
static void graphs_replay(void **state) {
  (void)state;
  uint64_t *out = allocate(512), id;
  int ended = 0;
  CUstream stream;
  CUgraph graph, same;
  CUgraphExec exec;
  CUuserObject object;
  CUstreamCaptureStatus status;
  ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  uint64_t before = emu_launches();
  ok(cuMemsetD8Async((uintptr_t)out, 0, 512, stream));
  ok(launch(
      (struct shape){
          .kernel = "rules_sum", .blocks = 2, .threads = 32, .shared = 8, .overlaps = 1, .stream = stream},
      out, 0));
  ok(launch(
      (struct shape){
          .kernel = "rules_sum", .blocks = 2, .threads = 32, .shared = 8, .overlaps = 1, .stream = stream},
      out, 0));
  ok(cuStreamGetCaptureInfo_v2(stream, &status, &id, &same, NULL, NULL));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ok(cuUserObjectCreate(&object, &ended, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  ok(cuGraphRetainUserObject(same, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  ok(cuStreamEndCapture(stream, &graph));
  assert_ptr_equal(graph, same);
  assert_int_equal(emu_launches(), before);
  ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ok(cuGraphDestroy(graph));
  for (int i = 0; i < 3; i++) {
    out[0] = 99;
    ok(cuGraphLaunch(exec, stream));
    assert_int_equal(out[0], 64 * 65);
  }
  assert_int_equal(emu_launches(), before + 6);
  assert_int_equal(ended, 0);
  ok(cuGraphExecDestroy(exec));
  assert_int_equal(ended, 1);
  ok(cuStreamDestroy_v2(stream));
  ok(cuMemFree_v2((uintptr_t)out));
}

static void memory_is_fresh_and_freed(void **state) {
  (void)state;
  uint64_t before = emu_live();
  unsigned char *p = (unsigned char *)allocate(1000);
  assert_int_equal((uintptr_t)p % 256, 0);
  for (int i = 0; i < 1000; i++) assert_int_equal(p[i], 0xff);
  assert_int_equal(cuMemsetD8Async((uintptr_t)p + 1, 0, 1000, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(emu_live(), before + 1);
  ok(cuMemFree_v2((uintptr_t)p));
  assert_int_equal(cuMemFree_v2((uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr much;
  assert_int_equal(cuMemAlloc_v2(&much, (size_t)1 << 31), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(emu_live(), before);
}

static void faults_on_demand(void **state) {
  (void)state;
  CUdeviceptr a;
  emu_fail("cuMemAlloc_v2:2=700,cuStreamCreate:*=2");
  CUstream stream;
  ok(cuMemAlloc_v2(&a, 8));
  ok(cuMemFree_v2(a));
  assert_int_equal(cuMemAlloc_v2(&a, 8), 700);
  for (int i = 0; i < 3; i++) assert_int_equal(cuStreamCreate(&stream, 0), 2);
  ok(cuMemAlloc_v2(&a, 8));
  ok(cuMemFree_v2(a));
  assert_int_equal(emu_calls("cuMemAlloc_v2"), 3);
  emu_reset();
  assert_int_equal(emu_calls("cuMemAlloc_v2"), 0);
  ok(cuStreamCreate(&stream, 0));
  ok(cuStreamDestroy_v2(stream));
}

static void child_has_no_driver(void **state) {
  (void)state;
  int status, count;
  pid_t child = fork();
  if (child == 0) _exit(cuDeviceGetCount(&count) == 3 && cuInit(0) == 3 ? 0 : 1);
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest broken[] = {cmocka_unit_test(notices_broken_rules),
                                      cmocka_unit_test(notices_wrong_memory)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lanes_tell_each_other), cmocka_unit_test(blocks_add_up),
      cmocka_unit_test(launches_have_limits),  cmocka_unit_test(graphs_replay),
      cmocka_unit_test(faults_on_demand),      cmocka_unit_test(memory_is_fresh_and_freed),
      cmocka_unit_test(child_has_no_driver)};
  int failed = cmocka_run_group_tests(broken, NULL, NULL);
  start();
  return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
