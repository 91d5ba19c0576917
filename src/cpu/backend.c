/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend: walks a plan's elements in contiguous runs, feeds them to the loops of the context's
 * instruction set, in as many threads as pay, and combines what the threads found. No result depends on
 * how the work was split: exact sums merge exactly, plain sums are split at fixed places and added up in a
 * fixed tree, selections are decided by value and index.
 */
#include <stdatomic.h>

#include "core/core.h"
#include "cpu/cpu.h"

enum {
  BLOCK = 4096,           /* elements gathered at a time; a plain sum's leaves */
  SUPERBLOCK = 1 << 18,   /* elements of one task of a plain sum */
  SEARCH_BYTES = 1 << 17, /* in which an index is looked for */
  STATS_BYTES = 1 << 14   /* that stay in the first cache while five loops read them */
};
/* Less than this a thread does not pay (estimate). */
#define PARALLEL_BYTES ((int64_t)1 << 18)
#define CHUNK_BYTES ((int64_t)1 << 20)

/* ---- walking */

typedef void run_fn(void *arg, const void *x, const void *y, size_t n);

struct walk {
  const struct sumac_plan *plan;
  const char *base[2]; /* of this result's elements */
  run_fn *run;
  void *arg;
};

static bool is_dense(const struct sumac_plan *plan) {
  const struct sumac_dims *d = &plan->inner;
  int last = d->ndim - 1;
  int64_t size = sumac_types[plan->type].size;
  return last < 0 || (d->stride[0][last] == size && (plan->map != SUMAC_M_DOT || d->stride[1][last] == size));
}

static void gather(char *to, const char *from, int64_t stride, int64_t n, size_t size) {
  switch (size) {
  case 1:
    for (int64_t i = 0; i < n; i++) to[i] = from[i * stride];
    break;
  case 2:
    for (int64_t i = 0; i < n; i++) memcpy(to + 2 * i, from + i * stride, 2);
    break;
  case 4:
    for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, from + i * stride, 4);
    break;
  default:
    for (int64_t i = 0; i < n; i++) memcpy(to + 8 * i, from + i * stride, 8);
    break;
  }
}

/* Elements begin ... begin + count - 1 of the inner dimensions: rows of the last dimension, as they lie
 * if they are dense and long, otherwise gathered into blocks. Blocks start at multiples of BLOCK. */
static void walk(const struct walk *w, int64_t begin, int64_t count) {
  if (count <= 0) return;
  const struct sumac_dims *d = &w->plan->inner;
  const size_t size = sumac_types[w->plan->type].size;
  const bool dot = w->plan->map == SUMAC_M_DOT;
  const int last = d->ndim - 1;
  const int64_t row = last < 0 ? 1 : d->shape[last];
  if (is_dense(w->plan) && (d->ndim < 2 || row % BLOCK == 0)) {
    if (d->ndim < 2) {
      w->run(w->arg, w->base[0] + begin * (int64_t)size, w->base[1] + begin * (int64_t)size, (size_t)count);
      return;
    }
    while (count > 0) {
      int64_t index = begin / row, in_row = begin % row, n = row - in_row;
      n = n < count ? n : count;
      const char *p[2] = {w->base[0] + in_row * (int64_t)size, w->base[1] + in_row * (int64_t)size};
      for (int i = last - 1; i >= 0; i--) {
        p[0] += index % d->shape[i] * d->stride[0][i];
        p[1] += index % d->shape[i] * d->stride[1][i];
        index /= d->shape[i];
      }
      w->run(w->arg, p[0], p[1], (size_t)n);
      begin += n;
      count -= n;
    }
    return;
  }
  _Alignas(64) char buffer[2][BLOCK * sizeof(double)];
  int64_t index[SUMAC_MAX_DIMS], rest = begin;
  const char *p[2] = {w->base[0], w->base[1]};
  for (int i = last; i >= 0; i--) {
    index[i] = rest % d->shape[i];
    rest /= d->shape[i];
    p[0] += index[i] * d->stride[0][i];
    p[1] += index[i] * d->stride[1][i];
  }
  while (count > 0) {
    int64_t block = BLOCK - begin % BLOCK, filled = 0;
    block = block < count ? block : count;
    while (filled < block) {
      int64_t n = row - index[last];
      n = n < block - filled ? n : block - filled;
      gather(buffer[0] + filled * (int64_t)size, p[0], d->stride[0][last], n, size);
      if (dot) gather(buffer[1] + filled * (int64_t)size, p[1], d->stride[1][last], n, size);
      filled += n;
      int i = last;
      int64_t step = n;
      for (;;) { /* the odometer */
        index[i] += step;
        p[0] += step * d->stride[0][i];
        p[1] += step * d->stride[1][i];
        if (index[i] < d->shape[i] || i == 0) break;
        p[0] -= index[i] * d->stride[0][i];
        p[1] -= index[i] * d->stride[1][i];
        index[i--] = 0;
        step = 1;
      }
    }
    w->run(w->arg, buffer[0], dot ? buffer[1] : buffer[0], (size_t)block);
    begin += block;
    count -= block;
  }
}

/* ---- exact sums */

struct exact_run {
  const struct sumac_loops *loops;
  enum sumac_map map;
  enum sumac_type type;
  struct sumac_sum sum, square; /* square: MOMENTS only */
};

