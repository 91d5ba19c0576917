/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry points that fake.c has no use for. A driver without this file is one that lacks some. */
#include "fake.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define SUMAC_DRIVER(NEED, NAME, PARAMETERS)                                                                 \
  __attribute__((weak)) CUresult NAME PARAMETERS { return CUDA_ERROR_UNKNOWN; }
#include "cuda/driver.def"
