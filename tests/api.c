/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract around the numbers: what is refused, with which status and sentence; that a refusal leaves
 * outputs alone; allocators; names; the layout that DLPack has.
 */
#include "data.h"
#include "view.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#define HAVE_DLPACK 1
#endif
#endif

static void ok(sumac_status status) {
  if (status != SUMAC_OK) fail_msg("%s", sumac_error_message());
}

/* A failure of that status whose sentence holds every one of the words: what was wrong, where, and what is
 * allowed. */
static void refused(const char *what, sumac_status status, sumac_status wanted, const char *words) {
  const char *sentence = sumac_error_message();
  char copy[200];
  if (status != wanted)
    fail_msg("%s: %s (\"%s\"), want %s", what, sumac_status_name(status), sentence,
             sumac_status_name(wanted));
  snprintf(copy, sizeof copy, "%s", words);
  for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
    if (strstr(sentence, word) == NULL)
      fail_msg("%s: the sentence \"%s\" does not name %s", what, sentence, word);
  if (strchr(sentence, '\n') != NULL || strlen(sentence) < 10)
    fail_msg("%s: \"%s\" is no sentence", what, sentence);
}

/* ---- refusals ------------------------------------------------------------------------------- */

typedef struct problem {
  sumac_op op;
  sumac_tensor x, y, out;
  int64_t shape[3], y_shape[3], out_shape[3], strides[3];
  int32_t axes[4];
  sumac_options options;
  double data[8], other[8], result[8];
  int with_y;
} problem;

/* A sound one: the sum of a 2×3 matrix along axis 1. */
static void sound(problem *p) {
  memset(p, 0, sizeof *p);
  p->op = SUMAC_SUM;
  p->shape[0] = p->y_shape[0] = 2;
  p->shape[1] = p->y_shape[1] = 3;
  p->out_shape[0] = 2;
  for (int i = 0; i < 6; i++) p->data[i] = i, p->other[i] = 1;
  p->x = tensor_of(SUMAC_F64, p->data, p->shape);
  p->y = tensor_of(SUMAC_F64, p->other, p->y_shape);
  p->out = tensor_of(SUMAC_F64, p->result, p->out_shape);
  p->x.ndim = p->y.ndim = 2;
  p->axes[0] = 1;
  p->options.axes = p->axes;
  p->options.naxes = 1;
  for (int i = 0; i < 8; i++) p->result[i] = 77;
}

static sumac_status solve(problem *p) {
  return sumac_reduce(NULL, p->op, &p->x, p->with_y ? &p->y : NULL, &p->options, &p->out);
}

static void check_refused(const char *what, problem *p, sumac_status wanted, const char *words) {
  refused(what, solve(p), wanted, words);
  for (int i = 0; i < 8; i++) assert_true(p->result[i] == 77);
  /* where no output is involved, its type and shape are refused just so */
  sumac_dtype dtype = {99, 99, 99};
  int32_t ndim = 99;
  int64_t shape[SUMAC_MAX_DIMS];
  if (sumac_result_type(p->op, &p->x, &p->options, &dtype, &ndim, shape) != SUMAC_OK)
    assert_true(dtype.code == 99 && ndim == 99);
}

