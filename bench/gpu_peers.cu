/* SPDX-License-Identifier: Apache-2.0
 *
 * What others take on the same device, by the same protocol: CUB of whichever CCCL this is compiled with,
 * cuBLAS if there is one to open, and plain reading, the ceiling of all. PEERS_CUB_ONLY leaves the latter two
 * out.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/tuple.h>

#include <cub/cub.cuh>
#include <cuda/std/functional>
#include <cuda/std/limits>

#include "protocol.h"
#if CCCL_VERSION >= 3001000 /* determinism can be asked for */
#include <cuda/execution>
#include <cuda/memory_resource>
#include <cuda/stream>
#endif

/* In CUB's manner: with temp NULL it only says how many bytes of that it needs. */
typedef cudaError_t entry(void *temp, size_t &temp_bytes, const void *x, const void *y, void *out, int64_t n,
                          cudaStream_t stream);

struct peer {
  const char *how;
  sumac_op op;
  sumac_dtype dtype, out;
  const char *acc;
  double unit; /* of acc */
  entry *run;
};

static const char *call(const struct contest *c, const void *x, const void *y, void *out, int64_t n,
                        void *stream) {
  enum { TEMP = 64 << 20 };
  static void *temp;
  static const void *last;
  static int64_t last_n;
  static size_t bytes;
  const peer *p = static_cast<const peer *>(c->more);
  cudaStream_t s = static_cast<cudaStream_t>(stream);
  cudaError_t error = cudaSuccess;
  if (!temp) error = cudaMalloc(&temp, TEMP);
  if (!error && (last != p || last_n != n)) {
    error = p->run(nullptr, bytes, x, y, out, n, s);
    if (bytes > TEMP) return "it needs more temporary storage";
    last = p;
    last_n = n;
  }
  if (!error) error = p->run(temp, bytes, x, y, out, n, s);
  return error ? cudaGetErrorString(error) : nullptr;
}

/* ---- CUB */

/* CUB's kernels count in the type of n: the narrowest that will do is the fastest. */
template <class T, class BODY> static cudaError_t count_in(int64_t n, BODY body) {
  if (n <= cuda::std::numeric_limits<uint32_t>::max()) return body(static_cast<uint32_t>(n));
  if constexpr (sizeof(T) == 1) return body(n);
  return cudaErrorInvalidValue;
}

template <class T>
static cudaError_t sum(void *temp, size_t &bytes, const void *x, const void *, void *out, int64_t n,
                       cudaStream_t s) {
  return count_in<T>(n, [&](auto count) {
    return cub::DeviceReduce::Sum(temp, bytes, static_cast<const T *>(x), static_cast<T *>(out), count, s);
  });
}

template <class T, class ACC>
static cudaError_t wide_sum(void *temp, size_t &bytes, const void *x, const void *, void *out, int64_t n,
                            cudaStream_t s) {
  return count_in<T>(n, [&](auto count) {
    return cub::DeviceReduce::Reduce(temp, bytes, static_cast<const T *>(x), static_cast<ACC *>(out), count,
                                     cuda::std::plus<ACC>{}, ACC{}, s);
  });
}

template <class ACC> struct convert {
  template <class T> __device__ ACC operator()(T x) const { return static_cast<ACC>(x); }
};

template <class T, class ACC>
static cudaError_t converted_sum(void *temp, size_t &bytes, const void *x, const void *, void *out, int64_t n,
                                 cudaStream_t s) {
  return count_in<T>(n, [&](auto count) {
    return cub::DeviceReduce::TransformReduce(temp, bytes, static_cast<const T *>(x), static_cast<ACC *>(out),
                                              count, cuda::std::plus<ACC>{}, convert<ACC>{}, ACC{}, s);
  });
}

template <class ACC> struct multiply {
  template <class PAIR> __device__ ACC operator()(const PAIR &p) const {
    return static_cast<ACC>(thrust::get<0>(p)) * static_cast<ACC>(thrust::get<1>(p));
  }
};

