/* SPDX-License-Identifier: Apache-2.0
 *
 * sumac demo: what exact reductions are good for and what they cost, on certified numbers and on
 * arrays as large as memory allows, measured on this machine while it runs.
 */
#include <math.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "number.h"

#ifndef SUMAC_DATA_DIR
#define SUMAC_DATA_DIR "data"
#endif

/* NIST StRD, data set Michelso; certified to 15 digits. */
static const char certified_mean[] = "299.852400000000", certified_std[] = "0.0790105478190518";
enum { CERTIFIED_DIGITS = 15 };

static sumac_context *context;
static double begun;

/* A status line on a terminal, once the demo has taken a second. */
static void progress(const char *what, int percent) {
  if (isatty(STDERR_FILENO) && now_seconds() - begun > 1)
    fprintf(stderr, "\r\033[K  %s %d %%", what, percent);
}

static void progress_done(void) {
  if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}

static void bar(double length) { /* ends the line */
  for (int i = 0; i < (int)(length + 0.5); i++) putchar('#');
  putchar('\n');
}

static double reduce(sumac_op op, sumac_acc acc, sumac_tensor *x, int64_t ddof) {
  double value = NAN;
  sumac_options options = {.acc = acc, .ddof = ddof};
  sumac_tensor out = {.data = &value, .dtype = SUMAC_F64};
  check(sumac_reduce(context, op, x, NULL, &options, &out));
  return value;
}

static double time_sum(sumac_acc acc, sumac_tensor *x) {
  double start = now_seconds();
  reduce(SUMAC_SUM, acc, x, 0);
  return now_seconds() - start;
}

/* The best of each in half a second, in turns, so that whatever else the machine does meets both. */
static void show_speed(sumac_acc plain, sumac_tensor *x, double bytes) {
  double exact_best = INFINITY, plain_best = INFINITY, start = now_seconds();
  do {
    exact_best = fmin(exact_best, time_sum(SUMAC_ACC_EXACT, x));
    plain_best = fmin(plain_best, time_sum(plain, x));
  } while (now_seconds() - start < 0.5);
  double least = fmin(exact_best, plain_best);
  int used = printf("  speed, both by sumac, threads: %d", sumac_context_threads(context));
  printf("%*s\n", 59 - used, "GB/s");
  printf("    sum --acc %s                                    %6.2f  ", sumac_acc_name(plain),
         1e-9 * bytes / plain_best);
  bar(15 * least / plain_best);
  printf("    sum, exact                                       %6.2f  ", 1e-9 * bytes / exact_best);
  bar(15 * least / exact_best);
  printf("    exact / --acc %s                                %4.0f %%\n\n", sumac_acc_name(plain),
         100 * plain_best / exact_best);
}

/* Decimal digits that `value` shares with the right one (NIST's log relative error), 0 … most. */
static double right_digits(double value, double right, int most) {
  double error = fabs(value - right) / (right != 0 ? fabs(right) : 1);
  if (!(error < 1)) return 0;
  double digits = error > 0 ? -log10(error) : most;
  return digits < most ? digits : most;
}

/* A line of a table: a name, a value, its right digits as a number and as a bar. */
static void show(const char *name, sumac_dtype dtype, const void *value, double right, int most) {
  char text[NUMBER_MAX_TEXT];
  number_shortest(dtype, value, text);
  double digits = right_digits(number_to_double(dtype, number_bits(dtype, value)), right, most);
  printf("    %-25s %-22s %5.1f  ", name, text, digits);
  bar(digits);
}

/* What a loop with a float32 accumulator gives; step −1 runs from the last element to the first. */
static float naive_sum_f64(const double *x, int64_t n, int step) {
  float sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (float)x[step > 0 ? i : n - 1 - i];
  return sum;
}

static float naive_sum_f32(const float *x, int64_t n, int step) {
  float sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[step > 0 ? i : n - 1 - i];
  return sum;
}

static void open_measurements(struct input *in, const char *directory) {
  static char path[4096];
  const char *tried[] = {directory ? directory : "data", directory ? NULL : SUMAC_DATA_DIR};
  for (int i = 0; i < 2 && tried[i]; i++) {
    snprintf(path, sizeof path, "%s/michelson.csv", tried[i]);
    if (access(path, R_OK) == 0 || i == 1 || directory) break;
  }
  input_open(in, path, &(struct input_options){.column = "speed"});
  input_load(in);
}

