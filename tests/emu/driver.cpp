/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated CUDA driver: what src/cuda/driver.def lists, for devices whose memory is the process's own and
 * whose streams do at once what they are told. Where a program errs as it might on a real device, it gets the
 * real driver's error (tests/emu/answers.golden); where this driver knows no better, the process ends.
 */
#include "emu.h"
#include "machine.h"

#include "cuda/types.h"

#include <algorithm>
#include <chrono>
#include <fenv.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define SUMAC_DRIVER(NEED, NAME, PARAMETERS) EMU_API CUresult NAME PARAMETERS;
#include "cuda/driver.def"
#undef SUMAC_DRIVER

namespace {

/* The errors that only a driver needs to know. */
constexpr CUresult NOT_INITIALIZED = CUresult(3), INVALID_DEVICE = CUresult(101),
                   INVALID_CONTEXT = CUresult(201), INVALID_HANDLE = CUresult(400),
                   ILLEGAL_STATE = CUresult(401), NOT_PERMITTED = CUresult(800),
                   CAPTURE_INVALIDATED = CUresult(901), CAPTURE_IMPLICIT = CUresult(906),
                   CAPTURED_EVENT = CUresult(907), CAPTURE_WRONG_THREAD = CUresult(908);

constexpr int MOST_DEVICES = 8;
constexpr size_t MEMORY = size_t(1) << 30; /* of a device */

typedef std::function<void()> work;

int setting(const char *name, int otherwise) {
  const char *value = getenv(name);
  return value != nullptr ? atoi(value) : otherwise;
}
int arch() { return setting("SUMAC_EMU_ARCH", 90); }
/* Of a block at most: all of a multiprocessor's, but for the 1 KB that a block costs from sm_80 on. */
size_t most_shared() {
  switch (arch()) {
  case 75: return 64 << 10;
  case 80:
  case 87: return 163 << 10;
  case 86:
  case 89:
  case 120:
  case 121: return 99 << 10;
  default: return EMU_MOST_SHARED;
  }
}
size_t block_costs() { return arch() < 80 ? 0 : 1024; }
int device_count() { return std::min(setting("SUMAC_EMU_DEVICES", 1), MOST_DEVICES); }

} // namespace

/* ---- what handles point to */

struct CUctx_st {};
struct CUlib_st {};
struct CUkern_st {
  const emu_kernel *kernel;
  size_t shared[MOST_DEVICES];
};
struct CUuserObject_st {
  void *argument;
  CUhostFn destroy;
  unsigned references;
};
struct graph_content {
  std::vector<work> steps;
  std::map<CUuserObject, unsigned> objects;
};
struct CUgraph_st : graph_content {};
struct CUgraphExec_st : graph_content {};
struct CUstream_st {
  CUcontext context;
  unsigned flags;
  uint64_t id;
  CUgraph graph = nullptr; /* being captured into, or null */
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id capturer = {};
  bool invalidated = false;
  uint64_t capture = 0;
};
struct CUevent_st {
  unsigned flags;
  CUstream captured; /* recorded into its capture, or null */
  bool recorded;
  std::chrono::steady_clock::time_point time;
};

namespace {

struct allocation {
  char *map;
  size_t map_size;
  size_t size;
  bool pinned;
  char *data;

  /* What lies beside the data on its pages is as it was. */
  bool intact(size_t page) const {
    auto poisoned = [](char c) { return static_cast<unsigned char>(c) == EMU_POISON; };
    return std::all_of(map + page, data, poisoned) &&
           std::all_of(data + size, map + map_size - page, poisoned);
  }
};

struct fault {
  std::string entry;
  uint64_t call; /* 0: every one */
  CUresult result;
};

std::vector<fault> faults_of(const char *text) {
  std::vector<fault> list;
  while (text != nullptr && *text != 0) {
    const char *colon = strchr(text, ':'), *equals = strchr(text, '=');
    if (colon == nullptr || equals == nullptr || equals < colon) emu_fatal("no list of faults: %s", text);
    list.push_back({std::string(text, colon), strtoull(colon + 1, nullptr, 10), CUresult(atoi(equals + 1))});
    const char *comma = strchr(text, ',');
    text = comma != nullptr ? comma + 1 : nullptr;
  }
  return list;
}

std::recursive_mutex lock; /* destructors of user objects call back */
pid_t initialised_by;      /* a forked child has no driver */
bool in_destructor;
CUctx_st contexts[MOST_DEVICES];
CUstream_st legacy_stream{nullptr, 0, 1}, thread_stream{nullptr, 0, 2};
thread_local std::vector<CUcontext> current;
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
template <class T> std::set<T *> live;      /* the handles there are */
std::map<char *, allocation> memory, freed; /* by data; the addresses of freed ones are not used again */
std::map<std::string, CUkern_st> kernels;
std::vector<fault> faults = faults_of(getenv("SUMAC_EMU_FAIL"));
std::map<std::string, uint64_t> calls;
uint64_t launches, allocations, last_id = 2; /* 1 and 2 are the streams that exist anyway */

size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

int ordinal(CUcontext context) { return static_cast<int>(context - contexts); }
template <class T> bool valid(T *handle) { return live<T>.count(handle) != 0; }

/* ---- every call begins here */

enum need { NOTHING, DRIVER, CONTEXT };

struct call {
  std::lock_guard<std::recursive_mutex> guard{lock};
  CUresult result;
  call(const char *entry, need need) : result(begin(entry, need)) {}

