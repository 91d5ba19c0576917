/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver that does nothing, well enough to be loaded: two devices, contexts, kernels by name. A variable of
 * the environment called like an entry point is what that returns; "version" and "slow" (microseconds in
 * which another thread may come in between) are told in the same way.
 */
#include "fake.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int told(const char *name, int otherwise) {
  const char *value = getenv(name);
  return value ? atoi(value) : otherwise;
}
static CUresult result_of(const char *name) { return (CUresult)told(name, CUDA_SUCCESS); }
static void be_slow(void) { usleep((useconds_t)told("slow", 0)); }

atomic_int fake_inits, fake_loads, fake_contexts, fake_lookups;

CUresult cuDriverGetVersion(int *version) {
  *version = told("version", 13000);
  return result_of("cuDriverGetVersion");
}

CUresult cuInit(unsigned flags) {
  fake_inits++;
  be_slow();
  return flags ? CUDA_ERROR_INVALID_VALUE : result_of("cuInit");
}

/* It knows one error by name. */
CUresult cuGetErrorName(CUresult error, const char **name) {
  if (error != CUDA_ERROR_UNKNOWN) return CUDA_ERROR_INVALID_VALUE;
  *name = "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char **text) {
  if (error != CUDA_ERROR_UNKNOWN) return CUDA_ERROR_INVALID_VALUE;
  *text = "unknown error";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  *count = FAKE_DEVICES;
  return result_of("cuDeviceGetCount");
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = FAKE_DEVICE(ordinal);
  return result_of("cuDeviceGet");
}
CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  snprintf(name, (size_t)size, "Fake %d", device);
  return result_of("cuDeviceGetName");
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  *bytes = ((size_t)1 << 40) + (size_t)device;
  return result_of("cuDeviceTotalMem_v2");
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  *value = 1000 * device + (int)attribute;
  return result_of("cuDeviceGetAttribute");
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  fake_contexts++;
  be_slow();
  *context = FAKE_CONTEXT(device);
  return result_of("cuDevicePrimaryCtxRetain");
}

static _Thread_local CUcontext contexts[8];
static _Thread_local int depth; /* contexts[depth] is current */

CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = contexts[depth];
  return result_of("cuCtxGetCurrent");
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  CUresult result = result_of("cuCtxPushCurrent_v2");
  if (result == CUDA_SUCCESS) contexts[++depth] = context;
  return result;
}
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  *context = contexts[depth--];
  return CUDA_SUCCESS;
}

static char library;

CUresult cuLibraryLoadData(CUlibrary *loaded, const void *code, CUjit_option *jit_options, void **jit_values,
                           unsigned jit_count, CUlibraryOption *options, void **values, unsigned count) {
  fake_loads++;
  be_slow();
  bool asked = !jit_options && !jit_values && !jit_count && values && count == 1 &&
               *options == CU_LIBRARY_BINARY_IS_PRESERVED;
  /* What the build embeds for this driver is the text that you are reading. */
  bool sound = (uintptr_t)code % 16 == 0 && memcmp(code, "/* SPDX-License-Identifier", 26) == 0;
  *loaded = (CUlibrary)&library;
  return asked && sound ? result_of("cuLibraryLoadData") : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary from, const char *name) {
  fake_lookups++;
  if (from != (CUlibrary)&library || strcmp(name, "kernel") != 0) return CUDA_ERROR_NOT_FOUND;
  *kernel = FAKE_KERNEL;
  return result_of("cuLibraryGetKernel");
}

/* Refuses what is not the block's whole shared memory. */
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || kernel != FAKE_KERNEL ||
      value != 1000 * device + CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    return CUDA_ERROR_INVALID_VALUE;
  return result_of("cuKernelSetAttribute");
}