static void exact_init(struct exact_run *r, const sumac_context *context, const struct sumac_plan *plan,
                       struct sumac_format sum, struct sumac_format square) {
  r->loops = context->loops;
  r->map = plan->map;
  r->type = plan->type;
  sumac_sum_init(&r->sum, sum);
  if (plan->map == SUMAC_M_MOMENTS) sumac_sum_init(&r->square, square);
}

static void exact_add(void *arg, const void *x, const void *y, size_t n) {
  struct exact_run *r = arg;
  if (r->map == SUMAC_M_MOMENTS)
    r->loops->moments[r->type](&r->sum, &r->square, x, n);
  else
    r->loops->exact[r->map][r->type](&r->sum, x, y, n);
}

static void number_multiply(struct sumac_exact *x, int64_t factor) {
  sumac_i128 carry = 0;
  for (int i = x->low; i < x->high; i++) {
    carry += (sumac_i128)x->limb[i] * factor;
    x->limb[i] = i == x->high - 1 ? (int64_t)carry : (int64_t)(carry & 0xffffffff);
    carry >>= 32;
  }
}

static void exact_settle(struct exact_run *r) {
  sumac_sum_flush(&r->sum);
  if (r->map == SUMAC_M_MOMENTS) sumac_sum_flush(&r->square);
}

static void exact_merge(struct exact_run *into, const struct exact_run *from) {
  sumac_exact_merge(&into->sum.number, &from->sum.number);
  sumac_counts_add(&into->sum.counts, &from->sum.counts);
  if (into->map == SUMAC_M_MOMENTS) sumac_exact_merge(&into->square.number, &from->square.number);
}

static void exact_multiply(struct exact_run *r, int64_t repeat) {
  struct sumac_counts *c = &r->sum.counts;
  number_multiply(&r->sum.number, repeat);
  if (r->map == SUMAC_M_MOMENTS) number_multiply(&r->square.number, repeat);
  c->n *= repeat;
  c->nan *= repeat;
  c->pinf *= repeat;
  c->ninf *= repeat;
}

/* ---- splitting one result's elements over threads */

struct split {
  const struct walk *walk;
  struct exact_run **run; /* one a worker, made when it first has work */
  int64_t n, chunk;
};

static void split_part(void *arg, int part, int worker) {
  struct split *s = arg;
  struct walk w = *s->walk;
  w.arg = s->run[worker];
  int64_t begin = part * s->chunk;
  walk(&w, begin, s->n - begin < s->chunk ? s->n - begin : s->chunk);
}

/* Threads that pay for n elements, and the elements of a part: a multiple of BLOCK. */
static int workers_for(const sumac_context *context, const struct sumac_plan *plan, int64_t n,
                       int64_t *chunk) {
  *chunk = n;
  if (n < PARALLEL_BYTES / 8) return 1; /* whatever the type */
  int64_t size = sumac_types[plan->type].size, most = n / (PARALLEL_BYTES / size);
  int workers = most < context->threads ? (int)most : context->threads;
  if (workers < 1) workers = 1;
  int64_t c = CHUNK_BYTES / size;
  if (n / c < 4 * workers) c = n / (4 * workers) / BLOCK * BLOCK;
  if (c < BLOCK) c = BLOCK;
  while (n / c > INT32_MAX / 2) c *= 2;
  *chunk = c;
  return workers;
}

/* What one result needs beside the stack, for the threads that share it. */
static size_t exact_scratch(int workers) {
  return workers > 1
             ? (size_t)(workers - 1) * sizeof(struct exact_run) + (size_t)workers * sizeof(struct exact_run *)
             : 0;
}

static void exact_reduce(sumac_context *context, const struct sumac_plan *plan, const char *const base[2],
                         bool parallel, void *scratch, struct exact_run *total) {
  struct walk w = {plan, {base[0], base[1]}, exact_add, total};
  int64_t chunk, n = plan->inner.n;
  int workers = parallel ? workers_for(context, plan, n, &chunk) : 1;
  if (workers == 1) {
    walk(&w, 0, n);
    exact_settle(total);
  } else {
    struct exact_run *more = scratch;
    struct split s = {&w, (struct exact_run **)(more + workers - 1), n, chunk};
    for (int i = 0; i < workers; i++) {
      s.run[i] = i ? more + i - 1 : total;
      if (i) exact_init(s.run[i], context, plan, total->sum.number.format, total->square.number.format);
    }
    sumac_pool_run(context, workers, (int)((n + chunk - 1) / chunk), split_part, &s);
    exact_settle(total);
    for (int i = 1; i < workers; i++) {
      exact_settle(s.run[i]);
      exact_merge(total, s.run[i]);
    }
  }
  if (plan->repeat > 1) exact_multiply(total, plan->repeat);
}

static bool exceeds(enum sumac_type limit, const struct sumac_exact *number) {
  bool range = false;
  struct sumac_format f = sumac_exact_format(number);
  struct sumac_real r = sumac_real_of_limbs(number->limb + number->low, f.limbs, f.bias);
  sumac_round(r, &sumac_types[limit], false, &range);
  return range;
}

/* sumac_finish_sums() of what is occupied. */
static uint64_t finish_numbers(const struct sumac_finish *f, const struct sumac_counts *c,
                               const struct sumac_exact *s, const struct sumac_exact *q, bool *range) {
  return sumac_finish_sums(f, c, s->limb + s->low, sumac_exact_format(s), q->limb + q->low,
                           sumac_exact_format(q), range);
}

