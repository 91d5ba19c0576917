/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one reduction on inputs: in one call where the data lies in memory, and in chunks, with memory
 * independent of the length, where the operation allows it.
 */
#include <stdlib.h>
#include <string.h>

#include "input.h"

enum { CHUNK_BYTES = 1 << 18 }; /* stays in the second-level cache between reader and reduction */

/* The state that gives an operation; false for those that select an element. */
static bool state_kind(sumac_op op, sumac_kind *kind) {
  switch (op) {
  case SUMAC_SUM:
  case SUMAC_MEAN: *kind = SUMAC_KIND_SUM; return true;
  case SUMAC_NORM1: *kind = SUMAC_KIND_ABS; return true;
  case SUMAC_NORM2: *kind = SUMAC_KIND_SQUARE; return true;
  case SUMAC_DOT: *kind = SUMAC_KIND_DOT; return true;
  case SUMAC_VAR:
  case SUMAC_STD: *kind = SUMAC_KIND_MOMENTS; return true;
  default: return false;
  }
}

/* check() for the calls that round: there, the option that helps is worth a word. */
static void check_result(sumac_status status, sumac_op op, sumac_dtype dtype) {
  if (status == SUMAC_ERR_RANGE)
    fail(EXIT_RANGE, "%s: the result does not fit in %s (--saturate clamps what is finite)",
         sumac_op_name(op), sumac_dtype_name(dtype));
  check(status);
}

static bool is_arg(sumac_op op) { return op == SUMAC_ARGMIN || op == SUMAC_ARGMAX; }

static sumac_tensor vector(sumac_dtype dtype, void *data, int64_t *length) {
  return (sumac_tensor){.data = data, .ndim = 1, .dtype = dtype, .shape = length};
}

/* Elements in storage order are as good as the array, if the order does not matter or is row-major. */
static bool can_stream(const struct request *r, const struct input *x, const struct input *y) {
  if (r->options.axes || r->options.acc != SUMAC_ACC_EXACT || r->op == SUMAC_PROD) return false;
  if (is_arg(r->op) && x->fortran && x->ndim > 1) return false;
  return !y || x->fortran == y->fortran || x->ndim < 2;
}

/* Adds all elements to a state, as they lie or in chunks. */
static void add_input(sumac_state *state, struct input *x, struct input *y) {
  if (x->data && (!y || y->data)) {
    sumac_tensor tx = input_tensor(x), ty = y ? input_tensor(y) : (sumac_tensor){0};
    check(sumac_state_add(state, &tx, y ? &ty : NULL));
    return;
  }
  int64_t capacity = CHUNK_BYTES / (int64_t)dtype_size(x->dtype), count;
  void *xs = allocate(CHUNK_BYTES), *ys = y ? allocate(CHUNK_BYTES) : NULL;
  do {
    count = input_read(x, xs, capacity);
    sumac_tensor tx = vector(x->dtype, xs, &count), ty = vector(x->dtype, ys, &count);
    if (y && input_read(y, ys, count ? count : 1) != count)
      fail(EXIT_UNSUPPORTED, "%s and %s do not have the same number of elements", x->stream.name,
           y->stream.name);
    check(sumac_state_add(state, &tx, y ? &ty : NULL));
  } while (count > 0);
  free(xs);
  free(ys);
}

static void stream_state(const struct request *r, sumac_kind kind, struct input *x, struct input *y,
                         const sumac_tensor *out) {
  sumac_state *state;
  check(sumac_state_create(r->context, kind, x->dtype, &state));
  add_input(state, x, y);
  sumac_options options = {.flags = r->options.flags & (SUMAC_SKIP_NAN | SUMAC_SATURATE),
                           .ddof = r->options.ddof};
  check_result(sumac_state_result(state, r->op, &options, out), r->op, out->dtype);
  sumac_state_destroy(state);
}

/* One reduction of the first `count` elements of a chunk to one value; false if there was none. */
static bool reduce_chunk(const struct request *r, sumac_op op, sumac_dtype dtype, void *elements,
                         int64_t count, sumac_dtype out_dtype, void *value) {
  sumac_options options = {.flags = r->options.flags & SUMAC_SKIP_NAN};
  sumac_tensor x = vector(dtype, elements, &count), out = {.data = value, .dtype = out_dtype};
  sumac_status status = sumac_reduce(r->context, op, &x, NULL, &options, &out);
  if (status == SUMAC_ERR_EMPTY) return false;
  check(status);
  return true;
}

/* MIN, MAX, NORMINF of all that was read are those of the least and the greatest element so far, which
 * stay at the front of the buffer. The last call rounds, and knows what no elements mean. */
