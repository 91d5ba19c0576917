/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain sums of floats: partial sums in binary64 or binary32 (ACC), added up in a tree that the launch's
 * shape decides: a thread's elements of a tile, its tiles, 64 at a time, lanes of a warp, warps, blocks. No
 * number is the sum of many hundreds one after the other, and no float is added atomically.
 */
#ifndef SUMAC_KERNEL_PLAIN_H
#define SUMAC_KERNEL_PLAIN_H

#include "exact.h"

/* The sum of some elements' terms. MOMENTS: their mean, and the sum of squares about it. */
template <class ACC> struct part {
  ACC sum, squares;
  u64 count; /* MOMENTS: elements; otherwise those that were left out */
};

/* -0, so that -0 alone gives -0. */
template <class ACC> DEVICE part<ACC> nothing() { return part<ACC>{(ACC)-0.0, (ACC)0, 0}; }

template <int MAP, class ACC> DEVICE void join(part<ACC> &a, const part<ACC> &b) {
  if (MAP != SUMAC_M_MOMENTS) {
    a.sum += b.sum;
    a.count += b.count;
  } else if (!a.count) {
    a = b;
  } else if (b.count) { /* Chan, Golub, LeVeque 1979 */
    u64 n = a.count + b.count;
    ACC delta = b.sum - a.sum, share = (ACC)(i64)b.count / (ACC)(i64)n;
    a.squares += b.squares + delta * delta * share * (ACC)(i64)a.count;
    a.sum += delta * share;
    a.count = n;
  }
}

/* ---- elements as numbers */

/* Those of a 32-bit word, all of which binary32 has. */
template <int TYPE> DEVICE void floats_of(u32 w, float (&f)[4 / element<TYPE>::size]) {
  if constexpr (TYPE == SUMAC_T_F32) {
    f[0] = float_of(w);
  } else if constexpr (TYPE == SUMAC_T_BF16) {
    f[0] = float_of(w << 16);
    f[1] = float_of(w & 0xffff0000u);
  } else {
    constexpr int pairs = 2 / element<TYPE>::size;
#pragma unroll
    for (int i = 0; i < pairs; i++) {
      u32 halves = TYPE == SUMAC_T_F16      ? w
                   : TYPE == SUMAC_T_E4M3FN ? halves_of_e4m3(i ? w >> 16 : w)
                   : i                      ? pick_bytes<0x3424>(w, 0)
                                            : pick_bytes<0x1404>(w, 0); /* e5m2 is the upper half of an f16 */
      float_pair p = floats_of_halves(halves);
      f[2 * i] = p.low;
      f[2 * i + 1] = p.high;
    }
  }
}

template <int TYPE, class ACC> DEVICE void values_of(const vec16 &v, ACC (&x)[element<TYPE>::per_vector]) {
  if constexpr (TYPE == SUMAC_T_F64) {
#pragma unroll
    for (int e = 0; e < 2; e++) x[e] = double_of(v.w[2 * e + 1], v.w[2 * e]);
  } else {
    constexpr int per_word = 4 / element<TYPE>::size;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float f[per_word];
      floats_of<TYPE>(v.w[i], f);
#pragma unroll
      for (int e = 0; e < per_word; e++) x[per_word * i + e] = f[e];
    }
  }
}

/* One element, whose bits are in the low end. */
template <int TYPE, class ACC> DEVICE ACC value_of(u64 bits) {
  if constexpr (TYPE == SUMAC_T_F64) {
    return double_of(bits);
  } else {
    float f[4 / element<TYPE>::size];
    floats_of<TYPE>((u32)bits, f);
    return f[0];
  }
}

/* ---- a thread's elements of a tile */

template <class P, class ACC>
DEVICE_COLD void add_one_by_one(part<ACC> *to, const typename P::type *t, u64 there, bool skip_nan);