static void exact_result(sumac_context *context, const struct sumac_plan *plan, const char *const base[2],
                         bool parallel, void *scratch, uint64_t *bits, bool *range) {
  const struct sumac_type_info *t = &sumac_types[plan->type];
  bool product = plan->map == SUMAC_M_SQUARE || plan->map == SUMAC_M_DOT;
  struct exact_run total;
  exact_init(&total, context, plan, product ? t->product : t->sum, t->product);
  exact_reduce(context, plan, base, parallel, scratch, &total);
  enum sumac_type limit = sumac_acc_limit(plan->acc);
  if (limit != SUMAC_TYPES)
    *range |= exceeds(limit, &total.sum.number) ||
              (plan->map == SUMAC_M_MOMENTS && exceeds(limit, &total.square.number));
  const struct sumac_exact *s = &total.sum.number,
                           *q = plan->map == SUMAC_M_MOMENTS ? &total.square.number : s;
  *bits = finish_numbers(&plan->finish, &total.sum.counts, s, q, range);
}

static void add_limbs(int64_t *limb, int count, const struct sumac_exact *from) {
  for (int i = from->low; i < from->high; i++) limb[i] += from->limb[i];
  sumac_carry(limb, count);
}

sumac_status sumac_cpu_accumulate(sumac_context *context, const struct sumac_plan *plan,
                                  struct sumac_state_sums *into) {
  struct exact_run total;
  int64_t chunk;
  int workers = workers_for(context, plan, plan->inner.n, &chunk);
  size_t size = exact_scratch(workers);
  void *scratch = size ? sumac_alloc(context, size) : NULL;
  if (size && !scratch) return sumac_fail(SUMAC_ERR_MEMORY, "out of memory for %d threads", workers);
  exact_init(&total, context, plan, into->sum, into->square);
  struct sumac_fp fp = sumac_fp_enter();
  exact_reduce(context, plan, plan->data, true, scratch, &total);
  sumac_fp_leave(fp);
  sumac_free(context, scratch, size);
  add_limbs(into->sum_limb, into->sum.limbs, &total.sum.number);
  if (plan->map == SUMAC_M_MOMENTS) add_limbs(into->square_limb, into->square.limbs, &total.square.number);
  sumac_counts_add(&into->counts, &total.sum.counts);
  return SUMAC_OK;
}

/* ---- plain sums: a leaf is a block; a moment's leaf is its mean and the squares about it */

struct plain {
  double sum; /* MOMENTS: the mean */
  double m2;
  int64_t n; /* elements that were not skipped */
};

struct plain_run {
  const struct sumac_loops *loops;
  const struct sumac_plan *plan;
  struct plain *leaf; /* of the next block */
};

/* Rounded to the accumulator's type. A sum or product of its numbers, rounded to f64 before, is the same: f64
 * has more than twice the digits. */
static double to_acc(const struct sumac_plan *plan, double v) {
  if (plan->acc == SUMAC_ACC_F64) return v;
  if (plan->acc == SUMAC_ACC_F32) return (double)(float)v;
  const struct sumac_type_info *t = &sumac_types[plan->acc == SUMAC_ACC_F16 ? SUMAC_T_F16 : SUMAC_T_BF16];
  const struct sumac_finish to = {.kind = SUMAC_F_VALUE, .out = t};
  bool range = false;
  return sumac_element_value(sumac_decode(t, sumac_plain_bits(&to, v, &range)));
}

static struct plain plain_combine(const struct sumac_plan *plan, struct plain a, struct plain b) {
  struct plain r = {0, 0, a.n + b.n};
  if (plan->map != SUMAC_M_MOMENTS) {
    r.sum = to_acc(plan, a.sum + b.sum);
  } else if (!a.n || !b.n) {
    return a.n ? a : b;
  } else { /* Chan, Golub, LeVeque 1979 */
    double delta = b.sum - a.sum, share = (double)b.n / (double)r.n;
    r.sum = to_acc(plan, a.sum + delta * share);
    r.m2 = to_acc(plan, a.m2 + b.m2 + delta * delta * share * (double)a.n);
  }
  return r;
}

/* In place, neighbours first. */
static struct plain plain_tree(const struct sumac_plan *plan, struct plain *leaf, int64_t n) {
  for (; n > 1; n = (n + 1) / 2) {
    for (int64_t i = 0; i < n / 2; i++) leaf[i] = plain_combine(plan, leaf[2 * i], leaf[2 * i + 1]);
    if (n % 2) leaf[n / 2] = leaf[n - 1];
  }
  return leaf[0];
}

static bool is_nan(const struct sumac_type_info *t, uint64_t bits) {
  return t->cls == SUMAC_C_FLOAT && (bits & sumac_low_bits(t->dtype.bits - 1)) > sumac_inf_bits(t);
}

/* Copies the elements, or pairs, that are not NaN. */
static size_t drop_nans(const struct sumac_type_info *t, bool dot, const void *x, const void *y, size_t n,
                        void *cx, void *cy) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t a = sumac_bits_at(t, x, i), b = dot ? sumac_bits_at(t, y, i) : 0;
    if (is_nan(t, a) || (dot && is_nan(t, b))) continue;
    sumac_put_bits(t, cx, kept, a);
    if (dot) sumac_put_bits(t, cy, kept, b);
    kept++;
  }
  return kept;
}

