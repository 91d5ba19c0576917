/* SPDX-License-Identifier: Apache-2.0
 *
 * All loops of the CPU backend for one instruction set. An ISA file defines
 *   SUMAC_VECTOR_BYTES   16, 32 or 64
 *   SUMAC_LOOPS          the name of the table, the only thing that it exports
 *   SUMAC_LOOPS_NAME     the instruction set's name
 * and includes this. Types and maps are compile-time constants in every body; the lists of src/model make
 * one function of each.
 */
#ifdef __FAST_MATH__
#error "sumac needs IEEE arithmetic: compile without -ffast-math"
#endif

#include <limits.h>
#include <math.h>

#include "cpu/cpu.h"
#include "cpu/simd.h"

#include "cpu/fold.tmpl.h" /* first: the others use its streams and loads */

#include "cpu/bytes.tmpl.h"
#include "cpu/integers.tmpl.h"

#include "cpu/plain.tmpl.h" /* after integers */
#include "cpu/select.tmpl.h"

#include "cpu/count.tmpl.h" /* after select */

SUMAC_INLINE void exact(enum sumac_type type, enum sumac_map map, struct sumac_sum *sum, const void *x,
                        const void *y, size_t n, struct tiles tiles) {
  if (sumac_types[type].cls != SUMAC_C_FLOAT) exact_integers(type, map, sum, x, y, n);
#if SUMAC_BYTE_TABLES
  else if (sumac_types[type].size == 1 && !is_product(map))
    exact_bytes(type, map, sum, x, n);
#endif
  else
    exact_floats(type, map, sum, x, y, n, tiles);
}

/* clang-format off */

/* Instances. T and M are the bare names of a type and a map. */
#define TILE_ARGS struct sumac_sum *s, const char *x, const char *y, size_t n, size_t apart
#define EXACT_ARGS struct sumac_sum *s, const void *x, const void *y, size_t n
#define BOTH_ARGS struct sumac_sum *s, struct sumac_sum *q, const char *x, size_t n, size_t apart
#define MOMENTS_ARGS struct sumac_sum *s, struct sumac_sum *q, const void *x, size_t n
#define PLAIN_ARGS const void *x, const void *y, size_t n, double c
#define SELECT_ARGS const void *x, size_t n, bool skip, bool *nan
#define SP x, n, skip, nan
#define COUNT_ARGS const void *x, size_t n
#define TM(T, M) SUMAC_T_##T, SUMAC_M_##M
#define FN static NOINLINE bool
#define ST s, x, y, n, apart
#define TILES(T, M) ((struct tiles){usual_##M##_##T, hard_##M##_##T})
#define USUAL(T, M) FN usual_##M##_##T(TILE_ARGS) { return usual_tile(TM(T, M), ST); }
#define BINS(T, M) FN bins_##M##_##T(TILE_ARGS) { return bins_tile(TM(T, M), ST); }
#define FIT(T, M) FN fit_##M##_##T(TILE_ARGS) { return fit_tile(TM(T, M), ST, bins_##M##_##T); }
#define DETOURS(T, M) ((struct detours){fit_##M##_##T, bins_##M##_##T})
#define HARD(T, M) FN hard_##M##_##T(TILE_ARGS) { return hard_tile(TM(T, M), ST, DETOURS(T, M)); }
#define EXACT(T, M) static void exact_##M##_##T(EXACT_ARGS) { exact(TM(T, M), s, x, y, n, TILES(T, M)); }
#define BOTH(T) FN both_##T(BOTH_ARGS) { return moments_tile(SUMAC_T_##T, s, q, x, n, apart); }
#define WAYS(T) ((struct moments){both_##T, exact_SUM_##T, exact_SQUARE_##T})
#define MOMENTS(T) static void moments_##T(MOMENTS_ARGS) { exact_moments(SUMAC_T_##T, s, q, x, n, WAYS(T)); }
#define PLAIN_ACC(A, T, M) SUMAC_ACC_##A, TM(T, M)
#define PLAIN_FN(A, T, M) static double plain_##A##_##M##_##T
#define PLAIN(A, T, M) PLAIN_FN(A, T, M)(PLAIN_ARGS) { return plain_sum(PLAIN_ACC(A, T, M), x, y, n, c); }
#define SELECT(T, M) static int64_t select_##M##_##T(SELECT_ARGS) { return select_loop(TM(T, M), SP); }
#define COUNTED(T, K) SUMAC_T_##T, SUMAC_COUNT_##K
#define COUNT(T, K) static int64_t count_##K##_##T(COUNT_ARGS) { return count_loop(COUNTED(T, K), x, n); }

