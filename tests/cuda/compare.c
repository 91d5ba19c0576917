/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include <stdio.h>

int main(void) {
  int facts = 0, wrong = 0;
  for (; facts_ours[facts].what; facts++) {
    const struct fact *ours = &facts_ours[facts], *theirs = &facts_theirs[facts];
    if (ours->value == theirs->value) continue;
    printf("%s is %lld, in cuda.h %lld\n", ours->what, ours->value, theirs->value);
    wrong++;
  }
  printf("%d facts, %d wrong\n", facts, wrong);
  return wrong || !facts;
}
