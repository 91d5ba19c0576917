/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

emu_kernel *emu_kernel::first;
emu_place emu_here;

/* ---- fibers */

/* Leaves a stack, its pointer stored, for another. ucontext would do two system calls: ten times slower. */
extern "C" void emu_switch(void **from, void *to);

#if defined __x86_64__
asm(R"(
  .text
  .globl emu_switch
  .hidden emu_switch
  .type emu_switch, @function
emu_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
  .size emu_switch, . - emu_switch
)");
constexpr int FRAME = 8, RETURN = 6; /* words; the eighth leaves the stack as a call would */
#elif defined __aarch64__
asm(R"(
  .text
  .globl emu_switch
  .hidden emu_switch
  .type emu_switch, %function
emu_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size emu_switch, . - emu_switch
)");
constexpr int FRAME = 20, RETURN = 11;
#else
#error "a fiber switch for this processor is needed"
#endif

struct fiber {
  void *stack_pointer;
  char *top;
  bool waited; /* for earlier kernels */
};

constexpr size_t STACK = 64 * 1024;
static fiber fibers[EMU_MOST_THREADS];
static void *scheduler;
static char *shared_end;  /* the first byte that no block may touch */
static uint32_t position; /* of the running thread in the order of threads */
static bool descending;

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static char *map_pages(size_t size) {
  void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) emu_fatal("no memory for stacks");
  return static_cast<char *>(p);
}

/* Stacks with a page between them that nothing may touch. Their tops are not a power of two apart: all
 * threads are at the same depth most of the time, and would share a few sets of the cache. */
static void make_machine() {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), stride = page + round_up(STACK, page);
  char *stacks = map_pages(EMU_MOST_THREADS * stride);
  for (uint32_t i = 0; i < EMU_MOST_THREADS; i++) {
    mprotect(stacks + i * stride, page, PROT_NONE);
    fibers[i].top = stacks + (i + 1) * stride - i % 16 * 256;
  }
  size_t shared = round_up(EMU_MOST_SHARED, page);
  shared_end = map_pages(shared + page) + shared;
  mprotect(shared_end, page, PROT_NONE);
}

/* ---- what went wrong */

void emu_fatal(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (emu_here.launch.kernel == nullptr)
    dprintf(STDERR_FILENO, "emulated device: %s\n", text);
  else
    dprintf(STDERR_FILENO, "emulated device: kernel %s, block %u of %u, thread %u of %u: %s\n",
            emu_here.launch.kernel->name, emu_here.block, emu_here.launch.blocks, emu_here.thread,
            emu_here.launch.threads, text);
  abort();
}

static struct sigaction earlier_segv, earlier_bus;

/* Says whose access it was, then lets it happen again as if nobody listened; or just lets it happen. */
static void on_fault(int, siginfo_t *info, void *) {
  if (emu_touched(info->si_addr)) return;
  char text[256];
  emu_describe(info->si_addr, text, sizeof text);
  dprintf(STDERR_FILENO, "emulated device: kernel %s, block %u, thread %u: access to %p, %s\n",
          emu_here.launch.kernel->name, emu_here.block, emu_here.thread, info->si_addr, text);
  sigaction(SIGSEGV, &earlier_segv, nullptr);
  sigaction(SIGBUS, &earlier_bus, nullptr);
}

/* ---- meetings */

static emu_site warp_meeting, block_meeting; /* where the first thread has arrived */
static const emu_site ENDED = {"the end", "", 0};

static bool same(const emu_site &a, const emu_site &b) {
  return a.line == b.line && (a.call == b.call || strcmp(a.call, b.call) == 0) &&
         (a.file == b.file || strcmp(a.file, b.file) == 0);
}

static uint32_t thread_at(uint32_t at) { return descending ? emu_here.launch.threads - 1 - at : at; }

[[noreturn]] static void diverged(const emu_site &mine, const emu_site &theirs, uint32_t first) {
  emu_fatal("is at %s (%s:%d), but thread %u of the same %s is at %s (%s:%d)", mine.call, mine.file,
            mine.line, thread_at(first), first / EMU_WARP == position / EMU_WARP ? "warp" : "block",
            theirs.call, theirs.file, theirs.line);
}

