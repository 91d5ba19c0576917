/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a state, frozen: one state of each kind and range must have the very bytes noted in
 * state_format.golden, and whatever else is read back must be refused or be what it is.
 *
 *   state_format FILE [print]     "print" writes such a file to stdout
 */
#include "data.h"
#include "view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KINDS = SUMAC_KIND_MOMENTS + 1, RANGES = 7, HEADER = 16, MOST = 2048, TRAILER = 7 };

static const sumac_dtype ranges[RANGES] = {{2, 64, 1}, {2, 32, 1}, {2, 16, 1}, {4, 16, 1},
                                           {10, 8, 1}, {12, 8, 1}, {0, 64, 1}};
static const char *const kind_text[KINDS] = {"sum", "abs", "square", "dot", "moments"};
static const char *golden_file;

/* Indices of the words behind the limbs, counted from the end. */
enum { HASH = 1, ONE, NOT_MINUS_ZERO, MINUS_INF, PLUS_INF, NAN_COUNT, COUNT };

static void ok(sumac_status status) {
  if (status != SUMAC_OK) fail_msg("%s", sumac_error_message());
}

/* Elements that touch every part of a state: both ends of the range, signs, specials. */
static size_t elements(sumac_dtype dtype, uint64_t *codes) {
  static const double values[] = {1, -2.5, 1e300, -1e30, 3, 0, -0.0, 0.1};
  size_t n = 0;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    codes[n++] = data_code(dtype, dtype_is_float(dtype) ? values[i] : (double)(int64_t)i * 1e18 - 4e18);
  codes[n++] = 1; /* the least subnormal */
  codes[n++] = data_code(dtype, 0x1p-20) ^ (uint64_t)1 << (dtype.bits - 1);
  if (dtype_is_float(dtype)) {
    codes[n++] = data_code(dtype, (double)__builtin_nan(""));
    codes[n++] = data_code(dtype, -__builtin_inf());
    codes[n++] = data_code(dtype, __builtin_inf());
    codes[n++] = data_code(dtype, __builtin_inf());
  }
  return n;
}

static size_t golden_state(sumac_kind kind, sumac_dtype dtype, unsigned char *bytes) {
  uint64_t codes[32];
  unsigned char x[256];
  int64_t n = (int64_t)elements(dtype, codes);
  sumac_state *state;
  data_pack(dtype, codes, (size_t)n, x);
  sumac_tensor t = tensor_of(dtype, x, &n);
  ok(sumac_state_create(NULL, kind, dtype, &state));
  ok(sumac_state_add(state, &t, kind == SUMAC_KIND_DOT ? &t : NULL));
  size_t size = sumac_state_size(state);
  assert_true(size <= MOST);
  ok(sumac_state_write(state, bytes, size));
  sumac_state_destroy(state);
  return size;
}

static uint64_t get(const unsigned char *p) {
  uint64_t v = 0;
  for (int i = 0; i < 8; i++) v |= (uint64_t)p[i] << (8 * i);
  return v;
}

static void put(unsigned char *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (unsigned char)(v >> (8 * i));
}

/* One line a state: kind, dtype, then all bytes as little-endian words in hexadecimal. */
static void print_golden(FILE *to) {
  unsigned char bytes[MOST];
  for (int kind = 0; kind < KINDS; kind++)
    for (int r = 0; r < RANGES; r++) {
      size_t size = golden_state((sumac_kind)kind, ranges[r], bytes);
      fprintf(to, "%s %s", kind_text[kind], dtype_text(ranges[r]));
      for (size_t i = 0; i < size; i += 8) fprintf(to, " %llx", (unsigned long long)get(bytes + i));
      fprintf(to, "\n");
    }
}

static void bytes_are_frozen(void **state) {
  (void)state;
  FILE *file = fopen(golden_file, "r");
  unsigned char bytes[MOST];
  assert_non_null(file);
  for (int kind = 0; kind < KINDS; kind++)
    for (int r = 0; r < RANGES; r++) {
      char kind_name[16], dtype_name[16];
      unsigned long long word;
      size_t size = golden_state((sumac_kind)kind, ranges[r], bytes);
      assert_int_equal(size % 8, 0);
      assert_int_equal(fscanf(file, "%15s %15s", kind_name, dtype_name), 2);
      assert_string_equal(kind_name, kind_text[kind]);
      assert_string_equal(dtype_name, dtype_text(ranges[r]));
      for (size_t i = 0; i < size; i += 8)
        if (fscanf(file, "%llx", &word) != 1 || word != get(bytes + i))
          fail_msg("%s of %s, word %zu: %#llx, frozen %#llx", kind_text[kind], dtype_text(ranges[r]), i / 8,
                   (unsigned long long)get(bytes + i), word);
      assert_int_equal(fgetc(file), '\n');
    }
  assert_int_equal(fgetc(file), EOF);
  fclose(file);
}

