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

#include "finish.h"

enum {
  /* Elements of a warp's tile that are added one by one, since one warp's delay is the whole launch's: lone
   * outliers would cost up to a sixth at 64 MB otherwise. */
  MOST_SPILLED = 16,
  /* Data that keeps failing is not tried on the fast path for a while. */
  FAILURES_IN_A_ROW = 2,
  TILES_SKIPPED = 15,
  /* Elements that a warp adds one by one until its words are carried over: each is below 2^34 in any word, so
   * the words of all 2^14 warps that a launch may have still add up to less than 2^63. */
  MOST_ALONE = 1 << 14,
  NO_PLACE = -100000
};

/* What a warp's sum keeps beside its windows, in shared memory, where it costs no registers: neither does the
 * way there, offsets into the warp's memory known at compile time. (In local memory, 64 bytes a thread are 9
 * MB a launch: 2 us.) Bins are 64-bit integers in columns; bin k of all columns lies together: no bank
 * conflicts, whichever bins lanes are at. Two lanes that share a column are 16 apart: a 64-bit access of a
 * warp is two transactions of 16 lanes anyway, so taking turns costs no bandwidth. */
struct rare_state {
  int place;                 /* exponent of the (top) window's unit, or NO_PLACE */
  u32 skip, failures, count; /* tiles not to try; failures in a row; the sum's count after the last one */
  u32 waiting;               /* elements a lane has added to its column since the last flush */
  u32 binned;                /* bins are in use */
  u32 alone;                 /* elements added one by one since words were carried over */
};
static_assert(2 * sizeof(rare_state) <= SUMAC_STATE_BYTES, "a sum's and squares'");

template <int N> DEVICE_COLD void carry_words(u64 *limb) { settle_words<N>(limb); }

/* LIMB, COUNTS: of the warp's words, COUNTS -1 for squares, whose sums count. STATE, BINS: bytes. */
template <int LIMB, int COUNTS, int STATE, int BINS> struct rare {
  char *warp;

  MEMBER u64 *limb() const { return (u64 *)warp + LIMB; }
  MEMBER u64 *counts() const { return COUNTS < 0 ? nullptr : (u64 *)warp + COUNTS; }
  MEMBER rare_state &state() const { return *(rare_state *)(warp + STATE); }
  MEMBER i64 *column(int columns) const { return (i64 *)(warp + BINS) + (lane_index() & (u32)(columns - 1)); }
  MEMBER void start() const {
    if (lane_index() == 0) state() = rare_state{NO_PLACE, 0, 0, 0, 0, 0, 0};
  }
  /* All lanes hold the same. */
  MEMBER void set_place(int place) const {
    warp_barrier();
    if (lane_index() == 0) state().place = place;
    warp_barrier();
  }
  MEMBER void use_bins(int bins, int columns) const {
    if (state().binned) return;
    i64 *mine = column(columns);
    for (int k = (int)lane_index() / columns; k < bins; k += 32 / columns) mine[k * columns] = 0;
    warp_barrier();
    if (lane_index() == 0) state().binned = 1;
    warp_barrier();
  }
  /* After `elements` more a lane; true if the bins must be seen to, now, and after that nothing waits. */
  MEMBER bool wait(u32 elements, u32 most) const {
    u32 waiting = state().waiting + elements;
    bool full = waiting > most;
    warp_barrier();
    if (lane_index() == 0) state().waiting = full ? 0 : waiting;
    warp_barrier();
    return full;
  }
  /* The warp has added `elements` more to its words one by one. */
  template <int N> MEMBER void count_alone(u32 elements) const {
    u32 alone = state().alone + elements;
    bool full = alone > MOST_ALONE;
    warp_barrier();
    if (lane_index() == 0) state().alone = full ? 0 : alone;
    warp_barrier();
    if (full) carry_words<N>(limb());
  }
  /* Sum of bin k over all columns, which lanes begin at different places. */
  MEMBER i64 bin_total(int k, int columns) const {
    const i64 *row = (const i64 *)(warp + BINS) + k * columns;
    i64 total = 0;
#pragma unroll 1
    for (int i = 0; i < columns; i++) total += row[(i + (int)lane_index()) & (columns - 1)];
    return total;
  }
};

/* A sum S has a window; add(t), the try, which leaves no trace if refused; largest(t), an exponent of this
 * thread's elements, or 0; move(r, largest); close(), after which nothing is accepted, and open(r), back to
 * the place it had; fits(t, k), spill(r, t, k), and slow(r, t). */
template <class R, class S, class TILE> DEVICE_COLD void adapt(const R r, S *sum, TILE *tile) {
  S &s = *sum;
  TILE &t = *tile;
  rare_state state = r.state();
  if (state.skip == 0) {
    if (s.count != state.count) state.failures = 0;
    if (s.move(r, warp_max(s.largest(t))) && s.add(t)) return;
    u32 misses = 0;
#pragma unroll 1
    for (int k = 0; k < S::elements; k++) misses += !s.fits(t, k);
    u32 missed = warp_add(misses);
    if (missed <= MOST_SPILLED) {
#pragma unroll 1
      for (int k = 0; k < S::elements && misses; k++)
        if (!s.fits(t, k)) s.spill(r, t, k);
      r.template count_alone<S::words::limbs>(missed);
      s.add(t);
      return;
    }
    state.count = s.count;
    if (++state.failures > FAILURES_IN_A_ROW) {
      state.skip = TILES_SKIPPED;
      s.close();
    }
  } else if (--state.skip == 0) {
    s.open(r);
  }
  warp_barrier();
  if (lane_index() == 0) {
    r.state().skip = state.skip;
    r.state().failures = state.failures;
    r.state().count = state.count;
    if (r.counts()) add_shared(r.counts() + SUMAC_COUNT_SLOW, 1);
  }
  s.slow(r, t);
}

#endif
