/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct row *rows;
static size_t count;

void report_add(struct row row) {
  rows = realloc(rows, (count + 1) * sizeof *rows);
  if (!rows) abort();
  rows[count++] = row;
}

int report_wrong(void) {
  int wrong = 0;
  for (size_t i = 0; i < count; i++) wrong += rows[i].wrong;
  return wrong;
}

static double gbs(const struct row *row, double seconds) { return 1e-9 * row->bytes / seconds; }

/* Half of the distance of the quartiles, relative, of the ratio or else of the time. */
static double noise(const struct row *row) {
  bool time = !row->against || row->measure == MEASURE_GBS_PER_THREAD || row->measure == MEASURE_NANOSECONDS;
  struct spread spread = time ? row->seconds : row->ratio;
  return (spread.high - spread.low) / (2 * spread.median);
}

/* Does the median, or the quartile on the good side of it, reach the target? */
static bool reaches(const struct row *row, bool good_quartile) {
  double ratio = good_quartile ? row->ratio.high : row->ratio.median;
  double seconds = good_quartile ? row->seconds.low : row->seconds.median;
  switch (row->measure) {
  case MEASURE_RATIO: return ratio >= row->target;
  case MEASURE_GBS_PER_THREAD: return gbs(row, seconds) / row->threads >= row->target;
  case MEASURE_NANOSECONDS: return 1e9 * seconds <= row->target;
  case MEASURE_NONE: break;
  }
  return true;
}

enum status { WRONG, MISSED, TIE, MET, REPORTED };
static const char *const status_names[] = {"WRONG", "missed", "tie", "met", "-"};

static enum status status_of(const struct row *row) {
  if (row->wrong) return WRONG;
  if (row->measure == MEASURE_NONE) return REPORTED;
  return reaches(row, false) ? MET : reaches(row, true) ? TIE : MISSED;
}

static const char *target_text(const struct row *row, char *text, size_t size) {
  static const char *const formats[] = {"", "%.2f", "%g GB/s/thr", "%g ns"};
  snprintf(text, size, formats[row->measure], row->target);
  return text;
}

static void print_row(const struct row *row) {
  char target[32], ratio[16] = "";
  double ns = 1e9 * row->seconds.median;
  if (row->against) snprintf(ratio, sizeof ratio, "%.3f", row->ratio.median);
  printf("%-6s  %-26s %-13s %-6s %-8s %3d %11.*f %7.2f  %6s ±%4.1f%%  %-12s %s", status_names[status_of(row)],
         row->name, row->data, row->dtype, row->isa, row->threads, ns < 1e5 ? 0 : 3,
         ns < 1e5 ? ns : 1e-6 * ns, gbs(row, row->seconds.median), ratio, 100 * noise(row),
         target_text(row, target, sizeof target), row->against ? row->against : "");
  if (row->wrong) printf("  (%d wrong)", row->wrong);
  putchar('\n');
}

