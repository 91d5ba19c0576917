#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# consume.sh HOW builds and runs a consumer of the sumac that is installed in $PREFIX. Needs CC, CMAKE,
# SOURCE (this directory) and WORK (a scratch directory).
set -eu

rm -rf "$WORK/$1"
mkdir -p "$WORK/$1"
cd "$WORK/$1"
warnings="-std=c17 -Wall -Wextra -Wpedantic -Werror"
pkg_config() { PKG_CONFIG_PATH="$LIBDIR/pkgconfig" pkg-config "$@"; }
needs_shared() { readelf -d consumer | grep -q 'NEEDED.*libsumac'; }

case $1 in
find_package)
  "$CMAKE" -S "$SOURCE/project" -B . -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_C_COMPILER="$CC" \
    -DWANTED_VERSION="$VERSION"
  "$CMAKE" --build .
  ctest --output-on-failure --no-tests=error
  ;;
find_package_wrong_version)
  # A version that is not there must be refused, and for that reason.
  if "$CMAKE" -S "$SOURCE/project" -B . -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_C_COMPILER="$CC" \
    -DWANTED_VERSION=999.0 >log 2>&1; then
    exit 1
  fi
  grep -q 'requested version "999.0"' log
  ;;
pkg_config_shared)
  $CC $warnings "$SOURCE/consumer.c" $(pkg_config --cflags --libs sumac) -o consumer
  needs_shared
  LD_LIBRARY_PATH="$LIBDIR" ./consumer
  ;;
pkg_config_static)
  $CC $warnings -static "$SOURCE/consumer.c" $(pkg_config --static --cflags --libs sumac) -o consumer
  ./consumer
  ;;
plain_shared)
  $CC $warnings -I"$PREFIX/include" "$SOURCE/consumer.c" -L"$LIBDIR" -lsumac -o consumer
  needs_shared
  LD_LIBRARY_PATH="$LIBDIR" ./consumer
  ;;
plain_static)
  $CC $warnings -I"$PREFIX/include" "$SOURCE/consumer.c" "$LIBDIR/libsumac.a" -lm -pthread -o consumer
  if needs_shared; then exit 1; fi
  ./consumer
  ;;
*)
  echo "consume.sh: no such way: $1" >&2
  exit 2
  ;;
esac
