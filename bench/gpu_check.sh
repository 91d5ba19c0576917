#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh LIBSUMAC RESULTS [PART...]: the tests of the CUDA backend on this machine's own GPU, with the
# static library LIBSUMAC of this tree. One line a part, kept in the file RESULTS: a part that passed there is
# not run again. CMOCKA is a directory with cmocka.h and libcmocka.so.0, where the system has none;
# SANITIZER=none leaves its tools out, ALL=1 adds the long walks.
set -u
library=$(realpath "$1")
results=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmocka=${CMOCKA:+-I$CMOCKA $CMOCKA/libcmocka.so.0 -Wl,-rpath,$CMOCKA}
touch "$results"

shared="tests/data.c tests/view.c tests/device.c tests/engines.c tests/everywhere.c tests/oracle/oracle.c"
build() { # PROGRAM SOURCES...
  program=$1
  shift
  # shellcheck disable=SC2086
  ${CC:-cc} -std=c17 -O2 -g -D_GNU_SOURCE -ffp-contract=off -w -Iinclude -Isrc -Itests \
    -o "$work/$program" "$@" "$library" ${cmocka:--lcmocka} -lpthread -ldl -lm || exit 1
}
# shellcheck disable=SC2086
build conformance tests/conformance.c $shared
# shellcheck disable=SC2086
build cases tests/cases.c $shared
build backend tests/cuda/backend.c tests/data.c tests/view.c tests/device.c tests/oracle/oracle.c

failed=0
part() { # NAME COMMAND...
  name=$1
  shift
  case " $wanted " in "  " | *" ${name%%.*} "* | *" $name "*) ;; *) return ;; esac
  grep -q "^$name: passed" "$results" && return
  begin=$(date +%s)
  if "$@" >"$work/log" 2>&1; then
    outcome=passed
  else
    outcome="FAILED ($?)"
    failed=1
  fi
  last=$(grep -E 'differences$|PASSED|ERROR SUMMARY|RACECHECK SUMMARY' "$work/log" | tail -2 | tr '\n' ' ')
  echo "$name: $outcome, $(($(date +%s) - begin)) s: $last" | tee -a "$results"
  [ "$outcome" = passed ] || grep -E 'ERROR|difference|accumulator|=====' "$work/log" | head -20
}

wanted="$*"
cd "$work" || exit 1
part backend ./backend
part cases ./cases cuda
for dtype in f64 f32 f16 bf16 e4m3fn e5m2 i8 i16 i32 i64 u8 u16 u32 u64 bool; do
  part "conformance.$dtype" ./conformance $dtype cuda
done
if [ "${SANITIZER:-}" != none ]; then
  for tool in memcheck initcheck synccheck racecheck; do
    for dtype in f64 f32 bf16 f16 e4m3fn e5m2 i32 i64; do
      part "$tool.$dtype" compute-sanitizer --tool $tool --error-exitcode 9 ./conformance $dtype cuda few
    done
  done
fi
for dtype in f64 f32 f16 bf16 e4m3fn e5m2 i8 i16 i32 i64 u8 u16 u32 u64 bool; do
  [ "${ALL:-}" ] && part "all.$dtype" ./conformance $dtype cuda all
done
exit $failed
