/* SPDX-License-Identifier: Apache-2.0
 *
 * sumac: exact, reproducible reductions.
 *
 * Every floating-point sum, dot product, mean, variance and norm that sumac computes in its default
 * mode is the value of the mathematical result over the inputs as given, rounded once to the output
 * type, ties to even. So the result has the same bits for every thread count, every instruction set,
 * every order and every split of the data.
 *
 * Conventions
 *   shapes, strides   in elements, as in DLPack; offsets and sizes that are in bytes say so
 *   return values     a sumac_status; SUMAC_OK is 0. On failure outputs are left as they were, unless
 *                     the function says otherwise, and sumac_error_message() holds one sentence:
 *                     what was wrong, where, and what is allowed
 *   zero is default   every option field means its default when it is zero, and a NULL option or
 *                     context pointer means all defaults
 *   threads           functions may be called from any number of threads at once. A context may be
 *                     shared by threads; a state may be used by one thread at a time
 *   FP environment    the caller's rounding mode, FTZ/DAZ bits, exception masks and exception flags
 *                     neither influence a result nor change across a call
 *   stack             a call takes less than 256 KB of its thread's
 *   fork              a child may call sumac; its contexts start new worker threads when needed
 *   the library never prints, never exits, never installs a signal handler and reads two environment
 *   variables: SUMAC_CPU_FEATURES, a comma-separated list of the instruction sets that may be used ("base",
 *   "avx2", "avx512"; base always may, unknown names are ignored), read when a context is created; and
 *   SUMAC_DISABLE_CUDA, which leaves the CUDA driver unopened unless it is empty or "0", read when a device
 *   is first asked for
 */
#ifndef SUMAC_SUMAC_H
#define SUMAC_SUMAC_H

#include <stddef.h>
#include <stdint.h>

/* The one place where the version is written. */
#define SUMAC_VERSION_MAJOR 0
#define SUMAC_VERSION_MINOR 1
#define SUMAC_VERSION_PATCH 0

#if defined(SUMAC_BUILD) && defined(__GNUC__)
#define SUMAC_API __attribute__((visibility("default")))
#else
#define SUMAC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tensors ------------------------------------------------------------------------------- */

/* Element type; field for field DLPack's DLDataType. Constants for all supported ones follow. */
typedef struct sumac_dtype {
  uint8_t code;   /* 0 int, 1 uint, 2 IEEE float, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2 */
  uint8_t bits;   /* of one element */
  uint16_t lanes; /* must be 1 */
} sumac_dtype;

static const sumac_dtype SUMAC_F64 = {2, 64, 1};
static const sumac_dtype SUMAC_F32 = {2, 32, 1};
static const sumac_dtype SUMAC_F16 = {2, 16, 1};
static const sumac_dtype SUMAC_BF16 = {4, 16, 1};
static const sumac_dtype SUMAC_E4M3FN = {10, 8, 1}; /* no infinities; 0x7f and 0xff are NaN */
static const sumac_dtype SUMAC_E5M2 = {12, 8, 1};
static const sumac_dtype SUMAC_I8 = {0, 8, 1};
static const sumac_dtype SUMAC_I16 = {0, 16, 1};
static const sumac_dtype SUMAC_I32 = {0, 32, 1};
static const sumac_dtype SUMAC_I64 = {0, 64, 1};
static const sumac_dtype SUMAC_U8 = {1, 8, 1};
static const sumac_dtype SUMAC_U16 = {1, 16, 1};
static const sumac_dtype SUMAC_U32 = {1, 32, 1};
static const sumac_dtype SUMAC_U64 = {1, 64, 1};
static const sumac_dtype SUMAC_BOOL = {6, 8, 1}; /* one byte; any non-zero byte is true */

/* Where the data lies; field for field DLPack's DLDevice. This version reads host memory: type 1. */
typedef struct sumac_device {
  int32_t type; /* 1 CPU, 2 CUDA, 3 CUDA pinned host memory, ... as in DLPack; 0 is taken as CPU */
  int32_t id;
} sumac_device;