/* Do the first 15 digits of `value` equal the certified ones? */
static bool agrees(double value, const char *certified) {
  const char *point = strchr(certified, '.');
  char text[40];
  snprintf(text, sizeof text, "%.*f", (int)strlen(point + 1), value);
  return strcmp(text, certified) == 0;
}

static bool show_measurements(const char *directory) {
  struct input in;
  open_measurements(&in, directory);
  sumac_tensor x = input_tensor(&in);
  const double *values = in.data;
  int64_t n = in.n, *hundredths = allocate((size_t)n * sizeof *hundredths);
  double mean_right = strtod(certified_mean, NULL), std_right = strtod(certified_std, NULL);

  printf("%lld measurements of the speed of light (Michelson 1879), certified by NIST\n", (long long)n);
  double mean = reduce(SUMAC_MEAN, SUMAC_ACC_EXACT, &x, 0);
  float forward = naive_sum_f64(values, n, 1) / (float)n, backward = naive_sum_f64(values, n, -1) / (float)n;
  printf("  mean                                         digits right\n");
  printf("    %-25s %s\n", "certified", certified_mean);
  show("exact", SUMAC_F64, &mean, mean_right, CERTIFIED_DIGITS);
  show("float32, first to last", SUMAC_F32, &forward, mean_right, CERTIFIED_DIGITS);
  show("float32, last to first", SUMAC_F32, &backward, mean_right, CERTIFIED_DIGITS);

  /* 299.85 is no binary number: the 14th digit of the standard deviation of the doubles is already
   * another one. Whole hundredths are exact, and so is what comes of them. */
  float sum = 0, squares = 0;
  for (int64_t i = 0; i < n; i++) {
    float v = (float)values[i];
    sum += v;
    squares += v * v;
    hundredths[i] = llround(100 * values[i]);
  }
  float one_pass = sqrtf((squares - sum * sum / (float)n) / (float)(n - 1));
  sumac_tensor whole = {.data = hundredths, .ndim = 1, .dtype = SUMAC_I64, .shape = &n};
  double std = reduce(SUMAC_STD, SUMAC_ACC_EXACT, &whole, 1) / 100;
  double std_doubles = reduce(SUMAC_STD, SUMAC_ACC_EXACT, &x, 1);
  printf("  standard deviation\n");
  printf("    %-25s %s\n", "certified", certified_std);
  show("exact, of hundredths", SUMAC_F64, &std, std_right, CERTIFIED_DIGITS);
  show("exact, of the doubles", SUMAC_F64, &std_doubles, std_right, CERTIFIED_DIGITS);
  show("float32, one pass", SUMAC_F32, &one_pass, std_right, CERTIFIED_DIGITS);
  bool ok = n == 100 && agrees(mean, certified_mean) && agrees(std, certified_std);
  printf("  all certified digits agree: %s\n\n", ok ? "yes" : "NO");
  free(hundredths);
  input_close(&in);
  return ok;
}

/* Uniform in [−1, 1) in steps of 2^-23, by a counter and a mixing function, with their sum counted in
 * integers on the way: an answer that does not come from sumac. */
