#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# budget.sh CTEST_LOG: fails if a label took longer than tests/budget.txt allows. Silent otherwise: tests
# grow slow one at a time, and nobody looks.
awk '
  FNR == NR { if ($1 !~ /^#/ && NF == 2) seconds[$1] = $2; next }
  /^Label Time Summary/ { summary = 1; next }
  summary && $2 == "=" && $4 ~ /^sec/ {
    labels++
    if (!($1 in seconds)) { print "budget: no budget for the label " $1; failed = 1 }
    else if ($3 > seconds[$1]) { print "budget: " $1 " took " $3 " s of " seconds[$1] " s"; failed = 1 }
  }
  END {
    if (!labels) { print "budget: no label times in the log"; failed = 1 }
    exit failed
  }' "$(dirname "$0")/../tests/budget.txt" "$1"