static void reductions_that_are_refused(void **state) {
  (void)state;
  problem p;
  sound(&p);
  ok(solve(&p));
  assert_true(p.result[0] == 3 && p.result[1] == 12 && p.result[2] == 77);

  sound(&p);
  refused("x NULL", sumac_reduce(NULL, SUMAC_SUM, NULL, NULL, NULL, &p.out), SUMAC_ERR_ARGUMENT, "x NULL");
  refused("out NULL", sumac_reduce(NULL, SUMAC_SUM, &p.x, NULL, NULL, NULL), SUMAC_ERR_ARGUMENT, "out NULL");
  refused("result_type of NULL", sumac_result_type(SUMAC_SUM, NULL, NULL, NULL, NULL, NULL),
          SUMAC_ERR_ARGUMENT, "NULL");

  static const int bad_ops[] = {-1, OPS, 1000};
  for (int i = 0; i < 3; i++) {
    sound(&p), p.op = (sumac_op)bad_ops[i];
    check_refused("unknown op", &p, SUMAC_ERR_ARGUMENT, "");
  }
  static const int bad_accs[] = {-1, 7, 77};
  for (int i = 0; i < 3; i++) {
    sound(&p), p.options.acc = bad_accs[i];
    check_refused("unknown acc", &p, SUMAC_ERR_ARGUMENT, "acc");
  }
  for (int bit = 3; bit < 32; bit++) {
    sound(&p), p.options.flags = 1u << bit;
    check_refused("unknown flag", &p, SUMAC_ERR_ARGUMENT, "flag");
  }
  sound(&p), p.options.reserved0 = 1;
  check_refused("reserved0", &p, SUMAC_ERR_ARGUMENT, "reserved");
  for (int i = 0; i < 3; i++) {
    sound(&p), p.options.reserved[i] = 1;
    check_refused("reserved", &p, SUMAC_ERR_ARGUMENT, "reserved");
  }
  for (int op = SUMAC_VAR; op <= SUMAC_STD; op++) {
    sound(&p), p.op = (sumac_op)op, p.options.ddof = -1;
    check_refused("ddof -1", &p, SUMAC_ERR_ARGUMENT, "ddof -1");
    sound(&p), p.op = (sumac_op)op, p.options.ddof = INT64_MIN;
    check_refused("ddof lowest", &p, SUMAC_ERR_ARGUMENT, "ddof");
  }

  /* axes */
  static const int32_t bad_axes[] = {2, -3, 64, INT32_MIN, INT32_MAX};
  for (int i = 0; i < 5; i++) {
    char number[20];
    snprintf(number, sizeof number, "ax %d", bad_axes[i]);
    sound(&p), p.axes[0] = bad_axes[i];
    check_refused("axis out of range", &p, SUMAC_ERR_ARGUMENT, number);
  }
  sound(&p), p.options.naxes = 2, p.axes[1] = -1;
  check_refused("an axis twice", &p, SUMAC_ERR_ARGUMENT, "ax twice");
  sound(&p), p.options.naxes = 3, p.axes[1] = 0, p.axes[2] = 1;
  check_refused("more axes than there are", &p, SUMAC_ERR_ARGUMENT, "ax");
  sound(&p), p.options.naxes = -1;
  check_refused("naxes -1", &p, SUMAC_ERR_ARGUMENT, "naxes");
  sound(&p), p.options.axes = NULL;
  check_refused("naxes without axes", &p, SUMAC_ERR_ARGUMENT, "axes");

  /* shapes */
  sound(&p), p.x.ndim = -1;
  check_refused("ndim -1", &p, SUMAC_ERR_ARGUMENT, "x ndim -1");
  sound(&p), p.x.ndim = 65;
  check_refused("ndim 65", &p, SUMAC_ERR_ARGUMENT, "x ndim 65 64");
  sound(&p), p.x.shape = NULL;
  check_refused("shape NULL", &p, SUMAC_ERR_ARGUMENT, "x shape");
  sound(&p), p.shape[1] = -3;
  check_refused("a negative length", &p, SUMAC_ERR_ARGUMENT, "x -3");
  sound(&p), p.shape[0] = 0, p.shape[1] = -1;
  check_refused("a negative length beside 0", &p, SUMAC_ERR_ARGUMENT, "x -1");
  sound(&p), p.x.data = NULL;
  check_refused("data NULL", &p, SUMAC_ERR_ARGUMENT, "x data");
  sound(&p), p.out.data = NULL;
  check_refused("out data NULL", &p, SUMAC_ERR_ARGUMENT, "out data");
  sound(&p), p.out_shape[0] = 3;
  check_refused("wrong out length", &p, SUMAC_ERR_ARGUMENT, "out 3 2");
  sound(&p), p.out.ndim = 0;
  check_refused("wrong out rank", &p, SUMAC_ERR_ARGUMENT, "out");
  sound(&p), p.options.flags = SUMAC_KEEPDIMS;
  check_refused("out without the kept axis", &p, SUMAC_ERR_ARGUMENT, "out");
  sound(&p), p.out_shape[0] = 2, p.out_shape[1] = 1, p.out.ndim = 2;
  check_refused("out with an axis too many", &p, SUMAC_ERR_ARGUMENT, "out");

  /* more than 2^62 elements, or bytes beyond the address space */
  sound(&p), p.shape[0] = INT64_C(1) << 32, p.shape[1] = (INT64_C(1) << 30) + 1, p.x.strides = p.strides;
  check_refused("2^62 + 2^32 elements", &p, SUMAC_ERR_ARGUMENT, "x 2^62");
  sound(&p), p.shape[0] = p.shape[1] = INT64_C(1) << 33, p.x.strides = p.strides;
  check_refused("a count that wraps", &p, SUMAC_ERR_ARGUMENT, "x");
  sound(&p), p.shape[0] = INT64_MAX, p.shape[1] = 2, p.x.strides = p.strides;
  check_refused("the greatest length", &p, SUMAC_ERR_ARGUMENT, "x");
  sound(&p), p.shape[0] = INT64_C(1) << 31, p.shape[1] = INT64_C(1) << 30;
  check_refused("2^64 bytes", &p, SUMAC_ERR_ARGUMENT, "x");
  sound(&p), p.strides[0] = 3, p.strides[1] = INT64_C(1) << 61, p.x.strides = p.strides;
  check_refused("a stride of 2^64 bytes", &p, SUMAC_ERR_ARGUMENT, "x");
  sound(&p), p.strides[0] = INT64_MIN, p.strides[1] = 1, p.x.strides = p.strides;
  check_refused("the least stride", &p, SUMAC_ERR_ARGUMENT, "x");
  sound(&p), p.strides[0] = INT64_MIN / 8, p.strides[1] = INT64_MIN / 8, p.x.strides = p.strides;
  check_refused("strides whose reach wraps", &p, SUMAC_ERR_ARGUMENT, "x");
  sound(&p), p.x.byte_offset = UINT64_MAX - 8;
  check_refused("a byte offset that wraps", &p, SUMAC_ERR_ARGUMENT, "x");

  /* types and devices */
  static const sumac_dtype bad_types[] = {
      {2, 64, 2}, {2, 64, 0},  {2, 8, 1},  {2, 80, 1}, {2, 128, 1}, {5, 64, 1},  {5, 128, 1}, {3, 64, 1},
      {0, 4, 1},  {0, 128, 1}, {1, 0, 1},  {6, 1, 1},  {4, 32, 1},  {11, 8, 1},  {13, 8, 1},  {7, 8, 1},
      {8, 8, 1},  {9, 8, 1},   {14, 8, 1}, {15, 6, 1}, {17, 4, 1},  {255, 8, 1}, {2, 16, 4},  {10, 16, 1}};
  for (size_t i = 0; i < sizeof bad_types / sizeof *bad_types; i++) {
    sound(&p), p.x.dtype = bad_types[i];
    check_refused("a dtype that is not supported", &p, SUMAC_ERR_UNSUPPORTED,
                  bad_types[i].lanes == 1 ? "x f64 bf16 e4m3fn u8 bool" : "x lanes 1");
    sound(&p), p.out.dtype = bad_types[i];
    check_refused("an output dtype that is not supported", &p, SUMAC_ERR_UNSUPPORTED,
                  bad_types[i].lanes == 1 ? "out f64 bf16 e4m3fn u8" : "out lanes 1");
  }
  sound(&p), p.x.dtype.code = 5;
  check_refused("complex", &p, SUMAC_ERR_UNSUPPORTED, "complex");
  sound(&p), p.x.dtype = (sumac_dtype){11, 8, 1};
  check_refused("e4m3fnuz", &p, SUMAC_ERR_UNSUPPORTED, "e4m3fnuz");
  sound(&p), p.x.dtype.lanes = 4;
  check_refused("lanes 4", &p, SUMAC_ERR_UNSUPPORTED, "lanes 4");
  static const int32_t devices[] = {4, 10, 12, 14, 1000};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    char number[20];
    snprintf(number, sizeof number, "x device %d", devices[i]);
    sound(&p), p.x.device.type = devices[i];
    check_refused("another device", &p, SUMAC_ERR_UNSUPPORTED, number);
    sound(&p), p.out.device.type = devices[i];
    check_refused("another device for out", &p, SUMAC_ERR_UNSUPPORTED, "out device");
  }
  for (int32_t type = 0; type <= 3; type += type == 1 ? 2 : 1) { /* unset, host, pinned host */
    sound(&p), p.x.device.type = type;
    ok(solve(&p));
  }
  sound(&p), p.out.device.type = 2;
  check_refused("out on a device, x not", &p, SUMAC_ERR_ARGUMENT, "out");

  /* y */
  sound(&p), p.op = SUMAC_DOT;
  check_refused("dot without y", &p, SUMAC_ERR_ARGUMENT, "y");
  for (int op = 0; op < OPS; op++)
    if (op != SUMAC_DOT) {
      sound(&p), p.op = (sumac_op)op, p.with_y = 1;
      if (op == SUMAC_ARGMIN || op == SUMAC_ARGMAX) p.out.dtype = SUMAC_I64;
      check_refused("y without dot", &p, SUMAC_ERR_ARGUMENT, "y");
    }
  sound(&p), p.op = SUMAC_DOT, p.with_y = 1;
  ok(solve(&p));
  assert_true(p.result[0] == 3 && p.result[1] == 12);
  sound(&p), p.op = SUMAC_DOT, p.with_y = 1, p.y_shape[1] = 2;
  check_refused("y of another shape", &p, SUMAC_ERR_ARGUMENT, "y shape");
  sound(&p), p.op = SUMAC_DOT, p.with_y = 1, p.y.ndim = 1;
  check_refused("y of another rank", &p, SUMAC_ERR_ARGUMENT, "y");
  sound(&p), p.op = SUMAC_DOT, p.with_y = 1, p.y.dtype = SUMAC_I64;
  check_refused("y of another dtype", &p, SUMAC_ERR_UNSUPPORTED, "y f64 i64");

  /* nothing to select from */
  for (int op = SUMAC_MIN; op <= SUMAC_ARGMAX; op++) {
    sound(&p), p.op = (sumac_op)op, p.shape[1] = 0;
    check_refused("an extreme of nothing", &p, SUMAC_ERR_EMPTY, op_text[op]);
    sound(&p), p.op = (sumac_op)op, p.options.flags = SUMAC_SKIP_NAN;
    p.data[3] = p.data[4] = p.data[5] = (double)NAN;
    check_refused("an extreme of NaN alone, skipped", &p, SUMAC_ERR_EMPTY, op_text[op]);
    sound(&p), p.op = (sumac_op)op, p.shape[0] = 0, p.out_shape[0] = 0;
    ok(solve(&p)); /* no output, no error */
  }
}

