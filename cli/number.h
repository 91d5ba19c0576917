/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text: decimal to every dtype with one rounding, and back with the fewest digits that
 * read as the same bits.
 */
#ifndef SUMAC_CLI_NUMBER_H
#define SUMAC_CLI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sumac/sumac.h"

/* digits · 10^exp10, or a little more than that: `more` says that non-zero digits beyond the 19 that
 * `digits` has room for were left off. */
struct decimal {
  uint64_t digits;
  int64_t exp10;
  enum { DECIMAL_FINITE, DECIMAL_INF, DECIMAL_NAN } kind;
  bool negative;
  bool more;
};

/* Reads the number at p: [+-] digits [. digits] [e [+-] digits], inf, infinity or nan in any case.
 * Returns where it ends, or NULL if there is none. Whatever follows the text must be readable for 8
 * bytes, and the text must end in a byte that no number contains. */
const char *decimal_scan(const char *p, struct decimal *decimal);

enum number_status { NUMBER_OK, NUMBER_FRACTION, NUMBER_RANGE };

/* Stores the decimal, whose text is [text, text + length), as one element of `dtype`: floats rounded
 * once to nearest, ties to even; integers must be whole and fit; bool must be 0 or 1. */
enum number_status number_store(sumac_dtype dtype, const struct decimal *decimal, const char *text,
                                size_t length, void *element);

#define NUMBER_MAX_TEXT 48

/* Writes one element as text with a terminating 0: the shortest decimal, or exact hexadecimal. */
void number_shortest(sumac_dtype dtype, const void *element, char text[NUMBER_MAX_TEXT]);
void number_hex(sumac_dtype dtype, const void *element, char text[NUMBER_MAX_TEXT]);

/* The element's bits, and the value of a float element (exact: double holds every float dtype). */
uint64_t number_bits(sumac_dtype dtype, const void *element);
double number_to_double(sumac_dtype dtype, uint64_t bits);

#endif