/* What the format says, without the library: header, counters, the sizes of DESIGN. */
static void bytes_mean_what_they_say(void **state) {
  (void)state;
  static const int sum_limbs[RANGES] = {68, 11, 4, 11, 3, 3, 4},
                   product_limbs[RANGES] = {134, 20, 5, 19, 4, 4, 6};
  unsigned char bytes[MOST];
  for (int kind = 0; kind < KINDS; kind++)
    for (int r = 0; r < RANGES; r++) {
      size_t size = golden_state((sumac_kind)kind, ranges[r], bytes);
      size_t limbs =
          (size_t)(kind == SUMAC_KIND_SUM || kind == SUMAC_KIND_ABS ? sum_limbs[r] : product_limbs[r]);
      if (kind == SUMAC_KIND_MOMENTS) limbs += (size_t)sum_limbs[r];
      assert_int_equal(size, HEADER + 8 * (limbs + TRAILER));
      assert_true(size + 64 < 1800 || kind == SUMAC_KIND_MOMENTS);
      const unsigned char header[HEADER] = {'s',
                                            'u',
                                            'm',
                                            'x',
                                            1,
                                            (unsigned char)kind,
                                            ranges[r].code,
                                            ranges[r].bits,
                                            (unsigned char)(limbs + TRAILER)};
      assert_memory_equal(bytes, header, HEADER);
      int floats = dtype_is_float(ranges[r]), has_inf = floats && ranges[r].code != SUMAC_E4M3FN.code;
      const unsigned char *end = bytes + size;
      assert_int_equal(get(end - 8 * COUNT), floats ? 14 : 10);
      assert_int_equal(get(end - 8 * NAN_COUNT), !floats ? 0 : has_inf ? 1 : 4); /* e4m3fn: inf is NaN */
      int positive = kind != SUMAC_KIND_SUM && kind != SUMAC_KIND_MOMENTS;
      assert_int_equal(get(end - 8 * PLUS_INF), !has_inf ? 0 : positive ? 3 : 2);
      assert_int_equal(get(end - 8 * MINUS_INF), has_inf && !positive ? 1 : 0);
      assert_int_equal(get(end - 8 * NOT_MINUS_ZERO), 1);
      assert_int_equal(get(end - 8 * ONE), 1);
    }
}

/* All integer types and bool share one range: the same numbers, the same bytes. */
static void integers_share_a_range(void **state) {
  (void)state;
  unsigned char first[MOST], bytes[MOST];
  for (int kind = 0; kind < KINDS; kind++)
    for (int d = 6; d < DTYPES; d++) {
      uint64_t ones[2] = {1, 1};
      unsigned char x[16];
      int64_t n = 2;
      sumac_state *s;
      data_pack(dtypes[d], ones, 2, x);
      sumac_tensor t = tensor_of(dtypes[d], x, &n);
      ok(sumac_state_create(NULL, (sumac_kind)kind, dtypes[d], &s));
      ok(sumac_state_add(s, &t, kind == SUMAC_KIND_DOT ? &t : NULL));
      ok(sumac_state_write(s, d == 6 ? first : bytes, sumac_state_size(s)));
      if (d > 6) assert_memory_equal(bytes, first, sumac_state_size(s));
      sumac_state_destroy(s);
    }
}

static sumac_status read_back(const unsigned char *bytes, size_t size, unsigned char *again) {
  /* in memory of just that size, so that a sanitizer sees a byte too many */
  unsigned char *exact = malloc(size == 0 ? 1 : size);
  memcpy(exact, bytes, size);
  sumac_state *s = (sumac_state *)(void *)exact;
  sumac_status status = sumac_state_read(NULL, exact, size, &s);
  free(exact);
  if (status != SUMAC_OK) {
    assert_null(s);
    return status;
  }
  assert_int_equal(sumac_state_size(s), size);
  ok(sumac_state_write(s, again, size));
  sumac_state_destroy(s);
  return status;
}

static void damage_is_refused(void **state) {
  (void)state;
  unsigned char bytes[MOST + 8] = {0}, again[MOST];
  for (int kind = 0; kind < KINDS; kind++)
    for (int r = 0; r < RANGES; r++) {
      size_t size = golden_state((sumac_kind)kind, ranges[r], bytes);
      assert_int_equal(read_back(bytes, size, again), SUMAC_OK);
      assert_memory_equal(bytes, again, size);
      for (size_t n = 0; n <= size + 8; n++)
        if (n != size) assert_int_equal(read_back(bytes, n, again), SUMAC_ERR_FORMAT);
      for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        sumac_status status = read_back(bytes, size, again);
        int checked = bit / 8 < HEADER || bit / 8 >= size - 16;
        if (status == SUMAC_OK ? checked || memcmp(bytes, again, size) != 0 : status != SUMAC_ERR_FORMAT)
          fail_msg("%s of %s, bit %zu turned over: %s", kind_text[kind], dtype_text(ranges[r]), bit,
                   sumac_status_name(status));
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
      }
      for (size_t at = 0; at < HEADER; at++) /* every value of every field of the header */
        for (int value = 0; value < 256; value++) {
          unsigned char was = bytes[at];
          if (value == was) continue;
          bytes[at] = (unsigned char)value;
          assert_int_equal(read_back(bytes, size, again), SUMAC_ERR_FORMAT);
          bytes[at] = was;
        }
    }
}