template <int TYPE, int MAP, class ACC, int U> struct plain_tile {
  typedef element<TYPE> e;
  typedef tile<U, MAP == SUMAC_M_DOT> type;
  static constexpr bool moments = MAP == SUMAC_M_MOMENTS;
  static constexpr int elements = U * e::per_vector;
  static constexpr u64 all = ~(u64)0 >> (64 - elements);
  /* sums side by side; more would be registers for nothing */
  static constexpr int most = sizeof(ACC) == 8 ? 4 : 8, lanes = e::per_vector < most ? e::per_vector : most;

  /* The sum of one map's terms; of MOMENTS, that of the squares about a centre. */
  template <int TERM> static MEMBER ACC sum(const type &t, ACC centre) {
    constexpr bool product = TERM == SUMAC_M_SQUARE || TERM == SUMAC_M_DOT || TERM == SUMAC_M_MOMENTS;
    ACC lane[lanes];
#pragma unroll
    for (int j = 0; j < U; j++) {
      ACC x[e::per_vector], y[e::per_vector];
      values_of<TYPE>(t.x[j], x);
      values_of<TYPE>(factor(t)[j], y);
#pragma unroll
      for (int k = 0; k < e::per_vector; k++) {
        ACC a = x[k], b = y[k], &l = lane[k % lanes];
        bool first = j == 0 && k < lanes;
        if (TERM == SUMAC_M_MOMENTS) a = b = a - centre;
        if (product)
          l = first ? a * b : fused(a, b, l);
        else
          l = first ? a : l + a;
      }
    }
#pragma unroll
    for (int k = lanes / 2; k; k /= 2)
#pragma unroll
      for (int l = 0; l < k; l++) lane[l] += lane[l + k];
    return lane[0];
  }

  static MEMBER part<ACC> part_of(const type &t, u64 there, bool skip_nan) {
    part<ACC> p = nothing<ACC>();
    p.sum = sum < moments ? SUMAC_M_SUM : MAP > (t, 0);
    if ((skip_nan && p.sum != p.sum) || (moments && there != all)) {
      type cold = t;
      part<ACC> slow; /* p itself would be in memory for every tile */
      add_one_by_one<plain_tile>(&slow, &cold, there, skip_nan);
      return slow;
    }
    if (moments) {
      p.count = elements;
      p.sum *= (ACC)(1.0 / elements); /* a power of 2 */
      p.squares = sum<MAP>(t, p.sum);
    }
    return p;
  }

  /* Of element k, in MOMENTS less a centre. */
  static MEMBER ACC term(const type &t, int k, ACC centre) {
    ACC x = value_of<TYPE, ACC>(bits_at<TYPE>(t.x, k)), y = value_of<TYPE, ACC>(bits_at<TYPE>(factor(t), k));
    return MAP == SUMAC_M_SQUARE || MAP == SUMAC_M_DOT ? x * y : x - centre;
  }
  static MEMBER bool is_nan(const type &t, int k) {
    return (bits_at<TYPE>(t.x, k) & e::magnitude) > e::inf ||
           (bits_at<TYPE>(factor(t), k) & e::magnitude) > e::inf;
  }
};

/* Tiles of which not everything counts: NaN are skipped, or some of the elements do not exist. */
template <class P, class ACC>
DEVICE_COLD void add_one_by_one(part<ACC> *to, const typename P::type *t, u64 there, bool skip_nan) {
  part<ACC> p = nothing<ACC>();
#pragma unroll 1
  for (int k = 0; k < P::elements; k++) {
    if (skip_nan && P::is_nan(*t, k)) there &= ~((u64)1 << k);
    if (!(there >> k & 1)) continue;
    p.sum += P::term(*t, k, 0);
    p.count++;
  }
  if (P::moments && p.count) {
    p.sum /= (ACC)(i64)p.count;
#pragma unroll 1
    for (int k = 0; k < P::elements; k++) {
      if (!(there >> k & 1)) continue;
      ACC v = P::term(*t, k, p.sum);
      p.squares = fused(v, v, p.squares);
    }
  }
  if (!P::moments) p.count = P::elements - p.count;
  *to = p;
}

