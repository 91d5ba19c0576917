/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a driver what it answers where programs err or capture, one line a question. answers.golden is what
 * driver 580.159.04 said with an H200; the emulated one must say the same.
 */
#include "cuda/types.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
#define SUMAC_DRIVER(NEED, NAME, PARAMETERS) CUresult(*NAME) PARAMETERS;
#include "cuda/driver.def"
#undef SUMAC_DRIVER
} cu;

static void open_driver(void) {
  void *file = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (file == NULL) exit(2);
#define SUMAC_DRIVER(NEED, NAME, PARAMETERS) *(void **)&cu.NAME = dlsym(file, #NAME);
#include "cuda/driver.def"
#undef SUMAC_DRIVER
}

#define ask(CALL) printf("%s: %d\n", #CALL, cu.CALL)

static CUcontext context;
static CUlibrary library;
static CUkernel kernel;
static CUdeviceptr memory;
static CUevent event;
static CUstream other;
static char host[256];

static const char code[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry rules_sum(.param .align 8 .b8 a[16]) .maxntid 256, 1, 1 { ret; }\n";

static CUresult load(void) {
  CUlibrary second;
  return cu.cuLibraryLoadData(&second, code, NULL, NULL, 0, NULL, NULL, 0);
}

static void before_all_is_there(void) {
  int n;
  CUdevice d;
  CUdeviceptr p;
  CUstream s;
  CUcontext c = (CUcontext)1;
  ask(cuDeviceGetCount(&n));
  ask(cuCtxGetCurrent(&c));
  ask(cuInit(1));
  ask(cuInit(0));
  ask(cuInit(0));
  ask(cuDeviceGet(&d, -1));
  ask(cuDeviceGet(&d, 999));
  ask(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 999));
  ask(cuCtxGetCurrent(&c));
  printf("a current context: %d\n", c != NULL);
  ask(cuMemAlloc_v2(&p, 8));
  ask(cuStreamCreate(&s, 0));
  ask(cuStreamSynchronize(NULL));
  ask(cuCtxSynchronize());
  ask(cuCtxPopCurrent_v2(&c));
  ask(cuCtxPushCurrent_v2(NULL));
  ask(cuCtxSetCurrent(NULL));
  printf("load: %d\n", load());
  ask(cuDevicePrimaryCtxRetain(&context, 0));
  ask(cuCtxPushCurrent_v2(context));
  ask(cuCtxPopCurrent_v2(NULL));
  ask(cuCtxSetCurrent(context));
}

static void devices(void) {
  const int attributes[] = {1, 8, 10, 39, 41, 75, 76, 81, 97, 106};
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
    int value = -1;
    cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)attributes[i], 0);
    printf("attribute %d: %d\n", attributes[i], value);
  }
}

static void errors(void) {
  const int codes[] = {0, 1, 2, 3, 34, 100, 101, 201, 209, 400, 500, 700, 719, 900, 901, 906, 999, 12345};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    const char *name = "?", *text = "?";
    CUresult a = cu.cuGetErrorName((CUresult)codes[i], &name);
    CUresult b = cu.cuGetErrorString((CUresult)codes[i], &text);
    printf("error %d: %d %s, %d %s\n", codes[i], a, name != NULL ? name : "-", b, text != NULL ? text : "-");
  }
}

static void allocations(void) {
  CUdeviceptr p, q;
  void *h;
  ask(cuMemAlloc_v2(&p, 0));
  ask(cuMemAlloc_v2(&p, (size_t)1 << 50));
  ask(cuMemHostAlloc(&h, 0, 0));
  ask(cuMemAlloc_v2(&p, 1));
  ask(cuMemAlloc_v2(&q, 1));
  printf("aligned: %d %d\n", p % 256 == 0, q % 256 == 0);
  ask(cuMemFree_v2(p + 1));
  ask(cuMemFree_v2(p));
  ask(cuMemFree_v2(p));
  ask(cuMemFree_v2(0));
  ask(cuMemFree_v2(q));
  ask(cuMemHostAlloc(&h, 64, CU_MEMHOSTALLOC_PORTABLE));
  ask(cuMemFree_v2((CUdeviceptr)(uintptr_t)h));
  ask(cuMemFreeHost(h));
  ask(cuMemFreeHost(NULL));
  ask(cuMemFreeHost(host));
  ask(cuMemsetD8Async(16, 0, 8, NULL));
  ask(cuMemcpyDtoH_v2(host, 16, 8));
  ask(cuMemcpyHtoD_v2(16, host, 8));
  ask(cuMemcpyDtoDAsync_v2(memory, 16, 8, NULL));
  ask(cuMemcpyDtoHAsync_v2(host, 16, 0, NULL));
  ask(cuMemcpyDtoHAsync_v2(host, memory, 8, NULL));
}