static void stream_extremes(const struct request *r, struct input *x, const sumac_tensor *out) {
  size_t item = dtype_size(x->dtype);
  int64_t capacity = CHUNK_BYTES / (int64_t)item, kept = 0, count;
  char *elements = allocate(CHUNK_BYTES), extremes[2][8];
  while ((count = input_read(x, elements + (size_t)kept * item, capacity - kept)) > 0) {
    if (!reduce_chunk(r, SUMAC_MIN, x->dtype, elements, kept + count, x->dtype, extremes[0]) ||
        !reduce_chunk(r, SUMAC_MAX, x->dtype, elements, kept + count, x->dtype, extremes[1]))
      continue; /* nothing but NaN, which are skipped */
    memcpy(elements, extremes[0], item);
    memcpy(elements + item, extremes[1], item);
    kept = 2;
  }
  sumac_tensor survivors = vector(x->dtype, elements, &kept);
  sumac_options options = {.flags = r->options.flags & (SUMAC_SKIP_NAN | SUMAC_SATURATE)};
  check_result(sumac_reduce(r->context, r->op, &survivors, NULL, &options, out), r->op, out->dtype);
  free(elements);
}

/* The best element so far stays at the front of the buffer, where it also wins ties. */
static void stream_arg(const struct request *r, struct input *x, const sumac_tensor *out) {
  size_t item = dtype_size(x->dtype);
  int64_t capacity = CHUNK_BYTES / (int64_t)item, kept = 0, best = 0, done = 0, count, index;
  char *elements = allocate(CHUNK_BYTES);
  while ((count = input_read(x, elements + (size_t)kept * item, capacity - kept)) > 0) {
    if (reduce_chunk(r, r->op, x->dtype, elements, kept + count, SUMAC_I64, &index)) {
      if (index >= kept) best = done + index - kept;
      memmove(elements, elements + (size_t)index * item, item);
      kept = 1;
    }
    done += count;
  }
  if (kept == 0) fail(EXIT_INPUT, "%s: %s of no elements", x->stream.name, sumac_op_name(r->op));
  int64_t one = 1;
  sumac_tensor position = vector(SUMAC_I64, &best, &one);
  sumac_options options = {.flags = r->options.flags & SUMAC_SATURATE};
  check_result(sumac_reduce(r->context, SUMAC_MAX, &position, NULL, &options, out), r->op, out->dtype);
  free(elements);
}

/* Counts add up; of truths the greatest, or the least, decides. */
static void stream_counts(const struct request *r, struct input *x, const sumac_tensor *out) {
  int64_t capacity = CHUNK_BYTES / (int64_t)dtype_size(x->dtype), total = r->op == SUMAC_ALL, count, one = 1,
          found;
  char *elements = allocate(CHUNK_BYTES);
  while ((count = input_read(x, elements, capacity)) > 0) {
    reduce_chunk(r, r->op, x->dtype, elements, count, SUMAC_I64, &found);
    total = r->op == SUMAC_COUNT_NONZERO ? total + found
            : r->op == SUMAC_ANY         ? total || found
                                         : total && found;
  }
  sumac_tensor result = vector(SUMAC_I64, &total, &one);
  sumac_options options = {.flags = r->options.flags & SUMAC_SATURATE};
  sumac_op last = r->op == SUMAC_COUNT_NONZERO ? SUMAC_SUM : r->op;
  check_result(sumac_reduce(r->context, last, &result, NULL, &options, out), r->op, out->dtype);
  free(elements);
}

static void stream(const struct request *r, struct input *x, struct input *y, const sumac_tensor *out) {
  sumac_kind kind;
  if (state_kind(r->op, &kind))
    stream_state(r, kind, x, y, out);
  else if (is_arg(r->op))
    stream_arg(r, x, out);
  else if (r->op == SUMAC_COUNT_NONZERO || r->op == SUMAC_ANY || r->op == SUMAC_ALL)
    stream_counts(r, x, out);
  else
    stream_extremes(r, x, out);
}

/* Text and pipes have one only when they have been read. */
static bool has_shape(const struct input *in) {
  return in->data || (in->format != FORMAT_TEXT && in->n >= 0);
}

static void check_pair(const struct input *x, const struct input *y) {
  if (!dtype_equal(x->dtype, y->dtype))
    fail(EXIT_UNSUPPORTED, "%s holds %s and %s holds %s: dot needs equal types", x->stream.name,
         sumac_dtype_name(x->dtype), y->stream.name, sumac_dtype_name(y->dtype));
  bool known = has_shape(x) && has_shape(y);
  if (x->ndim != y->ndim ||
      (known && memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof x->shape[0]) != 0)) {
    input_verify(x); /* which may have been cut before the other was opened */
    input_verify(y);
    fail(EXIT_UNSUPPORTED, "%s and %s have different shapes: dot needs equal ones", x->stream.name,
         y->stream.name);
  }
}

