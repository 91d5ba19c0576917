/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in the memory of the first CUDA device, whether a real or the emulated driver's.
 */
#ifndef SUMAC_TESTS_DEVICE_H
#define SUMAC_TESTS_DEVICE_H

#include "sumac/sumac.h"

typedef struct device_tensor {
  sumac_tensor tensor;
  uint64_t memory; /* whole pages of the device's */
  uint64_t span;   /* the bytes of the tensor, gaps included */
  size_t span_size;
} device_tensor;

/* Makes the device's context the thread's own. 0 where there is no device: sumac_error_message() says why. */
int device_open(void);

/* A copy that begins and ends where the tensor does in its page: so a view that ends at a guard page becomes
 * one that ends with its allocation, behind which the emulated driver has a guard page as well, and a real
 * one's memory checker looks. What lies beside it is all ones. */
void device_copy(device_tensor *d, const sumac_tensor *host);
void device_free(device_tensor *d);

/* The span's bytes, gaps included; after all that the legacy stream has been given. */
void device_write(const device_tensor *d, const void *bytes);
void device_read(const device_tensor *d, void *bytes);

#endif
