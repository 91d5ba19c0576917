/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that keep the rules of device.h, and one for each way to break them.
 */
#include "cuda/kernels/device.h"
#include "rules.h"

/* What a warp's lanes tell each other: 12 numbers a thread. */
static void warps(const rules &a) {
  u32 t = thread_index(), lane = t & 31;
  u64 *out = a.out + (block_index() * block_threads() + t) * 12;
  out[0] = warp_shuffle(t, lane + 1);
  out[1] = (u64)warp_shuffle((i64)t << 40, 3);
  out[2] = (u64)warp_shuffle(t + 0.5, 31 - lane);
  out[3] = (u64)warp_from_below((i64)t, 4);
  out[4] = (u64)warp_exchange((double)t, 16);
  out[5] = (u64)warp_exchange((float)t, 1);
  out[6] = (u64)warp_exchange(-(i64)t, 2);
  out[7] = warp_ballot(lane % 3 == 0);
  out[8] = warp_any(t == 40);
  out[9] = warp_add(t);
  out[10] = warp_max(t ^ 5);
  out[11] = warp_or(1u << (lane & 7));
}
KERNEL(rules_warps, 1024, 1, rules, warps)

/* The sum of the numbers 1 to the grid's threads, by warps, blocks and a last block: the ticket lies behind
 * it. */
static void sum(const rules &a) {
  u64 *partial = (u64 *)shared_memory();
  wait_for_earlier_kernels();
  u32 t = thread_index(), all = warp_add(block_index() * block_threads() + t + 1);
  if ((t & 31) == 0) partial[t >> 5] = all;
  block_barrier();
  if (t != 0) return;
  for (u32 w = 1; w < block_threads() / 32; w++) all += (u32)partial[w];
  add_global(a.out, all);
  publish();
  if (take_ticket(a.out + 1, 1) + 1 == grid_blocks()) store_shared_work(a.out + 1, 0);
  let_next_kernel_start();
}
KERNEL(rules_sum, 256, 2, rules, sum)

/* Reads what another thread writes, with and without the barrier between. */
static void neighbour(const rules &a, bool wait) {
  u32 *shared = (u32 *)shared_memory(), t = thread_index();
  shared[t] = t;
  if (wait) warp_barrier();
  a.out[t] = shared[t ^ 1];
}
static void with_barrier(const rules &a) { neighbour(a, true); }
static void without_barrier(const rules &a) { neighbour(a, false); }
KERNEL(rules_with_barrier, 1024, 1, rules, with_barrier)
KERNEL(rules_without_barrier, 1024, 1, rules, without_barrier)

static void two_calls(const rules &a) { a.out[0] = thread_index() == 5 ? warp_add(1) : warp_max(1); }
KERNEL(rules_two_calls, 1024, 1, rules, two_calls)

static void two_places(const rules &a) {
  if (thread_index() < 7)
    a.out[0] = warp_add(1);
  else
    a.out[0] = warp_add(2);
}
KERNEL(rules_two_places, 1024, 1, rules, two_places)

static void early_end(const rules &) {
  if (thread_index() != 37) block_barrier();
}
KERNEL(rules_early_end, 1024, 1, rules, early_end)

static void warp_without_barrier(const rules &) {
  if (thread_index() >= 32) block_barrier();
}
KERNEL(rules_warp_without_barrier, 1024, 1, rules, warp_without_barrier)

static void lane_at_barrier(const rules &) {
  if (thread_index() == 40)
    block_barrier();
  else
    warp_barrier();
}
KERNEL(rules_lane_at_barrier, 1024, 1, rules, lane_at_barrier)

static void out_of_bounds(const rules &a) {
  if (thread_index() == 9) a.out[a.n] = 1;
}
KERNEL(rules_out_of_bounds, 1024, 1, rules, out_of_bounds)

static void early_touch(const rules &a) {
  add_global(a.out, 1);
  wait_for_earlier_kernels();
}
KERNEL(rules_early_touch, 1024, 1, rules, early_touch)

static void misaligned(const rules &a) { a.out[0] = load16((const char *)a.out + 8).w[0]; }
KERNEL(rules_misaligned, 1024, 1, rules, misaligned)

static void shared_overflow(const rules &a) { shared_memory()[a.n] = 1; }
KERNEL(rules_shared_overflow, 1024, 1, rules, shared_overflow)

static void deep(const rules &a) { /* more stack than a thread has */
  volatile char much[80 * 1024];
  much[a.n] = 1;
  a.out[0] = (u64)much[a.n];
}
KERNEL(rules_deep, 1024, 1, rules, deep)
