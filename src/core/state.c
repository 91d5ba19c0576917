/* SPDX-License-Identifier: Apache-2.0
 *
 * States: exact sums that live on, merge and travel. Their words, in order:
 *   limbs of the sum, limbs of the squares (MOMENTS only), n, NaN, +inf, -inf, whether a term was neither -0
 *   nor NaN, 1, hash of kind and format
 * The last two turn into k and k * hash when the words of k states are added up; every call looks at them
 * first and brings the words back to canonical form.
 */
#include "core/core.h"

#include <string.h>

#include "cpu/cpu.h"
#include "cuda/backend.h"

enum { COUNTERS = 5, CHECKS = 2, HEADER_BYTES = 16, FORMAT_VERSION = 1 };
static const char magic[4] = {'s', 'u', 'm', 'x'};

struct sumac_state {
  sumac_context *context; /* whose allocator and threads are used */
  sumac_kind kind;
  enum sumac_type type;
  void *stream;                       /* for tensors on a device */
  struct sumac_format format, square; /* square.limbs is 0 but for MOMENTS */
  int words;
  int64_t word[];
};

static int limb_count(const struct sumac_state *s) { return s->format.limbs + s->square.limbs; }
static int64_t *counters(struct sumac_state *s) { return s->word + limb_count(s); }
static int64_t *checks(struct sumac_state *s) { return counters(s) + COUNTERS; }

/* One type stands for all that share its formats: the state of any integer type is that of i64, and so on. */
static enum sumac_type range_type(enum sumac_type type) {
  return sumac_types[type].cls == SUMAC_C_FLOAT ? type : SUMAC_T_I64;
}

/* 31 bits of FNV-1a over kind and dtype: k * hash stays within 62 bits. */
static int64_t kind_hash(const struct sumac_state *s) {
  uint32_t h = 2166136261u;
  h = (h ^ (uint32_t)s->kind) * 16777619u;
  h = (h ^ sumac_types[s->type].dtype.code) * 16777619u;
  h = (h ^ sumac_types[s->type].dtype.bits) * 16777619u;
  return (int64_t)(h & 0x7fffffff) | 1;
}

/* Exponents of the least power of two above a type's largest element, and of its last place. */
static int above_largest(const struct sumac_type_info *t) {
  if (t->cls == SUMAC_C_FLOAT) return (1 << (t->exponent - 1)) + !sumac_has_inf(t);
  return t->cls == SUMAC_C_BOOL ? 1 : t->dtype.bits; /* signed: |least| is 2^(bits - 1); products double it */
}
static int last_place(const struct sumac_type_info *t) {
  return t->cls == SUMAC_C_FLOAT ? 2 - (1 << (t->exponent - 1)) - t->mantissa : 0;
}

/* Is a sum's magnitude at most `terms` times the least power of two above the largest element, or product?
 * Sums of such sums are such sums again. */
static bool is_within(const int64_t *limb, struct sumac_format f, enum sumac_type type, bool product,
                      int64_t terms) {
  int above = above_largest(&sumac_types[type]);
  struct sumac_real r = sumac_real_of_limbs(limb, f.limbs, f.bias);
  int shift = (product ? 2 * above : above) - r.exponent; /* |value| against terms * 2^shift, in units of r */
  if (!r.bits) return true;
  if (shift < 0) return sumac_bit_length(r.bits) - shift <= 64 && (sumac_i128)(r.bits << -shift) <= terms;
  if (shift > 127) return terms > 0;
  sumac_i128 whole = (sumac_i128)(r.bits >> shift);
  bool more = r.bits != (sumac_u128)whole << shift || r.guard || r.sticky;
  return whole < terms || (whole == terms && !more);
}

/* MOMENTS: n Q >= S^2. */
static bool has_variance(struct sumac_state *s) {
  const int64_t *c = counters(s), n = c[0] - c[1];
  return !s->square.limbs || n < 1 ||
         !sumac_real_variance(s->word, s->format, s->word + s->format.limbs, s->square, n, 0).negative;
}