/* A failure that a worker thread meets is the caller's to read. */
static void sentences_from_workers(void **state) {
  (void)state;
  enum { ROWS = 4000, COLUMNS = 500 };
  static double x[ROWS][COLUMNS];
  static double out[ROWS];
  int64_t shape[2] = {ROWS, COLUMNS}, zero = 0;
  for (int at = 0; at < ROWS; at += 333) {
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < COLUMNS; j++) x[i][j] = i == at ? (double)NAN : 1;
    sumac_config config = {.threads = 4};
    sumac_context *context;
    ok(sumac_context_create(&config, &context));
    int32_t axis = 1;
    sumac_options options = {.axes = &axis, .naxes = 1, .flags = SUMAC_SKIP_NAN};
    sumac_tensor t = tensor_of(SUMAC_F64, x, shape), to = tensor_of(SUMAC_F64, out, shape),
                 none = scalar_of(SUMAC_F64, out);
    t.ndim = 2;
    for (int i = 0; i < ROWS; i++) out[i] = 77;
    none.ndim = -1, none.shape = &zero; /* another sentence to be replaced */
    assert_int_equal(sumac_reduce(context, SUMAC_SUM, &none, NULL, NULL, &none), SUMAC_ERR_ARGUMENT);
    refused("a row of NaN", sumac_reduce(context, SUMAC_MAX, &t, NULL, &options, &to), SUMAC_ERR_EMPTY,
            "max NaN");
    for (int i = 0; i < ROWS; i++) assert_true(out[i] == 77);
    sumac_context_destroy(context);
  }
}

