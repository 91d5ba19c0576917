/* SPDX-License-Identifier: Apache-2.0
 *
 * `sumac stats`: what there is to know of an array, as a table or as one line of JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "input.h"
#include "number.h"

struct row {
  const char *name;
  int64_t count;     /* where value is NULL */
  const void *value; /* of the type, for print */
  sumac_dtype dtype;
};

enum { ROWS = 12 };

static void make_rows(const sumac_statistics *s, sumac_dtype dtype, struct row rows[ROWS]) {
  bool none = s->n == s->nan; /* then min and max are no elements, but NaN */
  sumac_dtype extreme = none ? SUMAC_F64 : dtype;
  const struct row all[ROWS] = {{"n", s->n, NULL, SUMAC_I64},
                                {"nan", s->nan, NULL, SUMAC_I64},
                                {"+inf", s->pos_inf, NULL, SUMAC_I64},
                                {"-inf", s->neg_inf, NULL, SUMAC_I64},
                                {"zeros", s->zeros, NULL, SUMAC_I64},
                                {"min", 0, none ? (const void *)&s->min : &s->min_bits, extreme},
                                {"max", 0, none ? (const void *)&s->max : &s->max_bits, extreme},
                                {"mean", 0, &s->mean, SUMAC_F64},
                                {"std", 0, &s->std, SUMAC_F64},
                                {"norm1", 0, &s->norm1, SUMAC_F64},
                                {"norm2", 0, &s->norm2, SUMAC_F64},
                                {"norminf", 0, &s->norminf, SUMAC_F64}};
  memcpy(rows, all, sizeof all);
}

void stats_inputs(const struct request *r, struct input *x, struct stats *stats) {
  double start = now_seconds();
  sumac_options options = {.ddof = r->options.ddof};
  if (!x->data) input_load(x);
  sumac_tensor t = input_tensor(x);
  check(sumac_stats(r->context, &t, &options, &stats->values));
  input_verify(x);
  stats->tensor = NULL;
  stats->dtype = x->dtype;
  stats->bytes = input_bytes(x);
  stats->seconds = now_seconds() - start;
}

void print_stats(const struct stats *s, bool json) {
  struct row rows[ROWS];
  char text[NUMBER_MAX_TEXT];
  make_rows(&s->values, s->dtype, rows);
  if (s->tensor && !json) printf("%-8s %s\n", "tensor", s->tensor);
  if (json) fputs("{\"op\": \"stats\"", stdout);
  if (s->tensor && json) fputs(", \"tensor\": ", stdout), print_json_string(s->tensor);
  if (json) printf(", \"dtype\": \"%s\"", sumac_dtype_name(s->dtype));
  for (int i = 0; i < ROWS; i++) {
    if (rows[i].value)
      number_shortest(rows[i].dtype, rows[i].value, text);
    else
      snprintf(text, sizeof text, "%" PRId64, rows[i].count);
    bool word = strpbrk(text, "ni") != NULL;
    bool whole = rows[i].value && dtype_is_float(rows[i].dtype) && !word && !strpbrk(text, ".e");
    if (json)
      printf(word ? ", \"%s\": \"%s\"" : whole ? ", \"%s\": %s.0" : ", \"%s\": %s", rows[i].name, text);
    else
      printf("%-8s %s\n", rows[i].name, text);
  }
  if (json)
    printf(", \"seconds\": %.9f, \"bytes_per_second\": %.0f}\n", s->seconds,
           s->seconds > 0 ? s->bytes / s->seconds : 0);
}
