/* SPDX-License-Identifier: Apache-2.0
 *
 * What must not matter does not: order, splits and merges, threads, the instruction set, the caller's
 * floating-point environment, a fork. And what must hold for any data: negation, scaling, cancellation.
 *
 *   properties [nightly]     "nightly" also reads an array of more than 2^31 elements
 */
#include "data.h"
#include "engines.h"
#include "everywhere.h"
#include "oracle/oracle.h"
#include "view.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { KINDS = SUMAC_KIND_MOMENTS + 1 };

static void ok(sumac_status status) {
  if (status != SUMAC_OK) fail_msg("%s", sumac_error_message());
}

static sumac_op op_of_kind(sumac_kind kind) {
  static const sumac_op ops[KINDS] = {SUMAC_SUM, SUMAC_NORM1, SUMAC_NORM2, SUMAC_DOT, SUMAC_STD};
  return ops[kind];
}

/* ---- states --------------------------------------------------------------------------------- */

typedef struct bytes {
  size_t size;
  unsigned char at[2048];
} bytes;

static sumac_state *new_state(sumac_kind kind, sumac_dtype dtype) {
  sumac_state *state;
  ok(sumac_state_create(NULL, kind, dtype, &state));
  return state;
}

static void add(sumac_state *state, sumac_kind kind, sumac_dtype dtype, const unsigned char *x,
                const unsigned char *y, int64_t from, int64_t to) {
  int64_t n = to - from, size = dtype.bits / 8;
  sumac_tensor a = tensor_of(dtype, x + from * size, &n), b = tensor_of(dtype, y + from * size, &n);
  ok(sumac_state_add(state, &a, kind == SUMAC_KIND_DOT ? &b : NULL));
}

static void written(sumac_state *state, bytes *b) {
  b->size = sumac_state_size(state);
  assert_true(b->size <= sizeof b->at);
  ok(sumac_state_write(state, b->at, b->size));
}

static void same_bytes(const bytes *a, const bytes *b, const char *what, sumac_kind kind, sumac_dtype dtype,
                       uint64_t seed) {
  if (a->size != b->size || memcmp(a->at, b->at, a->size) != 0)
    fail_msg("%s: other bytes, kind %d, %s, seed %#llx", what, kind, dtype_text(dtype),
             (unsigned long long)seed);
}

/* The state of [from, to), built by a random tree of splits, adds, merges and round trips by bytes. */
static sumac_state *tree(sumac_kind kind, sumac_dtype dtype, const unsigned char *x, const unsigned char *y,
                         int64_t from, int64_t to, data_random *random) {
  sumac_state *state;
  if (to - from < 2 || data_below(random, 8) == 0) {
    state = new_state(kind, dtype);
    add(state, kind, dtype, x, y, from, to);
  } else {
    int64_t middle = from + (int64_t)data_below(random, (uint64_t)(to - from + 1));
    state = tree(kind, dtype, x, y, from, middle, random);
    sumac_state *other = tree(kind, dtype, x, y, middle, to, random);
    if (data_next(random) % 2) {
      sumac_state *swap = state;
      state = other;
      other = swap;
    }
    ok(sumac_state_merge(state, other));
    sumac_state_destroy(other);
  }
  if (data_below(random, 4) == 0) {
    bytes b;
    written(state, &b);
    sumac_state_destroy(state);
    ok(sumac_state_read(NULL, b.at, b.size, &state));
  }
  return state;
}

static uint64_t result(sumac_state *state, sumac_op op, sumac_dtype out) {
  uint64_t bits = 0;
  sumac_tensor t = scalar_of(out, &bits);
  sumac_status status = sumac_state_result(state, op, NULL, &t);
  if (status != SUMAC_OK && status != SUMAC_ERR_RANGE) fail_msg("%s", sumac_error_message());
  return bits;
}

typedef struct sample {
  int64_t n;
  unsigned char *x, *y;
} sample;

