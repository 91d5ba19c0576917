/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions on CUDA devices: one launch each, of the kernel that its plan asks for. What a launch needs
 * besides its input, a workspace and a place for an answer to the host, is kept and used again; none of it is
 * allocated once a stream has been used.
 */
#include "cuda/backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver.h"
#include "cuda/launch.h"

/* ---- workspaces */

/* A stream's launches follow each other, so they share one workspace. A launch that is captured takes one of
 * its own, which its graph holds: graphs captured on one stream may run at the same time. Nobody tells when a
 * stream has ended, so only the first ones have theirs for good; launches on later ones take turns, each
 * behind an event that the one before has left. */
struct workspace {
  struct workspace *next;
  struct sumac_cuda_pool *pool;
  unsigned long long stream; /* its id, which no later stream gets */
  CUevent idle;              /* of those that take turns: since the last launch */
  struct sumac_work *work;   /* in device memory */
};

/* Answers to the host: pinned memory that kernels write to. */
struct reply {
  struct reply *next;
  union {
    struct {
      uint64_t bits;
      uint32_t range;
    };
    uint64_t word[SUMAC_WORDS];
  };
};

enum { WORKSPACES_AT_ONCE = 32, REPLIES_AT_ONCE = 16, STREAMS = 128, TURNS = 32 };

struct sumac_cuda_pool {
  pthread_mutex_t lock;
  struct workspace *_Atomic streams;  /* one for each of the first streams: entries are only ever added */
  struct workspace *_Atomic returned; /* by graphs that are gone */
  struct workspace *spare;
  struct workspace *turn, **last_turn; /* those waiting for their turn, the longest idle one first */
  int streams_seen, turns;
  struct reply *replies;
  uint32_t *range; /* pinned: an asynchronous result did not fit */
  CUstream stream; /* for the pool's own work */
};

static struct sumac_cuda_pool pools[SUMAC_CUDA_DEVICES];
static pthread_once_t pools_once = PTHREAD_ONCE_INIT;

static void make_pools(void) {
  for (int i = 0; i < SUMAC_CUDA_DEVICES; i++) {
    pthread_mutex_init(&pools[i].lock, NULL);
    pools[i].last_turn = &pools[i].turn;
  }
}

static struct sumac_cuda_pool *pool_of(const struct sumac_cuda_device *d) {
  pthread_once(&pools_once, make_pools);
  return &pools[d->ordinal];
}

/* A capture forbids a thread whatever might wait for captured work; nothing between these two does. */
static CUstreamCaptureMode relax(const struct sumac_driver *cu) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  cu->cuThreadExchangeStreamCaptureMode(&mode);
  return mode;
}

static void restore(const struct sumac_driver *cu, CUstreamCaptureMode mode) {
  cu->cuThreadExchangeStreamCaptureMode(&mode);
}

static CUresult synchronise(const struct sumac_driver *cu, CUstream stream) {
  CUstreamCaptureMode mode = relax(cu);
  CUresult result = cu->cuStreamSynchronize(stream);
  restore(cu, mode);
  return result;
}

/* Zeroed device memory, or pinned memory. Under the lock. */
static sumac_status get_memory(struct sumac_cuda_device *d, size_t size, CUdeviceptr *device, void **pinned) {
  const struct sumac_driver *cu = d->driver;
  struct sumac_cuda_pool *pool = pool_of(d);
  CUstreamCaptureMode mode = relax(cu);
  CUresult result = CUDA_SUCCESS;
  if (!pool->stream) result = cu->cuStreamCreate(&pool->stream, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS && pinned) {
    result = cu->cuMemHostAlloc(pinned, size, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_SUCCESS) memset(*pinned, 0, size);
  } else if (result == CUDA_SUCCESS) {
    *device = 0;
    result = cu->cuMemAlloc_v2(device, size);
    if (result == CUDA_SUCCESS) result = cu->cuMemsetD8Async(*device, 0, size, pool->stream);
    if (result == CUDA_SUCCESS) result = cu->cuStreamSynchronize(pool->stream);
    if (result != CUDA_SUCCESS && *device) cu->cuMemFree_v2(*device);
  }
  restore(cu, mode);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return sumac_fail(SUMAC_ERR_MEMORY, "out of memory for workspaces on CUDA device %d", d->ordinal);
  return result == CUDA_SUCCESS ? SUMAC_OK : sumac_driver_fail("workspaces cannot be allocated", result);
}