/* Where the result goes: its type and shape, and memory for it. */
static sumac_tensor make_output(const struct request *r, struct input *x, const sumac_tensor *tensor,
                                struct result *result) {
  check(sumac_result_type(r->op, tensor, &r->options, &result->dtype, &result->ndim, result->shape));
  if (r->has_out_dtype) result->dtype = r->out_dtype;
  result->size = shape_size(result->ndim, result->shape);
  /* An array without elements may have a shape that promises any number of (empty) sums. */
  int64_t rows[SUMAC_MAX_DIMS]; /* the same of sums that are empty themselves */
  for (int i = 0; i < result->ndim; i++) rows[i] = result->shape[i] ? result->shape[i] : 1;
  int64_t promised = shape_size(result->ndim, rows);
  if (result->size < 0 || (x->n == 0 && (promised < 0 || promised > 1 << 20)))
    fail(EXIT_INPUT, "%s: the shape holds no elements but asks for more than 2^20 results", x->stream.name);
  result->values = allocate((size_t)result->size * dtype_size(result->dtype) + 1);
  return (sumac_tensor){
      .data = result->values, .ndim = result->ndim, .dtype = result->dtype, .shape = result->shape};
}

bool reduce_members(const struct request *r, struct input *x, const struct input_options *options,
                    struct result *result) {
  double start = now_seconds();
  sumac_kind kind;
  sumac_state *state;
  bool integers = true, real = r->op != SUMAC_SUM;
  if (!state_kind(r->op, &kind) || kind == SUMAC_KIND_DOT || r->options.acc != SUMAC_ACC_EXACT) return false;
  *result = (struct result){.size = 1, .kernel = "cpu.state"};
  check(sumac_state_create(r->context, kind, SUMAC_F64, &state)); /* takes every dtype */
  for (int64_t i = 0; i < x->members; i++) {
    struct input member;
    input_member(x, options, i, &member);
    integers &= !dtype_is_float(member.dtype);
    add_input(state, &member, NULL);
    input_verify(&member);
    result->n += member.n;
    result->bytes += input_bytes(&member);
    input_close(&member);
  }
  result->dtype = r->has_out_dtype ? r->out_dtype : integers && !real ? SUMAC_I64 : SUMAC_F64;
  result->values = allocate(8);
  sumac_tensor out = {.data = result->values, .dtype = result->dtype};
  sumac_options last = {.flags = r->options.flags & (SUMAC_SKIP_NAN | SUMAC_SATURATE),
                        .ddof = r->options.ddof};
  check_result(sumac_state_result(state, r->op, &last, &out), r->op, result->dtype);
  sumac_state_destroy(state);
  result->seconds = now_seconds() - start;
  return true;
}

void reduce_inputs(const struct request *r, struct input *x, struct input *y, struct result *result) {
  double start = now_seconds();
  result->tensor = NULL;
  if (y) check_pair(x, y);
  bool whole = x->data && (!y || y->data), chunks = !whole && can_stream(r, x, y);
  if (!chunks) {
    input_load(x);
    if (y) input_load(y), check_pair(x, y);
  }
  sumac_tensor tx = input_tensor(x), ty = y ? input_tensor(y) : (sumac_tensor){0};
  int64_t ones[SUMAC_MAX_DIMS];
  if (chunks) { /* only for names and types: no element is read through it, and the sizes may be unknown */
    for (int i = 0; i < x->ndim; i++) ones[i] = 1;
    tx.data = x;
    tx.shape = ones;
    tx.strides = NULL;
  }
  check(sumac_kernel_name(r->context, r->op, &tx, &r->options, result->kernel, sizeof result->kernel));
  sumac_tensor out = make_output(r, x, &tx, result);
  if (chunks) {
    stream(r, x, y, &out);
  } else {
    sumac_status status = sumac_reduce(r->context, r->op, &tx, y ? &ty : NULL, &r->options, &out);
    if (r->options.acc != SUMAC_ACC_EXACT) check(status); /* the accumulator may be what was too small */
    check_result(status, r->op, out.dtype);
  }
  input_verify(x);
  if (y) input_verify(y);
  result->n = x->n;
  result->bytes = input_bytes(x) + (y ? input_bytes(y) : 0);
  result->seconds = now_seconds() - start;
}