/* Which of a thread's elements of a tile exist. Only moments must know: elsewhere neutral ones do no harm. */
template <int TYPE, int U>
DEVICE u64 existing(const sumac_launch &a, const dense_source<TYPE, U, false> &source, bool first) {
  constexpr int per = element<TYPE>::per_vector, elements = U * per;
  bool edge = block_index() == a.edge_block;
  u32 head = source.head(a);
  if (!first || (!edge && (block_index() || !head))) return ~(u64)0 >> (64 - elements);
  u64 there = 0, vector = (edge ? a.tiles : 0) * source.vectors() + thread_index();
#pragma unroll 1
  for (int k = 0; k < elements; k++) {
    u64 at = 16 * (vector + (u64)block_threads() * (k / per)) + k % per * element<TYPE>::size;
    if (at >= head && at < source.end(a)) there |= (u64)1 << k;
  }
  return there;
}
template <int TYPE, int U>
DEVICE u64 existing(const sumac_launch_strided &a, const strided_source<TYPE, U, false> &source, bool) {
  u64 there = 0;
#pragma unroll
  for (int k = 0; k < U * element<TYPE>::per_vector; k++)
    if (source.at + (u64)block_threads() * k + thread_index() < a.base.n) there |= (u64)1 << k;
  return there;
}

/* ---- many tiles */

enum { TILES_TOGETHER = 64 };

template <int MAP, class ACC> DEVICE_COLD void put_away(part<ACC> *oldest, const part<ACC> some) {
  join<MAP>(*oldest, some);
}

/* Streams the block's tiles; the next one is in flight while this one is added. Up to 64 tiles are added up,
 * then up to 64 such sums, and these: in registers, but for the last, since what a thread keeps in memory
 * goes through the cache for all threads at once, which costs 20 us. */
template <int TYPE, int MAP, class ACC, int U, class SOURCE, class ARGS>
DEVICE part<ACC> sum_of_thread(const ARGS &args, bool skip_nan) {
  typedef plain_tile<TYPE, MAP, ACC, U> P;
  part<ACC> p = nothing<ACC>(), some = p;
  SOURCE source(args);
  typename P::type next;
  if (!source.load_first(args, next)) return p;
  part<ACC> most = p, *const oldest = &most;
  u32 tiles = 0;
  for (;;) {
    typename P::type t = next;
    arrived(t);
    u64 there = P::all;
    if constexpr (P::moments) there = existing(args, source, tiles == 0);
    source.next();
    bool more = !source.is_over();
    if (more) source.load(next);
    if (MAP == SUMAC_M_ABS) clear_signs<TYPE>(t);
    join<MAP>(p, P::part_of(t, there, skip_nan));
    if (!more) break;
    if (++tiles % TILES_TOGETHER) continue;
    join<MAP>(some, p);
    p = nothing<ACC>();
    if (tiles % (TILES_TOGETHER * TILES_TOGETHER)) continue;
    put_away<MAP>(oldest, some);
    some = nothing<ACC>();
  }
  join<MAP>(some, p);
  if (tiles >= TILES_TOGETHER * TILES_TOGETHER) {
    put_away<MAP>(oldest, some);
    return *oldest;
  }
  return some;
}

/* ---- many threads: what counts is in lane 0 */

template <int MAP, class ACC> DEVICE void add_lane(part<ACC> &p, u32 mask, bool counted) {
  part<ACC> other = p;
  other.sum = warp_exchange(p.sum, mask);
  if (MAP == SUMAC_M_MOMENTS) other.squares = warp_exchange(p.squares, mask);
  if (MAP == SUMAC_M_MOMENTS || counted) other.count = (u64)warp_exchange((i64)p.count, mask);
  join<MAP>(p, other);
}
template <class ACC> DEVICE_COLD void add_lanes_of_moments(part<ACC> *p) {
#pragma unroll 1
  for (u32 mask = 16; mask; mask >>= 1) add_lane<SUMAC_M_MOMENTS>(*p, mask, true);
}
template <int MAP, class ACC> DEVICE void add_lanes(part<ACC> &p, bool counted) {
  if (MAP == SUMAC_M_MOMENTS) {
    part<ACC> copy = p;
    add_lanes_of_moments(&copy);
    p = copy;
  } else {
#pragma unroll
    for (u32 mask = 16; mask; mask >>= 1) add_lane<MAP>(p, mask, counted);
  }
}

