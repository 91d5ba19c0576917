/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SUMAC_BENCH_PARTS_H
#define SUMAC_BENCH_PARTS_H

#include <stddef.h>

/* Calls body(arg, part, begin, end) once for each of `threads` equal parts of [0, n), each in a thread of
 * its own. Pages are touched first by the part that fills them, so on a machine with several memory
 * nodes arrays lie spread over them. */
void in_parts(int threads, size_t n, void (*body)(void *arg, int part, size_t begin, size_t end), void *arg);

#define MAX_PARTS 1024

#endif