static CUresult launch(unsigned blocks, unsigned threads, unsigned shared, CUstream stream) {
  struct {
    CUdeviceptr out;
    uint64_t n;
  } args = {memory, 0};
  void *parameters[] = {&args};
  CUlaunchConfig config = {blocks, 1, 1, threads, 1, 1, shared, stream, NULL, 0};
  return cu.cuLaunchKernelEx(&config, (CUfunction)kernel, parameters, NULL);
}

static void kernels(void) {
  int n = -1;
  CUkernel none;
  ask(cuLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0));
  ask(cuLibraryGetKernel(&none, library, "none"));
  ask(cuLibraryGetKernel(&kernel, library, "rules_sum"));
  const CUfunction_attribute attributes[] = {
      CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
      CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES};
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
    CUresult result = cu.cuKernelGetAttribute(&n, attributes[i], kernel, 0);
    printf("kernel attribute %d: %d %d\n", attributes[i], result, n);
  }
  const unsigned shapes[][3] = {{1, 256, 64}, {1, 288, 64},      {1, 1056, 64},          {0, 32, 64},
                                {1, 0, 64},   {1, 32, 48 << 10}, {1, 32, (48 << 10) + 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    printf("launch %u %u %u: %d\n", shapes[i][0], shapes[i][1], shapes[i][2],
           launch(shapes[i][0], shapes[i][1], shapes[i][2], NULL));
  const struct {
    int threads;
    size_t shared;
  } fits[] = {{256, 0}, {128, 40000}, {256, 60000}, {288, 0}, {0, 0}, {32, 0}};
  for (int again = 0; again < 2; again++) {
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
      CUresult result = cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, (CUfunction)kernel,
                                                                       fits[i].threads, fits[i].shared);
      printf("occupancy %d %zu: %d", fits[i].threads, fits[i].shared, result);
      printf(result == CUDA_SUCCESS ? " %d\n" : "\n", n);
    }
    ask(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448, kernel, 0));
  }
  ask(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449, kernel, 0));
  ask(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1, kernel, 0));
  ask(cuKernelGetAttribute(&n, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0));
  printf("shared memory: %d\n", n);
  printf("launch with all of it: %d\n", launch(1, 32, 232448, NULL));
  ask(cuCtxSynchronize());
}

static void events(void) {
  float ms;
  CUevent e, untimed;
  ask(cuEventCreate(&e, 0));
  ask(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  ask(cuEventQuery(e));
  ask(cuEventSynchronize(e));
  ask(cuEventElapsedTime_v2(&ms, e, e));
  ask(cuEventRecord(e, NULL));
  ask(cuEventRecord(untimed, NULL));
  ask(cuEventSynchronize(untimed));
  ask(cuEventQuery(e));
  ask(cuEventElapsedTime_v2(&ms, e, e));
  ask(cuEventElapsedTime_v2(&ms, e, untimed));
  ask(cuEventDestroy_v2(untimed));
  ask(cuEventDestroy_v2(e));
}

/* ---- capture */

/* What is called while a stream captures. */
static CUresult alloc(void) {
  CUdeviceptr p;
  return cu.cuMemAlloc_v2(&p, 8);
}
static CUresult host_alloc(void) {
  void *p;
  return cu.cuMemHostAlloc(&p, 8, 0);
}
static CUdeviceptr spare[64];
static void *spare_host[64];
static int spares, spare_hosts;
static CUresult free_device(void) { return cu.cuMemFree_v2(spare[spares++]); }
static CUresult free_host(void) { return cu.cuMemFreeHost(spare_host[spare_hosts++]); }
static CUresult synchronize_other(void) { return cu.cuStreamSynchronize(other); }
static CUresult synchronize_null(void) { return cu.cuStreamSynchronize(NULL); }
static CUresult synchronize_all(void) { return cu.cuCtxSynchronize(); }
static CUresult create_stream(void) {
  CUstream s;
  return cu.cuStreamCreate(&s, 0);
}
static CUresult create_event(void) {
  CUevent e;
  return cu.cuEventCreate(&e, 0);
}
static CUresult query_event(void) { return cu.cuEventQuery(event); }
static CUresult synchronize_event(void) { return cu.cuEventSynchronize(event); }
static CUresult set_on_other(void) { return cu.cuMemsetD8Async(memory, 0, 8, other); }
static CUresult set_on_null(void) { return cu.cuMemsetD8Async(memory, 0, 8, NULL); }
static CUresult launch_on_null(void) { return launch(1, 32, 64, NULL); }
static CUresult copy_now(void) { return cu.cuMemcpyDtoH_v2(host, memory, 8); }
static CUresult get_kernel(void) { return cu.cuLibraryGetKernel(&kernel, library, "rules_sum"); }
static CUresult set_kernel(void) {
  return cu.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, kernel, 0);
}
static CUresult retain(void) { return cu.cuDevicePrimaryCtxRetain(&context, 0); }
static CUresult null_captures(void) {
  CUstreamCaptureStatus status;
  return cu.cuStreamIsCapturing(NULL, &status);
}
static CUresult null_capture_info(void) {
  CUstreamCaptureStatus status;
  uint64_t id;
  return cu.cuStreamGetCaptureInfo_v2(NULL, &status, &id, NULL, NULL, NULL);
}
static CUresult null_id(void) {
  unsigned long long id;
  return cu.cuStreamGetId(NULL, &id);
}