/* Out of range is written all the same: saturated, and the neighbours as they should be. */
static void results_that_do_not_fit(void **state) {
  (void)state;
  double x[5] = {1e30, -1e30, 7, (double)NAN, (double)INFINITY};
  int8_t out[7] = {55, 55, 55, 55, 55, 55, 55};
  int64_t n = 5;
  sumac_tensor in = tensor_of(SUMAC_F64, x, &n), to = tensor_of(SUMAC_I8, out + 1, &n);
  int32_t none = 0;
  sumac_options options = {.axes = &none};
  refused("i8", sumac_reduce(NULL, SUMAC_SUM, &in, NULL, &options, &to), SUMAC_ERR_RANGE, "i8");
  const int8_t want[7] = {55, 127, -128, 7, 0, 127, 55};
  assert_memory_equal(out, want, 7);
  memset(out, 55, sizeof out);
  n = 3, options.flags = SUMAC_SATURATE;
  ok(sumac_reduce(NULL, SUMAC_SUM, &in, NULL, &options, &to));
  assert_memory_equal(out, "\x37\x7f\x80\x07\x37\x37\x37", 7);
}

static void states_that_are_refused(void **state) {
  (void)state;
  sumac_state *sum, *dot, *narrow, *none;
  double x[2] = {1, 2}, out = 77;
  float f = 1;
  int64_t two = 2, one = 1;
  sumac_tensor t = tensor_of(SUMAC_F64, x, &two), u = tensor_of(SUMAC_F32, &f, &one),
               to = scalar_of(SUMAC_F64, &out);
  ok(sumac_state_create(NULL, SUMAC_KIND_SUM, SUMAC_F64, &sum));
  ok(sumac_state_create(NULL, SUMAC_KIND_DOT, SUMAC_F64, &dot));
  ok(sumac_state_create(NULL, SUMAC_KIND_SUM, SUMAC_F32, &narrow));
  none = sum;
  refused("kind -1", sumac_state_create(NULL, (sumac_kind)-1, SUMAC_F64, &none), SUMAC_ERR_ARGUMENT, "kind");
  refused("kind 5", sumac_state_create(NULL, (sumac_kind)5, SUMAC_F64, &none), SUMAC_ERR_ARGUMENT, "kind");
  refused("complex", sumac_state_create(NULL, SUMAC_KIND_SUM, (sumac_dtype){5, 64, 1}, &none),
          SUMAC_ERR_UNSUPPORTED, "f64");
  refused("no place", sumac_state_create(NULL, SUMAC_KIND_SUM, SUMAC_F64, NULL), SUMAC_ERR_ARGUMENT, "NULL");
  refused("add NULL", sumac_state_add(sum, NULL, NULL), SUMAC_ERR_ARGUMENT, "x NULL");
  refused("add to NULL", sumac_state_add(NULL, &t, NULL), SUMAC_ERR_ARGUMENT, "NULL");
  refused("sum with y", sumac_state_add(sum, &t, &t), SUMAC_ERR_ARGUMENT, "y");
  refused("dot without y", sumac_state_add(dot, &t, NULL), SUMAC_ERR_ARGUMENT, "y");
  refused("dot of other dtypes", sumac_state_add(dot, &t, &u), SUMAC_ERR_UNSUPPORTED, "y f64 f32");
  sumac_tensor shorter = tensor_of(SUMAC_F64, x, &one);
  refused("dot of other shapes", sumac_state_add(dot, &t, &shorter), SUMAC_ERR_ARGUMENT, "y shape");
  sumac_status status = sumac_state_add(narrow, &t, NULL);
  assert_true(status == SUMAC_ERR_UNSUPPORTED || status == SUMAC_ERR_ARGUMENT);
  refused("f64 into f32", status, status, "f64 f32");
  const sumac_tensor *many[2] = {&t, NULL};
  refused("one of many NULL", sumac_state_add_many(sum, 2, many, NULL), SUMAC_ERR_ARGUMENT, "NULL");
  refused("many NULL", sumac_state_add_many(sum, 2, NULL, NULL), SUMAC_ERR_ARGUMENT, "NULL");
  ok(sumac_state_add_many(sum, 0, NULL, NULL));
  int64_t n = -1;
  ok(sumac_state_info(sum, NULL, NULL, &n, NULL));
  assert_int_equal(n, 0); /* all are checked before any is added */
  refused("other kinds", sumac_state_merge(sum, dot), SUMAC_ERR_ARGUMENT, "sum dot");
  refused("other ranges", sumac_state_merge(sum, narrow), SUMAC_ERR_ARGUMENT, "f64 f32");
  refused("merge NULL", sumac_state_merge(sum, NULL), SUMAC_ERR_ARGUMENT, "NULL");
  for (int op = 0; op < OPS; op++) {
    if (op != SUMAC_SUM && op != SUMAC_MEAN)
      refused("op of a sum", sumac_state_result(sum, (sumac_op)op, NULL, &to),
              op < OPS ? SUMAC_ERR_UNSUPPORTED : SUMAC_ERR_ARGUMENT, "sum mean");
    if (op != SUMAC_DOT)
      refused("op of a dot", sumac_state_result(dot, (sumac_op)op, NULL, &to), SUMAC_ERR_UNSUPPORTED, "dot");
  }
  int32_t axes[1] = {0};
  sumac_options with_axes = {.axes = axes}, with_acc = {.acc = SUMAC_ACC_F64},
                keep = {.flags = SUMAC_KEEPDIMS};
  refused("axes", sumac_state_result(sum, SUMAC_SUM, &with_axes, &to), SUMAC_ERR_ARGUMENT, "axes");
  refused("acc", sumac_state_result(sum, SUMAC_SUM, &with_acc, &to), SUMAC_ERR_ARGUMENT, "acc");
  refused("keepdims", sumac_state_result(sum, SUMAC_SUM, &keep, &to), SUMAC_ERR_ARGUMENT, "");
  sumac_tensor pair = tensor_of(SUMAC_F64, x, &two);
  refused("two outputs", sumac_state_result(sum, SUMAC_SUM, NULL, &pair), SUMAC_ERR_ARGUMENT, "out");
  refused("no output", sumac_state_result(sum, SUMAC_SUM, NULL, NULL), SUMAC_ERR_ARGUMENT, "out NULL");
  assert_true(out == 77);
  size_t size = sumac_state_size(sum);
  unsigned char bytes[1200];
  assert_true(size + 1 <= sizeof bytes);
  refused("short", sumac_state_write(sum, bytes, size - 1), SUMAC_ERR_ARGUMENT, "size");
  refused("long", sumac_state_write(sum, bytes, size + 1), SUMAC_ERR_ARGUMENT, "size");
  refused("nowhere", sumac_state_write(sum, NULL, size), SUMAC_ERR_ARGUMENT, "NULL");
  refused("words nowhere", sumac_state_words(sum, NULL, NULL), SUMAC_ERR_ARGUMENT, "NULL");
  assert_int_equal(sumac_state_size(NULL), 0);
  sumac_tensor one_element = tensor_of(SUMAC_F64, &out, &one);
  ok(sumac_state_result(sum, SUMAC_SUM, NULL, &one_element));
  assert_true(out == 0);
  sumac_state_destroy(sum);
  sumac_state_destroy(dot);
  sumac_state_destroy(narrow);
  sumac_state_destroy(NULL);
}

