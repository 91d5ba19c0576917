/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a .npy file: magic, version, length, and a Python dict literal such as
 *   {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
 * of which exactly that much grammar is accepted.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"

struct header {
  const char *name; /* of the file */
  const char *p, *end;
};

static _Noreturn void malformed(const struct header *h, const char *what) {
  fail(EXIT_INPUT, "%s: malformed .npy header: %s", h->name, what);
}

static char peek(struct header *h) {
  while (h->p < h->end && (*h->p == ' ' || *h->p == '\t' || *h->p == '\n' || *h->p == '\r')) h->p++;
  return h->p < h->end ? *h->p : 0;
}

static bool take(struct header *h, char c) {
  if (peek(h) != c) return false;
  h->p++;
  return true;
}

static void expect(struct header *h, char c, const char *what) {
  if (!take(h, c)) malformed(h, what);
}

static bool take_word(struct header *h, const char *word) {
  size_t length = strlen(word);
  peek(h);
  if ((size_t)(h->end - h->p) < length || memcmp(h->p, word, length) != 0) return false;
  h->p += length;
  return true;
}

static void read_string(struct header *h, char *text, size_t size, const char *what) {
  char quote = peek(h);
  if (quote != '\'' && quote != '"') malformed(h, what);
  const char *from = ++h->p;
  while (h->p < h->end && *h->p != quote && *h->p != '\\' && isprint((unsigned char)*h->p)) h->p++;
  size_t length = (size_t)(h->p - from);
  if (h->p == h->end || *h->p != quote || length >= size) malformed(h, what);
  memcpy(text, from, length);
  text[length] = 0;
  h->p++;
}

static void read_shape(struct header *h, struct input *in) {
  expect(h, '(', "the shape is no tuple");
  bool comma = true;
  while (!take(h, ')')) {
    if (!comma || !isdigit((unsigned char)peek(h))) malformed(h, "the shape is no tuple of sizes");
    if (in->ndim == SUMAC_MAX_DIMS) malformed(h, "the shape has more than 64 dimensions");
    int64_t size = 0;
    for (; h->p < h->end && isdigit((unsigned char)*h->p); h->p++)
      if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, *h->p - '0', &size))
        malformed(h, "a size does not fit in 63 bits");
    if (h->p < h->end && *h->p == 'L') h->p++; /* Python 2 wrote long integers so */
    in->shape[in->ndim++] = size;
    comma = take(h, ',');
  }
  if (in->ndim == 1 && !comma) malformed(h, "the shape is no tuple (a number in brackets)");
}

/* '<f8' and the like. What numpy itself stores is taken from `descr`; bytes without a type ('|V2',
 * '|V1', '<f1') and unsigned integers may be read as another dtype of their size. */
static void resolve_descr(const struct header *h, struct input *in, const char *descr,
                          const struct input_options *o) {
  const char *p = descr;
  char order = strchr("<>|=", *p) && *p ? *p++ : '=';
  char kind = *p ? *p++ : 0;
  char *end = (char *)(uintptr_t)p;
  long size = isdigit((unsigned char)*p) ? strtol(p, &end, 10) : -1;
  bool has_unit = (kind == 'M' || kind == 'm') && *end == '[';
  if (!kind || !strchr("biufcmMOSUVat", kind) || (*end && !has_unit) || (size < 0 && kind != 'O'))
    malformed(h, "descr is no dtype");
  sumac_dtype dtype = {0};
  if (kind == 'b' && size == 1) dtype = SUMAC_BOOL;
  if ((kind == 'i' || kind == 'u') && (size == 1 || size == 2 || size == 4 || size == 8))
    dtype = (sumac_dtype){kind == 'u' ? SUMAC_U8.code : SUMAC_I8.code, (uint8_t)(8 * size), 1};
  if (kind == 'f' && (size == 2 || size == 4 || size == 8))
    dtype = (sumac_dtype){SUMAC_F64.code, (uint8_t)(8 * size), 1};

  bool untyped = kind == 'V' || (kind == 'f' && size == 1);
  if (!dtype.bits && !untyped)
    fail(EXIT_UNSUPPORTED,
         "%s: elements of type '%s' cannot be reduced; sumac reads b1, i1 to i8, u1 to u8, "
         "f2, f4, f8",
         h->name, descr);
  if (o->has_dtype && !(dtype.bits && dtype_equal(dtype, o->dtype))) {
    if (!untyped && kind != 'u')
      fail(EXIT_UNSUPPORTED,
           "%s: --dtype %s does not apply to elements of type '%s'; it names the type of "
           "untyped or unsigned ones",
           h->name, sumac_dtype_name(o->dtype), descr);
    if ((size_t)size != dtype_size(o->dtype))
      fail(EXIT_UNSUPPORTED, "%s: --dtype %s needs elements of %zu bytes; those of '%s' have %ld", h->name,
           sumac_dtype_name(o->dtype), dtype_size(o->dtype), descr, size);
    dtype = o->dtype;
  }
  if (!dtype.bits)
    fail(EXIT_UNSUPPORTED,
         "%s: elements of type '%s' are bytes without a type; name it with --dtype (bf16, "
         "e4m3fn, e5m2 ...)",
         h->name, descr);
  in->dtype = dtype;
  in->swap = order == '>' && size > 1;
}