static sample new_sample(sumac_dtype dtype, data_kind kind, int64_t n, data_random *random) {
  size_t size = (size_t)n * (dtype.bits / 8) + 1;
  uint64_t *codes = malloc(((size_t)n + 1) * sizeof *codes);
  sample s = {n, malloc(size), malloc(size)};
  data_codes(dtype, kind, random, codes, (size_t)n);
  data_pack(dtype, codes, (size_t)n, s.x);
  data_codes(dtype, kind, random, codes, (size_t)n);
  data_pack(dtype, codes, (size_t)n, s.y);
  free(codes);
  return s;
}

static void free_sample(sample *s) {
  free(s->x);
  free(s->y);
}

/* Shuffles the pairs. */
static void permute(sample *s, sumac_dtype dtype, data_random *random) {
  size_t size = dtype.bits / 8;
  unsigned char swap[8];
  for (size_t i = (size_t)s->n; i > 1; i--) {
    size_t j = (size_t)data_below(random, i);
    unsigned char *pairs[2][2] = {{s->x + (i - 1) * size, s->x + j * size},
                                  {s->y + (i - 1) * size, s->y + j * size}};
    for (int k = 0; k < 2; k++) {
      memcpy(swap, pairs[k][0], size);
      memcpy(pairs[k][0], pairs[k][1], size);
      memcpy(pairs[k][1], swap, size);
    }
  }
}

/* Bytes are a function of the multiset: any order, any tree, any instruction set, any thread count. */
static void order_and_splits(void **unused) {
  (void)unused;
  engine engines[2][ENGINES_MAX];
  int count = engines_open(engines[0], 1);
  engines_open(engines[1], 5);
  for (int d = 0; d < DTYPES; d++)
    for (int data = 0; data < DATA_KINDS; data++) {
      uint64_t seed = (uint64_t)(d * DATA_KINDS + data);
      data_random random = {seed};
      int64_t n = (int64_t)data_below(&random, data % 4 ? 600 : 9000);
      sample s = new_sample(dtypes[d], (data_kind)data, n, &random);
      for (int kind = 0; kind < KINDS; kind++) {
        bytes one, other;
        sumac_state *state = new_state((sumac_kind)kind, dtypes[d]);
        add(state, (sumac_kind)kind, dtypes[d], s.x, s.y, 0, n);
        written(state, &one);
        uint64_t bits = result(state, op_of_kind((sumac_kind)kind), SUMAC_F64);
        sumac_state_destroy(state);

        sumac_tensor x = tensor_of(dtypes[d], s.x, &n), y = tensor_of(dtypes[d], s.y, &n);
        const sumac_tensor *second = kind == SUMAC_KIND_DOT ? &y : NULL;
        outcome got = everywhere(op_of_kind((sumac_kind)kind), &x, second, 0, 0, SUMAC_F64);
        assert_int_equal(got.bits, bits);
        for (int i = 0; i < 2 * count; i++) {
          ok(sumac_state_create(engines[i % 2][i / 2].context, (sumac_kind)kind, dtypes[d], &state));
          ok(sumac_state_add(state, &x, second));
          written(state, &other);
          same_bytes(&one, &other, engines[i % 2][i / 2].isa, (sumac_kind)kind, dtypes[d], seed);
          sumac_state_destroy(state);
        }
        state = tree((sumac_kind)kind, dtypes[d], s.x, s.y, 0, n, &random);
        written(state, &other);
        same_bytes(&one, &other, "tree", (sumac_kind)kind, dtypes[d], seed);
        assert_int_equal(result(state, op_of_kind((sumac_kind)kind), SUMAC_F64), bits);
        sumac_state_destroy(state);

        permute(&s, dtypes[d], &random);
        state = tree((sumac_kind)kind, dtypes[d], s.x, s.y, 0, n, &random);
        written(state, &other);
        same_bytes(&one, &other, "permutation", (sumac_kind)kind, dtypes[d], seed);
        sumac_state_destroy(state);
      }
      free_sample(&s);
    }
  engines_close(engines[0], count);
  engines_close(engines[1], count);
}

