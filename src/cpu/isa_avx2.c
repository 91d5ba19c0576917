/* SPDX-License-Identifier: Apache-2.0 */
#define SUMAC_VECTOR_BYTES 32
#define SUMAC_LOOPS sumac_loops_avx2
#define SUMAC_LOOPS_NAME "avx2"
#include "cpu/loops.tmpl.h"