template <class T, class ACC>
static cudaError_t dot(void *temp, size_t &bytes, const void *x, const void *y, void *out, int64_t n,
                       cudaStream_t s) {
  auto pairs =
      thrust::make_zip_iterator(thrust::make_tuple(static_cast<const T *>(x), static_cast<const T *>(y)));
  return count_in<T>(n, [&](auto count) {
    return cub::DeviceReduce::TransformReduce(temp, bytes, pairs, static_cast<ACC *>(out), count,
                                              cuda::std::plus<ACC>{}, multiply<ACC>{}, ACC{}, s);
  });
}

#if CCCL_VERSION >= 3001000
/* These calls allocate for themselves; they get what all the others get, memory that is there already. */
struct arena {
  void *memory;
  void *allocate(cuda::stream_ref, size_t, size_t = 0) { return memory; }
  void deallocate(cuda::stream_ref, void *, size_t, size_t = 0) noexcept {}
  void *allocate_sync(size_t, size_t = 0) { return memory; }
  void deallocate_sync(void *, size_t, size_t = 0) noexcept {}
  bool operator==(const arena &other) const { return memory == other.memory; }
  bool operator!=(const arena &other) const { return memory != other.memory; }
  friend void get_property(const arena &, cuda::mr::device_accessible) noexcept {}
};

template <class T, class ACC, class DETERMINISM>
static cudaError_t determined_sum(void *temp, size_t &bytes, const void *x, const void *, void *out,
                                  int64_t n, cudaStream_t s) {
  if (!temp) return bytes = 1 << 20, cudaSuccess;
  auto environment =
      cuda::std::execution::env{cuda::std::execution::prop{cuda::get_stream_t{}, cuda::stream_ref{s}},
                                cuda::std::execution::prop{cuda::mr::__get_memory_resource_t{}, arena{temp}},
                                cuda::execution::require(DETERMINISM{})};
  return count_in<T>(n, [&](auto count) {
    return cub::DeviceReduce::Reduce(static_cast<const T *>(x), static_cast<ACC *>(out), count,
                                     cuda::std::plus<ACC>{}, ACC{}, environment);
  });
}
#endif

/* ---- cuBLAS: opened at run time, since it is not everywhere; its names and numbers are those of cublas_v2.h
 */

#ifndef PEERS_CUB_ONLY
typedef int cublas_create(void **handle);
typedef int cublas_set_stream(void *handle, cudaStream_t stream);
typedef int cublas_set_pointer_mode(void *handle, int mode);
typedef int cublas_dot(void *handle, int64_t n, const void *x, cudaDataType x_type, int64_t x_step,
                       const void *y, cudaDataType y_type, int64_t y_step, void *out, cudaDataType out_type,
                       cudaDataType acc);
typedef int cublas_norm(void *handle, int64_t n, const void *x, cudaDataType x_type, int64_t x_step,
                        void *out, cudaDataType out_type, cudaDataType acc);
enum { CUBLAS_RESULTS_ON_DEVICE = 1 };

static struct {
  void *handle;
  cublas_set_stream *set_stream;
  cublas_dot *dot;
  cublas_norm *norm2, *norm1;
} cublas;

static bool open_cublas() {
  static bool tried;
  if (tried) return cublas.handle != nullptr;
  tried = true;
  const char *file = getenv("CUBLAS");
  void *library = dlopen(file && *file ? file : "libcublas.so.13", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "left out: cuBLAS (%s)\n", dlerror());
    return false;
  }
  auto create = reinterpret_cast<cublas_create *>(dlsym(library, "cublasCreate_v2"));
  auto set_mode = reinterpret_cast<cublas_set_pointer_mode *>(dlsym(library, "cublasSetPointerMode_v2"));
  cublas.set_stream = reinterpret_cast<cublas_set_stream *>(dlsym(library, "cublasSetStream_v2"));
  cublas.dot = reinterpret_cast<cublas_dot *>(dlsym(library, "cublasDotEx_64"));
  cublas.norm2 = reinterpret_cast<cublas_norm *>(dlsym(library, "cublasNrm2Ex_64"));
  cublas.norm1 = reinterpret_cast<cublas_norm *>(dlsym(library, "cublasAsumEx_64"));
  bool complete = create && set_mode && cublas.set_stream && cublas.dot && cublas.norm2 && cublas.norm1;
  give_up_if(!complete, "cuBLAS", "it lacks functions");
  give_up_if(create(&cublas.handle) || set_mode(cublas.handle, CUBLAS_RESULTS_ON_DEVICE), "cuBLAS",
             "it cannot be used");
  return true;
}