/* Several tensors in one call, tensors of narrower dtypes, clearing, and what info tells. */
static void states_take_what_they_say(void **unused) {
  (void)unused;
  for (int wide = 0; wide < DTYPES; wide++)
    for (int narrow = 0; narrow < DTYPES; narrow++) {
      int ints = !dtype_is_float(dtypes[wide]);
      int fits =
          ints ? !dtype_is_float(dtypes[narrow]) : wide == narrow || wide == 0 || (wide == 1 && narrow != 0);
      data_random random = {(uint64_t)(wide * DTYPES + narrow)};
      sample s = new_sample(dtypes[narrow], DATA_RANDOM_BITS, 200, &random);
      int64_t n = 200, parts[2] = {77, 123}, got_n, got_nan;
      sumac_tensor x = tensor_of(dtypes[narrow], s.x, &n), y = tensor_of(dtypes[narrow], s.y, &n), t[4];
      for (int i = 0; i < 4; i++)
        t[i] = tensor_of(dtypes[narrow], (i < 2 ? s.x : s.y) + (i % 2 ? 77 * (dtypes[narrow].bits / 8) : 0),
                         &parts[i % 2]);
      for (int kind = 0; kind < KINDS; kind++) {
        sumac_state *one = new_state((sumac_kind)kind, dtypes[wide]),
                    *two = new_state((sumac_kind)kind, dtypes[wide]);
        const sumac_tensor *second = kind == SUMAC_KIND_DOT ? &y : NULL;
        sumac_status status = sumac_state_add(one, &x, second);
        if (status == SUMAC_OK) {
          const sumac_tensor *many_x[2] = {&t[0], &t[1]}, *many_y[2] = {&t[2], &t[3]};
          bytes a, b;
          ok(sumac_state_add_many(two, 2, many_x, kind == SUMAC_KIND_DOT ? many_y : NULL));
          written(one, &a);
          written(two, &b);
          same_bytes(&a, &b, "add_many", (sumac_kind)kind, dtypes[wide], (uint64_t)narrow);
          outcome direct = everywhere(op_of_kind((sumac_kind)kind), &x, second, 0, 0, SUMAC_F64);
          assert_int_equal(result(one, op_of_kind((sumac_kind)kind), SUMAC_F64), direct.bits);
          oracle_stats stats;
          oracle_clear(&stats);
          for (int64_t i = 0; i < n; i++) {
            if (kind == SUMAC_KIND_DOT)
              oracle_add_product(&stats, dtypes[narrow], oracle_load(&x, &i), oracle_load(&y, &i), 1);
            else
              oracle_add(&stats, dtypes[narrow], oracle_load(&x, &i), 1);
          }
          sumac_kind got_kind;
          sumac_dtype got_dtype;
          ok(sumac_state_info(one, &got_kind, &got_dtype, &got_n, &got_nan));
          assert_int_equal(got_kind, kind);
          assert_int_equal(got_n, 200);
          assert_int_equal(got_nan, stats.nan);
          ok(sumac_state_clear(two));
          sumac_state *empty = new_state((sumac_kind)kind, dtypes[wide]);
          written(empty, &a);
          written(two, &b);
          same_bytes(&a, &b, "clear", (sumac_kind)kind, dtypes[wide], 0);
          sumac_state_destroy(empty);
        } else if (status != SUMAC_ERR_UNSUPPORTED && status != SUMAC_ERR_ARGUMENT) {
          fail_msg("%s", sumac_error_message());
        }
        if ((status == SUMAC_OK) < fits || (wide < 2 && (status == SUMAC_OK) != fits))
          fail_msg("a state of %s takes %s: %d", dtype_text(dtypes[wide]), dtype_text(dtypes[narrow]),
                   status == SUMAC_OK);
        sumac_state_destroy(one);
        sumac_state_destroy(two);
      }
      free_sample(&s);
    }
}

