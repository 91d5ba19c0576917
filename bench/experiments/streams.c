/* SPDX-License-Identifier: Apache-2.0
 *
 * An experiment, not part of the build: does one core read memory faster from several places at once? A plain
 * sum, and a sum in two windows (src/cpu/fold.tmpl.h), of 1 GB of doubles from 1, 2 and 4 places, with and
 * without prefetching; one thread, then 16. What it printed is in bench/results/ under "streams"; what
 * followed, in docs/perf-log.md. AVX-512: gcc -O3 -march=native -fopenmp -ffp-contract=off -DAHEAD=4096
 * bench/experiments/streams.c -lm && ./a.out
 */
#include <immintrin.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef AHEAD
#define AHEAD 4096
#endif
#define INLINE static inline __attribute__((always_inline))
#define OR_XOR 0xf6 /* a | (b ^ c) */

INLINE double sum(const double *x, size_t n, const int streams, const int exact, const size_t tile,
                  const int ahead) {
  const size_t each = tile / (size_t)streams, part = n / (size_t)streams / each * each;
  const __m512d m0 = _mm512_set1_pd(ldexp(1.5, 10)), m1 = _mm512_set1_pd(ldexp(1.5, -42));
  __m512i total = _mm512_setzero_si512(), bad = total;
  __m512d plain[8];
  for (int i = 0; i < 8; i++) plain[i] = _mm512_setzero_pd();
  for (size_t b = 0; b < part; b += each) {
    __m512i a0 = _mm512_setzero_si512(), a1 = a0, high = a0, rest = a0;
    for (size_t i = b; i < b + each; i += 16) {
      for (int s = 0; s < streams; s++) {
        for (int u = 0; u < 2; u++) {
          const double *p = x + (size_t)s * part + i + 8 * u;
          if (ahead) _mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0);
          __m512d v = _mm512_loadu_pd(p);
          if (!exact) {
            plain[(2 * s + u) % 8] = _mm512_add_pd(plain[(2 * s + u) % 8], v);
            continue;
          }
          __m512d t = _mm512_add_pd(v, m0);
          a0 = _mm512_add_epi64(a0, _mm512_castpd_si512(t));
          high = _mm512_ternarylogic_epi64(high, _mm512_castpd_si512(t), _mm512_castpd_si512(m0), OR_XOR);
          __m512d r = _mm512_sub_pd(v, _mm512_sub_pd(t, m0));
          t = _mm512_add_pd(r, m1);
          a1 = _mm512_add_epi64(a1, _mm512_castpd_si512(t));
          rest = _mm512_ternarylogic_epi64(rest, _mm512_castpd_si512(r),
                                           _mm512_castpd_si512(_mm512_sub_pd(t, m1)), OR_XOR);
        }
      }
    }
    total = _mm512_add_epi64(total, _mm512_add_epi64(a0, a1));
    bad = _mm512_or_si512(bad, _mm512_or_si512(high, rest));
  }
  double r = (double)_mm512_reduce_add_epi64(total) + 1e-300 * (double)_mm512_reduce_or_epi64(bad);
  for (int i = 0; i < 8; i++) r += _mm512_reduce_add_pd(plain[i]);
  return r;
}

#define RUN const double *x, size_t n
#define VARIANT(F, ...)                                                                                      \
  static double F(RUN) { return sum(x, n, __VA_ARGS__); }
VARIANT(p1, 1, 0, 2048, 1)
VARIANT(p1n, 1, 0, 2048, 0)
VARIANT(p2, 2, 0, 2048, 1)
VARIANT(p4, 4, 0, 2048, 1)
VARIANT(e1, 1, 1, 2048, 1)
VARIANT(e1n, 1, 1, 2048, 0)
VARIANT(e1l, 1, 1, 8192, 1)
VARIANT(e2, 2, 1, 2048, 1)
VARIANT(e4, 4, 1, 4096, 1)
VARIANT(e4n, 4, 1, 4096, 0)

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(void) {
  static const struct {
    const char *name;
    double (*run)(const double *, size_t);
  } f[] = {{"plain 1s", p1},     {"plain 1s nopf", p1n}, {"plain 2s", p2},      {"plain 4s", p4},
           {"exact 1s 16K", e1}, {"exact 1s nopf", e1n}, {"exact 1s 64K", e1l}, {"exact 2s 16K", e2},
           {"exact 4s", e4},     {"exact 4s nopf", e4n}};
  enum { VARIANTS = sizeof f / sizeof *f, RUNS = 11 };
  const size_t n = (size_t)1 << 27;
  double *x = mmap(NULL, n * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (x == MAP_FAILED) return 1;
  madvise(x, n * 8, MADV_HUGEPAGE);
#pragma omp parallel for
  for (size_t i = 0; i < n; i++) x[i] = (double)(int64_t)(i * 0x9E3779B97F4A7C15u) * 0x1p-63;
  volatile double keep;
  for (int threads = 1; threads <= 16; threads *= 16) {
    double seconds[VARIANTS][RUNS], base = 0;
    omp_set_num_threads(threads);
    for (int k = 0; k < RUNS; k++) {
      for (int j = 0; j < VARIANTS; j++) {
        double start = omp_get_wtime();
#pragma omp parallel
        {
          size_t part = n / (size_t)threads;
          keep = f[j].run(x + (size_t)omp_get_thread_num() * part, part - 1024);
        }
        seconds[j][k] = omp_get_wtime() - start;
      }
    }
    for (int j = 0; j < VARIANTS; j++) {
      qsort(seconds[j], RUNS, sizeof(double), ascending);
      double median = seconds[j][RUNS / 2];
      if (!j) base = median;
      printf("%2d threads %-16s %.1f GB/s (%.2f)\n", threads, f[j].name, (double)n * 8 / median / 1e9,
             base / median);
    }
  }
  (void)keep;
  return 0;
}