static void plain_add(void *arg, const void *x, const void *y, size_t n) {
  struct plain_run *r = arg;
  const struct sumac_plan *plan = r->plan;
  const struct sumac_type_info *t = &sumac_types[plan->type];
  sumac_plain_loop *const(*loops)[SUMAC_TYPES] = r->loops->plain[plan->acc];
  _Alignas(64) char kept[2][BLOCK * sizeof(double)];
  while (n) {
    size_t count = n < BLOCK ? n : BLOCK, use = count;
    const void *px = x, *py = y;
    if (plan->skip_nan && t->cls == SUMAC_C_FLOAT) {
      use = drop_nans(t, plan->map == SUMAC_M_DOT, x, y, count, kept[0], kept[1]);
      px = kept[0];
      py = kept[1];
    }
    struct plain leaf = {-0.0, 0, (int64_t)use};
    if (plan->map != SUMAC_M_MOMENTS) {
      leaf.sum = loops[plan->map][plan->type](px, py, use, 0);
    } else if (use) {
      leaf.sum = to_acc(plan, loops[SUMAC_M_SUM][plan->type](px, px, use, 0) / (double)use);
      leaf.m2 = loops[SUMAC_M_CENTRED][plan->type](px, px, use, leaf.sum);
    }
    *r->leaf++ = leaf;
    x = (const char *)x + count * t->size;
    y = (const char *)y + count * t->size;
    n -= count;
  }
}

struct plain_split {
  const sumac_context *context;
  const struct walk *walk;
  struct plain *result; /* one a superblock */
};

static void plain_part(void *arg, int part, int worker) {
  struct plain_split *s = arg;
  struct plain leaf[SUPERBLOCK / BLOCK];
  struct plain_run run = {s->context->loops, s->walk->plan, leaf};
  struct walk w = *s->walk;
  int64_t begin = (int64_t)part * SUPERBLOCK, left = w.plan->inner.n - begin;
  w.arg = &run;
  walk(&w, begin, left < SUPERBLOCK ? left : SUPERBLOCK);
  s->result[part] = plain_tree(w.plan, leaf, run.leaf - leaf);
  (void)worker;
}

static int64_t superblocks(const struct sumac_plan *plan) {
  return (plan->inner.n + SUPERBLOCK - 1) / SUPERBLOCK;
}

/* For one of `size` bytes a superblock. */
static size_t tree_scratch(const struct sumac_plan *plan, size_t size) {
  return superblocks(plan) > 1 ? (size_t)superblocks(plan) * size : 0;
}

static void plain_result(sumac_context *context, const struct sumac_plan *plan, const char *const base[2],
                         bool parallel, void *scratch, uint64_t *bits, bool *range) {
  struct walk w = {plan, {base[0], base[1]}, plain_add, NULL};
  int64_t chunk, parts = superblocks(plan);
  int workers = parallel ? workers_for(context, plan, plan->inner.n, &chunk) : 1;
  struct plain one = {0, 0, 0};
  struct plain_split s = {context, &w, parts > 1 ? scratch : &one};
  sumac_pool_run(context, workers, (int)parts, plain_part, &s);
  struct plain p = plain_tree(plan, s.result, parts);
  if (plan->repeat > 1) {
    double factor = (double)plan->repeat;
    if (plan->map != SUMAC_M_MOMENTS) p.sum = to_acc(plan, p.sum * factor);
    p.m2 = to_acc(plan, p.m2 * factor);
    p.n *= plan->repeat;
  }
  const struct sumac_finish *f = &plan->finish;
  *bits = sumac_plain_bits(f, sumac_plain_value(f, p.sum, p.m2, p.n), range);
}

/* ---- selections */

struct best {
  int64_t key;
  int64_t at;     /* where the block of the best key begins */
  int64_t nan_at; /* where the first block with a NaN begins; -1: nowhere */
};

struct select_run {
  sumac_select_loop *loop;
  const struct sumac_plan *plan;
  struct best best;
  int64_t at;
};

static bool is_arg(const struct sumac_plan *plan) {
  return plan->map == SUMAC_M_ARGMIN || plan->map == SUMAC_M_ARGMAX;
}

static bool is_minimum(const struct sumac_plan *plan) {
  return plan->map == SUMAC_M_MIN || plan->map == SUMAC_M_ARGMIN;
}

static void select_add(void *arg, const void *x, const void *y, size_t n) {
  struct select_run *r = arg;
  const size_t size = sumac_types[r->plan->type].size;
  const size_t most = is_arg(r->plan) ? SEARCH_BYTES / size : n;
  (void)y;
  while (n && r->best.nan_at < 0) {
    size_t count = n < most ? n : most;
    bool nan = false;
    int64_t key = r->loop(x, count, r->plan->skip_nan, &nan);
    if (nan && !r->plan->skip_nan) r->best.nan_at = r->at;
    if (key > r->best.key) {
      r->best.key = key;
      r->best.at = r->at;
    }
    x = (const char *)x + count * size;
    r->at += (int64_t)count;
    n -= count;
  }
}

struct select_split {
  const sumac_context *context;
  const struct walk *walk;
  struct best *best; /* one a part */
  int64_t chunk;
};

