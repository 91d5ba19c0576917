/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUMAC_BENCH_REPORT_H
#define SUMAC_BENCH_REPORT_H

/* What a target bounds: a ratio or a speed from below, a time from above. */
enum measure { MEASURE_NONE, MEASURE_RATIO, MEASURE_GBS_PER_THREAD, MEASURE_NANOSECONDS };

/* Quartiles of what was measured in the repetitions. */
struct spread {
  double low, median, high;
};

/* One line of the table and one object of the JSON file. Strings live as long as the program. */
struct row {
  const char *name, *data, *dtype, *op, *isa;
  int threads;
  double bytes;          /* that one call reads */
  struct spread seconds; /* of one call */
  const char *against;   /* what the ratio compares with; NULL: nothing */
  struct spread ratio;   /* time of `against` by own time, within repetitions of one run */
  enum measure measure;
  double target;
  int wrong; /* timed calls whose result was not the right one */
};

void report_add(struct row row);

/* Missed targets first. */
void report_table(void);

/* `path` NULL: bench/results/<date>-<processor>.json below `directory`. Prints where it went. */
void report_json(const char *path, const char *directory, const char *commit, double array_bytes,
                 int repetitions);

/* Wrong results over all rows. */
int report_wrong(void);

#endif