void report_table(void) {
  int of[REPORTED + 1] = {0};
  printf("\n%-6s  %-26s %-13s %-6s %-8s %3s %11s %7s  %6s %6s  %-12s %s\n", "", "what", "data", "dtype",
         "isa", "thr", "ns or .ms", "GB/s", "ratio", "noise", "target", "ratio to");
  for (int status = WRONG; status <= REPORTED; status++)
    for (size_t i = 0; i < count; i++)
      if ((int)status_of(&rows[i]) == status) {
        print_row(&rows[i]);
        of[status]++;
      }
  printf("\ntargets: %d met, %d within the noise, %d missed; %d wrong results\n", of[MET], of[TIE],
         of[MISSED], report_wrong());
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_string(FILE *file, const char *name, const char *text, const char *after) {
  fprintf(file, "\"%s\": \"", name);
  for (; *text; text++)
    if ((unsigned char)*text >= ' ') fprintf(file, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
  fprintf(file, "\"%s", after);
}

/* The first line "key : value" of /proc/cpuinfo. */
static const char *cpu_info(const char *key, char *line, size_t size) {
  FILE *file = fopen("/proc/cpuinfo", "r");
  const char *value = "unknown";
  while (file && fgets(line, (int)size, file))
    if (strncmp(line, key, strlen(key)) == 0 && strchr(line, ':')) {
      line[strcspn(line, "\n")] = 0;
      value = strchr(line, ':') + 2;
      break;
    }
  if (file) fclose(file);
  return value;
}

static void default_path(const char *directory, const char *date, char *path, size_t size) {
  char line[8192], slug[80];
  const char *model = cpu_info("model name", line, sizeof line);
  size_t used = 0;
  for (; *model && used + 1 < sizeof slug; model++)
    if (isalnum((unsigned char)*model))
      slug[used++] = (char)tolower((unsigned char)*model);
    else if (used && slug[used - 1] != '-')
      slug[used++] = '-';
  while (used && slug[used - 1] == '-') used--;
  slug[used] = 0;
  snprintf(path, size, "%s/results", directory);
  mkdir(path, 0777);
  snprintf(path, size, "%s/results/%.10s-%s.json", directory, date, slug);
}

static void json_row(FILE *file, const struct row *row) {
  static const char *const measures[] = {"none", "ratio", "gbs_per_thread", "nanoseconds"};
  fputs("    {", file);
  json_string(file, "name", row->name, ", ");
  json_string(file, "data", row->data, ", ");
  json_string(file, "dtype", row->dtype, ", ");
  json_string(file, "op", row->op, ", ");
  json_string(file, "isa", row->isa, ", ");
  fprintf(file, "\"threads\": %d, \"bytes\": %.0f, \"median_s\": %.6g, \"gbs\": %.5g, ", row->threads,
          row->bytes, row->seconds.median, gbs(row, row->seconds.median));
  if (row->against) {
    json_string(file, "against", row->against, ", ");
    fprintf(file, "\"ratio\": %.5g, ", row->ratio.median);
  }
  if (row->measure != MEASURE_NONE) {
    json_string(file, "target_of", measures[row->measure], ", ");
    fprintf(file, "\"target\": %g, ", row->target);
  }
  json_string(file, "status", status_names[status_of(row)], ", ");
  fprintf(file, "\"noise\": %.3g, \"wrong\": %d}", noise(row), row->wrong);
}

void report_json(const char *path, const char *directory, const char *commit, double array_bytes,
                 int repetitions) {
  char line[8192], date[32], default_name[4096];
  time_t now = time(NULL);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  if (!path) {
    default_path(directory, date, default_name, sizeof default_name);
    path = default_name;
  }
  FILE *file = fopen(path, "w");
  if (!file) {
    perror(path);
    exit(1);
  }
  fputs("{\n  \"device\": {", file);
  json_string(file, "cpu", cpu_info("model name", line, sizeof line), ", ");
  json_string(file, "flags", cpu_info("flags", line, sizeof line), ", ");
  fprintf(file, "\"l1d\": %ld, \"l2\": %ld, \"l3\": %ld, \"processors\": %ld},\n",
          sysconf(_SC_LEVEL1_DCACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE),
          sysconf(_SC_NPROCESSORS_ONLN));
  fputs("  ", file);
  json_string(file, "commit", commit, ",\n  ");
  json_string(file, "date", date, ",\n  ");
  json_string(file, "compiler", BENCH_COMPILER, ",\n");
  fprintf(file, "  \"array_bytes\": %.0f,\n  \"repetitions\": %d,\n  \"rows\": [\n", array_bytes,
          repetitions);
  for (size_t i = 0; i < count; i++) {
    json_row(file, &rows[i]);
    fputs(i + 1 < count ? ",\n" : "\n", file);
  }
  fputs("  ]\n}\n", file);
  if (fclose(file) != 0) {
    perror(path);
    exit(1);
  }
  printf("written: %s\n", path);
}
