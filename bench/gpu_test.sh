#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_test.sh BENCH_GPU: under the emulated driver, each point is a JSON row, and none is wrong.
set -eu
measure() {
  "$@" --mb 1 --calls 3 --repetitions 2 --sizes 1024,16384 --ops sum,dot,mean,var,std,norm1,norm2 \
    --dtypes f32,bf16,e5m2,i16
}
# Squares of what covers the whole range overflow an accumulator of the type itself, as they may.
rows=$(measure "$1" && measure "$1" --data wide --accs exact)
count=$(echo "$rows" | wc -l) right=$(echo "$rows" | grep -c '^{"who": "sumac", .*"wrong": 0, .*}$')
echo "$rows" | grep -v '"wrong": 0, .*}$' || true
echo "$right of $count rows are right"
# 2 sizes, 7 operations; 4 dtypes in 3 accumulators each, and once more in one.
[ "$count" -eq $((2 * 7 * (4 * 3 + 4))) ] && [ "$right" -eq "$count" ]