static void select_part(void *arg, int part, int worker) {
  struct select_split *s = arg;
  const struct sumac_plan *plan = s->walk->plan;
  struct walk w = *s->walk;
  int64_t begin = part * s->chunk, left = plan->inner.n - begin;
  struct select_run run = {
      s->context->loops->select[plan->map - SUMAC_M_MIN][plan->type], plan, {INT64_MIN, begin, -1}, begin};
  w.arg = &run;
  walk(&w, begin, left < s->chunk ? left : s->chunk);
  s->best[part] = run.best;
  (void)worker;
}

/* Finds the first element of a block with this key, or the first NaN. */
struct search {
  const struct sumac_plan *plan;
  int64_t key, index, at;
  bool nan;
};

static void search_add(void *arg, const void *x, const void *y, size_t n) {
  struct search *s = arg;
  const struct sumac_type_info *t = &sumac_types[s->plan->type];
  (void)y;
  for (size_t i = 0; i < n && s->index < 0; i++) {
    uint64_t bits = sumac_bits_at(t, x, i);
    int64_t key = sumac_key(t, s->plan->map, bits);
    if (s->nan ? is_nan(t, bits) : !is_nan(t, bits) && (is_minimum(s->plan) ? ~key : key) == s->key)
      s->index = s->at + (int64_t)i;
  }
  s->at += (int64_t)n;
}

/* The index over all reduced axes of the element that is walked to as number `index`. */
static int64_t logical_index(const struct sumac_dims *d, int64_t index) {
  int64_t logical = 0;
  for (int i = d->ndim - 1; i >= 0; i--) {
    logical += index % d->shape[i] * d->weight[i];
    index /= d->shape[i];
  }
  return logical;
}

/* The bits of an element that is no NaN. */
static uint64_t finish_element(const struct sumac_finish *f, struct sumac_element e, bool *range) {
  if (e.inf) return sumac_special(f, false, e.negative, range);
  return sumac_round(sumac_real_of_element(e), f->out, f->saturate, range);
}

/* The only failure: there is no element. */
static sumac_status select_result(sumac_context *context, const struct sumac_plan *plan,
                                  const char *const base[2], bool parallel, uint64_t *bits, bool *range) {
  enum { MOST_PARTS = 1024 };
  const struct sumac_type_info *t = &sumac_types[plan->type];
  const struct sumac_finish *f = &plan->finish;
  struct walk w = {plan, {base[0], base[1]}, select_add, NULL};
  int64_t chunk, n = plan->inner.n;
  int workers = parallel ? workers_for(context, plan, n, &chunk) : 1;
  struct best part[MOST_PARTS];
  if (workers == 1) chunk = n;
  while (n > chunk * MOST_PARTS) chunk *= 2;
  int parts = n ? (int)((n + chunk - 1) / chunk) : 0;
  struct select_split s = {context, &w, part, chunk};
  sumac_pool_run(context, workers, parts, select_part, &s);
  struct best best = {INT64_MIN, 0, -1};
  for (int i = 0; i < parts && best.nan_at < 0; i++) {
    best.nan_at = part[i].nan_at;
    if (part[i].key > best.key) best = part[i];
  }
  /* the least key is a number's only where there are no NaN keys beside it */
  bool found = best.key > INT64_MIN || (n > 0 && t->cls != SUMAC_C_FLOAT);
  bool nan = best.nan_at >= 0;
  if (!found && !nan) {
    if (plan->map == SUMAC_M_MAXABS) {
      *bits = 0;
      return SUMAC_OK;
    }
    return SUMAC_ERR_EMPTY;
  }
  if (is_arg(plan)) {
    struct search search = {plan, best.key, -1, nan ? best.nan_at : best.at, nan};
    int64_t left = n - search.at, most = SEARCH_BYTES / t->size;
    w.run = search_add;
    w.arg = &search;
    walk(&w, search.at, left < most ? left : most);
    struct sumac_real r = {(sumac_u128)logical_index(&plan->inner, search.index), 0, false, false, 0};
    *bits = sumac_round(r, f->out, f->saturate, range);
    return SUMAC_OK;
  }
  if (nan) {
    *bits = sumac_special(f, true, false, range);
    return SUMAC_OK;
  }
  struct sumac_element e = sumac_element_of_key(t, plan->map, is_minimum(plan) ? ~best.key : best.key);
  *bits = finish_element(f, e, range);
  return SUMAC_OK;
}

/* ---- counts */

struct count_split {
  const struct sumac_context *context;
  const struct walk *walk;
  int64_t chunk;
  _Atomic int64_t zeros, nans; /* nans: with skip_nan only */
  atomic_bool decided;         /* ANY, ALL: no more need be looked at */
};

static void count_add(void *arg, const void *x, const void *y, size_t n) {
  struct count_split *s = arg;
  const struct sumac_plan *plan = s->walk->plan;
  const struct sumac_loops *loops = s->context->loops;
  const size_t size = sumac_types[plan->type].size, most = SEARCH_BYTES / size;
  (void)y;
  while (n && !atomic_load_explicit(&s->decided, memory_order_relaxed)) {
    size_t count = n < most ? n : most;
    int64_t zeros = loops->count[SUMAC_COUNT_ZEROS][plan->type](x, count);
    int64_t nans = plan->skip_nan ? loops->count[SUMAC_COUNT_NANS][plan->type](x, count) : 0;
    if (zeros) atomic_fetch_add(&s->zeros, zeros);
    if (nans) atomic_fetch_add(&s->nans, nans);
    if (plan->map == SUMAC_M_ANY ? zeros + nans < (int64_t)count : plan->map == SUMAC_M_ALL && zeros)
      atomic_store(&s->decided, true);
    x = (const char *)x + count * size;
    n -= count;
  }
}