/* Could these limbs, in canonical form, and counters have come about? */
static bool is_consistent(struct sumac_state *s) {
  const int64_t *c = counters(s), most = (int64_t)1 << 62;
  bool zero = true, is_int = sumac_types[s->type].cls != SUMAC_C_FLOAT;
  int top = s->format.limbs - 1, square_top = limb_count(s) - 1;
  for (int i = 0; i < limb_count(s); i++) zero &= s->word[i] == 0;
  if (c[0] < 0 || c[0] > most || c[1] < 0 || c[2] < 0 || c[3] < 0 || c[1] > c[0] || c[2] > c[0] - c[1] ||
      c[3] > c[0] - c[1])
    return false;
  if (c[0] == c[1] ? !zero || c[4] : (!zero || c[2] || c[3]) && !c[4]) return false;
  if (is_int && (c[1] || c[2] || c[3] || c[4] != (c[0] > 0))) return false;
  bool product = s->kind == SUMAC_KIND_SQUARE || s->kind == SUMAC_KIND_DOT;
  if (!is_within(s->word, s->format, s->type, product, c[0] - c[1])) return false;
  bool never_negative = s->kind == SUMAC_KIND_ABS || s->kind == SUMAC_KIND_SQUARE;
  if (never_negative && (s->word[top] < 0 || c[3] || c[4] != (c[0] > c[1]))) return false;
  if (s->square.limbs && (s->word[square_top] < 0 ||
                          !is_within(s->word + s->format.limbs, s->square, s->type, true, c[0] - c[1])))
    return false;
  return has_variance(s);
}

static sumac_status broken(const char *why) {
  return sumac_fail(SUMAC_ERR_FORMAT, "the state's words are not valid: %s", why);
}

/* Canonical form, after the words may have been added up with others'. */
static sumac_status settle(struct sumac_state *s) {
  int64_t *c = counters(s), *check = checks(s), ranks = check[0], expected;
  if (ranks < 1 || ranks > (int64_t)1 << 31) return broken("the first check word is out of range");
  if (__builtin_mul_overflow(ranks, kind_hash(s), &expected) || check[1] != expected)
    return broken("states of different kinds were added up");
  for (int i = 0; i < limb_count(s); i++)
    if (s->word[i] > INT64_MAX / 2 || s->word[i] < INT64_MIN / 2) return broken("a limb is out of range");
  sumac_carry(s->word, s->format.limbs);
  if (s->square.limbs) sumac_carry(s->word + s->format.limbs, s->square.limbs);
  c[4] = c[4] != 0;
  if (!is_consistent(s)) return broken("sums and counters contradict each other");
  check[0] = 1;
  check[1] = kind_hash(s);
  return SUMAC_OK;
}

static size_t state_bytes(int words) { return sizeof(struct sumac_state) + (size_t)words * sizeof(int64_t); }

/* kind and type are valid. */
static sumac_status make(sumac_context *context, sumac_kind kind, enum sumac_type type, sumac_state **state) {
  struct sumac_state head = {.kind = kind, .type = range_type(type)};
  const struct sumac_type_info *t = &sumac_types[head.type];
  bool product = kind == SUMAC_KIND_SQUARE || kind == SUMAC_KIND_DOT;
  sumac_status status = sumac_context_get(context, &context);
  if (status) return status;
  head.context = context;
  head.format = product ? t->product : t->sum;
  if (kind == SUMAC_KIND_MOMENTS) head.square = t->product;
  head.words = limb_count(&head) + COUNTERS + CHECKS;
  struct sumac_state *s = sumac_alloc(context, state_bytes(head.words));
  if (!s) return sumac_fail(SUMAC_ERR_MEMORY, "out of memory for a state");
  memcpy(s, &head, sizeof head);
  *state = s;
  return sumac_state_clear(s);
}

static sumac_status check_kind(sumac_kind kind) {
  if ((unsigned)kind > SUMAC_KIND_MOMENTS)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "kind of state %d is not known; there are 0 (%s) to %d (%s)",
                      (int)kind, sumac_map_names[0], SUMAC_KIND_MOMENTS, sumac_map_names[SUMAC_KIND_MOMENTS]);
  return SUMAC_OK;
}

static sumac_status null_state(const char *call) {
  return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: the state is NULL", call);
}

sumac_status sumac_state_create(sumac_context *context, sumac_kind kind, sumac_dtype dtype,
                                sumac_state **state) {
  sumac_status status;
  if (!state) return null_state("sumac_state_create");
  *state = NULL;
  if ((status = check_kind(kind))) return status;
  enum sumac_type type = sumac_type_of(dtype, "sumac_state_create", &status);
  return type == SUMAC_TYPES ? status : make(context, kind, type, state);
}

void sumac_state_destroy(sumac_state *state) {
  if (state) sumac_free(state->context, state, state_bytes(state->words));
}

