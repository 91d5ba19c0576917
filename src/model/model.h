/* SPDX-License-Identifier: Apache-2.0
 *
 * What exists: the lists of this directory as enums and tables. Everything that depends on an operation,
 * a dtype or an accumulator looks it up here; nothing repeats a list.
 */
#ifndef SUMAC_MODEL_H
#define SUMAC_MODEL_H

#include <stdbool.h>

#include "sumac/sumac.h"

enum sumac_type {
#define SUMAC_DTYPE(ID, ...) SUMAC_T_##ID,
#include "model/dtypes.def"
#undef SUMAC_DTYPE
  SUMAC_TYPES
};

enum sumac_class { SUMAC_C_FLOAT, SUMAC_C_INT, SUMAC_C_UINT, SUMAC_C_BOOL };

enum sumac_map {
  /* accumulated; the first five are the public sumac_kind, in its order */
  SUMAC_M_SUM,
  SUMAC_M_ABS,
  SUMAC_M_SQUARE,
  SUMAC_M_DOT,
  SUMAC_M_MOMENTS,
  /* selected */
  SUMAC_M_MIN,
  SUMAC_M_MAX,
  SUMAC_M_MAXABS,
  SUMAC_M_ARGMIN,
  SUMAC_M_ARGMAX,
  /* counted */
  SUMAC_M_NONZERO,
  SUMAC_M_ANY,
  SUMAC_M_ALL,
  /* multiplied */
  SUMAC_M_PROD,
  SUMAC_MAPS
};
#define SUMAC_LOOP_MAPS 4 /* SUM, ABS, SQUARE, DOT have a loop of their own; MOMENTS forms two of them */

enum sumac_finish_kind {
  SUMAC_F_VALUE,
  SUMAC_F_MEAN,
  SUMAC_F_VARIANCE,
  SUMAC_F_DEVIATION,
  SUMAC_F_ROOT,
  SUMAC_F_ELEMENT,
  SUMAC_F_INDEX
};

enum sumac_out_rule { SUMAC_O_WIDE, SUMAC_O_REAL, SUMAC_O_SAME, SUMAC_O_INDEX, SUMAC_O_TRUTH };

enum { SUMAC_OPS = SUMAC_ALL + 1, SUMAC_ACCS = SUMAC_ACC_I32 + 1, SUMAC_MAX_LIMBS = 134 };

/* A fixed-point number: limb i of 32 payload bits weighs 2^(32 i - bias). */
struct sumac_format {
  int16_t limbs, bias;
};

struct sumac_type_info {
  const char *name, *long_name;
  sumac_dtype dtype;
  uint8_t size; /* bytes */
  uint8_t cls;  /* enum sumac_class */
  uint8_t mantissa, exponent;
  struct sumac_format sum, product;
};

struct sumac_op_info {
  const char *name;
  uint8_t map, finish, out;
};

/* Device code, which is C++, takes compile-time constants out of it. */
#ifdef __cplusplus
constexpr
#else
static const
#endif
    struct sumac_type_info sumac_types[SUMAC_TYPES] = {
#define C_(C) SUMAC_C_##C
/* clang-format off */
#define SUMAC_DTYPE(I, N, L, D, B, C, M, E, S, T, P, Q) {N, L, {D, B, 1}, B / 8, C_(C), M, E, {S, T}, {P, Q}},
/* clang-format on */
#include "model/dtypes.def"
#undef SUMAC_DTYPE
};

static const struct sumac_op_info sumac_ops[SUMAC_OPS] = {
#define SUMAC_OP(ID, NAME, MAP, FINISH, OUT) {NAME, SUMAC_M_##MAP, SUMAC_F_##FINISH, SUMAC_O_##OUT},
#include "model/ops.def"
#undef SUMAC_OP
};

static inline bool sumac_is_selection(enum sumac_map map) {
  return map >= SUMAC_M_MIN && map <= SUMAC_M_ARGMAX;
}
static inline bool sumac_is_count(enum sumac_map map) { return map >= SUMAC_M_NONZERO && map <= SUMAC_M_ALL; }

/* The type that an exact sum must fit in, also where the result has another; SUMAC_TYPES: none. */
static inline enum sumac_type sumac_acc_limit(enum sumac_acc acc) {
  return acc == SUMAC_ACC_I64 ? SUMAC_T_I64 : acc == SUMAC_ACC_I32 ? SUMAC_T_I32 : SUMAC_TYPES;
}

/* Whether sums are formed in the accumulator's own arithmetic. */
static inline bool sumac_is_plain(enum sumac_acc acc) {
  return acc != SUMAC_ACC_EXACT && sumac_acc_limit(acc) == SUMAC_TYPES;
}

/* Whether an accumulation loop exists. */
static inline bool sumac_variant(enum sumac_acc acc, enum sumac_type type) {
/* clang-format off */
#define SUMAC_VARIANT(A, T) if (acc == SUMAC_ACC_##A && type == SUMAC_T_##T) return true;
/* clang-format on */
#include "model/variants.def"
#undef SUMAC_VARIANT
  return false;
}

#endif