/* ---- contexts and allocators ---------------------------------------------------------------- */

typedef struct heap {
  long calls, fail_at, live;
  size_t bytes;
} heap;

static void *heap_alloc(void *user, size_t size, size_t alignment) {
  heap *h = user;
  if (++h->calls == h->fail_at) return NULL;
  void *memory = NULL;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) abort();
  if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) != 0)
    return NULL;
  memset(memory, 0xa5, size);
  h->live++;
  h->bytes += size;
  return memory;
}

static void heap_dealloc(void *user, void *memory, size_t size) {
  heap *h = user;
  h->live--;
  h->bytes -= size;
  free(memory);
}

/* All of the API once; the first failure's status. No output may be half written. */
static sumac_status use_everything(const sumac_config *config) {
  static double x[2 * 70000]; /* enough for two threads, each time */
  int64_t n = 70000, few = 10, strides[1] = {2}, rows[2] = {100, 700}, long_rows[2] = {2, 70000};
  for (int64_t i = 0; i < 2 * n; i++) x[i] = (double)i;
  sumac_context *context;
  sumac_status status = sumac_context_create(config, &context);
  if (status != SUMAC_OK) {
    assert_null(context);
    return status;
  }
  double out[100];
  int32_t axis = 1;
  sumac_options options = {.axes = &axis, .naxes = 1};
  sumac_tensor big = tensor_of(SUMAC_F64, x, &n), small = tensor_of(SUMAC_F64, x, &few),
               to = scalar_of(SUMAC_F64, out);
  sumac_tensor matrix = tensor_of(SUMAC_F64, x, rows), column = tensor_of(SUMAC_F64, out, rows);
  sumac_tensor broad = tensor_of(SUMAC_F64, x, long_rows), pair = tensor_of(SUMAC_F64, out, long_rows);
  matrix.ndim = broad.ndim = 2;
  for (int op = 0; op < OPS && status == SUMAC_OK; op++) {
    out[0] = 77;
    small.strides = op % 2 ? strides : NULL;
    status = sumac_reduce(context, (sumac_op)op, &big, op == SUMAC_DOT ? &big : NULL, NULL, &to);
    assert_true(status == SUMAC_OK || out[0] == 77);
    if (status == SUMAC_OK)
      status = sumac_reduce(context, (sumac_op)op, &small, op == SUMAC_DOT ? &small : NULL, NULL, &to);
    out[0] = out[99] = 77;
    if (status == SUMAC_OK)
      status =
          sumac_reduce(context, (sumac_op)op, &matrix, op == SUMAC_DOT ? &matrix : NULL, &options, &column);
    assert_true(status == SUMAC_OK || (out[0] == 77 && out[99] == 77));
    for (int acc = SUMAC_ACC_EXACT; acc <= SUMAC_ACC_F64 && status == SUMAC_OK; acc++) {
      if (acc != SUMAC_ACC_EXACT && (op == SUMAC_NORMINF || op >= SUMAC_MIN)) break;
      out[0] = out[1] = 77;
      options.acc = acc;
      status = sumac_reduce(context, (sumac_op)op, &broad, op == SUMAC_DOT ? &broad : NULL, &options, &pair);
      assert_true(status == SUMAC_OK || (out[0] == 77 && out[1] == 77));
      options.acc = SUMAC_ACC_EXACT;
    }
  }
  for (int kind = 0; kind <= SUMAC_KIND_MOMENTS && status == SUMAC_OK; kind++) {
    sumac_state *a = NULL, *b = NULL;
    unsigned char bytes[2048];
    status = sumac_state_create(context, (sumac_kind)kind, SUMAC_F64, &a);
    if (status == SUMAC_OK) status = sumac_state_add(a, &big, kind == SUMAC_KIND_DOT ? &big : NULL);
    if (status == SUMAC_OK) status = sumac_state_write(a, bytes, sumac_state_size(a));
    if (status == SUMAC_OK) status = sumac_state_read(context, bytes, sumac_state_size(a), &b);
    if (status == SUMAC_OK) status = sumac_state_merge(a, b);
    sumac_state_destroy(a);
    sumac_state_destroy(b);
  }
  sumac_context_destroy(context);
  return status;
}

