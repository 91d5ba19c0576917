/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact reductions: the way of a tile from memory into a warp's windows, of the windows into the block's
 * words, of these into the launch's, and, in the block that is through last, of these into one rounded
 * result.
 */
#ifndef SUMAC_KERNEL_EXACT_H
#define SUMAC_KERNEL_EXACT_H

#include "finish.h"
#include "folded.h"
#include "integers.h"
#include "narrow.h"
#include "scaled.h"

template <bool FIRST, class A, class B> struct choice { typedef A type; };
template <class A, class B> struct choice<false, A, B> { typedef B type; };

/* Which scheme sums the terms of a map over a type. */
template <int TYPE, int MAP, int U> struct scheme {
  static constexpr bool product = words_of<TYPE, MAP>::product;
  static constexpr bool integer = !element<TYPE>::is_float, e4m3 = TYPE == SUMAC_T_E4M3FN;
  static constexpr bool narrow = e4m3 || (!product && (TYPE == SUMAC_T_F16 || TYPE == SUMAC_T_E5M2));
  static constexpr bool scaled = !product && (TYPE == SUMAC_T_F32 || TYPE == SUMAC_T_BF16);
  typedef typename choice<integer, integer_sum<TYPE, MAP, U>,
                          typename choice<narrow, narrow_sum<TYPE, MAP, U>,
                                          typename choice<scaled, scaled_sum<TYPE, MAP, U>,
                                                          folded_sum<TYPE, MAP, U>>::type>::type>::type type;
};

/* Where a warp's sum has its words, state and bins. */
template <int TYPE, int MAP> struct rare_of {
  typedef words_of<TYPE, MAP> W;
  static constexpr int state = 8 * W::padded, bins = state + SUMAC_STATE_BYTES;
  typedef rare<0, W::counts_at, state, bins> type;
  typedef rare<W::squares_at, -1, state + SUMAC_STATE_BYTES / 2,
               bins + 8 * W::columns * sumac_bins(W::type, SUMAC_M_SUM)>
      squares;
};

/* Sum and sum of squares of the same tiles. */
template <int TYPE, int U> struct scheme<TYPE, SUMAC_M_MOMENTS, U> {
  typedef typename scheme<TYPE, SUMAC_M_SUM, U>::type sum_type;
  typedef typename scheme<TYPE, SUMAC_M_SQUARE, U>::type square_type;
  typedef typename rare_of<TYPE, SUMAC_M_MOMENTS>::type rare_type;
  typedef typename rare_of<TYPE, SUMAC_M_MOMENTS>::squares squares_type;
  struct type {
    static constexpr int shared_bytes = sum_type::shared_bytes + square_type::shared_bytes;
    sum_type sum;
    square_type square;
    u32 seen, left; /* which of the two did not take the last tile */

    static MEMBER squares_type squares(const rare_type &r) { return squares_type{r.warp}; }
    MEMBER void start() {
      sum.start();
      square.start();
    }
    MEMBER bool is_closed() const { return sum.is_closed() && square.is_closed(); }
    MEMBER void begin(const rare_type &r, const tile<U, false> &t) {
      sum.begin(r, t);
      squares(r).start();
      warp_barrier();
      square.begin(squares(r), t);
    }
    MEMBER bool is_full() const { return sum.is_full() || square.is_full(); }
    MEMBER void flush(const rare_type &r) {
      sum.flush(r);
      square.flush(squares(r));
    }
    MEMBER bool try_tile(tile<U, false> &t) {
      bool first = sum.try_tile(t), second = square.try_tile(t);
      left = (first ? 0 : 1) | (second ? 0 : 2);
      return left == 0;
    }
    MEMBER void cold_tile(const rare_type &r, tile<U, false> &t) {
      tile<U, false> copy = t; /* outliers are taken out of a tile */
      if (left & 1) sum.cold_tile(r, copy);
      if (left & 2) square.cold_tile(squares(r), t);
    }
    MEMBER void end(const rare_type &r) {
      sum.end(r);
      square.end(squares(r));
      seen = sum.seen;
    }
  };
};

template <class R, class S, class TILE> DEVICE_COLD void add_cold(const R r, S *s, TILE *t) {
  s->cold_tile(r, *t);
}

