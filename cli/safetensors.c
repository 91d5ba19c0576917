/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a .safetensors file: 8 bytes of length, then JSON that gives every tensor its dtype, shape
 * and bytes, then these bytes, without gaps or overlaps. (github.com/huggingface/safetensors, "Format".)
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "input.h"

enum { MOST_HEADER = 16 << 20, MOST_MEMBERS = 1 << 20 };

static _Noreturn void malformed(const struct input *in, const char *tensor, const char *what) {
  if (tensor)
    fail(EXIT_INPUT, "%s: malformed .safetensors header: tensor '%s': %s", in->stream.name, tensor, what);
  fail(EXIT_INPUT, "%s: malformed .safetensors header: %s", in->stream.name, what);
}

/* Reads the header, which grows as it arrives, into in->owned; the stream then stands at the data. */
static void read_header(struct input *in, size_t *length) {
  struct stream *s = &in->stream;
  if (!stream_need(s, 8)) malformed(in, NULL, "the file ends in its length");
  uint64_t wanted = 0;
  for (int i = 7; i >= 0; i--) wanted = wanted << 8 | (unsigned char)s->window[s->begin + (size_t)i];
  s->begin += 8;
  if (wanted > stream_left(s)) malformed(in, NULL, "it is longer than the file");
  if (wanted > MOST_HEADER) malformed(in, NULL, "it is longer than 16 MiB");
  for (*length = 0; *length < wanted;) {
    if (!stream_need(s, 1)) malformed(in, NULL, "the file ends in it");
    size_t more = s->end - s->begin, left = (size_t)wanted - *length;
    more = more < left ? more : left;
    in->owned = reallocate(in->owned, *length + more);
    memcpy((char *)in->owned + *length, s->window + s->begin, more);
    s->begin += more;
    *length += more;
  }
  if (!in->owned || *(char *)in->owned != '{') malformed(in, NULL, "it does not begin with {");
}

static sumac_dtype dtype_of(const struct input *in, const char *tensor, const char *name) {
  static const struct {
    const char *name;
    const sumac_dtype *dtype;
  } known[] = {{"F64", &SUMAC_F64},   {"F32", &SUMAC_F32},        {"F16", &SUMAC_F16},
               {"BF16", &SUMAC_BF16}, {"F8_E4M3", &SUMAC_E4M3FN}, {"F8_E5M2", &SUMAC_E5M2},
               {"I8", &SUMAC_I8},     {"I16", &SUMAC_I16},        {"I32", &SUMAC_I32},
               {"I64", &SUMAC_I64},   {"U8", &SUMAC_U8},          {"U16", &SUMAC_U16},
               {"U32", &SUMAC_U32},   {"U64", &SUMAC_U64},        {"BOOL", &SUMAC_BOOL}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(name, known[i].name) == 0) return *known[i].dtype;
  fail(EXIT_UNSUPPORTED,
       "%s: tensor '%s' has elements of type '%.40s'; sumac reads F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I8 "
       "to "
       "I64, U8 "
       "to U64, BOOL",
       in->stream.name, tensor, name);
}

static void read_member(const struct input *in, const char *name, const json_t *entry, uint64_t bytes,
                        struct member *m) {
  const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
  const json_t *offsets = json_object_get(entry, "data_offsets"), *number;
  size_t i;
  if (!json_is_string(dtype) || !json_is_array(shape) || !json_is_array(offsets) ||
      json_object_size(entry) != 3)
    malformed(in, name, "it has no dtype, shape and data_offsets, or something else");
  if (json_array_size(shape) > SUMAC_MAX_DIMS) malformed(in, name, "the shape has more than 64 dimensions");
  if (json_array_size(offsets) != 2 || !json_is_integer(json_array_get(offsets, 0)) ||
      !json_is_integer(json_array_get(offsets, 1)))
    malformed(in, name, "data_offsets are not two integers");
  if (has_control(json_string_value(dtype))) malformed(in, name, "its dtype has control characters");
  m->name = name;
  m->dtype = dtype_of(in, name, json_string_value(dtype));
  m->ndim = (int32_t)json_array_size(shape);
  m->shape = allocate((size_t)m->ndim * sizeof *m->shape);
  json_array_foreach(shape, i, number) {
    if (!json_is_integer(number) || json_integer_value(number) < 0)
      malformed(in, name, "the shape is no list of sizes");
    m->shape[i] = json_integer_value(number);
  }
  m->n = shape_size(m->ndim, m->shape);
  json_int_t begin = json_integer_value(json_array_get(offsets, 0)),
             end = json_integer_value(json_array_get(offsets, 1));
  if (begin < 0 || end < begin || (uint64_t)end > bytes)
    malformed(in, name, "data_offsets reach beyond the data");
  uint64_t size;
  if (m->n < 0 || __builtin_mul_overflow((uint64_t)m->n, dtype_size(m->dtype), &size) ||
      size != (uint64_t)(end - begin))
    malformed(in, name, "dtype and shape do not agree with data_offsets");
  m->offset = (uint64_t)begin;
}

void safetensors_fail_rest(const struct input *in) {
  malformed(in, NULL, "there are bytes that belong to no tensor");
}

static int by_offset(const void *a, const void *b) {
  const struct member *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  if ((x->n == 0) != (y->n == 0)) return x->n == 0 ? -1 : 1; /* what is empty takes no place */
  return strcmp(x->name, y->name);
}

void safetensors_open(struct input *in) {
  size_t length;
  read_header(in, &length);
  json_error_t error;
  json_t *header = json_loadb(in->owned, length, JSON_REJECT_DUPLICATES, &error), *entry;
  free(in->owned);
  in->owned = NULL;
  in->json = header;
  if (!header && !*error.text) /* where the parser finds a fault, it names it */
    fail(EXIT_OTHER, "%s: out of memory for the header", in->stream.name);
  if (!header) {
    for (char *p = error.text; *p; p++)
      if ((unsigned char)*p < ' ') *p = ' ';
    malformed(in, NULL, error.text);
  }
  uint64_t bytes = stream_left(&in->stream), at = 0;
  if (!in->stream.regular) bytes = INT64_MAX; /* a pipe shows what it holds when it is read */
  if (json_object_size(header) > MOST_MEMBERS) malformed(in, NULL, "it has more than 2^20 tensors");
  struct member *member = in->member = allocate(json_object_size(header) * sizeof *member);
  const char *name;
  json_object_foreach(header, name, entry) {
    if (strcmp(name, "__metadata__") == 0) continue;
    if (has_control(name)) malformed(in, NULL, "a tensor's name has control characters");
    member[in->members].shape = NULL;
    read_member(in, name, entry, bytes, &member[in->members++]);
  }
  qsort(member, (size_t)in->members, sizeof *member, by_offset);
  for (int64_t i = 0; i < in->members; i++) {
    if (member[i].offset != at)
      malformed(in, member[i].name, "its bytes do not begin where those before it end");
    at += (uint64_t)member[i].n * dtype_size(member[i].dtype);
  }
  if (in->stream.regular && at != bytes) safetensors_fail_rest(in);
  in->dtype = SUMAC_U8; /* the data as a whole */
  in->ndim = 1;
  in->shape[0] = (int64_t)at;
}

void safetensors_close(struct input *in) {
  for (int64_t i = 0; i < in->members; i++) free(in->member[i].shape);
  free(in->member);
  json_decref(in->json);
}