static void each_allocation_fails(void **state) {
  (void)state;
  for (int threads = 1; threads <= 3; threads += 2) {
    heap h = {0};
    sumac_config config = {.threads = threads, .alloc = heap_alloc, .dealloc = heap_dealloc, .user = &h};
    ok(use_everything(&config));
    assert_int_equal(h.live, 0);
    assert_int_equal(h.bytes, 0);
    long calls = h.calls;
    assert_true(calls > 0);
    for (long at = 1; at <= calls; at++) {
      h = (heap){.fail_at = at};
      sumac_status status = use_everything(&config);
      /* a call may do without what it did not get (fewer threads) but must then be right */
      if (status != SUMAC_OK) refused("out of memory", status, SUMAC_ERR_MEMORY, "memory");
      assert_int_equal(h.live, 0);
      assert_int_equal(h.bytes, 0);
    }
  }
}

static void contexts(void **state) {
  (void)state;
  sumac_context *context = NULL;
  sumac_config config = {0};
  ok(sumac_context_create(NULL, &context));
  assert_true(sumac_context_threads(context) >= 1);
  assert_non_null(sumac_context_isa(context));
  sumac_context_destroy(context);
  sumac_context_destroy(NULL);
  assert_true(sumac_context_threads(NULL) >= 1);
  assert_non_null(sumac_context_isa(NULL));
  refused("no place", sumac_context_create(&config, NULL), SUMAC_ERR_ARGUMENT, "NULL");
  static sumac_context *const marker = (sumac_context *)(void *)"marker";
  for (int i = 0; i < 4; i++) {
    config = (sumac_config){0}, context = marker;
    config.reserved[i] = 1;
    refused("reserved", sumac_context_create(&config, &context), SUMAC_ERR_ARGUMENT, "reserved");
    assert_null(context);
  }
  config = (sumac_config){.threads = -1};
  refused("threads -1", sumac_context_create(&config, &context), SUMAC_ERR_ARGUMENT, "threads -1");
  for (int bit = 3; bit < 32; bit++) {
    config = (sumac_config){.cpu_features = 1u << bit};
    refused("unknown feature", sumac_context_create(&config, &context), SUMAC_ERR_ARGUMENT, "cpu_features");
  }
  config = (sumac_config){.alloc = heap_alloc};
  refused("half an allocator", sumac_context_create(&config, &context), SUMAC_ERR_ARGUMENT, "dealloc");
  config = (sumac_config){.dealloc = heap_dealloc};
  refused("the other half", sumac_context_create(&config, &context), SUMAC_ERR_ARGUMENT, "alloc");

  setenv("SUMAC_CPU_FEATURES", "base", 1);
  ok(sumac_context_create(NULL, &context));
  assert_string_equal(sumac_context_isa(context), "base");
  sumac_context_destroy(context);
  setenv("SUMAC_CPU_FEATURES", "base,avx2", 1);
  ok(sumac_context_create(NULL, &context));
  assert_string_not_equal(sumac_context_isa(context), "avx512");
  sumac_context_destroy(context);
  unsetenv("SUMAC_CPU_FEATURES");
}