static const struct {
  const char *name;
  CUresult (*call)(void);
} calls[] = {{"cuMemAlloc", alloc},
             {"cuMemHostAlloc", host_alloc},
             {"cuMemFree", free_device},
             {"cuMemFreeHost", free_host},
             {"cuStreamSynchronize(other)", synchronize_other},
             {"cuStreamSynchronize(NULL)", synchronize_null},
             {"cuCtxSynchronize", synchronize_all},
             {"cuStreamCreate", create_stream},
             {"cuEventCreate", create_event},
             {"cuEventQuery", query_event},
             {"cuEventSynchronize", synchronize_event},
             {"cuMemsetD8Async(other)", set_on_other},
             {"cuMemsetD8Async(NULL)", set_on_null},
             {"cuLaunchKernelEx(NULL)", launch_on_null},
             {"cuMemcpyDtoH", copy_now},
             {"cuLibraryLoadData", load},
             {"cuLibraryGetKernel", get_kernel},
             {"cuKernelSetAttribute", set_kernel},
             {"cuDevicePrimaryCtxRetain", retain},
             {"cuStreamIsCapturing(NULL)", null_captures},
             {"cuStreamGetCaptureInfo(NULL)", null_capture_info},
             {"cuStreamGetId(NULL)", null_id}};

static CUresult on_thread_result;
static void *on_thread(void *call) {
  cu.cuCtxSetCurrent(context);
  on_thread_result = ((CUresult(*)(void))call)();
  return NULL;
}

/* Captures on a stream, calls, and tells what became of the capture. */
static void call_in_capture(int flags, int mode, int thread_mode, int elsewhere) {
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    CUstream s;
    CUgraph graph = NULL;
    CUstreamCaptureStatus status;
    CUstreamCaptureMode exchanged = (CUstreamCaptureMode)thread_mode;
    cu.cuStreamCreate(&s, (unsigned)flags);
    cu.cuStreamBeginCapture_v2(s, (CUstreamCaptureMode)mode);
    CUresult first = cu.cuMemsetD8Async(memory, 0, 8, s), result;
    cu.cuThreadExchangeStreamCaptureMode(&exchanged);
    if (elsewhere) {
      pthread_t thread;
      pthread_create(&thread, NULL, on_thread, (void *)calls[i].call);
      pthread_join(thread, NULL);
      result = on_thread_result;
    } else {
      result = calls[i].call();
    }
    cu.cuThreadExchangeStreamCaptureMode(&exchanged);
    cu.cuStreamIsCapturing(s, &status);
    CUresult second = cu.cuMemsetD8Async(memory, 0, 8, s), end = cu.cuStreamEndCapture(s, &graph);
    printf("flags %d mode %d thread %d%s: %d, %s %d, status %d, %d, end %d %d\n", flags, mode, thread_mode,
           elsewhere ? " elsewhere" : "", first, calls[i].name, result, status, second, end, graph != NULL);
    if (graph != NULL) cu.cuGraphDestroy(graph);
    cu.cuStreamDestroy_v2(s);
    cu.cuCtxSynchronize();
  }
}

static void *end_capture(void *stream) {
  CUgraph graph;
  cu.cuCtxSetCurrent(context);
  printf("end on another thread: %d\n", cu.cuStreamEndCapture(stream, &graph));
  return NULL;
}