/* ... and their places in the table. */
#define EXACT_ENTRY(T, M) [SUMAC_M_##M][SUMAC_T_##T] = exact_##M##_##T,
#define MOMENTS_ENTRY(T) [SUMAC_T_##T] = moments_##T,
#define PLAIN_ENTRY(A, T, M) [SUMAC_ACC_##A][SUMAC_M_##M][SUMAC_T_##T] = plain_##A##_##M##_##T,
#define SELECT_ENTRY(T, M) [SUMAC_M_##M - SUMAC_M_MIN][SUMAC_T_##T] = select_##M##_##T,
#define COUNT_ENTRY(T, K) [SUMAC_COUNT_##K][SUMAC_T_##T] = count_##K##_##T,

#define EACH_SUM(F, T) F(T, SUM) F(T, ABS) F(T, SQUARE) F(T, DOT)
#define EACH_PLAIN(F, A, T) F(A, T, SUM) F(A, T, ABS) F(A, T, SQUARE) F(A, T, DOT) F(A, T, CENTRED)
#define EACH_SELECT(F, T) F(T, MIN) F(T, MAX) F(T, MAXABS) F(T, ARGMIN) F(T, ARGMAX)
#define EACH_COUNT(F, T) F(T, ZEROS) F(T, NANS)

#define EACH_TILE(T) EACH_SUM(USUAL, T) EACH_SUM(BINS, T) EACH_SUM(FIT, T) EACH_SUM(HARD, T)

/* What each accumulator of variants.def means in the pass at hand; I64 and I32 sums are exact ones. */
#define EACH_OTHER(T) EACH_SELECT(SELECT, T) EACH_COUNT(COUNT, T)
#define VARIANT_EXACT(T) EACH_TILE(T) EACH_SUM(EXACT, T) BOTH(T) MOMENTS(T) EACH_OTHER(T)
#define VARIANT_F64(T) EACH_PLAIN(PLAIN, F64, T)
#define VARIANT_F32(T) EACH_PLAIN(PLAIN, F32, T)
#define VARIANT_F16(T) EACH_PLAIN(PLAIN, F16, T)
#define VARIANT_BF16(T) EACH_PLAIN(PLAIN, BF16, T)
#define VARIANT_I64(T)
#define VARIANT_I32(T)
#define SUMAC_VARIANT(ACC, T) VARIANT_##ACC(T)
#include "model/variants.def"
#undef VARIANT_EXACT
#undef VARIANT_F64
#undef VARIANT_F32
#undef VARIANT_F16
#undef VARIANT_BF16

/* clang-format on */

const struct sumac_loops SUMAC_LOOPS = {
    .name = SUMAC_LOOPS_NAME,
    .plain =
        {
#define VARIANT_EXACT(T)
#define VARIANT_F64(T) EACH_PLAIN(PLAIN_ENTRY, F64, T)
#define VARIANT_F32(T) EACH_PLAIN(PLAIN_ENTRY, F32, T)
#define VARIANT_F16(T) EACH_PLAIN(PLAIN_ENTRY, F16, T)
#define VARIANT_BF16(T) EACH_PLAIN(PLAIN_ENTRY, BF16, T)
#include "model/variants.def"
#undef VARIANT_EXACT
#undef VARIANT_F64
#undef VARIANT_F32
#undef VARIANT_F16
#undef VARIANT_BF16
        },
#define VARIANT_F64(T)
#define VARIANT_F32(T)
#define VARIANT_F16(T)
#define VARIANT_BF16(T)
    .exact =
        {
#define VARIANT_EXACT(T) EACH_SUM(EXACT_ENTRY, T)
#include "model/variants.def"
#undef VARIANT_EXACT
        },
    .moments =
        {
#define VARIANT_EXACT(T) MOMENTS_ENTRY(T)
#include "model/variants.def"
#undef VARIANT_EXACT
        },
    .select =
        {
#define VARIANT_EXACT(T) EACH_SELECT(SELECT_ENTRY, T)
#include "model/variants.def"
#undef VARIANT_EXACT
        },
    .count =
        {
#define VARIANT_EXACT(T) EACH_COUNT(COUNT_ENTRY, T)
#include "model/variants.def"
        },
};