  static CUresult begin(const char *entry, need need) {
    uint64_t count = ++calls[entry];
    for (const fault &f : faults)
      if (f.entry == entry && (f.call == 0 || f.call == count)) return f.result;
    if (in_destructor) return NOT_PERMITTED;
    if (need != NOTHING && initialised_by != getpid()) return NOT_INITIALIZED;
    return need == CONTEXT && current.empty() ? INVALID_CONTEXT : CUDA_SUCCESS;
  }
};

/* ---- launches */

/* What the launch being run in both ways has written to. */
struct written {
  char *page;
  std::vector<char> before, ascending;
};
std::vector<written> pages;

std::vector<char> page_at(const char *p) { return std::vector<char>(p, p + page()); }

/* Copies of all memory would take a hundred times longer than most launches: only a page that is written to
 * is kept, at its first write (emu_touched). */
void protect_memory(int access) {
  for (auto &[data, a] : memory) mprotect(a.map + page(), a.map_size - 2 * page(), access);
}

void run_both_ways(const emu_launch &launch) {
  pages.clear();
  protect_memory(PROT_READ);
  emu_run(launch, emu_order::ascending);
  for (written &w : pages) {
    w.ascending = page_at(w.page);
    std::copy(w.before.begin(), w.before.end(), w.page);
  }
  emu_run(launch, emu_order::descending);
  for (written &w : pages)
    if (page_at(w.page) != (w.ascending.empty() ? w.before : w.ascending))
      emu_fatal("the order of threads shows in what %s writes", launch.kernel->name);
  protect_memory(PROT_READ | PROT_WRITE);
}

void run(const emu_launch &launch) {
  const char *order = getenv("SUMAC_EMU_ORDER");
  fenv_t environment; /* a device does not know the caller's */
  fegetenv(&environment);
  fesetenv(FE_DFL_ENV);
  if (order == nullptr || strcmp(order, "both") == 0)
    run_both_ways(launch);
  else
    emu_run(launch, strcmp(order, "descending") == 0 || (strcmp(order, "by turns") == 0 && launches % 2 != 0)
                        ? emu_order::descending
                        : emu_order::ascending);
  fesetenv(&environment);
  for (auto &[data, a] : memory)
    if (!a.intact(page()))
      emu_fatal("%s writes beside the %zu bytes at %p", launch.kernel->name, a.size,
                static_cast<void *>(data));
  launches++;
}

/* ---- streams and capture */

CUstream stream_of(CUstream handle) {
  uintptr_t number = reinterpret_cast<uintptr_t>(handle);
  return number <= 1 ? &legacy_stream : number == 2 ? &thread_stream : valid(handle) ? handle : nullptr;
}

bool any_capture(bool (*such)(const CUstream_st &)) {
  bool any = thread_stream.graph != nullptr && such(thread_stream);
  for (CUstream s : live<CUstream_st>) any |= s->graph != nullptr && such(*s);
  return any;
}

void invalidate(bool (*such)(const CUstream_st &)) {
  thread_stream.invalidated |= thread_stream.graph != nullptr && such(thread_stream);
  for (CUstream s : live<CUstream_st>) s->invalidated |= s->graph != nullptr && such(*s);
}

/* Captures that forbid this thread the calls that might depend on work not done yet. */
bool forbids(const CUstream_st &s) {
  bool mine = s.capturer == std::this_thread::get_id();
  return thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
         (mine ? s.mode != CU_STREAM_CAPTURE_MODE_RELAXED
               : s.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult unsafe() {
  if (!any_capture(forbids)) return CUDA_SUCCESS;
  invalidate(forbids);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* The stream NULL waits for those that are not made otherwise, which captures cannot have. */
bool blocking(const CUstream_st &s) { return s.flags != CU_STREAM_NON_BLOCKING; }
CUresult implicit(CUstream s) {
  if (s != &legacy_stream || !any_capture(blocking)) return CUDA_SUCCESS;
  invalidate(blocking);
  return CAPTURE_IMPLICIT;
}

/* Work for a stream: done, or noted by the capture. */
CUresult submit(CUstream handle, const work &step) {
  CUstream s = stream_of(handle);
  if (s == nullptr) return INVALID_HANDLE;
  if (CUresult result = implicit(s)) return result;
  if (s->invalidated) return CAPTURE_INVALIDATED;
  if (s->graph != nullptr)
    s->graph->steps.push_back(step);
  else
    step();
  return CUDA_SUCCESS;
}

void release(CUuserObject object, unsigned references) {
  object->references -= references;
  if (object->references != 0) return;
  in_destructor = true; /* which may not call the driver */
  object->destroy(object->argument);
  in_destructor = false;
  live<CUuserObject_st>.erase(object);
  delete object;
}

template <class T> CUresult destroy_graph(T *graph) {
  if (!valid(graph)) return CUDA_ERROR_INVALID_VALUE;
  live<T>.erase(graph);
  for (auto &[object, references] : graph->objects) release(object, references);
  delete graph;
  return CUDA_SUCCESS;
}

/* ---- memory */

/* All of it is memory that the driver knows. */
bool known(CUdeviceptr address, size_t bytes) {
  if (bytes == 0) return true;
  auto next = memory.upper_bound(reinterpret_cast<char *>(address));
  if (next == memory.begin()) return false;
  const allocation &a = std::prev(next)->second;
  size_t offset = static_cast<size_t>(reinterpret_cast<char *>(address) - a.data);
  return offset <= a.size && bytes <= a.size - offset;
}

/* Between guard pages, by turns close to the one before and to the one behind, as far as a multiple of 256,
 * which the real driver's addresses are, allows. Sizes that are such multiples end at the page. */
CUresult allocate(char **address, size_t bytes, bool pinned) {
  if (CUresult result = unsafe()) return result;
  size_t used = bytes;
  for (auto &[data, a] : memory) used += a.size;
  if (bytes > MEMORY || used > MEMORY) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t inner = (bytes + page() - 1) / page() * page();
  allocation a = {nullptr, inner + 2 * page(), bytes, pinned, nullptr};
  a.map = static_cast<char *>(
      mmap(nullptr, a.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (a.map == MAP_FAILED || mprotect(a.map + page(), inner, PROT_READ | PROT_WRITE) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  memset(a.map + page(), EMU_POISON, inner);
  a.data = a.map + page() + (allocations++ % 2 == 0 ? (inner - bytes) / 256 * 256 : 0);
  memory[a.data] = a;
  *address = a.data;
  return CUDA_SUCCESS;
}

CUresult deallocate(char *address, bool pinned) {
  if (CUresult result = unsafe()) return result;
  auto found = memory.find(address);
  if (found == memory.end() || found->second.pinned != pinned) return CUDA_ERROR_INVALID_VALUE;
  const allocation &a = found->second;
  mmap(a.map, a.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  freed.insert(*found);
  memory.erase(found);
  return CUDA_SUCCESS;
}

CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return submit(stream,
                [=] { memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes); });
}

CUdeviceptr device_pointer(const void *p) { return reinterpret_cast<CUdeviceptr>(p); }

} // namespace

bool emu_touched(void *address) {
  char *p = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(address) / page() * page());
  auto next = memory.upper_bound(p + page() - 1);
  if (next == memory.begin()) return false;
  const allocation &a = std::prev(next)->second;
  if (p < a.map + page() || p >= a.map + a.map_size - page()) return false;
  for (const written &w : pages)
    if (w.page == p) return false;
  pages.push_back({p, page_at(p), {}});
  return mprotect(p, page(), PROT_READ | PROT_WRITE) == 0;
}

void emu_describe(const void *address, char *text, size_t size) {
  const char *p = static_cast<const char *>(address);
  snprintf(text, size, "which is nobody's");
  for (bool live : {true, false})
    for (auto &[data, a] : live ? memory : freed) {
      if (p < a.map || p >= a.map + a.map_size) continue;
      ptrdiff_t behind = p - (a.data + a.size);
      snprintf(text, size, "%td bytes %s the %zu bytes at %p%s", behind < 0 ? data - p : behind,
               behind < 0 ? "before" : "behind", a.size, static_cast<void *>(data), live ? "" : ", freed");
    }
}

/* ---- what tests ask */

uint64_t emu_launches() { return launches; }
uint64_t emu_allocations() { return allocations; }
uint64_t emu_calls(const char *entry) { return calls[entry]; }
uint64_t emu_live() { return memory.size(); }
void emu_reset() {
  launches = allocations = 0;
  emu_fail(getenv("SUMAC_EMU_FAIL"));
}
void emu_fail(const char *text) {
  calls.clear();
  faults = faults_of(text);
}
const char *emu_kernel_name(int i) {
  const emu_kernel *k = emu_kernel::first;
  while (i-- > 0 && k != nullptr) k = k->next;
  return k != nullptr ? k->name : nullptr;
}

/* ---- errors, devices, contexts */

CUresult cuDriverGetVersion(int *version) {
  call c(__func__, NOTHING);
  if (c.result == CUDA_SUCCESS) *version = setting("SUMAC_EMU_DRIVER", 13000);
  return c.result;
}

CUresult cuInit(unsigned flags) {
  call c(__func__, NOTHING);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (device_count() == 0) return CUDA_ERROR_NO_DEVICE;
  if (initialised_by != 0 && initialised_by != getpid()) return NOT_INITIALIZED;
  initialised_by = getpid();
  return CUDA_SUCCESS;
}

struct error_text {
  int code;
  const char *name, *text;
};
static const error_text errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult text_of(CUresult error, const char **text, const char *error_text::*which) {
  *text = nullptr;
  for (const error_text &e : errors)
    if (e.code == error) *text = e.*which;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorName(CUresult error, const char **name) { return text_of(error, name, &error_text::name); }
CUresult cuGetErrorString(CUresult error, const char **text) {
  return text_of(error, text, &error_text::text);
}

CUresult cuDeviceGetCount(int *count) {
  call c(__func__, DRIVER);
  if (c.result == CUDA_SUCCESS) *count = device_count();
  return c.result;
}

static CUresult check_device(const call &c, CUdevice device) {
  if (c.result != CUDA_SUCCESS) return c.result;
  return device >= 0 && device < device_count() ? CUDA_SUCCESS : INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  call c(__func__, DRIVER);
  CUresult result = check_device(c, ordinal);
  if (result == CUDA_SUCCESS) *device = ordinal;
  return result;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  call c(__func__, DRIVER);
  CUresult result = check_device(c, device);
  if (result == CUDA_SUCCESS) snprintf(name, static_cast<size_t>(size), "Emulated GPU");
  return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  call c(__func__, DRIVER);
  CUresult result = check_device(c, device);
  if (result == CUDA_SUCCESS) *bytes = MEMORY;
  return result;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  call c(__func__, DRIVER);
  if (CUresult result = check_device(c, device)) return result;
  switch (static_cast<int>(attribute)) {
  case 1: *value = EMU_MOST_THREADS; break; /* threads of a block */
  case 8: *value = 48 * 1024; break;        /* shared memory of a block, unless more is asked for */
  case 10: *value = EMU_WARP; break;        /* threads of a warp */
  case 16: *value = setting("SUMAC_EMU_SMS", 2); break;
  case 38: *value = 50 << 20; break; /* L2 cache */
  case 39: *value = 2048; break;     /* threads of a multiprocessor */
  case 41: *value = 1; break;        /* one address space */
  case 75: *value = arch() / 10; break;
  case 76: *value = arch() % 10; break;
  case 81:
    *value = static_cast<int>(most_shared() + block_costs());
    break;                                                  /* shared memory of a multiprocessor */
  case 97: *value = static_cast<int>(most_shared()); break; /* of a block at most */
  case 106: *value = 32; break;                             /* blocks of a multiprocessor */
  default: emu_fatal("device attribute %d is not known here", attribute);
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  call c(__func__, DRIVER);
  CUresult result = check_device(c, device);
  if (result == CUDA_SUCCESS) *context = &contexts[device];
  return result;
}

static bool is_context(CUcontext context) {
  for (int i = 0; i < device_count(); i++)
    if (context == &contexts[i]) return true;
  return false;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  call c(__func__, DRIVER);
  if (c.result == CUDA_SUCCESS) *context = current.empty() ? nullptr : current.back();
  return c.result;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  call c(__func__, DRIVER);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (context != nullptr && !is_context(context)) return INVALID_CONTEXT;
  if (!current.empty()) current.pop_back();
  if (context != nullptr) current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  call c(__func__, DRIVER);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_context(context)) return INVALID_CONTEXT;
  current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (context != nullptr) *context = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  auto any = [](const CUstream_st &) { return true; };
  if (!any_capture(any)) return CUDA_SUCCESS;
  invalidate(any);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* ---- kernels */

/* The kernels are part of this library: whatever image the caller has is taken for theirs. */
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *, void **, unsigned,
                           CUlibraryOption *, void **, unsigned) {
  call c(__func__, DRIVER);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = new CUlib_st;
  live<CUlib_st>.insert(*library);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  call c(__func__, DRIVER);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (!valid(library)) return INVALID_HANDLE;
  const emu_kernel *k = emu_kernel::first;
  while (k != nullptr && strcmp(k->name, name) != 0) k = k->next;
  if (k == nullptr) return CUDA_ERROR_NOT_FOUND;
  *kernel = &kernels[name];
  if (live<CUkern_st>.insert(*kernel).second) {
    (*kernel)->kernel = k;
    for (size_t &shared : (*kernel)->shared) shared = 48 * 1024;
  }
  return CUDA_SUCCESS;
}

static CUresult check_kernel(const call &c, CUkernel kernel, CUdevice device) {
  if (CUresult result = check_device(c, device)) return result;
  return valid(kernel) ? CUDA_SUCCESS : INVALID_HANDLE;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  call c(__func__, DRIVER);
  if (CUresult result = check_kernel(c, kernel, device)) return result;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    emu_fatal("kernel attribute %d cannot be set here", attribute);
  if (value < 0 || static_cast<size_t>(value) > most_shared()) return CUDA_ERROR_INVALID_VALUE;
  kernel->shared[device] = static_cast<size_t>(value);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  call c(__func__, DRIVER);
  if (CUresult result = check_kernel(c, kernel, device)) return result;
  switch (static_cast<int>(attribute)) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = static_cast<int>(kernel->kernel->most_threads);
    break;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
  case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = arch(); break;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = static_cast<int>(kernel->shared[device]);
    break;
  default: emu_fatal("kernel attribute %d is not known here", attribute);
  }
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  CUkernel kernel = reinterpret_cast<CUkernel>(function);
  if (!valid(kernel)) return INVALID_HANDLE;
  if (threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  size_t by_shared = (most_shared() + block_costs()) / std::max<size_t>(shared + block_costs(), 1);
  *blocks = shared <= kernel->shared[ordinal(current.back())]
                ? std::min({32, 2048 / threads, static_cast<int>(by_shared)})
                : 0;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  CUkernel kernel = reinterpret_cast<CUkernel>(function);
  CUstream stream = stream_of(config->hStream);
  if (!valid(kernel) || stream == nullptr) return INVALID_HANDLE;
  emu_launch launch = {kernel->kernel,         nullptr, config->gridDimX, config->blockDimX,
                       config->sharedMemBytes, false};
  if (extra != nullptr || config->gridDimY != 1 || config->gridDimZ != 1 || config->blockDimY != 1 ||
      config->blockDimZ != 1)
    emu_fatal("a launch of %s in more than one dimension or with packed parameters is not known here",
              launch.kernel->name);
  int device = ordinal(stream->context != nullptr ? stream->context : current.back());
  if (parameters == nullptr || launch.blocks == 0 || launch.blocks > INT32_MAX || launch.threads == 0 ||
      launch.threads > launch.kernel->most_threads || launch.shared > kernel->shared[device])
    return CUDA_ERROR_INVALID_VALUE;
  if (launch.threads % EMU_WARP != 0)
    emu_fatal("%s is launched with %u threads, which is no multiple of 32", launch.kernel->name,
              launch.threads);
  for (unsigned i = 0; i < config->numAttrs; i++) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      emu_fatal("launch attribute %d is not known here", config->attrs[i].id);
    launch.overlaps = config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
  }
  const char *args = static_cast<const char *>(parameters[0]);
  auto kept = std::make_shared<std::vector<char>>(args, args + launch.kernel->args_size);
  launch.args = kept->data();
  return submit(config->hStream, [launch, kept] { run(launch); });
}

/* ---- memory */

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  char *data = nullptr;
  CUresult result = allocate(&data, bytes, false);
  if (result == CUDA_SUCCESS) *address = device_pointer(data);
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS || address == 0) return c.result;
  return deallocate(reinterpret_cast<char *>(address), false);
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  char *data = nullptr;
  CUresult result = bytes == 0 ? CUDA_SUCCESS : allocate(&data, bytes, true);
  if (result == CUDA_SUCCESS) *address = data;
  return result;
}

CUresult cuMemFreeHost(void *address) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS || address == nullptr) return c.result;
  return deallocate(static_cast<char *>(address), true);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (!known(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] { memset(reinterpret_cast<void *>(to), value, bytes); });
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  return known(to, bytes) ? copy(to, device_pointer(from), bytes, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  return known(from, bytes) ? copy(device_pointer(to), from, bytes, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  return known(to, bytes) && known(from, bytes) ? copy(to, from, bytes, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  return known(to, bytes) ? copy(to, device_pointer(from), bytes, nullptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  return known(from, bytes) ? copy(device_pointer(to), from, bytes, nullptr) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- streams, capture, events */

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = new CUstream_st();
  (*stream)->context = current.back();
  (*stream)->flags = flags;
  (*stream)->id = ++last_id;
  live<CUstream_st>.insert(*stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (!valid(stream)) return INVALID_HANDLE;
  if (stream->graph != nullptr) emu_fatal("a stream is destroyed while it captures");
  live<CUstream_st>.erase(stream);
  delete stream;
  return CUDA_SUCCESS;
}

/* What most calls about one stream begin with. */
static CUresult check_stream(const call &c, CUstream handle, CUstream *stream) {
  *stream = stream_of(handle);
  return c.result != CUDA_SUCCESS ? c.result : *stream == nullptr ? INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  call c(__func__, CONTEXT);
  CUstream stream;
  if (CUresult result = check_stream(c, handle, &stream)) return result;
  if (CUresult result = implicit(stream)) return result;
  if (stream->graph == nullptr) return unsafe();
  stream->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
  call c(__func__, CONTEXT);
  CUstream stream;
  if (CUresult result = check_stream(c, handle, &stream)) return result;
  if (CUresult result = implicit(stream)) return result;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, uint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *count) {
  call c(__func__, CONTEXT);
  CUstream stream;
  if (CUresult result = check_stream(c, handle, &stream)) return result;
  if (stream == &legacy_stream && any_capture(blocking)) return CAPTURE_IMPLICIT;
  if (dependencies != nullptr || count != nullptr) emu_fatal("graph nodes are not known here");
  *status = stream->graph == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->invalidated    ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != nullptr) *id = stream->capture;
  if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE && graph != nullptr) *graph = stream->graph;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  call c(__func__, CONTEXT);
  return c.result != CUDA_SUCCESS
             ? c.result
             : cuStreamGetCaptureInfo_v2(handle, status, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  call c(__func__, DRIVER);
  if (c.result != CUDA_SUCCESS) return c.result;
  std::swap(thread_mode, *mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  call c(__func__, CONTEXT);
  CUstream stream;
  if (CUresult result = check_stream(c, handle, &stream)) return result;
  if (stream == &legacy_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->graph != nullptr) return ILLEGAL_STATE;
  stream->graph = new CUgraph_st;
  stream->mode = mode;
  stream->capturer = std::this_thread::get_id();
  stream->invalidated = false;
  stream->capture = ++last_id;
  live<CUgraph_st>.insert(stream->graph);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  call c(__func__, CONTEXT);
  CUstream stream;
  if (CUresult result = check_stream(c, handle, &stream)) return result;
  if (stream->graph == nullptr) return ILLEGAL_STATE;
  bool stranger =
      stream->mode != CU_STREAM_CAPTURE_MODE_RELAXED && stream->capturer != std::this_thread::get_id();
  CUresult result = stranger              ? CAPTURE_WRONG_THREAD
                    : stream->invalidated ? CAPTURE_INVALIDATED
                                          : CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) destroy_graph(stream->graph);
  *graph = result == CUDA_SUCCESS ? stream->graph : nullptr;
  stream->graph = nullptr;
  stream->invalidated = false;
  return result;
}

CUresult cuUserObjectCreate(CUuserObject *object, void *argument, CUhostFn destroy, unsigned references,
                            unsigned flags) {
  call c(__func__, DRIVER);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (destroy == nullptr || references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  *object = new CUuserObject_st{argument, destroy, references};
  live<CUuserObject_st>.insert(*object);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned references) {
  call c(__func__, DRIVER);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (!valid(object) || references == 0 || references > object->references) return CUDA_ERROR_INVALID_VALUE;
  release(object, references);
  return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned references, unsigned flags) {
  call c(__func__, DRIVER);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (!valid(graph) || !valid(object) || references == 0) return CUDA_ERROR_INVALID_VALUE;
  graph->objects[object] += references;
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) object->references += references;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  if (!valid(graph)) return CUDA_ERROR_INVALID_VALUE;
  *exec = new CUgraphExec_st{*graph};
  for (auto &[object, references] : graph->objects) object->references += references;
  live<CUgraphExec_st>.insert(*exec);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  call c(__func__, CONTEXT);
  CUstream stream;
  if (CUresult result = check_stream(c, handle, &stream)) return result;
  if (!valid(exec)) return CUDA_ERROR_INVALID_VALUE;
  if (stream->graph != nullptr) emu_fatal("the launch of a graph into a capture is not known here");
  return submit(handle, [exec] {
    for (const work &step : exec->steps) step();
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  call c(__func__, DRIVER);
  return c.result != CUDA_SUCCESS ? c.result : destroy_graph(graph);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  call c(__func__, DRIVER);
  return c.result != CUDA_SUCCESS ? c.result : destroy_graph(exec);
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  call c(__func__, CONTEXT);
  if (c.result != CUDA_SUCCESS) return c.result;
  *event = new CUevent_st();
  (*event)->flags = flags;
  live<CUevent_st>.insert(*event);
  return CUDA_SUCCESS;
}

static CUresult check_event(const call &c, CUevent event) {
  return c.result != CUDA_SUCCESS ? c.result : valid(event) ? CUDA_SUCCESS : INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  call c(__func__, CONTEXT);
  CUstream stream;
  if (CUresult result = check_event(c, event)) return result;
  if (CUresult result = check_stream(c, handle, &stream)) return result;
  event->captured = stream->graph != nullptr ? stream : nullptr;
  if (event->captured != nullptr) return submit(handle, [] {});
  return submit(handle, [event] {
    event->recorded = true;
    event->time = std::chrono::steady_clock::now();
  });
}

/* Streams do at once what they are told, so there is nothing to wait for. */
CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  call c(__func__, CONTEXT);
  CUstream stream;
  if (CUresult result = check_event(c, event)) return result;
  if (CUresult result = check_stream(c, handle, &stream)) return result;
  if (stream->graph != nullptr || event->captured != nullptr || flags != 0)
    emu_fatal("waiting for events is not known in captures");
  return implicit(stream);
}

/* Whatever was recorded is over. */
static CUresult ask_event(const call &c, CUevent event) {
  if (CUresult result = check_event(c, event)) return result;
  CUstream stream = event->captured;
  if (stream == nullptr) return unsafe();
  if (stream->invalidated) return CUDA_ERROR_INVALID_VALUE;
  stream->invalidated = true;
  return CAPTURED_EVENT;
}
CUresult cuEventSynchronize(CUevent event) {
  call c(__func__, CONTEXT);
  return ask_event(c, event);
}
CUresult cuEventQuery(CUevent event) {
  call c(__func__, CONTEXT);
  return ask_event(c, event);
}

CUresult cuEventDestroy_v2(CUevent event) {
  call c(__func__, CONTEXT);
  if (CUresult result = check_event(c, event)) return result;
  live<CUevent_st>.erase(event);
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
  call c(__func__, CONTEXT);
  if (CUresult result = check_event(c, start)) return result;
  if (CUresult result = check_event(c, end)) return result;
  if (!start->recorded || !end->recorded || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0)
    return INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return CUDA_SUCCESS;
}
