/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: what they are, and their first use. A context takes 0.1 s and some hundred MB, so asking what
 * there is makes none.
 */
#include "cuda/backend.h"
#include "cuda/driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* fatbin.S */
extern const char sumac_fatbin[], sumac_fatbin_targets[];

/* The driver and how many devices it has, if this build has anything to run there; NULL otherwise. */
static const struct sumac_driver *open_devices(int *count, sumac_status *status) {
  if (!*sumac_fatbin_targets) {
    *status = sumac_fail(SUMAC_ERR_DEVICE, "this build of sumac has no CUDA kernels");
    return NULL;
  }
  const struct sumac_driver *driver = sumac_driver(status);
  if (!driver) return NULL;
  CUresult result = driver->cuDeviceGetCount(count);
  if (result != CUDA_SUCCESS) {
    *status = sumac_driver_fail("the CUDA devices cannot be counted", result);
    return NULL;
  }
  if (*count > SUMAC_CUDA_DEVICES) *count = SUMAC_CUDA_DEVICES;
  return driver;
}

int sumac_device_count(void) {
  sumac_status status;
  int count;
  return open_devices(&count, &status) ? count : 0;
}

/* Fills in everything but the context and the kernels. */
static sumac_status describe(int ordinal, struct sumac_cuda_device *d) {
  sumac_status status;
  int count;
  const struct sumac_driver *driver = open_devices(&count, &status);
  if (!driver) return status;
  if (ordinal < 0 || ordinal >= count)
    return sumac_fail(SUMAC_ERR_ARGUMENT, "there is no CUDA device %d; there are %d, counted from 0", ordinal,
                      count);

  *d = (struct sumac_cuda_device){.driver = driver, .ordinal = ordinal};
  d->info.driver_version = driver->version;
  d->info.kernels = sumac_fatbin_targets;
  const struct {
    CUdevice_attribute attribute;
    int *value;
  } attributes[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &d->info.compute_major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &d->info.compute_minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &d->info.multiprocessors},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &d->threads},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &d->shared},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &d->shared_block},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &d->l2},
  };
  size_t memory = 0;
  CUresult result = driver->cuDeviceGet(&d->device, ordinal);
  if (result == CUDA_SUCCESS) result = driver->cuDeviceGetName(d->info.name, sizeof d->info.name, d->device);
  if (result == CUDA_SUCCESS) result = driver->cuDeviceTotalMem_v2(&memory, d->device);
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes && result == CUDA_SUCCESS; i++)
    result = driver->cuDeviceGetAttribute(attributes[i].value, attributes[i].attribute, d->device);
  d->info.memory_bytes = memory;
  return result == CUDA_SUCCESS ? SUMAC_OK
                                : sumac_driver_fail("a CUDA device does not tell what it is", result);
}

sumac_status sumac_device_info_get(int32_t device, sumac_device_info *info) {
  if (!info) return sumac_fail(SUMAC_ERR_ARGUMENT, "sumac_device_info_get: info must not be NULL");
  struct sumac_cuda_device described;
  sumac_status status = describe(device, &described);
  if (status == SUMAC_OK) *info = described.info;
  return status;
}

/* ---- first use */

static pthread_mutex_t first_use = PTHREAD_MUTEX_INITIALIZER;
static CUlibrary library; /* one for all devices: the driver brings it into each context where it is used */
static struct sumac_cuda_device *_Atomic ready[SUMAC_CUDA_DEVICES];

static sumac_status load_library(const struct sumac_driver *driver) {
  if (library) return SUMAC_OK;
  CUlibraryOption no_copy = CU_LIBRARY_BINARY_IS_PRESERVED;
  void *unused = NULL;
  CUlibrary loaded;
  CUresult result = driver->cuLibraryLoadData(&loaded, sumac_fatbin, NULL, NULL, 0, &no_copy, &unused, 1);
  if (result != CUDA_SUCCESS)
    return sumac_driver_fail("the CUDA kernels of this build cannot be loaded", result);
  library = loaded;
  return SUMAC_OK;
}