static void read_dict(struct header *h, struct input *in, const struct input_options *o) {
  char key[16], descr[32] = "";
  bool has_descr = false, has_order = false, has_shape = false, comma = true;
  expect(h, '{', "it is no dict");
  while (!take(h, '}')) {
    if (!comma) malformed(h, "a comma is missing");
    read_string(h, key, sizeof key, "a key is no short string");
    expect(h, ':', "a colon is missing");
    if (strcmp(key, "descr") == 0 && !has_descr) {
      has_descr = true;
      if (peek(h) == '[') fail(EXIT_UNSUPPORTED, "%s: structured elements cannot be reduced", h->name);
      read_string(h, descr, sizeof descr, "descr is no dtype");
    } else if (strcmp(key, "fortran_order") == 0 && !has_order) {
      has_order = true;
      in->fortran = take_word(h, "True");
      if (!in->fortran && !take_word(h, "False")) malformed(h, "fortran_order is neither True nor False");
    } else if (strcmp(key, "shape") == 0 && !has_shape) {
      has_shape = true;
      read_shape(h, in);
    } else {
      malformed(h, "a key is unknown or there twice");
    }
    comma = take(h, ',');
  }
  peek(h);
  if (h->p < h->end) malformed(h, "something follows the dict"); /* a NUL, too */
  if (!has_descr || !has_order || !has_shape) malformed(h, "descr, fortran_order or shape is missing");
  resolve_descr(h, in, descr, o);
}

void npy_open(struct input *in, const struct input_options *o) {
  struct stream *s = &in->stream;
  struct header h = {.name = s->name};
  if (!stream_need(s, 6) || memcmp(s->window, "\x93NUMPY", 6) != 0)
    fail(EXIT_INPUT, "%s: not a .npy file (it does not begin with \\x93NUMPY)", s->name);
  if (!stream_need(s, 10)) malformed(&h, "the file ends in it");
  unsigned char *b = (unsigned char *)s->window;
  if (b[6] < 1 || b[6] > 3 || b[7] != 0)
    fail(EXIT_UNSUPPORTED, "%s: .npy version %d.%d is not known; 1.0, 2.0 and 3.0 are", s->name, b[6], b[7]);
  size_t lead = b[6] == 1 ? 10 : 12;
  if (!stream_need(s, lead)) malformed(&h, "the file ends in it");
  uint64_t length = b[8] | (uint64_t)b[9] << 8;
  if (b[6] > 1) length |= (uint64_t)b[10] << 16 | (uint64_t)b[11] << 24;
  s->begin = lead;
  if (length > stream_left(s)) malformed(&h, "the file ends in it");
  if (length > STREAM_CAPACITY / 2) malformed(&h, "it is longer than 512 KiB");
  if (!stream_need(s, length)) malformed(&h, "the file ends in it");
  h.p = s->window + s->begin;
  h.end = h.p + length;
  s->begin += length;
  read_dict(&h, in, o);
}
