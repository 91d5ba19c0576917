/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include "cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 4096 };

static const struct sumac_driver *cu;

static void ok(CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "%s: CUDA error %d\n", what, (int)result);
  abort();
}
#define OK(NAME, ...) ok(cu->NAME(__VA_ARGS__), #NAME)

int device_open(void) {
  struct sumac_cuda_device *device;
  if (sumac_cuda_device(0, &device) != SUMAC_OK) return 0;
  cu = device->driver;
  OK(cuCtxSetCurrent, device->context);
  return 1;
}

void device_copy(device_tensor *d, const sumac_tensor *host) {
  int64_t size = host->dtype.bits / 8, low = 0, high = size, dense = 1;
  for (int i = host->ndim - 1; i >= 0; i--) {
    int64_t reach = (host->shape[i] - 1) * (host->strides != NULL ? host->strides[i] : dense) * size;
    low += reach < 0 ? reach : 0;
    high += reach > 0 ? reach : 0;
    dense *= host->shape[i];
  }
  if (dense == 0) low = high = 0;
  const char *first = (const char *)host->data + host->byte_offset + low;
  size_t before = (uintptr_t)first % PAGE, pages = (before + (size_t)(high - low) + PAGE - 1) / PAGE;
  CUdeviceptr memory;
  pages += pages == 0;
  OK(cuMemAlloc_v2, &memory, pages * PAGE);
  OK(cuMemsetD8Async, memory, 0xff, pages * PAGE, NULL);
  d->memory = memory;
  d->span = memory + before;
  d->span_size = (size_t)(high - low);
  d->tensor = *host;
  d->tensor.data = (char *)(uintptr_t)d->span - low;
  d->tensor.byte_offset = 0;
  d->tensor.device = (sumac_device){2, 0};
  device_write(d, first);
}

void device_free(device_tensor *d) { OK(cuMemFree_v2, d->memory); }

void device_write(const device_tensor *d, const void *bytes) {
  if (d->span_size) OK(cuMemcpyHtoD_v2, d->span, bytes, d->span_size);
}

void device_read(const device_tensor *d, void *bytes) {
  if (d->span_size) OK(cuMemcpyDtoH_v2, bytes, d->span, d->span_size);
}
