/* SPDX-License-Identifier: Apache-2.0
 *
 * How a warp gets a tile into windows that it has chosen itself. Any choice gives the same sum; what a
 * window does not hold exactly, its certificate refuses:
 *
 *   1. try the windows in use;
 *   2. if refused, move them to the tile's largest element, and try again;
 *   3. if refused still, and only a few elements are to blame, add these one by one and the rest by 1;
 *   4. else take the slow path: bins by exponent, which hold anything.
 *
 * Only 1 is in the loop. The rest is out of line, and what only it needs (`rare`) lies in memory: cold code
 * and cold state in the loop would cost it registers, and every launch the time to fetch it.
 */
#ifndef SUMAC_KERNEL_ADAPTIVE_H
#define SUMAC_KERNEL_ADAPTIVE_H

#include "elements.h"

enum {
  /* Elements of a warp's tile that are added one by one, since one warp's delay is the whole launch's: lone
   * outliers would cost up to a sixth at 64 MB otherwise. */
  MOST_SPILLED = 16,
  /* Data that keeps failing is not tried on the fast path for a while. */
  FAILURES_IN_A_ROW = 2,
  TILES_SKIPPED = 15,
  NO_PLACE = -100000
};

/* What a sum keeps beside its windows. Bins are 64-bit integers in columns; bin k of all columns lies
 * together: no bank conflicts, whichever bins lanes are at. Two lanes that share a column are 16 apart: a
 * 64-bit access of a warp is two transactions of 16 lanes anyway, so taking turns costs no bandwidth. */
struct rare {
  u64 *limb, *counts;        /* counts: NULL for squares, whose sums count */
  i64 *column;               /* this lane's */
  u32 waiting;               /* elements a lane has added to its column since the last flush */
  u32 binned;                /* bins are in use */
  int place;                 /* exponent of the (top) window's unit, or NO_PLACE */
  u32 skip, failures, count; /* tiles not to try; failures in a row; the sum's count after the last one */

  MEMBER void start(u64 *limb_, u64 *counts_, char *bins, int columns) {
    limb = limb_;
    counts = counts_;
    column = (i64 *)bins + (lane_index() & (u32)(columns - 1));
    waiting = 0;
    binned = false;
    place = NO_PLACE;
    skip = failures = count = 0;
  }
  MEMBER void use_bins(int bins, int columns) {
    if (binned) return;
    binned = true;
    for (int k = (int)lane_index() / columns; k < bins; k += 32 / columns) column[k * columns] = 0;
    warp_barrier();
  }
  /* Sum of bin k over all columns, which lanes begin at different places. */
  MEMBER i64 bin_total(int k, int columns) const {
    const i64 *row = column - (lane_index() & (u32)(columns - 1)) + k * columns;
    i64 total = 0;
#pragma unroll 1
    for (int i = 0; i < columns; i++) total += row[(i + (int)lane_index()) & (columns - 1)];
    return total;
  }
};

/* A sum S has a window; add(t), the try, which leaves no trace if refused; flush(r); largest(t), an exponent
 * of this thread's elements, or 0; move(r, largest); close(), after which nothing is accepted, and open(r),
 * back to r.place; fits(t, k), spill(r, t, k), and slow(r, t). */
template <class S, class TILE> DEVICE_COLD void adapt(S *sum, rare *state, TILE *tile) {
  S &s = *sum;
  rare &r = *state;
  TILE &t = *tile;
  if (s.is_full()) {
    s.flush(r);
    if (s.add(t)) return;
  }
  if (r.skip == 0) {
    if (s.count != r.count) r.failures = 0;
    if (s.move(r, warp_max(s.largest(t))) && s.add(t)) return;
    u32 misses = 0;
#pragma unroll 1
    for (int k = 0; k < S::elements; k++) misses += !s.fits(t, k);
    if (warp_add(misses) <= MOST_SPILLED) {
#pragma unroll 1
      for (int k = 0; k < S::elements && misses; k++)
        if (!s.fits(t, k)) s.spill(r, t, k);
      warp_barrier();
      s.add(t);
      return;
    }
    r.count = s.count;
    if (++r.failures > FAILURES_IN_A_ROW) {
      r.skip = TILES_SKIPPED;
      s.close();
    }
  } else if (--r.skip == 0) {
    s.open(r);
  }
  if (lane_index() == 0 && r.counts) add_shared(r.counts + SUMAC_COUNT_SLOW, 1);
  s.slow(r, t);
}

#endif
