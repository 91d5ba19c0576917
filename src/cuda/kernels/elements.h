/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements as bits in 16-byte vectors: what is in them, what is neutral, and how they come out of memory.
 */
#ifndef SUMAC_KERNEL_ELEMENTS_H
#define SUMAC_KERNEL_ELEMENTS_H

#include "words.h"

template <int TYPE> struct element {
  static constexpr int size = sumac_types[TYPE].size, bits = 8 * size, per_vector = 16 / size;
  static constexpr int mantissa = sumac_types[TYPE].mantissa, exponent = sumac_types[TYPE].exponent;
  static constexpr bool is_float = sumac_types[TYPE].cls == SUMAC_C_FLOAT;
  static constexpr bool is_signed = sumac_types[TYPE].cls == SUMAC_C_INT;
  static constexpr bool has_inf = TYPE != SUMAC_T_E4M3FN;
  static constexpr u64 sign = (u64)1 << (bits - 1), magnitude = sign - 1;
  /* magnitudes above are NaN, and equal to it an infinity where the type has one */
  static constexpr u64 inf = has_inf ? (((u64)1 << exponent) - 1) << mantissa : magnitude - 1;
  /* per 32-bit word, of a float: its signs. -0 is the neutral element of a sum */
  static constexpr u32 signs = size == 1 ? 0x80808080u : size == 2 ? 0x80008000u : 0x80000000u;
};

/* Element k of a thread's vectors, in the low bits. */
template <int TYPE, int U> DEVICE u64 bits_at(const vec16 (&v)[U], int k) {
  constexpr int size = element<TYPE>::size, per = element<TYPE>::per_vector;
  const u32 *w = v[k / per].w;
  int at = k % per;
  if (size == 8) return (u64)w[2 * at + 1] << 32 | w[2 * at];
  if (size == 4) return w[at];
  if (size == 2) return w[at / 2] >> (16 * (at % 2)) & 0xffff;
  return w[at / 4] >> (8 * (at % 4)) & 0xff;
}

/* Puts bits in the place of element k. */
template <int TYPE, int U> DEVICE void put_bits(vec16 (&v)[U], int k, u64 bits) {
  constexpr int size = element<TYPE>::size, per = element<TYPE>::per_vector;
  u32 *w = v[k / per].w;
  int at = k % per;
  if (size == 8) {
    w[2 * at] = (u32)bits;
    w[2 * at + 1] = (u32)(bits >> 32);
  } else if (size == 4) {
    w[at] = (u32)bits;
  } else {
    constexpr int per_word = size < 4 ? 4 / size : 1;
    int shift = 8 * size * (at % per_word);
    u32 field = size == 2 ? 0xffffu : 0xffu, *word = w + at / per_word;
    *word = (*word & ~(field << shift)) | (u32)bits << shift;
  }
}

/* U vectors of x, and of y where a map takes two: what a thread holds of a tile. */
template <int U, bool TWO> struct tile { vec16 x[U], y[U]; };
template <int U> struct tile<U, false> { vec16 x[U]; };

/* Here, and no later, is waited for the tile. */
template <int U, bool TWO> DEVICE void arrived(tile<U, TWO> &t) {
#pragma unroll
  for (int j = 0; j < U; j++) {
    hold(t.x[j]);
    if constexpr (TWO) hold(t.y[j]);
  }
}

/* The second factor of a product: x itself in a square. */
template <int U> DEVICE const vec16 (&factor(const tile<U, false> &t))[U] { return t.x; }
template <int U> DEVICE const vec16 (&factor(const tile<U, true> &t))[U] { return t.y; }

template <int TYPE, int U, bool TWO> DEVICE void clear_signs(tile<U, TWO> &t) {
  constexpr bool wide = element<TYPE>::size == 8;
#pragma unroll
  for (int j = 0; j < U; j++)
#pragma unroll
    for (int i = wide; i < 4; i += 1 + wide) t.x[j].w[i] &= ~element<TYPE>::signs;
}

/* What fills a vector up behind the last element: -0 (times +0) for floats, 0 for integers. */
template <int TYPE> DEVICE vec16 neutral() {
  vec16 v;
  for (int i = 0; i < 4; i++)
    v.w[i] = !element<TYPE>::is_float || (element<TYPE>::size == 8 && i % 2 == 0) ? 0 : element<TYPE>::signs;
  return v;
}