static void count_part(void *arg, int part, int worker) {
  struct count_split *s = arg;
  int64_t begin = part * s->chunk, left = s->walk->plan->inner.n - begin;
  if (!atomic_load_explicit(&s->decided, memory_order_relaxed))
    walk(s->walk, begin, left < s->chunk ? left : s->chunk);
  (void)worker;
}

static void count_result(sumac_context *context, const struct sumac_plan *plan, const char *const base[2],
                         bool parallel, uint64_t *bits, bool *range) {
  struct walk w = {plan, {base[0], base[1]}, count_add, NULL};
  struct count_split s = {.context = context, .walk = &w};
  const int64_t n = plan->inner.n;
  int workers = parallel ? workers_for(context, plan, n, &s.chunk) : 1;
  if (workers == 1) s.chunk = n;
  w.arg = &s;
  sumac_pool_run(context, workers, n ? (int)((n + s.chunk - 1) / s.chunk) : 0, count_part, &s);
  int64_t zeros = atomic_load(&s.zeros), others = n - zeros - atomic_load(&s.nans);
  int64_t result = plan->map == SUMAC_M_ANY   ? others > 0
                   : plan->map == SUMAC_M_ALL ? !zeros
                                              : others * plan->repeat;
  struct sumac_real r = {(sumac_u128)result, 0, false, false, 0};
  *bits = sumac_round(r, plan->finish.out, plan->finish.saturate, range);
}

/* ---- products: of each block, then of each superblock, then of all, from first to last */

struct product_run {
  enum sumac_type type;
  struct sumac_product *product;
};

static void product_add(void *arg, const void *x, const void *y, size_t n) {
  const struct product_run *r = arg;
  (void)y;
  for (size_t count; n; n -= count) {
    count = n < BLOCK ? n : BLOCK;
    sumac_product_of(r->type, x, count, r->product);
    x = (const char *)x + count * sumac_types[r->type].size;
  }
}

struct product_split {
  const struct walk *walk;
  struct sumac_product *result; /* one a superblock */
};

static void product_part(void *arg, int part, int worker) {
  struct product_split *s = arg;
  struct walk w = *s->walk;
  struct product_run run = {w.plan->type, &s->result[part]};
  int64_t begin = (int64_t)part * SUPERBLOCK, left = w.plan->inner.n - begin;
  w.arg = &run;
  sumac_product_init(run.product);
  walk(&w, begin, left < SUPERBLOCK ? left : SUPERBLOCK);
  (void)worker;
}

static void product_result(sumac_context *context, const struct sumac_plan *plan, const char *const base[2],
                           bool parallel, void *scratch, uint64_t *bits, bool *range) {
  struct walk w = {plan, {base[0], base[1]}, product_add, NULL};
  struct sumac_product one;
  int64_t chunk, parts = superblocks(plan);
  int workers = parallel ? workers_for(context, plan, plan->inner.n, &chunk) : 1;
  struct product_split s = {&w, parts > 1 ? scratch : &one};
  sumac_product_init(&one);
  sumac_pool_run(context, workers, (int)parts, product_part, &s);
  for (int64_t i = 1; i < parts; i++) sumac_product_merge(&s.result[0], &s.result[i]);
  if (plan->repeat > 1) sumac_product_power(&s.result[0], plan->repeat);
  *bits = sumac_product_finish(&s.result[0], &sumac_types[plan->type], &plan->finish, range);
}

/* ---- statistics: all that is asked of a block while it is in the cache */

struct stats_run {
  struct exact_run moments;
  struct sumac_sum abs;
  int64_t zeros;
  int64_t key[2]; /* of the least, its complement, and of the greatest */
};

static const enum sumac_map stats_extremes[2] = {SUMAC_M_MIN, SUMAC_M_MAX};

static void stats_init(struct stats_run *r, const sumac_context *context, const struct sumac_plan *plan) {
  const struct sumac_type_info *t = &sumac_types[plan->type];
  exact_init(&r->moments, context, plan, t->sum, t->product);
  sumac_sum_init(&r->abs, t->sum);
  r->zeros = 0;
  r->key[0] = r->key[1] = INT64_MIN;
}

static void stats_add(void *arg, const void *x, const void *y, size_t n) {
  struct stats_run *r = arg;
  const struct sumac_loops *loops = r->moments.loops;
  const enum sumac_type type = r->moments.type;
  const size_t size = sumac_types[type].size, most = STATS_BYTES / size;
  (void)y;
  for (size_t count; n; n -= count) {
    bool nan = false;
    count = n < most ? n : most;
    exact_add(&r->moments, x, x, count);
    loops->exact[SUMAC_M_ABS][type](&r->abs, x, x, count);
    r->zeros += loops->count[SUMAC_COUNT_ZEROS][type](x, count);
    for (int i = 0; i < 2; i++) {
      int64_t key = loops->select[stats_extremes[i] - SUMAC_M_MIN][type](x, count, true, &nan);
      r->key[i] = key > r->key[i] ? key : r->key[i];
    }
    x = (const char *)x + count * size;
  }
}