static double generate(sumac_dtype dtype, void *values, int64_t n) {
  int64_t steps = 0;
  for (int64_t i = 0; i < n; i++) {
    if (i % (1 << 23) == 0) progress("generating", (int)(100 * i / n));
    uint64_t k = (uint64_t)i + UINT64_C(0x9e3779b97f4a7c15);
    k = (k ^ k >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    k = (k ^ k >> 27) * UINT64_C(0x94d049bb133111eb);
    int32_t step = (int32_t)(k >> 40) - (1 << 23);
    steps += step;
    if (dtype.bits == 32)
      ((float *)values)[i] = (float)step * 0x1p-23f;
    else
      ((double *)values)[i] = step * 0x1p-23;
  }
  progress_done();
  return (double)steps * 0x1p-23; /* below 2^53 steps: exact */
}

static bool show_generated(sumac_dtype dtype, int64_t n) {
  double bytes = (double)n * (double)dtype_size(dtype);
  void *values = allocate((size_t)n * dtype_size(dtype));
  double right = generate(dtype, values, n);
  sumac_tensor x = {.data = values, .ndim = 1, .dtype = dtype, .shape = &n};
  double exact = reduce(SUMAC_SUM, SUMAC_ACC_EXACT, &x, 0);
  progress("adding up", 0);
  float forward = dtype.bits == 32 ? naive_sum_f32(values, n, 1) : naive_sum_f64(values, n, 1);
  progress("adding up", 50);
  float backward = dtype.bits == 32 ? naive_sum_f32(values, n, -1) : naive_sum_f64(values, n, -1);
  progress_done();

  printf("%lld generated %s numbers in [-1, 1), %.0f MB\n", (long long)n, sumac_dtype_name(dtype),
         bytes / 1e6);
  printf("  sum                                          digits right\n");
  char known[NUMBER_MAX_TEXT];
  number_shortest(SUMAC_F64, &right, known);
  printf("    %-25s %s\n", "known, from integers", known);
  show("exact", SUMAC_F64, &exact, right, 16);
  show("float32, first to last", SUMAC_F32, &forward, right, 16);
  show("float32, last to first", SUMAC_F32, &backward, right, 16);
  printf("  exact sum equals the known one: %s\n", exact == right ? "yes" : "NO");
  show_speed(dtype.bits == 32 ? SUMAC_ACC_F32 : SUMAC_ACC_F64, &x, bytes);
  free(values);
  return exact == right;
}

/* 512 MiB an array, or a power of two that leaves three quarters of the free memory alone. */
static int64_t fitting_elements(sumac_dtype dtype) {
  int64_t item = (int64_t)dtype_size(dtype), elements = (INT64_C(1) << 29) / item;
  int64_t available = (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
  while (elements > 1 << 16 && elements * item > available / 4) elements /= 2;
  return elements;
}

int demo_main(int argc, const char **argv) {
  char *directory = NULL;
  long long elements = 0;
  struct poptOption options[] = {
      {"data", 0, POPT_ARG_STRING, &directory, 0, "where michelson.csv is", "DIR"},
      {"elements", 0, POPT_ARG_LONGLONG, &elements, 0, "of a generated array (default: 512 MiB of them)",
       "N"},
      {"help", 'h', POPT_ARG_NONE, NULL, 'h', "show this help", NULL}, /* not popt's: see main.c */
      {NULL, '?', POPT_ARG_NONE | POPT_ARGFLAG_DOC_HIDDEN, NULL, 'h', NULL, NULL},
      POPT_TABLEEND};
  argv[0] = "sumac demo";
  static poptContext popt; /* static: fail() exits from anywhere, and then it is still held */
  popt = poptGetContext(NULL, argc, argv, options, 0);
  int code = poptGetNextOpt(popt);
  if (code < -1) fail(EXIT_USAGE, "%s: %s", poptBadOption(popt, POPT_BADOPTION_NOALIAS), poptStrerror(code));
  if (code == 'h') {
    poptPrintHelp(popt, stdout, 0);
    close_output();
    return 0;
  }
  if (poptPeekArg(popt)) fail(EXIT_USAGE, "demo takes no '%s'", poptPeekArg(popt));
  if (elements < 0 || elements > INT64_C(1) << 29) fail(EXIT_USAGE, "--elements: 1 to 2^29");

  begun = now_seconds();
  check(sumac_context_create(NULL, &context));
  printf("sumac %s on %s with %d threads\n\n", sumac_version(), sumac_context_isa(context),
         sumac_context_threads(context));
  bool ok = show_measurements(directory);
  ok = show_generated(SUMAC_F32, elements ? elements : fitting_elements(SUMAC_F32)) && ok;
  ok = show_generated(SUMAC_F64, elements ? elements : fitting_elements(SUMAC_F64)) && ok;
  sumac_context_destroy(context);
  poptFreeContext(popt);
  free(directory);
  close_output();
  if (!ok) fail(EXIT_OTHER, "a result is not the known one");
  return 0;
}
