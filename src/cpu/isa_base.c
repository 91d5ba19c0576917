/* SPDX-License-Identifier: Apache-2.0 */
#define SUMAC_VECTOR_BYTES 16
#define SUMAC_LOOPS sumac_loops_base
#define SUMAC_LOOPS_NAME "base"
#include "cpu/loops.tmpl.h"