/* Makes the device ready; called under the lock, once, or again after a failure. */
static sumac_status prepare(const struct sumac_cuda_device *described, struct sumac_cuda_device **device) {
  sumac_status status;
  const struct sumac_driver *driver = sumac_driver(&status);
  if (driver) status = load_library(driver);
  if (!driver || status != SUMAC_OK) return status;
  size_t size = sizeof *described + SUMAC_CUDA_KERNELS * sizeof *described->kernel;
  struct sumac_cuda_device *d = calloc(1, size);
  if (!d) return sumac_fail(SUMAC_ERR_MEMORY, "no memory for what is known of a CUDA device");
  *d = *described;
  CUresult result = driver->cuDevicePrimaryCtxRetain(&d->context, d->device);
  if (result != CUDA_SUCCESS) {
    free(d);
    return sumac_driver_fail("the CUDA device gives no context", result);
  }
  *device = d;
  return SUMAC_OK;
}

sumac_status sumac_cuda_device(int ordinal, struct sumac_cuda_device **device) {
  sumac_status status = SUMAC_OK;
  *device = ordinal >= 0 && ordinal < SUMAC_CUDA_DEVICES ? atomic_load(&ready[ordinal]) : NULL;
  if (*device) {
    sumac_driver(&status); /* not in a forked child */
    return status;
  }
  struct sumac_cuda_device described;
  status = describe(ordinal, &described);
  if (status != SUMAC_OK) return status;
  pthread_mutex_lock(&first_use);
  *device = atomic_load(&ready[ordinal]);
  if (!*device) {
    status = prepare(&described, device);
    atomic_store(&ready[ordinal], *device);
  }
  pthread_mutex_unlock(&first_use);
  return status;
}

sumac_status sumac_cuda_kernel(struct sumac_cuda_device *device, int index, const char *name,
                               CUkernel *kernel) {
  *kernel = atomic_load_explicit(&device->kernel[index], memory_order_acquire);
  if (*kernel) return SUMAC_OK;
  /* Two threads may come here at once: both find the same. */
  const struct sumac_driver *driver = device->driver;
  CUresult result = driver->cuLibraryGetKernel(kernel, library, name);
  if (result == CUDA_SUCCESS)
    result = driver->cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          device->shared_block, *kernel, device->device);
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
    return sumac_fail(
        SUMAC_ERR_DEVICE,
        "this build's CUDA kernels (%s) have no code for device %d, %s, compute capability %d.%d",
        device->info.kernels, device->ordinal, device->info.name, device->info.compute_major,
        device->info.compute_minor);
  if (result != CUDA_SUCCESS) {
    char what[160];
    snprintf(what, sizeof what, "the CUDA kernel %s cannot be loaded", name);
    return sumac_driver_fail(what, result);
  }
  atomic_store_explicit(&device->kernel[index], *kernel, memory_order_release);
  return SUMAC_OK;
}

sumac_status sumac_cuda_enter(struct sumac_cuda_device *device, bool *pushed) {
  CUcontext current = NULL;
  CUresult result = device->driver->cuCtxGetCurrent(&current);
  *pushed = false;
  if (result == CUDA_SUCCESS && current != device->context) {
    result = device->driver->cuCtxPushCurrent_v2(device->context);
    *pushed = result == CUDA_SUCCESS;
  }
  return result == CUDA_SUCCESS ? SUMAC_OK : sumac_driver_fail("the CUDA context cannot be entered", result);
}

void sumac_cuda_leave(struct sumac_cuda_device *device, bool pushed) {
  CUcontext left;
  if (pushed) device->driver->cuCtxPopCurrent_v2(&left);
}

sumac_status sumac_warm(sumac_context *context, int32_t device) {
  (void)context;
  return sumac_cuda_warm(device);
}

sumac_status sumac_device_check(int32_t device) { return sumac_cuda_check(device); }
