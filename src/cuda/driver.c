/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the driver, or finds out why there is none. The library does not link it, so that one binary runs on
 * machines with and without a GPU.
 */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CUDA 13.0, driver 580: the first that reads the compressed kernels of nvcc 13. */
enum { OLDEST_VERSION = 13000 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sumac_driver driver;
static char reason[400]; /* why there is none; "" once it is open */
static pid_t owner;

static void find_entry_points(void *library) {
  static const struct {
    const char *name;
    void *place;
    bool required;
  } entries[] = {
#define REQUIRED true
#define OPTIONAL false
#define SUMAC_DRIVER(NEED, NAME, PARAMETERS) {#NAME, &driver.NAME, NEED},
#include "cuda/driver.def"
#undef SUMAC_DRIVER
#undef REQUIRED
#undef OPTIONAL
  };
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    void *symbol = dlsym(library, entries[i].name);
    memcpy(entries[i].place, &symbol, sizeof symbol); /* ISO C has no cast from data to functions */
    if (!symbol && entries[i].required && !*reason)
      snprintf(reason, sizeof reason, "the CUDA driver lacks %s; CUDA 13.0 (driver 580) or newer is needed",
               entries[i].name);
  }
}

static void describe(char *text, size_t size, const char *what, CUresult result) {
  const char *name = NULL, *meaning = NULL;
  if (driver.cuGetErrorName) driver.cuGetErrorName(result, &name);
  if (driver.cuGetErrorString) driver.cuGetErrorString(result, &meaning);
  if (name && meaning)
    snprintf(text, size, "%s: %s (%s)", what, name, meaning);
  else
    snprintf(text, size, "%s: CUDA error %d", what, (int)result);
}

static void initialise(void) {
  CUresult result = driver.cuDriverGetVersion ? driver.cuDriverGetVersion(&driver.version) : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS && driver.cuDriverGetVersion && driver.version < OLDEST_VERSION) {
    snprintf(reason, sizeof reason,
             "the CUDA driver is for CUDA %d.%d; CUDA %d.%d (driver 580) or newer is needed",
             driver.version / 1000, driver.version % 1000 / 10, OLDEST_VERSION / 1000,
             OLDEST_VERSION % 1000 / 10);
    return;
  }
  if (*reason) return; /* an entry point is missing in a driver that should have it */
  if (result == CUDA_SUCCESS) result = driver.cuInit(0);
  switch (result) {
  case CUDA_SUCCESS: owner = getpid(); break;
  case CUDA_ERROR_NO_DEVICE: snprintf(reason, sizeof reason, "the CUDA driver finds no device"); break;
  case CUDA_ERROR_STUB_LIBRARY:
    snprintf(
        reason, sizeof reason,
        "libcuda.so.1 is the toolkit's stub library, which is for linking only; the driver's own is needed");
    break;
  default: describe(reason, sizeof reason, "the CUDA driver does not start", result);
  }
}

static void open_driver(void) {
  const char *disable = getenv("SUMAC_DISABLE_CUDA");
  if (disable && *disable && strcmp(disable, "0") != 0) {
    snprintf(reason, sizeof reason, "CUDA is switched off by SUMAC_DISABLE_CUDA in the environment");
    return;
  }
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(reason, sizeof reason, "no CUDA driver could be loaded (%s)", dlerror());
    return;
  }
  find_entry_points(library);
  initialise();
}

const struct sumac_driver *sumac_driver(sumac_status *status) {
  pthread_once(&once, open_driver);
  *status = SUMAC_OK;
  if (*reason)
    *status = sumac_fail(SUMAC_ERR_DEVICE, "%s", reason);
  else if (owner != getpid())
    *status = sumac_fail(SUMAC_ERR_DEVICE, "this process was forked from one that uses CUDA, which does not "
                                           "survive a fork; start it anew (exec, spawn) or fork earlier");
  return *status == SUMAC_OK ? &driver : NULL;
}

sumac_status sumac_driver_fail(const char *what, CUresult result) {
  char text[400];
  describe(text, sizeof text, what, result);
  return sumac_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? SUMAC_ERR_MEMORY : SUMAC_ERR_DEVICE, "%s", text);
}