/* Streams the block's tiles through a sum. The next tile is in flight while this one is added: 3 to 6 % from
 * 4 MB to 1 GB. So what has arrived is moved out of the way first, and at once, before anything waits for it
 * in the middle of its work. After a cold call, across which it would need registers, and with them the loop,
 * the next tile is loaded anew. */
template <class SOURCE, class TILE, class S, class R, class ARGS>
DEVICE void stream(const ARGS &a, S &sum, const R &r) {
  SOURCE source(a);
  TILE next;
  if (!source.load_first(a, next)) return;
  sum.begin(r, next);
  for (;;) {
    if (sum.is_full()) sum.flush(r);
    TILE t = next;
    arrived(t);
    source.next();
    bool more = !source.is_over(), closed = sum.is_closed();
    if (more && !closed) source.load(next);
    if (closed || !sum.try_tile(t)) {
      S copy = sum;
      TILE cold = t;
      add_cold(r, &copy, &cold);
      sum = copy;
      if (more) source.load(next);
    }
    if (!more) return;
  }
}

/* ---- finish */

DEVICE_COLD u64 finish_variance(const sumac_finish &f, const sumac_counts &c, const u64 *sum,
                                sumac_format sum_format, const u64 *square, sumac_format square_format,
                                bool *range) {
  int64_t n = f.skip_nan ? c.n - c.nan : c.n;
  sumac_real r =
      sumac_real_variance((const i64 *)sum, sum_format, (const i64 *)square, square_format, n, f.ddof);
  return sumac_finish_real(&f, &c, r, range);
}

DEVICE_COLD u64 finish_value(const sumac_finish &f, const sumac_counts &c, const sumac_real &r, bool *range) {
  return sumac_finish_real(&f, &c, r, range);
}

DEVICE bool exceeds_i64(const sumac_real &r) {
  int length = sumac_bit_length(r.bits) + r.exponent;
  bool power_of_2 = !(r.bits & (r.bits - 1)) && !r.guard && !r.sticky;
  return length > 64 || (length == 64 && !(r.negative && power_of_2));
}

/* The spare limbs of canonical words are the sign of the number: into its top limb. */
DEVICE void drop_spare(u64 *word, int limbs) {
  if (lane_index() == 0) word[limbs - 1] += word[limbs] << 32;
  warp_barrier();
}

/* One warp, from all words of the launch to the result, or into a state: whatever is asked. */
template <int TYPE, int MAP>
DEVICE_COLD void finish_all(const sumac_launch &a, u64 *word, u32 *scratch, bool seen) {
  typedef words_of<TYPE, MAP> W;
  constexpr int N = W::limbs, Q = W::square_limbs;
  u64 *square = word + W::squares_at, *count = word + W::counts_at;
  if (a.repeat != 1 || a.add_words || W::moments) {
    settle_words<N>(word);
    if (W::moments) settle_words<Q>(square);
    if (a.repeat != 1) {
      multiply_words(word, N, a.repeat);
      if (W::moments) multiply_words(square, Q, a.repeat);
      if (lane_index() < SUMAC_COUNT_SLOW) count[lane_index()] *= a.repeat;
    }
    drop_spare(word, W::number.limbs);
    if (W::moments) drop_spare(square, W::square.limbs);
    if (lane_index() < SUMAC_SPARE) {
      word[W::number.limbs + lane_index()] = 0;
      if (W::moments) square[W::square.limbs + lane_index()] = 0;
    }
    warp_barrier();
  }
  sumac_counts c;
  c.n = (i64)(a.n * a.repeat);
  c.nan = (i64)count[SUMAC_COUNT_NAN];
  c.pinf = (i64)count[SUMAC_COUNT_PLUS];
  c.ninf = (i64)count[SUMAC_COUNT_MINUS];
  c.not_negative_zero = W::never_negative_zero ? c.n > c.nan : seen;
  if (a.add_words) {
    u64 *to = (u64 *)a.out;
    constexpr int limbs = W::number.limbs, squares = W::moments ? W::square.limbs : 0;
    for (int i = (int)lane_index(); i < limbs + squares; i += 32)
      to[i] += i < limbs ? word[i] : square[i - limbs];
    if (lane_index() == 0) {
      to += limbs + squares;
      to[0] += (u64)c.n;
      to[1] += (u64)c.nan;
      to[2] += (u64)c.pinf;
      to[3] += (u64)c.ninf;
      to[4] += c.not_negative_zero != 0;
    }
    return;
  }
  sumac_finish f = a.finish;
  f.out = &a.out_type;
  bool range = false;
  u64 bits = 0;
  if (W::moments) {
    if (a.must_fit_i64)
      range =
          exceeds_i64(real_of_words<N>(word, 0, scratch)) | exceeds_i64(real_of_words<Q>(square, 0, scratch));
    int first, first_square;
    sumac_format own = occupied<N>(word, W::number.bias, scratch, first);
    sumac_format own_square = occupied<Q>(square, W::square.bias, scratch, first_square);
    if (lane_index() != 0) return;
    if (!sumac_finish_special(&f, &c, &bits, &range))
      bits = finish_variance(f, c, word + first, own, square + first_square, own_square, &range);
  } else {
    /* drop_spare() has left a signed top limb where it ran: the same number */
    sumac_real r = real_of_words<N>(word, W::number.bias, scratch);
    if (lane_index() != 0) return;
    range = a.must_fit_i64 && exceeds_i64(r);
    if (!sumac_finish_special(&f, &c, &bits, &range)) bits = finish_value(f, c, r, &range);
  }
  write_result(a, bits, range);
}