struct stats_split {
  const struct walk *walk;
  struct stats_run *run; /* one a worker */
  int64_t chunk;
};

static void stats_part(void *arg, int part, int worker) {
  struct stats_split *s = arg;
  struct walk w = *s->walk;
  int64_t begin = part * s->chunk, left = w.plan->inner.n - begin;
  w.arg = &s->run[worker];
  walk(&w, begin, left < s->chunk ? left : s->chunk);
}

static double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double stats_value(const struct sumac_plan *plan, enum sumac_finish_kind kind,
                          const struct sumac_counts *counts, const struct sumac_exact *sum,
                          const struct sumac_exact *square) {
  struct sumac_finish f = plan->finish;
  bool range = false;
  f.kind = kind;
  return double_of(finish_numbers(&f, counts, sum, square, &range));
}

static double stats_element(const struct sumac_plan *plan, struct sumac_element e) {
  bool range = false;
  return double_of(finish_element(&plan->finish, e, &range));
}

sumac_status sumac_cpu_stats(sumac_context *context, const struct sumac_plan *plan, sumac_statistics *to) {
  const struct sumac_type_info *t = &sumac_types[plan->type];
  int64_t chunk, n = plan->inner.n;
  int workers = workers_for(context, plan, n, &chunk);
  size_t size = (size_t)workers * sizeof(struct stats_run);
  struct stats_run *run = sumac_alloc(context, size);
  if (!run) return sumac_fail(SUMAC_ERR_MEMORY, "sumac_stats: out of memory for %d threads", workers);
  for (int i = 0; i < workers; i++) stats_init(&run[i], context, plan);
  struct walk w = {plan, {plan->data[0], plan->data[1]}, stats_add, run};
  struct stats_split s = {&w, run, workers > 1 ? chunk : n};
  struct sumac_fp fp = sumac_fp_enter();
  sumac_pool_run(context, workers, n ? (int)((n + s.chunk - 1) / s.chunk) : 0, stats_part, &s);
  for (int i = 0; i < workers; i++) {
    exact_settle(&run[i].moments);
    sumac_sum_flush(&run[i].abs);
    if (!i) continue;
    exact_merge(&run->moments, &run[i].moments);
    sumac_exact_merge(&run->abs.number, &run[i].abs.number);
    sumac_counts_add(&run->abs.counts, &run[i].abs.counts);
    run->zeros += run[i].zeros;
    for (int k = 0; k < 2; k++) run->key[k] = run[i].key[k] > run->key[k] ? run[i].key[k] : run->key[k];
  }
  sumac_fp_leave(fp);
  if (plan->repeat > 1) {
    exact_multiply(&run->moments, plan->repeat);
    number_multiply(&run->abs.number, plan->repeat);
    run->zeros *= plan->repeat;
  }
  const struct sumac_counts *c = &run->moments.sum.counts;
  const struct sumac_exact *sum = &run->moments.sum.number, *square = &run->moments.square.number;
  *to = (sumac_statistics){
      .n = c->n, .nan = c->nan, .pos_inf = c->pinf, .neg_inf = c->ninf, .zeros = run->zeros};
  const struct sumac_counts squares = sumac_counts_of_squares(*c);
  to->mean = stats_value(plan, SUMAC_F_MEAN, c, sum, square);
  to->std = stats_value(plan, SUMAC_F_DEVIATION, c, sum, square);
  to->norm1 = stats_value(plan, SUMAC_F_VALUE, &run->abs.counts, &run->abs.number, &run->abs.number);
  to->norm2 = stats_value(plan, SUMAC_F_ROOT, &squares, square, square);
  if (c->n > c->nan) {
    int64_t least = ~run->key[0], most = run->key[1];
    struct sumac_element low = sumac_element_of_key(t, SUMAC_M_MIN, least);
    struct sumac_element high = sumac_element_of_key(t, SUMAC_M_MAX, most);
    to->min = stats_element(plan, low);
    to->max = stats_element(plan, high);
    to->min_bits = sumac_bits_of_key(t, least);
    to->max_bits = sumac_bits_of_key(t, most);
    low.negative = high.negative = false;
    double a = stats_element(plan, low), b = stats_element(plan, high);
    to->norminf = a > b ? a : b;
  } else {
    to->min = to->max = to->mean; /* NaN */
  }
  sumac_free(context, run, size);
  return SUMAC_OK;
}

/* ---- all results of a plan */

/* The only failure: a selection from nothing. */
static sumac_status one_result(sumac_context *context, const struct sumac_plan *plan,
                               const char *const base[2], bool parallel, void *scratch, uint64_t *bits,
                               bool *range) {
  if (sumac_is_selection(plan->map)) return select_result(context, plan, base, parallel, bits, range);
  if (sumac_is_count(plan->map))
    count_result(context, plan, base, parallel, bits, range);
  else if (plan->map == SUMAC_M_PROD)
    product_result(context, plan, base, parallel, scratch, bits, range);
  else if (sumac_is_plain(plan->acc))
    plain_result(context, plan, base, parallel, scratch, bits, range);
  else
    exact_result(context, plan, base, parallel, scratch, bits, range);
  return SUMAC_OK;
}

struct outer_job {
  sumac_context *context;
  const struct sumac_plan *plan;
  bool parallel;    /* within one result */
  uint64_t *staged; /* results that must not be written before all are known to exist; or NULL */
  char *scratch;    /* of worker 0, then of worker 1 ... */
  size_t scratch_size;
  int64_t chunk;
  atomic_bool range;
  _Atomic sumac_status status;
};

