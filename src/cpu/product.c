/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of contiguous elements, in integers: the same bits on every machine. No vector is needed: a
 * multiplication of 128 bits by 64 takes two of the processor's, and those of several chains overlap.
 */
#include "cpu/cpu.h"

enum { CHAINS = 4 };

static inline __attribute__((always_inline)) void multiply(const struct sumac_type_info *t, const char *x,
                                                           size_t n, struct sumac_product *p) {
  struct sumac_product chain[CHAINS];
  for (int i = 0; i < CHAINS; i++) sumac_product_init(&chain[i]);
  for (size_t i = 0; i < n; i++)
    sumac_product_add(&chain[i % CHAINS], sumac_decode(t, sumac_bits_at(t, x, i)));
  for (int i = 0; i < CHAINS; i++) sumac_product_merge(p, &chain[i]);
}

void sumac_product_of(enum sumac_type type, const void *x, size_t n, struct sumac_product *p) {
  switch (type) { /* a copy of the loop for each, in which what a type is like is known */
/* clang-format off */
#define SUMAC_DTYPE(ID, ...) case SUMAC_T_##ID: multiply(&sumac_types[SUMAC_T_##ID], x, n, p); break;
/* clang-format on */
#include "model/dtypes.def"
#undef SUMAC_DTYPE
  default: break;
  }
}
