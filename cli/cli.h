/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the command share. Every failure ends the process through fail(): results are
 * printed only after everything else has succeeded, so an early exit leaves nothing half-written.
 */
#ifndef SUMAC_CLI_H
#define SUMAC_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sumac/sumac.h"

enum exit_code {
  EXIT_OTHER = 1, /* out of memory, or a fault of sumac itself */
  EXIT_USAGE = 2,
  EXIT_INPUT = 3,
  EXIT_UNSUPPORTED = 4,
  EXIT_DEVICE = 5,
  EXIT_RANGE = 6,
  EXIT_OUTPUT = 7
};

/* Prints "sumac: " and one sentence on stderr, and exits. */
_Noreturn void fail(enum exit_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Exits with the library's sentence and the code that belongs to `status`, unless that is SUMAC_OK. */
void check(sumac_status status);

/* malloc and realloc that never return NULL. */
void *allocate(size_t size);
void *reallocate(void *memory, size_t size);

/* Flushes and closes stdout; a result that did not arrive is an error. */
void close_output(void);

double now_seconds(void);

static inline size_t dtype_size(sumac_dtype dtype) { return dtype.bits / 8u; }

static inline bool dtype_is_float(sumac_dtype dtype) {
  return dtype.code != SUMAC_I64.code && dtype.code != SUMAC_U64.code && dtype.code != SUMAC_BOOL.code;
}

static inline bool dtype_equal(sumac_dtype a, sumac_dtype b) { return a.code == b.code && a.bits == b.bits; }

/* One reduction as the command line asks for it. */
struct request {
  sumac_context *context;
  sumac_op op;
  sumac_options options;
  bool has_out_dtype;
  sumac_dtype out_dtype;
};

/* What came out of it. */
struct result {
  sumac_dtype dtype;
  int32_t ndim;
  int64_t shape[SUMAC_MAX_DIMS];
  int64_t size; /* elements of the result */
  void *values; /* dense, row-major */
  int64_t n;    /* elements read */
  double bytes; /* of the input */
  double seconds;
  char kernel[96];
  const char *tensor; /* its name in a file of many; or NULL */
};

struct input;

/* Reduces x (and y for SUMAC_DOT, else NULL) whole where it is mapped, in chunks where the operation
 * allows it, and otherwise after reading everything into memory. */
void reduce_inputs(const struct request *request, struct input *x, struct input *y, struct result *result);

/* The statistics of an array. */
struct stats {
  sumac_statistics values;
  sumac_dtype dtype;
  double bytes, seconds;
  const char *tensor; /* as of a result */
};
void stats_inputs(const struct request *request, struct input *x, struct stats *stats);
void print_stats(const struct stats *stats, bool json);

/* The total over all members of x that a state can hold: the sum of sums, a norm, a mean ...; false if there
 * is none. */
struct input_options;
bool reduce_members(const struct request *request, struct input *x, const struct input_options *options,
                    struct result *result);

enum output_style { OUTPUT_DECIMAL, OUTPUT_HEX, OUTPUT_JSON };

void print_result(const struct request *request, const struct result *result, enum output_style style);

/* A string as JSON. */
void print_json_string(const char *text);

/* Prints the exact sum of the decimals written in a text input. */
void decimal_sum(struct input *in, bool skip_nan);

int info_main(int argc, const char **argv);
int demo_main(int argc, const char **argv);

#endif
