/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU quotas of cgroups, read from trees as the kernel shows them.
 */
#include "cpu/cpu.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#define V1 "/sys/fs/cgroup/cpu"
#define V2 "/sys/fs/cgroup"
#define UNLIMITED INT_MAX

static const struct tree {
  const char *cgroup; /* /proc/self/cgroup */
  long long cpus;
  struct {
    const char *path, *text;
  } files[5];
} trees[] = {
    {"", UNLIMITED, {{0}}},
    {"0::/\n", UNLIMITED, {{0}}},
    {"0::/\n", 2, {{V2 "/cpu.max", "200000 100000\n"}}},
    {"0::/a/b\n", 3, {{V2 "/a/b/cpu.max", "300000 100000\n"}}},
    {"0::/a/b\n", 2, {{V2 "/a/b/cpu.max", "max 100000\n"}, {V2 "/a/cpu.max", "200000 100000\n"}}},
    {"0::/a/b\n", 1, {{V2 "/a/b/cpu.max", "100000 100000\n"}, {V2 "/a/cpu.max", "200000 100000\n"}}},
    {"0::/a/b\n", 1, {{V2 "/a/b/cpu.max", "300000 100000\n"}, {V2 "/cpu.max", "100000 100000\n"}}},
    {"0::/a\n", UNLIMITED, {{V2 "/b/cpu.max", "100000 100000\n"}}},
    /* to the nearest */
    {"0::/\n", 0, {{V2 "/cpu.max", "49999 100000\n"}}},
    {"0::/\n", 1, {{V2 "/cpu.max", "50000 100000\n"}}},
    {"0::/\n", 3, {{V2 "/cpu.max", "250000 100000\n"}}},
    {"0::/\n", 2, {{V2 "/cpu.max", "7 3\n"}}},
    /* version 1: two files; the quota -1 is none */
    {"4:cpu:/\n", 2, {{V1 "/cpu.cfs_quota_us", "200000\n"}, {V1 "/cpu.cfs_period_us", "100000\n"}}},
    {"4:cpu:/\n", UNLIMITED, {{V1 "/cpu.cfs_quota_us", "-1\n"}, {V1 "/cpu.cfs_period_us", "100000\n"}}},
    {"4:cpu:/\n", UNLIMITED, {{V1 "/cpu.cfs_quota_us", "200000\n"}}},
    {"3:memory:/m\n2:cpu,cpuacct:/a/b\n1:name=systemd:/c\n0::/d\n",
     3,
     {{V1 "/a/b/cpu.cfs_quota_us", "-1\n"},
      {V1 "/a/b/cpu.cfs_period_us", "100000\n"},
      {V1 "/a/cpu.cfs_quota_us", "150000\n"},
      {V1 "/a/cpu.cfs_period_us", "50000\n"}}},
    {"2:cpuacct,cpu:/a\n", 1, {{V1 "/a/cpu.cfs_quota_us", "9\n"}, {V1 "/a/cpu.cfs_period_us", "9\n"}}},
    /* a container's group is the root of its mount, whatever its path is outside */
    {"2:cpu:/docker/0a1b\n", 2, {{V1 "/cpu.cfs_quota_us", "20\n"}, {V1 "/cpu.cfs_period_us", "10\n"}}},
    {"0::/../../x\n", 2, {{V2 "/cpu.max", "20 10\n"}}},
    /* other controllers have no say */
    {"2:cpuset:/a\n3:cpuacct:/a\n",
     UNLIMITED,
     {{V1 "/a/cpu.cfs_quota_us", "9\n"}, {V1 "/a/cpu.cfs_period_us", "9\n"}}},
    /* the tighter one of both versions */
    {"2:cpu:/\n0::/\n",
     2,
     {{V1 "/cpu.cfs_quota_us", "40\n"}, {V1 "/cpu.cfs_period_us", "10\n"}, {V2 "/cpu.max", "20 10\n"}}},
    {"0::/\n2:cpu:/\n",
     4,
     {{V1 "/cpu.cfs_quota_us", "40\n"}, {V1 "/cpu.cfs_period_us", "10\n"}, {V2 "/cpu.max", "60 10\n"}}},
    /* what no kernel writes */
    {"0::/\n", UNLIMITED, {{V2 "/cpu.max", "100000 0\n"}}},
    {"0::/\n", UNLIMITED, {{V2 "/cpu.max", "9223372036854775807 1\n"}}},
    {"0::/\n", 1, {{V2 "/cpu.max", "9223372036854775807 9223372036854775807\n"}}},
    {"0::/\n", UNLIMITED, {{V2 "/cpu.max", ""}}},
    {"::\n:\n0::/\njunk", 2, {{V2 "/cpu.max", "20 10"}}},
};

static void put(const char *root, const char *file, const char *text) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s", root, file);
  for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
    *p = 0;
    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
  }
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void quotas(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
    char root[] = "/tmp/sumac-cgroup-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    assert_true(sumac_cgroup_cpus(root) == UNLIMITED); /* nothing there */
    put(root, "/proc/self/cgroup", trees[i].cgroup);
    for (int k = 0; k < 5 && trees[i].files[k].path != NULL; k++)
      put(root, trees[i].files[k].path, trees[i].files[k].text);
    long long cpus = sumac_cgroup_cpus(root);
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
    if (cpus != trees[i].cpus)
      fail_msg("tree %zu, %s: %lld CPUs, want %lld", i, trees[i].cgroup, cpus, trees[i].cpus);
  }
}

static void threads(void **state) {
  (void)state;
  long long quota = sumac_cgroup_cpus("");
  assert_in_range(sumac_cpu_threads(), 1, quota < 1 ? 1 : quota);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(quotas), cmocka_unit_test(threads)};
  return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
