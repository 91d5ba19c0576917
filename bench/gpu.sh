#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu.sh [smoke|full]: builds what is needed and measures the CUDA device 0 by the protocol of protocol.h, the
# library first and then its peers, dtype by dtype. Run it again after an interruption: what is in $OUT stays.
#
#   OUT      results (default bench/results/gpu-DATE): sumac, peers, peers_new, python .jsonl; device.jsonl;
#            report.html and report.md, made of them by gpu_report.py; log
#   BUILD    what is built (default build/gpu)
#   CCCL     a directory of headers, or a wheel of nvidia-cuda-cccl, newer than the toolkit's (default: none)
#   PYTHON   with torch and, if they shall be measured, cupy and jax (default python3)
#   DTYPES   a list instead of the mode's own
#   LIMIT    seconds after which no measurement begins or goes on (default: smoke 165, full 525)
#   OPTIONS  of every program, as in protocol.h, instead of the mode's own
# shellcheck disable=SC2086 # $options are several
set -eu
cd "$(dirname "$0")/.."
mode=${1:-full}
out=${OUT:-bench/results/gpu-$(date +%F)}
build=${BUILD:-build/gpu}
python=${PYTHON:-python3}
case $mode in
smoke)
  dtypes="f64 f32 f16 e4m3fn"
  options="--sizes 4096,1048576,67108864,1073741824 --repetitions 5"
  float_ops=sum,dot limit=165
  ;;
full)
  dtypes="f64 f32 f16 bf16 e4m3fn e5m2 i8 i16 i32 i64"
  options="--repetitions 9"
  float_ops=sum,dot,mean,var,norm1,norm2 limit=525
  ;;
*)
  echo "usage: $0 [smoke|full]" >&2
  exit 2
  ;;
esac
dtypes=${DTYPES:-$dtypes}
options=${OPTIONS:-$options}
end=$(($(date +%s) + ${LIMIT:-$limit}))
seconds_left() { # at least 1
  left=$((end - $(date +%s)))
  [ $left -gt 0 ] && echo $left || echo 1
}
mkdir -p "$out" "$build"
log=$out/log
say() { echo "$(date +%T) $*" | tee -a "$log"; }

# ---- the device

fields=name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.draw,power.limit,temperature.gpu
device() { # WHEN: a row about the device, also printed
  nvidia-smi -i 0 --query-gpu=$fields --format=csv,noheader |
    awk -F', *' -v names="$fields" -v facts="when,$1,date,$(date +%FT%T),commit,$commit" '{
      split(names, name, ",")
      count = split(facts, fact, ",")
      printf "{\"who\": \"device\""
      for (i = 1; i < count; i += 2) printf ", \"%s\": \"%s\"", fact[i], fact[i + 1]
      for (i = 1; i <= NF; i++) printf ", \"%s\": \"%s\"", name[i], $i
      print "}"
    }' | tee -a "$out/device.jsonl"
}
commit=${COMMIT:-$(git describe --always --dirty 2>/dev/null || echo unknown)}
if ! arch=$(nvidia-smi -i 0 --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d .); then
  echo "$0: nvidia-smi finds no device" >&2
  exit 5
fi
device start

# ---- the build: three compilations at once, then links

nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
peers() { # OBJECT OPTIONS...
  object=$1
  shift
  [ -e "$build/$object" ] && [ -z "$(find bench/gpu_peers.cu bench/*.h -newer "$build/$object")" ] ||
    "$nvcc" -std=c++17 -O3 -gencode "arch=compute_$arch,code=sm_$arch" "$@" -Iinclude -Ibench \
      -c bench/gpu_peers.cu -o "$build/$object"
}
link() { # OBJECT PROGRAM
  "$nvcc" "$build/$1" "$build/bench/libbench_protocol.a" "$build/src/libsumac.a" -o "$build/$2" \
    -lm -lpthread -ldl
}
case ${CCCL:-} in
*.whl)
  "$python" -m zipfile -e "$CCCL" "$build/cccl"
  CCCL=$(dirname "$(find "$build/cccl" -path '*/cub/cub.cuh')")/..
  ;;