/* k ranks add up their words as any integer all-reduce would. */
static void all_reduce(void **unused) {
  (void)unused;
  static const int ranks[] = {1, 2, 3, 8, 64};
  for (int d = 0; d < DTYPES; d++)
    for (int kind = 0; kind < KINDS; kind++)
      for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
        data_random random = {(uint64_t)(d * 64 + kind)};
        int k = ranks[r];
        data_kind data = (data_kind)data_below(&random, DATA_KINDS);
        sample s = new_sample(dtypes[d], data, 640, &random);
        int64_t *sum = NULL, *words;
        size_t count = 0, got;
        sumac_state *state = NULL, *whole = new_state((sumac_kind)kind, dtypes[d]);
        add(whole, (sumac_kind)kind, dtypes[d], s.x, s.y, 0, 640);
        for (int i = 0; i < k; i++) {
          state = new_state((sumac_kind)kind, dtypes[d]);
          add(state, (sumac_kind)kind, dtypes[d], s.x, s.y, 640 * i / k, 640 * (i + 1) / k);
          ok(sumac_state_words(state, &words, &got));
          if (sum == NULL) sum = calloc(count = got, sizeof *sum);
          assert_int_equal(got, count);
          for (size_t w = 0; w < count; w++) sum[w] += words[w];
          if (i + 1 < k) sumac_state_destroy(state);
        }
        memcpy(words, sum, count * sizeof *sum);
        bytes a, b;
        written(state, &a);
        written(whole, &b);
        same_bytes(&a, &b, "all-reduce", (sumac_kind)kind, dtypes[d], (uint64_t)k);
        free(sum);
        sumac_state_destroy(state);
        sumac_state_destroy(whole);
        free_sample(&s);
      }
}

/* Words of another kind or range among them are found out by the next call, whichever it is. */
static void mixed_all_reduce(void **unused) {
  (void)unused;
  for (int call = 0; call < 6; call++)
    for (int other = 0; other < KINDS; other++)
      for (int d = 0; d < DTYPES; d++)
        for (int kind = 0; kind < KINDS; kind++) {
          int64_t one = 1, *words, *others, n;
          uint64_t code = data_code(dtypes[d], 1), room[256];
          sumac_state *a = new_state((sumac_kind)kind, dtypes[d]),
                      *b = new_state((sumac_kind)other, SUMAC_F64);
          sumac_state *plain = new_state((sumac_kind)kind, dtypes[d]);
          size_t count, other_count;
          sumac_tensor x = tensor_of(dtypes[d], &code, &one), out = scalar_of(SUMAC_F64, room);
          ok(sumac_state_words(a, &words, &count));
          ok(sumac_state_words(b, &others, &other_count));
          if (other == kind && d == 0) { /* the same: nothing to find */
            sumac_state_destroy(a), sumac_state_destroy(b), sumac_state_destroy(plain);
            continue;
          }
          /* the last words meet the last ones, wherever the shorter vector ends */
          for (size_t i = 1; i <= count && i <= other_count; i++) words[count - i] += others[other_count - i];
          sumac_status status = SUMAC_OK;
          size_t size = sumac_state_size(a);
          switch (call) {
          case 0: status = sumac_state_result(a, op_of_kind((sumac_kind)kind), NULL, &out); break;
          case 1: status = sumac_state_add(a, &x, kind == SUMAC_KIND_DOT ? &x : NULL); break;
          case 2: status = sumac_state_merge(a, plain); break;
          case 3: status = sumac_state_merge(plain, a); break;
          case 4:
            assert_true(size <= sizeof room);
            status = sumac_state_write(a, room, size);
            break;
          default: status = sumac_state_info(a, NULL, NULL, &n, NULL);
          }
          if (status != SUMAC_ERR_FORMAT)
            fail_msg("call %d of a mixed state, kinds %d and %d, %s: %s", call, kind, other,
                     dtype_text(dtypes[d]), sumac_status_name(status));
          sumac_state_destroy(a);
          sumac_state_destroy(b);
          sumac_state_destroy(plain);
        }
}

/* ---- threads, processes, environments ------------------------------------------------------- */

