/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver and its devices, opened when first needed: never when the library is loaded.
 */
#ifndef SUMAC_CUDA_DRIVER_H
#define SUMAC_CUDA_DRIVER_H

#include <stdbool.h>

#include "core/core.h"
#include "cuda/types.h"

/* ---- driver.c */

struct sumac_driver {
  int version; /* 13000 for CUDA 13.0 */
#define SUMAC_DRIVER(NEED, NAME, PARAMETERS) CUresult(*NAME) PARAMETERS;
#include "cuda/driver.def"
#undef SUMAC_DRIVER
};

/* The driver, opened and initialised by the first call in the process; it stays open. Where there is none to
 * use: NULL and SUMAC_ERR_DEVICE, and each time a sentence that says why. */
const struct sumac_driver *sumac_driver(sumac_status *status);

/* Notes "<what>: <the driver's name and text of the error>". */
sumac_status sumac_driver_fail(const char *what, CUresult result);

/* ---- device.c */

enum { SUMAC_CUDA_DEVICES = 64, SUMAC_CUDA_KERNELS = 1024 };

struct sumac_cuda_device {
  const struct sumac_driver *driver;
  int ordinal;
  CUdevice device;
  CUcontext context; /* the primary one, which the CUDA runtime and other libraries use as well */
  sumac_device_info info;
  int threads;               /* that a multiprocessor holds */
  int shared, shared_block;  /* bytes of shared memory of a multiprocessor, and that a block may have */
  int l2;                    /* bytes */
  CUkernel _Atomic kernel[]; /* found so far */
};

/* The device with its context and with the kernels loaded; done by the first call, cheap afterwards. */
sumac_status sumac_cuda_device(int ordinal, struct sumac_cuda_device **device);

/* The kernel called `name`, remembered under `index`; it may use all the shared memory of a block. */
sumac_status sumac_cuda_kernel(struct sumac_cuda_device *device, int index, const char *name,
                               CUkernel *kernel);

/* Makes the device's context the thread's current one, if it is not; leave() puts the former one back. */
sumac_status sumac_cuda_enter(struct sumac_cuda_device *device, bool *pushed);
void sumac_cuda_leave(struct sumac_cuda_device *device, bool pushed);

#endif
