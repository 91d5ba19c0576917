/* SPDX-License-Identifier: Apache-2.0
 *
 * What the emulated driver tells tests, beside the CUDA driver's interface. All of these are exported.
 *
 * In the environment:
 *   SUMAC_EMU_DEVICES   how many there are (default 1; 0: none)
 *   SUMAC_EMU_DRIVER    the driver's version (default 13000)
 *   SUMAC_EMU_ARCH      the devices' compute capability (default 90)
 *   SUMAC_EMU_SMS       their multiprocessors (default 2)
 *   SUMAC_EMU_ORDER     ascending: block 0 and thread 0 run first; descending: last; by turns: either, from
 *                       launch to launch; both (default): every launch is run in both ways, and the device's
 *                       memory must hold the same bytes afterwards, which takes ten times longer
 *   SUMAC_EMU_FAIL      "cuMemAlloc_v2:2=700,cuInit:*=34": the second cuMemAlloc_v2 and every cuInit do
 *                       nothing but return this error
 */
#ifndef SUMAC_EMU_H
#define SUMAC_EMU_H

#include <stdint.h>

#ifdef __cplusplus
#define EMU_API extern "C" __attribute__((visibility("default")))
#else
#define EMU_API extern
#endif

EMU_API uint64_t emu_launches(void);           /* since the start or emu_reset */
EMU_API uint64_t emu_allocations(void);        /* of device and pinned memory, likewise */
EMU_API uint64_t emu_calls(const char *entry); /* of one entry point, likewise */
EMU_API uint64_t emu_live(void);               /* allocations that have not been freed */
EMU_API void emu_reset(void);                  /* counts to 0, faults as the environment has them */
EMU_API void emu_fail(const char *faults);     /* these instead, counted from now; may be NULL */
EMU_API const char *emu_kernel_name(int i);    /* NULL past the last */

#endif
