#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same source in two directories gives the same libraries, bit by bit.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for place in one two/and/deeper; do
  mkdir -p "$work/$place"
  cp -R "$ROOT/CMakeLists.txt" "$ROOT/cmake" "$ROOT/include" "$ROOT/src" "$ROOT/LICENSE" "$ROOT/README.md" \
    "$work/$place"
  "$CMAKE" -S "$work/$place" -B "$work/$place/build" -G Ninja -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_C_FLAGS=-g "-DSUMAC_CUDA_ARCHS=sm_90;compute_90" \
    -DSUMAC_BUILD_CLI=OFF -DSUMAC_BUILD_TESTS=OFF -DSUMAC_BUILD_BENCH=OFF >/dev/null
  "$CMAKE" --build "$work/$place/build" >/dev/null
done
for library in libsumac.so libsumac.a; do
  cmp "$work/one/build/src/$library" "$work/two/and/deeper/build/src/$library"
done
