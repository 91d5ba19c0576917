#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# registers.sh ISA NAME... : the hot loops of the functions NAME in the object of that instruction set keep
# their accumulators in registers. `registers.sh --self-test` shows that the check finds what it is for.
set -eu

# check OBJECT NAMES
check() { objdump -d --no-show-raw-insn "$1" | awk -v functions="$2" -f "$SOURCE/registers.awk"; }

if [ "$1" = --self-test ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # Sixty-four accumulators do not fit in the registers of any x86-64, eight do.
  cat >"$work/loops.c" <<'END'
typedef double V __attribute__((vector_size(16)));
#define LOOP(name, N)                                                                                        \
  V name(const V *x, long n) {                                                                               \
    V a[N] = {0};                                                                                            \
    for (long i = 0; i < n; i += N)                                                                          \
      _Pragma("GCC unroll 64") for (int k = 0; k < N; k++) a[k] += x[i + k] * x[i + k];                      \
    V s = a[0];                                                                                              \
    _Pragma("GCC unroll 64") for (int k = 1; k < N; k++) s += a[k];                                          \
    return s;                                                                                                \
  }
LOOP(eight, 8)
LOOP(sixty_four, 64)
END
  "$CC" -O2 -c "$work/loops.c" -o "$work/loops.o"
  check "$work/loops.o" eight
  if check "$work/loops.o" "eight sixty_four" >/dev/null; then
    echo "a loop that spills was not found"
    exit 1
  fi
  if check "$work/loops.o" "eight absent" >/dev/null; then
    echo "no function, and yet content"
    exit 1
  fi
  exit 0
fi

object=$BUILD/src/CMakeFiles/sumac_objects.dir/cpu/isa_$1.c.o
shift
check "$object" "$*"