sumac_status sumac_state_clear(sumac_state *state) {
  if (!state) return null_state("sumac_state_clear");
  memset(state->word, 0, (size_t)state->words * sizeof *state->word);
  checks(state)[0] = 1;
  checks(state)[1] = kind_hash(state);
  return SUMAC_OK;
}

static sumac_status check_tensor(const struct sumac_state *s, const sumac_tensor *x, const sumac_tensor *y,
                                 struct sumac_view *vx, struct sumac_view *vy) {
  sumac_status status = sumac_view_of(x, "x", vx);
  if (status || (status = sumac_check_pair("sumac_state_add", s->kind == SUMAC_KIND_DOT, vx, y, vy)))
    return status;
  const struct sumac_type_info *t = &sumac_types[vx->type], *range = &sumac_types[s->type];
  if (above_largest(t) > above_largest(range) || last_place(t) < last_place(range))
    return sumac_fail(SUMAC_ERR_UNSUPPORTED, "sumac_state_add: a state of %s does not hold the range of %s",
                      sumac_types[s->type].name, t->name);
  return SUMAC_OK;
}

sumac_status sumac_state_add(sumac_state *state, const sumac_tensor *x, const sumac_tensor *y) {
  return sumac_state_add_many(state, 1, &x, y ? &y : NULL);
}

sumac_status sumac_state_add_many(sumac_state *state, size_t count, const sumac_tensor *const *x,
                                  const sumac_tensor *const *y) {
  sumac_status status;
  struct sumac_view vx, vy;
  if (!state) return null_state("sumac_state_add");
  if (count && !x)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_state_add_many: x is NULL, but count is not 0");
  if ((status = settle(state))) return status;
  int64_t *c = counters(state), n = c[0];
  uint32_t types = 0;
  for (size_t i = 0; i < count; i++) {
    if ((status = check_tensor(state, x[i], y ? y[i] : NULL, &vx, &vy))) return status;
    if (vx.n > ((int64_t)1 << 62) - n)
      return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_state_add: the state would hold more than 2^62 elements");
    n += vx.n;
    types |= 1u << vx.type;
  }
  /* All of it, or nothing of it: the sums are gathered beside the state. */
  int64_t limb[2 * SUMAC_MAX_LIMBS] = {0};
  struct sumac_state_sums sums = {state->format, state->square, limb, limb + state->format.limbs, {0}};
  bool all[SUMAC_MAX_DIMS];
  memset(all, 1, sizeof all);
  struct sumac_cuda_batch batch;
  batch.count = 0;
  for (unsigned type = 0; type < SUMAC_TYPES; type++) /* what is of one type is one launch on a device */
    for (size_t i = 0; i < count && types >> type & 1; i++) {
      bool pair = state->kind == SUMAC_KIND_DOT;
      if ((status = check_tensor(state, x[i], y ? y[i] : NULL, &vx, &vy))) return status;
      if (vx.type != type) continue;
      struct sumac_plan plan;
      plan.map = (enum sumac_map)state->kind;
      plan.acc = SUMAC_ACC_EXACT;
      plan.type = vx.type;
      plan.skip_nan = false;
      sumac_plan_dims(&plan, &vx, pair ? &vy : NULL, all);
      plan.stream = state->stream;
      status = plan.device == SUMAC_HOST ? sumac_cpu_accumulate(state->context, &plan, &sums)
                                         : sumac_cuda_accumulate(&batch, &plan, &sums);
      if (status) return status;
    }
  if ((status = sumac_cuda_accumulate_rest(&batch, &sums))) return status;
  for (int i = 0; i < limb_count(state); i++) state->word[i] += limb[i];
  c[0] += sums.counts.n;
  c[1] += sums.counts.nan;
  c[2] += sums.counts.pinf;
  c[3] += sums.counts.ninf;
  c[4] += sums.counts.not_negative_zero != 0;
  return settle(state);
}

sumac_status sumac_state_set_stream(sumac_state *state, void *stream) {
  if (!state) return null_state("sumac_state_set_stream");
  state->stream = stream;
  return SUMAC_OK;
}

sumac_status sumac_state_merge(sumac_state *into, sumac_state *from) {
  sumac_status status;
  if (!into || !from) return null_state("sumac_state_merge");
  if (into->kind != from->kind || into->type != from->type)
    return sumac_fail(
        SUMAC_ERR_ARGUMENT,
        "sumac_state_merge: a state of %s of %s cannot take one of %s of %s; both must be alike",
        sumac_map_names[into->kind], sumac_types[into->type].name, sumac_map_names[from->kind],
        sumac_types[from->type].name);
  if ((status = settle(into)) || (status = settle(from))) return status;
  if (counters(into)[0] > ((int64_t)1 << 62) - counters(from)[0])
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_state_merge: the state would hold more than 2^62 elements");
  for (int i = 0; i < into->words; i++) into->word[i] += from->word[i];
  return settle(into);
}

