/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk: operation × accumulator × output type × instruction set × size × kind of data × layout, for
 * one input dtype, against the oracle. In exact mode not one bit may differ; other accumulators keep the
 * bound of sumac.h and give one value for all layouts and thread counts.
 *
 *   conformance DTYPE [all]          "all" walks every layout and output type in place of a sample
 *   conformance DTYPE cuda [all]     the same on a CUDA device, with sizes that its launches may find hard
 *   conformance DTYPE cuda few       of these what a memory checker has the time for
 */
#include "data.h"
#include "device.h"
#include "engines.h"
#include "oracle/oracle.h"
#include "view.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sumac_dtype dtype;
static int walk_all, walk_few, on_device;
static long calls, differences;
static engine engines[ENGINES_MAX], pooled[ENGINES_MAX];
static int engine_count;

/* ---- what exists ---------------------------------------------------------------------------- */

enum { EXACT_ACC = SUMAC_ACC_EXACT, ACCS = SUMAC_ACC_I32 + 1 };
static const char *const acc_text[ACCS] = {"exact", "f64", "f32", "i64", "f16", "bf16", "i32"};

static int selects(sumac_op op) { return op == SUMAC_NORMINF || op >= SUMAC_MIN; }

/* As sumac.h says it, independent of the library's lists. */
static int acc_exists(sumac_op op, sumac_dtype in, sumac_acc acc) {
  if (on_device && (selects(op) || acc > SUMAC_ACC_I64)) return 0;
  int is_fp8 = dtype_is_float(in) && in.bits == 8;
  switch (acc) {
  case SUMAC_ACC_EXACT: return 1;
  case SUMAC_ACC_F64: return !selects(op);
  case SUMAC_ACC_F32: return !selects(op) && dtype_is_float(in) && in.bits <= 32;
  case SUMAC_ACC_I64: return !selects(op) && !dtype_is_float(in);
  case SUMAC_ACC_F16: return !selects(op) && (is_fp8 || same_dtype(in, SUMAC_F16));
  case SUMAC_ACC_BF16: return !selects(op) && (is_fp8 || same_dtype(in, SUMAC_BF16));
  default: return !selects(op) && !dtype_is_float(in) && in.bits <= 32;
  }
}

static int out_exists(sumac_op op, sumac_dtype in, sumac_dtype out) {
  return out.code != SUMAC_BOOL.code || op == SUMAC_ANY || op == SUMAC_ALL ||
         (in.code == SUMAC_BOOL.code && (op == SUMAC_MIN || op == SUMAC_MAX));
}

static sumac_dtype default_out(sumac_op op, sumac_dtype in) {
  if (op == SUMAC_MIN || op == SUMAC_MAX) return in;
  if (op == SUMAC_ARGMIN || op == SUMAC_ARGMAX || op == SUMAC_COUNT_NONZERO) return SUMAC_I64;
  if (op == SUMAC_ANY || op == SUMAC_ALL) return SUMAC_BOOL;
  if (dtype_is_float(in)) return in.bits == 64 ? SUMAC_F64 : SUMAC_F32;
  if (op != SUMAC_SUM && op != SUMAC_DOT && op != SUMAC_PROD) return SUMAC_F64;
  return in.code == SUMAC_U8.code ? SUMAC_U64 : SUMAC_I64;
}

/* Arrays from 128 KB on are read as several streams: 8-bit types need the last size for that, others not. */
enum { MOST = 140001, MOST_OF_WIDE = 100000 };

/* ---- one call ------------------------------------------------------------------------------- */

typedef struct where {
  data_kind kind;
  int64_t n;
  const char *layout;
  uint64_t seed;
  const uint64_t *a, *b; /* the elements; NULL where only exact results are asked for */
} where;

static void report(const where *w, const engine *e, sumac_op op, sumac_acc acc, sumac_dtype out,
                   uint32_t flags, const char *what, sumac_status status, uint64_t got, sumac_status wanted,
                   uint64_t want) {
  if (differences++ >= 30) return;
  printf("%s: op %s, dtype %s, acc %s, out %s, isa %s, threads %d, n %lld, data %s, layout %s, flags %u, "
         "seed %#llx: got %s %#llx, want %s %#llx%s%s\n",
         what, op_text[op], dtype_text(dtype), acc_text[acc], dtype_text(out), e->isa, e->threads,
         (long long)w->n, data_kind_name(w->kind), w->layout, flags, (unsigned long long)w->seed,
         sumac_status_name(status), (unsigned long long)got, sumac_status_name(wanted),
         (unsigned long long)want, status != SUMAC_OK ? ": " : "",
         status != SUMAC_OK ? sumac_error_message() : "");
}

#define UNTOUCHED 0xa5a5a5a5a5a5a5a5

static uint64_t low_bits(sumac_dtype d) { return d.bits == 64 ? UINT64_MAX : ((uint64_t)1 << d.bits) - 1; }