/* Under the lock. */
static sumac_status more_workspaces(struct sumac_cuda_device *d, struct sumac_cuda_pool *pool) {
  CUdeviceptr memory = 0;
  struct workspace *made = malloc(WORKSPACES_AT_ONCE * sizeof *made);
  if (!made) return sumac_fail(SUMAC_ERR_MEMORY, "out of memory for workspaces");
  sumac_status status = get_memory(d, WORKSPACES_AT_ONCE * sizeof(struct sumac_work), &memory, NULL);
  if (status) {
    free(made);
    return status;
  }
  for (int i = 0; i < WORKSPACES_AT_ONCE; i++) {
    made[i] = (struct workspace){pool->spare, pool, 0, NULL, (struct sumac_work *)(uintptr_t)memory + i};
    pool->spare = &made[i];
  }
  return SUMAC_OK;
}

/* Under the lock. */
static sumac_status take_workspace(struct sumac_cuda_device *d, struct sumac_cuda_pool *pool,
                                   struct workspace **taken) {
  if (!pool->spare) pool->spare = atomic_exchange(&pool->returned, NULL);
  sumac_status status = pool->spare ? SUMAC_OK : more_workspaces(d, pool);
  if (status) return status;
  *taken = pool->spare;
  pool->spare = pool->spare->next;
  return SUMAC_OK;
}

/* A graph that held a workspace is gone. This may be a thread of the driver's, where no call of the driver is
 * allowed and no lock may be waited for. */
static void give_back(void *argument) {
  struct workspace *w = argument;
  w->next = atomic_load(&w->pool->returned);
  while (!atomic_compare_exchange_weak(&w->pool->returned, &w->next, w)) continue;
}

static sumac_status workspace_of_graph(struct sumac_cuda_device *d, CUgraph graph, struct workspace **found) {
  struct sumac_cuda_pool *pool = pool_of(d);
  struct workspace *w = NULL;
  pthread_mutex_lock(&pool->lock);
  sumac_status status = take_workspace(d, pool, &w);
  pthread_mutex_unlock(&pool->lock);
  if (status) return status;
  CUuserObject object;
  CUresult result =
      d->driver->cuUserObjectCreate(&object, w, give_back, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) {
    give_back(w);
  } else {
    result = d->driver->cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (result != CUDA_SUCCESS) d->driver->cuUserObjectRelease(object, 1);
  }
  if (result != CUDA_SUCCESS) return sumac_driver_fail("a graph cannot hold its workspace", result);
  *found = w;
  return SUMAC_OK;
}

/* Behind those that wait. Under the lock. */
static void wait_for_turn(struct sumac_cuda_pool *pool, struct workspace *w) {
  w->next = NULL;
  *pool->last_turn = w;
  pool->last_turn = &w->next;
}

/* The workspace whose turn it is, or one more. Under the lock. */
static sumac_status take_turn(struct sumac_cuda_device *d, struct sumac_cuda_pool *pool, CUstream stream,
                              struct workspace **taken) {
  CUresult result;
  struct workspace *w = pool->turn;
  if (w && pool->turns >= TURNS) {
    result = d->driver->cuStreamWaitEvent(stream, w->idle, 0);
    if (result != CUDA_SUCCESS) return sumac_driver_fail("the stream cannot be used", result);
    pool->turn = w->next;
    if (!pool->turn) pool->last_turn = &pool->turn;
  } else {
    sumac_status status = take_workspace(d, pool, &w);
    if (status) return status;
    result = d->driver->cuEventCreate(&w->idle, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
      give_back(w);
      return sumac_driver_fail("workspaces cannot be allocated", result);
    }
    pool->turns++;
  }
  *taken = w;
  return SUMAC_OK;
}