/* A strided view, borrowed for the duration of a call; field for field DLPack's DLTensor, so a
 * `const DLTensor *` may be cast to `const sumac_tensor *` (the layout is asserted in the tests).
 * data + byte_offset addresses the element with all indices 0, at any alignment. Strides may be
 * negative or 0; a NULL `strides` means dense row-major. ndim 0 is a scalar (`shape` may be NULL).
 * A tensor with no elements may have NULL data. Nothing outside the view is ever read. Up to
 * SUMAC_MAX_DIMS dimensions and 2^62 elements. */
typedef struct sumac_tensor {
  void *data;
  sumac_device device;
  int32_t ndim;
  sumac_dtype dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} sumac_tensor;

#define SUMAC_MAX_DIMS 64

/* ---- status -------------------------------------------------------------------------------- */

typedef enum sumac_status {
  SUMAC_OK = 0,
  SUMAC_ERR_ARGUMENT = 1,    /* an argument is not valid: NULL, bad shape, axis, size, option */
  SUMAC_ERR_UNSUPPORTED = 2, /* valid, but this combination of op, dtype, acc, device does not exist */
  SUMAC_ERR_EMPTY = 3,       /* min, max, argmin, argmax of no elements */
  SUMAC_ERR_RANGE = 4,       /* an integer result does not fit its type (written saturated) */
  SUMAC_ERR_FORMAT = 5,      /* serialised bytes or shared words are not a valid state of this kind */
  SUMAC_ERR_MEMORY = 6,      /* an allocation failed */
  SUMAC_ERR_DEVICE = 7       /* a device or its driver failed */
} sumac_status;

/* The calling thread's last failure as one sentence; "" if there was none. The pointer stays valid
 * until the thread's next failing sumac call. */
SUMAC_API const char *sumac_error_message(void);

/* "SUMAC_ERR_RANGE" and so on; NULL for a value that is no status. */
SUMAC_API const char *sumac_status_name(sumac_status status);

/* The version of the library that is running, as "MAJOR.MINOR.PATCH". */
SUMAC_API const char *sumac_version(void);

/* ---- operations, accumulators, names ------------------------------------------------------- */

/* n is the number of elements reduced into one result. In exact mode:
 *   SUM      Σ x                     NORM1    Σ |x|
 *   DOT      Σ x·y (no conjugation)  NORM2    √(Σ x²)
 *   MEAN     Σ x / n                 NORMINF  max |x|
 *   VAR      (n·Σx² − (Σx)²) / (n·(n − ddof))      STD  √VAR
 *   MIN, MAX the extreme element; ARGMIN, ARGMAX its index: the smallest index among equals, counted
 *            in row-major order over the reduced axes (in the order of the tensor's axes)
 *   PROD     Π x; floats: rounded once from a value that is at most 2^-107·n of the product away from it.
 *            The order is fixed, so the bits are the same everywhere. Nothing over- or underflows on the way
 *   COUNT_NONZERO   how many x ≠ 0      ANY   whether there is one      ALL   whether there is no x = 0
 *            (ANY and ALL stop reading once they know)
 *
 * NaN in            any NaN gives the canonical quiet NaN (positive, payload 0); ARG* give the first NaN
 *                   COUNT_NONZERO, ANY and ALL take NaN for a number that is not zero
 * infinities        SUM, DOT, MEAN: +inf and −inf together give NaN, inf·0 gives NaN; norms: +inf;
 *                   VAR, STD: NaN; PROD: inf·0 gives NaN
 * zeros             an exactly zero sum is −0 only if n > 0 and every term is −0; a non-zero result
 *                   that rounds to zero keeps its sign; −0 < +0 in MIN and MAX; in ARG* they tie
 * no elements       SUM, DOT, norms: +0; MEAN, VAR, STD: NaN; MIN, MAX, ARG*: SUMAC_ERR_EMPTY; PROD: 1;
 *                   COUNT_NONZERO: 0; ANY: false; ALL: true
 * n <= ddof         VAR, STD: NaN
 * out of range      float types: ±inf (E4M3FN: NaN); integer types: SUMAC_ERR_RANGE and the value
 *                   saturated. A NaN or infinite result in an integer type: SUMAC_ERR_RANGE too, NaN
 *                   written as 0
 */