/* Is the product x y (or the element x) NaN or infinite? Counts it if so. */
template <int TYPE, int MAP> DEVICE bool is_special(u64 x, u64 y, u64 *counts) {
  typedef element<TYPE> e;
  if (!e::is_float) return false;
  constexpr bool product = words_of<TYPE, MAP>::product;
  u64 mx = x & e::magnitude, my = product ? y & e::magnitude : 0;
  bool nan = mx > e::inf || my > e::inf;
  bool inf_x = e::has_inf && mx == e::inf, inf_y = e::has_inf && product && my == e::inf;
  if (!nan && !inf_x && !inf_y) return false;
  bool zero = product && (mx == 0 || my == 0);
  bool negative = MAP == SUMAC_M_ABS ? false : ((product ? x ^ y : x) & e::sign) != 0;
  count_special(counts, nan, !nan && (!negative || zero), !nan && (negative || zero));
  return true;
}

/* ---- from memory */

/* The bytes [from, to) of sixteen, others as in `fill`: nothing else is read. */
DEVICE_COLD vec16 load_part(const char *p, int from, int to, vec16 fill) {
#pragma unroll 1
  for (int i = from; i < to; i++) {
    int shift = 8 * (i & 3);
    u32 byte = (u32)(u8)p[i] << shift, keep = ~(0xffu << shift);
    /* an index known only here would put the vector into memory */
    for (int w = 0; w < 4; w++)
      if (w == i >> 2) fill.w[w] = (fill.w[w] & keep) | byte;
  }
  return fill;
}

/* Vectors at the ends of x (and y), of which only some bytes are elements: put in their place. */
template <int TYPE, int U, bool TWO>
DEVICE_COLD void load_partial(const char *x, const char *y, u64 n, u64 first, tile<U, TWO> *t) {
  u32 head = (u32)(u64)x & 15;
  u64 end = head + n * element<TYPE>::size;
#pragma unroll 1
  for (int j = 0; j < U; j++) {
    u64 i = first + block_threads() * j;
    int from = i == 0 ? (int)head : 0, to = 16 * (i + 1) <= end ? 16 : 16 * i < end ? (int)(end - 16 * i) : 0;
    if (from == 0 && (to == 0 || to == 16)) continue;
    t->x[j] = load_part(x - head + 16 * i, from, to, neutral<TYPE>());
    if constexpr (TWO) t->y[j] = load_part(y - head + 16 * i, from, to, vec16{{0, 0, 0, 0}});
  }
}

/* A tile that holds an end of n contiguous elements, from this thread's vector `first` on. */
template <int TYPE, int U, bool TWO>
DEVICE void load_end(const char *x, const char *y, u64 n, u64 first, tile<U, TWO> &t) {
  u32 head = (u32)(u64)x & 15;
  u64 end = head + n * element<TYPE>::size, whole = end / 16;
#pragma unroll
  for (int j = 0; j < U; j++) {
    u64 i = first + block_threads() * j;
    bool is_whole = i < whole && (i || !head);
    t.x[j] = neutral<TYPE>();
    if constexpr (TWO) t.y[j] = vec16{{0, 0, 0, 0}};
    if (is_whole) {
      t.x[j] = load16(x - head + 16 * i);
      if constexpr (TWO) t.y[j] = load16(y - head + 16 * i);
    }
  }
  if (head || end % 16) {
    tile<U, TWO> partial = t;
    load_partial<TYPE>(x, y, n, first, &partial);
    t = partial;
  }
}

/* Contiguous elements, aligned to their size; y lies as x does in its 16 bytes. A block takes every grid-th
 * tile of U vectors a thread; one block begins with what is left behind the last whole tile. */
template <int TYPE, int U, bool TWO> struct dense_source {
  const char *x, *y; /* this thread's first vector of the tile */
  i64 left;          /* whole tiles from this one on */

  static MEMBER u32 head(const sumac_launch &a) { return (u32)(u64)a.x & 15; } /* of vector 0, before x */
  static MEMBER u64 end(const sumac_launch &a) { return head(a) + a.n * element<TYPE>::size; }
  static MEMBER u32 vectors() { return block_threads() * U; } /* of a tile */

  MEMBER dense_source(const sumac_launch &a) {
    go(a, block_index() == a.edge_block ? a.tiles : block_index());
  }
  MEMBER void go(const sumac_launch &a, u64 to) {
    u64 offset = 16 * (to * vectors() + thread_index()) - head(a);
    x = a.x + offset;
    y = TWO ? a.y + offset : nullptr;
    left = (i64)(a.tiles - to);
  }
  MEMBER bool is_over() const { return left <= 0; }
  MEMBER void next() {
    u64 step = (u64)grid_blocks() * vectors() * 16;
    x += step;
    if (TWO) y += step;
    left -= grid_blocks();
  }
  MEMBER void load(tile<U, TWO> &t) const {
    const size_t step = 16 * block_threads();
#pragma unroll
    for (int j = 0; j < U; j++) {
      t.x[j] = load16(x + step * j);
      if constexpr (TWO) t.y[j] = load16(y + step * j);
    }
  }
  /* The block's first tile, which alone may hold less than whole vectors of elements; false if it has none.
   */
  MEMBER bool load_first(const sumac_launch &a, tile<U, TWO> &t) {
    bool edge = block_index() == a.edge_block;
    if (!edge && (block_index() || !head(a))) {
      if (is_over()) return false;
      load(t);
      return true;
    }
    load_end<TYPE>(a.x, a.y, a.n, (edge ? a.tiles : 0) * vectors() + thread_index(), t);
    if (edge) go(a, (u64)block_index() - grid_blocks());
    return true;
  }
};

