/* SPDX-License-Identifier: Apache-2.0
 *
 * Serialised states and shared words from anywhere. What is read must write the same bytes and be fit for
 * every call; words that a caller has filled with anything must be refused or serve.
 *
 * Input: with an even first byte, the rest is a serialised state; with an odd one, kind, dtype, then words.
 * So that mutation gets past the checks, the check words and the size are put right if a bit says so.
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

static void from_bytes(const uint8_t *data, size_t size, int mend) {
  sumac_state *state = NULL, *good;
  unsigned char *bytes = malloc(size + 1), *again = malloc(size + 1);
  memcpy(bytes, data, size);
  sumac_dtype dtype = {size > 7 ? bytes[6] : 0, size > 7 ? bytes[7] : 0, 1};
  if (mend && size > 16 && sumac_state_create(NULL, (sumac_kind)bytes[5], dtype, &good) == SUMAC_OK) {
    size_t right = sumac_state_size(good);
    bytes = realloc(bytes, right > size ? right : size);
    again = realloc(again, right > size ? right : size);
    memset(bytes + size, 0, right > size ? right - size : 0);
    size = right;
    unsigned char *model = malloc(right);
    must(sumac_state_write(good, model, right) == SUMAC_OK, "write");
    memcpy(bytes, model, 16);
    memcpy(bytes + right - 16, model + right - 16, 16);
    for (size_t i = 20; i + 56 < right; i += 8) /* limbs of 32 bits */
      memset(bytes + i, 0, 4);
    free(model);
    sumac_state_destroy(good);
  }
  sumac_status status = sumac_state_read(NULL, bytes, size, &state);
  must(status == SUMAC_OK || status == SUMAC_ERR_FORMAT, "read");
  must((state != NULL) == (status == SUMAC_OK), "a state without success");
  if (state != NULL) {
    must(sumac_state_size(state) == size && sumac_state_write(state, again, size) == SUMAC_OK, "write back");
    must(memcmp(bytes, again, size) == 0, "other bytes than were read");
    use(state);
  }
  sumac_state_destroy(state);
  free(bytes);
  free(again);
}

static void from_words(const uint8_t *data, size_t size, int mend) {
  sumac_state *state;
  int64_t *words;
  size_t count;
  if (size < 2 ||
      sumac_state_create(NULL, (sumac_kind)(data[0] % 5), dtypes[data[1] % DTYPES], &state) != SUMAC_OK)
    return;
  must(sumac_state_words(state, &words, &count) == SUMAC_OK, "words");
  int64_t one = words[count - 2], hash = words[count - 1];
  size_t bytes = size - 2 < 8 * count ? size - 2 : 8 * count;
  memcpy(words, data + 2, bytes);
  if (mend) { /* as from so many ranks */
    int64_t ranks = 1 + (words[count - 2] & 0xffff);
    words[count - 2] = one * ranks;
    words[count - 1] = hash * ranks;
  }
  use(state);
  sumac_state_destroy(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 0)
    from_bytes(data + 1, size - 1, data[0] & 2);
  else
    from_words(data + 1, size - 1, data[0] & 2);
  return 0;
}
