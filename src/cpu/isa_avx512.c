/* SPDX-License-Identifier: Apache-2.0 */
#define SUMAC_VECTOR_BYTES 64
#define SUMAC_LOOPS sumac_loops_avx512
#define SUMAC_LOOPS_NAME "avx512"
#include "cpu/loops.tmpl.h"