static void captures(void) {
  CUstream s;
  CUgraph graph;
  CUstreamCaptureStatus status;
  CUstreamCaptureMode wrong = (CUstreamCaptureMode)7;
  uint64_t id = 0;
  ask(cuStreamCreate(&s, 2));
  ask(cuStreamCreate(&s, 0));
  ask(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  ask(cuEventCreate(&event, 0));
  ask(cuEventRecord(event, other));
  ask(cuStreamSynchronize(other));
  for (int i = 0; i < 64; i++) {
    cu.cuMemAlloc_v2(&spare[i], 8);
    cu.cuMemHostAlloc(&spare_host[i], 8, 0);
  }
  ask(cuThreadExchangeStreamCaptureMode(&wrong));
  ask(cuStreamEndCapture(s, &graph));
  ask(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ask(cuStreamIsCapturing(NULL, &status));
  printf("status: %d\n", status);
  ask(cuStreamGetCaptureInfo_v2(s, &status, NULL, NULL, NULL, NULL));
  printf("status: %d\n", status);
  ask(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ask(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ask(cuStreamGetCaptureInfo_v2(s, &status, &id, &graph, NULL, NULL));
  printf("status: %d, an id: %d, a graph: %d\n", status, id != 0, graph != NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, end_capture, s);
  pthread_join(thread, NULL);
  ask(cuStreamEndCapture(s, &graph));
  ask(cuGraphDestroy(graph));
  ask(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ask(cuStreamSynchronize(s));
  ask(cuStreamIsCapturing(s, &status));
  printf("status: %d\n", status);
  ask(cuStreamEndCapture(s, &graph));
  ask(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  ask(cuEventRecord(event, s));
  ask(cuEventQuery(event));
  ask(cuEventSynchronize(event));
  ask(cuStreamIsCapturing(s, &status));
  printf("status: %d\n", status);
  ask(cuStreamEndCapture(s, &graph));
  ask(cuEventRecord(event, other));
  ask(cuStreamSynchronize(other));
  ask(cuEventSynchronize(event));
  for (int flags = 0; flags < 2; flags++)
    for (int mode = 0; mode < 3; mode++) call_in_capture(flags, mode, CU_STREAM_CAPTURE_MODE_GLOBAL, 0);
  call_in_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                  0);
  call_in_capture(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, 0);
  call_in_capture(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, 0);
  for (int mode = 0; mode < 3; mode++)
    call_in_capture(CU_STREAM_NON_BLOCKING, mode, CU_STREAM_CAPTURE_MODE_GLOBAL, 1);
}

static int ended;
static void count_up(void *argument) { __atomic_add_fetch((int *)argument, 1, __ATOMIC_SEQ_CST); }
static int count_ended(void) {
  usleep(100000); /* a real driver calls from a thread of its own */
  return __atomic_load_n(&ended, __ATOMIC_SEQ_CST);
}

static void graphs(void) {
  CUstream s;
  CUgraph graph;
  CUgraphExec exec;
  CUuserObject object;
  CUstreamCaptureStatus status;
  ask(cuUserObjectCreate(&object, &ended, count_up, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  ask(cuUserObjectCreate(&object, &ended, count_up, 1, 0));
  ask(cuUserObjectCreate(&object, &ended, NULL, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  ask(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  for (int instances = 0; instances < 3; instances++) {
    ask(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ask(cuMemsetD8Async(memory, 0, 8, s));
    ask(cuStreamGetCaptureInfo_v2(s, &status, NULL, &graph, NULL, NULL));
    ask(cuUserObjectCreate(&object, &ended, count_up, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    ask(cuGraphRetainUserObject(graph, object, 0, CU_GRAPH_USER_OBJECT_MOVE));
    ask(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    if (instances == 2) { /* an invalidated capture lets go of its graph */
      ask(cuStreamSynchronize(s));
      ask(cuStreamEndCapture(s, &graph));
      printf("a graph: %d, ended: %d\n", graph != NULL, count_ended());
      continue;
    }
    ask(cuStreamEndCapture(s, &graph));
    if (instances == 1) {
      ask(cuGraphInstantiateWithFlags(&exec, graph, 0));
      ask(cuGraphLaunch(exec, s));
      ask(cuStreamSynchronize(s));
    }
    ask(cuGraphDestroy(graph));
    printf("ended: %d\n", count_ended());
    if (instances == 1) {
      ask(cuGraphExecDestroy(exec));
      printf("ended: %d\n", count_ended());
    }
  }
}

static void child(void) {
  int n;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    printf("in a child: cuInit %d, ", cu.cuInit(0));
    printf("cuDeviceGetCount %d\n", cu.cuDeviceGetCount(&n));
    fflush(stdout);
    _exit(0);
  }
  waitpid(pid, NULL, 0);
}

int main(void) {
  open_driver();
  before_all_is_there();
  cu.cuMemAlloc_v2(&memory, 256);
  devices();
  errors();
  allocations();
  kernels();
  events();
  captures();
  graphs();
  child();
  return 0;
}