static sumac_status workspace_of_stream(struct sumac_cuda_device *d, CUstream stream,
                                        struct workspace **found) {
  struct sumac_cuda_pool *pool = pool_of(d);
  unsigned long long id;
  CUresult result = d->driver->cuStreamGetId(stream, &id);
  if (result != CUDA_SUCCESS) return sumac_driver_fail("the stream cannot be used", result);
  struct workspace *w = atomic_load_explicit(&pool->streams, memory_order_acquire);
  while (w && w->stream != id) w = w->next;
  sumac_status status = SUMAC_OK;
  if (!w) {
    pthread_mutex_lock(&pool->lock);
    for (w = atomic_load(&pool->streams); w && w->stream != id;) w = w->next;
    if (!w && pool->streams_seen >= STREAMS) {
      status = take_turn(d, pool, stream, &w);
    } else if (!w && !(status = take_workspace(d, pool, &w))) {
      w->stream = id;
      w->next = atomic_load(&pool->streams);
      atomic_store_explicit(&pool->streams, w, memory_order_release);
      pool->streams_seen++;
    }
    pthread_mutex_unlock(&pool->lock);
  }
  *found = w;
  return status;
}

/* The workspace of a launch on this stream, whose result goes to the host or stays; release_workspace() is to
 * follow. The question about captures comes first, as it harms none: any other call about the stream NULL
 * ends those that it would wait for. */
static sumac_status find_workspace(struct sumac_cuda_device *d, CUstream stream, bool to_host,
                                   struct workspace **found) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  uint64_t id;
  CUgraph graph = NULL;
  CUresult result = d->driver->cuStreamGetCaptureInfo_v2(stream, &capture, &id, &graph, NULL, NULL);
  if (result != CUDA_SUCCESS) return sumac_driver_fail("the stream cannot be used", result);
  if (capture == CU_STREAM_CAPTURE_STATUS_NONE) return workspace_of_stream(d, stream, found);
  if (capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    return sumac_fail(SUMAC_ERR_DEVICE, "the stream is being captured, and an earlier error has ended that");
  if (to_host)
    return sumac_fail(
        SUMAC_ERR_ARGUMENT,
        "a result in host memory needs a synchronisation, which a stream that is being captured "
        "does not allow; give a tensor in device memory");
  return workspace_of_graph(d, graph, found);
}

/* All that uses it has been launched. */
static void release_workspace(struct sumac_cuda_device *d, CUstream stream, struct workspace *w) {
  if (!w || !w->idle) return;
  if (d->driver->cuEventRecord(w->idle, stream) != CUDA_SUCCESS) synchronise(d->driver, stream);
  pthread_mutex_lock(&w->pool->lock);
  wait_for_turn(w->pool, w);
  pthread_mutex_unlock(&w->pool->lock);
}

static sumac_status take_reply(struct sumac_cuda_device *d, struct reply **taken) {
  struct sumac_cuda_pool *pool = pool_of(d);
  sumac_status status = SUMAC_OK;
  pthread_mutex_lock(&pool->lock);
  if (!pool->replies) {
    void *memory = NULL;
    status = get_memory(d, REPLIES_AT_ONCE * sizeof(struct reply), NULL, &memory);
    for (int i = 0; !status && memory && i < REPLIES_AT_ONCE; i++) {
      struct reply *r = (struct reply *)memory + i;
      r->next = pool->replies;
      pool->replies = r;
    }
  }
  if (!status && pool->replies) {
    *taken = pool->replies;
    pool->replies = (*taken)->next;
    memset((*taken)->word, 0, sizeof(*taken)->word);
  }
  pthread_mutex_unlock(&pool->lock);
  return status;
}

static void return_reply(struct sumac_cuda_device *d, struct reply *r) {
  struct sumac_cuda_pool *pool = pool_of(d);
  if (!r) return;
  pthread_mutex_lock(&pool->lock);
  r->next = pool->replies;
  pool->replies = r;
  pthread_mutex_unlock(&pool->lock);
}

static sumac_status range_flag(struct sumac_cuda_device *d, uint32_t **flag) {
  struct sumac_cuda_pool *pool = pool_of(d);
  sumac_status status = SUMAC_OK;
  pthread_mutex_lock(&pool->lock);
  void *memory = pool->range;
  if (!memory) status = get_memory(d, sizeof *pool->range, NULL, &memory);
  if (!status) *flag = pool->range = memory;
  pthread_mutex_unlock(&pool->lock);
  return status;
}

/* ---- kernels */

/* Exact ones, in f64, in f32. */
enum { SUMS = SUMAC_ACC_F32 + 1, ACCUMULATING = SUMAC_M_MOMENTS + 1 };

enum layout { DENSE, STRIDED, MANY, LAYOUTS };

