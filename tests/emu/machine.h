/* SPDX-License-Identifier: Apache-2.0
 *
 * The processor behind the emulated driver. It runs one block after the other, a fiber for each thread, and
 * changes from one thread to the next only where threads meet: at warp_ and block_ functions and at their
 * end. Whatever breaks the rules of device.h ends the process with a sentence that says where.
 */
#ifndef SUMAC_EMU_MACHINE_H
#define SUMAC_EMU_MACHINE_H

#include <stddef.h>
#include <stdint.h>

constexpr uint32_t EMU_WARP = 32, EMU_MOST_THREADS = 1024;
constexpr size_t EMU_MOST_SHARED = 227 * 1024;
constexpr unsigned char EMU_POISON = 0xff; /* what memory holds that nobody has written: NaN, or -1 */

/* Kernels register themselves when the library is loaded. */
struct emu_kernel {
  const char *name;
  size_t args_size;
  uint32_t most_threads;
  void (*body)(const void *args);
  emu_kernel *next;

  static emu_kernel *first;
  emu_kernel(const emu_kernel &) = delete; /* it stays where it has registered itself */
  emu_kernel(const char *name, size_t args_size, uint32_t most_threads, void (*body)(const void *))
      : name(name), args_size(args_size), most_threads(most_threads), body(body), next(first) {
    first = this;
  }
};

struct emu_launch {
  const emu_kernel *kernel;
  const void *args;
  uint32_t blocks, threads;
  size_t shared;
  bool overlaps; /* may start before earlier kernels have ended: must wait for them */
};

/* Ascending: block 0 and thread 0 first. Descending: last ones first. */
enum class emu_order { ascending, descending };
void emu_run(const emu_launch &launch, emu_order order);

/* Where a thread is. */
struct emu_place {
  emu_launch launch;
  uint32_t block, thread;
  char *shared;
};
extern emu_place emu_here;

/* Where threads meet. Literals, so that comparing pointers nearly always decides. */
struct emu_site {
  const char *call, *file;
  int line;
};

/* What each lane of the warp has brought, once all have. Stays as it is until this lane's next but one. */
const uint64_t *emu_exchange(uint64_t mine, const emu_site &site);
void emu_block_barrier(const emu_site &site);

/* Global memory may be touched by this thread: it has waited for earlier kernels, or need not. */
void emu_waited();
void emu_check_waited(const char *call);

/* The end of the process: "emulated device: kernel k, block b, thread t: ...". */
[[noreturn]] void emu_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The driver's memory. An access to this address has failed: was it the first write to a page that may be
 * written to from now on? If not: what lies there, as a part of a sentence. */
bool emu_touched(void *address);
void emu_describe(const void *address, char *text, size_t size);

#endif
