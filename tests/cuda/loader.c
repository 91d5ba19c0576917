/* SPDX-License-Identifier: Apache-2.0
 *
 * How the driver is found and devices are brought into use, and what is said where that fails. A process
 * opens the driver once, so every case is a process: this program again, with another environment.
 */
#include "cuda/driver.h"
#include "fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8 };

/* Ends the case unless `sentence` holds all that are given, up to NULL. */
static void says(const char *sentence, ...) {
  va_list words;
  va_start(words, sentence);
  for (const char *word; (word = va_arg(words, const char *)) != NULL;)
    if (!strstr(sentence, word)) {
      fprintf(stderr, "\"%s\" does not say \"%s\"\n", sentence, word);
      _exit(1);
    }
  va_end(words);
}

static void holds(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "not so: %s (\"%s\")\n", what, sumac_error_message());
  _exit(1);
}
#define HOLDS(CONDITION) holds(CONDITION, #CONDITION)

/* A counter of the fake driver. */
static int counted(const char *name) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  holds(driver != NULL, "the fake driver is open");
  atomic_int *counter = dlsym(driver, name);
  holds(counter != NULL, name);
  return *counter;
}

static sumac_status use(int ordinal) {
  struct sumac_cuda_device *device;
  return sumac_cuda_device(ordinal, &device);
}

/* ---- cases ---------------------------------------------------------------------------------- */

/* There is no driver to use; asked in every way and twice, the same is said. */
static void no_driver(const char *why, const char *more) {
  sumac_device_info info;
  struct sumac_cuda_device *device;
  for (int i = 0; i < 2; i++) {
    sumac_status status = SUMAC_OK;
    HOLDS(sumac_device_count() == 0);
    says(sumac_error_message(), why, more, NULL);
    HOLDS(sumac_device_info_get(0, NULL) == SUMAC_ERR_ARGUMENT); /* another sentence in between */
    HOLDS(sumac_device_info_get(0, &info) == SUMAC_ERR_DEVICE);
    says(sumac_error_message(), why, more, NULL);
    HOLDS(sumac_device_info_get(0, NULL) == SUMAC_ERR_ARGUMENT);
    HOLDS(sumac_cuda_device(0, &device) == SUMAC_ERR_DEVICE);
    says(sumac_error_message(), why, more, NULL);
    HOLDS(sumac_driver(&status) == NULL && status == SUMAC_ERR_DEVICE);
  }
}

static void case_disabled(void) { no_driver("SUMAC_DISABLE_CUDA", "environment"); }
static void case_absent(void) {
  if (dlopen("libcuda.so.1", RTLD_LAZY)) return; /* this machine has one */
  no_driver("no CUDA driver", "libcuda.so.1: cannot open shared object file");
}
static void case_garbage(void) { no_driver("no CUDA driver", "libcuda.so.1: file too short"); }
static void case_partial(void) { no_driver("lacks cuCtxSetCurrent", "13.0"); }
static void case_old(void) { no_driver("for CUDA 12.8", "CUDA 13.0 (driver 580)"); }
static void case_no_device(void) { no_driver("finds no device", ""); }
static void case_stub(void) { no_driver("toolkit's stub", "libcuda.so.1"); }
static void case_broken(void) { no_driver("does not start", "CUDA_ERROR_UNKNOWN (unknown error)"); }
static void case_nameless(void) { no_driver("does not start", "CUDA error 802"); }
static void case_no_version(void) { no_driver("does not start", "CUDA_ERROR_UNKNOWN"); }
static void case_no_count(void) {
  HOLDS(sumac_device_count() == 0);
  says(sumac_error_message(), "counted", "CUDA_ERROR_UNKNOWN", NULL);
}

static void case_no_kernels(void) {
  struct sumac_cuda_device *device;
  HOLDS(sumac_device_count() == 0);
  says(sumac_error_message(), "this build", "no CUDA kernels", NULL);
  HOLDS(sumac_cuda_device(0, &device) == SUMAC_ERR_DEVICE);
  HOLDS(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL); /* nor is a driver opened for nothing */
}

static void case_devices(void) {
  sumac_device_info info;
  HOLDS(sumac_device_count() == FAKE_DEVICES);
  HOLDS(sumac_device_info_get(1, &info) == SUMAC_OK);
  HOLDS(strcmp(info.name, "Fake 6") == 0);
  HOLDS(info.compute_major == 6075 && info.compute_minor == 6076 && info.multiprocessors == 6016);
  HOLDS(info.memory_bytes == ((uint64_t)1 << 40) + 6 && info.driver_version == 13000);
  HOLDS(strcmp(info.kernels, "sm_90 compute_90") == 0);
  HOLDS(counted("fake_contexts") == 0 && counted("fake_loads") == 0);

  HOLDS(sumac_device_info_get(0, NULL) == SUMAC_ERR_ARGUMENT);
  const int wrong[] = {-1, FAKE_DEVICES, SUMAC_CUDA_DEVICES, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    HOLDS(sumac_device_info_get(wrong[i], &info) == SUMAC_ERR_ARGUMENT);
    HOLDS(use(wrong[i]) == SUMAC_ERR_ARGUMENT);
    says(sumac_error_message(), "no CUDA device", "there are 2", NULL);
  }
}