static cudaError_t from_cublas(int status) {
  if (status) fprintf(stderr, "cuBLAS: status %d\n", status);
  return status ? cudaErrorUnknown : cudaSuccess;
}

template <cudaDataType TYPE, cudaDataType ACC>
static cudaError_t blas_dot(void *temp, size_t &bytes, const void *x, const void *y, void *out, int64_t n,
                            cudaStream_t s) {
  if (!temp) return bytes = 0, from_cublas(cublas.set_stream(cublas.handle, s));
  return from_cublas(cublas.dot(cublas.handle, n, x, TYPE, 1, y, TYPE, 1, out, TYPE, ACC));
}

template <cudaDataType TYPE, cudaDataType ACC, bool SQUARES>
static cudaError_t blas_norm(void *temp, size_t &bytes, const void *x, const void *, void *out, int64_t n,
                             cudaStream_t s) {
  if (!temp) return bytes = 0, from_cublas(cublas.set_stream(cublas.handle, s));
  cublas_norm *norm = SQUARES ? cublas.norm2 : cublas.norm1;
  return from_cublas(norm(cublas.handle, n, x, TYPE, 1, out, TYPE, ACC));
}

/* ---- the ceiling: vectors are read and next to nothing is done with them */

template <int LOADS> static __global__ void read_vectors(const uint4 *x, size_t n, uint4 *out) {
  cudaGridDependencySynchronize();
  uint4 all = {};
  size_t begin = static_cast<size_t>(blockIdx.x) * blockDim.x * LOADS + threadIdx.x,
         step = static_cast<size_t>(gridDim.x) * blockDim.x * LOADS;
  for (size_t i = begin; i < n; i += step) {
#pragma unroll
    for (int k = 0; k < LOADS; k++) {
      size_t at = i + static_cast<size_t>(k) * blockDim.x;
      uint4 v = at < n ? __ldcs(x + at) : uint4{};
      all.x ^= v.x, all.y ^= v.y, all.z ^= v.z, all.w ^= v.w;
    }
  }
  cudaTriggerProgrammaticLaunchCompletion();
  /* No data does this, but the compiler cannot know. */
  if (all.x == 0x9e3779b9 && all.y == 0x7f4a7c15 && all.z == 0xbf58476d && all.w == 0x1ce4e5b9) *out = all;
}

template <int THREADS, int LOADS, int RESIDENT>
static cudaError_t read_all(void *temp, size_t &bytes, const void *x, const void *, void *, int64_t n,
                            cudaStream_t s) {
  static int processors;
  if (!temp) return bytes = 16, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
  size_t vectors = static_cast<size_t>(n) / 2, blocks = (vectors + THREADS * LOADS - 1) / (THREADS * LOADS),
         held = static_cast<size_t>(processors) * RESIDENT;
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = static_cast<unsigned>(blocks < held ? blocks : held);
  config.blockDim = THREADS;
  config.stream = s;
  config.attrs = &overlap;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, read_vectors<LOADS>, static_cast<const uint4 *>(x), vectors,
                            static_cast<uint4 *>(temp));
}
#endif

/* ---- the list */

static const double in_f64 = 0x1p-53, in_f32 = 0x1p-24;
#ifndef PEERS_CUB_ONLY
static const double unchecked = HUGE_VAL;
#endif

