#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shared library exports what the header declares, which is what the checked list says, and needs
# nothing but the C library; the static one has no other global name that could clash with a user's.
set -eu

shared=$BUILD/src/libsumac.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

grep -v '^#' "$SOURCE/symbols.txt" | sort >"$work/listed"
nm -D --defined-only "$shared" | awk '{ print $3 }' | sort >"$work/exported"
sed -n 's/^SUMAC_API .*[ *]\(sumac_[a-z0-9_]*\)(.*/\1/p' "$ROOT/include/sumac/sumac.h" |
  sort >"$work/declared"
diff "$work/listed" "$work/exported"
diff "$work/listed" "$work/declared"

# What a library must not do, it cannot do when it does not import the means.
forbidden='^(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|stdout|stderr)$'
forbidden="$forbidden|^__v?f?printf_chk$"
forbidden="$forbidden|^(exit|_exit|abort|__assert_fail|quick_exit|signal|sigaction|system)\$"
if nm -D --undefined-only "$shared" | awk '{ sub(/@.*/, "", $2); print $2 }' | grep -E "$forbidden"; then
  echo "a library that prints, ends the process or takes signals"
  exit 1
fi

if readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -Ev '^(libc|libm|libdl|libpthread)\.so\.|^ld-linux'; then
  echo "a library that is not part of the C library is linked"
  exit 1
fi

if nm --defined-only --extern-only "$BUILD/src/libsumac.a" | awk 'NF == 3 { print $3 }' |
  grep -v '^sumac_'; then
  echo "a global name without the prefix sumac_"
  exit 1
fi
