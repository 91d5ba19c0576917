/* SPDX-License-Identifier: Apache-2.0
 *
 * Results on stdout: as text that sumac reads back, or as one line of JSON.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "number.h"

static const void *element(const struct result *r, int64_t i) {
  return (const char *)r->values + (size_t)i * dtype_size(r->dtype);
}

/* One value a line in one dimension; in more, one row a line and an empty line between matrices. */
static void print_text(const struct result *r, void (*write)(sumac_dtype, const void *, char *)) {
  char text[NUMBER_MAX_TEXT];
  int64_t row = r->ndim > 1 ? r->shape[r->ndim - 1] : 1,
          matrix = r->ndim > 1 ? row * r->shape[r->ndim - 2] : 0;
  for (int64_t i = 0; i < r->size; i++) {
    if (matrix && i && i % matrix == 0) putchar('\n');
    write(r->dtype, element(r, i), text);
    fputs(text, stdout);
    putchar((i + 1) % row ? ' ' : '\n');
  }
}

/* A JSON number cannot be NaN or infinite, so those are strings; a float keeps a point or an exponent,
 * so that readers keep it a float (and the sign of −0). */
static void print_json_value(const struct result *r, int64_t i) {
  char text[NUMBER_MAX_TEXT];
  number_shortest(r->dtype, element(r, i), text);
  bool word = strpbrk(text, "ni") != NULL;
  bool whole = dtype_is_float(r->dtype) && !word && !strpbrk(text, ".e");
  printf(word ? "\"%s\"" : whole ? "%s.0" : "%s", text);
}

static void print_json_bits(const struct result *r, int64_t i) {
  printf("\"0x%0*" PRIx64 "\"", r->dtype.bits / 4, number_bits(r->dtype, element(r, i)));
}

/* Nested arrays, as deep as the result has dimensions. Returns the index behind the last element. */
static int64_t print_nested(const struct result *r, int32_t axis, int64_t i,
                            void (*print)(const struct result *, int64_t)) {
  if (axis == r->ndim) {
    print(r, i);
    return i + 1;
  }
  putchar('[');
  for (int64_t k = 0; k < r->shape[axis]; k++) {
    if (k) fputs(", ", stdout);
    i = print_nested(r, axis + 1, i, print);
  }
  putchar(']');
  return i;
}

void print_json_string(const char *text) {
  putchar('"');
  for (const char *p = text; *p; p++) {
    if (*p == '"' || *p == '\\') putchar('\\');
    putchar(*p); /* control characters are in no name */
  }
  putchar('"');
}

static void print_json(const struct request *q, const struct result *r) {
  printf("{\"op\": \"%s\"", sumac_op_name(q->op));
  if (r->tensor) fputs(", \"tensor\": ", stdout), print_json_string(r->tensor);
  printf(", \"dtype\": \"%s\", \"acc\": \"%s\", \"n\": %" PRId64 ", \"result\": ", sumac_dtype_name(r->dtype),
         sumac_acc_name((sumac_acc)q->options.acc), r->n);
  print_nested(r, 0, 0, print_json_value);
  printf(", \"bits\": ");
  print_nested(r, 0, 0, print_json_bits);
  printf(", \"backend\": \"cpu\", \"kernel\": \"%s\", \"seconds\": %.9f, \"bytes_per_second\": %.0f}\n",
         r->kernel, r->seconds, r->seconds > 0 ? r->bytes / r->seconds : 0);
}

void print_result(const struct request *q, const struct result *r, enum output_style style) {
  if (r->tensor && style != OUTPUT_JSON) printf(r->ndim ? "%s\n" : "%s ", r->tensor);
  switch (style) {
  case OUTPUT_DECIMAL: print_text(r, number_shortest); break;
  case OUTPUT_HEX: print_text(r, number_hex); break;
  case OUTPUT_JSON: print_json(q, r); break;
  }
}