static const peer cub_peers[] = {
    {"", SUMAC_SUM, SUMAC_F64, SUMAC_F64, "f64", in_f64, sum<double>},
    {"", SUMAC_SUM, SUMAC_F32, SUMAC_F32, "f32", in_f32, sum<float>},
    {"", SUMAC_SUM, SUMAC_F16, SUMAC_F32, "f32", in_f32, wide_sum<__half, float>},
    {"", SUMAC_SUM, SUMAC_BF16, SUMAC_F32, "f32", in_f32, wide_sum<__nv_bfloat16, float>},
    {"transform", SUMAC_SUM, SUMAC_F16, SUMAC_F32, "f32", in_f32, converted_sum<__half, float>},
    {"transform", SUMAC_SUM, SUMAC_BF16, SUMAC_F32, "f32", in_f32, converted_sum<__nv_bfloat16, float>},
    {"transform", SUMAC_SUM, SUMAC_E4M3FN, SUMAC_F32, "f32", in_f32, converted_sum<__nv_fp8_e4m3, float>},
    {"transform", SUMAC_SUM, SUMAC_E5M2, SUMAC_F32, "f32", in_f32, converted_sum<__nv_fp8_e5m2, float>},
    {"", SUMAC_SUM, SUMAC_I8, SUMAC_I32, "i32", 0, wide_sum<int8_t, int32_t>},
    {"", SUMAC_SUM, SUMAC_I8, SUMAC_I64, "i64", 0, wide_sum<int8_t, int64_t>},
    {"", SUMAC_SUM, SUMAC_I16, SUMAC_I64, "i64", 0, wide_sum<int16_t, int64_t>},
    {"", SUMAC_SUM, SUMAC_I32, SUMAC_I32, "i32", 0, sum<int32_t>},
    {"", SUMAC_SUM, SUMAC_I32, SUMAC_I64, "i64", 0, wide_sum<int32_t, int64_t>},
    {"", SUMAC_SUM, SUMAC_I64, SUMAC_I64, "i64", 0, sum<int64_t>},
    {"zip", SUMAC_DOT, SUMAC_F64, SUMAC_F64, "f64", in_f64, dot<double, double>},
    {"zip", SUMAC_DOT, SUMAC_F32, SUMAC_F32, "f32", in_f32, dot<float, float>},
    {"zip", SUMAC_DOT, SUMAC_F16, SUMAC_F32, "f32", in_f32, dot<__half, float>},
    {"zip", SUMAC_DOT, SUMAC_BF16, SUMAC_F32, "f32", in_f32, dot<__nv_bfloat16, float>},
#if CCCL_VERSION >= 3001000
#define SAME_EVERYWHERE cuda::execution::determinism::gpu_to_gpu_t
#define ANY_ORDER cuda::execution::determinism::not_guaranteed_t
    {"gpu_to_gpu", SUMAC_SUM, SUMAC_F64, SUMAC_F64, "f64", in_f64,
     determined_sum<double, double, SAME_EVERYWHERE>},
    {"gpu_to_gpu", SUMAC_SUM, SUMAC_F32, SUMAC_F32, "f32", in_f32,
     determined_sum<float, float, SAME_EVERYWHERE>},
    {"not_guaranteed", SUMAC_SUM, SUMAC_F64, SUMAC_F64, "f64", in_f64,
     determined_sum<double, double, ANY_ORDER>},
    {"not_guaranteed", SUMAC_SUM, SUMAC_F32, SUMAC_F32, "f32", in_f32,
     determined_sum<float, float, ANY_ORDER>},
    {"not_guaranteed", SUMAC_SUM, SUMAC_F16, SUMAC_F32, "f32", in_f32,
     determined_sum<__half, float, ANY_ORDER>},
#endif
};