/* The block's sum; true in its first warp. */
template <int MAP, class ACC> DEVICE bool add_warps(part<ACC> &p, bool counted) {
  u32 warps = block_threads() / 32, warp = thread_index() / 32;
  add_lanes<MAP>(p, counted);
  if (warps == 1) return true;
  part<ACC> *of_warp = (part<ACC> *)shared_memory();
  if (lane_index() == 0) of_warp[warp] = p;
  block_barrier();
  if (warp) return false;
  p = nothing<ACC>();
  if (lane_index() < warps) p = of_warp[lane_index()];
  add_lanes<MAP>(p, counted);
  return true;
}

/* The launch's sum; true in the warp that is through last. */
template <int MAP, class ACC> DEVICE bool add_blocks(sumac_work *work, part<ACC> &p, bool counted) {
  constexpr bool moments = MAP == SUMAC_M_MOMENTS;
  u64 old = 0;
  if (lane_index() == 0) {
    u64 *mine = (u64 *)work->partial[block_index()];
    store_shared_work(mine, bits_of((double)p.sum));
    if (moments) store_shared_work(mine + 1, bits_of((double)p.squares));
    if (moments || counted) store_shared_work(mine + 2, p.count);
    old = take_ticket(&work->ticket, 1);
  }
  if ((u32)warp_shuffle((i64)old, 0) != grid_blocks() - 1) return false;
  warp_barrier();
  p = nothing<ACC>();
  for (u32 b = lane_index(); b < grid_blocks(); b += 32) {
    const u64 *its = (const u64 *)work->partial[b];
    part<ACC> q = nothing<ACC>();
    q.sum = (ACC)double_of(load_shared_work(its));
    if (moments) q.squares = (ACC)double_of(load_shared_work(its + 1));
    if (moments || counted) q.count = load_shared_work(its + 2);
    join<MAP>(p, q);
  }
  add_lanes<MAP>(p, counted);
  if (lane_index() == 0) work->ticket = 0;
  return true;
}

/* ---- finish */

DEVICE_COLD double plain_value(const sumac_launch &a, double sum, double squares, i64 n) {
  return sumac_plain_value(&a.finish, sum, squares, n);
}
DEVICE_COLD u64 plain_bits(const sumac_launch &a, double value, bool *range) {
  sumac_finish f = a.finish;
  f.out = &a.out_type;
  return sumac_plain_bits(&f, value, range);
}

template <int MAP, class ACC> DEVICE void finish_plain(const sumac_launch &a, part<ACC> p) {
  u64 n = MAP == SUMAC_M_MOMENTS ? p.count : a.n - p.count;
  if (a.repeat != 1) {
    ACC factor = (ACC)(i64)a.repeat;
    n *= a.repeat;
    if (MAP != SUMAC_M_MOMENTS) p.sum *= factor;
    p.squares *= factor;
  }
  double v = p.sum;
  if (a.finish.kind != SUMAC_F_VALUE || !n) v = plain_value(a, p.sum, p.squares, (i64)n);
  bool range = false;
  u64 bits = 0;
  if (v == v && !a.finish.saturate && a.out_type.dtype.code == 2 && a.out_type.size >= 4)
    bits = a.out_type.size == 8 ? bits_of(v) : bits_of((float)v);
  else
    bits = plain_bits(a, v, &range);
  write_result(a, bits, range);
}

template <class ARGS, int MAP, class ACC> struct plain_loads {
  static constexpr int value = sumac_plain_loads((enum sumac_map)MAP, sizeof(ACC) == 8);
};
template <int MAP, class ACC> struct plain_loads<sumac_launch_strided, MAP, ACC> {
  static constexpr int value = 1;
};

template <template <int, int, bool> class SOURCE, int TYPE, int MAP, class ACC, class ARGS>
DEVICE void plain_kernel(const ARGS &args) {
  constexpr int U = plain_loads<ARGS, MAP, ACC>::value;
  typedef SOURCE<TYPE, U, MAP == SUMAC_M_DOT> source;
  const sumac_launch &a = base_of(args);
  bool counted = a.finish.skip_nan;
  wait_for_earlier_kernels();
  let_next_kernel_start();
  part<ACC> p = sum_of_thread<TYPE, MAP, ACC, U, source>(args, counted);
  if (!add_warps<MAP>(p, counted)) return;
  if (grid_blocks() > 1 && !add_blocks<MAP>(a.work, p, counted)) return;
  if (lane_index() == 0) finish_plain<MAP>(a, p);
}

#endif
