/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeds the readers of .npy, .safetensors and text with mutated files. Whatever they hold, a reader ends with
 * a sentence or with an array that lies within the file, and every number it reads from text is the one that
 * strtod and strtof read. A libFuzzer target; alone: fuzz_input RUNS [SEED].
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input.h"
#include "number.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static jmp_buf refused;

/* In the command fail() ends the process; here, the run. */
void fail(enum exit_code code, const char *format, ...) {
  char sentence[4096];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  if (length <= 0 || strchr(sentence, '\n')) abort();
  longjmp(refused, code);
}

void *reallocate(void *memory, size_t size) {
  if (size > 64 << 20) abort(); /* no file here is larger than 64 KiB: what would it be for? */
  void *grown = realloc(memory, size ? size : 1);
  if (!grown) abort();
  return grown;
}

void *allocate(size_t size) { return reallocate(NULL, size); }

static void check_text(struct input *in) {
  struct decimal d;
  const char *token;
  size_t length;
  while (text_next(in->text, &d, &token, &length)) {
    if (d.kind == DECIMAL_NAN) continue;
    char *copy = strndup(token, length);
    double as_double, expected = strtod(copy, NULL);
    float as_float, expected_float = strtof(copy, NULL);
    number_store(SUMAC_F64, &d, token, length, &as_double);
    number_store(SUMAC_F32, &d, token, length, &as_float);
    if (memcmp(&as_double, &expected, sizeof expected) != 0) abort();
    if (memcmp(&as_float, &expected_float, sizeof expected_float) != 0) abort();
    free(copy);
  }
}

static volatile char sink; /* every byte must be readable */

static void check_array(struct input *in, uint64_t size) {
  if (in->n < 0 || in->n != shape_size(in->ndim, in->shape)) abort();
  if ((uint64_t)in->n > size / dtype_size(in->dtype)) abort();
  input_load(in);
  for (uint64_t i = 0; i < (uint64_t)in->n * dtype_size(in->dtype); i++) sink ^= ((const char *)in->data)[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int fd = -1;
  static char path[64];
  static struct input in, member; /* outlive the jump */
  if (size < 1 || size > 1 << 16) return 0;
  if (fd < 0) {
    fd = memfd_create("input", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data + 1, size - 1, 0) != (ssize_t)size - 1) abort();
  struct input_options options = {.empty_is_nan = data[0] & 1, .table = data[0] & 2};
  if (data[0] & 4) options.column = data[0] & 8 ? "b" : "2";
  if (data[0] & 16) options.header = data[0] & 32 ? HEADER_YES : HEADER_NO;
  if (data[0] & 64) options.has_dtype = true, options.dtype = SUMAC_BF16;
  if (data[0] & 128) options.delimiter = ';';
  bool is_npy = size > 1 && data[1] == 0x93, many = size > 9 && data[9] == '{' && data[4] == 0;
  if (many) options = (struct input_options){.format = FORMAT_SAFETENSORS};
  if (is_npy)
    options =
        (struct input_options){.format = FORMAT_NPY, .has_dtype = options.has_dtype, .dtype = options.dtype};
  in = (struct input){.stream.fd = -1};
  member = (struct input){.is_member = true};
  if (setjmp(refused) == 0) {
    input_open(&in, path, &options);
    if (in.format == FORMAT_TEXT)
      check_text(&in);
    else if (in.format != FORMAT_NPZ)
      check_array(&in, size);
    for (int64_t i = 0; i < in.members; i++) {
      input_member(&in, &options, i, &member);
      if (in.format == FORMAT_NPZ)
        input_load(&member); /* which may be longer than its archive */
      else if (in.member[i].offset + (uint64_t)member.n * dtype_size(member.dtype) > size)
        abort();
      else
        check_array(&member, size);
      input_close(&member);
      member = (struct input){.is_member = true};
    }
  }
  input_close(&member);
  if (in.stream.fd >= 0) input_close(&in);
  return 0;
}

#ifndef SUMAC_LIBFUZZER
static const char *const seeds[] = {
    "\x00"
    "1\n2.5\n-3e-2\n",
    "\x04"
    "a,b\n1,2\n3,\"4.5\"\n",
    "\x0c"
    "\"a\",\"b\"\n1,2\r\n",
    "\x02"
    "1 2\n3 4\n",
    "\x01"
    "1,,2\n# remark\n\nnan,inf\n",
    "\x80"
    "1;2;9.900000000000006573e-01\n",
    "\x10"
    "123456789012345678901234567890.5e-300 4e-324\n",
    "\x00"
    "0.1\t1e23\t8.5e22\t5e-324\t1.7976931348623159e308\n",
};

/* A file with zeros in it, so no string: shape (2, 3) of '<f8'. */
static size_t npy_seed(uint8_t *out) {
  static const char dict[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n";
  memcpy(out, "\0\x93NUMPY\1\0\0\0", 11);
  out[9] = sizeof dict - 1;
  memcpy(out + 11, dict, sizeof dict - 1);
  memset(out + 11 + sizeof dict - 1, 0x3f, 48);
  return 11 + sizeof dict - 1 + 48;
}

static size_t safetensors_seed(uint8_t *out) {
  static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                               "\"b\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[8,9]}}";
  memset(out, 0, 9);
  out[1] = sizeof header - 1;
  memcpy(out + 9, header, sizeof header - 1);
  memset(out + 9 + sizeof header - 1, 0x3f, 9);
  return 9 + sizeof header - 1 + 9;
}

static uint64_t random_state;
static uint64_t below(uint64_t n) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state % n;
}

static size_t mutate(uint8_t *b, size_t size, size_t room) {
  static const char bytes[] = "0123456789+-.eE,;\t \n\r\"#'(){}:<>|fuViLna\0\xff";
  for (uint64_t times = below(5); times-- > 0;) {
    size_t at = below(size), count = 1 + below(below(8) ? 4 : 300);
    switch (below(4)) {
    case 0: b[at] = (uint8_t)bytes[below(sizeof bytes - 1)]; break;
    case 1: b[at] ^= (uint8_t)(1u << below(8)); break;
    case 2: /* cut */
      if (at + count < size) {
        memmove(b + at, b + at + count, size - at - count);
        size -= count;
      }
      break;
    default: /* repeat what is there */
      if (at + count <= size && size + count <= room) {
        memmove(b + at + count, b + at, size - at);
        size += count;
      }
    }
  }
  return size;
}

int main(int argc, char **argv) {
  long runs = argc > 1 ? atol(argv[1]) : 0;
  random_state = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : 0x9e3779b97f4a7c15;
  size_t count = sizeof seeds / sizeof *seeds;
  for (long run = 0; run < runs; run++) {
    uint8_t b[8192];
    size_t which = below(count + count / 2), size;
    if (which < count) {
      size = 1 + strlen(seeds[which] + 1);
      memcpy(b, seeds[which], size);
    } else {
      size = below(2) ? npy_seed(b) : safetensors_seed(b);
    }
    if (below(4) == 0) b[0] = (uint8_t)below(256);
    for (int round = 0; round < 4; round++) {
      size = mutate(b, size, sizeof b);
      LLVMFuzzerTestOneInput(b, size);
    }
  }
  printf("%ld runs\n", 4 * runs);
  return runs > 0 ? 0 : 2;
}
#endif
