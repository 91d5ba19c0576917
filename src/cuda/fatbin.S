/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled kernels (SUMAC_FATBIN, a file), if this build has any, and the names of what they are compiled
 * for. A program that links an object of its own made of this file has other kernels: tests do.
 */
  .section .rodata
  .balign 16 /* the driver reads the fatbin's header in words of 8 bytes */
  .globl sumac_fatbin, sumac_fatbin_targets
  .hidden sumac_fatbin, sumac_fatbin_targets
sumac_fatbin:
#ifdef SUMAC_FATBIN
  .incbin SUMAC_FATBIN
#endif
sumac_fatbin_targets:
  .asciz SUMAC_FATBIN_TARGETS

  .section .note.GNU-stack, "", %progbits
