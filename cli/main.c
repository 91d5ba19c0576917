/* SPDX-License-Identifier: Apache-2.0
 *
 * sumac OP [options] FILE [FILE2]: the command line, and what every part of the command needs.
 */
#include <errno.h>
#include <limits.h>
#include <popt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "input.h"
#include "number.h"

/* ---- shared -------------------------------------------------------------------------------- */

void fail(enum exit_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("sumac: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  _Exit(code); /* without flushing stdout: what is in its buffer is half a result */
}

void check(sumac_status status) {
  static const enum exit_code codes[] = {
      [SUMAC_ERR_ARGUMENT] = EXIT_USAGE, [SUMAC_ERR_UNSUPPORTED] = EXIT_UNSUPPORTED,
      [SUMAC_ERR_EMPTY] = EXIT_INPUT,    [SUMAC_ERR_RANGE] = EXIT_RANGE,
      [SUMAC_ERR_FORMAT] = EXIT_OTHER,   [SUMAC_ERR_MEMORY] = EXIT_OTHER,
      [SUMAC_ERR_DEVICE] = EXIT_DEVICE,
  };
  if (status != SUMAC_OK) fail(codes[status], "%s", sumac_error_message());
}

void *reallocate(void *memory, size_t size) {
  void *grown = realloc(memory, size ? size : 1);
  if (!grown) fail(EXIT_OTHER, "out of memory (%zu bytes)", size);
  return grown;
}

void *allocate(size_t size) { return reallocate(NULL, size); }

void close_output(void) {
  bool failed = ferror(stdout);
  if (fclose(stdout) || failed) fail(EXIT_OUTPUT, "the output cannot be written: %s", strerror(errno));
}

double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- options ------------------------------------------------------------------------------- */

/* What popt fills in, before it is checked and translated. */
static struct arguments {
  char *acc, *out_dtype, *axis, *device, *dtype, *shape, *offset, *format, *column, *delimiter, *header,
      *tensor;
  int keepdims, skip_nan, saturate, threads, hex, json, decimal, version;
  long long ddof;
} given = {.ddof = LLONG_MIN}; /* not given */

static const struct poptOption input_table[] = {
    {"format", 0, POPT_ARG_STRING, &given.format, 0,
     "npy, raw, text, safetensors or npz (default: by content and name)", "FORMAT"},
    {"tensor", 0, POPT_ARG_STRING, &given.tensor, 0, "of a .safetensors file, this one only", "NAME"},
    {"member", 0, POPT_ARG_STRING, &given.tensor, 0, "of a .npz archive, this one only", "NAME"},
    {"dtype", 0, POPT_ARG_STRING, &given.dtype, 0,
     "type of raw or untyped elements, or that text is rounded to", "DTYPE"},
    {"shape", 0, POPT_ARG_STRING, &given.shape, 0,
     "of raw data, such as 3,4; one -1 means as many as there are", "SHAPE"},
    {"offset", 0, POPT_ARG_STRING, &given.offset, 0, "bytes to skip before raw data", "BYTES"},
    {"column", 0, POPT_ARG_STRING, &given.column, 0, "of text: a number from 1, or a name in its header",
     "COLUMN"},
    {"delimiter", 0, POPT_ARG_STRING, &given.delimiter, 0,
     "between fields of text (default: comma, tab or semicolon by the first line; else blanks)", "CHAR"},
    {"header", 0, POPT_ARG_STRING, &given.header, 0, "is the first line of text a header: auto, yes, no",
     "WHEN"},
    POPT_TABLEEND};

static char acc_help[128] = "accumulator (default: exact):"; /* op_main() adds their names */

static const struct poptOption reduce_table[] = {
    {"acc", 0, POPT_ARG_STRING, &given.acc, 0, acc_help, "ACC"},
    {"out-dtype", 0, POPT_ARG_STRING, &given.out_dtype, 0, "type of the result", "DTYPE"},
    {"axis", 0, POPT_ARG_STRING, &given.axis, 0, "reduce these axes only, such as 0 or -1,0", "AXES"},
    {"keepdims", 0, POPT_ARG_NONE, &given.keepdims, 0, "reduced axes stay, with length 1", NULL},
    {"skip-nan", 0, POPT_ARG_NONE, &given.skip_nan, 0, "leave out NaN, and empty fields of text", NULL},
    {"ddof", 0, POPT_ARG_LONGLONG, &given.ddof, 0, "var, std: divide by n - N (default 0)", "N"},
    {"saturate", 0, POPT_ARG_NONE, &given.saturate, 0, "clamp a result beyond its type to the largest value",
     NULL},
    {"decimal", 0, POPT_ARG_NONE, &given.decimal, 0, "sum of text: add the digits as written, exactly", NULL},
    POPT_TABLEEND};

static const struct poptOption run_table[] = {
    {"threads", 0, POPT_ARG_INT, &given.threads, 0, "at most so many (default: as many as are allowed)", "N"},
    {"device", 0, POPT_ARG_STRING, &given.device, 0, "cpu or auto", "DEVICE"},
    POPT_TABLEEND};

static const struct poptOption output_table[] = {
    {"hex", 0, POPT_ARG_NONE, &given.hex, 0, "print hexadecimal, exactly", NULL},
    {"json", 0, POPT_ARG_NONE, &given.json, 0, "print the result, its bits and how it was made as JSON",
     NULL},
    POPT_TABLEEND};

static struct poptOption all_options[] = {
    {NULL, 0, POPT_ARG_INCLUDE_TABLE, (void *)(uintptr_t)input_table, 0, "Input:", NULL},
    {NULL, 0, POPT_ARG_INCLUDE_TABLE, (void *)(uintptr_t)reduce_table, 0, "Reduction:", NULL},
    {NULL, 0, POPT_ARG_INCLUDE_TABLE, (void *)(uintptr_t)run_table, 0, "Execution:", NULL},
    {NULL, 0, POPT_ARG_INCLUDE_TABLE, (void *)(uintptr_t)output_table, 0, "Output:", NULL},
    {"version", 0, POPT_ARG_NONE, &given.version, 0, "print the version", NULL},
    {"help", 'h', POPT_ARG_NONE, NULL, 'h', "show this help", NULL}, /* popt's own ends without a look */
    {NULL, '?', POPT_ARG_NONE | POPT_ARGFLAG_DOC_HIDDEN, NULL, 'h', NULL, NULL}, /* at the output */
    POPT_TABLEEND};

static const char *const op_help[] = {
    [SUMAC_SUM] = "the sum of all elements",
    [SUMAC_DOT] = "the sum of the products of two arrays",
    [SUMAC_MEAN] = "the mean",
    [SUMAC_VAR] = "the variance, divided by n - ddof",
    [SUMAC_STD] = "the square root of the variance",
    [SUMAC_NORM1] = "the sum of absolute values",
    [SUMAC_NORM2] = "the square root of the sum of squares",
    [SUMAC_NORMINF] = "the largest absolute value",
    [SUMAC_MIN] = "the least element",
    [SUMAC_MAX] = "the greatest element",
    [SUMAC_ARGMIN] = "the index of the least element, from 0",
    [SUMAC_ARGMAX] = "the index of the greatest element, from 0",
    [SUMAC_PROD] = "the product of all elements",
    [SUMAC_COUNT_NONZERO] = "how many elements are not zero",
    [SUMAC_ANY] = "whether any element is not zero",
    [SUMAC_ALL] = "whether no element is zero",
};

/* The command that is no operation of the library's list, and takes the same options. */
#define STATS ((sumac_op)-1)

static const char *name_of(sumac_op op) { return op == STATS ? "stats" : sumac_op_name(op); }

static const char *help_of(sumac_op op) {
  return op == STATS ? "counts, extremes, mean, deviation and norms, of all that is not NaN" : op_help[op];
}

static void print_help(void) {
  puts("usage: sumac OP [options] FILE [FILE2]   exact reductions of the numbers in files\n"
       "       sumac OP --help                   its options\n"
       "       sumac info                        what this build does on this machine\n"
       "       sumac demo [--help]               sums real numbers and shows what is special\n"
       "       sumac --version\n"
       "\n"
       "operations:");
  for (int i = 0; sumac_op_name((sumac_op)i); i++)
    printf("  %-13s %s\n", sumac_op_name((sumac_op)i), op_help[i]);
  printf("  %-13s %s\n", name_of(STATS), help_of(STATS));
  puts("\n"
       "FILE is a .npy file, raw bytes (--dtype --shape) or text; - is the standard input, as is no FILE\n"
       "where that is no terminal.\n"
       "exit: 0 done, 2 usage, 3 unreadable or malformed input, 4 unsupported combination, 5 device,\n"
       "      6 the result does not fit, 7 the output cannot be written, 1 anything else");
}

/* Comma-separated integers into at most `room` numbers; returns how many. */
static int32_t parse_list(const char *text, const char *option, int32_t room, int64_t *numbers) {
  int32_t count = 0;
  for (const char *p = text;; p++) {
    char *end;
    errno = 0;
    long long number = strtoll(p, &end, 10);
    if (end == p || errno || (*end && *end != ','))
      fail(EXIT_USAGE, "%s: '%s' is no list of integers", option, text);
    if (count == room) fail(EXIT_USAGE, "%s: more than %d numbers", option, room);
    numbers[count++] = number;
    if (!*(p = end)) return count;
  }
}

/* The index of `word` in a list of words that ends in NULL. */
static int parse_word(const char *word, const char *option, const char *const *words, const char *allowed) {
  for (int i = 0; word && words[i]; i++)
    if (strcmp(word, words[i]) == 0) return i;
  if (word) fail(EXIT_USAGE, "%s: '%s' is none of %s", option, word, allowed);
  return 0;
}

static void parse_input_options(struct input_options *o) {
  static const char *const formats[] = {"auto", "npy", "raw", "text", "safetensors", "npz", NULL};
  static const char *const headers[] = {"auto", "yes", "no", NULL};
  o->format = (enum input_format)parse_word(given.format, "--format", formats,
                                            "auto, npy, raw, text, safetensors, npz");
  o->header = (enum header_rule)parse_word(given.header, "--header", headers, "auto, yes, no");
  o->has_dtype = given.dtype != NULL;
  if (given.dtype) check(sumac_dtype_by_name(given.dtype, &o->dtype));
  o->has_shape = given.shape != NULL;
  if (given.shape) {
    int unknown = 0;
    o->ndim = parse_list(given.shape, "--shape", SUMAC_MAX_DIMS, o->shape);
    for (int i = 0; i < o->ndim; i++) {
      unknown += o->shape[i] == -1;
      if (o->shape[i] < -1 || unknown > 1)
        fail(EXIT_USAGE, "--shape: sizes are 0 or more, and at most one is -1");
    }
  }
  if (given.offset) {
    int64_t offset;
    if (parse_list(given.offset, "--offset", 1, &offset) != 1 || offset < 0)
      fail(EXIT_USAGE, "--offset: bytes are 0 or more");
    o->offset = (uint64_t)offset;
  }
  o->column = given.column;
  if (given.delimiter) {
    const char *d = strcmp(given.delimiter, "\\t") == 0 ? "\t" : given.delimiter;
    if (strlen(d) != 1 || strchr("\"#\n\r+-.0123456789", *d) || ((*d | 0x20) >= 'a' && (*d | 0x20) <= 'z'))
      fail(EXIT_USAGE, "--delimiter: '%s' is not one character that no number contains", given.delimiter);
    o->delimiter = *d;
  }
  o->empty_is_nan = given.skip_nan;
  o->table = given.axis && !given.column;
}

static void parse_request(sumac_op op, struct request *r, int32_t axes[SUMAC_MAX_DIMS]) {
  static const char *const devices[] = {"auto", "cpu", "cuda", NULL};
  if (parse_word(given.device, "--device", devices, "auto, cpu") == 2)
    fail(EXIT_DEVICE, "--device cuda: this version of sumac has no CUDA backend; cpu and auto are there");
  *r = (struct request){.op = op};
  if (given.acc) {
    sumac_acc acc;
    check(sumac_acc_by_name(given.acc, &acc));
    r->options.acc = acc;
  }
  r->has_out_dtype = given.out_dtype != NULL;
  if (given.out_dtype) check(sumac_dtype_by_name(given.out_dtype, &r->out_dtype));
  if (given.axis) {
    int64_t list[SUMAC_MAX_DIMS];
    r->options.naxes = parse_list(given.axis, "--axis", SUMAC_MAX_DIMS, list);
    for (int i = 0; i < r->options.naxes; i++) {
      if (list[i] != (int32_t)list[i]) fail(EXIT_USAGE, "--axis: %lld is no axis", (long long)list[i]);
      axes[i] = (int32_t)list[i];
    }
    r->options.axes = axes;
  }
  if (given.ddof != LLONG_MIN) {
    if (given.ddof < 0) fail(EXIT_USAGE, "--ddof: %lld is negative", given.ddof);
    if (op != SUMAC_VAR && op != SUMAC_STD && op != STATS)
      fail(EXIT_USAGE, "--ddof is for var, std and stats");
    r->options.ddof = given.ddof;
  }
  r->options.flags = (given.keepdims ? SUMAC_KEEPDIMS : 0) | (given.skip_nan ? SUMAC_SKIP_NAN : 0) |
                     (given.saturate ? SUMAC_SATURATE : 0);
  if (given.threads < 0) fail(EXIT_USAGE, "--threads: %d is negative", given.threads);
  sumac_config config = {.threads = given.threads};
  check(sumac_context_create(&config, &r->context));
}

/* ---- commands ------------------------------------------------------------------------------ */

static void reduce_decimal(sumac_op op, const struct input_options *options, const char *file) {
  if (op != SUMAC_SUM) fail(EXIT_UNSUPPORTED, "--decimal is for sum, not for %s", name_of(op));
  if (given.hex || given.json || given.axis || given.acc || given.out_dtype || given.dtype ||
      given.saturate || given.keepdims)
    fail(EXIT_USAGE, "--decimal has no dtype, accumulator or axis, and prints decimal digits only");
  struct input in;
  input_open(&in, file, options);
  if (in.format != FORMAT_TEXT) fail(EXIT_UNSUPPORTED, "%s: --decimal is for text", file);
  decimal_sum(&in, given.skip_nan);
  input_close(&in);
}

/* What came of one array, by either way. */
struct outcome {
  struct result result;
  struct stats stats;
};

static void compute(const struct request *r, struct input *x, struct input *y, struct outcome *o) {
  if (r->op == STATS)
    stats_inputs(r, x, &o->stats);
  else
    reduce_inputs(r, x, y, &o->result);
}

static void print_and_free(const struct request *r, struct outcome *o) {
  if (r->op == STATS) {
    print_stats(&o->stats, given.json);
    return;
  }
  print_result(r, &o->result, given.hex ? OUTPUT_HEX : given.json ? OUTPUT_JSON : OUTPUT_DECIMAL);
  free(o->result.values);
}

static bool has_members(const struct input *in) { return in->format >= FORMAT_SAFETENSORS; }

/* The input itself, or of many the tensor that was asked for. */
static struct input *pick(struct input *in, const struct input_options *options, struct input *member) {
  if (!has_members(in)) return in;
  if (!given.tensor)
    fail(EXIT_USAGE, "%s: which array? %s names it", in->stream.name, in->zip ? "--member" : "--tensor");
  input_member(in, options, input_find(in, given.tensor), member);
  return member;
}

/* All tensors of a file, and their total. Nothing is printed before all is known. */
static void each_member(const struct request *r, struct input *x, const struct input_options *options) {
  struct outcome *all = allocate(((size_t)x->members + 1) * sizeof *all);
  int64_t count = 0;
  for (; count < x->members; count++) {
    struct input member;
    input_member(x, options, count, &member);
    compute(r, &member, NULL, &all[count]);
    input_close(&member);
    all[count].result.tensor = all[count].stats.tensor = x->member[count].name;
  }
  if (r->op != STATS && !r->options.axes && reduce_members(r, x, options, &all[count].result))
    all[count++].result.tensor = "total";
  input_verify(x);
  for (int64_t i = 0; i < count; i++) {
    if (i && r->op == STATS && !given.json) putchar('\n');
    print_and_free(r, &all[i]);
  }
  free(all);
}

static void reduce_files(sumac_op op, const char **files) {
  static const char *standard_input[] = {"-", NULL};
  int count = 0, wanted = op == SUMAC_DOT ? 2 : 1;
  if (!files && wanted == 1 && !isatty(STDIN_FILENO)) files = standard_input;
  while (files && files[count]) count++;
  if (count != wanted)
    fail(EXIT_USAGE, "%s takes %s, not %d; see 'sumac %s --help'", name_of(op),
         wanted == 2 ? "two files" : "one file", count, name_of(op));
  if (count == 2 && strcmp(files[0], "-") == 0 && strcmp(files[1], "-") == 0)
    fail(EXIT_USAGE, "only one of the two files can be the standard input");
  if (given.hex && given.json) fail(EXIT_USAGE, "--hex and --json exclude each other");
  if (op == STATS &&
      (given.hex || given.axis || given.acc || given.out_dtype || given.keepdims || given.saturate))
    fail(EXIT_USAGE,
         "stats is of a whole array, and exact: of the options it takes --ddof, --json and those of files");

  struct input_options options = {0};
  struct request request;
  int32_t axes[SUMAC_MAX_DIMS];
  parse_input_options(&options);
  if (given.decimal) {
    reduce_decimal(op, &options, files[0]);
    return;
  }
  parse_request(op, &request, axes);
  struct input x = {0}, y = {0};
  input_open(&x, files[0], &options);
  if (wanted == 2) input_open(&y, files[1], &options);
  for (int i = 0; i < wanted && given.tensor; i++)
    if (!has_members(i ? &y : &x))
      fail(EXIT_USAGE, "%s: --tensor and --member are for .safetensors and .npz files", files[i]);
  if (has_members(&x) && !given.tensor && wanted == 1) {
    each_member(&request, &x, &options);
  } else {
    struct input member[2] = {{.is_member = true}, {.is_member = true}};
    struct outcome outcome;
    compute(&request, pick(&x, &options, &member[0]), wanted == 2 ? pick(&y, &options, &member[1]) : NULL,
            &outcome);
    input_verify(&x);
    if (wanted == 2) input_verify(&y);
    print_and_free(&request, &outcome);
    for (int i = 0; i < 2; i++) input_close(&member[i]);
  }
  input_close(&x);
  if (wanted == 2) input_close(&y);
  sumac_context_destroy(request.context);
}

static int op_main(sumac_op op, int argc, const char **argv) {
  char name[32], usage[96];
  snprintf(name, sizeof name, "sumac %s", name_of(op));
  size_t used = strlen(acc_help);
  for (int i = 0; sumac_acc_name((sumac_acc)i) && used < sizeof acc_help; i++)
    used += (size_t)snprintf(acc_help + used, sizeof acc_help - used, " %s", sumac_acc_name((sumac_acc)i));
  argv[0] = name;          /* what popt's usage line calls the program */
  static poptContext popt; /* static: fail() exits from anywhere, and then it is still held */
  popt = poptGetContext(NULL, argc, argv, all_options, 0);
  snprintf(usage, sizeof usage, "[OPTION...] FILE%s: %s", op == SUMAC_DOT ? " FILE2" : "", help_of(op));
  poptSetOtherOptionHelp(popt, usage);
  int code = poptGetNextOpt(popt);
  if (code < -1) fail(EXIT_USAGE, "%s: %s", poptBadOption(popt, POPT_BADOPTION_NOALIAS), poptStrerror(code));
  if (code == 'h')
    poptPrintHelp(popt, stdout, 0);
  else if (given.version)
    printf("sumac %s\n", sumac_version());
  else
    reduce_files(op, poptGetArgs(popt));
  close_output();
  poptFreeContext(popt);
  char *strings[] = {given.acc,    given.out_dtype, given.axis,   given.device,
                     given.dtype,  given.shape,     given.offset, given.format,
                     given.column, given.delimiter, given.header, given.tensor};
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) free(strings[i]);
  return 0;
}

int main(int argc, char **argv) {
  const char **arguments = (const char **)(argv + 1);
  const char *command = argc > 1 ? argv[1] : "";
  sumac_op op;
  static const char *const help[] = {"help", "--help", "-h", "-?"};
  for (size_t i = 0; i < sizeof help / sizeof *help; i++) {
    if (strcmp(command, help[i]) != 0) continue;
    print_help();
    close_output();
    return 0;
  }
  if (strcmp(command, "--version") == 0) {
    printf("sumac %s\n", sumac_version());
    close_output();
    return 0;
  }
  if (argc < 2) fail(EXIT_USAGE, "no operation given; see 'sumac --help'");
  if (strcmp(command, "info") == 0) return info_main(argc - 1, arguments);
  if (strcmp(command, "demo") == 0) return demo_main(argc - 1, arguments);
  if (strcmp(command, "stats") == 0) return op_main(STATS, argc - 1, arguments);
  if (sumac_op_by_name(command, &op) != SUMAC_OK)
    fail(EXIT_USAGE, "'%s' is no operation; see 'sumac --help'", command);
  return op_main(op, argc - 1, arguments);
}