/* The lanes of a warp take turns, and so do warps between barriers. So the last one to arrive is the last in
 * the order, and the first can go on: nobody counts. A thread that has ended stands at a barrier that all
 * must come to and nobody leaves. */
static void meet(const emu_site &site, bool whole_block) {
  uint32_t at = position, first = at / EMU_WARP * EMU_WARP, next = at + 1;
  if (at == first)
    warp_meeting = site;
  else if (!same(site, warp_meeting))
    diverged(site, warp_meeting, first);
  if (whole_block && at == 0)
    block_meeting = site;
  else if (whole_block && at == first && !same(site, block_meeting))
    diverged(site, block_meeting, 0);

  void **stack = &fibers[emu_here.thread].stack_pointer;
  if (!whole_block && next == first + EMU_WARP) next = first;
  if (next == emu_here.launch.threads && site.call == ENDED.call) emu_switch(stack, scheduler);
  position = next == emu_here.launch.threads ? 0 : next;
  emu_here.thread = thread_at(position);
  emu_switch(stack, fibers[emu_here.thread].stack_pointer);
}

void emu_block_barrier(const emu_site &site) { meet(site, true); }

/* Two rows by turns: a lane that is through may bring its next value before others have looked at this one's.
 */
const uint64_t *emu_exchange(uint64_t mine, const emu_site &site) {
  static uint64_t rows[2][EMU_MOST_THREADS];
  static bool turn[EMU_MOST_THREADS / EMU_WARP];
  uint32_t warp = emu_here.thread / EMU_WARP;
  if (position % EMU_WARP == 0) turn[warp] = !turn[warp];
  uint64_t *row = rows[turn[warp]];
  row[emu_here.thread] = mine;
  meet(site, false);
  return row + warp * EMU_WARP;
}

void emu_waited() { fibers[emu_here.thread].waited = true; }
void emu_check_waited(const char *call) {
  if (emu_here.launch.overlaps && !fibers[emu_here.thread].waited)
    emu_fatal("%s before wait_for_earlier_kernels", call);
}

/* ---- blocks */

static void run_thread() {
  emu_here.launch.kernel->body(emu_here.launch.args);
  meet(ENDED, true);
}

static void run_block() {
  for (uint32_t i = 0; i < emu_here.launch.threads; i++) {
    void **frame = reinterpret_cast<void **>(fibers[i].top) - FRAME;
    memset(frame, 0, FRAME * sizeof *frame);
    frame[RETURN] = reinterpret_cast<void *>(run_thread);
    fibers[i].stack_pointer = frame;
    fibers[i].waited = false;
  }
  memset(emu_here.shared, EMU_POISON, static_cast<size_t>(shared_end - emu_here.shared));
  position = 0;
  emu_here.thread = thread_at(0);
  emu_switch(&scheduler, fibers[emu_here.thread].stack_pointer);
}

void emu_run(const emu_launch &launch, emu_order order) {
  if (shared_end == nullptr) make_machine();
  static char signal_stack[64 * 1024]; /* a thread may have used up its own */
  stack_t stack = {}, earlier_stack;
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof signal_stack;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaltstack(&stack, &earlier_stack);
  sigaction(SIGSEGV, &action, &earlier_segv);
  sigaction(SIGBUS, &action, &earlier_bus);

  descending = order == emu_order::descending;
  emu_here.launch = launch;
  emu_here.shared = shared_end - round_up(launch.shared, 16);
  for (uint32_t i = 0; i < launch.blocks; i++) {
    emu_here.block = descending ? launch.blocks - 1 - i : i;
    run_block();
  }
  emu_here.launch.kernel = nullptr;

  sigaction(SIGSEGV, &earlier_segv, nullptr);
  sigaction(SIGBUS, &earlier_bus, nullptr);
  sigaltstack(&earlier_stack, nullptr);
}