static void thread_counts(void **unused) {
  (void)unused;
  static const sumac_dtype some[] = {{2, 64, 1}, {2, 32, 1}, {2, 16, 1}, {4, 16, 1}, {10, 8, 1}, {0, 32, 1}};
  for (size_t d = 0; d < sizeof some / sizeof *some; d++) {
    data_random random = {d};
    int64_t n = 700001;
    sample s = new_sample(some[d], d % 2 ? DATA_WIDE : DATA_NORMAL, n, &random);
    sumac_tensor x = tensor_of(some[d], s.x, &n), y = tensor_of(some[d], s.y, &n);
    for (int acc = SUMAC_ACC_EXACT; acc <= SUMAC_ACC_F64; acc++) {
      uint64_t first[OPS];
      for (int threads = 1; threads <= 8; threads++) {
        sumac_config config = {.threads = threads};
        sumac_context *context;
        ok(sumac_context_create(&config, &context));
        assert_int_equal(sumac_context_threads(context), threads);
        for (int op = 0; op < OPS; op++) {
          uint64_t bits = 0;
          int selects = op == SUMAC_NORMINF || op >= SUMAC_MIN;
          sumac_options options = {.acc = selects ? 0 : acc};
          sumac_tensor out = scalar_of(SUMAC_F64, &bits);
          ok(sumac_reduce(context, (sumac_op)op, &x, op == SUMAC_DOT ? &y : NULL, &options, &out));
          if (threads == 1) first[op] = bits;
          if (bits != first[op])
            fail_msg("%s of %s, acc %d: %#llx with %d threads, %#llx with one", op_text[op],
                     dtype_text(some[d]), acc, (unsigned long long)bits, threads,
                     (unsigned long long)first[op]);
        }
        sumac_context_destroy(context);
      }
    }
    free_sample(&s);
  }
}

typedef struct caller {
  pthread_t thread;
  sumac_context *context;
  uint64_t seed;
  int wrong;
} caller;

static void *call_often(void *argument) {
  caller *c = argument;
  data_random random = {c->seed};
  int64_t n = 50000;
  sample s = new_sample(SUMAC_F64, c->seed % 2 ? DATA_WIDE : DATA_NORMAL, n, &random);
  sumac_tensor x = tensor_of(SUMAC_F64, s.x, &n), none = x;
  none.ndim = -1 - (int)c->seed;
  uint64_t first = 0, bits = 0;
  char sentence[300] = "";
  for (int i = 0; i < 200; i++) {
    sumac_tensor out = scalar_of(SUMAC_F64, &bits);
    c->wrong += sumac_reduce(c->context, SUMAC_SUM, &x, NULL, NULL, &out) != SUMAC_OK;
    first = i == 0 ? bits : first;
    c->wrong += bits != first;
    /* each thread keeps its own sentence */
    c->wrong += sumac_reduce(c->context, SUMAC_SUM, &none, NULL, NULL, &out) != SUMAC_ERR_ARGUMENT;
    if (i == 0) snprintf(sentence, sizeof sentence, "%s", sumac_error_message());
    c->wrong += strncmp(sentence, sumac_error_message(), sizeof sentence - 1) != 0;
  }
  free_sample(&s);
  return NULL;
}

static void many_callers(void **unused) {
  (void)unused;
  sumac_config config = {.threads = 3};
  sumac_context *context;
  ok(sumac_context_create(&config, &context));
  caller callers[8];
  for (int i = 0; i < 8; i++) {
    callers[i] = (caller){.context = i < 6 ? context : NULL, .seed = (uint64_t)i};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
  }
  for (int i = 0; i < 8; i++) {
    pthread_join(callers[i].thread, NULL);
    assert_int_equal(callers[i].wrong, 0);
  }
  sumac_context_destroy(context);
}