/* ---- names and versions --------------------------------------------------------------------- */

static void names(void **state) {
  (void)state;
  static const char *const long_names[DTYPES] = {
      "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int16",
      "int32",   "int64",   "uint8",   "uint16",   "uint32",        "uint64",      "bool"};
  static const char *const accs[] = {"exact", "f64", "f32", "i64", "f16", "bf16", "i32"};
  sumac_op op;
  sumac_acc acc;
  sumac_dtype dtype;
  for (int i = 0; i < OPS; i++) {
    assert_string_equal(sumac_op_name((sumac_op)i), op_text[i]);
    ok(sumac_op_by_name(op_text[i], &op));
    assert_int_equal(op, i);
  }
  assert_null(sumac_op_name((sumac_op)OPS));
  assert_null(sumac_op_name((sumac_op)-1));
  for (int i = 0; i < 7; i++) {
    assert_string_equal(sumac_acc_name((sumac_acc)i), accs[i]);
    ok(sumac_acc_by_name(accs[i], &acc));
    assert_int_equal(acc, i);
  }
  assert_null(sumac_acc_name((sumac_acc)7));
  for (int i = 0; i < DTYPES; i++) {
    assert_int_equal(sumac_dtype_at(i, &dtype), 1);
    assert_true(same_dtype(dtype, dtypes[i]) && dtype.lanes == 1);
    assert_string_equal(sumac_dtype_name(dtype), dtype_text(dtype));
    ok(sumac_dtype_by_name(dtype_text(dtypes[i]), &dtype));
    assert_true(same_dtype(dtype, dtypes[i]));
    ok(sumac_dtype_by_name(long_names[i], &dtype));
    assert_true(same_dtype(dtype, dtypes[i]));
  }
  assert_int_equal(sumac_dtype_at(DTYPES, &dtype), 0);
  assert_int_equal(sumac_dtype_at(-1, &dtype), 0);
  assert_null(sumac_dtype_name((sumac_dtype){2, 64, 2}));
  assert_null(sumac_dtype_name((sumac_dtype){5, 64, 1}));
  refused("an op", sumac_op_by_name("summ", &op), SUMAC_ERR_ARGUMENT, "summ sum argmax");
  refused("an op", sumac_op_by_name("", &op), SUMAC_ERR_ARGUMENT, "sum");
  refused("an op", sumac_op_by_name(NULL, &op), SUMAC_ERR_ARGUMENT, "NULL");
  refused("an acc", sumac_acc_by_name("f128", &acc), SUMAC_ERR_ARGUMENT, "f128 exact i32");
  refused("a dtype", sumac_dtype_by_name("f128", &dtype), SUMAC_ERR_ARGUMENT, "f128 f64 bool");
  /* sentences list all there is */
  assert_int_equal(sumac_op_by_name("x", &op), SUMAC_ERR_ARGUMENT);
  for (int i = 0; i < OPS; i++) assert_non_null(strstr(sumac_error_message(), op_text[i]));
  assert_int_equal(sumac_acc_by_name("x", &acc), SUMAC_ERR_ARGUMENT);
  for (int i = 0; i < 7; i++) assert_non_null(strstr(sumac_error_message(), accs[i]));
  assert_int_equal(sumac_dtype_by_name("x", &dtype), SUMAC_ERR_ARGUMENT);
  for (int i = 0; i < DTYPES; i++) assert_non_null(strstr(sumac_error_message(), dtype_text(dtypes[i])));
  char long_name[4000];
  memset(long_name, 'x', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = 0;
  refused("a long name", sumac_dtype_by_name(long_name, &dtype), SUMAC_ERR_ARGUMENT, "x");
  for (int i = 0; i <= SUMAC_ERR_DEVICE; i++) assert_non_null(sumac_status_name((sumac_status)i));
  assert_string_equal(sumac_status_name(SUMAC_ERR_RANGE), "SUMAC_ERR_RANGE");
  assert_null(sumac_status_name((sumac_status)8));
  assert_null(sumac_status_name((sumac_status)-1));
  char version[40];
  snprintf(version, sizeof version, "%d.%d.%d", SUMAC_VERSION_MAJOR, SUMAC_VERSION_MINOR,
           SUMAC_VERSION_PATCH);
  assert_string_equal(sumac_version(), version);
}

static void result_types(void **state) {
  (void)state;
  int64_t shape[3] = {2, 3, 4}, got[3];
  sumac_tensor x = tensor_of(SUMAC_F16, NULL, shape);
  x.ndim = 3; /* no element is read: data may be NULL? it has elements, so give it an address */
  x.data = (void *)(uintptr_t)4096;
  sumac_dtype dtype;
  int32_t ndim, axes[2] = {-1, 0};
  sumac_options options = {.axes = axes, .naxes = 2};
  ok(sumac_result_type(SUMAC_SUM, &x, &options, &dtype, &ndim, got));
  assert_true(same_dtype(dtype, SUMAC_F32) && ndim == 1 && got[0] == 3);
  options.flags = SUMAC_KEEPDIMS;
  ok(sumac_result_type(SUMAC_ARGMAX, &x, &options, &dtype, &ndim, got));
  assert_true(same_dtype(dtype, SUMAC_I64) && ndim == 3 && got[0] == 1 && got[1] == 3 && got[2] == 1);
  options.naxes = 0;
  ok(sumac_result_type(SUMAC_MAX, &x, &options, &dtype, &ndim, got));
  assert_true(same_dtype(dtype, SUMAC_F16) && ndim == 3 && got[0] == 2 && got[1] == 3 && got[2] == 4);
  ok(sumac_result_type(SUMAC_DOT, &x, NULL, NULL, &ndim, NULL));
  assert_int_equal(ndim, 0);
  ok(sumac_result_type(SUMAC_DOT, &x, NULL, NULL, NULL, NULL));
}

static void kernel_names(void **state) {
  (void)state;
  double x = 1;
  int64_t n = 1;
  sumac_tensor t = tensor_of(SUMAC_F64, &x, &n);
  char name[100], cut[6];
  sumac_config config = {.cpu_features = SUMAC_CPU_BASE};
  sumac_context *context;
  ok(sumac_context_create(&config, &context));
  ok(sumac_kernel_name(context, SUMAC_SUM, &t, NULL, name, sizeof name));
  assert_string_equal(name, "cpu.base.exact.sum.f64");
  ok(sumac_kernel_name(context, SUMAC_SUM, &t, NULL, cut, sizeof cut));
  assert_string_equal(cut, "cpu.b");
  refused("no buffer", sumac_kernel_name(context, SUMAC_SUM, &t, NULL, NULL, 9), SUMAC_ERR_ARGUMENT,
          "buffer");
  sumac_context_destroy(context);
}

/* ---- DLPack --------------------------------------------------------------------------------- */

static void dlpack_layout(void **state) {
  (void)state;
  assert_int_equal(sizeof(sumac_tensor), 48);
  assert_int_equal(offsetof(sumac_tensor, device), 8);
  assert_int_equal(offsetof(sumac_tensor, ndim), 16);
  assert_int_equal(offsetof(sumac_tensor, dtype), 20);
  assert_int_equal(offsetof(sumac_tensor, shape), 24);
  assert_int_equal(offsetof(sumac_tensor, strides), 32);
  assert_int_equal(offsetof(sumac_tensor, byte_offset), 40);
#ifdef HAVE_DLPACK
  assert_int_equal(sizeof(DLTensor), sizeof(sumac_tensor));
  assert_int_equal(offsetof(DLTensor, data), offsetof(sumac_tensor, data));
  assert_int_equal(offsetof(DLTensor, device), offsetof(sumac_tensor, device));
  assert_int_equal(offsetof(DLTensor, ndim), offsetof(sumac_tensor, ndim));
  assert_int_equal(offsetof(DLTensor, dtype), offsetof(sumac_tensor, dtype));
  assert_int_equal(offsetof(DLTensor, shape), offsetof(sumac_tensor, shape));
  assert_int_equal(offsetof(DLTensor, strides), offsetof(sumac_tensor, strides));
  assert_int_equal(offsetof(DLTensor, byte_offset), offsetof(sumac_tensor, byte_offset));
  assert_int_equal(sizeof(DLDataType), sizeof(sumac_dtype));
  assert_int_equal(offsetof(DLDataType, bits), offsetof(sumac_dtype, bits));
  assert_int_equal(offsetof(DLDataType, lanes), offsetof(sumac_dtype, lanes));
  assert_int_equal(sizeof(DLDevice), sizeof(sumac_device));
  assert_true(kDLFloat == SUMAC_F64.code && kDLBfloat == SUMAC_BF16.code && kDLInt == SUMAC_I8.code &&
              kDLUInt == SUMAC_U8.code && kDLCPU == 1);
  float x[6] = {9, 1, 9, 2, 9, 3}, out = 0;
  int64_t shape[1] = {3}, strides[1] = {2};
  DLTensor t = {.data = x,
                .device = {kDLCPU, 0},
                .ndim = 1,
                .dtype = {kDLFloat, 32, 1},
                .shape = shape,
                .strides = strides,
                .byte_offset = 4};
  sumac_tensor to = scalar_of(SUMAC_F32, &out);
  ok(sumac_reduce(NULL, SUMAC_SUM, (const sumac_tensor *)(const void *)&t, NULL, NULL, &to));
  assert_true(out == 6);
#else
  print_message("skipped: comparison with a real dlpack.h, which is not installed\n");
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reductions_that_are_refused),
      cmocka_unit_test(sentences_from_workers),
      cmocka_unit_test(results_that_do_not_fit),
      cmocka_unit_test(states_that_are_refused),
      cmocka_unit_test(each_allocation_fails),
      cmocka_unit_test(contexts),
      cmocka_unit_test(names),
      cmocka_unit_test(result_types),
      cmocka_unit_test(kernel_names),
      cmocka_unit_test(dlpack_layout),
  };
  return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
