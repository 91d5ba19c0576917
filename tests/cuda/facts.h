/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FACTS_H
#define FACTS_H

extern const struct fact {
  const char *what; /* NULL ends the list */
  long long value;
} facts_ours[], facts_theirs[];

#endif