/* The same; a float that is simply the sum, as most are, by fewer steps. */
template <int TYPE, int MAP> DEVICE void finish(const sumac_launch &a, u64 *word, u32 *scratch, bool seen) {
  typedef words_of<TYPE, MAP> W;
  constexpr bool integer = !element<TYPE>::is_float;
  bool simple = !W::moments && a.finish.kind == SUMAC_F_VALUE && a.repeat == 1 && !a.add_words &&
                (a.out_type.cls == SUMAC_C_FLOAT ? !a.must_fit_i64 : integer && a.out_type.size == 8);
  bool special = lane_index() < SUMAC_COUNT_SLOW && word[W::counts_at + lane_index()];
  if (!simple || warp_any(special)) {
    finish_all<TYPE, MAP>(a, word, scratch, seen);
    return;
  }
  bool negative, sticky;
  int top = leading_digits<W::limbs>(word, scratch, 3, negative, sticky);
  const u32 *at = scratch + DIGITS_BELOW + top;
  u64 bits = 0;
  if (integer && a.out_type.cls != SUMAC_C_FLOAT) {
    u64 size = top < 0 ? 0 : top == 0 ? at[0] : (u64)at[0] << 32 | at[-1];
    u64 limit = a.out_type.cls == SUMAC_C_INT || a.must_fit_i64 ? (~(u64)0 >> 1) + negative : ~(u64)0;
    if (top > 1 || size > limit || (negative && a.out_type.cls != SUMAC_C_INT)) { /* does not fit */
      finish_all<TYPE, MAP>(a, word, scratch, seen);
      return;
    }
    bits = negative ? 0 - size : size;
  } else if (top < 0) {
    if (!W::never_negative_zero && !seen && a.n) bits = (u64)1 << (a.out_type.dtype.bits - 1);
  } else {
    u32 x = at[0], y = at[-1], z = at[-2];
    int zeros = leading_zeros(x);
    u64 sig = (u64)funnel_left(y, x, zeros) << 32 | funnel_left(z, y, zeros);
    sticky |= z << zeros != 0;
    bits = sumac_round_float(sig, sticky, 32 * top - W::number.bias + 31 - zeros, negative, &a.out_type,
                             a.finish.saturate);
  }
  if (lane_index() == 0) write_result(a, bits, false);
}

/* A block's shared memory: each warp's words and bins, a flag a warp, the launch's words, digits. */
template <int TYPE, int MAP> struct block_memory {
  static constexpr int warp_bytes = sumac_warp_bytes((enum sumac_type)TYPE, (enum sumac_map)MAP);
  u64 *word, *total;
  u32 *flag, *scratch;

  MEMBER block_memory() {
    char *all = shared_memory(), *mine = all + thread_index() / 32 * warp_bytes;
    u32 warps = block_threads() / 32;
    word = (u64 *)mine;
    total = (u64 *)(all + warps * warp_bytes);
    scratch = (u32 *)(total + words_of<TYPE, MAP>::padded);
    flag = scratch + words_of<TYPE, MAP>::padded + 8;
  }
  MEMBER u64 word_of(u32 warp, u32 i) const {
    return ((const u64 *)(shared_memory() + warp * warp_bytes))[i];
  }
};

