/* SPDX-License-Identifier: Apache-2.0
 *
 * The argument of the kernels in rules.cpp.
 */
#ifndef SUMAC_EMU_RULES_H
#define SUMAC_EMU_RULES_H

#include <stdint.h>

struct rules {
  uint64_t *out;
  uint64_t n;
};

#endif