static void case_silent_device(void) {
  sumac_device_info info;
  HOLDS(sumac_device_count() == FAKE_DEVICES);
  HOLDS(sumac_device_info_get(0, &info) == SUMAC_ERR_DEVICE);
  says(sumac_error_message(), "does not tell what it is", "CUDA_ERROR_UNKNOWN", NULL);
}

static void case_use(void) {
  struct sumac_cuda_device *device = NULL, *again = NULL, *other = NULL;
  CUkernel kernel = NULL;
  HOLDS(sumac_cuda_device(0, &device) == SUMAC_OK && sumac_cuda_device(0, &again) == SUMAC_OK);
  HOLDS(device == again && device->context == FAKE_CONTEXT(FAKE_DEVICE(0)));
  HOLDS(device->shared_block == 5097 && device->shared == 5081 && device->threads == 5039 &&
        device->l2 == 5038);
  HOLDS(sumac_cuda_device(1, &other) == SUMAC_OK && other != device && other->ordinal == 1);
  HOLDS(counted("fake_inits") == 1 && counted("fake_loads") == 1 && counted("fake_contexts") == 2);

  for (int i = 0; i < 3; i++) {
    HOLDS(sumac_cuda_kernel(device, 7, "kernel", &kernel) == SUMAC_OK && kernel == FAKE_KERNEL);
    HOLDS(sumac_cuda_kernel(other, SUMAC_CUDA_KERNELS - 1, "kernel", &kernel) == SUMAC_OK);
  }
  HOLDS(counted("fake_lookups") == 2); /* the others were remembered */
  HOLDS(sumac_cuda_kernel(device, 8, "absent", &kernel) == SUMAC_ERR_DEVICE);
  says(sumac_error_message(), "kernel absent", "CUDA error 500", NULL);

  bool pushed, inner;
  CUcontext current = NULL;
  HOLDS(sumac_cuda_enter(device, &pushed) == SUMAC_OK && pushed);
  HOLDS(sumac_cuda_enter(device, &inner) == SUMAC_OK && !inner);
  HOLDS(device->driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == device->context);
  HOLDS(sumac_cuda_enter(other, &inner) == SUMAC_OK && inner);
  sumac_cuda_leave(other, inner);
  HOLDS(device->driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == device->context);
  sumac_cuda_leave(device, false);
  sumac_cuda_leave(device, pushed);
  HOLDS(device->driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == NULL);
}

/* A failure that passes is no failure for ever. */
static void fails_then_works(const char *entry, const char *code, sumac_status wanted, const char *why) {
  setenv(entry, code, 1);
  for (int i = 0; i < 2; i++) {
    HOLDS(use(0) == wanted);
    says(sumac_error_message(), why, NULL);
  }
  unsetenv(entry);
  HOLDS(use(0) == SUMAC_OK);
}
static void case_no_load(void) {
  fails_then_works("cuLibraryLoadData", "999", SUMAC_ERR_DEVICE, "cannot be loaded: CUDA_ERROR_UNKNOWN");
}
static void case_no_context(void) {
  fails_then_works("cuDevicePrimaryCtxRetain", "2", SUMAC_ERR_MEMORY, "no context: CUDA error 2");
}
static void case_no_enter(void) {
  struct sumac_cuda_device *device;
  bool pushed = true;
  HOLDS(sumac_cuda_device(0, &device) == SUMAC_OK);
  HOLDS(sumac_cuda_enter(device, &pushed) == SUMAC_ERR_DEVICE && !pushed);
  says(sumac_error_message(), "entered", "CUDA_ERROR_UNKNOWN", NULL);
}

/* The driver tells when a kernel is looked for, or when it is to be used on one of several kinds of devices.
 */
static void case_no_code(void) {
  struct sumac_cuda_device *device;
  CUkernel kernel;
  HOLDS(sumac_cuda_device(1, &device) == SUMAC_OK);
  HOLDS(sumac_cuda_kernel(device, 0, "kernel", &kernel) == SUMAC_ERR_DEVICE);
  says(sumac_error_message(), "(sm_90 compute_90)",
       "no code for device 1, Fake 6, compute capability 6075.6076", NULL);
}

static atomic_int waiting = THREADS;
static void *first_use(void *unused) {
  struct sumac_cuda_device *device;
  CUkernel kernel;
  (void)unused;
  for (waiting--; waiting;) {
  }
  HOLDS(sumac_cuda_device(0, &device) == SUMAC_OK);
  HOLDS(sumac_cuda_kernel(device, 0, "kernel", &kernel) == SUMAC_OK && kernel == FAKE_KERNEL);
  return device;
}
static void case_threads(void) {
  pthread_t thread[THREADS];
  void *device[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, first_use, NULL);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], &device[i]);
  for (int i = 0; i < THREADS; i++) HOLDS(device[i] == device[0]);
  HOLDS(counted("fake_inits") == 1 && counted("fake_loads") == 1 && counted("fake_contexts") == 1);
}