#define AT(A, MAP, T) LAYOUTS *((SUMAC_ACC_##A * ACCUMULATING + SUMAC_M_##MAP) * SUMAC_TYPES + SUMAC_T_##T)
/* clang-format off */
#define NAME(A, MAP, TEXT, T) [AT(A, MAP, T)] = TEXT #T, [AT(A, MAP, T) + STRIDED] = TEXT #T "_strided",
#define EXACT(MAP, TEXT, T) NAME(EXACT, MAP, TEXT, T) [AT(EXACT, MAP, T) + MANY] = TEXT #T "_many",
/* clang-format on */
static const char *const names[LAYOUTS * SUMS * ACCUMULATING * SUMAC_TYPES] = {
#define SUMAC_DTYPE(ID, ...) EXACT(SUM, "sumac_exact_sum_", ID)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) EXACT(ABS, "sumac_exact_abs_", ID)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) EXACT(SQUARE, "sumac_exact_square_", ID)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) EXACT(DOT, "sumac_exact_dot_", ID)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_DTYPE(ID, ...) EXACT(MOMENTS, "sumac_exact_moments_", ID)
#include "model/dtypes.def"
#undef SUMAC_DTYPE
#define SUMAC_PLAIN(A, T) NAME(A, SUM, "sumac_" #A "_sum_", T)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
#define SUMAC_PLAIN(A, T) NAME(A, ABS, "sumac_" #A "_abs_", T)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
#define SUMAC_PLAIN(A, T) NAME(A, SQUARE, "sumac_" #A "_square_", T)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
#define SUMAC_PLAIN(A, T) NAME(A, DOT, "sumac_" #A "_dot_", T)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
#define SUMAC_PLAIN(A, T) NAME(A, MOMENTS, "sumac_" #A "_moments_", T)
#include "cuda/plain.def"
#undef SUMAC_PLAIN
};

bool sumac_cuda_is_plain(enum sumac_acc acc, enum sumac_type type) {
  return (acc == SUMAC_ACC_F64 || acc == SUMAC_ACC_F32) && sumac_types[type].cls == SUMAC_C_FLOAT;
}

static bool is_plain(const struct sumac_plan *plan) { return sumac_cuda_is_plain(plan->acc, plan->type); }

static int kernel_index(enum sumac_acc acc, enum sumac_map map, enum sumac_type type, enum layout layout) {
  int sum = sumac_cuda_is_plain(acc, type) ? (int)acc : SUMAC_ACC_EXACT;
  return LAYOUTS * ((sum * ACCUMULATING + (int)map) * SUMAC_TYPES + (int)type) + (int)layout;
}

const char *sumac_cuda_kernel_name(enum sumac_acc acc, enum sumac_map map, enum sumac_type type,
                                   bool strided) {
  return names[kernel_index(acc, map, type, strided ? STRIDED : DENSE)];
}

/* ---- launches */

_Thread_local int sumac_cuda_threads, sumac_cuda_blocks; /* for tuning: 0: as below */

static int most_threads(const struct sumac_plan *plan) {
  return is_plain(plan) ? sumac_plain_threads(plan->map) : sumac_most_threads(plan->type, plan->map);
}
static int least_blocks(const struct sumac_plan *plan) {
  return is_plain(plan) ? SUMAC_PLAIN_BLOCKS : sumac_least_blocks(plan->type, plan->map);
}
static int loads_of(const struct sumac_plan *plan) {
  return is_plain(plan) ? sumac_plain_loads(plan->map, plan->acc == SUMAC_ACC_F64)
                        : sumac_loads(plan->type, plan->map);
}
static int block_bytes(const struct sumac_plan *plan, int threads) {
  return is_plain(plan) ? sumac_plain_bytes(threads) : sumac_block_bytes(plan->type, plan->map, threads);
}

/* Threads a block, for `vectors` of 16 bytes to be read. */
static int choose_threads(const struct sumac_cuda_device *d, const struct sumac_plan *plan, uint64_t vectors,
                          int loads) {
  int most = most_threads(plan), threads = vectors <= 1024 ? 256 : vectors <= 1 << 16 ? 128 : most;
  if (vectors < (uint64_t)threads * (uint64_t)loads)
    threads = (int)((vectors + (uint64_t)loads - 1) / (uint64_t)loads + 31) / 32 * 32;
  if (threads < 32) threads = 32;
  if (threads > most) threads = most;
  while (threads > 32 && block_bytes(plan, threads) > d->shared_block) threads -= 32;
  return sumac_cuda_threads ? sumac_cuda_threads : threads;
}