typedef enum sumac_op {
  SUMAC_SUM = 0,
  SUMAC_DOT,
  SUMAC_MEAN,
  SUMAC_VAR,
  SUMAC_STD,
  SUMAC_NORM1,
  SUMAC_NORM2,
  SUMAC_NORMINF,
  SUMAC_MIN,
  SUMAC_MAX,
  SUMAC_ARGMIN,
  SUMAC_ARGMAX,
  SUMAC_PROD,
  SUMAC_COUNT_NONZERO,
  SUMAC_ANY,
  SUMAC_ALL
} sumac_op;

/* What partial results are held in.
 *   EXACT  the superaccumulator: correctly rounded, same bits everywhere. The default
 *   F64    binary64 (every dtype), F32 binary32 (float dtypes of at most 32 bits): a fixed tree that
 *          depends on n only (an axis of stride 0 multiplies instead), so results are run-to-run
 *          deterministic and independent of the thread count; last bits may differ between
 *          instruction sets and on devices. Error at most about (300 + log2 n)·u·Σ|terms|, u = 2^-53 or 2^-24
 *          (VAR, STD: times √(1 + n·mean²/Σ(x−mean)²))
 *   I64    integer and bool dtypes: the exact value, which must fit in 64 signed bits
 *          (SUMAC_ERR_RANGE otherwise), also before a mean or norm is formed from it; I32 the same in 32
 *          bits, of integers of at most 32 bits and bool
 *   F16    binary16 (f16 and fp8), BF16 bfloat16 (bf16 and fp8), on the CPU: the tree of F32 with every
 * product and every sum rounded to the type. For comparisons, not for results: F16 overflows to inf from
 *          65520 on, in the squares of VAR and NORM2 first; and adding stalls, since a term below u times
 *          the partial sum, u = 2^-11 or 2^-8, leaves it as it is. A call adds at most some 300 times in a
 * row, then pairs of such sums: the bound above, with this u, is 15 % of Σ|terms| for F16 and none for BF16
 * The operations from NORMINF on add nothing up and take no accumulator other than the default. */
typedef enum sumac_acc {
  SUMAC_ACC_EXACT = 0,
  SUMAC_ACC_F64,
  SUMAC_ACC_F32,
  SUMAC_ACC_I64,
  SUMAC_ACC_F16,
  SUMAC_ACC_BF16,
  SUMAC_ACC_I32
} sumac_acc;

/* Lower-case names ("sum", "f64", "exact"); NULL for a value out of range, so that a list can be
 * walked from 0 until NULL. dtype names: f64 f32 f16 bf16 e4m3fn e5m2 i8 i16 i32 i64 u8 u16 u32 u64
 * bool. sumac_dtype_by_name also takes the long names (float64, bfloat16, float8_e4m3fn, int32 ...). */
SUMAC_API const char *sumac_op_name(sumac_op op);
SUMAC_API const char *sumac_acc_name(sumac_acc acc);
SUMAC_API const char *sumac_dtype_name(sumac_dtype dtype);
SUMAC_API sumac_status sumac_op_by_name(const char *name, sumac_op *op);
SUMAC_API sumac_status sumac_acc_by_name(const char *name, sumac_acc *acc);
SUMAC_API sumac_status sumac_dtype_by_name(const char *name, sumac_dtype *dtype);

/* The i-th supported dtype, in the order of the constants above, through *dtype; 0 past the end. */
SUMAC_API int sumac_dtype_at(int i, sumac_dtype *dtype);

/* ---- contexts ------------------------------------------------------------------------------ */

/* A context holds the choice of instruction set, an allocator and a pool of worker threads (started
 * when first needed). NULL stands for a process-wide default context everywhere. */
typedef struct sumac_context sumac_context;

#define SUMAC_CPU_BASE 1u   /* the architecture's baseline: SSE2 */
#define SUMAC_CPU_AVX2 2u   /* AVX2, FMA, F16C */
#define SUMAC_CPU_AVX512 4u /* AVX-512 F, BW, DQ, VL */

typedef struct sumac_config {
  int32_t threads;       /* worker threads a call may use; 0: as many as affinity and cgroup allow */
  uint32_t cpu_features; /* mask of SUMAC_CPU_*; 0: all that the processor has. BASE is always allowed.
                            SUMAC_CPU_FEATURES in the environment masks further */
  /* Allocator hooks, both or none. alloc returns memory aligned to `alignment` bytes (a power of two)
   * or NULL. They may be called from any thread that uses the context. */
  void *(*alloc)(void *user, size_t size, size_t alignment);
  void (*dealloc)(void *user, void *memory, size_t size);
  void *user;
  uint64_t reserved[4]; /* must be zero */
} sumac_config;