/* ---- forks */

static void in_child(void (*run)(void)) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    run();
    _exit(0);
  }
  int status = -1;
  holds(waitpid(child, &status, 0) == child && status == 0, "the child is content");
}

static void refuses(void) {
  sumac_device_info info;
  HOLDS(sumac_device_count() == 0);
  says(sumac_error_message(), "forked", NULL);
  HOLDS(use(0) == SUMAC_ERR_DEVICE && use(1) == SUMAC_ERR_DEVICE);
  says(sumac_error_message(), "forked", NULL);
  HOLDS(sumac_device_info_get(0, &info) == SUMAC_ERR_DEVICE);
}
static void works(void) { HOLDS(use(0) == SUMAC_OK); }

static void case_fork(void) {
  in_child(works); /* before the first use here nothing is in the child's way */
  works();
  in_child(refuses);
  works();
}

static void *warm(void *unused) {
  (void)unused;
  works();
  return NULL;
}
/* In whatever state the parent's first use is in, the child does not wait for a thread that it does not have.
 */
static void case_fork_between(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, warm, NULL);
  for (int i = 0; i < 12; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      use(0);
      _exit(0);
    }
    usleep(5000);
    int status = -1;
    holds(waitpid(child, &status, 0) == child && status == 0, "the child returned");
  }
  pthread_join(thread, NULL);
  in_child(refuses);
}

/* ---- running them --------------------------------------------------------------------------- */

static const struct loader_case {
  const char *name, *driver; /* the directory with its libcuda.so.1 */
  void (*run)(void);
  const char *environment[2]; /* as in "cuInit=100" */
} cases[] = {
    {"disabled", "fake", case_disabled, {"SUMAC_DISABLE_CUDA=1"}},
    {"enabled", "fake", case_devices, {"SUMAC_DISABLE_CUDA=0"}},
    {"absent", "none", case_absent, {0}},
    {"garbage", "garbage", case_garbage, {0}},
    {"partial", "partial", case_partial, {0}},
    {"partial and old", "partial", case_old, {"version=12080"}},
    {"old", "fake", case_old, {"version=12080"}},
    {"no device", "fake", case_no_device, {"cuInit=100"}},
    {"stub", "fake", case_stub, {"cuInit=34", "cuDriverGetVersion=34"}},
    {"the toolkit's stub", "stub", case_stub, {0}},
    {"broken", "fake", case_broken, {"cuInit=999"}},
    {"nameless", "fake", case_nameless, {"cuInit=802"}},
    {"no version", "fake", case_no_version, {"cuDriverGetVersion=999"}},
    {"no count", "fake", case_no_count, {"cuDeviceGetCount=999"}},
    {"no kernels", "fake", case_no_kernels, {0}},
    {"devices", "fake", case_devices, {0}},
    {"silent device", "fake", case_silent_device, {"cuDeviceGetAttribute=999"}},
    {"device without a name", "fake", case_silent_device, {"cuDeviceGetName=999"}},
    {"use", "fake", case_use, {0}},
    {"no load", "fake", case_no_load, {0}},
    {"no context", "fake", case_no_context, {0}},
    {"no enter", "fake", case_no_enter, {"cuCtxPushCurrent_v2=999"}},
    {"no code", "fake", case_no_code, {"cuLibraryGetKernel=209"}},
    {"no code for one", "fake", case_no_code, {"cuKernelSetAttribute=209"}},
    {"threads", "fake", case_threads, {"slow=20000"}},
    {"fork", "fake", case_fork, {0}},
    {"fork between", "fake", case_fork_between, {"slow=20000"}},
};

int main(int argc, char **argv) {
  /* loader DIRECTORY PROGRAM_WITHOUT_KERNELS runs all; loader CASE one. */
  if (argc == 2) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      if (strcmp(cases[i].name, argv[1]) == 0) {
        alarm(20);
        cases[i].run();
        return 0;
      }
    return 2;
  }
  int failed = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct loader_case *c = &cases[i];
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/%s", argv[1], c->driver);
    if (strcmp(c->driver, "stub") == 0 && access(directory, F_OK) != 0) {
      printf("%s: left out, there is no toolkit\n", c->name);
      continue;
    }
    pid_t child = fork();
    if (child == 0) {
      setenv("LD_LIBRARY_PATH", directory, 1);
      for (int k = 0; k < 2 && c->environment[k]; k++) putenv((char *)c->environment[k]);
      execl(c->run == case_no_kernels ? argv[2] : argv[0], argv[0], c->name, (char *)NULL);
      _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status) printf("%s: failed, status %d\n", c->name, status);
    failed += status != 0;
  }
  printf("%d failed\n", failed);
  return failed != 0;
}