/* Blocks: as many as there are tiles, or as the device holds. */
static int choose_blocks(const struct sumac_cuda_device *d, const struct sumac_plan *plan, uint64_t tiles,
                         int threads) {
  int shared = block_bytes(plan, threads), resident = least_blocks(plan) * most_threads(plan) / threads;
  if (resident > d->shared / (shared + 1024)) resident = d->shared / (shared + 1024);
  if (resident < 1) resident = 1;
  uint64_t held = (uint64_t)d->info.multiprocessors * (uint64_t)resident;
  if (held > SUMAC_BLOCKS) held = SUMAC_BLOCKS;
  int blocks = (int)(tiles < held ? tiles : held);
  return sumac_cuda_blocks ? sumac_cuda_blocks : blocks < 1 ? 1 : blocks;
}

static bool is_dense(const struct sumac_plan *plan) {
  const struct sumac_dims *d = &plan->inner;
  int64_t size = sumac_types[plan->type].size;
  uintptr_t x = (uintptr_t)plan->data[0], y = (uintptr_t)plan->data[1];
  if (d->ndim > 1 || (x % (uintptr_t)size) != 0) return false;
  if (d->ndim == 1 && (d->stride[0][0] != size || d->stride[1][0] != size)) return false;
  return plan->map != SUMAC_M_DOT || x % 16 == y % 16;
}

static bool is_aligned(const struct sumac_plan *plan) {
  int64_t size = sumac_types[plan->type].size;
  uintptr_t all = (uintptr_t)plan->data[0] | (uintptr_t)plan->data[1];
  for (int i = 0; i < plan->inner.ndim; i++)
    all |= (uintptr_t)plan->inner.stride[0][i] | (uintptr_t)plan->inner.stride[1][i];
  return all % (uintptr_t)size == 0;
}

/* Vectors of 16 bytes that n elements from x on fill or touch. */
static uint64_t vectors_of(const struct sumac_plan *plan, uint64_t n) {
  return (n + 15) / (uint64_t)(16 / sumac_types[plan->type].size);
}

/* `a` is the kernel's argument, of which it takes as much as it knows. */
static sumac_status start(struct sumac_cuda_device *d, const struct sumac_plan *plan, enum layout layout,
                          int threads, int blocks, void *a) {
  int index = kernel_index(plan->acc, plan->map, plan->type, layout);
  CUkernel kernel = NULL;
  sumac_status status = sumac_cuda_kernel(d, index, names[index], &kernel);
  if (status) return status;
  CUlaunchAttribute overlap = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  overlap.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {.gridDimX = (unsigned)blocks,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = (unsigned)threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .sharedMemBytes = (unsigned)block_bytes(plan, threads),
                           .hStream = plan->stream,
                           .attrs = &overlap,
                           .numAttrs = 1};
  void *arguments[] = {a};
  CUresult result = d->driver->cuLaunchKernelEx(&config, (CUfunction)(void *)kernel, arguments, NULL);
  return result == CUDA_SUCCESS ? SUMAC_OK : sumac_driver_fail("a reduction cannot be launched", result);
}

static sumac_status launch(struct sumac_cuda_device *d, const struct sumac_plan *plan,
                           struct sumac_launch_strided *a) {
  bool strided = !is_dense(plan);
  int loads = strided ? 1 : loads_of(plan);
  uint64_t vectors = vectors_of(plan, a->base.n);
  int threads = choose_threads(d, plan, vectors, loads);
  uint64_t head = (uintptr_t)a->base.x % 16, bytes = head + a->base.n * sumac_types[plan->type].size,
           vectors_a_tile = (uint64_t)threads * (uint64_t)loads, tile = 16 * vectors_a_tile;
  /* Small inputs take one block, so that nothing needs to be merged. */
  int blocks =
      choose_blocks(d, plan, vectors <= 1024 ? 1 : (vectors + vectors_a_tile - 1) / vectors_a_tile, threads);
  a->base.tiles = bytes / tile;
  bool edge = bytes % tile != 0;
  if (head && edge && a->base.tiles && blocks == 1)
    blocks = 2; /* block 0 begins with the head, and one with the edge */
  a->base.edge_block = edge ? (uint32_t)(a->base.tiles % (uint64_t)blocks) : ~0u;
  if (head && a->base.tiles && a->base.edge_block == 0) a->base.edge_block = 1;
  if (strided) {
    a->ndim = plan->inner.ndim;
    a->aligned = is_aligned(plan);
    memcpy(a->shape, plan->inner.shape, sizeof a->shape);
    memcpy(a->stride, plan->inner.stride, sizeof a->stride);
  }
  return start(d, plan, strided ? STRIDED : DENSE, threads, blocks, a);
}