/* Many tensors of such elements. */
template <int TYPE, int U, bool TWO> struct many_source {
  const sumac_launch_many &a;
  u64 at;    /* tile */
  u32 which; /* tensor */

  MEMBER many_source(const sumac_launch_many &launch) : a(launch), at(block_index()), which(0) { find(); }
  /* The last tensor that begins at this tile or before. */
  MEMBER void find() {
    u32 end = (u32)a.count;
#pragma unroll 1
    while (which + 1 < end) {
      u32 middle = (which + end) / 2;
      if (a.part[middle].tile <= at)
        which = middle;
      else
        end = middle;
    }
  }
  MEMBER bool is_over() const { return at >= a.base.tiles; }
  MEMBER void next() {
    at += grid_blocks();
    find();
  }
  MEMBER bool load_first(const sumac_launch_many &, tile<U, TWO> &t) const {
    if (is_over()) return false;
    load(t);
    return true;
  }
  MEMBER void load(tile<U, TWO> &t) const {
    const sumac_part &p = a.part[which];
    u64 tile_vectors = (u64)block_threads() * U, begin = (at - p.tile) * tile_vectors;
    u32 head = (u32)(u64)p.x & 15;
    if ((begin || !head) && 16 * (begin + tile_vectors) <= head + p.n * element<TYPE>::size) {
#pragma unroll
      for (int j = 0; j < U; j++) {
        u64 offset = 16 * (begin + thread_index() + block_threads() * j) - head;
        t.x[j] = load16(p.x + offset);
        if constexpr (TWO) t.y[j] = load16(p.y + offset);
      }
    } else {
      load_end<TYPE>(p.x, p.y, p.n, begin + thread_index(), t);
    }
  }
};

/* One element's bits, at any address unless all are known to be aligned. */
template <int TYPE> DEVICE u64 load_bits(const char *p, bool aligned) {
  constexpr int size = element<TYPE>::size;
  u64 bits = 0;
  if (!aligned && size > 1) {
#pragma unroll
    for (int i = 0; i < size; i++) bits |= (u64)(u8)p[i] << (8 * i);
    return bits;
  }
  if (size == 8) return *(const u64 *)p;
  if (size == 4) return *(const u32 *)p;
  if (size == 2) return *(const u16 *)p;
  return *(const u8 *)p;
}

/* Elements anywhere. */
template <int TYPE, int U, bool TWO> struct strided_source {
  const sumac_launch_strided &a;
  u64 at; /* first element of the tile */

  MEMBER strided_source(const sumac_launch_strided &launch) : a(launch) {
    at = (u64)block_index() * block_threads() * U * element<TYPE>::per_vector;
  }
  MEMBER bool is_over() const { return at >= a.base.n; }
  MEMBER void next() { at += (u64)grid_blocks() * block_threads() * U * element<TYPE>::per_vector; }
  MEMBER bool load_first(const sumac_launch_strided &, tile<U, TWO> &t) const {
    if (is_over()) return false;
    load(t);
    return true;
  }
  MEMBER void load(tile<U, TWO> &t) const {
    const u32 step = block_threads();
#pragma unroll
    for (int j = 0; j < U; j++) {
      t.x[j] = neutral<TYPE>();
      if constexpr (TWO) t.y[j] = vec16{{0, 0, 0, 0}};
#pragma unroll
      for (int k = 0; k < element<TYPE>::per_vector; k++) {
        /* neighbouring threads take neighbouring elements */
        u64 i = at + (u64)step * (j * element<TYPE>::per_vector + k) + thread_index();
        if (i >= a.base.n) continue;
        i64 ox = 0, oy = 0;
        u64 rest = i;
#pragma unroll 1
        for (int d = a.ndim - 1; d >= 0; d--) {
          u64 length = (u64)a.shape[d], q = (rest | length) >> 32 ? rest / length : (u32)rest / (u32)length;
          i64 index = (i64)(rest - q * length);
          ox += index * a.stride[0][d];
          if (TWO) oy += index * a.stride[1][d];
          rest = q;
        }
        int to = j * element<TYPE>::per_vector + k;
        put_bits<TYPE>(t.x, to, load_bits<TYPE>(a.base.x + ox, a.aligned));
        if constexpr (TWO) put_bits<TYPE>(t.y, to, load_bits<TYPE>(a.base.y + oy, a.aligned));
      }
    }
  }
};

#endif