static void child_of_a_fork(void **unused) {
  (void)unused;
  sumac_config config = {.threads = 4};
  sumac_context *context;
  ok(sumac_context_create(&config, &context));
  data_random random = {5};
  int64_t n = 600000;
  sample s = new_sample(SUMAC_F32, DATA_NORMAL, n, &random);
  sumac_tensor x = tensor_of(SUMAC_F32, s.x, &n);
  double parents = 0, childs = 0, before = 0;
  sumac_tensor out = scalar_of(SUMAC_F64, &parents);
  ok(sumac_reduce(context, SUMAC_SUM, &x, NULL, NULL, &out)); /* its workers run now */
  out.data = &before;
  ok(sumac_reduce(NULL, SUMAC_SUM, &x, NULL, NULL, &out));
  pid_t child = fork();
  if (child == 0) {
    alarm(20); /* a hang fails */
    out.data = &childs;
    int wrong = sumac_reduce(context, SUMAC_SUM, &x, NULL, NULL, &out) != SUMAC_OK || childs != parents;
    wrong |= sumac_reduce(NULL, SUMAC_SUM, &x, NULL, NULL, &out) != SUMAC_OK || childs != parents;
    sumac_context_destroy(context);
    _exit(wrong);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  out.data = &before;
  ok(sumac_reduce(context, SUMAC_SUM, &x, NULL, NULL, &out));
  assert_true(before == parents);
  sumac_context_destroy(context);
  free_sample(&s);
}

/* Every operation and a state, with a given environment; FNV hash of all bits. */
static uint64_t everything(sumac_context *context, sumac_dtype dtype, const sample *s) {
  uint64_t hash = 0xcbf29ce484222325;
  int64_t n = s->n;
  sumac_tensor x = tensor_of(dtype, s->x, &n), y = tensor_of(dtype, s->y, &n);
  for (int op = 0; op < OPS; op++)
    for (int out = 0; out < 9; out++) {
      uint64_t bits = 0;
      sumac_tensor t = scalar_of(dtypes[out], &bits);
      sumac_status status = sumac_reduce(context, (sumac_op)op, &x, op == SUMAC_DOT ? &y : NULL, NULL, &t);
      hash = (hash ^ bits ^ (uint64_t)status << 56) * 0x100000001b3;
    }
  for (int kind = 0; kind < KINDS; kind++) {
    bytes b;
    sumac_state *state;
    if (sumac_state_create(context, (sumac_kind)kind, dtype, &state) != SUMAC_OK) return 0;
    sumac_state_add(state, &x, kind == SUMAC_KIND_DOT ? &y : NULL);
    hash = (hash ^ result(state, op_of_kind((sumac_kind)kind), SUMAC_F32)) * 0x100000001b3;
    written(state, &b);
    for (size_t i = 0; i < b.size; i++) hash = (hash ^ b.at[i]) * 0x100000001b3;
    sumac_state_destroy(state);
  }
  return hash;
}

static void odd_environments(void **unused) {
  (void)unused;
  for (int threads = 1; threads <= 3; threads += 2)
    for (int d = 0; d < 7; d++)
      for (int data = 0; data < DATA_KINDS; data++)
        for (int big = 0; big < 2; big++) {
          engine engines[ENGINES_MAX];
          int count = engines_open(engines, threads);
          data_random random = {(uint64_t)(data * 8 + d)};
          sample s = new_sample(dtypes[d], (data_kind)data, big ? 5000 : 37, &random);
          for (int i = 0; i < count; i++) {
            fenv_t environment;
            fegetenv(&environment);
            uint64_t want = everything(engines[i].context, dtypes[d], &s);
            static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
            for (int m = 0; m < 3; m++) {
              fesetround(modes[m]);
              uint64_t got = everything(engines[i].context, dtypes[d], &s);
              int mode = fegetround();
              fesetenv(&environment);
              assert_int_equal(got, want);
              assert_int_equal(mode, modes[m]);
            }
            /* flags: those raised stay, no other is */
            static const int flags[] = {0, FE_INVALID, FE_OVERFLOW | FE_INEXACT, FE_ALL_EXCEPT};
            for (int f = 0; f < 4; f++) {
              feclearexcept(FE_ALL_EXCEPT);
              feraiseexcept(flags[f]);
              if (flags[f] & (FE_OVERFLOW | FE_UNDERFLOW) && !(flags[f] & FE_INEXACT))
                feclearexcept(FE_INEXACT);
              everything(engines[i].context, dtypes[d], &s);
              int after = fetestexcept(FE_ALL_EXCEPT);
              fesetenv(&environment);
              assert_int_equal(after, flags[f]);
            }
#if defined(__GLIBC__)
            feclearexcept(FE_ALL_EXCEPT);
            feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
            uint64_t trapped = everything(engines[i].context, dtypes[d], &s);
            int enabled = fegetexcept();
            fesetenv(&environment);
            assert_int_equal(trapped, want);
            assert_int_equal(enabled, FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
#endif
#if defined(__x86_64__)
            unsigned csr = _mm_getcsr(), zeroing = 0x8040; /* FTZ, DAZ */
            _mm_setcsr(csr | zeroing);
            uint64_t flushed = everything(engines[i].context, dtypes[d], &s);
            unsigned after = _mm_getcsr();
            _mm_setcsr(csr);
            assert_int_equal(flushed, want);
            assert_int_equal(after, csr | zeroing);
#endif
          }
          engines_close(engines, count);
          free_sample(&s);
        }
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Stride 0, up to 2^62 elements; also as a matrix, whose rows or columns are one element. */
/* On a small stack: every operation and accumulator, strided, of numbers that need the last way of all. */
static void *on_a_small_stack(void *failed) {
  enum { N = 5000 };
  static unsigned char data[2 * N * 8 + 16], out[8];
  data_random random = {5};
  engine engines[ENGINES_MAX];
  int engine_count = engines_open(engines, 1);
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)data_next(&random);
  int64_t shape[2] = {N / 2, 2}, strides[2] = {3, 1};
  for (int e = 0; e < engine_count; e++)
    for (int d = 0; d < DTYPES; d++)
      for (int op = 0; op < OPS; op++)
        for (int acc = 0; acc <= SUMAC_ACC_I32; acc++)
          for (uint32_t flags = 0; flags <= SUMAC_SKIP_NAN; flags += SUMAC_SKIP_NAN) {
            sumac_tensor x = tensor_of(dtypes[d], data, shape), to = scalar_of(SUMAC_F64, out);
            sumac_options options = {.acc = acc, .flags = flags};
            x.ndim = 2, x.strides = strides, x.byte_offset = 3;
            sumac_status status = sumac_reduce(engines[e].context, (sumac_op)op, &x,
                                               op == SUMAC_DOT ? &x : NULL, &options, &to);
            *(int *)failed |=
                status != SUMAC_OK && status != SUMAC_ERR_UNSUPPORTED && status != SUMAC_ERR_RANGE;
          }
  engines_close(engines, engine_count);
  for (int kind = 0; kind < KINDS; kind++) {
    sumac_state *s = NULL;
    sumac_tensor x = tensor_of(SUMAC_F64, data, shape);
    x.ndim = 2, x.strides = strides;
    *(int *)failed |= sumac_state_create(NULL, (sumac_kind)kind, SUMAC_F64, &s) != SUMAC_OK ||
                      sumac_state_add(s, &x, kind == SUMAC_KIND_DOT ? &x : NULL) != SUMAC_OK;
    sumac_state_destroy(s);
  }
  return NULL;
}

static void small_stack(void **unused) {
  (void)unused;
  int failed = 0;
  pthread_t thread;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
  assert_int_equal(pthread_create(&thread, &attr, on_a_small_stack, &failed), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attr);
  assert_int_equal(failed, 0);
}

static void huge_counts(void **unused) {
  (void)unused;
  static const int64_t counts[] = {1,
                                   1000,
                                   (INT64_C(1) << 31) - 1,
                                   INT64_C(1) << 31,
                                   (INT64_C(1) << 32) + 7,
                                   INT64_C(1) << 53,
                                   (INT64_C(1) << 62) - 1,
                                   INT64_C(1) << 62};
  static const double values[] = {1, -3, 0.1, 1e300, -0.0, 0x1p-1074, INFINITY, NAN};
  for (int d = 0; d < DTYPES; d++)
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
      for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        if (!dtype_is_float(dtypes[d]) && v > 1) continue;
        uint64_t code = data_code(dtypes[d], values[v]);
        int64_t shape[1] = {counts[c]}, stride[1] = {0};
        sumac_tensor x = tensor_of(dtypes[d], &code, shape);
        x.strides = stride;
        static oracle_stats stats, products;
        oracle_clear(&stats), oracle_clear(&products);
        oracle_add(&stats, dtypes[d], code, (uint64_t)counts[c]);
        oracle_add_product(&products, dtypes[d], code, code, (uint64_t)counts[c]);
        for (int op = 0; op < OPS; op++) {
          uint64_t want = 0;
          sumac_status wanted =
              oracle_result(op == SUMAC_DOT ? &products : &stats, (sumac_op)op, 0, 0, SUMAC_F64, &want);
          outcome got = everywhere((sumac_op)op, &x, op == SUMAC_DOT ? &x : NULL, 0, 0, SUMAC_F64);
          if (got.status != wanted || got.bits != want)
            fail_msg("%s of %lld copies of %s %g: %s %#llx, want %#llx", op_text[op], (long long)counts[c],
                     dtype_text(dtypes[d]), values[v], sumac_status_name(got.status),
                     (unsigned long long)got.bits, (unsigned long long)want);
        }
      }
}

/* A real array past 2^31 elements: the last one decides. */
static void past_two_gigabytes(void **unused) {
  (void)unused;
  int64_t n = (INT64_C(1) << 31) + 11, index = 0;
  unsigned char *x = calloc((size_t)n, 1);
  assert_non_null(x);
  x[n - 1] = 1;
  sumac_tensor t = tensor_of(SUMAC_U8, x, &n), out = scalar_of(SUMAC_I64, &index);
  for (int op = 0; op < 3; op++) {
    static const sumac_op ops[] = {SUMAC_ARGMAX, SUMAC_SUM, SUMAC_MAX};
    ok(sumac_reduce(NULL, ops[op], &t, NULL, NULL, &out));
    assert_int_equal(index, op == 0 ? n - 1 : 1);
  }
  free(x);
}

/* ---- relations ------------------------------------------------------------------------------ */

/* −x gives the negated sum, 2^k·x the scaled one, x with −x nothing, x twice the doubled one. */
static void relations(void **unused) {
  (void)unused;
  static const data_kind kinds[] = {DATA_NORMAL, DATA_UNIFORM, DATA_OUTLIERS, DATA_TIES};
  static double x[8000], y[8000];
  for (int i = 0; i < 40; i++) {
    data_random random = {(uint64_t)i};
    static uint64_t codes[4000];
    int64_t n = (int64_t)data_below(&random, 4001);
    data_codes(SUMAC_F64, kinds[i % 4], &random, codes, (size_t)n);
    for (int64_t j = 0; j < n; j++) x[j] = ldexp(double_of(codes[j]), -10), x[j] = isfinite(x[j]) ? x[j] : 0;
    double sum = everywhere_f64(SUMAC_SUM, x, NULL, n);
    for (int64_t j = 0; j < n; j++) y[j] = -x[j], x[n + j] = -x[j];
    double negated = everywhere_f64(SUMAC_SUM, y, NULL, n);
    if (sum != 0) assert_int_equal(bits_of(negated), bits_of(-sum));
    assert_int_equal(bits_of(everywhere_f64(SUMAC_SUM, x, NULL, 2 * n)), 0);
    for (int64_t j = 0; j < n; j++) x[n + j] = x[j];
    assert_true(everywhere_f64(SUMAC_SUM, x, NULL, 2 * n) == 2 * sum);
    if (kinds[i % 4] == DATA_NORMAL || kinds[i % 4] == DATA_UNIFORM) {
      for (int64_t j = 0; j < n; j++) y[j] = ldexp(x[j], 300);
      assert_true(everywhere_f64(SUMAC_SUM, y, NULL, n) == ldexp(sum, 300));
      for (int64_t j = 0; j < n; j++) y[j] = 0x1p-40;
      assert_true(everywhere_f64(SUMAC_DOT, x, y, n) == ldexp(sum, -40));
    }
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(order_and_splits), cmocka_unit_test(states_take_what_they_say),
      cmocka_unit_test(all_reduce),       cmocka_unit_test(mixed_all_reduce),
      cmocka_unit_test(thread_counts),    cmocka_unit_test(many_callers),
      cmocka_unit_test(child_of_a_fork),  cmocka_unit_test(odd_environments),
      cmocka_unit_test(huge_counts),      cmocka_unit_test(relations),
      cmocka_unit_test(small_stack),
  };
  const struct CMUnitTest nightly[] = {cmocka_unit_test(past_two_gigabytes)};
  if (argc > 1 && strcmp(argv[1], "nightly") == 0)
    return cmocka_run_group_tests_name("properties, nightly", nightly, NULL, NULL);
  return cmocka_run_group_tests_name("properties", tests, NULL, NULL);
}
