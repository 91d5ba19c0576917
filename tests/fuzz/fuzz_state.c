/* SPDX-License-Identifier: Apache-2.0
 *
 * Serialised states and shared words from anywhere. What is read must write the same bytes and be fit for
 * every call; words that a caller has filled with anything must be refused or serve.
 *
 * Input: the first byte says whether the rest is a serialised state, or the words of one, which may be put
 * right so that they get past the checks, and may go through bytes.
 */
#include "../data.h"
#include "../view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int right, const char *what) {
  if (!right) {
    fprintf(stderr, "%s: %s\n", what, sumac_error_message());
    abort();
  }
}

static void use(sumac_state *state) {
  static const double values[] = {1, -3, 0x1p-1074, 1e308};
  sumac_kind kind;
  sumac_dtype dtype;
  int64_t n, nan, four = 4;
  uint64_t bits = 0;
  sumac_tensor out = scalar_of(SUMAC_F64, &bits);
  if (sumac_state_info(state, &kind, &dtype, &n, &nan) != SUMAC_OK) return;
  must(n >= 0 && nan >= 0 && nan <= n, "counts");
  for (int op = 0; op < OPS; op++) {
    sumac_options options = {.flags = op % 2 ? SUMAC_SKIP_NAN : 0, .ddof = op};
    for (int d = 0; d < DTYPES - 1; d++) {
      out.dtype = dtypes[d];
      sumac_status status = sumac_state_result(state, (sumac_op)op, &options, &out);
      must(status == SUMAC_OK || status == SUMAC_ERR_RANGE || status == SUMAC_ERR_UNSUPPORTED, "result");
    }
  }
  /* there and back, twice itself, and an element more */
  size_t bytes = sumac_state_size(state);
  unsigned char *first = malloc(bytes), *second = malloc(bytes);
  sumac_state *twin = NULL;
  must(sumac_state_write(state, first, bytes) == SUMAC_OK, "write");
  must(sumac_state_read(NULL, first, bytes, &twin) == SUMAC_OK, "what was written is not read");
  must(sumac_state_write(twin, second, bytes) == SUMAC_OK, "write again");
  must(memcmp(first, second, bytes) == 0, "other bytes");
  sumac_status status = sumac_state_merge(state, twin);
  must(status == SUMAC_OK || status == SUMAC_ERR_ARGUMENT, "merge");
  uint64_t codes[4];
  unsigned char elements[32];
  for (int i = 0; i < 4; i++) codes[i] = data_code(dtype, values[i]);
  data_pack(dtype, codes, 4, elements);
  sumac_tensor x = tensor_of(dtype, elements, &four);
  status = sumac_state_add(state, &x, kind == SUMAC_KIND_DOT ? &x : NULL);
  must(status == SUMAC_OK || status == SUMAC_ERR_ARGUMENT, "add");
  must(sumac_state_write(state, first, bytes) == SUMAC_OK, "write the sum");
  sumac_state_destroy(twin);
  free(first);
  free(second);
}

/* Random words are never a state's; these may be: limbs of 32 bits, counters that can have come about. */
static void mend(int64_t *words, size_t count, int floats) {
  int64_t *counter = words + count - 7;
  for (int64_t *w = words; w < counter; w++) *w &= 0xffffffff;
  counter[-1] &= 0xfff;
  for (int i = 1; i < 4; i++) counter[i] = floats ? counter[i] & 3 : 0;
  counter[0] = (counter[0] & 0xff) + 1 + counter[1] + counter[2] + counter[3];
  counter[4] = 1;
}

/* A state of a kind and dtype that the input chooses, with words that it fills. */
static void from_words(const uint8_t *data, size_t size, int mended, int serialised) {
  sumac_state *state, *twin = NULL;
  int64_t *words;
  size_t count;
  if (size < 3) return;
  sumac_dtype dtype = dtypes[data[1] % DTYPES];
  must(sumac_state_create(NULL, (sumac_kind)(data[0] % 5), dtype, &state) == SUMAC_OK, "create");
  must(sumac_state_words(state, &words, &count) == SUMAC_OK, "words");
  int64_t one = words[count - 2], hash = words[count - 1], ranks = serialised ? 1 : 1 + data[2];
  memcpy(words, data + 3, size - 3 < 8 * count ? size - 3 : 8 * count);
  if (mended) {
    mend(words, count, dtype_is_float(dtype));
    words[count - 2] = one * ranks;
    words[count - 1] = hash * ranks;
  }
  if (serialised) { /* the words go through bytes that were not written by the library */
    size_t bytes = sumac_state_size(state);
    unsigned char *given = malloc(bytes), *again = malloc(bytes);
    sumac_state *empty;
    must(sumac_state_create(NULL, (sumac_kind)(data[0] % 5), dtype, &empty) == SUMAC_OK, "create");
    must(sumac_state_write(empty, given, bytes) == SUMAC_OK, "write");
    memcpy(given + 16, words, bytes - 16);
    sumac_status status = sumac_state_read(NULL, given, bytes, &twin);
    must(status == SUMAC_OK || status == SUMAC_ERR_FORMAT, "read");
    if (twin != NULL) {
      must(sumac_state_write(twin, again, bytes) == SUMAC_OK, "write back");
      must(memcmp(given, again, bytes) == 0, "other bytes than were read");
      use(twin);
    }
    sumac_state_destroy(twin);
    sumac_state_destroy(empty);
    free(given);
    free(again);
  }
  use(state);
  sumac_state_destroy(state);
}

static void from_bytes(const uint8_t *data, size_t size) {
  sumac_state *state = NULL;
  unsigned char again[4096];
  sumac_status status = sumac_state_read(NULL, data, size, &state);
  must(status == SUMAC_OK || status == SUMAC_ERR_FORMAT, "read");
  must((state != NULL) == (status == SUMAC_OK), "a state without success");
  if (state == NULL) return;
  must(size <= sizeof again && sumac_state_write(state, again, size) == SUMAC_OK, "write back");
  must(memcmp(data, again, size) == 0, "other bytes than were read");
  use(state);
  sumac_state_destroy(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 8 == 0)
    from_bytes(data + 1, size - 1);
  else
    from_words(data + 1, size - 1, data[0] % 8 > 2, data[0] % 2);
  return 0;
}
