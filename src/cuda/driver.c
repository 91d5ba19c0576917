/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the driver, or finds out why there is none. The library does not link it, so that one binary runs on
 * machines with and without a GPU.
 */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sumac_driver driver;
static pid_t _Atomic opener;       /* the process that opened it, or is about to */
static const char *_Atomic reason; /* why there is none */

static void because(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void because(const char *format, ...) {
  static char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  reason = text;
}

/* Fills in the table. The first entry point that is required and missing, or NULL. */
static const char *find_entry_points(void *library) {
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
  const char *missing = NULL;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    void *symbol = dlsym(library, entries[i].name);
    memcpy(entries[i].place, &symbol, sizeof symbol); /* ISO C has no cast from data to functions */
    if (!symbol && entries[i].required && !missing) missing = entries[i].name;
  }
  return missing;
}

static void open_driver(void) {
  const char *disable = getenv("SUMAC_DISABLE_CUDA");
  if (disable && *disable && strcmp(disable, "0") != 0) {
    because("CUDA is switched off by SUMAC_DISABLE_CUDA in the environment");
    return;
  }
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    because("no CUDA driver could be loaded (%s)", dlerror());
    return;
  }
  const char *missing = find_entry_points(library);
  CUresult result = CUDA_SUCCESS;
  driver.version = INT_MAX;
  if (driver.cuDriverGetVersion) result = driver.cuDriverGetVersion(&driver.version);
  if (result == CUDA_SUCCESS && driver.version < 13000) {
    /* The first to read what nvcc 13 compresses. */
    because("the CUDA driver is for CUDA %d.%d; CUDA 13.0 (driver 580) or newer is needed",
            driver.version / 1000, driver.version % 1000 / 10);
  } else if (missing) {
    because("the CUDA driver lacks %s; CUDA 13.0 (driver 580) or newer is needed", missing);
  } else {
    if (result == CUDA_SUCCESS) result = driver.cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE) {
      because("the CUDA driver finds no device");
    } else if (result == CUDA_ERROR_STUB_LIBRARY) {
      because("libcuda.so.1 is the toolkit's stub, which is for linking only; the driver's own is needed");
    } else if (result != CUDA_SUCCESS) {
      sumac_driver_fail("the CUDA driver does not start", result);
      because("%s", sumac_error_message());
    }
  }
}

const struct sumac_driver *sumac_driver(sumac_status *status) {
  pid_t self = getpid(), by = 0;
  bool ours = atomic_compare_exchange_strong(&opener, &by, self) || by == self;
  /* A child that was forked while a thread of its parent was opening it would wait for that thread. */
  if (ours) pthread_once(&once, open_driver);
  const char *why = reason;
  if (!why && !ours)
    why = "this process was forked from one that uses CUDA, which does not survive that; fork earlier, or "
          "start "
          "a new process";
  *status = why ? sumac_fail(SUMAC_ERR_DEVICE, "%s", why) : SUMAC_OK;
  return why ? NULL : &driver;
}

sumac_status sumac_driver_fail(const char *what, CUresult result) {
  sumac_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? SUMAC_ERR_MEMORY : SUMAC_ERR_DEVICE;
  const char *name = NULL, *meaning = NULL;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &meaning);
  if (!name || !meaning) return sumac_fail(status, "%s: CUDA error %d", what, (int)result);
  return sumac_fail(status, "%s: %s (%s)", what, name, meaning);
}
