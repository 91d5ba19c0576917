#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_test.sh BENCH_GPU: under the emulated driver, each point is a JSON row, and none is wrong.
set -eu
rows=$("$1" --mb 1 --calls 3 --repetitions 2 --sizes 1024,16384 --ops sum,dot,mean,var,std,norm1,norm2 \
  --dtypes f32,bf16,e5m2,i16 --data normal,wide)
count=$(echo "$rows" | wc -l) right=$(echo "$rows" | grep -c '^{"who": "sumac", .*"wrong": 0, .*}$')
echo "$rows" | grep -v '"wrong": 0, .*}$' || true
echo "$right of $count rows are right"
# 2 sizes, 7 operations, 4 dtypes, 2 kinds of data; and accumulators
[ "$count" -ge 112 ] && [ "$right" -eq "$count" ]
