#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clang-tidy, with the checks of .clang-tidy, over what the build compiles below src/ and cli/.
set -eu
if ! command -v clang-tidy >/dev/null; then
  echo "skipped: no clang-tidy"
  exit 77
fi
sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$BUILD/compile_commands.json" |
  grep -E "^$ROOT/(src|cli)/.*\.c$" | sort -u |
  xargs -P 2 -n 2 clang-tidy -p "$BUILD" --quiet --warnings-as-errors='*'