/* All tensors of a batch. Each counts as half a tile at least, since it takes one. */
static sumac_status launch_many(struct sumac_cuda_device *d, const struct sumac_cuda_batch *batch,
                                struct sumac_launch_many *a) {
  const struct sumac_plan *plan = &batch->plan;
  uint64_t vectors = 0, size = sumac_types[plan->type].size;
  int loads = loads_of(plan);
  for (int i = 0; i < batch->count; i++) {
    uint64_t own = vectors_of(plan, batch->tensor[i].n);
    vectors += own < 512 ? 512 : own;
  }
  int threads = choose_threads(d, plan, vectors, loads);
  uint64_t tile = 16 * (uint64_t)threads * (uint64_t)loads;
  a->base.n = a->base.tiles = 0;
  a->base.repeat = 1;
  a->count = (uint64_t)batch->count;
  for (int i = 0; i < batch->count; i++) {
    const char *x = batch->tensor[i].data[0];
    uint64_t n = batch->tensor[i].n;
    a->part[i] = (struct sumac_part){x, batch->tensor[i].data[1], n, a->base.tiles};
    a->base.n += n;
    a->base.tiles += ((uintptr_t)x % 16 + n * size + tile - 1) / tile;
  }
  return start(d, plan, MANY, threads, choose_blocks(d, plan, a->base.tiles, threads), a);
}

static void fill(struct sumac_launch *a, const struct sumac_plan *plan) {
  a->x = plan->data[0];
  a->y = plan->data[1];
  a->n = (uint64_t)plan->inner.n;
  a->repeat = (uint64_t)plan->repeat;
}

/* One result, at `out`: device memory, or, with `reply`, the host through it. */
static sumac_status reduce_one(struct sumac_cuda_device *d, const struct sumac_plan *plan, void *out,
                               struct reply *reply, uint32_t *flag) {
  struct sumac_launch_strided a;
  CUstream stream = plan->stream;
  memset(&a.base, 0, sizeof a.base);
  fill(&a.base, plan);
  a.base.finish = plan->finish;
  a.base.out_type = *plan->finish.out;
  a.base.must_fit_i64 = plan->acc == SUMAC_ACC_I64;
  a.base.out = reply ? (void *)&reply->bits : out;
  a.base.range = reply ? &reply->range : flag;
  struct workspace *w = NULL;
  sumac_status status = find_workspace(d, stream, reply != NULL, &w);
  if (!status && w) {
    a.base.work = w->work;
    status = launch(d, plan, &a);
  }
  release_workspace(d, stream, w);
  if (status || !reply) return status;
  CUresult result = synchronise(d->driver, stream);
  if (result != CUDA_SUCCESS) return sumac_driver_fail("a reduction failed on the device", result);
  memcpy(out, &reply->bits, plan->finish.out->size);
  return SUMAC_OK;
}

static sumac_status check_supported(const struct sumac_plan *plan) {
  char list[128] = "";
  if (plan->acc > SUMAC_ACC_I64) {
    for (int a = 0; a <= SUMAC_ACC_I64; a++)
      if (sumac_variant((enum sumac_acc)a, plan->type))
        sumac_list_add(list, sizeof list, sumac_acc_name((sumac_acc)a));
    return sumac_fail(SUMAC_ERR_UNSUPPORTED,
                      "the accumulator %s is not supported on CUDA devices; for %s there are %s there",
                      sumac_acc_name((sumac_acc)plan->acc), sumac_types[plan->type].name, list);
  }
  if (plan->map < SUMAC_M_MIN) return SUMAC_OK;
  for (int i = 0; i < SUMAC_OPS; i++)
    if (sumac_ops[i].map >= SUMAC_M_MIN) sumac_list_add(list, sizeof list, sumac_ops[i].name);
  return sumac_fail(SUMAC_ERR_UNSUPPORTED, "%s are not supported on CUDA devices", list);
}