/* Creates a context; *context is NULL on failure. Destroy it after the last call that uses it, and after the
 * states that were made with it. */
SUMAC_API sumac_status sumac_context_create(const sumac_config *config, sumac_context **context);
SUMAC_API void sumac_context_destroy(sumac_context *context);

/* How many threads a call on this context may use, and the name of the instruction set it runs
 * ("base", "avx2", "avx512"). */
SUMAC_API int sumac_context_threads(sumac_context *context);
SUMAC_API const char *sumac_context_isa(sumac_context *context);

/* ---- devices ------------------------------------------------------------------------------- */

/* The CUDA driver is opened by the first call that needs it, never when the library is loaded. A machine
 * without one, a driver older than CUDA 13.0 and a build without kernels are no error until a device is asked
 * for. A process forked after that point cannot use devices: such calls fail there. A device is used through
 * its primary context, which the CUDA runtime and the libraries above it share. */

/* How many CUDA devices there are, numbered from 0. 0 where none can be used: sumac_error_message() then says
 * why. */
SUMAC_API int sumac_device_count(void);

typedef struct sumac_device_info {
  char name[128];
  int32_t compute_major, compute_minor; /* compute capability, 9 and 0 for 9.0 */
  int32_t multiprocessors;
  int32_t driver_version; /* 13000 for CUDA 13.0 */
  uint64_t memory_bytes;
  const char *kernels; /* what this build's kernels are compiled for, as in "sm_90 compute_90" */
  uint64_t reserved[4];
} sumac_device_info;

/* Describes a device. It is not brought into use by that. */
SUMAC_API sumac_status sumac_device_info_get(int32_t device, sumac_device_info *info);

/* Does now what the first call on a device would do (its context, about 0.2 s, and the kernels), so that no
 * later call on it waits for that. */
SUMAC_API sumac_status sumac_warm(sumac_context *context, int32_t device);

/* SUMAC_ERR_RANGE if an asynchronous result on the device did not fit its integer type since the last such
 * call: one flag for the device, whoever launched; it is lowered. Synchronise with the streams in question
 * first: what still runs is not waited for. */
SUMAC_API sumac_status sumac_device_check(int32_t device);

/* ---- reductions ---------------------------------------------------------------------------- */

/* KEEPDIMS: reduced axes stay in the output's shape, with length 1.
 * SKIP_NAN: NaN elements (DOT: pairs with a NaN) are ignored; all NaN counts as empty. n then is the number
 * of elements that are not NaN; ARG* indices still count all. SATURATE: a value beyond the output type gives
 * its largest finite value with that sign: no infinity from finite data, and no SUMAC_ERR_RANGE for finite
 * results. */
#define SUMAC_KEEPDIMS 1u
#define SUMAC_SKIP_NAN 2u
#define SUMAC_SATURATE 4u

typedef struct sumac_options {
  const int32_t *axes; /* the axes to reduce, each in [−ndim, ndim), no axis twice. NULL: all axes.
                          Not NULL with naxes 0: none, each element is reduced by itself */
  int32_t naxes;
  int32_t acc;        /* sumac_acc */
  uint32_t flags;     /* SUMAC_KEEPDIMS | ... */
  uint32_t reserved0; /* must be zero */
  int64_t ddof;       /* VAR, STD: n − ddof is the divisor; >= 0 */
  void *stream;       /* tensors on a CUDA device: the stream (a CUstream or cudaStream_t) to run on; NULL is
                         the legacy default stream */
  uint64_t reserved[3]; /* must be zero */
} sumac_options;

/* The output type and shape that an operation has by default.
 *   dtype   SUM, DOT, PROD: f64→f64, f32→f32, f16, bf16, fp8→f32, signed and bool→i64, unsigned→u64
 *           MEAN, VAR, STD, norms: as SUM for floats, f64 for integers and bool
 *           MIN, MAX: the input type; ARG*, COUNT_NONZERO: i64; ANY, ALL: bool
 *   shape   the input's without the reduced axes (with KEEPDIMS: they stay, as 1)
 * dtype, ndim may be NULL; shape may be NULL or must have room for x->ndim numbers. DOT: y is not
 * needed, its shape equals x's. No element is read. */
