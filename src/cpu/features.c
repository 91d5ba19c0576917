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

/* CPUs that the cgroup `path` (version 2) and its parents allow: the tightest cpu.max. In integers, since the
 * caller's floating-point flags must stay as they are. */
static long long cgroup_cpus(const char *path) {
  long long least = INT_MAX;
  char name[600], dir[512];
  snprintf(dir, sizeof dir, "%s", path);
  for (;;) {
    long long quota, period;
    char line[64];
    snprintf(name, sizeof name, "/sys/fs/cgroup%s/cpu.max", dir);
    FILE *f = fopen(name, "re");
    if (f) {
      if (fgets(line, sizeof line, f) && sscanf(line, "%lld %lld", &quota, &period) == 2 && period > 0 &&
          quota / period < least)
        least = (quota + period / 2) / period;
      fclose(f);
    }
    char *slash = strrchr(dir, '/');
    if (!slash) return least;
    *slash = 0;
  }
}

int sumac_cpu_threads(void) {
  cpu_set_t set;
  int n = 0;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
  if (n < 1) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
  FILE *f = fopen("/proc/self/cgroup", "re");
  if (f) {
    char line[512];
    while (fgets(line, sizeof line, f)) {
      line[strcspn(line, "\n")] = 0;
      if (strncmp(line, "0::", 3)) continue;
      long long cpus = cgroup_cpus(strcmp(line + 3, "/") ? line + 3 : "");
      if (cpus < n) n = (int)cpus;
    }
    fclose(f);
  }
  return n < 1 ? 1 : n > 4096 ? 4096 : n;
}
