#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -eu
if ! command -v cppcheck >/dev/null; then
  echo "skipped: no cppcheck"
  exit 77
fi
cppcheck --quiet --std=c11 --language=c -D__x86_64__ --error-exitcode=1 -j 2 \
  --enable=warning,portability --suppressions-list="$SOURCE/cppcheck.txt" \
  --project="$BUILD/compile_commands.json" --file-filter="$ROOT/src/*" --file-filter="$ROOT/cli/*"
