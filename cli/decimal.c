/* SPDX-License-Identifier: Apache-2.0
 *
 * --decimal: the exact sum of decimals as they are written. The accumulator is a fixed-point decimal
 * number in limbs of nine digits, added without carries, like the library's binary one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "number.h"

enum { LIMB_DIGITS = 9, LIMB = 1000000000, LIMBS = 1200, POINT = LIMBS / 2 };
enum { REACH = (POINT - 4) * LIMB_DIGITS }; /* digits at most that far left or right of the point */

static int64_t limbs[LIMBS]; /* least significant first; limb POINT holds the units */
static int64_t pending;      /* blocks added since the last carry; each adds less than 2^30 to a limb */

static void carry(void) {
  int64_t over = 0;
  for (int i = 0; i < LIMBS; i++) {
    int64_t limb = limbs[i] + over;
    over = limb / LIMB;
    limbs[i] = limb - over * LIMB;
  }
  pending = 0;
}

/* Adds block · 10^exponent, block below 10^18. */
static void add_block(int64_t block, int64_t exponent, bool negative) {
  static const int64_t ten[LIMB_DIGITS] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
  int64_t shifted = exponent + (int64_t)POINT * LIMB_DIGITS;
  int i = (int)(shifted / LIMB_DIGITS);
  int64_t scale = ten[shifted % LIMB_DIGITS], rest = 0;
  int64_t parts[2] = {block % LIMB, block / LIMB};
  for (int k = 0; k < 2; k++) {
    int64_t t = parts[k] * scale + rest;
    rest = t / LIMB;
    limbs[i + k] += negative ? -(t % LIMB) : t % LIMB;
  }
  limbs[i + 2] += negative ? -rest : rest;
  if (++pending == INT64_C(1) << 32) carry();
}

/* Adds the number as blocks of 18 digits. What decimal_scan() found will not do: it keeps 19. */
static void add_number(struct text *t, const struct decimal *d, const char *token, size_t length) {
  const char *p = token + (*token == '-' || *token == '+'), *end = token + length;
  const char *e = p, *point = NULL;
  while (e < end && (*e | 0x20) != 'e') {
    if (*e == '.') point = e;
    e++;
  }
  int64_t exponent = 0; /* what the 'e' says, bounded */
  if (e < end) {
    long long written = strtoll(e + 1, NULL, 10);
    const long long far = 1LL << 40; /* more than a field has digits */
    exponent = written > far ? far : written < -far ? -far : written;
  }
  while (p < e && (*p == '0' || *p == '.')) p++;
  if (p == e) return; /* zero */
  /* p is at the first digit that counts, so many places before the point or (negative) behind it. The
   * number lies below 10^high, and its last digit counts 10^low. */
  int64_t places = (point ? point : e) - p;
  int64_t high = exponent + places + (places < 0), low = exponent - (point ? e - point - 1 : 0);
  if (high > REACH || low < -REACH)
    text_fail(t, token, length, "has digits beyond the 5364 places on either side of the point");

  int64_t block = 0, next = high; /* the exponent of the digit before p */
  int digits = 0;
  for (; p < e; p++) {
    if (*p == '.') continue;
    block = block * 10 + (*p - '0');
    next--;
    if (++digits == 18) {
      add_block(block, next, d->negative);
      block = digits = 0;
    }
  }
  if (digits) add_block(block, next, d->negative);
}

static void print_sum(void) {
  carry();
  int top = LIMBS - 1;
  while (top > 0 && limbs[top] == 0) top--;
  bool negative = limbs[top] < 0;
  if (negative)
    for (int i = 0; i < LIMBS; i++) limbs[i] = -limbs[i];
  for (int i = 0; i < top; i++) { /* all limbs of one sign: the top one is positive, so it can lend */
    if (limbs[i] >= 0) continue;
    limbs[i] += LIMB;
    limbs[i + 1]--;
  }
  if (top < POINT) top = POINT;
  while (top > POINT && limbs[top] == 0) top--;
  printf("%s%lld", negative ? "-" : "", (long long)limbs[top]);
  for (int i = top - 1; i >= POINT; i--) printf("%09lld", (long long)limbs[i]);
  char fraction[POINT * LIMB_DIGITS + 1];
  for (int i = 0; i < POINT; i++)
    snprintf(fraction + i * LIMB_DIGITS, LIMB_DIGITS + 1, "%09lld", (long long)limbs[POINT - 1 - i]);
  size_t length = POINT * LIMB_DIGITS;
  while (length > 0 && fraction[length - 1] == '0') length--;
  if (length) printf(".%.*s", (int)length, fraction);
  putchar('\n');
}

void decimal_sum(struct input *in, bool skip_nan) {
  struct decimal d;
  const char *token;
  size_t length;
  while (text_next(in->text, &d, &token, &length)) {
    if (d.kind == DECIMAL_NAN && skip_nan) continue;
    if (d.kind != DECIMAL_FINITE) text_fail(in->text, token, length, "is no decimal");
    add_number(in->text, &d, token, length);
  }
  input_verify(in);
  print_sum();
}
