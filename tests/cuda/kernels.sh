#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kernels.sh NVCC SOURCE EMULATED: of the kernels' PTX: the emulated driver EMULATED runs the same ones; those
# of contiguous tensors load 16 bytes at a time, and have registers for all that they hold.
set -eu
nvcc=$1 source=$2 emulated=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$nvcc" -ptx -arch=compute_90 -O3 -std=c++17 -fmad=false -I"$source/src" -I"$source/include" \
  -o "$work/kernels.ptx" "$source/src/cuda/kernels/kernels.cu"

sed -n 's/^\.visible \.entry \([A-Za-z0-9_]*\).*/\1/p' "$work/kernels.ptx" | sort >"$work/compiled"
tr -c '[:alnum:]_' '\n' <"$emulated" |
  grep -Ex 'sumac_[A-Za-z0-9]*_[a-z]*_[A-Z0-9]*(_strided|_many)?' | sort -u >"$work/emulated"
[ -s "$work/compiled" ]
diff "$work/compiled" "$work/emulated"

failed=0
awk '/^\.visible \.entry/ { name = $3; sub(/\(.*/, "", name); wide = 0 }
     name && /ld\.global\.nc[^ ]*\.v4\.[a-z]32/ { wide++ }
     name && /^}/ { if (name !~ /_strided$/ && !wide) print name ": no loads of 16 bytes"; name = "" }' \
  "$work/kernels.ptx" >"$work/narrow"
cat "$work/narrow"
[ ! -s "$work/narrow" ] || failed=1

# A kernel of each type, and of each map over two: all of them would take minutes.
grep -E '_sum_[A-Z0-9a-z]*$|_(abs|square|dot)_F(64|32)$|_(sum|square)_F(64|32)_many$' \
  "$work/compiled" >"$work/some"
# shellcheck disable=SC2046
"$nvcc" -cubin -arch=sm_90 -O3 -Xptxas -v $(sed 's/^/-Xptxas -e,/' "$work/some") -o "$work/cubin" \
  "$work/kernels.ptx" >"$work/log" 2>&1 || cat "$work/log"
while read -r name; do
  told=$(grep -A1 "Function properties for $name\$" "$work/log" | tail -1)
  case $told in *" 0 bytes spill stores, 0 bytes spill loads"*) continue ;; esac
  echo "$name: $told"
  failed=1
done <"$work/some"
exit $failed