static void set(unsigned char *bytes, size_t size, int from_end, uint64_t value) {
  put(bytes + size - 8 * (size_t)from_end, value);
}

static void expect_refusal(const char *what, const unsigned char *bytes, size_t size, int kind, int r) {
  unsigned char again[MOST];
  if (read_back(bytes, size, again) != SUMAC_ERR_FORMAT)
    fail_msg("%s of %s is read though nothing could have written it: %s", kind_text[kind],
             dtype_text(ranges[r]), what);
}

/* The top limb of 2^62 of the largest elements, or products, is below 2 to this power. */
static int first_impossible_bit(int kind, int r) {
  static const int sum[RANGES] = {30, 30, 14, 30, 39, 46, 30}, product[RANGES] = {30, 30, 30, 30, 16, 30, 30};
  return 1 + (kind == SUMAC_KIND_SUM || kind == SUMAC_KIND_ABS ? sum[r] : product[r]);
}

/* Well-formed bytes that no multiset of elements leads to. */
static void the_impossible_is_refused(void **unused) {
  (void)unused;
  unsigned char good[MOST], bytes[MOST];
  for (int kind = 0; kind < KINDS; kind++)
    for (int r = 0; r < RANGES; r++) {
      int floats = dtype_is_float(ranges[r]);
      size_t size = golden_state((sumac_kind)kind, ranges[r], good), top = size - 8 * (TRAILER + 1);
      static const uint64_t counters[] = {UINT64_MAX, UINT64_C(1) << 63, (UINT64_C(1) << 62) + 1, 15};
      for (int word = MINUS_INF; word <= COUNT; word++)
        for (int i = 0; i < (word == COUNT ? 3 : 4); i++) {
          memcpy(bytes, good, size);
          set(bytes, size, word, counters[i]);
          expect_refusal("a counter out of range", bytes, size, kind, r);
        }
      memcpy(bytes, good, size);
      set(bytes, size, NAN_COUNT, 9), set(bytes, size, PLUS_INF, 9), set(bytes, size, COUNT, 14);
      expect_refusal("more NaN and infinities than elements", bytes, size, kind, r);
      for (int word = MINUS_INF; word <= NAN_COUNT && !floats; word++) {
        memcpy(bytes, good, size);
        set(bytes, size, word, 1);
        expect_refusal("NaN or infinity among integers", bytes, size, kind, r);
      }
      memcpy(bytes, good, size);
      set(bytes, size, NOT_MINUS_ZERO, 2);
      expect_refusal("a flag of 2", bytes, size, kind, r);
      set(bytes, size, NOT_MINUS_ZERO, 0);
      expect_refusal("a sum of minus zeros that is not 0", bytes, size, kind, r);
      memcpy(bytes, good, size);
      for (int word = NOT_MINUS_ZERO; word <= COUNT; word++) set(bytes, size, word, 0);
      expect_refusal("a sum of nothing that is not 0", bytes, size, kind, r);
      for (int bit = first_impossible_bit(kind, r); bit < 64; bit++)
        for (int negative = 0; negative < 2; negative++) {
          memcpy(bytes, good, size);
          put(bytes + top, negative ? UINT64_MAX << bit : (uint64_t)1 << bit);
          expect_refusal("a number beyond 2^62 elements", bytes, size, kind, r);
        }
      if (kind == SUMAC_KIND_ABS || kind == SUMAC_KIND_SQUARE || kind == SUMAC_KIND_MOMENTS) {
        memcpy(bytes, good, size);
        put(bytes + top, UINT64_MAX);
        expect_refusal("a negative sum of magnitudes", bytes, size, kind, r);
      }
      if (kind == SUMAC_KIND_ABS || kind == SUMAC_KIND_SQUARE) {
        memcpy(bytes, good, size);
        set(bytes, size, MINUS_INF, 1);
        expect_refusal("−inf among magnitudes", bytes, size, kind, r);
      }
    }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_are_frozen),          cmocka_unit_test(bytes_mean_what_they_say),
      cmocka_unit_test(integers_share_a_range),    cmocka_unit_test(damage_is_refused),
      cmocka_unit_test(the_impossible_is_refused),
  };
  if (argc < 2) {
    fprintf(stderr, "usage: state_format FILE [print]\n");
    return 2;
  }
  golden_file = argv[1];
  if (argc > 2) {
    print_golden(stdout);
    return 0;
  }
  return cmocka_run_group_tests_name("state format", tests, NULL, NULL);
}
