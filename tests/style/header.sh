#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# header.sh COMPILER... : the header stands alone, in each language and with each compiler that is here.
set -eu

header=$ROOT/include/sumac/sumac.h
for compiler; do
  case $compiler in
  *++*) language=c++ standards="c++17 c++20" ;;
  *) language=c standards="c99 c17" ;;
  esac
  for standard in $standards; do
    echo "$compiler -std=$standard"
    echo "#include \"$header\"" | "$compiler" -x $language -std=$standard -fsyntax-only \
      -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-unused-const-variable -Werror -
  done
done
