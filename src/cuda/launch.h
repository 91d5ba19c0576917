/* SPDX-License-Identifier: Apache-2.0
 *
 * What a launch carries: the one argument of every kernel, read by both compilers.
 */
#ifndef SUMAC_LAUNCH_H
#define SUMAC_LAUNCH_H

#include "exact/finish.h"

#ifdef __cplusplus
#define SUMAC_SHAPE constexpr
#else
#define SUMAC_SHAPE static inline
#endif

/* ---- what the host must know of a kernel of an exact sum: of a map over a type */

SUMAC_SHAPE bool sumac_is_product(enum sumac_map map) { return map == SUMAC_M_SQUARE || map == SUMAC_M_DOT; }

/* Above a number's top limb: what a wide negative term spills its sign into. Behind the limbs: counters. */
enum {
  SUMAC_SPARE = 2,
  SUMAC_COUNT_NAN = 0,
  SUMAC_COUNT_PLUS,
  SUMAC_COUNT_MINUS,
  SUMAC_COUNT_SLOW,
  SUMAC_COUNTS
};

SUMAC_SHAPE int sumac_squares_at(enum sumac_type type, enum sumac_map map) {
  return (sumac_is_product(map) ? sumac_types[type].product.limbs : sumac_types[type].sum.limbs) +
         SUMAC_SPARE;
}
SUMAC_SHAPE int sumac_counts_at(enum sumac_type type, enum sumac_map map) {
  return sumac_squares_at(type, map) +
         (map == SUMAC_M_MOMENTS ? sumac_types[type].product.limbs + SUMAC_SPARE : 0);
}
SUMAC_SHAPE int sumac_padded_words(enum sumac_type type, enum sumac_map map) {
  return (sumac_counts_at(type, map) + SUMAC_COUNTS + 31) / 32 * 32;
}

/* 64-bit bins for what fits no window; 0: everything does, or goes to limbs. A warp has them in columns, one
 * a lane; or, where that is too much memory, one for two lanes. */
SUMAC_SHAPE int sumac_columns(enum sumac_type type) { return type == SUMAC_T_F64 ? 16 : 32; }
SUMAC_SHAPE int sumac_bins(enum sumac_type type, enum sumac_map map) {
  if (map == SUMAC_M_MOMENTS) return sumac_bins(type, SUMAC_M_SUM) + sumac_bins(type, SUMAC_M_SQUARE);
  if (type == SUMAC_T_F64) return sumac_is_product(map) ? 0 : 66;
  if (type == SUMAC_T_F32 || type == SUMAC_T_BF16) return sumac_is_product(map) ? 20 : 16;
  return 0;
}

/* Bytes of shared memory: a warp's words, state and bins, and the whole block's. */
enum { SUMAC_STATE_BYTES = 64 };
SUMAC_SHAPE int sumac_warp_bytes(enum sumac_type type, enum sumac_map map) {
  return SUMAC_STATE_BYTES +
         8 * (sumac_padded_words(type, map) + sumac_columns(type) * sumac_bins(type, map));
}
SUMAC_SHAPE int sumac_block_bytes(enum sumac_type type, enum sumac_map map, int threads) {
  return threads / 32 * (sumac_warp_bytes(type, map) + 4) + 12 * sumac_padded_words(type, map) + 72;
}

/* Loads of 16 bytes a thread has in flight (twice as many while the next tile is on its way; as many of y).
 */
SUMAC_SHAPE int sumac_loads(enum sumac_type type, enum sumac_map map) {
  if (map == SUMAC_M_MOMENTS || sumac_is_product(map)) return 2;
  return type == SUMAC_T_BF16 ? 2 : type == SUMAC_T_E5M2 ? 8 : 4;
}
/* Most threads a block. */
SUMAC_SHAPE int sumac_most_threads(enum sumac_type type, enum sumac_map map) {
  if (map == SUMAC_M_MOMENTS || sumac_is_product(map) || type == SUMAC_T_F64 || type == SUMAC_T_E5M2)
    return 256;
  return 512;
}
/* Blocks of that size a multiprocessor has registers for. */
SUMAC_SHAPE int sumac_least_blocks(enum sumac_type type, enum sumac_map map) {
  if (map == SUMAC_M_MOMENTS || sumac_is_product(map)) return 2;
  return type == SUMAC_T_F64 ? 3 : 2;
}

/* ---- and of a plain sum, in 64 bits (`wide`) or in 32 */

SUMAC_SHAPE int sumac_plain_loads(enum sumac_map map, bool wide) {
  if (map == SUMAC_M_MOMENTS) return wide ? 2 : 4;
  return map == SUMAC_M_DOT ? 2 : 4;
}
SUMAC_SHAPE int sumac_plain_threads(enum sumac_map map) { return map == SUMAC_M_MOMENTS ? 256 : 512; }
enum { SUMAC_PLAIN_BLOCKS = 2 };
/* A part a warp. */
SUMAC_SHAPE int sumac_plain_bytes(int threads) { return threads / 32 * 24; }

/* A workspace: words that a launch finds and leaves all zero, so that launches follow each other, and graphs
 * replay, without anything in between. */
enum {
  SUMAC_WORDS = 224,  /* limbs of two numbers, spare ones, counters */
  SUMAC_BLOCKS = 1024 /* most blocks of a launch: each leaves one partial result of a plain sum */
};
struct sumac_work {
  uint64_t word[SUMAC_WORDS];
  uint64_t ticket; /* blocks that are through; from bit 32 on those that saw a term other than -0 */
  uint64_t slow;   /* tiles that left the fast path since the workspace was made: the one word that stays */
  uint64_t unused[6];
  double partial[SUMAC_BLOCKS][4];
};

struct sumac_launch {
  const char *x, *y; /* the first element of each */
  uint64_t n;
  /* Contiguous elements: tiles of whole vectors, the first one counted even if it begins with bytes that are
   * no elements; and the block that begins with what is behind them, or none: ~0. It is not block 0 if that
   * begins with such a tile. */
  uint64_t tiles;
  uint32_t edge_block, unused0;
  struct sumac_work *work;
  void *out;       /* the result; or, if add_words, the words of a state (see core/state.c), added to */
  uint32_t *range; /* becomes 1 where an integer result does not fit */
  uint64_t repeat; /* each element counts this often */
  struct sumac_finish finish; /* its `out` is filled in by the kernel: out_type, below */
  struct sumac_type_info out_type;
  uint8_t must_fit_i64, add_words, unused[6];
};

/* The same of elements that lie anywhere: element i of the reduction is at the sum of its indices times the
 * strides, in bytes; the last dimension runs fastest. */
struct sumac_launch_strided {
  struct sumac_launch base;
  int32_t ndim;
  int32_t aligned; /* every element lies at a multiple of its size */
  int64_t shape[SUMAC_MAX_DIMS], stride[2][SUMAC_MAX_DIMS];
};

/* The same of many tensors of contiguous elements: their tiles, whole or not, follow each other. The table
 * travels with the launch, 16 of the 32 KB that arguments may have, so nothing else needs to be copied. */
enum { SUMAC_TENSORS = 500 };
struct sumac_part {
  const char *x, *y;
  uint64_t n, tile; /* and the first of its tiles */
};
struct sumac_launch_many {
  struct sumac_launch base; /* n and tiles: of all */
  uint64_t count;
  struct sumac_part part[SUMAC_TENSORS];
};

#endif
