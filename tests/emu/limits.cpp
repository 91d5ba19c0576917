/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that begins where others come to after days: its warp's words add up to zero, but each of them is
 * close to what it can hold.
 */
#include "cuda/kernels/exact.h"

template <int TYPE, int MAP> static void near_the_limit(const sumac_launch &a) {
  typedef words_of<TYPE, MAP> W;
  constexpr u64 much = ((u64)1 << 63) - ((u64)1 << 48);
  block_memory<TYPE, MAP> m;
  for (u32 i = lane_index(); i < W::padded; i += 32)
    m.word[i] = i >= W::limbs / 2 * 2 ? 0 : i % 2 == 0 ? much : 0 - (much >> 32);
  const typename rare_of<TYPE, MAP>::type r = {(char *)m.word};
  r.start();
  warp_barrier();
  typename scheme<TYPE, MAP, 2>::type sum;
  sum.start();
  wait_for_earlier_kernels();
  stream<dense_source<TYPE, 2, MAP == SUMAC_M_DOT>, tile<2, MAP == SUMAC_M_DOT>>(a, sum, r);
  sum.end(r);
  bool seen = sum.seen;
  if (merge<TYPE, MAP>(a, m, seen)) finish<TYPE, MAP>(a, m.total, m.scratch, seen);
}

KERNEL(sumac_exact_dot_F64, 32, 1, sumac_launch, near_the_limit<SUMAC_T_F64, SUMAC_M_DOT>)
