#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh FILE.test BINARY_DIRECTORY...: runs a transcript and compares. Lines of a transcript:
#   $ command     starts a case; further such lines continue the command
#   > text        a line of its standard output, exactly      ~ regex   a line that matches instead
#   ! text        its standard error, exactly                 = N       its exit code, 0 if not given
# Anything else is a comment. Cases of one file share a fresh directory, where they may leave files.
set -u
file=$(realpath "$1")
shift
for directory; do PATH=$(realpath "$directory"):$PATH; done
export LC_ALL=C source_tree=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# limit KILOBYTES COMMAND...: with so much address space. Sanitizers reserve far more, and go without.
limit() {
  local kilobytes=$1
  shift
  if [ -n "${SUMAC_TEST_SANITIZED:-}" ]; then "$@"; else (ulimit -v "$kilobytes" && exec "$@"); fi
}
export -f limit

last='' command='' want_out=() want_err='' want_code=0 line_number=0 case_line=0 cases=0 failures=0

fail() {
  echo "$file:$case_line: $1"
  failures=$((failures + 1))
}

finish() {
  [ -n "$command" ] || return
  cases=$((cases + 1))
  local out err code line i matches
  out=$(bash -c "$command" </dev/null 2>"$work/.err"; echo "code $?")
  code=${out##*code }
  out=${out%code *}
  err=$(cat "$work/.err")
  [ "$code" = "$want_code" ] || fail "exit code $code, not $want_code: $command${err:+ ($err)}"
  [ "$err" = "$want_err" ] || fail "stderr '$err', not '$want_err'"
  i=0
  matches=yes
  while IFS= read -r line; do
    if [ $i -ge ${#want_out[@]} ]; then
      matches=no
    elif [ "${want_out[$i]:0:1}" = '>' ]; then
      [ "$line" = "${want_out[$i]:2}" ] || matches=no
    else
      [[ $line =~ ^(${want_out[$i]:2})$ ]] || matches=no
    fi
    i=$((i + 1))
  done < <(printf '%s' "$out")
  [ $i -eq ${#want_out[@]} ] && [ $matches = yes ] ||
    fail "stdout: $command"$'\n'"$out"$'\n'"--- but should be"$'\n'"$(printf '%s\n' "${want_out[@]}")"
  command='' want_out=() want_err='' want_code=0
}

while IFS= read -r line || [ -n "$line" ]; do
  line_number=$((line_number + 1))
  case $line in
    '$ '*)
      if [ "$last" != '$' ]; then
        finish
        case_line=$line_number
      fi
      command+="${line:2}"$'\n'
      ;;
    '> '* | '>' | '~ '*) want_out+=("$line") ;;
    '! '*) want_err+="${want_err:+$'\n'}${line:2}" ;;
    '= '*) want_code=${line:2} ;;
  esac
  last=${line:0:1}
done <"$file"
finish
echo "$cases cases, $failures failures"
[ $failures -eq 0 ] && [ $cases -gt 0 ]
