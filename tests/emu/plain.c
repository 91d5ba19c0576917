/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain sums on a device: within the bound of sumac.h of the exact result on the host, which is tested
 * elsewhere; special values and zeros as there; the same bits each time. Of integers, they are exact.
 */
#include "cuda/backend.h"
#include "cuda/driver.h"
#include "data.h"
#include "oracle/oracle.h"
#include "view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sumac_driver *cu;
static long cases, wrong;
static data_random random_source;

static void fail(const char *what) {
  fprintf(stderr, "plain: %s: %s\n", what, sumac_error_message());
  exit(1);
}

/* ---- one call */

struct problem {
  sumac_op op;
  sumac_acc acc;
  sumac_dtype dtype, out;
  int64_t n, ddof;
  uint32_t flags;
  data_kind kind;
  int layout, threads, blocks;
};

enum { DENSE, DENSE_1, DENSE_3, MISALIGNED, STRIDE_3, REVERSED, TRANSPOSED, REPEATED, LAYOUTS };

/* Elements that lie in one place are equal: REPEATED is a few rows on top of each other. */
static int64_t rows_of(const struct problem *p) { return p->n % 7 == 0 ? 7 : p->n % 4 == 0 ? 4 : 1; }

static void lay_out(view *v, const struct problem *p, const uint64_t *codes) {
  int64_t rows = rows_of(p), line[1] = {p->n}, matrix[2] = {rows, p->n / rows};
  int64_t step[1] = {p->layout == STRIDE_3 ? 3 : p->layout == REVERSED ? -1 : 1};
  int64_t across[2] = {p->layout == REPEATED ? 0 : 1, p->layout == REPEATED ? 1 : rows};
  if (p->layout >= TRANSPOSED)
    view_make(v, p->dtype, 2, matrix, across, -1);
  else
    view_make(v, p->dtype, 1, line, step, -1);
  view_fill(v, codes);
}

/* The view's twin in device memory: ends where the allocation does. */
static sumac_tensor on_device(const view *v, int layout, CUdeviceptr *memory) {
  size_t size = (size_t)v->tensor.dtype.bits / 8;
  size_t shift = layout == DENSE_1 ? size : layout == DENSE_3 ? 3 * size : layout == MISALIGNED ? 1 : 0;
  sumac_tensor t = v->tensor;
  if (cu->cuMemAlloc_v2(memory, v->span_size + shift + 1) != CUDA_SUCCESS ||
      (v->span_size && cu->cuMemcpyHtoD_v2(*memory + shift, v->span, v->span_size) != CUDA_SUCCESS))
    fail("device memory");
  t.data = (char *)(uintptr_t)(*memory + shift) + ((const unsigned char *)v->tensor.data - v->span);
  t.device = (sumac_device){2, 0};
  return t;
}

static uint64_t reduce(const struct problem *p, const sumac_tensor *x, const sumac_tensor *y, sumac_acc acc,
                       sumac_dtype out, sumac_status *status) {
  uint64_t bits = 0;
  sumac_options o = {.acc = (int32_t)acc, .flags = p->flags, .ddof = p->ddof};
  sumac_tensor to = scalar_of(out, &bits);
  *status = sumac_reduce(NULL, p->op, x, p->op == SUMAC_DOT ? y : NULL, &o, &to);
  if (*status != SUMAC_OK && *status != SUMAC_ERR_RANGE) fail("sumac_reduce");
  return bits;
}

/* ---- what is right */

static double value_of(sumac_dtype d, uint64_t bits) {
  oracle_number x = oracle_decode(d, bits);
  double magnitude = x.class == ORACLE_NAN ? NAN : x.class == ORACLE_INF ? INFINITY : ldexp((double)x.m, x.e);
  return x.negative ? -magnitude : magnitude;
}

/* 2 (64 + log2 n) is asked for where sumac.h promises about 300 + log2 n. A mean that is not exact also costs
 * a term of second order. Sums that may leave the accumulator's range are not judged. */
static int within_bound(const struct problem *p, const uint64_t *a, const uint64_t *b, double want,
                        double got) {
  if (got == want) return 1;
  int wide = p->acc == SUMAC_ACC_F64;
  double unit = wide ? 0x1p-53 : 0x1p-24, least = wide ? 0x1p-1074 : 0x1p-149;
  double limit = wide ? 0x1p1000 : 0x1p120, n = 0, terms = 0, squares = 0, sum = 0;
  for (int64_t i = 0; i < p->n; i++) {
    double x = value_of(p->dtype, a[i]), y = value_of(p->dtype, b[i]);
    if (isnan(x) || (p->op == SUMAC_DOT && isnan(y))) continue;
    n++;
    sum += x;
    squares += x * x;
    terms += fabs(p->op == SUMAC_DOT ? x * y : x);
  }
  if (!(terms * n < limit) || ((p->op >= SUMAC_VAR && p->op != SUMAC_NORM1) && !(squares * n < limit)))
    return 1;
  double steps = 2 * (64 + log2(n + 1)) * unit, lost = (n + 1) * least, error;
  double divisor = n - (double)p->ddof, variance = p->op == SUMAC_STD ? want * want : want;
  double about = variance * divisor,
         centre = n > 0 ? sum / n * sum : 0; /* squares about the mean, and of it */
  switch (p->op) {
  case SUMAC_MEAN: error = (steps * terms + lost) / n; break;
  case SUMAC_VAR:
  case SUMAC_STD:
    error = (steps * sqrt(about * about + about * centre) + steps * steps * centre + lost) / divisor;
    if (p->op == SUMAC_STD) error = got + want == 0 ? 0 : error / (got + want);
    break;
  case SUMAC_NORM2: error = want == 0 ? sqrt(lost) : fmin(sqrt(lost), lost / want) + steps * want; break;
  default: error = steps * terms + lost;
  }
  double out_unit = p->out.bits == 64 ? 0x1p-53 : 0x1p-24,
         out_least = p->out.bits == 64 ? 0x1p-1074 : 0x1p-149;
  return fabs(got - want) <= error + 2 * out_unit * fabs(want) + out_least;
}