static bool gives(sumac_kind kind, const struct sumac_op_info *op) {
  return op->map == (int)kind ||
         (kind == SUMAC_KIND_MOMENTS && (op->map == SUMAC_M_SUM || op->map == SUMAC_M_SQUARE));
}

sumac_status sumac_state_result(sumac_state *state, sumac_op op, const sumac_options *options,
                                const sumac_tensor *out) {
  static const sumac_options none;
  const sumac_options *o = options ? options : &none;
  sumac_status status;
  struct sumac_view to;
  if (!state) return null_state("sumac_state_result");
  if ((unsigned)op >= SUMAC_OPS)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_state_result: operation %d is not known", (int)op);
  if ((status = sumac_check_options("sumac_state_result", o)) || (status = sumac_view_of(out, "out", &to)))
    return status;
  if (o->axes || o->naxes || o->acc || (o->flags & SUMAC_KEEPDIMS))
    return sumac_fail(SUMAC_ERR_ARGUMENT,
                      "sumac_state_result: axes, acc and KEEPDIMS must be unset; a state has none");
  if (to.device != SUMAC_HOST)
    return sumac_fail(SUMAC_ERR_UNSUPPORTED, "sumac_state_result: out must lie in host memory");
  if (to.n != 1)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_state_result: out has %lld elements; it must have 1",
                      (long long)to.n);
  if ((status = sumac_check_output("sumac_state_result", false, to.type))) return status;
  const struct sumac_op_info *info = &sumac_ops[op];
  bool squares = state->kind == SUMAC_KIND_MOMENTS && info->map == SUMAC_M_SQUARE;
  if (!gives(state->kind, info)) {
    char list[128] = "";
    for (int i = 0; i < SUMAC_OPS; i++)
      if (gives(state->kind, &sumac_ops[i])) sumac_list_add(list, sizeof list, sumac_ops[i].name);
    return sumac_fail(SUMAC_ERR_UNSUPPORTED,
                      "sumac_state_result: a state of kind %s does not give %s; it gives %s",
                      sumac_map_names[state->kind], info->name, list);
  }
  if ((status = settle(state))) return status;
  const int64_t *c = counters(state), *limb = state->word, *square = limb + state->format.limbs;
  struct sumac_counts counts = {c[0], c[1], c[2], c[3], c[4]};
  if (squares) counts = sumac_counts_of_squares(counts);
  struct sumac_finish f = {(enum sumac_finish_kind)info->finish, &sumac_types[to.type], o->ddof,
                           (o->flags & SUMAC_SKIP_NAN) != 0, (o->flags & SUMAC_SATURATE) != 0};
  bool range = false;
  uint64_t bits = squares
                      ? sumac_finish_sums(&f, &counts, square, state->square, square, state->square, &range)
                      : sumac_finish_sums(&f, &counts, limb, state->format, square, state->square, &range);
  memcpy((void *)(uintptr_t)to.data, &bits, f.out->size);
  if (range)
    return sumac_fail(SUMAC_ERR_RANGE, "%s: the result does not fit %s; it was written saturated", info->name,
                      f.out->name);
  return SUMAC_OK;
}

sumac_status sumac_state_info(sumac_state *state, sumac_kind *kind, sumac_dtype *dtype, int64_t *n,
                              int64_t *nan) {
  if (!state) return null_state("sumac_state_info");
  sumac_status status = settle(state);
  if (status) return status;
  if (kind) *kind = state->kind;
  if (dtype) *dtype = sumac_types[state->type].dtype;
  if (n) *n = counters(state)[0];
  if (nan) *nan = counters(state)[1];
  return SUMAC_OK;
}

sumac_status sumac_state_words(sumac_state *state, int64_t **words, size_t *count) {
  if (!state || !words || !count)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_state_words: state, words and count must not be NULL");
  sumac_status status = settle(state);
  if (status) return status;
  *words = state->word;
  *count = (size_t)state->words;
  return SUMAC_OK;
}

/* ---- bytes: "sumx", version, kind, dtype code and bits (a byte each), count of words (4 bytes, little
 * endian), 4 zero bytes; then the words, little endian */

