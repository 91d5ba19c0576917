#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Rules of the house that are about the text of the files (CONTRIBUTING.md gives the reasons).
set -eu
cd "$ROOT"
export LC_ALL=C.UTF-8 # a column is a character
failed=0
fault() {
  echo "$1"
  failed=1
}

# Outside git, in an unpacked archive, every file counts.
list() { git ls-files 2>/dev/null || find . -type f ! -path './build*' | sed 's|^\./||'; }
sources=$(list | grep -E '\.(c|h|def|cpp|S|sh|awk|cmake)$|(^|/)(CMakeLists\.txt|Makefile|run)$' || true)
[ -n "$sources" ] || fault "no sources found"

for file in $sources; do
  [ -e "$file" ] || continue # deleted, not yet committed
  sed 4q "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || fault "$file: no SPDX line on top"
  grep -nE '.{111}' "$file" | sed "s|^|$file: longer than 110: |" | grep . && failed=1
  grep -nE '[[:space:]]$' "$file" | sed "s|^|$file: space at the end of line |" | grep . && failed=1
done

# A body in a macro is not seen by debuggers, formatters and reviewers: functions or template files.
for file in $(echo "$sources" | grep -E '^(src|include|cli)/'); do
  [ -e "$file" ] || continue
  grep -nE '^[[:space:]]*#[[:space:]]*define.*\\$' "$file" | sed "s|^|$file: multi-line macro: |" |
    grep . && failed=1
done
exit $failed