/* Results in device memory are not waited for: what an error would have said is asked afterwards. */
static sumac_status reduce(const engine *e, sumac_op op, const sumac_tensor *x, const sumac_tensor *y,
                           const sumac_options *options, const sumac_tensor *out, device_tensor *there,
                           void *room) {
  if (there == NULL) return sumac_reduce(e->context, op, x, op == SUMAC_DOT ? y : NULL, options, out);
  sumac_tensor to = *out;
  to.device = there->tensor.device;
  to.data = (char *)(uintptr_t)there->span + ((char *)out->data - (char *)room);
  device_write(there, room);
  sumac_status status = sumac_reduce(e->context, op, x, op == SUMAC_DOT ? y : NULL, options, &to);
  device_read(there, room);
  return status == SUMAC_OK ? sumac_device_check(0) : status;
}

static sumac_status call(const engine *e, sumac_op op, const sumac_tensor *x, const sumac_tensor *y,
                         sumac_acc acc, uint32_t flags, int64_t ddof, sumac_dtype out_type, uint64_t *bits) {
  static device_tensor there;
  sumac_options options = {.acc = (int32_t)acc, .flags = flags, .ddof = ddof};
  uint64_t room[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
  int64_t words = 3, ones[VIEW_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
  sumac_tensor out = scalar_of(out_type, &room[1]), whole = tensor_of(SUMAC_U64, room, &words);
  if (flags & SUMAC_KEEPDIMS) out.ndim = x->ndim, out.shape = ones;
  if (on_device && there.memory == 0) device_copy(&there, &whole);
  sumac_status status = reduce(e, op, x, y, &options, &out, on_device && calls % 2 ? &there : NULL, room);
  calls++;
  *bits = room[1] & low_bits(out_type);
  assert_int_equal(room[0], UNTOUCHED);
  assert_int_equal(room[1] & ~low_bits(out_type), UNTOUCHED & ~low_bits(out_type));
  assert_int_equal(room[2], UNTOUCHED);
  return status;
}

/* ---- layouts -------------------------------------------------------------------------------- */

enum {
  OFFSETS = 16, /* bytes behind a guard page */
  AT_END = OFFSETS,
  STRIDE_2,
  STRIDE_3,
  STRIDE_7,
  REVERSED,
  REVERSED_2,
  REVERSED_MISALIGNED,
  MATRIX_PADDED,
  MATRIX_TRANSPOSED,
  MATRIX_FLIPPED,
  CUBE_PERMUTED,
  ONES_AROUND,
  LAYOUTS,
  REPEATED = LAYOUTS /* stride 0: for equal elements only */
};

static const char *layout_text(int layout) {
  static const char *const names[] = {"at end",     "stride 2",          "stride 3",      "stride 7",
                                      "reversed",   "reversed stride 2", "reversed odd",  "padded rows",
                                      "transposed", "flipped matrix",    "permuted cube", "ones around",
                                      "stride 0"};
  static char offset[32];
  if (layout >= OFFSETS) return names[layout - OFFSETS];
  snprintf(offset, sizeof offset, "offset %d", layout);
  return offset;
}

static int64_t divisor_near(int64_t n, int64_t limit) {
  for (int64_t d = limit; d > 1; d--)
    if (n % d == 0) return d;
  return 1;
}

static void lay_out(view *v, int layout, const uint64_t *codes, int64_t n) {
  int64_t rows = divisor_near(n, 37), cols = n / rows, deep = divisor_near(cols, 11), mid = cols / deep;
  int64_t line[1] = {n}, matrix[2] = {rows, cols}, cube[3] = {rows, mid, deep}, ones[4] = {1, 1, n, 1};
  int64_t step[1] = {1}, padded[2] = {cols + 3, 1}, across[2] = {1, rows}, flipped[2] = {-cols, -1};
  int64_t permuted[3] = {mid, 1, rows * mid}, absurd[4] = {INT64_C(1) << 40, -17, 1, INT64_C(1) << 50};
  switch (layout) {
  case STRIDE_2:
  case STRIDE_3:
    step[0] = layout == STRIDE_2 ? 2 : 3;
    view_make(v, dtype, 1, line, step, -1);
    break;
  case STRIDE_7:
    step[0] = 7;
    view_make(v, dtype, 1, line, step, 1);
    break;
  case REVERSED:
  case REVERSED_2:
  case REVERSED_MISALIGNED:
    step[0] = layout == REVERSED_2 ? -2 : -1;
    view_make(v, dtype, 1, line, step, layout == REVERSED_MISALIGNED ? 1 : -1);
    break;
  case MATRIX_PADDED: view_make(v, dtype, 2, matrix, padded, -1); break;
  case MATRIX_TRANSPOSED: view_make(v, dtype, 2, matrix, across, -1); break;
  case MATRIX_FLIPPED: view_make(v, dtype, 2, matrix, flipped, -1); break;
  case CUBE_PERMUTED: view_make(v, dtype, 3, cube, permuted, 3); break;
  case ONES_AROUND:
    view_make(v, dtype, 1, line, NULL, -1);
    view_fill(v, codes);
    memcpy(v->shape, ones, sizeof ones);
    memcpy(v->strides, absurd, sizeof absurd);
    v->tensor.ndim = 4;
    v->tensor.strides = v->strides;
    return;
  case REPEATED:
    step[0] = 0;
    view_make(v, dtype, 1, line, step, -1);
    break;
  case AT_END: view_make(v, dtype, 1, line, NULL, -1); break;
  default: view_make(v, dtype, 1, line, NULL, layout);
  }
  view_fill(v, codes);
}

/* ---- accumulators other than exact ---------------------------------------------------------- */

static double value_of(sumac_dtype d, uint64_t bits) {
  oracle_number x = oracle_decode(d, bits);
  double magnitude = x.class == ORACLE_NAN ? NAN : x.class == ORACLE_INF ? INFINITY : ldexp((double)x.m, x.e);
  return x.negative ? -magnitude : magnitude;
}

static double rounded(const oracle_stats *stats, sumac_op op, uint32_t flags, int64_t ddof) {
  uint64_t bits = 0;
  oracle_result(stats, op, flags, ddof, SUMAC_F64, &bits);
  return value_of(SUMAC_F64, bits);
}

/* A floating-point accumulator's type: digits, last place of the least number, and where it ends. */
typedef struct acc_format {
  int digits, least, end;
} acc_format;

static acc_format format_of(sumac_acc acc) {
  switch (acc) {
  case SUMAC_ACC_F64: return (acc_format){53, -1074, 1024};
  case SUMAC_ACC_F32: return (acc_format){24, -149, 128};
  case SUMAC_ACC_F16: return (acc_format){11, -24, 16};
  default: return (acc_format){8, -133, 128};
  }
}

/* The number of the format that is nearest to v, ties to even. */
static double nearest(acc_format f, double v) {
  int e;
  if (!isfinite(v)) return v;
  frexp(v, &e);
  int place = e - f.digits > f.least ? e - f.digits : f.least;
  double r = ldexp(rint(ldexp(v, -place)), place);
  return fabs(r) >= ldexp(1, f.end) ? copysign(INFINITY, v) : r;
}

/* SUM, NORM1 or DOT in f16 or bf16, one rounded addition after the other in the order of the fixed tree:
 * blocks of 4,096 elements; in each, lane i of eight vectors adds every so manieth, and what fills no eight
 * vectors is added apart; then halves are folded, then neighbours. NaN where an element is infinite or NaN:
 * vectors without F16C leave such blocks to another order. */
static double emulated(const where *w, const char *isa, sumac_op op, sumac_acc acc) {
  enum { TREE_BLOCK = 4096, VECTORS = 8 };
  const acc_format f = format_of(acc);
  const int lanes = strcmp(isa, "base") == 0 ? 4 : strcmp(isa, "avx2") == 0 ? 8 : 16, step = VECTORS * lanes;
  double leaf[MOST / TREE_BLOCK + 1];
  int64_t leaves = 0;
  for (int64_t begin = 0; begin < w->n; begin += TREE_BLOCK) {
    int64_t n = w->n - begin < TREE_BLOCK ? w->n - begin : TREE_BLOCK;
    double sum[VECTORS * 16], rest = -0.0;
    for (int i = 0; i < step; i++) sum[i] = -0.0;
    for (int64_t i = 0; i < n; i++) {
      double a = value_of(dtype, w->a[begin + i]), b = op == SUMAC_DOT ? value_of(dtype, w->b[begin + i]) : 1;
      if (!isfinite(a) || !isfinite(b)) return NAN;
      double term = op == SUMAC_DOT ? nearest(f, a * b) : op == SUMAC_NORM1 ? fabs(a) : a;
      double *to = i < n - n % step ? &sum[i % step] : &rest;
      *to = nearest(f, *to + term);
    }
    for (int half = step / 2; half >= lanes; half /= 2)
      for (int i = 0; i < half; i++) sum[i] = nearest(f, sum[i] + sum[i + half]);
    for (int i = 0; i < lanes; i++) rest = nearest(f, rest + sum[i]);
    leaf[leaves++] = rest;
  }
  for (; leaves > 1; leaves = (leaves + 1) / 2) {
    for (int64_t i = 0; i < leaves / 2; i++) leaf[i] = nearest(f, leaf[2 * i] + leaf[2 * i + 1]);
    if (leaves % 2) leaf[leaves / 2] = leaf[leaves - 1];
  }
  return leaves ? leaf[0] : 0;
}

/* sumac.h says at most about (300 + log2 n)·u·Σ|terms|; 2 (64 + log2 n) is what is asked here. Products and
 * sums that may leave the accumulator's range are not judged. */
static int within_bound(const oracle_stats *stats, sumac_op op, sumac_acc acc, uint32_t flags, int64_t ddof,
                        sumac_dtype out, uint64_t bits) {
  double got = value_of(out, bits), want = rounded(stats, op, flags, ddof);
  double n = (double)(stats->n - (flags & SUMAC_SKIP_NAN ? stats->nan : 0));
  acc_format f = format_of(acc);
  double unit = ldexp(1, -f.digits), limit = ldexp(1, f.end - f.end / 16), least = ldexp(1, f.least);
  double out_unit = out.bits == 64 ? 0x1p-53 : 0x1p-24, out_least = out.bits == 64 ? 0x1p-1074 : 0x1p-149;
  static oracle_stats finite;
  finite = *stats;
  finite.plus_inf = finite.minus_inf = finite.invalid = 0;
  double terms = rounded(&finite, SUMAC_NORM1, flags, 0), squares = rounded(&finite, SUMAC_NORM2, flags, 0);
  squares *= squares;
  if (isnan(want)) return isnan(got);
  double largest = op == SUMAC_VAR || op == SUMAC_STD || op == SUMAC_NORM2 ? squares : terms;
  if (!(largest * (op == SUMAC_VAR || op == SUMAC_STD ? n : 1) < limit)) return 1;
  if (isinf(want) && stats->plus_inf + stats->minus_inf != 0) return got == want;
  double steps = 2 * (64 + log2(n + 1)) * unit, lost = (n + 1) * least, error;
  switch (op) {
  case SUMAC_MEAN: error = (steps * terms + lost) / n; break;
  case SUMAC_VAR:
  case SUMAC_STD: {
    double divisor = n - (double)ddof;
    error = 4 * (steps * squares + lost) / divisor;
    if (op == SUMAC_STD) error = got + want == 0 ? 0 : fmin(error / (got + want), sqrt(error) * 2);
    break;
  }
  case SUMAC_NORM2:
    error = want == 0 ? sqrt(lost) : fmin(steps * want + lost / want, steps * want + sqrt(lost));
    break;
  default: error = steps * terms + lost;
  }
  /* out of the output's range, or near its end: inf, or the largest number */
  double most = out.bits == 64 ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
  if (fabs(want) + error >= most && (isinf(got) || fabs(got) == most)) return (got < 0) == (want < 0);
  return fabs(got - want) <= error + 2 * out_unit * fabs(want) + out_least;
}

/* One value per engine's instruction set for all layouts and thread counts. */
typedef struct acc_values {
  int known[OPS][ACCS][ENGINES_MAX];
  uint64_t bits[OPS][ACCS][ENGINES_MAX];
} acc_values;

static int fits(sumac_dtype limit, const oracle_stats *stats, sumac_op op) {
  uint64_t ignored;
  oracle_value value;
  sumac_op sums[2] = {SUMAC_SUM, SUMAC_SUM};
  if (op == SUMAC_NORM1) sums[0] = sums[1] = SUMAC_NORM1;
  if (op == SUMAC_NORM2) sums[0] = sums[1] = SUMAC_NORM2;
  if (op == SUMAC_VAR || op == SUMAC_STD) sums[1] = SUMAC_NORM2;
  for (int i = 0; i < 2; i++) {
    oracle_finish(stats, sums[i], 0, 0, &value);
    value.root = 0; /* Σx² itself */
    if (oracle_round(&value, limit, 0, &ignored) != SUMAC_OK) return 0;
  }
  return 1;
}

/* Elements of stride 0 are counted, not added one by one: that may round differently. */
static void check_acc(const where *w, const engine *e, int isa, int repeated, sumac_op op, sumac_acc acc,
                      const sumac_tensor *x, const sumac_tensor *y, uint32_t flags, int64_t ddof,
                      const oracle_stats *stats, acc_values *values) {
  int integer = acc == SUMAC_ACC_I64 || acc == SUMAC_ACC_I32;
  sumac_dtype out = integer                 ? default_out(op, dtype)
                    : dtype_is_float(dtype) ? default_out(op, dtype)
                                            : SUMAC_F64;
  uint64_t bits = 0, want = 0;
  sumac_status status = call(e, op, x, y, acc, flags, ddof, out, &bits), wanted = SUMAC_OK;
  if (integer) {
    wanted = fits(acc == SUMAC_ACC_I64 ? SUMAC_I64 : SUMAC_I32, stats, op)
                 ? oracle_result(stats, op, flags, ddof, out, &want)
                 : SUMAC_ERR_RANGE;
    if (status != wanted || (wanted == SUMAC_OK && bits != want))
      report(w, e, op, acc, out, flags, "accumulator", status, bits, wanted, want);
    return;
  }
  if (status != SUMAC_OK || !within_bound(stats, op, acc, flags, ddof, out, bits)) {
    oracle_result(stats, op, flags, ddof, out, &want);
    report(w, e, op, acc, out, flags, "bound", status, bits, wanted, want);
  }
  if (acc > SUMAC_ACC_I64 && (op == SUMAC_SUM || op == SUMAC_NORM1 || op == SUMAC_DOT) && !repeated &&
      !values->known[op][acc][isa]) {
    double got = value_of(out, bits), sum = emulated(w, e->isa, op, acc);
    if (isfinite(sum) ? memcmp(&got, &sum, sizeof sum) != 0 : isinf(sum) && got != sum) {
      memcpy(&want, &sum, sizeof want);
      report(w, e, op, acc, out, flags, "emulation (wanted bits: f64)", status, bits, SUMAC_OK, want);
    }
  }
  if (repeated || on_device) return; /* there the tree depends on how elements lie */
  if (values->known[op][acc][isa] && values->bits[op][acc][isa] != bits)
    report(w, e, op, acc, out, flags, "another value before", status, bits, SUMAC_OK,
           values->bits[op][acc][isa]);
  values->known[op][acc][isa] = 1;
  values->bits[op][acc][isa] = bits;
}

/* ---- one array ------------------------------------------------------------------------------ */

/* A map has more than one operation, which differ in the last step: a sample takes one of them. */
static int is_chosen(sumac_op op, uint64_t seed) {
  if (walk_all || !on_device) return 1;
  return op == (seed % 2 ? SUMAC_SUM : SUMAC_MEAN) || op == (seed % 2 ? SUMAC_STD : SUMAC_VAR) ||
         op == SUMAC_DOT || op == SUMAC_NORM1 || op == SUMAC_NORM2;
}

enum { SOME_LAYOUT = -1 };

static void check_array(data_kind kind, int64_t n, int first_layout, const uint64_t *a, const uint64_t *b,
                        uint64_t seed) {
  static oracle_stats stats, products;
  static acc_values values;
  data_random random = {seed};
  int big = n > 10000;
  oracle_clear(&stats);
  oracle_clear(&products);
  memset(&values, 0, sizeof values);
  int equal = 1;
  for (int64_t i = 0; i < n; i++) {
    oracle_add(&stats, dtype, a[i], 1);
    oracle_add_product(&products, dtype, a[i], b[i], 1);
    equal &= a[i] == a[0] && b[i] == b[0];
  }

  /* the wanted results, once */
  enum { OUTS_MAX = DTYPES };
  struct {
    uint32_t flags;
    int64_t ddof;
    int outs;
    sumac_dtype out[OUTS_MAX];
    sumac_status status[OUTS_MAX];
    uint64_t bits[OUTS_MAX];
  } wanted[OPS];
  for (int op = 0; op < OPS; op++) {
    uint64_t r = data_next(&random);
    wanted[op].flags =
        (r & 1 ? SUMAC_SKIP_NAN : 0) | (r & 2 ? SUMAC_SATURATE : 0) | (r & 4 ? SUMAC_KEEPDIMS : 0);
    wanted[op].ddof = r >> 3 & 1 ? (int64_t)(r >> 4 & 3) : 0;
    wanted[op].outs = 0;
    for (int i = -1; i < DTYPES; i++) {
      sumac_dtype out = i < 0 ? default_out((sumac_op)op, dtype) : dtypes[i];
      int chosen = i < 0 || walk_all || (!big && data_below(&random, 7) == 0);
      if (!chosen || !out_exists((sumac_op)op, dtype, out) || (i >= 0 && same_dtype(out, wanted[op].out[0])))
        continue;
      int k = wanted[op].outs++;
      wanted[op].out[k] = out;
      wanted[op].status[k] = oracle_result(op == SUMAC_DOT ? &products : &stats, (sumac_op)op,
                                           wanted[op].flags, wanted[op].ddof, out, &wanted[op].bits[k]);
    }
  }

  int picks = walk_all ? LAYOUTS + 1 : big || on_device ? 2 : 3;
  if (first_layout == SOME_LAYOUT) first_layout = (int)(seed % OFFSETS);
  for (int pick = 0; pick < picks; pick++) {
    int layout = walk_all ? pick : pick == 0 ? first_layout : (int)data_below(&random, LAYOUTS + 1);
    if (layout == REPEATED && !equal) layout = AT_END;
    int other = walk_all || data_next(&random) % 2 ? layout : (int)data_below(&random, OFFSETS + 1);
    if (layout >= MATRIX_PADDED && layout != REPEATED) other = layout; /* x and y have one shape */
    view x, y;
    lay_out(&x, layout, a, n);
    lay_out(&y, other, b, n);
    device_tensor there[2];
    const sumac_tensor *px = &x.tensor, *py = &y.tensor;
    if (on_device) {
      device_copy(&there[0], px);
      device_copy(&there[1], py);
      px = &there[0].tensor;
      py = &there[1].tensor;
    }
    where w = {kind, n, layout_text(layout), seed, a, b};
    for (int i = 0; i < engine_count; i++) {
      const engine *e = data_next(&random) % 2 ? &engines[i] : &pooled[i];
      for (int op = 0; op < OPS; op++) {
        if (!acc_exists((sumac_op)op, dtype, SUMAC_ACC_EXACT) || !is_chosen((sumac_op)op, random.state))
          continue;
        int sampled = on_device && !walk_all;
        int from = sampled ? (int)data_below(&random, (uint64_t)wanted[op].outs) : 0;
        for (int k = from; k < (sampled ? from + 1 : wanted[op].outs); k++) {
          uint64_t bits = 0;
          sumac_status status = call(e, (sumac_op)op, px, py, SUMAC_ACC_EXACT, wanted[op].flags,
                                     wanted[op].ddof, wanted[op].out[k], &bits);
          uint64_t want = wanted[op].status[k] == SUMAC_ERR_EMPTY ? UNTOUCHED & low_bits(wanted[op].out[k])
                                                                  : wanted[op].bits[k];
          if (status != wanted[op].status[k] || bits != want)
            report(&w, e, (sumac_op)op, SUMAC_ACC_EXACT, wanted[op].out[k], wanted[op].flags, "difference",
                   status, bits, wanted[op].status[k], want);
        }
        for (int acc = SUMAC_ACC_F64; acc < ACCS; acc++)
          if (acc_exists((sumac_op)op, dtype, (sumac_acc)acc) && !(sampled && data_below(&random, 2)))
            check_acc(&w, e, i, layout == REPEATED, (sumac_op)op, (sumac_acc)acc, px, py, wanted[op].flags,
                      wanted[op].ddof, op == SUMAC_DOT ? &products : &stats, &values);
      }
    }
    if (on_device) device_free(&there[0]), device_free(&there[1]);
    view_free(&x);
    view_free(&y);
  }
}

/* ---- the walks ------------------------------------------------------------------------------ */

static const int64_t sizes[] = {0,    1,    2,    3,    7,    8,    9,      15,    16,   17,
                                31,   32,   33,   63,   64,   65,   127,    129,   255,  256,
                                257,  511,  512,  513,  1023, 1024, 1025,   2047,  2048, 2049,
                                4095, 4096, 4097, 8191, 8192, 8193, 100000, 140001};

static void walk_kind(void **state) {
  data_kind kind = *(data_kind *)*state;
  long before = differences;
  uint64_t *a = malloc(MOST * sizeof *a), *b = malloc(MOST * sizeof *b);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    if (sizes[s] > MOST_OF_WIDE && dtype.bits > 8) continue;
    uint64_t seed = ((uint64_t)kind << 32 | (uint64_t)sizes[s] << 8) + dtype.code * 64u + dtype.bits;
    data_random random = {seed};
    data_codes(dtype, kind, &random, a, (size_t)sizes[s]);
    data_codes(dtype, kind, &random, b, (size_t)sizes[s]);
    check_array(kind, sizes[s], SOME_LAYOUT, a, b, seed);
  }
  free(a);
  free(b);
  assert_int_equal(differences, before);
}

/* A device reads vectors of 16 bytes in tiles, the first of which may begin with bytes that are no elements:
 * sizes at both sides of where warps, tiles, blocks and the shapes of launches begin and end. */
static void walk_device(void **state) {
  static const int64_t vectors[] = {2, 32, 128, 512, 1024, 2048, 6144};
  data_kind kind = *(data_kind *)*state;
  if (walk_few && kind != DATA_NORMAL && kind != DATA_WIDE && kind != DATA_SPECIALS) skip();
  long before = differences;
  int64_t each = 128 / dtype.bits;
  uint64_t *a = malloc(MOST * sizeof *a), *b = malloc(MOST * sizeof *b);
  for (size_t s = 0; s < 3 * sizeof vectors / sizeof *vectors + 4; s++) {
    uint64_t seed = ((uint64_t)kind << 32 | (uint64_t)s << 8) + dtype.code * 64u + dtype.bits;
    data_random random = {seed};
    int64_t before_first = (int64_t)data_below(&random, (uint64_t)each), n = (int64_t)s;
    if (s == 2) n = 31;
    if (s == 3) n = MOST_OF_WIDE;
    if (walk_few && s > 3 && s % 4 != 0) continue;
    if (s > 3) n = vectors[(s - 4) / 3] * each - before_first + (int64_t)(s - 4) % 3 - 1;
    data_codes(dtype, kind, &random, a, (size_t)n);
    data_codes(dtype, kind, &random, b, (size_t)n);
    check_array(kind, n, (int)before_first * dtype.bits / 8, a, b, seed);
  }
  free(a);
  free(b);
  assert_int_equal(differences, before);
}

/* A special at every position of small arrays and around every power of two of large ones. */
static void walk_specials(void **state) {
  (void)state;
  if (walk_few) skip();
  static const double specials[] = {NAN, INFINITY, -INFINITY, -0.0};
  static const int64_t lengths[] = {1, 2, 3, 5, 8, 16, 17, 33, 67, 1000, 20000};
  long before = differences;
  int count = dtype_is_float(dtype) ? 4 : 0;
  uint64_t *a = malloc(20000 * sizeof *a), *b = malloc(20000 * sizeof *b);
  for (size_t s = 0; s < sizeof lengths / sizeof *lengths; s++)
    for (int64_t n = lengths[s], at = 0; at < n; at++)
      for (int k = 0; k < count; k++) {
        int64_t near = (at + 1) & at;
        if (n > 100 && near != 0 && near != 1 && at != n - 1) continue;
        if ((n > 10000 || (on_device && !walk_all)) && k != (int)(at % 4)) continue;
        uint64_t seed = (uint64_t)n << 32 | (uint64_t)at << 4 | (uint64_t)k;
        data_random random = {seed};
        data_codes(dtype, DATA_NORMAL, &random, a, (size_t)n);
        data_codes(dtype, DATA_NORMAL, &random, b, (size_t)n);
        if (at % 3 == 2) b[at] = data_code(dtype, 0);
        a[at] = data_code(dtype, specials[k]);
        check_array(DATA_NORMAL, n, SOME_LAYOUT, a, b, seed);
      }
  free(a);
  free(b);
  assert_int_equal(differences, before);
}

/* Random rank, shape, strides (also 0 and overlapping), axes, flags and output layout. */
static void walk_axes(void **state) {
  (void)state;
  static const int64_t lengths[] = {0, 1, 2, 3, 4, 5, 8, 17, 40};
  long before = differences;
  int rounds = walk_all ? 20000 : walk_few ? 20 : on_device ? 200 : 1000;
  for (int round = 0; round < rounds; round++) {
    uint64_t seed = ((uint64_t)round << 16) + dtype.code * 64u + dtype.bits;
    data_random random = {seed};
    int64_t shape[VIEW_DIMS], strides[VIEW_DIMS], other[VIEW_DIMS], dense = 1, total = 1;
    int ndim = (int)data_below(&random, 5), order[VIEW_DIMS], how = (int)data_below(&random, 4);
    for (int i = 0; i < ndim; i++) {
      int64_t length = data_below(&random, 12) == 0 ? 0 : 1 + (int64_t)data_below(&random, 7 + (ndim < 3));
      shape[i] = lengths[length];
      order[i] = i;
      total *= shape[i];
    }
    if (total > 20000) continue;
    for (int i = ndim;
         i-- > 0;) { /* strides of a dense array of permuted axes, padded, flipped or repeated */
      int j = (int)data_below(&random, (uint64_t)i + 1), axis = order[j];
      order[j] = order[i];
      strides[axis] = how == 0 ? 0 : dense;
      dense = (how == 0 ? dense : dense * (shape[axis] == 0 ? 1 : shape[axis])) + (how == 2 ? 1 : 0);
      if (how == 3 && data_next(&random) % 2)
        strides[axis] = data_next(&random) % 3 == 0 ? 0 : -strides[axis];
    }
    if (how == 0) { /* row-major */
      dense = 1;
      for (int i = ndim; i-- > 0; dense *= shape[i] == 0 ? 1 : shape[i]) strides[i] = dense;
    }
    view x, y, got, want;
    int offset = (int)data_below(&random, 17) - 1;
    view_make(&x, dtype, ndim, shape, strides, offset);
    for (int i = 0; i < ndim; i++) other[i] = data_next(&random) % 2 ? strides[i] : -strides[i];
    view_make(&y, dtype, ndim, shape, other, -1);
    data_kind kind = (data_kind)data_below(&random, DATA_KINDS);
    size_t elements = x.span_size / (dtype.bits / 8);
    uint64_t *codes = malloc((elements + 1) * sizeof *codes);
    data_codes(dtype, kind, &random, codes, elements);
    data_pack(dtype, codes, elements, x.span);
    data_codes(dtype, kind, &random, codes, elements);
    data_pack(dtype, codes, elements, y.span);
    free(codes);

    sumac_op op = (sumac_op)data_below(&random, OPS);
    while (!acc_exists(op, dtype, SUMAC_ACC_EXACT)) op = (sumac_op)data_below(&random, OPS);
    int32_t axes[VIEW_DIMS], naxes = 0;
    for (int32_t i = 0; i < ndim; i++)
      if (data_next(&random) % 2) axes[naxes++] = data_next(&random) % 2 ? i : i - ndim;
    for (int32_t i = naxes; i > 1; i--) {
      int32_t j = (int32_t)data_below(&random, (uint64_t)i), swap = axes[i - 1];
      axes[i - 1] = axes[j];
      axes[j] = swap;
    }
    sumac_options options = {.axes = data_below(&random, 5) == 0 ? NULL : axes,
                             .flags = data_next(&random) & 7};
    options.naxes = options.axes == NULL ? 0 : naxes;
    options.ddof = (int64_t)data_below(&random, 3);

    sumac_dtype out = default_out(op, dtype), type;
    int64_t out_shape[VIEW_DIMS], out_strides[VIEW_DIMS];
    int32_t out_ndim = -1;
    assert_int_equal(sumac_result_type(op, &x.tensor, &options, &type, &out_ndim, out_shape), SUMAC_OK);
    assert_true(same_dtype(type, out));
    if (data_next(&random) % 2) out = dtypes[data_below(&random, DTYPES)];
    if (!out_exists(op, dtype, out)) out = SUMAC_F32;
    dense = 1;
    for (int32_t i = 0; i < out_ndim; i++) { /* column-major, with gaps */
      out_strides[i] = data_next(&random) % 3 ? dense : -dense;
      dense = dense * out_shape[i] + 1;
    }
    int out_offset = (int)data_below(&random, 9) - 1, plain = data_next(&random) % 2;
    view_make(&got, out, out_ndim, out_shape, plain ? NULL : out_strides, out_offset);
    view_make(&want, out, out_ndim, out_shape, plain ? NULL : out_strides, out_offset);
    sumac_status wanted =
        oracle_reduce(op, &x.tensor, op == SUMAC_DOT ? &y.tensor : NULL, &options, &want.tensor);
    if (wanted == SUMAC_ERR_EMPTY) memset(want.span, 0xff, want.span_size);
    char layout[200];
    snprintf(layout, sizeof layout, "random axes, rank %d, %d of them reduced, strides of kind %d, offset %d",
             ndim, options.axes == NULL ? ndim : naxes, how, offset);
    device_tensor there[3];
    const sumac_tensor *px = &x.tensor, *py = &y.tensor;
    int many = on_device && !walk_all && view_count(&got) > 40; /* a launch each */
    if (on_device) {
      device_copy(&there[0], px);
      device_copy(&there[1], py);
      device_copy(&there[2], &got.tensor);
      px = &there[0].tensor;
      py = &there[1].tensor;
    }
    where w = {kind, view_count(&x), layout, seed, NULL, NULL};
    for (int i = 0; i < engine_count && !many; i++) {
      const engine *e = data_next(&random) % 2 ? &engines[i] : &pooled[i];
      memset(got.span, 0xff, got.span_size);
      sumac_status status =
          reduce(e, op, px, py, &options, &got.tensor, on_device && round % 2 ? &there[2] : NULL, got.span);
      calls++;
      size_t at = 0;
      while (at < got.span_size && got.span[at] == want.span[at]) at++;
      if (status != wanted || at < got.span_size)
        report(&w, e, op, SUMAC_ACC_EXACT, out, options.flags, "difference at a byte", status,
               at < got.span_size ? got.span[at] : 0, wanted, at < got.span_size ? want.span[at] : 0);
    }
    for (int i = 0; i < 3 && on_device; i++) device_free(&there[i]);
    view_free(&x);
    view_free(&y);
    view_free(&got);
    view_free(&want);
  }
  assert_int_equal(differences, before);
}

/* What does not exist fails, and the sentence names what was asked for and what does exist. */
static void refuse_the_rest(void **state) {
  (void)state;
  uint64_t code = data_code(dtype, 1);
  view x;
  view_array(&x, dtype, &code, 1);
  device_tensor there;
  if (on_device) device_copy(&there, &x.tensor);
  const sumac_tensor *px = on_device ? &there.tensor : &x.tensor;
  for (int op = 0; op < OPS; op++)
    for (int acc = 0; acc < ACCS; acc++)
      for (int i = 0; i < DTYPES; i++) {
        int by_acc = !acc_exists((sumac_op)op, dtype, (sumac_acc)acc),
            by_out = !out_exists((sumac_op)op, dtype, dtypes[i]);
        uint64_t bits = 0;
        sumac_status status = call(&engines[0], (sumac_op)op, px, px, (sumac_acc)acc, 0, 0, dtypes[i], &bits);
        if (!by_acc && !by_out) {
          if (status != SUMAC_OK)
            fail_msg("%s of %s, acc %s, out %s: %s", op_text[op], dtype_text(dtype), acc_text[acc],
                     dtype_text(dtypes[i]), sumac_error_message());
          continue;
        }
        const char *sentence = sumac_error_message();
        int named = by_acc || strstr(sentence, "bool") != NULL;
        for (int k = 0; k < ACCS && by_acc; k++)
          if (acc_exists((sumac_op)op, dtype, (sumac_acc)k) || k == acc)
            named &= strstr(sentence, acc_text[k]) != NULL;
        for (int k = 0; k < DTYPES && by_out && !by_acc; k++)
          if (k < 6 || dtypes[k].bits == 8 || dtypes[k].bits == 64) /* i8...i64 names the ones between */
            if (out_exists((sumac_op)op, dtype, dtypes[k]))
              named &= strstr(sentence, dtype_text(dtypes[k])) != NULL;
        if (on_device && !named) /* the host would take it */
          named =
              (strstr(sentence, op_text[op]) != NULL && strstr(sentence, "not supported on CUDA devices")) ||
              strstr(sentence, "bool") != NULL;
        if (status != SUMAC_ERR_UNSUPPORTED || bits != (UNTOUCHED & low_bits(dtypes[i])) || !named)
          fail_msg("%s of %s, acc %s, out %s gives %s: \"%s\"", op_text[op], dtype_text(dtype), acc_text[acc],
                   dtype_text(dtypes[i]), sumac_status_name(status), sentence);
      }
  if (on_device) device_free(&there);
  view_free(&x);
}

int main(int argc, char **argv) {
  int found = 0;
  for (int i = 0; i < DTYPES && argc > 1; i++)
    if (strcmp(argv[1], dtype_text(dtypes[i])) == 0) dtype = dtypes[i], found = 1;
  if (!found) {
    fprintf(stderr, "usage: conformance DTYPE [cuda] [all | few]\n");
    return 2;
  }
  on_device = argc > 2 && strcmp(argv[2], "cuda") == 0;
  walk_all = argc > 2 && strcmp(argv[argc - 1], "all") == 0;
  walk_few = argc > 2 && strcmp(argv[argc - 1], "few") == 0;
  if (on_device && !device_open()) {
    fprintf(stderr, "%s\n", sumac_error_message());
    return 1;
  }
  engine_count = on_device ? engines_open_device(engines) : engines_open(engines, 1);
  if (on_device)
    engines_open_device(pooled);
  else
    engines_open(pooled, 3);

  struct CMUnitTest tests[DATA_KINDS + 3];
  data_kind kinds[DATA_KINDS];
  for (int i = 0; i < DATA_KINDS; i++) {
    kinds[i] = (data_kind)i;
    tests[i] = (struct CMUnitTest){data_kind_name(kinds[i]), on_device ? walk_device : walk_kind, NULL, NULL,
                                   &kinds[i]};
  }
  tests[DATA_KINDS] = (struct CMUnitTest)cmocka_unit_test(walk_specials);
  tests[DATA_KINDS + 1] = (struct CMUnitTest)cmocka_unit_test(walk_axes);
  tests[DATA_KINDS + 2] = (struct CMUnitTest)cmocka_unit_test(refuse_the_rest);
  int failed = cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
  printf("%s: %ld calls, %ld differences\n", argv[1], calls, differences);
  engines_close(engines, engine_count);
  engines_close(pooled, engine_count);
  return failed != 0 || differences != 0;
}