/* Merges the warps' words, then the blocks': true in the one warp that finishes, with all words in m.total.
 */
template <int TYPE, int MAP>
DEVICE bool merge(const sumac_launch &a, const block_memory<TYPE, MAP> &m, bool &seen) {
  typedef words_of<TYPE, MAP> W;
  u32 warps = block_threads() / 32, warp = thread_index() / 32, lane = lane_index();
  u32 mine = warp_ballot(seen);
  if (lane == 0) m.flag[warp] = mine;
  block_barrier();
  constexpr bool one_warp = W::count <= 32;
  if (one_warp && warp) return false;
  bool alone = grid_blocks() == 1;
  for (u32 i = thread_index(); i < W::count; i += one_warp ? 32 : block_threads()) {
    u64 sum = 0;
    for (u32 w = 0; w < warps; w++) sum += m.word_of(w, i);
    if (alone)
      m.total[i] = sum;
    else if (sum)
      add_global(&a.work->word[i], sum);
  }
  if (!one_warp) block_barrier();
  if (warp) return false;
  seen = warp_any(lane < warps && m.flag[lane]);
  warp_barrier();
  if (!alone) {
    u64 old = 0, mark = 1 + ((u64)seen << 32);
    if (lane == 0) old = take_ticket(&a.work->ticket, mark);
    old = (u64)warp_shuffle((i64)old, 0);
    if ((u32)old != grid_blocks() - 1) return false;
    warp_barrier(); /* what lane 0 has seen of other blocks, all lanes see */
    seen = (old + mark) >> 32;
    for (u32 i = lane; i < W::count; i += 32) {
      m.total[i] = load_shared_work(&a.work->word[i]);
      store_shared_work(&a.work->word[i], 0);
    }
    if (lane == 0) a.work->ticket = 0;
    warp_barrier();
  }
  u64 slow = m.total[W::counts_at + SUMAC_COUNT_SLOW];
  if (lane == 0 && slow) add_global(&a.work->slow, slow); /* and nobody waits for an answer */
  return true;
}

DEVICE const sumac_launch &base_of(const sumac_launch &a) { return a; }
DEVICE const sumac_launch &base_of(const sumac_launch_strided &a) { return a.base; }
DEVICE const sumac_launch &base_of(const sumac_launch_many &a) { return a.base; }

/* Vectors a thread: elements of strided tensors come one by one, and there is nothing to be gained. */
template <class ARGS, int TYPE, int MAP> struct loads {
  static constexpr int value = sumac_loads((enum sumac_type)TYPE, (enum sumac_map)MAP);
};
template <int TYPE, int MAP> struct loads<sumac_launch_strided, TYPE, MAP> {
  static constexpr int value = 1;
};

template <template <int, int, bool> class SOURCE, int TYPE, int MAP, class ARGS>
DEVICE void exact_kernel(const ARGS &args) {
  typedef words_of<TYPE, MAP> W;
  constexpr int U = loads<ARGS, TYPE, MAP>::value;
  const sumac_launch &a = base_of(args);
  block_memory<TYPE, MAP> m;
#pragma unroll
  for (int i = 0; i < W::padded; i += 32) m.word[i + lane_index()] = 0;
  const typename rare_of<TYPE, MAP>::type r = {(char *)m.word};
  const typename rare_of<TYPE, MAP>::squares squares = {(char *)m.word};
  r.start();
  if (MAP == SUMAC_M_MOMENTS) squares.start();
  warp_barrier();
  typename scheme<TYPE, MAP, U>::type sum;
  static_assert(scheme<TYPE, MAP, U>::type::shared_bytes ==
                    block_memory<TYPE, MAP>::warp_bytes - rare_of<TYPE, MAP>::bins,
                "sumac_bins() tells what the schemes have");
  sum.start();
  wait_for_earlier_kernels();
  let_next_kernel_start();
  constexpr bool two = MAP == SUMAC_M_DOT;
  stream<SOURCE<TYPE, U, two>, tile<U, two>>(args, sum, r);
  sum.end(r);
  bool seen = sum.seen;
  if (merge<TYPE, MAP>(a, m, seen)) finish<TYPE, MAP>(a, m.total, m.scratch, seen);
}

#endif