static void check(const struct problem *p) {
  static uint64_t *a, *b;
  a = realloc(a, (size_t)(p->n + 1) * sizeof *a);
  b = realloc(b, (size_t)(p->n + 1) * sizeof *b);
  if (!a || !b) fail("memory");
  data_codes(p->dtype, p->kind, &random_source, a, (size_t)p->n);
  data_codes(p->dtype, p->kind, &random_source, b, (size_t)p->n);
  for (int64_t row = p->n / rows_of(p), i = row; p->layout == REPEATED && i < p->n; i++)
    a[i] = a[i % row], b[i] = b[i % row];
  view x, y;
  lay_out(&x, p, a);
  lay_out(&y, p, b);
  CUdeviceptr memory[2];
  sumac_tensor dx = on_device(&x, p->layout, &memory[0]), dy = on_device(&y, p->layout, &memory[1]);
  sumac_status status, wanted;
  sumac_cuda_threads = p->threads;
  sumac_cuda_blocks = p->blocks;
  uint64_t got = reduce(p, &dx, &dy, p->acc, p->out, &status);
  uint64_t again = reduce(p, &dx, &dy, p->acc, p->out, &wanted);
  uint64_t want = reduce(p, &x.tensor, &y.tensor, SUMAC_ACC_EXACT, p->out, &wanted);
  double g = value_of(p->out, got), w = value_of(p->out, want);
  int right = got == again;
  bool same = p->n == 0 || p->kind == DATA_MINUS_ZERO || isnan(w) || (isinf(w) && p->kind == DATA_SPECIALS);
  if (same || !dtype_is_float(p->dtype))
    right &= got == want && status == wanted;
  else
    right &= status == SUMAC_OK && within_bound(p, a, b, w, g);
  cases++;
  if (!right && wrong++ < 20)
    printf("%s of %lld %s, acc %s, to %s, data %s, layout %d, flags %u, ddof %d, %d threads, %d blocks: got "
           "%#llx "
           "%.17g, again %#llx, want %#llx %.17g\n",
           op_text[p->op], (long long)p->n, dtype_text(p->dtype), sumac_acc_name(p->acc), dtype_text(p->out),
           data_kind_name(p->kind), p->layout, p->flags, (int)p->ddof, p->threads, p->blocks,
           (unsigned long long)got, g, (unsigned long long)again, (unsigned long long)want, w);
  for (int i = 0; i < 2; i++) cu->cuMemFree_v2(memory[i]);
  view_free(&x);
  view_free(&y);
}

/* ---- the walk */

static int pick(int limit) { return (int)data_below(&random_source, (uint64_t)limit); }

static void walk(sumac_op op, sumac_acc acc, sumac_dtype dtype, int64_t n) {
  static const data_kind kinds[] = {DATA_NORMAL,   DATA_NORMAL,   DATA_UNIFORM, DATA_UNIFORM,
                                    DATA_SPECIALS, DATA_DRIFTING, DATA_EQUAL,   DATA_MINUS_ZERO,
                                    DATA_OUTLIERS, DATA_SUBNORMAL};
  static const int threads[] = {0, 0, 32, 96}, blocks[] = {0, 0, 1, 3};
  check(&(struct problem){op, acc, dtype, pick(2) ? SUMAC_F64 : SUMAC_F32, n, pick(4) == 0,
                          pick(2) ? SUMAC_SKIP_NAN : 0, kinds[pick(10)], pick(LAYOUTS), threads[pick(4)],
                          blocks[pick(4)]});
}

/*   emu_plain [SEED] */
int main(int argc, char **argv) {
  static const int64_t sizes[] = {0, 1, 2, 3, 5, 31, 33, 100, 257, 1029, 4099, 20013};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  random_source.state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  sumac_status status;
  CUcontext context; /* the library's own: memory is that of the current one */
  CUdevice device;
  if (!(cu = sumac_driver(&status)) || sumac_warm(NULL, 0) != SUMAC_OK) fail("no device");
  if (cu->cuDeviceGet(&device, 0) || cu->cuDevicePrimaryCtxRetain(&context, device) ||
      cu->cuCtxSetCurrent(context))
    fail("no context");
  for (int d = 0; d < DTYPES; d++)
    for (sumac_acc acc = SUMAC_ACC_F64; acc <= SUMAC_ACC_F32; acc++)
      for (sumac_op op = SUMAC_SUM; op <= SUMAC_NORM2; op++) {
        int is_float = dtype_is_float(dtypes[d]);
        if (acc == SUMAC_ACC_F32 && (!is_float || dtypes[d].bits > 32)) continue;
        for (int i = is_float ? pick(2) : 11 - pick(4); i < SIZES; i += 2) walk(op, acc, dtypes[d], sizes[i]);
      }
  /* more than 64 tiles a thread, and than 64 times as many */
  for (int i = 0; i < 4; i++)
    check(&(struct problem){i % 2 ? SUMAC_VAR : SUMAC_SUM, SUMAC_ACC_F32, SUMAC_F32, SUMAC_F32,
                            i < 2 ? 64 * 512 + 777 : 64 * 64 * 128 + 12345, 0, 0, DATA_UNIFORM,
                            i < 2 ? DENSE_1 : STRIDE_3, 32, 1});
  printf("%ld cases, %ld wrong\n", cases, wrong);
  return wrong != 0;
}