size_t sumac_state_size(const sumac_state *state) {
  return state ? HEADER_BYTES + (size_t)state->words * sizeof(int64_t) : 0;
}

static void put_little(unsigned char *p, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) p[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get_little(const unsigned char *p, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << (8 * i);
  return v;
}

static void put_header(const struct sumac_state *s, unsigned char *p) {
  sumac_dtype d = sumac_types[s->type].dtype;
  memset(p, 0, HEADER_BYTES);
  memcpy(p, magic, sizeof magic);
  p[4] = FORMAT_VERSION;
  p[5] = (unsigned char)s->kind;
  p[6] = d.code;
  p[7] = d.bits;
  put_little(p + 8, (uint64_t)s->words, 4);
}

sumac_status sumac_state_write(sumac_state *state, void *bytes, size_t size) {
  if (!state || !bytes)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_state_write: state and bytes must not be NULL");
  if (size != sumac_state_size(state))
    return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_state_write: size is %zu; this state has %zu bytes", size,
                      sumac_state_size(state));
  sumac_status status = settle(state);
  if (status) return status;
  put_header(state, bytes);
  for (int i = 0; i < state->words; i++)
    put_little((unsigned char *)bytes + HEADER_BYTES + 8 * i, (uint64_t)state->word[i], 8);
  return SUMAC_OK;
}

/* Only canonical words are taken: what settle() would not change. */
static sumac_status check_canonical(struct sumac_state *s, const char *call) {
  const int64_t *c = counters(s), *check = checks(s);
  for (int i = 0; i < limb_count(s); i++) {
    bool top = i == s->format.limbs - 1 || i == limb_count(s) - 1;
    if (!top && (s->word[i] < 0 || s->word[i] > 0xffffffff))
      return sumac_fail(SUMAC_ERR_FORMAT, "%s: limb %d is not canonical", call, i);
  }
  if (check[0] != 1 || check[1] != kind_hash(s))
    return sumac_fail(SUMAC_ERR_FORMAT, "%s: the check words are wrong", call);
  if (c[4] < 0 || c[4] > 1 || !is_consistent(s))
    return sumac_fail(SUMAC_ERR_FORMAT, "%s: sums and counters contradict each other", call);
  return SUMAC_OK;
}

sumac_status sumac_state_read(sumac_context *context, const void *bytes, size_t size, sumac_state **state) {
  static const char call[] = "sumac_state_read";
  const unsigned char *p = bytes;
  unsigned char header[HEADER_BYTES];
  if (!bytes || !state) return sumac_fail(SUMAC_ERR_ARGUMENT, "%s: bytes and state must not be NULL", call);
  *state = NULL;
  if (size < HEADER_BYTES)
    return sumac_fail(SUMAC_ERR_FORMAT, "%s: %zu bytes are too few for a header of %d", call, size,
                      HEADER_BYTES);
  if (memcmp(p, magic, sizeof magic))
    return sumac_fail(SUMAC_ERR_FORMAT, "%s: the bytes do not begin with 'sumx'", call);
  if (p[4] != FORMAT_VERSION)
    return sumac_fail(SUMAC_ERR_FORMAT, "%s: format version %d is not known; this library reads version %d",
                      call, p[4], FORMAT_VERSION);
  sumac_dtype dtype = {p[6], p[7], 1};
  if (p[5] > SUMAC_KIND_MOMENTS || !sumac_dtype_name(dtype))
    return sumac_fail(SUMAC_ERR_FORMAT, "%s: kind %d with dtype code %d of %d bits is not known", call, p[5],
                      p[6], p[7]);
  sumac_state *s = NULL;
  sumac_status status = sumac_state_create(context, (sumac_kind)p[5], dtype, &s);
  if (status || !s) return status;
  put_header(s, header);
  if (memcmp(header, p, HEADER_BYTES) || size != sumac_state_size(s)) {
    status = sumac_fail(SUMAC_ERR_FORMAT,
                        "%s: header and size (%zu bytes) do not fit a state of this kind (%zu bytes)", call,
                        size, sumac_state_size(s));
  } else {
    for (int i = 0; i < s->words; i++) s->word[i] = (int64_t)get_little(p + HEADER_BYTES + 8 * i, 8);
    status = check_canonical(s, call);
  }
  if (status) {
    sumac_state_destroy(s);
    return status;
  }
  *state = s;
  return SUMAC_OK;
}
