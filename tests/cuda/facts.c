/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library says of the driver's types, and what cuda.h says: this file is compiled once for each. */
#include "facts.h"

#include <stddef.h>

#if defined(THEIRS)
#define __CUDA_API_VERSION_INTERNAL /* declares older versions of functions beside the newest */
#include <cuda.h>
#define FACTS facts_theirs

#define SUMAC_DRIVER(NEED, NAME, PARAMETERS)                                                                 \
  _Static_assert(__builtin_types_compatible_p(__typeof__(&NAME), CUresult(*) PARAMETERS), #NAME);
#include "cuda/driver.def"
#else
#include "cuda/types.h"
#define FACTS facts_ours
#endif

#define FACT(X)                                                                                              \
  { #X, (long long)(X) }
const struct fact FACTS[] = {
    FACT(sizeof(CUresult)),
    FACT(CUDA_SUCCESS),
    FACT(CUDA_ERROR_INVALID_VALUE),
    FACT(CUDA_ERROR_OUT_OF_MEMORY),
    FACT(CUDA_ERROR_STUB_LIBRARY),
    FACT(CUDA_ERROR_NO_DEVICE),
    FACT(CUDA_ERROR_NO_BINARY_FOR_GPU),
    FACT(CUDA_ERROR_NOT_FOUND),
    FACT(CUDA_ERROR_NOT_READY),
    FACT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    FACT(CUDA_ERROR_UNKNOWN),
    FACT(sizeof(CUdevice)),
    FACT(sizeof(CUdeviceptr)),
    FACT((CUdevice)-1 < 0),
    FACT((CUdeviceptr)-1 > 0),
    FACT(sizeof(CUjit_option)),
    FACT(sizeof(CUdevice_attribute)),
    FACT(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    FACT(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
    FACT(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
    FACT(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    FACT(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    FACT(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    FACT(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    FACT(sizeof(CUfunction_attribute)),
    FACT(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
    FACT(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
    FACT(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
    FACT(CU_FUNC_ATTRIBUTE_NUM_REGS),
    FACT(CU_FUNC_ATTRIBUTE_BINARY_VERSION),
    FACT(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
    FACT(sizeof(CUlibraryOption)),
    FACT(CU_LIBRARY_BINARY_IS_PRESERVED),
    FACT(sizeof(CUstreamCaptureStatus)),
    FACT(CU_STREAM_CAPTURE_STATUS_NONE),
    FACT(CU_STREAM_CAPTURE_STATUS_ACTIVE),
    FACT(CU_STREAM_CAPTURE_STATUS_INVALIDATED),
    FACT(sizeof(CUstreamCaptureMode)),
    FACT(CU_STREAM_CAPTURE_MODE_GLOBAL),
    FACT(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
    FACT(CU_STREAM_CAPTURE_MODE_RELAXED),
    FACT(CU_STREAM_DEFAULT),
    FACT(CU_STREAM_NON_BLOCKING),
    FACT(CU_EVENT_DEFAULT),
    FACT(CU_EVENT_DISABLE_TIMING),
    FACT(CU_MEMHOSTALLOC_PORTABLE),
    FACT(CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
    FACT(CU_GRAPH_USER_OBJECT_MOVE),
    FACT(sizeof(CUlaunchAttributeID)),
    FACT(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION),
    FACT(sizeof(CUlaunchAttributeValue)),
    FACT(_Alignof(CUlaunchAttributeValue)),
    FACT(offsetof(CUlaunchAttributeValue, programmaticStreamSerializationAllowed)),
    FACT(sizeof(CUlaunchAttribute)),
    FACT(offsetof(CUlaunchAttribute, id)),
    FACT(offsetof(CUlaunchAttribute, value)),
    FACT(sizeof(CUlaunchConfig)),
    FACT(offsetof(CUlaunchConfig, gridDimX)),
    FACT(offsetof(CUlaunchConfig, gridDimY)),
    FACT(offsetof(CUlaunchConfig, gridDimZ)),
    FACT(offsetof(CUlaunchConfig, blockDimX)),
    FACT(offsetof(CUlaunchConfig, blockDimY)),
    FACT(offsetof(CUlaunchConfig, blockDimZ)),
    FACT(offsetof(CUlaunchConfig, sharedMemBytes)),
    FACT(offsetof(CUlaunchConfig, hStream)),
    FACT(offsetof(CUlaunchConfig, attrs)),
    FACT(offsetof(CUlaunchConfig, numAttrs)),
    {NULL, 0},
};