sumac_status sumac_cuda_reduce(const struct sumac_plan *plan) {
  struct sumac_cuda_device *d = NULL;
  struct reply *reply = NULL;
  uint32_t *flag = NULL;
  bool pushed = false, range = false;
  sumac_status status = check_supported(plan);
  if (status || (status = sumac_cuda_device(plan->device, &d)) || (status = sumac_cuda_enter(d, &pushed)))
    return status;
  status = plan->out_on_device ? range_flag(d, &flag) : take_reply(d, &reply);
  /* Each result is a launch of its own. */
  struct sumac_plan one = *plan;
  const struct sumac_dims *o = &plan->outer;
  for (int64_t k = 0; k < o->n && !status; k++) {
    char *out = plan->out;
    int64_t rest = k;
    one.data[0] = plan->data[0];
    one.data[1] = plan->data[1];
    for (int i = o->ndim - 1; i >= 0; rest /= o->shape[i], i--) {
      int64_t index = rest % o->shape[i];
      one.data[0] += index * o->stride[0][i];
      one.data[1] += index * o->stride[1][i];
      out += index * plan->out_stride[i];
    }
    status = reduce_one(d, &one, out, reply, flag);
  }
  if (reply) {
    range = reply->range != 0;
    return_reply(d, reply);
  }
  sumac_cuda_leave(d, pushed);
  if (!status && range)
    return sumac_fail(SUMAC_ERR_RANGE, "a result does not fit %s%s; it was written saturated",
                      plan->finish.out->name, plan->acc == SUMAC_ACC_I64 ? " or its i64 accumulator" : "");
  return status;
}

/* Adds canonical limbs of one format to those of a wider one. */
static void add_limbs(int64_t *to, struct sumac_format f, const int64_t *from, struct sumac_format own) {
  int shift = (f.bias - own.bias) / 32;
  for (int i = 0; i < own.limbs; i++) {
    if (i + shift < f.limbs)
      to[i + shift] += from[i];
    else if (i + shift == f.limbs) /* sign extension */
      to[f.limbs - 1] += (int64_t)((uint64_t)from[i] << 32);
  }
  sumac_carry(to, f.limbs);
}

/* Adds the words that a launch has left in a reply. */
static void add_reply(const struct sumac_plan *plan, const struct reply *reply,
                      struct sumac_state_sums *into) {
  const struct sumac_type_info *t = &sumac_types[plan->type];
  bool moments = plan->map == SUMAC_M_MOMENTS;
  struct sumac_format own = sumac_is_product(plan->map) ? t->product : t->sum;
  const int64_t *word = (const int64_t *)reply->word, *square = word + own.limbs,
                *count = square + (moments ? t->product.limbs : 0);
  add_limbs(into->sum_limb, into->sum, word, own);
  if (moments) add_limbs(into->square_limb, into->square, square, t->product);
  struct sumac_counts c = {count[0], count[1], count[2], count[3], count[4]};
  sumac_counts_add(&into->counts, &c);
}

/* Launches a batch, whose last plan this is, or the plan alone if there is none, and waits for it. */
static sumac_status accumulate(struct sumac_cuda_batch *batch, const struct sumac_plan *plan,
                               struct sumac_state_sums *into) {
  struct sumac_cuda_device *d = NULL;
  struct reply *reply = NULL;
  struct workspace *w = NULL;
  bool pushed = false;
  union {
    struct sumac_launch base;
    struct sumac_launch_strided one;
    struct sumac_launch_many many;
  } a;
  sumac_status status;
  if ((status = sumac_cuda_device(plan->device, &d)) || (status = sumac_cuda_enter(d, &pushed)))
    return status;
  if (!(status = take_reply(d, &reply)) && !(status = find_workspace(d, plan->stream, true, &w)) && w) {
    memset(&a.base, 0, sizeof a.base);
    a.base.add_words = 1;
    a.base.out = reply->word;
    a.base.work = w->work;
    if (!batch) fill(&a.base, plan);
    status = batch ? launch_many(d, batch, &a.many) : launch(d, plan, &a.one);
    release_workspace(d, plan->stream, w);
    if (!status) {
      CUresult result = synchronise(d->driver, plan->stream);
      if (result == CUDA_SUCCESS)
        add_reply(plan, reply, into);
      else
        status = sumac_driver_fail("a reduction failed on the device", result);
    }
  }
  return_reply(d, reply);
  sumac_cuda_leave(d, pushed);
  return status;
}