#ifndef PEERS_CUB_ONLY
static const peer cublas_peers[] = {
    {"", SUMAC_DOT, SUMAC_F64, SUMAC_F64, "f64", in_f64, blas_dot<CUDA_R_64F, CUDA_R_64F>},
    {"", SUMAC_DOT, SUMAC_F32, SUMAC_F32, "f32", in_f32, blas_dot<CUDA_R_32F, CUDA_R_32F>},
    {"", SUMAC_DOT, SUMAC_F16, SUMAC_F16, "f32", in_f32, blas_dot<CUDA_R_16F, CUDA_R_32F>},
    {"", SUMAC_DOT, SUMAC_BF16, SUMAC_BF16, "f32", in_f32, blas_dot<CUDA_R_16BF, CUDA_R_32F>},
    {"", SUMAC_NORM2, SUMAC_F64, SUMAC_F64, "f64", in_f64, blas_norm<CUDA_R_64F, CUDA_R_64F, true>},
    {"", SUMAC_NORM2, SUMAC_F32, SUMAC_F32, "f32", in_f32, blas_norm<CUDA_R_32F, CUDA_R_32F, true>},
    {"", SUMAC_NORM2, SUMAC_F16, SUMAC_F16, "f32", in_f32, blas_norm<CUDA_R_16F, CUDA_R_32F, true>},
    {"", SUMAC_NORM2, SUMAC_BF16, SUMAC_BF16, "f32", in_f32, blas_norm<CUDA_R_16BF, CUDA_R_32F, true>},
    {"", SUMAC_NORM1, SUMAC_F64, SUMAC_F64, "f64", in_f64, blas_norm<CUDA_R_64F, CUDA_R_64F, false>},
    {"", SUMAC_NORM1, SUMAC_F32, SUMAC_F32, "f32", in_f32, blas_norm<CUDA_R_32F, CUDA_R_32F, false>},
};

static const peer reads[] = {
    {"256x4x4", SUMAC_SUM, SUMAC_I64, SUMAC_F64, "none", unchecked, read_all<256, 4, 4>},
    {"256x4x8", SUMAC_SUM, SUMAC_I64, SUMAC_F64, "none", unchecked, read_all<256, 4, 8>},
    {"256x8x4", SUMAC_SUM, SUMAC_I64, SUMAC_F64, "none", unchecked, read_all<256, 8, 4>},
    {"512x4x2", SUMAC_SUM, SUMAC_I64, SUMAC_F64, "none", unchecked, read_all<512, 4, 2>},
    {"512x4x4", SUMAC_SUM, SUMAC_I64, SUMAC_F64, "none", unchecked, read_all<512, 4, 4>},
    {"512x8x2", SUMAC_SUM, SUMAC_I64, SUMAC_F64, "none", unchecked, read_all<512, 8, 2>},
    {"1024x2x2", SUMAC_SUM, SUMAC_I64, SUMAC_F64, "none", unchecked, read_all<1024, 2, 2>},
    {"1024x4x1", SUMAC_SUM, SUMAC_I64, SUMAC_F64, "none", unchecked, read_all<1024, 4, 1>},
};
#endif

template <size_t N> static void let_compete(struct contest *c, const char *program, const peer (&peers)[N]) {
  for (const peer &p : peers) {
    if (p.op != c->op || memcmp(&p.dtype, &c->dtype, sizeof p.dtype)) continue;
    char who[64];
    snprintf(who, sizeof who, "%s%s%s", program, *p.how ? " " : "", p.how);
    c->who = who;
    c->acc = p.acc;
    c->out = p.out;
    c->unit = p.unit;
    c->call = call;
    c->more = &p;
    compete(c);
  }
}

static void competition(struct contest *c) {
  char cub[32];
  snprintf(cub, sizeof cub, "cub %d.%d.%d", CCCL_MAJOR_VERSION, CCCL_MINOR_VERSION, CCCL_PATCH_VERSION);
  let_compete(c, cub, cub_peers);
#ifndef PEERS_CUB_ONLY
  bool is_float = c->dtype.code == SUMAC_F64.code || c->dtype.code == SUMAC_BF16.code;
  if (is_float && c->op != SUMAC_SUM && open_cublas()) let_compete(c, "cublas", cublas_peers);
  let_compete(c, "read", reads);
#endif
}

int main(int argc, char **argv) {
  run_contests(argc, argv, competition);
  return 0;
}
