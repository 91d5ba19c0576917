#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every version of clang-format formats a little differently: the one of Debian 12 decides.
set -eu
cd "$ROOT"
for clang_format in clang-format-14 clang-format none; do
  command -v $clang_format >/dev/null && $clang_format --version | grep -q 'version 14\.' && break
done
if [ $clang_format = none ] || ! command -v git >/dev/null || ! git rev-parse >/dev/null 2>&1; then
  echo "skipped: needs clang-format 14 and git's list of files"
  exit 77
fi

failed=0
for file in $(git ls-files '*.c' '*.h' '*.cpp'); do
  if [ -e "$file" ] && ! $clang_format "$file" | cmp -s - "$file"; then
    echo "$file: not formatted (make format)"
    failed=1
  fi
done
exit $failed