sumac_status sumac_cuda_accumulate_rest(struct sumac_cuda_batch *batch, struct sumac_state_sums *into) {
  int count = batch->count;
  batch->count = 0;
  if (count == 0) return SUMAC_OK;
  if (count == 1) return accumulate(NULL, &batch->plan, into);
  batch->count = count;
  sumac_status status = accumulate(batch, &batch->plan, into);
  batch->count = 0;
  return status;
}

sumac_status sumac_cuda_accumulate(struct sumac_cuda_batch *batch, const struct sumac_plan *plan,
                                   struct sumac_state_sums *into) {
  if (plan->inner.n == 0 || plan->repeat == 0) return SUMAC_OK;
  if (!is_dense(plan) || plan->repeat != 1) return accumulate(NULL, plan, into);
  if (batch->count == SUMAC_TENSORS ||
      (batch->count && (batch->plan.type != plan->type || batch->plan.device != plan->device))) {
    sumac_status status = sumac_cuda_accumulate_rest(batch, into);
    if (status) return status;
  }
  batch->plan = *plan;
  batch->tensor[batch->count].data[0] = plan->data[0];
  batch->tensor[batch->count].data[1] = plan->data[1];
  batch->tensor[batch->count++].n = (uint64_t)plan->inner.n;
  return SUMAC_OK;
}

sumac_status sumac_cuda_check(int ordinal) {
  struct sumac_cuda_device *d = NULL;
  bool pushed = false;
  uint32_t *flag = NULL;
  sumac_status status;
  if ((status = sumac_cuda_device(ordinal, &d)) || (status = sumac_cuda_enter(d, &pushed))) return status;
  status = range_flag(d, &flag);
  sumac_cuda_leave(d, pushed);
  if (status) return status;
  bool range = __atomic_exchange_n(flag, 0, __ATOMIC_ACQ_REL) != 0;
  return range ? sumac_fail(SUMAC_ERR_RANGE,
                            "an integer result on CUDA device %d did not fit; it was written saturated",
                            ordinal)
               : SUMAC_OK;
}

sumac_status sumac_cuda_warm(int ordinal) {
  struct sumac_cuda_device *d = NULL;
  struct reply *reply = NULL;
  bool pushed = false;
  uint32_t *flag = NULL;
  struct workspace *w = NULL;
  sumac_status status;
  if ((status = sumac_cuda_device(ordinal, &d)) || (status = sumac_cuda_enter(d, &pushed))) return status;
  status = range_flag(d, &flag);
  if (!status && !(status = take_reply(d, &reply))) return_reply(d, reply);
  if (!status) status = find_workspace(d, NULL, true, &w);
  release_workspace(d, NULL, w);
  for (int i = 0; !status && i < (int)(sizeof names / sizeof *names); i++) {
    CUkernel kernel = NULL;
    if (names[i]) status = sumac_cuda_kernel(d, i, names[i], &kernel);
  }
  sumac_cuda_leave(d, pushed);
  return status;
}

int sumac_cuda_loads(sumac_op op, sumac_dtype dtype) {
  sumac_status status;
  return sumac_loads(sumac_type_of(dtype, "dtype", &status), (enum sumac_map)sumac_ops[op].map);
}

sumac_status sumac_cuda_slow_tiles(int ordinal, CUstream stream, uint64_t *count) {
  struct sumac_cuda_device *d = NULL;
  bool pushed = false;
  struct workspace *w = NULL;
  sumac_status status;
  if ((status = sumac_cuda_device(ordinal, &d)) || (status = sumac_cuda_enter(d, &pushed))) return status;
  status = find_workspace(d, stream, true, &w);
  if (!status && w) {
    CUresult result = synchronise(d->driver, stream);
    if (result == CUDA_SUCCESS)
      result = d->driver->cuMemcpyDtoHAsync_v2(count, (CUdeviceptr)(uintptr_t)&w->work->slow, sizeof *count,
                                               stream);
    if (result == CUDA_SUCCESS) result = synchronise(d->driver, stream);
    if (result != CUDA_SUCCESS) status = sumac_driver_fail("a workspace cannot be read", result);
  }
  release_workspace(d, stream, w);
  sumac_cuda_leave(d, pushed);
  return status;
}