esac
say "building for sm_$arch"
[ -z "${CCCL:-}" ] || peers peers_new.o -DPEERS_CUB_ONLY -I"$CCCL" >>"$log" 2>&1 &
newer=$!
peers peers.o >>"$log" 2>&1 &
older=$!
generator=$(command -v ninja >/dev/null && echo Ninja || echo "Unix Makefiles")
{
  cmake -G "$generator" -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DSUMAC_CUDA_ARCHS="sm_$arch" \
    -DSUMAC_BUILD_TESTS=OFF -DSUMAC_BUILD_CLI=OFF -DSUMAC_SHARED=OFF &&
    cmake --build "$build" --target bench_gpu --parallel
} >>"$log" 2>&1 || { tail -n 30 "$log" >&2; exit 1; }
{ wait $older && link peers.o peers; } || say "left out: CUB, cuBLAS, reading: they do not build"
if [ -n "${CCCL:-}" ]; then
  { wait $newer && link peers_new.o peers_new; } || say "left out: the newer CUB: it does not build"
fi

# ---- the measurements

# The cuBLAS of torch's wheels, or else the toolkit's.
CUBLAS=${CUBLAS:-$("$python" -c 'import nvidia, pathlib
for path in nvidia.__path__:
  for file in pathlib.Path(path).rglob("libcublas.so.1?"): print(file)' 2>/dev/null | head -n 1)}
[ -n "$CUBLAS" ] ||
  CUBLAS=$(find "$(dirname "$nvcc")/../lib64/" -name 'libcublas.so.1?' 2>/dev/null | head -n 1)
export CUBLAS

# measure FILE DTYPE DATA PROGRAM OPTIONS...: adds rows to FILE, unless it has some for this dtype and data.
# What is not through in time is left for the next run; what fails leaves the rows that it had.
measure() {
  file=$out/$1.jsonl dtype=$2 data=$3 status=0
  shift 3
  ! grep -Eqs "\"dtype\": \"$dtype\".*\"data\": \"($data)" "$file" || return 0
  [ -x "$1" ] || return 0
  timeout "$(seconds_left)" "$@" --dtypes "$dtype" $options >"$build/rows" 2>>"$log" || status=$?
  [ $status -eq 124 ] || cat "$build/rows" >>"$file"
  [ $status -eq 0 ] || say "left out ($status): $dtype: $*"
}

for dtype in $dtypes; do
  say "$dtype"
  case $dtype in
  f64) ops=$float_ops accs=exact,f64 ;;
  f32 | f16 | bf16) ops=$float_ops accs=exact,f32 ;;
  e4m3fn | e5m2) ops=sum,dot accs=exact,f32 ;;
  *) ops=sum,dot accs=exact,i64 ;;
  esac
  measure sumac "$dtype" "normal|random" "$build/bench/bench_gpu" --ops $ops --accs $accs
  measure peers "$dtype" "normal|random" "$build/peers" --ops $ops
  measure peers_new "$dtype" "normal|random" "$build/peers_new" --ops sum,dot
  case $dtype in
  f64 | f32 | bf16)
    measure sumac "$dtype" "whole range" "$build/bench/bench_gpu" --ops sum,dot --accs exact \
      --data wide,outliers
    ;;
  esac
done
device middle
missing=
for dtype in $dtypes; do
  grep -qs "\"dtype\": \"$dtype\"" "$out/python.jsonl" || missing=$missing,$dtype
done
say "python: ${missing#,}"
if [ -n "$missing" ]; then
  timeout "$(seconds_left)" "$python" bench/gpu_peers.py --dtypes "${missing#,}" $options \
    >>"$out/python.jsonl" 2>>"$log" || say "left out: some of torch, CuPy and JAX"
fi
device end

# ---- what came out

"$python" bench/gpu_report.py "$out"
say "done"
