/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>

#include "cuda/types.h"

#define FAKE_DEVICES 2
#define FAKE_DEVICE(ORDINAL) ((ORDINAL) + 5) /* a device is not its ordinal */
#define FAKE_CONTEXT(DEVICE) ((CUcontext)(uintptr_t)(0x1000 + (DEVICE)))
#define FAKE_KERNEL ((CUkernel)0x2000)

#define SUMAC_DRIVER(NEED, NAME, PARAMETERS) CUresult NAME PARAMETERS;
#include "cuda/driver.def"
#undef SUMAC_DRIVER

#endif