SUMAC_API sumac_status sumac_result_type(sumac_op op, const sumac_tensor *x, const sumac_options *options,
                                         sumac_dtype *dtype, int32_t *ndim, int64_t *shape);

/* Reduces x (DOT: x and y, of equal dtype and shape; otherwise y must be NULL) along the chosen axes
 * into *out, which must have the shape that sumac_result_type gives. out->dtype is the type of the
 * result and may be any supported type but bool (bool for ANY, ALL, and MIN, MAX of bool): the exact value is
 * rounded straight to it, the input is never cast first. out must not overlap x or y.
 * With SUMAC_ERR_RANGE every element of out has been written, those that do not fit saturated; with
 * any other failure out is untouched.
 *
 * x (and y) in host memory: synchronous. On a CUDA device (device type 2): x is read where it lies, and out
 * is on the same device or in host memory.
 *   out on the device  asynchronous on options->stream, and capturable in a CUDA graph, whose instances may
 *                      not run at once: they share its workspace. x and out must live until the stream is
 *                      through. A value that does not fit an integer type is reported by
 *                      sumac_device_check
 *   out on the host    returns when out is written; SUMAC_ERR_ARGUMENT on a stream that is being captured
 * Of the operations, those up to NORM2 exist on devices, the others on the host only. With the accumulators
 * f64 and f32 the tree depends on how x lies and on the model of the device too, and integers are summed
 * exactly. Reductions along some axes launch one kernel a result. */
SUMAC_API sumac_status sumac_reduce(sumac_context *context, sumac_op op, const sumac_tensor *x,
                                    const sumac_tensor *y, const sumac_options *options,
                                    const sumac_tensor *out);

/* What there is to know of a tensor, from one reading of it. All but the first five fields are of the
 * elements that are not NaN, and what sumac_reduce would give for these as f64: rounded once, the same bits
 * everywhere. */
typedef struct sumac_statistics {
  int64_t n; /* elements; among them: */
  int64_t nan, pos_inf, neg_inf, zeros;
  double mean, std, norm1, norm2, norminf; /* std divides by n - nan - options->ddof; of nothing: as above */
  double min, max;                         /* NaN of nothing */
  uint64_t min_bits, max_bits;             /* the same as elements: f64 does not hold every 64-bit integer */
  uint64_t reserved[4];
} sumac_statistics;

/* Fills *statistics. x lies in host memory; options: ddof only, or NULL. Errors: ERR_ARGUMENT (as
 * sumac_reduce, and for options that are set), ERR_UNSUPPORTED (a CUDA device), ERR_MEMORY. */
SUMAC_API sumac_status sumac_stats(sumac_context *context, const sumac_tensor *x,
                                   const sumac_options *options, sumac_statistics *statistics);

/* Which kernel such a call runs, for example "cpu.avx2.exact.sum.f64", written with a terminating 0
 * into buffer (truncated to size bytes). No element is read. */
SUMAC_API sumac_status sumac_kernel_name(sumac_context *context, sumac_op op, const sumac_tensor *x,
                                         const sumac_options *options, char *buffer, size_t size);

/* ---- states -------------------------------------------------------------------------------- */

/* A state is the exact accumulator itself: the value so far as a fixed-point number in 64-bit words,
 * with counters for what a number cannot hold (NaN, infinities, −0, n). States merge without rounding,
 * in any order and any tree, and their words may be added up by any integer all-reduce.
 * A state's bytes are a function of its kind, its dtype and the multiset of elements added: nothing
 * else, neither order nor machine, shows in them. */
typedef struct sumac_state sumac_state;

typedef enum sumac_kind {
  SUMAC_KIND_SUM = 0, /* Σ x            gives SUM, MEAN */
  SUMAC_KIND_ABS,     /* Σ |x|          gives NORM1 */
  SUMAC_KIND_SQUARE,  /* Σ x²           gives NORM2 */
  SUMAC_KIND_DOT,     /* Σ x·y          gives DOT */
  SUMAC_KIND_MOMENTS  /* Σ x and Σ x²   gives SUM, MEAN, VAR, STD, NORM2 */
} sumac_kind;

