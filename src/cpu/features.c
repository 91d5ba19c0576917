/* SPDX-License-Identifier: Apache-2.0
 *
 * What this processor, and this process on it, may use.
 */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(SUMAC_HAVE_AVX2)
#include <cpuid.h>
#endif

#include "cpu/cpu.h"

#if defined(SUMAC_HAVE_AVX2)
/* Two that not every compiler's __builtin_cpu_supports knows. */
static bool has_f16c_lzcnt(void) {
  unsigned a, b, c, d, e;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) && __get_cpuid(0x80000001u, &a, &b, &e, &d) &&
         (e & bit_LZCNT);
}
#endif

static unsigned present_features(void) {
  unsigned have = SUMAC_CPU_BASE;
#if defined(SUMAC_HAVE_AVX2)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && has_f16c_lzcnt())
    have |= SUMAC_CPU_AVX2;
#endif
#if defined(SUMAC_HAVE_AVX512)
  if ((have & SUMAC_CPU_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    have |= SUMAC_CPU_AVX512;
#endif
  return have;
}

/* SUMAC_CPU_FEATURES: a list of names; unknown ones are ignored, so that a list may serve several machines.
 */
static unsigned allowed_features(void) {
  const char *list = getenv("SUMAC_CPU_FEATURES");
  if (!list || !*list) return ~0u;
  unsigned mask = 0;
  while (*list) {
    size_t n = strcspn(list, ",");
    if (n == 4 && !memcmp(list, "avx2", n)) mask |= SUMAC_CPU_AVX2;
    if (n == 6 && !memcmp(list, "avx512", n)) mask |= SUMAC_CPU_AVX512;
    list += n + (list[n] == ',');
  }
  return mask;
}

const struct sumac_loops *sumac_cpu_loops(unsigned mask) {
  unsigned use = present_features() & allowed_features() & (mask ? mask : ~0u);
#if defined(SUMAC_HAVE_AVX512)
  if (use & SUMAC_CPU_AVX512) return &sumac_loops_avx512;
#endif
#if defined(SUMAC_HAVE_AVX2)
  if (use & SUMAC_CPU_AVX2) return &sumac_loops_avx2;
#endif
  (void)use;
  return &sumac_loops_base;
}

/* Reads up to two numbers from a file; returns how many there were. */
static int read_numbers(const char *directory, const char *file, long long *a, long long *b) {
  char path[PATH_MAX];
  bool fits = snprintf(path, sizeof path, "%s/%s", directory, file) < (int)sizeof path;
  FILE *f = fits ? fopen(path, "re") : NULL;
  if (!f) return 0;
  int count = fscanf(f, "%lld %lld", a, b);
  fclose(f);
  return count;
}

/* The tightest quota of the cgroup `group` below `mount` and of its parents, in CPUs. In integers, since the
 * caller's floating-point flags must stay as they are. */
static long long quota_cpus(const char *mount, const char *group) {
  long long least = INT_MAX, quota, period, none;
  char directory[PATH_MAX];
  snprintf(directory, sizeof directory, "%s%s", mount, group);
  for (;;) {
    if ((read_numbers(directory, "cpu.max", &quota, &period) == 2 || /* version 2; 1 */
         (read_numbers(directory, "cpu.cfs_quota_us", &quota, &none) == 1 &&
          read_numbers(directory, "cpu.cfs_period_us", &period, &none) == 1)) &&
        quota > 0 && period > 0) { /* -1: no limit */
      long long cpus = quota / period + (quota % period >= period - period / 2);
      least = cpus < least ? cpus : least;
    }
    if (strlen(directory) <= strlen(mount)) return least;
    *strrchr(directory, '/') = 0;
  }
}

long long sumac_cgroup_cpus(const char *root) {
  long long least = INT_MAX;
  char mount[PATH_MAX], line[PATH_MAX];
  snprintf(mount, sizeof mount, "%s/proc/self/cgroup", root);
  FILE *f = fopen(mount, "re");
  if (!f) return least;
  while (fgets(line, sizeof line, f)) { /* ID:CONTROLLERS:PATH; version 2 names no controller */
    char *rest = line, *name;
    strsep(&rest, ":");
    char *controllers = strsep(&rest, ":");
    if (!rest) continue;
    rest[strcspn(rest, "\n")] = 0;
    while ((name = strsep(&controllers, ","))) {
      bool version1 = !strcmp(name, "cpu");
      if (*name && !version1) continue;
      snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, version1 ? "/cpu" : "");
      long long cpus = quota_cpus(mount, rest);
      least = cpus < least ? cpus : least;
    }
  }
  fclose(f);
  return least;
}

int sumac_cpu_threads(void) {
  cpu_set_t set;
  long long n = 0, quota = sumac_cgroup_cpus("");
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
  if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
  if (n > quota) n = quota;
  return n < 1 ? 1 : n > 4096 ? 4096 : (int)n;
}