static void outer_part(void *arg, int part, int worker) {
  struct outer_job *job = arg;
  const struct sumac_plan *plan = job->plan;
  const struct sumac_dims *d = &plan->outer;
  int64_t begin = part * job->chunk, end = begin + job->chunk < d->n ? begin + job->chunk : d->n;
  bool range = false;
  void *scratch = job->scratch + (size_t)worker * job->scratch_size;
  for (int64_t k = begin; k < end && atomic_load_explicit(&job->status, memory_order_relaxed) == SUMAC_OK;
       k++) {
    const char *base[2] = {plan->data[0], plan->data[1]};
    char *out = plan->out;
    int64_t rest = k;
    for (int i = d->ndim - 1; i >= 0; i--) {
      int64_t index = rest % d->shape[i];
      rest /= d->shape[i];
      base[0] += index * d->stride[0][i];
      base[1] += index * d->stride[1][i];
      out += index * plan->out_stride[i];
    }
    uint64_t bits = 0;
    sumac_status status = one_result(job->context, plan, base, job->parallel, scratch, &bits, &range);
    if (status)
      atomic_store(&job->status, status);
    else if (job->staged)
      job->staged[k] = bits;
    else
      memcpy(out, &bits, plan->finish.out->size);
  }
  if (range) atomic_store(&job->range, true);
}

static int64_t saturating_multiply(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX / 2 : r;
}

sumac_status sumac_cpu_reduce(sumac_context *context, const struct sumac_plan *plan) {
  const struct sumac_dims *d = &plan->outer;
  const bool select = sumac_is_selection(plan->map), product = plan->map == SUMAC_M_PROD,
             plain = sumac_is_plain(plan->acc), limited = sumac_acc_limit(plan->acc) != SUMAC_TYPES;
  struct outer_job job = {.context = context, .plan = plan, .chunk = d->n};
  if (!d->n) return SUMAC_OK;
  int64_t bytes = saturating_multiply(plan->inner.n, sumac_types[plan->type].size), chunk;
  /* Many results: a thread does whole ones. Few: all threads share each. */
  job.parallel = d->n < 4 * context->threads && bytes >= 2 * PARALLEL_BYTES;
  int workers =
      job.parallel || saturating_multiply(bytes + 256, d->n) < 2 * PARALLEL_BYTES ? 1 : context->threads;
  if (workers > 1) job.chunk = (d->n + 16 * workers - 1) / (16 * workers);
  int64_t parts = workers > 1 ? (d->n + job.chunk - 1) / job.chunk : 1;

  /* All memory first: after this nothing but an empty selection can fail, and results wait for that. */
  if (plain || product)
    job.scratch_size = tree_scratch(plan, product ? sizeof(struct sumac_product) : sizeof(struct plain));
  else if (!select && !sumac_is_count(plan->map))
    job.scratch_size = exact_scratch(job.parallel ? workers_for(context, plan, plan->inner.n, &chunk) : 1);
  job.scratch_size = (job.scratch_size + 63) & ~(size_t)63;
  size_t staged = 0, size = 0;
  bool huge = (plain || product) && superblocks(plan) > INT32_MAX;
  if (select && plan->skip_nan && d->n > 1)
    huge |= __builtin_mul_overflow((size_t)d->n, sizeof(uint64_t), &staged);
  huge |= __builtin_add_overflow(staged, (size_t)workers * job.scratch_size, &size);
  char *memory = size && !huge ? sumac_alloc(context, size) : NULL;
  if (huge || (size && !memory))
    return sumac_fail(SUMAC_ERR_MEMORY,
                      "out of memory: a reduction of %lld elements to %lld results needs %zu bytes",
                      (long long)plan->inner.n, (long long)d->n, size);
  char nothing = 0;
  job.scratch = memory ? memory : &nothing; /* C lets nothing be added to NULL, not even 0 */
  job.staged = staged ? (uint64_t *)(void *)(memory + (size_t)workers * job.scratch_size) : NULL;

  struct sumac_fp fp = sumac_fp_enter();
  sumac_pool_run(context, workers, (int)parts, outer_part, &job);
  sumac_fp_leave(fp);

  sumac_status status = atomic_load(&job.status);
  if (status == SUMAC_OK && staged) {
    for (int64_t k = 0; k < d->n; k++) {
      char *out = plan->out;
      int64_t rest = k;
      for (int i = d->ndim - 1; i >= 0; rest /= d->shape[i], i--)
        out += rest % d->shape[i] * plan->out_stride[i];
      memcpy(out, &job.staged[k], plan->finish.out->size);
    }
  }
  sumac_free(context, memory, size);
  if (status)
    return sumac_fail(status, "%s: %s, so there is no extreme one", sumac_map_names[plan->map],
                      plan->inner.n ? "every element of a reduction is NaN and NaNs are skipped"
                                    : "the reduction has no elements");
  if (atomic_load(&job.range))
    return sumac_fail(SUMAC_ERR_RANGE, "a result does not fit %s%s%s; it was written saturated",
                      plan->finish.out->name, limited ? " or the accumulator " : "",
                      limited ? sumac_acc_name((sumac_acc)plan->acc) : "");
  return SUMAC_OK;
}