/* Creates an empty state. `dtype` decides the range held: a state takes tensors of its own dtype and of
 * every dtype whose values are all in that range (an f64 state takes every dtype; an f32 state every
 * one but f64; an i64 state, also spelled with any other integer dtype or bool, the integers and bool).
 * Memory: below 1.8 KB. */
SUMAC_API sumac_status sumac_state_create(sumac_context *context, sumac_kind kind, sumac_dtype dtype,
                                          sumac_state **state);
SUMAC_API void sumac_state_destroy(sumac_state *state);

/* Back to empty. */
SUMAC_API sumac_status sumac_state_clear(sumac_state *state);

/* The CUDA stream that later calls on this state read device tensors on; NULL, at first, is the legacy
 * default stream. Such calls synchronise with it. */
SUMAC_API sumac_status sumac_state_set_stream(sumac_state *state, void *stream);

/* Adds every element of x (KIND_DOT: every product with y, of equal dtype and shape; else y is NULL). */
SUMAC_API sumac_status sumac_state_add(sumac_state *state, const sumac_tensor *x, const sumac_tensor *y);

/* Adds `count` tensors, or pairs, in one call: x[i] (and y[i]; y may be NULL unless KIND_DOT). All are
 * checked before any is added, and on failure nothing has been added. Errors: ERR_ARGUMENT (shapes, NULL,
 * more than 2^62 elements), ERR_UNSUPPORTED (a dtype beyond the state's range, x and y of different dtypes),
 * ERR_FORMAT (words that were written to are not valid), ERR_MEMORY. On a device, up to 500 contiguous
 * tensors of one dtype are one launch. */
SUMAC_API sumac_status sumac_state_add_many(sumac_state *state, size_t count, const sumac_tensor *const *x,
                                            const sumac_tensor *const *y);

/* Adds what `from` holds to `into`; both must be of one kind and one range. `from` is unchanged in value,
 * unless it is `into`, which doubles. */
SUMAC_API sumac_status sumac_state_merge(sumac_state *into, sumac_state *from);

/* Rounds the state's value to out (one element). `op` must be one that the state's kind gives (see
 * sumac_kind); options: flags SKIP_NAN and SATURATE, and ddof; axes and acc must be unset. The state
 * is unchanged in value and can go on being added to. */
SUMAC_API sumac_status sumac_state_result(sumac_state *state, sumac_op op, const sumac_options *options,
                                          const sumac_tensor *out);

/* Any of the four pointers may be NULL. nan counts NaN elements (pairs), which are included in n. */
SUMAC_API sumac_status sumac_state_info(sumac_state *state, sumac_kind *kind, sumac_dtype *dtype, int64_t *n,
                                        int64_t *nan);

/* The state's words: little more than its limbs, as `count` int64 in memory that the state owns and
 * that may be written to. To merge the states of many processes, sum these words element by element
 * with any integer all-reduce (MPI_SUM, ncclSum on int64; up to 2^31 processes) back into the same
 * memory. The last two words check the outcome: if states of different kinds were mixed, the next
 * call on the state fails with SUMAC_ERR_FORMAT. Get the pointer anew after any other state call and
 * use the words before the next one. */
SUMAC_API sumac_status sumac_state_words(sumac_state *state, int64_t **words, size_t *count);

/* Bytes: a 16-byte header (magic, format version, kind, dtype, word count), the words, little endian;
 * see docs/state-format.md. sumac_state_size is the number of bytes (0 for NULL); sumac_state_write fails
 * unless size is exactly that. sumac_state_read creates a state from bytes and refuses (SUMAC_ERR_FORMAT) all
 * that are not canonical or contradict themselves: what it takes, sumac_state_write gives back. */
SUMAC_API size_t sumac_state_size(const sumac_state *state);
SUMAC_API sumac_status sumac_state_write(sumac_state *state, void *bytes, size_t size);
SUMAC_API sumac_status sumac_state_read(sumac_context *context, const void *bytes, size_t size,
                                        sumac_state **state);

#ifdef __cplusplus
}
#endif

#endif
